"""Expected improvement as BoTorch documents it: default priors, logs, restarts."""

from __future__ import annotations

import warnings

import numpy as np
import torch
from botorch.acquisition.logei import (
    qLogExpectedImprovement,
    qLogNoisyExpectedImprovement,
)
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.optim import optimize_acqf, optimize_acqf_mixed_alternating
from gpytorch.mlls import ExactMarginalLogLikelihood
from numpy.typing import NDArray

Array = NDArray[np.float64]

N_RESTARTS = 10
N_RAW_SAMPLES = 512


def fit(X: Array, y: Array) -> SingleTaskGP:
    """Process of the negative values with BoTorch's default priors (Hvarfner 2024)."""
    inputs = torch.as_tensor(X)
    targets = -torch.as_tensor(y)[:, None]
    model = SingleTaskGP(inputs, targets)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    return model


def propose(
    X: Array,
    y: Array,
    n: int,
    is_noisy: bool,
    levels: dict[int, list[float]],
    seed: int,
) -> Array:
    """The next n inputs of a minimisation in the unit box.

    Parameters
    ----------
    X : ndarray of shape (k, d)
        In the unit box.
    y : ndarray of shape (k,)
    n : int
    is_noisy : bool
        qLogNEI, which integrates over the values at X; otherwise qLogEI.
    levels : dict of list of float
        Levels of the inputs that have them, in the unit box.
    seed : int
    """
    torch.manual_seed(seed)
    model = fit(X, y)
    inputs = torch.as_tensor(X)
    if is_noisy:
        acquisition = qLogNoisyExpectedImprovement(model, inputs)
    else:
        acquisition = qLogExpectedImprovement(model, best_f=float(-y.min()))
    d = X.shape[1]
    bounds = torch.tensor([[0.0] * d, [1.0] * d], dtype=torch.double)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if levels:
            candidates, _ = optimize_acqf_mixed_alternating(
                acquisition,
                bounds,
                discrete_dims=levels,
                q=n,
                raw_samples=N_RAW_SAMPLES,
                num_restarts=N_RESTARTS,
            )
        else:
            candidates, _ = optimize_acqf(
                acquisition,
                bounds,
                q=n,
                num_restarts=N_RESTARTS,
                raw_samples=N_RAW_SAMPLES,
            )
    proposals: Array = candidates.detach().numpy()
    return proposals


def best_row(X: Array, y: Array) -> int:
    """Row of the smallest posterior mean."""
    model = fit(X, y)
    with torch.no_grad():
        mean = model.posterior(torch.as_tensor(X)).mean
    return int(torch.argmax(mean))
