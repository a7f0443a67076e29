"""Matern of any order ν; an RBF for ν = ∞."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import betaincinv, gamma, gammaln, kv
from sklearn.gaussian_process.kernels import Matern

from skgpx._numerics import radial
from skgpx.kernels import _rbf
from skgpx.kernels._distances import (
    distance_pullback,
    length_scale_pullback,
    length_scale_slopes,
    scaled_frequencies,
    scaled_points,
    unit_diagonal,
)
from skgpx.kernels._records import Array, Pullback, fill_record
from skgpx.kernels._spectral_laws import EllipticalLaw, SpectralLaw

_RADIAL_CODES = {
    0.5: radial.MATERN_12,
    1.5: radial.MATERN_32,
    2.5: radial.MATERN_52,
    np.inf: radial.RBF,
}


def matrix_and_pullback(
    kernel: Matern, X: Array, Y: Array | None
) -> tuple[Array, Pullback]:
    """Kernel matrix, and its derivatives in the lengthscales."""
    if kernel.nu == np.inf:
        return _rbf.matrix_and_pullback(kernel, X, Y)
    left, right = scaled_points(X, Y, kernel.length_scale)
    # direct sums of squares: the root would amplify cancellation errors near zero
    K, W = matern_profile(kernel.nu, cdist(left, right))
    return K, length_scale_pullback(kernel, W, left, right)


def input_gradient(kernel: Matern, X: Array, Z: Array) -> tuple[Array, Pullback]:
    """Kernel matrix, and its derivatives in X."""
    if kernel.nu == np.inf:
        return _rbf.input_gradient(kernel, X, Z)
    length_scale = kernel.length_scale
    K, W = matern_profile(kernel.nu, cdist(X / length_scale, Z / length_scale))
    return K, distance_pullback(W, X, Z, length_scale)


def matern_profile(nu: float, r: Array) -> tuple[Array, Array]:
    """Matérn function of the scaled distance, and ``-(dk/dr) / r``."""
    if nu == 0.5:
        K = np.exp(-r)
        # the value of W at the kink is irrelevant: it multiplies r² = 0
        return K, np.divide(K, r, out=np.zeros_like(r), where=r > 1e-8)
    if nu == 1.5:
        t = np.sqrt(3.0) * r
        decay = np.exp(-t)
        return (1.0 + t) * decay, 3.0 * decay
    if nu == 2.5:
        t = np.sqrt(5.0) * r
        decay = np.exp(-t)
        return (1.0 + t + t * t / 3.0) * decay, 5.0 / 3.0 * (1.0 + t) * decay
    # k = c tᵛ Kᵥ(t), dk/dt = -c tᵛ Kᵥ₋₁(t), t = √(2ν) r
    t = np.maximum(np.sqrt(2.0 * nu) * r, np.finfo(float).eps)
    c = 2.0 ** (1.0 - nu) / gamma(nu)
    W = 2.0 * nu * c * t ** (nu - 1.0) * kv(nu - 1.0, t)
    W[r <= 1e-8] = 0.0
    return c * t**nu * kv(nu, t), W


@dataclass(frozen=True)
class StudentRadius:
    """``ω`` multivariate t with 2ν degrees of freedom.

    ``|ω|² = 2ν (1 - B) / B`` with ``B ~ Beta(ν, d/2)``; small B is the tail.
    """

    nu: float

    def __call__(self, tail: Array, d: int) -> Array:
        """Radius that is exceeded with probability ``tail``."""
        B = np.maximum(betaincinv(self.nu, d / 2.0, tail), 1e-300)
        return np.sqrt(2.0 * self.nu) * np.sqrt((1.0 - B) / B)


def spectral_law(kernel: Matern, d: int) -> SpectralLaw:
    """Student's t."""
    if kernel.nu == np.inf:
        return _rbf.spectral_law(kernel, d)
    radius = StudentRadius(float(kernel.nu))
    return EllipticalLaw(radius, np.asarray(kernel.length_scale), d)


def log_spectral_density(kernel: Matern, omega: Array) -> Array:
    """``Γ(ν + d/2) / Γ(ν) π^(-d/2) (2ν)^ν Π ℓ (2ν + |ℓω|²)^-(ν + d/2)``."""
    if kernel.nu == np.inf:
        return _rbf.log_spectral_density(kernel, omega)
    scaled, scales = scaled_frequencies(kernel, omega)
    nu, half = float(kernel.nu), 0.5 * len(scales)
    front = gammaln(nu + half) - gammaln(nu) - half * np.log(2.0 * np.pi * nu)
    square = np.einsum("rd,rd->r", scaled, scaled)
    power: Array = (nu + half) * np.log1p(square / (2.0 * nu))
    return front + np.sum(np.log(scales)) - power


def spectral_density(kernel: Matern, omega: Array) -> tuple[Array, Array]:
    """``S(ω) = (2π)^d`` times the density, and its slopes in theta."""
    if kernel.nu == np.inf:
        return _rbf.spectral_density(kernel, omega)
    scaled, scales = scaled_frequencies(kernel, omega)
    d, nu = len(scales), float(kernel.nu)
    values = (2.0 * np.pi) ** d * np.exp(log_spectral_density(kernel, omega))
    square = scaled**2
    base = 2.0 * nu + square.sum(axis=1, keepdims=True)
    slopes = values[:, np.newaxis] * (1.0 - (2.0 * nu + d) * square / base)
    return values, length_scale_slopes(kernel, slopes)


def spectral_score(kernel: Matern, omega: Array) -> Array:
    """``-(2ν + d) ℓ² ω / (2ν + |ℓω|²)``."""
    if kernel.nu == np.inf:
        return _rbf.spectral_score(kernel, omega)
    scaled, scales = scaled_frequencies(kernel, omega)
    base = 2.0 * kernel.nu + np.sum(scaled**2, axis=1, keepdims=True)
    score: Array = -(2.0 * kernel.nu + len(scales)) * scales * scaled / base
    return score


def radial_code(kernel: Matern) -> tuple[int, float] | None:
    """Code of the compiled loops, for the orders that these have."""
    code = _RADIAL_CODES.get(kernel.nu)
    return None if code is None else (code, 0.0)


fill_record(
    Matern,
    pullback=matrix_and_pullback,
    diagonal_pullback=unit_diagonal,
    input_gradient=input_gradient,
    spectral_law=spectral_law,
    log_spectral_density=log_spectral_density,
    spectral_density=spectral_density,
    spectral_score=spectral_score,
    radial_code=radial_code,
)
