#!/usr/bin/env python3
"""Times whole processes of spmm, and of a former one, in turns with an empty CUDA program beside them.

usage: python3 tools/scripts/process_times.py [--former SPMM] [--empty PROGRAM] [--seconds S] [--work DIR] [--json FILE] SPMM [CASE...]
       python3 tools/scripts/process_times.py --build-empty PROGRAM

CASE is tiny or one of S1 to S6 (all); inputs are made by SPMM and stay in the page cache, each run writes a new file. A
round runs every row once. There are 7 rounds, or as many as the time allows; a row of more than 3 s runs in 3 of them, one
that --plan predicts to take more than 20 s is left out. The table has medians with the smallest and largest value, in ms: the whole
process, total_s of its report, what is outside of that (start before main, end after it), and the stage open, in which
CUDA starts. The empty program (--build-empty compiles it; it needs cc and no CUDA) starts CUDA and takes page-locked memory;
its total is what its main takes.
"""
import argparse
import datetime
import json
import multiprocessing.pool
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

ROUNDS = 7
SLOW_S = 3.0
SLOW_ROUNDS = (0, 3, 6)
LEFT_OUT_S = 20.0
CASES = {"tiny": (64, 4, 100), "S1": (8192, 8, 100_000), "S2": (32768, 4, 1_000_000), "S3": (32768, 8, 8_800_000),
         "S4": (32768, 4, 33_000_000), "S5": (1 << 20, 8, 1_000_000), "S6": (1 << 24, 8, 10_000_000)}
PARTS = ("S2", "S3", "S4")
COLUMNS = {"whole": 28, "total": 10, "outside": 26, "open": 8, "init": 8, "context": 8}  # names and widths

EMPTY = r"""
#include <dlfcn.h>
#include <stdio.h>
#include <time.h>
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1e3 + t.tv_nsec / 1e6; }
int main(void) {
  const double begin = now();
  void *const driver = dlopen("libcuda.so.1", RTLD_NOW), *context = 0, *page = 0;
  if (!driver) return 69;
  int (*const init)(unsigned) = dlsym(driver, "cuInit");
  int (*const retain)(void **, int) = dlsym(driver, "cuDevicePrimaryCtxRetain");
  int (*const use)(void *) = dlsym(driver, "cuCtxSetCurrent");
  int (*const lock)(void **, size_t, unsigned) = dlsym(driver, "cuMemHostAlloc");
  if (init(0)) return 69;
  const double begun = now();
  if (retain(&context, 0) || use(context)) return 70;
  const double started = now();
  if (lock(&page, 16 << 20, 0)) return 70;
  printf("{\"total_s\": %.6f, \"init_s\": %.6f, \"context_s\": %.6f}\n", (now() - begin) / 1e3, (begun - begin) / 1e3,
         (started - begun) / 1e3);
  return 0;
}
"""


def fail(message):
    sys.exit(f"process_times.py: error: {message}")


def build_empty(path):
    done = subprocess.run(["cc", "-O1", "-x", "c", "-", "-o", path, "-ldl"], input=EMPTY, text=True)
    sys.exit(done.returncode)


class Row:
    """One command that is run again and again. Times are in ms."""

    def __init__(self, case, label, words, predicted_s=0.0):
        self.case, self.label, self.words = case, label, words
        self.slowest_s = predicted_s
        self.runs = []  # of dictionaries
        self.said = {}  # the last report
        self.error = f"left out: predicted to take {predicted_s:.0f} s" if predicted_s > LEFT_OUT_S else ""

    def is_due(self, index, left_s):
        return not self.error and self.slowest_s < left_s and (self.slowest_s <= SLOW_S or index in SLOW_ROUNDS)

    def run(self, work):
        begin = time.perf_counter()
        done = subprocess.run(self.words, stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=work)
        whole = 1e3 * (time.perf_counter() - begin)
        if done.returncode != 0:
            self.error = f"exit code {done.returncode} {done.stderr.strip()[:120]}"
            return
        self.slowest_s = max([whole / 1e3] + [run["whole"] / 1e3 for run in self.runs])
        self.said = json.loads((work / "report.json").read_text() if self.case else done.stdout)
        total = 1e3 * self.said["total_s"]
        one = {"whole": whole, "total": total, "outside": whole - total}
        for name in ("init", "context"):
            if name + "_s" in self.said:
                one[name] = 1e3 * self.said[name + "_s"]
        if "stages" in self.said:
            stage = self.said["stages"].get("open", 0)
            one["open"] = 1e3 * (stage.get("s", stage.get("seconds", 0)) if isinstance(stage, dict) else stage)
        self.runs.append(one)
        if self.case:
            subprocess.run(["rm", "-rf", "out.bin"], check=True, cwd=work)

    def figures(self):
        """{column: [median, least, most]}, in ms."""
        columns = {key: [run[key] for run in self.runs if key in run] for key in COLUMNS}
        return {key: [round(figure, 3) for figure in (statistics.median(of), min(of), max(of))] for key, of in columns.items() if of}

    def text(self):
        cells = [f"{self.case:5}{self.label:34}"]
        if not self.runs:
            return cells[0] + self.error
        figures = self.figures()
        for key, width in COLUMNS.items():
            middle, least, most = figures.get(key, (None, None, None))
            words = "-" if middle is None else f"{middle:.1f}"
            cells.append((words + (f" ({least:.1f} to {most:.1f})" if width > 20 else "")).ljust(width))
        return "".join(cells) + f"{len(self.runs)} runs {self.said.get('backend', '')} {self.said.get('kernel', '')}"

    def content(self):
        backend = {key: self.said[key] for key in ("backend", "kernel") if key in self.said}
        return {"case": self.case, "row": self.label, "options": self.words[1:], **backend, "runs": len(self.runs),
                "ms": self.figures(), "error": self.error}


