"""Sums over subsets of columns: elementary symmetric polynomials of kernels.

``e_r(k_1, ..., k_d)`` is the sum of all products of r of the kernels. As many products
as there are subsets are summed by a recursion over the columns [1]_.

References
----------
.. [1] Duvenaud, Nickisch and Rasmussen, "Additive Gaussian processes", NeurIPS 2011.
"""

from __future__ import annotations

import numpy as np

from skgpx._numerics._jit import inlined, kernel, reduction
from skgpx._numerics.radial import CATEGORY, profile, profile_and_slope
from skgpx._types import Array, Index


@kernel
def additive_row(  # noqa: C901
    codes: Index,
    kinds: Index,
    inverse_squares: Array,
    amplitudes: Array,
    points: Array,
    place: Array,
    first: int,
    stop: int,
    orders: Array,
    values: Array,
    slopes: Array,
) -> None:
    """Write the terms of each order between a place and points, and their slopes.

    Of the points from `first` on, before `stop`.

    Parameters
    ----------
    codes, kinds : ndarray of int of shape (d,)
        Kernel of each column, and what its inputs are: constants of ``radial``.
    inverse_squares : ndarray of shape (d,)
        Of the lengthscales; of categories -2 times the logarithms of correlations.
    amplitudes : ndarray of shape (R,)
        Factor of each order, from the first on.
    points : ndarray of shape (d, m)
    place : ndarray of shape (d,)
    orders : ndarray of shape (R, m)
        ``a_r e_r(k_1, ..., k_d)``, written.
    values : ndarray of shape (d, m)
        ``k_q``, written.
    slopes : ndarray of shape (d, m)
        Written: ``w = -(dk_q/dr) / r`` times the slope of ``Σ_r a_r e_r`` in k_q.
    """
    R = len(orders)
    orders[:, first:stop] = 0.0
    # 1 kernels of one column each, and their polynomials
    for q in range(len(points)):
        k = values[q, first:stop]
        _squares(kinds[q], inverse_squares[q], points[q, first:stop], place[q], k)
        profile_and_slope(codes[q], k, slopes[q, first:stop])
        _add_column(k, first, orders)
    # 2 ∂e_r / ∂k_q is the polynomial of order r - 1 of the other columns, and that of
    #   order r is e_r less k_q times the one below it
    without = np.empty(stop - first)
    total = np.empty(stop - first)
    for q in range(len(points)):
        k = values[q, first:stop]
        slope = slopes[q, first:stop]
        if R == 2:
            # the general case in one pass
            e = orders[0, first:stop]
            for j in range(k.size):
                slope[j] *= amplitudes[0] + amplitudes[1] * (e[j] - k[j])
            continue
        for j in range(k.size):
            without[j] = 1.0
            total[j] = amplitudes[0]
        for r in range(1, R):
            amplitude = amplitudes[r]
            e = orders[r - 1, first:stop]
            for j in range(k.size):
                without[j] = e[j] - k[j] * without[j]
                total[j] += amplitude * without[j]
        for j in range(k.size):
            slope[j] *= total[j]
    for r in range(R):
        amplitude = amplitudes[r]
        e = orders[r, first:stop]
        for j in range(e.size):
            e[j] *= amplitude


@inlined
def _squares(
    kind: int,
    inverse_square: float,
    points: Array,
    place: float,
    out: Array,
) -> None:
    """Squared distances in lengthscales; ``-2 log ρ`` where categories differ."""
    if kind == CATEGORY:
        for j in range(out.size):
            out[j] = inverse_square if points[j] != place else 0.0
    else:
        for j in range(out.size):
            difference = points[j] - place
            out[j] = inverse_square * difference * difference


@inlined
def _add_column(k: Array, first: int, orders: Array) -> None:
    """``e_r ← e_r + k e_{r-1}``, from the highest order on, behind the first points."""
    stop = first + k.size
    for r in range(len(orders) - 1, 0, -1):
        e = orders[r, first:stop]
        e_below = orders[r - 1, first:stop]
        for j in range(k.size):
            e[j] += k[j] * e_below[j]
    e = orders[0, first:stop]
    for j in range(k.size):
        e[j] += k[j]


@kernel
def additive_rows(
    codes: Index,
    kinds: Index,
    inverse_squares: Array,
    amplitudes: Array,
    points: Array,
    centres: Array,
    is_triangle: bool,
    out: Array,
) -> None:
    """Write ``Σ_r a_r e_r`` between centres (n, d) and points (d, m) into out (n, m).

    Of two equal sets of points, `is_triangle`, into the lower triangle; other entries
    of out stay. Other arguments are those of `additive_row`.
    """
    m = points.shape[1]
    k = np.empty(m)
    orders = np.empty((len(amplitudes), m))
    for i in range(len(centres)):
        stop = i + 1 if is_triangle else m
        orders[:] = 0.0
        for q in range(len(points)):
            _squares(
                kinds[q], inverse_squares[q], points[q, :stop], centres[i, q], k[:stop]
            )
            profile(codes[q], k[:stop])
            _add_column(k[:stop], 0, orders)
        row = out[i, :stop]
        row[:] = 0.0
        for r in range(len(amplitudes)):
            amplitude = amplitudes[r]
            e = orders[r]
            for j in range(row.size):
                row[j] += amplitude * e[j]


@reduction
def additive_slopes(  # noqa: C901
    codes: Index,
    kinds: Index,
    inverse_squares: Array,
    amplitudes: Array,
    points: Array,
    centres: Array,
    is_triangle: bool,
    G: Array,
    of_orders: Array,
    of_columns: Array,
    of_inputs: Array,
) -> None:
    """Pull cotangents of `additive_rows` back to its arguments.

    Parameters
    ----------
    G : ndarray of shape (n, m)
        Symmetric in a triangle, of which only the entries below are read.
    of_orders : ndarray of shape (R,)
        ``Σ_ij G_ij a_r e_r``, added.
    of_columns : ndarray of shape (d,)
        ``Σ_ij G_ij s_q (x_jq - z_iq)²`` with the slopes s of `additive_row`, added; of
        categories with one for the square where they differ.
    of_inputs : ndarray of shape (n, d)
        ``Σ_j G_ij s_q (x_jq - z_iq)``, written; zero of categories.
    """
    d, m = points.shape
    values = np.empty((d, m))
    slopes = np.empty((d, m))
    orders = np.empty((len(amplitudes), m))
    g = np.empty(m)
    for i in range(len(centres)):
        stop = i + 1 if is_triangle else m
        additive_row(
            codes,
            kinds,
            inverse_squares,
            amplitudes,
            points,
            centres[i],
            0,
            stop,
            orders,
            values,
            slopes,
        )
        for j in range(stop):
            g[j] = G[i, j]
        if is_triangle:
            # entries beside the diagonal count twice
            for j in range(i):
                g[j] *= 2.0
        for r in range(len(amplitudes)):
            term = orders[r]
            total = 0.0
            for j in range(stop):
                total += g[j] * term[j]
            of_orders[r] += total
        for q in range(d):
            x = points[q]
            slope = slopes[q]
            z = centres[i, q]
            linear = 0.0
            square = 0.0
            if kinds[q] == CATEGORY:
                for j in range(stop):
                    square += g[j] * slope[j] if x[j] != z else 0.0
            else:
                for j in range(stop):
                    difference = x[j] - z
                    product = g[j] * slope[j] * difference
                    linear += product
                    square += product * difference
            of_columns[q] += square
            of_inputs[i, q] = linear
