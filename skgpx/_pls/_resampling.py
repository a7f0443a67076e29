"""Weights of particles: temperatures, effective sizes and resampling."""

from __future__ import annotations

import numpy as np
from scipy import optimize

from skgpx._types import Array, Generator, Index


def next_temperature(
    nll: Array,
    temperature: float,
    min_size: float,
    log_weights: Array,
) -> float:
    """Largest β ≤ 1 at which the conditional effective size is still large enough.

    Parameters
    ----------
    nll : ndarray of shape (s,)
        Negative log-likelihood of each particle.
    temperature : float
        Present β in [0, 1).
    min_size : float
        Smallest size, as a fraction of the number of particles.
    log_weights : ndarray of shape (s,)
        Of the particles at the present β. The conditional size is the effective one of
        the rise alone, ``(ΣWw)² / ΣWw²`` with W the present and w the new weights
        [1]_: steps stay short when weights are uneven already.

    Returns
    -------
    temperature : float

    References
    ----------
    .. [1] Zhou, Johansen and Aston, "Toward automatic model comparison: an adaptive
       sequential Monte Carlo approach", JCGS 2016.
    """
    nll = np.where(np.isfinite(nll), nll, np.inf)
    excess_nll = nll - nll.min()
    log_present = log_weights - _log_sum(log_weights)

    def excess_size(log_rise: float) -> float:
        # w = exp(-rise * nll); an infinite nll has weight 0
        log_w = -np.exp(log_rise) * excess_nll
        log_mean = _log_sum(log_present + log_w)
        log_mean_square = _log_sum(log_present + 2.0 * log_w)
        return 2.0 * log_mean - log_mean_square - float(np.log(min_size))

    largest = float(np.log(1.0 - temperature))
    if excess_size(largest) >= 0.0:
        return 1.0
    smallest = largest - 100.0
    if excess_size(smallest) < 0.0:  # some particles have likelihood zero
        return temperature + float(np.exp(smallest))
    log_rise = optimize.brentq(excess_size, smallest, largest, xtol=1e-4)
    return temperature + float(np.exp(log_rise))


def reweight(log_weights: Array, nll: Array, rise: float) -> tuple[Array, float]:
    """Weights after a rise of the temperature.

    Returns
    -------
    log_weights : ndarray of shape (s,)
        Normalised: their exponentials sum to one.
    log_ratio : float
        Estimate of the log ratio of the two normalising constants.
    """
    log_w = log_weights - _log_sum(log_weights) - rise * nll
    log_ratio = _log_sum(log_w)
    return log_w - log_ratio, log_ratio


def effective_size(log_weights: Array) -> float:
    """``(Σw)² / Σw²``: the number of equal weights that are as good."""
    size = 2.0 * _log_sum(log_weights) - _log_sum(2.0 * log_weights)
    return float(np.exp(size))


def resample(
    log_weights: Array,
    size: int,
    rng: Generator,
    stratified: bool = False,
) -> Index:
    """Systematic resampling: `size` indices, each less than one from its expectation.

    So are all sums over neighbours: where particles are sorted along the direction of
    their largest spread, the numbers in two modes hardly change. Or `stratified`, one
    from each stretch of equal mass, independently of the others: neighbours compete
    with one another.
    """
    cumulative = np.cumsum(np.exp(log_weights - np.max(log_weights)))
    n_numbers = size if stratified else 1
    levels = (np.arange(size) + rng.random(n_numbers)) / size
    chosen = np.searchsorted(cumulative / cumulative[-1], levels)
    return np.minimum(chosen, len(log_weights) - 1)


def _log_sum(x: Array) -> float:
    """``log Σ exp(x)``; SciPy's takes ten times longer for a hundred numbers."""
    largest = np.max(x)
    return float(largest + np.log(np.sum(np.exp(x - largest))))
