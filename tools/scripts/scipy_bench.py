#!/usr/bin/env python3
"""Times products of sparse matrices in Python: SciPy's beside spmm's on the CPU, on the cases of data/suites.json, in turns.

usage: python3 tools/scripts/scipy_bench.py --suite cpu-patterns --json scipy.json
       python3 tools/scripts/scipy_bench.py --case P1,P4 --runs 5 --bin build/bin

Each round times, one after the other: spmm.multiply() with --threads threads, SciPy in one process, and two processes of
SciPy side by side, each with a product of its own: half of the time until both have ended is what a product takes. All of
them start from matrices of SciPy in memory, BSR (blocks of m x m) or, for m = 1, CSR, and keep the result
until the clock has stopped. SciPy multiplies whole numbers of 64 bits, which hold the sums. Processor time is user and
system time of the process. The first product of each is not timed; the elements of SciPy's, ended at 2^32 - 1, must be those
of spmm in number and in sum.

A kind whose first product takes longer than --max-seconds is not run again, and one that fails is told with its reason.
Exit codes: 0 all agree, 1 a result differs, 2 usage, 69 SciPy is missing.
"""
import json
import multiprocessing
import os
import pathlib
import sys
import tempfile
import time

UNAVAILABLE = 69

try:
    import numpy as np
    import scipy
    import scipy.sparse as sp
except ImportError as missing:
    print(f"scipy_bench.py: error: {missing}; install python3-scipy, or run it by a python3 that has it", file=sys.stderr)
    sys.exit(UNAVAILABLE)

sys.dont_write_bytecode = True  # the folder of the scripts stays as it is
from bench_cases import LARGEST, fail, find_cases, head, make_input, make_parser, print_case, read_bsr, spread  # noqa: E402


def entries_of(values):
    """How many elements are not zero, and their sum, each at most 2^32 - 1."""
    total = 0
    for first in range(0, len(values), 1 << 24):
        total += int(np.minimum(values[first:first + (1 << 24)], LARGEST).sum(dtype=np.uint64))
    return [int(np.count_nonzero(values)), total]


# ---- a process that multiplies


def read_matrix(path, kind, element):
    n, indptr, indices, blocks = read_bsr(path)
    indices = indices.astype(np.int64)
    matrix = sp.bsr_matrix((blocks.astype(element), indices, indptr), shape=(n, n), blocksize=blocks.shape[1:])
    if kind == "csr":
        matrix = matrix.tocsr()
        matrix.eliminate_zeros()
    return matrix


def product_of(paths, program, kind, threads):
    """A function that multiplies, and what it reports."""
    if program == "scipy":
        a, b = (read_matrix(path, kind, np.int64) for path in paths)
        return lambda report: a @ b
    import spmm
    a, b = (read_matrix(path, kind, np.uint16) for path in paths)
    engine = spmm.Engine(threads=threads)
    return lambda report: engine.multiply(a, b, backend="cpu", report=report)


def serve(pipe, paths, program, kind, threads):
    """Answers "check" and "run" until the pipe closes; every answer is (True, value) or (False, reason). After the value of
    a product comes "free" once its memory is back, so that nothing of it runs beside what is timed next."""
    try:
        multiply = product_of(paths, program, kind, threads)
        pipe.send((True, "ready"))
        while True:
            order = pipe.recv()
            report = {}
            begin, processor = time.perf_counter(), time.process_time()
            c = multiply(report)
            taken = {"s": time.perf_counter() - begin, "cpu_s": time.process_time() - processor, "report": report}
            taken["entries"] = entries_of(c.data.reshape(-1)) if order == "check" else None
            pipe.send((True, taken))
            del c
            pipe.send((True, "free"))
    except EOFError:
        pass
    except Exception as error:  # memory, most of all: told, not raised
        pipe.send((False, f"{type(error).__name__}: {error}"))


class Failed(Exception):
    pass


class Worker:
    def __init__(self, *arguments):
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(theirs, *arguments), daemon=True)
        self.process.start()
        theirs.close()

    def answer(self):
        try:
            good, value = self.pipe.recv()
        except EOFError as end:
            self.process.join()
            raise Failed(f"the process ended with {self.process.exitcode}") from end
        if not good:
            raise Failed(value)
        return value

    def close(self):
        self.pipe.close()
        self.process.join(1)
        self.process.kill()


