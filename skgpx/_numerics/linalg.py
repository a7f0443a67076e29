"""Linear algebra: triangles, LAPACK without copies, one jittered Cholesky."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics import lapack
from skgpx._numerics._jit import kernel, reduction

# ---- Symmetric matrices of which only the lower triangle is computed and read --------


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


# ---- The one Cholesky factorisation of the project, and triangular solves ------------


_LARGEST_JITTER = 1e-4
# The one exception to "jitter is added by `cholesky`": drawn functions treat every
# value that they are given, or remember, as observed with a noise variance of at least
# this fraction of the prior variance. It is part of their model.
NUGGET = 1e-10


class Cholesky(NamedTuple):
    """Lower factor of ``K + jitter * I``.

    Attributes
    ----------
    L : ndarray of shape (m, m)
        Lower triangular, ``L @ L.T = K + jitter * I``.
    jitter : float
        What was added to the diagonal, in the units of ``K``.
    """

    L: Array
    jitter: float


def cholesky(K: Array, jitter: float = 1e-10) -> Cholesky:
    """Jittered Cholesky factor of a symmetric positive semi-definite matrix.

    Parameters
    ----------
    K : ndarray of shape (m, m)
        Symmetric; finite (not checked). Left unchanged.
    jitter : float, default=1e-10
        First amount added to the diagonal, relative to its mean; multiplied by ten
        until the factorisation succeeds, up to 1e-4.

    Returns
    -------
    factor : Cholesky
        Lower factor and the absolute jitter used.

    Raises
    ------
    numpy.linalg.LinAlgError
        When the matrix is not positive definite with the largest jitter.

    Notes
    -----
    O(m^3) time for each attempt.
    """
    return _jittered(lapack.factorise, K, jitter, None)


def inverse_root(K: Array, space: Array | None = None) -> Array:
    """``L⁻¹`` of the factor, lower triangular; without jitter where that is possible.

    Faster than factor and solves; of K (m, m) only the lower triangle is read. In the
    memory of `space` (m, m), if that is given and K is C-contiguous. Errors as of
    :func:`cholesky`.
    """
    return _jittered(lapack.invert_root, K, 0.0, space).L


def _jittered(
    factorise: Callable[[Array], bool], K: Array, jitter: float, space: Array | None
) -> Cholesky:
    """Factor with the least jitter with which there is one."""
    relative, scale = jitter, 0.0
    while relative <= _LARGEST_JITTER * (1 + 1e-9):
        A = _lower_copied(K, space)
        if relative:
            scale = float(np.mean(np.diagonal(K))) if len(K) else 1.0
            diagonal_of(A)[:] += relative * scale
        if factorise(A) and np.isfinite(A[-1, -1] if len(K) else 1.0):
            return Cholesky(A, relative * scale)
        relative = max(relative * 10, 1e-12)
    raise np.linalg.LinAlgError(
        f"A matrix of order {len(K)} is not positive definite after adding "
        f"{_LARGEST_JITTER:g} of its mean diagonal ({scale:g})."
    )


def _lower_copied(K: Array, space: Array | None) -> Array:
    """Lower triangle of K with zeros above, in the memory given or in new memory."""
    if space is not None:
        lower_copied(K, space)
        return space
    A = np.array(K, dtype=np.float64, order="C")
    for i in range(len(A)):
        A[i, i + 1 :] = 0.0
    return A


def solve_lower(L: Array, B: Array) -> Array:
    """``L⁻¹ B`` for a lower triangular ``L`` and B of shape (m,) or (m, k).

    Raises
    ------
    numpy.linalg.LinAlgError
        If L is singular.
    """
    return _solve(L, B, transposed=False)


def solve_lower_transpose(L: Array, B: Array) -> Array:
    """``L⁻ᵀ B``; see :func:`solve_lower`."""
    return _solve(L, B, transposed=True)


def invert_lower(L: Array) -> Array:
    """``L⁻¹``, with a third of the work of solving with the identity."""
    inverse = np.array(L, order="C")
    _check_regular(lapack.invert_triangle(inverse), L)
    return inverse


def square_triangle(L: Array) -> Array:
    """Overwrite a lower triangle by ``LᵀL``, symmetric, and return it."""
    lapack.square_triangle(L)
    mirror(L)
    return L


def _solve(L: Array, B: Array, transposed: bool) -> Array:
    L, solution = np.ascontiguousarray(L), np.array(B, dtype=np.float64)
    _check_regular(bool(np.diagonal(L).all()), L)
    if solution.size:
        lapack.solve_triangle(L, solution, transposed)
    return solution


def _check_regular(regular: bool, L: Array) -> None:
    if not regular:
        raise np.linalg.LinAlgError(f"A triangle of order {len(L)} is singular.")


def block_diagonal(A: Array, B: Array) -> Array:
    """Matrix of two blocks on the diagonal."""
    out = np.zeros((len(A) + len(B), A.shape[1] + B.shape[1]))
    out[: len(A), : A.shape[1]] = A
    out[len(A) :, A.shape[1] :] = B
    return out


def diagonal_of(A: Array) -> Array:
    """Diagonal as a view that can be written to."""
    view: Array = np.einsum("ii->i", A)
    return view


def log_determinant(L: Array) -> float:
    """``log det(L Lᵀ)`` from the lower factor."""
    return 2.0 * float(np.sum(np.log(np.diagonal(L))))
