"""Engines, products, and files of matrices."""

from __future__ import annotations

import collections.abc
import contextlib
import ctypes
import json
import os
import threading
from typing import Any, Callable, Dict, Iterable, Iterator, Optional, Sequence, Tuple, Union

import numpy as np

from . import _device, _operators, _library, _many, _plan
from ._elements import KINDS, SATURATING, kind_of
from ._errors import ArgumentError, Error, UsageError
from ._interrupt import interruptible
from ._onto import Onto
from ._matrix import Blocksize, Bsr, Matrix, Operand, Product, as_scipy, as_tensor, common_side, cut, elements_name, from_handle, of_host, transposed

Path = Union[str, "os.PathLike[str]"]
Progress = Callable[[str, int, int], Any]
Verify = Union[bool, int, str]
Size = Union[int, str]
Rows = Tuple[int, Optional[int]]
Batch = Any  # many matrices: a tensor of torch, or (indptr, indices, data[, shape])
ALL_DEVICES = -1


def _verify_fields(verify: Verify) -> Dict[str, int]:
    if isinstance(verify, str):
        if verify != "full":
            raise UsageError("verify", f"'{verify}' is not known", 'give "full" or a number of blocks')
        return {"verify_full": 1}
    if isinstance(verify, (bool, np.bool_)):
        return {"verify_full": int(verify)}
    return {"verify_blocks": _library.whole_number("verify", verify, 0, _library.MAX_64)}


def _rows_fields(rows: Optional[Rows]) -> Dict[str, int]:
    if rows is None:
        return {}
    if not isinstance(rows, (tuple, list)) or len(rows) != 2:
        raise UsageError("rows", f"is {rows!r}", "give (first, end), two numbers of block rows")
    first, end = rows
    return {"has_rows": 1, "first_row": _library.whole_number("rows", first, 0, _library.MAX_32),
            "end_row": _library.MAX_32 if end is None else _library.whole_number("rows", end, 0, _library.MAX_32)}


def _selection_fields(triangle: Optional[str], no_diagonal: bool, at_least: int, keep: int) -> Dict[str, int]:
    """Those that differ from the defaults."""
    if triangle not in (None, "upper"):
        raise UsageError("triangle", f"is {triangle!r}", 'give "upper"')
    fields = {"upper_triangle": int(triangle is not None), "no_diagonal": int(bool(no_diagonal)),
              "at_least": _library.whole_number("at_least", at_least, 0, _library.MAX_32),
              "keep": _library.whole_number("keep", keep, 0, _library.MAX_32)}
    return {name: value for name, value in fields.items() if value}


def _encoded(name: str, path: Path) -> bytes:
    encoded = _library.c_text(name, os.fsencode(path))
    assert encoded is not None
    return encoded


def _device_numbers(devices: Union[None, str, int, Sequence[int]]) -> list[int]:
    if devices is None:
        return []
    if isinstance(devices, str):
        if devices != "all":
            raise UsageError("devices", f"'{devices}' is not known", 'give "all" or numbers')
        return [ALL_DEVICES]
    return [_library.whole_number("devices", number, 0, 2**31 - 1) for number in np.atleast_1d(devices).tolist()]


def _one_of(option: str, given: str, words: Tuple[str, str]) -> int:
    """Which of the two. Errors: UsageError."""
    if given not in words:
        raise UsageError(option, f"'{given}' is not known", f'give "{words[0]}" or "{words[1]}"')
    return words.index(given)


def _options(backend: Optional[str], kernel: Optional[str], on_saturation: str, **fields: Any) -> Any:
    """Options of a product as the library reads them. Errors: ArgumentError, UsageError."""
    return _library.ProductOptions(backend=_library.c_text("backend", backend), kernel=_library.c_text("kernel", kernel),
                                   on_saturation=_one_of("on_saturation", on_saturation, ("report", "error")), **fields)


