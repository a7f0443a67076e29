"""Several targets: one set of frequencies and sums, a noise for each."""

import copy

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.multioutput import MultiOutputRegressor

from skgpx import SteinRFFRegressor
from skgpx._numerics.wave_evidence import Waves, wave_gradient
from skgpx.exceptions import FitWarning
from skgpx.metrics import interval_coverage, log_predictive_density_scorer

STD = np.array([0.05, 2.0, 1.0])
KERNEL = 1.5 * RBF(1.0) + WhiteKernel(0.1)
SMALL = {"n_components": 2, "n_frequencies": 40, "random_state": 0}


def data(n=150, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, size=(n, 2))
    a, b = X.T
    F = np.stack([np.sin(2.0 * a), 10.0 * np.cos(b) + 100.0, a * b / 3.0], axis=1)
    return X, F + STD * rng.standard_normal((n, 3))


def answers(model, X):
    """Predictions with the targets on the axis after the rows."""
    mean, std = model.predict(X, return_std=True)
    latent = model.predict(X, return_std=True, include_noise=False)[1]
    return [mean, std, latent, model.predict_interval(X)]


def test_the_gradient_is_the_sum_of_those_of_the_targets():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(60, 2)), rng.normal(size=(60, 3))
    weights, noises = rng.integers(1, 4, 60).astype(float), np.array([0.1, 0.5, 2.0])
    waves = Waves(rng.normal(size=(5, 2)), rng.uniform(0.2, 0.6, 5), noises)
    found = wave_gradient(X, Y, weights, waves, inputs=True)
    singles = [
        wave_gradient(X, y, weights, waves._replace(noise_variance=one), inputs=True)
        for y, one in zip(Y.T, noises, strict=True)
    ]
    for one, parts in zip(found, zip(*singles, strict=True), strict=True):
        assert_allclose(one, sum(parts), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("given", [None, 0.5])
def test_predictions_at_fixed_frequencies_are_those_of_single_fits(given):
    (X, Y), (rows, new) = data(), data(30, seed=1)
    weights = np.random.default_rng(2).integers(0, 3, len(X))
    how = {"max_iter": 0, "optimizer": None, "normalize_y": given is None}
    kernel = KERNEL if given is None else KERNEL.k1
    estimator = SteinRFFRegressor(kernel, noise_variance=given, **how, **SMALL)
    model = clone(estimator).fit(X, Y, weights)
    singles = [clone(estimator).fit(X, y, weights) for y in Y.T]
    scale, density = Y.std(axis=0), 0.0
    several, covariance = answers(model, rows), model.predict(rows, return_cov=True)[1]
    for j, one in enumerate(singles):
        for a, b in zip(several, answers(one, rows), strict=True):
            assert_allclose(a[:, j], b, rtol=1e-7, atol=1e-7 * scale[j])
        alone = one.predict(rows, return_cov=True)[1]
        assert_allclose(covariance[:, :, j], alone, atol=1e-7 * scale[j] ** 2)
        for name in ("amplitudes_", "spectrum_", "noise_variance_", "variance_scale_"):
            a, b = getattr(model, name)[..., j], getattr(one, name)
            assert_allclose(a, b, rtol=1e-6, err_msg=name)
        density = density + one.log_predictive_density(rows, new[:, j])
    assert_allclose(model.log_predictive_density(rows, new), density)
    assert model.sample_functions(4, random_state=0)(rows).shape == (30, 3, 4)
    assert model.sample_y(rows, 4, random_state=0).shape == (30, 3, 4)


def test_copies_of_a_target_share_its_predictions():
    X, Y = data()
    model = SteinRFFRegressor(max_iter=20, **SMALL).fit(X, np.repeat(Y[:, :1], 3, 1))
    few = SteinRFFRegressor(max_iter=0, **SMALL).fit(X[:20], Y[:20])
    assert_array_equal(few.variance_scale_, np.ones(3))
    mean, std = model.predict(X, return_std=True)
    assert_allclose(np.ptp(mean, axis=1), 0.0, atol=1e-10)
    assert_allclose(np.ptp(std, axis=1), 0.0, atol=1e-10)
    one = SteinRFFRegressor(max_iter=20, **SMALL).fit(X, Y[:, 0])
    assert_allclose(mean[:, 0], one.predict(X), atol=0.1)


@pytest.mark.parametrize("hidden", [(), (8,)])
def test_each_target_has_its_noise(hidden):
    (X, Y), (rows, new) = data(300, seed=1), data(400, seed=4)
    how = {"hidden_layer_sizes": hidden, "max_iter": 60}
    model = SteinRFFRegressor(**how, **SMALL).fit(X, Y)
    assert_allclose(np.sqrt(model.noise_variance_), STD, rtol=0.25)
    bounds = model.predict_interval(rows, 0.9)
    inside = [interval_coverage(new[:, j], bounds[:, j]) for j in range(3)]
    assert np.all(np.abs(np.subtract(inside, 0.9)) < 0.08)
    each = MultiOutputRegressor(SteinRFFRegressor(**how, **SMALL)).fit(X, Y)
    scores = [log_predictive_density_scorer(one, rows, new) for one in (model, each)]
    assert scores[0] > scores[1] - 0.05


def test_a_wave_of_one_target_is_found():
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 10.0, (500, 1))
    Y = np.sin(X) + np.array([0.0, 0.5]) * np.sin(2.0 * np.pi * 14.3 * X)
    Y += np.array([1.0, 0.2]) * rng.standard_normal((500, 2))
    model = SteinRFFRegressor(max_iter=20, **SMALL).fit(X, Y)
    found = np.abs(model.frequencies_).max(axis=(1, 2)) / (2.0 * np.pi)
    assert_allclose(found, 14.3, atol=0.1)
    assert_allclose(np.sqrt(model.noise_variance_), [1.0, 0.2], rtol=0.2)


def test_chunks_and_merged_models():
    X, Y = data(300)
    first = SteinRFFRegressor(max_iter=3, **SMALL).partial_fit(X[:100], Y[:100])
    one, two = copy.deepcopy(first), copy.deepcopy(first)
    one.partial_fit(X[100:200], Y[100:200])
    merged = one + two.partial_fit(X[200:], Y[200:])
    whole = copy.deepcopy(first).partial_fit(X[100:], Y[100:])
    assert_allclose(merged.predict(X), whole.predict(X), rtol=1e-6)
    assert_allclose(merged.log_evidence_, whole.log_evidence_)
    with pytest.raises(ValueError, match=r"as many targets"):
        first.partial_fit(X, Y[:, 0])


def test_the_same_bits_for_every_number_of_workers():
    X, Y = data()
    one, two = (
        SteinRFFRegressor(max_iter=5, n_jobs=n, **SMALL).fit(X, Y) for n in (1, 2)
    )
    assert_array_equal(one.predict(X), two.predict(X))


def test_a_finding_names_its_target():
    x = np.linspace(0.0, 1.0, 200)[:, np.newaxis]
    y = np.column_stack((x[:, 0], np.sin(60.0 * x[:, 0]) ** 3))
    y += 0.01 * np.random.default_rng(0).standard_normal(y.shape)
    smooth = RBF(1.0, "fixed")
    with pytest.warns(FitWarning, match="Target 1: Residuals"):
        SteinRFFRegressor(smooth, max_iter=0, **SMALL).fit(x, y)
