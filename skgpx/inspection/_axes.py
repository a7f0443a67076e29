"""Axes to draw into; matplotlib is loaded here, when the first picture is drawn."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np


def axes_of(ax: Any, count: int = 1) -> tuple[Any, Any]:
    """Figure and Axes: those given, or of a new figure; an array of several.

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    ValueError
        If another number of Axes is given.
    """
    if ax is None:
        try:
            pyplot = import_module("matplotlib.pyplot")
        except ImportError as error:
            raise ImportError(
                "Displays are drawn with matplotlib: pip install skgpx[plot]."
            ) from error
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
