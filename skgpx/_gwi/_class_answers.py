"""What classifiers of others say of rows that they have not seen."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import StratifiedGroupKFold
from sklearn.utils import check_array, column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from skgpx._cross_fitting import (
    N_FOLDS,
    CrossFit,
    Training,
    cross_fit,
    fitted_elsewhere,
    seeded,
    warn_of_lost_weights,
    weight_keyword,
)
from skgpx._draws import InputMap
from skgpx._gwi._class_scores import ClassResponse
from skgpx._gwi._folds import UNSEEN, folds_of_groups, is_count
from skgpx._gwi._kernel_inputs import TableForm, check_seen, input_map
from skgpx._numerics.distinct_rows import distinct_rows
from skgpx._table import as_table, row_codes, take_rows
from skgpx._validation import (
    Rows,
    caller_stacklevel,
    check_is_fitted,
    check_weights,
    validate_data,
)

Array = NDArray[np.float64]
Index = NDArray[np.intp]

# Seed of the order of the rows.
_SEED = 0


class Answers(NamedTuple):
    """What classifiers say of rows that they have not seen.

    Attributes
    ----------
    found : CrossFit
        Of folds, and the classifier that was fitted to all rows.
    rows : Rows
        What the kernel sees, numbers of the classes, and weights: rows of `found`.
    form : TableForm
    map : InputMap or None
        From rows to what the kernel sees.
    """

    found: CrossFit
    rows: Rows
    form: TableForm
    map: InputMap | None


def labelled_rows(
    estimator: Any, X: Any, y: ArrayLike | None, sample_weight: ArrayLike | None
) -> Training:
    """Check the arguments of `fit` of a classifier around others.

    Raises
    ------
    TypeError
        For a sparse X.
    ValueError
        For a y that is not one label a row, or weights that are no weights.
    """
    if y is None:
        raise ValueError(
            f"{type(estimator).__name__} requires y to be passed, but the target y is "
            "None."
        )
    table = as_table(X)
    validate_data(estimator, X, skip_check_array=True)
    checked = check_array(y, ensure_2d=False, dtype=None, input_name="y")
    labels = column_or_1d(checked, warn=True)
    check_classification_targets(labels)
    if len(table) != len(labels):
        raise ValueError(
            f"X and y must have equally many rows; got {len(table)} and {len(labels)}."
        )
    weights = check_weights(sample_weight, np.empty((len(labels), 1)))
    return Training(table, labels, weights)


def stratified_folds(y: NDArray[Any], n_folds: int) -> Index:
    """Fold of each row (n,): those of a class in turn, as even as can be.

    The only row of a class has none, -1.
    """
    _, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
    several = np.flatnonzero(counts[codes] > 1)
    dealt = several[np.argsort(codes[several], kind="stable")]
    folds = np.full(len(y), -1)
    folds[dealt] = np.arange(len(dealt)) % n_folds
    return folds


def ask(
    mean: Any,
    given: Training,
    classes: NDArray[Any],
    kernel_features: Any,
    cv: Any,
    groups: Any,
    rng: np.random.Generator,
    n_jobs: int | None,
) -> Answers:
    """Fit clones of a classifier on folds and to all rows; a frozen one as it is.

    Raises
    ------
    ValueError
        If the classifier has no scores for the classes, the kernel would see what is no
        number, or `cv` and `groups` do not fit the classifier.

    Warns
    -----
    UserWarning
        If it is frozen and nothing is said of the rows that it was fitted to.
    """
    respond, form = ClassResponse(classes), TableForm.of(given.X)
    check_seen(kernel_features, mean, given.X)
    if isinstance(mean, FrozenEstimator):
        check_is_fitted(mean)
        _warn_of_frozen(cv)
        found = fitted_elsewhere(mean, given, respond)
    else:
        fresh, keyword = seeded(mean, rng), weight_keyword(mean)
        warn_of_lost_weights(fresh, given.weights, keyword)
        cv = folds_of_groups(cv, groups, StratifiedGroupKFold)
        if is_count(cv):
            given = _distinct(given)
            cv = _splits(given.y, N_FOLDS if cv is None else int(cv))
        how = {"cv": cv, "groups": groups, "n_jobs": n_jobs, "keyword": keyword}
        found = cross_fit(fresh, given, respond, **how)
    chosen = take_rows(given.X, found.positions)
    codes = np.searchsorted(classes, given.y[found.positions]).astype(np.float64)
    seen_as = input_map(kernel_features, found.estimator, chosen, codes, form)
    X = form.rows(chosen)
    rows = Rows(X if seen_as is None else seen_as(X), codes, found.weights)
    return Answers(found, rows, form, seen_as)


def _warn_of_frozen(cv: Any) -> None:
    if cv == UNSEEN:
        return
    warnings.warn(
        "The mean is a FrozenEstimator: the rows given to fit choose how certain its "
        "probabilities are. At rows that it was fitted to it is too certain. Pass rows "
        'that it has not seen, and say so with cv="unseen"; or pass the classifier '
        "without FrozenEstimator, to be cross-fitted.",
        UserWarning,
        stacklevel=caller_stacklevel(),
    )


def _distinct(given: Training) -> Training:
    """Distinct rows in an order that is random, but always the same."""
    table = np.column_stack((row_codes(given.X), row_codes(given.y[:, np.newaxis])))
    positions, weights = distinct_rows(table, given.weights)
    order = np.random.default_rng(_SEED).permutation(len(positions))
    chosen = positions[order]
    return Training(take_rows(given.X, chosen), given.y[chosen], weights[order])


def _splits(y: NDArray[Any], n_folds: int) -> list[tuple[Index, Index]]:
    """Training and test rows of each fold."""
    folds = stratified_folds(y, n_folds)
    numbers = range(folds.max() + 1)
    return [(np.flatnonzero(folds != k), np.flatnonzero(folds == k)) for k in numbers]
