"""TemperedRegressor: variances that fit the errors of rows that were left out."""

import joblib
import numpy as np
import pandas as pd
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.linear_model import BayesianRidge
from sklearn.model_selection import GridSearchCV, GroupKFold, TimeSeriesSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import skgpx
from skgpx import PLSRegressor, TemperedRegressor
from skgpx._numerics.variance_scale import fit_scale
from skgpx.likelihoods import Gaussian, Poisson

rng = np.random.default_rng(0)
N, NOISE = 150, 0.3
X = rng.uniform(-3.0, 3.0, size=(N, 2))
F = np.sin(X[:, 0])
Y = F + NOISE * rng.standard_normal(N)
NEW = rng.uniform(-3.0, 3.0, size=(50, 2))
TIMID = GaussianProcessRegressor(RBF(1.5), alpha=9.0, optimizer=None)
BOLD = GaussianProcessRegressor(RBF(1.5), alpha=NOISE**2, optimizer=None)
OURS = PLSRegressor(RBF(1.5), optimizer=None, n_inducing=20, likelihood=Gaussian(1.0))


def out_of_fold(model, X, y, n_folds=5):
    """Errors and moments, with the folds written out."""
    keys = np.lexsort(np.column_stack((X, y)).T[::-1])
    order = keys[np.random.default_rng(0).permutation(len(y))]
    mean, std = np.empty(len(y)), np.empty(len(y))
    for fold in range(n_folds):
        test = np.arange(len(y)) % n_folds == fold
        train = ~test
        fitted = clone(model).fit(X[order[train]], y[order[train]])
        mean[order[test]], std[order[test]] = fitted.predict(X[order[test]], True)
    return y - mean, std


@pytest.mark.parametrize("model", [TIMID, BOLD, BayesianRidge(), OURS])
def test_the_factor_is_that_of_rows_left_out(model):
    tempered = TemperedRegressor(model).fit(X, Y)
    errors, std = out_of_fold(model, X, Y)
    assert_allclose(tempered.slope_, fit_scale(errors**2, std**2), rtol=1e-9)
    assert tempered.constant_ == 0.0
    mean, after = tempered.predict(NEW, return_std=True)
    plain, before = clone(model).fit(X, Y).predict(NEW, return_std=True)
    assert_allclose(mean, plain, rtol=1e-9)
    assert_allclose(after, np.sqrt(tempered.slope_) * before)
    assert_array_equal(tempered.predict(NEW), mean)


@pytest.mark.parametrize(
    ("model", "given"), [(OURS, {"include_noise": False}), (BOLD, {})]
)
def test_affine_takes_the_variance_of_the_function_where_there_is_one(model, given):
    tempered = TemperedRegressor(model, method="affine").fit(X, Y)
    before = clone(model).fit(X, Y).predict(NEW, True, **given)[1]
    std = tempered.predict(NEW, return_std=True)[1]
    assert_allclose(std**2, tempered.constant_ + tempered.slope_ * before**2)
    if model is OURS:  # whose noise was said to be ten times too large
        assert 0.5 * NOISE**2 < tempered.constant_ < 2.0 * NOISE**2


def test_intervals_cover():
    tempered = TemperedRegressor(TIMID).fit(X, Y)
    fresh = np.random.default_rng(1)
    new = fresh.uniform(-3.0, 3.0, size=(2000, 2))
    y = np.sin(new[:, 0]) + NOISE * fresh.standard_normal(2000)
    low, high = tempered.predict_interval(new, 0.9).T
    assert abs(np.mean((low < y) & (y < high)) - 0.9) < 0.05


def test_weights_are_repetitions():
    weights = np.random.default_rng(1).integers(0, 4, size=N)
    repeated = np.repeat(np.arange(N), weights)
    for model in (BayesianRidge(), OURS, UNWEIGHTED):
        one = TemperedRegressor(model).fit(X, Y, sample_weight=weights)
        other = TemperedRegressor(model).fit(X[repeated], Y[repeated])
        assert_allclose(one.slope_, other.slope_, rtol=1e-9)


# takes no weights: rows are repeated
UNWEIGHTED = GaussianProcessRegressor(RBF(1.0), alpha=0.1, optimizer=None)


