"""Weighted sums of chi-squares, as the squared norm of a Gaussian function."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincinv

Array = NDArray[np.float64]

# Spacing and reach of the nodes, in standard deviations of the integrand.
_SPACING, _REACH = 0.05, 12.0
# Newton steps at most; each is safeguarded by a bracket.
_STEPS = 60
_TOLERANCE = 1e-9
# Terms whose weights are below this fraction of the sum of larger ones are replaced by
# their mean.
_NEGLIGIBLE = 1e-12


class _Contour(NamedTuple):
    """Nodes in the upper half plane for one inversion.

    Attributes
    ----------
    points, steps : ndarray of shape (k,), complex
        ``s`` and ``ds`` times the quadrature weight over ``2πi``, twice for the
        mirror images in the lower half plane.
    log_transform : ndarray of shape (k,), complex
        ``log E exp(-s Q)``.
    upper : bool
        Whether the contour passes left of the origin, and so gives ``P(Q > x)``.
    """

    points: NDArray[np.complex128]
    steps: NDArray[np.complex128]
    log_transform: NDArray[np.complex128]
    upper: bool

    def tail_and_density(self, x: float) -> tuple[float, float]:
        """Probability beyond x (or below, if not `upper`), and the density at x."""
        terms = self.steps * np.exp(self.points * x + self.log_transform)
        sign = -1.0 if self.upper else 1.0
        tail = sign * float(np.sum(terms / self.points).real)
        return tail, float(np.sum(terms).real)


def chi_square_sum_quantile(
    weights: Array, level: float, constant: float = 0.0
) -> float:
    """Quantile of ``Q = constant + Σ weights[j] χ²₁``, independent chi-squares.

    Parameters
    ----------
    weights : ndarray of shape (k,)
        Not negative; zeros are left out.
    level : float
        Probability in (0, 1).
    constant : float, default=0.0
        Added to the sum.

    Returns
    -------
    quantile : float
        ``q`` with ``P(Q <= q) = level``, to a relative error of about 1e-9.

    Notes
    -----
    Inversion of the characteristic function ``E exp(-sQ) = Π (1 + 2 w_j s)^(-1/2)``::

        P(Q > x) = -1/(2πi) ∫ exp(sx) E exp(-sQ) ds / s

    on the parabola of steepest descent through the saddle point instead of the
    imaginary axis [1]_. It avoids the branch cut, and the integrand decays like a
    normal density along it, so the trapezoidal rule converges geometrically, for a
    single chi-square and for thousands. O(k) for each of 240 nodes on about three
    contours; no simulation.

    References
    ----------
    .. [1] Rice, "Distribution of quadratic forms in normal random variables:
       evaluation by numerical integration", SIAM J. Sci. Stat. Comput. 1, 1980.
    """
    weights = np.sort(weights[weights > 0.0])[::-1]
    total = float(np.sum(weights))
    if not total > 0.0:
        return constant
    w = weights / total
    kept = np.cumsum(w[::-1])[::-1] > _NEGLIGIBLE
    w, small = w[kept], float(np.sum(w[~kept]))
    x = _matched_gamma(w, level)
    for _ in range(_STEPS):
        # for x above the mean the saddle point is left of the origin
        upper = x > 1.0
        solution = _solve(_contour(w, x, upper), x, 1.0 - level if upper else level)
        if abs(solution - x) <= _TOLERANCE * x:
            break
        x = solution
    return constant + total * (solution + small)


def _matched_gamma(w: Array, level: float) -> float:
    """Quantile of the gamma distribution with the same mean and variance."""
    mean, variance = float(np.sum(w)), 2.0 * float(w @ w)
    start = float(gammaincinv(mean**2 / variance, level)) * variance / mean
    return max(start, 1e-8 * mean)


def _solve(contour: _Contour, x: float, target: float) -> float:
    """Newton in log x for ``log tail = log target``, at most a factor 2 away."""
    low, high = 0.5 * x, 2.0 * x
    sign = -1.0 if contour.upper else 1.0
    for _ in range(_STEPS):
        tail, density = contour.tail_and_density(x)
        if not (tail > 0.0 and density > 0.0):
            return float(np.sqrt(low * high))
        # d log tail / d log x = ± density x / tail
        step = np.log(tail / target) * tail / (density * x)
        moved = float(np.clip(x * np.exp(np.clip(-sign * step, -0.5, 0.5)), low, high))
        if abs(moved - x) <= 0.1 * _TOLERANCE * x:
            return moved
        x = moved
    return x


def _contour(w: Array, x: float, upper: bool) -> _Contour:
    """Parabola through the saddle of ``exp(sx) E exp(-sQ) / |s|``."""
    saddle = _saddle(w, x, upper)
    ratio = 2.0 * w / (1.0 + 2.0 * w * saddle)
    # second and third derivatives of log E exp(-sQ), and that of -log|s|
    second, third = 0.5 * float(ratio @ ratio), -float(np.sum(ratio**3))
    width = 1.0 / np.sqrt(second + 1.0 / saddle**2)
    # δ = iu + cu² keeps K''δ²/2 + K'''δ³/6 real: c = K''' / (6 K'')
    curvature = third / (6.0 * second)
    u = width * np.arange(0.0, _REACH, _SPACING)
    points = saddle + 1j * u + curvature * u**2
    steps = (1j + 2.0 * curvature * u) * (_SPACING * width / (1j * np.pi))
    steps[0] *= 0.5
    transform = np.zeros(len(u), dtype=np.complex128)
    for weight in np.array_split(w, max(1, len(w) // 256)):
        transform -= 0.5 * np.log1p(2.0 * np.outer(points, weight)).sum(axis=1)
    return _Contour(points, steps, transform, upper)


def _saddle(w: Array, x: float, upper: bool) -> float:
    """Real minimum of ``sx - ½ Σ log(1 + 2ws) - log|s|`` on its side of the origin."""
    if upper:
        low, high = -0.5 / float(w[0]), 0.0
    else:
        low, high = 0.0, (1.0 + 0.5 * len(w)) / x
    for _ in range(200):
        s = 0.5 * (low + high)
        slope = x - float(np.sum(w / (1.0 + 2.0 * w * s))) - 1.0 / s
        low, high = (s, high) if slope < 0.0 else (low, s)
        if high - low <= 1e-6 * abs(s):
            break
    return 0.5 * (low + high)
