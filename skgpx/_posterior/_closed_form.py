"""Posterior of the weights by regression, of y or of the closest normal values."""

from __future__ import annotations

import numpy as np

from skgpx._hyperparameters import (
    VariationalEvidence,
    final_noise,
    regress_targets,
)
from skgpx._latent import LatentModel
from skgpx._numerics.linalg import solve_lower_transpose
from skgpx._numerics.regression import (
    WeightStatistics,
    log_evidence,
    posterior,
    precision_root,
)
from skgpx._numerics.weights import GaussianWeights
from skgpx._posterior._sampler import Inference, Sampler, inference_of, prior_mean
from skgpx._shell.row_statistics import row_statistics
from skgpx._shell.validation import Rows
from skgpx._types import Array, Generator
from skgpx.bases import Nystroem
from skgpx.likelihoods import Gaussian, Likelihood


def closed_form(
    basis: Nystroem,
    rows: Rows,
    likelihood: Gaussian,
    sampler: Sampler,
    rng: Generator,
) -> Inference:
    """Posterior ``N(Λ⁻¹ Φᵀ y / σ², Λ⁻¹)`` with ``Λ = I + Φᵀ Φ / σ²``, and its draws.

    Predictions use the posterior itself, not the draws. Parameters as in
    :func:`~skgpx._pls._inference.infer`; y may have several targets.
    """
    if rows.y.ndim > 1:
        return _several_targets(basis, rows, likelihood, sampler, rng)
    statistics = row_statistics(basis, rows, sampler.n_jobs)
    if sampler.noise_is_free:
        likelihood = final_noise(basis, rows, statistics, likelihood)
    return from_statistics(statistics, basis, likelihood, sampler, rng)


def from_statistics(
    statistics: WeightStatistics,
    basis: Nystroem,
    likelihood: Gaussian,
    sampler: Sampler,
    rng: Generator,
) -> Inference:
    """:func:`closed_form` given the sums over the rows, and the noise."""
    noise_variance = float(likelihood.variance(0.0))
    # Λ = root rootᵀ
    root = precision_root(statistics.gram, noise_variance)
    weights = posterior(statistics, noise_variance, root)
    evidence = log_evidence(statistics, noise_variance, root)
    return inference_of(
        LatentModel(basis, weights),
        likelihood,
        evidence,
        sampler,
        rng,
        unexplained=_unexplained(statistics, noise_variance),
    )


def _several_targets(
    basis: Nystroem,
    rows: Rows,
    likelihood: Gaussian,
    sampler: Sampler,
    rng: Generator,
) -> Inference:
    """Each target with a noise of its own, on the rows where it is known.

    Targets that are known at the same rows share one eigendecomposition.
    """
    n_targets = rows.y.shape[1]
    is_known = rows.is_known
    patterns, pattern_of_target = np.unique(is_known, axis=1, return_inverse=True)
    pattern_of_target = np.ravel(pattern_of_target)
    noises = np.empty(n_targets)
    distributions = {}
    evidence = 0.0
    residual = 0.0
    weight = 0.0
    for pattern, has_value in enumerate(patterns.T):
        targets = np.flatnonzero(pattern_of_target == pattern)
        known_rows = rows.take(np.flatnonzero(has_value))
        known_rows = known_rows._replace(y=known_rows.y[:, targets])
        regressions, noises[targets] = regress_targets(
            basis,
            known_rows,
            likelihood,
            sampler.n_jobs,
        )
        distributions[pattern] = regressions.posterior(noises[targets])
        evidence += float(regressions.log_evidence(noises[targets]).sum())
        # Σ var g / σ² of all targets
        statistics = regressions.statistics
        residual += statistics.residual * float(np.sum(1.0 / noises[targets]))
        weight += statistics.weight * len(targets)
    weights = distributions[0]
    if len(patterns.T) > 1:
        mean = np.empty((basis.n_basis, n_targets))
        root = np.empty((n_targets, basis.n_basis, basis.n_basis))
        for pattern, distribution in distributions.items():
            targets = pattern_of_target == pattern
            mean[:, targets], root[targets] = distribution.moments()
        weights = GaussianWeights(mean, root)
    return inference_of(
        LatentModel(basis, weights),
        likelihood.with_noise(noises),
        evidence,
        sampler,
        rng,
        unexplained=residual / (2.0 * weight),
    )


def collapsed_bound(
    basis: Nystroem,
    rows: Rows,
    likelihood: Gaussian,
    n_jobs: int | None,
) -> tuple[float, float]:
    """Collapsed bound of the evidence.

    Returns
    -------
    log_evidence, unexplained : float
        As in :class:`~skgpx._posterior._sampler.Inference`.
    """
    statistics = row_statistics(basis, rows, n_jobs)
    noise_variance = float(likelihood.variance(0.0))
    bound = log_evidence(statistics, noise_variance)
    return bound, _unexplained(statistics, noise_variance)


def _unexplained(statistics: WeightStatistics, noise_variance: float) -> float:
    """Mean of ``var g / (2 σ²)`` over the observations."""
    return statistics.residual / (2.0 * noise_variance * statistics.weight)


# ---- States of averaged hyperparameters: the closest normal distribution, no chains --


def normal_state(
    basis: Nystroem,
    rows: Rows,
    likelihood: Likelihood,
    sampler: Sampler,
    rng: Generator,
) -> Inference:
    """Posterior of the weights as the normal distribution that is closest to it.

    Chains of a state of the hyperparameters would be few, and what they miss is more
    than what this distribution does. It is regression on the values and the noise of
    :class:`~skgpx._hyperparameters.VariationalEvidence`, for one function.

    Parameters as in :func:`~skgpx._pls._inference.infer`.
    """
    features = np.ascontiguousarray(basis(rows.X))
    evidence = VariationalEvidence(rows, basis.kernel, likelihood)
    bound, z, noise = evidence.working_responses()
    weights = _regression(features, z, noise)
    posterior = LatentModel(basis, weights, prior_mean(likelihood))
    residual = basis.residual_variance(rows.X, features)
    unexplained = 0.5 * float(np.sum(residual / noise)) / float(rows.weights.sum())
    return inference_of(posterior, likelihood, bound, sampler, rng, unexplained)


def normal_weights(
    basis: Nystroem,
    rows: Rows,
    likelihood: Likelihood,
) -> GaussianWeights:
    """The weights of :func:`normal_state` alone; exact under Gaussian noise."""
    if likelihood.has_closed_form:
        z = rows.y
        noise = np.asarray(likelihood.variance(0.0)) / rows.precisions
    else:
        evidence = VariationalEvidence(rows, basis.kernel, likelihood)
        _, z, noise = evidence.working_responses()
    return _regression(np.ascontiguousarray(basis(rows.X)), z, noise)


def _regression(features: Array, z: Array, noise: Array) -> GaussianWeights:
    """Posterior of weights given values z with this noise, (n,)."""
    # I + Φᵀ D⁻¹ Φ = L Lᵀ
    white = features / np.sqrt(noise)[:, np.newaxis]
    L = precision_root(white.T @ white, 1.0)
    root = solve_lower_transpose(L, np.eye(len(L)))
    mean = root @ (root.T @ (features.T @ (z / noise)))
    return GaussianWeights(mean[:, np.newaxis], root[np.newaxis])
