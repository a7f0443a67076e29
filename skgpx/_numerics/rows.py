"""Rows of a table, whatever their order, and the spread of their columns."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def distinct_rows(table: Array, weights: Array) -> tuple[NDArray[np.intp], Array]:
    """Distinct rows of positive weight, in lexicographic order.

    Parameters
    ----------
    table : ndarray of shape (n, k)
    weights : ndarray of shape (n,)
        Not negative.

    Returns
    -------
    positions : ndarray of shape (r,)
        Position in the table of the first of each set of equal rows.
    totals : ndarray of shape (r,)
        Weight of each set.

    Notes
    -----
    O(n k log n). Positive and negative zeros are equal.
    """
    kept = np.flatnonzero(weights > 0.0)
    # the last key of lexsort is the primary one
    order = kept[np.lexsort(table[kept].T[::-1])]
    ordered = table[order]
    first = np.ones(len(order), dtype=bool)
    first[1:] = np.any(ordered[1:] != ordered[:-1], axis=1)
    totals = np.bincount(np.cumsum(first) - 1, weights=weights[order])
    return order[first], totals.astype(np.float64, copy=False)


def thinning(n_rows: int, largest: int) -> slice:
    """Every k-th row, with the smallest k that leaves at most `largest` of them."""
    step = -(-n_rows // largest)
    return slice(None, None, step)


def sample_distinct_rows(
    X: Array,
    y: Array,
    size: int,
    salt: int,
) -> NDArray[np.intp] | None:
    """All copies of ``size`` rows (X, y) drawn among the distinct ones.

    Those with the smallest hashes: any order of the rows, and any number of copies of
    each, give the same sample, and it has nothing to do with how rows are arranged.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    y : ndarray of shape (n,) or (n, t)
    size : int
    salt : int
        Seed, at least zero and below 2^63.

    Returns
    -------
    chosen : ndarray or None
        Increasing positions; None if there are no more than ``size`` distinct rows.

    Notes
    -----
    O(n d). With more than 64 copies of each row on average the sample is smaller.
    """
    n = len(y)
    if n <= size:
        return None
    hashes = np.full(n, salt, np.uint64)
    for column in (*np.atleast_2d(y.T), *X.T):
        # positive and negative zeros are equal
        hashes = _mixed(hashes ^ (column + 0.0).view(np.uint64))
    wanted = 1.1 * size
    while True:
        share = min(wanted / n, 1.0)
        rows = np.flatnonzero(hashes <= np.uint64(int(share * (2**64 - 2**12))))
        distinct = np.unique(hashes[rows])
        if len(distinct) > size or share == 1.0 or wanted >= 64 * size:
            break
        wanted *= 2.0
    if len(distinct) <= size and share == 1.0:
        return None
    last = distinct[min(size, len(distinct)) - 1]
    return rows[hashes[rows] <= last]


def _mixed(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Hash each number (splitmix64), in arithmetic modulo 2^64."""
    value = bits + np.uint64(0x9E3779B97F4A7C15)
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


# ---- Spread of columns ---------------------------------------------------------------


# Squares and cubes of numbers up to this are numbers, and of those from its inverse not
# zero.
LARGEST = 1e120


def mean_and_spread(
    values: Array,
    weights: Array | None,
    rounding: float,
) -> tuple[Array, Array]:
    """Mean and standard deviation over the rows, one where nothing varies.

    Parameters
    ----------
    values : ndarray of shape (n,) or (n, d)
    weights : ndarray of shape (n,) or None
        Not all zero.
    rounding : float
        Part of the largest absolute value up to which a standard deviation counts as
        rounding: the column is constant.

    Returns
    -------
    mean, std : ndarray of shape () or (d,)
    """
    # in units of the largest entry, so that squares neither overflow nor underflow
    largest = np.max(np.abs(values), axis=0, initial=0.0)
    size = np.where(largest > 0.0, largest, 1.0)
    scaled = values / size
    mean = np.average(scaled, axis=0, weights=weights)
    std = np.sqrt(np.average((scaled - mean) ** 2, axis=0, weights=weights))
    return mean * size, np.where(std > rounding, std * size, 1.0)


def weighted_quantiles(values: Array, weights: Array, levels: list[float]) -> Array:
    """Quantiles of numbers (n,), each one of them: the same for equal rows merged."""
    order = np.argsort(values)
    level = np.cumsum(weights[order])
    position = np.searchsorted(level, np.array(levels) * level[-1])
    return values[order][np.minimum(position, values.size - 1)]


class InputFrame(NamedTuple):
    """Columns standardised, as those of training rows, with outliers brought closer.

    A few entries far outside would otherwise set the scale of all. Beyond a fence F the
    distance z from the median becomes ``F + u log(1 + (z - F) / u)``: one to one, with
    a continuous slope, and the identity up to the fence.

    Attributes
    ----------
    middle, fence, unit : ndarray of shape (d,)
        Median, F and u; an infinite F where nothing is far outside.
    centre, scale : ndarray of shape (d,)
        Mean and standard deviation of the columns whose outliers are closer.
    """

    middle: Array
    fence: Array
    unit: Array
    centre: Array
    scale: Array

    @classmethod
    def of(
        cls,
        values: Array,
        weights: Array | None,
        rounding: float = 1e-14,
    ) -> InputFrame:
        """From rows (n, d), quantiles by up to 20 000 of them; O(n d).

        A standard deviation up to `rounding` times the largest entry is none.
        """
        counts = np.ones(len(values)) if weights is None else weights
        some = np.flatnonzero(counts > 0.0)
        some = some[:: -(-len(some) // 20_000)]
        levels = [0.025, 0.5, 0.975]
        quantiles = [
            weighted_quantiles(x, counts[some], levels) for x in values[some].T
        ]
        low, middle, high = np.reshape(quantiles, (-1, 3)).T
        span = high - low
        # up to rounding all are equal
        spread = span > 1e-14 * np.max(np.abs(values[some]), axis=0, initial=0.0)
        # 9.8 standard deviations of a normal distribution, whose span is 3.92 of them
        fence = np.where(spread, 2.5 * span, np.inf)
        unit, zero = np.where(spread, span / 3.92, 1.0), np.zeros(len(span))
        closer = cls(middle, fence, unit, zero, zero + 1.0)(values)
        return cls(middle, fence, unit, *mean_and_spread(closer, weights, rounding))

    def __call__(self, values: Array) -> Array:
        """Rows (n, d) in this frame."""
        distance = values - self.middle
        beyond = np.maximum(np.abs(distance) - self.fence, 0.0)
        within = np.minimum(np.abs(distance), self.fence)
        closer = within + self.unit * np.log1p(beyond / self.unit)
        closer = self.middle + np.sign(distance) * closer
        # exactly as they are where nothing lies outside
        closer = np.where(beyond > 0.0, closer, values)
        framed: Array = (closer - self.centre) / self.scale
        return framed
