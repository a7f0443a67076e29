"""Doors: what a new user tries first works, or is refused with what to do."""

import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, CompoundKernel
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV

from skgpx import (
    DecoupledSampler,
    GWIClassifier,
    GWIRegressor,
    PLSClassifier,
    PLSRegressor,
    SpectralVGPRegressor,
    SteinRFFRegressor,
)
from skgpx.bases import draw_prior
from skgpx.likelihoods import Gaussian, Poisson, StudentT, check_likelihood
from skgpx.simulation import simulate_ode

ROOT = Path(__file__).parents[1]
rng = np.random.default_rng(0)
X = rng.normal(size=(20, 2))
Y = np.sin(2.0 * X[:, 0]) + 0.1 * rng.normal(size=20)
BRIEF = {"optimizer": None, "n_inducing": 6, "n_particles": 6, "max_iter": 40}
REGRESSOR = GaussianProcessRegressor(RBF(), alpha=0.01, optimizer=None)

REGRESSORS = {
    "pls": PLSRegressor(n_inducing=6, n_particles=6, random_state=0),
    "spectral": SpectralVGPRegressor(random_state=0),
    "stein": SteinRFFRegressor(
        n_components=2, n_frequencies=6, max_iter=5, random_state=0
    ),
    "gwi": GWIRegressor(n_restarts=2, max_iter=20, random_state=0),
    "gwi-around": GWIRegressor(LinearRegression(), random_state=0),
    "decoupled": DecoupledSampler(REGRESSOR, random_state=0),
}
regressors = pytest.mark.parametrize("model", REGRESSORS.values(), ids=REGRESSORS)


@regressors
@pytest.mark.parametrize("scale", [1e308, 1e200, 1.01e120, 0.99e-120, 1e-300])
@pytest.mark.parametrize("name", ["X", "y"])
def test_numbers_whose_squares_are_not_numbers_are_refused(model, name, scale):
    data = {"X": X / np.max(np.abs(X), axis=0), "y": Y / np.max(np.abs(Y))}
    data[name] = data[name] * scale
    with pytest.raises(ValueError, match=f"{name} must be of a size .* Change its"):
        model.fit(**data)


@regressors
@pytest.mark.parametrize("name", ["X", "y"])
@pytest.mark.parametrize("scale", [0.99e120, 1.01e-120])
@pytest.mark.filterwarnings("ignore")
def test_large_and_small_numbers_within_the_bounds_are_answered(model, name, scale):
    data = {"X": X / np.max(np.abs(X), axis=0), "y": Y / np.max(np.abs(Y))}
    if name == "X" and isinstance(model, DecoupledSampler):
        model = DecoupledSampler(random_state=0)
    data[name] = data[name] * scale
    model.fit(**data)
    assert np.all(np.isfinite(model.predict(data["X"], return_std=True)))
    assert np.all(np.isfinite(model.sample_y(data["X"])))


DOORS = {
    "pls": PLSRegressor(**BRIEF, random_state=0).fit,
    "student": PLSRegressor(likelihood=StudentT(), **BRIEF, random_state=0).fit,
    "fourier": SpectralVGPRegressor(basis="fourier", random_state=0).fit,
    "inducing": SpectralVGPRegressor(basis="inducing", random_state=0).fit,
    "chunk": SpectralVGPRegressor(random_state=0).partial_fit,
    "later chunk": SpectralVGPRegressor(domain=[[-1.0, 1.0]] * 2).fit(X / 4, Y),
    "stein": REGRESSORS["stein"].fit,
    "gwi": REGRESSORS["gwi"].fit,
    "gwi-svgp": GWIRegressor("svgp", random_state=0).fit,
    "gwi-around": REGRESSORS["gwi-around"].fit,
    "default": DecoupledSampler(random_state=0).fit,
    "exact": DecoupledSampler(REGRESSOR, random_state=0).fit,
    "wrapped": DecoupledSampler(PLSRegressor(**BRIEF), random_state=0).fit,
}


@pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)
@pytest.mark.parametrize("scale", [1e-200, 1e-160, 1e160, 1e200])
def test_targets_beyond_the_range_are_refused_at_every_door(door, scale):
    door = getattr(door, "partial_fit", door)
    with pytest.raises(ValueError, match="y must be of a size between 1e-120 and"):
        door(X / 4, scale * Y)


