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
from skgpx._numerics.regression import precision_root
from skgpx._parallel import blas_jobs, parallel_stream
from skgpx.bases import Nystroem

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
    """

    basis: Nystroem
    root: Array

    @cached_property
    def _inverse_root(self) -> Array:
        return invert_lower(self.root)

    def __getstate__(self) -> dict[str, Any]:
        return {"basis": self.basis, "root": self.root}

    def half(self, features: Array) -> Array:
        """``L⁻¹ φ`` of each row, (n, m)."""
        return features @ self._inverse_root.T

    def spread(self, X: Array) -> tuple[Array, Array]:
        """Posterior variance of ``φᵀw`` and prior variance of g at rows, (n,) each."""
        features = self.basis(X)
        left = self.basis.residual_variance(X, features)
        return np.sum(self.half(features) ** 2, axis=1), left

    def covariance(self, X: Array) -> Array:
        """Posterior covariance between rows X, (n, n)."""
        features = self.basis(X)
        half = self.half(features)
        return half @ half.T + self.basis.residual_covariance(X, features)


@dataclass(frozen=True)
class SparseRows:
    """Rows whose covariance is that of a basis, and of independent combinations.

    ``Φ Φᵀ + (WᵀW)⁻¹``: W makes residual and noise of the rows white. As the residual is
    taken to be independent noise of each row, the fully independent training
    conditional [1]_, W is diagonal.

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
    .. [1] Snelson and Ghahramani, "Sparse Gaussian processes using pseudo-inputs",
       NeurIPS 2005.
    """

    posterior: SparsePosterior
    whitening: csr_array
    features: Array
    noise: Array

    @classmethod
    def of(
        cls, basis: Nystroem, X: Array, noise: Array, n_jobs: int | None
    ) -> SparseRows:
        """From rows; O(n m^2) operations, n m numbers in memory."""
        chunks = [slice(i, i + _CHUNK) for i in range(0, len(X), _CHUNK)]
        items = ((X[rows], noise[rows]) for rows in chunks)
        jobs = blas_jobs(n_jobs) if len(chunks) > 1 else 1
        scale, features = np.empty(len(X)), np.empty((len(X), basis.n_basis))
        gram = np.zeros((basis.n_basis,) * 2)
        parts = parallel_stream(_chunk, items, jobs, basis, in_threads=True)
        for rows, part in zip(chunks, parts, strict=True):
            scale[rows], features[rows] = part[:2]
            gram += part[2]
        mirror(gram)
        posterior = SparsePosterior(basis, precision_root(gram, 1.0))
        return cls(posterior, diags_array(scale, format="csr"), features, noise)

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
        half = self.posterior.half(self.features[rows])
        own = np.einsum("ij,ij->i", half, half)
        # Sherman-Morrison: h / (1 - h / D), of h in units of D
        total = 1.0 / self.whitening.diagonal()[rows] ** 2
        h = total * own / np.maximum(1.0 - own, 1e-6)
        return h, np.maximum(total - self.noise[rows], 0.0)


def _chunk(basis: Nystroem, X: Array, noise: Array) -> tuple[Array, Array, Array]:
    """Scales and scaled features of some rows, and the products of these."""
    features, gram = basis(X), np.zeros((basis.n_basis,) * 2)
    scale = 1.0 / np.sqrt(noise + basis.residual_variance(X, features))
    features = features * scale[:, np.newaxis]
    add_gram(np.ascontiguousarray(features.T), gram, fresh=True)
    return scale, features, gram
