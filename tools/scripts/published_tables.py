"""The measurements of data/measurements, and the rows of every published table made from them; tables.py writes these into
documents. What a table holds is said below, under "tables".
"""
import collections
import json
import re

SCHEMA = 1  # kMeasurementSchema of tools/common/measurement.hpp
REQUIRED = ["schema", "program", "command", "date", "revision"]
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

    def has(self, name):
        """Whether the file is there; only those of a table whose name ends with "?" may be missing."""
        return (self.folder / f"{name}.json").exists()

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


def power(number):
    """9.77e6."""
    if number is None:
        return NONE
    mantissa, exponent = f"{number:.2e}".split("e")
    return f"{float(mantissa):g}e{int(exponent)}"


# ---- where a measurement comes from


def devices_of(found):
    return ", ".join(device for device in found.get("devices", [found.get("device")]) if device)


def device_text(found):
    machine = found.get("machine", {})
    cuda = re.search(r"CUDA [0-9.]+", found.get("version", ""))
    parts = [devices_of(found)] if devices_of(found) else []
    if machine.get("cpu") and "nvidia_driver" not in machine:
        parts.append(f"{machine['cores']} cores of {machine['cpu']}" if "cores" in machine else machine["cpu"])
    if "nvidia_driver" in machine:
        parts.append("driver " + machine["nvidia_driver"])
        parts += [cuda.group()] if cuda else []
    return ", ".join(parts)


# ---- tables: a function from measurements to a head and rows, and the files it reads (of elsewhere.json one part; with
# "?" behind the name: it may be missing)

Table = collections.namedtuple("Table", "files make")
TABLES = {}


def table(name, *files):
    def add(make):
        TABLES[name] = Table(files, make)
        return make
    return add


S_CASES = ["S1", "S2", "S3", "S4", "S5", "S6"]
P_CASES = ["P1", "P2", "P3", "P4", "P5"]


@table("sources")
def sources_table(data):
    """Every file of measurements; of elsewhere.json its parts."""
    rows = []
    for path in sorted(data.folder.glob("*.json")):
        found = data.file(path.stem)
        parts = [(f"{path.name}, {name}", part["source"]) for name, part in found.items()
                 if isinstance(part, dict) and "source" in part]
        rows += [[name, source, found["date"][:10], NONE] for name, source in parts]
        if not parts:
            rows.append([path.name, device_text(found), found["date"][:10], found["revision"]])
    return ["file", "machine, or where from", "date", "revision"], rows


@table("speed", "gpu-speed", "gpu-cusparse", "cpu-scipy", "elsewhere:course program")
def speed_table(data):
    rows = []
    for case in S_CASES:
        auto = data.kernel("gpu-speed", case, "auto")
        theirs = best_of_library(data, case, "f64")
        course = data.file("elsewhere")["course program"].get(case, {})
        rows.append([case, power(auto.get("pairs")), f"{short(median(auto, 'device_ms'))} ms, {short(median(auto, 'e2e_s'))} s",
                     f"{short(theirs['ms']['median'])} ms" if "ms" in theirs else NONE,
                     course.get("text") or f"{short(course['kernel_ms'])} ms, {short(course['total_s'])} s"])
    for case in P_CASES:
        ours = data.kernel("cpu-scipy", case, "spmm")
        scipy = [median(data.kernel("cpu-scipy", case, name), "ms") for name in ("scipy-bsr", "scipy-bsr-two")]
        best = min([ms for ms in scipy if ms is not None], default=None)
        rows.append([case, power(ours.get("pairs")), f"{short(median(ours, 'ms'))} ms", f"{short(best)} ms", NONE])
    return ["case", "pairs", "spmm", "cuSPARSE (S), SciPy (P)", "course program"], rows


@table("cpu", "cpu-speed")
def cpu_table(data):
    rows = []
    for case in P_CASES:
        auto = data.kernel("cpu-speed", case, "auto")
        rows.append([case, auto.get("chosen", NONE), short(median(auto, "e2e_s")),
                     short(auto.get("e2e_peak_resident_bytes"), factor=1e-6)])
    return ["case", "kernel", "process s", "process MB"], rows


@table("kernels-cases", "gpu-speed")
def kernels_cases_table(data):
    rows = []
    for case in S_CASES:
        auto = data.kernel("gpu-speed", case, "auto")
        stages = [short(median(auto, "stages_ms", stage)) for stage in ("build", "count", "multiply", "compact")]
        rows.append([case, auto.get("chosen", NONE), short(median(auto, "device_ms")), *stages,
                     short(auto.get("gpairs_per_s_multiply"))])
    return ["case", "picked", "device ms", "build", "count", "multiply", "compact", "Gpair/s of multiply"], rows


