"""Compiled steps of a network against the same formulas in NumPy."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skgpx._numerics.adam import adam_step
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

NETWORKS = [
    Perceptron((3, 5, 4, 2)),
    Perceptron((2, 7, 1), "relu"),
    Perceptron((4, 1)),
    Perceptron((1, 1, 1)),
]
networks = pytest.mark.parametrize("network", NETWORKS, ids=str)


def problem(network, n):
    rng = np.random.default_rng(n)
    parameters = network.start(rng) + 0.1 * rng.normal(size=network.n_parameters)
    X = rng.normal(size=(n, network.sizes[0]))
    targets = rng.normal(size=(n, network.sizes[-1]))
    return parameters, X, targets, rng.uniform(0.5, 2.0, n)


@networks
def test_signals_and_slopes(network):
    n = 21
    parameters, X, errors_out, _ = problem(network, n)
    outputs, pullback = network.with_pullback(parameters, X)
    sizes, relu = np.array(network.sizes), network.activation == "relu"
    signals, errors = np.empty((2, sizes.sum(), n))
    order = np.random.default_rng(0).permutation(n)
    gather(X, order, 0, n, signals)
    forward(parameters, sizes, relu, signals, n)
    assert_allclose(signals[-sizes[-1] :], outputs[order].T, atol=1e-13)
    errors[-sizes[-1] :] = errors_out[order].T
    slopes = np.ones_like(parameters)
    backward(parameters, sizes, relu, signals, errors, n, slopes)
    expected = 1.0 + pullback(errors_out).parameters
    assert_allclose(slopes, expected, rtol=1e-11, atol=1e-12)


@networks
@pytest.mark.parametrize("n", [1, COLUMNS - 1, COLUMNS, COLUMNS + 1])
def test_an_epoch_of_squared_errors(network, n):
    """Batches, columns, weight decay and steps as they are in NumPy."""
    parameters, X, targets, weights = problem(network, n)
    sizes, relu, l2 = np.array(network.sizes), network.activation == "relu", 0.1
    order = np.random.default_rng(1).permutation(n)
    n_batches, rate, done, total = min(n, 3), 0.01, 4, 100
    moved, state = parameters.copy(), np.zeros((5, len(parameters)))
    space = np.empty((2, sizes.sum(), COLUMNS))
    slopes = state[4]
    loss = squared_error_epoch(
        X, targets, weights, order, n_batches, sizes, relu, l2,
        moved, state[0], state[1], done, total, rate, *space, slopes,
    )  # fmt: skip
    theta, losses = parameters.copy(), 0.0
    for k in range(n_batches):
        rows = order[k * n // n_batches : (k + 1) * n // n_batches]
        outputs, pullback = network.with_pullback(theta, X[rows])
        gaps, w = outputs - targets[rows], weights[rows, np.newaxis]
        losses += 0.5 * np.sum(w * gaps**2)
        slope = pullback(w * gaps / w.sum()).parameters
        add_weight_decay(theta, sizes, l2, slope)
        decayed = 0.5 * rate * (1.0 + np.cos(np.pi * (done + k) / total))
        adam_step(theta, slope, state[2], state[3], done + k + 1, decayed)
    assert_allclose(moved, theta, rtol=1e-9, atol=1e-11)
    assert_allclose(loss, losses / weights.sum(), rtol=1e-11)


def test_weight_decay_leaves_biases_alone():
    network = Perceptron((3, 5, 2))
    parameters, slopes = np.ones(network.n_parameters), np.zeros(network.n_parameters)
    add_weight_decay(parameters, np.array(network.sizes), 0.5, slopes)
    for weights, biases in network.layers(slopes):
        assert np.all(weights == 0.5)
        assert np.all(biases == 0.0)


@networks
def test_average_outputs(network):
    n = 2 * COLUMNS + 3
    parameters, X, _, _ = problem(network, n)
    both = np.stack([parameters, parameters[::-1]])
    sizes, relu = np.array(network.sizes), network.activation == "relu"
    outputs = np.zeros((n, sizes[-1]))
    average_outputs(X, both, sizes, relu, outputs)
    expected = 0.5 * (network(both[0], X) + network(both[1], X))
    assert_allclose(outputs, expected, atol=1e-13)
    # a row's values do not depend on the others
    alone = np.zeros((1, sizes[-1]))
    average_outputs(X[7:8], both, sizes, relu, alone)
    assert_array_equal(alone[0], outputs[7])


def test_inputs_far_away_saturate():
    network = Perceptron((1, 3, 1))
    parameters = network.start(np.random.default_rng(0))
    outputs = np.zeros((2, 1))
    X = np.array([[1e120], [-1e120]])
    average_outputs(X, parameters[np.newaxis], np.array(network.sizes), False, outputs)
    assert_allclose(outputs, network(parameters, X), atol=1e-13)
