"""Matrices in device memory: tensors of PyTorch, matrices of CuPy, and arrays with __cuda_array_interface__."""

from __future__ import annotations

import ctypes
import itertools
import math
import sys
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from . import _dlpack, _library
from ._errors import ArgumentError, Error, FormatError
from ._elements import BY_CODE, KINDS, Kind, OPERAND, RANGE, SATURATING, bad_elements, kind_of, type_name
from ._onto import Onto


class Arrays(NamedTuple):
    """Block-CSR arrays on one device, of `count` matrices of one size one behind another; keep holds what owns them."""

    indptr: int
    indices: int
    data: int
    index_bits: int
    num_blocks: int
    side: int
    shape: Tuple[int, int]
    keep: Any
    kind: Kind
    count: int

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


def lengths_error(name: str) -> Error:
    return FormatError(name, "the lengths of the arrays do not agree", "pass indptr [rows / m + 1], indices [blocks]")


class Parts(NamedTuple):
    """Arrays of a matrix, or of a batch, as their library has them."""

    indptr: Any
    indices: Any
    values: Any
    bits: int  # of an index
    side: int
    shape: Tuple[int, int]  # of each matrix
    type: str  # of an element


class Torch:
    """Tensors of PyTorch on the device of the first one."""

    def __init__(self, first: Any) -> None:
        self.xp, self.device = torch_of(first), int(first.device.index)
        self.first_stream = self.stream()

    def stream(self) -> int:
        """The current one."""
        return int(self.xp.cuda.current_stream(self.device).cuda_stream)

    def has(self, matrix: Any) -> bool:
        return torch_of(matrix) is not None and is_on_device(matrix)

    def parts(self, tensor: Any, name: str, num_batches: int) -> Parts:
        """Errors: FormatError."""
        indptr, indices, values = parts_of_torch(tensor, name, self.xp, num_batches)
        return Parts(indptr, indices, values, 8 * indptr.element_size(), values.shape[-1], tuple(tensor.shape[num_batches:]),
                     type_name(values))

    def address(self, tensor: Any) -> int:
        return int(tensor.data_ptr())

    def place(self, values: Any) -> Optional[Tuple[int, int, int]]:
        """Address, number of elements and bytes of one; None if they are not contiguous on the device."""
        if not values.is_cuda or values.device.index != self.device or not values.is_contiguous():
            return None
        return values.data_ptr(), values.numel(), values.element_size()

    def empty(self, shape: Any, dtype: str) -> Any:
        return self.xp.empty(shape, dtype=getattr(self.xp, dtype), device=f"cuda:{self.device}")

    def make(self, num_bytes: int, stream: int) -> Tuple[Any, int]:
        """Memory for the library, which uses it on a stream, and its address."""
        of_library = None if stream == self.first_stream else self.xp.cuda.ExternalStream(stream, device=f"cuda:{self.device}")
        with self.xp.cuda.stream(of_library):
            made = self.empty(num_bytes, "uint8")
        return made, made.data_ptr()

    def widened(self, values: Any) -> Any:
        """A tensor of int32 with the bits of uint32 as int64, in one pass: results of many products are large."""
        return values & self.xp.full((1,), 0xFFFFFFFF, dtype=self.xp.int64, device=values.device)

    def matrix(self, indptr: Any, indices: Any, data: Any, shape: Tuple[int, int]) -> Any:
        return (self.xp.sparse_csr_tensor if data.dim() == 1 else self.xp.sparse_bsr_tensor)(indptr, indices, data, shape)

    def bytes_of(self, array: Any) -> Any:
        """A copy on the host."""
        return array.cpu().numpy()


class Cupy:
    """Matrices of CuPy, which have no blocks."""

    def __init__(self, first: Any) -> None:
        import cupy
        self.xp, self.device = cupy, int(first.data.device.id)
        self.first_stream = self.stream()

    def stream(self) -> int:
        return int(self.xp.cuda.get_current_stream().ptr)

    def has(self, matrix: Any) -> bool:
        return _is_cupy(matrix)

    def parts(self, matrix: Any, name: str, num_batches: int) -> Parts:
        """Errors: FormatError."""
        if num_batches:
            raise FormatError(name, "is one matrix", "give pairs, or tuples of arrays")
        csr = matrix.tocsr()
        return Parts(csr.indptr, csr.indices, csr.data, 8 * csr.indptr.dtype.itemsize, 1, tuple(csr.shape), type_name(csr.data))

    def address(self, array: Any) -> int:
        return int(array.data.ptr)

    def place(self, values: Any) -> Optional[Tuple[int, int, int]]:
        """As of Torch; errors: FormatError."""
        described = _dlpack.describe(values, "values")
        return described.address, math.prod(described.shape), int(described.typestr[2:])

    def empty(self, shape: Any, dtype: str) -> Any:
        return self.xp.empty(shape, dtype=dtype)

    def make(self, num_bytes: int, stream: int) -> Tuple[Any, int]:
        if stream == self.first_stream:
            made = self.empty(num_bytes, "uint8")
        else:
            with self.xp.cuda.ExternalStream(stream, self.device):
                made = self.empty(num_bytes, "uint8")
        return made, made.data.ptr

    def widened(self, values: Any) -> Any:
        return values.view(self.xp.uint32).astype(self.xp.float64)

    def matrix(self, indptr: Any, indices: Any, data: Any, shape: Tuple[int, int]) -> Any:
        from cupyx.scipy import sparse  # type: ignore[import-not-found]
        return sparse.csr_matrix((data, indices, indptr), shape=shape)

    def bytes_of(self, array: Any) -> Any:
        return array.get()


