"""Quantiles of distributions that are given by their distribution functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

Array = NDArray[np.float64]
Cdf = Callable[[Array, Any], Array]


def quantile(cdf: Cdf, p: float, start: Array, spread: Array, discrete: bool) -> Array:
    """Smallest y with ``cdf(y) >= p`` for each row, shape (n,).

    The secant method on ``Φ⁻¹(cdf(y))``, a straight line for normal distributions,
    inside the bracket found so far, and bisection where its steps do not halve. Each
    row stops separately, so its result does not depend on the other rows.

    Parameters
    ----------
    cdf : callable
        ``cdf(y, rows)`` of some rows; non-decreasing in each row.
    p : float
        Strictly between 0 and 1.
    start, spread : ndarray of shape (n,)
        A continuous row is done when its error is below some ``1e-11 * (spread +
        |y|)``.
    discrete : bool
        Whether y is an integer. The result is then exact, up to a tolerance of 1e-13 in
        p that absorbs the rounding of the weights.
    """
    p = p - 1e-13 if discrete else p
    target, out, rows = ndtri(p), np.empty(len(start)), np.arange(len(start))
    y, reach = (np.floor(start), np.ceil(spread)) if discrete else (start, spread)
    slope, (low, high) = 1.0 / spread, np.outer((-np.inf, np.inf), np.ones(len(y)))
    z, moved = np.full((2, len(y)), np.nan)
    while len(rows):
        below = cdf(y, rows)
        left = below < p
        low, high = np.where(left, y, low), np.where(left, high, y)
        bounded = np.isfinite(high - low)
        size = spread[rows] + np.abs(y)
        with np.errstate(invalid="ignore"):
            last, z = z, ndtri(below)
            rise = (z - last) / moved
            # points closer than that have a chord of rounding errors
            apart = (np.abs(moved) > 1e-9 * size) & (rise > 0.0) & (rise < np.inf)
            slope = np.where(apart, rise, slope)
            root = y + (target - z) / slope
            step = np.abs(root - y)
            # the error of a secant is of the order of the product of its steps
            near = (step <= 1e-6 * size) & (step * np.abs(moved) <= 1e-11 * size**2)
            longest = np.where(bounded, 0.5 * np.abs(moved), reach)
            usable = (low < root) & (root < high) & (step <= longest)
            beyond = np.where(left, y + reach, y - reach)
            new = np.where(bounded, 0.5 * (low + high), beyond)
            new = np.where(usable, root, new)
        if discrete:
            root, done = high, high - low <= 1.0
            new = np.clip(np.ceil(new), low + 1.0, high - 1.0)
        else:
            root, done = np.clip(root, low, high), near | (high - low <= 1e-12 * size)
        out[rows[done]] = root[done]
        moved, y, reach = new - y, new, np.where(bounded, reach, 2.0 * reach)
        state: tuple[Any, ...] = rows, y, low, high, z, slope, moved, reach
        rows, y, low, high, z, slope, moved, reach = (a[~done] for a in state)
    return out
