"""The residual of inducing points given nearest rows: Vecchia's approximation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import KDTree
from scipy.spatial.distance import cdist
from sklearn.gaussian_process.kernels import Kernel

from skgpx._numerics.linalg import solve_lower_transpose
from skgpx._numerics.nearest import predecessors, solve_local
from skgpx.bases._kernel_basis import Nystroem
from skgpx.kernels import (
    decaying_part,
    kernel_matrix,
    length_scales,
    matrix_and_input_pullback,
    stacked_triangles,
)

Array = NDArray[np.float64]
Index = NDArray[np.intp]

# Numbers in memory for the neighbours of a block of rows, and rows of a block.
_MAX_NUMBERS = 2**22
_MAX_ROWS = 256
# Rows whose covariances with all others are in memory at a time.
_COVARIANCE_ROWS = 1024


class Neighborhoods(NamedTuple):
    """A block of inputs x, and the residual there given the nearest rows.

    Attributes
    ----------
    block : slice
        Positions of the p inputs.
    features : ndarray of shape (p, M)
        ``φ(x)`` of the inducing points.
    nearest : ndarray of shape (p, N)
        Positions of the nearest rows.
    coefficients : ndarray of shape (p, N)
        ``b(x)``.
    variance : ndarray of shape (p,)
        ``var h(x)``.
    """

    block: slice
    features: Array
    nearest: Index
    coefficients: Array
    variance: Array


@dataclass(frozen=True)
class NeighborResidual:
    """The residual of inducing points, given noisy values at the nearest rows.

    With ``f = φᵀw + g`` and values ``y_i = f(x_i) + ε_i`` at n rows, f at x given w and
    the values at the N nearest rows alone is::

        f(x) = φ(x)ᵀ w + b(x)ᵀ (y - Φw)_N + h(x),    b = (R_NN + Σ_N)⁻¹ R_N(x)
             = [φ(x) - Φ_Nᵀ b(x)]ᵀ w + b(x)ᵀ y_N + h(x)

    where ``R`` is the covariance of the residual g, Σ the covariance of ε, and h, with
    the variance of g that remains, is independent of the data. Neither b nor h depends
    on the values y.

    Parameters
    ----------
    basis : Nystroem
        ``φ``, of M functions.
    rows : ndarray of shape (n, d)
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

    basis: Nystroem
    rows: Array
    noise: Array
    features: Array
    n_neighbors: int

    @property
    def kernel(self) -> Kernel:
        """Prior covariance of f."""
        return self.basis.kernel

    @property
    def floats_per_row(self) -> int:
        """Numbers in memory for the features of one row."""
        return self.basis.floats_per_row + 4 * self.n_neighbors

    @property
    def block_size(self) -> int:
        """Number of rows whose neighbours are in memory at a time."""
        n_points = self.n_neighbors + 1
        n_functions = self.basis.n_basis + 1
        size = _MAX_NUMBERS // (n_points * (n_points + n_functions))
        return max(1, min(_MAX_ROWS, size))

    # ---- Nearest rows ------------------------------------------------------------

    @cached_property
    def _length_scales(self) -> Array:
        d = self.rows.shape[1]
        part = decaying_part(self.kernel, d)
        if part is None:
            part = self.kernel
        return length_scales(part, d)

    @cached_property
    def _tree(self) -> KDTree:
        return KDTree(self.rows / self._length_scales)

    def __getstate__(self) -> dict[str, Any]:
        # the tree can be built again
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    def nearest(self, X: Array) -> Index:
        """Positions of the nearest rows of each row of X, (p, N)."""
        k = min(self.n_neighbors, len(self.rows))
        _, position = self._tree.query(X / self._length_scales, k)
        return np.asarray(position, dtype=np.intp).reshape(len(X), k)

    def nearest_others(self, chosen: Index) -> Index:
        """Positions of the nearest other rows of some of the rows, (p, N)."""
        k = min(self.n_neighbors + 1, len(self.rows))
        _, position = self._tree.query(self._tree.data[chosen], k)
        position = position.reshape(-1, k)
        # a row is among its nearest, unless there are copies of it
        is_itself = position == chosen[:, np.newaxis]
        order = np.argsort(is_itself, axis=1, kind="stable")
        nearest = np.take_along_axis(position, order[:, :-1], axis=1)
        return nearest.astype(np.intp)

    def predecessors(
        self,
        rng: np.random.Generator,
        n_jobs: int,
    ) -> tuple[Index, Index]:
        """Nearest predecessors of the rows in a random order.

        Returns
        -------
        nearest : ndarray of shape (n, N)
        count : ndarray of shape (n,)
            How many of them there are.
        """
        order = rng.permutation(len(self.rows))
        in_order, count_in_order = predecessors(
            self._tree.data[order],
            self.n_neighbors,
            n_jobs,
        )
        nearest = np.empty_like(in_order)
        nearest[order] = order[in_order]
        count = np.empty_like(count_in_order)
        count[order] = count_in_order
        return nearest, count

    def with_rows(
        self,
        X: Array,
        noise: Array,
    ) -> tuple[NeighborResidual, Index, Index]:
        """Add p rows to those that may be nearest.

        Returns
        -------
        residual : NeighborResidual
            Given n + p rows.
        nearest : ndarray of shape (p, N)
            Nearest rows of each new one: of the old ones and of the new ones before it.
        count : ndarray of shape (p,)
            How many of them there are.
        """
        n = len(self.rows)
        p = len(X)
        residual = replace(
            self,
            rows=np.concatenate((self.rows, X)),
            noise=np.append(self.noise, noise),
            features=np.concatenate((self.features, self.basis(X))),
        )
        scaled = X / self._length_scales
        old = self.nearest(X)
        to_old = np.linalg.norm(self._tree.data[old] - scaled[:, np.newaxis], axis=2)
        is_before = np.tri(p, k=-1) > 0.0
        to_new = np.where(is_before, cdist(scaled, scaled), np.inf)
        new = np.broadcast_to(n + np.arange(p), (p, p))
        order = np.argsort(np.hstack((to_old, to_new)), axis=1, kind="stable")
        sorted_rows = np.take_along_axis(np.hstack((old, new)), order, axis=1)
        nearest = sorted_rows[:, : self.n_neighbors]
        count = np.minimum(n + np.arange(p), nearest.shape[1])
        return residual, nearest, count

    # ---- The residual given the values there ---------------------------------------

    def systems(
        self,
        X: Array,
        features: Array,
        nearest: Index,
    ) -> tuple[Array, Array, Array]:
        """Covariances of the residual at rows of X and at their nearest rows.

        Returns
        -------
        noisy : ndarray of shape (p, N, N)
            ``R_NN + Σ_N``, lower triangles.
        cross : ndarray of shape (p, N)
            ``R_N(x)``.
        variance : ndarray of shape (p,)
            ``R(x, x)``.
        """
        F = np.concatenate((self.features[nearest], features[:, np.newaxis]), axis=1)
        points = np.concatenate((self.rows[nearest], X[:, np.newaxis]), axis=1)
        # R = k - Φ Φᵀ
        R = stacked_triangles(self.kernel, points)
        R -= F @ F.transpose(0, 2, 1)
        diagonal = np.arange(nearest.shape[1])
        R[:, diagonal, diagonal] += self.noise[nearest]
        return R[:, :-1, :-1], R[:, -1, :-1], R[:, -1, -1]

    def given_nearest(
        self,
        X: Array,
        features: Array,
        nearest: Index,
        count: Index,
    ) -> tuple[Array, Array]:
        """``b(x)`` (p, N), and the variance of ``h(x)`` (p,).

        Of the nearest rows the first `count` (p,) are used.
        """
        noisy, cross, variance = self.systems(X, features, nearest)
        # b = (R_NN + Σ_N)⁻¹ R_N(x),  var h = R(x, x) - bᵀ R_N(x)
        b = np.ascontiguousarray(cross)
        cross = b.copy()
        solve_local(np.ascontiguousarray(noisy), count, b)
        remaining = variance - np.einsum("pn,pn->p", b, cross)
        return b, np.maximum(remaining, 0.0)

    def neighborhoods(
        self,
        X: Array,
        nearest: Index | None = None,
    ) -> Iterator[Neighborhoods]:
        """The rows of X, block by block, with their nearest rows or the ones stated."""
        for first in range(0, len(X), self.block_size):
            block = slice(first, first + self.block_size)
            features = self.basis(X[block])
            if nearest is None:
                rows = self.nearest(X[block])
            else:
                rows = nearest[block]
            count = np.full(len(rows), rows.shape[1])
            b, variance = self.given_nearest(X[block], features, rows, count)
            yield Neighborhoods(block, features, rows, b, variance)

    def conditional_features(self, local: Neighborhoods) -> Array:
        """``φ(x) - Φ_Nᵀ b(x)`` of a block, (p, M)."""
        b = local.coefficients
        explained = (b[:, np.newaxis] @ self.features[local.nearest])[:, 0]
        return local.features - explained

    def features_and_variance(
        self,
        X: Array,
        nearest: Index | None = None,
    ) -> tuple[Array, Array]:
        """``φ - Φ_Nᵀ b`` (p, M), and the variance of h (p,), at the rows of X."""
        features = np.empty((len(X), self.basis.n_basis))
        variance = np.empty(len(X))
        for local in self.neighborhoods(X, nearest):
            features[local.block] = self.conditional_features(local)
            variance[local.block] = local.variance
        return features, variance

    def covariance(self, X: Array) -> Array:
        """Joint covariance of ``h`` in draws at the rows of X, shape (p, p).

        ``h(x) = g(x) - b(x)ᵀ (g + ε)_N``.
        """
        blocks = list(self.neighborhoods(X))
        features = np.concatenate([local.features for local in blocks])
        nearest = np.concatenate([local.nearest for local in blocks])
        b = np.concatenate([local.coefficients for local in blocks])
        p = len(X)
        used, position = np.unique(nearest, return_inverse=True)
        # h = A g, g the residual at X and, with noise, at the rows that are used
        points = np.concatenate((X, self.rows[used]))
        F = np.concatenate((features, self.features[used]))
        A = np.zeros((p, len(points)))
        np.put_along_axis(A, p + position.reshape(nearest.shape), -b, axis=1)
        A_noise = A * np.sqrt(np.append(np.zeros(p), self.noise[used]))
        A[:, :p] = np.eye(p)
        # A (R + Σ) Aᵀ,  R = k - F Fᵀ
        covariance: Array = A_noise @ A_noise.T
        for first in range(0, len(points), _COVARIANCE_ROWS):
            block = slice(first, first + _COVARIANCE_ROWS)
            R = kernel_matrix(self.kernel, points, points[block]) - F @ F[block].T
            covariance += (A @ R) @ A[:, block].T
        return covariance

    def whitening(
        self,
        chosen: slice,
        nearest: Index,
        count: Index,
    ) -> tuple[Array, Array]:
        """Weights of the predecessors of some rows, (p, N), and of these rows, (p,).

        ``(y_i - b_iᵀ y_N) / √D_i`` is white noise around ``(φ_i - Φ_Nᵀ b_i)ᵀw / √D_i``,
        with ``D_i`` the variance of the row given its predecessors.
        """
        b, variance = self.given_nearest(
            self.rows[chosen],
            self.features[chosen],
            nearest[chosen],
            count[chosen],
        )
        scale = 1.0 / np.sqrt(variance + self.noise[chosen])
        return -scale[:, np.newaxis] * b, scale