def version() -> str:
    """How the library was built.

    >>> version().startswith("spmm ")
    True
    """
    return _library.library().spmm_version().decode()


def has_cuda_device() -> bool:
    """Whether the library was built with CUDA and a device is there. Starts no device."""
    return bool(_library.library().spmm_has_cuda_device())


def _check_report(report: Any) -> None:
    """Before the product, whose result would be lost. Errors: ArgumentError."""
    if report is not None and not isinstance(report, collections.abc.MutableMapping):
        raise ArgumentError("report", f"is a {type(report).__name__}", "give a dictionary")


class _Call:
    """Options of one product: keeps what the library's struct points to."""

    def __init__(self, progress: Optional[Progress], backend: Optional[str], kernel: Optional[str], threads: int, verify: Verify,
                 rows: Optional[Rows], on_saturation: str, selection: Dict[str, int], **flags: bool) -> None:
        if progress is not None and not callable(progress):
            raise ArgumentError("progress", f"is {progress!r}", "give a function of stage, done, total")
        self._progress = progress
        self.raised: list[BaseException] = []
        self._cancel = _library.Handle("spmm_cancel_destroy")
        self._cancel.pointer = ctypes.c_void_p(_library.library().spmm_cancel_create())
        self._callback = _library.ProgressFn(self._on_progress) if progress is not None else _library.ProgressFn()
        self.options = _options(
            backend, kernel, on_saturation, progress=self._callback, cancel=self._cancel.pointer, **_rows_fields(rows),
            **_verify_fields(verify), max_threads=_library.whole_number("threads", threads, 0, _library.MAX_32),
            **selection, **{name: bool(flag) for name, flag in flags.items()})

    def _on_progress(self, _context: Any, stage: bytes, done: int, total: int) -> int:
        if not self.raised:
            try:
                assert self._progress is not None
                self._progress(stage.decode(), done, total)
            except BaseException as error:  # an exception of the callback cancels, and is raised when all is over
                self.raised.append(error)
        return 1 if self.raised else 0

    def cancel(self) -> None:
        _library.library().spmm_cancel_set(self._cancel.pointer)

    def run(self, function: Callable[[], int]) -> None:
        """Errors: what the callback raised, KeyboardInterrupt, or the class of the status."""
        def body() -> Optional[Error]:
            status = function()
            return None if status == 0 else _library.last_error(status)  # of this thread

        error = interruptible(body, self.cancel)
        if self.raised:
            raise self.raised[0]
        if error is not None:
            raise error


