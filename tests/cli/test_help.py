"""What every program says about itself: help, version, suggestions; completions and manual pages made of the help."""
import os
import re
import shlex

from programs import BIN, OK, SOURCE, USAGE, Place, has_program, run, write

PROGRAMS = ["spmm", "spmm-gen", "spmm-compare", "spmm-cat", "spmm-info", "spmm-convert", "spmm-bench", "spmm-dense", "spmm-batch", "spmm-verify"]
WITH_RANKS = PROGRAMS + ["spmm-mpi"] * (BIN / "spmm-mpi").exists()  # which needs a launcher
COMPLETIONS = SOURCE / "tools/completions"


class Help(Place):
    def test_every_program_has_help_and_version_and_says_what_a_misspelt_option_may_mean(self):
        for program in PROGRAMS:
            with self.subTest(program):
                self.assertTrue(self.expect(OK, run(program, "--version")).out.startswith("spmm "))
                self.expect(OK, run(program, "--help"), "--version")
                self.expect(USAGE, run(program, "--versoin"), "did you mean --version?")
                self.expect(USAGE, run(program, "-version"), "did you mean --version?")
                for line in self.expect(OK, run(program, "--help", "all")).out.splitlines():
                    self.assertLessEqual(len(line), 125, line)
                    self.assertFalse(line.endswith(" "), line)

    def test_the_first_help_is_short_and_names_the_rest(self):
        first = run("spmm", "--help").out
        self.assertLessEqual(first.count("\n"), 45)
        self.assertIn("spmm --help all", first)
        self.assertNotIn("--kernel", first)
        whole = self.expect(OK, run("spmm", "--help", "all"), "--kernel", "--verify-seed", "--trace", "--backend").out
        self.assertLess(whole.index("\nExamples:\n"), whole.index("\nKernels:\n"))

    def test_a_subcommand_of_spmm_is_the_program_of_that_name(self):
        listed = self.expect(OK, run("spmm", "help"), "spmm --help all").out
        self.assertEqual(run("spmm", "--help").out, listed)
        for program in WITH_RANKS[1:]:
            word, is_part = program[5:], (BIN / program).is_symlink()
            with self.subTest(program):
                self.assertEqual(is_part, program not in ("spmm-dense", "spmm-mpi"))
                self.assertEqual(f"\n  {word} " in listed, is_part)
                if is_part:
                    text = self.expect(OK, run(program, "--help"), f"\nUsage: {program} ", f"\n   or: spmm {word} ").out
                    self.assertEqual([run("spmm", word, "--help").out, run("spmm", "help", word).out], [text, text])
                    self.assertEqual(run("spmm", word, "--versoin").err, run(program, "--versoin").err)
        self.expect(USAGE, run("spmm", "help", "gne"), "did you mean gen?")
        self.expect(USAGE, run("spmm", "help", "gen", "info"))

    def test_names_of_programs_and_of_files(self):
        sizes = ["--n", 64, "--m", 4, "--k", 9, "-q"]
        self.expect(OK, run("spmm", "gen", "x.bin", *sizes))
        os.mkdir("spmm-info")  # a name that is none of ours acts as spmm; so does one with a folder that has such a name
        os.symlink(BIN / "spmm", "spmm-info/multiply")
        self.expect(OK, run(os.path.abspath("spmm-info/multiply"), "gen", "y.bin", *sizes))
        self.expect(OK, run("spmm-compare", "--any-order", "x.bin", "y.bin"))
        self.expect(USAGE, run("spmm", "compare", "--any-order", "x.bin", "nowhere.bin"))
        os.rename("x.bin", "info")  # a file of a subcommand's name
        self.expect(USAGE, run("spmm", "info", "y.bin", "c.bin", "-q"), "./info")
        self.expect(OK, run("spmm", "./info", "y.bin", "c.bin", "-q", "--backend", "cpu"))
        self.expect(OK, run("spmm-info", "info"))

    def test_variables_that_were_options_are_named_in_a_warning(self):
        warned = self.expect(OK, run("spmm", "--version", env={"SPMM_KERNEL": "x", "SPMM_THREADS": "3", "SPMM_MPI": "y"}))
        self.assertEqual(warned.err.count("\n"), 1)
        self.assertIn("SPMM_KERNEL has no effect, give --kernel", warned.err)

    def test_manual_pages_of_help2man_have_no_error_for_mandoc(self):
        if not has_program("help2man") or not has_program("mandoc"):
            self.skipTest("help2man or mandoc is missing")
        for program in PROGRAMS:
            with self.subTest(program):
                self.expect(OK, run("/usr/bin/env", "help2man", "--no-info", "--name=name", "--version-string=spmm", f"--output={program}.1",
                                    BIN / program))
                with open(f"{program}.1", encoding="utf-8") as page:
                    text = page.read()
                for part in ("\n.SH NAME\n", "\n.SH SYNOPSIS\n.B ", "\\fB\\-\\-help\\fR"):
                    self.assertIn(part, text)
                self.expect(OK, run("/usr/bin/env", "mandoc", "-T", "lint", "-W", "error", f"{program}.1"))


