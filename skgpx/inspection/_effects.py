"""Effects of columns and of pairs of columns on a fitted function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import numpy as np
from scipy.interpolate import Akima1DInterpolator
from scipy.special import ndtri
from sklearn.base import BaseEstimator

from skgpx._front.effects import Nodes, decompose, shares
from skgpx._shell.validation import check_count, check_coverage
from skgpx._types import AnyArray, Array, ArrayLike, RandomState
from skgpx.inspection._axes import panels_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def _drawn_values(nodes: Nodes) -> AnyArray:
    """Numbers, or names of categories."""
    values = np.asarray(nodes.values)
    if not nodes.is_category:
        return values.astype(np.float64)
    if values.dtype.kind in "iuf":
        return np.array([f"{code:g}" for code in values])
    return values.astype(str)


class EffectsDisplay:
    """Effects of the columns on a fitted function, with bands, and of pairs of them.

    The function is ``f_0 + Σ_j f_j(x_j) + Σ_jk f_jk(x_j, x_k) + ...``, where every
    effect has mean zero along each of its columns, so that effects are orthogonal and
    their variances sum to that of f [1]_. There is a panel for each main effect, the
    most important column first, and for the largest pair effects a map of their
    posterior mean. Titles are shares of the variance, :func:`sobol_indices`. Columns
    are taken as independent, each with the distribution that it has in X.

    Made by :meth:`from_estimator`.

    Parameters
    ----------
    effects : dict of tuples (x, mean, std)
        By the names of the columns: numbers or categories, and the posterior mean and
        standard deviation of the effect there, of shape (k,).
    pairs : dict of tuples (x, y, mean)
        By the names of two columns, a tuple: values of the first (k,) and of the second
        (l,), and the posterior mean of the effect (k, l).
    indices : dict of str to ndarray
        The table of :func:`sobol_indices`.
    coverage : float, default=0.9
        Probability of the bands.

    Attributes
    ----------
    axes_ : ndarray of matplotlib.axes.Axes
        One for each effect.
    figure_ : matplotlib.figure.Figure

    References
    ----------
    .. [1] Lu, Boukouvalas and Hensman, "Additive Gaussian processes revisited", ICML
       2022.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from skgpx import PLSRegressor
    >>> from skgpx.inspection import EffectsDisplay
    >>> X = np.random.default_rng(0).uniform(-1.0, 1.0, (80, 2))
    >>> model = PLSRegressor(RBF([1.0, 1.0]), random_state=0)
    >>> model = model.fit(X, X[:, 0] + X[:, 0] * X[:, 1])
    >>> display = EffectsDisplay.from_estimator(model, X)
    >>> list(display.effects), list(display.pairs)
    (['x0', 'x1'], [('x0', 'x1')])
    """

    def __init__(
        self,
        effects: dict[str, tuple[AnyArray, Array, Array]],
        pairs: dict[tuple[str, str], tuple[AnyArray, AnyArray, Array]],
        indices: dict[str, AnyArray],
        coverage: float = 0.9,
    ):
        self.effects = effects
        self.pairs = pairs
        self.indices = indices
        self.coverage = coverage

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        X: ArrayLike,
        *,
        scale: str = "latent",
        output: int = 0,
        coverage: float = 0.9,
        n_columns: int = 6,
        n_pairs: int = 2,
        random_state: RandomState = 0,
        ax: ArrayLike | None = None,
    ) -> Self:
        """Draw the effects of a fitted model.

        Parameters
        ----------
        estimator : estimator
            Fitted; any that :func:`skgpx.sample_functions` takes. Where the scale of y
            is learned (`likelihoods.Warped`) latent effects are on that scale.
        X : array-like of shape (n_rows, n_features)
            Rows whose columns are the distribution of the inputs.
        scale : {"latent", "response"}, default="latent"
            Whether effects are those of the latent function, or of the mean of y given
            it, as in :func:`sobol_indices`.
        output : int, default=0
            Which latent function, or which class, as in :func:`sobol_indices`.
        coverage : float, default=0.9
            Probability of the bands, in (0, 1).
        n_columns : int, default=6
            Number of main effects: those of the columns with the largest total indices.
        n_pairs : int, default=2
            Number of pair effects.
        random_state : int, RandomState, Generator or None, default=0
            Seed of the draws.
        ax : array of matplotlib.axes.Axes, default=None
            One for each effect; None is a new figure.

        Returns
        -------
        display : EffectsDisplay

        Raises
        ------
        ValueError
            As :func:`sobol_indices`.
        """
        coverage = check_coverage(coverage)
        n_columns = check_count(n_columns, "n_columns")
        parts = decompose(estimator, X, scale, output, n_pairs, random_state)
        indices = shares(parts)
        names = parts.names
        values = [_drawn_values(nodes) for nodes in parts.nodes]
        effects = {}
        for name in indices["effect"][: min(n_columns, len(names))].tolist():
            j = names.index(name)
            x = values[j]
            draws = parts.curves[j]
            if len(x) > 2 and not parts.nodes[j].is_category:
                # smooth curves through the nodes
                interpolate = Akima1DInterpolator(x, draws)
                x = np.linspace(x[0], x[-1], 100)
                draws = interpolate(x)
            effects[name] = (x, draws.mean(axis=1), draws.std(axis=1))
        pairs = {}
        for (j, k), (_, mean) in parts.pairs.items():
            pairs[names[j], names[k]] = (values[j], values[k], mean)
        return cls(effects, pairs, indices, coverage).plot(ax=ax)

    def plot(self, ax: ArrayLike | None = None) -> Self:
        """Draw the display.

        Parameters
        ----------
        ax : array of matplotlib.axes.Axes, default=None
            One for each effect; None is a new figure.

        Returns
        -------
        self : EffectsDisplay
        """
        self.figure_, self.axes_ = panels_of(ax, len(self.effects) + len(self.pairs))
        panels = iter(self.axes_)
        share = dict(zip(self.indices["effect"], self.indices["share"], strict=True))
        for name in self.effects:
            self._draw_curve(next(panels), name)
        for pair in self.pairs:
            self._draw_map(next(panels), pair)
        labels = [*self.effects, *map(", ".join, self.pairs)]
        for panel, label in zip(self.axes_, labels, strict=True):
            panel.set_title(f"{share[label]:.1%} of the variance", fontsize="small")
        return self

    def _draw_curve(self, ax: Axes, name: str) -> None:
        """A main effect: a line with a band, or points with bars."""
        x, mean, std = self.effects[name]
        half_width = ndtri(0.5 + 0.5 * self.coverage) * std
        if x.dtype.kind == "f":
            ax.fill_between(
                x,
                mean - half_width,
                mean + half_width,
                color="C0",
                alpha=0.25,
                linewidth=0.0,
            )
            ax.plot(x, mean, color="C0")
        else:
            ax.errorbar(x, mean, half_width, fmt="o", capsize=4.0)
        ax.set(xlabel=name, ylabel="effect")

    def _draw_map(self, ax: Axes, pair: tuple[str, str]) -> None:
        """The mean of a pair effect, in colours."""
        x, y, mean = self.pairs[pair]
        places = []
        for axis, values in ((ax.xaxis, x), (ax.yaxis, y)):
            place = values
            if values.dtype.kind != "f":
                place = np.arange(len(values))
                axis.set_ticks(place, values)
            places.append(place)
        largest = np.max(np.abs(mean))
        colours = ax.pcolormesh(
            *places,
            mean.T,
            shading="nearest",
            cmap="RdBu_r",
            vmin=-largest,
            vmax=largest,
        )
        ax.figure.colorbar(colours, ax=ax)
        ax.set(xlabel=pair[0], ylabel=pair[1])
