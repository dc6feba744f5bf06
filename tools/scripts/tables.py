#!/usr/bin/env python3
"""Writes the published tables from the measurements in data/measurements/, or checks that they are the same.

usage: python3 tools/scripts/tables.py            write every table of every *.md file
       python3 tools/scripts/tables.py --check    exit code 1 if a table and its measurements differ

In a document a table stands between two lines of their own, <!-- table: NAME --> and <!-- end -->. tools/scripts/measure.sh
makes the measurements.
"""
import argparse
import difflib
import json
import os
import pathlib
import re
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[2]
MEASUREMENTS = ROOT / "data" / "measurements"
SCHEMA = 1  # kMeasurementSchema of tools/common/json.cpp
LINE_CHARS = 130
NONE = "–"
TABLE = re.compile(r"(<!-- table: ([a-z0-9-]+) -->\n)(.*?)(<!-- end -->\n)", re.DOTALL)
TABLES = {}  # name -> (files, function that gives the head and the rows)


def fail(message):
    sys.exit(f"tables.py: error: {message}")


# ---- measurements


def read(name):
    path = MEASUREMENTS / f"{name}.json"
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        fail(f"{path}: {error}; make it with tools/scripts/measure.sh")
    missing = [key for key in ("schema", "program", "command", "date", "revision") if not found.get(key)]
    if missing or found["schema"] != SCHEMA:
        fail(f"{path}: lacks {', '.join(missing) or f'schema {SCHEMA}'}; measure again with tools/scripts/measure.sh")
    return found


def kernels(case):
    """The kernels of a case that ran, by name; those of other libraries only if their results are right. A wrong result of spmm is
    not published."""
    ran = {one["kernel"]: one for one in case["kernels"] if one["status"] == "ok"}
    for name, one in ran.items():
        if not one.get("validated", True):
            fail(f"{name} on {case['name']} has a wrong result; do not publish it")
    return {name: one for name, one in ran.items() if one.get("same_values", True)}


def cases(name):
    return {case["name"]: case for case in read(name)["cases"]}


def median(found, *keys):
    for key in (*keys, "median"):
        found = found.get(key) if isinstance(found, dict) else None
    return found


# ---- numbers as text


def short(number, unit="", factor=1.0):
    """Three digits, whole numbers from 1,000 on."""
    if number is None:
        return NONE
    number *= factor
    text = f"{float(f'{number:.3g}'):,.0f}" if abs(number) >= 999.5 else f"{number:.3g}"
    return text + unit


def power(number):
    """9.77e6."""
    mantissa, exponent = f"{number:.2e}".split("e")
    return f"{float(mantissa):g}e{int(exponent)}"


# ---- tables


def table(name, *files):
    def add(make):
        TABLES[name] = files, make
        return make
    return add


@table("speed", "gpu-speed", "gpu-processes", "gpu-cusparse", "cpu-scipy", "elsewhere")
def speed_table():
    rows = []
    speed, processes, peers = cases("gpu-speed"), cases("gpu-processes"), cases("gpu-cusparse")
    course = read("elsewhere")["course program"]
    for name, case in speed.items():
        ours, theirs, old = kernels(case)["auto"], kernels(peers.get(name, {"kernels": []})), course.get(name, {})
        rows.append([name, power(ours["pairs"]), short(median(ours, "device_ms"), " ms"), short(median(ours, "total_s"), " ms", 1e3),
                     short(median(processes[name]["kernels"][0], "ms"), " s", 1e-3), short(median(theirs.get("warp-f32"), "ms"), " ms"),
                     old.get("text") or f"{short(old['kernel_ms'])} ms, {short(old['total_s'])} s"])
    for name, case in cases("cpu-scipy").items():
        if re.fullmatch("P[0-9]", name):
            ran = kernels(case)
            best = min(median(one, "ms") for kernel, one in ran.items() if kernel.startswith("scipy"))
            ours = ran["spmm"]
            rows.append([name, power(ours["pairs"]), NONE, short(median(ours, "ms"), " ms"), NONE, short(best, " ms"), NONE])
    return ["case", "pairs", "device", "engine", "process", "Warp f32 (S), SciPy (P)", "course program"], rows


@table("peers", "gpu-cusparse")
def peers_table():
    names = ["spmm", "spmm-plan", "warp-f32", "warp-f32-kept", "f32-cupy", "f64-cupy"]
    rows = []
    for case in cases("gpu-cusparse").values():
        ran = kernels(case)
        if "f64-cupy" not in ran:
            ran.pop("f32-cupy", None)  # the same algorithm; an older measurement did not check its values
        rows.append([case["name"], *(short(median(ran.get(name), "ms")) for name in names)])
    return ["case", "spmm ms", "plan", "Warp f32", "topology kept", "cuSPARSE f32", "f64"], rows


