"""Gaussian processes that draws come from, and what observations leave of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag

from skgpx._draws._features import Term, section_terms
from skgpx._draws._functions import FunctionDraws
from skgpx._numerics.linalg import (
    NUGGET,
    cholesky,
    solve_lower,
    solve_lower_transpose,
)
from skgpx._numerics.weights import GaussianWeights

Array = NDArray[np.float64]

# ---- Matheron's rule -----------------------------------------------------------------


def condition(
    prior: FunctionDraws,
    kernel: Any,
    points: Array,
    values: Array | float,
    solve: Callable[[Array], Array],
    combinations: Array | None = None,
) -> FunctionDraws:
    """Matheron's update: draws of the process given linear functionals of it.

    ::

        (f | Aᵀf(Z) = v)(·)  =  f(·) + k(·, Z) A S (v - Aᵀf(Z))
                                ----   ------------------------
                                prior  one more linear term

    Parameters
    ----------
    prior : FunctionDraws
        Draws ``f`` of the unconditioned process.
    kernel : sklearn.gaussian_process.kernels.Kernel
        Its covariance.
    points : ndarray of shape (n, d)
        Where the values are known.
    values : ndarray broadcastable to (m, c, s), or float
        The values (for noisy observations: minus a draw of their noise).
    solve : callable
        ``S``: maps (m, k) to (m, k), the inverse of ``Aᵀ k(Z, Z) A`` plus the variance
        of the noise.
    combinations : ndarray of shape (n, m), default=None
        ``A``; None for the values themselves.

    Returns
    -------
    draws : FunctionDraws
        As many draws as in ``prior``.
    """
    at_points, A = prior.values(points), combinations
    drawn = at_points if A is None else np.tensordot(A.T, at_points, 1)
    weights = solve((values - drawn).reshape(len(drawn), -1))
    weights = (weights if A is None else A @ weights).reshape(at_points.shape)
    return prior.plus(section_terms(kernel, points, weights))


# ---- Roots of covariances of variables, and what observations make of them -----------


class WeightRoot(NamedTuple):
    """Root ``R = [S 0; 0 I] (I - Bᵀ Y)`` of a covariance of variables.

    Attributes
    ----------
    spread : ndarray of shape (m, r)
        ``S``, of the first m variables; nothing is known of the others.
    seen, gain : ndarray of shape (p, q - m + r), default=None
        ``B``, everything that was observed of ``S⁻¹`` times the variables in units of
        the noise, and ``Y``; None before.
    """

    spread: Array
    seen: Array | None = None
    gain: Array | None = None

    def whitened(self, features: Array) -> Array:
        """``features [S 0; 0 I]``: (n, q) to (n, q - m + r)."""
        m = len(self.spread)
        return np.concatenate((features[:, :m] @ self.spread, features[:, m:]), axis=1)

    def times(self, features: Array) -> Array:
        """``features R``: (n, q) to (n, q - m + r)."""
        half = self.whitened(features)
        if self.seen is None or self.gain is None:
            return half
        return half - (half @ self.seen.T) @ self.gain

    @property
    def n_known(self) -> int:
        """Number of variables that something is known of."""
        m, r = self.spread.shape
        return m if self.seen is None else self.seen.shape[1] + m - r

    def dense(self) -> Array:
        """``R`` of the variables that something is known of."""
        return self.times(np.eye(self.n_known))

    def observe(
        self, features: Array, noise: Array, discrepancy: Array
    ) -> tuple[Array, WeightRoot]:
        """Observe ``features v + ε`` of the variables v, ε of variances `noise`.

        With everything observed so far, ``B ξ`` of ``ξ ~ N(0, I)`` in units of the
        noise, and ``L Lᵀ = I + B Bᵀ``, whose eigenvalues are at least one, ``I - Bᵀ
        Y``, ``Y = L⁻ᵀ (L + I)⁻¹ B``, is a root of the covariance ``(I + Bᵀ B)⁻¹`` of
        what is left of ξ [1]_.

        Parameters
        ----------
        features : ndarray of shape (p, q)
        noise : ndarray of shape (p,)
            Positive.
        discrepancy : ndarray of shape (p, k)
            Observed values less those of draws of v.

        Returns
        -------
        moved : ndarray of shape (q, k)
            What is added to the draws.
        root : WeightRoot
            Of the covariance that is left.

        References
        ----------
        .. [1] Andrews, "A square root formulation of the Kalman covariance equations",
           AIAA Journal, 1968.
        """
        std = np.sqrt(noise)[:, np.newaxis]
        B = self.whitened(features) / std
        B = B if self.seen is None else np.concatenate((self.seen, B))
        unit = np.eye(len(B))
        L = cholesky(unit + B @ B.T, jitter=0.0).L
        Y = solve_lower_transpose(L, solve_lower(L + unit, B))
        # draws agree with what was observed before: zeros
        values = np.zeros((len(B), discrepancy.shape[1]))
        values[len(B) - len(noise) :] = discrepancy / std
        # [S 0; 0 I] Bᵀ (B Bᵀ + I)⁻¹ (y - f)
        shift = B.T @ solve_lower_transpose(L, solve_lower(L, values))
        r = self.spread.shape[1]
        moved = np.concatenate((self.spread @ shift[:r], shift[r:]))
        return moved, self._replace(seen=B, gain=Y)


def observe(
    roots: tuple[WeightRoot, ...],
    features: Array,
    scale: Array,
    discrepancy: Array,
    noise_variance: Array,
    nugget: Array,
) -> tuple[Array, tuple[WeightRoot, ...]]:
    """Observe ``features v + ε`` for each output, see :meth:`WeightRoot.observe`.

    `roots` are those of the covariances of v, one for each output or one for all, and
    `scale` (c,) the units of the outputs. The discrepancy (p, c, s) and the variance of
    the noise are in these units, the nugget is in those of v. Returns what is added to
    draws of v, (q, c, s), in the units of the outputs.
    """
    (p, c, s), q = discrepancy.shape, features.shape[1]
    if len(roots) == 1 and np.all(scale == scale[0]):
        noise = noise_variance / scale[0] ** 2 + nugget
        moved, after = roots[0].observe(features, noise, discrepancy.reshape(p, -1))
        return moved.reshape(q, c, s), (after,)
    found = [
        roots[o % len(roots)].observe(
            features, noise_variance / scale[o] ** 2 + nugget, discrepancy[:, o]
        )
        for o in range(c)
    ]
    return np.stack([moved for moved, _ in found], 1), tuple(left for _, left in found)


# ---- Processes of drawn functions, and their conditioning ----------------------------


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
            combinations = block_diag(combinations, np.eye(len(X)))
        points = np.concatenate((self.points, X))
        after = KernelProcess(
            self.kernel, points, root, spread, self.scale, combinations
        )
        return moved, after

    def update(
        self, X: Array, discrepancy: Array, noise_variance: Array
    ) -> tuple[FunctionDraws, KernelProcess]:
        """What observing values at X adds to draws, and the process it leaves.

        O(q p (q + r) + p^3) time, for each output with its own covariance or scale.
        """
        moved, after = self.learn(X, discrepancy, noise_variance)
        weights = solve_lower_transpose(after.root, moved.reshape(len(moved), -1))
        if after.combinations is not None:
            weights = after.combinations @ weights
        c, s = moved.shape[1:]
        weights = weights.reshape(len(after.points), c, s)
        terms = section_terms(self.kernel, after.points, weights)
        return FunctionDraws(terms, c, s), after


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
    ) -> tuple[FunctionDraws, FiniteProcess]:
        """What observing values at X adds to draws, and the process it leaves.

        O(q p (p + p') + p^3) time for p rows after p' others, and O(q p) memory.
        """
        moved, after = self.learn(X, discrepancy, noise_variance)
        return FunctionDraws(self.basis.all_terms(moved), *moved.shape[1:]), after
