"""States of averaged hyperparameters: the closest normal distribution, no chains."""

from __future__ import annotations

import numpy as np

from skgpx._hyperparameters import VariationalEvidence
from skgpx._latent import LatentModel
from skgpx._numerics.linalg import solve_lower_transpose
from skgpx._numerics.regression import precision_root
from skgpx._numerics.weights import GaussianWeights
from skgpx._posterior._nearest_rows import inference_of
from skgpx._posterior._sampler import Inference, Sampler, prior_mean
from skgpx._shell.validation import Rows
from skgpx._types import Array, Generator
from skgpx.bases import Nystroem
from skgpx.likelihoods import Likelihood


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
    inference = inference_of(posterior, likelihood, bound, sampler, rng)
    residual = basis.residual_variance(rows.X, features)
    unexplained = 0.5 * float(np.sum(residual / noise)) / float(rows.weights.sum())
    return inference._replace(unexplained=unexplained)


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
