"""spmm, spmm-batch, spmm-mpi and the library, each call failing in turn: a complete output, or the old one with a message."""
import os
import pathlib
import signal
import subprocess
import time

from faults import FAULTY, HANG, KINDS, MODES, OLD_OUTPUT, Faults, chosen_points
from programs import (BAD_DATA, BIN, CANNOT_CREATE, IO_ERROR, MEMORY, NEGATIVE, NO_INPUT, OK, Matrix, Program, bytes_of, product_of, random_matrix,
                      run, wait_for, write)

CODES = (NO_INPUT, MEMORY, CANNOT_CREATE, IO_ERROR)  # what a fault may come to


class Products(Faults):
    def prepare_operands(self, a, b):
        """The bytes of the product, by the definition."""
        a.write("a.bin")
        b.write("b.bin")
        product_of(a, b).write("c.bin")
        return bytes_of("c.bin")

    def check_product(self, name, options, complete, has_old, quick, left_out=()):
        def prepare():
            for path in ("r.json", "c.bin"):
                pathlib.Path(path).unlink(missing_ok=True)
            if has_old:
                write("c.bin", OLD_OUTPUT)

        def judge(result):
            content, left = bytes_of("c.bin"), self.names("a.bin", "b.bin", "c.bin", "r.json")
            if left:
                return f"left {left}"
            if result.code == OK:
                return "" if content == complete and os.path.exists("r.json") else "wrong output, or no report"
            return "" if content in (complete, OLD_OUTPUT if has_old else b"") else "neither the old output nor the complete one"

        self.check(name, ["spmm", "--backend", "cpu", "--report", "r.json", *options, "a.bin", "b.bin", "c.bin"], prepare, judge, CODES, quick, left_out)

    def test_a_small_product(self):
        complete = self.prepare_operands(*(random_matrix(256, 4, count, 65535, count) for count in (120, 130)))
        self.check_product("small, over an old output", ["--threads", 3, "--durable", "--verify", 20], complete, True, 7)
        self.check_product("small, new output", ["--threads", 1, "--no-clobber", "-v"], complete, False, 4)

    def test_signals_while_the_output_is_given_its_name_leave_the_exit_code_to_the_product(self):
        complete = self.prepare_operands(*(random_matrix(256, 4, 120, 65535, 1) for _ in range(2)))
        os.remove("c.bin")
        for kind, num_signals in (("link", 1), ("rename", 1), ("rename", 2)):
            self.state.set(kind, "slow", 1, 2500)
            process = Program("spmm", "--backend", "cpu", "--report", "r.json", "--threads", 2, "a.bin", "b.bin", "c.bin", env=self.state.environment())
            wait_for(self.state.num_failed)
            for _ in range(num_signals):
                os.kill(process.pid, signal.SIGTERM)
                time.sleep(0.4)
            self.expect(OK, process.result(HANG))
            self.assertEqual((bytes_of("c.bin"), self.names("a.bin", "b.bin", "c.bin")), (complete, ["r.json"]))
            os.remove("r.json")

    def test_a_product_out_of_core(self):
        band = ["spmm-gen", "-q", "-n", 14_400, "-m", 8, "-k", 8994, "--pattern", "banded", "--bandwidth", 2, "--max-value", 65535]
        for seed, name in ((3, "a.bin"), (4, "b.bin")):
            self.expect(OK, run(*band, "--seed", seed, name))
        for kernel in ("row-merge", "reference"):
            for kilobytes in range(1000, 8000, 200):  # about the least that a product fits
                options = ["--threads", 2, "--kernel", kernel, "--memory-limit", f"{kilobytes}k"]
                whole = run("spmm", "--backend", "cpu", *options, "-v", "a.bin", "b.bin", "c.bin")
                if whole.code == OK:
                    break
            self.expect(OK, whole, "out of core: A in ")
            self.check_product("out of core, " + kernel, options, bytes_of("c.bin"), True, 3)

    def test_a_product_with_a_long_output(self):
        self.expect(OK, run("spmm-gen", "-q", "-n", 6400, "-m", 64, "-k", 1050, "a.bin"))
        Matrix(6400, 64, [(i, i, [int(e % 65 == 0) for e in range(4096)]) for i in range(100)]).write("b.bin")
        self.expect(OK, run("spmm", "--backend", "cpu", "a.bin", "b.bin", "c.bin"))
        complete = bytes_of("c.bin")
        self.assertGreater(len(complete), 16 << 20)  # space is reserved from there on
        left_out = () if os.environ.get("SPMM_TEST_FAULTS") == "all" else ("memory", "open", "status", "read")
        self.check_product("long", ["--threads", 2], complete, True, 2, left_out)


