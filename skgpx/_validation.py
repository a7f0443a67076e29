"""The door: checks what users pass in; imports scikit-learn's private names."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from functools import wraps
from numbers import Integral, Real
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn import get_config
from sklearn.base import BaseEstimator, _fit_context, clone
from sklearn.gaussian_process.kernels import Kernel
from sklearn.utils import _safe_indexing as take_rows
from sklearn.utils import check_random_state, check_scalar, column_or_1d
from sklearn.utils._param_validation import HasMethods as HasMethods
from sklearn.utils._param_validation import Interval as Interval
from sklearn.utils._param_validation import StrOptions as StrOptions
from sklearn.utils._param_validation import validate_params as validate_params
from sklearn.utils.validation import _check_sample_weight, check_consistent_length
from sklearn.utils.validation import check_is_fitted as check_is_fitted
from sklearn.utils.validation import validate_data as _validate_data

from skgpx._numerics.rows import LARGEST, distinct_rows, mean_and_spread
from skgpx.exceptions import DataWarning
from skgpx.exceptions import warn as warn
from skgpx.kernels import (
    Categorical,
    Columns,
    length_scales,
    parts_with,
    split_noise,
    with_resolved_columns,
)
from skgpx.likelihoods import Likelihood
from skgpx.likelihoods._noise import (
    KnownNoise,
    NoiseOfRows,
    variance_start,
    weighted_quartiles,
)
from skgpx.likelihoods._ordinal import codes_of_grades as codes_of_grades
from skgpx.likelihoods._ordinal import with_categories_of as with_categories_of

__all__ = ["take_rows"]

Array = NDArray[np.float64]

_Method = TypeVar("_Method", bound=Callable[..., Any])

# How the names of types of dates begin, in NumPy, pandas, polars and Arrow.
_TIMES = ("date", "time", "duration", "period")
# How those of categories begin, in pandas and polars.
_CATEGORIES = ("category", "categorical", "enum")


def fit_context(*, prefer_skip_nested_validation: bool) -> Callable[[_Method], _Method]:
    """scikit-learn's decorator of `fit`; a fit that fails changes nothing."""
    decorator: Callable[[_Method], _Method] = _fit_context(
        prefer_skip_nested_validation=prefer_skip_nested_validation
    )

    def decorate(method: _Method) -> _Method:
        return all_or_nothing(decorator(method))

    return decorate


def all_or_nothing(method: _Method) -> _Method:
    """Have a method that fails or is interrupted leave the attributes as they were.

    Attributes are replaced by methods and never changed in place, so that a shallow
    copy is enough: categories and names of columns stay those of the posterior.
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
    weights : ndarray of shape (n,)
        Frequency weights, positive.
    known : ndarray of shape (n,) or None
        Exposure or censoring of each row, or the variance of its noise in units of the
        likelihood's own; see `Likelihood.row_quantity`.
    """

    X: Array
    y: Array
    weights: Array
    known: Array | None = None

    def take(self, chosen: Any) -> Rows:
        """Some of the rows."""
        known = None if self.known is None else self.known[chosen]
        return Rows(self.X[chosen], self.y[chosen], self.weights[chosen], known)

    def followed_by(self, other: Rows) -> Rows:
        """These rows and those of another set."""
        pairs = zip(self, other, strict=True)
        joined = [None if a is None else np.concatenate((a, b)) for a, b in pairs]
        return Rows(*joined)  # type: ignore[arg-type]

    @property
    def precisions(self) -> Array:
        """Weights in sums of normal noise, whose relative variance may be known."""
        return self.weights if self.known is None else self.weights / self.known


