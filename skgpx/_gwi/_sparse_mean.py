"""The mean of GWI-SVGP: least squares in the basis of the covariance."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics.linalg import solve_lower
from skgpx._numerics.regression import (
    WeightStatistics,
    posterior_mean_from,
    precision_root,
)
from skgpx._row_statistics import row_statistics
from skgpx._validation import Rows, row_blocks

Array = NDArray[np.float64]


class SparseMean(NamedTuple):
    """``m(x) = φ(x)ᵀw``.

    Attributes
    ----------
    weights : ndarray of shape (m,)
    values : ndarray of shape (n,)
        At the rows.
    leave_one_out : ndarray of shape (n,)
        At each row, of the fit without that row.
    """

    weights: Array
    values: Array
    leave_one_out: Array


def sparse_mean(
    basis: Any, rows: Rows, statistics: WeightStatistics, noise_variance: float
) -> SparseMean:
    """Weights that minimise ``Σ ω (y - Φw)² / (2 σ²) + ½ |w|²``.

    Notes
    -----
    Without row i the value there is ``y - (y - φᵀw) / (1 - h)``, with the leverage ``h
    = ω φᵀ (σ² I + Φᵀ diag(ω) Φ)⁻¹ φ``.
    """
    L = precision_root(statistics.gram, noise_variance)
    weights = posterior_mean_from(statistics, noise_variance, L)
    values, leave_one_out = np.empty(len(rows.y)), np.empty(len(rows.y))
    for block in row_blocks(len(rows.y), 4 * len(L)):
        features = basis(rows.X[block])
        values[block] = features @ weights
        half = solve_lower(L, features.T)
        leverage = rows.weights[block] * np.sum(half**2, axis=0) / noise_variance
        misfit = rows.y[block] - values[block]
        leave_one_out[block] = rows.y[block] - misfit / (1.0 - leverage)
    return SparseMean(weights, values, leave_one_out)


class SparseFit(NamedTuple):
    """A mean in a basis, and the variance that the basis leaves unexplained.

    Attributes
    ----------
    basis : Nystroem
    statistics : WeightStatistics
    mean : SparseMean
    error : float
        Mean squared leave-one-out error.
    unexplained : float
        Mean of ``var g / (2 σ²)`` over the rows, in nats.
    """

    basis: Any
    statistics: WeightStatistics
    mean: SparseMean
    error: float
    unexplained: float

    @classmethod
    def of(
        cls, basis: Any, rows: Rows, noise_variance: float, n_jobs: int | None
    ) -> SparseFit:
        """Fit of rows in a basis."""
        statistics = row_statistics(basis, rows, n_jobs)
        mean = sparse_mean(basis, rows, statistics, noise_variance)
        error = float(
            np.average((rows.y - mean.leave_one_out) ** 2, weights=rows.weights)
        )
        left = statistics.residual / (2.0 * noise_variance * statistics.weight)
        return cls(basis, statistics, mean, error, float(left))
