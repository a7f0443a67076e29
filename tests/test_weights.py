"""Frequency weights: every regressor takes copies of a row for what they are."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.linear_model import BayesianRidge
from sklearn.utils.validation import has_fit_parameter

from skgpx import (
    DecoupledSampler,
    ExactGPRegressor,
    GWIRegressor,
    PLSRegressor,
    SpectralVGPRegressor,
    SteinRFFRegressor,
    TemperedRegressor,
)

KERNEL = RBF(1.0) + WhiteKernel(0.1)
REGRESSORS = {
    "pls": PLSRegressor(random_state=0),
    "spectral": SpectralVGPRegressor(),
    "stein": SteinRFFRegressor(
        n_components=2, n_frequencies=20, max_iter=20, random_state=0
    ),
    "exact": ExactGPRegressor(random_state=0),
    "gwi": GWIRegressor(BayesianRidge(), hyperparameters="maximise", random_state=0),
    "decoupled": DecoupledSampler(random_state=0),
    "tempered": TemperedRegressor(PLSRegressor(KERNEL, optimizer=None)),
}
# Without sample_weight: repeated rows are all that they can be given.
UNWEIGHTED = {"decoupled"}

N = 120
rng = np.random.default_rng(0)
X = rng.uniform(0.0, 5.0, size=(N, 1))
Y = np.sin(X[:, 0]) + 0.3 * rng.normal(size=N)
NEW = np.linspace(0.5, 4.5, 13)[:, np.newaxis]
TIMES = rng.integers(1, 4, size=N)
ORDER = rng.permutation(np.repeat(np.arange(N), TIMES))


def moments(model):
    return np.array(model.predict(NEW, return_std=True))


# a line does not suit a sine
pytestmark = [
    pytest.mark.filterwarnings("ignore::skgpx.exceptions.FitWarning"),
]


@pytest.mark.parametrize("name", REGRESSORS)
def test_copies_of_rows_are_weights_and_no_noise(name):
    plain = clone(REGRESSORS[name]).fit(X, Y)
    tiled = clone(plain).fit(np.tile(X, (4, 1)), np.tile(Y, 4))
    # copies say more about the function, and nothing of the noise
    mean, std = moments(plain)
    assert_allclose(moments(tiled)[0], mean, atol=0.3 * std.mean())
    assert_allclose(moments(tiled)[1], std, rtol=0.1)
    mixed = clone(plain).fit(X[ORDER], Y[ORDER])
    assert_allclose(moments(mixed)[1], std, rtol=0.15)
    assert has_fit_parameter(plain, "sample_weight") == (name not in UNWEIGHTED)
    if name not in UNWEIGHTED:
        fours = clone(plain).fit(X, Y, sample_weight=np.full(N, 4.0))
        assert_allclose(moments(fours), moments(tiled), rtol=1e-6, atol=1e-9)
        weighted = clone(plain).fit(X, Y, sample_weight=TIMES)
        assert_allclose(moments(weighted), moments(mixed), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", REGRESSORS)
def test_rounded_numbers_have_the_noise_of_the_numbers(name):
    # rows coincide, and are merged to rows of larger weights
    X_few, y_few = np.round(X), np.round(2.0 * Y) / 2.0
    model = clone(REGRESSORS[name]).fit(X_few, y_few)
    std = model.predict(np.unique(X_few, axis=0), return_std=True)[1]
    # rounding adds a variance of 1/48
    spread = [np.var(y_few[X_few[:, 0] == x], ddof=1) for x in range(6)]
    assert abs(np.log(np.mean(std**2) / np.mean(spread))) < 3.0 * np.sqrt(2.0 / N)


# of several targets, and the tolerance of their noise; a mixture has another start
SEVERAL = {
    "pls": (PLSRegressor(random_state=0), 1e-6),
    "spectral": (SpectralVGPRegressor(random_state=0), 1e-6),
    "inducing": (SpectralVGPRegressor(basis="inducing", random_state=0), 1e-6),
    "exact": (ExactGPRegressor(random_state=0), 1e-6),
    "gwi": (GWIRegressor(random_state=0), 0.05),
    "stein": (REGRESSORS["stein"], 0.6),
}


@pytest.mark.parametrize("name", SEVERAL)
def test_copies_of_rows_are_no_noise_of_several_targets(name):
    model, tolerance = SEVERAL[name]
    rng = np.random.default_rng(1)
    # a function that can follow all rows
    rows = rng.uniform(-1.0, 1.0, (N, 4))
    signal = np.sin(2.0 * rows[:, 0]) + rows[:, 1] * rows[:, 2]
    targets = signal[:, np.newaxis] + [0.5, 0.25] * rng.standard_normal((N, 2))
    plain = clone(model).fit(rows, targets)
    tiled = clone(model).fit(np.tile(rows, (4, 1)), np.tile(targets, (4, 1)))
    assert_allclose(tiled.noise_variance_, plain.noise_variance_, rtol=tolerance)
