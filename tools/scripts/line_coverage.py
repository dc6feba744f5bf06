#!/usr/bin/env python3
"""Prints which lines of src, without the CUDA backend, the tests of a build with gcov have run.

usage: python3 tools/scripts/line_coverage.py BUILD [--below PERCENT] [--lines]
"""
import argparse
import collections
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
LEFT_OUT = ("src/cuda/",)


def fail(message):
    sys.exit(f"line_coverage.py: error: {message}")


def gcov_documents(build):
    """What gcov says about each object file that has run."""
    counts = sorted(build.rglob("*.gcda"))
    if not counts:
        fail(f"{build}: no counts (*.gcda); configure with the preset coverage and run tests")
    for path in counts:
        answer = subprocess.run(["gcov", "--json-format", "--stdout", str(path.resolve())], cwd=build, capture_output=True,
                                text=True, check=False)
        if answer.returncode != 0:
            fail(f"{path}: gcov: {answer.stderr.strip()}; build and run the tests again")
        for line in answer.stdout.splitlines():
            if line.strip():
                yield json.loads(line)


def read_lines(build):
    """File -> line -> how often it ran, over all object files."""
    files = collections.defaultdict(lambda: collections.defaultdict(int))
    for document in gcov_documents(build):
        folder = pathlib.Path(document["current_working_directory"])
        for one in document["files"]:
            path = (folder / one["file"]).resolve()
            if not path.is_relative_to(ROOT):
                continue
            name = path.relative_to(ROOT).as_posix()
            if not name.startswith("src/") or name.startswith(LEFT_OUT):
                continue
            for line in one["lines"]:
                files[name][line["line_number"]] += line["count"]
    return files


def runs_of(numbers):
    """"3-5, 9" of [3, 4, 5, 9]."""
    runs = []
    for number in numbers:
        if runs and runs[-1][1] + 1 == number:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def main():
    parser = argparse.ArgumentParser(description="Line coverage of src without CUDA, from the counts of gcov.")
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--below", type=float, default=90, metavar="PERCENT", help="list files with less (90)")
    parser.add_argument("--lines", action="store_true", help="with the lines that did not run")
    arguments = parser.parse_args()
    files = read_lines(arguments.build)
    total = sum(len(lines) for lines in files.values())
    ran = sum(count > 0 for lines in files.values() for count in lines.values())
    listed = []
    for name, lines in sorted(files.items()):
        missed = sorted(number for number, count in lines.items() if count == 0)
        share = 100 * (1 - len(missed) / len(lines))
        if share < arguments.below:
            listed.append((share, name, missed, len(lines)))
    for share, name, missed, num_lines in sorted(listed):
        print(f"{share:5.1f} %  {num_lines - len(missed):4} of {num_lines:4}  {name}" +
              (f": {runs_of(missed)}" if arguments.lines else ""))
    if total == 0:
        fail(f"{arguments.build}: no line of src has run; build the library with the preset coverage")
    print(f"{100 * ran / total:.1f} % of {total} lines in {len(files)} files of src without CUDA; "
          f"{len(listed)} files below {arguments.below:g} %")


if __name__ == "__main__":
    main()
