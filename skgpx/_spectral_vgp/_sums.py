"""Sums over rows, from which a fit on Fourier functions follows."""

from __future__ import annotations

import operator
from functools import reduce

import numpy as np

from skgpx._numerics.fourier import Box, Integers
from skgpx._numerics.fourier_sums import (
    SeriesStatistics,
    direct_statistics,
    n_bins,
    sketched_statistics,
)
from skgpx._numerics.rows import row_slices
from skgpx._shell.parallel import parallel_stream
from skgpx._shell.validation import Rows
from skgpx._spectral_vgp._domain import domain_box
from skgpx._types import Array

# Rows in one sum: fixed, so that sums do not depend on the number of workers.
_CHUNK = 1 << 18


def row_sums(
    rows: Rows,
    domain: Array,
    box: Box,
    reach: Integers,
    n_jobs: int | None,
    shift: float | Array | None = None,
) -> SeriesStatistics:
    """Sums over rows, in chunks that do not depend on the number of workers.

    Parameters
    ----------
    rows : Rows
    domain : ndarray of shape (d, 2)
    box : Box
        With one input, sums for boxes of any other period follow from these.
    reach : ndarray of shape (d,)
        Largest wave numbers; with one input, of waves with the domain as their period.
    n_jobs : int or None
    shift : float or ndarray of shape (t,), optional
        Subtracted from y; None is the mean, so that an offset costs no digits.

    Raises
    ------
    ValueError
        If a row is outside the domain.
    """
    if shift is None:
        shift = rows.weights @ rows.y / rows.weights.sum()
    n_rows = len(rows.y)
    if n_rows <= _CHUNK:
        return _chunk_sums(domain, box, reach, shift, rows)
    sums = parallel_stream(
        _chunk_sums,
        ((rows.take(chunk),) for chunk in row_slices(n_rows, _CHUNK)),
        n_jobs,
        domain,
        box,
        reach,
        shift,
    )
    return reduce(operator.add, sums)


def _chunk_sums(
    domain: Array,
    box: Box,
    reach: Integers,
    shift: float | Array,
    rows: Rows,
) -> SeriesStatistics:
    X = rows.X
    low = X.min(axis=0)
    high = X.max(axis=0)
    outside = (low < domain[:, 0]) | (high > domain[:, 1])
    if np.any(outside):
        j = int(np.argmax(outside))
        raise ValueError(
            f"Inputs must lie within the domain {domain.tolist()}; got column {j} "
            f"between {low[j]:g} and {high[j]:g}. Give a `domain` that covers all "
            "rows to come before the first ones are added."
        )
    if len(reach) > 1:
        return direct_statistics(X, rows.y, rows.precisions, box, shift, reach)
    # products of two functions reach twice as far
    bins = n_bins(2 * int(reach[0]))
    sums = sketched_statistics(
        X,
        rows.y,
        rows.precisions,
        domain_box(domain),
        shift,
        bins,
    )
    return sums.on(box)
