"""Several targets: one prior, its functions and sums, a noise for each."""

import copy

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.multioutput import MultiOutputRegressor

from skgpx import SpectralVGPRegressor
from skgpx._numerics.regression import (
    TargetRegressions,
    log_evidence,
    weight_statistics,
)
from skgpx.metrics import interval_coverage, log_predictive_density_scorer

STD = np.array([0.05, 2.0, 1.0])
KERNEL = 1.5 * RBF(1.0) + WhiteKernel(0.1)


def data(d, n=200, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, size=(n, d))
    a, b = X[:, 0], X[:, -1]
    F = np.stack([np.sin(2.0 * a), 10.0 * np.cos(b) + 100.0, a * b / 3.0], axis=1)
    return X, F + STD * rng.standard_normal((n, 3))


def answers(model, X):
    """Predictions with the targets on the axis after the rows."""
    mean, std = model.predict(X, return_std=True)
    latent = model.predict(X, return_std=True, include_noise=False)[1]
    intervals = model.predict_interval(X), model.credible_band(X)
    return [mean, std, latent, *intervals]


CASES = {
    "one input": (1, {}),
    "two inputs": (2, {"n_basis": 41}),
    "inducing": (4, {}),
    "empirical": (4, {"basis": "empirical"}),
    "series": (
        1,
        {
            "kernel": "series",
            "n_basis": 201,
            "noise_variance": 0.5,
            "normalize_y": False,
        },
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_predictions_are_those_of_single_fits(name):
    d, parameters = CASES[name]
    (X, Y), (rows, new) = data(d, 60), data(d, 30, seed=1)
    parameters = {"kernel": KERNEL, "optimizer": None, "random_state": 0, **parameters}
    weights = np.random.default_rng(2).integers(0, 3, len(X))
    estimator = SpectralVGPRegressor(**parameters)
    model = clone(estimator).fit(X, Y, weights)
    singles = [clone(estimator).fit(X, y, weights) for y in Y.T]
    scale = Y.std(axis=0)
    several, covariance = answers(model, rows), model.predict(rows, return_cov=True)[1]
    density = 0.0
    for j, one in enumerate(singles):
        for a, b in zip(several, answers(one, rows), strict=True):
            assert_allclose(a[:, j], b, rtol=1e-8, atol=1e-8 * scale[j])
        alone = one.predict(rows, return_cov=True)[1]
        assert_allclose(covariance[:, :, j], alone, atol=1e-8 * scale[j] ** 2)
        assert_allclose(model.spectrum_[:, j], one.spectrum_)
        density = density + one.log_predictive_density(rows, new[:, j])
    assert_allclose(model.log_predictive_density(rows, new), density)
    assert_allclose(model.log_evidence_, sum(one.log_evidence_ for one in singles))
    assert_allclose(model.noise_variance_, [one.noise_variance_ for one in singles])
    radii = [one.credible_ball(X=rows) for one in singles]
    assert_allclose(model.credible_ball(X=rows), radii)
    assert model.sample_functions(4, random_state=0)(rows).shape == (30, 3, 4)
    assert model.sample_y(rows, 4, random_state=0).shape == (30, 3, 4)


def test_each_target_has_its_noise():
    (X, Y), (rows, new) = data(1, 600), data(1, 400, seed=4)
    model = SpectralVGPRegressor().fit(X, Y)
    assert_allclose(np.sqrt(model.noise_variance_), STD, rtol=0.15)
    bounds = model.predict_interval(rows, 0.9)
    inside = [interval_coverage(new[:, j], bounds[:, j]) for j in range(3)]
    assert np.all(np.abs(np.subtract(inside, 0.9)) < 4.0 * np.sqrt(0.09 / 400))
    each = MultiOutputRegressor(SpectralVGPRegressor()).fit(X, Y)
    scores = [log_predictive_density_scorer(one, rows, new) for one in (model, each)]
    assert abs(scores[0] - scores[1]) < 0.05


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_wave_of_one_target_is_found(seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.0, 10.0, (300, 1))
    Y = np.sin(X) + np.array([0.0, 0.5]) * np.sin(2.0 * np.pi * 4.3 * X)
    Y += np.array([1.0, 0.2]) * rng.standard_normal((300, 2))
    model = SpectralVGPRegressor(random_state=seed).fit(X, Y)
    assert_allclose(np.abs(model.cycles_).ravel(), 4.3, atol=0.1)
    assert len(model.cycles_) == 1
    assert_allclose(np.sqrt(model.noise_variance_), [1.0, 0.2], rtol=0.15)


def test_a_smooth_function_stands_beside_a_wave():
    """Without a season the roughest functions follow it best."""
    rng = np.random.default_rng(3)
    X = rng.uniform(0.0, 10.0, (300, 1))
    Y = np.sin(X) + np.array([0.0, 0.5]) * np.sin(2.0 * np.pi * 4.3 * X)
    Y += np.array([1.0, 0.2]) * rng.standard_normal((300, 2))
    # other rows choose a function without the wave
    evidences = [
        SpectralVGPRegressor(random_state=seed).fit(X, Y).log_evidence_
        for seed in (3, 4)
    ]
    assert abs(evidences[0] - evidences[1]) < 5.0


def test_noise_of_each_row():
    (X, Y), rows = data(1), data(1, 20, seed=1)[0]
    known, parameters = np.linspace(0.1, 2.0, len(X)), {"normalize_y": False}
    model = SpectralVGPRegressor("series", optimizer=None, **parameters)
    singles = [clone(model).fit(X, y, noise_variance=known) for y in Y.T]
    model.fit(X, Y, noise_variance=known)
    for j, one in enumerate(singles):
        for a, b in zip(answers(model, rows), answers(one, rows), strict=True):
            assert_allclose(a[:, j], b, rtol=1e-8, atol=1e-8)
    assert_allclose(model.log_evidence_, sum(one.log_evidence_ for one in singles))


def test_chunks_and_merged_models_are_one_fit():
    X, Y = data(1, 300)
    estimator = SpectralVGPRegressor(KERNEL, domain=(-2.0, 2.0))
    whole = clone(estimator).partial_fit(X, Y)
    one, two = clone(estimator), clone(estimator)
    one.partial_fit(X[:100], Y[:100]).partial_fit(X[100:200], Y[100:200])
    merged = one + two.partial_fit(X[200:], Y[200:])
    assert_allclose(merged.predict(X), whole.predict(X), rtol=1e-6)
    assert_allclose(merged.log_evidence_, whole.log_evidence_)
    with pytest.raises(ValueError, match=r"as many targets"):
        one.partial_fit(X, Y[:, 0])
    with pytest.raises(ValueError, match="got 3 and 1"):
        one.merge(clone(estimator).partial_fit(X, Y[:, 0]))
    X, Y = data(4, 300)
    first = SpectralVGPRegressor(random_state=0, n_basis=30).partial_fit(
        X[:200], Y[:200]
    )
    second = copy.deepcopy(first).partial_fit(X[200:], Y[200:])
    assert_allclose((first + second).predict(X), second.predict(X))
    assert second.noise_variance_.shape == (3,)


def test_the_same_bits_for_every_number_of_workers():
    X, Y = data(2, 300)
    one, two = (
        SpectralVGPRegressor(KERNEL, n_jobs=n, random_state=0).fit(X, Y) for n in (1, 2)
    )
    assert_array_equal(one.predict(X), two.predict(X))


def test_residuals_that_count_as_noise():
    rng = np.random.default_rng(0)
    features, y = rng.standard_normal((20, 6)), rng.standard_normal((20, 3))
    weights, residual = rng.uniform(0.5, 2.0, 20), np.full(20, 0.3)
    sums = weight_statistics(features, y, weights, residual)
    each, noise = TargetRegressions(sums), np.array([0.1, 0.5, 2.0])
    found = each.log_evidence(noise, white=0.3)
    for j, one in enumerate(sums.targets()):
        alone = log_evidence(one._replace(residual=0.0), noise[j] + 0.3)
        assert_allclose(found[j], alone)

    def log_prior(log_noise):
        return -0.5 * ((log_noise + 1.0) / 2.0) ** 2

    best = each.best_noise(-6.0, 3.0, log_prior, 0.3)

    def value(noise):
        return each.log_evidence(noise, 0.3) + log_prior(np.log(noise))

    for factor in (0.97, 1.03):
        assert np.all(value(factor * best) < value(best))
