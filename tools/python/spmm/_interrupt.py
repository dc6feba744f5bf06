"""Calls that Ctrl-C may interrupt: the library works on a separate thread while the main thread waits."""

from __future__ import annotations

import threading
from typing import Any, Callable, List


class _Work:
    """One call on a thread. It is either run as a whole or, where begin() was taken away from it, not at all."""

    def __init__(self, body: Callable[[], Any]) -> None:
        self._body = body
        self._begin = threading.Lock()
        self._end = threading.Lock()
        self._end.acquire()
        self.is_over = False
        self._is_taken = False
        self.results: List[Any] = []
        self.errors: List[BaseException] = []

    def run(self) -> None:
        try:
            if self._begin.acquire(blocking=False):
                self.results.append(self._body())
        except BaseException as error:  # handed to the thread that waits
            self.errors.append(error)
        finally:
            self.is_over = True
            self._end.release()

    def wait(self) -> None:
        # A signal may reach another thread, which does not wake this one: it looks now and then.
        while not self.is_over:
            self._end.acquire(timeout=0.1)

    def stop(self, cancel: Callable[[], None], thread: threading.Thread) -> None:
        """Returns when the call is over, or will never begin, however often Ctrl-C is pressed meanwhile."""
        while True:
            try:
                cancel()
                if self._is_taken or self._begin.acquire(blocking=False):
                    self._is_taken = True
                else:
                    self.wait()
                    thread.join()
                return
            except KeyboardInterrupt:
                continue


def interruptible(body: Callable[[], Any], cancel: Callable[[], None]) -> Any:
    """body(), on another thread if this is the main one. If the wait is interrupted, cancel() is called, and the
    exception leaves only when body() has returned: nothing that it used is in use any more."""
    if threading.current_thread() is not threading.main_thread():
        return body()
    work = _Work(body)
    thread = threading.Thread(target=work.run, name="spmm", daemon=True)
    try:
        thread.start()
        work.wait()
        thread.join()
    except BaseException:
        work.stop(cancel, thread)
        work.results.clear()
        raise
    if work.errors:
        raise work.errors[0]
    return work.results[0]
