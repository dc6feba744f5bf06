#!/usr/bin/env python3
"""Times SciPy's products of sparse matrices beside spmm on the CPU, on the cases of data/suites.json, in turns.

usage: python3 tools/scripts/scipy_bench.py --suite cpu-patterns --json scipy.json
       python3 tools/scripts/scipy_bench.py --case P1,P4 --runs 5 --bin build/bin

Each round times, one after the other: spmm with --threads threads (stages build to multiply of its report: matrices are
in memory), SciPy in one process, and two processes of SciPy side by side, each with a product of its own: half of the
time until both have ended is what a product takes. SciPy multiplies whole numbers of 64 bits, which hold the sums, as BSR
(blocks of m x m) or, for m = 1 and with --kind, as CSR; the matrices are converted before the clock runs. The first product of each
kind is not timed; its elements, ended at 2^32 - 1, must be those of spmm in number and in sum.

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

STAGES = ["build", "count", "plan", "multiply", "compact"]
UNAVAILABLE = 69

try:
    import numpy as np
    import scipy
    import scipy.sparse as sp
except ImportError as missing:
    print(f"scipy_bench.py: error: {missing}; install python3-scipy, or run it by a python3 that has it", file=sys.stderr)
    sys.exit(UNAVAILABLE)

sys.dont_write_bytecode = True  # the folder of the scripts stays as it is
from bench_cases import (LARGEST, checked, find_cases, head, make_input, make_parser, print_case, read_blocks,  # noqa: E402
                         read_bsr, spread)


def entries_of(values):
    """How many elements are not zero, and their sum, each at most 2^32 - 1."""
    total = 0
    for first in range(0, len(values), 1 << 24):
        total += int(np.minimum(values[first:first + (1 << 24)], LARGEST).sum(dtype=np.uint64))
    return [int(np.count_nonzero(values)), total]


# ---- a process of SciPy


def read_matrix(path):
    n, indptr, indices, blocks = read_bsr(path)
    return sp.bsr_matrix((blocks.astype(np.int64), indices.astype(np.int64), indptr), shape=(n, n), blocksize=blocks.shape[1:])


def serve(pipe, a_path, b_path, kind):
    """Answers "check" and "run" until the pipe closes; every answer is (True, value) or (False, reason). After the value of
    a product comes "free" once its memory is back, so that nothing of it runs beside what is timed next."""
    try:
        a, b = read_matrix(a_path), read_matrix(b_path)
        if kind == "csr":
            a, b = a.tocsr(), b.tocsr()
            a.eliminate_zeros(), b.eliminate_zeros()
        pipe.send((True, "ready"))
        while True:
            order = pipe.recv()
            begin = time.perf_counter()
            c = a @ b
            seconds = time.perf_counter() - begin
            pipe.send((True, [seconds, entries_of(c.data.reshape(-1)) if order == "check" else None]))
            del c
            pipe.send((True, "free"))
    except EOFError:
        pass
    except Exception as error:  # memory, most of all: told, not raised
        pipe.send((False, f"{type(error).__name__}: {error}"))


class Failed(Exception):
    pass


class Worker:
    def __init__(self, a_path, b_path, kind):
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(theirs, a_path, b_path, kind), daemon=True)
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


class SciPy:
    """One kind of product: processes of its own, times of one of them and of both."""

    def __init__(self, kind, a_path, b_path):
        self.kind = kind
        self.times, self.two_times = [], []
        self.reason, self.entries, self.is_slow = None, None, False
        self.workers = []
        try:
            for _ in range(2):
                self.workers.append(Worker(a_path, b_path, kind))
            for worker in self.workers:
                worker.answer()
        except Failed as failure:
            self.end(str(failure))

    def end(self, reason):
        self.reason = reason
        self.close()

    def close(self):
        for worker in self.workers:
            worker.close()
        self.workers = []

    def ask(self, workers, order):
        """Seconds until all have answered, and the last answer."""
        begin = time.perf_counter()
        for worker in workers:
            worker.pipe.send(order)
        answers = [worker.answer() for worker in workers]
        seconds = time.perf_counter() - begin
        for worker in workers:
            worker.answer()  # "free"
        return seconds, answers[0]

    def warm_up(self, max_seconds):
        self.guarded(lambda: self.first(max_seconds))

    def first(self, max_seconds):
        _, (seconds, self.entries) = self.ask(self.workers[:1], "check")
        self.is_slow = seconds > max_seconds
        if self.is_slow:
            self.times.append(seconds)
            self.close()

    def round(self):
        self.guarded(self.timed)

    def timed(self):
        if self.is_slow:
            return
        self.times.append(self.ask(self.workers[:1], "run")[1][0])
        self.two_times.append(self.ask(self.workers, "run")[0] / 2)

    def guarded(self, work):
        if self.reason is not None:
            return
        try:
            work()
        except (Failed, OSError) as failure:
            self.end(str(failure))

    def results(self, expected):
        name = f"scipy-{self.kind}"
        if self.reason is not None:
            return [{"kernel": name, "status": "refused", "reason": self.reason}]
        validated = self.entries == expected
        found = [{"kernel": name, "status": "ok", "validated": validated, "processes": 1, "ms": spread(self.times)}]
        if self.two_times:
            found.append({"kernel": name + "-two", "status": "ok", "validated": validated, "processes": 2,
                          "ms": spread(self.two_times)})
        return found


# ---- spmm


class Spmm:
    def __init__(self, arguments, a_path, b_path):
        self.command = [str(arguments.bin / "spmm"), "--quiet", "--backend", "cpu", "--threads", str(arguments.threads),
                        a_path, b_path]
        self.work = arguments.work
        self.times, self.totals, self.report = [], [], {}

    def run(self, out="/dev/null"):
        path = os.path.join(self.work, "report.json")
        checked([*self.command[:6], "--report", path, *self.command[6:], out])
        self.report = json.loads(pathlib.Path(path).read_text())
        return sum(self.report["stages"].get(stage, {}).get("s", 0) for stage in STAGES)

    def warm_up(self):
        """The number of elements and their sum."""
        out = os.path.join(self.work, "c.bin")
        self.run(out)
        values = read_blocks(out, "<u4")[4].reshape(-1)
        found = entries_of(values)
        os.remove(out)
        return found

    def round(self):
        self.times.append(self.run())
        self.totals.append(self.report["total_s"])

    def result(self):
        return {"kernel": "spmm", "status": "ok", "validated": True, "threads": self.report["threads"],
                "chosen": self.report["kernel"], "pairs": self.report["pairs"], "c_blocks": self.report["c"]["blocks"],
                "device": self.report["device"], "ms": spread(self.times), "total_ms": spread(self.totals)}


# ---- cases


def kinds_of(arguments, case):
    return ["csr"] if case["m"] == 1 else arguments.kind.split(",")


def run_case(arguments, case):
    paths = [make_input(arguments, case, seed) for seed in (1, 2)]
    try:
        spmm = Spmm(arguments, *paths)
        expected = spmm.warm_up()
        others = [SciPy(kind, *paths) for kind in kinds_of(arguments, case)]
        try:
            for other in others:
                other.warm_up(arguments.max_seconds)
            for _ in range(arguments.runs):
                spmm.round()
                for other in others:
                    other.round()
        finally:
            for other in others:
                other.close()
    finally:
        for path in paths:
            os.remove(path)
    kernels = [spmm.result()] + [result for other in others for result in other.results(expected)]
    return {**case, "elements": expected[0], "kernels": kernels}


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
    parser.add_argument("--kind", default="bsr", choices=["bsr", "csr", "bsr,csr"],
                        help="kinds of matrices of SciPy (default: bsr, which is faster for larger blocks)")
    parser.add_argument("--max-seconds", type=float, default=60, help="a kind that takes longer is timed once")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="scipy-bench-", dir=arguments.work) as work:
        arguments.work = work
        sys.exit(run(arguments))


if __name__ == "__main__":
    main()
