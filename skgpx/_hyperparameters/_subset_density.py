"""Held-out density of a small sparse model: the judge of two settings of a kernel."""

from __future__ import annotations

from typing import Any

import numpy as np

from skgpx._numerics.regression import posterior, weight_statistics
from skgpx._validation import Rows
from skgpx.bases import Nystroem

# Inducing points and rows of the model.
_POINTS, _ROWS = 600, 12_000


def sparse_density(
    kernel: Any, noise_variance: float, rows: Rows, judges: Rows
) -> float:
    """Mean log predictive density of rows under a sparse model of others, in nats.

    The model has 600 of at most 12 000 rows as its inducing points, both evenly
    spread over the order of the rows; O(12 000 * 600^2).
    """
    chosen = _spread(len(rows.y), _ROWS)
    X, y, weights = (values[chosen] for values in rows)
    basis = Nystroem.from_kernel(kernel, X[_spread(len(X), _POINTS)])
    features = basis(X)
    residual = basis.residual_variance(X, features)
    law = posterior(weight_statistics(features, y, weights, residual), noise_variance)
    features = basis(judges.X)
    mean = features @ law.mean[:, 0]
    # var f = |Rᵀφ|² + var g
    spread = np.sum((features @ law.root[0]) ** 2, axis=1)
    variance = spread + basis.residual_variance(judges.X, features) + noise_variance
    square = (judges.y - mean) ** 2 / variance
    density = -0.5 * (square + np.log(2.0 * np.pi * variance))
    return float(np.average(density, weights=judges.weights))


def _spread(n: int, size: int) -> Any:
    """At most `size` of n positions, evenly spread."""
    return np.unique(np.linspace(0, n - 1, min(n, size)).astype(np.intp))
