"""Wrong command lines, bad files, outputs that cannot be made: exit code, one line with the place and a way out, nothing written."""
import os
import re
import shutil

from programs import (BAD_DATA, BIN, CANNOT_CREATE, IO_ERROR, MEMORY, NO_INPUT, OK, OLD, UNAVAILABLE, USAGE, Matrix, Workplace, bytes_of, header,
                      random_matrix, record_bytes, run, shell, write)


def record(i, j):
    return header(i, j, 0)[:8] + b"\1\0" * 16


class Misuse(Workplace):
    def check(self, code, words, part, env=None):
        with self.subTest(words=words, env=env):
            names = self.names()
            result = run("spmm", *words, env=env)
            self.expect(code, result, part, "; ")
            self.assertEqual(result.out, "")
            self.assertEqual(result.err.count("\n"), 1)
            self.assertTrue(result.err.startswith("spmm: error: "))
            self.assertEqual(bytes_of("old.bin"), OLD)
            self.assertEqual(self.names(), names)

    def check_table(self, code, table):
        """Lines: words of the command, where @ is a.bin b.bin c.bin; then a part of the message."""
        for line in filter(None, (line.strip() for line in table.splitlines())):
            words, part = line.split(" | ") if " | " in line else ("", line.removeprefix("| "))
            self.check(code, words.replace("@", "a.bin b.bin c.bin").split(), part)

    def test_command_lines(self):
        self.check_table(USAGE, """
            | (A)
            a.bin | (B)
            a.bin b.bin | (OUT)
            @ d.bin | "d.bin"
            --plan a.bin | (B)
            --bogus @ | --bogus
            --verfy 3 @ | --verfy: is not an option, did you mean --verify?
            -threads 3 @ | did you mean --threads?
            - b.bin c.bin | (A)
            a.bin - c.bin | (B)
            a.bin b.bin - | (OUT)
            -x @ | -x:
            -qj2 @ | -j:
            -V | did you mean --version?
            hlep | did you mean help?
            verfiy @ -q | did you mean verify?
            plan a.bin b.bin | did you mean --plan?
            @ --threads | threads
            --threads 1 --threads 2 @ | --threads
            -q -q @ | --quiet
            --plan=maybe a.bin b.bin | maybe
            --backend gpu @ | --backend: "gpu" is not known, did you mean cuda?
            --kernel row-marge @ | did you mean row-merge?
            --backend cpu --kernel two-pointer @ | two-pointer
            --devices 0,1,0 @ | --devices
            --devices 0, @ | --devices
            --devices 0,1 --device 0 @ | --devices
            --devices all --backend cpu @ | --devices
            --threads -3 @ | --threads: "-3" is not a whole number from 0 to 4096
            --threads 2x @ | --threads: "2x"
            --threads= @ | --threads: ""
            --threads 99999999999 @ | 0 to 4096
            --device -2 @ | --device: "-2"
            --verify ful @ | did you mean full?
            --verify -3 @ | --verify: "-3"
            --verify full --verify-seed 0 @ | --verify-seed
            --memory-limit 8Q @ | --memory-limit: "8Q"
            --memory-limit 0 @ | --memory-limit
            --memory-limit 99999999999999G @ | --memory-limit
            --progress sometimes @ | --progress
            -q -v @ | --verbose
            --report a.bin @ | same file as a.bin
            --report ./c.bin @ | same file as c.bin
            --report= @ | --report
            --trace - @ | --trace
            --trace c.bin @ | same file as c.bin
            --trace r.json --report r.json @ | same file as r.json
            --trace t.json --plan a.bin b.bin | --plan
            --rows 5 @ | --rows: "5"
            --rows 9:3 @ | --rows: "9:3"
            --rows 0:17 @ | 16 block rows
            --rows a:3 @ | "a"
            --rows 0:4294967296 @ | 0 to 4294967295
            --rows= @ | --rows: ""
            --triangle lower @ | --triangle: "lower" is not known
            --at-least 9.5 @ | --at-least: "9.5" is not a whole number from 0 to 4294967295
            --at-least 4294967296 @ | --at-least: "4294967296"
            --keep -1 @ | --keep: "-1" is not a whole number from 0 to 4294967295
            --gram @ | --gram: takes A and OUT alone
            --gram --transpose-b a.bin c.bin | --gram: is given together with --transpose-b
            --gram a.bin | (OUT)
            --pattern b.bin --keep 3 @ | --triangle, --no-diagonal, --at-least, --keep: does not go with the blocks of C
            a.bin b.bin c.mtx | spmm-convert c.bin c.mtx
            a.bin b.bin c'.npy | python3 -m spmm convert 'c'\\''.bin' 'c'\\''.npy'
            none.bin b.bin c.h5 | python3 -m spmm convert c.bin c.npz
            a.bin b.bin ./b.bin | same file as the input b.bin
            a.bin a.bin a.bin | same file
            """)
        self.check(USAGE, ["", "b.bin", "c.bin"], "(A)")
        files = ["a.bin", "b.bin", "c.bin"]
        has_cuda = "two-pointer     cuda: " in run("spmm", "--help", "all").out
        self.check(USAGE if has_cuda else UNAVAILABLE, ["--backend", "cuda", "--kernel", "row-merge", *files],
                   "row-merge" if has_cuda else "demo.sh --cuda")
        for name, value in (("SPMM_THREADS", "many"), ("SPMM_BACKEND", "gpu"), ("SPMM_MEMORY_LIMIT", "lots")):
            self.check(USAGE, files, f'{name} (environment): "{value}"', {name: value})

    def add_bad_files(self):
        two = record(0, 0) + record(1, 1)
        for name, content in {
                "m0": header(64, 0, 0), "cut": header(64, 4, 3) + two, "long": header(64, 4, 2) + two + b"x",
                "row": header(64, 4, 2) + record(0, 0) + record(16, 0), "column": header(64, 4, 2) + record(0, 0) + record(0, 2**32 - 1),
                "twice": header(64, 4, 3) + record(2, 3) + record(0, 0) + record(2, 3), "bigendian": header(0x40000000, 0x04000000, 0)}.items():
            write(name + ".bin", content)
        random_matrix(128, 4, 10, 9, 3).write("n128.bin")
        random_matrix(64, 8, 10, 9, 4).write("m8.bin")
        Matrix(64, 4, [(0, 0, [7] * 16)], "I").write("product.bin")
        write("table.csv", "1,2,3\n4,5,6\n7,8,9\n")
        write("few.txt", "1 2\n")
        write("d.h5", b"\x89HDF\r\n\x1a\n\0\0\0\0\0\x08")
        os.mkdir("folder")

    def test_files(self):
        self.add_bad_files()
        self.check_table(NO_INPUT, """
            missing.bin b.bin c.bin | missing.bin:
            a.bin missing.bin c.bin | missing.bin:
            folder b.bin c.bin | folder:
            a.bin /dev/null c.bin | /dev/null:
            a.bin/x b.bin c.bin | a.bin/x:
            """)
        self.check_table(BAD_DATA, """
            table.csv b.bin c.bin | spmm-convert
            a.bin few.txt c.bin | spmm-convert
            d.h5 b.bin c.bin | python3 -m spmm convert
            m0.bin b.bin c.bin | m0.bin, byte offset 4:
            cut.bin b.bin c.bin | cut.bin, record 2 (byte offset 92):
            long.bin b.bin c.bin | long.bin, byte offset 92:
            row.bin b.bin c.bin | row.bin, record 1 (byte offset 52): block index (16, 0)
            a.bin column.bin c.bin | column.bin, record 1 (byte offset 52):
            twice.bin b.bin c.bin | twice.bin, record 2 (byte offset 92): block (2, 3)
            --kernel reference twice.bin b.bin c.bin | twice.bin, record 2
            --transpose-a row.bin b.bin c.bin | row.bin, record 1 (byte offset 52): block index (16, 0)
            bigendian.bin b.bin c.bin | little-endian
            a.bin n128.bin c.bin | a.bin and n128.bin:
            --pattern n128.bin a.bin b.bin c.bin | a.bin and n128.bin:
            m8.bin b.bin old.bin | m8.bin and b.bin:
            product.bin b.bin c.bin | spmm-convert product.bin product16.bin
            --plan cut.bin b.bin | cut.bin, record 2
            --plan a.bin n128.bin | a.bin and n128.bin:
            """)

    def test_outputs_and_limits(self):
        self.add_bad_files()
        self.check_table(CANNOT_CREATE, """
            a.bin b.bin none/c.bin | mkdir -p none
            a.bin b.bin folder | folder/out.bin
            a.bin b.bin a.bin/c.bin | a.bin/c.bin:
            a.bin b.bin /proc/c.bin | /proc/c.bin:
            --no-clobber a.bin b.bin old.bin | old.bin:
            --report none/r.json a.bin b.bin old.bin | mkdir -p none
            --report folder a.bin b.bin old.bin | folder:
            --trace none/t.json a.bin b.bin old.bin | none/t.json:
            """)
        self.check_table(IO_ERROR, "a.bin b.bin /dev/full | /dev/full,")
        self.check_table(MEMORY, """
            --backend cpu --memory-limit 1000 a.bin b.bin old.bin | (1000 bytes)
            --backend cpu --kernel reference --memory-limit 800 @ | --memory-limit
            --backend cpu --plan --memory-limit 1000 a.bin b.bin | (1000 bytes)
            """)

    def test_an_output_that_is_an_input_by_another_name_stays_as_it_is(self):
        os.symlink("a.bin", "soft.bin")
        os.link("b.bin", "hard.bin")
        before = bytes_of("a.bin") + bytes_of("b.bin")
        self.check_table(USAGE, """
            a.bin b.bin soft.bin | soft.bin:
            a.bin b.bin hard.bin | hard.bin:
            soft.bin b.bin a.bin | a.bin:
            """)
        self.assertEqual(bytes_of("a.bin") + bytes_of("b.bin"), before)

    def write_hole(self, name, n, m, count):
        write(name, header(n, m, count))
        os.truncate(name, 12 + count * record_bytes(m))

    def test_a_result_that_is_not_expected_to_fit_the_disk(self):
        for name in ("left.bin", "right.bin"):  # 136 GB of holes each; their product would have more than 100 TB
            self.write_hole(name, 8_000_000, 8, 1_000_000_000)
        words = ["spmm", "--backend", "cpu", "--memory-limit", "300k", "left.bin", "right.bin", "c.bin"]
        self.expect(CANNOT_CREATE, run(*words, "--strict-space"), " TB by a sample of the indices, and ")
        warned = self.expect(MEMORY, run(*words))  # what fails afterwards
        self.assertTrue(warned.err.startswith("spmm: warning: c.bin: the result takes about "))
        self.assertFalse(os.path.exists("c.bin"))
        self.assertEqual(self.expect(OK, run("spmm", "--strict-space", "a.bin", "b.bin", "c.bin")).err, "")
        whole, triangle = (float(re.search(r"about ([0-9.]+) TB", run(*words, "--strict-space", *more).err)[1])
                           for more in ((), ("--triangle", "upper")))
        self.assertAlmostEqual(triangle, whole / 2, delta=whole / 100)

    def test_strict_space_counts_the_scratch_file_of_a_product_out_of_core(self):
        free = shutil.disk_usage(".").free
        if free > 800_000_000_000 or shell("stat -f -c %T . | grep -q tmpfs").code == 0:
            self.skipTest("with more space the result alone does not fit; in memory the scratch file lies elsewhere")
        for name in ("left.bin", "right.bin"):  # so many rows that the result is small
            self.write_hole(name, 62_000_000 * 64, 64, free // record_bytes(64) * 11 // 20)
        self.expect(CANNOT_CREATE, run("spmm", "--strict-space", "--backend", "cpu", "--memory-limit", "2G", "left.bin", "right.bin", "c.bin"),
                    "; a scratch file of ")
        self.assertFalse(os.path.exists("c.bin"))

    def test_standard_streams_that_are_closed_are_no_file_of_the_product(self):
        spmm = BIN / "spmm"
        self.expect(OK, shell(f"exec {spmm} -q a.bin b.bin old.bin <&- >&- 2>&-"))
        self.assertEqual(bytes_of("old.bin"), self.expected())
        self.expect(IO_ERROR, shell(f"exec {spmm} info a.bin >&-"), "standard output: writing failed")
        self.assertEqual(Matrix.read("a.bin"), self.a)


class FixedOutputs(Workplace):
    PLACES = [  # how it is made, undone and tried; the output, what is said
        ("unshare -rm sh -c 'mount --bind c.bin old.bin && exec \"$@\"' sh ", ":", "unshare -rm sh -c 'mount --bind c.bin old.bin'",
         "old.bin", "is a mount point"),
        ("chattr +a old.bin; ", "chattr -a old.bin", "chattr +a old.bin", "old.bin", "the existing file is append-only"),
        ("chattr +i old.bin; ", "chattr -i old.bin", "chattr +i old.bin", "old.bin", "the existing file is immutable"),
        ("chattr +a folder; ", "chattr -a folder", "chattr +a folder", "folder/old.bin", "is append-only"),
        ("chattr +a folder; ", "chattr -a folder", "chattr +a folder", "folder/new.bin", "is append-only"),
        ("chattr +i folder; ", "chattr -i folder", "chattr +i folder", "folder/new.bin", "is immutable")]

    def test_mount_points_and_files_with_attributes_are_refused_before_the_work(self):
        os.mkdir("folder")
        write("folder/old.bin", OLD)
        bin_folder = BIN
        for rows, out in ((":", "c.bin"), ("0:8", "c0.bin"), ("8:", "c1.bin")):
            self.expect(OK, run("spmm", "-q", "--backend", "cpu", "--rows", rows, "a.bin", "b.bin", out))
        write("a.mtx", "%%MatrixMarket matrix coordinate integer general\n2 2 1\n1 1 3\n")
        for make, clean, attempt, out, problem in self.PLACES:
            is_possible = shell(attempt).code == 0
            shell(clean)
            if not is_possible:
                print("not possible here: " + attempt)
                continue
            for command in (f"spmm --backend cpu a.bin b.bin {out}", f"spmm --backend cpu --report {out} a.bin b.bin d.bin",
                            f"spmm --backend cpu --trace {out} a.bin b.bin d.bin", f"spmm-gen --n 64 --m 4 --k 3 {out}",
                            f"spmm-cat c0.bin c1.bin {out}", f"spmm-convert a.mtx {out}"):
                with self.subTest(make + command):
                    result = shell(f"{make}{bin_folder}/{command}")
                    shell(clean)
                    self.expect(CANNOT_CREATE, result, problem, "choose another output path")
                    self.assertEqual((bytes_of("old.bin"), bytes_of("folder/old.bin")), (OLD, OLD))
                    self.assertEqual(os.listdir("folder"), ["old.bin"])
                    self.assertFalse(os.path.exists("d.bin"))
