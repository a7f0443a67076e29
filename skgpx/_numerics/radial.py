"""Kernels that are functions of a scaled distance, at many points.

Conventions as in ``trigonometry``: inner loops run over rows, in full blocks. Points
and centres are divided by the lengthscales beforehand.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics import elementary
from skgpx._numerics._jit import inlined, kernel, reduction

Array = NDArray[np.float64]

RBF = 0
MATERN_12 = 1
MATERN_32 = 2
MATERN_52 = 3
RATIONAL_QUADRATIC = 4

_ROOT_3 = 1.7320508075688772
_ROOT_5 = 2.23606797749979
# Rows (or pairs of a point and a function) processed at a time.
_BLOCK = 256
_PAIRS = 32

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
        Kernel: one of the constants of this module.
    parameter : float
        The exponent ``alpha`` of the rational quadratic; not used by the others.
    points, centres, out : ndarray
        out is C-contiguous.

    Notes
    -----
    Relative error 1e-15; 1.5 to 2 ns per entry for d = 2 to 8 (AVX-512 in two halves).
    """
    for j in range(len(centres)):
        row = out[j]
        _squared_distances(points, centres[j], row)
        _profile(code, parameter, row)


@kernel
def radial_rows_and_slopes(
    code: int,
    parameter: float,
    points: Array,
    centres: Array,
    out: Array,
    slopes: Array,
) -> None:
    """As `radial_rows`, and write ``w = -(dk/dr) / r`` into slopes (m, n).

    The gradient of ``k(z_j, x_i)`` in the scaled centre is ``w (x_i - z_j)``.
    """
    for j in range(len(centres)):
        _squared_distances(points, centres[j], out[j])
        _profile_and_slope(code, parameter, out[j], slopes[j])


@kernel
def radial_sum(
    code: int,
    parameter: float,
    X: Array,
    centres: Array,
    weights: Array,
    out: Array,
) -> None:
    """Add ``Σ_j v_j k(z_j, x_i)`` at the rows of X (n, d) to out (n,)."""
    n, d = X.shape
    points, row, total = np.zeros((d, _BLOCK)), np.empty(_BLOCK), np.empty(_BLOCK)
    for first in range(0, n, _BLOCK):
        size = min(_BLOCK, n - first)
        for i in range(size):
            for k in range(d):
                points[k, i] = X[first + i, k]
        total[:] = 0.0
        for j in range(len(centres)):
            _squared_distances(points, centres[j], row)
            _profile(code, parameter, row)
            v = weights[j]
            for i in range(_BLOCK):
                total[i] += v * row[i]
        for i in range(size):
            out[first + i] += total[i]


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
    weights : ndarray of shape (f, m), C-contiguous
        Coefficients of f functions.
    index : ndarray of shape (p,)
        Which function goes with which point.
    value, gradient : ndarray of shape (p,), (p, d)
        Added to; the gradient is in the scaled inputs.
    """
    d, m = centres.shape
    k, slopes = np.empty((_PAIRS, m)), np.zeros((_PAIRS, m))
    ones, total, mass = np.ones(m), np.empty(_PAIRS), np.empty(_PAIRS)
    pulled = np.empty((_PAIRS, d))
    for first in range(0, len(points), _PAIRS):
        size = min(_PAIRS, len(points) - first)
        for p in range(size):
            _squared_distances(centres, points[first + p], k[p])
            _profile_and_slope(code, parameter, k[p], slopes[p])
            v = weights[index[first + p]]
            for j in range(m):
                k[p, j] *= v[j]
                slopes[p, j] *= v[j]
        # ∇ Σ v k(r) = -Σ v w (x - z)
        np.dot(k, ones, total)
        np.dot(slopes, ones, mass)
        np.dot(slopes, centres.T, pulled)
        for p in range(size):
            value[first + p] += total[p]
            for q in range(d):
                gradient[first + p, q] += pulled[p, q] - points[first + p, q] * mass[p]


@reduction
def radial_pair_values(
    code: int,
    parameter: float,
    X: Array,
    origin: Array,
    length_scale: Array,
    centres: Array,
    weights: Array,
    index: NDArray[np.intp],
    value: Array,
) -> None:
    """Add the value of one function at each point ``(x - origin) / length_scale``.

    X has shape (p, d); other arguments as in `radial_pairs`.
    """
    k, point = np.empty(centres.shape[1]), np.empty(len(centres))
    for p in range(len(X)):
        for q in range(len(point)):
            point[q] = (X[p, q] - origin[q]) / length_scale[q]
        _squared_distances(centres, point, k)
        _profile(code, parameter, k)
        v, total = weights[index[p]], 0.0
        for j in range(k.size):
            total += k[j] * v[j]
        value[p] += total


@inlined
def _squared_distances(points: Array, centre: Array, out: Array) -> None:
    """Sum of squares, up to two inputs per pass."""
    d = len(points)
    if d % 2 == 1:
        x, z = points[0], centre[0]
        for i in range(out.size):
            out[i] = (x[i] - z) * (x[i] - z)
    else:
        out[:] = 0.0
    for q in range(d % 2, d, 2):
        x, z, other, zz = points[q], centre[q], points[q + 1], centre[q + 1]
        for i in range(out.size):
            one, two = x[i] - z, other[i] - zz
            out[i] += one * one + two * two


@inlined
def _shortened(t: float) -> float:
    """Clip t where exp(-t) is zero in double precision, as t² could overflow."""
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
def _profile_and_slope(
    code: int, parameter: float, square: Array, slope: Array
) -> None:
    """As `_profile`, and write ``w = -(dk/dr) / r``."""
    if code == RBF:
        _profile(code, parameter, square)
        slope[:] = square
    elif code == MATERN_12:
        # no derivative at the kink at zero: take zero, the mean of its two sides
        for i in range(square.size):
            r = np.sqrt(square[i])
            square[i] = _exp(-r)
            slope[i] = square[i] / r if r > 1e-8 else 0.0
    elif code == MATERN_32:
        for i in range(square.size):
            t = _shortened(_ROOT_3 * np.sqrt(square[i]))
            decay = _exp(-t)
            square[i] = (1.0 + t) * decay
            slope[i] = 3.0 * decay
    elif code == MATERN_52:
        for i in range(square.size):
            t = _shortened(_ROOT_5 * np.sqrt(square[i]))
            decay = _exp(-t)
            square[i] = (1.0 + t + t * t * (1.0 / 3.0)) * decay
            slope[i] = (5.0 / 3.0) * (1.0 + t) * decay
    else:
        slope[:] = square
        _profile(code, parameter, square)
        for i in range(square.size):
            slope[i] = square[i] / (1.0 + slope[i] / (2.0 * parameter))
