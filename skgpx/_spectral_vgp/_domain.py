"""Where the inputs may lie, the box of the Fourier functions, and what is outside."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skgpx._latent import LatentModel
from skgpx._validation import warn
from skgpx.bases import BoundedSeries, Box, KernelEigenvalues
from skgpx.exceptions import PredictionWarning
from skgpx.kernels import longest_length_scales

Array = NDArray[np.float64]

# Part of the range added on either side of the data where no domain is given.
_MARGIN = 0.25
# Lengthscales between the ends of the domain across the joint of the box.
_PADDING = 4.0
# Lengthscales between the ends of the data, so that a kernel can be followed beyond
# them: up to half of the gap, as long as the other end is some lengthscales away. Fewer
# in several dimensions, where room costs functions: in two if the data are many
# lengthscales wide, always in three.
_GAP, _NARROW_GAP, _LEAST_GAP = 8.0, 6.0, 4.0
_APART = 3.0
# Room for both in widths of the domain, at most.
_MOST_PADDING = {1: 50.0, 2: 1.0, 3: 0.5}
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
    # a constant column needs some room, too
    rounding = 1e-12 * np.maximum(np.abs(low), np.abs(high))
    width = np.where(width > rounding, width, np.maximum(1.0, 1e3 * rounding))
    return np.stack((low - _MARGIN * width, high + _MARGIN * width), axis=1)


# ---- The box -------------------------------------------------------------------------


def box_of(domain: Array, rule: Any, learns: bool, has_margin: bool = False) -> Box:
    """Box whose joint does not connect the ends of the domain under a kernel.

    A series prior is periodic on purpose: its box is the domain. That of a kernel has
    room beyond the data for what the kernel says there; but in several dimensions,
    where width is expensive, less of it while the kernel is learned.

    Parameters
    ----------
    domain : ndarray of shape (d, 2)
    rule : EigenvalueRule
    learns : bool
        Whether the parameters of the rule are searched for.
    has_margin : bool, default=False
        Whether the domain has the margin of `data_domain`, which is room as well.
    """
    width = domain[:, 1] - domain[:, 0]
    kernel = kernel_of(rule)
    if kernel is None:
        return Box(domain[:, 0].copy(), width)
    d = len(width)
    scales = longest_length_scales(kernel, d)
    wanted = width + _PADDING * scales
    if learns and d > 1:
        wanted = np.minimum(wanted, (1.0 + _MOST_PADDING[d]) * width)
    else:
        data = width / (1.0 + 2.0 * _MARGIN) if has_margin else width
        wanted = np.maximum(wanted, data + _gap(scales / data) * scales)
    period = np.minimum(wanted, (1.0 + _MOST_PADDING[1]) * width)
    return Box(domain[:, 0].copy(), period)


def _gap(scales: Array) -> Array:
    """Lengthscales between the ends of data that are one wide, across the joint."""
    if len(scales) != 2:
        return np.full(len(scales), _GAP if len(scales) == 1 else _LEAST_GAP)
    gap: Array = _NARROW_GAP + (_GAP - _NARROW_GAP) * np.clip(1.5 * scales - 0.5, 0, 1)
    return gap


def kernel_of(rule: Any) -> Any:
    """Kernel of an eigenvalue rule; None for a series prior."""
    return rule.kernel if isinstance(rule, KernelEigenvalues) else None


# ---- Outside -------------------------------------------------------------------------


def continued(model: LatentModel, rule: Any, domain: Array, seen: Array) -> LatentModel:
    """Model that answers outside of its domain as the prior does.

    Parameters
    ----------
    model : LatentModel
        On a `BoundedSeries`.
    rule : EigenvalueRule
        Its prior.
    domain : ndarray of shape (d, 2)
    seen : ndarray of shape (d, 2)
        Range of the data.
    """
    series: BoundedSeries = model.basis
    kernel = kernel_of(rule)
    region = followed(series.box, kernel, domain, seen)
    return replace(model, basis=series.continued(region, kernel))


def followed(box: Box, kernel: Any, domain: Array, seen: Array) -> Array:
    """Where the functions of the box stand for the process, (d, 2).

    That is the domain, and around the data up to the middle of the gap, as far as their
    other end stays three lengthscales away across the joint.
    """
    if kernel is None:
        return domain.copy()
    gap = box.period - (seen[:, 1] - seen[:, 0])
    scales = longest_length_scales(kernel, len(gap))
    reach = np.maximum(np.minimum(0.5 * gap, gap - _APART * scales), 0.0)
    around = np.stack((seen[:, 0] - reach, seen[:, 1] + reach), axis=1)
    return joint_range(domain, around)


def warn_outside(
    model: LatentModel, rule: Any, X: Array, seen: Array, noise: float
) -> None:
    """One warning of rows at which the functions do not stand for the process.

    Outside of the region these are rows where the data have a say: under a kernel whose
    correlation has died on the way from the data (d, 2), the prior is the answer of the
    exact process. Inside, those between ends of the data that a series prior joins,
    beside noise of a standard deviation.
    """
    said = _outside(model, rule, X, seen)
    if kernel_of(rule) is None:
        said += _between_ends(model, X, seen, noise)
    if said:
        warn(said.strip(), PredictionWarning)


def _outside(model: LatentModel, rule: Any, X: Array, seen: Array) -> str:
    continuation = getattr(model.basis, "continuation", None)
    rows = [] if continuation is None else continuation.outside(X)
    if len(rows) and kernel_of(rule) is not None:
        steps = X[rows] - np.clip(X[rows], *seen.T)
        rows = rows[np.abs(continuation.fading.values(steps)) > _FORGOTTEN]
    if not len(rows):
        return ""
    low, high = continuation.region.T
    distance = np.maximum(low - X[rows], X[rows] - high)
    j = int(np.argmax(distance.max(axis=0)))
    return (
        f"{len(rows)} of {len(X)} rows are outside of the domain of the Fourier "
        f"functions (column {j} goes from {low[j]:.6g} to {high[j]:.6g}): they get the "
        "mean and the standard deviation of the prior, more so the farther they are. "
        "Fit with a wider `domain`, or with a kernel or basis='inducing' to "
        "extrapolate. "
    )


def _between_ends(model: LatentModel, X: Array, seen: Array, noise: float) -> str:
    """What is said of rows on the way from one end of the data to the other.

    A periodic prior joins the ends, and continues no trend from one to the other. A row
    counts if, along the line between them, it is more than the noise beyond the data.
    Waves that stand out go on, and are left aside.
    """
    low, high = seen.T
    steps = X - np.clip(X, low, high)
    rows, basis = np.flatnonzero(steps.any(axis=1)), model.basis
    if not len(rows):
        return ""
    ends = np.clip(X[rows], low, high)
    others = np.where(steps[rows] == 0.0, ends, low + high - ends)
    goes_on = (basis.index.ranks == 1.0) & basis.index.waves.any(axis=1)
    weights = np.where(goes_on, 0.0, model.scale * model.law.mean[:, 0])
    rest = basis.linear(weights[:, np.newaxis, np.newaxis])
    apart = np.abs(rest(others) - rest(ends))[:, 0]
    width = np.where(high > low, high - low, basis.box.period)
    beyond = np.minimum(np.max(np.abs(steps[rows]) / width, axis=1), 1.0)
    told = apart * beyond > noise
    if not told.any():
        return ""
    return (
        f"{np.sum(told)} of {len(X)} rows are beyond the data, and the two ends of the "
        f"fitted function differ by {apart[told].max():.3g}, the standard deviation of "
        f"the noise is {noise:.3g}. The prior is periodic and joins the ends: it "
        "continues no trend, and where there is one intervals beyond the data are too "
        "narrow. Subtract the trend before the fit and add it to the predictions, or "
        "give a `kernel`."
    )
