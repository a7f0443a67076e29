"""Tempered sequential Monte Carlo: temperatures and resampling."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import optimize
from scipy.special import logsumexp

Array = NDArray[np.float64]


def next_temperature(nll: Array, temperature: float, kept: float) -> float:
    """Largest β ≤ 1 at which the effective sample size is still large enough.

    Parameters
    ----------
    nll : ndarray of shape (s,)
        Negative log-likelihood of each particle.
    temperature : float
        Present β in [0, 1).
    kept : float
        Fraction of the particles that the effective sample size may not fall below.

    Returns
    -------
    temperature : float
    """
    nll = np.where(np.isfinite(nll), nll, np.inf)
    above = nll - nll.min()

    def excess(log_rise: float) -> float:
        # ESS = (Σw)² / Σw², weights exp(-rise * above); an infinite nll has weight 0
        log_w = -np.exp(log_rise) * above
        size = 2.0 * logsumexp(log_w) - logsumexp(2.0 * log_w)
        return float(size) - np.log(kept * len(nll))

    whole = float(np.log(1.0 - temperature))
    if excess(whole) >= 0.0:
        return 1.0
    least = whole - 100.0
    if excess(least) < 0.0:  # some particles have likelihood zero
        return temperature + float(np.exp(least))
    return temperature + float(np.exp(optimize.brentq(excess, least, whole)))


def resample(
    nll: Array, rise: float, rng: np.random.Generator
) -> tuple[NDArray[np.intp], float]:
    """Systematic resampling for a rise of the temperature.

    Returns
    -------
    chosen : ndarray of shape (s,)
        Indices of the particles that are kept, with repetitions.
    log_ratio : float
        Estimate of the log ratio of the two normalising constants.
    """
    s = len(nll)
    log_w = -rise * nll
    log_total = float(logsumexp(log_w))
    cumulative = np.cumsum(np.exp(log_w - log_total))
    points = (rng.random() + np.arange(s)) / s
    chosen = np.searchsorted(cumulative / cumulative[-1], points)
    return np.minimum(chosen, s - 1), log_total - float(np.log(s))


def stratified(
    log_weights: Array, size: int, rng: np.random.Generator
) -> NDArray[np.intp]:
    """Stratified resampling: `size` indices, one from each stretch of equal mass.

    Neighbours compete with one another, so particles that are close, or belong
    together, should have neighbouring indices.
    """
    weights = np.exp(log_weights - np.max(log_weights))
    cumulative = np.cumsum(weights)
    points = (np.arange(size) + rng.random(size)) / size
    chosen = np.searchsorted(cumulative / cumulative[-1], points)
    return np.minimum(chosen, len(weights) - 1)
