"""Matrices in device memory: tensors of PyTorch, matrices of CuPy, and arrays with __cuda_array_interface__."""

from __future__ import annotations

import sys
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from . import _errors, _library

MAX_ELEMENT = 65535


class Arrays(NamedTuple):
    """Block-CSR arrays on one device; keep holds what owns them."""

    indptr: int
    indices: int
    data: int
    index_bits: int
    num_blocks: int
    side: int
    shape: Tuple[int, int]
    keep: Any

    @property
    def struct(self) -> _library.DeviceBsrStruct:
        return _library.DeviceBsrStruct(rows=self.shape[0], cols=self.shape[1], indptr=self.indptr, indices=self.indices,
                                        data=self.data, num_blocks=self.num_blocks, block_side=self.side,
                                        index_bits=self.index_bits)


def _torch_of(matrix: Any) -> Any:
    torch = sys.modules.get("torch")
    return torch if torch is not None and isinstance(matrix, torch.Tensor) else None


def _is_cupy(matrix: Any) -> bool:
    return type(matrix).__module__.split(".")[0] in ("cupy", "cupyx") and hasattr(matrix, "tocsr")


def is_on_device(matrix: Any) -> bool:
    """Whether a matrix is one that lies in device memory."""
    if _torch_of(matrix) is not None:
        return bool(matrix.is_cuda)
    if isinstance(matrix, tuple):
        return len(matrix) in (3, 4) and hasattr(matrix[2], "__cuda_array_interface__")
    return _is_cupy(matrix)


def _format_error(name: str, problem: str, hint: str) -> _errors.Error:
    return _errors.make(_errors.FormatError, name, problem, hint)


def number_of(matrix: Any) -> Optional[int]:
    """Number of the device that holds a matrix; None: the first one."""
    if _torch_of(matrix) is not None:
        return int(matrix.device.index)
    return int(matrix.data.device.id) if _is_cupy(matrix) else None


def _elements(values: Any, name: str, library: Any) -> Any:
    """Elements as 16 bits, contiguous. Errors: FormatError if one is no whole number from 0 to 65535."""
    dtype = str(values.dtype).split(".")[-1]
    if dtype == "uint16":
        return values if library.__name__ == "torch" else library.ascontiguousarray(values)
    if dtype == "bool" or dtype.startswith("complex"):
        raise _format_error(name, f"elements of {dtype}", "pass whole numbers")
    is_bad = values < 0
    if dtype not in ("int8", "uint8", "int16"):  # MAX_ELEMENT would wrap
        is_bad |= values > MAX_ELEMENT
    if dtype.startswith(("float", "bfloat")):
        is_bad |= values != library.floor(values)
    if bool(is_bad.any()):
        raise _format_error(name, "an element is no whole number from 0 to 65535", "scale or round the matrix before")
    if library.__name__ == "torch":  # int16 has the bits
        return values.to(library.int32).to(library.int16).contiguous()
    return library.ascontiguousarray(values.astype(library.uint16))


def _of_torch(tensor: Any, name: str, torch: Any) -> Arrays:
    if tensor.layout == torch.sparse_bsr:
        values = tensor.values()
    elif tensor.layout == torch.sparse_csr:
        values = tensor.values().reshape(-1, 1, 1)
    else:
        raise _format_error(name, f"a tensor of layout {tensor.layout}", "use to_sparse_bsr() or to_sparse_csr()")
    indptr, indices = tensor.crow_indices().contiguous(), tensor.col_indices().contiguous()
    if values.dim() != 3 or values.shape[1] != values.shape[2]:
        raise _format_error(name, f"values of shape {tuple(values.shape)}", "use square blocks, and no batches")
    data = _elements(values.contiguous(), name, torch)
    return Arrays(indptr.data_ptr(), indices.data_ptr(), data.data_ptr(), 8 * indptr.element_size(), indices.numel(),
                  values.shape[1], (tensor.shape[0], tensor.shape[1]), (indptr, indices, data))


def _of_cupy(matrix: Any, name: str, cupy: Any) -> Arrays:
    csr = matrix.tocsr()
    data = _elements(csr.data, name, cupy)
    return Arrays(csr.indptr.data.ptr, csr.indices.data.ptr, data.data.ptr, 8 * csr.indptr.dtype.itemsize,
                  int(csr.indices.size), 1, tuple(csr.shape), (csr, data))


