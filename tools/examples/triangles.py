"""Triangles of a graph: paths of length two whose ends are neighbours, so A · A under the mask A."""
import numpy as np
import scipy.sparse as sp
import spmm


def main():
    rng = np.random.default_rng(2)
    print("vertices  edges  triangles  the same by SciPy")
    for n, num_edges in ((256, 2000), (1024, 16000), (2048, 60000)):
        first, second = rng.integers(n, size=(2, num_edges))
        a = sp.coo_matrix((np.ones(num_edges), (first, second)), shape=(n, n)).tocsr()
        a = ((a + a.T) > 0).astype(np.uint16).tolil()
        a.setdiag(0)
        a = a.tocsr()
        a.eliminate_zeros()
        paths = spmm.multiply(a, a, blocksize=4, dtype="int64", pattern=a)  # blocks of A alone
        # Each triangle has three corners and two directions.
        num = int(paths.multiply(a).sum()) // 6
        wide = a.astype(np.int64)
        expected = int((wide @ wide).multiply(wide).sum()) // 6
        assert num == expected
        print(f"{n:8,} {a.nnz // 2:6,} {num:10,} {expected:18,}")


main()
