"""Fourier functions on a box: their order, multiples of angles, Gram matrices.

On a box with angles ``t = (x - origin) / period`` (in turns) the functions are, for
integer vectors k (*waves*) of one half of space::

    1,    √2 cos(2π k·t),    √2 sin(2π k·t)

They are orthonormal under the uniform distribution on the box. Products of two waves
are waves of sum and difference, so that ``Φᵀ diag(w) Φ`` holds only the numbers
``e_q = Σ_i w_i exp(2πi q·t_i)`` with ``|q| <= 2 max |k|``: a Toeplitz plus a Hankel
matrix in one dimension.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from skgpx._numerics._jit import kernel
from skgpx._numerics.trigonometry import cos_turns
from skgpx._types import Array, Index, Mask

Integers = NDArray[np.int64]


class Box(NamedTuple):
    """Box whose opposite sides are joined.

    Attributes
    ----------
    origin : ndarray of shape (d,)
        Lower corner.
    period : ndarray of shape (d,)
        Side lengths, positive.
    """

    origin: Array
    period: Array

    def turns(self, X: Array) -> Array:
        """Angles of the rows of X (n, d), in turns: 0 to 1 inside the box."""
        return (X - self.origin) / self.period

    def frequencies(self, waves: Integers) -> Array:
        """Angular frequencies ``2π k / period`` of waves (m, d)."""
        return 2.0 * np.pi * waves / self.period


@dataclass(frozen=True)
class FourierIndex:
    """An ordered list of Fourier functions.

    Attributes
    ----------
    waves : ndarray of shape (m, d)
        Integer vectors ``k``, one of ±k each; zero for the constant function.
    sine : ndarray of shape (m,)
        True for ``√2 sin(2π k·t)``, False for the cosine and the constant.
    ranks : ndarray of shape (m,)
        Place of each function in the order of the prior, from one; the mean of both
        places for pairs that are to have equal eigenvalues.
    """

    waves: Integers
    sine: Mask
    ranks: Array

    def __len__(self) -> int:
        return len(self.sine)

    def part(self, chosen: slice | Integers) -> FourierIndex:
        """Select functions, which keep their ranks."""
        return FourierIndex(
            waves=self.waves[chosen],
            sine=self.sine[chosen],
            ranks=self.ranks[chosen],
        )

    def scales(self) -> Array:
        """Factor of ``√2 cos`` or ``√2 sin``: one, and √½ for the constant."""
        is_constant = ~self.waves.any(axis=1)
        return np.where(is_constant, np.sqrt(0.5), 1.0)

    def distinct(self) -> tuple[Integers, Index]:
        """Distinct waves of the functions.

        Returns
        -------
        waves : ndarray of shape (R, d)
        positions : ndarray of shape (m,)
            Position of the wave of each function among them.
        """
        reach = self.reach()
        # one number for each wave
        steps = np.cumprod(np.append(1, 2 * reach[:-1] + 1))
        numbers = (self.waves + reach) @ steps
        _, first, positions = np.unique(
            numbers,
            return_index=True,
            return_inverse=True,
        )
        return self.waves[first], positions

    def reach(self) -> Integers:
        """Largest wave number of each input, shape (d,)."""
        if not len(self.sine):
            return np.zeros(self.waves.shape[1], np.int64)
        return np.abs(self.waves).max(axis=0)


def function_list(waves: Integers) -> FourierIndex:
    """List the constant, then sine and cosine of each wave in this order.

    Parameters
    ----------
    waves : ndarray of shape (R, d)
        Not zero; one of each ±k.

    Returns
    -------
    index : FourierIndex
        Of 2 R + 1 functions. The sine and the cosine of a wave share the mean of their
        ranks, 1, 2.5, 2.5, 4.5, 4.5, ...: the prior is stationary.
    """
    R, d = waves.shape
    zero = np.zeros((1, d), np.int64)
    pairs = np.repeat(waves, 2, axis=0)
    j = np.arange(2 * R + 1)
    pair = (j + 1) // 2
    return FourierIndex(
        waves=np.concatenate((zero, pairs)),
        sine=j % 2 == 1,
        ranks=np.where(j == 0, 1.0, 2.0 * pair + 0.5),
    )


def half_space(reach: Integers) -> Integers:
    """Waves with ``|k_i| <= reach_i``, one of each ±k, without zero; shape (R, d)."""
    d = len(reach)
    axes = [np.arange(-r, r + 1) for r in reach]
    coordinates = np.meshgrid(*axes, indexing="ij")
    grid = np.stack(coordinates, axis=-1)
    grid = grid.reshape(-1, d)
    # the grid is symmetric about its middle, which is zero
    middle = len(grid) // 2
    return grid[middle + 1 :].astype(np.int64)


def by_length(d: int, size: int) -> FourierIndex:
    """Order functions by the length of their waves: the order of series priors.

    Parameters
    ----------
    d : int
        Number of inputs.
    size : int
        Number of functions.

    Returns
    -------
    index : FourierIndex
        Of ``size`` functions; in one dimension 1, sin 1, cos 1, sin 2, ...
    """
    R = max(1, size // 2)
    # grow a ball until it holds R waves
    side = int(np.ceil((2.0 * R) ** (1.0 / d)))
    reach = side // 2 + 1
    while True:
        waves = half_space(np.full(d, reach))
        squares = np.sum(waves**2, axis=1)
        in_ball = squares <= reach**2
        if np.count_nonzero(in_ball) >= R:
            break
        reach += max(1, reach // 8)
    waves = waves[in_ball]
    squares = squares[in_ball]
    # by length; waves of one length by their first number, then the second
    keys = (*waves.T[::-1], squares)
    order = np.lexsort(keys)[:R]
    functions = function_list(waves[order])
    return functions.part(slice(size))


def _names(index: FourierIndex) -> list[tuple[bool, *tuple[int, ...]]]:
    """A hashable name of each function: whether it is a sine, and its wave."""
    sines = index.sine.tolist()
    waves = index.waves.tolist()
    return [(sine, *wave) for sine, wave in zip(sines, waves, strict=True)]


def boost_waves(index: FourierIndex, waves: Integers) -> FourierIndex:
    """Reorder functions: the pairs of these waves follow the constant.

    Parameters
    ----------
    index : FourierIndex
        Complete from the constant on.
    waves : ndarray of shape (R, d)
        Distinct and not zero; waves that the list lacks are added to it, with a rank
        after all others.
    """
    if not len(waves):
        return index
    boosted = function_list(waves)
    # ranks of the boosted functions in the list
    names = _names(index)
    rank_of = dict(zip(names, index.ranks.tolist(), strict=True))
    last_rank = 2.0 * len(index) + 1.0
    ranks = [rank_of.get(name, last_rank) for name in _names(boosted)]
    # the other functions, in their order
    boosted_waves = {tuple(wave) for wave in boosted.waves.tolist()}
    is_other = [tuple(wave) not in boosted_waves for wave in index.waves.tolist()]
    remainder = index.part(np.flatnonzero(is_other))
    return FourierIndex(
        waves=np.concatenate((boosted.waves, remainder.waves)),
        sine=np.concatenate((boosted.sine, remainder.sine)),
        ranks=np.concatenate((ranks, remainder.ranks)),
    )


# ---- Multiples of angles -------------------------------------------------------------


Complex = NDArray[np.complex128]


@kernel
def multiple_angles(turns: Array, out: Array) -> None:
    """Write cos and sin of 0, 1, ..., R times the angles, one multiple per row.

    Parameters
    ----------
    turns : ndarray of shape (n,)
        Angles.
    out : ndarray of shape (2, R + 1, n), C-contiguous
        Out: cosines and sines. Errors grow like the multiple times 4e-16.
    """
    n = turns.size
    R = out.shape[1] - 1
    for i in range(n):
        out[0, 0, i] = 1.0
        out[1, 0, i] = 0.0
    if R:
        for i in range(n):
            out[0, 1, i] = cos_turns(turns[i])
            # more accurate than the sine, which every multiple inherits
            out[1, 1, i] = cos_turns(turns[i] - 0.25)
    for k in range(2, R + 1):
        # exp(ik) = exp(ia) exp(ib) with a + b = k, a and b about half
        a = k // 2
        b = k - a
        cos_a = out[0, a]
        sin_a = out[1, a]
        cos_b = out[0, b]
        sin_b = out[1, b]
        cos_k = out[0, k]
        sin_k = out[1, k]
        for i in range(n):
            cos_k[i] = cos_a[i] * cos_b[i] - sin_a[i] * sin_b[i]
            sin_k[i] = sin_a[i] * cos_b[i] + cos_a[i] * sin_b[i]


def angle_tables(
    turns: Array,
    reach: Sequence[int],
) -> Iterator[tuple[slice, list[Array]]]:
    """Tables of multiple angles of each input, for blocks of rows.

    Parameters
    ----------
    turns : ndarray of shape (n, d)
    reach : sequence of d int
        Largest multiple of each input.

    Yields
    ------
    rows : slice
    tables : list of d ndarrays of shape (2, reach_j + 1, b)
        Overwritten by the next block. Always whole blocks, so that no row depends on
        the others; in the last one only the first columns belong to rows.
    """
    # full vector registers, and tables that stay in the second-level cache
    d = len(reach)
    n_multiples = sum(r + 1 for r in reach)
    n_rows_in_cache = (1 << 15) // n_multiples
    full_registers = n_rows_in_cache // 32 * 32
    size = max(32, min(256, full_registers))
    tables = [np.zeros((2, r + 1, size)) for r in reach]
    angles = np.zeros((d, size))
    for start in range(0, len(turns), size):
        block = turns[start : start + size]
        angles[:, : len(block)] = block.T
        for angle, table in zip(angles, tables, strict=True):
            multiple_angles(angle, table)
        rows = slice(start, start + len(block))
        yield rows, tables


def row_products(tables: Sequence[Array]) -> Array:
    """All products of one row of each table, shape (product of heights, b)."""
    product = tables[0]
    for table in tables[1:]:
        products = product[:, np.newaxis] * table
        product = products.reshape(-1, table.shape[-1])
    return product


def from_real(values: Array, reach: Sequence[int]) -> Complex:
    """Sums of complex waves from sums of products of cosines and sines.

    Parameters
    ----------
    values : ndarray of Π 2 (reach_j + 1) numbers
        One axis ``(cos or sin, multiple)`` for each input.
    reach : sequence of d int

    Returns
    -------
    sums : ndarray of shape (2 reach_1 + 1, ..., 2 reach_d + 1)
    """
    shape: list[int] = []
    for r in reach:
        shape += [2, r + 1]
    sums: Complex = np.asarray(values, np.complex128).reshape(shape)
    for j in range(len(reach)):
        # axis j holds cos and sin, axis j + 1 the multiples
        cosine, sine = np.moveaxis(sums, j, 0)
        # exp(±iq) = cos q ± i sin q
        positive = cosine + 1j * sine
        negative = cosine - 1j * sine
        # -r, ..., -1 and 0, ..., r
        upper = np.moveaxis(positive, j, 0)
        lower = np.moveaxis(negative, j, 0)[:0:-1]
        both_sides = np.concatenate((lower, upper))
        sums = np.moveaxis(both_sides, 0, j)
    return sums


def to_real(values: Complex) -> Array:
    """Coefficients of products of cosines and sines of ``Re Σ_q v_q exp(iq·)``.

    The adjoint of :func:`from_real`: ``(2, R_1 + 1, ..., 2, R_d + 1)`` numbers.
    """
    d = values.ndim
    for j in range(d):
        axis = 2 * j
        by_wave = np.moveaxis(values, axis, 0)
        R = len(by_wave) // 2
        upper = by_wave[R:]
        lower = by_wave[R::-1]
        # v exp(iq) + v' exp(-iq) = (v + v') cos q + i (v - v') sin q
        cosine = upper + lower
        sine = 1j * (upper - lower)
        # the zero wave stands on both sides
        cosine[0] *= 0.5
        coefficients = np.stack((cosine, sine))
        values = np.moveaxis(coefficients, (0, 1), (axis, axis + 1))
    return np.ascontiguousarray(values.real)


# ---- Gram matrices from sums of waves, and the way back ------------------------------


# Numbers e_q for every integer vector with |q_i| <= reach_i, at position q + reach: an
# array with sides of 2 reach_i + 1.
WaveTable = Complex


def reach_of(table: WaveTable) -> Integers:
    """Largest wave number of each input, shape (d,)."""
    return np.array([(size - 1) // 2 for size in table.shape])


def strides_of(table: WaveTable) -> Integers:
    """Steps of the flat position for one unit of each wave number."""
    sides = np.array((*table.shape[1:], 1))
    steps = np.cumprod(sides[::-1])
    return steps[::-1]


def waves_of(table: WaveTable, waves: Integers) -> Complex:
    """``e_q`` of waves (m, d), zero outside the table; shape (m,)."""
    reach = reach_of(table)
    in_table = np.all(np.abs(waves) <= reach, axis=1)
    places = np.clip(waves, -reach, reach) + reach
    positions = places @ strides_of(table)
    values = table.ravel()[positions]
    return np.where(in_table, values, 0.0)


def amplitudes(index: FourierIndex) -> Complex:
    """``u_j`` of Fourier functions ``φ_j = Re u_j exp(2πi k_j·t)``, shape (m,)."""
    phases = np.where(index.sine, -1j, 1.0)
    return np.sqrt(2.0) * index.scales() * phases


def _products(
    index: FourierIndex,
    table: WaveTable,
) -> Iterator[tuple[Integers, Complex]]:
    """Both waves of ``φ_i φ_j``, their sum and their difference.

    ``φ_i φ_j = ½ Re(u_i u_j exp(2πi (k_i + k_j)·t) + u_i conj(u_j) exp(2πi (k_i -
    k_j)·t))``.

    Yields
    ------
    positions : ndarray of shape (m, m)
        Of the wave in the flat table.
    coefficients : ndarray of shape (m, m)
    """
    k = index.waves @ strides_of(table)
    u = amplitudes(index)
    half = 0.5 * u
    middle = table.size // 2
    # k_i + k_j
    sums = np.add.outer(k, k) + middle
    yield sums, np.outer(half, u)
    # k_i - k_j
    differences = np.subtract.outer(k, k) + middle
    yield differences, np.outer(half, np.conj(u))


def gram(index: FourierIndex, table: WaveTable) -> Array:
    """``Φᵀ diag(w) Φ`` of Fourier functions, shape (m, m); O(m^2).

    Parameters
    ----------
    index : FourierIndex
    table : WaveTable
        Sums of the weights; reaches twice as far as the functions (not checked).
    """
    sums = table.ravel()
    total = np.zeros((len(index), len(index)))
    for positions, coefficients in _products(index, table):
        total += (coefficients * sums[positions]).real
    return total


def moment(index: FourierIndex, table: WaveTable) -> Array:
    """``Φᵀ diag(w) y`` from sums of waves times y, shape (m,)."""
    sums = waves_of(table, index.waves)
    return (amplitudes(index) * sums).real


def collapse(index: FourierIndex, covariance: Array) -> WaveTable:
    """Variance ``φ(x)ᵀ V φ(x)`` as a sum of waves.

    Parameters
    ----------
    index : FourierIndex
    covariance : ndarray of shape (m, m)
        ``V``, symmetric, of the weights of unwhitened functions.

    Returns
    -------
    table : WaveTable
        ``v_q`` with ``φ(x)ᵀ V φ(x) = Re Σ_q v_q exp(2πi q·t)``; the adjoint of
        :func:`gram`. Reaches twice as far as the functions. O(m^2).
    """
    table = np.zeros(4 * index.reach() + 1, np.complex128)
    flat = table.reshape(-1)
    for positions, coefficients in _products(index, table):
        # real and imaginary parts of the sums
        for unit in (1.0, 1j):
            component = (coefficients / unit).real
            terms = covariance * component
            sums = np.bincount(
                positions.ravel(),
                weights=terms.ravel(),
                minlength=len(flat),
            )
            flat += unit * sums
    return table


def combination(index: FourierIndex, coefficients: Array) -> WaveTable:
    """``φ(x)ᵀ a`` as a sum of waves, as far as :func:`collapse` reaches."""
    table = np.zeros(4 * index.reach() + 1, np.complex128)
    middle = table.size // 2
    positions = middle + index.waves @ strides_of(table)
    terms = amplitudes(index) * coefficients
    np.add.at(table.reshape(-1), positions, terms)
    return table


def convolve(sums: WaveTable, function: WaveTable, reach: Integers) -> WaveTable:
    """``Σ_i w_i f(t_i) exp(2πi k·t_i)`` for ``|k| <= reach``.

    Parameters
    ----------
    sums : WaveTable
        Of the weights; reaches as far as `reach` and the function together.
    function : WaveTable
        ``f(t) = Re Σ_q v_q exp(2πi q·t)``.
    reach : ndarray of shape (d,)

    Notes
    -----
    ``Σ_q h_q e_(k+q)`` with ``h_q = ½ (v_q + conj v_-q)``: a convolution, by fast
    Fourier transforms.
    """
    h = 0.5 * (function + np.conj(np.flip(function)))
    full_shape = [a + b - 1 for a, b in zip(sums.shape, h.shape, strict=True)]
    shape = [fft.next_fast_len(size) for size in full_shape]
    # Σ_q h_q e_(k+q), the convolution of e with the flipped h
    sums_transform = fft.fftn(sums, shape)
    h_transform = fft.fftn(np.flip(h), shape)
    convolution = fft.ifftn(sums_transform * h_transform)
    # waves up to the reach
    middle = reach_of(sums) + reach_of(function)
    lower = middle - reach
    upper = middle + reach + 1
    window = tuple(map(slice, lower, upper))
    return convolution[window]


def evaluate(tables: Sequence[WaveTable], turns: Array) -> Array:
    """``Re Σ_q v_q exp(2πi q·t)`` at turns (n, d), shape (n, number of tables).

    Parameters
    ----------
    tables : sequence of WaveTable
        Of equal reach.
    turns : ndarray of shape (n, d)

    Notes
    -----
    ``Π (2 reach_i + 2)`` multiplications for a row and a table.
    """
    n_tables = len(tables)
    reach = [int(r) for r in reach_of(tables[0])]
    # cosines and sines of the first input
    height = 2 * reach[0] + 2
    by_table = [to_real(table).reshape(height, -1) for table in tables]
    coefficients = np.stack(by_table, axis=1)
    coefficients = coefficients.reshape(height, -1)
    out = np.empty((len(turns), n_tables))
    for rows, angles in angle_tables(turns, reach):
        size = angles[0].shape[-1]
        waves = [table.reshape(-1, size) for table in angles]
        # sum over the waves of the first input
        sums = coefficients.T @ waves[0]
        sums = sums.reshape(n_tables, -1, size)
        # then of all others
        if len(waves) > 1:
            sums = sums * row_products(waves[1:])
        values = sums.sum(axis=1).T
        n_rows = rows.stop - rows.start
        out[rows] = values[:n_rows]
    return out
