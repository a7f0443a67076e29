"""Variance of a stationary kernel made periodic: the sum over all images of a point.

``Σ_n k(n period) = Σ_k S(ω_k) / Π period``. A lengthscale may be far below or far above
the period: neither sum then serves every kernel. RBF and Matern kernels are mixtures of
Gaussians, each of which has the better of both sums.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln
from sklearn.gaussian_process.kernels import RBF, Matern

from skgpx._numerics.fourier_index import Box, half_space
from skgpx._numerics.theta import theta_sum

Array = NDArray[np.float64]
Density = Callable[[Any, Array], tuple[Array, Array]]

# Step in the logarithm of the mixing variable: trapezoids, errors below 1e-15.
_STEP = 0.2
# Lengthscale per period below which no image counts: exp(-9² / 2) = 3e-18.
_NO_IMAGE = 1.0 / 9.0
# Images on each side of kernels that are no known mixture, and waves of the last of
# three sums, by the number of inputs.
_MOST_IMAGES = {1: 27, 2: 9, 3: 3}
_MOST_WAVES = {1: 1024, 2: 64, 3: 16}


def periodic_variance(kernel: Any, box: Box, density: Density) -> tuple[float, Array]:
    """``Σ_n k(n period)`` of a kernel of variance one, and its gradient in theta.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
    box : Box
    density : callable
        Its spectral density, see :func:`skgpx.bases.register_spectral_density`.

    Notes
    -----
    Exact to rounding for RBF and Matern. Of other kernels the sum over images is taken
    where it converges, and otherwise the sum of the eigenvalues, extrapolated as a
    geometric series of doubled numbers of waves: 1e-5 for a density with the decay of
    the Matern kernel of order 1/2 in one dimension.
    """
    if type(kernel) not in (RBF, Matern):
        images = _sum_of_images(kernel, box)
        return _sum_of_waves(kernel, box, density) if images is None else images
    d = len(box.period)
    nu = float(kernel.nu) if type(kernel) is Matern else np.inf
    scales = np.broadcast_to(np.asarray(kernel.length_scale, float), (d,))
    total, by_input = mixture_variance(scales / box.period, nu)
    if kernel.hyperparameter_length_scale.fixed:
        return total, np.empty(0)
    if np.size(kernel.length_scale) == 1:
        return total, by_input.sum(keepdims=True)
    return total, by_input


def mixture_variance(ratios: Array, nu: float) -> tuple[float, Array]:
    """Variance of the periodic Matern process of order nu (inf for the RBF).

    Parameters
    ----------
    ratios : ndarray of shape (d,)
        Lengthscale over period of each input.
    nu : float

    Returns
    -------
    total : float
    by_input : ndarray of shape (d,)
        Derivative in each log-lengthscale.

    Notes
    -----
    ``k(r) = E exp(-|r/ℓ|² / (2g))`` with g ~ Gamma(ν, ν): a mixture of Gaussians of
    lengthscales ``ℓ √g``, whose sums over images are products over the inputs.
    """
    log_g, log_weights = _gamma_grid(nu, np.max(ratios), len(ratios))
    x = np.sqrt(2.0 * np.pi) * np.exp(0.5 * log_g)[:, np.newaxis] * ratios
    sums = theta_sum(x)
    logs = sums.log_images.sum(axis=1)
    weights = np.exp(log_weights)
    # one for the point itself; its images are added without cancellation
    total = 1.0 + float(weights @ np.expm1(logs))
    by_input = np.exp(log_weights + logs) @ sums.slope
    return total, by_input


def _gamma_grid(nu: float, ratio: float, d: int) -> tuple[Array, Array]:
    """Logarithms of nodes and weights for g ~ Gamma(ν, ν) where images count.

    A sum of waves grows at most as ``g^(d/2)``: nodes end where that times the density
    is nothing.
    """
    if not np.isfinite(nu):
        return np.zeros(1), np.zeros(1)
    spread = 1.0 / np.sqrt(nu)
    high = np.log1p(45.0 * (spread + spread**2) + 4.0 * d / nu)
    # below, no image counts, or there is no mass
    low = max(2.0 * np.log(_NO_IMAGE / ratio), -13.0 * spread - 45.0 / nu)
    nodes = np.arange(high, min(low, high) - _STEP, -min(_STEP, 0.25 * spread))
    log_density = nu * (np.log(nu) + nodes - np.exp(nodes)) - gammaln(nu)
    return nodes, log_density + np.log(min(_STEP, 0.25 * spread))


def _sum_of_images(kernel: Any, box: Box) -> tuple[float, Array] | None:
    """The sum if its last shell is nothing, otherwise None."""
    d = len(box.period)
    for n in range(1, _MOST_IMAGES[d] + 1):
        axes = [np.arange(-n, n + 1)] * d
        steps = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, d)
        outer = np.abs(steps).max(axis=1) == n
        row = kernel(np.zeros((1, d)), steps * box.period)[0]
        if row[outer].sum() <= 1e-15 * row.sum():
            # the point itself goes first: its row of the gradient is wanted
            steps = np.concatenate((np.zeros((1, d)), steps[steps.any(axis=1)]))
            K, gradient = kernel(steps * box.period, eval_gradient=True)
            return float(K[0].sum()), gradient[0].sum(axis=0)
    return None


def _sum_of_waves(kernel: Any, box: Box, density: Density) -> tuple[float, Array]:
    """Sum of the eigenvalues; what follows the last as a geometric series."""
    d, volume = len(box.period), np.prod(box.period)
    most = _MOST_WAVES[d]
    waves = np.concatenate((np.zeros((1, d), np.int64), half_space(np.full(d, most))))
    values, gradients = density(kernel, box.frequencies(waves))
    length = np.abs(waves).max(axis=1)
    twice = np.where(length > 0, 2.0, 1.0) / volume
    both = np.column_stack((values, gradients)) * twice[:, np.newaxis]
    quarter, half, whole = (both[length <= most // q].sum(axis=0) for q in (4, 2, 1))
    first, last = half - quarter, whole - half
    apart = first[0] - last[0]
    if last[0] <= 1e-15 * whole[0] or apart <= 0.0:
        return float(whole[0]), whole[1:]
    # last² / (first - last), the sum of a series of ratio last / first
    rest = last[0] ** 2 / apart
    slope = (2.0 * last[0] * last - rest * (first - last)) / apart
    return float(whole[0] + rest), whole[1:] + slope[1:]
