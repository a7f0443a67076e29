"""A sparse process of the same rows: preconditioner, start, and variances."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics.blas_threads import threads_for
from skgpx._numerics.linalg import (
    NUGGET,
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
class SparseRows:
    """Rows seen by inducing points, with what these leave as noise of each row.

    ``Φ Φᵀ + diag(D)``, ``D = noise + var g``: the fully independent training
    conditional of sparse Gaussian processes [1]_.

    Parameters
    ----------
    basis : Nystroem
        Of m inducing points.
    features : ndarray of shape (n, m)
        ``Φ``.
    residual : ndarray of shape (n,)
        ``var g``.
    noise : ndarray of shape (n,)
    root : ndarray of shape (m, m)
        Lower Cholesky factor of ``I + Φᵀ D⁻¹ Φ``.

    References
    ----------
    .. [1] Snelson and Ghahramani, "Sparse Gaussian processes using pseudo-inputs",
       NeurIPS 2005.
    """

    basis: Nystroem
    features: Array
    residual: Array
    noise: Array
    root: Array

    @classmethod
    def of(
        cls, basis: Nystroem, X: Array, noise: Array, n_jobs: int | None
    ) -> SparseRows:
        """From rows; O(n m^2) operations, n m numbers in memory."""
        chunks = [slice(i, i + _CHUNK) for i in range(0, len(X), _CHUNK)]
        items = ((X[rows], noise[rows]) for rows in chunks)
        jobs = blas_jobs(n_jobs) if len(chunks) > 1 else 1
        m = basis.n_basis
        features, residual = np.empty((len(X), m)), np.empty(len(X))
        gram = np.zeros((m, m))
        parts = parallel_stream(_chunk, items, jobs, basis, in_threads=True)
        for rows, (own, left, part) in zip(chunks, parts, strict=True):
            features[rows], residual[rows] = own, left
            gram += part
        mirror(gram)
        return cls(basis, features, residual, noise, precision_root(gram, 1.0))

    @property
    def total(self) -> Array:
        """``D``, (n, 1)."""
        return (self.noise + self.residual)[:, np.newaxis]

    def weights(self, B: Array) -> Array:
        """Posterior mean of the whitened weights (m, k) given values B (n, k)."""
        with threads_for(len(self.features)):
            moment = self.features.T @ (B / self.total)
        return solve_lower_transpose(self.root, solve_lower(self.root, moment))

    def precondition(self, V: Array) -> Array:
        """``(Φ Φᵀ + diag(D))⁻¹ V`` for V (n, k); O(n m k)."""
        weights = self.weights(V)
        with threads_for(len(self.features)):
            return (V - self.features @ weights) / self.total

    def start(self, X: Array, B: Array) -> Array | None:
        """Coefficients of kernel sections at X that predict as the sparse process.

        None unless the inducing points are rows of X.
        """
        position = {row.tobytes(): i for i, row in enumerate(X[::-1] + 0.0)}
        points = self.basis.inducing_points + 0.0
        found = [position.get(row.tobytes(), -1) for row in points]
        if min(found) < 0:
            return None
        start = np.zeros(B.shape)
        own = solve_lower_transpose(np.asarray(self.basis.root), self.weights(B))
        start[len(X) - 1 - np.array(found)] = own
        return start

    @cached_property
    def _inverse_root(self) -> Array:
        return invert_lower(self.root)

    def spread(self, X: Array) -> tuple[Array, Array]:
        """Posterior variance of ``φᵀw`` and prior variance of g at rows, (n,) each."""
        features = self.basis(X)
        left = self.basis.residual_variance(X, features)
        return np.sum((features @ self._inverse_root.T) ** 2, axis=1), left

    def spread_without(self, rows: slice) -> tuple[Array, Array]:
        """:meth:`spread` at some rows of the fit, each given all others."""
        half = self.features[rows] @ self._inverse_root.T
        own = np.einsum("ij,ij->i", half, half)
        # Sherman-Morrison: h / (1 - h / D)
        others = np.maximum(1.0 - own / self.total[rows, 0], 1e-6)
        return own / others, self.residual[rows]

    def covariance(self, X: Array) -> Array:
        """Posterior covariance between rows X, (n, n)."""
        features = self.basis(X)
        half = features @ self._inverse_root.T
        return half @ half.T + self.basis.residual_covariance(X, features)

    def reduced(self) -> SparseRows:
        """What predictions need, without the rows."""
        nothing = np.empty(0)
        features = np.empty((0, len(self.root)))
        return SparseRows(self.basis, features, nothing, nothing, self.root)

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


def _chunk(basis: Nystroem, X: Array, noise: Array) -> tuple[Array, Array, Array]:
    features = basis(X)
    residual = basis.residual_variance(X, features)
    gram = np.zeros((basis.n_basis,) * 2)
    half = features / np.sqrt(noise + residual)[:, np.newaxis]
    add_gram(np.ascontiguousarray(half.T), gram, fresh=True)
    return features, residual, gram


def floored(noise: Array, prior: Array) -> Array:
    """Noise variances that are not zero: at least a nugget of the prior variance."""
    return np.maximum(noise, NUGGET * float(np.mean(prior)))
