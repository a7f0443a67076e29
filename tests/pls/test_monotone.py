"""Monotone functions of PLSRegressor and PLSClassifier."""

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

from skgpx import PLSClassifier, PLSRegressor
from skgpx._pls._monotone import shortest_step
from skgpx.likelihoods import Gaussian, Poisson, Tobit

RBF_ONLY = ConstantKernel() * RBF()


def _dose_response(n, seed=0, noise=0.3):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.0, 3.0, (n, 1))
    truth = 3.0 * X[:, 0] ** 3 / (1.0 + X[:, 0] ** 3)
    return X, truth + noise * rng.standard_normal(n)


def test_the_shortest_step_is_that_of_a_quadratic_program():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((12, 5))
    b = 0.1 - A @ rng.standard_normal(5)
    step = shortest_step(A, b)
    program = minimize(
        lambda u: 0.5 * u @ u,
        np.ones(5),
        jac=lambda u: u,
        constraints={"type": "ineq", "fun": lambda u: A @ u + b, "jac": lambda _: A},
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert np.all(A @ step + b > -1e-9)
    np.testing.assert_allclose(step, program.x, atol=1e-6)


@pytest.mark.parametrize("sign", [1, -1])
def test_means_and_draws_are_monotone(sign):
    X, y = _dose_response(30)
    model = PLSRegressor(monotonic_cst=[sign], random_state=0).fit(X, sign * y)
    grid = np.linspace(X.min(), X.max(), 200)[:, np.newaxis]
    mean = sign * model.predict(grid)
    draws = sign * model.sample_functions(100, random_state=0)(grid)
    assert np.all(np.diff(mean) > -1e-9)
    # what inducing variables leave out is rough on the scale of a thousandth
    falls = np.diff(draws, axis=0) < -1e-3 * np.ptp(y)
    assert np.mean(np.any(falls, axis=0)) <= 0.01


def test_draws_of_a_smooth_kernel_are_monotone_to_rounding():
    X, y = _dose_response(30)
    model = PLSRegressor(RBF_ONLY, monotonic_cst=[1], random_state=0).fit(X, y)
    grid = np.linspace(X.min(), X.max(), 200)[:, np.newaxis]
    draws = model.sample_functions(200, random_state=0)(grid)
    falls = np.diff(draws, axis=0) < -1e-4 * np.ptp(y)
    assert np.mean(np.any(falls, axis=0)) <= 0.01
    assert not model.findings_


def test_data_that_are_monotone_leave_the_posterior_as_it_is():
    X = np.linspace(0.0, 3.0, 40)[:, np.newaxis]
    y = 2.0 * X[:, 0] + 0.01 * np.sin(7.0 * X[:, 0])
    kernel = 1.0 * RBF(2.0)
    settings = {"kernel": kernel, "optimizer": None, "random_state": 0}
    free = PLSRegressor(**settings).fit(X, y)
    monotone = PLSRegressor(**settings, monotonic_cst=[1], n_particles=400).fit(X, y)
    mean, std = free.predict(X, return_std=True, include_noise=False)
    same_mean, same_std = monotone.predict(X, return_std=True, include_noise=False)
    np.testing.assert_allclose(same_mean, mean, atol=0.05 * std.max())
    # a standard error of √(2 / 400) / 2, four times
    np.testing.assert_allclose(same_std, std, rtol=0.15)


def test_constraints_gain_where_noise_hides_the_shape():
    errors = []
    densities = []
    for seed in range(4):
        X, y = _dose_response(40, seed)
        X_new, _ = _dose_response(300, 100 + seed)
        truth = 3.0 * X_new[:, 0] ** 3 / (1.0 + X_new[:, 0] ** 3)
        y_new = truth + 0.3 * np.random.default_rng(seed).standard_normal(300)
        for cst in (None, [1]):
            model = PLSRegressor(RBF_ONLY, monotonic_cst=cst, random_state=0)
            model.fit(X, y)
            errors.append(np.mean((model.predict(X_new) - truth) ** 2))
            densities.append(model.log_predictive_density(X_new, y_new).mean())
    free, monotone = np.reshape(errors, (-1, 2)).mean(0)
    assert monotone < free
    free, monotone = np.reshape(densities, (-1, 2)).mean(0)
    assert monotone > free


def test_counts_and_classes():
    rng = np.random.default_rng(0)
    x = rng.uniform(-2.0, 2.0, 80)
    X = x[:, np.newaxis]
    grid = np.linspace(-2.0, 2.0, 100)[:, np.newaxis]
    counts = rng.poisson(np.exp(0.5 + np.tanh(x)))
    given = {"kernel": RBF_ONLY, "random_state": 0}
    model = PLSRegressor(likelihood=Poisson(), monotonic_cst=[1], **given)
    assert np.all(np.diff(model.fit(X, counts).predict(grid)) > 0.0)
    labels = rng.random(80) < 1.0 / (1.0 + np.exp(3.0 * x))
    classifier = PLSClassifier(monotonic_cst=[-1], **given).fit(X, labels)
    assert np.all(np.diff(classifier.predict_proba(grid)[:, 1]) < 0.0)


def test_two_columns_by_name():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.uniform(-1.0, 1.0, (60, 2)), columns=["dose", "age"])
    y = np.exp(table["dose"]) - table["age"] ** 2 + 0.2 * rng.standard_normal(60)
    model = PLSRegressor(
        1.0 * RBF([1.0, 1.0]),
        optimizer=None,
        monotonic_cst={"dose": -1},
        random_state=0,
    )
    model.fit(table, y)
    line = pd.DataFrame({"dose": np.linspace(-1.0, 1.0, 50), "age": 0.2})
    # against the data, which rise by 0.005 and more from row to row
    assert np.all(np.diff(model.predict(line)) < 1e-3)
    again = clone(model).fit(table[::-1], y[::-1])
    np.testing.assert_array_equal(model.predict(line), again.predict(line))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"monotonic_cst": [1, 1]}, "for each of 1 columns"),
        ({"monotonic_cst": [2]}, "monotonic_cst expects 1"),
        ({"monotonic_cst": {"dose": 1}}, "are not among those"),
        ({"monotonic_cst": [1], "n_neighbors": 10}, "no nearest rows"),
        ({"monotonic_cst": [1], "kernel": Matern(nu=0.5)}, "Matern"),
    ],
)
def test_refused(settings, message):
    X, y = _dose_response(20)
    with pytest.raises(ValueError, match=message):
        PLSRegressor(**settings).fit(X, y)


