"""Time of a product of NumPy arrays over that of the C++ call: measure_call.py CAPI_TESTS, with SPMM_LIBRARY and PYTHONPATH set.

Case S1 of data/README.md in shape (n 8192, m 8, 100,000 blocks each), on the CPU, the fastest of five runs of each on one engine.
"""
import re
import subprocess
import sys
import time

import numpy as np
import spmm

N, M, K, TOP, RUNS = 8192, 8, 100_000, 2048, 5


def random_bsr(seed):
    rng = np.random.default_rng(seed)
    side = N // M
    cells = np.sort(rng.choice(side * side, K, replace=False))
    indptr = np.searchsorted(cells, np.arange(side + 1) * side)
    return spmm.Bsr(indptr, cells % side, rng.integers(0, TOP, (K, M, M), dtype=np.uint16), (N, N))


def main():
    cpp = subprocess.run([sys.argv[1], "[.measure]"], capture_output=True, text=True, check=True).stdout
    cpp_s = float(re.search(r"C\+\+ call: ([0-9.]+) s", cpp).group(1))
    a, b, best = random_bsr(1), random_bsr(2), (float("inf"), 0.0)
    with spmm.Engine() as engine:
        for _ in range(RUNS):
            report = {}
            start = time.perf_counter()
            c = engine.multiply(a, b, backend="cpu", report=report)
            best = min(best, (time.perf_counter() - start, report["total_s"]))
            del c
    print(f"NumPy call {best[0]:.4f} s (in the library {best[1]:.4f} s), C++ call {cpp_s:.4f} s: {best[0] / cpp_s:.2f}")


if __name__ == "__main__":
    main()
