#!/usr/bin/env python3
"""Times whole processes of two builds of spmm in turns, and an empty CUDA program.

usage: python3 tools/scripts/process_times.py [--former SPMM] [--empty PROGRAM] [--seconds S] [--work DIR] [--json FILE] SPMM [CASE...]
       python3 tools/scripts/process_times.py --build-empty PROGRAM

CASE is tiny or one of S1 to S6 (all); inputs are made by SPMM and stay in the page cache, each run writes a new file. A
round runs every row once; rounds go on until there are 7 or the time is over. Rows that --plan predicts to take more than
3 s are left out. The table has medians with the smallest and largest value, in ms: the whole process, total_s of its report, what
is outside of that (start before main, end after it), and the stage open, in which CUDA starts. --build-empty compiles
the empty program, which needs cc and no CUDA; its total is what its main takes.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROUNDS = 7
SLOW_S = 3.0  # rows that are predicted to take longer are left out
PAUSE_S = 0.15  # after a process that leaves its end to another one: the next start would wait for that
CASES = {"tiny": (64, 4, 100), "S1": (8192, 8, 100_000), "S2": (32768, 4, 1_000_000), "S3": (32768, 8, 8_800_000),
         "S4": (32768, 4, 33_000_000), "S5": (1 << 20, 8, 1_000_000), "S6": (1 << 24, 8, 10_000_000)}
PARTS = ("S2", "S3", "S4")

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

    def __init__(self, case, label, words, out=None, leaves=False):
        self.case, self.label, self.words, self.out, self.leaves = case, label, words, out, leaves
        self.runs = []  # of dictionaries
        self.error = ""

    def run(self, report):
        begin = time.perf_counter()
        done = subprocess.run(self.words, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        whole = 1e3 * (time.perf_counter() - begin)
        if done.returncode != 0:
            self.error = f"exit code {done.returncode} {done.stderr.strip()[:120]}"
        else:
            said = json.loads(report.read_text() if self.out else done.stdout)
            total = 1e3 * said["total_s"]
            one = {"whole": whole, "total": total, "outside": whole - total, "backend": said.get("backend", "")}
            for name in ("init", "context"):
                if name + "_s" in said:
                    one[name] = 1e3 * said[name + "_s"]
            if "stages" in said:
                stage = said["stages"].get("open", 0)
                one["open"] = 1e3 * (stage.get("s", stage.get("seconds", 0)) if isinstance(stage, dict) else stage)
            self.runs.append(one)
        if self.out:
            subprocess.run(["rm", "-rf", self.out], check=True)
        if self.leaves:
            time.sleep(PAUSE_S)

    def text(self):
        cells = [f"{self.case:5}{self.label:34}"]
        if self.error:
            return cells[0] + self.error
        kept = self.runs[1:] if len(self.runs) > 2 else self.runs  # the first one warms caches
        for key, width in (("whole", 28), ("total", 10), ("outside", 26), ("open", 8), ("init", 8), ("context", 8)):
            values = [run[key] for run in kept if key in run]
            middle = f"{statistics.median(values):.1f}" if values else "-"
            spread = f" ({min(values):.1f} to {max(values):.1f})" if values and key in ("whole", "outside") else ""
            cells.append((middle + spread).ljust(width))
        return "".join(cells) + f"{len(kept)} runs {kept[-1]['backend']}"


def is_slow(words):
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return done.returncode == 0 and json.loads(done.stdout)["plan"]["predicted_s"] > SLOW_S


def rows_of(case, programs, work, report):
    a, b = work / f"{case}-a.bin", work / f"{case}-b.bin"
    n, m, k = CASES[case]
    for seed, path in ((1, a), (2, b)):
        if not path.exists():
            size = ["--n", str(n), "--m", str(m), "--k", str(k), "--seed", str(seed)]
            subprocess.run([programs[-1][1], "gen", "-q", *size, str(path)], check=True)
    kinds = [(backend, ["--backend", backend]) for backend in ("auto", "cuda", "cpu")]
    if case in PARTS:
        kinds.append(("cuda, 8 parts", ["--backend", "cuda", "--parts", "8"]))
    rows = []
    for kind, options in kinds:
        if is_slow([programs[-1][1], "--plan", "--report", "-", *options, str(a), str(b)]):
            continue
        for name, program in programs:
            out = str(work / "out.bin")
            words = [program, "-q", "--report", str(report), *options, str(a), str(b), out]
            rows.append(Row(case, f"{kind} {name}", words, out))
            if name == "new" and kind != "cpu":
                rows.append(Row(case, f"{kind} {name} --no-wait", [*words, "--no-wait"], out, leaves=True))
    return rows


def parsed_arguments():
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1].removeprefix("usage: "))
    parser.add_argument("--former")
    parser.add_argument("--empty")
    parser.add_argument("--build-empty")
    parser.add_argument("--seconds", type=float, default=220)
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
    report = work / "report.json"
    programs = ([("former", given.former)] if given.former else []) + [("new", given.spmm)]
    rows = [Row("", "empty CUDA program", [given.empty])] if given.empty else []
    for case in given.cases or CASES:
        rows += rows_of(case, programs, work, report)
    for _ in range(ROUNDS + 1):
        for row in rows:
            last = row.runs[-1]["whole"] / 1e3 if row.runs else 0
            if not row.error and time.monotonic() + last < deadline:
                row.run(report)
    return rows


def main():
    given = parsed_arguments()
    with tempfile.TemporaryDirectory(dir=given.work) as folder:
        rows = measure(given, pathlib.Path(folder))
    head = "whole (least to most)       total     outside (least to most)   open    init    context runs"
    print(f"{'ms':39}{head}")
    for row in rows:
        if row.runs or row.error:
            print(row.text())
    if given.json:
        content = [{"case": r.case, "row": r.label, "words": r.words, "runs": r.runs, "error": r.error} for r in rows]
        pathlib.Path(given.json).write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
