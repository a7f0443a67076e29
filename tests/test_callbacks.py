"""Callbacks of scikit-learn and the logger, in every iterative fit."""

import logging

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.utils.fixes import parse_version

from skgpx import (
    DecoupledSampler,
    ExactGPRegressor,
    GWIRegressor,
    PLSClassifier,
    PLSRegressor,
    SpectralVGPRegressor,
    SteinRFFRegressor,
)

needs_callbacks = pytest.mark.skipif(
    parse_version(sklearn.__version__) < parse_version("1.9"),
    reason="scikit-learn has callbacks since 1.9",
)
SETTINGS = {"kernel": RBF(1.0), "optimizer": None, "n_inducing": 10, "random_state": 0}
rng = np.random.default_rng(0)
X = rng.uniform(0.0, 3.0, size=(120, 1))
Y = np.sin(4.0 * X[:, 0]) + 0.1 * rng.standard_normal(120)
CHAINS = PLSRegressor(method="mala", tol=1.25, n_particles=40, **SETTINGS)
ITERATIVE = {
    "chains": CHAINS,
    "waves": SteinRFFRegressor(
        RBF(), n_components=2, n_frequencies=10, max_iter=21, random_state=0
    ),
    "box": SpectralVGPRegressor(1.0 * RBF(0.5)),
    "products": ExactGPRegressor(
        RBF(0.5) + WhiteKernel(0.01), optimizer=None, tol=1e-8, random_state=0
    ),
    "draws": DecoupledSampler(CHAINS, n_basis=32),
    "networks": GWIRegressor(
        "net", n_estimators=2, max_iter=2000, learning_rate_init=0.05, random_state=0
    ),
    "classes": PLSClassifier(n_particles=40, tol=1.25, **SETTINGS),
    "tempered": PLSClassifier(method="smc", **SETTINGS),
    "nearest rows": PLSClassifier(n_neighbors=12, **SETTINGS),
}
# long enough a fit, and labels for classifiers
TARGETS = dict.fromkeys(("classes", "tempered", "nearest rows"), Y > 0.0)
iterative = pytest.mark.parametrize("name", ITERATIVE)


class Recorder:
    """Callback that goes to inner estimators, too, and may stop a fit."""

    max_propagation_depth = None

    def __init__(self, stop=False):
        self.stop = stop

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
        return self.stop and context.task_name == "round"


def test_the_logger_gets_a_line_a_round(caplog):
    for name, model in ITERATIVE.items():
        model = clone(model)
        caplog.clear()
        with caplog.at_level(logging.INFO, logger="skgpx"):
            model.fit(X, TARGETS.get(name, Y))
        lines = [one.getMessage() for one in caplog.records if one.name == "skgpx"]
        rounds = [line for line in lines if ": round" in line]
        assert len(lines) == len(rounds) + 1 > 1, name
        assert all("nan" not in line and " s)" in line for line in lines)
        first = lines[0].partition(":")[0]
        assert lines[-1].startswith(first + ": fitted after round")
    caplog.clear()
    PLSRegressor(**SETTINGS).fit(X, Y)
    assert not caplog.records


@needs_callbacks
@iterative
def test_callbacks_see_models_that_predict(name):
    recorder = Recorder()
    y = TARGETS.get(name, Y)
    model = clone(ITERATIVE[name]).set_callbacks(recorder).fit(X, y)
    rounds = [one for one in recorder.ends if one[1] == "round"]
    inner = "PLSRegressor" if name == "draws" else type(model).__name__
    assert {one[0] for one in rounds} == {inner}
    assert recorder.ends[-1] == (type(model).__name__, "fit")
    assert min(recorder.scores) > 0.5
    assert recorder.scores[-1] == model.score(X, y)
    # the callback changes nothing
    plain = clone(ITERATIVE[name]).fit(X, y)
    np.testing.assert_array_equal(plain.predict(X), model.predict(X))


@needs_callbacks
@pytest.mark.filterwarnings("error")
def test_a_callback_stops_a_fit_without_a_warning():
    chains = clone(CHAINS).set_params(tol=1.0)
    sampler = DecoupledSampler(clone(chains), n_basis=32)
    sampler.set_callbacks(Recorder(stop=True)).fit(X, Y)
    n_iter = chains.set_callbacks(Recorder(stop=True)).fit(X, Y).n_iter_
    assert n_iter == sampler.estimator_.n_iter_ < 50
    recorder = Recorder(stop=True)
    clone(ITERATIVE["nearest rows"]).set_callbacks(recorder).fit(X, Y > 0.0)
    assert [task for _, task in recorder.ends] == ["round", "fit"]
    box = clone(ITERATIVE["box"]).set_callbacks(Recorder(stop=True)).fit(X, Y)
    assert box.score(X, Y) > 0.9


@needs_callbacks
def test_a_regressor_without_callbacks_within_a_sampler():
    recorder = Recorder()
    inner = GaussianProcessRegressor(RBF(), alpha=0.01, optimizer=None)
    DecoupledSampler(inner, n_basis=32).set_callbacks(recorder).fit(X, Y)
    assert recorder.ends == [("DecoupledSampler", "fit")]
