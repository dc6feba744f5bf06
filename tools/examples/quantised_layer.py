"""A layer of a network with 8-bit weights of which a quarter of the blocks is stored, on 8-bit activations.

A weight is scale · (q − 128), an activation scale · x, with q and x from 0 to 255. Sums of (q − 128) · x are Q·X − 128 · M·X,
M being 1 in stored blocks. Both products are of whole numbers that are not negative: they are exact.
"""
import numpy as np
import scipy.sparse as sp
import spmm

SIDE = 16
OUTPUTS, INPUTS, BATCH = 512, 768, 64


def main():
    rng = np.random.default_rng(3)
    kept = rng.random((OUTPUTS // SIDE, INPUTS // SIDE)) < 0.25
    mask = np.kron(kept, np.ones((SIDE, SIDE), dtype=np.uint16))
    weights = rng.normal(0, 0.05, (OUTPUTS, INPUTS)) * mask
    inputs = rng.random((INPUTS, BATCH))

    weight_scale, input_scale = np.abs(weights).max() / 127, inputs.max() / 255
    q = ((np.rint(weights / weight_scale) + 128) * mask).astype(np.uint16)
    x = np.rint(inputs / input_scale).astype(np.uint16)

    blocks = sp.bsr_matrix(q, blocksize=(SIDE, SIDE))
    ones = sp.bsr_matrix((np.ones_like(blocks.data), blocks.indices, blocks.indptr), shape=blocks.shape)
    with spmm.Engine() as engine:
        sums = engine.multiply(blocks, x, blocksize=SIDE).toarray().astype(np.int64)
        sums -= 128 * engine.multiply(ones, x, blocksize=SIDE).toarray().astype(np.int64)

    exact = (q.astype(np.int64) - 128 * mask) @ x.astype(np.int64)
    wanted = weights @ inputs
    error = np.linalg.norm(sums * weight_scale * input_scale - wanted) / np.linalg.norm(wanted)
    assert (sums == exact).all()
    print(f"layer                        {INPUTS} inputs, {OUTPUTS} outputs, a batch of {BATCH}")
    print(f"blocks of {SIDE} x {SIDE}            {kept.sum()} of {kept.size} stored")
    print(f"sums                         from {sums.min():,} to {sums.max():,}")
    print(f"that differ from NumPy's     {(sums != exact).sum()} of {sums.size:,}")
    print(f"error of the quantisation    {100 * error:.1f} %")


main()
