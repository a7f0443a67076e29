"""Regressors for draws: sparse processes, checks of others, and the default."""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, is_classifier
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import WhiteKernel

from skgpx._draws import check_sections
from skgpx._hyperparameters import State, learn
from skgpx._latent import LatentModel, Mean, MixtureModel
from skgpx._numerics.linalg import cholesky, solve_lower
from skgpx._numerics.weights import GaussianWeights, WeightDistribution, WeightParticles
from skgpx._pls import PLSRegressor
from skgpx._row_budgets import AVERAGED_ROWS
from skgpx._shell.validation import (
    Rows,
    canonical_rows,
    check_kernel,
    check_points,
    generator,
    kernel_of,
    standardisation,
)
from skgpx._shell.wrapped import is_search
from skgpx._types import Array, ArrayLike, Kernel, RandomState
from skgpx.bases import EmpiricalSpectral, Nystroem
from skgpx.kernels import latent_kernel, noise_variance
from skgpx.likelihoods import Gaussian

# ---- A process with a given distribution at inducing points --------------------------


class SparseProcess(RegressorMixin, BaseEstimator):
    """A regressor without a fit, which `DecoupledSampler` draws from.

    Parameters
    ----------
    model : LatentModel
        Distribution of the function, on a Nyström basis at the inducing points.
    kernel : sklearn.gaussian_process.kernels.Kernel
        Prior covariance; white noise in it is observation noise.
    noise_variance : ndarray of shape (c,)
        Variance of the observation noise, in addition to the white noise of the kernel.
    """

    def __init__(self, model: LatentModel, kernel: Kernel, noise_variance: Array):
        self.model = model
        self.kernel = kernel
        self.noise_variance = noise_variance

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> SparseProcess:
        """Return the regressor: the posterior is given."""
        del X, y
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    @property
    def n_features_in_(self) -> int:
        """Number of columns of the inducing points."""
        basis = self.model.basis
        assert isinstance(basis, Nystroem)
        return basis.inducing_points.shape[1]

    @property
    def kernel_(self) -> Kernel:
        """The kernel, as the fit leaves it."""
        return self.kernel

    def noise_variance_at(self, X: Array) -> Array:
        """Variance of the noise of each output at the rows of X, (n, c)."""
        return noise_variance(self.kernel, X)[:, np.newaxis] + self.noise_variance

    def predict(
        self,
        X: Array,
        return_std: bool = False,
        return_cov: bool = False,
    ) -> Any:
        """Mean of y, (n,) or (n, c), and its standard deviation or covariance.

        Shapes as in GaussianProcessRegressor; white noise is included.
        """
        if return_std and return_cov:
            raise ValueError(
                "At most one of return_std and return_cov can be requested; got both."
            )
        mean, variance = self.model.marginals(X).moments()
        # one output has no axis of its own
        columns: Any = ...
        if mean.shape[1] == 1:
            columns = (..., 0)
        if return_cov:
            return mean[columns], self._covariance(X)[columns]
        if return_std:
            std = np.sqrt(variance + self.noise_variance_at(X))
            return mean[columns], std[columns]
        return mean[columns]

    def _covariance(self, X: Array) -> Array:
        """Covariance of the observations between the rows of X, (n, n, c)."""
        c = self.model.n_outputs
        total = np.stack([self.model.covariance(X, j) for j in range(c)], axis=2)
        total[np.diag_indices(len(X))] += self.noise_variance_at(X)
        return total


def sparse_process(
    kernel: object,
    Z: ArrayLike,
    weights: GivenWeights,
    mean: float | Callable[[Array], Any],
    noise_variance: ArrayLike,
    jitter: float,
) -> SparseProcess:
    """Check the arguments of `DecoupledSampler.from_inducing`, and whiten them."""
    if not isinstance(kernel, Kernel):
        raise ValueError(
            "from_inducing expects a kernel of sklearn.gaussian_process.kernels; got "
            f"{kernel!r}. Translate the kernel of the other library."
        )
    points = check_points("Z", Z, (None, None))
    check_kernel(kernel, points)
    check_sections(kernel, points)
    posterior = weights.checked(len(points))
    if not (_is_number(jitter) and jitter >= 0.0):
        raise ValueError(f"jitter must be finite and not negative; got {jitter!r}.")
    if not callable(mean) and not _is_number(mean):
        raise ValueError(
            f"mean must be a finite number or a callable of the inputs; got {mean!r}."
        )
    # L Lᵀ = k(Z, Z)
    latent = latent_kernel(kernel)
    root, added = cholesky(latent(points), jitter)
    basis = Nystroem(latent, points, root, added)
    c = posterior.shape[1]
    noise = np.asarray(noise_variance, dtype=np.float64)
    if noise.shape not in ((), (c,)) or not np.all(np.isfinite(noise) & (noise >= 0)):
        raise ValueError(
            "noise_variance must be a finite number that is not negative, or one for "
            f"each of {c} outputs; got {noise_variance!r}."
        )
    prior_mean = Mean.of(mean, c)
    mean_values = prior_mean(points)  # raises if the mean has a wrong shape
    if not weights.whitened:
        posterior = _whiten(posterior, root, mean_values)
    model = LatentModel(basis, posterior, prior_mean)
    return SparseProcess(model, kernel, np.array(np.broadcast_to(noise, (c,))))


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and math.isfinite(value)


