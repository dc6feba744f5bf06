"""Matrices of .npy and .npz files become operands, and operands and results such files."""

from __future__ import annotations

import argparse
import contextlib
import errno
import os
import stat
import tempfile
import zipfile
from typing import IO, Any, Callable, Iterator, NamedTuple, Tuple

import numpy as np

from . import _engine
from ._elements import OPERAND, RANGE, bad_elements
from ._errors import Error, FormatError, InputError, IoError, OutOfMemory, OutputError, ShapeError, UsageError
from ._matrix import MAX_SIDE, Bsr, checked, find_scipy

MAX_N = 2**32 - 1
EXACT = 2.0**53
DEFLATE_RATIO = 1032  # most bytes that one packed byte gives
ELEMENT_BYTES = 144  # that a conversion holds for each element other than zero, beside the arrays of the files
TRIED_SIDES = (*range(1, 17), 32, 64)
_AGAIN = "create the file again with numpy.save or scipy.sparse.save_npz"
_SATURATE = "give --on-overflow saturate, which takes the nearest of 0 and 65535, or --scale"
_MEMBERS = {"coo": ("row", "col", "coords"), "csr": ("indices", "indptr")}  # beside those of all


class Entries(NamedTuple):
    """Elements of a matrix other than zero, in the order of its file."""

    rows: np.ndarray
    columns: np.ndarray
    values: np.ndarray  # float64
    shape: Tuple[int, int]
    side: int  # of the file's own blocks; 0: none


class Elements(NamedTuple):
    """Each place once, by row and column, without zeros."""

    rows: np.ndarray
    columns: np.ndarray
    values: np.ndarray  # uint16
    changes: str  # ", 3 rounded, ..."


def head_of(path: str) -> bytes:
    """The first bytes of a file. Errors: InputError."""
    try:
        with open(path, "rb") as file:
            return file.read(12)
    except OSError as error:
        raise InputError(path, f"cannot be opened ({error.strerror})", "check the path and the permissions") from None


def kind_of_input(path: str) -> str:
    """npy, npz, or bin: what is none of them. Errors: InputError, UsageError."""
    head = head_of(path)
    if head.startswith(b"%%Matrix"):
        raise UsageError(path, "is a Matrix Market file", "convert it by spmm-convert")
    return "npy" if head.startswith(b"\x93NUMPY") else "npz" if head.startswith(b"PK\3\4") else "bin"


def _require_scipy() -> Any:
    sparse = find_scipy()
    if sparse is None:
        raise UsageError("command line", ".npz files need SciPy", "install it (Debian: python3-scipy)")
    return sparse


def _require_memory(path: str, what: str, needed: int, limit: int) -> None:
    """Errors: OutOfMemory."""
    if needed > limit:
        raise OutOfMemory(path, f"{what} {needed} bytes, the limit is {limit}",
                          "raise --memory-limit, or use a machine with more memory")


def _read_archive(path: str, limit: int) -> Any:
    """Sizes and names are checked before and after: a small file may announce much, and what nobody reads may change the
    meaning, as fill_value of pydata/sparse does. Errors: FormatError, OutOfMemory."""
    sparse = _require_scipy()
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
    for member in members:
        is_known = member.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
        if not is_known or member.file_size > DEFLATE_RATIO * member.compress_size:
            raise FormatError(f"{path}, {member.filename}", f"announces {member.file_size} bytes, more than "
                              f"{member.compress_size} packed ones can hold", _AGAIN)
    _require_memory(path, "its arrays have", sum(member.file_size for member in members), limit)
    matrix = sparse.load_npz(path)
    if matrix.format not in ("bsr", "csr", "csc", "coo"):
        raise ValueError(f"its sparse format is {matrix.format}, expected bsr, csr, csc or coo")
    names = [member.filename for member in members]
    known = {f"{name}.npy" for name in ("format", "shape", "data", "_is_array", *_MEMBERS.get(matrix.format, _MEMBERS["csr"]))}
    if "coords.npy" in names:
        known -= {"row.npy", "col.npy"}
    for at, name in enumerate(names):
        if name not in known or name in names[:at]:
            raise FormatError(f"{path}, {name}", "is no member of such a file, or there twice",
                              "write the matrix with scipy.sparse.save_npz; of pydata/sparse: its to_scipy_sparse()")
    return checked(matrix, path)


