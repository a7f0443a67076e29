"""Sums over rows that see slopes of f, means over boxes and differences."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from skgpx._numerics.fourier import Box, FourierIndex, Integers
from skgpx._numerics.regression import WeightStatistics
from skgpx._numerics.rows import sample_distinct_rows
from skgpx._shell.row_statistics import row_statistics
from skgpx._shell.validation import Rows
from skgpx._types import Array
from skgpx.bases import FunctionalSeries
from skgpx.kernels import Functionals

# Rows that stand for all in what they see of functions.
_FEW_ROWS = 200


@dataclass(frozen=True)
class FunctionalSums:
    """Rows of functionals, whose sums for functions are taken when these are known.

    Takes the place of `SeriesStatistics` for any box and any functions.

    Attributes
    ----------
    rows : Rows
        Of functionals, with the standardised y.
    seen : Functionals
        Which reads these rows.
    box : Box
    shift, scale : float
        Level and unit of y.
    n_jobs : int or None
    """

    rows: Rows
    seen: Functionals
    box: Box
    shift: float
    scale: float
    n_jobs: int | None

    @property
    def weight(self) -> float:
        """``Σ w``."""
        return float(np.sum(self.rows.precisions))

    @property
    def square(self) -> float:
        """``Σ w (y - shift)²``."""
        return float(self.rows.precisions @ self.rows.y**2) * self.scale**2

    def moved(self, shift: float) -> FunctionalSums:
        """These sums: y keeps its level."""
        del shift
        return self

    def on(self, box: Box) -> FunctionalSums:
        """Sums on another box."""
        return replace(self, box=box)

    def reach(self) -> Integers:
        """Largest wave numbers, (d,): there is no limit."""
        return np.full(len(self.box.period), np.iinfo(np.int64).max)

    def normal_equations(self, index: FourierIndex, scale: float) -> WeightStatistics:
        """Sums for these functions, not whitened, of the standardised y.

        One pass over the rows, in blocks; O(n m^2).
        """
        del scale
        basis = FunctionalSeries(self.box, index, np.ones(len(index)), len(index))
        return row_statistics(basis, self.rows, self.n_jobs)

    def powers(self, index: FourierIndex, box: Box) -> Array:
        """Mean squares of what some rows see of functions, (m,)."""
        basis = FunctionalSeries(box, index, np.ones(len(index)), len(index))
        squares = basis(self._few_rows.X) ** 2
        return np.average(squares, axis=0, weights=self._few_rows.precisions)

    @cached_property
    def _few_rows(self) -> Rows:
        """Rows that do not depend on the order of all."""
        rows = self.rows
        chosen = sample_distinct_rows(rows.X, rows.y, _FEW_ROWS, salt=0)
        return rows if chosen is None else rows.take(chosen)
