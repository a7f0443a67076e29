"""Hyperparameters that predictions average: their posterior, and draws from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import numpy as np
from sklearn.base import BaseEstimator

from skgpx._reports.averaged_hyperparameters import AveragedHyperparameters, quantiles
from skgpx._shell.validation import check_count, check_is_fitted
from skgpx._shell.wrapped import innermost
from skgpx._types import Array, ArrayLike
from skgpx.inspection._axes import panels_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes


# Kinds in the units of the latent function that are drawn.
_STANDARD_DEVIATIONS = ("noise_std", "scale", "amplitude")


class HyperparameterDisplay:
    """Posterior of averaged hyperparameters: lengthscales, noise and families.

    There is a point for each state, its area in proportion to the weight, and a line
    from the quantile of 5 % to that of 95 %, with the median. Lengthscales are in
    standard deviations of their column (over the inducing points), from short to long,
    at most fifteen: along a column whose lengthscale is many of these the function is
    constant or nearly straight. The last panel has the posterior probability of each
    form of the kernel.

    Made by :meth:`from_estimator`.

    Parameters
    ----------
    values : dict of str to ndarray of shape (n_states,)
        Hyperparameters by name, such as ``"noise_std"`` and ``"lengthscale[x0]"``.
        Amplitudes, slopes and noise are standard deviations in the units of y (of the
        latent function, for LogNormal noise of log y), and lengthscales and periods in
        the units of their column. NaN in states whose kernel has no such parameter.
    weights : ndarray of shape (n_states,)
        Posterior probabilities of the states.
    families : dict of str to float
        Posterior probability of each form of the kernel.
    panels : dict of str to dict of str to ndarray of shape (n_states,)
        Values that are drawn, by the labels of the axes and of the rows.
    scale_of_y : str, default=""
        The scale of y that was learned, and the posterior of its power, in words: the
        title of the last panel.

    Attributes
    ----------
    axes_ : ndarray of matplotlib.axes.Axes
        One for each panel, and one for the families.
    figure_ : matplotlib.figure.Figure

    Examples
    --------
    >>> import numpy as np
    >>> from skgpx import PLSRegressor
    >>> from skgpx.inspection import HyperparameterDisplay
    >>> X = np.random.default_rng(0).uniform(-2.0, 2.0, (20, 1))
    >>> y = np.sin(2.0 * X[:, 0]) + 0.1 * np.random.default_rng(1).normal(size=20)
    >>> model = PLSRegressor(hyperparameters="average", random_state=0).fit(X, y)
    >>> display = HyperparameterDisplay.from_estimator(model)
    >>> list(display.values)[:3]
    ['noise_std', 'amplitude', 'lengthscale[x0]']

    Draws of equal weight are arrays of the shape (1, n_draws), one chain, as
    ``arviz.from_dict(posterior=draws)`` takes them (from version 1.0 of ArviZ on
    ``arviz.from_dict({"posterior": draws})``).

    >>> draws = display.draws()
    >>> draws["noise_std"].shape
    (1, 96)
    """

    def __init__(
        self,
        values: dict[str, Array],
        weights: Array,
        families: dict[str, float],
        panels: dict[str, dict[str, Array]],
        scale_of_y: str = "",
    ):
        self.values = values
        self.weights = weights
        self.families = families
        self.panels = panels
        self.scale_of_y = scale_of_y

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        *,
        ax: ArrayLike | None = None,
    ) -> Self:
        """Draw the hyperparameters that a fitted model averages.

        Parameters
        ----------
        estimator : estimator
            A fitted model that averages its hyperparameters, or a pipeline, a
            search or a transformed target around one.
        ax : array of matplotlib.axes.Axes, default=None
            One for each panel; None is a new figure.

        Returns
        -------
        display : HyperparameterDisplay

        Raises
        ------
        ValueError
            If the model has chosen its hyperparameters.
        """
        model = innermost(estimator)
        check_is_fitted(model)
        averaged = AveragedHyperparameters.of(model)
        if averaged is None:
            raise ValueError(
                "HyperparameterDisplay shows hyperparameters that predictions average; "
                f"those of {model!r} were chosen. Fit a PLSRegressor with "
                'hyperparameters="average", for one target and few rows.'
            )
        names = averaged.column_names
        labelled = {
            hyperparameter.label(names): values
            for hyperparameter, values in averaged.values.items()
        }
        length_scales = {}
        stds = {}
        # columns that are drawn: those with the shortest lengthscales
        for hyperparameter, values in averaged.of_columns(15).items():
            label = hyperparameter.label(names)
            if hyperparameter.kind == "lengthscale":
                columns = list(hyperparameter.columns) or slice(None)
                unit = np.mean(averaged.column_std[columns])
                length_scales[label] = values / unit
            elif hyperparameter.kind in _STANDARD_DEVIATIONS:
                stds[label] = values
        panels = {
            "lengthscale, in standard deviations of its column": length_scales,
            "standard deviation of f and of the noise": stds,
        }
        return cls(
            labelled,
            averaged.weights,
            averaged.family_weights(),
            {label: panel for label, panel in panels.items() if panel},
            getattr(model.likelihood_, "description", ""),
        ).plot(ax=ax)

    def draws(self, n_draws: int = 96) -> dict[str, Array]:
        """States of equal weight: each in proportion to its posterior probability.

        With as many draws as the fit has drawn states, 96 of up to 104 rows under
        Gaussian noise, these are its states. They are in no order of time: R-hat and
        effective sizes of chains do not apply.

        Parameters
        ----------
        n_draws : int, default=96

        Returns
        -------
        draws : dict of str to ndarray of shape (1, n_draws)
            By the names of `values`. Hyperparameters that some of the states do not
            have, such as those of a trend in some families only, are left out.
        """
        n_draws = check_count(n_draws, "n_draws")
        # systematic resampling at the middle of n equal parts
        places = (np.arange(n_draws) + 0.5) / n_draws
        cumulative = np.cumsum(self.weights) / np.sum(self.weights)
        states = np.searchsorted(cumulative, places)
        return {
            name: values[np.newaxis, states]
            for name, values in self.values.items()
            if np.all(np.isfinite(values))
        }

    def plot(self, ax: ArrayLike | None = None) -> Self:
        """Draw the display.

        Parameters
        ----------
        ax : array of matplotlib.axes.Axes, default=None
            One for each panel; None is a new figure.

        Returns
        -------
        self : HyperparameterDisplay
        """
        self.figure_, self.axes_ = panels_of(ax, len(self.panels) + 1)
        for axes, (label, rows) in zip(self.axes_, self.panels.items(), strict=False):
            self._draw_strips(axes, rows)
            axes.set(xscale="log", xlabel=label)
        family_axes = self.axes_[-1]
        # a line for each part of a name, such as ", and a linear trend"
        names = [name.replace(", ", ",\n") for name in self.families]
        family_axes.barh(names, list(self.families.values()), height=0.5)
        family_axes.invert_yaxis()
        family_axes.tick_params(axis="y", labelsize="small")
        family_axes.set(xlim=(0.0, 1.0), xlabel="posterior probability")
        family_axes.set_title(self.scale_of_y, fontsize="small")
        return self

    def _draw_strips(self, ax: Axes, rows: dict[str, Array]) -> None:
        """States, median and range of 90 %, a row for each hyperparameter."""
        areas = 600.0 * self.weights
        probabilities = [0.05, 0.5, 0.95]
        for position, values in enumerate(rows.values()):
            low, median, high = quantiles(values, self.weights, probabilities)
            heights = np.full(len(values), position)
            ax.scatter(
                values,
                heights,
                s=areas,
                color="C0",
                alpha=0.3,
                linewidth=0.0,
            )
            ax.plot(
                [low, high],
                [position, position],
                color="C0",
                linewidth=1.2,
            )
            ax.plot(
                median,
                position,
                color="C0",
                marker="|",
                markersize=12.0,
            )
        ax.set_yticks(range(len(rows)), list(rows))
        ax.set_ylim(len(rows) - 0.5, -0.5)
