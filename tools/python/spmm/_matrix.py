"""Matrices of the caller as block-CSR arrays, and results as SciPy's."""

from __future__ import annotations

import ctypes
import math
import sys
from typing import Any, Callable, NamedTuple, Optional, Protocol, Tuple, Union

import numpy as np

from . import _device, _library
from ._errors import ArgumentError, Error, FormatError, ShapeError, UsageError
from ._elements import BY_NUMBER, Kind, OPERAND, RANGE, RESULT, SATURATING, bad_elements, type_name

MAX_SIDE = 64

Blocksize = Union[int, Tuple[int, int]]
Matrix = Any  # of SciPy, a tensor, a 2-D array, Bsr, or a tuple (indptr, indices, data)


class Bsr(NamedTuple):
    """Block-CSR arrays: what is used without SciPy.

    indptr [rows / m + 1], indices [blocks] block columns, data [blocks, m, m], shape in elements (square if it is
    left out).

    >>> import numpy as np, spmm
    >>> a = spmm.Bsr(np.array([0, 1, 1]), np.array([1]), np.array([[[7]]], dtype=np.uint16), (2, 2))
    >>> spmm.multiply(a, spmm.Bsr(np.array([0, 0, 1]), np.array([0]), np.array([[[6]]], dtype=np.uint16))).data
    array([[[42]]], dtype=uint32)
    """

    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray
    shape: Optional[Tuple[int, int]] = None

    @property
    def saturated_elements(self) -> int:
        """How many elements of a result of uint32 are 2**32 - 1: their true sums are that or larger."""
        return int(np.count_nonzero(self.data == RESULT.largest)) if self.data.dtype == RESULT.code else 0


class Product(Protocol):
    """What all results of :func:`spmm.multiply` have; each is a matrix of the caller's library."""

    @property
    def shape(self) -> Tuple[int, int]:
        """Rows and columns, in elements."""

    @property
    def saturated_elements(self) -> int:
        """How many elements are 2**32 - 1: their true sums are that or larger."""

    def __getattr__(self, name: str) -> Any: ...


def find_scipy() -> Any:
    """scipy.sparse, or None."""
    try:
        import scipy.sparse
    except ImportError:
        return None
    return scipy.sparse


def is_scipy(matrix: Matrix) -> bool:
    sparse = sys.modules.get("scipy.sparse")
    return sparse is not None and bool(sparse.issparse(matrix))


def wrong_kind(matrix: Matrix, name: str) -> Error:
    hint = "a SciPy matrix, a two-dimensional array or (indptr, indices, data)"
    return ArgumentError(name, f"is a {type(matrix).__name__}",
                         f"give {'its to_scipy_sparse()' if hasattr(matrix, 'to_scipy_sparse') else hint}")


def elements_name(matrix: Matrix, name: str) -> str:
    """Type of a matrix's elements. Errors: ArgumentError."""
    values = np.asarray(matrix[2]) if isinstance(matrix, tuple) and len(matrix) > 2 else matrix
    if not hasattr(values, "dtype"):
        raise wrong_kind(matrix, name)
    return type_name(values)


def _widened(values: np.ndarray) -> np.ndarray:
    """float32 of bfloat16 (ml_dtypes), others as they are."""
    return values.astype(np.float32) if type_name(values) == "bfloat16" else values


def of_host(matrix: Matrix, name: str) -> Matrix:
    """A tensor, or an array of another library, in host memory as what NumPy or SciPy have; others as they are. Nothing is
    copied that need not be. bfloat16, which neither has, becomes float32: products have the same bits.
    Errors: FormatError, UsageError."""
    torch = _device.torch_of(matrix)
    if torch is None:
        if isinstance(matrix, tuple) and len(matrix) in (3, 4):
            return (*matrix[:2], _widened(np.asarray(matrix[2])), *matrix[3:])
        other = hasattr(matrix, "__array__") and not (isinstance(matrix, np.ndarray) or hasattr(matrix, "to_scipy_sparse"))
        if other and getattr(matrix, "__dlpack_device__", lambda: (1, 0))()[0] == 1:
            matrix = np.asarray(matrix)
        return _widened(matrix) if isinstance(matrix, np.ndarray) else matrix
    if matrix.device.type != "cpu":
        raise FormatError(name, f"is a tensor on {matrix.device}", "pass both on one CUDA device, or both on the CPU")

    def array(part: Any) -> np.ndarray:
        return part.detach().to(torch.float32 if part.dtype == torch.bfloat16 else part.dtype).numpy()

    if matrix.layout == torch.strided:
        return array(matrix)
    if matrix.dim() == 2 and matrix.layout in (torch.sparse_csr, torch.sparse_bsr):
        data = array(matrix.values())
        data = data[:, None, None] if matrix.layout == torch.sparse_csr else data
        if data.ndim == 3 and data.shape[1] == data.shape[2]:
            return Bsr(array(matrix.crow_indices()), array(matrix.col_indices()), data, tuple(matrix.shape))
    sparse = find_scipy()
    if matrix.layout == torch.sparse_coo and matrix.sparse_dim() == 2 == matrix.dim() and sparse is not None:
        return sparse.coo_matrix((array(matrix._values()), tuple(array(matrix._indices()))), shape=tuple(matrix.shape))
    raise FormatError(name, f"a tensor of shape {tuple(matrix.shape)} and layout {matrix.layout}",
                      "use to_sparse_bsr() or to_sparse_csr() of one with two dimensions, with square blocks")