class Engine:
    """What outlives a product: device, memory and threads. For programs that multiply more than once.

    threads: of a product, 0 = all cores. memory_limit: of all products together, host and device each, results included,
    in bytes, or a text such as "8G"; 0 = most of what is free. devices: numbers of the CUDA devices that share each
    product, or "all". workspace: "caller" takes all memory of products on a GPU from PyTorch or CuPy, not only results:
    for a pool that holds the device's free memory; each piece costs the time of a call of Python.

    Products may run on several threads at once. An engine belongs to the process that made it: a child of fork() makes its
    own, without CUDA if the parent has started it.

    >>> import numpy as np, spmm
    >>> with spmm.Engine(threads=2) as engine:
    ...     engine.multiply(np.array([[1, 2], [3, 4]]), np.array([[5, 6], [7, 8]])).toarray()
    array([[19, 22],
           [43, 50]])
    """

    def __init__(self, *, threads: int = 0, memory_limit: Size = 0,
                 devices: Union[None, str, int, Sequence[int]] = None, workspace: str = "engine") -> None:
        self._serves_workspace = _one_of("workspace", workspace, ("engine", "caller")) == 1
        numbers = _device_numbers(devices)
        array = (ctypes.c_int32 * len(numbers))(*numbers)
        options = _library.EngineOptions(
            devices=array, num_devices=len(numbers),
            memory_limit_bytes=_library.size_in_bytes("memory_limit", memory_limit),
            num_threads=_library.whole_number("threads", threads, 0, _library.MAX_32))
        self._num_running = 0
        self._lock = threading.Lock()
        self._handle: Optional[_library.Handle] = _library.Handle("spmm_engine_destroy")
        _library.check(_library.library().spmm_engine_create(options, self._handle.pointer))

    def multiply(self, a: Matrix, b: Matrix, *, blocksize: Optional[Blocksize] = None, backend: Optional[str] = None,
                 kernel: Optional[str] = None, threads: int = 0, verify: Verify = 0, transpose_a: bool = False,
                 transpose_b: bool = False, rows: Optional[Rows] = None, on_saturation: str = "report",
                 progress: Optional[Progress] = None, report: Optional[Dict[str, Any]] = None, dtype: Any = None,
                 pattern: Any = None, alpha: Any = 1, beta: Any = None, c: Optional[Matrix] = None,
                 triangle: Optional[str] = None, no_diagonal: bool = False, at_least: int = 0, keep: int = 0) -> Product:
        """C = A * B; see :func:`spmm.multiply`."""
        _check_report(report)
        selection = _selection_fields(triangle, no_diagonal, at_least, keep)
        onto = Onto(pattern, alpha, beta, c)
        if _device.is_on_device(a):
            if blocksize is not None or transpose_a or transpose_b or rows is not None or verify or progress is not None:
                raise UsageError("blocksize, transpose_a, transpose_b, rows, verify, progress",
                                 "do not go with matrices on a device", "leave them out")
            call = _device.Call(a, self._serves_workspace)
            left, right = call.arrays_of([a, b], ["matrix A", "matrix B"], dtype)
            call.add(onto)
            return self._run_on_device(
                call, lambda *rest: _library.library().spmm_multiply_device(rest[0], left.struct, right.struct, *rest[1:]),
                lambda handle: call.matrix(handle, left, right), _options(backend, kernel, on_saturation, **selection), report)
        torch = _device.torch_of(a) if _device.torch_of(b) is not None else None
        a, b = of_host(a, "matrix A"), of_host(b, "matrix B")
        m = common_side(a, b, blocksize)
        kind = kind_of([elements_name(a, "matrix A"), elements_name(b, "matrix B")], dtype)
        if selection and kind is not SATURATING:
            raise UsageError("triangle, no_diagonal, at_least, keep", "belong to products of uint32", 'give dtype="uint32"')
        if kind is not SATURATING or onto.matrix is not None:  # these are made here
            a, transpose_a = (transposed(a, "matrix A") if transpose_a else a), False
            b, transpose_b = (transposed(b, "matrix B") if transpose_b else b), False
        left = Operand(a, m, "matrix A", kind)
        right = left if a is b else Operand(b, m, "matrix B", kind)
        call = _Call(progress, backend, kernel, threads, verify, rows, on_saturation, selection,
                     transpose_a=transpose_a, transpose_b=transpose_b)
        given = None
        if onto.matrix is not None:
            given = Operand(of_host(onto.matrix, "matrix C"), m, "matrix C", KINDS[kind.result], ascends=True)
        onto.give(call.options, given and given.struct, kind)
        result = _library.Handle("spmm_matrix_destroy")
        made = _library.Handle("spmm_report_destroy")
        try:
            with self._use() as engine:
                call.run(lambda: _library.library().spmm_multiply_bsr(
                    engine, left.struct, right.struct, call.options, result.pointer, made.pointer))
        except BaseException:  # a traceback keeps this frame: what it holds goes now
            result.close()
            made.close()
            raise
        if report is not None:
            report.update(_json_of(made))
        product = from_handle(result, wants_scipy=torch is None and not (isinstance(a, tuple) and isinstance(b, tuple)))
        if torch is not None:
            return as_tensor(product, torch)
        if not isinstance(product, Bsr):
            product.saturated_elements = _library.library().spmm_report_num_saturated(made.pointer)
        return product

    def gram(self, a: Matrix, *, transpose_a: bool = False, dtype: Any = "uint32", **options: Any) -> Product:
        """A times its transpose; see :func:`spmm.gram`."""
        if _device.is_on_device(a):
            raise UsageError("gram", "is for matrices in host memory", "multiply(a, b) with a transpose b that lies on the device")
        if "transpose_b" in options:
            raise UsageError("gram", "takes no transpose_b", "give transpose_a=True for A^T * A, or leave it out for A * A^T")
        return self.multiply(a, a, transpose_a=transpose_a, transpose_b=not transpose_a, dtype=dtype, **options)

    def multiply_many(self, products: Union[Iterable[Tuple[Matrix, Matrix]], Batch], b: Optional[Batch] = None, *,
                      kernel: Optional[str] = None, on_saturation: str = "report", report: Optional[Dict[str, Any]] = None,
                      dtype: Any = None) -> Sequence[Any]:
        """Many products; see :func:`spmm.multiply_many`."""
        _check_report(report)
        products, first = _many.taken(products, b)
        if first is None:
            return []
        if not _device.is_on_device(first):
            options = {"kernel": kernel, "on_saturation": on_saturation, "report": report}
            return _many.multiply_on_host(self.multiply, products, b, dtype, options)
        call = _many.ManyCall(products, b, self._serves_workspace, dtype)
        return self._run_on_device(call, call.multiply, call.products, _options(None, kernel, on_saturation), report)

    def plan(self, a: Matrix, b: Matrix, *, kernel: Optional[str] = None, dtype: Any = None, pattern: Any = None) -> _plan.Plan:
        """A plan for products of two patterns on a GPU; see :func:`spmm.plan`."""
        if not _device.is_on_device(a) or isinstance(a, tuple):
            raise UsageError("plan", "is for tensors of PyTorch and matrices of CuPy on a GPU",
                             "use multiply() or operator(), or the C or C++ interface")
        return _plan.Plan(self, a, b, kernel, dtype, pattern)

    def operator(self, a: Matrix, b: Matrix, *, pattern: Any = None) -> _operators.Operator:
        """A product of two patterns for torch.compile, gradients and jax.jit; see :func:`spmm.operator`."""
        if _device.torch_of(a) is not None and _device.is_on_device(a):
            return _operators.TorchOperator(self, a, b, pattern)
        if isinstance(a, tuple) and _device.is_on_device(a) and type(a[2]).__module__.startswith(("jax", "jaxlib")):
            return _operators.JaxOperator(self, a, b, pattern)
        raise UsageError("operator", "is for tensors of PyTorch and arrays of JAX on a GPU", "use multiply() or plan()")

    def _run_on_device(self, call: _device.Call, function: Callable[..., int], result: Callable[[_library.Handle], Any],
                       options: Any, report: Optional[Dict[str, Any]]) -> Any:
        # On this thread: it has the device current for the memory that the library asks for.
        handle = _library.Handle("spmm_device_matrix_destroy")
        made = _library.Handle("spmm_report_destroy")
        try:
            with self._use() as engine:
                call.check(function(engine, call.struct, options, handle.pointer,
                                    made.pointer if report is not None else None))
            if report is not None:
                report.update(_json_of(made))
            return result(handle)
        finally:
            call.close(handle)

    def multiply_files(self, a: Path, b: Path, out: Path, *, backend: Optional[str] = None,
                       kernel: Optional[str] = None, threads: int = 0, verify: Verify = 0,
                       durable: bool = False, no_clobber: bool = False, transpose_a: bool = False,
                       transpose_b: bool = False, rows: Optional[Rows] = None, on_saturation: str = "report",
                       progress: Optional[Progress] = None, pattern: Optional[Path] = None,
                       triangle: Optional[str] = None, no_diagonal: bool = False, at_least: int = 0,
                       keep: int = 0) -> Dict[str, Any]:
        """Multiplies two files into a third, with memory for a part of the result only. Returns the report.

        pattern: a file at whose blocks alone the product is computed, in memory. triangle to keep: as of spmm.multiply."""
        call = _Call(progress, backend, kernel, threads, verify, rows, on_saturation,
                     _selection_fields(triangle, no_diagonal, at_least, keep), durable=durable, no_clobber=no_clobber,
                     transpose_a=transpose_a, transpose_b=transpose_b)
        paths = [_encoded(name, path) for name, path in (("a", a), ("b", b), ("out", out))]
        if pattern is not None:
            call.options.pattern = _encoded("pattern", pattern)
        made = _library.Handle("spmm_report_destroy")
        with self._use() as engine:
            call.run(lambda: _library.library().spmm_multiply_files(
                engine, *paths, call.options, made.pointer))
        return _json_of(made)

    def trim(self) -> None:
        """Gives the device memory back that is kept for later products and not in use. Waits for nothing."""
        with self._use() as engine:
            _library.check(_library.library().spmm_engine_trim(engine))

    def close(self) -> None:
        """Gives everything back. Errors: UsageError while a product is running."""
        with self._lock:
            if self._num_running:
                raise UsageError("Engine.close", "a product is running", "wait for it")
            handle, self._handle = self._handle, None
        if handle is not None:
            handle.close()

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_handle", None) is not None:
            self.close()

    @contextlib.contextmanager
    def _use(self) -> Iterator[ctypes.c_void_p]:
        """Keeps the engine from being closed."""
        with self._lock:
            if self._handle is None:
                raise UsageError("Engine", "is closed", "make another one")
            self._num_running += 1
            pointer = self._handle.pointer
        try:
            yield pointer
        finally:
            with self._lock:
                self._num_running -= 1


