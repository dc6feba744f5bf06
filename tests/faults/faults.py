"""Lets each call of a program fail in turn, by shim/fault_shim.cpp, which is preloaded to it and shares fault_state.hpp.

SPMM_TEST_FAULTS=N takes N times as many points, "all" each one; SPMM_TEST_FAULTS_SHARE=K/N the K-th of N shares of them, from 0;
SPMM_TEST_FAULT_POINT="KIND MODE NUMBER" that point alone.
"""
import errno
import mmap
import os
import struct

from programs import FAULTY, NEGATIVE, OK, Place, Program

SHIM = FAULTY.parent / "libspmm_fault_shim.so"
OLD_OUTPUT = b"what an earlier run has written"
KINDS = ["open", "status", "read", "write", "pread", "pwrite", "fallocate", "ftruncate", "link", "rename", "sync", "folder", "permission", "lock",
         "mmap", "memory", "thread", "process", "socket", "send", "receive", "wait"]
MODES = ["none", "once", "from", "short", "interrupted", "slow"]
ERRORS = {"open": errno.EMFILE, "write": errno.ENOSPC, "pwrite": errno.ENOSPC, "fallocate": errno.ENOSPC, "permission": errno.EPERM,
          "mmap": errno.ENOMEM, "memory": errno.ENOMEM, "thread": errno.EAGAIN, "process": errno.EAGAIN, "socket": errno.EMFILE,
          "send": errno.ENOMEM, "receive": errno.ENOMEM}  # EIO otherwise
MOVES_BYTES = {"read", "pread", "write", "pwrite"}
MAY_BE_INTERRUPTED = MOVES_BYTES | {"fallocate", "ftruncate", "sync", "lock", "send", "receive", "wait"}
STATE = struct.Struct(f"=IIQi4x{len(KINDS)}QQ")
HANG = 60  # seconds: a product takes a hundredth of one


def modes_of(kind):
    """(how the kind fails, with which error)"""
    failing = [] if kind == "wait" else [(mode, ERRORS.get(kind, errno.EIO)) for mode in ("once", "from")]
    return failing + [("interrupted", errno.EINTR)] * (kind in MAY_BE_INTERRUPTED) + [("short", 0)] * (kind in MOVES_BYTES)


def chosen_points(num_calls, quick):
    """(kind, mode, number of the call, error): of each kind and mode `quick` evenly spread calls."""
    only = os.environ.get("SPMM_TEST_FAULT_POINT")
    if only is not None:
        kind, mode, at = only.split()
        return [(kind, mode, int(at), dict(modes_of(kind))[mode])]
    factor = os.environ.get("SPMM_TEST_FAULTS", "1")
    share, shares = map(int, os.environ.get("SPMM_TEST_FAULTS_SHARE", "0/1").split("/"))
    points = []
    for kind, calls in zip(KINDS, num_calls):
        count = calls if factor == "all" else min(calls, quick * int(factor))
        for mode, error in modes_of(kind):  # the middle of each of `count` equal shares
            points += [(kind, mode, 1 + (2 * p + 1) * calls // (2 * count), error) for p in range(count)]
    return points[share::shares]


class FaultFile:
    """The state that the library shares."""

    def __init__(self, path="/dev/shm" if os.path.isdir("/dev/shm") else "/tmp"):
        self.path = os.path.join(path, f"spmm-faults-{os.getpid()}")
        with open(self.path, "w+b") as file:
            file.truncate(STATE.size)
            self.memory = mmap.mmap(file.fileno(), STATE.size)

    def set(self, kind="open", mode="none", at=0, error=0):
        """Starts to count anew."""
        self.memory[:] = STATE.pack(KINDS.index(kind), MODES.index(mode), at, error, *(len(KINDS) + 1) * [0])

    def num_calls(self):
        return STATE.unpack(self.memory)[4:-1]

    def num_failed(self):
        return STATE.unpack(self.memory)[-1]

    def environment(self):
        return {"SPMM_FAULT_STATE": self.path, "LD_PRELOAD": str(SHIM)}


class Faults(Place):
    def setUp(self):
        super().setUp()
        self.state = FaultFile()
        self.addCleanup(os.remove, self.state.path)

    def problem_of(self, words, judge, codes, point=()):
        """What is wrong with the end of a run, or "". `judge` says it of what is left."""
        self.state.set(*point)
        environment = self.state.environment()
        words = list(map(str, words))
        launched = [x for x, word in enumerate(words) if word.endswith("/spmm-mpi")]  # the library is not for the launcher
        for at in launched:
            words[at:at] = ["/usr/bin/env", f"LD_PRELOAD={environment.pop('LD_PRELOAD')}"]
        result = Program(*words, env=environment).result(HANG)
        if result.code < 0:
            return f"ended by signal {-result.code}: {result}"
        if result.code != OK:
            if self.state.num_failed() == 0:
                return f"fails without a fault: {result}"
            if point and point[1] in ("short", "interrupted"):
                return f"does not get over it: {result}"
            if result.code not in codes or (result.code != NEGATIVE and "rror: " not in result.err) or not result.err:
                return f"another end: {result}"
        problem = judge(result)
        return f"{problem}: {result}" if problem else ""

    def check(self, name, words, prepare, judge, codes, quick, left_out=()):
        """Runs a program without a fault, then with each point of the selection."""
        prepare()
        self.assertEqual(self.problem_of(words, judge, codes), "", name)
        num_calls = [0 if kind in left_out else calls for kind, calls in zip(KINDS, self.state.num_calls())]
        points = chosen_points(num_calls, quick)
        for point in points:
            with self.subTest(name, point=" ".join(map(str, point[:3]))):
                prepare()
                self.assertEqual(self.problem_of(words, judge, codes, point), "")
        print(f"{name}: {len(points)} points")
