"""Sums over normal nodes: expectations of links and likelihoods.

With components ``N(m_j, v_j)`` of weights w_j and noise ``N(b_q, t_q)`` of weights p_q
the sum has the components ``N(m_j + b_q, v_j + t_q)`` of weights ``w_j p_q``. Nothing
is approximated, whatever the ratio of the two spreads.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import loggamma, ndtri

from skgpx._numerics import elementary
from skgpx._numerics._jit import inlined, reduction
from skgpx._numerics.mixture import LatentMixture, normal_nodes

# ---- A latent normal mixture plus noise ----------------------------------------------


Array = NDArray[np.float64]
Index = NDArray[np.int64]

_exp = elementary.exp
_erfcx = elementary.erfcx
_LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)
# Last step of a search, in units of the spread, by Halley's method (whose error is of
# its cube) and by bisection; after many steps every other one is a bisection.
_LAST_STEP, _LAST_HALF = 3e-4, 1e-12
_MANY_STEPS, _MAX_STEPS = 10, 200
# What Hastings' function gives for one half.
_AT_HALF = -1.0100667546808495e-07


class Noise(NamedTuple):
    """A normal mixture: shifts, variances and weights of its components, (k,) each.

    What the weights lack to one is the weight of components so wide that half of them
    is below every y that is asked for. Logarithms of weights that underflow are given.
    """

    shift: Array
    variance: Array
    weights: Array
    log_weights: Array | None = None


def log_density(
    y: Array, mean: Array, variance: Array, weights: Array, noise: Noise, first: Index
) -> Array:
    """Log density of each row's sum at its y (n,), in nats, shape (n,).

    Parameters
    ----------
    y : ndarray of shape (n,)
    mean : ndarray of shape (n, s)
    variance : ndarray of shape (n, 1) or (n, s)
        Non-negative.
    weights : ndarray of shape (s,)
    noise : Noise
        Of positive variances.
    first : ndarray of shape (n,) of int
        The first component of the noise that matters to each row.

    Notes
    -----
    O(s k) for each row, and no array of that size.
    """
    out, log_mass = np.empty(len(y)), noise.log_weights
    if log_mass is None:
        log_mass = np.log(noise.weights)
    _log_densities(
        y, np.ascontiguousarray(mean), np.ascontiguousarray(variance),
        weights, noise.shift, noise.variance, log_mass, first, out,
    )  # fmt: skip
    return out


def cdf(y: Array, mean: Array, variance: Array, weights: Array, noise: Noise) -> Array:
    """``P(Y <= y)`` of each row at its y (n,), shape (n,); arguments as above.

    Small values have all digits, up to what the weights of the noise lack to one.
    """
    out = np.empty(len(y))
    _cdfs(
        y, np.ascontiguousarray(mean), np.ascontiguousarray(variance),
        weights, *noise[:3], out,
    )  # fmt: skip
    return out


def quantile(
    p: float, mean: Array, variance: Array, weights: Array, noise: Noise, reach: float
) -> Array:
    """``y`` with ``P(Y <= y) = p`` for each row, shape (n,).

    Parameters
    ----------
    p : float
        Strictly between 0 and 1.
    mean, variance, weights, noise
        As for `log_density`.
    reach : float
        The quantile of the noise, from which the search starts.

    Notes
    -----
    Halley's method on ``Φ⁻¹(cdf)``, which is linear for a normal law, from the quantile
    of the sum that has the right moments; a step that would leave the bracket found so
    far bisects it. One to three evaluations, to 1e-9 of the spread. Levels above one
    half are solved in the mirror image of the law, where their tail has all digits.
    """
    sign = 1.0 if p <= 0.5 else -1.0
    level, mean = min(p, 1.0 - p), np.ascontiguousarray(sign * mean)
    centre = mean @ weights
    latent = (mean - centre[:, np.newaxis]) ** 2 + variance
    middle = float(noise.shift @ noise.weights)
    deep = float(ndtri(level))
    width = np.sqrt(deep**2 * (latent @ weights) + (reach - middle) ** 2)
    # narrow components far apart have steps between them
    square = np.minimum(latent, 9.0 * variance) @ weights
    unit = np.sqrt(square + noise.variance.min())
    out = centre + sign * middle - width
    _quantiles(
        level, mean, np.ascontiguousarray(variance), weights, sign * noise.shift,
        noise.variance, noise.weights, unit, out,
    )  # fmt: skip
    return sign * out


@reduction
def _log_densities(
    y: Array,
    mean: Array,
    variance: Array,
    weights: Array,
    shift: Array,
    spread: Array,
    log_mass: Array,
    first: Index,
    out: Array,
) -> None:
    # log Σ_jq w_j p_q N(r_j | b_q, v_j + t_q), the largest exponent taken out
    n, s = mean.shape
    k, one = len(shift), variance.shape[1] == 1
    constant, precision = np.empty((k, s)), np.empty((k, s))
    for i in range(n):
        top = -np.inf
        for q in range(first[i], k):
            c, h = constant[q], precision[q]
            for j in range(1 if one else s):
                total = variance[i, j] + spread[q]
                h[j] = 0.5 / total
                c[j] = log_mass[q] - 0.5 * math.log(total)
            for j in range(s if one else 0):
                h[j], c[j] = h[0], c[0]
            for j in range(s):
                r = y[i] - mean[i, j] - shift[q]
                c[j] -= h[j] * r * r
            for j in range(s):
                top = c[j] if c[j] > top else top
        density = 0.0
        for q in range(first[i], k):
            c = constant[q]
            for j in range(s):
                density += weights[j] * _exp(c[j] - top)
        out[i] = top + math.log(density) - _LOG_SQRT_2PI


@reduction
def _cdfs(
    y: Array,
    mean: Array,
    variance: Array,
    weights: Array,
    shift: Array,
    spread: Array,
    mass: Array,
    out: Array,
) -> None:
    for i in range(len(y)):
        out[i] = _below_and_density(
            y[i], mean[i], variance[i], weights, shift, spread, mass
        )[0]


@reduction
def _below_and_density(
    y: float,
    mean: Array,
    variance: Array,
    weights: Array,
    shift: Array,
    spread: Array,
    mass: Array,
) -> tuple[float, float, float]:
    """``P(Y <= y)``, the density at y, and its derivative, of one row."""
    below, density, slope, known = 0.0, 0.0, 0.0, 0.0
    one = len(variance) == 1
    for q in range(len(shift)):
        at, left, height, rise = y - shift[q], 0.0, 0.0, 0.0
        a = 1.0 / math.sqrt(variance[0] + spread[q])
        for j in range(len(mean)):
            if not one:
                a = 1.0 / math.sqrt(variance[j] + spread[q])
            z = (at - mean[j]) * a
            e = _exp(-0.5 * z * z)
            tail = 0.5 * _erfcx(abs(z) * 0.7071067811865476) * e
            left += weights[j] * (tail if z < 0.0 else 1.0 - tail)
            height += weights[j] * e * a
            rise -= weights[j] * e * z * a * a
        below += mass[q] * left
        density += mass[q] * height
        slope += mass[q] * rise
        known += mass[q]
    below += 0.5 * max(1.0 - known, 0.0)
    return below, 0.3989422804014327 * density, 0.3989422804014327 * slope


@inlined
def deviate(p: float) -> tuple[float, float]:
    """A monotone function near ``Φ⁻¹(p)``, to 1e-3, and its derivative.

    Hastings' rational function, shifted so that it is odd and continuous at one half.
    """
    tail = min(p, 1.0 - p)
    t = math.sqrt(-2.0 * math.log(tail))
    top = 2.515517 + t * (0.802853 + t * 0.010328)
    bottom = 1.0 + t * (1.432788 + t * (0.189269 + t * 0.001308))
    slope_top = 0.802853 + t * 0.020656
    slope_bottom = 1.432788 + t * (0.378538 + t * 0.003924)
    slope = 1.0 - (slope_top * bottom - top * slope_bottom) / (bottom * bottom)
    value = t - top / bottom - _AT_HALF
    return (-value if p < 0.5 else value), slope / (tail * t)


@reduction
def _quantiles(
    p: float,
    mean: Array,
    variance: Array,
    weights: Array,
    shift: Array,
    spread: Array,
    mass: Array,
    unit: Array,
    y: Array,
) -> None:
    goal = deviate(p)[0]
    for i in range(len(y)):
        low, high, reach = -np.inf, np.inf, 4.0 * unit[i]
        for step in range(_MAX_STEPS):
            below, density, rise = _below_and_density(
                y[i], mean[i], variance[i], weights, shift, spread, mass
            )
            low, high = (y[i], high) if below < p else (low, y[i])
            toward, new = -1.0 if below >= p else 1.0, np.nan
            if 1e-290 < below < 1.0 - 1e-14 and density * unit[i] > 1e-200:
                at, slope = deviate(below)
                newton = (at - goal) / (slope * density)
                # half g''/g' of g = Φ⁻¹(cdf); that of Φ⁻¹ itself is half Φ⁻¹ slope
                bend = 0.5 * newton * (rise / density + at * slope * density)
                new = y[i] - newton / (1.0 - min(max(bend, -0.5), 0.5))
            enough, bounded = _LAST_STEP, high - low < np.inf
            many = step > _MANY_STEPS and step % 2 == 1
            if bounded and (many or not low <= new <= high):
                # a step that leaves the bracket, or one of many
                new, enough = 0.5 * (low + high), _LAST_HALF
            if not bounded and not toward * (new - y[i]) <= reach:
                new = y[i] + toward * reach
                reach *= 2.0
            moved, y[i] = abs(new - y[i]), new
            if moved <= enough * unit[i] or moved <= 1e-14 * abs(new):
                break


# ---- Averages of the softplus and the logistic function over a latent mixture --------


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


# ---- Student's law as a mixture of normals over a lattice of log precisions ----------


# Relative error of the lattice, and what is left out at its ends, in nats.
_ERROR, _LEFT_OUT = 1e-10, 25.0
# The same for probabilities.
_ROUGHER, _LEFT_OUT_OF_P = 3e-9, 20.0
# Log variances beyond which squares would overflow.
_WIDEST = 600.0


@lru_cache(maxsize=64)
def log_precisions(
    df: float, lowest: float, error: float = _ERROR
) -> tuple[Array, Array]:
    """Lattice of ``x = log g`` from `lowest` on, and its log weights, (k,) each.

    Student's law is that of ``N(0, 1 / g)`` with ``g ~ Gamma(df/2, rate df/2)`` [1]_.
    The trapezoidal rule in x, of step h, has the relative error ``2 |Γ(a + 2πi/h) /
    Γ(a)|`` for the density of ``(df + 1)/2 = a``, whatever the residual and whatever is
    added to ``1 / g``: the integrand is analytic for ``|Im x| < π/2``; `error` sets h.

    The points are multiples of h, so that those of a longer lattice include them.

    References
    ----------
    .. [1] Andrews and Mallows, "Scale mixtures of normal distributions", Journal of the
       Royal Statistical Society B 36, 1974.
    """
    a, b = 0.5 * (df + 1.0), 0.5 * df
    omega = np.linspace(4.0, 6.6 * np.sqrt(a) + 24.0, 400)
    decay = np.real(loggamma(a + 1j * omega)) - float(loggamma(a))
    h = 2.0 * np.pi / omega[np.argmax(decay < np.log(0.5 * error))]
    # the density of x, h b^b e^{bx - b e^x} / Γ(b); b (e^x - 1 - x) falls by it:
    # one step of x = log(1 + c + x) from above
    c = _LEFT_OUT / b
    margin = np.log1p(c + np.sqrt(2.0 * c))
    x = h * np.arange(np.floor(lowest / h), np.ceil(margin / h) + 1.0)
    whole = h * np.arange(-np.ceil(_left(b) / h), np.ceil(margin / h) + 1.0)
    total = np.exp(-b * (np.expm1(whole) - whole)).sum()
    return x, -b * (np.expm1(x) - x) - np.log(total)


def _left(b: float) -> float:
    """Distance on the left at which ``b (e^x - 1 - x)`` has grown by the margin."""
    return float(np.sqrt(2.0 * _LEFT_OUT / b) + _LEFT_OUT / b)


def noise_around(
    df: float, scale: float, square: Array
) -> tuple[Noise, NDArray[np.int64]]:
    """Noise for densities, and the first component that matters to each row.

    Parameters
    ----------
    df, scale : float
    square : ndarray of shape (n,)
        Largest squared residual plus variance of each row: the precisions that matter
        to it go down to ``(df + 1) / (df + square / scale^2)``, and a margin.
    """
    ratio = np.minimum(square / scale**2, 1e300)
    deepest = np.log((df + 1.0) / (df + 1.0 + ratio)) - _left(0.5 * df)
    x, log_weights = log_precisions(df, float(np.floor(deepest.min())))
    first = np.maximum(np.searchsorted(x, deepest) - 1, 0)
    return _noise(scale, x, log_weights), first.astype(np.int64)


def noise_for_level(df: float, scale: float, p: float) -> Noise:
    """Noise for probabilities down to p, to 3e-9 of p.

    Components are left out that have a probability of 2e-9 p together.
    """
    lowest = (np.log(p) - _LEFT_OUT_OF_P) / (0.5 * df)
    lowest = float(np.floor(max(lowest, -_WIDEST)))
    return _noise(scale, *log_precisions(df, lowest, _ROUGHER))


def _noise(scale: float, x: Array, log_weights: Array) -> Noise:
    variance = scale**2 * np.exp(-x)
    return Noise(np.zeros(len(x)), variance, np.exp(log_weights), log_weights)