def check_rows(
    estimator: BaseEstimator,
    X: Any,
    y: Any,
    sample_weight: Any,
    *,
    numeric: bool,
    reset: bool = True,
) -> tuple[Array, NDArray[Any], Array]:
    """Check the arguments of `fit`: float64 X (n, d), y (n,), weights (n,).

    For several targets, which tags of the estimator must allow, y is (n, t). Without
    `reset` X must have the columns of an earlier call.

    Raises
    ------
    ValueError
        For NaN or infinity, wrong shapes or sparse data; dates; numbers beyond 1e120
        or all below 1e-120; a y that is not numeric but should be; negative weights, or
        none that is positive; missing labels.
    """
    if not reset:
        estimator._no_rows = X[:0] if hasattr(X, "columns") else None
    X = with_codes(estimator, X, reset)
    check_columns(X, y if numeric else None)
    how = {"dtype": np.float64, "order": "C", "reset": reset, "y_numeric": numeric}
    if not numeric:
        check_labels(y)
    X, y = validate_data(estimator, X, y, **how, multi_output=numeric)
    several = estimator.__sklearn_tags__().target_tags.multi_output
    if numeric and not (several and y.size > len(y)):
        y = one_target(estimator, y)
    if not reset and y.shape[1:] != estimator._targets:
        raise ValueError(
            f"y must have shape {(len(y), *estimator._targets)}, with as many targets "
            f"as the rows seen before; got {y.shape}."
        )
    vars(estimator)["_targets"] = y.shape[1:]
    check_range("X", X)
    if numeric:
        y = np.asarray(y, dtype=np.float64)
        check_range("y", y)
    weights = check_weights(sample_weight, X)
    if reset:
        # for reports; `partial_fit` adds to it once the rows are in its sums
        vars(estimator)["_n_rows"] = len(X)
    return X, y, weights


def validate_data(estimator: Any, X: Any, y: Any = "no_validation", **how: Any) -> Any:
    """scikit-learn's check, with errors that say what to do.

    Raises
    ------
    ValueError
        As scikit-learn's; for masked values, text, and integers beyond doubles.
    """
    check_unmasked(X=X, y=y)
    try:
        checked = _validate_data(estimator, X, y, **how)
        if how.get("y_numeric"):
            X, y = checked
            # scikit-learn leaves arrays of text as they are
            checked = X, y.astype(np.float64, copy=False)
        return checked
    except OverflowError as error:
        raise ValueError(
            f"X and y must be of a size up to {LARGEST:g}; got an integer that no "
            "double holds. Change its units."
        ) from error
    except ValueError as error:
        if "could not convert string" not in str(error):
            raise
        remedy = "y must hold numbers; for labels use a classifier."
        if _has_text(X):
            remedy = "Encode columns of text, for example by OneHotEncoder"
            if estimator.__sklearn_tags__().input_tags.categorical:
                remedy += ', or make them categories: X.astype({"name": "category"})'
            remedy += "."
        raise ValueError(f"{error}. {remedy}") from error


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


def _has_text(X: Any) -> bool:
    try:
        np.asarray(X, dtype=np.float64)
    except ValueError:
        return True
    return False


def check_labels(y: Any) -> None:
    """Refuse labels of which some are missing, None or NaN.

    Raises
    ------
    ValueError
        With how many they are.
    """
    if y is None:
        # scikit-learn says so itself
        return
    check_unmasked(y=y)
    # in a list of text NumPy would take NaN for the text "nan"
    labels = np.ravel(y if hasattr(y, "dtype") else np.asarray(y, dtype=object))
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


def one_target(estimator: Any, y: NDArray[Any]) -> NDArray[Any]:
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
    """Rows in lexicographic order, equal ones merged, those of weight zero dropped.

    All later sums then take the same numbers in the same order, whatever the order of
    the rows, and whether repetitions were given as rows or as weights. O(n d log n).
    """
    columns = (X, y) if known is None else (X, y, known)
    positions, totals = distinct_rows(np.column_stack(columns), weights)
    found = Rows(X, y, weights, known).take(positions)
    return found._replace(X=np.ascontiguousarray(found.X), weights=totals)


def standardisation(y: Array, weights: Array, *, robust: bool = False) -> Any:
    """Weighted mean and standard deviation of y, numbers or (t,); 1 for a constant y.

    If `robust`, the median and the standard deviation of a normal distribution with the
    same quartiles, unless half of the targets are equal.
    """
    if robust:
        low, middle, high = weighted_quartiles(y, weights)
        if high - low > 1e-14 * max(abs(low), abs(high)):
            return middle, (high - low) / 1.349
    mean, std = mean_and_spread(y, weights, 1e-14)
    return (mean, std) if y.ndim > 1 else (float(mean), float(std))


def copy_to_merge(estimator: Any) -> Any:
    """Shallow copy of a model that will be of other rows too, some perhaps the same."""
    merged = copy.copy(estimator)
    vars(merged).pop("_n_rows", None)
    return merged


# ---- Tables --------------------------------------------------------------------------


def check_X(estimator: BaseEstimator, X: Any) -> Array:
    """Check the rows to predict: float64 (n, d), the columns of `fit`."""
    check_is_fitted(estimator)
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


