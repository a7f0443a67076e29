"""Linear algebra: triangles, LAPACK in place, one jittered Cholesky.

Matrices are row-major. In Fortran's order their lower triangle is the upper triangle:
SciPy's routines, called with the transposed matrix, overwrite it without a copy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import blas, lapack

from skgpx._numerics._jit import kernel, reduction
from skgpx._numerics.blas_threads import threads_for
from skgpx._types import Array, Index, Selection

# ---- Symmetric matrices; only the lower triangle is computed and read ----------------


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
def mirror(A: Array) -> None:
    """Copy the lower triangle of A to the upper one, in blocks for the cache."""
    n = len(A)
    size = 32
    for first_row in range(0, n, size):
        for first_column in range(0, first_row + size, size):
            for i in range(first_row, min(first_row + size, n)):
                for j in range(first_column, min(first_column + size, i)):
                    A[j, i] = A[i, j]


def mirrored(A: Array) -> Array:
    """Symmetric matrix from its lower triangle."""
    below: Array = np.tril(A, -1)
    return np.tril(A) + below.T


@reduction
def triangle_slopes(G: Array, W: Array, X: Array) -> Array:
    """``Σ_ij G_ij W_ij (x_iq - x_jq)²`` for each input q, from lower triangles.

    Shapes (n, n), (n, n) and (n, d).
    """
    n, d = X.shape
    columns = np.ascontiguousarray(X.T)
    product = np.empty(n)
    out = np.zeros(d)
    for i in range(1, n):
        for j in range(i):
            product[j] = G[i, j] * W[i, j]
        for q in range(d):
            x = columns[q]
            z = columns[q, i]
            total = 0.0
            for j in range(i):
                total += product[j] * (x[j] - z) * (x[j] - z)
            out[q] += 2.0 * total
    return out


# ---- Factorisations and solves in place ----------------------------------------------


def _in_place(routine: Callable[..., Any], A: Array, **options: Any) -> bool:
    """Overwrite a C-contiguous square matrix by LAPACK; False if the routine fails."""
    if len(A) == 0:
        return True
    with threads_for(len(A)):
        info = routine(A.T, lower=0, **options)[-1]
    return bool(info == 0)


def invert_factorised(L: Array) -> bool:
    """Overwrite a lower factor by the lower triangle of ``(L Lᵀ)⁻¹``.

    Returns False if a diagonal entry is zero; L then has no meaning.
    """
    return _in_place(lapack.dpotri, L, overwrite_c=1)


def add_gram(rows: Array, gram: Array, fresh: bool) -> None:
    """Add ``A Aᵀ`` to the lower triangle of a matrix, or overwrite it if `fresh`.

    Half the work of a product, n m², for rows A (m, n) and gram (m, m), both
    C-contiguous.
    """
    if rows.size == 0:
        if fresh:
            gram[np.tril_indices(len(gram))] = 0.0
        return
    # gram = A Aᵀ + β gram
    beta = 1.0
    if fresh:
        beta = 0.0
    with threads_for(len(rows)):
        blas.dsyrk(
            alpha=1.0,
            a=rows.T,
            beta=beta,
            c=gram.T,
            trans=1,
            lower=0,
            overwrite_c=1,
        )


# ---- The one Cholesky factorisation of the project, and triangular solves ------------


_LARGEST_JITTER = 1e-4
# The exception to "jitter is added by `cholesky`": drawn functions treat each of their
# values as observed with a noise variance of at least this fraction of the prior
# variance. It is part of their model.
NUGGET = 1e-10


class Cholesky(NamedTuple):
    """Lower factor of ``K + jitter * I``.

    Attributes
    ----------
    L : ndarray of shape (m, m)
        Lower triangular, ``L @ L.T = K + jitter * I``.
    jitter : float
        Number added to the diagonal, in the units of ``K``.
    """

    L: Array
    jitter: float


def cholesky(
    K: Array,
    jitter: float = 1e-10,
    space: Array | None = None,
    added: float | Array = 0.0,
) -> Cholesky:
    """Jittered Cholesky factor of a symmetric positive semi-definite matrix.

    Parameters
    ----------
    K : ndarray of shape (m, m)
        Symmetric; finite (not checked). Only the lower triangle is read.
    jitter : float, default=1e-10
        First amount added to the diagonal, relative to its mean; multiplied by ten
        until the factorisation succeeds, up to 1e-4.
    space : ndarray of shape (m, m), optional
        C-contiguous memory for the factor.
    added : float or ndarray of shape (m,), default=0.0
        Belongs to the diagonal of K.

    Returns
    -------
    factor : Cholesky
        Lower factor and the absolute jitter used.

    Raises
    ------
    numpy.linalg.LinAlgError
        If the matrix is not positive definite with the largest jitter.

    Notes
    -----
    O(m^3) time for each attempt.
    """
    m = len(K)
    relative = jitter
    scale = 0.0
    while relative <= _LARGEST_JITTER * (1 + 1e-9):
        L = space
        if L is None:
            L = np.empty(K.shape)
        L[:] = K
        diagonal = np.einsum("ii->i", L)
        diagonal += added
        if relative > 0.0 and m > 0:
            scale = float(np.mean(diagonal))
            diagonal += relative * scale
        succeeds = _in_place(lapack.dpotrf, L, clean=1, overwrite_a=1)
        # a NaN reaches the last entry of the factor
        if succeeds and np.all(np.isfinite(L[-1:, -1:])):
            return Cholesky(L, relative * scale)
        relative = max(relative * 10, 1e-12)
    raise np.linalg.LinAlgError(
        f"A matrix of order {len(K)} is not positive definite after adding "
        f"{_LARGEST_JITTER:g} of its mean diagonal ({scale:g})."
    )


def inverse_root(
    K: Array,
    space: Array | None = None,
    added: float = 0.0,
) -> Array:
    """``L⁻¹`` of :func:`cholesky`, without jitter if possible."""
    L = cholesky(K, 0.0, space, added).L
    _in_place(lapack.dtrtri, L, overwrite_c=1)
    return L


_SINGULAR = "A triangle of order {} is singular."


def solve_lower(
    L: Array,
    B: Array,
    transposed: bool = False,
) -> Array:
    """``L⁻¹ B``, or ``L⁻ᵀ B``, for a lower triangle L and B of shape (m,) or (m, k).

    Raises
    ------
    numpy.linalg.LinAlgError
        If L is singular.
    """
    L = np.ascontiguousarray(L)
    solution = np.array(B, dtype=np.float64)
    if not np.diagonal(L).all():
        raise np.linalg.LinAlgError(_SINGULAR.format(len(L)))
    if solution.size == 0:
        return solution
    if solution.ndim == 1:
        blas.dtrsv(
            L.T,
            solution,
            lower=0,
            trans=not transposed,
            overwrite_x=1,
        )
        return solution
    with threads_for(len(L)):
        if solution.flags.f_contiguous:
            blas.dtrsm(
                1.0,
                L.T,
                solution,
                side=0,
                trans_a=not transposed,
                lower=0,
                overwrite_b=1,
            )
        else:
            # Bᵀ in Fortran's order: solve Xᵀ Lᵀ = Bᵀ from the right
            blas.dtrsm(
                1.0,
                L.T,
                solution.T,
                side=1,
                trans_a=transposed,
                lower=0,
                overwrite_b=1,
            )
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
    log_diagonal = np.log(np.diagonal(L))
    return 2.0 * float(np.sum(log_diagonal))


# ---- Pivoted Cholesky of an implicit matrix ------------------------------------------


Entries = Callable[[Selection, Selection], Array]

# Number of candidate rows for the pivots between two updates of all rows.
_BLOCK = 128


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

    pivots: Index
    rows: Array
    residual: Array


def pivoted_cholesky(
    entries: Entries,
    diagonal: Array,
    n_pivots: int,
    tolerance: float = 1e-10,
    trace: float = 0.0,
    trace_per_pivot: float = np.inf,
) -> PivotedCholesky:
    """Greedy partial Cholesky: each pivot is the row of largest conditional variance.

    Parameters
    ----------
    entries : callable
        ``entries(i, j)`` returns the rows `i` and columns `j` of the matrix, given as
        arrays of indices or slices. All columns of a pivot are evaluated once; the
        matrix itself is never formed.
    diagonal : ndarray of shape (n,)
        Diagonal of the matrix, not negative.
    n_pivots : int
        Largest number of pivots.
    tolerance : float, default=1e-10
        Stop when no residual exceeds this multiple of the largest diagonal entry.
    trace : float, default=0.0
        Stop when the sum of the residuals is at most this (checked after blocks of up
        to 128 pivots, not before the first) and at most `trace_per_pivot` times the
        number of pivots.
    trace_per_pivot : float, optional
        See `trace`.

    Returns
    -------
    factorisation : PivotedCholesky
        With at most ``n_pivots`` pivots.

    Notes
    -----
    O(n m^2) time in matrix products, O(n m) memory. Residuals never increase: pivots
    among the 128 rows with the largest residuals are pivots of the complete matrix as
    long as they exceed the largest residual of the other rows at the start of the
    block.
    """
    n = diagonal.shape[0]
    n_pivots = min(n_pivots, n)
    residual = diagonal.astype(np.float64, copy=True)
    rows = np.empty((n_pivots, n))
    pivots = np.empty(n_pivots, dtype=np.intp)
    scale = residual.max(initial=0.0)
    smallest = tolerance * scale
    # residuals that differ by less are ties: far above the rounding of the downdates,
    # far below any relevant difference
    tie = 1e-12 * scale
    k = 0
    while k < n_pivots and residual.max() > smallest:
        if k > 0 and residual.sum() <= min(trace, k * trace_per_pivot):
            break
        block, limit = _largest(residual, tie)
        # S = K_BB - R_Bᵀ R_B
        block_rows = np.ascontiguousarray(rows[:k, block])
        S = entries(block, block) - block_rows.T @ block_rows
        chosen, factor = _pivots_of_block(
            S,
            residual[block],
            n_pivots=n_pivots - k,
            limit=max(limit, smallest),
            tie=tie,
        )
        new_pivots = block[chosen]
        stop = k + len(new_pivots)
        # R_P = T_P⁻ᵀ (K_P - R_Pᵀ R), with T the factor of the block
        products = block_rows[:, chosen].T @ rows[:k]
        remainder = entries(new_pivots, slice(None)) - products
        new_rows = rows[k:stop]
        new_rows[:] = solve_lower(factor[:, chosen].T, remainder)
        # the residual is the diagonal of K - RᵀR
        residual -= np.einsum("ij,ij->j", new_rows, new_rows)
        np.maximum(residual, 0.0, out=residual)
        residual[new_pivots] = 0.0
        pivots[k:stop] = new_pivots
        k = stop
    return PivotedCholesky(
        pivots=pivots[:k],
        rows=rows[:k],
        residual=residual,
    )


def _largest(
    residual: Array,
    tie: float,
) -> tuple[Index, float]:
    """Rows of the largest residuals.

    Returns
    -------
    block : ndarray of int
        Positions, increasing.
    limit : float
        Later pivots of the block must have a larger residual than this.
    """
    n = residual.shape[0]
    if n <= _BLOCK:
        return np.arange(n), -np.inf
    lowest_tied = _lowest_tied(residual, tie)
    tied = np.flatnonzero(residual >= lowest_tied)
    if len(tied) > _BLOCK:
        # the other tied rows have residuals as large, but later positions
        return tied[:_BLOCK], float(lowest_tied)
    ranks = np.argpartition(residual, n - _BLOCK)
    outside = ranks[: n - _BLOCK]
    limit = float(residual[outside].max()) + tie
    return np.sort(ranks[n - _BLOCK :]), limit


def _lowest_tied(residual: Array, tie: float) -> float:
    """Smallest residual that ties with the largest one, at least half of it."""
    largest = float(residual.max())
    return largest - min(tie, 0.5 * largest)


def _pivots_of_block(
    S: Array,
    residual: Array,
    *,
    n_pivots: int,
    limit: float,
    tie: float,
) -> tuple[Index, Array]:
    """Pivots of a block with covariance S.

    Returns
    -------
    pivots : ndarray of int
        Positions in the block: the first in any case, the others above the limit.
    factor : ndarray of shape (number of pivots, size of the block)
        Rows of the factor.
    """
    size = len(S)
    factor = np.empty((min(n_pivots, size), size))
    pivots: list[int] = []
    for k in range(len(factor)):
        pivot = int(np.argmax(residual >= _lowest_tied(residual, tie)))
        if k > 0 and not residual[pivot] > limit:
            break
        # r_k = (S_p - r_1..k-1,p ᵀ r_1..k-1) / √residual_p
        row = factor[k]
        products = factor[:k, pivot] @ factor[:k]
        np.subtract(S[pivot], products, out=row)
        row /= np.sqrt(residual[pivot])
        residual -= row * row
        np.maximum(residual, 0.0, out=residual)
        residual[pivot] = 0.0
        pivots.append(pivot)
    return np.array(pivots, dtype=np.intp), factor[: len(pivots)]
