"""spmm-bench: cases measured and checked, its JSON, what is skipped, the comparison of two measurements, refusals; measure.sh."""
import json
import os
import pathlib
import shutil

from programs import BAD_DATA, CANNOT_CREATE, NEGATIVE, NO_INPUT, OK, SOURCE, UNAVAILABLE, USAGE, Matrix, Place, bytes_of, parse_report, run, write

SUITES = SOURCE / "data/suites.json"
OWN = """{"suites": {"x": [{"name": "slow", "n": 2048, "m": 8, "k": 40000},
  {"name": "limited", "n": 4096, "m": 8, "k": 50000, "memory_share": 0.9, "compare_with": "slow"}]}}"""


class Bench(Place):
    def bench(self, *words, suites=SUITES):
        return run("spmm-bench", *words, "--suites", suites)

    def measured(self, *words, code=OK):
        """A measurement on the CPU."""
        suites = SUITES if "quick-m8" in words else write("own.json", OWN)
        words += ("--backend", "cpu", "--runs", 2, "--json", "-", "--work", "work")
        return parse_report("bench", self.expect(code, self.bench(*words, suites=suites)).out)

    def check_spread(self, spread):
        self.assertTrue(0 < spread["min"] <= spread["median"] <= spread["max"], spread)

    def test_the_quick_suite_on_the_cpu(self):
        self.expect(OK, self.bench("--suite", "quick", "--backend", "cpu", "--kernel", "all,reference", "--runs", 2, "--json", "q.json", "--work", "work"),
                    "| quick-m8 | row-merge | row-merge |")
        found = parse_report("bench", bytes_of("q.json"))
        self.assertIn(f"(git {found['revision']})", found["version"])
        self.assertGreater(found["machine"]["memory_bytes"], 1e6)
        self.assertEqual((len(found["command"]), len(found["date"]), len(found["cases"])), (15, 20, 5))
        for one in found["cases"]:
            self.assertEqual(one["yardstick"], "row-merge")
            self.assertGreaterEqual(len(one["kernels"]), 3)  # auto, all of this build, reference
            self.assertEqual([one["kernels"][x]["chosen"] for x in (0, -1)], ["row-merge", "reference"])
            for kernel in one["kernels"]:
                self.assertEqual((kernel["status"], kernel["validated"], kernel["stages_ms"]["multiply"]), ("ok", True, kernel["multiply_ms"]))
                for figure in ("device_ms", "multiply_ms", "total_s"):
                    self.check_spread(kernel[figure])
        self.assertEqual(len(os.listdir("work")), 10)  # inputs stay for the next time

    def test_inputs_are_reused_unless_the_header_is_another(self):
        words = ["--case", "quick-m8", "--backend", "cpu", "--runs", 1, "--work", "work"]
        self.expect(OK, self.bench(*words))
        first, second = (pathlib.Path("work") / name for name in sorted(os.listdir("work")))
        self.assertNotEqual(bytes_of(first), bytes_of(second))
        made = Matrix.read(first)
        other = made.changed(lambda blocks: blocks[0][2].__setitem__(0, blocks[0][2][0] ^ 1))
        other.write(first)
        self.expect(OK, self.bench(*words))
        self.assertEqual(Matrix.read(first), other)
        os.truncate(first, 100)
        self.expect(OK, self.bench(*words))
        self.assertEqual(Matrix.read(first), made)

    def test_what_cannot_run_is_refused_and_what_takes_too_long_is_skipped_or_runs_once(self):
        refused = self.measured("--case", "quick-m8", "--kernel", "two-pointer,row-merge")["cases"][0]["kernels"]
        self.assertEqual((refused[0]["status"], refused[1]["validated"]), ("refused", True))
        slow = self.measured("--case", "slow", "--kernel", "reference", "--max-seconds", "1.5", code=UNAVAILABLE)
        self.assertEqual(slow["cases"][0]["kernels"][0]["status"], "skipped")
        fast = self.measured("--case", "quick-m8", "--max-seconds", "1000")["cases"][0]["kernels"][0]["total_s"]
        self.assertLess(fast["min"], fast["max"])

    def test_within_a_memory_limit_results_are_files_which_are_gone_afterwards(self):
        one = self.measured("--case", "limited", "--kernel", "auto,reference")["cases"][0]
        self.assertEqual((one["memory_share"], [kernel["validated"] for kernel in one["kernels"]]), (0.9, [True, True]))
        self.assertEqual(len(os.listdir("work")), 2)  # the operands

    def test_two_measurements_compared(self):
        before = self.measured("--case", "quick-m8")
        kernel = before["cases"][0]["kernels"][0]
        figures = ("multiply_ms", "device_ms", "total_s")
        kernel.update({figure: {"median": 10, "min": 9, "max": 11} for figure in figures})
        write("old.json", json.dumps(before))

        def diff(code, change, *words, said=""):
            after = json.loads(bytes_of("old.json"))
            change(after["cases"][0], after["cases"][0]["kernels"])
            write("new.json", json.dumps(after))
            self.expect(code, run("spmm-bench", "--diff", "old.json", "new.json", *words), said)

        def slower(figure, least):
            return lambda _, kernels: kernels[0].update({figure: {"median": 12, "min": least, "max": 13}})

        diff(OK, lambda *_: None)
        for figure in figures:
            diff(NEGATIVE, slower(figure, 11.5), said="1.200 (10 -> 12) SLOWER")
        diff(OK, slower("total_s", 11.5), "--tolerance", "1.3")
        diff(OK, slower("total_s", 10.5))  # within the spread
        diff(NEGATIVE, lambda _, kernels: kernels[0].update(validated=False))
        diff(NEGATIVE, lambda _, kernels: kernels.__setitem__(0, {"kernel": "auto", "status": "skipped", "reason": "slow"}), said="ok -> skipped")
        diff(USAGE, lambda case, _: case.update(name="another"))
        write("new.json", "{}")
        self.expect(BAD_DATA, run("spmm-bench", "--diff", "old.json", "new.json"))
        self.expect(USAGE, run("spmm-bench", "--diff", "old.json"))
        self.expect(NO_INPUT, run("spmm-bench", "--diff", "old.json", "none.json"))

    def test_refusals(self):
        for line in ("", "--case no-such-case", "--suite no-such-suite", "--case quick-m8,", "--case quick-m8 --kernel fastest",
                     "--case quick-m8 --backend tpu", "--case quick-m8 --runs 0", "--case quick-m8 --max-seconds -1", "--case quick-m8 stray.json",
                     "--no-such-option"):
            self.expect(USAGE, self.bench(*line.split()))
        self.expect(CANNOT_CREATE, self.bench("--case", "quick-m8", "--json", "none/x.json"))
        shutil.copy(SUITES, "suites.json")
        self.expect(USAGE, self.bench("--case", "quick-m8", "--kernel", "reference", "--json", "suites.json", suites="suites.json"))
        self.assertEqual(bytes_of("suites.json"), bytes_of(SUITES))
        good = '"name": "a", "n": 8, "m": 4, "k": 4'
        for cases, code in [
                ("{" + good + "}", OK), ('{"name": "a", "n": 9, "m": 4, "k": 4}', BAD_DATA), ('{"name": "a", "n": 8, "m": 4, "k": 5}', BAD_DATA),
                ('{"name": "a", "n": 8, "m": 4}', BAD_DATA), ("{" + good + ', "patern": "uniform"}', BAD_DATA),
                ("{" + good + ', "pattern": "round"}', BAD_DATA), ("{" + good + ', "max_value": 65536}', BAD_DATA),
                ("{" + good + "}, {" + good + "}", BAD_DATA), ("{" + good + ', "memory_share": 0}', BAD_DATA), ("nonsense", BAD_DATA),
                # Nested so deep that printing it would overflow the stack.
                *(('{"name": "x", "n": ' + depth * "[" + depth * "]" + "}", BAD_DATA) for depth in (3, 1_000_000))]:
            write("suites.json", '{"suites": {"x": [' + cases + "]}}")
            self.expect(code, self.bench("--list", suites="suites.json"))


