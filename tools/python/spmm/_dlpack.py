"""Arrays of other libraries by __cuda_array_interface__, and results for them, also by DLPack."""

from __future__ import annotations

import ctypes
from ctypes import c_char_p, c_int64, c_void_p, py_object
from typing import Any, Dict, NamedTuple, Optional, Tuple

from . import _library
from ._errors import FormatError

CPU, CUDA = 1, 2  # DLDeviceType
_LEGACY, _VERSIONED = b"dltensor", b"dltensor_versioned"  # names of capsules
_new_capsule = ctypes.PYFUNCTYPE(py_object, c_void_p, c_char_p, c_void_p)(("PyCapsule_New", ctypes.pythonapi))
for _name in (_LEGACY, _VERSIONED):  # a capsule points to its name, and may live longer than this module
    ctypes.pythonapi.Py_IncRef(py_object(_name))


class Described(NamedTuple):
    """An array in device memory; keep owns it."""

    address: int
    shape: Tuple[int, ...]
    typestr: str  # of NumPy
    stream: int
    keep: Any


def is_on_device(array: Any) -> bool:
    return hasattr(array, "__cuda_array_interface__")


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
    if not is_on_device(array):
        raise FormatError(name, f"{type(array).__name__} has no __cuda_array_interface__", "pass all three on the device")
    interface: Dict[str, Any] = array.__cuda_array_interface__
    shape, typestr = tuple(interface["shape"]), interface["typestr"]
    _require_contiguous(shape, interface.get("strides"), int(typestr[2:]), name)
    return Described(interface["data"][0] or 0, shape, typestr, int(interface.get("stream") or 0), array)


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
            element_bits=8 * int(self.typestr[2:]), is_unsigned="iuf".index(self.typestr[1]), device_type=self._device[0],
            device=self._device[1])
        managed = c_void_p()
        library = _library.library()
        owner = None if self._handle is None else self._handle.pointer
        _library.check(library.spmm_make_dlpack(owner, described, versioned, managed))
        destructor = ctypes.cast(library.spmm_destroy_dlpack_capsule, c_void_p)  # native: works at interpreter exit, too
        return _new_capsule(managed, _VERSIONED if versioned else _LEGACY, destructor)
