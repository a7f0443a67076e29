"""Normal mixtures of latent values, from which predictions are computed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from skgpx._types import Array, Index

# Below this fraction of a row's mean square a variance has no effect on a prediction.
NEGLIGIBLE = 1e-20


class LatentMixture(NamedTuple):
    """Distribution of the latent values of each row: a mixture of independent normals.

    Row i has the density ``Σ_j weights[j] N(f | mean[i, :, j], diag(variance[i, :,
    j]))``.

    Attributes
    ----------
    mean : ndarray of shape (n, c, s)
        Mean of each component; the components are on the last axis.
    variance : ndarray that broadcasts to (n, c, s)
        Variance of each component, non-negative.
    weights : ndarray of shape (s,)
        Weight of each component; they sum to one.
    owner : ndarray of int of shape (s,), default=None
        Number of the model from which each component comes, in a mixture of models.
    """

    mean: Array
    variance: Array
    weights: Array
    owner: Index | None = None

    @classmethod
    def joined(
        cls,
        parts: Sequence[LatentMixture],
        weights: Array,
    ) -> LatentMixture:
        """Mixture of mixtures: the components of part k, times ``weights[k]``."""
        means = []
        variances = []
        shares = []
        sizes = []
        # outputs of one variance, as of classes, remain such
        n_variances = max(mixture.variance.shape[1] for mixture in parts)
        for mixture, weight in zip(parts, weights, strict=True):
            n, _, size = mixture.mean.shape
            variance = np.broadcast_to(mixture.variance, (n, n_variances, size))
            means.append(mixture.mean)
            variances.append(variance)
            shares.append(weight * mixture.weights)
            sizes.append(size)
        return cls(
            mean=np.concatenate(means, axis=2),
            variance=np.concatenate(variances, axis=2),
            weights=np.concatenate(shares),
            owner=np.repeat(np.arange(len(sizes)), sizes),
        )

    def of_models(self) -> list[tuple[int, float, LatentMixture]]:
        """Number, weight and own mixture of each model of positive weight."""
        assert self.owner is not None
        variance = np.broadcast_to(self.variance, self.mean.shape)
        models = []
        for k in np.unique(self.owner).tolist():
            components = np.flatnonzero(self.owner == k)
            weights = self.weights[components]
            total = float(weights.sum())
            if total == 0.0:
                continue
            mixture = LatentMixture(
                mean=np.take(self.mean, components, axis=2),
                variance=np.take(variance, components, axis=2),
                weights=weights / total,
            )
            models.append((k, total, mixture))
        return models

    def rows(self, index: slice | Index) -> LatentMixture:
        """Mixture of some rows, by a slice or an array of their numbers."""
        shape = (len(self.mean), *self.variance.shape[1:])
        variance = np.broadcast_to(self.variance, shape)
        return self._replace(mean=self.mean[index], variance=variance[index])

    def moments(self) -> tuple[Array, Array]:
        """Mean and variance of the whole mixture, each of shape (n, c).

        ``Var f = E[variance] + Var[mean]``, computed around the mean so that a
        common offset of the components loses no digits.
        """
        mean = self.mean @ self.weights
        deviation = self.mean - mean[:, :, np.newaxis]
        second_moment = deviation**2 + self.variance
        return mean, second_moment @ self.weights


def atoms(
    mixture: LatentMixture,
    n_nodes: int | None = None,
    refinement: int = 1,
) -> tuple[Array, Array]:
    """Nodes and weights for expectations under a latent mixture.

    ``E[h(f)] ≈ Σ_a weights[a] h(values[i, :, a])``. The points are the same affine
    image of one fixed set for every row, so the result of a row never depends on the
    other rows.

    For one output each component has a trapezoidal rule, which is as accurate as
    Gauss-Hermite for smooth functions (error ``exp(-2 π² / h²)`` at spacing h) and
    remains so if it is shifted. Each component is shifted by a different fraction of h:
    the nodes of components that coincide, as they do far from the data, interleave and
    resolve functions ``s`` times narrower than one rule could. For several outputs the
    points are a Kronecker sequence and its mirror image.

    Parameters
    ----------
    mixture : LatentMixture
    n_nodes : int, default=None
        Nodes per component; by default ``max(11, ceil(128 / s))``, for several outputs
        ``max(6, ceil(600 / s))``: the mean error of class probabilities is then between
        0.001 and 0.006, larger for larger variances. One node, the mean, is used when
        no row has a variance above rounding level.
    refinement : int, default=1
        Factor of the number of nodes, for functions with narrower features than the
        normal distributions.

    Returns
    -------
    values : ndarray of shape (n, c, a)
    weights : ndarray of shape (a,)
        They sum to one.
    """
    mean = mixture.mean
    weights = mixture.weights
    n, c, _ = mean.shape
    nodes, node_weights = normal_nodes(mixture, n_nodes, refinement)
    if nodes.shape[2] == 1:
        return mean, weights
    # values = mean + std ξ, components slow, nodes fast: (n, c, s, k)
    std = np.sqrt(mixture.variance)[:, :, :, np.newaxis]
    values = mean[:, :, :, np.newaxis] + std * nodes
    combined = weights[:, np.newaxis] * node_weights
    return values.reshape(n, c, -1), combined.ravel()


def normal_nodes(
    mixture: LatentMixture,
    n_nodes: int | None = None,
    refinement: int = 1,
) -> tuple[Array, Array]:
    """Standard normal nodes (c, s, k) and weights (s, k) of :func:`atoms`.

    One node, zero, if no row has a variance above rounding level.
    """
    mean = mixture.mean
    _, c, s = mean.shape
    floor = NEGLIGIBLE * np.mean(mean**2, axis=2, keepdims=True)
    if np.all(mixture.variance <= floor):
        no_spread = np.zeros((c, s, 1))
        return no_spread, np.ones((s, 1))
    if c > 1:
        if n_nodes is None:
            n_nodes = max(6, math.ceil(600 / s))
        return normal_points(c, s, n_nodes * refinement)
    if n_nodes is None:
        # an odd number: the nodes at even positions do not mirror those at odd ones
        n_nodes = max(11, math.ceil(128 / s)) * refinement | 1
    nodes, node_weights = _interleaved_normal_rules(s, n_nodes)
    return nodes[np.newaxis], node_weights


def _interleaved_normal_rules(s: int, k: int) -> tuple[Array, Array]:
    """Nodes and weights, (s, k) each, of s shifted trapezoidal rules for N(0, 1).

    The spacing h balances truncation, ``exp(-(k h)² / 8)``, against discretisation,
    ``exp(-2 π² / h²)``; rules that reach 8 standard deviations become finer, not wider.
    """
    if k == 1:
        no_spread = np.zeros((s, 1))
        return no_spread, np.ones((s, 1))
    balanced = 2.0 * math.sqrt(math.pi / k)
    spacing = min(balanced, 16.0 / k)
    # shifts by (½, ..., s - ½) / s - ½ spacings, in the order of the golden sequence
    golden_ratio = (math.sqrt(5.0) - 1.0) / 2.0
    sequence = np.arange(s) * golden_ratio % 1.0
    order = np.argsort(sequence)
    rank = np.argsort(order)
    shift = (rank + 0.5) / s - 0.5
    # each rule is symmetric about its shift
    middle = (k - 1) / 2.0
    centred = np.arange(k) - middle
    nodes = spacing * (centred + shift[:, np.newaxis])
    weights = np.exp(-0.5 * nodes**2)
    weights /= weights.sum(axis=1, keepdims=True)
    # exact first and second moments
    mean = np.sum(weights * nodes, axis=1, keepdims=True)
    nodes -= mean
    second_moment = np.sum(weights * nodes**2, axis=1, keepdims=True)
    nodes /= np.sqrt(second_moment)
    return nodes, weights


def normal_points(c: int, s: int, k: int) -> tuple[Array, Array]:
    """Nodes (c, s, k) and weights (s, k) of s consecutive stretches of one sequence.

    The sequence is ``frac(i √p_d)`` for the primes p_d, mapped to normal variables;
    each stretch holds its points and their negatives, so that its mean is exactly zero.
    """
    half = max(1, (k + 1) // 2)
    # multiples of the roots of primes, modulo 1
    index = np.arange(1, s * half + 1)
    roots = np.sqrt(_primes(c))
    uniform = np.outer(roots, index) % 1.0
    uniform = np.clip(uniform, 1e-12, 1.0 - 1e-12)
    points = ndtri(uniform)
    # exact second moments
    second_moment = np.mean(points**2, axis=1, keepdims=True)
    points /= np.sqrt(second_moment)
    points = points.reshape(c, s, half)
    nodes = np.concatenate([points, -points], axis=2)
    weights = np.full((s, 2 * half), 0.5 / half)
    return nodes, weights


def _primes(count: int) -> Array:
    """Sieve the first ``count`` prime numbers."""
    # p_k < k (log k + log log k) for k >= 6
    log_count = math.log(count)
    rosser_bound = count * (log_count + math.log(log_count + 2.0))
    bound = max(15, int(rosser_bound) + 9)
    candidates = np.arange(bound)
    is_prime = candidates >= 2
    for factor in range(2, math.isqrt(bound) + 1):
        is_prime[factor * factor :: factor] = False
    primes = candidates[is_prime]
    return primes[:count].astype(np.float64)
