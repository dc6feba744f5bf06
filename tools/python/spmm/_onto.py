"""What a product is added to, and which blocks it has: pattern, alpha, beta, c."""

from __future__ import annotations

import ctypes
import operator
from typing import Any, Optional

import numpy as np

from ._elements import Kind, SATURATING
from ._errors import ArgumentError, UsageError


def _number(name: str, value: Any, kind: Kind) -> np.ndarray:
    """One element of a result, in host memory: floats rounded once, whole numbers modulo 2**64. Errors: ArgumentError,
    UsageError."""
    if kind is SATURATING:
        raise UsageError(name, "does not go with results of uint32", 'convert the matrices, or ask for dtype="int64"')
    try:
        if kind.result == "int64":
            return np.array([operator.index(value) % 2**64], np.uint64)
        return np.array([float(value)], kind.result)
    except (TypeError, ValueError):
        raise ArgumentError(name, f"is {value!r}", f"give a number of {kind.result}") from None


def scaling(kind: Kind, alpha: Any, beta: Any) -> list[Optional[np.ndarray]]:
    """Both as the library reads them; None: 1 and 0. Errors: ArgumentError, UsageError."""
    return [None if isinstance(value, (int, float)) and value == usual else _number(name, value, kind)
            for name, value, usual in (("alpha", alpha, 1), ("beta", beta, 0))]


def address(value: Optional[np.ndarray]) -> Optional[int]:
    """Of a number, which the caller keeps."""
    return None if value is None else value.ctypes.data


class Onto:
    """Options of one product. matrix: the blocks that C has; None: those that have pairs."""

    def __init__(self, pattern: Any, alpha: Any, beta: Any, c: Any) -> None:
        """Errors: UsageError."""
        if c is not None and pattern is not None and pattern is not True:
            raise UsageError("pattern", "is given, and c, too", "give pattern=True: the blocks of c")
        if c is None and (pattern is True or beta is not None):
            raise UsageError("pattern=True, beta", "need a matrix", "give c")
        self.matrix = pattern if c is None else c
        self.reads_c = c is not None and not (isinstance(beta, (int, float)) and beta == 0)
        self._is_mask = pattern is not None
        self._is_added = c is not None
        self._numbers = (alpha, 0 if c is None else 1 if beta is None else beta)

    def give(self, to: Any, struct: Any, kind: Kind) -> None:
        """Sets fields of options or of a call. struct: of the matrix. Errors: ArgumentError, UsageError."""
        if kind is SATURATING and self._is_added:
            raise UsageError("c", "does not go with results of uint32", 'convert the matrices, or ask for dtype="int64"')
        self._kept = scaling(kind, *self._numbers), struct
        to.alpha, to.beta = (address(value) for value in self._kept[0])
        to.is_mask = int(self._is_mask)
        if struct is not None:
            to.c = ctypes.pointer(struct)
