"""What does not fit is an error with its place; nothing is rounded, wrapped or cut."""
import contextlib
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy as np
import spmm
from spmm import _device
from spmm._elements import bad_elements
from spmm._library import check_alone, size_in_bytes
from support import as_arrays, as_dense, needs_scipy, random_dense, random_source, sp


def saturating(a, b, **options):
    return spmm.multiply(a, b, dtype="uint32", **options)


class Elements(unittest.TestCase):
    def refused(self, kind, words, function, *arguments, **options):
        with self.assertRaises(kind) as caught:
            function(*arguments, **options)
        self.assertIn(words, str(caught.exception))
        return caught.exception

    def test_elements_that_do_not_fit(self):
        good = np.ones((4, 4), dtype=np.int64)
        for value, dtype in [(-1, np.int64), (65536, np.int64), (65536, np.uint32), (2**63, np.uint64), (0.5, np.float64),
                             (-0.25, np.float32), (np.nan, np.float64), (np.inf, np.float64), (1e300, np.float64),
                             (np.inf, np.float16), (-1, np.float16), (np.inf, np.float32), (np.inf, np.longdouble)]:
            bad = good.astype(dtype)
            bad[2, 3] = value
            for given in self.kinds_of(bad):
                error = self.refused(ValueError, "matrix B, row 2, column 3: element ", saturating, good, given)
                self.assertIsInstance(error, spmm.FormatError)
                self.assertEqual(error.place, "matrix B, row 2, column 3")

    def test_elements_are_compared_in_a_type_that_holds_65535(self):
        """All values of the narrow types, on the way of matrices of the host and of a device."""
        types = [np.dtype(name) for name in ("float16", "int8", "uint8", "int16", "uint16", "bool")]
        try:
            import ml_dtypes
            types += [np.dtype(kind) for kind in (ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2)]
        except ImportError:
            print("ml_dtypes cannot be imported: no bfloat16")
        for dtype in types:
            patterns = np.arange(2 ** (8 * dtype.itemsize)).astype(f"u{dtype.itemsize}")
            values = (patterns[:2] if dtype == bool else patterns).view(dtype)
            with np.errstate(invalid="ignore"):
                exact = values.astype(np.float64)
                good = (exact >= 0) & (exact <= 65535) & (exact == np.floor(exact))
                found = bad_elements(values, np)
            np.testing.assert_array_equal(np.zeros(len(values), bool) if found is None else found, ~good, str(dtype))
            if dtype != bool:
                np.testing.assert_array_equal(_device.elements(values[good], "matrix", np), exact[good].astype(np.uint16))
            for number in np.flatnonzero(~good & ~np.isnan(exact))[::97]:
                self.refused(spmm.FormatError, "no whole number from 0 to 65535", _device.elements, values[number:number + 1],
                             "matrix", np)

    @staticmethod
    def kinds_of(dense):
        kinds = [dense, spmm.Bsr(np.array([0, 2, 4]), np.array([0, 1, 0, 1]),
                                 dense.reshape(2, 2, 2, 2).transpose(0, 2, 1, 3).reshape(4, 2, 2), (4, 4))]
        if sp is not None and dense.dtype != np.float16:  # which no matrix of SciPy holds since 1.17
            kinds += [sp.csr_array(dense), sp.csc_array(dense), sp.coo_array(dense), sp.bsr_array(dense, blocksize=(2, 2))]
        return kinds

    @needs_scipy
    def test_sums_of_repeated_elements_do_not_wrap(self):
        at = (np.array([1, 1]), np.array([0, 0]))
        fits = sp.coo_array((np.array([65534, 1], dtype=np.uint16), at), shape=(2, 2))
        one = sp.coo_array((np.array([1]), (np.array([0]), np.array([1]))), shape=(2, 2))
        self.assertEqual(spmm.multiply(fits, one, dtype="uint32").toarray()[1, 1], 65535)
        wraps = sp.coo_array((np.array([65535, 1], dtype=np.uint16), at), shape=(2, 2))
        self.refused(ValueError, "row 1, column 0: element 65536", saturating, wraps, one)
        csr = sp.csr_array((np.array([65535, 1], dtype=np.uint16), np.array([0, 0]), np.array([0, 0, 2])), shape=(2, 2))
        self.refused(ValueError, "row 1, column 0: element 65536", saturating, csr, one)
        parts = sp.coo_array((np.array([-1, 2]), at), shape=(2, 2))
        self.refused(ValueError, "row 1, column 0: element -1", saturating, parts, one)

    def test_shapes_arrays_and_options(self):
        one, three = np.ones((2, 2)), np.ones((3, 3))
        indptr, indices, data = good = as_arrays(np.ones((4, 4), dtype=np.int64), 2)
        for kind, place, a, b, options in [
                (spmm.ShapeError, "2 x 3 and 2 x 3", np.ones((2, 3)), np.ones((2, 3)), {}), (spmm.ShapeError, "3 x 3", three, three, {"blocksize": 2}),
                (spmm.ShapeError, "matrix A", np.ones(3), three, {}), (spmm.UsageError, "matrix A", "a.bin", three, {}),
                (spmm.FormatError, "matrix B", one, np.ones((2, 2), complex), {}),
                (spmm.FormatError, "matrix A", (data, indices, indptr), good, {}),
                (spmm.FormatError, "matrix A, indptr[2]", (np.array([0, 4, 3]), indices, data), good, {}),
                (spmm.FormatError, "matrix B, indices[3] (block row 1)", good, (indptr, np.array([0, 1, 0, 7]), data), {}),
                (spmm.FormatError, "matrix B", good, (indptr, indices[:3], data), {}),
                (spmm.FormatError, "indices[2] (block row 1)", good, (indptr, np.array([0, 1, 1, 1]), data), {}),
                (spmm.FormatError, "matrix A", (indptr * 1.0, indices, data), good, {}),
                (spmm.UsageError, "kernel: ", one, one, {"kernel": "none"}), (spmm.UsageError, "backend: ", one, one, {"backend": "gpu"}),
                (spmm.UsageError, "triangle: is 'lower'", one, one, {"triangle": "lower"}),
                (spmm.UsageError, "has a NUL", one, one, {"kernel": "row-merge\0x"}),
                (spmm.UsageError, "blocksize: is 65", one, one, {"blocksize": 65}), (spmm.UsageError, "blocksize: is 1.5", one, one, {"blocksize": 1.5})]:
            self.refused(kind, place, saturating, a, b, **options)
        self.refused(spmm.UsageError, 'give dtype="uint32"', spmm.multiply, one, one, keep=3)
        self.refused(spmm.UsageError, "gram: takes no transpose_b", spmm.gram, one, transpose_b=True)
        if not spmm.has_cuda_device():
            self.refused(spmm.DeviceError, "backend = cpu", spmm.multiply, one, one, backend="cuda")

    def test_types_of_arguments(self):
        one = np.ones((2, 2))
        for options in ({"kernel": 3}, {"backend": 3}, {"kernel": ["row-merge"]}, {"report": []}, {"report": "report"}, {"progress": 3}):
            error = self.refused(TypeError, f"{next(iter(options))}: is ", spmm.multiply, one, one, **options)
            self.assertIsInstance(error, spmm.UsageError)
        empty = (np.array([0, 0]), np.array([], dtype=int), np.zeros((0, 0, 0)))
        for arguments in ((empty, one), (one, empty), (empty, empty)):
            self.refused(spmm.FormatError, "expected (blocks, m, m)", spmm.multiply, *arguments)
        self.refused(spmm.FormatError, "expected (blocks, m, m)", spmm.density, empty)

    def test_numbers_that_c_would_wrap(self):
        one = np.ones((2, 2))
        for name, value in [("verify", 2**64), ("verify", -1), ("verify", 1.0), ("verify", None), ("threads", -1),
                            ("threads", 2**32), ("threads", "2"), ("at_least", -1), ("at_least", 2**32), ("keep", 1.5)]:
            self.refused(spmm.UsageError, f"{name}: is {value!r}; give a whole number from 0 to ", spmm.multiply, one, one,
                         **{name: value})
        for name, value in [("threads", -1), ("threads", 2**32), ("memory_limit", -1), ("memory_limit", 2**64),
                            ("memory_limit", 1e9), ("devices", -5), ("devices", [-5]), ("devices", [0, 2**32]),
                            ("devices", [0.0]), ("devices", "0,1")]:
            self.refused(spmm.UsageError, f"{name}: ", spmm.Engine, **{name: value})
        spmm.Engine(threads=np.int64(2), devices=[], memory_limit=2**64 - 1).close()
        for text, size in (("1G", 10**9), ("1.5GiB", 3 * 2**29), ("200kb", 200_000), ("7", 7), ("16 E", 0), ("0", 0), ("-1G", 0),
                           ("", 0), ("99999999T", 0), ("1e9", 0)):
            if size:
                self.assertEqual(size_in_bytes("memory_limit", text), size)
                spmm.Engine(memory_limit=text).close()
            else:
                self.refused(spmm.UsageError, f'memory_limit: "{text}" is not a size such as 500M or 2G', spmm.Engine, memory_limit=text)
        arrays = as_arrays(np.ones((2, 2), dtype=np.int64), 2)
        for shape in [(2, 2**64 + 2), (2, 2.5), (2, -2)]:
            self.refused(ValueError, "matrix A, shape: is ", spmm.multiply, arrays + (shape,), arrays)

    def test_memory_limit(self):
        column = np.ones((1600, 8), dtype=np.uint16)
        with spmm.Engine(threads=1, memory_limit=8_000_000) as engine:  # 10 MB of result
            error = self.refused(MemoryError, "result in memory", engine.multiply, column, column.T, blocksize=8,
                                 backend="cpu")
            self.assertIsInstance(error, spmm.OutOfMemory)
            self.assertIn("raise memory_limit,", error.hint)
            self.assertEqual(engine.multiply(column[:80], column.T, blocksize=8, backend="cpu").shape, (80, 1600))

    def test_closed_engines(self):
        engine = spmm.Engine()
        engine.close()
        engine.close()
        self.refused(spmm.UsageError, "is closed", engine.multiply, np.ones((2, 2)), np.ones((2, 2)))


