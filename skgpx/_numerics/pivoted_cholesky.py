"""Pivoted Cholesky of an implicit positive semi-definite matrix."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

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
    column: Callable[[int], NDArray[np.float64]],
    diagonal: NDArray[np.float64],
    n_pivots: int,
    tolerance: float = 1e-10,
    priority: NDArray[np.intp] | None = None,
) -> PivotedCholesky:
    """Greedy partial Cholesky: takes the row of largest conditional variance each time.

    Parameters
    ----------
    column : callable
        ``column(i)`` returns column ``i`` of the matrix, shape (n,); it is called
        once per pivot, so the matrix itself is never formed.
    diagonal : ndarray of shape (n,)
        Diagonal of the matrix, not negative.
    n_pivots : int
        Largest number of pivots.
    tolerance : float, default=1e-10
        Stop when no residual exceeds this multiple of the largest diagonal entry.
    priority : ndarray of shape (n,), optional
        Among rows whose residuals tie, the one of smallest priority is chosen;
        None means the position.

    Returns
    -------
    factorisation : PivotedCholesky
        With at most ``n_pivots`` pivots.

    Notes
    -----
    O(n m^2) time in matrix-vector products, O(n m) memory, m column evaluations.
    """
    n = diagonal.shape[0]
    n_pivots = min(n_pivots, n)
    residual = diagonal.astype(np.float64, copy=True)
    rows = np.empty((n_pivots, n))
    pivots = np.empty(n_pivots, dtype=np.intp)
    scale = residual.max(initial=0.0)
    for k in range(n_pivots):
        pivot = _next_pivot(residual, _TIE * scale, priority)
        if not residual[pivot] > tolerance * scale:
            return PivotedCholesky(pivots[:k], rows[:k], residual)
        # r_k = (K_i - R_iᵀ R) / √d_i
        row = np.subtract(column(pivot), rows[:k, pivot] @ rows[:k], out=rows[k])
        row /= np.sqrt(residual[pivot])
        residual -= row * row
        np.maximum(residual, 0.0, out=residual)
        residual[pivot] = 0.0
        pivots[k] = pivot
    return PivotedCholesky(pivots, rows, residual)


def _next_pivot(
    residual: NDArray[np.float64], slack: float, priority: NDArray[np.intp] | None
) -> int:
    """Position of the largest residual, ties resolved by ``priority``."""
    tied = residual >= residual.max() - slack
    if priority is None:
        return int(np.argmax(tied))
    candidates = np.flatnonzero(tied)
    return int(candidates[np.argmin(priority[candidates])])
