"""Sums over rows of the features of a basis: all that Gaussian regression reads."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics.regression import WeightStatistics, weight_statistics
from skgpx._parallel import blas_jobs, parallel_sum
from skgpx._validation import Rows

Array = NDArray[np.float64]

# Rows whose features are in memory at a time: fixed, so that sums do not depend on the
# number of workers.
_CHUNK = 4096


def row_statistics(basis: Any, rows: Rows, n_jobs: int | None) -> WeightStatistics:
    """Sums over rows, the same bits for every number of workers.

    Parameters
    ----------
    basis : Nystroem or EmpiricalSpectral
        With m functions.
    rows : Rows
        n rows.
    n_jobs : int or None
        See :func:`skgpx._parallel.blas_jobs`.

    Notes
    -----
    O(n m^2) time; O(m^2) memory and 4096 rows of features for each worker.
    """
    chunks = (slice(i, i + _CHUNK) for i in range(0, len(rows.y), _CHUNK))
    parts = rows.X, rows.y, rows.precisions
    items = ((basis, *(values[chunk] for values in parts)) for chunk in chunks)
    jobs = blas_jobs(n_jobs) if len(rows.y) > _CHUNK else 1
    return parallel_sum(_chunk_statistics, items, WeightStatistics.add, jobs)


def _chunk_statistics(
    basis: Any, X: Array, y: Array, weights: Array
) -> WeightStatistics:
    features = basis(X)
    return weight_statistics(features, y, weights, basis.residual_variance(X, features))
