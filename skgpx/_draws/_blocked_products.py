"""Products of features and weights, with features computed in blocks in the cache."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dgemm, sgemm

Array = NDArray[np.float64]


def add_product(
    X: Array,
    weights: Array,
    fill: Callable[[Array, Array], None],
    out: Array,
    single_precision: bool = False,
) -> None:
    """Add ``F(X) @ weights``, with features computed block by block in the cache.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Inputs.
    weights : ndarray of shape (m, k), C-contiguous
        Coefficients.
    fill : callable
        ``fill(points, features)`` writes the features (m, b) of points (d, b).
    out : ndarray of shape (n, k), C-contiguous
        Added to.
    single_precision : bool, default=False
        Hold features and weights as float32.
    """
    n, (m, k) = len(X), weights.shape
    if not k:
        return
    # rows whose features stay in the cache, but enough of them for a wide product
    size = 512 if k >= 256 else 128
    dtype, gemm = (np.float32, sgemm) if single_precision else (np.float64, dgemm)
    weights = weights.astype(dtype, copy=False)
    points, features = np.zeros((X.shape[1], size)), np.empty((m, size), dtype)
    for first in range(0, n, size):
        rows, total = X[first : first + size], out[first : first + size]
        if len(rows) < size:
            # full vectors only: the remainder of a loop may round differently
            size = -(-len(rows) // 64) * 64
            points, features = np.zeros((X.shape[1], size)), np.empty((m, size), dtype)
        points[:, : len(rows)] = rows.T
        fill(points, features)
        if len(rows) == size and not single_precision:
            # in Fortran's order: totalᵀ += weightsᵀ Fᵀ, in place
            gemm(1.0, weights.T, features.T, 1.0, total.T, trans_b=1, overwrite_c=1)
        else:
            total += gemm(1.0, weights.T, features.T, trans_b=1).T[: len(rows)]
