"""Credible balls and bands of a latent function."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammaincinv
from scipy.stats import qmc

from skgpx._latent import LatentModel
from skgpx._types import Array, Generator


def domain_grid(domain: Array, size: int = 1024) -> Array:
    """Points evenly spread over a domain (d, 2): midpoints, or a Sobol net."""
    d = len(domain)
    if d == 1:
        midpoints = (np.arange(size) + 0.5) / size
        unit = midpoints[:, np.newaxis]
    else:
        sequence = qmc.Sobol(d, scramble=False)
        net = sequence.random(size)
        unit = (net + 0.5 / size) % 1.0
    low, high = domain.T
    return low + unit * (high - low)


def ball_radius(
    model: LatentModel,
    coverage: float,
    domain: Array,
    points: Array | None = None,
    output: int = 0,
) -> float:
    """Radius of the ball around the mean, in root mean square over points or a domain.

    ``|f - mean|²`` averaged over N points is ``Σ_j w_j χ²₁``, where w are the
    eigenvalues of the covariance at the points, divided by N; O(N^3). Fourier functions
    are orthonormal on their box. Where the box is the domain, w are the eigenvalues of
    the posterior covariance ``Λ^½ S Λ^½`` and the prior variances of the functions
    outside the basis; O(m^3).
    """
    basis: Any = model.basis
    box = getattr(basis, "box", None)
    is_box = False
    if box is not None:
        low, high = domain.T
        is_box = np.allclose(high - low, box.period, rtol=1e-12, atol=0.0)
    if points is None and not is_box:
        points = domain_grid(domain)
    if points is not None:
        covariance = model.covariance(points, output)
        weights = np.linalg.eigvalsh(covariance) / len(points)
        weights = np.maximum(weights, 0.0)
        square = chi_square_sum_quantile(weights, coverage)
        return float(np.sqrt(square))
    # S = root rootᵀ, Λ^½ S Λ^½ = half halfᵀ
    _, roots = model.weights.moments()
    root = roots[output % len(roots)]
    prior_std = np.sqrt(basis.eigenvalues)
    half = prior_std[:, np.newaxis] * root
    singular_values = np.linalg.svd(half, compute_uv=False)
    posterior_variances = singular_values**2
    prior_variances = basis.spectrum[basis.n_basis :]
    weights = np.concatenate((posterior_variances, prior_variances))
    square = chi_square_sum_quantile(weights, coverage, basis.remainder)
    scale = np.ravel(model.scale)[output]
    return float(scale * np.sqrt(square))


def effective_dimension(model: LatentModel) -> Array:
    """Functions that the data determine, of each output: ``tr(I - B⁻¹)``.

    B⁻¹ is the posterior covariance of the m whitened weights. Where the functions are
    orthogonal on the rows this is ``Σ_j ν_j``, ``ν_j = n λ_j / (σ² + n λ_j)`` (3.1).
    """
    _, roots = model.weights.moments()
    m = roots.shape[1]
    dimensions = m - np.sum(roots**2, axis=(1, 2))
    return np.broadcast_to(dimensions, model.n_outputs)


def simultaneous_factor(
    model: LatentModel,
    coverage: float,
    points: Array,
    rng: Generator,
    output: int = 0,
) -> float:
    """Quantile of ``max |f - mean| / std`` over points, from draws of f.

    The draws come from the exact joint distribution at the N points, residual included:
    O(N^3) and 20 000 draws. The standard error is about half a percent.
    """
    covariance = model.covariance(points, output)
    variance = np.maximum(np.diagonal(covariance), 0.0)
    std = np.sqrt(variance)
    varies = np.flatnonzero(std > 0.0)
    correlation = covariance / np.outer(std, std)
    correlation = correlation[np.ix_(varies, varies)]
    # root rootᵀ is the correlation
    eigenvalues, vectors = np.linalg.eigh(correlation)
    root = vectors * np.sqrt(np.maximum(eigenvalues, 0.0))
    matters = eigenvalues > 1e-10 * eigenvalues[-1]
    root = root[:, matters]
    rank = root.shape[1]
    suprema = []
    for _ in range(10):
        normals = rng.standard_normal((rank, 2000))
        draws = root @ normals
        supremum = np.abs(draws).max(axis=0)
        suprema.append(supremum)
    return float(np.quantile(np.concatenate(suprema), coverage))


# ---- Weighted sums of chi-squares: the squared norm of a Gaussian function -----------


def chi_square_sum_quantile(
    weights: Array,
    level: float,
    constant: float = 0.0,
) -> float:
    """Quantile of ``Q = constant + Σ weights[j] χ²₁``, independent chi-squares.

    Parameters
    ----------
    weights : ndarray of shape (k,)
        Not negative; zeros are left out.
    level : float
        Probability in (0, 1).
    constant : float, default=0.0
        Added to the sum.

    Returns
    -------
    quantile : float
        ``q`` with ``P(Q <= q) = level``, to a relative error of about 1e-9.
    """
    positive = weights[weights > 0.0]
    if not len(positive):
        return constant
    # from large to small, with the sum one
    weights = np.sort(positive)[::-1]
    total = weights.sum()
    w = weights / total
    # terms with a variance that does not matter are replaced by their mean
    ascending_squares = (w**2)[::-1]
    tail_squares = np.cumsum(ascending_squares)[::-1]
    matters = tail_squares > 1e-10 * float(w @ w)
    remainder = float(np.sum(w[~matters]))
    w = w[matters]
    # near the quantile of the gamma distribution of equal mean and variance
    variance = 2.0 * float(w @ w)
    unit_quantile = float(gammaincinv(1.0 / variance, level))
    gamma_quantile = unit_quantile * variance

    def excess(log_x: float) -> float:
        x = float(np.exp(log_x))
        return _probability_error(w, x, level)

    low = np.log(max(gamma_quantile, 1e-8))
    high = low
    while excess(low) > 0.0:
        low -= 0.2
    while excess(high) < 0.0:
        high += 0.2
    log_x = brentq(excess, low, high, xtol=1e-10)
    x = float(np.exp(log_x))
    return constant + float(total) * (x + remainder)


def _probability_error(w: Array, x: float, level: float) -> float:
    """``P(Σ w_j χ²₁ <= x) - level``, by Rice's inversion of the transform.

    ``P(Q > x) = -1/(2πi) ∫ exp(sx) Π (1 + 2 w_j s)^(-1/2) ds / s`` on the parabola of
    steepest descent through the saddle point, where the integrand decays like a normal
    density: the trapezoidal rule converges geometrically. For x above the mean the
    saddle is left of the origin, below it is on the right and gives ``P(Q <= x)``.
    """
    # saddle point s: zero of K'(s) = x - Σ w / (1 + 2 w s) - 1 / s, by bisection
    above_mean = x > float(w.sum())
    low = 0.0
    high = (1.0 + 0.5 * len(w)) / x
    if above_mean:
        low = -0.5 / w[0]
        high = 0.0
    for _ in range(60):
        s = 0.5 * (low + high)
        tilted_mean = float(np.sum(w / (1.0 + 2.0 * w * s)))
        slope = x - tilted_mean - 1.0 / s
        if slope < 0.0:
            low = s
        else:
            high = s
    # derivatives of log Π (1 + 2 w_j s)^(-1/2)
    ratio = 2.0 * w / (1.0 + 2.0 * w * s)
    second = 0.5 * float(ratio @ ratio)
    third = -float(np.sum(ratio**3))
    # δ = iu + cu² keeps K''δ²/2 + K'''δ³/6 real: c = K''' / (6 K'')
    curvature = third / (6.0 * second)
    step = 0.05 / np.sqrt(second + 1.0 / s**2)
    u = step * np.arange(240)
    points = s + 1j * u + curvature * u**2
    # the steps of s, over πi
    slopes = 1j + 2.0 * curvature * u
    steps = slopes * (step / (1j * np.pi))
    steps[0] *= 0.5
    # log Π (1 + 2 w_j s)^(-1/2)
    products = np.outer(points, w)
    log_transform = -0.5 * np.log1p(2.0 * products).sum(axis=1)
    transform = np.exp(points * x + log_transform)
    integrand = steps * transform / points
    tail = float(np.sum(integrand).real)
    if above_mean:
        return 1.0 - level + tail
    return tail - level
