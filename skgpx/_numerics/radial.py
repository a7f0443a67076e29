"""Kernels that are functions of a scaled distance, at many points.

Conventions as in ``trigonometry``: inner loops run over rows, in full blocks. Points
and centres are divided by the lengthscales beforehand. Values have an absolute error of
1e-15.
"""

from __future__ import annotations

import numpy as np

from skgpx._numerics._jit import inlined, kernel
from skgpx._numerics.elementary import exp
from skgpx._types import Array, Index

RBF, MATERN_12, MATERN_32, MATERN_52 = range(4)
# Kinds of inputs, by their squared distance: that of numbers, one where categories
# differ, and the squared chord between two points of a cycle.
NUMBER, CATEGORY, CYCLE = range(3)

# Rows (or pairs of a point and a function) processed at a time.
_BLOCK = 256
_PAIRS = 32


@kernel
def radial_rows(
    code: int,
    points: Array,
    centres: Array,
    out: Array,
) -> None:
    """Write ``k(z_j, x_i)`` for points (d, n) and centres (m, d) into out (m, n).

    Parameters
    ----------
    code : int
        Kernel: one of the constants of this module.
    points, centres, out : ndarray
        out is C-contiguous.
    """
    for j in range(len(centres)):
        _squared_distances(points, centres[j], out[j])
        profile(code, out[j])


@kernel
def radial_slopes(
    code: int,
    points: Array,
    centres: Array,
    K: Array,
    W: Array,
) -> None:
    """As `radial_rows`, and write ``w = -(dk/dr) / r`` into W (m, n)."""
    for j in range(len(centres)):
        _squared_distances(points, centres[j], K[j])
        profile_and_slope(code, K[j], W[j])


@kernel
def radial_triangle(
    code: int,
    amplitude: float,
    X: Array,
    K: Array,
    W: Array,
) -> None:
    """Write the lower triangles of ``a k(x_i, x_j)`` and of ``w = -a (dk/dr) / r``.

    X has shape (n, d), K and W (n, n), whose entries above the diagonal stay.
    """
    points = np.ascontiguousarray(X.T)
    for i in range(len(X)):
        k = K[i, : i + 1]
        w = W[i, : i + 1]
        _squared_distances(points, X[i], k)
        profile_and_slope(code, k, w)
        for j in range(i + 1):
            k[j] *= amplitude
            w[j] *= amplitude


@kernel
def radial_stack(code: int, points: Array, out: Array) -> None:
    """Write ``k(x_i, x_j)``, j <= i, of several sets of points (s, m, d).

    Into the lower triangles of out (s, m, m), whose other entries stay.
    """
    for s in range(len(points)):
        columns = np.ascontiguousarray(points[s].T)
        for i in range(points.shape[1]):
            row = out[s, i, : i + 1]
            _squared_distances(columns, points[s, i], row)
            profile(code, row)


@kernel
def radial_sum(
    code: int,
    X: Array,
    centres: Array,
    weights: Array,
    out: Array,
) -> None:
    """Add ``Σ_j v_j k(z_j, x_i)`` at the rows of X (n, d) to out (n,)."""
    n, d = X.shape
    points = np.zeros((d, _BLOCK))
    row = np.empty(_BLOCK)
    total = np.empty(_BLOCK)
    for first in range(0, n, _BLOCK):
        size = min(_BLOCK, n - first)
        for i in range(size):
            for k in range(d):
                points[k, i] = X[first + i, k]
        total[:] = 0.0
        for j in range(len(centres)):
            _squared_distances(points, centres[j], row)
            profile(code, row)
            v = weights[j]
            for i in range(_BLOCK):
                total[i] += v * row[i]
        for i in range(size):
            out[first + i] += total[i]


