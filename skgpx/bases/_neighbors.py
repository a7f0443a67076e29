"""Inducing points, and the residual by nearest rows: Vecchia's approximation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import KDTree
from scipy.spatial.distance import cdist

from skgpx._draws import (
    Conditioning,
    FunctionDraws,
    LinearTerm,
    draw_prior,
    section_terms,
)
from skgpx._numerics.linalg import solve_lower, solve_lower_transpose
from skgpx._numerics.nearest import predecessors, solve_local
from skgpx._numerics.weights import GaussianWeights
from skgpx.bases._basis import Marginals
from skgpx.kernels import (
    decaying_part,
    kernel_matrix,
    length_scales,
    matrix_and_input_pullback,
    stacked_triangles,
)

Array = NDArray[np.float64]
Index = NDArray[np.intp]

# Numbers in memory for the neighbours of a block of rows, which has at most so many.
_NUMBERS, _ROWS = 2**22, 256


@dataclass(frozen=True)
class NeighborBasis:
    """Inducing points, and the residual at a row given its nearest rows of the data.

    The data are values ``y_i = f(x_i) + ε_i``. With ``f = φᵀw + g`` of a kernel basis,
    g at x given the N nearest rows alone is::

        f(x) = φ(x)ᵀ w + b(x)ᵀ (y - Φw)_N + h(x),    b = (R_NN + Σ_N)⁻¹ R_N(x)
             = [φ(x) - Φ_Nᵀ b(x), b(x)ᵀ y_N]ᵀ [w, 1] + h(x)

    where ``R`` is the covariance of the residual g, Σ that of ε, and h, with what is
    left of the variance of g, is independent of the data. The functions of this basis
    are those in brackets: M of the inducing points and one that is known, whose weight
    is one.

    Parameters
    ----------
    inner : Nystroem
        ``φ``, of M functions.
    rows : ndarray of shape (n, d)
    y : ndarray of shape (n,)
    noise : ndarray of shape (n,)
        Variances of ε.
    features : ndarray of shape (n, M)
        ``Φ``.
    n_neighbors : int
        Number of nearest rows, in units of the lengthscales of the kernel: of its terms
        that fade with the distance, if there are any.

    References
    ----------
    .. [1] Vecchia, "Estimation and model identification for continuous spatial
       processes", JRSS B, 1988.
    .. [2] Gyger, Furrer and Sigrist, "Vecchia-inducing-points full-scale approximations
       for Gaussian processes", 2025.
    """

    inner: Any
    rows: Array
    y: Array
    noise: Array
    features: Array
    n_neighbors: int

    @property
    def kernel(self) -> Any:
        """Prior covariance of f."""
        return self.inner.kernel

    @property
    def inducing_points(self) -> Array:
        """Points of the inner basis, (M, d)."""
        return self.inner.inducing_points

    @property
    def n_basis(self) -> int:
        """Number of functions, M + 1."""
        return self.inner.n_basis + 1

    @property
    def floats_per_row(self) -> int:
        """Numbers in memory for the features of one row."""
        return self.inner.floats_per_row + 4 * self.n_neighbors

    @property
    def white_variance(self) -> float:
        """Part of the residual that is independent between all rows: none."""
        return 0.0

    # ---- Nearest rows ------------------------------------------------------------

    @cached_property
    def _length_scales(self) -> Array:
        d = self.rows.shape[1]
        part = decaying_part(self.kernel, d)
        return length_scales(self.kernel if part is None else part, d)

    @cached_property
    def _tree(self) -> KDTree:
        return KDTree(self.rows / self._length_scales)

    def __getstate__(self) -> dict[str, Any]:
        # the tree can be built again
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    def _nearest(self, X: Array) -> Index:
        """Positions of the nearest rows, (p, N)."""
        k = min(self.n_neighbors, len(self.rows))
        found = self._tree.query(X / self._length_scales, k)[1]
        return np.asarray(found, dtype=np.intp).reshape(len(X), k)

    def _systems(self, X: Array, features: Array, near: Index) -> tuple[Array, ...]:
        """``R_NN + Σ_N`` (p, N, N), lower triangles, ``R_N(x)`` (p, N), and R(x, x)."""
        F = np.concatenate((self.features[near], features[:, np.newaxis]), axis=1)
        points = np.concatenate((self.rows[near], X[:, np.newaxis]), axis=1)
        R = stacked_triangles(self.kernel, points)
        R -= F @ F.transpose(0, 2, 1)
        N = np.arange(near.shape[1])
        R[:, N, N] += self.noise[near]
        return R[:, :-1, :-1], R[:, -1, :-1], R[:, -1, -1]

    def _given_nearest(
        self,
        X: Array,
        features: Array,
        near: Index,
        count: Index,
    ) -> tuple[Array, Array]:
        """``b(x)`` (p, N), and the variance of ``h(x)`` (p,)."""
        C, cross, variance = self._systems(X, features, near)
        b = np.ascontiguousarray(cross)
        cross = b.copy()
        solve_local(np.ascontiguousarray(C), count, b)
        left = variance - np.einsum("pn,pn->p", b, cross)
        return b, np.maximum(left, 0.0)

    @property
    def block(self) -> int:
        """Number of rows whose neighbours are in memory at a time."""
        N = self.n_neighbors + 1
        return max(1, min(_ROWS, _NUMBERS // (N * (N + self.n_basis))))

    def _blocks(
        self,
        X: Array,
        given: Index | None = None,
    ) -> Iterator[tuple[slice, Array, Index, Array, Array]]:
        """Rows, their φ, nearest rows, b and variance of h, block by block."""
        for first in range(0, len(X), self.block):
            rows = slice(first, first + self.block)
            features = self.inner(X[rows])
            near = self._nearest(X[rows]) if given is None else given[rows]
            count = np.full(len(near), near.shape[1])
            yield (
                rows,
                features,
                near,
                *self._given_nearest(X[rows], features, near, count),
            )

    # ---- The contract of a basis -------------------------------------------------

    def __call__(self, X: Array) -> Array:
        """Features at the rows of X, shape (p, M + 1)."""
        return self._features_and_residual(X)[0]

    def residual_variance(self, X: Array, features: Array) -> Array:
        """Variance of ``h`` at the rows of X, shape (p,)."""
        del features
        return self._features_and_residual(X)[1]

    def left_out(self, chosen: Index) -> tuple[Array, Array]:
        """Features and residual at some of its rows, each given the nearest others."""
        k = min(self.n_neighbors + 1, len(self.rows))
        near = self._tree.query(self._tree.data[chosen], k)[1].reshape(-1, k)
        # a row is among its nearest, unless there are copies of it
        order = np.argsort(near == chosen[:, np.newaxis], axis=1, kind="stable")
        near = np.take_along_axis(near, order[:, :-1], axis=1).astype(np.intp)
        return self._features_and_residual(self.rows[chosen], near)

    def _features_and_residual(
        self,
        X: Array,
        given: Index | None = None,
    ) -> tuple[Array, Array]:
        out, variance = np.empty((len(X), self.n_basis)), np.empty(len(X))
        for rows, features, near, b, left in self._blocks(X, given=given):
            explained = (b[:, np.newaxis] @ self.features[near])[:, 0]
            out[rows, :-1] = features - explained
            out[rows, -1] = np.einsum("pn,pn->p", b, self.y[near])
            variance[rows] = left
        return out, variance

    def marginals(self, weights: GaussianWeights) -> Marginals:
        """Moments of f at rows, under a distribution of the weights."""

        def moments(X: Array) -> tuple[Array, Array]:
            features, left = self._features_and_residual(X)
            mean, variance = weights.latent(features)
            return mean, variance + left[:, np.newaxis, np.newaxis]

        return moments

    def residual_covariance(self, X: Array, features: Array) -> Array:
        """Joint covariance of ``h`` at the rows of X, shape (p, p).

        That of draws: ``h(x) = g(x) - b(x)ᵀ (g + ε)_N``.
        """
        del features
        parts = [(one[1], one[2], one[3]) for one in self._blocks(X)]
        inner, near, b = (np.concatenate(part) for part in zip(*parts, strict=True))
        p, (used, position) = len(X), np.unique(near, return_inverse=True)
        # h is a combination of g at X and of noisy g at the rows that are used
        both = np.concatenate((X, self.rows[used]))
        F = np.concatenate((inner, self.features[used]))
        left = np.zeros((p, len(both)))
        np.put_along_axis(left, p + position.reshape(near.shape), -b, axis=1)
        noisy = left * np.sqrt(np.append(np.zeros(p), self.noise[used]))
        left[:, :p] = np.eye(p)
        covariance: Array = noisy @ noisy.T
        for first in range(0, len(both), 1024):
            some = slice(first, first + 1024)
            R = kernel_matrix(self.kernel, both, both[some]) - F @ F[some].T
            covariance += (left @ R) @ left[:, some].T
        return covariance

    def process(self, weights: GaussianWeights) -> None:
        """Return None: the model can be conditioned, but not its draws."""
        del weights

    def draw(
        self,
        weights: Array,
        rng: np.random.Generator,
        **prior: Any,
    ) -> FunctionDraws:
        """Functions with these weights and a drawn residual, given the data.

        A prior draw ``f⁰`` and what makes it agree with the weights and with the data
        near x: with ``δ = w - L⁻¹ f⁰(Z)``::

            f = f⁰ + φᵀδ + b(·)ᵀ (y - Φδ - f⁰(X) - ε)_N

        Parameters
        ----------
        weights : ndarray of shape (M + 1, 1, s)
        rng : numpy.random.Generator
        **prior
            Options of :func:`skgpx.bases.draw_prior`.
        """
        (_, c, s), inner = weights.shape, self.inner
        Z, root = inner.inducing_points, inner.root
        given = Conditioning(self.rows, self.noise)
        draws = draw_prior(self.kernel, Z.shape[1], c, s, rng, given=given, **prior)
        error = np.sqrt(self.noise)[:, np.newaxis, np.newaxis]
        left = self.y[:, np.newaxis, np.newaxis] - draws.values(self.rows)
        left -= error * rng.standard_normal((len(self.y), c, s))
        at_points = draws.values(Z).reshape(len(Z), -1)
        at_points += np.sqrt(inner.jitter) * rng.standard_normal(at_points.shape)
        moved = weights[:-1].reshape(inner.n_basis, -1) - solve_lower(root, at_points)
        left -= (self.features @ moved).reshape(left.shape)
        sections = solve_lower_transpose(root, moved).reshape(len(Z), c, s)
        terms = section_terms(self.kernel, Z, sections)
        return draws.plus((*terms, LinearTerm(_LocalFeatures(self), left)))

    # ---- Likelihood of the weights -----------------------------------------------

    def whitening(
        self,
        chosen: slice,
        near: Index,
        count: Index,
    ) -> tuple[Array, Array]:
        """Weights of some rows' predecessors, (p, N), and of themselves, (p,).

        ``(y_i - b_iᵀ y_N) / √D_i`` is white noise around ``(φ_i - Φ_Nᵀ b_i)ᵀw / √D_i``,
        with ``D_i`` the variance of the row given its predecessors.
        """
        how = self.rows[chosen], self.features[chosen], near[chosen], count[chosen]
        b, left = self._given_nearest(*how)
        scale = 1.0 / np.sqrt(left + self.noise[chosen])
        return -scale[:, np.newaxis] * b, scale

    def in_order(self, rng: np.random.Generator, n_jobs: int) -> tuple[Index, Index]:
        """Nearest predecessors of the rows in a random order, and their number."""
        order = rng.permutation(len(self.rows))
        points = self._tree.data[order]
        near, count = predecessors(points, self.n_neighbors, n_jobs)
        own, number = np.empty_like(near), np.empty_like(count)
        own[order], number[order] = order[near], count
        return own, number

    def conditioned(
        self,
        weights: GaussianWeights,
        X: Array,
        y: Array,
        noise: Array,
    ) -> tuple[NeighborBasis, GaussianWeights]:
        """Basis and weights after adding noisy observations y (p,) at X."""
        n, p, features = len(self.rows), len(X), self.inner(X)
        after = replace(
            self,
            rows=np.concatenate((self.rows, X)),
            y=np.append(self.y, y),
            noise=np.append(self.noise, noise),
            features=np.concatenate((self.features, features)),
        )
        # nearest of the old rows, and of the new ones before each
        scaled, old = X / self._length_scales, self._nearest(X)
        away = np.linalg.norm(self._tree.data[old] - scaled[:, np.newaxis], axis=2)
        new = np.where(np.tri(p, k=-1) > 0.0, cdist(scaled, scaled), np.inf)
        every = np.hstack((old, np.broadcast_to(n + np.arange(p), (p, p))))
        order = np.argsort(np.hstack((away, new)), axis=1, kind="stable")
        near = np.take_along_axis(every, order, axis=1)[:, : self.n_neighbors]
        count = np.minimum(n + np.arange(p), near.shape[1])
        b, left = after._given_nearest(X, features, near, count)
        own = features - (b[:, np.newaxis] @ after.features[near])[:, 0]
        errors, level = left + noise, y - np.einsum("pn,pn->p", b, after.y[near])
        mean, root = weights.mean[:-1, 0], weights.root[0, :-1]
        for i in range(p):
            # one step of Kalman's filter
            half = own[i] @ root
            total = float(errors[i] + half @ half)
            gain = root @ half / total
            mean = mean + gain * (level[i] - own[i] @ mean)
            shrink = 1.0 / (1.0 + np.sqrt(errors[i] / total))
            root = root - shrink * np.outer(gain, half)
        return after, known_weights(mean, root)


def known_weights(mean: Array, root: Array) -> GaussianWeights:
    """Weights of a NeighborBasis: those of the inducing points, and one."""
    whole, known = np.append(mean, 1.0), np.zeros((1, root.shape[1]))
    return GaussianWeights(whole[:, np.newaxis], np.vstack((root, known))[np.newaxis])


@dataclass(frozen=True)
class _LocalFeatures:
    """``b(x)`` as a function of all rows, of which N are not zero."""

    basis: NeighborBasis

    @property
    def n_features(self) -> int:
        """Number of input columns."""
        return self.basis.rows.shape[1]

    def __call__(self, X: Array) -> Array:
        """Features at the rows of X, (p, n)."""
        out = np.zeros((len(X), len(self.basis.rows)))
        for rows, _, near, b, _ in self.basis._blocks(X):
            np.put_along_axis(out[rows], near, b, axis=1)
        return out

    def contract(self, X: Array, weights: Array, out: Array) -> None:
        """Add ``self(X) @ weights`` (n, k) to out (p, k)."""
        for rows, _, near, b, _ in self.basis._blocks(X):
            out[rows] += np.einsum("pn,pnk->pk", b, weights[near])

    def pairs(self, X: Array, weights: Array, index: Index) -> tuple[Array, Array]:
        """Values (p,) and gradients (p, d) of function ``index[i]`` at row i of X.

        As long as the nearest rows stay the same, ``b(x)ᵀ v_N = R_N(x)ᵀ α``.
        """
        basis, inner = self.basis, self.basis.inner
        features, near = inner(X), basis._nearest(X)
        C, cross, _ = basis._systems(X, features, near)
        alpha = np.ascontiguousarray(weights[index[:, np.newaxis], near])
        solve_local(np.ascontiguousarray(C), np.full(len(X), near.shape[1]), alpha)
        values = np.einsum("pn,pn->p", cross, alpha)
        # ∇ R_N(x)ᵀα = ∇ k(x, X_N) α - ∇ k(x, Z) L⁻ᵀ Φ_Nᵀ α
        used, position = np.unique(near, return_inverse=True)
        spread = np.zeros((len(X), len(used)))
        np.put_along_axis(spread, position.reshape(near.shape), alpha, axis=1)
        gradient = matrix_and_input_pullback(basis.kernel, X, basis.rows[used])[1]
        explained = (alpha[:, np.newaxis] @ basis.features[near])[:, 0]
        inner_weights = solve_lower_transpose(inner.root, explained.T).T
        pull = matrix_and_input_pullback(basis.kernel, X, inner.inducing_points)[1]
        slopes: Array = gradient(spread) - pull(inner_weights)
        return values, slopes
