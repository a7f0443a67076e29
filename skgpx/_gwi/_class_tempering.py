"""Sizes of scores and variances of classes, by the log loss of rows held out."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize, minimize_scalar
from scipy.special import log_softmax

from skgpx._gwi._class_scores import MIXED, fading, latent_scores
from skgpx._numerics.mixture import LatentMixture, atoms
from skgpx._validation import warn
from skgpx.exceptions import FitWarning
from skgpx.likelihoods import Categorical, Likelihood, RobustMax

Array = NDArray[np.float64]

# Standard deviation of the logarithms of both factors a priori: rows that do not tell
# the two apart leave them near one.
_PRIOR_STD = 2.0
# Largest factor of either, as a logarithm; iterations of the search, step of its
# differences: the rules of probabilities change by some 1e-6 where they are refined.
_FARTHEST, _MAX_ITER, _STEP = 7.0, 30, 1e-3
# Logarithms of factors of scores without a law around them.
_TEMPERATURES = (-3.0, 3.0)
# Points of the search where probabilities have no fast rule.
_POINTS = 128
# Share of the rows held out within which the mean does not fade.
WITHIN = 0.95


class ClassTemper(NamedTuple):
    """How the law was fitted to rows held out: ``f ~ N(base + h (a s - base), b r)``.

    Attributes
    ----------
    score_factor : float
        a.
    variance_factor : float
        b.
    edge : float or None
        Share of the prior variance from which on scores fade; None: they do not.
    mixed : float or None
        Share of the even law in the probabilities of a classifier; None: not mixed.
    """

    score_factor: float = 1.0
    variance_factor: float = 1.0
    edge: float | None = None
    mixed: float | None = None


class Judges(NamedTuple):
    """Rows held out.

    Attributes
    ----------
    codes, weights : ndarray of shape (n,)
    scores : ndarray of shape (n, c)
        Of means that were not trained on them.
    variance, left : ndarray of shape (n,)
        r of a law that does not know them, and ``r / k``.
    """

    codes: Array
    weights: Array
    scores: Array
    variance: Array
    left: Array


def edge_of(judges: Judges) -> float:
    """Share of the prior variance that 95 % of the judges are below."""
    if not len(judges.left):
        return 0.0
    order = np.argsort(judges.left, kind="stable")
    level = np.cumsum(judges.weights[order])
    place = np.searchsorted(level, WITHIN * level[-1])
    return float(judges.left[order][min(place, len(order) - 1)])


def best_mixture(responses: Array, codes: Array, weights: Array) -> float:
    """Share of the even law at which probabilities predict rows best, once tempered.

    The smallest that is tried if there are no rows.
    """
    own = np.arange(len(codes)), codes.astype(np.intp)
    losses = []
    for mixed in MIXED:
        scores = latent_scores(responses, mixed, responses.shape[1])

        def loss(u: float, scores: Array = scores) -> float:
            logs = log_softmax(np.exp(u) * scores, axis=1)[own]
            return float(0.5 * (u / _PRIOR_STD) ** 2 - weights @ logs)

        found = minimize_scalar(loss, bounds=_TEMPERATURES, method="bounded")
        losses.append(found.fun)
    return float(MIXED[int(np.argmin(losses))])


def temper(judges: Judges, likelihood: Likelihood, edge: float | None) -> ClassTemper:
    """Factors of scores and variances that predict the judges best.

    Minimises their log loss plus ``(log² a + log² b) / 8``, half a nat at a factor of
    seven. Under RobustMax, which knows no unit of f, only b moves, as in the paper.
    """
    one_factor = isinstance(likelihood, RobustMax)

    def loss(u: Array) -> float:
        found = ClassTemper(*_factors(u, one_factor), edge)
        total = judges.weights @ log_losses(judges, likelihood, found)
        return float(total + 0.5 * np.sum((u / _PRIOR_STD) ** 2))

    found = minimize(
        loss,
        np.zeros(1 if one_factor else 2),
        method="L-BFGS-B",
        bounds=[(-_FARTHEST, _FARTHEST)] * (1 if one_factor else 2),
        options={"maxiter": _MAX_ITER, "eps": _STEP, "ftol": 1e-9},
    )
    return ClassTemper(*_factors(found.x, one_factor), edge)


def log_losses(judges: Judges, likelihood: Likelihood, found: ClassTemper) -> Array:
    """Log loss of each judge (n,) under the tempered law."""
    base, edge = likelihood.base_latent_, found.edge
    kept = np.ones(len(judges.codes)) if edge is None else fading(judges.left, edge)
    mean = base + kept[:, np.newaxis] * (found.score_factor * judges.scores - base)
    variance = found.variance_factor * judges.variance
    return -log_probabilities(likelihood, judges.codes, mean, variance)


def warn_at_bound(found: ClassTemper) -> None:
    """Say so if the factor of the variance is the largest that is searched."""
    if np.log(found.variance_factor) < _FARTHEST - _STEP:
        return
    warn(
        "The rows held out ask for a variance of the process that is more than "
        f"{found.variance_factor:.0f} times that of the kernel, the largest factor "
        "that is searched: the mean is wrong where it is certain, or the variance of "
        "the kernel far too small. Pass a mean that is less certain (more regularised, "
        'calibrated), a kernel of larger variance, or optimizer="evidence".',
        FitWarning,
    )


def _factors(u: Array, one_factor: bool) -> tuple[float, float]:
    return (1.0 if one_factor else float(np.exp(u[0]))), float(np.exp(u[-1]))


def log_probabilities(
    likelihood: Likelihood, codes: Array, mean: Array, variance: Array
) -> Array:
    """``log P(y)`` of normal latent laws (n,); a rule of few points for the softmax."""
    law = LatentMixture(
        mean[:, :, np.newaxis], variance[:, np.newaxis, np.newaxis], np.ones(1)
    )
    if not isinstance(likelihood, Categorical):
        return likelihood.predictive_log_density(codes, law)
    values, weights = atoms(law, _POINTS)
    share = np.exp(-likelihood.row_nll(codes, values)) @ weights
    return np.asarray(np.log(np.maximum(share, 1e-300)))