def _json_of(made: _library.Handle) -> Dict[str, Any]:
    report: Dict[str, Any] = json.loads(_library.library().spmm_report_json(made.pointer).decode())
    return report


def multiply(a: Matrix, b: Matrix, *, blocksize: Optional[Blocksize] = None, backend: Optional[str] = None,
             kernel: Optional[str] = None, threads: int = 0, verify: Verify = 0, transpose_a: bool = False,
             transpose_b: bool = False, rows: Optional[Rows] = None, on_saturation: str = "report",
             progress: Optional[Progress] = None, report: Optional[Dict[str, Any]] = None, dtype: Any = None,
             pattern: Any = None, alpha: Any = 1, beta: Any = None, c: Optional[Matrix] = None, triangle: Optional[str] = None,
             no_diagonal: bool = False, at_least: int = 0, keep: int = 0) -> Product:
    """C = A * B on an engine of its own (:class:`Engine` for many products), with the same bits on every device.

    The type of the elements, which both have, says that of the result: float64 gives float64; float32, float16 and bfloat16
    give float32, each element by fused multiply-adds in one order; int8 to int64, uint8 and uint32 give int64, modulo 2**64;
    uint16 and truth values give uint32, each element at most 2**32 - 1. dtype="uint32" asks for that product of whole
    numbers from 0 to 65535 of any type, which are converted; dtype="int64" of uint16 for one modulo 2**64. kernel, verify and
    on_saturation="error" belong to products of uint32.

    a, b: matrices of SciPy, tensors of PyTorch (dense, sparse_coo, sparse_csr or sparse_bsr), two-dimensional arrays of
    NumPy and others, or block-CSR arrays (indptr, indices, data), whose elements are read where they are.
    Elements that are stored several times are added up as numbers, truth values, too: two times True is 2.
    On a GPU: sparse_bsr and sparse_csr tensors of PyTorch give such tensors, CuPy's csr_matrix gives one, and tuples of
    arrays with __cuda_array_interface__ (JAX has it) give a DeviceResult of arrays that other libraries
    take by DLPack. The current stream is used, results lie in memory of the caller's library, and nothing is copied to the
    host.
    Returns a bsr_array; if both are tuples a Bsr, if both are tensors a sparse_bsr (sparse_csr for blocks of
    side 1) tensor. PyTorch has int64, CuPy float64 for uint32.

    blocksize: side of the blocks, if the matrices have none or others: 8 or (8, 8). backend: "cuda" or "cpu". kernel: by name.
    threads: at most. verify: N proves the block rows of N blocks of A; "full" or True: the whole result (report["proof"]).
    transpose_a, transpose_b: multiply by the transposes, which are made while the matrices are read. rows: (first, end),
    block rows of the result that are computed, the others stay empty; end = None: up to the last one. progress: called
    with stage, work done and total, from another thread; an exception of it cancels the product. report: a
    dictionary, which gets what `spmm --report` writes. on_saturation: "error" raises a SaturationError if elements of
    the result are 2**32 - 1; otherwise the result's saturated_elements and the report say how many.

    Of products of uint32, elements of the result that are kept, in this order; all others are zero, and report
    ["dropped_elements"] counts them: triangle: "upper" computes elements with column >= row alone. no_diagonal: drops those
    with column == row. at_least: drops smaller ones. keep: of each row of elements the largest, of equal ones the lower columns;
    0: all.

    Not for results of uint32: alpha, beta, c: alpha * A * B + beta * C. Each element is fma(alpha, sum, beta * c) in the type
    of the result; beta is 1 if c is given, and 0 does not read its elements. c has blocks for all that have a product, else
    an error names the one that it lacks.
    pattern: a matrix whose blocks alone are computed, and all of them, whatever its values are; True: those of c. On a GPU
    block columns of such a matrix ascend in each row.
    Errors: ShapeError, FormatError (both are ValueErrors), OutOfMemory, DeviceError, VerifyError, SaturationError,
    UsageError.
    Ctrl-C ends the product before KeyboardInterrupt is raised.

    >>> import numpy as np, spmm
    >>> spmm.multiply(np.array([[60000, 60000]]), np.array([[60000], [60000]])).toarray()
    array([[7200000000]])
    >>> spmm.multiply(np.array([[60000, 60000]]), np.array([[60000], [60000]]), dtype="uint32").toarray()
    array([[4294967295]], dtype=uint32)
    >>> spmm.multiply(np.array([[0.5, 2]]), np.array([[0.25], [1]])).toarray()
    array([[2.125]])
    >>> spmm.multiply(np.array([[0.5, 2]]), np.array([[0.25], [1]]), alpha=2, c=np.array([[1.0]])).toarray()
    array([[5.25]])
    >>> spmm.multiply(np.array([[1], [2]]), np.array([[3, 4]]), pattern=np.array([[1, 0], [0, 1]])).toarray()
    array([[3, 0],
           [0, 8]])
    >>> spmm.multiply(np.array([[1, -1]]), np.array([[1], [1]]), dtype="uint32")
    Traceback (most recent call last):
        ...
    spmm._errors.FormatError: matrix A, row 0, column 1: element -1 is no whole number from 0 to 65535; scale or round the matrix before
    """
    options: Dict[str, Any] = dict(blocksize=blocksize, backend=backend, kernel=kernel, threads=threads, verify=verify,
                                   transpose_a=transpose_a, transpose_b=transpose_b, rows=rows,
                                   on_saturation=on_saturation, progress=progress, report=report, dtype=dtype,
                                   pattern=pattern, alpha=alpha, beta=beta, c=c, triangle=triangle,
                                   no_diagonal=no_diagonal, at_least=at_least, keep=keep)
    if _device.is_on_device(a):
        return _engine_of_device(_device.number_of(a)).multiply(a, b, **options)
    with Engine() as engine:
        return engine.multiply(a, b, **options)


