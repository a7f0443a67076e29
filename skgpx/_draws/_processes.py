"""Laws of drawn functions as Gaussian processes, and their conditioning."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from skgpx._draws._sections import section_terms
from skgpx._draws._terms import Term
from skgpx._numerics.linalg import (
    NUGGET,
    block_diagonal,
    cholesky,
    solve_lower,
    solve_lower_transpose,
)

Array = NDArray[np.float64]


class Process(Protocol):
    """Covariance of the Gaussian process that draws come from."""

    def scaled(self, factor: Array) -> Process:
        """Process of the functions times a factor for each output, shape (c,)."""

    def covariance(self, X: Array, output: int = 0) -> Array:
        """Covariance of one output between the rows of X, (n, n)."""

    def learn(
        self, X: Array, discrepancy: Array, noise_variance: Array
    ) -> tuple[Array, Process]:
        """What observing values at X adds to whitened variables, and what it leaves."""

    def update(
        self, X: Array, discrepancy: Array, noise_variance: Array
    ) -> tuple[tuple[Term, ...], Process]:
        """What observing values at X adds to draws, and the process it leaves.

        Parameters
        ----------
        X : ndarray of shape (p, d)
            Where something is observed.
        discrepancy : ndarray of shape (p, c, s)
            Observed values less those of the draws and of their noise.
        noise_variance : ndarray of shape (p,)
            Of the observations, in the squared units of the outputs.
        """


class KernelProcess(NamedTuple):
    """Process with a kernel, given data or inducing variables.

    ::

        cov(f(x), f(y)) = scale² (k(x, y) - h(x)ᵀ (I - S Sᵀ) h(y))
        h = L⁻¹ Aᵀ k(P, ·)

    This is the form of a prior (no points), of a Gaussian process given data (``A =
    I``, ``L Lᵀ`` the covariance of the noisy data, S empty), of one whose combinations
    ``u = Aᵀ f(P)`` have another law (``L Lᵀ`` their prior covariance, S a root of the
    covariance of ``L⁻¹u``), and of all these after further conditioning. ``L Lᵀ`` is
    never inverted: with little noise the inverse would be inaccurate.

    Attributes
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Prior covariance ``k``, without observation noise.
    points : ndarray of shape (n, d)
        ``P``.
    root : ndarray of shape (q, q)
        ``L``.
    spread : ndarray of shape (g, q, r)
        ``S``, for each output or (g = 1) for all.
    scale : ndarray of shape (c,)
        Units of the outputs.
    combinations : ndarray of shape (n, q), default=None
        ``A``; None for the values themselves.
    """

    kernel: Any
    points: Array
    root: Array
    spread: Array
    scale: Array
    combinations: Array | None = None

    @classmethod
    def prior(cls, kernel: Any, n_features: int, n_outputs: int) -> KernelProcess:
        """Process about which nothing has been observed."""
        nothing, ones = np.empty((0, n_features)), np.ones(n_outputs)
        return cls(kernel, nothing, np.empty((0, 0)), np.empty((1, 0, 0)), ones)

    def scaled(self, factor: Array) -> KernelProcess:
        """Process of the functions times a factor for each output."""
        return self._replace(scale=self.scale * np.abs(factor))

    def covariance(self, X: Array, output: int = 0) -> Array:
        """Covariance of one output between the rows of X, (n, n)."""
        h, residual = self._split(X)
        half = self.spread[output % len(self.spread)].T @ h
        covariance: Array = self.scale[output] ** 2 * (residual + half.T @ half)
        return covariance

    def _split(self, X: Array) -> tuple[Array, Array]:
        """h(X) (q, n), and the remaining covariance (n, n)."""
        K = self.kernel(X, X)
        if not len(self.points):
            return np.empty((0, len(X))), K
        sections = self.kernel(self.points, X)
        if self.combinations is not None:
            sections = self.combinations.T @ sections
        h = solve_lower(self.root, sections)
        return h, K - h.T @ h

    def nugget(self, X: Array) -> Array:
        """Smallest noise variance of observations at the rows of X, shape (n,)."""
        nugget: Array = NUGGET * self.kernel.diag(X)
        return nugget

    def learn(
        self, X: Array, discrepancy: Array, noise_variance: Array
    ) -> tuple[Array, KernelProcess]:
        """What observing values at X adds to whitened variables, and what it leaves.

        The values become variables too, after the existing ones. Parameters as in
        :meth:`update`; the array (q + p, c, s) is in the units of the outputs.
        """
        # [L 0; hᵀ C] is the root with the new variables
        h, K = self._split(X)
        nugget = self.nugget(X)
        K[np.diag_indices(len(X))] += nugget
        corner, new = cholesky(K).L, np.eye(len(X))
        root = np.block([[self.root, np.zeros(h.shape)], [h.T, corner]])
        moved, spread = observe(
            [block_diagonal(S, new) for S in self.spread],
            np.concatenate((h, corner.T)).T,
            self.scale,
            discrepancy,
            noise_variance,
            nugget,
        )
        combinations = self.combinations
        if combinations is not None:
            combinations = block_diagonal(combinations, new)
        points = np.concatenate((self.points, X))
        after = KernelProcess(
            self.kernel, points, root, spread, self.scale, combinations
        )
        return moved, after

    def update(
        self, X: Array, discrepancy: Array, noise_variance: Array
    ) -> tuple[tuple[Term, ...], KernelProcess]:
        """What observing values at X adds to draws, and the process it leaves.

        O(q^2 p + p^3 + q p r) time, once for each distinct scale of the outputs.
        """
        moved, after = self.learn(X, discrepancy, noise_variance)
        weights = solve_lower_transpose(after.root, moved.reshape(len(moved), -1))
        if after.combinations is not None:
            weights = after.combinations @ weights
        shape = (len(after.points), *moved.shape[1:])
        terms = section_terms(self.kernel, after.points, weights.reshape(shape))
        return terms, after


class FiniteBasis(Protocol):
    """Finitely many functions of which draws are linear combinations."""

    def all_features(self, X: Array) -> Array:
        """Values of all functions at the rows of X, shape (n, q)."""

    def all_terms(self, weights: Array) -> tuple[Term, ...]:
        """Terms of the functions with these weights (q, c, s)."""


class FiniteProcess(NamedTuple):
    """Process of finitely many functions with normal weights.

    ::

        cov(f(x), f(y)) = scale² φ(x)ᵀ [S Sᵀ 0; 0 I] φ(y)

    Attributes
    ----------
    basis : FiniteBasis
        ``φ``, q functions.
    spread : ndarray of shape (g, m, r)
        ``S``: root of the covariance of the first m <= q weights, for each output or
        (g = 1) for all. The others have their prior law N(0, I).
    scale : ndarray of shape (c,)
        Units of the outputs.
    """

    basis: Any
    spread: Array
    scale: Array

    def scaled(self, factor: Array) -> FiniteProcess:
        """Process of the functions times a factor for each output."""
        return self._replace(scale=self.scale * np.abs(factor))

    def covariance(self, X: Array, output: int = 0) -> Array:
        """Covariance of one output between the rows of X, (n, n)."""
        features = self.basis.all_features(X)
        S = self.spread[output % len(self.spread)]
        known, rest = features[:, : len(S)] @ S, features[:, len(S) :]
        covariance: Array = self.scale[output] ** 2 * (known @ known.T + rest @ rest.T)
        return covariance

    def learn(
        self, X: Array, discrepancy: Array, noise_variance: Array
    ) -> tuple[Array, FiniteProcess]:
        """What observing values at X adds to the weights (q, c, s), and what it leaves.

        Parameters as in :meth:`update`.
        """
        features = self.basis.all_features(X)
        rest = np.eye(features.shape[1] - self.spread.shape[1])
        moved, spread = observe(
            [block_diagonal(S, rest) for S in self.spread],
            features,
            self.scale,
            discrepancy,
            noise_variance,
            NUGGET * np.einsum("pq,pq->p", features, features),
        )
        return moved, self._replace(spread=spread)

    def update(
        self, X: Array, discrepancy: Array, noise_variance: Array
    ) -> tuple[tuple[Term, ...], FiniteProcess]:
        """What observing values at X adds to draws, and the process it leaves.

        O(q^2 p + p^3) time and O(q^2) memory.
        """
        moved, after = self.learn(X, discrepancy, noise_variance)
        return self.basis.all_terms(moved), after


def observe(
    spreads: list[Array],
    seen: Array,
    scale: Array,
    discrepancy: Array,
    noise_variance: Array,
    nugget: Array,
) -> tuple[Array, Array]:
    """Observe ``seen v + ε`` of variables v with covariances ``S Sᵀ``.

    Parameters
    ----------
    spreads : list of ndarray of shape (q, r)
        ``S``, one for each output or one for all.
    seen : ndarray of shape (p, q)
    scale : ndarray of shape (c,)
        Units of the outputs.
    discrepancy : ndarray of shape (p, c, s)
        In the units of the outputs.
    noise_variance, nugget : ndarray of shape (p,)
        In the squared units of the outputs, and of v; their sum is positive.

    Returns
    -------
    moved : ndarray of shape (q, c, s)
        Change of the draws of v, in the units of the outputs.
    spread : ndarray of shape (1 or c, q, r)
        Roots of the conditional covariances.
    """
    shared = len(spreads) == 1 and bool(np.all(scale == scale[0]))
    moves, after = [], []
    for o in range(1 if shared else len(scale)):
        S, outputs = (
            spreads[o % len(spreads)],
            slice(None) if shared else slice(o, o + 1),
        )
        noise = noise_variance / scale[o] ** 2 + nugget
        learn = _learn(seen @ S, noise)
        moves.append(np.tensordot(S, learn.shift(discrepancy[:, outputs]), 1))
        after.append(S - (S @ learn.B.T) @ learn.Y)
    return np.concatenate(moves, axis=1), np.stack(after)


class _Lesson(NamedTuple):
    """Conditional law of ``ξ ~ N(0, I)`` given ``A ξ + ε``."""

    B: Array
    Y: Array
    L: Array
    std: Array

    def shift(self, discrepancy: Array) -> Array:
        """``Aᵀ (A Aᵀ + N)⁻¹`` discrepancy: (p, c, s) to (r, c, s)."""
        p, c, s = discrepancy.shape
        scaled = discrepancy.reshape(p, c * s) / self.std[:, np.newaxis]
        solved = solve_lower_transpose(self.L, solve_lower(self.L, scaled))
        return (self.B.T @ solved).reshape(-1, c, s)


def _learn(A: Array, noise: Array) -> _Lesson:
    """Observe ``A ξ + ε``, ε of variances ``noise`` (p,).

    With ``B = N^(-1/2) A`` and ``L Lᵀ = I + B Bᵀ``, whose eigenvalues are at least one,
    ``T = I - Bᵀ Y``, ``Y = L⁻ᵀ (L + I)⁻¹ B``, is a root of the conditional covariance
    ``(I + Bᵀ B)⁻¹`` [1]_.

    References
    ----------
    .. [1] Andrews, "A square root formulation of the Kalman covariance equations",
       AIAA Journal, 1968.
    """
    std = np.sqrt(noise)
    B = A / std[:, np.newaxis]
    unit = np.eye(len(B))
    L = cholesky(unit + B @ B.T, jitter=0.0).L
    Y = solve_lower_transpose(L, solve_lower(L + unit, B))
    return _Lesson(B, Y, L, std)
