"""What regression on Fourier functions needs of the data: sums of waves over rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics.fourier_gram import WaveTable, gram, moment
from skgpx._numerics.fourier_index import Box, FourierIndex, Integers
from skgpx._numerics.fourier_sketch import BinMoments, bin_moments
from skgpx._numerics.regression import WeightStatistics
from skgpx._numerics.wave_tables import angle_tables, from_real, row_products

Array = NDArray[np.float64]


class FourierSums(NamedTuple):
    """Sums of waves times weights, and times weights and y.

    Attributes
    ----------
    sums : WaveTable
        ``Σ w exp(2πi q·t)`` with ``|q_i| <= 2 K_i``.
    moments : WaveTable
        ``Σ w y exp(2πi q·t)`` with ``|q_i| <= K_i``.
    """

    sums: WaveTable
    moments: WaveTable

    @property
    def reach(self) -> Integers:
        """Largest wave number of functions, shape (d,)."""
        return self.moments.reach

    def tables(self, reach: Integers) -> FourierSums:
        """The sums themselves."""
        del reach
        return self

    def add(self, other: FourierSums) -> FourierSums:
        """Sums over both sets of rows."""
        return FourierSums(
            WaveTable(self.sums.values + other.sums.values),
            WaveTable(self.moments.values + other.moments.values),
        )

    def less(self, shift: float) -> FourierSums:
        """Sums with a constant subtracted from y."""
        inner = tuple(slice(r, 3 * r + 1) for r in self.moments.reach)
        moments = self.moments.values - shift * self.sums.values[inner]
        return FourierSums(self.sums, WaveTable(moments))


def fourier_sums(
    turns: Array, y: Array, weights: Array, reach: Integers
) -> FourierSums:
    """Sums over one block of rows.

    Parameters
    ----------
    turns : ndarray of shape (n, d)
        Angles.
    y, weights : ndarray of shape (n,)
    reach : ndarray of shape (d,)
        Largest wave number ``K_i`` of the functions, for each input.

    Notes
    -----
    Waves of several inputs are products: one matrix product of the tables of the
    first inputs with that of the last, ``Π (4 K_i + 2)`` multiplications a row.
    """
    short, long = [int(r) for r in reach], [2 * int(r) for r in reach]
    sums, moments = (
        np.zeros((int(np.prod([2 * r + 2 for r in k[:-1]])), 2 * k[-1] + 2))
        for k in (long, short)
    )
    weighted = weights * y
    for rows, tables in angle_tables(turns, long):
        size = rows.stop - rows.start
        tables = [table[:, :, :size] for table in tables]
        sums += _products(tables, weights[rows])
        halves = [table[:, : r + 1] for table, r in zip(tables, short, strict=True)]
        moments += _products(halves, weighted[rows])
    return FourierSums(
        WaveTable(from_real(sums, long)), WaveTable(from_real(moments, short))
    )


def _products(tables: list[Array], weights: Array) -> Array:
    """``Σ w`` of the products of one row of each table, the last in columns."""
    flat = [table.reshape(-1, table.shape[-1]) for table in tables]
    if len(flat) == 1:
        return (flat[0] @ weights)[np.newaxis]
    product: Array = row_products(flat[:-1]) @ (flat[-1] * weights).T
    return product


@dataclass(frozen=True)
class SeriesStatistics:
    """Sums over rows; those of disjoint sets of rows add with ``+``.

    Attributes
    ----------
    box : Box
        Where the functions live; the same for all summands.
    shift : float
        Subtracted from y, best near its mean; a sum takes that of its first summand.
    sums : BinMoments or FourierSums
        In one dimension bin moments, of which every wave up to a fifth of the number
        of bins can be had; in more, sums of fixed waves.
    weight, total, square : float
        ``Σ w``, ``Σ w (y - shift)`` and ``Σ w (y - shift)²``.
    """

    box: Box
    shift: float
    sums: BinMoments | FourierSums
    weight: float
    total: float
    square: float

    def __add__(self, other: SeriesStatistics) -> SeriesStatistics:
        """Statistics of both sets of rows; boxes and shapes agree (not checked)."""
        other = other.moved(self.shift)
        return replace(
            self,
            sums=self.sums.add(other.sums),  # type: ignore[arg-type]
            weight=self.weight + other.weight,
            total=self.total + other.total,
            square=self.square + other.square,
        )

    def moved(self, shift: float) -> SeriesStatistics:
        """The same rows with another constant subtracted from y."""
        by = shift - self.shift
        if by == 0.0:
            return self
        square = self.square - 2.0 * by * self.total + by**2 * self.weight
        return replace(
            self,
            shift=shift,
            sums=self.sums.less(by),
            total=self.total - by * self.weight,
            square=max(square, 0.0),
        )

    def on(self, period: float) -> SeriesStatistics:
        """The same bin moments for waves of another period, rounded up to bins."""
        sums: Any = self.sums
        width = float(self.box.period[0]) * len(sums.values) / sums.size
        sums = sums.periodic(period / width)
        box = Box(self.box.origin, np.array([width * sums.size / len(sums.values)]))
        return replace(self, box=box, sums=sums)

    def reach(self) -> Integers:
        """Largest wave number of functions that are available, shape (d,)."""
        return self.sums.reach

    def tables(self, reach: Integers) -> tuple[WaveTable, WaveTable]:
        """``Σ w exp(2πi q·t)`` to twice the reach, and with ``y - shift`` to once."""
        one, other = self.sums.tables(2 * reach)
        return one, other

    def normal_equations(self, index: FourierIndex) -> WeightStatistics:
        """Sums for these functions, not whitened, of ``y - shift``; O(m^2), free of n.

        Raises
        ------
        ValueError
            If the functions reach further than the statistics.
        """
        if np.any(index.reach() > self.reach()):
            raise ValueError(
                f"The statistics hold waves up to {self.reach().tolist()}; got "
                f"functions up to {index.reach().tolist()}. Pass over the data again "
                "with more bins (or a larger reach), or take fewer functions."
            )
        sums, moments = self.tables(index.reach())
        return WeightStatistics(
            gram(index, sums), moment(index, moments), self.square, 0.0, self.weight
        )


def sketched_statistics(
    X: Array, y: Array, weights: Array | None, box: Box, shift: float, bins: int
) -> SeriesStatistics:
    """Statistics of one block of rows with one input, by bin moments.

    Parameters
    ----------
    X : ndarray of shape (n, 1)
        Inside the box (not checked).
    y : ndarray of shape (n,)
    weights : ndarray of shape (n,) or None
        Frequency weights; None for ones.
    box : Box
    shift : float
        Subtracted from y.
    bins : int
        See :func:`skgpx._numerics.fourier_sketch.n_bins`.

    Notes
    -----
    O(n), whatever the number of functions used later.
    """
    x = np.ascontiguousarray(X[:, 0])
    moments, square = bin_moments(x, y, weights, box, shift, bins)
    weight, total = moments.values[:, :, 0].sum(axis=0)
    return SeriesStatistics(box, shift, moments, float(weight), float(total), square)


def direct_statistics(
    X: Array,
    y: Array,
    weights: Array | None,
    box: Box,
    shift: float,
    reach: Integers,
) -> SeriesStatistics:
    """Statistics of one block of rows with two or more inputs, by sums of waves.

    Parameters as in :func:`sketched_statistics`, but for ``reach`` (d,): the largest
    wave number of the functions, for each input. O(n Π (4 reach_i + 2)) time.
    """
    centred = y - shift
    w = np.ones(len(y)) if weights is None else weights
    sums = fourier_sums(box.turns(X), centred, w, np.asarray(reach, np.int64))
    weighted = w * centred
    return SeriesStatistics(
        box,
        shift,
        sums,
        float(w.sum()),
        float(weighted.sum()),
        float(weighted @ centred),
    )
