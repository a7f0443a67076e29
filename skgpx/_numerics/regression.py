"""Gaussian regression in a basis: statistics, posterior, evidence and its gradient.

With features Φ (n, m), weights w ~ N(0, I) and y = Φw + ε, ε ~ N(0, σ²)::

    B = I + ΦᵀΦ / σ²,   w | y ~ N(B⁻¹ Φᵀy / σ², B⁻¹)

Row weights ω are frequencies: the likelihood of row i is raised to the power ω_i.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, optimize

from skgpx._numerics.linalg import (
    cholesky,
    invert_lower,
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
    moment : ndarray of shape (m,), or (m, t) for t targets
        ``Φᵀ diag(ω) y``.
    square : float, or ndarray of shape (t,)
        ``Σ ω y²``.
    residual, weight : float
        ``Σ ω var g`` and ``Σ ω``.
    """

    gram: Array
    moment: Array
    square: Any
    residual: float
    weight: float

    def targets(self) -> Iterator[WeightStatistics]:
        """Statistics of each target."""
        pairs = np.atleast_2d(self.moment.T), np.atleast_1d(self.square)
        for moment, square in zip(*pairs, strict=True):
            yield self._replace(moment=moment, square=float(square))

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
    features: Array,
    y: Array,
    weights: Array,
    residual: Array,
) -> WeightStatistics:
    """Statistics of one block of rows.

    Parameters
    ----------
    features : ndarray of shape (n, m)
    y : ndarray of shape (n,), or (n, t) for t targets
    weights, residual : ndarray of shape (n,)
        Frequency weights, and the prior variance outside the basis.

    Notes
    -----
    O(n m^2) time.
    """
    root = np.sqrt(weights)
    # a matrix times its own transpose is half the work of any other product
    half = features if np.all(root == 1.0) else features * root[:, np.newaxis]
    return WeightStatistics(
        half.T @ half,
        half.T @ (root * y.T).T,
        weights @ y**2,
        float(weights @ residual),
        float(weights.sum()),
    )


def posterior(
    statistics: WeightStatistics,
    noise_variance: Any,
    root: Array | None = None,
) -> GaussianWeights:
    """Distribution of the weights given the data, N(B⁻¹ Φᵀy/σ², B⁻¹); O(m^3).

    The noise variance is one, or that of each target, (t,). The root of B,
    :func:`precision_root`, is computed unless it is given.
    """
    if np.ndim(noise_variance):
        return TargetRegressions(statistics).posterior(noise_variance)
    L = precision_root(statistics.gram, noise_variance) if root is None else root
    mean = posterior_mean_from(statistics, noise_variance, L)
    # B = L Lᵀ, so L⁻ᵀ is a root of B⁻¹
    inverse = solve_lower_transpose(L, np.eye(len(L)))
    return GaussianWeights(mean.reshape(len(mean), -1), inverse[np.newaxis])


def posterior_mean_from(
    statistics: WeightStatistics,
    noise_variance: float,
    root: Array,
) -> Array:
    """Mean of :func:`posterior`, (m,) or (m, t), given the root of the precision."""
    half = solve_lower(root, statistics.moment / noise_variance)
    return solve_lower_transpose(root, half)


def log_evidence(
    statistics: WeightStatistics,
    noise_variance: Any,
    root: Array | None = None,
) -> float:
    """Log evidence, less a penalty for the residual of the basis.

    ``log N(y | 0, ΦΦᵀ + σ²I) - Σ var g / (2σ²)``: the collapsed bound of [1]_,
    equation (9), when Φ projects a Gaussian process; the exact log evidence when the
    residual is zero. In nats, summed over rows and targets, of one noise variance or of
    that of each target; O(m^3), or O(m^2) given the root of B.

    References
    ----------
    .. [1] Titsias, "Variational learning of inducing variables in sparse Gaussian
       processes", AISTATS 2009.
    """
    if np.ndim(noise_variance):
        return float(TargetRegressions(statistics).log_evidence(noise_variance).sum())
    L = precision_root(statistics.gram, noise_variance) if root is None else root
    half = solve_lower(L, statistics.moment) / noise_variance
    volume, halves = log_determinant(L), np.atleast_2d(half.T)
    pairs = zip(statistics.targets(), halves, strict=True)
    return sum(log_evidence_of(one, noise_variance, h, volume) for one, h in pairs)


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
    features: Array,
    y: Array,
    weights: Array,
    residual: Array,
    noise_variance: float,
) -> EvidenceGradient:
    """`log_evidence` and its derivatives in Φ, the residual and log σ².

    Arguments as in :func:`weight_statistics`; O(n m^2 + m^3).
    """
    statistics = weight_statistics(features, y, weights, residual)
    L = precision_root(statistics.gram, noise_variance)
    S = solve_lower_transpose(L, solve_lower(L, np.eye(len(L))))
    mean = S @ statistics.moment / noise_variance
    misfit = y - features @ mean
    weighted, t = weights / noise_variance, y.size // len(y)
    # ∂/∂Φ = ω[(y - Φw̄)w̄ᵀ - ΦS]/σ², summed over targets
    slope = (weighted * misfit.T).T.reshape(-1, t) @ mean.reshape(-1, t).T
    slope -= t * weighted[:, np.newaxis] * (features @ S)
    # Σω log N(y|Φw,σ²) is extremal in w; with S Φᵀ diag(ω) Φ/σ² = I - S:
    # ∂/∂log σ² = -½[Σω - (m - tr S) - Σω(misfit² + residual)/σ²]
    scatter = float(np.sum(weighted @ (misfit.T**2 + residual).T))
    spread = statistics.weight - (len(L) - float(np.trace(S)))
    return EvidenceGradient(
        log_evidence(statistics, noise_variance, L),
        slope,
        -0.5 * t * weighted,
        np.array([-0.5 * (t * spread - scatter)]),
    )


