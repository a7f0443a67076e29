"""Whether rows are too few for Fourier functions, and kernels beside the series."""

from __future__ import annotations

from typing import Any

from sklearn.base import BaseEstimator

from skgpx._selection import are_few, search_weights
from skgpx._spectral_vgp._series_fit import rival_kernels
from skgpx._spectral_vgp._settings import says_nothing_of_functions
from skgpx._validation import Rows, canonical_rows

# Rows, as weighted but for copies, up to which inducing points are tried too, with
# several inputs.
_FEW_ROWS = 2000
# Repetitions of a row, in the mean, above which functions take its noise for signal;
# rows among which so many distinct inputs are looked for.
_REPEATED, _SCREENED = 2.0, 4000


def say_little(model: BaseEstimator, rows: Rows) -> bool:
    """Whether rows are too few, or too often the same, for Fourier functions.

    Repetitions of one y at one input say that there is no noise, and functions are
    searched for with the sums of all rows: few distinct rows are interpolated. Where a
    parameter speaks of functions, they are taken as they are.
    """
    if not says_nothing_of_functions(model):
        return False
    if are_few(rows):
        return True
    if len(canonical_rows(*rows.take(slice(_SCREENED))).y) > _FEW_ROWS:
        return False
    distinct = canonical_rows(*rows)
    if len(distinct.y) > _FEW_ROWS:
        return False
    once = float(search_weights(distinct).sum())
    return float(distinct.weights.sum()) > _REPEATED * once


def competing_kernels(model: BaseEstimator, rows: Rows) -> list[Any]:
    """Kernels that compete with the series prior; none where parameters speak of it.

    With several inputs the bounds of rough functions are too far below their evidence,
    and smooth kernels would win where they should not.
    """
    if model.kernel is not None or not says_nothing_of_functions(model):
        return []
    return rival_kernels(rows) if rows.X.shape[1] == 1 else []
