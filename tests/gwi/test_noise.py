"""Noise around a mean that has heavy tails, or is not the same everywhere."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.compose import make_column_transformer
from sklearn.dummy import DummyRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils import get_tags

from skgpx import GWIRegressor, PLSRegressor, predict_dist
from skgpx.exceptions import FitWarning
from skgpx.likelihoods import Gaussian, Poisson, StudentT

pytestmark = pytest.mark.filterwarnings("ignore:At held-out", "ignore:Residuals are")
DF, SLOPE = 5.0, 1.0


class Truth(RegressorMixin, BaseEstimator):
    """The function from which the data come."""

    def fit(self, X, y):
        self.fitted_ = True
        return self

    def predict(self, X):
        return np.sin(X[:, 0])


def scale_at(X):
    return 0.3 * np.exp(SLOPE * X[:, 0])


def noisy(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, (n, 2))
    return X, np.sin(X[:, 0]) + scale_at(X) * rng.standard_t(DF, n)


X, Y = noisy(150)
NEW = noisy(25, seed=1)[0]
FAST = {
    "kernel": ConstantKernel(1.0) * RBF(0.7),
    "optimizer": None,
    "n_inducing": 20,
    "random_state": 0,
}
OTHER = {"likelihood": "student_t", "noise_model": Ridge()}


def fit(mean="svgp", rows=(X, Y), weights=None, **given):
    return GWIRegressor(mean, **FAST | given).fit(*rows, weights)


def outputs(model, rows=NEW):
    return [
        *model.predict(rows, return_std=True),
        model.predict_quantiles(rows, [0.1, 0.7]),
        model.sample_y(rows, 2, random_state=0),
        model.predict_dist(rows).log_density(np.zeros(len(rows))),
    ]


def assert_same(one, other, rows=NEW, **tolerance):
    for a, b in zip(outputs(one, rows), outputs(other, rows), strict=True):
        if tolerance:
            assert_allclose(a, b, **tolerance)
        else:
            assert_array_equal(a, b)


# ---- What is learned -----------------------------------------------------------------


def test_scale_and_degrees_of_freedom_are_those_of_the_noise():
    rows = noisy(1500, seed=2)
    mean = FrozenEstimator(Truth().fit(X, Y))
    # a process that knows all, so that errors are the noise
    flat = ConstantKernel(1e-8, "fixed") * RBF(1.0)
    given = {"cv": "prefit", "kernel": flat, **OTHER}
    model = fit(mean, rows, **given, noise_variance=None)
    # Fisher information of log scale and slope: 2 df / (df + 3) a row
    fisher = 2.0 * DF / (DF + 3.0) * len(rows[1])
    error = 4.5 * np.sqrt(1.0 / fisher + (1.0 / 3.0) ** -1 * NEW[:, 0] ** 2 / fisher)
    parameter = model._noise_at(NEW)
    assert np.all(np.abs(0.5 * np.log(parameter) - np.log(scale_at(NEW))) < 1.5 * error)
    assert 3.5 < model.likelihood_.df < 8.0
    std = model.predict(NEW, return_std=True)[1]
    df = model.likelihood_.df
    assert_allclose(std**2, parameter * df / (df - 2.0), rtol=1e-3)
    # log |e| and |e| are regressed on the same column
    other = fit(mean, rows, **given | {"noise_model": "boosting"})
    ratio = other.predict(NEW, return_std=True)[1] / std
    assert np.std(np.log(ratio)) < 0.2


def test_a_noise_model_that_finds_nothing_changes_nothing():
    plain = fit(likelihood="student_t")
    dummy = fit(likelihood="student_t", noise_model=DummyRegressor())
    assert_same(plain, dummy, rtol=5e-3, atol=5e-3)
    noise = np.random.default_rng(3)
    same = X, np.sin(X[:, 0]) + 0.3 * noise.standard_normal(len(X))
    model = fit(rows=same, noise_model=Ridge())
    # a slope of log scales that is small beside its standard error of a tenth
    parameter = model._noise_at(NEW)
    assert np.ptp(0.5 * np.log(parameter)) < 0.5


def test_means_and_the_process_are_the_same_as_without():
    plain = fit(LinearRegression())
    other = fit(LinearRegression(), **OTHER)
    how = {"return_std": True, "include_noise": False}
    for rows in (NEW, 100.0 * NEW):
        assert_array_equal(plain.predict(rows, **how), other.predict(rows, **how))
    draws = (model.sample_functions(3, random_state=0)(NEW) for model in (plain, other))
    assert_array_equal(*draws)


def test_far_away_noise_is_as_large_as_at_some_row():
    model = fit("net", max_iter=5, n_estimators=2, validation_fraction=0.4, **OTHER)
    seen = model._noise_at(X)
    for far in (1e3 * NEW, -1e3 * NEW):
        assert np.all(model._noise_at(far) <= seen.max() * (1.0 + 1e-9))
        assert np.all(model._noise_at(far) >= seen.min() * (1.0 - 1e-9))
        std = model.predict(far, return_std=True, include_noise=False)[1]
        assert_allclose(std, np.std(Y), rtol=1e-6)


# ---- Predictions ---------------------------------------------------------------------


def test_all_predictions_are_of_one_distribution():
    model = fit(**OTHER)
    known = model._noise_at(NEW)
    assert known.max() > 2.0 * known.min()
    assert_same(model, model, NEW)
    mean, std = model.predict(NEW, return_std=True)
    dist = predict_dist(model, NEW)
    assert_allclose(dist.std(), std)
    assert_allclose(np.diagonal(model.predict(NEW, return_cov=True)[1]), std**2)
    quantiles = model.predict_quantiles(NEW, [0.1, 0.7])
    assert_allclose(dist.cdf(quantiles[:, 1]), 0.7, atol=1e-6)
    assert_allclose(model.predict_interval(NEW, 0.8)[:, 0], quantiles[:, 0])
    density = model.log_predictive_density(NEW, mean)
    step = 1e-4 * std
    rise = (dist.cdf(mean + step) - dist.cdf(mean - step)) / (2.0 * step)
    assert_allclose(density, np.log(rise), atol=1e-4)
    draws = model.sample_y(NEW, 4000, random_state=0)
    inside = np.mean(draws < quantiles[:, [1]], axis=1)
    assert np.all(np.abs(inside - 0.7) < 4.5 * np.sqrt(0.21 / 4000))
    # a row alone, and with a noise that is known
    assert_allclose(outputs(model, NEW[:1])[2], quantiles[:1], rtol=1e-9)
    given = model.predict(NEW, return_std=True, noise_variance=known)[1]
    assert_allclose(given, std)
    assert np.isfinite(model.score(NEW, mean + std))


@pytest.mark.parametrize("mean", ["svgp", LinearRegression()], ids=["own", "other"])
def test_copies_weights_and_threads(mean):
    model = fit(mean, **OTHER)
    assert_same(model, clone(model).fit(X, Y))
    assert_same(model, pickle.loads(pickle.dumps(model)))
    assert_same(model, fit(mean, **OTHER, n_jobs=2))
    weights = np.arange(len(Y)) % 3
    weighted = fit(mean, weights=weights, **OTHER)
    repeated = fit(mean, (np.repeat(X, weights, 0), np.repeat(Y, weights)), **OTHER)
    assert_same(weighted, repeated, rtol=1e-5, atol=1e-5)


def test_tables_and_groups():
    frame = pd.DataFrame({"x": X[:, 0], "kind": np.where(X[:, 1] > 0.0, "a", "b")})
    encoder = make_pipeline(OneHotEncoder(handle_unknown="ignore"))
    noise = np.random.default_rng(4).standard_normal(len(X))
    y = np.where(frame["kind"] == "a", 1.0, 0.1) * noise
    mean = make_pipeline(OneHotEncoder(handle_unknown="ignore"), DummyRegressor())
    kinds = frame[["kind"]]
    given = FAST | {"kernel": RBF(1.0)}
    model = GWIRegressor(
        mean, noise_model=make_pipeline(encoder, Ridge()), **given
    ).fit(kinds, y, groups=np.arange(len(y)) % 30)
    std = model.predict(kinds, return_std=True)[1]
    assert std[frame["kind"] == "a"].mean() > 4.0 * std[frame["kind"] == "b"].mean()
    assert_array_equal(model.predict(kinds[:3], return_std=True)[1], std[:3])


@pytest.mark.parametrize("table", [pd.DataFrame, pl.DataFrame])
def test_noise_models_get_the_table_around_means_of_the_library(table):
    def columns(*chosen):
        return make_pipeline(make_column_transformer(*chosen), Ridge())

    rows = table({"x": X[:, 0], "other": X[:, 1]})
    new = table({"x": NEW[:, 0], "other": NEW[:, 1]})
    by_name = columns(("passthrough", ["x"]))
    named = fit(rows=(rows, Y), noise_model=by_name)
    numbered = fit(noise_model=columns(("passthrough", [0])))
    for one, other in zip(outputs(named, new), outputs(numbered), strict=True):
        assert_array_equal(one, other)


def test_noise_models_get_categories_around_means_of_the_library():
    kinds = np.where(X[:, 1] > 0.0, "b", "a")
    y = np.where(kinds == "a", 1.0, 0.1) * np.random.default_rng(4).standard_normal(150)
    frame = pd.DataFrame({"x": X[:, 0], "kind": pd.Categorical(kinds, ["b", "a"])})
    encoder = make_column_transformer((OneHotEncoder(), ["kind"]))
    for noise_model in (make_pipeline(encoder, Ridge()), "boosting"):
        stds = []
        for table in (frame, pl.from_pandas(frame)):
            given = {"kernel": None, "noise_model": noise_model}
            model = fit(rows=(table, y), **given)
            stds.append(model.predict(table, return_std=True)[1])
        assert_array_equal(*stds)
        assert stds[0][kinds == "a"].mean() > 4.0 * stds[0][kinds == "b"].mean()
        if noise_model != "boosting":
            fitted = model.noise_model_[0].named_transformers_["onehotencoder"]
            assert set(fitted.categories_[0]) == {"a", "b"}


def test_a_noise_model_that_is_frozen_is_not_fitted():
    class Known(Truth):
        def predict(self, X):
            return np.log(scale_at(X))

    frozen = FrozenEstimator(Known().fit(X, Y))
    model = fit(noise_model=frozen)
    assert model.noise_model_ is not None
    assert 0.4 < model._noise_scale.slope <= 2.0
    assert np.corrcoef(np.log(model._noise_at(NEW)), NEW[:, 0])[0, 1] > 0.999


def test_a_scale_that_is_given_stays():
    model = fit(likelihood=StudentT(4.0, scale=0.7))
    assert_allclose(model.likelihood_.scale, 0.7)
    assert model.likelihood_.df == 4.0
    assert_allclose(model.noise_variance_, 2.0 * 0.49)
    with pytest.warns(FitWarning, match="heavy tails"):
        assert_same(fit(likelihood="gaussian"), fit(likelihood=Gaussian()))


@pytest.mark.parametrize("noise_model", [None, Ridge()])
def test_noise_without_a_variance_has_scales_and_intervals(noise_model):
    model = fit(likelihood=StudentT(2.0), noise_model=noise_model)
    assert np.isinf(model.noise_variance_)
    assert np.isinf(model.predict(NEW, return_std=True)[1]).all()
    assert np.isfinite(model.variance_scale_)
    assert np.isfinite(model.predict_interval(NEW)).all()
    assert np.isfinite(model.log_predictive_density(X, Y)).all()


def test_the_squared_scale_stands_for_a_variance_that_is_infinite():
    model = fit(likelihood=StudentT(2.0, scale=0.6))
    # four degrees of freedom have the variance of two squared scales
    finite = fit(likelihood=StudentT(4.0, scale=0.6 / np.sqrt(2.0)))
    assert_allclose(model.variance_scale_, finite.variance_scale_)


def test_few_held_out_rows_do_not_determine_how_noise_varies():
    few = fit(rows=(X[:9], Y[:9]), **OTHER)
    assert few.noise_model_ is None
    assert few.likelihood_.scale > 0.0
    none = fit("net", max_iter=2, validation_fraction=0.0, **OTHER)
    plain = fit("net", max_iter=2, validation_fraction=0.0)
    assert_same(none, plain)
    one = fit(rows=(X[:1], Y[:1]), **OTHER)
    assert np.isfinite(one.predict(NEW, return_std=True)[1]).all()


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"likelihood": Poisson()}, "expects the likelihood"),
        ({"likelihood": Gaussian(2.0)}, "Pass noise_variance=2.0"),
        ({"likelihood": StudentT}, "must be"),
        ({"likelihood": StudentT(-1.0)}, "positive df"),
        ({"likelihood": "laplace"}, "likelihood"),
        ({"calibrate": False, "noise_model": Ridge()}, "Omit it, or these"),
        ({"noise_model": "forest"}, "noise_model"),
        ({"noise_model": Ridge(), "noise_variance": 1.0}, "Omit it, or these"),
        ({"likelihood": StudentT(4.0, 1.0), "noise_model": Ridge()}, "Omit one"),
    ],
)
def test_parameters_that_are_refused(given, match):
    with pytest.raises(ValueError, match=match):
        fit(**{"max_iter": 2} | given)


@pytest.mark.parametrize(
    "other", [{"likelihood": "student_t"}, {"noise_model": Ridge()}]
)
@pytest.mark.parametrize("optimizer", ["evidence", None])
def test_noise_that_a_kernel_fixes_is_refused_before_anything_is_fitted(
    other, optimizer
):
    class Expensive(Truth):
        def fit(self, X, y):
            raise AssertionError("fitted")

    bounds = "fixed" if optimizer else (1e-5, 1e5)
    given = {"kernel": RBF(1.0) + WhiteKernel(0.5, bounds), "optimizer": optimizer}
    with pytest.raises(ValueError, match="Remove the WhiteKernel"):
        fit(Expensive(), **given, **other)
    plain = fit(LinearRegression(), **given)
    assert_allclose(plain.noise_variance_, 0.5 * np.var(Y))
    free = RBF(1.0) + WhiteKernel(0.5)
    fit(LinearRegression(), kernel=free, optimizer="evidence", **other)


def test_several_targets_are_refused():
    with pytest.raises(ValueError, match="expects one target"):
        fit(rows=(X, np.column_stack((Y, Y))), likelihood="student_t")


@pytest.mark.parametrize("likelihood", [5, Gaussian, np.ones(2)])
@pytest.mark.parametrize("estimator", [GWIRegressor, PLSRegressor])
def test_tags_do_not_depend_on_parameters_that_are_refused(estimator, likelihood):
    """Representations and cross-validation read them before any check."""
    tags = get_tags(estimator(likelihood=likelihood))
    assert not tags.target_tags.multi_output
