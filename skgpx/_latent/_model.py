"""The latent function after fitting: what every prediction reads."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._draws import FunctionDraws, KernelProcess
from skgpx._numerics.mixture import LatentMixture
from skgpx._numerics.weights import GaussianWeights, WeightLaw
from skgpx.bases import SeriesMarginals

Array = NDArray[np.float64]


class LatentModel(NamedTuple):
    """Law of ``f(x) = Φ(x)ᵀw + g(x)``.

    Attributes
    ----------
    basis : Nystroem or FourierSeries
        Φ and the residual g.
    law : GaussianWeights or WeightParticles
        Law of w.
    """

    basis: Any
    law: WeightLaw

    def marginals(self, X: Array) -> LatentMixture:
        """Law of f at each row of X (n, d), O(n m (m + s)) time."""
        features = self.basis(X)
        mean, variance = self.law.latent(features)
        residual = self.basis.residual_variance(X, features)
        variance = variance + residual[:, np.newaxis, np.newaxis]
        s = mean.shape[2]
        return LatentMixture(mean, variance, np.full(s, 1.0 / s))

    def covariance(self, X: Array) -> Array:
        """Covariance of the first output of f between the rows of X, (n, n)."""
        features = self.basis(X)
        residual = self.basis.residual_covariance(X, features)
        covariance: Array = self.law.covariance(features) + residual
        return covariance

    def draw(self, size: int, rng: np.random.Generator) -> FunctionDraws:
        """Independent draws of f, as functions."""
        draws = self.basis.draw(self.law.draw(size, rng), rng)
        return draws.with_process(self.process())

    def process(self) -> KernelProcess | None:
        """Law of f as a process that can be conditioned; None if not known."""
        if not isinstance(self.law, GaussianWeights):
            return None
        process: KernelProcess | None = self.basis.process(self.law)
        return process


class SeriesModel(LatentModel):
    """Latent model on Fourier functions with normal weights: O(m) for a row.

    Mean and variance are sums of waves, so that the features are not needed.
    """

    @cached_property
    def _sums_of_waves(self) -> SeriesMarginals:
        return SeriesMarginals(self.basis, self.law)

    def marginals(self, X: Array) -> LatentMixture:
        """Law of f at each row of X (n, d), O(n m) time in one dimension."""
        self.basis.check(X)
        mean, variance = self._sums_of_waves(X)
        shape = (-1, 1, 1)
        return LatentMixture(mean.reshape(shape), variance.reshape(shape), np.ones(1))
