"""Averages of the softplus and the logistic function over a latent mixture."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics import elementary
from skgpx._numerics._jit import reduction
from skgpx._numerics.mixture import LatentMixture, normal_nodes
from skgpx._numerics.normal_sums import Noise

Array = NDArray[np.float64]

_exp = elementary.exp
_twice_artanh = elementary.twice_artanh


def logistic_noise() -> Noise:
    """The logistic law as atoms: the trapezoidal rule of step 0.9.

    For averages of functions that are smooth at the scale 1, such as ``Φ((x - L) / s)``
    with s > 2: relative error ``2 exp(-2π²/0.9)``, below 1e-9.
    """
    x = 0.9 * np.arange(-44.0, 45.0)
    weights = np.exp(-np.abs(x)) / (1.0 + np.exp(-np.abs(x))) ** 2
    return Noise(x, np.zeros(len(x)), weights / weights.sum())


def link_averages(mixture: LatentMixture, refinement: int = 1) -> Array:
    """``E expit(f)``, ``E softplus(f)`` and ``Var softplus(f)``, shape (n, 3).

    For one output, by the nodes of :func:`skgpx._numerics.mixture.atoms`, which are not
    kept. The variance is around the mean.
    """
    mean, variance, weights = mixture
    nodes, node_weights = normal_nodes(mixture, refinement=refinement)
    out = np.zeros((len(mean), 3))
    std = np.sqrt(np.broadcast_to(variance, (len(mean), 1, variance.shape[2])))
    _link_averages(
        np.ascontiguousarray(mean[:, 0]),
        np.ascontiguousarray(std[:, 0]),
        np.ascontiguousarray(nodes[0].T),
        np.ascontiguousarray((weights[:, np.newaxis] * node_weights).T),
        out,
    )
    return out


@reduction
def _link_averages(
    mean: Array, std: Array, nodes: Array, weights: Array, out: Array
) -> None:
    k, s = nodes.shape
    f, spread = np.empty(s), np.empty(s)
    for i in range(len(mean)):
        # squares are taken around the softplus of the largest mean: no digits are lost
        top = mean[i, 0]
        for j in range(s):
            spread[j] = std[i, min(j, std.shape[1] - 1)]
            top = max(top, mean[i, j])
        shift = max(top, 0.0)
        share, first, second = 0.0, 0.0, 0.0
        for q in range(k):
            xi, mass = nodes[q], weights[q]
            for j in range(s):
                f[j] = mean[i, j] + spread[j] * xi[j]
            for j in range(s):
                x = f[j]
                e = _exp(-abs(x))
                inverse = 1.0 / ((1.0 + e) * (2.0 + e))
                rate = (x if x > 0.0 else 0.0) + _twice_artanh(e * (1.0 + e) * inverse)
                share += mass[j] * (1.0 if x > 0.0 else e) * (2.0 + e) * inverse
                first += mass[j] * (rate - shift)
                second += mass[j] * (rate - shift) * (rate - shift)
        out[i, 0], out[i, 1] = share, first + shift
        out[i, 2] = max(second - first * first, 0.0)
