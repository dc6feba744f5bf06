"""Paths of length two: element (i, j) of A · A counts them, which for an undirected graph are common neighbours."""
import numpy as np
import scipy.sparse as sp
import spmm


def undirected(n, first, second):
    """The adjacency matrix, 0 and 1, without loops."""
    keep = first != second
    ends = np.concatenate([first[keep], second[keep]]), np.concatenate([second[keep], first[keep]])
    a = sp.coo_matrix((np.ones(len(ends[0]), dtype=np.uint16), ends), shape=(n, n)).tocsr()
    a.data[:] = 1  # an edge that was drawn twice
    return a


def rmat(scale, num_edges, rng):
    """Each bit of both ends by the same four probabilities: few vertices get most of the edges."""
    ends = np.zeros((2, num_edges), dtype=np.int64)
    for _ in range(scale):
        quarter = rng.choice(4, size=num_edges, p=[0.57, 0.19, 0.19, 0.05])
        ends = 2 * ends + [quarter // 2, quarter % 2]
    return undirected(2**scale, *ends)


def grid(side, num_shortcuts, rng):
    """A square grid, and edges between vertices that are drawn."""
    vertex = np.arange(side * side).reshape(side, side)
    first = [vertex[:, :-1].ravel(), vertex[:-1].ravel(), rng.integers(side * side, size=num_shortcuts)]
    second = [vertex[:, 1:].ravel(), vertex[1:].ravel(), rng.integers(side * side, size=num_shortcuts)]
    return undirected(side * side, np.concatenate(first), np.concatenate(second))


def main():
    rng = np.random.default_rng(1)
    print("graph                 vertices  edges  paths of length two  most common neighbours")
    for name, a in (("R-MAT", rmat(11, 16000, rng)), ("grid with shortcuts", grid(48, 200, rng))):
        c = spmm.multiply(a, a, blocksize=8)
        assert c.saturated_elements == 0
        exact = a.astype(np.int64) @ a
        assert (c != exact).nnz == 0
        pairs = sp.triu(c.tocoo(), k=1).tocoo()  # two ends; the diagonal has the degrees
        best = np.lexsort((pairs.col, pairs.row, -pairs.data.astype(np.int64)))[0]
        print(f"{name:20} {a.shape[0]:9,} {a.nnz // 2:6,} {int(pairs.data.sum(dtype=np.int64)):20,}"
              f"  {pairs.data[best]}: vertices {pairs.row[best]} and {pairs.col[best]}")


main()
