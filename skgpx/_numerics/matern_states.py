"""Matérn processes of orders 1/2, 3/2 and 5/2 as linear systems of their derivatives.

The state of a process of order ν = p - 1/2 is ``(f, f'/λ, ..., f^(p-1)/λ^(p-1))`` with
the rate ``λ = sqrt(2ν) / lengthscale``. Over a time in which ``u = λ δ`` passes it
moves by ``x -> A(u) x + N(0, a Q(u))``, a the variance of f [1]_. Nothing else here
depends on units.

References
----------
.. [1] Hartikainen and Särkkä, "Kalman filtering and smoothing solutions to temporal
   Gaussian process regression models", MLSP 2010.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics._jit import kernel

Array = NDArray[np.float64]

# Dimension of the state by the order of the kernel.
STATES = {0.5: 1, 1.5: 2, 2.5: 3}
# Scaled time after which nothing is left: squares of exp(-u) are still numbers.
_FORGOTTEN = 300.0
# Twice the scaled time up to which moments are summed as a series.
_SHORT = 4.0


@kernel
def stationary(p: int) -> Array:
    """Covariance of a state (p, p) of a process with variance one."""
    P = np.zeros((p, p))
    P[0, 0] = 1.0
    if p == 2:
        P[1, 1] = 1.0
    if p == 3:
        P[1, 1], P[2, 2] = 1.0 / 3.0, 1.0
        P[0, 2] = P[2, 0] = -1.0 / 3.0
    return P


@kernel
def transition(u: float, A: Array, Q: Array) -> None:
    """Fill A and Q (p, p) for a scaled time u.

    With the drift F, whose only eigenvalue is -1, ``A = e^Fu`` is ``e^-u`` times a
    polynomial, and ``Q = q ∫_0^u v vᵀ e^-2s ds`` with ``e^-s v(s)`` the last column of
    ``e^Fs``: sums of moments that do not cancel for any u, which ``P∞ - A P∞ Aᵀ``
    would.
    """
    p, u = len(A), min(u, _FORGOTTEN)
    decay = math.exp(-u)
    g = np.empty(5)
    _moments(u, 2 * p - 2, g)
    if p == 1:
        A[0, 0], Q[0, 0] = decay, 2.0 * g[0]
    elif p == 2:
        A[0, 0], A[0, 1] = decay * (1.0 + u), decay * u
        A[1, 0], A[1, 1] = -decay * u, decay * (1.0 - u)
        Q[0, 0], Q[0, 1] = 4.0 * g[2], 4.0 * (g[1] - g[2])
        Q[1, 1] = 4.0 * (g[0] - 2.0 * g[1] + g[2])
        Q[1, 0] = Q[0, 1]
    else:
        _third_transition(u, decay, A)
        _third_noise(g, Q)


@kernel
def _third_transition(u: float, decay: float, A: Array) -> None:
    # e^-u (I + N u + N² u²/2), N = F + I with N³ = 0
    half = 0.5 * u * u
    A[0, 0], A[0, 1], A[0, 2] = 1.0 + u + half, u + 2.0 * half, half
    A[1, 0], A[1, 1], A[1, 2] = -half, 1.0 + u - 2.0 * half, u - half
    A[2, 0], A[2, 1] = half - u, 2.0 * half - 3.0 * u
    A[2, 2] = 1.0 - 2.0 * u + half
    for i in range(3):
        for j in range(3):
            A[i, j] *= decay


@kernel
def _third_noise(g: Array, Q: Array) -> None:
    # v = (s²/2, s - s²/2, 1 - 2s + s²/2)
    q = 16.0 / 3.0
    Q[0, 0] = q * 0.25 * g[4]
    Q[0, 1] = Q[1, 0] = q * (0.5 * g[3] - 0.25 * g[4])
    Q[0, 2] = Q[2, 0] = q * (0.5 * g[2] - g[3] + 0.25 * g[4])
    Q[1, 1] = q * (g[2] - g[3] + 0.25 * g[4])
    Q[1, 2] = Q[2, 1] = q * (g[1] - 2.5 * g[2] + 1.5 * g[3] - 0.25 * g[4])
    Q[2, 2] = q * (g[0] - 4.0 * g[1] + 5.0 * g[2] - 2.0 * g[3] + 0.25 * g[4])


@kernel
def _moments(u: float, last: int, out: Array) -> None:
    """``∫_0^u s^k e^-2s ds`` for k = 0..last: the last one, and a recursion of sums."""
    x, decay = 2.0 * u, math.exp(-2.0 * u)
    if x < _SHORT:
        term = total = 1.0 / (last + 1.0)
        j = last + 1
        while term > 1e-18 * total:
            j += 1
            term *= x / j
            total += term
        out[last] = total * decay * u ** (last + 1)
    else:
        term = total = decay
        for j in range(1, last + 1):
            term *= x / j
            total += term
        out[last] = math.gamma(last + 1.0) * 0.5 ** (last + 1) * (1.0 - total)
    for k in range(last, 0, -1):
        out[k - 1] = (2.0 * out[k] + decay * u**k) / k


@kernel
def noise_rate(u: float, c: Array) -> None:
    """Fill c (p,) with ``dQ/du = c cᵀ``."""
    p, u = len(c), min(u, _FORGOTTEN)
    decay = math.exp(-u)
    if p == 1:
        c[0] = math.sqrt(2.0) * decay
    elif p == 2:
        c[0], c[1] = 2.0 * decay * u, 2.0 * decay * (1.0 - u)
    else:
        half, front = 0.5 * u * u, math.sqrt(16.0 / 3.0) * decay
        c[0], c[1] = front * half, front * (u - half)
        c[2] = front * (1.0 - 2.0 * u + half)


@kernel
def drift(X: Array, out: Array) -> None:
    """``F X`` of states or matrices (p, k): ``dA/du = F A``."""
    p, k = X.shape
    for c in range(k):
        for i in range(p - 1):
            out[i, c] = X[i + 1, c]
        if p == 1:
            out[0, c] = -X[0, c]
        elif p == 2:
            out[1, c] = -X[0, c] - 2.0 * X[1, c]
        else:
            out[2, c] = -X[0, c] - 3.0 * X[1, c] - 3.0 * X[2, c]


@kernel
def triangular_root(C: Array, L: Array) -> None:
    """Fill L (p, p) with ``L Lᵀ = C``, a pivot that is rounding counting as zero.

    Scaling a row and the column changes nothing, so that short times, where the
    entries of Q differ by any power, are as accurate as long ones.
    """
    p = len(C)
    for j in range(p):
        pivot = C[j, j]
        for k in range(j):
            pivot -= L[j, k] * L[j, k]
        root = math.sqrt(pivot) if pivot > 1e-14 * C[j, j] else 0.0
        for i in range(p):
            L[i, j] = 0.0
        L[j, j] = root
        for i in range(j + 1, p):
            value = C[i, j]
            for k in range(j):
                value -= L[i, k] * L[j, k]
            L[i, j] = value / root if root > 0.0 else 0.0
