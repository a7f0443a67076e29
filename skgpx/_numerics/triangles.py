"""Symmetric matrices of which only the lower triangle is computed and read."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics._jit import kernel, reduction

Array = NDArray[np.float64]


@reduction
def inner_product(A: Array, B: Array) -> float:
    """``Σ_ij A_ij B_ij`` over both triangles."""
    total = 0.0
    for i in range(len(A)):
        row = 0.0
        for j in range(i):
            row += A[i, j] * B[i, j]
        total += 2.0 * row + A[i, i] * B[i, i]
    return total


@kernel
def subtract_from_square(A: Array, a: Array) -> None:
    """Overwrite A by ``½ (a aᵀ - A)``."""
    for i in range(len(A)):
        row, half = A[i], 0.5 * a[i]
        for j in range(i + 1):
            row[j] = half * a[j] - 0.5 * row[j]


@kernel
def scale_and_shift(A: Array, factor: float, shift: float) -> None:
    """Overwrite A by ``factor A + shift I``."""
    for i in range(len(A)):
        row = A[i]
        for j in range(i + 1):
            row[j] *= factor
        row[i] += shift


@kernel
def mirror(A: Array) -> None:
    """Copy the lower triangle of A to the upper one, in blocks for the cache."""
    n, size = len(A), 32
    for first in range(0, n, size):
        for start in range(0, first + size, size):
            for i in range(first, min(first + size, n)):
                for j in range(start, min(start + size, i)):
                    A[j, i] = A[i, j]


@kernel
def lower_copied(A: Array, out: Array) -> None:
    """Write the lower triangle of A, and zeros above it."""
    for i in range(len(A)):
        out[i, : i + 1] = A[i, : i + 1]
        out[i, i + 1 :] = 0.0


def mirrored(A: Array) -> Array:
    """Both triangles."""
    below: Array = np.tril(A, -1)
    return np.tril(A) + below.T


@reduction
def triangle_slopes(G: Array, W: Array, X: Array) -> Array:
    """``Σ_ij G_ij W_ij (x_iq - x_jq)²`` for each input q, from lower triangles.

    Shapes (n, n), (n, n) and (n, d).
    """
    n, d = X.shape
    points, out = np.ascontiguousarray(X.T), np.zeros(d)
    product = np.empty(n)
    for i in range(1, n):
        for j in range(i):
            product[j] = G[i, j] * W[i, j]
        for q in range(d):
            x, z, total = points[q], points[q, i], 0.0
            for j in range(i):
                total += product[j] * (x[j] - z) * (x[j] - z)
            out[q] += 2.0 * total
    return out
