#!/usr/bin/env python3
"""Measures the dense kernels with spmm-dense and writes the classic tables: dense.json and tables.md.

usage: python3 tools/scripts/dense_tables.py --bin build/bin --out DIR [--quick] [--squares N,N...]
       python3 tools/scripts/dense_tables.py --from DIR/dense.json --out DIR
"""
import argparse
import datetime
import json
import pathlib
import subprocess
import sys
import tempfile

NAME = "dense_tables.py"
HEAD = ["schema", "version", "revision", "machine"]  # keys of spmm-dense --json that hold for all of its runs
UNAVAILABLE = 69  # exit code of spmm-dense: no kernel could run
DIFFERENT = 1  # a result is wrong
HOST = "host-naive"
PUBLISHED = [{"kernel": "tiled", "n": 8192, "gflops": 291.5, "hardware": "hardware not stated"}]

TYPES = ["f32", "i32", "u16"]
SQUARES = [128, 256, 512, 1024, 2048, 4096, 8192]
HOST_LARGEST = 1024
LONG = [1000, 2000, 4000, 8000, 16000]
LONG_KERNELS = ["global", "tiled", "tiled-two"]
# Sides all different, products of thin matrices, single rows and columns: a grid from the wrong sides shows here.
SHAPES = ["1024x50x1024", "50x1024x50", "1x4096x1", "4096x1x4096", "1000x10x3000", "3000x10x1000", "1023x1025x1",
          "1x1025x1023", "33x1000x17", "1x1x1"]
TILE_SIDE = 4096
QUICK = {"squares": [64, 128], "host_largest": 64, "long": [100, 200], "tile_side": 128,
         "shapes": ["128x50x128", "50x128x50", "1x512x1", "300x1x300", "100x10x300"]}


def fail(message):
    sys.exit(f"{NAME}: error: {message}")


class Measurer:
    """Runs spmm-dense; a build or a machine without a GPU leaves the rows of the host kernel."""

    def __init__(self, binary, runs):
        self.binary = binary
        self.runs = runs
        self.wrong = []
        self.head = {}  # what a measurement says of program and machine
        self.kernels = [kernel for kernel in self.call(["--list"])["kernels"] if kernel["on_device"]]
        if not self.kernels:
            print("no GPU kernel in this build: host rows only")

    def call(self, arguments):
        """The JSON of one run, as far as it came."""
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "run.json"
            command = [str(self.binary), *arguments, "--json", str(path)]
            try:
                done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            except OSError as error:
                fail(f"{self.binary}: {error.strerror}; build the program or name its folder with --bin")
            if done.returncode not in (0, DIFFERENT, UNAVAILABLE):
                print(done.stderr.strip(), file=sys.stderr)
            if path.exists():
                found = json.loads(path.read_text())
                self.head = {key: found[key] for key in HEAD if key in found} or self.head
                return found
            if "--list" in arguments:
                fail("spmm-dense --list failed; run it by hand")
            return {"products": []}

    def names(self, only=None):
        return [kernel["kernel"] for kernel in self.kernels if only is None or kernel["kernel"] in only]

    def rows(self, series, kind, names, shapes, more=()):
        """One dictionary per kernel and shape that ran."""
        if not names or not shapes:
            return []
        shape_list = ",".join(str(shape) for shape in shapes)
        print(f"{series}, {kind}: {', '.join(names)} at {shape_list}", flush=True)
        run = self.call(["--type", kind, "--kernel", ",".join(names), "--shape", shape_list, "--runs", str(self.runs),
                         *more])
        found = []
        for product in run["products"]:
            for result in product["results"]:
                row = {"series": series, "type": kind, "rows": product["rows"], "inner": product["inner"],
                       "cols": product["cols"], "rows_checked": product["rows_checked"], **result}
                if result["status"] != "ok":
                    print(f"  rejected: {result['kernel']} at {shape_text(row)}: {result['reason']}")
                    continue
                found.append(row)
                if not result["check"]["passed"]:
                    self.wrong.append(f"{kind} {result['kernel']} {shape_text(row)}")
        return found


