"""Numeric inputs of the kernel, where inputs of the mean need not be numeric."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from skgpx._draws import InputMap
from skgpx._numerics.spread import LARGEST
from skgpx._table import as_table, frame_of, is_numeric
from skgpx._validation import check_columns, check_range

Array = NDArray[np.float64]
Index = NDArray[np.intp]

_ADVICE = (
    "Pass kernel_features, a transformer to finite numbers, for example "
    "make_column_transformer((OneHotEncoder(), categories), remainder="
    "make_pipeline(SimpleImputer(), StandardScaler())); or a mean that is a Pipeline "
    "whose steps before the last give such numbers."
)


class TableForm(NamedTuple):
    """How the rows were given to `fit`, and how a mean gets them again.

    Attributes
    ----------
    empty : data frame or None
        The first no rows of a data frame; None for arrays.
    dtype : numpy.dtype or None
        Of an array; None for data frames.
    numeric : bool
        Whether all entries were finite numbers. Rows are then arrays of doubles,
        otherwise of objects.
    """

    empty: Any
    dtype: np.dtype[Any] | None
    numeric: bool

    @classmethod
    def of(cls, table: Any) -> TableForm:
        """Form of a table, as :func:`skgpx._table.as_table` gives it."""
        if hasattr(table, "columns"):
            return cls(table[:0], None, is_numeric(table))
        return cls(None, table.dtype, is_numeric(table))

    def rows_of(self, X: Any) -> NDArray[Any]:
        """Rows of what a user predicts at; see :meth:`rows`."""
        return self.rows(as_table(X, numbers=self.numeric))

    def rows(self, table: Any) -> NDArray[Any]:
        """Rows as the latent model has them, (n, d).

        Raises
        ------
        ValueError
            If there are none, or rows that should be numbers are not.
        """
        if not len(table):
            raise ValueError(
                f"Found array with 0 sample(s) (shape={table.shape}) while a minimum "
                "of 1 is required."
            )
        if not self.numeric:
            return np.asarray(table, dtype=np.object_)
        if not is_numeric(table):
            raise ValueError(
                "X must be finite numbers, as it was when the model was fitted; got "
                "text, NaN or infinity."
            )
        rows = np.ascontiguousarray(table, dtype=np.float64)
        if np.any(np.abs(rows) > LARGEST):
            raise ValueError(
                f"X must be at most {LARGEST:g} in size; got {np.max(np.abs(rows)):g}."
            )
        return rows

    def table(self, rows: NDArray[Any]) -> Any:
        """Table of the kind that `fit` was given, from rows (n, d).

        Columns of pandas have the types that they had; whole numbers are doubles only
        where some are missing, or not whole any more, and categories that are new are
        missing.
        """
        if self.dtype is not None:
            return _typed(rows, self.dtype)
        if not hasattr(self.empty, "astype"):
            return frame_of(self.empty, rows)
        frame = type(self.empty)(rows, columns=list(self.empty.columns))
        kinds = dict(zip(frame.columns, self.empty.dtypes, strict=True))
        for name, kind in kinds.items():
            if hasattr(kind, "categories"):
                # a category that was absent in `fit` is missing
                frame[name] = frame[name].where(frame[name].isin(kind.categories))
        return frame.astype(
            {name: _kind_of(frame[name], kinds[name]) for name in kinds}
        )


def _typed(rows: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Rows of an array of this type, if they fit; otherwise doubles."""
    if dtype.kind == "O":
        return rows
    if dtype.kind not in "buif":
        # text may be longer than it was
        return rows.astype(dtype.type if dtype.kind in "US" else dtype)
    numbers = rows.astype(np.float64)
    return numbers.astype(dtype) if _holds(dtype, numbers) else numbers


def _kind_of(column: Any, kind: Any) -> Any:
    """The type that a column of a data frame had, if it fits; otherwise doubles."""
    if getattr(kind, "kind", "O") not in "buif":
        return kind
    missing = np.asarray(column.isna(), dtype=bool)
    numbers = np.asarray(column[~missing], dtype=np.float64)
    masked = hasattr(kind, "numpy_dtype")
    plain = np.dtype(getattr(kind, "numpy_dtype", getattr(kind, "subtype", kind)))
    room = masked or plain.kind == "f" or not np.any(missing)
    if room and _holds(plain, numbers):
        return kind
    return "Float64" if masked else np.dtype(np.float64)


