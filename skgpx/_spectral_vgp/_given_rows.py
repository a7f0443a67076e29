"""Rows as they are given to a fit."""

from __future__ import annotations

from typing import Any

from sklearn.base import BaseEstimator

from skgpx._row_quantities import known_noise, row_quantity
from skgpx._validation import Rows, check_kernel, check_rows
from skgpx.likelihoods import Gaussian
from skgpx.likelihoods._rows import KnownNoise


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
    check_kernel(model.kernel, X)
    given = row_quantity(Gaussian(), len(y), noise_variance=noise_variance)
    noise = known_noise(given, weights, model.noise_variance, model.kernel)
    rows = Rows(X, y, weights, None if noise is None else noise.relative)
    kept = weights > 0.0
    return (rows if kept.all() else rows.take(kept)), noise
