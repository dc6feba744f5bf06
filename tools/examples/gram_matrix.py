"""Gram matrix Xᵀ · X of a 0/1 design matrix: how often two properties come together. X stays as it is: transpose_a.

Of files: spmm --transpose-a x.bin x.bin gram.bin
"""
import numpy as np
import scipy.sparse as sp
import spmm

ROWS = 20000
NAMES = ["rain", "wind", "umbrella", "kite", "bus"]


def design(rng):
    """A row for each day, a column for each property; some depend on others."""
    rain, wind = rng.random(ROWS) < 0.3, rng.random(ROWS) < 0.2
    bus = rng.random(ROWS) < np.where(rain, 0.6, 0.2)
    columns = [rain, wind, rng.random(ROWS) < np.where(rain, 0.8, 0.02), rng.random(ROWS) < np.where(wind & ~rain, 0.3, 0.01), bus]
    return sp.csr_matrix(np.stack(columns, axis=1).astype(np.uint16))


def main():
    x = design(np.random.default_rng(4))
    gram = spmm.multiply(x, x, transpose_a=True, blocksize=5).toarray()
    dense = x.toarray().astype(np.int64)
    assert (gram == dense.T @ dense).all()
    print(" " * 9 + "".join(f"{name:>9}" for name in NAMES))
    for name, row in zip(NAMES, gram):
        print(f"{name:9}" + "".join(f"{together:9,}" for together in row))
    share = np.diag(gram) / ROWS
    spread = np.sqrt(share * (1 - share))
    correlation = (gram / ROWS - np.outer(share, share)) / np.outer(spread, spread)
    order = np.argsort(-np.triu(correlation, k=1), axis=None)[:3]
    for i, j in zip(*np.unravel_index(order, gram.shape)):
        print(f"correlation of {NAMES[i]} and {NAMES[j]}: {correlation[i, j]:.2f}")


main()
