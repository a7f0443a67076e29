"""Stein variational gradient descent: points moved until they follow a density.

Liu and Wang, "Stein variational gradient descent: a general purpose Bayesian inference
algorithm", NeurIPS 2016.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics._jit import inlined, kernel
from skgpx._numerics.adam import adam_step, cosine_decay
from skgpx._numerics.elementary import exp
from skgpx._numerics.linalg import cholesky, solve_lower, solve_lower_transpose
from skgpx._numerics.pair_medians import median_squares

Array = NDArray[np.float64]
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
