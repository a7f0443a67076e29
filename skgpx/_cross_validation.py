"""Predictive laws out of fold."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone, is_classifier
from sklearn.model_selection import check_cv
from sklearn.utils import indexable

from skgpx._derived_laws import JoinedDistribution
from skgpx._parallel import parallel_map
from skgpx._predictive_law import Predictive
from skgpx._validation import check_some_folds, rows_of
from skgpx._wrapped import predict_dist

# What `predict_dist` may be told of a row as well as `fit`.
_OF_ROWS = ("exposure", "noise_variance")


def cross_val_predict_dist(
    estimator: Any,
    X: Any,
    y: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    cv: Any = None,
    n_jobs: int | None = None,
    params: dict[str, Any] | None = None,
) -> Predictive:
    """Predictive law of each row from a fit that did not see it.

    What `cross_val_predict` of scikit-learn does for predictions, for laws: their
    standard deviations, quantiles, densities and draws. Any regressor that
    :func:`predict_dist` knows, in any pipeline or search.

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
        each row are split with the rows. An `exposure` or a `noise_variance` is also
        told of the rows that are predicted. In pipelines with the name of the step in
        front: ``{"plsregressor__sample_weight": w}``.

    Returns
    -------
    law : Predictive
        Of the n_rows rows in their order, with the methods `mean`, `std`, `quantile`,
        `interval`, `cdf`, `log_density`, `crps` and `sample`. It keeps the fitted
        estimator of each fold.

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
    >>> law = skgpx.cross_val_predict_dist(model, X, y, cv=cv)
    >>> low, high = law.interval(0.9).T
    >>> bool(0.7 < np.mean((low <= y) & (y <= high)) <= 1.0)
    True
    """
    X, y, groups = indexable(X, y, groups)
    splitter = check_cv(cv, np.asarray(y), classifier=is_classifier(estimator))
    splits = list(splitter.split(X, y, groups))
    check_some_folds(splits)
    n = len(np.asarray(y))
    folds = [(_positions(train, n), _positions(test, n)) for train, test in splits]
    tests = [test for _, test in folds]
    if not np.array_equal(np.sort(np.concatenate(tests)), np.arange(n)):
        raise ValueError(
            f"cv must hold out each of the {n} rows exactly once; got folds of "
            f"{[len(test) for test in tests][:10]} rows that repeat or miss some. Use "
            "KFold or another splitter that partitions the rows."
        )
    items = [(estimator, X, y, train, test, params or {}) for train, test in folds]
    laws = parallel_map(_law_of_fold, items, n_jobs)
    if isinstance(laws[0], list):
        return [JoinedDistribution(each, tests) for each in zip(*laws, strict=True)]
    return JoinedDistribution(laws, tests)


def _positions(rows: ArrayLike, n: int) -> NDArray[np.intp]:
    """Numbers of rows that are given as such, or as a mask."""
    return np.arange(n)[np.asarray(rows)]


def _law_of_fold(
    estimator: Any,
    X: Any,
    y: Any,
    train: NDArray[np.intp],
    test: NDArray[np.intp],
    params: dict[str, Any],
) -> Predictive:
    """Law of the rows of `test` from a fit to those of `train`."""
    n = len(train) + len(test)
    told = {name: _rows_of_param(value, train, n) for name, value in params.items()}
    fitted = clone(estimator).fit(rows_of(X, train), rows_of(y, train), **told)
    given = {
        name.rpartition("__")[2]: _rows_of_param(value, test, n)
        for name, value in params.items()
        if name.rpartition("__")[2] in _OF_ROWS
    }
    return predict_dist(fitted, rows_of(X, test), **given)


def _rows_of_param(value: Any, rows: NDArray[np.intp], n: int) -> Any:
    """Those rows of an argument that has one value for each; others as they are."""
    each = np.ndim(value) > 0 and len(value) == n
    return rows_of(value, rows) if each else value
