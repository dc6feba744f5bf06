"""Many products on a device in one call."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, List, NamedTuple, Tuple

import numpy as np

from . import _device, _errors, _library

_MATRIX = np.dtype([("struct_size", "u8"), ("rows", "u8"), ("cols", "u8"), ("indptr", "u8"), ("indices", "u8"),
                    ("data", "u8"), ("num_blocks", "u8"), ("block_side", "u4"), ("index_bits", "u4")])  # spmm_device_bsr


class DeviceProducts(Sequence):
    """Results of many products: a sequence of matrices as multiply() gives them. Each is made when it is asked for, of
    slices of arrays that all share, which costs some 10 us; the arrays themselves cost nothing.

    indptr: that of each product, one behind another; indices and data: of all. Product x has indptr[first_row[x] + x :
    first_row[x + 1] + x + 1] and, of indices and data, [first_block[x] : first_block[x + 1]]. first_row and first_block:
    arrays of NumPy, [products + 1]. shapes: of each, [products, 2]. saturated_elements: how many of all products are 2**32 - 1.
    """

    def __init__(self, shared: _device.Shared, shapes: np.ndarray, first_row: np.ndarray, first_block: np.ndarray,
                 saturated_elements: int) -> None:
        self.indptr, self.indices, self.data = shared.indptr, shared.indices, shared.data
        self.shapes, self.first_row, self.first_block = shapes, first_row, first_block
        self.saturated_elements = saturated_elements
        self._matrix = shared.matrix

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


def _pairs(products: Any) -> List[Tuple[Any, Any]]:
    pairs = list(products)
    for x, pair in enumerate(pairs):
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise _errors.make(_errors.UsageError, f"product {x}", f"is a {type(pair).__name__}", "give pairs (a, b), or two batches")
    return pairs


class _Batch(NamedTuple):
    """The left or the right matrices of many products, in arrays that they share; each has an indptr of its own."""

    indptr: int
    indices: int
    data: int
    index_bits: int
    side: int
    shapes: np.ndarray  # [products, 2]
    first_block: np.ndarray  # [products + 1]
    keep: Any

    def fill(self, table: np.ndarray) -> None:
        """Shapes: table [products] of _MATRIX."""
        item, lengths = self.index_bits // 8, self.shapes[:, 0] // self.side + 1  # of each indptr
        first = np.array((_MATRIX.itemsize, *self.shapes[:1].sum(axis=0), 0, 0, 0, 0, self.side, self.index_bits), _MATRIX)
        as_bytes = f"V{_MATRIX.itemsize}"  # copied at once, not field by field
        table.view(as_bytes)[...] = first.view(as_bytes)
        if self.shapes.strides[0]:  # else all are of one shape
            table["rows"], table["cols"] = self.shapes[:, 0], self.shapes[:, 1]
        table["indptr"] = self.indptr + item * (np.cumsum(lengths) - lengths)
        table["indices"] = self.indices + item * self.first_block[:-1]
        table["data"] = self.data + 2 * self.side**2 * self.first_block[:-1]
        table["num_blocks"] = np.diff(self.first_block)


def _alike(count: int, shape: Tuple[int, int], num_blocks: int) -> Tuple[np.ndarray, np.ndarray]:
    """shapes and first_block of matrices of one shape and number of blocks."""
    return np.broadcast_to(np.array(shape, dtype=np.int64), (count, 2)), num_blocks * np.arange(count + 1)


def _of_tensor(tensor: Any, name: str, torch: Any) -> _Batch:
    """Errors: FormatError."""
    indptr, indices, values = _device.parts_of_torch(tensor, name, torch, num_batches=1)
    values = _device.elements(values, name, torch)
    count, num_blocks, side = values.shape[:3]
    return _Batch(indptr.data_ptr(), indices.data_ptr(), values.data_ptr(), 8 * indptr.element_size(), side,
                  *_alike(count, tuple(tensor.shape[1:]), num_blocks), (indptr, indices, values))


def _on_host(numbers: Any, name: str) -> np.ndarray:
    """As int64. Errors: FormatError."""
    try:
        array = np.asarray(numbers)
    except TypeError:  # of an array on a device
        array = np.empty(0, dtype=object)
    if array.dtype.kind not in "iu":
        raise _errors.make(_errors.FormatError, name, "are no whole numbers in host memory", "pass an array of NumPy")
    return array.astype(np.int64)


def _of_tuple(batch: Tuple[Any, ...], name: str) -> _Batch:
    """Errors: FormatError."""
    is_stacked = len(batch) < 5
    parts = _device.parts_of_tuple(batch, name, num_batches=int(is_stacked))
    if is_stacked:
        count, num_blocks = parts.indices.shape
        if parts.indptr.shape[0] != count:
            raise _device.lengths_error(name)
        shapes, first_block = _alike(count, _device.shape_of(batch, parts, name), num_blocks)
    else:
        shapes, first_block = _on_host(batch[3], f"{name}, shapes"), _on_host(batch[4], f"{name}, first_block")
        blocks = parts.indices.shape[0]
        if (first_block.ndim != 1 or first_block[:1].tolist() != [0] or first_block[-1] != blocks
                or (np.diff(first_block) < 0).any()):
            raise _errors.make(_errors.FormatError, f"{name}, first_block", "does not ascend from 0 to the number of blocks",
                               "pass [products + 1], the blocks before each matrix")
        count = len(first_block) - 1
        if shapes.shape not in ((2,), (count, 2)) or (shapes < 0).any():
            raise _errors.make(_errors.FormatError, f"{name}, shapes", f"of shape {shapes.shape}, or negative",
                               f"pass [{count}, 2], or (rows, cols) of all")
        shapes = np.broadcast_to(shapes, (count, 2))
        if int((shapes[:, 0] // parts.side + 1).sum()) != parts.indptr.shape[0]:
            raise _errors.make(_errors.FormatError, f"{name}, indptr", f"has {parts.indptr.shape[0]} entries",
                               "pass that of each matrix, [sum of rows / m + products]")
    return _Batch(*(part.address for part in parts[:3]), parts.bits, parts.side, shapes, first_block, parts[:3])


class ManyCall(_device.Call):
    """Operands, stream and memory of many products: pairs, or with b two batches."""

    def __init__(self, products: Any, b: Any = None, serves_workspace: bool = False) -> None:
        pairs = _pairs(products) if b is None else [(products, b)]
        if not pairs or not _device.is_on_device(pairs[0][0]):
            raise _errors.make(_errors.UsageError, "products", "are none on a GPU",
                               "give at least one pair, and use Engine.multiply for matrices of the host")
        super().__init__(pairs[0][0], serves_workspace)
        if b is None:
            self._take_pairs(pairs)
        else:
            self._take_batches(products, b)
        self.num_products = len(self._shapes)

    def _take_pairs(self, pairs: List[Tuple[Any, Any]]) -> None:
        arrays = self.arrays_of([matrix for pair in pairs for matrix in pair],
                                [f"matrix {side}, product {x}" for x in range(len(pairs)) for side in "AB"])
        self._keep = [one.keep for one in arrays]
        self.table = np.array([(_MATRIX.itemsize, *one.shape, one.indptr, one.indices, one.data, one.num_blocks, one.side,
                                one.index_bits) for one in arrays], dtype=_MATRIX)
        self._shapes = np.array([(a.shape[0], b.shape[1]) for a, b in zip(arrays[::2], arrays[1::2])])
        self._side, self._index_bits = arrays[0].side, arrays[0].index_bits

    def _take_batches(self, *given: Any) -> None:
        names = ("matrix A", "matrix B")
        self.check_alike(list(given), list(names))
        if self._is_cupy:
            raise _errors.make(_errors.FormatError, "matrix A", "is one matrix", "give pairs, or tuples of arrays")
        left, right = (_of_tuple(batch, name) if self._torch is None else _of_tensor(batch, name, self._torch)
                       for batch, name in zip(given, names))
        count = len(left.shapes)
        if len(right.shapes) != count:
            raise _errors.make(_errors.ShapeError, "matrix A and matrix B", f"are {count} and {len(right.shapes)} products",
                               "pass as many left as right ones")
        self._keep = [left.keep, right.keep]
        self.table = np.empty((count, 2), dtype=_MATRIX)
        left.fill(self.table[:, 0])
        right.fill(self.table[:, 1])
        self._shapes = np.column_stack([left.shapes[:, 0], right.shapes[:, 1]])
        self._side, self._index_bits = left.side, left.index_bits

    def products(self, handle: _library.Handle) -> DeviceProducts:
        library, pointer = _library.library(), handle.pointer
        count = self.num_products + 1
        rows = (ctypes.c_uint64 * count).from_address(library.spmm_device_matrix_first_rows(pointer))
        first_row = np.frombuffer(rows, dtype=np.uint64).astype(np.int64)
        first_block = np.empty(count, dtype=np.uint64)
        _library.check(library.spmm_device_matrix_fetch_first_blocks(pointer, first_block.ctypes.data))
        address = library.spmm_device_matrix_indptrs(pointer) or 0
        shared = self.shared(handle, (address, int(first_row[-1]) + self.num_products), self._index_bits, self._side)
        return DeviceProducts(shared, self._shapes, first_row, first_block.astype(np.int64),
                              library.spmm_device_matrix_num_saturated(pointer))
