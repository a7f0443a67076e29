"""Whether hyperparameters that are averaged are true, and which prior they have."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import integrate
from scipy.stats import kstest, lognorm, norm, qmc, t
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from skgpx import PLSRegressor
from skgpx._hyperparameters import StudentPrior
from skgpx.kernels import Prior
from skgpx.likelihoods import Gaussian, StudentT

N_SIMULATIONS = 12
N_STATES = 24

# ---- Simulation-based calibration ----------------------------------------------------


@pytest.mark.usefixtures("every_state")
def test_ranks_of_true_hyperparameters_are_uniform():
    # hyperparameters drawn from their priors, y drawn given them: the rank of the true
    # one among states of the posterior is uniform
    amplitude = lognorm(1.0, scale=1.0)
    length_scale = lognorm(0.8, scale=1.5)
    noise = lognorm(1.0, scale=0.1)
    kernel = ConstantKernel(1.0, Prior(amplitude)) * RBF(1.0, Prior(length_scale))
    kernel = kernel + WhiteKernel(0.1, Prior(noise))
    n = 12
    ranks = []
    for seed in range(N_SIMULATIONS):
        rng = np.random.default_rng(seed)
        truth = [
            prior.rvs(random_state=rng) for prior in (amplitude, length_scale, noise)
        ]
        X = rng.uniform(-3.0, 3.0, (n, 1))
        K = truth[0] * RBF(truth[1])(X) + truth[2] * np.eye(n)
        y = np.linalg.cholesky(K) @ rng.standard_normal(n)
        model = PLSRegressor(kernel, normalize_y=False, random_state=seed).fit(X, y)
        states = model.hyperparameter_states_
        weights = np.array([state.weight for state in states])
        values = [
            [
                state.kernel.k1.constant_value,
                state.kernel.k2.length_scale,
                float(state.likelihood.noise_variance),
            ]
            for state in states
        ]
        smaller = np.round(N_STATES * (weights @ (np.array(values) < truth)))
        # a number between 0 and 24, made continuous
        ranks.append((smaller + rng.random(3)) / (N_STATES + 1))
    for ranks_of_parameter in np.transpose(ranks):
        assert kstest(ranks_of_parameter, "uniform").pvalue > 1e-3


# ---- The prior of amplitudes ---------------------------------------------------------


def test_the_prior_of_amplitudes_is_a_density():
    prior = StudentPrior(1.0, 1.5, degrees=4.0)
    total, error = integrate.quad(
        lambda log_amplitude: np.exp(prior.log_density(log_amplitude)),
        -np.inf,
        np.inf,
    )
    assert abs(total - 1.0) < 1e-6 + error
    values = np.linspace(-8.0, 12.0, 41)
    assert_allclose(prior.log_density(values), t(4.0, 1.0, 1.5).logpdf(values))
    normal = StudentPrior(1.0, 1.5)
    assert_allclose(normal.log_density(values), norm(1.0, 1.5).logpdf(values))
    step = 1e-5
    for density in (prior, normal):
        rise = density.log_density(values + step) - density.log_density(values - step)
        assert_allclose(density.slope(values), rise / (2.0 * step), atol=1e-6)


def test_the_prior_of_amplitudes_has_heavy_tails():
    # a cubic polynomial with little noise, of which the amplitude is large
    X = 2.0 * qmc.Sobol(2, rng=0).random(32) - 1.0
    f = X[:, 0] ** 3 - 2.0 * X[:, 0] * X[:, 1] + X[:, 1] ** 2
    noise = 0.01 * np.random.default_rng(0).standard_normal(32)
    y = (f - f.mean()) / f.std() + noise
    model = PLSRegressor(
        normalize_y=False,
        hyperparameters="maximise",
        random_state=0,
    ).fit(X, y)
    kernel = model.kernel_ + WhiteKernel(float(model.noise_variance_))
    process = GaussianProcessRegressor(kernel, alpha=0.0, optimizer=None).fit(X, y)
    theta = kernel.theta
    slope = process.log_marginal_likelihood(theta, eval_gradient=True)[1][0]
    assert kernel.hyperparameters[0].name.endswith("constant_value")
    z = (theta[0] - 1.0) / 1.5
    assert z > 2.0
    # slopes of the evidence and of the log prior cancel
    assert slope == pytest.approx(5.0 * z / (4.0 + z**2) / 1.5, abs=0.05)
    # a normal prior would be steeper
    assert slope < 0.7 * z / 1.5


# ---- Tails chosen by few rows --------------------------------------------------------


def test_tails_of_few_rows_are_those_of_the_data():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (80, 1))
    noise = 0.1 * rng.standard_normal(80)
    y = np.sin(2.0 * X[:, 0]) + noise
    normal = PLSRegressor(random_state=0).fit(X, y)
    assert type(normal.likelihood_) is Gaussian
    assert len(normal.hyperparameter_states_) > 1
    given = PLSRegressor(likelihood=Gaussian(), random_state=0).fit(X, y)
    assert_allclose(normal.predict(X), given.predict(X), rtol=0.0, atol=0.0)
    y[:12] += 14.0 * noise[:12]
    # a few outliers of 40 rows suffice
    for rows in (slice(0, 80), slice(6, 46)):
        heavy = PLSRegressor(random_state=0).fit(X[rows], y[rows])
        noise = getattr(heavy.likelihood_, "base", heavy.likelihood_)
        assert type(noise) is StudentT
        assert len(heavy.hyperparameter_states_) > 1
