"""Cross-fitting of other estimators: out-of-fold predictions.

The estimator is cloned, never fitted in place; one that is fitted already is used as it
is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GroupKFold, StratifiedGroupKFold, check_cv
from sklearn.pipeline import Pipeline
from sklearn.utils.metadata_routing import get_routing_for_object
from sklearn.utils.validation import has_fit_parameter

from skgpx._numerics.rows import distinct_rows
from skgpx._parallel import parallel_map
from skgpx._table import Training, row_codes, take_rows
from skgpx._validation import check_is_fitted, warn
from skgpx._wrapped import is_search
from skgpx.exceptions import DataWarning

Array = NDArray[np.float64]
Index = NDArray[np.intp]
Predict = Callable[[Any, Any], Array]

# Folds if their number is not given.
N_FOLDS = 5


class CrossFit(NamedTuple):
    """An estimator fitted to all rows, and out-of-fold predictions of its clones.

    Attributes
    ----------
    estimator : estimator
        Fitted to all rows.
    positions : ndarray of shape (r,)
        Rows of X that the entries below are about: distinct ones of positive weight.
    weights : ndarray of shape (r,)
        Frequency weights; repetitions are added up.
    predictions : ndarray of shape (r, k)
        At each row, of the estimator that was not fitted to it; where there is none, of
        the one fitted to all.
    held_out : ndarray of bool of shape (r,)
        Rows predicted by an estimator that was not fitted to them.
    """

    estimator: Any
    positions: Index
    weights: Array
    predictions: Array
    held_out: NDArray[np.bool_]


def is_given_fitted(estimator: Any, cv: Any) -> bool:
    """Whether an estimator is used as it is: it is frozen, or `cv` is "prefit"."""
    return isinstance(estimator, FrozenEstimator) or isinstance(cv, str)


def cross_fit(
    estimator: Any,
    rows: Training,
    predict: Predict,
    *,
    cv: Any = None,
    groups: Any = None,
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
        For splitters; a number of folds is then that of a GroupKFold.
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
    given = np.arange(len(rows.y))
    if groups is None and (cv is None or isinstance(cv, Integral)):
        given, weights = distinct_rows(table, rows.weights)
        # estimators with folds of their own must not see sorted rows
        order = np.random.default_rng(0).permutation(len(given))
        given, table = given[order], table[given[order]]
        rows = Training(take_rows(rows.X, given), rows.y[given], weights[order])
        splits = _random_folds(rows.y, int(cv or N_FOLDS), stratify)
    else:
        splits = _splitter(cv, groups, stratify).split(rows.X, rows.y, groups)
    folds, training = _checked_folds(splits, len(rows.y))
    positions, weights = distinct_rows(np.column_stack((table, folds)), rows.weights)
    folds = folds[positions]
    jobs = []
    for fold, train in enumerate([*training, np.arange(len(rows.y))]):
        kept, counts = distinct_rows(table[train], rows.weights[train])
        if not len(kept):
            raise ValueError(
                "A training set of `cv` has no row of positive weight: use fewer "
                "folds, or other ones."
            )
        # in the order of their first occurrence
        first = np.argsort(kept)
        part = train[kept[first]], counts[first]
        test = positions[folds == (fold if fold < len(training) else -1)]
        jobs.append((estimator, rows, *part, keyword, predict, test))
    fits = parallel_map(_fitted_clone, jobs, n_jobs)
    predictions = np.empty((len(positions), max(part.shape[1] for _, part in fits)))
    for fold, (_, part) in zip([*range(len(training)), -1], fits, strict=True):
        if len(part):
            predictions[folds == fold] = part
    final = fits[-1][0]
    return CrossFit(final, given[positions], weights, predictions, folds >= 0)


def weight_keyword(estimator: Any) -> str | None:
    """Under which name `fit` of an estimator takes the weights of rows; None if not.

    Follows pipelines, searches and transformed targets. With metadata routing the
    estimator has to request them.
    """
    if get_config()["enable_metadata_routing"]:
        wanted = get_routing_for_object(estimator).consumes("fit", {"sample_weight"})
        return "sample_weight" if wanted else None
    if isinstance(estimator, Pipeline):
        name, last = estimator.steps[-1]
        inner = weight_keyword(last) if hasattr(last, "fit") else None
        return None if inner is None else f"{name}__{inner}"
    if is_search(estimator):
        return weight_keyword(estimator.estimator)
    if isinstance(estimator, TransformedTargetRegressor):
        inner = estimator.regressor
        return "sample_weight" if inner is None else weight_keyword(inner)
    takes = has_fit_parameter(estimator, "sample_weight")
    return "sample_weight" if takes else None


def seeded(estimator: Any, rng: np.random.Generator) -> Any:
    """Clone whose every `random_state` that is None is a number."""
    fresh = clone(estimator)
    names = sorted(
        name
        for name, value in fresh.get_params(deep=True).items()
        if name.split("__")[-1] == "random_state" and value is None
    )
    seeds = rng.integers(2**31 - 1, size=len(names))
    chosen = {name: int(seed) for name, seed in zip(names, seeds, strict=True)}
    return fresh.set_params(**chosen) if chosen else fresh


def _splitter(cv: Any, groups: Any, stratify: bool) -> Any:
    """The splitter that was given; for a number, one that keeps groups together."""
    if cv is not None and not isinstance(cv, Integral):
        return check_cv(cv)
    n_folds = cv or min(N_FOLDS, max(len(np.unique(np.asarray(groups))), 2))
    return (StratifiedGroupKFold if stratify else GroupKFold)(n_folds)


def _random_folds(
    y: NDArray[Any],
    n_folds: int,
    stratify: bool,
) -> list[tuple[Index, Index]]:
    """Rows in each fold in turn, class after class; the only row of a class in none."""
    classes = y if stratify else np.zeros(len(y))
    _, codes, counts = np.unique(classes, return_inverse=True, return_counts=True)
    several = np.flatnonzero(counts[codes] > 1)
    ordered = several[np.argsort(codes[several], kind="stable")]
    folds = np.full(len(y), -1)
    folds[ordered] = np.arange(len(ordered)) % n_folds
    return [
        (np.flatnonzero(folds != k), np.flatnonzero(folds == k))
        for k in range(folds.max(initial=-1) + 1)
    ]


def _checked_folds(splits: Iterable[Any], n: int) -> tuple[Index, list[Index]]:
    """Fold of each row, -1 where it is never held out, and the training sets."""
    folds, training = np.full(n, -1), []
    for fold, split in enumerate(splits):
        train, test = (np.arange(n)[part] for part in split)
        if np.any(folds[test] != -1) or np.any(np.isin(test, train)):
            raise ValueError(
                "Test sets of `cv` must not overlap, nor share rows with their "
                "training set: a row is predicted once, by an estimator that was not "
                "fitted to it. Got splits that do; use KFold, GroupKFold or "
                "TimeSeriesSplit rather than repeated or random splits."
            )
        folds[test] = fold
        training.append(train)
    return folds, training


def _fitted_clone(
    estimator: Any,
    rows: Training,
    train: Index,
    weights: Array,
    keyword: str | None,
    predict: Predict,
    test: Index,
) -> tuple[Any, Array]:
    """Clone fitted to some of the rows, and its predictions (r, k) at others."""
    weighted = {}
    if keyword is not None and np.any(weights != 1.0):
        weighted[keyword] = weights
    elif keyword is None and np.all(weights == np.rint(weights)):
        train = np.repeat(train, weights.astype(np.intp))
    fitted = clone(estimator).fit(take_rows(rows.X, train), rows.y[train], **weighted)
    if not len(test):
        return fitted, np.empty((0, 0))
    return fitted, predict(fitted, take_rows(rows.X, test))
