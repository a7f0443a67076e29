"""Gram matrices of Fourier functions from sums of waves, and the way back.

Products of two waves are waves of sum and difference, so that ``Φᵀ diag(w) Φ`` holds
only the numbers ``e_q = Σ_i w_i exp(2πi q·t_i)`` with ``|q| <= 2 max |k|``: a Toeplitz
plus a Hankel matrix in one dimension.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from skgpx._numerics.fourier_index import FourierIndex, Integers
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


def amplitudes(index: FourierIndex) -> Complex:
    """``u_j`` of Fourier functions ``φ_j = Re u_j exp(2πi k_j·t)``, shape (m,)."""
    return np.sqrt(2.0) * index.scales() * np.where(index.sine, -1j, 1.0)


def _products(index: FourierIndex, table: WaveTable) -> Any:
    """Places in a flat table, and coefficients, of both waves of ``φ_i φ_j``.

    ``φ_i φ_j = ½ Re(u_i u_j exp(2πi (k_i + k_j)·t) + u_i conj(u_j) exp(2πi (k_i -
    k_j)·t))``.
    """
    places, u = index.waves @ table.strides(), 0.5 * amplitudes(index)
    middle = table.values.size // 2
    yield np.add.outer(places, places) + middle, np.outer(u, 2.0 * u)
    yield np.subtract.outer(places, places) + middle, np.outer(u, 2.0 * np.conj(u))


def gram(index: FourierIndex, table: WaveTable) -> Array:
    """``Φᵀ diag(w) Φ`` of Fourier functions, shape (m, m); O(m^2).

    Parameters
    ----------
    index : FourierIndex
    table : WaveTable
        Sums of the weights; reaches twice as far as the functions (not checked).
    """
    values = table.values.ravel()
    parts = ((u * values[q]).real for q, u in _products(index, table))
    total: Array = sum(parts, start=np.zeros((len(index), len(index))))
    return total


def moment(index: FourierIndex, table: WaveTable) -> Array:
    """``Φᵀ diag(w) y`` from sums of waves times y, shape (m,)."""
    moments: Array = (amplitudes(index) * table.at(index.waves)).real
    return moments


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
    table = WaveTable(np.zeros(4 * index.reach() + 1, np.complex128))
    values = table.values.reshape(-1)
    for q, u in _products(index, table):
        for unit in (1.0, 1j):
            part = (covariance * (u / unit).real).ravel()
            values += unit * np.bincount(q.ravel(), part, len(values))
    return table


def combination(index: FourierIndex, coefficients: Array) -> WaveTable:
    """``φ(x)ᵀ a`` as a sum of waves, as far as :func:`collapse` reaches."""
    table = WaveTable(np.zeros(4 * index.reach() + 1, np.complex128))
    places = table.values.size // 2 + index.waves @ table.strides()
    np.add.at(table.values.reshape(-1), places, amplitudes(index) * coefficients)
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
