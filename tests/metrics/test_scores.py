"""Scores: against scoringrules, against integrals, and by their own rules."""

from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import integrate, stats
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

import skgpx
from skgpx import PLSRegressor, SpectralVGPRegressor, metrics
from skgpx.likelihoods import Poisson, StudentT

rng = np.random.default_rng(0)
N, T, S = 30, 2, 5
Y = rng.normal(size=(N, T))
MEAN, STD = Y + rng.normal(size=(N, T)), rng.uniform(0.2, 2.0, size=(N, T))
MEANS = Y[..., np.newaxis] + rng.normal(size=(N, T, S))
BOUNDS = np.stack((MEAN - STD, MEAN + 1.5 * STD), axis=-1)
W = rng.integers(0, 3, size=N)

# Every score of arrays with what it is given beside y
SCORES = {
    "density": (metrics.gaussian_neg_log_density, (MEAN, STD), {}),
    "crps": (metrics.gaussian_crps, (MEAN, STD), {}),
    "ensemble": (metrics.ensemble_crps, (MEANS,), {}),
    "fair": (metrics.ensemble_crps, (MEANS,), {"fair": True}),
    "interval": (metrics.interval_score, (BOUNDS,), {"coverage": 0.8}),
    "coverage": (metrics.interval_coverage, (BOUNDS,), {}),
}
scores = pytest.mark.parametrize("name", SCORES)


def test_the_same_as_scoringrules():
    other = pytest.importorskip("scoringrules")
    rows = {
        "density": other.logs_normal(Y, MEAN, STD),
        "crps": other.crps_normal(Y, MEAN, STD),
        "ensemble": other.crps_ensemble(Y, MEANS, estimator="nrg"),
        "fair": other.crps_ensemble(Y, MEANS, estimator="fair"),
        "interval": other.interval_score(Y, *np.moveaxis(BOUNDS, -1, 0), 0.2),
    }
    for name, expected in rows.items():
        function, given, options = SCORES[name]
        assert_allclose(function(Y, *given, **options), np.mean(expected), rtol=1e-9)


@scores
def test_targets_are_scored_one_by_one(name):
    function, given, options = SCORES[name]
    one = [function(Y[:, j], *(a[:, j] for a in given), **options) for j in range(T)]
    assert all(isinstance(value, float) for value in one)
    assert_allclose(function(Y, *given, **options), np.mean(one), rtol=1e-12)


@scores
def test_weights_are_repetitions(name):
    function, given, options = SCORES[name]
    rows = np.repeat(np.arange(N), W)
    expected = function(Y[rows], *(a[rows] for a in given), **options)
    found = function(Y, *given, **options, sample_weight=W)
    assert_allclose(found, expected, rtol=1e-12)


def test_impossible_targets_of_weight_zero_are_left_out():
    y = np.array([0.0, 1e200])
    score = metrics.gaussian_crps(y, [0.0, 0.0], [1.0, 1.0], sample_weight=[1.0, 0.0])
    assert_allclose(score, 0.2337, atol=1e-4)


NOBODY = np.zeros(N)
REFUSED = [
    ("crps", (Y[0, 0], 0.0, 1.0), {}, "y_true must have shape"),
    ("crps", (np.array([np.nan]), [0.0], 1.0), {}, "y_true must be finite"),
    ("crps", (Y, MEAN[:, 0], STD), {}, "mean must have the shape of y_true"),
    ("crps", (Y, MEAN, -STD), {}, "std must be non-negative"),
    ("crps", (Y, MEAN, np.inf), {}, "std must be finite"),
    ("density", (Y, MEAN, 0.0), {}, "a point has no density"),
    ("fair", (Y, MEANS[..., :1]), {"fair": True}, "at least two draws"),
    ("coverage", (Y, BOUNDS[..., ::-1]), {}, "upper less lower end"),
    ("coverage", (Y, MEANS), {}, "and 2 on the last axis"),
    ("interval", (Y, BOUNDS), {"coverage": 1.0}, r"coverage == 1\.0"),
]
WEIGHTS = [
    (NOBODY - 2.0 * (np.arange(N) == 0), "sample_weight must.*between -2 and 0"),
    (NOBODY, "sample_weight must.*at least one positive.*between 0 and 0"),
    (NOBODY + np.inf, "sample_weight must.*finite"),
    ([1.0], r"must hold 30 numbers.*shape \(1,\)"),
]
REFUSED += [("coverage", (Y, BOUNDS), {"sample_weight": w}, m) for w, m in WEIGHTS]


def test_what_is_refused():
    for name, given, options, message in REFUSED:
        with pytest.raises(ValueError, match=message):
            SCORES[name][0](*given, **options)
    with pytest.raises(ValueError, match="must be a predictive distribution"):
        metrics.crps(Y[:, 0], MEAN)
    for wrong in ([-0.1], [1.1], [[0.5]]):
        with pytest.raises(ValueError, match="lie between 0 and 1"):
            metrics.calibration_error(wrong)


# ---- Scores of distributions --------------------------------------------------------

X = rng.uniform(-3.0, 3.0, size=(40, 1))
TARGETS = np.sin(X[:, 0]) + 0.2 * rng.normal(size=40)
COUNTS = np.round(np.exp(1.0 + TARGETS))
FEW = {
    "kernel": RBF(1.0),
    "optimizer": None,
    "n_inducing": 10,
    "n_particles": 40,
    "random_state": 0,
}
EXACT = GaussianProcessRegressor(RBF(1.0) + WhiteKernel(0.04), optimizer=None)
MODELS = {
    "gaussian": (PLSRegressor(**FEW), TARGETS),
    "exact": (EXACT, TARGETS),
    "particles": (PLSRegressor(**FEW, method="ou_mala", max_iter=20, tol=9), TARGETS),
    "student": (PLSRegressor(**FEW, likelihood=StudentT(4.0, 0.2)), TARGETS),
    "poisson": (PLSRegressor(**FEW, likelihood=Poisson()), COUNTS),
}


