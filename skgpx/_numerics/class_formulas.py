"""Compiled value and gradient of likelihoods of classes, see `pointwise`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics import elementary
from skgpx._numerics._jit import Formula, inlined

Array = NDArray[np.float64]

# Degree of the polynomials in the targets of `averaged_softmax`.
HAZARD_DEGREE = 10

_exp = elementary.exp
_log = elementary.log


@Formula
def categorical(
    _p: Array, y: Array, f: Array, with_value: bool, value: Array, g: Array
) -> None:
    # exp(f - largest) and its sum over the outputs, for each row and chain
    n_outputs, total = f.size // value.size, np.empty(value.size)
    _subtract_largest(f, y.size, n_outputs, total, g)
    if with_value:
        s = total.size // y.size
        for i in range(y.size):
            own = (i * n_outputs + int(y[i])) * s
            v, d = value[i * s : (i + 1) * s], g[own : own + s]
            for j in range(s):
                v[j] = -d[j]
    for k in range(g.size):
        g[k] = _exp(g[k])
    _normalise(y, n_outputs, total, g)
    if with_value:
        for k in range(total.size):
            value[k] += _log(total[k])


@inlined
def _subtract_largest(
    f: Array, n_rows: int, n_outputs: int, top: Array, g: Array
) -> None:
    """Subtract from each latent value the largest of its row and chain, put in top."""
    s = top.size // n_rows
    for i in range(n_rows):
        t = top[i * s : (i + 1) * s]
        for k in range(n_outputs):
            x = f[(i * n_outputs + k) * s : (i * n_outputs + k + 1) * s]
            for j in range(s):
                t[j] = x[j] if k == 0 or x[j] > t[j] else t[j]
        for k in range(n_outputs):
            x = f[(i * n_outputs + k) * s : (i * n_outputs + k + 1) * s]
            d = g[(i * n_outputs + k) * s : (i * n_outputs + k + 1) * s]
            for j in range(s):
                d[j] = x[j] - t[j]


@inlined
def _normalise(y: Array, n_outputs: int, total: Array, g: Array) -> None:
    """Divide by the sum over the outputs, then subtract one at the observed class."""
    s = total.size // y.size
    for i in range(y.size):
        t = total[i * s : (i + 1) * s]
        for k in range(n_outputs):
            e = g[(i * n_outputs + k) * s : (i * n_outputs + k + 1) * s]
            for j in range(s):
                t[j] = e[j] if k == 0 else t[j] + e[j]
        for k in range(n_outputs):
            e = g[(i * n_outputs + k) * s : (i * n_outputs + k + 1) * s]
            hit = 1.0 if y[i] == k else 0.0
            for j in range(s):
                e[j] = e[j] / t[j] - hit


@Formula
def averaged_softmax(
    p: Array, targets: Array, f: Array, with_value: bool, value: Array, g: Array
) -> None:
    # the classes of a row and a chain c s, rows of targets as in `hazard_table`
    width = HAZARD_DEGREE + 4
    b = targets.size // width
    s = value.size // b
    size = f.size // b
    top, none = np.empty(s), np.empty(s)
    away, slope = np.empty(size), np.empty(size)
    for i in range(b):
        row, out = targets[i * width : (i + 1) * width], g[i * size : (i + 1) * size]
        _subtract_largest(f[i * size : (i + 1) * size], 1, size // s, top, away)
        own, total = int(row[0]) * s, value[i * s : (i + 1) * s]
        if with_value:
            for j in range(s):
                total[j] = -away[own + j]
        _add_integral(row, int(p[0]), with_value, away, none, slope, total, out)
        for j in range(s):
            out[own + j] -= 1.0


@inlined
def _add_integral(
    row: Array,
    n_points: int,
    with_value: bool,
    away: Array,
    none: Array,
    slope: Array,
    value: Array,
    out: Array,
) -> None:
    """Σ_q h_q (1 - Π_k F(u_q - f_k)), F = exp(-exp(r)), added to the value.

    Its derivative is written to `out`. The variable z of r is -1, ..., 1 on the grid
    for the class with the largest f, `away` (c s,) is the distance from that.
    """
    s, end, gaps = none.size, 0.0, n_points - 1.0
    for k in range(1, HAZARD_DEGREE + 1):
        end += k * row[3 + k]
    for k in range(away.size):
        away[k] *= -2.0 / row[2]
        out[k] = 0.0
    for q in range(n_points):
        h = 1.0 / gaps
        if q == n_points - 1:
            # what follows decreases geometrically
            h /= 1.0 - _exp(2.0 * end * h)
        _log_distributions(row, 2.0 * q / gaps - 1.0, end, away, none, slope)
        for j in range(s):
            none[j] = _exp(none[j])
            if with_value:
                value[j] += row[2] * h * (1.0 - none[j])
        for k in range(away.size // s):
            x, d = out[k * s : (k + 1) * s], slope[k * s : (k + 1) * s]
            for j in range(s):
                x[j] -= 2.0 * h * none[j] * d[j]


@inlined
def _log_distributions(
    row: Array, start: float, end: float, away: Array, log: Array, slope: Array
) -> None:
    """Σ_k log F (s,), and the derivative ``exp(r) r'`` of each -log F (c s,) in z."""
    c0, c1, c2, c3, c4, c5 = row[3], row[4], row[5], row[6], row[7], row[8]
    c6, c7, c8, c9, c10 = row[9], row[10], row[11], row[12], row[13]
    s = log.size
    for k in range(away.size // s):
        at, out = away[k * s : (k + 1) * s], slope[k * s : (k + 1) * s]
        for j in range(s):
            z = start + at[j]
            x = z if z < 1.0 else 1.0
            r, d = c9 + x * c10, c10
            r, d = c8 + x * r, r + x * d
            r, d = c7 + x * r, r + x * d
            r, d = c6 + x * r, r + x * d
            r, d = c5 + x * r, r + x * d
            r, d = c4 + x * r, r + x * d
            r, d = c3 + x * r, r + x * d
            r, d = c2 + x * r, r + x * d
            r, d = c1 + x * r, r + x * d
            r, d = c0 + x * r, r + x * d
            hazard = _exp(r + end * (z - x))
            out[j] = hazard * d
            log[j] = -hazard if k == 0 else log[j] - hazard
