"""spmm-batch: lists from start to end, --resume, shards, standard input, reports, failures that stay alone, signals, what is refused.

SPMM_TEST_KILLS sets how many rounds the tests of signals take, SPMM_TEST_JOBS the jobs of one long run.
"""
import os
import pathlib
import random
import shutil
import signal
import time

from programs import (BAD_DATA, BIN, CANNOT_CREATE, FAULTY, IO_ERROR, NEGATIVE, NO_INPUT, OK, SOURCE, UNAVAILABLE, USAGE, Matrix, Place,
                      Program, bytes_of, children_of, cpu, parse_report, product_of, random_matrix, read_report, run, shell, wait_for, write)

KILLS = os.environ.get("SPMM_TEST_KILLS")
GOOD = "1.bin\t2.bin\tx.bin\n"
FAULTY_BATCH = FAULTY / "spmm-batch"  # faults of its jobs: faulty/faulty_engine.cpp


class Batch(Place):
    """A folder with the operands 1.bin, 2.bin, ..., and a list of the products of all pairs to cIJ-T.bin."""
    num_operands, n, count = 4, 64, 60

    def setUp(self):
        super().setUp()
        self.expected = {}
        for x in range(1, self.num_operands + 1):
            random_matrix(self.n, 4, self.count, 65535, x).write(f"{x}.bin")

    def write_list(self, times=1):
        lines = ["# A\tB\tOUT\n"]
        for a in range(1, self.num_operands + 1):
            for b in range(1, self.num_operands + 1):
                self.expect(OK, cpu(f"{a}.bin", f"{b}.bin", "single.bin"))
                for t in range(times):
                    self.expected[f"c{a}{b}-{t}.bin"] = bytes_of("single.bin")
                    lines.append(f"{a}.bin\t{b}.bin\tc{a}{b}-{t}.bin\n")
        os.remove("single.bin")
        write("jobs.tsv", "".join(lines))
        return len(self.expected)

    def wrong_outputs(self):
        return [name for name, content in self.expected.items() if bytes_of(name) != content]

    def unexpected_files(self):
        return self.names(*self.expected, "jobs.tsv", "jobs.tsv.log", *(f"{x}.bin" for x in range(1, 10)))

    def report(self, *words, code=OK, program="spmm-batch", env=None):
        result = self.expect(code, run(program, *words, "--report", "-", env=env))
        return parse_report("batch-report", result.out)

    def totals(self, *words, **how):
        return self.report("jobs.tsv", *words, **how)["totals"]


