"""Density of the frequencies of a stationary kernel, and its score.

``k(x, y) / k(x, x) = ∫ p(ω) cos(ω·(x - y)) dω`` with p the density of the angular
frequencies. RBF, Matern and RationalQuadratic have ``p(ω) = Π ℓ h(|ℓω|²)``: normal,
Student's t with 2ν degrees of freedom, and normal with a variance ``τ ~ Gamma(α) / α``.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.special import gammainccinv, gammaincinv, gammaln, logsumexp
from sklearn.gaussian_process.kernels import RBF, Matern, RationalQuadratic

from skgpx._numerics.spectral import (
    NORMAL,
    NORMAL_MIXTURE,
    STUDENT_T,
    RadialDensity,
)
from skgpx._types import Array, Kernel
from skgpx.kernels._columns import Columns
from skgpx.kernels._registry import Rule, free_slopes, is_rule, rule_of
from skgpx.kernels._terms import expand, merge_rbfs


@lru_cache(maxsize=32)
def variance_nodes(alpha: float) -> tuple[Array, Array]:
    """Logarithms of nodes τ and of their weights, for ``τ ~ Gamma(α) / α``.

    The trapezoidal rule in log τ errs by about ``exp(-π² / step)``.
    """
    lowest = max(gammaincinv(alpha, 1e-60), 1e-100)
    low = np.log(lowest)
    high = np.log(gammainccinv(alpha, 1e-90))
    n_nodes = int(6.0 * (high - low))
    n_nodes = min(max(n_nodes, 120), 1200)
    log_gamma = np.linspace(low, high, n_nodes)
    log_density = alpha * log_gamma - np.exp(log_gamma)
    log_tau = log_gamma - np.log(alpha)
    log_weights = log_density - logsumexp(log_density)
    return log_tau, log_weights


def radial_density(kernel: Kernel, d: int) -> RadialDensity:
    """The h of ``p(ω) = Π ℓ h(|ℓω|²)``, of frequencies (R, d)."""
    half = 0.5 * d
    log_2pi = np.log(2.0 * np.pi)
    if type(kernel) is RationalQuadratic:
        # h = E (2πτ)^(-d/2) exp(-s / 2τ)
        log_tau, log_weights = variance_nodes(float(kernel.alpha))
        log_factors = log_weights - half * (log_2pi + log_tau)
        rates = 0.5 * np.exp(-log_tau)
        parameters = np.concatenate((log_factors, rates))
        return RadialDensity(NORMAL_MIXTURE, parameters)
    nu = float(getattr(kernel, "nu", np.inf))
    if nu == np.inf:
        # h = (2π)^(-d/2) exp(-s / 2)
        log_factor = -half * log_2pi
        return RadialDensity(NORMAL, np.array([log_factor]))
    # h = c (1 + s / 2ν)^-(ν + d/2), c = Γ(ν + d/2) / (Γ(ν) (2πν)^(d/2))
    exponent = nu + half
    log_volume = half * np.log(2.0 * np.pi * nu)
    log_c = gammaln(exponent) - gammaln(nu) - log_volume
    return RadialDensity(STUDENT_T, np.array([log_c, exponent, 2.0 * nu]))


class _Elliptical(NamedTuple):
    """Radial density at R frequencies.

    Parameters
    ----------
    log_h : ndarray of shape (R,)
        ``log h(s)`` at ``s = |ℓω|²``.
    slope : ndarray of shape (R,)
        ``d log h / ds``.
    scaled : ndarray of shape (R, d)
        ``ℓω``.
    scales : ndarray of shape (d,)
        ``ℓ``.
    """

    log_h: Array
    slope: Array
    scaled: Array
    scales: Array


def _elliptical(kernel: Kernel, omega: Array) -> _Elliptical:
    d = omega.shape[1]
    scales = np.broadcast_to(np.asarray(kernel.length_scale, float), d)
    scaled = omega * scales
    squares = np.einsum("rd,rd->r", scaled, scaled)
    log_h, slope = radial_density(kernel, d).log_density(squares)
    return _Elliptical(log_h, slope, scaled, scales)


@is_rule("log_spectral_density", RBF, Matern, RationalQuadratic)
def _log_elliptical_density(kernel: Kernel, omega: Array) -> Array:
    radial = _elliptical(kernel, omega)
    log_volume = np.sum(np.log(radial.scales))
    return log_volume + radial.log_h


@is_rule("spectral_density", RBF, Matern)
def _elliptical_density(kernel: Kernel, omega: Array) -> tuple[Array, Array]:
    """``S(ω) = (2π)^d`` times the density, and its slopes in the lengthscales."""
    radial = _elliptical(kernel, omega)
    volume = np.prod(2.0 * np.pi * radial.scales)
    density = np.exp(radial.log_h) * volume
    # ∂log S / ∂log ℓ_i = 1 + 2 h'/h (ℓ_i ω_i)²
    slope = radial.slope[:, np.newaxis]
    log_slopes = 1.0 + 2.0 * slope * radial.scaled**2
    slopes = density[:, np.newaxis] * log_slopes
    return density, free_slopes(kernel.hyperparameter_length_scale, slopes)


@is_rule("spectral_score", RBF, Matern, RationalQuadratic)
def elliptical_score(kernel: Kernel, omega: Array) -> Array:
    """``∇ log h(|ℓω|²) = 2 h'/h ℓ ℓω``."""
    radial = _elliptical(kernel, omega)
    slope = radial.slope[:, np.newaxis]
    return 2.0 * slope * radial.scales * radial.scaled


