"""Tables that need not be numeric: rows of arrays and data frames, and their door."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.utils import check_array
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length

from skgpx._shell.validation import (
    check_columns,
    check_labels,
    check_names,
    check_range,
    check_unmasked,
    check_weights,
    no_overflow,
    one_target,
    take_rows,
    validate_data,
    with_codes,
)
from skgpx._types import AnyArray, Array, ArrayLike

__all__ = ["take_rows"]


class Training(NamedTuple):
    """Rows as they are given to estimators.

    Attributes
    ----------
    X : array-like or data frame of n rows
        The user's own: the estimator may take more than numbers.
    y : ndarray of shape (n,)
        Numbers or labels.
    weights : ndarray of shape (n,)
        Frequency weights, zero or positive.
    """

    X: Any
    y: AnyArray
    weights: Array


def as_table(X: ArrayLike, numbers: bool = True) -> Any:
    """A two-dimensional array or data frame; lists become arrays, objects numbers.

    Without `numbers`, objects stay: a few rows of a table of objects may be numeric.

    Raises
    ------
    TypeError
        For sparse matrices.
    ValueError
        For another number of dimensions.
    """
    if issparse(X):
        raise TypeError("Sparse X is not supported here; use X.toarray().")
    check_unmasked(X=X)
    is_frame = hasattr(X, "columns")
    table: Any = X if is_frame else np.asarray(X)
    if len(table.shape) != 2:
        raise ValueError(
            f"Expected a 2D array, one row for each sample; got shape {table.shape}. "
            "Reshape your data: X.reshape(-1, 1) if it has a single feature, "
            "X.reshape(1, -1) if it is a single sample."
        )
    for column in _columns(table) if is_frame else [table]:
        values = np.asarray(column)
        if values.dtype.kind != "O":
            continue
        with no_overflow(), suppress(TypeError, ValueError):
            converted = values.astype(np.float64)
            if numbers and not is_frame:
                return converted
    return table


def training_rows(
    estimator: BaseEstimator,
    X: ArrayLike,
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
        For a y that is not one finite number a row, or one label if `labels`, or for
        weights that are negative or all zero.
    """
    table = as_table(X)
    if hasattr(table, "columns"):
        check_names(column_names(table))
    check_unmasked(y=y)
    if labels:
        check_labels(y)
    with_codes(estimator, None, reset=True)
    validate_data(estimator, X, y, skip_check_array=True)
    dtype = None
    if not labels:
        check_columns(None, y)
        dtype = np.float64
    checked = check_array(y, ensure_2d=False, dtype=dtype, input_name="y")
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
    if hasattr(table, "dtypes"):
        return list(table.columns)
    return list(table.schema.names)


def frame_of(table: Any, rows: AnyArray) -> Any:
    """Rows (n, d) in a polars or Arrow table like this one, which finds their types."""
    make = getattr(table, "from_pydict", type(table))
    columns = zip(column_names(table), rows.T.tolist(), strict=True)
    return make(dict(columns))


def row_codes(X: ArrayLike) -> Array:
    """Ranks (n, d) of the entries of each column; equal entries have equal ranks."""
    table: Any = X
    columns = _columns(X) if hasattr(X, "columns") else np.asarray(X).T
    ranks = [_ranks(np.asarray(column)) for column in columns]
    # a table may have no columns
    return np.column_stack([np.empty((len(table), 0)), *ranks])


def _columns(frame: Any) -> list[Any]:
    return [frame[name] for name in column_names(frame)]


def _ranks(column: AnyArray) -> Array:
    if column.dtype.kind not in "buif":
        column = column.astype(str)
    return np.unique(column, return_inverse=True)[1].astype(np.float64)


def is_numeric(X: ArrayLike) -> bool:
    """Whether every entry of a table is a finite number."""
    parts = _columns(X) if hasattr(X, "columns") else [X]
    for part in parts:
        values = np.asarray(part)
        if values.dtype.kind not in "buif" or not np.all(np.isfinite(values)):
            return False
    return True


def columns_of(table: Any) -> tuple[list[str], list[Any]]:
    """Names of the columns of an array or data frame, and their values."""
    if hasattr(table, "iloc"):
        names = [str(name) for name in table.columns]
        return names, [table.iloc[:, j].array for j in range(len(names))]
    if hasattr(table, "columns"):
        names = [str(name) for name in column_names(table)]
        return names, [np.asarray(column) for column in _columns(table)]
    return [f"x{j}" for j in range(table.shape[1])], list(table.T)


def table_of(table: Any, columns: list[Any]) -> Any:
    """An array or data frame like this one, of other values of its columns."""
    if hasattr(table, "iloc"):
        # a pandas frame keeps the type of each column
        first = np.zeros(len(columns[0]), dtype=np.intp)
        rows = table.iloc[first].reset_index(drop=True)
        for j, column in enumerate(columns):
            rows.isetitem(j, column)
        return rows
    if hasattr(table, "columns"):
        objects = [np.asarray(column, dtype=np.object_) for column in columns]
        return frame_of(table, np.column_stack(objects))
    return np.column_stack(columns)
