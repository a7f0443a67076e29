"""What classifiers of others say of rows that they have not seen."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedGroupKFold

from skgpx._cross_fitting import N_FOLDS
from skgpx._gwi._answers import Answers, Question, ask
from skgpx._gwi._class_scores import ClassResponse
from skgpx._numerics.distinct_rows import distinct_rows
from skgpx._table import Training, row_codes, take_rows

Array = NDArray[np.float64]
Index = NDArray[np.intp]

_FROZEN = (
    "The mean is a FrozenEstimator: the rows given to fit choose how certain its "
    "probabilities are. At rows that it was fitted to it is too certain. Pass rows "
    'that it has not seen, and say so with cv="prefit"; or pass the classifier '
    "without FrozenEstimator, to be cross-fitted."
)
# Seed of the order of the rows.
_SEED = 0


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


def ask_classifiers(
    mean: Any,
    given: Training,
    classes: NDArray[Any],
    kernel_features: Any,
    cv: Any,
    groups: Any,
    rng: np.random.Generator,
    n_jobs: int | None,
) -> Answers:
    """Fit clones of a classifier on stratified folds and to all rows; see `ask`.

    Raises
    ------
    ValueError
        If the classifier has no scores for the classes.
    """

    def codes(labels: NDArray[Any]) -> Array:
        return np.searchsorted(classes, labels).astype(np.float64)

    question = Question(
        mean,
        cv,
        kernel_features,
        ClassResponse(classes),
        StratifiedGroupKFold,
        _FROZEN,
        codes,
        _dealt,
    )
    return ask(question, given, groups, rng, n_jobs)


def _dealt(given: Training, cv: int | None) -> tuple[Training, Any]:
    """Distinct rows, and training and test rows of each fold."""
    given = _distinct(given)
    return given, _splits(given.y, N_FOLDS if cv is None else int(cv))


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
