#!/usr/bin/env python3
"""Applies the mutations of tests/mutants/mutants.tsv one by one and says which the tests notice.

mutants.py [--work DIR] [--only REGEX] [--jobs N] [--gpu]   runs them in a copy of the tree; restartable
mutants.py --check [--most N]                               only looks for the texts; exit 1 where more than N are gone

The table has a line for each: id, file, exact text (once in the file; {NL} stands for a new line), replacement, tests
(programs of build/tests, or fuzz_replay, with spaces between). Ids that begin with gpu- need a GPU (--gpu).
Answers, also in WORK/results.tsv: killed (by a test or a time-out), survived, does-not-build (say it otherwise),
not-applicable. What is there already is not run again; remove a line to repeat it.
"""
import argparse
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "tests" / "mutants" / "mutants.tsv"
BASE_SECONDS = 60  # allowance of a test on top of ten times what it takes without a mutation


def mutations():
    for number, line in enumerate(TABLE.read_text().splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        fields = line.split("\t")
        if len(fields) != 5:
            sys.exit(f"{TABLE}:{number}: {len(fields)} columns, expected 5")
        name, file, text, other, tests = fields
        yield name, file, text.replace("{NL}", "\n"), other.replace("{NL}", "\n"), tests.split()


def applies(root, file, text):
    path = root / file
    return path.is_file() and path.read_text().count(text) == 1


def check(most):
    rows = list(mutations())
    names = [row[0] for row in rows]
    twice = sorted({name for name in names if names.count(name) > 1})
    gone = [(name, file) for name, file, text, _, _ in rows if not applies(ROOT, file, text)]
    for name, file in gone:
        print(f"{name}: not applicable: its text is not exactly once in {file}")
    print(f"{len(rows)} mutations, {len(gone)} not applicable")
    if twice:
        sys.exit(f"ids are there twice: {', '.join(twice)}")
    if len(gone) > most:
        sys.exit(f"more than {most} are not applicable: adapt tests/mutants/mutants.tsv to the code")


class Copy:
    """A copy of the tree with a build of its own."""

    def __init__(self, work, jobs, gpu):
        self.tree = work / "tree"
        self.build = self.tree / "build-cpu"
        self.jobs = jobs
        self.seconds = {}  # of a test without a mutation
        files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
        for file in filter(None, files.split("\0")):
            source, target = ROOT / file, self.tree / file
            if not source.is_file() or (target.is_file() and target.read_bytes() == source.read_bytes()):
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
        options = ["-D", "CMAKE_BUILD_TYPE=Release", "-D", f"SPMM_CUDA={'ON' if gpu else 'OFF'}"]
        if shutil.which("ninja"):
            options += ["-G", "Ninja"]
        if shutil.which("ccache"):
            options += ["-D", "CMAKE_CXX_COMPILER_LAUNCHER=ccache"]
        if shutil.which("ld.lld"):
            options += ["-D", "CMAKE_EXE_LINKER_FLAGS=-fuse-ld=lld"]
        command = ["cmake", "-S", self.tree, "-B", self.build, *options]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    def make(self, tests):
        command = ["cmake", "--build", self.build, "-j", str(self.jobs), "--target", *tests]
        return subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0

    def run(self, test, seconds):
        """None: passed; else how it ended."""
        if test == "fuzz_replay":
            command = [self.build / "tests" / "fuzz" / test, self.tree / "tests" / "fuzz" / "corpus"]
        else:
            command = [self.build / "tests" / test, "--abort"]
        try:
            run = subprocess.run(command, cwd=self.build / "tests", timeout=seconds, stdin=subprocess.DEVNULL,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        except subprocess.TimeoutExpired:
            return "time-out"
        return None if run.returncode == 0 else test

    def limit(self, test):
        if test not in self.seconds:
            if not self.make([test]):
                sys.exit(f"{test} does not build without a mutation")
            start = time.monotonic()
            if self.run(test, 1800) is not None:
                sys.exit(f"{test} fails without a mutation")
            self.seconds[test] = time.monotonic() - start
        return BASE_SECONDS + 10 * self.seconds[test]

    def judge(self, file, text, other, tests):
        limits = {test: self.limit(test) for test in tests}
        path = self.tree / file
        original = path.read_text()
        path.write_text(original.replace(text, other))
        try:
            if not self.make(tests):
                return "does-not-build", "-"
            for test in tests:
                end = self.run(test, limits[test])
                if end is not None:
                    return "killed", end
            return "survived", "-"
        finally:
            path.write_text(original)


def run(options):
    work = options.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    results = work / "results.tsv"
    done = dict(line.split("\t")[:2] for line in results.read_text().splitlines()) if results.exists() else {}
    todo = [row for row in mutations() if re.search(options.only, row[0]) and row[0] not in done
            and row[0].startswith("gpu-") == options.gpu]
    copy = None
    for name, file, text, other, tests in todo:
        start = time.monotonic()
        if applies(ROOT, file, text):
            copy = copy or Copy(work, options.jobs, options.gpu)
            status, by = copy.judge(file, text, other, tests)
        else:
            status, by = "not-applicable", "-"
        done[name] = status
        with results.open("a") as out:
            out.write(f"{name}\t{status}\t{by}\t{time.monotonic() - start:.0f}\n")
        print(f"{name}: {status} ({by})", flush=True)
    shown = {name: status for name, status in done.items() if re.search(options.only, name)}
    for status in ("killed", "survived", "does-not-build", "not-applicable"):
        names = [name for name, found in shown.items() if found == status]
        print(f"{status}: {len(names)}" + (f" ({' '.join(names)})" if status != "killed" and names else ""))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="only look for the texts")
    parser.add_argument("--most", type=int, default=40, help="--check: so many may be gone (default: 40)")
    parser.add_argument("--work", type=Path, default=ROOT / "build-mutants", help="copy and results (default: build-mutants)")
    parser.add_argument("--only", default="", help="ids that match this regular expression")
    parser.add_argument("--jobs", type=int, default=2, help="of the build (default: 2)")
    parser.add_argument("--gpu", action="store_true", help="those of the kernels")
    options = parser.parse_args()
    check(options.most) if options.check else run(options)


main()
