"""Predictive distributions out of fold."""

import pickle

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF
from sklearn.linear_model import BayesianRidge
from sklearn.model_selection import GroupKFold, KFold, ShuffleSplit, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import skgpx
from skgpx import PLSRegressor
from skgpx.likelihoods import Poisson

rng = np.random.default_rng(0)
X = rng.uniform(-3.0, 3.0, size=(30, 1))
Y = np.sin(X[:, 0]) + 0.2 * rng.normal(size=30)
FEW = {"kernel": RBF(1.0), "optimizer": None, "n_inducing": 8, "random_state": 0}
PIPELINE = make_pipeline(StandardScaler(), PLSRegressor(**FEW))
CV = KFold(3, shuffle=True, random_state=1)


@pytest.mark.parametrize("model", [PIPELINE, BayesianRidge()], ids=["pls", "ridge"])
def test_each_row_has_the_distribution_of_the_fit_that_did_not_see_it(model):
    distribution = skgpx.cross_val_predict_dist(model, X, Y, cv=CV)
    assert len(distribution) == 30
    assert_allclose(
        distribution.mean(), cross_val_predict(model, X, Y, cv=CV), rtol=1e-12
    )
    for train, test in CV.split(X):
        one = skgpx.predict_dist(clone(model).fit(X[train], Y[train]), X[test])
        assert_array_equal(distribution.std()[test], one.std())
        assert_array_equal(
            distribution.quantile((0.1, 0.5))[test], one.quantile((0.1, 0.5))
        )
        assert_array_equal(distribution.log_density(Y)[test], one.log_density(Y[test]))
        assert_array_equal(distribution.cdf(0.3)[test], one.cdf(0.3))
        assert_array_equal(distribution.crps(Y)[test], one.crps(Y[test]))
    assert distribution.interval().shape == (30, 2)
    again = pickle.loads(pickle.dumps(distribution))
    assert_array_equal(again.mean(), distribution.mean())


def test_draws_and_workers():
    distribution = skgpx.cross_val_predict_dist(PIPELINE, X, Y, cv=CV, n_jobs=2)
    draws = distribution.sample(500, random_state=0)
    assert draws.shape == (30, 500)
    error = distribution.std() / np.sqrt(500.0)
    assert np.all(np.abs(draws.mean(axis=1) - distribution.mean()) < 4.5 * error)
    assert_array_equal(draws, distribution.sample(500, random_state=0))
    alone = skgpx.cross_val_predict_dist(PIPELINE, X, Y, cv=CV)
    assert_array_equal(alone.std(), distribution.std())


def test_what_is_known_of_rows_is_split_with_them():
    exposure = rng.uniform(0.5, 4.0, size=30)
    counts = rng.poisson(exposure * np.exp(Y)).astype(float)
    model = PLSRegressor(likelihood=Poisson(), n_particles=10, **FEW)
    given = {"exposure": exposure, "sample_weight": np.ones(30)}
    distribution = skgpx.cross_val_predict_dist(model, X, counts, cv=CV, params=given)
    assert distribution.discrete
    train, test = next(CV.split(X))
    fitted = clone(model).fit(X[train], counts[train], exposure=exposure[train])
    one = fitted.predict_dist(X[test], exposure=exposure[test])
    assert_array_equal(distribution.mean()[test], one.mean())
    frame = pd.DataFrame(X, columns=["x"])
    inside = make_pipeline(StandardScaler(), model)
    named = {f"plsregressor__{name}": value for name, value in given.items()}
    piped = skgpx.cross_val_predict_dist(inside, frame, counts, cv=CV, params=named)
    assert_array_equal(np.shape(piped.mean()), (30,))


def test_folds_are_a_partition():
    with pytest.raises(ValueError, match="each of the 30 rows exactly once"):
        skgpx.cross_val_predict_dist(PIPELINE, X, Y, cv=ShuffleSplit(3, random_state=0))
    groups = np.arange(30) % 4
    distribution = skgpx.cross_val_predict_dist(
        PIPELINE, X, Y, groups=groups, cv=GroupKFold(2)
    )
    for rows in distribution.positions:
        assert len(np.unique(groups[rows])) == 2
    assert len(skgpx.cross_val_predict_dist(PIPELINE, X, Y).parts) == 5