def test_weights_that_cannot_be_used_warn():
    weights = rng.uniform(0.5, 1.5, size=N)
    with pytest.warns(UserWarning, match="takes no sample_weight"):
        TemperedRegressor(BOLD).fit(X, Y, sample_weight=weights)


@pytest.mark.parametrize("way", ["frozen", "prefit"])
def test_a_fitted_estimator_is_only_tempered(way):
    model = clone(BOLD).fit(X[:100], Y[:100])
    kept = model.predict(NEW)
    frozen, prefit = FrozenEstimator(model), TemperedRegressor(model, cv="prefit")
    tempered = TemperedRegressor(frozen) if way == "frozen" else prefit
    tempered.fit(X[100:], Y[100:])
    mean, std = model.predict(X[100:], return_std=True)
    assert_allclose(tempered.slope_, fit_scale((Y[100:] - mean) ** 2, std**2))
    assert_array_equal(model.predict(NEW), kept)
    assert_array_equal(tempered.predict(NEW), kept)
    with pytest.raises(NotFittedError):
        TemperedRegressor(BayesianRidge(), cv="prefit").fit(X, Y)


def test_pipelines_and_searches():
    pipeline = make_pipeline(StandardScaler(), BOLD)
    search = GridSearchCV(pipeline, {"gaussianprocessregressor__alpha": [0.1, 1.0]})
    ours = GridSearchCV(make_pipeline(StandardScaler(), OURS), {}, cv=2)
    for model in (pipeline, search, ours):
        tempered = TemperedRegressor(model, method="affine").fit(X, Y)
        distribution = skgpx.predict_dist(tempered, NEW)
        mean, std = tempered.predict(NEW, return_std=True)
        assert_allclose(distribution.mean(), mean)
        assert_allclose(distribution.std(), std)
    grid = {"method": ["factor", "affine"], "estimator__alpha": [0.1, 9.0]}
    found = GridSearchCV(TemperedRegressor(BOLD), grid, cv=2).fit(X, Y)
    assert found.predict(NEW).shape == (50,)
    outer = make_pipeline(StandardScaler(), TemperedRegressor(BOLD)).fit(X, Y)
    assert outer.predict(NEW, return_std=True)[1].shape == (50,)


def test_the_distribution_is_the_inner_one_stretched():
    tempered = TemperedRegressor(OURS, cv=2).fit(X, Y)
    distribution, s = tempered.predict_dist(NEW), np.sqrt(tempered.slope_)
    inner = tempered.estimator_.predict_dist(NEW)
    mean = inner.mean()
    y = mean + 0.7
    assert_allclose(distribution.std(), s * inner.std())
    assert_allclose(distribution.cdf(y), inner.cdf(mean + 0.7 / s))
    assert_allclose(
        distribution.log_density(y), inner.log_density(mean + 0.7 / s) - np.log(s)
    )
    assert_allclose(distribution.cdf(distribution.quantile(0.2)), 0.2, atol=1e-6)
    draws, before = (one.sample(3, random_state=0) for one in (distribution, inner))
    assert_allclose(draws - mean[:, None], s * (before - mean[:, None]))
    with pytest.raises(ValueError, match="include_noise=False"):
        distribution.variance(include_noise=False)


def test_distributions_of_counts_are_refused():
    counts = np.random.default_rng(0).poisson(np.exp(F))
    model = PLSRegressor(
        RBF(1.0), likelihood=Poisson(), optimizer=None, n_inducing=8, n_particles=8,
        tol=3.0, random_state=0,
    )  # fmt: skip
    tempered = TemperedRegressor(model, cv=2).fit(X, counts)
    assert np.all(tempered.predict(NEW, return_std=True)[1] > 0.0)
    with pytest.raises(ValueError, match="not possible for counts"):
        tempered.predict_dist(NEW)


def test_rows_that_are_never_left_out_do_not_temper():
    tempered = TemperedRegressor(BOLD, cv=TimeSeriesSplit(3)).fit(X, Y)
    errors = np.empty(0)
    for train, test in TimeSeriesSplit(3).split(X):
        mean, std = clone(BOLD).fit(X[train], Y[train]).predict(X[test], True)
        errors = np.append(errors, (Y[test] - mean) / std)
    assert_allclose(tempered.slope_, fit_scale(errors**2, 1.0 + 0.0 * errors))


