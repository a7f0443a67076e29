"""Cross-fitting of other estimators: out-of-fold predictions.

The estimator is cloned, never fitted in place, and a FrozenEstimator never fitted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.model_selection import KFold, check_cv
from sklearn.pipeline import Pipeline
from sklearn.utils.metadata_routing import get_routing_for_object
from sklearn.utils.validation import has_fit_parameter

from skgpx._numerics.rows import distinct_rows
from skgpx._parallel import parallel_map
from skgpx._table import Training, row_codes, take_rows
from skgpx._validation import (
    warn,
)
from skgpx._wrapped import is_search
from skgpx.exceptions import DataWarning

Array = NDArray[np.float64]
Index = NDArray[np.intp]

# Folds if their number is not given, and the seed of their shuffle.
N_FOLDS, _SEED = 5, 0
# What stands for the name of the weights if an estimator is to be fitted without.
UNWEIGHTED = ""
# Fold of the rows that no estimator was fitted without.
NOT_HELD_OUT = -1


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
    folds : ndarray of int of shape (r,)
        Number of the fold; -1 where there is no such estimator.
    """

    estimator: Any
    positions: Index
    weights: Array
    predictions: Array
    folds: Index

    @property
    def held_out(self) -> NDArray[np.bool_]:
        """Rows predicted by an estimator that was not fitted to them."""
        return self.folds != NOT_HELD_OUT


def cross_fit(
    estimator: Any,
    rows: Training,
    predict: Callable[[Any, Any], Array],
    *,
    cv: Any = None,
    groups: Any = None,
    keyword: str | None = None,
    n_jobs: int | None = None,
) -> CrossFit:
    """Fit clones of an estimator to the rows outside each fold, and one to all.

    Parameters
    ----------
    estimator : estimator
        Not frozen, and reproducible; see :func:`seeded`.
    rows : Training
    predict : callable
        ``respond(fitted, X)``, shape (n, k); picklable.
    cv : int, splitter, iterable or None, default=None
        A number of folds of the distinct rows, in random order, 5 for None: all copies
        of a row are in one fold, and estimators see distinct rows, weighted if they
        take weights. A splitter, or its splits, is applied to the rows in the order in
        which they are given. No row may be in two test sets.
    groups : array-like of shape (n,), default=None
        For splitters that use them.
    keyword : str or None, default=None
        Under which `fit` of the estimator takes weights. None: it takes none, and gets
        each row as often as it occurs; :data:`UNWEIGHTED`: distinct rows, once.
    n_jobs : int or None
        Folds side by side.

    Returns
    -------
    found : CrossFit

    Raises
    ------
    ValueError
        If test sets overlap, or a training set has no row of positive weight.
    """
    plan = _plan(rows, cv, groups)
    jobs = [(estimator, rows, part, keyword) for part in plan.training_sets]
    *fitted, final = parallel_map(_fitted_clone, jobs, n_jobs)
    calls = [(one, predict, rows, plan, i) for i, one in enumerate(fitted)]
    calls.append((final, predict, rows, plan, NOT_HELD_OUT))
    parts = parallel_map(_predictions, calls, n_jobs)
    width = max(part.shape[1] for part in parts)
    predictions = np.empty((len(plan.positions), width))
    for fold, part in zip([*range(len(fitted)), NOT_HELD_OUT], parts, strict=True):
        if len(part):
            predictions[plan.folds == fold] = part
    return CrossFit(final, plan.positions, plan.weights, predictions, plan.folds)


def cross_fit_prefit(
    estimator: Any, rows: Training, predict: Callable[[Any, Any], Array]
) -> CrossFit:
    """Predictions of a fitted estimator, all taken as held out.

    It is used as it is, neither cloned nor fitted.
    """
    positions, weights, folds = _shuffled_folds(rows, N_FOLDS)
    predictions = predict(estimator, take_rows(rows.X, positions))
    return CrossFit(estimator, positions, weights, predictions, np.maximum(folds, 0))


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


# ---- Folds ---------------------------------------------------------------------------


class _Part(NamedTuple):
    """Rows (r,) of a training set, in the order of fitting, with their weights."""

    positions: Index
    weights: Array


class _Plan(NamedTuple):
    """Distinct rows, the fold of each, and training sets: one a fold, and all rows."""

    positions: Index
    weights: Array
    folds: Index
    training_sets: list[_Part]


def _distinct(rows: Training) -> tuple[Index, Array]:
    """Distinct rows in canonical order, and their weights."""
    return distinct_rows(_table_of(rows), rows.weights)


def _table_of(rows: Training) -> Array:
    """Numbers that are equal where rows and their targets are, (n, d + 1)."""
    return np.column_stack((row_codes(rows.X), row_codes(rows.y[:, np.newaxis])))


