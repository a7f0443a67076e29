"""Stein variational gradient descent.

Points are moved until they follow a density [2]_. A mixture has M components of R
frequencies each, ``ω_mr`` in R^d, and ``g_mr`` is the slope of the log posterior of
component m in ``ω_mr``. The force on a frequency is that of
equations (26) and (28) of [1]_, with a kernel between all pairs of frequencies of all
components: plain Stein descent on the pool of M R points, over M::

    f_i = 1/M Σ_j [k(ω_i, ω_j) g_j + α ∇_{ω_j} k(ω_i, ω_j)]

References
----------
.. [1] Warren, Oliveira and Ramos, "Stein random feature regression", UAI 2024.
.. [2] Liu and Wang, "Stein variational gradient descent: a general purpose Bayesian
   inference algorithm", NeurIPS 2016.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics import radial
from skgpx._numerics._jit import inlined, kernel
from skgpx._numerics.adam import adam_step, cosine_decay
from skgpx._numerics.elementary import exp

# ---- Medians of squared differences over all pairs, without the pairs ----------------


Array = NDArray[np.float64]

# How far from the rank a guess aims, as a part of the differences that are left.
_MARGIN = 0.02


@kernel
def median_squares(points: Array) -> Array:
    """Median of ``(x_ik - x_jk)²`` over all n² ordered pairs, for each column k.

    Pairs of a point with itself count; for an even number of pairs it is the mean of
    the two in the middle, as in NumPy.

    Parameters
    ----------
    points : ndarray of shape (n, d)
        n >= 1; finite.

    Returns
    -------
    medians : ndarray of shape (d,)

    Notes
    -----
    The differences of a sorted column that are at most t are counted by two pointers
    in O(n). The bounds of the search are differences that occur, so that it ends with
    the element itself; about a dozen counts, O(n log n) in all.
    """
    d = points.shape[1]
    medians = np.empty(d)
    for k in range(d):
        medians[k] = median_square(np.sort(points[:, k]))
    return medians


@kernel
def median_square(x: Array) -> float:
    """:func:`median_squares` of one column (n,), sorted."""
    n = x.size
    # of the n² differences the n smallest are zero, and each other one occurs twice
    first = ((n * n - 1) // 2 - n) // 2 + 1
    second = first if n % 2 else (n * n // 2 - n) // 2 + 1
    low = _difference(x, first)
    high = low
    if second > max(first, 0):
        count, _, above = _up_to(x, low)
        high = low if count >= second else above
    return 0.5 * (low * low + high * high)


@kernel
def _difference(x: Array, rank: int) -> float:
    """The difference of this rank, from 1, among the pairs of a sorted column."""
    if rank < 1:
        return 0.0
    low, high = 0.0, x[-1] - x[0]
    fewer, more, turn = 0, x.size * (x.size - 1) // 2, 0
    while low < high:
        # a line through both counts, aimed a little below and above the rank by turns;
        # every third time halfway
        inside = more - fewer
        aim = rank - fewer + (_MARGIN if turn % 2 else -_MARGIN) * inside
        share = aim / inside if turn % 3 < 2 else 0.5
        middle = low + min(max(share, 0.0), 1.0) * (high - low)
        middle = middle if middle < high else low
        count, below, above = _up_to(x, middle)
        if count >= rank:
            high, more = below, count
        else:
            low, fewer = above, count
        turn += 1
    return high


@kernel
def _up_to(x: Array, bound: float) -> tuple[int, float, float]:
    """Number of differences up to a bound, the largest of them, the next larger one."""
    count, below, above, j = 0, 0.0, np.inf, 0
    for i in range(x.size):
        while x[i] - x[j] > bound:
            j += 1
        count += i - j
        below = max(below, x[i] - x[j])
        if j > 0:
            above = min(above, x[i] - x[j - 1])
    return count, below, above


# ---- Stein variational gradient descent: points moved until they follow a density ----


Score = Callable[[Array], Array]

# Smallest bandwidth, relative to the largest: of columns without spread.
_NARROWEST = 1e-12
# Steps for which bandwidths are kept: they change slowly, and sorting takes time.
_KEPT = 5


@kernel
def median_bandwidths(points: Array, factors: Array) -> Array:
    """Median squared difference of each column of the points ±x, times its factor (d,).

    Columns without spread have their factor as bandwidth: any is as good.

    Parameters
    ----------
    points : ndarray of shape (R, d)
    factors : ndarray of shape (d,)
        With d, about the median of the squared distances for columns of one spread;
        with 1 the points hardly see one another for large d.
    """
    bandwidths = factors * median_squares(np.concatenate((points, -points)))
    least = _NARROWEST * bandwidths.max()
    for k in range(len(factors)):
        bandwidths[k] = bandwidths[k] if bandwidths[k] > least else factors[k]
    return bandwidths


@kernel
def svgd_force(points: Array, scores: Array, bandwidths: Array) -> Array:
    """Direction in which each point moves, shape (R, d), for an even density.

    ``f_i = 1/n Σ_j k(x_i, x_j) [s_j + (x_i - x_j) / h]`` over the n = 2 R points ±x,
    with ``k(x, y) = exp(-½ Σ_k (x_k - y_k)² / h_k)``: eq. (8) of Liu and Wang. The
    score at -x is -s.

    Parameters
    ----------
    points : ndarray of shape (R, d)
    scores : ndarray of shape (R, d)
        ``s = ∇ log p`` at the points.
    bandwidths : ndarray of shape (d,)
        ``h``.

    Notes
    -----
    O(R² d). Loops over rows of length R, which a compiler vectorises, in one order: the
    bits do not depend on threads.
    """
    R, d = points.shape
    scaled, pull = np.empty((d, R)), np.empty((d, R))
    half_square = np.zeros(R)
    for k in range(d):
        for i in range(R):
            scaled[k, i] = points[i, k] / np.sqrt(bandwidths[k])
            pull[k, i] = scores[i, k] - points[i, k] / bandwidths[k]
            half_square[i] += 0.5 * scaled[k, i] * scaled[k, i]
    total, sums = np.zeros((d, R)), np.zeros(R)
    inner, difference = np.empty(R), np.empty(R)
    for j in range(R):
        _kernel_row(scaled, half_square, j, inner, difference, sums)
        for k in range(d):
            for i in range(R):
                total[k, i] += pull[k, j] * difference[i]
    force = np.empty((R, d))
    for k in range(d):
        for i in range(R):
            repulsion = points[i, k] / bandwidths[k] * sums[i]
            force[i, k] = (total[k, i] + repulsion) / (2 * R)
    return force


@inlined
def _kernel_row(
    scaled: Array,
    half_square: Array,
    j: int,
    inner: Array,
    difference: Array,
    sums: Array,
) -> None:
    """``k(x_i, x_j) ∓ k(x_i, -x_j)``: the first is written, the second added."""
    inner[:] = 0.0
    for k in range(len(scaled)):
        factor = scaled[k, j]
        for i in range(inner.size):
            inner[i] += factor * scaled[k, i]
    for i in range(inner.size):
        middle = half_square[i] + half_square[j]
        near, far = exp(inner[i] - middle), exp(-inner[i] - middle)
        difference[i] = near - far
        sums[i] += near + far


def transported(
    points: Array, score: Score, n_steps: int, learning_rate: float, factors: Array
) -> Array:
    """Move points by SVGD until they follow an even density, shape (R, d).

    Points also repel one another's mirror images: frequencies ω and -ω are one wave.

    Parameters
    ----------
    points : ndarray of shape (R, d)
        Where they start, best with the location and spread of the density.
    score : callable
        ``∇ log p`` at points (R, d), shape (R, d); an odd function.
    n_steps : int
        Number of steps of Adam.
    learning_rate : float
        Of the first step, in units of the points; it decays to zero as a cosine.
    factors : ndarray of shape (d,)
        Of the bandwidths, see `median_bandwidths`.

    Notes
    -----
    The compiled force takes nearly all of the time, so that the loop itself is not
    compiled and the score may be any function.
    """
    moved, bandwidths = np.array(points, dtype=np.float64, order="C"), factors
    first, second = np.zeros_like(moved), np.zeros_like(moved)
    for step in range(n_steps):
        scores = np.ascontiguousarray(score(moved), dtype=np.float64)
        if step % _KEPT == 0:
            bandwidths = median_bandwidths(moved, factors)
        force = svgd_force(moved, scores, bandwidths)
        rate = cosine_decay(step, n_steps, learning_rate)
        adam_step(moved, -force, first, second, step + 1, rate)
    return moved


# ---- The force on a mixture of sets of frequencies -----------------------------------


# Rows of the kernel matrix that are in memory at a time.
_BLOCK = 256


def bandwidths(frequencies: Array) -> Array:
    """Squared bandwidth h (d,) of each input: medians over the pool (M, R, d).

    One where the median is zero: a single frequency, or a column of equal ones.
    """
    # NumPy sorts several times as fast as compiled Python
    columns = np.sort(frequencies.reshape(-1, frequencies.shape[-1]).T, axis=1)
    medians = np.array([median_square(column) for column in columns])
    return np.where(medians > 0.0, medians, 1.0)


def pooled_force(
    frequencies: Array, slopes: Array, squares: Array, repulsion: float
) -> Array:
    """Force (M, R, d) with an RBF between all pairs of frequencies.

    Parameters
    ----------
    frequencies, slopes : ndarray of shape (M, R, d)
    squares : ndarray of shape (d,)
        Squared bandwidths h: ``k = exp(-½ Σ_k (ω_k - ω'_k)² / h_k)``.
    repulsion : float
        α; zero only smooths the slopes.

    Notes
    -----
    The gradient in ω_j is ``k (ω_i - ω_j) / h``, so that both sums are one product with
    the kernel matrix. O((M R)² d), in blocks of rows.
    """
    M, _, d = frequencies.shape
    root = np.sqrt(squares)
    pool = frequencies.reshape(-1, d) / root
    pool = pool - pool.mean(axis=0)
    points = np.ascontiguousarray(pool.T)
    factors = np.column_stack((slopes.reshape(-1, d), pool, np.ones(len(pool))))
    parts = []
    for first in range(0, len(pool), _BLOCK):
        rows = pool[first : first + _BLOCK]
        K = np.empty((len(rows), len(pool)))
        radial.radial_rows(radial.RBF, points, rows, K)
        total = K @ factors
        away = rows * total[:, -1:] - total[:, d:-1]
        parts.append(total[:, :d] + repulsion * away / root)
    return np.concatenate(parts).reshape(frequencies.shape) / M
