"""Quantiles of distributions, from their distribution functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.special import expit, logit, ndtri

from skgpx._types import Array, Index, Mask

Cdf = Callable[[Array, Any], Array]
# What is done with the distribution function of some rows.
UseOfCdf = Callable[[Cdf, Any], None]

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
        The smallest and the largest y that a search may return.
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

        By a linear map around the mean; for other coordinates than y itself, the scale
        is that of a log-normal variable. The scale is positive.
        """
        mean = np.clip(mean, self.lowest, self.highest)
        scale = std * self.slope(mean)
        if self.forward is not _identity:
            # the slope at a mean of nearly zero is huge
            with np.errstate(over="ignore"):
                scale = np.sqrt(np.log1p(scale**2))
        is_usable = (scale > 0.0) & (scale < np.inf)
        scale = np.where(is_usable, scale, 1.0)
        return self.forward(mean), scale


def _identity(y: Array) -> Array:
    return y


def _logit_slope(y: Array) -> Array:
    return 1.0 / (y * (1.0 - y))


def _log_count(y: Array) -> Array:
    return np.log(y + 0.5)


def _count(t: Array) -> Array:
    return np.exp(t) - 0.5


def _log_count_slope(y: Array) -> Array:
    return 1.0 / (y + 0.5)


_LARGEST = float(np.finfo(np.float64).max)
_SMALLEST = float(np.finfo(np.float64).tiny)
_REAL = Coordinate(
    forward=_identity,
    backward=_identity,
    slope=np.ones_like,
    lowest=-_LARGEST,
    highest=_LARGEST,
)
_LOGARITHM = Coordinate(
    forward=np.log,
    backward=np.exp,
    slope=np.reciprocal,
    lowest=_SMALLEST,
    highest=_LARGEST,
)
_LOG_ODDS = Coordinate(
    forward=logit,
    backward=expit,
    slope=_logit_slope,
    lowest=_SMALLEST,
    highest=float(np.nextafter(1.0, 0.0)),
)
_LOG_COUNT = Coordinate(
    forward=_log_count,
    backward=_count,
    slope=_log_count_slope,
    lowest=0.0,
    highest=_LARGEST,
    discrete=True,
)


def coordinate_on(support: tuple[float, float], discrete: bool) -> Coordinate:
    """Coordinate of a support.

    ``log y`` of positive numbers, ``log(y + 1/2)`` of counts, log odds of shares,
    otherwise y itself.
    """
    if support == (0.0, np.inf):
        if discrete:
            return _LOG_COUNT
        return _LOGARITHM
    if support == (0.0, 1.0) and not discrete:
        return _LOG_ODDS
    low, high = np.clip(support, -_LARGEST, _LARGEST).tolist()
    return _REAL._replace(lowest=low, highest=high, discrete=discrete)


# ---- Search --------------------------------------------------------------------------


class _Search(NamedTuple):
    """State of the search in the unfinished rows, (k,) each.

    Attributes
    ----------
    rows : ndarray of int
        Numbers of the rows.
    y : ndarray
        Next argument of the distribution function.
    low, high : ndarray
        Bracket: largest y with ``cdf(y) < p``, smallest with ``cdf(y) >= p`` so far.
    last_t, last_z : ndarray
        Coordinate, and normal quantile of the distribution function, one step ago.
    slope : ndarray
        ``dz / dt``.
    reach : ndarray
        Length of a step in the coordinate if the bracket is open.
    """

    rows: Index
    y: Array
    low: Array
    high: Array
    last_t: Array
    last_z: Array
    slope: Array
    reach: Array

    def take(self, mask: Mask) -> Self:
        """State of some of the rows."""
        fields: list[Any] = [values[mask] for values in self]
        return type(self)(*fields)