class Lists(Batch):
    def test_a_list_gives_the_bytes_of_single_products(self):
        num_jobs = self.write_list()
        self.expect(OK, run("spmm-batch", "jobs.tsv", "--report", "r.json"), "16 jobs: 16 done, 0 failed")
        self.assertEqual(self.wrong_outputs(), [])
        report = read_report("r.json", "batch-report")
        self.assertEqual((report["totals"]["done"], len(report["jobs"])), (num_jobs, num_jobs))
        for job in report["jobs"]:
            self.assertEqual((job["state"], job["backend"], job["threads"], job["out_bytes"]), ("done", "cpu", 1, os.path.getsize(job["out"])))
            self.assertGreaterEqual(job["queue_s"], 0)
        os.remove("r.json")
        self.assertEqual(self.unexpected_files(), [])
        totals = self.totals("--resume")
        self.assertEqual((totals["done_before"], totals["done"]), (num_jobs, 0))

    def test_resume_runs_what_was_removed_or_changed_in_any_order_of_the_list(self):
        num_jobs = self.write_list()
        self.expect(OK, run("spmm-batch", "jobs.tsv"))
        os.remove("c12-0.bin")
        write("c21-0.bin", "short")
        os.utime("3.bin", (time.time(), os.stat("3.bin").st_mtime + 5))
        write("jobs.tsv", b"".join(reversed(bytes_of("jobs.tsv").splitlines(keepends=True))))
        totals = self.totals("--resume")
        self.assertEqual(self.wrong_outputs(), [])
        self.assertEqual((totals["done"], totals["done_before"]), (2 + 7, num_jobs - 9))  # seven of sixteen products read operand 3

    def test_shards_are_disjoint_and_complete_and_touch_no_file_of_others(self):
        num_jobs = self.write_list()
        outputs = []
        for shard in (1, 2, 3):
            out = self.expect(OK, run("spmm-batch", "jobs.tsv", "--dry-run", "--shard", f"{shard}/3")).out
            outputs += [line.split("\t")[2] for line in out.splitlines()]
        self.assertEqual((len(outputs), len(set(outputs))), (num_jobs, num_jobs))
        tasks = [Program("spmm-batch", "jobs.tsv", "--shard", f"{shard}/3") for shard in (1, 2, 3)]  # all at once
        for task in tasks:
            self.expect(OK, task.result())
        self.assertEqual(self.wrong_outputs(), [])
        lines = bytes_of("jobs.tsv")
        write("jobs.tsv", lines + b"1.bin\t2.bin\t/dev/null\n2.bin\t1.bin\t/dev/null\n")
        for _ in range(2):  # what goes to /dev/null is never done
            totals = self.totals("--resume")
            self.assertEqual((totals["done_before"], totals["done"]), (num_jobs, 2))
        write("jobs.tsv", b"none.bin\t1.bin\tx.bin\n" + lines)  # only the shard of the first job minds
        self.expect(NO_INPUT, run("spmm-batch", "jobs.tsv", "--shard", "1/2"))
        self.expect(OK, run("spmm-batch", "jobs.tsv", "--shard", "2/2"))

    def test_tasks_of_an_array_write_reports_of_their_own(self):
        self.write_list()

        def run_task(shard):
            self.expect(OK, run("spmm-batch", "jobs.tsv", "--shard", f"{shard}/2", "--resume", "--report", "r.json"))
            return read_report(f"r.{shard}-of-2.json", "batch-report")

        first = [run_task(shard) for shard in (1, 2)]
        self.assertEqual([report["totals"]["done"] for report in first], [8, 8])
        os.remove("c12-0.bin")  # the second of the jobs
        again = run_task(2)["totals"]
        self.assertEqual((again["done"], again["done_before"]), (1, 7))
        self.assertEqual(read_report("r.1-of-2.json", "batch-report"), first[0])
        self.assertNotIn("r.json", self.names())

    def test_standard_input_is_a_list_as_any_other(self):
        lines = b"1.bin\t2.bin\tx.bin\n# comment\n2.bin\t1.bin\tz.bin"
        for words, text, code, said in [
                (["-"], lines, OK, "2 jobs: 2 done, 0 failed"), (["-", "--log", "done.log"], lines, OK, ""),
                (["-", "--log", "done.log", "--resume"], lines, OK, "2 done before"), (["-"], b"# nothing to do", OK, ""),
                (["-"], lines + b"\nbad line\n1.bin\tnone.bin\ty.bin\n", BAD_DATA, "standard input:4: has 1 column"),
                (["-"], b"\xef\xbb\xbf" + lines, OK, "")]:
            self.expect(code, run("spmm-batch", *words, stdin=text), said)
        self.assertNotIn("-.log", self.names())

    def test_failures_are_listed_and_run_again_by_resume(self):
        num_jobs = self.write_list()
        write("bad.bin", "no matrix")
        write("jobs.tsv", bytes_of("jobs.tsv") + b"1.bin\tbad.bin\tx.bin\n")
        self.expect(NEGATIVE, run("spmm-batch", "jobs.tsv"), "jobs.tsv:18: failed (65): ")
        self.assertEqual(self.wrong_outputs(), [])
        totals = self.totals("--resume", code=NEGATIVE)
        self.assertEqual((totals["failed"], totals["done_before"]), (1, num_jobs))
        shutil.copy("2.bin", "bad.bin")
        self.expect(OK, run("spmm-batch", "jobs.tsv", "--resume"))
        self.assertIn("x.bin", self.names())

    def test_a_job_that_kills_its_worker_breaks_the_device_or_takes_too_long_fails_alone(self):
        num_jobs = self.write_list()
        lines = bytes_of("jobs.tsv")
        for fault in ("kill", "device", "slow", "hang"):
            with self.subTest(fault):
                is_late = fault in ("slow", "hang")  # the others may take as long as a busy machine lets them
                write("jobs.tsv", lines.replace(b"c23-0.bin", b"c23-0.bin\ttimeout=0.3") if is_late else lines)
                self.expect(NEGATIVE, run(FAULTY_BATCH, "jobs.tsv", "--report", "r.json", env={"SPMM_BATCH_FAULT": f"{fault}:c23-0"}),
                            "took longer than its timeout of 0.3 s" if is_late else "")
                report = read_report("r.json", "batch-report")
                self.assertEqual((self.wrong_outputs(), report["totals"]["done"], report["totals"]["failed"]), (["c23-0.bin"], num_jobs - 1, 1))
                if not is_late:
                    self.assertEqual({(job["state"], job["attempts"]) for job in report["jobs"]}, {("done", 1), ("failed", 3)})
                os.remove("r.json")
                self.assertEqual(self.unexpected_files(), [])
                for name in {"jobs.tsv.log", *self.expected} - {"c23-0.bin"}:
                    os.remove(name)

    def test_jobs_may_have_options_of_their_own(self):
        write("jobs.tsv", "1.bin\t2.bin\tx.bin\tkernel=reference\tverify=10\tdurable=1\n1.bin\t2.bin\ty.bin\tkernel=row-merge\n")
        self.assertEqual([job["kernel"] for job in self.report("jobs.tsv")["jobs"]], ["reference", "row-merge"])
        self.assertEqual(bytes_of("x.bin"), bytes_of("y.bin"))
        write("jobs.tsv", "1.bin\t2.bin\tx.bin\tno-clobber=1\n")
        self.expect(NEGATIVE, run("spmm-batch", "jobs.tsv"))
        write("jobs.tsv", "1.bin\t2.bin\tx.bin\n1.bin\t2.bin\ty.bin\ttranspose-b=0\n1.bin\t2.bin\tz.bin\trows=2:\ttranspose-a=1\n")
        jobs = self.report("jobs.tsv", "--transpose-b")["jobs"]
        self.assertEqual(jobs[2]["rows"], "2:")
        a, b = Matrix.read("1.bin"), Matrix.read("2.bin")
        c = product_of(a.transposed(), b.transposed())
        c.blocks = [block for block in c.blocks if block[0] >= 2]
        for name, expected in (("x.bin", product_of(a, b.transposed())), ("y.bin", product_of(a, b)), ("z.bin", c)):
            self.assertEqual(Matrix.read(name, "I"), expected)
        write("jobs.tsv", "1.bin\t2.bin\tx.bin\n1.bin\t2.bin\tz.bin\trows=3:\ttranspose-a=1\n")  # other rows are another job
        self.expect(OK, run("spmm-batch", "jobs.tsv", "--transpose-b", "--resume", "--dry-run"), "z.bin\ttranspose-a=1\ttranspose-b=1\trows=3:\n")
        self.assertEqual(self.totals("--transpose-b", "--resume")["done_before"], 1)

    def test_a_job_of_another_promise_is_run_again_one_of_another_kernel_is_not(self):
        write("jobs.tsv", "1.bin\t2.bin\tx.bin\n2.bin\t1.bin\ty.bin\tverify=full\n")
        for words, done, before in (([], 2, 0), ([], 0, 2), (["--kernel", "reference"], 0, 2), (["--verify", "full"], 1, 1),
                                    (["--verify", "full"], 0, 2), (["--durable"], 2, 0)):
            totals = self.totals("--resume", *words)
            self.assertEqual((totals["done"], totals["done_before"]), (done, before), words)

    def test_an_output_that_another_job_has_replaced_is_made_again_though_its_size_is_the_same(self):
        matrix = Matrix.read("1.bin")  # times itself: as many bytes whatever its values are
        matrix.changed(lambda blocks: blocks.__setitem__(0, (*blocks[0][:2], 16 * [257]))).write("2.bin")
        contents = []
        for x in (1, 2, 1):
            write("jobs.tsv", f"{x}.bin\t{x}.bin\tc.bin\n")
            self.assertEqual(self.totals("--resume")["done"], 1)
            contents.append(bytes_of("c.bin"))
        self.assertEqual((contents[0] == contents[1], contents[0] == contents[2], len(contents[0])), (False, True, len(contents[1])))
        self.assertEqual(self.totals("--resume")["done_before"], 1)

    def test_elements_at_the_limit_are_counted_or_an_error_where_the_list_says_so(self):
        for name, value in (("large.bin", 65535), ("small.bin", 1)):
            Matrix(8, 4, [(i, j, 16 * [value]) for i in (0, 1) for j in (0, 1)]).write(name)
        lines = "large.bin\tlarge.bin\tx.bin\nsmall.bin\tsmall.bin\ty.bin\n"
        write("jobs.tsv", lines)
        self.expect(OK, run("spmm-batch", "jobs.tsv", "--report", "r.json"), "\n64 elements at the limit 4294967295 in 1 job\n")
        report = read_report("r.json", "batch-report")
        self.assertEqual((report["totals"]["saturated_elements"], report["totals"]["saturated_jobs"]), (64, 1))
        self.assertEqual([job["saturated_elements"] for job in report["jobs"]], [64, 0])
        before = bytes_of("x.bin")  # it is not done for whom that is an error; what did not saturate is
        write("jobs.tsv", lines + "large.bin\tlarge.bin\tz.bin\ton-saturation=report\n")
        self.expect(NEGATIVE, run("spmm-batch", "jobs.tsv", "--resume", "--on-saturation", "error"), "jobs.tsv:1: failed (76): ",
                    "64 elements are at the limit 4294967295", "--on-saturation report")
        self.assertEqual((bytes_of("x.bin"), bytes_of("z.bin")), (before, before))
        totals = self.totals("--resume")  # y.bin was made under the other promise
        self.assertEqual((totals["done"], totals["done_before"]), (1, 2))

    def test_standard_streams_that_are_closed_are_no_other_file(self):
        self.write_list()
        batch = f"exec {BIN}/spmm-batch"
        self.expect(IO_ERROR, shell(f"{batch} jobs.tsv >&- 2> err"))  # the table is lost
        self.assertTrue(bytes_of("err").startswith(b"spmm-batch: error: standard output: writing failed"))
        self.assertEqual(self.wrong_outputs(), [])
        self.assertEqual(bytes_of("jobs.tsv.log").count(b"\n"), 16)  # a line for each job, nothing else
        self.expect(OK, shell(f"{batch} jobs.tsv --quiet <&- >&- 2>&-"))
        self.assertTrue(self.expect(IO_ERROR, shell(f"{batch} - <&-", 60)).err.startswith("spmm-batch: error: standard input: Bad file descriptor"))

    def test_a_worker_that_can_start_no_thread_runs_its_jobs_by_itself(self):
        self.write_list()
        if os.geteuid() != 0 or shutil.which("prlimit") is None or shutil.which("setpriv") is None:
            self.skipTest("needs root, prlimit and setpriv")
        for limit in (2, 3):  # the supervisor and its worker are two
            self.expect(OK, run("/usr/bin/env", "setpriv", "--reuid", 61234, "--clear-groups", "prlimit", f"--nproc={limit}", BIN / "spmm-batch",
                                "jobs.tsv", "--log", "/dev/null"))
            self.assertEqual(self.wrong_outputs(), [])

    def test_a_working_folder_that_was_deleted_is_said(self):
        jobs = os.path.abspath(write("jobs.tsv", GOOD))
        for words, code in (("jobs.tsv", NO_INPUT), ("-", NO_INPUT), (jobs + " --report r.json", NO_INPUT), (jobs, OK)):
            self.expect(code, shell(f"mkdir gone; cd gone; rmdir ../gone; exec {BIN}/spmm-batch {words}"),
                        "working folder: is not there any more" if code else "")
        self.assertIn("x.bin", self.names())


