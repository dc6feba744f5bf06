"""Products that are added to a matrix, or whose blocks are given, on the host."""
import os
import tempfile
import unittest

import numpy as np
import spmm
from support import as_dense, needs_scipy, sp
from test_types import RESULTS, random_bsr


class Onto(unittest.TestCase):
    def test_alpha_beta_and_patterns(self):
        rng = np.random.default_rng(3)
        for dtype, result in RESULTS.items():
            if dtype == "uint16":
                continue
            wide = np.float64 if result[0] == "f" else np.int64
            for m in (1, 3, 4):
                a, b = random_bsr(rng, dtype, 9, 7, m), random_bsr(rng, dtype, 7, 8, m)
                product = as_dense(a, wide) @ as_dense(b, wide)
                plain = spmm.multiply(a, b)
                c = spmm.Bsr(plain.indptr, plain.indices, rng.normal(0, 9, plain.data.shape).astype(result), plain.shape)
                close = dict(rtol=1e-4 if result == "float32" else 1e-12, atol=1e-1 if result == "float32" else 1e-9)
                added = spmm.multiply(a, b, alpha=3, beta=-2, c=c)
                np.testing.assert_allclose(as_dense(added, wide), 3 * product - 2 * as_dense(c, wide), **close)
                same = spmm.multiply(a, b, alpha=1, beta=0, c=c._replace(data=c.data.astype("int8")))  # is not read
                self.assertEqual(same.data.tobytes(), plain.data.tobytes())
                some = random_bsr(rng, "float64", 9, 8, m)
                masked = spmm.multiply(a, b, pattern=some)
                self.assertEqual(masked.indices.tolist(), some.indices.tolist())
                stored = as_dense(some._replace(data=np.ones(some.data.shape)), wide) != 0
                np.testing.assert_allclose(as_dense(masked, wide), np.where(stored, product, 0), **close)

    @needs_scipy
    def test_scipy(self):
        a = sp.random(24, 24, 0.3, "csr", random_state=np.random.default_rng(4))
        c = (a @ a).tocsr()
        for options in ({}, {"blocksize": 4}):
            np.testing.assert_allclose(spmm.multiply(a, a, c=c, **options).toarray(), 2 * c.toarray())
        np.testing.assert_allclose(spmm.multiply(a, a, c=a, pattern=True, beta=0).toarray(), np.where(a.toarray(), c.toarray(), 0))

    def test_integers_modulo_2_64(self):
        one = spmm.Bsr(np.array([0, 1]), np.array([0]), np.full((1, 1, 1), 3), (1, 1))
        c = one._replace(data=np.full((1, 1, 1), 5))
        self.assertEqual(spmm.multiply(one, one, alpha=-1, beta=2**64 - 1, c=c).data.tolist(), [[[-14]]])

    @needs_scipy
    def test_saturating_sums(self):
        rng = np.random.default_rng(5)
        a = rng.integers(0, 65536, (24, 24)) * (rng.random((24, 24)) < 0.15)  # blocks of C that are zero in part
        whole = np.minimum(a.astype(object) @ a.T.astype(object), 2**32 - 1).astype(np.uint32)
        for m in (1, 3, 4):
            stored = np.kron(rng.random((24 // m, 24 // m)) < 0.5, np.ones((m, m)))
            wanted, report = np.where(stored, whole, 0), {}
            found = spmm.multiply(a, a, dtype="uint32", blocksize=m, pattern=stored * 0.25, transpose_b=True, report=report)
            np.testing.assert_array_equal(found.toarray(), wanted)
            self.assertEqual(report["saturated_elements"], np.count_nonzero(wanted == 2**32 - 1))
            with tempfile.TemporaryDirectory() as folder:
                paths = [os.path.join(folder, name) for name in ("a", "p", "c")]
                spmm.write(paths[0], a.astype(np.uint16), blocksize=m)
                spmm.write(paths[1], stored.astype(np.uint16), blocksize=m)
                spmm.multiply_files(paths[0], paths[0], paths[2], pattern=paths[1], transpose_b=True)
                np.testing.assert_array_equal(spmm.read(paths[2]).toarray(), wanted)
        with self.assertRaises(spmm.SaturationError):
            spmm.multiply(a, a, dtype="uint32", pattern=np.ones((24, 24)), on_saturation="error")

    def test_refusals(self):
        one = np.ones((2, 2))
        none = spmm.Bsr(np.array([0, 0, 0]), np.array([], np.int64), np.ones((0, 1, 1)), (2, 2))
        for kind, words, options in (
                (spmm.ShapeError, "matrix C: it lacks the block in block row 0, block column 0", {"c": none}),
                (spmm.UsageError, "pattern: is given, and c, too", {"c": one, "pattern": one}),
                (spmm.UsageError, "give c", {"beta": 2}), (spmm.UsageError, "give c", {"pattern": True}),
                (spmm.ShapeError, "matrix C", {"c": np.ones((2, 3))}),
                (TypeError, "alpha: is 'two'", {"alpha": "two"}),
                (spmm.UsageError, "go with results of uint32", {"c": one, "dtype": "uint32"}),
                (spmm.UsageError, "go with results of uint32", {"alpha": 2, "dtype": "uint32"})):
            with self.assertRaisesRegex(kind, words):
                spmm.multiply(one, one, **options)
