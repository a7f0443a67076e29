"""Distributions of the frequencies of kernels, as maps from the unit cube."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import PchipInterpolator
from scipy.special import (
    betaincinv,
    gammainc,
    gammaincc,
    gammainccinv,
    gammaincinv,
    ive,
    ndtri,
)

Array = NDArray[np.float64]

# Above this radius, in inverse lengthscales, frequencies are compressed: such waves
# cannot be resolved, and their phases would lose digits.
_LARGEST_RADIUS = 1e6


class SpectralDistribution(Protocol):
    """Distribution of the angular frequency of a stationary kernel of variance one.

    ``frequencies(U, rng)`` maps uniform points (R, n_coordinates) to frequencies
    (R, d). The first coordinate, if there is one, orders them: it is the probability
    of a higher frequency, so small values are in the tail of the density. Half the
    range of the second gives one of each pair ±ω.
    """

    @property
    def n_coordinates(self) -> int:
        """Number of uniform coordinates of a frequency."""

    def frequencies(self, uniform: Array, rng: np.random.Generator) -> Array:
        """Frequencies at uniform points, shape (R, d)."""


class Radius(Protocol):
    """Quantiles of ``|ω|`` for a lengthscale of one."""

    def __call__(self, tail: Array, d: int) -> Array:
        """Radius that is exceeded with probability ``tail``."""


@dataclass(frozen=True)
class EllipticalDistribution:
    """Frequencies of random radius and uniform direction, over the lengthscales."""

    radius: Radius
    length_scale: Array
    d: int

    @property
    def n_coordinates(self) -> int:
        """One for the radius, the rest for the direction."""
        return 1 + _direction_coordinates(self.d)

    def frequencies(self, uniform: Array, rng: np.random.Generator) -> Array:
        """``r u / ℓ`` with r from the first coordinate, u from the others."""
        del rng
        return self._at(uniform[:, 0], _directions(uniform[:, 1:], self.d))

    def from_normal(self, points: Array) -> Array:
        """Frequencies at standard normal points (R, d), in the same directions.

        The radius is exceeded with the same probability as that of the point: points
        near the origin are low frequencies, and those of -x are those of x, negated.
        """
        r = np.linalg.norm(points, axis=1)
        # smaller tails are those of points too far out to differ
        tail = np.maximum(gammaincc(0.5 * self.d, 0.5 * r**2), 1e-80)
        return self._at(tail, _unit_vectors(points, r))

    def with_even_radii(self, frequencies: Array) -> Array:
        """Frequencies in the same directions, with radii at their quantiles.

        The radius of rank i, counted from the largest, is exceeded with probability
        ``(i + 1/2) / R``.
        """
        scaled = frequencies * self.length_scale
        r = np.linalg.norm(scaled, axis=1)
        ranks = np.empty(len(r))
        ranks[np.argsort(-r, kind="stable")] = np.arange(len(r))
        return self._at((ranks + 0.5) / len(r), _unit_vectors(scaled, r))

    def _at(self, tail: Array, directions: Array) -> Array:
        """``r u / ℓ``, the radius exceeded with probability ``tail``."""
        r = _compressed(self.radius(tail, self.d))
        return r[:, np.newaxis] * directions / self.length_scale


def _unit_vectors(points: Array, r: Array) -> Array:
    """Points over their norms r; the first axis for those at the origin."""
    first = np.eye(1, points.shape[1])
    far = r[:, np.newaxis] > 0.0
    scaled = points / np.where(r > 0.0, r, 1.0)[:, np.newaxis]
    return np.where(far, scaled, first)


def _direction_coordinates(d: int) -> int:
    return max(d - 1, 1) if d <= 3 else d


def _directions(uniform: Array, d: int) -> Array:
    """Unit vectors, uniform on the sphere, shape (R, d)."""
    if d == 1:
        return np.where(uniform < 0.5, -1.0, 1.0)
    if d <= 3:
        angle = 2.0 * np.pi * uniform[:, 0]
        circle = np.column_stack((np.cos(angle), np.sin(angle)))
        if d == 2:
            return circle
        # Archimedes: the height of a uniform point on the sphere is uniform
        height = 2.0 * uniform[:, 1:] - 1.0
        return np.hstack((np.sqrt(1.0 - height**2) * circle, height))
    normal = ndtri(uniform)
    return normal / np.linalg.norm(normal, axis=1, keepdims=True)


def _compressed(r: Array) -> Array:
    """Radii, with those above the limit on a logarithmic scale from there on."""
    # they stay distinct: equal frequencies would add up to one strong wave
    excess = np.maximum(r / _LARGEST_RADIUS, 1.0)
    return np.minimum(r, _LARGEST_RADIUS) * (1.0 + np.log(excess))


# ---- Radii ---------------------------------------------------------------------------


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


# ---- Other distributions -------------------------------------------------------------


@dataclass(frozen=True)
class SampledDistribution:
    """A user's sampler: frequencies without coordinates."""

    kernel: Any
    sampler: Any
    d: int
    n_coordinates: int = 0

    def frequencies(self, uniform: Array, rng: np.random.Generator) -> Array:
        """Call the sampler and check what it returns."""
        expected = (uniform.shape[0], self.d)
        drawn = np.asarray(self.sampler(self.kernel, *expected, rng), dtype=np.float64)
        if drawn.shape != expected or not np.all(np.isfinite(drawn)):
            raise ValueError(
                f"The spectral sampler of {type(self.kernel).__name__} must return "
                f"finite frequencies of shape {expected}; got shape {drawn.shape}"
                f"{'' if drawn.shape != expected else ' with infinite or NaN values'}."
            )
        return drawn


@dataclass(frozen=True)
class PeriodicDistribution:
    """Random multiples of ``2π / p``."""

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
        j = np.arange(int(30 + 10.0 * np.sqrt(min(s, 1e8))))
        # for large s, e⁻ˢ Iⱼ(s) is a normal density, and SciPy's function fails
        bessel = ive(j, s) if s < 1e6 else np.exp(-0.5 * j * j / min(s, 1e8))
        weights = np.where(j == 0, 1.0, 2.0) * bessel
        kept = weights > 1e-17 * weights.max()
        weights = weights[kept] / weights[kept].sum()
        return (2.0 * np.pi / self.periodicity * j[kept])[:, np.newaxis], weights
