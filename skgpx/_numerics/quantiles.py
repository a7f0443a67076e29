"""Quantiles of distributions that are given by their distribution functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit, ndtri

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Cdf = Callable[[Array, Any], Array]

# ---- Coordinates ---------------------------------------------------------------------


class Coordinate(NamedTuple):
    """Increasing map of y to the real line, along which a quantile is searched.

    Attributes
    ----------
    forward, backward : callable
        From y to the coordinate t and back, elementwise.
    slope : callable
        ``dt / dy``.
    lowest, highest : float
        The least and the largest y that a search may return.
    discrete : bool
        Whether y is an integer.
    """

    forward: Callable[[Array], Array]
    backward: Callable[[Array], Array]
    slope: Callable[[Array], Array]
    lowest: float
    highest: float
    discrete: bool = False

    def location_and_scale(self, mean: Array, std: Array) -> tuple[Array, Array]:
        """Rough location and scale (n,) of the coordinate, from moments of y (n,).

        By a linear map around the mean; the scale is that of a log-normal variable
        where the coordinate is not y itself. It is positive.
        """
        mean = np.clip(mean, self.lowest, self.highest)
        scale = std * self.slope(mean)
        if self.forward is not _identity:
            # a mean of nearly zero has the largest slope of all
            with np.errstate(over="ignore"):
                scale = np.sqrt(np.log1p(scale**2))
        usable = (scale > 0.0) & (scale < np.inf)
        return self.forward(mean), np.where(usable, scale, 1.0)


def _identity(y: Array) -> Array:
    return y


_LARGEST = float(np.finfo(np.float64).max)
_SMALLEST = float(np.finfo(np.float64).tiny)
_REAL = Coordinate(_identity, _identity, np.ones_like, -_LARGEST, _LARGEST)
_LOGARITHM = Coordinate(np.log, np.exp, np.reciprocal, _SMALLEST, _LARGEST)
_LOG_ODDS = Coordinate(
    logit,
    expit,
    lambda y: 1.0 / (y * (1.0 - y)),
    _SMALLEST,
    float(np.nextafter(1.0, 0.0)),
)
_LOG_COUNT = Coordinate(
    lambda y: np.log(y + 0.5),
    lambda t: np.exp(t) - 0.5,
    lambda y: 1.0 / (y + 0.5),
    0.0,
    _LARGEST,
    discrete=True,
)


def coordinate_on(support: tuple[float, float], discrete: bool) -> Coordinate:
    """Logarithm of what is positive, log odds of shares, otherwise y itself.

    The logarithm of counts is that of ``y + 1/2``.
    """
    if support == (0.0, np.inf):
        return _LOG_COUNT if discrete else _LOGARITHM
    if support == (0.0, 1.0) and not discrete:
        return _LOG_ODDS
    low, high = np.clip(support, -_LARGEST, _LARGEST).tolist()
    return _REAL._replace(lowest=low, highest=high, discrete=discrete)


# ---- Search --------------------------------------------------------------------------


class _Search(NamedTuple):
    """State of the rows whose quantile is not known yet, (k,) each.

    Attributes
    ----------
    rows : ndarray of int
        Their numbers.
    y : ndarray
        Where the distribution function is evaluated next.
    low, high : ndarray
        Bracket: largest y with ``cdf(y) < p``, smallest with ``cdf(y) >= p`` so far.
    last_t, last_z : ndarray
        Coordinate, and normal quantile of the distribution function, one step ago.
    slope : ndarray
        ``dz / dt``.
    reach : ndarray
        How far to go, in the coordinate, where the bracket is open.
    """

    rows: NDArray[np.intp]
    y: Array
    low: Array
    high: Array
    last_t: Array
    last_z: Array
    slope: Array
    reach: Array

    def take(self, mask: Mask) -> Self:
        """State of some of the rows."""
        parts: list[Any] = [values[mask] for values in self]
        return type(self)(*parts)


def quantile(
    cdf: Cdf,
    p: float,
    start: Array,
    spread: Array,
    coordinate: Coordinate,
) -> Array:
    """Smallest y with ``cdf(y) >= p`` for each row, shape (n,).

    The secant method on ``z = Φ⁻¹(cdf(y))`` as a function of a coordinate t of y, a
    straight line for normal, log-normal and logit-normal distributions, inside the
    bracket found so far, and bisection where its steps do not halve. Each row stops
    separately, so its result does not depend on the other rows.

    Parameters
    ----------
    cdf : callable
        ``cdf(y, rows)`` of some rows; non-decreasing in each row.
    p : float
        Strictly between 0 and 1.
    start : ndarray of shape (n,)
        Where the search begins, in the units of y.
    spread : ndarray of shape (n,)
        Positive: rough standard deviation of the coordinate of y.
    coordinate : Coordinate
        If y is an integer the result is exact, up to a tolerance of 1e-13 in p that
        absorbs the rounding of the weights. Otherwise its level differs from p by less
        than 1e-6, usually by 1e-11, or it is next to the smallest double at which the
        level is p.
    """
    p = p - 1e-13 if coordinate.discrete else p
    target = float(ndtri(p))
    result = np.empty(len(start))
    start = np.clip(start, coordinate.lowest, coordinate.highest)
    unknown = np.full(len(start), np.nan)
    search = _Search(
        rows=np.arange(len(start)),
        y=np.floor(start) if coordinate.discrete else start,
        low=np.full(len(start), -np.inf),
        high=np.full(len(start), np.inf),
        last_t=unknown,
        last_z=unknown,
        slope=1.0 / spread,
        reach=spread,
    )
    while len(search.rows):
        below = cdf(search.y, search.rows)
        with np.errstate(all="ignore"):
            search, quantiles, done = _step(search, below, p, target, coordinate)
        result[search.rows[done]] = quantiles[done]
        search = search.take(~done)
    return result


def _step(
    search: _Search,
    below: Array,
    p: float,
    target: float,
    coordinate: Coordinate,
) -> tuple[_Search, Array, Mask]:
    """Next state; the quantiles as far as they are known; where they are."""
    left = below < p
    low = np.where(left, search.y, search.low)
    high = np.where(left, search.high, search.y)
    bounded = np.isfinite(low) & np.isfinite(high)
    t = coordinate.forward(search.y)
    z = ndtri(below)

    # dz / dt of the chord, unless its points are so close that it is rounding errors
    moved = np.abs(t - search.last_t)
    rise = (z - search.last_z) / (t - search.last_t)
    apart = (np.abs(z - search.last_z) > 1e-8) & (rise > 0.0) & (rise < np.inf)
    slope = np.where(apart, rise, search.slope)
    root = coordinate.backward(t + (target - z) / slope)
    step = np.abs(target - z) / slope

    # where the root cannot be relied on: outwards, then to the middle of the bracket
    beyond = coordinate.backward(np.where(left, t + search.reach, t - search.reach))
    beyond = np.clip(beyond, coordinate.lowest, coordinate.highest)
    fallback = np.where(bounded, _middle(low, high, coordinate), beyond)
    longest = np.where(bounded, 0.5 * moved, search.reach)
    usable = (low < root) & (root < high) & (step <= longest)
    usable &= apart | np.isnan(search.last_z)
    following = np.where(usable, root, fallback)
    if coordinate.discrete:
        following = np.minimum(np.ceil(following), high - 1.0)
        following = np.maximum(following, np.maximum(low + 1.0, coordinate.lowest))

    # no number is left in the bracket, not even at the end of the support
    empty = ~((low < following) & (following < high))
    quantiles = np.where(np.isfinite(high), high, search.y)
    done = empty
    if not coordinate.discrete:
        # the error of a secant is of the order of the product of the last two
        error = np.abs(z - target)
        small = (error <= 1e-6) & (error * np.abs(search.last_z - target) <= 1e-11)
        quantiles = np.where(small, np.clip(root, low, high), quantiles)
        quantiles = np.clip(quantiles, coordinate.lowest, coordinate.highest)
        done = empty | small
    reach = np.where(bounded, search.reach, 2.0 * search.reach)
    state = _Search(search.rows, following, low, high, t, z, slope, reach)
    return state, quantiles, done


def _middle(low: Array, high: Array, coordinate: Coordinate) -> Array:
    """A number inside the bracket, half way in the coordinate if that resolves it."""
    t = 0.5 * coordinate.forward(low) + 0.5 * coordinate.forward(high)
    middle = coordinate.backward(t)
    inside = (low < middle) & (middle < high)
    return np.where(inside, middle, 0.5 * low + 0.5 * high)