def gram(a: Matrix, *, transpose_a: bool = False, dtype: Any = "uint32", **options: Any) -> Product:
    """A * A^T, or with transpose_a A^T * A, of one matrix in host memory; options as of :func:`spmm.multiply`.

    >>> import numpy as np, spmm
    >>> baskets = np.array([[1, 1, 0], [1, 1, 1], [0, 1, 1]])  # of customers, by items
    >>> spmm.gram(baskets, transpose_a=True, triangle="upper", no_diagonal=True, at_least=2).toarray()
    array([[0, 2, 0],
           [0, 0, 2],
           [0, 0, 0]], dtype=uint32)
    """
    with Engine() as engine:
        return engine.gram(a, transpose_a=transpose_a, dtype=dtype, **options)


def multiply_many(products: Union[Iterable[Tuple[Matrix, Matrix]], Batch], b: Optional[Batch] = None, *,
                  kernel: Optional[str] = None, on_saturation: str = "report",
                  report: Optional[Dict[str, Any]] = None, dtype: Any = None) -> Sequence[Any]:
    """Many products of matrices in one call, each as :func:`spmm.multiply` would give it.

    products: pairs (a, b) of what spmm.multiply takes, all of one library, block side and type of elements, on a GPU also of
    indices; sizes may differ. For dtype="uint32", elements are checked and converted together. No products give an empty list.
    With b: products has the left matrices, b the right ones, each in one object, which costs the host least:
    - a sparse_bsr or sparse_csr tensor of PyTorch, [products, rows, cols];
    - of matrices with as many blocks each, (indptr, indices, data[, shape]): indptr [products, rows / m + 1], indices
      [products, blocks], data [products, blocks, m, m] or, for CSR, [products, blocks]; shape: (rows, cols) of each.
    Returns a :class:`DeviceProducts`, also of the host: a sequence of matrices of that library, made of slices of arrays that all share
    when they are asked for. Its saturated_elements are those of all products.
    Options, errors: as spmm.multiply; messages name the product: "matrix A, product 17, indices[5]".

    With PyTorch, then with CuPy:

        pairs = [(a.to_sparse_bsr((8, 8)), b.to_sparse_bsr((8, 8))) for a, b in zip(lefts, rights)]
        first = spmm.multiply_many(pairs)[0].to_dense()

        products = spmm.multiply_many([(a, a.T.tocsr()) for a in matrices])
        first = products[0].toarray()

    A batch:

        a = torch.randint(0, 9, (100, 64, 64), device="cuda").to_sparse_bsr((8, 8))
        first = spmm.multiply_many(a, a)[0].to_dense()

    >>> import spmm
    >>> spmm.multiply_many([])
    []
    """
    products, first = _many.taken(products, b)
    options: Dict[str, Any] = dict(kernel=kernel, on_saturation=on_saturation, report=report, dtype=dtype)
    if _device.is_on_device(first):
        return _engine_of_device(_device.number_of(first)).multiply_many(products, b, **options)
    with Engine() as engine:
        return engine.multiply_many(products, b, **options)


