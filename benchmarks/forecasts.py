"""Predictive distributions of any model, scored at held-out rows by the same rules.

Each function takes what a model says of n rows, and their y, and returns scores a row:
the logarithm of the density, the continuous ranked probability score, and whether the
central 90 % interval holds y.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from scipy.stats import norm

Array = NDArray[np.float64]

# Central interval whose coverage is counted.
_TAIL = 0.05
# Points over which a distribution function is integrated.
_GRID = 401
# Half the width of that grid, in standard deviations.
_WIDTH = 15.0


class Forecast(NamedTuple):
    """Scores of n rows.

    Attributes
    ----------
    mean : ndarray of shape (n,)
        Predicted mean; NaN where a model has none.
    log_density : ndarray of shape (n,)
        NaN where a model has no density.
    crps : ndarray of shape (n,)
        For labels 0 and 1 it is Brier's score.
    inside : ndarray of shape (n,)
        1 where the 90 % interval holds y, otherwise 0; NaN for labels.
    """

    mean: Array
    log_density: Array
    crps: Array
    inside: Array


def of_distribution(distribution: Any, y: Array) -> Forecast:
    """Of a predictive distribution of this library."""
    interval = distribution.interval(1.0 - 2.0 * _TAIL)
    inside = (interval[:, 0] <= y) & (y <= interval[:, 1])
    return Forecast(
        mean=distribution.mean(),
        log_density=distribution.log_density(y),
        crps=distribution.crps(y),
        inside=inside.astype(float),
    )


def of_normal(mean: Array, std: Array, y: Array) -> Forecast:
    """Of normal distributions."""
    z = (y - mean) / std
    inside = np.abs(z) <= norm.ppf(1.0 - _TAIL)
    return Forecast(
        mean=mean,
        log_density=norm.logpdf(z) - np.log(std),
        # Gneiting and Raftery 2007, (21)
        crps=std * (z * (2.0 * norm.cdf(z) - 1.0) + 2.0 * norm.pdf(z) - np.pi**-0.5),
        inside=inside.astype(float),
    )


def of_labels(probability: Array, y: Array) -> Forecast:
    """Of probabilities of the label 1."""
    density = np.where(y > 0.0, probability, 1.0 - probability)
    return Forecast(
        mean=probability,
        log_density=np.log(density),
        crps=(y - probability) ** 2,
        inside=np.full(len(y), np.nan),
    )


def of_quantiles(levels: Array, quantiles: Array, y: Array) -> Forecast:
    """Of quantiles (n, q) at levels (q,), the first and last those of the interval.

    The score is the mean of twice the pinball losses at equally spaced levels.
    """
    error = y[:, np.newaxis] - quantiles
    pinball = np.maximum(levels * error, (levels - 1.0) * error)
    inside = (quantiles[:, 0] <= y) & (y <= quantiles[:, -1])
    return Forecast(
        mean=quantiles[:, len(levels) // 2],
        log_density=np.full(len(y), np.nan),
        crps=2.0 * np.mean(pinball, axis=1),
        inside=inside.astype(float),
    )


def of_mixture(components: Any, weights: Array, y: Array) -> Forecast:
    """Of mixtures: k components a row, with weights (k,).

    Parameters
    ----------
    components : frozen distribution of scipy.stats
        Of shape (n, k).
    weights : ndarray of shape (k,)
    y : ndarray of shape (n,)
    """
    is_discrete = hasattr(components, "pmf")
    values = y[:, np.newaxis]
    log_pdf = components.logpmf if is_discrete else components.logpdf
    log_density = logsumexp(log_pdf(values), b=weights, axis=1)
    mean = components.mean() @ weights
    # the interval holds y: neither tail beyond it is smaller than it may be
    below = components.cdf(values) @ weights
    strictly_below = below
    if is_discrete:
        strictly_below = components.cdf(values - 1.0) @ weights
    inside = (below >= _TAIL) & (strictly_below <= 1.0 - _TAIL)
    # ∫ (F(t) - 1[t >= y])² dt
    variance = (components.var() + components.mean() ** 2) @ weights - mean**2
    std = np.sqrt(variance)
    crps = np.empty(len(y))
    for row in range(len(y)):
        components_of_row = _row(components, row)
        if is_discrete:
            top = max(y[row], mean[row] + _WIDTH * std[row])
            counts = np.arange(0.0, np.ceil(top) + 1.0)
            F = components_of_row.cdf(counts[:, np.newaxis]) @ weights
            crps[row] = np.sum((F - (counts >= y[row])) ** 2)
            continue
        low = min(y[row], mean[row] - _WIDTH * std[row])
        high = max(y[row], mean[row] + _WIDTH * std[row])
        left = np.linspace(low, y[row], _GRID)
        right = np.linspace(y[row], high, _GRID)
        F_left = components_of_row.cdf(left[:, np.newaxis]) @ weights
        F_right = components_of_row.cdf(right[:, np.newaxis]) @ weights
        crps[row] = np.trapezoid(F_left**2, left)
        crps[row] += np.trapezoid((1.0 - F_right) ** 2, right)
    return Forecast(mean, log_density, crps, inside.astype(float))


def _row(components: Any, row: int) -> Any:
    """Components of one row."""
    arguments = [np.asarray(value) for value in components.args]
    keywords = {name: np.asarray(value) for name, value in components.kwds.items()}
    arguments = [value[row] if value.ndim else value for value in arguments]
    keywords = {
        name: value[row] if value.ndim else value for name, value in keywords.items()
    }
    return components.dist(*arguments, **keywords)
