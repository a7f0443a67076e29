"""Theta functions, and sums of progressions.

Long heads are summed, the rest follows from Euler and Maclaurin's formula
``Σ_{i>=0} f(a + ih) = ∫_a^∞ f/h + f(a)/2 - h f'(a)/12 + O(h³ f''')``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gamma, gammaincc, zeta

# ---- Sums of a Gaussian over a lattice, by its images or by its waves ----------------


Array = NDArray[np.float64]

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
