"""The error of an average, told by the networks of which each held out other rows."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skgpx import GWIRegressor
from skgpx._gwi import _fit
from skgpx._gwi._network import InSample, share_of_error
from tests.gwi.conftest import FIXED

N = 200_000


def drawn(s, noise, leverage, n_networks, rng, bias=0.0):
    """Values of networks in the model of the notes, the first of which held out."""
    y = rng.normal(size=N)
    mu = y - np.sqrt(noise) * rng.normal(size=N) - bias
    delta = np.sqrt(s) * rng.normal(size=(n_networks, N))
    others = mu + delta[1:] + leverage * (y - mu)
    k = n_networks - 1
    values, variance = others.mean(0), others.var(0, ddof=1) / k
    share = np.full(N, 1.0 / n_networks)
    in_sample = InSample(values[:, np.newaxis], variance[:, np.newaxis], share)
    return y, mu + delta[0], in_sample


@pytest.mark.parametrize("n_networks", [3, 5])
@pytest.mark.parametrize("s", [0.0, 0.05, 0.5])
@pytest.mark.parametrize("leverage", [0.0, 0.2, 0.6])
def test_the_share_is_that_of_the_model(n_networks, s, leverage):
    rng = np.random.default_rng(0)
    y, h, in_sample = drawn(s, 0.3, leverage, n_networks, rng, bias=0.2)
    expected = (0.34 + s / n_networks) / (0.34 + s)
    # standard errors of the means of N squares are below .003 of them
    assert_allclose(share_of_error(y, h, in_sample, np.ones(N)), expected, rtol=0.02)


def test_weights_are_repetitions():
    y, h, in_sample = drawn(0.3, 0.3, 0.2, 3, np.random.default_rng(1))
    rows = np.arange(50)
    times = np.random.default_rng(2).integers(1, 4, 50)
    again = np.repeat(rows, times)
    found = share_of_error(y[rows], h[rows], in_sample.take(rows), times.astype(float))
    repeated = share_of_error(
        y[again], h[again], in_sample.take(again), np.ones(len(again))
    )
    assert_allclose(found, repeated)


def test_nothing_is_told_by_networks_that_are_right_or_interpolate():
    y, zero = np.arange(5.0), np.zeros((5, 1))
    in_sample = InSample(y[:, np.newaxis], zero, np.full(5, 0.2))
    assert share_of_error(y, y, in_sample, np.ones(5)) == 1.0
    assert share_of_error(y, y + 1.0, in_sample, np.ones(5)) == 1.0


def noisy(n, seed, d=20):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, d))
    f = 10.0 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20.0 * (X[:, 2] - 0.5) ** 2
    return X, f + 10.0 * X[:, 3] + 5.0 * X[:, 4] + rng.normal(size=n)


@pytest.mark.filterwarnings("ignore:The networks leave")
@pytest.mark.parametrize("n_restarts", [1, 2, 3, 5, 12])
def test_variances_are_those_of_the_average(monkeypatch, n_restarts):
    """Many columns, so that networks vary: errors are those of the predictions."""
    shares, told = [], _fit.share_of_error

    def spy(*arguments):
        shares.append(told(*arguments))
        return shares[-1]

    monkeypatch.setattr(_fit, "share_of_error", spy)
    how = {**FIXED, "kernel": None, "n_restarts": n_restarts, "max_iter": 300}
    how |= {"noise_variance": None, "random_state": 0}
    model = GWIRegressor("net", **how).fit(*noisy(300, 0))
    X, y = noisy(2000, 1)
    mean, std = model.predict(X, return_std=True)
    ratio = np.mean((y - mean) ** 2) / np.mean(std**2)
    assert 0.5 < ratio < 1.3
    if n_restarts < 3:
        assert not shares
    else:
        assert 1.0 / n_restarts < shares[0] < 0.9
