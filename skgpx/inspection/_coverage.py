"""Coverage of predictive intervals, and PIT values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import numpy as np
from scipy import stats
from sklearn.base import BaseEstimator

from skgpx._front.predict_dist import predict_dist
from skgpx._types import Array, ArrayLike, RandomState
from skgpx.inspection._axes import axes_of
from skgpx.metrics import calibration_error, pit_values

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.container import BarContainer
    from matplotlib.lines import Line2D


_KINDS = ("both", "curve", "pit")


class CoverageDisplay:
    """Coverage of central intervals, and the histogram of PIT values.

    Left, the fraction of targets in central intervals of every probability: on the
    diagonal if the distributions are right, below it if they are too narrow; the area
    between the two is in the legend. Right, the PIT values: uniform if the
    distributions are right, high at both ends if they are too narrow, to one side if
    they are biased. The grey range holds 95 % of such curves, at each point, of as many
    independent rows with the right distributions.

    Made by :meth:`from_estimator` or :meth:`from_predictions`.

    Parameters
    ----------
    pit : ndarray of shape (n_rows,)
        Probability integral transforms, see :func:`skgpx.metrics.pit_values`.
    name : str or None, default=None
        Name of the model, for the legend.

    Attributes
    ----------
    ax_ : matplotlib.axes.Axes, or ndarray of two
    figure_ : matplotlib.figure.Figure
    line_ : matplotlib.lines.Line2D or None
        The curve.
    bars_ : matplotlib.container.BarContainer or None
        The histogram.

    Examples
    --------
    >>> import numpy as np
    >>> from skgpx import SpectralVGPRegressor
    >>> from skgpx.inspection import CoverageDisplay
    >>> X = np.linspace(0.0, 6.0, 200)[:, np.newaxis]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).standard_normal(200)
    >>> model = SpectralVGPRegressor().fit(X[::2], y[::2])
    >>> display = CoverageDisplay.from_estimator(model, X[1::2], y[1::2])
    >>> display.pit.shape
    (100,)
    """

    def __init__(self, pit: Array, name: str | None = None):
        self.pit = pit
        self.name = name

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        X: ArrayLike,
        y: ArrayLike,
        *,
        kind: str = "both",
        name: str | None = None,
        random_state: RandomState = 0,
        ax: Axes | ArrayLike | None = None,
    ) -> Self:
        """Draw the coverage of a fitted regressor.

        Parameters
        ----------
        estimator : estimator
            Fitted; any that :func:`skgpx.predict_dist` takes.
        X : array-like of shape (n_rows, n_features)
            Held-out rows.
        y : array-like of shape (n_rows,)
        kind : {"both", "curve", "pit"}, default="both"
            Which of the two pictures.
        name : str or None, default=None
            Name of the model, for the legend; None takes the name of its class.
        random_state : int, RandomState, Generator or None, default=0
            Seed for counts, see :func:`skgpx.metrics.pit_values`.
        ax : matplotlib.axes.Axes or array of two, default=None
            None is a new figure.

        Returns
        -------
        display : CoverageDisplay
        """
        distribution = predict_dist(estimator, X)
        pit = pit_values(y, distribution, random_state=random_state)
        if name is None:
            name = type(estimator).__name__
        return cls.from_predictions(pit, kind=kind, name=name, ax=ax)

    @classmethod
    def from_predictions(
        cls,
        pit: ArrayLike,
        *,
        kind: str = "both",
        name: str | None = None,
        ax: Axes | ArrayLike | None = None,
    ) -> Self:
        """Draw PIT values, for instance of out-of-fold predictions.

        Parameters
        ----------
        pit : array-like of shape (n_rows,)
            Between 0 and 1.
        kind : {"both", "curve", "pit"}, default="both"
            Which of the two pictures.
        name : str or None, default=None
            Name of the model, for the legend.
        ax : matplotlib.axes.Axes or array of two, default=None
            None is a new figure.

        Returns
        -------
        display : CoverageDisplay
        """
        return cls(np.asarray(pit, dtype=np.float64), name).plot(kind=kind, ax=ax)

    def plot(self, kind: str = "both", ax: Axes | ArrayLike | None = None) -> Self:
        """Draw the display.

        Parameters
        ----------
        kind : {"both", "curve", "pit"}, default="both"
            Which of the two pictures.
        ax : matplotlib.axes.Axes or array of two, default=None
            None is a new figure.

        Returns
        -------
        self : CoverageDisplay
        """
        if kind not in _KINDS:
            raise ValueError(f"kind must be one of {_KINDS}; got {kind!r}.")
        calibration_error(self.pit)  # refuses values outside of [0, 1]
        self.line_ = None
        self.bars_ = None
        if kind == "both":
            self.figure_, self.ax_ = axes_of(ax, 2)
            left, right = self.ax_
            self.line_ = self._draw_curve(left)
            self.bars_ = self._draw_histogram(right)
            return self
        self.figure_, self.ax_ = axes_of(ax)
        if kind == "curve":
            self.line_ = self._draw_curve(self.ax_)
        else:
            self.bars_ = self._draw_histogram(self.ax_)
        return self

    def _draw_curve(self, ax: Axes) -> Line2D:
        """Observed against claimed coverage of central intervals."""
        n = len(self.pit)
        claimed = np.linspace(0.0, 1.0, 101)
        # y is in the central interval of probability 2 |pit - 1/2| and all wider ones
        smallest = np.sort(2.0 * np.abs(self.pit - 0.5))
        observed = np.searchsorted(smallest, claimed, side="right") / n
        low, high = stats.binom.interval(0.95, n, claimed)
        ax.fill_between(claimed, low / n, high / n, color="0.85", linewidth=0.0)
        ax.plot([0.0, 1.0], [0.0, 1.0], color="0.4", linewidth=1.0, linestyle="--")
        prefix = "" if self.name is None else f"{self.name}, "
        # between the curve and the diagonal
        area = calibration_error(smallest)
        (line,) = ax.plot(claimed, observed, label=f"{prefix}area {area:.3f}")
        ax.set(xlabel="probability of the interval", ylabel="targets inside")
        ax.set(xlim=(0.0, 1.0), ylim=(0.0, 1.0))
        ax.set_aspect("equal", adjustable="box")
        ax.legend(loc="lower right")
        return line

    def _draw_histogram(self, ax: Axes) -> BarContainer:
        """PIT values in bins of equal width, as densities."""
        n = len(self.pit)
        n_bins = int(np.clip(np.sqrt(n) / 1.5, 4, 20))
        # numbers of rows in a bin, and the density of one row
        low, high = stats.binom.interval(0.95, n, 1.0 / n_bins)
        unit = n_bins / n
        ax.axhspan(low * unit, high * unit, color="0.85", linewidth=0.0)
        ax.axhline(1.0, color="0.4", linewidth=1.0, linestyle="--")
        *_, bars = ax.hist(
            self.pit,
            bins=n_bins,
            range=(0.0, 1.0),
            density=True,
            alpha=0.7,
            edgecolor="white",
        )
        ax.set(xlabel="PIT, P(Y ≤ y)", ylabel="density", xlim=(0.0, 1.0))
        # the stub allows for several data sets and for steps
        return bars  # type: ignore[return-value]
