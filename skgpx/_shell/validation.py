"""The door: checks the arguments of users; imports scikit-learn's private names."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sized
from contextlib import contextmanager
from functools import partial, wraps
from numbers import Integral, Real
from typing import Any, NamedTuple, TypeVar

import numpy as np
from sklearn import get_config
from sklearn.base import BaseEstimator, _fit_context
from sklearn.gaussian_process.kernels import ExpSineSquared
from sklearn.utils import _safe_indexing as take_rows
from sklearn.utils import check_random_state, check_scalar, column_or_1d
from sklearn.utils._param_validation import HasMethods as HasMethods
from sklearn.utils._param_validation import Interval as Interval
from sklearn.utils._param_validation import StrOptions as StrOptions
from sklearn.utils._param_validation import validate_params as validate_params
from sklearn.utils.validation import (
    _check_feature_names,
    _check_sample_weight,
    check_consistent_length,
)
from sklearn.utils.validation import check_is_fitted as check_is_fitted
from sklearn.utils.validation import validate_data as _validate_data

from skgpx._numerics.rows import (
    LARGEST,
    distinct_rows,
    mean_and_spread,
    row_slices,
    thinning,
)
from skgpx._shell.kernel_requests import ORDERS, DefaultKernel
from skgpx._shell.kernel_requests import kernel_of as kernel_of
from skgpx._types import (
    AnyArray,
    Array,
    ArrayLike,
    Generator,
    Kernel,
    Mask,
    RandomState,
    RowValues,
    Selection,
)
from skgpx.exceptions import DataWarning
from skgpx.exceptions import warn as warn
from skgpx.kernels import Functionals, length_scales, parts_with, split_noise
from skgpx.likelihoods import Likelihood
from skgpx.likelihoods._base import doubles as doubles
from skgpx.likelihoods._noise import (
    KnownNoise,
    NoiseOfRows,
    variance_start,
    weighted_quartiles,
)
from skgpx.likelihoods._ordinal import codes_of_grades as codes_of_grades
from skgpx.likelihoods._ordinal import with_categories_of as with_categories_of

__all__ = ["take_rows"]


_Method = TypeVar("_Method", bound=Callable[..., Any])
_Estimator = TypeVar("_Estimator", bound=BaseEstimator)
# Numbers that parameters may be.
COUNT = Interval(Integral, 1, None, closed="left")
COUNT_OR_ZERO = Interval(Integral, 0, None, closed="left")
POSITIVE = Interval(Real, 0.0, None, closed="neither")
NOT_NEGATIVE = Interval(Real, 0.0, None, closed="left")
# Parameters of estimators that search for hyperparameters, and what some take.
SEARCHED: dict[str, Any] = {
    "optimizer": [StrOptions({"evidence"}), None],
    "n_jobs": [Integral, None],
    "random_state": ["random_state"],
}
HYPERPARAMETERS = [StrOptions({"auto", "average", "maximise"})]
INTERACTIONS = [list, tuple, StrOptions(set(ORDERS)), None]
# Prefixes of the names of types of dates, in NumPy, pandas, polars and Arrow.
_TIMES = ("date", "time", "duration", "period")
# Prefixes of the names of types of categories, in pandas and polars.
_CATEGORIES = ("category", "categorical", "enum")
# Prefixes of the names of types of text, in NumPy, pandas and Arrow.
_TEXT = ("object", "str", "string", "<u", "large_string")
# Columns of parts of rows, beside those of a quantity of each row.
_COLUMNS = ("X", "y", "sample_weight")
# Attributes of a fitted estimator that say what its columns and its targets are.
_KNOWN_OF_COLUMNS = (
    *("n_features_in_", "feature_names_in_", "categories_", "_n_categories"),
    *("_form", "_no_rows", "_targets", "classes_"),
)
# Ends of the names of hyperparameters that are variances beside others.
_MAY_BE_ZERO = ("sigma_0", "noise_level")
# The only category of a column whose categories dask does not know.
_UNKNOWN = "__UNKNOWN_CATEGORIES__"


def fit_context(method: _Method, is_nested: bool = False) -> _Method:
    """scikit-learn's decorator of `fit`; a fit that fails keeps the attributes."""
    decorate = _fit_context(prefer_skip_nested_validation=not is_nested)
    return all_or_nothing(decorate(method))


# Of estimators around others, which check their own parameters.
fit_context_of_nested = partial(fit_context, is_nested=True)


def all_or_nothing(method: _Method) -> _Method:
    """Restore the attributes when a method fails or is interrupted.

    Methods replace attributes and never change them in place, so that a shallow copy is
    enough: categories and names of columns always match the posterior.
    """

    @wraps(method)
    def guarded(self: Any, *args: Any, **options: Any) -> Any:
        before = dict(vars(self))
        try:
            result = method(self, *args, **options)
        except BaseException:
            self.__dict__ = before
            raise
        # a table, which a fitted model does not need
        vars(self).pop("_no_rows", None)
        return result

    return guarded  # type: ignore[return-value]


# ---- Training data -------------------------------------------------------------------


