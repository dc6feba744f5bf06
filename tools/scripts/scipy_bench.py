#!/usr/bin/env python3
"""Times SciPy's products beside spmm's on the CPU, on the cases of data/suites.json, in turns.

usage: python3 tools/scripts/scipy_bench.py --suite cpu-patterns --json scipy.json
       python3 tools/scripts/scipy_bench.py --suite P --type f64,f32 --runs 5 --bin build/bin

Each round times, one after the other: spmm.multiply() with --threads threads, SciPy in one process, and two processes of
SciPy at the same time with a product each: half of the time until both have ended is the time of a product. All of them start
from matrices of SciPy in memory, BSR (blocks of m x m) or, for m = 1, CSR, and keep the result until the clock has stopped.
For u16 SciPy multiplies whole numbers of 64 bits, which hold the sums; floats are of the same type for both. The first product of
each is not timed; the elements of SciPy's, at most 2^32 - 1 each for u16, must be those of spmm in number and in sum. cpu_ms is the processor time of a product, of all
threads, which other programs on the machine change less.

If the first product of a kind takes longer than --max-seconds, it is the only one; if it fails, its reason is in the
measurement. Exit codes: 0 all agree, 1 a result differs, 2 usage, 69 SciPy is missing.
"""
import concurrent.futures
import multiprocessing
import os
import pathlib
import sys
import time

try:
    import numpy as np
    import scipy
    import scipy.sparse as sp
except ImportError as missing:
    print(f"scipy_bench.py: error: {missing}; install python3-scipy, or run it by a python3 that has it", file=sys.stderr)
    sys.exit(69)

sys.dont_write_bytecode = True  # the folder of the scripts stays as it is
from bench_cases import LARGEST, fail, head, make_parser, measure_cases, read_bsr, spread  # noqa: E402

TYPES = {"u16": np.uint16, "f64": np.float64, "f32": np.float32}
multiply = None  # in a process of its own: a function that multiplies the operands of the case


def read_matrix(path, element):
    n, indptr, indices, blocks = read_bsr(path)
    matrix = sp.bsr_matrix((blocks.astype(element), indices.astype(np.int64), indptr), shape=(n, n), blocksize=blocks.shape[1:])
    if matrix.blocksize[0] == 1:
        matrix = matrix.tocsr()
        matrix.eliminate_zeros()
    return matrix


def prepare(program, type, paths, threads):
    """Begins a process of a program."""
    global multiply
    a, b = (read_matrix(path, np.int64 if program == "scipy" and type == "u16" else TYPES[type]) for path in paths)
    if program == "scipy":
        multiply = lambda report: a @ b  # noqa: E731
    else:
        import spmm
        engine = spmm.Engine(threads=threads)
        multiply = lambda report: engine.multiply(a, b, backend="cpu", report=report)  # noqa: E731


def product():
    """Seconds of a product and its processor's, spmm's report, number of elements that are not zero, and their sum."""
    report = {}
    begin, cpu_begin = time.perf_counter(), time.process_time()
    values = multiply(report).data.reshape(-1)
    seconds = time.perf_counter() - begin, time.process_time() - cpu_begin
    parts = (values[first:first + (1 << 24)] for first in range(0, len(values), 1 << 24))
    if values.dtype.kind == "f":
        total = sum(float(part.sum(dtype=np.float64)) for part in parts)
    else:
        total = sum(int(np.minimum(part, LARGEST).sum(dtype=np.uint64)) for part in parts)
    return seconds, report, [int(np.count_nonzero(values)), total]


def agree(entries, others):
    """Whether two results hold the same but for rounding."""
    return entries[0] == others[0] and abs(entries[1] - others[1]) <= (1e-5 * others[1] if isinstance(others[1], float) else 0)


def times_of(times):
    seconds, cpu_seconds = zip(*times)
    return {"ms": spread(seconds), "cpu_ms": spread(cpu_seconds)}


