"""Stein variational gradient descent.

Points are moved until they follow a density [2]_. A mixture has M components of R
frequencies each; ``ω_mr`` in R^d, ``g_mr`` the slope of the log posterior of component
m in it. A force is where a frequency moves to:

* pooled, equations (26) and (28) of [1]_: a kernel between all pairs of frequencies of
  all components. It is plain Stein descent on the pool of M R points, over M::

      f_i = 1/M Σ_j [k(ω_i, ω_j) g_j + α ∇_{ω_j} k(ω_i, ω_j)]

* between components: the kernel compares whole sets, by the distance between their
  means in a space of functions (MMD).

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
from skgpx._numerics.linalg import cholesky, solve_lower, solve_lower_transpose

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
# Added to the metric of Matrix-SVGD, relative to its mean diagonal.
_RIDGE = 1e-3


@kernel
def median_bandwidths(points: Array, factors: Array, mirrored: bool) -> Array:
    """Median squared difference of each column, times its factor, shape (d,).

    Parameters
    ----------
    points : ndarray of shape (R, d)
    factors : ndarray of shape (d,)
        With d, about the median of the squared distances for columns of one spread;
        with 1 the points hardly see one another for large d.
    mirrored : bool
        Whether -x counts as a point wherever x is one.

    Notes
    -----
    Columns without spread have their factor as bandwidth: any is as good.
    """
    bandwidths = factors * median_squares(_with_mirror_images(points, mirrored))
    least = _NARROWEST * bandwidths.max()
    for k in range(len(factors)):
        bandwidths[k] = bandwidths[k] if bandwidths[k] > least else factors[k]
    return bandwidths


@kernel
def _with_mirror_images(points: Array, mirrored: bool) -> Array:
    return np.concatenate((points, -points)) if mirrored else points


@kernel
def svgd_force(
    points: Array, scores: Array, bandwidths: Array, mirrored: bool
) -> Array:
    """Direction in which each point moves, shape (R, d).

    ``f_i = 1/n Σ_j k(x_i, x_j) [s_j + (x_i - x_j) / h]`` with
    ``k(x, y) = exp(-½ Σ_k (x_k - y_k)² / h_k)``: eq. (8) of Liu and Wang.

    Parameters
    ----------
    points : ndarray of shape (R, d)
    scores : ndarray of shape (R, d)
        ``s = ∇ log p`` at the points.
    bandwidths : ndarray of shape (d,)
        ``h``.
    mirrored : bool
        Whether the sum is over the n = 2R points ±x, for an even density: the score
        at -x is -s. Otherwise n = R.

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
        _inner_products(scaled, j, inner)
        _kernel_row(half_square, j, inner, mirrored, difference, sums)
        for k in range(d):
            for i in range(R):
                total[k, i] += pull[k, j] * difference[i]
    n = 2 * R if mirrored else R
    force = np.empty((R, d))
    for k in range(d):
        for i in range(R):
            repulsion = points[i, k] / bandwidths[k] * sums[i]
            force[i, k] = (total[k, i] + repulsion) / n
    return force


@inlined
def _inner_products(scaled: Array, j: int, inner: Array) -> None:
    """``x_i · x_j`` for all i."""
    inner[:] = 0.0
    for k in range(len(scaled)):
        factor = scaled[k, j]
        for i in range(inner.size):
            inner[i] += factor * scaled[k, i]


@inlined
def _kernel_row(
    half_square: Array,
    j: int,
    inner: Array,
    mirrored: bool,
    difference: Array,
    sums: Array,
) -> None:
    """``k(x_i, x_j) ∓ k(x_i, -x_j)``: the first is written, the second added."""
    if mirrored:
        for i in range(inner.size):
            middle = half_square[i] + half_square[j]
            near, far = exp(inner[i] - middle), exp(-inner[i] - middle)
            difference[i] = near - far
            sums[i] += near + far
    else:
        for i in range(inner.size):
            difference[i] = exp(inner[i] - half_square[i] - half_square[j])
            sums[i] += difference[i]


def matrix_svgd_force(
    points: Array, scores: Array, factors: Array, mirrored: bool
) -> Array:
    """Force of Matrix-SVGD with one constant metric, shape (R, d).

    ``f = H⁻¹ Σ_j [k s_j + ∇_j k]`` with ``k = exp(-½ (x - y)ᵀ H (x - y) / h)`` and
    ``H`` the mean of ``s sᵀ`` over the points (Wang et al., "Stein variational
    gradient descent with matrix-valued kernels", NeurIPS 2019, section 4.2, with the
    Fisher information as the metric). It is SVGD in the coordinates ``u = Lᵀ x``,
    ``H = L Lᵀ``, written in those of x.
    """
    # no matrix product of BLAS: its bits may depend on threads
    metric = np.einsum("rk,rl->kl", scores, scores) / len(scores)
    metric[np.diag_indices_from(metric)] += _RIDGE * np.mean(np.diagonal(metric))
    L = cholesky(metric).L
    moved = np.einsum("rk,kl->rl", points, L)
    pulled = np.ascontiguousarray(solve_lower(L, scores.T).T)
    bandwidths = median_bandwidths(moved, factors, mirrored)
    force = svgd_force(moved, pulled, bandwidths, mirrored)
    return np.ascontiguousarray(solve_lower_transpose(L, force.T).T)


