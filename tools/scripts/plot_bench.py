#!/usr/bin/env python3
"""Draws measurements of spmm-bench and writes their tables; every number comes from the JSON files.

usage: python3 tools/scripts/plot_bench.py [--out DIR] [--markdown FILE] [--no-pictures] MEASUREMENT.json...

rate.png      rate against the share of stored blocks, uniform cases, a panel per block side
density.png   time against the share of stored blocks, with the points where one kernel overtakes another
stages.png    shares of the stages

Marks are medians, bars reach from the fastest run to the slowest.
"""
import argparse
import collections
import itertools
import json
import math
import pathlib
import string
import sys

STAGES = ["open", "budget", "read", "h2d", "build", "count", "plan", "multiply", "compact", "d2h", "write", "verify"]
PREDICTION_FACTOR = 1.5
MIN_DENSITIES = 3  # a line of fewer points tells nothing about densities

Row = collections.namedtuple("Row", "label case kernel")
Crossing = collections.namedtuple("Crossing", "group first second density ms")


def fail(message):
    sys.exit(f"plot_bench.py: error: {message}")


# ---- reading


def read_rows(paths):
    """A row for every kernel that ran."""
    rows = []
    for path in paths:
        try:
            measurement = json.loads(path.read_text())
            label = path.stem
            rows += [Row(label, case, kernel) for case in measurement["cases"] for kernel in case["kernels"]
                     if kernel["status"] == "ok"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            fail(f"{path}: not a measurement of spmm-bench ({error}); name a file of --json")
    # Files are distinguished only where they measured the same.
    measured = collections.Counter((row.case["name"], row.kernel["kernel"]) for row in rows)
    if max(measured.values(), default=0) > 1:
        return rows
    several = len({device_word([row]) for row in rows}) > 1  # backends share no line
    return [row._replace(label=device_word([row]) if several else "") for row in rows]


def series_name(row):
    return f"{row.label}: {row.kernel['kernel']}" if row.label else row.kernel["kernel"]


def group_name(case):
    """Cases whose names differ in density alone."""
    return f"m = {case['m']}, n = {case['n']}, elements to {case['max_value']}"


def density_groups(rows):
    """Group -> series -> {share of stored blocks: milliseconds of the device stages}; uniform cases only."""
    groups = {}
    for row in rows:
        if row.case["pattern"] == "uniform" and row.case["block_density"] > 0:
            series = groups.setdefault(group_name(row.case), {})
            points = series.setdefault(series_name(row), {})
            points[row.case["block_density"]] = row.kernel["device_ms"]["median"]
    groups = {name: {s: points for s, points in series.items() if len(points) >= MIN_DENSITIES}
              for name, series in groups.items()}
    return {name: series for name, series in groups.items() if series}


def spread(times):
    """Distance of the fastest and of the slowest run from the median."""
    return times["median"] - times.get("min", times["median"]), times.get("max", times["median"]) - times["median"]


def rate_spread(work, times):
    """The same of work / time."""
    middle = work / times["median"]
    fastest, slowest = times.get("min", 0) or times["median"], times.get("max", times["median"])
    return middle - work / slowest, work / fastest - middle


def device_word(rows):
    """Where the rows were computed, for the names of axes."""
    words = {"cuda": "GPU", "cpu": "CPU"}
    return " or ".join(sorted({words.get(row.kernel.get("backend"), "device") for row in rows}, reverse=True))


def between(x0, x1, share):
    return math.exp((1 - share) * math.log(x0) + share * math.log(x1))


def series_crossings(group, first, second, groups):
    """Where two lines of straight pieces on log-log paper cross."""
    a, b = groups[group][first], groups[group][second]
    shared = [x for x in sorted(a.keys() & b.keys()) if a[x] > 0 and b[x] > 0]
    gaps = [math.log(a[x] / b[x]) for x in shared]
    found = []
    for at, gap in enumerate(gaps):
        if gap == 0:
            found.append(Crossing(group, first, second, shared[at], a[shared[at]]))
        elif at + 1 < len(gaps) and gap * gaps[at + 1] < 0:
            x0, x1 = shared[at:at + 2]
            share = gap / (gap - gaps[at + 1])
            found.append(Crossing(group, first, second, between(x0, x1, share), between(a[x0], a[x1], share)))
    return found


def all_crossings(groups):
    """Crossings of every two kernels of a group; auto is one of the others and left out."""
    found = []
    for group, series in groups.items():
        names = [name for name in series if name.split(": ")[-1] != "auto"]
        for first, second in itertools.combinations(names, 2):
            found += series_crossings(group, first, second, groups)
    return found


def crossing_text(crossing):
    return (f"{crossing.group}: {crossing.first} and {crossing.second} cross at {100 * crossing.density:.3g} % "
            f"of blocks, {crossing.ms:.3g} ms")


# ---- tables


def short(value):
    return "" if value is None else f"{value:.0f}" if value >= 1000 else f"{value:.3g}"


def table(title, head, lines):
    """A Markdown table, or "" without lines."""
    if not lines:
        return ""
    rows = [head, ["---"] * len(head)] + lines
    return f"## {title}\n\n" + "".join("| " + " | ".join(row) + " |\n" for row in rows) + "\n"


def measurement_lines(rows):
    lines = []
    for row in rows:
        kernel, limit = row.kernel, row.kernel.get("limit")
        reached = f"{short(100 * limit['share'])} % of {limit['binds']}" if limit else ""
        lines.append([row.case["name"], series_name(row), kernel["chosen"], short(kernel["pairs"]),
                      short(kernel["multiply_ms"]["median"]), short(kernel["device_ms"]["median"]),
                      short(kernel["gpairs_per_s_multiply"]), short(kernel.get("file_total_s")), reached,
                      "yes" if kernel["validated"] else "NO"])
    return lines


def prediction_lines(rows):
    lines = []
    for row in rows:
        kernel = row.kernel
        if "device_over_predicted" not in kernel:
            continue
        ratio = kernel["device_over_predicted"]
        off = "" if 1 / PREDICTION_FACTOR <= ratio <= PREDICTION_FACTOR else "yes"
        lines.append([row.case["name"], series_name(row), short(kernel["predicted_ms"]),
                      short(kernel["device_ms"]["median"]), short(ratio), off])
    return lines


def comparison_lines(rows):
    return [[row.case["name"], series_name(row), row.kernel["compared"]["with"],
             short(row.kernel["compared"].get("device_ms")), short(row.kernel["compared"].get("multiply_ms"))]
            for row in rows if "compared" in row.kernel]


def process_lines(rows):
    return [[row.case["name"], series_name(row), short(row.kernel["e2e_s"]["median"]),
             short(row.kernel.get("file_total_s")), short(row.case.get("floor", {}).get("process_s")),
             short(row.kernel.get("e2e_over_floor")), short(row.case.get("published_s")),
             short(row.kernel.get("published_over_e2e"))] for row in rows if "e2e_s" in row.kernel]


def markdown(rows, crossings):
    return "".join([
        table("Measured", ["case", "kernel", "chosen", "pairs", "multiply ms", "device ms", "Gpair/s of multiply",
                           "total s (file)", "limit reached", "same bytes"], measurement_lines(rows)),
        table("Prediction", ["case", "kernel", "predicted ms", "device ms", "device / predicted",
                             f"off by more than {PREDICTION_FACTOR}"], prediction_lines(rows)),
        table("Time per pair * m^3, over that of another case",
              ["case", "kernel", "compared with", "ratio, device", "ratio, multiply"], comparison_lines(rows)),
        table("Whole processes", ["case", "kernel", "process s", "within spmm-bench s", "floor s", "over floor",
                                  "published s", "published / process"], process_lines(rows)),
        table("Crossing points", ["cases", "kernels", "share of blocks", "device ms"],
              [[c.group, f"{c.first}, {c.second}", f"{100 * c.density:.3g} %", short(c.ms)] for c in crossings]),
    ])


# ---- pictures


class Painter:
    """Draws into a folder. Errors: ends the program where matplotlib is missing."""

    def __init__(self, out):
        try:
            import matplotlib
        except ImportError:
            fail("matplotlib is missing; install it with: apt-get install python3-matplotlib, or give --no-pictures")
        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
        self.plt = plt
        self.out = out

    def panels(self, count):
        return self.plt.subplots(1, count, figsize=(6 * count, 5), squeeze=False)

    def save(self, figure, name):
        path = self.out / name
        figure.savefig(path, dpi=110, bbox_inches="tight")
        self.plt.close(figure)
        print(path)

    def line(self, axis, points, name):
        """Points (x, y, below, above)."""
        xs, ys, below, above = zip(*points)
        axis.errorbar(xs, ys, yerr=(below, above), marker="o", markersize=4, capsize=3, label=name)

    def finish_log_axis(self, axis, **labels):
        axis.set(xscale="log", yscale="log", **labels)
        axis.grid(True, which="both", alpha=0.3)
        if axis.get_legend_handles_labels()[0]:
            axis.legend(fontsize="small")


def plot_rates(painter, rows):
    """A panel per block side, a line per kernel."""
    rows = [row for row in rows if row.case["pattern"] == "uniform" and row.kernel["gpairs_per_s_multiply"] > 0]
    sides = sorted({row.case["m"] for row in rows})
    if not sides:
        return
    figure, axes = painter.panels(len(sides))
    for axis, m in zip(axes[0], sides):
        series = {}
        for row in rows:
            if row.case["m"] == m:
                down, up = rate_spread(row.kernel["pairs"] / 1e6, row.kernel["multiply_ms"])
                point = (row.case["block_density"], row.kernel["gpairs_per_s_multiply"], down, up)
                series.setdefault(series_name(row), []).append(point)
        for name, points in series.items():
            painter.line(axis, sorted(points), name)
        painter.finish_log_axis(axis, title=f"m = {m}", xlabel="share of blocks stored",
                                ylabel=f"Gpair/s of the multiply stage, {device_word(rows)}")
    painter.save(figure, "rate.png")


def plot_densities(painter, rows, groups, crossings):
    """A panel per group, a line per kernel, a mark and a name per crossing."""
    if not groups:
        return
    around = {(group_name(row.case), series_name(row), row.case["block_density"]): spread(row.kernel["device_ms"])
              for row in rows}
    figure, axes = painter.panels(len(groups))
    for axis, (group, series) in zip(axes[0], groups.items()):
        axis.set_xscale("log")
        for name, points in series.items():
            painter.line(axis, [(x, ms, *around[group, name, x]) for x, ms in sorted(points.items())], name)
        marks = sorted((crossing for crossing in crossings if crossing.group == group), key=lambda one: one.density)
        for letter, crossing in zip(string.ascii_uppercase, marks):
            axis.plot([crossing.density], [crossing.ms], marker="x", color="black", markersize=9)
            axis.annotate(letter, (crossing.density, crossing.ms), xytext=(-10, 8), textcoords="offset points",
                          fontsize="small")
        painter.finish_log_axis(axis, title=group, xlabel="share of blocks stored",
                                ylabel=f"milliseconds of the {device_word(rows)}'s stages")
        # Below the frame, where no line and no other name is.
        axis.text(0, -0.14, "\n".join(f"{letter}  {crossing.first} = {crossing.second}: "
                                      f"{100 * crossing.density:.3g} % of blocks, {crossing.ms:.3g} ms"
                                      for letter, crossing in zip(string.ascii_uppercase, marks)),
                  transform=axis.transAxes, verticalalignment="top", fontsize="small")
    painter.save(figure, "density.png")


def plot_stages(painter, rows):
    """One bar per case and kernel, cut by stage; stages overlap, so shares are of their sum."""
    names = [f"{row.case['name']} {series_name(row)}" for row in rows]
    stages = [median_stages(row.kernel) for row in rows]
    sums = [sum(one.values()) or 1 for one in stages]
    figure, axis = painter.plt.subplots(figsize=(10, 1 + 0.35 * len(rows)))
    left = [0.0] * len(rows)
    for number, stage in enumerate(STAGES):
        shares = [one[stage] / total for one, total in zip(stages, sums)]
        if max(shares) == 0:
            continue
        axis.barh(names, shares, left=left, label=stage, color=painter.plt.get_cmap("tab20")(number))
        left = [x + share for x, share in zip(left, shares)]
    axis.invert_yaxis()
    axis.set(xlim=(0, 1), xlabel=f"share of the sum over stages, output to /dev/null, {device_word(rows)}")
    axis.legend(fontsize="small", loc="center left", bbox_to_anchor=(1, 0.5))
    painter.save(figure, "stages.png")


def median_stages(kernel):
    """Milliseconds of each stage, median over the runs."""
    medians = {}
    for stage in STAGES:
        values = sorted(run["stages_ms"].get(stage, 0) for run in kernel["runs"])
        medians[stage] = values[len(values) // 2]
    return medians


def main():
    parser = argparse.ArgumentParser(description="Draws measurements of spmm-bench and writes their tables.")
    parser.add_argument("measurements", nargs="+", type=pathlib.Path, metavar="MEASUREMENT.json")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("."), help="folder for the pictures")
    parser.add_argument("--markdown", type=pathlib.Path, metavar="FILE", help="write the tables")
    parser.add_argument("--no-pictures", action="store_true", help="tables and crossing points alone")
    arguments = parser.parse_args()
    rows = read_rows(arguments.measurements)
    if not rows:
        fail("no kernel ran in these measurements; measure again with spmm-bench --json")
    groups = density_groups(rows)
    crossings = all_crossings(groups)
    for crossing in crossings:
        print(crossing_text(crossing))
    if arguments.markdown:
        arguments.markdown.write_text(markdown(rows, crossings))
        print(arguments.markdown)
    if arguments.no_pictures:
        return
    painter = Painter(arguments.out)
    arguments.out.mkdir(parents=True, exist_ok=True)
    plot_rates(painter, rows)
    plot_densities(painter, rows, groups, crossings)
    plot_stages(painter, rows)


if __name__ == "__main__":
    main()
