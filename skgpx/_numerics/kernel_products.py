"""Products of a kernel matrix with vectors, tile by tile, in single precision.

The matrix is never stored. A tile is computed from scaled points, multiplied with the
two blocks of vectors that need it while it is in the cache, and overwritten. A kernel
is a sum of products of radial functions, as tables of numbers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics._jit import inlined, kernel
from skgpx._numerics.radial import MATERN_12, MATERN_32, RBF
from skgpx._types import Array

Single = NDArray[np.float32]
Index = NDArray[np.int64]

# The next number after the codes of ``radial``, which end at 3.
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
_HIGH = np.float32(0.693359375)
_LOW = np.float32(-2.12194440e-4)
_HALF = np.float32(0.5)
_ONE = np.float32(1.0)
_TWO = np.float32(2.0)
_THIRD = np.float32(1.0 / 3.0)
_ROOT_2 = np.float32(1.4142135)
_ROOT_3 = np.float32(1.7320508)
_ROOT_5 = np.float32(2.2360680)
# exp(-x) in single precision is zero from here on
_LARGEST = np.float32(87.0)
# coefficients of the series of exp and of artanh
_E3, _E4, _E5, _E6 = (np.float32(1.0 / f) for f in (6, 24, 120, 720))
_L3, _L5, _L7, _L9 = (np.float32(1.0 / f) for f in (3, 5, 7, 9))
# layout of the bits of a float
_SHIFT = np.int32(23)
_BIAS = np.int32(127)
_MANTISSA = np.int32(0x007FFFFF)
_ONE_BITS = np.int32(0x3F800000)


@kernel
def exp_minus(x: np.float32) -> np.float32:
    """``exp(-x)`` for x >= 0 in single precision, to 2e-7; zero from 87 on.

    As :func:`skgpx._numerics.elementary.exp`, with eight bits of exponent.
    """
    x = _LARGEST if x > _LARGEST else x
    # -x = n log 2 + r
    t = np.float32(_ROUND - x * _LOG2_E)
    n = np.float32(t - _ROUND)
    r = -x - n * _HIGH
    r = r - n * _LOW
    # Taylor polynomial of order 6
    r2 = r * r
    high = (_E4 + r * _E5) + r2 * _E6
    p = (_ONE + r) + r2 * ((_HALF + r * _E3) + r2 * high)
    # times 2^n, written into the exponent bits
    bits = np.int32((t.view(np.int32) + _BIAS) << _SHIFT)
    scale = bits.view(np.float32)
    return p * scale if x < _LARGEST else np.float32(0.0)


@kernel
def log1p_single(u: np.float32) -> np.float32:
    """``log(1 + u)`` for u >= 0 in single precision, to 3e-7 relative."""
    x = np.float32(_ONE + u)
    # x = 2^n m with m in [√½, √2)
    bits = x.view(np.int32)
    n = np.float32((bits >> _SHIFT) - _BIAS)
    m = np.int32((bits & _MANTISSA) | _ONE_BITS).view(np.float32)
    is_large = m > _ROOT_2
    m = m * _HALF if is_large else m
    n = n + _ONE if is_large else n
    # log m = 2 artanh(s), s = (m - 1) / (m + 1)
    s = (m - _ONE) / (m + _ONE)
    s2 = s * s
    series = s2 * (_L3 + s2 * (_L5 + s2 * (_L7 + s2 * _L9)))
    # log(1 + u) - log(x) for the rounding of x
    correction = np.float32(u - np.float32(x - _ONE)) / x
    return n * _LOG_2 + (_TWO * (s + s * series) + correction)


@inlined
def _squares(
    points: Single,
    i: int,
    columns: slice,
    out: Single,
) -> None:
    """Squared distances of point i to the points of `columns`, four inputs per pass.

    Differences, not norms: close points far from the origin lose no digits.
    """
    d = len(points)
    for j in range(out.size):
        out[j] = np.float32(0.0)
    q = 0
    while q + 4 <= d:
        z0 = points[q, columns]
        z1 = points[q + 1, columns]
        z2 = points[q + 2, columns]
        z3 = points[q + 3, columns]
        x0 = points[q, i]
        x1 = points[q + 1, i]
        x2 = points[q + 2, i]
        x3 = points[q + 3, i]
        for j in range(out.size):
            r0 = z0[j] - x0
            r1 = z1[j] - x1
            r2 = z2[j] - x2
            r3 = z3[j] - x3
            out[j] += (r0 * r0 + r1 * r1) + (r2 * r2 + r3 * r3)
        q += 4
    while q < d:
        z0 = points[q, columns]
        x0 = points[q, i]
        for j in range(out.size):
            r0 = z0[j] - x0
            out[j] += r0 * r0
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
    product: Single,
    factor: Single,
    K: Single,
) -> None:
    """Write the tile that begins at this row and column.

    `product` and `factor`, (TILE,), are overwritten.
    """
    columns = slice(column, column + TILE)
    for i in range(TILE):
        values = K[i]
        for j in range(TILE):
            values[j] = np.float32(0.0)
        for f in range(len(terms.codes)):
            term = terms.term[f]
            continues = f > 0 and terms.term[f - 1] == term
            target = factor if continues else product
            points = terms.points[terms.ends[f] : terms.ends[f + 1]]
            _squares(points, row + i, columns, target)
            _profile(terms.codes[f], terms.shapes[f], target)
            if continues:
                for j in range(TILE):
                    product[j] *= factor[j]
            # the last factor of a term
            if terms.term[f + 1] != term:
                a = terms.coefficients[term]
                for j in range(TILE):
                    values[j] += a * product[j]


@kernel
def add_tiles(
    terms: RadialTerms,
    first: int,
    last: int,
    vectors: Single,
    out: Array,
) -> None:
    """Add the contributions of these tiles to the product of the symmetric matrix.

    Tiles are numbered row by row in the lower triangle.

    Parameters
    ----------
    terms : RadialTerms
        Of n points.
    first, last : int
        Number of the first tile, and one more than the number of the last.
    vectors : ndarray of shape (n, k), float32, C-contiguous
    out : ndarray of shape (n, k), C-contiguous
        Sums within a tile are in single precision, sums over tiles in double.

    Notes
    -----
    O(d + k) operations for each entry of a tile; memory for one tile.
    """
    k = vectors.shape[1]
    K = np.empty((TILE, TILE), np.float32)
    sums = np.empty((TILE, k), np.float32)
    product = np.empty(TILE, np.float32)
    factor = np.empty(TILE, np.float32)
    # the largest i with i (i + 1) / 2 <= first, whatever the rounding of the root
    i = int((np.sqrt(8.0 * first + 1.0) - 1.0) / 2.0)
    if i * (i + 1) // 2 > first:
        i -= 1
    if (i + 1) * (i + 2) // 2 <= first:
        i += 1
    j = first - i * (i + 1) // 2
    for _ in range(first, last):
        row = i * TILE
        column = j * TILE
        _fill(terms, row, column, product, factor, K)
        np.dot(K, vectors[column : column + TILE], sums)
        for a in range(TILE):
            for b in range(k):
                out[row + a, b] += sums[a, b]
        # its transpose, in the upper triangle
        if i != j:
            np.dot(K.T, vectors[row : row + TILE], sums)
            for a in range(TILE):
                for b in range(k):
                    out[column + a, b] += sums[a, b]
        j += 1
        if j > i:
            i += 1
            j = 0
