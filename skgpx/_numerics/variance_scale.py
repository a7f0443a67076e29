"""Variance scales: the factor of predictive variances that held-out errors support.

Errors e at held-out rows whose variance is predicted to be v, or which have a part r of
it, are taken to be normal with mean zero and variance::

    T v      a factor, shrunk towards one by its standard error,
    a + b r  affine, a >= 0 and b >= 0, by a search of one variable

Row weights are frequencies.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

Array = NDArray[np.float64]

# Smallest variance, in units of the mean of those predicted.
_LEAST = 1e-12
# Steps of the mesh in log b/a, and how far it reaches beyond the range of r.
_STEP, _BEYOND = 0.25, 7.0
# Part of log b/a up to which the optimum is found.
_TOLERANCE = 1e-9


class Affine(NamedTuple):
    """Variance ``constant + slope * r``.

    Attributes
    ----------
    constant, slope : float
        a and b, not negative.
    """

    constant: float
    slope: float

    def __call__(self, r: Array) -> Array:
        """Variances at rows with these r (n,)."""
        return self.constant + self.slope * r


def fit_scale(squares: Array, variances: Array, weights: Array | None = None) -> float:
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

    Returns
    -------
    factor : float
        Positive.

    Notes
    -----
    Under normal errors ``T = mean e² / v`` maximises the likelihood; equations (78) to
    (80) of [1]_, whose authors search a grid. The standard error of log T is the root
    of ``(kurtosis - 1) / n``, with a kurtosis of the standardised errors of at least
    three: a few rows without a large error do not rule out large errors elsewhere. The
    positive-part James-Stein rule, ``log T (1 - se² / log² T)₊``, shrinks T towards
    one, and leaves one where log T is within its standard error.

    References
    ----------
    .. [1] Wild, Hu and Sejdinovic, "Generalized variational inference in function
       spaces: Gaussian measures meet Bayesian deep learning", NeurIPS 2022.
    """
    w = np.ones(len(squares)) if weights is None else weights
    z = squares / _floored(variances, w)
    factor = float(np.average(z, weights=w))
    if factor <= 0.0:
        return 1.0
    fourth = float(np.average((z / factor) ** 2, weights=w))
    return _shrunk(factor, (max(3.0, fourth) - 1.0) / _size(w))


def fit_relative_scale(
    squares: Array, reference: Array, variances: Array, weights: Array
) -> float:
    """Factor of the variances of one predictor over those of another.

    Both predict the same held-out rows: large errors that they share cancel, so that
    the ratio of their factors is much better determined than either.

    Parameters
    ----------
    squares, reference : ndarray of shape (n,)
        Squared errors of the two.
    variances, weights : ndarray of shape (n,)
        As of :func:`fit_scale`.

    Returns
    -------
    ratio : float
        Shrunk towards one as in :func:`fit_scale`.
    """
    v = _floored(variances, weights)
    one, other = (
        float(np.average(z / v, weights=weights)) for z in (squares, reference)
    )
    if one <= 0.0 or other <= 0.0:
        return 1.0
    gap = squares / (v * one) - reference / (v * other)
    return _shrunk(one / other, np.average(gap**2, weights=weights) / _size(weights))


def _shrunk(factor: float, squared_error: float) -> float:
    log_factor = np.log(factor)
    kept = max(0.0, 1.0 - squared_error / max(log_factor**2, 1e-300))
    return float(np.exp(kept * log_factor))


def _size(weights: Array) -> float:
    """Number of rows that count, of Kish."""
    return float(weights.sum() ** 2 / np.sum(weights**2))


def fit_affine_scale(squares: Array, r: Array, weights: Array) -> Affine:
    """Variance ``a + b r`` under which the errors are most probable.

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
    affine : Affine
        With a, b >= 0; a constant variance where r does not vary or where all errors
        are zero.

    Notes
    -----
    For a given ratio λ = b/a the best a has a closed form, ``mean e²/(1 + λ r)``. What
    is left is a function of λ. It may have several optima, so that the best point of a
    mesh in log λ, which reaches from next to a constant variance to next to one in
    proportion to r, starts the search, and both extremes are candidates. O(100 n).
    """
    total = weights.sum()
    size = float(weights @ r / total)
    spread = np.max(r) - np.min(r)
    if not np.any(squares * weights) or spread <= 1e-9 * np.max(r):
        return Affine(float(weights @ squares / total), 0.0)
    profile = _Profile(squares, r / size, weights / total)
    x = profile.best()
    constant, slope = profile.parts(x)
    return Affine(constant, slope / size)


class _Profile:
    """Deviance as a function of x = log b/a, with the best a, for r of mean one."""

    def __init__(self, squares: Array, r: Array, shares: Array):
        used = shares > 0.0
        self._squares, self._r, self._shares = squares[used], r[used], shares[used]

    def shape(self, x: float) -> Array:
        """Variances up to a factor: convex combinations of 1 and r."""
        # b/(a + b), without overflow
        part = 1.0 / (1.0 + np.exp(-x)) if np.isfinite(x) else float(x > 0.0)
        mixed: Array = np.maximum((1.0 - part) + part * self._r, _LEAST)
        return mixed

    def deviance(self, x: float) -> float:
        """``mean log v + 1`` with the best factor, less one: twice the loss."""
        shape = self.shape(x)
        factor = float(self._shares @ (self._squares / shape))
        return float(self._shares @ np.log(shape) + np.log(factor))

    def parts(self, x: float) -> tuple[float, float]:
        """a and b at the best factor."""
        factor = float(self._shares @ (self._squares / self.shape(x)))
        part = 1.0 / (1.0 + np.exp(-x)) if np.isfinite(x) else float(x > 0.0)
        return factor * (1.0 - part), factor * part

    def best(self) -> float:
        """Where the deviance is smallest; infinite at the extremes."""
        positive = self._r[self._r > _LEAST]
        low = -np.log(np.max(positive)) - _BEYOND
        high = -np.log(np.min(positive)) + _BEYOND
        mesh = np.append(np.arange(low, high, _STEP), high)
        values = np.array([self.deviance(x) for x in mesh])
        start = int(np.argmin(values))
        around = mesh[max(start - 1, 0)], mesh[min(start + 1, len(mesh) - 1)]
        found = minimize_scalar(
            self.deviance, around, bounds=around, method="bounded",
            options={"xatol": _TOLERANCE},
        )  # fmt: skip
        candidates = [-np.inf, float(mesh[start]), float(found.x), np.inf]
        return min(candidates, key=self.deviance)


def _floored(variances: Array, weights: Array) -> Array:
    """Variances with none next to zero; ones if all are zero."""
    size = float(np.average(variances, weights=weights))
    floored: Array = np.maximum(variances, _LEAST * size if size > 0.0 else 1.0)
    return floored