class Rows(NamedTuple):
    """Training data.

    Attributes
    ----------
    X : ndarray of shape (n, d)
    y : ndarray of shape (n,), or (n, t) for t targets
        NaN where one of several targets is missing.
    weights : ndarray of shape (n,)
        Frequency weights, positive.
    known : ndarray of shape (n,) or None
        Exposure or censoring of each row, or the variance of its noise in units of the
        likelihood's noise; see `Likelihood.row_quantity`.
    """

    X: Array
    y: Array
    weights: Array
    known: Array | None = None

    def take(self, chosen: Selection | Mask) -> Rows:
        """The rows at these positions."""
        quantity = None
        if self.known is not None:
            quantity = self.known[chosen]
        return Rows(self.X[chosen], self.y[chosen], self.weights[chosen], quantity)

    def thinned(self, largest: int) -> Rows:
        """Every k-th row, with the smallest k that leaves at most `largest` rows.

        Copies: views would keep all rows.
        """
        chosen = np.arange(len(self.y))[thinning(len(self.y), largest)]
        return self.take(chosen)

    def followed_by(self, other: Rows) -> Rows:
        """These rows, and then the rows of another set."""
        quantity = None
        # both sets have a quantity of each row, or neither has
        if self.known is not None and other.known is not None:
            quantity = np.concatenate((self.known, other.known))
        return Rows(
            X=np.concatenate((self.X, other.X)),
            y=np.concatenate((self.y, other.y)),
            weights=np.concatenate((self.weights, other.weights)),
            known=quantity,
        )

    @property
    def is_known(self) -> Mask:
        """Which targets of which rows are not missing, of the shape of y."""
        return ~np.isnan(self.y)

    def without_gaps(self) -> Rows:
        """The block of rows and targets with the most values of those without a gap.

        Targets with more values come into the block first.
        """
        is_known = self.is_known
        if np.all(is_known):
            return self
        by_number = np.argsort(-np.sum(is_known, axis=0), kind="stable")
        # rows with values of the first j targets
        complete = np.logical_and.accumulate(is_known[:, by_number], axis=1)
        n_targets = np.arange(1, len(by_number) + 1)
        width = int(n_targets[np.argmax(n_targets * np.sum(complete, axis=0))])
        targets = np.sort(by_number[:width])
        rows = self.take(np.flatnonzero(complete[:, width - 1]))
        return rows._replace(y=rows.y[:, targets])

    @property
    def precisions(self) -> Array:
        """Weights in sums over normal noise: ``ω / relative noise variance``."""
        if self.known is None:
            return self.weights
        return self.weights / self.known


def check_rows(
    estimator: BaseEstimator,
    X: ArrayLike,
    y: ArrayLike,
    sample_weight: RowValues,
    *,
    numeric: bool,
    reset: bool = True,
) -> tuple[Array, AnyArray, Array]:
    """Check the arguments of `fit`: float64 X (n, d), y (n,), weights (n,).

    For several targets, which the tags of the estimator must allow, y is (n, t).
    Without `reset` X must have the columns of an earlier call.

    Raises
    ------
    ValueError
        For NaN or infinity, wrong shapes or sparse data; dates; numbers beyond 1e120
        or all below 1e-120; a y that is not numeric but should be; negative weights, or
        none that is positive; missing labels.
    """
    if not reset:
        # columns of a frame, for kernels that choose them by type
        frame: Any = X
        estimator._no_rows = frame[:0] if hasattr(frame, "columns") else None
    table = with_codes(estimator, X, reset)
    check_columns(table, y if numeric else None)
    if not numeric:
        check_labels(y)
    inputs, targets = validate_data(
        estimator,
        table,
        y,
        dtype=np.float64,
        order="C",
        reset=reset,
        y_numeric=numeric,
        multi_output=numeric,
    )
    takes_several = estimator.__sklearn_tags__().target_tags.multi_output
    if numeric and not (takes_several and targets.size > len(targets)):
        targets = one_target(estimator, targets)
    if not reset and targets.shape[1:] != estimator._targets:
        raise ValueError(
            f"y must have shape {(len(targets), *estimator._targets)}, with as many "
            f"targets as the rows seen before; got {targets.shape}."
        )
    vars(estimator)["_targets"] = targets.shape[1:]
    check_range("X", inputs)
    keep_input_range(estimator, inputs, reset)
    if numeric:
        targets = np.asarray(targets, dtype=np.float64)
        check_range("y", targets)
    weights = check_weights(sample_weight, inputs)
    if reset:
        # for reports; `partial_fit` adds to it once the rows are in its sums
        vars(estimator)["_n_rows"] = len(inputs)
    return inputs, targets, weights


def filled_gaps(y: ArrayLike) -> tuple[ArrayLike, Mask | None]:
    """Fill missing values of several targets, for checks that refuse them.

    Returns
    -------
    y : array-like
        Zero where it was NaN; other kinds of y as they are.
    is_missing : ndarray of bool of shape (n, t) or None
        None where nothing was filled.
    """
    if np.ma.isMaskedArray(y):
        return y, None
    targets: Any = np.asarray(y)
    if targets.dtype.kind == "c":
        return y, None
    try:
        targets = np.asarray(targets, dtype=np.float64)
    except (TypeError, ValueError):
        return y, None
    if targets.ndim != 2 or targets.shape[1] < 2:
        return y, None
    is_missing = np.isnan(targets)
    if not np.any(is_missing):
        return y, None
    return np.where(is_missing, 0.0, targets), is_missing


def with_gaps(y: Array, weights: Array, is_missing: Mask) -> tuple[Array, Array]:
    """Targets (n, t) with their gaps, and weights (n,) that leave out empty rows.

    Raises
    ------
    ValueError
        If a target has no value in any row of positive weight.
    """
    has_value = ~is_missing[weights > 0.0].all(axis=0)
    if not np.all(has_value):
        empty = np.flatnonzero(~has_value).tolist()
        raise ValueError(
            "A target must have a value in at least one row of positive weight; y is "
            f"NaN in all of them for targets {empty}. Drop these columns."
        )
    is_empty = np.all(is_missing, axis=1)
    return np.where(is_missing, np.nan, y), np.where(is_empty, 0.0, weights)


def check_frame(estimator: BaseEstimator, X: Any, y: Any, numeric: bool) -> None:
    """Check the columns of rows that are elsewhere, given as tables without rows.

    The estimator learns their names, number and categories. Targets that are not
    `numeric` are labels.

    Raises
    ------
    ValueError
        For text, dates, several targets, a table that is not two-dimensional, and
        categories that are not known.
    """
    y_dimensions = [1]
    if numeric and estimator.__sklearn_tags__().target_tags.multi_output:
        y_dimensions = [1, 2]
    _check_dimensions("X", X, [2])
    _check_dimensions("y", y, y_dimensions)
    vars(estimator)["_targets"] = y.shape[1:]
    check_columns(X, y if numeric else None)
    kinds = _kinds_of("X", X)
    if numeric:
        kinds += _kinds_of("y", y)
    text = []
    unknown = []
    for column, kind in kinds:
        name = str(kind).lower()
        if name.startswith(_CATEGORIES) and column != "y":
            categories = getattr(kind, "categories", None)
            if categories is None or _UNKNOWN in list(categories):
                unknown.append(column)
        elif name.startswith(_TEXT + _CATEGORIES):
            text.append(column)
    if text:
        raise ValueError(
            f"Columns {text} must hold numbers; got text or objects. Convert them, as "
            'in frame.astype("float64"), or make those of X categories: '
            'frame.categorize(["name"]).'
        )
    if unknown:
        raise ValueError(
            f"The categories of columns {unknown} of X are not known before all rows "
            f"are read. Use frame.categorize({unknown}), or declare them by "
            "pandas.CategoricalDtype([...])."
        )
    validate_data(estimator, with_codes(estimator, X, True), skip_check_array=True)