def _interface(array: Any, name: str) -> Dict[str, Any]:
    """Errors: FormatError if it is no contiguous array in device memory."""
    described: Optional[Dict[str, Any]] = getattr(array, "__cuda_array_interface__", None)
    if described is None:
        raise _format_error(name, f"{type(array).__name__} is no array in device memory", "pass all three on the device")
    strides = described.get("strides")
    if strides is not None:
        item, expected = int(described["typestr"][2:]), []
        for length in reversed(described["shape"]):
            expected.append(item)
            item *= length
        if tuple(strides) != tuple(reversed(expected)) and 0 not in described["shape"]:
            raise _format_error(name, "the array is not contiguous", "copy it")
    return described


def _of_tuple(matrix: Tuple[Any, ...], name: str) -> Arrays:
    parts = ("indptr", "indices", "data")
    indptr, indices, data = (_interface(array, f"{name}, {part}") for array, part in zip(matrix, parts))
    bits = {"<i4": 32, "<i8": 64}.get(indptr["typestr"])
    if bits is None or indices["typestr"] != indptr["typestr"]:
        raise _format_error(f"{name}, indptr and indices", f"of {indptr['typestr']} and {indices['typestr']}",
                            "pass both as int32 or both as int64")
    if data["typestr"] != "<u2":
        raise _format_error(f"{name}, data", f"of {data['typestr']}", "pass uint16")
    shape = data["shape"]
    side = 1 if len(shape) == 1 else shape[-1]
    if len(shape) not in (1, 3) or (len(shape) == 3 and shape[1] != shape[2]):
        raise _format_error(f"{name}, data", f"of shape {tuple(shape)}", "pass (blocks, m, m), or (elements) of a CSR matrix")
    rows = (indptr["shape"][0] - 1) * side
    whole = matrix[3] if len(matrix) == 4 and matrix[3] is not None else (rows, rows)
    if whole[0] != rows or shape[0] != indices["shape"][0]:
        raise _format_error(name, "the lengths of the arrays do not agree", "pass indptr [rows / m + 1], indices [blocks]")
    return Arrays(indptr["data"][0], indices["data"][0], data["data"][0], bits, indices["shape"][0], side,
                  (int(whole[0]), int(whole[1])), matrix)


class Memory:
    """Device memory of PyTorch or CuPy for a result: what the library asks for, by its address."""

    def __init__(self, make: Callable[[int], Tuple[Any, int]]) -> None:
        self._make = make
        self._held: Dict[int, Any] = {}
        self._raised: List[BaseException] = []
        self.callback = _library.AllocateFn(self._allocate)

    def _allocate(self, _context: Any, num_bytes: int, _alignment: int, _stream: Any) -> Optional[int]:
        try:
            owner, address = self._make(num_bytes)
        except BaseException as error:  # the library hears of no memory, the caller of this
            self._raised.append(error)
            return None
        self._held[address] = owner
        return address

    def close(self) -> None:
        """Ends the ring of this and its callback, so that what they hold goes at once."""
        del self.callback, self._make

    def take(self) -> Tuple[Dict[int, Any], List[BaseException]]:
        """What is held, and what was raised."""
        taken = self._held, self._raised
        self._held, self._raised = {}, []
        return taken


class DeviceResult(NamedTuple):
    """A result of arrays that belong to neither PyTorch nor CuPy: the library's memory, with __cuda_array_interface__.

    indptr [rows / m + 1], indices [blocks], data [blocks, m, m] of uint32.
    """

    indptr: Any
    indices: Any
    data: Any
    shape: Tuple[int, int]
    saturated_elements: int


class _Part:
    """An array of a result; the handle goes with the last part."""

    def __init__(self, handle: _library.Handle, address: int, shape: Tuple[int, ...], typestr: str) -> None:
        self._handle = handle
        self.__cuda_array_interface__ = {"shape": shape, "typestr": typestr, "data": (address or 0, False), "version": 3}


def _addresses(handle: _library.Handle) -> Tuple[int, int, int, int]:
    library = _library.library()
    parts = [getattr(library, f"spmm_device_matrix_{part}")(handle.pointer) or 0 for part in ("indptr", "indices", "data")]
    return (library.spmm_device_matrix_num_blocks(handle.pointer), *parts)


