"""Domain and box, rows outside of them, and rows that no box could hold."""

import pickle
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    Matern,
)

from skgpx import SpectralVGPRegressor
from skgpx._shell.validation import Rows
from skgpx._spectral_vgp._domain import (
    input_range,
    without_input_outliers,
)
from skgpx.exceptions import FitWarning
from tests.spectral_vgp.conftest import FIXED, wave

X, Y = wave()


def line(*values, d=1):
    """Rows along the first input."""
    rows = np.zeros((len(values), d))
    rows[:, 0] = values
    return rows


def quietly(function, *arguments, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return function(*arguments, **options)


def count_warnings(function, *arguments, **options):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        function(*arguments, **options)
    assert all("domain" in str(w.message) for w in caught)
    return len(caught)


# ---- Rows outside --------------------------------------------------------------------


OUTSIDE = line(-1.4, -1.2, 1.0, 1.2, 1.2, 1.5, 2.3, 40.0, -1e6)


@pytest.mark.parametrize(
    "parameters",
    [
        {"domain": (-1.0, 1.0)},
        {"kernel": "series", "domain": (-1.0, 1.0)},
        {"kernel": ConstantKernel(2.0) + Matern(0.3, nu=1.5), "n_basis": 15},
    ],
    ids=str,
)
def test_answers_outside_agree_with_each_other(parameters):
    model = SpectralVGPRegressor(**parameters).fit(X, Y)
    mean, std = quietly(model.predict, OUTSIDE, return_std=True, include_noise=False)
    again, covariance = quietly(
        model.predict, OUTSIDE, return_cov=True, include_noise=False
    )
    assert_allclose(again, mean, atol=1e-12)
    assert_allclose(np.sqrt(np.diagonal(covariance)), std, rtol=1e-7)
    assert np.linalg.eigvalsh(covariance).min() > -1e-9 * covariance.max()
    size = 1000
    values = model.sample_functions(size, random_state=0)(OUTSIDE)
    z = (values.mean(axis=1) - mean) / std * np.sqrt(size)
    assert np.abs(z).max() < 4.5
    found = np.cov(values)
    error = np.sqrt((np.outer(std, std) ** 2 + covariance**2) / size)
    assert np.abs((found - covariance) / error).max() < 4.5
    y = quietly(model.sample_y, OUTSIDE, size, random_state=1)
    variance = std**2 + model.noise_variance_
    z = (y.mean(axis=1) - mean) / np.sqrt(variance / size)
    assert np.abs(z).max() < 4.5
    assert np.abs(y.var(axis=1) / variance - 1.0).max() < 4.5 * np.sqrt(2.0 / size)
    low, high = quietly(model.credible_band, OUTSIDE, 0.95).T
    assert_allclose(high - low, 2.0 * 1.959964 * std, rtol=1e-6)
    # a row does not depend on the others
    for i in range(len(OUTSIDE)):
        alone = quietly(model.predict, OUTSIDE[i : i + 1], include_noise=False)
        assert_allclose(alone[0], mean[i], rtol=1e-12, atol=1e-12)
    copied = pickle.loads(pickle.dumps(model))
    assert_array_equal(
        quietly(copied.predict, OUTSIDE), quietly(model.predict, OUTSIDE)
    )


@pytest.mark.parametrize("kernel", ["series", RBF(0.4), Matern(0.4, nu=0.5)])
@pytest.mark.parametrize("d", [1, 2])
def test_continuous_at_the_edge_and_the_prior_far_away(kernel, d):
    inputs, y = wave(300, d)
    y = 5.0 + 3.0 * y
    model = SpectralVGPRegressor(
        kernel, domain=[(-1.0, 1.0)] * d, optimizer=None, n_basis=51
    ).fit(inputs, y)
    edge = model.posterior_.basis.continuation.region[0, 1]
    near = line(edge - 1e-9, edge + 1e-9, d=d)
    for values in quietly(model.predict, near, return_std=True):
        assert_allclose(values[0], values[1], rtol=1e-4)
    mean, std = quietly(
        model.predict, line(1e3, -1e9, d=d), return_std=True, include_noise=False
    )
    assert_allclose(mean, np.mean(y), rtol=1e-9)
    basis = model.posterior_.basis
    prior = basis.variance if kernel == "series" else kernel.diag(inputs[:1])[0]
    assert_allclose(std, np.std(y) * np.sqrt(prior), rtol=1e-9)
    # never less certain than the prior on the way, that of the box included
    way = line(*np.linspace(1.0, 3.0, 50), d=d)
    _, std = quietly(model.predict, way, return_std=True, include_noise=False)
    most = np.std(y) * np.sqrt(max(prior, basis.variance))
    assert np.all(std <= most * (1.0 + 1e-9))


def test_warnings_of_fit_are_about_the_line_of_the_caller():
    noise = np.random.default_rng(0).normal(size=len(X))
    wild = np.where(np.arange(len(X))[:, np.newaxis] == 3, 1e4, X)
    for check, model, data in (
        ("input outliers", SpectralVGPRegressor(n_basis=11), (wild, Y)),
        ("no signal", SpectralVGPRegressor(RBF(0.3)), (X, noise)),
    ):
        with pytest.warns(FitWarning, match="rows|signal") as caught:
            model.fit(*data)
        assert [w.filename for w in caught] == [__file__]
        assert [finding.check for finding in model.findings_] == [check]
    assert SpectralVGPRegressor().fit(X, Y).findings_ == ()


def test_one_warning_for_each_call():
    model = SpectralVGPRegressor("series").fit(X, Y)
    far = np.tile(line(0.0, 5.0), (20_000, 1))
    assert count_warnings(model.predict, far) == 1
    for method in (
        lambda: model.predict(far[:4], return_std=True),
        lambda: model.predict(far[:4], return_cov=True),
        lambda: model.predict_interval(far[:4]),
        lambda: model.sample_y(far[:4]),
        lambda: model.credible_band(far[:4]),
        lambda: model.credible_ball(X=far[:4]),
        lambda: model.log_predictive_density(far[:4], np.zeros(4)),
    ):
        assert count_warnings(method) == 1
    # among the data and at their edges there is none
    low, high = model.domain_[0]
    assert count_warnings(model.predict, line(low, 0.0, high)) == 0
    assert count_warnings(model.sample_functions(1, random_state=0), far[:4]) == 0
    with pytest.warns(UserWarning, match=r"20000 of 40000 rows.*`domain`") as caught:
        model.predict(far)
    assert [w.filename for w in caught] == [__file__]


@pytest.mark.parametrize("given", [True, False])
@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize(
    ("kernel", "in_mean", "in_std"),
    [
        (RBF(0.3), 0.05, 0.02),
        (RBF(2.0), 0.05, 0.02),
        (ConstantKernel(2.0) + RBF(0.5), 0.05, 0.02),
        (Matern(0.5, nu=2.5), 0.3, 0.08),
    ],
    ids=str,
)
def test_a_kernel_extrapolates_as_it_does(kernel, in_mean, in_std, d, given):
    inputs, y = wave(200, d)
    domain = [(-1.0, 1.0)] * d if given else None
    model = SpectralVGPRegressor(kernel, n_basis=601, domain=domain, **FIXED)
    model.fit(inputs, y)
    # warnings are errors
    new = line(*np.linspace(-12.0, 12.0, 121), d=d)
    found, found_std = model.predict(new, return_std=True, include_noise=False)
    exact = GaussianProcessRegressor(kernel, alpha=0.04, optimizer=None)
    mean, std = exact.fit(inputs, y).predict(new, return_std=True)
    assert np.max(np.abs(found - mean) / std) < in_mean
    assert np.max(np.abs(found_std / std - 1.0)) < in_std


# ---- Wild rows -----------------------------------------------------------------------


def sine(kind, seed):
    rng = np.random.default_rng(seed)
    if kind == "one":
        inputs = np.append(rng.uniform(0.0, 10.0, 500), 1e4)[:, np.newaxis]
    else:
        inputs = rng.standard_cauchy((2000, 1))
    f = np.sin(inputs[:, 0])
    return inputs, f, f + 0.1 * rng.normal(size=len(f)), np.abs(inputs[:, 0]) < 10.0


@pytest.mark.parametrize("kernel", [None, 1.0 * RBF(1.0)])
@pytest.mark.parametrize("kind", ["one", "Cauchy"])
@pytest.mark.parametrize("seed", [0, 1])
def test_wild_inputs_do_not_spoil_the_fit_of_the_others(kernel, kind, seed):
    inputs, f, y, bulk = sine(kind, seed)
    alone = SpectralVGPRegressor(kernel).fit(inputs[bulk], y[bulk])
    with pytest.warns(UserWarning, match=r"rows were left out.*domain.*inducing"):
        model = SpectralVGPRegressor(kernel).fit(inputs, y)
    found, best = (
        np.sqrt(np.mean((m.predict(inputs[bulk]) - f[bulk]) ** 2))
        for m in (model, alone)
    )
    # rows up to a bulk's width on either side stay: three times the range of the bulk
    assert found < 1.25 * best
    with pytest.warns(UserWarning, match="left out"):
        SpectralVGPRegressor(kernel).partial_fit(inputs, y)


@pytest.mark.parametrize(
    "draw",
    [
        lambda rng, size: rng.normal(size=size),
        lambda rng, size: rng.exponential(size=size),
        lambda rng, size: rng.laplace(size=size),
        lambda rng, size: rng.uniform(size=size) < 0.01,
        lambda rng, size: np.where(rng.uniform(size=size) < 0.9, 0.0, 50.0),
        lambda rng, size: np.zeros(size),
    ],
)
@pytest.mark.parametrize("d", [1, 2, 3])
def test_ordinary_inputs_are_all_kept(draw, d):
    inputs = np.asarray(draw(np.random.default_rng(0), (5000, d)), dtype=np.float64)
    rows = Rows(inputs, np.zeros(5000), np.ones(5000))
    assert without_input_outliers(rows) == (rows, None)


@pytest.mark.filterwarnings("ignore:Residuals are autocorrelated")
def test_a_given_domain_keeps_wild_rows_or_refuses_them():
    inputs, _, y, _ = sine("one", 0)
    model = SpectralVGPRegressor(domain=(0.0, 2e4), n_basis=21).fit(inputs, y)
    assert model.domain_[0, 1] == 2e4
    with pytest.raises(ValueError, match="domain"):
        model.partial_fit([[-1.0]], [0.0])
    with pytest.raises(ValueError, match="domain"):
        SpectralVGPRegressor(domain=(0.0, 10.0)).fit(inputs, y)
    kept = SpectralVGPRegressor(
        RBF(1.0), basis="inducing", n_basis=9, optimizer=None, random_state=0
    )
    assert_array_equal(kept.fit(inputs, y).domain_, input_range(inputs))


# ---- Trends --------------------------------------------------------------------------


def test_a_trend_with_a_season_is_continued():
    rng = np.random.default_rng(0)
    year = np.arange(400) / 12.0
    y = 0.8 * year + 0.02 * year**2 + 3.0 * np.sin(2.0 * np.pi * year)
    y += 0.3 * rng.standard_normal(400)
    t = year[:, np.newaxis]
    model = SpectralVGPRegressor().fit(t[:-48], y[:-48])
    # the wave of the trend is no cycle
    assert np.all(np.abs(model.cycles_ - 1.0) < 0.1)
    mean, std = model.predict(t[-48:], return_std=True)
    assert np.sqrt(np.mean((mean - y[-48:]) ** 2)) < 0.7
    assert np.mean(np.abs(mean - y[-48:]) < 2.0 * std) > 0.8


def test_kernels_that_reach_too_far_warn():
    model = SpectralVGPRegressor(1.0 * RBF(500.0), **FIXED).fit(X, Y)
    assert count_warnings(model.predict, line(200.0)) == 1
    mean, std = quietly(model.predict, line(200.0), return_std=True)
    assert np.all(np.isfinite([mean, std]))
    # so far that nothing is left of the correlation: the prior, without a warning
    assert count_warnings(model.predict, line(1e12)) == 0


def test_merged_models_extrapolate_like_one_of_all_rows():
    model = SpectralVGPRegressor(RBF(0.3), domain=(-1.0, 1.0), **FIXED)
    both = clone(model).partial_fit(X[:100], Y[:100])
    both = both + clone(model).partial_fit(X[100:], Y[100:])
    new = line(-1.5, 1.2, 3.0)
    assert_allclose(both.predict(new), model.fit(X, Y).predict(new), atol=1e-9)


def test_seasons_are_continued_on_inducing_points():
    rng = np.random.default_rng(0)
    year = np.arange(400) / 12.0
    y = 0.8 * year + 3.0 * np.sin(2.0 * np.pi * year)
    y += 0.3 * rng.standard_normal(400)
    t = year[:, np.newaxis]
    model, points, waves = (
        SpectralVGPRegressor(basis=basis, random_state=0).fit(t[:-120], y[:-120])
        for basis in ("auto", "inducing", "fourier")
    )
    assert (model.basis_, waves.basis_) == ("inducing", "fourier")
    assert_allclose(model.cycles_, 1.0, rtol=1e-3)
    assert_allclose(model.predict(t), points.predict(t))
    low, high = model.predict_interval(t[-120:], 0.9).T
    assert np.mean((low <= y[-120:]) & (y[-120:] <= high)) > 0.8
    errors = [np.mean((m.predict(t) - y)[-120:] ** 2) for m in (model, waves)]
    assert errors[0] < errors[1]
