"""Random matrices, and products by Python's own integers."""
import random
import unittest

import numpy as np

import packages

NO_SCIPY = packages.problem("scipy")
if NO_SCIPY is None:
    import scipy.sparse as sp
else:
    sp = None

LARGEST = 2**32 - 1
needs_scipy = unittest.skipIf(sp is None, NO_SCIPY)


def random_dense(rng, rows, columns, m=1, top=65535, density=None):
    """Blocks of side m of which some are stored, with whole numbers of Python."""
    density = rng.choice([0.0, 0.1, 0.4, 1.0]) if density is None else density
    out = np.zeros((rows, columns), dtype=np.int64)
    for i in range(rows // m):
        for j in range(columns // m):
            if rng.random() >= density:
                continue
            block = [rng.choice([0, 1, top, rng.randint(0, top)]) for _ in range(m * m)]
            out[i * m:(i + 1) * m, j * m:(j + 1) * m] = np.array(block, dtype=np.int64).reshape(m, m)
    return out


def exact_product(a, b):
    """Python integers, clipped."""
    product = a.astype(object) @ b.astype(object)
    return np.array([[min(int(x), LARGEST) for x in row] for row in product], dtype=np.int64).reshape(product.shape)


def as_arrays(dense, m, index=np.int64):
    """(indptr, indices, data) of uint16."""
    rows, columns = dense.shape[0] // m, dense.shape[1] // m
    blocks = dense.reshape(rows, m, columns, m).transpose(0, 2, 1, 3)
    stored = (blocks != 0).any(axis=(2, 3))
    indptr = np.concatenate([[0], np.cumsum(stored.sum(axis=1))]).astype(index)
    return indptr, np.nonzero(stored)[1].astype(index), np.ascontiguousarray(blocks[stored]).astype(np.uint16)


def as_dense(bsr, dtype=np.int64):
    """Of a Bsr."""
    out = np.zeros(bsr.shape, dtype)
    m = bsr.data.shape[1]
    for row in range(len(bsr.indptr) - 1):
        for block in range(bsr.indptr[row], bsr.indptr[row + 1]):
            column = bsr.indices[block]
            out[row * m:(row + 1) * m, column * m:(column + 1) * m] = bsr.data[block]
    return out


def random_source(seed):
    return random.Random(seed)
