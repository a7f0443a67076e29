"""Fits on Fourier functions: sums, pilot, search, solution, through `fit`."""

import contextlib
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

from skgpx import SpectralVGPRegressor
from skgpx._spectral_vgp import _series_choice, _series_fit
from skgpx._spectral_vgp._series_choice import search_series


def smooth(n, d=1, seed=0, noise=0.2):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, size=(n, d))
    return X, truth(X) + noise * rng.standard_normal(n)


def truth(X):
    return np.sin(4.0 * X[:, 0]) + 0.5 * np.cos(3.0 * X.sum(axis=1))


def error(model, X):
    return np.sqrt(np.mean((model.predict(X) - truth(X)) ** 2))


# ---- Every number of rows ------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:The data would support")
@pytest.mark.parametrize(
    ("d", "n"),
    [
        *((1, n) for n in (19_999, 20_000, 20_001, 30_000, 30_001, 39_999, 40_000)),
        *((2, n) for n in (2999, 3000, 3001, 4500, 4501, 5999, 6000)),
        *((3, n) for n in (1999, 2000, 2001, 3000, 3001, 3999, 4000)),
    ],
)
def test_numbers_of_rows_around_that_of_the_pilot(d, n):
    X, y = smooth(n, d)
    model = SpectralVGPRegressor(alpha=1.0, max_basis=61, random_state=0).fit(X, y)
    assert error(model, X[:500]) < {1: 0.02, 2: 0.15, 3: 0.35}[d]


@pytest.mark.parametrize(("d", "n"), [(1, 30_001), (2, 4501), (3, 3001)])
def test_kernels_with_a_pilot(d, n):
    X, y = smooth(n, d)
    model = SpectralVGPRegressor(1.0 * RBF(0.5), max_basis=501, random_state=0)
    assert error(model.fit(X, y), X[:500]) < 0.06


@pytest.mark.parametrize("kernel", [None, 1.0 * RBF(0.5)])
@pytest.mark.parametrize("most", [30, 61, 62, 201])
def test_lengthscales_of_many_functions_are_those_of_fewer(kernel, most, monkeypatch):
    X, y = smooth(400)
    whole = SpectralVGPRegressor(kernel).fit(X, y)
    monkeypatch.setattr(_series_choice, "MOST_SEARCHED", most)
    model = SpectralVGPRegressor(kernel).fit(X, y)
    assert_allclose(model.predict(X), whole.predict(X), atol=0.02)
    assert model.log_evidence_ > whole.log_evidence_ - 1.0


@pytest.mark.parametrize("n_basis", [500, 501, 502])
def test_numbers_of_functions_around_those_that_are_searched(n_basis):
    X, y = smooth(600)
    model = SpectralVGPRegressor(1.0 * Matern(0.5, nu=1.5), n_basis=n_basis)
    assert model.fit(X, y).n_basis_ == n_basis
    assert error(model, X) < 0.06


@pytest.mark.parametrize("most", [1, 2, 3, 200, 201, 202])
def test_caps(most):
    X, y = smooth(300)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = SpectralVGPRegressor(1.0 * Matern(0.5, nu=0.5), max_basis=most)
        model.fit(X, y)
    assert model.n_basis_ <= most


# ---- The pilot -----------------------------------------------------------------------


def raster():
    """3000 x 16 points, column by column: every sixteenth row is in one column."""
    rng = np.random.default_rng(0)
    axes = np.arange(3000.0) / 3000.0, np.arange(16.0) / 16.0
    X = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
    f = np.sin(6.0 * X[:, 1]) * np.cos(3.0 * X[:, 0])
    return X, f, f + 0.2 * rng.standard_normal(len(X))


def hours():
    """Hours of 20 000 days, one after the other."""
    rng = np.random.default_rng(0)
    t = np.arange(24.0 * 20_000)[:, np.newaxis] % 24.0
    f = np.sin(2.0 * np.pi * t[:, 0] / 24.0)
    return t, f, f + 0.2 * rng.standard_normal(len(t))


