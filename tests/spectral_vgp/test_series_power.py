"""Waves that stand out of a series prior, through `fit`."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, Matern

from skgpx import SpectralVGPRegressor
from skgpx._spectral_vgp import _series_choice
from skgpx._spectral_vgp._series_choice import filled_part, price, search_series


def tone(cycles, n, amplitude=1.0, seed=0, noise=0.3):
    rng = np.random.default_rng(seed)
    X = rng.random((n, 1))
    f = amplitude * np.sin(2.0 * np.pi * cycles * X[:, 0] + seed)
    return X, f, f + noise * rng.standard_normal(n)


def explained(model, X, f):
    return 1.0 - np.mean((model.predict(X) - f) ** 2) / np.var(f)


def covered(model, X, f):
    mean, std = model.predict(X, return_std=True, include_noise=False)
    return np.mean(np.abs(mean - f) < 1.96 * std)


# ---- What is found -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cycles", "n", "least"),
    [(100, 5000, 0.995), (10, 2000, 0.99), (300, 5000, 0.995), (900, 2000, 0.99),
     (40, 500, 0.97), (100, 500, 0.97), (10, 500, 0.97), (10, 100, 0.9)],
)  # fmt: skip
def test_a_tone_of_any_frequency(cycles, n, least):
    X, f, y = tone(cycles, n)
    model = SpectralVGPRegressor().fit(X, y)
    assert explained(model, X, f) > least
    assert covered(model, X, f) > 0.85
    # the strongest first, to a wave of the box
    assert abs(model.cycles_[0, 0] - cycles) < 1.0
    assert 0.26 < np.sqrt(model.noise_variance_) < 0.34


@pytest.mark.parametrize(
    ("slow", "fast", "amplitude"), [(30, 170, 0.5), (1, 170, 0.2), (1, 60, 0.2)]
)
def test_two_tones(slow, fast, amplitude):
    X, f, _ = tone(slow, 5000)
    f += amplitude * np.sin(2.0 * np.pi * fast * X[:, 0] + 1.0)
    y = f + 0.3 * np.random.default_rng(1).standard_normal(5000)
    model = SpectralVGPRegressor().fit(X, y)
    assert explained(model, X, f) > 0.99
    assert covered(model, X, f) > 0.9
    assert np.min(np.abs(model.cycles_ - fast)) < 1.0


@pytest.mark.parametrize("days", [30, 90])
def test_an_hourly_series_with_daily_and_weekly_cycles_and_a_trend(days):
    hour = np.arange(24.0 * days)
    f = np.sin(2.0 * np.pi * hour / 24.0) + 0.5 * np.cos(2.0 * np.pi * hour / 168.0)
    f += hour / hour[-1]
    y = f + 0.3 * np.random.default_rng(0).standard_normal(len(f))
    X = hour[:, np.newaxis]
    model = SpectralVGPRegressor().fit(X, y)
    assert explained(model, X, f) > 0.99
    assert covered(model, X, f) > 0.95
    assert np.min(np.abs(model.cycles_ - 1.0 / 24.0)) < 0.7 / hour[-1]


def test_waves_found_by_the_pilot():
    X, f, y = tone(2000, 21_000)
    model = SpectralVGPRegressor(random_state=0).fit(X, y)
    assert explained(model, X, f) > 0.99
    assert abs(model.cycles_[0, 0] - 2000) < 1.0


def test_a_grid_has_the_longer_of_two_waves_it_cannot_tell_apart():
    rng = np.random.default_rng(0)
    # several readings an hour: more rows than the grid has points
    for copies in (1, 4):
        X = np.repeat(np.arange(400.0), copies)[:, np.newaxis]
        y = np.sin(2.0 * np.pi * 0.3 * X[:, 0]) + 0.3 * rng.standard_normal(len(X))
        model = SpectralVGPRegressor().fit(X, y)
        assert np.all(model.cycles_ <= 0.5)
        assert np.min(np.abs(model.cycles_ - 0.3)) < 2e-3


def test_two_inputs():
    rng = np.random.default_rng(0)
    X = rng.random((3000, 2))
    f = np.sin(2.0 * np.pi * (9.0 * X[:, 0] - 7.0 * X[:, 1]))
    y = f + 0.3 * rng.standard_normal(3000)
    model = SpectralVGPRegressor(basis="fourier").fit(X, y)
    assert explained(model, X, f) > 0.98
    assert_allclose(np.abs(model.cycles_[0]), [9.0, 7.0], atol=0.7)


# ---- What is left alone --------------------------------------------------------------


@pytest.mark.parametrize("noise", ["normal", "heavy"])
def test_noise_stands_out_in_a_data_set_of_a_hundred_at_most(noise):
    alarms, sets = 0, 40
    for seed in range(sets):
        rng = np.random.default_rng(seed)
        X = rng.random((150, 1))
        y = rng.standard_normal(150) if noise == "normal" else rng.standard_t(5, 150)
        alarms += len(SpectralVGPRegressor().fit(X, y).cycles_) > 0
    # P(more than 3) = 7e-4 at a rate of .01
    assert alarms <= 3


def test_power_of_noise_is_exponential():
    """Mean and variance of all waves are one, by z-score."""
    rng = np.random.default_rng(0)
    X, y = rng.random((2000, 1)), rng.standard_normal(2000)
    state = SpectralVGPRegressor(domain=(0.0, 1.0)).fit(X, y)._state
    choice = search_series(state)
    tables = state.statistics.wave_tables()
    waves = np.arange(300, 800)[:, np.newaxis]
    filled = filled_part(state.seen, state.domain)
    power, known = _series_choice._power(choice, filled, waves, tables)
    assert np.all(known < 1e-3)
    assert abs(power.mean() - 1.0) < 4.0 / np.sqrt(500)
    # var of (P - 1)² is 8
    assert abs(np.mean((power - 1.0) ** 2) - 1.0) < 4.0 * np.sqrt(8.0 / 500)


@pytest.mark.parametrize("seed", range(3))
def test_smooth_functions_keep_the_order_of_the_prior(seed):
    X, f, y = tone(1.3, 500, seed=seed)
    model = SpectralVGPRegressor(basis="fourier").fit(X, y)
    assert not len(model.cycles_)
    plain = SpectralVGPRegressor(ordering="prior").fit(X, y)
    assert_allclose(model.predict(X), plain.predict(X), atol=1e-10)
    assert explained(model, X, f) > 0.97


@pytest.mark.parametrize(
    "parameters",
    [{"ordering": "prior"}, {"tau": 1.0}, {"optimizer": None},
     {"eigenvalues": np.ones(201)}, {"n_basis": "rate"}],
    ids=str,
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:Nothing but noise", "ignore:The data would")
def test_nothing_is_raised_where_the_prior_or_the_basis_is_given(parameters):
    X, _, y = tone(100, 500)
    model = SpectralVGPRegressor(**parameters).fit(X, y)
    assert model.cycles_.shape == (0, 1)


# ---- Sums ----------------------------------------------------------------------------


def test_streams_sums_and_weights_find_the_same_waves():
    X, f, y = tone(100, 3000)
    model = SpectralVGPRegressor(domain=(0.0, 1.0))
    whole = clone(model).partial_fit(X, y)
    stream = clone(model)
    for part in np.split(np.arange(3000), 3):
        stream.partial_fit(X[part], y[part])
    parts = [clone(model).partial_fit(X[s], y[s]) for s in np.split(np.arange(3000), 2)]
    for other in (stream, parts[0] + parts[1]):
        assert_array_equal(other.cycles_, whole.cycles_)
        assert_allclose(other.log_evidence_, whole.log_evidence_, rtol=1e-9)
        assert_allclose(other.predict(X), whole.predict(X), atol=1e-6)
    assert explained(stream, X, f) > 0.995
    some = np.repeat(np.arange(500), 2)
    twice = clone(model).fit(X[some], y[some])
    weighted = clone(model).fit(X[:500], y[:500], sample_weight=np.full(500, 2))
    assert_array_equal(twice.cycles_, weighted.cycles_)
    assert_allclose(twice.predict(X), weighted.predict(X), atol=1e-6)


def test_the_order_of_rows_scales_and_origins():
    X, _, y = tone(60, 800)
    model = SpectralVGPRegressor().fit(X, y)
    order = np.random.default_rng(1).permutation(800)
    other = SpectralVGPRegressor().fit(X[order], y[order])
    assert_array_equal(other.cycles_, model.cycles_)
    for scale in (1e-6, 1e6):
        moved = SpectralVGPRegressor().fit(scale * X, 5.0 + scale * y)
        assert_allclose(scale * moved.cycles_, model.cycles_, rtol=1e-9)
        assert moved.n_basis_ == model.n_basis_


def test_draws_and_credible_sets_of_raised_waves():
    X, _, y = tone(40, 500)
    model = SpectralVGPRegressor().fit(X, y)
    grid = np.linspace(0.1, 0.9, 40)[:, np.newaxis]
    mean, std = model.predict(grid, return_std=True, include_noise=False)
    draws = model.sample_functions(2000, random_state=0)(grid).reshape(40, -1)
    z = (draws.mean(axis=1) - mean) / (std / np.sqrt(2000))
    assert np.abs(z).max() < 4.5
    ratio = draws.std(axis=1) / std
    assert np.abs(ratio - 1.0).max() < 4.5 / np.sqrt(4000)
    assert 0.0 < model.credible_ball(0.95) < 0.5


# ---- Kernels -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kernel", [1.0 * RBF(0.005), 1.0 * RBF(), 1.0 * Matern(0.1, nu=1.5)], ids=str
)
def test_kernels_of_any_lengthscale_find_a_tone(kernel):
    X, f, y = tone(40, 1500)
    model = SpectralVGPRegressor(kernel).fit(X, y)
    assert explained(model, X, f) > 0.95
    assert not len(model.cycles_)


# ---- Constants -----------------------------------------------------------------------


def weak():
    """A wave that nearly stands out, and its power."""
    X, _, y = tone(100, 400, amplitude=0.14)
    return X, y


def loudest(X, y):
    state = SpectralVGPRegressor(ordering="prior").fit(X, y)._state
    choice = search_series(state)
    tables = state.statistics.wave_tables()
    waves = np.arange(1, int(tables[1].reach[0]) + 1)[:, np.newaxis]
    filled = filled_part(state.seen, state.domain)
    power, _ = _series_choice._power(choice, filled, waves, tables)
    return power.max(), len(waves), choice


@pytest.mark.parametrize("most", [1, 2, 3, 4, 5, 20, 21])
@pytest.mark.filterwarnings("ignore:The data would support")
def test_caps_on_functions_hold_for_waves_that_stand_out(most):
    X, _, y = tone(100, 1000)
    model = SpectralVGPRegressor(max_basis=most).fit(X, y)
    assert model.n_basis_ <= most
    assert 2 * len(model.cycles_) <= most


def test_the_price_is_that_of_a_choice_among_all_waves():
    X, y = weak()
    _, K, choice = loudest(X, y)
    waves = np.ones((3, 1), np.int64)
    assert_allclose(price(choice, waves), 3.0 * np.log((K + 0.5) / 0.01))
