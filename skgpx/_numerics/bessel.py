"""Modified Bessel functions of the second kind, as logarithms that do not overflow."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, kve

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