@pytest.mark.filterwarnings("ignore:The data would support")
@pytest.mark.parametrize(
    ("rows", "kernel"),
    [(raster, 1.0 * RBF([1.0, 1.0])), (hours, 1.0 * RBF(3.0))],
    ids=["raster", "hours"],
)
def test_rows_in_order_are_not_aliased(rows, kernel):
    X, f, y = rows()
    model = SpectralVGPRegressor(kernel, max_basis=301, random_state=0)
    model.fit(X, y)
    assert np.sqrt(np.mean((model.predict(X) - f) ** 2)) < 0.05
    assert abs(np.sqrt(model.noise_variance_) - 0.2) < 0.01


def test_the_order_of_rows_and_the_seed(monkeypatch):
    monkeypatch.setattr(_series_fit, "_PILOT_ROWS", {1: 100})
    X, y = smooth(1000)
    model = SpectralVGPRegressor(1.0 * RBF(0.5), random_state=3)
    one = clone(model).fit(X, y)
    assert_array_equal(one.predict(X), clone(model).fit(X, y).predict(X))
    order = np.random.default_rng(1).permutation(1000)
    other = clone(model).fit(X[order], y[order])
    assert_allclose(other.predict(X), one.predict(X), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("distinct", [99, 100, 101, 300])
@pytest.mark.parametrize("kernel", [None, 1.0 * RBF(0.5)])
def test_weights_are_repetitions_with_a_pilot(distinct, kernel, monkeypatch):
    monkeypatch.setattr(_series_fit, "_PILOT_ROWS", {1: 100})
    X, y = smooth(distinct)
    weights = 1 + np.arange(distinct) % 3
    rows = np.repeat(np.arange(distinct), weights)
    model = SpectralVGPRegressor(kernel, max_basis=201, random_state=0)
    weighted = clone(model).fit(X, y, sample_weight=weights)
    repeated = clone(model).fit(X[rows], y[rows])
    assert weighted.n_basis_ == repeated.n_basis_
    assert_allclose(weighted.log_evidence_, repeated.log_evidence_, rtol=1e-6)
    assert_allclose(weighted.predict(X), repeated.predict(X), rtol=1e-3, atol=1e-4)


def test_few_rows_repeated_often():
    X, y = smooth(2500, 2)
    model = SpectralVGPRegressor(1.0 * RBF(0.5), max_basis=301, random_state=0)
    weighted = clone(model).fit(X, y, sample_weight=np.full(2500, 2))
    twice = clone(model).fit(np.repeat(X, 2, axis=0), np.repeat(y, 2))
    assert_allclose(weighted.log_evidence_, twice.log_evidence_, rtol=1e-6)


# ---- One bound -----------------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 3])
@pytest.mark.parametrize("nu", [0.5, 1.5, np.inf])
def test_few_rows_and_long_lengthscales(nu, d):
    """Never less than noise alone, and no noise that runs to nothing."""
    for seed in range(2):
        rng = np.random.default_rng(seed)
        X = rng.uniform(size=(40, d))
        y = np.sin(4.0 * X[:, 0]) + 0.3 * rng.standard_normal(40)
        model = SpectralVGPRegressor(1.0 * Matern(1.0, nu=nu), basis="fourier")
        model.fit(X, y)
        only_noise = -20.0 * (np.log(2.0 * np.pi * np.var(y)) + 1.0)
        assert model.log_evidence_ > only_noise
        assert model.noise_variance_ > 0.02
        assert model.n_basis_ <= 501


CASES = {
    "series": {},
    "odd": {"n_basis": 31},
    "even": {"n_basis": 30},
    "published": {"n_basis": 30, "ordering": "coefficients"},
    "power": {"n_basis": 12, "ordering": "power"},
    "power, auto": {"ordering": "power"},
    "given": {"eigenvalues": 0.9 ** np.arange(60.0), "n_basis": 30},
    "exponential": {"eigenvalues": "exponential"},
    "regularity": {"alpha": "evidence"},
    "rate": {"n_basis": "rate"},
    "kernel": {"kernel": 1.0 * RBF(0.5)},
    "rough": {"kernel": 1.0 * Matern(0.5, nu=0.5)},
    "kernel, odd": {"kernel": 1.0 * Matern(0.5, nu=1.5), "n_basis": 31},
    "kernel, even": {"kernel": 1.0 * Matern(0.5, nu=0.5), "n_basis": 30},
    "kernel, published": {
        "kernel": 1.0 * Matern(0.5, nu=0.5), "n_basis": 30, "ordering": "coefficients",
    },
    "only noise is free": {"kernel": RBF(0.5), "optimizer": None},
    "nothing is free": {
        "kernel": RBF(0.5), "optimizer": None, "noise_variance": 0.05,
    },
    "not standardised": {"normalize_y": False, "kernel": 1.0 * RBF(0.5)},
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.filterwarnings("ignore:The data would support")
def test_the_bound_that_is_searched_is_the_one_that_is_reported(case, d):
    X, y = smooth(300, d)
    model = SpectralVGPRegressor(**CASES[case], basis="fourier", max_basis=400)
    model.fit(X, y)
    state, scale = model._state, model.posterior_.scale
    choice = search_series(state)
    assert choice.bound.size == model.n_basis_
    rule, noise = choice.prior.rule, choice.prior.noise_variance
    assert_allclose(noise * scale**2, model.noise_variance_, rtol=1e-10)
    # at the parameters it returned, and by the objective of the gradient search
    reported = model.log_evidence_ + 300 * np.log(scale)
    assert_allclose(choice.prior.log_evidence, reported, rtol=1e-8, atol=1e-6)
    assert_allclose(choice.bound.at(rule, noise).value, reported, rtol=1e-8, atol=1e-6)


AT_MAXIMUM = ["series", "regularity", "kernel", "kernel, even", "even"]


@pytest.mark.parametrize("case", AT_MAXIMUM)
def test_the_bound_is_at_its_maximum_for_the_functions_chosen(case):
    X, y = smooth(300)
    choice = search_series(SpectralVGPRegressor(**CASES[case]).fit(X, y)._state)
    e = choice.bound.at(choice.prior.rule, choice.prior.noise_variance)
    slopes = np.r_[e.noise, e.parameters]
    if case == "even":
        slopes = slopes[:2]
    assert np.abs(slopes).max() < 0.02


def test_the_bound_is_below_the_evidence_of_the_exact_process():
    X, y = smooth(200)
    for nu in (0.5, 1.5, np.inf):
        kernel = 1.0 * Matern(0.5, nu=nu)
        model = SpectralVGPRegressor(kernel, normalize_y=False).fit(X, y)
        exact = GaussianProcessRegressor(
            model.prior_.kernel, alpha=model.noise_variance_, optimizer=None
        ).fit(X, y)
        gap = exact.log_marginal_likelihood_value_ - model.log_evidence_
        # the periodic process is not quite the same
        assert -0.1 < gap < (20.0 if nu == 0.5 else 0.1)


# ---- Nothing but noise ---------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 3])
@pytest.mark.parametrize(
    "kernel", [None, 1.0 * Matern(1.0, nu=0.5), Matern(0.2, nu=1.5)], ids=str
)
def test_pure_noise(kernel, d):
    rng = np.random.default_rng(1)
    X, y = rng.uniform(size=(200, d)), 3.0 + rng.standard_normal(200)
    y[:100] += np.mean(y[100:]) - np.mean(y[:100])
    # the scale of a series prior may become nothing: noise is among its priors
    said = pytest.warns(UserWarning, match="but noise")
    with said if kernel is not None else contextlib.nullcontext():
        model = SpectralVGPRegressor(kernel, max_basis=301).fit(X, y)
    assert_allclose(model.noise_variance_, np.var(y), rtol=1e-3)
    mean, std = model.predict(X, return_std=True, include_noise=False)
    assert_allclose(mean, y.mean(), atol=0.02)
    # the level is known as well as a mean of 200 rows
    assert_allclose(std, np.std(y) / np.sqrt(200), rtol=0.02)
    only_noise = -100.0 * (np.log(2.0 * np.pi * np.var(y)) + 1.0)
    assert_allclose(model.log_evidence_, only_noise, atol=1e-3)


def test_a_given_prior_stays_where_noise_alone_is_better():
    rng = np.random.default_rng(0)
    X, y = rng.uniform(size=(100, 1)), rng.standard_normal(100)
    kernel = Matern(0.01, nu=0.5)
    with pytest.warns(UserWarning, match="but noise"):
        model = SpectralVGPRegressor(kernel, optimizer=None, n_basis=31).fit(X, y)
    assert model.prior_.kernel == kernel
    SpectralVGPRegressor(
        kernel, optimizer=None, n_basis=31, noise_variance=1.0
    ).fit(X, y)  # fmt: skip


def test_streams_may_begin_with_noise():
    X, y = smooth(2000, noise=1.0)
    model = SpectralVGPRegressor(domain=(-1.0, 1.0))
    for chunk in (slice(0, 4), slice(4, 2000)):
        model.partial_fit(X[chunk], y[chunk])
    assert error(model, X) < 0.2


# ---- Spectrum and width --------------------------------------------------------------


@pytest.mark.parametrize(
    "kernel", [None, 1.3 * RBF(0.3), ConstantKernel(2.0) * Matern(0.3, nu=0.5)]
)
def test_spectrum_is_that_of_the_rule(kernel):
    X, y = smooth(300)
    model = SpectralVGPRegressor(kernel).fit(X, 7.0 * y)
    basis = model.posterior_.basis
    expected = model.prior_.spectrum(basis.functions, basis.box).eigenvalues
    variances = model.spectrum_ / np.var(7.0 * y)
    # the level is free under a series prior whose scale is learned
    assert_allclose(variances[1:], expected[1:], rtol=1e-12)
    assert np.all(np.diff(variances) <= 1e-12)


@pytest.mark.parametrize("n", [300, 1500])
@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5, np.inf])
def test_standard_deviations_are_those_of_the_exact_process(nu, n):
    rng = np.random.default_rng(0)
    X, new = rng.random((n, 1)), rng.random((200, 1))
    y = np.sin(6.0 * X[:, 0]) + 0.2 * rng.standard_normal(n)
    kernel = Matern(0.3, nu=nu)
    model = SpectralVGPRegressor(
        kernel, noise_variance=0.05, optimizer=None, normalize_y=False
    ).fit(X, y)  # fmt: skip
    exact = GaussianProcessRegressor(kernel, alpha=0.05, optimizer=None).fit(X, y)
    std = exact.predict(new, return_std=True)[1]
    found = model.predict(new, return_std=True, include_noise=False)[1]
    assert abs(np.median(found / std) - 1.0) < (0.02 if nu == 0.5 else 0.01)


@pytest.mark.parametrize("optimizer", ["evidence", None])
@pytest.mark.parametrize("size", [201, 501, 1331])
def test_a_kernel_is_given_the_functions_that_it_needs(optimizer, size):
    """Daily cycles of hourly rows: fewer functions than the kernel's see only noise."""
    n = 3 * size
    hours = np.arange(float(n))[:, np.newaxis]
    noise = 0.1 * np.random.default_rng(0).normal(size=n)
    y = np.sin(2.0 * np.pi * hours[:, 0] / 24.0) + noise
    kernel = RBF(5.0) if optimizer is None else 1.0 * RBF(5.0)
    model = SpectralVGPRegressor(kernel, optimizer=optimizer).fit(hours, y)
    assert 0.08 < np.sqrt(model.noise_variance_) < 0.12


def test_few_functions_of_a_given_kernel_are_said_to_see_only_noise():
    hours = np.arange(4000.0)[:, np.newaxis]
    y = np.sin(2.0 * np.pi * hours[:, 0] / 24.0)
    with pytest.warns(UserWarning, match="Nothing but noise"):
        SpectralVGPRegressor(RBF(5.0), optimizer=None, n_basis=101).fit(hours, y)
