"""Exact processes with a known kernel: by a Cholesky factor, or for many rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from skgpx._base import LatentRegressor
from skgpx._draws import Conditioning, FunctionDraws, KernelProcess, draw_prior
from skgpx._iterative import ExactGPRegressor
from skgpx._iterative._model import PathwiseModel
from skgpx._validation import check_rows, standardisation
from skgpx.kernels import latent_kernel, noise_variance

Array = NDArray[np.float64]

# Rows above which a known kernel is not factored: there either takes the same time, and
# a factor twice the memory. Draws that are solved for in the fit, and tolerance of the
# solver, by which the mean has four digits or more.
_MANY, _DRAWS, _TOLERANCE = 8000, 64, 0.01

# ---- By the Cholesky factor of GaussianProcessRegressor ------------------------------


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
        kernel = _kernel_of(regressor)
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
        regressor.kernel_,
        points,
        regressor.L_,
        targets,
        noise,
        shift,
        scale,
    )


def _kernel_of(regressor: GaussianProcessRegressor) -> Any:
    """Kernel of an unfitted GaussianProcessRegressor, that of None included."""
    fixed = ConstantKernel(1.0, "fixed") * RBF(1.0, "fixed")
    return fixed if regressor.kernel is None else regressor.kernel


# ---- By conjugate gradients, without a matrix of n x n -------------------------------


@dataclass(frozen=True)
class SolvedModel(PathwiseModel):
    """Posterior given all rows, whose draws are solved for where it has too few.

    Parameters
    ----------
    solver : ExactGPRegressor
        Without a fit.
    rows : tuple of ndarray
        X, standardised y and variances of the noise.
    """

    solver: ExactGPRegressor
    rows: tuple[Array, Array, Array]

    def draw(self, size: int, rng: np.random.Generator) -> FunctionDraws:
        """Functions from the posterior; more than `n_draws` take another solution."""
        if size <= self.n_draws:
            return super().draw(size, rng)
        seed, (X, y, noise) = int(rng.integers(2**31)), self.rows
        more = clone(self.solver).set_params(n_draws=size, random_state=seed)
        posterior = more.fit(X, y, noise_variance=noise).posterior_
        return posterior.affine(self.shift, self.scale).draw(size, rng)


class IterativeRegressor(LatentRegressor):
    """The process of a GaussianProcessRegressor with a known kernel, without a factor.

    Parameters
    ----------
    estimator : GaussianProcessRegressor
        Without a fit; its `alpha` is noise of the rows, and its white noise that of new
        observations too.
    n_jobs : int or None, default=None
    random_state : int, RandomState or None, default=None
    """

    posterior_: Any

    def __init__(
        self,
        estimator: Any,
        n_jobs: int | None = None,
        random_state: Any = None,
    ):
        self.estimator = estimator
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> IterativeRegressor:
        """Solve for the mean and for draws."""
        X, y, ones = check_rows(self, X, y, None, numeric=True)
        self.kernel_ = _kernel_of(self.estimator)
        white = noise_variance(self.kernel_, X)
        own = self.estimator.normalize_y
        shift, scale = standardisation(y, ones) if own else (0.0, 1.0)
        solver = ExactGPRegressor(
            latent_kernel(self.kernel_), n_draws=_DRAWS, tol=_TOLERANCE, optimizer=None,
            normalize_y=False, n_jobs=self.n_jobs, random_state=self.random_state,
        )  # fmt: skip
        rows = X, (y - shift) / scale, white + self.estimator.alpha
        fitted = clone(solver).fit(*rows[:2], noise_variance=rows[2])
        self.findings_, parts = fitted.findings_, fitted.posterior_.__getstate__()
        model = SolvedModel(**parts, solver=solver, rows=rows)
        self.posterior_ = model.affine(shift, scale)
        # a likelihood has some noise
        noise = np.square(scale) * max(white[0], np.finfo(np.float64).tiny)
        self.likelihood_ = fitted.likelihood_.with_noise(noise)
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def without_factor(regressor: Any, X: Array, sampler: Any) -> Any:
    """An :class:`IterativeRegressor` in place of a regressor, or the regressor itself.

    For a GaussianProcessRegressor that keeps its kernel, if rows are many, the kernel
    has features, the white noise is the same everywhere, and a sampler does not say how
    the prior is drawn.
    """
    exact = type(regressor) is GaussianProcessRegressor and len(X) > _MANY
    if not (exact and sampler.n_basis == sampler.prior == "auto"):
        return regressor
    kernel, alphas = _kernel_of(regressor), np.size(regressor.alpha)
    learned = regressor.optimizer is not None and kernel.n_dims > 0
    white = noise_variance(kernel, X)
    same = np.allclose(white, white[0], rtol=1e-9, atol=0.0)
    if learned or not same or alphas not in (1, len(X)):
        return regressor
    try:
        rng = np.random.default_rng(0)
        draw_prior(kernel, X.shape[1], 1, 1, rng, prior="spectral", n_basis=2)
    except ValueError:
        return regressor
    return IterativeRegressor(regressor, sampler.n_jobs, sampler.random_state)
