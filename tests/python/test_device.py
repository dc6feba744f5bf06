"""Matrices in device memory. Without a GPU: what is found before one is needed, on arrays that pretend the protocol."""

import unittest

import numpy as np
import spmm

try:
    import torch
    HAS_TORCH = torch.cuda.is_available()
except ImportError:
    HAS_TORCH = False
try:
    import cupy
    import cupyx.scipy.sparse as cupy_sparse
    HAS_CUPY = cupy.cuda.runtime.getDeviceCount() > 0
except Exception:  # pylint: disable=broad-except  # an installed CuPy without a driver raises errors of its own
    HAS_CUPY = False


class Pretended:
    """Host memory with the protocol of device memory."""

    def __init__(self, array, **changed):
        self.array = array
        self.__cuda_array_interface__ = {**array.__array_interface__, "version": 3, **changed}


def pretended(data=None, indptr=None, **changed):
    return (Pretended(np.array([0, 1, 2], dtype=np.int32) if indptr is None else indptr),
            Pretended(np.array([0, 1], dtype=np.int32)),
            Pretended(np.ones((2, 4, 4), dtype=np.uint16) if data is None else data, **changed))


def random_blocks(rows, cols, side, seed, largest):
    """A dense matrix of blocks, most of which are zero."""
    generator = np.random.default_rng(seed)
    stored = generator.random((rows // side, cols // side)) < 0.2
    return np.kron(stored, np.ones((side, side), dtype=np.int64)) * generator.integers(0, largest + 1, (rows, cols))


def product_of(a, b):
    exact = a.astype(object) @ b.astype(object)
    return np.minimum(exact, 2**32 - 1).astype(np.int64)


class Refusals(unittest.TestCase):
    def test_arrays_that_are_wrong_say_which(self):
        good = pretended()
        for bad, text in ((pretended(np.ones((2, 4, 4), dtype=np.float32)), "pass uint16"),
                          (pretended(np.ones((2, 4, 3), dtype=np.uint16)), "of shape"),
                          (pretended(np.ones((3, 4, 4), dtype=np.uint16)), "lengths"),
                          (pretended(indptr=np.array([0, 1, 2], dtype=np.int64)), "int32"),
                          (pretended(strides=(64, 2, 8)), "not contiguous"),
                          ((np.zeros(3, dtype=np.int32), *good[1:]), "no array in device memory")):
            with self.subTest(text), self.assertRaisesRegex(spmm.FormatError, text):
                spmm.multiply(bad, good)
        with self.assertRaisesRegex(spmm.FormatError, "on the host"):
            spmm.multiply(good, np.ones((8, 8)))
        with self.assertRaisesRegex(spmm.UsageError, "do not go with matrices on a device"):
            spmm.multiply(good, good, verify="full")

    def test_memory_of_the_host_is_refused(self):
        with self.assertRaises(spmm.DeviceError):
            spmm.multiply(pretended(), pretended())


@unittest.skipUnless(HAS_TORCH, "needs PyTorch with a GPU")
class Torch(unittest.TestCase):
    def test_tensors_of_every_kind(self):
        for side in (1, 2, 4, 8):
            for kind in (torch.int16, torch.int32, torch.int64, torch.float32, torch.float64):
                largest = 65535 if kind not in (torch.int16,) else 32767
                a, b = random_blocks(48, 64, side, 1, largest), random_blocks(64, 32, side, 2, largest)
                with self.subTest(side=side, kind=kind):
                    on_a, on_b = (self.tensor(x, side, kind) for x in (a, b))
                    c = spmm.multiply(on_a, on_b)
                    self.assertEqual(c.layout, torch.sparse_csr if side == 1 else torch.sparse_bsr)
                    np.testing.assert_array_equal(c.to_dense().cpu().numpy(), product_of(a, b))
                    self.assertEqual(c.saturated_elements, int((product_of(a, b) == 2**32 - 1).sum()))

    @staticmethod
    def tensor(dense, side, kind):
        tensor = torch.tensor(dense, dtype=torch.int64).to(kind).cuda()
        return tensor.to_sparse_csr() if side == 1 else tensor.to_sparse_bsr((side, side))

    def test_streams_errors_and_memory(self):
        a = random_blocks(64, 64, 4, 3, 2047)
        expected = product_of(a, a)
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            c = spmm.multiply(self.tensor(a, 4, torch.int32), self.tensor(a, 4, torch.int32))
            np.testing.assert_array_equal(c.to_dense().cpu().numpy(), expected)
        bad = self.tensor(a, 4, torch.float32)
        bad.values()[0, 0, 0] = 0.5
        with self.assertRaisesRegex(spmm.FormatError, "whole number"):
            spmm.multiply(bad, bad)
        with self.assertRaisesRegex(spmm.FormatError, "layout"):
            spmm.multiply(torch.ones(4, 4).cuda(), torch.ones(4, 4).cuda())
        good = self.tensor(a, 4, torch.int32)
        report = {}
        for _ in range(200):
            c = spmm.multiply(good, good, report=report)
        del c
        before = torch.cuda.memory_allocated()
        for _ in range(200):
            c = spmm.multiply(good, good)
        np.testing.assert_array_equal(c.to_dense().cpu().numpy(), expected)
        del c
        self.assertEqual(torch.cuda.memory_allocated(), before)
        self.assertEqual(report["plan"]["backend"], "cuda")


@unittest.skipUnless(HAS_CUPY, "needs CuPy with a GPU")
class CuPy(unittest.TestCase):
    def test_csr_matrices_and_arrays(self):
        a, b = random_blocks(48, 64, 1, 1, 65535), random_blocks(64, 32, 1, 2, 65535)
        on_a, on_b = (cupy_sparse.csr_matrix(cupy.asarray(x, dtype=cupy.float64)) for x in (a, b))
        c = spmm.multiply(on_a, on_b)
        np.testing.assert_array_equal(c.toarray().get(), product_of(a, b).astype(np.float64))
        arrays = [(x.indptr, x.indices, x.data.astype(cupy.uint16), x.shape) for x in (on_a, on_b)]
        found = spmm.multiply(*arrays)
        self.assertEqual(found.shape, (48, 32))
        self.assertEqual(found.saturated_elements, c.saturated_elements)
        np.testing.assert_array_equal(cupy.asarray(found.data).ravel().get(), c.data.get().astype(np.uint32))
        np.testing.assert_array_equal(cupy.asarray(found.indptr).get(), c.indptr.get())


if __name__ == "__main__":
    unittest.main()
