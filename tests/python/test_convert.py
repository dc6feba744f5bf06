"""python3 -m spmm convert: the rule for elements, both directions, hostile files, exit codes."""
import argparse
import contextlib
import io
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import zipfile

import numpy as np
import spmm
import spmm.__main__
from support import as_dense, needs_scipy, random_dense, random_source, sp

FORMATS = ["csr", "csc", "coo", "bsr"]


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def at(self, name):
        return str(self.folder / name)

    def convert(self, *arguments):
        """Exit code, standard output and error."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = spmm.__main__.main(["convert", *(str(a) for a in arguments)])
        return code, out.getvalue(), err.getvalue()

    def converted(self, *arguments):
        code, out, err = self.convert(*arguments)
        self.assertEqual((code, err), (0, ""))
        return out

    def refused(self, expected_code, words, *arguments):
        """With the message, and with nothing left of an output."""
        before = sorted(os.listdir(self.folder))
        code, out, err = self.convert(*arguments)
        self.assertEqual((code, out), (expected_code, ""), err)
        self.assertTrue(err.startswith("python3 -m spmm convert: error: "), err)
        self.assertEqual(len(err.splitlines()), 1)
        self.assertIn(words, err)
        self.assertEqual(sorted(os.listdir(self.folder)), before)

    def save(self, name, array):
        np.save(self.at(name), np.asarray(array))
        return self.at(name)

    def dense_of(self, name):
        """Of a .bin."""
        return as_dense(spmm._engine.read_arrays(self.at(name)))


class Elements(Folder):
    def test_arrays_of_every_type_and_back(self):
        rng = random_source(21)
        for dtype in ("?", "i1", "u1", ">i2", "<u2", ">u2", "<i4", ">u4", "<i8", ">i8", "<u8", "<f2", ">f4", "<f8"):
            top = {"?": 1, "i1": 127, "u1": 255, ">i2": 32767, "<f2": 2048}.get(dtype, 65535)
            dense = random_dense(rng, rng.randint(1, 20), rng.randint(1, 20), top=top, density=0.4)
            self.save("a.npy", np.array(dense.astype(dtype), order=rng.choice("CF")))
            expected = dense
            self.converted(self.at("a.npy"), self.at("a.bin"), "--block", rng.choice(["auto", 1, 3, 64]))
            rows, columns = expected.shape
            found = self.dense_of("a.bin")
            np.testing.assert_array_equal(found[:rows, :columns], expected)
            self.assertEqual(found.sum(), expected.sum())
            self.converted(self.at("a.bin"), self.at("b.npy"), "--shape", f"{rows}x{columns}", "--dtype", "uint16")
            back = np.load(self.at("b.npy"))
            self.assertEqual(back.dtype, np.uint16)
            np.testing.assert_array_equal(back, expected)

    @needs_scipy
    def test_sparse_matrices_and_back(self):
        rng = random_source(22)
        for number in range(40):
            m = rng.choice([1, 2, 4])
            dense = random_dense(rng, m * rng.randint(1, 6), m * rng.randint(1, 6), m, density=0.4)
            kind = FORMATS[number % 4]
            matrix = sp.bsr_matrix(dense, blocksize=(m, m)) if kind == "bsr" else getattr(sp, kind + "_matrix")(dense)
            sp.save_npz(self.at("a.npz"), matrix, compressed=rng.random() < 0.5)
            self.converted(self.at("a.npz"), self.at("a.bin"))
            rows, columns = dense.shape
            np.testing.assert_array_equal(self.dense_of("a.bin")[:rows, :columns], dense)
            if kind == "bsr":
                self.assertEqual(spmm.read(self.at("a.bin")).data.shape[1], m)
            self.converted(self.at("a.bin"), self.at("b.npz"), "--shape", "%dx%d" % dense.shape, *(["--deflate"] if number % 2 else []))
            back = sp.load_npz(self.at("b.npz"))
            self.assertEqual(back.dtype, np.int64)
            np.testing.assert_array_equal(back.toarray(), dense)
            whole = sp.load_npz(self.at("b.npz")).format
            self.assertIn(whole, ("bsr", "coo"))

    @needs_scipy
    def test_elements_that_are_stored_several_times_are_added_up(self):
        at = (np.array([1, 0, 1, 1]), np.array([2, 0, 2, 2]))
        sp.save_npz(self.at("a.npz"), sp.coo_matrix((np.array([65534, 7, 2, -1]), at), shape=(2, 3)))
        self.converted(self.at("a.npz"), self.at("a.bin"), "--block", 1)
        self.assertEqual(self.dense_of("a.bin").tolist(), [[7, 0, 0], [0, 0, 65535], [0, 0, 0]])
        sp.save_npz(self.at("b.npz"), sp.coo_matrix((np.array([65534, 7, 2, 0]), at), shape=(2, 3)))
        self.refused(65, "the sum of 2 elements at row 1, column 2 (counted from 0) is 65536",
                     self.at("b.npz"), self.at("b.bin"))
        sp.save_npz(self.at("c.npz"), sp.coo_matrix((np.array([2.0**53, 7, 1, -2.0**53]), at), shape=(2, 3)))
        self.refused(65, "row 1, column 2", self.at("c.npz"), self.at("c.bin"))

    def test_the_table_of_the_rule(self):
        """In every order of the numbers, and whatever surrounds them."""
        rng, count = random_source(24), 0
        for line in (pathlib.Path(__file__).parent.parent / "unit/tools/convert/elements.tsv").read_text().splitlines():
            if line.startswith("#"):
                continue
            values, scale, rounds, saturates, expected, change = line.split("\t")
            numbers, count = [float(value) for value in values.split()], count + 1
            options = argparse.Namespace(input="a.npz", scale=float(scale), round=rounds == "yes",
                                         on_overflow="saturate" if saturates == "yes" else "error")
            for _ in range(20):
                rng.shuffle(numbers)
                others = rng.randrange(20) if float(scale) > 0 and 1 / float(scale) * float(scale) == 1 else 0
                at = [(5, 2)] * sum(number != 0 for number in numbers) + [(x, 3 + x) for x in range(others)]
                together = list(zip(at, [number for number in numbers if number != 0] + [1 / float(scale)] * others))
                rng.shuffle(together)
                places = np.array([place for place, _ in together], dtype=np.int64).reshape(-1, 2)
                entries = spmm._convert.Entries(places[:, 0], places[:, 1], np.array([x for _, x in together], dtype=float),
                                                (30, 30), 0)
                try:
                    found = spmm._convert.make_elements(entries, options)
                except spmm.FormatError as error:
                    self.assertIn(expected, str(error), line)
                    continue
                stored = [int(x) for r, c, x in zip(*found[:3]) if (r, c) == (5, 2)]
                self.assertEqual(stored or [0], [int(expected)], line)
                self.assertEqual(found.changes, "" if change == "-" else ", 1 " + {
                    "rounded": "rounded", "raised": "raised to 0", "cut": "cut to 65535"}[change], line)
        self.assertGreater(count, 50)

    def test_what_breaks_the_rule_is_named(self):
        for value, words in [(-3.0, "negative"), (2.5, "not a whole number"), (np.inf, "above 65535"), (np.nan, "not a number")]:
            array = np.ones((3, 4))
            array[1, 2] = value
            a = self.save("a.npy", array)
            self.refused(65, "a.npy: the element at row 1, column 2 (counted from 0) is ", a, self.at("a.bin"))
            self.refused(65, words, a, self.at("a.bin"))

    def test_the_summary_counts_what_was_changed(self):
        a = self.save("a.npy", [[0.5, 1.5, -2.5], [70000, 80000.5, 3]])
        self.assertIn("a.bin: 2 x 3, 4 elements, 2 rounded, 1 raised to 0, 2 cut to 65535 -> n 3, m 3, 1 blocks (44 % full), in ",
                      self.converted(a, self.at("a.bin"), "--round", "--on-overflow", "saturate"))
        self.assertEqual(self.dense_of("a.bin").tolist(), [[0, 2, 0], [65535, 65535, 3], [0, 0, 0]])
        self.assertEqual(self.converted(a, self.at("a.bin"), "--round", "--on-overflow", "saturate", "-q"), "")

    def test_scale(self):
        a = self.save("a.npy", [[0.25, 1 / 65536], [0, 1]])
        self.converted(a, self.at("a.bin"), "--scale", "65536", "--on-overflow", "saturate")
        self.assertEqual(self.dense_of("a.bin").tolist(), [[16384, 1], [0, 65535]])
        self.converted(self.at("a.bin"), self.at("b.npy"), "--scale", "1/65536")
        self.assertEqual(np.load(self.at("b.npy")).tolist(), [[0.25, 1 / 65536], [0, 65535 / 65536]])

    def test_block_sides_and_sizes(self):
        a = self.save("a.npy", np.kron(np.eye(3), np.ones((4, 4))))
        for options, n, m in [([], 12, 4), (["--n", 20], 20, 4), (["--block", 5], 15, 5), (["--n", 13], 13, 13), (["--n", 17], 17, 1),
                              (["--block", 64], 64, 64)]:
            self.converted(a, self.at("a.bin"), *options)
            self.assertEqual(np.fromfile(self.at("a.bin"), "<u4", 2).tolist(), [n, m], options)
        self.converted(self.save("b.npy", np.ones((2, 3))), self.at("b.bin"), "--like", self.at("a.bin"))
        self.assertEqual(np.fromfile(self.at("b.bin"), "<u4", 2).tolist(), [64, 64])
        self.refused(2, "--like: ", self.save("c.npy", np.ones((65, 1))), self.at("c.bin"), "--like", self.at("b.bin"))
        self.refused(2, "--n: ", a, self.at("c.bin"), "--n", 40, "--block", 3)

    def test_results_and_empty_matrices(self):
        column = spmm.Bsr(np.array([0, 1, 1]), np.array([0]), np.full((1, 2, 2), 65535, np.uint16), (4, 4))
        spmm.write(self.at("c.bin"), spmm.multiply(column, column))
        self.converted(self.at("c.bin"), self.at("c.npy"), "--dtype", "uint32")
        self.assertEqual(np.load(self.at("c.npy"))[0].tolist(), [2**32 - 1, 2**32 - 1, 0, 0])
        self.refused(65, "4294967295", self.at("c.bin"), self.at("d.npy"), "--dtype", "uint16")
        self.refused(65, "row 0, column 1 ", self.at("c.bin"),
                     self.at("d.npy"), "--shape", "4x1")
        self.converted(self.save("zero.npy", np.zeros((5, 3))), self.at("zero.bin"))
        self.assertEqual(np.fromfile(self.at("zero.bin"), "<u4").tolist(), [64, 64, 0])
        self.converted(self.at("zero.bin"), self.at("zero.npy"), "--shape", "5x3")
        self.assertEqual(np.load(self.at("zero.npy")).tolist(), [[0] * 3] * 5)


class Files(Folder):
    def test_command_lines(self):
        a = self.save("a.npy", np.ones((2, 2)))
        self.converted(a, self.at("a.bin"))
        (self.folder / "m.mtx").write_text("%%MatrixMarket matrix coordinate integer general\n1 1 0\n")
        for words, arguments in [
                ("required", []), ("--blok", [a, self.at("b.bin"), "--blok"]), ('"77"', [a, self.at("b.bin"), "--block", 77]),
                ('"1/0"', [a, self.at("b.bin"), "--scale", "1/0"]), ('""', [self.at("a.bin"), self.at("b.npy"), "--shape", 3]),
                ("b.bin: ", [self.at("a.bin"), self.at("b.bin")]), ("b.npz: ", [a, self.at("b.npz")]),
                ("a.npy: ", [a, a]), ("--shape: ", [a, self.at("b.bin"), "--shape", "2x2"]),
                ("--block: ", [self.at("a.bin"), self.at("b.npy"), "--block", 2]),
                ("--deflate: ", [self.at("a.bin"), self.at("b.npy"), "--deflate"]),
                ("--n: ", [a, self.at("b.bin"), "--n", 4, "--like", self.at("a.bin")]),
                ("--dtype float64", [self.at("a.bin"), self.at("b.npy"), "--scale", 2, "--dtype", "int64"]),
                ("spmm-convert", [self.at("m.mtx"), self.at("b.bin")]), ("spmm-convert", [self.at("a.bin"), self.at("b.mtx")]),
                ("--shape: ", [self.at("a.bin"), self.at("b.npy"), "--shape", "3x1"])]:
            self.refused(2, words, *arguments)
        os.link(a, self.at("same.bin"))
        self.refused(2, "is an input", a, self.at("same.bin"))
        done = subprocess.run([sys.executable, "-m", "spmm", "convert", a, self.at("b.bin")], capture_output=True, text=True,
                              timeout=300)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for arguments, code in (([], 2), (["convert", "--help"], 0)):
            done = subprocess.run([sys.executable, "-m", "spmm", *arguments], capture_output=True, text=True, timeout=300)
            self.assertEqual((done.returncode, "convert [" in done.stdout + done.stderr), (code, True))

    def test_the_content_of_an_input_tells_what_it_is(self):
        spmm.write(self.at("c.bin"), spmm.Bsr(np.array([0, 1, 1]), np.array([1]), np.array([[[7]]], dtype=np.uint32), (2, 2)))
        for name in ("c1", "c1.npy"):
            os.rename(self.at("c.bin"), self.at(name))
            self.converted(self.at(name), self.at("out.npy"))
            self.assertEqual(np.load(self.at("out.npy")).tolist(), [[0, 7], [0, 0]])
            os.rename(self.at(name), self.at("c.bin"))
        os.rename(self.at("out.npy"), self.at("out"))
        self.converted(self.at("out"), self.at("made"))
        self.assertEqual(self.dense_of("made").tolist(), [[0, 7], [0, 0]])

    def test_files_that_are_not_there(self):
        a = self.save("a.npy", np.ones((2, 2)))
        self.refused(66, "none.npy: ", self.at("none.npy"), self.at("b.bin"))
        self.refused(66, "none.bin: ", self.at("none.bin"), self.at("b.npy"))
        self.refused(66, "none.bin: ", a, self.at("b.bin"), "--like", self.at("none.bin"))
        for content in (b"", b"abc", b"\3\0\0\0\2\0\0\0" + b"\0" * 4, b"\0" * 12):
            (self.folder / "like.bin").write_bytes(content)
            self.refused(65, "like.bin", a, self.at("b.bin"), "--like", self.at("like.bin"))
            self.refused(65, "like.bin", self.at("like.bin"), self.at("b.npy"))
        spmm.write(self.at("good.bin"), np.ones((2, 2)))
        os.mkdir(self.at("folder.bin"))
        os.mkdir(self.at("folder.npy"))
        for name, given, ending in (("no/such/b", a, ".bin"), ("folder", a, ".bin"), ("no/such/b", self.at("good.bin"), ".npy"),
                                    ("folder", self.at("good.bin"), ".npy"), ("n" * 256, a, ".bin")):
            self.refused(73, name, given, self.at(name + ending))

    def test_the_old_output_stays_until_the_new_one_is_complete(self):
        a = self.save("a.npy", np.ones((2, 2)))
        (self.folder / "real.bin").write_text("old")
        os.chmod(self.at("real.bin"), 0o640)
        os.symlink("real.bin", self.at("b.bin"))
        self.refused(65, "negative", self.save("bad.npy", -np.ones((2, 2))), self.at("b.bin"))
        self.assertEqual((self.folder / "real.bin").read_text(), "old")
        for kind in (KeyboardInterrupt, MemoryError, OSError):
            with self.assertRaises((kind, spmm.IoError)), spmm._convert.complete_output(self.at("b.bin")) as file:
                file.write(b"half")
                raise kind
            self.assertEqual((self.folder / "real.bin").read_text(), "old")
        self.converted(a, self.at("b.bin"))
        self.assertTrue(os.path.islink(self.at("b.bin")))
        self.assertEqual(os.stat(self.at("real.bin")).st_mode & 0o777, 0o640)
        self.assertEqual(self.dense_of("real.bin").tolist(), [[1, 1], [1, 1]])
        self.assertEqual(sorted(os.listdir(self.folder)), ["a.npy", "b.bin", "bad.npy", "real.bin"])


class Planted:
    def __reduce__(self):
        return os.system, ("touch planted",)


class HostileFiles(Folder):
    def test_control_characters_of_names_are_shown_as_numbers(self):
        name = "e\x1b[31m\x7f\u009b" + os.fsdecode(b"\x9b") + "é.bin"
        shown = "e\\x1b[31m\\x7f\\xc2\\x9b\\x9bé.bin"
        self.assertIn(shown, self.converted(self.save("a.npy", [[1]]), self.at(name)))
        self.assertIn(shown, self.convert(self.at("none" + name), self.at("x.npy"))[2])

    def test_nothing_is_unpickled(self):
        array = np.array([[Planted()]], dtype=object)
        np.save(self.at("a.npy"), array, allow_pickle=True)
        np.savez(self.at("a.npz"), format=array, data=array, shape=array)
        before = os.getcwd()
        os.chdir(self.folder)
        self.addCleanup(os.chdir, before)
        self.refused(65, "a.npy", "a.npy", "a.bin")
        if sp is not None:
            self.refused(65, "a.npz", "a.npz", "a.bin")

    def test_arrays_beyond_the_limit(self):
        a = self.save("a.npy", np.zeros((300, 300), dtype=np.int32))
        self.refused(71, "a.npy: its arrays have 360128 bytes", a, self.at("a.bin"), "--memory-limit", "300K")
        self.converted(a, self.at("a.bin"), "--memory-limit", "500K")
        self.refused(71, "a dense array of 320 x 320 elements", self.at("a.bin"), self.at("b.npy"), "--memory-limit", "500K")
        with open(self.at("head.npy"), "wb") as file:  # 8 EB announced
            np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": (2**30, 2**30)})
        code, _, err = self.convert(self.at("head.npy"), self.at("b.bin"))
        self.assertIn(code, (65, 71), err)

    def test_conversions_stay_below_their_limit(self):
        """A limit that is just enough by the page: arrays, 144 bytes for each element, blocks."""
        rng, count = np.random.default_rng(1), 600_000
        self.save("full.npy", rng.integers(1, 200, (600, 1000)).astype(np.uint8))
        self.converted(self.at("full.npy"), self.at("full.bin"), "--block", 8)
        cases = [("full.npy", "a.bin", 2.2, ["--block", 8]), ("full.bin", "a.npy", 8, [])]
        if sp is not None:
            coo = sp.coo_matrix((rng.integers(1, 100, count).astype(float), rng.integers(0, 9000, (2, count))), shape=(9000, 9000))
            sp.save_npz(self.at("coo.npz"), coo, compressed=False)
            cases += [("coo.npz", "a.bin", 16, ["--block", 2, "--round", "--on-overflow", "saturate"]), ("full.bin", "a.npz", 3, [])]
        code = ("import re, resource, sys, spmm.__main__\n"
                "if '.npz' in sys.argv[1] + sys.argv[2]: import scipy.sparse\n"
                "before = int(re.search(r'VmRSS:\\s*([0-9]+) kB', open('/proc/self/status').read())[1])\n"
                "assert spmm.__main__.main(['convert', '-q', *sys.argv[1:]]) == 0\n"
                "print(1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before))\n")
        for name, to, bytes_beside, options in cases:
            limit = int((144 + bytes_beside) * count)
            # A shell between the two: the peak of a process is at least that of the one that has made it.
            done = subprocess.run(["sh", "-c", '"$@"; exit $?', "sh", sys.executable, "-c", code, self.at(name), self.at(to),
                                   *map(str, options), "--memory-limit", str(limit)], capture_output=True, text=True, timeout=300)
            self.assertEqual(done.stderr, "")
            self.assertLess(int(done.stdout), limit + 4_000_000, name)
            self.refused(71, f"{name}: its elements need", self.at(name), self.at(to), *options, "--memory-limit", 144 * count)

    def test_control_groups(self):
        """Free memory of a machine and its groups."""
        root = str(self.folder) + "/"

        def write(path, content):
            (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / path).write_text(content)

        free = lambda: spmm.__main__.free_memory(root)
        self.assertEqual(free(), 10**9)
        write("proc/meminfo", "MemTotal: 9 kB\nMemAvailable:   5000000 kB\n")
        self.assertEqual(free(), 5_000_000 * 1024)
        write("proc/self/cgroup", "0::/a/b\n")
        self.assertEqual(free(), 5_000_000 * 1024)
        write("sys/fs/cgroup/memory.max", "900000000\n")
        write("sys/fs/cgroup/memory.current", "100000000\n")
        self.assertEqual(free(), 800_000_000)
        write("sys/fs/cgroup/a/memory.max", "max\n")
        write("sys/fs/cgroup/a/b/memory.max", "120000000\n")
        write("sys/fs/cgroup/a/b/memory.current", "50000000\n")
        write("sys/fs/cgroup/a/b/memory.stat", "anon 9\ninactive_file 10000000\nactive_file 5000000\n")
        self.assertEqual(free(), 85_000_000)
        write("sys/fs/cgroup/a/memory.high", "60000000\n")
        self.assertEqual(free(), 60_000_000)

    def test_an_array_that_ends_like_an_archive(self):
        dense = np.ones((300, 300), dtype=np.uint16)
        dense[0, 0] = 7
        a = self.save("a.npy", dense)
        with open(a, "r+b") as file:  # the end of an empty archive, as elements
            file.seek(-22, os.SEEK_END)
            file.write(b"PK\5\6" + b"\0" * 18)
        self.refused(71, "a.npy: ", a, self.at("a.bin"), "--memory-limit", "100K")
        self.converted(a, self.at("a.bin"), "--block", 1, "--memory-limit", "20M")
        found = self.dense_of("a.bin")
        self.assertEqual(found[0, 0], 7)
        self.assertEqual(found[299, 289:].tolist(), np.frombuffer(b"PK\5\6" + b"\0" * 18, "<u2").tolist())

    @needs_scipy
    def test_members_that_change_the_meaning(self):
        good = {"format": b"csr", "shape": [2, 3], "indptr": [0, 1, 2], "indices": [0, 2], "data": [5, 6]}
        np.savez(self.at("a.npz"), **good, _is_array=True)
        self.converted(self.at("a.npz"), self.at("a.bin"))
        for more in ({"fill_value": 1}, {"fill_value": 0}, {"row": [0, 1]}, {"scale": 2.0}):
            np.savez(self.at("b.npz"), **good, **more)
            self.refused(65, f"b.npz, {next(iter(more))}", self.at("b.npz"), self.at("b.bin"))
        coo = {"format": b"coo", "shape": [2, 3], "row": [0, 1], "col": [0, 2], "data": [5, 6]}
        for more in ({"coords": [[0, 1], [0, 2]]}, {"fill_value": np.float64(1)}, {"indptr": [0, 1, 2]}):
            np.savez(self.at("b.npz"), **coo, **more)
            self.refused(65, "b.npz", self.at("b.npz"), self.at("b.bin"))
        np.savez(self.at("b.npz"), **good)
        with self.assertWarns(UserWarning), zipfile.ZipFile(self.at("b.npz"), "a") as archive:
            archive.writestr("data.npy", archive.read("data.npy"))
        self.refused(65, "b.npz, data", self.at("b.npz"), self.at("b.bin"))

    @needs_scipy
    def test_archives_beyond_the_limit(self):
        matrix = sp.csr_matrix((np.zeros(300000), np.zeros(300000, int), np.array([0, 300000])), shape=(1, 1))
        sp.save_npz(self.at("bomb.npz"), matrix)
        self.assertLess(os.path.getsize(self.at("bomb.npz")), 20_000)
        self.refused(71, "its arrays have", self.at("bomb.npz"), self.at("b.bin"), "--memory-limit", "1M")
        content = bytearray((self.folder / "bomb.npz").read_bytes())
        with zipfile.ZipFile(self.at("bomb.npz")) as archive:
            real = archive.getinfo("data.npy").file_size
        at = content.rfind(b"data.npy") - 46  # of the central directory
        self.assertEqual(content[at + 24:at + 28], real.to_bytes(4, "little"))
        content[at + 24:at + 28] = (4_000_000_000).to_bytes(4, "little")
        (self.folder / "lie.npz").write_bytes(content)
        self.refused(65, "announces 4000000000 bytes", self.at("lie.npz"), self.at("b.bin"))

    @needs_scipy
    def test_indices_that_lead_outside(self):
        good = {"format": b"csr", "shape": np.array([2, 3]), "indptr": np.array([0, 1, 2]), "indices": np.array([0, 2]),
                "data": np.array([5, 6])}
        for name, value in [("indices", [0, 3]), ("indices", [-1, 0]), ("indices", [0]), ("indptr", [0, 2, 1]), ("indptr", [0, 1, 9]),
                            ("indptr", [1, 1, 2]), ("indptr", [0, 1]), ("indptr", [0, -5, 2]), ("shape", [2]), ("shape", [-2, 3]),
                            ("shape", [2, 2**40]), ("format", b"dia"), ("format", b"xyz"), ("data", [[5, 6]]),
                            ("data", [5j, 6]), ("data", ["5", "6"])]:
            for kind in ("csr", "csc"):
                shape = [3, 2] if kind == "csc" and name != "shape" else good["shape"]
                arrays = {**good, "format": kind.encode(), "shape": shape, name: np.array(value)}
                np.savez(self.at("a.npz"), **arrays)
                self.refused(65, "a.npz", self.at("a.npz"), self.at("a.bin"))
        for row in (2, -1):
            np.savez(self.at("a.npz"), format=b"coo", shape=np.array([2, 3]), row=np.array([0, row]), col=np.array([0, 2]),
                     data=np.array([5, 6]))
            self.refused(65, "a.npz", self.at("a.npz"), self.at("a.bin"))

    @needs_scipy
    def test_bytes_that_changed(self):
        rng = random_source(23)
        dense = random_dense(rng, 8, 12, 2, density=0.6)
        np.save(self.at("0.npy"), dense)
        for kind in FORMATS:
            sp.save_npz(self.at(kind + ".npz"), sp.coo_matrix(dense).asformat(kind), compressed=kind in ("csr", "bsr"))
        for name in sorted(os.listdir(self.folder)):
            content = (self.folder / name).read_bytes()
            bad = "bad" + name[-4:]
            for _ in range(30):
                changed = bytearray(content[:rng.choice([len(content)] * 3 + [rng.randrange(len(content))])])
                for _ in range(rng.randint(1, 3)):
                    changed[rng.randrange(len(changed)) if changed else 0:][:1] = b""
                    if changed:
                        changed[rng.randrange(len(changed))] = rng.randrange(256)
                (self.folder / bad).write_bytes(changed)
                code, _, err = self.convert(self.at(bad), self.at("bad.bin"))
                self.assertIn(code, (0, 65, 71), err)
            os.remove(self.at(bad))


if __name__ == "__main__":
    unittest.main()
