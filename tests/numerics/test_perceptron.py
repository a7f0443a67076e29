import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skgpx._numerics.adam import adam_step, cosine_decay
from skgpx._numerics.perceptron import Perceptron
from tests.numerics.conftest import slopes

NETWORKS = [Perceptron((3, 2)), Perceptron((3, 5, 2)), Perceptron((1, 4, 4, 4, 1))]
networks = pytest.mark.parametrize("network", NETWORKS, ids=str)


def setting(network, rng, *lead):
    theta = rng.normal(size=(*lead, network.n_parameters))
    return theta, rng.normal(size=(*lead, 6, network.sizes[0]))


@networks
def test_outputs_are_those_of_a_vector_taken_apart_by_hand(network, rng):
    theta, h = setting(network, rng)
    outputs, first = network(theta, h), 0
    for n, m in zip(network.sizes, network.sizes[1:], strict=False):
        h = np.tanh(h) if first else h
        W = theta[first : first + n * m].reshape(n, m)
        h = h @ W + theta[first + n * m : first + (n + 1) * m]
        first += (n + 1) * m
    assert first == network.n_parameters
    assert_allclose(outputs, h, rtol=1e-13)


@networks
def test_derivatives_are_finite_differences(network, rng):
    theta, X = setting(network, rng)
    G = rng.normal(size=(6, network.sizes[-1]))
    slope, by_rows = network.with_pullback(theta, X)[1](G)

    by_theta = slopes(lambda t: np.sum(G * network(t, X)), theta)
    size = np.max(np.abs(by_theta))
    assert_allclose(slope, by_theta, atol=1e-7 * size)
    by_input = slopes(lambda x: np.sum(G * network(theta, x)), X)
    assert_allclose(by_rows, by_input, atol=1e-7 * size)


@networks
def test_networks_side_by_side_are_each_on_its_own(network, rng):
    theta, X = setting(network, rng, 4)
    outputs, pullback = network.with_pullback(theta, X)
    slope, by_rows = pullback(outputs)
    for k in range(4):
        alone, back = network.with_pullback(theta[k], X[k])
        assert_allclose(outputs[k], alone, rtol=1e-12)
        assert_allclose(slope[k], back(alone)[0], rtol=1e-9)
        assert_allclose(by_rows[k], back(alone)[1], rtol=1e-9)
    # the pullback can be called again
    assert_array_equal(pullback(2.0 * outputs)[1], 2.0 * by_rows)


def test_the_start_keeps_the_size_of_signals(rng):
    network = Perceptron((300, 300, 100, 1))
    theta = network.start(rng)
    (weights, biases), (second, _), _ = network.layers(theta)
    assert not biases.any()
    assert np.var(weights) == pytest.approx(2.0 / 600.0, rel=0.05)
    assert np.max(np.abs(second)) <= np.sqrt(6.0 / 400.0)
    second[:] = 7.0  # a view
    assert np.sum(theta == 7.0) == 30_000


# ---- Adam ----------------------------------------------------------------------------


def reference(theta, gradients, learning_rate):
    """Algorithm 1 of Kingma and Ba, written as it stands there."""
    beta1, beta2, epsilon = 0.9, 0.999, 1e-8
    m = v = np.zeros_like(theta)
    for t, g in enumerate(gradients, 1):
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g**2
        m_hat, v_hat = m / (1 - beta1**t), v / (1 - beta2**t)
        theta = theta - learning_rate * m_hat / (np.sqrt(v_hat) + epsilon)
    return theta


@pytest.mark.parametrize("shape", [(5,), (4, 3), (2, 3, 4)])
def test_equals_the_published_algorithm(shape, rng):
    theta, gradients = rng.normal(size=shape), rng.normal(size=(7, *shape))
    expected = reference(theta, gradients, 0.1)
    first, second = np.zeros(shape), np.zeros(shape)
    for t, gradient in enumerate(gradients, 1):
        adam_step(theta, gradient, first, second, t, 0.1)
    assert_allclose(theta, expected, rtol=1e-12)


def test_the_decay_goes_from_the_rate_to_zero():
    rates = [cosine_decay(t, 10, 0.5) for t in range(11)]
    assert rates[0] == 0.5
    assert rates[5] == pytest.approx(0.25)
    assert rates[10] == pytest.approx(0.0, abs=1e-16)
    assert np.all(np.diff(rates) < 0.0)