@pytest.mark.parametrize("scale", [1e-200, 1e-160, 1e160, 1e200])
def test_inputs_beyond_the_range_are_refused_of_classes_and_several_targets(scale):
    both = np.column_stack((Y, scale * Y))
    classifiers = PLSClassifier(**BRIEF), GWIClassifier()
    for model in (*classifiers, GWIClassifier(LogisticRegression())):
        with pytest.raises(ValueError, match="X must be of a size between"):
            model.fit(scale * X, Y > 0.0)
    with pytest.raises(ValueError, match="y must be of a size between"):
        DecoupledSampler(REGRESSOR).fit(X, both)


@pytest.mark.parametrize("name", [name for name in DOORS if name != "later chunk"])
@pytest.mark.parametrize("scale", [1e-100, 1e100])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_targets_within_the_range_are_the_same_in_other_units(name, scale):
    usual = clone(DOORS[name].__self__)
    fit = getattr(usual, DOORS[name].__name__)
    expected = fit(X, Y).predict(X)
    if name == "exact":
        usual.set_params(estimator__alpha=0.01 * scale**2)
        usual.set_params(estimator__kernel=scale**2 * RBF())
    found = getattr(clone(usual), DOORS[name].__name__)(X, scale * Y).predict(X)
    assert_allclose(found / scale, expected, atol=0.02)


@regressors
def test_rows_to_predict_have_the_same_bound(model):
    model.fit(X, Y)
    with pytest.raises(ValueError, match=r"X must be at most 1e\+120"):
        model.predict(1e308 * (X / np.max(np.abs(X))))


@regressors
def test_dates_are_refused_with_the_way_to_convert_them(model):
    dates = pd.DataFrame({"when": pd.date_range("2020", periods=20), "x": X[:, 0]})
    for columns in (dates, dates[["when"]].to_numpy()):
        with pytest.raises(ValueError, match=r"numpy\.timedelta64"):
            model.fit(columns, Y)


CLASSIFIERS = {
    "classifier": PLSClassifier(**BRIEF, random_state=0),
    "gwi-classes": GWIClassifier(n_restarts=2, max_iter=20, random_state=0),
    "gwi-around-classes": GWIClassifier(LogisticRegression(), random_state=0),
}
ESTIMATORS = REGRESSORS | CLASSIFIERS
estimators = pytest.mark.parametrize("model", ESTIMATORS.values(), ids=ESTIMATORS)


@estimators
def test_dates_among_objects_are_refused_too(model):
    dates = pd.date_range("2020", periods=20)
    for column in (dates.tolist(), dates.tz_localize("UTC").tolist()):
        rows = [[when, x] for when, x in zip(column, X[:, 0], strict=True)]
        with pytest.raises(ValueError, match=r"numpy\.timedelta64"):
            model.fit(rows, Y > 0.0)


@estimators
@pytest.mark.parametrize("size", [1e300, 1.01e120])
def test_draws_are_not_evaluated_beyond_the_range(model, size):
    draws = model.fit(X, Y > 0.0).sample_functions(2)
    far = size * (X / np.max(np.abs(X)))
    for call in (draws, draws.at, draws.value_and_grad):
        with pytest.raises(ValueError, match=r"X must be at most 1e\+120"):
            call(far)
    assert np.all(np.isfinite(draws(0.98e120 * (X / np.max(np.abs(X))))))


def test_draws_on_empirical_features_within_the_range():
    model = SpectralVGPRegressor(basis="empirical", random_state=0).fit(X, Y)
    draws = model.sample_functions(2)
    assert np.all(np.isfinite(draws(0.98e120 * (X / np.max(np.abs(X))))))


@pytest.mark.parametrize("model", [PLSRegressor(), PLSClassifier(), GWIClassifier()])
@pytest.mark.parametrize("given", [Poisson, StudentT(), "poisson", 1.0])
def test_a_likelihood_is_named_by_its_public_name(model, given):
    if isinstance(given, StudentT):
        given = StudentT(df=None)
        message = "StudentT expects a positive df"
    else:
        message = r"must be None or a likelihood of skgpx\.likelihoods"
    with pytest.raises(ValueError, match=message):
        model.set_params(likelihood=given).fit(X, Y > 0.0)


