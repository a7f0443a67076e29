"""Callbacks of the package; those of others are tested in pls/test_estimators.py."""

import logging
import pickle

import joblib
import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.model_selection import GridSearchCV
from sklearn.utils.fixes import parse_version

from skgpx import (
    DecoupledSampler,
    PLSClassifier,
    PLSRegressor,
    SpectralVGPRegressor,
    SteinRFFRegressor,
)
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


# ---- Every iterative fit -------------------------------------------------------------

POINTS = rng.uniform(0.0, 3.0, size=(120, 1))
TARGETS = np.sin(4.0 * POINTS[:, 0]) + 0.1 * rng.standard_normal(120)
CHAINS = PLSRegressor(method="mala", tol=1.25, **{**SETTINGS, "max_iter": 500})
ITERATIVE = {
    "chains": CHAINS,
    "waves": SteinRFFRegressor(
        RBF(), n_components=2, n_frequencies=10, max_iter=21, random_state=0
    ),
    "box": SpectralVGPRegressor(1.0 * RBF(0.5)),
    "draws": DecoupledSampler(CHAINS, n_basis=32),
}
iterative = pytest.mark.parametrize("name", ITERATIVE)


class Recorder:
    """Callback that goes to inner estimators, too."""

    max_propagation_depth = None

    def __init__(self):
        self.ends, self.scores = [], []

    def setup(self, estimator, context):
        self.ends, self.scores = [], []

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(
        self, estimator, context, *, X=None, y=None, fitted_estimator=None
    ):
        self.ends.append((type(estimator).__name__, context.task_name))
        if fitted_estimator is not None:
            self.scores.append(fitted_estimator.score(X, y))


@iterative
def test_the_logger_gets_a_line_a_round(name, caplog):
    model = clone(ITERATIVE[name])
    model.fit(POINTS, TARGETS)
    assert not caplog.records
    with caplog.at_level(logging.INFO, logger="skgpx"):
        model.fit(POINTS, TARGETS)
    lines = [one.getMessage() for one in caplog.records if one.name == "skgpx"]
    rounds = [line for line in lines if ": round" in line]
    assert len(rounds) == {"waves": 2, "box": 1}.get(name, len(rounds)) > 0
    assert len(lines) == len(rounds) + 1
    assert all("nan" not in line and " s)" in line for line in lines)
    assert lines[-1].startswith(lines[0].partition(":")[0] + ": fitted after round")


def test_a_fit_without_rounds_says_nothing(caplog):
    with caplog.at_level(logging.INFO, logger="skgpx"):
        PLSRegressor(**SETTINGS).fit(X, Y)
    assert not [one for one in caplog.records if "round" in one.getMessage()]


@needs_callbacks
@iterative
def test_callbacks_see_models_that_predict(name):
    recorder = Recorder()
    model = clone(ITERATIVE[name]).set_callbacks(recorder).fit(POINTS, TARGETS)
    rounds = [one for one in recorder.ends if one[1] == "round"]
    inner = "PLSRegressor" if name == "draws" else type(model).__name__
    assert {one[0] for one in rounds} == {inner}
    assert recorder.ends[-1] == (type(model).__name__, "fit")
    assert min(recorder.scores) > 0.5
    assert recorder.scores[-1] == model.score(POINTS, TARGETS)
    # the callback changes nothing
    plain = clone(ITERATIVE[name]).fit(POINTS, TARGETS)
    np.testing.assert_array_equal(plain.predict(X), model.predict(X))


@needs_callbacks
def test_a_regressor_without_callbacks_within_a_sampler():
    recorder = Recorder()
    inner = GaussianProcessRegressor(RBF(), alpha=0.01, optimizer=None)
    DecoupledSampler(inner, n_basis=32).set_callbacks(recorder).fit(POINTS, TARGETS)
    assert recorder.ends == [("DecoupledSampler", "fit")]


@needs_callbacks
def test_a_stop_within_a_sampler():
    inner = clone(CHAINS).set_params(tol=1.0).set_callbacks(StopOnRhat(5.0))
    sampler = DecoupledSampler(inner, n_basis=32).fit(POINTS, TARGETS)
    assert sampler.estimator_.n_iter_ == 20


class StopAtOnce(Recorder):
    def on_fit_task_end(self, estimator, context):
        return context.task_name == "round"


@needs_callbacks
def test_a_stop_of_the_search_for_a_box():
    model = clone(ITERATIVE["box"]).set_callbacks(StopAtOnce())
    assert model.fit(POINTS, TARGETS).score(POINTS, TARGETS) > 0.9
    # the pilot stops, and there is one search on all rows
    many = rng.uniform(0.0, 3.0, size=(21_000, 1))
    model.fit(many, np.sin(4.0 * many[:, 0]))
    assert model._state.statistics.weight == 21_000


@needs_callbacks
@pytest.mark.parametrize("name", ["waves", "box"])
def test_scores_of_a_search_in_processes(name):
    callback = pytest.importorskip("sklearn.callback")
    monitor = callback.ScoringMonitor(scoring="r2")
    model = clone(ITERATIVE[name]).set_callbacks(monitor)
    search = GridSearchCV(model, {"normalize_y": [True]}, cv=2, n_jobs=2)
    with joblib.parallel_config(backend="loky"):
        search.fit(POINTS, TARGETS)
    assert search.best_score_ > 0.5


@needs_callbacks
@iterative
def test_progress_bar(name):
    pytest.importorskip("rich")
    callback = pytest.importorskip("sklearn.callback")
    model = clone(ITERATIVE[name])
    model.set_callbacks(callback.ProgressBar(max_propagation_depth=2))
    assert model.fit(POINTS, TARGETS).score(POINTS, TARGETS) > 0.5
