"""Waves behind a learned network."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skgpx import SteinRFFRegressor
from skgpx._numerics.wave_evidence import Waves, wave_evidence, wave_gradient
from skgpx._stein._waves import NetworkWarp

SMALL = {"n_components": 2, "n_frequencies": 10, "max_iter": 25, "random_state": 0}
DEEP = SMALL | {"hidden_layer_sizes": (8, 6), "learning_rate": 0.3}


def data(n=60, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, size=(n, 2)) + 3.0
    y = np.sin(4.0 * X[:, 0] ** 2) + X[:, 1] + 0.2 * rng.normal(size=n)
    return X, y


X, Y = data()
NEW = data(20, seed=1)[0]


@pytest.fixture(scope="module")
def fitted():
    return SteinRFFRegressor(**DEEP).fit(X, Y)


def warp_of():
    rng = np.random.default_rng(3)
    unit = np.array([0.7, 1.2])
    warp = NetworkWarp.start((8, 6), X, np.ones(len(X)), unit, rng)
    # away from zero, so that no derivative vanishes
    warp.parameters[:] += 0.3 * rng.standard_normal(len(warp.parameters))
    return warp


def slope(function, at):
    out = np.empty_like(at)
    for i in range(len(at)):
        step = np.zeros_like(at)
        step[i] = 1e-5
        out[i] = (function(at + step) - function(at - step)) / 2e-5
    return out


# ---- The map -----------------------------------------------------------------------


def test_evidence_in_the_parameters_of_the_network():
    warp, rng = warp_of(), np.random.default_rng(4)
    waves = Waves(rng.normal(size=(7, 2)), rng.uniform(0.2, 0.6, 7), 0.1)
    weights = rng.integers(1, 4, len(Y)).astype(float)

    def value(parameters):
        mapped = warp._replace(parameters=parameters)(X)
        return wave_evidence(mapped, Y, weights, waves)

    mapped, pullback = warp.with_pullbacks(X)
    assert_array_equal(mapped, warp(X))
    found = wave_gradient(mapped, Y, weights, waves, inputs=True)
    expected = slope(value, warp.parameters)
    got = pullback(found.inputs)[1]
    assert_allclose(got, expected, atol=1e-7 * np.abs(expected).max())


def test_derivatives_in_the_rows():
    warp = warp_of()
    G = np.random.default_rng(5).normal(size=X.shape)
    mapped, pullback = warp.with_pullback(X)
    assert_array_equal(mapped, warp(X))
    for k, unit in enumerate(np.eye(2)):
        rise = (warp(X + 1e-6 * unit) - warp(X - 1e-6 * unit)) / 2e-6
        assert_allclose(pullback(G)[:, k], np.sum(G * rise, axis=1), atol=1e-8)


def test_slope_of_the_prior_of_the_network():
    warp = warp_of()

    def log_prior(parameters):
        total = 0.0
        for weights, biases in warp.network.layers(parameters):
            total -= 0.5 * len(weights) * np.sum(weights**2) + 0.5 * np.sum(biases**2)
        return total

    expected = slope(log_prior, warp.parameters)
    assert_allclose(warp.prior_slope(), expected, rtol=1e-7, atol=1e-8)


# ---- Fits --------------------------------------------------------------------------


def test_learning_begins_at_the_stationary_model():
    deep = SteinRFFRegressor(**DEEP | {"max_iter": 0}).fit(X, Y)
    plain = SteinRFFRegressor(**SMALL | {"max_iter": 0}).fit(X, Y)
    for one, other in zip(
        deep.predict(NEW, return_std=True),
        plain.predict(NEW, return_std=True),
        strict=True,
    ):
        assert_allclose(one, other, rtol=1e-8, atol=1e-10)
    assert_array_equal(deep.frequencies_, plain.frequencies_)


def front(n, seed):
    """Smooth on both sides of a curve, along which it rises steeply."""
    rng = np.random.default_rng(seed)
    rows = rng.uniform(-1.0, 1.0, (n, 2))
    beyond = 1.0 / (1.0 + np.exp(40.0 * (0.3 * np.sin(3.0 * rows[:, 0]) - rows[:, 1])))
    y = np.sin(2.0 * rows[:, 0]) + 2.0 * beyond + 0.1 * rng.standard_normal(n)
    return rows, y


def test_a_front_is_better_behind_a_network():
    X, y = front(400, 1)
    settings = {"n_components": 2, "n_frequencies": 40, "max_iter": 150}
    models = [
        SteinRFFRegressor(**settings, hidden_layer_sizes=hidden, random_state=0).fit(
            X, y
        )
        for hidden in ((), (16, 16))
    ]
    plain, deep = (model.log_predictive_density(*front(1000, 2)) for model in models)
    gain = deep - plain
    assert gain.mean() / (gain.std() / np.sqrt(len(gain))) > 4.5
    assert gain.mean() > 0.1


def test_draws_have_gradients_and_can_be_conditioned(fitted):
    draws = fitted.sample_functions(3, random_state=0)
    assert draws.n_features == 2
    values, gradients = draws.value_and_grad(NEW)
    assert_allclose(values, draws(NEW), rtol=1e-9, atol=1e-9)
    for k, unit in enumerate(np.eye(2)):
        rise = (draws(NEW + 1e-6 * unit) - draws(NEW - 1e-6 * unit)) / 2e-6
        assert_allclose(gradients[..., k], rise, rtol=1e-4, atol=1e-5)
    model = fitted.posterior_.condition(NEW[:3], np.zeros((3, 1)), np.full(3, 1e-9))
    mean, variance = model.marginals(NEW[:3]).moments()
    assert np.abs(mean).max() < 1e-2
    assert variance.max() < 1e-2


@pytest.mark.parametrize("sizes", [(0,), (4, -1), (2.5,), ("a",), (True,), (2, False)])
def test_sizes_of_layers_are_checked(sizes):
    with pytest.raises(ValueError, match="hidden_layer_sizes must be"):
        SteinRFFRegressor(hidden_layer_sizes=sizes).fit(X, Y)


def test_one_layer_is_a_number_of_units():
    few = SMALL | {"max_iter": 3}
    one, other = (
        SteinRFFRegressor(**few, hidden_layer_sizes=sizes).fit(X, Y).predict(NEW)
        for sizes in (4, [4])
    )
    assert_array_equal(one, other)
