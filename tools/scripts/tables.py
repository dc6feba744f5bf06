#!/usr/bin/env python3
"""Writes the published tables from the measurements in data/measurements/, or checks that they are the same.

usage: python3 tools/scripts/tables.py            write every table of every *.md file
       python3 tools/scripts/tables.py --check    exit code 1 where a table and its measurements differ

In a document a table stands between two lines of their own, <!-- table: NAME --> and <!-- end -->. What a table holds is
said in published_tables.py. tools/scripts/measure.sh makes the measurements.
"""
import argparse
import difflib
import os
import pathlib
import re
import sys
import textwrap

sys.dont_write_bytecode = True  # the folder of the scripts stays as it is
from published_tables import TABLES, Measurements, Problem, devices_of  # noqa: E402

OPEN = re.compile(r"<!-- table: ([a-z0-9-]+) -->$")
CLOSE = "<!-- end -->"
LINE_CHARS = 130


# ---- where a table comes from


def source_lines(files, data, document):
    """The files of a table, each with its device and day; the table "sources" has the rest."""
    links = []
    for file in files:
        name, _, part = file.partition(":")
        found = data.file(name)
        words = "measured elsewhere" if part else f"{devices_of(found) or 'CPU'}, {found['date'][:10]}"
        links.append(f"[{name}]({os.path.relpath(data.folder / f'{name}.json', document.parent)}) ({words})")
    text = "Measured: " + ", ".join(links) if links else ""
    return textwrap.wrap(text, LINE_CHARS, break_long_words=False, break_on_hyphens=False)


# ---- documents


def table_text(name, data, document):
    """The lines between the markers."""
    wanted = TABLES[name]
    head, rows = wanted.make(data)
    lines = ["| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows]]
    files = [file.rstrip("?") for file in wanted.files if not file.endswith("?") or data.has(file[:-1])]
    sources = source_lines(files, data, document)
    return ["", *lines, "", *sources, ""] if sources else ["", *lines, ""]


def rewritten(document, data):
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
    stale = 0
    for document in documents(arguments.root):
        text, different = rewritten(document, data)
        stale += len(different)
        if arguments.check:
            for name, diff in different:
                print("\n".join([f"{document}: table {name} differs from its measurements", *diff]))
        elif different:
            document.write_text(text)
            print(f"{document}: {', '.join(name for name, _ in different)}")
    if stale and arguments.check:
        print("tables.py: error: write the tables with: python3 tools/scripts/tables.py", file=sys.stderr)
        return 1
    return 0


def main():
    parser = argparse.ArgumentParser(description="Writes the published tables from data/measurements/*.json.")
    parser.add_argument("--check", action="store_true", help="write nothing, fail where a table differs")
    arguments = parser.parse_args()
    arguments.root = pathlib.Path(__file__).resolve().parents[2]
    try:
        sys.exit(run(arguments))
    except Problem as problem:
        sys.exit(f"tables.py: error: {problem}")


if __name__ == "__main__":
    main()
