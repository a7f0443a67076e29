"""Thompson sampling in weight space: Bayesian regression on random Fourier features."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, solve_triangular

from skgpx._draws import FourierFeatures, FunctionDraws
from skgpx._draws._functions import linear_draws

Array = NDArray[np.float64]


def sample_weight_space(
    X: Array,
    y: Array,
    n_features: int,
    n_draws: int,
    length_scale: float,
    noise_variance: float,
    rng: np.random.Generator,
) -> FunctionDraws:
    """Draws of the linear model that approximates a Matern-5/2 process.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    y : ndarray of shape (n,)
    n_features : int
        b, even: b / 2 independent frequencies, each with a cosine and a sine.
    n_draws : int
    length_scale, noise_variance : float
    rng : numpy.random.Generator

    Notes
    -----
    ``w | y ~ N(A⁻¹ Φᵀ y, σ² A⁻¹)`` with ``A = ΦᵀΦ + σ² I``; O(b³) time.
    """
    R = n_features // 2
    # a Student t with 2 ν = 5 degrees of freedom
    normal = rng.standard_normal((R, X.shape[1]))
    omega = normal / np.sqrt(rng.gamma(2.5, 1.0 / 2.5, size=(R, 1))) / length_scale
    features = FourierFeatures(omega, np.full(R, np.sqrt(1.0 / R)))
    Phi = features(X)
    L = np.linalg.cholesky(Phi.T @ Phi + noise_variance * np.eye(2 * R))
    mean = cho_solve((L, True), Phi.T @ y)
    noise = rng.standard_normal((2 * R, n_draws))
    spread = solve_triangular(L, noise, lower=True, trans=1)
    weights = mean[:, np.newaxis] + np.sqrt(noise_variance) * spread
    return linear_draws(features, weights[:, np.newaxis, :])
