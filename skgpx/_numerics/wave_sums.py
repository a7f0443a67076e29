"""Sums of waves over rows, for inputs of any dimension, waves fixed beforehand."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics.fourier_gram import WaveTable

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

# Rows handled at a time.
_ROWS = 2048


class WaveSums(NamedTuple):
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

    def add(self, other: WaveSums) -> WaveSums:
        """Sums over both sets of rows."""
        return WaveSums(
            WaveTable(self.sums.values + other.sums.values),
            WaveTable(self.moments.values + other.moments.values),
        )

    def less(self, shift: float) -> WaveSums:
        """Sums with a constant subtracted from y."""
        middle = self.sums.reach - self.moments.reach
        inner = tuple(
            slice(a, a + size)
            for a, size in zip(middle, self.moments.values.shape, strict=True)
        )
        moments = self.moments.values - shift * self.sums.values[inner]
        return WaveSums(self.sums, WaveTable(moments))


def wave_sums(turns: Array, y: Array, weights: Array, reach: Integers) -> WaveSums:
    """Sums over one block of rows.

    Parameters
    ----------
    turns : ndarray of shape (n, d)
        Angles.
    y, weights : ndarray of shape (n,)
    reach : ndarray of shape (d,)
        Largest wave number ``K_i`` of the functions, for each input.
    """
    sums = np.zeros(4 * reach + 1, np.complex128)
    moments = np.zeros(2 * reach + 1, np.complex128)
    for start in range(0, len(y), _ROWS):
        rows = slice(start, start + _ROWS)
        sums += _sum_waves(turns[rows], weights[rows], 2 * reach)
        moments += _sum_waves(turns[rows], weights[rows] * y[rows], reach)
    return WaveSums(WaveTable(sums), WaveTable(moments))


def _sum_waves(turns: Array, weights: Array, reach: Integers) -> NDArray[np.complex128]:
    """``Σ_i w_i exp(2πi q·t_i)`` over the whole table."""
    product = weights[:, np.newaxis].astype(np.complex128)
    for j, r in enumerate(reach[:-1]):
        waves = np.exp(2j * np.pi * np.outer(turns[:, j], np.arange(-r, r + 1)))
        product = (product[:, :, np.newaxis] * waves[:, np.newaxis]).reshape(
            len(turns), -1
        )
    last = np.arange(-reach[-1], reach[-1] + 1)
    total = product.T @ np.exp(2j * np.pi * np.outer(turns[:, -1], last))
    return total.reshape(2 * reach + 1)
