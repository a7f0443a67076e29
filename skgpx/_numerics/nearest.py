"""Nearest rows, and small linear systems of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import KDTree
from scipy.spatial.distance import cdist

from skgpx._numerics._jit import inlined, reduction

Array = NDArray[np.float64]
Index = NDArray[np.intp]

# Rows whose predecessors are found by all their distances, and the growth of the trees
# in which those of later rows are found.
_FIRST, _GROWTH = 1024, 1.5


def predecessors(points: Array, m: int, n_jobs: int = 1) -> tuple[Index, Index]:
    """The m nearest predecessors of each point in the given order.

    Parameters
    ----------
    points : ndarray of shape (n, d)
        In random order: the cost is that of n searches in a tree.
    m : int
    n_jobs : int, default=1
        Threads.

    Returns
    -------
    index : ndarray of shape (n, min(m, n - 1))
        Positions, of which the first `count` of a row are neighbours; others are zero.
    count : ndarray of shape (n,)
    """
    n = len(points)
    m = min(m, n - 1)
    index, count = np.zeros((n, m), np.intp), np.minimum(np.arange(n), m)
    first = min(n, max(_FIRST, 2 * m))
    distances = cdist(points[:first], points[:first], "sqeuclidean")
    distances[np.triu_indices(first)] = np.inf
    index[:first] = np.argsort(distances, axis=1, kind="stable")[:, :m]
    while first < n:
        last = min(n, int(_GROWTH * first))
        tree, rows, k = KDTree(points[:last]), np.arange(first, last), 2 * m
        while len(rows):
            # some of the nearest points come later
            k = min(k, last)
            near = tree.query(points[rows], k, workers=n_jobs)[1].reshape(-1, k)
            before = near < rows[:, np.newaxis]
            enough = np.sum(before, axis=1) >= m
            order = np.argsort(~before[enough], axis=1, kind="stable")[:, :m]
            index[rows[enough]] = np.take_along_axis(near[enough], order, axis=1)
            rows, k = rows[~enough], 2 * k
        first = last
    index[np.arange(m) >= count[:, np.newaxis]] = 0
    return index, count


@inlined
def _next_row(A: Array, j: int) -> None:
    """Row j of a Cholesky factor, in place; zero where nothing is left of it."""
    row, floor = A[j], 1e-10 * A[j, j]
    for k in range(j):
        other, total = A[k], row[k]
        for q in range(k):
            total -= row[q] * other[q]
        row[k] = total / other[k] if other[k] > 0.0 else 0.0
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
        A, b, size = C[i], rhs[i], count[i]
        for j in range(size):
            _next_row(A, j)
            # forward substitution on the way
            value = b[j]
            for k in range(j):
                value -= A[j, k] * b[k]
            b[j] = value / A[j, j] if A[j, j] > 0.0 else 0.0
        for j in range(size - 1, -1, -1):
            if A[j, j] > 0.0:
                b[j] /= A[j, j]
            for k in range(j):
                b[k] -= A[j, k] * b[j]
        b[size:] = 0.0
