"""The process around a mean: prior, inducing points, posterior, leave-one-out."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from skgpx._latent import LatentModel
from skgpx._numerics.linalg import solve_lower_transpose
from skgpx._numerics.regression import posterior_mean_from, precision_root
from skgpx._numerics.weights import GaussianWeights
from skgpx._row_statistics import row_statistics
from skgpx._selection import (
    inducing_by_capacity,
    inducing_of_targets,
    learn_prior,
    regress_targets,
)
from skgpx._validation import Rows, kernel_of, row_blocks
from skgpx.bases import Nystroem, select_inducing
from skgpx.likelihoods import Likelihood

Array = NDArray[np.float64]


def fit_process(
    rows: Rows,
    likelihood: Likelihood,
    given: Any,
    n_inducing: int | None,
    noise_variance: float | None,
    rng: np.random.Generator,
) -> tuple[LatentModel, Any, Any]:
    """Prior by the evidence, inducing points, and regression in their basis.

    Parameters
    ----------
    rows : Rows
    likelihood : Likelihood
        Prepared, and smooth.
    given : GWIRegressor or GWIClassifier
        With `kernel`, `optimizer`, `inducing` and `n_jobs`.
    n_inducing : int or None
        None: as many as the kernel needs.
    noise_variance : float or None
        Of the regression; None is that of the likelihood.
    rng : numpy.random.Generator

    Returns
    -------
    process : LatentModel
        Mean: the regression of y, in closed form. Covariance of the weights: ``(I +
        ΦᵀΦ / σ²)⁻¹``, from which the paper starts, whatever the mean of the variational
        process is.
    noise_variance : float, or ndarray of shape (t,) for t targets
    found : Hyperparameters
    """
    search, select = rng.spawn(2)
    learn = {"kernel": kernel_of(given), "learn": given.optimizer is not None}
    m = None if n_inducing is None else min(n_inducing, len(rows.y))
    found = learn_prior(
        rows,
        likelihood,
        search,
        **learn,
        n_inducing=m,
        n_jobs=given.n_jobs,
    )
    noise = noise_variance
    noise = float(found.likelihood.variance(0.0)) if noise is None else noise
    several = rows.y.ndim > 1
    if m is None and several:
        Z = inducing_of_targets(
            rows,
            found.kernel,
            found.likelihood,
            given.inducing,
            select,
            learn["learn"],
        )
    elif m is None:
        Z, _ = inducing_by_capacity(rows, found.kernel, noise, given.inducing, select)
    else:
        Z = select_inducing(
            given.inducing,
            rows.X,
            found.kernel,
            m,
            select,
            rows.weights,
        )
    basis = Nystroem.from_kernel(found.kernel, Z)
    statistics = row_statistics(basis, rows, given.n_jobs)
    if several:
        each, noises = regress_targets(statistics, found.likelihood, learn["learn"])
        return LatentModel(basis, each.posterior(noises)), noises, found
    # I + ΦᵀΦ / σ² = L Lᵀ
    L = precision_root(statistics.gram, noise)
    mean = posterior_mean_from(statistics, noise, L)[:, np.newaxis]
    root = solve_lower_transpose(L, np.eye(len(L)))[np.newaxis]
    return LatentModel(basis, GaussianWeights(mean, root)), noise, found


def leave_one_out(
    process: LatentModel,
    noise_variance: Any,
    rows: Rows,
) -> tuple[Array, Array]:
    """Errors and variances of the process at each row, given the others.

    Both have the shape of y, (n,) or (n, t).

    Notes
    -----
    With the leverage ``h = ω φᵀSφ / σ²``, S the posterior covariance of the weights,
    the error is ``(y - φᵀw) / (1 - h)`` and the variance ``φᵀSφ / (1 - h) + var g``.
    """
    n, basis = len(rows.y), process.basis
    errors, variance = np.empty(rows.y.shape), np.empty(rows.y.shape)
    for block in row_blocks(n, 4 * basis.n_basis):
        features, y = basis(rows.X[block]), rows.y[block]
        moments = process.weights.latent(features)
        mean, explained = (v[:, :, 0].reshape(y.shape) for v in moments)
        leverage = (rows.weights[block] * explained.T).T / noise_variance
        free = np.maximum(1.0 - leverage, 1e-9)
        errors[block] = (y - mean) / free
        residual = basis.residual_variance(rows.X[block], features)
        variance[block] = ((explained / free).T + residual).T
    return errors, variance
