"""Rows as they are given to a fit."""

from __future__ import annotations

from typing import Any

from sklearn.base import BaseEstimator

from skgpx._numerics.rows import sample_distinct_rows
from skgpx._selection import search_weights
from skgpx._validation import (
    Rows,
    canonical_rows,
    check_kernel,
    check_rows,
    known_noise,
    row_quantity,
)
from skgpx.likelihoods import Gaussian
from skgpx.likelihoods._rows import KnownNoise

# Rows beyond which copies are not looked for; distinct rows among which they are first,
# and the share that is left without copies above which they are few for certain.
_MOST_ROWS, _SCREENED, _FEW_COPIES = 200_000, 2000, 0.75


def without_copies(rows: Rows, learns_noise: bool) -> Rows:
    """Rows that a search for the noise reads: copies count once where they are many.

    The rows themselves, not those merged, if copies are few, the noise is given, or
    rows are so many that no function follows single ones.
    """
    if not learns_noise or len(rows.y) > _MOST_ROWS:
        return rows
    some = sample_distinct_rows(rows.X, rows.y, _SCREENED, 0)
    if some is not None:
        part = rows.take(some)
        once = search_weights(canonical_rows(*part))
        if once.sum() > _FEW_COPIES * part.weights.sum():
            return rows
    distinct = canonical_rows(*rows)
    weights = search_weights(distinct)
    return rows if weights is distinct.weights else distinct._replace(weights=weights)


def given_rows(
    model: BaseEstimator,
    X: Any,
    y: Any,
    sample_weight: Any,
    noise_variance: Any = None,
    reset: bool = True,
) -> tuple[Rows, KnownNoise | None]:
    """Checked rows of positive weight, and what is known of their noise.

    Raises
    ------
    ValueError
        For rows that are added to those of a fit with the noise of each.
    """
    if not reset and model._noise is not None:
        raise ValueError(
            "Rows cannot be added to a model that was fitted with the noise_variance "
            "of each row: theirs would not be known. Fit all rows together."
        )
    X, y, weights = check_rows(model, X, y, sample_weight, numeric=True, reset=reset)
    check_kernel(model.kernel, X, model.noise_variance)
    given = row_quantity(Gaussian(), len(y), noise_variance=noise_variance)
    noise = known_noise(given, weights, model.noise_variance, model.kernel)
    rows = Rows(X, y, weights, None if noise is None else noise.relative)
    kept = weights > 0.0
    return (rows if kept.all() else rows.take(kept)), noise
