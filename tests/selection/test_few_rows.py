"""Rows that are too few to learn from: nothing is learned, and it is told."""

import warnings

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.linear_model import LinearRegression

from skgpx import (
    DecoupledSampler,
    GWIRegressor,
    PLSRegressor,
    SpectralVGPRegressor,
    SteinRFFRegressor,
)
from skgpx._selection import FEWEST_ROWS

ESTIMATORS = {
    "pls": PLSRegressor(random_state=0),
    "spectral": SpectralVGPRegressor(random_state=0),
    "stein": SteinRFFRegressor(
        n_components=2, n_frequencies=20, max_iter=20, random_state=0
    ),
    "gwi": GWIRegressor(random_state=0),
    "around": GWIRegressor(LinearRegression(), random_state=0),
    "decoupled": DecoupledSampler(random_state=0),
}
rng = np.random.default_rng(0)
X, Y = rng.normal(size=(6, 2)), 3.0 + rng.normal(size=6)


@pytest.mark.parametrize("n", range(1, FEWEST_ROWS + 2))
@pytest.mark.parametrize("name", ESTIMATORS)
def test_it_is_told_once_below_the_fewest(name, n):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = ESTIMATORS[name].fit(X[:n], Y[:n])
    told = [w for w in caught if "Too few distinct rows" in str(w.message)]
    assert len(told) == (1 if n < FEWEST_ROWS else 0)
    assert np.all(np.isfinite(model.predict(X[:n], return_std=True)))


@pytest.mark.parametrize("name", ["pls", "spectral", "stein", "gwi"])
@pytest.mark.parametrize("n_features", [1, 2])
@pytest.mark.filterwarnings("ignore:Too few")
def test_one_row_leaves_the_prior_far_away(name, n_features):
    model = ESTIMATORS[name].fit(X[:1, :n_features], Y[:1])
    far = X[:1, :n_features] + 1e3
    mean, std = model.predict(far, return_std=True)
    # one, as for a constant y; networks of a single row are a constant
    assert abs(mean[0] - Y[0]) < 0.2
    assert 0.8 < std[0] < 1.3


def test_what_is_given_is_kept_without_a_word():
    kernel = ConstantKernel(2.0, "fixed") * RBF(0.7, "fixed")
    model = SpectralVGPRegressor(kernel, basis="inducing", noise_variance=0.01)
    model.fit(X[:2], Y[:2])
    assert model.kernel_ == kernel


@pytest.mark.parametrize("name", ["pls", "spectral", "stein", "gwi"])
@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.filterwarnings("ignore:Too few")
def test_noise_stays_as_it_starts(name, n):
    y = np.array([1.0, -1.0, 4.0])[:n]
    model = ESTIMATORS[name].fit(X[:n], y)
    spread = np.var(y) if n > 1 else 1.0
    assert np.isclose(model.likelihood_.variance(0.0), 0.1 * spread, rtol=1e-6)


@pytest.mark.filterwarnings("ignore:Too few")
@pytest.mark.parametrize("n", range(1, FEWEST_ROWS + 2))
def test_weights_are_repetitions(n):
    one, other = SpectralVGPRegressor(), SpectralVGPRegressor()
    one.fit(X[:n, :1], Y[:n], sample_weight=np.full(n, 5.0))
    other.fit(np.repeat(X[:n, :1], 5, axis=0), np.repeat(Y[:n], 5))
    assert one.basis_ == other.basis_
    for a, b in zip(
        one.predict(X[:n, :1], return_std=True),
        other.predict(X[:n, :1], return_std=True),
        strict=True,
    ):
        np.testing.assert_allclose(a, b, rtol=1e-7)


@pytest.mark.filterwarnings("ignore:Too few")
def test_a_warm_start_from_many_rows_keeps_its_kernel():
    rng = np.random.default_rng(1)
    many = rng.uniform(0.0, 3.0, size=(60, 1))
    model = PLSRegressor(warm_start=True, random_state=0)
    model.fit(many, np.sin(2.0 * many[:, 0]) + 0.1 * rng.standard_normal(60))
    kernel = model.kernel_
    model.fit(many[:1], [1.0])
    assert model.kernel_ == kernel
    assert model.noise_variance_ > 0.05


@pytest.mark.filterwarnings("ignore:Too few")
def test_noise_is_found_once_there_are_rows():
    fresh = np.random.default_rng(2)
    X_all = fresh.uniform(0.0, 3.0, size=(300, 2))
    y_all = X_all[:, 0] + 0.3 * fresh.standard_normal(300)
    model = SpectralVGPRegressor(basis="inducing", normalize_y=False)
    model.partial_fit(X_all[:2], y_all[:2])
    assert np.isclose(model.noise_variance_, 0.1)
    model.partial_fit(X_all[2:], y_all[2:])
    assert not np.isclose(model.noise_variance_, 0.1)
