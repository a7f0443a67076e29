"""The residual of inducing points given nearest rows: Vecchia's approximation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array
from scipy.spatial import KDTree
from scipy.spatial.distance import cdist

from skgpx._draws import WithoutCaches
from skgpx._numerics.linalg import solve_lower_transpose
from skgpx._numerics.nearest import predecessors, solve_local
from skgpx._numerics.rows import equal_rows, row_slices
from skgpx._types import Array, Generator, Index, Kernel
from skgpx.bases._kernel_basis import Nystroem
from skgpx.kernels import (
    kernel_matrix,
    matrix_and_input_pullback,
    neighbor_coordinates,
    stacked_triangles,
)


class Neighborhoods(NamedTuple):
    """A block of inputs x, and the residual there given the nearest rows.

    The rows have k versions of noise.

    Attributes
    ----------
    block : slice
        Positions of the p inputs.
    features : ndarray of shape (p, M)
        ``φ(x)`` of the inducing points.
    nearest : ndarray of shape (k, p, N)
        Positions of the nearest rows that have a value.
    coefficients : ndarray of shape (k, p, N)
        ``b(x)``.
    variance : ndarray of shape (k, p)
        ``var h(x)``.
    """

    block: slice
    features: Array
    nearest: Index
    coefficients: Array
    variance: Array


class ResidualErrors(NamedTuple):
    """Residuals that remain at p inputs, ``h = A (g + ε)``, for v versions of noise.

    Attributes
    ----------
    points : ndarray of shape (q, d)
        The p inputs, where ε is zero, and the rows of the data that are used.
    features : ndarray of shape (q, M)
        ``F``: the residual g has the covariance ``k - F Fᵀ`` at the points.
    used : ndarray of shape (q - p,)
        Positions of these rows.
    noise : ndarray of shape (q - p, v)
        Variances of ε there.
    combinations : tuple of v csr_array of shape (p, q)
        ``A``: one for the input, and ``-b`` for its nearest rows.
    """

    points: Array
    features: Array
    used: Index
    noise: Array
    combinations: tuple[csr_array, ...]


class NearestSearch(NamedTuple):
    """Search for nearest rows among those that have a value.

    Attributes
    ----------
    versions : ndarray of shape (v,)
        Versions of the noise with values at the same rows.
    positions : ndarray of shape (q,)
        These rows.
    tree : KDTree
        Tree of the scaled inputs of these rows.
    """

    versions: Index
    positions: Index
    tree: KDTree

    def nearest(self, scaled: Array, number: int) -> tuple[Index, Index]:
        """Positions of the nearest of these rows, and how many there are.

        Shapes are (p, number), filled with zeros, and (p,).
        """
        p = len(scaled)
        size = min(number, len(self.positions))
        _, neighbors = self.tree.query(scaled, size)
        nearest = np.zeros((p, number), dtype=np.intp)
        nearest[:, :size] = self.positions[np.reshape(neighbors, (p, size))]
        return nearest, np.full(p, size)


@dataclass(frozen=True)
class NeighborResidual(WithoutCaches):
    """The residual of inducing points, given noisy values at the nearest rows.

    With ``f = φᵀw + g`` and values ``y_i = f(x_i) + ε_i`` at n rows, f at x given w and
    the values at the N nearest rows alone is::

        f(x) = φ(x)ᵀ w + b(x)ᵀ (y - Φw)_N + h(x),    b = (R_NN + Σ_N)⁻¹ R_N(x)
             = [φ(x) - Φ_Nᵀ b(x)]ᵀ w + b(x)ᵀ y_N + h(x)

    where ``R`` is the covariance of the residual g, Σ the covariance of ε, and h, with
    the variance of g that remains, is independent of the data. Neither b nor h depends
    on the values y. Functions of one prior whose values have different noise have b and
    h of their own; what depends on the kernel and the nearest rows is computed once.

    Parameters
    ----------
    basis : Nystroem
        ``φ``, of M functions.
    rows : ndarray of shape (n, d)
    noise : ndarray of shape (n, k)
        Variances of ε in k versions; infinite where a version has no value.
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
        n_versions = self.noise.shape[1]
        features_and_neighbors = self.basis.floats_per_row + 4 * self.n_neighbors
        return n_versions * features_and_neighbors

    @property
    def block_size(self) -> int:
        """Number of rows whose neighbours are in memory at a time."""
        n_points = self.n_neighbors + 1
        n_functions = self.basis.n_basis + self.noise.shape[1]
        most_numbers = 2**22
        most_rows = 256
        size = most_numbers // (n_points * (n_points + n_functions))
        return max(1, min(most_rows, size))

    # ---- Nearest rows ------------------------------------------------------------

    @cached_property
    def _scaled_rows(self) -> Array:
        return neighbor_coordinates(self.kernel, self.rows)

    @cached_property
    def searches(self) -> tuple[NearestSearch, ...]:
        """One search for all versions of the noise with values at the same rows."""
        patterns, pattern_of_version = equal_rows(np.isfinite(self.noise).T)
        searches = []
        for index, has_value in enumerate(patterns):
            positions = np.flatnonzero(has_value)
            search = NearestSearch(
                versions=np.flatnonzero(pattern_of_version == index),
                positions=positions,
                tree=KDTree(self._scaled_rows[positions]),
            )
            searches.append(search)
        return tuple(searches)

    @cached_property
    def search_of_version(self) -> Index:
        """Number of the search of each version, (k,)."""
        numbers = np.empty(self.noise.shape[1], dtype=np.intp)
        for number, search in enumerate(self.searches):
            numbers[search.versions] = number
        return numbers

    @property
    def most_neighbors(self) -> int:
        """Number N of nearest rows, at most all of them."""
        return min(self.n_neighbors, len(self.rows))

    def nearest(self, X: Array) -> tuple[Index, Index]:
        """Nearest rows of each row of X, for each of g searches.

        Returns
        -------
        nearest : ndarray of shape (g, p, N)
        count : ndarray of shape (g, p)
            How many of them there are.
        """
        scaled = neighbor_coordinates(self.kernel, X)
        number = self.most_neighbors
        return _stacked([search.nearest(scaled, number) for search in self.searches])

    def nearest_others(self, chosen: Index) -> tuple[Index, Index]:
        """Nearest other rows of some of the rows, as :meth:`nearest`."""
        scaled = self._scaled_rows[chosen]
        number = min(self.n_neighbors + 1, len(self.rows))
        parts = []
        for search in self.searches:
            positions, count = search.nearest(scaled, number)
            # a row is among its nearest, unless it has no value or there are copies
            is_itself = positions == chosen[:, np.newaxis]
            is_itself &= np.arange(number) < count[:, np.newaxis]
            order = np.argsort(is_itself, axis=1, kind="stable")
            nearest = np.take_along_axis(positions, order[:, :-1], axis=1)
            n_others = np.where(is_itself.any(axis=1), count - 1, count)
            parts.append((nearest, np.minimum(n_others, number - 1)))
        return _stacked(parts)

    def predecessors(
        self,
        rng: Generator,
        n_jobs: int,
    ) -> tuple[Index, Index]:
        """Nearest predecessors of the rows in a random order, for each of g searches.

        Returns
        -------
        nearest : ndarray of shape (g, n, N)
        count : ndarray of shape (g, n)
            How many of them there are.
        """
        n = len(self.rows)
        order = rng.permutation(n)
        number = min(self.n_neighbors, n - 1)
        parts = []
        for search in self.searches:
            has_value = np.zeros(n, dtype=bool)
            has_value[search.positions] = True
            order_of_search = order[has_value[order]]
            in_order, count_in_order = predecessors(
                self._scaled_rows[order_of_search],
                self.n_neighbors,
                n_jobs,
            )
            nearest = np.zeros((n, number), dtype=np.intp)
            size = in_order.shape[1]
            nearest[order_of_search, :size] = order_of_search[in_order]
            count = np.zeros(n, dtype=np.intp)
            count[order_of_search] = count_in_order
            parts.append((nearest, count))
        return _stacked(parts)

    def of_rows(self, chosen: Index) -> NeighborResidual:
        """Given some of the rows, with their features."""
        rows = self.rows[chosen]
        return replace(
            self,
            rows=rows,
            noise=self.noise[chosen],
            features=self.basis(rows),
        )

    def with_rows(
        self,
        X: Array,
        noise: Array,
    ) -> tuple[NeighborResidual, Index, Index]:
        """Add p rows, with values of all versions, to those that may be nearest.

        Parameters
        ----------
        X : ndarray of shape (p, d)
        noise : ndarray of shape (p, k)

        Returns
        -------
        residual : NeighborResidual
            Given n + p rows.
        nearest : ndarray of shape (g, p, N)
            Nearest rows of each new one: of the old ones and of the new ones before it.
        count : ndarray of shape (g, p)
            How many of them there are.
        """
        n = len(self.rows)
        p = len(X)
        residual = replace(
            self,
            rows=np.concatenate((self.rows, X)),
            noise=np.concatenate((self.noise, noise)),
            features=np.concatenate((self.features, self.basis(X))),
        )
        # distances from the new rows before each of them
        scaled = neighbor_coordinates(self.kernel, X)
        between_new = cdist(scaled, scaled)
        is_before = np.tri(p, k=-1) > 0.0
        to_new = np.where(is_before, between_new, np.inf)
        n_before = np.arange(p)
        new = np.broadcast_to(n + n_before, (p, p))
        parts = []
        for search in self.searches:
            # distances from the nearest old rows
            old, n_old = search.nearest(scaled, self.most_neighbors)
            shift = self._scaled_rows[old] - scaled[:, np.newaxis]
            to_old = np.linalg.norm(shift, axis=2)
            position = np.arange(old.shape[1])
            is_surplus = position >= n_old[:, np.newaxis]
            to_old = np.where(is_surplus, np.inf, to_old)
            # the nearest of both
            distance = np.hstack((to_old, to_new))
            candidates = np.hstack((old, new))
            order = np.argsort(distance, axis=1, kind="stable")
            sorted_rows = np.take_along_axis(candidates, order, axis=1)
            nearest = sorted_rows[:, : self.n_neighbors]
            count = np.minimum(n_old + n_before, nearest.shape[1])
            parts.append((nearest, count))
        return (residual, *_stacked(parts))

    # ---- The residual given the values there ---------------------------------------

    def systems(
        self,
        X: Array,
        features: Array,
        nearest: Index,
    ) -> Array:
        """Covariances of the residual at nearest rows and, last, at rows of X.

        Returns
        -------
        systems : ndarray of shape (p, N + 1, N + 1)
            Lower triangles of ``R_NN``, with ``R_N(x)`` and ``R(x, x)`` in the last
            row.
        """
        F = np.concatenate((self.features[nearest], features[:, np.newaxis]), axis=1)
        points = np.concatenate((self.rows[nearest], X[:, np.newaxis]), axis=1)
        # R = k - Φ Φᵀ
        R = stacked_triangles(self.kernel, points)
        R -= F @ F.transpose(0, 2, 1)
        return R

    def packed_systems(self, chosen: slice, nearest: Index) -> Array:
        """Lower triangles of :meth:`systems` at rows of the data, one after another.

        They do not depend on the noise. Of each search, shape
        (g, p, (N + 1) (N + 2) / 2).
        """
        lower = np.tril_indices(nearest.shape[2] + 1)
        packed = [
            self.systems(self.rows[chosen], self.features[chosen], rows)[:, *lower]
            for rows in nearest[:, chosen]
        ]
        return np.stack(packed)

    def noisy(self, among: Array, nearest: Index, version: int) -> Array:
        """``R_NN + Σ_N`` of one version of the noise, (p, N, N)."""
        noisy = np.array(among, order="C")
        diagonal = np.arange(nearest.shape[1])
        noisy[:, diagonal, diagonal] += self.noise[nearest, version]
        return noisy

    def given_nearest(
        self,
        X: Array,
        features: Array,
        nearest: Index,
        count: Index,
        packed: Array | None = None,
    ) -> tuple[Array, Array]:
        """``b(x)`` (k, p, N), and the variance of ``h(x)`` (k, p).

        The first `count` (g, p) of the nearest rows (g, p, N) of each search are used.
        Their covariances are computed, unless :meth:`packed_systems` has them.
        """
        k = self.noise.shape[1]
        coefficients = np.empty((k, *nearest.shape[1:]))
        remaining = np.empty((k, len(X)))
        for position, search in enumerate(self.searches):
            rows = nearest[position]
            number = count[position]
            if packed is None:
                R = self.systems(X, features, rows)
            else:
                R = _unpacked(packed[position], rows.shape[1] + 1)
            among = R[:, :-1, :-1]
            cross = R[:, -1, :-1]
            variance = R[:, -1, -1]
            for version in search.versions:
                # b = (R_NN + Σ_N)⁻¹ R_N(x),  var h = R(x, x) - bᵀ R_N(x)
                b = np.array(cross, order="C")
                solve_local(self.noisy(among, rows, version), number, b)
                explained = np.einsum("pn,pn->p", b, cross)
                coefficients[version] = b
                remaining[version] = variance - explained
        return coefficients, np.maximum(remaining, 0.0)

    def neighborhoods(
        self,
        X: Array,
        nearest: Index | None = None,
        count: Index | None = None,
    ) -> Iterator[Neighborhoods]:
        """The rows of X, block by block, with their nearest rows or the ones stated."""
        for block in row_slices(len(X), self.block_size):
            features = self.basis(X[block])
            if nearest is None or count is None:
                rows, number = self.nearest(X[block])
            else:
                rows = nearest[:, block]
                number = count[:, block]
            b, variance = self.given_nearest(X[block], features, rows, number)
            nearest_of_versions = rows[self.search_of_version]
            yield Neighborhoods(block, features, nearest_of_versions, b, variance)

    def conditional_features(self, local: Neighborhoods) -> Array:
        """``φ(x) - Φ_Nᵀ b(x)`` of a block, (k, p, M)."""
        k = len(local.coefficients)
        conditional = np.empty((k, *local.features.shape))
        for search in self.searches:
            versions = search.versions
            # all of them have the same nearest rows
            features = self.features[local.nearest[versions[0]]]
            b = local.coefficients[versions].transpose(1, 0, 2)
            explained = (b @ features).transpose(1, 0, 2)
            conditional[versions] = local.features - explained
        return conditional

    def features_and_variance(
        self,
        X: Array,
        nearest: Index | None = None,
        count: Index | None = None,
    ) -> tuple[Array, Array]:
        """``φ - Φ_Nᵀ b`` (k, p, M), and the variance of h (k, p), at the rows of X."""
        k = self.noise.shape[1]
        features = np.empty((k, len(X), self.basis.n_basis))
        variance = np.empty((k, len(X)))
        for local in self.neighborhoods(X, nearest, count):
            features[:, local.block] = self.conditional_features(local)
            variance[:, local.block] = local.variance
        return features, variance

    def errors(self, X: Array, versions: Index) -> ResidualErrors:
        """``h(x) = g(x) - b(x)ᵀ (g + ε)_N`` at the rows of X, for v versions."""
        # b(x), and the positions of the rows with which it combines x
        feature_blocks = []
        nearest_blocks = []
        coefficient_blocks = []
        for local in self.neighborhoods(X):
            feature_blocks.append(local.features)
            nearest_blocks.append(local.nearest[versions])
            coefficient_blocks.append(local.coefficients[versions])
        features = np.concatenate(feature_blocks)
        nearest = np.concatenate(nearest_blocks, axis=1)
        b = np.concatenate(coefficient_blocks, axis=1)
        used, position = np.unique(nearest, return_inverse=True)
        position = position.reshape(nearest.shape)
        # row x of A: 1 at x itself, -b(x) at its nearest rows
        p = len(X)
        row_size = nearest.shape[2] + 1
        starts = np.arange(p + 1) * row_size
        itself = np.arange(p)
        unit = np.ones(p)
        combinations = []
        for columns_of_rows, coefficients in zip(position, b, strict=True):
            columns = np.column_stack((itself, p + columns_of_rows))
            values = np.column_stack((unit, -coefficients))
            A = csr_array(
                (values.ravel(), columns.ravel(), starts),
                shape=(p, p + len(used)),
            )
            combinations.append(A)
        noise = self.noise[np.ix_(used, versions)]
        # zero weights fill up rows of fewer neighbours
        noise = np.where(np.isfinite(noise), noise, 0.0)
        return ResidualErrors(
            points=np.concatenate((X, self.rows[used])),
            features=np.concatenate((features, self.features[used])),
            used=used,
            noise=noise,
            combinations=tuple(combinations),
        )

    def covariance(self, X: Array, version: int = 0) -> Array:
        """Joint covariance of ``h`` in draws at the rows of X, shape (p, p)."""
        errors = self.errors(X, np.array([version]))
        A = errors.combinations[0]
        points = errors.points
        p = len(X)
        std = np.sqrt(np.append(np.zeros(p), errors.noise[:, 0]))
        # A (R + Σ) Aᵀ,  R = k - F Fᵀ
        A_noise = A * std
        covariance: Array = (A_noise @ A_noise.T).toarray()
        # rows whose covariances with all others are in memory at a time
        for block in row_slices(len(points), 1024):
            K = kernel_matrix(self.kernel, points, points[block])
            covariance += (A @ K) @ A[:, block].T
        conditional = A @ errors.features
        return covariance - conditional @ conditional.T

    def whitening(
        self,
        chosen: slice,
        nearest: Index,
        count: Index,
        packed: Array | None = None,
    ) -> tuple[Array, Array]:
        """Weights of the predecessors of some rows, (k, p, N), and of these, (k, p).

        ``(y_i - b_iᵀ y_N) / √D_i`` is white noise around ``(φ_i - Φ_Nᵀ b_i)ᵀw / √D_i``,
        with ``D_i`` the variance of the row given its predecessors. Rows without a
        value have weight zero.
        """
        b, variance = self.given_nearest(
            self.rows[chosen],
            self.features[chosen],
            nearest[:, chosen],
            count[:, chosen],
            packed,
        )
        scale = 1.0 / np.sqrt(variance + self.noise[chosen].T)
        return -scale[:, :, np.newaxis] * b, scale