def with_codes(estimator: Any, X: Any, reset: bool = False) -> Any:
    """A data frame with codes in its columns of categories; all else as it is.

    Columns of pandas whose type is category, and of polars whose type is Enum or
    Categorical. If `reset`, the categories that their types declare are kept as
    ``categories_``, by name; otherwise values are looked up there, whatever the type.

    Raises
    ------
    ValueError
        For missing values, and for categories that were not declared in `fit`.
    """
    # a Series has types, and no columns
    kinds = getattr(X, "dtypes", None) if hasattr(X, "columns") else None
    names = [] if kinds is None else list(X.columns)
    check_names(names)
    if reset:
        # for kernels of columns that are chosen by type
        estimator._no_rows, found = X[:0] if names else None, {}
        for name, kind in zip(names, np.ravel(kinds), strict=False):
            if str(kind).lower().startswith(_CATEGORIES):
                values = getattr(kind, "categories", None)
                if not hasattr(values, "to_list"):
                    # a Categorical of polars has no list of its own
                    values = X[name].drop_nulls().unique().sort()
                found[name] = np.asarray(values)
        vars(estimator).pop("categories_", None)
        vars(estimator).update({"categories_": found} if found else {})
        # sizes by the position of the column, for kernels
        sizes = {names.index(name): len(values) for name, values in found.items()}
        estimator._n_categories = sizes
    known = getattr(estimator, "categories_", {})
    if not known or not names:
        return X
    columns = {name: X[name] for name in names}
    for name in [name for name in names if name in known]:
        code = {value: i for i, value in enumerate(known[name].tolist())}
        values = np.asarray(columns[name], dtype=object).tolist()
        if any(map(_is_missing, values)):
            raise ValueError(
                f"Column {name!r} of X has missing values. Give them a category of "
                'their own, as in X[name].cat.add_categories("missing").fillna('
                '"missing"), or drop their rows.'
            )
        new = sorted({repr(value) for value in values if value not in code})
        if new:
            raise ValueError(
                f"Column {name!r} of X must hold the categories {list(code)[:10]} of "
                f"fit; got {', '.join(new[:5])}. Declare all that may come in the type "
                "of the column before fit, as in pandas.CategoricalDtype([...]): those "
                "that have no rows then are predicted by the prior."
            )
        columns[name] = np.array([code[v] for v in values], dtype=np.float64)
    return type(X)(columns)


def _is_missing(value: Any) -> bool:
    """None, and what stands for it in pandas: its NA has no truth value."""
    of_pandas = not isinstance(value, str) and str(value) in ("nan", "NaT", "<NA>")
    return value is None or of_pandas


def check_names(names: list[Any]) -> None:
    """Refuse columns of one name.

    Raises
    ------
    ValueError
        With the names that occur repeatedly.
    """
    if len(set(names)) < len(names):
        twice = sorted({str(name) for name in names if names.count(name) > 1})
        raise ValueError(f"Names of columns of X must differ; got {twice} repeatedly.")


def refuse_categories(estimator: Any) -> None:
    """Refuse columns of categories, for an estimator that has no kernel for them.

    Raises
    ------
    ValueError
        With what to do.
    """
    names = list(getattr(estimator, "categories_", {}))
    if names:
        raise ValueError(
            f"{type(estimator).__name__} expects numbers; got columns of categories, "
            f"{names}. Encode them by OneHotEncoder, or use PLSRegressor, which has a "
            "kernel of categories."
        )


def check_size(X: Array) -> None:
    """Refuse rows to predict whose squares leave the range of doubles.

    Raises
    ------
    ValueError
        For numbers beyond 1e120.
    """
    largest = max(X.max(initial=0.0), -X.min(initial=0.0))
    if largest > LARGEST:
        raise ValueError(f"X must be at most {LARGEST:g} in size; got {largest:g}.")


def check_columns(X: Any, y: Any = None) -> None:
    """Refuse columns of dates, which NumPy takes for numbers; None is not looked at.

    Raises
    ------
    ValueError
        With the conversion to use.
    """
    for name, table in {"X": X, "y": y}.items():
        alone = getattr(table, "dtype", getattr(table, "type", ""))
        columns = getattr(getattr(table, "schema", None), "types", [alone])
        kinds = getattr(table, "dtypes", columns)
        if any(str(kind).lower().startswith(_TIMES) for kind in np.ravel(kinds)):
            raise ValueError(
                f"{name} must be numeric; got dates or durations. Convert them to "
                "numbers, for example to days: (t - t.min()) / "
                "numpy.timedelta64(1, 'D')."
            )


