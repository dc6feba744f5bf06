"""Ranks: every call of a failing disk, kills, inputs that are refused, files beyond 4 GiB."""
import array
import os
import pathlib
import shutil
import signal
import tempfile
import unittest

from programs import BAD_DATA, CANNOT_CREATE, MEMORY, NO_INPUT, OK, OLD, USAGE, Matrix, bytes_of, header, write
from ranks import FILES, PRODUCT, TEMPORARY, Ranks, check_mpirun, run_ranks, stopped


def setUpModule():
    check_mpirun()


class Slow(Ranks):
    def test_a_disk_that_fails_on_one_rank_at_any_of_its_calls_fails_all_with_the_same_message(self):
        self.generate(4096, 20_000)
        write("old.bin", OLD)
        # read-eio: headers and digests are 34 reads, indices some ten, then the product reads.
        faults = [fault.replace(":", f":{rank}:") for rank in range(3)
                  for fault in ("enospc:1", "enospc:3", "write-eio:2", "read-eio:10", "read-eio:36", "read-eio:50")]
        self.run_products(3, [f"a=x.bin b=y.bin fault={fault}" for fault in faults])
        self.assertEqual(bytes_of("z.bin"), OLD)

    def move_record(self, name, record, i, j):
        data = bytes_of(name)
        at = 12 + record * 40
        write(name, data[:at] + array.array("I", (i, j)).tobytes() + data[at + 8:])

    def test_bad_inputs_and_options_are_rejected_once_with_the_rank_that_saw_them(self):
        self.generate(256, 300)
        for code, words, part in [
                (NO_INPUT, ["x.bin", "nothing.bin", "z.bin"], "nothing.bin"), (USAGE, ["--plan", *FILES], "--plan"),
                (USAGE, ["--progress", "always", *FILES], "--progress"), (USAGE, ["--kernel", "none", *FILES], "--kernel"),
                (CANNOT_CREATE, ["--no-clobber", *FILES], "exists"), (CANNOT_CREATE, ["x.bin", "y.bin", "folder/z.bin"], "folder"),
                (USAGE, ["x.bin", "y.bin", "x.bin"], "same file"), (USAGE, ["x.bin", "y.bin", "z.mtx"], "spmm-convert z.bin z.mtx"),
                (MEMORY, ["--memory-limit", "5k", *PRODUCT], "memory")]:
            self.check_failure(code, run_ranks(2, *words), part)
        good = {name: bytes_of(name) for name in ("x.bin", "y.bin")}
        # The last two: a block twice, in the shares of two ranks; of a row of B that nothing meets as well.
        for name, places, part in [
                ("x.bin", [(250, 64, 0)], "x.bin, record 250 (byte offset 10012): block index (64, 0)"), ("y.bin", [(7, 0, 64)], "y.bin, record 7 "),
                ("x.bin", [(3, 5, 5), (290, 5, 5)], "x.bin, record 290 (byte offset 11612): block (5, 5) was stored before in record 3 "),
                ("y.bin", [(4, 9, 9), (299, 9, 9)], "y.bin, record 299 (byte offset 11972): block (9, 9) was stored before in record 4 ")]:
            for place in places:
                self.move_record(name, *place)
            if len(places) == 2 and name == "y.bin":
                Matrix(256, 4, []).write("x.bin")
            self.check_failure(BAD_DATA, run_ranks(3, *PRODUCT), part)
            write(name, good[name])

    def test_kill_9_of_any_rank_at_any_of_its_calls_keeps_the_old_output_and_leaves_one_temporary_at_most(self):
        self.generate(1024, 3000)
        # Ranks have met before their first read: Open MPI's launcher may hang for ever when one dies earlier.
        for fault in ("stop-read:0:3", "stop-read:1:40", "stop-write:0:0", "stop-write:2:0", "stop-write:0:2"):
            with stopped(3, fault) as (pid, launcher):
                self.assertIn(f"OMPI_COMM_WORLD_RANK={fault.split(':')[1]}\0", pathlib.Path(f"/proc/{pid}/environ").read_text(encoding="utf-8"))
                os.kill(pid, signal.SIGKILL)
            self.assertEqual(launcher.result().code, 137)
            self.assertEqual((bytes_of("z.bin"), self.names(*FILES, "expected.bin", TEMPORARY)), (OLD, []))
        self.check_product(run_ranks(3, *PRODUCT))


class Large(Ranks):
    SIDE, BLOCKS = 64, 640_000  # 5.2 GB: of 7 ranks the last one's share begins beyond 4 GiB

    def test_shares_of_a_file_beyond_4_gib_at_the_border_of_two_ranks_and_at_4_gib(self):
        meminfo = dict(line.split(":") for line in pathlib.Path("/proc/meminfo").read_text(encoding="ascii").splitlines())
        folder = "/dev/shm"  # in memory: a disk's file system takes long to remove half a million holes
        if int(meminfo["MemAvailable"].split()[0]) < 14 << 20 or not os.path.isdir(folder) or shutil.disk_usage(folder).free < 4 << 30:
            raise unittest.SkipTest(f"needs 14 GiB of free memory, 4 GiB of it in {folder}")
        record = 8 + 2 * self.SIDE**2
        border = self.BLOCKS * 6 // 7
        self.assertGreater(border * record, 2**32)
        values = {r: r % 60_000 + 1 for near in (1, 2**32 // record, border, self.BLOCKS - 2) for r in (near - 1, near, near + 1)}
        with tempfile.TemporaryDirectory(dir=folder) as there:
            os.chdir(there)
            with open("x.bin", "wb") as file:  # the diagonal: heads of records and first elements; the rest is a hole
                file.write(header(self.BLOCKS * self.SIDE, self.SIDE, self.BLOCKS))
                for r in range(self.BLOCKS):
                    file.seek(12 + r * record)
                    file.write(array.array("I", (r, r)).tobytes() + array.array("H", [values.get(r, 0)]).tobytes())
                file.truncate(12 + self.BLOCKS * record)
            zeros = (self.SIDE**2 - 1) * [0]
            Matrix(self.BLOCKS * self.SIDE, self.SIDE, [(r, 5, [3, *zeros]) for r in values]).write("y.bin")
            self.expect(OK, run_ranks(7, *PRODUCT))
            self.assertEqual(Matrix.read("z.bin", "I").blocks, [(r, 5, [3 * value, *zeros]) for r, value in sorted(values.items())])
            os.chdir("/")
