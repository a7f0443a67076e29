"""The variance scale: noise and process variance calibrated on held-out rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from skgpx._numerics.variance_scale import fit_affine_scale, fit_scale

Array = NDArray[np.float64]

# Largest share of validation rows, and their largest and smallest number.
MAX_SHARE, MAX_HELD_OUT, MIN_HELD_OUT = 0.3, 2000, 10
# Prior standard deviation of the logarithms of both factors.
_LOG_STD = 1.5
# Lower bound of both factors.
_LEAST = 1e-6


class VarianceScale(NamedTuple):
    """The calibrated variance ``factor * r + noise`` in place of ``r + σ²``.

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
    """Validation rows among the held-out rows, none of them an inducing point.

    The variance of the process nearly vanishes at inducing points, which is not
    representative of new rows.
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
    """Variance scale by the likelihood of held-out squared errors.

    Parameters
    ----------
    how : {"auto", "factor", "affine"} or None
        One common factor, or one each for noise and process: by maximum likelihood, or
        a posteriori under a prior around one.
    squares : ndarray of shape (n,)
        Squared errors of the validation rows; if empty or zero, the scale is one.
    r : ndarray of shape (n,)
        Their variance under the process.
    weights : ndarray of shape (n,)
    noise : float
        σ².
    """
    if how is None or not np.any(squares):
        return VarianceScale(noise, 1.0)
    if how == "factor":
        factor = fit_scale(squares, r + noise, weights)
        return VarianceScale(factor * noise, factor)
    constant, slope = fit_affine_scale(squares, r, weights)
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
    """Maximum a posteriori noise and factor under a log-normal prior.

    The likelihood alone often chooses a constant variance, and sometimes a factor of
    thousands where r is tiny at the validation rows. The factor is at most one, because
    validation rows near the data cannot identify a larger one.
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
    # the largest squared error bounds the noise
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
