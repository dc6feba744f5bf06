"""Items that customers buy together: Aᵀ · A of baskets by items, of each item the 20 others with the largest counts."""
import numpy as np
import scipy.sparse as sp
import spmm

KEEP = 20


def baskets(num_customers, num_items, rng):
    """1 where a customer bought an item: a few items are in many baskets, most in few."""
    customers = np.repeat(np.arange(num_customers), rng.integers(1, 25, num_customers))
    items = (num_items * rng.random(len(customers)) ** 3).astype(np.int64)
    bought = sp.coo_matrix((np.ones(len(items)), (customers, items)), shape=(num_customers, num_items)).tocsr()
    return (bought > 0).astype(np.uint16)  # also if it was bought twice


def counts_by_scipy(bought):
    """All counts of two and more, without the diagonal."""
    wide = bought.astype(np.int64)
    counts = sp.triu(wide.T @ wide, 1).tocsr()
    counts.data[counts.data < 2] = 0
    counts.eliminate_zeros()
    counts = sp.csr_matrix(counts + counts.T)
    counts.sort_indices()
    return counts


def largest(counts):
    """Of each row the largest by NumPy, of equal ones the lower columns."""
    lengths = np.diff(counts.indptr)
    rows = np.repeat(np.arange(counts.shape[0]), lengths)
    order = np.lexsort((counts.indices, -counts.data, rows))
    kept = order[np.arange(len(order)) - np.repeat(counts.indptr[:-1], lengths) < KEEP]
    return sp.csr_matrix((counts.data[kept], (rows[kept], counts.indices[kept])), shape=counts.shape)


def main():
    rng = np.random.default_rng(5)
    print("customers  items  counts of 2 and more     kept  that differ from SciPy's")
    for num_customers, num_items in ((2_000, 500), (10_000, 2_000), (20_000, 5_000)):
        bought = baskets(num_customers, num_items, rng)
        kept = spmm.gram(bought, transpose_a=True, no_diagonal=True, at_least=2, keep=KEEP)
        counts = counts_by_scipy(bought)
        differences = (sp.csr_matrix(kept).astype(np.int64) != largest(counts)).nnz
        print(f"{num_customers:9,} {num_items:6,} {counts.nnz:21,} {np.count_nonzero(kept.data):8,} {differences:25,}")
        assert differences == 0


main()
