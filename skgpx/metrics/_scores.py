"""Scores of predictive distributions: densities, ranked probabilities, intervals."""

from __future__ import annotations

import numpy as np

from skgpx._numerics import crps as formulas
from skgpx._prediction.distribution import Predictive
from skgpx._shell.validation import check_coverage
from skgpx._types import Array, ArrayLike, RowValues
from skgpx.metrics._targets import (
    averaged,
    broadcast_to_targets,
    checked_distribution,
    checked_targets,
    not_negative,
)

# ---- Log densities -------------------------------------------------------------------


def neg_log_predictive_density(
    y_true: ArrayLike,
    distribution: Predictive,
    *,
    sample_weight: RowValues = None,
) -> float:
    """Negative log predictive density (NLPD), smaller being better.

    Parameters
    ----------
    y_true : array-like of shape (n_rows,)
    distribution : Predictive
        Distribution of these rows: ``skgpx.predict_dist(model, X)``.
    sample_weight : array-like of shape (n_rows,), default=None
        Weights of the rows in the mean.

    Returns
    -------
    loss : float
        Mean of ``-log p(y_i | x_i, data)``, in nats; the density is in the units of y,
        and a probability for counts. Changing the units of y adds a constant.

    Notes
    -----
    The only local proper score: it depends on the density at the target alone, and
    penalises without limit a target that the distribution excludes. :func:`crps` is
    milder.

    Examples
    --------
    >>> import numpy as np
    >>> import skgpx
    >>> from skgpx.metrics import neg_log_predictive_density
    >>> X = np.linspace(0.0, 6.0, 60)[:, np.newaxis]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).standard_normal(60)
    >>> model = skgpx.PLSRegressor(n_inducing=10, random_state=0).fit(X[::2], y[::2])
    >>> distribution = model.predict_dist(X[1::2])
    >>> bool(neg_log_predictive_density(y[1::2], distribution) < -0.5)
    True
    """
    y = checked_targets(y_true)
    scores = -checked_distribution(distribution, y).log_density(y)
    return averaged(scores, sample_weight)


def gaussian_neg_log_density(
    y_true: ArrayLike,
    mean: ArrayLike,
    std: ArrayLike,
    *,
    sample_weight: RowValues = None,
) -> float:
    """Negative log density of normal distributions, smaller being better.

    Parameters
    ----------
    y_true : array-like of shape (n_rows,) or (n_rows, n_targets)
    mean : array-like of the shape of y_true
    std : array-like of the shape of y_true, or float
        Standard deviations of y, noise included; positive.
    sample_weight : array-like of shape (n_rows,), default=None
        Weights of the rows in the mean.

    Returns
    -------
    loss : float
        Mean of ``-log N(y | mean, std^2)``, in nats.

    Examples
    --------
    >>> from skgpx.metrics import gaussian_neg_log_density
    >>> round(gaussian_neg_log_density([0.0, 1.0], [0.0, 0.0], 1.0), 4)
    1.1689
    """
    y, mean, std = _checked_moments(y_true, mean, std, strictly=True)
    with np.errstate(over="ignore"):
        square = ((y - mean) / std) ** 2
    scores = 0.5 * square + np.log(std) + 0.5 * np.log(2.0 * np.pi)
    return averaged(scores, sample_weight)


def _checked_moments(
    y_true: ArrayLike,
    mean: ArrayLike,
    std: ArrayLike,
    strictly: bool = False,
) -> tuple[Array, Array, Array]:
    """Targets, means and standard deviations of one shape."""
    y = checked_targets(y_true)
    stds = broadcast_to_targets("std", std, y)
    not_negative("std", stds, strictly=strictly)
    means = broadcast_to_targets("mean", mean, y)
    return y, means, stds


# ---- Continuous ranked probability ---------------------------------------------------


def crps(
    y_true: ArrayLike,
    distribution: Predictive,
    *,
    sample_weight: RowValues = None,
) -> float:
    """Continuous ranked probability score (CRPS) of predictive distributions.

    The mean of ``∫ (P(Y <= z) - 1{y <= z})^2 dz``, in the units of y: the absolute
    error, where the distribution is a point. Smaller is better.

    Parameters
    ----------
    y_true : array-like of shape (n_rows,)
    distribution : Predictive
        Distribution of these rows: ``skgpx.predict_dist(model, X)``.
    sample_weight : array-like of shape (n_rows,), default=None
        Weights of the rows in the mean.

    Returns
    -------
    loss : float

    Notes
    -----
    In closed form for normal distributions and mixtures of few; a sum over integers for
    counts; otherwise by quadrature of the distribution function between quantiles, to
    1e-7 of the spread for distributions with one mode, and about 1e-3 for narrow modes
    far apart. ``distribution.crps(y)`` has the score of each row [1]_.

    References
    ----------
    .. [1] Gneiting and Raftery, "Strictly proper scoring rules, prediction, and
       estimation", JASA 2007.

    Examples
    --------
    >>> import numpy as np
    >>> import skgpx
    >>> from skgpx.metrics import crps
    >>> X = np.linspace(0.0, 6.0, 60)[:, np.newaxis]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).standard_normal(60)
    >>> model = skgpx.PLSRegressor(n_inducing=10, random_state=0).fit(X[::2], y[::2])
    >>> bool(crps(y[1::2], model.predict_dist(X[1::2])) < 0.1)
    True
    """
    y = checked_targets(y_true)
    scores = checked_distribution(distribution, y).crps(y)
    return averaged(scores, sample_weight)


