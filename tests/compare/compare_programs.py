#!/usr/bin/env python3
"""Runs the programs of two builds over the same commands and lists every difference.

usage: compare_programs.py OLD_BIN NEW_BIN [--only TEXT]

OLD_BIN and NEW_BIN are the folders of the programs. The inputs are made by the old spmm-gen and by this script. Each case
runs in a fresh folder. Compared: bytes of files, exit codes, keys and values of JSON, options of --help, names of programs.
Times, predictions and memory in JSON are compared by key alone. Differences of one kind are listed once, with their number
and the first command. Exit code: 0 none, 1 some, 2 usage.
"""
import argparse
import collections
import gzip
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile

SIDES = (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 17, 32, 64)
LIMITS = (1, 255, 2047, 65535)
PATTERNS = ("uniform", "banded", "power-law", "heavy-row", "hub", "block-diagonal", "arrow", "diagonal", "stencil-27", "rmat")
# Values of JSON that differ from run to run or from build to build; their keys and types are compared all the same.
VOLATILE = re.compile(r".*_(s|ms|per_s)|.*(need|limit|resident|panel|peak\w*|available)_bytes|.*seconds|.*time.*|.*gflops|s|version|revision|date|"
                      r"command|reason|why|expected_.*|machine.*|host.*|pid|start.*|end.*|predict.*|median|min|max|runs|path|load.*|buffers|"
                      r"panels|peak.*")


class Inputs:
    """The folder of the inputs, which every case gets a copy of its own of."""

    def __init__(self, old, folder):
        self.old, self.folder, self.made = old, folder, {}

    def generated(self, n, m, k, *options):
        """The name of a matrix by spmm-gen; None if the pattern has no room for it."""
        key = (n, m, k) + options
        if key not in self.made:
            name = f"g{len(self.made)}.bin"
            command = [str(self.old / "spmm-gen"), "-q", "--n", str(n), "--m", str(m), "--k", str(k), *options, name]
            done = subprocess.run(command, cwd=self.folder, capture_output=True, check=False)
            self.made[key] = name if done.returncode == 0 else None
        return self.made[key]

    def written(self, name, data):
        (self.folder / name).write_bytes(data)
        return name


def matrix(n, m, blocks, k=None):
    """Bytes of an operand; blocks: (i, j, element)."""
    records = b"".join(struct.pack("<II", i, j) + struct.pack("<H", e) * (m * m) for i, j, e in blocks)
    return struct.pack("<III", n, m, len(blocks) if k is None else k) + records


def bad_files(inputs):
    good = matrix(16, 4, [(0, 0, 1), (1, 2, 3), (3, 3, 65535)])
    files = {
        "empty.bin": b"", "header.bin": good[:12], "short_header.bin": good[:7], "cut.bin": good[:-1], "long.bin": good + b"x",
        "no_blocks.bin": matrix(16, 4, []), "m0.bin": struct.pack("<III", 16, 0, 0), "m65.bin": matrix(130, 65, [(0, 0, 1)]),
        "n0.bin": struct.pack("<III", 0, 4, 0), "uneven.bin": matrix(18, 4, [(0, 0, 1)]), "huge_k.bin": matrix(16, 4, [(0, 0, 1)], 2**32 - 1),
        "twice.bin": matrix(16, 4, [(1, 1, 1), (0, 0, 2), (1, 1, 3)]), "row_out.bin": matrix(16, 4, [(4, 0, 1)]),
        "column_out.bin": matrix(16, 4, [(0, 0xFFFFFFFF, 1)]), "zero.bin": matrix(16, 4, [(0, 0, 0), (1, 2, 5)]),
        "other_m.bin": matrix(16, 2, [(0, 0, 1)]), "other_n.bin": matrix(32, 4, [(0, 0, 1)]), "n35615.bin": matrix(35615, 17, [(0, 0, 1)]),
        "max_n.bin": matrix(2**32 - 4, 4, [(2**30 - 2, 0, 7), (0, 2**30 - 2, 9)]), "packed.bin": gzip.compress(good, mtime=0),
        "text.bin": b"hello, this is no matrix\n", "result.bin": good[:12] + b"".join(
            struct.pack("<II", i, i) + struct.pack("<I", 70000) * 16 for i in range(3)),
        "a.npy": b"\x93NUMPY\x01\x00" + b"v\x00{'descr': '<i8', 'fortran_order': False, 'shape': (2, 2), }".ljust(120) + bytes(32),
        "a.npz": b"PK\x03\x04" + bytes(60), "zeros.bin": bytes(4096), "ones.bin": b"\xff" * 4096,
    }
    return [inputs.written("bad_" + name, data) for name, data in files.items()], inputs.written("good.bin", good)


