"""Softmax and its average over Gumbel noise.

With independent Gumbel variables G_k the largest of ``f_k + G_k`` has softmax
probabilities. For independent normal f_k these sums are independent too, and

    E softmax(f)_k = ∫ F_k'(u) Π_{l≠k} F_l(u) du = ∫ L_k'(u) exp(Σ_l L_l(u)) du

with F_l the distribution function of ``f_l + G_l`` and ``L_l = log F_l``: one integral
of a smooth function for each component, however many classes there are.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics import elementary
from skgpx._numerics._jit import inlined, reduction
from skgpx._numerics.mixture import LatentMixture, normal_nodes

# ---- Class probabilities averaged over a latent mixture, in one compiled loop --------


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


# ---- Class probabilities under wide latent laws, as integrals over one variable ------


_log = elementary.log
_erfcx = elementary.erfcx

# Standard deviation below which F is averaged over nodes for f, not for G.
_NARROW = 0.7
# Step of the tables of L and of the integrals, in standard deviations of ``f + G``.
_TABLE_STEP, _STEP = 0.15, 0.5
# Variance of a Gumbel variable.
_GUMBEL = math.pi**2 / 6.0
# Lowest log probability that is kept.
_LOWEST = -80.0


def wide_probabilities(mixture: LatentMixture) -> Array:
    """``E softmax(f)`` of each row, shape (n, c), to about 2e-5.

    O(s c) evaluations of a cubic for each of some sixty points, and one table for each
    variance: fast where the components and classes of a row share it.
    """
    mean, variance, weights = mixture
    n, c, _ = mean.shape
    std = np.sqrt(np.broadcast_to(variance, (n, *variance.shape[1:])))
    x = np.arange(-6.0, 6.01, 0.4)
    normal = np.exp(-0.5 * x**2)
    gumbel = 0.6 * np.arange(-6.0, 26.0)
    masses = np.exp(-gumbel - np.exp(-gumbel))
    out = np.empty((n, c))
    _probabilities(
        np.ascontiguousarray(mean), np.ascontiguousarray(std), weights,
        x, normal / normal.sum(), gumbel, masses / masses.sum(), out,
    )  # fmt: skip
    return out


@reduction
def _fill(
    s: float, x: Array, normal: Array, gumbel: Array, masses: Array, table: Array
) -> tuple[float, float]:
    """L and L' (2, k) of ``s ξ + G`` on an even grid: its start and its step."""
    scale = math.sqrt(s * s + _GUMBEL)
    start, step = -7.0 * s - 4.5, _TABLE_STEP * scale
    for i in range(table.shape[1]):
        t, below, density = start + step * i, 0.0, 0.0
        if s < _NARROW:
            for q in range(len(x)):
                e = _exp(s * x[q] - t)
                p = normal[q] * _exp(-e)
                below += p
                density += p * e
        else:
            for q in range(len(gumbel)):
                z = (t - gumbel[q]) / s
                e = _exp(-0.5 * z * z)
                tail = 0.5 * _erfcx(abs(z) * 0.7071067811865476) * e
                below += masses[q] * (tail if z < 0.0 else 1.0 - tail)
                density += masses[q] * e
            density *= 0.3989422804014327 / s
        below = max(below, 1e-300)
        table[0, i] = max(_log(below), _LOWEST)
        table[1, i] = density / below if table[0, i] > _LOWEST else 0.0
    return start, step


@reduction
def _probabilities(
    mean: Array,
    std: Array,
    weights: Array,
    x: Array,
    normal: Array,
    gumbel: Array,
    masses: Array,
    out: Array,
) -> None:
    n, c, s = mean.shape
    shared = std.shape[1] * std.shape[2] == 1
    k = int((7.0 + 7.0 + 26.0) / _TABLE_STEP) + 1
    table = np.empty((1 if shared else c, 2, k))
    start, step = np.empty(len(table)), np.empty(len(table))
    built = np.full(len(table), -1.0)
    for i in range(n):
        if shared:
            start[0], step[0] = _fill(std[i, 0, 0], x, normal, gumbel, masses, table[0])
        out[i] = 0.0
        for j in range(s):
            for a in range(0 if shared else c):
                v = std[i, min(a, std.shape[1] - 1), min(j, std.shape[2] - 1)]
                if v != built[a]:
                    start[a], step[a] = _fill(v, x, normal, gumbel, masses, table[a])
                    built[a] = v
            _add_component(mean[i, :, j], table, start, step, weights[j], out[i])


@inlined
def _interpolated(table: Array, at: float, d: float) -> tuple[float, float]:
    """The cubic with the values and slopes of a table of step d, and its slope.

    Zero beyond the table, where F is one.
    """
    last = table.shape[1] - 1
    q = int(min(max(at, 0.0), last - 1.0))
    r = at - q
    if r > 1.0:
        return 0.0, 0.0
    m0, m1 = d * table[1, q], d * table[1, q + 1]
    rise = table[0, q + 1] - table[0, q]
    c2, c3 = 3.0 * rise - 2.0 * m0 - m1, m0 + m1 - 2.0 * rise
    value = table[0, q] + r * (m0 + r * (c2 + r * c3))
    return value, (m0 + r * (2.0 * c2 + 3.0 * r * c3)) / d


@reduction
def _add_component(
    mean: Array, table: Array, start: Array, step: Array, weight: float, out: Array
) -> None:
    """Add the weighted probabilities of one component: a sum over an even grid."""
    c = len(mean)
    low, high, h = -np.inf, -np.inf, np.inf
    for a in range(c):
        b = min(a, len(table) - 1)
        scale = step[b] / _TABLE_STEP
        # F is 1e-6 at the first of these, 1 - 1e-5 at the second
        low = max(low, mean[a] - 4.8 * scale)
        high = max(high, mean[a] + 4.5 * scale + 10.0)
        h = min(h, _STEP * scale)
    slope, total = np.empty(c), 0.0
    own = np.zeros(c)
    for i in range(int((high - low) / h) + 1):
        u, log = low + h * i, 0.0
        for a in range(c):
            b = min(a, len(table) - 1)
            at = (u - mean[a] - start[b]) / step[b]
            value, slope[a] = _interpolated(table[b], at, step[b])
            log += value
        mass = _exp(log)
        for a in range(c):
            own[a] += max(slope[a], 0.0) * mass
    for a in range(c):
        total += own[a]
    for a in range(c):
        out[a] += weight * own[a] / total
