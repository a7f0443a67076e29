"""Predictive distributions through what scikit-learn wraps regressors in."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.linear_model import BayesianRidge, LinearRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import skgpx
from skgpx import PLSClassifier, PLSRegressor
from skgpx.likelihoods import Poisson
from skgpx.thompson import ThompsonSampler

rng = np.random.default_rng(0)
X = rng.uniform(0.0, 600.0, size=(30, 1))
Y = np.sin(X[:, 0] / 100.0) + 0.1 * rng.normal(size=30)
ROWS = np.array([[150.0], [300.0], [500.0]])
MODEL = PLSRegressor(
    RBF(0.5), optimizer=None, n_inducing=8, n_particles=10, random_state=0
)
GRID = {"plsregressor__n_inducing": [2, 8]}

SCALED = StandardScaler().fit(X)
DIRECT = clone(MODEL).fit(SCALED.transform(X), Y)
PIPELINE = make_pipeline(StandardScaler(), MODEL)

WRAPPED = {
    "pipeline": PIPELINE,
    "search": GridSearchCV(PIPELINE, GRID, cv=2),
    "pipeline of a search": make_pipeline(
        StandardScaler(), GridSearchCV(MODEL, {"n_inducing": [2, 8]}, cv=2)
    ),
    "pipeline of a pipeline": make_pipeline(PIPELINE[:-1], make_pipeline(MODEL)),
    "target": TransformedTargetRegressor(PIPELINE),
}


@pytest.mark.parametrize("name", WRAPPED)
def test_distributions_and_functions_are_those_of_the_regressor_inside(name):
    wrapped = clone(WRAPPED[name]).fit(X, Y)
    expected = DIRECT.predict_dist(SCALED.transform(ROWS))
    functions = DIRECT.sample_functions(3, random_state=1)(SCALED.transform(ROWS))
    for one in (wrapped, FrozenEstimator(wrapped)):
        distribution = skgpx.predict_dist(one, ROWS)
        assert_allclose(distribution.mean(), expected.mean(), rtol=1e-10)
        assert_allclose(distribution.std(), expected.std(), rtol=1e-10)
        assert_allclose(distribution.interval(), expected.interval(), rtol=1e-9)
        assert_allclose(distribution.cdf(0.2), expected.cdf(0.2), rtol=1e-9)
        assert_allclose(
            distribution.log_density(0.2), expected.log_density(0.2), atol=1e-8
        )
        assert_allclose(distribution.sample(2), expected.sample(2), rtol=1e-9)
        draws = skgpx.sample_functions(one, 3, random_state=1)
        assert_allclose(draws(ROWS), functions, rtol=1e-9)
        assert_array_equal(draws(ROWS), draws(ROWS))


def test_what_is_known_of_rows_passes_through():
    counts = np.round(np.exp(1.0 + Y))
    model = clone(MODEL).set_params(likelihood=Poisson())
    pipeline = make_pipeline(StandardScaler(), model).fit(X, counts)
    exposure = np.array([1.0, 2.0, 5.0])
    distribution = skgpx.predict_dist(pipeline, ROWS, exposure=exposure)
    assert_allclose(distribution.mean(), exposure * pipeline.predict(ROWS))


def test_logarithms_of_the_target():
    positive = np.exp(Y)
    wrapped = TransformedTargetRegressor(PIPELINE, func=np.log, inverse_func=np.exp)
    distribution = skgpx.predict_dist(wrapped.fit(X, positive), ROWS)
    expected = DIRECT.predict_dist(SCALED.transform(ROWS))
    mean = np.exp(expected.mean() + 0.5 * expected.variance())
    assert_allclose(distribution.mean(), mean, rtol=1e-7)
    assert_allclose(
        distribution.quantile(0.3), np.exp(expected.quantile(0.3)), rtol=1e-9
    )


@pytest.mark.parametrize("turns", [False, True])
def test_distributions_of_a_transformed_target_need_a_monotone_inverse(turns):
    # a square is monotone away from zero only
    shift = 0.0 if turns else 50.0
    wrapped = TransformedTargetRegressor(
        PIPELINE,
        func=lambda y: np.sqrt(np.maximum(y, 0.0)) - shift,
        inverse_func=lambda z: (z + shift) ** 2,
        check_inverse=False,
    )
    distribution = skgpx.predict_dist(wrapped.fit(X, (Y + shift) ** 2), ROWS)
    assert distribution.mean().shape == distribution.sample()[:, 0].shape == (3,)
    for function in (distribution.quantile, distribution.cdf, distribution.log_density):
        if turns:
            with pytest.raises(ValueError, match="turns between"):
                function(0.5)
        else:
            assert function(0.5).shape == (3,)


def test_what_has_no_distribution_is_refused():
    search = GridSearchCV(PIPELINE, GRID, cv=2, refit=False).fit(X, Y)
    with pytest.raises(ValueError, match="refit=True"):
        skgpx.predict_dist(search, ROWS)
    labels = PLSClassifier(RBF(), optimizer=None, n_inducing=5, n_particles=5)
    for model in (LinearRegression(), labels):
        with pytest.raises(ValueError, match="predict_dist expects a fitted regressor"):
            skgpx.predict_dist(model.fit(X, Y > 0.0), ROWS)
    exact = GaussianProcessRegressor().fit(X, Y)
    with pytest.raises(ValueError, match="with exposure"):
        skgpx.predict_dist(exact, ROWS, exposure=ROWS[:, 0])
    with pytest.raises(ValueError, match="has no sample_y"):
        skgpx.predict_dist(BayesianRidge().fit(X, Y), ROWS).sample(2)
    for unfitted in (clone(MODEL), clone(PIPELINE)):
        with pytest.raises(NotFittedError):
            skgpx.predict_dist(unfitted, ROWS)


def test_thompson_sampling_of_a_search():
    regressor = GaussianProcessRegressor(RBF(0.3), alpha=1e-3, optimizer=None)
    grid = GridSearchCV(regressor, {"kernel": [RBF(0.05), RBF(0.3)]}, cv=2)
    told = np.linspace(0.0, 1.0, 8)[:, np.newaxis]
    values = (told[:, 0] - 0.4) ** 2
    found = clone(grid).fit(told, values).best_estimator_.kernel_
    asked = []
    for sampler in (grid, skgpx.DecoupledSampler(grid), regressor):
        optimizer = ThompsonSampler(
            [[0.0, 1.0]], sampler, n_initial=0, n_mesh=50, n_starts=2, random_state=0
        )
        optimizer.tell(told, values)
        asked.append(optimizer.ask(2))
        if sampler is not regressor:
            assert optimizer.sampler_.estimator_.kernel_ == found
    assert_array_equal(asked[0], asked[1])
    kept = ThompsonSampler([[0.0, 1.0]], grid, refit_every=None, n_initial=0, n_mesh=50)
    kept.tell(told, told[:, 0]).ask(1)
    assert isinstance(kept.sampler_.estimator, GaussianProcessRegressor)
    for wrong in (LinearRegression(), PIPELINE, RBF()):
        with pytest.raises(ValueError, match="DecoupledSampler expects"):
            ThompsonSampler([[0.0, 1.0]], wrong)


def test_functions_in_the_units_of_the_target():
    scaler = StandardScaler()
    wrapped = TransformedTargetRegressor(PIPELINE, func=np.log, inverse_func=np.exp)
    draws = skgpx.sample_functions(wrapped.fit(X, np.exp(Y)), 3, random_state=1)
    expected = DIRECT.sample_functions(3, random_state=1)(SCALED.transform(ROWS))
    assert_allclose(draws(ROWS), np.exp(expected), rtol=1e-9)
    exact = GaussianProcessRegressor(RBF(0.5), alpha=0.04, optimizer=None)
    pipeline = make_pipeline(scaler, exact).fit(X, Y)
    many = skgpx.sample_functions(pipeline, 2000, random_state=0)(ROWS)
    mean, std = pipeline.predict(ROWS, return_std=True)
    assert np.all(np.abs(many.mean(axis=1) - mean) < 4.5 * std / np.sqrt(2000.0))
    with pytest.raises(ValueError, match="sample_functions expects"):
        skgpx.sample_functions(LinearRegression().fit(X, Y))


def transformed(y, **transformation):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(len(y), 2))
    model = TransformedTargetRegressor(BayesianRidge(), **transformation).fit(X, y)
    return skgpx.predict_dist(model, X)


def test_targets_that_a_transformation_cannot_have_are_beyond_the_distribution():
    y = np.exp(np.random.default_rng(1).normal(size=40))
    distribution = transformed(y, func=np.log, inverse_func=np.exp)
    asked = y.copy()
    asked[:2] = -1.0, 0.0
    assert_array_equal(distribution.cdf(asked)[:2], 0.0)
    assert_array_equal(distribution.log_density(asked)[:2], -np.inf)
    assert np.all(np.isfinite(distribution.log_density(y)))
    assert np.all(np.isfinite(distribution.crps(asked)))


@pytest.mark.parametrize(("level", "spread"), [(90.0, 60.0), (1e4, 1.0), (1e6, 1.0)])
def test_the_density_of_a_linear_transformation_at_zero(level, spread):
    rng = np.random.default_rng(0)
    y = level + spread * rng.normal(size=40)
    distribution = transformed(y, transformer=StandardScaler())
    mean, std = distribution.mean(), distribution.std()
    normal = -0.5 * (mean / std) ** 2 - np.log(std) - 0.5 * np.log(2.0 * np.pi)
    assert_allclose(distribution.log_density(0.0), normal, rtol=1e-9, atol=1e-6)