ENTRIES = [lambda m: saturating(m, m), lambda m: saturating(m, np.ones((4, 4)), blocksize=2),
           lambda m: saturating(np.ones((4, 4)), m, blocksize=2), spmm.density, spmm.csr_to_bsr,
           lambda m: spmm.write(os.devnull, m)]  # all functions that take a matrix


@needs_scipy
class Structures(unittest.TestCase):
    """What SciPy does not check, or only when asked to."""

    GOOD = {"data": [1, 2, 3, 4], "indices": [0, 1, 2, 3], "indptr": [0, 1, 2, 3, 4]}

    def made(self, kind, changed, dtype=np.uint16):
        if kind == "bsr":
            matrix = sp.bsr_array((np.ones((2, 2, 2), dtype), np.array([0, 1]), np.array([0, 1, 2])), shape=(4, 4))
            changed = {name: value[:3] if name == "indptr" else value[:2] for name, value in changed.items()}
        else:
            matrix = getattr(sp, kind + "_array")(tuple(np.array(self.GOOD[name], dtype if name == "data" else np.int32)
                                                        for name in ("data", "indices", "indptr")), shape=(4, 4))
        for name, value in changed.items():
            setattr(matrix, name, np.array(value, dtype=dtype if name == "data" else np.int32))
        return matrix

    def test_index_arrays_that_lead_outside(self):
        for changed in ({"indptr": [0, 5, 2, 3, 4]}, {"indptr": [0, 2**31 - 1, 2, 3, 4]}, {"indptr": [0, 4, 0, 0, 0]},
                        {"indptr": [0, -1, 2, 3, 4]}, {"indptr": [1, 1, 2, 3, 4]}, {"indptr": [0, 1]}, {"indices": [-1, 1, 2, 3]},
                        {"indices": [4, 1, 2, 3]}, {"indices": [0]}, {"indptr": [0, 1, 9, 9, 9]}):
            for kind in ("csr", "csc", "bsr"):
                for entry in ENTRIES:
                    with self.assertRaises(spmm.FormatError, msg=f"{kind} {changed}") as caught:
                        entry(self.made(kind, changed))
                    self.assertRegex(caught.exception.place, "^matrix( [AB])?, (indptr|indices)")
        lil = sp.lil_array(np.eye(4))
        lil.rows[1] = [9]
        flat = self.made("bsr", {})
        flat.data = flat.data.reshape(-1)
        for broken in (lil, flat):
            for entry in ENTRIES:
                with self.assertRaises(spmm.FormatError):
                    entry(broken)
        for row in (-1, 4, 2**31 - 1):
            for entry in ENTRIES:
                coo = sp.coo_array((np.array([1, 2]), (np.array([0, 1]), np.array([0, 1]))), shape=(4, 4))
                coo.row[1] = row
                with self.assertRaises(spmm.FormatError):
                    entry(coo)

    def test_spare_capacity_is_left_out(self):
        for kind, order in (("csr", [0, 1]), ("csr", [1, 0]), ("csc", [0, 1]), ("csc", [1, 0])):
            spare = {"indptr": [0, 2, 2, 2, 2], "indices": np.array([*np.array([0, 3])[order], 2, 2]), "data": [5, 6, 65535, 65535]}
            dense = np.zeros((4, 4), dtype=np.int64)
            dense[0, np.array([0, 3])[order]] = 5, 6
            dense = dense.T if kind == "csc" else dense
            for dtype in (np.uint16, np.int64):
                matrix = self.made(kind, spare, dtype)
                for options in ({}, {"blocksize": 2}):
                    np.testing.assert_array_equal(as_dense(spmm.multiply(matrix, np.eye(4, dtype=int), **options, dtype="uint32")), dense)
                np.testing.assert_array_equal(spmm.csr_to_bsr(matrix, 2).toarray(), dense)
                np.testing.assert_array_equal(spmm.density(matrix), dense != 0)
                self.assertEqual((len(matrix.data), len(matrix.indices)), (4, 4))  # the caller's stays as it is
        blocks = sp.bsr_array((np.ones((3, 2, 2), np.uint16), np.array([0, 1, 9]), np.array([0, 1, 2])), shape=(4, 4))
        np.testing.assert_array_equal(as_dense(spmm.multiply(blocks, np.eye(4), blocksize=2, dtype="uint32")), blocks.toarray())

    def test_flags_of_the_caller_are_not_believed(self):
        twice = sp.csr_array((np.array([32768, 32768], dtype=np.uint16), np.array([0, 0]), np.array([0, 2, 2])), shape=(2, 2))
        for flag in (True, False):
            twice.has_canonical_format = twice.has_sorted_indices = flag
            with self.assertRaisesRegex(spmm.FormatError, "row 0, column 0: element 65536"):
                spmm.multiply(twice, np.eye(2), dtype="uint32")

    def test_elements_that_are_stored_several_times(self):
        """spmm.multiply adds them up as numbers, also truth values; csr_to_bsr refuses them, whatever their type."""
        for dtype, values in (("uint8", [255, 1]), ("uint16", [65535, 1]), ("bool", [1, 1]), ("int64", [3, 4]), ("float64", [0.5, 0.5])):
            at = (np.array([1, 1]), np.array([0, 0]))
            coo = sp.coo_array((np.array(values, dtype=dtype), at), shape=(2, 2))
            csr = sp.csr_array((np.array(values, dtype=dtype), np.array([0, 0]), np.array([0, 0, 2])), shape=(2, 2))
            for matrix in (coo, csr):
                with self.assertRaisesRegex(spmm.FormatError, "an element is stored twice"):
                    spmm.csr_to_bsr(matrix, 2)
                np.testing.assert_array_equal(spmm.density(matrix), [[0, 0], [1, 0]])
                if sum(values) <= 65535 and dtype != "float64":
                    self.assertEqual(spmm.multiply(matrix, np.eye(2), dtype="uint32").toarray()[1, 0], sum(values))
                else:
                    with self.assertRaises(spmm.FormatError):
                        spmm.multiply(matrix, np.eye(2), dtype="uint32")

    def test_other_numbers_of_dimensions(self):
        matrices = [np.ones(4), np.ones((2, 2, 2)), np.array(3)]
        for make in ("coo_array", "csr_array", "dok_array"):
            for shape in ((4,), (2, 2, 2)):
                with contextlib.suppress(ValueError, TypeError):  # SciPy before 1.13 to 1.15, which may also make a row of it
                    matrices += [m for m in [getattr(sp, make)(np.ones(shape))] if len(m.shape) != 2]
        for matrix in matrices:
            for entry in ENTRIES:
                with self.assertRaises(spmm.Error) as caught:
                    entry(matrix)
                self.assertIsInstance(caught.exception, ValueError)

    def test_kinds_of_other_libraries(self):
        class Other:
            shape, format = (4, 4), "coo"
            tocsr = to_scipy_sparse = None

        matrices = [Other(), "a.bin", None, [[1]]]
        try:
            import sparse
            matrices += [sparse.COO(np.eye(4)), sparse.GCXS(np.eye(4))]
        except ImportError:
            print("sparse cannot be imported: a class in its place")
        for matrix in matrices:
            for entry in ENTRIES:
                with self.assertRaises(spmm.UsageError, msg=str(matrix)) as caught:
                    entry(matrix)
                if hasattr(matrix, "to_scipy_sparse"):
                    self.assertIn("give its to_scipy_sparse()", str(caught.exception))
                    self.assertIsInstance(caught.exception, TypeError)


