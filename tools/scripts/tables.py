#!/usr/bin/env python3
"""Writes the published tables from the measurements in data/measurements/, or checks that they are the same.

usage: python3 tools/scripts/tables.py            write every table of every *.md file
       python3 tools/scripts/tables.py --check    exit code 1 where a table and its measurements differ
       python3 tools/scripts/tables.py --list     the tables, their measurements, where they are published

In a document a table stands between two lines of their own, <!-- table: NAME --> and <!-- end -->. What a table holds is
said below, under "tables". tools/scripts/measure.sh makes the measurements.
"""
import argparse
import collections
import difflib
import json
import os
import pathlib
import re
import sys
import textwrap

SCHEMA = 1  # kMeasurementSchema of tools/common/measurement.hpp
REQUIRED = ["schema", "program", "command", "date", "revision"]
OPEN = re.compile(r"<!-- table: ([a-z0-9-]+) -->$")
CLOSE = "<!-- end -->"
LEFT_OUT = {"--json", "--work", "--suites", "--bin", "--out"}  # of a published command: folders of the machine
LINE_CHARS = 130
NONE = "–"


class Problem(Exception):
    """Something that makes a table impossible; the text says where and what to do."""


# ---- measurements


class Measurements:
    """The JSON files of data/measurements, read when first asked for."""

    def __init__(self, folder):
        self.folder = folder
        self.files = {}

    def file(self, name):
        if name not in self.files:
            self.files[name] = self.read(self.folder / f"{name}.json")
        return self.files[name]

    @staticmethod
    def read(path):
        try:
            found = json.loads(path.read_text())
        except (OSError, ValueError) as error:
            raise Problem(f"{path}: {error}; make it with tools/scripts/measure.sh") from error
        missing = [key for key in REQUIRED if not found.get(key)]
        if missing:
            raise Problem(f"{path}: lacks {', '.join(missing)}; make it with tools/scripts/measure.sh")
        if found["schema"] != SCHEMA:
            raise Problem(f"{path}: schema {found['schema']}, this script reads {SCHEMA}; measure again")
        return found

    def case(self, name, case):
        """One case of spmm-bench; an empty one where it was not measured."""
        return next((one for one in self.file(name)["cases"] if one["name"] == case), {"name": case, "kernels": []})

    def kernel(self, name, case, kernel):
        """A kernel on a case; {} where it could not run. Errors: Problem (its result was wrong)."""
        for one in self.case(name, case)["kernels"]:
            if one["kernel"] != kernel or one["status"] != "ok":
                continue
            if not one["validated"]:
                raise Problem(f"{name}.json: {kernel} on {case} has a wrong result; do not publish it")
            return one
        return {}


def value(found, *keys):
    """The number behind some keys; None where there is none."""
    for key in keys:
        found = found.get(key) if isinstance(found, dict) else None
    return found


def median(found, *keys):
    return value(found, *keys, "median")


# ---- numbers as text


def short(number, unit="", factor=1.0):
    """Three digits, whole numbers from 1,000 on."""
    if number is None:
        return NONE
    number *= factor
    if number == 0:
        return "0" + unit
    text = f"{float(f'{number:.3g}'):,.0f}" if abs(number) >= 999.5 else f"{number:.3g}"
    return text + unit


def whole(number):
    return NONE if number is None else f"{number:,}"


def power(number):
    """9.77e6."""
    if number is None:
        return NONE
    mantissa, exponent = f"{number:.2e}".split("e")
    return f"{float(mantissa):g}e{int(exponent)}"


def share_text(kernel):
    limit = kernel.get("limit")
    return f"{100 * limit['share']:.0f} % of {limit['binds']}" if limit else NONE


# ---- tables: a function from measurements to a head and rows, and the files it reads (of elsewhere.json one part)

Table = collections.namedtuple("Table", "files make")
TABLES = {}


def table(name, *files):
    def add(make):
        TABLES[name] = Table(files, make)
        return make
    return add


S_CASES = ["S1", "S2", "S3", "S4", "S5", "S6"]
P_CASES = ["P1", "P2", "P3", "P4", "P5"]
VALUE_CASES = ["S3-max20", "S3-max65535", "S4-max20", "S4-max65535"]
DENSITY_KERNELS = ["two-pointer", "rows", "dense-tiled", "dense-tensor"]
DENSE_KERNELS = ["global", "tiled", "tiled-two", "register", "library", "tensor"]


def two_pointer_ms(data, case):
    """Of the timed runs, else of the one run that the other kernels were compared with."""
    timed = median(data.kernel("gpu-reference", case, "two-pointer"), "multiply_ms")
    baseline = data.case("gpu-speed", case).get("baseline", {})
    if timed is None and baseline.get("kernel") == "two-pointer":
        return baseline["multiply_ms"]
    return timed


