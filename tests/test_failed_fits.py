"""A fit changes an estimator at its end, or not at all."""

import copy
import pickle
import sys
from inspect import signature
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.linear_model import BayesianRidge, LogisticRegression, Ridge

import skgpx
from skgpx import (
    DecoupledSampler,
    ExactGPRegressor,
    GWIClassifier,
    GWIRegressor,
    PLSClassifier,
    PLSRegressor,
    SpectralVGPRegressor,
    SteinFourierFeatures,
    SteinRFFRegressor,
    TemperedRegressor,
)
from skgpx.exceptions import PredictionWarning
from skgpx.likelihoods import Poisson
from skgpx.thompson import ThompsonSampler

pytestmark = [
    pytest.mark.filterwarnings("ignore::skgpx.exceptions.SkgpxWarning"),
]

SOURCES = str(Path(skgpx.__file__).parent)
rng = np.random.default_rng(0)
X = pd.DataFrame(rng.normal(size=(20, 2)), columns=["a", "b"])
Y = np.sin(2.0 * X["a"].to_numpy()) + 0.1 * rng.normal(size=20)
LABELS = Y > 0.0
COUNTS = rng.poisson(np.exp(Y))
# columns that the first fit has not seen, so that what remains of them shows
OTHER = pd.DataFrame(rng.normal(size=(20, 3)), columns=["b", "a", "c"])
NAN = np.full(20, np.nan)
REFUSED = "[Nn]egative|NaN|features|feature names"

FIXED = {"kernel": RBF(), "optimizer": None, "n_inducing": 5, "random_state": 0}
CHAINS = {**FIXED, "n_particles": 4, "tol": 5.0}
EXACT = GaussianProcessRegressor(RBF(), alpha=0.01, optimizer=None)
CASES = {
    "closed form": (PLSRegressor(**FIXED), Y),
    "chains": (PLSRegressor(likelihood=Poisson(), **CHAINS), COUNTS),
    "warm start": (
        PLSRegressor(likelihood=Poisson(), warm_start=True, **CHAINS),
        COUNTS,
    ),
    "classes": (PLSClassifier(**CHAINS), LABELS),
    "spectral": (SpectralVGPRegressor(n_basis=9, optimizer=None), Y),
    "stein": (
        SteinRFFRegressor(
            RBF(),
            optimizer=None,
            n_components=1,
            n_frequencies=4,
            max_iter=2,
            random_state=0,
        ),
        Y,
    ),
    "exact": (ExactGPRegressor(RBF(), optimizer=None, n_draws=2, random_state=0), Y),
    "networks": (GWIRegressor("net", n_estimators=1, max_iter=2, random_state=0), Y),
    "around": (GWIRegressor(Ridge(), RBF(), cv=2, n_inducing=5, random_state=0), Y),
    "scores": (
        GWIClassifier(LogisticRegression(), RBF(), cv=2, n_inducing=5, random_state=0),
        LABELS,
    ),
    "draws": (DecoupledSampler(EXACT, n_basis=16, random_state=0), Y),
    "tempered": (TemperedRegressor(BayesianRidge(), cv=2), Y),
    "features": (SteinFourierFeatures(n_frequencies=4, n_steps=2, random_state=0), Y),
}
cases = pytest.mark.parametrize("name", CASES)


def answers(model, rows):
    if isinstance(model, SteinFourierFeatures):
        return [model.transform(rows)]
    found = [model.predict(rows)]
    if hasattr(model, "sample_functions"):
        found.append(model.sample_functions(2, random_state=0)(rows))
    return found


def interrupted(method, rows, targets, position=None):
    """Number of functions of the library that a call enters; stop at one of them."""
    entered = 0

    def profile(frame, event, argument):
        nonlocal entered
        source, function = frame.f_code.co_filename, frame.f_code.co_name
        # what gives BLAS its threads back must not be stopped, and attributes are
        # looked up by scikit-learn when the fit has ended
        skipped = "blas_threads" in source or function == "__getattr__"
        if event != "call" or not source.startswith(SOURCES) or skipped:
            return
        entered += 1
        if entered == position:
            raise KeyboardInterrupt

    sys.setprofile(profile)
    try:
        method(rows, targets)
    finally:
        sys.setprofile(None)
    return entered