class Others:
    """Arrays of other libraries, which have no memory for results."""

    xp, device = None, None

    def __init__(self, first: Any) -> None:
        self.first_stream = _dlpack.describe(first[2], "matrix A, data").stream

    def has(self, matrix: Any) -> bool:
        return isinstance(matrix, tuple) and is_on_device(matrix)

    def parts(self, matrix: Tuple[Any, ...], name: str, num_batches: int) -> Parts:
        """shape: the fourth entry, else a square. Errors: FormatError."""
        parts = ("indptr", "indices", "data")
        indptr, indices, data = (_dlpack.describe(array, f"{name}, {part}") for array, part in zip(matrix, parts))
        bits = {"<i4": 32, "<i8": 64}.get(indptr.typestr)
        if bits is None or indices.typestr != indptr.typestr:
            raise FormatError(f"{name}, indptr and indices", f"of {indptr.typestr} and {indices.typestr}",
                              "pass both as int32 or both as int64")
        kind = BY_CODE.get(data.typestr.replace("|", "<"))
        if kind is None:
            raise FormatError(f"{name}, data", f"of {data.typestr}", f"pass {', '.join(KINDS)}")
        block = data.shape[num_batches:]
        if len(block) not in (1, 3) or (len(block) == 3 and not 0 < block[1] == block[2]):
            before = "products, " * num_batches
            raise FormatError(f"{name}, data", f"of shape {data.shape}",
                              f"pass ({before}blocks, m, m), or ({before}elements) of CSR matrices")
        side = 1 if len(block) == 1 else block[-1]
        rows = (indptr.shape[-1] - 1) * side if indptr.shape else 0
        shape = matrix[3] if len(matrix) == 4 and matrix[3] is not None else (rows, rows)
        if (not len(indptr.shape) == len(indices.shape) == 1 + num_batches or data.shape[:1 + num_batches] != indices.shape
                or indptr.shape[:num_batches] != indices.shape[:num_batches] or len(shape) != 2 or shape[0] != rows):
            raise lengths_error(name)
        return Parts(indptr, indices, data, bits, side, (int(shape[0]), int(shape[1])), kind.name)

    def address(self, array: _dlpack.Described) -> int:
        return array.address


