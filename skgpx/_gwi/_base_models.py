"""Base models: other estimators as the mean, cross-fitted, on tables of any kind.

The kernel needs numbers; the mean may take text, categories and missing values.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.model_selection import BaseCrossValidator
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags

from skgpx._draws import InputMap
from skgpx._shell.cross_fitting import CrossFit, cross_fit, is_given_fitted, seeded
from skgpx._shell.tables import Training, as_table, frame_of, is_numeric, take_rows
from skgpx._shell.validation import (
    check_columns,
    check_is_fitted,
    check_range,
    check_size,
    keep_input_range,
    no_overflow,
    validate_data,
    with_codes,
)
from skgpx._types import AnyArray, Array, ArrayLike, Generator, RowValues
from skgpx.diagnostics import Finding, frozen_base_model

# An array, or a data frame of pandas or polars; a column of one; splits of rows.
Table: TypeAlias = Any
Column: TypeAlias = Any
Splits: TypeAlias = int | str | BaseCrossValidator | None
# Maps a fitted estimator and a table to predictions (n, c).
Prediction = Callable[[BaseEstimator, Table], Array]

_ADVICE = (
    "Pass kernel_features, a transformer to finite numbers, for example "
    "make_column_transformer((OneHotEncoder(), categories), remainder="
    "make_pipeline(SimpleImputer(), StandardScaler())); or a mean that is a Pipeline "
    "whose steps before the last give such numbers."
)


@dataclass(frozen=True)
class TableForm:
    """How the rows were given to `fit`, and how a mean gets them again.

    Parameters
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
    categories: dict[str, AnyArray] | None = None

    def __getstate__(self) -> dict[str, Any]:
        # names and types of a frame of pandas, which files of every format can hold
        state = dict(vars(self))
        if hasattr(self.empty, "columns") and hasattr(self.empty, "astype"):
            columns = []
            for name, dtype in zip(self.empty.columns, self.empty.dtypes, strict=True):
                categories = getattr(dtype, "categories", None)
                if categories is not None:
                    categories = np.asarray(categories)
                is_ordered = bool(getattr(dtype, "ordered", False))
                columns.append((name, str(dtype), categories, is_ordered))
            state["empty"] = (type(self.empty), columns)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        if isinstance(state["empty"], tuple):
            frame_type, columns = state["empty"]
            names = [name for name, *_ in columns]
            frame = frame_type(np.empty((0, len(names)), dtype=object), columns=names)
            for name, dtype, categories, is_ordered in columns:
                column = frame[name].astype(dtype)
                if categories is not None:
                    column = column.cat.set_categories(categories, ordered=is_ordered)
                frame[name] = column
            state = state | {"empty": frame}
        vars(self).update(state)

    def rows(self, table: Table) -> AnyArray:
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

    def table(self, rows: AnyArray) -> Table:
        """Table of the kind that `fit` was given, from rows (n, d).

        Columns have the types that they had, if their values allow it; categories that
        are new are missing.
        """
        if not hasattr(self.empty, "columns"):
            return _as_dtype(rows, self.empty.dtype)
        names = list(self.empty.columns)
        categories = self.categories or {}
        if categories:
            rows = rows.astype(np.object_)
            for name, values in categories.items():
                column = names.index(name)
                codes = rows[:, column].astype(np.intp)
                rows[:, column] = values[codes]
        if not hasattr(self.empty, "astype"):
            # frames of polars
            frame = frame_of(self.empty, rows)
            if not categories:
                return frame
            return frame.cast({name: self.empty.schema[name] for name in categories})
        frame = type(self.empty)(rows, columns=names)
        for name, dtype in zip(frame.columns, self.empty.dtypes, strict=True):
            values = frame[name]
            if hasattr(dtype, "categories"):
                values = values.where(values.isin(dtype.categories))
            frame[name] = _as_dtype(values, dtype)
        return frame


