#!/usr/bin/env python3
"""Draws measurements of spmm-bench: rate against block density for each block side, and stage shares of each case.

usage: python3 tools/plot_bench.py [--out DIR] MEASUREMENT.json...
"""
import argparse
import json
import pathlib
import sys

try:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
except ImportError:
    sys.exit("plot_bench.py: error: matplotlib is missing; install it with: apt-get install python3-matplotlib")

STAGES = ["open", "budget", "read", "h2d", "build", "count", "plan", "multiply", "compact", "d2h", "write", "verify"]


def read_rows(paths):
    """(label of the file, case, kernel entry) for every kernel that ran."""
    rows = []
    for path in paths:
        try:
            measurement = json.loads(path.read_text())
            label = path.stem if len(paths) > 1 else ""
            rows += [(label, case, kernel) for case in measurement["cases"] for kernel in case["kernels"]
                     if kernel["status"] == "ok"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            sys.exit(f"plot_bench.py: error: {path}: not a measurement of spmm-bench ({error}); name a file of --json")
    return rows


def series_name(label, kernel):
    name = kernel["kernel"]
    return f"{label}: {name}" if label else name


def plot_rates(rows, out):
    """One picture: a panel per m, a line per kernel."""
    sides = sorted({case["m"] for _, case, _ in rows})
    figure, axes = plt.subplots(1, len(sides), figsize=(5 * len(sides), 4), squeeze=False, sharey=True)
    for axis, m in zip(axes[0], sides):
        series = {}
        for label, case, kernel in rows:
            if case["m"] == m and kernel["gpairs_per_s_multiply"] > 0:
                point = (case["block_density"], kernel["gpairs_per_s_multiply"])
                series.setdefault(series_name(label, kernel), []).append(point)
        for name, points in series.items():
            points.sort()
            axis.plot(*zip(*points), marker="o", label=name)
        axis.set(title=f"m = {m}", xscale="log", yscale="log", xlabel="share of blocks stored")
        axis.grid(True, which="both", alpha=0.3)
        if series:
            axis.legend(fontsize="small")
    axes[0][0].set_ylabel("Gpair/s of the multiply stage")
    save(figure, out / "rate.png")


def median_stages(kernel):
    """Milliseconds of each stage, median over the runs."""
    medians = {}
    for stage in STAGES:
        values = sorted(run["stages_ms"].get(stage, 0) for run in kernel["runs"])
        medians[stage] = values[len(values) // 2]
    return medians


def plot_stages(rows, out):
    """One bar per case and kernel, cut by stage; stages overlap, so shares are of their sum."""
    names = [f"{case['name']} {series_name(label, kernel)}" for label, case, kernel in rows]
    stages = [median_stages(kernel) for _, _, kernel in rows]
    sums = [sum(one.values()) or 1 for one in stages]
    figure, axis = plt.subplots(figsize=(10, 1 + 0.35 * len(rows)))
    left = [0.0] * len(rows)
    for number, stage in enumerate(STAGES):
        shares = [one[stage] / total for one, total in zip(stages, sums)]
        if max(shares) == 0:
            continue
        axis.barh(names, shares, left=left, label=stage, color=plt.get_cmap("tab20")(number))
        left = [x + share for x, share in zip(left, shares)]
    axis.invert_yaxis()
    axis.set(xlim=(0, 1), xlabel="share of the sum over stages, output to /dev/null")
    axis.legend(fontsize="small", loc="center left", bbox_to_anchor=(1, 0.5))
    save(figure, out / "stages.png")


def save(figure, path):
    figure.savefig(path, dpi=150, bbox_inches="tight")
    plt.close(figure)
    print(path)


def main():
    parser = argparse.ArgumentParser(description="Draws measurements of spmm-bench: rate.png and stages.png.")
    parser.add_argument("measurements", nargs="+", type=pathlib.Path, metavar="MEASUREMENT.json")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("."), help="folder for the pictures")
    arguments = parser.parse_args()
    rows = read_rows(arguments.measurements)
    if not rows:
        sys.exit("plot_bench.py: error: no kernel ran in these measurements; measure again with spmm-bench --json")
    arguments.out.mkdir(parents=True, exist_ok=True)
    plot_rates(rows, arguments.out)
    plot_stages(rows, arguments.out)


if __name__ == "__main__":
    main()
