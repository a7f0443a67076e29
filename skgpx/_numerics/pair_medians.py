"""Medians of squared differences over all pairs, without the pairs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics._jit import kernel

Array = NDArray[np.float64]


def median_squares(points: Array) -> Array:
    """Median of ``(x_ik - x_jk)²`` over all n² ordered pairs, for each column k.

    Pairs of a point with itself count; for an even number of pairs it is the mean of
    the two in the middle, as in NumPy.

    Parameters
    ----------
    points : ndarray of shape (n, d)
        n >= 1.

    Returns
    -------
    medians : ndarray of shape (d,)

    Notes
    -----
    One sort, and bisection over the values of differences, whose number up to a bound
    two pointers count in O(n): about ``30 n`` comparisons a column instead of n².
    """
    columns = np.sort(points.T, axis=1)
    return np.array([_median_square(column) for column in columns])


@kernel
def _median_square(x: Array) -> float:
    """Median for one sorted column."""
    n = x.size
    middle = (n * n + 1) // 2
    low = _difference(x, _pair_rank(middle, n))
    if n % 2 == 1:
        return low * low
    count, _, above = _up_to(x, low)
    high = low if count >= _pair_rank(middle + 1, n) else above
    return 0.5 * (low * low + high * high)


@kernel
def _pair_rank(rank: int, n: int) -> int:
    """Rank among unordered pairs: n zeros come first, then each pair twice."""
    return (rank - n + 1) // 2


@kernel
def _difference(x: Array, rank: int) -> float:
    """The difference of this rank, from 1, among the pairs of a sorted column."""
    low, high = 0.0, x[-1] - x[0]
    if rank <= 0 or _up_to(x, low)[0] >= rank:
        return 0.0
    # fewer than `rank` differences are up to `low`; `high` is one, and so many are
    while True:
        bound = 0.5 * (low + high)
        if bound <= low or bound >= high:
            return high
        count, below, above = _up_to(x, bound)
        if count >= rank:
            high = below
        elif above >= high:
            return high
        else:
            low = bound


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