@is_rule("log_spectral_density", Columns)
def _log_density_of_columns(kernel: Columns, omega: Array) -> Array:
    """Density of the inner kernel, where no other column has a frequency."""
    columns = kernel.indices(omega.shape[1])
    inner_omega = omega[:, columns]
    outer_omega = np.delete(omega, columns, axis=1)
    varies_inside = np.all(inner_omega != 0.0, axis=1)
    varies_outside = outer_omega.any(axis=1)
    log_density = log_spectral_density(kernel.kernel, inner_omega)
    return np.where(varies_inside & ~varies_outside, log_density, -np.inf)


@is_rule("spectral_score", Columns)
def _score_of_columns(kernel: Columns, omega: Array) -> Array:
    columns = kernel.indices(omega.shape[1])
    score = np.zeros(omega.shape)
    score[:, columns] = spectral_score(kernel.kernel, omega[:, columns])
    return score


def log_spectral_density(kernel: Kernel, omega: Array) -> Array:
    """Logarithm of the density of the frequencies, which integrates to one.

    ``k(x, y) / k(x, x) = ∫ p(ω) cos(ω·(x - y)) dω``; constant factors of the kernel do
    not change p, and the density of a sum is the mixture of the densities of its terms,
    in proportion to their variances.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        RBF, Matern, RationalQuadratic, every type with a registered density, products
        of these with constants, products and integer powers of RBFs, and sums.
    omega : ndarray of shape (R, d)
        Angular frequencies, in radians per unit of the input.

    Returns
    -------
    log_density : ndarray of shape (R,)
        In nats.

    Raises
    ------
    ValueError
        If a part of the kernel has no known density; the message names it.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from skgpx.kernels import log_spectral_density
    >>> log_spectral_density(3.0 * RBF(0.5), np.zeros((1, 1))).round(3)
    array([-1.612])
    """
    shares, parts = _mixture(kernel, omega.shape[1])
    log_densities = _log_weighted_densities(shares, parts, omega)
    return logsumexp(log_densities, axis=0)


def _log_weighted_densities(
    shares: Array,
    parts: list[Kernel],
    omega: Array,
) -> Array:
    """``log s_k p_k(ω_r)`` of the terms of a sum, (K, R)."""
    log_densities = np.stack([_log_density(part, omega) for part in parts])
    return log_densities + np.log(shares)[:, np.newaxis]


def spectral_score(kernel: Kernel, omega: Array) -> Array:
    """Gradient of :func:`log_spectral_density` in the frequencies.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        As in :func:`log_spectral_density`; your own kernels need
        a registered score, and in sums a spectral density.
    omega : ndarray of shape (R, d)
        Angular frequencies.

    Returns
    -------
    score : ndarray of shape (R, d)
        ``∇ log p(ω)``; for a sum the average of the scores of its terms, weighted
        by their parts of the density at ω.

    Raises
    ------
    ValueError
        If a part of the kernel has no known score; the message names it.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from skgpx.kernels import spectral_score
    >>> spectral_score(3.0 * RBF(0.5), np.array([[2.0]]))
    array([[-0.5]])
    """
    shares, parts = _mixture(kernel, omega.shape[1])
    scores = np.stack([_required_rule(part, "score")(part, omega) for part in parts])
    if len(parts) == 1:
        return scores[0]
    # ∇ log Σ_k s_k p_k = Σ_k r_k ∇ log p_k,  r_k = s_k p_k / Σ_l s_l p_l
    log_densities = _log_weighted_densities(shares, parts, omega)
    # a density of zero for every term would divide zero by zero
    log_densities = np.maximum(log_densities, -1e300)
    responsibilities = np.exp(log_densities - logsumexp(log_densities, axis=0))
    return np.einsum("kr,krd->rd", responsibilities, scores)


