"""Exact processes with a fixed kernel: by a Cholesky factor, or for many rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from skgpx._draws import Conditioning, FunctionDraws, KernelProcess, draw_prior
from skgpx._iterative import ExactGPRegressor
from skgpx._iterative._regressor import PathwiseModel, check_features
from skgpx._numerics.linalg import cholesky, solve_lower, solve_lower_transpose
from skgpx._numerics.mixture import LatentMixture
from skgpx._prediction.base import LatentRegressor
from skgpx._shell.validation import check_rows, standardisation
from skgpx._types import Array, ArrayLike, Generator, Kernel, RandomState
from skgpx.kernels import latent_kernel, matrix_and_input_pullback, noise_variance

# Rows above which the matrix of a fixed kernel is not factored: there both ways take
# the same time, and a factor takes twice the memory.
_MAX_FACTORED_ROWS = 8000

# ---- By the Cholesky factor of GaussianProcessRegressor ------------------------------


@dataclass(frozen=True)
class ExactPosterior:
    """Gaussian process given noisy values, by Matheron's rule.

    ``f + k(·, X) (K + Σ)⁻¹ (y - f(X) - ε)`` with f from the prior and ``ε ~ N(0, Σ)``:
    its mean over f and ε is the posterior mean, whatever the covariance of f (of
    Fourier features, for example).

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

    full_kernel: Kernel
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
    def kernel(self) -> Kernel:
        """Covariance of the latent function."""
        return latent_kernel(self.full_kernel)

    def draw(self, size: int, rng: Generator, **prior: Any) -> FunctionDraws:
        """Functions from the posterior in the units of y, without noise.

        `prior` are the options of :func:`skgpx.bases.draw_prior`.
        """
        n, c = self.targets.shape
        prior_rng, noise_rng = rng.spawn(2)
        given = None
        if n:
            given = Conditioning(self.points, self.noise, self.root)
        draws = draw_prior(
            self.kernel,
            self.points.shape[1],
            c,
            size,
            prior_rng,
            given=given,
            **prior,
        )
        process = KernelProcess(
            kernel=self.kernel,
            points=self.points,
            root=self.root,
            spread=np.empty((1, n, 0)),
            scale=np.ones(c),
        )
        if n:
            # f(X) takes the values y - ε
            noise = noise_rng.standard_normal((n, c, size))
            noise *= np.sqrt(self.noise)[:, np.newaxis, np.newaxis]
            values = self.targets[:, :, np.newaxis] - noise
            draws = process.condition(draws, values)
        draws = draws.with_process(process)
        return draws.affine(self.shift, self.scale)

    @cached_property
    def _whitened_targets(self) -> Array:
        """``L⁻¹ y`` for each output, (n, c)."""
        return solve_lower(self.root, self.targets)

    def marginals(self, X: Array) -> LatentMixture:
        """Distribution of f at each row of X (n, d): one normal component."""
        # φ(x) = L⁻¹ k(X, x)
        features = solve_lower(self.root, self.kernel(self.points, X))
        # E f = φᵀ L⁻¹ y,  Var f = k(x, x) - φᵀφ
        mean = features.T @ self._whitened_targets
        variance = self.kernel.diag(X) - np.sum(features**2, axis=0)
        variance = np.maximum(variance, 0.0)
        return LatentMixture(
            mean=(self.shift + self.scale * mean)[:, :, np.newaxis],
            variance=(variance[:, np.newaxis] * self.scale**2)[:, :, np.newaxis],
            weights=np.ones(1),
        )

    def marginals_and_slopes(self, X: Array) -> tuple[LatentMixture, Array, Array]:
        """`marginals` of one output; slopes of mean and variance (n, 1, d) in X.

        Raises
        ------
        ValueError
            If the gradient of the kernel is not known.
        """
        K, pullback = matrix_and_input_pullback(self.kernel, X, self.points)
        # C⁻¹ y, and C⁻¹ k(X, x)
        dual = solve_lower_transpose(self.root, self._whitened_targets)
        duals = solve_lower_transpose(self.root, solve_lower(self.root, K.T))
        mean_slopes = pullback(np.broadcast_to(dual.T, K.shape))
        # ∂ k(x, x) is twice that in one argument
        _, pullback_itself = matrix_and_input_pullback(self.kernel, X, X)
        slopes = 2.0 * (pullback_itself(np.eye(len(X))) - pullback(duals.T))
        return (
            self.marginals(X),
            self.scale * mean_slopes[:, np.newaxis],
            self.scale**2 * slopes[:, np.newaxis],
        )

    def condition(self, X: Array, y: Array, noise_variance: Array) -> ExactPosterior:
        """Distribution of f given also noisy values y (p, c) at X (p, d).

        `noise_variance` (p,) is in the squared units of the first output. O((n + p)^3).
        """
        points = np.concatenate((self.points, X))
        targets = np.concatenate((self.targets, (y - self.shift) / self.scale))
        noise = np.concatenate((self.noise, noise_variance / self.scale[0] ** 2))
        covariance = self.kernel(points)
        covariance[np.diag_indices(len(points))] += noise
        return replace(
            self,
            points=points,
            root=cholesky(covariance).L,
            targets=targets,
            noise=noise,
        )

    def noise_variance_at(self, X: Array) -> Array:
        """Variance of the white noise of each output at the rows of X, (n, c)."""
        return noise_variance(self.full_kernel, X)[:, np.newaxis] * self.scale**2


