"""The scale of noise, from errors of predictions with known variances."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp

from skgpx.likelihoods._base import Likelihood, Scales, doubles

Array = NDArray[np.float64]


class ScaleOfErrors(Likelihood):
    """``e = δ + scale exp(variation f) ε`` with a normal δ of known variance.

    What an error e of a prediction from other rows says of the scale of the noise,
    where δ is the error of the location. The quantity of a row, `known_`, is the
    variance of δ. The noise ε is a mixture of normal distributions around zero, so that
    the density of e is a sum::

        p(e | f) = Σ_k π_k N(e | 0, v + t_k scale² exp(2 variation f))

    Parameters
    ----------
    variation : float
    noise, log_weights : ndarray of shape (k,)
        ``t`` and ``log π``.
    information : float
        Fisher information of ``log scale`` where δ is zero.
    scale : float, default=None
    """

    log_scale = True
    has_residuals = False
    expected_curvature = True
    row_quantity = "noise_variance"
    scale_names: ClassVar[tuple[str, ...]] = ("scale",)

    def __init__(
        self,
        variation: float,
        noise: Array,
        log_weights: Array,
        information: float,
        scale: float | None = None,
    ) -> None:
        self.variation = variation
        self.noise = noise
        self.log_weights = log_weights
        self.information = information
        self.scale = scale

    def starting_scales(
        self,
        y: Array,  # noqa: ARG002
        weights: Array,  # noqa: ARG002
    ) -> Scales:
        """One, in units of the location: errors are smaller."""
        return {"scale": (1.0, 1e-3, 3.0)}

    def _squared_scale(self, f: Array) -> Array:
        """``scale² exp(2 variation f)``."""
        log_scale = np.log(self._scale("scale")) + self.variation * f
        bounded: Array = np.exp(2.0 * np.clip(log_scale, -100.0, 100.0))
        return bounded

    def _components(self, y: ArrayLike, f: ArrayLike) -> tuple[Array, Array, Array]:
        """Variances T of e, squares e²/T, and log densities, (n, s, k) each."""
        e = doubles(y)[..., np.newaxis]
        squared_scale = self._squared_scale(doubles(f))
        of_location = np.asarray(self.known_)
        total = (
            of_location[..., np.newaxis] + squared_scale[..., np.newaxis] * self.noise
        )
        square = e**2 / total
        log_terms = -0.5 * (square + np.log(2.0 * np.pi * total)) + self.log_weights
        return total, square, log_terms

    def nll(self, y: ArrayLike, f: ArrayLike) -> Array:
        """``-log Σ_k π_k N(e | 0, T_k)``."""
        _, _, log_terms = self._components(y, f)
        return -np.asarray(logsumexp(log_terms, axis=-1))

    def gradient(self, y: ArrayLike, f: ArrayLike) -> Array:
        """``variation Σ_k r_k ρ_k (1 - e²/T_k)``.

        With the probabilities r of the components given e, and the shares
        ``ρ = t scale² exp(2 variation f) / T`` of the noise in the variances.
        """
        total, square, log_terms = self._components(y, f)
        largest = np.max(log_terms, axis=-1, keepdims=True)
        responsibility = np.exp(log_terms - largest)
        responsibility /= np.sum(responsibility, axis=-1, keepdims=True)
        squared_scale = self._squared_scale(doubles(f))[..., np.newaxis]
        share = squared_scale * self.noise / total
        slope = np.sum(responsibility * share * (1.0 - square), axis=-1)
        return np.asarray(self.variation * slope)

    def curvature(self, y: ArrayLike, f: ArrayLike) -> Array:
        """Information of the noise alone, times the squared share of its variance."""
        shape = np.broadcast_shapes(np.shape(y), np.shape(f))
        squared_scale = self._squared_scale(doubles(f))
        share = squared_scale / (np.asarray(self.known_) + squared_scale)
        curvature = self.information * (self.variation * share) ** 2
        return np.broadcast_to(curvature, shape)

    def mean(self, f: ArrayLike) -> Array:
        """Zero."""
        return np.zeros(np.shape(f))

    def variance(self, f: ArrayLike) -> Array:
        """Sum of both variances."""
        noise = float(np.exp(self.log_weights) @ self.noise)
        return np.asarray(self.known_) + self._squared_scale(doubles(f)) * noise

    def sample(self, f: ArrayLike, rng: np.random.Generator) -> Array:
        """Draw one error per element of f."""
        f = doubles(f)
        masses = np.exp(self.log_weights)
        chosen = rng.choice(len(masses), size=f.shape, p=masses / masses.sum())
        total = self.known_ + self._squared_scale(f) * self.noise[chosen]
        return np.sqrt(total) * rng.standard_normal(f.shape)
