"""Axes of pictures, and rows along one column of X."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from statistics import mode
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from skgpx._shell.tables import columns_of, table_of
from skgpx._shell.validation import check_count, check_is_fitted
from skgpx._shell.wrapped import unwrapped
from skgpx._types import AnyArray, Array, ArrayLike

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


# ---- Axes to draw into; matplotlib is loaded here, when the first picture is drawn ---


def axes_of(ax: Axes | ArrayLike | None, count: int = 1) -> tuple[Figure, Any]:
    """Figure and Axes of the user, or of a new figure; an array of several Axes.

    Raises
    ------
    ValueError
        If the user gives another number of Axes.
    """
    if ax is None:
        pyplot = import_module("matplotlib.pyplot")
        if count == 1:
            return pyplot.subplots(layout="constrained")
        # four to a row
        width = min(count, 4)
        height = -(-count // width)
        figure, new_axes = pyplot.subplots(
            height,
            width,
            figsize=(4.8 * width, 3.6 * height),
            layout="constrained",
        )
        for spare in new_axes.flat[count:]:
            spare.remove()
        return figure, new_axes.flat[:count]
    axes = np.ravel(np.asarray(ax, dtype=object))
    if len(axes) != count:
        raise ValueError(f"ax must hold {count} Axes; got {len(axes)}.")
    figure = axes[0].figure
    return figure, axes[0] if count == 1 else axes


def panels_of(ax: Axes | ArrayLike | None, count: int) -> tuple[Figure, AnyArray]:
    """Figure and array of Axes, one for each panel."""
    figure, axes = axes_of(ax, count)
    return figure, np.atleast_1d(axes)


def draw_data(ax: Axes, x: ArrayLike | None, y: ArrayLike | None) -> None:
    """Points between bands and lines, smaller if there are more, if there are any."""
    if x is None or y is None:
        return
    size = float(np.clip(400.0 / np.sqrt(np.size(x)), 3.0, 18.0))
    ax.scatter(
        x,
        y,
        s=size,
        label="data",
        color="0.15",
        alpha=0.6,
        linewidth=0.0,
        zorder=1.5,
    )


def optional_array(values: ArrayLike | None) -> Array | None:
    """Values as floating-point numbers, or None."""
    return None if values is None else np.asarray(values, dtype=np.float64)


# ---- A fitted model inside a pipeline or search, and the rows that it predicts -------


def fitted_model(estimator: BaseEstimator, X: ArrayLike) -> tuple[Any, Any]:
    """The fitted model inside of pipelines and searches, and its X."""
    model, inner_X = unwrapped(estimator, X)
    check_is_fitted(model)
    return model, inner_X


def rows_and_names(model: BaseEstimator, X: ArrayLike) -> tuple[Array, list[str]]:
    """Rows (n, d) as the model sees them, and the names of their columns."""
    rows = model._rows_to_predict(X)
    numbered = [f"x{j}" for j in range(rows.shape[1])]
    return rows, list(getattr(model, "feature_names_in_", numbered))


# ---- Rows along one column of X, the others held fixed -------------------------------


class Line(NamedTuple):
    """Rows from one end of a column to the other.

    Parameters
    ----------
    rows : ndarray or data frame of shape (k, d)
    x : ndarray of shape (k,)
        Values of the column in these rows.
    data : ndarray of shape (n,)
        Values of the column in X.
    name : str
        Name of the column.
    fixed : dict
        Values of the other columns, by name.
    """

    rows: Any
    x: Array
    data: Array
    name: str
    fixed: dict[str, Any]


def line_along(
    X: ArrayLike,
    feature: int | str,
    resolution: int,
    margin: float,
) -> Line:
    """Rows from one end of a column to the other, and a margin on either side.

    Other columns are at their median; columns of a data frame that are not numbers are
    at their most frequent value.

    Raises
    ------
    ValueError
        If X has no such column, or the column is not of numbers, or has none; for a
        resolution below 1 and a margin that is negative or not finite.
    """
    resolution = check_count(resolution, "resolution")
    if not 0.0 <= margin < np.inf:
        raise ValueError(f"margin must be finite and at least 0; got {margin!r}.")
    is_frame = hasattr(X, "columns")
    frame: Any = X if is_frame else np.asarray(X)
    if len(frame.shape) != 2 or len(frame) < 1:
        raise ValueError(
            f"X must have shape (n_rows, n_features); got {np.shape(frame)}."
        )
    d = frame.shape[1]
    names, columns = columns_of(frame)
    if d == 1 and not is_frame:
        names = ["x"]
    position = names.index(feature) if feature in names else feature
    if not isinstance(position, int | np.integer) or not 0 <= position < d:
        raise ValueError(
            "feature must be the number or the name of a column of X, one of "
            f"{names[:10]}; got {feature!r}."
        )
    try:
        data = np.asarray(columns[position], dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"Column {feature!r} of X does not hold numbers.") from error
    if not np.any(np.isfinite(data)):
        raise ValueError(f"Column {feature!r} of X has no finite value to draw along.")
    low = float(np.nanmin(data))
    high = float(np.nanmax(data))
    margin_width = margin * ((high - low) or 1.0)
    x = np.linspace(low - margin_width, high + margin_width, resolution)
    fixed = {
        name: _middle(column)
        for name, column in zip(names, columns, strict=True)
        if name != names[position]
    }
    cells = [np.full(resolution, fixed.get(name, 0.0)) for name in names]
    cells[position] = x
    return Line(table_of(frame, cells), x, data, names[position], fixed)


def finish_line(
    ax: Axes,
    name: str,
    value_name: str,
    fixed: Mapping[str, Any] | None,
) -> None:
    """Legend and names, and above at which values the other columns stand."""
    ax.set(xlabel=name, ylabel=value_name)
    ax.margins(x=0.0)
    ax.legend()
    if not fixed:
        return
    values = []
    for name, value in fixed.items():
        is_number = isinstance(value, int | float | np.number)
        text = f"{value:.4g}" if is_number else f"{value}"
        values.append(f"{name} = {text}")
    # the first four
    if len(values) > 4:
        values[4:] = [f"{len(values) - 4} more"]
    ax.set_title("at " + ", ".join(values), fontsize="small")


def _middle(column: Any) -> Any:
    """The median of numbers, or the most frequent of other values."""
    if getattr(column.dtype, "kind", "O") in "fiu":
        return np.nanmedian(np.asarray(column, dtype=np.float64))
    return mode(column.tolist())
