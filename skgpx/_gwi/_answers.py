"""What estimators of others say of rows that they have not seen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._cross_fitting import (
    CrossFit,
    cross_fit,
    fitted_elsewhere,
    seeded,
    warn_of_lost_weights,
    weight_keyword,
)
from skgpx._draws import InputMap
from skgpx._gwi._folds import PREFIT, folds_of_groups, is_count, is_prefit
from skgpx._gwi._kernel_inputs import TableForm, check_seen, input_map
from skgpx._table import Training, take_rows
from skgpx._validation import (
    Rows,
    check_is_fitted,
    check_some_folds,
    warn,
)
from skgpx.exceptions import FitWarning

Array = NDArray[np.float64]


class Question(NamedTuple):
    """Who is asked, and how.

    Attributes
    ----------
    mean, cv, kernel_features : object
        Parameters of the estimator; see `GWIRegressor`.
    respond : callable
        Maps a fitted clone and rows to what it says of them, (n, c).
    splitter : callable
        Makes a splitter that keeps groups together, of so many folds.
    told_if_frozen : str
        Warning for a mean that is fitted, if nothing is said of its rows.
    numbers : callable
        Maps targets to numbers (n,).
    dealt : callable
        Maps rows and the number of folds, or None, to rows and their folds.
    """

    mean: Any
    cv: Any
    kernel_features: Any
    respond: Callable[[Any, Any], Array]
    splitter: Callable[[int], Any]
    told_if_frozen: str
    numbers: Callable[[NDArray[Any]], Array]
    dealt: Callable[[Training, Any], tuple[Training, Any]]


class Answers(NamedTuple):
    """What clones say of rows that they have not seen.

    Attributes
    ----------
    found : CrossFit
        Of folds, and the estimator that was fitted to all rows.
    rows : Rows
        What the kernel sees, numbers of the targets, and weights: rows of `found`.
    form : TableForm
    map : InputMap or None
        From rows to what the kernel sees.
    given : Training
        Rows whose positions `found` has.
    mean : estimator
        Of which clones were fitted, with its seeds.
    keyword : str or None
        Of its weights.
    """

    found: CrossFit
    rows: Rows
    form: TableForm
    map: InputMap | None
    given: Training
    mean: Any
    keyword: str | None


def ask(
    question: Question,
    given: Training,
    groups: Any,
    rng: np.random.Generator,
    n_jobs: int | None,
) -> Answers:
    """Fit clones of a mean on folds and to all rows; take a frozen one as it is.

    Raises
    ------
    ValueError
        If the kernel would see what is no number, the mean does not answer, or `cv` and
        `groups` do not fit the mean.

    Warns
    -----
    FitWarning
        If the mean is frozen and nothing is said of the rows that it was fitted to.
    """
    mean, respond, keyword = question.mean, question.respond, None
    features, form = question.kernel_features, TableForm.of(given.X)
    check_seen(features, mean, given.X)
    if is_prefit(mean, question.cv):
        check_is_fitted(mean)
        if question.cv != PREFIT:
            warn(question.told_if_frozen, FitWarning)
        found = fitted_elsewhere(mean, given, respond)
    else:
        mean, keyword = seeded(mean, rng), weight_keyword(mean)
        warn_of_lost_weights(mean, given.weights, keyword)
        check_some_folds(question.cv)
        cv = folds_of_groups(question.cv, groups, question.splitter)
        if is_count(cv):
            given, cv = question.dealt(given, cv)
        how = {"cv": cv, "groups": groups, "keyword": keyword, "n_jobs": n_jobs}
        found = cross_fit(mean, given, respond, **how)
    chosen = take_rows(given.X, found.positions)
    y = question.numbers(given.y[found.positions])
    to_kernel = input_map(features, found.estimator, chosen, y, form)
    X = form.rows(chosen)
    rows = Rows(X if to_kernel is None else to_kernel(X), y, found.weights)
    return Answers(found, rows, form, to_kernel, given, mean, keyword)
