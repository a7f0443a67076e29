"""Bessel and theta functions, and sums of progressions.

Long heads are summed, the rest follows from Euler and Maclaurin's formula
``Σ_{i>=0} f(a + ih) = ∫_a^∞ f/h + f(a)/2 - h f'(a)/12 + O(h³ f''')``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gamma, gammaincc, gammaln, kve, zeta

# ---- Modified Bessel functions of the second kind ------------------------------------


Array = NDArray[np.float64]

# Order from which Debye's expansion to four terms is accurate to 1e-11.
_LARGE_ORDER = 100.0
# Argument up to which SciPy's function is used; it fails above 1e9.
_LARGE_ARGUMENT = 1e8


def log_power_bessel_k(v: float, t: Array) -> Array:
    """``log(tᵛ K_v(t))`` for any order v and t >= 0.

    The function that Matérn covariances and the spectral densities of rational
    quadratic ones are made of; ``d/dt (tᵛ K_v) = -tᵛ K_(v-1)``.

    Parameters
    ----------
    v : float
        Order; K does not depend on its sign, the power does.
    t : ndarray
        Not negative.

    Returns
    -------
    logs : ndarray of the shape of t
        Infinite at t = 0 if ``v <= 0``.

    Notes
    -----
    Relative error of ``tᵛ K_v`` about 1e-15 times the size of the logarithm, 1e-11
    above an order of 100, where Debye's expansion [1]_ (10.41.4) takes over from
    SciPy's function, which overflows.

    References
    ----------
    .. [1] NIST Digital Library of Mathematical Functions.
    """
    if v < 0.0:
        with np.errstate(divide="ignore"):
            return 2.0 * v * np.log(t) + log_power_bessel_k(-v, t)
    if v >= _LARGE_ORDER:
        return _debye(v, t)
    near = np.minimum(t, _LARGE_ARGUMENT)
    scaled = kve(v, near)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs: Array = v * np.log(t) + np.log(scaled) - t
    overflows = np.isinf(scaled)
    logs[overflows] = _near_zero(v, t[overflows]) if v > 0.0 else np.inf
    far = t > _LARGE_ARGUMENT
    logs[far] += _far_ratio(v, t[far])
    return logs


def _far_ratio(v: float, t: Array) -> Array:
    """Logarithm of ``K_v(t) eᵗ`` over its value at the largest argument."""

    def hankel(x: Array | float) -> Array:
        mu = 4.0 * v * v
        first = (mu - 1.0) / (8.0 * x)
        terms = first * (1.0 + (mu - 9.0) / (16.0 * x))
        logs: Array = np.log1p(terms) - 0.5 * np.log(x)
        return logs

    return hankel(t) - hankel(_LARGE_ARGUMENT)


def _near_zero(v: float, t: Array) -> Array:
    """``Γ(v) 2^(v - 1) (1 - q/(v - 1) + ...)``, q = t²/4, where SciPy's overflows."""
    limit = float(gammaln(v) + (v - 1.0) * np.log(2.0))
    if v < 5.0:
        # t is below 1e-60
        return np.full(np.shape(t), limit)
    q = 0.25 * t * t
    third = 1.0 - q / (3.0 * (v - 3.0))
    return limit + np.log1p(-q / (v - 1.0) * (1.0 - q / (2.0 * (v - 2.0)) * third))


def _debye(v: float, t: Array) -> Array:
    """Expansion in ``1/v``, uniform in t."""
    s = np.hypot(1.0, t / v)
    p = 1.0 / s
    # polynomials u_k(p), with alternating signs for K
    u1 = p * (3.0 - 5.0 * p**2) / 24.0
    u2 = p**2 * (81.0 - 462.0 * p**2 + 385.0 * p**4) / 1152.0
    u3 = (
        p**3
        * (30375.0 - 369603.0 * p**2 + 765765.0 * p**4 - 425425.0 * p**6)
        / 414720.0
    )
    u4 = (
        p**4
        * (
            4465125.0
            - 94121676.0 * p**2
            + 349922430.0 * p**4
            - 446185740.0 * p**6
            + 185910725.0 * p**8
        )
        / 39813120.0
    )
    series = ((u4 / v - u3) / v + u2) / v - u1
    # K_v(vz) = √(π/2v) e^(-vη) (1 + z²)^(-1/4) Σ, η = s + log(z / (1 + s))
    logs: Array = v * (np.log(v) - s + np.log1p(s)) + 0.5 * np.log(0.5 * np.pi / v)
    return logs - 0.5 * np.log(s) + np.log1p(series / v)


