"""BoTorch's process of a utility, given comparisons of items."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import torch
from botorch.fit import fit_gpytorch_mll
from botorch.models.likelihoods.pairwise import (
    PairwiseLogitLikelihood,
    PairwiseProbitLikelihood,
)
from botorch.models.pairwise_gp import PairwiseGP, PairwiseLaplaceMarginalLogLikelihood
from botorch.models.transforms import Normalize
from numpy.typing import NDArray
from scipy.special import expit, ndtr

Array = NDArray[np.float64]

NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(32)


def fit(
    X: Array,
    winners: NDArray[np.int64],
    is_logistic: bool,
) -> tuple[Callable[[Array], Array], Callable[[Array, Array], Array]]:
    """Utilities of rows, and probabilities that rows are preferred to others.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    winners : ndarray of shape (k, 2)
        Rows of X; the first is preferred.
    is_logistic : bool
        Whether answers have logistic noise, or the probit one, the default.
    """
    torch.manual_seed(0)
    model = PairwiseGP(
        torch.as_tensor(X),
        torch.as_tensor(np.ascontiguousarray(winners)),
        PairwiseLogitLikelihood() if is_logistic else PairwiseProbitLikelihood(),
        input_transform=Normalize(X.shape[1]),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit_gpytorch_mll(PairwiseLaplaceMarginalLogLikelihood(model.likelihood, model))

    def utilities(rows: Array) -> Array:
        with torch.no_grad():
            mean: Array = model.posterior(torch.as_tensor(rows)).mean[:, 0].numpy()
        return mean

    def probabilities(first: Array, second: Array) -> Array:
        """``E h(f - g)``, of the normal posterior of the difference."""
        pairs = torch.as_tensor(np.stack((first, second), axis=1))
        with torch.no_grad():
            posterior = model.posterior(pairs)
            mean = posterior.mean[..., 0].numpy()
            covariance = posterior.mvn.covariance_matrix.numpy()
        spread = covariance[:, 0, 0] + covariance[:, 1, 1] - 2.0 * covariance[:, 0, 1]
        lead = mean[:, :1] - mean[:, 1:] + np.sqrt(spread)[:, np.newaxis] * NODES
        chance = expit(lead) if is_logistic else ndtr(lead / np.sqrt(2.0))
        averages: Array = chance @ (WEIGHTS / WEIGHTS.sum())
        return averages

    return utilities, probabilities
