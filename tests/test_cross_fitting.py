"""Clones on folds: who sees what, how often, and with which weights."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import BayesianRidge, LinearRegression
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    ShuffleSplit,
    TimeSeriesSplit,
)
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skgpx._shell.cross_fitting import cross_fit, seeded, weight_keyword
from skgpx._shell.tables import Training, row_codes

rng = np.random.default_rng(0)
X = rng.normal(size=(40, 2))
Y = X[:, 0] + 0.1 * rng.normal(size=40)


class Nearest(RegressorMixin, BaseEstimator):
    """Target of the nearest row: zero error on every row it has seen."""

    def fit(self, X, y):
        self.X_, self.y_ = np.asarray(X, float), np.asarray(y)
        return self

    def predict(self, X):
        far = np.abs(np.asarray(X, float)[:, np.newaxis] - self.X_).sum(axis=2)
        return self.y_[far.argmin(axis=1)]


def predict(fitted, X):
    return fitted.predict(X)[:, np.newaxis]


def cross(estimator, X=X, y=Y, weights=None, **options):
    weights = np.ones(len(y)) if weights is None else weights
    return cross_fit(estimator, Training(X, y, weights), predict, **options)


def by_row(found, y=Y):
    """Responses in the order of the rows."""
    order = np.argsort(found.positions)
    assert_array_equal(found.positions[order], np.arange(len(y)))
    return found.predictions[order, 0], found.held_out[order]


@pytest.mark.parametrize("cv", [None, 2, 40, 100, KFold(3), KFold(4, shuffle=True)])
def test_no_row_is_predicted_by_who_has_seen_it(cv):
    found = cross(Nearest(), cv=cv)
    predictions, held_out = by_row(found)
    assert np.all(held_out)
    assert np.all(predictions != Y)
    assert_array_equal(found.estimator.predict(X), Y)


def test_copies_of_a_row_are_in_one_fold():
    twice = np.concatenate((np.arange(40), np.arange(40)))
    found = cross(Nearest(), X[twice], Y[twice])
    assert len(found.positions) == 40
    assert_array_equal(found.weights, 2.0)
    assert np.all(found.predictions[:, 0] != Y[twice][found.positions])


@pytest.mark.parametrize("estimator", [BayesianRidge(), KNeighborsRegressor(3)])
def test_weights_are_repetitions_in_any_order(estimator):
    weights = np.random.default_rng(1).integers(0, 4, size=40).astype(float)
    repeated = rng.permutation(np.repeat(np.arange(40), weights.astype(int)))
    one = cross(estimator, weights=weights)
    other = cross(estimator, X[repeated], Y[repeated])
    assert_array_equal(one.weights, other.weights)
    assert_array_equal(X[one.positions], X[repeated][other.positions])
    assert_array_equal(one.predictions, other.predictions)
    assert_array_equal(one.estimator.predict(X), other.estimator.predict(X))


def test_weights_reach_the_estimator_in_every_way():
    weights = rng.uniform(0.5, 2.0, size=40)
    plain = LinearRegression().fit(X, Y, sample_weight=weights)
    pipeline = make_pipeline(StandardScaler(), LinearRegression())
    for estimator in (
        LinearRegression(),
        pipeline,
        GridSearchCV(LinearRegression(), {}, cv=2),
        TransformedTargetRegressor(LinearRegression()),
        TransformedTargetRegressor(),
        GridSearchCV(pipeline, {}, cv=2),
    ):
        found = cross(estimator, weights=weights)
        assert_allclose(found.estimator.predict(X), plain.predict(X))
    for estimator in (
        KNeighborsRegressor(),
        make_pipeline(StandardScaler(), KNeighborsRegressor()),
        make_pipeline(StandardScaler(), "passthrough"),
    ):
        assert weight_keyword(estimator) is None


def test_time_series_splits_know_the_past_only():
    found = cross(Nearest(), cv=TimeSeriesSplit(3))
    predictions, held_out = by_row(found)
    assert_array_equal(held_out, np.arange(40) >= 10)
    assert_array_equal(predictions[:10], Y[:10])  # in sample, and said so
    assert np.all(predictions[10:] != Y[10:])
    assert_array_equal(found.estimator.X_, X)  # in the order of the rows


def test_groups_stay_together():
    groups = np.arange(40) % 4
    near = X[groups] + 1e-9 * rng.normal(size=(40, 2))
    found = cross(Nearest(), near, cv=GroupKFold(4), groups=groups)
    predictions, _ = by_row(found)
    same = [np.any(groups[predictions[i] == Y] == groups[i]) for i in range(40)]
    assert not np.any(same)


@pytest.mark.parametrize(
    "cv",
    [ShuffleSplit(3, test_size=0.5, random_state=0), [(np.arange(40), np.arange(20))]],
)
def test_splits_that_overlap_are_refused(cv):
    with pytest.raises(ValueError, match="must not overlap"):
        cross(Nearest(), cv=cv)


def test_the_estimator_stays_as_it_is():
    estimator = make_pipeline(StandardScaler(), LinearRegression())
    cross(estimator)
    assert not hasattr(estimator[0], "mean_")
    assert not hasattr(estimator[1], "coef_")


def test_same_bits_for_every_number_of_workers():
    forest = RandomForestRegressor(5, random_state=0)
    one, two = (cross(forest, n_jobs=n) for n in (1, 2))
    assert_array_equal(one.predictions, two.predictions)


def test_seeds_are_given_where_there_is_none():
    forest = RandomForestRegressor(5)
    search = GridSearchCV(make_pipeline(StandardScaler(), forest), {}, cv=2)
    fresh = seeded(search, np.random.default_rng(0))
    again = seeded(search, np.random.default_rng(0))
    name = "estimator__randomforestregressor__random_state"
    assert isinstance(fresh.get_params()[name], int)
    assert fresh.get_params()[name] == again.get_params()[name]
    assert forest.random_state is None
    kept = seeded(RandomForestRegressor(random_state=3), np.random.default_rng(0))
    assert kept.random_state == 3


def test_one_row_is_seen():
    found = cross(Nearest(), X[:1], Y[:1])
    assert_array_equal(found.held_out, [False])
    assert_array_equal(found.predictions, [[Y[0]]])


def frame():
    return pd.DataFrame(
        {
            "kind": pd.Categorical(["a", "b", None, "a"]),
            "text": ["x", "y", "x", "x"],
            "number": [1.0, np.nan, 2.0, 1.0],
            "count": [1, 2, 3, 1],
        }
    )


def test_codes_are_equal_where_rows_are():
    codes = row_codes(frame())
    assert codes.shape == (4, 4)
    assert_array_equal(codes[0], codes[3])
    assert len(np.unique(codes, axis=0)) == 3
    assert_array_equal(np.argsort(row_codes(X), axis=0), np.argsort(X, axis=0))
    assert np.all(np.isfinite(row_codes(np.array([[1.0, np.nan], [2.0, np.nan]]))))
    mixed = np.array([["a", 1], ["b", 2.0], ["a", 1]], dtype=object)
    assert len(np.unique(row_codes(mixed), axis=0)) == 2
