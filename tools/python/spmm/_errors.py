"""Errors: a class for each kind of failure, with the parts of its message."""

from __future__ import annotations


class Error(Exception):
    """Base of all errors of spmm. str() reads "<place>: <problem>; <hint>".

    UsageError, ShapeError, FormatError (all ValueErrors); InputError, OutputError, IoError (OSErrors); OutOfMemory (a
    MemoryError); DeviceError and InternalError (RuntimeErrors); VerifyError (an ArithmeticError); SaturationError (an
    OverflowError); Interrupted.
    """

    def __init__(self, place: str, problem: str, hint: str) -> None:
        super().__init__(f"{place}: {problem}; {hint}")
        self.place = place
        self.problem = problem
        self.hint = hint

    def __reduce__(self) -> tuple[type, tuple[str, str, str]]:
        return type(self), (self.place, self.problem, self.hint)


class InternalError(Error, RuntimeError):
    """A bug."""


class UsageError(Error, ValueError):
    """Options that cannot be carried out."""


class ArgumentError(UsageError, TypeError):
    """An argument of a type that is not meant."""


class ShapeError(Error, ValueError):
    """A and B do not fit each other."""


class FormatError(Error, ValueError):
    """A matrix or a file breaks the format, or an element is no whole number from 0 to 65535."""


class InputError(Error, OSError):
    """An input cannot be opened."""


class OutputError(Error, OSError):
    """The output cannot be created."""


class IoError(Error, OSError):
    """Reading or writing failed on the way."""


class OutOfMemory(Error, MemoryError):
    """Does not fit the memory or the limit."""


class DeviceError(Error, RuntimeError):
    """The backend or device is not available."""


class VerifyError(Error, ArithmeticError):
    """A row of the result is wrong."""


class SaturationError(Error, OverflowError):
    """Elements of the result are 2**32 - 1, and on_saturation="error" was asked for."""


class Interrupted(Error):
    """The product was cancelled; it is safe to run it again."""


# By the status of spmm.h.
BY_STATUS: dict[int, type[Error]] = {
    1: InternalError, 2: UsageError, 3: ShapeError, 4: FormatError, 5: InputError, 6: OutputError, 7: IoError,
    8: OutOfMemory, 9: DeviceError, 10: VerifyError, 11: Interrupted, 12: SaturationError,
}
