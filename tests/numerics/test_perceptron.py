import numpy as np
import pytest

from skgpx._numerics.adam import adam_step, cosine_decay
from skgpx._numerics.perceptron import Perceptron

NETWORKS = [
    Perceptron((3, 2)),
    Perceptron((3, 5, 2)),
    Perceptron((1, 4, 4, 4, 1)),
    Perceptron((3, 5, 2), "relu"),
    Perceptron((2, 8, 8, 3), "relu"),
]


def plain_outputs(network, theta, X):
    """The forward pass from a vector taken apart by hand."""
    act = np.tanh if network.activation == "tanh" else lambda x: np.where(x > 0, x, 0)
    first, h = 0, X
    for i, (n, m) in enumerate(zip(network.sizes, network.sizes[1:], strict=False)):
        W = theta[first : first + n * m].reshape(n, m)
        b = theta[first + n * m : first + (n + 1) * m]
        first += (n + 1) * m
        h = h @ W + b
        h = act(h) if i < len(network.sizes) - 2 else h
    assert first == network.n_parameters
    return h


def setting(network, n, rng):
    theta = rng.normal(size=network.n_parameters)
    return theta, rng.normal(size=(n, network.sizes[0]))


@pytest.mark.parametrize("network", NETWORKS, ids=str)
@pytest.mark.parametrize("n", [1, 6])
def test_outputs(network, n, rng):
    theta, X = setting(network, n, rng)
    expected = plain_outputs(network, theta, X)
    np.testing.assert_allclose(network(theta, X), expected, rtol=1e-13)
    np.testing.assert_array_equal(network.with_pullback(theta, X)[0], network(theta, X))


@pytest.mark.parametrize("network", NETWORKS, ids=str)
def test_derivatives_are_finite_differences(network, rng):
    theta, X = setting(network, 6, rng)
    G = rng.normal(size=(6, network.sizes[-1]))
    found = network.with_pullback(theta, X)[1](G)
    step = 1e-5

    def slope(function, at):
        slopes = np.empty(at.size)
        for i in range(at.size):
            move = np.zeros(at.size)
            move[i] = step
            up, down = (function(at + s * move.reshape(at.shape)) for s in (1, -1))
            slopes[i] = np.sum(G * (up - down)) / (2.0 * step)
        return slopes.reshape(at.shape)

    by_theta = slope(lambda t: network(t, X), theta)
    by_input = slope(lambda x: network(theta, x), X)
    size = np.max(np.abs(by_theta))
    np.testing.assert_allclose(found.parameters, by_theta, atol=1e-7 * size)
    np.testing.assert_allclose(found.inputs, by_input, atol=1e-7 * size)


def test_a_pullback_can_be_called_again(rng):
    network = NETWORKS[1]
    theta, X = setting(network, 4, rng)
    outputs, pullback = network.with_pullback(theta, X)
    first, kept = pullback(outputs), outputs.copy()
    second = pullback(2.0 * outputs)
    np.testing.assert_array_equal(outputs, kept)
    np.testing.assert_allclose(second.parameters, 2.0 * first.parameters)
    np.testing.assert_allclose(second.inputs, 2.0 * first.inputs)


def test_layers_are_views(rng):
    network = NETWORKS[1]
    theta = rng.normal(size=network.n_parameters)
    network.layers(theta)[1][1][:] = 7.0
    np.testing.assert_array_equal(theta[-2:], 7.0)


@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_signals_keep_their_size_at_the_start(activation, rng):
    network = Perceptron((200, 200, 200, 200), activation)
    theta = network.start(rng)
    X = 0.1 * rng.normal(size=(400, 200)) if activation == "tanh" else None
    X = rng.normal(size=(400, 200)) if X is None else X
    assert 0.8 < np.std(network(theta, X)) / np.std(X) < 1.2
    assert all(not biases.any() for _, biases in network.layers(theta))


def test_the_start_has_the_stated_variances(rng):
    wide = Perceptron((300, 100, 1), "tanh")
    weights = wide.layers(wide.start(rng))[0][0]
    assert np.var(weights) == pytest.approx(2.0 / 400.0, rel=0.05)
    assert np.max(np.abs(weights)) <= np.sqrt(6.0 / 400.0)
    he = Perceptron((300, 100, 1), "relu")
    weights = he.layers(he.start(rng))[0][0]
    assert np.var(weights) == pytest.approx(2.0 / 300.0, rel=0.05)


def test_adam_teaches_it_a_function(rng):
    network = Perceptron((1, 16, 16, 1))
    theta = network.start(rng)
    X = np.linspace(-2.0, 2.0, 64)[:, np.newaxis]
    y = np.sin(2.0 * X)
    first, second = np.zeros_like(theta), np.zeros_like(theta)
    for t in range(600):
        outputs, pullback = network.with_pullback(theta, X)
        slopes = pullback((outputs - y) / len(X)).parameters
        adam_step(theta, slopes, first, second, t + 1, cosine_decay(t, 600, 0.02))
    assert np.sqrt(np.mean((network(theta, X) - y) ** 2)) < 0.02
