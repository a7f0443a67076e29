"""Functions drawn from a posterior, along one column."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skgpx._predict_dist import sample_functions
from skgpx._validation import check_count
from skgpx.inspection._axes import axes_of, draw_data, line_along

Array = NDArray[np.float64]


class FunctionDrawsDisplay:
    """Functions drawn from the posterior, along one column of X.

    Made by :meth:`from_estimator` or :meth:`from_predictions`.

    Parameters
    ----------
    x : ndarray of shape (k,)
        Values of the column, ascending.
    draws : ndarray of shape (k, n_draws)
        Values of the functions.
    x_data, y_data : ndarray of shape (n_rows,) or None, default=None
        Observations to show.
    name : str, default="x"
        Of the column.
    value_name : str, default="f"
        Of what is drawn.

    Attributes
    ----------
    ax_ : matplotlib.axes.Axes
    figure_ : matplotlib.figure.Figure
    lines_ : list of matplotlib.lines.Line2D
        The functions.

    Examples
    --------
    >>> import numpy as np
    >>> from skgpx import SpectralVGPRegressor
    >>> from skgpx.inspection import FunctionDrawsDisplay
    >>> X = np.linspace(0.0, 6.0, 100)[:, np.newaxis]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).standard_normal(100)
    >>> model = SpectralVGPRegressor().fit(X, y)
    >>> display = FunctionDrawsDisplay.from_estimator(model, X, y, n_draws=5)
    >>> len(display.lines_)
    5
    """

    def __init__(
        self,
        x: Array,
        draws: Array,
        x_data: Array | None = None,
        y_data: Array | None = None,
        name: str = "x",
        value_name: str = "f",
    ):
        self.x, self.draws = x, draws
        self.x_data, self.y_data = x_data, y_data
        self.name, self.value_name = name, value_name

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike | None = None,
        *,
        feature: int | str = 0,
        n_draws: int = 10,
        random_state: Any = 0,
        resolution: int = 300,
        margin: float = 0.05,
        ax: Any = None,
    ) -> Self:
        """Draw functions from a fitted model.

        Parameters
        ----------
        estimator : estimator
            Fitted; any that :func:`skgpx.sample_functions` knows, with one output.
        X : array-like of shape (n_rows, n_features)
            Rows whose range is shown. Columns other than `feature` are held at their
            median.
        y : array-like of shape (n_rows,), default=None
            Their targets, shown as points: leave them out where the latent function is
            on another scale, as that of counts and classes is.
        feature : int or str, default=0
            Column along which the functions are shown.
        n_draws : int, default=10
            Number of functions.
        random_state : int, RandomState, Generator or None, default=0
            Seed of the draws.
        resolution : int, default=300
            Number of points along the column.
        margin : float, default=0.05
            How far to go beyond the data, as a share of their range.
        ax : matplotlib.axes.Axes, default=None
            None is a new figure.

        Returns
        -------
        display : FunctionDrawsDisplay

        Raises
        ------
        ValueError
            If the functions have several outputs.
        """
        line = line_along(X, feature, resolution, margin)
        n_draws = check_count(n_draws, "n_draws")
        values = sample_functions(estimator, n_draws, random_state)(line.rows)
        data = None if y is None else line.data
        return cls.from_predictions(
            line.x, values, x_data=data, y_data=y, name=line.name, ax=ax
        )

    @classmethod
    def from_predictions(
        cls,
        x: ArrayLike,
        draws: ArrayLike,
        *,
        x_data: ArrayLike | None = None,
        y_data: ArrayLike | None = None,
        name: str = "x",
        value_name: str = "f",
        ax: Any = None,
    ) -> Self:
        """Draw values of functions.

        Parameters
        ----------
        x : array-like of shape (k,)
            In any order.
        draws : array-like of shape (k, n_draws)
        x_data : array-like of shape (n_rows,), default=None
        y_data : array-like of shape (n_rows,), default=None
            Observations to show.
        name : str, default="x"
            Of the horizontal axis.
        value_name : str, default="f"
            Of the vertical one.
        ax : matplotlib.axes.Axes, default=None
            None is a new figure.

        Returns
        -------
        display : FunctionDrawsDisplay

        Raises
        ------
        ValueError
            If shapes do not agree.
        """
        at, values = np.asarray(x, dtype=np.float64), np.asarray(draws, np.float64)
        if at.ndim != 1 or values.ndim != 2 or len(values) != len(at):
            raise ValueError(
                "x and draws must have shapes (k,) and (k, n_draws), functions of one "
                f"output; got {at.shape} and {values.shape}."
            )
        order = np.argsort(at, kind="stable")
        data = [None if a is None else np.asarray(a, float) for a in (x_data, y_data)]
        return cls(at[order], values[order], *data, name, value_name).plot(ax=ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw the display.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, default=None
            None is a new figure.

        Returns
        -------
        self : FunctionDrawsDisplay
        """
        self.figure_, self.ax_ = axes_of(ax)
        draw_data(self.ax_, self.x_data, self.y_data)
        self.lines_ = self.ax_.plot(
            self.x, self.draws, color="C0", alpha=0.6, linewidth=1.0
        )
        if self.lines_:
            self.lines_[0].set_label("draws of the function")
        self.ax_.set(xlabel=self.name, ylabel=self.value_name)
        self.ax_.margins(x=0.0)
        self.ax_.legend()
        return self
