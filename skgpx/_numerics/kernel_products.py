"""Products of a kernel matrix with vectors, tile by tile, in single precision.

The matrix is never stored. A tile is computed from scaled points, multiplied with both
of the blocks of vectors that it serves while it is in the cache, and overwritten. A
kernel is a sum of products of radial functions, as tables of numbers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics._jit import inlined, kernel
from skgpx._numerics.radial import MATERN_12, MATERN_32, RBF

Array = NDArray[np.float64]
Single = NDArray[np.float32]
Index = NDArray[np.int64]

# Beside the codes of ``radial``, which end at 3.
RATIONAL_QUADRATIC = 4

# Rows and columns of a tile: with both blocks of vectors it fits into a second-level
# cache of one megabyte.
TILE = 512


class RadialTerms(NamedTuple):
    """A sum of products of radial functions, of points in single precision.

    Attributes
    ----------
    points : ndarray of shape (q, n), float32
        Scaled inputs of all factors, one after the other; n is a multiple of `TILE`.
    ends : ndarray of shape (f + 1,), int64
        Factor j has the inputs from ``ends[j]`` to ``ends[j + 1]``.
    codes : ndarray of shape (f,), int64
        Constants of :mod:`skgpx._numerics.radial`, or `RATIONAL_QUADRATIC`.
    shapes : ndarray of shape (f,), float32
        ``α`` of rational quadratic factors.
    term : ndarray of shape (f + 1,), int64
        Term of each factor, increasing; the last entry is the number of terms.
    coefficients : ndarray of shape (number of terms,), float32
    """

    points: Single
    ends: Index
    codes: Index
    shapes: Single
    term: Index
    coefficients: Single


_ROUND = np.float32(12582912.0)
_LOG2_E = np.float32(1.4426950408889634)
_LOG_2 = np.float32(0.6931471805599453)
# log 2 split such that multiples of its leading part are exact
_HIGH, _LOW = np.float32(0.693359375), np.float32(-2.12194440e-4)
_HALF, _ONE, _TWO = np.float32(0.5), np.float32(1.0), np.float32(2.0)
_E3, _E4, _E5, _E6 = (np.float32(1.0 / f) for f in (6, 24, 120, 720))
_L3, _L5, _L7, _L9 = (np.float32(1.0 / f) for f in (3, 5, 7, 9))
_ROOT_2 = np.float32(1.4142135)
_ROOT_3, _ROOT_5 = np.float32(1.7320508), np.float32(2.2360680)
_THIRD, _LARGEST = np.float32(1.0 / 3.0), np.float32(87.0)
_SHIFT, _BIAS, _MANTISSA = np.int32(23), np.int32(127), np.int32(0x007FFFFF)
_ONE_BITS = np.int32(0x3F800000)


@kernel
def exp_minus(x: np.float32) -> np.float32:
    """``exp(-x)`` for x >= 0 in single precision, to 2e-7; zero from 87 on.

    As :func:`skgpx._numerics.elementary.exp`, with eight bits of exponent.
    """
    x = _LARGEST if x > _LARGEST else x
    t = np.float32(_ROUND - x * _LOG2_E)
    n = np.float32(t - _ROUND)
    r = -x - n * _HIGH
    r = r - n * _LOW
    r2 = r * r
    p = (_ONE + r) + r2 * ((_HALF + r * _E3) + r2 * ((_E4 + r * _E5) + r2 * _E6))
    scale = np.int32((t.view(np.int32) + _BIAS) << _SHIFT).view(np.float32)
    return p * scale if x < _LARGEST else np.float32(0.0)


@kernel
def log1p_single(u: np.float32) -> np.float32:
    """``log(1 + u)`` for u >= 0 in single precision, to 3e-7 relative."""
    x = np.float32(_ONE + u)
    bits = x.view(np.int32)
    n = np.float32((bits >> _SHIFT) - _BIAS)
    m = np.int32((bits & _MANTISSA) | _ONE_BITS).view(np.float32)
    # m in [√½, √2): log m = 2 artanh(s), s = (m - 1) / (m + 1)
    large = m > _ROOT_2
    m = m * _HALF if large else m
    n = n + _ONE if large else n
    s = (m - _ONE) / (m + _ONE)
    s2 = s * s
    tail = s2 * (_L3 + s2 * (_L5 + s2 * (_L7 + s2 * _L9)))
    # what rounding has taken from 1 + u
    lost = np.float32(u - np.float32(x - _ONE)) / x
    return n * _LOG_2 + (_TWO * (s + s * tail) + lost)


@inlined
def _squares(points: Single, i: int, columns: slice, out: Single) -> None:
    """Squared distances of point i to some others, four inputs per pass.

    Differences, not norms: near points far from the origin lose no digits.
    """
    d, q = len(points), 0
    for j in range(out.size):
        out[j] = np.float32(0.0)
    while q + 4 <= d:
        a, b = points[q, columns], points[q + 1, columns]
        c, e = points[q + 2, columns], points[q + 3, columns]
        xa, xb = points[q, i], points[q + 1, i]
        xc, xe = points[q + 2, i], points[q + 3, i]
        for j in range(out.size):
            u, v, w, z = a[j] - xa, b[j] - xb, c[j] - xc, e[j] - xe
            out[j] += (u * u + v * v) + (w * w + z * z)
        q += 4
    while q < d:
        a, xa = points[q, columns], points[q, i]
        for j in range(out.size):
            u = a[j] - xa
            out[j] += u * u
        q += 1


@inlined
def _profile(code: int, shape: np.float32, square: Single) -> None:
    """Turn squared distances into values of a factor."""
    if code == RBF:
        for j in range(square.size):
            square[j] = exp_minus(_HALF * square[j])
    elif code == MATERN_12:
        for j in range(square.size):
            square[j] = exp_minus(np.float32(np.sqrt(square[j])))
    elif code == MATERN_32:
        for j in range(square.size):
            t = _ROOT_3 * np.float32(np.sqrt(square[j]))
            square[j] = (_ONE + t) * exp_minus(t)
    elif code == RATIONAL_QUADRATIC:
        rate = _HALF / shape
        for j in range(square.size):
            square[j] = exp_minus(shape * log1p_single(rate * square[j]))
    else:
        for j in range(square.size):
            t = _ROOT_5 * np.float32(np.sqrt(square[j]))
            square[j] = (_ONE + t + t * t * _THIRD) * exp_minus(t)


@kernel
def _fill(
    terms: RadialTerms,
    row: int,
    column: int,
    one: Single,
    other: Single,
    K: Single,
) -> None:
    """Write the tile of the rows and columns from these two on."""
    columns = slice(column, column + TILE)
    for i in range(TILE):
        values = K[i]
        for j in range(TILE):
            values[j] = np.float32(0.0)
        for f in range(len(terms.codes)):
            term = terms.term[f]
            further = f > 0 and terms.term[f - 1] == term
            target = other if further else one
            points = terms.points[terms.ends[f] : terms.ends[f + 1]]
            _squares(points, row + i, columns, target)
            _profile(terms.codes[f], terms.shapes[f], target)
            if further:
                for j in range(TILE):
                    one[j] *= other[j]
            if terms.term[f + 1] != term:
                a = terms.coefficients[term]
                for j in range(TILE):
                    values[j] += a * one[j]


@kernel
def add_tiles(
    terms: RadialTerms,
    first: int,
    last: int,
    vectors: Single,
    out: Array,
) -> None:
    """Add what some tiles of the symmetric matrix contribute to its product.

    Tiles are numbered row by row in the lower triangle.

    Parameters
    ----------
    terms : RadialTerms
        Of n points.
    first, last : int
        Numbers of the first tile, and of the one after the last.
    vectors : ndarray of shape (n, k), float32, C-contiguous
    out : ndarray of shape (n, k), C-contiguous
        Sums within a tile are in single precision, those over tiles in double.

    Notes
    -----
    O(d + k) operations for each entry of a tile; memory for one tile.
    """
    k = vectors.shape[1]
    K, part = np.empty((TILE, TILE), np.float32), np.empty((TILE, k), np.float32)
    one, other = np.empty(TILE, np.float32), np.empty(TILE, np.float32)
    i = int((np.sqrt(8.0 * first + 1.0) - 1.0) / 2.0)
    i = i - 1 if i * (i + 1) // 2 > first else i
    i = i + 1 if (i + 1) * (i + 2) // 2 <= first else i
    j = first - i * (i + 1) // 2
    for _ in range(first, last):
        row, column = i * TILE, j * TILE
        _fill(terms, row, column, one, other, K)
        np.dot(K, vectors[column : column + TILE], part)
        for a in range(TILE):
            for b in range(k):
                out[row + a, b] += part[a, b]
        if i != j:
            np.dot(K.T, vectors[row : row + TILE], part)
            for a in range(TILE):
                for b in range(k):
                    out[column + a, b] += part[a, b]
        j += 1
        if j > i:
            i, j = i + 1, 0