def test_frames_with_categories():
    table = pd.DataFrame({"x": X[:, 0], "kind": np.where(X[:, 1] > 0, "a", "b")})
    encode = make_column_transformer(
        (OneHotEncoder(), ["kind"]), ("passthrough", ["x"])
    )
    tempered = TemperedRegressor(make_pipeline(encode, BOLD)).fit(table, Y)
    assert tempered.predict_interval(table[:5]).shape == (5, 2)
    assert_array_equal(tempered.feature_names_in_, ["x", "kind"])
    with pytest.raises(ValueError, match="feature names"):
        tempered.predict(table[["kind", "x"]])


@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_same_bits_for_every_number_of_workers(backend):
    model = GaussianProcessRegressor(RBF() + WhiteKernel(), random_state=0)
    one = TemperedRegressor(model, n_jobs=1).fit(X[:40], Y[:40])
    with joblib.parallel_config(backend=backend, n_jobs=2):
        two = TemperedRegressor(model).fit(X[:40], Y[:40])
    assert one.slope_ == two.slope_
    assert_array_equal(one.predict(NEW), two.predict(NEW))


def test_weights_are_routed_on_request():
    weights = np.arange(N) % 3
    direct = TemperedRegressor(BayesianRidge()).fit(X, Y, sample_weight=weights)
    with sklearn.config_context(enable_metadata_routing=True):
        inner = BayesianRidge().set_fit_request(sample_weight=True)
        routed = TemperedRegressor(inner).fit(X, Y, sample_weight=weights)
        assert_allclose(routed.slope_, direct.slope_, rtol=1e-9)
        pipeline = make_pipeline(
            TemperedRegressor(
                BayesianRidge().set_fit_request(sample_weight=True)
            ).set_fit_request(sample_weight=True)
        ).fit(X, Y, sample_weight=weights)
        assert_allclose(pipeline.predict(NEW), routed.predict(NEW))


@pytest.mark.parametrize("n", [2, 3, 4, 5])
@pytest.mark.parametrize("method", ["factor", "affine"])
@pytest.mark.parametrize("y", [Y, 1e3 * Y, np.zeros(N)], ids=["y", "large", "zero"])
def test_few_rows_do_not_scale(n, method, y):
    tempered = TemperedRegressor(BOLD, method=method).fit(X[:n], y[:n])
    found = tempered.predict(NEW, return_std=True)[1]
    if n < 5:
        expected = clone(BOLD).fit(X[:n], y[:n]).predict(NEW, return_std=True)[1]
        assert_allclose(found, expected)
    assert np.all(np.isfinite(found))


@pytest.mark.parametrize("model", [BayesianRidge(), OURS])
def test_targets_that_are_all_zero(model):
    distribution = TemperedRegressor(model).fit(X, np.zeros(N)).predict_dist(NEW)
    assert np.all(np.isfinite(distribution.log_density(0.0)))


@pytest.mark.parametrize("wrong", [None, "forest", 3])
def test_what_is_no_estimator_is_refused(wrong):
    model = TemperedRegressor(wrong)
    assert "TemperedRegressor" in model._repr_html_()
    with pytest.raises(ValueError, match=rf"expects a regressor.*got {wrong!r}"):
        model.fit([[0.0], [1.0]], [0.0, 1.0])


def test_groups_are_kept_together_without_a_splitter():
    groups = np.arange(N) // 10
    one = TemperedRegressor(BOLD).fit(X, Y, groups=groups)
    other = TemperedRegressor(BOLD, cv=GroupKFold(5)).fit(X, Y, groups=groups)
    assert one.slope_ == other.slope_


def test_dates_and_large_numbers_are_refused():
    x = np.random.default_rng(0).normal(size=(30, 2))
    dates = pd.DataFrame({"a": x[:, 0], "b": pd.date_range("2020", periods=30)})
    spans = dates.assign(b=pd.to_timedelta(np.arange(30), "D"))
    model = TemperedRegressor(BayesianRidge())
    for table in (dates, spans, dates[["b"]].to_numpy(), spans[["b"]].to_numpy()):
        with pytest.raises(ValueError, match="got dates or durations"):
            model.fit(table, x[:, 0])
    large = x.copy()
    large[3, 0] = 1e300
    with pytest.raises(ValueError, match="Change its units"):
        model.fit(large, x[:, 0])
    with pytest.raises(ValueError, match="at most 1e\\+120"):
        model.fit(x, x[:, 0]).predict_interval(large)
