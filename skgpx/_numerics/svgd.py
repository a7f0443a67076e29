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

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import pdist, squareform

from skgpx._numerics import radial
from skgpx._numerics._jit import kernel
from skgpx._numerics.adam import adam_step, cosine_decay
from skgpx._numerics.blas_threads import one_blas_thread

Array = NDArray[np.float64]

# Rows of the kernel matrix that are in memory at a time.
_BLOCK = 256


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
    columns = np.sort(points.T, axis=1)
    return np.array([_median_square(column) for column in columns])


@kernel
def _median_square(x: Array) -> float:
    """:func:`median_squares` of one column (n,), sorted; O(n log n), without pairs."""
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
    """The difference of this rank, from 1, among the pairs of a sorted column.

    The bounds of the bisection are differences that occur: it ends with the element.
    """
    if rank < 1:
        return 0.0
    low, high = 0.0, x[-1] - x[0]
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


def bandwidths(pool: Array, factors: Array | float = 1.0) -> Array:
    """Squared bandwidths h (d,): medians over the pool (P, d), times factors.

    With the factor d about the median of the squared distances, for columns of one
    spread; with 1 points hardly see one another for large d. The factor itself where
    the median is zero: of a single point, or a column of equal ones.
    """
    medians = median_squares(pool)
    return np.where(medians > 0.0, medians, 1.0) * factors


def see_others(points: Array, squares: Array) -> NDArray[np.bool_]:
    """Points (P,) whose kernel with another one is at least 1e-21.

    The force on the others is their own slope, to the last bit. Judged by at most 1024
    columns, evenly spaced: all of them are only farther apart.

    Parameters
    ----------
    points : ndarray of shape (P, d)
    squares : ndarray of shape (d,)
        Squared bandwidths h.
    """
    d = len(squares)
    chosen = np.linspace(0, d - 1, min(d, 1024)).astype(np.intp)
    scaled = points[:, chosen] / np.sqrt(squares[chosen])
    distances = squareform(pdist(scaled, "sqeuclidean"))
    np.fill_diagonal(distances, np.inf)
    seen: NDArray[np.bool_] = np.min(distances, axis=1) < 100.0
    return seen


def stein_force(
    points: Array, pool: Array, slopes: Array, squares: Array, repulsion: float = 1.0
) -> Array:
    """Force (R, d) of a pool on points.

    Parameters
    ----------
    points : ndarray of shape (R, d)
    pool, slopes : ndarray of shape (P, d)
    squares : ndarray of shape (d,)
        Squared bandwidths h.
    repulsion : float, default=1.0
        α; zero only smooths the slopes.

    Notes
    -----
    The gradient in z is ``k (x - z) / h``, so that both sums are one product with the
    kernel matrix. O(R P d), in blocks of rows.
    """
    root, d = np.sqrt(squares), len(squares)
    centre = pool.mean(axis=0)
    far = (pool - centre) / root
    near = far if points is pool else (points - centre) / root
    columns, factors = np.ascontiguousarray(far.T), np.ones((len(far), 2 * d + 1))
    factors[:, :d], factors[:, d:-1] = slopes, far
    force = np.empty(near.shape)
    for first in range(0, len(near), _BLOCK):
        rows = near[first : first + _BLOCK]
        K = np.empty((len(rows), len(far)))
        radial.radial_rows(radial.RBF, columns, rows, K)
        total = K @ factors
        away = rows * total[:, -1:] - total[:, d:-1]
        np.add(total[:, :d], repulsion * away / root, out=force[first : first + _BLOCK])
    return force


def transported(
    points: Array,
    score: Callable[[Array], Array],
    n_steps: int,
    learning_rate: float,
    factors: Array,
) -> Array:
    """Move points by SVGD until they follow an even density, shape (R, d).

    The pool is that of the points and their mirror images: frequencies ω and -ω are one
    wave.

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
        Of the bandwidths, see `bandwidths`.
    """
    moved, squares = np.array(points, dtype=np.float64, order="C"), factors
    means = np.zeros((2, *moved.shape))
    with one_blas_thread():
        for step in range(n_steps):
            scores = score(moved)
            pool, slopes = (np.concatenate((a, -a)) for a in (moved, scores))
            # they change slowly, and sorting takes time
            if step % 5 == 0:
                squares = bandwidths(pool, factors)
            force = stein_force(moved, pool, slopes, squares) / len(pool)
            rate = cosine_decay(step, n_steps, learning_rate)
            adam_step(moved, -force, means[0], means[1], step + 1, rate)
    return moved
