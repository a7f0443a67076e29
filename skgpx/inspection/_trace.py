"""How a fit went: chains, or steps of a search."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import numpy as np
from sklearn.base import BaseEstimator

from skgpx._shell.validation import check_is_fitted
from skgpx._shell.wrapped import innermost
from skgpx._types import Array, ArrayLike
from skgpx.inspection._axes import axes_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D


class TraceDisplay:
    """Energy of chains by rounds of steps, and R-hat of every coordinate.

    For a PLSRegressor or PLSClassifier it shows the mean potential of the particles,
    which levels off once the chains no longer depend on their start, and split R-hat in
    ascending order with the tolerance at which chains stop. For a SteinRFFRegressor
    it shows the loss and the density of held-out rows.

    Made by :meth:`from_estimator`, or from arrays, to :meth:`plot`.

    Parameters
    ----------
    curve : ndarray of shape (n_rounds,)
        Energy or loss.
    rhat : ndarray of shape (n_coordinates,) or None, default=None
    tol : float or None, default=None
        Horizontal line in the picture of R-hat.
    second : ndarray of shape (n_rounds,) or None, default=None
        Curve of the second picture where there is no R-hat.
    names : tuple of str, default=("round of steps", "mean potential", "")
        Labels of the horizontal axis, the curve and the second curve.

    Attributes
    ----------
    ax_ : matplotlib.axes.Axes, or ndarray of two
        Two where there is R-hat or a second curve.
    figure_ : matplotlib.figure.Figure
    lines_ : list of matplotlib.lines.Line2D

    Examples
    --------
    >>> import numpy as np
    >>> from skgpx import PLSRegressor
    >>> from skgpx.inspection import TraceDisplay
    >>> from skgpx.likelihoods import Poisson
    >>> X = np.linspace(0.0, 6.0, 40)[:, np.newaxis]
    >>> y = np.random.default_rng(0).poisson(3.0 + 2.0 * np.sin(X[:, 0]))
    >>> model = PLSRegressor(
    ...     likelihood=Poisson(), n_inducing=8, n_particles=20, random_state=0
    ... )
    >>> display = TraceDisplay.from_estimator(model.fit(X, y))
    >>> display.rhat.shape
    (8,)
    """

    def __init__(
        self,
        curve: Array,
        rhat: Array | None = None,
        tol: float | None = None,
        second: Array | None = None,
        names: tuple[str, str, str] = ("round of steps", "mean potential", ""),
    ):
        self.curve = curve
        self.rhat = rhat
        self.tol = tol
        self.second = second
        self.names = names

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        *,
        ax: Axes | ArrayLike | None = None,
    ) -> Self:
        """Draw the convergence of a fit.

        Parameters
        ----------
        estimator : estimator
            Fitted, or a pipeline, a search or a transformed target around one.
        ax : array of two matplotlib.axes.Axes, default=None
            None is a new figure. One Axes where there is one curve only.

        Returns
        -------
        display : TraceDisplay

        Raises
        ------
        ValueError
            For models that were fitted in closed form.
        """
        model = innermost(estimator)
        check_is_fitted(model)
        if len(getattr(model, "energy_curve_", ())):
            curve = np.asarray(model.energy_curve_)
            return cls(curve, np.asarray(model.rhat_), model.tol).plot(ax=ax)
        if len(getattr(model, "loss_curve_", ())):
            held_out = np.asarray(getattr(model, "validation_curve_", ()))
            return cls(
                np.asarray(model.loss_curve_),
                second=held_out if len(held_out) else None,
                names=(
                    "step",
                    "loss, nats per observation",
                    "log density of held-out rows",
                ),
            ).plot(ax=ax)
        raise ValueError(
            "TraceDisplay shows chains or the steps of a search, which a fit in closed "
            f"form does not have; got {model!r}."
        )

    def plot(self, ax: Axes | ArrayLike | None = None) -> Self:
        """Draw the display.

        Parameters
        ----------
        ax : matplotlib.axes.Axes or array of two, default=None
            None is a new figure.

        Returns
        -------
        self : TraceDisplay
        """
        name, value_name, second_name = self.names
        if self.rhat is None and self.second is None:
            self.figure_, self.ax_ = axes_of(ax)
            self.lines_ = _draw_curve(self.ax_, self.curve, name, value_name)
            return self
        self.figure_, self.ax_ = axes_of(ax, 2)
        left, right = self.ax_
        self.lines_ = _draw_curve(left, self.curve, name, value_name)
        if self.rhat is not None:
            # sorted R-hat; coordinates that do not move, of infinite R-hat, at the
            # top
            rhat = np.sort(np.asarray(self.rhat))
            finite = rhat[np.isfinite(rhat)]
            n = len(rhat)
            share = np.arange(1, len(finite) + 1) / n
            lines = right.plot(share, finite, marker=".", markersize=4.0, linewidth=1.0)
            if len(finite) < n:
                right.set_title(f"{n - len(finite)} of {n} infinite", fontsize="medium")
            if self.tol is not None:
                right.axhline(
                    self.tol,
                    color="0.4",
                    linewidth=1.0,
                    linestyle="--",
                    label=f"tolerance {self.tol:g}",
                )
                right.legend()
            right.set(xlabel=f"share of the {n} coordinates", ylabel="R-hat at most")
            self.lines_ += list(lines)
        elif self.second is not None:
            self.lines_ += _draw_curve(
                right,
                self.second,
                "round of ten steps",
                second_name,
            )
        return self


def _draw_curve(
    ax: Axes,
    values: Array,
    name: str,
    value_name: str,
) -> list[Line2D]:
    """Curve over the numbers of rounds or steps."""
    steps = np.arange(1, len(values) + 1)
    marker = "." if len(values) < 60 else None
    lines = ax.plot(steps, values, marker=marker, linewidth=1.2)
    ax.set(xlabel=name, ylabel=value_name)
    ax.locator_params(axis="x", integer=True)
    return list(lines)
