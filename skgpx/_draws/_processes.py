"""Gaussian processes that draws come from, and what observations leave of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag

from skgpx._draws._features import Term, section_terms
from skgpx._draws._functions import FunctionDraws, Process
from skgpx._draws._mapped import InputMap
from skgpx._numerics.linalg import (
    NUGGET,
    cholesky,
    solve_lower,
    solve_lower_transpose,
)
from skgpx._numerics.weights import GaussianWeights

Array = NDArray[np.float64]

# ---- Roots of covariances of variables, and what observations make of them -----------


# What was observed of variables ``v = [S 0; 0 I] ξ``, ``ξ ~ N(0, I)``: ``B`` (p, q), in
# units of the noise, and ``Y`` (p, q), with ``I - Bᵀ Y`` a root of what is left of ξ.
Seen = tuple[Array, Array]


def whitened(spread: Array, features: Array) -> Array:
    """``features [S 0; 0 I]``: (n, q) to (n, q - m + r) with S (m, r)."""
    m = len(spread)
    return np.concatenate((features[:, :m] @ spread, features[:, m:]), axis=1)


def times_root(spread: Array, seen: Seen | None, features: Array) -> Array:
    """``features R`` with the root ``R = [S 0; 0 I] (I - Bᵀ Y)`` of the covariance."""
    half = whitened(spread, features)
    if seen is None:
        return half
    B, Y = seen
    return half - (half @ B.T) @ Y


def observe(
    spread: Array,
    seen: tuple[Seen, ...],
    features: Array,
    scale: Array,
    discrepancy: Array,
    noise: Array,
) -> tuple[Array, tuple[Seen, ...]]:
    """Observe ``features v + ε`` of the variables v of each output.

    With everything observed so far, ``B ξ`` of ``ξ ~ N(0, I)`` in units of the noise,
    and ``L Lᵀ = I + B Bᵀ``, whose eigenvalues are at least one, ``I - Bᵀ Y``, ``Y = L⁻ᵀ
    (L + I)⁻¹ B``, is a root of the covariance ``(I + Bᵀ B)⁻¹`` of what is left of ξ
    [1]_.

    Parameters
    ----------
    spread : ndarray of shape (g, m, r)
        ``S``, of the first m variables, for each output or (g = 1) for all; nothing is
        known of the others.
    seen : tuple of Seen
        What was observed before, of each output or all; empty for nothing.
    features : ndarray of shape (p, q)
    scale : ndarray of shape (c,)
        Units of the outputs.
    discrepancy : ndarray of shape (p, c, s)
        Observed values less those of draws, in these units.
    noise : ndarray of shape (c, p)
        Variances of ε in the units of v, positive.

    Returns
    -------
    moved : ndarray of shape (q, c, s)
        What is added to draws of v, in the units of the outputs.
    seen : tuple of Seen

    References
    ----------
    .. [1] Andrews, "A square root formulation of the Kalman covariance equations",
       AIAA Journal, 1968.
    """
    (p, c, s), q = discrepancy.shape, features.shape[1]
    together = len(spread) == 1 and len(seen) < 2 and np.all(scale == scale[0])
    flat = discrepancy.reshape(p, -1)
    all_moved, all_seen = [], []
    for o, values in enumerate([flat] if together else np.split(flat, c, axis=1)):
        S, std = spread[o % len(spread)], np.sqrt(noise[o])[:, np.newaxis]
        B = whitened(S, features) / std
        B = np.concatenate((seen[o % len(seen)][0], B)) if seen else B
        unit = np.eye(len(B))
        L = cholesky(unit + B @ B.T, jitter=0.0).L
        Y = solve_lower_transpose(L, solve_lower(L + unit, B))
        # draws agree with what was observed before: zeros
        errors = np.zeros((len(B), values.shape[1]))
        errors[len(B) - p :] = values / std
        # [S 0; 0 I] Bᵀ (B Bᵀ + I)⁻¹ (y - f)
        shift = B.T @ solve_lower_transpose(L, solve_lower(L, errors))
        r = S.shape[1]
        all_moved.append(np.concatenate((S @ shift[:r], shift[r:])))
        all_seen.append((B, Y))
    return np.concatenate(all_moved, axis=1).reshape(q, c, s), tuple(all_seen)


# ---- Processes of drawn functions, and their conditioning ----------------------------


@dataclass(frozen=True)
class KernelProcess(Process):
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
    maps : tuple of InputMap, default=()
        Of the inputs; the points are mapped rows.
    """

    kernel: Any
    points: Array
    root: Array
    spread: Array
    scale: Array
    combinations: Array | None = None
    maps: tuple[InputMap, ...] = ()

    @classmethod
    def prior(cls, kernel: Any, n_features: int, n_outputs: int) -> KernelProcess:
        """Process about which nothing has been observed."""
        nothing, ones = np.empty((0, n_features)), np.ones(n_outputs)
        return cls(kernel, nothing, np.empty((0, 0)), np.empty((1, 0, 0)), ones)

    def covariance(self, X: Array, output: int = 0) -> Array:
        """Covariance of one output between the rows of X, (n, n)."""
        h, residual = self._split(self.mapped(X))
        half = self.spread[output % len(self.spread)].T @ h
        return self.scale[output] ** 2 * (residual + half.T @ half)

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
        """Smallest noise variance of observations at the rows of X, shape (n,).

        Never zero, as the variance of a linear kernel is at the origin.
        """
        variances = self.kernel.diag(X)
        largest = float(np.max(variances, initial=0.0)) or 1.0
        least: Array = NUGGET * np.maximum(variances, NUGGET * largest)
        return least

    def extended(self, X: Array) -> Self:
        """Process with the values at mapped rows X as variables, after the others."""
        # [L 0; hᵀ C] is the root with the new variables
        h, K = self._split(X)
        K[np.diag_indices(len(X))] += self.nugget(X)
        corner, A = cholesky(K).L, self.combinations
        return replace(
            self,
            points=np.concatenate((self.points, X)),
            root=np.block([[self.root, np.zeros(h.shape)], [h.T, corner]]),
            combinations=None if A is None else block_diag(A, np.eye(len(X))),
        )

    def learn(
        self,
        X: Array,
        discrepancy: Array,
        noise_variance: Array,
        white: float = 0.0,
    ) -> tuple[Array, Self]:
        """What observing values at X adds to whitened variables, and what it leaves.

        The values become variables too, after the existing ones. O(q p (q + r) + p^3)
        time, for each output with its own covariance or scale.
        """
        X = self.mapped(X)
        after, nugget = self.extended(X), self.nugget(X) + white
        features = after.root[len(self.root) :]
        noise = noise_variance / self.scale[:, np.newaxis] ** 2 + nugget
        how = self.spread, (), features, self.scale, discrepancy, noise
        moved, seen = observe(*how)
        unit, g = np.eye(len(moved)), len(self.spread)
        spread = [
            times_root(self.spread[o % g], one, unit) for o, one in enumerate(seen)
        ]
        return moved, replace(after, spread=np.stack(spread))

    def condition(self, prior: FunctionDraws, values: Array | float) -> FunctionDraws:
        """Matheron's update: draws of the process given its variables.

        ::

            (f | Aᵀf(P) = v)(·)  =  f(·) + k(·, P) A (L Lᵀ)⁻¹ (v - Aᵀf(P))
                                    ----   -------------------------------
                                    prior  one more linear term

        Parameters
        ----------
        prior : FunctionDraws
            Draws ``f`` of the unconditioned process.
        values : ndarray broadcastable to (q, c, s), or float
            The values (for noisy observations: minus a draw of their noise).

        Returns
        -------
        draws : FunctionDraws
            As many draws as in ``prior``.
        """
        drawn = prior.values(self.points)
        if self.combinations is not None:
            drawn = np.tensordot(self.combinations.T, drawn, 1)
        left = values - drawn
        white = solve_lower(self.root, left.reshape(len(left), -1))
        return prior.plus(self.terms(white.reshape(left.shape)))

    def terms(self, moved: Array) -> tuple[Term, ...]:
        """Functions of the mapped inputs with these whitened variables (q, c, s)."""
        weights = solve_lower_transpose(self.root, moved.reshape(len(moved), -1))
        if self.combinations is not None:
            weights = self.combinations @ weights
        weights = weights.reshape(len(self.points), *moved.shape[1:])
        return section_terms(self.kernel, self.points, weights)


