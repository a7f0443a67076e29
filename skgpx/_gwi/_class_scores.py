"""Latent scores of classifiers of others, and how they fade away from the data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline

from skgpx._draws import InputMap
from skgpx._gwi._kernel_inputs import TableForm
from skgpx._numerics.weights import GaussianWeights

Array = NDArray[np.float64]

# What is tried as the share of the even law in probabilities: those that are zero or
# one would be infinite scores.
MIXED = 10.0 ** -np.arange(8.0, 0.0, -1.0)
# Least share of the mean that a row at the fading's edge keeps.
_LEAST_EXPLAINED = 1e-3


class ClassResponse:
    """What a fitted classifier says of rows, one column for each class.

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
            If it knows none of the classes, has neither of the two methods, or values
            of another shape.
        """
        known = np.asarray(fitted.classes_)
        columns = _columns(known, self.classes)
        values = _values(fitted, X, len(known))
        out = np.full((len(values), len(self.classes)), _absent(fitted, values))
        out[:, columns >= 0] = values[:, columns[columns >= 0]]
        return out


def says_probabilities(classifier: Any) -> bool:
    """Whether probabilities are read, rather than a decision function."""
    return hasattr(classifier, "predict_proba")


def _columns(known: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.intp]:
    """Column of each class among those a classifier knows, or -1."""
    position = {label: i for i, label in enumerate(known.tolist())}
    columns = np.array([position.get(label, -1) for label in classes.tolist()])
    if np.all(columns < 0):
        raise ValueError(
            f"The classifier knows the classes {known.tolist()}, none of which is in y,"
            f" which has {classes.tolist()}. Fit it to the same labels."
        )
    return columns


def _values(fitted: Any, X: Any, n_known: int) -> Array:
    """(n, n_known) of `predict_proba` or `decision_function`."""
    if says_probabilities(fitted):
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
    """Three classes have three pairs: their shape does not tell them apart."""
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
    """What stands for a class that the classifier does not know."""
    return 0.0 if says_probabilities(fitted) else float(values.min())


def latent_scores(responses: Array, mixed: float | None, n_outputs: int) -> Array:
    """Latent values (n, n_outputs) from what a classifier says (n, K).

    Parameters
    ----------
    responses : ndarray of shape (n, K)
    mixed : float or None
        Share of the even law in probabilities; None where they are scores already.
    n_outputs : int
        One for log odds, otherwise K; these sum to zero.
    """
    scores = responses
    if mixed is not None:
        total = responses.sum(axis=1, keepdims=True)
        share = responses / np.where(total > 0.0, total, 1.0)
        scores = np.log((1.0 - mixed) * share + mixed / responses.shape[1])
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
    respond : ClassResponse
    mixed : float or None
    n_outputs : int
    """

    estimator: Any
    form: TableForm
    respond: ClassResponse
    mixed: float | None
    n_outputs: int

    def __call__(self, X: NDArray[Any]) -> Array:
        """Values (n, n_outputs) at the rows of X (n, d)."""
        said = self.respond(self.estimator, self.form.table(X))
        return latent_scores(said, self.mixed, self.n_outputs)


@dataclass(frozen=True)
class FadingScores:
    """``h(x) (a s(x) - base)``: scores that return to the base away from the data.

    With ``ρ = r(x, x) / k(x, x)`` the share of the prior variance that is left, ``h =
    min(1, (1 - ρ) / (1 - ρ₀))``: all of the mean where rows are no farther from the
    data than rows held out were, nothing where the data say nothing.

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
    law : GaussianWeights
    map : InputMap or None
        From rows to what the kernel sees; None if it sees them as they are.
    """

    function: Callable[[NDArray[Any]], Any]
    factor: float
    base: Array
    edge: float | None
    basis: Any
    law: GaussianWeights
    map: InputMap | None = None

    def __call__(self, X: NDArray[Any]) -> Array:
        """Values (n, c) at the rows of X (n, d)."""
        values = self.factor * np.asarray(self.function(X)) - self.base
        if self.edge is None:
            return values
        seen = X if self.map is None else self.map(X)
        left = share_left(self.basis, self.law, seen)
        return fading(left, self.edge)[:, np.newaxis] * values


def share_left(basis: Any, law: GaussianWeights, X: Array) -> Array:
    """``r(x, x) / k(x, x)`` at the rows of X, between 0 and 1, shape (n,)."""
    _, variance = basis.marginals(law)(X)
    prior = basis.kernel.diag(X)
    share: Array = variance[:, 0, 0] / np.where(prior > 0.0, prior, 1.0)
    return np.minimum(share, 1.0)


def fading(left: Array, edge: float) -> Array:
    """Share h of the mean that is kept, from the share of the variance left."""
    kept: Array = (1.0 - left) / max(1.0 - edge, _LEAST_EXPLAINED)
    return np.minimum(kept, 1.0)