def as_tensor(product: Any, torch: Any) -> Any:
    """A result as a GPU gives it: a sparse tensor, of int64 where the elements are uint32."""
    side = product.data.shape[1]
    data = product.data.astype(np.int64) if product.data.dtype == RESULT.code else product.data
    parts = [torch.from_numpy(part) for part in (product.indptr, product.indices, data)]
    parts[2] = parts[2].view(-1) if side == 1 else parts[2]
    made = (torch.sparse_csr_tensor if side == 1 else torch.sparse_bsr_tensor)(*parts, product.shape)
    made.saturated_elements = product.saturated_elements
    return made


def _stored(indptr: np.ndarray, indices: np.ndarray, num_values: int, rows: int, cols: int, name: str) -> int:
    """How many entries compressed rows have, which are checked: SciPy's own functions write and read outside of arrays
    if they are wrong. Errors: FormatError."""
    def refuse(at: str, problem: str) -> Error:
        return FormatError(f"{name}, {at}", problem, "correct the index arrays")

    if indptr.ndim != 1 or indices.ndim != 1 or indptr.dtype.kind not in "iu" or (indices.dtype.kind not in "iu" and indices.size):
        raise refuse("indptr and indices", f"of {indptr.dtype} and {indices.dtype}, of {indptr.ndim} and {indices.ndim} dimensions")
    if len(indptr) != rows + 1 or indptr[0] != 0:
        raise refuse("indptr", f"has {len(indptr)} entries, expected {rows + 1}, the first 0")
    falls = np.flatnonzero(indptr[1:] < indptr[:-1])
    if len(falls):
        raise refuse(f"indptr[{falls[0] + 1}]", f"is {indptr[falls[0] + 1]}, less than {indptr[falls[0]]} before it")
    stored = int(indptr[-1])
    if stored > min(len(indices), num_values):
        raise refuse(f"indptr[{rows}]", f"is {stored}, for {len(indices)} indices and {num_values} values")
    used = indices[:stored]
    if stored and (used.min() < 0 or used.max() >= cols):
        at = int(((used < 0) | (used >= cols)).argmax())
        raise refuse(f"indices[{at}]", f"is {used[at]}, expected 0 to {cols - 1}")
    return stored


