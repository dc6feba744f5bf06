"""Operators of PyTorch and JAX: the values of plans, compiled functions, gradients. They need a GPU."""

import unittest

import numpy as np
import spmm
from support import needs_scipy, sp
from test_device import HAS_TORCH

if HAS_TORCH:
    import torch
try:
    import jax
    HAS_JAX = any(device.platform == "gpu" for device in jax.devices())
except Exception:  # pylint: disable=broad-except  # an installed JAX without a driver raises errors of its own
    HAS_JAX = False


def matrix(rows, cols, side, dtype, seed):
    """Of SciPy, with sorted blocks of which about a third are stored, and whole numbers, whose sums are exact."""
    random = np.random.default_rng(seed)
    blocks = sp.random(rows, cols, density=0.3, format="csr", random_state=seed)
    data = random.integers(-9, 10, (blocks.nnz, side, side)).astype(dtype)
    return sp.bsr_array((data, blocks.indices, blocks.indptr), shape=(rows * side, cols * side))


class WithoutDevice(unittest.TestCase):
    def test_matrices_of_the_host_are_refused(self):
        with self.assertRaisesRegex(spmm.UsageError, "on a GPU"):
            spmm.operator(np.ones((2, 2)), np.ones((2, 2)))


@needs_scipy
@unittest.skipUnless(HAS_TORCH, "needs PyTorch and a GPU")
class Torch(unittest.TestCase):
    def tensor(self, bsr, dtype):
        indptr, indices, data = (torch.tensor(part, device="cuda") for part in (bsr.indptr, bsr.indices, bsr.data))
        if data.shape[-1] == 1:
            return torch.sparse_csr_tensor(indptr, indices, data.to(dtype).reshape(-1), bsr.shape)
        return torch.sparse_bsr_tensor(indptr, indices, data.to(dtype), bsr.shape)

    def tensors(self, side, dtype):
        """Two matrices, and their values as leaves of a graph."""
        made = [self.tensor(matrix(7, 5, side, "float32", 1), dtype), self.tensor(matrix(5, 6, side, "float32", 2), dtype)]
        return made, [one.values().detach().clone().requires_grad_(dtype.is_floating_point) for one in made]

    def test_values_are_those_of_a_product(self):
        for side, dtype in ((1, torch.float64), (4, torch.float32), (8, torch.bfloat16), (3, torch.int32)):
            with self.subTest(side=side, dtype=dtype):
                (a, b), values = self.tensors(side, dtype)
                multiply = spmm.operator(a, b)
                wanted = spmm.multiply(a, b)
                for function in (multiply, torch.compile(multiply, fullgraph=True)):
                    found = function(*values)
                    self.assertEqual(found.dtype, wanted.values().dtype)
                    self.assertTrue(torch.equal(found.detach(), wanted.values()))
                self.assertTrue(torch.equal(multiply.indices, wanted.col_indices()))

    def test_operator_is_registered_well(self):
        for side in 1, 4:
            (a, b), values = self.tensors(side, torch.float64)
            multiply = spmm.operator(a, b)
            torch.library.opcheck(torch.ops.spmm.multiply, (*values, multiply._number, 0))

    def test_gradients(self):
        for side in 1, 2:
            (a, b), values = self.tensors(side, torch.float64)
            for pattern in None, self.tensor(matrix(7, 6, side, "float32", 3), torch.float64):
                with self.subTest(side=side, is_masked=pattern is not None):
                    multiply = spmm.operator(a, b, pattern=pattern)
                    self.assertTrue(torch.autograd.gradcheck(multiply, values))
                    self.assertTrue(torch.autograd.gradgradcheck(multiply, values))

    def test_gradients_of_narrow_floats_and_compiled_functions(self):
        for dtype in torch.float16, torch.float32:
            (a, b), values = self.tensors(4, dtype)
            multiply = spmm.operator(a, b)
            dense = [one.to_dense().float().requires_grad_() for one in (a, b)]
            (dense[0] @ dense[1]).square().sum().backward()
            for function in (multiply, torch.compile(multiply, fullgraph=True)):
                for value in values:
                    value.grad = None
                function(*values).square().sum().backward()
                for one, value, whole in zip((a, b), values, dense):
                    self.assertEqual(value.grad.dtype, dtype)
                    of_dense = torch.sparse_bsr_tensor(one.crow_indices(), one.col_indices(), value.grad, one.shape).to_dense()
                    stored = torch.sparse_bsr_tensor(one.crow_indices(), one.col_indices(), torch.ones_like(value),
                                                     one.shape).to_dense() != 0
                    self.assertTrue(torch.equal(of_dense, (whole.grad * stored).to(dtype)))

    def test_operators_that_are_gone(self):
        (a, b), values = self.tensors(2, torch.float32)
        multiply = spmm.operator(a, b)
        result = multiply(*values).sum()
        del multiply
        with self.assertRaisesRegex(spmm.UsageError, "keep it"):
            result.backward()


@needs_scipy
@unittest.skipUnless(HAS_JAX, "needs JAX and a GPU")
class Jax(unittest.TestCase):
    def test_jit(self):
        for side, dtype in ((1, "float32"), (4, "float32"), (8, "int8"), (2, "float16")):
            with self.subTest(side=side, dtype=dtype):
                if dtype == "int8":  # results of int64 need JAX's 64 bits
                    jax.config.update("jax_enable_x64", True)
                whole = [matrix(7, 5, side, "float32", 1), matrix(5, 6, side, "float32", 2)]  # which holds all sums
                tuples = [(*map(jax.numpy.array, (one.indptr, one.indices, one.data.astype(dtype))), one.shape)
                          for one in whole]
                multiply = spmm.operator(*tuples)
                twice = jax.jit(lambda a, b: 2 * multiply(a, b))  # pylint: disable=cell-var-from-loop
                for _ in range(2):
                    values = np.asarray(twice(tuples[0][2], tuples[1][2]))
                    found = sp.bsr_array((values, np.asarray(multiply.indices), np.asarray(multiply.indptr)),
                                         shape=(7 * side, 6 * side)).toarray()
                    np.testing.assert_array_equal(found, 2 * (whole[0].toarray() @ whole[1].toarray()))

    def test_other_shapes_are_refused(self):
        one = (jax.numpy.array([0, 1], "int32"), jax.numpy.array([0], "int32"), jax.numpy.ones((1, 2, 2), "float32"))
        multiply = spmm.operator(one, one)
        with self.assertRaisesRegex(spmm.FormatError, r"pass float32\[1, 2, 2\]"):
            multiply(one[2][:, :1], one[2])


if __name__ == "__main__":
    unittest.main()
