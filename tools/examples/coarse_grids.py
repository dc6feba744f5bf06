"""Coarse matrices R · A · P of a multigrid method: patterns stay while the values of A change in each step of time.

On a GPU with PyTorch: two plans, whose products a CUDA graph replays. Else: products whose blocks are given.
"""
import numpy as np
import scipy.sparse as sp
import spmm

SIDE, CELLS, STEPS = 4, 512, 3  # unknowns of a cell, cells of the fine grid
try:
    import torch
    HAS_GPU = torch.cuda.is_available() and spmm.has_cuda_device()
except ImportError:
    HAS_GPU = False


def grids(rng):
    """A: neighbouring cells; P: each coarse cell has two fine ones, and a share of those beside them."""
    neighbours = sp.diags([1.0, 1.0, 1.0], [-1, 0, 1], shape=(CELLS, CELLS))
    share = sp.kron(sp.identity(CELLS // 2), np.ones((2, 1))) + sp.diags([0.25], [1], shape=(CELLS, CELLS // 2))
    a = sp.kron(neighbours, np.ones((SIDE, SIDE))).tobsr((SIDE, SIDE))
    a.data[:] = rng.normal(0, 1, a.data.shape)
    return a, sp.kron(share, np.identity(SIDE)).tobsr((SIDE, SIDE))


def planned(r, a, p):
    """A function of A's values that gives those of R · A · P, and that matrix's pattern."""
    def tensor(matrix):
        parts = (torch.from_numpy(part).cuda() for part in (matrix.indptr, matrix.indices, matrix.data))
        return torch.sparse_bsr_tensor(*parts, matrix.shape)

    r, a, p = (tensor(matrix) for matrix in (r, a, p))
    first = spmm.plan(r, a)
    between = first(r.values(), a.values())
    second = spmm.plan(between, p)
    values, middle, out = a.values().clone(), between.values().clone(), second(between.values(), p.values()).values().clone()

    def both():
        first.into(r.values(), values, middle)
        second.into(middle, p.values(), out)

    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        both()

    def step(data):
        values.copy_(torch.from_numpy(data))
        graph.replay()
        return out.cpu().numpy()

    return step, (second.indptr.cpu().numpy(), second.indices.cpu().numpy())


def unplanned(r, a, p):
    """The same on the CPU: the blocks of both products are those of the first step."""
    between = spmm.multiply(r, a)
    coarse = spmm.multiply(between, p)

    def step(data):
        changed = sp.bsr_matrix((data, a.indices, a.indptr), shape=a.shape)
        return spmm.multiply(spmm.multiply(r, changed, pattern=between), p, pattern=coarse).data

    return step, (coarse.indptr, coarse.indices)


def main():
    rng = np.random.default_rng(6)
    a, p = grids(rng)
    r = p.T.tobsr((SIDE, SIDE))
    step, (indptr, indices) = (planned if HAS_GPU else unplanned)(r, a, p)
    print("step  blocks of the coarse matrix  that SciPy has, too")
    for number in range(STEPS):
        a.data[:] = rng.normal(0, 1, a.data.shape)
        coarse = sp.bsr_matrix((step(a.data), indices, indptr), shape=(r.shape[0], p.shape[1]))
        wanted = (r @ a @ p).toarray()
        same = np.isclose(coarse.toarray(), wanted, rtol=1e-12, atol=1e-12).all()
        print(f"{number:4}  {len(indices):27,}  {'all' if same else 'not all':>19}")


main()
