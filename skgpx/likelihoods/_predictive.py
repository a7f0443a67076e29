"""Averages of any likelihood over a latent mixture: moments, densities, quantiles.

The trapezoidal rule of :func:`skgpx._numerics.mixture.atoms` resolves a likelihood
whose features are about as wide as the normal components, or wider. A row has two,
four, ... times as many nodes until those of even and of odd number agree, after which
all of them together are far more accurate than either half.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, log_ndtr, logsumexp

from skgpx._numerics import expectations
from skgpx._numerics.mixture import LatentMixture, atoms, normal_nodes

Array = NDArray[np.float64]
Rows = NDArray[np.intp]
Cdf = Callable[[Array], Array]

# Largest multiple of the nodes for densities and for moments.
_FINEST_DENSITY, _FINEST_MOMENTS = 16, 64
# Largest difference between the nodes of even and of odd number: of means in standard
# deviations, of densities in nats.
_HALVES, _LOG_HALVES = 0.03, 0.01
# Spacing of the nodes over the width of a likelihood above which they are multiplied.
_FINE = 1.1
# How far a likelihood's peak may be, in standard deviations of f, to be looked at.
_IN_SIGHT = 5.0
# Inverse width of the logistic function, for 1e-5, and the standard deviation from
# which it is narrow beside every normal component.
_LOGISTIC, _WIDE = 0.7, 4.0
# Log probability below which it is computed as such.
TINY = -600.0
# Values in memory at a time.
_CHUNK = 1_000_000


# ---- Rows by the number of nodes that they need --------------------------------------


def refinements(mixture: LatentMixture, inverse_width: ArrayLike) -> Rows:
    """Powers of two by which nodes are multiplied for features this narrow, (n,)."""
    std = np.sqrt(np.max(mixture.variance, axis=(1, 2)))
    nodes, _ = normal_nodes(mixture)
    if nodes.shape[2] == 1 or len(nodes) > 1:
        return np.ones(len(mixture.mean), np.intp)
    spacing = float(nodes[0, 0, 1] - nodes[0, 0, 0])
    excess = np.maximum(std * inverse_width * spacing / _FINE, 1.0)
    powers = np.ceil(np.log2(np.minimum(excess, _FINEST_MOMENTS)) - 1e-9)
    return np.array(np.broadcast_to(2 ** powers.astype(np.intp), len(mixture.mean)))


def by_refinement(mixture: LatentMixture, refinement: Rows) -> Iterator[Any]:
    """Rows, their atoms and weights, in chunks with the same number of nodes."""
    for factor in np.unique(refinement):
        yield from _chunks(mixture, np.flatnonzero(refinement == factor), int(factor))


def _chunks(mixture: LatentMixture, rows: Rows, factor: int) -> Iterator[Any]:
    size = max(1, _CHUNK // (int(normal_nodes(mixture)[0].size) * factor))
    for i in range(0, len(rows), size):
        some = rows[i : i + size]
        yield some, *atoms(mixture.rows(some), refinement=factor)


def cdf_refinements(likelihood: Any, mixture: LatentMixture) -> Rows:
    """Multiples of the nodes, (n,), for distribution functions.

    From the curvature of the likelihood at the mean of y, around the mean of f.
    """
    if mixture.mean.shape[1] > 1:
        return np.ones(len(mixture.mean), np.intp)
    mean, variance = mixture.moments()
    f = mean + np.sqrt(variance) * np.array([-1.0, 0.0, 1.0])
    with np.errstate(all="ignore"):
        curvature = likelihood.curvature(likelihood.mean(f), f)
    return refinements(mixture, _inverse_width(np.max(curvature, axis=1)))


def _density_refinements(likelihood: Any, y: Array, mixture: LatentMixture) -> Rows:
    """The same for densities: from the curvature at the rough latent value of y."""
    mean, variance = mixture.moments()
    with np.errstate(all="ignore"):
        rough = np.asarray(likelihood.initial_latent(y), dtype=np.float64)
        rough = rough.reshape(len(y), -1)[:, 0]
        at = rough[:, np.newaxis, np.newaxis]
        width = _inverse_width(likelihood.row_curvature(y, at)[:, 0, 0, 0])
    far = np.abs(rough - mean[:, 0]) > _IN_SIGHT * np.sqrt(variance[:, 0])
    start = refinements(mixture, np.where(far, 0.0, width))
    return np.minimum(start, 2 * _FINEST_DENSITY)


def _inverse_width(curvature: Array) -> Array:
    """``√curvature``, zero where that is not a number."""
    usable = np.isfinite(curvature) & (curvature > 0.0)
    return np.sqrt(np.where(usable, curvature, 0.0))


def _refine(
    evaluate: Callable[[Rows, Array, Array, Array], NDArray[np.bool_]],
    mixture: LatentMixture,
    refinement: Rows,
    finest: int,
) -> Rows:
    """Evaluate all rows, again with twice the nodes where that finds halves apart.

    ``evaluate(rows, values, weights, sides)``; `sides` (2, a) are the weights of the
    nodes of even and of odd number. Returns the rows that the finest rule leaves.
    """
    pending = np.ones(len(mixture.mean), dtype=np.bool_)
    s, factor = len(mixture.weights), 1
    while factor <= finest:
        coarse = np.flatnonzero(pending & (refinement <= factor))
        for rows, values, weights in _chunks(mixture, coarse, factor):
            k = len(weights) // s
            even = np.tile(np.arange(k) % 2 == 0, s)
            sides = np.where(np.stack((even, ~even)), weights, 0.0)
            sides /= np.maximum(sides.sum(axis=1, keepdims=True), 1e-300)
            apart = evaluate(rows, values, weights, sides)
            pending[rows] = apart if k > 1 else False
        factor *= 2
    return np.flatnonzero(pending)


# ---- Moments and densities -----------------------------------------------------------


def moments(likelihood: Any, mixture: LatentMixture, noise: bool) -> Array:
    """``E[y]``, ``Var E[y | f]`` and, with `noise`, ``E Var[y | f]``, shape (3, n)."""
    out = np.zeros((3, len(mixture.mean)))
    several = mixture.mean.shape[1] > 1

    def evaluate(
        rows: Rows, values: Array, weights: Array, sides: Array
    ) -> NDArray[np.bool_]:
        given = likelihood.at_some(rows)
        means = given.row_mean(values)
        average = means @ weights
        square = (means - average[:, np.newaxis]) ** 2 @ weights
        out[:2, rows] = average, square
        if noise:
            out[2, rows] = given.row_variance(values) @ weights
        gap = np.abs(means @ (sides[0] - sides[1]))
        apart = gap > _HALVES * np.sqrt(square) + 1e-12 * np.abs(average)
        return apart & (not several)

    _refine(evaluate, mixture, np.ones(len(mixture.mean), np.intp), _FINEST_MOMENTS)
    return out


def log_density(likelihood: Any, y: Array, mixture: LatentMixture) -> Array:
    """``log p(y)`` of each row at its own y (n,), in nats, shape (n,).

    Rows of one output that 16 times the nodes do not resolve have the integral along
    the latent line, by a mesh around the peaks.
    """
    out = np.full(len(y), np.nan)

    def evaluate(
        rows: Rows, values: Array, weights: Array, sides: Array
    ) -> NDArray[np.bool_]:
        terms = -likelihood.at_some(rows).row_nll(y[rows], values)
        top = np.max(terms, axis=1, keepdims=True)
        top = np.where(np.isfinite(top), top, 0.0)
        shares = np.exp(terms - top)
        with np.errstate(all="ignore"):
            out[rows] = top[:, 0] + np.log(shares @ weights)
            even, odd = np.log(sides @ shares.T)
            return ~(np.abs(even - odd) <= _LOG_HALVES)

    start = _density_refinements(likelihood, y, mixture)
    left = _refine(evaluate, mixture, start, _FINEST_DENSITY)
    if mixture.mean.shape[1] > 1:
        return out
    size = max(1, _CHUNK // (4000 * (1 + len(mixture.weights) // 8)))
    for i in range(0, len(left), size):
        rows = left[i : i + size]
        given = likelihood.at_some(rows)
        out[rows] = _line_integral(given, y[rows], mixture.rows(rows))
    return out


# Nodes of a panel; even panels over the range, and halvings of it towards each peak.
_NODES, _NODE_WEIGHTS = np.polynomial.legendre.leggauss(8)
_PANELS, _HALVINGS = 40, 24


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
    steps = length * 0.5 ** np.arange(1.0, _HALVINGS + 1.0)
    even = low[:, np.newaxis] + length * np.linspace(0.0, 1.0, _PANELS + 1)
    around = [
        p[:, np.newaxis] + np.hstack((-steps, 0.0 * length, steps)) for p in peaks
    ]
    mesh = np.clip(np.hstack((even, *around)), low[:, np.newaxis], high[:, np.newaxis])
    mesh.sort(axis=1)
    half = 0.5 * np.diff(mesh, axis=1)[:, :, np.newaxis]
    f = 0.5 * (mesh[:, 1:] + mesh[:, :-1])[:, :, np.newaxis] + half * _NODES
    terms = log_integrand(f.reshape(len(y), -1))
    weights = (half * _NODE_WEIGHTS).reshape(len(y), -1)
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


# ---- Links with an expectation of their own ------------------------------------------


def softplus_moments(mixture: LatentMixture) -> tuple[Array, Array]:
    """Mean and variance of ``softplus(f)``, (n,) each."""
    mean, variance = np.empty((2, len(mixture.mean)))
    fine = refinements(mixture, _LOGISTIC)
    for rows, values, weights in by_refinement(mixture, fine):
        rate = np.logaddexp(0.0, values[:, 0])
        mean[rows] = rate @ weights
        variance[rows] = (rate - mean[rows, np.newaxis]) ** 2 @ weights
    return mean, variance


def logistic_log_probability(
    likelihood: Any, y: Array, sign: Array, mixture: LatentMixture
) -> Array:
    """``log E expit(sign f)`` of each row, shape (n,).

    By nodes for f; where all components are wide, ``P(f > L)`` by nodes for a logistic
    variable L; where it is tiny, as an integral along the latent line.
    """
    p = np.empty(len(y))
    wide = np.min(mixture.variance, axis=(1, 2)) >= _WIDE**2
    wide = np.broadcast_to(wide, len(y))
    fine = np.where(wide, 0, refinements(mixture, _LOGISTIC))
    narrow = np.flatnonzero(fine)
    part = mixture.rows(narrow)
    for some, values, weights in by_refinement(part, fine[narrow]):
        rows = narrow[some]
        p[rows] = expit(sign[rows, np.newaxis] * values[:, 0]) @ weights
    part, side = mixture.rows(wide), sign[wide]
    p[wide] = expectations.cdf(
        np.zeros(len(side)), -side[:, np.newaxis] * part.mean[:, 0],
        part.variance[:, 0], part.weights, expectations.logistic_noise(),
    )  # fmt: skip
    with np.errstate(divide="ignore"):
        out = np.log(p)
    tiny = np.flatnonzero(out < TINY)
    if len(tiny):
        given = likelihood.at_some(tiny)
        out[tiny] = log_density(given, y[tiny], mixture.rows(tiny))
    return out


def probit_log_probability(sign: Array, mixture: LatentMixture) -> Array:
    """``log P(sign (f + noise) > 0)``: the closed form of the probit link."""
    z = mixture.mean[:, 0] / np.sqrt(1.0 + mixture.variance[:, 0])
    log = log_ndtr(sign[:, np.newaxis] * z)
    return np.asarray(logsumexp(log, axis=1, b=mixture.weights))


# ---- Quantiles -----------------------------------------------------------------------


def class_quantile(p: ArrayLike, probabilities: Array) -> Array:
    """Smallest class number with ``P(Y <= y) >= p`` for each p (q,), shape (n, q).

    Up to a tolerance of 1e-13 in p that absorbs the rounding of the probabilities.
    """
    below = np.cumsum(probabilities[:, :-1], axis=1)[:, :, np.newaxis]
    levels = np.atleast_1d(np.asarray(p, dtype=np.float64)) - 1e-13
    return np.sum(below < levels, axis=1).astype(np.float64)


def continuous_quantile(cdf: Cdf, p: float, centre: Array, spread: Array) -> Array:
    """Solve ``cdf(y) = p`` for each row of a continuous distribution.

    The bracket grows from the centre by doubling, then shrinks by the Illinois
    variant of regula falsi, every fourth step by bisection. Each row stops separately,
    so its result does not depend on the other rows.

    Parameters
    ----------
    cdf : callable
        Takes and returns arrays of shape (n,); non-decreasing in each row.
    p : float
        Strictly between 0 and 1.
    centre, spread : ndarray of shape (n,)
        Starting point, and unit of length: a row is done when its bracket is narrower
        than ``1e-12 * (spread + |y|)``.

    Returns
    -------
    quantile : ndarray of shape (n,)
    """
    low = _expand(lambda y: cdf(y) > p, centre, -spread)
    high = _expand(lambda y: cdf(y) < p, centre, spread)
    low_gap, high_gap = cdf(low) - p, cdf(high) - p
    last = np.zeros(low.shape)
    for step in range(200):
        wide = high - low > 1e-12 * (spread + np.maximum(np.abs(low), np.abs(high)))
        if not wide.any():
            break
        middle, rise = 0.5 * (low + high), high_gap - low_gap
        chord = low - low_gap * (high - low) / np.where(rise > 0.0, rise, 1.0)
        inside = (rise > 0.0) & (chord > low) & (chord < high) & (step % 4 != 3)
        middle = np.where(inside, chord, middle)
        gap = cdf(middle) - p
        done = wide & (np.abs(gap) <= 1e-12 * min(p, 1.0 - p))
        side = np.where(wide, np.where(gap < 0.0, -1.0, 1.0), 0.0)
        # Illinois: halve the value of an end kept twice, so that it moves next time
        stays = np.where(side == last, 0.5, 1.0)
        low_gap = np.where(side < 0.0, gap, low_gap * stays)
        high_gap = np.where(side > 0.0, gap, high_gap * stays)
        low = np.where((side < 0.0) | done, middle, low)
        high = np.where((side > 0.0) | done, middle, high)
        last = side
    return 0.5 * (low + high)


def discrete_quantile(cdf: Cdf, p: float, centre: Array, spread: Array) -> Array:
    """Smallest integer y with ``cdf(y) >= p`` for each row of integers.

    Same arguments as :func:`continuous_quantile`; the result is exact, up to a
    tolerance of 1e-13 in p that absorbs the rounding of the weights.
    """
    p = p - 1e-13
    centre, step = np.floor(centre), np.ceil(0.3 * spread)
    low = _expand(lambda y: cdf(y) >= p, centre, -step)
    high = _expand(lambda y: cdf(y) < p, centre, step)
    while np.any(high - low > 1.0):
        middle = np.floor(0.5 * (low + high))
        enough = cdf(middle) >= p
        wide = high - low > 1.0
        high = np.where(wide & enough, middle, high)
        low = np.where(wide & ~enough, middle, low)
    return high


def _expand(
    outside: Callable[[Array], NDArray[np.bool_]], start: Array, step: Array
) -> Array:
    """First of start + step, start + 3 step, ... that is not outside, per row."""
    end = start + step
    for _ in range(1000):
        moving = outside(end)
        if not moving.any():
            break
        step = np.where(moving, 2.0 * step, step)
        end = np.where(moving, end + step, end)
    return end
