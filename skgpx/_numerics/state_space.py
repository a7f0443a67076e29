"""Series by state space: exact regression on sums of Markov processes in O(n).

A Matern process of order ``p - 1/2`` is white noise through a cascade of p filters of
one rate [1]_: with x the time in units of ``1 / rate``::

    dz_1 = -z_1 dx + dW,    dz_i = (z_{i-1} - z_i) dx,    f = a z_p / sd(z_p)

    z(x + Δ) = A z(x) + noise,    A_ij = e^{-Δ} Δ^{i-j} / (i-j)!,    Q_ij = γ_{i+j}(Δ)

with all entries positive, so that nothing is lost at small steps. A process times
``cos(ωt)`` is the real part of two such cascades that turn with the frequency ω. Static
states, the weights of functions Φ, do not move: ``f += Φ(t)ᵀ w``.

The filter goes forward; the slopes r of the log density in the state that it predicts,
and N, less their mean squares, go backward, and give every posterior without the
inverse of a covariance [2]_: ``m + P r`` and ``P - P N P``.

References
----------
.. [1] Hartikainen and Särkkä, "Kalman filtering and smoothing solutions to temporal
   Gaussian process regression models", MLSP 2010.
.. [2] de Jong, "Smoothing and interpolation with the state-space model", Journal of the
   American Statistical Association 1989.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from skgpx._numerics._jit import inlined, kernel
from skgpx._numerics.elementary import copy_matrix
from skgpx._types import Array, Index

# Rows of a segment, whose states are computed again when they are needed.
_SEGMENT = 64


class Cascades(NamedTuple):
    """Independent Markov processes, each with the states of one cascade or of two.

    Attributes
    ----------
    orders : ndarray of int of shape (B,)
        Number p of filters, a Matern process of order ``p - 1/2``.
    rates : ndarray of shape (B,)
        ``√(2p - 1) / lengthscale``.
    frequencies : ndarray of shape (B,)
        ω, with two cascades, or zero, with one.
    amplitudes : ndarray of shape (B,)
        Standard deviations a.
    """

    orders: Index
    rates: Array
    frequencies: Array
    amplitudes: Array

    @property
    def n_states(self) -> int:
        copies = np.where(self.frequencies > 0.0, 2, 1)
        return int(np.sum(copies * self.orders))


@inlined
def _noise_moments(p: int, x: float, decay: float, moments: Array) -> None:
    """``∫_0^x s^m e^{-2s} ds`` for m < 2p - 1; `decay` is ``e^{-x}``."""
    last = 2 * p - 2
    square = decay * decay
    if x > 0.5:
        power = 1.0
        moments[0, 0] = 0.5 * (1.0 - square)
        for m in range(1, last + 1):
            power *= x
            moments[0, m] = 0.5 * (m * moments[0, m - 1] - power * square)
    else:
        # e^{-2x} x^{m+1} Σ_k (2x)^k / ((m+1) ... (m+1+k)), and downwards from the last
        power = 1.0
        for _ in range(last):
            power *= x
        term = power * x * square * moments[1, last + 1]
        total = term
        k = last + 2
        while term > 1e-17 * total:
            term *= 2.0 * x * moments[1, k]
            total += term
            k += 1
        moments[0, last] = total
        for m in range(last, 0, -1):
            power = square
            for _ in range(m):
                power *= x
            moments[0, m - 1] = (2.0 * moments[0, m] + power) * moments[1, m]


@inlined
def stationary(cascades: Cascades, P: Array) -> None:
    """Write the covariance of the states without observations; static ones are I."""
    S = P.shape[1]
    P[:] = 0.0
    start = 0
    for b in range(len(cascades.orders)):
        p = cascades.orders[b]
        for _ in range(2 if cascades.frequencies[b] > 0.0 else 1):
            for i in range(p):
                for j in range(p):
                    # (i + j)! / (2^(i+j+1) i! j!)
                    value = 0.5
                    for k in range(1, j + 1):
                        value *= 0.5 * (i + k) / k
                    for _ in range(i):
                        value *= 0.5
                    P[start + i, start + j] = value
            start += p
    for i in range(start, S):
        P[i, i] = 1.0


@inlined
def heights(cascades: Cascades, q: int) -> tuple[Array, Index]:
    """Factors of the states that f reads, and these states; q last ones are static.

    ``a / sd(z_p)`` of the cascades, and those of static states from `_read_functions`.
    """
    B = len(cascades.orders)
    h = np.empty(B + q)
    reads = np.empty(B + q, np.int64)
    start = 0
    for b in range(B):
        p = cascades.orders[b]
        variance = 0.5
        for k in range(1, p):
            variance *= 0.5 * (p - 1.0 + k) / k
        for _ in range(p - 1):
            variance *= 0.5
        reads[b] = start + p - 1
        h[b] = cascades.amplitudes[b] / math.sqrt(variance)
        start += p * (2 if cascades.frequencies[b] > 0.0 else 1)
    for c in range(q):
        reads[B + c] = start + c
    return h, reads


@inlined
def _read_functions(features: Array, row: int, h: Array) -> None:
    """Write the factors of static states in one row of the functions."""
    q = features.shape[1]
    for c in range(q):
        h[len(h) - q + c] = features[row, c]


@inlined
def _step_of(
    cascades: Cascades,
    b: int,
    step: float,
) -> tuple[int, bool, float, float, float, float]:
    """Order of a cascade, whether it turns, and its decay and turn in a step."""
    turns = cascades.frequencies[b] > 0.0
    x = cascades.rates[b] * step
    cosine = 1.0
    sine = 0.0
    if turns:
        cosine = math.cos(cascades.frequencies[b] * step)
        sine = math.sin(cascades.frequencies[b] * step)
    return cascades.orders[b], turns, x, math.exp(-x), cosine, sine


@inlined
def _room_for_moments() -> Array:
    """An array (2, 64) for moments of the noise, with reciprocals in its second row."""
    moments = np.empty((2, 64))
    for k in range(1, 64):
        moments[1, k] = 1.0 / k
    return moments


@inlined
def _advance(
    p: int,
    x: float,
    decay: float,
    turns: bool,
    cosine: float,
    sine: float,
    transposed: bool,
    V: Array,
    row: int,
    start: int,
) -> None:
    """``v ← A v``, or ``Aᵀ v``, of one block of a row of V, in place."""
    for copy in range(2 if turns else 1):
        # A is a lower triangle, whose transpose goes the other way
        first = start + copy * p
        way = 1
        if transposed:
            first += p - 1
            way = -1
        if p == 1:
            V[row, first] *= decay
        elif p == 2:
            V[row, first + way] = decay * (V[row, first + way] + x * V[row, first])
            V[row, first] *= decay
        else:
            for j in range(p - 1, -1, -1):
                total = V[row, first + way * j]
                factor = 1.0
                for k in range(1, j + 1):
                    factor *= x / k
                    total += factor * V[row, first + way * (j - k)]
                V[row, first + way * j] = decay * total
    if turns:
        if transposed:
            sine = -sine
        for i in range(start, start + p):
            real = V[row, i]
            imaginary = V[row, p + i]
            V[row, i] = cosine * real - sine * imaginary
            V[row, p + i] = sine * real + cosine * imaginary


@inlined
def _transpose_block(V: Array, start: int, stop: int) -> None:
    """Transpose a block on the diagonal, and copy its columns elsewhere from rows."""
    S = V.shape[1]
    for j in range(S):
        if j < start or j >= stop:
            for i in range(start, stop):
                V[i, j] = V[j, i]
    for j in range(start, stop):
        for i in range(j + 1, stop):
            upper = V[j, i]
            V[j, i] = V[i, j]
            V[i, j] = upper


@kernel
def carry(
    cascades: Cascades,
    step: float,
    transposed: bool,
    V: Array,
    moments: Array,
) -> None:
    """Move states by a step, or N and r back by one.

    Parameters
    ----------
    cascades : Cascades
    step : float
    transposed : bool
        ``Aᵀ N A`` and ``Aᵀ r`` instead of ``A P Aᵀ + Q`` and ``A m``.
    V : ndarray of shape (S + 1, S)
        Covariance of the states and, in the last row, their mean; overwritten.
    moments : ndarray of shape (2, 64)
        Memory, and in the second row 1 / k at k.
    """
    S = V.shape[1]
    start = 0
    for b in range(len(cascades.orders)):
        p, turns, x, decay, cosine, sine = _step_of(cascades, b, step)
        stop = start + (2 * p if turns else p)
        # P Aᵀ and A m, then A P Aᵀ
        for j in range(S + 1):
            _advance(p, x, decay, turns, cosine, sine, transposed, V, j, start)
        _transpose_block(V, start, stop)
        for j in range(start, stop):
            _advance(p, x, decay, turns, cosine, sine, transposed, V, j, start)
        # Q_ij = γ_{i+j} / (i! j!)
        if not transposed:
            _noise_moments(p, x, decay, moments)
            for copy in range(2 if turns else 1):
                first = start + copy * p
                of_i = 1.0
                for i in range(p):
                    if i > 1:
                        of_i *= moments[1, i]
                    of_j = of_i
                    for j in range(p):
                        if j > 1:
                            of_j *= moments[1, j]
                        V[first + i, first + j] += of_j * moments[0, i + j]
        start = stop


@inlined
def _observe(
    h: Array,
    reads: Index,
    features: Array,
    row: int,
    V: Array,
    Ph: Array,
    k: int,
) -> tuple[float, float]:
    """``P h`` of the states that f reads into row k; ``hᵀ P h`` and ``hᵀ m``."""
    S = V.shape[1]
    _read_functions(features, row, h)
    for j in range(S):
        total = 0.0
        for b in range(len(reads)):
            total += h[b] * V[reads[b], j]
        Ph[k, j] = total
    variance = 0.0
    mean = 0.0
    for b in range(len(reads)):
        variance += h[b] * Ph[k, reads[b]]
        mean += h[b] * V[S, reads[b]]
    return max(variance, 0.0), mean


@inlined
def _update(
    h: Array,
    reads: Index,
    V: Array,
    Ph: Array,
    k: int,
    residual: float,
    noise: float,
    total: float,
) -> None:
    """Condition the states on one observation."""
    S = V.shape[1]
    precision = 1.0 / total
    scaled = residual * precision
    for i in range(S):
        V[S, i] += Ph[k, i] * scaled
        factor = Ph[k, i] * precision
        for j in range(i + 1):
            V[i, j] -= factor * Ph[k, j]
            V[j, i] = V[i, j]
    if len(reads) == 1:
        # without a difference of nearly equal numbers
        i = reads[0]
        share = noise * precision / h[0]
        for j in range(S):
            V[i, j] = Ph[k, j] * share
            V[j, i] = V[i, j]


@kernel
def filter_rows(
    series: Series,
    y: Array,
    first: int,
    states: Array,
    sums: Array,
) -> None:
    """Filter rows, and keep the states predicted at the first one of each segment.

    Parameters
    ----------
    series : Series
    y : ndarray of shape (n,)
        Values of the rows.
    first : int
        The first segment to filter; its states are known unless it is zero.
    states : ndarray of shape (n_segments, S + 1, S)
        Covariance and, in the last row, mean of the states; written.
    sums : ndarray of shape (n_segments + 1, 2)
        ``Σ v² / F`` and ``Σ log F`` before each segment, and in all; written.
    """
    cascades, times, features, noise = series
    n = len(times)
    S = states.shape[2]
    h, reads = heights(cascades, features.shape[1])
    moments = _room_for_moments()
    Ph = np.empty((1, S))
    V = np.zeros((S + 1, S))
    stationary(cascades, V)
    squares = 0.0
    log_volume = 0.0
    if first > 0:
        copy_matrix(states[first], V)
        squares = sums[first, 0]
        log_volume = sums[first, 1]
    left = 0
    segment = first
    for i in range(first * _SEGMENT, n):
        if i > first * _SEGMENT and times[i] > times[i - 1]:
            carry(cascades, times[i] - times[i - 1], False, V, moments)
        if left == 0:
            copy_matrix(V, states[segment])
            sums[segment, 0] = squares
            sums[segment, 1] = log_volume
            segment += 1
            left = _SEGMENT
        left -= 1
        if noise[i] == np.inf:
            continue
        variance, mean = _observe(h, reads, features, i, V, Ph, 0)
        total = variance + noise[i]
        residual = y[i] - mean
        _update(h, reads, V, Ph, 0, residual, noise[i], total)
        squares += residual * residual / total
        log_volume += math.log(total)
    sums[segment, 0] = squares
    sums[segment, 1] = log_volume


@kernel
def _segment(
    series: Series,
    y: Array,
    h: Array,
    reads: Index,
    state: Array,
    low: int,
    high: int,
) -> tuple[Array, Array, Array, Array]:
    """Filter the rows of one segment again, and keep what each of them predicts.

    Other arguments are those of `filter_rows`.

    Parameters
    ----------
    h, reads : ndarray
        Of `heights`.
    state : ndarray of shape (S + 1, S)
        Covariance and mean before the first row.
    low, high : int
        Rows of the segment.

    Returns
    -------
    all_V : ndarray of shape (64, S + 1, S)
        Covariance and mean before each row.
    Ph : ndarray of shape (65, S)
        Covariances of the states and f; the last row is memory.
    totals, residuals : ndarray of shape (64,)
        F, infinite without a value, and v.
    """
    cascades, times, features, noise = series
    S = state.shape[1]
    moments = _room_for_moments()
    V = state.copy()
    all_V = np.empty((_SEGMENT, S + 1, S))
    Ph = np.empty((_SEGMENT + 1, S))
    totals = np.full(_SEGMENT, np.inf)
    residuals = np.empty(_SEGMENT)
    for i in range(low, high):
        k = i - low
        if i > low and times[i] > times[i - 1]:
            carry(cascades, times[i] - times[i - 1], False, V, moments)
        copy_matrix(V, all_V[k])
        if noise[i] == np.inf:
            continue
        variance, mean = _observe(h, reads, features, i, V, Ph, k)
        totals[k] = variance + noise[i]
        residuals[k] = y[i] - mean
        _update(h, reads, V, Ph, k, residuals[k], noise[i], totals[k])
    return all_V, Ph, totals, residuals


@kernel
def _back_through_row(
    h: Array,
    reads: Index,
    features: Array,
    row: int,
    Ph: Array,
    residual: float,
    total: float,
    U: Array,
    Nk: Array,
) -> tuple[float, float]:
    """N and r before an observation, from those after it, in place of them.

    Parameters
    ----------
    h, reads : ndarray
        Of `heights`.
    features : ndarray of shape (n, q)
    row : int
        Of the features.
    Ph : ndarray of shape (S,)
    residual, total : float
        v and F.
    U : ndarray of shape (S + 1, S)
        N and, in the last row, r.
    Nk : ndarray of shape (S,)
        ``N P h / F``, written.

    Returns
    -------
    u, D : float
        Entry of ``C⁻¹ y``, and of the diagonal of ``C⁻¹``.
    """
    S = U.shape[1]
    _read_functions(features, row, h)
    precision = 1.0 / total
    u = residual * precision
    D = precision
    for j in range(S):
        gain = 0.0
        for i in range(S):
            gain += U[j, i] * Ph[i]
        Nk[j] = gain * precision
    for j in range(S):
        u -= Ph[j] * precision * U[S, j]
        D += Ph[j] * precision * Nk[j]
    # r + h u,  N - h (N k)ᵀ - (N k) hᵀ + D h hᵀ
    for b in range(len(reads)):
        i = reads[b]
        U[S, i] += h[b] * u
        for j in range(S):
            U[i, j] -= h[b] * Nk[j]
    for b in range(len(reads)):
        i = reads[b]
        for j in range(S):
            U[j, i] -= h[b] * Nk[j]
        for c in range(len(reads)):
            U[i, reads[c]] += h[b] * h[c] * D
    return u, D


@kernel
def _add_slopes(
    cascades: Cascades,
    V: Array,
    U: Array,
    step: float,
    slopes: Array,
    Pr: Array,
) -> None:
    """Add the slopes of one step in rates and frequencies.

    ``rᵀ K m + tr (r rᵀ - N) K P + ½ (r_1² - N_11)`` with the generator K.

    Parameters
    ----------
    cascades : Cascades
    V, U : ndarray of shape (S + 1, S)
        P and m, N and r behind the step.
    step : float
    slopes : ndarray of shape (3, B)
    Pr : ndarray of shape (S,)
        Memory.
    """
    S = V.shape[1]
    for j in range(S):
        total = V[S, j]
        for c in range(S):
            total += V[j, c] * U[S, c]
        Pr[j] = total
    start = 0
    for b in range(len(cascades.orders)):
        p = cascades.orders[b]
        turns = cascades.frequencies[b] > 0.0
        of_rate = 0.0
        of_frequency = 0.0
        for copy in range(2 if turns else 1):
            first = start + copy * p
            for j in range(first, first + p):
                before = 1.0 if j > first else 0.0
                i = max(j - 1, first)
                of_rate += U[S, j] * (before * Pr[i] - Pr[j])
                for c in range(S):
                    of_rate -= U[j, c] * (before * V[i, c] - V[j, c])
            of_rate += 0.5 * (U[S, first] * U[S, first] - U[first, first])
        if turns:
            for j in range(start, start + p):
                i = j + p
                of_frequency += U[S, i] * Pr[j] - U[S, j] * Pr[i]
                for c in range(S):
                    of_frequency -= U[i, c] * V[j, c] - U[j, c] * V[i, c]
        slopes[0, b] += step * of_rate
        slopes[1, b] += step * of_frequency
        start += p * (2 if turns else 1)


@kernel
def smooth_rows(  # noqa: C901
    series: Series,
    y: Array,
    states: Array,
    with_slopes: bool,
    slopes: Array,
    feature_slopes: Array,
    duals: Array,
    precisions: Array,
    adjoints: Array,
) -> None:
    """Go back through filtered rows.

    Other arguments are those of `filter_rows`.

    Parameters
    ----------
    with_slopes : bool
    slopes : ndarray of shape (3, B)
        Of the log density in rates, frequencies and the logarithms of amplitudes, which
        are added.
    feature_slopes : ndarray of shape (n, q)
        Those in the features, written.
    duals, precisions : ndarray of shape (n,)
        ``C⁻¹ y`` and the diagonal of ``C⁻¹``, written.
    adjoints : ndarray of shape (n_segments, S + 1, S)
        N and, in the last row, r at the first row of each segment; written.
    """
    cascades, times, features, _ = series
    n = len(times)
    S = states.shape[2]
    B = len(cascades.orders)
    h, reads = heights(cascades, features.shape[1])
    moments = _room_for_moments()
    U = np.zeros((S + 1, S))
    Nk = np.empty(S)
    Pr = np.empty(S)
    n_segments = (n + _SEGMENT - 1) // _SEGMENT
    for segment in range(n_segments - 1, -1, -1):
        low = segment * _SEGMENT
        high = min(low + _SEGMENT, n)
        all_V, Ph, totals, residuals = _segment(
            series, y, h, reads, states[segment], low, high
        )
        for i in range(high - 1, low - 1, -1):
            k = i - low
            duals[i] = 0.0
            precisions[i] = 0.0
            if totals[k] < np.inf:
                u, D = _back_through_row(
                    h, reads, features, i, Ph[k], residuals[k], totals[k], U, Nk
                )
                duals[i] = u
                precisions[i] = D
                if with_slopes:
                    # u (m + P r) - P (h D - N k)
                    for b in range(len(reads)):
                        j = reads[b]
                        slope = u * all_V[k, S, j] - D * Ph[k, j]
                        for c in range(S):
                            slope += all_V[k, j, c] * (u * U[S, c] + Nk[c])
                        if b < B:
                            slopes[2, b] += h[b] * slope
                        else:
                            feature_slopes[i, b - B] = slope
            if k == 0:
                copy_matrix(U, adjoints[segment])
            if i == 0 or times[i] == times[i - 1]:
                continue
            step = times[i] - times[i - 1]
            if with_slopes:
                _add_slopes(cascades, all_V[k], U, step, slopes, Pr)
            carry(cascades, step, True, U, moments)


@kernel
def posterior_moments(  # noqa: C901, PLR0912, PLR0915
    series: Series,
    y: Array,
    states: Array,
    adjoints: Array,
    points: Array,
    point_features: Array,
    mean: Array,
    variance: Array,
) -> None:
    """Write moments of f at sorted points, given rows that are filtered and smoothed.

    Other arguments are those of `filter_rows` and `smooth_rows`.

    Parameters
    ----------
    points : ndarray of shape (p,)
    point_features : ndarray of shape (p, q)
    mean, variance : ndarray of shape (p,)
    """
    cascades, times, features, noise = series
    n = len(times)
    S = states.shape[2]
    h, reads = heights(cascades, features.shape[1])
    moments = _room_for_moments()
    V = np.empty((S + 1, S))
    all_U = np.zeros((_SEGMENT + 1, S + 1, S))
    U = np.empty((S + 1, S))
    Nk = np.empty(S)
    n_segments = (n + _SEGMENT - 1) // _SEGMENT
    first_point = 0
    while first_point < len(points):
        # the segment of the last row that is not behind the point
        row = np.searchsorted(times, points[first_point], side="right") - 1
        segment = max(row, 0) // _SEGMENT
        low = segment * _SEGMENT
        high = min(low + _SEGMENT, n)
        next_time = times[high] if high < n else np.inf
        all_V, Ph, totals, residuals = _segment(
            series, y, h, reads, states[segment], low, high
        )
        # N and r before each row of the segment, and at the first one behind it
        U[:] = 0.0
        if segment + 1 < n_segments:
            copy_matrix(adjoints[segment + 1], U)
        copy_matrix(U, all_U[high - low])
        for i in range(high - 1, low - 1, -1):
            k = i - low
            if i + 1 < n and times[i + 1] > times[i]:
                step = times[i + 1] - times[i]
                carry(cascades, step, True, U, moments)
            if totals[k] < np.inf:
                _back_through_row(
                    h, reads, features, i, Ph[k], residuals[k], totals[k], U, Nk
                )
            copy_matrix(U, all_U[k])
        while first_point < len(points) and points[first_point] < next_time:
            point = points[first_point]
            i = low - 1 + np.searchsorted(times[low:high], point, side="right")
            if i < 0:
                V[:] = 0.0
                stationary(cascades, V)
            else:
                k = i - low
                copy_matrix(all_V[k], V)
                if totals[k] < np.inf:
                    _update(h, reads, V, Ph, k, residuals[k], noise[i], totals[k])
                if point > times[i]:
                    carry(cascades, point - times[i], False, V, moments)
            copy_matrix(all_U[i + 1 - low], U)
            if i + 1 < n and times[i + 1] > point:
                step = times[i + 1] - point
                carry(cascades, step, True, U, moments)
            value, level = _observe(
                h, reads, point_features, first_point, V, Ph, _SEGMENT
            )
            # m + P r and P - P N P
            for j in range(S):
                level += Ph[_SEGMENT, j] * U[S, j]
                for c in range(S):
                    value -= Ph[_SEGMENT, j] * U[j, c] * Ph[_SEGMENT, c]
            mean[first_point] = level
            variance[first_point] = max(value, 0.0)
            first_point += 1


# ---- Products with the inverse of the covariance ------------------------------------


@kernel
def move(
    cascades: Cascades,
    step: float,
    M: Array,
    stop: int,
    transposed: bool,
) -> None:
    """``A v``, or ``Aᵀ v``, of the first rows of M (k, S), up to `stop`, in place."""
    start = 0
    for b in range(len(cascades.orders)):
        p, turns, x, decay, cosine, sine = _step_of(cascades, b, step)
        for row in range(stop):
            _advance(p, x, decay, turns, cosine, sine, transposed, M, row, start)
        start += 2 * p if turns else p


@kernel
def solve_rows(  # noqa: C901, PLR0912
    series: Series,
    duals: Array,
) -> None:
    """Replace columns of values by ``C⁻¹`` times them.

    Other arguments are those of `filter_rows`.

    Parameters
    ----------
    duals : ndarray of shape (n, k)
        Overwritten.
    """
    cascades, times, features, noise = series
    n, k = duals.shape
    S = features.shape[1]
    h, reads = heights(cascades, S)
    for b in range(len(cascades.orders)):
        S += cascades.orders[b] * (2 if cascades.frequencies[b] > 0.0 else 1)
    moments = _room_for_moments()
    V = np.zeros((S + 1, S))
    stationary(cascades, V)
    Ph = np.zeros((n, S))
    totals = np.full(n, np.inf)
    M = np.zeros((k, S))
    for i in range(n):
        if i > 0 and times[i] > times[i - 1]:
            step = times[i] - times[i - 1]
            carry(cascades, step, False, V, moments)
            move(cascades, step, M, k, False)
        if noise[i] == np.inf:
            for c in range(k):
                duals[i, c] = 0.0
            continue
        variance, _ = _observe(h, reads, features, i, V, Ph, i)
        totals[i] = variance + noise[i]
        _update(h, reads, V, Ph, i, 0.0, noise[i], totals[i])
        precision = 1.0 / totals[i]
        for c in range(k):
            level = duals[i, c]
            for b in range(len(reads)):
                level -= h[b] * M[c, reads[b]]
            level *= precision
            duals[i, c] = level
            for j in range(S):
                M[c, j] += Ph[i, j] * level
    M[:] = 0.0
    for i in range(n - 1, -1, -1):
        if totals[i] < np.inf:
            _read_functions(features, i, h)
            precision = 1.0 / totals[i]
            for c in range(k):
                u = duals[i, c]
                for j in range(S):
                    u -= Ph[i, j] * precision * M[c, j]
                duals[i, c] = u
                for b in range(len(reads)):
                    M[c, reads[b]] += h[b] * u
        if i > 0 and times[i] > times[i - 1]:
            step = times[i] - times[i - 1]
            move(cascades, step, M, k, True)


# ---- Rows that are filtered and smoothed ---------------------------------------------


class Series(NamedTuple):
    """Noisy rows of a process in the order of time.

    Attributes
    ----------
    cascades : Cascades
    times : ndarray of shape (n,)
        Sorted; several rows may be at one time.
    features : ndarray of shape (n, q)
        Functions with weights N(0, I) that are added to the process.
    noise : ndarray of shape (n,)
        Variances; infinite where there is no value.
    """

    cascades: Cascades
    times: Array
    features: Array
    noise: Array

    @property
    def n_states(self) -> int:
        """Of all cascades, and one for each function."""
        return self.cascades.n_states + self.features.shape[1]

    def filtered(self, y: Array, earlier: Filtered | None = None) -> Filtered:
        """Filter values; O(n S²) for S states.

        Parameters
        ----------
        y : ndarray of shape (n,)
        earlier : Filtered, optional
            The first of these rows, if they are filtered already.
        """
        S = self.n_states
        n_segments = -(-len(self.times) // _SEGMENT)
        states = np.empty((n_segments, S + 1, S))
        sums = np.zeros((n_segments + 1, 2))
        first = 0
        if earlier is not None:
            # the last segment may go on
            first = len(earlier.states) - 1
            states[: first + 1] = earlier.states
            sums[: first + 1] = earlier.sums[: first + 1]
        filter_rows(
            self,
            y,
            first,
            states,
            sums,
        )
        return Filtered(self, y, states, sums)

    def solve(self, values: Array) -> Array:
        """``C⁻¹`` times columns of values (n, k); zero where the noise is infinite."""
        duals = np.array(values, dtype=np.float64, order="C")
        solve_rows(self, duals)
        return duals


class Filtered(NamedTuple):
    """Rows that are filtered.

    Attributes
    ----------
    series : Series
    y : ndarray of shape (n,)
    states : ndarray of shape (n_segments, S + 1, S)
        Covariance and mean of the states before the first row of each segment.
    sums : ndarray of shape (n_segments + 1, 2)
        ``Σ v² / F`` and ``Σ log F`` of the errors v of predictions from earlier rows
        and their variances F, before each segment, and of all rows.
    """

    series: Series
    y: Array
    states: Array
    sums: Array

    @property
    def value(self) -> float:
        """``-½ (log det C + yᵀ C⁻¹ y)``."""
        return -0.5 * float(np.sum(self.sums[-1]))

    def smoothed(self, with_slopes: bool = False) -> Smoothed:
        """Go back through the rows; O(n S²) for S states."""
        series = self.series
        n, q = series.features.shape
        slopes = np.zeros((3, len(series.cascades.orders)))
        feature_slopes = np.zeros((n if with_slopes else 0, q))
        duals = np.empty(n)
        precisions = np.empty(n)
        adjoints = np.empty_like(self.states)
        smooth_rows(
            series,
            self.y,
            self.states,
            with_slopes,
            slopes,
            feature_slopes,
            duals,
            precisions,
            adjoints,
        )
        return Smoothed(self, duals, precisions, adjoints, slopes, feature_slopes)


class Smoothed(NamedTuple):
    """Rows that are smoothed.

    Attributes
    ----------
    filtered : Filtered
    duals, precisions : ndarray of shape (n,)
        ``C⁻¹ y``, and the diagonal of ``C⁻¹``.
    adjoints : ndarray of shape (n_segments, S + 1, S)
        N and r of the states before the first row of each segment.
    slopes : ndarray of shape (3, B)
        Of `Filtered.value` in rates, frequencies and logarithms of amplitudes.
    feature_slopes : ndarray of shape (n, q)
    """

    filtered: Filtered
    duals: Array
    precisions: Array
    adjoints: Array
    slopes: Array
    feature_slopes: Array

    def moments(self, times: Array, features: Array) -> tuple[Array, Array]:
        """Mean and variance of f at some times, in any order, (p,) each."""
        filtered = self.filtered
        series = filtered.series
        order = np.argsort(times, kind="stable")
        mean = np.empty(len(times))
        variance = np.empty(len(times))
        posterior_moments(
            series,
            filtered.y,
            filtered.states,
            self.adjoints,
            times[order],
            features[order],
            mean,
            variance,
        )
        place = np.argsort(order)
        return mean[place], variance[place]
