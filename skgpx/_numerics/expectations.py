"""Expectations of likelihoods and links under normal distributions.

A normal mixture plus noise that is a normal mixture is a normal mixture: with
components ``N(m_j, v_j)`` of weights w_j and noise ``N(b_q, t_q)`` of weights p_q the
sum has components ``N(m_j + b_q, v_j + t_q)`` of weights ``w_j p_q``. Student's noise
is a mixture over its precision and logistic noise a sum of atoms, so that densities,
probabilities and quantiles are sums, whatever the ratio of the spreads.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import loggamma, pdtr, softmax

from skgpx._numerics._jit import inlined, reduction
from skgpx._numerics.elementary import erfcx, exp
from skgpx._numerics.mixture import LatentMixture, normal_nodes

Array = NDArray[np.float64]

# ---- Gauss-Hermite rules -------------------------------------------------------------


def expectation_nodes(n_outputs: int, n_nodes: int = 12) -> tuple[Array, Array]:
    """Nodes ξ (q, c) and weights (q,) for ``E[h(ξ)]``, ξ ~ N(0, I).

    Gauss-Hermite with `n_nodes` nodes for one output; for several the spherical rule
    of degree three, ``±√c e_i`` with weights ``1 / (2c)``.
    """
    if n_outputs == 1:
        nodes, weights = np.polynomial.hermite_e.hermegauss(n_nodes)
        return nodes[:, np.newaxis], weights / weights.sum()
    points = np.sqrt(n_outputs) * np.eye(n_outputs)
    return np.concatenate((points, -points)), np.full(2 * n_outputs, 0.5 / n_outputs)


# ---- A latent normal mixture plus noise ----------------------------------------------


class Noise(NamedTuple):
    """A normal mixture: shifts, variances and log weights of its components, (k,)."""

    shift: Array
    variance: Array
    log_weights: Array

    def heaviest(self, p: float) -> Noise:
        """The components that matter to probabilities of about p."""
        return Noise(*(a[self.log_weights > math.log(1e-11 * p)] for a in self))


@lru_cache(maxsize=64)
def student_noise(df: float) -> Noise:
    """Student's distribution of scale one, as a mixture of normals.

    That of ``N(0, 1 / g)`` with ``g ~ Gamma(df/2, rate df/2)`` [1]_, by the trapezoidal
    rule in ``x = log g``. A rule of step h has the relative error ``2 |Γ(a + 2πi/h) /
    Γ(a)|``, a = (df + 1)/2, for the density of any residual, whatever is added to the
    variance; 1e-9 here, for residuals of up to 1e7 scales.

    References
    ----------
    .. [1] Andrews and Mallows, "Scale mixtures of normal distributions", Journal of the
       Royal Statistical Society B 36, 1974.
    """
    a, b = 0.5 * (df + 1.0), 0.5 * df
    omega = np.linspace(4.0, 6.6 * np.sqrt(a) + 24.0, 400)
    decay = np.real(loggamma(a + 1j * omega)) - float(loggamma(a))
    h = 2.0 * np.pi / omega[np.argmax(decay < np.log(0.5e-9))]
    # the density of x is that of exp(-b (e^x - 1 - x)): ends where it falls by e^-25
    deepest = max(-math.sqrt(50.0 / b) - 25.0 / b - 35.0, -600.0)
    highest = math.log1p(25.0 / b + math.sqrt(50.0 / b))
    x = h * np.arange(math.floor(deepest / h), math.ceil(highest / h) + 1.0)
    log_weights = -b * (np.expm1(x) - x)
    log_weights -= np.log(np.sum(np.exp(log_weights)))
    return Noise(np.zeros(len(x)), np.exp(-x), log_weights)


@lru_cache(maxsize=1)
def logistic_noise() -> Noise:
    """The logistic distribution as atoms: the trapezoidal rule of step 0.9.

    For averages of functions that are smooth at the scale 1, such as ``Φ((x - L) / s)``
    with s > 2: relative error ``2 exp(-2π²/0.9)``, below 1e-9.
    """
    x = 0.9 * np.arange(-44.0, 45.0)
    log_weights = -np.abs(x) - 2.0 * np.log1p(np.exp(-np.abs(x)))
    log_weights -= np.log(np.sum(np.exp(log_weights)))
    return Noise(x, np.zeros(len(x)), log_weights)


def log_density(
    y: Array, mean: Array, variance: Array, weights: Array, noise: Noise
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

    Notes
    -----
    O(s k) for each row, and no array of that size.
    """
    out = np.empty(len(y))
    _log_densities(
        y, np.ascontiguousarray(mean), np.ascontiguousarray(variance),
        np.log(np.maximum(weights, 1e-300)), *noise, out,
    )  # fmt: skip
    return out


