"""What an element is: one table of types, and one test for matrices of the host, of a device and of files."""

from __future__ import annotations

from typing import Any, Dict, NamedTuple, Optional


class ElementType(NamedTuple):
    """A type of elements of files and of the library."""

    name: str  # as NumPy and CuPy call it
    code: str  # in bytes
    bits: int
    largest: int


OPERAND = ElementType("uint16", "<u2", 16, 2**16 - 1)
RESULT = ElementType("uint32", "<u4", 32, 2**32 - 1)
BY_BITS: Dict[int, ElementType] = {each.bits: each for each in (OPERAND, RESULT)}
RANGE = f"whole number from 0 to {OPERAND.largest}"


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