def _holds(dtype: np.dtype[Any], numbers: Array) -> bool:
    """Whether doubles are the same numbers in another type."""
    with np.errstate(invalid="ignore", over="ignore"):
        back = numbers.astype(dtype).astype(np.float64)
    return np.array_equal(back, numbers, equal_nan=True)


@dataclass(frozen=True)
class Transformed:
    """Maps rows to the output of a fitted transformer.

    Parameters
    ----------
    transformer : transformer
        Fitted.
    form : TableForm
    """

    transformer: Any
    form: TableForm

    def __call__(self, rows: NDArray[Any]) -> Array:
        """Input (n, q) of the kernel."""
        return as_numbers(self.transformer.transform(self.form.table(rows)))


@dataclass(frozen=True)
class EstimatorMean:
    """Maps rows to the predictions of a fitted regressor, standardised.

    Parameters
    ----------
    estimator : estimator
        Fitted.
    form : TableForm
    shift, scale : float
        Of the standardised y.
    """

    estimator: Any
    form: TableForm
    shift: float
    scale: float

    def __call__(self, rows: NDArray[Any]) -> Array:
        """Values (n,)."""
        predicted = self.estimator.predict(self.form.table(rows))
        numbers = finite(self.estimator, np.asarray(predicted, np.float64))
        values: Array = (numbers - self.shift) / self.scale
        return values


def finite(estimator: Any, predictions: Array) -> Array:
    """Predictions of a mean, checked.

    Raises
    ------
    ValueError
        If one of them is NaN or infinite.
    """
    bad = ~np.isfinite(predictions)
    if np.any(bad):
        raise ValueError(
            f"The mean must predict finite numbers; {estimator!r} predicts NaN or "
            f"infinity at {int(bad.sum())} of {len(bad)} rows."
        )
    return predictions


def input_map(
    kernel_features: Any, mean: Any, table: Any, y: Array, form: TableForm
) -> InputMap | None:
    """Map from rows to the input of the kernel; None for the identity.

    Parameters
    ----------
    kernel_features : transformer or None
        A clone of it is fitted to the rows. None: the rows, if they are finite numbers,
        otherwise what the steps of `mean` before the last make of them.
    mean : estimator
        Fitted to all rows.
    table : array or data frame of shape (n, d)
    y : ndarray of shape (n,)
    form : TableForm

    Raises
    ------
    ValueError
        If there is no such transformer, or it does not give finite numbers.
    """
    check_seen(kernel_features, mean, table)
    if kernel_features is None and form.numeric:
        return None
    if kernel_features is not None:
        fitted = clone(kernel_features).fit(table, y)
    else:
        fitted = mean[:-1]
    found = InputMap(Transformed(fitted, form), _width(table), form.numeric)
    rows = form.rows(table)
    check_range("The output of kernel_features", found(rows))
    return found


def check_seen(kernel_features: Any, mean: Any, table: Any) -> None:
    """Check before any fit that the kernel has numeric input.

    Raises
    ------
    TypeError
        If entries of an array are neither text nor numbers,
    ValueError
        or if they are no numbers, and there is no transformer to numbers; or numbers
        whose squares leave the range of doubles.
    """
    if kernel_features is not None:
        return
    if is_numeric(table):
        check_range("X", np.asarray(table, dtype=np.float64))
        return
    if isinstance(mean, Pipeline) and len(mean) > 1:
        return
    check_columns(table)
    if not hasattr(table, "columns"):
        try:
            table.astype(np.float64)
        except TypeError as error:
            raise TypeError(f"X: {error}. {_ADVICE}") from error
        except ValueError:
            pass
    raise ValueError(
        "The kernel needs finite numbers; got X with text, NaN or inf, and a mean "
        f"that is no Pipeline with a numeric transformer. {_ADVICE}"
    )


def as_numbers(features: Any) -> Array:
    """Output of a transformer as an array (n, q) of finite doubles.

    Raises
    ------
    ValueError
        If it is not that.
    """
    dense = features.toarray() if hasattr(features, "toarray") else features
    try:
        numbers = np.asarray(dense, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"The features of the kernel must be numbers; got {error}. {_ADVICE}"
        ) from error
    if numbers.ndim != 2 or not np.all(np.isfinite(numbers)):
        raise ValueError(
            "The features of the kernel must be a two-dimensional array of finite "
            f"numbers; got shape {numbers.shape}, or NaN or inf in it. {_ADVICE}"
        )
    return np.ascontiguousarray(numbers)


def _width(table: Any) -> int:
    return int(table.shape[1])