class Call:
    """One product on the device: operands, stream, memory, and the result in the caller's library."""

    def __init__(self, a: Any, b: Any) -> None:
        self._torch, self._cupy = _torch_of(a), None
        self.device: Optional[int] = None
        if (self._torch is None) != (_torch_of(b) is None) or _is_cupy(a) != _is_cupy(b) or not is_on_device(b):
            raise _format_error("matrix B", "is of another library than matrix A, or on the host", "pass both alike")
        self._memory: Optional[Memory] = None
        stream = 0
        if self._torch is not None:
            torch = self._torch
            self.device = a.device.index
            stream = torch.cuda.current_stream(a.device).cuda_stream
            self.a, self.b = _of_torch(a, "matrix A", torch), _of_torch(b, "matrix B", torch)
            self._memory = Memory(self._make_torch)
        elif _is_cupy(a):
            import cupy
            self._cupy = cupy
            self.device = a.data.device.id
            stream = cupy.cuda.get_current_stream().ptr
            self.a, self.b = _of_cupy(a, "matrix A", cupy), _of_cupy(b, "matrix B", cupy)
            self._memory = Memory(self._make_cupy)
        else:
            self.a, self.b = _of_tuple(a, "matrix A"), _of_tuple(b, "matrix B")
            stream = int(a[2].__cuda_array_interface__.get("stream") or 0)
        allocate = self._memory.callback if self._memory is not None else _library.AllocateFn()
        self.struct = _library.DeviceCallStruct(stream=stream, allocate=allocate)

    def _make_torch(self, num_bytes: int) -> Tuple[Any, int]:
        made = self._torch.empty(num_bytes, dtype=self._torch.uint8, device=f"cuda:{self.device}")
        return made, made.data_ptr()

    def _make_cupy(self, num_bytes: int) -> Tuple[Any, int]:
        assert self._cupy is not None
        made = self._cupy.empty(num_bytes, dtype=self._cupy.uint8)
        return made, made.data.ptr

    def check(self, status: int) -> None:
        """Errors: what the caller's allocator raised, else the class of the status."""
        if status == 0:
            return
        raised = self._memory.take()[1] if self._memory is not None else []
        if raised:
            raise raised[0]
        _library.check(status)

    def close(self) -> None:
        if self._memory is not None:
            self._memory.close()

    def result(self, handle: _library.Handle) -> Any:
        """The result as the caller's library has such matrices."""
        num_blocks, *addresses = _addresses(handle)
        num_saturated = _library.library().spmm_device_matrix_num_saturated(handle.pointer)
        shape = (self.a.shape[0], self.b.shape[1])
        side = self.a.side
        if self._memory is None:
            kind = f"<i{self.a.index_bits // 8}"
            shapes = [(shape[0] // side + 1,), (num_blocks,), (num_blocks, side, side)]
            parts = [_Part(handle, at, one, how) for at, one, how in zip(addresses, shapes, (kind, kind, "<u4"))]
            return DeviceResult(*parts, shape=shape, saturated_elements=num_saturated)
        owners = self._memory.take()[0]
        held = [owners.get(address) for address in addresses]
        made = self._make_torch_matrix(held, shape, side) if self._torch is not None else self._make_cupy_matrix(held, shape)
        made.saturated_elements = num_saturated
        return made

    def _make_torch_matrix(self, held: List[Any], shape: Tuple[int, int], side: int) -> Any:
        torch = self._torch
        index = torch.int64 if self.a.index_bits == 64 else torch.int32
        empty = torch.empty(0, dtype=torch.uint8, device=f"cuda:{self.device}")
        indptr, indices = (empty if part is None else part for part in held[:2])
        data = (empty if held[2] is None else held[2]).view(torch.int32).to(torch.int64) & 0xFFFFFFFF
        indptr, indices = indptr.view(index), indices.view(index)
        if side == 1:
            return torch.sparse_csr_tensor(indptr, indices, data, shape)
        return torch.sparse_bsr_tensor(indptr, indices, data.view(-1, side, side), shape)

    def _make_cupy_matrix(self, held: List[Any], shape: Tuple[int, int]) -> Any:
        from cupyx.scipy import sparse  # type: ignore[import-not-found]
        cupy = self._cupy
        assert cupy is not None
        index = cupy.int64 if self.a.index_bits == 64 else cupy.int32
        empty = cupy.empty(0, dtype=cupy.uint8)
        indptr, indices = ((empty if part is None else part).view(index) for part in held[:2])
        data = (empty if held[2] is None else held[2]).view(cupy.uint32).astype(cupy.float64)
        return sparse.csr_matrix((data, indices, indptr), shape=shape)
