"""A law around a regressor of someone else's: cross-fitted, and judged at the edges."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import GroupKFold

from skgpx._cross_fitting import left_out
from skgpx._gwi._answers import Answers, Question, ask
from skgpx._gwi._covariance import distance_of
from skgpx._gwi._edges import edges
from skgpx._gwi._fit import GWIFit, GWIProblem
from skgpx._gwi._folds import is_count, is_prefit
from skgpx._gwi._judges import FEWEST, MOST, Temper, tempered
from skgpx._gwi._kernel_inputs import EstimatorMean, finite
from skgpx._gwi._prior import NOISE_FLOOR, Prior, warn_if_periodic
from skgpx._latent import LatentModel, Mean
from skgpx._numerics.weights import GaussianWeights
from skgpx._row_statistics import row_statistics
from skgpx._table import Training
from skgpx.bases import Warped

Array = NDArray[np.float64]

_FROZEN = (
    "The mean is a FrozenEstimator: its errors at the rows given to fit choose noise "
    "and tempering. At rows that it was fitted to they are too small, and so will be "
    "the standard deviations. Pass rows that it has not seen, and say so with "
    'cv="prefit"; or pass the regressor without FrozenEstimator, to be cross-fitted.'
)
# Weight of a row at an edge beside one left out at random.
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


class EdgeAnswers(NamedTuple):
    """What regressors say of rows that they have not seen, in the units of y.

    Attributes
    ----------
    told : Answers
        Of folds.
    edges : list of ndarray of bool of shape (r,)
        Rows at edges,
    at_edges : list of ndarray of shape (p,)
        and what regressors fitted to all other rows say there.
    """

    told: Answers
    edges: list[NDArray[np.bool_]]
    at_edges: list[Array]


def ask_regressors(
    settings: MeanSettings,
    given: Training,
    groups: Any,
    rng: np.random.Generator,
    n_jobs: int | None,
) -> EdgeAnswers:
    """Fit clones of the mean on folds, at edges and to all rows; see `ask`."""
    question = Question(
        settings.mean,
        settings.cv,
        settings.kernel_features,
        predicted,
        GroupKFold,
        _FROZEN,
        np.asarray,
        lambda given, cv: (given, cv),
    )
    told = ask(question, given, groups, rng, n_jobs)
    parts: list[NDArray[np.bool_]] = []
    prefit = is_prefit(settings.mean, settings.cv)
    # splitters and groups know which rows may be left out together
    if not prefit and groups is None and is_count(settings.cv):
        parts = edges(told.rows.X, told.rows.weights, settings.edges)
    how = told.found, parts, predicted, told.keyword, n_jobs
    answers = left_out(told.mean, told.given, *how)
    return EdgeAnswers(told, parts, [values[:, 0] for values in answers])


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
    answers: EdgeAnswers,
    kernel_from: str,
    shift: float,
    scale: float,
) -> GWIFit:
    """Kernel, noise, tempering and the law around the mean.

    Parameters
    ----------
    problem : GWIProblem
        Of the rows of the answers.
    answers : EdgeAnswers
    kernel_from : {"y", "residuals"}
    shift, scale : float
        Of the standardised y.
    """
    rows, unseen = problem.rows, answers.told.found.unseen
    values = (answers.told.found.responses[:, 0] - shift) / scale
    targets = values if kernel_from == "residuals" else problem.level
    prior = problem.learned_prior(rows.y - targets)
    warn_if_periodic(prior.kernel)
    prior = _with_noise_of(prior, problem, values, unseen)
    basis = problem.basis(prior, np.zeros(len(rows.y), bool))
    statistics = row_statistics(basis, rows, problem.n_jobs)
    objective = problem.objective_of(prior, statistics, values)
    law = problem.law(objective, basis)
    judged = _Judges(problem, prior, law)
    temper, judges = judged.verdict(answers, values, shift, scale)
    mean = EstimatorMean(answers.told.found.estimator, answers.told.form, shift, scale)
    function = Mean(np.zeros(1), np.ones(1), mean)
    whole = basis if answers.told.map is None else Warped(basis, answers.told.map)
    model = LatentModel(whole, law, function, np.sqrt(temper.factor))
    record = prior.record._replace(errors_that_tempered=judges)
    return GWIFit(model, prior, temper, distance_of(objective, law), None, record)


def _with_noise_of(
    prior: Prior, problem: GWIProblem, values: Array, unseen: NDArray[np.bool_]
) -> Prior:
    """Noise variance: the mean squared error at rows left out, unless it is given."""
    if problem.settings.noise_variance is not None or not np.any(unseen):
        return prior
    rows = problem.rows.take(unseen)
    noise = float(np.average((rows.y - values[unseen]) ** 2, weights=rows.weights))
    size = float(np.average(problem.rows.y**2, weights=problem.rows.weights))
    if noise <= 0.0:
        return prior
    record = prior.record.with_noise("squared errors of rows left out", len(rows.y))
    return prior._replace(noise_variance=max(noise, NOISE_FLOOR * size), record=record)


class _Judges:
    """Variance of the process at rows left out, as if they were new."""

    def __init__(self, problem: GWIProblem, prior: Prior, law: GaussianWeights):
        self._problem, self._prior, self._law = problem, prior, law

    def verdict(
        self, answers: EdgeAnswers, values: Array, shift: float, scale: float
    ) -> tuple[Temper, int]:
        """Noise and factor by rows left out at random and at edges; their number."""
        how, noise = self._problem.settings.tempering, self._prior.noise_variance
        folds = answers.told.found.folds
        if how is None or np.sum(folds >= 0) < FEWEST:
            return Temper(noise, 1.0), 0
        y, parts, share = self._problem.rows.y, [], MOST / np.sum(folds >= 0)
        # every fold has its share of the judges: those of later times, too
        for fold in np.unique(folds[folds >= 0]):
            part = folds == fold
            most = int(np.ceil(share * np.sum(part)))
            parts.append(self._judged(part, (y - values)[part], 1.0, most))
        most = MOST // max(1, len(answers.edges))
        for part, predicted_there in zip(answers.edges, answers.at_edges, strict=True):
            errors = y[part] - (predicted_there - shift) / scale
            parts.append(self._judged(part, errors, EDGE_WEIGHT, most))
        squares, r, weights = (np.concatenate(one) for one in zip(*parts, strict=True))
        return tempered(how, squares, r, weights, noise), len(squares)

    def _judged(
        self, part: NDArray[np.bool_], errors: Array, weight: float, most: int
    ) -> tuple[Array, Array, Array]:
        """Squared errors, variance of the process, and weights, at some of the rows.

        The weights add up to those of all rows of the part.
        """
        rows, n = self._problem.rows.take(part), len(errors)
        # evenly among the rows, whose order is random, or that of their values
        some = np.arange(min(n, most)) * n // min(n, most)
        weights = weight * rows.weights[some]
        weights *= rows.weights.sum() / rows.weights[some].sum()
        basis = self._problem.basis(self._prior, part)
        features = basis(rows.X[some])
        spread = self._law_of(basis, part).latent(features)[1][:, 0, 0]
        r = spread + basis.residual_variance(rows.X[some], features)
        return errors[some] ** 2, r, weights

    def _law_of(self, basis: Any, part: NDArray[np.bool_]) -> GaussianWeights:
        """Law of the weights of a basis, given the rows outside of the part."""
        m, problem = basis.n_basis, self._problem
        if problem.settings.covariance == "closed_form":
            # a multiple of the prior's, the same for every basis
            root = np.eye(m) * self._law.root[0, 0, 0]
            return GaussianWeights(np.zeros((m, 1)), root[np.newaxis])
        others = replace(problem, rows=problem.rows.take(~part))
        statistics = row_statistics(basis, others.rows, problem.n_jobs)
        objective = others.objective_of(self._prior, statistics, others.level)
        return others.law(objective, basis)
