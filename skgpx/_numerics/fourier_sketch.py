"""Sums over rows from which the sums of any waves follow.

In one dimension: moments of the position in each of B bins (*bin moments*). They do not
depend on the waves, which are chosen after the data are gone.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray
from scipy.special import jv

from skgpx._numerics.fourier_gram import WaveTable

Array = NDArray[np.float64]
Complex = NDArray[np.complex128]

# Moments of a bin.
N_MOMENTS = 12
# Bins for each unit of the largest wave number; with 12 moments the error of a sum of
# unit waves is below 2 J₁₂(π/5) = 4e-15 of the sum of the weights, for any data.
BINS_PER_WAVE = 5


class BinMoments(NamedTuple):
    """Moments of the rows in each bin of a period.

    Attributes
    ----------
    values : ndarray of shape (B, 2, p)
        ``Σ w u^q`` and ``Σ w y u^q`` with u in [-1, 1] the place in the bin.
    """

    values: Array

    @property
    def largest_wave(self) -> int:
        """Largest wave number with full accuracy."""
        return len(self.values) // BINS_PER_WAVE

    def add(self, other: BinMoments) -> BinMoments:
        """Moments of both sets of rows."""
        return BinMoments(self.values + other.values)

    def less(self, shift: float) -> BinMoments:
        """Moments with a constant subtracted from y."""
        values = self.values.copy()
        values[:, 1] -= shift * values[:, 0]
        return BinMoments(values)

    def tables(self, reach: int) -> tuple[WaveTable, WaveTable]:
        """Sums of waves up to ``reach`` with the weights, half as far with y too."""
        sums = _wave_sums(self.values[:, 0], reach)
        moments = _wave_sums(self.values[:, 1], reach // 2)
        return _two_sided(sums), _two_sided(moments)


def n_bins(largest_wave: int) -> int:
    """Bins for sums of waves up to this number: a power of two, at least 256."""
    needed = max(256, BINS_PER_WAVE * largest_wave)
    return 1 << (needed - 1).bit_length()


def bin_moments(turns: Array, y: Array, weights: Array, bins: int) -> BinMoments:
    """Bin moments of one block of rows.

    Parameters
    ----------
    turns : ndarray of shape (n,)
        Angles in [0, 1], finite (not checked; one belongs to the last bin).
    y, weights : ndarray of shape (n,)
    bins : int
        Number of bins B.
    """
    scaled = turns * bins
    place = np.minimum(scaled.astype(np.int64), bins - 1)
    u = 2.0 * (scaled - place) - 1.0
    values = np.empty((bins, 2, N_MOMENTS))
    for q in range(N_MOMENTS):
        values[:, 0, q] = np.bincount(place, weights * u**q, bins)
        values[:, 1, q] = np.bincount(place, weights * y * u**q, bins)
    return BinMoments(values)


def _wave_sums(moments: Array, reach: int) -> Complex:
    """``Σ w exp(2πi k t)`` for k = 0..reach from moments (B, p)."""
    B = len(moments)
    # Σ_b exp(2πi k b/B) M_bq
    transformed = np.conj(np.fft.rfft(moments, axis=0)[: reach + 1])
    k = np.arange(reach + 1)
    coefficients = _exponential_polynomials(np.pi * k / B)
    sums = np.sum(coefficients * transformed, axis=1)
    return np.exp(1j * np.pi * k / B) * sums


def _exponential_polynomials(a: Array) -> Complex:
    """Coefficients of ``exp(i a u) ≈ Σ_q c_q u^q`` on [-1, 1], shape (len(a), p).

    The truncated Chebyshev series ``J_0(a) + 2 Σ i^q J_q(a) T_q(u)``, with error
    ``2 J_p(a)``: 2^(p-1) times smaller than that of the Taylor series.
    """
    q = np.arange(N_MOMENTS)
    series = 2.0 * 1j**q * jv(q, a[:, np.newaxis])
    series[:, 0] *= 0.5
    powers = np.zeros((N_MOMENTS, N_MOMENTS))
    for j in range(N_MOMENTS):
        powers[j, : j + 1] = chebyshev.cheb2poly(np.eye(N_MOMENTS)[j][: j + 1])
    return series @ powers


def _two_sided(sums: Complex) -> WaveTable:
    """Table over -reach..reach from 0..reach: conjugates for negative waves."""
    return WaveTable(np.concatenate((np.conj(sums[:0:-1]), sums)))