class GivenWeights(NamedTuple):
    """Arguments of `from_inducing` for the distribution at the inducing points."""

    q_mean: ArrayLike | None
    q_cov: ArrayLike | None
    q_root: ArrayLike | None
    u_samples: ArrayLike | None
    whitened: bool

    def checked(self, m: int) -> WeightDistribution:
        """Distribution of the values at m points, from samples or moments."""
        has_mean = self.q_mean is not None
        has_covariance = self.q_cov is not None
        has_root = self.q_root is not None
        if self.u_samples is not None and not (has_mean or has_covariance or has_root):
            samples = np.asarray(self.u_samples, dtype=np.float64)
            if samples.ndim == 2:
                samples = samples[:, np.newaxis]
            return WeightParticles(check_points("u_samples", samples, (m, None, None)))
        if self.u_samples is not None or not has_mean or has_covariance == has_root:
            raise ValueError(
                "from_inducing expects either u_samples, or q_mean and one of q_cov "
                "and q_root."
            )
        mean = np.atleast_1d(np.asarray(self.q_mean, dtype=np.float64))
        mean = check_points("q_mean", mean.reshape(len(mean), -1), (m, None))
        if has_root:
            return GaussianWeights(mean, self._matrices("q_root", mean))
        covariances = self._matrices("q_cov", mean)
        roots = [_symmetric_root(covariance) for covariance in covariances]
        return GaussianWeights(mean, np.stack(roots))

    def _matrices(self, name: str, mean: Array) -> Array:
        """Covariances or roots, one for all columns of the mean (m, c) or for each."""
        m, c = mean.shape
        matrices = np.asarray(getattr(self, name), dtype=np.float64)
        if matrices.ndim == 2:
            matrices = matrices[np.newaxis]
        matrices = check_points(name, matrices, (None, m, m))
        if len(matrices) not in (1, c):
            raise ValueError(
                f"{name} must hold one matrix, or one for each of the {c} columns of "
                f"q_mean; got {len(matrices)}."
            )
        return matrices


def _symmetric_root(covariance: Array, rounding: float = 1e-8) -> Array:
    """R with ``R Rᵀ = covariance``, a matrix that may be singular up to rounding."""
    size = np.abs(covariance).max(initial=0.0)
    if not np.allclose(covariance, covariance.T, rtol=0.0, atol=rounding * size):
        raise ValueError("q_cov must be symmetric; use q_root for a factor R of R Rᵀ.")
    values, vectors = np.linalg.eigh(covariance)
    if values[0] < -rounding * size:
        raise ValueError(
            "q_cov must be positive semi-definite; got a smallest eigenvalue of "
            f"{values[0]:g}, the largest being {values[-1]:g}."
        )
    return vectors * np.sqrt(np.maximum(values, 0.0))


def _whiten(
    weights: WeightDistribution, root: Array, mean: Array
) -> WeightDistribution:
    """Distribution of ``L⁻¹ (u - m(Z))`` from the distribution of u."""
    if isinstance(weights, GaussianWeights):
        centre = solve_lower(root, weights.mean - mean)
        roots = [solve_lower(root, output_root) for output_root in weights.root]
        return GaussianWeights(centre, np.stack(roots))
    centred = weights.values - mean[:, :, np.newaxis]
    whitened = solve_lower(root, centred.reshape(len(mean), -1))
    return WeightParticles(whitened.reshape(centred.shape))


# ---- Checks of estimators that functions are drawn from ------------------------------


