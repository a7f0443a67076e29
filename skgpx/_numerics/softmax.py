"""Class probabilities averaged over a latent mixture, in one compiled loop."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics import elementary
from skgpx._numerics._jit import reduction
from skgpx._numerics.mixture import LatentMixture, normal_nodes

Array = NDArray[np.float64]

_exp = elementary.exp


def mean_probabilities(mixture: LatentMixture) -> Array:
    """``E softmax(f)`` of each row, shape (n, c).

    The nodes are those of :func:`skgpx._numerics.mixture.atoms`, which are not kept:
    a row takes O(c s) memory besides its moments.
    """
    mean, variance, weights = mixture
    n, c, s = mean.shape
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
    own = std.shape[2] > 1
    f, top, total = np.empty((c, s)), np.empty(s), np.empty(s)
    for i in range(n):
        for q in range(len(nodes)):
            for a in range(c):
                centre, spread, xi, x = mean[i, a], std[i, a], nodes[q, a], f[a]
                if own:
                    for j in range(s):
                        x[j] = centre[j] + spread[j] * xi[j]
                else:
                    one = spread[0]
                    for j in range(s):
                        x[j] = centre[j] + one * xi[j]
                for j in range(s):
                    top[j] = x[j] if a == 0 or x[j] > top[j] else top[j]
            for j in range(s):
                total[j] = 0.0
            for a in range(c):
                x = f[a]
                for j in range(s):
                    x[j] = _exp(x[j] - top[j])
                for j in range(s):
                    total[j] += x[j]
            mass = weights[q]
            for j in range(s):
                total[j] = mass[j] / total[j]
            for a in range(c):
                x = f[a]
                share = 0.0
                for j in range(s):
                    share += x[j] * total[j]
                out[i, a] += share
