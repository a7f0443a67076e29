"""The model of a Markov process, against dense formulas."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import multivariate_normal
from sklearn.gaussian_process.kernels import Matern

from skgpx._latent import Cycles, MarkovModel, MixtureModel
from skgpx._numerics.markov_regression import MaternProcess

RNG = np.random.default_rng(0)
KNOTS = np.sort(RNG.uniform(0.0, 3.0, 12))
VALUES = RNG.standard_normal(12)
X = RNG.uniform(-1.0, 4.0, (9, 1))
FUNCTIONS = {
    "none": None,
    "level": Cycles(np.empty(0)),
    "waves": Cycles(np.array([0.5, 1.3])),
}
each = pytest.mark.parametrize("functions", FUNCTIONS.values(), ids=FUNCTIONS)


def model(functions, knots=KNOTS, values=VALUES, noise=0.1):
    prior, precision = MaternProcess(1.5, 0.8, 0.4), np.full(len(knots), 1.0 / noise)
    return MarkovModel(prior, knots, precision, values, functions).affine(2.0, 3.0)


def dense(functions, X, knots=KNOTS, values=VALUES, noise=0.1):
    Z = knots[:, np.newaxis]

    def k(A, B):
        K = 0.8 * Matern(0.4, nu=1.5)(A, B)
        return K if functions is None else K + functions(A) @ functions(B).T

    K, cross = k(Z, Z) + noise * np.eye(len(Z)), k(X, Z)
    mean = 2.0 + 3.0 * cross @ np.linalg.solve(K, values)
    return mean, 9.0 * (k(X, X) - cross @ np.linalg.solve(K, cross.T))


@each
def test_marginals_and_covariances(functions):
    f = model(functions)
    mean, covariance = dense(functions, X)
    mixture = f.marginals(X)
    assert_allclose(mixture.moments()[0][:, 0], mean)
    assert_allclose(mixture.moments()[1][:, 0], np.diagonal(covariance))
    assert_allclose(f.covariance(X), covariance, atol=1e-11)
    assert_allclose(f.process().covariance(X), covariance, atol=1e-11)
    assert f.n_outputs == 1
    assert f.floats_per_row > 0
    sizes = 0 if functions is None else functions(X).shape[1]
    assert f.n_basis == 2 * len(KNOTS) + sizes


@each
def test_a_row_does_not_depend_on_the_others(functions):
    f = model(functions)
    one = f.marginals(X[3:4]).moments()
    assert_array_equal(np.array(one)[:, 0], np.array(f.marginals(X).moments())[:, 3])


@each
def test_conditioning_is_a_fit_to_both(functions):
    new, y = np.array([[0.7], [KNOTS[2]], [3.5]]), np.array([[1.0], [0.0], [4.0]])
    noise = np.array([0.5, 0.9, 0.3])
    f = model(functions)
    mean, covariance = dense(functions, np.concatenate((X, new)))
    K = covariance[9:, 9:] + np.diag(noise)
    gain = np.linalg.solve(K, covariance[9:, :9]).T
    after = f.condition(new, y, noise)
    assert len(after.knots) == len(KNOTS) + 2
    expected = mean[:9] + gain @ (y[:, 0] - mean[9:])
    assert_allclose(after.marginals(X).moments()[0][:, 0], expected)
    assert_allclose(
        after.covariance(X), covariance[:9, :9] - gain @ covariance[9:, :9], atol=1e-10
    )
    density = multivariate_normal(mean[9:], K).logpdf(y[:, 0])
    assert f.log_density(new, y, noise) == pytest.approx(density)
    # an exact value
    exact = f.condition(new[:1], y[:1], np.zeros(1)).marginals(new[:1])
    assert exact.moments()[0][0, 0] == pytest.approx(1.0, abs=1e-6)


@each
def test_draws_have_the_law_and_are_functions(functions):
    f, s = model(functions), 20_000
    mean, covariance = dense(functions, X)
    draws = f.draw(s, np.random.default_rng(1))
    values = draws(X)
    spread = np.sqrt(np.diagonal(covariance))
    assert np.all(np.abs(values.mean(axis=1) - mean) < 4.5 * spread / np.sqrt(s))
    error = np.sqrt((covariance**2 + np.outer(spread, spread) ** 2) / s)
    off = values - mean[:, np.newaxis]
    assert np.all(np.abs(off @ off.T / s - covariance) < 4.5 * error)
    few = draws[:2]
    slopes = few.value_and_grad(X)[1][:, :, 0]
    assert_allclose(slopes, (few(X + 1e-7) - few(X - 1e-7)) / 2e-7, atol=0.2)
    assert_array_equal(few(X), values[:, :2])


@each
def test_draws_can_be_conditioned(functions):
    f = model(functions)
    draws = f.draw(5, np.random.default_rng(1))
    after = draws.condition(X[:2], [1.0, 2.0], 1e-6, random_state=0)
    assert_allclose(after(X[:2]), [[1.0] * 5, [2.0] * 5], atol=0.01)


def test_copies_and_mixtures():
    f = model(FUNCTIONS["waves"])
    mean = f.marginals(X).moments()[0]
    copy = pickle.loads(pickle.dumps(f))
    assert_array_equal(copy.marginals(X).moments()[0], mean)
    assert len(pickle.dumps(f)) < 3000
    both = MixtureModel((f, f.affine(1.0, 1.0)), np.zeros(2))
    assert_allclose(both.marginals(X).moments()[0], mean + 0.5)
