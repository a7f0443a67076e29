"""Student's law as a mixture of normals over a lattice of log precisions."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import loggamma

from skgpx._numerics.normal_sums import Noise

Array = NDArray[np.float64]

# Relative error of the lattice, and what is left out at its ends, in nats.
_ERROR, _LEFT_OUT = 1e-10, 25.0
# The same for probabilities.
_ROUGHER, _LEFT_OUT_OF_P = 3e-9, 20.0
# Log variances beyond which squares would overflow.
_WIDEST = 600.0


@lru_cache(maxsize=64)
def log_precisions(
    df: float, lowest: float, error: float = _ERROR
) -> tuple[Array, Array]:
    """Lattice of ``x = log g`` from `lowest` on, and its log weights, (k,) each.

    Student's law is that of ``N(0, 1 / g)`` with ``g ~ Gamma(df/2, rate df/2)`` [1]_.
    The trapezoidal rule in x, of step h, has the relative error ``2 |Γ(a + 2πi/h) /
    Γ(a)|`` for the density of ``(df + 1)/2 = a``, whatever the residual and whatever is
    added to ``1 / g``: the integrand is analytic for ``|Im x| < π/2``; `error` sets h.

    The points are multiples of h, so that those of a longer lattice include them.

    References
    ----------
    .. [1] Andrews and Mallows, "Scale mixtures of normal distributions", Journal of the
       Royal Statistical Society B 36, 1974.
    """
    a, b = 0.5 * (df + 1.0), 0.5 * df
    omega = np.linspace(4.0, 6.6 * np.sqrt(a) + 24.0, 400)
    decay = np.real(loggamma(a + 1j * omega)) - float(loggamma(a))
    h = 2.0 * np.pi / omega[np.argmax(decay < np.log(0.5 * error))]
    # the density of x, h b^b e^{bx - b e^x} / Γ(b); b (e^x - 1 - x) falls by it:
    # one step of x = log(1 + c + x) from above
    c = _LEFT_OUT / b
    margin = np.log1p(c + np.sqrt(2.0 * c))
    x = h * np.arange(np.floor(lowest / h), np.ceil(margin / h) + 1.0)
    whole = h * np.arange(-np.ceil(_left(b) / h), np.ceil(margin / h) + 1.0)
    total = np.exp(-b * (np.expm1(whole) - whole)).sum()
    return x, -b * (np.expm1(x) - x) - np.log(total)


def _left(b: float) -> float:
    """Distance on the left at which ``b (e^x - 1 - x)`` has grown by the margin."""
    return float(np.sqrt(2.0 * _LEFT_OUT / b) + _LEFT_OUT / b)


def noise_around(
    df: float, scale: float, square: Array
) -> tuple[Noise, NDArray[np.int64]]:
    """Noise for densities, and the first component that matters to each row.

    Parameters
    ----------
    df, scale : float
    square : ndarray of shape (n,)
        Largest squared residual plus variance of each row: the precisions that matter
        to it go down to ``(df + 1) / (df + square / scale^2)``, and a margin.
    """
    ratio = np.minimum(square / scale**2, 1e300)
    deepest = np.log((df + 1.0) / (df + 1.0 + ratio)) - _left(0.5 * df)
    x, log_weights = log_precisions(df, float(np.floor(deepest.min())))
    first = np.maximum(np.searchsorted(x, deepest) - 1, 0)
    return _noise(scale, x, log_weights), first.astype(np.int64)


def noise_for_level(df: float, scale: float, p: float) -> Noise:
    """Noise for probabilities down to p, to 3e-9 of p.

    Components are left out that have a probability of 2e-9 p together.
    """
    lowest = (np.log(p) - _LEFT_OUT_OF_P) / (0.5 * df)
    lowest = float(np.floor(max(lowest, -_WIDEST)))
    return _noise(scale, *log_precisions(df, lowest, _ROUGHER))


def _noise(scale: float, x: Array, log_weights: Array) -> Noise:
    variance = scale**2 * np.exp(-x)
    return Noise(np.zeros(len(x)), variance, np.exp(log_weights), log_weights)
