"""Errors that Fourier features cause in a conditioned process, before it is drawn."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._draws._terms import FeatureMap
from skgpx._numerics.linalg import cholesky, solve_lower, solve_lower_transpose

Array = NDArray[np.float64]

# Up to this number all points are used; above, neighbourhoods of a few of them.
_MOST_POINTS = 512
_NEIGHBOURHOODS = 4
_LEFT_OUT = 64
# Rounding errors of a quadratic form ``aᵀ K a``, relative to ``‖a‖₁²``.
_ROUNDING = 1e-15
# Features in memory at a time.
_FLOATS = 2**22


@dataclass(frozen=True)
class Conditioning:
    """What drawn functions will be conditioned on.

    Parameters
    ----------
    points : ndarray of shape (n, d)
        Training inputs, or inducing points.
    noise_variance : float or ndarray of shape (n,), default=0.0
        Variance of the observation noise at the points.
    root : ndarray of shape (n, n), default=None
        Lower Cholesky factor of ``k(X, X)`` plus the noise, if it is known. The
        features are then also judged at fresh inputs, inside the data and just outside.
    negligible : float, default=1e-13
        Variance below which errors do not matter, as a fraction of the prior's.
    """

    points: Array
    noise_variance: float | Array = 0.0
    root: Array | None = None
    negligible: float = 1e-13

    @property
    def noise(self) -> Array:
        """Variance of the noise at each point, shape (n,)."""
        noise = np.asarray(self.noise_variance, dtype=np.float64)
        return np.broadcast_to(noise, (len(self.points),))


class Misfit(NamedTuple):
    """Errors of the law of conditioned draws, given their features.

    Attributes
    ----------
    std : float
        Root mean square of ``log(std of the draws / exact std)``.
    covariance : float
        Root of the mean over points of the squared errors of a row of the
        covariance, in units of the geometric mean of the standard deviations of the
        draws and the exact ones: too small ones count as much as too large ones.
    """

    std: float
    covariance: float


@dataclass(frozen=True)
class Predicted:
    """Values at some points, each predicted from observations at others.

    With ``C = K + N`` and ``A = C⁻¹``, the error of predicting the value at point i
    from the observations at the others is the linear functional ``Σⱼ Aᵢⱼ yⱼ / Aᵢᵢ``;
    that at a fresh input t is ``y(t) - k(t, X) A y``. Applied to the features it gives
    the variance of conditioned draws there; applied to the kernel, the exact one.

    Parameters
    ----------
    points : ndarray of shape (n, d)
        All of them.
    functionals : ndarray of shape (q, n)
        The q errors as combinations of the values at the points.
    fixed : ndarray of shape (q, q)
        Part of the covariance that does not depend on frequencies: that of the noise,
        and of the parts given to :meth:`with_exact`.
    exact : ndarray of shape (q, q)
        Covariance of the errors, without the noise at the point itself.
    floor : ndarray of shape (q,)
        Variances below which errors are ignored.
    """

    points: Array
    functionals: Array
    fixed: Array
    exact: Array
    floor: Array

    @property
    def variance(self) -> Array:
        """Exact variances, not below the floor, shape (q,)."""
        # rounding may leave them negative
        variance: Array = np.maximum(np.diagonal(self.exact), 0.0) + self.floor
        return variance

    def of(self, feature_map: FeatureMap) -> Array:
        """Errors of predicting the features, shape (q, number of features)."""
        width = feature_map(self.points[:1]).shape[1]
        total, size = np.zeros((len(self.functionals), width)), _FLOATS // width + 1
        for first in range(0, len(self.points), size):
            rows = slice(first, first + size)
            total += self.functionals[:, rows] @ feature_map(self.points[rows])
        return total

    def covariance(self, parts: list[tuple[float, FeatureMap]]) -> Array:
        """Covariance of draws with these features at the points predicted, (q, q).

        ``parts`` are variances and feature maps of independent summands.
        """
        total = self.fixed.copy()
        for variance, feature_map in parts:
            F = self.of(feature_map)
            total += variance * (F @ F.T)
        return total

    def with_exact(self, parts: list[tuple[float, FeatureMap]]) -> Predicted:
        """Add parts with exact features to the fixed part of the covariance."""
        return replace(self, fixed=self.covariance(parts))


def leave_one_out(
    kernel: Any, given: Conditioning, rng: np.random.Generator
) -> list[Predicted]:
    """Predict up to 64 points from all others, or from the others in a neighbourhood.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Prior covariance.
    given : Conditioning
        The points.
    rng : numpy.random.Generator
        Picks the points that are left out.

    Notes
    -----
    No new points are needed, and those left out are distributed as the inputs are.
    Up to 512 points, O(n^3). Above, four neighbourhoods of 128 points: where posterior
    variances are hard to get right, near points screen the influence of far ones, and
    elsewhere plain features are accurate.
    """
    X, noise, small = given.points, given.noise, given.negligible
    n = X.shape[0]
    if n <= _MOST_POINTS:
        left_out = rng.permutation(n)[:_LEFT_OUT]
        return [_predict_left_out(kernel, X, noise, left_out, small)]
    found = []
    left_out = np.arange(_LEFT_OUT // _NEIGHBOURHOODS)
    for centre in rng.permutation(n)[:_NEIGHBOURHOODS]:
        # ‖k(x, ·) - k(c, ·)‖², less what does not depend on x
        distance = kernel.diag(X) - 2.0 * kernel(X, X[[centre]])[:, 0]
        near = np.argsort(distance, kind="stable")[: _MOST_POINTS // _NEIGHBOURHOODS]
        fold = _predict_left_out(kernel, X[near], noise[near], left_out, small)
        found.append(fold)
    return found


def _predict_left_out(
    kernel: Any, X: Array, noise: Array, left_out: NDArray[np.intp], negligible: float
) -> Predicted:
    K = kernel(X)
    L = cholesky(K + np.diag(noise)).L
    unit = np.zeros((X.shape[0], left_out.shape[0]))
    rows = np.arange(left_out.shape[0])
    unit[left_out, rows] = 1.0
    A = solve_lower_transpose(L, solve_lower(L, unit)).T
    functionals = A / A[rows, left_out][:, np.newaxis]
    others = functionals.copy()
    others[rows, left_out] = 0.0
    from_noise = (others * noise) @ others.T
    exact = functionals @ K @ functionals.T + from_noise
    floor = floors(functionals, float(np.mean(np.diagonal(K))), negligible)
    return Predicted(X, functionals, from_noise, exact, floor)


def floors(functionals: Array, variance: float, negligible: float) -> Array:
    """Variances below which the errors do not matter, or are rounding errors, (q,)."""
    rounding = _ROUNDING * np.sum(np.abs(functionals), axis=1) ** 2
    floor: Array = variance * np.maximum(negligible, rounding)
    return floor


def misfit(predicted: list[Predicted], parts: list[tuple[float, FeatureMap]]) -> Misfit:
    """Errors of the draws with these features, over all points predicted.

    Parameters
    ----------
    predicted : list of Predicted
        Where to compare.
    parts : list of (float, FeatureMap)
        Variances and feature maps of the independent parts of the prior.
    """
    logs, squares, n = 0.0, 0.0, 0
    for fold in predicted:
        drawn = fold.covariance(parts)
        variance = fold.variance
        found = np.diagonal(drawn) + fold.floor
        logs += np.sum((0.5 * np.log(found / variance)) ** 2)
        units = np.sqrt(variance * found)
        squares += np.sum((drawn - fold.exact) ** 2 / np.outer(units, units))
        n += len(variance)
    return Misfit(float(np.sqrt(logs / n)), float(np.sqrt(squares / n)))
