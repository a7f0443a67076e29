import tracemalloc

import numpy as np
import pytest
from sklearn import config_context
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, Matern

from skgpx import SpectralVGPRegressor
from skgpx._latent import LatentModel
from skgpx._numerics.fourier_sketch import n_bins
from skgpx._numerics.fourier_sums import direct_statistics, sketched_statistics
from skgpx._numerics.regression import posterior
from skgpx._numerics.series_evidence import whitened
from skgpx._numerics.weights import GaussianWeights
from skgpx.bases import (
    Box,
    FourierSeries,
    GivenEigenvalues,
    KernelEigenvalues,
    PolynomialEigenvalues,
    SeriesMarginals,
)
from skgpx.bases._kernel_basis import FeatureMarginals

LINE = Box(np.zeros(1), np.array([2.0]))
PLANE = Box(np.zeros(2), np.array([2.0, 3.0]))
NOISE = 0.05


def residual_draws(basis, n_outputs, size, rng):
    """Functions whose weights in the basis are zero."""
    return basis.draw(np.zeros((basis.n_basis, n_outputs, size)), rng)


def prior_covariance(basis, X):
    features = basis(X)
    return features @ features.T + basis.residual_covariance(X, features)


def fitted(rule, box, m, X, y):
    """Posterior from sums over the rows."""
    basis = FourierSeries.from_rule(rule, box, m)
    if X.shape[1] == 1:
        reach = 2 * int(basis.index.reach()[0])
        s = sketched_statistics(X, y, None, box, 0.0, n_bins(reach))
    else:
        s = direct_statistics(X, y, None, box, 0.0, basis.index.reach())
    equations = s.normal_equations(basis.index)
    residual = basis.residual_variance(X, basis(X)).sum()
    white = whitened(equations, basis.eigenvalues, residual)
    return LatentModel(basis, posterior(white, NOISE)), white


@pytest.mark.parametrize("m", [20, 21])
def test_variance_of_a_series_prior_is_exact(m):
    rule = PolynomialEigenvalues(2.0, 0.5)
    basis = FourierSeries.from_rule(rule, LINE, m)
    X = np.linspace(0.0, 2.0, 33)[:, np.newaxis]
    features = basis(X)
    assert features.shape == (33, m)
    residual = basis.residual_variance(X, features)
    # Σ λ φ² to a million terms
    j = np.arange(1, 10**6 + 1)
    lam = rule.spectrum(rule.index(LINE, len(j)), LINE).eigenvalues
    excess = lam[2::2] - lam[1:-1:2]
    phase = 2 * np.pi * np.outer(X[:, 0], np.arange(1, len(excess) + 1)[:2000])
    expected = lam.sum() + np.cos(phase) @ excess[:2000]
    total = np.sum(features**2, axis=1) + residual
    # the end of the sums, 1e-6 and below
    assert np.abs(total - expected).max() < 5e-6
    if m == 21:
        assert np.ptp(residual) < 1e-14


@pytest.mark.parametrize("m", [20, 21])
def test_covariance_features_and_draws_agree(m):
    rng = np.random.default_rng(0)
    rule = PolynomialEigenvalues(1.0, 0.5)
    basis = FourierSeries.from_rule(rule, LINE, m, n_residual=300)
    X = rng.random((6, 1)) * 2.0
    covariance = prior_covariance(basis, X)
    size = 40_000
    values = basis.draw(rng.standard_normal((m, 1, size)), rng)(X)
    found = values @ values.T / size
    diagonal = np.diagonal(covariance)
    error = np.sqrt((np.outer(diagonal, diagonal) + covariance**2) / size)
    assert np.abs((found - covariance) / error).max() < 4.5
    # the features are those of the draws
    w = rng.standard_normal((m, 1, 2))
    one, rest = (basis.draw(v, np.random.default_rng(1))(X) for v in (w, 0.0 * w))
    assert np.allclose(one - rest, basis(X) @ w[:, 0], rtol=0, atol=1e-13)