def predicted_seconds(words):
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return json.loads(done.stdout)["plan"]["predicted_s"] if done.returncode == 0 else 0.0


def make_inputs(cases, program, work):
    def make(job):
        case, seed, path = job
        n, m, k = CASES[case]
        size = ["--n", str(n), "--m", str(m), "--k", str(k), "--seed", str(seed)]
        subprocess.run([program, "gen", "-q", *size, str(work / path)], check=True)

    with multiprocessing.pool.ThreadPool(os.cpu_count()) as pool:
        pool.map(make, [(case, seed, f"{case}-{name}.bin") for case in cases for seed, name in ((1, "a"), (2, "b"))], 1)


def rows_of(case, programs, work):
    inputs = [f"{case}-a.bin", f"{case}-b.bin"]
    kinds = [(backend, ["--backend", backend]) for backend in ("auto", "cuda", "cpu")]
    if case in PARTS:
        kinds.append(("cuda, 8 parts", ["--backend", "cuda", "--parts", "8"]))
    rows = []
    for kind, options in kinds:
        paths = [str(work / path) for path in inputs]
        predicted = predicted_seconds([programs[-1][1], "--plan", "--report", "-", *options, *paths])
        for name, program in programs:
            words = [program, "-q", "--report", "report.json", *options, *inputs, "out.bin"]
            rows.append(Row(case, f"{kind} {name}", words, predicted))
    return rows


def parsed_arguments():
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1].removeprefix("usage: "))
    parser.add_argument("--former")
    parser.add_argument("--empty")
    parser.add_argument("--build-empty")
    parser.add_argument("--seconds", type=float, default=200)
    parser.add_argument("--work")
    parser.add_argument("--json")
    parser.add_argument("spmm", nargs="?")
    parser.add_argument("cases", nargs="*", metavar="CASE")
    given = parser.parse_args()
    if given.build_empty:
        build_empty(given.build_empty)
    if not given.spmm:
        fail("the program is missing; see --help")
    for case in given.cases:
        if case not in CASES:
            fail(f"{case} is no case; there are {', '.join(CASES)}")
    return given


def measure(given, work):
    deadline = time.monotonic() + given.seconds
    cases = given.cases or list(CASES)
    programs = [("former", os.path.abspath(given.former))] if given.former else []
    programs.append(("new", os.path.abspath(given.spmm)))
    make_inputs(cases, programs[-1][1], work)
    rows = [Row("", "empty CUDA program", [os.path.abspath(given.empty)])] if given.empty else []
    for case in cases:
        rows += rows_of(case, programs, work)
    subprocess.run(rows[0].words, stdin=subprocess.DEVNULL, capture_output=True, cwd=work)  # the driver's own files
    for index in range(ROUNDS):
        for row in rows:
            if row.is_due(index, deadline - time.monotonic()):
                row.run(work)
    return rows


def machine():
    cpu = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    driver = pathlib.Path("/proc/driver/nvidia/version")
    number = re.search(r"\b\d+\.\d+(\.\d+)?\b", driver.read_text()) if driver.exists() else None
    return {"cpu": cpu.group(1) if cpu else "", "cores": len(os.sched_getaffinity(0)),
            **({"nvidia_driver": number.group()} if number else {})}


def document(given, rows):
    version = subprocess.run([given.spmm, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    revision = re.search(r"\(git ([^)]*)\)", version)
    devices = {row.said["device"] for row in rows if row.said.get("backend") == "cuda"}
    return {"schema": 1, "program": "process_times.py", "version": version, "revision": revision[1] if revision else "unknown",
            "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "command": ["process_times.py", *sys.argv[1:]], "machine": machine(), "devices": sorted(devices), "rounds": ROUNDS,
            "rows": [row.content() for row in rows]}


def main():
    given = parsed_arguments()
    with tempfile.TemporaryDirectory(dir=given.work) as folder:
        rows = measure(given, pathlib.Path(folder).absolute())
    print(f"{'ms':39}whole (least to most)       total     outside (least to most)   open    init    context runs")
    for row in rows:
        print(row.text())
    if given.json:
        pathlib.Path(given.json).write_text(json.dumps(document(given, rows), indent=1) + "\n")


if __name__ == "__main__":
    main()
