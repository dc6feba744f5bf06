#!/usr/bin/env python3
"""Times spmm beside cuSPARSE (by CuPy) and NVIDIA Warp's bsr_mm on the same arrays in device memory.

usage: PYTHONPATH=tools/python SPMM_LIBRARY=build/libspmm.so python3 tools/scripts/cusparse_bench.py --case S1,S2 --json peers.json

Operands are sorted and on the device before the clock runs. A time is one whole call with the allocation of its result, from an
idle device until it is idle again; the first product of each kind is not timed.

  spmm, spmm-plan            spmm.multiply() on block-CSR arrays; a plan of the pattern with new values (needs PyTorch)
  warp-f32, warp-f32-kept    warp.sparse.bsr_mm(); with the topology of the product before (both only if Warp is installed)
  f64-cupy, f32-cupy         csr_matrix @ csr_matrix of the elements that are not zero

A result must have the elements of spmm by number and, if its type holds all of them exactly, by sum ("same_values").
Exit codes: 0 all agree, 1 a result differs, 2 usage, 69 CuPy, spmm or a GPU is missing.
"""
import sys
import time

try:
    import cupy
    import numpy as np
    import spmm
    from cupy_backends.cuda.libs import cusparse
    from cupyx.scipy import sparse
    cupy.cuda.Device().use()
except Exception as missing:  # also CUDA's own error without a GPU
    print(f"cusparse_bench.py: error: {missing}; it needs CuPy, the Python package spmm and a GPU", file=sys.stderr)
    sys.exit(69)
try:
    import warp
    import warp.sparse
    warp.init()
except ImportError:
    warp = None

sys.dont_write_bytecode = True  # the folder of the scripts stays as it is
from bench_cases import LARGEST, head, make_parser, measure_cases, read_bsr, spread  # noqa: E402


class Operand:
    """Block-CSR arrays in device memory, with elements of 16 bits."""

    def __init__(self, path):
        self.n, *parts = read_bsr(path)
        self.indptr, self.indices, self.blocks = (cupy.asarray(x, kind) for x, kind in zip(parts, (np.int32, np.int32, np.uint16)))
        self.rows = cupy.searchsorted(self.indptr, cupy.arange(len(self.indices)), side="right").astype(np.int32) - 1

    def csr(self, kind):
        """The elements that are not zero, as a sorted csr_matrix."""
        block, row, column = cupy.nonzero(self.blocks)
        side = self.blocks.shape[1]
        places = (self.rows[block] * side + row).astype(np.int32), (self.indices[block] * side + column).astype(np.int32)
        made = sparse.coo_matrix((self.blocks[block, row, column].astype(kind), places), (self.n, self.n)).tocsr()
        made.sum_duplicates()
        return made

    def torch_bsr(self, torch):
        indptr, indices, values = (torch.from_dlpack(x) for x in (self.indptr, self.indices, self.blocks.astype(np.int32)))
        if self.blocks.shape[1] == 1:
            return torch.sparse_csr_tensor(indptr, indices, values.view(-1), (self.n, self.n))
        return torch.sparse_bsr_tensor(indptr, indices, values, (self.n, self.n))

    def warp_bsr(self):
        parts = (warp.from_dlpack(x) for x in (self.rows, self.indices, self.blocks.astype(np.float32)))
        side = len(self.indptr) - 1
        return warp.sparse.bsr_from_triplets(side, side, *parts, prune_numerical_zeros=False)


def kinds_of(engine, a, b):
    """Name -> a function that prepares operands and returns one that multiplies them."""
    def spmm_call():
        left, right = ((x.indptr, x.indices, x.blocks, (x.n, x.n)) for x in (a, b))
        return lambda: engine.multiply(left, right).data

    def spmm_plan():
        import torch
        plan = engine.plan(a.torch_bsr(torch), b.torch_bsr(torch), dtype="uint32")
        left, right = (torch.from_dlpack(x.blocks.view(np.int16)) for x in (a, b))

        def run():
            out = torch.empty((plan.num_blocks, plan.side, plan.side), dtype=torch.int32, device="cuda")
            plan.into(left, right, out)
            return out
        return run

    def cupy_csr(kind):
        left, right = a.csr(kind), b.csr(kind)
        return lambda: (left @ right).data

    def warp_call(*kept):
        left, right = a.warp_bsr(), b.warp_bsr()
        if not kept:
            return lambda: warp.sparse.bsr_mm(left, right)
        work = warp.sparse.bsr_mm_work_arrays()
        result = warp.sparse.bsr_mm(left, right, work_arrays=work)
        return lambda: warp.sparse.bsr_mm(left, right, result, work_arrays=work, reuse_topology=True)

    kinds = {"spmm": spmm_call, "spmm-plan": spmm_plan}
    if warp is not None:
        kinds.update({"warp-f32": warp_call, "warp-f32-kept": lambda: warp_call("kept")})
    return {**kinds, "f64-cupy": lambda: cupy_csr("f8"), "f32-cupy": lambda: cupy_csr("f4")}


def entries_of(result):
    """Number of elements that are not zero, the sum of all, each at most 2^32 - 1, and the largest."""
    data = cupy.asarray(result.values)[:result.nnz_sync()] if hasattr(result, "nnz_sync") else cupy.from_dlpack(result)
    data = (data.view(np.uint32) if data.dtype == np.int32 else data).reshape(-1)
    found = [0, 0, 0]
    for first in range(0, len(data), 1 << 26):
        part = cupy.minimum(data[first:first + (1 << 26)].astype(np.float64), LARGEST).astype(np.uint64)
        found = [found[0] + int(cupy.count_nonzero(part)), found[1] + int(part.sum()), max(found[2], int(part.max()))]
    return found


def measure(arguments, name, prepare, expected):
    """A row of the measurement. Values: expected = entries of spmm's result; empty for spmm's own."""
    try:
        multiply = prepare()
        found = entries_of(multiply())
        times = []
        for _ in range(arguments.runs):
            cupy.cuda.Device().synchronize()
            begin = time.perf_counter()
            result = multiply()
            cupy.cuda.Device().synchronize()
            times.append(time.perf_counter() - begin)
            del result  # not within the next time
    except Exception as error:  # memory, most of all
        return {"kernel": name, "status": "refused", "reason": f"{type(error).__name__}: {error}"[:300]}
    expected.extend(found if name == "spmm" else [])
    checked = 1 if "f32" in name and expected and expected[2] >= 2**24 else 3
    return {"kernel": name, "status": "ok", "ms": spread(times), "same_values": found[:checked] == expected[:checked]}


def main():
    """Exit code."""
    arguments = make_parser(__doc__).parse_args()
    version = cusparse.getVersion(cupy.cuda.device.get_cusparse_handle())
    device = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.Device().id)["name"].decode()

    def measure_case(case, paths):
        kinds = kinds_of(spmm.Engine(), *map(Operand, paths))
        expected = []
        rows = [measure(arguments, name, prepare, expected) for name, prepare in kinds.items()]
        cupy.get_default_memory_pool().free_all_blocks()
        return {"kernels": rows}

    return measure_cases(arguments, head(arguments, cupy=cupy.__version__, warp=warp.__version__ if warp else None, cases=[],
                                         device=f"{device}, cuSPARSE {version // 1000}.{version % 1000 // 100}.{version % 100}"),
                         measure_case)


if __name__ == "__main__":
    sys.exit(main())
