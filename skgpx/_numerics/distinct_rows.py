"""Distinct rows of a table, in an order that does not depend on that of the table."""

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
