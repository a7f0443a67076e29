"""Density of few rows, with its gradient, in one compiled call.

Under a constant times a kernel of the distance, possibly plus linear functions. Below a
few hundred rows the calls of LAPACK and of Python take longer than the arithmetic.

Indices are unsigned, and so are the numbers that are added to them: a loop whose index
could be negative, and would then count from the end, is not vectorised.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics._jit import reduction
from skgpx._numerics.radial import profile_and_slope

Array = NDArray[np.float64]

_ZERO, _ONE, _TWO, _THREE, _FOUR = np.arange(5, dtype=np.uint64)


class DensityRows(NamedTuple):
    """Rows, and the form of their covariance.

    Attributes
    ----------
    code : int
        Kernel: one of the constants of ``radial``.
    points : ndarray of shape (d, n) or (2 d, n)
        Inputs; then, if there are linear functions, inputs less their centre.
    n_lines : int
        Number of linear functions, 0 or d.
    targets : ndarray of shape (c, n)
    noise_factors : ndarray of shape (n,)
        Noise variance of each row, in units of that of the likelihood.
    """

    code: int
    points: Array
    n_lines: int
    targets: Array
    noise_factors: Array


@reduction
def log_densities(  # noqa: C901, PLR0912, PLR0915
    rows: DensityRows,
    scales: Array,
    with_slopes: bool,
    values: Array,
    slopes: Array,
) -> None:
    """Write the log densities of the rows under several covariances, and their slopes.

    ``C_ij = a k(x_i, x_j) + Σ_q s_q² l_iq l_jq`` plus the noise on the diagonal. The
    values are ``-½ (c log det C + Σ yᵀC⁻¹y)``, without the constant; NaN where C is not
    positive definite. This is one function on purpose, see ``langevin_loop``.

    Parameters
    ----------
    rows : DensityRows
    scales : ndarray of shape (m, 2 + d) or (m, 2 + 2 d)
        Of each covariance: a, the inverse squares of the lengthscales, the squares of
        the slopes, and the noise variance.
    with_slopes : bool
    values : ndarray of shape (m,)
    slopes : ndarray of shape (m, 2 + d) or (m, 2 + 2 d)
        In the logarithms of a, of the lengthscales, of the slopes and of the noise
        variance. Not written where the value is NaN.

    Notes
    -----
    O(n³): n³ / 3 multiplications and additions, as many again twice with slopes.
    """
    points = rows.points
    noise_factors = rows.noise_factors
    n_inputs = np.uint64(points.shape[0])
    n = np.uint64(points.shape[1])
    d = np.uint64(points.shape[0] - rows.n_lines)
    c = np.uint64(len(rows.targets))
    W = np.empty((n, n))
    # entry (i, j) is at stride i + j, from j = i on, with three zeros after each row
    stride = n + c + _THREE
    A = np.empty((n + _FOUR) * (stride + _ONE))
    alpha = np.empty((c, n))
    k = np.empty(n)
    row = np.empty(n + c + n + _FOUR)
    factors = np.empty(n + _FOUR)
    for s in range(len(scales)):
        scale = scales[s]
        slope = slopes[s]
        amplitude = scale[0]
        noise_variance = scale[-1]

        # 1 the rows [C, y, I], each from its diagonal entry on
        for i in range(len(A)):
            A[i] = 0.0
        for i in range(n):
            base = i * stride
            for j in range(i, n):
                k[j] = 0.0
            for q in range(d):
                z = points[q, i]
                inverse_square = scale[_ONE + q]
                for j in range(i, n):
                    difference = points[q, j] - z
                    k[j] += inverse_square * difference * difference
            profile_and_slope(rows.code, k[i:], W[i, i:])
            for j in range(i, n):
                A[base + j] = amplitude * k[j]
            for q in range(d, n_inputs):
                z = scale[_ONE + q] * points[q, i]
                for j in range(i, n):
                    A[base + j] += z * points[q, j]
            A[base + i] += noise_variance * noise_factors[i]
            base += n
            for t in range(c):
                A[base + t] = rows.targets[t, i]
            A[base + c + i] = 1.0

        # 2 elimination, C = UᵀU: they become [U, U⁻ᵀy, U⁻ᵀ]. Row i loses multiples of
        #   the rows above it, four at a time; factors beyond row i are zero
        total = 0.0
        for i in range(n):
            base = i * stride
            for p in range(i):
                factors[p] = A[p * stride + i]
            for p in range(i, i + _FOUR):
                factors[p] = 0.0
            for j in range(i, n + c + i + _FOUR):
                row[j] = A[base + j]
            stop = n + c
            for p in range(_ZERO, i, _FOUR):
                if with_slopes:
                    stop = n + c + p + _FOUR
                f0 = factors[p]
                f1 = factors[p + _ONE]
                f2 = factors[p + _TWO]
                f3 = factors[p + _THREE]
                b0 = p * stride
                b1 = b0 + stride
                b2 = b1 + stride
                b3 = b2 + stride
                for j in range(i, stop):
                    first = f0 * A[b0 + j] + f1 * A[b1 + j]
                    second = f2 * A[b2 + j] + f3 * A[b3 + j]
                    row[j] -= first + second
            square = row[i]
            if not square > 0.0:
                total = np.nan
                break
            root = 1.0 / np.sqrt(square)
            for j in range(i, n + c + i + _ONE):
                A[base + j] = root * row[j]
            total += c * np.log(square)
            for t in range(c):
                white = A[base + n + t]
                total += white * white
        values[s] = -0.5 * total
        if not with_slopes or total != total:
            continue

        # 3 α = C⁻¹y, a sum over the rows of U⁻ᵀ
        for t in range(c):
            for j in range(n):
                alpha[t, j] = 0.0
            for p in range(n):
                base = p * stride + n + c
                white = A[p * stride + n + t]
                for j in range(p + _ONE):
                    alpha[t, j] += white * A[base + j]

        # 4 row i of α αᵀ - c C⁻¹, which is twice ∂ log p / ∂C
        for q in range(len(slope)):
            slope[q] = 0.0
        for i in range(n):
            for j in range(i, n):
                k[j] = 0.0
            for t in range(c):
                z = alpha[t, i]
                for j in range(i, n):
                    k[j] += z * alpha[t, j]
            block = i - i % _FOUR
            for p in range(block, n + _FOUR):
                factors[p] = 0.0
            for p in range(i, n):
                factors[p] = c * A[p * stride + n + c + i]
            for p in range(block, n, _FOUR):
                f0 = factors[p]
                f1 = factors[p + _ONE]
                f2 = factors[p + _TWO]
                f3 = factors[p + _THREE]
                b0 = p * stride + n + c
                b1 = b0 + stride
                b2 = b1 + stride
                b3 = b2 + stride
                stop = min(p + _FOUR, n)
                for j in range(i, stop):
                    first = f0 * A[b0 + j] + f1 * A[b1 + j]
                    second = f2 * A[b2 + j] + f3 * A[b3 + j]
                    k[j] -= first + second
            # the pullbacks of noise, linear functions and lengthscales, where entries
            # beside the diagonal count twice
            slope[-1] += 0.5 * noise_variance * k[i] * noise_factors[i]
            for q in range(d, n_inputs):
                z = points[q, i]
                product = -0.5 * k[i] * z
                for j in range(i, n):
                    product += k[j] * points[q, j]
                slope[_ONE + q] += 2.0 * product * scale[_ONE + q] * z
            for j in range(i, n):
                k[j] *= W[i, j]
            for q in range(d):
                z = points[q, i]
                product = 0.0
                for j in range(i, n):
                    difference = points[q, j] - z
                    product += k[j] * difference * difference
                slope[_ONE + q] += amplitude * scale[_ONE + q] * product
        # of the amplitude, by Σ_ij ∂ log p / ∂C_ij C_ij = ½ (yᵀC⁻¹y - c n)
        slope[0] = -slope[-1]
        for i in range(n):
            slope[0] -= 0.5 * c
            for t in range(c):
                white = A[i * stride + n + t]
                slope[0] += 0.5 * white * white
        for q in range(d, n_inputs):
            slope[0] -= 0.5 * slope[_ONE + q]
