"""Where inputs may lie: the box of the Fourier functions, and rows outside."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process.kernels import Kernel

from skgpx._validation import Rows, warn
from skgpx.bases import Box, ContinuedSeries, FourierSeries
from skgpx.diagnostics import Finding, input_outliers
from skgpx.exceptions import PredictionWarning
from skgpx.kernels import expand, longest_length_scales

Array = NDArray[np.float64]


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
    lengths: Array = intervals[:, 1] - intervals[:, 0]
    return lengths


def input_range(X: Array) -> Array:
    """Smallest and largest value of each column, shape (d, 2)."""
    return np.stack((X.min(axis=0), X.max(axis=0)), axis=1)


def joint_range(first: Array, second: Array) -> Array:
    """Smallest intervals (d, 2) that hold two sets of intervals (d, 2)."""
    return input_range(np.hstack((first, second)).T)


def data_domain(X: Array) -> Array:
    """Range of the data and a quarter of it on either side, (d, 2)."""
    low = X.min(axis=0)
    high = X.max(axis=0)
    width = high - low
    # a constant column needs some lengthscales of room, too
    rounding = 1e-12 * np.maximum(np.abs(low), np.abs(high))
    room = np.maximum(20.0, 1e3 * rounding)
    width = np.where(width > rounding, width, room)
    return np.stack((low - 0.25 * width, high + 0.25 * width), axis=1)


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
    expensive, and for kernels with a part of order 1/2, whose memory ends at the next
    rows but whose short waves matter.

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
    width = np.maximum(widths(region.core), 0.1 * widths(domain))
    d = len(width)
    scales = longest_length_scales(kernel, d)
    period = width + 4.0 * scales
    if d == 1 or not learned:
        gap = 8.0 if d < 3 else 4.0
        period = np.maximum(period, widths(region.seen) + gap * scales)
    largest_ratio = 50.0
    if learned:
        largest_ratio = {1: 50.0, 2: 2.0, 3: 1.5}[d]
        factors = (factor for term in expand(kernel) for factor in term.factors)
        is_rough = any(getattr(factor, "nu", np.inf) <= 0.5 for factor in factors)
        if is_rough and d == 1:
            largest_ratio = 2.3
    return Box(domain[:, 0].copy(), np.minimum(period, largest_ratio * width))


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
    if np.all(period >= width + np.minimum(4.0 * scales, 0.5 * width)):
        core = domain
    seen = region.seen
    gap = period - widths(seen)
    reach = np.maximum(np.minimum(0.5 * gap, gap - 3.0 * scales), 0.0)
    surroundings = np.stack((seen[:, 0] - reach, seen[:, 1] + reach), axis=1)
    return ContinuedSeries.of(series, joint_range(core, surroundings), kernel)


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
        steps = X[rows] - np.clip(X[rows], *seen.T)
        rows = rows[np.abs(basis.continuation.correlations(steps)) > 0.05]
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
    d = X.shape[1]
    low, high = np.quantile(X[:: 1 + len(X) // 20_000], (0.025, 0.975), axis=0)
    bulk = high - low
    full = widths(input_range(X))
    largest_ratio = {1: 20.0, 2: 5.0, 3: 4.0}[d]
    too_wide = (full > largest_ratio * bulk) & (bulk > 0.0)
    if len(X) < 40 or not too_wide.any():
        return rows, None
    margin = np.where(too_wide, bulk, np.inf)
    near_bulk = np.all((low - margin <= X) & (high + margin >= X), axis=1)
    column = int(np.argmax(full / margin))
    return rows.take(near_bulk), input_outliers(X, near_bulk, column)
