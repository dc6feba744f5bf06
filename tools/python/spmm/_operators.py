"""Products of fixed patterns as operators of PyTorch and JAX: values in, values out."""

from __future__ import annotations

import ctypes
import functools
import itertools
import os
import pathlib
import shlex
import subprocess
import tempfile
import threading
import weakref
from typing import TYPE_CHECKING, Any, Dict, Optional, Tuple

import numpy as np

from . import _device, _library
from ._elements import SATURATING
from ._errors import FormatError, UsageError
from ._plan import Plan

if TYPE_CHECKING:
    from ._engine import Engine

# An operator's parts. Each derivative of one of the three products is one of the other two:
C, A, B = range(3)  # C = A * B; A = mask(C * B^T), with the blocks of A; B = mask(A^T * C), with the blocks of B
_GRADIENTS = {C: ((A, "gy"), (B, "xg")), A: ((C, "gy"), (B, "gx")), B: ((A, "yg"), (C, "xg"))}  # x, y: operands, g: gradient


class Operator:
    """A product of two patterns, made by :func:`spmm.operator`: operator(a, b) gives the values of C.

    indptr and indices: of C, which keeps all blocks with pairs; num_blocks, side, shape: of C. Compiled functions and gradients
    do not keep it alive. Errors of a call: FormatError, ArgumentError.
    """

    def __init__(self, engine: Engine, a: Any, b: Any, pattern: Any) -> None:
        self._plan = Plan(engine, a, b, None, None, pattern)
        if self._plan.kind is SATURATING:
            self._plan.close()
            raise UsageError("operator", "is for other types than uint16", "convert the matrices, for example to int32")
        self.indptr, self.indices = self._plan.indptr, self._plan.indices
        self.num_blocks, self.side, self.shape = self._plan.num_blocks, self._plan.side, self._plan.shape

    def __call__(self, a: Any, b: Any) -> Any:
        raise NotImplementedError


class TorchOperator(Operator):
    """Calls torch.ops.spmm.multiply, through which torch.compile traces. Gradients of any order; their plans are made by the
    first one. Floats narrower than 32 bits have gradients by products of float32."""

    def __init__(self, engine: Engine, a: Any, b: Any, pattern: Any) -> None:
        super().__init__(engine, a, b, pattern)
        self._engine, self._patterns = engine, {A: a.detach(), B: b.detach()}
        self._blocks = {C: self.num_blocks, **{part: matrix.values().shape[0] for part, matrix in self._patterns.items()}}
        self._plans: Dict[int, Tuple[Plan, Any]] = {C: (self._plan, None)}
        self._lock = threading.Lock()
        _define(_device.torch_of(a))
        self._number = next(_numbers)
        _operators[self._number] = self

    def __call__(self, a: Any, b: Any) -> Any:
        """a, b: values [blocks, m, m], of CSR tensors [blocks], of the type and in the order of the operator's matrices."""
        return _device.torch_of(a).ops.spmm.multiply(a, b, self._number, C)

    def fake(self, x: Any, part: int) -> Any:
        """A tensor of the shape and the type that multiply() gives."""
        kind = self._plan.kind.result if part == C else self._plan.kind.name
        shape = (self._blocks[part],) if self.side == 1 else (self._blocks[part], self.side, self.side)
        return x.new_empty(shape, dtype=getattr(_device.torch_of(x), kind))

    def multiply(self, x: Any, y: Any, part: int) -> Any:
        """Values of a part. Errors: FormatError, ArgumentError."""
        out = self.fake(x, part)  # its shape and type
        with self._lock:  # a plan serves one thread at a time, and gradients have a thread of their own
            plan, order = self._plans.get(part) or self._plans.setdefault(part, self._gradient_plan(part))
            torch, kind = _device.torch_of(x), plan.kind
            if part == A:
                y = _transposed(y, order, self.side)
            if part == B:
                x = _transposed(x, order, self.side)
            wide = torch.empty_like(out, dtype=getattr(torch, kind.result))  # out, but for gradients of narrow floats
            plan.into(*(values.to(getattr(torch, kind.name)).contiguous() for values in (x, y)), wide)
        return wide.to(out.dtype)

    def _gradient_plan(self, part: int) -> Tuple[Plan, Any]:
        """The plan of a part, and the order in which it takes the blocks of the transposed matrix."""
        a, b = self._patterns[A], self._patterns[B]
        torch, result = _device.torch_of(a), self._plan.kind.result
        c = _matrix(torch, self.indptr, self.indices, self.side, self.shape, result)
        transposed, order = _transposed_pattern(torch, b if part == A else a, self.side, result)
        factors = (c, transposed) if part == A else (transposed, c)
        return Plan(self._engine, *factors, None, None, a if part == A else b), order


class JaxOperator(Operator):
    """Calls spmm_multiply of jax.ffi, on whatever stream XLA runs it."""

    def __init__(self, engine: Engine, a: Any, b: Any, pattern: Any) -> None:
        super().__init__(engine, a, b, pattern)
        import jax  # type: ignore[import-not-found]
        self._ffi, self._types = jax.ffi, (jax.ShapeDtypeStruct, np.dtype(self._plan.kind.result))
        self._shapes = [part[2].shape for part in (a, b)]
        # What the plan has goes with it.
        self.indptr, self.indices = (jax.numpy.array(jax.dlpack.from_dlpack(part), copy=True)
                                     for part in (self.indptr, self.indices))
        self._number = next(_numbers)
        handler = _jax_handler(jax.ffi)
        handler.spmm_jax_set_plan(self._number, self._plan.pointer())
        weakref.finalize(self, handler.spmm_jax_set_plan, self._number, None)

    def __call__(self, a: Any, b: Any) -> Any:
        """a, b: data as the operator's matrices have it, same shape and type. Errors: FormatError."""
        for data, shape, name in zip((a, b), self._shapes, "AB"):
            if data.shape != shape or data.dtype.name != self._plan.kind.name:
                raise FormatError(f"values of matrix {name}", f"are {data.dtype.name}{list(data.shape)}",
                                  f"pass {self._plan.kind.name}{list(shape)}")
        make, dtype = self._types
        shape = (self.num_blocks, *self._shapes[0][1:])
        return self._ffi.ffi_call("spmm_multiply", make(shape, dtype))(a, b, operator=np.int64(self._number))


