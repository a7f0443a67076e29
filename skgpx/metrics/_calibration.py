"""How often what was predicted happens: PIT values, coverage, calibration errors."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skgpx._predictive_distribution import Predictive
from skgpx._validation import check_coverage, generator
from skgpx.metrics._scores import interval_coverage
from skgpx.metrics._targets import (
    checked_distribution,
    checked_targets,
    checked_weights,
)

Array = NDArray[np.float64]


def pit_values(
    y_true: ArrayLike, distribution: Predictive, *, random_state: Any = None
) -> Array:
    """Probability integral transforms: targets in their predictive distributions.

    Parameters
    ----------
    y_true : array-like of shape (n_rows,)
    distribution : Predictive
        Of these rows: ``skgpx.predict_dist(model, X)``.
    random_state : int, RandomState, Generator or None, default=None
        Seed for counts, whose values are drawn evenly between ``P(Y < y)`` and ``P(Y <=
        y)``; not used otherwise.

    Returns
    -------
    pit : ndarray of shape (n_rows,)
        ``P(Y <= y)``; uniform between 0 and 1 if the distributions are right. Values
        that crowd at both ends belong to distributions that are too narrow, in the
        middle to distributions that are too wide, on one side to distributions that are
        biased.

    Examples
    --------
    >>> import numpy as np
    >>> import skgpx
    >>> from skgpx.metrics import pit_values
    >>> X = np.linspace(0.0, 6.0, 60)[:, np.newaxis]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).standard_normal(60)
    >>> model = skgpx.PLSRegressor(n_inducing=10, random_state=0).fit(X, y)
    >>> pit = pit_values(y, model.predict_dist(X))
    >>> bool(0.0 <= pit.min() and pit.max() <= 1.0)
    True
    """
    y = checked_targets(y_true)
    checked_distribution(distribution, y)
    reached = distribution.cdf(y)
    if not distribution.discrete:
        return reached
    below = distribution.cdf(y - 1.0)
    return below + generator(random_state).random(len(y)) * (reached - below)


def calibration_error(
    pit: ArrayLike, *, sample_weight: ArrayLike | None = None
) -> float:
    """Distance of PIT values from the uniform distribution, smaller being better.

    Parameters
    ----------
    pit : array-like of shape (n_rows,)
        As :func:`pit_values` returns them.
    sample_weight : array-like of shape (n_rows,), default=None
        Weights of the rows.

    Returns
    -------
    error : float
        ``∫_0^1 |F(u) - u| du``, F the distribution function of the values: the area
        between the calibration curve and the diagonal, at most 1/2. Of n rows from
        distributions that are right it is about ``0.31 / sqrt(n)`` in the mean; less
        than that does not tell two models apart.

    Notes
    -----
    Not a proper score: distributions that ignore X may be calibrated. No bins are
    involved.

    Examples
    --------
    >>> from skgpx.metrics import calibration_error
    >>> calibration_error([0.125, 0.375, 0.625, 0.875])
    0.0625
    """
    values = checked_targets(pit)
    if values.ndim != 1 or np.min(values) < 0.0 or np.max(values) > 1.0:
        raise ValueError(
            "pit must have shape (n_rows,) and lie between 0 and 1; got shape "
            f"{values.shape}, from {np.min(values):g} to {np.max(values):g}."
        )
    order = np.argsort(values, kind="stable")
    weights = checked_weights(sample_weight, len(values))[order]
    ends = np.concatenate(([0.0], values[order], [1.0]))
    height = np.concatenate(([0.0], np.cumsum(weights)))
    # ∫ |h - u| du over steps on which F is h
    left, right = ends[:-1] - height, ends[1:] - height
    return float(0.5 * np.sum(right * np.abs(right) - left * np.abs(left)))


def coverage_error(
    y_true: ArrayLike,
    distribution: Predictive,
    *,
    coverage: float = 0.9,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Difference between the coverage of central intervals and what they claim.

    Parameters
    ----------
    y_true : array-like of shape (n_rows,)
    distribution : Predictive
        Of these rows: ``skgpx.predict_dist(model, X)``.
    coverage : float, default=0.9
        Probability of the intervals, in (0, 1).
    sample_weight : array-like of shape (n_rows,), default=None
        Weights of the rows.

    Returns
    -------
    error : float
        Absolute value, between 0 and 1.

    Examples
    --------
    >>> import numpy as np
    >>> import skgpx
    >>> from skgpx.metrics import coverage_error
    >>> X = np.linspace(0.0, 6.0, 60)[:, np.newaxis]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).standard_normal(60)
    >>> model = skgpx.PLSRegressor(n_inducing=10, random_state=0).fit(X, y)
    >>> bool(coverage_error(y, model.predict_dist(X), coverage=0.8) < 0.2)
    True
    """
    y = checked_targets(y_true)
    bounds = checked_distribution(distribution, y).interval(check_coverage(coverage))
    observed = interval_coverage(y, bounds, sample_weight=sample_weight)
    return float(abs(observed - coverage))


