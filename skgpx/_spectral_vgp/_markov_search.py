"""Hyperparameters of a Markov process by its exact evidence."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from skgpx._hyperparameters import copies_count_once
from skgpx._numerics.markov_regression import (
    MarkovRows,
    markov_evidence,
    markov_posterior,
)
from skgpx._spectral_vgp._markov_kernel import MarkovKernel

Array = NDArray[np.float64]

# Ratio of the lengthscales from which searches may start, and variances of the noise,
# in variances of y.
_RATIO = 4.0
_NOISES = (0.01, 0.1, 1.0)
# Least share of the process that is noise where a search goes on with more functions:
# from no noise at all there is no slope.
_LEAST_NOISE = 1e-2
_OPTIONS = {"maxiter": 100, "ftol": 1e-9, "gtol": 1e-3}


class MarkovData(NamedTuple):
    """Values at distinct inputs, repetitions summed.

    Attributes
    ----------
    x : ndarray of shape (n,)
        Increasing.
    weights : ndarray of shape (n,)
        Rows at each.
    y : ndarray of shape (n,)
        Their means; standardised.
    within : float
        Weighted sum of squares of the rows around these.
    alone : ndarray of shape (n,) or False
        Whether all rows of an input have one y, and may be copies of one.
    """

    x: Array
    weights: Array
    y: Array
    within: float
    alone: NDArray[np.bool_] | bool = False

    def rows(self, noise_variance: float, features: Array) -> MarkovRows:
        """What the process is fitted to."""
        return MarkovRows(self.x, self.weights / noise_variance, self.y, features)

    def counted_once(self) -> MarkovData:
        """The same with copies left out; itself if there are none."""
        copies = self.alone & (self.weights > 1.0)
        if not np.any(copies):
            return self
        return self._replace(weights=np.where(copies, 1.0, self.weights))

    def repeats(self, once: MarkovData) -> bool:
        """Whether a search leaves the copies out."""
        return copies_count_once(self.y, self.weights, once.weights)

    def of_repetitions(self, noise_variance: float) -> tuple[float, float]:
        """What the rows around their means add to the log evidence, and its slope.

        Over w rows of one input the density is that of their mean, of variance ``σ² /
        w``, times ``(2π σ²)^(-(w-1)/2) w^(-1/2) exp(-Σ (y - mean)² / 2σ²)``; the slope
        is that in log σ².
        """
        more = float(np.sum(self.weights)) - len(self.x)
        ratio = self.within / noise_variance
        total = more * np.log(2.0 * np.pi * noise_variance) + ratio
        value = -0.5 * (total + float(np.sum(np.log(self.weights))))
        return float(value), 0.5 * (ratio - more)

    @property
    def variance(self) -> float:
        """Variance of y around its mean."""
        weight, mean = np.sum(self.weights), np.average(self.y, weights=self.weights)
        square = self.weights @ (self.y - mean) ** 2 + self.within
        return float(square / weight) or 1.0


class MarkovNoise(NamedTuple):
    """Variance of the noise, and the bounds between which it is searched.

    Attributes
    ----------
    variance : float or None
        As given; None for no start.
    low, high : float
        Equal where it is fixed.
    """

    variance: float | None
    low: float
    high: float


class MarkovFound(NamedTuple):
    """Where a search ended.

    Attributes
    ----------
    kernel : MarkovKernel
    theta : ndarray of shape (3,)
        Logarithms of amplitude, lengthscale and noise variance.
    log_evidence : float
    """

    kernel: MarkovKernel
    theta: Array
    log_evidence: float

    @property
    def noise_variance(self) -> float:
        """Variance of the noise."""
        return float(np.exp(self.theta[2]))

    @property
    def fitted_kernel(self) -> Any:
        """The kernel with its hyperparameters."""
        return self.kernel.with_theta(self.theta[:2])


class Evidence:
    """Log evidence of one kernel as a function of three logarithms.

    Parameters
    ----------
    data : MarkovData
    kernel : MarkovKernel
    features : ndarray of shape (n, m)
        Functions beside the process, whose weights are N(0, I).
    """

    def __init__(self, data: MarkovData, kernel: MarkovKernel, features: Array):
        self.data, self.kernel, self.features = data, kernel, features

    def value(self, theta: Array) -> float:
        """Log evidence in nats, without a gradient."""
        noise = float(np.exp(theta[2]))
        rows = self.data.rows(noise, self.features)
        value = markov_evidence(self.kernel.process(theta[:2]), rows)
        return value + self.data.of_repetitions(noise)[0]

    def negative(self, theta: Array) -> tuple[float, Array]:
        """Negative log evidence and its gradient."""
        noise = float(np.exp(theta[2]))
        rows = self.data.rows(noise, self.features)
        found = markov_posterior(self.kernel.process(theta[:2]), rows)
        more, slope = self.data.of_repetitions(noise)
        gradient = found.score + np.array([0.0, 0.0, slope])
        return -found.log_evidence - more, -gradient


def search(
    data: MarkovData,
    kernel: MarkovKernel,
    noise: MarkovNoise,
    learns: bool,
    features: Array,
) -> MarkovFound:
    """The best of a net of lengthscales and noises, or the given start, and a climb."""
    bounds = _bounds(kernel, noise, learns)
    objective = Evidence(data, kernel, features)
    starts = [np.clip(start, *bounds.T) for start in _starts(data, kernel, noise)]
    distinct = list({tuple(start): start for start in starts}.values())
    values = [objective.value(start) for start in distinct]
    return _climb(objective, bounds, distinct[int(np.argmax(values))])


def search_again(
    data: MarkovData,
    found: MarkovFound,
    noise: MarkovNoise,
    learns: bool,
    features: Array,
) -> MarkovFound:
    """Climb from where another search ended, with other functions."""
    bounds = _bounds(found.kernel, noise, learns)
    theta = found.theta.copy()
    theta[2] = max(theta[2], theta[0] + np.log(_LEAST_NOISE))
    objective = Evidence(data, found.kernel, features)
    return _climb(objective, bounds, np.clip(theta, *bounds.T))


def _bounds(kernel: MarkovKernel, noise: MarkovNoise, learns: bool) -> Array:
    of_noise = np.log([[noise.low, noise.high]])
    return np.concatenate((kernel.bounds(learns), of_noise))


def _starts(data: MarkovData, kernel: MarkovKernel, noise: MarkovNoise) -> list[Array]:
    """What is given, and a net between the closest rows and the farthest."""
    unit = data.variance
    given = noise.variance or 0.1 * unit
    starts = [np.append(kernel.theta, np.log(given))]
    gaps = np.diff(data.x)
    if not len(gaps):
        return starts
    near, far = float(np.median(gaps)), float(data.x[-1] - data.x[0])
    steps = int(np.ceil(np.log(max(far / near, 1.0)) / np.log(_RATIO)))
    for scale in near * _RATIO ** np.arange(steps + 1.0):
        for part in _NOISES:
            starts.append(np.log([unit, scale, part * unit]))
    return starts


def _climb(objective: Evidence, bounds: Array, start: Array) -> MarkovFound:
    """L-BFGS-B on the logarithms that are free."""
    free = bounds[:, 0] < bounds[:, 1]
    theta = start.copy()

    def negative(point: Array) -> tuple[float, Array]:
        theta[free] = point
        value, gradient = objective.negative(theta)
        return value, gradient[free]

    if free.any():
        result = optimize.minimize(
            negative, start[free], jac=True, method="L-BFGS-B", bounds=bounds[free],
            options=_OPTIONS,
        )  # fmt: skip
        theta[free] = result.x
    return MarkovFound(objective.kernel, theta, objective.value(theta))
