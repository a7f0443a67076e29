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
from skgpx._selection import inducing_by_capacity, learn_prior
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
) -> tuple[LatentModel, float, Any]:
    """Prior by the evidence, inducing points, and regression in their basis.

    Parameters
    ----------
    rows : Rows
    likelihood : Likelihood
        Prepared, and smooth.
    given : GWIRegressor or GWIClassifier
        With `kernel`, `optimizer` and `n_jobs`.
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
    noise_variance : float
    found : LearnedPrior
    """
    search, select = rng.spawn(2)
    learn = {"kernel": kernel_of(given), "learn": given.optimizer is not None}
    m = None if n_inducing is None else min(n_inducing, len(rows.y))
    found = learn_prior(
        rows, likelihood, search, **learn, n_inducing=m, n_jobs=given.n_jobs
    )
    noise = noise_variance
    noise = float(found.likelihood.variance(0.0)) if noise is None else noise
    if m is None:
        Z = inducing_by_capacity(rows, found.kernel, noise, "greedy", select)
    else:
        Z = select_inducing("greedy", rows.X, found.kernel, m, select, rows.weights)
    basis = Nystroem.from_kernel(found.kernel, Z)
    statistics = row_statistics(basis, rows, given.n_jobs)
    # I + ΦᵀΦ / σ² = L Lᵀ
    L = precision_root(statistics.gram, noise)
    mean = posterior_mean_from(statistics, noise, L)[:, np.newaxis]
    root = solve_lower_transpose(L, np.eye(len(L)))[np.newaxis]
    return LatentModel(basis, GaussianWeights(mean, root)), noise, found


def leave_one_out(
    process: LatentModel, noise_variance: float, rows: Rows
) -> tuple[Array, Array]:
    """Errors (n,) and variances (n,) of the process at each row, given the others.

    Notes
    -----
    With the leverage ``h = ω φᵀSφ / σ²``, S the posterior covariance of the weights,
    the error is ``(y - φᵀw) / (1 - h)`` and the variance ``φᵀSφ / (1 - h) + var g``.
    """
    n, basis = len(rows.y), process.basis
    errors, variance = np.empty(n), np.empty(n)
    for block in row_blocks(n, 4 * basis.n_basis):
        features = basis(rows.X[block])
        mean, explained = (v[:, 0, 0] for v in process.weights.latent(features))
        leverage = rows.weights[block] * explained / noise_variance
        free = np.maximum(1.0 - leverage, 1e-9)
        errors[block] = (rows.y[block] - mean) / free
        residual = basis.residual_variance(rows.X[block], features)
        variance[block] = explained / free + residual
    return errors, variance
