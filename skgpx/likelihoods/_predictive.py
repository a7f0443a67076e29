"""Probabilities and quantiles of mixtures of conditional laws."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_ndtr, logsumexp

Array = NDArray[np.float64]
Cdf = Callable[[Array], Array]
Condition = Callable[[Array], NDArray[np.bool_]]


def log_mixture(log_values: Array, weights: Array) -> Array:
    """``log sum_a weights[a] exp(log_values[:, a])``, shape (n,)."""
    return np.asarray(logsumexp(log_values, axis=1, b=weights))


def probit_log_probability(
    sign: Array, mean: Array, variance: Array, weights: Array
) -> Array:
    """``log P(sign (f + noise) > 0)``: the closed form of the probit link."""
    z = sign[:, np.newaxis] * mean / np.sqrt(1.0 + variance)
    return log_mixture(log_ndtr(z), weights)


def class_quantile(p: ArrayLike, probabilities: Array) -> Array:
    """Smallest class number with ``P(Y <= y) >= p`` for each p (q,), shape (n, q).

    Up to a tolerance of 1e-13 in p that absorbs the rounding of the probabilities.
    """
    below = np.cumsum(probabilities[:, :-1], axis=1)[:, :, np.newaxis]
    levels = np.atleast_1d(np.asarray(p, dtype=np.float64)) - 1e-13
    return np.sum(below < levels, axis=1).astype(np.float64)


def continuous_quantile(cdf: Cdf, p: float, centre: Array, spread: Array) -> Array:
    """Solve ``cdf(y) = p`` for each row of a continuous law.

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
        Starting point, and unit of length. A row is done when its bracket is narrower
        than ``1e-12 * (spread + |y|)`` or its cdf differs from p by less than
        ``1e-12 * min(p, 1 - p)``.

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
        middle = 0.5 * (low + high)
        if step % 4 != 3:
            middle = _secant(low, high, low_gap, high_gap, middle)
        gap = cdf(middle) - p
        done = wide & (np.abs(gap) <= 1e-12 * min(p, 1.0 - p))
        side = np.where(wide, np.where(gap < 0.0, -1.0, 1.0), 0.0)
        # Illinois: halve the value of an end kept twice, so that it moves next time.
        stays = np.where(side == last, 0.5, 1.0)
        low_gap = np.where(side < 0.0, gap, low_gap * stays)
        high_gap = np.where(side > 0.0, gap, high_gap * stays)
        low = np.where((side < 0.0) | done, middle, low)
        high = np.where((side > 0.0) | done, middle, high)
        last = side
    return 0.5 * (low + high)


def _secant(
    low: Array, high: Array, low_gap: Array, high_gap: Array, middle: Array
) -> Array:
    """Zero of the chord, or the midpoint where the chord has none in the bracket."""
    rise = high_gap - low_gap
    safe = np.where(rise > 0.0, rise, 1.0)
    x = low - low_gap * (high - low) / safe
    inside = (rise > 0.0) & (x > low) & (x < high)
    return np.where(inside, x, middle)


def _expand(outside: Condition, start: Array, step: Array) -> Array:
    """First of start + step, start + 3 step, ... that is not outside, per row."""
    end = start + step
    for _ in range(1000):
        moving = outside(end)
        if not moving.any():
            break
        step = np.where(moving, 2.0 * step, step)
        end = np.where(moving, end + step, end)
    return end


def discrete_quantile(cdf: Cdf, p: float, centre: Array, spread: Array) -> Array:
    """Smallest integer y with ``cdf(y) >= p`` for each row of a law on the integers.

    Same arguments as :func:`continuous_quantile`; the result is exact, up to a
    tolerance of 1e-13 in p that absorbs the rounding of the weights.
    """
    p = p - 1e-13
    centre, step = np.floor(centre), np.ceil(spread) + 1.0
    low = _expand(lambda y: cdf(y) >= p, centre, -step)
    high = _expand(lambda y: cdf(y) < p, centre, step)
    while np.any(high - low > 1.0):
        middle = np.floor(0.5 * (low + high))
        enough = cdf(middle) >= p
        wide = high - low > 1.0
        high = np.where(wide & enough, middle, high)
        low = np.where(wide & ~enough, middle, low)
    return high
