import numpy as np
import pytest

from skgpx._numerics.langevin import (
    between_runs,
    effective_sample_size,
    split_r_hat,
)

LARGEST_Z = 4.5


def autoregressive(rng, correlation, p, length, s):
    """Stationary AR(1) chains with variance one, (p, length, s)."""
    x = np.empty((p, length, s))
    x[:, 0] = rng.standard_normal((p, s))
    innovation = np.sqrt(1.0 - correlation**2)
    for t in range(1, length):
        noise = rng.standard_normal((p, s))
        x[:, t] = correlation * x[:, t - 1] + innovation * noise
    return x


def sums(x):
    """Totals and squares of both halves, and their length."""
    p, length, s = x.shape
    halves = x.reshape(p, 2, length // 2, s).transpose(1, 0, 2, 3)
    return halves.sum(axis=2), (halves**2).sum(axis=2), length // 2


def textbook_split_r_hat(x):
    """Gelman et al., Bayesian Data Analysis, 3rd edition, section 11.4."""
    p, length, s = x.shape
    n = length // 2
    half_chains = x.reshape(p, 2, n, s).transpose(0, 1, 3, 2).reshape(p, 2 * s, n)
    W = half_chains.var(axis=2, ddof=1).mean(axis=1)
    B = n * half_chains.mean(axis=2).var(axis=1, ddof=1)
    return np.sqrt(((n - 1) / n * W + B / n) / W)


@pytest.mark.parametrize("shift", [0.0, 1e3])
def test_split_r_hat_is_the_textbook_formula(rng, shift):
    x = autoregressive(rng, 0.7, 3, 40, 8)
    x[1] += np.linspace(0.0, 3.0, 40)[:, np.newaxis]  # drifts
    x[2] += 2.0 * rng.standard_normal(8)  # chains apart
    x += shift
    expected = textbook_split_r_hat(x)
    assert expected[1] > 1.3
    assert expected[2] > 1.5
    np.testing.assert_allclose(split_r_hat(*sums(x)), expected, rtol=1e-9)


@pytest.mark.parametrize("value", [0.0, 1.0, 0.1, 1e8 / 3.0, 1e-8 / 3.0])
def test_stuck_chains_give_infinity(rng, value):
    x = autoregressive(rng, 0.5, 3, 20, 6)
    x[1] = value
    x[2] = value * np.arange(1.0, 7.0)  # each chain stuck elsewhere
    r_hat = split_r_hat(*sums(x))
    assert np.isfinite(r_hat[0])
    assert np.all(np.isinf(r_hat[1:]))


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.9, -0.4])
def test_effective_sample_size_of_an_autoregression(rng, correlation):
    length, s, a = 200, 2000, correlation
    x = autoregressive(rng, correlation, 2, length, s)
    size = effective_sample_size(*sums(x))
    # Var(mean) = (1/T) [(1+a)/(1-a) - 2a(1-a^T) / (T (1-a)²)]
    variance = (1 + a) / (1 - a) - 2 * a * (1 - a**length) / (length * (1 - a) ** 2)
    expected = min(s * length / variance, s * length)
    # the variance of s independent means has relative standard error √(2 / (s-1))
    z = (size / expected - 1.0) / np.sqrt(2.0 / (s - 1.0))
    assert np.all(z < LARGEST_Z)
    if correlation >= 0.0:
        assert np.all(z > -LARGEST_Z)
    assert np.all(size <= s * length)


def test_a_single_chain_counts_as_one(rng):
    x = autoregressive(rng, 0.2, 3, 20, 1)
    np.testing.assert_array_equal(effective_sample_size(*sums(x)), 1.0)


@pytest.mark.parametrize("correlation", [0.0, 0.5])
def test_independent_runs_know_their_effective_size(rng, correlation):
    # b runs of s particles, each run with a common part: ess = b / (correlation + ...)
    p, b, s = 4000, 4, 100
    common = np.sqrt(correlation) * rng.standard_normal((p, b, 1))
    x = common + np.sqrt(1.0 - correlation) * rng.standard_normal((p, b, s))
    r_hat, size = between_runs(x)
    within, spread = 1.0 - correlation, correlation + (1.0 - correlation) / s
    # 1 / size is b W / V upside down: its mean over p coordinates is known
    scores = (np.mean(1.0 / size) * b * within / spread - 1.0) * np.sqrt(p * 1.5)
    assert abs(scores) < LARGEST_Z
    expected = np.sqrt((s - 1) / s + spread / within)
    assert abs(np.mean(r_hat**2) / expected**2 - 1.0) < 0.1


def test_runs_that_never_moved_disagree(rng):
    x = np.broadcast_to(rng.standard_normal((2, 4, 1)), (2, 4, 50))
    r_hat, size = between_runs(x)
    assert np.all(r_hat > 1e6)
    np.testing.assert_allclose(size, 0.0, atol=1e-9)
