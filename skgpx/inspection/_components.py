"""Components of a mixture of learned waves: their kernels, and their densities."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import BaseEstimator

from skgpx._shell.validation import check_count
from skgpx._types import Array, ArrayLike
from skgpx.inspection._axes import (
    fitted_model,
    optional_array,
    panels_of,
    rows_and_names,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def _draw_components(
    ax: Axes,
    x: Array,
    components: Array,
    label: str,
    weights: Array | None = None,
) -> None:
    """Curves of the components (M, k) as thin lines, and their average."""
    ax.plot(x, components.T, color="C0", linewidth=0.8, alpha=0.5)
    average = np.average(components, axis=0, weights=weights)
    ax.plot(x, average, color="C0", label=label)


class LearnedKernelDisplay:
    """Kernels that a SteinRFFRegressor has learned, a panel for each column of X.

    Thin lines are the components, the thick one is their mean, and the dashed one is
    the kernel of the first frequencies, which come from its spectral density. Figures
    1, 4, 6, 8 and 10 of Warren, Oliveira and Ramos, "Stein random feature regression",
    UAI 2024.

    Made by :meth:`from_estimator`.

    Parameters
    ----------
    curves : dict of tuples (tau, components, start)
        By the names of the columns: differences of two inputs in the column, (k,); the
        correlations of the components there, (M, k); of the first kernel, (k,).
    warped : bool, default=False
        Whether differences are between mapped inputs ``x + l g(x)``, with a learned
        network g, rather than between inputs. The labels of the axes say so.

    Attributes
    ----------
    axes_ : ndarray of matplotlib.axes.Axes
        One for each column.
    figure_ : matplotlib.figure.Figure

    Examples
    --------
    >>> import numpy as np
    >>> from skgpx import SteinRFFRegressor
    >>> from skgpx.inspection import LearnedKernelDisplay
    >>> X = np.random.default_rng(0).uniform(-2.0, 2.0, (80, 2))
    >>> y = np.sin(3.0 * X[:, 0]) + X[:, 1]
    >>> model = SteinRFFRegressor(n_components=2, n_frequencies=20, random_state=0)
    >>> display = LearnedKernelDisplay.from_estimator(model.fit(X, y), X)
    >>> list(display.curves)
    ['x0', 'x1']
    """

    def __init__(
        self,
        curves: dict[str, tuple[Array, Array, Array]],
        warped: bool = False,
    ):
        self.curves = curves
        self.warped = warped

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        X: ArrayLike,
        *,
        resolution: int = 200,
        ax: ArrayLike | None = None,
    ) -> Self:
        """Draw the learned kernels of a fitted model.

        Parameters
        ----------
        estimator : estimator
            A fitted SteinRFFRegressor, or a pipeline or search around one.
        X : array-like of shape (n_rows, n_features)
            Rows over whose range differences are shown, in each column. Of a model with
            a network they are differences of ``x + l g(x)``, over the range of x.
        resolution : int, default=200
            Number of differences.
        ax : array of matplotlib.axes.Axes, default=None
            One for each column; None is a new figure.

        Returns
        -------
        display : LearnedKernelDisplay

        Raises
        ------
        ValueError
            If the model has no learned kernel, or one with a variance of zero.
        """
        model, X = fitted_model(estimator, X)
        if not hasattr(model, "learned_kernel"):
            raise ValueError(
                "LearnedKernelDisplay needs a fitted SteinRFFRegressor, whose "
                f"components have kernels of their own; got {model!r}."
            )
        k = check_count(resolution, "resolution")
        rows, names = rows_and_names(model, X)
        d = rows.shape[1]
        origin = np.zeros((1, d))
        start_variance = model.kernel_.diag(origin)[0]
        curves = {}
        for j, name in enumerate(names):
            tau = np.linspace(0.0, float(np.ptp(rows[:, j])), k)
            differences = np.zeros((k, d))
            differences[:, j] = tau
            learned = model.learned_kernel(differences)
            if learned.ndim == 3:
                # of several targets the first
                learned = learned[..., 0]
            start = model.kernel_(differences, origin)[:, 0]
            if not (start_variance > 0.0 and np.all(learned[:, 0] > 0.0)):
                raise ValueError(
                    "LearnedKernelDisplay needs kernels of positive variance, since "
                    f"it shows correlations; got {learned[:, 0].min():g} in squared "
                    f"units of y, and {start_variance:g} of {model.kernel_!r}. Fit y "
                    "in larger units, or a kernel of larger variance."
                )
            correlations = learned / learned[:, :1]
            curves[str(name)] = (tau, correlations, start / start_variance)
        warped = model._state.mixture.warp is not None
        return cls(curves, warped=warped).plot(ax=ax)

    def plot(self, ax: ArrayLike | None = None) -> Self:
        """Draw the display.

        Parameters
        ----------
        ax : array of matplotlib.axes.Axes, default=None
            One for each column; None is a new figure.

        Returns
        -------
        self : LearnedKernelDisplay
        """
        self.figure_, self.axes_ = panels_of(ax, len(self.curves))
        mapped = " + l g(x)" if self.warped else ""
        for panel, (name, curve) in zip(self.axes_, self.curves.items(), strict=True):
            tau, components, start = curve
            _draw_components(panel, tau, components, label="learned")
            panel.plot(tau, start, color="0.3", linestyle="--", label="start")
            panel.set_xlabel(f"difference in {name}{mapped}")
        self.axes_[0].set_ylabel("correlation")
        self.axes_[0].legend()
        return self


class MixtureDensityDisplay:
    """Predictive densities of the components of a mixture, and of the mixture.

    A panel for each row; figures 5, 7, 9 and 11 of Warren, Oliveira and Ramos, "Stein
    random feature regression", UAI 2024.

    Made by :meth:`from_estimator`.

    Parameters
    ----------
    grids : ndarray of shape (n_rows, k)
        Values of y.
    densities : ndarray of shape (n_rows, M, k)
        Densities of the components, per unit of y; the density of the mixture is their
        average.
    y : ndarray of shape (n_rows,) or None, default=None
        Observed values.
    weights : ndarray of shape (M,) or None, default=None
        Probabilities of the components; None for equal ones.

    Attributes
    ----------
    axes_ : ndarray of matplotlib.axes.Axes
        One for each row.
    figure_ : matplotlib.figure.Figure

    Examples
    --------
    >>> import numpy as np
    >>> from skgpx import SteinRFFRegressor
    >>> from skgpx.inspection import MixtureDensityDisplay
    >>> X = np.random.default_rng(0).uniform(-2.0, 2.0, (80, 1))
    >>> y = np.sin(3.0 * X[:, 0])
    >>> model = SteinRFFRegressor(n_components=3, n_frequencies=20, random_state=0)
    >>> display = MixtureDensityDisplay.from_estimator(model.fit(X, y), X[:2], y[:2])
    >>> display.densities.shape
    (2, 3, 300)
    """

    def __init__(
        self,
        grids: Array,
        densities: Array,
        y: Array | None = None,
        weights: Array | None = None,
    ):
        self.grids = grids
        self.densities = densities
        self.y = y
        self.weights = weights

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        X: ArrayLike,
        y: ArrayLike | None = None,
        *,
        resolution: int = 300,
        ax: ArrayLike | None = None,
    ) -> Self:
        """Draw the densities of y at a few rows.

        Parameters
        ----------
        estimator : estimator
            A fitted SteinRFFRegressor of one target, or another model with normal
            noise that averages its hyperparameters; or a pipeline or search around one.
        X : array-like of shape (n_rows, n_features)
            Rows, at most twenty.
        y : array-like of shape (n_rows,), default=None
            Their targets, shown as lines.
        resolution : int, default=300
            Number of values of y.
        ax : array of matplotlib.axes.Axes, default=None
            One for each row; None is a new figure.

        Returns
        -------
        display : MixtureDensityDisplay

        Raises
        ------
        ValueError
            If the model is not such a mixture, or there are more rows.
        """
        model, X = fitted_model(estimator, X)
        components = getattr(model.posterior_, "models", ())
        if not components or np.ndim(getattr(model, "noise_variance_", ())):
            raise ValueError(
                "MixtureDensityDisplay needs a mixture with normal noise and one "
                "target, such as a fitted SteinRFFRegressor, or a PLSRegressor that "
                f"averages its hyperparameters; got {model!r}."
            )
        k = check_count(resolution, "resolution")
        rows, _ = rows_and_names(model, X)
        if len(rows) > 20:
            raise ValueError(f"X must have at most 20 rows; got {len(rows)}.")
        # moments of the normal components at the rows, (n, M, 1)
        mixture = model.posterior_.marginals(rows)
        mean = mixture.mean[:, 0, :, np.newaxis]
        variance = np.broadcast_to(mixture.variance[:, 0], mean.shape[:2])
        noise: Any = model.noise_variance_
        if model._likelihoods:
            # a state of the hyperparameters has a noise of its own
            noise = np.array(
                [
                    float(getattr(likelihood, "likelihood", likelihood).variance(0.0))
                    for likelihood in model._likelihoods
                ]
            )[mixture.owner]
        std = np.sqrt(variance + noise)[..., np.newaxis]
        # grids over all components, and normal densities on them
        low = np.min(mean - 4.0 * std, axis=1)
        high = np.max(mean + 4.0 * std, axis=1)
        grids = low + (high - low) * np.linspace(0.0, 1.0, k)
        z = (grids[:, np.newaxis] - mean) / std
        densities = np.exp(-0.5 * z**2) / (np.sqrt(2.0 * np.pi) * std)
        warp = getattr(model.likelihood_, "warp_", None)
        if warp is not None:
            # p(y) = p(g(y)) g'(y)
            grids = warp.inverse(grids)
            densities = densities * np.exp(warp.log_slope(grids))[:, np.newaxis]
        weights = mixture.weights
        return cls(grids, densities, optional_array(y), weights).plot(ax=ax)

    def plot(self, ax: ArrayLike | None = None) -> Self:
        """Draw the display.

        Parameters
        ----------
        ax : array of matplotlib.axes.Axes, default=None
            One for each row; None is a new figure.

        Returns
        -------
        self : MixtureDensityDisplay
        """
        self.figure_, self.axes_ = panels_of(ax, len(self.grids))
        for i, panel in enumerate(self.axes_):
            _draw_components(
                panel,
                self.grids[i],
                self.densities[i],
                label="mixture",
                weights=self.weights,
            )
            if self.y is not None:
                panel.axvline(self.y[i], color="0.3", linestyle="--", label="observed")
            panel.set_xlabel("y")
        self.axes_[0].set_ylabel("density")
        self.axes_[0].legend()
        return self
