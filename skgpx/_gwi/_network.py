"""Means that are networks, trained side by side and averaged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._gwi._settings import NetworkSettings
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

# ---- What averaging gains over the networks that hold a row out ----------------------


Array = NDArray[np.float64]


class InSample(NamedTuple):
    """In-sample predictions of networks, at rows that others hold out.

    Attributes
    ----------
    values : ndarray of shape (n, c)
        Mean of those that were trained on the row.
    variance : ndarray of shape (n, c)
        Of this mean: variance between them, over their number.
    share : ndarray of shape (n,)
        Share of the networks that were not trained on the row.
    """

    values: Array
    variance: Array
    share: Array

    def take(self, rows: NDArray[Any]) -> InSample:
        """Of some rows."""
        return InSample(self.values[rows], self.variance[rows], self.share[rows])


def share_of_error(
    y: Array, held_out: Array, in_sample: InSample, weights: Array
) -> float:
    """Mean squared error of the average of all networks, over that of those held out.

    Parameters
    ----------
    y, held_out : ndarray of shape (n,)
        Targets, and values h of networks that were not trained on them.
    in_sample : InSample
        Of the same rows and one output.
    weights : ndarray of shape (n,)

    Returns
    -------
    share : float
        In (0, 1]; 1 where it cannot be estimated.

    Notes
    -----
    Let h = μ + δ, with variance s between starts and orders of the rows,
    and let those trained on the row predict t = μ + δ' + l (y - μ). With E, D and C the
    means of
    ``(y - h)²``, ``(t - h)²`` less the variance of δ', and ``(t - h) (y - h)``::

        E = N + s,    D = s + l² N,    C = s + l N    with N the mean of (y - μ)²,

    so that ``s = (D E - C²) / (D + E - 2 C)``. All networks together, of which the
    share q hold the row out, have the error ``N + q s`` on average.
    """
    h, t = held_out, in_sample.values[:, 0]

    def mean(values: Array) -> float:
        return float(np.average(values, weights=weights))

    E = mean((y - h) ** 2)
    D, C = mean((t - h) ** 2 - in_sample.variance[:, 0]), mean((t - h) * (y - h))
    rest = D + E - 2.0 * C
    if not (E > 0.0 and rest > 0.0):
        return 1.0
    s = np.clip((D * E - C**2) / rest, 0.0, E)
    return float(1.0 - (1.0 - mean(in_sample.share)) * s / E)


# ---- A fitted mean, as the rest of a fit reads it
# -------------------------------------


class FittedMean(NamedTuple):
    """A mean function, and its values at the training rows.

    Attributes
    ----------
    function : callable
        Maps (n, d) to (n, c), in units of the standardised y; latent scores of classes.
        Picklable.
    residual_values : ndarray of shape (n, c)
        Values at the training rows from which noise, kernel and variance scale are
        learned: wherever the mean was trained on a row, values of one that was not (out
        of fold, or of the rows held out for early stopping), if there is one.
    held_out : ndarray of bool of shape (n,)
        Rows whose `residual_values` were not trained on.
    in_sample : InSample or None
        In-sample predictions of networks for all rows; None where one of the held-out
        rows has none.
    """

    function: Callable[[Array], Any]
    residual_values: Array
    held_out: NDArray[np.bool_]
    in_sample: InSample | None = None


# ---- Means that are networks: trained side by side, and averaged ---------------------


Index = NDArray[np.intp]
Loss = Callable[[Array, Index], tuple[float, Array]]

# Rounds of a training; after each the held-out loss is recorded and callbacks run.
ROUNDS = 50
# Rounds without a lower held-out loss after which the training of a network stops.
_PATIENCE = 20
# max_iter="auto": passes over n rows, ROW_STEPS / n of them within these limits.
ROW_STEPS, MIN_EPOCHS, MAX_EPOCHS = 3_000_000, 30, 4000
# Smallest number of distinct rows of which any are held out.
MIN_ROWS = 20


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
    network : Perceptron
    parameters : ndarray of shape (n_networks, n_parameters)
    """

    frame: InputFrame
    network: Perceptron
    parameters: Array

    def __call__(self, X: Array) -> Array:
        """Values (n, c) at the rows of X (n, d)."""
        return outputs_of(self.network, self.parameters, self.frame(X))


def outputs_of(network: Perceptron, parameters: Array, X: Array) -> Array:
    """Mean outputs (n, c) of several networks at standardised rows."""
    outputs = np.zeros((len(X), network.sizes[-1]))
    relu = network.activation == "relu"
    average_outputs(X, parameters, np.array(network.sizes), relu, outputs)
    return outputs


