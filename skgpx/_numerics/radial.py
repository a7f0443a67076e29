"""Kernels that are functions of a scaled distance, at many points.

Conventions as in ``trigonometry``: rows come transposed, inner loops run over them.
Points and centres are divided by the lengthscales beforehand.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics import elementary
from skgpx._numerics._jit import inlined, kernel

Array = NDArray[np.float64]

RBF = 0
MATERN_12 = 1
MATERN_32 = 2
MATERN_52 = 3
RATIONAL_QUADRATIC = 4

_ROOT_3 = 1.7320508075688772
_ROOT_5 = 2.23606797749979

_exp = elementary.exp
_log = elementary.log


@kernel
def radial_rows(
    code: int, parameter: float, points: Array, centres: Array, out: Array
) -> None:
    """Write ``k(z_j, x_i)`` for points (d, n) and centres (m, d) into out (m, n).

    Parameters
    ----------
    code : int
        Which kernel: one of the constants of this module.
    parameter : float
        The exponent ``alpha`` of the rational quadratic; not used by the others.
    points, centres, out : ndarray
        out is C-contiguous.

    Notes
    -----
    Relative error 1e-15; 0.6 to 1 ns for an entry (AVX-512, d = 2 to 8).
    """
    for j in range(len(centres)):
        row = out[j]
        _squared_distances(points, centres[j], row)
        _profile(code, parameter, row)


@kernel
def radial_sum(
    code: int,
    parameter: float,
    points: Array,
    centres: Array,
    weights: Array,
    out: Array,
) -> None:
    """Add ``Σ_j v_j k(z_j, x_i)`` to out (n,), for weights v (m,)."""
    row = np.empty(points.shape[1])
    for j in range(len(centres)):
        _squared_distances(points, centres[j], row)
        _profile(code, parameter, row)
        v = weights[j]
        for i in range(row.size):
            out[i] += v * row[i]


@kernel
def radial_pairs(
    code: int,
    parameter: float,
    points: Array,
    centres: Array,
    weights: Array,
    index: NDArray[np.intp],
    value: Array,
    gradient: Array,
) -> None:
    """Add value and gradient of one function at each point.

    Parameters
    ----------
    points : ndarray of shape (p, d)
    centres : ndarray of shape (d, m), C-contiguous
        Transposed.
    weights : ndarray of shape (f, m)
        Coefficients of f functions.
    index : ndarray of shape (p,)
        Which function goes with which point.
    value, gradient : ndarray of shape (p,), (p, d)
        Added to; the gradient is in the scaled inputs.
    """
    d, m = centres.shape
    square, k, slope, ones = np.empty(m), np.empty(m), np.empty(m), np.ones(m)
    for p in range(len(points)):
        _squared_distances(centres, points[p], square)
        k[:] = square
        _profile(code, parameter, k)
        _slope(code, parameter, k, square, slope)
        v = weights[index[p]]
        value[p] += np.dot(k, v)
        for j in range(m):
            slope[j] *= v[j]
        # ∇ k(r) = -w (x - z)
        total = np.dot(slope, ones)
        for q in range(d):
            gradient[p, q] += np.dot(centres[q], slope) - points[p, q] * total


@inlined
def _squared_distances(points: Array, centre: Array, out: Array) -> None:
    out[:] = 0.0
    for q in range(len(points)):
        x, z = points[q], centre[q]
        for i in range(out.size):
            out[i] += (x[i] - z) * (x[i] - z)


@inlined
def _shortened(t: float) -> float:
    """Clip t where exp(-t) is no longer told from zero, and t² could overflow."""
    return t if t < 700.0 else 700.0


@kernel
def _profile(code: int, parameter: float, square: Array) -> None:
    """Turn squared distances into kernel values."""
    if code == RBF:
        for i in range(square.size):
            square[i] = _exp(-0.5 * square[i])
    elif code == MATERN_12:
        for i in range(square.size):
            square[i] = _exp(-np.sqrt(square[i]))
    elif code == MATERN_32:
        for i in range(square.size):
            t = _shortened(_ROOT_3 * np.sqrt(square[i]))
            square[i] = (1.0 + t) * _exp(-t)
    elif code == MATERN_52:
        for i in range(square.size):
            t = _shortened(_ROOT_5 * np.sqrt(square[i]))
            square[i] = (1.0 + t + t * t * (1.0 / 3.0)) * _exp(-t)
    else:
        # (1 + r² / (2 α))^-α
        for i in range(square.size):
            r2 = square[i] if square[i] < 1e300 else 1e300
            square[i] = _exp(-parameter * _log(1.0 + r2 / (2.0 * parameter)))


@kernel
def _slope(code: int, parameter: float, k: Array, square: Array, out: Array) -> None:
    """Write ``w = -(dk/dr) / r``, given the kernel and the squared distance."""
    if code == RBF:
        out[:] = k
    elif code == MATERN_12:
        # the kink at zero has no derivative; zero is the mean of its two sides
        for i in range(out.size):
            r = np.sqrt(square[i])
            out[i] = k[i] / r if r > 1e-8 else 0.0
    elif code == MATERN_32:
        for i in range(out.size):
            out[i] = 3.0 * _exp(-_ROOT_3 * np.sqrt(square[i]))
    elif code == MATERN_52:
        for i in range(out.size):
            t = _shortened(_ROOT_5 * np.sqrt(square[i]))
            out[i] = (5.0 / 3.0) * (1.0 + t) * _exp(-t)
    else:
        for i in range(out.size):
            out[i] = k[i] / (1.0 + square[i] / (2.0 * parameter))
