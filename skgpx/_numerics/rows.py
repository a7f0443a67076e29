"""Distinct rows, and samples of rows."""

from __future__ import annotations

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


def sample_distinct_rows(
    X: Array, y: Array, size: int, salt: int
) -> NDArray[np.intp] | None:
    """All copies of ``size`` rows (X, y) drawn among the distinct ones.

    Those with the smallest hashes: any order of the rows, and any number of copies of
    each, give the same sample, and it has nothing to do with how rows are arranged.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    y : ndarray of shape (n,)
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
    for column in (y, *X.T):
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
