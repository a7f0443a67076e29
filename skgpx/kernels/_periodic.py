"""ExpSineSquared: ``k = exp(-2 sin²(π|x - y|/p) / ℓ²)``, a cosine series."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import ive
from sklearn.gaussian_process.kernels import ExpSineSquared

from skgpx.kernels._distances import distance_pullback
from skgpx.kernels._records import Array, Pullback, fill_record, no_sampler
from skgpx.kernels._spectral_laws import SpectralLaw

# Relative weight at which the cosine series of a periodic kernel is truncated.
_SERIES_END = 1e-17
# Larger 1/ℓ² of a periodic kernel are replaced by this one: ℓ = 1e-4.
_NARROWEST = 1e8


@dataclass(frozen=True)
class PeriodicLaw:
    """A discrete law of multiples of ``2π / p``."""

    length_scale: float
    periodicity: float
    n_coordinates: int = 2

    def frequencies(self, uniform: Array, rng: np.random.Generator) -> Array:
        """Harmonics, the high ones at small first coordinates, with random signs."""
        del rng
        weights = self.series()[1]
        # P(J >= j), decreasing; J = the last j whose tail exceeds the coordinate
        tails = np.cumsum(weights[::-1])[::-1]
        harmonics = np.searchsorted(-tails, -uniform[:, 0], side="right") - 1
        sign = np.where(uniform[:, 1] < 0.5, -1.0, 1.0)
        harmonics = np.clip(harmonics, 0, len(weights) - 1)
        waves = (
            2.0 * np.pi / self.periodicity * np.asarray(sign * harmonics, dtype=float)
        )
        return waves[:, np.newaxis]

    def series(self) -> tuple[Array, Array]:
        """Frequencies (J, 1) and weights (J,) of the cosine series, which is exact.

        ``exp(-2 sin²(πΔ/p) / ℓ²) = Σ wⱼ cos(2πjΔ/p)``, ``w₀ = e⁻ˢ I₀(s)``,
        ``wⱼ = 2 e⁻ˢ Iⱼ(s)`` and ``s = 1/ℓ²``.
        """
        s = float(self.length_scale) ** -2.0
        # Iⱼ(s) decays in j like a Gaussian of width √s, then faster
        j = np.arange(int(30 + 10.0 * np.sqrt(min(s, _NARROWEST))))
        # for large s, e⁻ˢ Iⱼ(s) is a normal density, and SciPy's function fails
        bessel = ive(j, s) if s < 1e6 else np.exp(-0.5 * j * j / min(s, _NARROWEST))
        weights = np.where(j == 0, 1.0, 2.0) * bessel
        kept = weights > _SERIES_END * weights.max()
        weights = weights[kept] / weights[kept].sum()
        return (2.0 * np.pi / self.periodicity * j[kept])[:, np.newaxis], weights


def spectral_law(kernel: ExpSineSquared, d: int) -> SpectralLaw:
    """Multiples of one frequency, in one input column."""
    if d != 1:
        raise no_sampler(kernel, kernel, f" in {d} input columns (only in one)")
    return PeriodicLaw(kernel.length_scale, kernel.periodicity)


def input_gradient(
    kernel: ExpSineSquared, X: Array, Z: Array
) -> tuple[Array, Pullback]:
    """Kernel matrix, and its derivatives in X."""
    r = cdist(X, Z)
    angle = np.pi * r / kernel.periodicity
    K = np.exp(-2.0 * (np.sin(angle) / kernel.length_scale) ** 2)
    # dk/dr = -k (2 π / p l²) sin(2 angle); divided by -r
    slope = 2.0 * np.pi / (kernel.periodicity * kernel.length_scale**2)
    far = r > 0.0
    ratio = np.divide(np.sin(2.0 * angle), r, out=np.zeros_like(r), where=far)
    return K, distance_pullback(slope * K * ratio, X, Z, 1.0)


fill_record(ExpSineSquared, input_gradient=input_gradient, spectral_law=spectral_law)
