"""Normal mixtures of latent values, from which predictions are computed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

Array = NDArray[np.float64]

# Below this fraction of a row's mean square a variance has no effect on a prediction.
NEGLIGIBLE = 1e-20


class LatentMixture(NamedTuple):
    """Distribution of the latent values of each row: a mixture of independent normals.

    Row i has the density ``sum_j weights[j] N(f | mean[i, :, j],
    diag(variance[i, :, j]))``.

    Attributes
    ----------
    mean : ndarray of shape (n, c, s)
        Mean of each component; the components are on the last axis.
    variance : ndarray that broadcasts to (n, c, s)
        Variance of each component, non-negative.
    weights : ndarray of shape (s,)
        Weight of each component; they sum to one.
    """

    mean: Array
    variance: Array
    weights: Array

    @classmethod
    def joined(cls, parts: Sequence[LatentMixture], weights: Array) -> LatentMixture:
        """Mixture of mixtures: the components of part k, times ``weights[k]``."""
        mean = np.concatenate([part.mean for part in parts], axis=2)
        variances = [np.broadcast_to(p.variance, p.mean.shape) for p in parts]
        shares = [w * p.weights for w, p in zip(weights, parts, strict=True)]
        return cls(mean, np.concatenate(variances, axis=2), np.concatenate(shares))

    def rows(self, index: Any) -> LatentMixture:
        """Mixture of some rows, by a slice or an array of their numbers."""
        shape = (len(self.mean), *self.variance.shape[1:])
        variance = np.broadcast_to(self.variance, shape)[index]
        return LatentMixture(self.mean[index], variance, self.weights)

    def moments(self) -> tuple[Array, Array]:
        """Mean and variance of the whole mixture, each of shape (n, c).

        ``Var f = E[variance] + Var[mean]``, computed around the mean so that a
        common offset of the components loses no digits.
        """
        mean = self.mean @ self.weights
        spread = (self.mean - mean[:, :, np.newaxis]) ** 2 + self.variance
        return mean, spread @ self.weights


def atoms(
    mixture: LatentMixture,
    n_nodes: int | None = None,
    refinement: int = 1,
) -> tuple[Array, Array]:
    """Nodes and weights for expectations under a latent mixture.

    ``E[h(f)] ~ sum_a weights[a] h(values[i, :, a])``. The points are the same
    affine image of one fixed set for every row, so the result of a row never
    depends on the other rows.

    For one output each component gets a trapezoidal rule, which is as accurate as
    Gauss-Hermite for smooth functions (error ``exp(-2 pi^2 / h^2)`` at spacing h)
    and stays so when it is shifted. Each component is shifted by a different fraction
    of h: where components coincide, as they do far from the data, their nodes
    interleave and resolve functions ``s`` times narrower than one rule could. For
    several outputs the points are a Kronecker sequence and its mirror image.

    Parameters
    ----------
    mixture : LatentMixture
    n_nodes : int, default=None
        Nodes per component; by default ``max(11, ceil(128 / s))``, for several outputs
        ``max(6, ceil(600 / s))``: class probabilities are then within 0.001 to 0.006 in
        the mean, the more the larger the variances are. One node, the mean, is used
        when no row has a variance above rounding level.
    refinement : int, default=1
        Multiplies the number of nodes: for functions with narrower features than the
        normal distributions.

    Returns
    -------
    values : ndarray of shape (n, c, a)
    weights : ndarray of shape (a,)
        They sum to one.
    """
    mean, variance, weights = mixture
    n, c, _ = mean.shape
    nodes, node_weights = normal_nodes(mixture, n_nodes, refinement)
    if nodes.shape[2] == 1:
        return mean, weights
    # values = mean + std * xi, components slow, nodes fast: (n, c, s, k)
    std = np.sqrt(variance)[:, :, :, np.newaxis]
    values = mean[:, :, :, np.newaxis] + std * nodes
    combined = weights[:, np.newaxis] * node_weights
    return values.reshape(n, c, -1), combined.ravel()


def normal_nodes(
    mixture: LatentMixture,
    n_nodes: int | None = None,
    refinement: int = 1,
) -> tuple[Array, Array]:
    """Standard normal nodes (c, s, k) and weights (s, k) of :func:`atoms`.

    One node, zero, where no row has a variance above rounding level.
    """
    mean, variance, _ = mixture
    _, c, s = mean.shape
    floor = NEGLIGIBLE * np.mean(mean**2, axis=2, keepdims=True)
    if np.all(variance <= floor):
        return np.zeros((c, s, 1)), np.ones((s, 1))
    if c == 1:
        # odd: the nodes of even number are not the mirror image of those of odd number
        k = n_nodes or max(11, math.ceil(128 / s)) * refinement | 1
        nodes, node_weights = _interleaved_normal_rules(s, k)
        return nodes[np.newaxis], node_weights
    k = n_nodes or max(6, math.ceil(600 / s))
    return normal_points(c, s, k * refinement)


def _interleaved_normal_rules(s: int, k: int) -> tuple[Array, Array]:
    """Nodes and weights, (s, k) each, of s shifted trapezoidal rules for N(0, 1).

    The spacing balances truncation, ``exp(-(k h)^2 / 8)``, against discretisation,
    ``exp(-2 pi^2 / h^2)``; beyond 8 standard deviations it only gets finer.
    """
    if k == 1:
        return np.zeros((s, 1)), np.ones((s, 1))
    spacing = min(2.0 * math.sqrt(math.pi / k), 16.0 / k)
    golden = (math.sqrt(5.0) - 1.0) / 2.0
    # The fractions (0, ..., s - 1) / s of the spacing, in an order that spreads them.
    rank = np.argsort(np.argsort(np.arange(s) * golden % 1.0))
    shift = (rank + 0.5) / s - 0.5
    nodes = spacing * (np.arange(k) - (k - 1) / 2.0 + shift[:, np.newaxis])
    weights = np.exp(-0.5 * nodes**2)
    weights /= weights.sum(axis=1, keepdims=True)
    # Exact first and second moments.
    nodes -= np.sum(weights * nodes, axis=1, keepdims=True)
    nodes /= np.sqrt(np.sum(weights * nodes**2, axis=1, keepdims=True))
    return nodes, weights


def normal_points(c: int, s: int, k: int) -> tuple[Array, Array]:
    """Nodes (c, s, k) and weights (s, k) of s consecutive stretches of one sequence.

    The sequence is ``frac(i sqrt(p_d))`` for the primes p_d, mapped to normals; each
    stretch holds its points and their negatives, so that its mean is exactly zero.
    """
    half = max(1, (k + 1) // 2)
    index = np.arange(1, s * half + 1)
    uniform = np.outer(np.sqrt(_primes(c)), index) % 1.0
    points = ndtri(np.clip(uniform, 1e-12, 1.0 - 1e-12))
    points /= np.sqrt(np.mean(points**2, axis=1, keepdims=True))
    points = points.reshape(c, s, half)
    nodes = np.concatenate([points, -points], axis=2)
    return nodes, np.full((s, 2 * half), 0.5 / half)


def _primes(count: int) -> Array:
    """Sieve the first ``count`` prime numbers."""
    bound = max(
        15,
        int(count * (math.log(count) + math.log(math.log(count) + 2.0))) + 9,
    )
    candidates = np.arange(bound)
    is_prime = candidates >= 2
    for factor in range(2, math.isqrt(bound) + 1):
        is_prime[factor * factor :: factor] = False
    return candidates[is_prime][:count].astype(np.float64)
