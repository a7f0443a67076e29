"""Sums over rows, from which a fit on Fourier functions follows."""

from __future__ import annotations

import operator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics.fourier_index import Box, FourierIndex, Integers
from skgpx._numerics.fourier_sketch import n_bins
from skgpx._numerics.fourier_sums import (
    SeriesStatistics,
    direct_statistics,
    sketched_statistics,
)
from skgpx._numerics.regression import WeightStatistics
from skgpx._parallel import parallel_sum
from skgpx._spectral_vgp._domain import box_of
from skgpx._validation import Rows

Array = NDArray[np.float64]

# Rows in one sum: fixed, so that sums do not depend on the number of workers.
_CHUNK = 1 << 18
# Waves of one input that sums over its domain can hold, at most.
MOST_WAVES = 1638


def row_sums(
    rows: Rows,
    domain: Array,
    box: Box,
    reach: Integers,
    n_jobs: int | None,
    shift: float | None = None,
) -> SeriesStatistics:
    """Sums over rows, in chunks that do not depend on the number of workers.

    Parameters
    ----------
    rows : Rows
    domain : ndarray of shape (d, 2)
    box : Box
        With one input, sums for boxes of any other period follow from these.
    reach : ndarray of shape (d,)
        Largest wave numbers; with one input those of waves whose period is the domain.
    n_jobs : int or None
    shift : float, optional
        Subtracted from y; None is the mean, so that an offset costs no digits.

    Raises
    ------
    ValueError
        If a row is outside the domain.
    """
    if shift is None:
        shift = float(rows.weights @ rows.y / rows.weights.sum())
    chunks = [slice(i, i + _CHUNK) for i in range(0, len(rows.y), _CHUNK)]
    how = domain, box, reach, shift
    if len(chunks) == 1:
        return _chunk_sums(*how, rows)
    items = ((rows.take(c),) for c in chunks)
    return parallel_sum(_chunk_sums, items, operator.add, n_jobs, *how)


def _chunk_sums(
    domain: Array, box: Box, reach: Integers, shift: float, rows: Rows
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
    if len(reach) > 1:
        return direct_statistics(X, y, weights, box, shift, reach)
    whole = Box(domain[:, 0].copy(), domain[:, 1] - domain[:, 0])
    sums = sketched_statistics(X, y, weights, whole, shift, n_bins(2 * int(reach[0])))
    return sums.on(float(box.period[0]))


@dataclass(frozen=True)
class StandardSums:
    """Sums over rows of the standardised y, for waves of any box they can serve.

    Attributes
    ----------
    statistics : SeriesStatistics
        Of ``y - shift``.
    scale : float
        Standard deviation of y, or 1.
    rows : Rows or None
        With several inputs, the rows of the sums, if they can be read again.
    domain, inside, seen : ndarray of shape (d, 2)
        Where rows may lie, where functions must stand for the process, and the range
        of the rows.
    """

    statistics: SeriesStatistics
    scale: float
    rows: Rows | None
    domain: Array
    inside: Array
    seen: Array

    @classmethod
    def of(
        cls,
        statistics: SeriesStatistics,
        normalize_y: bool,
        domain: Array,
        inside: Array,
        seen: Array,
        rows: Rows | None = None,
    ) -> StandardSums:
        """Centre y, and scale it unless it is constant."""
        s, scale = statistics, 1.0
        if not normalize_y:
            return cls(s.moved(0.0), scale, rows, domain, inside, seen)
        if s.total**2 > 1e-24 * s.square * s.weight:
            s = s.moved(s.shift + s.total / s.weight)
        std = float(np.sqrt(max(s.square, 0.0) / s.weight))
        if std > 1e-14 * abs(s.shift):
            scale = std
        return cls(s, scale, rows, domain, inside, seen)

    def on(self, box: Box, reach: Integers) -> StandardSums:
        """Sums for the waves of a box, where these can be had."""
        s = self.statistics
        if len(reach) == 1:
            return replace(self, statistics=s.on(float(box.period[0])))
        same = np.array_equal(box.period, s.box.period)
        if self.rows is None or (same and np.all(reach <= s.reach())):
            return self
        new = row_sums(self.rows, self.domain, box, reach, None, s.shift)
        return replace(self, statistics=new)

    @property
    def box(self) -> Box:
        """Box of the functions."""
        return self.statistics.box

    def box_for(self, kernel: Any, learns: bool) -> Box:
        """Box that a kernel wants; None is a series prior."""
        return box_of(self.domain, self.inside, self.seen, kernel, learns)

    @property
    def weight(self) -> float:
        """``Σ w``."""
        return self.statistics.weight

    @property
    def variance(self) -> float:
        """Variance of the standardised y: 1, unless y is constant or not scaled."""
        return self.statistics.square / self.weight / self.scale**2

    @property
    def density(self) -> float:
        """Volume of the box in units of that of the data, a tenth of the domain's."""
        width = self.domain[:, 1] - self.domain[:, 0]
        filled = np.maximum(self.seen[:, 1] - self.seen[:, 0], 0.1 * width)
        return float(np.prod(self.box.period / filled))

    def first(self, rule: Any, size: int) -> FourierIndex:
        """First functions of a rule of those that were summed, in whole pairs."""
        index = rule.index(self.box, size + 1 - size % 2)
        held = np.all(np.abs(index.waves) <= self.statistics.reach(), axis=1)
        return index if held.all() else index.part(np.flatnonzero(held))

    def equations(self, functions: FourierIndex) -> WeightStatistics:
        """Sums for these functions, of ``(y - shift) / scale``."""
        raw = self.statistics.normal_equations(functions)
        return raw._replace(
            moment=raw.moment / self.scale, square=raw.square / self.scale**2
        )
