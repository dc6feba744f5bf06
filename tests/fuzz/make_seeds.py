#!/usr/bin/env python3
"""Writes the hand-made seeds of corpus/: make_seeds.py CORPUS. Needs NumPy and SciPy; corpus/ is kept in the tree.

Each file is the input of one target, control bytes first: see the first lines of the targets.
"""
import io
import json
import struct
import sys
from pathlib import Path

import numpy as np
import scipy.io
import scipy.sparse as sp

corpus = Path(sys.argv[1])


def put(target, name, content):
    folder = corpus / target
    folder.mkdir(parents=True, exist_ok=True)
    content = content.encode() if isinstance(content, str) else content
    assert len(content) < 4096, name
    (folder / name).write_bytes(content)


def matrix(n, m, blocks, element, count=None):
    body = b"".join(struct.pack("<II", i, j) + np.full(m * m, v, element).tobytes() for i, j, v in blocks)
    return struct.pack("<III", n, m, len(blocks) if count is None else count) + body


def matrix_files():
    blocks = [(0, 1, 3), (1, 0, 65535), (1, 1, 0)]
    for element, mode in (("<u2", 2), ("<u4", 3)):
        good = matrix(4, 2, blocks, element)
        put("matrix_file", f"good-{element[1:]}", bytes([mode]) + good)
        put("matrix_file", f"short-{element[1:]}", bytes([mode]) + good[:-1])
        put("matrix_file", f"twice-{element[1:]}", bytes([mode]) + matrix(4, 2, blocks + [(0, 1, 4)], element))
        put("matrix_file", f"outside-{element[1:]}", bytes([mode]) + matrix(4, 2, [(2, 0, 1)], element))
        put("matrix_file", f"empty-{element[1:]}", bytes([mode]) + matrix(64, 64, [], element))
        put("matrix_file", f"many-{element[1:]}", bytes([mode]) + matrix(2**32 - 1, 1, [], element, 2**32 - 1))
        put("matrix_file", f"made-{element[1:]}", bytes([mode & 1, 1, 5, 0]) + bytes(range(200)))
        put("matrix_file", f"made-twice-{element[1:]}", bytes([mode & 1, 0, 0, 0]) + bytes(40))
    put("matrix_file", "zip", b"\2PK\3\4" + bytes(20))
    put("matrix_file", "no-header", b"\2abc")


def products():
    rng = np.random.default_rng(1)
    for m in range(1, 9):
        head = bytes([m - 1, 12, m % 4, m])
        put("records", f"m{m}", head + bytes([1]) + rng.integers(0, 256, 1200, dtype=np.uint8).tobytes())
    put("records", "indices", bytes([0, 8, 4, 3, 1]) + struct.pack("<IIH", 1, 2, 3) * 3 + struct.pack("<IIH", 9, 0, 1))
    put("records", "valid-indices", bytes([0, 8, 4, 3, 1]) + struct.pack("<IIH", 1, 2, 3) + struct.pack("<IIH", 2, 0, 1))
    put("records", "empty", b"")
    for seed in range(16):
        body = rng.integers(0, 256, 700, dtype=np.uint8).tobytes()
        put("product", f"random-{seed}", bytes([seed % 8, seed, 11, seed % 3, seed % 2, seed, 2, seed % 3]) + body)
    put("product", "empty", b"")
    put("product", "saturated", bytes([0, 3, 3, 0, 0, 3, 1, 0, 8]) + bytes([0, 0, 0, 0, 1, 0, 1, 0, 0, 1, 1, 0]) * 8)


def command_lines():
    lines = {
        "spmm": "\0a.bin\nb.bin\nc.bin\n--memory-limit=1.5GiB\n--verify\n100\n--kernel=row-merge",
        "spmm-env": "\0SPMM_THREADS=4\nSPMM_MEMORY_LIMIT=2G\nSPMM_KERNEL=row-merge\na\nb\nc",
        "spmm-plan": "\0--plan\na.bin\nb.bin\n--devices=0,1\n--report=-",
        "batch": "\1jobs.tsv\n--resume\n--timeout\n10m\n--shard\n2/8\n--report=x",
        "gen": "\2out.bin\n--n\n8192\n--m\n8\n--k\n100e3\n--seed=2\n--order=sorted\n--zero-blocks\n0.1",
        "gen-all": "\2out.bin\n--n=4096\n--m=1\n--k=all\n--pattern\nstencil-27",
        "gen-band": "\2out.bin\n--n\n4_096\n--m\n4\n--k\n1e3\n--pattern\nbanded\n--bandwidth\n64",
        "convert": "\3a.mtx\na.bin\n--block\n8\n--n\n300\n--scale\n2.5",
        "convert-out": "\3a.bin\na.mtx\n--shape=30x20",
        "numbers": "\4" + "\n".join(["8G", "1.5T", "1e9", "33_000", "1e", "0.5", "0,1", "all", "18446744073709551616",
                                     "1.0000000001KiB", "-1", "1e999", "9e99999999999"]),
        "dashes": "\0--\n-a\n--n=\n-\n---\n--threads\n--threads",
    }
    for name, content in lines.items():
        put("command_line", name, content)


