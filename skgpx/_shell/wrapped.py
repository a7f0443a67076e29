"""Estimators inside of pipelines, searches, transformed targets and freezers."""

from __future__ import annotations

from inspect import signature
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.compose import TransformedTargetRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline

from skgpx._shell.validation import check_is_fitted
from skgpx._types import ArrayLike


def is_search(estimator: BaseEstimator) -> bool:
    """Whether this is a search over the parameters of another estimator."""
    return hasattr(estimator, "estimator") and hasattr(estimator, "refit")


def best_of(fitted: BaseEstimator) -> Any:
    """The refitted best estimator of a search; any other estimator itself.

    Raises
    ------
    ValueError
        If the search did not refit.
    """
    if not is_search(fitted):
        return fitted
    check_is_fitted(fitted)
    if not hasattr(fitted, "best_estimator_"):
        raise ValueError(
            f"Predictions and draws are those of best_estimator_, which {fitted!r} "
            "does not have. Search with refit=True."
        )
    return fitted.best_estimator_


def unwrapped(estimator: BaseEstimator, X: ArrayLike) -> tuple[Any, Any]:
    """The fitted estimator inside, in any nesting, and X as it sees the rows.

    A TransformedTargetRegressor stays: its predictions are of another target.
    """
    if isinstance(estimator, Pipeline):
        check_is_fitted(estimator)
        if len(estimator) > 1:
            X = estimator[:-1].transform(X)
        return unwrapped(estimator[-1], X)
    if isinstance(estimator, FrozenEstimator):
        return unwrapped(estimator.estimator, X)
    if is_search(estimator):
        return unwrapped(best_of(estimator), X)
    return estimator, X


def innermost(estimator: BaseEstimator) -> Any:
    """The fitted estimator inside, in any nesting, also of a transformed target."""
    if isinstance(estimator, Pipeline):
        return innermost(estimator[-1])
    if isinstance(estimator, FrozenEstimator):
        return innermost(estimator.estimator)
    if isinstance(estimator, TransformedTargetRegressor):
        check_is_fitted(estimator)
        return innermost(estimator.regressor_)
    if is_search(estimator):
        return innermost(best_of(estimator))
    return estimator


def predict_keywords(estimator: BaseEstimator) -> Any:
    """Parameters of the `predict` of an estimator; none where it has no such method."""
    predict = getattr(estimator, "predict", None)
    return signature(predict).parameters if callable(predict) else {}
