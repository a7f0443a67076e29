"""Gaussian regression in a basis: statistics, posterior, evidence and its gradient.

With features Φ (n, m), weights w ~ N(0, I) and y = Φw + ε, ε ~ N(0, σ²)::

    B = I + ΦᵀΦ / σ²,   w | y ~ N(B⁻¹ Φᵀy / σ², B⁻¹)

Row weights ω are frequencies: the likelihood of row i is raised to the power ω_i.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics.linalg import (
    cholesky,
    diagonal_of,
    log_determinant,
    solve_lower,
    solve_lower_transpose,
)
from skgpx._numerics.weights import GaussianWeights

Array = NDArray[np.float64]


class WeightStatistics(NamedTuple):
    """Sums over rows; those of disjoint sets of rows add up, see `add`.

    Attributes
    ----------
    gram : ndarray of shape (m, m)
        ``Φᵀ diag(ω) Φ``.
    moment : ndarray of shape (m,)
        ``Φᵀ diag(ω) y``.
    square, residual, weight : float
        ``Σ ω y²``, ``Σ ω var g`` and ``Σ ω``.
    """

    gram: Array
    moment: Array
    square: float
    residual: float
    weight: float

    def add(self, other: WeightStatistics, sign: float = 1.0) -> WeightStatistics:
        """Statistics of both sets of rows; sign -1.0 removes the other set."""
        return WeightStatistics(
            self.gram + sign * other.gram,
            self.moment + sign * other.moment,
            self.square + sign * other.square,
            self.residual + sign * other.residual,
            self.weight + sign * other.weight,
        )


def weight_statistics(
    features: Array, y: Array, weights: Array, residual: Array
) -> WeightStatistics:
    """Statistics of one block of rows.

    Parameters
    ----------
    features : ndarray of shape (n, m)
    y, weights, residual : ndarray of shape (n,)
        Targets, frequency weights, and the prior variance outside the basis.

    Notes
    -----
    O(n m^2) time.
    """
    root = np.sqrt(weights)
    # a matrix times its own transpose is half the work of any other product
    half = features if np.all(root == 1.0) else features * root[:, np.newaxis]
    return WeightStatistics(
        half.T @ half,
        half.T @ (root * y),
        float(weights @ y**2),
        float(weights @ residual),
        float(weights.sum()),
    )


def posterior(
    statistics: WeightStatistics, noise_variance: float, root: Array | None = None
) -> GaussianWeights:
    """Distribution of the weights given the data, N(B⁻¹ Φᵀy/σ², B⁻¹); O(m^3).

    The root of B, :func:`precision_root`, is computed unless it is given.
    """
    L = precision_root(statistics.gram, noise_variance) if root is None else root
    mean = posterior_mean_from(statistics, noise_variance, L)
    # B = L Lᵀ, so L⁻ᵀ is a root of B⁻¹
    inverse = solve_lower_transpose(L, np.eye(len(L)))
    return GaussianWeights(mean[:, np.newaxis], inverse[np.newaxis])


def posterior_mean_from(
    statistics: WeightStatistics, noise_variance: float, root: Array
) -> Array:
    """Mean of :func:`posterior`, (m,), given the root of the precision."""
    half = solve_lower(root, statistics.moment / noise_variance)
    return solve_lower_transpose(root, half)


def log_evidence(
    statistics: WeightStatistics, noise_variance: float, root: Array | None = None
) -> float:
    """Log evidence, less a penalty for the residual of the basis.

    ``log N(y | 0, ΦΦᵀ + σ²I) - Σ var g / (2σ²)``: the collapsed bound of [1]_,
    equation (9), when Φ projects a Gaussian process; the exact log evidence when the
    residual is zero. In nats, summed over rows; O(m^3), or O(m^2) given the root of B.

    References
    ----------
    .. [1] Titsias, "Variational learning of inducing variables in sparse Gaussian
       processes", AISTATS 2009.
    """
    L = precision_root(statistics.gram, noise_variance) if root is None else root
    half = solve_lower(L, statistics.moment) / noise_variance
    return log_evidence_of(statistics, noise_variance, half, log_determinant(L))


def log_evidence_of(
    statistics: WeightStatistics,
    noise_variance: float,
    half: Array,
    log_determinant: float,
) -> float:
    """:func:`log_evidence`, given ``L⁻¹Φᵀy/σ²`` and the log determinant of B = L Lᵀ."""
    # yᵀ(ΦΦᵀ + σ²I)⁻¹y = yᵀy/σ² - |L⁻¹Φᵀy/σ²|²
    misfit = statistics.square / noise_variance - float(half @ half)
    log_volume = statistics.weight * np.log(2.0 * np.pi * noise_variance)
    penalty = statistics.residual / noise_variance
    return -0.5 * float(log_volume + log_determinant + misfit + penalty)


class EvidenceGradient(NamedTuple):
    """Value of an evidence and its derivatives.

    Attributes
    ----------
    value : float
        In nats.
    features : ndarray of shape (n, m)
        Derivative in Φ.
    residual : ndarray of shape (n,)
        Derivative in the residual variances.
    parameters : ndarray of shape (p,)
        Derivative in the log-parameters of the likelihood.
    """

    value: float
    features: Array
    residual: Array
    parameters: Array


def log_evidence_gradient(
    features: Array, y: Array, weights: Array, residual: Array, noise_variance: float
) -> EvidenceGradient:
    """`log_evidence` and its derivatives in Φ, the residual and log σ².

    Arguments as in :func:`weight_statistics`; O(n m^2 + m^3).
    """
    statistics = weight_statistics(features, y, weights, residual)
    L = precision_root(statistics.gram, noise_variance)
    S = solve_lower_transpose(L, solve_lower(L, np.eye(len(L))))
    mean = S @ statistics.moment / noise_variance
    misfit = y - features @ mean
    weighted = weights / noise_variance
    # ∂/∂Φ = ω[(y - Φw̄)w̄ᵀ - ΦS]/σ²
    slope = np.outer(weighted * misfit, mean)
    slope -= weighted[:, np.newaxis] * (features @ S)
    # Σω log N(y|Φw,σ²) is extremal in w; with S Φᵀ diag(ω) Φ/σ² = I - S:
    # ∂/∂log σ² = -½[Σω - (m - tr S) - Σω(misfit² + residual)/σ²]
    scatter = float(weighted @ (misfit**2 + residual))
    noise = -0.5 * (statistics.weight - (len(L) - float(np.trace(S))) - scatter)
    return EvidenceGradient(
        log_evidence(statistics, noise_variance, L),
        slope,
        -0.5 * weighted,
        np.array([noise]),
    )


def precision_root(gram: Array, noise_variance: float) -> Array:
    """Lower root of ``B = I + ΦᵀΦ/σ²``, whose eigenvalues are at least one."""
    B = gram / noise_variance
    diagonal_of(B)[:] += 1.0
    return cholesky(B, jitter=0.0).L