class Measurements(Place):
    def test_published_measurements_are_as_their_programs_write_them(self):
        for path in (SOURCE / "data/measurements").iterdir():
            schema = {"spmm-bench": "bench", "scipy_bench.py": "scipy"}.get(json.loads(path.read_text(encoding="utf-8"))["program"])
            if schema is not None:
                parse_report(schema, path.read_text(encoding="utf-8"))

    def test_measure_sh_writes_a_file_a_step_and_a_failure_spares_the_others(self):
        suites = json.loads(bytes_of(SUITES))["suites"]
        cases = {case["name"] for suite in suites.values() for case in suite}
        kernels = {"all", *(line.split()[0] for line in run("spmm", "--help", "all").out.partition("\nKernels:\n")[2].splitlines() if line.strip())}
        os.mkdir("bin")
        # In place of spmm-bench: notes its arguments in the file of --json, and fails on the CPU.
        os.chmod(write("bin/spmm-bench", """#!/usr/bin/env bash
for ((i = 1; i <= $#; ++i)); do
  if [[ ${!i} == --json ]]; then next=$((i + 1)); printf '%s\\n' "$@" >"${!next}"; fi
done
if [[ "$*" == *"--backend cpu"* ]]; then exit 1; fi
"""), 0o755)
        measure = ["/usr/bin/env", "bash", SOURCE / "tools/scripts/measure.sh", "--bin", "bin", "--out", "out", "--work", "work"]
        self.expect(NEGATIVE, run(*measure, "cpu", "speed", "reference", "density", "shapes", "patterns", "sides"))
        self.assertEqual(len(os.listdir("out")), 7)
        for name in os.listdir("out"):
            self.assertTrue((SOURCE / "data/measurements" / name).exists(), name)
            words = bytes_of(os.path.join("out", name)).decode().split("\n")
            for option, known in (("--suite", set(suites)), ("--case", cases), ("--kernel", kernels)):
                if option in words:
                    self.assertLessEqual(set(words[words.index(option) + 1].split(",")), known, name)
        self.expect(OK, run(*measure, "speed"))
        self.expect(USAGE, run(*measure, "sped"))