def expected_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    n_bins: int = 15,
    strategy: str = "uniform",
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Expected calibration error (ECE) of class probabilities, smaller being better.

    Parameters
    ----------
    y_true : array-like of shape (n_rows,)
        Labels.
    y_proba : array-like of shape (n_rows, n_classes) or (n_rows,)
        Probabilities of the classes, as `predict_proba` returns them: the largest of
        each row is compared with how often that class is right. Of shape (n_rows,) that
        of the second of two classes, compared with how often it occurs.
    n_bins : int, default=15
        Number of bins of probabilities.
    strategy : {"uniform", "quantile"}, default="uniform"
        Bins of equal width, or of as many rows each.
    labels : array-like of shape (n_classes,), default=None
        Classes in the order of the columns, as in `classes_`; None for the sorted
        distinct values of y_true.
    sample_weight : array-like of shape (n_rows,), default=None
        Weights of the rows.

    Returns
    -------
    error : float
        ``Σ_b share of bin b * |frequency - mean probability|``.

    Raises
    ------
    ValueError
        If shapes do not agree, or a label has no column.

    Notes
    -----
    Depends on the bins, and is larger than zero for perfect probabilities: by about
    ``sqrt(n_bins / n_rows) / 3`` where these are spread evenly.
    Compare models on the same rows with the same bins.

    Examples
    --------
    >>> from skgpx.metrics import expected_calibration_error
    >>> proba = [[0.9, 0.1], [0.9, 0.1], [0.9, 0.1], [0.2, 0.8]]
    >>> round(expected_calibration_error([0, 0, 1, 1], proba), 3)
    0.225
    """
    confidence, right = _confidence_and_success(np.asarray(y_true), y_proba, labels)
    weights = checked_weights(sample_weight, len(confidence))
    bins = _bins_of(confidence, n_bins, strategy)
    gaps = np.bincount(bins, weights * (right - confidence), minlength=1)
    return float(np.sum(np.abs(gaps)))


def _confidence_and_success(
    y: NDArray[Any], y_proba: ArrayLike, labels: ArrayLike | None
) -> tuple[Array, Array]:
    """Probability of the class that is looked at, and whether it occurred."""
    proba = np.asarray(y_proba, dtype=np.float64)
    known = np.unique(y) if labels is None else np.asarray(labels)
    columns = 2 if proba.ndim == 1 else proba.shape[-1]
    if y.ndim != 1:
        raise ValueError(
            f"y_true must have shape (n_rows,), one label a row; got {y.shape}. "
            "Pass numpy.ravel(y_true) if it is a column."
        )
    if proba.ndim not in (1, 2) or len(proba) != len(y) or not len(y):
        raise ValueError(
            f"y_proba must have {len(y)} rows, one for each label of y_true; got shape "
            f"{proba.shape}."
        )
    if not np.all((proba >= 0.0) & (proba <= 1.0)):
        raise ValueError("y_proba must lie between 0 and 1; got others, or NaN.")
    sums = proba.sum(axis=1) if proba.ndim == 2 else np.ones(1)
    if not np.allclose(sums, 1.0, rtol=0.0, atol=1e-3):
        raise ValueError(
            "The rows of y_proba must sum to one, as those of predict_proba do; got "
            f"sums between {sums.min():g} and {sums.max():g}."
        )
    if len(known) != columns or not np.all(np.isin(y, known)):
        raise ValueError(
            f"y_proba has {columns} classes, and the labels are {known.tolist()[:10]}: "
            "pass labels, one for each column, among which y_true is."
        )
    if proba.ndim == 1:
        return proba, (y == known[1]).astype(np.float64)
    best = np.argmax(proba, axis=1)
    return proba.max(axis=1), (known[best] == y).astype(np.float64)


def _bins_of(confidence: Array, n_bins: int, strategy: str) -> NDArray[np.intp]:
    """Number of the bin of each row."""
    whole = isinstance(n_bins, Integral) and not isinstance(n_bins, bool)
    if not whole or n_bins < 1 or strategy not in ("uniform", "quantile"):
        raise ValueError(
            'n_bins must be a positive integer and strategy "uniform" or "quantile"; '
            f"got {n_bins!r} and {strategy!r}."
        )
    inner = np.linspace(0.0, 1.0, n_bins + 1)[1:-1]
    edges = inner if strategy == "uniform" else np.quantile(confidence, inner)
    return np.searchsorted(edges, confidence, side="left")
