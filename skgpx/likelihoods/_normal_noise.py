"""Likelihoods ``y = f + noise`` whose noise is a mixture of normals."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from skgpx._numerics import normal_sums
from skgpx._numerics.crps import mixture_crps
from skgpx._numerics.mixture import LatentMixture
from skgpx._numerics.normal_sums import Noise
from skgpx.likelihoods._base import Likelihood

Array = NDArray[np.float64]

# Probabilities of which a distribution function has all digits.
_SMALL = 1e-10
# Components of a mixture whose pairs cost less than a quadrature.
_FEW_COMPONENTS = 32


class NormalNoise(Likelihood):
    """Predictive functionals of normal mixtures, the same at every ratio of spreads.

    A normal mixture plus noise that is a normal mixture is a normal mixture: densities
    and probabilities are sums over its components, quantiles are searched in all digits
    of that sum. Where a single normal is left, they have a closed form.
    """

    location_scale = True

    def _noise(self, p: float) -> Noise:
        """Components of the noise, for probabilities down to p."""
        raise NotImplementedError(self._missing("_noise(p)"))

    def _noise_quantile(self, p: float) -> float:
        """A rough quantile of the noise, where a search starts."""
        noise = self._noise(p)
        mean = float(noise.shift @ noise.weights)
        square = (noise.shift - mean) ** 2 + noise.variance
        return mean + float(ndtri(p)) * float(np.sqrt(square @ noise.weights))

    def _noise_near(self, square: Array) -> tuple[Noise, NDArray[np.int64]]:
        """Components of the noise, and the first that matters to each row's density.

        `square` (n,) is the largest squared residual plus variance of a row.
        """
        return self._noise(_SMALL), np.zeros(len(square), np.int64)

    def predictive_mean(self, mixture: LatentMixture) -> Array:
        """Mean of the latent mixture plus that of the noise."""
        return self.predictive_moments(mixture)[0]

    def predictive_moments(self, mixture: LatentMixture) -> tuple[Array, Array]:
        """`predictive_mean` and `predictive_variance` in one pass."""
        mean, variance = mixture.moments()
        middle = mean[:, 0]
        return self.mean(middle), variance[:, 0] + self.variance(middle)

    def predictive_log_density(self, y: Array, mixture: LatentMixture) -> Array:
        """``log p(y)`` of each row at its own y (n,), in nats, shape (n,)."""
        y, mean = np.asarray(y, dtype=np.float64), mixture.mean[:, 0]
        variance = mixture.variance[:, 0]
        square = np.max((y[:, np.newaxis] - mean) ** 2 + variance, axis=1)
        noise, first = self._noise_near(square)
        return normal_sums.log_density(y, mean, variance, mixture.weights, noise, first)

    def predictive_cdf(self, y: Array, mixture: LatentMixture) -> Array:
        """``P(Y <= y)`` of each row at its own y (n,), shape (n,)."""
        y, mean, variance, weights = _arrays(y, mixture)
        return normal_sums.cdf(y, mean, variance, weights, self._noise(_SMALL))

    def predictive_quantile(self, p: ArrayLike, mixture: LatentMixture) -> Array:
        """``y`` with ``P(Y <= y) = p`` for each p (q,), shape (n, q).

        Every p lies strictly between 0 and 1. ``mean + std Φ⁻¹(p)`` where the law is
        normal; otherwise Newton's method, to 1e-9 of the spread.
        """
        _, mean, variance, weights = _arrays(np.empty(0), mixture)
        columns = []
        for level in np.atleast_1d(np.asarray(p, dtype=np.float64)).tolist():
            tail = min(level, 1.0 - level)
            noise = self._noise(tail)
            if len(weights) == 1 and len(noise.weights) == 1:
                std = np.sqrt(variance[:, 0] + noise.variance)
                columns.append(mean[:, 0] + noise.shift + std * ndtri(level))
                continue
            reach = self._noise_quantile(level)
            columns.append(
                normal_sums.quantile(level, mean, variance, weights, noise, reach)
            )
        return np.stack(columns, axis=1)

    def predictive_crps(self, y: Array, mixture: LatentMixture) -> Array:
        """Continuous ranked probability score at y (n,), in the units of y, (n,).

        In closed form for a few components, by quadrature for many.
        """
        noise = self._noise(_SMALL)
        if len(mixture.weights) * len(noise.weights) > _FEW_COMPONENTS:
            return super().predictive_crps(y, mixture)
        y, mean, variance, weights = _arrays(y, mixture)
        mean = mean[:, :, np.newaxis] + noise.shift
        variance = variance[:, :, np.newaxis] + noise.variance
        std = np.sqrt(np.broadcast_to(variance, mean.shape)).reshape(len(y), -1)
        share = np.outer(weights, noise.weights).ravel()
        return mixture_crps(y, mean.reshape(len(y), -1), std, share)


def _arrays(y: Array, mixture: LatentMixture) -> tuple[Array, Array, Array, Array]:
    """Targets as floats, and the mixture of a single output without its axis."""
    mean, variance, weights = mixture
    return np.asarray(y, dtype=np.float64), mean[:, 0], variance[:, 0], weights
