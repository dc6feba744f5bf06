#!/usr/bin/env python3
"""Draws one run of spmm: a timeline of its threads and streams, the shares of its stages, and its plan beside what happened.

usage: python3 tools/scripts/draw_run.py [--out PICTURE.png] [--title TEXT] FILE.json [FILE.json]

Each file is a trace (spmm --trace) or a report (spmm --report); give one of them or, of the same run, both.
"""
import argparse
import collections
import json
import pathlib
import sys

STAGES = ["open", "budget", "read", "h2d", "build", "count", "plan", "multiply", "compact", "d2h", "write", "verify"]
COLORS = dict(zip(STAGES, ["tab:gray", "darkgray", "tab:orange", "gold", "tab:green", "yellowgreen", "tab:pink", "tab:blue",
                           "tab:cyan", "tab:purple", "tab:brown", "tab:red"]))
MAX_TRACKS = 40  # more cannot be told apart

# Milliseconds in which any thread or stream was in the stage, and of these in which any worked; bytes that it moved.
StageTime = collections.namedtuple("StageTime", "stage in_stage working bytes")


def fail(message):
    sys.exit(f"draw_run.py: error: {message}")


# ---- reading


def read_files(paths):
    """The trace and the report among the files; None where there is none."""
    trace = report = None
    for path in paths:
        try:
            content = json.loads(path.read_text(errors="replace"))
        except (OSError, ValueError) as error:
            fail(f"{path}: not JSON ({error}); name a file of --trace or --report")
        if isinstance(content, list) and trace is None:
            trace = read_trace(path, content)
        elif isinstance(content, dict) and "stages" in content and report is None:
            report = content
        else:
            fail(f"{path}: neither a trace nor a report of a run, or a second one of its kind; "
                 "give one of --trace, one of --report, or one of each")
    return trace, report


def read_trace(path, events):
    """{"end": ms, "tracks": [(name, [(stage, begin, end, depth)])]}, times in milliseconds."""
    processes, threads, spans, end = {}, {}, {}, 0
    try:
        for event in events:
            track = (event["pid"], event["tid"])
            if event["ph"] == "M":
                if event["name"] == "process_name":
                    processes[track[0]] = event["args"]["name"]
                elif event["name"] == "thread_name":
                    threads[track] = event["args"]["name"]
            elif event["ph"] == "X":
                begin = event["ts"] / 1000
                if event["name"] == "product":
                    end = event["dur"] / 1000
                else:
                    spans.setdefault(track, []).append((event["name"], begin, begin + event["dur"] / 1000))
    except (KeyError, TypeError) as error:
        fail(f"{path}: not a trace of spmm ({error!r}); write one with spmm --trace")
    tracks = []
    for track, name in threads.items():
        is_host = processes.get(track[0]) == "spmm"
        label = name if is_host else f"{processes.get(track[0], '')} {name}"
        tracks.append((label, with_depths(spans.get(track, []))))
    end = end or max((span[2] for _, all_spans in tracks for span in all_spans), default=0)
    if end <= 0:
        fail(f"{path}: holds no event; write a trace with spmm --trace")
    return {"end": end, "tracks": tracks}


def with_depths(spans):
    """Adds the number of events that contain each one, and whether it contains others."""
    result, around = [], []
    for name, begin, end in sorted(spans, key=lambda span: (span[1], -span[2])):
        while around and result[around[-1]][2] <= begin:
            around.pop()
        if around:
            result[around[-1]][4] = True
        result.append([name, begin, end, len(around), False])
        around.append(len(result) - 1)
    return result


# ---- figures


def union_ms(spans):
    """The length of the union of intervals."""
    busy = reached = 0
    for begin, end in sorted(spans):
        busy += max(0, end - max(begin, reached))
        reached = max(reached, end)
    return busy


