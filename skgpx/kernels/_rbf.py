"""RBF: ``k = exp(-|x - y|² / 2)`` in lengthscales."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import gammainccinv, ndtri
from sklearn.gaussian_process.kernels import RBF

from skgpx._numerics import radial
from skgpx.kernels._distances import (
    distance_pullback,
    length_scale_pullback,
    length_scale_slopes,
    scaled_frequencies,
    scaled_points,
    squared_distances,
    unit_diagonal,
)
from skgpx.kernels._records import Array, Pullback, fill_record
from skgpx.kernels._spectral_laws import EllipticalLaw, SpectralLaw


def matrix_and_pullback(
    kernel: RBF, X: Array, Y: Array | None
) -> tuple[Array, Pullback]:
    """Kernel matrix, and its derivatives in the lengthscales."""
    left, right = scaled_points(X, Y, kernel.length_scale)
    K = squared_distances(left, right)
    K *= -0.5
    np.exp(K, out=K)
    return K, length_scale_pullback(kernel, K, left, right)


def input_gradient(kernel: RBF, X: Array, Z: Array) -> tuple[Array, Pullback]:
    """Kernel matrix, and its derivatives in X."""
    length_scale = kernel.length_scale
    K = np.exp(-0.5 * cdist(X / length_scale, Z / length_scale) ** 2)
    return K, distance_pullback(K, X, Z, length_scale)


@dataclass(frozen=True)
class GaussianRadius:
    """``ω ~ N(0, I)``, so ``|ω|² ~ χ²(d)``."""

    def __call__(self, tail: Array, d: int) -> Array:
        """Radius that is exceeded with probability ``tail``."""
        # in one and two dimensions in closed form, which is faster
        if d == 1:
            return np.asarray(-ndtri(0.5 * tail), dtype=np.float64)
        if d == 2:
            return np.sqrt(-2.0 * np.log(tail))
        radius: Array = np.sqrt(2.0 * gammainccinv(d / 2.0, tail))
        return radius


def spectral_law(kernel: RBF, d: int) -> SpectralLaw:
    """Normal frequencies."""
    return EllipticalLaw(GaussianRadius(), np.asarray(kernel.length_scale), d)


def log_spectral_density(kernel: RBF, omega: Array) -> Array:
    """``Π ℓ (2π)^(-d/2) exp(-|ℓω|² / 2)``."""
    scaled, scales = scaled_frequencies(kernel, omega)
    front = np.sum(np.log(scales)) - 0.5 * len(scales) * np.log(2.0 * np.pi)
    return front - 0.5 * np.einsum("rd,rd->r", scaled, scaled)


def spectral_density(kernel: RBF, omega: Array) -> tuple[Array, Array]:
    """``S(ω) = (2π)^d`` times the density, and its slopes in theta."""
    scaled, scales = scaled_frequencies(kernel, omega)
    values = (2.0 * np.pi) ** len(scales) * np.exp(log_spectral_density(kernel, omega))
    slopes = values[:, np.newaxis] * (1.0 - scaled**2)
    return values, length_scale_slopes(kernel, slopes)


def spectral_score(kernel: RBF, omega: Array) -> Array:
    """``-ℓ² ω``."""
    scaled, scales = scaled_frequencies(kernel, omega)
    return -scales * scaled


def radial_code(kernel: RBF) -> tuple[int, float]:
    """Code of the compiled loops."""
    del kernel
    return radial.RBF, 0.0


fill_record(
    RBF,
    pullback=matrix_and_pullback,
    diagonal_pullback=unit_diagonal,
    input_gradient=input_gradient,
    spectral_law=spectral_law,
    log_spectral_density=log_spectral_density,
    spectral_density=spectral_density,
    spectral_score=spectral_score,
    radial_code=radial_code,
)