@pytest.mark.parametrize(
    ("kernel", "box"),
    [
        (2.0 * RBF(0.2), LINE),
        (Matern(0.15, nu=2.5), LINE),
        (Matern(0.2, nu=0.5), LINE),
        (RBF([0.2, 0.3]), PLANE),
    ],
)
def test_covariance_of_a_kernel(kernel, box):
    d = len(box.period)
    X = np.random.default_rng(0).random((20, d)) * (box.period - 1.0)
    basis = FourierSeries.from_rule(KernelEigenvalues(kernel), box, 31)
    covariance = prior_covariance(basis, X)
    # images at a distance of one, and waves too short to be listed
    images = kernel(np.zeros((1, d)), np.eye(d)).sum()
    bound = 1e-9 + 2.5 * images + 1e-3 * (kernel.get_params().get("nu") == 0.5)
    assert np.abs(covariance - kernel(X)).max() < bound


def exact(kernel, X, y, X_new):
    gp = GaussianProcessRegressor(kernel, alpha=NOISE, optimizer=None).fit(X, y)
    return gp.predict(X_new, return_std=True)


@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize(
    ("kernel", "padding", "mean_bound", "std_bound"),
    [(RBF(0.3), 4.0, 0.01, 0.01), (Matern(0.4, nu=2.5), 3.0, 0.3, 0.05)],
    ids=["RBF", "Matern"],
)
def test_posterior_is_that_of_the_exact_process(
    d, kernel, padding, mean_bound, std_bound
):
    rng = np.random.default_rng(1)
    X, X_new = rng.random((400, d)), rng.random((200, d))
    y = np.sin(6 * X[:, 0]) + X[:, -1] + 0.2 * rng.standard_normal(400)
    box = Box(np.zeros(d), np.full(d, 1.0 + padding * kernel.length_scale))
    model, _ = fitted(KernelEigenvalues(kernel), box, 41 if d == 1 else 401, X, y)
    mean, std = exact(kernel, X, y, X_new)
    found = model.marginals(X_new)
    error = np.abs(found.mean[:, 0, 0] - mean) / std
    assert error.max() < mean_bound
    assert np.abs(np.sqrt(found.variance[:, 0, 0]) / std - 1.0).max() < std_bound


@pytest.mark.parametrize("box", [LINE, PLANE], ids=["line", "plane"])
def test_fast_marginals_are_those_of_the_latent_model(box):
    rng = np.random.default_rng(2)
    d = len(box.period)
    X = rng.random((300, d)) * box.period
    model, _ = fitted(PolynomialEigenvalues(1.0, 1.0), box, 60, X, X[:, 0])
    expected, spread = FeatureMarginals(model.basis, model.weights)(X)
    mean, variance = SeriesMarginals(model.basis, model.weights)(X)
    assert np.abs(mean - expected).max() < 1e-12
    assert np.allclose(variance, spread, rtol=1e-11)
    chosen = model.marginals(X)
    assert np.array_equal(chosen.mean, mean)
    assert np.array_equal(chosen.variance, variance)
    again = SeriesMarginals(model.basis, model.weights)(X[7:8])
    assert np.allclose(again, (mean[7:8], variance[7:8]), rtol=1e-12)


def test_draws_of_the_posterior_have_its_moments():
    rng = np.random.default_rng(3)
    X = rng.random((200, 1)) * 1.5
    model, _ = fitted(PolynomialEigenvalues(1.0, 1.0), LINE, 41, X, np.sin(X[:, 0]))
    X_new = np.linspace(0.1, 1.9, 7)[:, np.newaxis]
    size = 4000
    values = model.draw(size, rng)(X_new)
    covariance = model.covariance(X_new)
    mean = model.marginals(X_new).mean[:, 0, 0]
    std = np.sqrt(np.diagonal(covariance))
    z = (values.mean(axis=1) - mean) / (std / np.sqrt(size))
    assert np.abs(z).max() < 4.5
    found = np.cov(values)
    error = np.sqrt((np.outer(std, std) ** 2 + covariance**2) / size)
    assert np.abs((found - covariance) / error).max() < 4.5


