"""Predictive laws through pipelines, searches and transformed targets."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.compose import TransformedTargetRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.multioutput import MultiOutputRegressor, RegressorChain
from sklearn.pipeline import Pipeline

from skgpx._decoupled import DecoupledSampler
from skgpx._derived_laws import NormalDistribution, TransformedDistribution
from skgpx._draws import FunctionDraws
from skgpx._predictive_law import Predictive
from skgpx._searches import best_of, is_search, unwrapped
from skgpx._validation import check_is_fitted

Array = NDArray[np.float64]


def predict_dist(estimator: Any, X: Any, **given: Any) -> Predictive:
    """Predictive law of y from a regressor, whatever it is wrapped in.

    Follows a Pipeline (X is transformed on the way), GridSearchCV and its relatives
    (`best_estimator_`), TransformedTargetRegressor (the law is transformed back) and
    FrozenEstimator, nested in any order, to a regressor of this library or one whose
    `predict` has `return_std` (GaussianProcessRegressor, BayesianRidge), whose law is
    then the normal one. Of MultiOutputRegressor and RegressorChain one law a target;
    those of a chain take the means of earlier targets for their values, as its
    `predict` does, and are too narrow by what these are uncertain.

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
    law : Predictive or list of Predictive
        With the methods `mean`, `std`, `quantile`, `interval`, `cdf`, `log_density` and
        `sample`; computed when asked for. A list where regressors of several targets
        are one a target.

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
    estimator, X = unwrapped(estimator, X)
    if isinstance(estimator, TransformedTargetRegressor):
        return _transformed_back(estimator, X, given)
    if isinstance(estimator, MultiOutputRegressor | RegressorChain):
        # of type Predictive for the one target of almost every caller
        laws: Any = _target_by_target(estimator, X, given)
        return laws
    if hasattr(estimator, "predict_dist"):
        law: Predictive = estimator.predict_dist(X, **given)
        return law
    if predicts_std(estimator) and not given:
        check_is_fitted(estimator)
        return NormalDistribution(estimator, X)
    raise ValueError(
        "predict_dist expects a fitted regressor of skgpx or one whose predict has "
        "return_std, such as GaussianProcessRegressor, or a Pipeline, search, "
        "MultiOutputRegressor, RegressorChain, "
        f"TransformedTargetRegressor or FrozenEstimator around one; got {estimator!r}"
        f"{' with ' + ', '.join(given) if given else ''}. Classifiers have "
        "predict_proba."
    )


def _target_by_target(
    estimator: Any, X: Any, given: dict[str, Any]
) -> list[Predictive]:
    check_is_fitted(estimator)
    if isinstance(estimator, MultiOutputRegressor):
        return [predict_dist(one, X, **given) for one in estimator.estimators_]
    # a regressor of the chain sees X and the targets before it
    means, order = estimator.predict(X), list(estimator.order_)
    seen = [np.column_stack((X, means[:, order[:k]])) for k in range(len(order))]
    asked = zip(estimator.estimators_, seen, strict=True)
    laws = [predict_dist(one, rows, **given) for one, rows in asked]
    return [laws[order.index(j)] for j in range(len(order))]


def predicts_std(estimator: Any) -> bool:
    """Whether `predict` of this estimator can return standard deviations."""
    predict = getattr(estimator, "predict", None)
    return callable(predict) and "return_std" in signature(predict).parameters


def innermost(estimator: Any) -> Any:
    """The estimator inside of pipelines, searches, transformed targets and freezers."""
    if isinstance(estimator, Pipeline):
        return innermost(estimator[-1])
    if isinstance(estimator, FrozenEstimator):
        return innermost(estimator.estimator)
    if isinstance(estimator, TransformedTargetRegressor):
        check_is_fitted(estimator)
        return innermost(estimator.regressor_)
    return innermost(best_of(estimator)) if is_search(estimator) else estimator


