"""Inducing points that are too few say so, through the public fit."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from skgpx import PLSRegressor
from skgpx._selection import warn_of_lost_signal
from skgpx._validation import Rows
from skgpx.likelihoods import Gaussian


def waves(half, noise, n=400):
    rng = np.random.default_rng(0)
    X = rng.uniform(-half, half, (n, 2))
    f = np.sin(2.0 * X[:, 0]) * np.cos(2.0 * X[:, 1])
    return X, f + noise * rng.standard_normal(n), f


@pytest.mark.parametrize(
    ("n_inducing", "noise"), [(10, 0.01), (10, 0.5), (30, 0.1), (30, 0.5)]
)
def test_too_few_points_are_told_once(n_inducing, noise):
    X, y, f = waves(3.0, noise)
    with pytest.warns(ConvergenceWarning, match="too few for this function") as told:
        model = PLSRegressor(n_inducing=n_inducing, random_state=0).fit(X, y)
    assert len(told) == 1
    assert told[0].filename == __file__
    # it is true
    assert np.mean((model.predict(X) - f) ** 2) > 0.2 * f.var()


@pytest.mark.parametrize(
    ("n_inducing", "half", "noise"),
    [(50, 3.0, 0.1), (50, 3.0, 0.5), ("auto", 3.0, 0.1), (30, 2.0, 0.01),
     (30, 2.0, 0.5)],
)  # fmt: skip
def test_enough_points_say_nothing(n_inducing, half, noise):
    X, y, f = waves(half, noise)
    model = PLSRegressor(n_inducing=n_inducing, random_state=0).fit(X, y)
    assert np.mean((model.predict(X) - f) ** 2) < 0.2 * f.var()


@pytest.mark.parametrize(
    ("n", "exact", "sparse", "told"),
    # explained .9, a fifth of which is .18; three standard errors of .5 are .3 for 50
    [(400, 0.1, 0.279, False), (400, 0.1, 0.281, True), (49, 0.1, 0.9, False),
     (50, 0.1, 0.9, True), (50, 0.5, 0.79, False), (50, 0.5, 0.81, True)],
)  # fmt: skip
def test_what_counts_as_lost(n, exact, sparse, told):
    y = np.tile([-1.0, 1.0], n)[:n]
    y = (y - y.mean()) / y.std()
    rows = Rows(np.arange(float(n))[:, np.newaxis], y, np.ones(n))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        warn_of_lost_signal(10, rows, exact, sparse)
        warn_of_lost_signal(n, rows, exact, sparse)
    assert len(said) == told


def test_noise_that_is_known_takes_nothing():
    X, y, _ = waves(3.0, 0.1)
    model = PLSRegressor(n_inducing=10, likelihood=Gaussian(0.01), random_state=0)
    assert model.fit(X, y).noise_variance_ == pytest.approx(0.01)
