"""Evidence of Gaussian regression on waves, and its gradient in closed form.

The features are paired cosines and sines of the phases ``Z = X Wᵀ`` (n, R) of R waves
of amplitudes a, ``Φ = [a cos Z, a sin Z]`` (n, m) with m = 2 R; as in ``regression``::

    B = I + ΦᵀΦ / σ²,   S = B⁻¹,   w̄ = S Φᵀy / σ²

Rows go through in blocks; nothing has the size n², and beside the blocks nothing n m.
"""

from __future__ import annotations

import math
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

# Rows whose features are in memory at a time: with 200 waves 6 MB; and rows whose
# products with S are, which then stay in the cache.
_BLOCK, _SLAB = 2048, 256


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

    def part(self, rows: slice) -> WaveRows:
        """Some of the rows; a view."""
        return WaveRows(
            self.points[:, rows],
            self.y[rows],
            self.weights[rows],
            self.pulled[rows],
        )

    def blocks(self) -> Iterator[WaveRows]:
        """Rows that are in memory together."""
        n = len(self.y)
        if n <= _BLOCK:
            yield self
            return
        for first in range(0, n, _BLOCK):
            part = self.part(slice(first, first + _BLOCK))
            yield part._replace(points=np.ascontiguousarray(part.points))


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

    def features(self, points: Array, space: Array | None = None) -> Array:
        """Features (m, n) at points (d, n): cosines, then sines.

        In the memory of `space`, if that is given: flat, for m n numbers or more.
        """
        shape = 2 * len(self.frequencies), points.shape[1]
        flat = np.empty(math.prod(shape)) if space is None else space
        out = flat[: math.prod(shape)].reshape(shape)
        turns = self.frequencies / (2.0 * np.pi)
        trigonometry.cosines_and_sines(points, turns, self.amplitudes, out)
        return out

    def workspace(self, n_rows: int) -> WaveSpace:
        """Memory for a gradient with so many rows, to be used again.

        New memory of this size costs as much as filling it.
        """
        m, rows = 2 * len(self.frequencies), min(n_rows, _BLOCK)
        flat = np.empty(m * rows), np.empty(m * min(rows, _SLAB))
        square = (np.empty((m, m)) for _ in range(3))
        return WaveSpace(*flat, np.empty(flat[1].size // 2), *square)


class WaveSpace(NamedTuple):
    """Memory of :func:`wave_gradient`.

    Attributes
    ----------
    features, products, slopes : ndarray
        Flat: Φᵀ of a block, S Φᵀ of a slab and slopes in the phases there.
    gram, root, inverse : ndarray of shape (m, m)
        ΦᵀΦ, then B; its root; S.
    """

    features: Array
    products: Array
    slopes: Array
    gram: Array
    root: Array
    inverse: Array


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
    inputs : ndarray of shape (n, d) or None
        Derivative in the inputs of the rows, if that was asked for.
    """

    value: float
    frequencies: Array
    log_variance: float
    log_noise: float
    mean: Array
    covariance: Array
    inputs: Array | None = None

    def log_length_scales(self, frequencies: Array) -> Array:
        """Derivative in ``log ℓ`` (d,), where ``W = Ω / ℓ`` and Ω stays as it is."""
        return -np.einsum("rd,rd->d", frequencies, self.frequencies)


def wave_statistics(
    rows: WaveRows, waves: Waves, space: WaveSpace | None = None
) -> WeightStatistics:
    """Sums over the rows; O(n m²). With `space`, a single block's are in there."""
    flat, gram = (None, None) if space is None else (space.features, space.gram)
    single = len(rows.y) <= _BLOCK
    parts = (
        _block_statistics(b, waves.features(b.points, flat), gram if single else None)
        for b in rows.blocks()
    )
    return reduce(WeightStatistics.add, parts)


def _block_statistics(
    rows: WaveRows, features: Array, gram: Array | None
) -> WeightStatistics:
    nothing = np.zeros(len(rows.y))
    return weight_statistics(features.T, rows.y, rows.weights, nothing, gram)


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


def wave_gradient(
    rows: WaveRows,
    waves: Waves,
    space: WaveSpace | None = None,
    inputs: bool = False,
) -> WaveGradient:
    """Log evidence and its gradient.

    Parameters
    ----------
    rows : WaveRows
    waves : Waves
    space : WaveSpace, optional
        Of `Waves.workspace`, which saves the time of new memory; the covariance of the
        result lies in there.
    inputs : bool, default=False
        Whether the derivative in the inputs is wanted, at ``2 n R d`` more.

    Notes
    -----
    For each block one symmetric product, ``ΦᵀΦ``, and one product ``S Φᵀ``; one
    Cholesky factor and one inverse: ``3 n m² + m³`` multiplications and additions.
    """
    space = waves.workspace(len(rows.y)) if space is None else space
    statistics = wave_statistics(rows, waves, space)
    noise = waves.noise_variance
    root = precision_root(statistics.gram, noise, space.root)
    mean = posterior_mean_from(statistics, noise, root)
    S = inverse_from_root(root, space.inverse)
    by_wave, by_row, scatter = np.zeros(waves.frequencies.shape), [], 0.0
    # the workspace still has the features of a single block
    kept = len(rows.y) <= _BLOCK
    for slopes, misfit, part in _phase_slopes(rows, waves, mean, S, space, kept):
        by_wave += slopes @ part.pulled
        if inputs:
            by_row.append(part.weights[:, np.newaxis] * (slopes.T @ waves.frequencies))
        scatter += float(part.weights @ misfit**2)
    # m - tr S is the number of weights that the data determine
    determined = len(mean) - float(np.trace(S))
    return WaveGradient(
        log_evidence_from(statistics, noise, root, mean),
        by_wave,
        -0.5 * (determined - float(mean @ mean)),
        -0.5 * (statistics.weight - determined - scatter / noise),
        mean,
        S,
        np.concatenate(by_row) if inputs else None,
    )


def _phase_slopes(
    rows: WaveRows, waves: Waves, mean: Array, S: Array, space: WaveSpace, kept: bool
) -> Iterator[tuple[Array, Array, WaveRows]]:
    """Derivatives in the phases (R, s), for weights of one, misfits (s,), and rows.

    In slabs of s rows; `kept` if the features of all rows are in the workspace.
    """
    m = len(mean)
    for block in rows.blocks():
        if kept:
            features = space.features[: m * len(block.y)].reshape(m, -1)
        else:
            features = waves.features(block.points, space.features)
        misfit = block.y - mean @ features
        for first in range(0, len(misfit), _SLAB):
            slab = slice(first, first + _SLAB)
            part = block.part(slab)
            n = len(part.y)
            product = space.products[: m * n].reshape(m, n)
            np.matmul(S, features[:, slab], out=product)
            slopes = space.slopes[: m // 2 * n].reshape(m // 2, n)
            scaled = mean, misfit, product, waves.noise_variance
            _to_phase_slopes(features, first, *scaled, slopes)
            yield slopes, misfit[slab], part


@kernel
def _to_phase_slopes(
    features: Array,
    first: int,
    mean: Array,
    misfit: Array,
    spread: Array,
    noise_variance: float,
    out: Array,
) -> None:
    """Slopes in the phases of some rows, from ``S Φᵀ`` (m, s) of these.

    ``∂/∂Φᵀ = (w̄ eᵀ - S Φᵀ) / σ²`` with the misfit e; in the phases it is the slope
    in the sine times the cosine, less the slope in the cosine times the sine.
    """
    R, n = out.shape
    for r in range(R):
        a, b = mean[r], mean[R + r]
        precision = 1.0 / noise_variance
        for i in range(n):
            e = misfit[first + i]
            along_sine = (b * e - spread[R + r, i]) * features[r, first + i]
            along_cosine = (a * e - spread[r, i]) * features[R + r, first + i]
            out[r, i] = precision * (along_sine - along_cosine)
