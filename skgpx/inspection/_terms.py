"""Terms of an additive model: the effect of each on the function."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from skgpx._validation import check_coverage, check_is_fitted
from skgpx._wrapped import unwrapped
from skgpx.inspection._axes import axes_of
from skgpx.kernels import additive_terms, category_columns

Array = NDArray[np.float64]


class TermEffectDisplay:
    """The effect of each term of an additive model, with its interval: a panel each.

    A kernel that is a sum of :class:`skgpx.kernels.Columns` makes f a sum of
    independent functions, one for each set of columns. The effect of a term is its
    function less the mean of that over the rows of X, since the data do not determine
    constants between terms. Its mean and variance follow from those of the weights.

    Made by :meth:`from_estimator`.

    Parameters
    ----------
    effects : dict of tuples (x, mean, std)
        By the names of the columns of the term: numbers or categories, and the
        posterior mean and standard deviation of the effect there, of shape (k,).
    coverage : float, default=0.9
        Probability of the intervals.

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
    ):
        self.effects, self.coverage = effects, coverage

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        *,
        coverage: float = 0.9,
        resolution: int = 100,
        ax: Any = None,
    ) -> Self:
        """Draw the terms of a fitted model.

        Parameters
        ----------
        estimator : estimator
            Fitted, of one latent function on inducing points, whose prior mean is a
            constant: PLSRegressor, PLSClassifier, ``GWIRegressor("svgp")``,
            ``SpectralVGPRegressor(basis="inducing")``; or a pipeline or search around
            one.
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
            If the model has no such terms.
        """
        model, X = unwrapped(estimator, X)
        check_is_fitted(model)
        posterior, check = model.posterior_, check_coverage(coverage)
        basis = getattr(posterior, "basis", None)
        several = not hasattr(basis, "inducing_points") or posterior.n_outputs > 1
        if several or getattr(posterior.mean, "function", None) is not None:
            raise ValueError(
                "TermEffectDisplay needs one latent function on inducing points with a "
                "constant prior mean, such as that of PLSRegressor or of "
                f'SpectralVGPRegressor(basis="inducing"); got {model!r}.'
            )
        rows = model._rows_to_predict(X)
        rows = rows[:: -(-len(rows) // 500)]
        n, d = rows.shape
        names = getattr(model, "feature_names_in_", [f"x{j}" for j in range(d)])
        codes, effects = category_columns(basis.kernel, d), {}
        # values of the rows: codes stay codes
        middle = np.quantile(rows, 0.5, axis=0, method="inverted_cdf")
        for columns, kernel in additive_terms(basis.kernel, d).items():
            along = min(columns, key=lambda j: (j in codes, j))
            x = np.unique(rows[:, along])
            x = x if along in codes else np.linspace(x[0], x[-1], resolution)
            at, term = np.tile(middle, (len(x), 1)), posterior.term(kernel)
            at[:, along] = x
            both = np.concatenate((at, rows))
            contrast = np.hstack((np.eye(len(x)), np.full((len(x), n), -1.0 / n)))
            mean = contrast @ term.marginals(both).moments()[0][:, 0]
            square = np.sum((contrast @ term.covariance(both)) * contrast, axis=1)
            if along in codes:
                known = getattr(model, "categories_", {}).get(names[along])
                x = x.astype(np.intp)
                x = (x if known is None else np.asarray(known)[x]).astype(str)
            name = ", ".join(names[j] for j in columns)
            effects[name] = x, mean, np.sqrt(np.maximum(square, 0.0))
        return cls(effects, check).plot(ax=ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw the display.

        Parameters
        ----------
        ax : array of matplotlib.axes.Axes, default=None
            None is a new figure.

        Returns
        -------
        self : TermEffectDisplay
        """
        self.figure_, axes = axes_of(ax, len(self.effects))
        self.axes_, width = np.ravel(axes), ndtri(0.5 + 0.5 * self.coverage)
        for axis, name in zip(self.axes_, self.effects, strict=True):
            x, mean, std = self.effects[name]
            if x.dtype.kind == "f":
                ends = mean - width * std, mean + width * std
                axis.fill_between(x, *ends, color="C0", alpha=0.25, linewidth=0.0)
                axis.plot(x, mean, color="C0")
            else:
                axis.errorbar(x, mean, width * std, fmt="o", capsize=4.0)
            axis.set(xlabel=name, ylabel="effect")
        return self
