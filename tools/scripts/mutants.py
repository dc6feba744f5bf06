#!/usr/bin/env python3
"""Applies the mutations of tests/mutants/mutants.tsv one by one and says which the tests notice.

mutants.py [--work DIR] [--only REGEX] [--jobs N] [--gpu]   runs them in a copy of the tree; restartable
mutants.py --build-only DIR [the same options]              leaves their programs in DIR, for another machine
mutants.py --run-built DIR [--only REGEX] [--at-once N]     runs those of DIR; needs neither a compiler nor the tree
mutants.py --check [--most N]                               only looks for the texts; exit 1 where more than N are gone

The table has a line for each: id, file, exact text (once in the file; {NL} stands for a new line), replacement, tests
(programs of build/tests, or fuzz_replay, with spaces between). "gpu_tests:a_test,b_test~every*" runs the cases of
a_test.cpp, and those of b_test.cpp whose names do not begin with "every". Ids that begin with gpu- need a GPU (--gpu).
Answers, also in WORK/results.tsv: killed (by a test or a time-out), survived, does-not-build (say it otherwise),
not-applicable. What is there already is not run again; remove a line to repeat it.
"""
import argparse
import concurrent.futures
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


def run_test(folder, test, corpus, seconds):
    """A test whose programs lie in the folder. None: passed; else how it ended."""
    program, _, files = test.partition(":")
    if program == "fuzz_replay":
        command = [folder / "fuzz" / program, corpus]
    else:
        command = [folder / program, "--abort"]
    if files:
        chosen = (file.partition("~") for file in files.split(","))
        command += ["-#", ",".join(f"[#{file}]{tilde}{left_out}" for file, tilde, left_out in chosen)]
    try:
        run = subprocess.run(command, cwd=folder, timeout=seconds, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return "time-out"
    return None if run.returncode == 0 else test


def programs_of(tests):
    return sorted({test.partition(":")[0] for test in tests})


class Copy:
    """A copy of the tree with its own build."""

    def __init__(self, options):
        self.tree = options.work.resolve() / "tree"
        self.build = self.tree / "build-cpu"
        self.jobs = options.jobs
        self.seconds = {}  # of a test without a mutation
        files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
        for file in filter(None, files.split("\0")):
            source, target = ROOT / file, self.tree / file
            if not source.is_file() or (target.is_file() and target.read_bytes() == source.read_bytes()):
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
        defined = ["CMAKE_BUILD_TYPE=Release", "SPMM_UNITY=OFF", f"SPMM_CUDA={'ON' if options.gpu else 'OFF'}"]
        if shutil.which("ccache"):
            defined += [f"CMAKE_{language}_COMPILER_LAUNCHER=ccache" for language in ("CXX", "CUDA")[:1 + options.gpu]]
        if shutil.which("ld.lld"):
            defined += ["CMAKE_EXE_LINKER_FLAGS=-fuse-ld=lld"]
        command = ["cmake", "-S", self.tree, "-B", self.build, *(["-G", "Ninja"] if shutil.which("ninja") else [])]
        command += [word for one in defined + options.define for word in ("-D", one)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    def make(self, tests):
        command = ["cmake", "--build", self.build, "-j", str(self.jobs), "--target", *programs_of(tests)]
        return subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0

    def run(self, test, seconds):
        return run_test(self.build / "tests", test, self.tree / "tests" / "fuzz" / "corpus", seconds)

    def limit(self, test):
        if test not in self.seconds:
            if not self.make([test]):
                sys.exit(f"{test} does not build without a mutation")
            start = time.monotonic()
            if self.run(test, 1800) is not None:
                sys.exit(f"{test} fails without a mutation")
            self.seconds[test] = time.monotonic() - start
        return BASE_SECONDS + 10 * self.seconds[test]

    def with_mutation(self, file, text, other, tests, judge):
        """What judge says of the tests that were built with it."""
        path = self.tree / file
        original = path.read_text()
        path.write_text(original.replace(text, other))
        try:
            return judge() if self.make(tests) else ("does-not-build", "-")
        finally:
            path.write_text(original)

    def judge(self, file, text, other, tests):
        limits = {test: self.limit(test) for test in tests}

        def run_all():
            ends = ((test, self.run(test, limits[test])) for test in tests)
            return next((("killed", end) for _, end in ends if end is not None), ("survived", "-"))

        return self.with_mutation(file, text, other, tests, run_all)

    def leave(self, tests, folder):
        """Copies built programs, without what only debuggers read."""
        folder.mkdir(parents=True, exist_ok=True)
        for program in programs_of(tests):
            subprocess.run(["strip", "-o", folder / program, self.build / "tests" / program], check=True)
        return "built", "-"


def build_only(options):
    """DIR/NAME holds the programs with a mutation, DIR/none those without, DIR/list.tsv says what runs. Adds to DIR."""
    target = options.build_only.resolve()
    todo = [row for row in mutations() if re.search(options.only, row[0]) and row[0].startswith("gpu-") == options.gpu]
    listed = target / "list.tsv"
    copy = Copy(options)
    every_test = sorted({test for *_, tests in todo for test in tests})
    if any(test == "fuzz_replay" for test in every_test):
        sys.exit("fuzz_replay needs its corpus: run it in the tree")
    if not copy.make(every_test):
        sys.exit("the tests do not build without a mutation")
    copy.leave(every_test, target / "none")
    known = dict(line.split("\t", 1) for line in listed.read_text().splitlines()) if listed.exists() else {}
    for name, file, text, other, tests in todo:
        status = "not-applicable"
        if applies(copy.tree, file, text):
            status, _ = copy.with_mutation(file, text, other, tests, lambda: copy.leave(tests, target / name))
        print(f"{name}: {status}", flush=True)
        known[name] = f"{status}\t{' '.join(tests)}"
        listed.write_text("".join(f"{one}\t{rest}\n" for one, rest in known.items()))


def run_built(options):
    folder = options.run_built.resolve()
    rows = [line.split("\t") for line in (folder / "list.tsv").read_text().splitlines()]
    rows = [(name, status, tests.split()) for name, status, tests in rows if re.search(options.only, name)]
    limits = {}

    def time_alone(test):
        start = time.monotonic()
        end = run_test(folder / "none", test, None, 1800)
        took = time.monotonic() - start
        if end is None:
            limits[test] = options.seconds + 3 * took
        print(f"{test} without a mutation: {'passed' if end is None else 'FAILED'}, {took:.1f} s", flush=True)

    def judge(row):
        name, status, tests = row
        start, by = time.monotonic(), "-"
        if status == "built" and not all(test in limits for test in tests):
            status = "fails-without"
        elif status == "built":
            ends = (run_test(folder / name, test, None, limits[test]) for test in tests)
            by = next((end for end in ends if end is not None), "-")
            status = "survived" if by == "-" else "killed"
        print(f"{name}: {status} ({by}), {time.monotonic() - start:.1f} s", flush=True)
        return name, status

    with concurrent.futures.ThreadPoolExecutor(options.at_once) as pool:
        every_test = sorted({test for _, status, tests in rows if status == "built" for test in tests})
        if options.trust:
            limits.update({test: options.seconds for test in every_test})
        else:
            list(pool.map(time_alone, every_test))
        tell(dict(pool.map(judge, rows)))
    if len(limits) < len(every_test):
        sys.exit("tests fail without a mutation")


def tell(found):
    for status in ("killed", "survived", "does-not-build", "not-applicable", "fails-without"):
        names = [name for name, one in found.items() if one == status]
        if status == "fails-without" and not names:
            continue
        print(f"{status}: {len(names)}" + (f" ({' '.join(names)})" if status != "killed" and names else ""))


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
            copy = copy or Copy(options)
            status, by = copy.judge(file, text, other, tests)
        else:
            status, by = "not-applicable", "-"
        done[name] = status
        with results.open("a") as out:
            out.write(f"{name}\t{status}\t{by}\t{time.monotonic() - start:.0f}\n")
        print(f"{name}: {status} ({by})", flush=True)
    tell({name: status for name, status in done.items() if re.search(options.only, name)})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="only look for the texts")
    parser.add_argument("--most", type=int, default=40, help="--check: so many may be gone (default: 40)")
    parser.add_argument("--work", type=Path, default=ROOT / "build-mutants", help="copy and results (default: build-mutants)")
    parser.add_argument("--only", default="", help="ids that match this regular expression")
    parser.add_argument("--jobs", type=int, default=2, help="of the build (default: 2)")
    parser.add_argument("--gpu", action="store_true", help="those of the kernels")
    parser.add_argument("--define", action="append", default=[], metavar="NAME=VALUE", help="of the build, for CMake")
    parser.add_argument("--build-only", type=Path, metavar="DIR", help="leave the programs there and run nothing")
    parser.add_argument("--run-built", type=Path, metavar="DIR", help="run what --build-only left there")
    parser.add_argument("--at-once", type=int, default=1, help="--run-built: so many mutations at a time (default: 1; a "
                        "GPU that several processes share takes many times as long for small products)")
    parser.add_argument("--trust", action="store_true", help="--run-built: the tests pass without a mutation; each may "
                        "take --seconds")
    parser.add_argument("--seconds", type=float, default=BASE_SECONDS, help="--run-built: allowance of a test on top of "
                        f"three times what it takes without a mutation (default: {BASE_SECONDS})")
    options = parser.parse_args()
    if options.check:
        check(options.most)
    elif options.build_only:
        build_only(options)
    elif options.run_built:
        run_built(options)
    else:
        run(options)


main()
