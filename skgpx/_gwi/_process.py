"""The process around a mean: prior, inducing points, posterior, leave-one-out."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._latent import LatentModel
from skgpx._numerics.linalg import solve_lower_transpose
from skgpx._numerics.regression import (
    noise_share,
    posterior_mean_from,
    precision_root,
)
from skgpx._numerics.weights import GaussianWeights
from skgpx._row_statistics import row_statistics
from skgpx._selection import (
    Hyperparameters,
    inducing_by_capacity,
    inducing_of_targets,
    learn_prior,
    regress_targets,
)
from skgpx._validation import Rows, kernel_of, row_blocks
from skgpx.bases import Nystroem, select_inducing
from skgpx.likelihoods import Likelihood

if TYPE_CHECKING:
    from skgpx._gwi._classifier import GWIClassifier
    from skgpx._gwi._regressor import GWIRegressor

Array = NDArray[np.float64]


class FittedProcess(NamedTuple):
    """The process around a mean.

    Attributes
    ----------
    model : LatentModel
        Mean: the regression of y, in closed form. Covariance of the weights: ``(I +
        ΦᵀΦ / σ²)⁻¹``, from which the paper starts, whatever the mean of the variational
        process is.
    noise_variance : float, or ndarray of shape (t,) for t targets
        σ².
    prior : Hyperparameters
    """

    model: LatentModel
    noise_variance: float | Array
    prior: Hyperparameters


def fit_process(
    rows: Rows,
    likelihood: Likelihood,
    settings: GWIRegressor | GWIClassifier,
    n_inducing: int | None,
    noise_variance: float | None,
    rng: np.random.Generator,
) -> FittedProcess:
    """Prior by the evidence, inducing points, and regression in their basis.

    Parameters
    ----------
    rows : Rows
    likelihood : Likelihood
        Prepared, and smooth.
    settings : GWIRegressor or GWIClassifier
        With `kernel`, `optimizer`, `inducing` and `n_jobs`.
    n_inducing : int or None
        None: as many as the kernel needs.
    noise_variance : float or None
        Of the regression; None takes the noise of the likelihood.
    rng : numpy.random.Generator
    """
    search_rng, select_rng = rng.spawn(2)
    learn = settings.optimizer is not None
    has_several_targets = rows.y.ndim > 1
    if n_inducing is not None:
        n_inducing = min(n_inducing, len(rows.y))

    # 1  Kernel and noise by the evidence.
    prior = learn_prior(
        rows,
        likelihood,
        search_rng,
        kernel=kernel_of(settings),
        learn=learn,
        n_inducing=n_inducing,
        n_jobs=settings.n_jobs,
    )
    kernel = prior.kernel
    if noise_variance is None:
        noise_variance = float(prior.likelihood.variance(0.0))

    # 2  Inducing points Z.
    if n_inducing is not None:
        inducing_points = select_inducing(
            settings.inducing,
            rows.X,
            kernel,
            n_inducing,
            select_rng,
            rows.weights,
        )
    elif has_several_targets:
        inducing_points = inducing_of_targets(
            rows,
            kernel,
            prior.likelihood,
            settings.inducing,
            select_rng,
            learn,
        )
    else:
        inducing_points, _ = inducing_by_capacity(
            rows,
            kernel,
            noise_variance,
            settings.inducing,
            select_rng,
        )

    # 3  Regression in the basis φ(x) = L⁻¹ k(Z, x).
    basis = Nystroem.from_kernel(kernel, inducing_points, noise_variance)
    statistics = row_statistics(basis, rows, settings.n_jobs)
    if has_several_targets:
        sums, noise_variances = regress_targets(statistics, prior.likelihood, learn)
        weights = sums.posterior(noise_variances)
        return FittedProcess(LatentModel(basis, weights), noise_variances, prior)
    # I + ΦᵀΦ / σ² = L Lᵀ
    L = precision_root(statistics.gram, noise_variance)
    mean = posterior_mean_from(statistics, noise_variance, L)[:, np.newaxis]
    root = solve_lower_transpose(L, np.eye(len(L)))[np.newaxis]
    model = LatentModel(basis, GaussianWeights(mean, root))
    return FittedProcess(model, noise_variance, prior)


def leave_one_out(
    process: LatentModel,
    noise_variance: float | Array,
    rows: Rows,
) -> tuple[Array, Array]:
    """Predict each row from the others.

    Returns
    -------
    errors : ndarray of the shape of y, (n,) or (n, t)
    variance : ndarray of the same shape
        Of f at the row.

    Notes
    -----
    With the leverage h of :func:`skgpx._numerics.regression.noise_share` the error is
    ``(y - φᵀw) / (1 - h)`` and the variance ``φᵀSφ / (1 - h) + var g``.
    """
    basis = process.basis
    errors = np.empty(rows.y.shape)
    variance = np.empty(rows.y.shape)
    for block in row_blocks(len(rows.y), 4 * basis.n_basis):
        y = rows.y[block]
        features = basis(rows.X[block])
        mean, explained = process.weights.latent(features)
        mean = mean[:, :, 0].reshape(y.shape)
        explained = explained[:, :, 0].reshape(y.shape)
        share = noise_share(explained, noise_variance, rows.weights[block], least=1e-9)
        errors[block] = (y - mean) / share
        residual = basis.residual_variance(rows.X[block], features)
        variance[block] = ((explained / share).T + residual).T
    return errors, variance
