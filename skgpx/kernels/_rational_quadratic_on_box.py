"""Eigenvalues of rational quadratic kernels: mixtures of RBFs.

``(1 + r²/(2αℓ²))^-α = E exp(-s r²/(2ℓ²))`` with s ~ Gamma(α, α).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma, gammaln
from sklearn.gaussian_process.kernels import RationalQuadratic

from skgpx._numerics.fourier_index import Box
from skgpx._numerics.theta import theta_sum

Array = NDArray[np.float64]

# Nodes of the mixture.
_NODES = 240


def rational_quadratic(
    kernel: RationalQuadratic, omega: Array, box: Box
) -> tuple[Array, Array, float, Array]:
    """Eigenvalues of a RationalQuadratic kernel of variance one on a box.

    Its heavy tail has no sum over images for ``α <= d/2``. The eigenvalue of the
    constant is therefore the one that makes the variance that of the kernel, or zero if
    the other waves have more.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.RationalQuadratic
    omega : ndarray of shape (R, d)
        Angular frequencies of waves of the box.
    box : Box

    Returns
    -------
    values : ndarray of shape (R,)
    slopes : ndarray of shape (R, p)
        In ``kernel.theta``.
    total : float
        Sum of the eigenvalues of all functions.
    total_slope : ndarray of shape (p,)
    """
    d, alpha = len(box.period), float(kernel.alpha)
    square = np.sum((omega * kernel.length_scale) ** 2, axis=1)
    front = np.prod(np.sqrt(2.0 * np.pi) * kernel.length_scale / box.period)
    constant = ~omega.any(axis=1)
    s, weights = _gamma_rule(alpha)
    score = 1.0 + np.log(alpha) - digamma(alpha) + np.log(s) - s
    half = square[:, np.newaxis] / (2.0 * s)
    weights = front * weights * s ** (-0.5 * d)
    terms = weights * np.exp(-half)
    values = np.where(constant, 0.0, terms.sum(axis=1))
    slopes = np.stack([alpha * (terms @ score), np.sum(terms * (d - 2.0 * half), 1)], 1)
    sums, growth = _all_waves(s, kernel.length_scale / box.period)
    others = float(weights @ sums)
    slope = np.array(
        [alpha * (weights @ (score * sums)), weights @ (d * sums + growth)]
    )
    # across a box much wider one way than the other the waves may have more than one
    total, total_slope = (1.0, 0.0 * slope) if others < 1.0 else (others, slope)
    values[constant], slopes[constant] = total - others, total_slope - slope
    fixed = kernel.hyperparameter_alpha.fixed, kernel.hyperparameter_length_scale.fixed
    free = ~np.array(fixed)
    return values, slopes[:, free], total, total_slope[free]


def _all_waves(s: Array, ratios: Array) -> tuple[Array, Array]:
    """``Σ_{k≠0} exp(-|2π k r|²/(2s))`` over all waves, and its slope in log r.

    Parameters
    ----------
    s : ndarray of shape (q,)
    ratios : ndarray of shape (d,)
        Lengthscale over period, ``r``, of each input.
    """
    theta = theta_sum(np.sqrt(2.0 * np.pi / s)[:, np.newaxis] * ratios)
    # the product of all sums, less one, without cancellation
    logs = theta.log_waves.sum(axis=1)
    return np.expm1(logs), np.exp(logs) * np.sum(theta.slope - 1.0, axis=1)


def _gamma_rule(alpha: float) -> tuple[Array, Array]:
    """Nodes and weights for expectations under Gamma(α, α): trapezoids in log s."""
    spread = 1.0 / np.sqrt(alpha)
    low = (
        max(min(-12.0 * spread, -40.0 / alpha), -40.0) if alpha < 30.0 else -12 * spread
    )
    u = np.linspace(low, np.log1p(40.0 * (spread + spread**2)), _NODES)
    log_density = alpha * (np.log(alpha) + u - np.exp(u)) - gammaln(alpha)
    weights = np.exp(log_density) * (u[1] - u[0])
    return np.exp(u), weights
