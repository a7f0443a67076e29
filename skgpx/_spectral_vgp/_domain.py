"""Where inputs may lie: the box of the Fourier functions, and rows outside."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from skgpx._latent import LatentModel
from skgpx._validation import Rows, warn
from skgpx.bases import Box, ContinuedSeries, FourierSeries, KernelEigenvalues
from skgpx.diagnostics import Finding
from skgpx.exceptions import PredictionWarning
from skgpx.kernels import longest_length_scales

# ---- Where the inputs may lie --------------------------------------------------------


Array = NDArray[np.float64]

# Part of the range added on either side of the data where no domain is given.
_MARGIN = 0.25
# Lengthscales between the ends of the domain across the joint of the box, and between
# the ends of the data by the number of inputs, so that a kernel can be followed beyond
# them: up to half of the gap, as long as the other end is some lengthscales away.
_PADDING, _GAP, _APART = 4.0, {1: 8.0, 2: 8.0, 3: 4.0}, 3.0
# Widths of the domain that a box may have, by the number of inputs, and for one input
# and a learned kernel of order 1/2, whose memory ends at the next rows.
_MOST_WIDTHS, _ROUGH_WIDTHS = {1: 50.0, 2: 2.0, 3: 1.5}, 2.3
# Correlation with the data below which a row counts as far from them.
_FORGOTTEN = 0.05


def input_range(X: Array) -> Array:
    """Smallest and largest value of each column, shape (d, 2)."""
    return np.stack((X.min(axis=0), X.max(axis=0)), axis=1)


def joint_range(one: Array, other: Array) -> Array:
    """Range that covers both, shape (d, 2)."""
    low = np.minimum(one[:, 0], other[:, 0])
    return np.stack((low, np.maximum(one[:, 1], other[:, 1])), axis=1)


def data_domain(X: Array) -> Array:
    """Range of the data and a quarter of it on either side, (d, 2)."""
    low, high = X.min(axis=0), X.max(axis=0)
    width = high - low
    # a constant column needs some lengthscales of room, too
    rounding = 1e-12 * np.maximum(np.abs(low), np.abs(high))
    width = np.where(width > rounding, width, np.maximum(20.0, 1e3 * rounding))
    return np.stack((low - _MARGIN * width, high + _MARGIN * width), axis=1)


# ---- The box -------------------------------------------------------------------------


def box_of(domain: Array, inside: Array, seen: Array, kernel: Any, learns: bool) -> Box:
    """Box whose joint does not connect the ends of what it holds under a kernel.

    A series prior is periodic on purpose: its box is the domain. That of a kernel has
    room beyond the data for what the kernel says there; but in several dimensions,
    where width is expensive, less of it while the kernel is learned.

    Parameters
    ----------
    domain, inside, seen : ndarray of shape (d, 2)
        Where rows may lie, where the functions must stand for the process, and the
        range of the data.
    kernel : sklearn.gaussian_process.kernels.Kernel or None
    learns : bool
    """
    if kernel is None:
        return Box(domain[:, 0].copy(), domain[:, 1] - domain[:, 0])
    width = np.maximum(inside[:, 1] - inside[:, 0], 0.1 * (domain[:, 1] - domain[:, 0]))
    d = len(width)
    scales = longest_length_scales(kernel, d)
    wanted = width + _PADDING * scales
    most = _MOST_WIDTHS[d] if learns else _MOST_WIDTHS[1]
    if learns and d == 1 and getattr(getattr(kernel, "k2", None), "nu", 0.0) == 0.5:
        most = _ROUGH_WIDTHS
    if d == 1 or not learns:
        wanted = np.maximum(wanted, seen[:, 1] - seen[:, 0] + _GAP[d] * scales)
    return Box(domain[:, 0].copy(), np.minimum(wanted, most * width))


def kernel_of(rule: Any) -> Any:
    """Kernel of an eigenvalue rule; None for a series prior."""
    rule = getattr(rule, "rule", rule)
    return rule.kernel if isinstance(rule, KernelEigenvalues) else None


# ---- Outside -------------------------------------------------------------------------


def continued(
    series: FourierSeries, rule: Any, domain: Array, inside: Array, seen: Array
) -> Any:
    """Series that answers outside of its region as the prior does.

    The region is the domain, under a kernel what the box holds and the surroundings of
    the data up to the middle of the gap, as far as their other end stays three
    lengthscales away across the joint. Arguments as of `box_of`.
    """
    kernel, region = kernel_of(rule), domain.copy()
    if kernel is not None:
        gap = series.box.period - (seen[:, 1] - seen[:, 0])
        scales = longest_length_scales(kernel, len(gap))
        width = domain[:, 1] - domain[:, 0]
        if np.all(
            series.box.period >= width + np.minimum(_PADDING * scales, 0.5 * width)
        ):
            inside = domain
        reach = np.maximum(np.minimum(0.5 * gap, gap - _APART * scales), 0.0)
        around = np.stack((seen[:, 0] - reach, seen[:, 1] + reach), axis=1)
        region = joint_range(inside, around)
    return ContinuedSeries.of(series, region, kernel)


def warn_outside(model: LatentModel, rule: Any, X: Array, seen: Array) -> None:
    """Warn of rows where the functions do not stand for the process but data matter.

    Under a kernel whose correlation has died on the way from the data (d, 2), the prior
    is the answer of the exact process.
    """
    continuation: Any = getattr(model.basis, "continuation", None)
    rows = [] if continuation is None else continuation.outside(X)
    if len(rows) and kernel_of(rule) is not None:
        steps = X[rows] - np.clip(X[rows], *seen.T)
        rows = rows[np.abs(continuation.fading.values(steps)) > _FORGOTTEN]
    if not len(rows):
        return
    low, high = continuation.region.T
    distance = np.maximum(low - X[rows], X[rows] - high)
    j = int(np.argmax(distance.max(axis=0)))
    warn(
        f"{len(rows)} of {len(X)} rows are outside of the domain of the Fourier "
        f"functions (column {j} goes from {low[j]:.6g} to {high[j]:.6g}): they get the "
        "mean and the standard deviation of the prior, more so the farther they are. "
        "Fit with a wider `domain` to extrapolate.",
        PredictionWarning,
    )


# ---- Inputs so far from all others that no box could hold both -----------------------

# Share of the rows on either side of the bulk of an input, fewest rows of which it is
# known, rows that are sorted, widths of it that the range may have, and widths that
# are kept on either side where it has more.
_BULK, _FEWEST, _SCREENED = 0.025, 40, 20_000
_MOST_OF_BULK = {1: 20.0, 2: 5.0, 3: 4.0}
_AROUND = 1.0


def without_input_outliers(rows: Rows) -> tuple[Rows, Finding | None]:
    """Rows whose inputs are not out of all proportion to the bulk of them.

    Functions on a range many times as wide as 95 % of the data cannot resolve them.
    """
    X, d = rows.X, rows.X.shape[1]
    if len(X) < _FEWEST:
        return rows, None
    some = X[:: 1 + len(X) // _SCREENED]
    low, high = np.quantile(some, (_BULK, 1.0 - _BULK), axis=0)
    width, seen = high - low, input_range(X)
    wide = (seen[:, 1] - seen[:, 0] > _MOST_OF_BULK[d] * width) & (width > 0.0)
    if not wide.any():
        return rows, None
    around = np.where(wide, _AROUND * width, np.inf)
    kept = np.all((low - around <= X) & (high + around >= X), axis=1)
    bulk = input_range(X[kept])
    j = int(np.argmax((seen[:, 1] - seen[:, 0]) / np.where(wide, width, np.inf)))
    return rows.take(kept), Finding(
        "input outliers",
        f"{int(np.sum(~kept))} of {len(X)} rows were left out because their inputs are "
        f"far from all others: column {j} goes from {seen[j, 0]:.6g} to "
        f"{seen[j, 1]:.6g}, without them from {bulk[j, 0]:.6g} to {bulk[j, 1]:.6g}. "
        "Fourier functions on the whole range would be too coarse for the others. To "
        "keep all rows, give a `domain` that covers them, or a kernel and "
        'basis="inducing".',
    )
