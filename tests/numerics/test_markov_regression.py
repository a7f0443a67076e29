"""Regression on Markov processes, against dense matrices."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal
from sklearn.gaussian_process.kernels import Matern

from skgpx._numerics.markov_regression import (
    MarkovRows,
    MaternProcess,
    draw_between,
    markov_evidence,
    markov_posterior,
)
from skgpx._numerics.state_space import STATES, stationary, transition

orders = pytest.mark.parametrize("nu", STATES)
counts = pytest.mark.parametrize("m", [0, 1, 3])


def functions(x, m):
    return np.column_stack([np.ones(len(x)), np.cos(3.0 * x), x])[:, :m]


def problem(m, n=25, closest=1e-7):
    rng = np.random.default_rng(n)
    knots = np.sort(rng.uniform(0.0, 5.0, n))
    knots[n // 2] = knots[n // 2 - 1] + closest
    precision = rng.integers(1, 4, n) / 0.05
    values = rng.standard_normal(n)
    return MarkovRows(knots, precision, values, functions(knots, m))


def kernel(process, x, z):
    k = Matern(process.length_scale, nu=process.nu)
    return process.amplitude * k(x[:, np.newaxis], z[:, np.newaxis])


def dense(process, rows, x):
    """Mean and covariance at x, and the log evidence."""
    m = rows.features.shape[1]
    phi = functions(x, m)
    K = kernel(process, rows.knots, rows.knots) + rows.features @ rows.features.T
    K += np.diag(1.0 / rows.precision)
    cross = kernel(process, x, rows.knots) + phi @ rows.features.T
    prior = kernel(process, x, x) + phi @ phi.T
    mean = cross @ np.linalg.solve(K, rows.values)
    covariance = prior - cross @ np.linalg.solve(K, cross.T)
    law = multivariate_normal(np.zeros(len(K)), K)
    return mean, covariance, law.logpdf(rows.values)


@orders
@counts
def test_everything_is_that_of_the_dense_process(nu, m):
    process, rows = MaternProcess(nu, 1.7, 0.6), problem(m)
    rng = np.random.default_rng(1)
    x = np.concatenate((rng.uniform(-2.0, 7.0, 30), rows.knots[[0, 3, -1]]))
    mean, covariance, evidence = dense(process, rows, x)
    found = markov_posterior(process, rows)
    assert found.log_evidence == pytest.approx(evidence, rel=1e-10)
    assert markov_evidence(process, rows) == pytest.approx(evidence, rel=1e-10)
    at = found.at(x, functions(x, m))
    assert_allclose(at[0], mean, atol=1e-9)
    assert_allclose(at[1], np.diagonal(covariance), atol=1e-10)
    assert_allclose(found.joint(x, functions(x, m)), covariance, atol=1e-10)


@orders
@counts
def test_the_score_is_the_derivative_of_the_evidence(nu, m):
    rows, theta, step = problem(m), np.log([1.7, 0.6, 1.0]), 1e-5

    def value(theta):
        a, scale, noise = np.exp(theta)
        process = MaternProcess(nu, a, scale)
        return markov_posterior(
            process, rows._replace(precision=rows.precision / noise)
        )

    score = value(theta).score
    for i in range(3):
        e = step * np.eye(3)[i]
        rise = value(theta + e).log_evidence - value(theta - e).log_evidence
        assert score[i] == pytest.approx(rise / (2.0 * step), rel=1e-5, abs=1e-5)


@orders
@pytest.mark.parametrize("scale", [1e-12, 1e-6, 1e6, 1e12])
def test_steps_of_any_size_and_little_noise_stay_finite(nu, scale):
    rows = problem(1)
    rows = rows._replace(knots=scale * rows.knots, precision=1e8 * rows.precision)
    found = markov_posterior(MaternProcess(nu, 1.0, 1.0), rows)
    assert np.isfinite(found.log_evidence)
    assert np.all(np.isfinite(found.score))
    x = scale * np.linspace(-1.0, 6.0, 20)
    mean, variance = found.at(x, functions(x, 1))
    assert np.all(np.isfinite(mean))
    assert np.all(variance >= 0.0)


@orders
def test_one_knot(nu):
    process = MaternProcess(nu, 1.7, 0.6)
    rows = MarkovRows(np.zeros(1), np.full(1, 4.0), np.ones(1), np.empty((1, 0)))
    x = np.array([-1.0, 0.0, 0.3])
    mean, covariance, evidence = dense(process, rows, x)
    found = markov_posterior(process, rows)
    assert found.log_evidence == pytest.approx(evidence)
    assert_allclose(found.at(x, np.empty((3, 0)))[0], mean)
    assert_allclose(found.joint(x, np.empty((3, 0))), covariance, atol=1e-14)


def joint_states(process, x):
    """Prior covariance of the states at x, (k p, k p)."""
    p, k = process.n_states, len(x)
    out, A, Q = np.empty((k, p, k, p)), np.empty((p, p)), np.empty((p, p))
    for i in range(k):
        for j in range(i, k):
            transition((x[j] - x[i]) * process.rate, A, Q)
            out[j, :, i] = process.amplitude * A @ stationary(p)
            out[i, :, j] = out[j, :, i].T
    return out.reshape(k * p, k * p)


def assert_law(draws, mean, covariance, z=4.5):
    """z-scores of the moments of normal draws (k, s)."""
    s = draws.shape[1]
    spread = np.sqrt(np.diagonal(covariance))
    assert np.all(np.abs(draws.mean(axis=1) - mean) < z * spread / np.sqrt(s) + 1e-12)
    off = draws - mean[:, np.newaxis]
    error = np.sqrt((covariance**2 + np.outer(spread, spread) ** 2) / s)
    assert np.all(np.abs(off @ off.T / s - covariance) < z * error + 1e-12)


@orders
def test_states_at_the_knots_have_the_posterior_law(nu):
    process, rows = MaternProcess(nu, 1.7, 0.6), problem(0, n=6, closest=1e-3)
    p, n = process.n_states, len(rows.knots)
    prior = joint_states(process, rows.knots)
    values = slice(0, n * p, p)
    gain = np.linalg.solve(
        prior[values, values] + np.diag(1.0 / rows.precision), prior[values]
    ).T
    rng = np.random.default_rng(0)
    found = markov_posterior(process, rows)
    states = found.draw_states(np.empty((0, 4000)), rng).reshape(n * p, -1)
    assert_law(states, gain @ rows.values, prior - gain @ prior[values])


@orders
def test_states_between_others_have_the_law_that_these_leave(nu):
    process, times = MaternProcess(nu, 1.7, 0.6), np.array([0.0, 0.5, 2.0])
    # two in one gap, and beyond either end
    x = np.array([-0.4, 0.1, 0.3, 1.9, 2.5])
    p, s, rng = process.n_states, 4000, np.random.default_rng(0)
    everything = np.concatenate((times, x))
    order = np.argsort(everything)
    ordered = joint_states(process, everything[order]).reshape(8, p, 8, p)
    joint = np.empty_like(ordered)
    for i in range(8):
        for j in range(8):
            joint[order[i], :, order[j]] = ordered[i, :, j]
    joint = joint.reshape(8 * p, 8 * p)
    states = np.linalg.cholesky(joint[: 3 * p, : 3 * p]) @ rng.standard_normal(
        (3 * p, 1)
    )
    states = states.reshape(3, p, 1)
    at = np.searchsorted(times, x)
    known = [np.repeat(states[np.clip(at + i, 0, 2)], s, axis=2) for i in (-1, 0)]
    drawn = draw_between(process, times, x, tuple(known), rng).reshape(5 * p, s)
    gain = np.linalg.solve(joint[: 3 * p, : 3 * p], joint[: 3 * p, 3 * p :]).T
    covariance = joint[3 * p :, 3 * p :] - gain @ joint[: 3 * p, 3 * p :]
    assert_law(drawn, gain @ states.ravel(), covariance)
