"""What is known of each row beside X: the variance of its noise."""

from __future__ import annotations

from typing import ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skgpx._numerics.mixture import LatentMixture
from skgpx.likelihoods._base import Likelihood, RowForm

Array = NDArray[np.float64]


class KnownNoise(NamedTuple):
    """Noise variances of rows, relative to one that stands for all.

    Attributes
    ----------
    reference : float
        Weighted harmonic mean of the variances: with it the precisions ``weight /
        relative`` have the sum of the weights.
    mean : float
        Weighted arithmetic mean: the noise of a row of which nothing is known.
    relative : ndarray of shape (n,)
        Variances in units of the reference.
    constant : float
        By which the evidence of rows of precision ``weight / relative`` and the noise
        of the reference exceeds theirs, ``½ Σ weight log relative``, in nats.
    """

    reference: float
    mean: float
    relative: Array
    constant: float

    @classmethod
    def of(cls, noise_variance: Array, weights: Array) -> KnownNoise:
        """Variances (n,) of rows with these weights, not all zero."""
        total = weights.sum()
        reference = float(total / np.sum(weights / noise_variance))
        mean = float(weights @ noise_variance / total)
        relative = noise_variance / reference
        constant = 0.5 * float(weights @ np.log(relative))
        return cls(reference, mean, relative, constant)


class NoiseOfRows(Likelihood):
    """Likelihood ``y = f + noise`` whose noise may have a variance for each row.

    With k the variance in units of the likelihood's own, ``y / √k`` given ``f / √k``
    follows the likelihood; everything below is this sentence.
    """

    row_quantity: ClassVar[str | None] = "noise_variance"

    @property
    def noise_parameter(self) -> float | None:
        """Variance of the noise (squared scale), None while it is free."""
        raise NotImplementedError

    def with_noise(self, noise_variance: float) -> Self:
        """Copy with this variance of the noise (squared scale), which is not free."""
        raise NotImplementedError

    def row_form(self, y: Array, weights: Array, known: Array | None) -> RowForm:
        """Rows in units of their own noise."""
        if known is None:
            return super().row_form(y, weights, known)
        root = np.sqrt(known)
        return RowForm(y / root, weights, 1.0 / root, np.log(root))

    def at_rows(self, known: Array) -> ScaledRows:
        """Distribution of rows with these relative noise variances (n,)."""
        return ScaledRows(self, np.sqrt(known))


class ScaledRows:
    """Predictive functionals of rows whose noise is `root` times the likelihood's.

    Parameters
    ----------
    likelihood : Likelihood
        Of location and scale.
    root : ndarray of shape (n,)
    """

    def __init__(self, likelihood: Likelihood, root: Array):
        self.likelihood, self.root = likelihood, root

    def _scaled(self, mixture: LatentMixture) -> LatentMixture:
        root = self.root[:, np.newaxis, np.newaxis]
        return LatentMixture(
            mixture.mean / root, mixture.variance / root**2, mixture.weights
        )

    def predictive_mean(self, mixture: LatentMixture) -> Array:
        """``E[y]``, shape (n,)."""
        return self.root * self.likelihood.predictive_mean(self._scaled(mixture))

    def predictive_variance(self, mixture: LatentMixture) -> Array:
        """``Var[y]``, noise included, shape (n,)."""
        variance = self.likelihood.predictive_variance(self._scaled(mixture))
        return self.root**2 * variance

    def predictive_moments(self, mixture: LatentMixture) -> tuple[Array, Array]:
        """`predictive_mean` and `predictive_variance` in one pass."""
        mean, variance = self.likelihood.predictive_moments(self._scaled(mixture))
        return self.root * mean, self.root**2 * variance

    def predictive_mean_variance(self, mixture: LatentMixture) -> Array:
        """The variance without the noise, shape (n,)."""
        return self.likelihood.predictive_mean_variance(mixture)

    def predictive_cdf(self, y: Array, mixture: LatentMixture) -> Array:
        """``P(Y <= y)`` of each row at its own y (n,)."""
        return self.likelihood.predictive_cdf(y / self.root, self._scaled(mixture))

    def predictive_log_density(self, y: Array, mixture: LatentMixture) -> Array:
        """``log p(y)`` of each row at its own y (n,), in nats."""
        scaled = self._scaled(mixture)
        density = self.likelihood.predictive_log_density(y / self.root, scaled)
        return density - np.log(self.root)

    def predictive_quantile(self, p: ArrayLike, mixture: LatentMixture) -> Array:
        """Quantiles (n, q)."""
        quantiles = self.likelihood.predictive_quantile(p, self._scaled(mixture))
        return self.root[:, np.newaxis] * quantiles

    def predictive_crps(self, y: Array, mixture: LatentMixture) -> Array:
        """Continuous ranked probability score at y (n,)."""
        scaled = self._scaled(mixture)
        return self.root * self.likelihood.predictive_crps(y / self.root, scaled)

    def variance(self, f: Array) -> Array:
        """Noise variance of each row, f (n,)."""
        return self.root**2 * self.likelihood.variance(f / self.root)

    def sample(self, f: Array, rng: np.random.Generator) -> Array:
        """One observation for each row and draw, f (n, s)."""
        root = self.root[:, np.newaxis]
        return root * self.likelihood.sample(f / root, rng)
