"""Products of all types of elements on the host: types, bits that do not depend on threads, SciPy within rounding."""
import unittest

import numpy as np
import spmm
from support import as_dense, needs_scipy, sp

RESULTS = {"float64": "float64", "float32": "float32", "float16": "float32", "int8": "int64", "uint8": "int64", "int16": "int64",
           "int32": "int64", "uint32": "int64", "int64": "int64", "uint16": "uint32"}


def random_bsr(rng, dtype, rows, columns, m):
    stored = rng.random((rows, columns)) < 0.3
    values = rng.normal(0, 20, (int(stored.sum()), m, m))
    values = np.abs(values) if dtype[0] == "u" else values
    return spmm.Bsr(np.concatenate([[0], stored.sum(axis=1).cumsum()]), np.nonzero(stored)[1], values.astype(dtype),
                    (rows * m, columns * m))


class Types(unittest.TestCase):
    def test_the_result_follows_the_operands(self):
        rng = np.random.default_rng(1)
        for dtype, result in RESULTS.items():
            for m in (1, 3, 4, 8, 17):
                a, b = random_bsr(rng, dtype, 9, 7, m), random_bsr(rng, dtype, 7, 8, m)
                c = spmm.multiply(a, b, backend="cpu")
                self.assertEqual((c.data.dtype, c.saturated_elements), (np.dtype(result), 0))
                wide = np.float64 if result[0] == "f" else np.int64
                np.testing.assert_allclose(as_dense(c, wide), as_dense(a, wide) @ as_dense(b, wide), rtol=0,
                                           atol=2e-2 if result == "float32" else 1e-9)
                again = spmm.multiply(a, b, backend="cpu", threads=3)
                self.assertEqual(c.data.tobytes(), again.data.tobytes())

    @needs_scipy
    def test_scipy_within_rounding(self):
        rng = np.random.default_rng(2)
        for dtype in ("float64", "float32", "int32"):
            for kind in ("csr", "csc", "coo", "bsr"):
                a, b = (sp.random(24, 24, 0.3, kind, dtype=np.float64, random_state=rng) for _ in range(2))
                a, b = (a * 100).astype(dtype), (b * 100).astype(dtype)
                for options in ({}, {"blocksize": 4}, {"transpose_a": True}, {"transpose_b": True}):
                    c = spmm.multiply(a, b, **options)
                    left = a.T if "transpose_a" in options else a
                    right = b.T if "transpose_b" in options else b
                    exact = (left.astype(np.float64) @ right.astype(np.float64)).toarray()
                    np.testing.assert_allclose(c.toarray(), exact, rtol=1e-5 if dtype == "float32" else 1e-13)

    def test_many_products(self):
        rng = np.random.default_rng(3)
        for dtype in RESULTS:
            for m in (1, 4):
                pairs = [(random_bsr(rng, dtype, rows, inner, m), random_bsr(rng, dtype, inner, columns, m))
                         for rows, inner, columns in rng.integers(1, 9, (11, 3)).tolist()]
                report = {}
                found = spmm.multiply_many(pairs, report=report)
                self.assertEqual((len(found), report["c"]["blocks"]), (11, len(found.data)))
                self.assertEqual(found.saturated_elements, sum(one.saturated_elements for one in found))
                for (a, b), one in zip(pairs, found):
                    for part, wanted in zip(one, spmm.multiply(a, b)):
                        np.testing.assert_array_equal(part, wanted)
        a = (np.tile([0, 1, 2], (5, 1)), np.tile([1, 0], (5, 1)), rng.random((5, 2, 3, 3)))
        for x, one in enumerate(spmm.multiply_many(a, a)):
            np.testing.assert_array_equal(one.data, spmm.multiply(*[tuple(part[x] for part in a)] * 2).data)
        self.assertEqual(spmm.multiply_many((*a[:2], a[2][:, :, 0, 0]), (*a[:2], a[2][:, :, 0, 0]))[4].data.shape, (2, 1, 1))
        self.assertEqual(spmm.multiply_many([(np.full((2, 2), 60000.0),) * 2] * 3, dtype="uint32").saturated_elements, 12)
        good, twice, outside = (spmm.Bsr(np.array([0, 2, 2]), np.array(columns), np.ones((2, 1, 1)), (2, 2))
                                for columns in ([0, 1], [1, 1], [0, 2]))
        tall = spmm.Bsr(np.array([0, 0, 0, 0]), np.array([], int), np.ones((0, 1, 1)), (3, 1))
        for bad, text in (((good, twice), "matrix B, product 1: a block is stored twice"), ((good, tall), "product 1: A has not as many"),
                          ((outside, good), r"matrix A, product 1, indices\[1\]: is 2, expected 0 to 1"), ((good,), "product 1: is a tuple"),
                          ((good, good._replace(data=np.ones((2, 1, 1), "f4"))), "float64 and float32"),
                          ((good._replace(indptr=np.array([0, 1, 1])), good), "product 1, indptr: ends before")):
            with self.subTest(text), self.assertRaisesRegex(spmm.Error, text):
                spmm.multiply_many([(good, good), bad])
        for bad, text in ((a[:2] + (a[2][:4],), "lengths"), (np.eye(3), "is a ndarray")):
            with self.subTest(text), self.assertRaisesRegex(spmm.Error, text):
                spmm.multiply_many(a, bad)

    @needs_scipy
    def test_many_products_of_scipy(self):
        pairs = [(sp.random(6, 9, 0.5, "bsr", random_state=x), sp.random(9, 3, 0.5, "csr", random_state=x)) for x in range(4)]
        for (a, b), found in zip(pairs, spmm.multiply_many(pairs)):
            np.testing.assert_array_equal(found.toarray(), spmm.multiply(a, b).toarray())
            self.assertEqual((found.format, found.saturated_elements), ("bsr", 0))

    def test_special_values(self):
        a = spmm.Bsr(np.array([0, 2]), np.array([0, 1]), np.array([[[0.0]], [[np.inf]]]), (1, 2))
        b = spmm.Bsr(np.array([0, 1, 2]), np.array([0, 0]), np.array([[[np.nan]], [[1.0]]]), (2, 1))
        self.assertEqual(spmm.multiply(a, b).data.view(np.uint64).tolist(), [[[0x7FF8000000000000]]])
        zeros = spmm.Bsr(np.array([0, 1]), np.array([0]), np.zeros((1, 2, 2)), (2, 2))
        self.assertEqual(len(spmm.multiply(zeros, zeros).data), 1)  # a block that has pairs stays

    def test_what_is_asked_for(self):
        a = np.array([[60000, 60000]], np.uint16)
        self.assertEqual(spmm.multiply(a, a.T).toarray().tolist() if sp is not None else [[2**32 - 1]], [[2**32 - 1]])
        for dtype, options, wanted in (("uint16", {"dtype": "int64"}, 7200000000), ("int64", {}, 7200000000),
                                       ("float64", {"dtype": np.uint32}, 2**32 - 1), ("float32", {"dtype": "float32"}, 7.2e9)):
            given = spmm.Bsr(np.array([0, 2]), np.array([0, 1]), np.full((2, 1, 1), 60000, dtype), (1, 2))
            other = spmm.Bsr(np.array([0, 1, 2]), np.array([0, 0]), np.full((2, 1, 1), 60000, dtype), (2, 1))
            self.assertEqual(spmm.multiply(given, other, **options).data.tolist(), [[[wanted]]])

    def test_names_of_types(self):
        one, narrow = np.ones((2, 2)), np.ones((2, 2), np.uint16)
        for a, b, dtype, result in ((one, one, float, "float64"), (one, one, "f8", "float64"), (one, one, ">f8", "float64"),
                                    (narrow, narrow, int, "int64"), (narrow, narrow, ">i8", "int64"), (narrow, narrow, "u4", "uint32"),
                                    (narrow, narrow.astype(bool), None, "uint32"), (narrow, narrow.astype("i4"), "int64", "int64")):
            c = spmm.multiply(a, b, dtype=dtype)
            self.assertEqual((c.data.dtype, c.data.max()), (np.dtype(result), 2))

    def test_bfloat16_of_ml_dtypes(self):
        try:
            import ml_dtypes
        except ImportError:
            self.skipTest("no ml_dtypes")
        rng = np.random.default_rng(3)
        a, b = (random_bsr(rng, "float32", 6, 6, 4) for _ in "AB")
        narrow = [x._replace(data=x.data.astype(ml_dtypes.bfloat16)) for x in (a, b)]
        wide = [x._replace(data=x.data.astype(np.float32)) for x in narrow]
        self.assertEqual(spmm.multiply(*narrow).data.tobytes(), spmm.multiply(*wide).data.tobytes())
        ones = np.ones((2, 2), ml_dtypes.bfloat16)
        for dtype, result in ((None, "float32"), ("uint32", "uint32")):
            c = spmm.multiply(ones, ones, dtype=dtype)
            self.assertEqual((c.data.dtype, c.data.max()), (np.dtype(result), 2))

    def test_transposes_of_arrays(self):
        rng = np.random.default_rng(4)
        for m in (1, 4):
            a, b = random_bsr(rng, "float64", 7, 9, m), random_bsr(rng, "float64", 5, 7, m)
            c = spmm.multiply(a, b, transpose_a=True, transpose_b=True)
            np.testing.assert_allclose(as_dense(c, np.float64), as_dense(a, np.float64).T @ as_dense(b, np.float64).T, atol=1e-9)
        with self.assertRaisesRegex(spmm.FormatError, "matrix A, indices"):
            spmm.multiply(a._replace(indices=a.indices + 9), b, transpose_a=True)

    def test_the_report_has_the_type(self):
        for dtype, name, bytes_of_a, bytes_of_c in (("float64", "f64", 8, 8), ("int16", "i16", 2, 8), ("uint16", "u16", 2, 4)):
            report = {}
            spmm.multiply(np.ones((2, 2), dtype), np.ones((2, 2), dtype), blocksize=2, report=report)
            self.assertEqual((report["element_type"], report["a"]["bytes"], report["c"]["bytes"], report["stages"]["write"]["bytes"]),
                             (name, 20 + 4 * bytes_of_a, 20 + 4 * bytes_of_c, 20 + 4 * bytes_of_c))

    def test_the_report_says_whether_sums_may_overflow(self):
        for values, dtype, expected in (([1, 2], "int8", False), ([2**30, 1], "int64", False), ([2**31 + 1, 2**31], "int64", True),
                                        ([-2**63, 1], "int64", True), ([2**32 - 1, 1], "uint32", True)):
            report = {}
            spmm.multiply(np.array([values], dtype), np.array([values], dtype).T, report=report)
            self.assertEqual(report["may_overflow"], expected)
        for options, expected in (({"beta": 2**62}, True), ({"beta": -2**61}, False), ({"beta": 1, "alpha": -2**62}, True)):
            two, report = np.array([[2]]), {}
            spmm.multiply(two, two, c=two, report=report, **options)
            self.assertEqual(report["may_overflow"], expected)

    def test_refusals(self):
        one = np.ones((2, 2))
        for kind, words, a, b, options in (
                (TypeError, "float64 and float32; convert one", one, one.astype("float32"), {}),
                (spmm.FormatError, "has elements of complex128; convert both", one * 1j, one * 1j, {}),
                (spmm.FormatError, "has elements of uint64", one.astype("uint64"), one.astype("uint64"), {}),
                (spmm.UsageError, "a product of float64 has float64", one, one, {"dtype": "int64"}),
                (spmm.UsageError, "kernel: is for elements of u16", one, one, {"kernel": "row-merge"}),
                (spmm.UsageError, "on_saturation", one, one, {"on_saturation": "error"}),
                (spmm.UsageError, "verify", one, one, {"verify": True})):
            with self.assertRaisesRegex(kind, words):
                spmm.multiply(a, b, **options)

    @needs_scipy
    def test_elements_stored_several_times(self):
        for kind, value in (("int8", 100), ("uint8", 255), ("uint32", 2**32 - 1)):
            twice = sp.coo_array((np.array([value, value], kind), ([0, 0], [0, 0])), shape=(1, 1))
            with self.assertRaisesRegex(spmm.FormatError, f"add up to more than {kind} holds"):
                spmm.multiply(twice, np.ones((1, 1), kind))
            wide = sp.coo_array((np.array([value, value], "int64"), ([0, 0], [0, 0])), shape=(1, 1))
            self.assertEqual(int(spmm.multiply(wide, np.ones((1, 1), "int64")).toarray()[0, 0]), 2 * value)

    @needs_scipy
    def test_blocks_stored_several_times(self):
        for dtype in ("float32", "int8", "uint16"):
            twice = sp.bsr_array((np.ones((3, 2, 2), dtype), np.array([0, 0, 1]), np.array([0, 2, 3])), shape=(4, 4))
            c = spmm.multiply(twice, np.eye(4, dtype=dtype))
            np.testing.assert_array_equal(c.toarray(), twice.toarray())

    @needs_scipy
    def test_blocks_of_another_side(self):
        whole = (np.array([0, 1]), np.array([0]), np.ones((1, 4, 4), "float16"))
        parts = (np.array([0, 2, 4]), np.array([0, 1, 0, 1]), np.ones((4, 2, 2), "float16"))
        with self.assertRaisesRegex(spmm.ShapeError, "give both with blocks of the same side"):
            spmm.multiply(whole, parts)
