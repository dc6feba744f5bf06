#!/usr/bin/env python3
"""Runs the commands of all pages, one after the other, on small files, and looks at their links and sentences.

usage: readme_test.py BIN
BIN is the folder of the programs; the pages are the *.md files below the working folder. Each page has a folder of its own. Every line
of a command block is run here or named in ELSEWHERE with what runs it. The test fails for a line that is neither, for a command that
fails, for a link that leads nowhere, and for a sentence or page that is too long. Programs that this build lacks are left out, and
said.
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
    "bash tools/scripts/": "they build, test and measure; this test is a part of one of them",
    "cmake ": "install_test, consumer_test, demo.sh",
    "ctest ": "this test is a part of it",
    "ninja ": "this build",
    "build/tests/": "ctest",
    "SPMM_TEST_FAULT": "faults_test",
    "./spmm --devices": "tests/gpu/several/devices_test.cpp, on GPUs",
    "mpirun": "mpi_bytes_test: as many ranks as the machine carries",
    "salloc": "slurm_test",
    "sbatch": "slurm_test",
    "squeue": "slurm_test",
    "python3 tools/scripts/cusparse_bench.py": "a GPU: tools/scripts/measure.sh cusparse",
    "build/bin/spmm-bench --suite cpu-limits": "minutes; tests/unit/engine/limits_work_test.cpp counts what is read",
    "python3 tools/scripts/process_times.py": "by hand: tools/scripts/measure.sh processes",
    "python3 tools/scripts/scipy_bench.py": "scipy_bench_test, if SciPy is installed",
    "python3 tools/scripts/tables.py": "tables_test",
    "python3 -m spmm convert": "tests/python/test_convert.py, if NumPy is installed",
    "python3 tools/examples/": "examples_test, if SciPy is installed",
    "pip install": "python_wheel_test",
    "python3 -m venv": "readme_blocks_test",
}
COMMAND = re.compile(r"(\./|build/|bash |cmake |ctest |ninja |mpirun |salloc |sbatch |squeue |python3 |pip |make_jobs|SPMM_\w+=)")
MOST_WORDS = 40  # of a sentence
MOST_MEAN = 18  # words of the sentences of a page
MOST_LINES = {"README.md": 180, "kernels/HISTORY.md": 40, "src/HISTORY.md": 40}
MOST_README = 1700  # words
PROGRAM = re.compile(r"(?:\./|build/bin/)(spmm(?:-[a-z]+)?)\b")


def fail(message):
    sys.exit(f"readme_test.py: {message}")


def command_lines(text):
    """Lines of the blocks without a language that begin like a command; outputs and drawings do not."""
    for language, block in re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        for line in [] if language else block.splitlines():
            if COMMAND.match(line):
                yield re.sub(r"\s+#\s.*$", "", line)


def sentences(text):
    """(number of words, sentence) of paragraphs, items of lists and cells of tables; code is one word."""
    text = re.sub(r"^```.*?^```$|<!-- table: .*?<!-- end -->", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"!?\[([^]]*)\]\([^)]*\)", r"\1", re.sub(r"`[^`]+`", "Code", text))
    for block in re.split(r"\n\s*\n|\||^#+ |^\s*(?:-|\d+\.) ", text, flags=re.MULTILINE):
        for sentence in re.split(r"(?<=[.!?])[\s*)]+(?=[^a-z0-9,])", block):
            yield len(re.findall(r"\w\S*", sentence)), " ".join(sentence.split())


def check_sentences(pages):
    for page in pages:
        found = [pair for pair in sentences(page.read_text(encoding="utf-8")) if pair[0] > 3]  # shorter ones are names and figures
        for words, sentence in found:
            if words > MOST_WORDS:
                fail(f"{page}: {words} words, more than {MOST_WORDS}: {sentence}")
        if sum(words for words, _ in found) > MOST_MEAN * len(found):
            fail(f"{page}: its sentences have more than {MOST_MEAN} words in the mean")


def check_lengths():
    for page, most in MOST_LINES.items():
        lines = len(pathlib.Path(page).read_text(encoding="utf-8").splitlines())
        if lines > most:
            fail(f"{page}: {lines} lines, more than {most}")
    words = len(pathlib.Path("README.md").read_text(encoding="utf-8").split())
    if words > MOST_README:
        fail(f"README.md: {words} words, more than {MOST_README}")


def anchors(page):
    heads = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads}


def check_links(pages):
    for page in pages:
        for target, anchor in re.findall(r"\]\(([^)#:]*)#?([^):]*)\)", page.read_text(encoding="utf-8")):
            there = page.parent / target if target else page
            if not there.exists() or (anchor and anchor not in anchors(there)):
                fail(f"{page}: {target}#{anchor} leads nowhere")


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
    if len(sys.argv) != 2:
        fail("usage: readme_test.py BIN")
    programs = pathlib.Path(sys.argv[1]).resolve()
    pages = sorted(page for page in pathlib.Path().rglob("*.md") if not page.parts[0].startswith(("build", ".")))
    check_sentences(pages)
    check_lengths()
    check_links(pages)
    counts = {str(page): run_page(page, programs) for page in pages}
    if counts["README.md"] < 8:
        fail(f"only {counts['README.md']} commands were found in README.md")
    print(f"{sum(counts.values())} commands of {len(pages)} pages ran")


main()