def check_new_frame(estimator: BaseEstimator, X: Any) -> None:
    """Check the columns of rows to predict, given as a table without rows.

    Raises
    ------
    ValueError
        For other names, or another number, than `fit` had, for dates, and for a table
        that is not two-dimensional.
    """
    _check_dimensions("X", X, [2])
    check_columns(X)
    table = with_codes(estimator, X)
    validate_data(estimator, table, skip_check_array=True, reset=False)


def _check_dimensions(name: str, table: Any, possible: list[int]) -> None:
    if table.ndim not in possible:
        raise ValueError(
            f"{name} must be {possible[0]}-dimensional; got shape {table.shape} of "
            f"type {type(table).__name__}."
        )


def _kinds_of(name: str, table: Any) -> list[tuple[Any, Any]]:
    """Names and types of the columns of a table."""
    kinds: Any = [getattr(table, "dtype", None)]
    if hasattr(table, "dtypes"):
        kinds = np.ravel(table.dtypes)
    names = [name] * len(kinds)
    if hasattr(table, "columns") and name == "X":
        names = list(table.columns)
    return list(zip(names, kinds, strict=True))


class Door(NamedTuple):
    """What parts of rows that are elsewhere are checked for.

    Attributes
    ----------
    estimator : BaseEstimator
        That knows the columns of X, and for labels its `classes_`.
    likelihood : Likelihood
    numbers : dict
        Quantities that are the same for all rows, by name.
    """

    estimator: BaseEstimator
    likelihood: Likelihood
    numbers: dict[str, float]


def check_block(door: Door, number: int, columns: dict[str, Any]) -> Rows:
    """Check one of the parts of rows that are elsewhere.

    Parameters
    ----------
    door : Door
    number : int
        Number of the part, for messages.
    columns : dict
        "X", "y" and, if they are given, "sample_weight" and quantities of rows.

    Raises
    ------
    ValueError
        As :func:`check_rows`, for other quantities or targets than the likelihood
        takes, and for labels that are not known; with the number of the part.
    """
    estimator = copy.copy(door.estimator)
    quantities = columns | door.numbers
    X, y, sample_weight = (quantities.pop(name, None) for name in _COLUMNS)
    classes = getattr(estimator, "classes_", None)
    try:
        lengths = {name: len(values) for name, values in columns.items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"X and y must have the same rows; got {lengths} rows.")
        if not lengths["y"]:
            return Rows(
                X=np.empty((0, estimator.n_features_in_)),
                y=np.empty((0, *estimator._targets)),
                weights=np.empty(0),
                known=np.empty(0) if quantities else None,
            )
        X, y, weights = check_rows(
            estimator,
            X,
            y,
            None,
            numeric=classes is None,
            reset=False,
        )
        if sample_weight is not None and not np.any(np.asarray(sample_weight) != 0.0):
            # a part need not have rows of positive weight
            weights = np.zeros(len(y))
        elif sample_weight is not None:
            weights = _check_sample_weight(
                sample_weight,
                X,
                dtype=np.float64,
                ensure_non_negative=True,
            )
        has_weight = weights > 0.0
        if classes is not None:
            # rows of weight zero may have other labels, and a part need not have all
            y = np.searchsorted(classes, y[has_weight]).astype(np.float64)
            return Rows(X[has_weight], y, weights[has_weight])
        quantity = row_quantity(door.likelihood, len(y), **quantities)
        likelihood = door.likelihood
        if quantity is not None:
            likelihood = likelihood.at_rows(quantity)
        likelihood.check_support(y)
    except ValueError as error:
        raise ValueError(f"In part {number} of the rows: {error}") from error
    return Rows(X, y, weights, quantity).take(has_weight)


def validate_data(
    estimator: BaseEstimator,
    X: ArrayLike | None,
    y: ArrayLike | None = "no_validation",
    **options: Any,
) -> Any:
    """scikit-learn's check, with errors that name the remedy.

    Raises
    ------
    ValueError
        As scikit-learn's; for masked and missing values, text, and integers beyond
        doubles.
    """
    check_unmasked(X=X, y=y)
    try:
        with no_overflow():
            checked = _validate_data(estimator, X, y, **options)
        if options.get("y_numeric"):
            inputs, targets = checked
            # scikit-learn does not convert arrays of text
            return inputs, targets.astype(np.float64, copy=False)
        return checked
    except ValueError as error:
        if "Input X contains NaN" in str(error):
            raise ValueError(
                "Input X contains NaN. Impute it, for example by SimpleImputer in a "
                "pipeline, make missing values of categories a category, or take "
                "GWIRegressor or GWIClassifier around an estimator that reads NaN."
            ) from error
        if "Input y contains NaN" in str(error):
            raise ValueError(
                "Input y contains NaN. Drop the rows in which it is missing."
            ) from error
        if "could not convert string" not in str(error):
            raise
        remedy = "y must hold numbers; for labels use a classifier."
        if _has_text(X):
            remedy = "Encode columns of text, for example by OneHotEncoder"
            if estimator.__sklearn_tags__().input_tags.categorical:
                remedy += f", or make them categories: {_cast_to_categories(X)}"
            remedy += "."
        raise ValueError(f"{error}. {remedy}") from error


@contextmanager
def no_overflow() -> Iterator[None]:
    """Raise a ValueError where integers are beyond the range of doubles."""
    try:
        yield
    except OverflowError as error:
        raise ValueError(
            f"X and y must be of a size up to {LARGEST:g}; got an integer that no "
            "double holds. Change its units."
        ) from error


def check_unmasked(**arrays: Any) -> None:
    """Refuse masked values, which NumPy would take for numbers.

    Raises
    ------
    ValueError
        With the conversion to use.
    """
    for name, array in arrays.items():
        if np.ma.is_masked(array):
            raise ValueError(
                f"{name} has {np.ma.count_masked(array)} masked values, which are "
                "missing. Drop their rows, or fill them in, for example by "
                f"SimpleImputer on {name}.filled(numpy.nan)."
            )


