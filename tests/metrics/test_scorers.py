"""Scorers in searches and cross-validation of scikit-learn."""

import functools
import pickle

import numpy as np
import pytest
import sklearn
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.linear_model import BayesianRidge, LogisticRegression
from sklearn.metrics import check_scoring
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import skgpx
from skgpx import DecoupledSampler, PLSClassifier, PLSRegressor, metrics
from skgpx.likelihoods import Poisson

rng = np.random.default_rng(0)
X = rng.uniform(-3.0, 3.0, size=(45, 1))
Y = np.sin(X[:, 0]) + 0.2 * rng.normal(size=45)
FEW = {"kernel": RBF(1.0), "optimizer": None, "n_inducing": 8, "random_state": 0}
PLS = PLSRegressor(**FEW)
EXACT = GaussianProcessRegressor(RBF(1.0) + WhiteKernel(0.04), optimizer=None)
GRID = {"n_inducing": [2, 8]}
CV = KFold(3)

SCORERS = {
    "density": metrics.log_predictive_density_scorer,
    "crps": metrics.neg_crps_scorer,
    "interval": metrics.neg_interval_score_scorer,
    "coverage": metrics.neg_coverage_error_scorer,
    "calibration": metrics.neg_calibration_error_scorer,
}
REGRESSORS = {
    "pls": PLS,
    "exact": EXACT,
    "ridge": BayesianRidge(),
    "decoupled": DecoupledSampler(EXACT),
    "pipeline": make_pipeline(StandardScaler(), EXACT),
    "search": GridSearchCV(PLS, GRID, cv=2),
    "target": TransformedTargetRegressor(
        make_pipeline(StandardScaler(), BayesianRidge()), transformer=StandardScaler()
    ),
    "logarithm": TransformedTargetRegressor(PLS, func=np.log, inverse_func=np.exp),
}


def targets(name):
    return np.exp(Y) if name == "logarithm" else Y


@pytest.mark.parametrize("name", REGRESSORS)
def test_scores_are_those_of_the_distributions_of_the_folds(name):
    model, y = REGRESSORS[name], targets(name)
    found = cross_validate(model, X, y, scoring=SCORERS, cv=CV)
    for i, (train, test) in enumerate(CV.split(X)):
        distribution = skgpx.predict_dist(clone(model).fit(X[train], y[train]), X[test])
        expected = {
            "density": distribution.log_density(y[test]).mean(),
            "crps": -distribution.crps(y[test]).mean(),
            "interval": -metrics.interval_score(y[test], distribution.interval(0.9)),
            "coverage": -metrics.coverage_error(y[test], distribution),
            "calibration": -metrics.calibration_error(distribution.cdf(y[test])),
        }
        for one, value in expected.items():
            assert_allclose(found[f"test_{one}"][i], value, rtol=1e-9)


@pytest.mark.parametrize("name", SCORERS)
def test_searches_take_scorers_and_pickle_with_them(name):
    pipeline = make_pipeline(StandardScaler(), PLS)
    grid = {"plsregressor__n_inducing": [2, 8]}
    search = GridSearchCV(pipeline, grid, scoring=SCORERS[name], cv=CV)
    search = pickle.loads(pickle.dumps(search.fit(X, Y)))
    assert np.all(np.isfinite(search.cv_results_["mean_test_score"]))
    if name in ("density", "crps", "interval"):
        assert search.best_params_["plsregressor__n_inducing"] == 8
    again = pickle.loads(pickle.dumps(SCORERS[name]))
    assert_allclose(again(search, X, Y), search.score(X, Y))
    assert repr(again) == repr(SCORERS[name])


