"""Evidence of Gaussian regression on waves, and its gradient in closed form.

The features are paired cosines and sines of the phases ``Z = X Wᵀ`` (n, R) of R waves
of amplitudes a, ``Φ = [a cos Z, a sin Z]`` (n, m) with m = 2 R; as in ``regression``::

    B = I + ΦᵀΦ / σ²,   S = B⁻¹,   w̄ = S Φᵀy / σ²

A pair of waves has the mean of the features of both, ``a/2 [cos Z + cos Z', sin Z +
sin Z']``, as in generalised spectral kernels: a process that is not stationary.

Rows go through in blocks; nothing has the size n², and beside the blocks nothing n m.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics import linalg, trigonometry
from skgpx._numerics._jit import kernel
from skgpx._numerics.regression import WeightStatistics, log_evidence_of

Array = NDArray[np.float64]
# Memory to be used again: Φᵀ and S Φᵀ of a block, ΦᵀΦ, the inverse root or S.
Workspace = tuple[Array, Array, Array, Array]

# Rows whose features, and products with S, are in memory at a time: with 200 waves 6 MB
# each.
_BLOCK = 2048


class Waves(NamedTuple):
    """What the features are made of, and the noise around them.

    Attributes
    ----------
    frequencies : ndarray of shape (R, d), or (R, 2, d) for pairs
        W, angular, in radians per unit of the inputs.
    amplitudes : ndarray of shape (R,)
        a; the sum of their squares is the variance of the process, of pairs at the
        origin.
    noise_variance : float, or ndarray of shape (t,) for t targets
        σ².
    """

    frequencies: Array
    amplitudes: Array
    noise_variance: Any

    def singles(self) -> list[Waves]:
        """Waves whose features add up to these: of pairs two, with amplitudes a / 2."""
        if self.frequencies.ndim == 2:
            return [self]
        halves = 0.5 * self.amplitudes
        return [
            self._replace(frequencies=omega, amplitudes=halves)
            for omega in self.frequencies.swapaxes(0, 1)
        ]

    def features(self, X: Array, space: Array | None = None) -> Array:
        """Features (m, n) at rows X (n, d): cosines, then sines.

        In the memory of `space`, if that is given: flat, for m n numbers or more.
        """
        if self.frequencies.ndim == 3:
            first, second = self.singles()
            total = first.features(X, space)
            total += second.features(X)
            return total
        shape = 2 * len(self.frequencies), len(X)
        flat = np.empty(math.prod(shape)) if space is None else space
        out = flat[: math.prod(shape)].reshape(shape)
        turns = self.frequencies / (2.0 * np.pi)
        points = np.ascontiguousarray(X.T)
        trigonometry.cosines_and_sines(points, turns, self.amplitudes, out)
        return out

    def workspace(self, n_rows: int) -> Workspace:
        """Memory for gradients with so many rows; new memory costs time to fill."""
        m, n = 2 * len(self.frequencies), min(n_rows, _BLOCK)
        flat = np.empty(m * n), np.empty(m * n)
        return *flat, np.empty((m, m)), np.empty((m, m))


class WaveGradient(NamedTuple):
    """Log evidence of waves, summed over targets, and its derivatives.

    Attributes
    ----------
    value : float
        In nats.
    frequencies : ndarray of shape (R, d) or (R, 2, d)
        Derivative in W.
    inputs : ndarray of shape (n, d) or None
        Derivative in the inputs of the rows, if that was requested.
    """

    value: float
    frequencies: Array
    inputs: Array | None = None


def wave_evidence(X: Array, y: Array, weights: Array, waves: Waves) -> float:
    """Log evidence ``log N(y | 0, ΦΦᵀ + σ²I)`` in nats; O(n m² + t m³).

    Rows X (n, d) and y, (n,) or (n, t) for t targets, over which the evidence is
    summed, have frequency weights (n,). In the notation ``A = ΦᵀΦ +
    σ²I`` of [1]_, whose equation (9) has another sign before ``R log σ²``::

        (|Φᵀy|²_{A⁻¹} - yᵀy) / (2σ²) - ½ log|A| + R log σ² - n/2 log(2πσ²)

    References
    ----------
    .. [1] Warren, Oliveira and Ramos, "Stein random feature regression", UAI 2024.
    """
    return _solved(X, y, weights, waves, waves.workspace(len(y)))[0]


def wave_gradient(
    X: Array,
    y: Array,
    weights: Array,
    waves: Waves,
    space: Workspace | None = None,
    inputs: bool = False,
) -> WaveGradient:
    """:func:`wave_evidence` and its gradient.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    y : ndarray of shape (n,), or (n, t) for t targets
    weights : ndarray of shape (n,)
    waves : Waves
    space : Workspace, optional
        Of `Waves.workspace`.
    inputs : bool, default=False
        Whether the derivative in the inputs is wanted, at ``2 n R d`` more.

    Notes
    -----
    For each block one symmetric product, ``ΦᵀΦ``, and one product ``S Φᵀ``, with the
    sum over targets of ``S / σ²`` in place of S; one Cholesky factor and one inverse
    a target: ``3 n m² + t m³`` multiplications and additions. The derivative in the
    features of a pair is that in the features of each of its waves.
    """
    space = waves.workspace(len(y)) if space is None else space
    value, mean, spread = _solved(X, y, weights, waves, space)
    targets, noise = np.atleast_2d(y.T), np.reshape(waves.noise_variance, (-1, 1))
    singles = waves.singles()
    by_wave = np.zeros((len(singles), *singles[0].frequencies.shape))
    by_row = np.zeros(X.shape) if inputs else None
    for first in range(0, len(y), _BLOCK):
        block = slice(first, first + _BLOCK)
        points, w = X[block], weights[block, np.newaxis]
        # the features of a single block are still in the workspace
        shape = len(spread), len(points)
        features = space[0][: math.prod(shape)].reshape(shape)
        if len(points) < len(X):
            features = waves.features(points, space[0])
        product = space[1][: features.size].reshape(shape)
        np.matmul(spread, features, out=product)
        misfits = (targets[:, block] - mean @ features) / noise
        for single, by_single in zip(singles, by_wave, strict=True):
            single_features = features
            by_feature = product
            if len(singles) == 2:
                # the derivative in the sum is that in the features of each wave
                single_features = single.features(points)
                by_feature = product.copy()
            _to_phase_slopes(single_features, mean, misfits, by_feature)
            slopes = by_feature[: len(by_feature) // 2]
            by_single += slopes @ (w * points)
            if by_row is not None:
                by_row[block] += w * (slopes.T @ single.frequencies)
    by_frequency = by_wave.swapaxes(0, 1).reshape(waves.frequencies.shape)
    return WaveGradient(value, by_frequency, by_row)


def _solved(
    X: Array,
    y: Array,
    weights: Array,
    waves: Waves,
    space: Workspace,
) -> tuple[float, Array, Array]:
    """Log evidence, w̄ of each target, (t, m), and the sum over them of ``S / σ²``."""
    flat, _, gram, inverse = space
    targets, root_weights = np.atleast_2d(y.T), np.sqrt(weights)
    moments = np.zeros((len(targets), len(gram)))
    noises = np.broadcast_to(waves.noise_variance, len(targets))
    for first in range(0, len(y), _BLOCK):
        block = slice(first, first + _BLOCK)
        features = waves.features(X[block], flat)
        weighted = features
        if np.any(root_weights[block] != 1.0):
            weighted = features * root_weights[block]
        linalg.add_gram(weighted, gram, fresh=first == 0)
        moments += (root_weights[block] * targets[:, block]) @ weighted.T
    value, means, spread = 0.0, np.empty_like(moments), np.zeros_like(gram)
    for mean, z, moment, noise in zip(means, targets, moments, noises, strict=True):
        B = gram.copy()
        linalg.scale_and_shift(B, 1.0 / noise, 1.0)
        root = linalg.inverse_root(B, inverse)
        half = root @ (moment / noise)
        square = float(weights @ z**2)
        sums = WeightStatistics(gram, moment, square, 0.0, float(weights.sum()))
        value += log_evidence_of(sums, noise, half, -linalg.log_determinant(root))
        mean[:] = half @ root
        spread += linalg.square_triangle(root) / noise
    return value, means, spread


@kernel
def _to_phase_slopes(
    features: Array,
    means: Array,
    misfits: Array,
    product: Array,
) -> None:
    """Overwrite the upper half of ``S Φᵀ / σ²`` (m, n) by slopes in the phases.

    ``∂/∂Φᵀ = (w̄ eᵀ - S Φᵀ) / σ²``, summed over targets, with their misfits ``e / σ²``
    (t, n); in the phases it is the slope in the sine times the cosine, less the slope
    in the cosine times the sine.
    """
    R, n = len(product) // 2, product.shape[1]
    for r in range(R):
        cosine, sine = features[r], features[R + r]
        by_cosine, by_sine = product[r], product[R + r]
        for j in range(len(means)):
            a, b, misfit = means[j, r], means[j, R + r], misfits[j]
            for i in range(n):
                by_cosine[i] -= a * misfit[i]
                by_sine[i] -= b * misfit[i]
        for i in range(n):
            by_cosine[i] = by_cosine[i] * sine[i] - by_sine[i] * cosine[i]
