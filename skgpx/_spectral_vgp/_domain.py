"""Where inputs may lie: the box of the Fourier functions, and rows outside."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skgpx._shell.validation import Rows, warn
from skgpx._types import Array, Kernel
from skgpx.bases import Box, ContinuedSeries, FourierSeries
from skgpx.diagnostics import Finding, input_outliers
from skgpx.exceptions import PredictionWarning
from skgpx.kernels import longest_length_scales

# Lengthscales between the data and their image beyond the joint, by the number of
# inputs.
_GAPS = {1: 8.0, 2: 8.0, 3: 4.0}
# Largest width of the box in widths of the core; of several inputs while the kernel is
# learned.
_LARGEST_RATIO = 50.0
_LARGEST_LEARNED_RATIO = 2.0
# Largest range of a column in widths of its bulk, by the number of inputs.
_LARGEST_BULK_RATIOS = {1: 20.0, 2: 5.0, 3: 4.0}


class Region(NamedTuple):
    """Intervals of each input that a fit on Fourier functions has to do with.

    Attributes
    ----------
    domain : ndarray of shape (d, 2)
        Where rows may lie.
    core : ndarray of shape (d, 2)
        Where the functions must stand for the process.
    seen : ndarray of shape (d, 2)
        Range of the data.
    """

    domain: Array
    core: Array
    seen: Array


def widths(intervals: Array) -> Array:
    """Lengths (d,) of intervals (d, 2)."""
    low, high = intervals.T
    return high - low


def input_range(X: Array) -> Array:
    """Smallest and largest value of each column, shape (d, 2)."""
    low = X.min(axis=0)
    high = X.max(axis=0)
    return np.stack((low, high), axis=1)


def joint_range(first: Array, second: Array) -> Array:
    """Smallest intervals (d, 2) that hold two sets of intervals (d, 2)."""
    limits = np.hstack((first, second))
    return input_range(limits.T)


def data_domain(X: Array) -> Array:
    """Range of the data and a quarter of it on either side, (d, 2)."""
    low, high = input_range(X).T
    width = high - low
    # a constant column needs some lengthscales of room, too
    rounding = 1e-12 * np.maximum(np.abs(low), np.abs(high))
    room = np.maximum(20.0, 1e3 * rounding)
    width = np.where(width > rounding, width, room)
    margin = 0.25 * width
    return np.stack((low - margin, high + margin), axis=1)


# ---- The box -------------------------------------------------------------------------


def domain_box(domain: Array) -> Box:
    """Box that is the domain (d, 2) itself."""
    return Box(domain[:, 0].copy(), widths(domain))


def kernel_box(region: Region, kernel: Kernel | None, learned: bool) -> Box:
    """Box so wide that its joint does not connect the two ends of the region.

    A series prior is periodic on purpose: its box is the domain. Under a kernel the box
    is four lengthscales wider than the core, and eight (with three inputs,
    four) wider than the data, so that the kernel can be followed beyond them. While
    the kernel is learned there is less room in several dimensions, where width is
    expensive.

    Parameters
    ----------
    region : Region
    kernel : sklearn.gaussian_process.kernels.Kernel or None
        None for a series prior.
    learned : bool
        Whether the hyperparameters of the kernel are searched for.
    """
    domain = region.domain
    if kernel is None:
        return domain_box(domain)
    origin = domain[:, 0].copy()
    width = np.maximum(widths(region.core), 0.1 * widths(domain))
    d = len(width)
    scales = longest_length_scales(kernel, d)
    period = width + 4.0 * scales
    if d == 1 or not learned:
        gap = _GAPS[d]
        period = np.maximum(period, widths(region.seen) + gap * scales)
    largest_ratio = _LARGEST_RATIO
    if learned and d > 1:
        largest_ratio = _LARGEST_LEARNED_RATIO
    return Box(origin, np.minimum(period, largest_ratio * width))


# ---- Outside -------------------------------------------------------------------------


def continue_series(
    series: FourierSeries,
    kernel: Kernel | None,
    region: Region,
) -> ContinuedSeries:
    """Series that answers outside of its region as the prior does.

    The region of a series prior is the domain. Under a kernel it is the part of the
    domain that the box holds, and the surroundings of the data up to the middle of the
    gap, as long as the data beyond the joint stay three lengthscales away.
    """
    domain = region.domain
    if kernel is None:
        return ContinuedSeries.of(series, domain.copy())
    period = series.box.period
    width = widths(domain)
    scales = longest_length_scales(kernel, len(width))
    core = region.core
    room = np.minimum(4.0 * scales, 0.5 * width)
    if np.all(period >= width + room):
        core = domain
    # the surroundings of the data
    gap = period - widths(region.seen)
    reach = np.minimum(0.5 * gap, gap - 3.0 * scales)
    reach = np.maximum(reach, 0.0)
    low, high = region.seen.T
    surroundings = np.stack((low - reach, high + reach), axis=1)
    answered = joint_range(core, surroundings)
    return ContinuedSeries.of(series, answered, kernel)


def warn_outside(
    basis: ContinuedSeries,
    kernel: Kernel | None,
    X: Array,
    seen: Array,
) -> None:
    """Warn of rows outside of the region that still correlate with the data.

    Where the correlation of a kernel has died on the way from the range of the data
    (d, 2), the prior is the answer of the exact process, too.
    """
    rows = basis.continuation.outside(X)
    if kernel is not None:
        nearest_seen = np.clip(X[rows], *seen.T)
        steps = X[rows] - nearest_seen
        correlations = basis.continuation.correlations(steps)
        rows = rows[np.abs(correlations) > 0.05]
    if not len(rows):
        return
    low, high = basis.continuation.region.T
    distances = np.maximum(low - X[rows], X[rows] - high)
    j = int(np.argmax(distances.max(axis=0)))
    warn(
        f"{len(rows)} of {len(X)} rows are outside of the domain of the Fourier "
        f"functions (column {j} goes from {low[j]:.6g} to {high[j]:.6g}): with "
        "their distance, predictions approach the mean and standard deviation of the "
        "prior. Fit with a wider `domain` to extrapolate.",
        PredictionWarning,
    )


# ---- Inputs so far from all others that no box could hold both -----------------------


def without_input_outliers(rows: Rows) -> tuple[Rows, Finding | None]:
    """Leave out rows whose inputs are far from the bulk of the data.

    The bulk is the central 95 % of a column. Functions on a range many times as wide
    cannot resolve it: rows farther from it than its own width are left out.

    Returns
    -------
    rows : Rows
        The rows that stay.
    finding : Finding or None
    """
    X = rows.X
    n, d = X.shape
    step = 1 + n // 20_000
    low, high = np.quantile(X[::step], (0.025, 0.975), axis=0)
    bulk = high - low
    full = widths(input_range(X))
    is_wide = full > _LARGEST_BULK_RATIOS[d] * bulk
    is_wide &= bulk > 0.0
    if n < 40 or not is_wide.any():
        return rows, None
    margin = np.where(is_wide, bulk, np.inf)
    is_near = (low - margin <= X) & (high + margin >= X)
    near_bulk = np.all(is_near, axis=1)
    column = int(np.argmax(full / margin))
    return rows.take(near_bulk), input_outliers(X, near_bulk, column)
