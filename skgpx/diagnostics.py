"""Diagnostics of a fit: named checks whose findings make one warning.

Each check is a statistic of the field and returns a `Finding`, or None. A fit collects
the findings and ends with `conclude`, which keeps them as `findings_` and emits one
`FitWarning`, and at most one `ConvergenceWarning`, for all of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree
from scipy.stats import rankdata

from skgpx.exceptions import ConvergenceWarning, FitWarning, SkgpxWarning, warn

__all__ = ["Finding", "conclude", "residual_autocorrelation"]

Array = NDArray[np.float64]
Index = NDArray[np.intp]


class Finding(NamedTuple):
    """What a check of a fit has found.

    Attributes
    ----------
    check : str
        Name of the check, such as "residual autocorrelation".
    message : str
        What happened, what it means for predictions, and what to do.
    category : type
        `FitWarning` or `ConvergenceWarning`.
    """

    check: str
    message: str
    category: type[SkgpxWarning] = FitWarning


def conclude(estimator: Any, findings: Iterable[Finding | None]) -> None:
    """Keep the findings of a fit as `findings_` and warn once a category."""
    estimator.findings_ = found = tuple(one for one in findings if one is not None)
    for category in (FitWarning, ConvergenceWarning):
        messages = [one.message for one in found if one.category is category]
        if len(messages) == 1:
            warn(messages[0], category)
        elif messages:
            items = "\n".join(f"- {message}" for message in messages)
            warn(f"The diagnostics of this fit found:\n{items}", category)


# Fewest rows for a test of neighbours, and its z-score.
_FEWEST, _MIN_Z = 100, 5.0
# Most columns in which rows that are near in all of them are neighbours.
_MOST_COLUMNS = 5
# Least share of the variance of y, and correlation of residuals.
_MIN_SHARE, _MIN_CORRELATION = 0.05, 0.2


def residual_autocorrelation(
    X: Array, residuals: Array, variance: float
) -> Finding | None:
    """Moran's I of the residuals of neighbouring rows, for noise that is independent.

    Neighbours are adjacent in one column, or nearest in all of up to five.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    residuals : ndarray of shape (n,)
    variance : float
        That of y.
    """
    n, d = X.shape
    if n < _FEWEST or variance == 0.0:
        return None
    neighbours = [_adjacent(X[:, j]) for j in range(d)]
    if 1 < d <= _MOST_COLUMNS:
        neighbours.append(_nearest(X))
    products = [residuals * residuals[other] for other in neighbours]
    best = int(np.argmax([p.sum() for p in products]))
    p = products[best]
    shared = float(np.mean(p))
    correlation = shared / (float(np.mean(residuals**2)) or 1.0)
    significant = p.sum() > _MIN_Z * np.sqrt(np.sum(p**2))
    if not significant or shared < _MIN_SHARE * variance:
        return None
    if correlation < _MIN_CORRELATION:
        return None
    where = f"along column {best}" if best < d else "between nearest rows"
    return Finding(
        "residual autocorrelation",
        f"Residuals are autocorrelated {where} ({100.0 * shared / variance:.0f} % of "
        "the variance of y): the model underfits, and its noise estimate absorbs the "
        "signal. Use a kernel whose lengthscales start near the scale of the "
        "variation, or a larger basis.",
    )


def _adjacent(x: Array) -> Index:
    """For each row the next one of the column; for the last, the one before."""
    order = np.argsort(x, kind="stable")
    other = np.empty(len(x), np.intp)
    other[order[:-1]], other[order[-1]] = order[1:], order[-2]
    return other


def _nearest(X: Array) -> Index:
    """For each row the nearest other one, by ranks in the columns."""
    ranks: Array = rankdata(X, axis=0)
    found = cKDTree(ranks).query(ranks, 2)[1]
    own = found[:, 0] == np.arange(len(X))
    nearest: Index = np.where(own, found[:, 1], found[:, 0])
    return nearest
