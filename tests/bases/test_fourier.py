"""Paired waves as a basis: features, weights, derivatives, draws."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, ExpSineSquared, Matern

from skgpx.bases import Fourier

SCALES = {
    "one": 1.0,
    "shared": 0.7,
    "array": np.array([0.7]),
    "ard": np.array([0.7, 2]),
}
scales = pytest.mark.parametrize("scale", SCALES.values(), ids=SCALES.keys())


def make(scale=1.0, R=6, d=2, tail=0.0):
    rng = np.random.default_rng(4)
    return Fourier(rng.normal(size=(R, d)), rng.uniform(0.2, 1.0, R), scale, tail)


@pytest.fixture
def X():
    return np.random.default_rng(1).normal(size=(15, 2))


@scales
def test_features_are_cosines_and_sines(scale, X):
    basis = make(scale)
    phases = X @ (basis.frequencies / scale).T
    expected = np.hstack((np.cos(phases), np.sin(phases))) * np.tile(
        basis.amplitudes, 2
    )
    assert basis.n_basis == 12
    assert_allclose(basis(X), expected, atol=1e-13)
    assert_allclose(np.vstack([basis(x[None]) for x in X]), basis(X), atol=1e-14)


@pytest.mark.parametrize("tail", [0.0, 0.3])
def test_features_and_residual_make_the_covariance(tail, X):
    basis = make(tail=tail)
    features = basis(X)
    total = features @ features.T + basis.residual_covariance(X, features)
    lags = X[:, np.newaxis] - X
    expected = np.cos(lags @ basis.frequencies.T) @ basis.amplitudes**2
    assert_allclose(total, expected + tail * np.eye(15), atol=1e-13)
    variance = basis.residual_variance(X, features)
    assert_array_equal(variance, np.full(15, tail))


@pytest.mark.parametrize(
    "kernel",
    [2.0 * RBF([0.7, 1.6]), Matern(0.9, nu=1.5), ConstantKernel(0.5) * RBF(2.0) ** 2],
    ids=str,
)
def test_kernels_are_right_on_average(kernel, X):
    rng = np.random.default_rng(0)
    bases = [Fourier.from_kernel(kernel, 64, 2, rng) for _ in range(60)]
    runs = np.array([basis(X) @ basis(X).T for basis in bases])
    error = runs.std(axis=0, ddof=1) / np.sqrt(len(runs))
    difference = np.abs(runs.mean(axis=0) - kernel(X))
    assert np.all(difference < 4.5 * error + 1e-12)
    assert_allclose(runs[:, 0, 0], kernel(X[:1])[0, 0], rtol=1e-12)


def test_a_periodic_kernel_is_exact():
    kernel = 3.0 * ExpSineSquared(0.8, 1.3)
    x = np.linspace(-2.0, 2.0, 30)[:, np.newaxis]
    basis = Fourier.from_kernel(kernel, 4, 1, np.random.default_rng(0))
    assert_allclose(basis(x) @ basis(x).T, kernel(x), atol=1e-11)
