"""Base models: other estimators as the mean, cross-fitted, on tables of any kind.

The kernel needs numbers; the mean may take text, categories and missing values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags

from skgpx._cross_fitting import (
    N_FOLDS,
    CrossFit,
    cross_fit,
    cross_fit_prefit,
    seeded,
    warn_of_lost_weights,
    weight_keyword,
)
from skgpx._draws import InputMap
from skgpx._numerics.spread import LARGEST
from skgpx._table import Training, as_table, frame_of, is_numeric, take_rows
from skgpx._validation import (
    Rows,
    check_columns,
    check_is_fitted,
    check_range,
    check_some_folds,
    validate_data,
    warn,
)
from skgpx.diagnostics import Finding
from skgpx.exceptions import DataWarning

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

    A clone of `kernel_features` is fitted to the rows. Without it they are the rows, if
    these are finite numbers, otherwise the output of the steps of the fitted `mean`
    before its last.

    Raises
    ------
    ValueError
        If there is no such transformer, or its output is not finite numbers.
    """
    check_seen(kernel_features, mean, table)
    if kernel_features is None and form.numeric:
        return None
    if kernel_features is not None:
        fitted = clone(kernel_features).fit(table, y)
    else:
        fitted = mean[:-1]
    found = InputMap(Transformed(fitted, form), int(table.shape[1]), form.numeric)
    check_range("The output of kernel_features", found(form.rows(table)))
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


# ---- Cross-fitting -------------------------------------------------------------------

# Declares that the mean is fitted already, and not to the given rows.
PREFIT = "prefit"


class BaseModel(NamedTuple):
    """A mean fitted to all rows, and out-of-fold predictions of its clones.

    Attributes
    ----------
    cross_fit : CrossFit
    rows : Rows
        Input of the kernel, encoded targets, and weights: rows of `cross_fit`.
    form : TableForm
    map : InputMap or None
        From rows to the input of the kernel.
    findings : tuple of Finding
    """

    cross_fit: CrossFit
    rows: Rows
    form: TableForm
    map: InputMap | None
    findings: tuple[Finding, ...]


def cross_fit_mean(
    estimator: Any,
    given: Training,
    groups: Any,
    predict: Callable[[Any, Any], Array],
    encode: Callable[[NDArray[Any]], Array],
    folds: Callable[[Training, int], tuple[Training, Any]],
    splitter: Callable[[int], Any],
    rng: np.random.Generator,
) -> BaseModel:
    """Fit clones of a mean on folds and to all rows; take a frozen one as it is.

    Parameters
    ----------
    estimator : GWIRegressor or GWIClassifier
        With `mean`, `cv`, `kernel_features` and `n_jobs`.
    given : Training
    groups : array-like of shape (n,) or None
    predict : callable
        Maps a fitted clone and rows to its predictions (n, c).
    encode : callable
        Maps targets to numbers (n,).
    folds : callable
        Maps rows and a number of folds to rows and their folds.
    splitter : callable
        Makes a splitter that keeps groups together, of so many folds.
    rng : numpy.random.Generator

    Raises
    ------
    ValueError
        If the input of the kernel is not numeric, predictions are invalid, or `cv` and
        `groups` do not fit the mean.

    Warns
    -----
    DataWarning
        If there are groups and the mean is fitted already.
    """
    mean, cv, features = estimator.mean, estimator.cv, estimator.kernel_features
    form, findings = TableForm.of(given.X), ()
    check_seen(features, mean, given.X)
    if isinstance(mean, FrozenEstimator) or isinstance(cv, str):
        check_is_fitted(mean)
        if groups is not None:
            warn(
                "The groups parameter is ignored, because a mean that is fitted "
                "already is not cross-fitted.",
                DataWarning,
            )
        if cv != PREFIT:
            findings = (_FROZEN,)
        found = cross_fit_prefit(mean, given, predict)
    else:
        mean, keyword = seeded(mean, rng), weight_keyword(mean)
        warn_of_lost_weights(mean, given.weights, keyword)
        check_some_folds(cv)
        if cv is None or isinstance(cv, Integral):
            if groups is None:
                given, cv = folds(given, N_FOLDS if cv is None else int(cv))
            else:
                cv = splitter(_count_of_folds(cv, groups))
        how = {"cv": cv, "groups": groups, "keyword": keyword}
        found = cross_fit(mean, given, predict, n_jobs=estimator.n_jobs, **how)
    chosen = take_rows(given.X, found.positions)
    y = encode(given.y[found.positions])
    to_kernel = input_map(features, found.estimator, chosen, y, form)
    X = form.rows(chosen)
    rows = Rows(X if to_kernel is None else to_kernel(X), y, found.weights)
    return BaseModel(found, rows, form, to_kernel, findings)


_FROZEN = Finding(
    "frozen base model",
    "The mean is a FrozenEstimator, and its errors at the rows given to fit calibrate "
    "predictions. If it was fitted to these rows, predictions are overconfident. Pass "
    'rows that it was not fitted to and set cv="prefit", or pass the estimator without '
    "FrozenEstimator to cross-fit it.",
)


def _count_of_folds(cv: Any, groups: Any) -> int:
    """Number of folds that keep groups together.

    Raises
    ------
    ValueError
        If there are fewer groups than folds.
    """
    n_groups = len(np.unique(np.asarray(groups)))
    n_folds = min(N_FOLDS, max(n_groups, 2)) if cv is None else int(cv)
    if n_groups < n_folds:
        raise ValueError(
            f"groups must have at least as many values as there are folds, {n_folds}; "
            f"got {n_groups}. Use fewer folds, or no groups."
        )
    return n_folds


class BaseModelMixin:
    """Rows of any kind, for a `mean` that is an estimator and not the name of one."""

    mean: Any
    kernel_features: Any
    _form: Any

    def _check_groups(self, groups: Any) -> None:
        """Raise a ValueError for groups beside a mean of the library's own."""
        if isinstance(self.mean, str) and groups is not None:
            raise ValueError(
                "groups are for means that are estimators; "
                f'mean="{self.mean}" chooses its held-out rows itself. Omit groups.'
            )

    def _rows_to_predict(self, X: ArrayLike) -> NDArray[Any]:
        if isinstance(self.mean, str):
            checked: NDArray[Any] = super()._rows_to_predict(X)  # type: ignore[misc]
            return checked
        check_is_fitted(self)
        rows: NDArray[Any] = self._form.rows_of(X)
        validate_data(self, X, skip_check_array=True, reset=False)
        return rows

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        if not isinstance(self.mean, str | type):
            inner = get_tags(self.mean).input_tags
            for name in ("allow_nan", "categorical", "string"):
                able = getattr(inner, name) and self.kernel_features is not None
                setattr(tags.input_tags, name, able)
        return tags
