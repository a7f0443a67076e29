"""Several targets: one kernel and its points, a noise and a calibration for each."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.linear_model import BayesianRidge

from skgpx import GWIRegressor
from skgpx.exceptions import FitWarning
from skgpx.metrics import interval_coverage

STD = np.array([0.05, 2.0, 1.0])


def data(n=150, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, size=(n, 2))
    a, b = X.T
    F = np.stack([np.sin(2.0 * a), 10.0 * np.cos(b) + 100.0, a * b / 3.0], axis=1)
    return X, F + STD * rng.standard_normal((n, 3))


@pytest.mark.parametrize("n_inducing", ["auto", 30])
def test_predictions_are_those_of_single_fits(n_inducing):
    (X, Y), (rows, _) = data(), data(30, seed=1)
    weights = np.random.default_rng(2).integers(0, 3, len(X))
    kernel, how = 1.5 * RBF(1.0) + WhiteKernel(0.1), {"n_inducing": n_inducing}
    estimator = GWIRegressor("svgp", kernel, optimizer=None, random_state=0, **how)
    model = clone(estimator).fit(X, Y, weights)
    mean, std = model.predict(rows, return_std=True)
    intervals = model.predict_interval(rows)
    for j, y in enumerate(Y.T):
        one, scale = clone(estimator).fit(X, y, weights), y.std()
        alone = one.predict(rows, return_std=True)
        assert_allclose(mean[:, j], alone[0], rtol=1e-8, atol=1e-8 * scale)
        assert_allclose(std[:, j], alone[1], rtol=1e-8)
        assert_allclose(intervals[:, j], one.predict_interval(rows), atol=1e-8 * scale)
        assert_allclose(model.noise_variance_[j], one.noise_variance_)
        assert_allclose(model.variance_scale_[j], one.variance_scale_)
    assert model.sample_functions(4, random_state=0)(rows).shape == (30, 3, 4)


@pytest.mark.parametrize("mean", ["auto", "net"])
def test_each_target_has_its_noise(mean):
    (X, Y), (rows, new) = data(300), data(400, seed=4)
    model = GWIRegressor(mean, random_state=0).fit(X, Y)
    assert model.score(rows, new) > 0.6
    bounds = model.predict_interval(rows, 0.9)
    inside = [interval_coverage(new[:, j], bounds[:, j]) for j in range(3)]
    assert np.all(np.abs(np.subtract(inside, 0.9)) < 0.08)
    if mean == "auto":
        assert_allclose(np.sqrt(model.noise_variance_), STD, rtol=0.15)


def test_a_finding_names_its_target():
    x = np.linspace(0.0, 1.0, 200)[:, np.newaxis]
    y = np.column_stack((x[:, 0], np.sin(60.0 * x[:, 0])))
    y += 0.01 * np.random.default_rng(0).standard_normal(y.shape)
    kernel = RBF(1.0, (0.5, 2.0))
    with pytest.warns(FitWarning, match="Target 1: Residuals"):
        GWIRegressor("svgp", kernel, random_state=0).fit(x, y)


def test_a_given_noise_and_other_regressors():
    X, Y = data()
    model = GWIRegressor("svgp", noise_variance=0.5, random_state=0).fit(X, Y)
    assert model.noise_variance_.shape == (3,)
    with pytest.raises(ValueError, match=r"one target here.*MultiOutputRegressor"):
        GWIRegressor(BayesianRidge()).fit(X, Y)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_mean_that_is_worse_for_one_target_hides_nothing_of_another():
    x = np.linspace(0.0, 1.0, 200)[:, np.newaxis]
    # the process of this kernel follows the first target only, one epoch neither
    y = np.column_stack((np.sin(6.0 * x[:, 0]), np.sin(60.0 * x[:, 0])))
    y += 0.01 * np.random.default_rng(0).standard_normal(y.shape)
    kernel = RBF(1.0, (0.5, 2.0))
    model = GWIRegressor("net", kernel, max_iter=1, random_state=0).fit(x, y)
    messages = [finding.message for finding in model.findings_]
    assert any(text.startswith("Target 0: ") for text in messages)
    assert any(text.startswith("Target 1: Residuals") for text in messages)