class Refusals(Batch):
    def refused(self, code, words, *parts):
        with self.subTest(words=words):
            before = self.names()
            self.expect(code, run("spmm-batch", *words), *parts)
            self.assertEqual(self.names(), before)

    def test_command_lines(self):
        write("good.tsv", GOOD)
        write("empty.tsv", "")
        for line in """
                2 | list of jobs
                2 good.tsv more | "more"
                2 --frobnicate good.tsv | --frobnicate
                2 --backend tpu good.tsv | "tpu"
                2 --threads 5000 good.tsv | from 0 to 4096
                2 --memory-limit 0 good.tsv | --memory-limit:
                2 --in-flight 0 good.tsv | --in-flight:
                2 --verify x good.tsv | --verify: "x"
                2 --on-saturation warn good.tsv | --on-saturation:
                2 --timeout 1x good.tsv | --timeout: "1x"
                2 --grace never good.tsv | --grace:
                2 --shard 3/2 good.tsv | --shard:
                2 --shard auto good.tsv | --shard: "auto"
                2 --resume - | standard input
                2 --log= good.tsv | --log
                66 none.tsv | none.tsv:
                66 . | directory
                65 empty.tsv | empty.tsv:
                65 - | standard input:
                73 --log none/log good.tsv | none/log:
                73 --report none/r.json good.tsv | none/r.json""".strip().splitlines():
            words, part = line.split(" | ")
            code, *words = words.split()
            self.refused(int(code), words, part, "spmm-batch: error: ")

    def test_malformed_lists_run_nothing(self):
        os.mkdir("folder")
        os.symlink("2.bin", "link.bin")
        for lines, code, part in [
                (GOOD + "1.bin 2.bin y.bin\n", BAD_DATA, "bad.tsv:2: has 1 column"), (2 * GOOD, BAD_DATA, "bad.tsv:2: "),
                (GOOD + "1.bin\t2.bin\t1.bin\n", BAD_DATA, "line 1"), (GOOD + "1.bin\tx.bin\ty.bin\n", BAD_DATA, "line 2"),
                (GOOD + "1.bin\tnone.bin\ty.bin\n", NO_INPUT, "bad.tsv:2: "), (GOOD + "1.bin\t2.bin\tnone/y.bin\n", CANNOT_CREATE, "mkdir -p"),
                (GOOD + "1.bin\t.\ty.bin\n", NO_INPUT, "bad.tsv:2: "), (GOOD + "1.bin\t2.bin\tfolder\n", CANNOT_CREATE, "directory"),
                (GOOD + "1.bin\t2.bin\ty.csv\n", BAD_DATA, "y.csv"), (GOOD + "1.bin\t2.bin\tlink.bin\n", BAD_DATA, "link.bin"),
                (GOOD + "1.bin\t2.bin\tz\trows=3\n", BAD_DATA, 'bad.tsv:2 rows: "3" is not a range of block rows'),
                (GOOD + "1.bin\t2.bin\tz\ttranspose-a=maybe\n", BAD_DATA, 'bad.tsv:2 transpose-a: "maybe" is neither on nor off'),
                (b"\xff\xfex\n", BAD_DATA, "bad.tsv:1: has 1 column")]:
            write("bad.tsv", lines)
            self.refused(code, ["bad.tsv"], part, "nothing was run")

    def test_no_job_or_report_may_have_a_file_that_the_run_has_for_itself(self):
        os.symlink("2.bin", "link")
        os.symlink("later", "to-later")
        os.symlink(".", "here")
        operands = bytes_of("1.bin") + bytes_of("2.bin")
        for words, lines, code, part in [
                (["--report", "1.bin"], GOOD, BAD_DATA, "1.bin is the file of --report"),
                (["--report", "./x.bin"], GOOD, BAD_DATA, "x.bin is the file of --report"),
                (["--report", "link"], GOOD, BAD_DATA, "2.bin is the file of --report"),
                (["--report", "jobs.tsv"], GOOD, USAGE, "--report: jobs.tsv is the list"),
                (["--log", "here/jobs.tsv"], GOOD, USAGE, "--log: here/jobs.tsv is the list"),
                (["--log", "here/x.bin"], GOOD, BAD_DATA, "x.bin is the file of --log"),
                (["--log", "later"], "1.bin\t2.bin\tto-later\n", BAD_DATA, "to-later is the file of --log"),
                (["--log", "to-later"], "1.bin\t2.bin\tlater\n", BAD_DATA, "later is the file of --log"),
                ([], "1.bin\t2.bin\tjobs.tsv\n", BAD_DATA, "jobs.tsv is the list"),
                ([], "1.bin\t2.bin\tjobs.tsv.log\n", BAD_DATA, "jobs.tsv.log is the file of --log")]:
            write("jobs.tsv", lines)
            self.refused(code, [*words, "jobs.tsv"], part)
            self.assertEqual((bytes_of("jobs.tsv").decode(), bytes_of("1.bin") + bytes_of("2.bin")), (lines, operands))
        os.symlink("loop", "loop")  # links without an end are told, not followed
        write("jobs.tsv", "1.bin\t2.bin\tloop\n")
        self.refused(CANNOT_CREATE, ["jobs.tsv"], "loop")

    def test_a_forced_gpu_that_is_not_there_is_said_at_once(self):
        write("good.tsv", GOOD)
        write("one.tsv", GOOD + "1.bin\t2.bin\ty.bin\tbackend=cuda\n")
        no_gpu = {"CUDA_VISIBLE_DEVICES": ""}
        self.expect(UNAVAILABLE, run("spmm-batch", "good.tsv", "--backend", "cuda", env=no_gpu))
        self.expect(NEGATIVE, run("spmm-batch", "one.tsv", env=no_gpu), "one.tsv:2: failed (69): ")
        self.assertIn("x.bin", self.names())

    def test_a_second_run_with_one_log_is_refused(self):
        write("good.tsv", GOOD)
        first = Program(FAULTY_BATCH, "good.tsv", env={"SPMM_BATCH_FAULT": "slow:x.bin"})
        wait_for(first.children)
        self.expect(CANNOT_CREATE, run("spmm-batch", "good.tsv", "--resume"), "good.tsv.log: the log is in use by another run")
        self.expect(OK, run("spmm-batch", "good.tsv", "--log", "/dev/null"))
        self.expect(OK, first.result())


