"""Scores of prediction intervals."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skgpx._validation import check_coverage
from skgpx.metrics._targets import (
    averaged,
    beside,
    checked_targets,
    not_negative,
)

Array = NDArray[np.float64]


def interval_score(
    y_true: ArrayLike,
    bounds: ArrayLike,
    *,
    coverage: float = 0.9,
    sample_weight: ArrayLike | None = None,
    multioutput: str | ArrayLike = "uniform_average",
) -> float | Array:
    """Score of central intervals (Winkler's): width plus a price for each miss.

    Parameters
    ----------
    y_true : array-like of shape (n_rows,) or (n_rows, n_targets)
    bounds : array-like of shape (n_rows, 2) or (n_rows, n_targets, 2)
        Lower and upper end, as `predict_interval` returns them.
    coverage : float, default=0.9
        Probability that the intervals claim, in (0, 1).
    sample_weight : array-like of shape (n_rows,), default=None
        Weights of the rows in the mean.
    multioutput : str or array-like of shape (n_targets,), default="uniform_average"
        "raw_values" returns the score of each target; an array weights them.

    Returns
    -------
    loss : float, or ndarray of shape (n_targets,)
        Mean of ``width + 2 / (1 - coverage) * distance of y from the interval``, in the
        units of y; smaller is better. Proper: the central interval of the true law has
        the smallest expectation.

    Examples
    --------
    >>> from skgpx.metrics import interval_score
    >>> interval_score([0.0, 3.0], [[-1.0, 1.0], [-1.0, 2.0]], coverage=0.8)
    7.5
    """
    y = checked_targets(y_true)
    low, high = _ends(bounds, y)
    price = 2.0 / (1.0 - check_coverage(coverage))
    outside = np.maximum(low - y, 0.0) + np.maximum(y - high, 0.0)
    return averaged(high - low + price * outside, sample_weight, multioutput)


def interval_coverage(
    y_true: ArrayLike,
    bounds: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    multioutput: str | ArrayLike = "uniform_average",
) -> float | Array:
    """Fraction of the targets inside their intervals.

    Parameters
    ----------
    y_true : array-like of shape (n_rows,) or (n_rows, n_targets)
    bounds : array-like of shape (n_rows, 2) or (n_rows, n_targets, 2)
        Lower and upper end, both inside.
    sample_weight : array-like of shape (n_rows,), default=None
        Weights of the rows in the mean.
    multioutput : str or array-like of shape (n_targets,), default="uniform_average"
        "raw_values" returns the fraction of each target; an array weights them.

    Returns
    -------
    fraction : float, or ndarray of shape (n_targets,)
        Of n independent rows, its standard error is ``sqrt(c (1 - c) / n)``: 0.03 with
        a hundred rows at c = 0.9.

    Examples
    --------
    >>> from skgpx.metrics import interval_coverage
    >>> interval_coverage([0.0, 3.0], [[-1.0, 1.0], [-1.0, 2.0]])
    0.5
    """
    y = checked_targets(y_true)
    low, high = _ends(bounds, y)
    inside = (low <= y) & (y <= high)
    return averaged(inside.astype(np.float64), sample_weight, multioutput)


def interval_width(
    bounds: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    multioutput: str | ArrayLike = "uniform_average",
) -> float | Array:
    """Mean width of intervals.

    Parameters
    ----------
    bounds : array-like of shape (n_rows, 2) or (n_rows, n_targets, 2)
        Lower and upper end.
    sample_weight : array-like of shape (n_rows,), default=None
        Weights of the rows in the mean.
    multioutput : str or array-like of shape (n_targets,), default="uniform_average"
        "raw_values" returns the width of each target; an array weights them.

    Returns
    -------
    width : float, or ndarray of shape (n_targets,)
        In the units of y. Of two models with the same coverage, the one with the
        narrower intervals is sharper.

    Examples
    --------
    >>> from skgpx.metrics import interval_width
    >>> interval_width([[-1.0, 1.0], [-1.0, 2.0]])
    2.5
    """
    array = np.asarray(bounds, dtype=np.float64)
    middle = array[..., 0] if array.ndim > 1 and array.shape[-1] == 2 else array
    low, high = _ends(array, middle)
    return averaged(high - low, sample_weight, multioutput)


def _ends(bounds: ArrayLike, y: Array) -> tuple[Array, Array]:
    """Lower and upper ends.

    Raises
    ------
    ValueError
        If shapes do not agree or an upper end is below its lower one.
    """
    low, high = np.moveaxis(beside("bounds", bounds, y, last=2), -1, 0)
    not_negative("The width of bounds, upper less lower end,", high - low)
    return low, high
