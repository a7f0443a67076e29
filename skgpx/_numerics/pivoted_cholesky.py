"""Pivoted Cholesky of an implicit positive semi-definite matrix."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics.linalg import solve_lower

Array = NDArray[np.float64]
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
) -> PivotedCholesky:
    """Greedy partial Cholesky: takes the row of largest conditional variance each time.

    Parameters
    ----------
    entries : callable
        ``entries(i, j)`` returns the rows `i` and columns `j` of the matrix, two
        arrays of indices or slices; all columns of a pivot are asked for once, so the
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
        if k and residual.sum() <= trace:
            break
        block, limit = _largest(residual, order, _TIE * scale)
        # S = K_BB - R_Bᵀ R_B
        near = np.ascontiguousarray(rows[:k, block])
        inner = entries(block, block) - near.T @ near
        limit, left = max(limit, tolerance * scale), n_pivots - k
        chosen, factor = _pivots_of_block(
            inner, residual[block], order[block], left, limit, _TIE * scale
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
    residual: Array, order: NDArray[np.intp], slack: float
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
