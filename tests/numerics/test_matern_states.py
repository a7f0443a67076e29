"""Matérn processes as linear systems, against matrix exponentials."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import expm
from sklearn.gaussian_process.kernels import Matern

from skgpx._numerics.state_space import (
    STATES,
    drift,
    noise_rate,
    stationary,
    transition,
    triangular_root,
)

DRIFTS = {
    1: np.array([[-1.0]]),
    2: np.array([[0.0, 1.0], [-1.0, -2.0]]),
    3: np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [-1.0, -3.0, -3.0]]),
}
orders = pytest.mark.parametrize("p", [1, 2, 3])
TIMES = [1e-12, 1e-6, 1e-3, 0.3, 1.0, 1.99, 2.01, 5.0, 40.0]


def moved(p, u):
    A, Q = np.empty((p, p)), np.empty((p, p))
    transition(u, A, Q)
    return A, Q


@orders
@pytest.mark.parametrize("u", TIMES)
def test_transitions_are_exponentials_of_the_drift(p, u):
    A, Q = moved(p, u)
    assert_allclose(A, expm(DRIFTS[p] * u), atol=1e-13)
    P = stationary(p)
    assert_allclose(Q, P - A @ P @ A.T, atol=1e-14)


@orders
@pytest.mark.parametrize("u", [*TIMES, 1e3, 1e12])
def test_two_steps_are_one_of_twice_the_length_to_relative_accuracy(p, u):
    A, Q = moved(p, u)
    _, twice = moved(p, 2.0 * u)
    scale = np.sqrt(np.diagonal(twice))
    assert_allclose((A @ Q @ A.T + Q) / np.outer(scale, scale),
                    twice / np.outer(scale, scale), atol=1e-14)  # fmt: skip
    assert np.all(np.isfinite(A))


@pytest.mark.parametrize("nu", STATES)
def test_the_first_entry_has_the_covariance_of_the_kernel(nu):
    p, rate = STATES[nu], np.sqrt(2.0 * nu) / 0.7
    for distance in (0.01, 0.5, 3.0):
        A, _ = moved(p, rate * distance)
        expected = Matern(0.7, nu=nu)([[0.0]], [[distance]])[0, 0]
        assert (A @ stationary(p))[0, 0] == pytest.approx(expected, rel=1e-12)


@orders
def test_rates_are_derivatives_in_time(p):
    u, step = 0.7, 1e-6
    (A, Q), (B, R) = moved(p, u - step), moved(p, u + step)
    change = np.empty((p, p))
    drift(moved(p, u)[0], change)
    assert_allclose((B - A) / (2.0 * step), change, atol=1e-9)
    c = np.empty(p)
    noise_rate(u, c)
    assert_allclose((R - Q) / (2.0 * step), np.outer(c, c), atol=1e-9)


@orders
@pytest.mark.parametrize("u", [1e-12, 1e-3, 1.0, 1e3])
def test_roots_of_any_scale(p, u):
    Q, L = moved(p, u)[1], np.empty((p, p))
    triangular_root(Q, L)
    scale = np.sqrt(np.diagonal(Q))
    ratio = (L @ L.T) / np.outer(scale, scale)
    assert_allclose(ratio, Q / np.outer(scale, scale), atol=1e-14)
    triangular_root(np.zeros((p, p)), L)
    assert not L.any()
