"""Domain, box and sums over rows of regression on Fourier functions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics.fourier_index import FourierIndex
from skgpx._numerics.fourier_sketch import n_bins
from skgpx._numerics.series_statistics import (
    NormalEquations,
    SeriesStatistics,
    direct_statistics,
    sketched_statistics,
)
from skgpx._parallel import parallel_map
from skgpx._validation import Rows
from skgpx.bases import (
    Box,
    KernelEigenvalues,
)
from skgpx.kernels import length_scales

Array = NDArray[np.float64]

# Rows in one sum: fixed, so that sums do not depend on the number of workers.
_CHUNK = 1 << 18
# Part of the range added on either side of the data where no domain is given.
_MARGIN = 0.25
# Lengthscales between the ends of the domain across the joint of the box.
_PADDING = 4.0
# The same in widths of the domain, at most.
_MOST_PADDING = {1: 50.0, 2: 1.0, 3: 0.5}


def data_domain(X: Array) -> Array:
    """Range of the data and a quarter of it on either side, (d, 2)."""
    low, high = X.min(axis=0), X.max(axis=0)
    width = high - low
    # a constant column needs some room, too
    rounding = 1e-12 * np.maximum(np.abs(low), np.abs(high))
    width = np.where(width > rounding, width, np.maximum(1.0, 1e3 * rounding))
    return np.stack((low - _MARGIN * width, high + _MARGIN * width), axis=1)


def box_of(domain: Array, rule: Any, learns: bool) -> Box:
    """Box whose joint does not connect the ends of the domain under a kernel.

    A series prior is periodic on purpose: its box is the domain. If the kernel is
    learned, for the periodic process, its box is not much wider than the domain in
    several dimensions, where width is expensive.
    """
    width = domain[:, 1] - domain[:, 0]
    kernel = kernel_of(rule)
    if kernel is None:
        return Box(domain[:, 0].copy(), width)
    padding = _PADDING * _longest_scales(kernel, len(width))
    most = _MOST_PADDING[len(width)] if learns else _MOST_PADDING[1]
    return Box(domain[:, 0].copy(), width + np.minimum(padding, most * width))


def kernel_of(rule: Any) -> Any:
    return rule.kernel if isinstance(rule, KernelEigenvalues) else None


def _longest_scales(kernel: Any, d: int) -> Array:
    """Largest lengthscale of each input over the parts of a kernel."""
    parts = [kernel]
    longest = np.zeros(d)
    while parts:
        part = parts.pop()
        if hasattr(part, "k1"):
            parts += [part.k1, part.k2]
        elif hasattr(part, "length_scale"):
            longest = np.maximum(longest, length_scales(part, d))
    return longest


def row_sums(
    rows: Rows,
    domain: Array,
    box: Box,
    shift: float,
    reach: NDArray[np.int64],
    n_jobs: int | None,
) -> SeriesStatistics:
    """Sums over rows, in chunks that do not depend on the number of workers.

    Raises
    ------
    ValueError
        If a row is outside the domain.
    """
    chunks = [slice(i, i + _CHUNK) for i in range(0, len(rows.y), _CHUNK)]
    items = ((*(v[c] for v in rows), domain, box, shift, reach) for c in chunks)
    if len(chunks) == 1:
        return _chunk_sums(*next(items))
    parts = parallel_map(_chunk_sums, items, n_jobs)
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def _chunk_sums(
    X: Array,
    y: Array,
    weights: Array,
    domain: Array,
    box: Box,
    shift: float,
    reach: NDArray[np.int64],
) -> SeriesStatistics:
    low, high = X.min(axis=0), X.max(axis=0)
    if np.any(low < domain[:, 0]) or np.any(high > domain[:, 1]):
        j = int(np.argmax((low < domain[:, 0]) | (high > domain[:, 1])))
        raise ValueError(
            f"Inputs must lie within the domain {domain.tolist()}; got column {j} "
            f"between {low[j]:g} and {high[j]:g}. Give a `domain` that covers all "
            "rows before the first ones are seen."
        )
    if len(reach) == 1:
        return sketched_statistics(X, y, weights, box, shift, n_bins(int(reach[0])))
    return direct_statistics(X, y, weights, box, shift, reach)


@dataclass(frozen=True)
class StandardSums:
    """Sums over rows of the standardised y.

    Attributes
    ----------
    statistics : SeriesStatistics
        Of ``y - shift``.
    scale : float
        Standard deviation of y, or 1.
    """

    statistics: SeriesStatistics
    scale: float

    def equations(self, functions: FourierIndex) -> NormalEquations:
        """Sums for these functions, of ``(y - shift) / scale``."""
        raw = self.statistics.normal_equations(functions)
        return raw._replace(
            moment=raw.moment / self.scale,
            total=raw.total / self.scale,
            square=raw.square / self.scale**2,
        )