def _addresses_of_elements(parts: List[Parts], names: List[str], library: Any, kind: Kind) -> Tuple[List[int], Any]:
    """Where the elements of each matrix lie as the kind has them, and what keeps them. Those of one other type are checked
    and converted to 16 bits together. Errors: FormatError."""
    values, xp = [part.values for part in parts], library.xp
    if xp is None:  # nothing is converted
        for part, name in zip(parts, names):
            if part.type != kind.name:
                raise FormatError(f"{name}, data", f"of {part.type}", f"pass {kind.name}, or leave dtype out")
        return [x.address for x in values], values
    if kind is not SATURATING or parts[0].type == OPERAND.name or len({x.dtype for x in values}) > 1 or values[0].ndim == 4:
        kept = [elements(x, name, xp, kind) for x, name in zip(values, names)]
        return [library.address(x) for x in kept], kept
    flat = [x.reshape(-1) for x in values]
    try:
        whole = elements((xp.cat if xp.__name__ == "torch" else xp.concatenate)(flat), "the matrices", xp)
    except FormatError:
        for x, name in zip(values, names):
            elements(x, name, xp)  # raises for the first one that is wrong
        raise
    before = itertools.accumulate([0] + [2 * x.shape[0] for x in flat[:-1]])
    return [library.address(whole) + offset for offset in before], whole


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
        self.library: Any = Torch(first) if torch_of(first) is not None else Cupy(first) if _is_cupy(first) else Others(first)
        self._memory = None if self.library.xp is None else Memory(self.library.make, serves_workspace)
        memory = {} if self._memory is None else {"allocate": self._memory.allocate, "release": self._memory.release,
                                                  "serves_workspace": serves_workspace}
        self.struct = _library.DeviceCallStruct(stream=self.library.first_stream, **memory)

    def _parts(self, matrices: List[Any], names: List[str], num_batches: int = 0) -> List[Parts]:
        """Errors: FormatError."""
        for matrix, name in zip(matrices, names):
            if not self.library.has(matrix):
                raise FormatError(name, "is of another library than the first one, or on the host", "pass all alike")
        return [self.library.parts(matrix, name, num_batches) for matrix, name in zip(matrices, names)]

    def _arrays(self, part: Parts, data: int, keep: Any, kind: Kind) -> Arrays:
        count = 1 if len(part.indices.shape) == 1 else part.indices.shape[0]
        return Arrays(self.library.address(part.indptr), self.library.address(part.indices), data, part.bits,
                      part.indices.shape[-1], part.side, part.shape, keep, kind, count)

    def arrays_of(self, matrices: List[Any], names: List[str], dtype: Any = None, num_batches: int = 0) -> List[Arrays]:
        """dtype: of the result. num_batches: 1 of batches. Errors: FormatError, ArgumentError, UsageError."""
        parts = self._parts(matrices, names, num_batches)
        self.kind = kind_of([part.type for part in parts], dtype)
        addresses, kept = _addresses_of_elements(parts, names, self.library, self.kind)
        return [self._arrays(part, address, (part, kept), self.kind) for part, address in zip(parts, addresses)]

    def add(self, onto: Onto) -> None:
        """After arrays_of(). Errors: FormatError, ArgumentError, UsageError."""
        given = None
        if onto.matrix is not None:
            part, = self._parts([onto.matrix], ["matrix C"])
            if onto.reads_c and part.type != self.kind.result:
                raise ArgumentError("matrix C", f"has elements of {part.type}", f"pass {self.kind.result}")
            given = self._arrays(part, self.library.address(part.values) if onto.reads_c else 0, part, self.result)
        onto.give(self.struct, given and given.struct, self.kind)
        self._onto = onto, given

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
        types = (f"int{index_bits}", f"int{index_bits}", self._values_type())
        found = [(self.library.empty(0, "uint8") if part is None else part).view(getattr(self.library.xp, name))
                 for part, name in zip(held, types)]
        return Shared(found[0], found[1], self.widened(found[2].reshape(-1, side, side)), self.library.matrix)

    def pattern(self, pattern: Any, indptr: Tuple[int, int], index_bits: int, side: int) -> Shared:
        """The index arrays of a plan; its data are empty."""
        borrowed = _library.Handle("spmm_device_plan_destroy")
        borrowed.pointer = pattern
        try:
            return self.shared(borrowed, indptr, index_bits, side)
        finally:
            borrowed.pointer = ctypes.c_void_p()  # the plan's

    def address(self, values: Any, shape: Tuple[int, int, int], item: int) -> int:
        """Of an array on the plan's device that is contiguous, and as long and wide as that. Errors: FormatError."""
        count = math.prod(shape)
        place = self.library.place(values)
        if place is None or place[1:] != (count, item):
            raise FormatError("values", f"are no {count} contiguous elements of {8 * item} bits on the plan's device",
                              f"pass an array of shape {tuple(shape)}")
        return int(place[0])

    @property
    def result(self) -> Kind:
        """Type of the results' elements."""
        return KINDS[self.kind.result]

    def elements(self, values: Tuple[Any, Any], shapes: Tuple[Any, ...]) -> List[int]:
        """Where values lie as the plan's kind has them; whole numbers are checked and converted for uint32. Errors:
        FormatError, ArgumentError."""
        self._kept = [elements(x, f"values of matrix {name}", self.library.xp, self.kind) for x, name in zip(values, "AB")]
        return [self.address(x, shape, self.kind.item) for x, shape in zip(self._kept, shapes)]

    def _values_type(self) -> str:
        """Of results in memory: of uint32 the bits."""
        return "int32" if self.kind is SATURATING else self.kind.result

    def make_values(self, num_blocks: int, side: int) -> Any:
        """Memory for a result."""
        return self.library.empty((num_blocks, side, side), self._values_type())

    def widened(self, values: Any) -> Any:
        """The values of a result [blocks, m, m] as its matrix has them."""
        wide = self.library.widened(values) if self.kind is SATURATING else values
        return wide.reshape(-1) if values.shape[1] == 1 else wide

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
