"""Terms of an additive model: the effect of each on the function."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import chain
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri
from sklearn.base import BaseEstimator

from skgpx._shell.validation import check_count, check_coverage
from skgpx._types import Array
from skgpx.inspection._axes import fitted_model, panels_of, rows_and_names, say_fixed
from skgpx.kernels import additive_terms, category_columns


def _has_terms(model: Any) -> bool:
    """Whether a model is one function on inducing points around a constant."""
    has_points = hasattr(getattr(model, "basis", None), "inducing_points")
    return (
        has_points
        and model.n_outputs == 1
        and getattr(model.mean, "function", None) is None
    )


def _moments(
    term: Any,
    points: Array,
    contrast: Array,
) -> tuple[Array, Array]:
    """Mean and variance (k,) of contrasts (k, p) of a function at points (p, d)."""
    point_means, _ = term.marginals(points).moments()
    covariance = term.covariance(points)
    variance = np.sum((contrast @ covariance) * contrast, axis=1)
    return contrast @ point_means[:, 0], np.maximum(variance, 0.0)


def _labels(model: Any, name: str, codes: ArrayLike) -> NDArray[np.str_]:
    """Categories of a column with these codes, or the codes themselves, as text."""
    positions = np.asarray(codes, dtype=np.intp)
    categories = getattr(model, "categories_", {}).get(name)
    if categories is None:
        return positions.astype(str)
    return np.asarray(categories).astype(str)[positions]


class TermEffectDisplay:
    """The effect of each term of an additive model, with its interval: a panel each.

    A kernel that is a sum of :class:`skgpx.kernels.Columns` makes f a sum of
    independent functions, one for each set of columns. The effect of a term is its
    function less its mean over the rows of X, since the data do not determine constants
    between terms. Its mean and variance follow from the moments of the weights; where
    hyperparameters are averaged they are those of the mixture.

    Made by :meth:`from_estimator`.

    Parameters
    ----------
    effects : dict of tuples (x, mean, std)
        By the names of the columns of the term: numbers or categories, and the
        posterior mean and standard deviation of the effect there, of shape (k,).
    coverage : float, default=0.9
        Probability of the intervals.
    fixed : dict of dicts or None, default=None
        By the names of the columns of the term: values of the columns along which it is
        not drawn, by name, for the title.

    Attributes
    ----------
    axes_ : ndarray of matplotlib.axes.Axes
        One for each term.
    figure_ : matplotlib.figure.Figure

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from skgpx import PLSRegressor
    >>> from skgpx.inspection import TermEffectDisplay
    >>> from skgpx.kernels import Columns, Linear
    >>> X = np.random.default_rng(0).uniform(0.0, 6.0, (60, 2))
    >>> y = np.sin(X[:, 0]) + X[:, 1] + np.random.default_rng(1).normal(0.0, 0.1, 60)
    >>> kernel = 1.0 * Columns(RBF(1.0), [0]) + Columns(Linear(1.0), [1])
    >>> model = PLSRegressor(kernel=kernel, random_state=0).fit(X, y)
    >>> list(TermEffectDisplay.from_estimator(model, X).effects)
    ['x0', 'x1']
    """

    def __init__(
        self,
        effects: dict[str, tuple[NDArray[Any], Array, Array]],
        coverage: float = 0.9,
        fixed: Mapping[str, Mapping[str, Any]] | None = None,
    ):
        self.effects = effects
        self.coverage = coverage
        self.fixed = fixed

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        X: ArrayLike,
        *,
        coverage: float = 0.9,
        resolution: int = 100,
        ax: ArrayLike | None = None,
    ) -> Self:
        """Draw the terms of a fitted model.

        Parameters
        ----------
        estimator : estimator
            Fitted, of one latent function on inducing points with a constant prior
            mean: PLSRegressor (with ``hyperparameters="maximise"``), PLSClassifier,
            ``GWIRegressor("svgp")``, ``SpectralVGPRegressor(basis="inducing")``; or a
            pipeline or search around one.
        X : array-like of shape (n_rows, n_features)
            Rows whose range is shown, and over which effects have mean zero; at most
            500 of them are used. A term of several columns is drawn along the first
            one that holds numbers; the others are at their medians.
        coverage : float, default=0.9
            Probability of the intervals, in (0, 1).
        resolution : int, default=100
            Number of points along a column of numbers.
        ax : array of matplotlib.axes.Axes, default=None
            One for each term; None is a new figure.

        Returns
        -------
        display : TermEffectDisplay

        Raises
        ------
        ValueError
            If the model has no such terms, or for a resolution below 1.
        """
        model, X = fitted_model(estimator, X)
        posterior = model.posterior_
        coverage = check_coverage(coverage)
        resolution = check_count(resolution, "resolution")
        parts = getattr(posterior, "models", (posterior,))
        mean = getattr(posterior, "mean", None)
        is_constant = getattr(mean, "function", None) is None
        if not (is_constant and all(_has_terms(part) for part in parts)):
            raise ValueError(
                "TermEffectDisplay needs one latent function on inducing points with a "
                "constant prior mean, such as that of PLSRegressor or of "
                f'SpectralVGPRegressor(basis="inducing"); got {model!r}. Averaged '
                'hyperparameters make it several: use hyperparameters="maximise".'
            )
        weights = np.ones(1)
        if hasattr(posterior, "models"):
            weights = posterior.weights
        rows, names = rows_and_names(model, X)
        step = math.ceil(len(rows) / 500)
        rows = rows[::step]
        n, d = rows.shape
        kernels = [additive_terms(part.basis.kernel, d) for part in parts]
        coded = category_columns(parts[0].basis.kernel, d)
        # values of the rows: codes stay codes
        middle = np.quantile(rows, 0.5, axis=0, method="inverted_cdf")
        effects = {}
        fixed = {}
        # a dictionary keeps the order of the terms
        for columns in dict.fromkeys(chain(*kernels)):
            # along the first column of numbers, or of codes if there is none
            numeric = [j for j in columns if j not in coded]
            column = min(numeric or columns)
            x: NDArray[Any] = np.unique(rows[:, column])
            if column not in coded:
                x = np.linspace(x[0], x[-1], resolution)
            line = np.tile(middle, (len(x), 1))
            line[:, column] = x
            # f(line) less the mean of f over the rows: C f with C = [I, -1 / n]
            points = np.concatenate((line, rows))
            contrast = np.hstack((np.eye(len(x)), np.full((len(x), n), -1.0 / n)))
            # a model without the term has an effect of zero
            means = np.zeros((len(parts), len(x)))
            variances = np.zeros((len(parts), len(x)))
            for k, part in enumerate(parts):
                if columns in kernels[k]:
                    term = part.term(kernels[k][columns])
                    means[k], variances[k] = _moments(term, points, contrast)
            mean = weights @ means
            variance = weights @ (variances + (means - mean) ** 2)
            std = np.sqrt(variance)
            if column in coded:
                x = _labels(model, names[column], x)
            name = ", ".join(names[j] for j in columns)
            effects[name] = (x, mean, std)
            fixed[name] = {
                names[j]: _labels(model, names[j], value) if j in coded else value
                for j, value in enumerate(middle)
                if j in columns and j != column
            }
        return cls(effects, coverage, fixed).plot(ax=ax)

    def plot(self, ax: ArrayLike | None = None) -> Self:
        """Draw the display.

        Parameters
        ----------
        ax : array of matplotlib.axes.Axes, default=None
            None is a new figure.

        Returns
        -------
        self : TermEffectDisplay
        """
        self.figure_, self.axes_ = panels_of(ax, len(self.effects))
        n_stds = ndtri(0.5 + 0.5 * self.coverage)
        for panel, (name, effect) in zip(self.axes_, self.effects.items(), strict=True):
            x, mean, std = effect
            half_width = n_stds * std
            if x.dtype.kind == "f":
                panel.fill_between(
                    x,
                    mean - half_width,
                    mean + half_width,
                    color="C0",
                    alpha=0.25,
                    linewidth=0.0,
                )
                panel.plot(x, mean, color="C0")
            else:
                panel.errorbar(x, mean, half_width, fmt="o", capsize=4.0)
            panel.set(xlabel=name, ylabel="effect")
            say_fixed(panel, (self.fixed or {}).get(name))
        return self
