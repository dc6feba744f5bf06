"""500 products by spmm-batch, and its report as a plot (jobs.png, if matplotlib is there): many_jobs.py SPMM_BATCH."""
import collections
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import scipy.sparse as sp
import spmm

JOBS_OF_A_SIZE = 100
SIZES = [128, 256, 512, 1024, 2048]
SIDE = 8


def matrix(rng, n):
    """Four blocks in each block row, some of them at the same place."""
    num = n // SIDE
    ends = np.repeat(np.arange(num), 4), rng.integers(num, size=4 * num)
    ones = sp.coo_matrix((np.ones(4 * num), ends), shape=(num, num)).tocsr()
    values = rng.integers(1, 100, size=(ones.nnz, SIDE, SIDE), dtype=np.uint16)
    return sp.bsr_matrix((values, ones.indices, ones.indptr), shape=(n, n))


def run(batch, folder):
    """Writes matrices and a list, multiplies, checks the last product of each size; the report's jobs by n."""
    rng = np.random.default_rng(5)
    lines = []
    operands = {n: [matrix(rng, n) for _ in range(JOBS_OF_A_SIZE)] for n in SIZES}
    for n, matrices in operands.items():
        for p, operand in enumerate(matrices):
            spmm.write(folder / f"{n}-{p}.bin", operand)
            lines.append(f"{n}-{p}.bin\t{n}-{(p + 1) % JOBS_OF_A_SIZE}.bin\tc{n}-{p}.bin\n")
    (folder / "jobs.tsv").write_text("".join(lines))
    subprocess.run([batch, "--quiet", "--report", folder / "report.json", folder / "jobs.tsv"], check=True)
    for n, matrices in operands.items():
        c = spmm.read(folder / f"c{n}-{JOBS_OF_A_SIZE - 1}.bin", dtype=np.uint32)
        assert (c != matrices[-1].astype(np.int64) @ matrices[0]).nnz == 0
    jobs = collections.defaultdict(list)
    for job in json.loads((folder / "report.json").read_text())["jobs"]:
        jobs[int(pathlib.Path(job["a"]).name.partition("-")[0])].append(job)
    return jobs


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: many_jobs.py SPMM_BATCH, such as build/bin/spmm-batch")
    with tempfile.TemporaryDirectory() as folder:
        jobs = run(sys.argv[1], pathlib.Path(folder))
    print("    n  products  pairs of a product    MB read  MB written")
    for n, of_size in jobs.items():
        pairs = [job["pairs"] for job in of_size]
        read, written = (sum(job[key] for job in of_size) / 1e6 for key in ("in_bytes", "out_bytes"))
        print(f"{n:5} {len(of_size):9} {min(pairs):10,} to {max(pairs):6,} {read:10.1f} {written:11.1f}")
    try:
        import matplotlib
    except ImportError:
        return
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(5, 3.5), layout="constrained")
    for n, of_size in jobs.items():
        ax.loglog([job["pairs"] for job in of_size], [1e3 * job["seconds"] for job in of_size], ".", label=f"n = {n}")
    ax.set_xlabel("pairs")
    ax.set_ylabel("ms of a job, files included")
    ax.legend()
    figure.savefig("jobs.png", dpi=80)


main()
