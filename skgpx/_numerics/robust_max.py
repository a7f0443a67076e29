"""Probability that one of several independent normal variables is the largest.

For independent ``f_l ~ N(m_l, r_l)`` with distribution functions F_l,

    S_j = P(f_j is the largest) = ∫ F_j'(u) Π_{l≠j} F_l(u) du.

The product is taken in logarithms. The integrand is as smooth as the narrowest of the
densities, and the trapezoidal rule converges geometrically, as Gauss-Hermite does.
"""

from __future__ import annotations

import math

import numpy as np

from skgpx._numerics._jit import inlined, kernel
from skgpx._numerics.elementary import erfcx, exp
from skgpx._numerics.mixture import LatentMixture
from skgpx._types import Array, ArrayLike, Index

# Range of a normal variable in standard deviations; its tail beyond is below 1e-17.
_REACH = 8.5
# Step of the trapezoidal rule, in standard deviations of the narrowest variable.
_STEP = 0.55
# Least standard deviation, relative to the largest of the row. The error is of the
# order of its square, the number of nodes of the order of its inverse.
_SMALLEST = 0.01


def largest_probabilities(mixture: LatentMixture) -> Array:
    """Probability that each output is the largest, of each row, shape (n, c).

    The error is 1e-11, and 1e-5 if standard deviations differ by more than a factor of
    a hundred; rows sum to one. Equal constants, of variance zero, have equal shares.

    Notes
    -----
    O(c) evaluations of the normal distribution function for each of some fifty nodes,
    if the outputs that can be the largest have similar variances.
    """
    mean = mixture.mean
    shape = (len(mean), *mixture.variance.shape[1:])
    std = np.sqrt(np.broadcast_to(mixture.variance, shape))
    probabilities = np.zeros(mean.shape[:2])
    _all_outputs(
        np.ascontiguousarray(mean),
        np.ascontiguousarray(std),
        mixture.weights,
        probabilities,
    )
    return probabilities


def probability_and_slopes(
    y: ArrayLike,
    mean: Array,
    variance: Array,
) -> tuple[Array, Array, Array]:
    """Probability that the output y is the largest, with its derivatives.

    Parameters
    ----------
    y : array-like of shape (n,)
        Number of an output for each row.
    mean : ndarray of shape (n, c)
    variance : ndarray of shape (n, 1) or (n, c)

    Returns
    -------
    probability : ndarray of shape (n,)
        ``S(x, y)``, eq. (70) of [1]_.
    in_mean : ndarray of shape (n, c)
        Its derivatives in the mean of each output.
    in_variance : ndarray of shape (n, c)
        Its derivatives in the variance of each output; the derivative in a shared
        variance is their sum.

    References
    ----------
    .. [1] Wild, Hu and Sejdinovic, "Generalized variational inference in function
       spaces: Gaussian measures meet Bayesian deep learning", NeurIPS 2022.
    """
    probability = np.empty(len(mean))
    slopes = np.empty((2, *mean.shape))
    _one_output(
        np.ascontiguousarray(y, dtype=np.intp),
        np.ascontiguousarray(mean),
        np.ascontiguousarray(np.sqrt(variance)),
        probability,
        slopes,
    )
    return probability, slopes[0], slopes[1]


@inlined
def _log_cdf(z: float) -> tuple[float, float]:
    """``log Φ(z)``, and its slope ``φ(z) / Φ(z)``, without underflow."""
    half = 0.5 * erfcx(abs(z) * 0.7071067811865476)
    if z < 0.0:
        return math.log(half) - 0.5 * z * z, 0.3989422804014327 / half
    e = exp(-0.5 * z * z)
    below = 1.0 - half * e
    return math.log(below), 0.3989422804014327 * e / below


@kernel
def _contenders(
    mean: Array,
    std: Array,
    chosen: Index,
    centred: Array,
    widths: Array,
) -> int:
    """Outputs that can be the largest: their number, positions, means and widths.

    The positions are written to the start of `chosen`. The maximum is above ``max(m -
    8.5 s)``, which the other outputs never reach. Means are relative to the largest
    mean, which loses no digits.
    """
    c = len(mean)
    largest_mean = np.max(mean)
    low = -np.inf
    for a in range(c):
        centred[a] = mean[a] - largest_mean
        widths[a] = std[min(a, len(std) - 1)]
        low = max(low, centred[a] - _REACH * widths[a])
    count = 0
    widest = 0.0
    for a in range(c):
        if centred[a] + _REACH * widths[a] >= low:
            chosen[count] = a
            count += 1
            widest = max(widest, widths[a])
    for a in chosen[:count]:
        # constants only: any width will do
        floor = 1.0
        if widest > 0.0:
            floor = _SMALLEST * widest
        widths[a] = max(widths[a], floor)
    return count


