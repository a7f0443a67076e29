import numpy as np
import pytest

from skgpx._numerics.adam import adam_step, cosine_decay


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
    np.testing.assert_allclose(theta, expected, rtol=1e-12)


def test_without_a_gradient_nothing_moves():
    theta = np.ones(3)
    adam_step(theta, np.zeros(3), np.zeros(3), np.zeros(3), 1, 0.1)
    np.testing.assert_array_equal(theta, 1.0)


def test_the_decay_goes_from_the_rate_to_zero():
    rates = [cosine_decay(t, 10, 0.5) for t in range(11)]
    assert rates[0] == 0.5
    assert rates[5] == pytest.approx(0.25)
    assert rates[10] == pytest.approx(0.0, abs=1e-16)
    assert np.all(np.diff(rates) < 0.0)
