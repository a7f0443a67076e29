"""Paths of a Matérn process: a priori, given values at knots, and between states."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics._jit import kernel
from skgpx._numerics.elementwise import add, copy
from skgpx._numerics.matern_states import stationary, transition, triangular_root
from skgpx._numerics.state_space import congruence, product, transposed_product

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]

# Variance of the rounding of a state, in units of its own.
_ROUNDING = 1e-24


@kernel
def prior_path(gaps: Array, amplitude: float, noise: Array, out: Array) -> None:
    """States at knots from independent normal noise (n, p, s), written to out."""
    n, p, s = noise.shape
    A, Q, L, last = np.empty((p, p)), np.empty((p, p)), np.empty((p, p)), -1.0
    moved = np.empty((p, s))
    triangular_root(amplitude * stationary(p), L)
    product(L, noise[0], out[0])
    for k in range(1, n):
        if gaps[k] != last:
            last = gaps[k]
            transition(last, A, Q)
            triangular_root(amplitude * Q, L)
        product(A, out[k - 1], moved)
        product(L, noise[k], out[k])
        add(moved, out[k])


@kernel
def smoothed_states(
    gaps: Array, mean: Array, covariance: Array, slope: Array, out: Array
) -> None:
    """Means of the states given all values (n, p, q), from both passes."""
    n, p, q = mean.shape
    A, Q, r = np.empty((p, p)), np.empty((p, p)), np.empty((p, q))
    for k in range(n):
        if k + 1 == n:
            copy(mean[k], out[k])
            break
        transition(gaps[k + 1], A, Q)
        transposed_product(A, slope[k + 1], r)
        product(covariance[k], r, out[k])
        add(mean[k], out[k])


@kernel
def bridges(
    before: Array,
    after: Array,
    follows: Flags,
    amplitude: float,
    left: Array,
    right: Array,
    noise: Array,
    out: Array,
) -> None:
    """States at increasing points, drawn given those of their neighbours.

    Parameters
    ----------
    before, after : ndarray of shape (k,)
        Scaled times since the neighbour on the left and to that on the right;
        infinite where there is none.
    follows : ndarray of shape (k,)
        Whether the neighbour on the left is the point before.
    amplitude : float
    left, right : ndarray of shape (k, p, s)
        States of the other neighbours.
    noise : ndarray of shape (k, p, s)
    out : ndarray of shape (k, p, s)
        Written.
    """
    k, p, s = noise.shape
    A, Q, L = np.empty((p, p)), np.empty((p, p)), np.empty((p, p))
    start, gain, moved = np.empty((p, s)), np.empty((p, p)), np.empty((p, s))
    for i in range(k):
        copy(out[i - 1] if follows[i] else left[i], start)
        if np.isinf(before[i]):
            _backward(after[i], amplitude, right[i], noise[i], out[i])
            continue
        transition(before[i], A, Q)
        product(A, start, moved)
        Q *= amplitude
        if np.isinf(after[i]):
            triangular_root(Q, L)
        else:
            _tied(after[i], amplitude, Q, gain, A, L)
            # what the right neighbour has beyond its prediction
            product(A, moved, start)
            moved += gain @ (right[i] - start)
        product(L, noise[i], out[i])
        add(moved, out[i])


@kernel
def _backward(
    u: float, amplitude: float, right: Array, noise: Array, out: Array
) -> None:
    """A state before all others: backward in time odd derivatives change sign."""
    p = len(noise)
    A, Q, L = np.empty((p, p)), np.empty((p, p)), np.empty((p, p))
    moved = right.copy()
    if p > 1:
        for j in range(moved.shape[1]):
            moved[1, j] = -moved[1, j]
    transition(u, A, Q)
    triangular_root(amplitude * Q, L)
    copy(A @ moved + L @ noise, out)
    if p > 1:
        for j in range(out.shape[1]):
            out[1, j] = -out[1, j]


@kernel
def _tied(
    u: float, amplitude: float, P: Array, gain: Array, A: Array, L: Array
) -> None:
    """Condition a state of covariance P on the state that follows after u.

    Writes the gain, A over u, and the root L of the covariance that is left.
    """
    p = len(P)
    Q, S, work = np.empty((p, p)), np.empty((p, p)), np.empty((p, p))
    transition(u, A, Q)
    Q *= amplitude
    congruence(A, P, work, S)
    S += Q
    start = stationary(p)
    for i in range(p):
        S[i, i] += _ROUNDING * amplitude * start[i, i]
    triangular_root(S, L)
    # P Aᵀ S⁻¹, row by row
    ahead = P @ np.ascontiguousarray(A.T)
    for i in range(p):
        _solve(L, ahead[i], gain[i])
    # (I - G A) P (I - G A)ᵀ + G Q Gᵀ is positive whatever the rounding
    left = np.eye(p) - gain @ A
    congruence(left, P, work, S)
    congruence(gain, Q, work, ahead)
    S += ahead
    triangular_root(S, L)


@kernel
def _solve(L: Array, b: Array, out: Array) -> None:
    """``(L Lᵀ)⁻¹ b``, without the directions of pivots that are zero."""
    p = len(L)
    for i in range(p):
        value = b[i]
        for j in range(i):
            value -= L[i, j] * out[j]
        out[i] = value / L[i, i] if L[i, i] > 0.0 else 0.0
    for back in range(p):
        i = p - 1 - back
        value = out[i]
        for j in range(i + 1, p):
            value -= L[j, i] * out[j]
        out[i] = value / L[i, i] if L[i, i] > 0.0 else 0.0