def mtx_files(inputs):
    head = b"%%MatrixMarket matrix coordinate "
    files = {
        "ok": head + b"integer general\n% c\n3 5 3\n1 1 4\n3 5 65535\n1 1 2\n", "real": head + b"real general\n4 4 2\n1 1 2.0\n2 3 1.5\n",
        "pattern": head + b"pattern symmetric\n4 4 2\n2 1\n3 3\n", "array": b"%%MatrixMarket matrix array integer general\n2 2\n1\n2\n3\n4\n",
        "negative": head + b"integer general\n2 2 1\n1 2 -3\n", "big": head + b"integer general\n2 2 1\n1 2 65536\n",
        "few": head + b"integer general\n2 2 2\n1 2 6\n", "many": head + b"integer general\n2 2 1\n1 2 6\n2 2 6\n",
        "out": head + b"integer general\n2 2 1\n3 2 6\n", "zero_index": head + b"integer general\n2 2 1\n0 2 6\n",
        "complex": head + b"complex general\n2 2 1\n1 2 6 1\n", "skew": head + b"integer skew-symmetric\n2 2 1\n2 1 6\n",
        "nan": head + b"real general\n2 2 1\n1 2 nan\n", "banner": b"%%MatrixMarket\n", "none": b"", "crlf": head + b"integer general\r\n2 2 1\r\n1 2 6\r\n",
        "words": head + b"integer general\n2 2 1\n1 x 6\n", "huge": head + b"integer general\n99999999999 2 1\n1 2 6\n",
        "comments": head + b"integer general\n" + b"%" * 2000000 + b"\n2 2 1\n1 2 6\n", "no_blocks": head + b"integer general\n5 7 0\n",
    }
    return [inputs.written(f"x_{name}.mtx", data) for name, data in files.items()]


