"""Every documented use of spmm: the product is right, and each stream and file holds what is promised."""
import json
import os

from programs import (BAD_DATA, BIN, CANNOT_CREATE, NO_INPUT, OK, OLD, SATURATED, SOURCE, UNAVAILABLE, Matrix, Workplace, bytes_of, cpu, header,
                      pairs_of, parse_report, product_of, random_matrix, read_report, run, shell, write)

FILES = ("a.bin", "b.bin", "c.bin")
STAGES = {"product", *json.loads((SOURCE / "data/schemas/report.schema.json").read_text(encoding="utf-8"))["properties"]["stages"]["properties"]}


class Uses(Workplace):
    def test_the_plain_command_writes_the_product_and_one_summary_line(self):
        result = self.expect(OK, run("spmm", *FILES), "n 64, m 4", "A 60 blocks x B 70 blocks -> C ", " pairs", "pair/s", " s, ")
        self.assertEqual((result.err, result.out.count("\n")), ("", 1))
        self.assertEqual(bytes_of("c.bin"), self.expected())
        self.assertEqual(self.names("expected.bin"), [*FILES, "old.bin"])

    def test_every_way_of_asking_gives_the_same_bytes(self):
        here = os.path.basename(os.getcwd())
        for words, env in [
                (["--backend=cpu", "--kernel=row-merge", *FILES], {}),
                ([*FILES, "--kernel", "reference"], {}),
                (["a.bin", "--threads", "3", "b.bin", "c.bin"], {}),
                (["--threads", "0", "--device", "-1", "--kernel", "auto", "--backend", "auto", *FILES], {}),
                (["--memory-limit", "1G", "--no-clobber", *FILES], {}),
                (["--force", "--durable", "--verify", "20", *FILES], {}),
                (["--progress", "never", "-v", "--", *FILES], {}),
                (FILES, {"SPMM_BACKEND": "cpu", "SPMM_THREADS": "2", "SPMM_MEMORY_LIMIT": "1G"}),
                (FILES, {"SPMM_THREADS": "", "SPMM_KERNEL": "no-such-kernel"}),
                (["--threads", "2", *FILES], {"SPMM_THREADS": "wrong-but-not-used"}),
                (["./a.bin", f"../{here}/b.bin", os.path.abspath("c.bin")], {})]:
            with self.subTest(words=words, env=env):
                self.expect(OK, run("spmm", *words, env=env))
                self.assertEqual(bytes_of("c.bin"), self.expected())
                os.remove("c.bin")

    def test_file_names_may_hold_spaces_commas_quotes_and_dashes(self):
        self.a.write("a, with space.bin")
        for name in ("b'\"=,,.bin", "-b.bin"):
            self.b.write(name)
        self.expect(OK, run("spmm", "a, with space.bin", "b'\"=,,.bin", "c,d e.bin"))
        self.expect(OK, run("spmm", "--", "a.bin", "-b.bin", "-c.bin"))
        self.assertEqual([bytes_of("c,d e.bin"), bytes_of("-c.bin")], 2 * [self.expected()])

    def test_an_old_output_is_replaced_and_a_link_to_the_output_stays_one(self):
        write("target.bin", OLD)
        os.symlink("target.bin", "link.bin")
        for out in ("old.bin", "/dev/null", "link.bin"):
            self.expect(OK, run("spmm", "a.bin", "b.bin", out))
        self.assertEqual([bytes_of("old.bin"), bytes_of("target.bin")], 2 * [self.expected()])
        self.assertTrue(os.path.islink("link.bin"))

    def test_quiet_and_verbose(self):
        quiet = self.expect(OK, run("spmm", "-q", *FILES))
        self.assertEqual(quiet.out + quiet.err, "")
        verbose = self.expect(OK, run("spmm", "--backend", "cpu", "-v", *FILES), "peak host memory")
        self.assertEqual(verbose.out.count("\n"), 1)
        self.assertLess(verbose.err.index("row-merge"), verbose.err.index("\nmultiply"))
        self.a.changed(lambda blocks: blocks.append(blocks[0])).write("twice.bin")
        failed = self.expect(BAD_DATA, run("spmm", "--backend", "cpu", "-v", "twice.bin", "b.bin", "c.bin"))
        self.assertLess(failed.err.index("backend: cpu"), failed.err.index("spmm: error: "))

    def test_the_peak_of_host_memory_is_that_of_the_process_alone(self):
        large = bytearray(b"1") * 400_000_000  # a process begins with the ru_maxrss of the one that started it
        self.expect(OK, run("spmm", "--report", "r.json", *FILES))
        self.assertEqual(large[-1], ord("1"))
        self.assertTrue(1e6 < read_report()["peak_host_bytes"] < 3e8)

    def test_whoever_reads_help_or_a_list_may_close_it_before_its_end(self):
        for command in ("spmm --help", "spmm --version", "spmm help", "spmm-gen --help", "spmm-batch --help", "spmm-info a.bin",
                        "spmm --plan a.bin b.bin"):
            with self.subTest(command):  # `true` has ended, and the pipe has no reader, when the program writes
                self.expect(OK, shell(f"{{ sleep 0.1; {BIN}/{command} 2>message; echo $? >code; }} | true"))
                self.assertEqual((bytes_of("code"), bytes_of("message")), (b"0\n", b""))

    def test_the_report_has_the_numbers_of_the_run(self):
        words = ["--backend", "cpu", "--threads", "2", "--verify", "20", "--report", "r.json", *FILES]
        self.expect(OK, run("spmm", *words))
        report, c = read_report(), Matrix.read("c.bin", "I")
        self.assertEqual(len(report["command"]), len(words) + 1)
        for key, value in {"path": "a.bin", "n": 64, "m": 4, "blocks": 60, "bytes": 12 + 60 * 40, "transposed": False}.items():
            self.assertEqual(report["a"][key], value)
        self.assertEqual((report["c"]["blocks"], report["c"]["bytes"]), (len(c.blocks), os.path.getsize("c.bin")))
        self.assertEqual((report["pairs"], report["backend"], report["kernel"], report["threads"]),
                         (len(pairs_of(self.a, self.b)), "cpu", "row-merge", 2))
        self.assertLessEqual(report["plan"]["host_need_bytes"], report["plan"]["host_limit_bytes"])
        self.assertGreaterEqual(report["verified_blocks"], 20)
        self.assertEqual(report["saturated_elements"], sum(elements.count(2**32 - 1) for _, _, elements in product_of(self.a, self.b).blocks))
        self.assertEqual(report["stages"]["read"]["bytes"], (60 + 70) * 40)
        self.assertEqual(report["stages"]["write"]["bytes"], os.path.getsize("c.bin"))

    def test_where_the_report_goes(self):
        both = self.expect(OK, run("spmm", "--report", "-", *FILES), "pair/s")
        self.assertEqual(parse_report("report", both.out)["c"]["path"], "c.bin")
        write("r.json", "old")
        self.expect(NO_INPUT, run("spmm", "--report", "r.json", "a.bin", "missing.bin", "c.bin"))
        self.assertEqual(bytes_of("r.json"), b"old")
        self.expect(OK, run("spmm", "--report", "r.json", *FILES))
        self.assertEqual(read_report()["b"]["path"], "b.bin")
        for option in ("--report", "--trace"):  # one that cannot be written says that the product is there
            os.remove("c.bin")
            self.expect(CANNOT_CREATE, run("spmm", option, "/dev/full", *FILES), "the product is complete")
            self.assertEqual(bytes_of("c.bin"), self.expected())
        plan = self.expect(CANNOT_CREATE, run("spmm", "--plan", "--report", "/dev/full", "a.bin", "b.bin"))
        self.assertNotIn("product", plan.err)
        self.expect(OK, run("spmm", "--report", "/dev/null", *FILES))

    def test_a_plan_runs_nothing(self):
        self.expect(OK, run("spmm", "--backend", "cpu", "--threads", "2", "--plan", "a.bin", "b.bin"),
                    "A: 60 blocks", "B: 70 blocks", "backend: cpu", "row-merge", "threads: 2")
        self.expect(OK, run("spmm", "--plan", "--verify", "full", *FILES))
        self.expect(OK, run("spmm", "--report", "p.json", "--plan", "a.bin", "b.bin"))
        self.assertGreater(read_report("p.json", "plan")["plan"]["expected_pairs"], 0)
        self.assertEqual(self.names(), ["a.bin", "b.bin", "old.bin", "p.json"])

    def test_every_row_proven_and_the_key_that_is_given(self):
        fresh = self.expect(OK, run("spmm", "--verify", "full", "--report", "r.json", *FILES), "every row proven")
        self.assertNotIn("key", fresh.out)
        self.assertEqual(read_report()["proof"]["rows"], 64)
        self.assertNotIn("key", read_report()["proof"])
        self.expect(OK, run("spmm", "--verify", "full", "--verify-seed", "77", "a.bin", "b.bin", "d.bin"), "(key 77)")
        self.assertEqual(bytes_of("c.bin"), bytes_of("d.bin"))

    def test_elements_at_the_limit_are_counted_or_an_error_that_leaves_the_old_output(self):
        for name, value in (("full.bin", 65535), ("small.bin", 3)):
            Matrix(64, 4, [(i, j, 16 * [value]) for i in range(16) for j in range(16)]).write(name)
        words = ["spmm", "--backend", "cpu", "--report", "r.json", "full.bin"]
        for more, said in (([], "\n"), (["--verify", "full"], ", every row proven")):
            self.expect(OK, run(*words, "full.bin", "c.bin", *more), ", 4,096 elements at the limit 4294967295" + said)
            self.assertEqual(read_report()["saturated_elements"], 4096)
        self.assertNotIn("limit", self.expect(OK, run(*words, "small.bin", "c.bin", "--on-saturation", "error")).out)
        self.assertEqual(read_report()["saturated_elements"], 0)
        old = bytes_of("c.bin")
        os.remove("r.json")
        for more in ([], ["--transpose-a"], ["--verify", "full"]):
            self.expect(SATURATED, run(*words, "full.bin", "c.bin", "--on-saturation", "error", *more), "spmm: error: c.bin: 4096 elements",
                        "--on-saturation report", "row 0, column 0")
        self.assertEqual(bytes_of("c.bin"), old)
        self.assertEqual(self.names(), [*FILES, "full.bin", "old.bin", "small.bin"])

    def test_without_a_usable_device(self):
        has_cuda = "two-pointer     cuda: " in run("spmm", "--help", "all").out
        for words in (["--backend", "cuda"], ["--kernel", "two-pointer"]):
            result = self.expect(UNAVAILABLE, run("spmm", *words, "a.bin", "b.bin", "old.bin", env={"CUDA_VISIBLE_DEVICES": ""}), "--backend cpu")
            self.assertEqual("no NVIDIA driver" in result.err, has_cuda and not os.path.exists("/proc/driver/nvidia"))
            self.assertEqual(bytes_of("old.bin"), OLD)

    def test_under_a_launcher_spmm_names_spmm_mpi(self):
        first = {"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "0"}
        self.expect(OK, run("spmm", "--backend", "cpu", *FILES, env=first), "spmm: warning: OMPI_COMM_WORLD_SIZE says 2 processes", "spmm-mpi")
        for words in (["-q", *FILES], ["--plan", "a.bin", "b.bin"]):
            self.assertEqual(self.expect(OK, run("spmm", "--backend", "cpu", *words, env=first)).err, "")

    def test_a_full_column_times_a_full_row_is_known_before_the_work(self):
        for rows, words, code in ((65_000, ["--strict-space", "a.bin", "a.bin", "d.bin"], CANNOT_CREATE),  # 1.1 TB
                                  (300_000, ["--kernel", "reference", "a.bin", "a.bin", "/dev/null"], 2)):  # more than a day: --force
            run("spmm-gen", "-q", "-n", rows * 8, "-m", 8, "-k", rows * 2, "--pattern", "heavy-column", "a.bin")
            self.expect(code, cpu("--threads", "1", "--transpose-b", *words))

    def test_what_the_progress_bar_draws_on(self):
        self.assertEqual(run("spmm", "--progress", "auto", *FILES, env={"TERM": "xterm"}).err, "")
        drawn = run("spmm", "--progress", "always", *FILES).err
        self.assertIn("%", drawn)
        self.assertTrue(drawn.endswith("\r\033[K"))
        self.assertEqual(run("spmm", "-q", "--progress", "always", *FILES).err, "")
        if not os.path.exists("/usr/bin/script") or run("/usr/bin/script", "-qec", "test -t 2", "/dev/null").code != 0:
            self.skipTest("script cannot make a terminal here")
        for options, terminal, is_drawn in (("", "xterm", True), ("", "dumb", False), ("--progress never", "xterm", False), ("-q", "xterm", False)):
            out = run("/usr/bin/script", "-qec", f"{BIN}/spmm {options} {' '.join(FILES)}", "/dev/null", env={"TERM": terminal, "SHELL": "/bin/sh"}).out
            self.assertEqual("%" in out, is_drawn, (options, terminal))


class Traces(Workplace):
    def read_trace(self):
        """(names of tracks, {name of an event: bytes}, {name: pairs}, seconds); each rule that the trace breaks is a failure."""
        tracks, sums, around, processes, end = {}, ({}, {}), {}, set(), 0
        for event in json.loads(bytes_of("t.json")):
            track, name = (event["pid"], event["tid"]), event["name"]
            if name == "process_name":
                self.assertNotIn(track[0], processes)
                processes.add(track[0])
            elif name == "thread_name":
                self.assertNotIn(track, tracks)
                tracks[track] = event["args"]["name"]
            else:
                self.assertEqual(event["ph"], "X")
                self.assertIn(name, STAGES)
                self.assertIn(track[0], processes)
                begin = round(event["ts"] * 1000)
                own_end = begin + round(event["dur"] * 1000)
                end = end or own_end  # the first event is the product itself
                self.assertTrue(0 <= begin <= own_end <= end, event)
                ends = around.setdefault(track, [])  # events of a track nest
                while ends and ends[-1] <= begin and own_end > ends[-1]:
                    ends.pop()
                self.assertTrue(not ends or own_end <= ends[-1], event)
                ends.append(own_end)
                for of_name, key in zip(sums, ("bytes", "pairs")):
                    of_name[name] = of_name.get(name, 0) + event["args"].get(key, 0)
        self.assertLessEqual(set(around), set(tracks))
        return tracks, *sums, end * 1e-9

    def test_a_trace_has_every_stage_of_the_report_nested_on_named_tracks(self):
        for extra in ([], ["--verify", "10"], ["--kernel", "reference", "--memory-limit", "60k"]):
            with self.subTest(extra=extra):
                self.expect(OK, cpu("--threads", "2", "--trace", "t.json", "--report", "r.json", *extra, *FILES))
                tracks, moved, pairs, seconds = self.read_trace()
                report = read_report()
                self.assertEqual(tracks[1, 1], "main")
                self.assertEqual({name for name, stage in report["stages"].items() if stage["s"] != 0}, set(moved) - {"product"})
                self.assertAlmostEqual(seconds, report["total_s"], delta=1e-6)
                self.assertEqual(pairs["product"], report["pairs"])
                if not extra:
                    written = report["stages"]["write"]["bytes"] - 12
                    self.assertEqual((moved["read"], moved["multiply"], moved["write"], pairs["multiply"]),
                                     (report["stages"]["read"]["bytes"], written, written, report["pairs"]))

    def test_a_run_that_fails_leaves_the_trace_as_it_was(self):
        write("bad.bin", "too short")
        write("t.json", "before")
        self.expect(BAD_DATA, run("spmm", "--trace", "t.json", "a.bin", "bad.bin", "c.bin"))
        self.assertEqual(bytes_of("t.json"), b"before")


class Limits(Workplace):
    """Products of small or skewed operands within limits that once took hundreds of times as long as others."""

    def check(self, n, m, count, limits, threads=1, larger_n=None):
        for seed, name in ((1, "a.bin"), (2, "b.bin")):
            self.expect(OK, run("spmm-gen", "-q", "-n", n, "-m", m, "-k", count, "--seed", seed, name))
            if larger_n is not None:  # its blocks in the corner of a larger matrix
                with open(name, "r+b") as file:
                    file.write(header(larger_n, m, 0)[:4])
        for limit in limits:
            with self.subTest(n=n, limit=limit):  # 2 s of the processor; files of at most 100 MB
                self.expect(OK, shell(f"ulimit -t 2; ulimit -f 100000; exec {BIN}/spmm -q --backend cpu --threads {threads} "
                                      f"--memory-limit {limit} a.bin b.bin /dev/null"))

    def test_products_end_in_a_time_like_that_of_others(self):
        self.check(12_000, 2, 150_000, ["7M", "8M", "10M"])  # a kernel that just fits is not the slowest way
        self.check(200_000, 2, 700_000, ["12M", "15M"])
        self.check(10_000_000, 1, 300_000, ["200k", "7M", "5M"])  # few elements in a row
        self.check(8_237, 1, 85_000, ["180450"], 8)  # as many threads as a tiny limit allows
        self.check(20_000, 1, 653_027, ["40M"], larger_n=2**32 - 1)  # of a huge matrix: cut as a small one

    def test_without_a_scratch_folder_a_product_ends_in_time_or_is_refused(self):
        for seed, name in ((1, "a.bin"), (2, "b.bin")):
            self.expect(OK, run("spmm-gen", "-q", "-n", 75_000, "-m", 2, "-k", 375_000, "--seed", seed, name))
        result = shell(f"export TMPDIR=$PWD/nowhere; ulimit -t 2; exec {BIN}/spmm -q --backend cpu --threads 1 --memory-limit 10M a.bin b.bin /dev/null")
        self.assertIn(result.code, (OK, 71))
