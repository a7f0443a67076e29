"""Bases of waves: Fourier functions of a box, and paired waves of any frequency."""

import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context
from sklearn.gaussian_process.kernels import RBF, Matern

from skgpx import SpectralVGPRegressor
from skgpx.bases import (
    Box,
    Fourier,
    FourierSeries,
    GivenEigenvalues,
    KernelEigenvalues,
    PolynomialEigenvalues,
)

LINE = Box(np.zeros(1), np.array([2.0]))
PLANE = Box(np.zeros(2), np.array([2.0, 3.0]))


def prior_covariance(basis, X):
    features = basis(X)
    return features @ features.T + basis.residual_covariance(X, features)


@pytest.mark.parametrize("m", [20, 21])
def test_variance_of_a_series_prior_is_exact(m):
    rule = PolynomialEigenvalues(2.0, 0.5)
    basis = FourierSeries.from_rule(rule, LINE, m)
    X = np.linspace(0.0, 2.0, 33)[:, np.newaxis]
    features = basis(X)
    assert features.shape == (33, m)
    residual = basis.residual_variance(X, features)
    # Σ λ φ² to a million terms
    j = np.arange(1, 10**6 + 1)
    lam = rule.spectrum(rule.index(LINE, len(j)), LINE).eigenvalues
    excess = lam[2::2] - lam[1:-1:2]
    phase = 2 * np.pi * np.outer(X[:, 0], np.arange(1, len(excess) + 1)[:2000])
    expected = lam.sum() + np.cos(phase) @ excess[:2000]
    total = np.sum(features**2, axis=1) + residual
    # the end of the sums, 1e-6 and below
    assert np.abs(total - expected).max() < 5e-6
    if m == 21:
        assert np.ptp(residual) < 1e-14


@pytest.mark.parametrize(
    ("kernel", "box"),
    [
        (2.0 * RBF(0.2), LINE),
        (Matern(0.15, nu=2.5), LINE),
        (Matern(0.2, nu=0.5), LINE),
        (RBF([0.2, 0.3]), PLANE),
    ],
)
def test_covariance_of_a_kernel(kernel, box):
    d = len(box.period)
    X = np.random.default_rng(0).random((20, d)) * (box.period - 1.0)
    basis = FourierSeries.from_rule(KernelEigenvalues(kernel), box, 31)
    covariance = prior_covariance(basis, X)
    # images at a distance of one, and waves too short to be listed
    images = kernel(np.zeros((1, d)), np.eye(d)).sum()
    bound = 1e-9 + 2.5 * images + 1e-3 * (kernel.get_params().get("nu") == 0.5)
    assert np.abs(covariance - kernel(X)).max() < bound


def test_predictions_stay_within_the_working_memory():
    """Eigenvalues of sine and cosine that differ: the residual varies over the box."""
    X = np.random.default_rng(0).uniform(size=(4000, 1))
    model = SpectralVGPRegressor(
        GivenEigenvalues(tuple(np.arange(1.0, 8001.0) ** -1.5)),
        n_basis=11,
        domain=(0.0, 1.0),
        optimizer=None,
        noise_variance=0.01,
    ).fit(X[:200], np.sin(6.0 * X[:200, 0]))
    model.predict(X[:1], return_std=True)
    with config_context(working_memory=16):
        tracemalloc.start()
        model.predict(X, return_std=True)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 18 * 2**20


# ---- Paired waves --------------------------------------------------------------------

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