def product_cases(inputs, kernels):
    for number, m in enumerate(SIDES):
        grid = 48 if m < 9 else 12
        for which, pattern in enumerate(PATTERNS + ("full",)):
            for value, largest in enumerate(LIMITS):
                options = ("--max-value", str(largest), "--zero-blocks", "0.1")
                make = lambda seed: (inputs.generated(grid * m, m, "all", *options, "--seed", seed) if pattern == "full" else inputs.generated(
                    grid * m, m, grid if pattern == "diagonal" else "all" if pattern == "stencil-27" else 3 * grid, *options, "--seed", seed,
                    "--pattern", pattern, *(["--group", "4"] if pattern == "block-diagonal" else [])))
                a, b = make("1"), make("2")
                if not a or not b:
                    continue
                # Every kernel meets every pattern and every range of values; each side meets a part of the other combinations.
                if (which + value + number) % 3 == 1 or pattern == "full":
                    for kernel in kernels:
                        yield [a, b], [["spmm", "-q", "--backend", "cpu", "--kernel", kernel, a, b, "c.bin"]]
                if (which + value + number) % 3 == 0:
                    isa = ("portable", "avx2", "avx512-vnni")[(which + value) % 3]
                    yield [a, b], [["SPMM_CPU_ISA=" + isa, "spmm", "-q", "--threads", str(1 + which % 3), a, b, "c.bin"]]
                if (which + value + number) % 5 == 0:
                    turn = ["--transpose-a"] * (which % 2) + ["--transpose-b"] * (value % 2)
                    yield [a, b], [["spmm", *turn, "--verify", ("full", "5")[which % 2], "--verify-seed", "7", "--report", "r.json", a, b, "c.bin"],
                                   ["spmm-verify", "--verify-seed", "3", a, b, "c.bin"], ["spmm-info", "c.bin"]]
        big = [inputs.generated(512 * m, m, 6000 if m < 9 else 600, "--max-value", "65535", "--seed", seed) for seed in "12"]
        for limit in ("1K", "1M", "3M", "6M", "12M", "40M"):
            yield big, [["spmm", "-q", "--threads", "1", "--memory-limit", limit, "--report", "r.json", *big, "c.bin"]]
            yield big, [["spmm", "-q", "--transpose-b", "--memory-limit", limit, "--verify", "full", "--verify-seed", "7", *big, "c"],
                        ["spmm", "--plan", "--memory-limit", limit, *big]]
        yield big, [["spmm", "-v", "--threads", "2", "--trace", "t.json", *big, "c.bin"], ["spmm-info", "--json", *big]]
    if shutil.which("mpirun"):
        ranks = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "3", "spmm-mpi"]
        a, b = inputs.generated(256, 4, 600, "--seed", "1"), inputs.generated(256, 4, 600, "--seed", "2")
        for options in ([], ["--verify", "5", "--transpose-a", "--report", "r.json"], ["--verify", "full"], ["--plan"], ["--kernel", "x"]):
            yield [a, b], [[*ranks, *options, a, b, "c"]]
        yield [a], [[*ranks, a, "missing.bin", "c"]]


