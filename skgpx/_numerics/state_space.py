"""State space models of Matern processes: filter, smoother and draws.

The state of a process of order ν = p - 1/2 is ``(f, f'/λ, ..., f^(p-1)/λ^(p-1))`` with
the rate ``λ = sqrt(2ν) / lengthscale``. Over a time in which ``u = λ δ`` passes it
moves by ``x -> A(u) x + N(0, a Q(u))``, a the variance of f [1]_. Nothing else here
depends on units.

Knots are the inputs, increasing; gaps the scaled times between them, the first of no
meaning. Values may have several columns, which share the covariances; p is the
dimension of the state, h the unit vector of the value f in it.

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
from skgpx._numerics.elementary import add, copy

# ---- Matérn processes as states ------------------------------------------------------


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


# ---- Regression on a Matérn process by a Kalman filter and its adjoint, O(n) time ----


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


# ---- Paths of a Matérn process: a priori, given values at knots, and between states --


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