def quantile(
    cdf: Cdf,
    p: float,
    start: Array,
    spread: Array,
    coordinate: Coordinate,
) -> Array:
    """Smallest y with ``cdf(y) >= p`` for each row, shape (n,).

    The secant method on ``z = Φ⁻¹(cdf(y))`` as a function of a coordinate t of y, which
    is a straight line for normal, log-normal and logit-normal distributions. Steps that
    leave the current bracket, or do not halve, are replaced by bisection. Each row
    stops separately, so its result does not depend on the other rows.

    Parameters
    ----------
    cdf : callable
        ``cdf(y, rows)`` of some rows; non-decreasing in each row.
    p : float
        Strictly between 0 and 1.
    start : ndarray of shape (n,)
        Start of the search, in the units of y.
    spread : ndarray of shape (n,)
        Positive: rough standard deviation of the coordinate of y.
    coordinate : Coordinate
        For integers the result is exact, up to a tolerance of 1e-13 in p that absorbs
        the rounding of the weights. Otherwise its level differs from p by less than
        1e-6, usually by 1e-11, or it is next to the smallest double at which the level
        is p.
    """
    n = len(start)
    y = np.clip(start, coordinate.lowest, coordinate.highest)
    if coordinate.discrete:
        p = p - 1e-13
        y = np.floor(y)
    target = float(ndtri(p))
    result = np.empty(n)
    undefined = np.full(n, np.nan)
    search = _Search(
        rows=np.arange(n),
        y=y,
        low=np.full(n, -np.inf),
        high=np.full(n, np.inf),
        last_t=undefined,
        last_z=undefined,
        slope=1.0 / spread,
        reach=spread,
    )
    while len(search.rows):
        level = cdf(search.y, search.rows)
        with np.errstate(all="ignore"):
            search, quantiles, is_done = _step(search, level, p, target, coordinate)
        result[search.rows[is_done]] = quantiles[is_done]
        search = search.take(~is_done)
    return result


def _step(
    search: _Search,
    level: Array,
    p: float,
    target: float,
    coordinate: Coordinate,
) -> tuple[_Search, Array, Mask]:
    """One step of the search in all rows.

    Returns
    -------
    search : _Search
    quantiles : ndarray of shape (k,)
        Best values so far.
    is_done : ndarray of bool of shape (k,)
        Whether these are the results.
    """
    # the bracket
    is_below = level < p
    low = np.where(is_below, search.y, search.low)
    high = np.where(is_below, search.high, search.y)
    is_bounded = np.isfinite(low) & np.isfinite(high)

    # slope dz / dt of the chord, unless its points are so close that it is rounding
    t = coordinate.forward(search.y)
    z = ndtri(level)
    t_step = t - search.last_t
    z_step = z - search.last_z
    chord = z_step / t_step
    is_slope = (np.abs(z_step) > 1e-8) & (chord > 0.0) & (chord < np.inf)
    slope = np.where(is_slope, chord, search.slope)

    # the root of the secant: inside the bracket, and no longer than half the last step
    difference = target - z
    error = np.abs(difference)
    root = coordinate.backward(t + difference / slope)
    length = error / slope
    longest = np.where(is_bounded, 0.5 * np.abs(t_step), search.reach)
    is_inside = (low < root) & (root < high)
    is_trusted = is_slope | np.isnan(search.last_z)
    is_usable = is_inside & (length <= longest) & is_trusted

    # otherwise a step outwards, then to the middle of the bracket
    outer_t = np.where(is_below, t + search.reach, t - search.reach)
    outer = coordinate.backward(outer_t)
    outer = np.clip(outer, coordinate.lowest, coordinate.highest)
    middle = _middle(low, high, coordinate)
    fallback = np.where(is_bounded, middle, outer)
    next_y = np.where(is_usable, root, fallback)
    if coordinate.discrete:
        smallest = np.maximum(low + 1.0, coordinate.lowest)
        next_y = np.minimum(np.ceil(next_y), high - 1.0)
        next_y = np.maximum(next_y, smallest)

    # stop if the bracket has no further number, not even at the end of the support
    has_next = (low < next_y) & (next_y < high)
    is_done = ~has_next
    quantiles = np.where(np.isfinite(high), high, search.y)
    if not coordinate.discrete:
        # the error of a secant is of the order of the product of the last two errors
        last_error = np.abs(search.last_z - target)
        is_accurate = (error <= 1e-6) & (error * last_error <= 1e-11)
        bracketed_root = np.clip(root, low, high)
        quantiles = np.where(is_accurate, bracketed_root, quantiles)
        quantiles = np.clip(quantiles, coordinate.lowest, coordinate.highest)
        is_done = is_done | is_accurate
    next_search = _Search(
        rows=search.rows,
        y=next_y,
        low=low,
        high=high,
        last_t=t,
        last_z=z,
        slope=slope,
        reach=np.where(is_bounded, search.reach, 2.0 * search.reach),
    )
    return next_search, quantiles, is_done


def _middle(
    low: Array,
    high: Array,
    coordinate: Coordinate,
) -> Array:
    """A number inside the bracket: the middle in the coordinate, or in y."""
    t = 0.5 * coordinate.forward(low) + 0.5 * coordinate.forward(high)
    middle = coordinate.backward(t)
    is_inside = (low < middle) & (middle < high)
    return np.where(is_inside, middle, 0.5 * low + 0.5 * high)
