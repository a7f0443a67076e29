"""A Gaussian process whose law at inducing points was computed elsewhere."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.gaussian_process.kernels import Kernel

from skgpx._draws import check_sections
from skgpx._latent import LatentModel, Mean
from skgpx._numerics.linalg import cholesky, solve_lower
from skgpx._numerics.weights import GaussianWeights, WeightLaw, WeightParticles
from skgpx._validation import check_kernel, check_points
from skgpx.bases import Nystroem
from skgpx.kernels import latent_kernel, noise_variance

Array = NDArray[np.float64]
# Relative size of negative eigenvalues of a covariance that count as rounding errors.
_ROUNDING = 1e-8


class SparseProcess(RegressorMixin, BaseEstimator):
    """What `DecoupledSampler.from_inducing` wraps: a regressor with nothing to fit.

    Parameters
    ----------
    model : LatentModel
        Law of the function, on a Nyström basis at the inducing points.
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
        """Do nothing: the law is given."""
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
        self, X: Array, return_std: bool = False, return_cov: bool = False
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
    kernel: Any,
    Z: ArrayLike,
    *,
    q_mean: ArrayLike | None,
    q_cov: ArrayLike | None,
    q_root: ArrayLike | None,
    u_samples: ArrayLike | None,
    whitened: bool,
    mean: Any,
    noise_variance: ArrayLike,
    jitter: float,
) -> SparseProcess:
    """Check the arguments of `DecoupledSampler.from_inducing`, and whiten the law."""
    if not isinstance(kernel, Kernel):
        raise ValueError(
            "from_inducing expects a kernel of sklearn.gaussian_process.kernels; got "
            f"{kernel!r}. Translate the kernel of the other library."
        )
    points = check_points("Z", Z, (None, None))
    check_kernel(kernel, points)
    check_sections(kernel, points)
    law = _law_of_values(u_samples, q_mean, q_cov, q_root, len(points))
    if not (np.isscalar(jitter) and np.isfinite(jitter) and jitter >= 0.0):
        raise ValueError(f"jitter must be finite and not negative; got {jitter!r}.")
    if not callable(mean) and not (np.isscalar(mean) and _is_finite(mean)):
        raise ValueError(
            f"mean must be a finite number or a callable of the inputs; got {mean!r}."
        )
    latent = latent_kernel(kernel)
    basis = Nystroem(latent, points, *cholesky(latent(points), jitter))
    prior_mean = Mean.of(mean, law.shape[1])
    values = prior_mean(points)  # raises if the mean has a wrong shape
    if not whitened:
        law = _whiten(law, basis.root, values)
    model = LatentModel(basis, law, prior_mean)
    return SparseProcess(model, kernel, _noise_of_outputs(noise_variance, law.shape[1]))


def _law_of_values(
    u_samples: ArrayLike | None,
    q_mean: ArrayLike | None,
    q_cov: ArrayLike | None,
    q_root: ArrayLike | None,
    m: int,
) -> WeightLaw:
    """Law of the values at the inducing points, from samples or moments."""
    given = [a is not None for a in (u_samples, q_mean, q_cov, q_root)]
    if given == [True, False, False, False]:
        return _particles(u_samples, m)
    if given[:2] == [False, True] and sum(given[2:]) == 1:
        return _gaussian(q_mean, q_cov, q_root, m)
    raise ValueError(
        "from_inducing expects either u_samples, or q_mean and one of q_cov and q_root."
    )


def _noise_of_outputs(noise_variance: ArrayLike, c: int) -> Array:
    noise = np.asarray(noise_variance, dtype=np.float64)
    if noise.shape not in ((), (c,)) or not np.all(np.isfinite(noise) & (noise >= 0)):
        raise ValueError(
            "noise_variance must be a finite number that is not negative, or one for "
            f"each of {c} outputs; got {noise_variance!r}."
        )
    return np.array(np.broadcast_to(noise, (c,)))


def _is_finite(value: Any) -> bool:
    return isinstance(value, Real) and bool(np.isfinite(value))


def _particles(u_samples: ArrayLike | None, m: int) -> WeightParticles:
    samples = np.asarray(u_samples, dtype=np.float64)
    if samples.ndim == 2:
        samples = samples[:, np.newaxis]
    return WeightParticles(check_points("u_samples", samples, (m, None, None)))


def _gaussian(
    q_mean: ArrayLike | None, q_cov: ArrayLike | None, q_root: ArrayLike | None, m: int
) -> GaussianWeights:
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


def _symmetric_root(covariance: Array) -> Array:
    """R with ``R Rᵀ = covariance``, which may be singular."""
    size = np.abs(covariance).max(initial=0.0)
    if not np.allclose(covariance, covariance.T, rtol=0.0, atol=_ROUNDING * size):
        raise ValueError("q_cov must be symmetric; use q_root for a factor R of R Rᵀ.")
    values, vectors = np.linalg.eigh(covariance)
    if values[0] < -_ROUNDING * size:
        raise ValueError(
            "q_cov must be positive semi-definite; got a smallest eigenvalue of "
            f"{values[0]:g}, the largest being {values[-1]:g}."
        )
    root: Array = vectors * np.sqrt(np.maximum(values, 0.0))
    return root


def _whiten(law: WeightLaw, root: Array, mean: Array) -> WeightLaw:
    """Law of ``L⁻¹ (u - m(Z))`` from that of u."""
    if isinstance(law, GaussianWeights):
        roots = [solve_lower(root, spread) for spread in law.root]
        return GaussianWeights(solve_lower(root, law.mean - mean), np.stack(roots))
    m, c, s = law.values.shape
    centred = (law.values - mean[:, :, np.newaxis]).reshape(m, c * s)
    return WeightParticles(solve_lower(root, centred).reshape(m, c, s))
