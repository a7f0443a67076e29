"""Variance scales: the factor of predictive variances that held-out errors support.

Errors e at held-out rows whose variance is predicted to be v, or which have a part r of
it, are taken to be normal with mean zero and variance ``T v`` or ``a + b r``. Row
weights are frequencies.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import expit

Array = NDArray[np.float64]

# Smallest variance, in units of the mean of those predicted.
_LEAST = 1e-12


def fit_scale(
    squares: Array,
    variances: Array,
    weights: Array | None = None,
    reference: Array | None = None,
) -> float:
    """Factor of predicted variances, from squared errors of held-out rows.

    Parameters
    ----------
    squares : ndarray of shape (n,)
        Squared errors of rows that the predictions were not fitted to.
    variances : ndarray of shape (n,)
        Predicted for them, noise included. Values near zero beside the others count as
        tiny.
    weights : ndarray of shape (n,), optional
        Frequency weights, not all zero.
    reference : ndarray of shape (n,), optional
        Squared errors of another predictor at the same rows; the factor is then that
        over the one of the other. Large errors that both share cancel, so that the
        ratio is much better determined than either.

    Returns
    -------
    factor : float
        Positive; one for up to four rows.

    Notes
    -----
    Under normal errors ``T = mean e² / v`` maximises the likelihood; equations (78) to
    (80) of [1]_, whose authors search a grid. Its posterior under Jeffreys' prior is an
    inverse chi-square distribution of n degrees of freedom, whose squared relative
    standard deviation is ``2 / (n - 4)``, and infinite for up to four rows: the squared
    error of log T is ``(κ - 1) / (n - 4)``, with a kurtosis κ of the standardised
    errors of at least three, since a few rows without a large error do not rule out
    large errors elsewhere. The positive-part James-Stein rule, ``log T (1 - se² / log²
    T)₊``, shrinks T towards one, and leaves one where log T is within its standard
    error.

    References
    ----------
    .. [1] Wild, Hu and Sejdinovic, "Generalized variational inference in function
       spaces: Gaussian measures meet Bayesian deep learning", NeurIPS 2022.
    """
    w = np.ones(len(squares)) if weights is None else weights
    # Kish's effective number of rows
    degrees = float(w.sum() ** 2 / np.sum(w**2)) - 4.0
    size = float(np.average(variances, weights=w))
    v = np.maximum(variances, _LEAST * size if size > 0.0 else 1.0)
    one, other = squares / v, np.ones(len(v)) if reference is None else reference / v
    mean, other_mean = (float(np.average(z, weights=w)) for z in (one, other))
    if min(mean, other_mean) <= 0.0 or degrees < 1e-9:
        return 1.0
    # κ - 1 without a reference
    error = float(np.average((one / mean - other / other_mean) ** 2, weights=w))
    error = (max(2.0, error) if reference is None else error) / degrees
    log_factor = np.log(mean / other_mean)
    kept = max(0.0, 1.0 - error / max(log_factor**2, 1e-300))
    return float(np.exp(kept * log_factor))


def fit_affine_scale(squares: Array, r: Array, weights: Array) -> tuple[float, float]:
    """Constant a and slope b of the variance ``a + b r``, by maximum likelihood.

    Parameters
    ----------
    squares : ndarray of shape (n,)
        Squared errors.
    r : ndarray of shape (n,)
        The part of the variance that is scaled; not negative.
    weights : ndarray of shape (n,)
        Frequency weights, not all zero.

    Returns
    -------
    constant, slope : float
        Not negative; a constant variance where r does not vary or all errors are zero.

    Notes
    -----
    For a given ratio of a to b their best size has a closed form. The likelihood as a
    function of the ratio may have several optima: the search starts at the best point
    of a mesh that includes zero and infinity.
    """
    shares, average = weights / weights.sum(), float(np.average(r, weights=weights))
    everywhere = float(shares @ squares)
    if everywhere == 0.0 or np.ptp(r) <= 1e-9 * np.max(r):
        return everywhere, 0.0

    def fitted(x: float) -> tuple[float, float, float]:
        """Best a, b in units of 1 / average, and the deviance, for b / a = exp(x)."""
        share = float(expit(x))
        shape = np.maximum(1.0 - share + share * r / average, _LEAST)
        size = float(shares @ (squares / shape))
        deviance = float(shares @ np.log(shape)) + np.log(size)
        return size * (1.0 - share), size * share, deviance

    mesh = [-np.inf, *np.arange(-30.0, 30.5, 0.5), np.inf]
    best = float(min(mesh, key=lambda x: fitted(x)[2]))
    if np.isfinite(best):
        around = best - 0.5, best + 0.5
        how = {"bounds": around, "method": "bounded", "options": {"xatol": 1e-9}}
        best = float(minimize_scalar(lambda x: fitted(x)[2], **how).x)
    constant, slope, _ = fitted(best)
    return constant, slope / average
