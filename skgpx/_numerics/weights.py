"""Distributions of the weights w in f(x) = Φ(x)ᵀw, before or after the data."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class GaussianWeights(NamedTuple):
    """Normal distribution of the weights, independent between outputs.

    Attributes
    ----------
    mean : ndarray of shape (m, c)
        Mean of the weights of each output.
    root : ndarray of shape (1 or c, m, r)
        ``cov = root @ root.T`` for each output; one for all when the first axis is 1.
        r is m for a distribution with a density.
    scales : ndarray of shape (c, r) or None
        Factors of the columns of one root for all, for each output.
    """

    mean: Array
    root: Array
    scales: Array | None = None

    @property
    def shape(self) -> tuple[int, int, int]:
        """Numbers of weights m, outputs c and components (1)."""
        m, c = self.mean.shape
        return m, c, 1

    def moments(self) -> tuple[Array, Array]:
        """Mean (m, c), and roots (1 or c, m, r) of the covariance of each output."""
        scales = self.scales
        root = self.root if scales is None else self.root * scales[:, np.newaxis]
        return self.mean, root

    def latent(self, features: Array) -> tuple[Array, Array]:
        """Mean and variance of ``Φw``: (n, c, 1) each, from features (n, m)."""
        mean = (features @ self.mean)[:, :, np.newaxis]
        # var φᵀw = |rootᵀφ|²
        if self.scales is None:
            spread = [np.sum((features @ root) ** 2, axis=1) for root in self.root]
            variance = np.stack(spread, axis=1)[:, :, np.newaxis]
        else:
            squares = (features @ self.root[0]) ** 2
            variance = (squares @ (self.scales**2).T)[:, :, np.newaxis]
        return mean, np.broadcast_to(variance, mean.shape)

    def covariance(self, features: Array, output: int = 0) -> Array:
        """Covariance of one output of ``Φw`` between rows, (n, n)."""
        half = features @ self.root[output % len(self.root)]
        if self.scales is not None:
            half *= self.scales[output]
        covariance: Array = half @ half.T
        return covariance

    def draw(self, size: int, rng: np.random.Generator) -> Array:
        """Independent draws of the weights, shape (m, c, size)."""
        noise = rng.standard_normal((self.mean.shape[1], self.root.shape[2], size))
        if self.scales is not None:
            noise *= self.scales[:, :, np.newaxis]
        # w = mean + root ξ
        return self.mean[:, :, np.newaxis] + (self.root @ noise).transpose(1, 0, 2)


class WeightParticles(NamedTuple):
    """Empirical distribution of the weights: equally likely particles.

    Attributes
    ----------
    values : ndarray of shape (m, c, s)
        Particles on the last axis.
    """

    values: Array

    @property
    def shape(self) -> tuple[int, int, int]:
        """Numbers of weights m, outputs c and particles s."""
        m, c, s = self.values.shape
        return m, c, s

    def moments(self) -> tuple[Array, Array]:
        """Mean (m, c), and roots (c, m, s) of the covariance of each output."""
        mean = self.values.mean(axis=2)
        centred = self.values - mean[:, :, np.newaxis]
        return mean, centred.transpose(1, 0, 2) / np.sqrt(self.values.shape[2])

    def latent(self, features: Array) -> tuple[Array, Array]:
        """``Φw`` of each particle, (n, c, s), and its variance, (n, 1, 1) of zeros."""
        m, c, s = self.values.shape
        mean = (features @ self.values.reshape(m, c * s)).reshape(-1, c, s)
        return mean, np.zeros((len(features), 1, 1))

    def covariance(self, features: Array, output: int = 0) -> Array:
        """Covariance of one output of ``Φw`` over the particles, (n, n)."""
        values = features @ self.values[:, output]
        centred = values - values.mean(axis=1, keepdims=True)
        covariance: Array = centred @ centred.T / values.shape[1]
        return covariance

    def draw(self, size: int, rng: np.random.Generator) -> Array:
        """Particles in random order, each used equally often, (m, c, size)."""
        s = self.values.shape[2]
        rounds = [rng.permutation(s) for _ in range(-(-size // s))]
        chosen = np.concatenate(rounds)[:size] if rounds else np.empty(0, np.intp)
        draws: Array = self.values[:, :, chosen]
        return draws

    def points(self) -> list[GaussianWeights]:
        """Each particle as a degenerate normal distribution, of covariance zero."""
        m, _, s = self.values.shape
        no_spread = np.empty((1, m, 0))
        return [GaussianWeights(self.values[:, :, j], no_spread) for j in range(s)]


WeightDistribution = GaussianWeights | WeightParticles
