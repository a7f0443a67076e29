"""Sums of functions of one column and of two, among the default candidates."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF

from skgpx import (
    DecoupledSampler,
    ExactGPRegressor,
    GWIClassifier,
    GWIRegressor,
    PLSClassifier,
    PLSRegressor,
    SpectralVGPRegressor,
)
from skgpx.kernels import Additive
from skgpx.likelihoods import Gaussian, StudentT

# features of draws from functions with next to no noise
pytestmark = pytest.mark.filterwarnings("ignore:With .* Fourier features")
D = 6


def rosenbrock(X):
    return np.sum(100.0 * (X[:, 1:] - X[:, :-1] ** 2) ** 2, axis=1) / 800.0


def table(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, (n, D))
    f = rosenbrock(X)
    return X, f + 0.01 * rng.standard_normal(n), f


X, Y, F = table(160, seed=0)
NEW, _, F_NEW = table(400, seed=1)
MODELS = {
    "PLS": PLSRegressor(random_state=0),
    "GWI": GWIRegressor(random_state=0),
    "exact": ExactGPRegressor(random_state=0),
    "inducing": SpectralVGPRegressor(basis="inducing", random_state=0),
    "draws": DecoupledSampler(random_state=0),
}


def error(model):
    return np.sqrt(np.mean((model.predict(NEW) - F_NEW) ** 2)) / F_NEW.std()


@pytest.fixture(scope="module")
def product():
    model = PLSRegressor(1.0 * RBF(np.ones(D)), likelihood=Gaussian(), random_state=0)
    return model.fit(X, Y)


@pytest.fixture(scope="module", params=MODELS)
def model(request):
    return MODELS[request.param].fit(X, Y)


def test_a_sum_is_learned_from_few_rows(model, product):
    assert isinstance(model.kernel_, Additive)
    assert error(model) < 0.25 * error(product)
    # a sum on y itself, not a product on another scale of y
    assert type(getattr(model, "likelihood_", Gaussian())) is Gaussian


def test_draws_have_the_moments_of_the_predictions(model):
    if isinstance(model, ExactGPRegressor):
        pytest.skip("has no states of its own")
    rows = NEW[:30]
    draws = model.sample_functions(1000, random_state=0)(rows)
    predicting = getattr(model, "estimator_", model)
    mean, std = predicting.predict(rows, return_std=True, include_noise=False)
    z = (draws.mean(axis=1) - mean) / (std / np.sqrt(1000))
    assert np.max(np.abs(z)) < 5.0
    assert np.all(np.abs(draws.std(axis=1) / std - 1.0) < 0.3)


def test_the_order_of_the_columns_does_not_matter():
    order = np.array([3, 0, 5, 1, 4, 2])
    model = PLSRegressor(hyperparameters="maximise", random_state=0)
    mean, std = model.fit(X, Y).predict(NEW, return_std=True)
    model.fit(X[:, order], Y)
    mean_of_permuted, std_of_permuted = model.predict(NEW[:, order], return_std=True)
    assert isinstance(model.kernel_, Additive)
    assert_allclose(mean_of_permuted, mean, atol=1e-3 * Y.std())
    assert_allclose(std_of_permuted, std, rtol=1e-2)


def test_columns_of_categories_are_columns(rng):
    n = 150
    codes = rng.integers(0, 4, (3, n))
    effects = rng.standard_normal((3, 4))
    x = rng.uniform(-2.0, 2.0, n)
    f = np.sum(np.take_along_axis(effects, codes, axis=1), axis=0) + np.sin(2.0 * x)
    letters = np.array(list("abcd"))
    frame = pd.DataFrame(
        {
            "first": pd.Categorical(letters[codes[0]]),
            "x": x,
            "second": pd.Categorical(letters[codes[1]]),
            "third": pd.Categorical(letters[codes[2]]),
        }
    )
    y = f + 0.05 * rng.standard_normal(n)
    model = PLSRegressor(random_state=0).fit(frame[:100], y[:100])
    assert isinstance(model.kernel_, Additive)
    rest = frame[100:]
    mean, std = model.predict(rest, return_std=True, include_noise=False)
    assert np.sqrt(np.mean((mean - f[100:]) ** 2)) < 0.1
    draws = model.sample_functions(1000, random_state=0)(rest)
    z = (draws.mean(axis=1) - mean) / (std / np.sqrt(1000))
    assert np.max(np.abs(z)) < 5.0


@pytest.fixture(scope="module")
def lines():
    """Eight groups with lines of their own, and rows beyond those of the fit."""
    rng = np.random.default_rng(4)
    group = np.repeat(np.arange(8), 16)
    x = np.tile(np.linspace(0.0, 3.0, 16), 8)
    f = rng.standard_normal(8)[group] + rng.standard_normal(8)[group] * x
    frame = pd.DataFrame({"group": pd.Categorical(group), "x": x})
    return frame, f, f + 0.05 * rng.standard_normal(len(f)), x > 2.0


def test_groups_have_lines_of_their_own(lines):
    frame, f, y, later = lines
    model = PLSRegressor(likelihood=Gaussian(), random_state=0)
    model.fit(frame[~later], y[~later])
    names = {state.name: state.weight for state in model.hyperparameter_states_}
    of_groups = [w for name, w in names.items() if "trend of groups" in name]
    assert of_groups
    mean, std = model.predict(frame[later], return_std=True, include_noise=False)
    assert np.sqrt(np.mean((mean - f[later]) ** 2)) < 0.15
    draws = model.sample_functions(1000, random_state=0)(frame[later])
    z = (draws.mean(axis=1) - mean) / (std / np.sqrt(1000))
    assert np.max(np.abs(z)) < 5.0


# parallel lines are wrong here
@pytest.mark.filterwarnings("ignore:The noise varies with")
def test_lines_of_groups_are_interactions(lines):
    frame, _, y, later = lines
    model = PLSRegressor(
        interaction_cst="no_interactions", likelihood=Gaussian(), random_state=0
    )
    model.fit(frame[~later], y[~later])
    mean = model.predict(frame).reshape(8, 16)
    parallel = mean - mean[:1]
    assert_allclose(parallel, np.repeat(parallel[:, :1], 16, axis=1), atol=1e-7)


def test_log_odds_may_be_a_sum(rng):
    X = rng.uniform(-2.0, 2.0, (700, 8))
    log_odds = 3.0 * np.sum(np.sin(2.0 * X), axis=1)
    y = rng.random(700) < 1.0 / (1.0 + np.exp(-log_odds))
    model = PLSClassifier(random_state=0).fit(X[:250], y[:250])
    assert isinstance(model.kernel_, Additive)
    product = PLSClassifier(1.0 * RBF(np.ones(8)), random_state=0)
    product.fit(X[:250], y[:250])
    assert model.score(X[250:], y[250:]) > product.score(X[250:], y[250:]) + 0.05


@pytest.mark.parametrize("estimator", [PLSClassifier, GWIClassifier])
def test_log_odds_of_three_classes_may_be_sums(estimator, rng):
    X = rng.uniform(-2.0, 2.0, (700, 6))
    total = 3.0 * np.sum(np.sin(2.0 * X), axis=1) + rng.logistic(size=700)
    y = np.digitize(total, [-3.0, 3.0])
    model = estimator(random_state=0).fit(X[:250], y[:250])
    assert isinstance(model.kernel_, Additive)
    product = estimator(kernel=1.0 * RBF(np.ones(6)), random_state=0)
    product.fit(X[:250], y[:250])
    assert model.score(X[250:], y[250:]) > product.score(X[250:], y[250:]) + 0.05


def test_slopes_are_those_of_distant_entries_as_well(rng):
    """One standard deviation of all lines, also of a column that has far rows."""
    X = rng.standard_normal((100, 3))
    X[7, 2] = 1e4
    y = 2.0 * X[:, 0] + X[:, 1] + 0.1 * rng.standard_normal(100)
    model = PLSRegressor(hyperparameters="maximise", random_state=0).fit(X, y)
    (slope,) = [
        values
        for name, values in model.kernel_.get_params().items()
        if "slope" in name and "bounds" not in name
    ]
    stds = np.asarray(slope) * X.std(axis=0)
    assert_allclose(stds, stds[0], rtol=1e-6)


def test_sums_under_outliers(rng):
    noise = 0.02 * rng.standard_t(1.5, len(Y))
    model = PLSRegressor(likelihood=StudentT(), random_state=0).fit(X, F + noise)
    assert isinstance(model.kernel_, Additive)
    product = clone(model).set_params(kernel=1.0 * RBF(np.ones(D)))
    assert error(model) < 0.5 * error(product.fit(X, F + noise))


@pytest.mark.parametrize("estimator", [PLSRegressor, GWIRegressor, ExactGPRegressor])
def test_a_sum_that_is_given_stays(estimator):
    kernel = Additive(RBF(np.ones(D)), order=1)
    y = np.exp(np.sum(np.sin(X), axis=1))
    model = estimator(kernel=kernel, random_state=0).fit(X, y)
    assert isinstance(model.kernel_, Additive)
    assert model.kernel_.order == 1


def test_two_columns_have_no_sums():
    y = np.sin(3.0 * X[:, 0]) + np.sin(3.0 * X[:, 1])
    model = PLSRegressor(random_state=0).fit(X[:60, :2], y[:60])
    assert not isinstance(model.kernel_, Additive)


@pytest.mark.usefixtures("abundant_early")
def test_of_many_rows_held_out_ones_choose():
    X, y, _ = table(1600, seed=2)
    model = PLSRegressor(random_state=0).fit(X, y)
    # with a linear trend, perhaps
    assert "Additive" in repr(model.kernel_)
    # a product of all columns has more than this
    assert error(model) < 0.004
