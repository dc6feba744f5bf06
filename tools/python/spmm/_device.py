"""Matrices in device memory: tensors of PyTorch, matrices of CuPy, and arrays with __cuda_array_interface__."""

from __future__ import annotations

import ctypes
import itertools
import sys
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from . import _dlpack, _library
from ._errors import ArgumentError, Error, FormatError
from ._elements import BY_CODE, KINDS, Kind, OPERAND, RANGE, SATURATING, bad_elements, kind_of, type_name
from ._onto import Onto


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
    kind: Kind = SATURATING

    @property
    def struct(self) -> _library.DeviceBsrStruct:
        return _library.DeviceBsrStruct(rows=self.shape[0], cols=self.shape[1], indptr=self.indptr, indices=self.indices,
                                        data=self.data, num_blocks=self.num_blocks, block_side=self.side,
                                        index_bits=self.index_bits, element_type=self.kind.number)


def torch_of(matrix: Any) -> Any:
    torch = sys.modules.get("torch")
    return torch if torch is not None and isinstance(matrix, torch.Tensor) else None


def _is_cupy(matrix: Any) -> bool:
    return type(matrix).__module__.split(".")[0] in ("cupy", "cupyx") and hasattr(matrix, "tocsr")


def is_on_device(matrix: Any) -> bool:
    """Whether a matrix is one that lies in device memory."""
    if torch_of(matrix) is not None:
        return bool(matrix.is_cuda)
    if isinstance(matrix, tuple):
        return len(matrix) in (3, 4) and _dlpack.is_on_device(matrix[2])
    return _is_cupy(matrix)


def number_of(matrix: Any) -> Optional[int]:
    """Number of the device that holds a matrix; None: the first one (of an array only the driver knows it)."""
    if torch_of(matrix) is not None:
        return int(matrix.device.index)
    if _is_cupy(matrix):
        return int(matrix.data.device.id)
    return None


def _are_in_range(values: Any, dtype: str, library: Any) -> bool:
    """Whether all are integers of 16 bits, as far as one pass of PyTorch tells: masks take four. False: look at each."""
    if library.__name__ != "torch" or dtype.startswith(("float", "bfloat")) or values.numel() == 0:
        return False
    least, largest = library.stack(values.aminmax()).tolist()
    return 0 <= least and largest <= OPERAND.largest


def elements(values: Any, name: str, library: Any, kind: Kind = SATURATING) -> Any:
    """Elements as the kind has them, contiguous. Errors: FormatError if one is no whole number from 0 to 65535, where these
    are asked for; ArgumentError (another type)."""
    dtype = type_name(values)
    if kind is not SATURATING and dtype != kind.name:
        if (dtype, kind.name) != (OPERAND.name, "int32"):
            raise ArgumentError(name, f"has elements of {dtype}", f"pass {kind.name}")
        values = values.to(getattr(library, kind.name)) if library.__name__ == "torch" else values.astype(kind.name)
        dtype = kind.name
    if dtype == kind.name:
        return values if library.__name__ == "torch" else library.ascontiguousarray(values)
    if dtype == "bool" or dtype.startswith("complex"):
        raise FormatError(name, f"elements of {dtype}", "pass whole numbers")
    if not _are_in_range(values, dtype, library):
        _check_each(values, name, library)
    if dtype == "int16" and library.__name__ == "torch":
        return values.contiguous()
    if library.__name__ == "torch":  # int16 has the bits
        return values.to(library.int32).to(library.int16).contiguous()
    return library.ascontiguousarray(values.astype(library.uint16))


def _check_each(values: Any, name: str, library: Any) -> None:
    """Errors: FormatError."""
    is_bad = bad_elements(values, library)
    if is_bad is not None and bool(is_bad.any()):
        if values.ndim == 4:  # a batch
            name += f", product {int(is_bad.flatten(1).any(1).nonzero()[0])}"
        raise FormatError(name, f"an element is no {RANGE}", "scale or round the matrix before")