def _as_dtype(values: Column, dtype: Any) -> Column:
    """Values of an array or column in a type, or doubles where it cannot hold them."""
    kind = getattr(dtype, "kind", "O")
    if kind in "US":
        # text may be longer than it was
        return values.astype(dtype.type)
    if kind not in "buif":
        return values.astype(dtype)
    is_masked = hasattr(dtype, "numpy_dtype")
    numbers = values.astype("Float64" if is_masked else np.float64)
    with suppress(TypeError, ValueError), np.errstate(invalid="ignore", over="ignore"):
        typed = numbers.astype(dtype)
        if is_masked or np.all((typed == numbers) | (typed != typed)):
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
        Inputs of the kernel, at these rows.
    y : ndarray of shape (n,)
        Numbers or labels of these rows.
    map : InputMap or None
        From rows to the input of the kernel; None for the identity.
    function : callable
        Maps rows to predictions of the mean (n, c).
    finding : Finding or None
    """

    cross_fit: CrossFit
    rows: AnyArray
    inputs: Array
    y: AnyArray
    map: InputMap | None
    function: Callable[[AnyArray], Array]
    finding: Finding | None


class BaseModelMixin:
    """Rows of any kind, for a `mean` that is an estimator and not the name of one."""

    mean: BaseEstimator | str
    cv: Splits
    kernel_features: BaseEstimator | None
    n_jobs: int | None
    _form: TableForm

    def _base_model(
        self,
        training: Training,
        groups: RowValues,
        predict: Prediction,
        stratify: bool,
        rng: Generator,
    ) -> BaseModel:
        """Cross-fit the mean, or take a fitted one as it is; sets `_form`.

        The input of the kernel is the output of a clone of `kernel_features`. Without
        it, it is the rows, with codes for columns of categories, if these are finite
        numbers, otherwise the output of the steps of the fitted mean before its last.
        """
        coded = training.X
        if self.kernel_features is None and not _has_steps(self.mean):
            coded = with_codes(self, training.X, reset=True)
        form = TableForm(
            empty=training.X[:0],
            numeric=is_numeric(coded),
            categories=getattr(self, "categories_", None),
        )
        self._check_kernel_inputs(coded, form)
        is_frozen = is_given_fitted(self.mean, self.cv)
        fits = cross_fit(
            self.mean if is_frozen else seeded(self.mean, rng),
            training,
            predict,
            cv=self.cv,
            groups=groups,
            stratify=stratify,
            n_jobs=self.n_jobs,
        )
        mean = fits.estimator
        table = take_rows(training.X, fits.positions)
        y = training.y[fits.positions]
        rows = form.rows(take_rows(coded, fits.positions))
        vars(self)["_input_range"] = None
        if form.numeric:
            keep_input_range(self, rows, reset=True)

        inputs = rows
        kernel_map = None
        if self.kernel_features is not None or not form.numeric:
            if self.kernel_features is None:
                transformer = mean[:-1]
            else:
                transformer = clone(self.kernel_features).fit(table, y)
            kernel_map = InputMap(
                PredictionsAtRows(transformer, form, _features_of),
                int(table.shape[1]),
                form.numeric,
            )
            inputs = kernel_map(rows)
            check_range("The output of kernel_features", inputs)
        self._form = form
        return BaseModel(
            cross_fit=fits,
            rows=rows,
            inputs=inputs,
            y=y,
            map=kernel_map,
            function=PredictionsAtRows(mean, form, predict),
            finding=frozen_base_model(is_frozen, self.cv),
        )

    def _check_kernel_inputs(self, X: Table, form: TableForm) -> None:
        """Raise a ValueError if the kernel would get other inputs than numbers."""
        if self.kernel_features is not None:
            return
        if form.numeric:
            check_range("X", np.asarray(X, dtype=np.float64))
            return
        if _has_steps(self.mean):
            return
        check_columns(X)
        with no_overflow(), suppress(ValueError):
            # a TypeError for entries that are neither text nor numbers
            np.asarray(X).astype(np.float64)
        raise ValueError(
            "The kernel needs finite numbers; got X with text, NaN or inf, and a "
            f"mean that is no Pipeline with a numeric transformer. {_ADVICE}"
        )

    def _check_groups(self, groups: RowValues) -> None:
        """Raise a ValueError for groups beside a mean of the library's own."""
        if isinstance(self.mean, str) and groups is not None:
            raise ValueError(
                "groups are for means that are estimators; "
                f'mean="{self.mean}" chooses its held-out rows itself. Omit groups.'
            )

    def _rows_to_predict(self, X: ArrayLike) -> AnyArray:
        if isinstance(self.mean, str):
            return super()._rows_to_predict(X)  # type: ignore[misc]
        check_is_fitted(self)
        X = with_codes(self, X)
        rows = self._form.rows(as_table(X, numbers=self._form.numeric))
        validate_data(self, X, skip_check_array=True, reset=False)
        return rows

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        if not isinstance(self.mean, str | type):
            inner = get_tags(self.mean).input_tags
            for name in ("allow_nan", "string"):
                is_accepted = getattr(inner, name) and self.kernel_features is not None
                setattr(tags.input_tags, name, is_accepted)
        return tags


def _has_steps(mean: BaseEstimator | str) -> bool:
    """Whether this is a Pipeline with steps before its last."""
    return isinstance(mean, Pipeline) and len(mean) > 1


@dataclass(frozen=True)
class PredictionsAtRows:
    """Predictions (n, c) of an estimator, or features, at rows of a latent model.

    Parameters
    ----------
    estimator : estimator
    form : TableForm
    predict : callable
        Maps the estimator and a table to predictions.
    """

    estimator: BaseEstimator
    form: TableForm
    predict: Prediction

    def __call__(self, rows: AnyArray) -> Array:
        """Predictions (n, c)."""
        return self.predict(self.estimator, self.form.table(rows))


def _features_of(transformer: TransformerMixin, X: Table) -> Any:
    """Inputs of the kernel (n, q)."""
    features = transformer.transform(X)
    return features.toarray() if hasattr(features, "toarray") else features


def predictions_of(estimator: BaseEstimator, X: Table) -> Array:
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
