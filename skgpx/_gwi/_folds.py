"""Which rows are left out together: what `cv` and `groups` say of a mean."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator

from skgpx._cross_fitting import N_FOLDS
from skgpx._validation import warn
from skgpx.exceptions import DataWarning

# Says that the mean is fitted, and not to the rows that are given.
PREFIT = "prefit"


def is_prefit(mean: Any, cv: Any) -> bool:
    """Whether a mean is taken as it is, and never fitted."""
    return isinstance(mean, FrozenEstimator) or isinstance(cv, str)


def is_count(cv: Any) -> bool:
    """Whether only the number of folds is given, or nothing."""
    return cv is None or isinstance(cv, Integral)


def check_folds(mean: Any, cv: Any, groups: Any) -> None:
    """Check what is said of the rows that a mean is to be judged by.

    Raises
    ------
    ValueError
        If there are groups and the mean is one of the library's own.

    Warns
    -----
    DataWarning
        If there are groups and the mean is fitted already.
    """
    if isinstance(mean, str) and groups is not None:
        raise ValueError(
            f'groups are for means that are estimators; mean="{mean}" chooses the rows '
            "that it leaves out itself. Leave groups out."
        )
    if is_prefit(mean, cv) and groups is not None:
        warn(
            "The groups parameter is ignored: no folds are left out of a mean that is "
            "fitted already.",
            DataWarning,
        )


def folds_of_groups(cv: Any, groups: Any, splitter: Callable[[int], Any]) -> Any:
    """`cv`, or a splitter that keeps groups together if it is but a number.

    Parameters
    ----------
    cv : int, splitter, iterable or None
    groups : array-like of shape (n,) or None
    splitter : callable
        Makes one with so many folds.

    Raises
    ------
    ValueError
        If there are fewer groups than folds.
    """
    if groups is None or not is_count(cv):
        return cv
    n_groups = len(np.unique(np.asarray(groups)))
    n_folds = min(N_FOLDS, max(n_groups, 2)) if cv is None else int(cv)
    if n_groups < n_folds:
        raise ValueError(
            f"groups must have at least as many values as there are folds, {n_folds}; "
            f"got {n_groups}. Use fewer folds, or no groups."
        )
    return splitter(n_folds)