class Signals(Batch):
    """Enough work for signals to meet it: products that take a few milliseconds."""
    n, count = 512, 3000

    def setUp(self):
        super().setUp()
        self.num_jobs = self.write_list(2)
        start = time.monotonic()
        self.expect(OK, run("spmm-batch", "jobs.tsv"))
        self.length = time.monotonic() - start
        self.moments = random.Random(1)

    def moment(self):
        return self.length * self.moments.uniform(0.02, 0.9)

    def reset(self):
        for name in self.names():
            if name.startswith("c") or name == "jobs.tsv.log":
                os.remove(name)

    def num_outputs(self):
        return sum(name.startswith("c") for name in self.names())

    def resumed(self):
        """How many were done before."""
        totals = self.totals("--resume")
        self.assertEqual((self.wrong_outputs(), self.unexpected_files()), ([], []))
        return totals["done_before"]

    def test_kill_9_of_the_supervisor_then_resume(self):
        for _ in range(int(KILLS or 3)):
            self.reset()
            process = Program("spmm-batch", "jobs.tsv")
            time.sleep(self.moment())
            workers = process.children()
            os.kill(process.pid, signal.SIGKILL)
            self.assertIn(process.result().code, (-signal.SIGKILL, OK))
            wait_for(lambda: all(not os.path.exists(f"/proc/{worker}/exe") for worker in workers))
            before = self.num_outputs()
            done_before = self.resumed()  # only what was in flight is repeated
            self.assertTrue(before - os.cpu_count() <= done_before <= before, (before, done_before))

    def test_kill_9_of_workers_goes_on_without_a_loss(self):
        for _ in range(int(KILLS or 3)):
            self.reset()
            process, kills = Program("spmm-batch", "jobs.tsv", "--quiet", "--report", "-"), 0
            for _ in range(2):
                time.sleep(self.moment() / 2)
                for worker in process.children():
                    kills += 1
                    os.kill(worker, signal.SIGKILL)
            attempts = sum(job["attempts"] for job in parse_report("batch-report", self.expect(OK, process.result()).out)["jobs"])
            self.assertTrue(self.num_jobs <= attempts <= self.num_jobs + kills)
            self.assertEqual((self.wrong_outputs(), self.unexpected_files(), self.resumed()), ([], [], self.num_jobs))

    def test_signals_end_a_run_which_resume_completes(self):
        for _ in range(int(KILLS or 1)):
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
                for fault, grace, codes in (("none", 20, (75, OK)), ("slow:", 0, (75,))):  # slow: each job takes a second
                    self.reset()
                    process = Program(FAULTY_BATCH, "jobs.tsv", "--grace", grace, env={"SPMM_BATCH_FAULT": fault})
                    wait_for(process.children)
                    time.sleep(self.moment())
                    os.kill(process.pid, number)
                    self.assertIn(process.result().code, codes)
                    self.assertEqual(self.unexpected_files(), [])
                    before = self.num_outputs()
                    self.assertEqual(self.resumed(), before)  # the log is complete


