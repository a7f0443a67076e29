"""Where inputs may lie: the box of the Fourier functions, and rows outside."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skgpx._latent import LatentModel
from skgpx._validation import Rows, warn
from skgpx.bases import BoundedSeries, Box, KernelEigenvalues
from skgpx.exceptions import DataWarning, PredictionWarning
from skgpx.kernels import longest_length_scales

# ---- Where the inputs may lie --------------------------------------------------------


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
    exact process. Inside, those between ends of the data that a series prior joins;
    `noise` is a standard deviation.
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
    counts if, along the line between them, the function moves by more than the standard
    deviation that is predicted. Waves that stand out go on, and are left aside.
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
    farthest = rows[[np.argmax(apart * beyond)]]
    variance = float(model.marginals(X[farthest]).variance.max())
    std = float(np.hypot(np.sqrt(variance), noise))
    missed = apart * beyond > std
    if not missed.any():
        return ""
    return (
        f"{np.sum(missed)} of {len(X)} rows are beyond the data, and the two ends of "
        f"the fitted function differ by {apart.max():.3g}, where the predicted "
        f"standard deviation is {std:.3g}. The prior is periodic and joins the ends: "
        "it continues no trend, and if there is one, intervals beyond the data are too "
        "narrow. Subtract the trend before the fit and add it to the predictions, or "
        "give a `kernel`."
    )


# ---- Inputs so far from all others that no box could hold both -----------------------


# Share of the rows on either side of the bulk of an input, widths of it that the range
# may have by the number of inputs, and widths added on either side where it has more.
_BULK = 0.025
_MOST_WIDTHS = {1: 20.0, 2: 5.0, 3: 4.0}
_AROUND = 1.0
# Rows, and values other than that of nearly all rows, that can have a wild one.
_FEWEST, _FEWEST_OTHERS = 5, 3
# Rows that say whether there may be wild ones, where there are more.
_SCREENED = 20_000


def without_wild_rows(rows: Rows) -> Rows:
    """Rows whose inputs are not out of all proportion to the bulk of them.

    Functions that cover a range many times as wide as 95 % of the data could not
    resolve the data. Rows farther from the bulk than its width are then left out, with
    a warning. Where 95 % of the rows have one value, the other values are the measure.
    """
    X, weights = rows.X, rows.weights
    if not _may_be_wild(X):
        return rows
    limits = np.stack(
        [_limits(X[:, j], weights, X.shape[1]) for j in range(X.shape[1])]
    )
    kept = np.all((limits[:, 0] <= X) & (limits[:, 1] >= X), axis=1)
    if kept.all() or not kept.any():
        return rows
    seen, bulk = input_range(X), input_range(X[kept])
    was, left = seen[:, 1] - seen[:, 0], bulk[:, 1] - bulk[:, 0]
    j = int(np.argmax(was / np.where(left > 0.0, left, np.inf)))
    warn(
        f"{int(np.sum(~kept))} of {len(X)} rows are left out, because their inputs are "
        f"far from all others: column {j} goes from {seen[j, 0]:.6g} to "
        f"{seen[j, 1]:.6g}, without them from {bulk[j, 0]:.6g} to {bulk[j, 1]:.6g}. "
        "Fourier functions on the whole range would be too coarse for the others. To "
        "keep all rows, give a `domain` that covers them, or a kernel and "
        'basis="inducing".',
        DataWarning,
    )
    return rows.take(kept)


def _may_be_wild(X: Array) -> bool:
    """Whether some rows make it worth sorting all of them."""
    if len(X) <= _SCREENED:
        return True
    some = X[:: len(X) // _SCREENED]
    low, high = np.quantile(some, (_BULK, 1.0 - _BULK), axis=0)
    whole = input_range(X)
    # the quantiles of some rows are not those of all
    most = 0.5 * _MOST_WIDTHS[X.shape[1]]
    return bool(np.any(whole[:, 1] - whole[:, 0] > most * (high - low)))


def _limits(x: Array, weights: Array, d: int) -> tuple[float, float]:
    """Interval to which one input is kept."""
    order = np.argsort(x, kind="stable")
    share = np.cumsum(weights[order]) / weights.sum()
    # repetitions written as weights are as many rows
    n = max(float(weights.sum()), float(len(x)))
    if n < _FEWEST:
        return -np.inf, np.inf
    # the bulk is without the first and the last row, however few there are
    end = max(_BULK, (1.0 + 1e-9) / n)
    low, high = x[order[np.searchsorted(share, (end, 1.0 - end))]]
    around, most = _AROUND * (high - low), _most_widths(n, d) * (high - low)
    if not high > low:
        values = np.unique(x)
        spread = _spread(values, low)
        around, most = (1.0 + _AROUND) * spread, _most_widths(len(values), d) * spread
    if around == 0.0 or x[order[-1]] - x[order[0]] <= most:
        return -np.inf, np.inf
    return low - around, high + around


def _most_widths(n: float, d: int) -> float:
    """Widths of the bulk that the range may have; more where few rows know the bulk.

    The inner ones of n < 40 rows are close together by chance: those of five uniform
    rows within a part ε of the range with the probability 3 ε². With more inputs, and
    fewer widths, there are more such chances.
    """
    fewer = max(1.0, 1.0 / (_BULK * n))
    return _MOST_WIDTHS[d] * fewer ** (2 if d == 1 else 3)


def _spread(values: Array, constant: float) -> float:
    """Distance from a value that nearly all rows have that is usual among the others.

    The largest but one, but two if there may be a wild one on either side; zero if
    there are too few values to say.
    """
    distances = np.sort(np.abs(values[values != constant] - constant))
    if len(distances) < _FEWEST_OTHERS:
        return 0.0
    return float(distances[-3 if len(distances) > _FEWEST_OTHERS + 1 else -2])
