"""What regressors and classifiers around the models of others have in common."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

from numpy.typing import ArrayLike, NDArray
from sklearn.gaussian_process.kernels import Kernel
from sklearn.utils import get_tags

from skgpx._gwi._folds import PREFIT
from skgpx._validation import (
    HasMethods,
    Interval,
    StrOptions,
    check_is_fitted,
    validate_data,
)

CONSTRAINTS: dict[str, Any] = {
    "kernel": [Kernel, None],
    "covariance": [StrOptions({"closed_form", "svgp", "bures", "empirical"})],
    "distance_weight": [Interval(Real, 0.0, None, closed="left")],
    "n_inducing": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
    "inducing": [
        StrOptions({"greedy", "k-means++", "random"}),
        "array-like",
        callable,
    ],
    "optimizer": [StrOptions({"evidence"}), None],
    "kernel_features": [HasMethods(["fit", "transform"]), None],
    "cv": ["cv_object", StrOptions({PREFIT})],
    "activation": [StrOptions({"tanh", "relu"})],
    "n_restarts": [Interval(Integral, 1, None, closed="left")],
    "alpha": [Interval(Real, 0.0, None, closed="left")],
    "learning_rate": [Interval(Real, 0.0, None, closed="neither")],
    "batch_size": [Interval(Integral, 1, None, closed="left")],
    "max_iter": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
    "validation_fraction": [Interval(Real, 0.0, 0.5, closed="both")],
    "early_stopping": ["boolean"],
    "n_jobs": [Integral, None],
    "random_state": ["random_state"],
}


class AroundOthersMixin:
    """Rows of any kind, for a `mean` that is an estimator and not the name of one."""

    mean: Any
    kernel_features: Any
    _form: Any

    def _rows_to_predict(self, X: ArrayLike) -> NDArray[Any]:
        if isinstance(self.mean, str):
            checked: NDArray[Any] = super()._rows_to_predict(X)
            return checked
        check_is_fitted(self)
        rows: NDArray[Any] = self._form.rows_of(X)
        validate_data(self, X, skip_check_array=True, reset=False)
        return rows

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if not isinstance(self.mean, str | type):
            inner = get_tags(self.mean).input_tags
            for name in ("allow_nan", "categorical", "string"):
                able = getattr(inner, name) and self.kernel_features is not None
                setattr(tags.input_tags, name, able)
        return tags
