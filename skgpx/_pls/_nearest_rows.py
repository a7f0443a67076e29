"""Posterior beside nearest rows: in closed form, or the closest normal distribution."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from skgpx._numerics import laplace
from skgpx._numerics.regression import log_evidence, posterior, precision_root
from skgpx._numerics.smoothing import smoothed
from skgpx._numerics.weights import GaussianWeights
from skgpx._parallel import blas_jobs, n_workers
from skgpx._row_statistics import (
    WhitenedRows,
    neighbor_whitening,
    whitened_statistics,
)
from skgpx._selection import WorkingResponses, rough_start, row_target
from skgpx._validation import Rows
from skgpx.bases import NeighborResidual, Nystroem
from skgpx.likelihoods import Likelihood

Array = NDArray[np.float64]
Index = NDArray[np.intp]

# Half the squared Newton decrement before the last step to the mean, in nats.
_TOLERANCE = 1e-3
# Relative change of the precisions of the rows below which they stay as they are.
_SETTLED = 0.02
# The most changes of the precisions, and the most steps to the mean in between.
_MOST_ROUNDS, _MOST_STEPS = 30, 30


class NearestRows(NamedTuple):
    """Posterior of inducing points beside nearest rows.

    Attributes
    ----------
    residual : NeighborResidual
    y : ndarray of shape (n,)
        The data, or working responses.
    weights : GaussianWeights
    log_evidence : float
        In nats; a lower bound where the noise is not Gaussian.
    converged : bool
    """

    residual: NeighborResidual
    y: Array
    weights: GaussianWeights
    log_evidence: float
    converged: bool


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


def condition_on_rows(
    basis: Nystroem,
    n_neighbors: int,
    rows: Rows,
    likelihood: Likelihood,
    n_jobs: int | None,
    rng: np.random.Generator,
) -> NearestRows:
    """Posterior given all rows, each conditioned on its nearest predecessors.

    Under Gaussian noise it is exact regression. For any other likelihood it is the
    normal distribution q(f) that is closest to the posterior in the divergence
    ``KL(q | posterior)``, that is, the fixed point of regression on working responses
    that are averaged over q [1]_::

        z = m - E g / E c,   D = 1 / E c,   f ~ N(m, diag v)
        m = K (K + D)⁻¹ z,   v = diag(K - K (K + D)⁻¹ K)

    with the gradient g and the second derivative c of the negative log-likelihood, and
    E c where it is positive. A round takes D, and hence the covariance of the rows;
    Newton's method then finds the mean at these variances. The rounds end where the
    equations hold: where neither a Newton step nor the precisions ``1 / D`` change.

    Parameters
    ----------
    basis : Nystroem
    n_neighbors : int
    rows : Rows
    likelihood : Likelihood
        Prepared, of one output.
    n_jobs : int or None
    rng : numpy.random.Generator
        Draws the order of the rows.

    Notes
    -----
    O(n N^2 (N + M) + n M^2) a round, of which two or three suffice where the likelihood
    is log-concave.

    References
    ----------
    .. [1] Opper and Archambeau, "The variational Gaussian approximation revisited",
       Neural Computation 2009.
    """
    features = basis(rows.X)
    threads = n_workers(blas_jobs(n_jobs))
    if likelihood.has_closed_form:
        responses = WorkingResponses.of(rows, likelihood, np.zeros(len(rows.y)))
        residual = NeighborResidual(
            basis, rows.X, responses.noise, features, n_neighbors
        )
        near, count = residual.predecessors(rng, threads)
        W = neighbor_whitening(residual, near, count, n_jobs)
        return _given_responses(residual, responses, W, converged=True)
    # start at the mode of the inducing points alone
    target = row_target(features, rows, likelihood)
    mode = laplace.find_mode(smoothed(target), rough_start(target), 1e-2)
    responses = WorkingResponses.of(
        rows,
        likelihood,
        features @ mode.weights[:, 0],
    )
    residual = NeighborResidual(basis, rows.X, responses.noise, features, n_neighbors)
    near, count = residual.predecessors(rng, threads)
    precision = 1.0 / responses.noise
    mean = LatentMean(np.zeros_like(precision), np.zeros_like(precision))
    previous: tuple[Array, Array] | None = None
    converged = False
    for _ in range(_MOST_ROUNDS):
        noise = 1.0 / precision
        responses = responses._replace(noise=noise)
        # C = K + D, and the variances K - K C⁻¹ K = D - D C⁻¹ D
        residual = replace(residual, noise=noise)
        W = neighbor_whitening(residual, near, count, n_jobs)
        sums = whitened_statistics(W, features, responses.y)
        covariance = WhitenedRows(W, features, precision_root(sums.gram, 1.0))
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
        larger = np.maximum(precision, precision + change)
        square = np.sum(variance * change**2 / larger) / np.sum(variance * larger)
        converged = bool(decrement < _TOLERANCE and square < _SETTLED**2)
        if converged:
            break
        step = change
        if previous is not None:
            step = change * _secant_rate(*previous, precision, change)
        previous = (precision, change)
        precision = precision + step
    # the last responses, with the noise to which the covariance belongs
    return _given_responses(residual, responses._replace(noise=noise), W, converged)


def _secant_rate(
    before: Array,
    change: Array,
    after: Array,
    next_change: Array,
) -> Array:
    """Part of a change, row by row, after which a secant through two has none left.

    Larger precisions make variances smaller, over which a curved likelihood is averaged
    to smaller precisions: whole steps may overshoot forever. They are taken where the
    change has not become smaller.
    """
    fall = change - next_change
    rise = after - before
    rate = np.divide(rise, fall, out=np.ones_like(rise), where=fall * rise > 0.0)
    return np.clip(rate, 0.05, 1.0)


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

    def energy(responses: WorkingResponses, mean: LatentMean) -> float:
        return responses.energy + 0.5 * float(mean.values @ mean.dual)

    lowest = energy(WorkingResponses.of(rows, likelihood, mean.values, variance), mean)
    for _ in range(_MOST_STEPS):
        # a = C⁻¹ z and m = K a = z - D a
        z = responses.y
        dual = covariance.solve(z)
        newton = LatentMean(z - noise * dual, dual)
        # the gradient is E g + K⁻¹m
        gradient = responses.slope + mean.dual
        decrement = 0.5 * abs(float(gradient @ (newton.values - mean.values)))
        part = 1.0
        while True:
            trial = mean.moved(newton, part)
            responses = WorkingResponses.of(rows, likelihood, trial.values, variance)
            reached = energy(responses, trial)
            if reached <= lowest or part < 1e-3:
                break
            part *= 0.5
        mean, lowest = trial, reached
        # a step that had to be shortened asks for the precisions of where it ended
        if decrement < _TOLERANCE or part < 1.0:
            break
        responses = responses._replace(noise=noise)
    return mean, WorkingResponses.of(rows, likelihood, mean.values, variance), decrement


def _given_responses(
    residual: NeighborResidual,
    responses: WorkingResponses,
    W: csr_array,
    converged: bool,
) -> NearestRows:
    """Regression on responses, whitened by W."""
    statistics = whitened_statistics(W, residual.features, responses.y)
    root = precision_root(statistics.gram, 1.0)
    weights = posterior(statistics, 1.0, root)
    evidence = log_evidence(statistics, 1.0, root) + float(np.log(W.diagonal()).sum())
    evidence += responses.constant
    return NearestRows(residual, responses.y, weights, evidence, converged)
