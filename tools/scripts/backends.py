#!/usr/bin/env python3
"""Compares the backend that spmm takes with both backends, and looks for cliffs of the GPU. Needs a GPU.

usage: backends.py choice BIN [--seconds S] [--only NAMES] [--json FILE] [--work DIR]
       backends.py sweep BIN [...]

BIN is the folder of the programs. choice runs whole processes with --backend cuda, cpu and auto: S1 to S6, the suites
patterns and cpu-patterns, an arrow and a graph, to /dev/null and to a file. sweep times value ranges and sides by
spmm-bench, and processes with memory limits. Cases that the time does not allow are named at the end.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXTRA = [
    {"name": "arrow-30000-m4", "n": 120000, "m": 4, "k": 89998, "pattern": "arrow"},
    {"name": "rmat-4e6-m2", "n": 524288, "m": 2, "k": 4000000, "pattern": "rmat"},
]
# Those first whose backends are close to each other.
FIRST = ["arrow-30000-m4", "rmat-4e6-m1", "rmat-4e6-m2", "groups-m8", "S1", "S2", "S3", "S4", "S5", "S6"]
MAX_FILE_BYTES = 10e9
VALUES = [255, 2047, 4095, 8191, 16383, 32767, 65535]
SIDES = [*range(1, 17), 24, 32, 48, 64]
STAGES = ("build", "count", "plan", "multiply", "compact")


class Machine:
    """Programs, a work folder and the time that is left."""

    def __init__(self, options, work):
        self.bin = pathlib.Path(options.bin).resolve()
        self.work = pathlib.Path(work)
        self.end = time.monotonic() + options.seconds

    def left(self):
        return self.end - time.monotonic()

    def make(self, case):
        """Both operands, made at once."""
        paths = [self.work / f"{side}.bin" for side in "ab"]
        words = ["--n", case["n"], "--m", case["m"], "--k", case["k"]]
        for key, option in (("pattern", "--pattern"), ("bandwidth", "--bandwidth"), ("group", "--group"),
                            ("max_value", "--max-value")):
            if key in case:
                words += [option, case[key]]
        running = [subprocess.Popen([self.bin / "spmm-gen", path, "--seed", str(seed), *map(str, words)],
                                    stdout=subprocess.DEVNULL) for seed, path in enumerate(paths, 1)]
        if any([one.wait() for one in running]):
            raise SystemExit(f"spmm-gen failed on {case['name']}")
        return paths

    def multiply(self, paths, out, words, limit_s):
        """Milliseconds of a process and its report; (None, None) if it failed or took too long."""
        report = self.work / "report.json"
        report.unlink(missing_ok=True)
        command = [self.bin / "spmm", *paths, out, "--quiet", "--report", report, *words]
        start = time.monotonic()
        try:
            code = subprocess.run(list(map(str, command)), timeout=limit_s, stderr=subprocess.PIPE).returncode
        except subprocess.TimeoutExpired:
            return None, None
        ms = (time.monotonic() - start) * 1e3
        if out != "/dev/null":
            out.unlink(missing_ok=True)
        return (ms, json.loads(report.read_text())) if code == 0 else (None, None)


def all_cases():
    suites = json.loads((ROOT / "data" / "suites.json").read_text())["suites"]
    cases, seen = [], set()
    named = [*EXTRA, *suites["S"], *suites["cpu-patterns"], *suites["patterns"]]
    partners = {case.get("compare_with") for case in named}
    for case in named:
        shape = tuple(sorted((k, v) for k, v in case.items() if k not in ("name", "compare_with")))
        if shape in seen or (case["name"] in partners and case not in suites["S"]):
            continue
        seen.add(shape)
        cases.append(case)
    return sorted(cases, key=lambda c: FIRST.index(c["name"]) if c["name"] in FIRST else len(FIRST))


def time_backends(machine, paths, out):
    """The shortest of two processes of each backend in turns, and the last report."""
    best, reports = {}, {}
    for turn in range(2):
        for backend in ("cuda", "auto", "cpu"):
            if turn == 1 and best.get(backend, 1e9) > 2500:
                continue  # long, or it failed
            slowest = max([best.get("cuda", 6e3), best.get("auto", 0)]) / 1e3
            limit_s = 3 * slowest + 1 if backend == "cpu" else 20
            ms, report = machine.multiply(paths, out, ["--backend", backend], limit_s)
            if ms is not None:
                best[backend] = min(ms, best.get(backend, ms))
                reports[backend] = report
    return best, reports


def row_of(case, out, best, reports):
    if "auto" not in best or "cuda" not in best:
        return None
    better = min(best[name] for name in ("cuda", "cpu") if name in best)
    plan = reports["auto"]["plan"]
    row = {"case": case["name"], "output": out, "cuda_ms": best["cuda"], "cpu_ms": best.get("cpu"),
           "auto_ms": best["auto"], "took": reports["auto"]["backend"], "auto_over_better": best["auto"] / better}
    for name in ("cuda", "cpu"):
        row[f"predicted_{name}_ms"] = plan[f"predicted_{name}_s"] * 1e3
        if best.get(name):
            row[f"{name}_predicted_over_measured"] = row[f"predicted_{name}_ms"] / best[name]
        if name in reports:
            row[f"{name}_stages_ms"] = {key: one["s"] * 1e3 for key, one in reports[name]["stages"].items()}
            row[f"{name}_counted_ms"] = reports[name]["plan"][f"predicted_{name}_s"] * 1e3
    return row


def cell(value, digits=0):
    return "-" if value is None else f"{value:.{digits}f}"


def print_choice(row):
    print("| " + " | ".join([
        row["case"], row["output"], cell(row["cuda_ms"]), cell(row["cpu_ms"]), cell(row["auto_ms"]), row["took"],
        cell(row["auto_over_better"], 2), cell(row["predicted_cuda_ms"]), cell(row.get("cuda_predicted_over_measured"), 2),
        cell(row["predicted_cpu_ms"]), cell(row.get("cpu_predicted_over_measured"), 2),
        cell(row.get("cuda_counted_ms")), cell(row.get("cpu_counted_ms"))]) + " |", flush=True)


def choice(machine, only):
    heads = ["case", "output", "cuda ms", "cpu ms", "auto ms", "took", "auto / better", "predicted cuda", "/ measured",
             "predicted cpu", "/ measured", "cuda, counted", "cpu, counted"]
    print("| " + " | ".join(heads) + " |\n" + "| --- " * len(heads) + "|", flush=True)
    rows, missing = [], []
    for case in all_cases():
        if only and case["name"] not in only:
            continue
        if machine.left() < 8:
            missing.append(case["name"])
            continue
        paths = machine.make(case)
        result_bytes = 0
        for out in ("null", "file"):
            if out == "file" and result_bytes > MAX_FILE_BYTES:
                missing.append(f"{case['name']} to a file ({result_bytes / 1e9:.0f} GB)")
                continue
            best, reports = time_backends(machine, paths, "/dev/null" if out == "null" else machine.work / "c.bin")
            row = row_of(case, out, best, reports)
            if row is None:
                missing.append(f"{case['name']} to {out} (failed)")
                continue
            result_bytes = reports["auto"]["c"]["bytes"]
            rows.append(row)
            print_choice(row)
    ratios = sorted((row["auto_over_better"] for row in rows), reverse=True)
    print(f"\n{len(rows)} rows; auto / better at most {max(ratios, default=0):.2f}; above 1.1: "
          f"{sum(ratio > 1.1 for ratio in ratios)}; left out: {', '.join(missing) or 'none'}")
    return rows


def sweep_case(m, max_value):
    """About 16 pairs a C block and 1 GB of result."""
    nb = min(8000, 16000 // m)
    return {"name": f"m{m}-{max_value}", "n": nb * m, "m": m, "k": int(4 * nb**1.5), "max_value": max_value}


def sweep_values(machine, seconds):
    """Device ms by side and range of values, each over the range to 2,047, and the prediction over the measurement."""
    rows = []
    end = time.monotonic() + seconds
    print("device ms by spmm-bench; in brackets predicted / measured\n\n| m | to " + " | to ".join(map(str, VALUES)) +
          " | slowest / to 2,047 |\n" + "| --- " * (len(VALUES) + 2) + "|", flush=True)
    for m in SIDES:
        if time.monotonic() > end or machine.left() < 10:
            print(f"(no time for sides from {m} on)")
            break
        suites = machine.work / "suites.json"
        suites.write_text(json.dumps({"suites": {"sweep": [sweep_case(m, value) for value in VALUES]}}))
        result = machine.work / "bench.json"
        command = [machine.bin / "spmm-bench", "--suites", suites, "--suite", "sweep", "--backend", "cuda", "--runs", "3",
                   "--checksum", "--baseline", "other", "--max-seconds", "10", "--json", result, "--work", machine.work]
        result.unlink(missing_ok=True)
        subprocess.run(list(map(str, command)), stdout=subprocess.DEVNULL, timeout=60)
        if not result.exists():
            print(f"| {m} | spmm-bench failed |")
            continue
        by_value = {}
        for case in json.loads(result.read_text())["cases"]:
            kernel = case["kernels"][0]
            if kernel["status"] == "ok":
                by_value[case["max_value"]] = kernel
                rows.append({"m": m, "max_value": case["max_value"], "device_ms": kernel["device_ms"]["median"],
                             "kernel": kernel["chosen"], "predicted_ms": kernel.get("predicted_ms"),
                             "validated": kernel["validated"]})
        for path in machine.work.glob("n*.bin"):
            path.unlink()
        cells = []
        for value in VALUES:
            kernel = by_value.get(value)
            over = kernel and kernel.get("device_over_predicted")
            cells.append("-" if kernel is None else
                         f"{kernel['device_ms']['median']:.2f} ({cell(1 / over if over else None, 2)})"
                         f"{'' if kernel['validated'] else ' DIFFERS'}")
        times = [kernel["device_ms"]["median"] for kernel in by_value.values()]
        base = by_value.get(2047, {}).get("device_ms", {}).get("median")
        print(f"| {m} | " + " | ".join(cells) + f" | {cell(max(times) / base if base else None, 2)} |", flush=True)
    return rows


def sweep_limits(machine, seconds):
    """Processes with less and less memory."""
    end = time.monotonic() + seconds
    case = {"name": "limits", "n": 32768, "m": 8, "k": 2000000}
    paths = machine.make(case)
    operands = sum(path.stat().st_size for path in paths)
    print("\nprocesses to /dev/null\n\n| limit / operands | ms | over the one before | GB read | slabs A, B | predicted ms | "
          "predicted / measured |\n" + "| --- " * 7 + "|", flush=True)
    rows, before = [], None
    for share in (None, 2, 1.5, 1.2, 1, 0.95, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.15, 0.1):
        if time.monotonic() > end:
            print(f"(no time for limits from {share} down)")
            break
        words = ["--backend", "cuda"] + (["--memory-limit", str(int(share * operands))] if share else [])
        ms, report = machine.multiply(paths, "/dev/null", words, 20)
        if ms is None:
            print(f"| {share or 'none'} | failed, or longer than 20 s | | | | | |", flush=True)
            continue
        plan = report["plan"]
        rows.append({"limit_share": share, "ms": ms, "read_bytes": report["stages"]["read"]["bytes"],
                     "a_bands": plan["a_bands"], "b_bands": plan["b_bands"], "predicted_ms": plan["predicted_s"] * 1e3})
        print(f"| {share or 'none'} | {ms:.0f} | {cell(ms / before if before else None, 2)} | "
              f"{rows[-1]['read_bytes'] / 1e9:.2f} | {plan['a_bands']}, {plan['b_bands']} | "
              f"{rows[-1]['predicted_ms']:.0f} | {rows[-1]['predicted_ms'] / ms:.2f} |", flush=True)
        before = ms
    return rows


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1].removeprefix("usage: "))
    parser.add_argument("mode", choices=["choice", "sweep"])
    parser.add_argument("bin")
    parser.add_argument("--seconds", type=float, help="default: 230 for choice, 115 for sweep")
    parser.add_argument("--only", default="", help="choice: names of cases, with commas between")
    parser.add_argument("--json", help="file for all figures")
    parser.add_argument("--work", help="folder for matrices; default: a temporary one")
    options = parser.parse_args()
    if options.seconds is None:
        options.seconds = 230 if options.mode == "choice" else 115
    with tempfile.TemporaryDirectory(dir=options.work) as work:
        machine = Machine(options, work)
        if options.mode == "choice":
            figures = {"choice": choice(machine, [name for name in options.only.split(",") if name])}
        else:
            figures = {"limits": sweep_limits(machine, options.seconds / 2), "values": sweep_values(machine, machine.left())}
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    sys.exit(main())
