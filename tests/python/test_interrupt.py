"""An interrupted product has ended, and given back its memory, before the exception leaves the call."""
import os
import signal
import threading
import unittest

import numpy as np
import spmm

LIMIT = 40_000_000


class Stop(Exception):
    pass


class Interrupts(unittest.TestCase):
    """All decide by what is called, never by time."""

    def setUp(self):
        self.column = np.ones((1600, 8), dtype=np.uint16)  # times its transpose: 10 MB of result
        self.engine = spmm.Engine(threads=2, memory_limit=LIMIT)
        self.addCleanup(self.engine.close)

    def multiply(self, **options):
        return self.engine.multiply(self.column, self.column.T, blocksize=8, backend="cpu", **options)

    def check_engine(self):
        """Nothing runs, and the next product has the whole limit."""
        self.assertEqual(self.engine._num_running, 0)
        self.assertEqual([t for t in threading.enumerate() if t.name == "spmm"], [])
        report = {}
        c = self.multiply(report=report)
        self.assertEqual(c.shape, (1600, 1600))
        self.assertTrue((c.data == 8).all())
        self.assertGreater(report["plan"]["host_limit_bytes"], LIMIT // 3)
        self.assertLessEqual(report["plan"]["host_limit_bytes"], LIMIT)

    def test_a_callback_that_raises(self):
        for kind in (Stop, KeyboardInterrupt, SystemExit):
            for _ in range(3):
                def progress(stage, done, total):
                    raise kind("from the callback")

                with self.assertRaises(kind):
                    self.multiply(progress=progress)
                self.check_engine()

    def test_ctrl_c(self):
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGINT, before)
        for _ in range(3):
            sent = []

            def progress(stage, done, total):
                if not sent:
                    sent.append(stage)
                    os.kill(os.getpid(), signal.SIGINT)

            with self.assertRaises(KeyboardInterrupt):
                self.multiply(progress=progress)
                for _ in range(1000):  # where the product was over before the main thread looked
                    pass
            self.check_engine()

    def test_an_engine_is_not_closed_under_a_product(self):
        raised = []

        def progress(stage, done, total):
            try:
                self.engine.close()
            except spmm.UsageError as error:
                raised.append(error)

        self.multiply(progress=progress)
        self.assertGreater(len(raised), 0)
        self.check_engine()

    def test_files_are_left_alone(self):
        import tempfile

        with tempfile.TemporaryDirectory() as folder:
            at = os.path.join(folder, "a.bin")
            spmm.write(at, np.ones((64, 64)), blocksize=8)

            def progress(stage, done, total):
                raise Stop()

            with self.assertRaises(Stop):
                self.engine.multiply_files(at, at, os.path.join(folder, "c.bin"), progress=progress)
            self.assertEqual(os.listdir(folder), ["a.bin"])
        self.check_engine()


if __name__ == "__main__":
    unittest.main()