def cdf(y: Array, mean: Array, variance: Array, weights: Array, noise: Noise) -> Array:
    """``P(Y <= y)`` of each row at its y (n,), shape (n,); arguments as above."""
    out = np.empty(len(y))
    _cdfs(
        y, np.ascontiguousarray(mean), np.ascontiguousarray(variance), weights,
        noise.shift, noise.variance, np.exp(noise.log_weights), out,
    )  # fmt: skip
    return out


def quantile(
    p: float, mean: Array, variance: Array, weights: Array, noise: Noise
) -> Array:
    """``y`` with ``P(Y <= y) = p``, strictly between 0 and 1, for each row, (n,).

    Newton's method on ``log P``, which is concave for normal tails, within the bracket
    found so far; to 1e-9 of the spread. Levels above one half are solved in the mirror
    image of the distribution, where their tail has all digits.
    """
    sign, level = (1.0, p) if p <= 0.5 else (-1.0, 1.0 - p)
    noise = noise.heaviest(level)
    mean, mass = np.ascontiguousarray(sign * mean), np.exp(noise.log_weights)
    shift = sign * noise.shift
    centre = mean @ weights
    spread = ((mean - centre[:, np.newaxis]) ** 2 + variance) @ weights
    out = centre + shift @ mass
    _quantiles(
        level, mean, np.ascontiguousarray(variance), weights, shift, noise.variance,
        mass, np.sqrt(spread + noise.variance.min()), out,
    )  # fmt: skip
    return sign * out


@reduction
def _log_densities(
    y: Array,
    mean: Array,
    variance: Array,
    log_weights: Array,
    shift: Array,
    spread: Array,
    log_mass: Array,
    out: Array,
) -> None:
    # log Σ_jq w_j p_q N(r_j | b_q, v_j + t_q), the largest exponent taken out
    n, s = mean.shape
    terms, last = np.empty((len(shift), s)), variance.shape[1] - 1
    for i in range(n):
        top = -np.inf
        for q in range(len(shift)):
            c, total = terms[q], variance[i, 0] + spread[q]
            half, offset = 0.5 / total, log_mass[q] - 0.5 * math.log(total)
            for j in range(s):
                if j > 0 and last > 0:
                    total = variance[i, j] + spread[q]
                    half, offset = 0.5 / total, log_mass[q] - 0.5 * math.log(total)
                r = y[i] - mean[i, j] - shift[q]
                c[j] = offset + log_weights[j] - half * r * r
                top = c[j] if c[j] > top else top
        density = 0.0
        for q in range(len(shift)):
            c = terms[q]
            for j in range(s):
                density += exp(c[j] - top)
        out[i] = top + math.log(density) - 0.9189385332046728


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
) -> tuple[float, float]:
    """``P(Y <= y)`` and the density at y, of one row."""
    below, density = 0.0, 0.0
    one = len(variance) == 1
    for q in range(len(shift)):
        at, left, height = y - shift[q], 0.0, 0.0
        a = 1.0 / math.sqrt(variance[0] + spread[q])
        for j in range(len(mean)):
            if not one:
                a = 1.0 / math.sqrt(variance[j] + spread[q])
            z = (at - mean[j]) * a
            e = exp(-0.5 * z * z)
            tail = 0.5 * erfcx(abs(z) * 0.7071067811865476) * e
            left += weights[j] * (tail if z < 0.0 else 1.0 - tail)
            height += weights[j] * e * a
        below += mass[q] * left
        density += mass[q] * height
    return below, 0.3989422804014327 * density


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
    for i in range(len(y)):
        low, high, reach = -np.inf, np.inf, 4.0 * unit[i]
        for step in range(200):
            below, density = _below_and_density(
                y[i], mean[i], variance[i], weights, shift, spread, mass
            )
            low, high = (y[i], high) if below < p else (low, y[i])
            new = np.nan
            if below > 1e-290 and density * unit[i] > 1e-200:
                new = y[i] + math.log(p / below) * below / density
            bounded = high - low < np.inf
            if bounded and (not low <= new <= high or (step > 10 and step % 2 == 1)):
                new = 0.5 * (low + high)
            if not bounded and not abs(new - y[i]) <= reach:
                new = y[i] + (-reach if below >= p else reach)
                reach *= 2.0
            moved, y[i] = abs(new - y[i]), new
            if moved <= 1e-9 * unit[i] or moved <= 1e-14 * abs(new):
                break


