"""Axes and columns of pictures."""

from __future__ import annotations

from collections import Counter
from importlib import import_module
from typing import Any

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


def line_along(
    X: Any,
    feature: int | str,
    resolution: int,
    margin: float,
) -> tuple[Any, Array, Array, str]:
    """Rows from one end of a column to the other, and a margin on either side.

    Other columns are at their median; those that are not numbers, of a data frame, at
    their most frequent value. Also returns the values of the column in these rows and
    in X, and its name.

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
    named, d = hasattr(frame, "columns"), frame.shape[1]
    keys = column_names(frame) if named else range(d)
    names = [str(key) if named else f"x{key}" if d > 1 else "x" for key in keys]
    position = names.index(feature) if feature in names else feature
    if not isinstance(position, int | np.integer) or not 0 <= position < d:
        raise ValueError(
            "feature must be the number or the name of a column of X, one of "
            f"{names[:10]}; got {feature!r}."
        )
    try:
        data = np.asarray(_column(frame, position), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"Column {feature!r} of X does not hold numbers.") from error
    if not np.any(np.isfinite(data)):
        raise ValueError(f"Column {feature!r} of X has no finite value to draw along.")
    low, high = float(np.nanmin(data)), float(np.nanmax(data))
    more = margin * ((high - low) or 1.0)
    x = np.linspace(low - more, high + more, resolution)
    return _fixed_but(frame, position, x), x, data, names[position]


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


def _fixed_but(frame: Any, position: int, x: Array) -> Any:
    """Rows of medians with the values x in one column."""
    if hasattr(frame, "iloc"):
        rows = frame.iloc[np.zeros(len(x), dtype=int)].reset_index(drop=True)
        for j in range(frame.shape[1]):
            column = frame.iloc[:, j]
            numeric = getattr(column.dtype, "kind", "O") in "fiu"
            middle = column.median() if numeric else column.mode().iloc[0]
            rows.isetitem(j, x if j == position else middle)
        return rows
    columns = [np.asarray(_column(frame, j)) for j in range(frame.shape[1])]
    kind = np.float64 if isinstance(frame, np.ndarray) else np.object_
    rows = np.array([[_middle(one) for one in columns]] * len(x), dtype=kind)
    rows[:, position] = x
    return rows if isinstance(frame, np.ndarray) else frame_of(frame, rows)
