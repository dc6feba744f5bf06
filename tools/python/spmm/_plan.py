"""Products on a device whose pattern stays while their values change."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, Optional

from . import _device, _library
from ._errors import UsageError
from ._matrix import Product
from ._onto import Onto, address as address_of, scaling

if TYPE_CHECKING:
    from ._engine import Engine


class Plan:
    """A product of two patterns, made by :func:`spmm.plan`: the pattern of C and the decision stay on the device.

    indptr and indices: of C, which keeps all blocks with pairs, also if they are zero. num_blocks, side, shape: of C.
    One thread at a time; the engine stays open as long as the plan.
    """

    def __init__(self, engine: Engine, a: Any, b: Any, kernel: Optional[str], dtype: Any = None, pattern: Any = None) -> None:
        self._call = call = _device.Call(a, engine._serves_workspace)
        left, right = call.arrays_of([a, b], ["matrix A", "matrix B"], dtype)
        call.add(Onto(pattern, 1, None, None))
        options = _library.ProductOptions(kernel=_library.c_text("kernel", kernel))
        self._use = engine._use()
        pointer = self._use.__enter__()
        self._handle: Optional[_library.Handle] = None
        handle = _library.Handle("spmm_device_plan_destroy")
        library = _library.library()
        try:
            call.check(library.spmm_plan_device(pointer, left.struct, right.struct, call.struct, options, handle.pointer))
            pattern = ctypes.c_void_p(library.spmm_device_plan_pattern(handle.pointer))
            self.num_blocks = int(library.spmm_device_matrix_num_blocks(pattern))
            self.side, self.shape = left.side, (left.shape[0], right.shape[1])
            self._sizes = tuple((one.num_blocks, one.side, one.side) for one in (left, right))
            address = library.spmm_device_matrix_indptr(pattern) or 0
            shared = call.pattern(pattern, (address, self.shape[0] // self.side + 1), left.index_bits, self.side)
        except BaseException:
            handle.close()
            self._use.__exit__(None, None, None)
            raise
        self._handle = handle
        self.kind = call.kind
        self.indptr, self.indices, self._matrix = shared.indptr, shared.indices, shared.matrix

    def __call__(self, a: Any, b: Any, *, alpha: Any = 1, beta: Any = 1, c: Any = None) -> Product:
        """C = alpha * A * B + beta * C, a matrix as :func:`spmm.multiply` gives it, for values in the order of the plan's operands.

        a, b: arrays [blocks, m, m] of the operands' library and type; for results of uint32 whole numbers from 0 to 65535,
        which are checked unless they are uint16. c: array [num_blocks, m, m] of the result's type; None: beta is 0.
        Errors: FormatError, ArgumentError, UsageError.
        """
        out = self._call.make_values(self.num_blocks, self.side)
        if c is not None:
            out[:] = c.reshape(out.shape)
        self._multiply(*self._call.elements((a, b), self._sizes), out, alpha, 0 if c is None else beta)
        product: Product = self._matrix(self.indptr, self.indices, self._call.widened(out), self.shape)
        return product

    def into(self, a: Any, b: Any, out: Any, *, alpha: Any = 1, beta: Any = 0) -> None:
        """out = alpha * A * B + beta * out. out: [num_blocks, m, m] of the result's type, a and b values of the operands'; int16
        and int32 may have the bits of uint16 and uint32. Nothing is allocated, checked or waited for, so that a CUDA graph may
        capture it, with alpha and beta as they are then."""
        self._multiply(*(self._call.address(x, size, self._call.kind.item) for x, size in zip((a, b), self._sizes)), out,
                       alpha, beta)

    def count_saturated(self, out: Any) -> int:
        """Elements of such an `out` of uint32 that are 2**32 - 1. Waits for the current stream."""
        count = ctypes.c_uint64()
        address = self._call.address(out, (self.num_blocks, self.side, self.side), self._call.result.item)
        self._call.check(_library.library().spmm_device_plan_count_saturated(
            self.pointer(), address, self._call.library.stream(), ctypes.byref(count)))
        return count.value

    def _multiply(self, a: int, b: int, out: Any, alpha: Any, beta: Any) -> None:
        numbers = scaling(self._call.kind, alpha, beta)
        address = self._call.address(out, (self.num_blocks, self.side, self.side), self._call.result.item)
        self._call.check(_library.library().spmm_device_plan_multiply_add(
            self.pointer(), a, b, address, *map(address_of, numbers), self._call.library.stream()))

    def pointer(self) -> ctypes.c_void_p:
        """Errors: UsageError if the plan is closed."""
        if self._handle is None:
            raise UsageError("Plan", "is closed", "make another one")
        return self._handle.pointer

    def close(self) -> None:
        """Gives the plan's memory back."""
        handle, self._handle = self._handle, None
        if handle is not None:
            handle.close()
            self._use.__exit__(None, None, None)

    def __enter__(self) -> Plan:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_handle", None) is not None:
            self.close()
