"""Capacity and noise of sparse models: inducing points that suffice, held-out rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import optimize

from skgpx._hyperparameters._candidates import NOISE_PRIOR
from skgpx._hyperparameters._evidence import (
    normal_density,
    with_noise,
    within_variance,
)
from skgpx._numerics.linalg import solve_lower
from skgpx._numerics.regression import (
    TargetRegressions,
    WeightStatistics,
    best_noise_variance,
    precision_root,
    weight_statistics,
)
from skgpx._numerics.weights import GaussianWeights
from skgpx._row_budgets import (
    ABUNDANT_ROWS,
    FEWEST_HELD_OUT_ROWS,
    HELD_OUT_ROWS,
    NOISE_ROWS,
    SEARCHED_ROWS,
)
from skgpx._shell.row_statistics import counted_once, row_statistics
from skgpx._shell.validation import Rows
from skgpx._types import Array, ArrayLike, Generator, Kernel
from skgpx.bases import Nystroem, select_inducing, select_until
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
    learn: bool = True,
) -> Array:
    """:func:`inducing_by_capacity` for the target of the least noise."""
    noise = float(likelihood.variance(0.0))
    Z, _ = inducing_by_capacity(rows, kernel, noise, inducing, rng)
    if rows.y.ndim == 1:
        return Z
    sample = rows.without_gaps().thinned(NOISE_ROWS)
    basis = Nystroem.from_kernel(kernel, Z)
    _, noises = regress_targets(basis, sample, likelihood, learn, n_jobs=1)
    Z, _ = inducing_by_capacity(rows, kernel, float(noises.min()), inducing, rng)
    return Z


# ---- Noise of a sparse model, and the density of held-out rows -----------------------


def best_noise(
    basis: Nystroem,
    training: WeightStatistics,
    rows: Rows,
    low: float,
    high: float,
) -> tuple[float, float]:
    """Noise variance under which held-out rows are most probable.

    ``N(φᵀw̄, |Rᵀφ|² + var g + σ²)`` with ``w ~ N(w̄, RRᵀ)``; O(m^3 + n m^2) a step.

    Parameters
    ----------
    basis : Nystroem
    training : WeightStatistics
        Of the other rows.
    rows : Rows
        Held-out rows.
    low, high : float
        Bounds of the noise variance, which may be equal.

    Returns
    -------
    noise_variance, log_density : float
        The latter is the mean over the rows, in nats.
    """
    features = basis(rows.X)
    residual = basis.residual_variance(rows.X, features)
    relative_noise: float | Array = 1.0
    if rows.known is not None:
        relative_noise = rows.known

    def loss(log_noise: float) -> float:
        noise = float(np.exp(log_noise))
        # L Lᵀ = ΦᵀΦ / σ² + I, the precision of the weights
        L = precision_root(training.gram, noise)
        half = solve_lower(L, features.T)
        mean = half.T @ solve_lower(L, training.moment) / noise
        latent_variance = np.einsum("ij,ij->j", half, half) + residual
        variance = latent_variance + noise * relative_noise
        return -float(np.mean(normal_density(rows.y.T, mean.T, variance)))

    if low == high:
        return low, -loss(float(np.log(low)))
    optimum = optimize.minimize_scalar(
        loss,
        bounds=(np.log(low), np.log(high)),
        method="bounded",
        options={"xatol": 0.1, "maxiter": 12},
    )
    return float(np.exp(optimum.x)), -float(optimum.fun)


def final_noise(
    basis: Nystroem,
    rows: Rows,
    statistics: WeightStatistics,
    likelihood: Gaussian,
    rng: Generator,
) -> Gaussian:
    """Fit a free noise variance to all rows, given the basis.

    The bound of the evidence finds it if the basis leaves out at most a fiftieth of it,
    ``Σ var g / n``. Otherwise the bound counts the residual as noise, and predictions
    count it again as ``var g``: the density of held-out rows decides, if there are 4500
    rows.

    Notes
    -----
    O(m^3): one tridiagonal form and, with held-out rows, about ten factorisations.
    """
    if not len(likelihood.theta):
        return likelihood
    n = len(rows.y)
    learned = float(likelihood.variance(0.0))
    by_bound = with_noise(likelihood, best_noise_variance(statistics, learned))
    by_bound = within_variance(by_bound, rows)
    bound_noise = float(by_bound.variance(0.0))
    is_tight = statistics.residual <= 0.02 * bound_noise * statistics.weight
    if is_tight and n <= SEARCHED_ROWS:
        return likelihood
    if is_tight or n < ABUNDANT_ROWS:
        return by_bound
    order = np.argsort(rng.exponential(size=n) / rows.weights, kind="stable")
    sample = rows.take(np.sort(order[: HELD_OUT_ROWS + basis.n_basis]))
    # predictions take inducing points to be known: they are no held-out rows
    residual = basis.residual_variance(sample.X, basis(sample.X))
    prior_variance = np.max(basis.kernel.diag(sample.X))
    candidates = np.flatnonzero(residual > 1e-8 * prior_variance)
    chosen = np.sort(rng.permutation(candidates)[:HELD_OUT_ROWS])
    held_out = sample.take(chosen)
    if len(held_out.y) < FEWEST_HELD_OUT_ROWS:
        return by_bound
    training = statistics.add(_statistics(basis, held_out), -1.0)
    low = min(0.5 * learned, 0.02 * bound_noise)
    high = 2.0 * max(learned, bound_noise)
    noise, _ = best_noise(basis, training, held_out, low, high)
    return with_noise(likelihood, noise)


def regress_targets(
    basis: Nystroem,
    rows: Rows,
    likelihood: Gaussian,
    learn: bool,
    n_jobs: int | None,
) -> tuple[TargetRegressions, Array]:
    """Regressions of several targets and the noise variance of each, given the basis.

    A free noise has its own evidence and the hyperprior of the search, in which all
    targets shared one. As there copies count once, which look like rows without noise.
    """
    statistics = row_statistics(basis, rows, n_jobs)
    regressions = TargetRegressions(statistics)
    n_targets = rows.y.shape[1]
    if not (learn and len(likelihood.theta)):
        return regressions, np.full(n_targets, float(likelihood.variance(0.0)))
    low, high = likelihood.theta_bounds[0]
    distinct = counted_once(rows)
    sums = regressions
    if np.any(distinct.weights != rows.weights):
        sums = TargetRegressions(row_statistics(basis, distinct, n_jobs))
    noises = sums.best_noise(low, high, NOISE_PRIOR.log_density)
    # at most the variance of y, unless a target is constant
    mean_squares = statistics.square / statistics.weight
    largest = np.where(mean_squares > 0.0, mean_squares, np.inf)
    return regressions, np.minimum(noises, largest)


def follows(sums: WeightStatistics, weights: GaussianWeights, noise: float) -> bool:
    """Whether functions of a basis follow the rows of one target.

    Residuals of more than twice the noise, which a finding reports, are noise to them::

        Σ (y - φᵀw)² = yᵀy - 2 wᵀΦᵀy + wᵀΦᵀΦw
    """
    w = weights.mean[:, 0]
    square = sums.square + w @ (sums.gram @ w - 2.0 * sums.moment)
    return bool(square <= 2.0 * sums.weight * noise)


def noise_of_sums(
    sums: WeightStatistics,
    start: float,
    bounds: tuple[float, float],
) -> float:
    """The best noise variance of one target, at most the variance of y."""
    best = np.clip(best_noise_variance(sums, start), *bounds)
    return float(min(best, sums.square / sums.weight))


def _statistics(basis: Nystroem, rows: Rows) -> WeightStatistics:
    features = basis(rows.X)
    residual = basis.residual_variance(rows.X, features)
    return weight_statistics(features, rows.y, rows.precisions, residual)
