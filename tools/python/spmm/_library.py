"""libspmm.so through ctypes. It is loaded by the first call that needs it."""

from __future__ import annotations

import ctypes
import fractions
import functools
import operator
import os
import pathlib
import re
from ctypes import POINTER, c_char_p, c_int32, c_int64, c_uint32, c_uint64, c_void_p

from typing import Optional, Union
from ._errors import ArgumentError, BY_STATUS, Error, InternalError, UsageError


MAX_32, MAX_64 = 2**32 - 1, 2**64 - 1


def whole_number(name: str, value: object, least: int, largest: int) -> int:
    """Errors: UsageError if it is no whole number within these bounds. ctypes would wrap it."""
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = least - 1
    if not least <= number <= largest:
        raise UsageError(name, f"is {value!r}", f"give a whole number from {least} to {largest}")
    return number


def size_in_bytes(name: str, given: object) -> int:
    """A number of bytes, also as a text: "500M", "1.5G", "2GiB". Errors: UsageError."""
    if not isinstance(given, str):
        return whole_number(name, given, 0, MAX_64)
    found = re.fullmatch("([0-9]{1,18}(?:[.][0-9]{1,9})?)(?:([KMGT])(i?)B?|B)?", given, flags=re.IGNORECASE)
    power = " KMGT".index(found[2].upper()) if found and found[2] else 0
    size = int(fractions.Fraction(found[1]) * (1024 if found[3] else 1000)**power) if found else 0
    if not 0 < size <= MAX_64:
        raise UsageError(name, f"\"{given}\" is not a size such as 500M or 2G", "give a number of bytes")
    return size


def c_text(name: str, text: Union[None, str, bytes]) -> Optional[bytes]:
    """Errors: ArgumentError if it is no text, UsageError if C would see a part of it only."""
    if text is None:
        return None
    if not isinstance(text, (str, bytes)):
        raise ArgumentError(name, f"is {text!r}", "give a text")
    encoded = text.encode() if isinstance(text, str) else text
    if b"\0" in encoded:
        raise UsageError(name, f"{encoded!r} has a NUL", "give a text without it")
    return encoded


ProgressFn = ctypes.CFUNCTYPE(c_int32, c_void_p, c_char_p, c_uint64, c_uint64)


class _Sized(ctypes.Structure):
    def __init__(self, **fields: object) -> None:
        super().__init__(struct_size=ctypes.sizeof(type(self)), **fields)


class EngineOptions(_Sized):
    _fields_ = [("struct_size", c_uint64), ("devices", POINTER(c_int32)), ("num_devices", c_uint64),
                ("memory_limit_bytes", c_uint64), ("num_threads", c_uint32), ("reserved", c_uint32)]


class ProductOptions(_Sized):
    _fields_ = [("struct_size", c_uint64), ("backend", c_char_p), ("kernel", c_char_p), ("progress", ProgressFn),
                ("progress_context", c_void_p), ("cancel", c_void_p), ("verify_blocks", c_uint64),
                ("verify_seed", c_uint64), ("max_threads", c_uint32), ("durable", c_int32), ("no_clobber", c_int32),
                ("transpose_a", c_int32), ("transpose_b", c_int32), ("verify_full", c_int32), ("proof_key", c_uint64),
                ("on_saturation", c_int32), ("has_rows", c_int32), ("first_row", c_uint32), ("end_row", c_uint32)]


class BsrStruct(_Sized):
    _fields_ = [("struct_size", c_uint64), ("rows", c_uint64), ("cols", c_uint64), ("indptr", c_void_p),
                ("indices", c_void_p), ("data", c_void_p), ("num_indices", c_uint64), ("block_side", c_uint32),
                ("indptr_bits", c_uint32), ("indices_bits", c_uint32), ("element_bits", c_uint32), ("name", c_char_p)]


class DeviceBsrStruct(_Sized):
    _fields_ = [("struct_size", c_uint64), ("rows", c_uint64), ("cols", c_uint64), ("indptr", c_void_p),
                ("indices", c_void_p), ("data", c_void_p), ("num_blocks", c_uint64), ("block_side", c_uint32),
                ("index_bits", c_uint32)]


class DeviceStrides(ctypes.Structure):
    _fields_ = [("indptr", c_uint64), ("indices", c_uint64), ("data", c_uint64)]


