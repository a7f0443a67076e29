"""Evidence of Gaussian regression on waves, and its gradient in closed form.

The features are paired cosines and sines of the phases ``Z = X Wᵀ`` (n, R) of R waves
of amplitudes a, ``Φ = [a cos Z, a sin Z]`` (n, m) with m = 2 R; as in ``regression``::

    B = I + ΦᵀΦ / σ²,   S = B⁻¹,   w̄ = S Φᵀy / σ²

Rows go through in blocks; nothing has the size n², and beside the blocks nothing n m.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics import trigonometry
from skgpx._numerics._jit import kernel
from skgpx._numerics.linalg import inverse_from_root
from skgpx._numerics.regression import (
    WeightStatistics,
    log_evidence_from,
    posterior_mean_from,
    precision_root,
    weight_statistics,
)

Array = NDArray[np.float64]

# Rows whose features are in memory at a time: with 200 waves 6 MB.
_BLOCK = 2048


class WaveRows(NamedTuple):
    """Rows in the layout of the loops.

    Attributes
    ----------
    points : ndarray of shape (d, n)
        Inputs, transposed.
    y, weights : ndarray of shape (n,)
        Targets and frequency weights.
    pulled : ndarray of shape (n, d)
        Inputs, each row times its weight.
    """

    points: Array
    y: Array
    weights: Array
    pulled: Array

    @classmethod
    def of(cls, X: Array, y: Array, weights: Array) -> WaveRows:
        """Rows of inputs (n, d)."""
        points = np.ascontiguousarray(X.T)
        pulled = np.ascontiguousarray(X * weights[:, np.newaxis])
        return cls(points, y, weights, pulled)

    def blocks(self) -> Iterator[WaveRows]:
        """Rows that are in memory together."""
        n = len(self.y)
        if n <= _BLOCK:
            yield self
            return
        for first in range(0, n, _BLOCK):
            rows = slice(first, first + _BLOCK)
            points = np.ascontiguousarray(self.points[:, rows])
            rest = (values[rows] for values in self[1:])
            yield WaveRows(points, *rest)


class Waves(NamedTuple):
    """What the features are made of, and the noise around them.

    Attributes
    ----------
    frequencies : ndarray of shape (R, d)
        W, angular, in radians per unit of the inputs.
    amplitudes : ndarray of shape (R,)
        a; the sum of their squares is the variance of the process.
    noise_variance : float
        σ².
    """

    frequencies: Array
    amplitudes: Array
    noise_variance: float

    def features(self, points: Array) -> Array:
        """Features (m, n) at points (d, n): cosines, then sines."""
        R = len(self.frequencies)
        out = np.empty((2 * R, points.shape[1]))
        turns = self.frequencies / (2.0 * np.pi)
        trigonometry.cosines_and_sines(points, turns, self.amplitudes, out)
        return out


class WaveGradient(NamedTuple):
    """Log evidence of waves, its derivatives, and the law of the weights behind it.

    Attributes
    ----------
    value : float
        In nats.
    frequencies : ndarray of shape (R, d)
        Derivative in W.
    log_variance, log_noise : float
        Derivatives in the logarithms of the variance of the process (all a together)
        and of that of the noise.
    mean : ndarray of shape (m,)
        w̄.
    covariance : ndarray of shape (m, m)
        S.
    """

    value: float
    frequencies: Array
    log_variance: float
    log_noise: float
    mean: Array
    covariance: Array

    def log_length_scales(self, frequencies: Array) -> Array:
        """Derivative in ``log ℓ`` (d,), where ``W = Ω / ℓ`` and Ω stays as it is."""
        return -np.einsum("rd,rd->d", frequencies, self.frequencies)


def wave_statistics(rows: WaveRows, waves: Waves) -> WeightStatistics:
    """Sums over the rows; O(n m²)."""
    parts = (_block_statistics(b, waves.features(b.points)) for b in rows.blocks())
    return reduce(WeightStatistics.add, parts)


def _block_statistics(rows: WaveRows, features: Array) -> WeightStatistics:
    nothing = np.zeros(len(rows.y))
    return weight_statistics(features.T, rows.y, rows.weights, nothing)


def wave_evidence(rows: WaveRows, waves: Waves) -> float:
    """Log evidence ``log N(y | 0, ΦΦᵀ + σ²I)`` in nats; O(n m² + m³).

    In the notation ``A = ΦᵀΦ + σ²I`` of [1]_, whose equation (9) has another sign
    before ``R log σ²``::

        (|Φᵀy|²_{A⁻¹} - yᵀy) / (2σ²) - ½ log|A| + R log σ² - n/2 log(2πσ²)

    References
    ----------
    .. [1] Warren, Oliveira and Ramos, "Stein random feature regression", UAI 2024.
    """
    statistics = wave_statistics(rows, waves)
    root = precision_root(statistics.gram, waves.noise_variance)
    return log_evidence_from(statistics, waves.noise_variance, root)


def wave_gradient(rows: WaveRows, waves: Waves) -> WaveGradient:
    """Log evidence and its gradient.

    Notes
    -----
    For each block one symmetric product, ``ΦᵀΦ``, and one product ``S Φᵀ``; one
    Cholesky factor and one inverse: ``3 n m² + m³`` multiplications and additions.
    """
    # features of a single block serve both passes
    blocks = list(rows.blocks())
    kept = waves.features(rows.points) if len(blocks) == 1 else None
    if kept is None:
        statistics = wave_statistics(rows, waves)
    else:
        statistics = _block_statistics(rows, kept)
    noise = waves.noise_variance
    root = precision_root(statistics.gram, noise)
    mean = posterior_mean_from(statistics, noise, root)
    S = inverse_from_root(root)
    by_wave, scatter = np.zeros(waves.frequencies.shape), 0.0
    for block in blocks:
        features = waves.features(block.points) if kept is None else kept
        slopes, misfit = _phase_slopes(block, features, mean, S, noise)
        by_wave += slopes @ block.pulled
        scatter += float(block.weights @ misfit**2)
    # m - tr S is the number of weights that the data determine
    determined = len(mean) - float(np.trace(S))
    return WaveGradient(
        log_evidence_from(statistics, noise, root),
        by_wave,
        -0.5 * (determined - float(mean @ mean)),
        -0.5 * (statistics.weight - determined - scatter / noise),
        mean,
        S,
    )


def input_gradient(rows: WaveRows, waves: Waves, gradient: WaveGradient) -> Array:
    """Derivative of the log evidence in the inputs (n, d); O(n m²)."""
    noise, parts = waves.noise_variance, []
    for block in rows.blocks():
        features = waves.features(block.points)
        mean, S = gradient.mean, gradient.covariance
        slopes, _ = _phase_slopes(block, features, mean, S, noise)
        parts.append(block.weights[:, np.newaxis] * (slopes.T @ waves.frequencies))
    return np.concatenate(parts)


def _phase_slopes(
    rows: WaveRows, features: Array, mean: Array, S: Array, noise_variance: float
) -> tuple[Array, Array]:
    """Derivative in the phases (R, n), for weights of one, and misfit (n,)."""
    misfit = rows.y - mean @ features
    spread = S @ features
    _to_phase_slopes(features, mean, misfit, noise_variance, spread)
    return spread[: len(spread) // 2], misfit


@kernel
def _to_phase_slopes(
    features: Array, mean: Array, misfit: Array, noise_variance: float, spread: Array
) -> None:
    """Overwrite the first half of ``S Φᵀ`` (m, n) by slopes in the phases.

    ``∂/∂Φᵀ = (w̄ eᵀ - S Φᵀ) / σ²`` with the misfit e; in the phases it is the slope
    in the sine times the cosine, less the slope in the cosine times the sine.
    """
    R, n = len(features) // 2, features.shape[1]
    unit = 1.0 / noise_variance
    for r in range(R):
        cosine, sine, out, other = (
            features[r],
            features[R + r],
            spread[r],
            spread[R + r],
        )
        a, b = mean[r], mean[R + r]
        for i in range(n):
            along_sine = (b * misfit[i] - other[i]) * cosine[i]
            out[i] = unit * (along_sine - (a * misfit[i] - out[i]) * sine[i])
