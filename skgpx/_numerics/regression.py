"""Gaussian regression in a basis: statistics, posterior, evidence and its gradient.

With features Φ (n, m), weights w ~ N(0, I) and y = Φw + ε, ε ~ N(0, σ²)::

    B = I + ΦᵀΦ / σ²,   w | y ~ N(B⁻¹ Φᵀy / σ², B⁻¹)

Row weights ω are frequencies: the likelihood of row i is raised to the power ω_i.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg

from skgpx._numerics.linalg import (
    cholesky,
    invert_lower,
    log_determinant,
    solve_lower,
    solve_lower_transpose,
)
from skgpx._numerics.weights import GaussianWeights
from skgpx._types import Array


class WeightStatistics(NamedTuple):
    """Sums over rows; sums over disjoint sets of rows can be added, see `add`.

    Attributes
    ----------
    gram : ndarray of shape (m, m)
        ``Φᵀ diag(ω) Φ``.
    moment : ndarray of shape (m,), or (m, t) for t targets
        ``Φᵀ diag(ω) y``.
    square : float, or ndarray of shape (t,)
        ``Σ ω y²``.
    residual : float
        ``Σ ω var g``.
    weight : float
        ``Σ ω``.
    """

    gram: Array
    moment: Array
    square: Any
    residual: float
    weight: float

    def targets(self) -> Iterator[WeightStatistics]:
        """Statistics of each target."""
        moments = np.atleast_2d(self.moment.T)
        squares = np.atleast_1d(self.square)
        for moment, square in zip(moments, squares, strict=True):
            yield self._replace(moment=moment, square=float(square))

    def add(self, other: WeightStatistics, sign: float = 1.0) -> WeightStatistics:
        """Statistics of both sets of rows; sign -1.0 removes the other set."""
        return WeightStatistics(
            gram=self.gram + sign * other.gram,
            moment=self.moment + sign * other.moment,
            square=self.square + sign * other.square,
            residual=self.residual + sign * other.residual,
            weight=self.weight + sign * other.weight,
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
    # Φᵀ diag(ω) Φ = (√ω Φ)ᵀ (√ω Φ): a matrix times its own transpose is half the work
    # of any other product
    root = np.sqrt(weights)
    scaled_features = features
    if not np.all(root == 1.0):
        scaled_features = features * root[:, np.newaxis]
    scaled_y = (root * y.T).T
    return WeightStatistics(
        gram=scaled_features.T @ scaled_features,
        moment=scaled_features.T @ scaled_y,
        square=weights @ y**2,
        residual=float(weights @ residual),
        weight=float(weights.sum()),
    )


def posterior(
    statistics: WeightStatistics,
    noise_variance: float | Array,
    root: Array | None = None,
) -> GaussianWeights:
    """Distribution of the weights given the data, N(B⁻¹ Φᵀy/σ², B⁻¹); O(m^3).

    Parameters
    ----------
    statistics : WeightStatistics
    noise_variance : float or ndarray of shape (t,)
        σ² of all targets, or of each target.
    root : ndarray of shape (m, m), optional
        The root of B, see :func:`precision_root`.
    """
    if np.ndim(noise_variance) > 0:
        return TargetRegressions(statistics).posterior(np.asarray(noise_variance))
    variance = float(noise_variance)
    if root is None:
        root = precision_root(statistics.gram, variance)
    mean = posterior_mean_from(statistics, variance, root)
    # B = L Lᵀ, so L⁻ᵀ is a root of B⁻¹
    covariance_root = solve_lower_transpose(root, np.eye(len(root)))
    return GaussianWeights(
        mean=mean.reshape(len(mean), -1),
        root=covariance_root[np.newaxis],
    )


def noise_share(
    variance: Array,
    noise_variance: float | Array,
    weights: float | Array = 1.0,
    least: float = 1e-9,
) -> Array:
    """Share of the noise in the variance of each row given all others, ``1 - h``.

    With the leverage ``h = ω φᵀSφ / σ²``, S the covariance of :func:`posterior`, the
    other rows predict ``N(y - (y - φᵀw̄) / (1 - h), φᵀSφ / (1 - h) + σ² / ω)``, by the
    Sherman-Morrison formula.

    Parameters
    ----------
    variance : ndarray of shape (n,) or (n, t)
        ``φᵀSφ`` at the rows.
    noise_variance : float, or ndarray of shape (t,) or (n,)
        σ² of all targets, of each target, or of each row of one target.
    weights : float or ndarray of shape (n,), default=1.0
        ω.
    least : float, default=1e-9
        Smallest share, against rounding.
    """
    leverage = (weights * variance.T).T / noise_variance
    return np.maximum(1.0 - leverage, least)


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
    noise_variance: float | Array,
    root: Array | None = None,
) -> float:
    """Log evidence, less a penalty for the residual of the basis.

    ``log N(y | 0, ΦΦᵀ + σ²I) - Σ var g / (2σ²)``: the collapsed bound of [1]_,
    equation (9), when Φ projects a Gaussian process; the exact log evidence when the
    residual is zero. In nats, summed over rows and targets; O(m^3), or O(m^2) given the
    root of B. Arguments as in :func:`posterior`.

    References
    ----------
    .. [1] Titsias, "Variational learning of inducing variables in sparse Gaussian
       processes", AISTATS 2009.
    """
    if np.ndim(noise_variance) > 0:
        regressions = TargetRegressions(statistics)
        return float(regressions.log_evidence(np.asarray(noise_variance)).sum())
    variance = float(noise_variance)
    if root is None:
        root = precision_root(statistics.gram, variance)
    log_det_B = log_determinant(root)
    # L⁻¹Φᵀy/σ² of each target
    half = solve_lower(root, statistics.moment) / variance
    projections = np.atleast_2d(half.T)
    total = 0.0
    for target, projection in zip(statistics.targets(), projections, strict=True):
        total += log_evidence_of(target, variance, projection, log_det_B)
    return total


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
    n_targets = y.size // len(y)
    precision = weights / noise_variance
    L = precision_root(statistics.gram, noise_variance)
    # posterior covariance S = B⁻¹ and mean w̄ = S Φᵀy/σ²
    inverse = solve_lower(L, np.eye(len(L)))
    S = solve_lower_transpose(L, inverse)
    mean = S @ statistics.moment / noise_variance
    misfit = y - features @ mean

    # ∂/∂Φ = ω[(y - Φw̄)w̄ᵀ - ΦS]/σ², summed over targets
    weighted_misfit = (precision * misfit.T).T
    weighted_misfit = weighted_misfit.reshape(-1, n_targets)
    slope = weighted_misfit @ mean.reshape(-1, n_targets).T
    slope -= n_targets * precision[:, np.newaxis] * (features @ S)

    # Σω log N(y|Φw,σ²) is extremal in w; with S Φᵀ diag(ω) Φ/σ² = I - S:
    # ∂/∂log σ² = -½[Σω - (m - tr S) - Σω(misfit² + residual)/σ²]
    squares = (misfit.T**2 + residual).T
    scatter = float(np.sum(precision @ squares))
    effective_parameters = len(L) - float(np.trace(S))
    degrees = statistics.weight - effective_parameters
    in_log_noise = -0.5 * (n_targets * degrees - scatter)
    return EvidenceGradient(
        value=log_evidence(statistics, noise_variance, L),
        features=slope,
        residual=-0.5 * n_targets * precision,
        parameters=np.array([in_log_noise]),
    )


def precision_root(gram: Array, noise_variance: float) -> Array:
    """Lower root of ``B = I + ΦᵀΦ/σ²``; the eigenvalues of B are at least one."""
    return cholesky(gram / noise_variance, jitter=0.0, added=1.0).L


# ---- Several targets with separate noise variances -----------------------------------


class TargetRegressions:
    """Regressions of several targets in one basis, with separate noise variances.

    All targets share ``ΦᵀΦ = U diag(λ) Uᵀ``; the evidence and the posterior of a target
    are sums over the eigenvalues.

    Parameters
    ----------
    statistics : WeightStatistics
        Of t targets; O(m^3) once.
    """

    def __init__(self, statistics: WeightStatistics):
        self.statistics = statistics
        eigenvalues, self._vectors = linalg.eigh(statistics.gram)
        self._eigenvalues = np.maximum(eigenvalues, 0.0)
        # UᵀΦᵀy
        self._moments = self._vectors.T @ statistics.moment
        rotated = statistics._replace(moment=self._moments)
        self._targets = list(rotated.targets())

    def log_evidence(self, noise_variance: Array, white: float = 0.0) -> Array:
        """:func:`log_evidence` of each target, (t,), at its noise variance (t,).

        The part `white` of the variance of the residual counts as noise of each row.
        """
        variance = noise_variance + white
        # eigenvalues of B, and L⁻¹Φᵀy/σ²
        by_target = variance[:, np.newaxis]
        eigenvalues = 1.0 + self._eigenvalues / by_target
        halves = self._moments.T / (by_target * np.sqrt(eigenvalues))
        log_det_B = np.sum(np.log(eigenvalues), axis=1)
        evidences = np.empty(len(variance))
        for k, target in enumerate(self._targets):
            residual = target.residual - white * target.weight
            evidences[k] = log_evidence_of(
                target._replace(residual=residual),
                noise_variance=variance[k],
                half=halves[k],
                log_determinant=float(log_det_B[k]),
            )
        return evidences

    def best_noise(
        self,
        low: float,
        high: float,
        log_prior: Callable[[Array], Array],
        white: float = 0.0,
    ) -> Array:
        """Noise variance of each target, (t,), that maximises its log posterior.

        The logarithm of the noise variance lies between two bounds; `log_prior` is its
        log density. `white` as in :meth:`log_evidence`.
        """

        def log_posterior(log_noise: Array) -> Array:
            evidence = self.log_evidence(np.exp(log_noise), white)
            return evidence + log_prior(log_noise)

        zeros = np.zeros(len(self._targets))
        return np.exp(best_of_grids(log_posterior, low + zeros, high + zeros))

    def posterior(self, noise_variance: Array) -> GaussianWeights:
        """Distribution of the weights of each target at its noise variance (t,)."""
        mean, variance = self._rotated_posterior(noise_variance)
        return GaussianWeights(
            mean=self._vectors @ mean,
            root=self._vectors[np.newaxis],
            scales=np.sqrt(variance).T,
        )

    def squares_of_residuals(self, noise_variance: Array) -> Array:
        """``Σ ω (y - φᵀw̄)²`` of each target, (t,), at its noise variance (t,)."""
        w, _ = self._rotated_posterior(noise_variance)
        moments = self._moments.reshape(w.shape)
        of_mean = self._eigenvalues @ w**2 - 2.0 * np.sum(w * moments, axis=0)
        return self.statistics.square + of_mean

    def left_out(
        self,
        features: Array,
        y: Array,
        weights: Array,
    ) -> Callable[[Array], tuple[Array, Array]]:
        """Errors and variances of ``φᵀw`` at rows given all others, of any noise.

        Parameters
        ----------
        features : ndarray of shape (n, m)
            Of n of the rows.
        y : ndarray of shape (n, t)
        weights : ndarray of shape (n,)
            ω, as in the sums.

        Returns
        -------
        moments : callable
            Takes noise variances (t,); returns two arrays (n, t), by
            :func:`noise_share`. O(n m t) a call.
        """
        features = features @ self._vectors
        squares = features**2

        def moments(noise_variance: Array) -> tuple[Array, Array]:
            weight_mean, weight_variance = self._rotated_posterior(noise_variance)
            mean = features @ weight_mean
            variance = squares @ weight_variance
            share = noise_share(variance, noise_variance, weights)
            return (y - mean) / share, variance / share

        return moments

    def _rotated_posterior(self, noise_variance: Array) -> tuple[Array, Array]:
        """Means and variances of ``Uᵀw``, whose coordinates are independent, (m, t)."""
        variance = 1.0 / (1.0 + self._eigenvalues[:, np.newaxis] / noise_variance)
        moments = self._moments.reshape(len(variance), -1)
        return variance * moments / noise_variance, variance


def best_of_grids(
    score: Callable[[Array], Array],
    low: Array,
    high: Array,
) -> Array:
    """Where the score of each target is largest: a grid, refined three times.

    Parameters
    ----------
    score : callable
        Takes a number of each target (t,); returns as many scores.
    low, high : ndarray of shape (t,)
        Bounds.
    """
    targets = np.arange(len(low))
    grid = np.linspace(low, high, 41)
    for _ in range(4):
        best_points = np.argmax([score(point) for point in grid], axis=0)
        best = grid[best_points, targets]
        width = 1.5 * (grid[1] - grid[0])
        grid = np.linspace(best - width, best + width, 21)
        grid = np.clip(grid, low, high)
    return best


# ---- Evidence of a sequence of eigenvalues -------------------------------------------


class Spectrum(NamedTuple):
    """Eigenvalues of listed functions and the variance of the others, with derivatives.

    Attributes
    ----------
    eigenvalues : ndarray of shape (m,)
        ``λ_j >= 0`` of the listed functions, in squared units of y.
    slopes : ndarray of shape (m, p)
        ``∂ log λ_j / ∂θ`` in the p parameters θ of the rule.
    tail : float
        Prior variance outside the listed functions, averaged over the box (over the
        rows if a bound is computed).
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
    """Statistics of the features ``√λ_j φ_j``, which have weights N(0, I).

    Parameters
    ----------
    sums : WeightStatistics
        Statistics of the functions ``φ_j``.
    eigenvalues : ndarray of shape (m,)
        ``λ``, not negative.
    residual : float
        ``Σ w var g``, the prior variance outside the functions.
    """
    root = np.sqrt(eigenvalues)
    # Λ^½ G Λ^½ and Λ^½ Φᵀy; targets stand in columns
    outer = root[:, np.newaxis] * root
    moment = sums.moment.T * root
    return sums._replace(
        gram=sums.gram * outer,
        moment=moment.T,
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
        Statistics of the functions of the spectrum, not whitened.
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
    # diag S = diag(L⁻ᵀ L⁻¹), and w̄ = S Φᵀy/σ²
    diag_S = np.einsum("ij,ij->j", inverse, inverse)
    mean = inverse.T @ (inverse @ statistics.moment) / noise_variance

    # ∂/∂log λ_j = ½ (S_jj + w̄_j² - 1), summed over targets
    t = np.size(statistics.square)
    squares = mean.reshape(-1, t) ** 2
    mean_squares = np.sum(squares, axis=1)
    in_log_eigenvalues = 0.5 * (t * diag_S + mean_squares - t)
    # ∂/∂tail = -Σw / (2σ²)
    in_tail = -0.5 * t * sums.weight / noise_variance
    in_parameters = in_log_eigenvalues @ spectrum.slopes
    in_parameters = in_parameters + in_tail * spectrum.tail_slopes

    # Σ w (y - Φw̄)² + Σ w var g
    fit = np.vdot(mean, statistics.moment)
    fit_square = np.vdot(mean.T @ statistics.gram, mean.T)
    scatter = np.sum(statistics.square) - 2.0 * fit
    scatter += fit_square + t * residual
    # tr(GS)/σ² = m - tr S
    trace_S = float(np.sum(diag_S))
    effective_parameters = len(diag_S) - trace_S
    degrees = t * (sums.weight - effective_parameters)
    in_log_noise = -0.5 * (degrees - scatter / noise_variance)
    value = log_evidence(statistics, noise_variance, L)
    return value, np.append(in_log_noise, in_parameters)


def noise_bounds(square: float | Array, weight: float) -> Array:
    """Search interval of the noise variance, from ``Σ w y²`` and ``Σ w``.

    In units of the variance of y, or of the mean variance of several targets; in units
    of one if y does not vary, so that logarithms exist.
    """
    variance = np.mean(square) / weight or 1.0
    return np.multiply((1e-8, 10.0), variance)
