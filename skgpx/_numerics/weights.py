"""Distributions of the weights w in f(x) = Φ(x)ᵀw, before or after the data."""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple

import numpy as np

from skgpx._types import Array, Generator, Index


class Triangle(NamedTuple):
    """Entries of triangular matrices, for pickles.

    Attributes
    ----------
    entries : ndarray of shape (k, m (m + 1) / 2)
        Row by row.
    upper : bool
        Whether the matrices are upper rather than lower triangles.
    order : {"C", "F"}
        Of the matrices in memory; products round differently with the other one.
    """

    entries: Array
    upper: bool
    order: Literal["C", "F"]

    @classmethod
    def of(cls, matrices: Array) -> Triangle | None:
        """Entries of matrices (k, m, r); None if they are not triangles."""
        _, m, r = matrices.shape
        order: Literal["C", "F"] = "C" if matrices.flags.c_contiguous else "F"
        if m != r or not (matrices.flags.c_contiguous or matrices.flags.f_contiguous):
            return None
        for upper in (True, False):
            rows, columns = _triangle(m, upper)
            entries = matrices[:, rows, columns]
            if np.count_nonzero(entries) == np.count_nonzero(matrices):
                return cls(entries, upper, order)
        return None

    def matrices(self) -> Array:
        """The matrices (k, m, m)."""
        k, n_entries = self.entries.shape
        m = int(np.sqrt(2 * n_entries))
        matrices = np.zeros((k, m, m), order=self.order)
        rows, columns = _triangle(m, self.upper)
        matrices[:, rows, columns] = self.entries
        return matrices


def _triangle(m: int, upper: bool) -> tuple[Index, Index]:
    """Rows and columns of the entries of a triangle of order m."""
    if upper:
        return np.triu_indices(m)
    return np.tril_indices(m)


def row_variances(features: Array, roots: Array) -> Array:
    """``var φᵀw = |rootᵀφ|²`` at features (n, m), for each root (m, r), (n, k)."""
    variances = [np.sum((features @ root) ** 2, axis=1) for root in roots]
    return np.stack(variances, axis=1)


class GaussianWeights(NamedTuple):
    """Normal distribution of the weights; the outputs are independent.

    Attributes
    ----------
    mean : ndarray of shape (m, c)
        Mean of the weights of each output.
    root : ndarray of shape (1 or c, m, r)
        ``cov = root @ root.T`` for each output, or for all outputs if the first axis
        has length 1. A distribution with a density has r = m.
    scales : ndarray of shape (c, r) or None
        For each output, factors of the columns of a root that all outputs share.
    """

    mean: Array
    root: Array
    scales: Array | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle half of a triangular root."""
        root = Triangle.of(self.root)
        if root is None:
            return GaussianWeights, tuple(self)
        return _of_triangle, (self.mean, root, self.scales)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Numbers of weights m, outputs c and components (1)."""
        m, c = self.mean.shape
        return m, c, 1

    def moments(self) -> tuple[Array, Array]:
        """Mean (m, c), and roots (1 or c, m, r) of the covariance of each output."""
        if self.scales is None:
            return self.mean, self.root
        return self.mean, self.root * self.scales[:, np.newaxis]

    def of_outputs(self, outputs: Index) -> GaussianWeights:
        """Distribution of the weights of some outputs."""
        root = self.root
        if len(root) > 1:
            root = root[outputs]
        scales = None
        if self.scales is not None:
            scales = self.scales[outputs]
        return GaussianWeights(self.mean[:, outputs], root, scales)

    def latent(self, features: Array) -> tuple[Array, Array]:
        """Mean and variance of ``Φw``: (n, c, 1) each, from features (n, m)."""
        mean = features @ self.mean
        if self.scales is None:
            variance = row_variances(features, self.root)
        else:
            squares = (features @ self.root[0]) ** 2
            variance = squares @ (self.scales**2).T
        # one column serves all outputs with the same root
        variance = np.broadcast_to(variance, mean.shape)
        return mean[:, :, np.newaxis], variance[:, :, np.newaxis]

    def covariance(self, features: Array, output: int = 0) -> Array:
        """Covariance of one output of ``Φw`` between rows, (n, n)."""
        half = features @ self.root[output % len(self.root)]
        if self.scales is not None:
            half *= self.scales[output]
        return half @ half.T

    def draw(self, size: int, rng: Generator) -> Array:
        """Independent draws of the weights, shape (m, c, size)."""
        c = self.mean.shape[1]
        r = self.root.shape[2]
        noise = rng.standard_normal((c, r, size))
        if self.scales is not None:
            noise *= self.scales[:, :, np.newaxis]
        # w = mean + root ξ
        deviation = self.root @ noise
        deviation = deviation.transpose(1, 0, 2)
        return self.mean[:, :, np.newaxis] + deviation


def _of_triangle(mean: Array, root: Triangle, scales: Array | None) -> GaussianWeights:
    """Distribution with a triangular root, from a pickle."""
    return GaussianWeights(mean, root.matrices(), scales)


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
        s = self.values.shape[2]
        mean = self.values.mean(axis=2)
        centred = self.values - mean[:, :, np.newaxis]
        root = centred.transpose(1, 0, 2) / np.sqrt(s)
        return mean, root

    def latent(self, features: Array) -> tuple[Array, Array]:
        """``Φw`` of each particle, (n, c, s), and its variance, (n, 1, 1) of zeros."""
        m, c, s = self.values.shape
        flat = self.values.reshape(m, c * s)
        latent = features @ flat
        no_variance = np.zeros((len(features), 1, 1))
        return latent.reshape(-1, c, s), no_variance

    def covariance(self, features: Array, output: int = 0) -> Array:
        """Covariance of one output of ``Φw`` over the particles, (n, n)."""
        values = features @ self.values[:, output]
        centred = values - values.mean(axis=1, keepdims=True)
        return centred @ centred.T / values.shape[1]

    def draw(self, size: int, rng: Generator) -> Array:
        """Particles in random order, each used equally often, (m, c, size)."""
        s = self.values.shape[2]
        if size == 0:
            return self.values[:, :, :0]
        n_rounds = math.ceil(size / s)
        permutations = [rng.permutation(s) for _ in range(n_rounds)]
        chosen = np.concatenate(permutations)[:size]
        return self.values[:, :, chosen]

    def points(self) -> list[GaussianWeights]:
        """Each particle as a degenerate normal distribution, of covariance zero."""
        m, _, s = self.values.shape
        no_spread = np.empty((1, m, 0))
        return [GaussianWeights(self.values[:, :, j], no_spread) for j in range(s)]


WeightDistribution = GaussianWeights | WeightParticles
