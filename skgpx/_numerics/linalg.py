"""Linear algebra: triangles, LAPACK in place, one jittered Cholesky.

Matrices are row-major: their lower triangle is the upper one in Fortran's order, so
that routines of SciPy that get the transposed matrix overwrite it without a copy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, lapack

from skgpx._numerics._jit import kernel, reduction
from skgpx._numerics.blas_threads import threads_for

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


# ---- Factorisations and solves in place ----------------------------------------------


def _in_place(routine: Callable[..., Any], A: Array, **options: Any) -> bool:
    """Overwrite a C-contiguous square matrix; False if the routine fails."""
    if not len(A):
        return True
    with threads_for(len(A)):
        return bool(routine(A.T, lower=0, **options)[-1] == 0)


def invert_factorised(L: Array) -> bool:
    """Overwrite a lower factor by the lower triangle of ``(L Lᵀ)⁻¹``.

    False, and L is worthless, if a diagonal entry is zero.
    """
    return _in_place(lapack.dpotri, L, overwrite_c=1)


def add_gram(rows: Array, gram: Array, fresh: bool) -> None:
    """Add ``A Aᵀ`` to the lower triangle of a matrix, or write it if that is fresh.

    Half the work of a product, n m², for rows A (m, n) and gram (m, m), both
    C-contiguous.
    """
    if not rows.size:
        if fresh:
            gram[np.tril_indices(len(gram))] = 0.0
        return
    with threads_for(len(rows)):
        how = {"trans": 1, "lower": 0, "overwrite_c": 1}
        blas.dsyrk(1.0, rows.T, 0.0 if fresh else 1.0, gram.T, **how)


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


def cholesky(K: Array, jitter: float = 1e-10, space: Array | None = None) -> Cholesky:
    """Jittered Cholesky factor of a symmetric positive semi-definite matrix.

    Parameters
    ----------
    K : ndarray of shape (m, m)
        Symmetric; finite (not checked). Only the lower triangle is read.
    jitter : float, default=1e-10
        First amount added to the diagonal, relative to its mean; multiplied by ten
        until the factorisation succeeds, up to 1e-4.
    space : ndarray of shape (m, m), optional
        C-contiguous memory of the factor.

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
    relative, scale = jitter, 0.0
    while relative <= _LARGEST_JITTER * (1 + 1e-9):
        A = np.empty(K.shape) if space is None else space
        A[:] = np.tril(K)
        if relative:
            scale = float(np.mean(np.diagonal(K))) if len(K) else 1.0
            np.einsum("ii->i", A)[:] += relative * scale
        found = _in_place(lapack.dpotrf, A, clean=0, overwrite_a=1)
        if found and np.isfinite(A[-1, -1] if len(K) else 1.0):
            return Cholesky(A, relative * scale)
        relative = max(relative * 10, 1e-12)
    raise np.linalg.LinAlgError(
        f"A matrix of order {len(K)} is not positive definite after adding "
        f"{_LARGEST_JITTER:g} of its mean diagonal ({scale:g})."
    )


def inverse_root(K: Array, space: Array | None = None) -> Array:
    """``L⁻¹`` of :func:`cholesky`, without jitter where that is possible."""
    L = cholesky(K, 0.0, space).L
    _in_place(lapack.dtrtri, L, overwrite_c=1)
    return L


_SINGULAR = "A triangle of order {} is singular."


def solve_lower(L: Array, B: Array, transposed: bool = False) -> Array:
    """``L⁻¹ B``, or ``L⁻ᵀ B``, for a lower triangle and B of shape (m,) or (m, k).

    Raises
    ------
    numpy.linalg.LinAlgError
        If L is singular.
    """
    L, solution = np.ascontiguousarray(L), np.array(B, dtype=np.float64)
    if not np.diagonal(L).all():
        raise np.linalg.LinAlgError(_SINGULAR.format(len(L)))
    if not solution.size:
        return solution
    if solution.ndim == 1:
        blas.dtrsv(L.T, solution, lower=0, trans=not transposed, overwrite_x=1)
        return solution
    with threads_for(len(L)):
        how = {"lower": 0, "overwrite_b": 1}
        if solution.flags.f_contiguous:
            blas.dtrsm(1.0, L.T, solution, side=0, trans_a=not transposed, **how)
        else:
            # Bᵀ in Fortran's order: X L⁻ᵀ from the right, transposed
            blas.dtrsm(1.0, L.T, solution.T, side=1, trans_a=transposed, **how)
    return solution


def solve_lower_transpose(L: Array, B: Array) -> Array:
    """``L⁻ᵀ B``; see :func:`solve_lower`."""
    return solve_lower(L, B, transposed=True)


def invert_lower(L: Array) -> Array:
    """``L⁻¹``, with a third of the work of solving with the identity."""
    inverse = np.array(L, order="C")
    if not _in_place(lapack.dtrtri, inverse, overwrite_c=1):
        raise np.linalg.LinAlgError(_SINGULAR.format(len(L)))
    return inverse


def square_triangle(L: Array) -> Array:
    """Overwrite a lower triangle by ``LᵀL``, symmetric, and return it."""
    _in_place(lapack.dlauum, L, overwrite_c=1)
    mirror(L)
    return L


def log_determinant(L: Array) -> float:
    """``log det(L Lᵀ)`` from the lower factor."""
    return 2.0 * float(np.sum(np.log(np.diagonal(L))))


# ---- Pivoted Cholesky of an implicit matrix ------------------------------------------


Index = NDArray[np.intp] | slice
Entries = Callable[[Index, Index], Array]

