"""Capacity and noise of sparse models: inducing points that suffice, rows left out."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from skgpx._hyperparameters._candidates import NOISE_PRIOR
from skgpx._hyperparameters._evidence import (
    normal_density,
    with_noise,
)
from skgpx._numerics.regression import (
    TargetRegressions,
    WeightStatistics,
    best_of_grids,
)
from skgpx._numerics.rows import thinning
from skgpx._row_budgets import (
    FEWEST_HELD_OUT_ROWS,
    HELD_OUT_ROWS,
    NOISE_ROWS,
    SEARCHED_ROWS,
)
from skgpx._shell.row_statistics import counted_once, row_statistics
from skgpx._shell.validation import Rows
from skgpx._types import Array, ArrayLike, Generator, Kernel
from skgpx.bases import Nystroem, select_inducing, select_until
from skgpx.bases._kernel_basis import KernelBasis
from skgpx.bases._selectors import Selector
from skgpx.likelihoods import Gaussian

# The most inducing points of a model with Gaussian noise, of a model with another
# likelihood, and of a search for the hyperparameters of either.
MAX_INDUCING = 2500
MAX_INDUCING_NON_GAUSSIAN = 500
MAX_INDUCING_SEARCHED = 400
_FEATURES_BESIDE_ROWS = 4e7
# Nats an observation, and in all, that twice the capacity of a model must gain.
MIN_GAIN = 0.01
_MIN_TOTAL_GAIN = 10.0


# ---- Capacity by doubling ------------------------------------------------------------


def grow(
    score: Callable[[int], float],
    size: int,
    largest: int,
    n: float,
) -> tuple[int, float]:
    """Double the capacity until that gains too little.

    Too little is less than 0.01 nats an observation, or less than 10 nats in all.

    Parameters
    ----------
    score : callable
        Log evidence or density of n observations of a model of this size, in nats.
    size, largest : int
        Start of the growth, and the budget.
    n : float
        Number of observations.

    Returns
    -------
    size : int
        Capacity after which twice as much gains too little.
    value : float
        Its score.
    """
    value = score(size)
    while size < largest:
        doubled = min(2 * size, largest)
        doubled_value = score(doubled)
        if doubled_value - value < max(MIN_GAIN * n, _MIN_TOTAL_GAIN):
            break
        size = doubled
        value = doubled_value
    return size, value


def most_points(n: int, largest: int = MAX_INDUCING) -> int:
    """The most inducing points for n rows within the budget, at most `largest`.

    The pass over the rows takes 2 n m² operations: at most 5e11, ten seconds.
    """
    limit = min(MAX_INDUCING, n, largest)
    affordable = int(np.sqrt(2.5e11 / n))
    return max(min(limit, affordable), min(100, limit))


def most_points_beside_rows(n: int) -> int:
    """The most inducing points beside nearest rows: at most 4e7 features of n rows."""
    return int(np.clip(_FEATURES_BESIDE_ROWS / n, 100, 1000))


def inducing_by_capacity(
    rows: Rows,
    kernel: Kernel,
    noise_variance: float,
    inducing: str | ArrayLike | Selector,
    rng: Generator,
    largest: int = MAX_INDUCING,
) -> tuple[Array, bool]:
    """Add inducing points until the residual of the process no longer matters.

    The evidence bound of m points is below the exact evidence by no more than about
    ``Σ var g(x_i) / (2 noise_variance)`` nats, with the residual g. The greedy choice
    ends when two conditions hold: that is a thousandth of a nat an observation, and the
    mean of ``var g`` is at most a two-hundredth of ``noise_variance m / n``, a bound on
    the mean posterior variance of the function. Where the budget ends first the
    spectrum of the kernel is flat, and random rows serve as well as greedy ones, which
    then lie at the rim of the data.

    Parameters
    ----------
    rows : Rows
    kernel : sklearn.gaussian_process.kernels.Kernel
    noise_variance : float
    inducing : str, array-like or callable
        As :func:`skgpx.bases.select_inducing` takes it; others than "greedy" place as
        many points.
    rng : numpy.random.Generator
    largest : int, default=2500
        A smaller limit.

    Returns
    -------
    points : ndarray of shape (m, d)
    suffice : bool
        Whether the residual does not matter.

    Notes
    -----
    O(4000 m^2) in matrix products for the greedy choice, m at most 2500.
    """
    limit = most_points(len(rows.X), largest)
    greedy_points = select_until(
        rows.X,
        kernel,
        limit,
        mean_residual=2e-3 * noise_variance,
        rng=rng,
        weights=rows.weights,
        residual_per_point=5e-3 * noise_variance / float(rows.weights.sum()),
    )
    suffice = greedy_points is not None
    is_greedy = isinstance(inducing, str) and inducing == "greedy"
    if is_greedy and greedy_points is not None:
        return greedy_points, suffice
    strategy = "random" if is_greedy else inducing
    size = limit if greedy_points is None else len(greedy_points)
    points = select_inducing(strategy, rows.X, kernel, size, rng, rows.weights)
    return points, suffice


def inducing_of_targets(
    rows: Rows,
    kernel: Kernel,
    likelihood: Gaussian,
    inducing: str,
    rng: Generator,
) -> Array:
    """:func:`inducing_by_capacity` for the target of the least noise."""
    noise = float(likelihood.variance(0.0))
    Z, _ = inducing_by_capacity(rows, kernel, noise, inducing, rng)
    if rows.y.ndim == 1:
        return Z
    sample = rows.without_gaps().thinned(NOISE_ROWS)
    basis = Nystroem.from_kernel(kernel, Z)
    _, noises = regress_targets(basis, sample, likelihood, n_jobs=1)
    Z, _ = inducing_by_capacity(rows, kernel, float(noises.min()), inducing, rng)
    return Z


# ---- Noise of a sparse model ---------------------------------------------------------


def regress_targets(
    basis: Nystroem,
    rows: Rows,
    likelihood: Gaussian,
    n_jobs: int | None,
    at_points: bool = False,
) -> tuple[TargetRegressions, Array]:
    """Regressions of the targets and the noise variance of each, given the basis.

    See :func:`noise_of_targets`.
    """
    statistics = row_statistics(basis, rows, n_jobs)
    regressions = TargetRegressions(statistics)
    distinct, sums = distinct_sums(basis, rows, statistics, n_jobs)
    of_noise = regressions
    if sums is not statistics:
        of_noise = TargetRegressions(sums)
    noises = noise_of_targets(basis, distinct, of_noise, likelihood, at_points)
    return regressions, noises


def distinct_sums(
    basis: KernelBasis,
    rows: Rows,
    statistics: WeightStatistics,
    n_jobs: int | None,
) -> tuple[Rows, WeightStatistics]:
    """The rows with copies counted once, and their sums; `statistics` are all sums.

    To a noise that is learned copies look like rows without noise.
    """
    distinct = counted_once(rows)
    if np.all(distinct.weights == rows.weights):
        return rows, statistics
    return distinct, row_statistics(basis, distinct, n_jobs)


def final_noise(
    basis: KernelBasis,
    rows: Rows,
    statistics: WeightStatistics,
    likelihood: Gaussian,
    at_points: bool = False,
) -> Gaussian:
    """Fit a free noise variance of one target to all rows, given the basis.

    That of the search stands if it read all rows, and the basis leaves out at most a
    fiftieth of it, ``Σ var g / n``. Otherwise see :func:`noise_of_targets`.
    """
    if not len(likelihood.theta):
        return likelihood
    noise = float(likelihood.variance(0.0))
    n_rows = statistics.weight / float(np.mean(rows.precisions))
    if n_rows <= SEARCHED_ROWS and _is_tight(statistics, noise):
        return likelihood
    regressions = TargetRegressions(statistics)
    noises = noise_of_targets(basis, rows, regressions, likelihood, at_points)
    return with_noise(likelihood, float(noises[0]))


def noise_of_targets(
    basis: KernelBasis,
    rows: Rows,
    regressions: TargetRegressions,
    likelihood: Gaussian,
    at_points: bool = False,
) -> Array:
    """Noise variance of each target (t,), at most the variance of its y.

    The bound of the evidence and the hyperprior of the search find it where the basis
    leaves out next to nothing. Otherwise the bound counts what is left out as noise,
    and predictions count it again as ``var g``: the density of rows given all others
    decides, ``N(φᵀw̄, |Rᵀφ|² + var g + σ²)`` with ``w ~ N(w̄, RRᵀ)``.

    Parameters
    ----------
    basis : KernelBasis
    rows : Rows
        All rows of the sums, or some of them.
    regressions : TargetRegressions
    likelihood : Gaussian
        That of the search.
    at_points : bool, default=False
        Whether rows at inducing points count, which predictions take to be known: for a
        model that is judged at all rows.

    Notes
    -----
    O(m^2) for each of 1000 rows.
    """
    statistics = regressions.statistics
    noise = float(likelihood.variance(0.0))
    if not len(likelihood.theta):
        return np.full(np.size(statistics.square), noise)
    # at most the variance of y, unless a target is constant
    mean_squares = np.atleast_1d(statistics.square) / statistics.weight
    largest = np.where(mean_squares > 0.0, mean_squares, np.inf)
    low, high = likelihood.theta_bounds[0]
    by_bound = regressions.best_noise(low, high, NOISE_PRIOR.log_density)
    by_bound = np.clip(np.minimum(by_bound, largest), np.exp(low), np.exp(high))
    if _is_tight(statistics, by_bound.min()):
        return by_bound

    sample = rows.thinned(HELD_OUT_ROWS + basis.n_basis)
    features = basis(sample.X)
    residual = basis.residual_variance(sample.X, features)
    chosen = np.arange(len(sample.y))
    if not at_points:
        prior_variance = np.max(basis.kernel.diag(sample.X))
        between_points = np.flatnonzero(residual > 1e-8 * prior_variance)
        if len(between_points) >= FEWEST_HELD_OUT_ROWS:
            chosen = between_points
    chosen = chosen[thinning(len(chosen), HELD_OUT_ROWS)]
    sample = sample.take(chosen)
    residual = residual[chosen, np.newaxis]
    relative_noise: float | Array = 1.0
    if sample.known is not None:
        relative_noise = sample.known[:, np.newaxis]
    moments = regressions.left_out(
        features[chosen],
        sample.y.reshape(len(chosen), -1),
        sample.precisions,
    )

    def densities(log_noise: Array) -> Array:
        """Mean log densities of the rows of each target, (t,)."""
        noises = np.exp(log_noise)
        errors, variances = moments(noises)
        variances = variances + residual + noises * relative_noise
        density = normal_density(errors, np.zeros(1), variances)
        return np.average(density, axis=0, weights=sample.weights)

    lowest = np.minimum(0.5 * noise, 0.02 * by_bound)
    best = np.exp(best_of_grids(densities, np.log(lowest), np.log(by_bound)))
    best = np.clip(best, np.exp(low), np.exp(high))
    # rows that came after these may have more noise: Σ (y - φᵀw)² of all rows
    squares = regressions.squares_of_residuals(best)
    expected = statistics.weight * best + statistics.residual
    return np.where(squares <= 2.0 * expected, best, by_bound)


def _is_tight(statistics: WeightStatistics, noise: float) -> bool:
    """Whether the basis leaves out at most a fiftieth of the noise, ``Σ var g / n``."""
    return bool(statistics.residual <= 0.02 * noise * statistics.weight)