def stage_times(trace, report):
    """A StageTime of each stage that took any time. Threads that wait within a stage tell nothing about its limit:
    with a trace, events that contain others do not count as work."""
    times = []
    spans = [span for _, track in trace["tracks"] for span in track] if trace is not None else []
    for stage in STAGES:
        in_stage = union_ms([span[1:3] for span in spans if span[0] == stage])
        working = union_ms([span[1:3] for span in spans if span[0] == stage and not span[4]])
        num_bytes = 0
        if report is not None:
            totals = report["stages"].get(stage, {"s": 0, "bytes": 0})
            in_stage, num_bytes = max(in_stage, 1000 * totals["s"]), totals["bytes"]
        times.append(StageTime(stage, in_stage, working if spans else in_stage, num_bytes))
    return [time for time in times if time.in_stage > 0]


def rate_text(time):
    return f", {time.bytes / time.working / 1e6:.3g} GB/s" if time.bytes and time.working else ""


def binding_stage(times, total_ms):
    """The stage in which some thread or stream works for the longest time, and that in words."""
    time = max(times, key=lambda one: one.working)
    return time.stage, f"{time.stage} binds: {100 * min(1, time.working / total_ms):.0f} % of the run{rate_text(time)}"


def comparisons(report):
    """[(what, planned, happened, unit)] where both are known."""
    plan, scale = report["plan"], 1 / 1e6
    kernel_ms = 1000 * sum(report["stages"][stage]["s"] for stage in ("multiply", "compact"))
    candidates = [("whole run, s", plan.get("predicted_s", 0), report["total_s"]),
                  ("multiply, ms", plan.get("predicted_ms", 0), kernel_ms),
                  ("pairs, 1e6", scale * plan["expected_pairs"], scale * report["pairs"]),
                  ("result blocks, 1e6", scale * plan["expected_output_blocks"], scale * report["c"]["blocks"]),
                  ("panels", plan["expected_panels"], report["panels"]),
                  ("host memory, MB", scale * plan["host_need_bytes"], scale * report["peak_host_bytes"]),
                  ("device memory, MB", scale * plan["device_need_bytes"], scale * report["peak_device_bytes"])]
    return [one for one in candidates if one[1] > 0 and one[2] > 0]


def short(value):
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def heading(report):
    if report is None:
        return ""
    a, c = report["a"], report["c"]
    return (f"n {a['n']}, m {a['m']}: {a['blocks']} x {report['b']['blocks']} blocks to {c['blocks']}, "
            f"{report['pairs']:.3g} pairs\n{report['backend']} {report['kernel']} on {report['device']}, "
            f"{report['threads']} threads, {short(1000 * report['total_s'])} ms")


# ---- drawing


class Painter:
    """Errors: ends the program where matplotlib is missing."""

    def __init__(self):
        try:
            import matplotlib
        except ImportError:
            fail("matplotlib is missing; install it with: apt-get install python3-matplotlib")
        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
        self.plt = plt


def draw_timeline(painter, axis, trace):
    """A row per track. What contains other events is drawn pale behind them: there its thread waits."""
    tracks = trace["tracks"][:MAX_TRACKS]
    for row, (_, spans) in enumerate(tracks):
        for contains in (True, False):
            by_stage = {}
            for name, begin, end, _, has_inner in spans:
                if has_inner == contains:
                    by_stage.setdefault(name, []).append((begin, end - begin))
            for stage, bars in by_stage.items():
                axis.broken_barh(bars, (row - 0.4, 0.8), facecolors=COLORS.get(stage, "black"), alpha=0.3 if contains else 1,
                                 linewidth=0)
    left_out = len(trace["tracks"]) - len(tracks)
    axis.set(yticks=range(len(tracks)), yticklabels=[name for name, _ in tracks], xlim=(0, trace["end"]),
             ylim=(len(tracks) - 0.5, -0.5),
             xlabel="milliseconds; pale: in the stage, but waiting" + (f"; {left_out} more tracks" if left_out else ""))
    axis.grid(True, axis="x", alpha=0.3)
    used = {span[0] for _, spans in tracks for span in spans}
    handles = [painter.plt.Rectangle((0, 0), 1, 1, color=COLORS.get(stage, "black")) for stage in STAGES if stage in used]
    axis.legend(handles, [stage for stage in STAGES if stage in used], fontsize="small", loc="center left",
                bbox_to_anchor=(1, 0.5))


