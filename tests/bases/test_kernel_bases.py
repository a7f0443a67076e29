"""Bases of a kernel: Nyström features, empirical spectral features, what they leave."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

from skgpx._latent import LatentModel
from skgpx._numerics.regression import posterior, weight_statistics
from skgpx.bases import EmpiricalSpectral, Nystroem
from skgpx.kernels import GREKernel

SUPPORT = np.random.default_rng(9).normal(size=(30, 2))
KERNELS = {
    "rbf": ConstantKernel(2.0) * RBF([0.8, 1.5]),
    "matern": Matern(1.2, nu=0.5),
    "gre": GREKernel(2.0 * RBF([0.8, 1.5]), SUPPORT, background=0.4),
}
ALL = pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS.keys())


@pytest.fixture
def Z():
    return np.random.default_rng(1).normal(size=(12, 2))


@pytest.fixture
def X():
    return np.random.default_rng(2).normal(size=(25, 2))


@ALL
def test_features_and_residual_add_up_to_the_prior(kernel, X, Z):
    basis = Nystroem.from_kernel(kernel, Z)
    features = basis(X)
    assert features.shape == (25, basis.n_basis)
    assert basis.n_basis == 12
    np.testing.assert_allclose(basis.root @ basis.root.T, kernel(Z), atol=1e-9)
    np.testing.assert_allclose(features @ basis.root.T, kernel(X, Z), atol=1e-12)
    total = features @ features.T + basis.residual_covariance(X, features)
    np.testing.assert_allclose(total, kernel(X), atol=1e-12)
    variance = basis.residual_variance(X, features)
    np.testing.assert_array_equal(
        variance, np.diag(basis.residual_covariance(X, features))
    )


@ALL
@pytest.mark.parametrize("spread", [1e-3, 1.0])
def test_residual_covariance_is_positive_semi_definite(kernel, Z, spread):
    basis = Nystroem.from_kernel(kernel, Z)
    rng = np.random.default_rng(3)
    X = np.vstack([Z + spread * rng.normal(size=Z.shape), rng.normal(size=(40, 2)), Z])
    values = np.linalg.eigvalsh(basis.residual_covariance(X, basis(X)))
    assert values[0] >= -1e-10 * values[-1]
    crowded = Z[:1] + 1e-3 * rng.normal(size=(30, 2))  # hardly any residual there
    covariance = basis.residual_covariance(crowded, basis(crowded))
    prior = kernel.diag(crowded).max()
    assert np.linalg.eigvalsh(covariance)[0] >= -1e-13 * prior


def test_duplicate_points_are_harmless(X, Z):
    twice = Nystroem.from_kernel(RBF(1.0), np.vstack([Z, Z]))
    once = Nystroem.from_kernel(RBF(1.0), Z)
    np.testing.assert_allclose(
        twice(X) @ twice(X).T, once(X) @ once(X).T, rtol=0.0, atol=1e-5
    )


def test_failure_names_the_kernel(Z):
    with pytest.raises(np.linalg.LinAlgError, match=r"RBF\(length_scale=nan\).*fewer"):
        Nystroem.from_kernel(RBF(np.nan), Z)


@ALL
def test_residual_draws_have_the_residual_covariance(kernel, X, Z):
    basis = Nystroem.from_kernel(kernel, Z)
    rng, X = np.random.default_rng(4), np.vstack((X[:4], Z[:2]))
    nothing = np.zeros((basis.n_basis, 1, 20))
    values = np.hstack([basis.draw(nothing, rng)(X) for _ in range(60)])
    expected = basis.residual_covariance(X, basis(X))
    products = values[:, None, :] * values[None, :, :]
    # draws of one call share their frequencies: the calls are the sample
    calls = products.reshape(6, 6, 60, 20).mean(axis=3)
    error = calls.std(axis=2, ddof=1) / np.sqrt(60)
    assert np.all(np.abs(calls.mean(axis=2) - expected) < 4.5 * error + 1e-8)


# ---- Empirical spectral features -----------------------------------------------------


@pytest.fixture
def data(rng):
    X = rng.uniform(size=(60, 2))
    return X, np.sin(6.0 * X[:, 0]) + 0.1 * rng.normal(size=60)


def model_of(basis, X, y, noise=0.01):
    """The exact posterior on a basis."""
    features = basis(X)
    residual = basis.residual_variance(X, features)
    statistics = weight_statistics(features, y, np.ones(len(y)), residual)
    return LatentModel(basis, posterior(statistics, noise))


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
    model = model_of(EmpiricalSpectral.from_rows(kernel, X, m), X, y, s2)
    assert_allclose(model.marginals(new).mean[:, 0, 0], mean, rtol=1e-8)
    assert_allclose(model.covariance(new), cov, atol=1e-10)


def test_weights_are_repetitions(data):
    X, _ = data
    weights = np.arange(60) % 3 + 1.0
    repeated = np.repeat(X, weights.astype(int), axis=0)
    kernel = RBF(0.4)
    one = EmpiricalSpectral.from_rows(kernel, X, 6, weights)
    other = EmpiricalSpectral.from_rows(kernel, repeated, 6)
    a, b = one(X), other(X)
    assert_allclose(a @ a.T, b @ b.T, atol=1e-9)


def test_fewer_functions_than_asked_for():
    X = np.linspace(0.0, 1.0, 30)[:, np.newaxis]
    basis = EmpiricalSpectral.from_rows(RBF(2.0), X, 30)
    assert basis.n_basis < 15
    assert basis.leading(3)(X).shape == (30, 3)


@pytest.mark.parametrize("make", [Nystroem.from_kernel, EmpiricalSpectral.from_rows])
def test_functions_through_points_have_the_distribution_of_draws_there(make, X, Z):
    kernel = 2.0 * RBF(0.8) + ConstantKernel(0.5)
    args = (kernel, Z) if make == Nystroem.from_kernel else (kernel, Z, 3)
    basis = make(*args)
    m = basis.n_basis
    mean = np.linspace(-1.0, 1.0, m)
    weights = np.broadcast_to(mean[:, np.newaxis, np.newaxis], (m, 1, 4000))
    draws = basis.draw(weights, np.random.default_rng(0), points=X)
    values = draws(X)
    features = basis(X)
    covariance = basis.residual_covariance(X, features)
    scale = np.sqrt(np.diag(covariance).max() + 1e-6)
    assert_allclose(values.mean(axis=1), features @ mean, atol=5.0 * scale / 4000**0.5)
    assert_allclose(np.cov(values), covariance, atol=0.1 * scale**2 + 1e-6)
    # between the points the expectation given the values there
    between = X[:3] + 0.01
    both = np.concatenate((Z, X))
    expected = (
        kernel(between, both)
        @ np.linalg.lstsq(kernel(both), draws(both)[:, :5], rcond=1e-9)[0]
    )
    assert_allclose(draws(between)[:, :5], expected, atol=1e-2)
