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
from skgpx._types import Array

Complex = NDArray[np.complex128]

# Moments of a bin; the compiled loop is written out for them.
N_MOMENTS = 12
# Bins for each unit of the largest wave number; with 12 moments the error of a sum of
# unit waves is below 4 J₁₂(π/5) = 8e-15 of the sum of the weights, for any data.
BINS_PER_WAVE = 5


def _half_bins() -> tuple[Array, Array]:
    """Maps (p, p) of moments in a left and a right half to the bin: ``(v ∓ 1) / 2``."""
    r, q = np.ogrid[:N_MOMENTS, :N_MOMENTS]
    # Σ ((v ∓ 1) / 2)^q = 2^-q Σ_r binom(q, r) (∓1)^(q - r) Σ v^r
    right = comb(q, r) * 0.5**q
    signs = (-1.0) ** np.abs(q - r)
    left = right * signs
    return left, right


_HALVES = _half_bins()


@dataclass(frozen=True)
class BinMoments:
    """Moments of the rows in each bin of an interval, and the period of the waves.

    Attributes
    ----------
    values : ndarray of shape (B, 1 + t, p)
        ``Σ w u^q``, and ``Σ w y u^q`` of each target, with u in [-1, 1] the position
        in the bin.
    squares : ndarray of shape (B, t)
        ``Σ w y²``.
    size : int
        Period of the waves in bins. It may exceed B: bins beyond the interval are
        empty.
    levels : dict
        Moments in wider bins by their width, computed at their first use; shared with
        other periods.
    """

    values: Array
    squares: Array
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
        n_bins = min(len(self.values), len(other.values))
        factor = len(self.values) // n_bins
        values = self._widen(factor)
        other_factor = len(other.values) // n_bins
        other_values = other._widen(other_factor)
        squares = _sums_of_groups(self.squares, n_bins)
        other_squares = _sums_of_groups(other.squares, n_bins)
        size = self.size * n_bins // len(self.values)
        return BinMoments(values + other_values, squares + other_squares, size)

    def less(self, shift: float | Array) -> BinMoments:
        """Moments after a constant, or one of each target, is subtracted from y."""
        values = self.values.copy()
        shift_of_target = np.reshape(shift, (-1, 1))
        moments_of_weights = values[:, :1]
        # Σ w (y - c)² = Σ w y² - 2 c Σ w y + c² Σ w
        c = shift_of_target[:, 0]
        squares = self.squares - 2.0 * c * values[:, 1:, 0] + c**2 * values[:, :1, 0]
        values[:, 1:] -= shift_of_target * moments_of_weights
        return BinMoments(values, np.maximum(squares, 0.0), self.size)

    def periodic(self, periods: float) -> BinMoments:
        """Moments for waves of a period of so many intervals, up to sixteenths."""
        sixteenth = len(self.values) // 16
        size = sixteenth * max(1, math.ceil(16.0 * periods - 1e-9))
        if size == self.size:
            return self
        return replace(self, size=size)

    def section(self, first: int, n_bins: int) -> BinMoments:
        """Moments of the rows in so many bins alone, which are one period."""
        part = slice(first, first + n_bins)
        return BinMoments(self.values[part], self.squares[part], n_bins)

    def _widen(self, factor: int) -> Array:
        """Moments in bins wider by a factor, a power of two."""
        left, right = _HALVES
        for level in range(1, factor.bit_length()):
            width = 1 << level
            if width not in self.levels:
                fine = self.levels.get(width // 2, self.values)
                # moments of both halves about the middle of the wider bin
                from_left = fine[::2] @ left
                from_right = fine[1::2] @ right
                self.levels[width] = from_left + from_right
        return self.levels.get(factor, self.values)

    def tables(self, reach: int | Integers) -> tuple[WaveTable, WaveTable]:
        """Sums of waves, no further than the largest wave.

        Parameters
        ----------
        reach : int, or ndarray of shape (1,)

        Returns
        -------
        sums : WaveTable
            Of the weights, up to the reach.
        moments : WaveTable
            Of the weights times y, up to half the reach; targets on the first axis.
        """
        reach = int(np.squeeze(reach))
        # the widest bins that resolve these waves
        factor = 1
        size = self.size
        while len(self.values) > 32 * factor and size // 2 >= BINS_PER_WAVE * reach:
            factor *= 2
            size //= 2
        moments = self._widen(factor)
        largest_wave = min(reach, size // BINS_PER_WAVE)
        factors = _exponential_polynomials(np.pi / size, largest_wave + 1)
        sums = _sums_from_moments(moments[:, 0], size, factors)
        factors_of_y = factors[:, : reach // 2 + 1]
        tables = []
        for target_moments in moments[:, 1:].transpose(1, 0, 2):
            target_sums = _sums_from_moments(target_moments, size, factors_of_y)
            tables.append(_two_sided(target_sums))
        return _two_sided(sums), np.stack(tables)

    def __getstate__(self) -> dict[str, Any]:
        return {
            "values": self.values,
            "squares": self.squares,
            "size": self.size,
            "levels": {},
        }


def _sums_of_groups(values: Array, n_groups: int) -> Array:
    """Sums (g, t) over groups of neighbouring rows of values (B, t)."""
    groups = values.reshape(n_groups, -1, values.shape[1])
    return groups.sum(axis=1)


def n_bins(largest_wave: int) -> int:
    """Bins for sums of waves up to this number: a power of two, at least 256."""
    needed = max(256, BINS_PER_WAVE * largest_wave)
    return 1 << (needed - 1).bit_length()


def bin_moments(
    x: Array,
    y: Array,
    weights: Array | None,
    box: Box,
    shift: float | Array,
    bins: int,
) -> BinMoments:
    """Bin moments of one block of rows.

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
    values = np.zeros((bins, 1 + t, N_MOMENTS))
    squares = np.zeros((bins, t))
    if weights is None:
        weights = np.empty(0)
    # the moments of so many bins stay in the second-level cache
    groups = bins // 1024
    if groups > 1:
        # one group of bins after the other, the rows of each bin in their order
        group = np.clip(groups * box.turns(x), 0.0, groups - 1.0)
        order = np.argsort(group.astype(np.uint16), kind="stable")
        x = x[order]
        y = y[order]
        if weights.size:
            weights = weights[order]
    _add_rows(
        x,
        y.reshape(-1, t),
        weights,
        float(box.origin[0]),
        float(box.period[0]),
        np.zeros(t) + shift,
        values.reshape(-1),
        squares,
    )
    return BinMoments(values, squares, bins)


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
    """Add moments of all rows to flat values (B (1 + t) p), ``Σ w y²`` to (B, t)."""
    stride = N_MOMENTS * (1 + y.shape[1])
    bins = values.size // stride
    block = 256
    # the bin of a row, where its moments are, and its position u in the bin
    numbers = np.empty(block, np.int64)
    starts = np.empty(block, np.int64)
    positions = np.empty(block)
    for first in range(0, x.size, block):
        size = min(block, x.size - first)
        for i in range(size):
            scaled = (x[first + i] - origin) / period * bins
            number = max(0, min(int(scaled), bins - 1))
            numbers[i] = number
            starts[i] = stride * number
            positions[i] = 2.0 * (scaled - number) - 1.0
        for j in range(y.shape[1]):
            for i in range(size):
                k = starts[i]
                u = positions[i]
                z = y[first + i, j] - shift[j]
                w = 1.0
                if weights.size:
                    w = weights[first + i]
                squares[numbers[i], j] += w * z * z
                if j == 0:
                    _add_powers(values, k, u, w)
                _add_powers(values, k + 12 * (j + 1), u, w * z)


@inlined
def _add_powers(values: Array, k: int, u: float, w: float) -> None:
    """Add w, w u, ..., w u^11 to values from position k: short chains of products."""
    u2 = u * u
    u3 = u2 * u
    w4 = w * (u2 * u2)
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
    # bins that are a period apart see the same waves
    n_bins, n_moments = moments.shape
    if n_bins > size:
        padding = -n_bins % size
        padded = np.pad(moments, ((0, padding), (0, 0)))
        periods = padded.reshape(-1, size, n_moments)
        moments = periods.sum(axis=0)
    # Σ_b exp(2πi k b/B) M_bq
    n_waves = factors.shape[1]
    transform = fft.rfft(moments, size, axis=0)
    waves = np.conj(transform[:n_waves])
    return np.einsum("kq,qk->k", waves, factors)


def _exponential_polynomials(a: float, count: int) -> Complex:
    """Coefficients of ``exp(i a k (u + 1)) ≈ Σ_q c_qk u^q``, u in [-1, 1], k < count.

    The polynomials interpolate in the zeros of a Chebyshev polynomial. Their error is
    at most ``4 J_p(a k)``; the error of the Taylor series is 2^(p-2) times larger.
    """
    # interpolation at the Chebyshev nodes
    angles = np.pi * (np.arange(N_MOMENTS) + 0.5) / N_MOMENTS
    nodes = np.cos(angles)
    phases = np.outer(nodes + 1.0, np.arange(count))
    waves = np.exp(1j * a * phases)
    powers = np.vander(nodes, increasing=True)
    return np.linalg.solve(powers, waves)


def _two_sided(sums: Complex) -> WaveTable:
    """Table over -reach..reach from 0..reach: conjugates for negative waves."""
    negative = np.conj(sums[:0:-1])
    return np.concatenate((negative, sums))


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
        return FourierSums(
            sums=self.sums + other.sums,
            moments=self.moments + other.moments,
        )

    def less(self, shift: float | Array) -> FourierSums:
        """Sums after a constant, or one of each target, is subtracted from y."""
        # sums of the weights for the waves of the moments
        window = tuple(slice(r, 3 * r + 1) for r in self.reach)
        sums = self.sums[window]
        shifts = np.multiply.outer(np.atleast_1d(shift), sums)
        return self._replace(moments=self.moments - shifts)


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
    reach_of_y = [int(r) for r in reach]
    reach_of_weights = [2 * r for r in reach_of_y]
    weighted = np.atleast_2d(weights * y.T)
    sums = np.zeros(_shape_of_products(reach_of_weights))
    moments = np.zeros((len(weighted), *_shape_of_products(reach_of_y)))
    for rows, blocks in angle_tables(turns, reach_of_weights):
        size = rows.stop - rows.start
        tables = [block[:, :, :size] for block in blocks]
        sums += _products(tables, weights[rows])
        tables_of_y = [
            table[:, : r + 1] for table, r in zip(tables, reach_of_y, strict=True)
        ]
        for target_moments, target in zip(moments, weighted, strict=True):
            target_moments += _products(tables_of_y, target[rows])
    moment_tables = [from_real(real, reach_of_y) for real in moments]
    return FourierSums(
        sums=from_real(sums, reach_of_weights),
        moments=np.stack(moment_tables),
    )


def _shape_of_products(reach: list[int]) -> tuple[int, int]:
    """Products of cosines and sines of the first inputs, and waves of the last."""
    heights = [2 * r + 2 for r in reach]
    return int(np.prod(heights[:-1])), heights[-1]


def _products(tables: list[Array], weights: Array) -> Array:
    """``Σ w`` of the products of one row of each table, the last in columns."""
    waves = [table.reshape(-1, table.shape[-1]) for table in tables]
    last = waves.pop()
    if not waves:
        return (last @ weights)[np.newaxis]
    return row_products(waves) @ (last * weights).T


@dataclass(frozen=True)
class SeriesStatistics:
    """Sums over rows; those of disjoint sets of rows add with ``+``.

    Attributes
    ----------
    box : Box
        Where the functions live; the same for all summands.
    shift : float, or ndarray of shape (t,) for t targets
        Subtracted from y, best near its mean; a sum has the shift of its first summand.
    sums : BinMoments or FourierSums
        In one dimension bin moments, which give every wave up to a fifth of the number
        of bins; in several dimensions sums of fixed waves.
    weight : float
        ``Σ w``.
    total, square : float, or ndarray of shape (t,)
        ``Σ w (y - shift)`` and ``Σ w (y - shift)²``.
    """

    box: Box
    shift: float | Array
    sums: BinMoments | FourierSums
    weight: float
    total: float | Array
    square: float | Array

    @classmethod
    def of_moments(
        cls,
        box: Box,
        shift: float | Array,
        moments: BinMoments,
        shape: tuple[int, ...],
    ) -> SeriesStatistics:
        """Statistics of rows with these bin moments, and targets of this shape."""
        # the moments of order zero are Σ w and Σ w y
        weight, *totals = moments.values[:, :, 0].sum(axis=0)
        return cls(
            box=box,
            shift=shift,
            sums=moments,
            weight=float(weight),
            total=np.reshape(totals, shape)[()],
            square=moments.squares.sum(axis=0).reshape(shape)[()],
        )

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

    def moved(self, shift: float | Array) -> SeriesStatistics:
        """Statistics of these rows with another constant subtracted from y."""
        c = shift - self.shift
        if np.all(c == 0.0):
            return self
        # Σ w (y - c)² = Σ w y² - 2 c Σ w y + c² Σ w
        square = self.square - 2.0 * c * self.total + c**2 * self.weight
        return replace(
            self,
            shift=shift,
            sums=self.sums.less(c),
            total=self.total - c * self.weight,
            square=np.maximum(square, 0.0),
        )

    def on(self, box: Box) -> SeriesStatistics:
        """These bin moments for waves of another period, rounded up to bins.

        Sums of several inputs belong to one box, and stay as they are.
        """
        sums = self.sums
        if not isinstance(sums, BinMoments):
            return self
        n_bins = len(sums.values)
        width = float(self.box.period[0]) * n_bins / sums.size
        periodic_sums = sums.periodic(float(box.period[0]) / width)
        n_bins = len(periodic_sums.values)
        period = width * periodic_sums.size / n_bins
        return replace(
            self,
            box=Box(self.box.origin, np.array([period])),
            sums=periodic_sums,
        )

    def section(self, first: int, n_bins: int) -> SeriesStatistics:
        """Statistics of the rows in so many bins alone, whose interval is the box.

        Sums of several inputs have no sections, and stay as they are.
        """
        sums = self.sums
        if not isinstance(sums, BinMoments):
            return self
        moments = sums.section(first, n_bins)
        width = float(self.box.period[0]) / sums.size
        box = Box(self.box.origin + width * first, np.array([width * n_bins]))
        shape = np.shape(self.square)
        return SeriesStatistics.of_moments(box, self.shift, moments, shape)

    def reach(self) -> Integers:
        """Largest wave number of functions that are available, shape (d,)."""
        return self.sums.reach

    def tables(self, reach: Integers) -> tuple[WaveTable, WaveTable]:
        """Sums of waves.

        Returns
        -------
        sums : WaveTable
            ``Σ w exp(2πi q·t)``, up to twice the reach.
        moments : WaveTable
            ``Σ w (y - shift) exp(2πi q·t)``, up to the reach; targets on the first
            axis.
        """
        sums, moments = self.sums.tables(2 * reach)
        return sums, moments

    def normal_equations(
        self,
        index: FourierIndex,
        scale: float | Array = 1.0,
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
        # Φᵀ diag(w) y of each target
        columns = [moment(index, table) for table in tables]
        moments = np.stack(columns, axis=-1)
        moments = moments.reshape(len(index), *np.shape(self.square))
        return WeightStatistics(
            gram(index, sums),
            moments / scale,
            self.square / scale**2,
            0.0,
            self.weight,
        )


def sketched_statistics(
    X: Array,
    y: Array,
    weights: Array | None,
    box: Box,
    shift: float | Array,
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
    moments = bin_moments(x, y, weights, box, shift, bins)
    return SeriesStatistics.of_moments(box, shift, moments, y.shape[1:])


def direct_statistics(
    X: Array,
    y: Array,
    weights: Array | None,
    box: Box,
    shift: float | Array,
    reach: Integers,
) -> SeriesStatistics:
    """Statistics of one block of rows with two or more inputs, by sums of waves.

    Parameters as in :func:`sketched_statistics`, but for ``reach`` (d,): the largest
    wave number of the functions, for each input. O(n Π (4 reach_i + 2)) time.
    """
    centred = y - shift
    if weights is None:
        weights = np.ones(len(y))
    turns = box.turns(X)
    sums = fourier_sums(turns, centred, weights, np.asarray(reach, np.int64))
    totals = []
    squares = []
    for target in np.atleast_2d(centred.T):
        weighted = weights * target
        totals.append(weighted.sum())
        squares.append(weighted @ target)
    shape = centred.shape[1:]
    return SeriesStatistics(
        box=box,
        shift=shift,
        sums=sums,
        weight=float(weights.sum()),
        total=np.reshape(totals, shape)[()],
        square=np.reshape(squares, shape)[()],
    )
