"""Kernels that compete with the series prior, with one input."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, Matern

from skgpx import SpectralVGPRegressor
from skgpx._spectral_vgp._series_choice import FIRST_FUNCTIONS


def truth(x, seed):
    a, b, c = np.random.default_rng(seed).uniform(0.5, 1.5, 3)
    return a * np.sin(b * x + 6.0 * c) + np.exp(-0.5 * (x - 5.0 * c) ** 2) + 0.1 * x


def around_a_gap(seed, n=200):
    """Rows of a smooth function, without a quarter of its range, and rows within."""
    rng = np.random.default_rng(seed)
    low = rng.uniform(2.0, 5.5)
    x = rng.uniform(0.0, 7.5, n)
    x[x > low] += 2.5
    inside = np.linspace(low, low + 2.5, 41)[:, np.newaxis]
    y = truth(x, seed) + 0.1 * rng.standard_normal(n)
    return x[:, np.newaxis], y, inside, truth(inside[:, 0], seed)


def test_intervals_inside_a_gap_cover():
    covered, errors = {"auto": [], "fourier": []}, {"auto": [], "fourier": []}
    for seed in range(10):
        X, y, inside, f = around_a_gap(seed)
        for basis in covered:
            model = SpectralVGPRegressor(basis=basis).fit(X, y)
            assert model.basis_ == "fourier"
            low, high = model.credible_band(inside, 0.95).T
            covered[basis].append(np.mean((low < f) & (f < high)))
            errors[basis].append(np.mean((model.predict(inside) - f) ** 2))
    # the series alone: .68
    assert np.mean(covered["auto"]) > 0.85
    assert np.mean(covered["auto"]) > np.mean(covered["fourier"]) + 0.1
    assert np.mean(errors["auto"]) < 0.25 * np.mean(errors["fourier"])


def test_what_wins_is_the_exact_process_with_its_kernel():
    X, y, inside, _ = around_a_gap(0)
    model = SpectralVGPRegressor().fit(X, y)
    scale, mean = y.std(), y.mean()
    exact = GaussianProcessRegressor(
        model.kernel_, alpha=model.noise_variance_ / scale**2, optimizer=None
    ).fit(X, (y - mean) / scale)
    expected, std = exact.predict(inside, return_std=True)
    found, found_std = model.predict(inside, return_std=True, include_noise=False)
    assert np.max(np.abs(found - mean - scale * expected) / (scale * std)) < 0.05
    assert_allclose(found_std, scale * std, rtol=0.03)


@pytest.mark.parametrize("most", [21, 201])
def test_a_kernel_that_wants_more_functions_gets_them(monkeypatch, most):
    x = np.linspace(0.0, 10.0, 600)[:, np.newaxis]
    y = np.sin(9.0 * x[:, 0] + np.sin(x[:, 0]) * 4.0)
    y += 0.1 * np.random.default_rng(0).standard_normal(600)
    monkeypatch.setitem(FIRST_FUNCTIONS, 1, most)
    model = SpectralVGPRegressor(max_basis=1000).fit(x, y)
    assert model.n_basis_ > 21
    assert np.mean((model.predict(x) - y) ** 2) < 0.02


@pytest.mark.parametrize(
    "parameters",
    [{"basis": "fourier"}, {"domain": (0.0, 10.0)}, {"tau": 1.0}, {"alpha": 1.0},
     {"eigenvalues": "exponential"}, {"ordering": "prior"}, {"n_basis": 101},
     {"extrapolation": "error"}],
    ids=str,
)  # fmt: skip
def test_parameters_of_the_series_keep_it(parameters):
    X, y, *_ = around_a_gap(2)
    assert SpectralVGPRegressor().fit(X, y).kernel_ is not None
    assert SpectralVGPRegressor(**parameters).fit(X, y).kernel_ is None


def test_several_inputs_a_stream_and_noise_keep_the_series():
    X, y, *_ = around_a_gap(3)
    assert SpectralVGPRegressor().partial_fit(X, y).kernel_ is None
    rng = np.random.default_rng(0)
    assert SpectralVGPRegressor().fit(X, rng.standard_normal(len(y))).kernel_ is None
    two = rng.random((2100, 2))
    y = np.sin(6.0 * two[:, 0]) + 0.1 * rng.standard_normal(2100)
    assert SpectralVGPRegressor().fit(two, y).kernel_ is None


def test_cycles_are_not_given_up_for_a_kernel():
    x = np.linspace(0.0, 1.0, 1000)[:, np.newaxis]
    y = np.sin(2.0 * np.pi * 60.0 * x[:, 0])
    y += 0.3 * np.random.default_rng(0).standard_normal(1000)
    model = SpectralVGPRegressor().fit(x, y)
    assert model.kernel_ is None
    assert len(model.cycles_)


def test_rows_are_added_to_the_kernel_that_won():
    X, y, inside, _ = around_a_gap(4, 400)
    whole = SpectralVGPRegressor().fit(X, y)
    model = SpectralVGPRegressor().fit(X[:300], y[:300]).partial_fit(X[300:], y[300:])
    assert isinstance(model.kernel_.k2, RBF | Matern)
    error = np.abs(model.predict(inside) - whole.predict(inside))
    assert np.all(error < 2.0 * whole.predict(inside, return_std=True)[1])
    assert_allclose(model.noise_variance_, whole.noise_variance_, rtol=0.05)


def test_the_pilot_decides_where_there_are_many_rows(monkeypatch):
    from skgpx._spectral_vgp import _series_fit

    monkeypatch.setitem(_series_fit._PILOT_ROWS, 1, 300)
    X, y, *_ = around_a_gap(5, 1000)
    model = SpectralVGPRegressor().fit(X, y)
    assert model.kernel_ is not None
    whole = SpectralVGPRegressor(model.kernel_).fit(X, y)
    assert_allclose(model.log_evidence_, whole.log_evidence_, atol=0.05)
    assert_allclose(model.predict(X), whole.predict(X), atol=1e-3)


def test_units_of_x_and_y_change_nothing():
    X, y, inside, _ = around_a_gap(6)
    one = SpectralVGPRegressor().fit(X, y).predict(inside)
    other = (
        SpectralVGPRegressor().fit(1e3 * X + 5e5, 1e-3 * y).predict(1e3 * inside + 5e5)
    )
    assert_allclose(1e3 * other, one, atol=1e-3)
