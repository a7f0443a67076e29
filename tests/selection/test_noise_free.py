"""Functions without noise, and measurements that must not be taken for them."""

from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import integrate
from scipy.stats import qmc

from skgpx import DecoupledSampler, GWIRegressor, PLSRegressor, SpectralVGPRegressor
from skgpx._hyperparameters import NOISE_PRIOR
from skgpx.bases import Nystroem, select_until


def branin(X):
    x, y = 15.0 * X[:, 0] - 5.0, 15.0 * X[:, 1]
    ring = y - 5.1 / (4.0 * np.pi**2) * x**2 + 5.0 / np.pi * x - 6.0
    return ring**2 + 10.0 * (1.0 - 1.0 / (8.0 * np.pi)) * np.cos(x) + 10.0


def design(n, seed):
    X = qmc.LatinHypercube(2, rng=np.random.default_rng(seed)).random(n)
    return X, branin(X)


# ---- The prior of a noise that may be nothing ----------------------------------------


def test_the_prior_of_the_noise_is_a_density():
    total, error = integrate.quad(
        lambda log_noise: np.exp(NOISE_PRIOR.log_density(log_noise)),
        -60.0,
        40.0,
        points=[-10.0, -2.0],
    )
    assert abs(total - 1.0) < 1e-6 + error


def test_the_slope_of_the_prior_of_the_noise():
    log_noise = np.linspace(-22.0, 4.0, 101)
    step = 1e-4
    above = NOISE_PRIOR.log_density(log_noise + step)
    below = NOISE_PRIOR.log_density(log_noise - step)
    differences = (above - below) / (2.0 * step)
    assert_allclose(NOISE_PRIOR.slope(log_noise), differences, atol=1e-6)


def test_no_noise_costs_its_odds():
    # a single log-normal distribution would charge 33 nats
    measured, nothing = NOISE_PRIOR.log_density(np.log([0.1, 1e-8]))
    assert 0.0 < measured - nothing < 6.0


# ---- Functions without noise ---------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(
    "estimator",
    [
        PLSRegressor,
        GWIRegressor,
        partial(SpectralVGPRegressor, basis="inducing"),
        DecoupledSampler,
    ],
)
def test_branin_in_forty_runs(estimator, seed):
    X, y = design(40, seed)
    new = np.random.default_rng(seed).random((500, 2))
    model = estimator(random_state=0).fit(X, y)
    errors = model.predict(new) - branin(new)
    assert np.sqrt(np.mean(errors**2)) < 0.015 * y.std()


def test_the_basis_of_a_noise_free_function_is_exact():
    X, y = design(40, 0)
    y = (y - y.mean()) / y.std()
    chosen = {"hyperparameters": "maximise", "random_state": 0}
    model = PLSRegressor(normalize_y=False, **chosen).fit(X, y)
    noise = float(model.noise_variance_)
    kernel = model.kernel_
    new = np.random.default_rng(0).random((200, 2))
    weights = np.linalg.solve(kernel(X) + noise * np.eye(40), y)
    exact = kernel(new, X) @ weights
    # the matrix has a condition number of 1e12
    assert_allclose(model.predict(new), exact, atol=1e-3)


def test_jitter_is_hidden_by_the_noise():
    X, y = design(40, 0)
    kernel = PLSRegressor(random_state=0).fit(X, y).kernel_
    prior_variance = float(kernel.diag(X)[0])
    noise = 1e-8
    usual = Nystroem.from_kernel(kernel, X)
    fine = Nystroem.from_kernel(kernel, X, noise)
    assert usual.jitter == pytest.approx(1e-10 * prior_variance)
    # or as small as double precision allows
    allowed = max(1e-3 * noise, 1e-14 * prior_variance)
    assert fine.jitter <= allowed * (1.0 + 1e-9)
    # a noise that is not known
    unknown = Nystroem.from_kernel(kernel, X, np.nan)
    assert unknown.jitter == usual.jitter
    rng = np.random.default_rng(0)
    few = select_until(X, kernel, 40, 1e-3 * prior_variance, rng)
    many = select_until(X, kernel, 40, 2e-3 * noise, rng)
    assert len(few) < len(many)


# ---- Measurements --------------------------------------------------------------------


@pytest.mark.parametrize("n", [10, 40])
def test_measurements_stay_noisy(n):
    covered = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        X, new = rng.random((2, n, 1))
        noisy = [np.sin(6.0 * x[:, 0]) + 0.3 * rng.standard_normal(n) for x in (X, new)]
        model = PLSRegressor(random_state=0).fit(X, noisy[0])
        low, high = model.predict_interval(new, 0.9).T
        covered.append(np.mean((low <= noisy[1]) & (noisy[1] <= high)))
        assert model.noise_variance_ > 0.01 * np.var(noisy[0])
    # 72 or more degrees of freedom: three standard errors of 0.9 are 0.1
    assert np.mean(covered) > 0.8