class WrappedFunctions:
    """Functions drawn inside of a pipeline: of its inputs, in the units of its target.

    Parameters
    ----------
    draws : callable
        Functions of the rows that the regressor sees.
    transform, inverse : callable or None, default=None
        From rows of the pipeline to those of the regressor, and from its values to the
        target; None for the identity.
    """

    def __init__(
        self,
        draws: Callable[[Any], Array],
        transform: Callable[[Any], Any] | None = None,
        inverse: Callable[[Array], Array] | None = None,
    ):
        self.draws, self.transform, self.inverse = draws, transform, inverse

    def __call__(self, X: Any) -> Array:
        """Values at rows, shape (n_rows, n_samples)."""
        values = self.draws(X if self.transform is None else self.transform(X))
        if self.inverse is None:
            return values
        return self.inverse(values.ravel()).reshape(values.shape)


def sample_functions(
    estimator: Any, n_samples: int = 1, random_state: Any = None
) -> FunctionDraws | WrappedFunctions:
    """Draw functions from a regressor, whatever it is wrapped in.

    Parameters
    ----------
    estimator : estimator
        Fitted: an estimator with `sample_functions`, a GaussianProcessRegressor, or
        what :func:`predict_dist` follows to one.
    n_samples : int, default=1
        Number of functions.
    random_state : int, RandomState, Generator or None, default=None
        Seed; None uses that of the estimator.

    Returns
    -------
    draws : callable
        ``draws(X)`` has shape (n_rows, n_samples), X being rows as for
        `estimator.predict`: functions without noise, transformed back to the target
        of a TransformedTargetRegressor. Calling it again evaluates the same functions.

    Raises
    ------
    ValueError
        If functions cannot be drawn from the regressor inside.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process import GaussianProcessRegressor
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> import skgpx
    >>> X = np.linspace(0.0, 600.0, 30)[:, np.newaxis]
    >>> model = make_pipeline(StandardScaler(), GaussianProcessRegressor(alpha=0.01))
    >>> model = model.fit(X, np.sin(X[:, 0] / 100.0))
    >>> skgpx.sample_functions(model, 3, random_state=0)([[150.0], [200.0]]).shape
    (2, 3)
    """
    if isinstance(estimator, Pipeline):
        check_is_fitted(estimator)
        draws = sample_functions(estimator[-1], n_samples, random_state)
        if len(estimator) == 1:
            return draws
        return WrappedFunctions(draws, estimator[:-1].transform)
    if isinstance(estimator, FrozenEstimator):
        return sample_functions(estimator.estimator, n_samples, random_state)
    if isinstance(estimator, TransformedTargetRegressor):
        check_is_fitted(estimator)
        inner = sample_functions(estimator.regressor_, n_samples, random_state)
        return WrappedFunctions(inner, inverse=_Inverse(estimator.transformer_))
    if is_search(estimator):
        return sample_functions(best_of(estimator), n_samples, random_state)
    if isinstance(estimator, GaussianProcessRegressor):
        check_is_fitted(estimator)
        row = np.zeros((1, estimator.n_features_in_))
        estimator = DecoupledSampler(FrozenEstimator(estimator)).fit(row)
    if not hasattr(estimator, "sample_functions"):
        raise ValueError(
            "sample_functions expects a fitted estimator of skgpx, or a "
            "GaussianProcessRegressor, or a Pipeline, search, "
            f"TransformedTargetRegressor or FrozenEstimator around one; got "
            f"{estimator!r}."
        )
    drawn: FunctionDraws = estimator.sample_functions(n_samples, random_state)
    return drawn


class _Inverse:
    """Back from the transformed target, elementwise; picklable as the transformer."""

    def __init__(self, transformer: Any):
        self.transformer = transformer

    def __call__(self, z: Array) -> Array:
        return np.ravel(self.transformer.inverse_transform(z[:, np.newaxis]))


class _Forward(_Inverse):
    """To the transformed target."""

    def __call__(self, y: Array) -> Array:
        return np.ravel(self.transformer.transform(y[:, np.newaxis]))


def _transformed_back(
    estimator: TransformedTargetRegressor, X: Any, given: dict[str, Any]
) -> Predictive:
    check_is_fitted(estimator)
    law = predict_dist(estimator.regressor_, X, **given)
    if isinstance(law, list):
        raise ValueError(
            "Laws of several targets are not transformed back; got "
            f"{estimator!r}. Transform each target: "
            "MultiOutputRegressor(TransformedTargetRegressor(...))."
        )
    transformer = estimator.transformer_
    return TransformedDistribution(law, _Forward(transformer), _Inverse(transformer))
