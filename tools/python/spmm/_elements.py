"""What an element is: one table of types, and one test for matrices of the host, of a device and of files."""

from __future__ import annotations

from typing import Any, Dict, NamedTuple, Optional, Sequence

import numpy as np

from ._errors import ArgumentError, FormatError, UsageError


class ElementType(NamedTuple):
    """A type of elements of files and of the library."""

    name: str  # as NumPy and CuPy call it
    code: str  # in bytes
    bits: int
    largest: int


OPERAND = ElementType("uint16", "<u2", 16, 2**16 - 1)
RESULT = ElementType("uint32", "<u4", 32, 2**32 - 1)
RANGE = f"whole number from 0 to {OPERAND.largest}"


class Kind(NamedTuple):
    """A row of the table of types: how elements of a type are multiplied."""

    number: int  # of spmm_element_type in spmm.h
    name: str
    code: str  # of NumPy, in bytes
    result: str

    @property
    def item(self) -> int:
        """Bytes of an element."""
        return int(self.code[2:])


KINDS: Dict[str, Kind] = {name: Kind(number, name, code, result) for number, (name, code, result) in enumerate((
    ("uint16", "<u2", "uint32"), ("float64", "<f8", "float64"), ("float32", "<f4", "float32"), ("float16", "<f2", "float32"),
    ("bfloat16", "<V2", "float32"), ("int8", "<i1", "int64"), ("uint8", "<u1", "int64"), ("int16", "<i2", "int64"),
    ("int32", "<i4", "int64"), ("uint32", "<u4", "int64"), ("int64", "<i8", "int64")))}
BY_NUMBER = {kind.number: kind for kind in KINDS.values()}
BY_CODE = {kind.code: kind for kind in KINDS.values()}
SATURATING = KINDS[OPERAND.name]


def _dtype_name(dtype: Any) -> str:
    """float64 of float, "f8", ">f8", numpy.float64 or torch.float64."""
    try:
        return np.dtype(dtype).name
    except TypeError:
        return str(dtype).split(".")[-1]


def kind_of(names: Sequence[str], dtype: Any = None) -> Kind:
    """How matrices with elements of these types are multiplied. dtype: of the result; None: it follows the operands.
    Errors: ArgumentError, FormatError, UsageError."""
    wanted = None if dtype is None else _dtype_name(dtype)
    if wanted == RESULT.name:
        return SATURATING
    names = [OPERAND.name if name == "bool" else name for name in names]
    if wanted == "int64":
        names = ["int32" if name == OPERAND.name else name for name in names]
    for name, other in zip(names, names[1:]):
        if name != other:
            raise ArgumentError("matrix A and matrix B", f"have elements of {name} and {other}",
                                'convert one of them, or ask for dtype="uint32", the saturating product of whole numbers')
    name = names[0]
    if name not in KINDS:
        raise FormatError("matrix A", f"has elements of {name}",
                          f"convert both to one of {', '.join(KINDS)}, or ask for dtype=\"uint32\"")
    if wanted not in (None, KINDS[name].result):
        raise UsageError("dtype", f"is {wanted}; a product of {name} has {KINDS[name].result}",
                         'leave it out, convert the matrices, or ask for "uint32" or, of whole numbers, "int64"')
    return KINDS[name]


def type_name(values: Any) -> str:
    """float32, as NumPy, CuPy and PyTorch call it in any byte order."""
    return getattr(values.dtype, "name", None) or str(values.dtype).split(".")[-1]


def bad_elements(values: Any, library: Any) -> Optional[Any]:
    """Mask of what is no element of an operand; None if the type holds nothing else. library: that of the array.

    Floats of less than 32 bits do not hold 65535: bfloat16 would compare with 65536, float16 with infinity.
    """
    name, item = type_name(values), values.dtype.itemsize
    if name in ("bool", "uint8", OPERAND.name):
        return None
    if "float" in name or name == "longdouble":
        if item < 4:
            values = values.to(library.float32) if library.__name__ == "torch" else values.astype(library.float32)
        return ~((values >= 0) & (values <= OPERAND.largest) & (values == library.floor(values)))
    is_bad = values < 0
    if item > 2:  # narrower ones hold nothing above, and the limit would wrap
        is_bad |= values > OPERAND.largest
    return is_bad