def check_range(name: str, values: Array) -> None:
    """Refuse columns whose squares leave the range of doubles.

    Raises
    ------
    ValueError
        If a column has a number beyond 1e120, or none, except zero, from 1e-120 on; if
        it has NaN, as of a None that scikit-learn lets through.
    """
    if n_missing := int(np.sum(np.isnan(values))):
        raise ValueError(
            f"{name} must be finite; got {n_missing} NaN or None. Drop their rows."
        )
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
    check_unmasked(**{name: values})
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


def check_targets(y: ArrayLike, rows: Any, n_targets: int = 1) -> NDArray[Any]:
    """Targets or labels, one for each row (n_rows,), or several (n_rows, t)."""
    if n_targets > 1:
        return check_points("y", y, (len(rows), n_targets))
    check_unmasked(y=y)
    targets: NDArray[Any] = column_or_1d(y)
    check_consistent_length(rows, targets)
    return targets


# ---- What is known of each row besides -----------------------------------------------


def check_weights(sample_weight: Any, X: Any) -> Array:
    """Frequency weights (n,) of the rows of X, ones for None.

    Raises
    ------
    ValueError
        For negative weights, or none that is positive.

    Warns
    -----
    DataWarning
        If weights of many rows sum to about one.
    """
    check_unmasked(sample_weight=sample_weight)
    weights: Array = _check_sample_weight(
        sample_weight,
        X,
        dtype=np.float64,
        ensure_non_negative=True,
    )
    if not np.any(weights > 0.0):
        raise ValueError("sample_weight must have at least one positive weight.")
    total, counted = float(weights.sum()), int(np.sum(weights > 0.0))
    if counted >= 10 and total < 2.0:
        warn(
            f"sample_weight are frequencies: those of {counted} rows sum to {total:g}, "
            "and count as so many rows in all, so that the prior outweighs the data. "
            "Scale them to a mean of one: sample_weight / sample_weight.mean(). "
            "AdaBoostClassifier always passes shares: use bagging instead.",
            DataWarning,
        )
    return weights


_LIKELIHOODS = {
    "exposure": "counts and amounts, such as likelihood=Poisson()",
    "noise_variance": "normal and Student noise, Gaussian() and StudentT()",
    "censoring": "censored targets, Tobit() and LogNormal()",
}


def row_quantity(likelihood: Likelihood, n_rows: int, **given: Any) -> Array | None:
    """What is given of each row, an array (n,); None if nothing is.

    Parameters
    ----------
    likelihood : Likelihood
    n_rows : int
    **given : array-like of shape (n,), float or None
        By name. A number stands for all rows.

    Raises
    ------
    ValueError
        If the likelihood has no such quantity, if the shape is wrong, or if a number is
        not positive and finite (a noise may be zero; for censoring -1, 0 or 1).
    """
    given = {name: values for name, values in given.items() if values is not None}
    for name in given:
        if name != likelihood.row_quantity:
            which = _LIKELIHOODS[name]
            raise ValueError(f"{name} of rows is for {which}; got {likelihood!r}.")
    if not given:
        return None
    [(name, values)] = given.items()
    array = np.asarray(values, dtype=np.float64)
    possible, expected = array >= 1.0 / LARGEST, "positive and finite"
    if name == "noise_variance":
        possible, expected = possible | (array == 0.0), "not negative, and finite"
    if name == "censoring":
        possible = np.isin(array, (-1.0, 0.0, 1.0))
        expected = "1 (y is a lower bound), -1 (an upper bound) or 0 (observed)"
    allowed = np.all(possible & (array <= LARGEST))
    if array.shape not in ((), (n_rows,)) or not allowed:
        raise ValueError(
            f"{name} must be {expected}, a number or an array of shape "
            f"({n_rows},), one for each row of X; got shape {array.shape}, between "
            f"{np.min(array):g} and {np.max(array):g}. Drop the rows for which it is "
            "unknown."
        )
    return np.ascontiguousarray(np.broadcast_to(array, (n_rows,)))