class DeviceStacksStruct(_Sized):
    _fields_ = [("struct_size", c_uint64), ("num_products", c_uint64), ("a", POINTER(DeviceBsrStruct)),
                ("b", POINTER(DeviceBsrStruct)), ("a_strides", DeviceStrides), ("b_strides", DeviceStrides)]


AllocateFn = ctypes.CFUNCTYPE(c_void_p, c_void_p, c_uint64, c_uint64, c_void_p)
ReleaseFn = ctypes.CFUNCTYPE(None, c_void_p, c_void_p, c_void_p)


class DeviceCallStruct(_Sized):
    _fields_ = [("struct_size", c_uint64), ("stream", c_void_p), ("allocate", AllocateFn),
                ("allocate_context", c_void_p), ("release", ReleaseFn), ("serves_workspace", c_int32),
                ("reserved", c_int32)]


class ArrayStruct(_Sized):
    _fields_ = [("struct_size", c_uint64), ("data", c_void_p), ("shape", c_int64 * 3), ("num_dimensions", c_int32),
                ("element_bits", c_int32), ("is_unsigned", c_int32), ("device_type", c_int32), ("device", c_int32),
                ("reserved", c_int32)]


_HANDLE = POINTER(c_void_p)
_PROTOTYPES: dict[str, tuple[object, list[object]]] = {
    "spmm_version": (c_char_p, []),
    "spmm_c_api": (c_int32, []),
    "spmm_has_cuda_device": (c_int32, []),
    "spmm_last_error_place": (c_char_p, []),
    "spmm_last_error_problem": (c_char_p, []),
    "spmm_last_error_hint": (c_char_p, []),
    "spmm_cancel_create": (c_void_p, []),
    "spmm_cancel_set": (None, [c_void_p]),
    "spmm_cancel_destroy": (None, [c_void_p]),
    "spmm_engine_create": (c_int32, [POINTER(EngineOptions), _HANDLE]),
    "spmm_engine_destroy": (None, [c_void_p]),
    "spmm_engine_trim": (c_int32, [c_void_p]),
    "spmm_multiply_bsr": (c_int32, [c_void_p, POINTER(BsrStruct), POINTER(BsrStruct), POINTER(ProductOptions), _HANDLE,
                                    _HANDLE]),
    "spmm_multiply_files": (c_int32, [c_void_p, c_char_p, c_char_p, c_char_p, POINTER(ProductOptions), _HANDLE]),
    "spmm_multiply_device": (c_int32, [c_void_p, POINTER(DeviceBsrStruct), POINTER(DeviceBsrStruct),
                                       POINTER(DeviceCallStruct), POINTER(ProductOptions), _HANDLE, _HANDLE]),
    "spmm_multiply_many_device": (c_int32, [c_void_p, c_void_p, c_uint64, POINTER(DeviceCallStruct),
                                            POINTER(ProductOptions), _HANDLE, _HANDLE]),
    "spmm_multiply_stacks_device": (c_int32, [c_void_p, POINTER(DeviceStacksStruct), POINTER(DeviceCallStruct),
                                              POINTER(ProductOptions), _HANDLE, _HANDLE]),
    "spmm_plan_device": (c_int32, [c_void_p, POINTER(DeviceBsrStruct), POINTER(DeviceBsrStruct), POINTER(DeviceCallStruct),
                                   POINTER(ProductOptions), _HANDLE]),
    "spmm_device_plan_destroy": (None, [c_void_p]),
    "spmm_device_plan_pattern": (c_void_p, [c_void_p]),
    "spmm_device_plan_multiply": (c_int32, [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]),
    "spmm_device_plan_count_saturated": (c_int32, [c_void_p, c_void_p, c_void_p, POINTER(c_uint64)]),
    "spmm_device_matrix_destroy": (None, [c_void_p]),
    "spmm_device_matrix_device": (c_int32, [c_void_p]),
    "spmm_device_matrix_first_blocks": (c_void_p, [c_void_p]),
    "spmm_device_matrix_fetch_first_blocks": (c_int32, [c_void_p, c_void_p]),
    "spmm_device_matrix_indptrs": (c_void_p, [c_void_p]),
    "spmm_make_dlpack": (c_int32, [c_void_p, POINTER(ArrayStruct), c_int32, _HANDLE]),
    "spmm_destroy_dlpack_capsule": (None, [c_void_p]),
    "spmm_device_matrix_num_blocks": (c_uint64, [c_void_p]),
    "spmm_device_matrix_num_saturated": (c_uint64, [c_void_p]),
    "spmm_device_matrix_indptr": (c_void_p, [c_void_p]),
    "spmm_device_matrix_indices": (c_void_p, [c_void_p]),
    "spmm_device_matrix_data": (c_void_p, [c_void_p]),
    "spmm_read": (c_int32, [c_char_p, c_uint32, _HANDLE]),
    "spmm_write": (c_int32, [c_char_p, POINTER(BsrStruct)]),
    "spmm_matrix_destroy": (None, [c_void_p]),
    "spmm_matrix_rows": (c_uint64, [c_void_p]),
    "spmm_matrix_cols": (c_uint64, [c_void_p]),
    "spmm_matrix_block_side": (c_uint32, [c_void_p]),
    "spmm_matrix_element_bits": (c_uint32, [c_void_p]),
    "spmm_matrix_num_blocks": (c_uint64, [c_void_p]),
    "spmm_matrix_indptr": (c_void_p, [c_void_p]),
    "spmm_matrix_indices": (c_void_p, [c_void_p]),
    "spmm_matrix_data": (c_void_p, [c_void_p]),
    "spmm_report_destroy": (None, [c_void_p]),
    "spmm_report_json": (c_char_p, [c_void_p]),
    "spmm_report_num_saturated": (c_uint64, [c_void_p]),
}
_C_API = 3  # SPMM_C_API of spmm.h, the least that this package can use
_NAME = "libspmm.so"
_SONAME = f"{_NAME}.1"  # SPMM_C_SOVERSION of spmm.h