@kernel
def radial_pairs(
    code: int,
    points: Array,
    centres: Array,
    weights: Array,
    index: Index,
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
    k = np.empty((_PAIRS, m))
    w = np.zeros((_PAIRS, m))
    ones = np.ones(m)
    # Σ v k, Σ v w and Σ v w z of each pair
    values = np.empty(_PAIRS)
    mass = np.empty(_PAIRS)
    mean = np.empty((_PAIRS, d))
    for first in range(0, len(points), _PAIRS):
        size = min(_PAIRS, len(points) - first)
        for p in range(size):
            _squared_distances(centres, points[first + p], k[p])
            profile_and_slope(code, k[p], w[p])
            v = weights[index[first + p]]
            for j in range(m):
                k[p, j] *= v[j]
                w[p, j] *= v[j]
        np.dot(k, ones, values)
        np.dot(w, ones, mass)
        np.dot(w, centres.T, mean)
        # ∇ Σ v k(r) = -Σ v w (x - z)
        for p in range(size):
            value[first + p] += values[p]
            for q in range(d):
                gradient[first + p, q] += mean[p, q] - points[first + p, q] * mass[p]


@inlined
def _squared_distances(points: Array, centre: Array, out: Array) -> None:
    """Sum of squares, up to two inputs per pass."""
    d = len(points)
    if d % 2 == 1:
        x = points[0]
        z = centre[0]
        for i in range(out.size):
            out[i] = (x[i] - z) * (x[i] - z)
    else:
        out[:] = 0.0
    for q in range(d % 2, d, 2):
        x = points[q]
        z = centre[q]
        x_next = points[q + 1]
        z_next = centre[q + 1]
        for i in range(out.size):
            r = x[i] - z
            r_next = x_next[i] - z_next
            out[i] += r * r + r_next * r_next


@inlined
def _fading(x: float) -> float:
    """``exp(x)``; zero below 3e-20.

    Matrices of short lengthscales would be full of numbers whose products are below the
    normal ones, with which the processor takes a hundred times as long.
    """
    return exp(x) if x > -45.0 else 0.0


@inlined
def _decay(root: float, square: float) -> tuple[float, float]:
    """``t = root r`` and ``exp(-t)``; t² must not overflow where that is zero."""
    t = root * np.sqrt(square)
    t = t if t < 700.0 else 700.0
    return t, _fading(-t)


@kernel
def profile(code: int, square: Array) -> None:
    """Turn squared distances into kernel values."""
    if code == RBF:
        for i in range(square.size):
            square[i] = _fading(-0.5 * square[i])
    elif code == MATERN_12:
        for i in range(square.size):
            r = np.sqrt(square[i])
            square[i] = _fading(-r)
    elif code == MATERN_32:
        # k = (1 + t) exp(-t) with t = √3 r
        for i in range(square.size):
            t, decay = _decay(1.7320508075688772, square[i])
            square[i] = (1.0 + t) * decay
    else:
        # k = (1 + t + t² / 3) exp(-t) with t = √5 r
        for i in range(square.size):
            t, decay = _decay(2.23606797749979, square[i])
            polynomial = 1.0 + t + t * t * (1.0 / 3.0)
            square[i] = polynomial * decay


@kernel
def profile_and_slope(code: int, square: Array, slope: Array) -> None:
    """As `profile`, and write ``w = -(dk/dr) / r``."""
    if code == RBF:
        for i in range(square.size):
            square[i] = _fading(-0.5 * square[i])
            slope[i] = square[i]
    elif code == MATERN_12:
        # no derivative at the kink at zero: take zero, the mean of its two sides
        for i in range(square.size):
            r = np.sqrt(square[i])
            square[i] = _fading(-r)
            slope[i] = square[i] / r if r > 1e-8 else 0.0
    elif code == MATERN_32:
        for i in range(square.size):
            t, decay = _decay(1.7320508075688772, square[i])
            square[i] = (1.0 + t) * decay
            slope[i] = 3.0 * decay
    else:
        for i in range(square.size):
            t, decay = _decay(2.23606797749979, square[i])
            polynomial = 1.0 + t + t * t * (1.0 / 3.0)
            square[i] = polynomial * decay
            slope[i] = (5.0 / 3.0) * (1.0 + t) * decay
