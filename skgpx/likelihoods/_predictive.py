"""Averages of any likelihood over a latent mixture: moments, densities, quantiles.

The trapezoidal rule of :func:`skgpx._numerics.mixture.atoms` resolves a likelihood
whose features are about as wide as the normal components, or wider. A row has two,
four, ... times as many nodes until those of even and of odd number agree, after which
all of them together are far more accurate than either half.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from skgpx._numerics.mixture import LatentMixture, atoms, normal_nodes

Array = NDArray[np.float64]
Rows = NDArray[np.intp]
Mask = NDArray[np.bool_]

# ---- Moments and densities -----------------------------------------------------------


def _refine(
    evaluate: Callable[[Rows, Array, Array, Array], Mask],
    mixture: LatentMixture,
    finest: int,
) -> Rows:
    """Evaluate all rows, again with twice the nodes where that finds halves apart.

    ``evaluate(rows, values, weights, sides)``; `sides` (2, a) are the weights of the
    nodes of even and of odd number. Returns the rows that the finest rule leaves.
    """
    s, factor, pending = len(mixture.weights), 1, np.arange(len(mixture.mean))
    while len(pending) and factor <= finest:
        # values that stay in the cache
        size = max(1, 200_000 // (normal_nodes(mixture)[0].size * factor))
        left = []
        for i in range(0, len(pending), size):
            rows = pending[i : i + size]
            values, weights = atoms(mixture.rows(rows), refinement=factor)
            k = len(weights) // s
            even = np.tile(np.arange(k) % 2 == 0, s)
            sides = np.where(np.stack((even, ~even)), weights, 0.0)
            sides /= np.maximum(sides.sum(axis=1, keepdims=True), 1e-300)
            apart = evaluate(rows, values, weights, sides)
            # a finer rule for several outputs is another sequence of points
            left.append(rows[apart & (k > 1 and mixture.mean.shape[1] == 1)])
        pending, factor = np.concatenate(left), 2 * factor
    return pending


def moments(
    evaluate: Callable[[Rows, Array], tuple[Array, Array | float]],
    mixture: LatentMixture,
) -> Array:
    """``E h(f)``, ``Var h(f)`` and ``E g(f)`` of each row, shape (3, n).

    ``evaluate(rows, f)`` returns h and g, (k, a), at latent values (k, c, a).
    """
    out = np.zeros((3, len(mixture.mean)))

    def apart(rows: Rows, f: Array, weights: Array, sides: Array) -> Mask:
        h, g = evaluate(rows, f)
        average = h @ weights
        square = (h - average[:, np.newaxis]) ** 2 @ weights
        out[:2, rows] = average, square
        out[2, rows] = np.broadcast_to(g, h.shape) @ weights
        gap = np.abs(h @ (sides[0] - sides[1]))
        return gap > 3e-4 * np.sqrt(square) + 1e-12 * np.abs(average)

    _refine(apart, mixture, 64)
    return out


def log_density(likelihood: Any, y: Array, mixture: LatentMixture) -> Array:
    """``log p(y)`` of each row at its own y (n,), in nats, shape (n,).

    Rows of one output that 16 times the nodes do not resolve have the integral along
    the latent line, by a mesh around the peaks.
    """
    out = np.full(len(y), np.nan)

    def apart(rows: Rows, f: Array, weights: Array, sides: Array) -> Mask:
        terms = -likelihood.at_some(rows).row_nll(y[rows], f)
        top = np.max(terms, axis=1, keepdims=True)
        top = np.where(np.isfinite(top), top, 0.0)
        shares = np.exp(terms - top)
        with np.errstate(all="ignore"):
            total = shares @ weights
            out[rows] = top[:, 0] + np.log(total)
            even, odd = np.log(sides @ shares.T)
            # halves also agree where a peak is in the middle between two nodes
            alone = np.max(shares * weights, axis=1) > 0.4 * total
            return ~(np.abs(even - odd) <= 3e-4) | alone

    left = _refine(apart, mixture, 16)
    size = max(1, 1000 // (4 + len(mixture.weights)))
    for i in range(0, len(left), size):
        rows = left[i : i + size]
        given = likelihood.at_some(rows)
        out[rows] = _line_integral(given, y[rows], mixture.rows(rows))
    return out


def _line_integral(likelihood: Any, y: Array, mixture: LatentMixture) -> Array:
    """``log ∫ p(y | f) p(f) df`` of each row, (n,), for one output.

    Gauss-Legendre rules on even panels and on panels whose length halves towards the
    peaks of the likelihood and of the integrand: features down to a part in 10^6 of the
    standard deviation of f are resolved there, and at -f where the likelihood is
    symmetric.
    """
    mean, variance = mixture.mean[:, 0], mixture.variance[:, 0]
    # atoms get a width that no mesh would miss
    variance = np.maximum(variance, 1e-6 * np.max(variance, axis=1, keepdims=True))
    std = np.sqrt(np.broadcast_to(variance, mean.shape))
    low, high = np.min(mean - 10.0 * std, axis=1), np.max(mean + 10.0 * std, axis=1)
    rough = np.asarray(likelihood.initial_latent(y), dtype=np.float64).reshape(len(y))
    rough = np.where(np.isfinite(rough), rough, low)
    low, high = np.minimum(low, rough), np.maximum(high, rough)

    def log_likelihood(f: Array) -> Array:
        return -np.asarray(likelihood.row_nll(y, f[:, np.newaxis]))

    def log_integrand(f: Array) -> Array:
        prior = np.full(f.shape, -np.inf)
        for m, s, weight in zip(mean.T, std.T, mixture.weights, strict=True):
            z = (f - m[:, np.newaxis]) / s[:, np.newaxis]
            log = np.log(weight) - 0.5 * z**2 - np.log(s[:, np.newaxis])
            prior = np.logaddexp(prior, log)
        return log_likelihood(f) + prior - 0.5 * np.log(2.0 * np.pi)

    peaks = [_peak(g, low, high) for g in (log_likelihood, log_integrand)]
    if likelihood.symmetric:
        peaks += [-peak for peak in peaks]
    length = (high - low)[:, np.newaxis]
    steps = length * 0.5 ** np.arange(1.0, 25.0)
    around = [
        p[:, np.newaxis] + np.hstack((-steps, 0.0 * length, steps)) for p in peaks
    ]
    even = low[:, np.newaxis] + length * np.linspace(0.0, 1.0, 41)
    mesh = np.clip(np.hstack((even, *around)), low[:, np.newaxis], high[:, np.newaxis])
    mesh.sort(axis=1)
    nodes, node_weights = np.polynomial.legendre.leggauss(8)
    half = 0.5 * np.diff(mesh, axis=1)[:, :, np.newaxis]
    f = 0.5 * (mesh[:, 1:] + mesh[:, :-1])[:, :, np.newaxis] + half * nodes
    terms = log_integrand(f.reshape(len(y), -1))
    weights = (half * node_weights).reshape(len(y), -1)
    return np.asarray(logsumexp(terms, axis=1, b=weights))


def _peak(function: Callable[[Array], Array], low: Array, high: Array) -> Array:
    """Where the function is largest, (n,): a grid around the best point of the last."""
    rows, grid = np.arange(len(low)), np.linspace(0.0, 1.0, 17)
    start, length = low, high - low
    # the range shrinks to a part in 10^8
    for _ in range(9):
        f = start[:, np.newaxis] + length[:, np.newaxis] * grid
        values = function(f)
        best = np.argmax(np.where(np.isnan(values), -np.inf, values), axis=1)
        centre, length = f[rows, best], length / 8.0
        start = np.clip(centre - 0.5 * length, low, high - length)
    return centre


# ---- Quantiles -----------------------------------------------------------------------


def quantile(
    cdf: Callable[[Array, Rows], Array],
    p: float,
    start: Array,
    spread: Array,
    discrete: bool,
) -> Array:
    """Smallest y with ``cdf(y) >= p`` for each row, shape (n,).

    The bracket grows from the start by doubling, then shrinks by bisection and, for a
    continuous distribution, mostly by the Illinois variant of regula falsi. Each row
    stops separately, so its result does not depend on the other rows.

    Parameters
    ----------
    cdf : callable
        ``cdf(y, rows)`` of some rows; non-decreasing in each row.
    p : float
        Strictly between 0 and 1.
    start, spread : ndarray of shape (n,)
        A continuous row is done when its bracket is narrower than ``1e-12 * (spread +
        |y|)``.
    discrete : bool
        Whether y is an integer. The result is then exact, up to a tolerance of 1e-13 in
        p that absorbs the rounding of the weights.
    """
    step = 0.3 * spread
    if discrete:
        p, start, step = p - 1e-13, np.floor(start), np.ceil(step)
    low, below = _expand(lambda y, rows: cdf(y, rows) - p, start, -step)
    high, above = _expand(lambda y, rows: cdf(y, rows) - p, start, step)
    gaps = np.stack((below, above))
    last = np.zeros(len(start))
    for turn in range(200):
        size = spread + np.maximum(np.abs(low), np.abs(high))
        rows = np.flatnonzero(high - low > (1.0 if discrete else 1e-12 * size))
        if not len(rows):
            break
        a, b, (below, above) = low[rows], high[rows], gaps[:, rows]
        middle = 0.5 * (a + b)
        if discrete:
            middle = np.floor(middle)
        elif turn % 4 != 3:
            rise = above - below
            chord = a - below * (b - a) / np.where(rise > 0.0, rise, 1.0)
            inside = (rise > 0.0) & (chord > a) & (chord < b)
            middle = np.where(inside, chord, middle)
        gap = cdf(middle, rows) - p
        left = gap < 0.0
        done = (np.abs(gap) <= 1e-12 * min(p, 1.0 - p)) & (not discrete)
        # Illinois: halve the value of an end kept twice, so that it moves next time
        side = np.where(left, -1.0, 1.0)
        stays = np.where(side == last[rows], 0.5, 1.0)
        gaps[:, rows] = np.where([left, ~left], gap, gaps[:, rows] * stays)
        low[rows] = np.where(left | done, middle, a)
        high[rows] = np.where(~left | done, middle, b)
        last[rows] = side
    return high if discrete else 0.5 * (low + high)


def _expand(
    gap: Callable[[Array, Rows], Array], start: Array, step: Array
) -> tuple[Array, Array]:
    """First of start + step, start + 3 step, ... beyond the root, and the gap there."""
    end, found, rows = start + step, np.empty(len(start)), np.arange(len(start))
    for _ in range(1000):
        found[rows] = gap(end[rows], rows)
        rows = rows[np.where(step[rows] > 0.0, found[rows] < 0.0, found[rows] >= 0.0)]
        if not len(rows):
            break
        step = 2.0 * step
        end[rows] += step[rows]
    return end, found