def test_several_functions_are_refused():
    X, y = _dose_response(30)
    with pytest.raises(ValueError, match="one latent function"):
        PLSRegressor(monotonic_cst=[1]).fit(X, np.column_stack((y, y)))
    with pytest.raises(ValueError, match="one latent function"):
        PLSClassifier(monotonic_cst=[1]).fit(X, np.digitize(y, (1.0, 2.0)))


def test_zeros_and_censored_rows():
    X, y = _dose_response(40)
    plain = PLSRegressor(random_state=0).fit(X, y)
    zeros = PLSRegressor(monotonic_cst=[0], random_state=0).fit(X, y)
    np.testing.assert_array_equal(plain.predict(X), zeros.predict(X))
    model = PLSRegressor(
        RBF_ONLY, likelihood=Tobit(), monotonic_cst=[1], random_state=0
    )
    model.fit(X, np.minimum(y, 2.0), censoring=(y > 2.0).astype(int))
    grid = np.linspace(X.min(), X.max(), 100)[:, np.newaxis]
    assert np.all(np.diff(model.predict(grid, include_noise=False)) > -1e-6)


def test_a_column_that_the_kernel_hardly_sees_costs_nothing():
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 1.0, (80, 2))
    y = np.sin(6.0 * X[:, 0]) + 0.01 * rng.standard_normal(80)
    settings = {"optimizer": None, "likelihood": Gaussian(1e-4), "random_state": 0}
    model = PLSRegressor(RBF([0.4, 1e5]), monotonic_cst=[0, 1], **settings).fit(X, y)
    assert np.sqrt(np.mean((model.predict(X) - np.sin(6.0 * X[:, 0])) ** 2)) < 0.01


def test_a_given_noise_stays_given():
    X, y = _dose_response(30)
    settings = {"kernel": 1.0 * RBF(0.3), "optimizer": None}
    noises = {}
    for monotonic_cst in (None, [1]):
        for noise in (None, 0.01):
            model = PLSRegressor(
                likelihood=Gaussian(noise), monotonic_cst=monotonic_cst, **settings
            )
            noises[noise, bool(monotonic_cst)] = model.fit(X, y).noise_variance_
    assert noises[0.01, True] == noises[0.01, False]
    # what is rough in the rows is noise to monotone functions
    assert noises[None, True] >= noises[None, False]
