"""Structure that a mean has missed: errors of neighbouring rows agree.

Independent noise has no such agreement, whatever its size: this tells a function that
was missed from noise without a model of either.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree
from scipy.stats import rankdata

from skgpx._validation import warn
from skgpx.exceptions import FitWarning

Array = NDArray[np.float64]
Index = NDArray[np.intp]

# Standard errors beyond which neighbours agree, and rows that tell.
_BEYOND, FEWEST_NEIGHBOURS = 5.0, 100
# Columns up to which rows near in all of them are near; neighbours of a centre.
_FEW_COLUMNS, _AROUND = 5, 20
# Share of the variance of y in agreeing errors that is worth a closer look, and a word.
WORTH_LOOKING, WORTH_SAYING = 0.01, 0.05
# Agreement of errors, as a share of these, below which nothing is said.
_MOSTLY = 0.2


class LeftOver(NamedTuple):
    """What errors of neighbours share.

    Attributes
    ----------
    share : float
        Mean product of errors of neighbours, in units of the variance of y; zero where
        it may be chance.
    correlation : float
        In units of the squared errors.
    column : int
        In which they are neighbours; -1 for all of them.
    X : ndarray of shape (n, d)
        The rows.
    products : ndarray of shape (n,)
        Of the error of each and that of its neighbour.
    """

    share: float
    correlation: float
    column: int
    X: Array
    products: Array

    @classmethod
    def of(cls, X: Array, errors: Array, spread: float) -> LeftOver | None:
        """Of errors (n,) at rows that the mean has not seen.

        Neighbours are next to each other in one column, or nearest in all of up to
        five; the kind that agrees most is told. None for few rows, or a y without
        `spread`.
        """
        n, d = X.shape
        if n < FEWEST_NEIGHBOURS or spread == 0.0:
            return None
        kinds = [_along(X[:, j]) for j in range(d)]
        if 1 < d <= _FEW_COLUMNS:
            kinds.append(_nearest(X))
        products = [errors * errors[other] for other in kinds]
        best = int(np.argmax([p.sum() for p in products]))
        p = products[best]
        told = p.sum() > _BEYOND * np.sqrt(np.sum(p**2))
        agreeing = float(np.mean(p)) if told else 0.0
        size = float(np.mean(errors**2)) or 1.0
        column = best if best < d else -1
        return cls(agreeing / spread, agreeing / size, column, X, p)

    def window(self, X: Array, size: int) -> Index:
        """About `size` of all rows (n, d) around where errors agree most.

        A slice of the column, or the rows nearest to one.
        """
        if self.column < 0:
            return _ball(X, self._centre(), size)
        order = np.argsort(self.X[:, self.column], kind="stable")
        width = max(size * len(order) // len(X), 2)
        sums = np.cumsum(np.append(0.0, self.products[order]))
        first = (
            int(np.argmax(sums[width:] - sums[:-width])) if width < len(order) else 0
        )
        x, all_x = self.X[order, self.column], X[:, self.column]
        last = min(first + width, len(order)) - 1
        return np.flatnonzero((all_x >= x[first]) & (all_x <= x[last]))

    def _centre(self) -> Array:
        ranks = _ranks(self.X)
        near = cKDTree(ranks).query(ranks, min(_AROUND, len(ranks)))[1]
        centre: Array = self.X[int(np.argmax(self.products[near].sum(axis=1)))]
        return centre


def warn_of_left_over(left: LeftOver | None, advice: str) -> bool:
    """Say so if much of the error of the final mean is structure."""
    if left is None or left.share < WORTH_SAYING or left.correlation < _MOSTLY:
        return False
    where = "near" if left.column < 0 else "next to"
    column = "" if left.column < 0 else f" in column {left.column}"
    warn(
        f"The mean misses structure of y: errors of rows {where} each other{column} "
        f"agree, and {100.0 * left.share:.0f} % of the variance of y is in what they "
        f"share. Intervals cover it as if it were noise. {advice}",
        FitWarning,
    )
    return True


def _along(x: Array) -> Index:
    """For each row the next one of the column; for the last, the one before."""
    order = np.argsort(x, kind="stable")
    other = np.empty(len(x), np.intp)
    other[order[:-1]], other[order[-1]] = order[1:], order[-2]
    return other


def _nearest(X: Array) -> Index:
    """For each row the nearest other one, by ranks in the columns."""
    ranks = _ranks(X)
    found = cKDTree(ranks).query(ranks, 2)[1]
    own = found[:, 0] == np.arange(len(X))
    nearest: Index = np.where(own, found[:, 1], found[:, 0])
    return nearest


def _ranks(X: Array) -> Array:
    """Ranks in each column: a few entries far outside do not set a scale."""
    ranks: Array = rankdata(X, axis=0)
    return ranks


def _ball(X: Array, centre: Array, size: int) -> Index:
    """The rows nearest to one of them, by ranks."""
    ranks = _ranks(X)
    at = int(np.argmin(np.sum(np.abs(X - centre), axis=1)))
    distance = np.sum((ranks - ranks[at]) ** 2, axis=1)
    size = min(size, len(X))
    return np.sort(np.argpartition(distance, size - 1)[:size])
