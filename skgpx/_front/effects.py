"""Main effects and pair effects of a fitted function, and their shares of its variance.

The functional analysis of variance under the product of the distributions of the
columns: ``f = f_0 + Σ_j f_j(x_j) + Σ_jk f_jk(x_j, x_k) + ...``, where every summand has
mean zero in each of its columns. Effects are averages of functions that are drawn from
the posterior.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.polynomial.legendre import legvander
from scipy.stats import qmc
from sklearn.base import BaseEstimator

from skgpx._front.predict_dist import sample_functions
from skgpx._latent import LatentModel, MixtureModel
from skgpx._numerics.blas_threads import one_blas_thread
from skgpx._row_budgets import CHUNK_ROWS
from skgpx._shell.tables import as_table, columns_of, row_codes, table_of
from skgpx._shell.validation import check_count, check_is_fitted, generator
from skgpx._shell.wrapped import innermost, unwrapped
from skgpx._types import (
    AnyArray,
    Array,
    ArrayLike,
    Generator,
    Index,
    Kernel,
    RandomState,
)
from skgpx.bases import EmpiricalSpectral, Nystroem
from skgpx.kernels import parts_with
from skgpx.likelihoods._warped import of_target

# Functions that are drawn, and points through which they are drawn beside the inducing
# points. For 60 to 200 rows of six to ten columns twice as many moved indices by up to
# .3 of their standard deviations, and widths of bands by 5 %.
_DRAWS = 256
_POINTS = 128
# Inducing points up to which matrices of all these points are factorised.
_MOST_POINTS = 2000
# Quadrature nodes of a column of numbers.
_NODES = 12
# Rows over which functions are averaged, of many states and of one, and for pairs: the
# error of an index is some .01 and .003.
_ROWS = 64
_ROWS_OF_ONE = 256
_ROWS_OF_PAIRS = 8
# Pairs of which the largest ones are listed: all of six columns.
_CANDIDATES = 15
# Most categories of a column, all of which are nodes.
_MOST_CATEGORIES = 100


class Nodes(NamedTuple):
    """Values of a column, and weights that average a function of it over the rows.

    Attributes
    ----------
    values : ndarray or array of pandas of shape (G,)
        Ascending numbers, or categories.
    weights : ndarray of shape (G,)
        Positive, of sum one.
    is_category : bool
    """

    values: Any
    weights: Array
    is_category: bool

    @classmethod
    def of(cls, column: Any, ranks: Array, is_category: bool) -> Nodes:
        """All values of a column if they are few, or nodes of Gaussian quadrature.

        Raises
        ------
        ValueError
            If there are numbers that are not finite, or more than 100 categories.
        """
        _, rows, sizes = np.unique(ranks, return_index=True, return_counts=True)
        # whole numbers may be categories of a transformer, which knows no others
        is_whole = getattr(column.dtype, "kind", "O") in "iu"
        has_few = len(rows) <= (_MOST_CATEGORIES if is_whole else _NODES)
        if is_category or has_few:
            if len(rows) > _MOST_CATEGORIES:
                raise ValueError(
                    f"Effects of a column of categories need at most {_MOST_CATEGORIES}"
                    f" of them; got {len(rows)}. Numbers must have a numeric type."
                )
            return cls(column[rows], sizes / len(ranks), is_category)
        numbers = np.asarray(column, dtype=np.float64)
        if not np.all(np.isfinite(numbers)):
            raise ValueError(
                "Effects need finite numbers in X; got NaN or infinity. Fill missing "
                "values, or leave their rows out."
            )
        return cls(*_gauss(numbers), is_category)


class Effects(NamedTuple):
    """Summands of s functions that are drawn, by the columns that they depend on.

    Attributes
    ----------
    names : list of d str
    nodes : list of d Nodes
    curves : list of ndarray of shape (G, s)
        Main effect of each column at its nodes.
    totals : ndarray of shape (d, s)
        Variance of all effects that a column takes part in.
    variance : ndarray of shape (s,)
        Of the functions.
    pairs : dict of tuples (variance, mean)
        By two columns: the variance of their effect, (s,), and its mean over the draws
        at the nodes, (G, G).
    """

    names: list[str]
    nodes: list[Nodes]
    curves: list[Array]
    totals: Array
    variance: Array
    pairs: dict[tuple[int, int], tuple[Array, Array]]


def sobol_indices(
    estimator: BaseEstimator,
    X: ArrayLike,
    *,
    scale: str = "latent",
    output: int = 0,
    n_pairs: int = 3,
    random_state: RandomState = 0,
) -> dict[str, AnyArray]:
    """Shares of the variance of a function that columns and pairs of columns explain.

    The variance of a function of independent columns is the sum of those of its main
    effects, its pair effects and so on [1]_. The columns are taken as independent, each
    with the distribution that it has in the rows of X. Indices are averages over
    functions drawn from the posterior, also of averaged hyperparameters.

    Parameters
    ----------
    estimator : estimator
        Fitted; any that :func:`skgpx.sample_functions` takes.
    X : array-like of shape (n_rows, n_features)
        Rows whose columns are the distribution of the inputs.
    scale : {"latent", "response"}, default="latent"
        Whether effects are those of the latent function, or those of the mean of y
        given it: of the probability of a class, the rate of a count, or y itself where
        its scale is learned (`likelihoods.Warped`).
    output : int, default=0
        Which latent function (for classes "response" the number of the class, of two
        classes the second is 0).
    n_pairs : int, default=3
        How many pairs of columns are listed: those with the largest effects.
    random_state : int, RandomState, Generator or None, default=0
        Seed of the draws.

    Returns
    -------
    indices : dict of str to ndarray of shape (n_features + n_pairs,)
        ``"effect"``, the names of columns, by their total index, and of pairs, such as
        ``"x0, x1"``; ``"share"``, the share of the variance of the effect itself
        (the first-order index of a column), and its posterior standard deviation
        ``"share_std"``; ``"total"`` and ``"total_std"``, that of all effects that the
        column takes part in, NaN for pairs. ``pandas.DataFrame(indices)`` is a table.

    Raises
    ------
    ValueError
        If functions cannot be drawn from the estimator, or have no such output; if none
        of the columns matters.

    Notes
    -----
    Functions are averaged over nodes of one column or two, and over rows with permuted
    columns: 64, with an error of an index of some 0.01, or 256 where there is one state
    of the hyperparameters, with a third of that. Where inducing points are all that the
    function depends on it is drawn there and at 128 of those rows. A column of numbers
    has twelve nodes, exact for polynomials of degree 23 in its values: transform
    columns with very long tails before the pipeline, not inside of it.

    References
    ----------
    .. [1] Sobol, "Global sensitivity indices for nonlinear mathematical models and
       their Monte Carlo estimates", Mathematics and Computers in Simulation 2001.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from skgpx import PLSRegressor
    >>> from skgpx.inspection import sobol_indices
    >>> X = np.random.default_rng(0).uniform(-1.0, 1.0, (80, 2))
    >>> model = PLSRegressor(RBF([1.0, 1.0]), random_state=0)
    >>> indices = sobol_indices(model.fit(X, X[:, 0] * (1.0 + 2.0 * X[:, 1])), X)
    >>> indices["effect"].tolist()
    ['x0', 'x1', 'x0, x1']
    >>> indices["share"].round(1)
    array([0.4, 0. , 0.6])
    """
    parts = decompose(estimator, X, scale, output, n_pairs, random_state)
    return shares(parts)


def shares(effects: Effects) -> dict[str, AnyArray]:
    """The table of :func:`sobol_indices`.

    Raises
    ------
    ValueError
        If the function is constant.
    """
    if not np.all(effects.variance > 0.0):
        raise ValueError(
            "The function is the same at all rows of X: no column has an effect."
        )
    order = np.argsort(-effects.totals.mean(axis=1), kind="stable")
    labels = []
    variances = []
    totals = []
    for j in order:
        labels.append(effects.names[j])
        variances.append(effects.nodes[j].weights @ effects.curves[j] ** 2)
        totals.append(effects.totals[j])
    for columns, (variance, _) in effects.pairs.items():
        labels.append(", ".join(effects.names[j] for j in columns))
        variances.append(variance)
        totals.append(np.full(len(variance), np.nan))
    indices = {"effect": np.array(labels)}
    for name, values in (("share", variances), ("total", totals)):
        of_draws = np.array(values) / effects.variance
        indices[name] = of_draws.mean(axis=1)
        indices[f"{name}_std"] = of_draws.std(axis=1)
    return indices


def decompose(
    estimator: BaseEstimator,
    X: ArrayLike,
    scale: str,
    output: int,
    n_pairs: int,
    random_state: RandomState,
) -> Effects:
    """Effects of a fitted model under the distribution of the columns of X."""
    check_is_fitted(estimator)
    if scale not in ("latent", "response"):
        raise ValueError(f"scale must be 'latent' or 'response'; got {scale!r}.")
    if not isinstance(output, int | np.integer):
        raise ValueError(f"output must be an integer; got {output!r}.")
    if n_pairs != 0:
        n_pairs = check_count(n_pairs, "n_pairs")
    rng = generator(random_state)
    table = as_table(X)
    names, columns = columns_of(table)
    ranks = row_codes(table)
    model, inner_table = unwrapped(estimator, table)
    # without a transformation the columns are those of the kernel
    codes = _columns_of_codes(model, len(names)) if inner_table is table else []
    nodes = []
    for j, column in enumerate(columns):
        is_number = getattr(column.dtype, "kind", "O") in "iuf"
        nodes.append(Nodes.of(column, ranks[:, j], j in codes or not is_number))
    with one_blas_thread():
        # rows (N, d) whose values of each column make rows of independent columns
        n, d = ranks.shape
        # quantiles of the columns at points of a net
        net = qmc.Sobol(d, seed=rng).random(_ROWS_OF_ONE)
        by_rank = np.argsort(ranks, axis=0, kind="stable")
        index = np.take_along_axis(by_rank, (net * n).astype(np.intp), axis=0)
        permuted = [column[index[:, j]] for j, column in enumerate(columns)]
        draws = _draws(estimator, table_of(table, permuted), rng)
        has_one_state = not isinstance(getattr(model, "posterior_", None), MixtureModel)
        n_rows = _ROWS_OF_ONE if has_one_state else _ROWS
        evaluate = _on_scale(estimator, draws, scale, output)
        design = _Design(table, names, columns, nodes, evaluate)
        return design.effects(index[:n_rows], n_pairs)


def _columns_of_codes(model: Any, n_features: int) -> list[int]:
    """Columns that hold codes of categories, which the kernel of a model says."""
    kernel = getattr(model, "kernel_", None)
    if not isinstance(kernel, Kernel):
        return []
    parts = parts_with("correlation", kernel, np.arange(n_features))
    return [int(column) for _, columns in parts for column in columns]


def _gauss(x: Array) -> tuple[Array, Array]:
    """Nodes and weights (G,) of Gaussian quadrature under the distribution of x (n,).

    Polynomials of degree 2 G - 1 are averaged exactly: nodes are the eigenvalues of
    multiplication by x among orthonormal polynomials of lower degrees.
    """
    unit_interval = 2.0 * (x - x.min()) / np.ptp(x) - 1.0
    polynomials, _ = np.linalg.qr(legvander(unit_interval, _NODES - 1))
    nodes, eigenvectors = np.linalg.eigh((polynomials.T * x) @ polynomials)
    return nodes, eigenvectors[0] ** 2


def _draws(
    estimator: BaseEstimator,
    permuted: Any,
    rng: Generator,
) -> Callable[[Any], Array]:
    """Functions of rows of the estimator; through some rows where that suffices."""
    model, inner_rows = unwrapped(estimator, permuted)
    posterior: Any = getattr(model, "posterior_", None)
    for part in getattr(posterior, "models", (posterior,)):
        if not (
            hasattr(model, "_rows_to_predict")
            and type(part) is LatentModel
            and isinstance(part.basis, EmpiricalSpectral | Nystroem)
            and len(part.basis.inducing_points) <= _MOST_POINTS
        ):
            # an iterative solution has a number of draws of its own
            n_draws = min(_DRAWS, getattr(posterior, "n_draws", _DRAWS))
            return sample_functions(estimator, n_draws, rng)
    points = model._rows_to_predict(inner_rows)[:_POINTS]
    functions = posterior.draw(_DRAWS, rng, points=points)

    def draws(rows: Any) -> Array:
        _, inner_rows = unwrapped(estimator, rows)
        return functions(model._rows_to_predict(inner_rows))

    return draws


def _on_scale(
    estimator: BaseEstimator,
    draws: Callable[[Any], Array],
    scale: str,
    output: int,
) -> Callable[[Any], Array]:
    """One output of functions, or of means of y given them: rows to (n, s).

    Raises
    ------
    ValueError
        If they have no such output; for a response inside of a transformed target.
    """
    likelihood: Any = getattr(innermost(estimator), "likelihood_", None)
    is_response = scale == "response"
    is_inverted = getattr(draws, "inverse", None) is not None
    if is_response and (likelihood is None or is_inverted):
        raise ValueError(
            "scale='response' needs an estimator of skgpx with a likelihood, outside "
            f"of a TransformedTargetRegressor; got {estimator!r}."
        )

    def evaluate(rows: Any) -> Array:
        values = draws(rows)
        if is_response and hasattr(likelihood, "probabilities"):
            values = likelihood.probabilities(values)
        elif is_response:
            of_output = of_target(likelihood, output % values.shape[1])
            # a mean by quadrature takes several passes over its nodes
            parts = np.array_split(values, 1 + values.size // CHUNK_ROWS)
            values = np.concatenate([of_output.mean(part) for part in parts])
        if values.ndim == 2:
            values = values[:, np.newaxis]
        if not 0 <= output < values.shape[1]:
            raise ValueError(
                f"output must be from 0 to {values.shape[1] - 1}; got {output!r}."
            )
        return values[:, output]

    return evaluate


class _Design(NamedTuple):
    """Rows at which functions are evaluated, and averaged.

    Attributes
    ----------
    table : ndarray or data frame of shape (n, d)
    names : list of d str
    columns : list of d arrays
    nodes : list of d Nodes
    evaluate : callable
        Maps rows to values of the draws, (rows, s).
    """

    table: Any
    names: list[str]
    columns: list[Any]
    nodes: list[Nodes]
    evaluate: Callable[[Any], Array]

    def values(self, index: Index, *free: int) -> Array:
        """Draws (N, G, ..., s) where free columns take all nodes, others those rows."""
        shape = [len(index)] + [len(self.nodes[j].weights) for j in free]
        first, *places = np.indices(shape).reshape(len(shape), -1)
        cells = [column[index[first, j]] for j, column in enumerate(self.columns)]
        for j, place in zip(free, places, strict=True):
            cells[j] = self.nodes[j].values[place]
        values = self.evaluate(table_of(self.table, cells))
        return values.reshape(*shape, -1)

    def effects(self, index: Index, n_pairs: int) -> Effects:
        """Averages over the rows of an index (N, d), and over nodes."""
        curves = []
        totals = []
        variances = []
        shared = []
        for j, (_, weights, _) in enumerate(self.nodes):
            values = self.values(index, j)
            level = np.einsum("ngs,g->ns", values, weights)
            centred = values - level[:, np.newaxis]
            curves.append(centred.mean(axis=0))
            totals.append(np.einsum("ngs,g->s", centred**2, weights) / len(index))
            variances.append(totals[j] + level.var(axis=0))
            # the variance of effects of several columns
            shared.append(np.mean(totals[j] - weights @ curves[j] ** 2))
        candidates = sorted(
            combinations(range(len(shared)), 2),
            key=lambda pair: -min(shared[j] for j in pair),
        )
        pairs = {}
        for j, k in candidates[: max(n_pairs, _CANDIDATES) if n_pairs else 0]:
            left = self.nodes[j].weights
            right = self.nodes[k].weights
            tables = self.values(index[:_ROWS_OF_PAIRS], j, k).mean(axis=0)
            tables = tables - np.einsum("ghs,g->hs", tables, left)
            tables = tables - np.einsum("ghs,h->gs", tables, right)[:, np.newaxis]
            variance = np.einsum("ghs,g,h->s", tables**2, left, right)
            pairs[j, k] = (variance, tables.mean(axis=-1))
        order = sorted(pairs, key=lambda pair: -float(pairs[pair][0].mean()))
        pairs = {pair: pairs[pair] for pair in order[:n_pairs]}
        return Effects(
            self.names,
            self.nodes,
            curves,
            np.array(totals),
            np.mean(variances, axis=0),
            pairs,
        )
