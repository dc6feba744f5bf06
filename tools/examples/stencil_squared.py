"""A stencil and its square: which blocks are stored, by spmm.spy (stencil.png) or, without matplotlib, in letters alone."""
import numpy as np
import scipy.sparse as sp
import spmm

SIDE = 16  # of the grid


def letters(matrix):
    """A letter for each cell: a space for no block, # if all are stored."""
    shares = spmm.density(matrix, cells=16)
    return ["".join(" .:+#"[int(np.ceil(4 * share))] for share in row) for row in shares]


def main():
    line = sp.diags([1, 1, 1], [-1, 0, 1], shape=(SIDE, SIDE), dtype=np.uint16)
    one = sp.identity(SIDE, dtype=np.uint16)
    stencil = sp.kron(line, one) + sp.kron(one, line)  # five points; the middle counts twice
    a = stencil.astype(np.uint16).tobsr((4, 4))
    c = spmm.multiply(a, a)
    assert (c != stencil.astype(np.int64) @ stencil).nnz == 0
    matrices = {"stencil": a, "squared": c}
    middle = SIDE * SIDE // 2 + SIDE // 2
    for name, matrix in matrices.items():
        row = matrix.toarray()[middle]
        print(f"{name}: {matrix.data.shape[0]} blocks of 4 x 4; {np.count_nonzero(row)} points with weights {np.unique(row[row > 0])}")
    for left, right in zip(letters(a), letters(c)):
        print(f"{left} | {right}".rstrip())
    try:
        import matplotlib
    except ImportError:
        return
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(6, 3))
    for ax, (name, matrix) in zip(axes, matrices.items()):
        spmm.spy(matrix, ax=ax)
        ax.set_title(name)
    figure.savefig("stencil.png", dpi=80)


main()