class Workers(Batch):
    def test_a_stopped_workers_job_times_out_and_the_worker_is_replaced(self):
        self.write_list()
        write("jobs.tsv", bytes_of("jobs.tsv").replace(b"c11-0.bin", b"c11-0.bin\ttimeout=0.5"))
        process = Program(FAULTY_BATCH, "jobs.tsv", env={"SPMM_BATCH_FAULT": "slow:c11"})
        wait_for(process.children)
        os.kill(process.children()[0], signal.SIGSTOP)  # that has the first job
        self.expect(NEGATIVE, process.result())  # the slow one fails, with its worker and alone
        self.assertEqual(self.wrong_outputs(), ["c11-0.bin"])

    def test_running_jobs_have_their_grace_and_a_second_signal_takes_it_away(self):
        self.write_list()
        for fault in ("slow:", "hang:"):  # each job takes a second, or never ends
            process = Program(FAULTY_BATCH, "jobs.tsv", "--grace", 300, "--log", "/dev/null", "--report", "r.json", env={"SPMM_BATCH_FAULT": fault})
            wait_for(process.children)
            time.sleep(0.05)
            os.kill(process.pid, signal.SIGTERM)
            for _ in range(5 if fault == "hang:" else 0):  # those that reach the supervisor within 0.3 s count as one
                time.sleep(0.4)
                os.kill(process.pid, signal.SIGTERM)
            self.assertEqual(process.result().code, 75)
            totals = read_report("r.json", "batch-report")["totals"]
            self.assertEqual((totals["failed"], totals["done"] > 0), (0, fault == "slow:"))
            self.assertGreater(totals["not_run"], 0)

    def sample(self, pid):
        """(resident kB, threads, files) of a process; none of one that has gone."""
        try:
            status = dict(line.split(":", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines())
            return int(status["VmHWM"].split()[0]), int(status["Threads"]), len(os.listdir(f"/proc/{pid}/fd"))
        except (OSError, KeyError):
            return None

    def test_many_jobs_in_one_run_memory_files_and_threads_stay_flat(self):
        num_jobs = int(os.environ.get("SPMM_TEST_JOBS", 800))
        for x in range(1, 5):
            random_matrix(256, 4, 500, 65535, x).write(f"{x}.bin")
        write("jobs.tsv", "".join(f"{j % 4 + 1}.bin\t{j // 4 % 4 + 1}.bin\tc{j}\n" for j in range(num_jobs)))
        process = Program("spmm-batch", "jobs.tsv", "--backend", "cpu", "--report", "r.json")
        early, late, done = {}, {}, 0  # the largest values from a tenth to a third, and of the last third
        while done < num_jobs and (done == 0 or process.children()):
            time.sleep(0.02)
            done = bytes_of("jobs.tsv.log").count(b"\n")
            peaks = early if num_jobs / 10 <= done < num_jobs / 3 else late if num_jobs * 2 / 3 <= done < num_jobs else {}
            for pid in [process.pid, *process.children()]:
                peaks[pid] = tuple(map(max, self.sample(pid) or (0, 0, 0), peaks.get(pid, (0, 0, 0))))
        self.expect(OK, process.result())
        self.assertGreaterEqual(len(early), 2)  # the supervisor and a worker for each core
        self.assertEqual(set(early), set(late))
        for pid, (resident, threads, files) in early.items():
            # What comes and goes with the jobs in flight is less; what stayed behind of each of hundreds would be far more.
            most = (resident + (2048 if pid == process.pid else 16384), threads + 16, files + 100)
            self.assertTrue(all(after <= limit for after, limit in zip(late[pid], most)), (early[pid], late[pid]))


class Cluster(Batch):
    """The templates of tools/cluster, with a stand-in for scontrol."""
    WORDS = ["/bin/bash", SOURCE / "tools/cluster/spmm-batch.sbatch", "jobs.tsv"]

    def setUp(self):
        super().setUp()
        self.write_list()
        os.mkdir("bin")
        os.chmod(write("bin/scontrol", '#!/bin/sh\necho "$@" >> requeued\n'), 0o755)

    def task(self, number, program=BIN / "spmm-batch", **more):
        return {"SLURM_JOB_ID": str(100 + number), "SLURM_ARRAY_TASK_ID": str(number), "SLURM_ARRAY_TASK_MIN": "0", "SLURM_ARRAY_TASK_MAX": "1",
                "SLURM_ARRAY_TASK_COUNT": "2", "SPMM_BATCH": str(program), "PATH": os.path.abspath("bin") + ":/usr/bin:/bin", **more}

    def test_tasks_run_their_shards(self):
        for number, num_wrong in ((0, 8), (1, 0)):
            self.expect(OK, run(*self.WORDS, env=self.task(number)))
            self.assertEqual(len(self.wrong_outputs()), num_wrong)
        self.assertNotIn("requeued", self.names())

    def test_a_signalled_task_goes_back_to_the_queue_and_goes_on(self):
        for number in (signal.SIGUSR1, signal.SIGTERM):
            # Each job takes a second, one at a time: the task has seven left when the signal comes, and many on a busy machine.
            task = Program(*self.WORDS, "--in-flight", 1, env=self.task(0, FAULTY_BATCH, SPMM_BATCH_FAULT="slow:", SPMM_THREADS="1"))
            wait_for(lambda: any(children_of(child) for child in task.children()))
            os.kill(task.pid, number)
            self.expect(75, task.result())
            self.assertEqual(bytes_of("requeued"), b"requeue 100\n")
            self.assertGreater(len(self.wrong_outputs()), 8)
            for shard in (0, 1):
                self.expect(OK, run(*self.WORDS, env=self.task(shard)))
            self.assertEqual(self.wrong_outputs(), [])
            for name in [*self.expected, "requeued", *(name for name in self.names() if name.endswith(".log"))]:
                os.remove(name)

    def test_the_pbs_template_names_its_shard(self):
        self.expect(OK, run("/bin/bash", SOURCE / "tools/cluster/spmm-batch.pbs", env={
            "PBS_ARRAY_INDEX": "2", "PBS_JOBID": "7", "PBS_O_WORKDIR": os.getcwd(), "JOBS": "jobs.tsv", "TASKS": "4",
            "SPMM_BATCH": str(BIN / "spmm-batch")}))
        self.assertEqual(len(self.wrong_outputs()), 12)

    def test_the_loop_of_the_page_makes_a_list(self):
        os.mkdir("a")
        for old, new in (("1.bin", "a/1.bin"), ("2.bin", "a/two words.bin"), ("3.bin", "b.bin")):
            os.rename(old, new)
        page = (SOURCE / "tools/cluster/README.md").read_text(encoding="utf-8")
        begin = page.index("mkdir -p out\n")
        self.expect(OK, run("/bin/bash", "-c", page[begin:page.index("done > jobs.tsv\n", begin) + 16]))
        self.assertEqual(self.expect(OK, run("spmm-batch", "--dry-run", "jobs.tsv")).out.count("\n"), 2)
        self.expect(OK, run("spmm-batch", "jobs.tsv"))
        self.assertTrue(os.path.exists("out/two words.bin"))