@pytest.mark.parametrize(
    ("likelihood", "message"),
    [
        (Gaussian("auto"), "noise_variance to be positive and finite.*'auto'"),
        (Gaussian(-1), "noise_variance to be positive and finite.*-1"),
        (StudentT(scale=0.0), "scale to be positive and finite"),
        (StudentT(df="4"), "positive df"),
        (Poisson("log"), "expects link in"),
    ],
)
def test_parameters_of_likelihoods_are_named_by_fits_and_by_calls(likelihood, message):
    with pytest.raises(ValueError, match=message):
        PLSRegressor(likelihood=likelihood).fit(X, Y)
    if not isinstance(likelihood, StudentT):
        with pytest.raises(ValueError, match=message):
            likelihood.nll(1.0, 0.0)


def test_a_class_is_no_likelihood_to_check():
    with pytest.raises(ValueError, match=r"the class Gaussian\. Call it"):
        check_likelihood(Gaussian)


def test_a_class_is_no_regressor_to_draw_from():
    with pytest.raises(ValueError, match=r"the class PLSRegressor\. Call it"):
        DecoupledSampler(PLSRegressor).fit(X, Y)


@regressors
@pytest.mark.parametrize("y", [["a"] * 20, np.array([object()] * 20)])
def test_targets_that_are_no_numbers_are_named(model, y):
    with pytest.raises(ValueError, match="y must be numeric"):
        model.fit(X, y)


@regressors
def test_numbers_as_objects_are_numbers(model):
    expected = model.fit(X, Y).predict(X)
    assert_array_equal(model.fit(X, Y.astype(object)).predict(X), expected)


@pytest.mark.parametrize("model", [PLSRegressor(), SpectralVGPRegressor()])
def test_a_compound_kernel_is_refused(model):
    model.set_params(kernel=CompoundKernel([RBF(), RBF()]))
    for one in (model, DecoupledSampler(GaussianProcessRegressor(model.kernel))):
        with pytest.raises(ValueError, match="Add or multiply them"):
            one.fit(X, Y)


def test_a_sampler_is_not_its_draws():
    with pytest.raises(ValueError, match="drift must be FunctionDraws"):
        simulate_ode(DecoupledSampler(), [0.0], [0.0, 1.0])


def test_a_step_that_is_no_correlation():
    model = PLSRegressor(likelihood=StudentT(), step_size=5.0, **BRIEF)
    with pytest.raises(ValueError, match=r"step_size .* \(0, 1\], got 5.0"):
        model.fit(X, Y)


def test_a_method_is_refused_before_the_search(monkeypatch):
    def search(*_):
        raise AssertionError("searched")

    monkeypatch.setattr("skgpx._pls._base.fit_prior", search)
    model = PLSRegressor(likelihood=StudentT(), method="exact", n_inducing=6)
    with pytest.raises(ValueError, match="needs a Gaussian likelihood"):
        model.fit(X, Y)


# 13 Seeds


@regressors
def test_calls_without_a_seed_use_that_of_the_estimator(model):
    model.fit(X, Y)
    for seed in (0, 1):
        model.set_params(random_state=seed)
        assert_array_equal(model.sample_y(X), model.sample_y(X, random_state=seed))
        draws = [model.sample_functions(random_state=s)(X) for s in (None, seed)]
        assert_array_equal(*draws)
    assert not np.array_equal(model.sample_y(X), model.sample_y(X, random_state=0))
    model.set_params(random_state=None)
    assert not np.array_equal(model.sample_y(X), model.sample_y(X))
    model.set_params(random_state=0)


# 15, 16 What users of other libraries look for


@pytest.mark.parametrize("model", CLASSIFIERS.values(), ids=CLASSIFIERS)
def test_logarithms_of_probabilities(model):
    model.fit(X, Y > 0.0)
    assert_allclose(np.exp(model.predict_log_proba(X)), model.predict_proba(X))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("model", [PLSRegressor(), SpectralVGPRegressor()])
def test_no_restart_is_the_search_from_the_kernel_as_given(model):
    model.set_params(kernel=RBF(0.7), n_restarts_optimizer=0)
    model.fit(X, Y)
    assert np.all(np.isfinite(model.predict(X)))


