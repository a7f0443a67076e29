"""Names that rooms in change still import; goes with the last of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._selection._evidence import left_out
from skgpx._selection._prior import Hyperparameters, counted_once, learn_prior
from skgpx._validation import Rows, warn
from skgpx.kernels import length_scale_entries
from skgpx.likelihoods import Likelihood

Array = NDArray[np.float64]

FEWEST_ROWS = 4


class PriorSettings(NamedTuple):
    """Arguments of :func:`learn_prior`."""

    kernel: Any
    prior: str = "gp"
    optimizer: str | None = "evidence"
    n_restarts: int = 1
    inducing: Any = "greedy"
    n_inducing: int | None = None
    n_jobs: int | None = None
    few_rows: int | None = None


def fit_prior(
    rows: Rows, likelihood: Likelihood, settings: PriorSettings, rng: Any
) -> Hyperparameters:
    """:func:`learn_prior`, whose findings are warnings at once."""
    found = learn_prior(
        rows,
        likelihood,
        rng,
        kernel=settings.kernel,
        learn=settings.optimizer is not None,
        inducing=settings.inducing,
        n_inducing=settings.n_inducing,
        screening_rows=settings.few_rows or 500,
        n_jobs=settings.n_jobs,
    )
    for one in found.findings:
        warn(one.message, one.category)
    return found


def left_out_means(kernel: Any, noise_variance: float, rows: Rows) -> Array:
    """Means of :func:`left_out`."""
    return left_out(kernel, noise_variance, rows)[0]


def search_weights(rows: Rows) -> Array:
    """Weights of rows that count once."""
    return counted_once(rows).weights


def stretched(kernel: Any, log_factor: float) -> Any:
    """The same kernel with its free lengthscales multiplied, within their bounds."""
    theta = kernel.theta.copy()
    if not len(theta):
        return kernel
    for entries in length_scale_entries(kernel):
        theta[entries] += log_factor
    return kernel.clone_with_theta(np.clip(theta, *kernel.bounds.T))