def known_noise(
    noise_variance: Array | None,
    y: Array,
    weights: Array,
    parameter: Any,
    kernel: Any,
) -> KnownNoise | None:
    """Noise variances of rows (n,), unless the estimator has a noise of its own.

    A row without noise gets the least that would be learned, 1e-8 of the variance of y,
    or that of another row, if it is less: double precision needs some.

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
    white = kernel is not None and split_noise(kernel)[1] is not None
    if parameter is not None or white:
        other = "a WhiteKernel" if white else f"a noise of its own ({parameter:g})"
        raise ValueError(
            f"fit was given the noise_variance of each row, and the model has {other}: "
            "give only one of them. The variances of the rows are their total noise."
        )
    noisy = noise_variance > 0.0
    least = variance_start(y, weights)[1]
    least = min(least, float(np.min(noise_variance[noisy], initial=np.inf)))
    return KnownNoise.of(np.where(noisy, noise_variance, least), weights)


class Units(NamedTuple):
    """Units of y: ``y = shift + scale * standardised``.

    Attributes
    ----------
    shift, scale : float or ndarray of shape (t,)
    new_row_variance : float or None
        Variance of the noise at a new row, in squared units of y, where the noise of
        each row is known; otherwise None.
    """

    shift: float | Array = 0.0
    scale: float | Array = 1.0
    new_row_variance: float | None = None

    def standardised(self, y: Array) -> Array:
        """Targets in standardised units."""
        return np.asarray((y - self.shift) / self.scale)


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
        Of an earlier fit, whose shift and scale stay.

    Returns
    -------
    rows, standard : Rows
    likelihood : Likelihood
        With the noise that is known, in standardised units.
    units : Units
        A new row has the mean of the variances of the noise, if they are known.
    """
    X, y, weights, known = rows
    noise: KnownNoise | None = None
    if isinstance(likelihood, NoiseOfRows):
        noise = known_noise(known, y, weights, likelihood.noise_parameter, kernel)
    if noise is not None:
        likelihood, known = likelihood.with_noise(noise.reference), noise.relative
    canonical = canonical_rows(X, y, weights, known)
    shift, scale, _ = Units() if units is None else units
    if normalize_y and likelihood.location_scale and units is None:
        w = canonical.weights if noise is None else canonical.precisions
        shift, scale = standardisation(canonical.y, w, robust=likelihood.heavy_tailed)
        if canonical.y.ndim > 1 and likelihood.noise_parameter is not None:
            # targets of one noise in the units of y have one unit
            scale = float(np.sqrt(np.mean(scale**2)))
    units = Units(shift, scale, None if noise is None else noise.mean)
    standard = canonical._replace(y=units.standardised(canonical.y))
    likelihood = likelihood.scaled(1.0 / scale)
    return canonical, standard, likelihood, units


def relative(likelihood: Likelihood, known: Array | None) -> Array | None:
    """Noise variances in units of the likelihood's own; all else as it is."""
    if known is None or not isinstance(likelihood, NoiseOfRows):
        return known
    assert likelihood.noise_parameter is not None
    # densities of new rows without noise need some
    return np.where(known == 0.0, 1e-12, known / likelihood.noise_parameter)


# ---- Parameters ----------------------------------------------------------------------


class DefaultKernel(Columns):
    """Stands for the default kernel of the other columns, times this one."""


def kernel_of(estimator: Any, kernel: Any = None) -> Any:
    """The kernel that an estimator was given, with numbers for names of columns.

    Or another `kernel` of its columns.

    Raises
    ------
    ValueError
        If X had no column of such a name.
    """
    names = getattr(estimator, "feature_names_in_", None)

    def numbers(columns: Any) -> Any:
        if callable(columns) and names is not None:
            if getattr(estimator, "_no_rows", None) is None:
                raise ValueError(
                    "The kernel chooses columns by their types, which X has to have: "
                    "expected a DataFrame as in the first call; got an array."
                )
            columns = columns(estimator._no_rows)
        given = [columns] if isinstance(columns, str) or callable(columns) else columns
        if isinstance(given, slice) or not any(
            isinstance(c, str) or callable(c) for c in np.ravel(given)
        ):
            return columns
        known = [] if names is None else list(names)
        missing = [c for c in given if c not in known]
        if missing:
            where = f"which are {known}" if known else "which has no names of columns"
            raise ValueError(
                f"The kernel names columns {missing}, which are not among those of X, "
                f"{where}. Fit a DataFrame with these columns, or give numbers."
            )
        return [known.index(c) for c in given]

    kernel = getattr(estimator, "kernel", None) if kernel is None else kernel
    if isinstance(kernel, Kernel):
        kernel = with_resolved_columns(clone(kernel), numbers)
    return _with_categories(kernel, estimator)


