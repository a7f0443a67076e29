import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from skgpx._hyperparameters import row_target
from skgpx._numerics import langevin
from skgpx._pls import _langevin, _tempering
from skgpx._pls._signs import of_both_signs, upright
from skgpx._shell.validation import Rows
from skgpx.likelihoods import Gaussian, Poisson
from tests.numerics.conftest import moment_scores

LARGEST_Z = 4.5


def make_target(likelihood, features, y, **optimal):
    y = np.asarray(y, dtype=np.float64)
    rows = Rows(features, y, np.ones(len(y)))
    return row_target(features, rows, likelihood.prepare(y), **optimal)


def gaussian_problem(rng, m=3, n=12, noise=0.3):
    """Row target, mean and covariance of its posterior, and the log evidence."""
    features = rng.standard_normal((n, m))
    y = features @ rng.standard_normal(m) + 0.5 * rng.standard_normal(n)
    covariance = np.linalg.inv(np.eye(m) + features.T @ features / noise)
    mean = covariance @ features.T @ y / noise
    K = features @ features.T + noise * np.eye(n)
    evidence = multivariate_normal(np.zeros(n), K).logpdf(y)
    target = make_target(Gaussian(noise_variance=noise), features, y)
    return target, mean, covariance, evidence


def run(target, z, rng, scheme=None, **settings):
    settings = {"max_iter": 100, "tol": 1.05, "n_jobs": None, **settings}
    scheme = scheme or langevin.ornstein_uhlenbeck(0.5)
    return _langevin.run_chains(target, z, scheme, rng, **settings)


# ---- Rounds --------------------------------------------------------------------------


def test_chains_that_start_elsewhere_go_on_until_they_agree(rng):
    target, mean, covariance, _ = gaussian_problem(rng)
    root = np.linalg.cholesky(covariance)
    target = langevin.in_coordinates(target, mean[np.newaxis], root[np.newaxis])
    z = np.linspace(-60.0, 60.0, 3000) * np.ones((1, 3, 1))
    sample = run(target, z, rng, tol=1.02, max_iter=5000)
    assert np.max(sample.r_hat) <= 1.02
    assert sample.acceptance == 1.0
    assert sample.n_iter < 5000
    energy = langevin.start(target, sample.z).energy.mean()
    assert sample.energy_curve[-1] == pytest.approx(energy, rel=1e-9)
    scores = moment_scores(sample.z[0], np.zeros(3), np.eye(3))
    assert np.max(np.abs(scores)) < LARGEST_Z


# ---- Steps ---------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["correlated", "adjusted"])
def test_steps_are_halved_until_chains_move(rng, kind):
    target, mean, covariance, _ = gaussian_problem(rng, n=20, noise=0.1)
    z = mean[:, np.newaxis] + np.linalg.cholesky(covariance) @ rng.standard_normal(
        (3, 1000)
    )
    scheme = (
        langevin.ornstein_uhlenbeck(0.2)
        if kind == "correlated"
        else langevin.euler_maruyama(0.8, metropolis=True)
    )
    fixed = run(target, z[np.newaxis], rng, scheme, max_iter=200, tol=0.0)
    sample = run(
        target, z[np.newaxis], rng, scheme, max_iter=1000, tol=0.0, adaptive=True
    )
    assert fixed.acceptance < 0.1
    assert sample.acceptance > 0.15
    scores = moment_scores(sample.z[0], mean, covariance)
    assert np.max(np.abs(scores)) < LARGEST_Z


# ---- Tempering -----------------------------------------------------------------------


def replicates(target, n_runs, n_particles, seed=0):
    streams = np.random.default_rng(seed).spawn(n_runs)
    runs = [
        _tempering.run_smc(target, n_particles, stream, n_jobs=None)
        for stream in streams
    ]
    return [(run.z, logsumexp(evidences) - np.log(4.0)) for run, evidences in runs]


def test_reports_of_tempering_are_in_the_coordinates_of_the_weights(rng):
    target, *_ = gaussian_problem(rng)
    reports = []

    def report(sample):
        reports.append(sample.z)
        return False

    sample, _ = _tempering.run_smc(target, 40, rng, n_jobs=None, report=report)
    assert np.array_equal(reports[-1], sample.z)


def z_score(values, truth, axis=0):
    """Of the mean of independent replicates."""
    values = np.asarray(values)
    error = values.std(axis=axis, ddof=1) / np.sqrt(values.shape[axis])
    return (values.mean(axis=axis) - truth) / error


