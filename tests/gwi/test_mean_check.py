"""Networks or kernel sections: which is the mean, and what is said."""

import warnings

import numpy as np
import pytest

from skgpx import GWIRegressor
from skgpx._gwi._checks import (
    MIN_HELD_OUT,
    MeanErrors,
    networks_suffice,
    warn_if_process_is_better,
)


def errors_of(networks, process):
    return MeanErrors(networks, process, 100, 30)


@pytest.mark.parametrize(
    ("networks", "serve"), [(0.124, True), (0.125, True), (0.126, False)]
)
def test_networks_serve_up_to_a_quarter_more(networks, serve):
    assert networks_suffice(errors_of(networks, 0.1)) is serve


def test_without_judges_the_process_serves():
    assert not networks_suffice(None)


@pytest.mark.parametrize(
    ("networks", "process", "told"),
    [
        (0.19, 0.1, False),
        (0.21, 0.1, True),
        (0.049, 0.001, False),
        (0.052, 0.001, True),
    ],
)
def test_it_is_told_where_networks_are_much_worse(networks, process, told):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_if_process_is_better(errors_of(networks, process))
    assert bool(caught) is told


def waves(n, seed=0):
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(0.0, 60.0, size=(n, 1)), axis=0)
    return x, np.sin(x[:, 0]) + 0.2 * rng.standard_normal(n)


def test_waves_of_many_periods_are_kernel_sections():
    x, y = waves(500)
    model = GWIRegressor(n_restarts=2, max_iter=60, random_state=0).fit(x, y)
    assert model.mean_ == "svgp"
    assert len(model.loss_curve_) > 0
    new, truth = waves(300, seed=1)
    assert np.mean((model.predict(new) - truth) ** 2) < 0.1
    # the kernel was compared with others on fewer rows
    sections = GWIRegressor("svgp", random_state=0).fit(x, y).predict(new)
    assert np.max(np.abs(model.predict(new) - sections)) < 0.2
    with pytest.warns(UserWarning, match="networks has missed structure"):
        GWIRegressor("net", n_restarts=2, max_iter=60, random_state=0).fit(x, y)


def test_few_columns_that_matter_among_many():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, size=(400, 20))
    y = np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1] * X[:, 2]
    y = y + 0.2 * rng.standard_normal(400)
    model = GWIRegressor(random_state=0).fit(X[:100], y[:100])
    assert model.mean_ == "svgp"
    mean, std = model.predict(X[100:], return_std=True)
    assert np.mean((mean - y[100:]) ** 2) < 0.3 * np.var(y)
    assert np.mean(np.abs(y[100:] - mean) < 1.96 * std) > 0.85


def test_a_slope_that_networks_find():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 3))
    y = np.tanh(4.0 * X[:, 0]) + 0.2 * rng.standard_normal(300)
    assert GWIRegressor(n_restarts=2, random_state=0).fit(X, y).mean_ == "net"


@pytest.mark.parametrize("n", [30, 34, 35, 36])
def test_rows_around_the_number_that_judges(n):
    # half of the rows are held out by one network or another
    x, y = waves(n)
    x = x / 30.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = GWIRegressor(max_iter=30, random_state=0).fit(x, y)
    validation = 5 * round(0.1 * n)
    if validation < MIN_HELD_OUT:
        assert model.mean_ == "svgp"
    assert np.all(np.isfinite(model.predict(x, return_std=True)))


def test_outliers_in_a_column_leave_networks_what_they_learn():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, size=(600, 3))
    y = np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1] + 0.2 * rng.standard_normal(600)
    X[:4] *= 1e4
    model = GWIRegressor("net", n_restarts=2, max_iter=300, random_state=0)
    model.fit(X[:400], y[:400])
    error = y[400:] - model.predict(X[400:])
    assert np.mean(error**2) < 0.2 * np.var(y)
