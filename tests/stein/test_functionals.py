"""Fits of learned waves to slopes, and predictions of functionals."""

import pickle

import joblib
import numpy as np
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

from skgpx import SteinRFFRegressor
from skgpx._numerics.wave_evidence import Waves, wave_gradient
from skgpx._shell.validation import Rows
from skgpx._stein._descent import gradient_of_slopes
from skgpx.exceptions import FitWarning
from skgpx.kernels import FunctionalRows
from tests.numerics.conftest import LARGEST_Z, moment_scores

SMALL = {"n_components": 2, "n_frequencies": 30, "max_iter": 60, "random_state": 0}


def f(X, derivative=-1):
    """A function of two columns, and its slopes."""
    a, b = X.T
    value = 5.0 + np.sin(2.0 * a) + a * b
    slopes = (2.0 * np.cos(2.0 * a) + b, a)
    return np.select([np.equal(derivative, 0), np.equal(derivative, 1)], slopes, value)


def runs(rng, n, noise=0.02, noise_of_slopes=0.2):
    """Values and both slopes at n points."""
    X = np.tile(rng.uniform(0.0, 3.0, (n, 2)), (3, 1))
    derivative = np.repeat([-1, 0, 1], n)
    std = np.where(derivative < 0, noise, noise_of_slopes)
    return X, f(X, derivative) + std * rng.standard_normal(3 * n), derivative


def rows_of(X, y, weights, derivative):
    zeros = np.zeros(X.shape)
    seen = FunctionalRows(X, zeros, zeros, derivative, np.zeros(len(X), dtype=bool))
    return Rows(seen.as_array(), y, weights)


@pytest.mark.parametrize("d", [1, 3])
def test_the_gradient_is_that_of_the_evidence(d, rng):
    n, R = 40, 6
    X = rng.standard_normal((n, d))
    y = rng.standard_normal(n)
    weights = rng.uniform(0.5, 2.0, n)
    waves = Waves(rng.standard_normal((R, d)), rng.uniform(0.2, 0.5, R), 0.1)
    rows = rows_of(X, y, weights, np.arange(n) % (d + 1) - 1)
    gradient = gradient_of_slopes(rows, waves)
    # the dense evidence
    derivative = np.arange(n) % (d + 1) - 1
    phases = X @ waves.frequencies.T
    along = waves.frequencies.T[derivative]
    is_value = derivative[:, np.newaxis] < 0
    cosine = np.where(is_value, np.cos(phases), -along * np.sin(phases))
    sine = np.where(is_value, np.sin(phases), along * np.cos(phases))
    Phi = np.hstack((cosine, sine)) * np.tile(waves.amplitudes, 2)
    root = np.sqrt(weights)[:, np.newaxis]
    _, log_det = np.linalg.slogdet(np.eye(2 * R) + (root * Phi).T @ (root * Phi) / 0.1)
    K = Phi @ Phi.T + np.diag(0.1 / weights)
    misfit = y @ np.linalg.solve(K, y)
    log_volume = weights.sum() * np.log(2.0 * np.pi * 0.1)
    assert_allclose(gradient.value, -0.5 * (log_volume + log_det + misfit))
    for place in np.ndindex(R, d):
        step = np.zeros((R, d))
        step[place] = 1e-5
        higher, lower = (
            gradient_of_slopes(rows, waves._replace(frequencies=omega)).value
            for omega in (waves.frequencies + step, waves.frequencies - step)
        )
        slope = (higher - lower) / 2e-5
        assert_allclose(gradient.frequencies[place], slope, rtol=1e-5, atol=1e-5)
    # of values
    values = gradient_of_slopes(rows_of(X, y, weights, np.full(n, -1)), waves)
    plain = wave_gradient(X, y, weights, waves)
    assert_allclose(values.value, plain.value)
    assert_allclose(values.frequencies, plain.frequencies)


