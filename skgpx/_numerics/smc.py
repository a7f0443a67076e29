"""Tempered sequential Monte Carlo: temperatures, weights and resampling."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

Array = NDArray[np.float64]


def next_temperature(
    nll: Array, temperature: float, kept: float, log_weights: Array
) -> float:
    """Largest β ≤ 1 at which the conditional effective size is still large enough.

    Parameters
    ----------
    nll : ndarray of shape (s,)
        Negative log-likelihood of each particle.
    temperature : float
        Present β in [0, 1).
    kept : float
        Fraction of the particles that the size may not fall below.
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
    above = nll - nll.min()
    present = log_weights - _log_sum(log_weights)

    def excess(log_rise: float) -> float:
        # w = exp(-rise * above); an infinite nll has weight 0
        log_w = -np.exp(log_rise) * above
        size = 2.0 * _log_sum(present + log_w) - _log_sum(present + 2.0 * log_w)
        return size - float(np.log(kept))

    whole = float(np.log(1.0 - temperature))
    if excess(whole) >= 0.0:
        return 1.0
    least = whole - 100.0
    if excess(least) < 0.0:  # some particles have likelihood zero
        return temperature + float(np.exp(least))
    return temperature + float(np.exp(optimize.brentq(excess, least, whole, xtol=1e-4)))


def reweighted(log_weights: Array, nll: Array, rise: float) -> tuple[Array, float]:
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
    log_weights: Array, size: int, rng: np.random.Generator, stratified: bool = False
) -> NDArray[np.intp]:
    """Systematic resampling: `size` indices, each less than one from its expectation.

    So are all sums over neighbours: where particles are sorted along the direction of
    their largest spread, the numbers in two modes hardly change. Or `stratified`, one
    from each stretch of equal mass, independently of the others: neighbours compete
    with one another.
    """
    cumulative = np.cumsum(np.exp(log_weights - np.max(log_weights)))
    points = (np.arange(size) + rng.random(size if stratified else 1)) / size
    chosen = np.searchsorted(cumulative / cumulative[-1], points)
    return np.minimum(chosen, len(log_weights) - 1)


def _log_sum(x: Array) -> float:
    """``log Σ exp(x)``; SciPy's takes ten times longer for a hundred numbers."""
    largest = np.max(x)
    return float(largest + np.log(np.sum(np.exp(x - largest))))
