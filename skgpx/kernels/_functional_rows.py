"""Rows that see a linear functional of f: a slope, a mean over a box, a difference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from skgpx._numerics.rows import LARGEST
from skgpx._types import Array, ArrayLike, Index, Mask
from skgpx.kernels._slopes import VALUE


class FunctionalRows(NamedTuple):
    """Rows of functionals, as one array: what a kernel of them is evaluated at.

    Attributes
    ----------
    X : ndarray of shape (n, d)
    widths : ndarray of shape (n, d)
        Of the box around x over which f is averaged; zero for a point.
    against : ndarray of shape (n, d)
        Where f is subtracted, if anywhere.
    derivative : ndarray of int of shape (n,)
        The column along which f is differentiated; -1 for none.
    is_difference : ndarray of bool of shape (n,)
        Whether ``f(against)`` is subtracted.
    """

    X: Array
    widths: Array
    against: Array
    derivative: Index
    is_difference: Mask

    @classmethod
    def of(cls, rows: Array, d: int) -> FunctionalRows:
        """Functionals from an array (n, 3 d + 2), or values at points (n, d)."""
        n = len(rows)
        if rows.shape[1] == d:
            zeros = np.zeros((n, d))
            no_slope = np.full(n, VALUE)
            return cls(rows, zeros, zeros, no_slope, np.zeros(n, dtype=bool))
        if rows.shape[1] != 3 * d + 2:
            raise ValueError(
                f"Expected points of {d} columns, or functionals of {3 * d + 2}; got "
                f"{rows.shape[1]} columns."
            )
        return cls(
            X=rows[:, :d],
            widths=rows[:, d : 2 * d],
            against=rows[:, 2 * d : 3 * d],
            derivative=rows[:, 3 * d].astype(np.intp),
            is_difference=rows[:, 3 * d + 1] != 0.0,
        )

    def as_array(self) -> Array:
        """One row of numbers for each, (n, 3 d + 2); equal rows are equal."""
        against = np.where(self.is_difference[:, np.newaxis], self.against, 0.0)
        columns = (
            self.X,
            self.widths,
            against,
            self.derivative.astype(np.float64),
            self.is_difference.astype(np.float64),
        )
        return np.ascontiguousarray(np.column_stack(columns))

    @property
    def is_value(self) -> Mask:
        """Which rows see nothing but the value at a point."""
        has_box = np.any(self.widths > 0.0, axis=1)
        return ~(has_box | self.is_difference | (self.derivative != VALUE))

    @property
    def level(self) -> Array:
        """What each row sees of a constant function of one, (n,): ones and zeros."""
        sees_level = (self.derivative == VALUE) & ~self.is_difference
        return sees_level.astype(np.float64)

    def corners(self) -> Array:
        """Lower and upper corners of all boxes, (n', d): points are both of their own.

        Those of the other points of differences follow.
        """
        other = self.against[self.is_difference]
        centres = np.concatenate((self.X, other))
        half = 0.5 * np.concatenate((self.widths, self.widths[self.is_difference]))
        return np.concatenate((centres - half, centres + half))

    def take(self, chosen: Any) -> FunctionalRows:
        """Some of the rows."""
        return FunctionalRows(*(part[chosen] for part in self))


def checked_functionals(
    X: Array,
    names: Sequence[str],
    categories: Sequence[int],
    read: Callable[[Any], Array],
    *,
    derivative: ArrayLike | None,
    widths: ArrayLike | None,
    against: ArrayLike | None,
) -> FunctionalRows | None:
    """What rows see of f, as users state it; None if all see its values.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Rows, already checked.
    names : sequence of str
        Names of the columns; empty where they have none.
    categories : sequence of int
        Columns of categories.
    read : callable
        Checks rows like those of X, and returns them as an array.
    derivative, widths, against : array-like or None
        As in `fit` of :class:`skgpx.PLSRegressor`.

    Raises
    ------
    ValueError
        For unknown columns, widths that are negative or not finite, shapes that do not
        fit X, and slopes or widths along columns of categories.
    """
    if derivative is None and widths is None and against is None:
        return None
    n, d = X.shape
    columns = np.full(n, VALUE)
    if derivative is not None:
        columns = _columns_of_slopes(derivative, n, d, names)
    boxes = np.zeros((n, d))
    if widths is not None:
        boxes = _boxes(widths, n, d)
    other = np.zeros((n, d))
    is_difference = np.zeros(n, dtype=bool)
    if against is not None:
        other, is_difference = _other_points(against, n, d, read)
    coded = np.array(categories, dtype=np.intp)
    if np.any(np.isin(columns, coded)) or np.any(boxes[:, coded]):
        raise ValueError(
            "Functions have neither slopes nor means along columns of categories; got "
            f"derivative or widths of columns {coded.tolist()}. Use -1 and 0."
        )
    return FunctionalRows(X, boxes, other, columns, is_difference)


def _columns_of_slopes(
    derivative: ArrayLike,
    n: int,
    d: int,
    names: Sequence[str],
) -> Index:
    """Numbers of the columns along which rows see slopes, (n,); -1 for a value."""
    entries = np.asarray(derivative, dtype=object)
    if entries.shape not in ((), (n,)):
        raise ValueError(
            f"derivative must be a column, or an array of shape ({n},), one for each "
            f"row of X; got shape {entries.shape}."
        )
    numbers: dict[Any, int] = {column: column for column in range(-1, d)}
    numbers |= {name: i for i, name in enumerate(names)}
    unknown = [
        entry
        for entry in np.ravel(entries)
        if isinstance(entry, bool) or entry not in numbers
    ]
    if unknown:
        expected = f"-1 (a value) or the number of a column, 0 to {d - 1}"
        if names:
            expected += f", or its name, among {list(names)}"
        raise ValueError(f"derivative expects {expected}; got {unknown[0]!r}.")
    columns = np.array([numbers[entry] for entry in np.ravel(entries)], dtype=np.intp)
    return np.broadcast_to(columns, (n,))


def _boxes(widths: ArrayLike, n: int, d: int) -> Array:
    """Widths of boxes, (n, d)."""
    try:
        boxes = np.asarray(widths, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"widths must be numbers, of the shape of X, ({n}, {d}), with 0 for a "
            f"point; got {type(widths).__name__}."
        ) from None
    if d == 1 and boxes.ndim == 1:
        boxes = boxes[:, np.newaxis]
    if boxes.shape not in ((), (n, d)):
        raise ValueError(
            f"widths must have the shape of X, ({n}, {d}), with 0 for a point; got "
            f"shape {boxes.shape}."
        )
    if not np.all((boxes >= 0.0) & (boxes <= LARGEST)):
        raise ValueError(
            f"widths must be finite, at most {LARGEST:g}, and not negative: the mean "
            "of f over the box from x - widths / 2 to x + widths / 2; got "
            f"{np.min(boxes):g} to {np.max(boxes):g}."
        )
    return np.broadcast_to(boxes, (n, d))


def _other_points(
    against: Any,
    n: int,
    d: int,
    read: Callable[[Any], Array],
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
        stated = read(against)
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