def transported(
    points: Array,
    score: Score,
    n_steps: int,
    learning_rate: float,
    factors: Array,
    *,
    mirrored: bool = True,
    matrix: bool = False,
) -> Array:
    """Move points by SVGD until they follow a density, shape (R, d).

    Parameters
    ----------
    points : ndarray of shape (R, d)
        Where they start, best with the location and spread of the density.
    score : callable
        ``∇ log p`` at points (R, d), shape (R, d); for `mirrored` an odd function.
    n_steps : int
        Number of steps of Adam.
    learning_rate : float
        Of the first step, in units of the points; it decays to zero as a cosine.
    factors : ndarray of shape (d,)
        Of the bandwidths, see `median_bandwidths`.
    mirrored : bool, default=True
        Whether points repel one another's mirror images, too: frequencies ω and -ω
        are one wave.
    matrix : bool, default=False
        Take `matrix_svgd_force`.

    Notes
    -----
    The compiled force takes nearly all of the time, so that the loop itself is not
    compiled and the score may be any function.
    """
    moved, bandwidths = np.array(points, dtype=np.float64, order="C"), factors
    first, second = np.zeros_like(moved), np.zeros_like(moved)
    for step in range(n_steps):
        scores = np.ascontiguousarray(score(moved), dtype=np.float64)
        if matrix:
            force = matrix_svgd_force(moved, scores, factors, mirrored)
        else:
            if step % _KEPT == 0:
                bandwidths = median_bandwidths(moved, factors, mirrored)
            force = svgd_force(moved, scores, bandwidths, mirrored)
        rate = cosine_decay(step, n_steps, learning_rate)
        adam_step(moved, -force, first, second, step + 1, rate)
    return moved


# ---- Forces on a mixture of sets of frequencies --------------------------------------


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
    frequencies: Array, slopes: Array, squares: Array, repulsion: float, code: int
) -> Array:
    """Force (M, R, d) with a kernel between all pairs of frequencies.

    Parameters
    ----------
    frequencies, slopes : ndarray of shape (M, R, d)
    squares : ndarray of shape (d,)
        Squared bandwidths h: the kernel is a function of ``Σ_k (ω_k - ω'_k)² / h_k``.
    repulsion : float
        α; zero only smooths the slopes.
    code : int
        Kernel: one of the constants of :mod:`skgpx._numerics.radial`.

    Notes
    -----
    With ``w = -k'(r) / r`` the gradient in ω_j is ``w (ω_i - ω_j) / h``, so that both
    sums are products with the kernel matrix: one for the RBF, where w = k. O((M R)² d),
    in blocks of rows.
    """
    M, _, d = frequencies.shape
    root = np.sqrt(squares)
    pool = frequencies.reshape(-1, d) / root
    pool = pool - pool.mean(axis=0)
    points, pull = np.ascontiguousarray(pool.T), slopes.reshape(-1, d)
    push = np.column_stack((pool, np.ones(len(pool))))
    both = np.column_stack((pull, push))
    parts = []
    for first in range(0, len(pool), _BLOCK):
        rows = pool[first : first + _BLOCK]
        total = _products(code, points, rows, pull, push, both)
        away = rows * total[:, -1:] - total[:, d:-1]
        parts.append(total[:, :d] + repulsion * away / root)
    return np.concatenate(parts).reshape(frequencies.shape) / M


def _products(
    code: int, points: Array, rows: Array, pull: Array, push: Array, both: Array
) -> Array:
    """``[K pull, w push]`` for some rows of the pool."""
    K = np.empty((len(rows), points.shape[1]))
    if code == radial.RBF:
        radial.radial_rows(code, points, rows, K)
        return K @ both
    slopes = np.empty_like(K)
    radial.radial_rows_and_slopes(code, points, rows, K, slopes)
    return np.hstack((K @ pull, slopes @ push))


def component_force(
    frequencies: Array, slopes: Array, squares: Array, repulsion: float
) -> Array:
    """Force (M, R, d) with a kernel between whole sets of frequencies.

    ``K_ij = exp(-MMD²(Ω_i, Ω_j) / (2 l))`` with an RBF of squared bandwidths h inside
    and the median l of the distances between different sets::

        f_i = 1/M [Σ_j K_ij g_j - α Σ_j ∂K_ij / ∂Ω_i]

    Parameters
    ----------
    frequencies, slopes, squares, repulsion
        As of :func:`pooled_force`.

    Notes
    -----
    O((M R)² d). The smoothing adds slopes of frequencies of the same number r, which
    have nothing to do with each other. h and l count as constants.
    """
    M = len(frequencies)
    root = np.sqrt(squares)
    sets = frequencies / root
    means, pulls = np.empty((M, M)), np.empty((M, *frequencies.shape))
    for i in range(M):
        for j in range(M):
            means[i, j], pulls[i, j] = _mean_and_slope(sets[i], sets[j])
    own = np.diagonal(means)
    distances = np.maximum(own[:, np.newaxis] + own - 2.0 * means, 0.0)
    scale = float(np.median(distances[np.triu_indices(M, 1)])) if M > 1 else 1.0
    scale = scale if scale > 0.0 else 1.0
    K = np.exp(-0.5 * distances / scale)
    # ∂MMD²/∂Ω_i = 2 ∂(mean k_ii)/∂(left argument) - 2 ∂(mean k_ij)/∂(left argument)
    away = pulls[np.arange(M), np.arange(M)][:, np.newaxis] - pulls
    push = np.einsum("ij,ijrd->ird", K / scale, away)
    pull = np.einsum("ij,jrd->ird", K, slopes)
    return (pull + repulsion * push / root) / M


def _mean_and_slope(one: Array, other: Array) -> tuple[float, Array]:
    """Mean of an RBF over pairs of two sets, and its slope in the first (R, d)."""
    K = np.empty((len(one), len(other)))
    radial.radial_rows(radial.RBF, np.ascontiguousarray(other.T), one, K)
    slope = (K @ other - K.sum(axis=1, keepdims=True) * one) / K.size
    return float(K.mean()), slope
