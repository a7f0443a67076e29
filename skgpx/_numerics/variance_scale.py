"""Variance scales: factors of predictive variances, from held-out errors.

Errors e at held-out rows are taken to be normal with mean zero and variance ``T v``,
where v is the predicted variance, or ``a + b r``, where r is a part of it. Row weights
are frequencies.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import expit

from skgpx._types import Array

# Smallest variance, relative to the mean predicted variance.
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
        Squared errors at rows to which the predictor was not fitted.
    variances : ndarray of shape (n,)
        Predicted variances of these rows, including noise. Values of zero are replaced
        by a tiny fraction of the mean.
    weights : ndarray of shape (n,), optional
        Frequency weights, not all zero.
    reference : ndarray of shape (n,), optional
        Squared errors of another predictor at the same rows. The result is then the
        ratio of the two factors. Large errors that both predictors share cancel, so
        that the ratio is determined much better than each factor.

    Returns
    -------
    factor : float
        Positive; one for up to four rows.

    Notes
    -----
    For normal errors ``T = mean e² / v`` maximises the likelihood, equations (78) to
    (80) of [1]_ (the paper searches a grid). The posterior of T under Jeffreys' prior
    is an inverse chi-square distribution of n degrees of freedom. Its squared relative
    standard deviation is ``2 / (n - 4)``, and infinite for up to four rows. The squared
    error of log T is therefore ``(κ - 1) / (n - 4)``, with the kurtosis κ of the
    standardised errors, which counts as at least three: a few rows without a large
    error do not rule out large errors elsewhere. The positive-part James-Stein rule
    ``log T (1 - se² / log² T)₊`` shrinks T towards one; the result is one if log T is
    within its standard error of zero.

    References
    ----------
    .. [1] Wild, Hu and Sejdinovic, "Generalized variational inference in function
       spaces: Gaussian measures meet Bayesian deep learning", NeurIPS 2022.
    """
    w = np.ones(len(squares))
    if weights is not None:
        w = weights
    # Kish's effective number of rows
    n_effective = float(w.sum() ** 2 / np.sum(w**2))
    degrees = n_effective - 4.0
    mean_variance = float(np.average(variances, weights=w))
    floor = 1.0
    if mean_variance > 0.0:
        floor = _LEAST * mean_variance
    v = np.maximum(variances, floor)

    # T = mean e² / v, and the same of the reference
    z_squared = squares / v
    reference_z_squared = np.ones(len(v))
    if reference is not None:
        reference_z_squared = reference / v
    T = float(np.average(z_squared, weights=w))
    reference_T = float(np.average(reference_z_squared, weights=w))
    if min(T, reference_T) <= 0.0 or degrees < 1e-9:
        return 1.0

    # the squared error of log T; without a reference it is κ - 1 over the degrees
    difference = z_squared / T - reference_z_squared / reference_T
    variance = float(np.average(difference**2, weights=w))
    if reference is None:
        variance = max(2.0, variance)
    squared_error = variance / degrees

    # James-Stein: log T (1 - se² / log² T)₊
    log_factor = np.log(T / reference_T)
    shrinkage = max(0.0, 1.0 - squared_error / max(log_factor**2, 1e-300))
    return float(np.exp(shrinkage * log_factor))


def fit_affine_scale(
    squares: Array,
    r: Array,
    weights: Array,
) -> tuple[float, float]:
    """Constant a and slope b of the variance ``a + b r``, by maximum likelihood.

    Parameters
    ----------
    squares : ndarray of shape (n,)
        Squared errors.
    r : ndarray of shape (n,)
        The scaled part of the variance; not negative.
    weights : ndarray of shape (n,)
        Frequency weights, not all zero.

    Returns
    -------
    constant, slope : float
        Not negative. The slope is zero if r does not vary or all errors are zero.

    Notes
    -----
    For a given ratio of a to b, their size has a closed form. The likelihood as a
    function of the ratio may have several optima: the search starts at the best point
    of a mesh that includes zero and infinity.
    """
    shares = weights / weights.sum()
    mean_r = float(np.average(r, weights=weights))
    mean_square = float(shares @ squares)
    if mean_square == 0.0 or np.ptp(r) <= 1e-9 * np.max(r):
        return mean_square, 0.0

    def fit_size(x: float) -> tuple[float, float, float]:
        """Best a, b in units of 1 / mean_r, and the deviance, for b / a = exp(x)."""
        share = float(expit(x))
        shape = 1.0 - share + share * r / mean_r
        shape = np.maximum(shape, _LEAST)
        size = float(shares @ (squares / shape))
        mean_log_shape = float(shares @ np.log(shape))
        deviance = mean_log_shape + np.log(size)
        a = size * (1.0 - share)
        b = size * share
        return a, b, deviance

    def deviance(x: float) -> float:
        return fit_size(x)[2]

    finite_mesh = np.arange(-30.0, 30.5, 0.5)
    mesh = [-np.inf, *finite_mesh, np.inf]
    best = float(min(mesh, key=deviance))
    if np.isfinite(best):
        result = minimize_scalar(
            deviance,
            bounds=(best - 0.5, best + 0.5),
            method="bounded",
            options={"xatol": 1e-9},
        )
        best = float(result.x)
    constant, slope, _ = fit_size(best)
    return constant, slope / mean_r