def _read_array(path: str, limit: int) -> Any:
    _require_memory(path, "its arrays have", os.path.getsize(path), limit)
    return np.load(path, allow_pickle=False)


def read_entries(path: str, kind: str, limit: int) -> Entries:
    """Errors: FormatError, OutOfMemory, OSError."""
    try:
        matrix = (_read_array if kind == "npy" else _read_archive)(path, limit)
    except (Error, MemoryError):
        raise
    except Exception as error:  # what NumPy and SciPy say of a file that is not theirs has no class of its own
        if isinstance(error, OSError) and error.errno != errno.EINVAL:  # that: a place in front of the file
            raise
        raise FormatError(path, f"is no .{kind} file that NumPy or SciPy reads ({' '.join(str(error).split())})",
                          _AGAIN) from None
    if len(matrix.shape) != 2 or not all(1 <= side <= MAX_N for side in matrix.shape):
        raise FormatError(path, f"the array has shape {tuple(matrix.shape)}, expected 1 to {MAX_N} rows and columns",
                          "save a matrix of such a shape")
    if matrix.dtype.kind not in "biuf" or (matrix.dtype.kind == "f" and matrix.dtype.itemsize > 8):
        raise FormatError(path, f"the elements are of type {matrix.dtype}, expected integers or floats of up to 64 bits",
                          "convert them with astype")
    arrays = matrix if kind == "npy" else matrix.data
    _require_memory(path, "its elements need", arrays.nbytes + ELEMENT_BYTES * int(np.count_nonzero(arrays)), limit)
    if kind == "npy":
        rows, columns = np.nonzero(matrix)
        return Entries(rows, columns, matrix[rows, columns].astype(np.float64), matrix.shape, 0)
    side, coo = matrix.blocksize[0] if matrix.format == "bsr" else 0, matrix.tocoo()
    is_usable = side and side == matrix.blocksize[1] and side <= MAX_SIDE
    stored = np.flatnonzero(coo.data)
    return Entries(coo.row[stored].astype(np.int64), coo.col[stored].astype(np.int64),
                   coo.data[stored].astype(np.float64), tuple(matrix.shape), side if is_usable else 0)


def make_elements(entries: Entries, options: argparse.Namespace) -> Elements:
    """Elements by the rule of tools/convert/README.md. Errors: FormatError with the first bad place."""
    order = np.lexsort((entries.columns, entries.rows))
    rows, columns, values = entries.rows[order], entries.columns[order], entries.values[order]
    del order
    is_first = np.ones(len(rows), dtype=bool)
    is_first[1:] = (rows[1:] != rows[:-1]) | (columns[1:] != columns[:-1])
    begins = np.flatnonzero(is_first)
    counts = np.diff(np.append(begins, len(rows)))
    with np.errstate(invalid="ignore", over="ignore"):
        sums, sizes = (np.add.reduceat(x, begins) if len(begins) else x for x in (values, np.abs(values)))
        has_fractions = np.logical_or.reduceat(values != np.trunc(values), begins) if len(begins) else is_first
        is_inexact = (counts > 1) & ~np.isnan(sizes) & (has_fractions | (sizes >= EXACT))
        scaled = sums * options.scale
        whole = np.rint(scaled) if options.round else scaled
        kept = np.clip(whole, 0, OPERAND.largest) if options.on_overflow == "saturate" else whole
        faults = [(is_inexact, "has several parts that are no whole numbers, or 2^53 or more together", "store each element once"),
                  (np.isnan(scaled), "is not a number", "replace it in the matrix"),
                  (kept < 0, "is negative", _SATURATE), (kept > OPERAND.largest, "is above 65535", _SATURATE),
                  (kept != np.floor(kept), "is not a whole number", "give --round, or --scale with a factor that makes them")]
        is_bad = is_inexact | bad_elements(kept, np)
    if is_bad.any():
        at = int(is_bad.argmax())
        what = "the element" if counts[at] == 1 else f"the sum of {counts[at]} elements"
        times = "" if options.scale == 1 else f", times {options.scale:.17g}"
        problem, hint = next(words for is_it, *words in faults if is_it[at])
        raise FormatError(options.input, f"{what} at row {rows[begins[at]]}, column {columns[begins[at]]} (counted from 0) is "
                          f"{sums[at]:.17g}{times}, which {problem}; expected a {RANGE}", hint)
    found = [(int((whole != scaled)[(whole >= 0) & (whole <= OPERAND.largest)].sum()), "rounded"),
             (int((whole < 0).sum()), "raised to 0"), (int((whole > OPERAND.largest).sum()), "cut to 65535")]
    elements, stays = kept.astype(OPERAND.code), kept != 0
    return Elements(rows[begins][stays], columns[begins][stays], elements[stays],
                    "".join(f", {count} {what}" for count, what in found if count))


