"""Base models: other estimators as the mean, cross-fitted, on tables of any kind.

The kernel needs numbers; the mean may take text, categories and missing values.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags

from skgpx._cross_fitting import CrossFit, cross_fit, is_given_fitted, seeded
from skgpx._draws import InputMap
from skgpx._table import Training, as_table, frame_of, is_numeric, take_rows
from skgpx._validation import (
    check_columns,
    check_is_fitted,
    check_range,
    check_size,
    validate_data,
)
from skgpx.diagnostics import Finding, frozen_base_model

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
    empty : data frame or array
        The first no rows.
    numeric : bool
        Whether all entries were finite numbers. Rows are then arrays of doubles,
        otherwise of objects.
    categories : dict of ndarray or None
        Categories of the columns for which the rows have codes, by name.
    """

    empty: Any
    numeric: bool
    categories: dict[str, NDArray[Any]] | None = None

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
        check_size(rows)
        return rows

    def table(self, rows: NDArray[Any]) -> Any:
        """Table of the kind that `fit` was given, from rows (n, d).

        Columns have the types that they had, if their values allow it; categories that
        are new are missing.
        """
        if not hasattr(self.empty, "columns"):
            return _typed(rows, self.empty.dtype)
        categories = self.categories or {}
        if categories:
            rows = rows.astype(np.object_)
            names = list(self.empty.columns)
            for name, values in categories.items():
                codes = rows[:, names.index(name)].astype(np.intp)
                rows[:, names.index(name)] = values[codes]
        if not hasattr(self.empty, "astype"):
            frame = frame_of(self.empty, rows)
            # frames of polars
            kinds = {name: self.empty.schema[name] for name in categories}
            return frame.cast(kinds) if kinds else frame
        frame = type(self.empty)(rows, columns=list(self.empty.columns))
        for name, kind in zip(frame.columns, self.empty.dtypes, strict=True):
            column = frame[name]
            if hasattr(kind, "categories"):
                column = column.where(column.isin(kind.categories))
            frame[name] = _typed(column, kind)
        return frame


def _typed(values: Any, kind: Any) -> Any:
    """Values of an array or column in a type, or doubles where it cannot hold them."""
    if getattr(kind, "kind", "O") not in "buif":
        # text may be longer than it was
        return values.astype(kind.type if kind.kind in "US" else kind)
    masked = hasattr(kind, "numpy_dtype")
    numbers = values.astype("Float64" if masked else np.float64)
    with suppress(TypeError, ValueError), np.errstate(invalid="ignore", over="ignore"):
        typed = numbers.astype(kind)
        if masked or np.all((typed == numbers) | (typed != typed)):
            return typed
    return numbers


class BaseModel(NamedTuple):
    """A mean fitted to all rows, and out-of-fold predictions of its clones.

    Attributes
    ----------
    cross_fit : CrossFit
    rows : ndarray of shape (n, d)
        Those of `cross_fit`, as the latent model has them.
    inputs : ndarray of shape (n, q)
        Of the kernel, at these rows.
    y : ndarray of shape (n,)
        Numbers or labels of these rows.
    map : InputMap or None
        From rows to the input of the kernel; None for the identity.
    function : callable
        Maps rows to predictions of the mean (n, c).
    finding : Finding or None
    """

    cross_fit: CrossFit
    rows: NDArray[Any]
    inputs: Array
    y: NDArray[Any]
    map: InputMap | None
    function: Callable[[NDArray[Any]], Array]
    finding: Finding | None


class BaseModelMixin:
    """Rows of any kind, for a `mean` that is an estimator and not the name of one."""

    mean: Any
    cv: Any
    kernel_features: Any
    n_jobs: Any
    _form: TableForm

    def _base_model(
        self,
        given: Training,
        groups: Any,
        predict: Callable[[Any, Any], Array],
        stratify: bool,
        rng: np.random.Generator,
    ) -> BaseModel:
        """Cross-fit the mean, or take a fitted one as it is; sets `_form`.

        The input of the kernel is the output of a clone of `kernel_features`. Without
        it it is the rows, if these are finite numbers, otherwise the output of the
        steps of the fitted mean before its last.
        """
        form = TableForm(given.X[:0], is_numeric(given.X))
        features, pipeline = self.kernel_features, isinstance(self.mean, Pipeline)
        if features is None and form.numeric:
            check_range("X", np.asarray(given.X, dtype=np.float64))
        elif features is None and not (pipeline and len(self.mean) > 1):
            check_columns(given.X)
            with suppress(ValueError):
                # a TypeError for entries that are neither text nor numbers
                np.asarray(given.X).astype(np.float64)
            raise ValueError(
                "The kernel needs finite numbers; got X with text, NaN or inf, and a "
                f"mean that is no Pipeline with a numeric transformer. {_ADVICE}"
            )
        frozen = is_given_fitted(self.mean, self.cv)
        mean = self.mean if frozen else seeded(self.mean, rng)
        how = {"cv": self.cv, "groups": groups, "stratify": stratify}
        found = cross_fit(mean, given, predict, **how, n_jobs=self.n_jobs)
        chosen = take_rows(given.X, found.positions)
        latent_rows, y = form.rows(chosen), given.y[found.positions]
        inputs = latent_rows
        to_kernel, mean = None, found.estimator
        if features is not None or not form.numeric:
            if features is None:
                fitted = mean[:-1]
            else:
                fitted = clone(features).fit(chosen, y)
            make = KernelInputs(fitted, form)
            to_kernel = InputMap(make, int(chosen.shape[1]), form.numeric)
            inputs = to_kernel(inputs)
            check_range("The output of kernel_features", inputs)
        self._form = form
        function = PredictionsAtRows(mean, form, predict)
        finding = frozen_base_model(frozen, self.cv)
        return BaseModel(found, latent_rows, inputs, y, to_kernel, function, finding)

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
        rows = self._form.rows(as_table(X, numbers=self._form.numeric))
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


@dataclass(frozen=True)
class PredictionsAtRows:
    """Predictions (n, c) of a fitted estimator at rows of a latent model.

    Parameters
    ----------
    estimator : estimator
    form : TableForm
    predict : callable
        Maps the estimator and a table to predictions.
    """

    estimator: Any
    form: TableForm
    predict: Callable[[Any, Any], Array]

    def __call__(self, rows: NDArray[Any]) -> Array:
        """Predictions (n, c)."""
        return self.predict(self.estimator, self.form.table(rows))


@dataclass(frozen=True)
class KernelInputs:
    """Output (n, q) of a fitted transformer at rows of a latent model."""

    transformer: Any
    form: TableForm

    def __call__(self, rows: NDArray[Any]) -> Any:
        """Inputs of the kernel (n, q)."""
        features = self.transformer.transform(self.form.table(rows))
        return features.toarray() if hasattr(features, "toarray") else features


def predictions_of(estimator: Any, X: Any) -> Array:
    """Predictions as a column (n, 1), finite."""
    values = np.asarray(estimator.predict(X), dtype=np.float64)
    if values.shape not in ((len(X),), (len(X), 1)):
        raise ValueError(
            "A mean or noise model must predict one number for each row; "
            f"{estimator!r} gives an array of shape {values.shape} for {len(X)} rows."
        )
    bad = int(np.sum(~np.isfinite(values)))
    if bad:
        raise ValueError(
            "A mean or noise model must predict finite numbers; "
            f"{estimator!r} predicts NaN or infinity at {bad} of {len(values)} rows."
        )
    return values.reshape(-1, 1)
