"""Scorers of predictive distributions for searches and cross-validation."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn import get_config
from sklearn.base import BaseEstimator, is_classifier
from sklearn.metrics import log_loss
from sklearn.utils.metadata_routing import MetadataRequest

from skgpx._front.predict_dist import predict_dist
from skgpx._prediction.distribution import Predictive
from skgpx._shell.functionals import ROW_ARGUMENTS
from skgpx._shell.validation import codes_of_grades
from skgpx._shell.wrapped import innermost
from skgpx._types import ArrayLike, RowValues
from skgpx.metrics._calibration import calibration_error, coverage_error, pit_values
from skgpx.metrics._scores import crps, interval_score, neg_log_predictive_density

Metric = Callable[..., float]

# Quantities of the rows that a scorer may request.
_METADATA = ("sample_weight", *ROW_ARGUMENTS)


class PredictiveScorer:
    """Scorer of a metric of predictive distributions, to be passed as ``scoring=``.

    :func:`skgpx.predict_dist` gives the distribution: of any regressor of this library,
    or a regressor with `return_std` in its `predict`, in any pipeline, search or
    TransformedTargetRegressor. A regressor of several targets (MultiOutputRegressor,
    RegressorChain, GaussianProcessRegressor) is scored by the mean over them.

    Parameters
    ----------
    metric : callable
        ``metric(y_true, distribution, sample_weight=None, **options)``, a number;
        defined at module level, so that scorers can be pickled.
    greater_is_better : bool, default=False
        False for a loss. Its sign is changed: scores are larger for better models.
    class_metric : callable, default=None
        ``class_metric(y_true, y_proba, labels=..., sample_weight=None)`` for
        classifiers; None refuses them.
    **options
        Passed to the metric, such as ``coverage=0.8``.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import BayesianRidge
    >>> from sklearn.model_selection import cross_val_score
    >>> from skgpx.metrics import PredictiveScorer, crps
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((60, 2))
    >>> y = X[:, 0] + 0.1 * rng.standard_normal(60)
    >>> scores = cross_val_score(BayesianRidge(), X, y, scoring=PredictiveScorer(crps))
    >>> bool(np.all((scores < 0.0) & (scores > -0.1)))
    True
    """

    def __init__(
        self,
        metric: Metric,
        *,
        greater_is_better: bool = False,
        class_metric: Metric | None = None,
        **options: Any,
    ):
        self.metric = metric
        self.greater_is_better = greater_is_better
        self.class_metric = class_metric
        self.options = options
        self._requests: dict[str, Any] = {}

    def __call__(
        self,
        estimator: BaseEstimator,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: RowValues = None,
        **given: RowValues,
    ) -> float:
        """Score of a fitted estimator, larger being better.

        Parameters
        ----------
        estimator : estimator
            Fitted.
        X : array-like of shape (n_rows, n_features)
        y : array-like of shape (n_rows,) or (n_rows, n_targets)
        sample_weight : array-like of shape (n_rows,), default=None
            Weights of the rows in the mean.
        **given : array-like of shape (n_rows,)
            Keywords of the regressor's `predict_dist`: `exposure`, `noise_variance`,
            `censoring`, `derivative`, `widths`, `against`; the last three also of
            `predict_proba` of a classifier.

        Returns
        -------
        score : float

        Warns
        -----
        PredictionWarning
            If the regressor was fitted with exposures, and `exposure` is missing.
        """
        row_values = {
            name: values for name, values in given.items() if values is not None
        }
        if is_classifier(estimator):
            # value of the metric of classes
            if self.class_metric is None:
                raise ValueError(
                    f"{self!r} scores regressors; got {estimator!r}. For classes take "
                    'log_predictive_density_scorer, or scoring="neg_log_loss".'
                )
            value = self.class_metric(
                y,
                estimator.predict_proba(X, **row_values),
                labels=estimator.classes_,
                sample_weight=sample_weight,
            )
            value = float(value)
        else:
            value = self._of_distributions(estimator, X, y, sample_weight, row_values)
        if self.greater_is_better:
            return value
        return -value

    def set_score_request(self, **requests: bool | str | None) -> PredictiveScorer:
        """Return a copy to which metadata routing passes quantities of the rows.

        Parameters
        ----------
        **requests : bool, str or None
            ``sample_weight=True`` and so on; also `exposure`, `noise_variance`,
            `censoring`, `derivative`, `widths` and `against`. A string is another name
            of the quantity.

        Returns
        -------
        scorer : PredictiveScorer
            This scorer, which several searches may share, is left as it is.

        Raises
        ------
        RuntimeError
            If metadata routing is not enabled.
        ValueError
            For any other name.
        """
        if not get_config()["enable_metadata_routing"]:
            raise RuntimeError(
                "Scorers are passed metadata only if metadata routing is enabled: "
                "sklearn.set_config(enable_metadata_routing=True)."
            )
        unknown = set(requests) - set(_METADATA)
        if unknown:
            raise ValueError(
                f"A predictive scorer can request {', '.join(_METADATA)}; got "
                f"{', '.join(sorted(unknown))}."
            )
        scorer = copy.copy(self)
        scorer._requests = {**self._requests, **requests}
        return scorer

    def get_metadata_routing(self) -> MetadataRequest:
        """Requests of this scorer, in scikit-learn's form."""
        request = MetadataRequest(owner=repr(self))
        for name in _METADATA:
            request.score.add_request(param=name, alias=self._requests.get(name))
        return request

    def __repr__(self) -> str:
        name = getattr(self.metric, "__name__", repr(self.metric))
        arguments = [name.removeprefix("_").removesuffix("_of")]
        if self.greater_is_better:
            arguments.append("greater_is_better=True")
        arguments += [f"{key}={value!r}" for key, value in self.options.items()]
        return f"PredictiveScorer({', '.join(arguments)})"

    def _accept_sample_weight(self) -> bool:
        """Called by scikit-learn where several scorers share weights."""
        return True

    def _of_distributions(
        self,
        estimator: BaseEstimator,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: RowValues,
        row_values: dict[str, ArrayLike],
    ) -> float:
        """Value of the metric of predictive distributions, averaged over targets."""
        distribution: Any = predict_dist(estimator, X, **row_values)
        inner = innermost(estimator)
        likelihood = getattr(inner, "likelihood_", None)
        targets = np.asarray(codes_of_grades(likelihood, y))
        if hasattr(inner, "_warn_of_missing"):
            # counts over exposures would be scored as if over an exposure of one
            inner._warn_of_missing(row_values.get("exposure"))
        if isinstance(distribution, list):
            distributions = distribution
            columns = list(targets.T)
        elif targets.ndim == 1 or targets.shape[1] == 1:
            distributions = [distribution]
            columns = [np.ravel(targets)]
        else:
            raise ValueError(
                f"A predictive distribution has one target; got {targets.shape[1]} "
                f"targets and {distribution!r}."
            )
        values = [
            self.metric(
                column,
                distribution,
                sample_weight=sample_weight,
                **self.options,
            )
            for column, distribution in zip(columns, distributions, strict=True)
        ]
        return float(np.mean(values))


def _interval_score_of(
    y_true: ArrayLike,
    distribution: Predictive,
    **options: Any,
) -> float:
    bounds = distribution.interval(options.get("coverage", 0.9))
    return float(interval_score(y_true, bounds, **options))


def _calibration_error_of(
    y_true: ArrayLike,
    distribution: Predictive,
    sample_weight: RowValues = None,
) -> float:
    # counts are spread out by the same numbers in every fold and search
    pit = pit_values(y_true, distribution, random_state=0)
    return calibration_error(pit, sample_weight=sample_weight)


log_predictive_density_scorer = PredictiveScorer(
    neg_log_predictive_density,
    class_metric=log_loss,
)
neg_crps_scorer = PredictiveScorer(crps)
neg_interval_score_scorer = PredictiveScorer(_interval_score_of, coverage=0.9)
neg_coverage_error_scorer = PredictiveScorer(coverage_error, coverage=0.9)
neg_calibration_error_scorer = PredictiveScorer(_calibration_error_of)
