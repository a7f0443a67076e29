"""Functions drawn from the posterior of an exact Gaussian-process regressor."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from skgpx._draws import Conditioning, FunctionDraws, KernelProcess, draw_prior
from skgpx.kernels import latent_kernel, noise_variance

Array = NDArray[np.float64]


@dataclass(frozen=True)
class ExactPosterior:
    """Gaussian process given noisy values, by Matheron's rule.

    ``f + k(·, X) (K + Σ)⁻¹ (y - f(X) - ε)`` with f from the prior and
    ``ε ~ N(0, Σ)``: its mean over f and ε is the posterior mean, whatever the
    covariance of f (that of Fourier features, for example).

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

    @property
    def floats_per_row(self) -> int:
        """Largest number of floats in memory for the prediction of one row."""
        return 4 * len(self.points)

    @cached_property
    def kernel(self) -> Any:
        """Covariance of the latent function."""
        return latent_kernel(self.full_kernel)

    def draw(self, size: int, rng: np.random.Generator, **prior: Any) -> FunctionDraws:
        """Functions from the posterior in the units of y, without noise.

        `prior` are the options of :func:`skgpx.bases.draw_prior`.
        """
        n, c = self.targets.shape
        prior_rng, noise_rng = rng.spawn(2)
        given = Conditioning(self.points, self.noise, self.root) if n else None
        d = self.points.shape[1]
        known = np.empty((1, n, 0)), np.ones(c)
        process = KernelProcess(self.kernel, self.points, self.root, *known)
        draws = draw_prior(self.kernel, d, c, size, prior_rng, given=given, **prior)
        if n:
            noise = noise_rng.standard_normal((n, c, size))
            noise *= np.sqrt(self.noise)[:, np.newaxis, np.newaxis]
            values = self.targets[:, :, np.newaxis] - noise
            draws = process.condition(draws, values)
        draws = draws.with_process(process)
        return draws.affine(self.shift, self.scale)

    def noise_variance_at(self, X: Array) -> Array:
        """Variance of the white noise of each output at the rows of X, (n, c)."""
        return noise_variance(self.full_kernel, X)[:, np.newaxis] * self.scale**2


def regressor_posterior(regressor: Any, n_features: int) -> ExactPosterior:
    """Posterior of a GaussianProcessRegressor; its prior if it is not fitted.

    Nothing is recomputed: `L_`, `X_train_`, `y_train_` and `kernel_` are used, and
    `alpha`, which must be the one that was used in `fit`.
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
