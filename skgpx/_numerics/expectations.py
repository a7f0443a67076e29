"""Expectations of likelihoods and links under normal distributions.

A normal mixture plus noise that is a normal mixture is a normal mixture: with
components ``N(m_j, v_j)`` of weights w_j and noise ``N(b_q, t_q)`` of weights p_q the
sum has components ``N(m_j + b_q, v_j + t_q)`` of weights ``w_j p_q``. Student's noise
is a mixture over its precision, so that densities and probabilities are sums, whatever
the ratio of the spreads.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import loggamma, pdtr, softmax

from skgpx._numerics._jit import inlined, kernel, reduction
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


# ---- One rule for all components of a latent mixture ---------------------------------


def line_sizes(mixture: LatentMixture) -> NDArray[np.intp]:
    """Nodes with which :func:`line_rule` resolves each row, (n,): powers of two.

    Of one output. They are at most 0.4 of the smallest standard deviation of a
    component apart: the trapezoidal rule for the density itself has the relative error
    1e-13 with every second of them, and 1e-3 with every fourth.
    """
    std = np.sqrt(mixture.variance[:, 0])
    low = np.min(mixture.mean[:, 0] - 8.0 * std, axis=1)
    high = np.max(mixture.mean[:, 0] + 8.0 * std, axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        size = (high - low) / (0.4 * np.min(std, axis=1)) + 1.0
    exponent = np.ceil(np.log2(np.clip(size, 64.0, 2.0**30)))
    exponent[np.isnan(size)] = 30
    return np.left_shift(1, exponent.astype(np.intp))


def line_rule(mixture: LatentMixture, n_nodes: int) -> tuple[Array, Array]:
    """Even nodes (n, 1, n_nodes) along the latent line, weights (n, n_nodes).

    The trapezoidal rule for the density of the whole mixture, of one output. Its nodes
    need not be more where there are more components: for particles that lie close
    together it takes a tenth of those of :func:`~skgpx._numerics.mixture.atoms`.
    """
    mean = np.ascontiguousarray(mixture.mean[:, 0])
    variance = np.broadcast_to(mixture.variance[:, 0], mean.shape)
    std = np.sqrt(variance)
    low = np.min(mean - 8.0 * std, axis=1, keepdims=True)
    high = np.max(mean + 8.0 * std, axis=1, keepdims=True)
    values = low + (high - low) * np.linspace(0.0, 1.0, n_nodes)
    weights = np.zeros(values.shape)
    _add_densities(values, mean, 1.0 / std, mixture.weights, weights)
    weights /= np.sum(weights, axis=1, keepdims=True)
    return values[:, np.newaxis], weights


@kernel
def _add_densities(
    x: Array,
    mean: Array,
    precision: Array,
    weights: Array,
    out: Array,
) -> None:
    # Σ_j w_j N(x | m_j, 1 / precision_j²), without √(2π)
    for i in range(len(x)):
        for j in range(mean.shape[1]):
            scale = precision[i, j]
            height = weights[j] * scale
            for k in range(x.shape[1]):
                z = (x[i, k] - mean[i, j]) * scale
                out[i, k] += height * exp(-0.5 * z * z)


def chebyshev_rule(points: Array, weights: Array, size: int) -> tuple[Array, Array]:
    """Chebyshev nodes (n, size) and weights (n, size) that stand for many points.

    Of points (n, a) with weights (a,). Averages of polynomials up to the degree ``size
    - 1`` stay: ``W_d = Σ_j w_j ℓ_d(x_j)`` with the Lagrange polynomials ℓ of the nodes,
    which span the points of their row. Some weights may be negative.
    """
    low, high = np.min(points, axis=1), np.max(points, axis=1)
    half = np.maximum(0.5 * (high - low), 1e-300)[:, np.newaxis]
    centre = 0.5 * (high + low)[:, np.newaxis]
    t = (points - centre) / half
    # averages of the Chebyshev polynomials, T_k+1 = 2 t T_k - T_k-1
    averages = np.empty((len(points), size))
    before, current = np.ones_like(t), t
    for k in range(size):
        averages[:, k] = before @ weights
        before, current = current, 2.0 * t * current - before
    # ℓ_d(t) = Σ_k C_kd T_k(t)
    nodes = np.cos(np.pi * (np.arange(size) + 0.5) / size)
    return centre + half * nodes, averages @ chebyshev_coefficients(size)


def chebyshev_coefficients(size: int) -> Array:
    """Matrix from values at Chebyshev nodes to coefficients, (size, size).

    ``(2 / D) T_k(c_d)`` for the polynomial k and the node d, the first row by half.
    """
    angles = np.pi * (np.arange(size) + 0.5) / size
    coefficients = 2.0 / size * np.cos(np.outer(np.arange(size), angles))
    coefficients[0] *= 0.5
    return coefficients


# ---- A latent normal mixture plus noise ----------------------------------------------


@lru_cache(maxsize=64)
def student_noise(df: float) -> tuple[Array, Array]:
    """Student's distribution of scale one, as a mixture of normals around zero.

    That of ``N(0, 1 / g)`` with ``g ~ Gamma(df/2, rate df/2)`` [1]_, by the trapezoidal
    rule in ``x = log g``. A rule of step h has the relative error ``2 |Γ(a + 2πi/h) /
    Γ(a)|``, a = (df + 1)/2, for the density of any residual, whatever is added to the
    variance; 1e-7 here, for residuals of up to 1e7 scales.

    Returns
    -------
    variance, log_weights : ndarray of shape (k,)

    References
    ----------
    .. [1] Andrews and Mallows, "Scale mixtures of normal distributions", Journal of the
       Royal Statistical Society B 36, 1974.
    """
    a, b = 0.5 * (df + 1.0), 0.5 * df
    omega = np.linspace(4.0, 6.6 * np.sqrt(a) + 24.0, 400)
    decay = np.real(loggamma(a + 1j * omega)) - float(loggamma(a))
    h = 2.0 * np.pi / omega[np.argmax(decay < np.log(0.5e-7))]
    # the density of x is that of exp(-b (e^x - 1 - x)): ends where it falls by e^-25
    deepest = max(-math.sqrt(50.0 / b) - 25.0 / b - 35.0, -600.0)
    highest = math.log1p(25.0 / b + math.sqrt(50.0 / b))
    x = h * np.arange(math.floor(deepest / h), math.ceil(highest / h) + 1.0)
    log_weights = -b * (np.expm1(x) - x)
    return np.exp(-x), log_weights - np.log(np.sum(np.exp(log_weights)))


def log_density(
    y: Array,
    mixture: LatentMixture,
    shift: Array,
    variance: Array,
    log_shares: Array,
) -> Array:
    """Log density of f plus noise of each row at its y (n,), in nats, shape (n,).

    Parameters
    ----------
    y : ndarray of shape (n,)
    mixture : LatentMixture
        Of one output.
    shift, log_shares : ndarray of shape (k,)
        Of the components of the noise, the logarithms of their weights.
    variance : ndarray of shape (n, k) or (1, k)
        Not negative; the sums of variances are positive.

    Notes
    -----
    O(s k) for each row, and no array of that size.
    """
    out = np.empty(len(mixture.mean))
    log_weights = np.log(np.maximum(mixture.weights, 1e-300))
    _log_densities(
        *_contiguous(y, mixture, variance),
        log_weights,
        shift,
        log_shares,
        out,
    )
    return out


def cdf(
    y: Array,
    mixture: LatentMixture,
    shift: Array,
    variance: Array,
    log_shares: Array,
    weights: Array | None = None,
) -> Array:
    """``P(Y <= y)`` of each row at its y (n,), shape (n,); arguments as above.

    Rows may have weights (n, s) of their own, in place of those of the mixture.
    """
    out = np.empty(len(mixture.mean))
    arrays, shares = _contiguous(y, mixture, variance), np.exp(log_shares)
    if weights is None:
        weights = mixture.weights[np.newaxis]
    _cdfs(*arrays, np.ascontiguousarray(weights), shift, shares, out)
    return out


# Numbers of components to which those of a mixture are condensed.
_CONDENSED = np.array([8, 12, 16, 20, 24, 32, 48])


def condensed_sizes(
    mixture: LatentMixture,
    variance: Array,
    log_shares: Array,
) -> NDArray[np.intp]:
    """Components to which :func:`condense` may reduce those of each row, (n,).

    Zero where it should not, or need not. Interpolation of ``Φ(r x)`` on [-1, 1] in D
    Chebyshev nodes has an error of at most about ``(e r² / (4 D))^(D/2)``, from the
    ellipse of Bernstein with the smallest bound. Where that is 1e-8, probabilities were
    off by less than 1e-10.
    """
    n, _, s = mixture.mean.shape
    if mixture.variance.shape[2] > 1:
        return np.zeros(n, dtype=np.intp)
    size = _CONDENSED[s >= 2 * _CONDENSED]
    # r² for each component of the noise
    half = 0.5 * np.ptp(mixture.mean[:, 0], axis=1, keepdims=True)
    ratio = half**2 / (mixture.variance[:, 0] + variance)
    base = np.minimum(np.e * ratio[:, :, np.newaxis] / (4.0 * size), 1.0)
    error = np.einsum("nqd,q->nd", base ** (0.5 * size), np.exp(log_shares))
    allowed = error < 1e-8
    first = np.argmax(allowed, axis=1) if len(size) else np.zeros(n, dtype=np.intp)
    return np.where(np.any(allowed, axis=1), np.append(size, 0)[first], 0)


def condense(mixture: LatentMixture, size: int) -> tuple[LatentMixture, Array]:
    """Components at Chebyshev nodes, with weights (n, size) for each row.

    Their means have the averages of polynomials up to the degree ``size - 1`` that
    those of the mixture have. The components share the variance of their row.
    """
    mean = mixture.mean[:, 0]
    nodes, weights = chebyshev_rule(mean, mixture.weights, size)
    return mixture._replace(mean=nodes[:, np.newaxis]), weights


def _contiguous(
    y: Array,
    mixture: LatentMixture,
    noise: Array,
) -> tuple[Array, Array, Array, Array]:
    """Targets (n,), means (n, s), variances (n, s or 1), those of the noise (n, k)."""
    mean, n = mixture.mean[:, 0], len(mixture.mean)
    arrays = (
        np.broadcast_to(np.asarray(y, dtype=np.float64), (n,)), mean,
        np.broadcast_to(mixture.variance[:, 0], (n, mixture.variance.shape[2])),
        np.broadcast_to(noise, (n, noise.shape[1])),
    )  # fmt: skip
    y, mean, variance, noise = (np.ascontiguousarray(array) for array in arrays)
    return y, mean, variance, noise


@reduction
def _log_densities(
    y: Array,
    mean: Array,
    variance: Array,
    noise: Array,
    log_weights: Array,
    shift: Array,
    log_shares: Array,
    out: Array,
) -> None:
    # log Σ_jq w_j p_q N(r_j | b_q, v_j + t_q), the largest exponent taken out
    n, s = mean.shape
    terms = np.empty((len(shift), s))
    for i in range(n):
        top = -np.inf
        for q in range(len(shift)):
            c = terms[q]
            for j in range(s):
                total = variance[i, j % variance.shape[1]] + noise[i, q]
                r = y[i] - mean[i, j] - shift[q]
                c[j] = log_shares[q] + log_weights[j] - 0.5 * r * r / total
                c[j] -= 0.5 * math.log(total)
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
    noise: Array,
    weights: Array,
    shift: Array,
    shares: Array,
    out: Array,
) -> None:
    precision = np.empty(mean.shape[1])
    for i in range(len(y)):
        below, w = 0.0, weights[i % len(weights)]
        for q in range(len(shift)):
            # often one for all components
            precision.fill(1.0 / math.sqrt(variance[i, 0] + noise[i, q]))
            for j in range(1, variance.shape[1]):
                precision[j] = 1.0 / math.sqrt(variance[i, j] + noise[i, q])
            for j in range(mean.shape[1]):
                z = (y[i] - shift[q] - mean[i, j]) * precision[j]
                tail = 0.5 * erfcx(abs(z) * 0.7071067811865476) * exp(-0.5 * z * z)
                below += shares[q] * w[j] * (tail if z < 0.0 else 1.0 - tail)
        out[i] = below


# ---- Poisson probabilities -----------------------------------------------------------


def poisson_cdf(count: Array, rates: Array) -> Array:
    """``P(Y <= count)`` at whole numbers (n,) and rates (n, a), shape (n, a).

    Sums of up to 64 terms are compiled, ten times as fast as the incomplete gamma
    function; the probability of a negative count is zero.
    """
    out, many = np.empty(rates.shape), count > 64.0
    out[many] = pdtr(count[many, np.newaxis], rates[many])
    _poisson_sums(count, np.ascontiguousarray(rates), out)
    return out


@reduction
def _poisson_sums(count: Array, rates: Array, out: Array) -> None:
    """``exp(-rate) Σ_{i <= count} rate^i / i!`` by Horner's rule, rates up to 700."""
    for n in range(len(count)):
        if count[n] <= 64.0:
            rate, sums = rates[n], out[n]
            for j in range(len(rate)):
                sums[j] = 1.0 if count[n] >= 0.0 else 0.0
            for i in range(int(count[n]), 0, -1):
                for j in range(len(rate)):
                    sums[j] = 1.0 + sums[j] * min(rate[j], 700.0) / i
            for j in range(len(rate)):
                sums[j] *= exp(-min(rate[j], 700.0))


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
    s: float,
    x: Array,
    normal: Array,
    gumbel: Array,
    masses: Array,
    table: Array,
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
    mean: Array,
    table: Array,
    start: Array,
    step: Array,
    weight: float,
    out: Array,
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
