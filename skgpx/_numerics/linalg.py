"""The one Cholesky factorisation of the project, and triangular solves."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics import lapack, triangles

Array = NDArray[np.float64]

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
        triangles.lower_copied(K, space)
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
    triangles.mirror(L)
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
