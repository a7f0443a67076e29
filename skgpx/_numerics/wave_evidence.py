"""Evidence of Gaussian regression on waves, and its gradient in closed form.

The features are paired cosines and sines of the phases ``Z = X Wᵀ`` (n, R) of R waves
of amplitudes a, ``Φ = [a cos Z, a sin Z]`` (n, m) with m = 2 R; as in ``regression``::

    B = I + ΦᵀΦ / σ²,   S = B⁻¹,   w̄ = S Φᵀy / σ²

Rows go through in blocks; nothing has the size n², and beside the blocks nothing n m.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics import linalg, trigonometry
from skgpx._numerics._jit import kernel
from skgpx._numerics.regression import WeightStatistics, log_evidence_of

Array = NDArray[np.float64]
# Memory to be used again: Φᵀ and S Φᵀ of a block, ΦᵀΦ or B, the inverse root or S.
Workspace = tuple[Array, Array, Array, Array]

# Rows whose features, and products with S, are in memory at a time: with 200 waves 6 MB
# each.
_BLOCK = 2048


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

    def features(self, X: Array, space: Array | None = None) -> Array:
        """Features (m, n) at rows X (n, d): cosines, then sines.

        In the memory of `space`, if that is given: flat, for m n numbers or more.
        """
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
    """Log evidence of waves, its derivatives, and the posterior of the weights.

    Attributes
    ----------
    value : float
        In nats.
    frequencies : ndarray of shape (R, d)
        Derivative in W.
    mean : ndarray of shape (m,)
        w̄.
    covariance : ndarray of shape (m, m)
        S; in the workspace.
    inputs : ndarray of shape (n, d) or None
        Derivative in the inputs of the rows, if that was requested.
    """

    value: float
    frequencies: Array
    mean: Array
    covariance: Array
    inputs: Array | None = None


def wave_evidence(X: Array, y: Array, weights: Array, waves: Waves) -> float:
    """Log evidence ``log N(y | 0, ΦΦᵀ + σ²I)`` in nats; O(n m² + m³).

    Rows X (n, d) and y (n,) have frequency weights (n,). In the notation ``A = ΦᵀΦ +
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
    y, weights : ndarray of shape (n,)
    waves : Waves
    space : Workspace, optional
        Of `Waves.workspace`.
    inputs : bool, default=False
        Whether the derivative in the inputs is wanted, at ``2 n R d`` more.

    Notes
    -----
    For each block one symmetric product, ``ΦᵀΦ``, and one product ``S Φᵀ``; one
    Cholesky factor and one inverse: ``3 n m² + m³`` multiplications and additions.
    """
    space = waves.workspace(len(y)) if space is None else space
    value, mean, root = _solved(X, y, weights, waves, space)
    S = linalg.square_triangle(root)
    by_wave, by_row = np.zeros(waves.frequencies.shape), []
    for first in range(0, len(y), _BLOCK):
        block = slice(first, first + _BLOCK)
        points, w = X[block], weights[block, np.newaxis]
        # the features of a single block are still in the workspace
        shape = len(mean), len(points)
        features = space[0][: math.prod(shape)].reshape(shape)
        if len(points) < len(X):
            features = waves.features(points, space[0])
        product = space[1][: features.size].reshape(shape)
        np.matmul(S, features, out=product)
        misfit = y[block] - mean @ features
        _to_phase_slopes(features, mean, misfit, waves.noise_variance, product)
        slopes = product[: len(product) // 2]
        by_wave += slopes @ (w * points)
        if inputs:
            by_row.append(w * (slopes.T @ waves.frequencies))
    by_input = np.concatenate(by_row) if inputs else None
    return WaveGradient(value, by_wave, mean, S, by_input)


def _solved(
    X: Array, y: Array, weights: Array, waves: Waves, space: Workspace
) -> tuple[float, Array, Array]:
    """Log evidence, w̄ (m,), and ``L⁻¹`` (m, m) of ``B = L Lᵀ``, in the workspace."""
    flat, _, gram, inverse = space
    noise, moment = waves.noise_variance, np.zeros(len(gram))
    root_weights = np.sqrt(weights)
    for first in range(0, len(y), _BLOCK):
        block = slice(first, first + _BLOCK)
        features = waves.features(X[block], flat)
        weighted = features
        if np.any(root_weights[block] != 1.0):
            weighted = features * root_weights[block]
        linalg.add_gram(weighted, gram, fresh=first == 0)
        moment += weighted @ (root_weights[block] * y[block])
    square, total = float(weights @ y**2), float(weights.sum())
    linalg.scale_and_shift(gram, 1.0 / noise, 1.0)
    root = linalg.inverse_root(gram, inverse)
    half = root @ (moment / noise)
    sums = WeightStatistics(gram, moment, square, 0.0, total)
    value = log_evidence_of(sums, noise, half, -linalg.log_determinant(root))
    return value, half @ root, root


@kernel
def _to_phase_slopes(
    features: Array,
    mean: Array,
    misfit: Array,
    noise_variance: float,
    product: Array,
) -> None:
    """Overwrite the upper half of ``S Φᵀ`` (m, n) by slopes in the phases.

    ``∂/∂Φᵀ = (w̄ eᵀ - S Φᵀ) / σ²`` with the misfit e; in the phases it is the slope
    in the sine times the cosine, less the slope in the cosine times the sine.
    """
    R, n = len(product) // 2, product.shape[1]
    precision = 1.0 / noise_variance
    for r in range(R):
        a, b = precision * mean[r], precision * mean[R + r]
        cosine, sine = features[r], features[R + r]
        by_cosine, by_sine = product[r], product[R + r]
        for i in range(n):
            along_sine = b * misfit[i] - precision * by_sine[i]
            along_cosine = a * misfit[i] - precision * by_cosine[i]
            by_cosine[i] = along_sine * cosine[i] - along_cosine * sine[i]
