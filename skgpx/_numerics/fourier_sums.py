"""Sums of waves over rows, for inputs of any dimension, waves fixed beforehand."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics.fourier_gram import WaveTable
from skgpx._numerics.wave_tables import angle_tables, from_real, row_products

Array = NDArray[np.float64]
Integers = NDArray[np.int64]


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
