"""Where learning starts: the kernel's spectral density, and waves that stand out."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics.regression import posterior, weight_statistics
from skgpx._numerics.wave_evidence import WaveRows, Waves, wave_evidence
from skgpx._stein._features import kernel_waves
from skgpx._stein._waves import WaveMixture

# ---- Quasi-random frequencies --------------------------------------------------------


Array = NDArray[np.float64]
Rng = np.random.Generator

# Median of |N(0, 1)|.
_HALF_NORMAL = 0.6744897501960817
# Numbers of frequencies that "auto" compares, and the gain in nats per observation
# required of the next.
NUMBERS = (50, 100, 200, 400)
_WORTH = 0.01


def starting_waves(
    kernel: Any, noise_variance: float, shape: tuple[int, int, int], rng: Rng
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
    # the length scale of an RBF with frequencies of this size
    size = np.median(np.abs(omega).reshape(-1, d), axis=0)
    scale = _HALF_NORMAL / np.where(size > 0.0, size, _HALF_NORMAL)
    return WaveMixture(omega * scale, samples[0].amplitudes, scale, noise_variance)


def enough_frequencies(
    kernel: Any, noise_variance: float, rows: WaveRows, rng: Rng
) -> int:
    """As many frequencies as the evidence of the rows pays for, before they move.

    The number doubles, from 50 to 400, while that gains a hundredth of a nat a row and
    leaves fewer functions than rows.
    """
    n, d = len(rows.y), len(rows.points)
    (stream,) = rng.spawn(1)
    seed = int(stream.integers(2**31))
    best, chosen = -np.inf, NUMBERS[0]
    for number in NUMBERS:
        if number > NUMBERS[0] and 2 * number > n:
            break
        shape, again = (1, number, d), np.random.default_rng(seed)
        start = starting_waves(kernel, noise_variance, shape, again)
        evidence = wave_evidence(rows, start.waves(0))
        if evidence < best + _WORTH * float(rows.weights.sum()):
            break
        best, chosen = evidence, number
    return chosen


# ---- Waves that stand out of the periodogram -----------------------------------------


# Most frequencies that are tried in a column, most waves that are added, and
# frequencies whose features are in memory at a time.
_TRIED, _MOST, _BLOCK = 1000, 10, 100
# Waves that stand out gain this many nats an observation, and in all this many more
# than the largest of the waves that are tried would by chance.
_GAIN, _BY_CHANCE = 0.01, 7.0
# Least share of a row that its own fitted value leaves free.
_LEAST_FREE = 1e-3


def peaks(rows: WaveRows, waves: Waves) -> Waves:
    """Waves along one column that stand out of what some waves leave of y.

    Frequencies far out in the spectral density of the kernel are next to no
    quasi-random point, and no descent gets there: the evidence has a peak as narrow as
    ``1 / range`` at each.
    """
    found = waves
    for _ in range(min(_MOST, len(waves.amplitudes) // 4)):
        peak = _peak(rows, residuals(rows, found))
        if peak is None:
            break
        omega, amplitude = peak
        found = found._replace(
            frequencies=np.vstack((omega, found.frequencies)),
            amplitudes=np.append(amplitude, found.amplitudes),
        )
    n = len(found.amplitudes) - len(waves.amplitudes)
    return found._replace(
        frequencies=found.frequencies[:n], amplitudes=found.amplitudes[:n]
    )


def with_peaks(start: WaveMixture, peaks: Waves) -> WaveMixture:
    """Start of which each component has the peaks in place of its first waves."""
    n = len(peaks.amplitudes)
    frequencies, amplitudes = start.frequencies.copy(), start.amplitudes.copy()
    frequencies[:, :n] = peaks.frequencies * start.length_scale
    amplitudes[:n] = np.maximum(amplitudes[:n], peaks.amplitudes)
    return start._replace(frequencies=frequencies, amplitudes=amplitudes)


def without_peaks(rows: WaveRows, peaks: Waves) -> Array:
    """What least squares of the peaks leave of y."""
    root = np.sqrt(rows.weights)
    features = peaks.features(rows.points)
    coefficients = np.linalg.lstsq((features * root).T, rows.y * root, rcond=None)[0]
    rest: Array = rows.y - coefficients @ features
    return rest


def residuals(rows: WaveRows, waves: Waves) -> Array:
    """Leave-one-out residuals: a start that overfits would hide what it follows."""
    features = waves.features(rows.points)
    nothing, noise = np.zeros(len(rows.y)), waves.noise_variance
    sums = weight_statistics(features.T, rows.y, rows.weights, nothing)
    weights = posterior(sums, noise)
    # diagonal of the matrix from y to fitted values, ΦSΦᵀ / σ²
    leverage = np.sum((weights.root[0].T @ features) ** 2, axis=0) / noise
    errors: Array = rows.y - weights.mean[:, 0] @ features
    return errors / np.maximum(1.0 - rows.weights * leverage, _LEAST_FREE)


def _peak(rows: WaveRows, errors: Array) -> tuple[Array, float] | None:
    """Frequency (d,) and amplitude of the strongest wave, if it stands out."""
    n, tried, best, chosen = len(errors), 0, 0.0, None
    weighted = rows.weights * errors
    size = float(np.sum(weighted**2))
    for k, x in enumerate(rows.points):
        extent, different = np.ptp(x), len(np.unique(x))
        if different < 3 or size == 0.0:
            continue
        # twice as dense as peaks are wide
        grid = np.pi / extent * np.arange(1.0, min(different, _TRIED) + 1.0)
        power = _power(x, weighted, grid)
        i = int(np.argmax(power))
        tried += len(grid)
        if power[i] > best:
            fine = grid[i] + np.pi / extent * np.linspace(-0.5, 0.5, 9)
            power = _power(x, weighted, fine)
            best, chosen = float(np.max(power)), np.zeros(len(rows.points))
            chosen[k] = fine[np.argmax(power)]
    if chosen is None:
        return None
    # for independent residuals twice this is chi-squared of two degrees of freedom
    chance = best / size
    gain = -0.5 * np.log1p(-min(2.0 * chance / n, 0.999))
    if gain < _GAIN or chance < np.log(tried) + _BY_CHANCE:
        return None
    return chosen, float(np.sqrt(2.0 * best) / rows.weights.sum())


def _power(x: Array, weighted: Array, omega: Array) -> Array:
    """``|Σ r exp(iωx)|²`` of frequencies along one column."""
    parts = []
    for first in range(0, len(omega), _BLOCK):
        some = omega[first : first + _BLOCK, np.newaxis]
        features = Waves(some, np.ones(len(some)), 1.0).features(x[np.newaxis])
        parts.append(np.sum((features @ weighted).reshape(2, -1) ** 2, axis=0))
    return np.concatenate(parts)
