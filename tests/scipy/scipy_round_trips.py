"""Random matrices that SciPy and NumPy write, through both converters and spmm, back into SciPy: equal to its own product.

.mtx goes through spmm-convert, .npy and .npz through python3 -m spmm convert.
Usage: scipy_round_trips.py BIN FOLDER [COUNT [SECONDS [SEED]]]; ends early, with a message, after SECONDS.
"""
import contextlib
import io
import os
import random
import subprocess
import sys
import time

import numpy as np
import scipy.io
import scipy.sparse as sp
import spmm.__main__

BIN, FOLDER = sys.argv[1], sys.argv[2]
COUNT = int(sys.argv[3]) if len(sys.argv) > 3 else 200
SECONDS = float(sys.argv[4]) if len(sys.argv) > 4 else 60
SEED = int(sys.argv[5]) if len(sys.argv) > 5 else 1
LARGEST = 2**32 - 1

INTEGERS = ["?", "i1", "u1", "<i2", "<u2", ">u2", "<i4", "<u4", ">i4", "<i8", ">i8", "<u8"]
FLOATS = ["<f4", "<f8", ">f4", ">f8"]
SPARSE = ["csr", "csc", "coo", "bsr"]
DENSE = ["npy-c", "npy-f", "mtx-array"]
TEXT = ["mtx", "mtx-symmetric", "mtx-pattern"]


def run(*arguments):
    return subprocess.run([str(a) for a in arguments], capture_output=True, text=True, timeout=60)


def convert(*arguments):
    words = [str(a) for a in arguments]
    if not any(word.endswith((".npy", ".npz")) for word in words[:2]):
        return run(f"{BIN}/spmm-convert", *words)
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = spmm.__main__.main(["convert", *words])
    return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())


def checked(result):
    assert result.returncode == 0, f"{result.args}: {result.returncode} {result.stderr}"


def at(name):
    return os.path.join(FOLDER, name)


def random_dense(rng, rows, columns, dtype):
    """Whole numbers from 0 to 65535, as far as the dtype holds them."""
    top = {"?": 1, "i1": 127, "u1": 255, "<i2": 32767, "<f2": 2048}.get(dtype, 65535)
    density = rng.choice([0.0, 0.02, 0.2, 0.9])
    values = np.array([[rng.randint(0, top) if rng.random() < density else 0 for _ in range(columns)]
                       for _ in range(rows)], dtype=np.int64).reshape(rows, columns)
    return values


def sides_of(rng, rows, columns):
    common = [s for s in range(1, 9) if rows % s == 0 and columns % s == 0]
    return rng.choice(common)


def sparse_of(rng, dense, kind, dtype):
    """The matrix in one of SciPy's formats; coo with elements that are stored twice."""
    whole = dense.astype(dtype)
    as_array = rng.random() < 0.5
    if kind == "coo" and dtype not in ("?", "i1"):
        rows, columns = np.nonzero(dense)
        first = np.array([rng.randint(0, int(v)) for v in dense[rows, columns]], dtype=np.int64)
        data = np.concatenate([first, dense[rows, columns] - first]).astype(np.dtype(dtype).newbyteorder("="))
        make = sp.coo_array if as_array else sp.coo_matrix
        return make((data, (np.tile(rows, 2), np.tile(columns, 2))), shape=dense.shape)
    if kind == "bsr":
        rows, columns = dense.shape
        if rng.random() < 0.5:
            side = sides_of(rng, rows, columns)
            blocks = (side, side)
        else:
            blocks = (rng.choice([s for s in range(1, 6) if rows % s == 0]),
                      rng.choice([s for s in range(1, 6) if columns % s == 0]))
        native = whole.astype(whole.dtype.newbyteorder("="))
        matrix = sp.csr_matrix(native).tobsr(blocksize=blocks)
        if rng.random() < 0.3:  # its blocks may come in Fortran order
            matrix = sp.csr_matrix(native.T).tobsr(blocksize=blocks[::-1]).transpose()
        return matrix
    native = whole.astype(whole.dtype.newbyteorder("="))
    make = getattr(sp, kind + ("_array" if as_array else "_matrix"))
    return make(native)


def write(rng, name, dense, kind, dtype):
    """Returns the file and the matrix that it holds."""
    if kind in SPARSE:
        path = at(name + ".npz")
        sp.save_npz(path, sparse_of(rng, dense, kind, dtype), compressed=rng.random() < 0.5)
        return path, dense
    if kind.startswith("npy"):
        path = at(name + ".npy")
        np.save(path, np.array(dense.astype(dtype), order=kind[-1].upper()))
        return path, dense
    path = at(name + ".mtx")
    if kind == "mtx-array":
        scipy.io.mmwrite(path, dense.astype(rng.choice(["i8", "f8"])))
        return path, dense
    if kind == "mtx-pattern":
        matrix = sp.coo_matrix((dense != 0).astype(np.int64))
        scipy.io.mmwrite(path, matrix, field="pattern", symmetry="general")
        return path, (dense != 0).astype(np.int64)
    if kind == "mtx-symmetric" and dense.shape[0] == dense.shape[1]:
        dense = np.maximum(dense, dense.T)
        scipy.io.mmwrite(path, sp.coo_matrix(dense), symmetry="symmetric")
        return path, dense
    scipy.io.mmwrite(path, sp.coo_matrix(dense.astype(rng.choice(["i8", "f8", "u4"]))), symmetry="general")
    return path, dense


