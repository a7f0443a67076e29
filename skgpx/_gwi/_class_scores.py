"""Scores of classes as latent values: loss of networks, other classifiers, scales.

The latent functions are ``f = base + h (a s - base) + √b (φᵀw + g)``: s are scores, h
their fading away from the data, a and b factors that held-out rows choose.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline

from skgpx._draws import InputMap
from skgpx._gwi._base_models import TableForm
from skgpx._numerics.expectations import expectation_nodes
from skgpx._numerics.mixture import LatentMixture, atoms
from skgpx._numerics.robust_max import probability_and_slopes
from skgpx._numerics.rows import distinct_rows
from skgpx._numerics.weights import GaussianWeights
from skgpx._table import Training, row_codes, take_rows
from skgpx.likelihoods import Categorical, Likelihood, RobustMax

Array = NDArray[np.float64]
Index = NDArray[np.intp]

# Seed of the order of the rows of folds.
_SEED = 0
# Standard deviation of the logarithms of both factors a priori: rows that do not
# identify them leave them near one. Largest size of either, and step of differences:
# the rules of probabilities change by some 1e-6 where they are refined.
_PRIOR_STD, _FARTHEST, _STEP = 1.0, 7.0, 1e-3
# Points of the search where probabilities have no fast rule.
_POINTS = 128
# Share of the held-out rows at which the mean does not fade, and the least share of it
# that a row at the edge keeps.
_WITHIN, _LEAST_EXPLAINED = 0.95, 1e-3


# ---- What networks of classes minimise: expected log likelihood and distance ---------


class ClassLoss(NamedTuple):
    """``Σ w (E[-log p(y | f)] + κ |m - m_P|²) / Σ w`` over the rows of a batch.

    The expectation is over ``f ~ N(m, r)`` at each row: eqs. (69) and (70) of the paper
    for RobustMax, otherwise by a rule of a dozen nodes, or two for each output.

    Attributes
    ----------
    likelihood : Likelihood
        Prepared.
    codes : ndarray of shape (n,)
        Numbers of the classes.
    weights : ndarray of shape (n,)
    variance : ndarray of shape (n,)
        r, the same for all outputs.
    distance_weight : float
        κ: one over the number of rows, times the weight of the distances.
    """

    likelihood: Likelihood
    codes: Array
    weights: Array
    variance: Array
    distance_weight: float

    def __call__(self, outputs: Array, rows: Index) -> tuple[float, Array]:
        """Value, and its derivative in the outputs (len(rows), c) of these rows."""
        expected = _robust_max if isinstance(self.likelihood, RobustMax) else _by_nodes
        y, r = self.codes[rows], self.variance[rows]
        nll, slope = expected(self.likelihood, y, outputs, r)
        gap = outputs - self.likelihood.base_latent_
        nll = nll + self.distance_weight * np.sum(gap**2, axis=1)
        slope = slope + 2.0 * self.distance_weight * gap
        share = self.weights[rows] / self.weights[rows].sum()
        return float(share @ nll), share[:, np.newaxis] * slope


def _robust_max(
    likelihood: RobustMax, y: Array, mean: Array, variance: Array
) -> tuple[Array, Array]:
    """Expected nll (n,), and its derivative in the means (n, c)."""
    right = np.log1p(-likelihood.epsilon)
    wrong = np.log(likelihood.epsilon / (mean.shape[1] - 1.0))
    S, slope, _ = probability_and_slopes(y, mean, variance[:, np.newaxis])
    return -right * S - wrong * (1.0 - S), (wrong - right) * slope


def _by_nodes(
    likelihood: Likelihood, y: Array, mean: Array, variance: Array
) -> tuple[Array, Array]:
    """The same for a smooth likelihood: derivatives of the rule."""
    nodes, weights = expectation_nodes(mean.shape[1])
    std = np.sqrt(variance)[:, np.newaxis, np.newaxis]
    f = mean[:, :, np.newaxis] + std * nodes.T
    return likelihood.row_nll(y, f) @ weights, likelihood.row_gradient(y, f) @ weights


# ---- Scores of other classifiers -----------------------------------------------------


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
        Share of the uniform distribution in probabilities, so that none is zero; None
        where they are scores already.
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
class BasisMean:
    """``base + φ(x)ᵀw``: the mode of the process itself.

    Parameters
    ----------
    basis : Nystroem
    weights : ndarray of shape (m, c)
    base : ndarray of shape (c,)
    """

    basis: Any
    weights: Array
    base: Array

    def __call__(self, X: Array) -> Array:
        """Values (n, c) at the rows of X (n, d)."""
        values: Array = self.base + self.basis(X) @ self.weights
        return values


def stratified_folds(given: Training, n_folds: int) -> tuple[Training, Any]:
    """Distinct rows in an order that is always the same, and splits of them.

    The rows of a class are in each fold in turn; the only row of a class in none.
    """
    table = np.column_stack((row_codes(given.X), row_codes(given.y[:, np.newaxis])))
    positions, weights = distinct_rows(table, given.weights)
    order = np.random.default_rng(_SEED).permutation(len(positions))
    chosen = positions[order]
    y = given.y[chosen]
    _, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
    several = np.flatnonzero(counts[codes] > 1)
    ordered = several[np.argsort(codes[several], kind="stable")]
    folds = np.full(len(y), -1)
    folds[ordered] = np.arange(len(ordered)) % n_folds
    splits = [
        (np.flatnonzero(folds != k), np.flatnonzero(folds == k))
        for k in range(folds.max() + 1)
    ]
    return Training(take_rows(given.X, chosen), y, weights[order]), splits


# ---- How scores fade away from the data ----------------------------------------------


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
    edge : float
        ρ₀.
    basis : Nystroem
    posterior : GaussianWeights
    map : InputMap or None
        From rows to the input of the kernel; None for the identity.
    """

    function: Callable[[NDArray[Any]], Any]
    factor: float
    base: Array
    edge: float
    basis: Any
    posterior: GaussianWeights
    map: InputMap | None = None

    def __call__(self, X: NDArray[Any]) -> Array:
        """Values (n, c) at the rows of X (n, d)."""
        values = self.factor * np.asarray(self.function(X)) - self.base
        inputs = X if self.map is None else self.map(X)
        _, variance = self.basis.marginals(self.posterior)(inputs)
        share = share_of_prior(self.basis.kernel, inputs, variance[:, 0, 0])
        return fading(share, self.edge)[:, np.newaxis] * values


