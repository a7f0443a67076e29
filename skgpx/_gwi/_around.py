"""Means that are other regressors, cross-fitted.

Random folds hold out rows that are surrounded by others, and do not measure
extrapolation. The rows at either end of the principal directions of the inputs are
therefore held out together, so that clones fitted without them must extrapolate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process.kernels import Kernel
from sklearn.model_selection import GroupKFold
from sklearn.utils import get_tags

from skgpx._cross_fitting import (
    N_FOLDS,
    CrossFit,
    cross_fit,
    cross_fit_prefit,
    predict_without,
    seeded,
    warn_of_lost_weights,
    weight_keyword,
)
from skgpx._draws import InputMap
from skgpx._gwi._covariance import distance_of
from skgpx._gwi._fit import GWIFit, GWIProblem
from skgpx._gwi._kernel_inputs import (
    EstimatorMean,
    TableForm,
    check_seen,
    finite,
    input_map,
)
from skgpx._gwi._prior import NOISE_FLOOR, Prior, warn_if_periodic
from skgpx._gwi._variance_scale import (
    MAX_HELD_OUT,
    MIN_HELD_OUT,
    VarianceScale,
    fit_variance_scale,
)
from skgpx._latent import LatentModel, Mean
from skgpx._numerics.spread import mean_and_spread
from skgpx._numerics.weights import GaussianWeights
from skgpx._row_statistics import row_statistics
from skgpx._table import Training, take_rows
from skgpx._validation import (
    HasMethods,
    Interval,
    Rows,
    StrOptions,
    check_is_fitted,
    check_some_folds,
    validate_data,
    warn,
)
from skgpx.bases import Warped
from skgpx.exceptions import DataWarning, FitWarning

# ---- Which rows are held out together: `cv` and `groups` -----------------------------


# Declares that the mean is fitted already, and not to the given rows.
PREFIT = "prefit"


def is_prefit(mean: Any, cv: Any) -> bool:
    """Whether a mean is taken as it is, and never fitted."""
    return isinstance(mean, FrozenEstimator) or isinstance(cv, str)


def is_count(cv: Any) -> bool:
    """Whether only the number of folds is given, or nothing."""
    return cv is None or isinstance(cv, Integral)


def check_folds(mean: Any, cv: Any, groups: Any) -> None:
    """Check the parameters that define the held-out rows.

    Raises
    ------
    ValueError
        If there are groups and the mean is one of the library's own.

    Warns
    -----
    DataWarning
        If there are groups and the mean is fitted already.
    """
    if isinstance(mean, str) and groups is not None:
        raise ValueError(
            f'groups are for means that are estimators; mean="{mean}" chooses its '
            "held-out rows itself. Omit groups."
        )
    if is_prefit(mean, cv) and groups is not None:
        warn(
            "The groups parameter is ignored, because a mean that is fitted already is "
            "not cross-fitted.",
            DataWarning,
        )


def folds_of_groups(cv: Any, groups: Any, splitter: Callable[[int], Any]) -> Any:
    """`cv`, or a splitter that keeps groups together if `cv` is a number.

    Parameters
    ----------
    cv : int, splitter, iterable or None
    groups : array-like of shape (n,) or None
    splitter : callable
        Makes one with so many folds.

    Raises
    ------
    ValueError
        If there are fewer groups than folds.
    """
    if groups is None or not is_count(cv):
        return cv
    n_groups = len(np.unique(np.asarray(groups)))
    n_folds = min(N_FOLDS, max(n_groups, 2)) if cv is None else int(cv)
    if n_groups < n_folds:
        raise ValueError(
            f"groups must have at least as many values as there are folds, {n_folds}; "
            f"got {n_groups}. Use fewer folds, or no groups."
        )
    return splitter(n_folds)


# ---- Rows at the edges of the data: how errors grow outside of it --------------------


Array = NDArray[np.float64]

# Share of the rows at one end, and the fewest distinct rows that have edges.
SHARE, MIN_DISTINCT = 0.1, 50
# A direction with a smaller share of the variance has none.
_FLAT = 1e-9


def edges(X: Array, weights: Array, n_directions: int) -> list[NDArray[np.bool_]]:
    """Rows at both ends of principal directions.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Input of the kernel; its columns are standardised here.
    weights : ndarray of shape (n,)
    n_directions : int
        At most so many.

    Returns
    -------
    found : list of ndarray of bool of shape (n,)
        The outer tenth at one end of a direction. None for few rows; where many rows
        project to one number, the tenth is less, or nothing.
    """
    n, d = X.shape
    if n < MIN_DISTINCT:
        return []
    centre, std = mean_and_spread(X, weights, 1e-10)
    Z = (X - centre) / std
    covariance = Z.T @ (weights[:, np.newaxis] * Z) / weights.sum()
    sizes, directions = np.linalg.eigh(covariance)
    found = []
    for j in range(d - 1, max(-1, d - 1 - n_directions), -1):
        if sizes[j] <= _FLAT * sizes.sum():
            break
        projection = Z @ directions[:, j]
        for side in (projection, -projection):
            outer = _outer(side, weights)
            if np.any(outer):
                found.append(outer)
    return found


def _outer(values: Array, weights: Array) -> NDArray[np.bool_]:
    """Rows of the largest values, no more than the share; equal values together."""
    # rounding errors must not separate equal rows
    values = np.round(values, 9)
    order = np.argsort(-values, kind="stable")
    # total weight of all rows with values at least that of each row
    ranked, totals = values[order], np.cumsum(weights[order])
    last = np.searchsorted(-ranked, -ranked, side="right") - 1
    chosen = np.zeros(len(values), bool)
    chosen[order[totals[last] <= SHARE * weights.sum() + 1e-9]] = True
    return chosen


# ---- Out-of-fold predictions of other estimators -------------------------------------


class CrossFitSettings(NamedTuple):
    """The mean and how it is cross-fitted.

    Attributes
    ----------
    mean, cv, kernel_features : object
        Parameters of the estimator; see `GWIRegressor`.
    predict : callable
        Maps a fitted clone and rows to its predictions (n, c).
    splitter : callable
        Makes a splitter that keeps groups together, of so many folds.
    frozen_warning : str
        Warning for a frozen mean without ``cv="prefit"``.
    encode : callable
        Maps targets to numbers (n,).
    make_folds : callable
        Maps rows and the number of folds, or None, to rows and their folds.
    """

    mean: Any
    cv: Any
    kernel_features: Any
    predict: Callable[[Any, Any], Array]
    splitter: Callable[[int], Any]
    frozen_warning: str
    encode: Callable[[NDArray[Any]], Array]
    make_folds: Callable[[Training, Any], tuple[Training, Any]]


class CrossFittedMean(NamedTuple):
    """A mean fitted to all rows, and out-of-fold predictions of its clones.

    Attributes
    ----------
    cross_fit : CrossFit
        Of folds, and the estimator that was fitted to all rows.
    rows : Rows
        Input of the kernel, encoded targets, and weights: rows of `cross_fit`.
    form : TableForm
    map : InputMap or None
        From rows to the input of the kernel.
    given : Training
        Rows whose positions `cross_fit` has.
    mean : estimator
        Of which clones were fitted, with its seeds set.
    keyword : str or None
        Name under which `fit` takes weights.
    """

    cross_fit: CrossFit
    rows: Rows
    form: TableForm
    map: InputMap | None
    given: Training
    mean: Any
    keyword: str | None


def cross_fit_mean(
    settings: CrossFitSettings,
    given: Training,
    groups: Any,
    rng: np.random.Generator,
    n_jobs: int | None,
) -> CrossFittedMean:
    """Fit clones of a mean on folds and to all rows; take a frozen one as it is.

    Raises
    ------
    ValueError
        If the input of the kernel is not numeric, predictions are invalid, or `cv` and
        `groups` do not fit the mean.

    Warns
    -----
    FitWarning
        If the mean is frozen and `cv` is not "prefit".
    """
    mean, predict, keyword = settings.mean, settings.predict, None
    features, form = settings.kernel_features, TableForm.of(given.X)
    check_seen(features, mean, given.X)
    if is_prefit(mean, settings.cv):
        check_is_fitted(mean)
        if settings.cv != PREFIT:
            warn(settings.frozen_warning, FitWarning)
        found = cross_fit_prefit(mean, given, predict)
    else:
        mean, keyword = seeded(mean, rng), weight_keyword(mean)
        warn_of_lost_weights(mean, given.weights, keyword)
        check_some_folds(settings.cv)
        cv = folds_of_groups(settings.cv, groups, settings.splitter)
        if is_count(cv):
            given, cv = settings.make_folds(given, cv)
        how = {"cv": cv, "groups": groups, "keyword": keyword, "n_jobs": n_jobs}
        found = cross_fit(mean, given, predict, **how)
    chosen = take_rows(given.X, found.positions)
    y = settings.encode(given.y[found.positions])
    to_kernel = input_map(features, found.estimator, chosen, y, form)
    X = form.rows(chosen)
    rows = Rows(X if to_kernel is None else to_kernel(X), y, found.weights)
    return CrossFittedMean(found, rows, form, to_kernel, given, mean, keyword)


# ---- What regressors and classifiers around other models have in common --------------


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


# ---- A process around another regressor ----------------------------------------------


_FROZEN = (
    "The mean is a FrozenEstimator, and its errors at the rows given to fit determine "
    "the noise and the variance scale. If it was fitted to these rows, standard "
    "deviations are too small. Pass rows that it was not fitted to and set "
    'cv="prefit", or pass the regressor without FrozenEstimator to cross-fit it.'
)
# Weight of a row at an edge beside one held out at random.
EDGE_WEIGHT = 0.5


class MeanSettings(NamedTuple):
    """Parameters of means that are regressors; see `GWIRegressor`."""

    mean: Any
    cv: Any
    edges: int
    kernel_features: Any
    kernel_from: str

    @classmethod
    def of(cls, estimator: Any) -> MeanSettings:
        """Those of an estimator."""
        return cls(*(getattr(estimator, name) for name in cls._fields))


class EdgeCrossFit(NamedTuple):
    """Predictions of held-out rows, at random and at edges, in the units of y.

    Attributes
    ----------
    out_of_fold : CrossFittedMean
        Of folds.
    edges : list of ndarray of bool of shape (r,)
        Rows at edges,
    at_edges : list of ndarray of shape (p,)
        and predictions there of clones fitted to all other rows.
    """

    out_of_fold: CrossFittedMean
    edges: list[NDArray[np.bool_]]
    at_edges: list[Array]


def cross_fit_regressor(
    settings: MeanSettings,
    given: Training,
    groups: Any,
    rng: np.random.Generator,
    n_jobs: int | None,
) -> EdgeCrossFit:
    """Fit clones on folds, at edges and to all rows; see `cross_fit_mean`."""
    how = CrossFitSettings(
        settings.mean,
        settings.cv,
        settings.kernel_features,
        predicted,
        GroupKFold,
        _FROZEN,
        np.asarray,
        lambda given, cv: (given, cv),
    )
    out_of_fold = cross_fit_mean(how, given, groups, rng, n_jobs)
    parts: list[NDArray[np.bool_]] = []
    prefit = is_prefit(settings.mean, settings.cv)
    # splitters and groups define which rows are held out together
    if not prefit and groups is None and is_count(settings.cv):
        parts = edges(out_of_fold.rows.X, out_of_fold.rows.weights, settings.edges)
    parameters = out_of_fold.cross_fit, parts, predicted, out_of_fold.keyword, n_jobs
    at_edges = predict_without(out_of_fold.mean, out_of_fold.given, *parameters)
    return EdgeCrossFit(out_of_fold, parts, [values[:, 0] for values in at_edges])


def predicted(estimator: Any, X: Any) -> Array:
    """Predictions as a column (n, 1), finite."""
    values = np.asarray(estimator.predict(X), dtype=np.float64)
    if values.shape not in ((len(X),), (len(X), 1)):
        raise ValueError(
            f"The mean must predict one number for each row; {estimator!r} gives an "
            f"array of shape {values.shape} for {len(X)} rows."
        )
    return finite(estimator, values).reshape(-1, 1)


def fit_around(
    problem: GWIProblem,
    cross_fitted: EdgeCrossFit,
    kernel_from: str,
    shift: float,
    scale: float,
) -> GWIFit:
    """Kernel, noise, covariance and variance scale around the mean.

    Parameters
    ----------
    problem : GWIProblem
        Of the rows of `cross_fitted`.
    cross_fitted : EdgeCrossFit
    kernel_from : {"y", "residuals"}
    shift, scale : float
        Of the standardised y.
    """
    rows, fitted = problem.rows, cross_fitted.out_of_fold
    held_out = fitted.cross_fit.held_out
    values = (fitted.cross_fit.predictions[:, 0] - shift) / scale
    targets = values if kernel_from == "residuals" else problem.level
    prior = problem.learned_prior(rows.y - targets)
    warn_if_periodic(prior.kernel)
    prior = _with_noise_of(prior, problem, values, held_out)
    basis = problem.basis(prior, np.zeros(len(rows.y), bool))
    statistics = row_statistics(basis, rows, problem.n_jobs)
    objective = problem.objective_of(prior, statistics, values)
    posterior = problem.posterior(objective, basis)
    variances = _HeldOutVariances(problem, prior, posterior)
    variance_scale, n_held_out = variances.variance_scale(
        cross_fitted, values, shift, scale
    )
    mean = EstimatorMean(fitted.cross_fit.estimator, fitted.form, shift, scale)
    function = Mean(np.zeros(1), np.ones(1), mean)
    whole = basis if fitted.map is None else Warped(basis, fitted.map)
    model = LatentModel(whole, posterior, function, np.sqrt(variance_scale.factor))
    record = prior.record._replace(errors_that_tempered=n_held_out)
    return GWIFit(
        model, prior, variance_scale, distance_of(objective, posterior), None, record
    )


def _with_noise_of(
    prior: Prior, problem: GWIProblem, values: Array, held_out: NDArray[np.bool_]
) -> Prior:
    """Noise variance: the mean squared error at held-out rows, unless it is given."""
    if problem.settings.noise_variance is not None or not np.any(held_out):
        return prior
    rows = problem.rows.take(held_out)
    noise = float(np.average((rows.y - values[held_out]) ** 2, weights=rows.weights))
    size = float(np.average(problem.rows.y**2, weights=problem.rows.weights))
    if noise <= 0.0:
        return prior
    record = prior.record.with_noise("squared errors of rows left out", len(rows.y))
    return prior._replace(noise_variance=max(noise, NOISE_FLOOR * size), record=record)


class _HeldOutVariances:
    """Variance of the process at held-out rows, given all other rows."""

    def __init__(self, problem: GWIProblem, prior: Prior, posterior: GaussianWeights):
        self._problem, self._prior, self._posterior = problem, prior, posterior

    def variance_scale(
        self, cross_fitted: EdgeCrossFit, values: Array, shift: float, scale: float
    ) -> tuple[VarianceScale, int]:
        """Variance scale by rows held out at random and at edges; their number."""
        how, noise = self._problem.settings.tempering, self._prior.noise_variance
        folds = cross_fitted.out_of_fold.cross_fit.folds
        if how is None or np.sum(folds >= 0) < MIN_HELD_OUT:
            return VarianceScale(noise, 1.0), 0
        y, parts, share = self._problem.rows.y, [], MAX_HELD_OUT / np.sum(folds >= 0)
        # every fold contributes its share, also those of later times
        for fold in np.unique(folds[folds >= 0]):
            part = folds == fold
            most = int(np.ceil(share * np.sum(part)))
            parts.append(
                self._errors_and_variances(part, (y - values)[part], 1.0, most)
            )
        most = MAX_HELD_OUT // max(1, len(cross_fitted.edges))
        for part, predicted_there in zip(
            cross_fitted.edges, cross_fitted.at_edges, strict=True
        ):
            errors = y[part] - (predicted_there - shift) / scale
            parts.append(self._errors_and_variances(part, errors, EDGE_WEIGHT, most))
        squares, r, weights = (np.concatenate(one) for one in zip(*parts, strict=True))
        return fit_variance_scale(how, squares, r, weights, noise), len(squares)

    def _errors_and_variances(
        self, part: NDArray[np.bool_], errors: Array, weight: float, most: int
    ) -> tuple[Array, Array, Array]:
        """Squared errors, variance of the process, and weights, at some of the rows.

        The weights add up to those of all rows of the part.
        """
        rows, n = self._problem.rows.take(part), len(errors)
        # evenly among the rows, whose order is random, or that of their values
        chosen = np.arange(min(n, most)) * n // min(n, most)
        weights = weight * rows.weights[chosen]
        weights *= rows.weights.sum() / rows.weights[chosen].sum()
        basis = self._problem.basis(self._prior, part)
        features = basis(rows.X[chosen])
        variance = self._posterior_of(basis, part).latent(features)[1][:, 0, 0]
        r = variance + basis.residual_variance(rows.X[chosen], features)
        return errors[chosen] ** 2, r, weights

    def _posterior_of(self, basis: Any, part: NDArray[np.bool_]) -> GaussianWeights:
        """Posterior of the weights of a basis, given the rows outside of the part."""
        m, problem = basis.n_basis, self._problem
        if problem.settings.covariance == "closed_form":
            # a multiple of the prior's, the same for every basis
            root = np.eye(m) * self._posterior.root[0, 0, 0]
            return GaussianWeights(np.zeros((m, 1)), root[np.newaxis])
        others = replace(problem, rows=problem.rows.take(~part))
        statistics = row_statistics(basis, others.rows, problem.n_jobs)
        objective = others.objective_of(self._prior, statistics, others.level)
        return others.posterior(objective, basis)