@functools.lru_cache(maxsize=None)
def _jax_handler(ffi: Any) -> ctypes.CDLL:
    """The compiled jax_handler.cpp, with its call registered. Errors: UsageError if there is no compiler for it."""
    source = pathlib.Path(__file__).with_name("jax_handler.cpp")
    compiler = shlex.split(os.environ.get("CXX", "c++"))
    with tempfile.TemporaryDirectory() as folder:
        built = os.path.join(folder, "jax_handler.so")
        command = [*compiler, "-std=c++17", "-O1", "-fPIC", "-shared", "-I", ffi.include_dir(), str(source), "-o", built]
        try:
            subprocess.run(command, check=True, capture_output=True, text=True)
        except (OSError, subprocess.CalledProcessError) as error:
            problem = (getattr(error, "stderr", None) or str(error)).strip().splitlines()[0]
            raise UsageError("operator", f"{compiler[0]} does not compile the call for JAX: {problem}",
                             "set CXX to a compiler for C++17") from None
        loaded = ctypes.CDLL(built)
    loaded.spmm_jax_set_plan.argtypes = [ctypes.c_int64, ctypes.c_void_p]
    loaded.spmm_jax_use.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    library = _library.library()
    loaded.spmm_jax_use(*(ctypes.cast(function, ctypes.c_void_p) for function in (
        library.spmm_device_plan_multiply_add, library.spmm_last_error_problem)))
    ffi.register_ffi_target("spmm_multiply", ffi.pycapsule(loaded.spmm_jax_multiply), platform="CUDA")
    return loaded


def _matrix(torch: Any, indptr: Any, indices: Any, side: int, shape: Tuple[int, int], dtype: str) -> Any:
    """A matrix of a pattern; its values are not set."""
    blocks = (indices.numel(),) if side == 1 else (indices.numel(), side, side)
    make = torch.sparse_csr_tensor if side == 1 else torch.sparse_bsr_tensor
    return make(indptr, indices, torch.empty(blocks, dtype=getattr(torch, dtype), device=indptr.device), shape)


def _transposed_pattern(torch: Any, matrix: Any, side: int, dtype: str) -> Tuple[Any, Any]:
    """The pattern of a transposed matrix, and the places of its blocks in the matrix."""
    indptr, indices = matrix.crow_indices(), matrix.col_indices()
    rows = torch.arange(indptr.numel() - 1, device=indptr.device).repeat_interleave(indptr.diff())
    order = torch.argsort(indices, stable=True)
    starts = torch.zeros(matrix.shape[1] // side + 1, dtype=indptr.dtype, device=indptr.device)
    starts[1:] = torch.bincount(indices, minlength=starts.numel() - 1).cumsum(0)
    shape = (matrix.shape[1], matrix.shape[0])
    return _matrix(torch, starts, rows[order].to(indices.dtype), side, shape, dtype), order


def _transposed(values: Any, order: Any, side: int) -> Any:
    moved = values.index_select(0, order)
    return moved if side == 1 else moved.transpose(1, 2)


_operators: "weakref.WeakValueDictionary[int, TorchOperator]" = weakref.WeakValueDictionary()
_numbers = itertools.count(1)
_defined: Optional[Any] = None  # spmm::multiply, made when PyTorch is there


def _operator(number: int) -> TorchOperator:
    found = _operators.get(number)
    if found is None:
        raise UsageError("operator", "exists no more", "keep it as long as functions and gradients that were made with it")
    return found


def _define(torch: Any) -> None:
    """Registers spmm::multiply(Tensor x, Tensor y, int operator, int part) once."""
    global _defined
    if _defined is not None:
        return

    def multiply(x: Any, y: Any, operator: int, part: int) -> Any:
        return _operator(operator).multiply(x, y, part)

    def fake(x: Any, y: Any, operator: int, part: int) -> Any:  # pylint: disable=unused-argument
        return _operator(operator).fake(x, part)

    def save(ctx: Any, inputs: Tuple[Any, ...], output: Any) -> None:  # pylint: disable=unused-argument
        x, y, ctx.operator, ctx.part = inputs
        ctx.save_for_backward(x, y)

    def backward(ctx: Any, gradient: Any) -> Tuple[Any, ...]:
        known = dict(zip("xy", ctx.saved_tensors), g=gradient)
        found = [defined(known[of[0]], known[of[1]], ctx.operator, part) if is_needed else None
                 for (part, of), is_needed in zip(_GRADIENTS[ctx.part], ctx.needs_input_grad)]
        return (*found, None, None)

    defined = torch.library.custom_op("spmm::multiply", multiply, mutates_args=(), device_types="cuda",
                                      schema="(Tensor x, Tensor y, int operator, int part) -> Tensor")
    defined.register_fake(fake)
    defined.register_autograd(backward, setup_context=save)
    _defined = defined