def _plan(rows: Training, cv: Any, groups: Any) -> _Plan:
    if cv is None or isinstance(cv, int | np.integer):
        return _shuffled_plan(rows, N_FOLDS if cv is None else int(cv))
    return _given_plan(rows, cv, groups)


def _shuffled_folds(rows: Training, n_folds: int) -> tuple[Index, Array, Index]:
    """Distinct rows in random order, their weights, and the fold of each."""
    positions, weights = _distinct(rows)
    n = len(positions)
    # estimators with folds of their own must not see sorted rows
    order = np.random.default_rng(_SEED).permutation(n)
    folds = np.full(n, NOT_HELD_OUT)
    if n > 1:
        for fold, (_, test) in enumerate(KFold(min(n_folds, n)).split(order)):
            folds[test] = fold
    return positions[order], weights[order], folds


def _shuffled_plan(rows: Training, n_folds: int) -> _Plan:
    """Folds of the distinct rows: no matter how often and in which order they occur."""
    positions, weights, folds = _shuffled_folds(rows, n_folds)
    masks = [folds != fold for fold in range(folds.max() + 1)]
    parts = [_Part(positions[kept], weights[kept]) for kept in masks]
    return _Plan(positions, weights, folds, [*parts, _Part(positions, weights)])


def _given_plan(rows: Training, cv: Any, groups: Any) -> _Plan:
    """Folds of a splitter, which may depend on the order of the rows."""
    n, parts = len(rows.y), []
    folds = np.full(n, NOT_HELD_OUT)
    splits = check_cv(cv).split(rows.X, rows.y, groups)
    for fold, (train, test) in enumerate(splits):
        train, test = (np.arange(n)[part] for part in (train, test))
        if np.any(folds[test] != NOT_HELD_OUT) or np.any(np.isin(test, train)):
            raise ValueError(
                "Test sets of `cv` must not overlap, nor share rows with their "
                "training set: a row is predicted once, by an estimator that was not "
                "fitted to it. Got splits that do; use KFold, GroupKFold or "
                "TimeSeriesSplit rather than repeated or random splits."
            )
        folds[test] = fold
        parts.append(_merged(rows, train))
    table = np.column_stack(
        (row_codes(rows.X), row_codes(rows.y[:, np.newaxis]), folds)
    )
    positions, weights = distinct_rows(table, rows.weights)
    everything = _merged(rows, np.arange(n))
    return _Plan(positions, weights, folds[positions], [*parts, everything])


def _merged(rows: Training, chosen: Index) -> _Part:
    """Some of the rows, repetitions merged, in the order of their first occurrence."""
    table = np.column_stack((row_codes(rows.X), row_codes(rows.y[:, np.newaxis])))[
        chosen
    ]
    kept, weights = distinct_rows(table, rows.weights[chosen])
    if not len(kept):
        raise ValueError(
            "A training set of `cv` has no row of positive weight: use fewer folds, "
            "or other ones."
        )
    # distinct_rows names the first of equal rows
    order = np.argsort(kept)
    return _Part(chosen[kept[order]], weights[order])


# ---- Fits ----------------------------------------------------------------------------


def _fitted_clone(
    estimator: Any, rows: Training, part: _Part, keyword: str | None
) -> Any:
    """Clone fitted to some of the rows, with their weights as it can take them."""
    positions, weights = part
    fresh = clone(estimator)
    if keyword == UNWEIGHTED or np.all(weights == 1.0):
        return fresh.fit(take_rows(rows.X, positions), rows.y[positions])
    if keyword is not None:
        weighted = {keyword: weights}
        return fresh.fit(take_rows(rows.X, positions), rows.y[positions], **weighted)
    if np.all(weights == np.rint(weights)):
        positions = np.repeat(positions, weights.astype(np.intp))
    return fresh.fit(take_rows(rows.X, positions), rows.y[positions])


def warn_of_lost_weights(estimator: Any, weights: Array, keyword: str | None) -> None:
    """Warn if an estimator takes no weights, and rows cannot be repeated instead."""
    if keyword is not None or np.all(weights == np.rint(weights)):
        return
    warn(
        f"{estimator!r} takes no sample_weight, and rows cannot be repeated because "
        "the weights are not whole numbers: it is fitted without weights, and its "
        "predictions ignore them. Use an estimator that takes sample_weight, or "
        "integer weights.",
        DataWarning,
    )


def _predictions(
    fitted: Any,
    predict: Callable[[Any, Any], Array],
    rows: Training,
    plan: _Plan,
    fold: int,
) -> Array:
    """Predictions (r, k) of one estimator at the rows of its fold."""
    chosen = plan.positions[plan.folds == fold]
    return _predictions_at(fitted, predict, rows, chosen)


def _predictions_at(
    fitted: Any, predict: Callable[[Any, Any], Array], rows: Training, chosen: Index
) -> Array:
    if not len(chosen):
        return np.empty((0, 0))
    return predict(fitted, take_rows(rows.X, chosen))
