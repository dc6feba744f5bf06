"""Matrices of .npy and .npz files become operands, and operands and results such files."""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import errno
import math
import os
import re
import stat
import sys
import tempfile
import zipfile
from typing import IO, Any, Callable, Iterator, List, NamedTuple, Optional, Tuple

import numpy as np

from ._elements import MAX_ELEMENT, bad_elements
from ._errors import Error, FormatError, InputError, IoError, OutOfMemory, OutputError, ShapeError, UsageError
from ._matrix import MAX_SIDE, checked, find_scipy

MAX_N = 2**32 - 1
EXACT = 2.0**53
DEFLATE_RATIO = 1032  # at most so many bytes from one packed byte
ELEMENT_BYTES = 144  # that a conversion holds for each element other than zero, beside the arrays of the files
TRIED_SIDES = (*range(1, 17), 32, 64)
HEADER_BYTES = 12
_AGAIN = "create the file again with numpy.save or scipy.sparse.save_npz"
_SATURATE = "give --on-overflow saturate, which takes the nearest of 0 and 65535, or --scale"


class Entries(NamedTuple):
    """Elements of a matrix other than zero, in the order of its file."""

    rows: np.ndarray
    columns: np.ndarray
    values: np.ndarray  # float64
    shape: Tuple[int, int]
    side: int  # of the file's own blocks; 0: none


def _require_scipy() -> Any:
    sparse = find_scipy()
    if sparse is None:
        raise UsageError("command line", ".npz files need SciPy", "install it (Debian: python3-scipy)")
    return sparse


def require_memory(path: str, what: str, needed: int, limit: int) -> None:
    """Errors: OutOfMemory."""
    if needed > limit:
        raise OutOfMemory(path, f"{what} {needed} bytes, the limit is {limit}",
                          "raise --memory-limit, or use a machine with more memory")


def _check_archive(path: str, limit: int) -> List[str]:
    """Before anything is read. Returns the names of its arrays. Errors: FormatError, OutOfMemory."""
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
    for member in members:
        is_known = member.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
        if not is_known or member.file_size > DEFLATE_RATIO * member.compress_size:
            raise FormatError(f"{path}, {member.filename}", f"announces {member.file_size} bytes, more than "
                              f"{member.compress_size} packed ones can hold", _AGAIN)
    require_memory(path, "its arrays have", sum(member.file_size for member in members), limit)
    return [re.sub(r"\.npy$", "", member.filename) for member in members]


def _check_members(path: str, names: List[str], matrix_format: str) -> None:
    """What nobody reads may change the meaning, as fill_value of pydata/sparse does. Errors: FormatError."""
    places = ["indices", "indptr"] if matrix_format != "coo" else ["coords"] if "coords" in names else ["row", "col"]
    for name in ["format", "shape", "data", "_is_array", *places]:
        if name in names:
            names.remove(name)
    if names:
        raise FormatError(f"{path}, {names[0]}", "is no member of such a file, or there twice",
                          "write the matrix with scipy.sparse.save_npz; of pydata/sparse: its to_scipy_sparse()")


def _load(path: str, kind: str, limit: int) -> Any:
    """An array, or a matrix of SciPy whose indices are checked. Errors: FormatError, OutOfMemory."""
    sparse = _require_scipy() if kind == "npz" else None
    try:
        if sparse is None:
            require_memory(path, "its arrays have", os.path.getsize(path), limit)
            array = np.load(path, allow_pickle=False)
            if not isinstance(array, np.ndarray):
                raise ValueError("it is an archive")
            return array
        names = _check_archive(path, limit)
        matrix = sparse.load_npz(path)
        if matrix.format not in ("bsr", "csr", "csc", "coo"):
            raise ValueError(f"its sparse format is {matrix.format}, expected bsr, csr, csc or coo")
        _check_members(path, names, matrix.format)
        return checked(matrix, path)
    except (Error, MemoryError):
        raise
    except Exception as error:  # what NumPy and SciPy say of a file that is not theirs has no class of its own
        if isinstance(error, OSError) and error.errno != errno.EINVAL:  # that: a place in front of the file
            raise
        words = " ".join(str(error).split())
        raise FormatError(path, f"is no .{kind} file that NumPy or SciPy reads ({words})", _AGAIN) from None