def check_spectral_score(kernel: Kernel, omega: Array) -> None:
    """Compare the score of a kernel with central differences of its density.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Kernel with a spectral score; not a sum or product.
    omega : ndarray of shape (R, d)
        Angular frequencies, in the bulk of the density.

    Raises
    ------
    ValueError
        If the score has another shape than omega or is not finite; if it is not odd,
        as that of an even density is; if it is not the slope of a known density.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from skgpx.kernels import check_spectral_score
    >>> check_spectral_score(RBF(2.0), np.array([[0.3], [-1.0]]))
    """
    rule = _required_rule(kernel, "score")
    score = np.asarray(rule(kernel, omega), dtype=np.float64)
    fault = _fault_of_score(kernel, omega, score)
    if fault:
        name = type(kernel).__name__
        raise ValueError(
            f"The spectral score of {name} {fault}. Register ∇ log S(ω), in radians "
            "per unit of the input, with "
            f"skgpx.kernels.register_kernel({name}, spectral_score=...)."
        )


def _fault_of_score(kernel: Kernel, omega: Array, score: Array) -> str:
    """Property that a score lacks, in words; empty if there is none."""
    if score.shape != omega.shape or not np.isfinite(score).all():
        return f"must be finite and of shape {omega.shape}; got shape {score.shape}"
    opposite = _required_rule(kernel, "score")(kernel, -omega)
    if not np.allclose(opposite, -score, rtol=1e-6, atol=1e-12):
        return "is not odd in ω, as it is for a real kernel"
    if not _is_slope(kernel, omega, score):
        return "is not the slope of its log spectral density"
    return ""


def _is_slope(kernel: Kernel, omega: Array, score: Array) -> bool:
    """Whether a score agrees with central differences of the density, if known."""
    rules = ("log_spectral_density", "spectral_density")
    if not any(rule_of(kernel, rule) for rule in rules):
        return True
    lengths = np.linalg.norm(omega, axis=1, keepdims=True)
    steps = 1e-4 * lengths
    differences = np.empty_like(score)
    for k, axis in enumerate(np.eye(omega.shape[1])):
        step = steps * axis
        above = _log_density(kernel, omega + step)
        below = _log_density(kernel, omega - step)
        differences[:, k] = 0.5 * (above - below)
    expected = score * steps
    errors = np.abs(differences - expected)
    largest = np.max(np.abs(expected), axis=1, keepdims=True)
    tolerance = 1e-2 * largest + 1e-9
    return bool(np.all(errors <= tolerance))


def _mixture(kernel: Kernel, d: int) -> tuple[Array, list[Kernel]]:
    """Terms of a sum: their shares of its variance, and their kernels."""
    variances = []
    parts = []
    for term in expand(kernel):
        factors = merge_rbfs(term.factors)
        if len(factors) != 1:
            product = " * ".join(map(repr, factors)) or "a constant"
            raise ValueError(
                f"The spectral density of {product}, a term of {kernel!r}, is not "
                "known: a constant has all of its variance at the frequency zero, and "
                "the density of a product is a convolution. Use products with "
                "constants, products of RBFs, and their sums."
            )
        variances.append(term.coefficient * stationary_variance(factors[0], d))
        parts.append(factors[0])
    shares = np.array(variances)
    return shares / shares.sum(), parts


def stationary_variance(kernel: Kernel, d: int) -> float:
    """Variance ``k(x, x)`` of a stationary kernel of d inputs."""
    origin = np.zeros((1, d))
    (variance,) = kernel.diag(origin)
    return float(variance)


def _log_density(part: Kernel, omega: Array) -> Array:
    """Logarithm of the normalised density of one kernel, not a sum or product."""
    rule = rule_of(part, "log_spectral_density")
    if rule is not None:
        return rule(part, omega)
    # S = (2π)^d k(0) p
    d = omega.shape[1]
    variance = stationary_variance(part, d)
    log_factor = d * np.log(2.0 * np.pi) + np.log(variance)
    density, _ = _required_rule(part, "density")(part, omega)
    return np.log(density) - log_factor


def _required_rule(part: Kernel, name: str) -> Rule:
    rule: Rule | None = rule_of(part, f"spectral_{name}")
    if rule is None:
        type_name = type(part).__name__
        raise ValueError(
            f"{part!r} has no known spectral {name}. Register it with "
            f"skgpx.kernels.register_kernel({type_name}, spectral_{name}=...) if the "
            "kernel is stationary and has one."
        )
    return rule