def precision_root(gram: Array, noise_variance: float) -> Array:
    """Lower root of ``B = I + ΦᵀΦ/σ²``, whose eigenvalues are at least one."""
    B = gram / noise_variance
    np.einsum("ii->i", B)[:] += 1.0
    return cholesky(B, jitter=0.0).L


# ---- Several targets, each with a noise of its own -----------------------------------


class TargetRegressions:
    """Regressions of several targets in one basis, whose noise variances differ.

    With ``ΦᵀΦ = U diag(λ) Uᵀ``, of which there is one for all targets, evidences and
    posteriors of each are sums over the eigenvalues.

    Parameters
    ----------
    statistics : WeightStatistics
        Of t targets; O(m^3) once.
    """

    def __init__(self, statistics: WeightStatistics):
        values, self._vectors = linalg.eigh(statistics.gram)
        self._values = np.maximum(values, 0.0)
        turned = statistics._replace(moment=self._vectors.T @ statistics.moment)
        self._moments, self._targets = turned.moment, list(turned.targets())

    def log_evidence(self, noise_variance: Array, white: float = 0.0) -> Array:
        """:func:`log_evidence` of each target, (t,), at its noise variance (t,).

        A part `white` of the variance of the residual counts as noise of each row.
        """
        total = noise_variance + white
        ratio = 1.0 + self._values / total[:, np.newaxis]
        halves = self._moments.T / (total[:, np.newaxis] * np.sqrt(ratio))
        volumes = np.sum(np.log(ratio), axis=1).tolist()
        targets = [
            one._replace(residual=one.residual - white * one.weight)
            for one in self._targets
        ]
        each = zip(targets, total, halves, volumes, strict=True)
        return np.array([log_evidence_of(*one) for one in each])

    def best_noise(
        self,
        low: float,
        high: float,
        mean: float,
        std: float,
        white: float = 0.0,
    ) -> Array:
        """Noise variance of each target, (t,), of the largest log posterior.

        Its logarithm is N(mean, std²) between two bounds. The best of a grid is
        refined. `white` as in :meth:`log_evidence`.
        """
        n_targets = len(self._targets)
        grid = np.linspace(np.full(n_targets, low), np.full(n_targets, high), 41)
        for _ in range(4):
            prior = -0.5 * ((grid - mean) / std) ** 2
            values = [self.log_evidence(np.exp(one), white) for one in grid]
            best = grid[np.argmax(values + prior, axis=0), np.arange(n_targets)]
            width = 1.5 * (grid[1] - grid[0])
            grid = np.clip(np.linspace(best - width, best + width, 21), low, high)
        return np.exp(best)

    def posterior(self, noise_variance: Array) -> GaussianWeights:
        """Distribution of the weights of each target at its noise variance (t,)."""
        variance = 1.0 / (1.0 + self._values[:, np.newaxis] / noise_variance)
        mean = self._vectors @ (variance * self._moments / noise_variance)
        return GaussianWeights(mean, self._vectors[np.newaxis], np.sqrt(variance).T)


# ---- Evidence of a sequence of eigenvalues -------------------------------------------