def read_back(path):
    if path.endswith(".npy"):
        return np.load(path)
    if path.endswith(".npz"):
        matrix = sp.load_npz(path)
        matrix.check_format() if hasattr(matrix, "check_format") else None
        return matrix.toarray()
    matrix = scipy.io.mmread(path)
    return matrix.toarray() if sp.issparse(matrix) else matrix


def product(rng, number):
    rows, inner, columns = (rng.randint(1, 40) for _ in range(3))
    kinds = SPARSE * 3 + DENSE + TEXT
    files, matrices = [], []
    for name, shape in (("a", (rows, inner)), ("b", (inner, columns))):
        dtype = rng.choice(INTEGERS + FLOATS)
        kind = rng.choice(kinds)
        if kind.startswith("npy") and rng.random() < 0.1:
            dtype = "<f2"
        path, dense = write(rng, name, random_dense(rng, *shape, dtype), kind, dtype)
        files.append(path)
        matrices.append(dense)
    block = rng.choice(["auto", 1, 2, 3, 4, 5, 8, 16, 32])
    largest = max(rows, inner, columns)
    n = -(-largest // 64) * 64 if block == "auto" else -(-largest // block) * block
    transpose = rng.random() < 0.2
    if transpose:
        matrices[0] = matrices[0].T
        if matrices[0].shape[1] != matrices[1].shape[0]:  # so that the shapes fit: A^T has as many columns as B rows
            side = max(*matrices[0].shape, *matrices[1].shape)
            matrices = [np.pad(x, ((0, side - x.shape[0]), (0, side - x.shape[1]))) for x in matrices]
    checked(convert(files[0], at("a.bin"), "--n", n, "--block", block, *(["--transpose"] if transpose else [])))
    checked(convert(files[1], at("b.bin"), "--like", at("a.bin")))
    checked(run(f"{BIN}/spmm", "--backend", "cpu", "--threads", 1, at("a.bin"), at("b.bin"), at("c.bin")))
    expected = np.minimum(matrices[0] @ matrices[1], LARGEST)
    ending = rng.choice([".npz", ".npz", ".npy", ".mtx"])
    dtype = rng.choice(["int64", "uint32"])
    options = [] if ending == ".mtx" else ["--dtype", dtype]
    if ending == ".npz" and rng.random() < 0.3:
        options.append("--deflate")
    back = rng.random() < 0.3
    if back:
        options.append("--transpose")
        expected = expected.T
    checked(convert(at("c.bin"), at("c" + ending), "--shape", f"{expected.shape[0]}x{expected.shape[1]}",
                    *options))
    found = read_back(at("c" + ending))
    assert ending == ".mtx" or found.dtype == np.dtype(dtype), found.dtype
    assert found.shape == expected.shape and (found.astype(np.int64) == expected).all(), \
        f"matrix {number}: {files}, {block=}, {n=}, {transpose=}, {back=}, {options}"


def refusal(rng):
    """One element that does not fit: an error that names it, or what --round and --on-overflow make of it."""
    dense = random_dense(rng, rng.randint(1, 12), rng.randint(1, 12), "<i4").astype(np.float64)
    row, column = rng.randrange(dense.shape[0]), rng.randrange(dense.shape[1])
    bad, stored, word = rng.choice([(-3.0, 0, "negative"), (2.5, 2, "whole number"), (65536.0, 65535, "above 65535"),
                                    (float("inf"), 65535, "above 65535"), (1e300, 65535, "above 65535"),
                                    (float("nan"), None, "not a number"), (-0.75, 0, "negative")])
    dense[row, column] = bad
    kind = rng.choice(["csr", "csc", "bsr", "npy-c", "npy-f"])
    path, _ = write(rng, "bad", dense, kind, "<f8")
    out = at("bad.bin")
    if os.path.exists(out):
        os.remove(out)
    result = convert(path, out)
    assert result.returncode == 65 and not os.path.exists(out), (kind, bad, result)
    assert f"row {row}, column {column} " in result.stderr and word in result.stderr, result.stderr
    result = convert(path, out, "--round", "--on-overflow", "saturate", "--block", 1)
    if stored is None:
        assert result.returncode == 65, result
        return
    assert result.returncode == 0, result
    checked(convert(out, at("bad_back.npy"), "--shape", f"{dense.shape[0]}x{dense.shape[1]}", "--dtype",
                    "uint16"))
    dense[row, column] = stored
    assert (np.load(at("bad_back.npy")) == dense).all()


def main():
    rng = random.Random(SEED)
    start = time.monotonic()
    for number in range(COUNT):
        if time.monotonic() - start > SECONDS:
            print(f"stopped after {number} of {COUNT} matrices: {SECONDS:g} s are over")
            break
        product(rng, number)
        if number % 4 == 0:
            refusal(rng)
    else:
        print(f"{COUNT} products of matrices that SciPy wrote: all equal")
    return 0


if __name__ == "__main__":
    sys.exit(main())