def test_options_of_a_scorer():
    model = clone(PLS).fit(X, Y)
    narrow = metrics.PredictiveScorer(metrics.coverage_error, coverage=0.5)
    distribution = model.predict_dist(X)
    expected = -metrics.coverage_error(Y, distribution, coverage=0.5)
    assert_allclose(narrow(model, X, Y), expected)
    assert repr(narrow) == "PredictiveScorer(coverage_error, coverage=0.5)"
    gain = metrics.PredictiveScorer(
        metrics.neg_log_predictive_density, greater_is_better=True
    )
    assert "greater_is_better" in repr(gain)
    assert_allclose(gain(model, X, Y), -distribution.log_density(Y).mean())
    nameless = functools.partial(metrics.coverage_error, coverage=0.5)
    scorer = metrics.PredictiveScorer(nameless)
    assert "partial" in repr(scorer)
    assert_allclose(scorer(model, X, Y), expected)
    # of several scorers
    weights = np.arange(45.0)
    several = check_scoring(model, scoring={"crps": metrics.neg_crps_scorer})
    found = several(model, X, Y, sample_weight=weights)["crps"]
    assert found == metrics.neg_crps_scorer(model, X, Y, sample_weight=weights)
    with pytest.raises(RuntimeError, match="enable_metadata_routing=True"):
        metrics.neg_crps_scorer.set_score_request(sample_weight=True)


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@pytest.mark.usefixtures("routing")
@pytest.mark.parametrize("wrapped", [False, True])
def test_weights_are_routed_to_fit_and_score(wrapped):
    weights = rng.integers(1, 4, size=45).astype(float)
    model = clone(PLS).set_fit_request(sample_weight=True)
    if wrapped:
        scaler = StandardScaler().set_fit_request(sample_weight=True)
        model = make_pipeline(scaler, model)
    scorer = metrics.neg_crps_scorer.set_score_request(sample_weight=True)
    found = cross_val_score(
        model, X, Y, scoring=scorer, cv=CV, params={"sample_weight": weights}
    )
    expected = []
    for train, test in CV.split(X):
        fitted = clone(model).fit(X[train], Y[train], sample_weight=weights[train])
        distribution = skgpx.predict_dist(fitted, X[test])
        expected.append(
            -metrics.crps(Y[test], distribution, sample_weight=weights[test])
        )
    assert_allclose(found, expected, rtol=1e-9)
    search = GridSearchCV(
        PLS.set_fit_request(sample_weight=True), GRID, scoring=scorer, cv=CV
    )
    search.fit(X, Y, sample_weight=weights)
    assert np.all(np.isfinite(search.cv_results_["mean_test_score"]))


@pytest.mark.usefixtures("routing")
def test_exposures_are_routed_on_request_and_missed_otherwise():
    exposure = rng.uniform(0.5, 4.0, size=45)
    counts = rng.poisson(exposure * np.exp(Y)).astype(float)
    model = PLSRegressor(likelihood=Poisson(), n_particles=10, **FEW)
    model = model.set_fit_request(exposure=True)
    plain = metrics.log_predictive_density_scorer
    scorer = plain.set_score_request(exposure=True)
    given = {"params": {"exposure": exposure}, "cv": CV}
    found = cross_val_score(model, X, counts, scoring=scorer, **given)
    train, test = next(CV.split(X))
    fitted = clone(model).fit(X[train], counts[train], exposure=exposure[train])
    density = fitted.log_predictive_density(
        X[test], counts[test], exposure=exposure[test]
    )
    assert_allclose(found[0], density.mean())
    with pytest.raises(UnsetMetadataPassedError, match="exposure"):
        cross_val_score(model, X, counts, scoring=plain, **given)
    with pytest.raises(ValueError, match="can request sample_weight, exposure"):
        plain.set_score_request(groups=True)
    # not as if over exposures of one
    through = make_pipeline(StandardScaler(), model).fit(X, counts, exposure=exposure)
    for scored in (fitted, through):
        with pytest.warns(UserWarning, match="fitted with exposures"):
            metrics.neg_crps_scorer(scored, X, counts)


@pytest.mark.parametrize(
    "model",
    [
        PLSClassifier(n_particles=10, **FEW),
        make_pipeline(StandardScaler(), LogisticRegression()),
        GaussianProcessClassifier(optimizer=None),
    ],
    ids=["pls", "logistic", "exact"],
)
def test_log_probabilities_of_classes(model):
    labels = np.where(Y > 0.0, "up", "down")
    ours = metrics.log_predictive_density_scorer
    found = cross_val_score(model, X, labels, scoring=ours, cv=3)
    expected = cross_val_score(model, X, labels, scoring="neg_log_loss", cv=3)
    assert_allclose(found, expected)
    with pytest.raises(ValueError, match="scores regressors"):
        metrics.neg_crps_scorer(model.fit(X, labels), X, labels)


def test_several_targets_of_an_exact_process():
    both = np.column_stack((Y, np.cos(X[:, 0]) + 0.2 * rng.normal(size=45)))
    model = clone(EXACT).fit(X, both)
    mean, std = model.predict(X, return_std=True)
    expected = -metrics.gaussian_crps(both, mean, std)
    assert_allclose(metrics.neg_crps_scorer(model, X, both), expected)
    single = clone(PLS).fit(X, Y)
    column = metrics.neg_crps_scorer(single, X, Y[:, np.newaxis])
    assert_allclose(column, metrics.neg_crps_scorer(single, X, Y))
    with pytest.raises(ValueError, match="has one target"):
        metrics.neg_crps_scorer(single, X, both)
