"""Axes and columns of pictures."""

from __future__ import annotations

from collections import Counter
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._table import column_names, frame_of

# ---- Axes to draw into; matplotlib is loaded here, when the first picture is drawn ---


def axes_of(ax: Any, count: int = 1) -> tuple[Any, Any]:
    """Figure and Axes: those given, or of a new figure; an array of several.

    Raises
    ------
    ValueError
        If another number of Axes is given.
    """
    if ax is None:
        pyplot = import_module("matplotlib.pyplot")
        size = None if count == 1 else (4.8 * count, 3.6)
        figure, made = pyplot.subplots(1, count, figsize=size, layout="constrained")
        return figure, made
    given = np.ravel(np.asarray(ax, dtype=object))
    if len(given) != count:
        raise ValueError(f"ax must hold {count} Axes; got {len(given)}.")
    return given[0].figure, given[0] if count == 1 else given


def draw_data(ax: Any, x: Any, y: Any) -> None:
    """Points between bands and lines, the smaller the more; none where one is None."""
    if x is None or y is None:
        return
    size = float(np.clip(400.0 / np.sqrt(len(x)), 3.0, 18.0))
    style = {"color": "0.15", "alpha": 0.6, "linewidth": 0.0, "zorder": 1.5}
    ax.scatter(x, y, s=size, label="data", **style)


# ---- Rows along one column of X, the others held fixed -------------------------------


Array = NDArray[np.float64]


class Line(NamedTuple):
    """Rows of X along one column.

    Attributes
    ----------
    rows : array-like of shape (k, n_features)
        Of the kind of X.
    x : ndarray of shape (k,)
        Values of the column.
    data : ndarray of shape (n_rows,)
        Values of the column in X.
    name : str
        Of the column.
    """

    rows: Any
    x: Array
    data: Array
    name: str


def line_along(X: Any, feature: int | str, resolution: int, margin: float) -> Line:
    """Rows from one end of a column to the other, and a margin on either side.

    Other columns are at their median; those that are not numbers, of a data frame, at
    their most frequent value.

    Raises
    ------
    ValueError
        If X has no such column, or the column is not of numbers, or has none.
    """
    frame = X if hasattr(X, "columns") else np.asarray(X)
    if len(frame.shape) != 2 or len(frame) < 1:
        raise ValueError(
            f"X must have shape (n_rows, n_features); got {np.shape(frame)}."
        )
    names = _names_of(frame)
    position = _position_of(feature, names)
    column = _column(frame, position)
    try:
        data = np.asarray(column, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"Column {feature!r} of X is not of numbers.") from error
    if not np.any(np.isfinite(data)):
        raise ValueError(f"Column {feature!r} of X has no finite value to draw along.")
    low, high = float(np.nanmin(data)), float(np.nanmax(data))
    more = margin * ((high - low) or 1.0)
    x = np.linspace(low - more, high + more, resolution)
    return Line(_fixed_but(frame, position, x), x, data, names[position])


def _column(frame: Any, position: int) -> Any:
    if hasattr(frame, "iloc"):
        return frame.iloc[:, position]
    by_name = hasattr(frame, "columns")
    return frame[column_names(frame)[position]] if by_name else frame[:, position]


def _middle(column: NDArray[Any]) -> Any:
    """The median of numbers, or the most frequent of other values."""
    if column.dtype.kind in "fiu":
        return np.nanmedian(column)
    return Counter(column.tolist()).most_common(1)[0][0]


def _names_of(frame: Any) -> list[str]:
    if hasattr(frame, "columns"):
        return [str(name) for name in column_names(frame)]
    several = frame.shape[1] > 1
    return [f"x{j}" if several else "x" for j in range(frame.shape[1])]


def _position_of(feature: int | str, names: list[str]) -> int:
    """Position of a column that is given by number or name.

    Raises
    ------
    ValueError
        If there is no such column.
    """
    if isinstance(feature, str) and feature in names:
        return names.index(feature)
    if isinstance(feature, int | np.integer) and 0 <= feature < len(names):
        return int(feature)
    raise ValueError(
        f"feature must be the number or the name of a column of X, one of "
        f"{names[:10]}; got {feature!r}."
    )


def _fixed_but(frame: Any, position: int, x: Array) -> Any:
    """Rows of medians with the values x in one column."""
    if not hasattr(frame, "iloc"):
        columns = [np.asarray(_column(frame, j)) for j in range(frame.shape[1])]
        kind = np.float64 if isinstance(frame, np.ndarray) else np.object_
        rows = np.array([[_middle(one) for one in columns]] * len(x), dtype=kind)
        rows[:, position] = x
        return rows if isinstance(frame, np.ndarray) else frame_of(frame, rows)
    rows = frame.iloc[np.zeros(len(x), dtype=int)].reset_index(drop=True)
    for j in range(frame.shape[1]):
        column = frame.iloc[:, j]
        numeric = getattr(column.dtype, "kind", "O") in "fiu"
        middle = column.median() if numeric else column.mode().iloc[0]
        rows.isetitem(j, x if j == position else middle)
    return rows
