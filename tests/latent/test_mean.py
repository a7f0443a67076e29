"""Mean functions: numbers, callables, units, gradients."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skgpx._draws import linear_draws, ones
from skgpx._latent import Mean

X = np.random.default_rng(0).normal(size=(6, 2))


def one(X):
    return np.sin(X[:, 0]) * X[:, 1]


def two(X):
    return np.column_stack((one(X), X[:, 0] ** 2))


@pytest.mark.parametrize("value", [0.7, one, two])
def test_one_value_serves_all_outputs_and_units_compose(value):
    mean, plain = Mean.of(value, 2), value(X) if callable(value) else np.full(6, value)
    expected = plain if value is two else np.repeat(plain[:, None], 2, axis=1)
    assert_allclose(mean(X), expected)
    a, b = np.array([1.0, -2.0]), np.array([3.0, 0.5])
    moved = mean.affine(a, b).affine(4.0, -1.0)
    assert_allclose(moved(X), 4.0 - (a + b * expected))


@pytest.mark.parametrize("value", [0.7, one, two])
def test_added_to_draws(value):
    mean = Mean.of(value, 2).affine([0.3, -1.0], [2.0, 5.0])
    weights = np.random.default_rng(1).normal(size=(1, 2, 4))
    draws = mean.added_to(linear_draws(ones, weights))
    assert_allclose(draws(X), weights + mean(X)[:, :, None], rtol=1e-12)


def test_gradients_are_those_of_the_function():
    mean = Mean.of(two, 2).affine(0.5, [2.0, -3.0])
    draws = mean.added_to(linear_draws(ones, np.zeros((1, 2, 3))))
    values, gradients = draws.value_and_grad(X)
    assert_allclose(values, np.repeat(mean(X)[:, :, None], 3, axis=2))
    exact = np.empty((6, 2, 2))
    exact[:, 0, 0] = 2.0 * np.cos(X[:, 0]) * X[:, 1]
    exact[:, 0, 1] = 2.0 * np.sin(X[:, 0])
    exact[:, 1, 0] = -6.0 * X[:, 0]
    exact[:, 1, 1] = 0.0
    for draw in range(3):
        assert_allclose(gradients[:, :, draw], exact, atol=1e-8)


@pytest.mark.parametrize("wrong", [lambda X: X, lambda X: X[:-1, 0]])
def test_wrong_shapes_are_named(wrong):
    with pytest.raises(ValueError, match="prior mean must map"):
        Mean.of(wrong, 3)(X)
