"""Standard deviations of draws are those of the regressor in the hard cases."""

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, Matern, RationalQuadratic

from skgpx import DecoupledSampler, PLSRegressor

SIZE = 2000


def log_ratios(kernel, n, d, alpha, **options):
    """Logarithms of std of the draws / exact std, at inputs inside and outside."""
    rng = np.random.default_rng(n + d)
    X = rng.random((n, d))
    model = GaussianProcessRegressor(kernel, alpha=alpha, optimizer=None)
    sampler = DecoupledSampler(model, **options)
    sampler.fit(X, np.sin(3.0 * X.sum(axis=1)))
    inside, outside = rng.random((2, 100, d))
    column = rng.integers(d, size=100)
    beyond = 0.1 * rng.random(100)
    outside[np.arange(100), column] = np.where(column % 2, 1.0 + beyond, -beyond)
    found = []
    for T in (inside, outside):
        mean, std = sampler.predict(T, return_std=True)
        values = sampler.sample_functions(SIZE, random_state=0)(T)
        z = (values.mean(axis=1) - mean) * np.sqrt(SIZE) / std
        assert np.max(np.abs(z)) < 4.5
        found.append(np.log(values.std(axis=1, ddof=1) / std))
    return np.array(found)


def assert_calibrated(errors, accuracy=(0.03, 0.05)):
    """By the root mean square at inputs inside, and outside.

    The errors of the features, at most `accuracy`, and of the estimate from SIZE
    draws, whose square has the relative standard error (2 / 100)^½ at most twice over.
    """
    of_estimate = 1.0 / np.sqrt(2.0 * SIZE)
    for row, of_features in zip(errors, accuracy, strict=True):
        limit = of_features**2 + of_estimate**2 * (1.0 + 4.5 * np.sqrt(2.0 / 100))
        assert np.mean(row**2) < limit


def test_a_number_that_is_too_small_is_warned_of():
    X = np.random.default_rng(0).random((60, 2))
    model = GaussianProcessRegressor(Matern(0.1, nu=2.5), alpha=1e-3, optimizer=None)
    sampler = DecoupledSampler(model, n_basis=16).fit(X, X[:, 0])
    with pytest.warns(UserWarning, match="16 Fourier features"):
        sampler.sample_functions(9, random_state=0)


HARD = {
    # shares by prior variance give the Matern a hundredth of the frequencies
    "a small part that carries the posterior": (
        RBF(0.5) + 0.01 * Matern(0.02, nu=0.5),
        800,
        1,
        [1e-3],
    ),
    # beyond 512 rows, points are left out of neighbourhoods only
    "many rows": (Matern(1.0, nu=2.5), 800, 2, [1e-10]),
    "matern-3.5": (Matern(1.0, nu=3.5), 200, 2, [1e-12, 1e-10, 1e-9]),
    "rbf": (RBF(0.5), 60, 2, [1e-12, 1e-10, 1e-9]),
    "matern-1.5": (Matern(0.5, nu=1.5), 300, 1, [1e-12, 1e-10, 1e-9]),
    "rational": (RationalQuadratic(0.5, 1.0), 150, 3, [1e-12, 1e-10, 1e-9]),
    "order 7.3": (Matern(0.3, nu=7.3), 40, 2, [1e-3]),
    "order 15": (Matern(0.3, nu=15.0), 40, 2, [1e-3]),
    "order 19": (Matern(0.3, nu=19.0), 40, 2, [1e-3]),
}


@pytest.mark.parametrize("name", HARD)
def test_spread_of_draws(name):
    kernel, n, d, noises = HARD[name]
    for alpha in noises:
        assert_calibrated(log_ratios(kernel, n, d, alpha))


@pytest.mark.parametrize("nu", [20, 200])
def test_larger_orders_are_refused(nu):
    """scikit-learn's Matern overflows between equal inputs for nu above 19."""
    X = np.random.default_rng(0).random((20, 2))
    kernel = RBF(0.5) + 0.1 * Matern(0.3, nu=nu)
    model = GaussianProcessRegressor(kernel, alpha=1e-2, optimizer=None)
    message = rf"nu={nu}\) must be finite between equal inputs.* nearly an RBF"
    for estimator in (model, PLSRegressor(kernel, optimizer=None)):
        with pytest.raises(ValueError, match=message):
            DecoupledSampler(estimator).fit(X, X[:, 0])
    law = {"q_mean": np.zeros(20), "q_cov": np.eye(20)}
    with pytest.raises(ValueError, match=message):
        DecoupledSampler.from_inducing(kernel, X, **law)
