"""Gaussian processes that draws come from, and what observations leave of them."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from skgpx._draws._features import Term, section_terms
from skgpx._numerics.linalg import (
    NUGGET,
    block_diagonal,
    cholesky,
    solve_lower,
    solve_lower_transpose,
)
from skgpx._numerics.weights import GaussianWeights

# ---- Roots of covariances of variables, and what observations make of them -----------


Array = NDArray[np.float64]


class WeightRoot(NamedTuple):
    """Root ``[S 0; 0 I] (I - B₁ᵀY₁) (I - B₂ᵀY₂) ...`` of a covariance of variables.

    Attributes
    ----------
    spread : ndarray of shape (m, r)
        ``S``, of the first m variables; nothing is known of the others.
    learned : tuple of (ndarray, ndarray) of shape (p, ·)
        B and Y of each set of observations. What is wider than they are is not
        changed by them.
    """

    spread: Array
    learned: tuple[tuple[Array, Array], ...] = ()

    def times(self, features: Array) -> Array:
        """``features R``: (n, q) to (n, q - m + r)."""
        m = len(self.spread)
        product = np.concatenate((features[:, :m] @ self.spread, features[:, m:]), 1)
        for B, Y in self.learned:
            seen = product[:, : B.shape[1]]
            seen -= (seen @ B.T) @ Y
        return product

    def apply(self, shift: Array) -> Array:
        """``R shift``: (q - m + r, k) to (q, k)."""
        for B, Y in reversed(self.learned):
            seen = shift[: B.shape[1]]
            shift = np.concatenate((seen - B.T @ (Y @ seen), shift[len(seen) :]))
        r = self.spread.shape[1]
        return np.concatenate((self.spread @ shift[:r], shift[r:]))

    @property
    def n_known(self) -> int:
        """Number of variables that something is known of."""
        m, r = self.spread.shape
        return self.learned[-1][0].shape[1] + m - r if self.learned else m

    def dense(self) -> Array:
        """``R`` of the variables that something is known of."""
        return self.times(np.eye(self.n_known)) if self.learned else self.spread

    def after(self, A: Array, noise: Array) -> tuple[WeightRoot, Array, Array]:
        """Root after ``A ξ + ε`` was observed, ξ ~ N(0, I) and ε of variances `noise`.

        With ``B = N^(-1/2) A`` and ``L Lᵀ = I + B Bᵀ``, whose eigenvalues are at least
        one, ``I - Bᵀ Y``, ``Y = L⁻ᵀ (L + I)⁻¹ B``, is a root of the covariance ``(I +
        Bᵀ B)⁻¹`` of what is left of ξ [1]_. Returns B and L, too.

        References
        ----------
        .. [1] Andrews, "A square root formulation of the Kalman covariance equations",
           AIAA Journal, 1968.
        """
        B, unit = A / np.sqrt(noise)[:, np.newaxis], np.eye(len(A))
        L = cholesky(unit + B @ B.T, jitter=0.0).L
        Y = solve_lower_transpose(L, solve_lower(L + unit, B))
        return self._replace(learned=(*self.learned, (B, Y))), B, L


def observe(
    roots: tuple[WeightRoot, ...],
    seen: Array,
    scale: Array,
    discrepancy: Array,
    noise_variance: Array,
    nugget: Array,
) -> tuple[Array, tuple[WeightRoot, ...]]:
    """Observe ``seen v + ε`` of variables v with covariances ``R Rᵀ``.

    Parameters
    ----------
    roots : tuple of WeightRoot
        ``R``, one for each output or one for all.
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
        What is added to draws of v, in the units of the outputs.
    roots : tuple of WeightRoot
        Of the covariances that are left.
    """
    p, _, s = discrepancy.shape
    shared = len(roots) == 1 and bool(np.all(scale == scale[0]))
    moves, left = [], []
    for o in range(1 if shared else len(scale)):
        root, noise = roots[o % len(roots)], noise_variance / scale[o] ** 2 + nugget
        outputs = discrepancy if shared else discrepancy[:, o : o + 1]
        after, B, L = root.after(root.times(seen), noise)
        # R Aᵀ (A Aᵀ + N)⁻¹ (y - f)
        scaled = outputs.reshape(p, -1) / np.sqrt(noise)[:, np.newaxis]
        solved = solve_lower_transpose(L, solve_lower(L, scaled))
        moves.append(root.apply(B.T @ solved).reshape(seen.shape[1], -1, s))
        left.append(after)
    return np.concatenate(moves, axis=1), tuple(left)


# ---- Processes of drawn functions, and their conditioning ----------------------------


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
    ``u = Aᵀ f(P)`` have another distribution (``L Lᵀ`` their prior covariance, S a root
    of the covariance of ``L⁻¹u``), and of all these after further conditioning.
    ``L Lᵀ`` is never inverted: with little noise the inverse would be inaccurate.

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
        self, X: Array, discrepancy: Array, noise_variance: Array, white: float = 0.0
    ) -> tuple[Array, KernelProcess]:
        """What observing values at X adds to whitened variables, and what it leaves.

        The values become variables too, after the existing ones. Parameters as in
        :meth:`update`, and the variance of noise in units of the whitened process; the
        array (q + p, c, s) is in the units of the outputs.
        """
        # [L 0; hᵀ C] is the root with the new variables
        h, K = self._split(X)
        nugget = self.nugget(X)
        K[np.diag_indices(len(X))] += nugget
        corner = cholesky(K).L
        root = np.block([[self.root, np.zeros(h.shape)], [h.T, corner]])
        moved, roots = observe(
            tuple(WeightRoot(S) for S in self.spread),
            np.concatenate((h, corner.T)).T,
            self.scale,
            discrepancy,
            noise_variance,
            nugget + white,
        )
        spread = np.stack([one.dense() for one in roots])
        combinations = self.combinations
        if combinations is not None:
            combinations = block_diagonal(combinations, np.eye(len(X)))
        points = np.concatenate((self.points, X))
        after = KernelProcess(
            self.kernel, points, root, spread, self.scale, combinations
        )
        return moved, after

    def update(
        self, X: Array, discrepancy: Array, noise_variance: Array
    ) -> tuple[tuple[Term, ...], KernelProcess]:
        """What observing values at X adds to draws, and the process it leaves.

        O(q p (q + r) + p^3) time, for each output with its own covariance or scale.
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

        cov(f(x), f(y)) = scale² φ(x)ᵀ R Rᵀ φ(y)

    Attributes
    ----------
    basis : FiniteBasis
        ``φ``, q functions.
    roots : tuple of WeightRoot
        ``R``, for each output or one for all.
    scale : ndarray of shape (c,)
        Units of the outputs.
    """

    basis: FiniteBasis
    roots: tuple[WeightRoot, ...]
    scale: Array

    @classmethod
    def of_weights(cls, basis: FiniteBasis, weights: GaussianWeights) -> FiniteProcess:
        """Process of a distribution of the first weights; the others are N(0, I)."""
        mean, spread = weights.moments()
        return cls(basis, tuple(map(WeightRoot, spread)), np.ones(mean.shape[1]))

    def scaled(self, factor: Array) -> FiniteProcess:
        """Process of the functions times a factor for each output."""
        return self._replace(scale=self.scale * np.abs(factor))

    def covariance(self, X: Array, output: int = 0) -> Array:
        """Covariance of one output between the rows of X, (n, n)."""
        root = self.roots[output % len(self.roots)]
        half = root.times(self.basis.all_features(X))
        covariance: Array = self.scale[output] ** 2 * (half @ half.T)
        return covariance

    @property
    def spread(self) -> Array:
        """``R`` of the weights of which something is known, dense: (g, m, r).

        Of those of the distribution, or of all after something was observed.
        """
        return np.stack([root.dense() for root in self.roots])

    def learn(
        self, X: Array, discrepancy: Array, noise_variance: Array, white: float = 0.0
    ) -> tuple[Array, FiniteProcess]:
        """What observing values at X adds to the weights (q, c, s), and what it leaves.

        Parameters as in :meth:`KernelProcess.learn`.
        """
        features = self.basis.all_features(X)
        nugget = white + NUGGET * np.einsum("pq,pq->p", features, features)
        moved, roots = observe(
            self.roots, features, self.scale, discrepancy, noise_variance, nugget
        )
        return moved, self._replace(roots=roots)

    def update(
        self, X: Array, discrepancy: Array, noise_variance: Array
    ) -> tuple[tuple[Term, ...], FiniteProcess]:
        """What observing values at X adds to draws, and the process it leaves.

        O(q p (p + p') + p^3) time for p rows after p' others, and O(q p) memory.
        """
        moved, after = self.learn(X, discrepancy, noise_variance)
        return self.basis.all_terms(moved), after
