"""Capacity and noise of sparse models: inducing points that suffice, held-out rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from skgpx._numerics.linalg import solve_lower
from skgpx._numerics.regression import (
    TargetRegressions,
    WeightStatistics,
    best_noise_variance,
    precision_root,
    weight_statistics,
)
from skgpx._selection._candidates import NOISE_PRIOR
from skgpx._selection._evidence import normal_density, with_noise, within_variance
from skgpx._validation import Rows
from skgpx.bases import Nystroem, select_inducing, select_until
from skgpx.likelihoods import Gaussian

Array = NDArray[np.float64]

# Rows that a search by the exact evidence reads, and from which on some are held out.
SEARCHED_ROWS, ABUNDANT_ROWS = 1500, 4500


# ---- Capacity by doubling ------------------------------------------------------------


def grow(
    score: Callable[[int], float],
    size: int,
    largest: int,
    n: float,
) -> tuple[int, float]:
    """Capacity after which twice as much gains too little, and its score.

    Too little is less than 0.01 nats an observation, or less than 10 nats in all.

    Parameters
    ----------
    score : callable
        Log evidence or density of n observations of a model of this size, in nats.
    size, largest : int
        Where growth starts, and what the budget allows.
    n : float
        Number of observations.
    """
    value = score(size)
    while size < largest:
        larger = min(2 * size, largest)
        gained = score(larger)
        if gained - value < max(0.01 * n, 10.0):
            break
        size, value = larger, gained
    return size, value


def most_points(n: int, largest: int = 2500) -> int:
    """The most inducing points for n rows within the budget, at most `largest`.

    The pass over the rows takes 2 n m² operations: at most 5e11, ten seconds.
    """
    most = min(2500, n, largest)
    return max(min(most, int(np.sqrt(2.5e11 / n))), min(100, most))


def inducing_by_capacity(
    rows: Rows,
    kernel: Any,
    noise_variance: float,
    inducing: str,
    rng: np.random.Generator,
    largest: int = 2500,
) -> tuple[Array, bool]:
    """Inducing points until what they leave no longer matters.

    The evidence bound of m points is below the exact evidence by no more than about
    ``Σ var g(x_i) / (2 noise_variance)`` nats: the greedy choice ends when that is a
    thousandth of a nat an observation, and the mean of ``var g`` is small beside the
    posterior variance of the function, which is at most ``noise_variance m / n`` on
    average: a two-hundredth of that. Where the budget ends first the spectrum of the
    kernel is flat, and random rows serve as well as greedy ones, which then lie at the
    rim of the data.

    Parameters
    ----------
    rows : Rows
    kernel : sklearn.gaussian_process.kernels.Kernel
    noise_variance : float
    inducing : str
        Strategy; others than "greedy" place as many points.
    rng : numpy.random.Generator
    largest : int, default=2500
        A smaller limit.

    Returns
    -------
    points : ndarray of shape (m, d)
    suffice : bool
        Whether what they leave does not matter.

    Notes
    -----
    O(4000 m^2) in matrix products for the greedy choice, m at most 2500.
    """
    X, weights = rows.X, rows.weights
    most = most_points(len(X), largest)
    enough = 2e-3 * noise_variance
    per_point = 5e-3 * noise_variance / float(weights.sum())
    points = select_until(X, kernel, most, enough, rng, weights, per_point)
    if inducing == "greedy" and points is not None:
        return points, True
    how, found = "random" if inducing == "greedy" else inducing, points is not None
    size = most if points is None else len(points)
    points = select_inducing(how, X, kernel, size, rng, weights)
    return points, found


def inducing_of_targets(
    rows: Rows,
    kernel: Any,
    likelihood: Gaussian,
    inducing: str,
    rng: np.random.Generator,
    learn: bool = True,
) -> Array:
    """:func:`inducing_by_capacity` for the target of the least noise."""
    noise, how = float(likelihood.variance(0.0)), (inducing, rng)
    Z = inducing_by_capacity(rows, kernel, noise, *how)[0]
    if rows.y.ndim == 1:
        return Z
    some = rows.take(slice(None, None, -(-len(rows.y) // 12_000)))
    sums = _statistics(Nystroem.from_kernel(kernel, Z), some)
    noise = float(regress_targets(sums, likelihood, learn)[1].min())
    return inducing_by_capacity(rows, kernel, noise, *how)[0]


# ---- Noise beside a sparse model, and the density of rows that it has not seen -------


def best_noise(
    basis: Any,
    seen: WeightStatistics,
    rows: Rows,
    low: float,
    high: float,
) -> tuple[float, float]:
    """Noise variance under which held-out rows are most probable, and log density.

    ``N(φᵀw̄, |Rᵀφ|² + var g + σ²)`` with ``w ~ N(w̄, RRᵀ)``; O(m^3 + n m^2) a step.
    """
    features = basis(rows.X)
    residual = basis.residual_variance(rows.X, features)
    known = 1.0 if rows.known is None else rows.known

    def loss(log_noise: float) -> float:
        noise = float(np.exp(log_noise))
        L = precision_root(seen.gram, noise)
        half = solve_lower(L, features.T)
        mean = half.T @ solve_lower(L, seen.moment) / noise
        variance = np.einsum("ij,ij->j", half, half) + residual + noise * known
        return -float(np.mean(normal_density(rows.y.T, mean.T, variance)))

    if low == high:
        return low, -loss(float(np.log(low)))
    found = optimize.minimize_scalar(
        loss,
        bounds=(np.log(low), np.log(high)),
        method="bounded",
        options={"xatol": 0.1, "maxiter": 12},
    )
    return float(np.exp(found.x)), -float(found.fun)


def final_noise(
    basis: Any,
    rows: Rows,
    statistics: WeightStatistics,
    likelihood: Gaussian,
    rng: np.random.Generator,
) -> Gaussian:
    """Fit a free noise variance to all rows, given the basis.

    The bound of the evidence finds it where the basis leaves out no more than a
    fiftieth of it, ``Σ var g / n``. Where more is left out the bound counts that as
    noise, and predictions count it again as ``var g``: the density of held-out rows
    decides, if there are 4500 rows.

    Notes
    -----
    O(m^3): one tridiagonal form and, with held-out rows, about ten factorisations.
    """
    if not len(likelihood.theta):
        return likelihood
    learned = float(likelihood.variance(0.0))
    bounded = with_noise(likelihood, best_noise_variance(statistics, learned))
    bounded = within_variance(bounded, rows)
    best = float(bounded.variance(0.0))
    n, tight = len(rows.y), statistics.residual <= 0.02 * best * statistics.weight
    if tight and n <= SEARCHED_ROWS:
        return likelihood
    if tight or n < ABUNDANT_ROWS:
        return bounded
    order = np.argsort(rng.exponential(size=n) / rows.weights, kind="stable")
    some = rows.take(np.sort(order[: 1000 + basis.n_basis]))
    # inducing points are no held-out rows: predictions take them to be known
    residual = basis.residual_variance(some.X, basis(some.X))
    apart = np.flatnonzero(residual > 1e-8 * np.max(basis.kernel.diag(some.X)))
    held = some.take(np.sort(rng.permutation(apart)[:1000]))
    if len(held.y) < 200:
        return bounded
    seen = statistics.add(_statistics(basis, held), -1.0)
    low, high = min(0.5 * learned, 0.02 * best), 2.0 * max(learned, best)
    return with_noise(likelihood, best_noise(basis, seen, held, low, high)[0])


def regress_targets(
    statistics: WeightStatistics,
    likelihood: Gaussian,
    learn: bool = True,
) -> tuple[TargetRegressions, Array]:
    """Regressions of several targets and the noise variance of each, given the basis.

    A free noise has its own evidence and the hyperprior of the search, in which all
    targets shared one.
    """
    found, n_targets = TargetRegressions(statistics), statistics.moment.shape[1]
    if not (learn and len(likelihood.theta)):
        return found, np.full(n_targets, float(likelihood.variance(0.0)))
    noises = found.best_noise(*likelihood.theta_bounds[0], *NOISE_PRIOR)
    # at most the variance of y, unless a target is constant
    mean_squares = statistics.square / statistics.weight
    largest = np.where(mean_squares > 0.0, mean_squares, np.inf)
    return found, np.minimum(noises, largest)


def _statistics(basis: Any, rows: Rows) -> WeightStatistics:
    features = basis(rows.X)
    residual = basis.residual_variance(rows.X, features)
    return weight_statistics(features, rows.y, rows.precisions, residual)