# ---- Sums of a Gaussian over a lattice, by its images or by its waves ----------------


# Terms on each side of either sum; the first that is left out is exp(-25 π) = 8e-35.
_TERMS = np.arange(1.0, 5.0)


class ThetaSum(NamedTuple):
    """``θ(x) = Σ_n exp(-π n²/x²) = x Σ_k exp(-π k² x²)``, n and k over all integers.

    Attributes
    ----------
    log_images : ndarray
        ``log θ(x)``, small for small x.
    log_waves : ndarray
        ``log θ(x) - log x``, small for large x.
    slope : ndarray
        ``d log θ / d log x``, between zero and one.
    """

    log_images: Array
    log_waves: Array
    slope: Array


def theta_sum(x: Array) -> ThetaSum:
    """Sum a Gaussian over its images, or its waves where these are fewer.

    Parameters
    ----------
    x : ndarray
        ``√(2π)`` lengthscales per period, positive.

    Notes
    -----
    Poisson's formula; four terms on either side are exact to rounding.
    """
    x = np.asarray(x, dtype=np.float64)
    # the sum whose terms are at most exp(-π n²)
    short = x < 1.0
    y = np.where(short, 1.0 / x, x)[..., np.newaxis]
    half = np.pi * (_TERMS * y) ** 2
    terms = 2.0 * np.exp(-half)
    beyond = terms.sum(axis=-1)
    log_sum = np.log1p(beyond)
    # d log(1 + Σ) / d log y
    growth = -2.0 * np.sum(half * terms, axis=-1) / (1.0 + beyond)
    log_x = np.log(x)
    return ThetaSum(
        np.where(short, log_sum, log_sum + log_x),
        np.where(short, log_sum - log_x, log_sum),
        np.where(short, -growth, 1.0 + growth),
    )


# ---- Infinite sums over arithmetic progressions, and their derivatives ---------------


# Terms that are summed before the formula is used.
_HEAD = 1000


def power_sum(s: float, start: float, step: float) -> tuple[float, float]:
    """``Σ x^-s`` and ``Σ log(x) x^-s`` over ``x = start, start + step, ...``.

    Parameters
    ----------
    s : float
        Above one.
    start, step : float
        Positive.

    Returns
    -------
    total, weighted : float
        The first is a Hurwitz zeta function; the second is minus its derivative in s,
        to 1e-12.
    """
    x = start + step * np.arange(_HEAD)
    head = float(np.sum(np.log(x) * x**-s))
    a = start + step * _HEAD
    log, power = np.log(a), a**-s
    # ∫_a^∞ log(x) x^-s dx = a^(1-s) (log a / (s - 1) + 1 / (s - 1)²)
    integral = a * power * (log / (s - 1.0) + 1.0 / (s - 1.0) ** 2) / step
    slope = power / a * (1.0 - s * log)
    weighted = head + integral + 0.5 * log * power - step * slope / 12.0
    return float(step**-s * zeta(s, start / step)), float(weighted)


def exponential_sum(
    rate: float, d: int, start: float, step: float
) -> tuple[float, float]:
    """``Σ exp(-c x^(1/d))`` and ``Σ c x^(1/d) exp(-c x^(1/d))``, c the rate.

    Over ``x = start, start + step, ...``; the second is minus the derivative of the
    first in ``log c``.
    """
    x = start + step * np.arange(_HEAD)
    u = rate * x ** (1.0 / d)
    head, weighted_head = float(np.sum(np.exp(-u))), float(np.sum(u * np.exp(-u)))
    a = start + step * _HEAD
    u_a = rate * a ** (1.0 / d)
    f, slope = np.exp(-u_a), -np.exp(-u_a) * u_a / (d * a)
    # with x = (u/c)^d, ∫ exp(-u) dx = d c^-d Γ(d, u)
    volume = d * rate**-d / step
    total = volume * gamma(d) * gammaincc(d, u_a) + 0.5 * f - step * slope / 12.0
    weighted = volume * gamma(d + 1) * gammaincc(d + 1, u_a) + 0.5 * u_a * f
    weighted -= step * (slope * u_a + f * u_a / (d * a)) / 12.0
    return head + float(total), weighted_head + float(weighted)