@dataclass(frozen=True)
class FiniteProcess(Process):
    """Process of finitely many functions with normal weights.

    ::

        cov(f(x), f(y)) = scale² φ(x)ᵀ R Rᵀ φ(y)

    Attributes
    ----------
    basis : object
        ``φ``, q functions: its methods ``all_features(X)``, their values (n, q), and
        ``all_terms(weights)``, the terms of functions with these weights (q, c, s).
    known : ndarray of shape (g, m, r)
        Root of the covariance of the first m weights a priori, for each output or (g =
        1) for all; the others are N(0, I).
    scale : ndarray of shape (c,)
        Units of the outputs.
    seen : tuple of Seen, default=()
        What was observed, see :func:`observe`: ``R`` in factors.
    maps : tuple of InputMap, default=()
        Of the inputs.
    """

    basis: Any
    known: Array
    scale: Array
    seen: tuple[Seen, ...] = ()
    maps: tuple[InputMap, ...] = ()

    @classmethod
    def of_weights(cls, basis: Any, weights: GaussianWeights) -> FiniteProcess:
        """Process of a distribution of the first weights; the others are N(0, I)."""
        mean, spread = weights.moments()
        return cls(basis, spread, np.ones(mean.shape[1]))

    def _times_root(self, features: Array, output: int) -> Array:
        seen = self.seen[output % len(self.seen)] if self.seen else None
        return times_root(self.known[output % len(self.known)], seen, features)

    def covariance(self, X: Array, output: int = 0) -> Array:
        """Covariance of one output between the rows of X, (n, n)."""
        half = self._times_root(self.basis.all_features(self.mapped(X)), output)
        return self.scale[output] ** 2 * (half @ half.T)

    @property
    def n_known(self) -> int:
        """Number of weights of which something is known."""
        _, m, r = self.known.shape
        return self.seen[0][0].shape[1] + m - r if self.seen else m

    @property
    def spread(self) -> Array:
        """``R`` of the weights of which something is known, dense: (g, m, r).

        Of those of the distribution, or of all after something was observed.
        """
        unit, g = np.eye(self.n_known), max(len(self.known), len(self.seen))
        return np.stack([self._times_root(unit, o) for o in range(g)])

    def learn(
        self,
        X: Array,
        discrepancy: Array,
        noise_variance: Array,
        white: float = 0.0,
    ) -> tuple[Array, Self]:
        """What observing values at X adds to the weights (q, c, s), and what it leaves.

        O(q p (p + p') + p^3) time for p rows after p' others, and O(q p) memory.
        """
        features = self.basis.all_features(self.mapped(X))
        nugget = white + NUGGET * np.einsum("pq,pq->p", features, features)
        noise = noise_variance / self.scale[:, np.newaxis] ** 2 + nugget
        how = self.known, self.seen, features, self.scale, discrepancy, noise
        moved, seen = observe(*how)
        return moved, replace(self, seen=seen)

    def terms(self, moved: Array) -> tuple[Term, ...]:
        """Functions of the mapped inputs with these weights (q, c, s)."""
        return self.basis.all_terms(moved)