@table("speed", "gpu-speed", "gpu-reference", "elsewhere:course program")
def speed_table(data):
    rows = []
    for case in S_CASES:
        auto = data.kernel("gpu-speed", case, "auto")
        course = data.file("elsewhere")["course program"].get(case, {})
        rows.append([case, power(auto.get("pairs")), auto.get("chosen", NONE), short(median(auto, "device_ms")),
                     short(median(auto, "multiply_ms")), short(auto.get("gpairs_per_s_multiply")),
                     short(median(auto, "e2e_s")), short(auto.get("e2e_over_floor")), short(two_pointer_ms(data, case)),
                     course.get("text") or f"{short(course['kernel_ms'])} ms / {short(course['total_s'])} s"])
    return ["case", "pairs", "kernel", "device ms", "multiply ms", "Gpair/s of multiply", "process s", "process / floor",
            "two-pointer: multiply ms", "course program: kernel / process"], rows


@table("cpu", "cpu-speed", "elsewhere:SciPy")
def cpu_table(data):
    rows = []
    for case in P_CASES:
        auto = data.kernel("cpu-speed", case, "auto")
        scipy = data.file("elsewhere")["SciPy"].get(case, {})
        rows.append([case, power(auto.get("pairs")), auto.get("chosen", NONE), short(median(auto, "device_ms")),
                     short(auto.get("gpairs_per_s_multiply")), short(median(auto, "e2e_s")),
                     short(auto.get("e2e_over_floor")), short(auto.get("e2e_peak_resident_bytes"), factor=1e-6),
                     short(scipy.get("ms"))])
    return ["case", "pairs", "kernel", "build to multiply ms", "Gpair/s of multiply", "process s", "process / floor",
            "process MB", "SciPy ms"], rows


@table("kernels-cases", "gpu-speed")
def kernels_cases_table(data):
    rows = []
    for case in S_CASES:
        auto = data.kernel("gpu-speed", case, "auto")
        stages = [short(median(auto, "stages_ms", stage)) for stage in ("build", "count", "multiply", "compact")]
        rows.append([case, auto.get("chosen", NONE), short(median(auto, "device_ms")), *stages,
                     short(auto.get("gpairs_per_s_multiply")), share_text(auto)])
    return ["case", "picked", "device ms", "build", "count", "multiply", "compact", "Gpair/s of multiply",
            "share of the limit"], rows


@table("kernels-shapes", "gpu-shapes")
def kernels_shapes_table(data):
    rows = []
    for case in data.file("gpu-shapes")["cases"]:
        auto = data.kernel("gpu-shapes", case["name"], "auto")
        if "compared" not in auto:
            continue
        rows.append([case["name"], power(auto["pairs"]), auto["chosen"], short(median(auto, "device_ms")),
                     auto["compared"]["with"], short(auto["compared"].get("device_ms")),
                     short(auto["compared"].get("multiply_ms"))])
    return ["case", "pairs", "picked", "device ms", "compared with", "time per pair * m^3, device", "multiply"], rows


@table("kernels-values", "gpu-shapes", "gpu-speed")
def kernels_values_table(data):
    rows = []
    for file, case in [("gpu-speed", "S3"), ("gpu-speed", "S4")] + [("gpu-shapes", case) for case in VALUE_CASES]:
        auto = data.kernel(file, case, "auto")
        rows.append([case, whole(data.case(file, case).get("max_value")), auto.get("chosen", NONE),
                     short(median(auto, "device_ms")), short(median(auto, "multiply_ms")),
                     short(auto.get("gpairs_per_s_multiply"))])
    return ["case", "largest element", "picked", "device ms", "multiply ms", "Gpair/s of multiply"], rows


@table("kernels-density", "gpu-density")
def kernels_density_table(data):
    measured = {}
    for case in data.file("gpu-density")["cases"]:
        measured.setdefault(case["name"].rsplit("-", 1)[1], {})[case["m"]] = case["name"]
    sides = sorted({m for names in measured.values() for m in names})
    rows = []
    for share, names in measured.items():
        cells = [short(median(data.kernel("gpu-density", names[m], kernel), "device_ms")) if m in names else NONE
                 for m in sides for kernel in DENSITY_KERNELS]
        rows.append([share.replace("%", " %"), *cells])
    return ["share of blocks"] + [f"m = {m}: {kernel}" if kernel == DENSITY_KERNELS[0] else kernel
                                  for m in sides for kernel in DENSITY_KERNELS], rows


@table("kernels-reference", "gpu-reference", "gpu-speed", "elsewhere:course program")
def kernels_reference_table(data):
    rows = []
    for case in S_CASES:
        others = [short(median(data.kernel("gpu-reference", case, kernel), "multiply_ms"))
                  for kernel in ("binary-search", "host-driven")]
        course = data.file("elsewhere")["course program"].get(case, {})
        rows.append([case, short(two_pointer_ms(data, case)), *others, short(course.get("kernel_ms"))])
    return ["case", "two-pointer ms", "binary-search ms", "host-driven ms", "course program's kernel ms"], rows


