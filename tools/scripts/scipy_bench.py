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
import argparse
import datetime
import json
import multiprocessing
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

NAME = "scipy_bench.py"
SCHEMA = 1  # kMeasurementSchema of tools/common/measurement.hpp
LARGEST = 2**32 - 1
STAGES = ["build", "count", "plan", "multiply", "compact"]
UNAVAILABLE = 69

try:
    import numpy as np
    import scipy
    import scipy.sparse as sp
except ImportError as missing:
    print(f"{NAME}: error: {missing}; install python3-scipy, or run it by a python3 that has it", file=sys.stderr)
    sys.exit(UNAVAILABLE)


def fail(message):
    sys.exit(f"{NAME}: error: {message}")


# ---- files of block-sparse matrices


def read_blocks(path, element):
    """n, m, block rows, block columns, blocks [k, m, m]."""
    n, m, k = np.fromfile(path, "<u4", 3)
    record = np.dtype([("i", "<u4"), ("j", "<u4"), ("block", element, (int(m), int(m)))])
    records = np.fromfile(path, record, int(k), offset=12)
    return int(n), int(m), records["i"], records["j"], records["block"]


def read_bsr(path):
    n, m, i, j, blocks = read_blocks(path, "<u2")
    order = np.lexsort((j, i))
    indptr = np.concatenate(([0], np.cumsum(np.bincount(i, minlength=n // m))))
    return sp.bsr_matrix((blocks[order].astype(np.int64), j[order].astype(np.int64), indptr), shape=(n, n), blocksize=(m, m))


def entries_of(values):
    """How many elements are not zero, and their sum, each at most 2^32 - 1."""
    total = 0
    for first in range(0, len(values), 1 << 24):
        total += int(np.minimum(values[first:first + (1 << 24)], LARGEST).sum(dtype=np.uint64))
    return [int(np.count_nonzero(values)), total]


# ---- a process of SciPy


def serve(pipe, a_path, b_path, kind):
    """Answers "check" and "run" until the pipe closes; every answer is (True, value) or (False, reason). After the value of
    a product comes "free" once its memory is back, so that nothing of it runs beside what is timed next."""
    try:
        a, b = read_bsr(a_path), read_bsr(b_path)
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


def spread(seconds):
    return {"median": 1000 * statistics.median(seconds), "min": 1000 * min(seconds), "max": 1000 * max(seconds)}


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


def checked(command):
    try:
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    except OSError as error:
        fail(f"{command[0]}: {error.strerror}; build it, or name its folder with --bin")
    if done.returncode != 0:
        fail(f"{' '.join(command)} ended with {done.returncode}: {done.stderr.strip()}")


# ---- cases


def find_cases(arguments):
    try:
        suites = json.loads(arguments.suites.read_text())["suites"]
    except (OSError, ValueError, KeyError) as error:
        fail(f"{arguments.suites}: {error}; name a file like data/suites.json with --suites")
    every = {case["name"]: case for cases in suites.values() for case in cases}
    chosen = {}
    for name in filter(None, arguments.suite.split(",")):
        if name not in suites:
            fail(f"--suite: unknown suite {name}; give one of {', '.join(suites)}")
        chosen.update({case["name"]: case for case in suites[name] if arguments.partners or not case["name"].startswith("even-")})
    for name in filter(None, arguments.case.split(",")):
        if name not in every:
            fail(f"--case: unknown case {name}; spmm-bench --list shows them")
        chosen[name] = every[name]
    if not chosen:
        fail("no case is named; give --suite or --case")
    return list(chosen.values())


def make_input(arguments, case, seed):
    path = os.path.join(arguments.work, f"{case['name']}-{seed}.bin")
    words = [str(arguments.bin / "spmm-gen"), path, "--quiet", "--seed", str(seed)]
    for key, option in [("n", "-n"), ("m", "-m"), ("k", "-k"), ("pattern", "--pattern"), ("bandwidth", "--bandwidth"),
                        ("group", "--group"), ("max_value", "--max-value")]:
        if key in case:
            words += [option, str(case[key])]
    checked(words)
    return path


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


def machine():
    cpu = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    memory = re.search(r"MemTotal:\s*(\d+)", pathlib.Path("/proc/meminfo").read_text())
    return {"cpu": cpu.group(1) if cpu else "", "cores": len(os.sched_getaffinity(0)),
            "memory_bytes": 1024 * int(memory.group(1)) if memory else 0}


def head(arguments):
    try:
        version = subprocess.run([str(arguments.bin / "spmm"), "--version"], capture_output=True, text=True).stdout.strip()
    except OSError as error:
        fail(f"{arguments.bin / 'spmm'}: {error.strerror}; build it, or name its folder with --bin")
    revision = re.search(r"\(git ([^)]*)\)", version)
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"schema": SCHEMA, "program": NAME, "version": version, "revision": revision.group(1) if revision else "unknown",
            "date": now, "command": [NAME, *sys.argv[1:]], "machine": machine(),
            "scipy": scipy.__version__, "numpy": np.__version__, "python": sys.version.split()[0],
            "runs": arguments.runs, "threads": arguments.threads, "device": "", "cases": []}


def print_case(case):
    for kernel in case["kernels"]:
        what = kernel.get("reason") or f"{kernel['ms']['median']:10.4g} ms ({kernel['ms']['min']:.4g}-{kernel['ms']['max']:.4g})"
        print(f"{case['name']:22} {kernel['kernel']:14} {what}{'' if kernel.get('validated', True) else '  DIFFERS'}", flush=True)


def run(arguments):
    """Exit code."""
    found = head(arguments)
    for case in find_cases(arguments):
        result = run_case(arguments, case)
        found["cases"].append(result)
        found["device"] = result["kernels"][0]["device"]
        print_case(result)
        if arguments.json:  # complete up to the last case at any time
            arguments.json.write_text(json.dumps(found, indent=1) + "\n")
    return 0 if all(k.get("validated", True) for case in found["cases"] for k in case["kernels"]) else 1


def main():
    root = pathlib.Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suites", type=pathlib.Path, default=root / "data" / "suites.json", help="file of the suites")
    parser.add_argument("--suite", default="", help="suites, with commas between")
    parser.add_argument("--case", default="", help="cases, with commas between")
    parser.add_argument("--partners", action="store_true", help="of a suite also the evenly spread cases it compares with")
    parser.add_argument("--bin", type=pathlib.Path, default=root / "build" / "bin", help="folder of spmm and spmm-gen")
    parser.add_argument("--threads", type=int, default=2, help="threads of spmm (default: 2, as many as processes of SciPy)")
    parser.add_argument("--kind", default="bsr", choices=["bsr", "csr", "bsr,csr"],
                        help="kinds of matrices of SciPy (default: bsr, which is faster for larger blocks)")
    parser.add_argument("--runs", type=int, default=5, help="rounds")
    parser.add_argument("--max-seconds", type=float, default=60, help="a kind that takes longer is timed once")
    parser.add_argument("--work", help="folder for matrices (default: a temporary one)")
    parser.add_argument("--json", type=pathlib.Path, help="write the measurement to this file")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="scipy-bench-", dir=arguments.work) as work:
        arguments.work = work
        sys.exit(run(arguments))


if __name__ == "__main__":
    main()