def _num_blocks(bsr: Bsr, name: str) -> int:
    """Blocks that arrays hold, whose index arrays are checked. Errors: FormatError."""
    assert bsr.shape is not None
    side = bsr.data.shape[1]
    return _stored(bsr.indptr, bsr.indices, len(bsr.data), bsr.shape[0] // side, bsr.shape[1] // side, name)


def check_stored(operand: Operand, m: int, name: str) -> None:
    """Errors: FormatError if arrays do not agree, or a block is stored several times."""
    assert operand.shape is not None
    rows, cols = operand.shape
    if _stored(operand.indptr, operand.indices, len(operand.data), rows // m, cols // m, name) != len(operand.indices):
        raise FormatError(f"{name}, indptr", f"ends before the {len(operand.indices)} blocks that there are", "leave the others out")
    if _has_duplicates(Bsr(operand.indptr, operand.indices, operand.data)):
        raise FormatError(name, "a block is stored twice", "remove one of the two, or merge them")


def _sides(matrix: Any, name: str) -> Tuple[int, int]:
    """Of the blocks of a compressed matrix of SciPy; 1 and 1 if it has none. Errors: FormatError."""
    shape = matrix.data.shape
    if len(shape) != (3 if matrix.format == "bsr" else 1) or 0 in shape[1:]:
        raise FormatError(name, f"data of shape {shape} in a {matrix.format} matrix", "correct the arrays")
    return (shape[1], shape[2]) if len(shape) == 3 else (1, 1)


def _used_arrays(matrix: Any, name: str) -> Tuple[np.ndarray, np.ndarray, np.ndarray]:
    """data, indices and indptr of a compressed matrix of SciPy, checked, without spare capacity. Errors: FormatError."""
    m, k = _sides(matrix, name)
    rows, cols = matrix.shape[0] // m, matrix.shape[1] // k
    across = (cols, rows) if matrix.format == "csc" else (rows, cols)
    stored = _stored(matrix.indptr, matrix.indices, len(matrix.data), *across, name)
    data, indices = (part if len(part) == stored else part[:stored] for part in (matrix.data, matrix.indices))
    return data, indices, matrix.indptr


def checked(matrix: Any, name: str) -> Any:
    """A SciPy matrix whose structure is checked: a compressed one as a new object on the same arrays, which knows no flags of
    the old one; another one as coo. Errors: FormatError, ShapeError."""
    if len(matrix.shape) != 2:
        raise ShapeError(name, f"a matrix of {len(matrix.shape)} dimensions", "give a two-dimensional one")
    try:
        if matrix.format in ("bsr", "csr", "csc"):
            return type(matrix)(_used_arrays(matrix, name), shape=matrix.shape)
        coo = matrix.tocoo()
    except (ValueError, IndexError) as error:
        if isinstance(error, Error):
            raise
        raise FormatError(name, " ".join(str(error).split()), "correct the arrays") from None
    for part, at, length in (("row", coo.row, coo.shape[0]), ("col", coo.col, coo.shape[1])):
        if len(at) != len(coo.data) or (len(at) and (at.min() < 0 or at.max() >= length)):
            raise FormatError(f"{name}, {part}", f"an index is missing, or not from 0 to {length - 1}", "correct the index arrays")
    return coo


def _as_bsr(matrix: Matrix, name: str) -> Optional[Bsr]:
    """Arrays that the caller gave as they are; None for other kinds."""
    if isinstance(matrix, tuple):
        if len(matrix) not in (3, 4):
            raise FormatError(name, f"a tuple of {len(matrix)}", "give (indptr, indices, data)")
        indptr, indices, data = (np.asarray(part) for part in matrix[:3])
        if data.ndim != 3 or not 0 < data.shape[1] == data.shape[2]:
            raise FormatError(name, f"data of shape {data.shape}, expected (blocks, m, m)",
                              "give (indptr, indices, data); SciPy's own order is another")
        side = (len(indptr) - 1) * data.shape[1]
        shape = matrix[3] if len(matrix) == 4 and matrix[3] is not None else (side, side)
        rows, cols = (_library.whole_number(f"{name}, shape", x, 0, _library.MAX_64) for x in shape)
        return Bsr(indptr, indices, data, (rows, cols))
    if is_scipy(matrix) and matrix.format == "bsr" and len(set(_sides(matrix, name))) == 1:
        data, indices, indptr = _used_arrays(matrix, name)
        return Bsr(indptr, indices, data, matrix.shape)
    return None


def _side_of(matrix: Matrix, name: str) -> int:
    """Side of the matrix's blocks; 0 if it has none."""
    if is_scipy(matrix):
        return math.gcd(*_sides(matrix, name)) if matrix.format == "bsr" else 0
    bsr = _as_bsr(matrix, name)
    return 0 if bsr is None else bsr.data.shape[1]


def square_side(blocksize: Any) -> Any:
    """8 of (8, 8), as SciPy and PyTorch write it; other things as they are. Errors: UsageError (not square)."""
    if not isinstance(blocksize, (tuple, list)):
        return blocksize
    if len(blocksize) != 2 or blocksize[0] != blocksize[1]:
        raise UsageError("blocksize", f"is {blocksize!r}", "give one number, or the same twice")
    return blocksize[0]


def common_side(a: Matrix, b: Matrix, blocksize: Optional[Blocksize]) -> int:
    """Block side of a product: what is asked for, else what the blocks of both have in common, else 1."""
    for matrix, name in ((a, "matrix A"), (b, "matrix B")):
        if isinstance(matrix, list):
            raise UsageError(name, "is a list", "give a matrix: numpy.array(rows), or a tuple "
                             "(indptr, indices, data); spmm.multiply_many takes a list of pairs")
    blocksize = square_side(blocksize)
    if blocksize is not None:
        return _library.whole_number("blocksize", blocksize, 1, MAX_SIDE)
    side = math.gcd(_side_of(a, "matrix A"), _side_of(b, "matrix B"))
    return max((d for d in range(1, MAX_SIDE + 1) if side % d == 0), default=1) if side else 1


def _first_bad(values: np.ndarray) -> Optional[int]:
    """Number of the first element that is no whole number from 0 to 65535; None if all are."""
    if values.dtype.kind in "iu" and values.size and values.min() >= 0 and values.max() <= OPERAND.largest:
        return None  # without masks
    with np.errstate(invalid="ignore"):
        bad = bad_elements(values, np)
    return int(bad.argmax()) if bad is not None and bad.any() else None


def _require_elements(data: np.ndarray, name: str, place: Callable[[int], Tuple[int, int]]) -> None:
    """Errors: FormatError with row and column of the first element that does not fit."""
    if data.dtype.kind not in "biuf":
        raise FormatError(name, f"elements of type {data.dtype}", f"give each as a {RANGE}")
    bad = _first_bad(data.reshape(-1))
    if bad is None:
        return
    row, column = place(bad)
    raise FormatError(f"{name}, row {row}, column {column}",
                      f"element {data.reshape(-1)[bad]} is no {RANGE}",
                      "scale or round the matrix before")


def _checked(bsr: Bsr, name: str, kind: Kind, fits_result: bool = False) -> np.ndarray:
    """data as the kind has it (a result: uint32), the same array where it is that already. Errors: FormatError."""
    m = bsr.data.shape[1]
    if kind is not SATURATING:
        data = np.ascontiguousarray(bsr.data, dtype=kind.code)
        if bsr.data.dtype.kind == "i" and data.itemsize < bsr.data.itemsize and not np.array_equal(data, bsr.data):
            raise FormatError(name, f"elements that are stored several times add up to more than {kind.name} holds",
                              "convert the matrix to int64 before, or add them up")
        return data

    def place(bad: int) -> Tuple[int, int]:
        block, element = divmod(bad, m * m)
        row = int(np.searchsorted(bsr.indptr, block, side="right")) - 1
        return row * m + element // m, int(bsr.indices[block]) * m + element % m

    if fits_result and bsr.data.dtype == RESULT.code:
        return np.ascontiguousarray(bsr.data)
    _require_elements(bsr.data, name, place)
    return np.ascontiguousarray(bsr.data, dtype=OPERAND.code)


def _regrouped(matrix: Matrix, m: int, name: str, kind: Kind) -> Bsr:
    """Any kind of matrix in blocks of side m. Elements that are stored several times are added up, whole numbers in 64
    bits."""
    if isinstance(matrix, np.ndarray):
        return _from_dense(matrix, m, name)
    sparse = find_scipy()
    if not is_scipy(matrix):
        bsr = _as_bsr(matrix, name)
        if bsr is None:
            raise wrong_kind(matrix, name)
        if sparse is None or bsr.data.dtype == np.float16:  # which SciPy does not have
            raise ShapeError(name, f"blocks of side {bsr.data.shape[1]} of {bsr.data.dtype}, expected side {m}",
                             "give both with blocks of the same side" + (", or install SciPy" if sparse is None else ""))
        _num_blocks(bsr, name)
        data = bsr.data.astype(bsr.data.dtype.newbyteorder("="), copy=False)
        matrix = sparse.bsr_matrix((data, bsr.indices, bsr.indptr), shape=bsr.shape)
    matrix = checked(matrix, name)
    if matrix.format != "csr" or not matrix.has_canonical_format:
        coo = matrix.tocoo()
        if kind is SATURATING:
            _require_elements(coo.data, name, lambda bad: (int(coo.row[bad]), int(coo.col[bad])))
        data = coo.data if coo.data.dtype.kind == "f" else coo.data.astype(np.int64)
        matrix = sparse.coo_matrix((data, (coo.row, coo.col)), shape=coo.shape).tocsr()
    elements = Bsr(matrix.indptr, matrix.indices, matrix.data.reshape(-1, 1, 1), matrix.shape)
    narrow = _checked(elements, name, kind)
    if m == 1:
        return elements._replace(data=narrow)
    csr = sparse.csr_matrix((narrow.reshape(-1), matrix.indices, matrix.indptr), shape=matrix.shape)
    blocks = csr.tobsr(blocksize=(m, m))
    return Bsr(blocks.indptr, blocks.indices, blocks.data, blocks.shape)


def pattern(matrix: Matrix) -> Bsr:
    """Blocks of a block matrix, elements of others, whatever their values, each once. Errors: FormatError, ShapeError."""
    bsr = _as_bsr(matrix, "matrix")
    if bsr is not None:
        _num_blocks(bsr, "matrix")
        return bsr
    if isinstance(matrix, np.ndarray):
        return _from_dense(matrix, 1, "matrix")
    if not is_scipy(matrix):
        raise wrong_kind(matrix, "matrix")
    coo = checked(matrix, "matrix").tocoo()
    csr = find_scipy().coo_matrix((np.ones(len(coo.data), dtype=bool), (coo.row, coo.col)), shape=coo.shape).tocsr()
    return Bsr(csr.indptr, csr.indices, csr.data.reshape(-1, 1, 1), csr.shape)


def _has_duplicates(bsr: Bsr) -> bool:
    """Whether a block is stored several times. Values: index arrays that are checked."""
    rows = np.repeat(np.arange(len(bsr.indptr) - 1, dtype=np.int64), np.diff(bsr.indptr))
    keys = rows * (int(bsr.indices.max(initial=0)) + 1) + bsr.indices.astype(np.int64)
    return not np.all(np.diff(keys) > 0) and len(np.unique(keys)) < len(keys)


def transposed(matrix: Matrix, name: str) -> Matrix:
    """Errors: ArgumentError, FormatError."""
    if hasattr(matrix, "T"):
        return matrix.T
    bsr = _as_bsr(matrix, name)
    if bsr is None:
        raise wrong_kind(matrix, name)
    indices = bsr.indices[:_num_blocks(bsr, name)]
    assert bsr.shape is not None
    rows, cols = bsr.shape
    order = np.argsort(indices, kind="stable")
    in_columns = np.bincount(indices, minlength=cols // bsr.data.shape[1])
    return Bsr(np.concatenate([[0], np.cumsum(in_columns)]), np.repeat(np.arange(len(bsr.indptr) - 1), np.diff(bsr.indptr))[order],
               bsr.data[order].swapaxes(1, 2), (cols, rows))


def _from_dense(matrix: np.ndarray, m: int, name: str) -> Bsr:
    if matrix.ndim != 2:
        raise ShapeError(name, f"an array of {matrix.ndim} dimensions", "give a two-dimensional one")
    rows, cols = matrix.shape[0] // m, matrix.shape[1] // m
    blocks = np.ascontiguousarray(matrix).reshape(rows, m, cols, m).transpose(0, 2, 1, 3)
    stored = (blocks != 0).any(axis=(2, 3))
    indptr = np.concatenate([[0], np.cumsum(stored.sum(axis=1))]).astype(np.int64)
    return Bsr(indptr, np.nonzero(stored)[1].astype(np.int64), blocks[stored], matrix.shape)


class Operand:
    """A matrix as the library reads it. Keeps what the pointers point to."""

    def __init__(self, matrix: Matrix, m: int, name: str, kind: Kind = SATURATING, fits_result: bool = False,
                 ascends: bool = False) -> None:
        """ascends: sorts the blocks of rows."""
        shape = matrix.shape if hasattr(matrix, "shape") and not isinstance(matrix, tuple) else None
        if shape is not None and len(shape) == 2 and any(side % m for side in shape):
            raise ShapeError(name, f"shape {shape[0]} x {shape[1]} is no multiple of the block side {m}",
                             "pad the matrix with zeros, or use another blocksize")
        bsr = _as_bsr(matrix, name)
        if bsr is None or bsr.data.shape[1] != m or (not fits_result and is_scipy(matrix) and _has_duplicates(bsr)):
            bsr = _regrouped(matrix, m, name, kind)
        if len(bsr.data) != len(bsr.indices):
            raise FormatError(name, f"{len(bsr.data)} blocks for {len(bsr.indices)} indices", "give a block for each index")
        lengths = np.diff(bsr.indptr)
        if ascends and lengths.min(initial=0) >= 0 and lengths.sum() == len(bsr.indices):  # else the library says what is wrong
            order = np.lexsort((bsr.indices, np.repeat(np.arange(len(lengths)), lengths)))
            bsr = bsr._replace(indices=bsr.indices[order], data=bsr.data[order])
        self.data = _checked(bsr, name, kind, fits_result)
        self.indptr, self.indices = (self._indices(part, name) for part in (bsr.indptr, bsr.indices))
        self.shape = bsr.shape
        rows, cols = self.shape
        if rows < 0 or cols < 0 or rows // m + 1 != len(self.indptr):
            raise FormatError(name, f"indptr has {len(self.indptr)} entries, expected {rows // m + 1}",
                              "give the begin of each block row, and the end of the last")
        self._name = name.encode()
        self.struct = _library.BsrStruct(
            rows=rows, cols=cols, indptr=self.indptr.ctypes.data, indices=self.indices.ctypes.data,
            data=self.data.ctypes.data, num_indices=len(self.indices), block_side=m,
            indptr_bits=8 * self.indptr.itemsize, indices_bits=8 * self.indices.itemsize,
            element_bits=8 * self.data.itemsize if kind is SATURATING else 0, name=self._name, element_type=kind.number)

    @staticmethod
    def _indices(values: np.ndarray, name: str) -> np.ndarray:
        if values.ndim != 1 or (values.dtype.kind not in "iu" and values.size != 0):
            raise FormatError(name, f"indices of type {values.dtype} and {values.ndim} dimensions",
                              "give one-dimensional arrays of integers")
        wanted = values.dtype if values.dtype in (np.int32, np.int64) else np.dtype(np.int64)
        return np.ascontiguousarray(values, dtype=wanted)


def _borrowed(handle: _library.Handle, address: int, count: int, dtype: Any) -> np.ndarray:
    """An array of the library's memory, which lives as long as the array."""
    if count == 0:
        return np.empty(0, dtype=dtype)
    buffer = (ctypes.c_char * (count * np.dtype(dtype).itemsize)).from_address(address)
    buffer._owner = handle
    return np.frombuffer(buffer, dtype=dtype)


def from_handle(handle: _library.Handle, wants_scipy: bool) -> Any:
    """A matrix of the library as a bsr_array of SciPy, or as a Bsr. The elements are not copied."""
    of = _library.library()
    pointer = handle.pointer
    m, num_blocks = of.spmm_matrix_block_side(pointer), of.spmm_matrix_num_blocks(pointer)
    shape = (of.spmm_matrix_rows(pointer), of.spmm_matrix_cols(pointer))
    element = BY_NUMBER[of.spmm_matrix_element_type(pointer)].code
    indptr = _borrowed(handle, of.spmm_matrix_indptr(pointer), shape[0] // m + 1, np.int64)
    indices = _borrowed(handle, of.spmm_matrix_indices(pointer), num_blocks, np.int64)
    data = _borrowed(handle, of.spmm_matrix_data(pointer), num_blocks * m * m, element).reshape(num_blocks, m, m)
    whole = Bsr(indptr, indices, data, shape)
    return as_scipy(whole) if wants_scipy else whole


def as_scipy(bsr: Bsr) -> Any:
    """A bsr_array on the same arrays; without SciPy the Bsr."""
    sparse = find_scipy()
    if sparse is None:
        return bsr
    return getattr(sparse, "bsr_array", sparse.bsr_matrix)((bsr.data, bsr.indices, bsr.indptr), shape=bsr.shape)


def cut(bsr: Bsr, shape: Tuple[int, int], name: str) -> Bsr:
    """The upper left part. Errors: UsageError, ShapeError; FormatError if anything lies outside."""
    m = bsr.data.shape[1]
    assert bsr.shape is not None
    if not isinstance(shape, (tuple, list)) or len(shape) != 2:
        raise UsageError("shape", f"is {shape!r}", "give (rows, cols)")
    rows, cols = (_library.whole_number("shape", given, 0, side) for given, side in zip(shape, bsr.shape))
    if rows % m or cols % m:
        raise ShapeError(name, f"shape {rows} x {cols} cuts through blocks of side {m}", "give multiples of it")
    if bsr.indptr[rows // m] != len(bsr.indices) or bsr.indices.max(initial=-1) >= cols // m:
        raise FormatError(name, f"has blocks outside of shape {rows} x {cols}", "give the shape that was written")
    return Bsr(bsr.indptr[:rows // m + 1], bsr.indices, bsr.data, (rows, cols))
