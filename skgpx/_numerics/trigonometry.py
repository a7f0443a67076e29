"""Sums of cosines and sines at many points, in loops that a compiler vectorises.

Angles are in turns (one turn is 2π): the range reduction is then exact. Rows come
transposed, shape (d, n), and every inner loop runs over the rows, so that it fills
vector registers without changing the order in which any sum is taken: the value at a
row does not depend on the rows beside it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics._jit import inlined, kernel

Array = NDArray[np.float64]


@kernel
def cos_turns(t: float) -> float:
    """``cos(2π t)`` to 3e-16 (absolute) after rounding t to a double."""
    # with h = |t - rint(t)| - 1/4 in [-1/4, 1/4], cos(2π t) = -sin(2π h)
    turn = t - np.rint(t)
    h = abs(turn) - 0.25
    return -h * _sine_series(h * h)


@kernel
def sin_turns(t: float) -> float:
    """``sin(2π t)`` to 3e-16 (absolute)."""
    # = sign(turn) cos(2π h)
    turn = t - np.rint(t)
    h = abs(turn) - 0.25
    return np.copysign(_cosine_series(h * h), turn)


@kernel
def _sine_series(u: float) -> float:
    """``sin(2π h) / h`` at u = h², Chebyshev series on [0, 1/16], error 2e-16."""
    u2 = u * u
    u4 = u2 * u2
    low = (6.2831853071795858 - u * 41.341702240398287) + (
        81.605249275579764 - u * 76.705859689628673
    ) * u2
    high = (42.058689953950939 - u * 15.094506140734291) + (
        3.8173656334691352 - u * 0.69250670107207173
    ) * u2
    return low + high * u4


@kernel
def _cosine_series(u: float) -> float:
    """``cos(2π h)`` at u = h², Chebyshev series on [0, 1/16], error 4e-18."""
    u2 = u * u
    u4 = u2 * u2
    low = (1.0 - u * 19.739208802178707) + (
        64.939394022663952 - u * 85.456817205980614
    ) * u2
    high = (60.244641313160411 - u * 26.426254066690256) + (
        7.9034624920850971 - u * 1.7132184107005933
    ) * u2
    return low + (high + 0.27194584949998128 * u4) * u4


@kernel
def fourier_rows(
    points: Array, frequencies: Array, amplitudes: Array, out: Array
) -> None:
    """Write ``a cos`` and ``a sin`` of the phases, one feature a row.

    Parameters
    ----------
    points : ndarray of shape (d, n), C-contiguous
        Inputs, transposed.
    frequencies : ndarray of shape (R, d)
        In turns per unit of the inputs.
    amplitudes : ndarray of shape (R,)
        Factors ``a``.
    out : ndarray of shape (2 R, n), C-contiguous
        Out: cosines, then sines; float64, or float32 to halve the memory.

    Notes
    -----
    About 0.4 ns for a pair (AVX-512) plus 0.05 ns for each input.
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
def wave_sum(
    points: Array, frequencies: Array, amplitudes: Array, phases: Array, out: Array
) -> None:
    """Add ``Σ_r a_r cos(2π (ω_r·x - φ_r))`` to out (n,), for points (d, n).

    One cosine for each frequency: half the work of a cosine and a sine.
    """
    n = points.shape[1]
    phase = np.empty(n)
    for r in range(len(frequencies)):
        _project(frequencies[r], points, -phases[r], phase)
        a = amplitudes[r]
        for i in range(n):
            turn = phase[i] - np.rint(phase[i])
            h = abs(turn) - 0.25
            out[i] -= a * h * _sine_series(h * h)


@inlined
def _project(frequency: Array, points: Array, offset: float, phase: Array) -> None:
    """phase = offset + ω·x, four inputs a pass."""
    d, n = points.shape
    k = d % 4
    phase[:] = offset
    for q in range(k):
        w, x = frequency[q], points[q]
        for i in range(n):
            phase[i] += w * x[i]
    for q in range(k, d, 4):
        w0, w1 = frequency[q], frequency[q + 1]
        w2, w3 = frequency[q + 2], frequency[q + 3]
        x0, x1, x2, x3 = points[q], points[q + 1], points[q + 2], points[q + 3]
        for i in range(n):
            phase[i] += (w0 * x0[i] + w1 * x1[i]) + (w2 * x2[i] + w3 * x3[i])


@kernel
def fourier_pairs(
    points: Array,
    frequencies: Array,
    amplitudes: Array,
    weights: Array,
    index: NDArray[np.intp],
    value: Array,
    gradient: Array,
) -> None:
    """Value and gradient of one function at each point.

    Parameters
    ----------
    points : ndarray of shape (p, d)
        Inputs, one a row.
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
    gradient : ndarray of shape (p, d)
        Added to.
    """
    d, R = frequencies.shape
    terms, slopes, ones = np.empty(R), np.empty(R), np.ones(R)
    for p in range(len(points)):
        _project(points[p], frequencies, 0.0, terms)
        a, b = weights[index[p], :R], weights[index[p], R:]
        for r in range(R):
            turn = terms[r] - np.rint(terms[r])
            h = abs(turn) - 0.25
            cosine = -amplitudes[r] * h * _sine_series(h * h)
            sine = np.copysign(amplitudes[r] * _cosine_series(h * h), turn)
            terms[r] = a[r] * cosine + b[r] * sine
            slopes[r] = 6.283185307179586 * (b[r] * cosine - a[r] * sine)
        value[p] += np.dot(terms, ones)
        for k in range(d):
            gradient[p, k] += np.dot(frequencies[k], slopes)
