"""Logarithms of Bessel functions against SciPy's, and where SciPy's overflow."""

import numpy as np
import pytest
from scipy.special import gammaln, kve

from skgpx._numerics.special_functions import log_power_bessel_k

T = np.geomspace(1e-3, 1e4, 200)


@pytest.mark.parametrize("v", [0.0, 0.5, 1.3, 4.9, 5.0, 30.2, 99.9, 100.0, 100.1])
def test_agrees_with_scipy_where_that_is_finite(v):
    # a larger order overflows for small arguments
    with np.errstate(all="ignore"):
        expected = v * np.log(T) + np.log(kve(v, T)) - T
    known = np.isfinite(expected)
    assert known.sum() > 50
    found = log_power_bessel_k(v, T)
    np.testing.assert_allclose(found[known], expected[known], rtol=1e-13, atol=1e-11)
    turned = log_power_bessel_k(-v, T)
    np.testing.assert_allclose(turned, found - 2.0 * v * np.log(T), rtol=1e-12)


@pytest.mark.parametrize("v", [0.3, 1.0, 3.0, 4.9, 5.0, 12.0, 99.9, 100.0, 1e4])
def test_no_jump_where_scipy_overflows(v):
    # d log(tᵛ K_v) / d(t²/4) = -2 K_(v-1) / (t K_v), near zero -1/(v - 1)
    t = np.geomspace(1e-300, 0.2 * np.sqrt(v), 4000)
    logs = log_power_bessel_k(v, t)
    limit = gammaln(v) + (v - 1.0) * np.log(2.0)
    assert np.isfinite(logs).all()
    assert logs[0] == pytest.approx(limit, rel=1e-12)
    assert np.all(np.diff(logs) <= 1e-12 * (1.0 + abs(limit)))
    if v >= 12.0:
        q = 0.25 * t * t / (v - 1.0)
        assert np.all(np.abs(logs - limit + q) <= q * q + 1e-12 * abs(limit))


def test_at_zero():
    assert log_power_bessel_k(0.0, np.zeros(1))[0] == np.inf
    assert log_power_bessel_k(-0.7, np.zeros(1))[0] == np.inf
    assert log_power_bessel_k(0.5, np.zeros(1))[0] == pytest.approx(
        0.5 * np.log(np.pi / 2.0)
    )


@pytest.mark.parametrize("v", [0.0, 0.5, 7.3, 99.9, 100.0])
def test_no_jump_where_scipy_gives_up(v):
    # log(√t eᵗ K_v(t)) = log(√(π/2)) + (4v² - 1) / 8t - ...
    t = np.array([0.99e8, 1e8, 1.01e8, 1e9, 1e12])
    found = log_power_bessel_k(v, t) - v * np.log(t) + t + 0.5 * np.log(t)
    expected = 0.5 * np.log(0.5 * np.pi) + (4.0 * v * v - 1.0) / (8.0 * t)
    # the neglected term, and rounding of t itself
    assert np.all(np.abs(found - expected) < 2e-9 + 1e-15 * t)
