"""What classifiers of others say of rows that they have not seen."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.frozen import FrozenEstimator

from skgpx._cross_fitting import (
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
from skgpx._gwi._kernel_inputs import TableForm, input_map
from skgpx._table import take_rows
from skgpx._validation import Rows, check_is_fitted


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


def ask(
    mean: Any,
    given: Training,
    classes: NDArray[Any],
    kernel_features: Any,
    cv: Any,
    rng: np.random.Generator,
    n_jobs: int | None,
) -> Answers:
    """Fit clones of a classifier on folds and to all rows; a frozen one as it is.

    Raises
    ------
    ValueError
        If the classifier has no scores for the classes, or the kernel would see what is
        no number.
    """
    respond = ClassResponse(classes)
    if isinstance(mean, FrozenEstimator):
        check_is_fitted(mean)
        found = fitted_elsewhere(mean, given, respond)
    else:
        fresh, keyword = seeded(mean, rng), weight_keyword(mean)
        warn_of_lost_weights(fresh, given.weights, keyword)
        how = {"cv": cv, "n_jobs": n_jobs, "keyword": keyword, "stratify": True}
        found = cross_fit(fresh, given, respond, **how)
    form, chosen = TableForm.of(given.X), take_rows(given.X, found.positions)
    codes = np.searchsorted(classes, given.y[found.positions]).astype(np.float64)
    seen_as = input_map(kernel_features, found.estimator, chosen, codes, form)
    X = form.rows(chosen)
    rows = Rows(X if seen_as is None else seen_as(X), codes, found.weights)
    return Answers(found, rows, form, seen_as)
