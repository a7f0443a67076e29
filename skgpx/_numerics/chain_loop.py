"""The data term of a block of chains, compiled: the part of a step that reads rows.

Loops are written out, and arrays are made by `np.empty` only: array expressions and
other functions take numba much longer to compile.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics import pointwise
from skgpx._numerics._jit import inlined, kernel
from skgpx._numerics.elementwise import add

Array = NDArray[np.float64]

# Rows processed at a time: their latent values and gradients stay in the cache, and
# products of 96 x 100 x 100 take OpenBLAS's path for small matrices, which does not
# pack its arguments.
ROWS = 96

_value_and_gradient = pointwise.value_and_gradient


@kernel
def add_data_term(
    formula: Any,
    parameters: Array,
    features: Array,
    y: Array,
    weights: Array,
    std: Array,
    nodes: Array,
    node_weights: Array,
    n_outputs: int,
    offset: Array,
    w: Array,
    temperature: float,
    with_value: bool,
    energy: Array,
    pull: Array,
) -> None:
    """Add the data term and its gradient in w, block of rows by block of rows."""
    n, s = len(features), w.shape[1] // n_outputs
    each = len(y) // n
    size = min(n, ROWS)
    f, slope = np.empty((size, w.shape[1])), np.empty((size, w.shape[1]))
    shifted, total = np.empty(f.shape), np.empty(f.shape)
    value, part, ones = np.empty((size, s)), np.empty(pull.shape), np.empty(n_outputs)
    ones[:] = 1.0
    for first in range(0, n, ROWS):
        b = min(ROWS, n - first)
        last = first + b
        phi = features[first:last]
        np.dot(phi, w, f[:b])
        _shift(f[:b], offset, first, ones, f[:b])
        for q in range(len(nodes)):
            at, out = f[:b], total[:b] if q == 0 else slope[:b]
            if len(nodes) > 1:
                _shift(f[:b], std, first, nodes[q], shifted[:b])
                at = shifted[:b]
            _value_and_gradient(
                formula, parameters, y[each * first : each * last], at, with_value,
                value[:b], out,
            )  # fmt: skip
            mass = temperature * node_weights[q]
            _weigh(weights[first:last], mass, with_value, value, out, energy)
            if q > 0:
                add(out, total[:b])
        np.dot(phi.T, total[:b], part)
        add(part, pull)


@inlined
def _shift(f: Array, table: Array, first: int, factor: Array, out: Array) -> None:
    """f plus a table (n, c) times a factor (c,); one row or column may serve all."""
    s = f.shape[1] // len(factor)
    for i in range(len(f)):
        row = table[min(first + i, len(table) - 1)]
        for c in range(len(factor)):
            step = row[min(c, len(row) - 1)] * factor[c]
            for j in range(c * s, (c + 1) * s):
                out[i, j] = f[i, j] + step


@inlined
def _weigh(
    weights: Array,
    factor: float,
    with_value: bool,
    value: Array,
    slope: Array,
    energy: Array,
) -> None:
    """Multiply the gradients by the weights; add the weighted values to the energy."""
    for i in range(len(weights)):
        omega = factor * weights[i]
        if omega != 1.0:
            for j in range(slope.shape[1]):
                slope[i, j] *= omega
        if with_value:
            for j in range(value.shape[1]):
                energy[j] += omega * value[i, j]