def refused_fit(name):
    """Arguments of a fit that fails: rows, targets, weights."""
    estimator, y = CASES[name]
    rows = OTHER.assign(a=np.nan) if name == "features" else OTHER
    given = {}
    if "sample_weight" in signature(estimator.fit).parameters:
        given["sample_weight"] = np.full(20, -1.0)
    elif name == "draws":
        y = NAN
    return rows, y, given


def test_every_estimator_is_here():
    public = {value for value in vars(skgpx).values() if isinstance(value, type)}
    public = {value for value in public if issubclass(value, BaseEstimator)}
    assert public == {type(estimator) for estimator, _ in CASES.values()}


@cases
def test_a_failed_or_interrupted_fit_leaves_the_model_as_it_was(name):
    estimator, y = CASES[name]
    model = clone(estimator).fit(X, y)
    # the first answers may keep what follows from the fit
    before, state = answers(model, X), joblib.hash(vars(model))
    rows, targets, given = refused_fit(name)
    with pytest.raises(ValueError, match=REFUSED):
        model.fit(rows, targets, **given)
    calls = [("fit", OTHER)]
    if hasattr(model, "partial_fit"):
        with pytest.raises(ValueError, match="names should match"):
            model.partial_fit(OTHER, y)
        calls.append(("partial_fit", X))
    for method, rows in calls:
        # caches that are full, or not, make a difference of a few functions
        n_calls = min(
            interrupted(getattr(copy.deepcopy(model), method), rows, y)
            for _ in range(3)
        )
        for position in (n_calls // 2, n_calls):
            with pytest.raises(KeyboardInterrupt):
                interrupted(getattr(model, method), rows, y, position)
    assert joblib.hash(vars(model)) == state
    for one, other in zip(before, answers(model, X), strict=True):
        assert_array_equal(one, other)


@cases
def test_after_a_first_fit_that_failed_there_is_no_model(name):
    model = clone(CASES[name][0])
    state = joblib.hash(vars(model))
    rows, targets, given = refused_fit(name)
    with pytest.raises(ValueError, match=REFUSED):
        model.fit(rows, targets, **given)
    assert joblib.hash(vars(model)) == state
    for method in ("predict", "transform", "sample_y", "predict_proba"):
        if hasattr(model, method):
            with pytest.raises(NotFittedError):
                getattr(model, method)(OTHER)
    for method in ("sample_functions", "report"):
        if hasattr(model, method):
            with pytest.raises(NotFittedError):
                getattr(model, method)()


@cases
def test_pickles_hold_plain_values_and_warn_of_other_versions(name, monkeypatch):
    estimator, y = CASES[name]
    model = clone(estimator).fit(X, y)
    for value in vars(model).values():
        assert not type(value).__module__.startswith(("pandas", "pyarrow"))
    pickled, before = pickle.dumps(model), answers(model, X)
    same = pickle.loads(pickled)
    assert vars(same).keys() == vars(model).keys()
    with monkeypatch.context() as newer:
        newer.setattr("skgpx._reports.report.__version__", "99.0")
        with pytest.warns(PredictionWarning, match=r"by skgpx .* loaded by 99\.0"):
            loaded = pickle.loads(pickled)
    for one, other in zip(before, answers(loaded, X), strict=True):
        assert_array_equal(one, other)


def test_a_sampler_that_cannot_fit_proposes_as_if_it_had_not_tried(monkeypatch):
    def fails(self, *_):
        raise KeyboardInterrupt

    plain, stopped = (
        ThompsonSampler([[0.0, 1.0]], EXACT, n_initial=0, n_mesh=20, random_state=0)
        for _ in range(2)
    )
    for sampler in (plain, stopped):
        sampler.tell([[0.1], [0.7]], [1.0, 0.0])
    state = joblib.hash(vars(stopped))
    with monkeypatch.context() as patch:
        patch.setattr(DecoupledSampler, "fit", fails)
        with pytest.raises(KeyboardInterrupt):
            stopped.ask(2)
    with pytest.raises(ValueError, match="finite"):
        stopped.tell([[0.2]], [np.inf])
    assert joblib.hash(vars(stopped)) == state
    assert_array_equal(stopped.ask(2), plain.ask(2))