class Files(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def at(self, name):
        return os.path.join(self.folder.name, name)

    def test_round_trips(self):
        rng = random_source(11)
        for number in range(50):
            m = rng.choice([1, 2, 4, 8])
            side = m * rng.randint(1, 8)
            dense = random_dense(rng, side, side, m)
            given = spmm.Bsr(*as_arrays(dense, m), dense.shape)
            spmm.write(self.at("a.bin"), given)
            back = spmm.read(self.at("a.bin"), np.uint16)
            back = back if isinstance(back, spmm.Bsr) else spmm.Bsr(back.indptr, back.indices, back.data, back.shape)
            self.assertEqual(back.data.dtype, np.uint16)
            for part, expected in zip(back, given):
                np.testing.assert_array_equal(part, expected, err_msg=f"matrix {number}")

    def test_rectangles(self):
        for shape in ((8, 12), (12, 4), (4, 0), (0, 0)):
            dense = random_dense(random_source(15), *shape, 4, density=0.7)
            spmm.write(self.at("r.bin"), spmm.Bsr(*as_arrays(dense, 4), shape))
            self.assertEqual(len(set(spmm.read(self.at("r.bin")).shape)), 1)
            back = spmm.read(self.at("r.bin"), shape=shape)
            self.assertEqual(back.shape, shape)
            np.testing.assert_array_equal(as_dense(back) if isinstance(back, spmm.Bsr) else back.toarray(), dense)
        spmm.write(self.at("r.bin"), np.ones((8, 12)), blocksize=4)
        for bad, kind in (((8, 8), spmm.FormatError), ((4, 12), spmm.FormatError), ((8, 11), spmm.ShapeError), ((8, 16), spmm.UsageError),
                          ((-4, 12), spmm.UsageError), (8, spmm.UsageError)):
            with self.assertRaises(kind):
                spmm.read(self.at("r.bin"), shape=bad)

    def test_errors(self):
        with self.assertRaises(spmm.InputError) as caught:
            spmm.read(self.at("none.bin"))
        self.assertIsInstance(caught.exception, OSError)
        self.assertIn("none.bin", caught.exception.place)
        with open(self.at("short.bin"), "wb") as file:
            file.write(b"abc")
        with self.assertRaises(spmm.FormatError):
            spmm.read(self.at("short.bin"))
        with self.assertRaises(spmm.OutputError):
            spmm.write(self.at("no/such/folder.bin"), np.ones((2, 2)))

    def test_numbers_and_paths_that_c_would_wrap_or_cut(self):
        a = self.at("a.bin")
        spmm.write(a, np.ones((2, 2)))
        for number in (2**32, -1):
            with self.assertRaisesRegex(spmm.UsageError, f"rows: is {number}"):
                spmm.multiply_files(a, a, self.at("c"), rows=(number, 2))
        cut = self.at("c.bin\0.x")
        for call in (lambda: spmm.multiply_files(a, a, cut), lambda: spmm.multiply_files(a + "\0b", a, self.at("c.bin")),
                     lambda: spmm.read(a + "\0"), lambda: spmm.write(cut, np.ones((2, 2)))):
            with self.assertRaisesRegex(spmm.UsageError, "has a NUL"):
                call()
        self.assertEqual(os.listdir(self.folder.name), ["a.bin"])


class Imports(unittest.TestCase):
    def test_without_scipy_and_matplotlib(self):
        code = ("import sys\n"
                "sys.modules.update({'scipy': None, 'scipy.sparse': None, 'matplotlib': None})\n"
                "import numpy as np, spmm\n"
                "c = spmm.multiply(np.array([[2, 0], [0, 3]]), np.array([[5, 0], [0, 7]]), blocksize=2)\n"
                "assert isinstance(c, spmm.Bsr) and c.data.tolist() == [[[10, 0], [0, 21]]], c\n"
                "print(spmm.density(c, 1).tolist())\n")
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
        self.assertEqual((done.returncode, done.stdout), (0, "[[1.0]]\n"), done.stderr)

    def test_the_import_loads_no_library_and_no_scipy(self):
        code = ("import sys, spmm\n"
                "maps = open('/proc/self/maps').read()\n"
                "print('libspmm' in maps, 'scipy' in sys.modules, 'matplotlib' in sys.modules, 'cuda' in maps)")
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
        self.assertEqual(done.stdout, "False False False False\n", done.stderr)

    def test_a_library_that_is_not_there(self):
        done = subprocess.run([sys.executable, "-c", "import spmm; spmm.version()"], capture_output=True, text=True,
                              timeout=300, env={**os.environ, "SPMM_LIBRARY": "/no/such/libspmm.so"})
        self.assertIn("set SPMM_LIBRARY to the path of the library", done.stderr)

    def test_two_wheels_in_one_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            site = pathlib.Path(folder)
            (site / "spmm-0.3.0.dist-info").mkdir()
            check_alone(site)
            (site / "spmm_cuda-0.3.0.dist-info").mkdir()
            with self.assertRaisesRegex(spmm.UsageError, "pip uninstall spmm spmm-cuda"):
                check_alone(site)


if __name__ == "__main__":
    unittest.main()
