"""Stationary processes on a regular lattice: circulant embedding, and cubic splines.

The covariance of a stationary process at the nodes of a lattice, wrapped around a torus
of at least twice its width, is circulant: the Fourier transform diagonalises it [1]_.
A process between the nodes is the cubic spline through the values at the nodes; on a
torus its coefficients are a quotient of Fourier transforms.

References
----------
.. [1] Dietrich and Newsam, "Fast and exact simulation of stationary Gaussian processes
   through circulant embedding of the covariance matrix", SIAM Journal on Scientific
   Computing, 1997.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np
from scipy import fft

from skgpx._types import Array, Generator, Index

# Lags of a torus at which a covariance is evaluated at a time.
_LAGS = 2**16


# ---- The embedding -------------------------------------------------------------------


def embed(
    covariance: Callable[[Array], Array],
    shape: Sequence[int],
    spacing: Array,
) -> tuple[Array, float]:
    """Eigenvalues of a circulant matrix that holds the covariance of a lattice.

    The torus has at least twice as many nodes as the lattice along each axis. It grows
    by a half until negative eigenvalues are less than a millionth of the sum, or it
    would have more than 2^20 nodes.

    Parameters
    ----------
    covariance : callable
        Maps lags (n, d) to covariances (n,).
    shape : sequence of int
        Nodes along each axis.
    spacing : ndarray of shape (d,)
        Distance of neighbouring nodes.

    Returns
    -------
    eigenvalues : ndarray, one axis for each input
        Not negative; their mean is the variance.
    clipped : float
        Size of the negative eigenvalues as a fraction of the sum of all. They are set
        to zero, and the positive ones scaled such that the variance is right.
    """
    torus = tuple(fft.next_fast_len(2 * n) for n in shape)
    while True:
        eigenvalues = _eigenvalues(covariance, torus, spacing)
        variance = eigenvalues.sum()
        positive = np.maximum(eigenvalues, 0.0)
        clipped = float(positive.sum() / variance - 1.0)
        larger_torus = tuple(fft.next_fast_len(n + n // 2) for n in torus)
        # a torus of 2**20 nodes takes 8 MB for one function
        if clipped <= 1e-6 or np.prod(larger_torus) > 2**20:
            scale = variance / positive.sum()
            return positive * scale, clipped
        torus = larger_torus


def _eigenvalues(
    covariance: Callable[[Array], Array],
    torus: tuple[int, ...],
    spacing: Array,
) -> Array:
    """Fourier transform of the covariance at the shortest lag to each node."""
    # 0, 1, ..., n/2, ..., -2, -1 times the spacing, along each axis
    axes = []
    for n, h in zip(torus, spacing, strict=True):
        steps = fft.fftfreq(n, 1.0 / n)
        axes.append(steps * h)
    n_nodes = int(np.prod(torus))
    values = np.empty(n_nodes)
    for first in range(0, n_nodes, _LAGS):
        last = min(first + _LAGS, n_nodes)
        nodes = np.arange(first, last)
        positions = np.unravel_index(nodes, torus)
        lags = [axis[p] for axis, p in zip(axes, positions, strict=True)]
        values[nodes] = covariance(np.column_stack(lags))
    transform = fft.fftn(values.reshape(torus))
    return transform.real


# ---- Processes with these eigenvalues ------------------------------------------------


def spline_transfer(torus: Sequence[int]) -> Array:
    """Eigenvalues of the map from coefficients of a cubic spline to values at nodes."""
    d = len(torus)
    transfer = np.ones(tuple(torus))
    for axis, n in enumerate(torus):
        # (2 + cos ω) / 3, of the values 1/6, 4/6, 1/6 of a spline at its nodes
        omega = 2.0 * np.pi * np.arange(n) / n
        factor = (2.0 + np.cos(omega)) / 3.0
        other_axes = [k for k in range(d) if k != axis]
        transfer *= np.expand_dims(factor, other_axes)
    return transfer


def draw(
    roots: Array,
    shape: Sequence[int],
    size: int,
    rng: Generator,
) -> Array:
    """Draw from the process with circulant covariance, at the nodes of a lattice.

    Parameters
    ----------
    roots : ndarray of the shape of the torus
        Square roots of the eigenvalues.
    shape : sequence of int
        Nodes of the lattice along each axis.
    size : int
        Number of draws.

    Returns
    -------
    values : ndarray of shape (n_nodes, size)

    Notes
    -----
    O(N log N) time for each draw and O(N) memory for a torus of N nodes.
    """
    corner = tuple(slice(n) for n in shape)
    n_nodes = int(np.prod(shape))
    values = np.empty((n_nodes, size))
    for first in range(0, size, 2):
        # real and imaginary part of F Λ^½ (a + ib) / √N are independent
        white = np.empty(roots.shape, dtype=np.complex128)
        white.real = rng.standard_normal(roots.shape)
        white.imag = rng.standard_normal(roots.shape)
        on_torus = fft.fftn(roots * white, norm="ortho", overwrite_x=True)
        pair = on_torus[corner].ravel()
        values[:, first] = pair.real
        if first + 1 < size:
            values[:, first + 1] = pair.imag
    return values


def multiply(roots: Array, shape: Sequence[int], vectors: Array) -> Array:
    """Covariance of the values at the nodes times vectors (k, n_nodes)."""
    corner = tuple(slice(n) for n in shape)
    product = np.empty(vectors.shape)
    for first in range(0, len(vectors), 2):
        # C is real: real and imaginary part of C (a + ib) are C a and C b
        pair = vectors[first : first + 2]
        a = pair[0]
        b = pair[-1]
        padded = np.zeros(roots.shape, dtype=np.complex128)
        padded[corner] = (a + 1j * b).reshape(shape)
        waves = fft.fftn(padded, overwrite_x=True)
        on_torus = fft.ifftn(roots**2 * waves)
        C_pair = on_torus[corner].ravel()
        product[first] = C_pair.real
        if len(pair) == 2:
            product[first + 1] = C_pair.imag
    return product


# ---- Cubic splines -------------------------------------------------------------------


def spline_weights(
    positions: Array,
    shape: Sequence[int],
) -> tuple[Index, Array, Array]:
    """Coefficients that a cubic spline combines, with weights and their slopes.

    Parameters
    ----------
    positions : ndarray of shape (n, d)
        In units of the spacing, from the second coefficient along each axis.
    shape : sequence of int
        Coefficients along each axis.

    Returns
    -------
    coefficients : ndarray of shape (n, 4^d)
        Positions among the coefficients, the last axis varying fastest.
    weights : ndarray of shape (n, 4^d)
    slopes : ndarray of shape (n, 4^d, d)
        Derivatives of the weights in the positions.
    """
    n, d = positions.shape
    last_cell = np.asarray(shape) - 4
    cell = np.floor(positions).astype(np.intp)
    cell = np.clip(cell, 0, last_cell)
    # the four cubic pieces at t in [0, 1], and their derivatives, of each axis
    t = positions - cell
    pieces = (
        (1.0 - t) ** 3,
        3.0 * t**3 - 6.0 * t**2 + 4.0,
        3.0 * (t + t**2 - t**3) + 1.0,
        t**3,
    )
    piece_slopes = (
        -0.5 * (1.0 - t) ** 2,
        1.5 * t**2 - 2.0 * t,
        0.5 + t - 1.5 * t**2,
        0.5 * t**2,
    )
    axis_weights = np.stack(pieces) / 6.0
    axis_slopes = np.stack(piece_slopes)
    # steps of the flat position along each axis: n_2 n_3, n_3, 1 of three
    from_last = np.cumprod(shape[:0:-1])
    steps = np.append(from_last[::-1], 1).astype(np.intp)
    coefficients = np.empty((n, 4**d), dtype=np.intp)
    weights = np.empty((n, 4**d))
    slopes = np.empty((n, 4**d, d))
    # products over the axes
    for k, corner in enumerate(itertools.product(range(4), repeat=d)):
        coefficients[:, k] = (cell + corner) @ steps
        factors = [axis_weights[j, :, axis] for axis, j in enumerate(corner)]
        weights[:, k] = np.prod(factors, axis=0)
        # the product rule: one factor is replaced by its derivative
        for axis, j in enumerate(corner):
            slope_factors = [axis_slopes[j, :, axis]]
            slope_factors += factors[:axis]
            slope_factors += factors[axis + 1 :]
            slopes[:, k, axis] = np.prod(slope_factors, axis=0)
    return coefficients, weights, slopes
