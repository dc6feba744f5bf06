"""Signals leave the old output or the complete new one; after SIGKILL at most one temporary name. SPMM_TEST_KILLS sets how many SIGKILL."""
import os
import random
import shutil
import signal
import time

from programs import BIN, INTERRUPTED, OK, OLD, Matrix, Place, Program, Workplace, bytes_of, cpu, run, wait_for, write

KILLS = int(os.environ.get("SPMM_TEST_KILLS", 10))


class RandomMoments(Workplace):
    def interrupt(self, times, number, *words):
        """Sends a signal after random shares of the length of a run, which is learnt on the way. Returns how many runs it stopped."""
        words = ["spmm", *words, "x.bin", "y.bin", "old.bin"]
        start = time.monotonic()
        self.expect(OK, run(*words))
        length, complete, names = time.monotonic() - start, bytes_of("old.bin"), self.names()
        moments, num_stopped = random.Random(times + number), 0
        for _ in range(times):
            write("old.bin", OLD)
            process = Program(*words)
            if number != signal.SIGKILL:
                process.wait_until_handled(number)
            time.sleep(length * moments.random())
            os.kill(process.pid, number)
            result = process.result()
            killed = result.code == -signal.SIGKILL
            stopped = killed or result.code == INTERRUPTED
            self.assertTrue(stopped or result.code == OK, result)
            self.assertIn(bytes_of("old.bin"), [OLD] if stopped and not killed else [OLD, complete] if killed else [complete])
            self.assertEqual(stopped and not killed, "safe to run" in result.err)
            hidden = [name for name in self.names() if killed and name.startswith(".old.bin.spmm-")]
            self.assertLessEqual(len(hidden), 1)
            for name in hidden:
                os.remove(name)
            self.assertEqual(self.names(), names)
            num_stopped += stopped
            length *= 1 if stopped else 0.8
        return num_stopped

    def write_operands(self, count):
        for seed, name in ((31, "x.bin"), (32, "y.bin")):
            self.expect(OK, run("spmm-gen", "-q", "-n", 4096, "-m", 8, "-k", count, "--max-value", 65535, "--seed", seed, name))

    def test_sigterm_and_sigint_at_30_random_moments(self):
        self.write_operands(12_000)
        stopped = self.interrupt(12, signal.SIGTERM, "--backend", "cpu", "--threads", "2")
        stopped += self.interrupt(10, signal.SIGTERM, "--kernel", "reference", "--progress", "always")
        stopped += self.interrupt(8, signal.SIGINT, "--backend", "cpu", "--verify", "50", "--durable")
        self.assertGreaterEqual(stopped, 1)

    def test_kill_9_at_random_moments(self):
        self.write_operands(6000)
        self.interrupt(KILLS, signal.SIGKILL, "-q", "--backend", "cpu", "--threads", "2")
        self.interrupt(KILLS, signal.SIGKILL, "-q", "--threads", "2", "--kernel", "reference", "--memory-limit", "3M")


class LongProducts(Workplace):
    def write_outer_product(self, rows, columns_of_a, rows_of_b):
        """4 block columns by 4 block rows: each of its rows^2 blocks is there."""
        places = [(i, t, 16 * [65535]) for i in range(rows) for t in range(4)]
        Matrix(4 * rows, 4, places).write(columns_of_a)
        Matrix(4 * rows, 4, [(t, i, elements) for i, t, elements in places]).write(rows_of_b)

    def test_a_first_signal_ends_them_in_all_their_stages(self):
        few, many = ["columns.bin", "rows.bin"], ["more_columns.bin", "more_rows.bin"]
        self.write_outer_product(20_000, *few)
        self.write_outer_product(100_000, *many)
        names = self.names()
        for words in ([*few, "/dev/null"], [*many, "/dev/null"], ["--kernel", "reference", *few, "old.bin"],
                      ["--verify", "full", *few, "/dev/null"], ["--verify", "100000", *many, "/dev/null"]):
            for delay in (0.005, 0.06, 0.3):
                with self.subTest(words=words, delay=delay):
                    process = Program("spmm", "--backend", "cpu", "--threads", "2", *words)
                    process.wait_until_handled()
                    time.sleep(delay)
                    os.kill(process.pid, signal.SIGTERM)
                    start = time.monotonic()
                    self.expect(INTERRUPTED, process.result())
                    self.assertLess(time.monotonic() - start, 10)  # a tenth of a second where nothing else runs
                    self.assertEqual((self.names(), bytes_of("old.bin")), (names, OLD))

    def test_two_signals_while_the_output_gets_its_name_leave_nothing_behind(self):
        strace = shutil.which("strace")
        if strace is None or run(strace, "-D", "-o", "/dev/null", "/bin/true").code != 0:
            self.skipTest("no strace here that may trace")
        process = Program(strace, "-D", "-f", "-o", "/dev/null", "-e", "trace=renameat", "-e", "inject=renameat:delay_enter=3000000",
                          BIN / "spmm", "--backend", "cpu", "--threads", "2", "a.bin", "b.bin", "old.bin")
        process.wait_until_handled()
        wait_for(lambda: any(name.endswith(".tmp") for name in self.names()))
        for _ in range(2):
            os.kill(process.pid, signal.SIGTERM)
            time.sleep(0.5)
        self.assertIn(process.result().code, (INTERRUPTED, OK))
        self.assertEqual(self.names(), ["a.bin", "b.bin", "old.bin"])
        self.assertEqual(bytes_of("old.bin"), self.expected())


class Gen(Place):
    def test_a_signal_ends_it_cleanly(self):
        for order in ("shuffled", "sorted"):
            process = Program("spmm-gen", "a", "--n", 65536, "--m", 8, "--k", "60e6", "--order", order, "--threads", 1)
            process.wait_until_handled()
            os.kill(process.pid, signal.SIGTERM)
            self.expect(INTERRUPTED, process.result())
            self.assertEqual(self.names(), [])