def regressor_posterior(
    regressor: GaussianProcessRegressor,
    n_features: int,
) -> ExactPosterior:
    """Posterior of a GaussianProcessRegressor; its prior if it is not fitted.

    Uses `L_`, `X_train_`, `y_train_` and `kernel_` without computing them again, and
    `alpha`, which must have its value at the time of `fit`.
    """
    if not hasattr(regressor, "X_train_"):
        c = regressor.n_targets or 1
        return ExactPosterior(
            full_kernel=_prior_kernel(regressor),
            points=np.empty((0, n_features)),
            root=np.empty((0, 0)),
            targets=np.empty((0, c)),
            noise=np.empty(0),
            shift=np.zeros(c),
            scale=np.ones(c),
        )
    targets = np.asarray(regressor.y_train_, dtype=np.float64)
    targets = targets.reshape(len(targets), -1)
    points = np.ascontiguousarray(regressor.X_train_, dtype=np.float64)
    c = targets.shape[1]
    shift = np.broadcast_to(regressor._y_train_mean, (c,))
    scale = np.broadcast_to(regressor._y_train_std, (c,))
    return ExactPosterior(
        full_kernel=regressor.kernel_,
        points=points,
        root=regressor.L_,
        targets=targets,
        noise=noise_variance(regressor.kernel_, points) + regressor.alpha,
        shift=np.array(shift, dtype=np.float64),
        scale=np.array(scale, dtype=np.float64),
    )


def _prior_kernel(regressor: GaussianProcessRegressor) -> Kernel:
    """Kernel of an unfitted GaussianProcessRegressor, with its default for None."""
    if regressor.kernel is None:
        return ConstantKernel(1.0, "fixed") * RBF(1.0, "fixed")
    return regressor.kernel


# ---- By conjugate gradients, without a matrix of n x n -------------------------------


@dataclass(frozen=True)
class SolvedModel(PathwiseModel):
    """Posterior given all rows, with a new solution for more draws than it has.

    Parameters
    ----------
    solver : ExactGPRegressor
        Without a fit.
    rows : tuple of ndarray
        X, standardised y and variances of the noise.
    """

    solver: ExactGPRegressor
    rows: tuple[Array, Array, Array]

    def draw(self, size: int, rng: Generator) -> FunctionDraws:
        """Functions from the posterior; more than `n_draws` take another solution."""
        if size <= self.n_draws:
            return super().draw(size, rng)
        X, y, noise = self.rows
        seed = int(rng.integers(2**31))
        solver = clone(self.solver).set_params(n_draws=size, random_state=seed)
        solver.fit(X, y, noise_variance=noise)
        posterior = solver.posterior_.affine(self.shift, self.scale)
        return posterior.draw(size, rng)


class IterativeRegressor(LatentRegressor):
    """The process of a GaussianProcessRegressor with a fixed kernel, without a factor.

    Parameters
    ----------
    estimator : GaussianProcessRegressor
        Without a fit. Its `alpha` is noise of the rows, and the white noise of its
        kernel also noise of new observations.
    n_jobs : int or None, default=None
    random_state : int, RandomState or None, default=None
    """

    posterior_: Any
    _takes_several_targets = True

    def __init__(
        self,
        estimator: GaussianProcessRegressor,
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ):
        self.estimator = estimator
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> IterativeRegressor:
        """Solve for the mean and for draws."""
        X, y, weights = check_rows(self, X, y, None, numeric=True)
        self.kernel_ = _prior_kernel(self.estimator)
        white = noise_variance(self.kernel_, X)
        shift: Any = 0.0
        scale: Any = 1.0
        if self.estimator.normalize_y:
            shift, scale = standardisation(y, weights)
        # draws that the fit solves for
        # tolerance of the solver: the mean has four digits or more
        solver = ExactGPRegressor(
            latent_kernel(self.kernel_),
            n_draws=64,
            tol=0.01,
            optimizer=None,
            normalize_y=False,
            n_jobs=self.n_jobs,
            random_state=self.random_state,
        )
        targets = (y - shift) / scale
        noise = white + self.estimator.alpha
        fitted = clone(solver).fit(X, targets, noise_variance=noise)
        self.findings_ = fitted.findings_
        model = SolvedModel(
            **fitted.posterior_.__getstate__(),
            solver=solver,
            rows=(X, targets, noise),
        )
        self.posterior_ = model.affine(shift, scale)
        # the variance of a likelihood is positive
        observation_noise = max(white[0], np.finfo(np.float64).tiny)
        noise_of_y = np.square(scale) * observation_noise
        self.likelihood_ = fitted.likelihood_.with_noise(noise_of_y)
        return self


def without_factor(
    regressor: BaseEstimator,
    X: Array,
    n_jobs: int | None,
    random_state: RandomState,
) -> BaseEstimator:
    """Replace a regressor with many rows by an :class:`IterativeRegressor`.

    Only a GaussianProcessRegressor that keeps its kernel is replaced, if the rows are
    many, the kernel has features, and the white noise is the same everywhere. In all
    other cases the regressor itself is returned.

    Notes
    -----
    The replacement is silent: `estimator_` of the sampler is then an
    IterativeRegressor and not of the class that the user gave. The mean agrees to four
    digits or more, standard deviations to a few percent.
    """
    if type(regressor) is not GaussianProcessRegressor or len(X) <= _MAX_FACTORED_ROWS:
        return regressor
    kernel = _prior_kernel(regressor)
    learns_kernel = regressor.optimizer is not None and kernel.n_dims > 0
    white = noise_variance(kernel, X)
    is_constant = np.allclose(white, white[0], rtol=1e-9, atol=0.0)
    fits_alpha = np.size(regressor.alpha) in (1, len(X))
    if learns_kernel or not is_constant or not fits_alpha:
        return regressor
    try:
        check_features(kernel, X.shape[1])
    except ValueError:
        return regressor
    return IterativeRegressor(regressor, n_jobs, random_state)
