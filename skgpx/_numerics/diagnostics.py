"""Convergence of many parallel chains from running sums, without keeping the chains."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def split_r_hat(totals: Array, squares: Array, length: int) -> Array:
    """Potential scale reduction, every chain split in two.

    Parameters
    ----------
    totals, squares : ndarray of shape (2, p, s)
        Sums of the states and of their squares over the first and the second half
        of s chains.
    length : int
        Number of steps of each half, at least 2.

    Returns
    -------
    r_hat : ndarray of shape (p,)
        ``sqrt(((n-1)/n W + B/n) / W)`` of [1]_, with W the mean variance within the
        2 s half chains and B / n the variance of their means; infinity where no chain
        moves.

    References
    ----------
    .. [1] Gelman, Carlin, Stern, Dunson, Vehtari and Rubin, "Bayesian Data
       Analysis", 3rd edition, section 11.4.
    """
    n = length
    means = totals / n
    # diverging chains overflow here, and get an infinite R-hat
    with np.errstate(all="ignore"):
        within = np.maximum(squares / n - means**2, 0.0) * n / (n - 1)
        W = within.mean(axis=(0, 2))
        half_chains = np.concatenate(list(means), axis=1)
        between = half_chains.var(axis=1, ddof=1)
        r_hat = np.sqrt((n - 1) / n + between / W)
    # the variance within stuck chains is rounding, relative to the size of the states
    stuck = 1e-12 * np.mean(squares, axis=(0, 2)) / n >= W
    return np.where(stuck | np.isnan(r_hat), np.inf, r_hat)


def between_runs(values: Array) -> tuple[Array, Array]:
    """R-hat and effective sample size of independent runs of the same sampler.

    Parameters
    ----------
    values : ndarray of shape (p, b, s)
        Equally likely particles of b runs, which may depend on each other within one.

    Returns
    -------
    r_hat, size : ndarray of shape (p,)
        ``sqrt(((s-1)/s W + V) / W)`` with W the mean variance within a run and V the
        variance of the means; and the number of independent particles whose mean would
        be as good as that of all runs together, ``b W / V``. With b runs V has a
        relative standard error of ``sqrt(2 / (b - 1))``.
    """
    _, b, s = values.shape
    means = values.mean(axis=2)
    within, spread = values.var(axis=2).mean(axis=1), means.var(axis=1, ddof=1)
    with np.errstate(all="ignore"):
        r_hat = np.sqrt((s - 1) / s + spread / within)
        size = b * within / spread
    return np.nan_to_num(r_hat, nan=np.inf), np.nan_to_num(size, nan=1.0)


def effective_sample_size(totals: Array, squares: Array, length: int) -> Array:
    """Effective number of independent states among all the states of all chains.

    The variance of a state divided by the variance of a chain's mean, times the number
    of chains: the chains are independent, so no autocorrelation has to be estimated.
    Arguments as in :func:`split_r_hat`; shape (p,); 1 for a single chain, of which
    there is nothing to compare.
    """
    s = totals.shape[2]
    if s < 2:
        return np.ones(totals.shape[1])
    count = 2 * length
    means = totals.sum(axis=0) / count
    mean = means.mean(axis=1, keepdims=True)
    with np.errstate(all="ignore"):
        variance = squares.sum(axis=0) / count - means**2 + (means - mean) ** 2
        spread = means.var(axis=1, ddof=1)
        size = s * variance.mean(axis=1) / spread
    return np.minimum(np.nan_to_num(size, nan=float(s), posinf=np.inf), s * count)