class Program:
    """spmm, or SciPy: processes of its own, times of one of them and of all."""

    def __init__(self, name, processes, *arguments):
        self.name, self.arguments = name, arguments
        self.times, self.cpu_times, self.all_times, self.workers = [], [], [], []
        self.reason, self.first = None, None
        self.guarded(lambda: self.start(processes))

    def start(self, processes):
        for _ in range(processes):
            self.workers.append(Worker(*self.arguments))
        for worker in self.workers:
            worker.answer()

    def close(self):
        for worker in self.workers:
            worker.close()
        self.workers = []

    def ask(self, workers, order):
        """Seconds until all have answered, and the first answer."""
        begin = time.perf_counter()
        for worker in workers:
            worker.pipe.send(order)
        answers = [worker.answer() for worker in workers]
        seconds = time.perf_counter() - begin
        for worker in workers:
            worker.answer()  # "free"
        return seconds, answers[0]

    def keep(self, taken):
        self.times.append(taken["s"])
        self.cpu_times.append(taken["cpu_s"])

    def warm_up(self, max_seconds):
        _, self.first = self.ask(self.workers[:1], "check")
        if self.first["s"] > max_seconds:
            self.keep(self.first)
            self.close()

    def round(self):
        if not self.workers:
            return
        self.keep(self.ask(self.workers[:1], "run")[1])
        if len(self.workers) > 1:
            self.all_times.append(self.ask(self.workers, "run")[0] / len(self.workers))

    def guarded(self, work):
        if self.reason is not None:
            return
        try:
            work()
        except (Failed, OSError) as failure:
            self.reason = str(failure)
            self.close()

    def results(self, entries):
        """Values: entries = of spmm."""
        if self.reason is not None:
            return [{"kernel": self.name, "status": "refused", "reason": self.reason}]
        common = {"status": "ok", "validated": self.first["entries"] == entries}
        found = [{"kernel": self.name, **common, "processes": 1, "threads": self.arguments[3], "ms": spread(self.times),
                  "cpu_ms": spread(self.cpu_times)}]
        report = self.first["report"]
        if report:
            found[0].update(chosen=report["kernel"], pairs=report["pairs"], c_blocks=report["c"]["blocks"], device=report["device"])
        if self.all_times:
            found.append({"kernel": self.name + "-two", **common, "processes": 2, "ms": spread(self.all_times)})
        return found


def run_case(arguments, case):
    paths = [make_input(arguments, case, seed) for seed in (1, 2)]
    kind = "csr" if case["m"] == 1 else "bsr"
    programs = []
    try:
        programs.append(Program("spmm", 1, paths, "spmm", kind, arguments.threads))
        programs.append(Program(f"scipy-{kind}", 2, paths, "scipy", kind, 1))
        for program in programs:
            program.guarded(lambda one=program: one.warm_up(arguments.max_seconds))
        if programs[0].reason is not None:
            fail(f"spmm: {programs[0].reason}")
        for _ in range(arguments.runs):
            for program in programs:
                program.guarded(program.round)
        entries = programs[0].first["entries"]
        return {**case, "elements": entries[0], "kernels": [one for program in programs for one in program.results(entries)]}
    finally:
        for program in programs:
            program.close()
        for path in paths:
            os.remove(path)


def run(arguments):
    """Exit code."""
    found = head(arguments, scipy=scipy.__version__, threads=arguments.threads, device="", cases=[])
    for case in find_cases(arguments):
        result = run_case(arguments, case)
        found["cases"].append(result)
        found["device"] = result["kernels"][0]["device"]
        print_case(result)
        if arguments.json:  # complete up to the last case at any time
            arguments.json.write_text(json.dumps(found, indent=1) + "\n")
    return 0 if all(k.get("validated", True) for case in found["cases"] for k in case["kernels"]) else 1


def main():
    parser = make_parser(__doc__)
    parser.add_argument("--threads", type=int, default=2, help="threads of spmm (default: 2, as many as processes of SciPy)")
    parser.add_argument("--max-seconds", type=float, default=60, help="a kind that takes longer is timed once")
    arguments = parser.parse_args()
    root = pathlib.Path(__file__).resolve().parents[2]
    os.environ.setdefault("SPMM_LIBRARY", str((arguments.bin / ".." / "libspmm.so").resolve()))
    sys.path.insert(0, str(root / "tools" / "python"))  # also of the processes
    with tempfile.TemporaryDirectory(prefix="scipy-bench-", dir=arguments.work) as work:
        arguments.work = work
        sys.exit(run(arguments))


if __name__ == "__main__":
    main()