@kernel
def _rule(
    mean: Array,
    widths: Array,
    chosen: Index,
) -> tuple[float, float, int]:
    """First node, step and number of nodes for the maximum of the chosen outputs."""
    low = -np.inf
    high = -np.inf
    narrowest = np.inf
    for a in chosen:
        low = max(low, mean[a] - _REACH * widths[a])
        high = max(high, mean[a] + _REACH * widths[a])
        narrowest = min(narrowest, widths[a])
    # the maximum of many variables is narrower than each of them
    step = _STEP * narrowest / math.sqrt(1.0 + math.log(len(chosen)))
    return low, step, int((high - low) / step) + 2


@kernel
def _log_product(
    u: float,
    mean: Array,
    widths: Array,
    chosen: Index,
    z: Array,
    slope: Array,
) -> float:
    """``Σ_l log F_l(u)``; writes ``z_l = (u - m_l) / s_l`` and ``(log Φ)'(z_l)``."""
    total = 0.0
    for b in range(len(chosen)):
        a = chosen[b]
        z[b] = (u - mean[a]) / widths[a]
        if z[b] > _REACH:
            slope[b] = 0.0
        else:
            value, slope[b] = _log_cdf(z[b])
            total += value
    return total


@kernel
def _all_outputs(
    mean: Array,
    std: Array,
    weights: Array,
    out: Array,
) -> None:
    n, c, s = mean.shape
    chosen = np.empty(c, np.intp)
    centred = np.empty(c)
    widths = np.empty(c)
    z = np.empty(c)
    slope = np.empty(c)
    probability = np.empty(c)
    for i in range(n):
        for j in range(s):
            component_mean = mean[i, :, j]
            component_std = std[i, :, min(j, std.shape[2] - 1)]
            count = _contenders(component_mean, component_std, chosen, centred, widths)
            contenders = chosen[:count]
            low, step, n_nodes = _rule(centred, widths, contenders)
            # S_a = ∫ (log F_a)'(u) Π_l F_l(u) du
            probability[:count] = 0.0
            for q in range(n_nodes):
                u = low + step * q
                log_F = _log_product(u, centred, widths, contenders, z, slope)
                mass = step * exp(log_F)
                for b in range(count):
                    probability[b] += mass * slope[b] / widths[contenders[b]]
            total = probability[:count].sum()
            for b in range(count):
                out[i, contenders[b]] += weights[j] * probability[b] / total


@kernel
def _one_output(
    y: Index,
    mean: Array,
    std: Array,
    probability: Array,
    slopes: Array,
) -> None:
    n, c = mean.shape
    chosen = np.empty(c, np.intp)
    centred = np.empty(c)
    widths = np.empty(c)
    z = np.empty(c)
    slope = np.empty(c)
    for i in range(n):
        probability[i] = 0.0
        slopes[:, i] = 0.0
        count = _contenders(mean[i], std[i], chosen, centred, widths)
        contenders = chosen[:count]
        observed = -1
        for b in range(count):
            if contenders[b] == y[i]:
                observed = b
        if observed < 0:
            continue
        low, step, n_nodes = _rule(centred, widths, contenders)
        # S_y = ∫ (log F_y)'(u) Π_l F_l(u) du
        for q in range(n_nodes):
            u = low + step * q
            log_F = _log_product(u, centred, widths, contenders, z, slope)
            mass = step * exp(log_F) * slope[observed] / widths[y[i]]
            probability[i] += mass
            _add_slopes(mass, observed, contenders, widths, z, slope, slopes[:, i])


@kernel
def _add_slopes(
    mass: float,
    observed: int,
    chosen: Index,
    widths: Array,
    z: Array,
    slope: Array,
    out: Array,
) -> None:
    """Add the part of one node to the derivatives in means and variances (2, c)."""
    y = chosen[observed]
    # derivative of log N(u | m_y, r) in r: (z² - 1) / (2 r)
    z_y = z[observed]
    width = widths[y]
    out[1, y] += mass * (z_y * z_y - 1.0) / (2.0 * width * width)
    for b in range(len(chosen)):
        if b != observed:
            a = chosen[b]
            fall = mass * slope[b] / widths[a]
            out[0, a] -= fall
            out[0, y] += fall
            out[1, a] -= 0.5 * fall * z[b] / widths[a]
