"""Sums over rows of regression on Fourier functions."""

from __future__ import annotations

import operator
from dataclasses import dataclass

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
from skgpx._parallel import parallel_sum
from skgpx._validation import Rows
from skgpx.bases import Box

Array = NDArray[np.float64]

# Rows in one sum: fixed, so that sums do not depend on the number of workers.
_CHUNK = 1 << 18


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
    how = domain, box, shift, reach
    if len(chunks) == 1:
        return _chunk_sums(*how, rows)
    items = ((rows.take(c),) for c in chunks)
    return parallel_sum(_chunk_sums, items, operator.add, n_jobs, *how)


def _chunk_sums(
    domain: Array, box: Box, shift: float, reach: NDArray[np.int64], rows: Rows
) -> SeriesStatistics:
    X, y, weights = rows.X, rows.y, rows.precisions
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

    @classmethod
    def of(cls, statistics: SeriesStatistics, normalize_y: bool) -> StandardSums:
        """Centre y, and scale it unless it is constant."""
        s = statistics
        if not normalize_y:
            return cls(s.moved(0.0), 1.0)
        is_centred = s.total**2 <= 1e-24 * s.square * s.weight
        centred = s if is_centred else s.moved(s.shift + s.total / s.weight)
        std = float(np.sqrt(max(centred.square, 0.0) / centred.weight))
        varies = std > 1e-14 * abs(centred.shift) and std > 0.0
        return cls(centred, std if varies else 1.0)

    @property
    def shift(self) -> float:
        """Subtracted from y."""
        return self.statistics.shift

    @property
    def varies(self) -> bool:
        """Whether y is not one number, to rounding."""
        s = self.statistics
        rest = s.square - s.total**2 / s.weight
        return bool(rest > 1e-14 * s.square + 1e-24 * s.shift**2 * s.weight)

    @property
    def variance(self) -> float:
        """Variance of the standardised y: 1, unless y is constant or not scaled."""
        return self.statistics.square / self.statistics.weight / self.scale**2 or 1.0

    def equations(self, functions: FourierIndex) -> NormalEquations:
        """Sums for these functions, of ``(y - shift) / scale``."""
        raw = self.statistics.normal_equations(functions)
        return raw._replace(
            moment=raw.moment / self.scale, square=raw.square / self.scale**2
        )