def _cast_to_categories(X: ArrayLike | None) -> str:
    """The call that makes a column one of categories, in the library of the table."""
    if type(X).__module__.startswith("polars"):
        return 'X.with_columns(polars.col("name").cast(polars.Categorical))'
    return 'X.astype({"name": "category"})'


def _has_text(X: ArrayLike | None) -> bool:
    try:
        np.asarray(X, dtype=np.float64)
    except ValueError:
        return True
    return False


def check_labels(y: ArrayLike | None) -> None:
    """Refuse missing labels, None or NaN.

    Raises
    ------
    ValueError
        With their number.
    """
    if y is None:
        # scikit-learn says so itself
        return
    check_unmasked(y=y)
    if not hasattr(y, "dtype"):
        # in a list of text NumPy would take NaN for the text "nan"
        y = np.asarray(y, dtype=object)
    labels = np.ravel(y)
    n_missing = 0
    if labels.dtype.kind == "O":
        n_missing = sum(map(_is_missing, labels.tolist()))
    elif labels.dtype.kind == "f":
        n_missing = int(np.sum(np.isnan(labels)))
    if n_missing:
        raise ValueError(
            f"y must have a label in each row; {n_missing} of {len(labels)} are "
            "missing (None or NaN). Drop their rows, those where pandas.isna(y)."
        )


def one_target(estimator: BaseEstimator, y: AnyArray) -> AnyArray:
    """Targets (n,); a column is one too, with scikit-learn's warning."""
    if y.size > len(y):
        raise ValueError(
            f"{type(estimator).__name__} expects one target here: y should be a 1d "
            f"array; got shape {y.shape}. Wrap it in MultiOutputRegressor."
        )
    return np.asarray(column_or_1d(y, warn=True))


def canonical_rows(
    X: Array,
    y: Array,
    weights: Array,
    known: Array | None = None,
) -> Rows:
    """Rows in lexicographic order; equal rows are merged, rows of weight zero dropped.

    All later sums then take the same numbers in the same order, whatever the order of
    the rows, and whether repetitions were given as rows or as weights. O(n d log n).
    """
    # gaps are equal to each other
    columns = [X, np.where(np.isnan(y), np.inf, y)]
    if known is not None:
        columns.append(known)
    positions, totals = distinct_rows(np.column_stack(columns), weights)
    rows = Rows(X, y, weights, known).take(positions)
    return rows._replace(X=np.ascontiguousarray(rows.X), weights=totals)


def standardisation(y: Array, weights: Array, *, robust: bool = False) -> Any:
    """Weighted mean and standard deviation of y, numbers or (t,); 1 for a constant y.

    If `robust`, the median and the standard deviation of a normal distribution with the
    same quartiles, unless half of the targets are equal.
    """
    if robust:
        low, median, high = weighted_quartiles(y, weights)
        if high - low > 1e-14 * max(abs(low), abs(high)):
            # the quartiles of N(0, 1) are 1.349 apart
            return median, (high - low) / 1.349
    if y.ndim > 1:
        units = []
        for target in y.T:
            is_known = ~np.isnan(target)
            units.append(mean_and_spread(target[is_known], weights[is_known], 1e-14))
        shift, scale = np.transpose(units)
        return shift, scale
    mean, std = mean_and_spread(y, weights, 1e-14)
    return float(mean), float(std)


def copy_to_merge(estimator: _Estimator, other: BaseEstimator) -> _Estimator:
    """Shallow copy of a model, to which the rows of another one are added.

    Some of these may be among its own.
    """
    merged = copy.copy(estimator)
    vars(merged).pop("_n_rows", None)
    keep_input_range(merged, other._input_range, reset=False)
    return merged


def keep_input_range(estimator: Any, X: Array | None, reset: bool) -> None:
    """Keep smallest and largest values of the columns of X, and of rows before."""
    parts = [X] if reset else [X, estimator._input_range]
    extremes = [
        (part.min(axis=0), part.max(axis=0)) for part in parts if part is not None
    ]
    rows = np.concatenate(extremes)
    vars(estimator)["_input_range"] = np.stack((rows.min(axis=0), rows.max(axis=0)))


# ---- Tables --------------------------------------------------------------------------


def check_X(estimator: BaseEstimator, X: ArrayLike) -> Array:
    """Check the rows to predict: float64 (n, d), the columns of `fit`."""
    check_is_fitted(estimator)
    return check_new_rows(estimator, X)


def check_new_rows(estimator: BaseEstimator, X: ArrayLike) -> Array:
    """Check rows with the columns that the estimator has seen: float64 (n, d)."""
    X = with_codes(estimator, X)
    check_columns(X)
    checked: Array = validate_data(
        estimator,
        X,
        dtype=np.float64,
        order="C",
        reset=False,
    )
    check_size(checked)
    return checked


class RowReader:
    """Reads rows as `predict` of an estimator does, without its fit.

    Parameters
    ----------
    estimator : BaseEstimator
        Fitted. Its parameters are kept, and what it knows of the columns.
    """

    def __init__(self, estimator: BaseEstimator):
        parameters = estimator.get_params(deep=False)
        columns = {
            name: value
            for name, value in vars(estimator).items()
            if name in _KNOWN_OF_COLUMNS
        }
        self.estimator: Any = object.__new__(type(estimator))
        vars(self.estimator).update(parameters | columns)

    @property
    def columns(self) -> list[tuple[str, list[Any] | None]]:
        """Names of the columns, and their categories or None; empty without names."""
        declared = getattr(self.estimator, "categories_", {})
        categories = {name: values.tolist() for name, values in declared.items()}
        names = getattr(self.estimator, "feature_names_in_", ())
        return [(str(name), categories.get(name)) for name in names]

    def __call__(self, X: ArrayLike) -> ArrayLike:
        """Rows of a table, (n, d), checked; rows without names are returned.

        Raises
        ------
        ValueError
            As `predict`; for masked values.
        """
        if not (hasattr(X, "columns") or hasattr(X, "__dataframe__")):
            check_unmasked(X=X)
            return X
        if hasattr(X, "compute"):
            # a frame of dask: scikit-learn does not see the names of its columns
            X = X.compute()
        if hasattr(self.estimator, "_rows_to_predict"):
            return self.estimator._rows_to_predict(X)
        return check_X(self.estimator, X)


