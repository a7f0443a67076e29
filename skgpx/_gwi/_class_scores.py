"""Scores of classes as latent values: loss of networks, other classifiers, scales.

The latent functions are ``f = base + h (a s - base) + √b (φᵀw + g)``: s are scores, h
their fading away from the data, a and b factors that held-out rows choose.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize

from skgpx._draws import InputMap
from skgpx._gwi._networks import Loss
from skgpx._numerics.expectations import expectation_nodes
from skgpx._numerics.mixture import LatentMixture, atoms
from skgpx._numerics.robust_max import probability_and_slopes
from skgpx._numerics.weights import WeightDistribution
from skgpx._types import AnyArray, Array, ArrayLike, Index, Kernel
from skgpx.bases import Nystroem
from skgpx.kernels import category_columns
from skgpx.likelihoods import Likelihood, RobustMax

# ---- What networks of classes minimise: expected log likelihood and distance ---------


def class_loss(
    likelihood: Likelihood,
    codes: Array,
    weights: Array,
    variance: Array,
    distance_weight: float,
) -> Loss:
    """``Σ w (E[-log p(y | f)] + κ |m - m_P|²) / Σ w`` over the rows of a batch.

    The expectation is over ``f ~ N(m, r)`` at each row: eqs. (69) and (70) of the paper
    for RobustMax, otherwise by a rule of a dozen nodes, or two for each output.

    Parameters
    ----------
    likelihood : Likelihood
        Prepared.
    codes, weights : ndarray of shape (n,)
        Numbers of the classes, and weights of the rows.
    variance : ndarray of shape (n,)
        r, the same for all outputs.
    distance_weight : float
        κ: one over the number of rows, times the weight of the distances.
    """
    expected_nll = _by_nodes if likelihood.smooth else _robust_max

    def loss(outputs: Array, rows: Index) -> tuple[Array, Array]:
        m = outputs.reshape(-1, outputs.shape[-1])
        positions = rows.ravel()
        nll, slopes = expected_nll(
            likelihood,
            codes[positions],
            m,
            variance[positions],
        )
        gap = m - likelihood.base_latent_
        nll = nll + distance_weight * np.sum(gap**2, axis=1)
        slopes = slopes + 2.0 * distance_weight * gap
        share = weights[rows] / weights[rows].sum(axis=1, keepdims=True)
        values = np.sum(share * nll.reshape(rows.shape), axis=1)
        return values, share[..., np.newaxis] * slopes.reshape(outputs.shape)

    return loss


def _robust_max(
    likelihood: RobustMax,
    y: Array,
    mean: Array,
    variance: Array,
) -> tuple[Array, Array]:
    """Expected nll (n,), and its derivative in the means (n, c); eqs. (69), (70)."""
    log_right = np.log1p(-likelihood.epsilon)
    log_wrong = np.log(likelihood.epsilon / (mean.shape[1] - 1.0))
    # S, the probability that the output of the class y is the largest
    S, slopes, _ = probability_and_slopes(y, mean, variance[:, np.newaxis])
    nll = -log_right * S - log_wrong * (1.0 - S)
    return nll, (log_wrong - log_right) * slopes


def _by_nodes(
    likelihood: Likelihood,
    y: Array,
    mean: Array,
    variance: Array,
) -> tuple[Array, Array]:
    """Expected nll (n,) of a smooth likelihood, and its derivative in the means."""
    nodes, weights = expectation_nodes(mean.shape[1])
    std = np.sqrt(variance)[:, np.newaxis, np.newaxis]
    f = mean[:, :, np.newaxis] + std * nodes.T
    nll = likelihood.row_nll(y, f) @ weights
    slopes = likelihood.row_gradient(y, f) @ weights
    return nll, slopes


# ---- Scores of other classifiers, and of the process ---------------------------------


@dataclass(frozen=True)
class ClassScores:
    """Latent scores (n, n_outputs) from the probabilities of a fitted classifier.

    Parameters
    ----------
    classes : ndarray of shape (K,)
        All labels; a fitted classifier may know some of them only.
    mixed : float
        Share of the uniform distribution in the probabilities, so that none is zero.
    n_outputs : int
        One for log odds, otherwise K; these sum to zero.
    """

    classes: AnyArray
    mixed: float
    n_outputs: int

    def __call__(self, classifier: Any, X: ArrayLike) -> Array:
        """Scores of a fitted classifier at rows X (n, d).

        Raises
        ------
        ValueError
            If it knows none of the classes, or predicts values that are no
            probabilities.
        """
        probabilities = self._probabilities(classifier, X)
        uniform = self.mixed / len(self.classes)
        scores = np.log((1.0 - self.mixed) * probabilities + uniform)
        if self.n_outputs == 1:
            return scores[:, 1:] - scores[:, :1]
        return scores - scores.mean(axis=1, keepdims=True)

    def _probabilities(self, classifier: Any, X: ArrayLike) -> Array:
        """Probabilities of all classes (n, K), zero for those it does not know."""
        labels = np.asarray(classifier.classes_).tolist()
        column_of = {label: column for column, label in enumerate(labels)}
        classes = self.classes.tolist()
        columns = np.array([column_of.get(label, -1) for label in classes])
        if np.all(columns < 0):
            raise ValueError(
                f"The classifier was fitted to the classes {labels}, none of "
                f"which is in y, which has {classes}. Fit it to the same "
                "labels."
            )
        predicted = np.asarray(classifier.predict_proba(X), dtype=np.float64)
        has_shape = predicted.shape == (np.shape(X)[0], len(labels))
        if not has_shape or not np.all(np.isfinite(predicted)):
            raise ValueError(
                f"{classifier!r} must give a finite probability for each of its "
                f"{len(labels)} classes; got NaN, infinity, or shape {predicted.shape}."
            )
        probabilities = np.where(columns >= 0, predicted[:, columns], 0.0)
        total = probabilities.sum(axis=1, keepdims=True)
        return probabilities / np.where(total > 0.0, total, 1.0)


@dataclass(frozen=True)
class BasisScores:
    """``base + φ(x)ᵀw`` (n, c): the mode of the process itself.

    Parameters
    ----------
    basis : Nystroem
    weights : ndarray of shape (m, c)
    base : ndarray of shape (c,)
    """

    basis: Nystroem
    weights: Array
    base: Array

    def __call__(self, X: Array) -> Array:
        """Values (n, c) at the rows of X (n, d)."""
        return self.base + self.basis(X) @ self.weights


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
    posterior : GaussianWeights or WeightParticles
        Distribution of its weights.
    map : InputMap or None
        From rows to the input of the kernel; None for the identity.
    """

    function: Callable[[AnyArray], Any]
    factor: float
    base: Array
    edge: float
    basis: Nystroem
    posterior: WeightDistribution
    map: InputMap | None = None

    @property
    def category_columns(self) -> list[int]:
        """Columns of X with codes of categories, which have no slopes."""
        if self.map is not None:
            return []
        points = self.basis.inducing_points
        return category_columns(self.basis.kernel, points.shape[1])

    def __call__(self, X: AnyArray) -> Array:
        """Values (n, c) at the rows of X (n, d)."""
        return self.of_scores(self.function(X), self.inputs(X))

    def inputs(self, X: AnyArray) -> Array:
        """Inputs of the kernel (n, q) at the rows of X (n, d)."""
        return X if self.map is None else self.map(X)

    def of_scores(self, scores: ArrayLike, inputs: Array) -> Array:
        """Values (n, c) from scores s (n, c), and the inputs of the kernel."""
        values = self.factor * np.asarray(scores) - self.base
        _, variance = self.basis.marginals(self.posterior)(inputs)
        share = share_of_prior(self.basis.kernel, inputs, variance[:, 0, 0])
        return fading(share, self.edge)[:, np.newaxis] * values


