"""Steps of a small network, compiled: batches in columns, nothing allocated.

Signals are kept by units, (units, rows), so that loops over the rows of a batch fill
vector registers. `Perceptron` has the same formulas as products of matrices, which are
faster for wider layers: values and slopes of 256 rows took 2.7 times as long there as
here with 10 units a layer, .6 to 1.2 of it with 32, and .4 with 64; tests compare both.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics._jit import kernel, reduction
from skgpx._numerics.adam import adam_step, cosine_decay
from skgpx._numerics.elementary import exp

Array = NDArray[np.float64]
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
