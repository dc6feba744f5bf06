"""Where the blocks of a matrix are."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._matrix import Matrix, of_host, pattern


def density(matrix: Matrix, cells: int = 100) -> np.ndarray:
    """Share of the blocks that are stored, for at most cells x cells parts of the matrix.

    Each value is stored blocks over all blocks that its cell covers: a full matrix is 1 everywhere, however its sides
    divide.

    >>> import numpy as np, spmm
    >>> spmm.density(np.triu(np.ones((6, 6), dtype=np.uint16)), cells=2).round(2)
    array([[0.67, 1.  ],
           [0.  , 0.67]])
    """
    bsr = pattern(of_host(matrix, "matrix"))
    assert bsr.shape is not None
    m = bsr.data.shape[1]
    num = [bsr.shape[0] // m, bsr.shape[1] // m]
    edges = [np.unique(np.linspace(0, n, min(cells, n) + 1).astype(np.int64)) for n in num]
    rows = np.repeat(np.arange(num[0]), np.diff(bsr.indptr))
    at = [np.searchsorted(edge, index, side="right") - 1 for edge, index in zip(edges, (rows, bsr.indices))]
    counts = np.zeros((len(edges[0]) - 1, len(edges[1]) - 1))
    np.add.at(counts, (at[0], at[1]), 1)
    return counts / np.outer(np.diff(edges[0]), np.diff(edges[1]))


def spy(matrix: Matrix, ax: Any = None, cells: int = 100, **options: Any) -> Any:
    """Draws density() with matplotlib; a full matrix looks full. Returns the axes.

    ax: axes to draw on. options: of imshow.
    """
    if ax is None:
        import matplotlib.pyplot

        ax = matplotlib.pyplot.gca()
    shape = pattern(of_host(matrix, "matrix")).shape
    assert shape is not None
    drawn = {"cmap": "Greys", "vmin": 0, "vmax": 1, "interpolation": "nearest",
             "extent": (0, shape[1], shape[0], 0), **options}
    ax.imshow(density(matrix, cells), **drawn)
    ax.set_aspect("equal")
    return ax
