"""Sums over rows that see slopes of f, means over boxes and differences."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from skgpx._numerics.fourier import Box, FourierIndex, Integers
from skgpx._numerics.regression import WeightStatistics
from skgpx._shell.row_statistics import row_statistics
from skgpx._shell.validation import Rows
from skgpx._types import Array
from skgpx.bases import FunctionalSeries, functional_waves
from skgpx.bases._eigenvalues import EigenvalueRule
from skgpx.kernels import VALUE, FunctionalRows, Functionals

# Kinds of rows, by widths and columns of slopes, of which functions are asked.
_MOST_KINDS = 200


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
    variance : float
        Prior variance of f to expect, in squared units of `scale`.
    n_jobs : int or None
    """

    rows: Rows
    seen: Functionals
    box: Box
    shift: float
    scale: float
    variance: float
    n_jobs: int | None

    @cached_property
    def weight(self) -> float:
        """``Σ w``."""
        return float(np.sum(self.rows.precisions))

    @property
    def square(self) -> float:
        """``Σ w f²`` to expect of values, in squared units of y."""
        return self.weight * self.variance * self.scale**2

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
        m = len(index)
        return row_statistics(
            FunctionalSeries(self.box, index, np.ones(m), m),
            self.rows,
            self.n_jobs,
        )

    def powers(self, index: FourierIndex, box: Box) -> Array:
        """Mean squares of what rows see of functions, (m,), over all places."""
        kinds, weights = self._kinds
        features, columns = functional_waves(box, index)
        cosine, sine = np.hsplit(features(kinds) ** 2, 2)
        power = weights @ (cosine + sine)
        return np.tile(power, 2)[columns]

    def with_variance(
        self,
        rules: tuple[EigenvalueRule, ...],
    ) -> tuple[EigenvalueRule, ...]:
        """The default families; beside slopes without that of order 1/2, the last."""
        kinds, _ = self._kinds
        has_slopes = np.any(self.seen.rows(kinds).derivative != VALUE)
        return rules[:-1] if has_slopes else rules

    @cached_property
    def _kinds(self) -> tuple[Array, Array]:
        """Rows that differ by more than their place, and the weight of each."""
        rows = self.seen.rows(self.rows.X)
        zeros = np.zeros((len(rows.X), rows.X.shape[1]))
        no_difference = np.zeros(len(rows.X), dtype=bool)
        at_zero = FunctionalRows(
            zeros, rows.widths, zeros, rows.derivative, no_difference
        )
        kinds, place = np.unique(at_zero.as_array(), axis=0, return_inverse=True)
        # f(x) - f(z) has twice the variance of either, on average over x and z
        precisions = self.rows.precisions * (1.0 + rows.is_difference)
        weights = np.bincount(np.ravel(place), precisions) / self.weight
        step = -(-len(kinds) // _MOST_KINDS)
        return kinds[::step], weights[::step] * np.sum(weights) / weights[::step].sum()