def with_codes(
    estimator: BaseEstimator,
    X: ArrayLike | None,
    reset: bool = False,
) -> Any:
    """A data frame with codes in its columns of categories; other X are returned.

    Columns of pandas of type category, and of polars of type Enum or Categorical, are
    encoded. If `reset`, the categories that their types declare are kept as
    ``categories_``, by name; otherwise values are looked up there, whatever the type.

    Raises
    ------
    ValueError
        For missing values, and for categories that were not declared in `fit`.
    """
    frame: Any = X
    # a Series has types, and no columns
    kinds = getattr(X, "dtypes", None) if hasattr(X, "columns") else None
    names = [] if kinds is None else list(frame.columns)
    check_names(names)
    if reset:
        _keep_categories(estimator, frame, names, kinds)
    categories = getattr(estimator, "categories_", {})
    if not categories or not names:
        return X
    columns = {name: frame[name] for name in names}
    for name in names:
        if name in categories:
            columns[name] = _category_codes(name, columns[name], categories[name])
    return type(frame)(columns)


def _keep_categories(
    estimator: BaseEstimator,
    X: Any,
    names: list[Any],
    kinds: Any,
) -> None:
    """Keep the categories that the types of columns declare, and the columns."""
    # for kernels of columns that are chosen by type
    estimator._no_rows = X[:0] if names else None
    declared = {}
    for name, kind in zip(names, np.ravel(kinds), strict=False):
        if str(kind).lower().startswith(_CATEGORIES):
            values = getattr(kind, "categories", None)
            if not hasattr(values, "to_list"):
                # a Categorical of polars does not list its categories
                values = X[name].drop_nulls().unique().sort()
            declared[name] = np.asarray(values)
    vars(estimator).pop("categories_", None)
    if declared:
        estimator.categories_ = declared
    # numbers of categories by the position of the column, for kernels
    estimator._n_categories = {
        names.index(name): len(values) for name, values in declared.items()
    }


def _category_codes(name: str, column: ArrayLike, categories: AnyArray) -> Array:
    """Position of each value among the categories of a column."""
    codes = {value: i for i, value in enumerate(categories.tolist())}
    values = np.asarray(column, dtype=object).tolist()
    if any(map(_is_missing, values)):
        raise ValueError(
            f"Column {name!r} of X has missing values. Give them a category of "
            'their own, as in X[name].cat.add_categories("missing").fillna('
            '"missing"), or drop their rows.'
        )
    unknown = sorted({repr(value) for value in values if value not in codes})
    if unknown:
        raise ValueError(
            f"Column {name!r} of X must hold the categories {list(codes)[:10]} of "
            f"fit; got {', '.join(unknown[:5])}. Declare all that may come in the type "
            "of the column before fit, as in pandas.CategoricalDtype([...]): those "
            "that have no rows then are predicted by the prior."
        )
    return np.array([codes[value] for value in values], dtype=np.float64)


def _is_missing(value: object) -> bool:
    """Whether this is None, or a missing value of pandas."""
    if value is None:
        return True
    # NA of pandas has no truth value
    return not isinstance(value, str) and str(value) in ("nan", "NaT", "<NA>")


def check_names(names: list[Any]) -> None:
    """Refuse several columns of one name.

    Raises
    ------
    ValueError
        With the names that occur repeatedly.
    """
    if len(set(names)) < len(names):
        repeated = sorted({str(name) for name in names if names.count(name) > 1})
        raise ValueError(
            f"Names of columns of X must differ; got {repeated} repeatedly."
        )


def check_same_names(owner: object, X: ArrayLike | None) -> None:
    """Keep the names of the columns of the first table, and refuse others.

    Raises
    ------
    ValueError
        For other names than `feature_names_in_` of the owner, or another order.
    """
    if hasattr(X, "columns"):
        is_first = not hasattr(owner, "feature_names_in_")
        _check_feature_names(owner, X, reset=is_first)


def refuse_categories(estimator: BaseEstimator) -> None:
    """Refuse columns of categories, for an estimator that has no kernel for them.

    Raises
    ------
    ValueError
        With the remedy.
    """
    names = list(getattr(estimator, "categories_", {}))
    if names:
        raise ValueError(
            f"{type(estimator).__name__} expects numbers; got columns of categories, "
            f"{names}. Encode them by OneHotEncoder, or use PLSRegressor, which has a "
            "kernel of categories."
        )


def check_size(X: Array) -> None:
    """Refuse rows to predict with squares that leave the range of doubles.

    Raises
    ------
    ValueError
        For numbers beyond 1e120.
    """
    largest = max(X.max(initial=0.0), -X.min(initial=0.0))
    if largest > LARGEST:
        raise ValueError(f"X must be at most {LARGEST:g} in size; got {largest:g}.")


def check_columns(X: ArrayLike | None, y: ArrayLike | None = None) -> None:
    """Refuse dates, which NumPy takes for numbers, and complex numbers.

    None is accepted.

    Raises
    ------
    ValueError
        With the conversion to use.
    """
    for name, table in {"X": X, "y": y}.items():
        # of an array, of a table of Arrow, of a data frame
        kind = getattr(table, "dtype", getattr(table, "type", ""))
        column_kinds = getattr(getattr(table, "schema", None), "types", [kind])
        kinds = getattr(table, "dtypes", column_kinds)
        kinds = [str(kind).lower() for kind in np.ravel(kinds)]
        if any(kind.startswith("complex") for kind in kinds):
            raise ValueError(
                f"Complex data not supported: {name} must be real. Give its real and "
                "imaginary parts as columns."
            )
        if any(kind.startswith(_TIMES) for kind in kinds):
            raise ValueError(
                f"{name} must be numeric; got dates or durations. Convert them to "
                "numbers, for example to days: (t - t.min()) / "
                "numpy.timedelta64(1, 'D')."
            )


