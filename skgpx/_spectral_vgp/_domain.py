"""Where inputs may lie: the box of the Fourier functions, and rows outside."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from skgpx._validation import Rows, warn
from skgpx.bases import (
    BoostedEigenvalues,
    Box,
    ContinuedSeries,
    FourierSeries,
    KernelEigenvalues,
)
from skgpx.diagnostics import Finding, input_outliers
from skgpx.exceptions import PredictionWarning
from skgpx.kernels import expand, longest_length_scales

Array = NDArray[np.float64]


def input_range(X: Array) -> Array:
    """Smallest and largest value of each column, shape (d, 2)."""
    return np.stack((X.min(axis=0), X.max(axis=0)), axis=1)


def data_domain(X: Array) -> Array:
    """Range of the data and a quarter of it on either side, (d, 2)."""
    low, high = X.min(axis=0), X.max(axis=0)
    width = high - low
    # a constant column needs some lengthscales of room, too
    rounding = 1e-12 * np.maximum(np.abs(low), np.abs(high))
    width = np.where(width > rounding, width, np.maximum(20.0, 1e3 * rounding))
    return np.stack((low - 0.25 * width, high + 0.25 * width), axis=1)


# ---- The box -------------------------------------------------------------------------


def box_of(domain: Array, inside: Array, seen: Array, kernel: Any, learns: bool) -> Box:
    """Box whose joint does not connect the ends of what it holds under a kernel.

    A series prior is periodic on purpose: its box is the domain. That of a kernel has
    four lengthscales more than what it must hold, and eight (with three inputs, four)
    more than the data, so that the kernel can be followed beyond them. While it is
    learned there is less room in several dimensions, where width is expensive, and for
    kernels with a part of order 1/2, whose memory ends at the next rows but whose short
    waves matter.

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
    d, most = len(width), 50.0
    scales = longest_length_scales(kernel, d)
    wanted = width + 4.0 * scales
    if d == 1 or not learns:
        gap = 8.0 if d < 3 else 4.0
        wanted = np.maximum(wanted, seen[:, 1] - seen[:, 0] + gap * scales)
    if learns:
        parts = (part for term in expand(kernel) for part in term.factors)
        rough = any(getattr(part, "nu", np.inf) <= 0.5 for part in parts)
        most = 2.3 if rough and d == 1 else {1: 50.0, 2: 2.0, 3: 1.5}[d]
    return Box(domain[:, 0].copy(), np.minimum(wanted, most * width))


def kernel_of(rule: Any) -> Any:
    """Kernel that an eigenvalue rule stands for; None for a series prior.

    A kernel whose waves a user has raised is a series: its box is the domain.
    """
    rule = getattr(rule, "rule", rule)
    return rule.kernel if isinstance(rule, KernelEigenvalues) else None


def innermost_kernel(rule: Any) -> Any:
    """Kernel that has the hyperparameters of a rule; None for other rules."""
    if isinstance(rule, BoostedEigenvalues):
        return innermost_kernel(rule.rule)
    return rule.kernel if isinstance(rule, KernelEigenvalues) else None


# ---- Outside -------------------------------------------------------------------------


def continued(
    series: FourierSeries,
    kernel: Any,
    domain: Array,
    inside: Array,
    seen: Array,
) -> ContinuedSeries:
    """Series that answers outside of its region as the prior does.

    The region is the domain, under a kernel what the box holds and the surroundings of
    the data up to the middle of the gap, as far as their other end stays three
    lengthscales away across the joint. Arguments as of `box_of`.
    """
    if kernel is None:
        return ContinuedSeries.of(series, domain.copy())
    period, width = series.box.period, domain[:, 1] - domain[:, 0]
    scales = longest_length_scales(kernel, len(width))
    if np.all(period >= width + np.minimum(4.0 * scales, 0.5 * width)):
        inside = domain
    gap = period - (seen[:, 1] - seen[:, 0])
    reach = np.maximum(np.minimum(0.5 * gap, gap - 3.0 * scales), 0.0)
    around = np.stack((seen[:, 0] - reach, seen[:, 1] + reach), axis=1)
    return ContinuedSeries.of(
        series,
        input_range(np.hstack((inside, around)).T),
        kernel,
    )


def warn_outside(basis: ContinuedSeries, kernel: Any, X: Array, seen: Array) -> None:
    """Warn of rows where the functions do not stand for the process but data matter.

    Under a kernel whose correlation has died on the way from the data (d, 2), the prior
    is the answer of the exact process.
    """
    rows = basis.continuation.outside(X)
    if kernel is not None:
        steps = X[rows] - np.clip(X[rows], *seen.T)
        rows = rows[np.abs(basis.continuation.correlations(steps)) > 0.05]
    if not len(rows):
        return
    low, high = basis.continuation.region.T
    j = int(np.argmax(np.maximum(low - X[rows], X[rows] - high).max(axis=0)))
    warn(
        f"{len(rows)} of {len(X)} rows are outside of the domain of the Fourier "
        f"functions (column {j} goes from {low[j]:.6g} to {high[j]:.6g}): with "
        "their distance, predictions approach the mean and standard deviation of the "
        "prior. Fit with a wider `domain` to extrapolate.",
        PredictionWarning,
    )


# ---- Inputs so far from all others that no box could hold both -----------------------


def without_input_outliers(rows: Rows) -> tuple[Rows, Finding | None]:
    """Rows whose inputs are not out of all proportion to the bulk of them.

    Functions on a range many times as wide as 95 % of the data cannot resolve them: so
    much of it is kept as is as wide again on either side.
    """
    X, d = rows.X, rows.X.shape[1]
    low, high = np.quantile(X[:: 1 + len(X) // 20_000], (0.025, 0.975), axis=0)
    width, seen = high - low, input_range(X)
    most = {1: 20.0, 2: 5.0, 3: 4.0}[d] * width
    wide = (seen[:, 1] - seen[:, 0] > most) & (width > 0.0)
    if len(X) < 40 or not wide.any():
        return rows, None
    around = np.where(wide, width, np.inf)
    kept = np.all((low - around <= X) & (high + around >= X), axis=1)
    j = int(np.argmax((seen[:, 1] - seen[:, 0]) / np.where(wide, width, np.inf)))
    return rows.take(kept), input_outliers(X, kept, j)
