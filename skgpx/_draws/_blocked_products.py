"""Products of features and weights, with features computed in blocks in the cache."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dgemm, sgemm

Array = NDArray[np.float64]
# Which features are computed together, and their weights.
Panel = tuple[slice, Array]
# Rows at a time: their features stay in the cache. Many draws repay wider products.
_ROWS, _MANY_DRAWS, _MANY_ROWS = 128, 256, 512
# Multiplications up to which OpenBLAS leaves out copying the factors of a product.
_SMALL = 10**6


def panel_size(n_draws: int) -> int:
    """Features whose product with the weights of so many draws is fast, 32 to 256.

    With 64 draws products of at most 10⁶ multiplications run at 52 GF/s instead of 43
    (AVX-512 in two halves); in registers of 256 bits the number makes no difference.
    """
    few = _SMALL // (_ROWS * max(1, n_draws)) // 8 * 8
    return 256 if n_draws >= _MANY_DRAWS else min(256, max(32, few))


def add_product(
    X: Array,
    panels: Sequence[Panel],
    fill: Callable[[Array, slice, Array], None],
    out: Array,
    single_precision: bool = False,
) -> None:
    """Add ``F(X) @ weights``, with features computed block by block in the cache.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Inputs.
    panels : sequence of (slice, ndarray of shape (m, k))
        Parts of the features, and their coefficients, C-contiguous.
    fill : callable
        ``fill(points, part, features)`` writes a part of the features (m, b) of
        points (d, b).
    out : ndarray of shape (n, k), C-contiguous
        Added to.
    single_precision : bool, default=False
        Hold features and weights as float32.
    """
    n, k = out.shape
    if not k:
        return
    size = _MANY_ROWS if k >= _MANY_DRAWS else _ROWS
    dtype = np.float32 if single_precision else np.float64
    panels = [(part, w.astype(dtype, copy=False)) for part, w in panels]
    points = np.zeros((X.shape[1], size))
    for first in range(0, n, size):
        rows, total = X[first : first + size], out[first : first + size]
        if len(rows) < size:
            # full vectors only: the remainder of a loop may round differently
            points = np.zeros((X.shape[1], -(-len(rows) // 64) * 64))
        points[:, : len(rows)] = rows.T
        for part, weights in panels:
            features = np.empty((len(weights), points.shape[1]), dtype)
            fill(points, part, features)
            _add(features, weights, total)


def _add(features: Array, weights: Array, total: Array) -> None:
    """Add ``featuresᵀ weights``, or its first rows, to total."""
    if features.dtype == np.float64 and features.shape[1] == len(total):
        # in Fortran's order: totalᵀ += weightsᵀ F, in place
        dgemm(1.0, weights.T, features.T, 1.0, total.T, trans_b=1, overwrite_c=1)
        return
    gemm = dgemm if features.dtype == np.float64 else sgemm
    total += gemm(1.0, weights.T, features.T, trans_b=1).T[: len(total)]
