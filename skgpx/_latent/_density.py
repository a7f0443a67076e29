"""Joint log density of noisy observations of a latent model."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics.linalg import cholesky, solve_lower

Array = NDArray[np.float64]


def joint_log_density(model: Any, X: Array, y: Array, noise_variance: Array) -> float:
    """Log density of observations y (p, c) of f at X (p, d), with noise (p,).

    Parameters
    ----------
    model : LatentModel
        Whose law is one Gaussian process for each output.

    Notes
    -----
    O(p^3) for each output.
    """
    mean, total = model.marginals(X).moments()[0], 0.0
    for o in range(model.n_outputs):
        covariance = model.covariance(X, o)
        covariance[np.diag_indices(len(X))] += noise_variance
        L = cholesky(covariance).L
        white = solve_lower(L, y[:, o] - mean[:, o])
        total -= 0.5 * float(white @ white) + float(np.log(np.diagonal(L)).sum())
    return total - 0.5 * y.size * math.log(2.0 * math.pi)
