"""What goes wrong on one rank ends all of them, with one message and the documented code."""
import fcntl
import os
import shutil
import signal
import time

from programs import BAD_DATA, BIN, CANNOT_CREATE, FAULTY, INTERRUPTED, IO_ERROR, MEMORY, OK, OLD, UNAVAILABLE, USAGE, Program, bytes_of, run, wait_for, write
from ranks import FILES, MPIRUN, PRODUCT, TEMPORARY, Ranks, check_mpirun, own_messages, ranks_running, run_ranks, stopped, stopped_rank


def setUpModule():
    check_mpirun()


class Failures(Ranks):
    def test_a_disk_that_fails_on_one_rank(self):
        self.generate(1024, 3000)
        for fault in ("write-eio:0:1", "write-eio:2:0", "read-eio:1:20", "read-eio:1:36"):
            message = self.check_failure(IO_ERROR, run_ranks(3, *PRODUCT, fault=fault), "error")
            self.assertIn(f"[rank {fault.split(':')[1]} of 3 on ", message)
            self.assertEqual((ranks_running(), os.path.exists(TEMPORARY)), ([], False))

    def test_a_rank_that_fails_interrupts_the_others(self):
        self.expect(OK, run("spmm-gen", "-q", "-n", 6400, "-m", 64, "-k", 8000, "x.bin"))  # 640,000 pairs of side 64
        shutil.copy("x.bin", "y.bin")
        write("z.bin", OLD)
        start = time.monotonic()
        # Rank 1 fails when it reads its rows; by the reference rank 0 would compute for a minute or more.
        result = run_ranks(2, "--kernel", "reference", "--threads", 1, *FILES, fault="read-eio:1:1300")
        self.expect(IO_ERROR, result)
        self.assertIn("[rank 1 of 2 on ", own_messages(result)[-1])
        self.assertLess(time.monotonic() - start, 40)
        self.assertEqual(bytes_of("z.bin"), OLD)

    def test_a_result_with_more_blocks_than_a_file_holds(self):
        self.generate(1024, 3000)
        message = self.check_failure(MEMORY, run_ranks(3, *PRODUCT, fault="blocks:1:100"), "the product has more than 100 non-zero blocks")
        self.assertIn("[rank 1 of 3 on ", message)

    def test_an_input_that_changes_while_ranks_read_it(self):
        self.generate(1024, 3000)
        with stopped(2, "stop-read:1:35") as (_, launcher):  # rank 1 has read headers and digests: it knows both files
            os.utime("y.bin")
        self.check_failure(BAD_DATA, launcher.result(), "y.bin: the file was changed while it was read")

    def test_a_second_run_with_the_same_output_is_refused_while_the_first_one_lives(self):
        self.generate(256, 300)
        with open(TEMPORARY, "w", encoding="ascii") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            for num_ranks in (2, 1):
                self.check_failure(CANNOT_CREATE, run_ranks(num_ranks, *PRODUCT), "another run writes it now")
        write(TEMPORARY, 1_000_000 * b"x")  # what a killed run has left is taken over, whatever it holds
        os.chmod(TEMPORARY, 0o600)
        self.check_product(run_ranks(2, *PRODUCT))

    def test_tasks_that_do_not_see_each_other_are_refused(self):
        self.generate(256, 300)
        self.expect(USAGE, run(BIN / "spmm-mpi", "-q", *FILES, env={"SLURM_NTASKS": "4", "OMPI_MCA_btl": "self"}), "SLURM_NTASKS says 4 tasks")
        self.assertEqual(bytes_of("z.bin"), OLD)

    def test_an_mpi_that_does_not_serve_threads_is_refused(self):
        self.generate(64, 60)
        library = FAULTY.parent / "libspmm_few_threads_mpi.so"
        self.check_failure(UNAVAILABLE, run_ranks(2, *PRODUCT, env={"LD_PRELOAD": str(library)}), "expected MPI_THREAD_SERIALIZED")

    def test_sigterm_to_a_rank_is_an_interruption(self):
        self.generate(1024, 3000)
        with stopped(2, "stop-write:1:0") as (pid, launcher):
            os.kill(pid, signal.SIGTERM)
        self.check_failure(INTERRUPTED, launcher.result(), "")
        self.assertFalse(os.path.exists(TEMPORARY))

    def test_sigterm_to_all_while_rank_0_renames_the_output_leaves_the_exit_code_to_the_product(self):
        self.generate(1024, 3000)
        with stopped(2, "stop-rename:0:0") as (_, launcher):
            time.sleep(0.3)
            for pid in ranks_running():
                os.kill(pid, signal.SIGTERM)
            time.sleep(2.5)
        self.check_product(launcher.result())

    def test_standard_streams_that_are_closed_lead_to_dev_null(self):
        self.generate(256, 300)
        launcher = Program("/usr/bin/env", *MPIRUN, 1, "/bin/sh", "-c", f"exec {FAULTY}/spmm-mpi -v --backend cpu x.bin y.bin z.bin <&- >&- 2>&-",
                           env={"SPMM_MPI_FAULT": "stop-write:0:0"})
        wait_for(stopped_rank, 300)
        pid = stopped_rank()
        self.assertEqual([os.readlink(f"/proc/{pid}/fd/{stream}") for stream in range(3)], 3 * ["/dev/null"])
        os.kill(pid, signal.SIGCONT)
        self.check_product(launcher.result())
