"""Many products on a device in one call."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, List, Tuple

import numpy as np

from . import _device, _errors, _library

_MATRIX = np.dtype([("struct_size", "u8"), ("rows", "u8"), ("cols", "u8"), ("indptr", "u8"), ("indices", "u8"),
                    ("data", "u8"), ("num_blocks", "u8"), ("block_side", "u4"), ("index_bits", "u4")])  # spmm_device_bsr


class DeviceProducts(Sequence):
    """Results of many products: a sequence of matrices as multiply() gives them. Each is made when it is asked for, of
    slices of arrays that all share, which costs some 10 us; the arrays themselves cost nothing.

    indptr: that of each product, one behind another; indices and data: of all. Product x has indptr[first_row[x] + x :
    first_row[x + 1] + x + 1] and, of indices and data, [first_block[x] : first_block[x + 1]]. first_row and first_block:
    arrays of NumPy, [products + 1]. shapes: of each. saturated_elements: how many of all products are 2**32 - 1.
    """

    def __init__(self, shared: _device.Shared, shapes: List[Tuple[int, int]], first_row: np.ndarray,
                 first_block: np.ndarray, saturated_elements: int) -> None:
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
        return self._matrix(self.indptr[begin:end], self.indices[first:last], self.data[first:last], self.shapes[x])


def _pairs(products: Any) -> List[Tuple[Any, Any]]:
    pairs = list(products)
    for x, pair in enumerate(pairs):
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise _errors.make(_errors.UsageError, f"product {x}", f"is a {type(pair).__name__}", "give pairs (a, b)")
    return pairs


class ManyCall(_device.Call):
    """Operands, stream and memory of many products."""

    def __init__(self, products: Any) -> None:
        pairs = _pairs(products)
        if not pairs or not _device.is_on_device(pairs[0][0]):
            raise _errors.make(_errors.UsageError, "products", "are none on a GPU",
                               "give at least one pair, and use Engine.multiply for matrices of the host")
        super().__init__(pairs[0][0])
        arrays = self.arrays_of([matrix for pair in pairs for matrix in pair],
                                [f"matrix {side}, product {x}" for x in range(len(pairs)) for side in "AB"])
        self._keep = [one.keep for one in arrays]
        self.table = np.array([(_MATRIX.itemsize, *one.shape, one.indptr, one.indices, one.data, one.num_blocks, one.side,
                                one.index_bits) for one in arrays], dtype=_MATRIX)
        self.num_products = len(pairs)
        self._shapes = [(a.shape[0], b.shape[1]) for a, b in zip(arrays[::2], arrays[1::2])]
        self._side, self._index_bits = arrays[0].side, arrays[0].index_bits

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
