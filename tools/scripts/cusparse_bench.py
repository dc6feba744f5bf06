#!/usr/bin/env python3
"""Times cuSPARSE by CuPy beside spmm on the same arrays in device memory.

usage: python3 tools/scripts/cusparse_bench.py --case S1,S2,S5 --json gpu-cusparse.json
       PYTHONPATH=tools/python SPMM_LIBRARY=build/lib/libspmm.so python3 tools/scripts/cusparse_bench.py --suite patterns

Operands are sorted and on the device before the clock runs. The first product of each kind is not timed. Times lie between CUDA
events and hold the whole call, with the allocation of the result.

  spmm           one call of spmm.multiply() on block-CSR arrays
  f64-cupy, f32-cupy       csr_matrix @ csr_matrix of the single elements, without zeros

A result must have the elements of spmm, by number and weighted sum, if its type holds all of them exactly ("same_values").
What a library refuses is told with its reason.
Exit codes: 0 all agree, 1 a result differs, 2 usage, 69 CuPy, spmm or a GPU is missing.
"""
import functools
import json
import os
import sys
import tempfile

try:
    import cupy
    import numpy as np
    import spmm
    from cupy_backends.cuda.libs import cusparse
    from cupyx.scipy import sparse
    cupy.cuda.Device().use()
except Exception as missing:  # CUDA's own error, where there is no GPU
    print(f"cusparse_bench.py: error: {missing}; it needs CuPy, the Python package spmm and a GPU", file=sys.stderr)
    sys.exit(69)

sys.dont_write_bytecode = True  # the folder of the scripts stays as it is
from bench_cases import LARGEST, find_cases, head, make_input, make_parser, print_case, read_bsr, spread  # noqa: E402

EXACT = {"f64-cupy": 2**53, "f32-cupy": 2**24}  # sums below it
CHUNK = 1 << 24  # elements that are checked at once


class Operand:
    """A matrix of blocks: arrays on the host, and block-CSR arrays of 16 bits in device memory."""

    def __init__(self, path):
        self.n, self.indptr, self.indices, self.blocks = read_bsr(path)
        self.side = self.blocks.shape[1]
        self.arrays = (cupy.asarray(self.indptr, np.int32), cupy.asarray(self.indices, np.int32), cupy.asarray(self.blocks),
                       (self.n, self.n))

    def csr(self, kind):
        """The elements that are not zero, as a sorted csr_matrix."""
        indptr, indices, data, shape = self.arrays
        block, row, column = cupy.nonzero(data)
        rows = (cupy.searchsorted(indptr, block, side="right") - 1) * self.side + row
        columns = indices[block].astype(np.int64) * self.side + column
        made = sparse.coo_matrix((data[block, row, column].astype(kind), (rows.astype(np.int32), columns.astype(np.int32))),
                                 shape=shape).tocsr()
        made.sum_duplicates()
        return made


def entries_of(indptr, indices, data, side):
    """Of a result: how many elements are not zero, and a sum of all, each at most 2^32 - 1 and weighted by its place."""
    indptr, indices, data = cupy.asarray(indptr), cupy.asarray(indices), cupy.asarray(data).reshape(-1, side, side)
    inside = cupy.arange(side, dtype=np.uint64)
    step = max(CHUNK // side**2, 1)
    count = total = 0
    for first in range(0, len(indices), step):
        block = cupy.arange(first, min(first + step, len(indices)))
        row = (cupy.searchsorted(indptr, block, side="right") - 1).astype(np.uint64)[:, None, None] * side + inside[:, None]
        column = indices[block].astype(np.uint64)[:, None, None] * side + inside
        values = cupy.minimum(data[block].astype(np.float64), LARGEST).astype(np.uint64)
        weight = row * np.uint64(0x9E3779B97F4A7C15) + column * np.uint64(0xC2B2AE3D27D4EB4F) + np.uint64(1)
        count += int(cupy.count_nonzero(values))
        total += int((values * weight).sum())
    return count, total % 2**64


# ---- kinds of products: each gives a function without arguments, and one that gives the arrays of what it returns


def spmm_call(engine, a, b):
    return lambda: engine.multiply(a.arrays, b.arrays), lambda c: (c.indptr, c.indices, c.data)


def cupy_csr(kind, a, b):
    left, right = a.csr(kind), b.csr(kind)
    return lambda: left @ right, lambda c: (c.indptr, c.indices, c.data)


def kinds_of(engine):
    """Name -> what makes a product of that kind of two operands."""
    kinds = {f"f{bits}-cupy": functools.partial(cupy_csr, f"f{bits // 8}") for bits in (64, 32)}
    return {"spmm": functools.partial(spmm_call, engine), **kinds}


# ---- measuring


def seconds_of(run):
    """Seconds of one product, without giving its memory back."""
    begin, end = cupy.cuda.Event(), cupy.cuda.Event()
    begin.record()
    result = run()
    end.record()
    end.synchronize()
    del result
    return cupy.cuda.get_elapsed_time(begin, end) / 1000


def measure(name, make, operands, arguments, expected):
    """A row of the measurement; expected gets what spmm's result holds, and its largest element."""
    try:
        run, arrays_of = make(*operands)
        result = run()
        arrays = arrays_of(result)
        found = entries_of(*arrays, operands[0].side if "cupy" not in name else 1)
        if name == "spmm":
            expected.update(entries=found, largest=int(cupy.asarray(arrays[2]).max()) if found[0] else 0)
        del result, arrays
        times = [seconds_of(run) for _ in range(arguments.runs)]
    except Exception as error:  # memory, most of all: told, not raised
        return {"kernel": name, "status": "refused", "reason": f"{type(error).__name__}: {error}"[:300]}
    row = {"kernel": name, "status": "ok", "ms": spread(times)}
    if name != "spmm" and expected and expected["largest"] < EXACT.get(name, 2**32):
        row["same_values"] = found == expected["entries"]
    return row


def run_case(arguments, case, kinds):
    paths = [make_input(arguments, case, seed) for seed in (1, 2)]
    operands = [Operand(path) for path in paths]
    for path in paths:
        os.remove(path)
    expected, rows = {}, []
    for name, make in kinds.items():
        rows.append(measure(name, make, operands, arguments, expected))
        cupy.get_default_memory_pool().free_all_blocks()
    return {**case, "elements": expected.get("entries", [0])[0], "kernels": rows}


def device_text():
    properties = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.Device().id)
    version = cusparse.getVersion(cupy.cuda.device.get_cusparse_handle())
    return f"{properties['name'].decode()}, cuSPARSE {version // 1000}.{version % 1000 // 100}.{version % 100}"


def run(arguments):
    """Exit code."""
    found = head(arguments, cupy=cupy.__version__, device=device_text(), cases=[])
    kinds = kinds_of(spmm.Engine())
    stream = cupy.cuda.Stream(non_blocking=True)  # of all libraries
    with stream:
        for case in find_cases(arguments):
            found["cases"].append(run_case(arguments, case, kinds))
            print_case(found["cases"][-1])
            if arguments.json:  # complete up to the last case at any time
                arguments.json.write_text(json.dumps(found, indent=1) + "\n")
    return 0 if all(k.get("same_values", True) for case in found["cases"] for k in case["kernels"]) else 1


def main():
    arguments = make_parser(__doc__).parse_args()
    with tempfile.TemporaryDirectory(prefix="cusparse-bench-", dir=arguments.work) as work:
        arguments.work = work
        sys.exit(run(arguments))


if __name__ == "__main__":
    main()
