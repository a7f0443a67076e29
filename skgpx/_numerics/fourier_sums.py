"""Sums of waves over rows: what regression on Fourier functions needs of the data.

In one dimension these sums follow from moments of the position in each of B bins (*bin
moments*), which do not depend on the waves: these are chosen after the data are gone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import fft
from scipy.special import comb

from skgpx._numerics._jit import inlined, kernel
from skgpx._numerics.fourier import (
    Box,
    FourierIndex,
    Integers,
    WaveTable,
    angle_tables,
    from_real,
    gram,
    moment,
    reach_of,
    row_products,
)
from skgpx._numerics.regression import WeightStatistics

Array = NDArray[np.float64]
Complex = NDArray[np.complex128]

# Moments of a bin; the compiled loop is written out for them.
N_MOMENTS = 12
# Bins for each unit of the largest wave number; with 12 moments the error of a sum of
# unit waves is below 4 J₁₂(π/5) = 8e-15 of the sum of the weights, for any data.
BINS_PER_WAVE = 5


def _half_bins() -> tuple[Array, Array]:
    """Maps (p, p) of moments in a left and a right half to the bin: ``(v ∓ 1) / 2``."""
    r, q = np.ogrid[:N_MOMENTS, :N_MOMENTS]
    # Σ ((v - 1) / 2)^q = 2^-q Σ_r binom(q, r) (-1)^(q - r) Σ v^r
    right = comb(q, r) * 0.5**q
    return right * (-1.0) ** np.abs(q - r), right


_HALVES = _half_bins()


@dataclass(frozen=True)
class BinMoments:
    """Moments of the rows in each bin of an interval, and the period of the waves.

    Attributes
    ----------
    values : ndarray of shape (B, 1 + t, p)
        ``Σ w u^q``, and ``Σ w y u^q`` of each target, with u in [-1, 1] the place in
        the bin.
    size : int
        Period of the waves in bins, at most as many as there are or any number more:
        bins beyond the interval are empty.
    levels : dict
        Moments in wider bins, once they are needed; shared with other periods.
    """

    values: Array
    size: int
    levels: dict[int, Array] = field(default_factory=dict, compare=False, repr=False)

    @property
    def largest_wave(self) -> int:
        """Largest wave number with full accuracy."""
        return self.size // BINS_PER_WAVE

    @property
    def reach(self) -> NDArray[np.int64]:
        """Largest wave number of functions, whose products reach twice as far; (1,)."""
        return np.array([self.largest_wave // 2])

    def add(self, other: BinMoments) -> BinMoments:
        """Moments of both sets of rows, in the wider bins of the two."""
        bins = min(len(self.values), len(other.values))
        one, two = (m._coarser(len(m.values) // bins) for m in (self, other))
        return BinMoments(one + two, self.size * bins // len(self.values))

    def less(self, shift: Any) -> BinMoments:
        """Moments with a constant, or that of each target, subtracted from y."""
        values = self.values.copy()
        values[:, 1:] -= np.reshape(shift, (-1, 1)) * values[:, :1]
        return BinMoments(values, self.size)

    def periodic(self, periods: float) -> BinMoments:
        """For waves whose period is so many intervals, rounded up to sixteenths."""
        part = len(self.values) // 16
        size = part * max(1, math.ceil(16.0 * periods - 1e-9))
        return self if size == self.size else replace(self, size=size)

    def _coarser(self, factor: int) -> Array:
        """Moments in bins so many times as wide, a power of two."""
        for key in (1 << i for i in range(1, factor.bit_length())):
            if key not in self.levels:
                fine = self.levels.get(key // 2, self.values)
                wide = fine[::2] @ _HALVES[0] + fine[1::2] @ _HALVES[1]
                self.levels[key] = wide
        return self.levels.get(factor, self.values)

    def tables(self, reach: Any) -> tuple[WaveTable, WaveTable]:
        """Sums of waves up to ``reach`` (1,) with the weights, half as far with y too.

        Those with y have the targets on the first axis. No further than the largest
        wave.
        """
        reach, factor, size = int(np.squeeze(reach)), 1, self.size
        while len(self.values) > 32 * factor and size // 2 >= (BINS_PER_WAVE * reach):
            factor, size = 2 * factor, size // 2
        moments = self._coarser(factor)
        most = min(reach, size // BINS_PER_WAVE)
        factors = _exponential_polynomials(np.pi / size, most + 1)
        one = _sums_from_moments(moments[:, 0], size, factors)
        short = factors[:, : reach // 2 + 1]
        targets = moments[:, 1:].transpose(1, 0, 2)
        two = [_two_sided(_sums_from_moments(m, size, short)) for m in targets]
        return _two_sided(one), np.stack(two)

    def __getstate__(self) -> dict[str, Any]:
        return {"values": self.values, "size": self.size, "levels": {}}


def n_bins(largest_wave: int) -> int:
    """Bins for sums of waves up to this number: a power of two, at least 256."""
    needed = max(256, BINS_PER_WAVE * largest_wave)
    return 1 << (needed - 1).bit_length()


def bin_moments(
    x: Array,
    y: Array,
    weights: Array | None,
    box: Box,
    shift: Any,
    bins: int,
) -> tuple[BinMoments, Any]:
    """Bin moments of one block of rows, and ``Σ w (y - shift)²`` of each target.

    Parameters
    ----------
    x : ndarray of shape (n,), C-contiguous
        Inputs inside the box (those outside are counted at its sides).
    y : ndarray of shape (n,), or (n, t), C-contiguous
    weights : ndarray of shape (n,), C-contiguous, or None
        None for ones.
    box : Box
        Of one input: where the rows are.
    shift : float or ndarray of shape (t,)
        Subtracted from y.
    bins : int
        Number of bins B, a power of two.
    """
    t = y.size // len(y)
    values, squares = np.zeros((bins, 1 + t, N_MOMENTS)), np.zeros(t)
    w = np.empty(0) if weights is None else weights
    where = float(box.origin[0]), float(box.period[0]), np.zeros(t) + shift
    _add_rows(x, y.reshape(-1, t), w, *where, values.reshape(-1), squares)
    return BinMoments(values, bins), squares if y.ndim > 1 else float(squares[0])


@kernel
def _add_rows(
    x: Array,
    y: Array,
    weights: Array,
    origin: float,
    period: float,
    shift: Array,
    values: Array,
    squares: Array,
) -> None:
    """Add moments of all rows to flat values (B (1 + t) p), ``Σ w y²`` to (t,)."""
    stride = N_MOMENTS * (1 + y.shape[1])
    bins, block = values.size // stride, 256
    places, inside = np.empty(block, np.int64), np.empty(block)
    for first in range(0, x.size, block):
        size = min(block, x.size - first)
        for i in range(size):
            scaled = (x[first + i] - origin) / period * bins
            place = max(0, min(int(scaled), bins - 1))
            places[i] = stride * place
            inside[i] = 2.0 * (scaled - place) - 1.0
        for j in range(y.shape[1]):
            part = 0.0
            for i in range(size):
                k, u, z = places[i], inside[i], y[first + i, j] - shift[j]
                w = weights[first + i] if weights.size else 1.0
                part += w * z * z
                if j == 0:
                    _add_powers(values, k, u, w)
                _add_powers(values, k + 12 * (j + 1), u, w * z)
            squares[j] += part


@inlined
def _add_powers(values: Array, k: int, u: float, w: float) -> None:
    """Add w, w u, ..., w u^11 to values from position k: short chains of products."""
    u2 = u * u
    u3, w4 = u2 * u, w * (u2 * u2)
    w8 = w4 * (u2 * u2)
    values[k] += w
    values[k + 1] += w * u
    values[k + 2] += w * u2
    values[k + 3] += w * u3
    values[k + 4] += w4
    values[k + 5] += w4 * u
    values[k + 6] += w4 * u2
    values[k + 7] += w4 * u3
    values[k + 8] += w8
    values[k + 9] += w8 * u
    values[k + 10] += w8 * u2
    values[k + 11] += w8 * u3


def _sums_from_moments(moments: Array, size: int, factors: Complex) -> Complex:
    """``Σ w exp(2πi k t)`` from moments (B, p) and the factors (p, K) of k < K."""
    # bins that are a period apart have the same waves
    moments = np.pad(moments, ((0, -len(moments) % size), (0, 0)))
    moments = moments.reshape(-1, size, moments.shape[1]).sum(axis=0)
    # Σ_b exp(2πi k b/B) M_bq
    waves = np.conj(fft.rfft(moments, axis=0)[: factors.shape[1]])
    sums: Complex = np.einsum("kq,qk->k", waves, factors)
    return sums


def _exponential_polynomials(a: float, count: int) -> Complex:
    """Coefficients of ``exp(i a k (u + 1)) ≈ Σ_q c_qk u^q``, u in [-1, 1], k < count.

    They interpolate in the zeros of a Chebyshev polynomial: an error of at most ``4
    J_p(a k)``, where that of the Taylor series is 2^(p-2) times larger.
    """
    nodes = np.cos(np.pi * (np.arange(N_MOMENTS) + 0.5) / N_MOMENTS)
    waves = np.exp(1j * a * np.outer(nodes + 1.0, np.arange(count)))
    coefficients: Complex = np.linalg.solve(np.vander(nodes, increasing=True), waves)
    return coefficients


def _two_sided(sums: Complex) -> WaveTable:
    """Table over -reach..reach from 0..reach: conjugates for negative waves."""
    return np.concatenate((np.conj(sums[:0:-1]), sums))


# ---- Sums of waves -------------------------------------------------------------------


class FourierSums(NamedTuple):
    """Sums of waves times weights, and times weights and y.

    Attributes
    ----------
    sums : WaveTable
        ``Σ w exp(2πi q·t)`` with ``|q_i| <= 2 K_i``.
    moments : WaveTable
        ``Σ w y exp(2πi q·t)`` with ``|q_i| <= K_i``, targets on the first axis.
    """

    sums: WaveTable
    moments: WaveTable

    @property
    def reach(self) -> Integers:
        """Largest wave number of functions, shape (d,)."""
        return reach_of(self.moments[0])

    def tables(self, reach: Integers) -> FourierSums:
        """The sums themselves."""
        del reach
        return self

    def add(self, other: FourierSums) -> FourierSums:
        """Sums over both sets of rows."""
        return FourierSums(self.sums + other.sums, self.moments + other.moments)

    def less(self, shift: Any) -> FourierSums:
        """Sums with a constant, or that of each target, subtracted from y."""
        inner = tuple(slice(r, 3 * r + 1) for r in self.reach)
        less = np.multiply.outer(np.atleast_1d(shift), self.sums[inner])
        return self._replace(moments=self.moments - less)


def fourier_sums(
    turns: Array,
    y: Array,
    weights: Array,
    reach: Integers,
) -> FourierSums:
    """Sums over one block of rows.

    Parameters
    ----------
    turns : ndarray of shape (n, d)
        Angles.
    y : ndarray of shape (n,), or (n, t) for t targets
    weights : ndarray of shape (n,)
    reach : ndarray of shape (d,)
        Largest wave number ``K_i`` of the functions, for each input.

    Notes
    -----
    Waves of several inputs are products: one matrix product of the tables of the
    first inputs with that of the last, ``Π (4 K_i + 2)`` multiplications a row, and
    ``Π (2 K_i + 2)`` for each target.
    """
    short, long = [int(r) for r in reach], [2 * int(r) for r in reach]
    sums, moment = (
        np.zeros((int(np.prod([2 * r + 2 for r in k[:-1]])), 2 * k[-1] + 2))
        for k in (long, short)
    )
    weighted = np.atleast_2d(weights * y.T)
    moments = np.zeros((len(weighted), *moment.shape))
    for rows, tables in angle_tables(turns, long):
        size = rows.stop - rows.start
        tables = [table[:, :, :size] for table in tables]
        sums += _products(tables, weights[rows])
        halves = [table[:, : r + 1] for table, r in zip(tables, short, strict=True)]
        for moment, target in zip(moments, weighted, strict=True):
            moment += _products(halves, target[rows])
    of_targets = np.stack([from_real(moment, short) for moment in moments])
    return FourierSums(from_real(sums, long), of_targets)


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
    shift : float, or ndarray of shape (t,) for t targets
        Subtracted from y, best near its mean; a sum takes that of its first summand.
    sums : BinMoments or FourierSums
        In one dimension bin moments, of which every wave up to a fifth of the number
        of bins can be had; in more, sums of fixed waves.
    weight : float
        ``Σ w``.
    total, square : float, or ndarray of shape (t,)
        ``Σ w (y - shift)`` and ``Σ w (y - shift)²``.
    """

    box: Box
    shift: Any
    sums: BinMoments | FourierSums
    weight: float
    total: Any
    square: Any

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

    def moved(self, shift: Any) -> SeriesStatistics:
        """The same rows with another constant subtracted from y."""
        by = shift - self.shift
        if np.all(by == 0.0):
            return self
        square = self.square - 2.0 * by * self.total + by**2 * self.weight
        return replace(
            self,
            shift=shift,
            sums=self.sums.less(by),
            total=self.total - by * self.weight,
            square=np.maximum(square, 0.0),
        )

    def on(self, box: Box) -> SeriesStatistics:
        """The same bin moments for waves of another period, rounded up to bins.

        Sums of several inputs are about one box, and stay as they are.
        """
        sums = self.sums
        if not isinstance(sums, BinMoments):
            return self
        width = float(self.box.period[0]) * len(sums.values) / sums.size
        sums = sums.periodic(float(box.period[0]) / width)
        period = np.array([width * sums.size / len(sums.values)])
        return replace(self, box=Box(self.box.origin, period), sums=sums)

    def reach(self) -> Integers:
        """Largest wave number of functions that are available, shape (d,)."""
        return self.sums.reach

    def tables(self, reach: Integers) -> tuple[WaveTable, WaveTable]:
        """``Σ w exp(2πi q·t)`` to twice the reach, with each ``y - shift`` to once."""
        one, other = self.sums.tables(2 * reach)
        return one, other

    def normal_equations(
        self,
        index: FourierIndex,
        scale: Any = 1.0,
    ) -> WeightStatistics:
        """Sums for these functions, not whitened, of ``(y - shift) / scale``.

        O(m^2), free of n.

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
        sums, tables = self.tables(index.reach())
        moments = np.stack([moment(index, table) for table in tables], axis=-1)
        return WeightStatistics(
            gram(index, sums),
            moments.reshape(len(index), *np.shape(self.square)) / scale,
            self.square / scale**2,
            0.0,
            self.weight,
        )


def sketched_statistics(
    X: Array,
    y: Array,
    weights: Array | None,
    box: Box,
    shift: Any,
    bins: int,
) -> SeriesStatistics:
    """Statistics of one block of rows with one input, by bin moments.

    Parameters
    ----------
    X : ndarray of shape (n, 1)
        Inside the box (not checked).
    y : ndarray of shape (n,), or (n, t) for t targets
    weights : ndarray of shape (n,) or None
        Frequency weights; None for ones.
    box : Box
    shift : float or ndarray of shape (t,)
        Subtracted from y.
    bins : int
        See :func:`skgpx._numerics.fourier_sums.n_bins`.

    Notes
    -----
    O(n), whatever the number of functions used later.
    """
    x = np.ascontiguousarray(X[:, 0])
    moments, square = bin_moments(x, y, weights, box, shift, bins)
    weight, *totals = moments.values[:, :, 0].sum(axis=0)
    total = np.array(totals).reshape(np.shape(square))[()]
    return SeriesStatistics(box, shift, moments, float(weight), total, square)


def direct_statistics(
    X: Array,
    y: Array,
    weights: Array | None,
    box: Box,
    shift: Any,
    reach: Integers,
) -> SeriesStatistics:
    """Statistics of one block of rows with two or more inputs, by sums of waves.

    Parameters as in :func:`sketched_statistics`, but for ``reach`` (d,): the largest
    wave number of the functions, for each input. O(n Π (4 reach_i + 2)) time.
    """
    centred = y - shift
    w = np.ones(len(y)) if weights is None else weights
    sums = fourier_sums(box.turns(X), centred, w, np.asarray(reach, np.int64))
    each = [(w * one, one) for one in np.atleast_2d(centred.T)]
    total, square = (
        np.reshape(values, centred.shape[1:])[()]
        for values in ([a.sum() for a, _ in each], [a @ b for a, b in each])
    )
    return SeriesStatistics(box, shift, sums, float(w.sum()), total, square)