def times_table(name, head, kinds, *files, key="ms"):
    """A table with a time of each kind of product. A case of the first file has those of the other files, too."""
    @table(name, *files)
    def make():
        measured, others = cases(files[0]), [cases(file) for file in files[1:]]
        rows = []
        for case in measured.values():
            ran = {}
            for one in [*(other.get(case["name"], {"kernels": []}) for other in others), case]:
                ran.update(kernels(one))
            rows.append([case["name"], *(short(median(ran.get(kind), key)) for kind in kinds)])
        return ["case", *head], rows


WAYS = {"": "call", "-tenth": "a tenth", "-plan": "plan", "-plan-beta": "plan, beta", "-tenth-plan": "plan, a tenth"}
times_table("chains", ["f32 ms", "plan", "f64 ms", "plan", "Warp f32", "topology kept"],
            ["f32", "f32-plan", "f64", "f64-plan", "warp-f32", "warp-f32-kept"], "gpu-chains", "gpu-cusparse")
times_table("types", ["i8 ms", "f16", "f32", "f64", "cuSPARSE f32", "f64"],
            ["i8", "f16", "f32", "f64", "f32-cusparse", "f64-cusparse"], "gpu-types")
times_table("masks", [f"{kind} {way}" for kind in ("f32", "f64") for way in WAYS.values()],
            [kind + way for kind in ("f32", "f64") for way in WAYS], "gpu-masks")
times_table("cpu-chains", ["f32 ms", "SciPy", "f64 ms", "SciPy"],
            ["spmm-f32", "scipy-bsr-f32-two", "spmm-f64", "scipy-bsr-f64-two"], "cpu-chains", key="cpu_ms")


@table("ranks", "ranks")
def ranks_table():
    rows = []
    for case in read("ranks")["cases"]:
        totals = {name: short(median(one, "total_s")) for name, one in kernels(case).items()}
        alone = [totals[name] for name in ("process", "16 threads", "32 threads", "64 threads") if name in totals]
        rows.append([case["name"], "GPUs" if case["backend"] == "cuda" else "CPU", case["out"].replace("/dev/", ""),
                     ", ".join(alone) or NONE, *(totals.get(name, NONE) for name in ("1 rank", "2 ranks", "4 ranks"))])
    return ["product", "on", "to", "one process", "1 rank", "2 ranks", "4 ranks"], rows


@table("processes", "processes")
def processes_table():
    """Cases whose faster backend takes the longest."""
    rows = []
    for case in read("processes")["cases"]:
        ms = {kernel["kernel"]: median(kernel, "ms") for kernel in case["kernels"]}
        rows.append((min(ms["cpu"], ms["cuda"]), [case["name"], power(case["pairs"]), power(case["c_blocks"]),
                                                  *(short(ms[backend], factor=1e-3) for backend in ("cpu", "cuda"))]))
    return ["case", "pairs", "C blocks", "CPU s", "GPU s"], [row for _, row in sorted(rows, reverse=True)[:8]]


# ---- documents


def source_text(files, document):
    """The files of a table, each with its device and day."""
    links = []
    for name in files:
        found = read(name)
        device = ", ".join(device for device in found.get("devices", [found.get("device")]) if device)
        words = f"{device or 'CPU'}, {found['date'][:10]}" if "machine" in found else "measured elsewhere"
        links.append(f"[{name}]({os.path.relpath(MEASUREMENTS / f'{name}.json', document.parent)}) ({words})")
    return textwrap.wrap("Measured: " + ", ".join(links), LINE_CHARS, break_long_words=False, break_on_hyphens=False)


def table_text(name, document):
    if name not in TABLES:
        fail(f"{document}: no table is called {name}; use one of {', '.join(TABLES)}")
    files, make = TABLES[name]
    head, rows = make()
    lines = ["| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows]]
    return "\n".join(["", *lines, "", *source_text(files, document), "", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing, fail if a table differs")
    arguments = parser.parse_args()
    is_stale = False
    for folder, folders, names in os.walk(ROOT):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "build")))
        for document in sorted(pathlib.Path(folder) / name for name in names if name.endswith(".md")):
            old = document.read_text()
            new = TABLE.sub(lambda found: found[1] + table_text(found[2], document) + found[4], old)
            if old.count("<!-- table:") != len(TABLE.findall(old)) + old.count("`<!-- table:"):
                fail(f"{document}: a table lacks its <!-- end -->")
            if new != old:
                is_stale = True
                print(*difflib.unified_diff(old.split("\n"), new.split("\n"), str(document), "measured", lineterm=""), sep="\n")
                if not arguments.check:
                    document.write_text(new)
    if is_stale and arguments.check:
        fail("write the tables with: python3 tools/scripts/tables.py")


if __name__ == "__main__":
    main()