def plan(a: Matrix, b: Matrix, *, kernel: Optional[str] = None, dtype: Any = None, pattern: Any = None) -> _plan.Plan:
    """A plan for products of matrices on a GPU whose pattern stays while their values change.

    a, b: what spmm.multiply takes on a GPU; products are fastest if later values are about as large as theirs. kernel:
    "rows", "row-spread" or "pair-list" for results of uint32. dtype, pattern, errors: as spmm.multiply.

        plan = spmm.plan(a, b)                              # tensors of PyTorch
        c = plan(a.values(), b.values())                    # as spmm.multiply(a, b), zero blocks included
        out = torch.empty((plan.num_blocks, 8, 8), dtype=torch.int32, device="cuda")
        plan.into(a16, b16, out)                            # elements as they are: a CUDA graph may capture it
        plan.into(a16, b16, out, alpha=2, beta=1)           # out += 2 * A * B, not of uint32
    """
    number = _device.number_of(a) if _device.is_on_device(a) else None
    return _engine_of_device(number).plan(a, b, kernel=kernel, dtype=dtype, pattern=pattern)


def operator(a: Matrix, b: Matrix, *, pattern: Any = None) -> _operators.Operator:
    """The product of two patterns on a GPU as an operator of PyTorch or JAX: values in, values of C out.

    a, b: sparse_bsr or sparse_csr tensors, or tuples (indptr, indices, data) of JAX's arrays, of any type but uint16. pattern:
    as spmm.multiply. torch.compile traces through; floats of PyTorch have gradients. The first operator of JAX compiles its
    call by the C++ compiler that CXX names, else c++. Keep the operator as long as what was made with it.

        multiply = spmm.operator(a, b)                      # tensors of PyTorch
        values = torch.compile(multiply)(a.values(), b.values())
        c = torch.sparse_bsr_tensor(multiply.indptr, multiply.indices, values, multiply.shape)
        multiply = spmm.operator((indptr, indices, data), (indptr, indices, data))    # of JAX
        values = jax.jit(multiply)(data, data)
    """
    number = _device.number_of(a) if _device.is_on_device(a) else None
    return _engine_of_device(number).operator(a, b, pattern=pattern)


