"""RationalQuadratic: ``k = (1 + r²/(2αℓ²))^-α``, a mixture of RBFs.

``k = E exp(-s r²/(2ℓ²))`` with s ~ Gamma(α, α).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.interpolate import PchipInterpolator
from scipy.spatial.distance import cdist
from scipy.special import (
    digamma,
    gammainc,
    gammaincc,
    gammainccinv,
    gammaincinv,
    gammaln,
)
from sklearn.gaussian_process.kernels import RationalQuadratic

from skgpx._numerics import radial
from skgpx._numerics.fourier_index import Box
from skgpx._numerics.special_functions import log_power_bessel_k, theta_sum
from skgpx.kernels._distances import (
    distance_pullback,
    scaled_frequencies,
    scaled_points,
    squared_distances,
    unit_diagonal,
)
from skgpx.kernels._records import Array, KernelSpectrum, Pullback, fill_record
from skgpx.kernels._spectral_laws import EllipticalLaw, SpectralLaw

# Nodes of the mixture.
_NODES = 240


def matrix_and_pullback(
    kernel: RationalQuadratic, X: Array, Y: Array | None
) -> tuple[Array, Pullback]:
    """Kernel matrix, and its derivatives in α and the lengthscale."""
    alpha = kernel.alpha
    D = squared_distances(*scaled_points(X, Y, kernel.length_scale))
    base = 1.0 + D / (2.0 * alpha)
    K = base**-alpha

    def pullback(G: Array) -> Array:
        P = G * K
        slope = np.vdot(P, D / base)
        parts = []
        if not kernel.hyperparameter_alpha.fixed:
            parts.append(0.5 * slope - alpha * np.vdot(P, np.log(base)))
        if not kernel.hyperparameter_length_scale.fixed:
            parts.append(slope)
        return np.array(parts)

    return K, pullback


def input_gradient(
    kernel: RationalQuadratic, X: Array, Z: Array
) -> tuple[Array, Pullback]:
    """Kernel matrix, and its derivatives in X."""
    scaled = cdist(X, Z, "sqeuclidean") / kernel.length_scale**2
    base = 1.0 + scaled / (2.0 * kernel.alpha)
    K = base**-kernel.alpha
    return K, distance_pullback(K / base, X, Z, kernel.length_scale)


@dataclass(frozen=True)
class GammaMixtureRadius:
    """``ω = z √τ``, z normal and ``τ ~ Gamma(α) / α``."""

    alpha: float

    def __call__(self, tail: Array, d: int) -> Array:
        """Radius that is exceeded with probability ``tail``."""
        logits, log_radii = _mixture_table(float(self.alpha), d)
        return np.exp(PchipInterpolator(logits, log_radii)(_log_odds(tail)))


def _log_odds(tail: Array) -> Array:
    return np.log1p(-np.minimum(tail, 1.0 - 1e-16)) - np.log(tail)


@lru_cache(maxsize=32)
def _mixture_table(alpha: float, d: int) -> tuple[Array, Array]:
    """Log odds ``log P(|ω| < r) / P(|ω| > r)`` and ``log r``, both increasing."""
    # trapezoidal rule in log τ, whose error is about exp(-π² / step)
    low_tau = max(gammaincinv(alpha, 1e-12), 1e-200)
    ends = np.log(low_tau), np.log(gammainccinv(alpha, 1e-90))
    n_nodes = min(max(int(2.0 * (ends[1] - ends[0])), 120), 600)
    log_tau = np.linspace(*ends, n_nodes)
    log_density = alpha * log_tau - np.exp(log_tau)
    weights = np.exp(log_density - log_density.max())
    weights /= weights.sum()
    scale = np.exp(0.5 * (log_tau - np.log(alpha)))
    low = np.sqrt(2.0 * gammaincinv(d / 2.0, 1e-18)) * scale[0]
    high = np.sqrt(2.0 * gammainccinv(d / 2.0, 1e-90)) * scale[-1]
    log_radii = np.linspace(np.log(low), np.log(high), 600)
    chi = 0.5 * (np.exp(log_radii)[:, np.newaxis] / scale) ** 2
    below, above = gammainc(d / 2.0, chi) @ weights, gammaincc(d / 2.0, chi) @ weights
    kept = (below > 1e-16) & (above > 1e-90)
    logits = np.log(below[kept]) - np.log(above[kept])
    return logits, log_radii[kept]


def spectral_law(kernel: RationalQuadratic, d: int) -> SpectralLaw:
    """Normal frequencies of random variance."""
    radius = GammaMixtureRadius(float(kernel.alpha))
    return EllipticalLaw(radius, np.asarray(kernel.length_scale), d)


def log_spectral_density(kernel: RationalQuadratic, omega: Array) -> Array:
    """``2 (ℓ/√(2π))^d α^α / Γ(α) (t/2α)^v K_v(t)``, ``v = α - d/2``, ``t = √(2α)|ℓω|``.

    Infinite at ω = 0 for ``α <= d/2``.
    """
    t, scales = _bessel_argument(kernel, omega)
    alpha, half = float(kernel.alpha), 0.5 * len(scales)
    v = alpha - half
    front = np.sum(np.log(scales)) - half * np.log(2.0 * np.pi) + np.log(2.0)
    front += alpha * np.log(alpha) - gammaln(alpha) - v * np.log(2.0 * alpha)
    density: Array = front + log_power_bessel_k(v, t)
    return density


def spectral_score(kernel: RationalQuadratic, omega: Array) -> Array:
    """``-2α ℓ²ω K_(v-1)(t) / (t K_v(t))``, from ``(tᵛ K_v)' = -tᵛ K_(v-1)``.

    Zero at ω = 0, where the density has its (possibly infinite) maximum.
    """
    t, scales = _bessel_argument(kernel, omega)
    alpha = float(kernel.alpha)
    v, away = alpha - 0.5 * len(scales), t > 0.0
    ratio = np.zeros_like(t)
    logs = log_power_bessel_k(v - 1.0, t[away]) - log_power_bessel_k(v, t[away])
    ratio[away] = np.exp(logs)
    score: Array = -2.0 * alpha * scales**2 * omega * ratio[:, np.newaxis]
    return score


def _bessel_argument(kernel: RationalQuadratic, omega: Array) -> tuple[Array, Array]:
    """``√(2α) |ℓω|`` (R,), and the lengthscales (d,)."""
    scaled, scales = scaled_frequencies(kernel, omega)
    t = np.sqrt(2.0 * kernel.alpha) * np.linalg.norm(scaled, axis=1)
    return t, scales


def radial_code(kernel: RationalQuadratic) -> tuple[int, float]:
    """Code and parameter of the compiled loops."""
    return radial.RATIONAL_QUADRATIC, float(kernel.alpha)


def box_spectrum(kernel: RationalQuadratic, omega: Array, box: Box) -> KernelSpectrum:
    """Eigenvalues at frequencies omega (R, d) of waves of a box.

    The sum of the kernel over periodic images diverges for ``α <= d/2``. The eigenvalue
    of the constant is therefore chosen such that the variance is one, or zero if the
    other waves have more.
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
    # in a box much wider one way than the other, the waves may have more than one
    total, total_slope = (1.0, 0.0 * slope) if others < 1.0 else (others, slope)
    values[constant], slopes[constant] = total - others, total_slope - slope
    fixed = kernel.hyperparameter_alpha.fixed, kernel.hyperparameter_length_scale.fixed
    free = ~np.array(fixed)
    return KernelSpectrum(values, slopes[:, free], total, total_slope[free])


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


fill_record(
    RationalQuadratic,
    pullback=matrix_and_pullback,
    diagonal_pullback=unit_diagonal,
    input_gradient=input_gradient,
    spectral_law=spectral_law,
    log_spectral_density=log_spectral_density,
    spectral_score=spectral_score,
    box_spectrum=box_spectrum,
    radial_code=radial_code,
)
