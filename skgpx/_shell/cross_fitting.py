"""Cross-fitting of other estimators: out-of-fold predictions.

The estimator is cloned, never fitted in place; a fitted one is used unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from numbers import Integral
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from sklearn import get_config
from sklearn.base import BaseEstimator, clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import (
    BaseCrossValidator,
    GroupKFold,
    StratifiedGroupKFold,
    check_cv,
)
from sklearn.pipeline import Pipeline
from sklearn.utils.metadata_routing import get_routing_for_object
from sklearn.utils.validation import has_fit_parameter

from skgpx._numerics.rows import distinct_rows
from skgpx._shell.parallel import parallel_map
from skgpx._shell.tables import Training, row_codes, take_rows
from skgpx._shell.validation import check_is_fitted, warn
from skgpx._shell.wrapped import is_search
from skgpx._types import AnyArray, Array, Generator, Index, Mask, RowValues
from skgpx.exceptions import DataWarning

Predict = Callable[[Any, Any], Array]
# A number of folds, a splitter or its splits, or "prefit".
Folds: TypeAlias = int | BaseCrossValidator | Iterable[Any] | str | None

# Folds if their number is not given.
N_FOLDS = 5
# Instead of the number of a fold, for rows that are never held out.
_NEVER = -1


class CrossFit(NamedTuple):
    """An estimator fitted to all rows, and out-of-fold predictions of its clones.

    Attributes
    ----------
    estimator : estimator
        Fitted to all rows.
    positions : ndarray of shape (r,)
        Rows of X that the entries below describe: distinct ones of positive weight.
    weights : ndarray of shape (r,)
        Frequency weights; repetitions are added up.
    predictions : ndarray of shape (r, k)
        At each row, by the estimator that was not fitted to it; at rows that are never
        held out, by the one fitted to all.
    held_out : ndarray of bool of shape (r,)
        Rows predicted by an estimator that was not fitted to them.
    """

    estimator: Any
    positions: Index
    weights: Array
    predictions: Array
    held_out: Mask


def is_given_fitted(estimator: BaseEstimator, cv: Folds) -> bool:
    """Whether an estimator is used unchanged: it is frozen, or `cv` is "prefit"."""
    return isinstance(estimator, FrozenEstimator) or isinstance(cv, str)


def cross_fit(
    estimator: BaseEstimator,
    rows: Training,
    predict: Predict,
    *,
    cv: Folds = None,
    groups: RowValues = None,
    stratify: bool = False,
    n_jobs: int | None = None,
) -> CrossFit:
    """Fit clones of an estimator to the rows outside each fold, and one to all.

    Parameters
    ----------
    estimator : estimator
        Reproducible; see :func:`seeded`.
    rows : Training
    predict : callable
        ``predict(fitted, X)``, shape (n, k); picklable.
    cv : int, splitter, iterable, "prefit" or None, default=None
        A number of folds of the distinct rows, in random order, 5 for None: all copies
        of a row are in one fold, and estimators see distinct rows, weighted if they
        take weights. A splitter, or its splits, is applied to the rows in the order in
        which they are given. No row may be in two test sets. With "prefit", or a
        FrozenEstimator, all rows count as held out.
    groups : array-like of shape (n,), default=None
        For splitters; a number of folds then means a GroupKFold.
    stratify : bool, default=False
        Whether y holds labels: each class is in each fold in turn, and the only row of
        a class in none.
    n_jobs : int or None
        Folds side by side.

    Raises
    ------
    ValueError
        If test sets overlap, or a training set has no row of positive weight.

    Warns
    -----
    DataWarning
        If the estimator takes no weights, and these are not whole numbers.
    """
    table = np.column_stack((row_codes(rows.X), row_codes(rows.y[:, np.newaxis])))
    if is_given_fitted(estimator, cv):
        check_is_fitted(estimator)
        positions, weights = distinct_rows(table, rows.weights)
        predictions = predict(estimator, take_rows(rows.X, positions))
        held_out = np.ones(len(positions), dtype=bool)
        return CrossFit(estimator, positions, weights, predictions, held_out)
    keyword = weight_keyword(estimator)
    if keyword is None and np.any(rows.weights != np.rint(rows.weights)):
        warn(
            f"{estimator!r} takes no sample_weight, and rows cannot be repeated "
            "because the weights are not whole numbers: it is fitted without weights, "
            "and its predictions ignore them. Use an estimator that takes "
            "sample_weight, or integer weights.",
            DataWarning,
        )
    # 1 folds, of the distinct rows or of the given ones
    sources = np.arange(len(rows.y))
    if groups is None and (cv is None or isinstance(cv, Integral)):
        distinct, weights = distinct_rows(table, rows.weights)
        # estimators with folds of their own must not see sorted rows
        order = np.random.default_rng(0).permutation(len(distinct))
        sources = distinct[order]
        table = table[sources]
        rows = Training(
            X=take_rows(rows.X, sources),
            y=rows.y[sources],
            weights=weights[order],
        )
        splits = _random_folds(rows.y, int(cv or N_FOLDS), stratify)
    else:
        splits = _splitter(cv, groups, stratify).split(rows.X, rows.y, groups)
    folds, training_sets = _check_folds(splits, len(rows.y))
    positions, weights = distinct_rows(np.column_stack((table, folds)), rows.weights)
    folds = folds[positions]
    # 2 a clone fitted to the rows outside each fold, and one to all rows
    labels = [*range(len(training_sets)), _NEVER]
    training_sets.append(np.arange(len(rows.y)))
    tasks = []
    for label, train in zip(labels, training_sets, strict=True):
        distinct, counts = distinct_rows(table[train], rows.weights[train])
        if not len(distinct):
            raise ValueError(
                "A training set of `cv` has no row of positive weight: use fewer "
                "folds, or other ones."
            )
        # in the order of their first occurrence
        order = np.argsort(distinct)
        train = train[distinct[order]]
        test = positions[folds == label]
        tasks.append((estimator, rows, train, counts[order], keyword, predict, test))
    fits = parallel_map(_fit_clone, tasks, n_jobs)
    # 3 predictions of each row by the clone that has not seen it
    n_outputs = max(fold_predictions.shape[1] for _, fold_predictions in fits)
    predictions = np.empty((len(positions), n_outputs))
    for label, (_, fold_predictions) in zip(labels, fits, strict=True):
        if len(fold_predictions):
            predictions[folds == label] = fold_predictions
    return CrossFit(
        estimator=fits[-1][0],
        positions=sources[positions],
        weights=weights,
        predictions=predictions,
        held_out=folds != _NEVER,
    )


def weight_keyword(estimator: BaseEstimator) -> str | None:
    """Name under which `fit` of an estimator takes the weights of rows; None if not.

    Follows pipelines, searches and transformed targets. With metadata routing the
    estimator has to request them.
    """
    if get_config()["enable_metadata_routing"]:
        routing = get_routing_for_object(estimator)
        takes_weights = bool(routing.consumes("fit", {"sample_weight"}))
        return "sample_weight" if takes_weights else None
    if isinstance(estimator, Pipeline):
        name, last_step = estimator.steps[-1]
        if not hasattr(last_step, "fit"):
            return None
        keyword = weight_keyword(last_step)
        return None if keyword is None else f"{name}__{keyword}"
    if is_search(estimator):
        return weight_keyword(estimator.estimator)
    if isinstance(estimator, TransformedTargetRegressor):
        if estimator.regressor is None:
            # stands for LinearRegression
            return "sample_weight"
        return weight_keyword(estimator.regressor)
    if has_fit_parameter(estimator, "sample_weight"):
        return "sample_weight"
    return None


def seeded(estimator: BaseEstimator, rng: Generator) -> Any:
    """Clone with a number for each `random_state` that is None."""
    fresh = clone(estimator)
    names = sorted(
        name
        for name, value in fresh.get_params(deep=True).items()
        if name.split("__")[-1] == "random_state" and value is None
    )
    seeds = rng.integers(2**31 - 1, size=len(names)).tolist()
    # the set_params of frozen estimators returns None
    fresh.set_params(**dict(zip(names, seeds, strict=True)))
    return fresh


def _splitter(cv: Folds, groups: RowValues, stratify: bool) -> Any:
    """The splitter that was given; for a number, one that keeps groups together."""
    if cv is not None and not isinstance(cv, Integral):
        return check_cv(cv)
    n_groups = len(np.unique(np.asarray(groups)))
    n_folds = cv or min(N_FOLDS, max(n_groups, 2))
    if stratify:
        return StratifiedGroupKFold(n_folds)
    return GroupKFold(n_folds)


def _random_folds(
    y: AnyArray,
    n_folds: int,
    stratify: bool,
) -> list[tuple[Index, Index]]:
    """Deal rows to the folds in turn, class after class.

    The only row of a class is in no fold. There may be fewer rows than folds.
    """
    classes = y if stratify else np.zeros(len(y))
    _, codes, counts = np.unique(classes, return_inverse=True, return_counts=True)
    repeated = np.flatnonzero(counts[codes] > 1)
    by_class = repeated[np.argsort(codes[repeated], kind="stable")]
    folds = np.full(len(y), _NEVER)
    folds[by_class] = np.arange(len(by_class)) % n_folds
    return [
        (np.flatnonzero(folds != k), np.flatnonzero(folds == k))
        for k in range(folds.max(initial=_NEVER) + 1)
    ]


def _check_folds(splits: Iterable[Any], n: int) -> tuple[Index, list[Index]]:
    """Fold of each row, -1 for rows that are never held out, and the training sets."""
    positions = np.arange(n)
    folds = np.full(n, _NEVER)
    training_sets = []
    for fold, (train, test) in enumerate(splits):
        # positions or masks
        train = positions[train]
        test = positions[test]
        if np.any(folds[test] != _NEVER) or np.any(np.isin(test, train)):
            raise ValueError(
                "Test sets of `cv` must not overlap, nor share rows with their "
                "training set: a row is predicted once, by an estimator that was not "
                "fitted to it. Got splits that do; use KFold, GroupKFold or "
                "TimeSeriesSplit rather than repeated or random splits."
            )
        folds[test] = fold
        training_sets.append(train)
    return folds, training_sets


def _fit_clone(
    estimator: BaseEstimator,
    rows: Training,
    train: Index,
    weights: Array,
    keyword: str | None,
    predict: Predict,
    test: Index,
) -> tuple[Any, Array]:
    """Fit a clone to training rows, and predict (r, k) at the test rows."""
    fit_options = {}
    if keyword is not None and np.any(weights != 1.0):
        fit_options[keyword] = weights
    elif keyword is None and np.all(weights == np.rint(weights)):
        # weights that the estimator does not take become repetitions
        train = np.repeat(train, weights.astype(np.intp))
    X = take_rows(rows.X, train)
    fitted = clone(estimator).fit(X, rows.y[train], **fit_options)
    if not len(test):
        return fitted, np.empty((0, 0))
    return fitted, predict(fitted, take_rows(rows.X, test))