def check_alone(site: pathlib.Path) -> None:
    """Errors: UsageError if a folder of packages has both wheels, of which each overwrites files of the other."""
    if all(any(site.glob(f"{wheel}-*.dist-info")) for wheel in ("spmm", "spmm_cuda")):
        raise UsageError("spmm", f"is installed twice in {site}, without CUDA and with it",
                         "pip uninstall spmm spmm-cuda, then install one of them")


def _load() -> ctypes.CDLL:
    """The library named by SPMM_LIBRARY, else the one beside this file, else the one that the system finds."""
    named = os.environ.get("SPMM_LIBRARY")
    beside = pathlib.Path(__file__).with_name(_NAME)
    if not named and beside.exists():
        check_alone(beside.parent.parent)
    path = named or (str(beside) if beside.exists() else _SONAME)
    try:
        return ctypes.CDLL(path)
    except OSError as error:
        raise InternalError(_NAME, f"cannot be loaded ({error})",
                            "install the package with pip, or set SPMM_LIBRARY to the path of the library") from None


@functools.lru_cache(maxsize=None)
def library() -> ctypes.CDLL:
    """Errors: InternalError where it cannot be loaded, or is older than this package."""
    loaded = _load()
    for name, (result, arguments) in _PROTOTYPES.items():
        function = getattr(loaded, name, None)
        if function is None:
            raise InternalError(_NAME, f"has no function {name}", "load a newer library")
        function.restype, function.argtypes = result, arguments
    if loaded.spmm_c_api() < _C_API:
        raise InternalError(_NAME, "is older than this package", "load a newer library")
    return loaded


def last_error(status: int) -> Error:
    """Of this thread."""
    loaded = library()
    place, problem, hint = ((part() or b"").decode(errors="replace") for part in (
        loaded.spmm_last_error_place, loaded.spmm_last_error_problem, loaded.spmm_last_error_hint))
    return BY_STATUS.get(status, InternalError)(place, problem, hint)


def check(status: int) -> None:
    """Errors: the class of the status."""
    if status != 0:
        raise last_error(status)


class Handle:
    """Owner of what a function of the library has handed out."""

    def __init__(self, destroy: str) -> None:
        self.pointer = c_void_p()
        self._destroy = getattr(library(), destroy)

    def close(self) -> None:
        pointer, self.pointer = self.pointer, c_void_p()
        if pointer:
            self._destroy(pointer)

    def __del__(self) -> None:
        if getattr(self, "_destroy", None) is not None:
            self.close()


__all__ = ["MAX_32", "MAX_64", "AllocateFn", "ArrayStruct", "BsrStruct", "DeviceBsrStruct", "DeviceCallStruct",
           "DeviceStacksStruct", "DeviceStrides", "EngineOptions", "Handle", "ProductOptions", "ProgressFn", "ReleaseFn", "c_text",
           "check", "last_error", "library", "size_in_bytes", "whole_number"]
