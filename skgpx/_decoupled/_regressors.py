"""Regressors whose functions are drawn: sparse processes, and what others must have."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin, is_classifier
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import Kernel, WhiteKernel

from skgpx._draws import check_sections
from skgpx._latent import LatentModel, Mean
from skgpx._numerics.linalg import cholesky, solve_lower
from skgpx._numerics.weights import GaussianWeights, WeightDistribution, WeightParticles
from skgpx._pls import PLSRegressor
from skgpx._selection import Hyperparameters, learn_prior
from skgpx._validation import (
    canonical_rows,
    check_kernel,
    check_points,
    generator,
    kernel_of,
    standardisation,
)
from skgpx._wrapped import is_search
from skgpx.bases import EmpiricalSpectral, Nystroem
from skgpx.kernels import latent_kernel, noise_variance
from skgpx.likelihoods import Gaussian

# ---- A process whose distribution at inducing points is known ------------------------


Array = NDArray[np.float64]


class SparseProcess(RegressorMixin, BaseEstimator):
    """A regressor with nothing to fit, which `DecoupledSampler` draws from.

    Parameters
    ----------
    model : LatentModel
        Distribution of the function, on a Nyström basis at the inducing points.
    kernel : sklearn.gaussian_process.kernels.Kernel
        Prior covariance; white noise in it is observation noise.
    noise_variance : ndarray of shape (c,)
        Variance of the observation noise, in addition to that of the kernel.
    """

    def __init__(self, model: LatentModel, kernel: Any, noise_variance: Array):
        self.model = model
        self.kernel = kernel
        self.noise_variance = noise_variance

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> SparseProcess:
        """Do nothing: the posterior is given."""
        del X, y
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    @property
    def n_features_in_(self) -> int:
        """Number of columns of the inducing points."""
        return self.model.basis.inducing_points.shape[1]

    @property
    def kernel_(self) -> Any:
        """The kernel: there is nothing to fit."""
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
        first = (..., 0) if mean.shape[1] == 1 else ...
        if return_cov:
            return mean[first], self._covariance(X)[first]
        if return_std:
            return mean[first], np.sqrt(variance + self.noise_variance_at(X))[first]
        return mean[first]

    def _covariance(self, X: Array) -> Array:
        """Covariance of the observations between the rows of X, (n, n, c)."""
        c = self.model.n_outputs
        total = np.stack([self.model.covariance(X, j) for j in range(c)], axis=2)
        total[np.diag_indices(len(X))] += self.noise_variance_at(X)
        return total


def sparse_process(
    kernel: Any, Z: ArrayLike, given: dict[str, Any], whitened: bool, mean: Any,
    noise_variance: ArrayLike, jitter: float,
) -> SparseProcess:  # fmt: skip
    """Check the arguments of `DecoupledSampler.from_inducing`, and whiten them."""
    if not isinstance(kernel, Kernel):
        raise ValueError(
            "from_inducing expects a kernel of sklearn.gaussian_process.kernels; got "
            f"{kernel!r}. Translate the kernel of the other library."
        )
    points = check_points("Z", Z, (None, None))
    check_kernel(kernel, points)
    check_sections(kernel, points)
    weights = _given_weights(**given, m=len(points))
    if not (_is_number(jitter) and jitter >= 0.0):
        raise ValueError(f"jitter must be finite and not negative; got {jitter!r}.")
    if not callable(mean) and not _is_number(mean):
        raise ValueError(
            f"mean must be a finite number or a callable of the inputs; got {mean!r}."
        )
    latent = latent_kernel(kernel)
    basis = Nystroem(latent, points, *cholesky(latent(points), jitter))
    c = weights.shape[1]
    noise = np.asarray(noise_variance, dtype=np.float64)
    if noise.shape not in ((), (c,)) or not np.all(np.isfinite(noise) & (noise >= 0)):
        raise ValueError(
            "noise_variance must be a finite number that is not negative, or one for "
            f"each of {c} outputs; got {noise_variance!r}."
        )
    prior_mean = Mean.of(mean, c)
    values = prior_mean(points)  # raises if the mean has a wrong shape
    if not whitened:
        weights = _whiten(weights, basis.root, values)
    model = LatentModel(basis, weights, prior_mean)
    return SparseProcess(model, kernel, np.array(np.broadcast_to(noise, (c,))))


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and math.isfinite(value)


def _given_weights(
    u_samples: ArrayLike | None,
    q_mean: ArrayLike | None,
    q_cov: ArrayLike | None,
    q_root: ArrayLike | None,
    m: int,
) -> WeightDistribution:
    """Posterior of the values at the inducing points, from samples or moments."""
    given = [a is not None for a in (u_samples, q_mean, q_cov, q_root)]
    if given == [True, False, False, False]:
        samples = np.asarray(u_samples, dtype=np.float64)
        samples = samples[:, np.newaxis] if samples.ndim == 2 else samples
        return WeightParticles(check_points("u_samples", samples, (m, None, None)))
    if given[:2] != [False, True] or sum(given[2:]) != 1:
        raise ValueError(
            "from_inducing expects either u_samples, or q_mean and one of q_cov and "
            "q_root."
        )
    centre = np.atleast_1d(np.asarray(q_mean, dtype=np.float64))
    centre = check_points("q_mean", centre.reshape(len(centre), -1), (m, None))
    name, matrices = ("q_cov", q_cov) if q_root is None else ("q_root", q_root)
    stack = np.asarray(matrices, dtype=np.float64)
    stack = stack[np.newaxis] if stack.ndim == 2 else stack
    stack = check_points(name, stack, (None, m, m))
    if len(stack) not in (1, centre.shape[1]):
        raise ValueError(
            f"{name} must hold one matrix, or one for each of the {centre.shape[1]} "
            f"columns of q_mean; got {len(stack)}."
        )
    if q_root is None:
        stack = np.stack([_symmetric_root(covariance) for covariance in stack])
    return GaussianWeights(centre, stack)


def _symmetric_root(covariance: Array, rounding: float = 1e-8) -> Array:
    """R with ``R Rᵀ = covariance``, which may be singular up to rounding errors."""
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


def _whiten(weights: WeightDistribution, root: Any, mean: Array) -> WeightDistribution:
    """Posterior of ``L⁻¹ (u - m(Z))`` from that of u."""
    if isinstance(weights, GaussianWeights):
        roots = [solve_lower(root, spread) for spread in weights.root]
        return GaussianWeights(solve_lower(root, weights.mean - mean), np.stack(roots))
    centred = weights.values - mean[:, :, np.newaxis]
    whitened = solve_lower(root, centred.reshape(len(mean), -1))
    return WeightParticles(whitened.reshape(centred.shape))


# ---- Which estimators functions can be drawn from ------------------------------------


def check_drawable(estimator: Any) -> None:
    """Refuse estimators that functions cannot be drawn from.

    Raises
    ------
    ValueError
        With what to do instead.
    """
    if is_search(estimator):
        check_drawable(estimator.estimator)
        return
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
    elif not isinstance(
        estimator,
        GaussianProcessRegressor | SparseProcess,
    ) and not hasattr(estimator, "sample_functions"):
        advice = (
            "For a sparse model of another library see DecoupledSampler.from_inducing."
        )
    if advice is not None:
        raise ValueError(
            "DecoupledSampler expects a GaussianProcessRegressor, or a regressor with "
            f"a method sample_functions; got {estimator!r}. {advice}"
        )


def sections_posterior(estimator: Any, sampler: Any) -> LatentModel:
    """Posterior of a regressor, whose residual can be drawn as a sampler says.

    Raises
    ------
    ValueError
        If it has none on kernel sections, which alone leave a residual to draw.
    """
    posterior = getattr(estimator, "posterior_", None)
    basis = getattr(posterior, "basis", None)
    sections = isinstance(basis, Nystroem | EmpiricalSpectral)
    if isinstance(posterior, LatentModel) and sections:
        return posterior
    raise ValueError(
        f"prior={sampler.prior!r} and n_basis={sampler.n_basis!r} say how to draw from "
        f"a Gaussian process, and {estimator!r} has none to draw from, only functions "
        'of its own. Leave both at "auto", or use a GaussianProcessRegressor or '
        "PLSRegressor(n_neighbors=0)."
    )


def check_kernel_of(estimator: Any, X: Array, sampler: Any) -> None:
    """Refuse a kernel, fitted or not, that no sections can be made of."""
    kernel = getattr(estimator, "kernel_", getattr(estimator, "kernel", None))
    if isinstance(kernel, Kernel):
        kernel = kernel_of(sampler, kernel)
        check_kernel(kernel, X)
        check_sections(kernel, X)


# ---- The process of DecoupledSampler if no estimator is given ------------------------


def default_estimator(
    X: Array,
    y: Array,
    random_state: Any,
    n_jobs: int | None,
    kernel: Any = None,
) -> tuple[Any, Hyperparameters | None]:
    """Process for these rows, without a fit, and what its search has found.

    Kernel and noise are those of the library's search. Up to 1500 rows the process is
    exact; above, and for several targets, that of a PLSRegressor, which searches in its
    fit. Its residual stays at the prior: draws given nearest rows would jump, and could
    not be conditioned.
    """
    if len(X) > 1500 or y.size > len(y):
        how: Any = {"n_jobs": n_jobs, "random_state": random_state}
        return PLSRegressor(n_neighbors=0, **how), None
    ones, y = np.ones(len(y)), y.ravel()
    shift, scale = standardisation(y, ones)
    rows = canonical_rows(X, (y - shift) / scale, ones)
    likelihood = Gaussian().prepare(rows.y, rows.weights)
    found = learn_prior(rows, likelihood, generator(random_state), kernel=kernel)
    known = found.kernel + WhiteKernel(float(found.likelihood.variance(0.0)))
    return GaussianProcessRegressor(known, optimizer=None, normalize_y=True), found
