"""Gaussian-process posteriors that can be drawn from: exact, and at inducing points."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from skgpx._decoupled._matheron import PriorFeatures, draw_from_prior, matheron_update
from skgpx._draws import FunctionDraws, KernelProcess, linear_draws
from skgpx._latent import LatentModel
from skgpx._numerics.linalg import solve_lower, solve_lower_transpose
from skgpx.kernels import latent_kernel, noise_variance

Array = NDArray[np.float64]
# Of a central difference, relative to the input: truncation as small as rounding.
_STEP = np.finfo(np.float64).eps ** (1.0 / 3.0)


@dataclass(frozen=True)
class ExactPosterior:
    """Gaussian process given noisy values, by Matheron's rule.

    ``f + k(·, X) (K + Σ)⁻¹ (y - f(X) - ε)`` with f from the prior and
    ``ε ~ N(0, Σ)``: its mean over f and ε is the posterior mean, whatever the
    covariance of the f that are used.

    Parameters
    ----------
    full_kernel : sklearn.gaussian_process.kernels.Kernel
        Covariance of the standardised observations, white noise included.
    points : ndarray of shape (n, d)
        X; no rows for the prior.
    root : ndarray of shape (n, n)
        Lower Cholesky factor of ``K + Σ``.
    targets : ndarray of shape (n, c)
        Standardised y.
    noise : ndarray of shape (n,)
        Diagonal of Σ, in standardised units.
    shift, scale : ndarray of shape (c,)
        ``y = shift + scale * standardised``.
    """

    full_kernel: Any
    points: Array
    root: Array
    targets: Array
    noise: Array
    shift: Array
    scale: Array

    @cached_property
    def kernel(self) -> Any:
        """Covariance of the latent function."""
        return latent_kernel(self.full_kernel)

    def draw(
        self,
        size: int,
        rng: np.random.Generator,
        features: PriorFeatures,
        n_jobs: int | None = None,
    ) -> FunctionDraws:
        """Functions from the posterior in the units of y, without noise."""
        n, c = self.targets.shape
        prior_rng, noise_rng = rng.spawn(2)
        draws = draw_from_prior(
            self.kernel, (c, size), prior_rng, features, self.points, self.noise
        )
        if n:
            # ε is drawn for all at once: the blocks below have no randomness
            noise = noise_rng.standard_normal((n, c, size))
            noise *= np.sqrt(self.noise)[:, np.newaxis, np.newaxis]
            values = self.targets[:, :, np.newaxis] - noise
            solve = partial(solve_cholesky, self.root)
            draws = matheron_update(
                draws, self.kernel, self.points, values, solve, n_jobs
            )
        draws = draws.with_process(self.process())
        return draws.affine(self.shift, self.scale)

    def noise_variance(self, X: Array) -> Array:
        """Variance of the white noise of each output at the rows of X, (n, c)."""
        return noise_variance(self.full_kernel, X)[:, np.newaxis] * self.scale**2

    def process(self) -> KernelProcess:
        """Covariance of the standardised function: all of the data are known."""
        n, c = self.targets.shape
        known = np.empty((1, n, 0))
        return KernelProcess(self.kernel, self.points, self.root, known, np.ones(c))


@dataclass(frozen=True)
class InducingPosterior:
    """Gaussian process whose values at inducing points follow another law.

    Prior mean, and the latent model ``φ(x)ᵀw + g(x)`` of what deviates from it, with
    ``w = L⁻¹ (u - m(Z))`` and ``L Lᵀ`` the prior covariance of u.

    Parameters
    ----------
    full_kernel : sklearn.gaussian_process.kernels.Kernel
        Prior covariance; white noise in it is noise of the observations.
    model : LatentModel
        Nyström basis at Z with the latent kernel, and the law of w.
    mean : float or callable
        Prior mean m; a callable maps (n, d) to (n,) or (n, c).
    noise : ndarray of shape (c,)
        Variance of the observations' noise besides that of the kernel.
    """

    full_kernel: Any
    model: LatentModel
    mean: float | Callable[[Array], Any]
    noise: Array

    @property
    def points(self) -> Array:
        """Inducing points Z (m, d)."""
        points: Array = self.model.basis.inducing_points
        return points

    def draw(
        self,
        size: int,
        rng: np.random.Generator,
        features: PriorFeatures,
        n_jobs: int | None = None,
    ) -> FunctionDraws:
        """Functions from the posterior, without noise."""
        del n_jobs  # inducing points are few
        c = len(self.noise)
        prior_rng, weights_rng = rng.spawn(2)
        weights = self.model.law.draw(size, weights_rng)
        draws = self.model.basis.draw(weights, prior_rng, **features.options(size))
        if callable(self.mean):
            each = np.repeat(np.eye(c)[:, :, np.newaxis], size, axis=2)
            draws = draws + linear_draws(MeanFunction(self.mean, c), each)
        else:
            draws = draws.affine(self.mean, 1.0)
        return draws.with_process(self.model.process())

    def mean_at(self, X: Array) -> Array:
        """Prior mean at the rows of X, shape (n, c)."""
        c = len(self.noise)
        if not callable(self.mean):
            return np.full((len(X), c), self.mean, dtype=np.float64)
        return MeanFunction(self.mean, c)(X)

    def moments(self, X: Array) -> tuple[Array, Array]:
        """Mean and variance of the observations at the rows of X, (n, c) each."""
        mean, variance = self.model.marginals(X).moments()
        return self.mean_at(X) + mean, variance + self.noise_variance(X)

    def covariance(self, X: Array) -> Array:
        """Covariance of the observations between the rows of X, (n, n, c)."""
        basis = self.model.basis
        features = basis(X)
        residual = basis.residual_covariance(X, features)
        halves = [features @ root for root in self.model.law.moments()[1]]
        latent = np.stack([residual + half @ half.T for half in halves], axis=2)
        total = np.repeat(latent, len(self.noise) // latent.shape[2], axis=2)
        total[np.diag_indices(len(X))] += self.noise_variance(X)
        return total

    def noise_variance(self, X: Array) -> Array:
        """Variance of the noise of each output at the rows of X, (n, c)."""
        return noise_variance(self.full_kernel, X)[:, np.newaxis] + self.noise


@dataclass(frozen=True)
class MeanFunction:
    """A prior mean as features, one column for each of `n_outputs` outputs."""

    function: Callable[[Array], Any]
    n_outputs: int

    def __call__(self, X: Array) -> Array:
        """Mean at the rows of X, shape (n, c)."""
        values = np.asarray(self.function(X), dtype=np.float64)
        if values.ndim == 1:
            values = values[:, np.newaxis]
        if values.shape[:1] != (len(X),) or values.shape[1] not in (1, self.n_outputs):
            raise ValueError(
                f"The prior mean must map ({len(X)}, {X.shape[1]}) inputs to an array "
                f"of shape ({len(X)},) or ({len(X)}, {self.n_outputs}); it gave one of "
                f"shape {values.shape}."
            )
        return np.broadcast_to(values, (len(X), self.n_outputs))

    def pairs(
        self, X: Array, weights: Array, index: NDArray[np.intp]
    ) -> tuple[Array, Array]:
        """Values (p,) and central differences (p, d) of function ``index[i]``."""
        chosen, gradients = weights[index], np.empty(X.shape)
        for j in range(X.shape[1]):
            step = np.zeros(X.shape)
            step[:, j] = _STEP * np.maximum(np.abs(X[:, j]), 1.0)
            rise = np.sum((self(X + step) - self(X - step)) * chosen, axis=1)
            gradients[:, j] = rise / (2.0 * step[:, j])
        return np.sum(self(X) * chosen, axis=1), gradients


def regressor_posterior(regressor: Any, n_features: int) -> ExactPosterior:
    """Posterior of a GaussianProcessRegressor; its prior if it is not fitted.

    Nothing is computed again: `L_`, `X_train_`, `y_train_` and `kernel_` are used,
    and `alpha` as it was during `fit`.
    """
    if not hasattr(regressor, "X_train_"):
        c = regressor.n_targets or 1
        kernel = regressor.kernel or ConstantKernel(1.0) * RBF(1.0)
        none, X, y = np.empty((0, 0)), np.empty((0, n_features)), np.empty((0, c))
        return ExactPosterior(kernel, X, none, y, np.empty(0), np.zeros(c), np.ones(c))
    targets = np.asarray(regressor.y_train_, dtype=np.float64)
    targets = targets.reshape(len(targets), -1)
    points = np.ascontiguousarray(regressor.X_train_, dtype=np.float64)
    noise = noise_variance(regressor.kernel_, points) + regressor.alpha
    c = targets.shape[1]
    shift, scale = (
        np.array(np.broadcast_to(value, (c,)), dtype=np.float64)
        for value in (regressor._y_train_mean, regressor._y_train_std)
    )
    return ExactPosterior(
        regressor.kernel_, points, regressor.L_, targets, noise, shift, scale
    )


def solve_cholesky(root: Array, B: Array) -> Array:
    """``(L Lᵀ)⁻¹ B``."""
    return solve_lower_transpose(root, solve_lower(root, B))
