"""Tridiagonal form of symmetric matrices, and ridge regression on it in linear time."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from skgpx._numerics._jit import kernel

Array = NDArray[np.float64]


def tridiagonal_from(A: Array, b: Array) -> tuple[Array, Array]:
    """``Qᵀ A Q`` tridiagonal, Q orthogonal with ``Qᵀ b = ±|b| e₁``.

    Parameters
    ----------
    A : ndarray of shape (m, m)
        Symmetric.
    b : ndarray of shape (m,)

    Returns
    -------
    diagonal, below : ndarray of shape (m,) and (m - 1,)

    Notes
    -----
    O(m^3): 4/3 m^3 multiplications.
    """
    m = len(b)
    A = np.asfortranarray(_reflected(A, b))
    size = int(lapack.dsytrd_lwork(m, lower=1)[0])
    # of the reflections of LAPACK's lower variant, none touches the first entry
    _, diagonal, below, _, _ = lapack.dsytrd(A, lower=1, lwork=size, overwrite_a=1)
    return diagonal, below


def _reflected(A: Array, b: Array) -> Array:
    """``H A H`` for the reflection H with ``H b = ∓|b| e₁``."""
    length = np.linalg.norm(b)
    if length == 0.0:
        return A.copy()
    v = b / length
    v[0] += np.copysign(1.0, v[0])
    v *= np.sqrt(2.0) / np.linalg.norm(v)
    # (I - vvᵀ) A (I - vvᵀ) = A - v wᵀ - w vᵀ with w = Av - v (vᵀAv)/2
    w = A @ v
    w -= 0.5 * (v @ w) * v
    reflected: Array = A - np.outer(v, w)
    reflected -= np.outer(w, v)
    return reflected


@kernel
def ridge_pivots(
    diagonal: Array, below: Array, a: float
) -> tuple[float, float, float, float]:
    """Determinant and first entry of the inverse of ``B = I + a T``.

    Parameters
    ----------
    diagonal, below : ndarray of shape (m,) and (m - 1,)
        Tridiagonal positive semi-definite matrix ``T``.
    a : float
        Not negative.

    Returns
    -------
    volume, in_volume : float
        ``log det B`` and its derivative in ``log a``.
    corner, in_corner : float
        ``(B⁻¹)₁₁`` and its derivative in ``log a``.
    """
    volume, slope = 0.0, 0.0
    q, dq = 1.0, 0.0
    for j in range(diagonal.size):
        i = diagonal.size - 1 - j
        # from the last: q_i = 1 + a d_i - (a e_i)² / q_{i+1}
        step = 1.0 + a * diagonal[i]
        change = a * diagonal[i]
        if j:
            ratio = (a * below[i]) ** 2 / q
            step -= ratio
            change -= ratio * (2.0 - dq / q)
        # Schur complements of B >= I are at least one, up to rounding
        q, dq = max(step, 1.0), change
        volume += math.log(q)
        slope += dq / q
    return volume, slope, 1.0 / q, -dq / (q * q)
