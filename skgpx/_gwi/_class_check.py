"""Whether classes of neighbouring rows predict better than networks do.

Gradient descent misses classes that alternate along a column, and says of each row the
frequencies of the classes; the rows next to it would have said more.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics.spread import InputFrame
from skgpx._validation import Rows, warn
from skgpx.exceptions import FitWarning

Array = NDArray[np.float64]
Index = NDArray[np.intp]

# Rows among which neighbours are, with judges, and fewest judges that say anything.
_MOST_ROWS, FEWEST_TOLD = 5000, 50
# Up to so many columns are each looked along.
_MOST_COLUMNS = 100
# Neighbours on either side in a column; twice as many are nearest in all columns.
_EITHER_SIDE = (2, 4, 8, 16)
# Rows that the frequencies of the classes stand for, beside the neighbours.
_PRIOR_ROWS = 1.0
# It is told where they are better by more than so many standard errors, and nats.
_BEYOND, WORTH_SAYING = 4.0, 0.05


class NeighbourLosses(NamedTuple):
    """Mean log losses at rows that neither networks nor neighbours have seen.

    Attributes
    ----------
    networks, neighbours : float
    error : float
        Standard error of their difference.
    n_judges : int
    """

    networks: float
    neighbours: float
    error: float
    n_judges: int

    @classmethod
    def of(
        cls, rows: Rows, judges: Index, losses: Array, rng: np.random.Generator
    ) -> NeighbourLosses:
        """Of networks, and of the shares of the classes among neighbours.

        Neighbours are next to a row in one column, or nearest in all of them. Which,
        and how many, either half of the judges chooses for the other.

        Parameters
        ----------
        rows : Rows
            y holds the numbers of the classes.
        judges : ndarray of shape (m,)
            Rows that the networks were not trained on.
        losses : ndarray of shape (m,)
            Of the networks there.
        rng : numpy.random.Generator
            Chooses other rows, and the order of those that are equally near.

        Returns
        -------
        losses : NeighbourLosses
        """
        weights = rows.weights[judges]
        half, least = np.arange(len(judges)) % 2, np.full(2, np.inf)
        found = np.zeros(len(judges))
        for one, choosing in neighbour_losses(rows, judges, half, rng):
            for side in (0, 1):
                own = half == side
                loss = float(np.average(choosing[own], weights=weights[own]))
                if loss < least[side]:
                    least[side], found[~own] = loss, one[~own]
        share = weights / weights.sum()
        gain = losses - found
        error = np.sqrt(np.sum(share**2 * (gain - share @ gain) ** 2))
        means = float(share @ losses), float(share @ found)
        return cls(*means, float(error), len(judges))

    @property
    def told(self) -> bool:
        """Whether neighbours are better, clearly and by enough to be told."""
        gain = self.networks - self.neighbours
        return gain > WORTH_SAYING and gain > _BEYOND * self.error


def warn_if_neighbours_are_better(losses: NeighbourLosses | None) -> None:
    """Say so where networks miss what rows near by show."""
    if losses is None or not losses.told:
        return
    warn(
        f"The networks miss how classes depend on X: at {losses.n_judges} rows that "
        f"they were not trained on their log loss is {losses.networks:.2f}, and that "
        f"of the shares of the classes among neighbouring rows "
        f"{losses.neighbours:.2f}. Gradient descent does not find classes that "
        "alternate along a column, for example. Pass a classifier that finds them as "
        "the mean, such as GWIClassifier(HistGradientBoostingClassifier()), or where X "
        "has one column take PLSClassifier().",
        FitWarning,
    )


def neighbour_losses(
    rows: Rows, judges: Index, half: Index, rng: np.random.Generator
) -> Iterator[tuple[Array, Array]]:
    """Log losses (m,) of shares of classes, for every kind and number of neighbours.

    The row itself is none of them; the frequencies of all rows count as one more. The
    second loss is without the classes of the other half of the judges, which must have
    no part in the choice that they judge.
    """
    n, m = len(rows.y), len(judges)
    codes = rows.y.astype(np.intp)
    counts = np.zeros((n, codes.max() + 1))
    counts[np.arange(n), codes] = rows.weights
    # equal rows are in the order of their classes, which neighbours must not tell
    others = rng.permutation(np.setdiff1d(np.arange(n), judges))
    parts = np.stack((counts, counts, counts), axis=1)
    for side in (0, 1):
        parts[judges[half != side], 1 + side] = 0.0
    order = rng.permutation(np.append(judges, others[: max(_MOST_ROWS - m, 0)]))
    places = np.empty(n, np.intp)
    places[order] = np.arange(len(order))
    at, own = places[judges], codes[judges]
    prior = _PRIOR_ROWS * counts.sum(axis=0) / counts.sum()
    X = InputFrame.of(rows.X, rows.weights)(rows.X[order])
    every = np.arange(m)
    for near in _shares(X, parts[order], at):
        share = (near + prior)[every, :, own] / (near.sum(axis=2) + _PRIOR_ROWS)
        losses = -np.log(share)
        yield losses[:, 0], losses[every, 1 + half]


def _shares(X: Array, counts: Array, at: Index) -> Iterator[Array]:
    """Sums (m, 3, K) of counts over neighbours of some of the rows, of each kind."""
    d = X.shape[1]
    for j in range(d if d <= _MOST_COLUMNS else 0):
        yield from _along(X[:, j], counts, at)
    if d > 1:
        yield from _nearest(X, counts, at)


def _along(x: Array, counts: Array, at: Index) -> Iterator[Array]:
    """Of so many rows on either side in one column."""
    n = len(x)
    order = np.argsort(x, kind="stable")
    place = np.empty(n, np.intp)
    place[order] = np.arange(n)
    zero = np.zeros((1, *counts.shape[1:]))
    sums = np.concatenate((zero, np.cumsum(counts[order], axis=0)))
    for side in _EITHER_SIDE:
        first, last = np.maximum(place[at] - side, 0), place[at] + side + 1
        near = sums[np.minimum(last, n)] - sums[first] - counts[at]
        yield np.maximum(near, 0.0)


def _nearest(X: Array, counts: Array, at: Index) -> Iterator[Array]:
    """Of the nearest rows by all columns."""
    size = np.sum(X**2, axis=1)
    distance = size - 2.0 * X[at] @ X.T
    distance[np.arange(len(at)), at] = np.inf
    most = min(2 * _EITHER_SIDE[-1], len(X) - 1)
    near = np.argpartition(distance, most - 1, axis=1)[:, :most]
    nearer = np.argsort(np.take_along_axis(distance, near, axis=1), axis=1)
    near = np.take_along_axis(near, nearer, axis=1)
    for side in _EITHER_SIDE:
        yield counts[near[:, : 2 * side]].sum(axis=1)
