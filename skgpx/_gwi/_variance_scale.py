"""Rows that judge the size of the variances, and what they say."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from skgpx._numerics.tempering import temper_affine, temper_factor

Array = NDArray[np.float64]

# Largest share of the rows that judge, most and fewest of them.
MAX_SHARE, MAX_HELD_OUT, MIN_HELD_OUT = 0.3, 2000, 10
# Standard deviation of the logarithms of noise and factor around those of the prior.
_LOG_STD = 1.5
# Least noise variance and factor, in units of those of the prior.
_LEAST = 1e-6


class VarianceScale(NamedTuple):
    """The variance ``r + σ²`` as the judges have changed it: ``factor * r + noise``.

    Attributes
    ----------
    noise : float
        Variance of the noise.
    factor : float
        Of the variance r of the process.
    """

    noise: float
    factor: float


def choose_validation_rows(
    held_out: NDArray[np.bool_], tempering: str | None, rng: np.random.Generator
) -> NDArray[np.bool_]:
    """Some of the trusted rows, none of which will be an inducing point.

    The variance of the process nearly vanishes at inducing points, and is not what it
    is at rows to come.
    """
    n, validation = len(held_out), np.zeros(len(held_out), bool)
    candidates = np.flatnonzero(held_out)
    size = min(len(candidates), MAX_HELD_OUT, int(MAX_SHARE * n))
    if tempering is not None and size >= MIN_HELD_OUT:
        validation[rng.permutation(candidates)[:size]] = True
    return validation


def fit_variance_scale(
    how: str | None, squares: Array, r: Array, weights: Array, noise: float
) -> VarianceScale:
    """Variance by the likelihood of squared errors of rows.

    Parameters
    ----------
    how : {"auto", "factor", "affine"} or None
        One factor of all, or noise and factor of their own: by their likelihood, or
        near those of the prior.
    squares : ndarray of shape (n,)
        Squared errors of the judges; without any, nothing is changed.
    r : ndarray of shape (n,)
        Their variance under the process.
    weights : ndarray of shape (n,)
    noise : float
        σ².
    """
    if how is None or not np.any(squares):
        return VarianceScale(noise, 1.0)
    if how == "factor":
        factor = temper_factor(squares, r + noise, weights)
        return VarianceScale(factor * noise, factor)
    constant, slope = temper_affine(squares, r, weights)
    if how == "auto":
        starts = (noise, 1.0), (constant, slope)
        return _near_prior(squares, r, weights, noise, starts)
    return VarianceScale(max(constant, _LEAST * noise), max(slope, _LEAST))


def _near_prior(
    squares: Array,
    r: Array,
    weights: Array,
    noise: float,
    starts: tuple[tuple[float, float], ...],
) -> VarianceScale:
    """Most probable noise and factor, a priori log-normal around those of the prior.

    The likelihood alone often takes a constant variance, and sometimes a factor of
    thousands of an r that is tiny at the judges: none of them is far from the data,
    where r is the variance of the prior. So the factor is at most one.
    """

    def deviance(u: Array) -> tuple[float, Array]:
        parts = np.stack([np.full(len(r), noise), r]) * np.exp(u)[:, np.newaxis]
        v = parts.sum(axis=0)
        ratio = squares / v
        value = (
            0.5 * float(weights @ (np.log(v) + ratio))
            + 0.5 * float(u @ u) / _LOG_STD**2
        )
        slope = 0.5 * parts @ (weights * (1.0 - ratio) / v) + u / _LOG_STD**2
        return value, slope

    low = np.log(_LEAST)
    # no noise beyond the largest square is probable
    high = max(float(np.log(np.max(squares) / noise)), 0.0)
    found = [
        minimize(
            deviance,
            np.log(np.maximum((a / noise, b), _LEAST)),
            jac=True,
            bounds=[(low, high), (low, 0.0)],
        )
        for a, b in starts
    ]
    u = min(found, key=lambda one: one.fun).x
    return VarianceScale(float(noise * np.exp(u[0])), float(np.exp(u[1])))
