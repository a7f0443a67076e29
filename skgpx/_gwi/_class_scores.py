"""Scores of classifiers as latent values, out of fold, and their variances."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize, minimize_scalar
from scipy.special import log_softmax
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import StratifiedGroupKFold
from sklearn.pipeline import Pipeline

from skgpx._cross_fitting import N_FOLDS
from skgpx._draws import InputMap
from skgpx._gwi._around import CrossFitSettings, CrossFittedMean, cross_fit_mean
from skgpx._gwi._kernel_inputs import TableForm
from skgpx._numerics.mixture import LatentMixture, atoms
from skgpx._numerics.rows import distinct_rows
from skgpx._numerics.weights import GaussianWeights
from skgpx._table import Training, row_codes, take_rows
from skgpx._validation import warn
from skgpx.exceptions import FitWarning
from skgpx.likelihoods import Categorical, Likelihood, RobustMax

# ---- Out-of-fold predictions of other classifiers ------------------------------------


Array = NDArray[np.float64]
Index = NDArray[np.intp]

_FROZEN = (
    "The mean is a FrozenEstimator, and its probabilities are calibrated on the rows "
    "given to fit. If it was fitted to these rows, probabilities are too close to 0 "
    'and 1. Pass rows that it was not fitted to and set cv="prefit", or pass the '
    "classifier without FrozenEstimator to cross-fit it."
)
# Seed of the order of the rows.
_SEED = 0


def stratified_folds(y: NDArray[Any], n_folds: int) -> Index:
    """Fold of each row (n,): those of a class in turn, as even as can be.

    The only row of a class has none, -1.
    """
    _, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
    several = np.flatnonzero(counts[codes] > 1)
    ordered = several[np.argsort(codes[several], kind="stable")]
    folds = np.full(len(y), -1)
    folds[ordered] = np.arange(len(ordered)) % n_folds
    return folds


def cross_fit_classifier(
    mean: Any,
    given: Training,
    classes: NDArray[Any],
    kernel_features: Any,
    cv: Any,
    groups: Any,
    rng: np.random.Generator,
    n_jobs: int | None,
) -> CrossFittedMean:
    """Fit clones on stratified folds and to all rows; see `cross_fit_mean`.

    Raises
    ------
    ValueError
        If the classifier has no scores for the classes.
    """

    def codes(labels: NDArray[Any]) -> Array:
        return np.searchsorted(classes, labels).astype(np.float64)

    settings = CrossFitSettings(
        mean,
        cv,
        kernel_features,
        ClassScores(classes),
        StratifiedGroupKFold,
        _FROZEN,
        codes,
        _make_folds,
    )
    return cross_fit_mean(settings, given, groups, rng, n_jobs)


def _make_folds(given: Training, cv: int | None) -> tuple[Training, Any]:
    """Distinct rows, and training and test rows of each fold."""
    given = _distinct(given)
    return given, _splits(given.y, N_FOLDS if cv is None else int(cv))


def _distinct(given: Training) -> Training:
    """Distinct rows in an order that is random, but always the same."""
    table = np.column_stack((row_codes(given.X), row_codes(given.y[:, np.newaxis])))
    positions, weights = distinct_rows(table, given.weights)
    order = np.random.default_rng(_SEED).permutation(len(positions))
    chosen = positions[order]
    return Training(take_rows(given.X, chosen), given.y[chosen], weights[order])


def _splits(y: NDArray[Any], n_folds: int) -> list[tuple[Index, Index]]:
    """Training and test rows of each fold."""
    folds = stratified_folds(y, n_folds)
    numbers = range(folds.max() + 1)
    return [(np.flatnonzero(folds != k), np.flatnonzero(folds == k)) for k in numbers]


# ---- Scales of scores and variances of classes, by held-out log loss -----------------


# Standard deviation of the logarithms of both factors a priori: rows that do not
# identify them leave them near one.
_PRIOR_STD = 2.0
# Largest factor of either, as a logarithm; iterations of the search, step of its
# differences: the rules of probabilities change by some 1e-6 where they are refined.
_FARTHEST, _MAX_ITER, _STEP = 7.0, 30, 1e-3
# Bounds of the logarithm of the factor of scores alone.
_TEMPERATURES = (-3.0, 3.0)
# Points of the search where probabilities have no fast rule.
_POINTS = 128
# Share of the held-out rows at which the mean does not fade.
WITHIN = 0.95


class ClassScale(NamedTuple):
    """Calibration on held-out rows: ``f ~ N(base + h (a s - base), b r)``.

    Attributes
    ----------
    score_factor : float
        a.
    variance_factor : float
        b.
    edge : float or None
        Share of the prior variance from which on scores fade; None: they do not.
    mixed : float or None
        Share of the uniform distribution in the probabilities of a classifier; None:
        not mixed.
    """

    score_factor: float = 1.0
    variance_factor: float = 1.0
    edge: float | None = None
    mixed: float | None = None


class ValidationRows(NamedTuple):
    """Held-out rows.

    Attributes
    ----------
    codes, weights : ndarray of shape (n,)
    scores : ndarray of shape (n, c)
        Of means that were not trained on these rows.
    variance, prior_share : ndarray of shape (n,)
        r of a posterior that was fitted without them, and ``r / k``.
    """

    codes: Array
    weights: Array
    scores: Array
    variance: Array
    prior_share: Array


def fading_edge(validation: ValidationRows) -> float:
    """The 95 % quantile of the share of the prior variance at validation rows."""
    if not len(validation.prior_share):
        return 0.0
    order = np.argsort(validation.prior_share, kind="stable")
    level = np.cumsum(validation.weights[order])
    place = np.searchsorted(level, WITHIN * level[-1])
    return float(validation.prior_share[order][min(place, len(order) - 1)])


def best_mixture(predictions: Array, codes: Array, weights: Array) -> float:
    """Share of the uniform distribution with the lowest log loss, once scaled.

    The smallest candidate if there are no rows.
    """
    own = np.arange(len(codes)), codes.astype(np.intp)
    losses = []
    for mixed in MIXED:
        scores = latent_scores(predictions, mixed, predictions.shape[1])

        def loss(u: float, scores: Array = scores) -> float:
            logs = log_softmax(np.exp(u) * scores, axis=1)[own]
            return float(0.5 * (u / _PRIOR_STD) ** 2 - weights @ logs)

        found = minimize_scalar(loss, bounds=_TEMPERATURES, method="bounded")
        losses.append(found.fun)
    return float(MIXED[int(np.argmin(losses))])


def fit_class_scale(
    validation: ValidationRows, likelihood: Likelihood, edge: float | None
) -> ClassScale:
    """Factors of scores and variances with the lowest held-out log loss.

    Minimises their log loss plus ``(log² a + log² b) / 8``, half a nat at a factor of
    seven. Under RobustMax, which is invariant to the scale of f, only b moves, as in
    the paper.
    """
    one_factor = isinstance(likelihood, RobustMax)

    def loss(u: Array) -> float:
        found = ClassScale(*_factors(u, one_factor), edge)
        total = validation.weights @ log_losses(validation, likelihood, found)
        return float(total + 0.5 * np.sum((u / _PRIOR_STD) ** 2))

    found = minimize(
        loss,
        np.zeros(1 if one_factor else 2),
        method="L-BFGS-B",
        bounds=[(-_FARTHEST, _FARTHEST)] * (1 if one_factor else 2),
        options={"maxiter": _MAX_ITER, "eps": _STEP, "ftol": 1e-9},
    )
    return ClassScale(*_factors(found.x, one_factor), edge)


def log_losses(
    validation: ValidationRows, likelihood: Likelihood, found: ClassScale
) -> Array:
    """Log loss of each validation row (n,) under the scaled distribution."""
    base, edge = likelihood.base_latent_, found.edge
    kept = (
        np.ones(len(validation.codes))
        if edge is None
        else fading(validation.prior_share, edge)
    )
    mean = base + kept[:, np.newaxis] * (found.score_factor * validation.scores - base)
    variance = found.variance_factor * validation.variance
    return -log_probabilities(likelihood, validation.codes, mean, variance)


def warn_at_bound(found: ClassScale) -> None:
    """Warn if the factor of the variance is at its upper bound."""
    if np.log(found.variance_factor) < _FARTHEST - _STEP:
        return
    warn(
        "The variance scale reached its upper bound: on held-out rows the best "
        f"variance is at least {found.variance_factor:.0f} times that of the kernel. "
        "Either the mean is confidently wrong, or the variance of the kernel is too "
        "small, and probabilities remain too close to 0 and 1. Use a mean that is more "
        "regularised or calibrated, a kernel of larger variance, or "
        'optimizer="evidence".',
        FitWarning,
    )


def _factors(u: Array, one_factor: bool) -> tuple[float, float]:
    return (1.0 if one_factor else float(np.exp(u[0]))), float(np.exp(u[-1]))


def log_probabilities(
    likelihood: Likelihood, codes: Array, mean: Array, variance: Array
) -> Array:
    """``log P(y)`` of normal latent values (n,); by quadrature for the softmax."""
    mixture = LatentMixture(
        mean[:, :, np.newaxis], variance[:, np.newaxis, np.newaxis], np.ones(1)
    )
    if not isinstance(likelihood, Categorical):
        return likelihood.predictive_log_density(codes, mixture)
    values, weights = atoms(mixture, _POINTS)
    share = np.exp(-likelihood.row_nll(codes, values)) @ weights
    return np.asarray(np.log(np.maximum(share, 1e-300)))


# ---- Latent scores of other classifiers, and how they fade away from the data --------


# Candidate shares of the uniform distribution: without it, probabilities of zero or one
# would be infinite scores.
MIXED = 10.0 ** -np.arange(8.0, 0.0, -1.0)
# Least share of the mean that a row at the fading's edge keeps.
_LEAST_EXPLAINED = 1e-3


class ClassScores:
    """Predictions of a fitted classifier, one column for each class.

    Log probabilities where it has them, otherwise its decision function. Picklable.

    Parameters
    ----------
    classes : ndarray of shape (K,)
        Labels in the order of the columns.
    """

    def __init__(self, classes: NDArray[Any]) -> None:
        self.classes = classes

    def __call__(self, fitted: Any, X: Any) -> Array:
        """Probabilities (n, K), or values of the decision function.

        Raises
        ------
        ValueError
            If it was fitted to none of the classes, has neither of the two methods, or
            predicts values of another shape.
        """
        known = np.asarray(fitted.classes_)
        columns = _columns(known, self.classes)
        values = _values(fitted, X, len(known))
        out = np.full((len(values), len(self.classes)), _absent(fitted, values))
        out[:, columns >= 0] = values[:, columns[columns >= 0]]
        return out


def has_probabilities(classifier: Any) -> bool:
    """Whether probabilities are read, rather than a decision function."""
    return hasattr(classifier, "predict_proba")


def _columns(known: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.intp]:
    """Column of each class among those of a classifier, or -1."""
    position = {label: i for i, label in enumerate(known.tolist())}
    columns = np.array([position.get(label, -1) for label in classes.tolist()])
    if np.all(columns < 0):
        raise ValueError(
            f"The classifier was fitted to the classes {known.tolist()}, none of which "
            f"is in y, which has {classes.tolist()}. Fit it to the same labels."
        )
    return columns


def _values(fitted: Any, X: Any, n_known: int) -> Array:
    """(n, n_known) of `predict_proba` or `decision_function`."""
    if has_probabilities(fitted):
        values = np.asarray(fitted.predict_proba(X), dtype=np.float64)
    else:
        _refuse_pairs(fitted, n_known)
        values = np.asarray(fitted.decision_function(X), dtype=np.float64)
        if values.ndim == 1:
            values = np.stack([-0.5 * values, 0.5 * values], axis=1)
    if values.ndim != 2 or values.shape[1] != n_known:
        raise ValueError(
            f"{fitted!r} must give one value for each of its {n_known} classes; got "
            f"shape {values.shape}. Set decision_function_shape='ovr'."
        )
    if not np.all(np.isfinite(values)):
        raise ValueError(f"{fitted!r} gives scores that are NaN or infinite.")
    return values


def _refuse_pairs(fitted: Any, n_known: int) -> None:
    """Raise a ValueError for one-versus-one scores: three classes have three pairs."""
    inner = fitted
    while True:
        if isinstance(inner, Pipeline):
            inner = inner.steps[-1][1]
        elif isinstance(inner, FrozenEstimator):
            inner = inner.estimator
        elif hasattr(inner, "best_estimator_"):
            inner = inner.best_estimator_
        else:
            break
    if n_known > 2 and getattr(inner, "decision_function_shape", None) == "ovo":
        raise ValueError(
            f"{fitted!r} must give one value for each of its {n_known} classes; its "
            "decision function has one for each pair of them. Set "
            "decision_function_shape='ovr'."
        )


def _absent(fitted: Any, values: Array) -> float:
    """Score of a class that the classifier was not fitted to."""
    return 0.0 if has_probabilities(fitted) else float(values.min())


def latent_scores(predictions: Array, mixed: float | None, n_outputs: int) -> Array:
    """Latent values (n, n_outputs) from predictions (n, K) of a classifier.

    Parameters
    ----------
    predictions : ndarray of shape (n, K)
    mixed : float or None
        Share of the uniform distribution in probabilities; None where they are scores
        already.
    n_outputs : int
        One for log odds, otherwise K; these sum to zero.
    """
    scores = predictions
    if mixed is not None:
        total = predictions.sum(axis=1, keepdims=True)
        share = predictions / np.where(total > 0.0, total, 1.0)
        scores = np.log((1.0 - mixed) * share + mixed / predictions.shape[1])
    if n_outputs == 1:
        return scores[:, 1:] - scores[:, :1]
    return scores - scores.mean(axis=1, keepdims=True)


@dataclass(frozen=True)
class ClassifierMean:
    """Latent scores of a fitted classifier, as a function of rows.

    Parameters
    ----------
    estimator : estimator
        Fitted.
    form : TableForm
        What it gets.
    predict : ClassScores
    mixed : float or None
    n_outputs : int
    """

    estimator: Any
    form: TableForm
    predict: ClassScores
    mixed: float | None
    n_outputs: int

    def __call__(self, X: NDArray[Any]) -> Array:
        """Values (n, n_outputs) at the rows of X (n, d)."""
        scores = self.predict(self.estimator, self.form.table(X))
        return latent_scores(scores, self.mixed, self.n_outputs)


@dataclass(frozen=True)
class FadingScores:
    """``h(x) (a s(x) - base)``: scores that return to the base away from the data.

    With ``ρ = r(x, x) / k(x, x)`` the share of the prior variance that is left, ``h =
    min(1, (1 - ρ) / (1 - ρ₀))``: the whole mean where rows are no farther from the data
    than held-out rows were, none where the data explain nothing.

    Parameters
    ----------
    function : callable
        s, of shape (n, c).
    factor : float
        a.
    base : ndarray of shape (c,)
    edge : float or None
        ρ₀; None keeps the whole mean everywhere.
    basis : Nystroem
    posterior : GaussianWeights
    map : InputMap or None
        From rows to the input of the kernel; None for the identity.
    """

    function: Callable[[NDArray[Any]], Any]
    factor: float
    base: Array
    edge: float | None
    basis: Any
    posterior: GaussianWeights
    map: InputMap | None = None

    def __call__(self, X: NDArray[Any]) -> Array:
        """Values (n, c) at the rows of X (n, d)."""
        values = self.factor * np.asarray(self.function(X)) - self.base
        if self.edge is None:
            return values
        inputs = X if self.map is None else self.map(X)
        prior_share = share_left(self.basis, self.posterior, inputs)
        return fading(prior_share, self.edge)[:, np.newaxis] * values


def share_left(basis: Any, posterior: GaussianWeights, X: Array) -> Array:
    """``r(x, x) / k(x, x)`` at the rows of X, between 0 and 1, shape (n,)."""
    _, variance = basis.marginals(posterior)(X)
    prior = basis.kernel.diag(X)
    share: Array = variance[:, 0, 0] / np.where(prior > 0.0, prior, 1.0)
    return np.minimum(share, 1.0)


def fading(prior_share: Array, edge: float) -> Array:
    """Share h of the mean that is kept, from the share of the variance left."""
    kept: Array = (1.0 - prior_share) / max(1.0 - edge, _LEAST_EXPLAINED)
    return np.minimum(kept, 1.0)