def parts_of_torch(tensor: Any, name: str, torch: Any, num_batches: int = 0) -> Tuple[Any, Any, Any]:
    """indptr, indices, and values [blocks, m, m], each with num_batches dimensions before these. Errors: FormatError."""
    if tensor.layout == torch.sparse_bsr:
        values = tensor.values()
    elif tensor.layout == torch.sparse_csr:
        values = tensor.values()[..., None, None]
    else:
        raise FormatError(name, f"a tensor of layout {tensor.layout}", "use to_sparse_bsr() or to_sparse_csr()")
    if values.dim() != 3 + num_batches or values.shape[-1] != values.shape[-2]:
        raise FormatError(name, f"values of shape {tuple(values.shape)}", "use square blocks, and "
                          + ("one batch dimension" if num_batches else "no batches, which multiply_many(a, b) takes"))
    return tensor.crow_indices().contiguous(), tensor.col_indices().contiguous(), values.contiguous()


def _addresses_of_elements(values: List[Any], names: List[str], library: Any, kind: Kind) -> Tuple[List[int], Any]:
    """Where the elements of each matrix lie as the kind has them, and what keeps them. Those of one other type are checked
    and converted to 16 bits together. Errors: FormatError."""
    is_torch = library.__name__ == "torch"
    types = {str(x.dtype) for x in values}
    if kind is not SATURATING or len(types) > 1 or types.pop().endswith("uint16"):
        kept = [elements(x, name, library, kind) for x, name in zip(values, names)]
        return [x.data_ptr() if is_torch else x.data.ptr for x in kept], kept
    flat = [x.reshape(-1) for x in values]
    try:
        whole = elements((library.cat if is_torch else library.concatenate)(flat), "the matrices", library)
    except FormatError:
        for x, name in zip(values, names):
            elements(x, name, library)  # raises for the first one that is wrong
        raise
    first = whole.data_ptr() if is_torch else whole.data.ptr
    before = itertools.accumulate([0] + [2 * x.shape[0] for x in flat[:-1]])
    return [first + offset for offset in before], whole


class Parts(NamedTuple):
    """Arrays of a tuple."""

    indptr: _dlpack.Described
    indices: _dlpack.Described
    data: _dlpack.Described
    bits: int
    side: int
    kind: Kind


def parts_of_tuple(matrix: Tuple[Any, ...], name: str, num_batches: int = 0) -> Parts:
    """num_batches: dimensions before those of a matrix. Errors: FormatError."""
    parts = ("indptr", "indices", "data")
    indptr, indices, data = (_dlpack.describe(array, f"{name}, {part}") for array, part in zip(matrix, parts))
    bits = {"<i4": 32, "<i8": 64}.get(indptr.typestr)
    if bits is None or indices.typestr != indptr.typestr:
        raise FormatError(f"{name}, indptr and indices", f"of {indptr.typestr} and {indices.typestr}",
                          "pass both as int32 or both as int64")
    kind = BY_CODE.get(data.typestr.replace("|", "<"))
    if kind is None:
        raise FormatError(f"{name}, data", f"of {data.typestr}", f"pass {', '.join(KINDS)}")
    shape = data.shape[num_batches:]
    if len(shape) not in (1, 3) or (len(shape) == 3 and not 0 < shape[1] == shape[2]):
        before = "products, " * num_batches
        raise FormatError(f"{name}, data", f"of shape {data.shape}",
                          f"pass ({before}blocks, m, m), or ({before}elements) of CSR matrices")
    if not len(indptr.shape) == len(indices.shape) == 1 + num_batches or data.shape[:1 + num_batches] != indices.shape:
        raise lengths_error(name)
    return Parts(indptr, indices, data, bits, 1 if len(shape) == 1 else shape[-1], kind)


def lengths_error(name: str) -> Error:
    return FormatError(name, "the lengths of the arrays do not agree", "pass indptr [rows / m + 1], indices [blocks]")