def gaussian_crps(
    y_true: ArrayLike,
    mean: ArrayLike,
    std: ArrayLike,
    *,
    sample_weight: RowValues = None,
) -> float:
    """CRPS of normal distributions, smaller being better.

    Parameters
    ----------
    y_true : array-like of shape (n_rows,) or (n_rows, n_targets)
    mean : array-like of the shape of y_true
    std : array-like of the shape of y_true, or float
        Standard deviations of y, noise included; not negative.
    sample_weight : array-like of shape (n_rows,), default=None
        Weights of the rows in the mean.

    Returns
    -------
    loss : float
        In the units of y.

    Examples
    --------
    >>> from skgpx.metrics import gaussian_crps
    >>> round(gaussian_crps([0.0, 1.0], [0.0, 0.0], 1.0), 4)
    0.4181
    """
    y, mean, std = _checked_moments(y_true, mean, std)
    scores = formulas.normal_crps(y, mean, std)
    return averaged(scores, sample_weight)


def ensemble_crps(
    y_true: ArrayLike,
    draws: ArrayLike,
    *,
    fair: bool = False,
    sample_weight: RowValues = None,
) -> float:
    """CRPS of the empirical distribution of draws, smaller being better.

    Parameters
    ----------
    y_true : array-like of shape (n_rows,) or (n_rows, n_targets)
    draws : array-like of shape (n_rows, s) or (n_rows, n_targets, s)
        As `sample_y` returns them.
    fair : bool, default=False
        Estimate the score of the distribution that the draws come from, without bias
        whatever their number; otherwise the score of the draws as a distribution of its
        own, which is larger.
    sample_weight : array-like of shape (n_rows,), default=None
        Weights of the rows in the mean.

    Returns
    -------
    loss : float
        In the units of y.

    Raises
    ------
    ValueError
        If shapes do not agree, values are not finite, or `fair` is set with a
        single draw.

    Examples
    --------
    >>> from skgpx.metrics import ensemble_crps
    >>> round(ensemble_crps([0.0], [[-1.0, 0.0, 1.0]]), 4)
    0.2222
    """
    y = checked_targets(y_true)
    values = broadcast_to_targets("draws", draws, y, last=0)
    if fair and values.shape[-1] < 2:
        raise ValueError("fair=True needs at least two draws of each row; got one.")
    scores = formulas.ensemble_crps(y, values, fair)
    return averaged(scores, sample_weight)


# ---- Intervals -----------------------------------------------------------------------


def interval_score(
    y_true: ArrayLike,
    bounds: ArrayLike,
    *,
    coverage: float = 0.9,
    sample_weight: RowValues = None,
) -> float:
    """Score of central intervals (Winkler's): width plus a penalty for each miss.

    Parameters
    ----------
    y_true : array-like of shape (n_rows,) or (n_rows, n_targets)
    bounds : array-like of shape (n_rows, 2) or (n_rows, n_targets, 2)
        Lower and upper end, as `predict_interval` returns them.
    coverage : float, default=0.9
        Nominal probability of the intervals, in (0, 1).
    sample_weight : array-like of shape (n_rows,), default=None
        Weights of the rows in the mean.

    Returns
    -------
    loss : float
        Mean of ``width + 2 / (1 - coverage) * distance of y from the interval``, in the
        units of y; smaller is better. Proper: the central interval of the true
        distribution has the smallest expectation.

    Examples
    --------
    >>> from skgpx.metrics import interval_score
    >>> interval_score([0.0, 3.0], [[-1.0, 1.0], [-1.0, 2.0]], coverage=0.8)
    7.5
    """
    y = checked_targets(y_true)
    low, high = _checked_bounds(bounds, y)
    penalty = 2.0 / (1.0 - check_coverage(coverage))
    distance = np.maximum(low - y, 0.0) + np.maximum(y - high, 0.0)
    return averaged(high - low + penalty * distance, sample_weight)


def interval_coverage(
    y_true: ArrayLike,
    bounds: ArrayLike,
    *,
    sample_weight: RowValues = None,
) -> float:
    """Fraction of the targets inside their intervals.

    Parameters
    ----------
    y_true : array-like of shape (n_rows,) or (n_rows, n_targets)
    bounds : array-like of shape (n_rows, 2) or (n_rows, n_targets, 2)
        Lower and upper end, both inside.
    sample_weight : array-like of shape (n_rows,), default=None
        Weights of the rows in the mean.

    Returns
    -------
    fraction : float
        Its standard error for n independent rows is ``sqrt(c (1 - c) / n)``: 0.03 with
        a hundred rows at c = 0.9.

    Examples
    --------
    >>> from skgpx.metrics import interval_coverage
    >>> interval_coverage([0.0, 3.0], [[-1.0, 1.0], [-1.0, 2.0]])
    0.5
    """
    y = checked_targets(y_true)
    low, high = _checked_bounds(bounds, y)
    is_inside = (low <= y) & (y <= high)
    return averaged(is_inside.astype(np.float64), sample_weight)


def _checked_bounds(bounds: ArrayLike, y: Array) -> tuple[Array, Array]:
    """Lower and upper ends of the shape of y.

    Raises
    ------
    ValueError
        If shapes do not agree or an upper end is below its lower one.
    """
    low, high = np.moveaxis(broadcast_to_targets("bounds", bounds, y, last=2), -1, 0)
    not_negative("The width of bounds, upper less lower end,", high - low)
    return low, high