def check_range(name: str, values: Array) -> None:
    """Refuse columns with squares that leave the range of doubles.

    Raises
    ------
    ValueError
        If a column has a number beyond 1e120, or none, except zero, from 1e-120 on; if
        it has NaN, as of a None that scikit-learn lets through.
    """
    highest = np.max(values, axis=0, initial=0.0)
    lowest = np.min(values, axis=0, initial=0.0)
    if np.any(np.isnan(highest)):
        n_missing = int(np.sum(np.isnan(values)))
        raise ValueError(
            f"{name} must be finite; got {n_missing} NaN or None. Drop their rows."
        )
    largest = np.maximum(highest, -lowest)
    small = (largest > 0.0) & (largest < 1.0 / LARGEST)
    if np.any(small) or np.any(largest > LARGEST):
        raise ValueError(
            f"{name} must be of a size between {1.0 / LARGEST:g} and {LARGEST:g}; "
            f"got a largest value of {np.max(largest):g}. Change its units."
        )


def check_points(
    name: str,
    values: ArrayLike,
    shape: tuple[int | None, ...],
) -> Array:
    """Check an array that is not the X of an estimator: float64, finite, of a shape.

    None in `shape` stands for any positive number.

    Raises
    ------
    ValueError
        If it has another shape, is empty, or has NaN or infinity.
    """
    check_unmasked(**{name: values})
    array: Array = np.asarray(values, dtype=np.float64, order="C")
    has_shape = array.ndim == len(shape) and all(
        got == wanted or (wanted is None and got > 0)
        for got, wanted in zip(array.shape, shape, strict=True)
    )
    if not has_shape:
        sizes = ", ".join("any" if size is None else str(size) for size in shape)
        sizes += "," * (len(shape) == 1)
        raise ValueError(f"{name} must have shape ({sizes}); got {array.shape}.")
    if not np.all(np.isfinite(array)):
        raise ValueError(f"{name} must be finite; got NaN or infinity.")
    return array


def check_targets(y: ArrayLike, rows: Sized, n_targets: int = 1) -> AnyArray:
    """Targets or labels, one for each row (n_rows,), or several (n_rows, t)."""
    if n_targets > 1:
        return check_points("y", y, (len(rows), n_targets))
    check_unmasked(y=y)
    targets: AnyArray = column_or_1d(y)
    check_consistent_length(rows, targets)
    return targets


# ---- Weights, and a quantity of each row ---------------------------------------------


def check_weights(sample_weight: RowValues, X: ArrayLike) -> Array:
    """Frequency weights (n,) of the rows of X, ones for None.

    Raises
    ------
    ValueError
        For negative weights, or none that is positive.

    Warns
    -----
    DataWarning
        If the weights of ten or more rows sum to less than two.
    """
    check_unmasked(sample_weight=sample_weight)
    weights: Array = _check_sample_weight(
        sample_weight,
        X,
        dtype=np.float64,
        ensure_non_negative=True,
    )
    if sample_weight is None:
        return weights
    if not np.any(weights > 0.0):
        raise ValueError("sample_weight must have at least one positive weight.")
    largest = 1e100
    is_usual = (weights == 0.0) | (weights >= 1.0 / largest)
    if not np.all(is_usual & (weights <= largest)):
        raise ValueError(
            f"sample_weight are frequencies, zero or between {1.0 / largest:g} and "
            f"{largest:g}; got "
            f"{weights.min():g} to {weights.max():g}. Scale them to a mean of one: "
            "sample_weight / sample_weight.mean()."
        )
    total = float(weights.sum())
    n_positive = int(np.sum(weights > 0.0))
    if n_positive >= 10 and total < 2.0:
        warn(
            f"sample_weight are frequencies: those of {n_positive} rows sum to "
            f"{total:g}, and count as so many rows in all, so that the prior outweighs "
            "the data. "
            "Scale them to a mean of one: sample_weight / sample_weight.mean(). "
            "AdaBoostClassifier always passes shares: use bagging instead.",
            DataWarning,
        )
    return weights


# Likelihoods with each quantity of rows, for messages.
_LIKELIHOODS = {
    "exposure": "counts and amounts, such as likelihood=Poisson()",
    "noise_variance": "normal and Student noise, Gaussian() and StudentT()",
    "censoring": "censored targets, Tobit() and LogNormal()",
}


def row_quantity(
    likelihood: Likelihood,
    n_rows: int,
    **quantities: RowValues,
) -> Array | None:
    """The quantity that is given of each row, an array (n,); None without any.

    Parameters
    ----------
    likelihood : Likelihood
    n_rows : int
    **quantities : array-like of shape (n,), float or None
        By name. A number stands for all rows.

    Raises
    ------
    ValueError
        If the likelihood has no such quantity, if the shape is wrong, or if a number is
        not positive and finite (a noise may be zero; for censoring -1, 0 or 1).
    """
    given = {name: values for name, values in quantities.items() if values is not None}
    for name in given:
        if name != likelihood.row_quantity:
            users = _LIKELIHOODS[name]
            raise ValueError(f"{name} of rows is for {users}; got {likelihood!r}.")
    if not given:
        return None
    [(name, values)] = given.items()
    array = np.asarray(values, dtype=np.float64)
    possible = array >= 1.0 / LARGEST
    expected = "positive and finite"
    if name == "noise_variance":
        possible = possible | (array == 0.0)
        expected = "not negative, and finite"
    if name == "censoring":
        possible = np.isin(array, (-1.0, 0.0, 1.0))
        expected = "1 (y is a lower bound), -1 (an upper bound) or 0 (observed)"
    is_allowed = np.all(possible & (array <= LARGEST))
    if array.shape not in ((), (n_rows,)) or not is_allowed:
        raise ValueError(
            f"{name} must be {expected}, a number or an array of shape "
            f"({n_rows},), one for each row of X; got shape {array.shape}, between "
            f"{np.min(array):g} and {np.max(array):g}. Drop the rows for which it is "
            "unknown."
        )
    return np.ascontiguousarray(np.broadcast_to(array, (n_rows,)))


def has_white_noise(kernel: Kernel | None) -> bool:
    """Whether a WhiteKernel gives the noise of y."""
    return kernel is not None and split_noise(kernel)[1] is not None


