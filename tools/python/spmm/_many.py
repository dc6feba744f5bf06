"""Many products in one call, on a device or of matrices in host memory."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from typing import Any, Callable, Dict, List, Optional, Tuple

import numpy as np

from . import _device, _library
from ._elements import Kind, kind_of
from ._errors import FormatError, ShapeError, UsageError
from ._matrix import Bsr, Operand, as_scipy, as_tensor, check_stored, common_side, elements_name, of_host

_MATRIX = np.dtype([("struct_size", "u8"), ("rows", "u8"), ("cols", "u8"), ("indptr", "u8"), ("indices", "u8"),
                    ("data", "u8"), ("num_blocks", "u8"), ("block_side", "u4"), ("index_bits", "u4"), ("element_type", "u4"),
                    ("reserved", "u4")])  # spmm_device_bsr


class DeviceProducts(Sequence):
    """Results of many products: a sequence of matrices as multiply() gives them. Each is made when it is asked for, of
    slices of arrays that all share, which costs some 10 us; the arrays themselves cost nothing.

    indptr: that of each product, one behind another; indices and data: of all. Product x has indptr[first_row[x] + x :
    first_row[x + 1] + x + 1] and, of indices and data, [first_block[x] : first_block[x + 1]]. first_row and first_block:
    arrays of NumPy, [products + 1], made and copied to the host when they are asked for. shapes: of each, [products, 2].
    saturated_elements: how many of all products are 2**32 - 1.
    """

    def __init__(self, shared: _device.Shared, shapes: np.ndarray, side: int, fetch_first_block: Callable[[], np.ndarray],
                 saturated_elements: int) -> None:
        self.indptr, self.indices, self.data = shared.indptr, shared.indices, shared.data
        self.shapes, self.saturated_elements = shapes, saturated_elements
        self._matrix, self._side, self._fetch_first_block = shared.matrix, side, fetch_first_block

    @functools.cached_property
    def first_row(self) -> np.ndarray:
        """[products + 1], host: block rows before each product."""
        return np.concatenate([[0], np.cumsum(self.shapes[:, 0] // self._side)])

    @functools.cached_property
    def first_block(self) -> np.ndarray:
        """[products + 1], host: blocks before each product. The first time it copies them and waits."""
        return self._fetch_first_block()

    def __len__(self) -> int:
        return len(self.shapes)

    def __getitem__(self, number: Any) -> Any:
        if isinstance(number, slice):
            return [self[x] for x in range(*number.indices(len(self)))]
        if not -len(self) <= number < len(self):
            raise IndexError(f"there are {len(self)} products")
        x = number % len(self)
        begin, end = int(self.first_row[x]) + x, int(self.first_row[x + 1]) + x + 1
        first, last = int(self.first_block[x]), int(self.first_block[x + 1])
        rows, cols = self.shapes[x].tolist()
        return self._matrix(self.indptr[begin:end], self.indices[first:last], self.data[first:last], (rows, cols))


def taken(products: Any, b: Any) -> Tuple[Any, Any]:
    """The products, with b None a list of pairs, and their first matrix; None if there is none. Errors: UsageError."""
    if b is not None:
        return products, products
    pairs = list(products)
    for x, pair in enumerate(pairs):
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise UsageError(f"product {x}", f"is a {type(pair).__name__}", "give pairs (a, b), or two batches")
    return pairs, pairs[0][0] if pairs else None


def _strides(first: _device.Arrays) -> _library.DeviceStrides:
    return _library.DeviceStrides(indptr=first.shape[0] // first.side + 1, indices=first.num_blocks,
                                  data=first.num_blocks * first.side**2)


class ManyCall(_device.Call):
    """Operands, stream and memory of many products: a list of pairs, or with b two batches."""

    def __init__(self, products: Any, b: Any = None, serves_workspace: bool = False, dtype: Any = None) -> None:
        super().__init__(products if b is not None else products[0][0], serves_workspace)
        self._stacks: Optional[_library.DeviceStacksStruct] = None  # else there is a table
        if b is None:
            self._take_pairs(products, dtype)
        else:
            self._take_batches([products, b], dtype)
        self.num_products = len(self._shapes)

    def _take_pairs(self, pairs: List[Tuple[Any, Any]], dtype: Any) -> None:
        arrays = self.arrays_of([matrix for pair in pairs for matrix in pair],
                                [f"matrix {side}, product {x}" for x in range(len(pairs)) for side in "AB"], dtype)
        self._keep = [one.keep for one in arrays]
        self.table = np.array([(_MATRIX.itemsize, *one.shape, one.indptr, one.indices, one.data, one.num_blocks, one.side,
                                one.index_bits, one.kind.number, 0) for one in arrays], dtype=_MATRIX)
        self._shapes = np.array([(a.shape[0], b.shape[1]) for a, b in zip(arrays[::2], arrays[1::2])])
        self._num_rows = int((self._shapes[:, 0] // arrays[0].side).sum())
        self._side, self._index_bits = arrays[0].side, arrays[0].index_bits

    def _take_batches(self, given: List[Any], dtype: Any) -> None:
        a, b = self.arrays_of(given, ["matrix A", "matrix B"], dtype, num_batches=1)
        if a.count != b.count:
            raise ShapeError("matrix A and matrix B", f"are {a.count} and {b.count} products",
                             "pass as many left as right ones")
        self._keep = [a.keep, b.keep]
        self._stacks = _library.DeviceStacksStruct(num_products=a.count, a=ctypes.pointer(a.struct), b=ctypes.pointer(b.struct),
                                                   a_strides=_strides(a), b_strides=_strides(b))
        self._shapes = np.broadcast_to(np.array((a.shape[0], b.shape[1]), dtype=np.int64), (a.count, 2))
        self._num_rows = a.count * (a.shape[0] // a.side)
        self._side, self._index_bits = a.side, a.index_bits

    def multiply(self, engine: Any, *rest: Any) -> int:
        """Calls the library. Returns its status."""
        library = _library.library()
        if self._stacks is not None:
            return int(library.spmm_multiply_stacks_device(engine, self._stacks, *rest))
        return int(library.spmm_multiply_many_device(engine, self.table.ctypes.data, self.num_products, *rest))

    def _first_blocks(self, handle: _library.Handle) -> Callable[[], np.ndarray]:
        """What copies the blocks before each product to the host. It does not hold the operands."""
        library, count = _library.library(), self.num_products + 1
        if self._memory is None:
            def fetch() -> np.ndarray:
                fetched = np.empty(count, dtype=np.int64)  # the library's are unsigned
                _library.check(library.spmm_device_matrix_fetch_first_blocks(handle.pointer, fetched.ctypes.data))
                return fetched
            return fetch
        held = self._memory.take(library.spmm_device_matrix_first_blocks(handle.pointer) or 0)
        if held is None:
            return lambda: np.zeros(count, dtype=np.int64)
        bytes_of, index = self.library.bytes_of, f"i{self._index_bits // 8}"
        return lambda: bytes_of(held).view(index).astype(np.int64)

    def products(self, handle: _library.Handle) -> DeviceProducts:
        library, pointer = _library.library(), handle.pointer
        first_blocks = self._first_blocks(handle)
        address = library.spmm_device_matrix_indptrs(pointer) or 0
        shared = self.shared(handle, (address, self._num_rows + self.num_products), self._index_bits, self._side)
        return DeviceProducts(shared, self._shapes, self._side, first_blocks, library.spmm_device_matrix_num_saturated(pointer))


def _matrices_of(batch: Any, name: str) -> List[Bsr]:
    """Those of a batch in host memory. Errors: FormatError."""
    torch = _device.torch_of(batch)
    if torch is None and (not isinstance(batch, tuple) or len(batch) not in (3, 4)):
        raise FormatError(name, f"is a {type(batch).__name__}", "give (indptr, indices, data[, shape]), or a batch of PyTorch")
    parts = batch[:3] if torch is None else _device.parts_of_torch(batch, name, torch, num_batches=1)
    indptr, indices, data = (np.asarray(of_host(part, name)) for part in parts)
    if not len(indptr) == len(indices) == len(data) or data.ndim not in (2, 4) or data.shape[:2] != indices.shape:
        raise _device.lengths_error(name)
    shape = tuple(batch.shape[1:]) if torch is not None else batch[3] if len(batch) == 4 else None
    return [Bsr(*one, shape) for one in zip(indptr, indices, data if data.ndim == 4 else data[..., None, None])]


def _on_diagonal(matrices: List[Any], name: str, m: int, kind: Kind) -> Tuple[Bsr, np.ndarray]:
    """One matrix that has these on its diagonal, and where each begins, [matrices + 1, 2] block rows and columns. Errors:
    FormatError, ShapeError, UsageError."""
    operands = []
    for x, matrix in enumerate(matrices):
        names = f"matrix {name}, product {x}"
        operands.append(Operand(matrix, m, names, kind))
        check_stored(operands[-1], m, names)
    begins = np.concatenate([np.zeros((1, 2), np.int64), np.cumsum([one.shape for one in operands], axis=0) // m])
    first_block = np.cumsum([0] + [len(one.indices) for one in operands])
    whole = Bsr(np.concatenate([[0], *(one.indptr[1:] + first for one, first in zip(operands, first_block))]),
                np.concatenate([one.indices + begin[1] for one, begin in zip(operands, begins)]),
                np.concatenate([one.data for one in operands]), tuple((begins[-1] * m).tolist()))
    return whole, begins


def multiply_on_host(multiply: Callable[..., Bsr], products: Any, b: Any, dtype: Any, options: Dict[str, Any]) -> DeviceProducts:
    """multiply: of block-CSR arrays. Errors: FormatError, ShapeError, UsageError, what it raises."""
    pairs = products if b is None else list(zip(_matrices_of(products, "matrix A"), _matrices_of(b, "matrix B")))
    torch = _device.torch_of(pairs[0][0] if b is None else products)
    wants_scipy = b is None and not isinstance(pairs[0][0], tuple)
    sides = [tuple(of_host(matrix, f"matrix {name}, product {x}") for matrix, name in zip(pair, "AB")) for x, pair in enumerate(pairs)]
    m = common_side(*sides[0], None)
    kind = kind_of([elements_name(matrix, f"matrix {name}, product {x}") for x, pair in enumerate(sides)
                    for matrix, name in zip(pair, "AB")], dtype)
    (left, rows), (right, columns) = (_on_diagonal([pair[x] for pair in sides], "AB"[x], m, kind) for x in (0, 1))
    if not np.array_equal(rows[:, 1], columns[:, 0]):
        x = int((rows[1:, 1] != columns[1:, 0]).argmax())
        raise ShapeError(f"matrix A and matrix B, product {x}", "A has not as many columns as B has rows", "pass matrices that fit")
    whole = multiply(left, right, **options)
    first_row, first_column = rows[:, 0], columns[:, 1]
    first_block = whole.indptr[first_row]
    indptr = np.concatenate([whole.indptr[begin:end + 1] - whole.indptr[begin] for begin, end in zip(first_row, first_row[1:])])
    indices = whole.indices - np.repeat(first_column[:-1], np.diff(first_block))

    def matrix(*parts: Any) -> Any:
        made = Bsr(*parts)
        if torch is not None:
            return as_tensor(made, torch)
        if not wants_scipy:
            return made
        scipys = as_scipy(made)
        if scipys is not made:
            scipys.saturated_elements = made.saturated_elements
        return scipys
    shapes = np.stack([np.diff(first_row), np.diff(first_column)], axis=1) * m
    return DeviceProducts(_device.Shared(indptr, indices, whole.data, matrix), shapes, m, lambda: first_block, whole.saturated_elements)