@dataclass
class Training:
    """One network, where its training is, and the best of it so far.

    Parameters
    ----------
    parameters : ndarray of shape (n_parameters,)
        Moved in place.
    rng : numpy.random.Generator
        Of the order of the rows.
    rows : ndarray of int
        That the network is trained on.
    held_out : ndarray of int
        For early stopping; may be empty.
    """

    parameters: Array
    rng: np.random.Generator
    rows: Index
    held_out: Index
    epoch: int = 0
    n_steps: int = 0
    behind: int = 0
    best: Array = field(init=False)
    best_epoch: int = 0
    losses: list[float] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.first = np.zeros_like(self.parameters)
        self.second = np.zeros_like(self.parameters)
        self.slopes = np.zeros_like(self.parameters)
        self.best = self.parameters.copy()

    def record_score(self, score: float | None, choose: bool) -> None:
        """Record the held-out loss, and keep the parameters if it is the lowest."""
        if score is not None:
            better = not self.scores or score < min(self.scores)
            self.scores.append(score)
            self.behind = 0 if better or not choose else self.behind + 1
        if self.behind == 0:
            self.best, self.best_epoch = self.parameters.copy(), self.epoch


@dataclass(frozen=True)
class Problem:
    """Data and settings that all networks of a fit share.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Standardised.
    loss : callable
    network : Perceptron
    settings : NetworkSettings
    n_epochs : int
    """

    X: Array
    loss: Loss
    network: Perceptron
    settings: NetworkSettings
    n_epochs: int

    @property
    def relu(self) -> bool:
        """Whether hidden units are rectified."""
        return self.network.activation == "relu"

    def advance(self, state: Training, last: int) -> None:
        """Train one network until an epoch, and record its held-out loss."""
        sizes, k = np.array(self.network.sizes), self.n_batches(state)
        fused = isinstance(self.loss, SquaredError)
        columns = COLUMNS if fused else -(-len(state.rows) // k)
        space = np.empty((2, int(sizes.sum()), columns))
        epoch = self._squared_epoch if fused else self._epoch
        while state.epoch < last:
            order = state.rows[state.rng.permutation(len(state.rows))]
            state.losses.append(epoch(state, order, sizes, *space))
            state.n_steps += k
            state.epoch += 1
        state.record_score(self._validation_score(state), self.settings.early_stopping)

    def n_batches(self, state: Training) -> int:
        """Steps of an epoch."""
        return -(-len(state.rows) // self.settings.batch_size)

    def _schedule(self, state: Training) -> tuple[int, float]:
        """Number of all steps, and the first rate."""
        return self.n_epochs * self.n_batches(state), self.settings.learning_rate

    def _validation_score(self, state: Training) -> float | None:
        if not len(state.held_out):
            return None
        outputs = self.outputs(state.parameters[np.newaxis], state.held_out)
        return self.loss(outputs, state.held_out)[0]

    def outputs(self, parameters: Array, rows: Index) -> Array:
        """Mean outputs of networks at some of the rows."""
        return outputs_of(self.network, parameters, self.X[rows])

    def _squared_epoch(
        self, state: Training, order: Index, sizes: Index, *space: Array
    ) -> float:
        decay, moments = self.settings.alpha, (state.first, state.second)
        data = self.X, *self.loss, order, self.n_batches(state)
        steps = state.parameters, *moments, state.n_steps, *self._schedule(state)
        loss: float = squared_error_epoch(
            *data, sizes, self.relu, decay, *steps, *space, state.slopes
        )
        return loss

    def _epoch(
        self, state: Training, order: Index, sizes: Index, *space: Array
    ) -> float:
        """The same for any loss, a batch at a time."""
        signals, errors = space
        n, k, loss = len(order), self.n_batches(state), 0.0
        above, theta = len(signals) - sizes[-1], state.parameters
        layers = theta, sizes, self.relu
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
            rate = cosine_decay(step, *self._schedule(state))
            adam_step(theta, state.slopes, state.first, state.second, step + 1, rate)
            loss += value * width
        return loss / n


class TrainedNetworks(NamedTuple):
    """Networks after training.

    Attributes
    ----------
    mean : FittedMean
    loss_curve : ndarray of shape (n_epochs,)
        Mean over the networks of the loss of each epoch.
    held_out_curve : ndarray of shape (n_rounds,)
        Mean over the networks of their held-out loss.
    n_iter : int
        Largest number of epochs behind the networks.
    """

    mean: FittedMean
    loss_curve: Array
    held_out_curve: Array
    n_iter: int

    def attributes(self) -> dict[str, Any]:
        """Fitted attributes of an estimator."""
        return {
            "loss_curve_": self.loss_curve,
            "held_out_curve_": self.held_out_curve,
            "n_iter_": self.n_iter,
        }


def train_networks(
    X: Array,
    weights: Array,
    loss: Loss,
    n_outputs: int,
    settings: NetworkSettings,
    rng: np.random.Generator,
    n_jobs: int | None,
    report: Callable[[Callable[[], TrainedNetworks]], bool],
) -> TrainedNetworks:
    """Train networks from several starts, and average them.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    weights : ndarray of shape (n,)
        For the standardisation of X.
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

    Notes
    -----
    Each network holds out a share of the rows, which choose where its training stops.
    The parts of different networks are disjoint as long as there are enough rows, so
    that each gives values that were not trained on.
    """
    frame = InputFrame.of(X, weights)
    sizes = (X.shape[1], *settings.hidden_layer_sizes, n_outputs)
    network = Perceptron(sizes, settings.activation)
    problem = Problem(
        np.ascontiguousarray(frame(X)),
        loss,
        network,
        settings,
        number_of_epochs(settings.max_iter, len(X)),
    )
    split, *streams = rng.spawn(1 + settings.n_restarts)
    parts = held_out_parts(len(X), settings, split)
    states = [_started(problem, parts, r, stream) for r, stream in enumerate(streams)]

    def trained() -> TrainedNetworks:
        return _result(problem, states, frame)

    with workers(n_jobs, in_threads=True) as some:
        for last in _rounds(problem.n_epochs):
            active = [s for s in states if s.behind <= _PATIENCE]
            some.each(problem.advance, [(state, last) for state in active])
            if not active or report(trained):
                break
    return trained()


def number_of_epochs(max_iter: int | str, n: int) -> int:
    """Passes over n rows: as given, or three million rows in all."""
    if isinstance(max_iter, str):
        return int(np.clip(ROW_STEPS // n, MIN_EPOCHS, MAX_EPOCHS))
    return max_iter


def held_out_parts(
    n: int, settings: NetworkSettings, rng: np.random.Generator
) -> list[Index]:
    """Disjoint sets of rows, each held out by every so many-th network."""
    size = round(settings.validation_fraction * n) if n >= MIN_ROWS else 0
    if size == 0:
        return [np.empty(0, np.intp)]
    order = rng.permutation(n)
    count = min(settings.n_restarts, n // size)
    return [np.sort(order[k * size : (k + 1) * size]) for k in range(count)]


def _started(
    problem: Problem, parts: list[Index], r: int, rng: np.random.Generator
) -> Training:
    held_out = parts[r % len(parts)]
    rows = np.setdiff1d(np.arange(len(problem.X)), held_out)
    return Training(problem.network.start(rng), rng, rows, held_out)


def _rounds(n_epochs: int) -> Any:
    """Last epoch of each round."""
    return np.unique(np.linspace(0, n_epochs, ROUNDS + 1).astype(int))[1:]


def _result(
    problem: Problem, states: list[Training], frame: InputFrame
) -> TrainedNetworks:
    """The current networks, with out-of-sample values at held-out rows."""
    n = len(problem.X)
    parameters = np.stack([state.best for state in states])
    values = problem.outputs(parameters, np.arange(n))
    held_out, in_sample = (
        np.zeros(n, bool),
        InSample(values.copy(), 0.0 * values, np.zeros(n)),
    )
    for part in {tuple(state.held_out): state.held_out for state in states}.values():
        is_out = np.array([np.array_equal(s.held_out, part) for s in states])
        values[part] = problem.outputs(parameters[is_out], part)
        held_out[part] = True
        each = [problem.outputs(p[np.newaxis], part) for p in parameters[~is_out]]
        if len(each) > 1:
            in_sample.values[part] = np.mean(each, axis=0)
            in_sample.variance[part] = np.var(each, axis=0, ddof=1) / len(each)
        in_sample.share[part] = np.mean(is_out)
    # variances between networks take two of them
    several = len(states) - 1 > len(states) * np.max(in_sample.share)
    function = NetworkMean(frame, problem.network, parameters)
    return TrainedNetworks(
        FittedMean(function, values, held_out, in_sample if several else None),
        _mean_curve([state.losses for state in states]),
        _mean_curve([state.scores for state in states]),
        max(state.best_epoch for state in states),
    )


def _mean_curve(curves: list[list[float]]) -> Array:
    """Mean over curves, of those that are as long."""
    longest = max(len(curve) for curve in curves)
    table = np.full((len(curves), longest), np.nan)
    for row, curve in zip(table, curves, strict=True):
        row[: len(curve)] = curve
    return np.nanmean(table, axis=0) if longest else np.empty(0)
