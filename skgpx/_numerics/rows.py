"""Distinct rows, and samples of rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics._jit import inlined, kernel

# ---- Distinct rows of a table --------------------------------------------------------


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


# ---- A seeded sample of rows that depends on what is in them, not on where they are --


Index = NDArray[np.intp]
Bits = NDArray[np.uint64]

# Hashes looked at beyond those wanted, in parts of them.
_SPARE = 0.1
# Rows looked at for each one wanted, at most, when most are repetitions.
_MOST_REPEATED = 64
# Rows hashed at a time.
_BLOCK = 256


def sample_distinct_rows(X: Array, y: Array, size: int, salt: int) -> Index | None:
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
    O(n), 2 ns for a number. With more than 64 copies of each row on average the
    sample is smaller.
    """
    n = len(y)
    if n <= size:
        return None
    bits = np.ascontiguousarray(X).view(np.uint64)
    targets = np.ascontiguousarray(y).view(np.uint64)
    wanted = (1.0 + _SPARE) * size
    while True:
        share = min(wanted / n, 1.0)
        largest = np.uint64(int(share * (2**64 - 2**12)))
        hashes, rows = _hashes_up_to(bits, targets, salt, largest, int(2 * wanted))
        distinct = np.sort(hashes)
        distinct = distinct[np.append(True, distinct[1:] != distinct[:-1])[: len(rows)]]
        if len(distinct) > size or wanted >= _MOST_REPEATED * size:
            break
        if share == 1.0:
            return None
        wanted *= 2.0
    last = distinct[min(size, len(distinct)) - 1]
    return rows[hashes <= last]


def _hashes_up_to(
    X: Bits, y: Bits, salt: int, largest: np.uint64, room: int
) -> tuple[Bits, Index]:
    """Hashes up to the largest wanted and their rows, with room for so many."""
    hashes, rows = np.empty(room, np.uint64), np.empty(room, np.intp)
    # arithmetic modulo 2^64 is meant: without compilation NumPy would warn of it
    with np.errstate(over="ignore"):
        count = _small_hashes(X, y, np.uint64(salt), largest, hashes, rows)
    if count > room:
        # rows that are repeated often
        return _hashes_up_to(X, y, salt, largest, count)
    return hashes[:count], rows[:count]


@kernel
def _small_hashes(
    X: Bits, y: Bits, salt: np.uint64, largest: np.uint64, hashes: Bits, rows: Index
) -> int:
    """Count hashes up to the largest wanted; write those there is room for."""
    count, block = 0, np.empty(_BLOCK, np.uint64)
    for first in range(0, y.size, _BLOCK):
        size = min(_BLOCK, y.size - first)
        for i in range(size):
            block[i] = _mixed(salt, y[first + i])
        for j in range(X.shape[1]):
            for i in range(size):
                block[i] = _mixed(block[i], X[first + i, j])
        for i in range(size):
            if block[i] <= largest:
                if count < hashes.size:
                    hashes[count] = block[i]
                    rows[count] = first + i
                count += 1
    return count


@inlined
def _mixed(seed: np.uint64, bits: np.uint64) -> np.uint64:
    """Hash of a number and what came before it (splitmix64)."""
    # one zero, not two
    nothing = bits == np.uint64(0x8000000000000000)
    value = (seed ^ (np.uint64(0) if nothing else bits)) + np.uint64(0x9E3779B97F4A7C15)
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))
