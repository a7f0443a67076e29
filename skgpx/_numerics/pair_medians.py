"""Medians of squared differences over all pairs, without the pairs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics._jit import kernel

Array = NDArray[np.float64]

# How far from the rank a guess aims, as a part of the differences that are left.
_MARGIN = 0.02


@kernel
def median_squares(points: Array) -> Array:
    """Median of ``(x_ik - x_jk)²`` over all n² ordered pairs, for each column k.

    Pairs of a point with itself count; for an even number of pairs it is the mean of
    the two in the middle, as in NumPy.

    Parameters
    ----------
    points : ndarray of shape (n, d)
        n >= 1; finite.

    Returns
    -------
    medians : ndarray of shape (d,)

    Notes
    -----
    The differences of a sorted column that are at most t are counted by two pointers
    in O(n). The bounds of the search are differences that occur, so that it ends with
    the element itself; about a dozen counts, O(n log n) in all.
    """
    d = points.shape[1]
    medians = np.empty(d)
    for k in range(d):
        medians[k] = median_square(np.sort(points[:, k]))
    return medians


@kernel
def median_square(x: Array) -> float:
    """:func:`median_squares` of one column (n,), sorted."""
    n = x.size
    # of the n² differences the n smallest are zero, and each other one occurs twice
    first = ((n * n - 1) // 2 - n) // 2 + 1
    second = first if n % 2 else (n * n // 2 - n) // 2 + 1
    low = _difference(x, first)
    high = low
    if second > max(first, 0):
        count, _, above = _up_to(x, low)
        high = low if count >= second else above
    return 0.5 * (low * low + high * high)


@kernel
def _difference(x: Array, rank: int) -> float:
    """The difference of this rank, from 1, among the pairs of a sorted column."""
    if rank < 1:
        return 0.0
    low, high = 0.0, x[-1] - x[0]
    fewer, more, turn = 0, x.size * (x.size - 1) // 2, 0
    while low < high:
        # a line through both counts, aimed a little below and above the rank by turns;
        # every third time halfway
        inside = more - fewer
        aim = rank - fewer + (_MARGIN if turn % 2 else -_MARGIN) * inside
        share = aim / inside if turn % 3 < 2 else 0.5
        middle = low + min(max(share, 0.0), 1.0) * (high - low)
        middle = middle if middle < high else low
        count, below, above = _up_to(x, middle)
        if count >= rank:
            high, more = below, count
        else:
            low, fewer = above, count
        turn += 1
    return high


@kernel
def _up_to(x: Array, bound: float) -> tuple[int, float, float]:
    """Number of differences up to a bound, the largest of them, the next larger one."""
    count, below, above, j = 0, 0.0, np.inf, 0
    for i in range(x.size):
        while x[i] - x[j] > bound:
            j += 1
        count += i - j
        below = max(below, x[i] - x[j])
        if j > 0:
            above = min(above, x[i] - x[j - 1])
    return count, below, above
