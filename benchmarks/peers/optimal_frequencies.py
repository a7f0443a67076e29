"""Frequencies with the least expected error of an RBF, for normal rows.

Differences of rows N(0, s/2 I), in lengthscales, are δ ~ N(0, s I). The mean square of
``1/R Σ_r cos(ω_r·δ) - exp(-|δ|²/2)`` is in closed form, and no equal-weight features
have a smaller one than its minimum; it knows the law of the rows and the kernel.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

Array = NDArray[np.float64]


def mean_square(frequencies: Array, s: float) -> tuple[float, Array]:
    """Mean square error over that of a Gram matrix of zeros, and its slope (R, d)."""
    R, d = frequencies.shape
    norms, inner = np.sum(frequencies**2, axis=1), frequencies @ frequencies.T
    # 2 E cos(a·δ) cos(b·δ) = exp(-s|a - b|²/2) + exp(-s|a + b|²/2)
    near = np.exp(-0.5 * s * (norms[:, np.newaxis] + norms - 2.0 * inner))
    far = np.exp(-0.5 * s * (norms[:, np.newaxis] + norms + 2.0 * inner))
    # E cos(a·δ) exp(-|δ|²/2), with t = s / (1 + s)
    t, scale = s / (1.0 + s), (1.0 + 2.0 * s) ** (0.5 * d)
    cross = (1.0 + s) ** (-0.5 * d) * np.exp(-0.5 * t * norms)
    value = (0.5 * (near.sum() + far.sum()) / R - 2.0 * cross.sum()) / R
    slope = (near - far) @ frequencies - (near + far).sum(axis=1)[:, None] * frequencies
    slope = s / R**2 * slope
    slope += 2.0 * t / R * cross[:, np.newaxis] * frequencies
    return float(value * scale + 1.0), slope * scale


def optimal(start: Array, s: float) -> Array:
    """Frequencies (R, d) at a local minimum of `mean_square`."""

    def loss(flat: Array) -> tuple[float, Array]:
        value, slope = mean_square(flat.reshape(start.shape), s)
        return value, slope.ravel()

    options = {"maxiter": 1000, "ftol": 1e-15, "gtol": 1e-10}
    found = minimize(loss, start.ravel(), jac=True, method="L-BFGS-B", options=options)
    return np.asarray(found.x).reshape(start.shape)
