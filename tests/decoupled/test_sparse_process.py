"""Sampling a sparse model whose values at inducing points were computed elsewhere."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    Matern,
    WhiteKernel,
)

from skgpx import DecoupledSampler
from skgpx._numerics.linalg import cholesky
from tests.latent.conftest import assert_moments

SEED = np.random.default_rng(0)
Z = SEED.uniform(-2.0, 2.0, size=(12, 2))
T = SEED.uniform(-3.0, 3.0, size=(7, 2))
KERNEL = 1.5 * Matern(0.6, nu=1.5)
Q_MEAN = SEED.normal(size=12)
ROOT = 0.3 * np.tril(SEED.normal(size=(12, 12)))
FEW = {"n_basis": 64}


def trend(X):
    return 2.0 + X[:, 0]


def trends(X):
    return np.column_stack((X[:, 0], -X[:, 1]))


def test_all_rows_as_inducing_points_give_the_exact_posterior():
    regressor = GaussianProcessRegressor(KERNEL, alpha=0.2, optimizer=None)
    mean, cov = regressor.fit(Z, Q_MEAN).predict(Z, return_cov=True)
    sparse = DecoupledSampler.from_inducing(KERNEL, Z, q_mean=mean, q_cov=cov)
    for a, b in zip(
        sparse.predict(T, return_cov=True),
        regressor.predict(T, return_cov=True),
        strict=True,
    ):
        assert_allclose(a, b, rtol=1e-6, atol=1e-8)


def test_exact_draws_as_samples_give_the_same_draws():
    """The same prior draw, conditioned on its own exact update at Z, is that update."""
    regressor = GaussianProcessRegressor(KERNEL, alpha=0.2, optimizer=None)
    exact = DecoupledSampler(regressor, **FEW).fit(Z, Q_MEAN)
    draws = exact.sample_functions(1, np.random.default_rng(5))
    sparse = DecoupledSampler.from_inducing(
        KERNEL, Z, u_samples=draws(Z), jitter=1e-14, **FEW
    )
    again = sparse.sample_functions(1, np.random.default_rng(5))
    # apart from the jitter, whose std is 1e-7
    assert_allclose(again(T), draws(T), atol=2e-6)


def moments(kernel, distribution_mean, distribution_root, prior_mean, whitened):
    """Mean and covariance of f at T, from the textbook formula."""
    L = cholesky(kernel(Z)).L
    u, R = (
        (L @ distribution_mean, L @ distribution_root)
        if whitened
        else (distribution_mean, distribution_root)
    )
    u = u if whitened else u - prior_mean(Z)
    gain = np.linalg.solve(L @ L.T, kernel(Z, T)).T
    cov = kernel(T) - gain @ (L @ L.T - R @ R.T) @ gain.T
    return prior_mean(T) + gain @ u, cov


@pytest.mark.parametrize("whitened", [False, True])
@pytest.mark.parametrize("form", ["root", "covariance"])
def test_predict_is_the_textbook_formula(whitened, form):
    weights = {"q_root": ROOT} if form == "root" else {"q_cov": ROOT @ ROOT.T}
    sampler = DecoupledSampler.from_inducing(
        KERNEL + WhiteKernel(0.05), Z, q_mean=Q_MEAN, **weights, whitened=whitened,
        mean=trend, noise_variance=0.1,
    )  # fmt: skip
    mean, cov = moments(KERNEL, Q_MEAN, ROOT, trend, whitened)
    ours, covariance = sampler.predict(T, return_cov=True)
    assert_allclose(ours, mean, rtol=1e-8)
    assert_allclose(covariance, cov + 0.15 * np.eye(7), rtol=1e-7, atol=1e-9)
    std = sampler.predict(T, return_std=True)[1]
    assert_allclose(std, np.sqrt(np.diag(covariance)), rtol=1e-9)


# a kernel of finite rank, so that the prior has exact features
FINITE = DotProduct(0.8) + ConstantKernel(0.5)


@pytest.mark.parametrize("whitened", [False, True])
def test_draws_have_these_moments(whitened):
    size, points = 4000, Z[:3]
    q_mean = np.array([[1.0, -1.0], [0.5, 2.0], [-0.3, 0.2]])
    roots = 0.2 * np.stack([np.eye(3), np.tril(np.ones((3, 3)))])
    sampler = DecoupledSampler.from_inducing(
        FINITE, points, q_mean=q_mean, q_root=roots, whitened=whitened, mean=trends,
        noise_variance=[0.1, 0.4],
    )  # fmt: skip
    draws = sampler.sample_functions(size, random_state=0)(T)
    mean, cov = sampler.predict(T, return_cov=True)
    observed = sampler.sample_y(T, size)
    assert draws.shape == observed.shape == (7, 2, size)
    for j, noise in enumerate((0.1, 0.4)):
        total = cov[:, :, j]
        assert_moments(observed[:, j], mean[:, j], total)
        assert_moments(draws[:, j], mean[:, j], total - noise * np.eye(7))


def test_samples_may_have_any_distribution():
    samples = np.where(SEED.random((12, 1, 6)) > 0.5, 1.0, -1.0)
    sampler = DecoupledSampler.from_inducing(KERNEL, Z, u_samples=samples, mean=1.0)
    values = sampler.sample_functions(6, random_state=0)(Z)
    order = [np.argmin(np.abs(values.T - s).sum(axis=1)) for s in samples[:, 0].T]
    assert sorted(order) == list(range(6))
    # apart from the jitter, whose std is 1e-5
    assert_allclose(values[:, order], samples[:, 0], atol=1e-4)
    assert_allclose(sampler.predict(Z), samples[:, 0].mean(axis=1), atol=1e-6)
    std = sampler.predict(Z, return_std=True)[1]
    assert_allclose(std, samples[:, 0].std(axis=1), atol=1e-4)


def test_gradients_of_a_callable_mean():
    sampler = DecoupledSampler.from_inducing(
        KERNEL, Z, q_mean=Q_MEAN, q_root=ROOT, mean=lambda A: np.sin(A[:, 0]) * A[:, 1]
    )
    draws, h = sampler.sample_functions(3, random_state=0), 1e-6
    values, gradients = draws.value_and_grad(T)
    assert_allclose(values, draws(T), rtol=1e-9, atol=1e-9)
    for j, step in enumerate(h * np.eye(2)):
        slope = (draws(T + step) - draws(T - step)) / (2.0 * h)
        assert_allclose(gradients[:, :, j], slope, rtol=1e-5, atol=1e-5)


def test_only_a_gaussian_distribution_can_be_conditioned():
    gaussian = DecoupledSampler.from_inducing(KERNEL, Z, q_mean=Q_MEAN, q_root=ROOT)
    draws = gaussian.sample_functions(3, random_state=0)
    assert_allclose(draws.condition(T, np.ones(7))(T), 1.0, rtol=1e-3)
    particles = DecoupledSampler.from_inducing(KERNEL, Z, u_samples=ROOT)
    with pytest.raises(ValueError, match="cannot be conditioned"):
        particles.sample_functions(3, random_state=0).condition(T, np.ones(7))


def test_clone_and_pickle_keep_the_distribution():
    sampler = DecoupledSampler.from_inducing(
        RBF(0.8), Z, q_mean=Q_MEAN, q_root=ROOT, mean=trend, random_state=0
    )
    copy = pickle.loads(pickle.dumps(sampler))
    again = clone(sampler).fit(Z)
    for other in (copy, again):
        assert_array_equal(other.predict(T), sampler.predict(T))
        assert_array_equal(other.sample_functions(2)(T), sampler.sample_functions(2)(T))
    draws = sampler.sample_functions(2)
    assert_array_equal(pickle.loads(pickle.dumps(draws))(T), draws(T))
    assert sampler.n_features_in_ == 2
    assert np.isfinite(sampler.score(Z, Q_MEAN))


LAW = {"q_mean": Q_MEAN, "q_root": ROOT}
BAD = {
    "no distribution": ({}, "either u_samples, or q_mean"),
    "no spread": ({"q_mean": Q_MEAN}, "either u_samples, or q_mean"),
    "both": (LAW | {"q_cov": ROOT @ ROOT.T}, "either u_samples"),
    "too much": (LAW | {"u_samples": np.ones((12, 3))}, "either u_samples"),
    "short": ({"q_mean": Q_MEAN[:5], "q_root": ROOT}, r"q_mean .*\(12, any\)"),
    "matrix": ({"q_mean": Q_MEAN, "q_root": ROOT[:5]}, r"q_root .*12, 12"),
    "outputs": ({"q_mean": Q_MEAN, "q_root": np.ones((3, 12, 12))}, "got 3"),
    "rows": ({"u_samples": np.ones((5, 3))}, r"u_samples .*\(12, any, any\)"),
    "infinite": ({"q_mean": Q_MEAN * np.inf, "q_root": ROOT}, "finite"),
    "skew": ({"q_mean": Q_MEAN, "q_cov": ROOT}, "symmetric"),
    "indefinite": ({"q_mean": Q_MEAN, "q_cov": -np.eye(12)}, "semi-definite"),
    "noise": (LAW | {"noise_variance": -1.0}, "not be|not negative"),
    "mean": (LAW | {"mean": np.nan}, "finite number"),
    "mean shape": (LAW | {"mean": lambda X: X[:3]}, "must map"),
}


def test_what_does_not_fit_is_refused():
    cases = [(KERNEL, Z, given, message) for given, message in BAD.values()]
    cases += [
        ("rbf", Z, LAW, "expects a kernel"),
        (KERNEL, Z[:, 0], LAW, "Z must have shape"),
        (RBF([1.0, 2.0, 3.0]), Z, LAW, "does not fit X"),
    ]
    for kernel, points, given, message in cases:
        with pytest.raises(ValueError, match=message):
            DecoupledSampler.from_inducing(kernel, points, **given)
    sampler = DecoupledSampler.from_inducing(KERNEL, Z, **LAW)
    with pytest.raises(ValueError, match="At most one"):
        sampler.predict(T, return_std=True, return_cov=True)
