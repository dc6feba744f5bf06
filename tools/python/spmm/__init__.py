"""Exact products of block-sparse matrices: elements of 16 bits, results of 32 bits that saturate at 2**32 - 1.

>>> import numpy as np, scipy.sparse as sp, spmm
>>> a = sp.bsr_array(np.array([[1, 2, 0, 0], [3, 65535, 0, 0], [0, 0, 5, 0], [0, 0, 0, 0]]), blocksize=(2, 2))
>>> c = spmm.multiply(a, a)
>>> c.toarray()
array([[         7,     131072,          0,          0],
       [    196608, 4294836231,          0,          0],
       [         0,          0,         25,          0],
       [         0,          0,          0,          0]], dtype=uint32)

Matrices are SciPy's (bsr, csr, csc, coo, ...), two-dimensional NumPy arrays, or block-CSR arrays as a :class:`Bsr` or
a tuple (indptr, indices, data), which need no SciPy. Elements must be whole numbers from 0 to 65535.
"""

from ._device import DeviceResult
from ._engine import Engine, has_cuda_device, multiply, multiply_files, read, version, write
from ._errors import (DeviceError, Error, FormatError, InputError, InternalError, Interrupted, IoError, OutOfMemory,
                      OutputError, SaturationError, ShapeError, UsageError, VerifyError)
from ._matrix import Bsr
from ._spy import density, spy

__all__ = ["Bsr", "DeviceError", "DeviceResult", "Engine", "Error", "FormatError", "InputError", "InternalError", "Interrupted",
           "IoError", "OutOfMemory", "OutputError", "SaturationError", "ShapeError", "UsageError", "VerifyError",
           "density", "has_cuda_device", "multiply", "multiply_files", "read", "spy", "version", "write"]


def __getattr__(name: str) -> str:
    """__version__: that of the library, which is loaded then."""
    if name == "__version__":
        return version().split()[1]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
