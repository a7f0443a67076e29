"""Significant waves: how strong a wave is in noise, and the period of residuals.

Every search for waves compares the strongest of them with :func:`false_alarm_level`:
here under a kernel, for Fourier functions on sums over rows, for learned frequencies on
the errors of a start.
"""

from __future__ import annotations

import numpy as np

from skgpx._hyperparameters._evidence import whiten
from skgpx._numerics.linalg import solve_lower
from skgpx._shell.validation import Rows
from skgpx._types import Array, Kernel
from skgpx.kernels import triangle_and_pullback

# Probability that noise without a wave has a significant one.
FALSE_ALARMS = 0.01
# Lowest frequency of a season, in half cycles over the rows.
_FEWEST_HALF_CYCLES = 6
# Frequencies below which there is no season to find.
_FEWEST_FREQUENCIES = 8
# A season has its strongest wave among its first four harmonics.
_MAX_HARMONIC = 4


def false_alarm_level(n_waves: float, probability: float = FALSE_ALARMS) -> float:
    """Nats that the strongest of K waves gains by chance with this probability.

    In noise the gain of a wave, or its power in units of the noise, is a standard
    exponential variable. Bonferroni's bound on the largest of them: ``K exp(-level) =
    probability``.
    """
    return float(np.log(n_waves / probability))


def significant_periods(
    rows: Rows,
    kernel: Kernel,
    noise_variance: float,
    searched: Array,
) -> list[float]:
    """Periods that the strongest wave in the residuals from a kernel may stand for.

    Its own, and those of which it is a harmonic, from short to long; none if it is not
    significant.

    Parameters
    ----------
    rows : Rows
        Of one column.
    kernel : sklearn.gaussian_process.kernels.Kernel
    noise_variance : float
    searched : ndarray of shape (n, 1)
        Inputs of the rows on which the search ends, whose spacing is that of the
        shortest period.
    """
    n_frequencies = len(np.unique(searched)) - 1
    if n_frequencies < _FEWEST_FREQUENCIES:
        return []
    # from three cycles to the shortest wave of the rows, twice as dense as peaks
    step = np.pi / float(np.ptp(searched))
    omega = step * np.arange(float(_FEWEST_HALF_CYCLES), n_frequencies)
    gains = wave_gains(rows, kernel, noise_variance, omega)
    if np.max(gains) <= false_alarm_level(len(omega)):
        return []
    # the season whose harmonic the strongest is may be longer
    longest = step * _FEWEST_HALF_CYCLES
    multiples = np.arange(1, _MAX_HARMONIC + 1)
    frequencies = omega[np.argmax(gains)] / multiples
    return (2.0 * np.pi / frequencies[frequencies >= 0.999 * longest]).tolist()


def wave_gains(
    rows: Rows,
    kernel: Kernel,
    noise_variance: float,
    omega: Array,
) -> Array:
    """Log evidence, in nats, that a wave of each frequency adds to the process.

    Its two amplitudes are estimated by least squares under the covariance of the
    process: a periodogram of the residuals from the kernel, in its single column.
    Where there is no wave the gains are standard exponential variables.
    """
    K, _ = triangle_and_pullback(kernel, rows.X)
    L, white, _ = whiten(K, rows, noise_variance)
    centred = rows.X - rows.X.mean()
    phases = centred * omega
    c = solve_lower(L, np.cos(phases))
    s = solve_lower(L, np.sin(phases))
    # F = [cos, sin], b = Fᵀ C⁻¹ y, G = Fᵀ C⁻¹ F
    yc = white.T @ c
    ys = white.T @ s
    cc = np.sum(c * c, axis=0)
    ss = np.sum(s * s, axis=0)
    cs = np.sum(c * s, axis=0)
    # ½ bᵀ G⁻¹ b, G⁻¹ by its determinant
    squares = yc**2 * ss - 2.0 * yc * ys * cs + ys**2 * cc
    gains: Array = 0.5 * squares
    determinant = cc * ss - cs**2
    # on a grid the sines of the shortest wave are zero
    gains /= np.maximum(determinant, 1e-10 * cc * ss)
    return np.max(gains, axis=0)