def test_a_search_inside_a_sampler_is_followed():
    grid = GridSearchCV(REGRESSOR, {"alpha": [0.01, 1.0]}, cv=2)
    sampler = DecoupledSampler(grid, random_state=0).fit(X, Y)
    best = DecoupledSampler(sampler.estimator_, random_state=0).fit(X, Y)
    assert isinstance(sampler.estimator_, GaussianProcessRegressor)
    assert sampler.estimator_.alpha == 0.01
    for frozen in (sampler, DecoupledSampler(FrozenEstimator(grid.fit(X, Y)))):
        frozen = frozen.fit(X, Y)
        found = frozen.sample_functions(2, random_state=0)(X)
        assert_array_equal(found, best.sample_functions(2, random_state=0)(X))
    with pytest.raises(ValueError, match="refit=True"):
        DecoupledSampler(grid.set_params(refit=False)).fit(X, Y)


def test_differences_and_multiples_of_draws():
    f, g = (draw_prior(RBF(s), 2, 1, 3, np.random.default_rng(1)) for s in (1.0, 2.0))
    assert_allclose((f - g)(X), f(X) - g(X), atol=1e-12)
    assert_allclose((2 * f)(X), 2.0 * f(X), atol=1e-12)
    assert_allclose((f * 0.5)(X), 0.5 * f(X), atol=1e-12)
    assert_allclose((-f)(X), -f(X), atol=1e-12)
    with pytest.raises(TypeError):
        f * "a"
    with pytest.raises(TypeError):
        f - 1.0


@pytest.mark.filterwarnings("ignore:Nothing but noise")
def test_the_sum_of_models():
    options = {"n_basis": 9, "domain": [[-4.0, 4.0]], "kernel": RBF(1.0)}
    parts = [slice(0, 7), slice(7, 20)]
    models = [
        SpectralVGPRegressor(optimizer=None, **options).fit(X[p, :1], Y[p])
        for p in parts
    ]
    together, merged = sum(models), models[0] + models[1]
    assert_array_equal(together.predict(X[:, :1]), merged.predict(X[:, :1]))
    with pytest.raises(TypeError):
        1 + models[0]


def test_every_public_module_is_reachable_and_loaded_when_asked_for():
    program = """
import sys, skgpx
assert "skgpx.thompson" not in sys.modules and "skgpx.simulation" not in sys.modules
assert skgpx.thompson.ThompsonSampler and skgpx.simulation.simulate_ode
assert skgpx.exceptions and skgpx.bases and skgpx.likelihoods and skgpx.kernels
assert {"thompson", "likelihoods", "PLSRegressor"} <= set(dir(skgpx))
try:
    skgpx.nothing
except AttributeError as error:
    assert "'nothing'" in str(error)
else:
    raise AssertionError
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


# Warnings name the line that a user can change

LONG = 1.0 * RBF(6.0, (5.0, 10.0))
SHORT = {"n_inducing": 6, "n_particles": 6, "random_state": 0}
CHAINS = {"likelihood": StudentT(scale=0.1), "optimizer": None, "kernel": RBF()}
CHAINS["method"] = "ou_mala"
TOLD = {
    "bounds": (PLSRegressor(LONG, **SHORT), "ended at their bounds"),
    "inducing": (SpectralVGPRegressor(LONG, basis="inducing"), "at their bounds"),
    "wrapped": (DecoupledSampler(PLSRegressor(LONG, **SHORT)), "at their bounds"),
    "counts": (PLSRegressor(LONG, likelihood=Poisson(), **SHORT), "at their bounds"),
    "chains": (PLSRegressor(**CHAINS, max_iter=4, tol=1.0, **SHORT), "not converged"),
}


@pytest.mark.parametrize(("model", "message"), TOLD.values(), ids=TOLD)
def test_a_warning_names_the_line_of_the_caller(model, message):
    with warnings.catch_warnings(record=True) as record:
        warnings.simplefilter("always")
        model.fit(X, np.round(20.0 + 8.0 * Y))
    told = [one for one in record if message in str(one.message)]
    assert [one.filename for one in told] == [__file__]
