"""Regression on a Matérn process by a Kalman filter and its adjoint, O(n) time.

Knots are the inputs, increasing; gaps the scaled times between them, the first of no
meaning. Values may have several columns, which share the covariances; p is the
dimension of the state, h the unit vector of the value f in it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics._jit import kernel
from skgpx._numerics.elementwise import copy
from skgpx._numerics.matern_states import drift, noise_rate, stationary, transition

Array = NDArray[np.float64]
Index = NDArray[np.intp]


@kernel
def filter_rows(
    gaps: Array,
    precision: Array,
    values: Array,
    amplitude: float,
    mean: Array,
    covariance: Array,
    innovations: Array,
    inverse: Array,
) -> None:
    """States given the values so far.

    Parameters
    ----------
    gaps : ndarray of shape (n,)
    precision : ndarray of shape (n,)
        ``τ``, inverse variance of the noise of each value; zero where there is none.
    values : ndarray of shape (n, q)
    amplitude : float
        ``a``, variance of f.
    mean, covariance : ndarray of shape (n, p, q) and (n, p, p)
        Written: of the state given the values up to this knot.
    innovations : ndarray of shape (n, q)
        Written: value minus its prediction from those before.
    inverse : ndarray of shape (n,)
        Written: inverse variance of the innovation.
    """
    n, p, q = mean.shape
    A, Q, work = np.empty((p, p)), np.empty((p, p)), np.empty((p, p))
    m, P, last = np.zeros((p, q)), amplitude * stationary(p), -1.0
    for k in range(n):
        if k:
            if gaps[k] != last:
                last = gaps[k]
                transition(last, A, Q)
            product(A, mean[k - 1], m)
            congruence(A, covariance[k - 1], work, P)
            for i in range(p):
                for j in range(p):
                    P[i, j] += amplitude * Q[i, j]
        left = 1.0 / (1.0 + precision[k] * P[0, 0])
        inverse[k] = precision[k] * left
        for c in range(q):
            innovations[k, c] = values[k, c] - m[0, c]
            for i in range(p):
                mean[k, i, c] = m[i, c] + P[i, 0] * inverse[k] * innovations[k, c]
        _observed(P, left, inverse[k], covariance[k])


@kernel
def _observed(P: Array, left: float, inverse: float, out: Array) -> None:
    """``P - P h hᵀP / F``; the row of f without cancellation."""
    p = len(P)
    for j in range(p):
        out[0, j] = out[j, 0] = P[0, j] * left
    for i in range(1, p):
        for j in range(1, i + 1):
            out[i, j] = out[j, i] = P[i, j] - P[i, 0] * P[0, j] * inverse
        out[i, i] = max(out[i, i], 0.0)


@kernel
def adjoint_rows(
    gaps: Array,
    precision: Array,
    amplitude: float,
    mean: Array,
    covariance: Array,
    innovations: Array,
    inverse: Array,
    slope: Array,
    curvature: Array,
) -> tuple[float, float, float]:
    """What the values from a knot on say of its state, and the score.

    Parameters
    ----------
    gaps, precision, amplitude
        As in `filter_rows`.
    mean, covariance, innovations, inverse
        Written there; columns may be combined between the two calls.
    slope, curvature : ndarray of shape (n, p, q) and (n, p, p)
        Written: r and N, with which a state predicted to have mean m and covariance P
        has the mean ``m + P r`` and the covariance ``P - P N P`` given all values.

    Returns
    -------
    score : tuple of float
        Derivatives of ``-½ Σ (log F + Σ_columns z²/F)`` in the logarithms of
        amplitude, lengthscale and noise variance: of the log evidence, if the values
        have one column.

    Notes
    -----
    r and W = ½(r rᵀ - N) are the derivatives in predicted mean and covariance [1]_.

    References
    ----------
    .. [1] Koopman and Shephard, "Exact score for time series models in state space
       form", Biometrika 79, 1992.
    """
    n, p, q = mean.shape
    A, Q, work = np.empty((p, p)), np.empty((p, p)), np.empty((p, p))
    r, N, W, last = np.zeros((p, q)), np.zeros((p, p)), np.empty((p, p)), -1.0
    of_amplitude, of_scale, of_noise = 0.0, 0.0, 0.0
    for back in range(n):
        k = n - 1 - back
        of_noise += _before_value(
            precision[k], covariance[k], innovations[k], inverse[k], r, N, work
        )
        copy(r, slope[k])
        copy(N, curvature[k])
        _half_difference(r, N, W)
        if not k:
            break
        if gaps[k] != last:
            last = gaps[k]
            transition(last, A, Q)
        of_scale -= gaps[k] * _score_of_gap(
            gaps[k], A, amplitude, mean[k - 1], covariance[k - 1], r, W
        )
        of_amplitude += amplitude * np.sum(W * Q)
        # what is known before the gap
        transposed_product(A, slope[k], r)
        _transposed_congruence(A, curvature[k], work, N)
    of_amplitude += amplitude * np.sum(W * stationary(p))
    return of_amplitude, of_scale, of_noise


@kernel
def _before_value(
    precision: float,
    P: Array,
    innovation: Array,
    inverse: float,
    r: Array,
    N: Array,
    work: Array,
) -> float:
    """Take r and N from after a value to before it; the score in its log noise."""
    p, q = r.shape
    # the gain K = P⁻h / F is τ times the filtered covariance
    error, spread = 0.0, inverse
    for i in range(p):
        work[i, 0] = 0.0
        for j in range(p):
            work[i, 0] += precision * N[i, j] * P[j, 0]
        spread += precision * P[i, 0] * work[i, 0]
    for c in range(q):
        e = innovation[c] * inverse
        for i in range(p):
            e -= precision * P[i, 0] * r[i, c]
        r[0, c] += e
        error += e * e
    # (I - K hᵀ)ᵀ N (I - K hᵀ) + h hᵀ / F
    for i in range(p):
        N[0, i] -= work[i, 0]
        N[i, 0] -= work[i, 0]
    N[0, 0] += spread
    return 0.5 * (error - spread) / precision if precision > 0.0 else 0.0


@kernel
def _score_of_gap(
    u: float, A: Array, amplitude: float, m: Array, P: Array, r: Array, W: Array
) -> float:
    """Derivative in u of what m and P become, r and W being those in these."""
    p, q = m.shape
    moved, rate = np.empty((p, q)), np.empty((p, q))
    product(A, m, moved)
    drift(moved, rate)
    total = np.sum(r * rate)
    work, S, change = np.empty((p, p)), np.empty((p, p)), np.empty((p, p))
    c = np.empty(p)
    congruence(A, P, work, S)
    drift(S, change)
    noise_rate(u, c)
    for i in range(p):
        for j in range(p):
            total += W[i, j] * (2.0 * change[i, j] + amplitude * c[i] * c[j])
    return total


@kernel
def _half_difference(r: Array, N: Array, W: Array) -> None:
    """``½ (Σ r rᵀ - N)``."""
    p, q = r.shape
    for i in range(p):
        for j in range(p):
            total = -N[i, j]
            for c in range(q):
                total += r[i, c] * r[j, c]
            W[i, j] = 0.5 * total


@kernel
def product(A: Array, X: Array, out: Array) -> None:
    """``A X`` for X (p, q)."""
    p, q = X.shape
    for i in range(p):
        for c in range(q):
            out[i, c] = A[i, 0] * X[0, c]
        for j in range(1, p):
            for c in range(q):
                out[i, c] += A[i, j] * X[j, c]


@kernel
def transposed_product(A: Array, X: Array, out: Array) -> None:
    """``Aᵀ X`` for X (p, q)."""
    p, q = X.shape
    for i in range(p):
        for c in range(q):
            out[i, c] = A[0, i] * X[0, c]
        for j in range(1, p):
            for c in range(q):
                out[i, c] += A[j, i] * X[j, c]


@kernel
def congruence(A: Array, P: Array, work: Array, out: Array) -> None:
    """``A P Aᵀ`` for symmetric P."""
    p = len(A)
    product(A, P, work)
    for i in range(p):
        for j in range(i + 1):
            total = 0.0
            for k in range(p):
                total += work[i, k] * A[j, k]
            out[i, j] = out[j, i] = total


@kernel
def _transposed_congruence(A: Array, N: Array, work: Array, out: Array) -> None:
    """``Aᵀ N A`` for symmetric N."""
    p = len(A)
    transposed_product(A, N, work)
    for i in range(p):
        for j in range(i + 1):
            total = 0.0
            for k in range(p):
                total += work[i, k] * A[k, j]
            out[i, j] = out[j, i] = total


@kernel
def interpolate(
    left: Index,
    before: Array,
    after: Array,
    amplitude: float,
    mean: Array,
    covariance: Array,
    slope: Array,
    curvature: Array,
    value: Array,
    column: Array,
    direction: Array,
) -> None:
    """The law of f between and beyond the knots, each point by itself.

    Parameters
    ----------
    left : ndarray of shape (k,)
        Last knot at or before each point; -1 where there is none.
    before, after : ndarray of shape (k,)
        Scaled time since that knot, and to the next.
    amplitude, mean, covariance, slope, curvature
        Of `filter_rows` and `adjoint_rows`.
    value : ndarray of shape (k, q)
        Written: mean of f.
    column, direction : ndarray of shape (k, p)
        Written: ``P h`` of the state predicted from the left, and ``h - N P h``. Their
        product is the variance of f.
    """
    n, p, q = mean.shape
    A, Q, work = np.empty((p, p)), np.empty((p, p)), np.empty((p, p))
    P, start, ahead = np.empty((p, p)), amplitude * stationary(p), np.zeros(p)
    for i in range(len(left)):
        k = left[i]
        copy(start, P)
        value[i] = 0.0
        if k >= 0:
            transition(before[i], A, Q)
            congruence(A, covariance[k], work, P)
            P += amplitude * Q
            for j in range(p):
                for c in range(q):
                    value[i, c] += A[0, j] * mean[k, j, c]
        copy(P[0], column[i])
        direction[i] = 0.0
        direction[i, 0] = 1.0
        if k + 1 < n:
            transition(after[i], A, Q)
            # r and N of the next knot, seen from here
            ahead = A @ P[0]
            for j in range(p):
                for c in range(q):
                    value[i, c] += ahead[j] * slope[k + 1, j, c]
            left_over = A.T @ (curvature[k + 1] @ ahead)
            for j in range(p):
                direction[i, j] -= left_over[j]


@kernel
def joint_covariance(
    left: Index,
    before: Array,
    after: Array,
    gaps: Array,
    precision: Array,
    covariance: Array,
    column: Array,
    direction: Array,
    steps: Array,
    out: Array,
) -> None:
    """Covariance of f between increasing points, from what `interpolate` wrote.

    The error of a prediction moves by A over a gap and by ``I - K hᵀ`` at a value.

    Parameters
    ----------
    left, before, after
        Of `interpolate`.
    gaps, precision, covariance
        Of `filter_rows`.
    column, direction : ndarray of shape (k, p)
        Written by `interpolate`.
    steps : ndarray of shape (k,)
        Scaled time from the point before each.
    out : ndarray of shape (k, k)
        Written.
    """
    size, p = column.shape
    A, Q, moved = np.empty((p, p)), np.empty((p, p)), np.empty((p, p))
    carried = np.zeros((p, size))
    for i in range(size):
        if i:
            first, last = left[i - 1], left[i]
            M = np.eye(p)
            u = steps[i] if first == last else after[i - 1]
            for k in range(first, last):
                transition(u, A, Q)
                product(A, M, moved)
                _passed(precision[k + 1], covariance[k + 1], moved, M)
                u = before[i] if k + 1 == last else gaps[k + 2]
            transition(u, A, Q)
            ahead = (A @ M) @ np.ascontiguousarray(carried[:, :i])
            for a in range(p):
                for j in range(i):
                    carried[a, j] = ahead[a, j]
        for a in range(p):
            carried[a, i] = column[i, a]
        for j in range(i + 1):
            total = 0.0
            for a in range(p):
                total += carried[a, j] * direction[i, a]
            out[i, j] = out[j, i] = total


@kernel
def _passed(precision: float, P: Array, M: Array, out: Array) -> None:
    """``(I - K hᵀ) M``, K the gain of a value."""
    p = len(M)
    for i in range(p):
        for j in range(p):
            out[i, j] = M[i, j] - precision * P[i, 0] * M[0, j]
