"""Products equal Python's integers, for every kind of matrix."""
import os
import time
import typing
import unittest

import numpy as np
import packages
import spmm
from support import as_arrays, as_dense, exact_product, needs_scipy, random_dense, random_source, sp

COUNT, SECONDS = 400, 20
INDEX_TYPES = [np.int32, np.int64]
ELEMENT_TYPES = [np.uint16, np.uint16, np.int32, np.int64, np.uint32, np.uint64, np.float64, ">u2", ">i4"]


def as_scipy(rng, dense, m):
    """The matrix in one of SciPy's formats, of one of its element types."""
    kind = rng.choice(["bsr", "bsr", "bsr", "csr", "csc", "coo", "lil"])
    make = getattr(sp, kind + rng.choice(["_array", "_matrix"]))
    typed = dense.astype(np.dtype(rng.choice(ELEMENT_TYPES)).newbyteorder("="))
    if kind == "bsr":
        return make(typed, blocksize=(m, m))
    if kind == "coo" and rng.random() < 0.5 and dense.max(initial=0) > 0:  # some elements in two parts
        rows, columns = np.nonzero(dense)
        first = np.array([rng.randint(0, int(v)) for v in dense[rows, columns]])
        data = np.concatenate([first, dense[rows, columns] - first])
        return make((data, (np.tile(rows, 2), np.tile(columns, 2))), shape=dense.shape)
    return make(typed)


def selected(dense, triangle, no_diagonal, at_least, keep):
    """The elements of a product that are kept."""
    kept = np.triu(dense) if triangle else dense.copy()
    if no_diagonal:
        np.fill_diagonal(kept, 0)
    kept[kept < at_least] = 0
    for row in kept if keep else ():
        row[np.argsort(-row.astype(np.int64), kind="stable")[keep:]] = 0
    return kept