def _unpacked(packed: Array, size: int) -> Array:
    """Matrices (p, size, size) of lower triangles."""
    matrices = np.zeros((len(packed), size, size))
    matrices[:, *np.tril_indices(size)] = packed
    return matrices


def _stacked(parts: list[tuple[Index, Index]]) -> tuple[Index, Index]:
    """Nearest rows and their numbers, with the searches on the first axis."""
    nearest, count = zip(*parts, strict=True)
    return np.stack(nearest), np.stack(count)


@dataclass(frozen=True)
class NeighborCoefficients:
    """``b(x)`` as a function of all rows, of which N are not zero, for c functions.

    Attributes
    ----------
    residual : NeighborResidual
    versions : ndarray of shape (c,)
        Version of the noise of each function.
    """

    residual: NeighborResidual
    versions: Index

    @property
    def n_features(self) -> int:
        """Number of input columns."""
        return self.residual.rows.shape[1]

    def contract(self, X: Array, weights: Array, out: Array) -> None:
        """Add the functions with weights (n, c s) to out (p, c s)."""
        c = len(self.versions)
        weights = weights.reshape(len(weights), c, -1)
        out = out.reshape(len(out), c, -1)
        for local in self.residual.neighborhoods(X):
            for output, version in enumerate(self.versions):
                b = local.coefficients[version]
                values = weights[local.nearest[version], output]
                out[local.block, output] += np.einsum("pn,pns->ps", b, values)

    def at(self, X: Array, weights: Array) -> Array:
        """Draw i of weights (n, c, s) at row i of X (s, d), (s, c)."""
        draws = np.arange(len(X))
        values = np.empty((len(X), len(self.versions)))
        for local in self.residual.neighborhoods(X):
            draw = draws[local.block, np.newaxis]
            for output, version in enumerate(self.versions):
                b = local.coefficients[version]
                chosen = weights[local.nearest[version], output, draw]
                values[local.block, output] = np.einsum("pn,pn->p", b, chosen)
        return values

    def pairs(self, X: Array, weights: Array, index: Index) -> tuple[Array, Array]:
        """Values (p,) and gradients (p, d) of function ``index[i]`` at row i of X.

        The functions of a draw follow one another in the weights (s c, n). As long as
        the nearest rows stay the same, ``b(x)ᵀ v_N = R_N(x)ᵀ α`` with
        ``α = (R_NN + Σ_N)⁻¹ v_N``.
        """
        values = np.empty(len(X))
        gradients = np.empty(X.shape)
        version_of_row = self.versions[index % len(self.versions)]
        for version in np.unique(version_of_row):
            chosen = np.flatnonzero(version_of_row == version)
            values[chosen], gradients[chosen] = self._pairs_of_version(
                X[chosen],
                weights,
                index[chosen],
                version,
            )
        return values, gradients

    def _pairs_of_version(
        self,
        X: Array,
        weights: Array,
        index: Index,
        version: int,
    ) -> tuple[Array, Array]:
        residual = self.residual
        basis = residual.basis
        # 1 the nearest rows
        features = basis(X)
        search = residual.search_of_version[version]
        all_nearest, all_counts = residual.nearest(X)
        nearest = all_nearest[search]
        count = all_counts[search]
        # without the zeros that fill up rows of fewer neighbours
        nearest = nearest[:, : count[0]]
        # 2 values R_N(x)ᵀα
        systems = residual.systems(X, features, nearest)
        among = systems[:, :-1, :-1]
        cross = systems[:, -1, :-1]
        noisy = residual.noisy(among, nearest, version)
        right_sides = weights[index[:, np.newaxis], nearest]
        alpha = np.ascontiguousarray(right_sides)
        solve_local(noisy, count, alpha)
        values = np.einsum("pn,pn->p", cross, alpha)
        # 3 gradients ∇ R_N(x)ᵀα = ∇ k(x, X_N) α - ∇ k(x, Z) L⁻ᵀ Φ_Nᵀ α
        used, position = np.unique(nearest, return_inverse=True)
        position = position.reshape(nearest.shape)
        row_weights = np.zeros((len(X), len(used)))
        np.put_along_axis(row_weights, position, alpha, axis=1)
        kernel = residual.kernel
        _, pull_rows = matrix_and_input_pullback(kernel, X, residual.rows[used])
        _, pull_points = matrix_and_input_pullback(kernel, X, basis.inducing_points)
        moments = (alpha[:, np.newaxis] @ residual.features[nearest])[:, 0]
        root = np.asarray(basis.root)
        point_weights = solve_lower_transpose(root, moments.T).T
        gradients: Array = pull_rows(row_weights) - pull_points(point_weights)
        return values, gradients
