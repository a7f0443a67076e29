"""The one Cholesky factorisation of the project, and triangular solves."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

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
    scale = float(np.mean(np.diagonal(K))) if len(K) else 1.0
    relative = jitter
    while relative <= _LARGEST_JITTER * (1 + 1e-9):
        A = np.array(K, dtype=np.float64, order="F")
        A[np.diag_indices_from(A)] += relative * scale
        factor, failed = linalg.lapack.dpotrf(A, lower=1, clean=1, overwrite_a=1)
        if not failed and np.isfinite(factor[-1, -1] if len(K) else 1.0):
            return Cholesky(np.ascontiguousarray(factor), relative * scale)
        relative = max(relative * 10, 1e-12)
    raise np.linalg.LinAlgError(
        f"A matrix of order {len(K)} is not positive definite after adding "
        f"{_LARGEST_JITTER:g} of its mean diagonal ({scale:g})."
    )


def solve_lower(L: Array, B: Array) -> Array:
    """``L⁻¹ B`` for a lower triangular ``L``."""
    return _solve(L, B, lower=True)


def solve_lower_transpose(L: Array, B: Array) -> Array:
    """``L⁻ᵀ B`` for a lower triangular ``L``."""
    return _solve(L, B, trans="T", lower=True)


def invert_lower(L: Array) -> Array:
    """``L⁻¹``, with a third of the work of solving with the identity."""
    # a row-major lower triangle is an upper one in Fortran's order
    inverse = linalg.lapack.dtrtri(L.T, lower=0)[0]
    result: Array = inverse.T
    return result


def inverse_from_root(L: Array) -> Array:
    """``(L Lᵀ)⁻¹`` from the lower root, symmetric and of its own memory."""
    # a row-major lower root is an upper one in Fortran's order; below it are zeros
    half, _ = linalg.lapack.dpotri(L.T, lower=0)
    inverse: Array = np.ascontiguousarray(half + half.T)
    inverse[np.diag_indices_from(inverse)] *= 0.5
    return inverse


def _solve(L: Array, B: Array, **how: Any) -> Array:
    solution: Array = linalg.solve_triangular(L, B, check_finite=False, **how)
    return solution


def block_diagonal(A: Array, B: Array) -> Array:
    """Matrix of two blocks on the diagonal."""
    out = np.zeros((len(A) + len(B), A.shape[1] + B.shape[1]))
    out[: len(A), : A.shape[1]] = A
    out[len(A) :, A.shape[1] :] = B
    return out


def log_determinant(L: Array) -> float:
    """``log det(L Lᵀ)`` from the lower factor."""
    return 2.0 * float(np.sum(np.log(np.diagonal(L))))
