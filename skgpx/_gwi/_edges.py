"""Rows at the edges of the data: how errors grow outside of it.

Folds at random leave out rows that are surrounded by others, and say nothing of rows
that are not. Here the rows at either end of the main directions of the inputs are left
out, together, so that those who have not seen them must extrapolate.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics.spread import mean_and_spread

Array = NDArray[np.float64]

# Share of the rows at one end, and the fewest distinct rows that have edges.
SHARE, FEWEST = 0.1, 50
# A direction with a smaller share of the variance has none.
_FLAT = 1e-9


def edges(X: Array, weights: Array, n_directions: int) -> list[NDArray[np.bool_]]:
    """Rows at both ends of principal directions.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        What the kernel sees; its columns are standardised here.
    weights : ndarray of shape (n,)
    n_directions : int
        At most so many.

    Returns
    -------
    found : list of ndarray of bool of shape (n,)
        The outer tenth at one end of a direction. None for few rows; where many rows
        project to one number, the tenth is less, or nothing.
    """
    n, d = X.shape
    if n < FEWEST:
        return []
    centre, spread = mean_and_spread(X, weights, 1e-10)
    Z = (X - centre) / spread
    covariance = Z.T @ (weights[:, np.newaxis] * Z) / weights.sum()
    sizes, directions = np.linalg.eigh(covariance)
    found = []
    for j in range(d - 1, max(-1, d - 1 - n_directions), -1):
        if sizes[j] <= _FLAT * sizes.sum():
            break
        projection = Z @ directions[:, j]
        for side in (projection, -projection):
            outer = _outer(side, weights)
            if np.any(outer):
                found.append(outer)
    return found


def _outer(values: Array, weights: Array) -> NDArray[np.bool_]:
    """Rows of the largest values, no more than the share; equal values together."""
    # rounding must not separate equal rows
    values = np.round(values, 9)
    order = np.argsort(-values, kind="stable")
    # total weight of all rows with values at least that of each row
    ranked, totals = values[order], np.cumsum(weights[order])
    last = np.searchsorted(-ranked, -ranked, side="right") - 1
    chosen = np.zeros(len(values), bool)
    chosen[order[totals[last] <= SHARE * weights.sum() + 1e-9]] = True
    return chosen
