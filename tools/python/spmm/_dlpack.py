"""Arrays of other libraries, and results for them, by DLPack and __cuda_array_interface__."""

from __future__ import annotations

import ctypes
from ctypes import c_char_p, c_int32, c_int64, c_uint8, c_uint16, c_uint64, c_void_p, py_object
from typing import Any, Dict, NamedTuple, Optional, Tuple

from . import _library
from ._errors import FormatError

CPU, CUDA = 1, 2  # DLDeviceType
_LEGACY, _VERSIONED = b"dltensor", b"dltensor_versioned"  # names of capsules
_OFFSETS = {_LEGACY: 0, _VERSIONED: 32}  # of the tensor in what they hold
_LEGACY_STREAM = 1  # of CUDA, as both protocols number it

_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, py_object, c_char_p)(("PyCapsule_IsValid", ctypes.pythonapi))
_pointer_of = ctypes.PYFUNCTYPE(c_void_p, py_object, c_char_p)(("PyCapsule_GetPointer", ctypes.pythonapi))
for _name in _OFFSETS:  # a capsule points to its name, and may live longer than this module
    ctypes.pythonapi.Py_IncRef(py_object(_name))
_new_capsule = ctypes.PYFUNCTYPE(py_object, c_void_p, c_char_p, c_void_p)(("PyCapsule_New", ctypes.pythonapi))


class _Tensor(ctypes.Structure):
    """DLTensor."""
    _fields_ = [("data", c_void_p), ("device_type", c_int32), ("device", c_int32), ("ndim", c_int32), ("code", c_uint8),
                ("bits", c_uint8), ("lanes", c_uint16), ("shape", ctypes.POINTER(c_int64)),
                ("strides", ctypes.POINTER(c_int64)), ("byte_offset", c_uint64)]


class Described(NamedTuple):
    """An array in device memory; keep owns it."""

    address: int
    shape: Tuple[int, ...]
    typestr: str  # of NumPy
    stream: int
    keep: Any


def device_of(array: Any) -> Optional[int]:
    """Number of the CUDA device that an array lies on; -1 where only the driver knows; None: on none."""
    if hasattr(array, "__cuda_array_interface__"):
        return -1
    if not hasattr(array, "__dlpack_device__"):
        return None
    kind, number = array.__dlpack_device__()
    return int(number) if int(kind) == CUDA else None


def _require_contiguous(shape: Tuple[int, ...], strides: Optional[Tuple[int, ...]], item: int, name: str) -> None:
    if strides is None or 0 in shape:
        return
    expected = []
    for length in reversed(shape):
        expected.append(item)
        item *= length
    if any(length > 1 and found != wanted for length, found, wanted in zip(shape, strides, reversed(expected))):
        raise FormatError(name, "the array is not contiguous", "copy it")


def describe(array: Any, name: str) -> Described:
    """Errors: FormatError if it is no contiguous array in device memory."""
    if device_of(array) is None:
        raise FormatError(name, f"{type(array).__name__} is no array in device memory", "pass all three on the device")
    interface: Optional[Dict[str, Any]] = getattr(array, "__cuda_array_interface__", None)
    if interface is not None:
        shape, typestr = tuple(interface["shape"]), interface["typestr"]
        _require_contiguous(shape, interface.get("strides"), int(typestr[2:]), name)
        return Described(interface["data"][0] or 0, shape, typestr, int(interface.get("stream") or 0), array)
    try:
        capsule = array.__dlpack__(stream=_LEGACY_STREAM, max_version=(1, 0))
    except TypeError:  # a producer of before version 1
        capsule = array.__dlpack__(stream=_LEGACY_STREAM)
    for held, offset in _OFFSETS.items():
        if _is_valid(capsule, held):
            tensor = _Tensor.from_address(_pointer_of(capsule, held) + offset)
            break
    else:
        raise FormatError(name, "its __dlpack__ gives no tensor", "pass another kind of array")
    kind = {0: "i", 1: "u", 2: "f", 4: "V", 5: "c", 6: "b"}.get(tensor.code, "V")
    shape = tuple(tensor.shape[x] for x in range(tensor.ndim))
    strides = tuple(tensor.strides[x] for x in range(tensor.ndim)) if tensor.strides else None
    _require_contiguous(shape, strides, 1, name)
    address = (tensor.data or 0) + tensor.byte_offset
    return Described(address, shape, f"<{kind}{tensor.bits * tensor.lanes // 8}", 0, (array, capsule))  # it frees itself


class DeviceArray:
    """An array of a result in device memory that belongs to the library, for others by __cuda_array_interface__, or by
    DLPack: jax.dlpack.from_dlpack(array), torch.from_dlpack(array), cupy.from_dlpack(array) copy nothing. The memory
    goes with the last array that was made of it. It is complete: a consumer's stream waits for nothing.

    shape; typestr: as NumPy has it, "<u4" for elements.
    """

    def __init__(self, handle: Optional[_library.Handle], address: int, shape: Tuple[int, ...], typestr: str,
                 device: Tuple[int, int]) -> None:
        self._handle, self._address, self._device = handle, address, device
        self.shape, self.typestr = shape, typestr
        if device[0] == CUDA:
            self.__cuda_array_interface__ = {"shape": shape, "typestr": typestr, "data": (address, False), "version": 3}

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> DeviceArray:
        """A part of the first dimension, [begin:end]."""
        begin, end, step = rows.indices(self.shape[0])
        if step != 1:
            raise IndexError("only array[begin:end] is a part of the same memory")
        row_bytes = int(self.typestr[2:])
        for length in self.shape[1:]:
            row_bytes *= length
        return DeviceArray(self._handle, self._address + begin * row_bytes, (max(end - begin, 0), *self.shape[1:]),
                           self.typestr, self._device)

    def __dlpack_device__(self) -> Tuple[int, int]:
        return self._device

    def __dlpack__(self, *, stream: Any = None, max_version: Optional[Tuple[int, int]] = None,
                   dl_device: Optional[Tuple[int, int]] = None, copy: Optional[bool] = None) -> Any:
        """A capsule: "dltensor_versioned" if max_version is 1.0 or later. Errors: BufferError (a copy, another device)."""
        if copy or (dl_device is not None and tuple(dl_device) != self._device):
            raise BufferError("the array is handed over where it lies, and not copied")
        versioned = max_version is not None and max_version[0] >= 1
        described = _library.ArrayStruct(
            data=self._address, shape=(c_int64 * 3)(*self.shape), num_dimensions=len(self.shape),
            element_bits=8 * int(self.typestr[2:]), is_unsigned=self.typestr[1] == "u", device_type=self._device[0],
            device=self._device[1])
        managed = c_void_p()
        library = _library.library()
        owner = None if self._handle is None else self._handle.pointer
        _library.check(library.spmm_make_dlpack(owner, described, versioned, managed))
        destructor = ctypes.cast(library.spmm_destroy_dlpack_capsule, c_void_p)  # native: works at interpreter exit, too
        return _new_capsule(managed, _VERSIONED if versioned else _LEGACY, destructor)
