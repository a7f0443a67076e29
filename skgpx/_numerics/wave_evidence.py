"""Evidence of Gaussian regression on waves, and its gradient in closed form.

The features are paired cosines and sines of the phases ``Z = X Wᵀ`` (n, R) of R waves
of amplitudes a, ``Φ = [a cos Z, a sin Z]`` (n, m) with m = 2 R; as in ``regression``::

    B = I + ΦᵀΦ / σ²,   S = B⁻¹,   w̄ = S Φᵀy / σ²

Rows go through in blocks; nothing has the size n², and beside the blocks nothing n m.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics import linalg, trigonometry
from skgpx._numerics._jit import kernel
from skgpx._numerics.linalg import (
    inverse_root,
    log_determinant,
    square_triangle,
)
from skgpx._numerics.regression import WeightStatistics, log_evidence_of

Array = NDArray[np.float64]

# Rows whose features, and products with S, are in memory at a time: with 200 waves 6 MB
# each.
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
        flat = (np.empty(m * rows) for _ in range(2))
        square = (np.empty((m, m)) for _ in range(2))
        return WaveSpace(*flat, *square)


class WaveSpace(NamedTuple):
    """Memory of :func:`wave_gradient`.

    Attributes
    ----------
    features, products : ndarray
        Flat: Φᵀ of a block, and S Φᵀ.
    gram, inverse : ndarray of shape (m, m)
        ΦᵀΦ, then B, of which only the lower triangle; the inverse of its root, then S.
    """

    features: Array
    products: Array
    gram: Array
    inverse: Array


class WaveGradient(NamedTuple):
    """Log evidence of waves, its derivatives, and the posterior of the weights.

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
        Derivative in the inputs of the rows, if that was requested.
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


def wave_statistics(rows: WaveRows, waves: Waves, space: WaveSpace) -> WeightStatistics:
    """Sums over the rows; O(n m²). Of the gram matrix only the lower triangle.

    In the workspace are the gram matrix and the features of the last block.
    """
    moment = np.zeros(len(space.gram))
    for number, block in enumerate(rows.blocks()):
        features, y = waves.features(block.points, space.features), block.y
        root = np.sqrt(block.weights)
        if np.any(root != 1.0):
            features, y = features * root, y * root
        linalg.add_gram(features, space.gram, fresh=number == 0)
        moment += features @ y
    square, total = float(rows.weights @ rows.y**2), float(rows.weights.sum())
    return WeightStatistics(space.gram, moment, square, 0.0, total)


def wave_evidence(rows: WaveRows, waves: Waves) -> float:
    """Log evidence ``log N(y | 0, ΦΦᵀ + σ²I)`` in nats; O(n m² + m³).

    In the notation ``A = ΦᵀΦ + σ²I`` of [1]_, whose equation (9) has another sign
    before ``R log σ²``::

        (|Φᵀy|²_{A⁻¹} - yᵀy) / (2σ²) - ½ log|A| + R log σ² - n/2 log(2πσ²)

    References
    ----------
    .. [1] Warren, Oliveira and Ramos, "Stein random feature regression", UAI 2024.
    """
    return _solved(rows, waves, waves.workspace(len(rows.y))).value


class _Solved(NamedTuple):
    """What evidence and gradient have in common.

    Attributes
    ----------
    root : ndarray of shape (m, m)
        ``L⁻¹``, where ``B = L Lᵀ``; in the workspace.
    mean : ndarray of shape (m,)
    value, weight : float
        Log evidence, and sum of the weights of the rows.
    """

    root: Array
    mean: Array
    value: float
    weight: float


def _solved(rows: WaveRows, waves: Waves, space: WaveSpace) -> _Solved:
    sums, noise = wave_statistics(rows, waves, space), waves.noise_variance
    linalg.scale_and_shift(sums.gram, 1.0 / noise, 1.0)
    root = inverse_root(sums.gram, space.inverse)
    half = root @ (sums.moment / noise)
    value = log_evidence_of(sums, noise, half, -log_determinant(root))
    return _Solved(root, half @ root, value, sums.weight)


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
    solved, noise = _solved(rows, waves, space), waves.noise_variance
    mean, S = solved.mean, square_triangle(solved.root)
    # m - tr S is the number of weights that the data determine
    determined = len(mean) - float(np.einsum("ii", S))
    by_wave, by_row, scatter = np.zeros(waves.frequencies.shape), [], 0.0
    for slopes, misfit, part in _phase_slopes(rows, waves, mean, S, space):
        by_wave += slopes @ part.pulled
        if inputs:
            by_row.append(part.weights[:, np.newaxis] * (slopes.T @ waves.frequencies))
        scatter += float(part.weights @ misfit**2)
    return WaveGradient(
        solved.value,
        by_wave,
        -0.5 * (determined - float(mean @ mean)),
        -0.5 * (solved.weight - determined - scatter / noise),
        mean,
        S,
        np.concatenate(by_row) if inputs else None,
    )


def _phase_slopes(
    rows: WaveRows, waves: Waves, mean: Array, S: Array, space: WaveSpace
) -> Iterator[tuple[Array, Array, WaveRows]]:
    """Derivatives in the phases (R, n), for weights of one, misfits (n,), and rows.

    In blocks of n rows. The features of a single one are in the workspace.
    """
    for block in rows.blocks():
        n = len(block.y)
        product = space.products[: len(mean) * n].reshape(-1, n)
        if n == len(rows.y):
            features = space.features[: product.size].reshape(-1, n)
        else:
            features = waves.features(block.points, space.features)
        misfit = block.y - mean @ features
        np.matmul(S, features, out=product)
        _to_phase_slopes(features, mean, misfit, waves.noise_variance, product)
        yield product[: len(product) // 2], misfit, block


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
