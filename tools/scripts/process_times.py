#!/usr/bin/env python3
"""Times whole processes of spmm on the cases of data/suites.json: the GPU, the CPU and the backend that auto takes, in turns.

usage: python3 tools/scripts/process_times.py --suite S,course --json processes.json
       python3 tools/scripts/process_times.py --case S1,P3 --former old/bin/spmm

A round runs each command once, with the result thrown away, or written to a new file (--write); files of operands stay in the
page cache. --former runs the same with another program. A command whose first run takes longer than --max-seconds is not run again. ms: from
the start of the process to its end; total_ms: total_s of its report. Exit codes: 0, 1 a command failed, 2 usage.
"""
import json
import os
import pathlib
import subprocess
import sys
import time

sys.dont_write_bytecode = True  # the folder of the scripts stays as it is
from bench_cases import fail, head, make_parser, measure_cases, spread  # noqa: E402


def run(program, backend, paths, report, limit_s):
    """Seconds of a process, and its report; nothing and the reason if it failed."""
    if os.path.isfile(paths[-1]):
        os.remove(paths[-1])
    begin = time.perf_counter()
    try:
        done = subprocess.run([program, "--quiet", "--force", "--backend", backend, "--report", report, *paths],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=limit_s)
    except subprocess.TimeoutExpired:
        return None, f"takes more than {limit_s:g} s"
    seconds = time.perf_counter() - begin
    if done.returncode != 0:
        return None, f"exit code {done.returncode}: {done.stderr.strip()[:200]}"
    return seconds, json.loads(pathlib.Path(report).read_text())


def measure(arguments, programs, paths):
    """Rounds of all commands of a case."""
    report = str(pathlib.Path(arguments.work) / "report.json")
    out = str(pathlib.Path(arguments.work) / "out.bin") if arguments.write else "/dev/null"
    rows = [{"program": name, "kernel": backend, "path": path} for backend in arguments.backends.split(",") for name, path in programs]
    times = [[] for _ in rows]
    counts = {}
    for _ in range(arguments.runs):
        for row, took in zip(rows, times):
            if "reason" in row:
                continue
            seconds, said = run(row["path"], row["kernel"], [*paths, out], report, arguments.max_seconds)
            if seconds is None:
                row["reason"] = said
                continue
            row.update(backend=said["backend"], chosen=said["kernel"], device=said["device"])
            counts = {"pairs": said["pairs"], "c_blocks": said["c"]["blocks"]}
            took.append((seconds, said["total_s"]))
    for row, took in zip(rows, times):
        del row["path"]
        if took:
            row.pop("reason", None)
            row.update(ms=spread([seconds for seconds, _ in took]), total_ms=spread([total for _, total in took]))
    return {**counts, "kernels": rows}


def main():
    parser = make_parser(__doc__)
    parser.add_argument("--former", help="a program to compare with")
    parser.add_argument("--backends", default="cuda,cpu,auto", help="with commas between")
    parser.add_argument("--write", action="store_true", help="write results to a file in the work folder")
    parser.add_argument("--max-seconds", type=float, default=20, help="a command that takes longer is given up")
    arguments = parser.parse_args()
    programs = [("new", str(arguments.bin / "spmm"))] + ([("former", arguments.former)] if arguments.former else [])
    found = head(arguments, devices=[], cases=[])

    def measure_case(case, paths):
        measured = measure(arguments, programs, paths)
        devices = [row.pop("device") for row in measured["kernels"] if "device" in row]
        found["devices"] = list(dict.fromkeys(found["devices"] + devices))
        return measured

    measure_cases(arguments, found, measure_case)
    if any("reason" in row for case in found["cases"] for row in case["kernels"] if row["kernel"] == "auto"):
        fail("a command failed")


if __name__ == "__main__":
    main()