def known_noise(
    noise_variance: Array | None,
    y: Array,
    weights: Array,
    parameter: float | None,
    kernel: Kernel | None,
) -> KnownNoise | None:
    """Noise variances of rows (n,), unless the estimator has a noise of its own.

    Double precision needs some noise: a row without it gets the least variance that
    would be learned, 1e-8 of the variance of y, or the least of another row, if that is
    smaller.

    Parameters
    ----------
    noise_variance : ndarray of shape (n,) or None
    y : ndarray of shape (n,) or (n, t)
    weights : ndarray of shape (n,)
    parameter : float or None
        Noise variance that is a parameter of the estimator or its likelihood.
    kernel : sklearn.gaussian_process.kernels.Kernel or None

    Raises
    ------
    ValueError
        If the noise is given twice.
    """
    if noise_variance is None:
        return None
    owner = None
    if parameter is not None:
        owner = f"a noise of its own ({parameter:g})"
    if has_white_noise(kernel):
        owner = "a WhiteKernel"
    if owner is not None:
        raise ValueError(
            f"fit was given the noise_variance of each row, and the model has {owner}: "
            "give only one of them. The variances of the rows are their total noise."
        )
    is_noisy = noise_variance > 0.0
    smallest = float(np.min(noise_variance[is_noisy], initial=np.inf))
    complete = Rows(noise_variance, y, weights).without_gaps()
    substitute = min(variance_start(complete.y, complete.weights)[1], smallest)
    return KnownNoise.of(np.where(is_noisy, noise_variance, substitute), weights)


class Units(NamedTuple):
    """Units of y: ``y = shift + scale * standardised``.

    Attributes
    ----------
    shift, scale : float or ndarray of shape (t,)
    new_row_variance : float or None
        Variance of the noise at a new row, in squared units of y, where the noise of
        each row is known; otherwise None.
    level : callable, optional
        What rows (n, d) see of a constant, (n,), if that is not one: a slope sees none.
    """

    shift: float | Array = 0.0
    scale: float | Array = 1.0
    new_row_variance: float | None = None
    level: Callable[[Array], Array] | None = None

    def standardised(self, y: Array, X: Array) -> Array:
        """Targets of rows X in standardised units."""
        shift = self.shift
        if self.level is not None:
            shift = shift * self.level(X)
        return (y - shift) / self.scale


def in_unit_scale(
    rows: tuple[Array, Array, Array, Array | None],
    likelihood: Any,
    kernel: Any,
    normalize_y: bool,
    units: Units | None = None,
) -> tuple[Rows, Rows, Any, Units]:
    """Canonical rows in the units of y and standardised, and the likelihood of these.

    Parameters
    ----------
    rows : tuple
        X, y, weights, and what is known of each row.
    likelihood : Likelihood
    kernel : sklearn.gaussian_process.kernels.Kernel or None
        As it was given, perhaps with white noise.
    normalize_y : bool
    units : Units, optional
        Units of an earlier fit: shift and scale stay.

    Returns
    -------
    rows, standard : Rows
    likelihood : Likelihood
        With the noise that is known, in standardised units.
    units : Units
        A new row has the mean of the variances of the noise, if they are known.
    """
    X, y, weights, quantity = rows
    noise: KnownNoise | None = None
    if isinstance(likelihood, NoiseOfRows):
        noise = known_noise(quantity, y, weights, likelihood.noise_parameter, kernel)
    if noise is not None:
        likelihood = likelihood.with_noise(noise.reference)
        quantity = noise.relative
    canonical = canonical_rows(X, y, weights, quantity)
    shift, scale, _, level = Units() if units is None else units
    if normalize_y and likelihood.location_scale and units is None:
        w = canonical.weights if noise is None else canonical.precisions
        shift, scale = standardisation(canonical.y, w, robust=likelihood.heavy_tailed)
        if canonical.y.ndim > 1 and likelihood.noise_parameter is not None:
            # targets of one noise in the units of y have one unit
            scale = float(np.sqrt(np.mean(scale**2)))
    units = Units(shift, scale, None if noise is None else noise.mean, level)
    standard = canonical._replace(y=units.standardised(canonical.y, canonical.X))
    likelihood = likelihood.scaled(1.0 / scale)
    return canonical, standard, likelihood, units


def relative(likelihood: Likelihood, known: Array | None) -> Array | None:
    """Noise variances in units of the likelihood's; other quantities unchanged."""
    if known is None or not isinstance(likelihood, NoiseOfRows):
        return known
    assert likelihood.noise_parameter is not None
    # densities of new rows without noise need some
    return np.where(known == 0.0, 1e-12, known / likelihood.noise_parameter)


# ---- Parameters ----------------------------------------------------------------------


def check_kernel(  # noqa: C901
    kernel: Kernel | None,
    X: Array,
    noise_variance: float | None = None,
) -> None:
    """Check the hyperparameters of a kernel (or None), and try it on rows of X.

    Raises
    ------
    ValueError
        If its parameters are for another number of columns, or not finite and positive;
        if its value at equal inputs is not finite, or a variance of zero at all rows;
        if it has cycles in the distance of several columns; if squared distances in
        lengthscales leave the range of doubles; if it has a WhiteKernel although a
        noise variance is given.
    """
    if isinstance(kernel, DefaultKernel):
        try:
            kernel.interacting(X.shape[1])
        except ValueError as error:
            raise ValueError(f"interaction_cst does not fit X: {error}") from error
        return
    if kernel is None:
        return
    if isinstance(kernel, Functionals):
        check_kernel(kernel.kernel, X[:, : kernel.n_features], noise_variance)
        if not isinstance(kernel.kernel, DefaultKernel):
            # a slope that the kernel of f does not have
            latent, _, _ = split_noise(kernel.kernel)
            Functionals(latent, kernel.resolution).diag(X)
        return
    if noise_variance is not None and has_white_noise(kernel):
        raise ValueError(
            f"The noise is given twice: as noise_variance={noise_variance:g}, in "
            f"squared units of y, and by the WhiteKernel in kernel={kernel!r}. "
            "Remove one of them."
        )
    _check_hyperparameters(kernel)
    try:
        with np.errstate(all="ignore"):
            value = kernel(X[:1])
            at_equal_inputs = kernel(X[:1], X[:1])
            variance = kernel.diag(X)
    except ValueError as error:
        # kernels of the library state the remedy themselves
        remedy = ""
        if "nisotropic" in str(error):
            remedy = " Give one lengthscale, or one for each column."
        raise ValueError(
            f"The kernel {kernel!r} does not fit X, which has {X.shape[1]} columns: "
            f"{error}{remedy}".rstrip()
        ) from error
    if np.ndim(value) != 2 or not np.all(np.isfinite(value)):
        raise ValueError(
            f"The kernel {kernel!r} must give a matrix of finite numbers; got {value}. "
            "A CompoundKernel is several kernels: add or multiply them instead."
        )
    scales = length_scales(kernel, X.shape[1])
    with np.errstate(over="ignore"):
        spans = np.ptp(X, axis=0) / scales
    if not np.all(spans <= 1.0 / np.finfo(np.float64).tiny ** 0.5):
        j = int(np.argmax(spans))
        raise ValueError(
            f"The lengthscales of {kernel!r} must be of the size of distances between "
            f"rows; got {scales[j]:g} for column {j}, which spans "
            f"{np.ptp(X[:, j]):g}. Give a longer one, in the units of X."
        )
    _check_diagonal(kernel, at_equal_inputs, variance)
    _check_cycles(kernel, X.shape[1])