def test_tempered_evidence_and_moments_of_a_gaussian_posterior(rng):
    target, mean, covariance, evidence = gaussian_problem(rng)
    runs = replicates(target, 16, 100)
    # the compiled potential drops log √(2πσ²) of each row
    constant = 0.5 * len(target.y) * np.log(2.0 * np.pi * 0.3)
    estimates = np.array([log - constant - evidence for _, log in runs])
    assert np.all(np.abs(estimates) < 1.5)
    # the ratio itself is unbiased
    assert abs(z_score(np.exp(estimates), 1.0)) < LARGEST_Z
    means = [z[0].mean(axis=1) for z, _ in runs]
    assert np.max(np.abs(z_score(means, mean))) < LARGEST_Z
    centred = [z[0] - mean[:, np.newaxis] for z, _ in runs]
    second = [c @ c.T / c.shape[1] for c in centred]
    assert np.max(np.abs(z_score(second, covariance))) < LARGEST_Z


# ---- Both modes of a likelihood that does not know the sign of f ---------------------

AXIS = np.linspace(-8.0, 8.0, 40_001)


def square(features, y, base):
    """Target of squared rates."""
    likelihood = Poisson("square").prepare(y).with_base(base)
    return row_target(features, Rows(features, y, np.ones(len(y))), likelihood)


def problem(base):
    """Counts of a constant function around a base, and its posterior on a grid."""
    y = np.array([1.0, 2.0, 1.0])
    features = np.array([[1.0], [0.9], [1.1]])
    target = square(features, y, base)
    energy = langevin.start(target, AXIS[np.newaxis, np.newaxis]).energy
    mass = np.exp(energy.min() - energy)
    return target, mass / mass.sum()


def draws(mass, size, rng):
    """Independent particles (1, 1, size) with this distribution on the grid."""
    return rng.choice(AXIS, size, p=mass / mass.sum())[np.newaxis, np.newaxis]


@pytest.mark.parametrize("base", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("start", ["right", "left", "both"])
def test_shares_and_moments_of_the_modes_against_quadrature(rng, base, start):
    target, mass = problem(base)
    right = -base < AXIS
    share = mass[right].sum()
    assert 0.4 < share < 1.0
    within = {"right": right, "left": ~right, "both": right | ~right}[start]
    w = draws(np.where(within, mass, 0.0), 20_000, rng)
    moved = of_both_signs(target, w, rng)[0][0, 0]
    # weights of images differ: fewer independent particles than there are
    error = np.sqrt(share * (1.0 - share) / 5000)
    assert abs(np.mean(moved > -base) - share) < 4.5 * error
    mean = mass @ AXIS
    spread = np.sqrt(mass @ (AXIS - mean) ** 2)
    assert abs(moved.mean() - mean) < 4.5 * spread / np.sqrt(5000)
    assert moved.std() == pytest.approx(spread, rel=0.06)


def test_without_a_base_signs_are_random(rng):
    target, mass = problem(0.0)
    w = draws(np.where(AXIS > 0.0, mass, 0.0), 1000, rng)
    moved = of_both_signs(target, w, rng)[0]
    # every particle is kept once, with either sign
    np.testing.assert_array_equal(np.abs(moved), np.abs(w))
    assert abs(np.mean(moved < 0.0) - 0.5) < 4.5 * 0.5 / np.sqrt(1000)


def test_a_mode_far_below_the_other_stays_empty(rng):
    y = np.full(3, 100.0)
    base = float(Poisson("square").prepare(y).base_latent_[0])
    target = square(np.ones((3, 1)), y, base)
    w = 0.1 * rng.standard_normal((1, 1, 50))
    np.testing.assert_array_equal(of_both_signs(target, w, rng)[0], w)


def test_upright_particles_differ_by_relative_signs_only(rng):
    y = np.array([9.0, 9.0, 4.0])
    target = square(np.eye(3), y, 0.0)
    signs = rng.choice([-1.0, 1.0], (3, 50))
    w = (signs * np.array([[3.0], [3.1], [2.0]]))[np.newaxis]
    found = upright(target, w)[0]
    assert np.all(found[1] > 0.0)
    np.testing.assert_array_equal(found[0] * found[2], w[0, 0] * w[0, 2])
    np.testing.assert_array_equal(upright(target, -w)[0], found)