def _with_categories(kernel: Any, estimator: Any) -> Any:
    """A kernel with the numbers of the categories that its columns hold, if they do."""
    sizes = getattr(estimator, "_n_categories", {})
    if not sizes:
        return kernel
    if kernel is None:
        factor = Categorical(np.full(len(sizes), 0.5), n_categories=max(sizes.values()))
        return DefaultKernel(factor, list(sizes))
    every = np.arange(estimator.n_features_in_)
    for part, columns in parts_with("n_categories", kernel, every):
        if part.n_categories is None and sizes.keys() >= set(columns.tolist()):
            part.n_categories = max(sizes[column] for column in columns)
    of_numbers = {
        int(column)
        for name in ("length_scale", "slope", "sigma_0")
        for _, columns in parts_with(name, kernel, every)
        for column in columns
    }
    if not isinstance(kernel, Kernel) or sizes.keys() & of_numbers:
        raise ValueError(
            f"Columns {list(estimator.categories_)} of X hold categories, which "
            f"kernel={kernel!r} takes for numbers. Give them a kernel of their own, as "
            "in Columns(RBF(), ...) * Columns(Categorical(), ...), leave the kernel "
            "None, or encode them by OneHotEncoder."
        )
    return kernel


def check_kernel(kernel: Any, X: Array, noise_variance: Any = None) -> None:
    """Try a kernel (or None) on the first row of X.

    Raises
    ------
    ValueError
        If its parameters are for another number of columns, or its value not finite; if
        squared distances in lengthscales leave the range of doubles; if it has a
        WhiteKernel beside a noise variance that is given.
    """
    if kernel is None:
        return
    if noise_variance is not None and split_noise(kernel)[1] is not None:
        raise ValueError(
            f"The noise is given twice: as noise_variance={noise_variance:g}, in "
            f"squared units of y, and by the WhiteKernel in kernel={kernel!r}. "
            "Remove one of them."
        )
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            value = kernel(X[:1])
    except ValueError as error:
        # kernels of the library state the remedy themselves
        lengths = "Give one lengthscale, or one for each column."
        raise ValueError(
            f"The kernel {kernel!r} does not fit X, which has {X.shape[1]} columns: "
            f"{error} {lengths if 'nisotropic' in str(error) else ''}".rstrip()
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


def check_likelihood_given(likelihood: Any) -> None:
    """Refuse what is no likelihood, None excepted, or one with impossible parameters.

    Raises
    ------
    ValueError
        With what to pass.
    """
    if likelihood is None:
        return
    if not isinstance(likelihood, Likelihood):
        is_class = isinstance(likelihood, type)
        name = f"the class {likelihood.__name__}" if is_class else repr(likelihood)
        raise ValueError(
            "likelihood must be None or a likelihood of skgpx.likelihoods (or your own "
            f"subclass of Likelihood), such as StudentT(df=4); got {name}."
        )
    likelihood.check_parameters()


def check_count(value: Any, name: str) -> int:
    """A positive integer."""
    return int(check_scalar(value, name, Integral, min_val=1))


def check_coverage(coverage: Any) -> float:
    """Probability of an interval or a set, strictly between 0 and 1."""
    inside = {"min_val": 0.0, "max_val": 1.0, "include_boundaries": "neither"}
    return float(check_scalar(coverage, "coverage", Real, **inside))


def check_levels(q: ArrayLike, name: str) -> Array:
    """Levels of quantiles, () or (k,).

    Raises
    ------
    ValueError
        Unless there are some, strictly between 0 and 1.
    """
    levels = np.asarray(q, dtype=np.float64)
    inside = np.all((levels > 0.0) & (levels < 1.0))
    if levels.ndim > 1 or not levels.size or not inside:
        raise ValueError(
            f"{name} must be one or more numbers strictly between 0 and 1; got {q!r}."
        )
    return levels


def generator(random_state: Any) -> np.random.Generator:
    """Generator for a `random_state` of scikit-learn, or one that is passed in."""
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


def row_blocks(n_rows: int, floats_per_row: int) -> Iterator[slice]:
    """Blocks of rows within scikit-learn's ``working_memory``; at least 16 rows."""
    size = int(max(16, min(working_floats() // floats_per_row, 16384)))
    for first in range(0, n_rows, size):
        yield slice(first, min(first + size, n_rows))
