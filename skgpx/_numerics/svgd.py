"""Stein variational gradient descent.

Points ``x_i`` (R, d) are moved until they follow a density [2]_, by the force of a pool
of points ``z_j`` (P, d) with slopes ``g_j``, the gradients of a log density there::

    f_i = Σ_j [k(x_i, z_j) g_j + α ∇_{z_j} k(x_i, z_j)]
    k(x, z) = exp(-½ Σ_k (x_k - z_k)² / h_k)

Equations (26) and (28) of [1]_, with a kernel between all pairs of frequencies of all M
components, are this force for the pool of M R frequencies, over M.

References
----------
.. [1] Warren, Oliveira and Ramos, "Stein random feature regression", UAI 2024.
.. [2] Liu and Wang, "Stein variational gradient descent: a general purpose Bayesian
   inference algorithm", NeurIPS 2016.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.spatial.distance import pdist, squareform

from skgpx._numerics import radial
from skgpx._numerics._jit import CompiledFormula, kernel
from skgpx._numerics.adam import adam_step, cosine_decay
from skgpx._numerics.blas_threads import one_blas_thread
from skgpx._numerics.spectral import RadialDensity
from skgpx._types import Array, Mask

Score = Callable[[Array], Array]

# Rows of the kernel matrix that are in memory at a time.
_BLOCK = 256
# Steps after which the bandwidths of a fixed density are computed again: they change
# slowly, and sorting takes time.
_REFRESH = 5


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
    """
    medians = np.empty(points.shape[1])
    column = np.empty(len(points))
    for k in range(medians.size):
        for i in range(column.size):
            column[i] = points[i, k]
        _sort(column)
        medians[k] = _median_square(column)
    return medians


@kernel
def _sort(x: Array) -> None:
    """Shell's sort, in place: ``np.sort`` would take three seconds to compile."""
    gap = 1
    while gap < x.size // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, x.size):
            value = x[i]
            j = i
            while j >= gap and x[j - gap] > value:
                x[j] = x[j - gap]
                j -= gap
            x[j] = value
        gap //= 3


