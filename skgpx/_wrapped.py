"""Predictive laws through pipelines, searches and transformed targets."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.compose import TransformedTargetRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.pipeline import Pipeline

from skgpx._predictive_law import (
    NormalDistribution,
    Predictive,
    TransformedDistribution,
)
from skgpx._searches import best_of, is_search
from skgpx._validation import check_is_fitted

Array = NDArray[np.float64]


def predict_dist(estimator: Any, X: Any, **given: Any) -> Predictive:
    """Predictive law of y from a regressor, whatever it is wrapped in.

    Follows a Pipeline (X is transformed on the way), GridSearchCV and its relatives
    (`best_estimator_`), TransformedTargetRegressor (the law is transformed back) and
    FrozenEstimator, nested in any order, to a regressor of this library or a
    GaussianProcessRegressor, whose law is normal.

    Parameters
    ----------
    estimator : estimator
        Fitted.
    X : array-like of shape (n_rows, n_features)
        As for `estimator.predict`.
    **given : array-like of shape (n_rows,)
        Keywords of the regressor's `predict_dist`: `exposure`, `noise_variance`.

    Returns
    -------
    law : Predictive
        With the methods `mean`, `std`, `quantile`, `interval`, `cdf`, `log_density` and
        `sample`; computed when asked for.

    Raises
    ------
    ValueError
        If there is no regressor with a predictive law inside, or a search did not
        refit.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from sklearn.model_selection import GridSearchCV
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> import skgpx
    >>> X = np.linspace(0.0, 600.0, 60)[:, np.newaxis]
    >>> y = np.sin(X[:, 0] / 100.0)
    >>> model = skgpx.PLSRegressor(RBF(0.5), optimizer=None, random_state=0)
    >>> pipeline = make_pipeline(StandardScaler(), model)
    >>> grid = {"plsregressor__n_inducing": [5, 20]}
    >>> search = GridSearchCV(pipeline, grid, cv=3).fit(X, y)
    >>> law = skgpx.predict_dist(search, [[150.0], [300.0]])
    >>> law.interval(0.9).shape
    (2, 2)
    """
    if isinstance(estimator, Pipeline):
        check_is_fitted(estimator)
        inner = estimator[:-1].transform(X) if len(estimator) > 1 else X
        return predict_dist(estimator[-1], inner, **given)
    if isinstance(estimator, FrozenEstimator):
        return predict_dist(estimator.estimator, X, **given)
    if isinstance(estimator, TransformedTargetRegressor):
        return _transformed_back(estimator, X, given)
    if is_search(estimator):
        return predict_dist(best_of(estimator), X, **given)
    if hasattr(estimator, "predict_dist"):
        law: Predictive = estimator.predict_dist(X, **given)
        return law
    if isinstance(estimator, GaussianProcessRegressor) and not given:
        check_is_fitted(estimator)
        return NormalDistribution(estimator, X)
    raise ValueError(
        "predict_dist expects a fitted regressor of skgpx or a "
        "GaussianProcessRegressor, or a Pipeline, search, TransformedTargetRegressor "
        f"or FrozenEstimator around one; got {estimator!r}"
        f"{' with ' + ', '.join(given) if given else ''}. Classifiers have "
        "predict_proba."
    )


def _transformed_back(
    estimator: TransformedTargetRegressor, X: Any, given: dict[str, Any]
) -> Predictive:
    check_is_fitted(estimator)
    law = predict_dist(estimator.regressor_, X, **given)
    transformer = estimator.transformer_

    def forward(y: Array) -> Array:
        return np.ravel(transformer.transform(y[:, np.newaxis]))

    def inverse(z: Array) -> Array:
        return np.ravel(transformer.inverse_transform(z[:, np.newaxis]))

    return TransformedDistribution(law, forward, inverse)