class Batch(Faults):
    def test_a_batch_is_completed_by_resume(self):
        b = random_matrix(128, 4, 60, 65535, 9)
        b.write("b.bin")
        complete, lines = {}, ""
        for job in (1, 2, 3):
            a = random_matrix(128, 4, 50, 65535, job + 20)
            a.write(f"a{job}.bin")
            product_of(a, b).write(f"c{job}.bin")
            complete[f"c{job}.bin"] = bytes_of(f"c{job}.bin")
            lines += f"a{job}.bin\tb.bin\tc{job}.bin\n"
        write("jobs.tsv", lines)

        def prepare():
            for name in self.names("a1.bin", "a2.bin", "a3.bin", "b.bin", "jobs.tsv", *complete):
                os.remove(name)
            for name in complete:
                write(name, OLD_OUTPUT)

        def judge(result):
            left = self.names("a1.bin", "a2.bin", "a3.bin", "b.bin", "jobs.tsv", "r.json", "jobs.tsv.log", *complete)
            wrong = [name for name, content in complete.items() if bytes_of(name) not in ([content] if result.code == OK else [content, OLD_OUTPUT])]
            if left or wrong:
                return f"left {left}, wrong outputs {wrong}"
            resumed = run("spmm-batch", "--backend", "cpu", "-q", "--resume", "jobs.tsv")
            if resumed.code != OK or any(bytes_of(name) != content for name, content in complete.items()):
                return f"--resume does not complete it: {resumed}"
            return ""

        self.check("batch", ["spmm-batch", "--backend", "cpu", "--report", "r.json", "jobs.tsv"], prepare, judge, (*CODES, NEGATIVE, BAD_DATA), 5)

    def test_a_first_worker_that_cannot_be_started_ends_the_run(self):
        random_matrix(128, 4, 50, 65535, 1).write("a.bin")
        write("jobs.tsv", "a.bin\ta.bin\tc.bin\n")
        self.state.set("process", "once", 1, 11)
        self.expect(IO_ERROR, run("spmm-batch", "--backend", "cpu", "jobs.tsv", env=self.state.environment()), "worker process: cannot be started")
        self.assertEqual(self.state.num_failed(), 1)


class Ranks(Faults):
    def test_ranks(self):
        os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")  # in a container
        ranks = ["/usr/bin/env", os.environ.get("SPMM_TEST_MPIRUN", "mpirun"), "--oversubscribe", "--bind-to", "none", "-n", 2, BIN / "spmm-mpi"]
        if not (BIN / "spmm-mpi").exists() or run(*ranks, "--version").code != OK:
            self.skipTest("mpirun does not work here")
        a, b = (random_matrix(256, 4, count, 65535, count) for count in (120, 130))
        a.write("a.bin")
        b.write("b.bin")
        product_of(a, b).write("c.bin")
        complete = bytes_of("c.bin")

        def judge(result):
            left = self.names("a.bin", "b.bin", "c.bin")
            if left == [".c.bin.spmm-mpi.tmp"] and result.code != OK:  # a rank that another one's failure aborts may leave it
                os.remove(left.pop())
            return "" if not left and bytes_of("c.bin") in ([complete] if result.code == OK else [complete, OLD_OUTPUT]) else f"left {left}, or a wrong output"

        self.check("ranks", [*ranks, "-q", "--durable", "--backend", "cpu", "a.bin", "b.bin", "c.bin"], lambda: write("c.bin", OLD_OUTPUT), judge, CODES, 1)


class Library(Faults):
    """A process whose product met a fault multiplies again: library/fault_products.cpp."""

    def test_a_process_multiplies_on_after_every_fault_of_a_product(self):
        for name, quick in (("files", 40), ("engine", 40), ("memory", 40), ("slabs", 40), ("mapped", 4)):
            environment = {key: value for key, value in os.environ.items() if not key.startswith("SPMM_")}
            with subprocess.Popen([FAULTY.parent / "spmm_fault_products", name, self.state.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                  env={**environment, **self.state.environment()}) as process:
                def problem_of(kind="open", mode="none", at=0, error=0):
                    process.stdin.write(f"{KINDS.index(kind)} {MODES.index(mode)} {at} {error}\n")
                    process.stdin.flush()
                    return process.stdout.readline() or "the process has ended"

                for _ in range(2):
                    self.assertEqual(problem_of(), "\n")
                points = chosen_points(self.state.num_calls(), quick)
                for point in points:
                    with self.subTest(name, point=" ".join(map(str, point[:3]))):
                        self.assertEqual(problem_of(*point), "\n")
                        self.assertEqual(problem_of(), "\n")
                print(f"library, {name}: {len(points)} points")
