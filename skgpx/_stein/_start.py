"""Where learning starts: the kernel's spectral density, and waves that stand out."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics.regression import posterior, weight_statistics
from skgpx._numerics.wave_evidence import Waves
from skgpx._stein._features import kernel_waves
from skgpx._stein._waves import Centring, WaveMixture
from skgpx._validation import Rows

Array = NDArray[np.float64]
Rng = np.random.Generator

# Median of |N(0, 1)|.
_HALF_NORMAL = 0.6744897501960817
# Standard deviation of half the difference of the two frequencies of a pair.
_SEPARATION = 0.3


def starting_waves(
    kernel: Any,
    noise_variance: Any,
    shape: tuple[int, int, int],
    rng: Rng,
) -> WaveMixture:
    """Quasi-random frequencies (M, R, d) from the spectral distribution of the kernel.

    Raises
    ------
    ValueError
        If a part of the kernel has no spectral distribution.
    """
    M, R, d = shape
    how = R, "sobol", np.ones(d), 0
    samples = [kernel_waves(kernel, *how, stream) for stream in rng.spawn(M)]
    omega = np.stack([sample.frequencies for sample in samples])
    # the length scale of an RBF with frequencies of this size, where there are some
    sizes = [column[column > 0.0] for column in np.abs(omega).reshape(-1, d).T]
    scale = [_HALF_NORMAL / np.median(s) if len(s) else 1.0 for s in sizes]
    amplitudes = samples[0].amplitudes
    mixture = omega * scale, amplitudes, np.array(scale), noise_variance
    return WaveMixture(kernel, *mixture)


def as_pairs(start: WaveMixture, rows: Rows, rng: Rng) -> WaveMixture:
    """Pairs ``(ω + δ, ω - δ)`` about the frequencies, of the centred rows.

    The evidence is even in δ: at zero its slope vanishes, and the pairs would stay
    together. Entries of δ are normal, `_SEPARATION` in units of one over the length
    scale, or over the standard deviation of an input that is wider; a frequency that is
    zero, of a term of other columns, stays.
    """
    centring = Centring(np.average(rows.X, axis=0, weights=rows.weights))
    squares = centring(rows.X) ** 2
    std = np.sqrt(np.average(squares, axis=0, weights=rows.weights))
    omega = start.frequencies
    delta = _SEPARATION * rng.standard_normal(omega.shape) * (omega != 0.0)
    delta /= np.maximum(std / start.length_scale, 1.0)
    pairs = np.stack((omega + delta, omega - delta), axis=2)
    # a network centres its inputs itself
    warp = centring if start.warp is None else start.warp
    return start._replace(frequencies=pairs, warp=warp)


# ---- Waves that stand out of the periodogram -----------------------------------------


def peaks(rows: Rows, start: WaveMixture, most: int = 10) -> Waves | None:
    """Waves along one column that stand out of what the first component leaves of y.

    Of several targets, of any of them.

    Frequencies far out in the spectral density of the kernel are next to no
    quasi-random point, and no descent gets there: the evidence has a peak as narrow as
    ``1 / range`` at each.
    """
    waves = start.waves()[0]
    R = len(waves.amplitudes)
    for _ in range(min(most, R // 4)):
        peak = _peak(rows, leave_one_out(rows, waves)[0])
        if peak is None:
            break
        omega, amplitude = peak
        waves = waves._replace(
            frequencies=np.vstack((omega, waves.frequencies)),
            amplitudes=np.append(amplitude, waves.amplitudes),
        )
    n = len(waves.amplitudes) - R
    if n == 0:
        return None
    return waves._replace(
        frequencies=waves.frequencies[:n],
        amplitudes=waves.amplitudes[:n],
    )


def with_peaks(
    start: WaveMixture,
    peaks: Waves,
    amplitude_is_free: bool,
) -> WaveMixture:
    """Start of which each component has the peaks in place of its first waves.

    Their amplitudes are at least those of the peaks, if the variance of the kernel is
    not given.
    """
    n = len(peaks.amplitudes)
    frequencies, amplitudes = start.frequencies.copy(), start.amplitudes.copy()
    frequencies[:, :n] = peaks.frequencies * start.length_scale
    if amplitude_is_free:
        amplitudes[:n] = np.maximum(amplitudes[:n], peaks.amplitudes)
    return start._replace(frequencies=frequencies, amplitudes=amplitudes)


def without_peaks(rows: Rows, peaks: Waves) -> Rows:
    """Rows with what least squares of the peaks leave of y."""
    root = np.sqrt(rows.weights)
    features = peaks.features(rows.X)
    y = (rows.y.T * root).T
    coefficients = np.linalg.lstsq((features * root).T, y, rcond=None)[0]
    return rows._replace(y=rows.y - features.T @ coefficients)


def leave_one_out(rows: Rows, waves: Waves) -> tuple[Array, Array]:
    """Errors at each row given the others, and their variances.

    A start that overfits would hide in its residuals what it follows.
    """
    features, noise = waves.features(rows.X).T, waves.noise_variance
    sums = weight_statistics(features, rows.y, rows.weights, np.zeros(len(rows.y)))
    moments = posterior(sums, noise).latent(features)
    mean, explained = (part[:, :, 0].reshape(rows.y.shape) for part in moments)
    # diagonal of the matrix from y to fitted values, ΦSΦᵀ / σ²
    leverage = (rows.weights * (explained / noise).T).T
    free = np.maximum(1.0 - leverage, 1e-3)
    # (y - φᵀw) / (1 - h), of variance σ² / (1 - h)
    return (rows.y - mean) / free, noise / free


def _peak(rows: Rows, errors: Array) -> tuple[Array, float] | None:
    """Frequency (d,) and amplitude of the strongest wave, if it stands out.

    It gains 0.01 nats an observation, and 7 nats more than the largest of the waves
    that were tried would by chance.
    """
    tried, best, chosen, amplitude = 0, 0.0, np.zeros(rows.X.shape[1]), 0.0
    weighted = (rows.weights * errors.T).T.reshape(len(errors), -1)
    sizes = np.sum(weighted**2, axis=0)
    for k, x in enumerate(rows.X.T):
        different = len(np.unique(x))
        if different < 3 or not np.any(sizes):
            continue
        # twice as dense as peaks are wide
        step = np.pi / np.ptp(x)
        grid = step * np.arange(1.0, min(different, 1000) + 1.0)
        shares = _shares(x, weighted, sizes, grid)
        tried += shares.size
        if shares.max() > best:
            centre = grid[np.argmax(shares.max(axis=1))]
            fine = centre + step * np.linspace(-0.5, 0.5, 9)
            shares = _shares(x, weighted, sizes, fine)
            at, target = np.unravel_index(np.argmax(shares), shares.shape)
            best, chosen = float(shares.max()), np.zeros(rows.X.shape[1])
            chosen[k] = fine[at]
            amplitude = np.sqrt(2.0 * best * sizes[target]) / rows.weights.sum()
    # for independent residuals twice this is chi-squared of two degrees of freedom
    gain = -0.5 * np.log1p(-min(2.0 * best / len(errors), 0.999))
    if tried == 0 or gain < 0.01 or best < np.log(tried) + 7.0:
        return None
    return chosen, float(amplitude)


def _shares(x: Array, weighted: Array, sizes: Array, omega: Array) -> Array:
    """``|Σ r exp(iωx)|² / Σ r²`` of frequencies along one column and targets, (F, t).

    A hundred frequencies at a time; zero for a target without residuals.
    """
    parts = []
    for first in range(0, len(omega), 100):
        some = omega[first : first + 100, np.newaxis]
        features = Waves(some, np.ones(len(some)), 1.0).features(x[:, np.newaxis])
        waves = (features @ weighted).reshape(2, len(some), -1)
        parts.append(np.sum(waves**2, axis=0) / np.where(sizes > 0.0, sizes, 1.0))
    return np.concatenate(parts)