def file_cases(inputs):
    bad, good = bad_files(inputs)
    for name in bad + mtx_files(inputs):
        both = [name, good]
        yield both, [["spmm", name, good, "c.bin"], ["spmm", "-q", good, name, "c.bin"], ["spmm", "--plan", name, name],
                     ["spmm", "--verify", "full", "--verify-seed", "1", name, name, "c.bin"]]
        yield both, [["spmm-info", name], ["spmm-info", "--json", name], ["spmm-info", "--type", "u32", name], ["spmm-info", name, good, "--json"]]
        yield both, [["spmm-compare", name, good], ["spmm-compare", "--any-order", "--ignore-zero-blocks", name, name],
                     ["spmm-verify", "--verify-seed", "1", name, good, good], ["spmm-verify", "--verify-seed", "1", good, good, name]]
        yield both, [["spmm-convert", name, "o.mtx"], ["spmm-convert", name, "o.bin"],
                     ["spmm-convert", name, "t.mtx", "--transpose", "--scale", "0.5"], ["spmm-convert", "--shape", "2x2", name, "s.mtx"]]
        for options in (["--block", "4"], ["--round", "--on-overflow", "saturate"], ["--scale", "2"], ["--like", good], ["-n", "64", "--transpose"]):
            yield both, [["spmm-convert", *options, name, "o.bin"], ["spmm-convert", "o.bin", "back.mtx"]]
    a = inputs.generated(64, 4, 40)
    three = [a, good]
    make = ["spmm", "-q", a, a, "c.bin"]
    for command in (["spmm", a, a, a], ["spmm", a, good, "c.bin"], ["spmm", "--no-clobber", a, a, good], ["spmm", a, a, "no/c.bin"],
                    ["spmm", a, a, "."], ["spmm", a, a, "c.mtx"], ["spmm", "missing.bin", a, "c.bin"], ["spmm", ".", a, "c.bin"],
                    ["spmm", "--report", a, a, a, "c.bin"], ["spmm", "--report", "c.bin", a, a, "c.bin"], ["spmm", "--trace", a, a, a, "c.bin"],
                    ["spmm", "--durable", "--force", a, a, "c.bin"], ["spmm", "--strict-space", a, a, "c.bin"],
                    ["spmm-convert", a, a], ["spmm-convert", "c.bin", "o.npz"],
                    ["spmm-convert", "c.bin", "o.npy"], ["spmm-convert", "c.bin", "a16.bin"], ["spmm", "c.bin", a, "d.bin"], ["spmm-compare", a, "c.bin"],
                    ["spmm-compare", a, good], ["spmm-compare", "-q", a, "missing"], ["spmm-verify", "--verify-seed", "1", a, good, "c.bin"],
                    ["spmm-verify", "--verify-seed", "1", a, a, a], ["spmm-info", "missing"], ["spmm-info", "--json", "c.bin"], ["spmm-info", "--json", a, a],
                    ["spmm-info", a, a, "--transpose-a"], ["spmm-gen", "--n", "64", "--m", "4", "--k", "40", a],
                    ["spmm-gen", "--n", "63", "--m", "4", "--k", "40", "o.bin"], ["spmm-gen", "--n", "64", "--m", "65", "--k", "1", "o.bin"],
                    ["spmm-gen", "--n", "64", "--m", "4", "--k", "1e9", "o.bin"], ["spmm-gen", "--n", "64", "--m", "4", "--k", "4", "o.npz"],
                    ["spmm", "--report", "-", "-q", a, a, "/dev/null"], ["spmm", "-", a, "c.bin"],
                    ["SPMM_CPU_ISA=x", "spmm", a, a, "c.bin"], ["SPMM_THREADS=x", "spmm", a, a, "c.bin"]):
        yield three, [make, command]
    for pattern in PATTERNS + ("stencil-7", "heavy-column", "saddle-point"):
        for extra in ([], ["--order", "sorted", "--threads", "1", "--zero-blocks", "0.5", "--max-value", "65535"]):
            yield [], [["spmm-gen", "--n", "512", "--m", "2", "--k", "300", "--seed", "5", "--pattern", pattern, *extra, "o.bin"],
                       ["spmm-info", "o.bin"], ["spmm-info", "--json", "o.bin"], ["spmm-convert", "o.bin", "o.mtx"], ["spmm-convert", "o.mtx", "back.bin"]]


def list_cases(inputs):
    a, b = inputs.generated(64, 4, 40, "--seed", "1"), inputs.generated(64, 4, 40, "--seed", "2")
    row = f"{a}\t{b}\tc1.bin\n{b}\t{a}\tc2.bin\tverify=full\n"
    lists = {"ok": row, "one_bad": row + f"{a}\tmissing.bin\tc3.bin\n", "same_output": row + row, "input_output": f"{a}\t{b}\t{a}\n", "empty": "",
             "comment": "# x\n\n" + row, "columns": f"{a}\t{b}\n", "key": f"{a}\t{b}\tc.bin\tverfy=1\n", "value": f"{a}\t{b}\tc.bin\tdurable=x\n",
             "all": f"{a}\t{b}\tc.bin\tbackend=cpu\tkernel=reference\tdurable=1\ttranspose-a=1\tno-clobber=1\ttimeout=1m\n",
             "bom": "\ufeff" + row, "malformed": f"bad_cut.bin\t{a}\tc.bin\n" + row, "mtx": f"{a}\t{b}\tc.mtx\n"}
    for name, content in lists.items():
        files = [a, b, "bad_cut.bin", inputs.written(f"l_{name}.tsv", content.encode())]
        run = ["spmm-batch", "--in-flight", "1", "--backend", "cpu"]
        yield files, [[*run, "--report", "r.json", files[3]], [*run, "--resume", "--report", "-", files[3]],
                      [*run, "--resume", "--no-clobber", files[3]]]
        yield files, [[*run, "--dry-run", files[3]], [*run, "-q", "--shard", "1/2", "--report", "r.json", "--log", "/dev/null", files[3]],
                      [*run, "--verify", "full", "--memory-limit", "100M", files[3]]]
        yield files, [["sh", "-c", f"BIN/spmm-batch --backend cpu --in-flight 1 --report r.json - < {files[3]}"]]
    files = [a, b, "l_ok.tsv"]
    for options in (["--report", a], ["--report", "l_ok.tsv"], ["--log", a], ["--shard", "3/2"], ["--timeout", "0"], ["--check", "x"], ["--check", "content"]):
        yield files, [["spmm-batch", "--backend", "cpu", *options, "l_ok.tsv"]]
    yield files, [["spmm-batch", "missing.tsv"], ["spmm-batch", "."], ["spmm-batch"]]
    suite = {"suites": {"T": [{"name": "T1", "n": 512, "m": 4, "k": 500}, {"name": "T2", "n": 512, "m": 1, "k": 900, "pattern": "banded", "bandwidth": 5}]}}
    files = [inputs.written("s.json", json.dumps(suite).encode())]
    run = ["spmm-bench", "--suites", "s.json", "--backend", "cpu", "--runs", "1", "--work", "w"]
    yield files, [[*run, "--list"], [*run, "--suite", "T", "--kernel", "all", "--json", "r.json", "--e2e"],
                  [*run, "--case", "T1", "--max-seconds", "5", "--json", "q.json"], ["spmm-bench", "--diff", "r.json", "r.json", "--tolerance", "1000"],
                  [*run, "--case", "T3"], ["spmm-bench", "--suites", "no.json", "--list"]]
    dense = ["spmm-dense", "--shape", "7x5x3", "--kernel", "host-naive", "--runs", "1"]
    for kind in ("i32", "f32", "u16"):
        yield [], [[*dense, "--type", kind, "--json", "r.json"], ["spmm-dense", "--list"]]