def share_of_prior(kernel: Any, X: Array, variance: Array) -> Array:
    """``r(x, x) / k(x, x)`` at the rows of X, between 0 and 1, shape (n,)."""
    prior = kernel.diag(X)
    share: Array = variance / np.where(prior > 0.0, prior, 1.0)
    return np.minimum(share, 1.0)


def fading(prior_share: Array, edge: float) -> Array:
    """Share h of the mean that is kept, from the share of the variance left."""
    kept: Array = (1.0 - prior_share) / max(1.0 - edge, _LEAST_EXPLAINED)
    return np.minimum(kept, 1.0)


# ---- Factors of scores and variances, by held-out log loss ---------------------------


class HeldOutClasses(NamedTuple):
    """Rows that a mean was not fitted to.

    Attributes
    ----------
    codes, weights : ndarray of shape (n,)
    scores : ndarray of shape (n, c)
    variance, prior_share : ndarray of shape (n,)
        r of the process without the row, and ``r / k``.
    """

    codes: Array
    weights: Array
    scores: Array
    variance: Array
    prior_share: Array

    def edge(self) -> float:
        """The 95 % quantile of the share of the prior variance."""
        if not len(self.prior_share):
            return 0.0
        order = np.argsort(self.prior_share, kind="stable")
        level = np.cumsum(self.weights[order])
        place = np.searchsorted(level, _WITHIN * level[-1])
        return float(self.prior_share[order][min(place, len(order) - 1)])


class ClassScale(NamedTuple):
    """Calibration on held-out rows.

    Attributes
    ----------
    score_factor : float
        a.
    variance_factor : float
        b.
    edge : float
        Share of the prior variance from which on scores fade.
    """

    score_factor: float = 1.0
    variance_factor: float = 1.0
    edge: float = 0.0


def fit_class_scale(rows: HeldOutClasses, likelihood: Likelihood) -> ClassScale:
    """Factors of scores and variances with the lowest held-out log loss.

    Minimises their log loss plus ``(log² a + log² b) / 2``, half a nat at a factor of
    e. Under RobustMax, which is invariant to the scale of f, only b moves, as in
    the paper.
    """
    edge, n = rows.edge(), 1 if isinstance(likelihood, RobustMax) else 2

    def scale(u: Array) -> ClassScale:
        a, b = np.exp(np.append(np.zeros(2 - n), u))
        return ClassScale(float(a), float(b), edge)

    def loss(u: Array) -> float:
        total = rows.weights @ log_losses(rows, likelihood, scale(u))
        return float(total + 0.5 * np.sum((u / _PRIOR_STD) ** 2))

    found = minimize(
        loss,
        np.zeros(n),
        method="L-BFGS-B",
        bounds=[(-_FARTHEST, _FARTHEST)] * n,
        options={"maxiter": 30, "eps": _STEP, "ftol": 1e-9},
    )
    return scale(found.x)


def log_losses(
    rows: HeldOutClasses, likelihood: Likelihood, scale: ClassScale
) -> Array:
    """Log loss of each row (n,) under the scaled distribution."""
    base = likelihood.base_latent_
    kept = fading(rows.prior_share, scale.edge)[:, np.newaxis]
    mean = base + kept * (scale.score_factor * rows.scores - base)
    variance = (scale.variance_factor * rows.variance)[:, np.newaxis, np.newaxis]
    mixture = LatentMixture(mean[:, :, np.newaxis], variance, np.ones(1))
    if not isinstance(likelihood, Categorical):
        log_loss: Array = -likelihood.predictive_log_density(rows.codes, mixture)
        return log_loss
    values, weights = atoms(mixture, _POINTS)
    share = np.exp(-likelihood.row_nll(rows.codes, values)) @ weights
    return np.asarray(-np.log(np.maximum(share, 1e-300)))
