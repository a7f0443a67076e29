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
# Variances below this fraction of the prior's do not matter: a thousandth in std.
_FLOOR = 1e-6


@dataclass(frozen=True)
class Conditioning:
    """What drawn functions will be conditioned on.

    Parameters
    ----------
    points : ndarray of shape (n, d)
        Training inputs, or inducing points.
    noise_variance : float or ndarray of shape (n,), default=0.0
        Variance of the observation noise at the points.
    """

    points: Array
    noise_variance: float | Array = 0.0


class Misfit(NamedTuple):
    """Errors of the law of conditioned draws, given their features.

    Attributes
    ----------
    std : float
        Root mean square of ``log(std of the draws / exact std)``.
    covariance : float
        Root of the mean over points of the squared errors of a row of the
        covariance, in units of the exact standard deviations.
    """

    std: float
    covariance: float


@dataclass(frozen=True)
class LeaveOneOut:
    """Some points, each predicted from the others.

    With ``C = K + N`` and ``A = C⁻¹``, the error of predicting the value at point i
    from the observations at the others is the linear functional ``Σⱼ Aᵢⱼ yⱼ / Aᵢᵢ``.
    Applied to the features it gives the variance of conditioned draws there; applied
    to the kernel, the exact one. No new points are needed, and the points left out are
    distributed as the inputs are.

    Parameters
    ----------
    points : ndarray of shape (n, d)
        All of them.
    functionals : ndarray of shape (q, n)
        Rows ``Aᵢ / Aᵢᵢ`` of the q points left out.
    fixed : ndarray of shape (q, q)
        Part of the covariance that does not depend on frequencies: that of the noise,
        and of the parts given to :meth:`with_exact`.
    exact : ndarray of shape (q, q)
        Covariance of the errors, without the noise at the point itself.
    floor : float
        Variance below which errors are ignored.
    """

    points: Array
    functionals: Array
    fixed: Array
    exact: Array
    floor: float

    def covariance(self, parts: list[tuple[float, FeatureMap]]) -> Array:
        """Covariance of draws with these features at the points left out, (q, q).

        ``parts`` are variances and feature maps of independent summands.
        """
        total = self.fixed.copy()
        for variance, feature_map in parts:
            F = self.functionals @ feature_map(self.points)
            total += variance * (F @ F.T)
        return total

    def with_exact(self, parts: list[tuple[float, FeatureMap]]) -> LeaveOneOut:
        """Add parts with exact features to the fixed part of the covariance."""
        return replace(self, fixed=self.covariance(parts))


def leave_one_out(
    kernel: Any, given: Conditioning, rng: np.random.Generator
) -> list[LeaveOneOut]:
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
    Up to 512 points, O(n^3). Above, four neighbourhoods of 128 points: where posterior
    variances are hard to get right, near points screen the influence of far ones, and
    elsewhere plain features are accurate.
    """
    X = given.points
    n = X.shape[0]
    noise = np.broadcast_to(np.asarray(given.noise_variance, dtype=float), (n,))
    if n <= _MOST_POINTS:
        left_out = rng.permutation(n)[:_LEFT_OUT]
        return [_predict_left_out(kernel, X, noise, left_out)]
    found = []
    left_out = np.arange(_LEFT_OUT // _NEIGHBOURHOODS)
    for centre in rng.permutation(n)[:_NEIGHBOURHOODS]:
        # ‖k(x, ·) - k(c, ·)‖², less what does not depend on x
        distance = kernel.diag(X) - 2.0 * kernel(X, X[[centre]])[:, 0]
        near = np.argsort(distance, kind="stable")[: _MOST_POINTS // _NEIGHBOURHOODS]
        found.append(_predict_left_out(kernel, X[near], noise[near], left_out))
    return found


def _predict_left_out(
    kernel: Any, X: Array, noise: Array, left_out: NDArray[np.intp]
) -> LeaveOneOut:
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
    floor = _FLOOR * float(np.mean(np.diagonal(K)))
    return LeaveOneOut(X, functionals, from_noise, exact, floor)


def misfit(
    left_out: list[LeaveOneOut], parts: list[tuple[float, FeatureMap]]
) -> Misfit:
    """Errors of the draws with these features, over all points left out.

    Parameters
    ----------
    left_out : list of LeaveOneOut
        Where to compare.
    parts : list of (float, FeatureMap)
        Variances and feature maps of the independent parts of the prior.
    """
    logs, squares, n = 0.0, 0.0, 0
    for fold in left_out:
        drawn = fold.covariance(parts)
        variance = np.diagonal(fold.exact) + fold.floor
        logs += np.sum(
            (0.5 * np.log((np.diagonal(drawn) + fold.floor) / variance)) ** 2
        )
        error = (drawn - fold.exact) / np.sqrt(np.outer(variance, variance))
        squares += np.sum(error**2)
        n += len(variance)
    return Misfit(float(np.sqrt(logs / n)), float(np.sqrt(squares / n)))
