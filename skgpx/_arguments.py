"""Checks of single arguments: tables, points, sizes, counts and probabilities."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta
from numbers import Real
from operator import index
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from skgpx._numerics.spread import LARGEST

Array = NDArray[np.float64]

# how names of such types begin, in NumPy, pandas, polars and Arrow
_TIMES = ("date", "time", "duration", "period")
_DATES = (date, timedelta, np.datetime64, np.timedelta64)


def check_columns(X: Any, y: Any = None) -> None:
    """Refuse columns of dates, and a y of text or objects; None is not looked at.

    Raises
    ------
    ValueError
        That says how to convert them, or that X is no table.
    """
    check_table(X)
    if _has_dates(X):
        raise ValueError(
            "X must be numeric; got dates or durations. Convert them to numbers, for "
            "example to days: (t - t.min()) / numpy.timedelta64(1, 'D')."
        )
    # a lazy array, such as one of dask, is not computed only to look at its type
    if y is None or getattr(getattr(y, "dtype", None), "kind", "O") not in "OUSMm":
        return
    targets = np.asarray(y)
    if targets.dtype.kind not in "OUSMm":
        return
    try:
        if targets.dtype.kind in "Mm":
            raise TypeError("they are dates")
        targets.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"y must be numeric; got {targets.dtype} ({error}). PLSClassifier takes "
            "labels of any type."
        ) from error


def check_table(X: Any) -> None:
    """Refuse what holds no rows, or only once: None, text, generators.

    Raises
    ------
    ValueError
        That says what to pass.
    """
    if X is None or isinstance(X, str | bytes | Iterator):
        got = "None" if X is None else f"an object of type {type(X).__name__}"
        raise ValueError(
            "X must be an array, a data frame or a list of rows, of shape (n_rows, "
            f"n_features); got {got}."
        )


def _has_dates(X: Any) -> bool:
    """Whether a column holds dates or durations; of objects, whether its first does."""
    if issparse(X):
        return False
    schema = getattr(X, "schema", None)
    kinds = getattr(X, "dtypes", None)
    if kinds is None:
        kinds = getattr(schema, "types", [getattr(X, "dtype", "object")])
    names = [str(kind).lower() for kind in np.atleast_1d(kinds)]
    if any(name.startswith(_TIMES) for name in names):
        return True
    if "object" not in names:
        return False
    values = np.asarray(X.head(1) if hasattr(X, "head") else X)
    if values.dtype.kind == "O" and values.ndim:
        return any(isinstance(value, _DATES) for value in np.ravel(values[:1]))
    return values.dtype.kind in "Mm"


def check_range(name: str, values: Array) -> None:
    """Refuse columns whose squares leave the range of doubles.

    Raises
    ------
    ValueError
        If a column has a number beyond 1e120, or none, except zero, from 1e-120 on.
    """
    highest, lowest = (f(values, axis=0, initial=0.0) for f in (np.max, np.min))
    largest = np.maximum(highest, -lowest)
    small = (largest > 0.0) & (largest < 1.0 / LARGEST)
    if np.any(small) or np.any(largest > LARGEST):
        raise ValueError(
            f"{name} must be of a size between {1.0 / LARGEST:g} and {LARGEST:g}; "
            f"got a largest value of {np.max(largest):g}. Change its units."
        )


def check_points(name: str, values: Any, shape: tuple[int | None, ...]) -> Array:
    """Check an array that is not the X of an estimator: float64, finite, of a shape.

    None in `shape` stands for any positive number.

    Raises
    ------
    ValueError
        If it has another shape, is empty, or has NaN or infinity.
    """
    array: Array = np.asarray(values, dtype=np.float64, order="C")
    fits = array.ndim == len(shape) and all(
        got > 0 if wanted is None else got == wanted
        for got, wanted in zip(array.shape, shape, strict=True)
    )
    if not fits:
        sizes = ", ".join("any" if size is None else str(size) for size in shape)
        sizes += "," * (len(shape) == 1)
        raise ValueError(f"{name} must have shape ({sizes}); got {array.shape}.")
    if not np.all(np.isfinite(array)):
        raise ValueError(f"{name} must be finite; got NaN or infinity.")
    return array


def check_count(value: Any, name: str) -> int:
    """A positive integer, be it one of NumPy or an array without dimensions.

    Raises
    ------
    ValueError
        If it is none.
    """
    try:
        # True has an index, too
        count = 0 if isinstance(value, bool) else index(value)
    except TypeError:
        count = 0
    if count < 1:
        raise ValueError(f"{name} must be a positive integer; got {value!r}.")
    return count


def check_coverage(coverage: Any) -> float:
    """Probability of an interval or a set.

    Raises
    ------
    ValueError
        If it is none.
    """
    if not isinstance(coverage, Real) or not 0.0 < coverage < 1.0:
        raise ValueError(
            "coverage must be a number strictly between 0 and 1, such as 0.95; got "
            f"{coverage!r}."
        )
    return float(coverage)
