"""The door: checks what users pass in; imports scikit-learn's private names."""

from __future__ import annotations

import copy
import reprlib
from collections.abc import Callable, Iterator, Sized
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.base import BaseEstimator, _fit_context
from sklearn.utils import _safe_indexing, check_random_state
from sklearn.utils._param_validation import HasMethods, Hidden, Interval, StrOptions
from sklearn.utils.validation import (
    _check_sample_weight,
    check_is_fitted,
)
from sklearn.utils.validation import validate_data as _validate_data

from skgpx._arguments import (
    check_columns,
    check_count,
    check_coverage,
    check_points,
    check_range,
    check_table,
)
from skgpx._numerics.rows import distinct_rows
from skgpx._numerics.spread import LARGEST, mean_and_spread
from skgpx.exceptions import DataWarning, warn
from skgpx.kernels import split_noise
from skgpx.likelihoods import Likelihood
from skgpx.likelihoods._scales import weighted_quartiles

__all__ = [
    "HasMethods",
    "Hidden",
    "Interval",
    "Rows",
    "StrOptions",
    "canonical_rows",
    "check_X",
    "check_columns",
    "check_count",
    "check_coverage",
    "check_is_fitted",
    "check_kernel",
    "check_likelihood_given",
    "check_points",
    "check_range",
    "check_rows",
    "check_table",
    "check_weights",
    "copy_to_merge",
    "fit_context",
    "generator",
    "row_blocks",
    "rows_of",
    "standardisation",
    "validate_data",
    "warn",
    "working_floats",
]

Array = NDArray[np.float64]

_Method = TypeVar("_Method", bound=Callable[..., Any])


def fit_context(*, prefer_skip_nested_validation: bool) -> Callable[[_Method], _Method]:
    """scikit-learn's decorator of `fit`, which keeps the type of what it decorates."""
    decorator: Callable[[_Method], _Method] = _fit_context(
        prefer_skip_nested_validation=prefer_skip_nested_validation
    )
    return decorator


# A sum of the weights of so many rows that is less is one of shares, not frequencies.
_SHARES, _MANY = 2.0, 10


