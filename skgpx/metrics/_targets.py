"""Targets of scores, and how rows share them."""

from __future__ import annotations

import numpy as np

from skgpx._prediction.distribution import Predictive
from skgpx._shell.validation import doubles
from skgpx._types import Array, ArrayLike, RowValues


def checked_targets(y_true: ArrayLike) -> Array:
    """Targets (n,) or (n, t), finite.

    Raises
    ------
    ValueError
        If the shape is wrong or a value is not finite.
    """
    y = doubles(y_true)
    if y.ndim not in (1, 2) or not y.size:
        raise ValueError(
            "y_true must have shape (n_rows,) or (n_rows, n_targets), with at least "
            f"one row; got {y.shape}."
        )
    if not np.all(np.isfinite(y)):
        raise ValueError("y_true must be finite; got NaN or infinity.")
    return y


def broadcast_to_targets(
    name: str,
    values: ArrayLike,
    y: Array,
    *,
    last: int | None = None,
) -> Array:
    """Predictions broadcast to the shape of y, or with one more axis.

    The further axis has `last` entries, any number of entries for 0; None is for the
    shape of y itself.

    Raises
    ------
    ValueError
        If the predictions have another shape, or are not finite.
    """
    array = doubles(values)
    shape = y.shape
    axis = ""
    if last is not None:
        size = last
        if last == 0 and array.ndim:
            size = array.shape[-1]
        shape = (*y.shape, size)
        axis = f" and {last or 'one or more'} on the last axis"
    fits = array.shape == shape or (last is None and array.ndim == 0)
    if not fits or 0 in shape:
        raise ValueError(
            f"{name} must have the shape of y_true, {y.shape}{axis}; got {array.shape}."
        )
    if not np.all(np.isfinite(array)):
        raise ValueError(f"{name} must be finite; got NaN or infinity.")
    return np.broadcast_to(array, shape)


def not_negative(name: str, values: Array, *, strictly: bool = False) -> None:
    """Refuse negative values, and zeros if `strictly`.

    Raises
    ------
    ValueError
        If a value is negative, or zero and `strictly`.
    """
    smallest = float(np.min(values))
    if strictly and smallest <= 0.0:
        raise ValueError(
            f"{name} must be positive: a point has no density; got {smallest:g}."
        )
    if smallest < 0.0:
        raise ValueError(f"{name} must be non-negative; got {smallest:g}.")


def checked_distribution(distribution: object, y: Array) -> Predictive:
    """Predictive distribution of as many rows as there are targets y (n,).

    Raises
    ------
    ValueError
        If it is none, or does not fit the targets.
    """
    if not isinstance(distribution, Predictive):
        raise ValueError(
            "distribution must be a predictive distribution, such as "
            f"skgpx.predict_dist(model, X) returns; got {type(distribution).__name__}. "
            "For means and standard deviations see the functions whose names begin "
            "with gaussian_."
        )
    if y.ndim != 1:
        raise ValueError(
            f"A predictive distribution has one target; got y_true {y.shape}."
        )
    distribution.targets(y)
    if distribution.discrete:
        not_counts = y[(y < 0.0) | (y != np.floor(y))]
        if len(not_counts):
            raise ValueError(
                "y_true must hold 0, 1, 2, ... where the distribution is of counts; "
                f"got {len(not_counts)} other values, for example {not_counts[0]:g}."
            )
    return distribution


def checked_weights(sample_weight: RowValues, n: int) -> Array:
    """Weights (n,) that sum to one; equal ones for None.

    Raises
    ------
    ValueError
        If there are more or fewer, one is negative or not finite, or all are zero.
    """
    if sample_weight is None:
        return np.full(n, 1.0 / n)
    weights = np.asarray(sample_weight, dtype=np.float64)
    if weights.shape != (n,):
        raise ValueError(
            f"sample_weight must hold {n} numbers, one for each row; got shape "
            f"{weights.shape}."
        )
    if not np.all(np.isfinite(weights)):
        raise ValueError("sample_weight must be finite; got NaN or infinity.")
    if np.any(weights < 0.0) or not np.any(weights > 0.0):
        raise ValueError(
            "sample_weight must be non-negative with at least one positive weight; got "
            f"weights between {weights.min():g} and {weights.max():g}."
        )
    return weights / weights.sum()


def averaged(scores: Array, sample_weight: RowValues) -> float:
    """Mean of scores (n,) or (n, t) over rows and targets."""
    weights = checked_weights(sample_weight, len(scores))
    # rows of weight zero are left out, whatever their score
    counted = weights > 0.0
    return float(np.mean(weights[counted] @ scores[counted]))