def test_the_exact_posterior_of_the_waves(rng):
    """Features of slopes that are written out."""
    X, y, derivative = runs(rng, 20)
    model = SteinRFFRegressor(
        1.0 * RBF([1.0, 1.0]),
        noise_variance=0.01,
        optimizer=None,
        normalize_y=False,
        n_components=1,
        n_frequencies=25,
        max_iter=5,
        random_state=0,
    )
    model.fit(X, y, derivative=derivative)
    (omega,), a = model.frequencies_, model.amplitudes_

    def features(X, derivative):
        phases = X @ omega.T
        along = omega.T[derivative]
        is_value = derivative[:, np.newaxis] < 0
        cosine = np.where(is_value, np.cos(phases), -along * np.sin(phases))
        sine = np.where(is_value, np.sin(phases), along * np.cos(phases))
        return np.hstack((a * cosine, a * sine))

    Phi = features(X, derivative)
    K = Phi @ Phi.T + 0.01 * np.eye(60)
    new = rng.uniform(0.5, 2.5, (6, 2))
    along = np.array([-1, 0, 1, -1, 0, 1])
    phi = features(new, along)
    solved = np.linalg.solve(K, np.column_stack((y, Phi @ phi.T)))
    mean = phi @ Phi.T @ solved[:, 0]
    cov = phi @ phi.T - phi @ Phi.T @ solved[:, 1:]
    found = model.predict(new, return_cov=True, include_noise=False, derivative=along)
    assert_allclose(found[0], mean, atol=1e-6)
    assert_allclose(found[1], cov, atol=1e-6)
    _, log_det = np.linalg.slogdet(2.0 * np.pi * K)
    evidence = -0.5 * (log_det + y @ np.linalg.solve(K, y))
    assert_allclose(model.log_evidence_, evidence)
    draws = model.sample_y(new, 4000, 0, derivative=along)
    scores = moment_scores(draws, mean, cov + 0.01 * np.eye(6))
    assert np.abs(scores).max() < LARGEST_Z


def test_slopes_tell_about_values_and_have_a_noise_of_their_own(rng):
    X, y, derivative = runs(rng, 30)
    model = SteinRFFRegressor(**SMALL).fit(X, y, derivative=derivative)
    few = np.flatnonzero(np.arange(90) % 30 < 12)
    of_few = SteinRFFRegressor(**SMALL)
    of_few.fit(X[few], y[few], derivative=derivative[few])
    alone = SteinRFFRegressor(**SMALL).fit(X[:12], y[:12])
    new = rng.uniform(0.2, 2.8, (300, 2))
    mean, std = model.predict(new, return_std=True, include_noise=False)
    errors = mean - f(new)
    few_errors = of_few.predict(new) - f(new)
    assert np.std(few_errors) < 0.7 * np.std(alone.predict(new) - f(new))
    assert 0.3 < np.sqrt(np.mean((errors / std) ** 2)) < 3.0
    # the relative error of a standard deviation of 30 rows is 0.13
    learned = model.noise_variance_ * np.append(model._noise_of_slopes, 1.0)
    z = np.log(np.sqrt(learned) / [0.2, 0.2, 0.02]) / 0.13
    assert np.abs(z).max() < LARGEST_Z
    for j in range(2):
        slope = model.predict(new, derivative=j)
        assert np.std(slope - f(new, j)) < 0.3
        step = 1e-4 * np.eye(2)[j]
        difference = (model.predict(new + step) - model.predict(new - step)) / 2e-4
        assert_allclose(slope, difference, atol=1e-5)
    # more evidence than of the waves where learning starts
    assert model.loss_curve_[-1] < model.loss_curve_[0]


def test_units_of_y_and_of_a_column(rng):
    X, y, derivative = runs(rng, 20)
    factor = np.where(derivative == 0, 100.0, 1.0)
    level = derivative < 0
    one = SteinRFFRegressor(**SMALL).fit(X, y, derivative=derivative)
    column = np.array([0.01, 1.0])
    two = SteinRFFRegressor(**SMALL).fit(
        X * column, factor * (5.0 * y + 700.0 * level), derivative=derivative
    )
    mean = one.predict(X, include_noise=False)
    assert_allclose((two.predict(X * column) - 700.0) / 5.0, mean, atol=0.05)