class Rows(NamedTuple):
    """Training data.

    Attributes
    ----------
    X : ndarray of shape (n, d)
    y : ndarray of shape (n,)
    weights : ndarray of shape (n,)
        Frequency weights, positive.
    known : ndarray of shape (n,) or None
        What is known of each row besides: its exposure, or the variance of its noise in
        units of the likelihood's own; see `Likelihood.row_quantity`.
    """

    X: Array
    y: Array
    weights: Array
    known: Array | None = None

    def take(self, chosen: Any) -> Rows:
        """Some of the rows."""
        known = None if self.known is None else self.known[chosen]
        return Rows(self.X[chosen], self.y[chosen], self.weights[chosen], known)

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

    Without `reset` X must have the columns of an earlier call.

    Raises
    ------
    ValueError
        For NaN or infinity, wrong shapes or sparse data; dates; numbers beyond 1e120
        or all below 1e-120; a y that is not numeric but should be; negative weights, or
        none that is positive.
    """
    check_columns(X, y if numeric else None)
    X, y = validate_data(
        estimator, X, y, dtype=np.float64, order="C", y_numeric=numeric, reset=reset
    )
    _count_rows(estimator, len(X), reset)
    check_range("X", X)
    if numeric:
        y = np.asarray(y, dtype=np.float64)
        check_range("y", y)
    return X, y, check_weights(sample_weight, X)


def validate_data(estimator: BaseEstimator, *given: Any, **options: Any) -> Any:
    """scikit-learn's function of this name; errors say what to do with X.

    Raises
    ------
    ValueError
        For NaN or infinity, wrong shapes, text, or sparse data.
    """
    try:
        return _validate_data(estimator, *given, **options)
    except ValueError as error:
        name = type(estimator).__name__
        if "could not convert string" in str(error):
            raise ValueError(
                f"X must be numeric; got text or categories ({error}). Encode them "
                f"before: make_pipeline(OneHotEncoder(), {name}()), or by column with "
                "make_column_transformer."
            ) from None
        if "X contains NaN" not in str(error):
            raise
        raise ValueError(
            "X contains NaN, a missing value. Fill them in, and say where they were: "
            f"make_pipeline(SimpleImputer(add_indicator=True), {name}())."
        ) from None


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
    if sample_weight is None:
        return np.ones(len(X))
    try:
        weights: Array = _check_sample_weight(sample_weight, X, dtype=np.float64)
    except TypeError as error:
        raise _no_weights(sample_weight) from error
    except ValueError as error:
        if "convert" not in str(error):
            raise
        raise _no_weights(sample_weight) from error
    if np.any(weights < 0.0) or not np.any(weights > 0.0):
        raise ValueError(
            "sample_weight must be non-negative with at least one positive weight; "
            f"got weights between {weights.min():g} and {weights.max():g}."
        )
    _warn_of_shares(weights)
    return weights


def _warn_of_shares(weights: Array) -> None:
    """Say so if weights are meant as shares, of which priors make next to nothing."""
    total, counted = float(weights.sum()), int(np.sum(weights > 0.0))
    if total < _SHARES and counted >= _MANY:
        warn(
            f"sample_weight are frequencies: those of {counted} rows sum to {total:g}, "
            "and count as so many rows in all, so that the prior outweighs the data. "
            "Scale them to a mean of one: sample_weight / sample_weight.mean(). "
            "AdaBoostClassifier always passes shares: use bagging instead.",
            DataWarning,
        )


def _no_weights(given: Any) -> ValueError:
    return ValueError(
        "sample_weight must be None or one number for each row; got "
        f"{reprlib.repr(given)}."
    )


def _count_rows(estimator: Any, n: int, reset: bool) -> None:
    """Remember the number of rows seen, for reports."""
    seen = 0 if reset else getattr(estimator, "_n_rows", 0)
    estimator._n_rows = seen + n


def copy_to_merge(estimator: Any) -> Any:
    """Shallow copy of a model that will be of other rows too, some perhaps the same."""
    merged = copy.copy(estimator)
    vars(merged).pop("_n_rows", None)
    return merged


def canonical_rows(
    X: Array, y: Array, weights: Array, known: Array | None = None
) -> Rows:
    """Rows in lexicographic order, equal ones merged, those of weight zero dropped.

    All later sums then take the same numbers in the same order, whatever the order of
    the rows, and whether repetitions were given as rows or as weights. O(n d log n).
    """
    columns = (X, y) if known is None else (X, y, known)
    positions, totals = distinct_rows(np.column_stack(columns), weights)
    found = Rows(X, y, weights, known).take(positions)
    return found._replace(X=np.ascontiguousarray(found.X), weights=totals)


def standardisation(
    y: Array, weights: Array, *, robust: bool = False
) -> tuple[float, float]:
    """Weighted mean and standard deviation of y; 1 for a constant y.

    If `robust`, the median and the standard deviation of a normal law with the same
    quartiles, unless half of the targets are equal.
    """
    if robust:
        low, middle, high = weighted_quartiles(y, weights)
        if high - low > 1e-14 * max(abs(low), abs(high)):
            return middle, (high - low) / 1.349
    mean, std = mean_and_spread(y, weights, 1e-14)
    return float(mean), float(std)


def check_X(estimator: BaseEstimator, X: Any) -> Array:
    """Check the rows to predict: float64 (n, d), the columns of `fit`."""
    check_is_fitted(estimator)
    check_columns(X)
    checked: Array = validate_data(
        estimator, X, dtype=np.float64, order="C", reset=False
    )
    largest = max(checked.max(initial=0.0), -checked.min(initial=0.0))
    if largest > LARGEST:
        raise ValueError(f"X must be at most {LARGEST:g} in size; got {largest:g}.")
    return checked


def check_kernel(kernel: Any, X: Array, noise_variance: Any = None) -> None:
    """Try a kernel (or None) on the first row of X.

    Raises
    ------
    ValueError
        If its parameters are for another number of columns, or its value not finite;
        if it has a WhiteKernel beside a noise variance that is given.
    """
    if kernel is None:
        return
    if noise_variance is not None and split_noise(kernel)[1] is not None:
        raise ValueError(
            f"The noise is given twice: as noise_variance={noise_variance:g}, in "
            f"squared units of y, and by the WhiteKernel in kernel={kernel!r}. "
            "Remove one of them."
        )
    advice = "Give one lengthscale, or one for each column; all finite and positive."
    try:
        value = kernel(X[:1])
    except ValueError as error:
        raise ValueError(
            f"The kernel {kernel!r} does not fit X, which has {X.shape[1]} columns: "
            f"{error} {advice}"
        ) from error
    if np.ndim(value) != 2:
        raise ValueError(
            f"The kernel {kernel!r} gives an array of shape {np.shape(value)} where a "
            "matrix is expected: a CompoundKernel is several kernels. Add or multiply "
            "them instead."
        )
    if not np.all(np.isfinite(value)):
        raise ValueError(f"The kernel {kernel!r} is not finite at the data. {advice}")


def check_likelihood_given(likelihood: Any) -> None:
    """Refuse what is no likelihood, None excepted, or one with impossible parameters.

    Raises
    ------
    ValueError
        That says what to pass.
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


def generator(random_state: Any) -> np.random.Generator:
    """Generator for a `random_state` of scikit-learn, or one that is passed in."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    if random_state is None:
        # does not touch NumPy's global generator
        return np.random.default_rng()
    if isinstance(random_state, int | np.integer):
        return np.random.default_rng(int(random_state))
    seeds = check_random_state(random_state).randint(2**31 - 1, size=4)
    return np.random.default_rng(seeds)


def working_floats() -> int:
    """Numbers that fit into scikit-learn's ``working_memory``."""
    return int(get_config()["working_memory"] * 2**20) // 8


def row_blocks(n_rows: int, floats_per_row: int) -> Iterator[slice]:
    """Blocks of rows within scikit-learn's ``working_memory``; at least 16 rows."""
    size = int(max(16, min(working_floats() // floats_per_row, 16384)))
    for first in range(0, n_rows, size):
        yield slice(first, min(first + size, n_rows))


def check_some_folds(cv: Any) -> None:
    """Refuse a list of folds that is empty.

    Raises
    ------
    ValueError
        If there are none.
    """
    if isinstance(cv, Sized) and not len(cv):
        raise ValueError(
            "cv must have at least one fold; got none. Pass a number of folds, a "
            "splitter, or a list of (train, test) that is not empty."
        )


def rows_of(table: Any, rows: NDArray[np.intp]) -> Any:
    """Some rows of an array, a list, a data frame or an Arrow table."""
    if hasattr(table, "schema") and not hasattr(table, "dtypes"):
        # scikit-learn 1.6 does not know Arrow
        return table.take(rows)
    return _safe_indexing(table, rows)
