"""CSR matrices as matrices of blocks, with the operations of the library that they belong to."""

from __future__ import annotations

from typing import Any, Tuple, Union

import numpy as np

from . import _device, _library
from ._errors import FormatError, ShapeError
from ._matrix import MAX_SIDE, Bsr, as_scipy, checked, is_scipy, square_side, wrong_kind

AUTO_SIDES = (2, 4, 8, 16)


class _Places:
    """Where the elements of a matrix lie. xp: NumPy, CuPy or PyTorch. Values: rows, columns of 64 bits."""

    def __init__(self, rows: Any, columns: Any, values: Any, shape: Tuple[int, int], index: Any, xp: Any) -> None:
        self._is_torch = xp.__name__ == "torch"
        self.xp, self.rows, self.columns, self.values, self.shape, self.index = xp, rows, columns, values, shape, index
        self.like = {"dtype": xp.int64, "device": rows.device} if self._is_torch else {"dtype": xp.int64}
        if int(xp.unique(rows * shape[1] + columns).shape[0]) != len(values):
            raise FormatError("matrix", "an element is stored twice", "use sum_duplicates(), or coalesce()")

    @staticmethod
    def of_rows(indptr: Any, indices: Any, values: Any, shape: Tuple[int, int], xp: Any) -> _Places:
        """Of a CSR matrix on a device, whose index arrays are checked. Errors: FormatError."""
        index, is_torch = indices.dtype, xp.__name__ == "torch"
        indptr, indices = (x.to(xp.int64) if is_torch else x.astype(xp.int64) for x in (indptr, indices))
        stored = int(indptr[-1]) if len(indptr) == shape[0] + 1 else -1
        if (not 0 <= stored <= min(len(indices), len(values)) or int(indptr[0]) != 0 or bool((indptr[1:] < indptr[:-1]).any())
                or bool(((indices[:stored] < 0) | (indices[:stored] >= shape[1])).any())):
            raise FormatError("matrix, indptr and indices", "descend, or lead outside", "correct the index arrays")
        indices, values = indices[:stored], values[:stored]
        if is_torch:
            at = xp.arange(stored, dtype=xp.int64, device=indices.device)
            rows = xp.searchsorted(indptr, at, right=True) - 1
        else:
            rows = xp.searchsorted(indptr, xp.arange(stored), side="right") - 1
        return _Places(rows, indices, values, shape, index, xp)

    def blocks(self, side: int, **options: bool) -> Any:
        """Numbers of the blocks that are stored, ascending."""
        return self.xp.unique(self.rows // side * (self.shape[1] // side) + self.columns // side, **options)

    def stored_bytes(self, side: int) -> int:
        num_blocks = int(self.blocks(side).shape[0])
        index_bytes = self.index.itemsize
        return num_blocks * (side * side * self.values.dtype.itemsize + index_bytes) + self.shape[0] // side * index_bytes

    def gathered(self, side: int) -> Tuple[Any, Any, Any]:
        """indptr, indices and data of blocks of that side."""
        xp, across = self.xp, self.shape[1] // side
        numbers, block = self.blocks(side, return_inverse=True)
        data = xp.zeros(int(numbers.shape[0]) * side * side, **{**self.like, "dtype": self.values.dtype})
        data[(block.reshape(-1) * side + self.rows % side) * side + self.columns % side] = self.values
        indptr = xp.searchsorted(numbers, xp.arange(self.shape[0] // side + 1, **self.like) * across)
        indptr, indices = (x.to(self.index) if self._is_torch else x.astype(self.index) for x in (indptr, numbers % across))
        return indptr, indices, data.reshape(-1, side, side)


def _side(places: _Places, block: Any) -> int:
    rows, cols = places.shape
    if block != "auto":
        side = _library.whole_number("block", square_side(block), 1, MAX_SIDE)
        if rows % side or cols % side:
            raise ShapeError("matrix", f"shape {rows} x {cols} is no multiple of the block side {side}",
                             "pad the matrix with zeros, or use another block")
        return side
    sides = [side for side in AUTO_SIDES if rows % side == 0 and cols % side == 0]
    if not sides:
        raise ShapeError("matrix", f"shape {rows} x {cols}: no block side of 2, 4, 8, 16 divides both",
                         "pad the matrix with zeros, or give block")
    return min(sides, key=places.stored_bytes)


def csr_to_bsr(a: Any, block: Union[str, int, Tuple[int, int]] = "auto") -> Any:
    """A CSR matrix in blocks, by operations of the library it belongs to: on the GPU if it lies there.

    a: a sparse_csr tensor of PyTorch gives a sparse_bsr one, CuPy's csr_matrix a tuple (indptr, indices, data, shape) of
    its arrays with data of uint16, which spmm.multiply takes, and a matrix of SciPy a bsr_array. Other types of elements
    than CuPy's stay as they are. block: side, 1 to 64, 8 or (8, 8); "auto": that of 2, 4, 8, 16 which stores the fewest bytes, of
    those that divide both sides of the matrix.
    Errors: FormatError (an element that is stored twice; of CuPy, also one that is no whole number from 0 to 65535),
    ShapeError, UsageError.

    >>> import numpy as np, scipy.sparse as sp, spmm
    >>> spmm.csr_to_bsr(sp.csr_array(np.kron(np.eye(6), np.ones((4, 4), dtype=np.uint16)))).blocksize
    (4, 4)
    """
    torch = _device.torch_of(a)
    if torch is not None and a.layout == torch.sparse_csr:
        places = _Places.of_rows(a.crow_indices(), a.col_indices(), a.values(), tuple(a.shape), torch)
        return torch.sparse_bsr_tensor(*places.gathered(_side(places, block)), tuple(a.shape))
    if _device._is_cupy(a):
        import cupy
        csr = a.tocsr()
        values = _device.elements(csr.data, "matrix", cupy)
        places = _Places.of_rows(csr.indptr, csr.indices, values, tuple(csr.shape), cupy)
        return (*places.gathered(_side(places, block)), tuple(csr.shape))
    if not is_scipy(a):
        raise wrong_kind(a, "matrix")
    coo = checked(a, "matrix").tocoo()
    places = _Places(coo.row.astype(np.int64), coo.col.astype(np.int64), coo.data, coo.shape, coo.row.dtype, np)
    indptr, indices, data = places.gathered(_side(places, block))
    return as_scipy(Bsr(indptr, indices, data, coo.shape))
