"""Which estimators functions can be drawn from."""

from __future__ import annotations

from typing import Any

from sklearn.base import BaseEstimator, is_classifier
from sklearn.gaussian_process import GaussianProcessRegressor

from skgpx._decoupled._sparse_process import SparseProcess
from skgpx._searches import is_search


def check_drawable(estimator: Any) -> None:
    """Refuse estimators that functions cannot be drawn from.

    Raises
    ------
    ValueError
        With a message that says what to do instead.
    """
    if isinstance(estimator, GaussianProcessRegressor | SparseProcess):
        return
    if is_search(estimator):
        check_drawable(estimator.estimator)
        return
    if isinstance(estimator, type):
        raise ValueError(
            f"DecoupledSampler expects an estimator; got the class "
            f"{estimator.__name__}. Call it: {estimator.__name__}()."
        )
    expected = (
        "DecoupledSampler expects a GaussianProcessRegressor, or a regressor with a "
        f"method sample_functions; got {estimator!r}. "
    )
    if hasattr(estimator, "steps"):
        raise ValueError(
            f"{expected}Put the sampler inside the pipeline, as its last step: "
            "make_pipeline(scaler, DecoupledSampler(regressor))."
        )
    if isinstance(estimator, BaseEstimator) and is_classifier(estimator):
        raise ValueError(
            f"{expected}PLSClassifier draws functions itself: sample_functions."
        )
    if not hasattr(estimator, "sample_functions"):
        raise ValueError(
            f"{expected}For a sparse model of another library see "
            "DecoupledSampler.from_inducing."
        )
