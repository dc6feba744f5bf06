"""Items that customers buy together: Aᵀ · A of baskets by items, of each item the 20 others with the largest counts."""
import time

import numpy as np
import scipy.sparse as sp
import spmm

KEEP = 20


def baskets(num_customers, num_items, rng):
    """1 where a customer bought an item: a few items are in many baskets, most in few."""
    sizes = 1 + rng.poisson(12, num_customers)
    customers = np.repeat(np.arange(num_customers), sizes)
    items = (num_items * rng.random(len(customers)) ** 3).astype(np.int64)
    bought = sp.coo_matrix((np.ones(len(items), dtype=np.uint16), (customers, items)), shape=(num_customers, num_items)).tocsr()
    bought.data[:] = 1  # also if it was bought twice
    return bought


def largest(counts, keep):
    """The same by NumPy: of each row the largest, of equal ones the lower columns."""
    rows = np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))
    order = np.lexsort((counts.indices, -counts.data, rows))
    place = np.arange(len(order)) - np.repeat(counts.indptr[:-1], np.diff(counts.indptr))
    kept = order[place < keep]
    return sp.csr_matrix((counts.data[kept], (rows[kept], counts.indices[kept])), shape=counts.shape)


def main():
    rng = np.random.default_rng(5)
    print("customers   items  counts of pairs  kept     spmm    SciPy and NumPy  difference")
    for num_customers, num_items in ((5_000, 1_000), (20_000, 5_000), (50_000, 20_000)):
        a = baskets(num_customers, num_items, rng)
        report = {}
        begin = time.perf_counter()
        ours = spmm.gram(a, transpose_a=True, no_diagonal=True, at_least=2, keep=KEEP, report=report)
        between = time.perf_counter()
        wide = a.astype(np.int64)
        all_counts = sp.csr_matrix(wide.T @ wide)
        all_counts.setdiag(0)
        all_counts.data[all_counts.data < 2] = 0
        all_counts.eliminate_zeros()
        all_counts.sort_indices()
        theirs = largest(all_counts, KEEP)
        end = time.perf_counter()
        difference = abs(sp.csr_matrix(ours).astype(np.int64) - theirs).sum()
        print(f"{num_customers:9,} {num_items:7,} {ours.nnz + report['dropped_elements']:16,} {ours.nnz:7,}"
              f" {between - begin:6.2f} s {end - between:14.2f} s {difference:10}")
        assert difference == 0


main()