@dataclass(frozen=True)
class SharedScores:
    """``base + h(x) (a s(x) - base)`` in each of k states with the same scores s.

    Parameters
    ----------
    states : tuple of FadingScores
    """

    states: tuple[FadingScores, ...]

    @property
    def category_columns(self) -> list[int]:
        """Columns of X with codes of categories, which have no slopes."""
        return self.states[0].category_columns

    def __call__(self, X: AnyArray) -> Array:
        """Values (n, c, k) at the rows of X (n, d)."""
        scores = self.states[0].function(X)
        inputs = self.states[0].inputs(X)
        values = [state.base + state.of_scores(scores, inputs) for state in self.states]
        return np.stack(values, axis=2)


def share_of_prior(kernel: Kernel, X: Array, variance: Array) -> Array:
    """``r(x, x) / k(x, x)`` at the rows of X, between 0 and 1, shape (n,)."""
    prior = kernel.diag(X)
    share: Array = variance / np.where(prior > 0.0, prior, 1.0)
    return np.minimum(share, 1.0)


def fading(prior_share: Array, edge: float) -> Array:
    """Share h of the mean that is kept, from the share of the variance left."""
    if np.isinf(edge):
        return np.ones(len(prior_share))
    h: Array = (1.0 - prior_share) / max(1.0 - edge, 1e-3)
    return np.minimum(h, 1.0)