@table("dense", "gpu-dense")
def dense_table(data):
    """10^12 operations per second, 2 per multiply-add."""
    rates = {}
    for row in data.file("gpu-dense")["rows"]:
        if row["series"] != "square" or row["kernel"] not in DENSE_KERNELS:
            continue
        if not row["check"]["passed"]:
            raise Problem(f"gpu-dense.json: {row['kernel']}, {row['type']} has a wrong result; do not publish it")
        rates.setdefault((row["type"], row["rows"]), {})[row["kernel"]] = row["gflops"]
    rows = [[whole(n), kind, *[short(found.get(kernel), factor=1e-3) for kernel in DENSE_KERNELS]]
            for (kind, n), found in sorted(rates.items())]
    return ["n", "type", *DENSE_KERNELS], rows


# ---- where a table comes from


def command_text(command):
    """As it would be typed, without the folders of the machine that it ran on."""
    words, skip = [], False
    for word in command:
        if skip or word in LEFT_OUT:
            skip = not skip
            continue
        words.append(word)
    return " ".join([os.path.basename(words[0])] + words[1:])


def device_text(found):
    machine = found.get("machine", {})
    devices = [device for device in found.get("devices", [found.get("device")]) if device]
    cuda = re.search(r"CUDA [0-9.]+", found.get("version", ""))
    parts = [", ".join(devices)]
    if machine.get("cpu"):
        parts.append(f"{machine['cores']} cores of {machine['cpu']}" if "cores" in machine else machine["cpu"])
    if "nvidia_driver" in machine:
        parts.append("driver " + machine["nvidia_driver"])
        parts += [cuda.group()] if cuda else []
    return ", ".join(parts)


def source_text(file, data, document):
    """One item of a list, for a file or, as "file:part", a part of one."""
    name, _, part = file.partition(":")
    found = data.file(name)
    link = os.path.relpath(data.folder / f"{name}.json", document.parent)
    text = found[part]["source"] if part else found.get("source")
    if not text:
        text = (f"{device_text(found)}, {found['date'][:10]}, revision {found['revision']}, "
                f"`{command_text(found['command'])}`")
    return textwrap.wrap(f"- [{name}.json]({link}): {text}", LINE_CHARS, subsequent_indent="  ", break_long_words=False,
                         break_on_hyphens=False)


# ---- documents


def table_text(name, data, document):
    """The lines between the markers."""
    wanted = TABLES[name]
    head, rows = wanted.make(data)
    lines = ["| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows]]
    sources = [line for file in wanted.files for line in source_text(file, data, document)]
    return ["", *lines, "", *sources, ""]


def rewritten(document, data, used):
    """The document's text with its tables made anew, and the names of those that were different."""
    old = document.read_text().split("\n")
    new, different, at = [], [], 0
    while at < len(old):
        line = old[at]
        new.append(line)
        at += 1
        if not line.startswith("<!-- table:"):
            continue
        match = OPEN.match(line)
        if not match or match.group(1) not in TABLES:
            raise Problem(f"{document}:{at}: {line}: no such table; use one of {', '.join(TABLES)}")
        if CLOSE not in old[at:] or any(later.startswith("<!-- table:") for later in old[at:old.index(CLOSE, at)]):
            raise Problem(f"{document}:{at}: {line}: lacks its {CLOSE}")
        name, end = match.group(1), old.index(CLOSE, at)
        used.setdefault(name, []).append(document)
        made = table_text(name, data, document)
        if old[at:end] != made:
            different.append((name, list(difflib.unified_diff(old[at:end], made, "published", "measured", lineterm=""))))
        new += made
        at = end
    return "\n".join(new), different


def documents(root):
    """Every *.md file outside hidden folders and build trees."""
    found = []
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "build")))
        found += [pathlib.Path(folder) / name for name in sorted(names) if name.endswith(".md")]
    return found


def run(arguments):
    """Exit code."""
    data = Measurements(arguments.root / "data" / "measurements")
    used, stale = {}, 0
    for document in documents(arguments.root):
        text, different = rewritten(document, data, used)
        stale += len(different)
        if not arguments.write:
            for name, diff in different:
                print("\n".join([f"{document}: table {name} differs from its measurements", *diff]))
        elif different:
            document.write_text(text)
            print(f"{document}: {', '.join(name for name, _ in different)}")
    if arguments.list:
        for name, one in TABLES.items():
            places = ", ".join(str(place.relative_to(arguments.root)) for place in used.get(name, [])) or "nowhere"
            print(f"{name:18} {', '.join(one.files):42} {places}")
    if stale and arguments.check:
        print("tables.py: error: write the tables with: python3 tools/scripts/tables.py", file=sys.stderr)
        return 1
    return 0


def main():
    parser = argparse.ArgumentParser(description="Writes the published tables from data/measurements/*.json.")
    parser.add_argument("--check", action="store_true", help="write nothing, fail where a table differs")
    parser.add_argument("--list", action="store_true", help="write nothing, show tables, measurements and documents")
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[2],
                        help="folder of the documents and of data/measurements (default: of this checkout)")
    arguments = parser.parse_args()
    arguments.write = not (arguments.check or arguments.list)
    try:
        sys.exit(run(arguments))
    except Problem as problem:
        sys.exit(f"tables.py: error: {problem}")


if __name__ == "__main__":
    main()
