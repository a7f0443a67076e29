"""Inputs so far from all others that no box could hold both."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray

from skgpx._spectral_vgp._domain import input_range
from skgpx._validation import Rows

Array = NDArray[np.float64]

# Quantiles of the bulk of an input, widths of it that the range may have by the number
# of inputs, and widths added on either side where it has more.
_BULK = (0.025, 0.975)
_MOST_WIDTHS = {1: 20.0, 2: 5.0, 3: 4.0}
_AROUND = 1.0
# Rows that say whether there may be wild ones.
_SCREENED = 20_000


def without_wild_rows(rows: Rows) -> Rows:
    """Rows whose inputs are not out of all proportion to the bulk of them.

    Functions that cover a range many times as wide as 95 % of the data could not
    resolve the data. Rows farther from the bulk than its width are then left out, with
    a warning.
    """
    X, weights = rows.X, rows.weights
    if not _may_be_wild(X):
        return rows
    limits = np.stack(
        [_limits(X[:, j], weights, X.shape[1]) for j in range(X.shape[1])]
    )
    kept = np.all((limits[:, 0] <= X) & (limits[:, 1] >= X), axis=1)
    if kept.all() or not kept.any():
        return rows
    seen, bulk = input_range(X), input_range(X[kept])
    was, left = seen[:, 1] - seen[:, 0], bulk[:, 1] - bulk[:, 0]
    j = int(np.argmax(was / np.where(left > 0.0, left, np.inf)))
    warnings.warn(
        f"{int(np.sum(~kept))} of {len(X)} rows are left out, because their inputs are "
        f"far from all others: column {j} goes from {seen[j, 0]:.6g} to "
        f"{seen[j, 1]:.6g}, without them from {bulk[j, 0]:.6g} to {bulk[j, 1]:.6g}. "
        "Fourier functions on the whole range would be too coarse for the others. To "
        "keep all rows, give a `domain` that covers them, or a kernel and "
        'basis="inducing".',
        UserWarning,
        stacklevel=5,
    )
    return Rows(*(np.ascontiguousarray(values[kept]) for values in rows))


def _may_be_wild(X: Array) -> bool:
    """Whether some rows make it worth sorting all of them."""
    low, high = np.quantile(X[:: max(len(X) // _SCREENED, 1)], _BULK, axis=0)
    whole = input_range(X)
    # the quantiles of some rows are not those of all
    most = 0.5 * _MOST_WIDTHS[X.shape[1]]
    return bool(np.any(whole[:, 1] - whole[:, 0] > most * (high - low)))


def _limits(x: Array, weights: Array, d: int) -> tuple[float, float]:
    """Interval to which one input is kept."""
    order = np.argsort(x, kind="stable")
    share = np.cumsum(weights[order]) / weights.sum()
    places = np.minimum(np.searchsorted(share, _BULK), len(x) - 1)
    low, high = x[order[places]]
    width = high - low
    if not width > 0.0 or x[order[-1]] - x[order[0]] <= _MOST_WIDTHS[d] * width:
        return -np.inf, np.inf
    return low - _AROUND * width, high + _AROUND * width
