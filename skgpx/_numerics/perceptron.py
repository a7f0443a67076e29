"""Multilayer perceptrons: values, gradients and training steps.

Arrays in, arrays out: what is minimised, and by which steps, is the business of the
caller. Parameters are one flat vector, as `adam_step` and optimisers expect.

The compiled steps keep signals by units, (units, rows), so that loops over the rows of
a batch fill vector registers. `Perceptron` has the same formulas as products of
matrices, which are faster for wider layers: values and slopes of 256 rows took 2.7
times as long there as in the compiled steps with 10 units a layer, .6 to 1.2 of it with
32, and .4 with 64; tests compare both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics._jit import kernel, reduction
from skgpx._numerics.adam import adam_step, cosine_decay
from skgpx._numerics.elementary import exp

# ---- A small fully connected network, and its derivatives ----------------------------


Array = NDArray[np.float64]


class Perceptron(NamedTuple):
    """Sizes and activation of a network; the parameters are a vector beside it.

    Attributes
    ----------
    sizes : tuple of int
        Number of inputs, of units in each hidden layer, of outputs.
    activation : {"tanh", "relu"}
        Of hidden layers; the last layer is linear.

    Notes
    -----
    The parameters are those of one layer after the other: its weights (inputs, outputs)
    by rows, then its biases.

    Examples
    --------
    >>> import numpy as np
    >>> from skgpx._numerics.perceptron import Perceptron
    >>> network = Perceptron((3, 16, 2))
    >>> theta = network.start(np.random.default_rng(0))
    >>> X = np.random.default_rng(1).normal(size=(5, 3))
    >>> outputs, pullback = network.with_pullback(theta, X)
    >>> gradients = pullback(outputs)  # of half the sum of squares of the outputs
    >>> outputs.shape, gradients.parameters.shape, gradients.inputs.shape
    ((5, 2), (98,), (5, 3))
    """

    sizes: tuple[int, ...]
    activation: str = "tanh"

    @property
    def n_parameters(self) -> int:
        """Length of the vector of parameters."""
        pairs = zip(self.sizes[:-1], self.sizes[1:], strict=True)
        return sum((n + 1) * m for n, m in pairs)

    def layers(self, parameters: Array) -> list[tuple[Array, Array]]:
        """Weights (inputs, outputs) and biases (outputs,) of each layer, as views."""
        views, first = [], 0
        for n, m in zip(self.sizes[:-1], self.sizes[1:], strict=True):
            middle, last = first + n * m, first + (n + 1) * m
            weights = parameters[first:middle].reshape(n, m)
            views.append((weights, parameters[middle:last]))
            first = last
        return views

    def start(self, rng: np.random.Generator) -> Array:
        """Random parameters: biases zero, weights such that signals keep their size.

        Uniform with variance ``2 / (inputs + outputs)`` for tanh (Glorot and Bengio,
        "Understanding the difficulty of training deep feedforward neural networks",
        AISTATS 2010, eq. 16); normal with variance ``2 / inputs`` for ReLU (He, Zhang,
        Ren and Sun, "Delving deep into rectifiers", ICCV 2015, eq. 10), ``1 / inputs``
        in the linear layer after it.
        """
        parameters = np.zeros(self.n_parameters)
        layers = self.layers(parameters)
        for i, (weights, _) in enumerate(layers):
            n, m = weights.shape
            if self.activation == "relu":
                power = 1.0 if i == len(layers) - 1 else 2.0
                weights[:] = np.sqrt(power / n) * rng.standard_normal((n, m))
            else:
                limit = np.sqrt(6.0 / (n + m))
                weights[:] = rng.uniform(-limit, limit, (n, m))
        return parameters

    def __call__(self, parameters: Array, X: Array) -> Array:
        """Outputs (n, outputs) at the rows of X; O(n × number of parameters)."""
        return self._signals(parameters, X)[-1]

    def with_pullback(
        self, parameters: Array, X: Array
    ) -> tuple[Array, Callable[[Array], PerceptronGradients]]:
        """Outputs, and a function from their gradients to those of all that they use.

        Parameters
        ----------
        parameters : ndarray of shape (n_parameters,)
        X : ndarray of shape (n, inputs)

        Returns
        -------
        outputs : ndarray of shape (n, outputs)
        pullback : callable
            Maps ``dL / d outputs`` (n, outputs) to :class:`PerceptronGradients`, at
            twice the cost of the outputs. It holds the signals of all layers.
        """
        signals = self._signals(parameters, X)
        layers = self.layers(parameters)

        def pullback(gradient: Array) -> PerceptronGradients:
            slopes = np.empty_like(parameters)
            places = self.layers(slopes)
            for i in reversed(range(len(layers))):
                weights, biases = places[i]
                np.matmul(signals[i].T, gradient, out=weights)
                np.sum(gradient, axis=0, out=biases)
                gradient = gradient @ layers[i][0].T
                if i:
                    gradient *= self._slope(signals[i])
            return PerceptronGradients(slopes, gradient)

        return signals[-1], pullback

    def _signals(self, parameters: Array, X: Array) -> list[Array]:
        """Inputs of each layer, and the outputs of the last."""
        signals = [X]
        layers = self.layers(parameters)
        for i, (weights, biases) in enumerate(layers):
            signal = signals[-1] @ weights
            signal += biases
            if i < len(layers) - 1:
                self._activate(signal)
            signals.append(signal)
        return signals

    def _activate(self, signal: Array) -> None:
        """Overwrite sums by what the units say."""
        if self.activation == "relu":
            np.maximum(signal, 0.0, out=signal)
        else:
            np.tanh(signal, out=signal)

    def _slope(self, activated: Array) -> Array:
        """Derivative of the activation, in terms of its value."""
        if self.activation == "relu":
            return (activated > 0.0).astype(np.float64)
        return 1.0 - activated**2


class PerceptronGradients(NamedTuple):
    """Derivatives of a function of the outputs.

    Attributes
    ----------
    parameters : ndarray of shape (n_parameters,)
    inputs : ndarray of shape (n, inputs)
    """

    parameters: Array
    inputs: Array


# ---- Steps of a small network, compiled: batches in columns, nothing allocated -------


Index = NDArray[np.intp]

# Rows whose signals are computed at a time: those of all units stay in the first cache.
COLUMNS = 128


@kernel
def gather(X: Array, order: Index, first: int, last: int, signals: Array) -> None:
    """Write rows ``X[order[first:last]]`` into the first columns of the signals."""
    for i in range(X.shape[1]):
        for b in range(last - first):
            signals[i, b] = X[order[first + b], i]


@kernel
def activate(signal: Array, width: int, relu: bool) -> None:
    """Overwrite sums by what the units say; tanh to 3e-16."""
    if relu:
        for b in range(width):
            s = signal[b]
            signal[b] = s if s > 0.0 else 0.0
    else:
        for b in range(width):
            signal[b] = 1.0 - 2.0 / (exp(2.0 * signal[b]) + 1.0)


@kernel
def forward(
    parameters: Array, sizes: Index, relu: bool, signals: Array, width: int
) -> None:
    """Signals of all layers from those of the inputs, which are the first rows.

    Parameters
    ----------
    parameters : ndarray of shape (n_parameters,)
        As of `Perceptron`.
    sizes : ndarray of int
        Units of each layer, inputs and outputs included.
    relu : bool
    signals : ndarray of shape (units, columns)
        Inputs, hidden layers, outputs, one below the other.
    width : int
        Number of rows of the batch: columns that are used.
    """
    source, place = 0, 0
    for layer in range(len(sizes) - 1):
        n, m = sizes[layer], sizes[layer + 1]
        biases, target = place + n * m, source + n
        for j in range(m):
            out = signals[target + j]
            bias = parameters[biases + j]
            for b in range(width):
                out[b] = bias
            i = 0
            while i + 1 < n:
                w0, w1 = (
                    parameters[place + i * m + j],
                    parameters[place + (i + 1) * m + j],
                )
                x0, x1 = signals[source + i], signals[source + i + 1]
                for b in range(width):
                    out[b] += w0 * x0[b] + w1 * x1[b]
                i += 2
            if i < n:
                w0, x0 = parameters[place + i * m + j], signals[source + i]
                for b in range(width):
                    out[b] += w0 * x0[b]
            if layer < len(sizes) - 2:
                activate(out, width, relu)
        source, place = target, biases + m


@reduction
def _weight_slopes(
    signals: Array, errors: Array, source: int, target: int, width: int, slopes: Array
) -> None:
    """Add products of what enters a layer and the errors that leave it."""
    m = len(slopes) // (target - source + 1)
    for i in range(target - source):
        x = signals[source + i]
        for j in range(m):
            error, total = errors[target + j], 0.0
            for b in range(width):
                total += x[b] * error[b]
            slopes[i * m + j] += total
    for j in range(m):
        error, total = errors[target + j], 0.0
        for b in range(width):
            total += error[b]
        slopes[(target - source) * m + j] += total


@kernel
def _errors_before(
    layer: Array,
    relu: bool,
    signals: Array,
    errors: Array,
    source: int,
    target: int,
    width: int,
) -> None:
    """Derivatives in the sums that enter the units before a layer."""
    m = len(layer) // (target - source + 1)
    for i in range(target - source):
        out, x = errors[source + i], signals[source + i]
        for b in range(width):
            out[b] = 0.0
        for j in range(m):
            weight, error = layer[i * m + j], errors[target + j]
            for b in range(width):
                out[b] += weight * error[b]
        if relu:
            for b in range(width):
                out[b] = out[b] if x[b] > 0.0 else 0.0
        else:
            for b in range(width):
                out[b] *= 1.0 - x[b] * x[b]


@kernel
def backward(
    parameters: Array,
    sizes: Index,
    relu: bool,
    signals: Array,
    errors: Array,
    width: int,
    slopes: Array,
) -> None:
    """Add derivatives in the parameters to `slopes`.

    Parameters
    ----------
    parameters, sizes, relu, signals, width
        As of :func:`forward`, after it.
    errors : ndarray of shape (units, columns)
        Its last rows are the derivatives in the outputs; those of the units above are
        overwritten by theirs.
    slopes : ndarray of shape (n_parameters,)
    """
    target, place = 0, 0
    for layer in range(len(sizes) - 1):
        target += sizes[layer]
        place += (sizes[layer] + 1) * sizes[layer + 1]
    for layer in range(len(sizes) - 2, -1, -1):
        source, last = target - sizes[layer], place
        place -= (sizes[layer] + 1) * sizes[layer + 1]
        here = slopes[place:last]
        _weight_slopes(signals, errors, source, target, width, here)
        if layer > 0:
            weights = parameters[place:last]
            _errors_before(weights, relu, signals, errors, source, target, width)
        target = source


@kernel
def add_weight_decay(parameters: Array, sizes: Index, l2: float, slopes: Array) -> None:
    """Add derivatives of ``l2 / 2`` times the sum of squares of weights, not biases."""
    place = 0
    for layer in range(len(sizes) - 1):
        n, m = sizes[layer], sizes[layer + 1]
        for k in range(place, place + n * m):
            slopes[k] += l2 * parameters[k]
        place += (n + 1) * m


@kernel
def squared_error_epoch(
    X: Array,
    targets: Array,
    weights: Array,
    order: Index,
    n_batches: int,
    sizes: Index,
    relu: bool,
    l2: float,
    parameters: Array,
    first: Array,
    second: Array,
    done: int,
    n_steps: int,
    learning_rate: float,
    signals: Array,
    errors: Array,
    slopes: Array,
) -> float:
    """One pass over the rows, a step of Adam after each batch.

    Parameters
    ----------
    X : ndarray of shape (n, inputs)
    targets : ndarray of shape (n, outputs)
    weights : ndarray of shape (n,)
    order : ndarray of int of shape (n,)
        In which rows are taken.
    n_batches : int
        Batches differ by at most one row.
    sizes, relu
        As of :func:`forward`.
    l2 : float
        As of :func:`add_weight_decay`.
    parameters, first, second : ndarray of shape (n_parameters,)
        Changed; see :func:`skgpx._numerics.adam.adam_step`.
    done, n_steps : int
        Number of steps before these, and of all.
    learning_rate : float
        Of the first step; see :func:`skgpx._numerics.adam.cosine_decay`.
    signals, errors : ndarray of shape (units, COLUMNS)
    slopes : ndarray of shape (n_parameters,)
        Space.

    Returns
    -------
    loss : float
        ``Σ w |f - t|² / (2 Σ w)``, each row's before the step of its batch.
    """
    n, outputs = len(order), targets.shape[1]
    above, loss, mass = signals.shape[0] - outputs, 0.0, 0.0
    for k in range(n_batches):
        begin, end = k * n // n_batches, (k + 1) * n // n_batches
        total, here = 0.0, 0.0
        slopes[:] = 0.0
        for low in range(begin, end, COLUMNS):
            high = min(low + COLUMNS, end)
            width = high - low
            gather(X, order, low, high, signals)
            forward(parameters, sizes, relu, signals, width)
            for b in range(width):
                row = order[low + b]
                weight = weights[row]
                total += weight
                for j in range(outputs):
                    gap = signals[above + j, b] - targets[row, j]
                    errors[above + j, b] = weight * gap
                    here += 0.5 * weight * gap * gap
            backward(parameters, sizes, relu, signals, errors, width, slopes)
        for p in range(len(slopes)):
            slopes[p] /= total
        add_weight_decay(parameters, sizes, l2, slopes)
        rate = cosine_decay(done + k, n_steps, learning_rate)
        adam_step(parameters, slopes, first, second, done + k + 1, rate)
        loss, mass = loss + here, mass + total
    return loss / mass


@kernel
def average_outputs(
    X: Array, networks: Array, sizes: Index, relu: bool, outputs: Array
) -> None:
    """Mean outputs of networks of the same shape, added to zeros.

    Parameters
    ----------
    X : ndarray of shape (n, inputs)
    networks : ndarray of shape (n_networks, n_parameters)
    sizes, relu
        As of :func:`forward`.
    outputs : ndarray of shape (n, outputs)
        Zero; changed. A row's values do not depend on the other rows.
    """
    n, c = outputs.shape
    units = 0
    for layer in range(len(sizes)):
        units += sizes[layer]
    signals, order = np.empty((units, COLUMNS)), np.arange(n)
    for low in range(0, n, COLUMNS):
        high = min(low + COLUMNS, n)
        for r in range(len(networks)):
            gather(X, order, low, high, signals)
            forward(networks[r], sizes, relu, signals, high - low)
            for b in range(high - low):
                for j in range(c):
                    outputs[low + b, j] += signals[units - c + j, b] / len(networks)