# ---- patterns, other libraries


def best_of_library(data, case, kind):
    """The fastest algorithm of cuSPARSE: its name, or why there is none; and what it found."""
    found = [one for one in data.case("gpu-cusparse", case)["kernels"] if one["kernel"].startswith(kind)]
    ran = [one for one in found if one["status"] == "ok"]
    if any(one.get("same_values") is False for one in ran):
        raise Problem(f"gpu-cusparse.json: {kind} on {case} has wrong values; do not publish it")
    if ran:
        return min(ran, key=lambda one: one["ms"]["median"])
    return {"refused": refusal_text(found)} if found else {}


def refusal_text(found):
    """One word or two for what all algorithms said."""
    reasons = " ".join(one.get("reason", "") for one in found)
    for sign, words in [("no word", "too slow"), ("resources", "too large"), ("memory", "no memory"), ("offsets", "too large")]:
        if sign in reasons:
            return words
    return "failed"


def library_cell(best):
    if "refused" in best:
        return best["refused"]
    return f"{short(best['ms']['median'])} ({best['kernel'].split('-')[1]})" if best else NONE


PATTERN_FILES = ["gpu-patterns", "gpu-patterns-rest", "gpu-patterns-short"]  # the last that has a case counts


def pattern_kernels(data):
    """What was measured of each case with a pattern, by its name."""
    files = [file for file in PATTERN_FILES if data.has(file)]
    return {case["name"]: data.kernel(file, case["name"], "auto")
            for file in files for case in data.file(file)["cases"] if "compare_with" in case}


@table("patterns", "gpu-patterns", "gpu-patterns-rest?", "gpu-patterns-short?")
def patterns_table(data):
    return ["case", "pairs", "picked", "device ms", "multiply ms"], [
        [name, power(auto.get("pairs")), auto.get("chosen", NONE), short(median(auto, "device_ms")),
         short(median(auto, "multiply_ms"))]
        for name, auto in pattern_kernels(data).items()]


@table("cusparse", "gpu-cusparse", "gpu-patterns", "gpu-patterns-rest?", "gpu-patterns-short?", "gpu-speed")
def cusparse_table(data):
    patterns = pattern_kernels(data)
    rows = []
    for case in sorted(data.file("gpu-cusparse")["cases"], key=lambda one: (one["m"], one["name"])):
        name = case["name"]
        auto = data.kernel("gpu-speed", name, "auto") if name in S_CASES else patterns.get(name, {})
        doubles = best_of_library(data, case["name"], "f64")
        floats = best_of_library(data, case["name"], "f32")
        ours = median(auto, "device_ms")
        theirs = median(doubles, "ms")
        rows.append([case["name"], short(ours), library_cell(doubles), library_cell(floats),
                     short(theirs / ours if theirs and ours else None),
                     short(doubles.get("work_bytes"), factor=1e-6), short(auto.get("peak_device_bytes"), factor=1e-6)])
    return ["case", "spmm ms", "cuSPARSE f64 ms", "f32 ms", "f64 / spmm", "cuSPARSE work MB", "spmm: all MB"], rows


@table("processes", "processes")
def processes_table(data):
    """Cases whose faster backend takes the longest."""
    rows = []
    for case in data.file("processes")["cases"]:
        ms = {kernel["kernel"]: median(kernel, "ms") for kernel in case["kernels"]}
        rows.append((min(ms["cpu"], ms["cuda"]), [case["name"], power(case["pairs"]), power(case["c_blocks"]),
                                                  *(short(ms[backend], factor=1e-3) for backend in ("cpu", "cuda"))]))
    return ["case", "pairs", "C blocks", "CPU s", "GPU s"], [row for _, row in sorted(rows, reverse=True)[:12]]


@table("scipy", "cpu-scipy")
def scipy_table(data):
    rows = []
    for case in data.file("cpu-scipy")["cases"]:
        kernels = {one["kernel"]: data.kernel("cpu-scipy", case["name"], one["kernel"]) for one in case["kernels"]}
        kind = "csr" if case["m"] == 1 else "bsr"
        ours = kernels["spmm"]
        one, two = (median(kernels.get(f"scipy-{kind}{end}"), "ms") for end in ("", "-two"))
        best = min([ms for ms in (one, two) if ms is not None], default=None)
        spmm = median(ours, "ms")
        rows.append([case["name"], power(ours.get("pairs")), short(spmm), short(one), short(two),
                     short(best / spmm if best and spmm else None)])
    return ["case", "pairs", "spmm ms", "SciPy ms, one process", "two side by side, each", "SciPy / spmm"], rows