def test_large_offsets_and_other_outputs():
    box = Box(np.array([1.7e9]), np.array([1e6]))
    basis = FourierSeries.from_rule(PolynomialEigenvalues(), box, 201)
    near = FourierSeries.from_rule(
        PolynomialEigenvalues(), Box(np.zeros(1), np.array([1e6])), 201
    )
    x = np.array([[12345.0], [999_999.0]])
    assert np.array_equal(basis(x + 1.7e9), near(x))
    weights = np.random.default_rng(0).standard_normal((201, 2, 3))
    expected = near.draw(weights, np.random.default_rng(1))(x)
    assert expected.shape == (2, 2, 3)
    found = basis.draw(weights, np.random.default_rng(1))(x + 1.7e9)
    assert np.array_equal(found, expected)


def test_draws_can_be_differentiated():
    rng = np.random.default_rng(0)
    basis = FourierSeries.from_rule(PolynomialEigenvalues(), PLANE, 50, n_residual=50)
    draws = basis.draw(rng.standard_normal((50, 1, 3)), rng)
    X, h = rng.random((4, 2)), 1e-5
    _, gradients = draws.value_and_grad(X)
    for j, step in enumerate(h * np.eye(2)):
        slopes = (draws(X + step) - draws(X - step)) / (2 * h)
        assert np.allclose(gradients[:, :, j], slopes, rtol=1e-6, atol=1e-6)


def test_draws_can_be_conditioned():
    """All functions are finite in number: also those of the residual."""
    rng = np.random.default_rng(0)
    rule = PolynomialEigenvalues(1.0, 0.5)
    basis = FourierSeries.from_rule(rule, LINE, 9, n_residual=60)
    weights = GaussianWeights(np.zeros((9, 1)), 0.5 * np.eye(9)[np.newaxis])
    model = LatentModel(basis, weights)
    X, T, y = rng.random((4, 1)) * 2.0, rng.random((5, 1)) * 2.0, np.arange(4.0)
    size, noise = 4000, 0.2
    draws = model.draw(size, rng)
    assert np.allclose(draws.process.covariance(T), model.covariance(T), atol=1e-12)
    both = model.covariance(np.vstack((X, T)))
    gain = np.linalg.solve(both[:4, :4] + noise * np.eye(4), both[:4, 4:]).T
    expected = both[4:, 4:] - gain @ both[:4, 4:]
    moved = draws.condition(X, y, noise, random_state=1)
    assert np.allclose(moved.process.covariance(T), expected, atol=1e-9)
    # the terms share their feature map, and are evaluated as one
    assert len(moved.terms) == 1
    std = np.sqrt(np.diagonal(expected))
    z = (moved(T).mean(axis=1) - gain @ y) / (std / np.sqrt(size))
    assert np.abs(z).max() < 4.5
    error = np.sqrt((np.outer(std, std) ** 2 + expected**2) / size)
    assert np.abs((np.cov(moved(T)) - expected) / error).max() < 4.5


def test_a_finite_basis_has_no_residual():
    rule = KernelEigenvalues(RBF(0.5))
    basis = FourierSeries.from_rule(rule, LINE, 51)
    X = np.array([[0.3]])
    assert basis.tail == 0.0
    assert basis.residual_variance(X, basis(X))[0] < 1e-14
    draws = residual_draws(basis, 1, 2, np.random.default_rng(0))
    assert np.abs(draws(X)).max() < 1e-6


def test_predictions_stay_within_the_working_memory():
    """Eigenvalues of sine and cosine that differ: the residual varies over the box."""
    X = np.random.default_rng(0).uniform(size=(4000, 1))
    model = SpectralVGPRegressor(
        GivenEigenvalues(tuple(np.arange(1.0, 8001.0) ** -1.5)),
        n_basis=11,
        domain=(0.0, 1.0),
        optimizer=None,
        noise_variance=0.01,
    ).fit(X[:200], np.sin(6.0 * X[:200, 0]))
    model.predict(X[:1], return_std=True)
    with config_context(working_memory=16):
        tracemalloc.start()
        model.predict(X, return_std=True)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 18 * 2**20
