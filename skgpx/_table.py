"""Tables that need not be numeric: rows of arrays and data frames."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from skgpx._validation import check_table, rows_of

Array = NDArray[np.float64]
Index = NDArray[np.intp]


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
        raise TypeError("Sparse X is not taken here; use X.toarray().")
    check_table(X)
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
        except (TypeError, ValueError):
            return table
    return table


def take_rows(X: Any, positions: Index) -> Any:
    """Some rows of an array or data frame, in a table of the same kind."""
    return rows_of(X, positions)


def row_codes(X: Any) -> Array:
    """Numbers (n, d) that are equal where the entries of a table are.

    Numbers stand for themselves, unless some are missing; other entries, and columns
    with missing ones, are numbered in the order of their values.
    """
    if not hasattr(X, "columns"):
        values = np.asarray(X)
        if values.dtype.kind in "buif" and not np.any(np.isnan(values)):
            return values.astype(np.float64)
        columns = list(values.T)
    else:
        columns = [np.asarray(X[name]) for name in X.columns]
    return np.column_stack([_codes(column) for column in columns])


def is_numeric(X: Any) -> bool:
    """Whether every entry of a table is a finite number."""
    columns = [X[name] for name in X.columns] if hasattr(X, "columns") else [X]
    return all(_is_finite(column) for column in columns)


def _is_finite(column: Any) -> bool:
    if getattr(column.dtype, "kind", "O") not in "buif":
        return False
    try:
        return bool(np.all(np.isfinite(np.asarray(column, dtype=np.float64))))
    except (TypeError, ValueError):
        # a missing integer
        return False


def _codes(column: NDArray[Any]) -> Array:
    if column.dtype.kind in "buif":
        if not np.any(np.isnan(column)):
            return column.astype(np.float64)
    else:
        column = column.astype(str)
    codes: Array = np.unique(column, return_inverse=True)[1].astype(np.float64)
    return codes