@dataclass(frozen=True)
class NeighborCoefficients:
    """``b(x)`` as a function of all rows, of which N are not zero."""

    residual: NeighborResidual

    @property
    def n_features(self) -> int:
        """Number of input columns."""
        return self.residual.rows.shape[1]

    def __call__(self, X: Array) -> Array:
        """Features at the rows of X, (p, n)."""
        out = np.zeros((len(X), len(self.residual.rows)))
        for local in self.residual.neighborhoods(X):
            rows = out[local.block]
            np.put_along_axis(rows, local.nearest, local.coefficients, axis=1)
        return out

    def contract(self, X: Array, weights: Array, out: Array) -> None:
        """Add ``self(X) @ weights`` (n, k) to out (p, k)."""
        for local in self.residual.neighborhoods(X):
            b = local.coefficients
            out[local.block] += np.einsum("pn,pnk->pk", b, weights[local.nearest])

    def pairs(self, X: Array, weights: Array, index: Index) -> tuple[Array, Array]:
        """Values (p,) and gradients (p, d) of function ``index[i]`` at row i of X.

        As long as the nearest rows stay the same, ``b(x)ᵀ v_N = R_N(x)ᵀ α`` with
        ``α = (R_NN + Σ_N)⁻¹ v_N``.
        """
        residual = self.residual
        basis = residual.basis
        features = basis(X)
        nearest = residual.nearest(X)
        noisy, cross, _ = residual.systems(X, features, nearest)
        alpha = np.ascontiguousarray(weights[index[:, np.newaxis], nearest])
        count = np.full(len(X), nearest.shape[1])
        solve_local(np.ascontiguousarray(noisy), count, alpha)
        values = np.einsum("pn,pn->p", cross, alpha)
        # ∇ R_N(x)ᵀα = ∇ k(x, X_N) α - ∇ k(x, Z) L⁻ᵀ Φ_Nᵀ α
        used, position = np.unique(nearest, return_inverse=True)
        row_weights = np.zeros((len(X), len(used)))
        np.put_along_axis(row_weights, position.reshape(nearest.shape), alpha, axis=1)
        kernel = residual.kernel
        _, pull_rows = matrix_and_input_pullback(kernel, X, residual.rows[used])
        _, pull_points = matrix_and_input_pullback(kernel, X, basis.inducing_points)
        moments = (alpha[:, np.newaxis] @ residual.features[nearest])[:, 0]
        root = np.asarray(basis.root)
        point_weights = solve_lower_transpose(root, moments.T).T
        gradients: Array = pull_rows(row_weights) - pull_points(point_weights)
        return values, gradients
