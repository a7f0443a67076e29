"""Predictions and functions drawn from a posterior, along one column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import BaseEstimator

from skgpx._front.predict_dist import predict_dist, sample_functions
from skgpx._shell.validation import check_count
from skgpx._shell.wrapped import innermost
from skgpx._types import Array, ArrayLike, RandomState
from skgpx.inspection._axes import (
    axes_of,
    draw_data,
    finish_line,
    line_along,
    optional_array,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class PredictiveDisplay:
    """Predictive mean and intervals along one column of X, with the data.

    Made by :meth:`from_estimator` or :meth:`from_predictions`.

    Parameters
    ----------
    x : ndarray of shape (k,)
        Values of the column, ascending.
    mean : ndarray of shape (k,)
    bounds : ndarray of shape (k, n_coverages, 2)
        Lower and upper ends of the intervals, the widest last.
    coverages : tuple of float
        Their probabilities, ascending.
    x_data, y_data : ndarray of shape (n_rows,) or None, default=None
        Observations to show.
    name : str, default="x"
        Name of the column.
    fixed : dict or None, default=None
        Values of the other columns, by name, for the title.

    Attributes
    ----------
    ax_ : matplotlib.axes.Axes
    figure_ : matplotlib.figure.Figure
    line_ : matplotlib.lines.Line2D
        The mean.
    bands_ : list of matplotlib.collections.PolyCollection
        The intervals, the widest first.

    Examples
    --------
    >>> import numpy as np
    >>> from skgpx import SpectralVGPRegressor
    >>> from skgpx.inspection import PredictiveDisplay
    >>> X = np.linspace(0.0, 6.0, 100)[:, np.newaxis]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).standard_normal(100)
    >>> model = SpectralVGPRegressor().fit(X, y)
    >>> display = PredictiveDisplay.from_estimator(model, X, y)
    >>> len(display.bands_)
    2
    """

    def __init__(
        self,
        x: Array,
        mean: Array,
        bounds: Array,
        coverages: tuple[float, ...],
        x_data: Array | None = None,
        y_data: Array | None = None,
        name: str = "x",
        fixed: Mapping[str, Any] | None = None,
    ):
        self.x = x
        self.mean = mean
        self.bounds = bounds
        self.coverages = coverages
        self.x_data = x_data
        self.y_data = y_data
        self.name = name
        self.fixed = fixed

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        X: ArrayLike,
        y: ArrayLike | None = None,
        *,
        feature: int | str = 0,
        coverages: Sequence[float] = (0.5, 0.9),
        resolution: int = 200,
        margin: float = 0.05,
        ax: Axes | None = None,
    ) -> Self:
        """Draw the predictive distribution of a fitted regressor.

        Parameters
        ----------
        estimator : estimator
            Fitted; any that :func:`skgpx.predict_dist` takes.
        X : array-like of shape (n_rows, n_features)
            Rows whose range is shown. Columns other than `feature` are held at their
            median (of a data frame, at their most frequent value if they are not
            numbers), which the title says; the data are of other rows than the curve.
        y : array-like of shape (n_rows,), default=None
            Their targets, shown as points.
        feature : int or str, default=0
            Column along which predictions are shown.
        coverages : sequence of float, default=(0.5, 0.9)
            Probabilities of the central intervals of y, in (0, 1).
        resolution : int, default=200
            Number of points along the column.
        margin : float, default=0.05
            How far to go beyond the data, as a share of their range.
        ax : matplotlib.axes.Axes, default=None
            None is a new figure.

        Returns
        -------
        display : PredictiveDisplay

        Raises
        ------
        ValueError
            If X has no such column of numbers, or for a resolution below 1, a negative
            margin or no coverages.
        """
        if not len(coverages):
            raise ValueError("coverages must hold at least one probability; got none.")
        line = line_along(X, feature, resolution, margin)
        distribution = predict_dist(estimator, line.rows)
        levels = sorted(float(coverage) for coverage in coverages)
        intervals = [distribution.interval(level) for level in levels]
        return cls.from_predictions(
            line.x,
            distribution.mean(),
            np.stack(intervals, axis=1),
            coverages=levels,
            x_data=None if y is None else line.data,
            y_data=y,
            name=line.name,
            fixed=line.fixed,
            ax=ax,
        )

    @classmethod
    def from_predictions(
        cls,
        x: ArrayLike,
        mean: ArrayLike,
        bounds: ArrayLike,
        *,
        coverages: Sequence[float] = (0.9,),
        x_data: ArrayLike | None = None,
        y_data: ArrayLike | None = None,
        name: str = "x",
        fixed: Mapping[str, Any] | None = None,
        ax: Axes | None = None,
    ) -> Self:
        """Draw predictions that were made elsewhere.

        Parameters
        ----------
        x : array-like of shape (k,)
            In any order.
        mean : array-like of shape (k,)
        bounds : array-like of shape (k, 2) or (k, n_coverages, 2)
            Ends of the intervals.
        coverages : sequence of float, default=(0.9,)
            Their probabilities.
        x_data : array-like of shape (n_rows,), default=None
        y_data : array-like of shape (n_rows,), default=None
            Observations to show.
        name : str, default="x"
            Name of the axis.
        fixed : dict or None, default=None
            Values of the other columns, by name, for the title.
        ax : matplotlib.axes.Axes, default=None
            None is a new figure.

        Returns
        -------
        display : PredictiveDisplay

        Raises
        ------
        ValueError
            If shapes do not agree.
        """
        x = np.asarray(x, dtype=np.float64)
        mean = np.asarray(mean, dtype=np.float64)
        bounds = np.asarray(bounds, dtype=np.float64)
        if bounds.ndim == 2:
            bounds = bounds[:, np.newaxis]
        levels = np.asarray(coverages, dtype=np.float64)
        expected = (*x.shape, len(levels), 2)
        if x.ndim != 1 or mean.shape != x.shape or bounds.shape != expected:
            raise ValueError(
                f"x, mean and bounds must have shapes (k,), (k,) and (k, "
                f"{len(levels)}, 2); got {x.shape}, {mean.shape} and {bounds.shape}."
            )
        order = np.argsort(x, kind="stable")
        by_level = np.argsort(levels)
        display = cls(
            x[order],
            mean[order],
            bounds[order][:, by_level],
            tuple(levels[by_level].tolist()),
            optional_array(x_data),
            optional_array(y_data),
            name,
            fixed,
        )
        return display.plot(ax=ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw the display.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, default=None
            None is a new figure.

        Returns
        -------
        self : PredictiveDisplay
        """
        self.figure_, self.ax_ = axes_of(ax)
        self.bands_ = []
        n_bands = len(self.coverages)
        for j in reversed(range(n_bands)):
            low, high = self.bounds[:, j].T
            # the narrower a band, the darker
            opacity = 0.15 + 0.25 * (n_bands - 1 - j) / n_bands
            band = self.ax_.fill_between(
                self.x,
                low,
                high,
                color="C0",
                alpha=opacity,
                linewidth=0.0,
                label=f"{100.0 * self.coverages[j]:g} % interval",
            )
            self.bands_.append(band)
        (self.line_,) = self.ax_.plot(self.x, self.mean, color="C0", label="mean")
        draw_data(self.ax_, self.x_data, self.y_data)
        finish_line(self.ax_, self.name, "y", self.fixed)
        return self


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
        Name of the column.
    value_name : str, default="f"
        Label of the vertical axis.
    fixed : dict or None, default=None
        Values of the other columns, by name, for the title.

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
        fixed: Mapping[str, Any] | None = None,
    ):
        self.x = x
        self.draws = draws
        self.x_data = x_data
        self.y_data = y_data
        self.name = name
        self.value_name = value_name
        self.fixed = fixed

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        X: ArrayLike,
        y: ArrayLike | None = None,
        *,
        feature: int | str = 0,
        n_draws: int = 10,
        random_state: RandomState = 0,
        resolution: int = 300,
        margin: float = 0.05,
        ax: Axes | None = None,
    ) -> Self:
        """Draw functions from a fitted model.

        Parameters
        ----------
        estimator : estimator
            Fitted; any that :func:`skgpx.sample_functions` takes, with one output.
        X : array-like of shape (n_rows, n_features)
            Rows whose range is shown. Columns other than `feature` are held as in
            :class:`PredictiveDisplay`.
        y : array-like of shape (n_rows,), default=None
            Their targets, shown as points; not for counts and classes, whose latent
            function is on another scale.
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
            If the functions have several outputs, or X has no such column of numbers,
            or for a resolution or number of draws below 1, or a negative margin.
        """
        line = line_along(X, feature, resolution, margin)
        n_draws = check_count(n_draws, "n_draws")
        draws = sample_functions(estimator, n_draws, random_state)
        values = draws(line.rows)
        likelihood = getattr(innermost(estimator), "likelihood_", None)
        warp = getattr(likelihood, "warp_", None)
        if warp is not None and values.ndim == 2:
            # medians of y
            values = warp.inverse(values)
        return cls.from_predictions(
            line.x,
            values,
            x_data=None if y is None else line.data,
            y_data=y,
            name=line.name,
            fixed=line.fixed,
            ax=ax,
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
        fixed: Mapping[str, Any] | None = None,
        ax: Axes | None = None,
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
            Name of the horizontal axis.
        value_name : str, default="f"
            Label of the vertical axis.
        fixed : dict or None, default=None
            Values of the other columns, by name, for the title.
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
        x = np.asarray(x, dtype=np.float64)
        draws = np.asarray(draws, dtype=np.float64)
        if x.ndim != 1 or draws.ndim != 2 or len(draws) != len(x):
            raise ValueError(
                "x and draws must have shapes (k,) and (k, n_draws), functions of one "
                f"output; got {x.shape} and {draws.shape}."
            )
        order = np.argsort(x, kind="stable")
        display = cls(
            x[order],
            draws[order],
            optional_array(x_data),
            optional_array(y_data),
            name,
            value_name,
            fixed,
        )
        return display.plot(ax=ax)

    def plot(self, ax: Axes | None = None) -> Self:
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
            self.x,
            self.draws,
            color="C0",
            alpha=0.6,
            linewidth=1.0,
        )
        if self.lines_:
            self.lines_[0].set_label("draws of the function")
        finish_line(self.ax_, self.name, self.value_name, self.fixed)
        return self
