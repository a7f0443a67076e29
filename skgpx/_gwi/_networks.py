"""Means that are networks: trained side by side on parts of the rows, and averaged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics.adam import adam_step, cosine_decay
from skgpx._numerics.perceptron import (
    COLUMNS,
    Perceptron,
    add_weight_decay,
    average_outputs,
    backward,
    forward,
    gather,
    squared_error_epoch,
)
from skgpx._numerics.spread import InputFrame
from skgpx._parallel import workers

Array = NDArray[np.float64]
Index = NDArray[np.intp]
Loss = Callable[[Array, Index], tuple[float, Array]]

# Rows of a step of Adam, and rounds of a training: after each the held-out loss is
# computed and callbacks run. A network stops after so many rounds without a lower loss.
_BATCH, _ROUNDS, _PATIENCE = 100, 50, 20
# Fewest rows of which some are held out, and most rows that are.
_MIN_ROWS, _MOST_HELD_OUT = 20, 2000


class NetworkSettings(NamedTuple):
    """Parameters of networks, with the names of `GWIRegressor`."""

    hidden_layer_sizes: tuple[int, ...]
    n_estimators: int
    alpha: float
    learning_rate_init: float
    max_iter: int

    @classmethod
    def of(cls, estimator: Any, max_iter: int) -> NetworkSettings:
        """Those of an estimator.

        Raises
        ------
        ValueError
            If the sizes of layers are not positive integers.
        """
        given = estimator.hidden_layer_sizes
        sizes = tuple(np.atleast_1d(np.asarray(given, dtype=object)))
        if not all(isinstance(size, Integral) and size > 0 for size in sizes):
            raise ValueError(
                "hidden_layer_sizes must be positive integers, one for each hidden "
                f"layer, such as (10, 10); got {given!r}."
            )
        return cls(
            tuple(int(size) for size in sizes),
            estimator.n_estimators,
            estimator.alpha,
            estimator.learning_rate_init,
            max_iter,
        )


class SquaredError(NamedTuple):
    """``Σ w |f - t|² / (2 Σ w)`` over the rows of a batch.

    Attributes
    ----------
    targets : ndarray of shape (n, c)
    weights : ndarray of shape (n,)
    """

    targets: Array
    weights: Array

    def __call__(self, outputs: Array, rows: Index) -> tuple[float, Array]:
        """Value, and its derivative in the outputs (len(rows), c) of these rows."""
        gap, weights = outputs - self.targets[rows], self.weights[rows, np.newaxis]
        total = float(weights.sum())
        return float(np.sum(weights * gap**2)) / (2.0 * total), weights * gap / total


@dataclass(frozen=True)
class NetworkMean:
    """Average of networks, as a function of inputs in their own units.

    Parameters
    ----------
    frame : InputFrame
        Squashes and standardises the columns.
    sizes : ndarray of int
        Units of each layer, inputs and outputs included.
    parameters : ndarray of shape (n_networks, n_parameters)
    """

    frame: InputFrame
    sizes: Index
    parameters: Array

    def __call__(self, X: Array) -> Array:
        """Values (n, c) at the rows of X (n, d)."""
        outputs = np.zeros((len(X), self.sizes[-1]))
        average_outputs(self.frame(X), self.parameters, self.sizes, False, outputs)
        return outputs


class Networks(NamedTuple):
    """Networks after training.

    Attributes
    ----------
    mean : NetworkMean
    values : ndarray of shape (n, c)
        At the rows: of the networks that hold a row out, where there are any.
    loss_curve : ndarray of shape (n_epochs,)
        Mean over the networks of the loss of each epoch.
    validation_curve : ndarray of shape (n_rounds,)
        Mean over the networks of their held-out loss.
    n_iter : int
        Largest number of epochs behind the networks.
    """

    mean: NetworkMean
    values: Array
    loss_curve: Array
    validation_curve: Array
    n_iter: int

    def attributes(self) -> dict[str, Any]:
        """Fitted attributes of an estimator."""
        return {
            "loss_curve_": self.loss_curve,
            "validation_curve_": self.validation_curve,
            "n_iter_": self.n_iter,
        }


def hold_out(
    n: int, fraction: float, n_estimators: int, rng: np.random.Generator
) -> Index:
    """The split of the rows of a fit: the part of each, -1 of rows never held out.

    Each network holds out one part, which others are trained on. Fewer than twenty rows
    have no parts.
    """
    parts = np.full(n, -1)
    size = min(round(fraction * n), _MOST_HELD_OUT) if n >= _MIN_ROWS else 0
    if size:
        order = rng.permutation(n)
        for k in range(min(n_estimators, n // size)):
            parts[order[k * size : (k + 1) * size]] = k
    return parts


def train_networks(
    X: Array,
    weights: Array,
    parts: Index,
    loss: Loss,
    n_outputs: int,
    settings: NetworkSettings,
    rng: np.random.Generator,
    n_jobs: int | None,
    report: Callable[[Callable[[], Networks]], bool],
) -> Networks:
    """Train networks from several starts.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    weights : ndarray of shape (n,)
        For the standardisation of X.
    parts : ndarray of int of shape (n,)
        Of :func:`hold_out`. The lowest loss of each network at its held-out rows ends
        its training.
    loss : callable
        Maps outputs (b, c) and the numbers (b,) of their rows to the loss of this batch
        and its derivatives in the outputs. A `SquaredError` is trained by compiled
        epochs.
    n_outputs : int
    settings : NetworkSettings
    rng : numpy.random.Generator
    n_jobs : int or None
        Threads over networks; the same bits for every number.
    report : callable
        Called after each round with a function that returns the current networks;
        training stops if it returns True.
    """
    frame = InputFrame.of(X, weights)
    network = Perceptron((X.shape[1], *settings.hidden_layer_sizes, n_outputs))
    problem = _Problem(np.ascontiguousarray(frame(X)), loss, network, settings)
    n_parts = max(int(parts.max()) + 1, 1)
    states = [
        _Training(network.start(stream), stream, parts == k % n_parts)
        for k, stream in enumerate(rng.spawn(settings.n_estimators))
    ]

    def trained() -> Networks:
        parameters = np.stack([state.best for state in states])
        values = problem.outputs(parameters)
        for k in range(parts.max() + 1):
            own = [state.best for state in states[k::n_parts]]
            values[parts == k] = problem.outputs(np.stack(own), parts == k)
        return Networks(
            NetworkMean(frame, np.array(network.sizes), parameters),
            values,
            _mean_curve([state.losses for state in states]),
            _mean_curve([state.scores for state in states]),
            max(state.best_epoch for state in states),
        )

    rounds = np.linspace(0, settings.max_iter, _ROUNDS + 1).astype(int)
    with workers(n_jobs, in_threads=True) as run:
        for last in np.unique(rounds)[1:]:
            active = [s for s in states if s.behind <= _PATIENCE]
            run(problem.advance, [(state, last) for state in active])
            if not active or report(trained):
                break
    return trained()


@dataclass
class _Training:
    """One network, where its training is, and the best of it so far."""

    parameters: Array
    rng: np.random.Generator
    held_out: NDArray[np.bool_]
    epoch: int = 0
    n_steps: int = 0
    behind: int = 0
    best: Array = field(init=False)
    best_epoch: int = 0
    losses: list[float] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        # moments of Adam, and slopes
        self.first, self.second, self.slopes = np.zeros((3, len(self.parameters)))
        self.best = self.parameters.copy()
        self.rows = np.flatnonzero(~self.held_out)


@dataclass(frozen=True)
class _Problem:
    """Standardised rows, loss and settings that the networks of a fit share."""

    X: Array
    loss: Loss
    network: Perceptron
    settings: NetworkSettings

    def outputs(self, parameters: Array, rows: Any = slice(None)) -> Array:
        """Mean outputs of networks at some of the rows."""
        X, sizes = self.X[rows], np.array(self.network.sizes)
        outputs = np.zeros((len(X), sizes[-1]))
        average_outputs(X, parameters, sizes, False, outputs)
        return outputs

    def advance(self, state: _Training, last: int) -> None:
        """Train one network until an epoch; keep it if its held-out loss is lowest."""
        sizes, k = np.array(self.network.sizes), -(-len(state.rows) // _BATCH)
        fused = isinstance(self.loss, SquaredError)
        columns = COLUMNS if fused else -(-len(state.rows) // k)
        space = np.empty((2, int(sizes.sum()), columns))
        epoch = self._squared_error_epoch if fused else self._epoch
        while state.epoch < last:
            order = state.rows[state.rng.permutation(len(state.rows))]
            schedule = self.settings.max_iter * k, self.settings.learning_rate_init
            state.losses.append(epoch(state, order, sizes, k, schedule, *space))
            state.n_steps += k
            state.epoch += 1
        if np.any(state.held_out):
            outputs = self.outputs(state.parameters[np.newaxis], state.held_out)
            score = self.loss(outputs, np.flatnonzero(state.held_out))[0]
            better = score < min(state.scores, default=np.inf)
            state.scores.append(score)
            state.behind = 0 if better else state.behind + 1
        if state.behind == 0:
            state.best, state.best_epoch = state.parameters.copy(), state.epoch

    def _squared_error_epoch(
        self,
        state: _Training,
        order: Index,
        sizes: Index,
        k: int,
        schedule: tuple[int, float],
        *space: Array,
    ) -> float:
        data = self.X, *self.loss, order, k
        steps = state.parameters, state.first, state.second, state.n_steps, *schedule
        loss: float = squared_error_epoch(
            *data, sizes, False, self.settings.alpha, *steps, *space, state.slopes
        )
        return loss

    def _epoch(
        self,
        state: _Training,
        order: Index,
        sizes: Index,
        k: int,
        schedule: tuple[int, float],
        *space: Array,
    ) -> float:
        """The same for any loss, a batch at a time."""
        signals, errors = space
        n, total, theta = len(order), 0.0, state.parameters
        above, layers = len(signals) - sizes[-1], (theta, sizes, False)
        for batch in range(k):
            rows = order[batch * n // k : (batch + 1) * n // k]
            width = len(rows)
            gather(self.X, rows, 0, width, signals)
            forward(*layers, signals, width)
            outputs = np.ascontiguousarray(signals[above:, :width].T)
            value, slopes = self.loss(outputs, rows)
            errors[above:, :width] = slopes.T
            state.slopes[:] = 0.0
            backward(*layers, signals, errors, width, state.slopes)
            add_weight_decay(theta, sizes, self.settings.alpha, state.slopes)
            step = state.n_steps + batch
            rate = cosine_decay(step, *schedule)
            adam_step(theta, state.slopes, state.first, state.second, step + 1, rate)
            total += value * width
        return total / n


def _mean_curve(curves: list[list[float]]) -> Array:
    """Mean over curves, of those that are as long."""
    table = np.full((len(curves), max(len(curve) for curve in curves)), np.nan)
    for row, curve in zip(table, curves, strict=True):
        row[: len(curve)] = curve
    return np.nanmean(table, axis=0) if table.shape[1] else np.empty(0)
