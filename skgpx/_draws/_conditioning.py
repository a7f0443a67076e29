"""Conditioning drawn functions on values: Matheron's rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve

from skgpx._draws._functions import FunctionDraws
from skgpx._draws._sections import section_terms
from skgpx._draws._terms import LinearTerm
from skgpx._numerics.linalg import cholesky, solve_lower, solve_lower_transpose

Array = NDArray[np.float64]

# Least noise variance of an observation, relative to the prior variance.
_NUGGET = 1e-10


def condition(
    prior: FunctionDraws,
    kernel: Any,
    points: Array,
    values: Array | float,
    solve: Callable[[Array], Array],
) -> FunctionDraws:
    """Matheron's update: draws of the process given its values at some points.

    ::

        (f | f(Z) = v)(·)  =  f(·) + k(·, Z) S (v - f(Z))
                              ----   --------------------
                              prior  one more linear term

    Parameters
    ----------
    prior : FunctionDraws
        Draws ``f`` of the unconditioned process.
    kernel : sklearn.gaussian_process.kernels.Kernel
        Its covariance.
    points : ndarray of shape (m, d)
        Where the values are known.
    values : ndarray broadcastable to (m, c, s), or float
        The values (for noisy observations: minus a draw of their noise).
    solve : callable
        ``S``: maps (m, k) to (m, k), the inverse of ``k(Z, Z)`` plus the variance of
        the noise.

    Returns
    -------
    draws : FunctionDraws
        As many draws as in ``prior``.
    """
    weights = update_weights(prior, points, values, solve)
    return prior.plus(section_terms(kernel, points, weights))


def update_weights(
    prior: FunctionDraws,
    points: Array,
    values: Array | float,
    solve: Callable[[Array], Array],
) -> Array:
    """Weights ``S (v - f(Z))`` of the update, shape (m, c, s); see `condition`."""
    discrepancy = values - prior.values(points)
    m, c, s = discrepancy.shape
    return solve(discrepancy.reshape(m, c * s)).reshape(m, c, s)


class KernelProcess(NamedTuple):
    """Covariance of the process that draws come from, in factors.

    ::

        cov(f(x), f(y)) = scale² (k(x, y) - h(x)ᵀ (I - S Sᵀ) h(y)),  h = L⁻¹ k(P, ·)

    the form of a prior (no points), of a Gaussian process given data (``L Lᵀ`` the
    covariance of the noisy data, S empty) or inducing variables (S a root of the
    covariance of ``L⁻¹u``), and of what it becomes when more is observed. Nothing
    is ever inverted: little noise makes the inverse of ``L Lᵀ`` useless.

    Attributes
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Prior covariance ``k``, without observation noise.
    points : ndarray of shape (q, d)
        ``P``.
    root : ndarray of shape (q, q)
        ``L``.
    spread : ndarray of shape (g, q, r)
        ``S``, for each output or (g = 1) for all.
    scale : ndarray of shape (c,)
        Units of the outputs.
    """

    kernel: Any
    points: Array
    root: Array
    spread: Array
    scale: Array

    @classmethod
    def prior(cls, kernel: Any, n_features: int, n_outputs: int) -> KernelProcess:
        """KernelProcess about which nothing has been observed."""
        nothing, ones = np.empty((0, n_features)), np.ones(n_outputs)
        return cls(kernel, nothing, np.empty((0, 0)), np.empty((1, 0, 0)), ones)

    def scaled(self, factor: Array) -> KernelProcess:
        """Covariance of the functions times a factor for each output."""
        return self._replace(scale=self.scale * np.abs(factor))

    def covariance(self, X: Array, output: int = 0) -> Array:
        """Covariance of one output between the rows of X, (n, n)."""
        h, residual = self._split(X)
        half = self.spread[output % len(self.spread)].T @ h
        covariance: Array = self.scale[output] ** 2 * (residual + half.T @ half)
        return covariance

    def _split(self, X: Array) -> tuple[Array, Array]:
        """h(X) (q, n), and the covariance that it leaves over (n, n)."""
        K = self.kernel(X, X)
        if not len(self.points):
            return np.empty((0, len(X))), K
        h = solve_lower(self.root, self.kernel(self.points, X))
        return h, K - h.T @ h

    def update(
        self, X: Array, discrepancy: Array, noise_variance: Array
    ) -> tuple[tuple[LinearTerm, ...], KernelProcess]:
        """What observing values at X adds to draws, and the process it leaves.

        Parameters
        ----------
        X : ndarray of shape (p, d)
            Where something is observed.
        discrepancy : ndarray of shape (p, c, s)
            Observed values less those of the draws and of their noise.
        noise_variance : ndarray of shape (p,)
            Of the observations, in the squared units of the outputs.

        Notes
        -----
        O(q^2 p + p^3) time, and O((r + p)^3) for each distinct scale of the outputs.
        """
        c, nugget = len(self.scale), _NUGGET * self.kernel.diag(X)
        # values at P and X: [L 0; hᵀ C] is the root of their prior covariance
        h, K = self._split(X)
        K[np.diag_indices(len(X))] += nugget
        corner = cholesky(K).L
        root = np.block([[self.root, np.zeros(h.shape)], [h.T, corner]])
        shared = len(self.spread) == 1 and np.all(self.scale == self.scale[0])
        shifts, spreads = [], []
        for o in range(1 if shared else c):
            outputs = slice(None) if shared else slice(o, o + 1)
            S = _diagonal(self.spread[o % len(self.spread)], np.eye(len(X)))
            noise = noise_variance / self.scale[o] ** 2 + nugget
            seen = np.concatenate((h, corner.T)).T @ S
            shift, T = _learn(seen, noise, discrepancy[:, outputs])
            shifts.append(np.tensordot(S, shift, 1))
            spreads.append(S @ T)
        moved = np.concatenate(shifts, axis=1)
        weights = solve_lower_transpose(root, moved.reshape(len(root), -1))
        points = np.concatenate((self.points, X))
        terms = section_terms(self.kernel, points, weights.reshape(moved.shape))
        after = self._replace(points=points, root=root, spread=np.stack(spreads))
        return terms, after


def _learn(A: Array, noise: Array, discrepancy: Array) -> tuple[Array, Array]:
    """Observe ``A ξ + ε`` of ``ξ ~ N(0, I)``: shift of a draw of ξ, and root of cov ξ.

    Parameters
    ----------
    A : ndarray of shape (p, r)
    noise : ndarray of shape (p,)
        Variances of ε, positive.
    discrepancy : ndarray of shape (p, c, s)

    Returns
    -------
    shift : ndarray of shape (r, c, s)
        ``Aᵀ (A Aᵀ + N)⁻¹`` discrepancy.
    T : ndarray of shape (r, r)
        ``T Tᵀ = (I + Aᵀ N⁻¹ A)⁻¹``.
    """
    p, c, s = discrepancy.shape
    G = A @ A.T
    G[np.diag_indices(p)] += noise
    solved = cho_solve((cholesky(G).L, True), discrepancy.reshape(p, c * s))
    scaled = A / np.sqrt(noise)[:, np.newaxis]
    precision = np.eye(A.shape[1]) + scaled.T @ scaled
    U = cholesky(precision, jitter=0.0).L
    T = solve_lower_transpose(U, np.eye(len(U)))
    return (A.T @ solved).reshape(-1, c, s), T


def _diagonal(A: Array, B: Array) -> Array:
    """Block-diagonal matrix of two blocks."""
    off = np.zeros((len(A), B.shape[1]))
    return np.block([[A, off], [np.zeros((len(B), A.shape[1])), B]])
