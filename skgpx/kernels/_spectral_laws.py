"""Laws of the frequencies of kernels, as maps from the unit cube."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincc, ndtri

Array = NDArray[np.float64]

# Above this radius, in inverse lengthscales, frequencies are compressed: such waves
# cannot be resolved, and their phases would lose digits.
_LARGEST_RADIUS = 1e6
# Tails below this are those of points too far out to be told apart.
_SMALLEST_TAIL = 1e-80


class SpectralLaw(Protocol):
    """Law of the angular frequency of a stationary kernel of variance one.

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
class EllipticalLaw:
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
        tail = np.maximum(gammaincc(0.5 * self.d, 0.5 * r**2), _SMALLEST_TAIL)
        return self._at(tail, _unit_vectors(points, r))

    def with_even_radii(self, frequencies: Array) -> Array:
        """Frequencies in the same directions, with radii at quantiles of the law.

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


@dataclass(frozen=True)
class SampledLaw:
    """Law given by a user's sampler: frequencies without coordinates."""

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
