"""Rows that are kept out of learning, and what they say of a mixture."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from skgpx._numerics.mixture import LatentMixture
from skgpx._numerics.wave_evidence import Waves
from skgpx._stein._warp import NetworkWarp
from skgpx.likelihoods import Gaussian

Array = NDArray[np.float64]

# Rows whose features are in memory at a time.
_BLOCK = 2048
# Between which logarithms the factor of the variances is searched.
_LOG_TEMPERS = (-2.0, 9.0)


class Verdict(NamedTuple):
    """What held-out rows say.

    Attributes
    ----------
    density : float
        Mean log density in nats a row, at the best temper.
    temper : float
        Factor of prior and noise variance that is best there.
    """

    density: float
    temper: float


class Judge(NamedTuple):
    """Held-out rows.

    Attributes
    ----------
    points : ndarray of shape (d, n)
        Inputs, transposed.
    y, weights : ndarray of shape (n,)
    """

    points: Array
    y: Array
    weights: Array

    def seen_through(self, warp: NetworkWarp | None) -> Judge:
        """Rows as the waves see them."""
        if warp is None:
            return self
        return self._replace(points=np.ascontiguousarray(warp(self.points.T).T))

    def moments(self, waves: Waves, mean: Array, covariance: Array) -> Array:
        """Mean and variance of f under one set of waves, (2, n).

        `mean` (m,) and `covariance` (m, m) are those of the weights.
        """
        parts = []
        for first in range(0, len(self.y), _BLOCK):
            points = self.points[:, first : first + _BLOCK]
            features = waves.features(np.ascontiguousarray(points))
            spread = np.einsum("mn,mn->n", features, covariance @ features)
            parts.append(np.stack((mean @ features, spread)))
        return np.concatenate(parts, axis=1)

    def verdict(self, moments: list[Array], noise_variance: float) -> Verdict:
        """Density of the mixture, its variances times the factor that is best."""
        stacked = np.stack(moments, axis=-1)
        shares = np.full(len(moments), 1.0 / len(moments))

        def loss(log_temper: float) -> float:
            factor = float(np.exp(log_temper))
            mixture = LatentMixture(
                stacked[0][:, np.newaxis], factor * stacked[1][:, np.newaxis], shares
            )
            likelihood = Gaussian(factor * noise_variance).prepare([0.0])
            density = likelihood.predictive_log_density(self.y, mixture)
            return -float(np.average(density, weights=self.weights))

        found = optimize.minimize_scalar(
            loss, bounds=_LOG_TEMPERS, method="bounded", options={"xatol": 0.01}
        )
        return Verdict(-float(found.fun), float(np.exp(found.x)))
