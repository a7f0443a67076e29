"""Gram matrices of Fourier functions from sums of waves, and the way back.

Products of two waves are waves of sum and difference, so that ``Φᵀ diag(w) Φ`` holds
only the numbers ``e_q = Σ_i w_i exp(2πi q·t_i)`` with ``|q| <= 2 max |k|``: a Toeplitz
plus a Hankel matrix in one dimension.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics.fourier_index import FourierIndex, Integers

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
    flat = index.waves @ table.strides()
    middle = table.values.size // 2
    values = table.values.ravel()
    difference = values[middle + flat[:, np.newaxis] - flat]
    total = values[middle + flat[:, np.newaxis] + flat]
    sine, scales = index.sine, index.scales()
    both = np.where(sine, -1.0, 1.0)
    # both cosines or both sines
    G = difference.real + np.where(sine[:, np.newaxis] & sine, -1.0, 1.0) * total.real
    mixed = sine[:, np.newaxis] != sine
    # S(k + l) ± S(k - l), with + where k is the sine
    G = np.where(mixed, total.imag - both[:, np.newaxis] * difference.imag, G)
    G *= scales[:, np.newaxis] * scales
    return G


def moment(index: FourierIndex, table: WaveTable) -> Array:
    """``Φᵀ diag(w) y`` from sums of waves times y, shape (m,)."""
    sums = table.at(index.waves)
    parts = np.where(index.sine, sums.imag, sums.real)
    return np.sqrt(2.0) * index.scales() * parts


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
    reach = 2 * index.reach()
    values = np.zeros(2 * reach + 1, np.complex128)
    table = WaveTable(values)
    flat = index.waves @ table.strides()
    middle = values.size // 2
    scales = index.scales()
    V = covariance * (scales[:, np.newaxis] * scales)
    sine = index.sine
    mixed = sine[:, np.newaxis] != sine
    signs = np.where(sine[:, np.newaxis] & sine, -1.0, 1.0)
    both = np.where(sine, -1.0, 1.0)[:, np.newaxis]
    # Re(c e) = c' Re e - c'' Im e
    total = np.where(mixed, -1j * V, signs * V)
    difference = np.where(mixed, 1j * both * V, V)
    size = values.size
    for where, what in (
        (middle + flat[:, np.newaxis] + flat, total),
        (middle + flat[:, np.newaxis] - flat, difference),
    ):
        place = where.ravel()
        values.ravel()[:] += np.bincount(place, what.real.ravel(), size)
        values.ravel()[:] += 1j * np.bincount(place, what.imag.ravel(), size)
    return table


def evaluate(table: WaveTable, turns: Array) -> Array:
    """``Re Σ_q v_q exp(2πi q·t)`` at turns (n, d), shape (n,)."""
    axes = [np.arange(-r, r + 1) for r in table.reach]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
    waves = grid.reshape(-1, len(axes)).astype(np.float64)
    phases = 2.0 * np.pi * (turns @ waves.T)
    values = table.values.ravel()
    result: Array = np.cos(phases) @ values.real - np.sin(phases) @ values.imag
    return result
