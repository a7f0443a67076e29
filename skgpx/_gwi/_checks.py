"""Whether the mean predicts better than the process, y's mean or neighbouring rows.

Gradient descent misses classes that alternate along a column, and predicts the class
frequencies everywhere; neighbouring rows predict better.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._gwi._network import FittedMean
from skgpx._gwi._prior import Prior
from skgpx._numerics.spread import InputFrame
from skgpx._selection import LeftOver, left_out_means, warn_of_left_over
from skgpx._validation import Rows, warn
from skgpx.exceptions import FitWarning

# ---- Whether the process alone would have been a better mean than the networks -------


Array = NDArray[np.float64]

# Largest and smallest number of held-out rows, and largest number of rows of the
# process, held-out rows included.
_MOST, MIN_HELD_OUT, PROCESS_ROWS = 300, 20, 1000
# Squared errors of the networks in units of those of the process, up to which they are
# the mean: the process has fewer training rows, or as many, and held-out rows are few.
AS_GOOD, AS_GOOD_OF_ALL = 1.25, 1.1
# With one column uncertainty matters in gaps, where networks are a worse mean than
# their held-out errors suggest: there they have to be better.
FEW_COLUMNS, BETTER = 1, 0.9
# Rows per hyperparameter below which leave-one-out errors are optimistic: with 100 rows
# and 8 columns they are half of those at new rows.
_ROWS_A_PARAMETER = 25
# Warns where errors of the networks exceed those of the process by this factor, and by
# more than this share of the variance of y.
_WORSE, _SHARE = 2.0, 0.05
# What to do where structure was missed.
_MISSED = (
    'Use n_inducing="auto" to add inducing points, a kernel whose lengthscales start '
    "near the scale of the variation, or another regressor as the mean, such as "
    "HistGradientBoostingRegressor()."
)


class MeanErrors(NamedTuple):
    """Mean squared errors at rows held out from either mean.

    Attributes
    ----------
    networks, process : float
        In units of the variance of y.
    n_training, n_held_out : int
        Training rows of the process, and held-out rows.
    as_good : float
        Errors of the networks in units of those of the process, up to which they serve.
    """

    networks: float
    process: float
    n_training: int
    n_held_out: int
    as_good: float = 1.25

    @classmethod
    def of(
        cls,
        rows: Rows,
        level: Array,
        prior: Prior,
        mean: FittedMean,
        share: float = 1.0,
        learn: Callable[[NDArray[np.bool_]], Prior] | None = None,
    ) -> MeanErrors | None:
        """Of networks and of the process of the prior on at most 1000 rows.

        Errors of the process are leave-one-out: networks are trained on most rows, too,
        where rows are few.

        Parameters
        ----------
        rows : Rows
        level : ndarray of shape (n,)
            Prior mean at the rows.
        prior : Prior
        mean : FittedMean
            Of the networks.
        share : float, default=1.0
            Squared error of the average of networks over that of single ones.
        learn : callable, optional
            Learns the prior from some of the rows. Either half of the held-out rows is
            then predicted under a kernel learned without it.

        Returns
        -------
        errors : MeanErrors or None
            None for fewer than 20 held-out rows, or a constant y.
        """
        validation = np.flatnonzero(mean.held_out)
        validation = validation[:: -(-len(validation) // _MOST) or 1]
        remaining = np.setdiff1d(np.arange(len(rows.y)), validation)
        variance = variance_of(rows)
        if len(validation) < MIN_HELD_OUT or variance == 0.0:
            return None
        room = PROCESS_ROWS - len(validation)
        seen = np.sort(
            np.append(validation, remaining[:: -(-len(remaining) // room) or 1])
        )
        around = rows._replace(y=rows.y - level).take(seen)
        process = level[seen] + left_out_means(
            prior.kernel, prior.noise_variance, around
        )
        for half in (validation[::2], validation[1::2]) if learn is not None else ():
            part = np.isin(seen, half)
            own = learn(~np.isin(np.arange(len(rows.y)), half))
            there = left_out_means(own.kernel, own.noise_variance, around)
            process[part] = (level[seen] + there)[part]
        at = np.searchsorted(seen, validation)
        y, weights = rows.y[validation], rows.weights[validation]
        errors = [
            float(np.average((y - values) ** 2, weights=weights)) / variance
            for values in (mean.residual_values[validation, 0], process[at])
        ]
        as_good = AS_GOOD_OF_ALL if len(seen) == len(rows.y) else AS_GOOD
        if rows.X.shape[1] <= FEW_COLUMNS:
            as_good = BETTER
        return cls(
            share * errors[0], errors[1], len(seen) - 1, len(validation), as_good
        )


def networks_suffice(errors: MeanErrors | None) -> bool:
    """Whether networks are the better mean, or nearly as good.

    Nearly is not enough where they are worse than the mean of y.
    """
    if errors is None:
        return False
    lost = errors.networks > 1.0 and errors.process < errors.networks
    return not lost and errors.networks <= errors.as_good * errors.process


def cross_validated_errors(
    errors: MeanErrors | None,
    learn: Callable[[NDArray[np.bool_]], Prior],
    rows: Rows,
    level: Array,
    prior: Prior,
    mean: FittedMean,
    share: float,
) -> MeanErrors | None:
    """Errors under a kernel learned without the held-out rows, if it may overfit them.

    The parameters are those of `MeanErrors.of`.
    """
    if errors is None or not may_overfit(prior.kernel, len(rows.y)):
        return errors
    with warnings.catch_warnings():
        # warnings about a subset of the rows do not concern the fit
        warnings.simplefilter("ignore")
        return MeanErrors.of(rows, level, prior, mean, share, learn)


def may_overfit(kernel: Any, n: int) -> bool:
    """Whether a kernel may overfit n rows, given its number of free parameters."""
    return len(kernel.theta) > 0 and n < _ROWS_A_PARAMETER * (len(kernel.theta) + 1)


def variance_of(rows: Rows) -> float:
    """Variance of y: the mean squared error of its mean."""
    mean = np.average(rows.y, weights=rows.weights)
    return float(np.average((rows.y - mean) ** 2, weights=rows.weights))


def warn_if_constant_is_better(errors: MeanErrors | None) -> None:
    """Warn if no mean is better than that of y."""
    if errors is None or errors.n_held_out < MIN_HELD_OUT:
        return
    error = min(errors.networks, errors.process)
    if error <= 1.0 + _SHARE:
        return
    warn(
        f"Predictions are worse than the mean of y: at {errors.n_held_out} held-out "
        f"rows the mean squared error is {error:.2f} times the variance of y. Either "
        "there are too few rows, or y does not depend on X. Use more rows, fewer "
        "columns, or a known kernel with optimizer=None.",
        FitWarning,
    )


def warn_if_process_is_better(errors: MeanErrors | None) -> bool:
    """Warn if networks are clearly worse than the process, on no more rows.

    A wave of many periods, for example, or two columns that matter among sixty.
    """
    if errors is None or errors.networks <= _WORSE * errors.process:
        return False
    clear = errors.networks - errors.process > _SHARE
    if clear:
        warn(
            f"The networks leave {100.0 * errors.networks:.0f} % of the variance of y "
            f"unexplained at {errors.n_held_out} held-out rows, and a Gaussian process "
            f"fitted to {errors.n_training} rows leaves "
            f"{100.0 * errors.process:.0f} %: the training of the networks has missed "
            "structure, and predictions are less accurate than they could be. "
            'Use mean="auto" or mean="svgp".',
            FitWarning,
        )
    return clear


def warn_if_autocorrelated(left: LeftOver | None) -> bool:
    """Warn if residuals are autocorrelated."""
    return warn_of_left_over(left, _MISSED)


# ---- Whether classes of neighbouring rows predict better than networks do ------------


Index = NDArray[np.intp]

# Largest number of candidate neighbours, and smallest number of held-out rows.
_MOST_ROWS, MIN_CLASS_ROWS = 5000, 50
# Largest number of columns along which neighbours are searched.
_MOST_COLUMNS = 100
# Neighbours on either side in a column; twice as many are nearest in all columns.
_EITHER_SIDE = (2, 4, 8, 16)
# Pseudo-rows with the frequencies of the classes, added to the neighbours.
_PRIOR_ROWS = 1.0
# Warns where neighbours are better by more than so many standard errors, and nats.
_BEYOND, MIN_GAIN = 4.0, 0.05


class NeighbourLosses(NamedTuple):
    """Mean log losses at rows held out from networks and neighbours.

    Attributes
    ----------
    networks, neighbours : float
    error : float
        Standard error of their difference.
    n_held_out : int
    """

    networks: float
    neighbours: float
    error: float
    n_held_out: int

    @classmethod
    def of(
        cls, rows: Rows, validation: Index, losses: Array, rng: np.random.Generator
    ) -> NeighbourLosses:
        """Of networks, and of the shares of the classes among neighbours.

        Neighbours are next to a row in one column, or nearest in all of them. Either
        half of the held-out rows selects kind and number for the other half.

        Parameters
        ----------
        rows : Rows
            y holds the numbers of the classes.
        validation : ndarray of shape (m,)
            Rows that the networks were not trained on.
        losses : ndarray of shape (m,)
            Of the networks there.
        rng : numpy.random.Generator
            Chooses other rows, and the order of those that are equally near.

        Returns
        -------
        losses : NeighbourLosses
        """
        weights = rows.weights[validation]
        half, least = np.arange(len(validation)) % 2, np.full(2, np.inf)
        found = np.zeros(len(validation))
        for one, choosing in neighbour_losses(rows, validation, half, rng):
            for side in (0, 1):
                own = half == side
                loss = float(np.average(choosing[own], weights=weights[own]))
                if loss < least[side]:
                    least[side], found[~own] = loss, one[~own]
        share = weights / weights.sum()
        gain = losses - found
        error = np.sqrt(np.sum(share**2 * (gain - share @ gain) ** 2))
        means = float(share @ losses), float(share @ found)
        return cls(*means, float(error), len(validation))

    @property
    def warns(self) -> bool:
        """Whether neighbours are better, significantly and by a relevant margin."""
        gain = self.networks - self.neighbours
        return gain > MIN_GAIN and gain > _BEYOND * self.error


def warn_if_neighbours_are_better(losses: NeighbourLosses | None) -> None:
    """Warn if neighbouring rows predict classes better than networks do."""
    if losses is None or not losses.warns:
        return
    warn(
        f"The networks miss how classes depend on X: at {losses.n_held_out} held-out "
        f"rows their log loss is {losses.networks:.2f}, and that of class frequencies "
        f"among neighbouring rows {losses.neighbours:.2f}. Probabilities are too close "
        "to the overall class frequencies, as when classes alternate along a column. "
        "Use another classifier as the mean, such as "
        "GWIClassifier(HistGradientBoostingClassifier()), or PLSClassifier() if X has "
        "one column.",
        FitWarning,
    )


def neighbour_losses(
    rows: Rows, validation: Index, half: Index, rng: np.random.Generator
) -> Iterator[tuple[Array, Array]]:
    """Log losses (m,) of shares of classes, for every kind and number of neighbours.

    The row itself is none of them; the frequencies of all rows count as one more. The
    second loss omits the classes of the other half of the held-out rows, which must not
    influence the selection they validate.
    """
    n, m = len(rows.y), len(validation)
    codes = rows.y.astype(np.intp)
    counts = np.zeros((n, codes.max() + 1))
    counts[np.arange(n), codes] = rows.weights
    # equal rows are sorted by class, which must not leak into the neighbours
    remaining = rng.permutation(np.setdiff1d(np.arange(n), validation))
    parts = np.stack((counts, counts, counts), axis=1)
    for side in (0, 1):
        parts[validation[half != side], 1 + side] = 0.0
    order = rng.permutation(np.append(validation, remaining[: max(_MOST_ROWS - m, 0)]))
    places = np.empty(n, np.intp)
    places[order] = np.arange(len(order))
    at, own = places[validation], codes[validation]
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
