"""Evidence of Gaussian regression on waves, and its gradient in closed form.

The features are paired cosines and sines of the phases ``Z = X Wᵀ`` (n, R) of R waves
of amplitudes a, ``Φ = [a cos Z, a sin Z]`` (n, m) with m = 2 R; as in ``regression``::

    B = I + ΦᵀΦ / σ²,   S = B⁻¹,   w̄ = S Φᵀy / σ²

A pair of waves has the mean of the features of both, ``a/2 [cos Z + cos Z', sin Z +
sin Z']``, as in generalised spectral kernels: a process that is not stationary.

Rows pass in blocks: no array has n² numbers, and only the blocks have m rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skgpx._numerics import linalg, trigonometry
from skgpx._numerics._jit import kernel
from skgpx._numerics.regression import WeightStatistics, log_evidence_of
from skgpx._types import Array

# Rows whose features, and products with S, are in memory at a time: with 200 waves 6 MB
# each.
_BLOCK = 2048


class Workspace(NamedTuple):
    """Memory to be used again.

    Attributes
    ----------
    features, product : ndarray
        Flat: Φᵀ and S Φᵀ of a block.
    gram : ndarray of shape (m, m)
        ΦᵀΦ.
    inverse : ndarray of shape (m, m)
        The inverse root of B, or S.
    """

    features: Array
    product: Array
    gram: Array
    inverse: Array


class Waves(NamedTuple):
    """Frequencies and amplitudes of the features, and the noise.

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
    noise_variance: float | Array

    def singles(self) -> list[Waves]:
        """Waves with features that add up to these: of pairs two, with a / 2 each."""
        if self.frequencies.ndim == 2:
            return [self]
        amplitudes = 0.5 * self.amplitudes
        return [
            self._replace(frequencies=omega, amplitudes=amplitudes)
            for omega in self.frequencies.swapaxes(0, 1)
        ]

    def features(self, X: Array, memory: Array | None = None) -> Array:
        """Features (m, n) at rows X (n, d): cosines, then sines.

        In `memory`, if there is any: flat, for m n numbers or more.
        """
        if self.frequencies.ndim == 3:
            first, second = self.singles()
            total = first.features(X, memory)
            total += second.features(X)
            return total
        m = 2 * len(self.frequencies)
        n = len(X)
        if memory is None:
            memory = np.empty(m * n)
        features = memory[: m * n].reshape(m, n)
        turns = self.frequencies / (2.0 * np.pi)
        points = np.ascontiguousarray(X.T)
        trigonometry.cosines_and_sines(points, turns, self.amplitudes, features)
        return features

    def workspace(self, n_rows: int) -> Workspace:
        """Memory for gradients with so many rows; new memory costs time to fill."""
        m = 2 * len(self.frequencies)
        n = min(n_rows, _BLOCK)
        return Workspace(
            features=np.empty(m * n),
            product=np.empty(m * n),
            gram=np.empty((m, m)),
            inverse=np.empty((m, m)),
        )


class WaveGradient(NamedTuple):
    """Log evidence of waves, summed over targets, and its derivatives.

    Attributes
    ----------
    value : float
        In nats.
    frequencies : ndarray of shape (R, d) or (R, 2, d)
        Derivative in W.
    inputs : ndarray of shape (n, d) or None
        Derivative in the inputs of the rows, if requested.
    """

    value: float
    frequencies: Array
    inputs: Array | None = None