def test_functionals_of_fits_to_values(rng):
    X = rng.uniform(0.0, 3.0, (200, 2))
    model = SteinRFFRegressor(**SMALL).fit(X, f(X))
    new = rng.uniform(0.5, 2.5, (10, 2))
    difference = model.predict(new, against=new[::-1])
    assert_allclose(difference, model.predict(new) - model.predict(new[::-1]))
    nodes, masses = np.polynomial.legendre.leggauss(9)
    grid = new[:, np.newaxis] + 0.25 * np.outer(nodes, [1.0, 0.0])
    means = model.predict(grid.reshape(-1, 2)).reshape(10, 9) @ masses / 2.0
    assert_allclose(model.predict(new, widths=[[0.5, 0.0]] * 10), means, atol=1e-7)


def test_the_interface(rng):
    X, y, derivative = runs(rng, 10)
    settings = SMALL | {"max_iter": 5}
    model = SteinRFFRegressor(**settings).fit(X, y, derivative=derivative)
    loaded = pickle.loads(pickle.dumps(model))
    expected = model.predict(X, derivative=derivative)
    assert_array_equal(loaded.predict(X, derivative=derivative), expected)
    assert model.report()
    with sklearn.config_context(enable_metadata_routing=True):
        routed = clone(model).set_fit_request(derivative=True)
        routed.set_predict_request(derivative=True)
        routed.fit(X, y, derivative=derivative)
    assert_array_equal(routed.predict(X, derivative=derivative), expected)
    for add in (
        lambda: model.partial_fit(X, y),
        lambda: model + clone(model).fit(X, y),
        lambda: clone(model).fit(X, y) + model,
    ):
        with pytest.raises(ValueError, match="Fit all rows together"):
            add()
    with pytest.warns(FitWarning, match="All rows are slopes"):
        model.fit(X, y, derivative=0)
    # a fit forgets what the one before it saw
    model.fit(X, y).partial_fit(X[:3], y[:3])


REFUSED = {
    "Matern 1/2": ({"kernel": Matern(nu=0.5)}, "nu=0.5.*no slope"),
    "fixed": ({"kernel": Matern(nu=0.5), "optimizer": None}, "nu=0.5.*no slope"),
    "network": ({"hidden_layer_sizes": (4,)}, "stationary waves.*(4,)"),
    "pairs": ({"non_stationary": True}, "stationary waves.*True"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_fits_that_are_refused(name, rng):
    settings, message = REFUSED[name]
    model = SteinRFFRegressor(**(SMALL | settings))
    X, y, derivative = runs(rng, 10)
    state = joblib.hash(vars(model))
    with pytest.raises(ValueError, match=message):
        model.fit(X, y, derivative=derivative)
    assert joblib.hash(vars(model)) == state


def test_targets_and_kernels(rng):
    X, y, derivative = runs(rng, 20)
    with pytest.raises(ValueError, match="for each target"):
        SteinRFFRegressor().fit(X, np.column_stack((y, y)), derivative=derivative)
    kernel = ConstantKernel() * Matern([1.0, 1.0], nu=1.5)
    model = SteinRFFRegressor(kernel, **SMALL).fit(X, y, derivative=derivative)
    new = rng.uniform(0.2, 2.8, (100, 2))
    assert np.std(model.predict(new) - f(new)) < 0.4
    # a given noise is that of all rows
    given = SteinRFFRegressor(kernel, noise_variance=0.01, **SMALL)
    given.fit(X, y, derivative=derivative)
    assert_allclose(given.noise_variance_, 0.01)
    assert_allclose(given._noise_of_slopes, 1.0)
