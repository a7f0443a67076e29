"""Predictive distributions and draws through pipelines, searches, folds, targets."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.compose import TransformedTargetRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.model_selection import BaseCrossValidator, check_cv
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import Pipeline
from sklearn.utils import indexable

from skgpx._decoupled import DecoupledSampler
from skgpx._draws import FunctionDraws
from skgpx._prediction.distribution import (
    JoinedDistribution,
    Predictive,
    TransformedDistribution,
    normal_distribution,
)
from skgpx._shell.functionals import ROW_ARGUMENTS
from skgpx._shell.parallel import parallel_map
from skgpx._shell.validation import check_is_fitted, take_rows
from skgpx._shell.wrapped import best_of, is_search, predict_keywords, unwrapped
from skgpx._types import Array, ArrayLike, Index, RandomState, RowValues


def predict_dist(
    estimator: BaseEstimator,
    X: ArrayLike,
    **given: RowValues,
) -> Predictive:
    """Predictive distribution of y from a regressor, also inside of wrappers.

    Follows a Pipeline (X is transformed on the way), GridSearchCV and its relatives
    (`best_estimator_`), TransformedTargetRegressor (the distribution is transformed
    back) and FrozenEstimator, nested in any order, to a regressor of this library or
    one with `return_std` in its `predict` (GaussianProcessRegressor, BayesianRidge),
    for a normal distribution.

    Parameters
    ----------
    estimator : estimator
        Fitted.
    X : array-like of shape (n_rows, n_features)
        As for `estimator.predict`.
    **given : array-like of shape (n_rows,)
        Keywords of the regressor's `predict_dist`: `exposure`, `noise_variance`,
        `censoring`, `derivative`, `widths`, `against`.

    Returns
    -------
    distribution : Predictive or list of Predictive
        With the methods `mean`, `std`, `quantile`, `interval`, `cdf`, `log_density`,
        `crps` and `sample`. A list, one per target, for MultiOutputRegressor and for
        regressors of several targets.

    Raises
    ------
    ValueError
        If there is no regressor with a predictive distribution inside, or a search did
        not refit.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from sklearn.model_selection import GridSearchCV
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> import skgpx
    >>> X = np.linspace(0.0, 600.0, 60)[:, np.newaxis]
    >>> y = np.sin(X[:, 0] / 100.0)
    >>> model = skgpx.PLSRegressor(RBF(0.5), optimizer=None, random_state=0)
    >>> pipeline = make_pipeline(StandardScaler(), model)
    >>> grid = {"plsregressor__n_inducing": [5, 20]}
    >>> search = GridSearchCV(pipeline, grid, cv=3).fit(X, y)
    >>> distribution = skgpx.predict_dist(search, [[150.0], [300.0]])
    >>> distribution.interval(0.9).shape
    (2, 2)
    """
    estimator, X = unwrapped(estimator, X)
    # of type Predictive for the one target of almost every caller
    distribution: Any
    if isinstance(estimator, TransformedTargetRegressor):
        check_is_fitted(estimator)
        distribution = predict_dist(estimator.regressor_, X, **given)
        if isinstance(distribution, list):
            raise ValueError(
                "Distributions of several targets cannot be transformed back; got "
                f"{estimator!r}. Transform each target: "
                "MultiOutputRegressor(TransformedTargetRegressor(...))."
            )
        transformer = estimator.transformer_
        return TransformedDistribution(
            distribution,
            forward=partial(_of_column, transformer.transform),
            inverse=partial(_of_column, transformer.inverse_transform),
        )
    if isinstance(estimator, MultiOutputRegressor):
        check_is_fitted(estimator)
        distribution = [
            predict_dist(regressor, X, **given) for regressor in estimator.estimators_
        ]
        return distribution
    if hasattr(estimator, "predict_dist"):
        distribution = estimator.predict_dist(X, **given)
        return distribution
    if "return_std" in predict_keywords(estimator) and not given:
        check_is_fitted(estimator)
        distribution = normal_distribution(estimator, X)
        return distribution
    keywords = ""
    if given:
        keywords = " with " + ", ".join(given)
    raise ValueError(
        "predict_dist expects a fitted regressor of skgpx or one whose predict has "
        "return_std, such as GaussianProcessRegressor, or a Pipeline, search, "
        "MultiOutputRegressor, TransformedTargetRegressor or FrozenEstimator around "
        f"one; got {estimator!r}{keywords}. Classifiers have predict_proba."
    )


def sample_functions(
    estimator: BaseEstimator,
    n_samples: int = 1,
    random_state: RandomState = None,
) -> FunctionDraws | WrappedFunctions:
    """Draw functions from a regressor, also inside of wrappers.

    Parameters
    ----------
    estimator : estimator
        Fitted: an estimator with `sample_functions`, a GaussianProcessRegressor, or
        a wrapper that :func:`predict_dist` follows to one.
    n_samples : int, default=1
        Number of functions.
    random_state : int, RandomState, Generator or None, default=None
        Seed; None uses the seed of the estimator.

    Returns
    -------
    draws : callable
        ``draws(X)`` has shape (n_rows, n_samples), X being rows as for
        `estimator.predict`: functions without noise, transformed back to the target
        of a TransformedTargetRegressor. Calling it again evaluates the same functions.

    Raises
    ------
    ValueError
        If functions cannot be drawn from the regressor inside.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process import GaussianProcessRegressor
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> import skgpx
    >>> X = np.linspace(0.0, 600.0, 30)[:, np.newaxis]
    >>> model = make_pipeline(StandardScaler(), GaussianProcessRegressor(alpha=0.01))
    >>> model = model.fit(X, np.sin(X[:, 0] / 100.0))
    >>> skgpx.sample_functions(model, 3, random_state=0)([[150.0], [200.0]]).shape
    (2, 3)
    """
    if isinstance(estimator, Pipeline):
        check_is_fitted(estimator)
        draws = sample_functions(estimator[-1], n_samples, random_state)
        if len(estimator) == 1:
            return draws
        return WrappedFunctions(draws, estimator[:-1].transform)
    if isinstance(estimator, FrozenEstimator):
        return sample_functions(estimator.estimator, n_samples, random_state)
    if isinstance(estimator, TransformedTargetRegressor):
        check_is_fitted(estimator)
        draws = sample_functions(estimator.regressor_, n_samples, random_state)
        inverse = partial(_of_column, estimator.transformer_.inverse_transform)
        return WrappedFunctions(draws, inverse=inverse)
    if is_search(estimator):
        return sample_functions(best_of(estimator), n_samples, random_state)
    if isinstance(estimator, GaussianProcessRegressor):
        check_is_fitted(estimator)
        row = np.zeros((1, estimator.n_features_in_))
        estimator = DecoupledSampler(FrozenEstimator(estimator)).fit(row)
    if not hasattr(estimator, "sample_functions"):
        raise ValueError(
            "sample_functions expects a fitted estimator of skgpx, or a "
            "GaussianProcessRegressor, or a Pipeline, search, "
            f"TransformedTargetRegressor or FrozenEstimator around one; got "
            f"{estimator!r}."
        )
    return estimator.sample_functions(n_samples, random_state)


class WrappedFunctions:
    """Functions drawn inside of a pipeline: of its inputs, in the units of its target.

    Parameters
    ----------
    draws : callable
        Functions of the rows that the regressor sees.
    transform, inverse : callable or None, default=None
        From rows of the pipeline to rows of the regressor, and from its values to the
        target; None for the identity.
    """

    def __init__(
        self,
        draws: Callable[[ArrayLike], Array],
        transform: Callable[[ArrayLike], ArrayLike] | None = None,
        inverse: Callable[[Array], Array] | None = None,
    ):
        self.draws = draws
        self.transform = transform
        self.inverse = inverse

    def __call__(self, X: ArrayLike) -> Array:
        """Values at rows, shape (n_rows, n_samples)."""
        if self.transform is not None:
            X = self.transform(X)
        values = self.draws(X)
        if self.inverse is None:
            return values
        return self.inverse(values.ravel()).reshape(values.shape)


def _of_column(function: Callable[[Array], Array], values: Array) -> Array:
    """Apply a transformation of one column to numbers (n,)."""
    return np.ravel(function(values[:, np.newaxis]))


def cross_val_predict_dist(
    estimator: BaseEstimator,
    X: ArrayLike,
    y: ArrayLike,
    *,
    groups: RowValues = None,
    cv: int | BaseCrossValidator | Iterable[tuple[ArrayLike, ArrayLike]] | None = None,
    n_jobs: int | None = None,
    params: dict[str, Any] | None = None,
) -> Predictive:
    """Predictive distribution of each row from a fit without it.

    `cross_val_predict` of scikit-learn for distributions: standard deviations,
    quantiles, densities and draws of held-out rows. Takes any regressor that
    :func:`predict_dist` takes, in any pipeline or search.

    Parameters
    ----------
    estimator : estimator
        Clones of it are fitted.
    X : array-like of shape (n_rows, n_features)
    y : array-like of shape (n_rows,)
    groups : array-like of shape (n_rows,), default=None
        For splitters that keep groups together.
    cv : int, splitter, iterable or None, default=None
        As in scikit-learn: None is five folds. Each row is held out exactly once.
    n_jobs : int or None, default=None
        Folds fitted at a time, in threads (or the workers of
        ``joblib.parallel_config``).
    params : dict, default=None
        Arguments of `fit`, such as ``{"sample_weight": w}``; arrays with a value for
        each row are split with the rows. `exposure`, `noise_variance`, `censoring`,
        `derivative`, `widths` and `against` are also passed for the rows that are
        predicted. In pipelines with the name of the step in front:
        ``{"plsregressor__sample_weight": w}``.

    Returns
    -------
    distribution : Predictive or list of Predictive
        Distributions of the n_rows rows in their order, with the methods of
        :func:`predict_dist`. They keep the fitted estimator of each fold.

    Raises
    ------
    ValueError
        If the folds are no partition of the rows.

    Examples
    --------
    >>> import numpy as np
    >>> import skgpx
    >>> rng = np.random.default_rng(0)
    >>> X = np.linspace(0.0, 6.0, 60)[:, np.newaxis]
    >>> y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(60)
    >>> model = skgpx.PLSRegressor(n_inducing=10, random_state=0)
    >>> cv = [(np.arange(60) % 3 != k, np.arange(60) % 3 == k) for k in range(3)]
    >>> held_out = skgpx.cross_val_predict_dist(model, X, y, cv=cv)
    >>> low, high = held_out.interval(0.9).T
    >>> bool(0.7 < np.mean((low <= y) & (y <= high)) <= 1.0)
    True
    """
    X, y, groups = indexable(X, y, groups)
    splitter = check_cv(cv, np.asarray(y), classifier=is_classifier(estimator))
    n = len(np.asarray(y))
    positions = np.arange(n)
    folds = []
    for train, test in splitter.split(X, y, groups):
        # rows are positions, or a mask
        folds.append((positions[np.asarray(train)], positions[np.asarray(test)]))
    tests = [test for _, test in folds]
    if not np.array_equal(np.sort(np.concatenate(tests)), positions):
        raise ValueError(
            f"cv must hold out each of the {n} rows exactly once; got folds of "
            f"{[len(test) for test in tests][:10]} rows that repeat or miss some. Use "
            "KFold or another splitter that partitions the rows."
        )
    items = [(estimator, X, y, train, test, params or {}) for train, test in folds]
    parts = parallel_map(_of_fold, items, n_jobs)
    if isinstance(parts[0], list):
        # of type Predictive for the one target of almost every caller
        joined: Any = [
            JoinedDistribution(parts_of_target, tests)
            for parts_of_target in zip(*parts, strict=True)
        ]
        return joined
    return JoinedDistribution(parts, tests)


def _of_fold(
    estimator: BaseEstimator,
    X: ArrayLike,
    y: ArrayLike,
    train: Index,
    test: Index,
    params: dict[str, Any],
) -> Predictive:
    """Distribution of the rows of `test` from a fit to the rows of `train`."""
    n = len(train) + len(test)
    of_fit = {}
    of_predict = {}
    for name, value in params.items():
        of_train = value
        of_test = value
        if np.ndim(value) and len(value) == n:
            of_train = take_rows(value, train)
            of_test = take_rows(value, test)
        of_fit[name] = of_train
        keyword = name.rpartition("__")[2]
        if keyword in ROW_ARGUMENTS:
            of_predict[keyword] = of_test
    fitted = clone(estimator).fit(take_rows(X, train), take_rows(y, train), **of_fit)
    return predict_dist(fitted, take_rows(X, test), **of_predict)
