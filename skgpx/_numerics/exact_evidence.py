"""Density of few rows, with its gradient, in one compiled call.

Under sums of products of kernels of the distance and of additive kernels, possibly plus
linear functions. Below a few hundred rows the calls of LAPACK and of Python take longer
than the arithmetic.

Indices are unsigned, and so are the numbers that are added to them: a loop whose index
could be negative, and would then count from the end, is not vectorised.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics._jit import inlined, reduction
from skgpx._numerics.additive import additive_row
from skgpx._numerics.radial import CATEGORY, CYCLE, profile_and_slope
from skgpx._types import Array, Index, Mask

_ZERO, _ONE, _TWO, _THREE, _FOUR = np.arange(5, dtype=np.uint64)


class DensityRows(NamedTuple):
    """Rows, and the form of their covariance.

    Attributes
    ----------
    codes : ndarray of int of shape (f,)
        Kernel of each factor: one of the constants of ``radial``.
    first_amplitudes, first_factors : ndarray of uint64 of shape (g + 1,)
        Of each term the position of its first amplitude and of its first factor; and
        the number of amplitudes and of factors.
    is_additive : ndarray of bool of shape (g,)
        Whether a term has an amplitude for each order of sums over subsets of its
        factors, of one input each; otherwise it is a product with one amplitude.
    first_inputs : ndarray of uint64 of shape (f + 1,)
        Position of the first input of each factor, and the number of inputs.
    kinds : ndarray of int of shape (p,)
        Of each input: one of the constants of ``radial``.
    period_slots : ndarray of uint64 of shape (p,)
        Position of the period of each cycle in the scales; zero of other inputs.
    points : ndarray of shape (v, p + l, n)
        Inputs of the factors; then inputs of the linear functions less their centre.
        Covariance s has those at ``s % v``, and likewise the next ones.
    n_lines : int
        Number l of linear functions.
    targets : ndarray of shape (v, c, n)
    noise_factors : ndarray of shape (v, n)
        Noise variance of each row, in units of that of the likelihood.
    n_given : int
        Number of the first rows that are given: the density is that of the others.
    """

    codes: Index
    first_amplitudes: NDArray[np.uint64]
    first_factors: NDArray[np.uint64]
    is_additive: Mask
    first_inputs: NDArray[np.uint64]
    kinds: Index
    period_slots: NDArray[np.uint64]
    points: Array
    n_lines: int
    targets: Array
    noise_factors: Array
    n_given: int


@inlined
def _subtract_four(
    b0: int,
    stride: int,
    A: Array,
    p: int,
    factors: Array,
    next_factors: Array,
    first: int,
    stop: int,
    row: Array,
    next_row: Array,
) -> None:
    """Subtract multiples of four rows of A, the first one at b0, from two rows."""
    f0 = factors[p]
    f1 = factors[p + _ONE]
    f2 = factors[p + _TWO]
    f3 = factors[p + _THREE]
    g0 = next_factors[p]
    g1 = next_factors[p + _ONE]
    g2 = next_factors[p + _TWO]
    g3 = next_factors[p + _THREE]
    b1 = b0 + stride
    b2 = b1 + stride
    b3 = b2 + stride
    for j in range(first, stop):
        a0 = A[b0 + j]
        a1 = A[b1 + j]
        a2 = A[b2 + j]
        a3 = A[b3 + j]
        row[j] -= (f0 * a0 + f1 * a1) + (f2 * a2 + f3 * a3)
        next_row[j] -= (g0 * a0 + g1 * a1) + (g2 * a2 + g3 * a3)


@reduction
def log_densities(  # noqa: C901, PLR0912, PLR0915
    rows: DensityRows,
    scales: Array,
    with_slopes: bool,
    values: Array,
    slopes: Array,
    duals: Array,
    precisions: Array,
) -> None:
    """Write the log densities of the rows under several covariances, and their slopes.

    ``C_ij = Σ_t a_t Π_f k_f(x_i, x_j) + Σ_q s_q² l_iq l_jq`` plus the noise on the
    diagonal, where the terms of an additive kernel are sums over subsets of its
    factors, ``Σ_r a_r e_r(k_1, k_2, ...)``. The values are ``-½ (c log det C + Σ
    yᵀC⁻¹y)``, without the constant, less those of the given rows; NaN where C is not
    positive definite. With ``C = L Lᵀ``, they and their slopes read only the rows A of
    ``L⁻¹`` behind the given ones::

        ∂/∂C = ½ (α αᵀ - α_g α_gᵀ - c AᵀA),   α = C⁻¹y,   α_g = C_gg⁻¹ y_g

    This is one function on purpose, see ``langevin_loop``.

    Parameters
    ----------
    rows : DensityRows
    scales : ndarray of shape (m, t + p + l + ... + 1)
        Of each covariance: the amplitudes, the inverse squares of the lengthscales (of
        categories -2 times the logarithms of the correlations), the squares of the
        slopes, the periods of the cycles, and the noise variance.
    with_slopes : bool
    values : ndarray of shape (m,)
    slopes : ndarray of shape (m, t + p + l + ... + 1)
        In the logarithms of the amplitudes, of the lengthscales and correlations, of
        the slopes, of the periods and of the noise variance. Not written where the
        value is NaN, as the next ones.
    duals : ndarray of shape (m, c, n)
        ``C⁻¹y``.
    precisions : ndarray of shape (m, n)
        The diagonal of ``AᵀA``, which is that of ``C⁻¹`` where no rows are given.

    Notes
    -----
    O(n³): n³ / 3 multiplications and additions, as many again twice with slopes.
    """
    n_points = np.uint64(rows.points.shape[1])
    n = np.uint64(rows.points.shape[2])
    n_given = np.uint64(rows.n_given)
    n_inputs = np.uint64(rows.points.shape[1] - rows.n_lines)
    n_terms = np.uint64(len(rows.first_factors) - 1)
    n_amplitudes = rows.first_amplitudes[n_terms]
    n_factors = np.uint64(len(rows.codes))
    c = np.uint64(rows.targets.shape[1])
    # angles of the cycles
    angles = np.empty((n_inputs, n))
    cosines = np.empty((n_inputs, n))
    sines = np.empty((n_inputs, n))
    # terms but for the last, and -(dk/dr) / r of each factor times the others
    K = np.empty((max(int(n_amplitudes) - 1, 0), n, n))
    W = np.empty((n, n_factors, n))
    # orders of an additive term, and the kernels of its columns
    orders = np.empty((n_amplitudes, n))
    column_values = np.empty((n_factors, n))
    place = np.empty(n_inputs)
    # α of the given rows
    given = np.zeros((c, n))
    # entry (i, j) is at stride i + j, from j = i on, with three zeros after each row
    stride = n + c + _THREE
    A = np.empty((n + _FOUR) * (stride + _ONE))
    k = np.empty(n)
    k_term = np.empty(n)
    w = np.empty(n)
    row = np.empty(n + c + n + _FOUR)
    next_row = np.empty(n + c + n + _FOUR)
    factors = np.empty(n + _FOUR)
    next_factors = np.empty(n + _FOUR)
    for s in range(len(scales)):
        scale = scales[s]
        slope = slopes[s]
        alpha = duals[s]
        points = rows.points[s % len(rows.points)]
        targets = rows.targets[s % len(rows.targets)]
        noise_factors = rows.noise_factors[s % len(rows.noise_factors)]
        noise_variance = scale[-1]

        # 1 the rows [C, y, I], each from its diagonal entry on
        for q in range(n_inputs):
            if rows.kinds[q] == CYCLE:
                frequency = 2.0 * np.pi / scale[rows.period_slots[q]]
                for j in range(n):
                    angles[q, j] = frequency * points[q, j]
                    cosines[q, j] = np.cos(angles[q, j])
                    sines[q, j] = np.sin(angles[q, j])
        for i in range(len(A)):
            A[i] = 0.0
        for i in range(n):
            base = i * stride
            for g in range(n_terms):
                first_amplitude = rows.first_amplitudes[g]
                first_factor = rows.first_factors[g]
                n_up_to_term = rows.first_factors[g + _ONE]
                if rows.is_additive[g]:
                    n_orders = rows.first_amplitudes[g + _ONE] - first_amplitude
                    first_input = rows.first_inputs[first_factor]
                    stop_input = rows.first_inputs[n_up_to_term]
                    for q in range(first_input, stop_input):
                        place[q - first_input] = points[q, i]
                    additive_row(
                        rows.codes[first_factor:n_up_to_term],
                        rows.kinds[first_input:stop_input],
                        scale[n_amplitudes + first_input : n_amplitudes + stop_input],
                        scale[first_amplitude : first_amplitude + n_orders],
                        points[first_input:stop_input],
                        place,
                        np.int64(i),
                        np.int64(n),
                        orders[:n_orders],
                        column_values,
                        W[i, first_factor:n_up_to_term],
                    )
                    for r in range(n_orders):
                        for j in range(i, n):
                            A[base + j] += orders[r, j]
                        if first_amplitude + r + _ONE < n_amplitudes:
                            for j in range(i, n):
                                K[first_amplitude + r, i, j] = orders[r, j]
                    continue
                amplitude = scale[first_amplitude]
                if first_factor == n_up_to_term:
                    for j in range(i, n):
                        k_term[j] = 1.0
                for f in range(first_factor, n_up_to_term):
                    k_factor = k
                    if f == first_factor:
                        k_factor = k_term
                    for j in range(i, n):
                        k_factor[j] = 0.0
                    for q in range(rows.first_inputs[f], rows.first_inputs[f + _ONE]):
                        z = points[q, i]
                        inverse_square = scale[n_amplitudes + q]
                        if rows.kinds[q] == CATEGORY:
                            for j in range(i, n):
                                k_factor[j] += (
                                    inverse_square if points[q, j] != z else 0.0
                                )
                        elif rows.kinds[q] == CYCLE:
                            # 4 sin²(½ angle) = |chord|²
                            cosine = cosines[q, i]
                            sine = sines[q, i]
                            for j in range(i, n):
                                dx = cosines[q, j] - cosine
                                dy = sines[q, j] - sine
                                square = dx * dx + dy * dy
                                k_factor[j] += inverse_square * square
                        else:
                            for j in range(i, n):
                                difference = points[q, j] - z
                                k_factor[j] += inverse_square * difference * difference
                    profile_and_slope(rows.codes[f], k_factor[i:], W[i, f, i:])
                    if f > first_factor:
                        # the product rule
                        for h in range(first_factor, f):
                            for j in range(i, n):
                                W[i, h, j] *= k[j]
                        for j in range(i, n):
                            W[i, f, j] *= k_term[j]
                            k_term[j] *= k[j]
                for j in range(i, n):
                    A[base + j] += amplitude * k_term[j]
                if first_amplitude + _ONE < n_amplitudes:
                    for j in range(i, n):
                        K[first_amplitude, i, j] = amplitude * k_term[j]
            for q in range(n_inputs, n_points):
                z = scale[n_amplitudes + q] * points[q, i]
                for j in range(i, n):
                    A[base + j] += z * points[q, j]
            A[base + i] += noise_variance * noise_factors[i]
            base += n
            for t in range(c):
                A[base + t] = targets[t, i]
            A[base + c + i] = 1.0

        # 2 elimination, C = UᵀU: they become [U, U⁻ᵀy, U⁻ᵀ]. Two rows at a time lose
        #   multiples of the rows above them, four at a time; factors beyond are zero
        total = 0.0
        for i in range(_ZERO, n, _TWO):
            base = i * stride
            for p in range(i):
                factors[p] = A[p * stride + i]
                next_factors[p] = A[p * stride + i + _ONE]
            for p in range(i, i + _FOUR):
                factors[p] = 0.0
                next_factors[p] = 0.0
            # the entry of the next row before its diagonal is a zero, and not used
            for j in range(i, n + c + i + _FOUR):
                row[j] = A[base + j]
                next_row[j] = A[base + stride + j]
            stop = n + c
            for p in range(_ZERO, i, _FOUR):
                if with_slopes:
                    stop = n + c + p + _FOUR
                _subtract_four(
                    p * stride,
                    stride,
                    A,
                    p,
                    factors,
                    next_factors,
                    i,
                    stop,
                    row,
                    next_row,
                )
            square = row[i]
            if not square > 0.0:
                total = np.nan
                break
            root = 1.0 / np.sqrt(square)
            for j in range(i, n + c + i + _ONE):
                A[base + j] = root * row[j]
            if i >= n_given:
                total += c * np.log(square)
                for t in range(c):
                    white = A[base + n + t]
                    total += white * white
            if i + _ONE == n:
                break
            factor = A[base + i + _ONE]
            base += stride
            for j in range(i + _ONE, n + c + i + _ONE):
                next_row[j] -= factor * A[base - stride + j]
            square = next_row[i + _ONE]
            if not square > 0.0:
                total = np.nan
                break
            root = 1.0 / np.sqrt(square)
            for j in range(i + _ONE, n + c + i + _TWO):
                A[base + j] = root * next_row[j]
            if i + _ONE >= n_given:
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
                if p + _ONE == n_given:
                    for j in range(n_given):
                        given[t, j] = alpha[t, j]

        # 4 rows of α αᵀ - α_g α_gᵀ - c AᵀA, twice ∂ log p / ∂C, again two at a time
        for q in range(len(slope)):
            slope[q] = 0.0
        for first_row in range(_ZERO, n, _TWO):
            for j in range(first_row, n):
                row[j] = 0.0
                next_row[j] = 0.0
            has_next = first_row + _ONE < n
            for t in range(c):
                z = alpha[t, first_row]
                next_z = alpha[t, first_row + _ONE] if has_next else 0.0
                for j in range(first_row, n):
                    row[j] += z * alpha[t, j]
                    next_row[j] += next_z * alpha[t, j]
                if first_row < n_given:
                    z = given[t, first_row]
                    next_z = given[t, first_row + _ONE]
                    for j in range(first_row, n_given):
                        row[j] -= z * given[t, j]
                        next_row[j] -= next_z * given[t, j]
            first_of_A = n_given
            if first_row > n_given:
                first_of_A = np.uint64(first_row)
            block = first_of_A - first_of_A % _FOUR
            for p in range(block, n + _FOUR):
                factors[p] = 0.0
                next_factors[p] = 0.0
            for p in range(first_of_A, n):
                factors[p] = c * A[p * stride + n + c + first_row]
                # before its diagonal, the row has the zero that follows it
                next_factors[p] = c * A[p * stride + n + c + first_row + _ONE]
            for p in range(block, n, _FOUR):
                stop = min(p + _FOUR, n)
                _subtract_four(
                    p * stride + n + c,
                    stride,
                    A,
                    p,
                    factors,
                    next_factors,
                    first_row,
                    stop,
                    row,
                    next_row,
                )
            for i in range(first_row, min(first_row + _TWO, n)):
                k_row = row
                if i > first_row:
                    k_row = next_row
                precision = 0.0
                for t in range(c):
                    precision += alpha[t, i] * alpha[t, i]
                    precision -= given[t, i] * given[t, i]
                precisions[s, i] = (precision - k_row[i]) / c
                # the pullbacks, where entries beside the diagonal count twice
                slope[-1] += 0.5 * noise_variance * k_row[i] * noise_factors[i]
                for t in range(n_amplitudes):
                    if t + _ONE < n_amplitudes:
                        product = -0.5 * k_row[i] * K[t, i, i]
                        for j in range(i, n):
                            product += k_row[j] * K[t, i, j]
                        slope[t] += product
                for g in range(n_terms):
                    # amplitudes are in the slopes of an additive term
                    amplitude = 1.0
                    if not rows.is_additive[g]:
                        amplitude = scale[rows.first_amplitudes[g]]
                    for f in range(rows.first_factors[g], rows.first_factors[g + _ONE]):
                        for j in range(i, n):
                            w[j] = k_row[j] * W[i, f, j]
                        for q in range(
                            rows.first_inputs[f], rows.first_inputs[f + _ONE]
                        ):
                            z = points[q, i]
                            product = 0.0
                            if rows.kinds[q] == CATEGORY:
                                for j in range(i, n):
                                    product += w[j] if points[q, j] != z else 0.0
                            elif rows.kinds[q] == CYCLE:
                                angle = angles[q, i]
                                cosine = cosines[q, i]
                                sine = sines[q, i]
                                turned = 0.0
                                for j in range(i, n):
                                    dx = cosines[q, j] - cosine
                                    dy = sines[q, j] - sine
                                    product += w[j] * (dx * dx + dy * dy)
                                    # -½ ∂|chord|² / ∂ log period = angle sin(angle)
                                    lag = angles[q, j] - angle
                                    turned += (w[j] * lag) * (
                                        sines[q, j] * cosine - cosines[q, j] * sine
                                    )
                                product *= scale[n_amplitudes + q]
                                turned *= scale[n_amplitudes + q]
                                slope[rows.period_slots[q]] += amplitude * turned
                            else:
                                for j in range(i, n):
                                    difference = points[q, j] - z
                                    product += w[j] * difference * difference
                                product *= scale[n_amplitudes + q]
                            slope[n_amplitudes + q] += amplitude * product
                for q in range(n_inputs, n_points):
                    z = points[q, i]
                    product = -0.5 * k_row[i] * z
                    for j in range(i, n):
                        product += k_row[j] * points[q, j]
                    slope[n_amplitudes + q] += (
                        2.0 * product * scale[n_amplitudes + q] * z
                    )
        # of the last amplitude, by Σ_ij ∂ log p / ∂C_ij C_ij = ½ (|A y|² - c |A|), with
        #   |A| rows of A
        if n_amplitudes > _ZERO:
            total = -0.5 * c * (n - n_given) - slope[-1]
            for i in range(n_given, n):
                for t in range(c):
                    white = A[i * stride + n + t]
                    total += 0.5 * white * white
            for t in range(n_amplitudes - _ONE):
                total -= slope[t]
            for q in range(n_inputs, n_points):
                total -= 0.5 * slope[n_amplitudes + q]
            slope[n_amplitudes - _ONE] = total