# ---- Factors of scores and variances, by held-out log loss ---------------------------


class ClassScale(NamedTuple):
    """Calibration on held-out rows.

    Attributes
    ----------
    score_factor : float
        a.
    variance_factor : float
        b.
    edge : float
        Share of the prior variance from which on scores fade; infinite if never. Where
        hyperparameters are averaged that of the state of the largest weight.
    """

    score_factor: float = 1.0
    variance_factor: float = 1.0
    edge: float = 0.0


class HeldOutScores(NamedTuple):
    """Held-out rows, and their latent distribution in each of k states.

    ``f = base + h (a s - base) + √(b r) ε`` with ε standard normal. A state has a
    process and its weight; a single one if hyperparameters are chosen.

    Attributes
    ----------
    codes, weights : ndarray of shape (n,)
        Numbers of the classes, and weights of the rows.
    scores : ndarray of shape (n, c, k) or (n, c, 1)
        s, in the latter case of all states.
    base : ndarray of shape (c, k)
    fading : ndarray of shape (n, k)
        h, the share of the mean that is kept.
    variance : ndarray of shape (n, k)
        r of the process without the row.
    state_weights : ndarray of shape (k,)
        They sum to one.
    """

    codes: Array
    weights: Array
    scores: Array
    base: Array
    fading: Array
    variance: Array
    state_weights: Array

    def latent(self, scale: ClassScale) -> LatentMixture:
        """Scaled distribution of the latent values."""
        h = self.fading[:, np.newaxis]
        mean = self.base + h * (scale.score_factor * self.scores - self.base)
        variance = scale.variance_factor * self.variance[:, np.newaxis]
        return LatentMixture(mean, variance, self.state_weights)


def fit_class_scale(
    likelihood: Likelihood,
    held_out: HeldOutScores,
    *,
    scores_are_free: bool = True,
    variance_is_free: bool = True,
) -> ClassScale:
    """Factors of scores and variances with the lowest held-out log loss.

    Minimises their log loss plus ``(log² a + log² b) / 2``, half a nat at a factor of
    e: rows that do not identify them leave them near one. Under RobustMax, which is
    invariant to the scale of f, only b moves if it is free, as in the paper. Fewer than
    ten rows leave both at one.

    Parameters
    ----------
    likelihood : Likelihood
    held_out : HeldOutScores
    scores_are_free, variance_is_free : bool
        Whether a and b may move.
    """
    if len(held_out.codes) < 10:
        return ClassScale()
    if not likelihood.smooth and variance_is_free:
        scores_are_free = False
    is_free = np.array([scores_are_free, variance_is_free])
    n_free = int(is_free.sum())
    if n_free == 0:
        return ClassScale()

    def scale(u: Array) -> ClassScale:
        # u = (log a, log b), those of them that are free
        logs = np.zeros(2)
        logs[is_free] = u
        a, b = np.exp(logs)
        return ClassScale(score_factor=float(a), variance_factor=float(b))

    def loss(u: Array) -> float:
        losses = log_losses(scale(u), likelihood, held_out)
        return float(held_out.weights @ losses + 0.5 * u @ u)

    optimum = minimize(
        loss,
        np.zeros(n_free),
        method="L-BFGS-B",
        bounds=[(-7.0, 7.0)] * n_free,
        # the rules of probabilities change by some 1e-6 where they are refined
        options={"maxiter": 30, "eps": 1e-3, "ftol": 1e-9},
    )
    return scale(optimum.x)


def log_losses(
    scale: ClassScale,
    likelihood: Likelihood,
    held_out: HeldOutScores,
) -> Array:
    """Log loss of each row (n,) under the scaled distribution."""
    mixture = held_out.latent(scale)
    if not (likelihood.smooth and likelihood.n_outputs_ > 1):
        return -likelihood.predictive_log_density(held_out.codes, mixture)
    # a rule with fixed nodes, shared by the states: smooth in the factors, and fast
    n_nodes = max(128 // len(mixture.weights), 32)
    values, weights = atoms(mixture, n_nodes)
    density = np.exp(-likelihood.row_nll(held_out.codes, values)) @ weights
    return -np.log(np.maximum(density, 1e-300))