# Rows among which pivots are looked for before all rows are updated.
_BLOCK = 128
# Residuals closer than this, relative to the largest diagonal entry, are ties:
# far above the rounding of the downdates, far below any difference that matters.
_TIE = 1e-12


class PivotedCholesky(NamedTuple):
    """Partial factorisation ``K ≈ rows.T @ rows`` and its residual.

    Attributes
    ----------
    pivots : ndarray of shape (m,)
        Indices of the chosen rows of ``K``, in the order of choice.
    rows : ndarray of shape (m, n)
        Factor; ``rows[:, pivots]`` is upper triangular and ``rows`` equals
        ``L^{-1} K[pivots]`` with ``L`` the Cholesky factor of the pivot block.
    residual : ndarray of shape (n,)
        Diagonal of ``K - rows.T @ rows``, not negative.
    """

    pivots: NDArray[np.intp]
    rows: NDArray[np.float64]
    residual: NDArray[np.float64]


def pivoted_cholesky(
    entries: Entries,
    diagonal: Array,
    n_pivots: int,
    tolerance: float = 1e-10,
    priority: NDArray[np.intp] | None = None,
    trace: float = 0.0,
    trace_per_pivot: float = np.inf,
) -> PivotedCholesky:
    """Greedy partial Cholesky: takes the row of largest conditional variance each time.

    Parameters
    ----------
    entries : callable
        ``entries(i, j)`` returns the rows `i` and columns `j` of the matrix, two
        arrays of indices or slices; all columns of a pivot are evaluated once, so the
        matrix itself is never formed.
    diagonal : ndarray of shape (n,)
        Diagonal of the matrix, not negative.
    n_pivots : int
        Largest number of pivots.
    tolerance : float, default=1e-10
        Stop when no residual exceeds this multiple of the largest diagonal entry.
    priority : ndarray of shape (n,), optional
        Among rows whose residuals tie, the one of smallest priority is chosen;
        None means the position.
    trace : float, default=0.0
        Stop when the residuals sum to no more than this, up to 128 pivots later and
        never before the first.
    trace_per_pivot : float, optional
        And to no more than this times the number of pivots.

    Returns
    -------
    factorisation : PivotedCholesky
        With at most ``n_pivots`` pivots.

    Notes
    -----
    O(n m^2) time in matrix products, O(n m) memory. Residuals only ever fall: among
    the 128 rows with the largest, pivots are those of the whole matrix for as long as
    they exceed what the others had when the block was formed.
    """
    n = diagonal.shape[0]
    n_pivots = min(n_pivots, n)
    residual = diagonal.astype(np.float64, copy=True)
    rows = np.empty((n_pivots, n))
    pivots = np.empty(n_pivots, dtype=np.intp)
    scale = residual.max(initial=0.0)
    order = np.arange(n) if priority is None else priority
    k = 0
    while k < n_pivots and residual.max() > tolerance * scale:
        if k and residual.sum() <= min(trace, k * trace_per_pivot):
            break
        block, limit = _largest(residual, order, _TIE * scale)
        # S = K_BB - R_Bᵀ R_B
        near = np.ascontiguousarray(rows[:k, block])
        inner = entries(block, block) - near.T @ near
        limit, left = max(limit, tolerance * scale), n_pivots - k
        chosen, factor = _pivots_of_block(
            inner,
            residual[block],
            order[block],
            left,
            limit,
            _TIE * scale,
        )
        new = block[chosen]
        stop = k + len(new)
        # R_P = T_P⁻ᵀ (K_P - R_Pᵀ R), with T the factor of the block
        more = entries(new, slice(None)) - near[:, chosen].T @ rows[:k]
        rows[k:stop] = solve_lower(factor[:, chosen].T, more)
        residual -= np.einsum("ij,ij->j", rows[k:stop], rows[k:stop])
        np.maximum(residual, 0.0, out=residual)
        residual[new] = 0.0
        pivots[k:stop] = new
        k = stop
    return PivotedCholesky(pivots[:k], rows[:k], residual)


def _largest(
    residual: Array,
    order: NDArray[np.intp],
    slack: float,
) -> tuple[NDArray[np.intp], float]:
    """Rows of the largest residuals, and what a later pivot among them must exceed."""
    n = residual.shape[0]
    if n <= _BLOCK:
        return np.arange(n), -np.inf
    tied = np.flatnonzero(residual >= residual.max() - slack)
    if len(tied) > _BLOCK:
        # the others have residuals as large, but come later
        first = np.argsort(order[tied], kind="stable")[:_BLOCK]
        return np.sort(tied[first]), float(residual.max() - slack)
    ranks = np.argpartition(residual, n - _BLOCK)
    limit = float(residual[ranks[: n - _BLOCK]].max()) + slack
    return np.sort(ranks[n - _BLOCK :]), limit


def _pivots_of_block(
    inner: Array,
    residual: Array,
    order: NDArray[np.intp],
    n_pivots: int,
    limit: float,
    slack: float,
) -> tuple[NDArray[np.intp], Array]:
    """Pivots of a block above a limit (the first always), and their factor."""
    factor = np.empty((min(n_pivots, len(inner)), len(inner)))
    chosen: list[int] = []
    for k in range(len(factor)):
        tied = np.flatnonzero(residual >= residual.max() - slack)
        pivot = int(tied[np.argmin(order[tied])])
        if k and not residual[pivot] > limit:
            break
        row = np.subtract(inner[pivot], factor[:k, pivot] @ factor[:k], out=factor[k])
        row /= np.sqrt(residual[pivot])
        residual -= row * row
        np.maximum(residual, 0.0, out=residual)
        residual[pivot] = 0.0
        chosen.append(pivot)
    return np.array(chosen, dtype=np.intp), factor[: len(chosen)]
