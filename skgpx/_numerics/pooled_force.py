"""Forces of Stein variational gradient descent on a mixture of sets of frequencies.

A mixture has M components of R frequencies each; ``ω_mr`` in R^d, ``g_mr`` the slope of
the log posterior of component m in it. A force is where a frequency moves to:

* pooled, equations (26) and (28) of [1]_: a kernel between all pairs of frequencies of
  all components. It is plain Stein descent on the pool of M R points, over M::

      f_i = 1/M Σ_j [k(ω_i, ω_j) g_j + α ∇_{ω_j} k(ω_i, ω_j)]

* between components: the kernel compares whole sets, by the distance between their
  means in a space of functions (MMD).

References
----------
.. [1] Warren, Oliveira and Ramos, "Stein random feature regression", UAI 2024.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics import radial
from skgpx._numerics.pair_medians import median_square

Array = NDArray[np.float64]

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
        radial.radial_rows(code, 0.0, points, rows, K)
        return K @ both
    slopes = np.empty_like(K)
    radial.radial_rows_and_slopes(code, 0.0, points, rows, K, slopes)
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
    radial.radial_rows(radial.RBF, 0.0, np.ascontiguousarray(other.T), one, K)
    slope = (K @ other - K.sum(axis=1, keepdims=True) * one) / K.size
    return float(K.mean()), slope
