"""Class probabilities averaged over a latent mixture, in one compiled loop."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics import elementary
from skgpx._numerics._jit import inlined, reduction
from skgpx._numerics.mixture import LatentMixture, normal_nodes

Array = NDArray[np.float64]

_exp = elementary.exp


def mean_probabilities(mixture: LatentMixture) -> Array:
    """``E softmax(f)`` of each row, shape (n, c).

    The nodes are those of :func:`skgpx._numerics.mixture.atoms`, which are not kept:
    a row takes O(c s) memory besides its moments.
    """
    mean, variance, weights = mixture
    n, c, _ = mean.shape
    nodes, node_weights = normal_nodes(mixture)
    std = np.sqrt(np.broadcast_to(variance, (n, c, variance.shape[2])))
    out = np.zeros((n, c))
    _mean_probabilities(
        np.ascontiguousarray(mean),
        np.ascontiguousarray(std),
        # nodes first, components last: the loops over components are contiguous
        np.ascontiguousarray(nodes.transpose(2, 0, 1)),
        np.ascontiguousarray((weights[:, np.newaxis] * node_weights).T),
        out,
    )
    return out


@reduction
def _mean_probabilities(
    mean: Array, std: Array, nodes: Array, weights: Array, out: Array
) -> None:
    n, c, s = mean.shape
    f, total = np.empty((c, s)), np.empty(s)
    for i in range(n):
        for q in range(len(nodes)):
            _displaced(mean[i], std[i], nodes[q], f)
            _exponentials(f, total)
            mass = weights[q]
            for j in range(s):
                total[j] = mass[j] / total[j]
            for a in range(c):
                x, share = f[a], 0.0
                for j in range(s):
                    share += x[j] * total[j]
                out[i, a] += share


@inlined
def _displaced(mean: Array, std: Array, node: Array, f: Array) -> None:
    """f = mean + std ξ, (c, s); std (c, s), or (c, 1) for all components."""
    for a in range(len(f)):
        centre, spread, xi, x = mean[a], std[a], node[a], f[a]
        if len(spread) > 1:
            for j in range(len(x)):
                x[j] = centre[j] + spread[j] * xi[j]
        else:
            one = spread[0]
            for j in range(len(x)):
                x[j] = centre[j] + one * xi[j]


@inlined
def _exponentials(f: Array, total: Array) -> None:
    """exp(f - largest) in place of f (c, s), and its sum over the outputs (s,)."""
    top = np.empty_like(total)
    for a in range(len(f)):
        x = f[a]
        for j in range(len(x)):
            top[j] = x[j] if a == 0 or x[j] > top[j] else top[j]
    for a in range(len(f)):
        x = f[a]
        for j in range(len(x)):
            x[j] = _exp(x[j] - top[j])
        for j in range(len(x)):
            total[j] = x[j] if a == 0 else total[j] + x[j]
