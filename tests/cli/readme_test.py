#!/usr/bin/env python3
"""Runs the commands of all pages on small files and looks at their sentences.

usage: readme_test.py BIN
BIN is the folder of the programs; the pages are the *.md files below the current folder. Each page has a folder of its own. Every line of a command block is
run here or named in ELSEWHERE with what runs it. The test fails for a line that is neither, for a command that fails, and for a sentence that is too long.
Programs that this build lacks are left out, and said.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

# Beginning of a line -> what runs it.
ELSEWHERE = {
    "bash tools/scripts/": "they build and test; this test is a part of one of them",
    "cmake --install build": "install_test",
    "cmake --build build --target uninstall": "install_test",
    "./spmm --devices": "tests/gpu/devices_test.cpp, on GPUs",
    "mpirun": "mpi_tests: as many ranks as the machine carries",
    "sbatch": "slurm_test",
    "build/bin/spmm-cusparse": "a GPU: tools/scripts/measure.sh cusparse",
    "build/bin/spmm-bench --calibrate": "a GPU: tools/scripts/measure.sh calibrate",
    "python3 tools/scripts/scipy_bench.py": "scipy_bench_test, where SciPy is installed",
    "python3 -m spmm convert": "tests/python/test_convert.py, where NumPy is installed",
    "python3 tools/scripts/draw_run.py": "tests/unit/tools, where matplotlib is installed",
}
PROGRAM = re.compile(r"(?:\./|build/bin/)(spmm(?:-[a-z]+)?)\b")


def fail(message):
    sys.exit(f"readme_test.py: {message}")


def command_lines(text):
    """Lines of the blocks without a language that begin like a command; outputs and drawings do not."""
    for block in re.findall(r"^```\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        for line in block.splitlines():
            if re.match(r"(\./|build/bin/|bash |cmake |mpirun |sbatch |python3 |make_jobs)", line):
                yield re.sub(r"\s+#\s.*$", "", line)


class Place:
    """A folder like a checkout with a build in it, and the files that the commands name."""

    def __init__(self, folder, programs):
        self.folder, self.programs = folder, programs
        (folder / "build").mkdir()
        (folder / "build" / "bin").symlink_to(programs)
        (folder / "spmm").symlink_to(programs / "spmm")
        jobs = folder / "make_jobs"
        jobs.write_text("#!/bin/sh\nprintf 'a.bin\\tb.bin\\tmade.bin\\n'\n")
        jobs.chmod(0o755)
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("SPMM_")}
        self.environment["PATH"] = f"{folder}:{os.environ['PATH']}"
        self.write_inputs()

    def write_inputs(self):
        for name, seed in (("a", 1), ("b", 2)):
            self.run(f"build/bin/spmm-gen -q --n 320 --m 8 --k 300 --seed {seed} {name}.bin")
        (self.folder / "jobs.tsv").write_text("a.bin\tb.bin\tone.bin\na.bin\ta.bin\ttwo.bin\tverify=full\n")
        header = "%%MatrixMarket matrix coordinate integer general\n"
        (self.folder / "a.mtx").write_text(header + "300 300 3\n1 1 5\n150 7 65535\n300 200 2\n")
        (self.folder / "b.mtx").write_text(header + "300 200 3\n1 1 7\n7 200 9\n200 4 1\n")
        (self.folder / "prices.mtx").write_text("%%MatrixMarket matrix coordinate real general\n1 3 2\n1 1 0.55\n1 3 2.005\n")

    def before(self, line):
        """What a command needs that no command before it has made."""
        if "theirs.bin" in line or "other.bin" in line:
            self.run("./spmm -q a.bin b.bin theirs.bin")
            shutil.copy(self.folder / "theirs.bin", self.folder / "other.bin")

    def run(self, line):
        done = subprocess.run(["sh", "-e", "-c", line], cwd=self.folder, env=self.environment, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, check=False)
        if done.returncode != 0:
            fail(f"`{line}` ended with {done.returncode}:\n{done.stdout}{done.stderr}")


def run_page(page, programs):
    """How many commands of a page ran."""
    count = 0
    with tempfile.TemporaryDirectory(prefix="spmm-readme-") as folder:
        place = Place(pathlib.Path(folder), programs)
        for line in command_lines(page.read_text(encoding="utf-8")):
            if any(line.startswith(beginning) for beginning in ELSEWHERE):
                continue
            program = PROGRAM.search(line)
            if program is None:
                fail(f"{page}: `{line}` is neither run here nor named in ELSEWHERE")
            if not (programs / program[1]).exists():
                print(f"left out, {program[1]} is not built: {line}")
                continue
            place.before(line)
            place.run(line)
            count += 1
    return count


def main():
    if len(sys.argv) < 3:
        fail("usage: readme_test.py PAGE... BIN")
    counts = [run_page(pathlib.Path(page), pathlib.Path(sys.argv[-1]).resolve()) for page in sys.argv[1:-1]]
    if counts[0] < 10:
        fail(f"only {counts[0]} commands were found in {sys.argv[1]}")
    print(f"{sum(counts)} commands of {len(counts)} pages ran")


main()
