"""Distinct rows of a table, samples of them, and the spread of the columns."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._types import AnyArray, Array, Index, Mask


def distinct_rows(table: Array, weights: Array) -> tuple[Index, Array]:
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
    positive = np.flatnonzero(weights > 0.0)
    # the first column may tell all rows apart
    first = table[positive, 0]
    by_first = np.argsort(first)
    ordered_first = first[by_first]
    if np.all(ordered_first[1:] > ordered_first[:-1]):
        order = positive[by_first]
        return order, weights[order].astype(np.float64)
    # the last key of lexsort is the primary one
    keys = table[positive].T[::-1]
    order = positive[np.lexsort(keys)]
    ordered = table[order]
    # the first row of each set of equal rows
    is_first = np.ones(len(order), dtype=bool)
    differs = ordered[1:] != ordered[:-1]
    is_first[1:] = np.any(differs, axis=1)
    set_of_row = np.cumsum(is_first) - 1
    totals = np.bincount(set_of_row, weights=weights[order])
    return order[is_first], totals.astype(np.float64, copy=False)


def equal_rows(table: AnyArray) -> tuple[AnyArray, Index]:
    """Distinct rows in lexicographic order, and the place of each row among them."""
    distinct, place = np.unique(table, axis=0, return_inverse=True)
    # of another shape in some versions of NumPy
    return distinct, np.ravel(place)


def thinning(n_rows: int, largest: int) -> slice:
    """Every k-th row, with the smallest k that leaves at most `largest` of them."""
    step = -(-n_rows // largest)
    return slice(None, None, step)


def row_slices(n_rows: int, size: int) -> list[slice]:
    """Consecutive slices of so many rows; the last may be shorter."""
    starts = range(0, n_rows, size)
    return [slice(first, min(first + size, n_rows)) for first in starts]


def sample_distinct_rows(
    X: Array,
    y: Array,
    size: int,
    salt: int,
) -> Index | None:
    """All copies of ``size`` rows (X, y) drawn among the distinct ones.

    The sample consists of the rows with the smallest hashes. It depends neither on the
    order of the rows nor on the numbers of their copies.

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
    hashes = row_hashes(X, y, salt)
    # find the smallest hashes among those below a limit, which is raised if necessary
    n_candidates = 1.1 * size
    while True:
        share = min(n_candidates / n, 1.0)
        limit = np.uint64(int(share * (2**64 - 2**12)))
        rows = np.flatnonzero(hashes <= limit)
        distinct = np.unique(hashes[rows])
        if len(distinct) > size or share == 1.0 or n_candidates >= 64 * size:
            break
        n_candidates *= 2.0
    if len(distinct) <= size and share == 1.0:
        return None
    last = distinct[min(size, len(distinct)) - 1]
    return rows[hashes[rows] <= last]


def row_hashes(X: Array, y: Array, salt: int) -> NDArray[np.uint64]:
    """Hash each row (X, y): a random order that depends on the rows alone, (n,).

    Parameters
    ----------
    X : ndarray of shape (n, d)
    y : ndarray of shape (n,) or (n, t)
    salt : int
        Seed, at least zero and below 2^63.
    """
    hashes = np.full(len(y), salt, np.uint64)
    for column in (*np.atleast_2d(y.T), *X.T):
        # positive and negative zeros are equal
        hashes = _mix(hashes ^ (column + 0.0).view(np.uint64))
    return hashes


