#!/usr/bin/env python3
"""Times whole processes of spmm, and of a former one, in turns.

usage: python3 tools/scripts/process_times.py [--former SPMM] [--seconds S] [--work DIR] SPMM [CASE...]

CASE is tiny or one of S1 to S6 (all); inputs are made by SPMM and stay in the page cache, each run writes a new file. A
round runs every row once. There are 7 rounds, or as many as the time allows; a row of more than 3 s runs in 3 of them, one
that --plan predicts to take more than 20 s is left out. The table has medians with the smallest and largest value, in ms: the whole
process, total_s of its report, what is outside of that (start before main, end after it), and the stage open, in which
CUDA starts.
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
SLOW_S = 3.0
SLOW_ROUNDS = (0, 3, 6)
LEFT_OUT_S = 20.0
CASES = {"tiny": (64, 4, 100), "S1": (8192, 8, 100_000), "S2": (32768, 4, 1_000_000), "S3": (32768, 8, 8_800_000),
         "S4": (32768, 4, 33_000_000), "S5": (1 << 20, 8, 1_000_000), "S6": (1 << 24, 8, 10_000_000)}
COLUMNS = {"whole": 28, "total": 10, "outside": 26, "open": 8}  # names and widths


class Row:
    """One command that is run again and again. Times are in ms."""

    def __init__(self, case, label, words, predicted_s):
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
        self.said = json.loads((work / "report.json").read_text())
        total = 1e3 * self.said["total_s"]
        self.runs.append({"whole": whole, "total": total, "outside": whole - total,
                          "open": 1e3 * self.said["stages"].get("open", {}).get("s", 0)})
        self.slowest_s = max(run["whole"] for run in self.runs) / 1e3
        (work / "out.bin").unlink()

    def text(self):
        cells = [f"{self.case:5}{self.label:20}"]
        if not self.runs:
            return cells[0] + self.error
        for key, width in COLUMNS.items():
            values = [run[key] for run in self.runs]
            words = f"{statistics.median(values):.1f}"
            cells.append((words + (f" ({min(values):.1f} to {max(values):.1f})" if width > 20 else "")).ljust(width))
        return "".join(cells) + f"{len(self.runs)} runs {self.said['backend']} {self.said['kernel']}"


def predicted_seconds(words):
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return json.loads(done.stdout)["plan"]["predicted_s"] if done.returncode == 0 else 0.0


def rows_of(case, programs, work):
    newest = programs[-1][1]
    paths = [str(work / f"{case}-{name}.bin") for name in "ab"]
    for seed, path in enumerate(paths, 1):
        n, m, k = CASES[case]
        subprocess.run([newest, "gen", "-q", "--n", str(n), "--m", str(m), "--k", str(k), "--seed", str(seed), path], check=True)
    rows = []
    for backend in ("auto", "cuda", "cpu"):
        options = ["--backend", backend]
        predicted = predicted_seconds([newest, "--plan", "--report", "-", *options, *paths])
        for name, program in programs:
            rows.append(Row(case, f"{backend} {name}", [program, "-q", "--report", "report.json", *options, *paths, "out.bin"], predicted))
    return rows


def measure(given, work):
    deadline = time.monotonic() + given.seconds
    programs = [("former", os.path.abspath(given.former))] if given.former else []
    programs.append(("new", os.path.abspath(given.spmm)))
    rows = [row for case in given.cases or CASES for row in rows_of(case, programs, work)]
    subprocess.run(rows[0].words, stdin=subprocess.DEVNULL, capture_output=True, cwd=work)  # the driver's own files
    for index in range(ROUNDS):
        for row in rows:
            if row.is_due(index, deadline - time.monotonic()):
                row.run(work)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--former", help="a program to compare with")
    parser.add_argument("--seconds", type=float, default=200, help="time of all rounds")
    parser.add_argument("--work", help="folder for matrices (default: a temporary one)")
    parser.add_argument("spmm")
    parser.add_argument("cases", nargs="*", metavar="CASE")
    given = parser.parse_args()
    for case in given.cases:
        if case not in CASES:
            sys.exit(f"process_times.py: error: {case} is no case; there are {', '.join(CASES)}")
    with tempfile.TemporaryDirectory(dir=given.work) as folder:
        rows = measure(given, pathlib.Path(folder).absolute())
    print(f"{'ms':25}whole (least to most)       total     outside (least to most)   open    runs")
    for row in rows:
        print(row.text())


if __name__ == "__main__":
    main()
