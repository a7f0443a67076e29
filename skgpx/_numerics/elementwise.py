"""Copies and sums of arrays, in kernels.

``out[:] = source`` would also compile how numba writes the message of its error: four
seconds of a first fit. `tests/test_compilation.py` finds such assignments.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics._jit import inlined

Array = NDArray[np.float64]


@inlined
def copy(source: Array, out: Array) -> None:
    """Write an array into one of the same shape, both C-contiguous."""
    x, y = source.reshape(-1), out.reshape(-1)
    for i in range(y.size):
        y[i] = x[i]


@inlined
def add(part: Array, total: Array) -> None:
    """Add an array to one of the same shape, both C-contiguous."""
    x, y = part.reshape(-1), total.reshape(-1)
    for i in range(y.size):
        y[i] += x[i]