def check_drawable(estimator: BaseEstimator) -> None:
    """Refuse estimators that functions cannot be drawn from.

    Raises
    ------
    ValueError
        With advice.
    """
    if is_search(estimator):
        check_drawable(estimator.estimator)
        return
    exact = isinstance(estimator, GaussianProcessRegressor | SparseProcess)
    advice = None
    if isinstance(estimator, type):
        advice = f"Call the class: {estimator.__name__}()."
    elif hasattr(estimator, "steps"):
        advice = (
            "Put the sampler inside the pipeline, as its last step: "
            "make_pipeline(scaler, DecoupledSampler(regressor))."
        )
    elif isinstance(estimator, BaseEstimator) and is_classifier(estimator):
        advice = "PLSClassifier draws functions itself: sample_functions."
    elif not exact and not hasattr(estimator, "sample_functions"):
        advice = (
            "For a sparse model of another library see DecoupledSampler.from_inducing."
        )
    if advice is not None:
        raise ValueError(
            "DecoupledSampler expects a GaussianProcessRegressor, or a regressor with "
            f"a method sample_functions; got {estimator!r}. {advice}"
        )


def sections_posterior(
    estimator: BaseEstimator,
    prior: str,
    n_basis: object,
) -> LatentModel | MixtureModel:
    """Posterior of a regressor, each model with a residual that can be drawn.

    Raises
    ------
    ValueError
        If its basis is not of kernel sections; no other basis has a residual to draw.
    """
    posterior: Any = getattr(estimator, "posterior_", None)
    models = getattr(posterior, "models", (posterior,))
    bases = [model.basis for model in models if isinstance(model, LatentModel)]
    has_sections = [isinstance(b, Nystroem | EmpiricalSpectral) for b in bases]
    if len(bases) == len(models) and all(has_sections):
        return posterior
    raise ValueError(
        f"prior={prior!r} and n_basis={n_basis!r} say how to draw from "
        f"a Gaussian process on points, and {estimator!r} draws in its own way, as a "
        'series does. Leave both at "auto", or use a GaussianProcessRegressor or '
        "PLSRegressor(n_neighbors=0)."
    )


def check_kernel_of(sampler: BaseEstimator, estimator: BaseEstimator, X: Array) -> None:
    """Refuse a kernel, fitted or not, without finite sections."""
    kernel = getattr(estimator, "kernel_", getattr(estimator, "kernel", None))
    if isinstance(kernel, Kernel):
        kernel = kernel_of(sampler, kernel)
        check_kernel(kernel, X)
        check_sections(kernel, X)


# ---- The process of DecoupledSampler if no estimator is given ------------------------


def with_functions_of_y(estimator: BaseEstimator) -> BaseEstimator:
    """An estimator whose functions are those of y, unless its likelihood is stated.

    By default the noise of some regressors is that of another scale of y.
    """
    for part in (estimator, *estimator.get_params().values()):
        # of a frozen estimator functions are what they are
        if hasattr(part, "posterior_"):
            continue
        noise_of_y = getattr(type(part), "_noise_of_y", None)
        if noise_of_y is not None and part.likelihood is None:
            part.set_params(likelihood=noise_of_y)
    return estimator


def default_estimator(
    X: Array,
    y: Array,
    random_state: RandomState,
    n_jobs: int | None,
    kernel: Kernel | None = None,
    hyperparameters: str = "auto",
) -> tuple[BaseEstimator, State | None, Rows | None]:
    """Process for these rows, without a fit.

    The library's search learns kernel and noise. Where rows are few the process is the
    mixture of a PLSRegressor over the hyperparameters. Up to 1500 rows it is exact;
    above, and for several targets, it is the process of a PLSRegressor, which searches
    in its fit. Its residual stays at the prior: draws given nearest rows would jump.

    Returns
    -------
    estimator : estimator
        The process, without a fit.
    learned : State or None
        End of the search; None for a PLSRegressor.
    rows : Rows or None
        Those that it read.
    """
    if hyperparameters == "auto" and len(X) > AVERAGED_ROWS:
        hyperparameters = "maximise"
    if hyperparameters != "maximise" or len(X) > 1500 or y.size > len(y):
        estimator = PLSRegressor(
            likelihood=Gaussian(),
            n_neighbors=0,
            hyperparameters=hyperparameters,
            n_jobs=n_jobs,
            random_state=random_state,
        )
        return estimator, None, None
    y = y.ravel()
    weights = np.ones(len(y))
    shift, scale = standardisation(y, weights)
    rows = canonical_rows(X, (y - shift) / scale, weights)
    likelihood = Gaussian().prepare(rows.y, rows.weights)
    (learned,) = learn(
        rows,
        likelihood,
        generator(random_state),
        kernel=kernel,
        # draws of a rough kernel have no slopes
        rough=False,
    )
    noise = learned.noise_variance
    process = GaussianProcessRegressor(
        learned.kernel + WhiteKernel(noise),
        optimizer=None,
        normalize_y=True,
    )
    return process, learned, rows
