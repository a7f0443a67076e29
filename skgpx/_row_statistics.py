"""Sums over rows of the features of a basis: all that Gaussian regression reads."""

from __future__ import annotations

from collections.abc import Sequence
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
    """:func:`statistics_of_all` for one basis."""
    return statistics_of_all((basis,), rows, n_jobs)[0]


def statistics_of_all(
    bases: Sequence[Any], rows: Rows, n_jobs: int | None
) -> tuple[WeightStatistics, ...]:
    """Sums over rows for each basis, the same bits for every number of workers.

    Parameters
    ----------
    bases : sequence of Nystroem, EmpiricalSpectral or Fourier
        With m functions each.
    rows : Rows
        n rows.
    n_jobs : int or None
        See :func:`skgpx._parallel.blas_jobs`.

    Notes
    -----
    O(n m^2) time for each basis; O(m^2) memory, and 4096 rows of features for each
    worker. Every row is read, and sent to a worker, once.
    """
    chunks = (slice(i, i + _CHUNK) for i in range(0, len(rows.y), _CHUNK))
    parts = rows.X, rows.y, rows.precisions
    items = (tuple(values[chunk] for values in parts) for chunk in chunks)
    jobs = blas_jobs(n_jobs) if len(rows.y) > _CHUNK else 1
    return parallel_sum(_chunk_statistics, items, _added, jobs, tuple(bases))


def _chunk_statistics(
    bases: tuple[Any, ...], X: Array, y: Array, weights: Array
) -> tuple[WeightStatistics, ...]:
    parts = []
    for basis in bases:
        features = basis(X)
        left_out = basis.residual_variance(X, features)
        parts.append(weight_statistics(features, y, weights, left_out))
    return tuple(parts)


def _added(
    one: tuple[WeightStatistics, ...], other: tuple[WeightStatistics, ...]
) -> tuple[WeightStatistics, ...]:
    return tuple(a.add(b) for a, b in zip(one, other, strict=True))
