"""Means that are networks: trained side by side on parts of the rows, and averaged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics.adam import adam_step, cosine_decay
from skgpx._numerics.perceptron import Perceptron
from skgpx._numerics.rows import InputFrame

Array = NDArray[np.float64]
Index = NDArray[np.intp]
# Maps outputs (k, b, c) of k networks at rows (k, b) to the loss (k,) of each and its
# derivatives in the outputs.
Loss = Callable[[Array, Index], tuple[Array, Array]]
# The average of the networks, its predictions at the rows of `hold_out`, and fitted
# attributes of an estimator.
Trained = tuple[Callable[[Array], Array], Array, dict[str, Any]]

# Rows of a step of Adam, and rounds of a training: after each the held-out loss is
# computed and callbacks run. A network stops after so many rounds without a lower loss.
_BATCH, _ROUNDS, _PATIENCE = 200, 50, 10


@dataclass(frozen=True)
class MeanOfNetworks:
    """Average (n, c) of networks at rows X (n, d).

    Parameters
    ----------
    parameters : ndarray of shape (k, p)
        Of each network.
    network : Perceptron
    frame : InputFrame
        Standardises the rows.
    """

    parameters: Array
    network: Perceptron
    frame: InputFrame

    def __call__(self, X: Array) -> Array:
        """Values (n, c)."""
        values: Array = self.network(self.parameters, self.frame(X)).mean(axis=0)
        return values


def hold_out(
    n: int,
    fraction: float,
    n_estimators: int,
    rng: np.random.Generator,
) -> Index:
    """Rows (k, h) that are held out: a part of at most 2000 for each network.

    Networks share parts where there are fewer. Fewer than twenty rows have none.
    """
    size = min(round(fraction * n), 2000) if n >= 20 else 0
    k = min(n_estimators, n // size) if size else 0
    return rng.permutation(n)[: k * size].reshape(k, size)


def squared_error(targets: Array, weights: Array) -> Loss:
    """``Σ w |f - t|² / (2 Σ w)`` over the rows of a batch, t of shape (n, c)."""

    def loss(outputs: Array, rows: Index) -> tuple[Array, Array]:
        gap, w = outputs - targets[rows], weights[rows][..., np.newaxis]
        slopes = w * gap / w.sum(axis=1, keepdims=True)
        return 0.5 * np.sum(slopes * gap, axis=(1, 2)), slopes

    return loss


def stays_behind(gains: list[float]) -> bool:
    """Whether training can end: held-out rows gain nothing from networks by its end.

    Parameters
    ----------
    gains : list of float
        Of networks over another mean after each round. Progress slows down: at the
        pace of the last rounds a gain is reached sooner than it would be.
    """
    if len(gains) <= _PATIENCE:
        return False
    pace = (gains[-1] - gains[-1 - _PATIENCE]) / _PATIENCE
    return gains[-1] + pace * (_ROUNDS - len(gains)) < 0.0


def train_networks(
    X: Array,
    weights: Array,
    parts: Index,
    loss: Loss,
    n_outputs: int,
    given: Any,
    max_iter: int,
    rng: np.random.Generator,
    report: Callable[[Callable[[], Trained]], bool],
) -> Trained:
    """Train networks from several starts, side by side.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    weights : ndarray of shape (n,)
        For the standardisation of X.
    parts : ndarray of int of shape (k, h)
        Of :func:`hold_out`. The lowest loss of each network at its held-out rows ends
        its training.
    loss : callable
    n_outputs : int
    given : GWIRegressor or GWIClassifier
        With the parameters of its networks.
    max_iter : int
        Largest number of epochs.
    rng : numpy.random.Generator
    report : callable
        Called after each round with a function that returns what training would return
        now; training stops if it returns True.
    """
    frame = InputFrame.of(X, weights)
    # in single precision: tanh takes most of the time, and a quarter of it then
    X = frame(X).astype(np.float32)
    network = Perceptron((X.shape[1], *_layers(given.hidden_layer_sizes), n_outputs))
    K = given.n_estimators
    own = np.arange(K) % max(len(parts), 1)
    held_out = parts[own] if len(parts) else np.empty((K, 0), np.intp)
    training = np.stack([np.setdiff1d(np.arange(len(X)), part) for part in held_out])
    theta = np.stack([network.start(stream) for stream in rng.spawn(K)])
    theta = theta.astype(np.float32)
    moments = np.zeros((2, *theta.shape), np.float32)
    best, best_epoch = theta.copy(), np.zeros(K, np.intp)
    lowest, behind = np.full(K, np.inf), np.zeros(K, np.intp)
    losses, scores = np.full((K, max_iter), np.nan), list[Array]()
    rounds = np.unique(np.linspace(0, max_iter, _ROUNDS + 1).astype(int))

    def trained() -> Trained:
        values = np.empty((len(parts), held_out.shape[1], n_outputs))
        outputs = network(best, X[held_out])
        for k in range(len(parts)):
            values[k] = outputs[own == k].mean(axis=0)
        attributes = {
            "loss_curve_": _mean_curve(losses),
            "validation_curve_": _mean_curve(np.array(scores).T),
            "n_iter_": int(best_epoch.max()),
        }
        mean = MeanOfNetworks(best.astype(np.float64), network, frame)
        return mean, values.reshape(-1, n_outputs), attributes

    for begin, end in pairwise(rounds):
        on = np.flatnonzero(behind <= _PATIENCE)
        if not len(on):
            break
        state = theta[on], moments[0][on], moments[1][on]
        how = network, X, training[on], loss, given, max_iter
        losses[on, begin:end] = _train(*how, range(begin, end), state, rng).T
        theta[on], moments[:, on] = state[0], state[1:]
        score, improved = np.full(K, np.nan), on
        if held_out.size:
            here = held_out[on]
            score[on] = loss(network(theta[on], X[here]), here)[0]
            improved = np.flatnonzero(score < lowest)
            scores.append(score)
        behind[on] += 1
        behind[improved], best_epoch[improved] = 0, end
        best[improved], lowest[improved] = theta[improved], score[improved]
        if report(trained):
            break
    return trained()


def _train(
    network: Perceptron,
    X: Array,
    training: Index,
    loss: Loss,
    given: Any,
    max_iter: int,
    epochs: range,
    state: tuple[Array, ...],
    rng: np.random.Generator,
) -> Array:
    """Mean losses (epochs, k) of epochs of Adam, which move the state in place.

    `training` holds the rows (k, n) of each network, the state its parameters and the
    moments of their gradients.
    """
    decay: Any = np.zeros(network.n_parameters, np.float32)
    for layer, _ in network.layers(decay):
        layer[:] = given.alpha
    losses, n = np.zeros((len(epochs), len(training))), training.shape[1]
    n_batches = -(-n // _BATCH)
    for epoch, mean in zip(epochs, losses, strict=True):
        order = rng.permuted(training, axis=1)
        for i, rows in enumerate(np.array_split(order, n_batches, axis=1)):
            outputs, pullback = network.with_pullback(state[0], X[rows])
            values, slopes = loss(outputs, rows)
            gradient, _ = pullback(slopes.astype(decay.dtype))
            gradient += decay * state[0]
            step = epoch * n_batches + i
            rate = cosine_decay(step, max_iter * n_batches, given.learning_rate_init)
            adam_step(state[0], gradient, *state[1:], step + 1, rate)
            mean += values * rows.shape[1] / n
    return losses


def _layers(sizes: Any) -> tuple[int, ...]:
    """Sizes of the hidden layers; a ValueError unless they are positive integers."""
    layers = tuple(np.atleast_1d(np.asarray(sizes, dtype=object)))
    if not all(isinstance(size, Integral) and int(size) > 0 for size in layers):
        raise ValueError(
            "hidden_layer_sizes must be positive integers, one for each hidden layer, "
            f"such as (10, 10); got {sizes!r}."
        )
    return tuple(int(size) for size in layers)


def _mean_curve(curves: Array) -> Array:
    """Mean of the networks (k, n) that were trained so long."""
    there = np.any(np.isfinite(curves), axis=0) if curves.size else np.empty(0, bool)
    return np.nanmean(curves[:, there], axis=0) if curves.size else np.empty(0)
