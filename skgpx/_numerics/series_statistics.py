"""What regression on Fourier functions needs of the data: sums over rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics.fourier_gram import (
    WaveTable,
    gram,
    moment,
)
from skgpx._numerics.fourier_index import Box, FourierIndex, Integers
from skgpx._numerics.fourier_sketch import BinMoments, bin_moments
from skgpx._numerics.fourier_sums import FourierSums, fourier_sums
from skgpx._numerics.regression import WeightStatistics

Array = NDArray[np.float64]


class NormalEquations(NamedTuple):
    """Sums over rows for a list of functions ``φ`` that are not whitened.

    Attributes
    ----------
    gram : ndarray of shape (m, m)
        ``Φᵀ diag(w) Φ``.
    moment : ndarray of shape (m,)
        ``Φᵀ diag(w) y``.
    weight, square : float
        ``Σ w`` and ``Σ w y²``.
    """

    gram: Array
    moment: Array
    weight: float
    square: float

    def whitened(self, eigenvalues: Array, residual: float) -> WeightStatistics:
        """Statistics of the features ``√λ_j φ_j``, whose weights are N(0, I).

        Parameters
        ----------
        eigenvalues : ndarray of shape (m,)
            ``λ``, not negative.
        residual : float
            ``Σ w var g``, the prior variance outside the functions.
        """
        root = np.sqrt(eigenvalues)
        return WeightStatistics(
            self.gram * (root[:, np.newaxis] * root),
            self.moment * root,
            self.square,
            residual,
            self.weight,
        )


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
        if isinstance(self.sums, BinMoments):
            return np.array([self.sums.largest_wave // 2])
        return self.sums.moments.reach

    def normal_equations(self, index: FourierIndex) -> NormalEquations:
        """Sums for these functions, of ``y - shift``; O(m^2) and free of n.

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
        if isinstance(self.sums, BinMoments):
            sums, moments = self.sums.tables(2 * int(index.reach()[0]))
        else:
            sums, moments = self.sums
        return NormalEquations(
            gram(index, sums),
            moment(index, moments),
            self.weight,
            self.square,
        )

    def moments(self, index: FourierIndex) -> Array:
        """``Φᵀ diag(w) (y - shift)`` alone, shape (m,); zero beyond what is held.

        For functions up to twice (bin moments) or once the reach.
        """
        if isinstance(self.sums, BinMoments):
            most = min(self.sums.largest_wave, int(index.reach()[0]))
            return moment(index, self.sums.tables(2 * most)[1])
        return moment(index, self.sums.moments)

    def wave_tables(self) -> tuple[WaveTable, WaveTable]:
        """``Σ w exp(2πi q·t)`` to twice the reach, and with ``y - shift`` to once."""
        if isinstance(self.sums, BinMoments):
            return self.sums.tables(2 * int(self.reach()[0]))
        return self.sums.sums, self.sums.moments

    def cosines(self, waves: Integers) -> Array:
        """``Σ w cos(2π k·t)`` of waves (R, d); zero beyond what is held."""
        if isinstance(self.sums, BinMoments):
            most = int(np.abs(waves).max(initial=0))
            sums = self.sums.tables(min(self.sums.largest_wave, most))[0]
        else:
            sums = self.sums.sums
        cosines: Array = sums.at(waves).real
        return cosines


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