@kernel
def _median_square(x: Array) -> float:
    """:func:`median_squares` of one column (n,), sorted; O(n log n), without pairs."""
    n = x.size
    # the n smallest of the n² differences are zero, and each other one occurs twice
    low_rank = ((n * n - 1) // 2 - n) // 2 + 1
    high_rank = low_rank if n % 2 else (n * n // 2 - n) // 2 + 1
    low = _difference(x, low_rank)
    high = low
    if high_rank > max(low_rank, 0):
        count, _, above = _up_to(x, low)
        if count < high_rank:
            high = above
    return 0.5 * (low * low + high * high)


@kernel
def _difference(x: Array, rank: int) -> float:
    """The difference of this rank, from 1, among the pairs of a sorted column.

    Both bounds of the bisection are differences of pairs: it ends at the element.
    """
    if rank < 1:
        return 0.0
    low = 0.0
    high = x[-1] - x[0]
    while low < high:
        middle = low + 0.5 * (high - low)
        count, below, above = _up_to(x, middle if middle < high else low)
        if count >= rank:
            high = below
        else:
            low = above
    return high


@kernel
def _up_to(x: Array, bound: float) -> tuple[int, float, float]:
    """Differences of pairs of a sorted column up to a bound.

    Returns
    -------
    count : int
        Number of differences up to the bound.
    below : float
        The largest of them.
    above : float
        The smallest difference above the bound.
    """
    count = 0
    below = 0.0
    above = np.inf
    # the first element within the bound of x_i
    j = 0
    for i in range(x.size):
        while x[i] - x[j] > bound:
            j += 1
        count += i - j
        below = max(below, x[i] - x[j])
        if j > 0:
            above = min(above, x[i] - x[j - 1])
    return count, below, above


@kernel
def bandwidths(pool: Array, factors: Array) -> Array:
    """Squared bandwidths h (d,): medians over the pool (P, d), times factors (d,).

    With the factor d about the median of the squared distances, for columns of one
    spread; with 1 points hardly see one another for large d. The factor itself where
    the median is zero: of a single point, or a constant column.
    """
    squares = median_squares(pool)
    for k in range(squares.size):
        median = squares[k] if squares[k] > 0.0 else 1.0
        squares[k] = factors[k] * median
    return squares


def see_others(points: Array, factors: Array) -> Mask:
    """Whether the kernel of each point with another point is at least 1e-21, (P,).

    The force on a point that sees no other is its own slope, to the last bit. The test
    takes at most 256 columns, evenly spaced: in all columns points are farther apart.

    Parameters
    ----------
    points : ndarray of shape (P, d)
    factors : ndarray of shape (d,)
        Of the :func:`bandwidths`.
    """
    d = len(factors)
    n_columns = min(d, 256)
    columns = np.linspace(0, d - 1, n_columns).astype(np.intp)
    sample = np.ascontiguousarray(points[:, columns])
    scaled = sample / np.sqrt(bandwidths(sample, factors[columns]))
    pairs = pdist(scaled, "sqeuclidean")
    distances = squareform(pairs)
    np.fill_diagonal(distances, np.inf)
    nearest = np.min(distances, axis=1)
    # exp(-100 / 2) = 2e-22
    return nearest < 100.0


@kernel
def stein_force(
    points: Array,
    pool: Array,
    slopes: Array,
    squares: Array,
    repulsion: float,
) -> Array:
    """Force (R, d) of a pool on points.

    Parameters
    ----------
    points : ndarray of shape (R, d)
    pool, slopes : ndarray of shape (P, d)
    squares : ndarray of shape (d,)
        Squared bandwidths h.
    repulsion : float
        α; zero only smooths the slopes.

    Notes
    -----
    The gradient in z is ``k (x - z) / h``, so that both sums are one product with the
    kernel matrix. O(R P d), in blocks of rows.
    """
    R, d = points.shape
    P = len(pool)
    # z / √h and x / √h
    z = np.empty((d, P))
    x = np.empty((R, d))
    # rows (g_j, z_j / √h, 1)
    terms = np.empty((P, 2 * d + 1))
    for j in range(P):
        terms[j, 2 * d] = 1.0
    for k in range(d):
        root = math.sqrt(squares[k])
        # around the mean, distances are exact many bandwidths from the origin
        centre = 0.0
        for j in range(P):
            centre += pool[j, k] / P
        for j in range(P):
            z[k, j] = (pool[j, k] - centre) / root
            terms[j, k] = slopes[j, k]
            terms[j, d + k] = z[k, j]
        for i in range(R):
            x[i, k] = (points[i, k] - centre) / root
    force = np.empty((R, d))
    size = min(_BLOCK, R)
    K = np.empty((size, P))
    sums = np.empty((size, 2 * d + 1))
    for first in range(0, R, size):
        n = min(size, R - first)
        radial.radial_rows(radial.RBF, z, x[first : first + n], K[:n])
        # Σ_j k (g_j, z_j / √h, 1)
        np.dot(K[:n], terms, sums[:n])
        for i in range(n):
            for k in range(d):
                # α Σ_j k (x - z_j) / h
                push = x[first + i, k] * sums[i, 2 * d] - sums[i, d + k]
                push *= repulsion / math.sqrt(squares[k])
                force[first + i, k] = sums[i, k] + push
    return force


# ---- A step, and the steps along a density -------------------------------------------


@kernel
def move(
    points: Array,
    force: Array,
    paces: Array,
    means: Array,
    step: int,
    rate: float,
) -> None:
    """Take a step of Adam along the force, in place.

    Parameters
    ----------
    points, force : ndarray of shape (R, d)
        The points are changed.
    paces : ndarray of shape (R, d)
        Units of the step of each coordinate; zero for a coordinate that stays.
    means : ndarray of shape (2, R, d)
        Running means of Adam; changed.
    step : int
        Number of the step, from 0 on.
    rate : float
        Largest change in these units.
    """
    change = np.zeros(points.shape)
    # Adam descends
    adam_step(change, force, means[0], means[1], step + 1, rate)
    for i in range(points.shape[0]):
        for k in range(points.shape[1]):
            points[i, k] -= paces[i, k] * change[i, k]


@kernel
def svgd_step(
    points: Array,
    slopes: Array,
    squares: Array,
    factors: Array,
    fresh: bool,
    repulsion: float,
    mirrored: bool,
    paces: Array,
    means: Array,
    step: int,
    rate: float,
) -> None:
    """One step of SVGD: bandwidths, the mean force of the pool, Adam.

    Parameters
    ----------
    points : ndarray of shape (R, d)
        Changed.
    slopes : ndarray of shape (R, d)
        Gradients of the log density at the points.
    squares : ndarray of shape (d,)
        Squared bandwidths; replaced by `bandwidths` with these factors if `fresh`.
    repulsion : float
        α.
    mirrored : bool
        Whether the pool also has the mirror images of the points, with the slopes of an
        even density.
    paces, means, step, rate
        Of :func:`move`.
    """
    R, d = points.shape
    copies = 2 if mirrored else 1
    pool = np.empty((copies * R, d))
    pool_slopes = np.empty((copies * R, d))
    for i in range(R):
        for k in range(d):
            pool[i, k] = points[i, k]
            pool_slopes[i, k] = slopes[i, k]
            if mirrored:
                pool[R + i, k] = -points[i, k]
                pool_slopes[R + i, k] = -slopes[i, k]
    if fresh:
        new_squares = bandwidths(pool, factors)
        for k in range(d):
            squares[k] = new_squares[k]
    force = stein_force(points, pool, pool_slopes, squares, repulsion)
    for i in range(R):
        for k in range(d):
            force[i, k] /= len(pool)
    move(points, force, paces, means, step, rate)


def transport(
    points: Array,
    density: RadialDensity | Score,
    n_steps: int,
    learning_rate: float,
    factors: Array,
    scales: Array | None = None,
) -> Array:
    """Move points by SVGD until they follow an even density, shape (R, d).

    The pool is the points and their mirror images: frequencies ω and -ω are one wave.
    The whole loop is compiled where the density has a formula.

    Parameters
    ----------
    points : ndarray of shape (R, d)
        Start, best with the location and spread of the density.
    density : RadialDensity or callable
        ``h(|x scales|²)``; or ``∇ log p`` at points (R, d), an odd function.
    n_steps : int
        Number of steps of Adam.
    learning_rate : float
        Of the first step, in units of the points; it decays to zero as a cosine.
    factors : ndarray of shape (d,)
        Factors of the bandwidths, see `bandwidths`.
    scales : ndarray of shape (d,), optional
        Scales of a RadialDensity; ones by default.
    """
    moved = np.array(points, dtype=np.float64, order="C")
    if scales is None:
        scales = np.ones(moved.shape[1])
    with one_blas_thread():
        if isinstance(density, RadialDensity):
            _transport_radial(
                moved,
                density.formula,
                density.parameters,
                np.square(scales),
                n_steps,
                learning_rate,
                factors,
            )
            return moved
        squares = np.array(factors, dtype=np.float64)
        paces = np.ones(moved.shape)
        means = np.zeros((2, *moved.shape))
        for step in range(n_steps):
            slopes = np.ascontiguousarray(density(moved), dtype=np.float64)
            fresh = step % _REFRESH == 0
            rate = cosine_decay(step, n_steps, learning_rate)
            svgd_step(
                moved,
                slopes,
                squares,
                factors,
                fresh,
                1.0,
                True,
                paces,
                means,
                step,
                rate,
            )
    return moved


@kernel
def _transport_radial(
    points: Array,
    formula: CompiledFormula,
    parameters: Array,
    curvatures: Array,
    n_steps: int,
    learning_rate: float,
    factors: Array,
) -> None:
    """:func:`transport`, in place, for ``h(Σ curvatures x²)`` of a formula."""
    R, d = points.shape
    squares = np.empty(d)
    radii = np.empty(R)
    radial_slopes = np.empty(R)
    slopes = np.empty((R, d))
    paces = np.empty((R, d))
    means = np.zeros((2, R, d))
    for i in range(R):
        for k in range(d):
            paces[i, k] = 1.0
    for step in range(n_steps):
        for i in range(R):
            radii[i] = 0.0
            for k in range(d):
                radii[i] += curvatures[k] * points[i, k] * points[i, k]
        formula(parameters, parameters, radii, False, radii, radial_slopes)
        for i in range(R):
            for k in range(d):
                slopes[i, k] = 2.0 * radial_slopes[i] * curvatures[k] * points[i, k]
        fresh = step % _REFRESH == 0
        rate = cosine_decay(step, n_steps, learning_rate)
        svgd_step(
            points,
            slopes,
            squares,
            factors,
            fresh,
            1.0,
            True,
            paces,
            means,
            step,
            rate,
        )