class Program:
    """Processes that multiply the same operands."""

    def __init__(self, name, processes, *arguments):
        self.name, self.times, self.pair_times, self.reason = name, [], [], None
        context = multiprocessing.get_context("spawn")
        self.pools = [concurrent.futures.ProcessPoolExecutor(1, context, prepare, arguments) for _ in range(processes)]

    def run(self, pools):
        """Seconds of the process that takes longest, and its processor's, spmm's report and what the result holds."""
        return max((future.result() for future in [pool.submit(product) for pool in pools]), key=lambda found: found[0])

    def round(self, max_seconds=None):
        """One product in one process, and one in each; the first round has max_seconds."""
        if self.reason or not self.pools:
            return
        try:
            seconds, report, entries = self.run(self.pools[:1])
            if max_seconds is not None:
                self.report, self.entries = report, entries
                if seconds[0] <= max_seconds:
                    if len(self.pools) > 1:
                        self.run(self.pools[1:])
                    return
                self.close()
            self.times.append(seconds)
            if len(self.pools) > 1:
                (pair_seconds, cpu_seconds), *_ = self.run(self.pools)
                self.pair_times.append((pair_seconds / len(self.pools), cpu_seconds))
        except Exception as error:  # memory, most of all
            self.reason = f"{type(error).__name__}: {error}"
            self.close()

    def close(self):
        for pool in self.pools:
            pool.shutdown()
        self.pools = []

    def rows(self, entries):
        """Values: entries = of spmm."""
        if self.reason:
            return [{"kernel": self.name, "status": "refused", "reason": self.reason}]
        common = {"status": "ok", "validated": agree(self.entries, entries)}
        rows = [{"kernel": self.name, **common, "processes": 1, **times_of(self.times)}]
        if self.report:
            rows[0].update(chosen=self.report["kernel"], pairs=self.report["pairs"], c_blocks=self.report["c"]["blocks"],
                           device=self.report["device"])
        if self.pair_times:
            rows.append({"kernel": self.name + "-two", **common, "processes": 2, **times_of(self.pair_times)})
        return rows


def run_type(arguments, case, paths, type):
    suffix = "" if type == "u16" else "-" + type
    programs = [Program("spmm" + suffix, 1, "spmm", type, paths, arguments.threads),
                Program(("scipy-csr" if case["m"] == 1 else "scipy-bsr") + suffix, 2, "scipy", type, paths, 1)]
    try:
        for program in programs:
            program.round(arguments.max_seconds)
        if programs[0].reason:
            fail(f"spmm: {programs[0].reason}")
        for _ in range(arguments.runs):
            for program in programs:
                program.round()
        entries = programs[0].entries
        return entries[0], [row for program in programs for row in program.rows(entries)]
    finally:
        for program in programs:
            program.close()


def run(arguments):
    """Exit code."""
    found = head(arguments, scipy=scipy.__version__, threads=arguments.threads, device="", cases=[])

    def measure_case(case, paths):
        rows = []
        for type in arguments.type.split(","):
            elements, kernels = run_type(arguments, case, paths, type)
            rows += kernels
        found["device"] = rows[0]["device"]
        return {"elements": elements, "kernels": rows}

    return measure_cases(arguments, found, measure_case)


def main():
    parser = make_parser(__doc__)
    parser.add_argument("--threads", type=int, default=2, help="threads of spmm (default: 2, as many as processes of SciPy)")
    parser.add_argument("--type", default="u16", help=f"types of the elements, with commas between: {', '.join(TYPES)} (default: u16)")
    parser.add_argument("--max-seconds", type=float, default=60, help="a kind that takes longer is timed once")
    arguments = parser.parse_args()
    if not set(arguments.type.split(",")) <= set(TYPES):
        parser.error(f"--type: give some of {', '.join(TYPES)}")
    os.environ.setdefault("SPMM_LIBRARY", str((arguments.bin / ".." / "libspmm.so").resolve()))
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))  # also of the processes
    sys.exit(run(arguments))


if __name__ == "__main__":
    main()
