"""Tables that need not be numeric: rows of arrays and data frames, and their door."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.utils import check_array
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length

from skgpx._validation import (
    check_columns,
    check_labels,
    check_names,
    check_range,
    check_unmasked,
    check_weights,
    one_target,
    take_rows,
    validate_data,
    with_codes,
)

__all__ = ["take_rows"]

Array = NDArray[np.float64]
Index = NDArray[np.intp]


class Training(NamedTuple):
    """Rows as they are given to estimators.

    Attributes
    ----------
    X : array-like or data frame of n rows
        As the user gave it: the estimator may take more than numbers.
    y : ndarray of shape (n,)
        Numbers or labels.
    weights : ndarray of shape (n,)
        Frequency weights, some of which may be zero.
    """

    X: Any
    y: NDArray[Any]
    weights: Array


def as_table(X: Any, numbers: bool = True) -> Any:
    """A two-dimensional array or data frame; lists become arrays, objects numbers.

    Without `numbers`, objects stay: some rows of a table may look like numbers.

    Raises
    ------
    TypeError
        For sparse matrices.
    ValueError
        For another number of dimensions, or what is no table.
    """
    if issparse(X):
        raise TypeError("Sparse X is not supported here; use X.toarray().")
    check_unmasked(X=X)
    table = X if hasattr(X, "columns") else np.asarray(X)
    if len(table.shape) != 2:
        raise ValueError(
            f"Expected a 2D array, one row for each sample; got shape {table.shape}. "
            "Reshape your data: X.reshape(-1, 1) if it has a single feature, "
            "X.reshape(1, -1) if it is a single sample."
        )
    if numbers and not hasattr(X, "columns") and table.dtype.kind == "O":
        try:
            return table.astype(np.float64)
        except (TypeError, ValueError, OverflowError):
            return table
    return table


def training_rows(
    estimator: Any,
    X: Any,
    y: ArrayLike | None,
    sample_weight: ArrayLike | None,
    *,
    labels: bool = False,
) -> Training:
    """Check the arguments of `fit` of an estimator around others.

    Raises
    ------
    TypeError
        For a sparse X.
    ValueError
        For a y that is not one finite number a row, or one label if `labels`, or
        weights that are no weights.
    """
    table = as_table(X)
    check_names(column_names(table) if hasattr(table, "columns") else [])
    check_unmasked(y=y)
    if labels:
        check_labels(y)
    with_codes(estimator, None, reset=True)
    validate_data(estimator, X, y, skip_check_array=True)
    if not labels:
        check_columns(None, y)
    kind = None if labels else np.float64
    checked = check_array(y, ensure_2d=False, dtype=kind, input_name="y")
    targets = one_target(estimator, checked)
    if labels:
        check_classification_targets(targets)
    else:
        check_range("y", targets)
    check_consistent_length(table, targets)
    weights = check_weights(sample_weight, np.empty((len(targets), 1)))
    estimator._n_rows = len(targets)
    return Training(table, targets, weights)


def column_names(table: Any) -> list[Any]:
    """Names of the columns of a data frame, or of an Arrow table."""
    return list(table.columns if hasattr(table, "dtypes") else table.schema.names)


def frame_of(table: Any, rows: NDArray[Any]) -> Any:
    """Rows (n, d) in a polars or Arrow table like this one, which finds their types."""
    make = getattr(table, "from_pydict", type(table))
    return make(dict(zip(column_names(table), rows.T.tolist(), strict=True)))


def row_codes(X: Any) -> Array:
    """Ranks (n, d) of the entries of each column, equal where the entries are."""
    frame = hasattr(X, "columns")
    columns = [X[name] for name in column_names(X)] if frame else np.asarray(X).T
    ranks = [_ranks(np.asarray(column)) for column in columns]
    return np.column_stack([np.empty((len(X), 0)), *ranks])


def _ranks(column: NDArray[Any]) -> Array:
    values = column if column.dtype.kind in "buif" else column.astype(str)
    ranks: Array = np.unique(values, return_inverse=True)[1].astype(np.float64)
    return ranks


def is_numeric(X: Any) -> bool:
    """Whether every entry of a table is a finite number."""
    frame = hasattr(X, "columns")
    columns = [X[name] for name in column_names(X)] if frame else [X]
    return all(
        column.dtype.kind in "buif" and bool(np.all(np.isfinite(column)))
        for column in map(np.asarray, columns)
    )
