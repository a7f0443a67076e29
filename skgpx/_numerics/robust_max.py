"""Which of independent normal variables is the largest: probabilities and slopes.

For independent ``f_l ~ N(m_l, r_l)`` with distribution functions F_l,

    S_j = P(f_j is the largest) = ∫ F_j'(u) Π_{l≠j} F_l(u) du.

The product is taken in logarithms. The integrand is as smooth as the narrowest of the
densities, and the trapezoidal rule converges geometrically, as Gauss-Hermite does.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skgpx._numerics._jit import inlined, kernel
from skgpx._numerics.elementary import erfcx, exp
from skgpx._numerics.mixture import LatentMixture

Array = NDArray[np.float64]
Codes = NDArray[np.intp]

# Standard deviations beyond which a normal variable is not looked for: 2e-17.
_REACH = 8.5
# Step of the trapezoidal rule, in standard deviations of the narrowest variable.
_STEP = 0.55
# Standard deviations are at least this share of the largest of a row. The error is of
# the square of it, and the number of nodes of its inverse.
_SMALLEST = 0.01


def largest_probabilities(mixture: LatentMixture) -> Array:
    """Probability that each output is the largest, of each row, shape (n, c).

    To 1e-11, and to 1e-5 where standard deviations differ by more than a factor of a
    hundred; rows sum to one. Constants, of variance zero, that are equal share.

    Notes
    -----
    O(c) evaluations of the normal distribution function for each of some fifty nodes
    where the variances of the outputs that can be the largest are of one size.
    """
    mean, variance, weights = mixture
    out = np.zeros(mean.shape[:2])
    std = np.sqrt(np.broadcast_to(variance, (len(mean), *variance.shape[1:])))
    _all_outputs(
        np.ascontiguousarray(mean), np.ascontiguousarray(std), weights,
        out,
    )  # fmt: skip
    return out


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
    in_mean, in_variance : ndarray of shape (n, c)
        Its derivatives in the mean and in the variance of each output; the sum of the
        second over the outputs where they share it.

    References
    ----------
    .. [1] Wild, Hu and Sejdinovic, "Generalized variational inference in function
       spaces: Gaussian measures meet Bayesian deep learning", NeurIPS 2022.
    """
    codes = np.ascontiguousarray(y, dtype=np.intp)
    probability, slopes = np.empty(len(mean)), np.empty((2, *mean.shape))
    _one_output(
        codes, np.ascontiguousarray(mean), np.ascontiguousarray(np.sqrt(variance)),
        probability, slopes,
    )  # fmt: skip
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
    chosen: Codes,
    centred: Array,
    widths: Array,
) -> int:
    """Outputs that can be the largest, as the first of `chosen`; means and widths.

    The maximum is above ``max(m - 8.5 s)``, where the others never are. Means are taken
    from the largest, which loses no digits.
    """
    c, top, low, widest, count = len(mean), np.max(mean), -np.inf, 0.0, 0
    for a in range(c):
        centred[a], widths[a] = mean[a] - top, std[min(a, len(std) - 1)]
        low = max(low, centred[a] - _REACH * widths[a])
    for a in range(c):
        if centred[a] + _REACH * widths[a] >= low:
            chosen[count] = a
            count += 1
            widest = max(widest, widths[a])
    for a in chosen[:count]:
        widths[a] = max(widths[a], _SMALLEST * widest) if widest > 0.0 else 1.0
    return count


@kernel
def _rule(mean: Array, widths: Array, chosen: Codes) -> tuple[float, float, int]:
    """First node, step and number of nodes for the maximum of the chosen outputs."""
    low, high, narrow = -np.inf, -np.inf, np.inf
    for a in chosen:
        low = max(low, mean[a] - _REACH * widths[a])
        high = max(high, mean[a] + _REACH * widths[a])
        narrow = min(narrow, widths[a])
    # the maximum of many variables is narrower than each of them
    step = _STEP * narrow / math.sqrt(1.0 + math.log(len(chosen)))
    return low, step, int((high - low) / step) + 2


@kernel
def _log_product(
    u: float,
    mean: Array,
    widths: Array,
    chosen: Codes,
    z: Array,
    slope: Array,
) -> float:
    """``Σ log F_l(u)``; fills standardised distances and slopes of the logarithms."""
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
    chosen, centred, widths = np.empty(c, np.intp), np.empty(c), np.empty(c)
    z, slope, own = np.empty(c), np.empty(c), np.empty(c)
    for i in range(n):
        for j in range(s):
            centre, spread = mean[i, :, j], std[i, :, min(j, std.shape[2] - 1)]
            count = _contenders(centre, spread, chosen, centred, widths)
            some = chosen[:count]
            low, step, k = _rule(centred, widths, some)
            own[:count] = 0.0
            for q in range(k):
                log = _log_product(low + step * q, centred, widths, some, z, slope)
                mass = step * exp(log)
                for b in range(count):
                    own[b] += mass * slope[b] / widths[some[b]]
            total = own[:count].sum()
            for b in range(count):
                out[i, some[b]] += weights[j] * own[b] / total


@kernel
def _one_output(
    y: Codes,
    mean: Array,
    std: Array,
    probability: Array,
    slopes: Array,
) -> None:
    n, c = mean.shape
    chosen, centred, widths = np.empty(c, np.intp), np.empty(c), np.empty(c)
    z, slope = np.empty(c), np.empty(c)
    for i in range(n):
        probability[i], slopes[:, i] = 0.0, 0.0
        count = _contenders(mean[i], std[i], chosen, centred, widths)
        some = chosen[:count]
        own = -1
        for b in range(count):
            own = b if some[b] == y[i] else own
        if own < 0:
            continue
        low, step, k = _rule(centred, widths, some)
        for q in range(k):
            log = _log_product(low + step * q, centred, widths, some, z, slope)
            mass = step * exp(log) * slope[own] / widths[y[i]]
            probability[i] += mass
            _add_slopes(mass, own, some, widths, z, slope, slopes[:, i])


@kernel
def _add_slopes(
    mass: float,
    own: int,
    chosen: Codes,
    widths: Array,
    z: Array,
    slope: Array,
    out: Array,
) -> None:
    """Add the part of one node to the derivatives in means and variances (2, c)."""
    y = chosen[own]
    # of the density of f_y in its variance: (z² - 1) / (2 r)
    out[1, y] += mass * (z[own] * z[own] - 1.0) / (2.0 * widths[y] * widths[y])
    for b in range(len(chosen)):
        if b != own:
            a, fall = chosen[b], mass * slope[b] / widths[chosen[b]]
            out[0, a] -= fall
            out[0, y] += fall
            out[1, a] -= 0.5 * fall * z[b] / widths[a]