def lists():
    good = "# jobs\na.bin\tb.bin\tc.bin\n/x//y/../a\tb\td\tbackend=cpu\tverify=10\ttimeout=2.5m\n\n"
    put("job_list", "good", good)
    put("job_list", "mark", b"\xef\xbb\xbfa\tb\tc\r\n")
    put("job_list", "bad", "a\tb\na\t\tc\na\tb\tc\td\na\tb\tc\trows=2:1\na\tb\tc\tverify=-1\na\tb\tc\tkernel=rows\tbackend=cpu\n"
        "a\tb\tc\ttimeout=5x\tdurable=101\na\tb\tc\tdurable=1\tdurable=1\na\tb\tc\0\n")
    put("job_list", "seconds", "1.5h")


def texts():
    put("mtx", "scipy", b"\0" + mtx_bytes(sp.random(9, 7, 0.3, random_state=1, data_rvs=lambda k: np.arange(k) + 1.0)))
    put("mtx", "scipy-array", b"\2" + mtx_bytes(np.arange(6.0).reshape(2, 3)))
    put("mtx", "scipy-symmetric", b"\x2c" + mtx_bytes(sp.csr_matrix(np.ones((4, 4), int)), symmetry="symmetric"))
    head = "%%MatrixMarket matrix "
    put("mtx", "pattern", "\0" + head + "coordinate pattern general\n% x\n\n3 3 2\n1 1\n3 2\n")
    put("mtx", "unsigned", "\2" + head + "coordinate unsigned-integer hermitian\n3 3 2\n3 1 65535\n2 2 9\n")
    put("mtx", "sums", "\0" + head + "coordinate integer general\n3 3 3\n1 1 65535\n1 1 1\n2 2 -4\n")
    put("mtx", "huge", "\2" + head + "coordinate real general\n4294967295 4294967295 1\n4294967295 4294967295 1e0\n")
    put("mtx", "announced", "\0" + head + "array real symmetric\n4294967295 4294967295\n1\n")
    put("mtx", "numbers", "\x1c" + head + "coordinate real general\n2 2 5\n1 1 +1\n1 2 1e400\n2 1 nan\n2 2 -inf\n2 2 0x1p3\n")
    put("mtx", "no-sizes", "\0" + head + "coordinate integer general\n%\n%\n")
    put("mtx", "digits", "\0" + head + "coordinate integer general\n2 2 1\n1 1 " + "9" * 400 + "\n")


def mtx_bytes(matrix, **more):
    out = io.BytesIO()
    scipy.io.mmwrite(out, matrix, **more)
    return out.getvalue()


def suites():
    case = {"name": "S1", "n": 8192, "m": 8, "k": 100000, "pattern": "banded", "bandwidth": 64, "max_value": 255}
    put("json", "suites", json.dumps({"suites": {"S": [case, case | {"name": "S2", "compare_with": "S1"}], "T": []}}))
    for key, value in (("n", 0), ("m", 65), ("k", 2**33), ("pattern", "x"), ("memory_share", "1"), ("other", 1), ("n", -1.5)):
        put("json", f"case-{key}-{value}", json.dumps({"suites": {"S": [case | {key: value}]}}))
    put("json", "twice", json.dumps({"suites": {"S": [case, case]}}))
    put("json", "no-cases", '{"suites": {"S": 3}}')
    put("json", "deep", '{"suites": {"S": [{"name": "x", "n": ' + "[" * 1900 + "]" * 1900 + "}]}}")
    figure = {"median": 1.5, "min": 1, "max": 2}
    kernel = {"kernel": "rows", "status": "ok", "validated": True} | {k: figure for k in ("multiply_ms", "device_ms", "total_s")}
    put("json", "measurement", json.dumps({"schema": 1, "cases": [{"name": "S1", "kernels": [kernel]}]}))
    put("json", "measurement-types", json.dumps({"cases": {"name": 1, "kernels": [{"kernel": [], "status": 3}]}}))
    put("json", "huge-number", '{"suites": {"S": [{"name": "x", "n": 1e400}]}}')


for make in (matrix_files, products, command_lines, lists, arrays, texts, archives, suites):
    make()
