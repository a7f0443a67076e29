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
from skgpx._hyperparameters import FEWEST_ROWS

ESTIMATORS = {
    "pls": PLSRegressor(random_state=0),
    "spectral": SpectralVGPRegressor(random_state=0),
    "stein": SteinRFFRegressor(random_state=0),
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