def measure(arguments):
    """Squares; then long runs with one and two outputs per thread, shapes with sides all different, tile widths."""
    quick = QUICK if arguments.quick else {}
    measurer = Measurer(arguments.bin / "spmm-dense", arguments.runs)
    squares = arguments.squares or quick.get("squares", SQUARES)
    host_sides = [n for n in squares if n <= quick.get("host_largest", HOST_LARGEST)]
    rows = []
    for kind in TYPES:
        rows += measurer.rows("square", kind, measurer.names(), squares)
        rows += measurer.rows("square", kind, [HOST], host_sides)
    if not arguments.squares:
        rows += measurer.rows("long", "f32", measurer.names(LONG_KERNELS), quick.get("long", LONG))
        tiled = [kernel["kernel"] for kernel in measurer.kernels if kernel["tiles"]]
        for kind in TYPES:
            rows += measurer.rows("shapes", kind, measurer.names() + [HOST], quick.get("shapes", SHAPES),
                                  ["--check", "full"])
            rows += measurer.rows("tiles", kind, tiled, [quick.get("tile_side", TILE_SIDE)], ["--tile", "all"])
    devices = sorted({row["device"] for row in rows if row["device"] != "host"})
    return {"program": NAME, **measurer.head, "command": sys.argv, "devices": devices, "quick": arguments.quick,
            "runs": arguments.runs, "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            "published": PUBLISHED, "wrong": measurer.wrong, "rows": rows}


def shape_text(row):
    return f"{row['rows']}x{row['inner']}x{row['cols']}"


def number(value):
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def table(header, lines):
    """Markdown, without the columns that are empty."""
    used = [c for c in range(len(header)) if any(line[c] for line in lines)]
    header = [header[c] for c in used]
    lines = [[line[c] for c in used] for line in lines]
    text = "| " + " | ".join(header) + " |\n|" + " --- |" * len(header) + "\n"
    return text + "".join("| " + " | ".join(line) + " |\n" for line in lines) + "\n"


def square_tables(measurement, rows, kind, seconds_title, gflops_title):
    kernels = sorted({row["kernel"]: None for row in rows}, key=lambda kernel: kernel != HOST)
    by_side = {}  # {n: {kernel: row}}
    for row in sorted(rows, key=lambda row: row["rows"]):
        by_side.setdefault(row["rows"], {})[row["kernel"]] = row
    seconds, rates = [], []
    for n, found in by_side.items():
        gflops = {kernel: row["gflops"] for kernel, row in found.items()}
        ratios = [gflops[over] / gflops[under] if over in gflops and under in gflops else None
                  for over, under in (("tiled", "global"), ("tiled-two", "tiled"))]
        published = [f"{one['kernel']} {one['gflops']} ({one['hardware']})" for one in measurement["published"]
                     if kind == "f32" and one["n"] == n]
        seconds.append([str(n)] + [number(found[k]["median_ms"] / 1000 if k in found else None) for k in kernels])
        rates.append([str(n)] + [number(value) for value in [gflops.get(k) for k in kernels] + ratios]
                     + [", ".join(published)])
    header = ["n"] + kernels
    return (f"## {seconds_title}\n\n" + table(header, seconds) + f"## {gflops_title}\n\n"
            + table(header + ["tiled / global", "tiled-two / tiled", "published GFLOPS"], rates))


def verdict(row):
    check = row["check"]
    if not check["passed"]:
        return f"WRONG: {check['differences']} differ"
    largest = check["largest_difference"]
    return f"ok, {row['rows_checked']} rows, largest difference {largest:.2g}" if largest else "equal"


def shapes_table(rows):
    lines = [[shape_text(row), row["type"], row["kernel"], number(row["median_ms"]), number(row["gflops"]),
              verdict(row)] for row in rows]
    return ("## Shapes with sides all different\n\nEvery row of C compared with the host.\n\n"
            + table(["shape (J x K x L)", "type", "kernel", "ms", "GFLOPS", "check"], lines))


def tiles_table(rows):
    resources = ["threads_per_cta", "registers_per_thread", "shared_bytes_per_cta", "ctas_per_multiprocessor"]
    lines = [[row["type"], row["kernel"], str(row["tile"]), number(row["median_ms"]), number(row["gflops"])]
             + [str(row["resources"][key]) for key in resources] + [f"{row['resources']['occupancy']:.0%}"]
             for row in rows]
    header = ["type", "kernel", "tile", "ms", "GFLOPS", "threads", "registers", "shared bytes", "CTAs per SM",
              "occupancy"]
    return f"## Tile widths, n = {rows[0]['rows']}\n\n" + table(header, lines)


def select(measurement, series, kind=None):
    return [row for row in measurement["rows"] if row["series"] == series and kind in (None, row["type"])]


def markdown(measurement):
    """All tables."""
    devices = ", ".join(measurement["devices"]) or "no GPU: host rows only"
    text = (f"# Dense kernels\n\n{devices}; {measurement['version']}; {measurement['date']}. Timed runs: "
            f"{measurement['runs']}, medians; on the GPU between events around finished products with operands "
            f"resident; GFLOPS = 2 J K L operations over that time. Ratios are of GFLOPS. host-naive is one core. "
            f"u16 saturates, i32 wraps. Every product was compared with the host, "
            f"{len(measurement['wrong'])} were wrong.\n\n")
    for kind in TYPES:
        rows = select(measurement, "square", kind)
        if rows:
            text += square_tables(measurement, rows, kind, f"{kind}: seconds against n", f"{kind}: GFLOPS against n")
    rows = select(measurement, "long")
    if rows:
        text += square_tables(measurement, rows, "f32", "f32, without tile, tiled, two outputs per thread: seconds",
                              "f32, without tile, tiled, two outputs per thread: GFLOPS")
    for series, write in (("shapes", shapes_table), ("tiles", tiles_table)):
        rows = select(measurement, series)
        if rows:
            text += write(rows)
    return text.rstrip() + "\n"


def load(path):
    try:
        measurement = json.loads(path.read_text())
        if measurement["program"] != NAME or not measurement["rows"]:
            raise ValueError("no rows of this program")
        return measurement
    except (OSError, ValueError, KeyError, TypeError) as error:
        fail(f"{path}: not a measurement of {NAME} ({error}); name a dense.json")


def main():
    parser = argparse.ArgumentParser(description="Tables of the dense kernels: dense.json and tables.md.")
    parser.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("build/bin"), help="folder of spmm-dense")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("."), help="folder for the results")
    parser.add_argument("--runs", type=int, default=3, help="timed runs of each kernel")
    parser.add_argument("--squares", type=lambda text: [int(side) for side in text.split(",")], metavar="N,N...",
                        help="squares with these sides, and nothing else")
    parser.add_argument("--quick", action="store_true", help="small shapes only, to see that all works")
    parser.add_argument("--from", dest="source", type=pathlib.Path, metavar="JSON", help="tables of an earlier measurement")
    arguments = parser.parse_args()
    try:
        arguments.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        fail(f"{arguments.out}: {error.strerror}; name a folder that can be made with --out")
    measurement = load(arguments.source) if arguments.source else measure(arguments)
    if not measurement["rows"]:
        fail("nothing could be measured; see the messages above")
    if not arguments.source:
        (arguments.out / "dense.json").write_text(json.dumps(measurement, indent=1) + "\n")
        print(arguments.out / "dense.json")
    (arguments.out / "tables.md").write_text(markdown(measurement))
    print(arguments.out / "tables.md")
    if measurement["wrong"]:
        print(f"{NAME}: wrong results: " + "; ".join(measurement["wrong"]), file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
