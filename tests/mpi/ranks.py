"""Runs spmm-mpi with several ranks in a fresh folder."""
import contextlib
import os
import pathlib
import signal
import time
import unittest

from programs import BIN, FAULTY, OK, OLD, Place, Program, bytes_of, cpu, run, wait_for, write

MPIRUN = [os.environ.get("SPMM_TEST_MPIRUN", "mpirun"), "--oversubscribe", "--bind-to", "none", "-n"]
PRODUCTS = FAULTY.parent / "mpi-products"  # many products in one launch, which takes longer than a small product
TEMPORARY = ".z.bin.spmm-mpi.tmp"
FILES = ("x.bin", "y.bin", "z.bin")
PRODUCT = ("-q", "--backend", "cpu", *FILES)
os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")  # in a container


def check_mpirun():
    """Skips the tests where mpirun does not work; SPMM_REQUIRE_MPI=1: fails."""
    result = run_ranks(2, "--version")
    if result.code != 0 and os.environ.get("SPMM_REQUIRE_MPI") != "1":
        print("skipped: mpirun -n 2 does not work: " + result.err)
        raise unittest.SkipTest("mpirun")
    assert result.code == 0, result


def words_of(num_ranks, *words, fault=None):
    return [*MPIRUN, num_ranks, BIN / "spmm-mpi" if fault is None else FAULTY / "spmm-mpi", *words]


def run_ranks(num_ranks, *words, fault=None, env=None):
    """Values: fault as mpi_fault.hpp says."""
    return run("/usr/bin/env", *words_of(num_ranks, *words, fault=fault), env={"SPMM_MPI_FAULT": fault or "", **(env or {})})


def own_messages(result):
    """Lines of the program itself: the launcher adds its own."""
    return [line for line in result.err.splitlines() if line.startswith("spmm-mpi:")]


def ranks_running(out="z.bin"):
    """Processes that run spmm-mpi with this output as their last argument."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (path / "cmdline").read_bytes().decode().split("\0")
            if words[0].endswith("/spmm-mpi") and words[-2] == out:
                found.append(int(path.name))
    return sorted(found)


def stopped_rank():
    for pid in ranks_running():
        with contextlib.suppress(OSError):
            if ") T " in pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii"):
                return pid
    return None


@contextlib.contextmanager
def stopped(num_ranks, fault, words=PRODUCT):
    """A product in which a rank stops before one of its calls, until the end of the block: (pid, the launcher)."""
    launcher = Program("/usr/bin/env", *words_of(num_ranks, *words, fault=fault), env={"SPMM_MPI_FAULT": fault})
    wait_for(stopped_rank, 300)
    pid = stopped_rank()
    try:
        yield pid, launcher
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


class Ranks(Place):
    def prepare(self, a, b, old=True):
        """x.bin, y.bin, the product as spmm writes it in expected.bin, an old output in their way."""
        a.write("x.bin")
        b.write("y.bin")
        self.expect(OK, cpu("x.bin", "y.bin", "expected.bin"))
        if old:
            write("z.bin", OLD)

    def generate(self, n, count):
        for seed, name in ((61, "x.bin"), (62, "y.bin")):
            self.expect(OK, run("spmm-gen", "-q", "-n", n, "-m", 4, "-k", count, "--max-value", 65535, "--seed", seed, name))
        self.expect(OK, cpu("x.bin", "y.bin", "expected.bin"))
        write("z.bin", OLD)
        time.sleep(0.05)  # a file that was just changed is not trusted

    def check_product(self, result):
        self.expect(OK, result)
        self.assertEqual(bytes_of("z.bin"), bytes_of("expected.bin"))
        self.assertEqual(self.names("others", *FILES, "expected.bin", "report.json"), [])

    def check_failure(self, code, result, words, num_messages=1):
        """One message with these words and a rank, the old output, nothing else left. Returns the message."""
        self.assertEqual(result.code, code, result)
        messages = own_messages(result)
        self.assertEqual(len(messages), num_messages, result.err)
        self.assertIn(words, messages[-1])
        self.assertIn("[rank ", messages[-1])
        self.assertEqual((bytes_of("z.bin"), self.names(*FILES, "expected.bin", TEMPORARY)), (OLD, []))
        return messages[-1]

    def run_products(self, num_ranks, lines):
        write("list", "\n".join(lines) + "\n")
        write("z.bin", OLD)
        before = self.names()
        self.expect(OK, run("/usr/bin/env", *MPIRUN, num_ranks, PRODUCTS, "list"))
        self.assertEqual(self.names(), before)
