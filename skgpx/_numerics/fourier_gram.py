"""Gram matrices of Fourier functions from sums of waves, and the way back.

Products of two waves are waves of sum and difference, so that ``Φᵀ diag(w) Φ`` holds
only the numbers ``e_q = Σ_i w_i exp(2πi q·t_i)`` with ``|q| <= 2 max |k|``: a Toeplitz
plus a Hankel matrix in one dimension.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from skgpx._numerics._jit import kernel
from skgpx._numerics.fourier_index import Booleans, FourierIndex, Integers
from skgpx._numerics.wave_tables import angle_tables, row_products, to_real

Array = NDArray[np.float64]
Complex = NDArray[np.complex128]


class WaveTable(NamedTuple):
    """Numbers ``e_q`` for every integer vector with ``|q_i| <= reach_i``.

    Attributes
    ----------
    values : ndarray of shape (2 reach_1 + 1, ..., 2 reach_d + 1)
        ``e_q`` at position ``q + reach``.
    """

    values: Complex

    @property
    def reach(self) -> Integers:
        """Largest wave number of each input, shape (d,)."""
        return np.array([(size - 1) // 2 for size in self.values.shape])

    def strides(self) -> Integers:
        """Steps of the flat position for one unit of each wave number."""
        shape = np.array((*self.values.shape[1:], 1))
        return np.cumprod(shape[::-1])[::-1]

    def at(self, waves: Integers) -> Complex:
        """``e_q`` of waves (m, d), zero outside the table; shape (m,)."""
        inside = np.all(np.abs(waves) <= self.reach, axis=1)
        flat = np.clip(waves, -self.reach, self.reach) + self.reach
        return np.where(inside, self.values.ravel()[flat @ self.strides()], 0.0)


def gram(index: FourierIndex, table: WaveTable) -> Array:
    """``Φᵀ diag(w) Φ`` of Fourier functions, shape (m, m).

    Parameters
    ----------
    index : FourierIndex
    table : WaveTable
        Sums of the weights; reaches twice as far as the functions (not checked).

    Notes
    -----
    O(m^2). ``2 cos k cos l = C(k - l) + C(k + l)``, ``2 sin k sin l = C(k - l) -
    C(k + l)``, ``2 sin k cos l = S(k + l) + S(k - l)``.
    """
    places, scales = index.waves @ table.strides(), index.scales()
    out = np.empty((len(index), len(index)))
    values = table.values.ravel()
    _assemble(places, index.sine, scales, values.real.copy(), values.imag.copy(), out)
    return out


@kernel
def _assemble(
    places: Integers,
    sine: Booleans,
    scales: Array,
    cosines: Array,
    sines: Array,
    out: Array,
) -> None:
    """Fill the Gram matrix from C and S at flat positions of the waves."""
    middle = cosines.size // 2
    for j in range(places.size):
        for i in range(j + 1):
            apart = middle + places[i] - places[j]
            total = middle + places[i] + places[j]
            if sine[i] and sine[j]:
                entry = cosines[apart] - cosines[total]
            elif sine[i]:
                entry = sines[total] + sines[apart]
            elif sine[j]:
                entry = sines[total] - sines[apart]
            else:
                entry = cosines[apart] + cosines[total]
            entry *= scales[i] * scales[j]
            out[i, j] = entry
            out[j, i] = entry


def moment(index: FourierIndex, table: WaveTable) -> Array:
    """``Φᵀ diag(w) y`` from sums of waves times y, shape (m,)."""
    sums = table.at(index.waves)
    parts = np.where(index.sine, sums.imag, sums.real)
    scaled: Array = np.sqrt(2.0) * index.scales() * parts
    return scaled


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
    values = np.zeros(4 * index.reach() + 1, np.complex128)
    table = WaveTable(values)
    places, scales = index.waves @ table.strides(), index.scales()
    cosines, sines = np.zeros(values.size), np.zeros(values.size)
    _spread(places, index.sine, scales, covariance, cosines, sines)
    # Re((c - is) exp(iq)) = c cos q + s sin q
    return WaveTable((cosines - 1j * sines).reshape(values.shape))


@kernel
def _spread(
    places: Integers,
    sine: Booleans,
    scales: Array,
    covariance: Array,
    cosines: Array,
    sines: Array,
) -> None:
    """Add each entry of a covariance to the waves its product is made of."""
    middle = cosines.size // 2
    for i in range(places.size):
        for j in range(places.size):
            apart = middle + places[i] - places[j]
            total = middle + places[i] + places[j]
            entry = scales[i] * scales[j] * covariance[i, j]
            if sine[i] and sine[j]:
                cosines[apart] += entry
                cosines[total] -= entry
            elif sine[i]:
                sines[total] += entry
                sines[apart] += entry
            elif sine[j]:
                sines[total] += entry
                sines[apart] -= entry
            else:
                cosines[apart] += entry
                cosines[total] += entry


def combination(index: FourierIndex, coefficients: Array) -> WaveTable:
    """``φ(x)ᵀ a`` as a sum of waves, as far as :func:`collapse` reaches."""
    values = np.zeros(4 * index.reach() + 1, np.complex128)
    table = WaveTable(values)
    places = values.size // 2 + index.waves @ table.strides()
    scaled = np.sqrt(2.0) * index.scales() * coefficients
    np.add.at(values.reshape(-1), places, np.where(index.sine, -1j, 1.0) * scaled)
    return table


def convolved(sums: WaveTable, function: WaveTable, reach: Integers) -> WaveTable:
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
    v = function.values
    half = 0.5 * (v + np.conj(np.flip(v)))
    sides = zip(sums.values.shape, half.shape, strict=True)
    shape = [fft.next_fast_len(a + b - 1) for a, b in sides]
    # h_-q = conj h_q turns the correlation into a convolution
    product = fft.fftn(sums.values, shape) * fft.fftn(np.flip(half), shape)
    whole = fft.ifftn(product)
    middle = sums.reach + function.reach
    kept = tuple(slice(m - r, m + r + 1) for m, r in zip(middle, reach, strict=True))
    return WaveTable(whole[kept])


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
    reach = [int(r) for r in tables[0].reach]
    first = 2 * reach[0] + 2
    real = np.stack([to_real(t.values).reshape(first, -1) for t in tables], axis=1)
    coefficients = real.reshape(first, -1)
    out = np.empty((len(turns), len(tables)))
    for rows, angles in angle_tables(turns, reach):
        flat = [a.reshape(-1, a.shape[-1]) for a in angles]
        sums = (coefficients.T @ flat[0]).reshape(len(tables), -1, flat[0].shape[1])
        if len(flat) > 1:
            sums = sums * row_products(flat[1:])
        out[rows] = sums.sum(axis=1).T[: rows.stop - rows.start]
    return out
