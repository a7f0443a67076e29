"""Callbacks of the package; those of others are tested in pls/test_estimators.py."""

import pickle

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF
from sklearn.model_selection import GridSearchCV
from sklearn.utils.fixes import parse_version

from skgpx import PLSClassifier, PLSRegressor
from skgpx.callbacks import StopOnRhat

needs_callbacks = pytest.mark.skipif(
    parse_version(sklearn.__version__) < parse_version("1.9"),
    reason="scikit-learn has callbacks since 1.9",
)
SETTINGS = {
    "kernel": RBF(1.0),
    "optimizer": None,
    "n_inducing": 10,
    "n_particles": 40,
    "max_iter": 200,
    "random_state": 0,
}
rng = np.random.default_rng(0)
X = rng.uniform(-2.0, 2.0, size=(50, 1))
Y = np.sin(2.0 * X[:, 0])
LABELS = rng.random(50) < 1.0 / (1.0 + np.exp(-2.0 * Y))


def test_parameter():
    for threshold in (0.9, np.nan):
        with pytest.raises(ValueError, match="at least 1"):
            StopOnRhat(threshold)


def test_pickle():
    stop = pickle.loads(pickle.dumps(StopOnRhat(1.2)))
    assert repr(stop) == "StopOnRhat(threshold=1.2)"
    assert stop.history_ == []


@needs_callbacks
@pytest.mark.filterwarnings("error")
def test_stops_when_the_chains_agree():
    stop = StopOnRhat(1.3)
    # a tolerance that is never met: chains stopped by a callback do not warn
    model = PLSClassifier(tol=1.0, **SETTINGS).set_callbacks(stop).fit(X, LABELS)
    assert stop.history_[-1] == model.rhat_.max() <= 1.3
    assert not any(value <= 1.3 for value in stop.history_[:-1])
    assert len(stop.history_) == len(model.energy_curve_)
    assert model.n_iter_ < 200
    again = clone(model).fit(X, LABELS)
    assert again.n_iter_ == model.n_iter_


@needs_callbacks
def test_history_begins_anew_with_each_fit():
    stop = StopOnRhat(1.3)
    model = PLSClassifier(tol=1.0, **SETTINGS).set_callbacks(stop)
    lengths = [len(model.fit(X, LABELS) and stop.history_) for _ in range(2)]
    assert lengths[0] == lengths[1] > 0


@needs_callbacks
def test_nothing_to_stop_in_an_exact_fit():
    stop = StopOnRhat()
    PLSRegressor(**SETTINGS).set_callbacks(stop).fit(X, Y)
    assert stop.history_ == []


@needs_callbacks
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_inside_a_search(n_jobs):
    model = PLSClassifier(tol=1.0, **SETTINGS).set_callbacks(StopOnRhat(1.5))
    search = GridSearchCV(model, {"n_inducing": [5, 8]}, cv=2, n_jobs=n_jobs)
    search.fit(X, LABELS)
    assert search.best_estimator_.rhat_.max() <= 1.5
    assert search.best_estimator_.n_iter_ < 200
