"""Continuous ranked probability scores."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skgpx._numerics import crps as formulas
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


def crps(
    y_true: ArrayLike, law: Predictive, *, sample_weight: ArrayLike | None = None
) -> float:
    """Continuous ranked probability score (CRPS) of predictive laws.

    The mean of ``∫ (P(Y <= z) - 1{y <= z})^2 dz``, in the units of y: the absolute
    error, where the law is a point. Smaller is better.

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

    Notes
    -----
    In closed form for normal laws and mixtures of few; a sum over integers for counts;
    otherwise by quadrature of the distribution function between quantiles, to 1e-7 of
    the spread for laws with one mode, and about 1e-3 for narrow modes far apart.
    ``law.crps(y)`` has the score of each row [1]_.

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
    return float(averaged(checked_law(law, y).crps(y), sample_weight))


def gaussian_crps(
    y_true: ArrayLike,
    mean: ArrayLike,
    std: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    multioutput: str | ArrayLike = "uniform_average",
) -> float | Array:
    """CRPS of normal laws, smaller being better.

    Parameters
    ----------
    y_true : array-like of shape (n_rows,) or (n_rows, n_targets)
    mean : array-like of the shape of y_true
    std : array-like of the shape of y_true, or float
        Standard deviations of y, noise included; not negative.
    sample_weight : array-like of shape (n_rows,), default=None
        Weights of the rows in the mean.
    multioutput : str or array-like of shape (n_targets,), default="uniform_average"
        "raw_values" returns the score of each target; an array weights them.

    Returns
    -------
    loss : float, or ndarray of shape (n_targets,)
        In the units of y.

    Examples
    --------
    >>> from skgpx.metrics import gaussian_crps
    >>> round(gaussian_crps([0.0, 1.0], [0.0, 0.0], 1.0), 4)
    0.4181
    """
    y = checked_targets(y_true)
    middle = beside("mean", mean, y)
    spread = not_negative("std", beside("std", std, y))
    scores = formulas.normal_crps(y, middle, spread)
    return averaged(scores, sample_weight, multioutput)


def mixture_crps(
    y_true: ArrayLike,
    mean: ArrayLike,
    std: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    sample_weight: ArrayLike | None = None,
    multioutput: str | ArrayLike = "uniform_average",
) -> float | Array:
    """CRPS of normal mixtures in closed form, smaller being better.

    Parameters
    ----------
    y_true : array-like of shape (n_rows,) or (n_rows, n_targets)
    mean : array-like of shape (n_rows, s) or (n_rows, n_targets, s)
        Of the s components of each law.
    std : array-like of the shape of mean
        Not negative.
    weights : array-like of shape (s,) or the shape of mean, default=None
        Of the components, summing to one; None for equal ones.
    sample_weight : array-like of shape (n_rows,), default=None
        Weights of the rows in the mean.
    multioutput : str or array-like of shape (n_targets,), default="uniform_average"
        "raw_values" returns the score of each target; an array weights them.

    Returns
    -------
    loss : float, or ndarray of shape (n_targets,)
        In the units of y.

    Notes
    -----
    O(s^2) a row.

    Examples
    --------
    >>> from skgpx.metrics import mixture_crps
    >>> round(mixture_crps([0.0], [[-1.0, 1.0]], [[1.0, 1.0]]), 4)
    0.3594
    """
    y = checked_targets(y_true)
    middle = beside("mean", mean, y, last=0)
    spread = not_negative("std", beside("std", std, y, last=middle.shape[-1]))
    share = mixture_shares(weights, middle)
    scores = formulas.mixture_crps(y, middle, spread, share)
    return averaged(scores, sample_weight, multioutput)


def ensemble_crps(
    y_true: ArrayLike,
    draws: ArrayLike,
    *,
    fair: bool = False,
    sample_weight: ArrayLike | None = None,
    multioutput: str | ArrayLike = "uniform_average",
) -> float | Array:
    """CRPS of the empirical law of draws, smaller being better.

    Parameters
    ----------
    y_true : array-like of shape (n_rows,) or (n_rows, n_targets)
    draws : array-like of shape (n_rows, s) or (n_rows, n_targets, s)
        As `sample_y` returns them.
    fair : bool, default=False
        Estimate the score of the law that the draws come from, without bias whatever
        their number; otherwise that of the draws as a law of its own, which is larger.
    sample_weight : array-like of shape (n_rows,), default=None
        Weights of the rows in the mean.
    multioutput : str or array-like of shape (n_targets,), default="uniform_average"
        "raw_values" returns the score of each target; an array weights them.

    Returns
    -------
    loss : float, or ndarray of shape (n_targets,)
        In the units of y.

    Raises
    ------
    ValueError
        If shapes do not agree, values are not finite, or `fair` is asked for with a
        single draw.

    Examples
    --------
    >>> from skgpx.metrics import ensemble_crps
    >>> round(ensemble_crps([0.0], [[-1.0, 0.0, 1.0]]), 4)
    0.2222
    """
    y = checked_targets(y_true)
    values: Any = beside("draws", draws, y, last=0)
    if fair and values.shape[-1] < 2:
        raise ValueError("fair=True needs at least two draws of each row; got one.")
    return averaged(formulas.ensemble_crps(y, values, fair), sample_weight, multioutput)
