"""A sparse process of the same rows: preconditioner, start, and variances."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array

from skgpx._numerics.blas_threads import threads_for
from skgpx._numerics.linalg import (
    add_gram,
    invert_lower,
    mirror,
    solve_lower,
    solve_lower_transpose,
)
from skgpx._numerics.regression import noise_share, precision_root
from skgpx._parallel import blas_jobs, n_workers, parallel_map, parallel_stream
from skgpx._row_statistics import neighbor_whitening
from skgpx.bases import NeighborResidual, Nystroem

Array = NDArray[np.float64]

# Rows whose features are computed at a time.
_CHUNK = 4096


@dataclass(frozen=True)
class SparsePosterior:
    """Variances given the data: those of ``φᵀw``, and of what the basis leaves.

    Parameters
    ----------
    basis : Nystroem
    root : ndarray of shape (m, m)
        Lower Cholesky factor of the posterior precision of w.
    neighbors : NeighborResidual or None
        What the basis leaves, given the nearest rows; None for its prior.
    has_correlations : bool
        Whether its correlations between rows are those of the exact process: what the
        basis leaves is hardly anything, or is known from the nearest rows.
    """

    basis: Nystroem
    root: Array
    neighbors: NeighborResidual | None = None
    has_correlations: bool = True

    @cached_property
    def _inverse_root(self) -> Array:
        return invert_lower(self.root)

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    @property
    def floats_per_row(self) -> int:
        """Numbers in memory for the features of one row."""
        if self.neighbors is None:
            return self.basis.floats_per_row
        return self.neighbors.floats_per_row

    def half(self, features: Array) -> Array:
        """``L⁻¹ φ`` of each row, (n, m)."""
        return features @ self._inverse_root.T

    def features_and_residual(self, X: Array) -> tuple[Array, Array]:
        """Features (n, m) at rows, and the variance that they leave (n,)."""
        if self.neighbors is not None:
            return self.neighbors.features_and_variance(X)
        features = self.basis(X)
        return features, self.basis.residual_variance(X, features)

    def spread(self, X: Array) -> tuple[Array, Array]:
        """Posterior variance of ``φᵀw`` and prior variance of g at rows, (n,) each."""
        features, residual = self.features_and_residual(X)
        return np.sum(self.half(features) ** 2, axis=1), residual

    def covariance(self, X: Array) -> Array:
        """Posterior covariance between rows X, (n, n)."""
        features, _ = self.features_and_residual(X)
        half = self.half(features)
        if self.neighbors is None:
            residual = self.basis.residual_covariance(X, features)
        else:
            residual = self.neighbors.covariance(X)
        return half @ half.T + residual


@dataclass(frozen=True)
class SparseRows:
    """Rows whose covariance is that of a basis, and of independent combinations.

    ``Φ Φᵀ + (WᵀW)⁻¹``: W makes residual and noise of the rows white. It is sparse where
    the residual is that of a row given its nearest predecessors [1]_, and diagonal
    where it is taken to be independent noise [2]_.

    Parameters
    ----------
    posterior : SparsePosterior
    whitening : sparse array of shape (n, n)
        ``W``.
    features : ndarray of shape (n, m)
        ``W Φ``.
    noise : ndarray of shape (n,)
        Variance of the noise of each row.

    References
    ----------
    .. [1] Gyger, Furrer and Sigrist, "Vecchia-inducing-points full-scale approximations
       for Gaussian processes", 2025.
    .. [2] Snelson and Ghahramani, "Sparse Gaussian processes using pseudo-inputs",
       NeurIPS 2005.
    """

    posterior: SparsePosterior
    whitening: csr_array
    features: Array
    noise: Array

    @classmethod
    def of(
        cls,
        basis: Nystroem,
        X: Array,
        noise: Array,
        n_jobs: int | None,
        n_neighbors: int = 0,
        rng: np.random.Generator | None = None,
    ) -> SparseRows:
        """From rows, with the residual by nearest rows if `n_neighbors` > 0.

        O(n m^2) operations, n m numbers in memory (twice with neighbours). `rng` draws
        the order of the rows.
        """
        n, m = len(X), basis.n_basis
        blocks = [slice(i, min(i + _CHUNK, n)) for i in range(0, n, _CHUNK)]
        jobs = blas_jobs(n_jobs) if len(blocks) > 1 else 1
        chunks = [(X[rows],) for rows in blocks]
        features = np.concatenate(parallel_map(basis, chunks, jobs, in_threads=True))
        neighbors: NeighborResidual | None = None
        if n_neighbors:
            neighbors = NeighborResidual(basis, X, noise, features, n_neighbors)
            if rng is None:
                rng = np.random.default_rng(0)
            threads = n_workers(blas_jobs(n_jobs))
            nearest, count = neighbors.predecessors(rng, threads)
            W = neighbor_whitening(neighbors, nearest, count, n_jobs)
        else:
            total = noise + basis.residual_variance(X, features)
            W = diags_array(1.0 / np.sqrt(total), format="csr")
        white, gram = np.empty((n, m)), np.zeros((m, m))
        items = ((W[rows],) for rows in blocks)
        parts = parallel_stream(_whitened, items, jobs, features, in_threads=True)
        for rows, (own, part) in zip(blocks, parts, strict=True):
            white[rows] = own
            gram += part
        mirror(gram)
        posterior = SparsePosterior(basis, precision_root(gram, 1.0), neighbors)
        return cls(posterior, W, white, noise)

    def weights(self, white: Array) -> Array:
        """Posterior mean of w (m, k) given whitened values (n, k)."""
        with threads_for(len(white)):
            moment = self.features.T @ white
        root = self.posterior.root
        return solve_lower_transpose(root, solve_lower(root, moment))

    def precondition(self, V: Array) -> Array:
        """``(Φ Φᵀ + (WᵀW)⁻¹)⁻¹ V`` for V (n, k); O(n m k)."""
        white = self.whitening @ V
        weights = self.weights(white)
        with threads_for(len(white)):
            white -= self.features @ weights
        product: Array = self.whitening.T @ white
        return product

    @property
    def inducing_points(self) -> Array:
        """Inducing points, (m, d)."""
        return self.posterior.basis.inducing_points

    def log_density(self, Y: Array) -> Array:
        """Log density of each column of Y (n, k) under this covariance, (k,)."""
        volume = 2.0 * np.sum(np.log(np.diagonal(self.posterior.root)))
        volume -= 2.0 * np.sum(np.log(self.whitening.diagonal()))
        squares = np.sum(Y * self.precondition(Y), axis=0)
        density: Array = -0.5 * (squares + volume + len(Y) * np.log(2.0 * np.pi))
        return density

    def start(self, X: Array, B: Array) -> Array | None:
        """Coefficients of kernel sections at X that predict as the sparse process.

        None unless the inducing points are rows of X.
        """
        basis = self.posterior.basis
        position = {row.tobytes(): i for i, row in enumerate(X + 0.0)}
        found = [position.get(z.tobytes(), -1) for z in basis.inducing_points + 0.0]
        if min(found) < 0:
            return None
        start, weights = np.zeros(B.shape), self.weights(self.whitening @ B)
        start[found] = solve_lower_transpose(np.asarray(basis.root), weights)
        return start

    def spread_without(self, rows: slice) -> tuple[Array, Array]:
        """:meth:`SparsePosterior.spread` at some rows, each given all others."""
        neighbors = self.posterior.neighbors
        noise = self.noise[rows]
        if neighbors is not None:
            chosen = np.arange(len(self.noise))[rows]
            features, residual = neighbors.features_and_variance(
                neighbors.rows[chosen],
                nearest=neighbors.nearest_others(chosen),
            )
        else:
            scale = self.whitening.diagonal()[rows]
            features = self.features[rows] / scale[:, np.newaxis]
            residual = np.maximum(1.0 / scale**2 - noise, 0.0)
        h = np.sum(self.posterior.half(features) ** 2, axis=1)
        h /= noise_share(h, residual + noise, least=1e-6)
        return np.minimum(h, np.sum(features**2, axis=1)), residual


def _whitened(features: Array, whitening: csr_array) -> tuple[Array, Array]:
    """Whitened features of some rows, and the products of these."""
    white = whitening @ features
    gram = np.zeros((features.shape[1],) * 2)
    add_gram(np.ascontiguousarray(white.T), gram, fresh=True)
    return white, gram
