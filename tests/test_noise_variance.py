"""No fit learns a noise variance above the variance of y."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF

from skgpx import (
    ExactGPRegressor,
    GWIRegressor,
    PLSRegressor,
    SpectralVGPRegressor,
    SteinRFFRegressor,
)
from skgpx.likelihoods import Gaussian

rng = np.random.default_rng(0)
X = rng.uniform(0.0, 5.0, (120, 2))
Y = np.sin(2.0 * X[:, 0]) + 0.2 * rng.standard_normal(120)
ROWS = np.repeat(np.arange(30), 4)
FEW = np.where(np.arange(120) < 5, 200.0, 1.0)
WILD = np.where(np.arange(120) < 3, [1e3, -1e3, 1e6] + 117 * [0.0], Y)
CASES = {
    "weights": (X, Y, np.full(120, 10.0)),
    "uneven weights": (X, Y, FEW),
    "repeated rows": (X[ROWS], Y[ROWS], np.ones(120)),
    "rounded": (X, np.round(Y), np.ones(120)),
    "wild outliers": (X, WILD, np.ones(120)),
    "one event": (X, (np.arange(120) == 3) * 1.0, np.ones(120)),
}
# One model averages its hyperparameters, and the others have those of a maximum.
CHOSEN = {"hyperparameters": "maximise", "random_state": 0}
KERNEL = 1.0 * RBF()
MODELS = {
    "points": PLSRegressor(random_state=0),
    "few points": PLSRegressor(KERNEL, n_inducing=8, **CHOSEN),
    "functions": SpectralVGPRegressor(n_basis=50),
    "sums": SpectralVGPRegressor(KERNEL, basis="inducing", n_basis=8),
    "waves": SteinRFFRegressor(max_iter=5, n_frequencies=10, random_state=0),
    "exact": ExactGPRegressor(random_state=0),
    "around a mean": GWIRegressor("svgp", KERNEL, **CHOSEN),
}


@pytest.mark.parametrize("name", MODELS)
def test_the_noise_is_at_most_the_variance_of_y(name):
    shares = {}
    for case, (inputs, y, weights) in CASES.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            model = MODELS[name].fit(inputs, y, sample_weight=weights)
        centred = y - np.average(y, weights=weights)
        shares[case] = model.noise_variance_ / np.average(centred**2, weights=weights)
    # rounding, and a few functions beside it; a state of the posterior is larger by
    # chance, with a relative standard deviation of √(2/n)
    is_averaged = len(getattr(model, "hyperparameter_states_", ())) > 0
    largest = 1.01 + is_averaged * 3.0 * np.sqrt(2.0 / len(Y))
    assert all(0.0 < share < largest for share in shares.values()), shares


FIXED = RBF(0.1, "fixed")
BETWEEN_POINTS = {
    "pls": PLSRegressor(FIXED, n_inducing=80, random_state=0),
    "gwi": GWIRegressor("svgp", kernel=FIXED, n_inducing=80, random_state=0),
    "spectral": SpectralVGPRegressor(
        FIXED, basis="inducing", n_basis=80, random_state=0
    ),
}


def between_points(n, n_targets):
    """Functions that 80 points do not follow, and noise of variance .01."""
    rng = np.random.default_rng(0)
    inputs = rng.uniform(size=(n, 2))
    phases = inputs @ rng.normal(scale=10.0, size=(2, 500))
    waves = np.hstack((np.cos(phases), np.sin(phases))) / np.sqrt(500.0)
    y = waves @ rng.standard_normal((1000, n_targets))
    return inputs, np.squeeze(y + 0.1 * rng.standard_normal(y.shape))


@pytest.mark.parametrize("name", BETWEEN_POINTS)
@pytest.mark.parametrize("n_targets", [1, 2])
def test_what_points_leave_out_of_many_rows_counts_once(name, n_targets):
    """Functions between few points have a variance, and are no noise beside it."""
    inputs, y = between_points(4000, n_targets)
    model = BETWEEN_POINTS[name].fit(inputs[:1600], y[:1600])
    mean, std = model.predict(inputs[1600:], return_std=True)
    squares = ((y[1600:] - mean) / std) ** 2
    # .28 of points that count what they leave out twice
    assert 0.6 < np.mean(squares) < 1.2
    assert np.all(model.noise_variance_ > 0.005)
    assert np.all(model.noise_variance_ < 0.02)


@pytest.mark.parametrize("name", BETWEEN_POINTS)
def test_the_noise_between_points_has_no_step(name):
    """Fits that search on all their rows have the noise of those that do not."""
    inputs, y = between_points(1520, 1)
    few, more = (
        clone(BETWEEN_POINTS[name]).fit(inputs[:n], y[:n]).noise_variance_
        for n in (1480, 1520)
    )
    # .08 of a bound that counts what the points leave out
    assert 0.005 < few < 0.02
    assert abs(np.log(more / few)) < 0.1


def test_the_noise_is_that_of_later_rows_where_they_have_more():
    rng = np.random.default_rng(0)
    inputs = rng.uniform(size=(7000, 2))
    f = np.sin(12.0 * inputs[:, 0]) + np.cos(12.0 * inputs[:, 1])
    std = np.where(np.arange(7000) < 1000, 0.1, 0.7)
    y = f + std * rng.standard_normal(7000)
    model = BETWEEN_POINTS["spectral"]
    model = clone(model).partial_fit(inputs[:1000], y[:1000])
    model.partial_fit(inputs[1000:5000], y[1000:5000])
    mean, std = model.predict(inputs[5000:], return_std=True)
    assert 0.7 < np.mean(((y[5000:] - mean) / std) ** 2) < 1.3


@pytest.mark.parametrize("name", ["points", "waves", "around a mean"])
@pytest.mark.parametrize("copies", [1, 4])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_single_row_is_not_known_exactly(name, copies):
    """Its variance is zero, and its noise that of the hyperprior."""
    rows = np.full((copies, 1), 0.5)
    model = MODELS[name].fit(rows, np.full(copies, 7.0))
    assert model.predict(rows[:1], return_std=True)[1] > 0.1


@pytest.mark.parametrize("name", ["points", "functions", "waves", "networks"])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_constant_target_beside_another_is_constant(name):
    model = {**MODELS, "networks": GWIRegressor(random_state=0)}[name]
    targets = np.column_stack((Y, np.full(len(Y), 3.0)))
    mean, std = model.fit(X, targets).predict(X[:5], return_std=True)
    assert np.all(np.isfinite(mean))
    assert np.all(np.isfinite(std))
    np.testing.assert_allclose(mean[:, 1], 3.0, atol=0.01)
    assert np.all(std[:, 1] < 0.01 * std[:, 0])


# A noise ten times the variance of y, which hides the function.
GIVEN = {
    "pls": PLSRegressor(likelihood=Gaussian(5.0), random_state=0),
    "functions": SpectralVGPRegressor(noise_variance=5.0, n_basis=50),
    "waves": SteinRFFRegressor(noise_variance=5.0, max_iter=5, random_state=0),
    "around a mean": GWIRegressor("svgp", noise_variance=5.0, random_state=0),
}


@pytest.mark.parametrize("name", GIVEN)
def test_a_noise_that_is_given_may_underfit_without_a_finding(name):
    line = np.linspace(0.0, 10.0, 150)[:, np.newaxis]
    model = GIVEN[name].fit(line, np.sin(line[:, 0]))
    assert not any("autocorrelated" in f.message for f in model.findings_)
