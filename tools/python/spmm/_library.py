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
from typing import Any, Dict, Optional, Union

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
AllocateFn = ctypes.CFUNCTYPE(c_void_p, c_void_p, c_uint64, c_uint64, c_void_p)
ReleaseFn = ctypes.CFUNCTYPE(None, c_void_p, c_void_p, c_void_p)
_TYPES: Dict[str, Any] = {"i": c_int32, "u": c_uint32, "U": c_uint64, "p": c_void_p, "s": c_char_p, "*i": POINTER(c_int32),
                          "*U": POINTER(c_uint64), "*p": POINTER(c_void_p), "none": None, "i64[3]": c_int64 * 3,
                          "progress": ProgressFn, "allocate": AllocateFn, "release": ReleaseFn}


class _Sized(ctypes.Structure):
    def __init__(self, **fields: object) -> None:
        super().__init__(struct_size=ctypes.sizeof(type(self)), **fields)


def _struct(name: str, text: str, base: type = _Sized) -> Any:
    """A class, which others may point to, with the fields "type name name, ..."."""
    fields = [(field, _TYPES[kind]) for kind, *names in map(str.split, text.split(",")) for field in names]
    made: Any = type(name, (base,), {"_fields_": ([("struct_size", c_uint64)] if base is _Sized else []) + fields})
    _TYPES[name], _TYPES["*" + name] = made, POINTER(made)
    return made


EngineOptions = _struct("EngineOptions", "*i devices, U num_devices memory_limit_bytes, u num_threads reserved")
BsrStruct = _struct("BsrStruct", "U rows cols, p indptr indices data, U num_indices, u block_side indptr_bits indices_bits "
                    "element_bits, s name, u element_type reserved")
ProductOptions = _struct("ProductOptions", "s backend kernel, progress progress, p progress_context cancel, U verify_blocks "
                         "verify_seed, u max_threads, i durable no_clobber transpose_a transpose_b verify_full, U proof_key, "
                         "i on_saturation has_rows, u first_row end_row, *BsrStruct c, p alpha beta, i is_mask reserved, s pattern, "
                         "i upper_triangle no_diagonal, u at_least keep")
DeviceBsrStruct = _struct("DeviceBsrStruct", "U rows cols, p indptr indices data, U num_blocks, u block_side index_bits "
                          "element_type reserved")
DeviceStrides = _struct("DeviceStrides", "U indptr indices data", ctypes.Structure)
DeviceStacksStruct = _struct("DeviceStacksStruct", "U num_products, *DeviceBsrStruct a b, DeviceStrides a_strides b_strides")
DeviceCallStruct = _struct("DeviceCallStruct", "p stream, allocate allocate, p allocate_context, release release, "
                           "i serves_workspace reserved, *DeviceBsrStruct c, p alpha beta, i is_mask reserved_too")
ArrayStruct = _struct("ArrayStruct", "p data, i64[3] shape, i num_dimensions element_bits is_unsigned device_type device "
                      "reserved")

# Result, names after spmm_, types of arguments.
_FUNCTIONS = """
s: version last_error_place last_error_problem last_error_hint
i: c_api has_cuda_device
p: cancel_create
none: cancel_set cancel_destroy engine_destroy matrix_destroy report_destroy device_matrix_destroy device_plan_destroy: p
none: destroy_dlpack_capsule: p
i: engine_create: *EngineOptions *p
i: engine_trim device_matrix_device: p
i: multiply_bsr: p *BsrStruct *BsrStruct *ProductOptions *p *p
i: multiply_files: p s s s *ProductOptions *p
i: multiply_device: p *DeviceBsrStruct *DeviceBsrStruct *DeviceCallStruct *ProductOptions *p *p
i: multiply_many_device: p p U *DeviceCallStruct *ProductOptions *p *p
i: multiply_stacks_device: p *DeviceStacksStruct *DeviceCallStruct *ProductOptions *p *p
i: plan_device: p *DeviceBsrStruct *DeviceBsrStruct *DeviceCallStruct *ProductOptions *p
i: device_plan_multiply_add: p p p p p p p
i: device_plan_count_saturated: p p p *U
i: device_matrix_fetch_first_blocks: p p
i: make_dlpack: p *ArrayStruct i *p
p: device_plan_pattern device_matrix_first_blocks device_matrix_indptrs device_matrix_indptr device_matrix_indices: p
p: device_matrix_data matrix_indptr matrix_indices matrix_data: p
U: device_matrix_num_blocks device_matrix_num_saturated matrix_rows matrix_cols matrix_num_blocks report_num_saturated: p
u: matrix_block_side matrix_element_type: p
i: read: s u *p
i: write: s *BsrStruct
s: report_json: p
"""
_C_API = 5  # SPMM_C_API of spmm.h, the least that this package can use
_NAME = "libspmm.so"
_SONAME = f"{_NAME}.1"  # SPMM_C_SOVERSION of spmm.h


def check_alone(site: pathlib.Path) -> None:
    """Errors: UsageError if a folder of packages has both wheels: each overwrites files of the other."""
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
    """Errors: InternalError if it cannot be loaded, or is older than this package."""
    loaded = _load()
    for line in _FUNCTIONS.strip().splitlines():
        result, names, arguments = (part.split() for part in (line + ":").split(":")[:3])
        for name in names:
            function = getattr(loaded, "spmm_" + name, None)
            if function is None:
                raise InternalError(_NAME, f"has no function spmm_{name}", "load a newer library")
            function.restype, function.argtypes = _TYPES[result[0]], [_TYPES[each] for each in arguments]
    if loaded.spmm_c_api() < _C_API:
        raise InternalError(_NAME, "is older than this package", "load a newer library")
    return loaded


def last_error(status: int) -> Error:
    """Of this thread."""
    loaded = library()
    place, problem, hint = ((part() or b"").decode(errors="replace") for part in (
        loaded.spmm_last_error_place, loaded.spmm_last_error_problem, loaded.spmm_last_error_hint))
    for of_c, of_python in (("memory_limit_bytes", "memory_limit"), ("num_threads", "threads")):
        place, problem, hint = (part.replace(of_c, of_python) for part in (place, problem, hint))
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