def shape_of(matrix: Tuple[Any, ...], parts: Parts, name: str) -> Tuple[int, int]:
    """Of each matrix of a tuple: the fourth entry, else a square. Errors: FormatError."""
    rows = (parts.indptr.shape[-1] - 1) * parts.side
    whole = matrix[3] if len(matrix) == 4 and matrix[3] is not None else (rows, rows)
    if len(whole) != 2 or whole[0] != rows:
        raise lengths_error(name)
    return int(whole[0]), int(whole[1])


def _of_tuple(matrix: Tuple[Any, ...], name: str) -> Arrays:
    parts = parts_of_tuple(matrix, name)
    return Arrays(parts.indptr.address, parts.indices.address, parts.data.address, parts.bits, parts.indices.shape[0],
                  parts.side, shape_of(matrix, parts, name), parts[:3], parts.kind)


class Memory:
    """Device memory of PyTorch or CuPy: what the library asks for, by its address. make(bytes, stream) gives the owner and
    the address. serves_workspace: for more than results; the library gives all of it back."""

    def __init__(self, make: Callable[[int, int], Tuple[Any, int]], serves_workspace: bool) -> None:
        self._make = make
        self._held: Dict[int, Any] = {}
        self._raised: List[BaseException] = []
        self.serves_workspace = serves_workspace
        self.allocate = _library.AllocateFn(self._allocate)
        self.release = _library.ReleaseFn(self._release) if serves_workspace else _library.ReleaseFn()

    def _allocate(self, _context: Any, num_bytes: int, _alignment: int, stream: Optional[int]) -> Optional[int]:
        try:
            owner, address = self._make(num_bytes, stream or 0)
        except BaseException as error:  # the library hears of no memory, the caller of this
            self._raised.append(error)
            return None
        self._held[address] = owner
        return address

    def _release(self, _context: Any, address: int, _stream: Optional[int]) -> None:
        self._held.pop(address, None)  # a result's are taken

    def close(self) -> None:
        """Ends the ring of this and its callbacks, so that what they hold goes at once."""
        del self.allocate, self.release, self._make

    def take(self, address: int) -> Any:
        """The owner of an address, which is held no longer; None: there is none."""
        return self._held.pop(address, None)

    def failed(self) -> List[BaseException]:
        """What was raised. Results are held no longer; the library gives workspace back, or a plan has it."""
        if not self.serves_workspace:
            self._held = {}
        raised, self._raised = self._raised, []
        return raised


class DeviceResult(NamedTuple):
    """A result of arrays that belong to neither PyTorch nor CuPy: each a DeviceArray in the library's memory.

    indptr [rows / m + 1], indices [blocks], data [blocks, m, m]. saturated_elements: those that are 2**32 - 1;
    None for one of many products, whose sum DeviceProducts has.
    """

    indptr: Any
    indices: Any
    data: Any
    shape: Tuple[int, int]
    saturated_elements: Optional[int]


class Shared(NamedTuple):
    """Arrays of a result in the caller's library, which can be sliced, and what makes a matrix of them."""

    indptr: Any
    indices: Any
    data: Any
    matrix: Callable[[Any, Any, Any, Tuple[int, int]], Any]