def draw_stages(axis, times, total_ms):
    """A bar per stage; the one that binds has a frame."""
    binding, words = binding_stage(times, total_ms)
    for row, time in enumerate(times):
        axis.barh(row, time.in_stage, color=COLORS[time.stage], alpha=0.3)
        axis.barh(row, time.working, color=COLORS[time.stage], edgecolor="black",
                  linewidth=2 if time.stage == binding else 0)
        axis.text(time.in_stage, row, f" {short(time.working)} ms{rate_text(time)}", verticalalignment="center",
                  fontsize="small")
    axis.axvline(total_ms, color="black", linestyle="--", linewidth=1)
    axis.set(yticks=range(len(times)), yticklabels=[time.stage for time in times], ylim=(len(times) - 0.5, -0.5),
             xlim=(0, 1.35 * max(total_ms, max(time.in_stage for time in times))),
             xlabel="milliseconds of work; pale: waiting; dashed: the run")
    axis.set_title(words, fontsize="medium")


def draw_plan(axis, rows):
    """Happened over planned, a bar each on a logarithmic axis around 1."""
    ratios = [happened / planned for _, planned, happened in rows]
    reach = 1.2 * max([2] + [max(ratio, 1 / ratio) for ratio in ratios])
    for row, ((_, planned, happened), ratio) in enumerate(zip(rows, ratios)):
        axis.barh(row, ratio - 1, left=1, color="tab:orange" if ratio > 1 else "tab:blue")
        axis.text(reach * 1.05, row, f"{short(planned)} to {short(happened)}", verticalalignment="center", fontsize="small")
    axis.axvline(1, color="black", linewidth=1)
    axis.set(xscale="log", xlim=(1 / reach, reach), yticks=range(len(rows)), yticklabels=[what for what, _, _ in rows],
             ylim=(len(rows) - 0.5, -0.5), xlabel="happened / planned; right: planned to happened")
    ticks = [tick for tick in (0.01, 0.1, 0.2, 0.5, 1, 2, 5, 10, 100) if 1 / reach <= tick <= reach]
    axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axis.minorticks_off()
    axis.set_title("plan beside what happened", fontsize="medium")


def draw(painter, trace, report, title, out, dpi):
    total_ms = trace["end"] if report is None else 1000 * report["total_s"]
    times = stage_times(trace, report)
    rows = comparisons(report) if report is not None else []
    heights = ([1.2 + 0.3 * min(MAX_TRACKS, len(trace["tracks"]))] if trace is not None else []) + [3.2]
    figure = painter.plt.figure(figsize=(11, sum(heights) + 1), constrained_layout=True)
    grid = figure.add_gridspec(len(heights), 2 if rows else 1, height_ratios=heights)
    if trace is not None:
        draw_timeline(painter, figure.add_subplot(grid[0, :]), trace)
    if times:
        draw_stages(figure.add_subplot(grid[-1, 0]), times, total_ms)
    if rows:
        draw_plan(figure.add_subplot(grid[-1, 1]), rows)
    figure.suptitle(title or heading(report), fontsize="medium")
    try:
        figure.savefig(out, dpi=dpi)
    except OSError as error:
        fail(f"{out}: cannot be written ({error}); name another file with --out")
    print(out)


def main():
    parser = argparse.ArgumentParser(description="Draws one run of spmm from its trace, its report, or both.")
    parser.add_argument("files", nargs="+", type=pathlib.Path, metavar="FILE.json", help="of --trace or --report")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("run.png"), help="the picture (run.png)")
    parser.add_argument("--title", default="", help="instead of the sizes and the kernel of the report")
    parser.add_argument("--dpi", type=int, default=110, help="pixels per inch; the picture is 11 inches wide")
    arguments = parser.parse_args()
    trace, report = read_files(arguments.files)
    draw(Painter(), trace, report, arguments.title, arguments.out, arguments.dpi)


if __name__ == "__main__":
    main()
