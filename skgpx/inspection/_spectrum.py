"""Power of the waves that a model is made of."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skgpx._validation import check_is_fitted
from skgpx._wrapped import innermost
from skgpx.inspection._axes import axes_of, names_of_fit, position_of

Array = NDArray[np.float64]


class SpectrumDisplay:
    """Power of waves over their frequency, or prior variances in their order.

    Of a SteinRFFRegressor: the posterior mean square of each learned wave over its
    frequency, in one column, one colour for each component. Of a SpectralVGPRegressor:
    the prior variances of the functions it considered in their order, those in the
    basis in colour.

    Made by :meth:`from_estimator` or :meth:`from_predictions`.

    Parameters
    ----------
    frequencies : ndarray of shape (n_sets, n_waves)
        Horizontal positions, one set for each component.
    powers : ndarray of shape (n_sets, n_waves)
        In squared units of y.
    labels : list of str or None, default=None
        Of the sets.
    name : str, default="frequency"
        Of the horizontal axis.
    value_name : str, default="power"
        Of the vertical one.
    log_x : bool, default=False
        Whether the horizontal axis is logarithmic; the vertical one is.

    Attributes
    ----------
    ax_ : matplotlib.axes.Axes
    figure_ : matplotlib.figure.Figure
    points_ : list of matplotlib.collections.PathCollection
        The waves of each set.

    Examples
    --------
    >>> import numpy as np
    >>> from skgpx import SteinRFFRegressor
    >>> from skgpx.inspection import SpectrumDisplay
    >>> X = np.linspace(0.0, 6.0, 80)[:, np.newaxis]
    >>> y = np.sin(3.0 * X[:, 0]) + 0.1 * np.random.default_rng(0).standard_normal(80)
    >>> model = SteinRFFRegressor(n_components=2, n_frequencies=10, random_state=0)
    >>> display = SpectrumDisplay.from_estimator(model.fit(X, y))
    >>> display.frequencies.shape
    (2, 10)
    """

    def __init__(
        self,
        frequencies: Array,
        powers: Array,
        labels: list[str] | None = None,
        name: str = "frequency",
        value_name: str = "power",
        log_x: bool = False,
    ):
        self.frequencies, self.powers = frequencies, powers
        self.labels, self.name, self.value_name = labels, name, value_name
        self.log_x = log_x

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, feature: int | str = 0, ax: Any = None
    ) -> Self:
        """Draw the spectrum of a fitted SteinRFFRegressor or SpectralVGPRegressor.

        Parameters
        ----------
        estimator : estimator
            Fitted, or a pipeline, a search or a transformed target around one.
        feature : int or str, default=0
            Number or name of the column of X (as the regressor sees it) whose frequency
            is shown; not used for a SpectralVGPRegressor.
        ax : matplotlib.axes.Axes, default=None
            None is a new figure.

        Returns
        -------
        display : SpectrumDisplay

        Raises
        ------
        ValueError
            For models that are not made of waves, or a column that is not there.
        """
        model = innermost(estimator)
        check_is_fitted(model)
        if hasattr(model, "frequencies_") and hasattr(model, "spectrum_"):
            return cls._of_learned(model, feature).plot(ax=ax)
        if hasattr(model, "spectrum_"):
            return cls._of_considered(model).plot(ax=ax)
        raise ValueError(
            "SpectrumDisplay expects a fitted SteinRFFRegressor or "
            f"SpectralVGPRegressor; got {model!r}."
        )

    @classmethod
    def from_predictions(
        cls,
        frequencies: ArrayLike,
        powers: ArrayLike,
        *,
        labels: list[str] | None = None,
        name: str = "frequency",
        value_name: str = "power",
        ax: Any = None,
    ) -> Self:
        """Draw any spectrum.

        Parameters
        ----------
        frequencies : array-like of shape (n_waves,) or (n_sets, n_waves)
        powers : array-like of the shape of frequencies
            Not negative.
        labels : list of str, default=None
            Of the sets.
        name : str, default="frequency"
            Of the horizontal axis.
        value_name : str, default="power"
            Of the vertical one.
        ax : matplotlib.axes.Axes, default=None
            None is a new figure.

        Returns
        -------
        display : SpectrumDisplay

        Raises
        ------
        ValueError
            If shapes do not agree, or a power is negative.
        """
        at = np.atleast_2d(np.asarray(frequencies, dtype=np.float64))
        height = np.atleast_2d(np.asarray(powers, dtype=np.float64))
        if at.shape != height.shape or at.ndim != 2 or not np.all(height >= 0.0):
            raise ValueError(
                "frequencies and powers must have the same shape (n_sets, n_waves), "
                f"powers not negative; got {at.shape} and {height.shape}."
            )
        return cls(at, height, labels, name, value_name).plot(ax=ax)

    @classmethod
    def _of_learned(cls, model: Any, feature: int | str) -> Self:
        names = names_of_fit(model)
        column = position_of(feature, names)
        at = np.abs(model.frequencies_[:, :, column]) / (2.0 * np.pi)
        labels = [f"component {k + 1}" for k in range(len(at))]
        named = f"cycles per unit of {names[column]}", "mean square of the wave"
        return cls(at, model.spectrum_, labels, *named)

    @classmethod
    def _of_considered(cls, model: Any) -> Self:
        spectrum = np.asarray(model.spectrum_, dtype=np.float64)
        order = np.arange(1.0, len(spectrum) + 1.0)
        inside = order <= model.n_basis_
        at = np.where([inside, ~inside], order, np.nan)
        labels = [f"in the basis ({int(inside.sum())})", "left out"]
        kept = [True, bool(np.any(~inside))]
        powers = np.broadcast_to(spectrum, at.shape)[kept]
        labels = [label for label, keep in zip(labels, kept, strict=True) if keep]
        named = "function, in the order of the prior", "prior variance"
        return cls(at[kept], powers, labels, *named, log_x=len(spectrum) > 30)

    def plot(self, ax: Any = None) -> Self:
        """Draw the display.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, default=None
            None is a new figure.

        Returns
        -------
        self : SpectrumDisplay
        """
        self.figure_, self.ax_ = axes_of(ax)
        self.points_ = []
        top = float(np.max(self.powers)) or 1.0
        for j, (at, height) in enumerate(
            zip(self.frequencies, self.powers, strict=True)
        ):
            label = None if self.labels is None else self.labels[j]
            shown = height > 1e-8 * top
            points = self.ax_.scatter(
                at[shown], height[shown], s=10.0, color=f"C{j % 10}", alpha=0.7,
                linewidth=0.0, label=label,
            )  # fmt: skip
            self.points_.append(points)
        self.ax_.set_yscale("log")
        if self.log_x:
            self.ax_.set_xscale("log")
        self.ax_.set(xlabel=self.name, ylabel=f"{self.value_name}, squared units of y")
        if self.labels is not None:
            self.ax_.legend()
        return self