# ---- Mixtures of Poisson distributions -----------------------------------------------


# Counts up to which the probabilities are added, and a rate at which none occurs.
_LARGEST_SUM, _NO_SUCH_COUNT = 64.0, 700.0


def poisson_cdf(count: Array, rates: Array, weights: Array) -> Array:
    """``P(Y <= count)`` of mixtures of Poisson distributions, shape (n,).

    Parameters
    ----------
    count : ndarray of shape (n,)
        Whole numbers; the probability of a negative one is zero.
    rates : ndarray of shape (n, a)
        Non-negative.
    weights : ndarray of shape (a,)
    """
    out = np.zeros(len(count))
    few = np.flatnonzero((count >= 0.0) & (count <= _LARGEST_SUM))
    _poisson_sums(count, np.ascontiguousarray(rates), weights, few, out)
    many = count > _LARGEST_SUM
    out[many] = pdtr(count[many, np.newaxis], rates[many]) @ weights
    return out


@reduction
def _poisson_sums(
    count: Array, rates: Array, weights: Array, rows: NDArray[np.intp], out: Array
) -> None:
    """``exp(-rate) Σ_{i <= count} rate^i / i!`` by Horner's rule."""
    sums = np.empty(rates.shape[1])
    for n in rows:
        rate = rates[n]
        sums[:] = 1.0
        for i in range(int(count[n]), 0, -1):
            inverse = 1.0 / i
            for j in range(len(rate)):
                sums[j] = 1.0 + sums[j] * min(rate[j], _NO_SUCH_COUNT) * inverse
        total = 0.0
        for j in range(len(rate)):
            total += weights[j] * sums[j] * exp(-min(rate[j], _NO_SUCH_COUNT))
        out[n] = total


# ---- Softmax probabilities -----------------------------------------------------------


# Standard deviation below which F is averaged over nodes for f, not for G.
_NARROW = 0.7
# Step of the tables of L and of the integrals, in standard deviations of ``f + G``.
_TABLE_STEP, _STEP = 0.15, 0.5
# Lowest log probability that is kept.
_LOWEST = -80.0


def softmax_probabilities(mixture: LatentMixture) -> Array:
    """``E softmax(f)`` of each row, shape (n, c), to about 2e-5.

    With independent Gumbel variables G_k the largest of ``f_k + G_k`` has softmax
    probabilities. For independent normal f_k these sums are independent too, and

        E softmax(f)_k = ∫ F_k'(u) Π_{l≠k} F_l(u) du = ∫ L_k'(u) exp(Σ_l L_l(u)) du

    with F_l the distribution function of ``f_l + G_l`` and ``L_l = log F_l``: one
    integral of a smooth function for each component, however many classes there are.

    Notes
    -----
    O(s c) evaluations of a cubic for each of some sixty points, and one table for each
    variance: fast where the components and classes of a row share it.
    """
    mean, variance, weights = mixture
    n, c, _ = mean.shape
    if normal_nodes(mixture)[0].shape[2] == 1:
        exact: Array = softmax(mean, axis=1) @ weights
        return exact
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
    # a Gumbel variable has the variance π²/6
    scale = math.sqrt(s * s + 1.6449340668482264)
    start, step = -7.0 * s - 4.5, _TABLE_STEP * scale
    for i in range(table.shape[1]):
        t, below, density = start + step * i, 0.0, 0.0
        if s < _NARROW:
            for q in range(len(x)):
                e = exp(s * x[q] - t)
                p = normal[q] * exp(-e)
                below += p
                density += p * e
        else:
            for q in range(len(gumbel)):
                z = (t - gumbel[q]) / s
                e = exp(-0.5 * z * z)
                tail = 0.5 * erfcx(abs(z) * 0.7071067811865476) * e
                below += masses[q] * (tail if z < 0.0 else 1.0 - tail)
                density += masses[q] * e
            density *= 0.3989422804014327 / s
        below = max(below, 1e-300)
        table[0, i] = max(math.log(below), _LOWEST)
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
        mass = exp(log)
        for a in range(c):
            own[a] += max(slope[a], 0.0) * mass
    for a in range(c):
        total += own[a]
    for a in range(c):
        out[a] += weight * own[a] / total