_engines: Dict[Optional[int], Engine] = {}  # kept: the start of an engine would take longer than most products


def _engine_of_device(number: Optional[int]) -> Engine:
    return _engines.get(number) or _engines.setdefault(number, Engine(devices=number))


def trim() -> None:
    """Gives the device memory back that products outside of an Engine keep for later ones; see :meth:`Engine.trim`."""
    for engine in list(_engines.values()):
        engine.trim()


def multiply_files(a: Path, b: Path, out: Path, **options: Any) -> Dict[str, Any]:
    """Multiplies two files into a third on an engine of its own; options as of :meth:`Engine.multiply_files`."""
    with Engine() as engine:
        return engine.multiply_files(a, b, out, **options)


def read(path: Path, dtype: Any = None, shape: Optional[Tuple[int, int]] = None) -> Any:
    """A matrix from a file of blocks: a bsr_array, without SciPy a Bsr.

    dtype: uint16 for operands, uint32 for results; without it what the length of the file says. shape: rows and columns of
    the rectangle that was written: files are square. What lies outside must be zero.
    Errors: InputError, FormatError, ShapeError, IoError, OutOfMemory.

    >>> import numpy as np, spmm, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     spmm.write(folder + "/a.bin", np.array([[1, 2], [3, 4]]), blocksize=2)
    ...     spmm.read(folder + "/a.bin").toarray()
    ...     spmm.write(folder + "/b.bin", np.array([[5, 6, 7]]))
    ...     spmm.read(folder + "/b.bin", shape=(1, 3)).toarray()
    array([[1, 2],
           [3, 4]], dtype=uint16)
    array([[5, 6, 7]], dtype=uint16)
    """
    whole = read_arrays(path, dtype)
    return as_scipy(whole if shape is None else cut(whole, shape, os.fspath(path)))


def read_arrays(path: Path, dtype: Any = None) -> Any:
    """The same as a Bsr."""
    bits = 0 if dtype is None else 8 * np.dtype(dtype).itemsize
    matrix = _library.Handle("spmm_matrix_destroy")
    _library.check(_library.library().spmm_read(_encoded("path", path), bits, matrix.pointer))
    return from_handle(matrix, wants_scipy=False)


def write(path: Path, matrix: Matrix, *, blocksize: Optional[Blocksize] = None) -> None:
    """Writes a matrix to a file of blocks: block matrices of uint32 as results, others as operands. Files are square: a
    rectangle is padded with zeros, and read(path, shape=...) gives it back. Errors: FormatError, OutputError, IoError.
    """
    matrix = of_host(matrix, "matrix")
    operand = Operand(matrix, common_side(matrix, matrix, blocksize), "matrix", fits_result=True)
    _library.check(_library.library().spmm_write(_encoded("path", path), operand.struct))
