"""Means that are networks: trained side by side on parts of the rows, and averaged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from skgpx._numerics.adam import adam_step, cosine_decay
from skgpx._numerics.perceptron import Perceptron
from skgpx._numerics.rows import InputFrame
from skgpx._shell.validation import Rows, check_layer_sizes
from skgpx._types import Array, Attributes, Generator, Index

# Maps outputs (k, b, c) of k networks at rows (k, b) to the loss (k,) of each and its
# derivatives in the outputs.
Loss = Callable[[Array, Index], tuple[Array, Array]]

# Rounds of a training: after each the held-out loss is computed and callbacks run.
_ROUNDS = 50
# A network stops after so many rounds without a lower loss.
_PATIENCE = 10


@dataclass(frozen=True)
class MeanOfNetworks:
    """Average (n, c) of networks at rows X (n, d).

    Parameters
    ----------
    parameters : ndarray of shape (k, p)
        Parameters of each network.
    network : Perceptron
    frame : InputFrame
        Standardises the rows.
    """

    parameters: Array
    network: Perceptron
    frame: InputFrame

    def __call__(self, X: Array) -> Array:
        """Values (n, c)."""
        return self.network(self.parameters, self.frame(X)).mean(axis=0)


class TrainedNetworks(NamedTuple):
    """What training gives.

    Attributes
    ----------
    mean : callable
        The average of the networks.
    held_out_values : ndarray of shape (k h, c)
        Its predictions at the rows of :func:`hold_out`, by networks that did not see
        them.
    curves : dict
        Fitted attributes of the estimator.
    """

    mean: Callable[[Array], Array]
    held_out_values: Array
    curves: Attributes


# Called with a function that returns what training would return now; training stops if
# it returns True.
Report = Callable[[Callable[[], TrainedNetworks]], bool]


def hold_out(
    n: int,
    fraction: float,
    n_estimators: int,
    rng: Generator,
) -> Index:
    """Rows (k, h) that are held out: a part of at most 2000 for each network.

    Networks share parts where there are fewer. Fewer than twenty rows have none.
    """
    size = 0
    if n >= 20:
        size = min(round(fraction * n), 2000)
    n_parts = 0
    if size > 0:
        n_parts = min(n_estimators, n // size)
    return rng.permutation(n)[: n_parts * size].reshape(n_parts, size)


def squared_error(targets: Array, weights: Array) -> Loss:
    """``Σ w |f - t|² / (2 Σ w)`` over the rows of a batch, t of shape (n, c)."""

    def loss(outputs: Array, rows: Index) -> tuple[Array, Array]:
        gap = outputs - targets[rows]
        w = weights[rows][..., np.newaxis]
        slopes = w * gap / w.sum(axis=1, keepdims=True)
        return 0.5 * np.sum(slopes * gap, axis=(1, 2)), slopes

    return loss


def stays_behind(gains: list[float]) -> bool:
    """Whether training can end: held-out rows gain nothing from networks by its end.

    Parameters
    ----------
    gains : list of float
        Gains of networks over another mean after each round. Progress slows down: at
        the pace of the last rounds a gain is reached sooner than it would be.
    """
    if len(gains) <= _PATIENCE:
        return False
    pace = (gains[-1] - gains[-1 - _PATIENCE]) / _PATIENCE
    return gains[-1] + pace * (_ROUNDS - len(gains)) < 0.0


def train_networks(
    settings: BaseEstimator,
    rows: Rows,
    parts: Index,
    loss: Loss,
    n_outputs: int,
    max_iter: int,
    rng: Generator,
    report: Report,
) -> TrainedNetworks:
    """Train networks from several starts, side by side.

    Parameters
    ----------
    settings : GWIRegressor or GWIClassifier
        With its parameters `n_estimators`, `hidden_layer_sizes`, `alpha` and
        `learning_rate_init`.
    rows : Rows
        With weights for the standardisation of X.
    parts : ndarray of int of shape (k, h)
        From :func:`hold_out`. The lowest loss of each network at its held-out rows ends
        its training.
    loss : callable
    n_outputs : int
    max_iter : int
        Largest number of epochs.
    rng : numpy.random.Generator
    report : callable
        Called after each round.
    """
    # 1  Standardised rows, in single precision: tanh takes most of the time, and a
    # quarter of it then.
    frame = InputFrame.of(rows.X, rows.weights)
    X: Array = frame(rows.X).astype(np.float32)

    # 2  Each network has a start, and a part of the rows that is held out.
    n_networks = settings.n_estimators
    layers = check_layer_sizes(settings.hidden_layer_sizes)
    network = Perceptron((X.shape[1], *layers, n_outputs))
    part_of_network = np.arange(n_networks) % max(len(parts), 1)
    held_out = np.empty((n_networks, 0), np.intp)
    if len(parts):
        held_out = parts[part_of_network]
    training = np.stack([np.setdiff1d(np.arange(len(X)), part) for part in held_out])
    starts = [network.start(stream) for stream in rng.spawn(n_networks)]
    theta = np.stack(starts).astype(X.dtype)
    # parameters, and their two running means of Adam
    state = np.stack((theta, np.zeros_like(theta), np.zeros_like(theta)))
    theta = state[0]

    # 3  The best of each network so far, by its held-out loss.
    best_theta = theta.copy()
    best_epoch = np.zeros(n_networks, np.intp)
    lowest_loss = np.full(n_networks, np.inf)
    n_rounds_without_gain = np.zeros(n_networks, np.intp)
    training_losses = np.full((n_networks, max_iter), np.nan)
    held_out_losses: list[Array] = []

    def current_result() -> TrainedNetworks:
        values = np.empty((len(parts), held_out.shape[1], n_outputs))
        outputs = network(best_theta, X[held_out])
        for k in range(len(parts)):
            values[k] = outputs[part_of_network == k].mean(axis=0)
        return TrainedNetworks(
            mean=MeanOfNetworks(best_theta.astype(np.float64), network, frame),
            held_out_values=values.reshape(-1, n_outputs),
            curves={
                "loss_curve_": _mean_curve(training_losses),
                "validation_curve_": _mean_curve(np.array(held_out_losses).T),
                "n_iter_": int(best_epoch.max()),
            },
        )

    rounds = np.unique(np.linspace(0, max_iter, _ROUNDS + 1).astype(int))
    for first_epoch, last_epoch in pairwise(rounds):
        active = np.flatnonzero(n_rounds_without_gain <= _PATIENCE)
        if not len(active):
            break
        # 4  Epochs of Adam, for all networks that still gain.
        state_of_active = state.take(active, axis=1)
        training_losses[active, first_epoch:last_epoch] = _train(
            settings,
            network,
            X,
            training[active],
            loss,
            max_iter=max_iter,
            epochs=range(first_epoch, last_epoch),
            state=state_of_active,
            rng=rng,
        ).T
        state[:, active] = state_of_active

        # 5  The held-out loss.
        round_losses = np.full(n_networks, np.nan)
        improved = active
        if held_out.size:
            active_rows = held_out[active]
            outputs = network(theta[active], X[active_rows])
            round_losses[active], _ = loss(outputs, active_rows)
            improved = np.flatnonzero(round_losses < lowest_loss)
            held_out_losses.append(round_losses)
        n_rounds_without_gain[active] += 1
        n_rounds_without_gain[improved] = 0
        best_epoch[improved] = last_epoch
        best_theta[improved] = theta[improved]
        lowest_loss[improved] = round_losses[improved]
        if report(current_result):
            break
    return current_result()


def _train(
    settings: BaseEstimator,
    network: Perceptron,
    X: Array,
    training: Index,
    loss: Loss,
    max_iter: int,
    epochs: range,
    state: Array,
    rng: Generator,
) -> Array:
    """Mean losses (epochs, k) of epochs of Adam, which move the state in place.

    `training` holds the rows (k, n) of each network.
    """
    parameters, first_moment, second_moment = state
    n_networks, n = training.shape
    # rows of a step of Adam
    n_batches = -(-n // 200)
    # The L2 penalty of the weights; biases have none.
    penalty = np.zeros(network.n_parameters, X.dtype)
    for layer, _ in network.layers(penalty):
        layer[:] = settings.alpha
    losses = np.zeros((len(epochs), n_networks))
    for epoch, epoch_loss in zip(epochs, losses, strict=True):
        order = rng.permuted(training, axis=1)
        batches = np.array_split(order, n_batches, axis=1)
        for batch, rows in enumerate(batches):
            outputs, pullback = network.with_pullback(parameters, X[rows])
            values, slopes = loss(outputs, rows)
            gradient, _ = pullback(slopes.astype(penalty.dtype))
            gradient += penalty * parameters
            step = epoch * n_batches + batch
            rate = cosine_decay(
                step,
                max_iter * n_batches,
                settings.learning_rate_init,
            )
            adam_step(
                parameters,
                gradient,
                first_moment,
                second_moment,
                step + 1,
                rate,
            )
            epoch_loss += values * rows.shape[1] / n
    return losses


def _mean_curve(curves: Array) -> Array:
    """Mean of the networks (k, n) that were trained so long."""
    if not curves.size:
        return np.empty(0)
    is_trained = np.any(np.isfinite(curves), axis=0)
    return np.nanmean(curves[:, is_trained], axis=0)
