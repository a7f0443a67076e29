"""Negative log predictive densities."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp

from skgpx._predictive_distribution import Predictive
from skgpx.metrics._targets import (
    averaged,
    beside,
    checked_law,
    checked_targets,
    mixture_shares,
    not_negative,
)

Array = NDArray[np.float64]


def neg_log_predictive_density(
    y_true: ArrayLike, law: Predictive, *, sample_weight: ArrayLike | None = None
) -> float:
    """Negative log predictive density (NLPD), smaller being better.

    Parameters
    ----------
    y_true : array-like of shape (n_rows,)
    law : Predictive
        Of these rows: ``skgpx.predict_dist(model, X)``.
    sample_weight : array-like of shape (n_rows,), default=None
        Weights of the rows in the mean.

    Returns
    -------
    loss : float
        Mean of ``-log p(y_i | x_i, data)``, in nats; the density is in the units of y,
        that of counts is a probability. Changing the units of y adds a constant.

    Notes
    -----
    The only local proper score: it depends on the density at the target alone, and
    punishes a target that was thought impossible without limit. :func:`crps` is
    milder.

    Examples
    --------
    >>> import numpy as np
    >>> import skgpx
    >>> from skgpx.metrics import neg_log_predictive_density
    >>> X = np.linspace(0.0, 6.0, 60)[:, np.newaxis]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).standard_normal(60)
    >>> model = skgpx.PLSRegressor(n_inducing=10, random_state=0).fit(X[::2], y[::2])
    >>> law = model.predict_dist(X[1::2])
    >>> bool(neg_log_predictive_density(y[1::2], law) < -0.5)
    True
    """
    y = checked_targets(y_true)
    return float(averaged(-checked_law(law, y).log_density(y), sample_weight))


def gaussian_neg_log_density(
    y_true: ArrayLike,
    mean: ArrayLike,
    std: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    multioutput: str | ArrayLike = "uniform_average",
) -> float | Array:
    """Negative log density of normal laws, smaller being better.

    Parameters
    ----------
    y_true : array-like of shape (n_rows,) or (n_rows, n_targets)
    mean : array-like of the shape of y_true
    std : array-like of the shape of y_true, or float
        Standard deviations of y, noise included; positive.
    sample_weight : array-like of shape (n_rows,), default=None
        Weights of the rows in the mean.
    multioutput : str or array-like of shape (n_targets,), default="uniform_average"
        "raw_values" returns the loss of each target; an array weights them.

    Returns
    -------
    loss : float, or ndarray of shape (n_targets,)
        Mean of ``-log N(y | mean, std^2)``, in nats.

    Examples
    --------
    >>> from skgpx.metrics import gaussian_neg_log_density
    >>> round(gaussian_neg_log_density([0.0, 1.0], [0.0, 0.0], 1.0), 4)
    1.1689
    """
    y = checked_targets(y_true)
    middle = beside("mean", mean, y)
    spread = not_negative("std", beside("std", std, y), strictly=True)
    with np.errstate(over="ignore"):
        square = ((y - middle) / spread) ** 2
    scores = 0.5 * square + np.log(spread) + 0.5 * np.log(2.0 * np.pi)
    return averaged(scores, sample_weight, multioutput)


def mixture_neg_log_density(
    y_true: ArrayLike,
    mean: ArrayLike,
    std: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    sample_weight: ArrayLike | None = None,
    multioutput: str | ArrayLike = "uniform_average",
) -> float | Array:
    """Negative log density of normal mixtures, smaller being better.

    Parameters
    ----------
    y_true : array-like of shape (n_rows,) or (n_rows, n_targets)
    mean : array-like of shape (n_rows, s) or (n_rows, n_targets, s)
        Of the s components of each law.
    std : array-like of the shape of mean
        Positive.
    weights : array-like of shape (s,) or the shape of mean, default=None
        Of the components, summing to one; None for equal ones.
    sample_weight : array-like of shape (n_rows,), default=None
        Weights of the rows in the mean.
    multioutput : str or array-like of shape (n_targets,), default="uniform_average"
        "raw_values" returns the loss of each target; an array weights them.

    Returns
    -------
    loss : float, or ndarray of shape (n_targets,)
        In nats.

    Examples
    --------
    >>> from skgpx.metrics import mixture_neg_log_density
    >>> round(mixture_neg_log_density([0.0], [[-1.0, 1.0]], [[1.0, 1.0]]), 4)
    1.4189
    """
    y = checked_targets(y_true)
    middle = beside("mean", mean, y, last=0)
    spread = beside("std", std, y, last=middle.shape[-1])
    spread = not_negative("std", spread, strictly=True)
    share = mixture_shares(weights, middle)
    square = ((y[..., np.newaxis] - middle) / spread) ** 2
    log_heights = -0.5 * square - np.log(spread) - 0.5 * np.log(2.0 * np.pi)
    scores = -logsumexp(log_heights, axis=-1, b=share)
    return averaged(scores, sample_weight, multioutput)
