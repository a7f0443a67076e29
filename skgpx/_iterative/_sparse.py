"""A sparse process of the same rows: preconditioner, start, and variances."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import csr_array, diags_array

from skgpx._draws import WithoutCaches
from skgpx._numerics.blas_threads import threads_for
from skgpx._numerics.linalg import (
    add_gram,
    invert_lower,
    mirror,
    solve_lower,
    solve_lower_transpose,
)
from skgpx._numerics.regression import noise_share, precision_root
from skgpx._numerics.rows import row_slices
from skgpx._row_budgets import CHUNK_ROWS
from skgpx._shell.parallel import blas_jobs, n_workers, parallel_map, parallel_stream
from skgpx._shell.row_statistics import neighbor_whitening
from skgpx._types import Array, Generator
from skgpx.bases import NeighborResidual, Nystroem


@dataclass(frozen=True)
class SparsePosterior(WithoutCaches):
    """Variances given the data: of ``φᵀw``, and of the residual g of the basis.

    Parameters
    ----------
    basis : Nystroem
    root : ndarray of shape (m, m)
        Lower Cholesky factor of the posterior precision of w.
    neighbors : NeighborResidual or None
        g given the nearest rows; None for its prior.
    has_correlations : bool
        Whether its correlations between rows are those of the exact process: g is
        negligible, or is determined by the nearest rows.
    """

    basis: Nystroem
    root: Array
    neighbors: NeighborResidual | None = None
    has_correlations: bool = True

    @cached_property
    def _inverse_root(self) -> Array:
        return invert_lower(self.root)

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
        """Features (n, m) at rows, and the variance of g there (n,)."""
        if self.neighbors is not None:
            features, variance = self.neighbors.features_and_variance(X)
            return features[0], variance[0]
        features = self.basis(X)
        return features, self.basis.residual_variance(X, features)

    def spread(self, X: Array) -> tuple[Array, Array]:
        """Posterior variance of ``φᵀw`` and variance of g at rows, (n,) each."""
        features, residual = self.features_and_residual(X)
        # h = |L⁻¹ φ|²
        h = np.sum(self.half(features) ** 2, axis=1)
        return h, residual

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
    """Rows with the covariance ``Φ Φᵀ + (WᵀW)⁻¹``: of a basis, its residual and noise.

    W makes residual and noise of the rows white. It is sparse where the residual of a
    row is conditioned on its nearest predecessors [1]_, and diagonal where the residual
    counts as independent noise [2]_.

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
        rng: Generator | None = None,
    ) -> SparseRows:
        """Process of rows, with the residual by nearest rows if `n_neighbors` > 0.

        Parameters
        ----------
        basis : Nystroem
            Basis of m inducing points.
        X : ndarray of shape (n, d)
        noise : ndarray of shape (n,)
            Variance of the noise of each row.
        n_jobs : int or None
        n_neighbors : int, default=0
        rng : numpy.random.Generator, default=None
            Draws the order of the rows.

        Notes
        -----
        O(n m^2) operations, n m numbers in memory (twice with neighbours).
        """
        n = len(X)
        m = basis.n_basis
        blocks = row_slices(n, CHUNK_ROWS)
        jobs: int | None = 1
        if len(blocks) > 1:
            jobs = blas_jobs(n_jobs)
        chunks = [(X[rows],) for rows in blocks]
        features = np.concatenate(parallel_map(basis, chunks, jobs, in_threads=True))
        # W
        neighbors: NeighborResidual | None = None
        if n_neighbors:
            neighbors = NeighborResidual(
                basis=basis,
                rows=X,
                noise=noise[:, np.newaxis],
                features=features,
                n_neighbors=n_neighbors,
            )
            if rng is None:
                rng = np.random.default_rng(0)
            n_threads = n_workers(blas_jobs(n_jobs))
            nearest, count = neighbors.predecessors(rng, n_threads)
            (whitening,) = neighbor_whitening(neighbors, nearest, count, n_jobs)
        else:
            variance = noise + basis.residual_variance(X, features)
            whitening = diags_array(1.0 / np.sqrt(variance), format="csr")
        # L Lᵀ = I + (WΦ)ᵀ WΦ
        white = np.empty((n, m))
        gram = np.zeros((m, m))
        products = parallel_stream(
            _whiten,
            ((whitening[rows],) for rows in blocks),
            jobs,
            features,
            in_threads=True,
        )
        for rows, (white_block, gram_of_block) in zip(blocks, products, strict=True):
            white[rows] = white_block
            gram += gram_of_block
        mirror(gram)
        posterior = SparsePosterior(basis, precision_root(gram, 1.0), neighbors)
        return cls(posterior, whitening, white, noise)

    def weights(self, white: Array) -> Array:
        """Posterior mean of w (m, k) given whitened values (n, k)."""
        # (L Lᵀ)⁻¹ (WΦ)ᵀ white
        with threads_for(len(white)):
            moment = self.features.T @ white
        root = self.posterior.root
        return solve_lower_transpose(root, solve_lower(root, moment))

    def precondition(self, V: Array) -> Array:
        """``(Φ Φᵀ + (WᵀW)⁻¹)⁻¹ V`` for V (n, k); O(n m k)."""
        # Wᵀ [I - WΦ (L Lᵀ)⁻¹ (WΦ)ᵀ] W V: the lemma of Woodbury
        white = self.whitening @ V
        weights = self.weights(white)
        with threads_for(len(white)):
            white -= self.features @ weights
        return self.whitening.T @ white

    @property
    def inducing_points(self) -> Array:
        """Inducing points, (m, d)."""
        return self.posterior.basis.inducing_points

    def log_density(self, Y: Array) -> Array:
        """Log density of each column of Y (n, k) under this covariance, (k,)."""
        # C = Φ Φᵀ + (WᵀW)⁻¹,  log det C = 2 log det L - 2 log det W
        log_det = 2.0 * np.sum(np.log(np.diagonal(self.posterior.root)))
        log_det -= 2.0 * np.sum(np.log(self.whitening.diagonal()))
        # yᵀ C⁻¹ y
        squares = np.sum(Y * self.precondition(Y), axis=0)
        return -0.5 * (squares + log_det + len(Y) * np.log(2.0 * np.pi))

    def start(self, X: Array, B: Array) -> Array | None:
        """Coefficients of kernel sections at X that predict as the sparse process.

        None unless the inducing points are rows of X.
        """
        basis = self.posterior.basis
        position = {row.tobytes(): i for i, row in enumerate(X + 0.0)}
        points = basis.inducing_points + 0.0
        rows_of_points = [position.get(point.tobytes(), -1) for point in points]
        if min(rows_of_points) < 0:
            return None
        # φᵀw = k(·, Z) L_Z⁻ᵀ w,  L_Z L_Zᵀ = k(Z, Z)
        weights = self.weights(self.whitening @ B)
        coefficients = np.zeros(B.shape)
        root = np.asarray(basis.root)
        coefficients[rows_of_points] = solve_lower_transpose(root, weights)
        return coefficients

    def spread_without(self, rows: slice) -> tuple[Array, Array]:
        """:meth:`SparsePosterior.spread` at some rows, each given all other rows."""
        neighbors = self.posterior.neighbors
        noise = self.noise[rows]
        if neighbors is not None:
            chosen = np.arange(len(self.noise))[rows]
            nearest, count = neighbors.nearest_others(chosen)
            all_features, variance = neighbors.features_and_variance(
                neighbors.rows[chosen],
                nearest,
                count,
            )
            features = all_features[0]
            residual = variance[0]
        else:
            # W = diag(residual + noise)^-½
            scale = self.whitening.diagonal()[rows]
            features = self.features[rows] / scale[:, np.newaxis]
            residual = np.maximum(1.0 / scale**2 - noise, 0.0)
        h = np.sum(self.posterior.half(features) ** 2, axis=1)
        # Sherman-Morrison: without the information of the row itself
        h /= noise_share(h, residual + noise, least=1e-6)
        prior = np.sum(features**2, axis=1)
        return np.minimum(h, prior), residual


def _whiten(features: Array, whitening: csr_array) -> tuple[Array, Array]:
    """Whitened features of a block of rows (p, m), and their products (m, m).

    The products are in one triangle.
    """
    white = whitening @ features
    m = features.shape[1]
    gram = np.zeros((m, m))
    add_gram(np.ascontiguousarray(white.T), gram, fresh=True)
    return white, gram