class Call:
    """A call of the library on a device: stream, memory, and results in the library of the first matrix."""

    def __init__(self, first: Any, serves_workspace: bool = False) -> None:
        self.kind = SATURATING
        self._torch, self._cupy = torch_of(first), None
        self._is_cupy = _is_cupy(first)
        self.device: Optional[int] = None
        self._memory: Optional[Memory] = None
        if self._torch is not None:
            self.device = first.device.index
            stream = self._torch.cuda.current_stream(first.device).cuda_stream
            self._memory = Memory(self._make_torch, serves_workspace)
        elif self._is_cupy:
            import cupy
            self._cupy = cupy
            self.device = first.data.device.id
            stream = cupy.cuda.get_current_stream().ptr
            self._memory = Memory(self._make_cupy, serves_workspace)
        else:
            stream = _dlpack.describe(first[2], "matrix A, data").stream
        self._stream = stream
        memory = {} if self._memory is None else {"allocate": self._memory.allocate, "release": self._memory.release,
                                                  "serves_workspace": serves_workspace}
        self.struct = _library.DeviceCallStruct(stream=stream, **memory)

    def is_alike(self, matrix: Any) -> bool:
        """Whether a matrix lies on a device, and belongs to the same library."""
        return (is_on_device(matrix) and (self._torch is None) == (torch_of(matrix) is None)
                and self._is_cupy == _is_cupy(matrix))

    def check_alike(self, matrices: List[Any], names: List[str]) -> None:
        """Errors: FormatError."""
        for matrix, name in zip(matrices, names):
            if not self.is_alike(matrix):
                raise FormatError(name, "is of another library than the first one, or on the host", "pass all alike")

    def arrays_of(self, matrices: List[Any], names: List[str], dtype: Any = None) -> List[Arrays]:
        """dtype: of the result. Errors: FormatError, ArgumentError, UsageError."""
        self.check_alike(matrices, names)
        if self._torch is not None:
            parts = [parts_of_torch(matrix, name, self._torch) for matrix, name in zip(matrices, names)]
            self.kind = kind_of([type_name(part[2]) for part in parts], dtype)
            addresses, kept = _addresses_of_elements([part[2] for part in parts], names, self._torch, self.kind)
            return [Arrays(indptr.data_ptr(), indices.data_ptr(), address, 8 * indptr.element_size(), indices.numel(),
                           values.shape[1], (matrix.shape[0], matrix.shape[1]), (indptr, indices, kept), self.kind)
                    for matrix, (indptr, indices, values), address in zip(matrices, parts, addresses)]
        if self._is_cupy:
            rows = [matrix.tocsr() for matrix in matrices]
            self.kind = kind_of([type_name(csr.data) for csr in rows], dtype)
            addresses, kept = _addresses_of_elements([csr.data for csr in rows], names, self._cupy, self.kind)
            return [Arrays(csr.indptr.data.ptr, csr.indices.data.ptr, address, 8 * csr.indptr.dtype.itemsize,
                           int(csr.indices.size), 1, tuple(csr.shape), (csr, kept), self.kind) for csr, address in zip(rows, addresses)]
        arrays = [_of_tuple(matrix, name) for matrix, name in zip(matrices, names)]
        self.kind = self.kind_of_tuples([one.kind for one in arrays], names, dtype)
        return arrays

    @staticmethod
    def kind_of_tuples(kinds: List[Kind], names: List[str], dtype: Any) -> Kind:
        """Of arrays that are not converted. Errors: as kind_of()."""
        wanted = kind_of([kind.name for kind in kinds], dtype)
        for kind, name in zip(kinds, names):
            if kind is not wanted:
                raise FormatError(f"{name}, data", f"of {kind.name}", f"pass {wanted.name}, or leave dtype out")
        return wanted

    def add(self, onto: Onto) -> None:
        """After arrays_of(). Errors: FormatError, ArgumentError, UsageError."""
        self._given = None if onto.matrix is None else self._result_arrays(onto)
        onto.give(self.struct, self._given and self._given.struct, self.kind)
        self._onto = onto

    def _result_arrays(self, onto: Onto) -> Arrays:
        """C as the library reads it. Errors: FormatError, ArgumentError."""
        matrix, name = onto.matrix, "matrix C"
        self.check_alike([matrix], [name])
        if self._torch is not None:
            indptr, indices, values = parts_of_torch(matrix, name, self._torch)
            made = Arrays(indptr.data_ptr(), indices.data_ptr(), values.data_ptr(), 8 * indptr.element_size(), indices.numel(),
                          values.shape[1], (matrix.shape[0], matrix.shape[1]), (indptr, indices, values))
            found = type_name(values)
        elif self._is_cupy:
            csr = matrix.tocsr()
            made = Arrays(csr.indptr.data.ptr, csr.indices.data.ptr, csr.data.data.ptr, 8 * csr.indptr.dtype.itemsize,
                          int(csr.indices.size), 1, tuple(csr.shape), csr)
            found = type_name(csr.data)
        else:
            made = _of_tuple(matrix, name)
            found = made.kind.name
        if onto.reads_c and found != self.kind.result:
            raise ArgumentError(name, f"has elements of {found}", f"pass {self.kind.result}")
        return made._replace(data=made.data if onto.reads_c else 0, kind=self.result)

    def _make_torch(self, num_bytes: int, stream: int) -> Tuple[Any, int]:
        torch, device = self._torch, f"cuda:{self.device}"
        of_library = None if stream == self._stream else torch.cuda.ExternalStream(stream, device=device)
        with torch.cuda.stream(of_library):
            made = torch.empty(num_bytes, dtype=torch.uint8, device=device)
        return made, made.data_ptr()

    def _make_cupy(self, num_bytes: int, stream: int) -> Tuple[Any, int]:
        assert self._cupy is not None
        empty, uint8, cuda = self._cupy.empty, self._cupy.uint8, self._cupy.cuda
        if stream == self._stream:
            made = empty(num_bytes, dtype=uint8)
        else:
            with cuda.ExternalStream(stream, self.device):
                made = empty(num_bytes, dtype=uint8)
        return made, made.data.ptr

    def check(self, status: int) -> None:
        """Errors: what the caller's allocator raised, else the class of the status."""
        if status == 0:
            return
        raised = self._memory.failed() if self._memory is not None else []
        if raised:
            raise raised[0]
        _library.check(status)

    def close(self, handle: _library.Handle) -> None:
        """When all is over; handle: of the result, which must go before the memory that it gives back."""
        if self._memory is not None:
            handle.close()
            self._memory.close()

    def shared(self, handle: _library.Handle, indptr: Tuple[int, int], index_bits: int, side: int) -> Shared:
        """The arrays of a result; indptr: address and length of the one that is wanted."""
        library, pointer = _library.library(), handle.pointer
        num_blocks = library.spmm_device_matrix_num_blocks(pointer)
        indices, data = (getattr(library, f"spmm_device_matrix_{part}")(pointer) or 0 for part in ("indices", "data"))
        if self._memory is None:
            kind = f"<i{index_bits // 8}"
            where = (_dlpack.CUDA, library.spmm_device_matrix_device(pointer))
            described = ((indptr[0], (indptr[1],), kind), (indices, (num_blocks,), kind),
                         (data, (num_blocks, side, side), self.result.code))
            return Shared(*(_dlpack.DeviceArray(handle, *one, where) for one in described),
                          matrix=lambda *parts: DeviceResult(*parts, saturated_elements=None))
        held = [self._memory.take(address) for address in (indptr[0], indices, data)]
        if held[2] is not None:  # it may have room for more
            held[2] = held[2][:num_blocks * side * side * self.result.item]
        return self._of_torch(held, index_bits, side) if self._torch is not None else self._of_cupy(held, index_bits)

    def pattern(self, pattern: Any, indptr: Tuple[int, int], index_bits: int, side: int) -> Shared:
        """The index arrays of a plan; its data are empty."""
        borrowed = _library.Handle("spmm_device_plan_destroy")
        borrowed.pointer = pattern
        try:
            return self.shared(borrowed, indptr, index_bits, side)
        finally:
            borrowed.pointer = ctypes.c_void_p()  # the plan's

    def stream_now(self) -> int:
        """The current stream of the library."""
        if self._torch is not None:
            return int(self._torch.cuda.current_stream(self.device).cuda_stream)
        return int(self.library.cuda.get_current_stream().ptr)

    def address(self, values: Any, shape: Tuple[int, ...], item: int) -> int:
        """Of an array on the plan's device that is contiguous, and as long and wide as that. Errors: FormatError."""
        count = shape[0] * shape[1] * shape[2]
        if self._torch is not None:
            is_good = (values.is_cuda and values.device.index == self.device and values.is_contiguous()
                       and values.numel() == count and values.element_size() == item)
            at = values.data_ptr() if is_good else 0
        else:
            described = _dlpack.describe(values, "values")
            length = 1
            for side in described.shape:
                length *= side
            is_good, at = length == count and int(described.typestr[2:]) == item, described.address
        if not is_good:
            raise FormatError("values", f"are no {count} contiguous elements of {8 * item} bits on the plan's device",
                              f"pass an array of shape {tuple(shape)}")
        return int(at)

    @property
    def library(self) -> Any:
        """PyTorch or CuPy; None for arrays of others."""
        return self._torch if self._torch is not None else self._cupy

    @property
    def result(self) -> Kind:
        """Type of the results' elements."""
        return KINDS[self.kind.result]

    def elements(self, values: Tuple[Any, Any], shapes: Tuple[Any, ...]) -> List[int]:
        """Where values lie as the plan's kind has them; whole numbers are checked and converted for uint32. Errors:
        FormatError, ArgumentError."""
        library = self.library
        self._kept = [elements(x, f"values of matrix {name}", library, self.kind) for x, name in zip(values, "AB")]
        return [self.address(x, shape, self.kind.item) for x, shape in zip(self._kept, shapes)]

    def make_values(self, num_blocks: int, side: int) -> Any:
        """Memory for a result; of uint32 with its bits."""
        library = self.library
        where = {"device": f"cuda:{self.device}"} if self._torch is not None else {}
        dtype = library.int32 if self.kind is SATURATING else getattr(library, self.kind.result)
        return library.empty((num_blocks, side, side), dtype=dtype, **where)

    def widened(self, values: Any) -> Any:
        """The values of a result as its matrix has them."""
        if self.kind is not SATURATING:
            return values.reshape(-1) if values.shape[1] == 1 else values
        if self._torch is not None:
            wide = self._as_unsigned(values)
            return wide.view(-1) if values.shape[1] == 1 else wide
        return values.view(self.library.uint32).astype(self.library.float64).reshape(-1)

    def matrix(self, handle: _library.Handle, a: Arrays, b: Arrays) -> Any:
        """The result of one product as the caller's library has such matrices."""
        shape = (a.shape[0], b.shape[1])
        address = _library.library().spmm_device_matrix_indptr(handle.pointer) or 0
        shared = self.shared(handle, (address, shape[0] // a.side + 1), a.index_bits, a.side)
        made = shared.matrix(shared.indptr, shared.indices, shared.data, shape)
        num_saturated = _library.library().spmm_device_matrix_num_saturated(handle.pointer)
        if isinstance(made, DeviceResult):
            return made._replace(saturated_elements=num_saturated)
        made.saturated_elements = num_saturated
        return made

    def _as_unsigned(self, values: Any) -> Any:
        """A tensor of int32 with the bits of uint32 as int64, in one pass: results of many products are large."""
        return values & self._torch.full((1,), 0xFFFFFFFF, dtype=self._torch.int64, device=values.device)

    def _of_torch(self, held: List[Any], index_bits: int, side: int) -> Shared:
        torch = self._torch
        index = torch.int64 if index_bits == 64 else torch.int32
        empty = torch.empty(0, dtype=torch.uint8, device=f"cuda:{self.device}")
        indptr, indices = ((empty if part is None else part).view(index) for part in held[:2])
        raw = empty if held[2] is None else held[2]
        data = (self._as_unsigned(raw.view(torch.int32)) if self.kind is SATURATING
                else raw.view(getattr(torch, self.kind.result)))
        make = torch.sparse_csr_tensor if side == 1 else torch.sparse_bsr_tensor
        return Shared(indptr, indices, data if side == 1 else data.view(-1, side, side), make)

    def _of_cupy(self, held: List[Any], index_bits: int) -> Shared:
        from cupyx.scipy import sparse  # type: ignore[import-not-found]
        cupy = self._cupy
        assert cupy is not None
        index = cupy.int64 if index_bits == 64 else cupy.int32
        empty = cupy.empty(0, dtype=cupy.uint8)
        indptr, indices = ((empty if part is None else part).view(index) for part in held[:2])
        data = (empty if held[2] is None else held[2]).view(self.kind.result)
        data = data.astype(cupy.float64) if self.kind is SATURATING else data
        return Shared(indptr, indices, data, lambda indptr, indices, data, shape: sparse.csr_matrix(
            (data, indices, indptr), shape=shape))
