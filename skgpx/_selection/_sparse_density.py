"""Held-out density of a sparse model: the judge of kernels and of the noise."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from skgpx._numerics.linalg import solve_lower
from skgpx._numerics.regression import (
    WeightStatistics,
    precision_root,
    weight_statistics,
)
from skgpx._validation import Rows
from skgpx.bases import Nystroem

Array = NDArray[np.float64]

# Rows of a small model.
_ROWS = 12_000
# What of the logarithm of the noise variance is not resolved, and steps at most.
_RESOLUTION, _MAX_STEPS = 0.1, 12


class KeptOut(NamedTuple):
    """Rows that judge a model of others, seen through its basis.

    Drawn with probabilities proportional to their weights, so that each counts once.

    Attributes
    ----------
    features : ndarray of shape (n, m)
    residual : ndarray of shape (n,)
        Prior variance outside the basis.
    y, weights : ndarray of shape (n,)
    known : ndarray of shape (n,) or None
        Relative noise variances.
    """

    features: Array
    residual: Array
    y: Array
    weights: Array
    known: Array | None = None

    @classmethod
    def of(cls, basis: Any, rows: Rows) -> KeptOut:
        """Rows in a basis."""
        features = basis(rows.X)
        residual = basis.residual_variance(rows.X, features)
        return cls(features, residual, rows.y, rows.precisions, rows.known)

    def statistics(self) -> WeightStatistics:
        """Sums over these rows."""
        return weight_statistics(self.features, self.y, self.weights, self.residual)

    def density(self, statistics: WeightStatistics, noise_variance: float) -> float:
        """Mean log predictive density of y given other rows, in nats.

        ``N(φᵀw̄, |Rᵀφ|² + var g + σ²)`` with ``w ~ N(w̄, RRᵀ)``; O(m^3 + n m^2).
        """
        L = precision_root(statistics.gram, noise_variance)
        half = solve_lower(L, self.features.T)
        mean = half.T @ solve_lower(L, statistics.moment) / noise_variance
        spread = np.einsum("ij,ij->j", half, half)
        known = 1.0 if self.known is None else self.known
        variance = spread + self.residual + noise_variance * known
        square = (self.y - mean) ** 2 / variance
        density = -0.5 * (square + np.log(2.0 * np.pi * variance))
        return float(np.mean(density))

    def best_noise(
        self, statistics: WeightStatistics, low: float, high: float
    ) -> tuple[float, float]:
        """Noise variance of the largest density between two, and that density."""
        found = optimize.minimize_scalar(
            lambda log_noise: -self.density(statistics, float(np.exp(log_noise))),
            bounds=(np.log(low), np.log(high)),
            method="bounded",
            options={"xatol": _RESOLUTION, "maxiter": _MAX_STEPS},
        )
        return float(np.exp(found.x)), -float(found.fun)


def sparse_density(
    kernel: Any, noise: tuple[float, float], rows: Rows, judges: Rows, n_points: int
) -> float:
    """Mean log predictive density of rows under a sparse model of others, in nats.

    The model has `n_points` of at most 12 000 rows as its inducing points, both evenly
    spread over the order of the rows, and the noise variance that serves it best
    between the two given; O(12 000 * n_points^2).
    """
    chosen = _spread(len(rows.y), _ROWS)
    some = rows.take(chosen)
    X, y, weights = some.X, some.y, some.precisions
    basis = Nystroem.from_kernel(kernel, X[_spread(len(X), n_points)])
    features = basis(X)
    residual = basis.residual_variance(X, features)
    statistics = weight_statistics(features, y, weights, residual)
    judged = KeptOut.of(basis, judges)
    low, high = noise
    if low == high:
        return judged.density(statistics, low)
    return judged.best_noise(statistics, low, high)[1]


def _spread(n: int, size: int) -> Any:
    """At most `size` of n positions, evenly spread."""
    return np.unique(np.linspace(0, n - 1, min(n, size)).astype(np.intp))
