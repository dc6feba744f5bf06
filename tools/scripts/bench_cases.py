"""What scipy_bench.py, cusparse_bench.py and process_times.py share: the cases of data/suites.json, their files, and measurements."""
import argparse
import datetime
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

SCHEMA = 1  # kMeasurementSchema of tools/common/json.cpp
LARGEST = 2**32 - 1
NAME = pathlib.Path(sys.argv[0]).name


def fail(message):
    sys.exit(f"{NAME}: error: {message}")


def make_parser(doc):
    """A parser with the options that all of them have."""
    root = pathlib.Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suites", type=pathlib.Path, default=root / "data" / "suites.json", help="file of the suites")
    parser.add_argument("--suite", default="", help="suites, with commas between")
    parser.add_argument("--case", default="", help="cases, with commas between")
    parser.add_argument("--bin", type=pathlib.Path, default=root / "build" / "bin", help="folder of spmm and spmm-gen")
    parser.add_argument("--runs", type=int, default=5, help="timed products of each kind")
    parser.add_argument("--seconds", type=float, default=1e9, help="no case begins later than this (default: all cases)")
    parser.add_argument("--work", help="folder for matrices (default: a temporary one)")
    parser.add_argument("--json", type=pathlib.Path, help="write the measurement to this file")
    return parser


# ---- cases and their files


def checked(command):
    try:
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    except OSError as error:
        fail(f"{command[0]}: {error.strerror}; build it, or name its folder with --bin")
    if done.returncode != 0:
        fail(f"{' '.join(command)} ended with {done.returncode}: {done.stderr.strip()}")


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
        chosen.update({case["name"]: case for case in suites[name] if not case["name"].startswith("even-")})
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


def read_bsr(path):
    """An operand as block-CSR, sorted: n, indptr, indices, blocks [k, m, m]."""
    n, m, k = (int(x) for x in np.fromfile(path, "<u4", 3))
    records = np.fromfile(path, np.dtype([("i", "<u4"), ("j", "<u4"), ("block", "<u2", (m, m))]), k, offset=12)
    records = records[np.lexsort((records["j"], records["i"]))]
    indptr = np.concatenate(([0], np.cumsum(np.bincount(records["i"], minlength=n // m))))
    return n, indptr, records["j"], records["block"]


# ---- measurements


def spread(seconds):
    return {"median": 1000 * statistics.median(seconds), "min": 1000 * min(seconds), "max": 1000 * max(seconds)}


def machine():
    cpu = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    memory = re.search(r"MemTotal:\s*(\d+)", pathlib.Path("/proc/meminfo").read_text())
    return {"cpu": cpu.group(1) if cpu else "", "cores": len(os.sched_getaffinity(0)),
            "memory_bytes": 1024 * int(memory.group(1)) if memory else 0}


def head(arguments, **more):
    """What a measurement begins with: program, version, date, machine."""
    try:
        version = subprocess.run([str(arguments.bin / "spmm"), "--version"], capture_output=True, text=True).stdout.strip()
    except OSError as error:
        fail(f"{arguments.bin / 'spmm'}: {error.strerror}; build it, or name its folder with --bin")
    revision = re.search(r"\(git ([^)]*)\)", version)
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"schema": SCHEMA, "program": NAME, "version": version, "revision": revision.group(1) if revision else "unknown",
            "date": now, "command": [NAME, *sys.argv[1:]], "machine": machine(), "numpy": np.__version__,
            "python": sys.version.split()[0], "runs": arguments.runs, **more}


def measure_cases(arguments, found, measure):
    """Adds what measure(case, paths of A and B) returns for each case; the JSON file is complete up to the last case at any time.
    Returns the exit code: 1 if a result differs."""
    deadline = time.monotonic() + arguments.seconds
    with tempfile.TemporaryDirectory(dir=arguments.work) as arguments.work:
        for case in find_cases(arguments):
            if time.monotonic() > deadline:
                break
            paths = [make_input(arguments, case, seed) for seed in (1, 2)]
            found["cases"].append({**case, **measure(case, paths)})
            for path in paths:
                os.remove(path)
            for kernel in found["cases"][-1]["kernels"]:
                what = kernel.get("reason") or "{median:10.4g} ms ({min:.4g}-{max:.4g})".format(**kernel["ms"])
                print(f"{case['name']:24} {kernel.get('program', '')} {kernel['kernel']:14} {what}{'' if is_right(kernel) else '  DIFFERS'}",
                      flush=True)
            if arguments.json:
                arguments.json.write_text(json.dumps(found, indent=1) + "\n")
    return 0 if all(is_right(kernel) for case in found["cases"] for kernel in case["kernels"]) else 1


def is_right(kernel):
    return kernel.get("validated", kernel.get("same_values", True))