class Runner:
    def __init__(self, bins, inputs, folder):
        self.bins, self.inputs, self.folder = bins, inputs, folder
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith(("SPMM_", "SLURM_", "PBS_", "LSB_"))}

    def run(self, files, commands, which):
        """Per command (exit code, output, messages), and the files that lie there at the end."""
        place, names = self.folder / "run", self.bins[which]
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        for name in files:
            shutil.copy(self.inputs.folder / name, place / name)
        results = []
        for command in commands:
            variables = dict(word.split("=", 1) for word in command if re.match(r"SPMM_\w+=", word))
            words = [word for word in command if not re.match(r"SPMM_\w+=", word)]
            words = [str(names / word) if re.fullmatch(r"spmm(-\w+)?", word) else word.replace("BIN/", f"{names}/") for word in words]
            try:
                done = subprocess.run(words, cwd=place, env={**self.environment, **variables}, stdin=subprocess.DEVNULL, capture_output=True,
                                      timeout=60, check=False)
                result = done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
            except subprocess.TimeoutExpired:
                result = "no end", "", ""
            results.append(result)
        tree = {str(p.relative_to(place)): p.read_bytes() for p in sorted(place.rglob("*")) if p.is_file() and ".tsv.log" not in str(p)}
        return results, tree


def json_of(text):
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def json_differences(old, new, at=""):
    if isinstance(old, dict) and isinstance(new, dict):
        for key in old.keys() | new.keys():
            place = f"{at}.{key}"
            if key not in new or key not in old:
                yield "JSON keys", f"{'gone' if key in old else 'new'}: {place}"
            elif not VOLATILE.fullmatch(key) or isinstance(old[key], (dict, list)) and key != "command":
                yield from json_differences(old[key], new[key], place)
            elif type(old[key]) is not type(new[key]):
                yield "JSON types", f"{place}: {type(old[key]).__name__}, {type(new[key]).__name__}"
    elif isinstance(old, list) and isinstance(new, list):
        if len(old) != len(new):
            yield "JSON values", f"{at}: {len(old)}, {len(new)} elements"
        for left, right in zip(old, new):
            yield from json_differences(left, right, at + "[]")
    elif old != new and not isinstance(old, float):
        yield "JSON values", f"{at}: {old!r}, {new!r}"


