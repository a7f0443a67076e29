"""The Nyström basis: features, what they leave over, and draws of that."""

import pickle

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

from skgpx.bases import Nystroem
from skgpx.kernels import GREKernel

SUPPORT = np.random.default_rng(9).normal(size=(30, 2))
KERNELS = {
    "rbf": ConstantKernel(2.0) * RBF([0.8, 1.5]),
    "matern": Matern(1.2, nu=0.5),
    "gre": GREKernel(2.0 * RBF([0.8, 1.5]), SUPPORT, background=0.4),
}
ALL = pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS.keys())


def residual_draws(basis, n_outputs, size, rng):
    """Functions whose weights in the basis are zero."""
    return basis.draw(np.zeros((basis.n_basis, n_outputs, size)), rng)


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
def test_nothing_is_left_at_the_inducing_points(kernel, Z):
    basis = Nystroem.from_kernel(kernel, Z)
    features = basis(Z)
    assert np.all(basis.residual_variance(Z, features) <= 1e-8)
    np.testing.assert_allclose(features, basis.root, atol=1e-4)


@ALL
def test_rows_do_not_depend_on_the_other_rows(kernel, X, Z):
    basis = Nystroem.from_kernel(kernel, Z)
    together = basis(X)
    alone = np.vstack([basis(x[None]) for x in X])
    np.testing.assert_allclose(alone, together, rtol=1e-9, atol=1e-11)
    variance = [basis.residual_variance(x[None], basis(x[None]))[0] for x in X]
    np.testing.assert_allclose(variance, basis.residual_variance(X, together))


@ALL
def test_far_away_the_prior_returns(kernel, Z):
    basis = Nystroem.from_kernel(kernel, Z)
    far = np.full((1, 2), 1e3)
    variance = basis.residual_variance(far, basis(far))
    np.testing.assert_allclose(variance, kernel.diag(far), rtol=1e-12)
    assert variance[0] > 0.5


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
def test_residual_draws_vanish_at_the_inducing_points(kernel, Z):
    draws = residual_draws(
        Nystroem.from_kernel(kernel, Z), 2, 5, np.random.default_rng(0)
    )
    assert draws(Z).shape == (12, 2, 5)
    assert np.abs(draws(Z)).max() < 1e-4
    far = draws(np.full((1, 2), 30.0))
    assert np.abs(far).max() > 0.1


@ALL
def test_residual_draws_have_the_residual_covariance(kernel, X, Z):
    basis = Nystroem.from_kernel(kernel, Z)
    rng, X = np.random.default_rng(4), X[:6]
    values = np.hstack([residual_draws(basis, 1, 20, rng)(X) for _ in range(60)])
    expected = basis.residual_covariance(X, basis(X))
    products = values[:, None, :] * values[None, :, :]
    # draws of one call share their frequencies: the calls are the sample
    calls = products.reshape(6, 6, 60, 20).mean(axis=3)
    error = calls.std(axis=2, ddof=1) / np.sqrt(60)
    assert np.all(np.abs(calls.mean(axis=2) - expected) < 4.5 * error + 1e-8)


@ALL
def test_pickles(kernel, X, Z):
    basis = Nystroem.from_kernel(kernel, Z)
    again = pickle.loads(pickle.dumps(basis))
    np.testing.assert_array_equal(again(X), basis(X))
    draws = residual_draws(basis, 1, 3, np.random.default_rng(0))
    again = pickle.loads(pickle.dumps(draws))
    np.testing.assert_array_equal(again(X), draws(X))