class Spectrum(NamedTuple):
    """Eigenvalues of listed functions and what is beyond, with derivatives.

    Attributes
    ----------
    eigenvalues : ndarray of shape (m,)
        ``λ_j >= 0`` of the listed functions, in squared units of y.
    slopes : ndarray of shape (m, p)
        ``∂ log λ_j / ∂θ`` in the p parameters θ of the rule.
    tail : float
        Prior variance outside the functions, averaged over the box (over the rows
        where a bound is computed).
    tail_slopes : ndarray of shape (p,)
        ``∂ tail / ∂θ``.
    """

    eigenvalues: Array
    slopes: Array
    tail: float
    tail_slopes: Array


def whitened(
    sums: WeightStatistics,
    eigenvalues: Array,
    residual: float,
) -> WeightStatistics:
    """Statistics of the features ``√λ_j φ_j``, whose weights are N(0, I).

    Parameters
    ----------
    sums : WeightStatistics
        Of the functions ``φ_j``.
    eigenvalues : ndarray of shape (m,)
        ``λ``, not negative.
    residual : float
        ``Σ w var g``, the prior variance outside the functions.
    """
    root = np.sqrt(eigenvalues)
    return sums._replace(
        gram=sums.gram * (root[:, np.newaxis] * root),
        moment=(sums.moment.T * root).T,
        residual=residual,
    )


def series_evidence(
    sums: WeightStatistics,
    spectrum: Spectrum,
    noise_variance: float,
) -> tuple[float, Array]:
    """Bound of the log evidence and its analytic gradient.

    Parameters
    ----------
    sums : WeightStatistics
        Of the functions the spectrum lists, not whitened.
    spectrum : Spectrum
    noise_variance : float
        ``σ²``, positive.

    Returns
    -------
    value : float
        In nats, summed over targets.
    gradient : ndarray of shape (1 + p,)
        In ``log σ²`` and the parameters of the rule.

    Notes
    -----
    O(m^3), free of n. With ``S = (I + G/σ²)⁻¹`` and posterior mean w̄ of the whitened
    weights, by the envelope theorem ``∂/∂log λ_j = ½ (S_jj + w̄_j² - 1)`` and
    ``∂/∂tail = -Σw / (2σ²)``. Equation of section 6.2 of [1]_.

    References
    ----------
    .. [1] Nieman, Szabó, van Zanten, "Uncertainty quantification for sparse spectral
       variational approximations in Gaussian process regression", 2023.
    """
    residual = sums.weight * spectrum.tail
    statistics = whitened(sums, spectrum.eigenvalues, residual)
    L = precision_root(statistics.gram, noise_variance)
    inverse = invert_lower(L)
    # diag S = diag(L⁻ᵀ L⁻¹)
    spread = np.einsum("ij,ij->j", inverse, inverse)
    mean = inverse.T @ (inverse @ statistics.moment) / noise_variance
    t = np.size(statistics.square)
    scales = 0.5 * (t * spread + np.sum(mean.reshape(-1, t) ** 2, axis=1) - t)
    # Σ w (y - Φw̄)² + Σ w var g; tr(GS)/σ² = m - tr S
    scatter = np.sum(statistics.square) - 2.0 * np.vdot(mean, statistics.moment)
    scatter += np.vdot(mean.T @ statistics.gram, mean.T) + t * residual
    fitted = len(spread) - float(np.sum(spread))
    noise = -0.5 * (t * (sums.weight - fitted) - scatter / noise_variance)
    beyond = -0.5 * t * sums.weight / noise_variance
    slopes = scales @ spectrum.slopes + beyond * spectrum.tail_slopes
    value = log_evidence(statistics, noise_variance, L)
    return value, np.append(noise, slopes)


def noise_bounds(square: Any, weight: float) -> Array:
    """Search interval of the noise variance, from ``Σ w y²`` and ``Σ w``.

    In units of the variance of y, or of one where y has none, so that logarithms exist;
    for several targets of their mean variance.
    """
    return np.multiply((1e-8, 10.0), np.mean(square) / weight or 1.0)


def best_noise_variance(statistics: WeightStatistics, start: float) -> float:
    """Noise variance that maximises the bound, within a factor of 1000 of a start.

    O(m^3) a step, of which there are about a dozen.
    """
    found = optimize.minimize_scalar(
        lambda log_noise: -log_evidence(statistics, float(np.exp(log_noise))),
        bounds=np.log(
            np.clip(
                (1e-3 * start, 1e3 * start),
                *noise_bounds(statistics.square, statistics.weight),
            )
        ),
        method="bounded",
        options={"xatol": 1e-4},
    )
    return float(np.exp(found.x))
