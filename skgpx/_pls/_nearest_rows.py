"""Nearest rows: regression, or the closest normal distribution to the posterior."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.gaussian_process.kernels import Kernel

from skgpx._latent import NeighborModel
from skgpx._numerics import laplace
from skgpx._numerics.regression import log_evidence, posterior, precision_root
from skgpx._numerics.smoothing import smoothed
from skgpx._parallel import blas_jobs, n_workers
from skgpx._pls._chains import independent_draws
from skgpx._pls._sampler import Inference, Sampler, prior_mean
from skgpx._row_budgets import COMPARED_ROWS
from skgpx._row_statistics import (
    WhitenedRows,
    neighbor_whitening,
    whitened_statistics,
)
from skgpx._selection import WorkingResponses, rough_start, row_target
from skgpx._validation import Rows
from skgpx.bases import NeighborResidual, Nystroem
from skgpx.diagnostics import rows_not_converged
from skgpx.likelihoods import Likelihood

Array = NDArray[np.float64]
Index = NDArray[np.intp]

# Half the squared Newton decrement before the last step to the mean, in nats.
_TOLERANCE = 1e-3
# Relative change of the precisions of the rows below which they stay as they are.
_SETTLED = 0.02
# Changes of the precisions, and steps to the mean in between.
_MAX_ROUNDS = 30
_MAX_STEPS = 30
# Shortest part of a Newton step, and of a change of a precision.
_MIN_PART = 1e-3
_MIN_RATE = 0.05


def nearest_rows(
    basis: Nystroem,
    rows: Rows,
    likelihood: Likelihood,
    sampler: Sampler,
    rng: np.random.Generator,
) -> Inference:
    """Posterior given all rows, each conditioned on its nearest predecessors.

    Under Gaussian noise it is exact regression. For any other likelihood it is the
    normal distribution q(f) that is closest to the posterior in the divergence
    ``KL(q | posterior)``, that is, the fixed point of regression on working responses
    that are averaged over q [1]_::

        z = m - E g / E c,   D = 1 / E c,   f ~ N(m, diag v)
        m = K (K + D)⁻¹ z,   v = diag(K - K (K + D)⁻¹ K)

    with the gradient g and the second derivative c of the negative log-likelihood, and
    E c where it is positive. Predictions use the posterior itself, not the draws.
    Parameters as in :func:`~skgpx._pls._inference.infer`; the likelihood has one
    output.

    Notes
    -----
    O(n N^2 (N + M) + n M^2) a round, of which two or three suffice where the likelihood
    is log-concave.

    References
    ----------
    .. [1] Opper and Archambeau, "The variational Gaussian approximation revisited",
       Neural Computation 2009.
    """
    # 1 noise, or the precisions of working responses, at a start
    features = basis(rows.X)
    latent = np.zeros(len(rows.y))
    if not likelihood.has_closed_form:
        latent = _latent_at_mode(features, rows, likelihood)
    responses = WorkingResponses.of(rows, likelihood, latent)
    # 2 nearest predecessors in a random order
    residual = NeighborResidual(
        basis=basis,
        rows=rows.X,
        noise=responses.noise,
        features=features,
        n_neighbors=sampler.n_neighbors,
    )
    order_rng = rng.spawn(1)[0]
    n_jobs = sampler.n_jobs
    nearest, count = residual.predecessors(order_rng, n_workers(blas_jobs(n_jobs)))
    # 3 W, which makes the rows independent given w
    if likelihood.has_closed_form:
        W = neighbor_whitening(residual, nearest, count, n_jobs)
        converged = True
    else:
        fixed_point = _closest_normal(
            residual,
            nearest,
            count,
            rows,
            likelihood,
            responses,
            n_jobs,
        )
        residual, responses, W, converged = fixed_point
    # 4 regression of W y on W Φ
    statistics = whitened_statistics(W, features, responses.y)
    root = precision_root(statistics.gram, 1.0)
    weights = posterior(statistics, 1.0, root)
    # log det W, and the nll of the rows beyond their quadratic forms
    evidence = log_evidence(statistics, 1.0, root) + float(np.log(W.diagonal()).sum())
    evidence += responses.constant
    particles, sample = independent_draws(weights, sampler.n_particles, rng)
    return Inference(
        posterior=NeighborModel(
            residual,
            responses.y,
            weights,
            prior_mean(likelihood),
        ),
        particles=particles,
        sample=sample,
        likelihood=likelihood,
        log_evidence=evidence,
        unexplained=0.0,
        findings=(rows_not_converged(converged),),
    )


def _latent_at_mode(features: Array, rows: Rows, likelihood: Likelihood) -> Array:
    """Latent values at the mode of the inducing points, without nearest rows, (n,)."""
    target = row_target(features, rows, likelihood)
    mode = laplace.find_mode(smoothed(target), rough_start(target), 1e-2)
    latent: Array = features @ mode.weights[:, 0]
    return latent


# ---- Points alone, or nearest rows? --------------------------------------------------


def points_are_closer(
    rows: Rows,
    kernel: Kernel,
    noise_variance: float,
    points: Array,
    fewer_points: Array,
    n_neighbors: int,
    rng: np.random.Generator,
) -> bool:
    """Whether many points predict better than fewer ones and nearest rows.

    Under the prior a new value y has the expected log density ``-½ E log 2πe var y``.
    Given the weights of the points its variance is ``σ² + var g``, with the residual g
    that they leave out, or ``σ² + var h`` if noisy values of g are known nearby. Both
    the mean of its logarithm and its mean, the expected squared error, have to be
    smaller: points leave out much at outlying rows.

    Notes
    -----
    O(M^3) for M points, and O(N (M^2 + N^2)) for each of 200 rows.
    """
    chosen = np.sort(rng.permutation(len(rows.y))[:COMPARED_ROWS])
    X = rows.X[chosen]
    basis = Nystroem.from_kernel(kernel, points)
    fewer = Nystroem.from_kernel(kernel, fewer_points)
    residual = basis.residual_variance(X, basis(X))
    # predictions take inducing points to be known: they are no new rows
    smallest = np.minimum(residual, fewer.residual_variance(X, fewer(X)))
    is_new = smallest > 1e-8 * np.max(kernel.diag(X))
    if not np.any(is_new):
        return True
    # 1 many points
    by_points = noise_variance + residual[is_new]
    # 2 fewer ones, and nearest rows
    noise = noise_variance / rows.precisions
    all_rows = NeighborResidual(
        basis=fewer,
        rows=rows.X,
        noise=noise,
        features=np.empty((0, fewer.n_basis)),
        n_neighbors=n_neighbors,
    )
    nearest = all_rows.nearest_others(chosen[is_new])
    used, position = np.unique(nearest, return_inverse=True)
    nearest_residual = replace(
        all_rows,
        rows=rows.X[used],
        noise=noise[used],
        features=fewer(rows.X[used]),
    )
    _, variance = nearest_residual.features_and_variance(
        X[is_new],
        position.reshape(nearest.shape),
    )
    by_neighbors = noise_variance + variance
    log_ratio = np.log(by_points / by_neighbors)
    return bool(np.mean(log_ratio) < 0.0 and by_points.mean() < by_neighbors.mean())


# ---- The closest normal distribution -------------------------------------------------


class LatentMean(NamedTuple):
    """Mean of the latent values of the rows, ``m = K a``, less their base.

    Attributes
    ----------
    values, dual : ndarray of shape (n,)
        ``m`` and ``a``.
    """

    values: Array
    dual: Array

    def moved(self, other: LatentMean, part: float) -> LatentMean:
        """The mean a part of the way to another one."""
        values = self.values + part * (other.values - self.values)
        dual = self.dual + part * (other.dual - self.dual)
        return LatentMean(values, dual)


class FixedPoint(NamedTuple):
    """Working responses that reproduce their own distribution of f.

    Attributes
    ----------
    residual : NeighborResidual
        With the noise D of the responses.
    responses : WorkingResponses
    whitening : csr_array of shape (n, n)
        ``W`` under this noise.
    converged : bool
    """

    residual: NeighborResidual
    responses: WorkingResponses
    whitening: csr_array
    converged: bool


def _closest_normal(
    residual: NeighborResidual,
    nearest: Index,
    count: Index,
    rows: Rows,
    likelihood: Likelihood,
    responses: WorkingResponses,
    n_jobs: int | None,
) -> FixedPoint:
    """Fixed point of the equations of :func:`nearest_rows`.

    A round takes D, and hence the covariance of the rows; Newton's method then finds
    the mean at these variances. The rounds end where the equations hold: where neither
    a Newton step nor the precisions ``1 / D`` change.
    """
    features = residual.features
    precision = 1.0 / responses.noise
    mean = LatentMean(np.zeros_like(precision), np.zeros_like(precision))
    previous: tuple[Array, Array] | None = None
    converged = False
    for _ in range(_MAX_ROUNDS):
        noise = 1.0 / precision
        residual = replace(residual, noise=noise)
        responses = responses._replace(noise=noise)
        # C = K + D, and the variances K - K C⁻¹ K = D - D C⁻¹ D
        W = neighbor_whitening(residual, nearest, count, n_jobs)
        statistics = whitened_statistics(W, features, responses.y)
        root = precision_root(statistics.gram, 1.0)
        covariance = WhitenedRows(W, features, root)
        variance = noise - noise**2 * covariance.inverse_diagonal()
        variance = np.maximum(variance, 1e-6 * noise.min())
        mean, responses, decrement = _find_mean(
            rows,
            likelihood,
            covariance,
            variance,
            mean,
            responses,
        )
        # precisions of the new moments; rows count by their shares of the information
        change = 1.0 / responses.noise - precision
        scale = np.maximum(precision, precision + change)
        mean_square = np.sum(variance * change**2 / scale) / np.sum(variance * scale)
        converged = bool(decrement < _TOLERANCE and mean_square < _SETTLED**2)
        if converged:
            break
        step = change
        if previous is not None:
            last_precision, last_change = previous
            rate = _secant_rate(last_precision, last_change, precision, change)
            step = change * rate
        previous = (precision, change)
        precision = precision + step
    # the last responses, with the noise to which the covariance belongs
    responses = responses._replace(noise=noise)
    return FixedPoint(residual, responses, W, converged)


def _secant_rate(
    previous: Array,
    previous_change: Array,
    precision: Array,
    change: Array,
) -> Array:
    """Part of a change, row by row, after which a secant through two has none left.

    Larger precisions make variances smaller, over which a curved likelihood is averaged
    to smaller precisions: whole steps may overshoot forever. They are taken where the
    change has not become smaller.
    """
    fall = previous_change - change
    rise = precision - previous
    rate = np.divide(rise, fall, out=np.ones_like(rise), where=fall * rise > 0.0)
    return np.clip(rate, _MIN_RATE, 1.0)


def _find_mean(
    rows: Rows,
    likelihood: Likelihood,
    covariance: WhitenedRows,
    variance: Array,
    mean: LatentMean,
    responses: WorkingResponses,
) -> tuple[LatentMean, WorkingResponses, float]:
    """Minimise ``Σ E nll(f_i) + ½ mᵀK⁻¹m`` in m at fixed variances of f.

    Steps are those of Newton's method with the precisions of the responses, shortened
    until they go downhill: O(n (N + M)) each.

    Parameters
    ----------
    rows : Rows
    likelihood : Likelihood
    covariance : WhitenedRows
        ``C = K + D`` of noisy values.
    variance : ndarray of shape (n,)
    mean : LatentMean
        Where the search starts.
    responses : WorkingResponses
        Where the first step goes, with noise D.

    Returns
    -------
    mean : LatentMean
    responses : WorkingResponses
        Around this mean, with the noise that follows from it.
    decrement : float
        Half the squared Newton decrement before the last step, in nats.
    """
    noise = responses.noise
    # the covariance of another noise is not quite that of the same K
    dual = covariance.solve(mean.values + noise * mean.dual)
    mean = LatentMean(mean.values + noise * (mean.dual - dual), dual)
    responses_at_mean = WorkingResponses.of(rows, likelihood, mean.values, variance)
    energy = _energy(responses_at_mean, mean)
    for _ in range(_MAX_STEPS):
        # a = C⁻¹ z and m = K a = z - D a
        z = responses.y
        dual = covariance.solve(z)
        newton = LatentMean(z - noise * dual, dual)
        # the gradient is E g + K⁻¹m
        gradient = responses.slope + mean.dual
        decrement = 0.5 * abs(float(gradient @ (newton.values - mean.values)))
        # halve the step until it goes downhill
        part = 1.0
        while True:
            trial = mean.moved(newton, part)
            responses = WorkingResponses.of(rows, likelihood, trial.values, variance)
            trial_energy = _energy(responses, trial)
            if trial_energy <= energy or part < _MIN_PART:
                break
            part *= 0.5
        mean = trial
        energy = trial_energy
        # a step that had to be shortened asks for the precisions of where it ended
        if decrement < _TOLERANCE or part < 1.0:
            break
        responses = responses._replace(noise=noise)
    responses = WorkingResponses.of(rows, likelihood, mean.values, variance)
    return mean, responses, decrement


def _energy(responses: WorkingResponses, mean: LatentMean) -> float:
    """``Σ E nll(f_i) + ½ mᵀK⁻¹m`` around a mean."""
    return responses.energy + 0.5 * float(mean.values @ mean.dual)
