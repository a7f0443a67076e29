"""Theta functions, and sums of progressions.

Long heads are summed, the rest follows from Euler and Maclaurin's formula
``Σ_{i>=0} f(a + ih) = ∫_a^∞ f/h + f(a)/2 - h f'(a)/12 + O(h³ f''')``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

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