def _block_keys(elements: Elements, m: int) -> np.ndarray:
    """Block row and block column of each element in one number."""
    return ((elements.rows // m).astype(np.uint64) << np.uint64(32)) | (elements.columns // m).astype(np.uint64)


def _size(entries: Entries, elements: Elements, options: argparse.Namespace) -> Tuple[int, int]:
    """n and m of the file: as the options say, else as IN has it, else the side whose file is the shortest, and the least
    n. Errors: UsageError, FormatError."""
    option, n, m = "--n", options.n or 0, 0 if options.block in (None, "auto") else options.block
    if options.like:
        head = head_of(options.like)
        option, n, side = "--like", int.from_bytes(head[:4], "little"), int.from_bytes(head[4:8], "little")
        if len(head) < 12 or not 1 <= side <= MAX_SIDE or n == 0 or n % side:
            raise FormatError(options.like, "is no file of blocks", "give a .bin")
        m = m or (0 if options.block == "auto" else side)
    if m and n % m:
        raise UsageError(option, f"n = {n} is no multiple of the block side {m}", f"give {n + m - n % m}, or another --block")
    longest = max(entries.shape)
    if n and longest > n:
        raise UsageError(option, f"n = {n} is less than the {entries.shape[0]} x {entries.shape[1]} of {options.input}",
                         f"give at least {longest}")
    if not m and options.block != "auto" and entries.side and n % entries.side == 0:
        m = entries.side
    if not m:
        m = -min((len(np.unique(_block_keys(elements, side))) * (8 + 2 * side**2), -side)
                 for side in TRIED_SIDES if n % side == 0)[1]
    n = n or -(-longest // m) * m
    if n > MAX_N:
        raise FormatError(options.input, f"padded to a multiple of the block side {m} its side is {n}, at most {MAX_N}",
                          "give a --block that divides it")
    return n, m


def to_bin(options: argparse.Namespace) -> str:
    """Returns the summary. Errors: those of its parts."""
    entries = read_entries(options.input, options.kind, options.memory_limit)
    elements = make_elements(entries, options)
    n, m = _size(entries, elements, options)
    blocks, number = np.unique(_block_keys(elements, m), return_inverse=True)
    _require_memory(options.input, f"its blocks of side {m} and its elements need",
                    8 * (n // m) + len(blocks) * (8 + 2 * m * m) + ELEMENT_BYTES * len(entries.values), options.memory_limit)
    data = np.zeros((len(blocks), m, m), dtype=OPERAND.code)
    data[number.reshape(-1), elements.rows % m, elements.columns % m] = elements.values
    indptr = np.searchsorted(blocks, np.arange(n // m + 1, dtype=np.uint64) << np.uint64(32))
    _engine.write(options.output, Bsr(indptr, (blocks & np.uint64(MAX_N)).astype(np.int64), data, (n, n)))
    full = len(elements.values) * 100 // data.size if len(blocks) else 100
    return (f"{entries.shape[0]} x {entries.shape[1]}, {len(elements.values)} "
            f"elements{elements.changes} -> n {n}, m {m}, {len(blocks)} blocks ({full} % full)")


@contextlib.contextmanager
def complete_output(path: str) -> Iterator[IO[bytes]]:
    """A file that appears under its name when it is complete. Errors: OutputError, IoError."""
    target, umask = os.path.realpath(path), os.umask(0)
    os.umask(umask)
    mode, is_begun = stat.S_IFREG | 0o666 & ~umask, False
    try:
        with contextlib.suppress(FileNotFoundError):
            mode = os.stat(target).st_mode
        if not stat.S_ISREG(mode):
            raise OSError(errno.EEXIST, "there is something that is no file")
        with tempfile.NamedTemporaryFile(prefix=".spmm-", suffix=".tmp", dir=os.path.dirname(target), delete=False) as file:
            is_begun = True
            try:
                os.fchmod(file.fileno(), stat.S_IMODE(mode))
                yield file
                file.flush()
                os.replace(file.name, target)
            except BaseException:
                os.unlink(file.name)
                raise
    except OSError as error:
        if isinstance(error, Error):
            raise
        kind, problem = (IoError, "writing failed") if is_begun else (OutputError, "cannot be created")
        raise kind(path, f"{problem} ({error.strerror or error})", "free space, or choose another output path") from None


def from_bin(options: argparse.Namespace) -> str:
    """Returns the summary. Errors: those of its parts."""
    file_bytes, limit = os.path.getsize(options.input), options.memory_limit
    _require_memory(options.input, "its blocks have", file_bytes, limit)
    matrix = _engine.read_arrays(options.input)
    n, m = matrix.shape[0], matrix.data.shape[1]
    shape, dtype = options.shape or (n, n), np.dtype(options.dtype)
    if max(shape) > n:
        raise UsageError("--shape", f"{shape[0]}x{shape[1]} is larger than n = {n} of {options.input}", f"give at most {n}x{n}")
    _require_memory(options.input, "its elements need", file_bytes + ELEMENT_BYTES * int(np.count_nonzero(matrix.data)), limit)
    block, row, column = np.nonzero(matrix.data)
    values = matrix.data[block, row, column]
    rows = (np.searchsorted(matrix.indptr, block, side="right") - 1) * m + row
    columns = matrix.indices[block] * m + column
    outside = (rows >= shape[0]) | (columns >= shape[1])
    if outside.any():
        at = int(outside.argmax())
        raise ShapeError(options.input, f"the element at row {rows[at]}, column {columns[at]} (counted from 0) is "
                         f"{values[at]}, outside the shape {shape[0]}x{shape[1]}", "give a larger --shape")
    if dtype == np.uint16 and values.max(initial=0) > OPERAND.largest:
        raise FormatError(options.input, f"holds {values.max()}, more than uint16 can hold", "give --dtype uint32 or int64")
    values = values.astype(dtype)
    if options.scale != 1:
        values *= options.scale
    save: Callable[[IO[bytes]], None]
    if options.kind == "npy":
        _require_memory(options.output, f"a dense array of {shape[0]} x {shape[1]} elements of {dtype} has",
                        shape[0] * shape[1] * dtype.itemsize, limit)
        dense = np.zeros(shape, dtype)
        dense[rows, columns] = values
        what, save = "dense array", lambda file: np.save(file, dense, allow_pickle=False)
    else:
        sparse = _require_scipy()
        made = sparse.coo_matrix((values, (rows, columns)), shape=shape)
        made = made.tobsr((m, m)) if shape[0] % m == shape[1] % m == 0 else made
        what, save = made.format, lambda file: sparse.save_npz(file, made, compressed=bool(options.deflate))
    with complete_output(options.output) as file:
        save(file)
    return f"{shape[0]} x {shape[1]}, {what} of {dtype}"