def _check_diagonal(kernel: Kernel, at_equal_inputs: Array, variance: Array) -> None:
    """Raise a ValueError unless variances (n,) are finite, and one is positive."""
    if not (np.all(np.isfinite(at_equal_inputs)) and np.all(np.isfinite(variance))):
        raise ValueError(
            f"The kernel {kernel!r} must be finite between equal inputs; got "
            f"{np.ravel(at_equal_inputs)[0]:g}. Change its parameters: Matern kernels "
            "of large orders, for example, overflow, and are nearly an RBF."
        )
    if np.any(variance < 0.0) or not np.any(variance > 0.0):
        raise ValueError(
            f"The kernel {kernel!r} must have a positive variance, on its diagonal; "
            f"got {np.min(variance):g} to {np.max(variance):g}. Give a positive "
            "amplitude."
        )


def _check_cycles(kernel: Kernel, n_columns: int) -> None:
    """Raise a ValueError for cycles in the distance of several columns."""
    for part, _ in parts_with("directions", kernel, np.arange(n_columns)):
        _check_cycles(part.kernel, np.shape(part.directions)[1])
    for part, columns in parts_with("periodicity", kernel, np.arange(n_columns)):
        if type(part) is ExpSineSquared and len(columns) > 1:
            raise ValueError(
                f"{part!r} is not positive definite in the distance of several "
                f"columns, here {len(columns)}. Give each column a cycle of its own, "
                "as in Columns(ExpSineSquared(), [0]) * Columns(ExpSineSquared(), [1])."
            )


def _check_hyperparameters(kernel: Kernel) -> None:
    """Raise a ValueError unless hyperparameters are finite and positive.

    Those that are fixed, and variances beside others, may be zero.
    """
    parameters = kernel.get_params()
    for hyperparameter in kernel.hyperparameters:
        value = parameters.get(hyperparameter.name)
        if value is None or hyperparameter.value_type != "numeric":
            continue
        numbers = np.ravel(np.asarray(value, dtype=np.float64))
        may_be_zero = hyperparameter.name.endswith(_MAY_BE_ZERO)
        if hyperparameter.fixed or may_be_zero:
            is_possible = numbers >= 0.0
        else:
            is_possible = numbers > 0.0
        if not np.all(is_possible & np.isfinite(numbers)):
            raise ValueError(
                f"The hyperparameters of a kernel must be positive and finite; got "
                f"{hyperparameter.name}={value!r}."
            )


def check_likelihood_given(likelihood: object) -> None:
    """Refuse an object that is no likelihood, except None, and impossible parameters.

    Raises
    ------
    ValueError
        With the objects to pass.
    """
    if likelihood is None:
        return
    if not isinstance(likelihood, Likelihood):
        name = repr(likelihood)
        if isinstance(likelihood, type):
            name = f"the class {likelihood.__name__}"
        raise ValueError(
            "likelihood must be None or a likelihood of skgpx.likelihoods (or your own "
            f"subclass of Likelihood), such as StudentT(df=4); got {name}."
        )
    likelihood.check_parameters()


def check_count(value: object, name: str) -> int:
    """A positive integer."""
    return int(check_scalar(value, name, Integral, min_val=1))


def check_coverage(coverage: float) -> float:
    """Probability of an interval or a set, strictly between 0 and 1."""
    checked = check_scalar(
        coverage,
        "coverage",
        Real,
        min_val=0.0,
        max_val=1.0,
        include_boundaries="neither",
    )
    # which scikit-learn lets through
    if np.isnan(checked):
        raise ValueError(f"coverage must be between 0 and 1; got {coverage!r}.")
    return float(checked)


def check_layer_sizes(sizes: ArrayLike) -> tuple[int, ...]:
    """Numbers of units of the hidden layers of a network."""
    layers = np.atleast_1d(np.asarray(sizes, dtype=object))
    for size in layers:
        if not isinstance(size, Integral) or size is True or size <= 0:
            raise ValueError(
                "hidden_layer_sizes must be positive integers, one for each hidden "
                f"layer, such as (10, 10); got {sizes!r}."
            )
    return tuple(int(size) for size in layers)


def check_levels(q: ArrayLike, name: str) -> Array:
    """Levels of quantiles, () or (k,).

    Raises
    ------
    ValueError
        Unless there are one or more, strictly between 0 and 1.
    """
    levels = np.asarray(q, dtype=np.float64)
    are_inside = np.all((levels > 0.0) & (levels < 1.0))
    if levels.ndim > 1 or not levels.size or not are_inside:
        raise ValueError(
            f"{name} must be one or more numbers strictly between 0 and 1; got {q!r}."
        )
    return levels


def generator(random_state: RandomState) -> Generator:
    """Generator for a `random_state` of scikit-learn; a Generator is returned."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    if random_state is None or isinstance(random_state, int | np.integer):
        # does not touch NumPy's global generator
        return np.random.default_rng(random_state)
    seeds = check_random_state(random_state).randint(2**31 - 1, size=4)
    return np.random.default_rng(seeds)


# ---- Memory --------------------------------------------------------------------------


def working_floats() -> int:
    """Numbers that fit into scikit-learn's ``working_memory``."""
    return int(get_config()["working_memory"] * 2**20) // 8


def row_blocks(n_rows: int, floats_per_row: int) -> list[slice]:
    """Blocks of rows within scikit-learn's ``working_memory``; at least 16 rows."""
    affordable = working_floats() // floats_per_row
    size = int(max(16, min(affordable, 16384)))
    return row_slices(n_rows, size)
