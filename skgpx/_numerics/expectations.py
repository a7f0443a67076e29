"""Expectations of likelihoods and links under normal distributions.

A normal mixture plus independent noise with a normal mixture distribution is a normal
mixture: components ``N(m_j, v_j)`` of weights w_j and noise ``N(b_q, t_q)`` of weights
p_q have the sum ``N(m_j + b_q, v_j + t_q)`` of weights ``w_j p_q``. Student's noise is
a mixture over its precision, so that its densities and probabilities are sums, for any
ratio of the spreads.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy.special import loggamma, pdtr, roots_genlaguerre, softmax

from skgpx._numerics._jit import inlined, kernel, reduction
from skgpx._numerics.elementary import erfcx, exp
from skgpx._numerics.mixture import LatentMixture, normal_nodes
from skgpx._types import Array, Index

# ---- Gauss-Hermite rules -------------------------------------------------------------


def expectation_nodes(n_outputs: int, n_nodes: int = 12) -> tuple[Array, Array]:
    """Nodes ξ (q, c) and weights (q,) for ``E[h(ξ)]``, ξ ~ N(0, I).

    Gauss-Hermite with `n_nodes` nodes for one output; for several the spherical rule
    of degree three, ``±√c e_i`` with weights ``1 / (2c)``.
    """
    if n_outputs == 1:
        nodes, weights = np.polynomial.hermite_e.hermegauss(n_nodes)
        weights = weights / weights.sum()
        return nodes[:, np.newaxis], weights
    points = np.sqrt(n_outputs) * np.eye(n_outputs)
    nodes = np.concatenate((points, -points))
    weights = np.full(2 * n_outputs, 0.5 / n_outputs)
    return nodes, weights


def product_nodes(n_outputs: int, n_nodes: int) -> tuple[Array, Array]:
    """Nodes (q, c) and weights (q,) of a Gauss-Hermite rule for each output."""
    nodes, weights = expectation_nodes(1, n_nodes)
    axes = [nodes[:, 0]] * n_outputs
    masses = [weights] * n_outputs
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
    products = np.prod(np.meshgrid(*masses, indexing="ij"), axis=0)
    return points.reshape(-1, n_outputs), products.ravel()


def rotated_nodes(n_outputs: int, n_rotations: int) -> tuple[Array, Array]:
    """Nodes (r, q, c) and weights (q,) of r rotations of a spherical rule.

    Along both directions of c orthogonal axes, at two radii by Gauss's rule for the
    distribution of ``|ξ|²``. The errors of different rotations nearly cancel.
    """
    radii, masses = roots_genlaguerre(2, 0.5 * n_outputs - 1.0)
    radii = np.sqrt(2.0 * radii)
    rng = np.random.default_rng(0)
    rotations = []
    for _ in range(n_rotations):
        axes, _ = np.linalg.qr(rng.standard_normal((n_outputs, n_outputs)))
        points = [sign * radius * axes for radius in radii for sign in (1.0, -1.0)]
        rotations.append(np.concatenate(points))
    weights = np.repeat(masses / masses.sum(), 2 * n_outputs) / (2.0 * n_outputs)
    return np.stack(rotations), weights


# ---- One rule for all components of a latent mixture ---------------------------------


def line_sizes(mixture: LatentMixture) -> Index:
    """Number of nodes that :func:`line_rule` needs for each row, (n,): powers of two.

    For one output. The nodes are at most 0.4 of the smallest standard deviation of a
    component apart: the trapezoidal rule for the density itself then has the relative
    error 1e-13 with every second node, and 1e-3 with every fourth.
    """
    mean = mixture.mean[:, 0]
    std = np.sqrt(mixture.variance[:, 0])
    reach = 8.0 * std
    low = np.min(mean - reach, axis=1)
    high = np.max(mean + reach, axis=1)
    spacing = 0.4 * np.min(std, axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        width = high - low
        size = width / spacing + 1.0
    # the next power of two
    bounded = np.clip(size, 64.0, 2.0**30)
    exponent = np.ceil(np.log2(bounded))
    exponent[np.isnan(size)] = 30
    exponent = exponent.astype(np.intp)
    return np.left_shift(1, exponent)


def line_rule(mixture: LatentMixture, n_nodes: int) -> tuple[Array, Array]:
    """Even nodes (n, 1, n_nodes) along the latent line, weights (n, n_nodes).

    The trapezoidal rule for the density of the whole mixture, for one output. The
    number of nodes does not grow with the number of components: for particles that lie
    close together it is a tenth of that of :func:`~skgpx._numerics.mixture.atoms`.
    """
    mean = np.ascontiguousarray(mixture.mean[:, 0])
    variance = np.broadcast_to(mixture.variance[:, 0], mean.shape)
    std = np.sqrt(variance)
    reach = 8.0 * std
    low = np.min(mean - reach, axis=1, keepdims=True)
    high = np.max(mean + reach, axis=1, keepdims=True)
    width = high - low
    fractions = np.linspace(0.0, 1.0, n_nodes)
    values = low + width * fractions
    # weights in proportion to the density of the mixture
    density = np.zeros(values.shape)
    _add_densities(values, mean, 1.0 / std, mixture.weights, density)
    total = np.sum(density, axis=1, keepdims=True)
    return values[:, np.newaxis], density / total


@kernel
def _add_densities(
    x: Array,
    mean: Array,
    precision: Array,
    weights: Array,
    out: Array,
) -> None:
    # Σ_j w_j N(x | m_j, 1 / precision_j²), without the factor 1 / √(2π)
    n, size = x.shape
    for i in range(n):
        for j in range(mean.shape[1]):
            scale = precision[i, j]
            height = weights[j] * scale
            for k in range(size):
                z = (x[i, k] - mean[i, j]) * scale
                out[i, k] += height * exp(-0.5 * z * z)


def chebyshev_rule(
    points: Array,
    weights: Array,
    size: int,
) -> tuple[Array, Array]:
    """Chebyshev nodes (n, size) and weights (n, size) that replace many points.

    Points (n, a) have weights (a,). Averages of polynomials up to the degree ``size -
    1`` are preserved: ``W_d = Σ_j w_j ℓ_d(x_j)`` with the Lagrange polynomials ℓ of the
    nodes, which span the points of their row. Some weights may be negative.
    """
    low = np.min(points, axis=1)
    high = np.max(points, axis=1)
    half = np.maximum(0.5 * (high - low), 1e-300)
    half = half[:, np.newaxis]
    centre = 0.5 * (high + low)[:, np.newaxis]
    t = (points - centre) / half
    # averages of the Chebyshev polynomials, T_k+1 = 2 t T_k - T_k-1
    averages = np.empty((len(points), size))
    polynomial = np.ones_like(t)
    next_polynomial = t
    for k in range(size):
        averages[:, k] = polynomial @ weights
        following = 2.0 * t * next_polynomial - polynomial
        polynomial = next_polynomial
        next_polynomial = following
    # nodes cos(π (d + ½) / D) on [-1, 1], and ℓ_d(t) = Σ_k C_kd T_k(t)
    nodes = centre + half * np.cos(np.pi * (np.arange(size) + 0.5) / size)
    return nodes, averages @ chebyshev_coefficients(size)


def chebyshev_coefficients(size: int) -> Array:
    """Matrix from values at Chebyshev nodes to coefficients, (size, size).

    ``(2 / D) T_k(c_d)`` for the polynomial k and the node d, the first row by half.
    """
    degrees = np.arange(size)
    angles = np.pi * (np.arange(size) + 0.5) / size
    # T_k(cos θ) = cos kθ
    coefficients = 2.0 / size * np.cos(np.outer(degrees, angles))
    coefficients[0] *= 0.5
    return coefficients


# ---- A latent normal mixture plus noise ----------------------------------------------


@lru_cache(maxsize=64)
def student_noise(df: float) -> tuple[Array, Array]:
    """Student's distribution of scale one, as a mixture of normals around zero.

    ``N(0, 1 / g)`` with ``g ~ Gamma(df/2, rate df/2)`` [1]_, by the trapezoidal rule in
    ``x = log g``. For the density of a residual, a rule of step h has the relative
    error ``2 |Γ(a + 2πi/h) / Γ(a)|`` with a = (df + 1)/2, whatever is added to the
    variance; 1e-7 here, for residuals of up to 1e7 scales.

    Returns
    -------
    variance, log_weights : ndarray of shape (k,)

    References
    ----------
    .. [1] Andrews and Mallows, "Scale mixtures of normal distributions", Journal of the
       Royal Statistical Society B 36, 1974.
    """
    a = 0.5 * (df + 1.0)
    b = 0.5 * df
    # the largest step h = 2π / ω with |Γ(a + iω) / Γ(a)| < 0.5e-7
    largest_omega = 6.6 * np.sqrt(a) + 24.0
    omega = np.linspace(4.0, largest_omega, 400)
    log_gamma = np.real(loggamma(a + 1j * omega))
    log_error = log_gamma - float(loggamma(a))
    is_accurate = log_error < np.log(0.5e-7)
    smallest_omega = omega[np.argmax(is_accurate)]
    h = 2.0 * np.pi / smallest_omega
    # x has the density exp(-b (e^x - 1 - x)), which is e^-25 of its maximum at the ends
    root = math.sqrt(50.0 / b)
    lowest = max(-root - 25.0 / b - 35.0, -600.0)
    highest = math.log1p(25.0 / b + root)
    first = math.floor(lowest / h)
    last = math.ceil(highest / h)
    x = h * np.arange(first, last + 1.0)
    log_weights = -b * (np.expm1(x) - x)
    total = np.sum(np.exp(log_weights))
    log_shares = log_weights - np.log(total)
    return np.exp(-x), log_shares


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
        With one output.
    shift : ndarray of shape (k,)
        Means of the components of the noise.
    variance : ndarray of shape (n, k) or (1, k)
        Their variances, not negative; the sums with the latent variances are positive.
    log_shares : ndarray of shape (k,)
        Logarithms of their weights.

    Notes
    -----
    O(s k) time and O(s k) memory for each row.
    """
    out = np.empty(len(mixture.mean))
    y, mean, latent_variance, variance = _contiguous(y, mixture, variance)
    _log_densities(
        y,
        mean,
        latent_variance,
        variance,
        np.log(np.maximum(mixture.weights, 1e-300)),
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
    """``P(Y <= y)`` of each row at its y (n,), shape (n,).

    Weights (n, s) of each row replace the weights of the mixture. The other arguments
    are those of :func:`log_density`.
    """
    out = np.empty(len(mixture.mean))
    if weights is None:
        weights = mixture.weights[np.newaxis]
    y, mean, latent_variance, variance = _contiguous(y, mixture, variance)
    _cdfs(
        y,
        mean,
        latent_variance,
        variance,
        np.ascontiguousarray(weights),
        shift,
        np.exp(log_shares),
        out,
    )
    return out


# Numbers of Chebyshev nodes that may replace the components of a mixture: sums over
# multiples of eight fill the vector registers.
_CONDENSED_SIZES = np.array([8, 16, 24, 32, 48])


def condensed_sizes(
    mixture: LatentMixture,
    variance: Array,
    log_shares: Array,
) -> Index:
    """Number of components to which :func:`condense` may reduce each row, (n,).

    Zero if it should not, or need not. Interpolation of ``Φ(r x)`` on [-1, 1] in D
    Chebyshev nodes has an error of at most about ``(e r² / (4 D))^(D/2)``, from the
    ellipse of Bernstein with the smallest bound. If this bound is 1e-8, probabilities
    were off by less than 1e-10.
    """
    n, _, s = mixture.mean.shape
    sizes = _CONDENSED_SIZES[s >= 2 * _CONDENSED_SIZES]
    has_common_variance = mixture.variance.shape[2] == 1
    if not has_common_variance or len(sizes) == 0:
        return np.zeros(n, dtype=np.intp)
    # r² for each component of the noise
    half_range = 0.5 * np.ptp(mixture.mean[:, 0], axis=1, keepdims=True)
    squared_ratio = half_range**2 / (mixture.variance[:, 0] + variance)
    squared_ratio = squared_ratio[:, :, np.newaxis]
    # (e r² / 4d)^(d / 2)
    base = np.e * squared_ratio / (4.0 * sizes)
    bound = np.minimum(base, 1.0) ** (0.5 * sizes)
    error = np.einsum("nqd,q->nd", bound, np.exp(log_shares))
    is_allowed = error < 1e-8
    smallest = sizes[np.argmax(is_allowed, axis=1)]
    is_possible = np.any(is_allowed, axis=1)
    return np.where(is_possible, smallest, 0)


def condense(mixture: LatentMixture, size: int) -> tuple[LatentMixture, Array]:
    """Mixture with means at Chebyshev nodes, and weights (n, size) for each row.

    Averages of polynomials of the means, up to the degree ``size - 1``, are those of
    the original mixture. The components of a row share its variance.
    """
    nodes, weights = chebyshev_rule(mixture.mean[:, 0], mixture.weights, size)
    condensed = mixture._replace(mean=nodes[:, np.newaxis], owner=None)
    return condensed, weights


def _contiguous(
    y: Array,
    mixture: LatentMixture,
    noise: Array,
) -> tuple[Array, Array, Array, Array]:
    """Arrays of the compiled functions.

    Returns
    -------
    y : ndarray of shape (n,)
    mean : ndarray of shape (n, s)
    variance : ndarray of shape (n, s) or (n, 1)
        Of the components of the mixture.
    noise : ndarray of shape (n, k)
        Variances of the components of the noise.
    """
    mean = mixture.mean[:, 0]
    n = len(mean)
    variance = mixture.variance[:, 0]
    y = np.asarray(y, dtype=np.float64)
    y = np.broadcast_to(y, (n,))
    variance = np.broadcast_to(variance, (n, variance.shape[1]))
    noise = np.broadcast_to(noise, (n, noise.shape[1]))
    return (
        np.ascontiguousarray(y),
        np.ascontiguousarray(mean),
        np.ascontiguousarray(variance),
        np.ascontiguousarray(noise),
    )


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
    # log Σ_jq w_j p_q N(r_j | b_q, v_j + t_q), by log-sum-exp
    n, s = mean.shape
    terms = np.empty((len(shift), s))
    for i in range(n):
        largest = -np.inf
        for q in range(len(shift)):
            log_terms = terms[q]
            for j in range(s):
                total = variance[i, j % variance.shape[1]] + noise[i, q]
                r = y[i] - mean[i, j] - shift[q]
                log_weight = log_shares[q] + log_weights[j]
                log_term = log_weight - 0.5 * r * r / total
                log_term -= 0.5 * math.log(total)
                log_terms[j] = log_term
                if log_term > largest:
                    largest = log_term
        density = 0.0
        for q in range(len(shift)):
            log_terms = terms[q]
            for j in range(s):
                density += exp(log_terms[j] - largest)
        # ½ log 2π
        out[i] = largest + math.log(density) - 0.9189385332046728


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
    # Σ_jq w_j p_q Φ((y - b_q - m_j) / √(v_j + t_q))
    n, s = mean.shape
    precision = np.empty(s)
    for i in range(n):
        probability = 0.0
        row_weights = weights[i % len(weights)]
        for q in range(len(shift)):
            # one variance of all components is common
            total = variance[i, 0] + noise[i, q]
            precision.fill(1.0 / math.sqrt(total))
            for j in range(1, variance.shape[1]):
                total = variance[i, j] + noise[i, q]
                precision[j] = 1.0 / math.sqrt(total)
            for j in range(s):
                r = y[i] - shift[q] - mean[i, j]
                z = r * precision[j]
                tail = 0.5 * erfcx(abs(z) * 0.7071067811865476) * exp(-0.5 * z * z)
                below = tail if z < 0.0 else 1.0 - tail
                probability += shares[q] * row_weights[j] * below
        out[i] = probability


# ---- Poisson probabilities -----------------------------------------------------------


def poisson_cdf(count: Array, rates: Array) -> Array:
    """``P(Y <= count)`` at whole numbers (n,) and rates (n, a), shape (n, a).

    Sums of up to 64 terms are compiled, ten times as fast as the incomplete gamma
    function; the probability of a negative count is zero.
    """
    out = np.empty(rates.shape)
    is_large = count > 64.0
    out[is_large] = pdtr(count[is_large, np.newaxis], rates[is_large])
    _poisson_sums(count, np.ascontiguousarray(rates), out)
    return out


@reduction
def _poisson_sums(
    count: Array,
    rates: Array,
    out: Array,
) -> None:
    """``exp(-rate) Σ_{i <= count} rate^i / i!`` by Horner's rule, rates up to 700."""
    for n in range(len(count)):
        if count[n] <= 64.0:
            rate = rates[n]
            sums = out[n]
            sums.fill(1.0 if count[n] >= 0.0 else 0.0)
            for i in range(int(count[n]), 0, -1):
                for j in range(len(rate)):
                    bounded = min(rate[j], 700.0)
                    sums[j] = 1.0 + sums[j] * bounded / i
            for j in range(len(rate)):
                sums[j] *= exp(-min(rate[j], 700.0))


# ---- Softmax probabilities -----------------------------------------------------------


# Step of the tables of L, in standard deviations of ``f + G``.
_TABLE_STEP = 0.15
# Step of the integrals, in the same unit.
_STEP = 0.5
# Lowest log probability in a table.
_LOWEST = -80.0


def softmax_probabilities(mixture: LatentMixture) -> Array:
    """``E softmax(f)`` of each row, shape (n, c), to about 2e-5.

    With independent Gumbel variables G_k, the index of the largest ``f_k + G_k`` has
    softmax probabilities. For independent normal f_k these sums are independent too::

        E softmax(f)_k = ∫ F_k'(u) Π_{l≠k} F_l(u) du = ∫ L_k'(u) exp(Σ_l L_l(u)) du

    with F_l the distribution function of ``f_l + G_l`` and ``L_l = log F_l``: for any
    number of classes, one integral of a smooth function for each component.

    Notes
    -----
    O(s c) evaluations of a cubic for each of some sixty points, and one table for each
    variance: fast if the classes of a row, and components that follow one another,
    share one variance.
    """
    mean = mixture.mean
    variance = mixture.variance
    weights = mixture.weights
    n, c, _ = mean.shape
    if normal_nodes(mixture)[0].shape[2] == 1:
        return softmax(mean, axis=1) @ weights
    variance = np.broadcast_to(variance, (n, *variance.shape[1:]))
    std = np.sqrt(variance)
    # trapezoidal rules for N(0, 1) and for the Gumbel distribution
    x = np.arange(-6.0, 6.01, 0.4)
    normal_masses = np.exp(-0.5 * x**2)
    gumbel_nodes = 0.6 * np.arange(-6.0, 26.0)
    gumbel_masses = np.exp(-gumbel_nodes - np.exp(-gumbel_nodes))
    out = np.empty((n, c))
    _probabilities(
        np.ascontiguousarray(mean),
        np.ascontiguousarray(std),
        weights,
        x,
        normal_masses / normal_masses.sum(),
        gumbel_nodes,
        gumbel_masses / gumbel_masses.sum(),
        out,
    )
    return out


@reduction
def _fill_table(
    s: float,
    x: Array,
    normal: Array,
    gumbel: Array,
    masses: Array,
    table: Array,
) -> tuple[float, float]:
    """L and L' (2, k) of ``s ξ + G`` on an even grid.

    Returns
    -------
    start, step : float
        First point of the grid, and its step.
    """
    # a Gumbel variable has the variance π²/6
    scale = math.sqrt(s * s + 1.6449340668482264)
    start = -7.0 * s - 4.5
    step = _TABLE_STEP * scale
    for i in range(table.shape[1]):
        t = start + step * i
        probability = 0.0
        density = 0.0
        # an average over nodes of f where it is narrow, otherwise of G
        if s < 0.7:
            # F(t) = E exp(-exp(s ξ - t))
            for q in range(len(x)):
                e = exp(s * x[q] - t)
                p = normal[q] * exp(-e)
                probability += p
                density += p * e
        else:
            # F(t) = E Φ((t - G) / s)
            for q in range(len(gumbel)):
                z = (t - gumbel[q]) / s
                e = exp(-0.5 * z * z)
                tail = 0.5 * erfcx(abs(z) * 0.7071067811865476) * e
                below = tail if z < 0.0 else 1.0 - tail
                probability += masses[q] * below
                density += masses[q] * e
            density *= 0.3989422804014327 / s
        probability = max(probability, 1e-300)
        table[0, i] = max(math.log(probability), _LOWEST)
        table[1, i] = 0.0
        if table[0, i] > _LOWEST:
            table[1, i] = density / probability
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
    n_table_points = int((7.0 + 7.0 + 26.0) / _TABLE_STEP) + 1
    # one table for each class, or one for all if they share the variance
    n_tables = c
    if std.shape[1] == 1:
        n_tables = 1
    table = np.empty((n_tables, 2, n_table_points))
    start = np.empty(n_tables)
    step = np.empty(n_tables)
    std_of_table = np.full(n_tables, -1.0)
    for i in range(n):
        out[i] = 0.0
        for j in range(s):
            for a in range(n_tables):
                row_std = std[i, min(a, std.shape[1] - 1)]
                v = row_std[min(j, std.shape[2] - 1)]
                if v != std_of_table[a]:
                    start[a], step[a] = _fill_table(
                        v,
                        x,
                        normal,
                        gumbel,
                        masses,
                        table[a],
                    )
                    std_of_table[a] = v
            _add_component(mean[i, :, j], table, start, step, weights[j], out[i])


@inlined
def _interpolate(
    table: Array,
    position: float,
    d: float,
) -> tuple[float, float]:
    """Cubic Hermite interpolation in a table of step d, and its slope.

    Zero beyond the table, where F is one.
    """
    last = table.shape[1] - 1
    q = int(min(max(position, 0.0), last - 1.0))
    r = position - q
    if r > 1.0:
        return 0.0, 0.0
    m0 = d * table[1, q]
    m1 = d * table[1, q + 1]
    rise = table[0, q + 1] - table[0, q]
    c2 = 3.0 * rise - 2.0 * m0 - m1
    c3 = m0 + m1 - 2.0 * rise
    value = table[0, q] + r * (m0 + r * (c2 + r * c3))
    slope = (m0 + r * (2.0 * c2 + 3.0 * r * c3)) / d
    return value, slope


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
    low = -np.inf
    high = -np.inf
    h = np.inf
    for a in range(c):
        b = min(a, len(table) - 1)
        scale = step[b] / _TABLE_STEP
        # F is 1e-6 at the first of these, 1 - 1e-5 at the second
        low = max(low, mean[a] - 4.8 * scale)
        high = max(high, mean[a] + 4.5 * scale + 10.0)
        h = min(h, _STEP * scale)
    # Σ_u L_k'(u) exp(Σ_l L_l(u))
    slope = np.empty(c)
    probability = np.zeros(c)
    for i in range(int((high - low) / h) + 1):
        u = low + h * i
        log_product = 0.0
        for a in range(c):
            b = min(a, len(table) - 1)
            position = (u - mean[a] - start[b]) / step[b]
            value, slope[a] = _interpolate(table[b], position, step[b])
            log_product += value
        mass = exp(log_product)
        for a in range(c):
            probability[a] += max(slope[a], 0.0) * mass
    total = 0.0
    for a in range(c):
        total += probability[a]
    for a in range(c):
        out[a] += weight * probability[a] / total
