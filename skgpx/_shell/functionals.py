"""Rows that see a linear functional of f, as users state them."""

from __future__ import annotations

from typing import Any

import numpy as np

from skgpx._shell.validation import (
    Rows,
    Units,
    check_new_rows,
    check_range,
    standardisation,
)
from skgpx._types import Array, ArrayLike, Index, Mask
from skgpx.kernels import FunctionalRows, Functionals

# Quantities of rows, given to `fit` and to predictions alike.
ROW_ARGUMENTS = (
    "exposure",
    "noise_variance",
    "censoring",
    "derivative",
    "widths",
    "against",
)
# Widths of panels of boxes are at most those of so many parts of the range of a column.
_MOST_PARTS = 64.0


def functional_rows(
    estimator: Any,
    X: Array,
    *,
    derivative: ArrayLike | None = None,
    widths: ArrayLike | None = None,
    against: ArrayLike | None = None,
) -> FunctionalRows | None:
    """What rows X (n, d), already checked, see of f; None if all see its values.

    Raises
    ------
    ValueError
        For unknown columns, widths that are negative or not finite, shapes that do not
        fit X, and slopes or widths along columns of categories.
    """
    if derivative is None and widths is None and against is None:
        return None
    n, d = X.shape
    columns = np.full(n, -1)
    if derivative is not None:
        columns = _columns_of_slopes(estimator, derivative, n)
    boxes = np.zeros((n, d))
    if widths is not None:
        boxes = _boxes(widths, n, d)
    other = np.zeros((n, d))
    is_difference = np.zeros(n, dtype=bool)
    if against is not None:
        other, is_difference = _other_points(estimator, against, n, d)
    categories = np.fromiter(getattr(estimator, "_n_categories", {}), dtype=np.intp)
    if np.any(np.isin(columns, categories)) or np.any(boxes[:, categories]):
        raise ValueError(
            "Functions have neither slopes nor means along columns of categories; got "
            f"derivative or widths of columns {categories.tolist()}. Use -1 and 0."
        )
    return FunctionalRows(X, boxes, other, columns, is_difference)


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


def _columns_of_slopes(estimator: Any, derivative: ArrayLike, n: int) -> Index:
    """Numbers of the columns along which rows see slopes, (n,); -1 for a value."""
    entries = np.asarray(derivative, dtype=object)
    if entries.shape not in ((), (n,)):
        raise ValueError(
            f"derivative must be a column, or an array of shape ({n},), one for each "
            f"row of X; got shape {entries.shape}."
        )
    d = estimator.n_features_in_
    names = list(getattr(estimator, "feature_names_in_", ()))
    numbers = {column: column for column in range(-1, d)}
    numbers |= {name: i for i, name in enumerate(names)}
    unknown = [
        entry
        for entry in np.ravel(entries)
        if isinstance(entry, bool) or entry not in numbers
    ]
    if unknown:
        expected = f"-1 (a value) or the number of a column, 0 to {d - 1}"
        if names:
            expected += f", or its name, among {names}"
        raise ValueError(f"derivative expects {expected}; got {unknown[0]!r}.")
    columns = np.array([numbers[entry] for entry in np.ravel(entries)], dtype=np.intp)
    return np.broadcast_to(columns, (n,))


def _boxes(widths: ArrayLike, n: int, d: int) -> Array:
    """Widths of boxes, (n, d)."""
    boxes = np.asarray(widths, dtype=np.float64)
    if d == 1 and boxes.ndim == 1:
        boxes = boxes[:, np.newaxis]
    if boxes.shape not in ((), (n, d)):
        raise ValueError(
            f"widths must have the shape of X, ({n}, {d}), with 0 for a point; got "
            f"shape {boxes.shape}."
        )
    if not np.all(np.isfinite(boxes) & (boxes >= 0.0)):
        raise ValueError(
            "widths must be finite and not negative: the mean of f over the box from x "
            f"- widths / 2 to x + widths / 2; got {np.min(boxes):g} to "
            f"{np.max(boxes):g}."
        )
    check_range("widths", boxes)
    return np.broadcast_to(boxes, (n, d))


def _other_points(
    estimator: Any,
    against: Any,
    n: int,
    d: int,
) -> tuple[Array, Any]:
    """Points (n, d) where f is subtracted, and the rows (n,) that have one."""
    # a row without any number sees f(x) itself
    is_missing = _rows_without_numbers(against, n, d)
    if np.any(is_missing):
        against = np.asarray(against) if isinstance(against, list) else against
        against = against[~is_missing]
    points = np.zeros((n, d))
    if np.all(is_missing):
        return points, ~is_missing
    try:
        stated = check_new_rows(estimator, against)
    except ValueError as error:
        raise ValueError(f"against expects rows like those of X: {error}") from error
    n_stated = len(stated) + int(np.sum(is_missing))
    if n_stated != n:
        raise ValueError(
            f"against must have a row for each row of X, {n}; got {n_stated}."
        )
    points[~is_missing] = stated
    return points, ~is_missing


def _rows_without_numbers(table: Any, n: int, d: int) -> Mask:
    """Rows that hold nothing but NaN or None, (n,); none if the shape is another."""
    if np.shape(table) != (n, d):
        return np.zeros(n, dtype=bool)
    entries = np.asarray(table, dtype=object)
    return np.array(
        [all(entry is None or entry != entry for entry in row) for row in entries]
    )


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
    n_parts = min(len(rows.X) ** (1.0 / n_wide), _MOST_PARTS)
    span: Array = high - low
    return np.where(span > 0.0, span, 1.0) / n_parts
