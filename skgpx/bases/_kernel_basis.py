"""Bases of kernel sections: projections of f on linear functionals of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skgpx._draws import (
    Conditioning,
    FunctionDraws,
    KernelProcess,
    condition,
    draw_prior,
)
from skgpx._numerics.linalg import solve_lower, solve_lower_transpose
from skgpx._numerics.weights import GaussianWeights, WeightDistribution
from skgpx.kernels import kernel_matrix

Array = NDArray[np.float64]
# Maps rows (n, d) to the mean (n, c, s) of f there, and a variance of that shape.
Marginals = Callable[[Array], tuple[Array, Array]]

# Variance of the residual below which errors do not matter, relative to the prior's.
_NEGLIGIBLE = 1e-6


@dataclass(frozen=True)
class FeatureMarginals:
    """Moments of ``Φ(x)ᵀw + g(x)`` at the rows of X, for any basis and distribution.

    O(m (m + s)) time for a row.

    Parameters
    ----------
    basis : object
        With ``basis(X)`` and ``basis.residual_variance(X, features)``.
    weights : GaussianWeights or WeightParticles
        Distribution of the whitened weights.
    """

    basis: Any
    weights: WeightDistribution

    def __call__(self, X: Array) -> tuple[Array, Array]:
        """Mean (n, c, s), and variance, which broadcasts to it."""
        features = self.basis(X)
        mean, variance = self.weights.latent(features)
        residual = self.basis.residual_variance(X, features)
        return mean, variance + residual[:, np.newaxis, np.newaxis]


@dataclass(frozen=True)
class KernelBasis:
    """Whitened basis of kernel sections at points.

    With inducing variables ``u = Aᵀ f(Z)`` of prior covariance ``L Lᵀ``, and ``u = L
    w``, the process splits into two independent parts::

        f(x) = φ(x)ᵀ w + g(x),    φ(x) = L⁻¹ Aᵀ k(Z, x)
               -------   ----
               basis     residual, cov(g) = k(x, x') - φ(x)ᵀ φ(x')

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Prior covariance ``k``, without observation noise.
    inducing_points : ndarray of shape (n, d)
        ``Z``.
    root : ndarray of shape (m, m), default=None
        Lower Cholesky factor ``L``; None is the identity.
    jitter : float or ndarray of shape (m,), default=0.0
        ``L w`` is u plus noise of this variance. Draws of f take it into account, since
        it matters where ``L⁻¹`` is large.
    combinations : ndarray of shape (n, m), default=None
        ``A``; None for the values at the points themselves.
    """

    kernel: Any
    inducing_points: Array
    root: Array | None = None
    jitter: float | Array = 0.0
    combinations: Array | None = None

    @property
    def n_basis(self) -> int:
        """Number of basis functions ``m``."""
        A = self.combinations
        return len(self.inducing_points) if A is None else A.shape[1]

    @property
    def floats_per_row(self) -> int:
        """Numbers in memory for the features of one row."""
        sections = len(self.inducing_points) + len(getattr(self.kernel, "support", ()))
        return 4 * self.n_basis + 2 * sections

    @property
    def white_variance(self) -> float:
        """Part of the residual that is independent between all rows: none."""
        return 0.0

    def __call__(self, X: Array) -> Array:
        """Features ``φ(X)``, shape (n, m); their prior weights are N(0, I)."""
        K = kernel_matrix(self.kernel, X, self.inducing_points)
        if self.combinations is not None:
            K = K @ self.combinations
        # φ(X)ᵀ = L⁻¹ Aᵀ k(Z, X)
        return K if self.root is None else solve_lower(self.root, K.T).T

    def marginals(self, weights: WeightDistribution) -> FeatureMarginals:
        """Moments of ``φᵀw + g`` at rows, under a distribution of the weights."""
        return FeatureMarginals(self, weights)

    def residual_variance(self, X: Array, features: Array) -> Array:
        """Prior variance of the residual, ``var g(x)``, shape (n,).

        Parameters
        ----------
        X : ndarray of shape (n, d)
            Inputs.
        features : ndarray of shape (n, m)
            ``self(X)``.
        """
        # k(x, x) - |φ(x)|², not negative
        explained = np.einsum("ij,ij->i", features, features)
        return np.maximum(self.kernel.diag(X) - explained, 0.0)

    def residual_covariance(self, X: Array, features: Array) -> Array:
        """Joint prior covariance of the residual at the rows of X, shape (n, n).

        Jitter in the whitening can only increase it, so it is positive semi-definite
        up to rounding. Parameters as in :meth:`residual_variance`; O(n^2 m).
        """
        # k(X, X) - Φ Φᵀ
        covariance = self.kernel(X) - features @ features.T
        covariance[np.diag_indices(X.shape[0])] = self.residual_variance(X, features)
        return covariance

    def process(self, weights: GaussianWeights) -> KernelProcess:
        """Distribution of ``φᵀw + g`` as a process that can be conditioned."""
        mean, spread = weights.moments()
        root = np.eye(self.n_basis) if self.root is None else self.root
        return KernelProcess(
            kernel=self.kernel,
            points=self.inducing_points,
            root=root,
            spread=spread,
            scale=np.ones(mean.shape[1]),
            combinations=self.combinations,
        )

    def process_at(self, weights: GaussianWeights, X: Array) -> KernelProcess:
        """Process in which rows X (p, d) are observed."""
        del X
        return self.process(weights)

    def grown(self, process: KernelProcess) -> KernelBasis:
        """Return the basis of a process after conditioning on values.

        The variables of this basis come first, then the observed values.
        """
        known = np.broadcast_to(self.jitter, (self.n_basis,))
        more = len(process.root) - self.n_basis
        observed = process.points[len(process.points) - more :]
        jitter = np.concatenate((known, process.nugget(observed)))
        return KernelBasis(
            process.kernel, process.points, process.root, jitter, process.combinations
        )

    def draw(
        self, weights: Array, rng: np.random.Generator, **prior: Any
    ) -> FunctionDraws:
        """Functions ``φᵀw + g`` with these weights and a drawn residual.

        Parameters
        ----------
        weights : ndarray of shape (m, c, s)
            Weights ``w`` of c outputs and s draws.
        rng : numpy.random.Generator
            Source of the residual.
        **prior
            Options of :func:`skgpx.bases.draw_prior`.

        Returns
        -------
        draws : FunctionDraws
            Prior draws, conditioned on ``u = L w``.
        """
        (_, c, s), Z, A = weights.shape, self.inducing_points, self.combinations
        # a residual below a thousandth of the prior's std does not matter: the weights
        # have a distribution, too
        given = Conditioning(Z, negligible=_NEGLIGIBLE)
        if A is None:
            given = replace(given, noise_variance=self.jitter, root=self.root)
        draws = draw_prior(self.kernel, Z.shape[1], c, s, rng, given=given, **prior)
        u = weights if self.root is None else np.tensordot(self.root, weights, 1)
        std = np.sqrt(np.broadcast_to(self.jitter, (self.n_basis,)))
        if std.any():
            u = u - std[:, np.newaxis, np.newaxis] * rng.standard_normal(u.shape)
        return condition(draws, self.kernel, Z, u, self._solve, A)

    def _solve(self, values: Array) -> Array:
        """Apply the inverse of ``L Lᵀ`` to (m, k)."""
        if self.root is None:
            return values
        return solve_lower_transpose(self.root, solve_lower(self.root, values))