def wave_gradient(
    X: Array,
    y: Array,
    weights: Array,
    waves: Waves,
    space: Workspace | None = None,
    inputs: bool = False,
) -> WaveGradient:
    """Log evidence ``log N(y | 0, ΦΦᵀ + σ²I)`` in nats, and its gradient.

    In the notation ``A = ΦᵀΦ + σ²I`` of [1]_ (equation (9) there has another sign
    before ``R log σ²``)::

        (|Φᵀy|²_{A⁻¹} - yᵀy) / (2σ²) - ½ log|A| + R log σ² - n/2 log(2πσ²)

    Parameters
    ----------
    X : ndarray of shape (n, d)
    y : ndarray of shape (n,), or (n, t) for t targets, over which they are summed
    weights : ndarray of shape (n,)
    waves : Waves
    space : Workspace, optional
        From `Waves.workspace`.
    inputs : bool, default=False
        Whether to compute the derivative in the inputs, for ``2 n R d`` more
        operations.

    Notes
    -----
    For each block one symmetric product, ``ΦᵀΦ``, and one product ``S Φᵀ``, with the
    sum over targets of ``S / σ²`` in place of S; one Cholesky factor and one inverse
    a target: ``3 n m² + t m³`` multiplications and additions. The features of a pair
    and of each of its waves have one derivative.

    References
    ----------
    .. [1] Warren, Oliveira and Ramos, "Stein random feature regression", UAI 2024.
    """
    if space is None:
        space = waves.workspace(len(y))
    value, means, spread = _solve(X, y, weights, waves, space)
    m = len(spread)
    targets = np.atleast_2d(y.T)
    noise = np.reshape(waves.noise_variance, (-1, 1))
    singles = waves.singles()
    frequency_slopes = np.zeros((len(singles), *singles[0].frequencies.shape))
    input_slopes = np.zeros(X.shape) if inputs else None
    for first in range(0, len(y), _BLOCK):
        block = slice(first, first + _BLOCK)
        points = X[block]
        w = weights[block, np.newaxis]
        n = len(points)
        # the features of a single block are still in the workspace
        features = space.features[: m * n].reshape(m, n)
        if n < len(X):
            features = waves.features(points, space.features)
        # Σ S Φᵀ / σ² and e / σ² = (y - w̄ᵀ Φᵀ) / σ²
        product = space.product[: m * n].reshape(m, n)
        np.matmul(spread, features, out=product)
        misfits = (targets[:, block] - means @ features) / noise
        for single, slopes in zip(singles, frequency_slopes, strict=True):
            single_features = features
            feature_slopes = product
            if len(singles) == 2:
                # ∂/∂Φᵀ of the sum of both waves holds for each of them
                single_features = single.features(points)
                feature_slopes = product.copy()
            _to_phase_slopes(single_features, means, misfits, feature_slopes)
            # phases Z = X Wᵀ
            phase_slopes = feature_slopes[: m // 2]
            slopes += phase_slopes @ (w * points)
            if input_slopes is not None:
                input_slopes[block] += w * (phase_slopes.T @ single.frequencies)
    by_frequency = frequency_slopes.swapaxes(0, 1)
    return WaveGradient(
        value=value,
        frequencies=by_frequency.reshape(waves.frequencies.shape),
        inputs=input_slopes,
    )


def _solve(
    X: Array,
    y: Array,
    weights: Array,
    waves: Waves,
    space: Workspace,
) -> tuple[float, Array, Array]:
    """The posterior of the weights, for each target.

    Returns
    -------
    value : float
        Log evidence, summed over targets.
    means : ndarray of shape (t, m)
        w̄ of each target.
    spread : ndarray of shape (m, m)
        Sum of ``S / σ²`` over targets.
    """
    targets = np.atleast_2d(y.T)
    root_weights = np.sqrt(weights)
    noises = np.broadcast_to(waves.noise_variance, len(targets))
    # ΦᵀΦ and Φᵀy
    gram = space.gram
    moments = np.zeros((len(targets), len(gram)))
    for first in range(0, len(y), _BLOCK):
        block = slice(first, first + _BLOCK)
        roots = root_weights[block]
        features = waves.features(X[block], space.features)
        if np.any(roots != 1.0):
            features = features * roots
        linalg.add_gram(features, gram, fresh=first == 0)
        moments += (roots * targets[:, block]) @ features.T
    value = 0.0
    means = np.empty_like(moments)
    spread = np.zeros_like(gram)
    for t, noise in enumerate(noises):
        # B = I + ΦᵀΦ / σ²,  B⁻¹ = RᵀR
        scaled_gram = np.tril(gram) * (1.0 / noise)
        root = linalg.inverse_root(scaled_gram, space.inverse, added=1.0)
        half = root @ (moments[t] / noise)
        sums = WeightStatistics(
            gram,
            moments[t],
            float(weights @ targets[t] ** 2),
            0.0,
            float(weights.sum()),
        )
        log_determinant = -linalg.log_determinant(root)
        value += log_evidence_of(sums, noise, half, log_determinant)
        means[t] = half @ root
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
    R = len(product) // 2
    n = product.shape[1]
    for r in range(R):
        cosine = features[r]
        sine = features[R + r]
        # slopes with the other sign, S Φᵀ / σ² - w̄ eᵀ / σ²
        by_cosine = product[r]
        by_sine = product[R + r]
        for j in range(len(means)):
            a = means[j, r]
            b = means[j, R + r]
            misfit = misfits[j]
            for i in range(n):
                by_cosine[i] -= a * misfit[i]
                by_sine[i] -= b * misfit[i]
        for i in range(n):
            by_cosine[i] = by_cosine[i] * sine[i] - by_sine[i] * cosine[i]
