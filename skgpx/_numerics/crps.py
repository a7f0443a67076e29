"""Continuous ranked probability scores, ``∫ (F(z) - 1{y <= z})² dz``."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
from scipy.special import ndtr

from skgpx._types import Array

Cdf = Callable[[Array], Array]

# Levels of the quantiles between which the integral is split.
LEVELS = (
    1e-6,
    1e-4,
    0.01,
    0.1,
    0.25,
    0.5,
    0.75,
    0.9,
    0.99,
    1 - 1e-4,
    1 - 1e-6,
)


def distance(mean: Array, std: Array) -> Array:
    """``E|D|`` of ``D ~ N(mean, std²)``, elementwise; std may be zero."""
    shape = np.broadcast_shapes(np.shape(mean), np.shape(std))
    std = np.broadcast_to(std, shape)
    has_spread = std > 0.0
    z = np.zeros(shape)
    np.divide(mean, std, out=z, where=has_spread)
    # φ(z), without underflow
    bounded = np.minimum(np.abs(z), 40.0)
    normalisation = np.sqrt(2.0 * np.pi)
    phi = np.exp(-0.5 * bounded**2) / normalisation
    Phi = ndtr(z)
    # E|D| = 2 s φ(z) + m (2 Φ(z) - 1)
    expectation = 2.0 * std * phi + mean * (2.0 * Phi - 1.0)
    return np.where(has_spread, expectation, np.abs(mean))


def normal_crps(y: Array, mean: Array, std: Array) -> Array:
    """CRPS of ``N(mean, std²)`` at y, elementwise; the absolute error if std is 0.

    ``E|Y - y| - E|Y - Y'| / 2``; the second term is ``std / √π``.
    """
    mean_error = distance(y - mean, std)
    half_difference = std / np.sqrt(np.pi)
    return mean_error - half_difference


def mixture_crps(
    y: Array,
    mean: Array,
    std: Array,
    weights: Array,
) -> Array:
    """CRPS of normal mixtures.

    Parameters
    ----------
    y : ndarray of shape (...)
    mean, std : ndarray of shape (..., s)
        Of each component; std is not negative.
    weights : ndarray that broadcasts to (..., s)
        They sum to one.

    Notes
    -----
    O(s^2) a row, and memory of O(s).
    """
    # E|Y - y| = Σ_j w_j E|Y_j - y|
    errors = distance(y[..., np.newaxis] - mean, std)
    mean_error = np.sum(weights * errors, axis=-1)
    # E|Y - Y'| / 2 = Σ_ij w_i w_j E|Y_i - Y_j| / 2: half the diagonal, each pair once
    std = np.broadcast_to(std, mean.shape)
    weights = np.broadcast_to(weights, mean.shape)
    half_difference = np.zeros(np.shape(y))
    for j in range(mean.shape[-1]):
        component = slice(j, j + 1)
        first = slice(0, j + 1)
        # Y_i - Y_j ~ N(m_i - m_j, s_i² + s_j²) for i <= j
        mean_of_pair = mean[..., first] - mean[..., component]
        std_of_pair = np.hypot(std[..., first], std[..., component])
        differences = distance(mean_of_pair, std_of_pair)
        factors = np.ones(j + 1)
        factors[j] = 0.5
        pair_weights = weights[..., first] * factors
        total = np.sum(pair_weights * differences, axis=-1)
        half_difference += weights[..., j] * total
    return mean_error - half_difference


def ensemble_crps(y: Array, draws: Array, fair: bool) -> Array:
    """CRPS of the distribution of draws (..., s) at y (...); O(s log s) a row.

    The `fair` score is an unbiased estimate of the score of the distribution from which
    the draws come: ``E|Y - Y'|`` then excludes pairs of a draw with itself.
    """
    s = draws.shape[-1]
    errors = np.abs(draws - y[..., np.newaxis])
    mean_error = np.mean(errors, axis=-1)
    # Σ_ij |x_i - x_j| = 2 Σ_k (2 k - s + 1) x_(k), k from 0
    coefficients = 2.0 * np.arange(s) - s + 1.0
    ordered = np.sort(draws, axis=-1)
    total = 2.0 * ordered @ coefficients
    n_pairs = s * s
    if fair:
        n_pairs = s * (s - 1)
    half_difference = 0.5 * total / n_pairs
    return mean_error - half_difference


def continuous_crps(
    y: Array,
    cdf: Cdf,
    quantiles: Array,
) -> Array:
    """CRPS at y (n,) of continuous distributions, by quadrature.

    Parameters
    ----------
    y : ndarray of shape (n,)
    cdf : callable
        Takes and returns arrays of shape (n, k).
    quantiles : ndarray of shape (n, q)
        At `LEVELS`: the integrand is smooth between them and y.

    Notes
    -----
    132 evaluations of the distribution function. For normal, logistic, exponential and
    log-normal distributions and the Student-t distribution of two degrees of freedom
    the error was below 1e-7; for narrow modes far apart, 1e-3 of the score.
    """
    nodes, node_weights = np.polynomial.legendre.leggauss(12)
    knots = np.sort(np.column_stack((quantiles, y)), axis=1)
    total = np.zeros(len(y))
    for left, right in itertools.pairwise(knots.T):
        half = 0.5 * (right - left)
        offsets = half[:, np.newaxis] * (nodes + 1.0)
        z = left[:, np.newaxis] + offsets
        # (F(z) - 1{y <= z})²
        F = cdf(z)
        is_above_y = (left >= y)[:, np.newaxis]
        integrand = np.where(is_above_y, 1.0 - F, F) ** 2
        total += half * (integrand @ node_weights)
    return total


def discrete_crps(y: Array, cdf: Cdf, quantiles: Array) -> Array:
    """CRPS at integers y (n,), distributions of integers: ``Σ_k (F(k) - 1{y <= k})²``.

    Arguments as in :func:`continuous_crps`. For rows with more than 256 terms the sum
    is replaced by the integral, which it approximates as a Riemann sum.
    """
    low = np.minimum(quantiles[:, 0], y)
    high = np.maximum(quantiles[:, -1], y)
    # long sums are close to the integral
    is_long = high - low > 256.0
    total = np.zeros(len(y))
    if is_long.any():
        integral = continuous_crps(y, cdf, quantiles)
        total = np.where(is_long, integral, 0.0)
    k = np.where(is_long, y, low)
    is_open = ~is_long & (k < high)
    while np.any(is_open):
        F = cdf(k[:, np.newaxis])[:, 0]
        term = np.where(k >= y, 1.0 - F, F) ** 2
        total += is_open * term
        k = np.where(is_open, k + 1.0, k)
        is_open = ~is_long & (k < high)
    return total
