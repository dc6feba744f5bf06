"""Products equal Python's integers, for every kind of matrix."""
import threading
import time
import unittest

import numpy as np
import packages
import spmm
from support import as_arrays, as_dense, exact_product, needs_scipy, random_dense, random_source, sp

COUNT, SECONDS = 1000, 20
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


class Products(unittest.TestCase):
    def setUp(self):
        self.engine = spmm.Engine(threads=2)

    def tearDown(self):
        self.engine.close()

    def test_random_arrays(self):
        rng, end = random_source(1), time.monotonic() + SECONDS / 2
        for number in range(COUNT // 2):
            if time.monotonic() > end:
                print(f"stopped after {number} of {COUNT // 2} products of arrays")
                break
            m = rng.choice([1, 2, 3, 4, 8])
            rows, inner, columns = (m * rng.randint(1, 5) for _ in range(3))
            a, b = random_dense(rng, rows, inner, m), random_dense(rng, inner, columns, m)
            given = [spmm.Bsr(*as_arrays(x, m, rng.choice(INDEX_TYPES)), x.shape) for x in (a, b)]
            c = self.engine.multiply(*given, backend="cpu")
            self.assertIsInstance(c, spmm.Bsr)
            self.assertEqual((c.shape, c.data.dtype), ((rows, columns), np.uint32))
            np.testing.assert_array_equal(as_dense(c), exact_product(a, b), err_msg=f"product {number}")

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
            c = self.engine.multiply(as_scipy(rng, a, m), as_scipy(rng, b, m), blocksize=blocksize, backend="cpu")
            self.assertEqual((c.format, c.shape, c.dtype), ("bsr", (rows, columns), np.uint32))
            np.testing.assert_array_equal(c.toarray(), exact_product(a, b), err_msg=f"product {number}")

    def test_square_tuples_need_no_shape(self):
        a = random_dense(random_source(3), 6, 6, 2, density=0.5)
        c = spmm.multiply(as_arrays(a, 2), as_arrays(a, 2))
        np.testing.assert_array_equal(as_dense(c), exact_product(a, a))

    @needs_scipy
    def test_transposes_are_matrices_of_their_own(self):
        a = random_dense(random_source(4), 8, 12, 4, density=0.5)
        given = sp.bsr_array(a.astype(np.uint16), blocksize=(4, 4))
        c = spmm.multiply(given.T, given)
        np.testing.assert_array_equal(c.toarray(), exact_product(a.T, a))

    def test_operands_are_transposed_while_they_are_read(self):
        rng = random_source(11)
        a, b = random_dense(rng, 8, 12, 4, density=0.5), random_dense(rng, 20, 8, 4, density=0.5)
        c = spmm.multiply(as_arrays(a, 4) + ((8, 12),), as_arrays(b, 4) + ((20, 8),), transpose_a=True, transpose_b=True)
        np.testing.assert_array_equal(as_dense(c), exact_product(a.T, b.T))
        gram = spmm.multiply(a, a, blocksize=4, transpose_a=True)
        np.testing.assert_array_equal(as_dense(gram), exact_product(a.T, a))
        with self.assertRaises(spmm.ShapeError):
            spmm.multiply(a, a, blocksize=4)

    def test_some_block_rows(self):
        rng = random_source(12)
        a, b = random_dense(rng, 8, 12, 4, density=0.5), random_dense(rng, 12, 20, 4, density=0.5)
        whole = exact_product(a, b)
        for rows in (0, 1), (1, 2), (1, None), (2, 2), (0, 0):
            expected = np.zeros_like(whole)
            expected[4 * rows[0]:None if rows[1] is None else 4 * rows[1]] = whole[
                4 * rows[0]:None if rows[1] is None else 4 * rows[1]]
            c = spmm.multiply(as_arrays(a, 4) + ((8, 12),), as_arrays(b, 4) + ((12, 20),), rows=rows)
            np.testing.assert_array_equal(as_dense(c), expected)
        transposed = spmm.multiply(a.T.copy(), b, blocksize=4, transpose_a=True, rows=(1, 2))
        np.testing.assert_array_equal(as_dense(transposed)[4:], whole[4:])
        for rows in (0, 3), (2, 1), 5, (0, 1, 2), (-1, 1):  # A has two block rows, although B has more
            with self.assertRaises(spmm.UsageError):
                spmm.multiply(a, b, blocksize=4, rows=rows)

    @needs_scipy
    def test_blocks_that_are_not_square_or_differ(self):
        a = random_dense(random_source(5), 12, 12, 2, density=0.5)
        c = spmm.multiply(sp.bsr_array(a, blocksize=(4, 6)), sp.bsr_array(a, blocksize=(6, 6)))
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
        report = {}
        c = spmm.multiply(as_arrays(a, 4), as_arrays(a, 4), backend="cpu", verify="full", report=report)
        self.assertTrue((as_dense(c) == exact_product(a, a)).all())
        self.assertEqual(report["proof"]["rows"], 64)
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

    @needs_scipy
    def test_elements_at_the_limit_of_scipy(self):
        full = sp.bsr_array(np.full((8, 8), 65535), blocksize=(4, 4))
        self.assertEqual(self.engine.multiply(full, full).saturated_elements, 64)
        self.assertEqual(self.engine.multiply(full, sp.bsr_array(np.eye(8), blocksize=(4, 4))).saturated_elements, 0)

    def test_several_threads_on_one_engine(self):
        a = random_dense(random_source(8), 40, 40, 4, density=0.5)
        expected, wrong = exact_product(a, a), []

        def work():
            for _ in range(5):
                c = self.engine.multiply(as_arrays(a, 4), as_arrays(a, 4), backend="cpu")
                if (as_dense(c) != expected).any():
                    wrong.append(c)

        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])


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
