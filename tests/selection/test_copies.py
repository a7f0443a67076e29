"""Rows that are there twice do not make noise vanish: bootstraps, joins, weights."""

import numpy as np
import pytest
from sklearn.ensemble import BaggingRegressor

from skgpx import DecoupledSampler, PLSRegressor, SpectralVGPRegressor
from skgpx._selection._copies import counted_once, lost_noise_to_copies
from skgpx._validation import Rows
from skgpx.likelihoods import Gaussian, StudentT

MODELS = [
    PLSRegressor(random_state=0),
    PLSRegressor(likelihood=StudentT(), n_particles=8, tol=3.0, random_state=0),
    SpectralVGPRegressor(random_state=0),
    DecoupledSampler(random_state=0),
]


def function(X):
    return np.sin(2.0 * X[:, 0])


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 3))
    return X, function(X) + 0.1 * rng.standard_normal(120)


def error(model, rng):
    X = rng.standard_normal((500, 3))
    return np.sqrt(np.mean((model.predict(X) - function(X)) ** 2))


@pytest.mark.parametrize("model", MODELS, ids=lambda model: repr(model)[:30])
def test_a_bootstrap_is_fitted_like_its_distinct_rows(model, data):
    X, y = data
    chosen = np.random.RandomState(0).randint(0, len(y), len(y))
    once = np.unique(chosen)
    errors = [
        error(model.fit(X[rows], y[rows]), np.random.default_rng(1))
        for rows in (chosen, once)
    ]
    # errors of 0.13 to 0.8 where the noise had vanished
    assert errors[0] < 1.3 * errors[1] + 0.01


def test_the_report_says_so(data):
    X, y = data
    model = PLSRegressor(random_state=0).fit(X, y, sample_weight=np.full(len(y), 2.0))
    assert "once" in model.report()["search"]["copies"]
    assert "copies" not in PLSRegressor(random_state=0).fit(X, y).report()["search"]
    assert 0.005 < model.noise_variance_ < 0.02


def test_bagging(data):
    X, y = data
    bag = BaggingRegressor(PLSRegressor(random_state=0), n_estimators=3, random_state=0)
    assert error(bag.fit(X, y), np.random.default_rng(1)) < 0.08


@pytest.mark.parametrize(
    ("likelihood", "weight", "lost"),
    [
        (Gaussian(1e-8), 2.0, False),  # given, not learned
        (Gaussian(), 2.0, True),
        (Gaussian(), 1.0, False),
        (StudentT(), 2.0, True),
    ],
)
def test_when_noise_is_lost(likelihood, weight, lost):
    y = np.random.default_rng(0).standard_normal(8)
    rows = Rows(y[:, np.newaxis], y, np.full(8, weight))
    prepared = likelihood.prepare(y, rows.weights)
    for noise, expected in ((0.99e-6, lost), (1e-6, False)):
        found = prepared
        if len(prepared.theta):
            size = (
                np.log(noise) if isinstance(prepared, Gaussian) else np.log(noise) / 2
            )
            found = prepared.with_theta(np.array([size]))
        assert lost_noise_to_copies(found, rows) is expected
    np.testing.assert_array_equal(counted_once(rows).weights, np.ones(8))
