#!/usr/bin/env python3
"""Draws measurements of spmm-bench: the time of each kernel against the share of stored blocks, and where two lines cross.

usage: python3 tools/scripts/plot_bench.py [--out FILE.png] MEASUREMENT.json...

Only evenly spread cases count, a panel for all that differ in nothing but their number of blocks. Points are medians, bars reach from
the fastest run to the slowest. The crossing points are printed, too; without --out nothing is drawn.
"""
import argparse
import itertools
import json
import math
import pathlib
import string
import sys

MIN_POINTS = 3  # a line of fewer points tells nothing


def fail(message):
    sys.exit(f"plot_bench.py: error: {message}")


def read_groups(paths):
    """Group of cases -> kernel -> {share of stored blocks: times of the device stages in ms}."""
    groups = {}
    for path in paths:
        try:
            for case in json.loads(path.read_text())["cases"]:
                group = f"m = {case['m']}, n = {case['n']}, elements to {case['max_value']}"
                for kernel in case["kernels"]:
                    if kernel["status"] == "ok" and case["pattern"] == "uniform" and kernel["device_ms"]["median"] > 0:
                        series = groups.setdefault(group, {}).setdefault(kernel["kernel"], {})
                        series[case["block_density"]] = kernel["device_ms"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            fail(f"{path}: not a measurement of spmm-bench ({error}); name a file of --json")
    groups = {group: {kernel: dict(sorted(points.items())) for kernel, points in series.items() if len(points) >= MIN_POINTS}
              for group, series in groups.items()}
    return {group: series for group, series in groups.items() if series}


def between(x0, x1, share):
    return math.exp((1 - share) * math.log(x0) + share * math.log(x1))


def crossings_of(series):
    """(first, second, share of blocks, ms) where two kernels cross, as straight pieces on log-log paper; auto is one of the
    others and left out."""
    found = []
    for first, second in itertools.combinations([name for name in series if name != "auto"], 2):
        a, b = series[first], series[second]
        shared = [x for x in a if x in b]
        gaps = [math.log(a[x]["median"] / b[x]["median"]) for x in shared]
        for at, gap in enumerate(gaps):
            if gap == 0:
                found.append((first, second, shared[at], a[shared[at]]["median"]))
            elif at + 1 < len(gaps) and gap * gaps[at + 1] < 0:
                x0, x1 = shared[at:at + 2]
                share = gap / (gap - gaps[at + 1])
                found.append((first, second, between(x0, x1, share), between(a[x0]["median"], a[x1]["median"], share)))
    return sorted(found, key=lambda one: one[2])


def crossing_text(crossing):
    first, second, density, ms = crossing
    return f"{first} = {second}: {100 * density:.3g} % of blocks, {ms:.3g} ms"


def draw(groups, path):
    try:
        import matplotlib
    except ImportError:
        fail("matplotlib is missing; install it with: apt-get install python3-matplotlib, or leave --out away")
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    figure, axes = plt.subplots(1, len(groups), figsize=(6 * len(groups), 5), squeeze=False)
    for axis, (group, series) in zip(axes[0], groups.items()):
        axis.set(xscale="log", yscale="log", title=group, xlabel="share of blocks stored", ylabel="milliseconds of the device's stages")
        for kernel, points in series.items():
            times = list(points.values())
            spread = ([one["median"] - one["min"] for one in times], [one["max"] - one["median"] for one in times])
            axis.errorbar(list(points), [one["median"] for one in times], yerr=spread, marker="o", markersize=4, capsize=3, label=kernel)
        lines = []
        for letter, crossing in zip(string.ascii_uppercase, crossings_of(series)):
            axis.plot([crossing[2]], [crossing[3]], marker="x", color="black", markersize=9)
            axis.annotate(letter, crossing[2:], xytext=(-10, 8), textcoords="offset points", fontsize="small")
            lines.append(f"{letter}  {crossing_text(crossing)}")
        axis.text(0, -0.14, "\n".join(lines), transform=axis.transAxes, verticalalignment="top", fontsize="small")
        axis.grid(True, which="both", alpha=0.3)
        axis.legend(fontsize="small")
    figure.savefig(path, dpi=110, bbox_inches="tight")
    print(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("measurements", nargs="+", type=pathlib.Path, metavar="MEASUREMENT.json")
    parser.add_argument("--out", type=pathlib.Path, help="draw into this file")
    arguments = parser.parse_args()
    groups = read_groups(arguments.measurements)
    if not groups:
        fail(f"no kernel ran at {MIN_POINTS} shares of stored blocks; measure with measure.sh density")
    for group, series in groups.items():
        for crossing in crossings_of(series):
            print(f"{group}: {crossing_text(crossing)}")
    if arguments.out:
        draw(groups, arguments.out)


if __name__ == "__main__":
    main()