class Completions(Place):
    CASES = [  # a line of which the last word is being typed, what is proposed by bash and fish
        ("spmm --backend c", {"cuda", "cpu"}), ("spmm --backe", {"--backend"}), ("spmm help ver", {"verify"}),
        ("spmm gen --patt", {"--pattern"}), ("spmm-gen --patt", {"--pattern"}), ("spmm gen gen", {"gene.bin"})]

    def setUp(self):
        super().setUp()
        write("gene.bin", "x")

    def bash(self, *words):
        words = [str(BIN / words[0]), *words[1:]]
        code = (f"source {COMPLETIONS}/spmm.bash; COMP_WORDS=({shlex.join(words)}); COMP_CWORD={len(words) - 1}; "
                "_spmm \"${COMP_WORDS[0]}\"; printf '%s\\n' \"${COMPREPLY[@]}\"")
        result = run("/usr/bin/env", "bash", "-c", code)
        self.assertEqual(result.err, "")
        return result.out.splitlines()

    def test_every_program_is_named(self):
        for program in WITH_RANKS:
            word = program.removeprefix("spmm-")
            for name in ("spmm.bash", "spmm.fish"):
                text = (COMPLETIONS / name).read_text(encoding="utf-8")
                self.assertRegex(text[text.rindex("spmm spmm-{"):], rf"\b{re.escape(word)}\b")
            self.assertIn(program, (COMPLETIONS / "_spmm").read_text(encoding="utf-8").splitlines()[0].split())

    def test_bash(self):
        for line, words in self.CASES:
            self.assertEqual(set(self.bash(*line.split())), words, line)
        for program in PROGRAMS:
            self.assertEqual(self.bash(program, "--versi"), ["--version"])
            self.assertIn(self.bash(program, "nothing"), ([], [""]))
        write("two words.bin", "x")
        for words, proposed in [
                (["--backend", "="], ["auto", "cuda", "cpu"]), (["--backend", "=", "cp"], ["cpu"]), (["--kernel", "row-m"], ["row-merge"]),
                (["--verify", "f"], ["full"]), (["--ver"], ["--verify", "--verify-seed", "--verbose", "--version"]), (["inf"], ["info"]),
                (["gen"], ["gen", "gene.bin"]), (["--report", "gen"], ["gene.bin"]), (["two"], ["two words.bin"]), (["a.bin", "--bandw"], [""])]:
            self.assertEqual(sorted(self.bash("spmm", *words)), sorted(proposed), words)

    def test_fish(self):
        if not has_program("fish"):
            self.skipTest("fish is missing")
        for line, words in [*self.CASES, ("spmm gen", {"gen", "gene.bin"})]:
            result = run("/usr/bin/env", "fish", "--no-config", "-c", f"source {COMPLETIONS}/spmm.fish; complete -C '{line}'",
                         env={"HOME": os.getcwd(), "PATH": f"{BIN}:{os.environ['PATH']}"})
            self.assertEqual(({proposal.split("\t")[0] for proposal in result.out.splitlines()}, result.err), (words, ""), line)

    def test_zsh(self):
        if not has_program("zsh"):
            self.skipTest("zsh is missing")
        for line, parts in [("spmm ge", ["words:\ngen\ninfo\n", "\nfiles\n"]), ("spmm help ge", ["words:\ngen\ninfo\n"]),
                            ("spmm gen --bandw", ["\n--bandwidth["]), ("spmm-gen --bandw", ["\n--bandwidth["]),
                            ("spmm a.bin --ba", ["options:\n-s\n--", ":auto|cuda|cpu:(auto cuda cpu)\n", "\n--quiet[no summary line",
                                                 "\n--report[write a JSON report; - = standard output]:FILE:_files\n"])]:
            # Stubs of zsh's own functions print what they are called with.
            code = ("_describe() { print -l \"words:\" ${(P)2%%:*} }; _files() { print files }; _arguments() { print -l options: $@ }; "
                    f"words=({BIN}/{line}); CURRENT={len(line.split())}; source {COMPLETIONS}/_spmm")
            result = self.expect(OK, run("/usr/bin/env", "zsh", "-fc", code), *parts)
            self.assertEqual((result.err, "--bandwidth" in result.out), ("", "gen --" in line))
