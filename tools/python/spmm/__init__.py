"""Products of block-sparse matrices with the same bits on every device; of uint16 exact, saturating at 2**32 - 1.

>>> import numpy as np, scipy.sparse as sp, spmm
>>> a = sp.bsr_array(np.array([[1, 2, 0, 0], [3, 65535, 0, 0], [0, 0, 5, 0], [0, 0, 0, 0]]), blocksize=(2, 2))
>>> c = spmm.multiply(a.astype(np.uint16), a.astype(np.uint16))
>>> c.toarray()
array([[         7,     131072,          0,          0],
       [    196608, 4294836231,          0,          0],
       [         0,          0,         25,          0],
       [         0,          0,          0,          0]], dtype=uint32)

Matrices are SciPy's (bsr, csr, csc, coo, ...), tensors of PyTorch, two-dimensional arrays of NumPy and others, or
block-CSR arrays as a :class:`Bsr` or a tuple (indptr, indices, data), which need no SciPy. Elements are
floats or integers, of one type in both. Errors have classes below spmm.Error: help(spmm.Error).

On a GPU, with PyTorch:

    a = torch.randint(0, 2048, (4096, 4096), device="cuda").to_sparse_bsr((8, 8))
    c = spmm.multiply(a, a)                     # a sparse_bsr tensor of int64; c.saturated_elements
    b = spmm.csr_to_bsr(some_csr_tensor)        # blocks of the side that stores the fewest bytes
    cs = spmm.multiply_many([(a, a), (a, b)])   # many products in one call; cs[0], cs.saturated_elements
    cs = spmm.multiply_many(lefts, rights)      # batched tensors [products, rows, cols], or stacked arrays
    plan = spmm.plan(a, a)                      # for other values of the same pattern
    c = plan(a.values(), a.values())
    multiply = spmm.operator(a, a)              # for torch.compile, gradients, and jax.jit

With CuPy, whose matrices have no blocks, and whose arrays may have:

    a = cupyx.scipy.sparse.random(4096, 4096, density=0.01, format="csr")
    a.data = cupy.floor(a.data * 2048)
    c = spmm.multiply(a, a)                     # a csr_matrix of float64
    blocks = spmm.csr_to_bsr(a, block=(8, 8))   # (indptr, indices, data, shape)
    c = spmm.multiply(blocks, blocks)           # a DeviceResult: cupy.from_dlpack(c.data)
"""

from ._blocks import csr_to_bsr
from ._device import DeviceResult
from ._dlpack import DeviceArray
from ._engine import Engine, gram, has_cuda_device, multiply, multiply_files, multiply_many, operator, plan, read, trim, version, write
from ._errors import DeviceError as DeviceError  # not in __all__: help(spmm) would begin with pages of exceptions
from ._errors import Error as Error
from ._errors import FormatError as FormatError
from ._errors import InputError as InputError
from ._errors import InternalError as InternalError
from ._errors import Interrupted as Interrupted
from ._errors import IoError as IoError
from ._errors import OutOfMemory as OutOfMemory
from ._errors import OutputError as OutputError
from ._errors import SaturationError as SaturationError
from ._errors import ShapeError as ShapeError
from ._errors import UsageError as UsageError
from ._errors import VerifyError as VerifyError
from ._many import DeviceProducts
from ._matrix import Bsr, Product
from ._operators import Operator
from ._plan import Plan
from ._spy import density, spy

__all__ = ["Bsr", "DeviceArray", "DeviceProducts", "DeviceResult", "Engine", "Operator", "Plan", "Product", "csr_to_bsr",
           "density", "gram", "has_cuda_device", "multiply", "multiply_files", "multiply_many", "operator", "plan", "read", "spy",
           "trim", "version", "write"]


def __getattr__(name: str) -> str:
    """__version__: that of the library, which is loaded then."""
    if name == "__version__":
        return version().split()[1]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