@pytest.fixture(scope="module")
def distributions():
    fitted = {name: model.fit(X, y) for name, (model, y) in MODELS.items()}
    return {name: skgpx.predict_dist(m, X[:8]) for name, m in fitted.items()}


@pytest.mark.parametrize("name", MODELS)
def test_the_score_of_a_distribution_is_the_integral_of_its_distribution_function(
    name, distributions
):
    distribution, y = distributions[name], MODELS[name][1][:8]
    if distribution.discrete:
        grid = np.arange(0.0, 200.0)
        below = distribution._cdf(np.broadcast_to(grid, (8, 200)))
        expected = np.sum((below - (grid >= y[:, np.newaxis])) ** 2, axis=1)
    else:
        away = np.linspace(0.0, 12.0, 1201)
        left = distribution._cdf(y[:, np.newaxis] - away)
        right = distribution._cdf(y[:, np.newaxis] + away)
        expected = integrate.simpson(left**2 + (1.0 - right) ** 2, dx=0.01)
    assert_allclose(distribution.crps(y), expected, atol=2e-5)
    assert_allclose(metrics.crps(y, distribution), distribution.crps(y).mean())
    weights = np.arange(8.0)
    weighted = metrics.crps(y, distribution, sample_weight=weights)
    assert_allclose(weighted, np.average(distribution.crps(y), weights=weights))


def test_closed_forms_of_a_normal_distribution(distributions):
    distribution, y = distributions["gaussian"], TARGETS[:8]
    normal = distribution.mean(), distribution.std()
    assert_allclose(metrics.crps(y, distribution), metrics.gaussian_crps(y, *normal))
    density = metrics.neg_log_predictive_density(y, distribution)
    assert_allclose(density, metrics.gaussian_neg_log_density(y, *normal), rtol=1e-7)


class Certain(RegressorMixin, BaseEstimator):
    """Predicts 1 and 2, without any uncertainty."""

    def fit(self, X, y):
        self.fitted_ = True
        return self

    def predict(self, X, return_std=False):
        return np.array([1.0, 2.0]), np.zeros(2)


def test_points_have_no_density():
    distribution = skgpx.predict_dist(Certain().fit(X, TARGETS), X[:2])
    assert_allclose(distribution.crps([0.0, 2.0]), [1.0, 0.0], atol=1e-12)
    with pytest.raises(ValueError, match="deviation is zero at 2 rows"):
        distribution.log_density([1.0, 2.0])


# ---- PIT values, coverage, and calibration errors -----------------------------------

PLACES = rng.uniform(-3.0, 3.0, size=(300, 1))
WAVE = np.sin(PLACES[:, 0])


def test_pit_values_of_a_model_that_is_right_are_uniform(rng):
    y = WAVE + 0.3 * rng.normal(size=300)
    model = SpectralVGPRegressor(noise_variance=0.09).fit(PLACES, y)
    distribution = model.predict_dist(PLACES)
    again = WAVE + 0.3 * rng.normal(size=300)
    pit = metrics.pit_values(again, distribution)
    assert_array_equal(pit, distribution.cdf(again))
    assert stats.kstest(pit, "uniform").pvalue > 0.01
    assert metrics.calibration_error(pit) < 0.05
    assert metrics.coverage_error(again, distribution, coverage=0.8) < 0.1
    wide = metrics.pit_values(WAVE + 0.1 * rng.normal(size=300), distribution)
    assert metrics.calibration_error(wide) > 0.1


def test_pit_values_of_counts_are_uniform_too(rng):
    counts = rng.poisson(np.exp(0.3 * WAVE))
    model = PLSRegressor(likelihood=Poisson("exp"), **FEW)
    distribution = model.fit(PLACES, counts).predict_dist(PLACES)
    again = rng.poisson(np.exp(0.3 * WAVE))
    pit = metrics.pit_values(again, distribution, random_state=1)
    assert_array_equal(pit, metrics.pit_values(again, distribution, random_state=1))
    assert np.all(
        (pit >= distribution.cdf(again - 1.0)) & (pit <= distribution.cdf(again))
    )
    assert stats.kstest(pit, "uniform").pvalue > 0.01
    for wrong in (0.5, -100.0):
        for score in (metrics.pit_values, metrics.coverage_error):
            with pytest.raises(ValueError, match=r"0, 1, 2, \.\.\..*300 other values"):
                score(again + wrong, distribution)


def test_the_error_is_the_area_between_curve_and_diagonal(rng):
    pit, weights = rng.random(9), rng.integers(1, 4, size=9)

    def gap(u):
        return abs(np.average(pit <= u, weights=weights) - u)

    edges = np.concatenate(([0.0], np.sort(pit), [1.0]))
    parts = pairwise(edges)
    expected = sum(integrate.quad(gap, a, b, limit=200)[0] for a, b in parts)
    found = metrics.calibration_error(pit, sample_weight=weights)
    assert_allclose(found, expected, atol=1e-8)
    repeated = metrics.calibration_error(np.repeat(pit, weights))
    assert_allclose(repeated, found, rtol=1e-12)
    assert metrics.calibration_error([1.0]) == 0.5


def test_the_error_of_uniform_values_is_as_documented(rng):
    errors = [metrics.calibration_error(rng.random(400)) for _ in range(400)]
    mean, spread = np.mean(errors), np.std(errors) / 20.0
    assert abs(mean - np.sqrt(2.0 * np.pi) / 8.0 / 20.0) < 4.5 * spread
