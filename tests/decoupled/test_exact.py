"""The posterior of an exact process, against the textbook formulas."""

import numpy as np
from numpy.testing import assert_allclose
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    WhiteKernel,
)

from skgpx._decoupled._exact import ExactPosterior, regressor_posterior
from skgpx.kernels import latent_kernel

RNG = np.random.default_rng(0)
X, T = RNG.uniform(-2.0, 2.0, size=(15, 2)), RNG.uniform(-2.0, 2.0, size=(6, 2))
# of finite rank, so that features of the prior are exact
LINEAR = DotProduct(0.8) + ConstantKernel(0.5)
Y = np.column_stack((X[:, 0] + 0.3 * RNG.normal(size=15), 4.0 - X[:, 1]))
NOISE = 0.2 + 0.1 * RNG.random(15)
SHIFT, SCALE = np.array([1.0, -2.0]), np.array([3.0, 0.5])


def posterior(kernel=LINEAR):
    root = np.linalg.cholesky(latent_kernel(kernel)(X) + np.diag(NOISE))
    return ExactPosterior(kernel, X, root, Y, NOISE, SHIFT, SCALE)


def moments(kernel=LINEAR):
    """Mean (t, 2) and covariance (t, t) of the standardised function at T."""
    gain = np.linalg.solve(kernel(X) + np.diag(NOISE), kernel(X, T)).T
    return gain @ Y, kernel(T) - gain @ kernel(X, T)


def test_draws_have_the_moments_of_the_textbook():
    size = 20_000
    draws = posterior().draw(size, np.random.default_rng(1)).values(T)
    mean, covariance = moments()
    variance = np.diag(covariance)
    for c in range(2):
        z = (draws[:, c].mean(axis=1) - SHIFT[c] - SCALE[c] * mean[:, c]) / (
            SCALE[c] * np.sqrt(variance / size)
        )
        assert np.max(np.abs(z)) < 4.5
        # var of a sample covariance: (σᵢᵢ σⱼⱼ + σᵢⱼ²) / s
        error = np.sqrt((np.outer(variance, variance) + covariance**2) / size)
        found = np.cov(draws[:, c]) / SCALE[c] ** 2
        assert np.max(np.abs(found - covariance) / error) < 4.5


def test_the_process_is_that_of_the_draws():
    process = posterior().draw(2, np.random.default_rng(0)).process
    _, covariance = moments()
    for c in range(2):
        expected = SCALE[c] ** 2 * covariance
        assert_allclose(process.covariance(T, c), expected, atol=1e-10)


def test_white_noise_is_that_of_new_observations():
    kernel = LINEAR + WhiteKernel(0.3)
    noise = posterior(kernel).noise_variance_at(T)
    assert_allclose(noise, np.full((6, 1), 0.3) * SCALE**2)


def test_a_regressor_is_read_and_not_fitted_again():
    kernel = 2.0 * RBF(0.7) + WhiteKernel(0.1)
    settings = {"alpha": 0.05, "normalize_y": True, "optimizer": None}
    model = GaussianProcessRegressor(kernel, **settings)
    model.fit(X, Y)
    found = regressor_posterior(model, 2)
    assert found.root is model.L_
    assert_allclose(found.noise, np.full(15, 0.1 + 0.05))
    assert_allclose(found.shift + found.scale * found.targets, Y)
    assert found.floats_per_row == 4 * 15


def test_a_regressor_without_data_is_its_prior():
    model = GaussianProcessRegressor(LINEAR, n_targets=2)
    found = regressor_posterior(model, 2)
    assert found.points.shape == (0, 2)
    size = 20_000
    draws = found.draw(size, np.random.default_rng(3)).values(T)
    std = np.sqrt(LINEAR.diag(T))
    z = draws.mean(axis=2) / (std / np.sqrt(size))[:, np.newaxis]
    assert np.max(np.abs(z)) < 4.5
