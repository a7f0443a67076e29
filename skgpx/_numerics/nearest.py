"""Nearest rows, and small linear systems of them."""

from __future__ import annotations

import numpy as np
from scipy.spatial import KDTree
from scipy.spatial.distance import cdist

from skgpx._numerics._jit import inlined, reduction
from skgpx._types import Array, Index, Mask


def predecessors(
    points: Array,
    m: int,
    n_jobs: int = 1,
    chosen: Mask | None = None,
) -> tuple[Index, Index]:
    """Search the m nearest predecessors of each point in this order.

    Parameters
    ----------
    points : ndarray of shape (n, d)
        In random order, for which the cost is n searches in a tree.
    m : int
    n_jobs : int, default=1
        Threads.
    chosen : ndarray of shape (n,), optional
        Whether those of a point are wanted.

    Returns
    -------
    index : ndarray of shape (n, min(m, n - 1))
        Positions. The first `count` entries of a row are neighbours; the others are
        zero. Without rows that are not chosen.
    count : ndarray of shape (n,)
    """
    n = len(points)
    m = min(m, n - 1)
    wanted = np.arange(n)
    if chosen is not None:
        wanted = np.flatnonzero(chosen)
    index = np.zeros((len(wanted), m), np.intp)
    count = np.minimum(wanted, m)
    # the first points: among all distances
    first = min(n, max(1024, 2 * m))
    first_points = points[:first]
    distances = cdist(first_points, first_points, "sqeuclidean")
    distances[np.triu_indices(first)] = np.inf
    order = np.argsort(distances, axis=1, kind="stable")
    n_first = int(np.searchsorted(wanted, first))
    index[:n_first] = order[wanted[:n_first], :m]
    # later points: in trees, which also hold points that come after them
    while first < n:
        last = min(n, int(1.5 * first))
        low, high = np.searchsorted(wanted, (first, last))
        places = np.arange(low, high)
        if len(places):
            tree = KDTree(points[:last])
        k = 2 * m
        while len(places):
            k = min(k, last)
            rows = wanted[places]
            _, positions = tree.query(points[rows], k, workers=n_jobs)
            neighbors = positions.reshape(-1, k)
            precedes = neighbors < rows[:, np.newaxis]
            is_complete = np.sum(precedes, axis=1) >= m
            # predecessors first, in the order of their distances
            follows = ~precedes[is_complete]
            order = np.argsort(follows, axis=1, kind="stable")
            nearest = np.take_along_axis(
                neighbors[is_complete],
                order[:, :m],
                axis=1,
            )
            index[places[is_complete]] = nearest
            # more neighbours for the other points
            places = places[~is_complete]
            k *= 2
        first = last
    is_surplus = np.arange(m) >= count[:, np.newaxis]
    index[is_surplus] = 0
    return index, count


@inlined
def _next_row(A: Array, j: int) -> None:
    """Row j of a Cholesky factor, in place; the pivot of a dependent row is zero."""
    row = A[j]
    floor = 1e-10 * A[j, j]
    # L_jk = (A_jk - Σ_q L_jq L_kq) / L_kk
    for k in range(j):
        previous = A[k]
        total = row[k]
        for q in range(k):
            total -= row[q] * previous[q]
        row[k] = total / previous[k] if previous[k] > 0.0 else 0.0
    # L_jj² = A_jj - Σ_k L_jk²
    pivot = row[j]
    for k in range(j):
        pivot -= row[k] * row[k]
    row[j] = np.sqrt(pivot) if pivot > floor else 0.0


@reduction
def solve_local(C: Array, count: Index, rhs: Array) -> None:
    """Overwrite each row of rhs with the solution of its own system of equations.

    Parameters
    ----------
    C : ndarray of shape (n, m, m)
        Positive semi-definite matrices, overwritten; lower triangles are read.
    count : ndarray of shape (n,)
        Number of unknowns of each system; the others become zero.
    rhs : ndarray of shape (n, m)

    Notes
    -----
    Unknowns that earlier ones determine, such as those of duplicate rows without noise,
    are set to zero: less than 1e-10 of their variance is left.
    """
    for i in range(len(C)):
        A = C[i]
        b = rhs[i]
        size = count[i]
        # L z = b, while the rows of L are computed
        for j in range(size):
            _next_row(A, j)
            value = b[j]
            for k in range(j):
                value -= A[j, k] * b[k]
            b[j] = value / A[j, j] if A[j, j] > 0.0 else 0.0
        # Lᵀ x = z
        for j in range(size - 1, -1, -1):
            if A[j, j] > 0.0:
                b[j] /= A[j, j]
            for k in range(j):
                b[k] -= A[j, k] * b[j]
        b[size:] = 0.0
