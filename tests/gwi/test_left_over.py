"""Errors of neighbours that agree, and the closer look that they lead to."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF

from skgpx import GWIRegressor
from skgpx._gwi._checks import (
    MeanErrors,
    may_overfit,
    networks_suffice,
    warn_if_constant_is_better,
)
from skgpx._selection import _left_over, left_out_means
from skgpx._selection._left_over import (
    FEWEST_NEIGHBOURS,
    LeftOver,
    warn_of_left_over,
)
from skgpx._validation import Rows

SHORT = {"n_restarts": 2, "max_iter": 20, "random_state": 0}


def waves(n, cycles, d=1, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, d))
    f = np.sin(2.0 * np.pi * cycles * X[:, 0])
    if d > 1:
        f = f + 0.5 * np.sin(2.0 * np.pi * X[:, 1])
    return X, f, f + 0.1 * rng.standard_normal(n)


# ---- What neighbours share -----------------------------------------------------------


def test_noise_shares_nothing():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X, errors = rng.uniform(size=(500, 3)), rng.standard_t(3, size=500)
        assert LeftOver.of(X, errors, 1.0).share == 0.0


@pytest.mark.parametrize("column", [0, 2])
def test_a_wave_in_one_column(column):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(1000, 7))
    wave = np.sin(2.0 * np.pi * 20.0 * X[:, column])
    left = LeftOver.of(X, wave + 0.5 * rng.standard_normal(1000), 2.0)
    assert left.column == column
    # a half in the variance of the wave, in units of two
    assert 0.2 < left.share < 0.3
    assert 0.55 < left.correlation < 0.7
    window = left.window(X, 200)
    assert abs(len(window) - 200) < 40
    assert np.ptp(X[window, column]) < 0.25


def test_a_bump_in_two_columns_is_where_errors_agree():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(2000, 2))
    bump = 3.0 * np.exp(-0.5 * np.sum((X - [0.2, 0.7]) ** 2, axis=1) / 0.03**2)
    left = LeftOver.of(X, bump + 0.1 * rng.standard_normal(2000), 1.0)
    assert left.column == -1
    window = left.window(X, 100)
    assert len(window) == 100
    assert np.max(np.abs(np.mean(X[window], axis=0) - [0.2, 0.7])) < 0.05


@pytest.mark.parametrize("n", [FEWEST_NEIGHBOURS - 1, FEWEST_NEIGHBOURS])
def test_few_rows_tell_nothing(n):
    x = np.linspace(0.0, 1.0, n)[:, np.newaxis]
    assert (LeftOver.of(x, np.sin(3.0 * x[:, 0]), 1.0) is None) is (n < 100)
    assert LeftOver.of(x, np.zeros(n), 0.0) is None


@pytest.mark.parametrize(
    ("share", "correlation", "told"),
    [(0.06, 0.3, True), (0.04, 0.3, False), (0.06, 0.1, False)],
)
def test_what_is_told(share, correlation, told):
    left = LeftOver(share, correlation, 0, np.zeros((1, 1)), np.zeros(1))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert warn_of_left_over(left, "Do this.") is told
    assert [str(one.message)[-9:] for one in said] == [" Do this."] * told


# ---- The closer look -----------------------------------------------------------------


def test_waves_too_short_for_500_of_many_rows():
    # 2.5 rows of the search a cycle: the default was .9 of the variance from it
    X, f, y = waves(4000, 150)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = GWIRegressor(**SHORT).fit(X[:3000], y[:3000])
    assert model.mean_ == "svgp"
    assert np.mean((model.predict(X[3000:]) - f[3000:]) ** 2) < 0.02
    low, high = model.predict_interval(X[3000:], 0.95).T
    covered = np.mean((low <= y[3000:]) & (y[3000:] <= high))
    assert 0.9 < covered < 0.99


def test_waves_in_one_of_two_columns():
    X, f, y = waves(3000, 60, 2)
    model = GWIRegressor(**SHORT).fit(X[:2000], y[:2000])
    assert np.mean((model.predict(X[2000:]) - f[2000:]) ** 2) < 0.05 * np.var(f)


def test_a_wave_that_networks_miss_is_told():
    X, _, y = waves(600, 90)
    monkey = {"n_restarts": 2, "max_iter": 5, "random_state": 0}
    with pytest.warns(UserWarning, match="networks has missed structure|misses struct"):
        GWIRegressor("net", **monkey).fit(X, y)


# ---- Rows that judge are points, too -------------------------------------------------


def test_few_rows_of_short_waves_use_all_points():
    # the rows that judged variances were no points: .39 and .15 before
    X, f, y = waves(1200, 90, seed=1)
    model = GWIRegressor(random_state=0).fit(X[:200], y[:200])
    assert len(model.inducing_points_) == 200
    exact = GaussianProcessRegressor(
        model.kernel_, alpha=model.noise_variance_ / np.var(y[:200]), optimizer=None,
        normalize_y=True,
    ).fit(X[:200], y[:200])  # fmt: skip
    ours, theirs = model.predict(X[200:]), exact.predict(X[200:])
    ours, theirs = (np.mean((m - f[200:]) ** 2) for m in (ours, theirs))
    assert ours < 1.1 * theirs
    low, high = model.predict_interval(X[200:], 0.95).T
    assert 0.88 < np.mean((low <= y[200:]) & (y[200:] <= high)) < 0.99


# ---- Choice of the mean --------------------------------------------------------------


def test_means_of_rows_left_out():
    rng = np.random.default_rng(0)
    X, y = rng.uniform(size=(12, 2)), rng.normal(size=12)
    rows = Rows(X, y, np.ones(12))
    found = left_out_means(RBF(0.4), 0.1, rows)
    for i in range(12):
        kept = np.arange(12) != i
        one = GaussianProcessRegressor(RBF(0.4), alpha=0.1, optimizer=None)
        assert found[i] == pytest.approx(one.fit(X[kept], y[kept]).predict(X[[i]])[0])


@pytest.mark.parametrize(
    ("networks", "process", "serve"),
    [(0.99, 0.95, True), (1.05, 1.0, False), (1.05, 1.2, True)],
)
def test_networks_that_lose_to_the_mean_of_y_need_be_better(networks, process, serve):
    assert networks_suffice(MeanErrors(networks, process, 100, 30)) is serve


@pytest.mark.parametrize(("error", "told"), [(1.04, False), (1.06, True)])
def test_a_mean_that_loses_to_that_of_y_is_told(error, told):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        warn_if_constant_is_better(MeanErrors(error, 2.0, 100, 30))
        warn_if_constant_is_better(MeanErrors(error, 2.0, 100, 19))
        warn_if_constant_is_better(None)
    assert len(said) == told


@pytest.mark.parametrize(("n", "overfit"), [(74, True), (75, False), (76, False)])
def test_kernels_that_may_know_their_rows(n, overfit):
    # two parameters and the noise
    assert may_overfit(2.0 * RBF(1.0), n) is overfit
    assert not may_overfit(RBF(1.0, "fixed"), 5)


def test_spikes_in_few_rows_are_left_to_the_process():
    """Networks had .6 of the standard deviation, where the process has a tenth."""
    rng = np.random.default_rng(2)
    X = rng.uniform(0.0, 10.0, size=(1200, 1))
    centres, heights = rng.uniform(0.0, 10.0, 6), rng.uniform(1.0, 4.0, 6)
    f = np.exp(-0.5 * ((X - centres) / 0.1) ** 2) @ heights
    y = f + 0.1 * rng.standard_normal(1200)
    model = GWIRegressor(random_state=0).fit(X[:200], y[:200])
    assert model.mean_ == "svgp"
    error = np.sqrt(np.mean((model.predict(X[200:]) - f[200:]) ** 2))
    assert error < 0.2 * np.std(f)


def test_window_of_all_rows():
    X, _, y = waves(200, 1)
    left = LeftOver.of(X, y, 1.0)
    assert len(left.window(X, 200)) == 200
    assert _left_over._ball(X, X[3], 900).tolist() == list(range(200))
