"""Rows that see a linear functional of f, as users state them."""

from __future__ import annotations

from typing import Any

import numpy as np

from skgpx._shell.validation import (
    Rows,
    Units,
    check_new_rows,
    standardisation,
)
from skgpx._types import Array, RowValues
from skgpx.kernels import FunctionalRows, Functionals, checked_functionals

# Quantities of rows, given to `fit` and to predictions alike.
ROW_ARGUMENTS = (
    "exposure",
    "noise_variance",
    "censoring",
    "derivative",
    "widths",
    "against",
)


def functional_rows(
    estimator: Any,
    X: Array,
    *,
    derivative: RowValues = None,
    widths: RowValues = None,
    against: RowValues = None,
) -> FunctionalRows | None:
    """What rows X (n, d), already checked, see of f; None if all see its values.

    Raises
    ------
    ValueError
        For unknown columns, widths that are negative or not finite, shapes that do not
        fit X, and slopes or widths along columns of categories.
    """
    return checked_functionals(
        X,
        names=list(getattr(estimator, "feature_names_in_", ())),
        categories=list(getattr(estimator, "_n_categories", ())),
        read=lambda rows: check_new_rows(estimator, rows),
        derivative=derivative,
        widths=widths,
        against=against,
    )


def monotone_signs(estimator: Any) -> Array:
    """Signs of slopes by column, (d,): `monotonic_cst`, zeros for None.

    Raises
    ------
    ValueError
        For unknown columns, other values than -1, 0 and 1, and columns of categories.
    """
    stated = estimator.monotonic_cst
    d = estimator.n_features_in_
    signs = np.zeros(d)
    if stated is None:
        return signs
    names = list(getattr(estimator, "feature_names_in_", ()))
    if isinstance(stated, dict):
        unknown = [name for name in stated if name not in names]
        if unknown:
            raise ValueError(
                f"monotonic_cst names columns {unknown}, which are not among those of "
                f"X, {names}. Fit a DataFrame with these columns, or give an array."
            )
        signs = np.zeros(d, dtype=object)
        signs[[names.index(name) for name in stated]] = list(stated.values())
    else:
        signs = np.asarray(stated, dtype=object)
    signs = np.where(np.isin(signs, (-1, 0, 1)), signs, np.nan).astype(np.float64)
    if signs.shape != (d,) or not np.all(np.isin(signs, (-1.0, 0.0, 1.0))):
        raise ValueError(
            "monotonic_cst expects 1 (increasing), -1 (decreasing) or 0 for each of "
            f"{d} columns; got {stated!r}."
        )
    categories = np.fromiter(getattr(estimator, "_n_categories", {}), dtype=np.intp)
    if np.any(signs[categories]):
        raise ValueError(
            "monotonic_cst is for columns of numbers; got categories in columns "
            f"{categories.tolist()}. Use 0 for these."
        )
    return signs


def units_of_functionals(
    rows: Rows,
    functionals: Functionals,
    *,
    normalize: bool,
    robust: bool,
) -> Units:
    """Level and scale of f from rows of functionals: a slope sees no level.

    They are the mean and standard deviation of y where rows see a level, otherwise zero
    and the root mean square of differences over √2 or, of slopes alone, of these times
    the standard deviation of their column.
    """
    if not normalize:
        return Units(level=functionals.level)
    seen = functionals.rows(rows.X)
    has_level = seen.level > 0.0
    shift, scale = 0.0, 1.0
    if np.any(has_level):
        shift, scale = standardisation(
            rows.y[has_level], rows.weights[has_level], robust=robust
        )
    y = rows.y[~has_level]
    if len(y) and (not np.any(has_level) or np.ptp(rows.y[has_level]) == 0.0):
        column = seen.derivative[~has_level]
        spread = np.append(seen.X.std(axis=0), np.sqrt(0.5))[column]
        square = np.average((spread * y) ** 2, weights=rows.weights[~has_level])
        scale = float(np.sqrt(square)) or 1.0
    return Units(shift, scale, level=functionals.level)


def resolution_of(rows: FunctionalRows) -> Array:
    """Widths, by column, that so many rows resolve: panels of boxes have these, (d,).

    The range of the boxes over ``n^(1/k)``, for boxes along k columns.
    """
    low = np.min(rows.X - 0.5 * rows.widths, axis=0)
    high = np.max(rows.X + 0.5 * rows.widths, axis=0)
    n_wide = max(int(np.sum(np.any(rows.widths > 0.0, axis=0))), 1)
    # of the range of a column
    most_parts = 64.0
    n_parts = min(len(rows.X) ** (1.0 / n_wide), most_parts)
    span: Array = high - low
    return np.where(span > 0.0, span, 1.0) / n_parts