def differences(commands, old, new):
    """(kind, text, command) of each difference of a case."""
    for command, left, right in zip(commands, old[0], new[0]):
        program = next((word for word in command if re.fullmatch(r"spmm(-\w+)?", word)), command[0])
        if left[0] != right[0]:
            yield "exit codes", f"{program}: {left[0]}, {right[0]}; says {(right[2] or left[2]).strip()[-300:]}", command
        if json_of(left[1]) is not None and json_of(right[1]) is not None:
            for kind, text in json_differences(json_of(left[1]), json_of(right[1])):
                yield kind, f"{program}: {text}", command
    for name in old[1].keys() | new[1].keys():
        left, right = old[1].get(name), new[1].get(name)
        if left is None or right is None:
            yield "files", f"{'only old' if right is None else 'only new'}: {name}", commands
        elif left != right and json_of(left) is not None and json_of(right) is not None:
            if name != "t.json":  # a trace
                yield from ((kind, f"{name} of {commands[0][0]}: {text}", commands) for kind, text in json_differences(json_of(left), json_of(right)))
        elif left != right and name != "log.txt":
            yield "BYTES", name, commands


def options_of(names, name):
    text = ""
    for words in (["--help", "all"], ["--help"]):  # programs of before know the second alone
        text = text or subprocess.run([names / name, *words], capture_output=True, check=False, text=True).stdout
    return set(re.findall(r"^ {1,8}(?:-\w, )? *(--[a-z][a-z0-9-]+)", text, re.M)), text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=pathlib.Path)
    parser.add_argument("new", type=pathlib.Path)
    parser.add_argument("--only", default="", help="only commands that contain this text")
    arguments = parser.parse_args()
    bins = [arguments.old.resolve(), arguments.new.resolve()]
    names = [{p.name for p in folder.glob("spmm*") if os.access(p, os.X_OK)} for folder in bins]
    if "spmm" not in names[0] & names[1] or "spmm-gen" not in names[0]:
        sys.exit("compare_programs.py: spmm or spmm-gen is missing in a folder: give two folders of programs")
    found = collections.defaultdict(list)
    for name in names[0] ^ names[1]:
        found["programs", f"{'gone' if name in names[0] else 'new'}: {name}"].append([name])
    both = sorted(names[0] & names[1])
    for name in both:
        left, right = options_of(bins[0], name)[0], options_of(bins[1], name)[0]
        for option in sorted(left ^ right):
            found["options", f"{name}: {'gone' if option in left else 'new'}: {option}"].append([name, "--help"])
    kernels = re.findall(r"^  ([a-z-]+) +cpu:", options_of(bins[0], "spmm")[1], re.M)
    cases = 0
    with tempfile.TemporaryDirectory(prefix="compare-") as folder:
        (pathlib.Path(folder) / "in").mkdir()
        inputs = Inputs(bins[0], pathlib.Path(folder) / "in")
        runner = Runner(bins, inputs, pathlib.Path(folder))
        for make in (file_cases(inputs), list_cases(inputs), product_cases(inputs, kernels)):
            for files, commands in make:
                if arguments.only not in str(commands) or any(re.fullmatch(r"spmm(-\w+)?", w) and w not in both for c in commands for w in c):
                    continue
                cases += 1
                for kind, text, command in differences(commands, runner.run(files, commands, 0), runner.run(files, commands, 1)):
                    found[kind, text].append(command)
    counts = collections.Counter()
    for (kind, text), commands in sorted(found.items()):
        counts[kind] += 1
        command = commands[0] if isinstance(commands[0][0], list) else [commands[0]]
        print(f"{kind} ({len(commands)}): {text}\n    $ " + " && ".join(" ".join(c) for c in command))
    print(f"{cases} cases; differences: " + (", ".join(f"{kind} {count}" for kind, count in sorted(counts.items())) or "none"))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
