"""Errors of the covariance of draws, by which their frequencies are chosen."""

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import DotProduct, Matern

from skgpx._draws._frequencies import HeldOutErrors, choose_frequencies
from skgpx._draws._prior import decompose
from skgpx.bases import Conditioning

X = np.random.default_rng(0).random((40, 2))
KERNEL = Matern(0.4, nu=1.5) + DotProduct(0.3)
NOISE = np.linspace(1e-3, 0.1, 40)


def known(n=40):
    root = np.linalg.cholesky(KERNEL(X[:n]) + np.diag(NOISE[:n]))
    return Conditioning(X[:n], NOISE[:n], root)


def test_exact_covariance_is_that_of_the_functionals():
    errors = HeldOutErrors(KERNEL, known(), np.random.default_rng(1))
    a = errors.functionals
    expected = a @ KERNEL(errors.points) @ a.T + errors.noise
    np.testing.assert_allclose(errors.exact, expected, rtol=1e-7, atol=1e-10)
    # draws whose features are exact
    (linear,) = decompose(DotProduct(0.3), 2)
    exact = Matern(0.4, nu=1.5)(errors.points)
    drawn = errors.covariance([(1.0, linear.feature_map(1, 1.0, None))])
    assert errors.misfit(drawn + a @ exact @ a.T) == pytest.approx((0.0, 0.0), abs=1e-6)


def test_variances_are_those_of_leaving_one_out():
    errors = HeldOutErrors(KERNEL, known(), np.random.default_rng(1))
    held_out = np.random.default_rng(1).permutation(40)[:32]
    for i, variance in zip(held_out, np.diagonal(errors.exact), strict=False):
        others = np.delete(np.arange(40), i)
        k = KERNEL(X[[i]], X[others])
        C = KERNEL(X[others]) + np.diag(NOISE[others])
        left = KERNEL.diag(X[[i]])[0] - k @ np.linalg.solve(C, k.T)
        assert variance == pytest.approx(left.item(), rel=1e-6)


def test_dense_data_get_more_high_frequencies_than_none():
    rng, dense = np.random.default_rng(0), np.linspace(0.0, 1.0, 200)[:, np.newaxis]
    kernel = Matern(0.3, nu=2.5)
    root = np.linalg.cholesky(kernel(dense) + 1e-4 * np.eye(200))
    parts = decompose(kernel, 1)
    n, power, _ = choose_frequencies(
        kernel, parts, "auto", Conditioning(dense, 1e-4, root), rng
    )
    assert power > 1.0
    assert 128 <= n <= 4096
    assert choose_frequencies(kernel, parts, "auto", None, rng)[:2] == (1024, 1.0)
