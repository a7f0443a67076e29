"""Calibration of predictions: PIT values, coverage, calibration errors."""

from __future__ import annotations

import numpy as np

from skgpx._prediction.distribution import Predictive
from skgpx._shell.validation import check_coverage, generator
from skgpx._types import Array, ArrayLike, RandomState, RowValues
from skgpx.metrics._scores import interval_coverage
from skgpx.metrics._targets import (
    checked_distribution,
    checked_targets,
    checked_weights,
)


def pit_values(
    y_true: ArrayLike,
    distribution: Predictive,
    *,
    random_state: RandomState = None,
) -> Array:
    """Probability integral transforms: targets in their predictive distributions.

    Parameters
    ----------
    y_true : array-like of shape (n_rows,)
    distribution : Predictive
        Distribution of these rows: ``skgpx.predict_dist(model, X)``.
    random_state : int, RandomState, Generator or None, default=None
        Seed for counts: values are drawn evenly between ``P(Y < y)`` and ``P(Y <= y)``.

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
    pit = distribution.cdf(y)
    if not distribution.discrete:
        return pit
    # uniform between P(Y < y) and P(Y <= y)
    below = distribution.cdf(y - 1.0)
    return below + generator(random_state).random(len(y)) * (pit - below)


def calibration_error(
    pit: ArrayLike,
    *,
    sample_weight: RowValues = None,
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
        distributions that are right it is about ``0.31 / sqrt(n)`` in the mean; smaller
        differences do not distinguish two models.

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
    steps = np.concatenate(([0.0], values[order], [1.0]))
    height = np.concatenate(([0.0], np.cumsum(weights)))
    # ∫ |h - u| du over steps of height h
    left = steps[:-1] - height
    right = steps[1:] - height
    return float(0.5 * np.sum(right * np.abs(right) - left * np.abs(left)))


def coverage_error(
    y_true: ArrayLike,
    distribution: Predictive,
    *,
    coverage: float = 0.9,
    sample_weight: RowValues = None,
) -> float:
    """Difference between the coverage of central intervals and its nominal value.

    Parameters
    ----------
    y_true : array-like of shape (n_rows,)
    distribution : Predictive
        Distribution of these rows: ``skgpx.predict_dist(model, X)``.
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