def memory_of(array_bytes: int, elements: np.ndarray) -> int:
    """Bytes for the conversion of arrays that hold these elements."""
    return array_bytes + ELEMENT_BYTES * int(np.count_nonzero(elements))


def read_entries(path: str, kind: str, limit: int) -> Entries:
    """Errors: InputError, FormatError, OutOfMemory, OSError."""
    opened(path).close()
    matrix = _load(path, kind, limit)
    if len(matrix.shape) != 2 or not all(1 <= side <= MAX_N for side in matrix.shape):
        raise FormatError(path, f"the array has shape {tuple(matrix.shape)}, expected 1 to {MAX_N} rows and columns",
                          "save a matrix of such a shape")
    if matrix.dtype.kind not in "biuf" or (matrix.dtype.kind == "f" and matrix.dtype.itemsize > 8):
        raise FormatError(path, f"the elements are of type {matrix.dtype}, expected integers or floats of up to 64 bits",
                          "convert them with astype")
    arrays = matrix if kind == "npy" else matrix.data
    require_memory(path, "its elements need", memory_of(arrays.nbytes, arrays), limit)
    side = 0
    if kind == "npz" and matrix.format == "bsr" and matrix.blocksize[0] == matrix.blocksize[1] <= MAX_SIDE:
        side = matrix.blocksize[0]
    if kind == "npy":
        rows, columns = np.nonzero(matrix)
        values = matrix[rows, columns]
    else:
        coo = matrix.tocoo()
        stored = np.flatnonzero(coo.data)
        rows, columns, values = coo.row[stored].astype(np.int64), coo.col[stored].astype(np.int64), coo.data[stored]
    return Entries(rows, columns, values.astype(np.float64), tuple(matrix.shape), side)


class Elements(NamedTuple):
    """Each place once, by row and column, without zeros."""

    rows: np.ndarray
    columns: np.ndarray
    values: np.ndarray  # uint16
    changes: str  # ", 3 rounded, ..."


def _shown(value: float) -> str:
    return str(int(value)) if value.is_integer() and abs(value) < EXACT else str(value)


def _bad_element(row: int, column: int, count: int, value: float, words: Tuple[str, str],
                 options: argparse.Namespace) -> Error:
    row, column = (column, row) if options.transpose else (row, column)
    what = "the element" if count == 1 else f"the sum of {count} elements"
    times = "" if options.scale == 1 else f", times {_shown(options.scale)}"
    return FormatError(options.input, f"{what} at row {row}, column {column} (counted from 0) is {_shown(value)}{times}, "
                       f"which {words[0]}; expected a whole number from 0 to 65535", words[1])


