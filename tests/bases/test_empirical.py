"""Empirical spectral features against the dense formulas."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.gaussian_process.kernels import RBF, Matern

from skgpx._latent import LatentModel
from skgpx._numerics.regression import posterior, weight_statistics
from skgpx.bases import EmpiricalSpectral, Nystroem


@pytest.fixture
def data(rng):
    X = rng.uniform(size=(60, 2))
    return X, np.sin(6.0 * X[:, 0]) + 0.1 * rng.normal(size=60)


def test_features_and_residual_make_the_kernel(data):
    X, _ = data
    kernel = Matern(0.5, nu=1.5)
    basis = EmpiricalSpectral.from_rows(kernel, X, 7)
    new = np.vstack((X[:5], X[:5] + 0.03))
    features = basis(new)
    total = features @ features.T + basis.residual_covariance(new, features)
    assert_allclose(total, kernel(new), atol=1e-10)


def test_posterior_is_that_of_the_dense_formulas(data):
    # K_uu = diag(e), K_fu = v e, K_xu = k(x, X) v, in (2.4)-(2.5)
    X, y = data
    kernel, s2, m = Matern(0.5, nu=1.5), 0.01, 9
    e, v = np.linalg.eigh(kernel(X))
    e, v = e[::-1][:m], v[:, ::-1][:, :m]
    new = X[:6] + 0.02
    Kxu, Kfu = kernel(new, X) @ v, v * e
    middle = np.diag(s2 * e) + Kfu.T @ Kfu
    mean = Kxu @ np.linalg.solve(middle, Kfu.T @ y)
    cov = kernel(new) - (Kxu / e) @ Kxu.T + s2 * Kxu @ np.linalg.solve(middle, Kxu.T)
    basis = EmpiricalSpectral.from_rows(kernel, X, m)
    features = basis(X)
    residual = basis.residual_variance(X, features)
    weights = posterior(weight_statistics(features, y, np.ones(60), residual), s2)
    model = LatentModel(basis, weights)
    assert_allclose(model.marginals(new).mean[:, 0, 0], mean, rtol=1e-8)
    assert_allclose(model.covariance(new), cov, atol=1e-10)


def test_full_rank_equals_nystroem_at_all_rows(data):
    X, y = data
    kernel, new = Matern(0.5, nu=0.5), data[0][:8] + 0.01
    models = []
    for basis in (
        EmpiricalSpectral.from_rows(kernel, X, 60),
        Nystroem.from_kernel(kernel, X),
    ):
        features = basis(X)
        residual = basis.residual_variance(X, features)
        statistics = weight_statistics(features, y, np.ones(60), residual)
        models.append(LatentModel(basis, posterior(statistics, 0.01)))
    one, other = models
    assert_allclose(one.covariance(new), other.covariance(new), atol=1e-7)


def test_weights_are_repetitions(data):
    X, _ = data
    weights = np.arange(60) % 3 + 1.0
    repeated = np.repeat(X, weights.astype(int), axis=0)
    kernel = RBF(0.4)
    one = EmpiricalSpectral.from_rows(kernel, X, 6, weights)
    other = EmpiricalSpectral.from_rows(kernel, repeated, 6)
    a, b = one(X), other(X)
    assert_allclose(a @ a.T, b @ b.T, atol=1e-9)


def test_draws_have_the_covariance_of_the_model(data, rng):
    X, y = data
    basis = EmpiricalSpectral.from_rows(RBF(0.4), X, 8)
    features = basis(X)
    residual = basis.residual_variance(X, features)
    weights = posterior(weight_statistics(features, y, np.ones(60), residual), 0.05)
    model, new, n = LatentModel(basis, weights), X[:4] + 0.05, 4000
    values = model.draw(n, rng)(new)
    mean, cov = model.marginals(new).mean[:, 0, 0], model.covariance(new)
    std = np.sqrt(np.diag(cov))
    assert np.max(np.abs(values.mean(axis=1) - mean) / std) * np.sqrt(n) < 4.5
    z = (values - mean[:, np.newaxis]) / std[:, np.newaxis]
    error = np.sqrt((1.0 + (cov / np.outer(std, std)) ** 2) / n)
    assert np.max(np.abs(z @ z.T / n - cov / np.outer(std, std)) / error) < 4.5


@pytest.mark.parametrize("m", [8, 60])
def test_draws_can_be_conditioned(data, rng, m):
    X, y = data
    basis = EmpiricalSpectral.from_rows(Matern(0.4, nu=1.5), X, m)
    features = basis(X)
    residual = basis.residual_variance(X, features)
    weights = posterior(weight_statistics(features, y, np.ones(60), residual), 0.05)
    model, n, noise = LatentModel(basis, weights), 4000, 0.1
    # new places and rows of the data
    seen, T = np.vstack((X[:2], X[5:7] + 0.03)), X[8:13] + 0.05
    mean = model.marginals(np.vstack((seen, T))).mean[:, 0, 0]
    both = model.covariance(np.vstack((seen, T)))
    observed = mean[:4] + np.array([0.5, -0.2, 0.1, 0.3])
    gain = np.linalg.solve(both[:4, :4] + noise * np.eye(4), both[:4, 4:]).T
    expected = both[4:, 4:] - gain @ both[:4, 4:]
    draws = model.draw(n, rng)
    assert_allclose(draws.process.covariance(T), both[4:, 4:], atol=1e-9)
    moved = draws.condition(seen, observed, noise, random_state=0)
    assert_allclose(moved.process.covariance(T), expected, atol=1e-8)
    std = np.sqrt(np.diag(expected))
    shift = mean[4:] + gain @ (observed - mean[:4])
    assert np.max(np.abs(moved(T).mean(axis=1) - shift) / std) * np.sqrt(n) < 4.5
    # once more: combinations of values, then values
    again = moved.condition(T[:1], [0.0], noise, random_state=0).process
    rank = expected[:, :1] / (expected[0, 0] + noise)
    assert_allclose(
        again.covariance(T), expected - rank @ expected[:1], rtol=0, atol=1e-8
    )


def test_fewer_functions_than_asked_for():
    X = np.linspace(0.0, 1.0, 30)[:, np.newaxis]
    basis = EmpiricalSpectral.from_rows(RBF(2.0), X, 30)
    assert basis.n_basis < 15
    assert basis.leading(3)(X).shape == (30, 3)