class Products(unittest.TestCase):
    def setUp(self):
        self.engine = spmm.Engine(threads=2)

    def tearDown(self):
        self.engine.close()

    def test_elements_that_are_kept(self):
        rng = random_source(7)
        for m in (1, 2, 4):
            dense = random_dense(rng, 6 * m, 9 * m, m) % 5
            given = spmm.Bsr(*as_arrays(dense, m, np.int64), dense.shape)
            for triangle, no_diagonal, at_least, keep in ((None, False, 0, 2), ("upper", True, 3, 0), ("upper", False, 2, 3), (None, True, 1, 100)):
                options = {"triangle": triangle, "no_diagonal": no_diagonal, "at_least": at_least, "keep": keep}
                for transpose_a, factor in ((False, dense), (True, dense.T)):
                    whole, report = exact_product(factor, factor.T), {}
                    c = self.engine.gram(given, transpose_a=transpose_a, report=report, verify=True, **options)
                    expected = selected(whole, *options.values())
                    np.testing.assert_array_equal(as_dense(c), expected)
                    seen = np.triu(whole) if triangle else whole
                    self.assertEqual(report["dropped_elements"], np.count_nonzero(seen) - np.count_nonzero(expected))
                np.testing.assert_array_equal(as_dense(spmm.multiply(given, given, transpose_b=True, **options)),
                                              selected(exact_product(dense, dense.T), *options.values()))

    def test_random_arrays(self):
        rng, end = random_source(1), time.monotonic() + SECONDS / 2
        for number in range(COUNT // 2):
            if time.monotonic() > end:
                print(f"stopped after {number} of {COUNT // 2} products of arrays")
                break
            m = rng.choice([1, 2, 3, 4, 8])
            rows, inner, columns = (m * rng.randint(1, 5) for _ in range(3))
            a, b = random_dense(rng, rows, inner, m), random_dense(rng, inner, columns, m)
            expected, options = exact_product(a, b), {"transpose_a": rng.random() < 0.3, "transpose_b": rng.random() < 0.3}
            if rng.random() < 0.3:
                first = rng.randint(0, rows // m)
                last = rng.choice([None, rng.randint(first, rows // m)])
                options["rows"] = (first, last)
                expected[:m * first] = 0
                expected[rows if last is None else m * last:] = 0
            dense = [x.T if turned else x for x, turned in zip((a, b), (options["transpose_a"], options["transpose_b"]))]
            given = [spmm.Bsr(*as_arrays(x, m, rng.choice(INDEX_TYPES)), x.shape) for x in dense]
            c = self.engine.multiply(*given, backend="cpu", **options)
            self.assertIsInstance(c, spmm.Bsr)
            self.assertEqual((c.shape, c.data.dtype), ((rows, columns), np.uint32))
            np.testing.assert_array_equal(as_dense(c), expected, err_msg=f"product {number}")

    @needs_scipy
    def test_random_scipy(self):
        rng, end = random_source(2), time.monotonic() + SECONDS / 2
        for number in range(COUNT // 2):
            if time.monotonic() > end:
                print(f"stopped after {number} of {COUNT // 2} products of SciPy's matrices")
                break
            m = rng.choice([1, 2, 3, 4])
            rows, inner, columns = (m * rng.randint(1, 5) for _ in range(3))
            a, b = random_dense(rng, rows, inner, m), random_dense(rng, inner, columns, m)
            blocksize = rng.choice([None, None, 1, m])
            c = self.engine.multiply(as_scipy(rng, a, m), as_scipy(rng, b, m), blocksize=blocksize, backend="cpu", dtype="uint32")
            self.assertEqual((c.format, c.shape, c.dtype), ("bsr", (rows, columns), np.uint32))
            np.testing.assert_array_equal(c.toarray(), exact_product(a, b), err_msg=f"product {number}")

    def test_square_tuples_need_no_shape(self):
        a = random_dense(random_source(3), 6, 6, 2, density=0.5)
        c = spmm.multiply(as_arrays(a, 2), as_arrays(a, 2))
        np.testing.assert_array_equal(as_dense(c), exact_product(a, a))

    def test_rows_and_sides_that_do_not_fit(self):
        a, b = np.ones((8, 12)), np.ones((12, 20))
        for rows in (0, 3), (2, 1), 5, (0, 1, 2), (-1, 1):  # A has two block rows, although B has more
            with self.assertRaises(spmm.UsageError):
                spmm.multiply(a, b, blocksize=4, rows=rows, dtype="uint32")
        np.testing.assert_array_equal(as_dense(spmm.multiply(a, a, blocksize=4, transpose_a=True, dtype="uint32")), np.full((12, 12), 8))
        with self.assertRaises(spmm.ShapeError):
            spmm.multiply(a, a, blocksize=4)

    @needs_scipy
    def test_blocks_that_are_not_square_or_differ(self):
        a = random_dense(random_source(5), 12, 12, 2, density=0.5)
        c = spmm.multiply(sp.bsr_array(a, blocksize=(4, 6)), sp.bsr_array(a, blocksize=(6, 6)), dtype="uint32")
        self.assertEqual(c.blocksize, (2, 2))
        np.testing.assert_array_equal(c.toarray(), exact_product(a, a))

    @needs_scipy
    def test_the_elements_are_not_copied(self):
        a = random_dense(random_source(6), 64, 64, 8, density=1.0)
        given = sp.bsr_array(a.astype(np.uint16), blocksize=(8, 8))
        from spmm._matrix import Operand

        operand = Operand(given, 8, "matrix")
        self.assertIs(operand.data, given.data)
        self.assertEqual(operand.indices.ctypes.data, given.indices.ctypes.data)
        c = spmm.multiply(given, given)
        self.assertFalse(c.data.flags["OWNDATA"])
        kept = c.data
        expected = kept.copy()
        del c, operand
        np.testing.assert_array_equal(kept, expected)  # the library's memory lives as long as the array

    def test_report_progress_and_verification(self):
        a = random_dense(random_source(7), 32, 32, 4, density=0.5)
        report, stages = {}, set()
        spmm.multiply(as_arrays(a, 4), as_arrays(a, 4), backend="cpu", kernel="row-merge", verify=10, report=report,
                      progress=lambda stage, done, total: stages.add((stage, done <= total)))
        self.assertEqual((report["backend"], report["kernel"]), ("cpu", "row-merge"))
        self.assertGreater(report["verified_blocks"], 0)
        self.assertIn(("multiply", True), stages)

    def test_a_proof_of_the_whole_result(self):
        a = random_dense(random_source(9), 64, 64, 4, density=0.5)
        for verify in ("full", True, np.True_):
            report = {}
            c = spmm.multiply(as_arrays(a, 4), as_arrays(a, 4), backend="cpu", verify=verify, report=report)
            self.assertTrue((as_dense(c) == exact_product(a, a)).all())
            self.assertEqual(report["proof"]["rows"], 64)
        spmm.multiply(as_arrays(a, 4), as_arrays(a, 4), backend="cpu", verify=False, report=report)
        self.assertEqual(report["verified_blocks"], 0)
        with self.assertRaises(spmm.UsageError):
            spmm.multiply(as_arrays(a, 4), as_arrays(a, 4), verify="all")

    def test_elements_at_the_limit(self):
        full = np.full((8, 8), 65535)
        report = {}
        c = self.engine.multiply(as_arrays(full, 4), as_arrays(full, 4), backend="cpu", report=report)
        self.assertEqual((c.saturated_elements, report["saturated_elements"]), (64, 64))
        exact = self.engine.multiply(as_arrays(full, 4), as_arrays(np.eye(8), 4), on_saturation="error")
        self.assertEqual(exact.saturated_elements, 0)
        with self.assertRaises(spmm.SaturationError) as caught:
            self.engine.multiply(as_arrays(full, 4), as_arrays(full, 4), backend="cpu", on_saturation="error")
        self.assertIn("64 elements are at the limit 4294967295", str(caught.exception))
        with self.assertRaises(spmm.UsageError):
            self.engine.multiply(as_arrays(full, 4), as_arrays(full, 4), on_saturation="warn")

    def test_sides_of_zero(self):
        for rows, inner, cols in ((0, 0, 0), (0, 5, 3), (3, 0, 4), (3, 5, 0), (0, 5, 0)):
            dense = np.zeros((rows, inner)), np.zeros((inner, cols))
            kinds = [dense, [spmm.Bsr(*as_arrays(x, 1), x.shape) for x in dense]]
            if sp is not None:
                kinds += [[make(x) for x in dense] for make in (sp.csr_array, sp.coo_array, sp.bsr_array)]
            for a, b in kinds:
                self.assertEqual(self.engine.multiply(a, b, backend="cpu", verify="full", dtype="uint32").shape, (rows, cols))
        with self.assertRaises(spmm.ShapeError):
            self.engine.multiply(np.zeros((0, 5)), np.zeros((4, 0)), dtype="uint32")

    def test_what_type_checkers_see(self):
        for function in (spmm.multiply, spmm.Engine.multiply, spmm.Plan.__call__):
            self.assertIs(typing.get_type_hints(function)["return"], spmm.Product)

    @unittest.skipUnless(hasattr(os, "fork"), "no fork()")
    def test_an_engine_belongs_to_the_process_that_made_it(self):
        a = np.ones((64, 64), dtype=np.uint16)
        self.engine.multiply(a, a, blocksize=4, backend="cpu", dtype="uint32")
        child = os.fork()
        if child == 0:
            status = 1
            try:
                self.engine.multiply(a, a, dtype="uint32")
            except spmm.UsageError as error:
                status = 0 if "make an engine after fork()" in str(error) else 2
            self.engine.close()
            os._exit(status or (0 if spmm.multiply(a, a, dtype="uint32").shape == a.shape else 3))
        self.assertEqual(os.waitpid(child, 0)[1], 0)


class HostArray:
    """An array of another library that NumPy can read."""

    def __init__(self, array, device=1):
        self.array, self.device = array, device

    def __array__(self, *arguments, **options):
        return self.array.__array__(*arguments, **options)

    def __dlpack_device__(self):
        return (self.device, 0)


class OtherLibraries(unittest.TestCase):
    def test_arrays_that_numpy_can_read(self):
        a = random_dense(random_source(13), 8, 12, 4, density=0.5)
        c = spmm.multiply(HostArray(a), HostArray(a.T), blocksize=4, dtype="uint32")
        np.testing.assert_array_equal(as_dense(c) if isinstance(c, spmm.Bsr) else c.toarray(), exact_product(a, a.T))
        self.assertEqual(spmm.density(HostArray(np.ones((4, 4)))).shape, (4, 4))
        with self.assertRaises(TypeError):
            spmm.multiply(HostArray(a, device=2), a.T, dtype="uint32")

    def test_tensors_on_the_cpu(self):
        try:
            import torch
        except ImportError as error:
            self.skipTest(str(error))
        rng = random_source(14)
        a, b = random_dense(rng, 8, 12, 4, density=0.5, top=255), random_dense(rng, 12, 16, 4, density=0.5, top=255)
        expected = torch.from_numpy(exact_product(a, b))
        makers = [lambda x: x, lambda x: x.to_sparse(), lambda x: x.to_sparse_csr(), lambda x: x.to_sparse_bsr((4, 4)),
                  lambda x: x.to(torch.bfloat16 if int(x.max()) < 256 else torch.float32), lambda x: x.double().requires_grad_()]
        for make in makers:
            for blocksize in (None, 4):
                c = spmm.multiply(make(torch.from_numpy(a)), make(torch.from_numpy(b)), blocksize=blocksize, dtype="uint32")
                self.assertEqual((c.dtype, c.saturated_elements), (torch.int64, 0))
                self.assertIn(c.layout, (torch.sparse_csr, torch.sparse_bsr))
                self.assertTrue(torch.equal(c.to_dense(), expected))
        twice = torch.sparse_coo_tensor([[0, 0], [1, 1]], torch.tensor([200, 100], dtype=torch.uint8), (2, 2))
        self.assertEqual(spmm.multiply(twice, torch.eye(2), dtype="uint32").to_dense().tolist(), [[0, 300], [0, 0]])
        self.assertEqual(spmm.multiply(torch.from_numpy(a), b, dtype="uint32").shape, (8, 16))
        full = torch.full((4, 4), 65535)
        self.assertEqual(spmm.multiply(full, full, blocksize=2, dtype="uint32").saturated_elements, 16)
        for bad in (torch.ones(4), torch.ones(2, 4, 4), torch.ones(4, 4).to_sparse_csc(), torch.ones(4, 4).to_sparse_bsr((4, 2)),
                    torch.ones(4, 4, device="meta")):
            with self.assertRaises(ValueError):
                spmm.multiply(bad, torch.ones(4, 4), dtype="uint32")


class Density(unittest.TestCase):
    def test_a_full_matrix_is_full_however_its_sides_divide(self):
        for side in (1, 7, 99, 100, 101, 137):
            np.testing.assert_array_equal(spmm.density(np.ones((side, side)), 100), 1)
        full = spmm.Bsr(*as_arrays(np.ones((12, 20), dtype=np.int64), 4), (12, 20))
        np.testing.assert_array_equal(spmm.density(full, 2), np.ones((2, 2)))

    def test_cells_count_blocks(self):
        a = np.zeros((4, 4))
        a[0, 1] = a[3, 3] = -0.5
        np.testing.assert_array_equal(spmm.density(a, 2), [[0.25, 0], [0, 0.25]])

    @needs_scipy
    def test_scipy_and_drawing(self):
        np.testing.assert_array_equal(spmm.density(sp.eye(10, format="csc"), 5), np.eye(5) * 0.5)
        missing = packages.problem("matplotlib")
        if missing is not None:
            self.skipTest(missing)
        import matplotlib

        matplotlib.use("Agg")
        axes = spmm.spy(sp.eye(10, format="csr"))
        self.assertEqual(axes.get_xlim(), (0, 10))


if __name__ == "__main__":
    unittest.main()