def _mix(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Hash each number (splitmix64), in arithmetic modulo 2^64."""
    z = bits + np.uint64(0x9E3779B97F4A7C15)
    z ^= z >> np.uint64(30)
    z *= np.uint64(0xBF58476D1CE4E5B9)
    z ^= z >> np.uint64(27)
    z *= np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return z


# ---- Spread of columns ---------------------------------------------------------------


def far_outside(X: Array, input_range: Array) -> tuple[Mask, int]:
    """Rows that are far from those of a fit in at least half of the columns.

    In a column they are more than its whole range in the fit below or above it, which
    extrapolation of a series and heavy tails do not reach in many columns at once.
    Columns of one value are left out, and fewer than three columns are not many.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    input_range : ndarray of shape (2, d)
        Smallest and largest values of the columns in the fit.

    Returns
    -------
    is_far : ndarray of bool of shape (n,)
    farthest : int
        The column in which most rows are.
    """
    low, high = input_range
    width = high - low
    below = low - width
    above = high + width
    is_outside = (below > X) | (above < X)
    is_outside &= width > 0.0
    n_columns = np.count_nonzero(width)
    is_far = 2 * is_outside.sum(axis=1) >= max(n_columns, 6)
    return is_far, int(np.argmax(is_outside[is_far].sum(axis=0)))


# Squares and cubes of numbers up to this do not overflow; those of numbers from its
# inverse on do not underflow.
LARGEST = 1e120


def mean_and_spread(
    values: Array,
    weights: Array | None,
    rounding: float,
) -> tuple[Array, Array]:
    """Mean and standard deviation over the rows, which is one in constant columns.

    Parameters
    ----------
    values : ndarray of shape (n,) or (n, d)
    weights : ndarray of shape (n,) or None
        Not all zero.
    rounding : float
        A column counts as constant if its standard deviation is at most this fraction
        of its largest absolute value.

    Returns
    -------
    mean, std : ndarray of shape () or (d,)
    """
    # in units of the largest entry, so that squares neither overflow nor underflow
    largest = np.max(np.abs(values), axis=0, initial=0.0)
    unit = np.where(largest > 0.0, largest, 1.0)
    scaled = values / unit
    mean = np.average(scaled, axis=0, weights=weights)
    squares = (scaled - mean) ** 2
    variance = np.average(squares, axis=0, weights=weights)
    std = np.sqrt(variance)
    spread = np.where(std > rounding, std * unit, 1.0)
    return mean * unit, spread


def weighted_quantiles(
    values: Array,
    weights: Array,
    levels: list[float],
) -> Array:
    """Quantiles of numbers (n,), without interpolation.

    Weights are frequencies: a row of weight two is equivalent to two equal rows.
    """
    order = np.argsort(values)
    cumulative = np.cumsum(weights[order])
    wanted = np.array(levels) * cumulative[-1]
    position = np.searchsorted(cumulative, wanted)
    position = np.minimum(position, values.size - 1)
    return values[order][position]


class InputFrame(NamedTuple):
    """Standardisation of columns, with the outliers moved closer.

    Without this, a few distant entries would determine the scale. Beyond a fence F the
    distance z from the median becomes ``F + u log(1 + (z - F) / u)``: one to one, with
    a continuous slope, and the identity up to the fence.

    Attributes
    ----------
    middle, fence, unit : ndarray of shape (d,)
        Median, F and u; F is infinite in columns whose central quantiles coincide.
    centre, scale : ndarray of shape (d,)
        Mean and standard deviation of the columns after outliers have been moved.
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
        """Frame of training rows (n, d), with quantiles of up to 20 000 rows; O(n d).

        A column counts as constant if its standard deviation is at most `rounding`
        times its largest entry.
        """
        counts = np.ones(len(values))
        if weights is not None:
            counts = weights
        sample = np.flatnonzero(counts > 0.0)
        stride = math.ceil(len(sample) / 20_000)
        sample = sample[::stride]
        sample_values = values[sample]
        sample_counts = counts[sample]
        levels = [0.025, 0.5, 0.975]
        quantiles = [
            weighted_quantiles(column, sample_counts, levels)
            for column in sample_values.T
        ]
        low, middle, high = np.reshape(quantiles, (-1, 3)).T
        span = high - low
        largest = np.max(np.abs(sample_values), axis=0, initial=0.0)
        has_spread = span > 1e-14 * largest
        # a normal distribution has a span of 3.92 standard deviations: F is 9.8 of them
        fence = np.where(has_spread, 2.5 * span, np.inf)
        unit = np.where(has_spread, span / 3.92, 1.0)
        frame = cls(
            middle=middle,
            fence=fence,
            unit=unit,
            centre=np.zeros(len(span)),
            scale=np.ones(len(span)),
        )
        # mean and standard deviation without the effect of outliers
        centre, scale = mean_and_spread(frame(values), weights, rounding)
        return frame._replace(centre=centre, scale=scale)

    def __call__(self, values: Array) -> Array:
        """Rows (n, d) in this frame."""
        deviation = values - self.middle
        distance = np.abs(deviation)
        excess = np.maximum(distance - self.fence, 0.0)
        # F + u log(1 + (z - F) / u)
        fenced = np.minimum(distance, self.fence)
        compressed = self.unit * np.log1p(excess / self.unit)
        new_distance = fenced + compressed
        moved = self.middle + np.sign(deviation) * new_distance
        # entries inside the fence stay as they are, exactly
        moved = np.where(excess > 0.0, moved, values)
        return (moved - self.centre) / self.scale
