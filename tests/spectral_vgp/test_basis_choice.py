"""Fourier functions or inducing points, by their bounds on the same rows."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.gaussian_process.kernels import RBF, Matern

from skgpx import SpectralVGPRegressor
from skgpx._spectral_vgp import _basis_choice
from skgpx._spectral_vgp._series_choice import search_series


def truth(X):
    return np.sin(6.0 * X[:, 0]) * np.cos(4.0 * X[:, 1]) + X[:, -1]


def rows(n, d, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.random((n, d))
    return X, truth(X) + 0.1 * rng.standard_normal(n)


def error(model, d):
    X = np.random.default_rng(9).random((500, d))
    return np.sqrt(np.mean((model.predict(X) - truth(X)) ** 2))


@pytest.mark.parametrize("kernel", [None, 1.0 * Matern(1.0, nu=1.5)], ids=str)
@pytest.mark.parametrize(("n", "d"), [(40, 2), (120, 2), (40, 3), (80, 3)])
def test_the_larger_bound_is_taken(n, d, kernel):
    X, y = rows(n, d)
    fits = {
        basis: SpectralVGPRegressor(kernel, basis=basis, random_state=0).fit(X, y)
        for basis in ("auto", "fourier", "inducing")
    }
    best = max(("fourier", "inducing"), key=lambda b: fits[b].log_evidence_)
    auto = fits["auto"]
    if auto.basis_ == best:
        assert_allclose(auto.log_evidence_, fits[best].log_evidence_)
        assert_allclose(auto.predict(X), fits[best].predict(X))
    else:
        # the functions were so close to the exact process that points were not tried
        assert auto.log_evidence_ > fits[best].log_evidence_ - 0.5
    if kernel is None:
        assert auto.basis_ == "inducing"
        assert error(auto, d) < error(fits["fourier"], d)
    assert auto.domain_.shape == (d, 2)
    assert auto.cycles_.shape == (0, d)


@pytest.mark.parametrize("n", [59, 60, 61])
def test_numbers_of_rows_around_few(n, monkeypatch):
    monkeypatch.setattr(_basis_choice, "_FEW_ROWS", 60)
    X, y = rows(n, 2)
    model = SpectralVGPRegressor().fit(X, y)
    assert model.basis_ == ("inducing" if n <= 60 else "fourier")
    assert error(model, 2) < 0.25


def test_what_functions_may_leave_out_before_points_are_tried(monkeypatch):
    X, y = rows(150, 2)
    model = SpectralVGPRegressor(1.0 * RBF(0.5), basis="fourier").fit(X, y)
    choice = search_series(model._state)
    bound, (rule, noise, _) = choice.bound, choice.prior
    left_out = 0.5 * bound.weight * bound.spectrum(rule).tail / noise
    tried, start = [], _basis_choice.start_sparse

    def watched(*arguments):
        tried.append(1)
        return start(*arguments)

    monkeypatch.setattr(_basis_choice, "start_sparse", watched)
    for shift, expected in [(-1e-6, 1), (1e-6, 0)]:
        tried.clear()
        monkeypatch.setattr(_basis_choice, "_TIGHT", left_out * (1.0 + shift))
        SpectralVGPRegressor(1.0 * RBF(0.5)).fit(X, y)
        assert len(tried) == expected


@pytest.mark.parametrize(
    "parameters",
    [{"basis": "fourier"}, {"domain": [(0, 1), (0, 1)]}, {"tau": 1.0},
     {"alpha": 1.0}, {"eigenvalues": "exponential"}, {"ordering": "prior"},
     {"n_basis": 101}, {"extrapolation": "error"}, {"optimizer": None}],
    ids=str,
)  # fmt: skip
def test_parameters_of_functions_keep_them(parameters):
    X, y = rows(40, 2)
    assert SpectralVGPRegressor(**parameters).fit(X, y).basis_ == "fourier"


def test_one_input_and_streams_keep_functions():
    X, y = rows(40, 2)
    assert SpectralVGPRegressor().fit(X[:, :1], y).basis_ == "fourier"
    assert SpectralVGPRegressor().partial_fit(X, y).basis_ == "fourier"


def test_a_fit_that_took_points_goes_on_with_them():
    X, y = rows(120, 2)
    model = SpectralVGPRegressor(random_state=0).fit(X[:60], y[:60])
    assert model.basis_ == "inducing"
    before = error(model, 2)
    model.partial_fit(X[60:], y[60:])
    assert model.basis_ == "inducing"
    assert error(model, 2) < before + 0.02


def test_only_the_fit_that_is_taken_warns():
    rng = np.random.default_rng(0)
    X, y = rng.random((80, 2)), rng.standard_normal(80)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        SpectralVGPRegressor(1.0 * RBF(1.0)).fit(X, y)
    assert len(said) <= 1
