"""Sums of cosines and sines at many points, in loops that a compiler vectorises.

Angles are in turns (one turn is 2π): the range reduction is then exact. Inner loops
run over the rows, which fills vector registers without changing the order of summation
within a row; blocks of rows are always full. So the value at a row does not depend on
the other rows.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics._jit import inlined, kernel, reduction
from skgpx._numerics.elementary import copy

Array = NDArray[np.float64]

# Rows (or pairs of a point and a function) processed at a time.
_BLOCK = 256
_PAIRS = 32


@kernel
def cos_turns(t: float) -> float:
    """``cos(2π t)`` to 4e-16 (absolute), for the double t."""
    # with h = |t - rint(t)| - 1/4 in [-1/4, 1/4], cos(2π t) = -sin(2π h)
    turn = t - np.rint(t)
    h = abs(turn) - 0.25
    return -h * _sine_series(h * h)


@kernel
def _sine_series(u: float) -> float:
    """``sin(2π h) / h`` at u = h²: Chebyshev on [0, 1/16], h times the error 2e-16."""
    return _four_sine_series(u, u, u, u)[0]


@inlined
def _four_sine_series(
    t: float, u: float, v: float, w: float
) -> tuple[float, float, float, float]:
    """`_sine_series` of four vectors at once.

    Coefficients and intermediate values do not fit into sixteen registers: each
    coefficient is then read for every vector, unless the vectors take turns.
    """
    a, b = 0.69250670107207173, 3.8173656334691352
    p, q, r, s = b - t * a, b - u * a, b - v * a, b - w * a
    c = -15.094506140734291
    p, q, r, s = c + t * p, c + u * q, c + v * r, c + w * s
    c = 42.058689953950939
    p, q, r, s = c + t * p, c + u * q, c + v * r, c + w * s
    c = -76.705859689628673
    p, q, r, s = c + t * p, c + u * q, c + v * r, c + w * s
    c = 81.605249275579764
    p, q, r, s = c + t * p, c + u * q, c + v * r, c + w * s
    c = -41.341702240398287
    p, q, r, s = c + t * p, c + u * q, c + v * r, c + w * s
    c = 6.2831853071795858
    p, q, r, s = c + t * p, c + u * q, c + v * r, c + w * s
    return p, q, r, s


@kernel
def _cosine_series(u: float) -> float:
    """``cos(2π h)`` at u = h²: Chebyshev on [0, 1/16], error 2e-15."""
    p = 7.896555735851554 - u * 1.6452233497893093
    p = -26.42588874334368 + u * p
    p = 60.244630608173755 + u * p
    p = -85.456817035632866 + u * p
    p = 64.939394021332717 + u * p
    p = -19.739208802174744 + u * p
    return 0.99999999999999806 + u * p


@kernel
def cosines_and_sines(
    points: Array, frequencies: Array, amplitudes: Array, out: Array
) -> None:
    """Write ``a cos`` and ``a sin`` of the phases, one feature per row.

    Parameters
    ----------
    points : ndarray of shape (d, n), C-contiguous
        Inputs, transposed.
    frequencies : ndarray of shape (R, d)
        In turns per unit of the inputs.
    amplitudes : ndarray of shape (R,)
        Factors ``a``.
    out : ndarray of shape (2 R, n), C-contiguous
        Out: cosines, then sines.

    Notes
    -----
    About 1 ns per pair and 0.05 ns per input (AVX-512 in two halves).
    """
    R, n = len(frequencies), points.shape[1]
    phase = np.empty(n)
    for r in range(R):
        _project(frequencies[r], points, 0.0, phase)
        a, cosine, sine = amplitudes[r], out[r], out[R + r]
        for i in range(n):
            turn = phase[i] - np.rint(phase[i])
            h = abs(turn) - 0.25
            cosine[i] = -a * h * _sine_series(h * h)
            sine[i] = np.copysign(a * _cosine_series(h * h), turn)


@kernel
def shifted_cosines(
    X: Array, frequencies: Array, amplitudes: Array, phases: Array, out: Array
) -> None:
    """Add ``Σ_r a_r cos(2π (ω_r·x - φ_r))`` at the rows of X (n, d) to out (n,).

    One cosine for each frequency: half the work of a cosine and a sine.
    """
    n, d = X.shape
    points, total = np.zeros((d, _BLOCK)), np.empty(_BLOCK)
    R, turns = -(-len(frequencies) // 4) * 4, np.empty((4, _BLOCK))
    # four waves at a time: the last ones may have amplitude zero
    waves, heights, shifts = np.zeros((R, d)), np.zeros(R), np.zeros(R)
    for q in range(len(frequencies)):
        heights[q], shifts[q] = amplitudes[q], phases[q]
        for k in range(d):
            waves[q, k] = frequencies[q, k]
    for first in range(0, n, _BLOCK):
        size = min(_BLOCK, n - first)
        for i in range(size):
            for k in range(d):
                points[k, i] = X[first + i, k]
        total[:] = 0.0
        for r in range(0, R, 4):
            _project_four(waves[r : r + 4], points, shifts[r : r + 4], turns)
            _subtract_four(turns, heights[r : r + 4], total)
        for i in range(size):
            out[first + i] -= total[i]


@inlined
def _project_four(
    frequencies: Array, points: Array, phases: Array, turns: Array
) -> None:
    """turns[q] = ω_q·x - φ_q for four waves, up to two inputs per pass."""
    d = len(points)
    f, g, h, k = frequencies[0], frequencies[1], frequencies[2], frequencies[3]
    t0, t1, t2, t3 = turns[0], turns[1], turns[2], turns[3]
    p, q, r, s = phases[0], phases[1], phases[2], phases[3]
    x = points[0]
    if d % 2 == 1:
        f0, g0, h0, k0 = f[0], g[0], h[0], k[0]
        for i in range(_BLOCK):
            t0[i] = f0 * x[i] - p
            t1[i] = g0 * x[i] - q
            t2[i] = h0 * x[i] - r
            t3[i] = k0 * x[i] - s
    else:
        y = points[1]
        f0, g0, h0, k0 = f[0], g[0], h[0], k[0]
        f1, g1, h1, k1 = f[1], g[1], h[1], k[1]
        for i in range(_BLOCK):
            t0[i] = f0 * x[i] + (f1 * y[i] - p)
            t1[i] = g0 * x[i] + (g1 * y[i] - q)
            t2[i] = h0 * x[i] + (h1 * y[i] - r)
            t3[i] = k0 * x[i] + (k1 * y[i] - s)
    for c in range(2 - d % 2, d, 2):
        x, y = points[c], points[c + 1]
        f0, g0, h0, k0 = f[c], g[c], h[c], k[c]
        f1, g1, h1, k1 = f[c + 1], g[c + 1], h[c + 1], k[c + 1]
        for i in range(_BLOCK):
            t0[i] += f0 * x[i] + f1 * y[i]
            t1[i] += g0 * x[i] + g1 * y[i]
            t2[i] += h0 * x[i] + h1 * y[i]
            t3[i] += k0 * x[i] + k1 * y[i]


@inlined
def _subtract_four(turns: Array, amplitudes: Array, total: Array) -> None:
    """Subtract four waves from total."""
    t0, t1, t2, t3 = turns[0], turns[1], turns[2], turns[3]
    a0, a1, a2, a3 = amplitudes[0], amplitudes[1], amplitudes[2], amplitudes[3]
    for i in range(_BLOCK):
        h0 = abs(t0[i] - np.rint(t0[i])) - 0.25
        h1 = abs(t1[i] - np.rint(t1[i])) - 0.25
        h2 = abs(t2[i] - np.rint(t2[i])) - 0.25
        h3 = abs(t3[i] - np.rint(t3[i])) - 0.25
        p, q, r, s = _four_sine_series(h0 * h0, h1 * h1, h2 * h2, h3 * h3)
        total[i] += (a0 * h0 * p + a1 * h1 * q) + (a2 * h2 * r + a3 * h3 * s)


@inlined
def _project(frequency: Array, points: Array, offset: float, phase: Array) -> None:
    """phase = offset + ω·x, up to four inputs per pass."""
    d, n = points.shape
    k = (d - 1) % 4 + 1
    w0, x0 = frequency[0], points[0]
    if k == 1:
        for i in range(n):
            phase[i] = offset + w0 * x0[i]
    elif k == 2:
        w1, x1 = frequency[1], points[1]
        for i in range(n):
            phase[i] = offset + w0 * x0[i] + w1 * x1[i]
    elif k == 3:
        w1, w2, x1, x2 = frequency[1], frequency[2], points[1], points[2]
        for i in range(n):
            phase[i] = offset + w0 * x0[i] + w1 * x1[i] + w2 * x2[i]
    else:
        w1, w2, w3 = frequency[1], frequency[2], frequency[3]
        x1, x2, x3 = points[1], points[2], points[3]
        for i in range(n):
            phase[i] = (offset + w0 * x0[i] + w1 * x1[i]) + (w2 * x2[i] + w3 * x3[i])
    for q in range(k, d, 4):
        w0, w1 = frequency[q], frequency[q + 1]
        w2, w3 = frequency[q + 2], frequency[q + 3]
        x0, x1, x2, x3 = points[q], points[q + 1], points[q + 2], points[q + 3]
        for i in range(n):
            phase[i] += (w0 * x0[i] + w1 * x1[i]) + (w2 * x2[i] + w3 * x3[i])


@kernel
def cosines_and_sines_at_pairs(
    points: Array,
    frequencies: Array,
    amplitudes: Array,
    weights: Array,
    index: NDArray[np.intp],
    value: Array,
    gradient: Array,
) -> None:
    """Add value and gradient of one function at each point.

    Parameters
    ----------
    points : ndarray of shape (p, d), C-contiguous
        Inputs, one per row.
    frequencies : ndarray of shape (d, R), C-contiguous
        In turns.
    amplitudes : ndarray of shape (R,)
        Factors of cosine and sine.
    weights : ndarray of shape (f, 2 R), C-contiguous
        Coefficients of cosines, then sines, of f functions.
    index : ndarray of shape (p,)
        Which function goes with which point.
    value : ndarray of shape (p,)
        Added to.
    gradient : ndarray of shape (p, d), C-contiguous
        Added to.
    """
    d, R = frequencies.shape
    terms, slopes = np.empty((_PAIRS, R)), np.empty((_PAIRS, R))
    block, pulled = np.zeros((_PAIRS, d)), np.empty((_PAIRS, d))
    total, ones = np.empty(_PAIRS), np.ones(R)
    for first in range(0, len(points), _PAIRS):
        size = min(_PAIRS, len(points) - first)
        copy(points[first : first + size], block[:size])
        np.dot(block, frequencies, terms)
        for p in range(size):
            row = weights[index[first + p]]
            _wave_terms(terms[p], slopes[p], amplitudes, row[:R], row[R:])
        slopes[size:] = 0.0
        np.dot(terms, ones, total)
        np.dot(slopes, frequencies.T, pulled)
        for p in range(size):
            value[first + p] += total[p]
            for k in range(d):
                gradient[first + p, k] += pulled[p, k]


@reduction
def shifted_cosines_at_pairs(
    points: Array,
    frequencies: Array,
    owners: NDArray[np.intp],
    amplitudes: Array,
    phases: Array,
    index: NDArray[np.intp],
    value: Array,
) -> None:
    """Add ``Σ_r a_r cos(2π (ω_r·x - φ_r))``, one function at each point.

    Parameters
    ----------
    points : ndarray of shape (p, d), C-contiguous
        Inputs, one per row; d is a multiple of 4: pad inputs and frequencies by zeros.
    frequencies : ndarray of shape (g, d, R), C-contiguous
        Sets of frequencies, in turns.
    owners : ndarray of shape (f,)
        Which set has the frequencies of each function.
    amplitudes, phases : ndarray of shape (f, R), C-contiguous
        Of the waves of f functions, phases in turns.
    index : ndarray of shape (p,)
        Which function goes with which point.
    value : ndarray of shape (p,)
        Added to.

    Notes
    -----
    0.5 ns per wave (AVX-512 in two halves): no longer than it takes to read its
    amplitude and phase from the third-level cache.
    """
    _, d, R = frequencies.shape
    rest = np.empty(R)
    for p in range(len(points)):
        x0, x1, x2, x3 = points[p, 0], points[p, 1], points[p, 2], points[p, 3]
        w = frequencies[owners[index[p]]]
        w0, w1, w2, w3 = w[0], w[1], w[2], w[3]
        a, shift = amplitudes[index[p]], phases[index[p]]
        if d > 4:
            _subtract_turns(shift, points[p, 4:], w[4:], rest)
            shift = rest
        total = 0.0
        for r in range(R):
            phase = (w0[r] * x0 + w1[r] * x1) + (w2[r] * x2 + w3[r] * x3) - shift[r]
            turn = phase - np.rint(phase)
            h = abs(turn) - 0.25
            total -= a[r] * h * _sine_series(h * h)
        value[p] += total


@inlined
def _subtract_turns(shift: Array, x: Array, frequencies: Array, out: Array) -> None:
    """``out = shift - ω·x``, four inputs per pass."""
    copy(shift, out)
    for q in range(0, len(x), 4):
        w0, w1 = frequencies[q], frequencies[q + 1]
        w2, w3 = frequencies[q + 2], frequencies[q + 3]
        x0, x1, x2, x3 = x[q], x[q + 1], x[q + 2], x[q + 3]
        for r in range(out.size):
            out[r] -= (w0[r] * x0 + w1[r] * x1) + (w2[r] * x2 + w3[r] * x3)


@inlined
def _wave_terms(
    phase: Array, slope: Array, amplitudes: Array, a: Array, b: Array
) -> None:
    """Overwrite phases by a cos + b sin, and write its derivative in the phase."""
    for r in range(phase.size):
        turn = phase[r] - np.rint(phase[r])
        h = abs(turn) - 0.25
        cosine = -amplitudes[r] * h * _sine_series(h * h)
        sine = np.copysign(amplitudes[r] * _cosine_series(h * h), turn)
        phase[r] = a[r] * cosine + b[r] * sine
        slope[r] = 6.283185307179586 * (b[r] * cosine - a[r] * sine)
