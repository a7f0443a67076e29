"""What is not a table, a count, a probability or a weight is named at the door."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import AdaBoostClassifier, AdaBoostRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.linear_model import BayesianRidge, LogisticRegression

import skgpx
from skgpx import (
    DecoupledSampler,
    GWIClassifier,
    GWIRegressor,
    PLSClassifier,
    PLSRegressor,
    SpectralVGPRegressor,
    SteinFourierFeatures,
    SteinRFFRegressor,
    TemperedRegressor,
    metrics,
)
from skgpx.inspection import FunctionDrawsDisplay

X = np.random.default_rng(0).standard_normal((30, 2))
Y = np.sin(X[:, 0])
LABELS = (Y > 0.0).astype(int)
FIXED = {"kernel": RBF(1.0), "optimizer": None}

MODELS = {
    "pls": PLSRegressor(n_inducing=10, random_state=0, **FIXED),
    "classes": PLSClassifier(
        n_inducing=10, n_particles=8, tol=3.0, random_state=0, **FIXED
    ),
    "spectral": SpectralVGPRegressor(n_basis=20, random_state=0),
    "stein": SteinRFFRegressor(
        n_components=2, n_frequencies=10, max_iter=2, random_state=0
    ),
    "gwi": GWIRegressor(BayesianRidge(), n_inducing=10, cv=2, random_state=0),
    "gwi classes": GWIClassifier(
        LogisticRegression(), n_inducing=10, cv=2, random_state=0
    ),
    "decoupled": DecoupledSampler(n_basis=64, random_state=0),
    "tempered": TemperedRegressor(BayesianRidge(), cv=2),
}
WITH_DRAWS = [name for name in MODELS if name != "tempered"]
WITH_INTERVALS = ["pls", "spectral", "stein", "gwi", "tempered"]


def target(name):
    return LABELS if "classes" in name else Y


@pytest.fixture(scope="module")
def fitted():
    """One fit of each, made when first asked for."""
    models = {}

    def get(name):
        if name not in models:
            models[name] = clone(MODELS[name]).fit(X, target(name))
        return models[name]

    return get


@pytest.mark.parametrize("name", [*MODELS, "features"])
@pytest.mark.parametrize(
    ("given", "got"),
    [(None, "None"), ("rows", "str"), ((row for row in X), "generator")],
    ids=["none", "text", "generator"],
)
def test_what_holds_no_rows(name, given, got):
    model = SteinFourierFeatures() if name == "features" else clone(MODELS[name])
    with pytest.raises(ValueError, match=f"X must be an array, .* got .*{got}"):
        model.fit(given, None if name == "features" else target(name))


@pytest.mark.parametrize("name", [name for name in MODELS if name != "tempered"])
def test_what_holds_no_rows_to_predict(name, fitted):
    with pytest.raises(ValueError, match=r"X must be an array, .* got .*generator"):
        fitted(name).predict(row for row in X)


@pytest.mark.parametrize("name", [name for name in MODELS if name != "decoupled"])
@pytest.mark.parametrize("given", ["balanced", {0: 1.0, 1: 2.0}], ids=["text", "dict"])
def test_weights_that_are_not_one_number_a_row(name, given):
    with pytest.raises(ValueError, match="sample_weight must be None or one number"):
        clone(MODELS[name]).fit(X, target(name), sample_weight=given)


@pytest.mark.parametrize("name", WITH_DRAWS)
@pytest.mark.parametrize("n_samples", [0, -1, 1.5, "3", None, True])
def test_numbers_of_draws(name, n_samples, fitted):
    message = "n_samples must be a positive integer"
    model = fitted(name)
    with pytest.raises(ValueError, match=message):
        model.sample_functions(n_samples)
    with pytest.raises(ValueError, match=message):
        skgpx.sample_functions(model, n_samples)
    with pytest.raises(ValueError, match=message):
        model.sample_y(X, n_samples)
    if hasattr(model, "to_arviz"):
        with pytest.raises(ValueError, match=message):
            model.to_arviz(X, n_samples=n_samples)


@pytest.mark.parametrize("number", [np.int32(3), np.array(3), np.array(3, np.uint8)])
def test_numbers_of_draws_of_other_types(number, fitted):
    for name in ("pls", "decoupled"):
        model = fitted(name)
        assert model.sample_functions(number)(X).shape == (len(X), 3)
        assert model.sample_y(X, number).shape == (len(X), 3)
    drawn = fitted("pls").predict_dist(X).sample(number, 0)
    np.testing.assert_array_equal(drawn, fitted("pls").predict_dist(X).sample(3, 0))


@pytest.mark.parametrize("number", [np.array([3]), np.array(3.0), np.array(True)])
def test_arrays_that_are_no_number_of_draws(number, fitted):
    with pytest.raises(ValueError, match="n_samples must be a positive integer"):
        fitted("pls").sample_functions(number)


@pytest.mark.parametrize("law", ["ridge", "tempered"])
def test_numbers_of_draws_of_laws(law, fitted):
    model = fitted("tempered") if law == "tempered" else BayesianRidge().fit(X, Y)
    with pytest.raises(ValueError, match=r"n_samples must|no sample_y"):
        skgpx.predict_dist(model, X).sample(0)


@pytest.mark.parametrize("name", WITH_INTERVALS)
@pytest.mark.parametrize("coverage", [0, 1, 95, "0.9", [0.5, 0.9], np.nan, None])
def test_coverage_is_one_probability(name, coverage, fitted):
    message = "coverage must be a number strictly between 0 and 1"
    with pytest.raises(ValueError, match=message):
        fitted(name).predict_interval(X, coverage=coverage)


@pytest.mark.parametrize("coverage", [95, "0.9", [0.5, 0.9]])
def test_coverage_of_scores_and_bands(coverage, fitted):
    message = "coverage must be a number strictly between 0 and 1"
    with pytest.raises(ValueError, match=message):
        metrics.interval_score(Y, np.c_[Y, Y], coverage=coverage)
    with pytest.raises(ValueError, match=message):
        fitted("spectral").credible_band(X, coverage=coverage)


@pytest.mark.parametrize("name", MODELS)
def test_a_report_of_targets_needs_their_rows(name, fitted):
    with pytest.raises(ValueError, match="got y alone"):
        fitted(name).report(y=target(name))


@pytest.mark.parametrize("name", MODELS)
def test_a_report_counts_the_rows(name, fitted):
    assert fitted(name).report()["model"]["rows"] == len(X)


def test_scorers_are_named_after_what_they_score():
    assert repr(metrics.neg_calibration_error_scorer) == (
        "PredictiveScorer(calibration_error)"
    )
    assert repr(metrics.neg_interval_score_scorer) == (
        "PredictiveScorer(interval_score, coverage=0.9)"
    )


def test_numbers_of_starts_are_refused_before_anything_is_evaluated(fitted):
    draws = fitted("decoupled").sample_functions(2)
    with pytest.raises(ValueError, match="n_starts must be at least 1"):
        draws.minimize([(0.0, 1.0), (0.0, 1.0)], n_starts=0)


@pytest.mark.parametrize("name", ["spectral", "stein"])
@pytest.mark.parametrize("other", ["pls", "class"])
def test_models_that_cannot_be_merged(name, other, fitted):
    given = fitted(other) if other == "pls" else type(MODELS[name])
    with pytest.raises(ValueError, match=f"merge expects another .*{'Regressor'}"):
        fitted(name).merge(given)


def test_probabilities_that_do_not_sum_to_one():
    with pytest.raises(ValueError, match=r"sum to one.*between 1 and 1.1"):
        metrics.expected_calibration_error([0, 1], [[0.2, 0.8], [0.5, 0.6]])


@pytest.mark.parametrize("quantiles", ["median", None, [], [0.5, "a"], [0.1, 2.0]])
def test_quantiles_are_probabilities(quantiles, fitted):
    message = "quantiles must be one or more numbers strictly between 0 and 1; got "
    with pytest.raises(ValueError, match=message):
        fitted("pls").predict_quantiles(X, quantiles)


def test_numbers_of_draws_in_a_picture(fitted):
    pytest.importorskip("matplotlib")
    with pytest.raises(ValueError, match="n_draws must be a positive integer; got 0"):
        FunctionDrawsDisplay.from_estimator(fitted("pls"), X, n_draws=0)


@pytest.mark.parametrize("name", [name for name in MODELS if name != "decoupled"])
def test_weights_that_are_shares(name):
    model, y = clone(MODELS[name]), target(name)
    with pytest.warns(UserWarning, match="sum to 1, and count as so many rows"):
        model.fit(X, y, sample_weight=np.full(len(y), 1.0 / len(y)))


def test_shares_of_boosting():
    """Rounds of classes pass weights that sum to one, those of regression draw rows."""
    boost = AdaBoostClassifier(MODELS["classes"], n_estimators=2, random_state=0)
    with pytest.warns(UserWarning, match="AdaBoostClassifier always passes shares"):
        boost.fit(X, target("classes"))
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "sample_weight are frequencies")
        AdaBoostRegressor(MODELS["pls"], n_estimators=3, random_state=0).fit(X, Y)


@pytest.mark.parametrize(
    ("n", "total", "told"), [(10, 1.99, True), (10, 2.01, False), (9, 1.0, False)]
)
def test_when_weights_are_shares(n, total, told):
    weights = np.full(n, total / n)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        MODELS["pls"].fit(X[:n], Y[:n], sample_weight=weights)
    assert any("frequencies" in str(one.message) for one in caught) is told
