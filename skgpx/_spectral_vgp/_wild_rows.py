"""Inputs so far from all others that no box could hold both."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skgpx._spectral_vgp._domain import input_range
from skgpx._validation import Rows, warn
from skgpx.exceptions import DataWarning

Array = NDArray[np.float64]

# Share of the rows on either side of the bulk of an input, widths of it that the range
# may have by the number of inputs, and widths added on either side where it has more.
_BULK = 0.025
_MOST_WIDTHS = {1: 20.0, 2: 5.0, 3: 4.0}
_AROUND = 1.0
# Rows, and values other than that of nearly all rows, that can have a wild one.
_FEWEST, _FEWEST_OTHERS = 5, 3
# Rows that say whether there may be wild ones, where there are more.
_SCREENED = 20_000


def without_wild_rows(rows: Rows) -> Rows:
    """Rows whose inputs are not out of all proportion to the bulk of them.

    Functions that cover a range many times as wide as 95 % of the data could not
    resolve the data. Rows farther from the bulk than its width are then left out, with
    a warning. Where 95 % of the rows have one value, the other values are the measure.
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
    warn(
        f"{int(np.sum(~kept))} of {len(X)} rows are left out, because their inputs are "
        f"far from all others: column {j} goes from {seen[j, 0]:.6g} to "
        f"{seen[j, 1]:.6g}, without them from {bulk[j, 0]:.6g} to {bulk[j, 1]:.6g}. "
        "Fourier functions on the whole range would be too coarse for the others. To "
        "keep all rows, give a `domain` that covers them, or a kernel and "
        'basis="inducing".',
        DataWarning,
    )
    return rows.take(kept)


def _may_be_wild(X: Array) -> bool:
    """Whether some rows make it worth sorting all of them."""
    if len(X) <= _SCREENED:
        return True
    some = X[:: len(X) // _SCREENED]
    low, high = np.quantile(some, (_BULK, 1.0 - _BULK), axis=0)
    whole = input_range(X)
    # the quantiles of some rows are not those of all
    most = 0.5 * _MOST_WIDTHS[X.shape[1]]
    return bool(np.any(whole[:, 1] - whole[:, 0] > most * (high - low)))


def _limits(x: Array, weights: Array, d: int) -> tuple[float, float]:
    """Interval to which one input is kept."""
    order = np.argsort(x, kind="stable")
    share = np.cumsum(weights[order]) / weights.sum()
    # repetitions written as weights are as many rows
    n = max(float(weights.sum()), float(len(x)))
    if n < _FEWEST:
        return -np.inf, np.inf
    # the bulk is without the first and the last row, however few there are
    end = max(_BULK, (1.0 + 1e-9) / n)
    low, high = x[order[np.searchsorted(share, (end, 1.0 - end))]]
    around, most = _AROUND * (high - low), _most_widths(n, d) * (high - low)
    if not high > low:
        values = np.unique(x)
        spread = _spread(values, low)
        around, most = (1.0 + _AROUND) * spread, _most_widths(len(values), d) * spread
    if around == 0.0 or x[order[-1]] - x[order[0]] <= most:
        return -np.inf, np.inf
    return low - around, high + around


def _most_widths(n: float, d: int) -> float:
    """Widths of the bulk that the range may have; more where few rows know the bulk.

    The inner ones of n < 40 rows are close together by chance: those of five uniform
    rows within a part ε of the range with the probability 3 ε². With more inputs, and
    fewer widths, there are more such chances.
    """
    fewer = max(1.0, 1.0 / (_BULK * n))
    return _MOST_WIDTHS[d] * fewer ** (2 if d == 1 else 3)


def _spread(values: Array, constant: float) -> float:
    """Distance from a value that nearly all rows have that is usual among the others.

    The largest but one, but two if there may be a wild one on either side; zero if
    there are too few values to say.
    """
    distances = np.sort(np.abs(values[values != constant] - constant))
    if len(distances) < _FEWEST_OTHERS:
        return 0.0
    return float(distances[-3 if len(distances) > _FEWEST_OTHERS + 1 else -2])