def exact_sums(values: np.ndarray, begins: np.ndarray, counts: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
    """Sums of values[begins[p] : begins[p] + counts[p]], each exact and then rounded once, so that their order changes
    nothing; and which have several parts, one of 2^53 or more: these are not summed exactly."""
    sums, is_inexact = values[begins], np.zeros(len(begins), dtype=bool)
    several = np.flatnonzero(counts > 1)
    if len(several):
        parts, ends = values[np.repeat(counts > 1, counts)], np.cumsum(counts[several])
        first = ends - counts[several]
        sums[several] = np.add.reduceat(parts, first)  # exact for whole numbers whose sizes are below 2^53 in all
        has_fractions = np.logical_or.reduceat(parts != np.rint(parts), first)
        sums[several[np.logical_or.reduceat(np.isnan(parts), first)]] = np.nan
        sizes = np.abs(parts)
        is_inexact[several] = np.maximum.reduceat(sizes, first) >= EXACT
        may_round = (has_fractions | (np.add.reduceat(sizes, first) >= EXACT)) & ~is_inexact[several] & ~np.isnan(sums[several])
        for at in np.flatnonzero(may_round):
            sums[several[at]] = math.fsum(parts[first[at]:ends[at]])
    return sums, is_inexact


def make_elements(entries: Entries, options: argparse.Namespace) -> Elements:
    """Elements by the rule of tools/convert/README.md. Errors: FormatError with the first bad place."""
    rows, columns = (entries.columns, entries.rows) if options.transpose else (entries.rows, entries.columns)
    order = np.lexsort((columns, rows))
    rows, columns, values = rows[order], columns[order], entries.values[order]
    del order
    is_first = np.ones(len(rows), dtype=bool)
    is_first[1:] = (rows[1:] != rows[:-1]) | (columns[1:] != columns[:-1])
    begins = np.flatnonzero(is_first)
    counts = np.diff(np.append(begins, len(rows)))
    with np.errstate(invalid="ignore", over="ignore"):
        sums, is_inexact = exact_sums(values, begins, counts)
        scaled = sums * options.scale
        whole = np.rint(scaled) if options.round else scaled
        kept = np.clip(whole, 0, MAX_ELEMENT) if options.on_overflow == "saturate" else whole
        faults = [(is_inexact, ("has a part of 2^53 or more, where whole numbers are lost", "store each element once")),
                  (np.isnan(scaled), ("is not a number", "replace it in the matrix")),
                  (kept < 0, ("is negative", _SATURATE)), (kept > MAX_ELEMENT, ("is above 65535", _SATURATE)),
                  (kept != np.floor(kept), ("is not a whole number",
                                            "give --round, or --scale with a factor that makes whole numbers"))]
        is_bad = is_inexact | bad_elements(kept, np)
    if is_bad.any():
        at = int(is_bad.argmax())
        words = next(words for bad, words in faults if bad[at])
        raise _bad_element(int(rows[begins[at]]), int(columns[begins[at]]), int(counts[at]), float(sums[at]), words, options)
    found = [(int((whole != scaled)[(whole >= 0) & (whole <= MAX_ELEMENT)].sum()), "rounded"),
             (int((whole < 0).sum()), "raised to 0"), (int((whole > MAX_ELEMENT).sum()), "cut to 65535")]
    elements, stays = kept.astype(np.uint16), kept != 0
    return Elements(rows[begins][stays], columns[begins][stays], elements[stays],
                    "".join(f", {count} {what}" for count, what in found if count))


def _block_keys(elements: Elements, m: int) -> np.ndarray:
    """Block row and block column of each element in one number."""
    return ((elements.rows // m).astype(np.uint64) << np.uint64(32)) | (elements.columns // m).astype(np.uint64)


def opened(path: str) -> IO[bytes]:
    """Errors: InputError."""
    try:
        return open(path, "rb")
    except OSError as error:
        raise InputError(path, f"cannot be opened ({error.strerror})", "check the path and the permissions") from None


def _records(m: int, bits: int) -> np.dtype:
    """A block of a file."""
    return np.dtype([("i", "<u4"), ("j", "<u4"), ("e", f"<u{bits // 8}", (m, m))])


def _header_of(path: str) -> Tuple[int, int, List[int]]:
    """n and m of a file of blocks, and the widths of elements that its length may mean. Errors: InputError, FormatError."""
    with opened(path) as file:
        head, size = file.read(HEADER_BYTES), file.seek(0, os.SEEK_END)
    n, m, count = (int.from_bytes(head[at:at + 4], "little") for at in (0, 4, 8))
    widths = [bits for bits in (16, 32) if size == HEADER_BYTES + count * (8 + bits // 8 * m * m)]
    if not widths or not 1 <= m <= MAX_SIDE or n == 0 or n % m:
        raise FormatError(path, "is no file of blocks: its header does not fit its length", "give a .bin")
    return n, m, widths


def fixed_size(entries: Entries, options: argparse.Namespace) -> Tuple[int, int]:
    """n and m of the file to be written as far as IN and the options say them, else 0. Errors: UsageError."""
    option, n, m = "--n", options.n or 0, 0 if options.block in (None, "auto") else options.block
    if options.like:
        option, (n, side, _) = "--like", _header_of(options.like)
        m = m or (0 if options.block == "auto" else side)
    if m and n % m:
        raise UsageError(option, f"n = {n} is no multiple of the block side {m}", f"give {n + m - n % m}, or another --block")
    longest = max(entries.shape)
    if n and longest > n:
        raise UsageError(option, f"n = {n} is less than the {entries.shape[0]} x {entries.shape[1]} of {options.input}",
                         f"give at least {longest}")
    if not m and options.block != "auto" and entries.side and n % entries.side == 0:
        m = entries.side
    return n, m


def choose_size(n: int, m: int, entries: Entries, elements: Elements, options: argparse.Namespace) -> Tuple[int, int]:
    """What is not fixed: the side whose file is the shortest, and the least n. Errors: FormatError."""
    if not m:
        sizes = [(len(np.unique(_block_keys(elements, side))) * (8 + 2 * side**2), -side)
                 for side in TRIED_SIDES if n % side == 0]
        m = -min(sizes)[1]
    n = n or -(-max(entries.shape) // m) * m
    if n > MAX_N:
        raise FormatError(options.input, f"padded to a multiple of the block side {m} its side is {n}, at most {MAX_N}",
                          "give a --block that divides it")
    return n, m


def check_replaceable(path: str) -> None:
    """Before the work. Errors: OutputError if no rename can put a file there, whatever the permissions are."""
    target = os.path.realpath(path)
    call = getattr(ctypes.CDLL(None), "statx", None)
    for place, bits in ((os.path.dirname(target), 0x30), (target, 0x2030)):
        found = ctypes.create_string_buffer(256)  # struct statx
        if call is None or call(-100, os.fsencode(place), 0, 0, found) != 0:
            continue
        attributes = int.from_bytes(found.raw[8:16], sys.byteorder) & bits
        for bit, words in ((0x2000, "is a mount point"), (0x20, "is append-only"), (0x10, "is immutable")):
            if attributes & bit:
                raise OutputError(path, f"{place} {words}, no file can be put there",
                                  "choose another output path, or see mount(8) and chattr(1)")


@contextlib.contextmanager
def complete_output(path: str) -> Iterator[IO[bytes]]:
    """A file that appears under its name when it is complete. Errors: OutputError, IoError."""
    target, mode = os.path.realpath(path), None
    try:
        with contextlib.suppress(FileNotFoundError):
            mode = os.stat(target).st_mode
        if mode is not None and not stat.S_ISREG(mode):
            raise OSError("there is something that is no file")
        handle, name = tempfile.mkstemp(prefix=".spmm-", suffix=".tmp", dir=os.path.dirname(target))
    except OSError as error:
        raise OutputError(path, f"cannot be created ({error.strerror or error})", "choose another output path") from None
    try:
        with os.fdopen(handle, "wb") as file:
            umask = os.umask(0)
            os.umask(umask)
            os.fchmod(file.fileno(), stat.S_IMODE(mode) if mode is not None else 0o666 & ~umask)
            yield file
        os.replace(name, target)
    except OSError as error:
        if isinstance(error, Error):
            raise
        raise IoError(path, f"writing failed ({error.strerror})", "free space, or choose another path") from None
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)


def to_bin(options: argparse.Namespace) -> str:
    entries = read_entries(options.input, options.from_, options.memory_limit)
    size = fixed_size(entries, options)
    elements = make_elements(entries, options)
    n, m = choose_size(*size, entries, elements, options)
    rows, columns, values, _ = elements
    blocks, number = np.unique(_block_keys(elements, m), return_inverse=True)
    if len(blocks) > MAX_N:
        raise FormatError(options.input, f"has {len(blocks)} blocks of side {m}, at most {MAX_N}", "give a larger --block")
    require_memory(options.input, f"its blocks of side {m} and its elements need",
                   len(blocks) * (8 + 2 * m * m) + ELEMENT_BYTES * len(entries.values), options.memory_limit)
    records = np.zeros(len(blocks), dtype=_records(m, 16))
    records["i"], records["j"] = blocks >> np.uint64(32), blocks & np.uint64(MAX_N)
    records["e"][number.reshape(-1), rows % m, columns % m] = values
    with complete_output(options.output) as file:
        file.write(np.array([n, m, len(blocks)], dtype="<u4").tobytes())
        file.write(records.data if len(records) else b"")
    full = len(values) * 100 // (len(blocks) * m * m) if len(blocks) else 100
    return (f"{entries.shape[0]} x {entries.shape[1]}{' transposed' if options.transpose else ''}, {len(values)} elements"
            f"{elements.changes} -> n {n}, m {m}, {len(blocks)} blocks ({full} % full)")


def _elements_of_bin(options: argparse.Namespace) -> Tuple[Elements, Tuple[int, int], int]:
    """With the shape that is kept and the block side. Errors: UsageError, FormatError, ShapeError."""
    n, m, widths = _header_of(options.input)
    bits = widths[0] if options.type == "auto" else int(options.type[1:])
    if bits not in widths:
        raise FormatError(options.input, f"its elements have {widths[0]} bits", f"give --type u{widths[0]}, or leave it out")
    shape = options.shape or (n, n)
    if max(shape) > n:
        raise UsageError("--shape", f"{shape[0]}x{shape[1]} is larger than n = {n} of {options.input}", f"give at most {n}x{n}")
    file_bytes = os.path.getsize(options.input)
    require_memory(options.input, "its blocks have", file_bytes, options.memory_limit)
    records = np.fromfile(options.input, dtype=_records(m, bits), offset=HEADER_BYTES)
    rows, columns = (records[part].astype(np.int64) for part in "ij")
    if max(rows.max(initial=0), columns.max(initial=0)) >= n // m or len(np.unique(rows << 32 | columns)) != len(records):
        raise FormatError(options.input, "has a block outside of the matrix, or twice", "create or copy the file again")
    require_memory(options.input, "its elements need", memory_of(file_bytes, records["e"]), options.memory_limit)
    block, row, column = np.nonzero(records["e"])
    rows, columns, values = rows[block] * m + row, columns[block] * m + column, records["e"][block, row, column]
    if options.transpose:
        rows, columns = columns, rows
    outside = (rows >= shape[0]) | (columns >= shape[1])
    if outside.any():
        at = int(outside.argmax())
        raise ShapeError(options.input, f"the element at row {rows[at]}, column {columns[at]} (counted from "
                         f"0{', transposed' if options.transpose else ''}) is {values[at]}, outside the shape "
                         f"{shape[0]}x{shape[1]}", "give a larger --shape")
    return Elements(rows, columns, values, ""), shape, m


def from_bin(options: argparse.Namespace) -> str:
    (rows, columns, values, _), shape, m = _elements_of_bin(options)
    dtype = np.dtype(options.dtype)
    if dtype == np.uint16 and values.max(initial=0) > MAX_ELEMENT:
        raise FormatError(options.input, f"holds {values.max()}, more than uint16 can hold", "give --dtype uint32 or int64")
    values = values.astype(dtype)
    if options.scale != 1:
        values *= options.scale
    save: Callable[[IO[bytes]], None]
    if options.to == "npy":
        if shape[0] * shape[1] * dtype.itemsize > options.memory_limit:
            raise OutOfMemory(options.output, f"a dense array of {shape[0]} x {shape[1]} elements of {dtype} "
                              f"passes the limit of {options.memory_limit} bytes",
                              "write .npz, cut a part out with --shape, or raise --memory-limit")
        dense = np.zeros(shape, dtype)
        dense[rows, columns] = values
        what, save = "dense array", lambda file: np.save(file, dense, allow_pickle=False)
    else:
        sparse = _require_scipy()
        matrix = sparse.coo_matrix((values, (rows, columns)), shape=shape)
        matrix = matrix.tobsr((m, m)) if shape[0] % m == shape[1] % m == 0 else matrix
        what, save = matrix.format, lambda file: sparse.save_npz(file, matrix, compressed=bool(options.deflate))
    with complete_output(options.output) as file:
        save(file)
    return f"{shape[0]} x {shape[1]}{' transposed' if options.transpose else ''}, {what} of {dtype}"


def kind_of(path: str, given: Optional[str], is_input: bool) -> str:
    """bin, npy or npz: a file whose header fits its length is ours; others are told by their first bytes, then by their
    ending. Errors: UsageError, InputError."""
    if given:
        return given
    head = b""
    if is_input:
        with opened(path) as file:
            head = file.read(HEADER_BYTES)
        with contextlib.suppress(FormatError):
            _header_of(path)
            return "bin"
    if head.startswith((b"\x93NUMPY", b"PK\3\4")):
        return "npy" if head.startswith(b"\x93") else "npz"
    ending = os.path.splitext(path)[1][1:]
    if ending == "mtx" or head.startswith(b"%%Matrix"):
        raise UsageError(path, "is a Matrix Market file", "convert it by spmm-convert")
    if ending in ("bin", "npy", "npz"):
        return ending
    raise UsageError(path, "neither its content nor its ending says what it is",
                     f"give --{'from' if is_input else 'to'} bin, npy or npz")
