"""Evidence of waves: the dense process, finite differences, blocks and weights."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import multivariate_normal

from skgpx._numerics import wave_evidence as module
from skgpx._numerics.regression import log_evidence_gradient
from skgpx._numerics.wave_evidence import Waves, wave_gradient
from skgpx.bases import Fourier
from tests.numerics.conftest import slopes


def problem(rng, n=30, R=6, d=3, noise=0.2):
    X, y = rng.normal(size=(n, d)), rng.normal(size=n)
    waves = Waves(rng.normal(size=(R, d)), rng.uniform(0.2, 0.6, R), noise)
    return X, y, rng.integers(1, 4, n).astype(float), waves


@pytest.mark.parametrize("noise", [1e-3, 0.2, 5.0])
@pytest.mark.parametrize(("n", "R", "d"), [(30, 6, 3), (5, 8, 1), (1, 1, 2)])
def test_is_that_of_the_dense_process(rng, n, R, d, noise):
    X, y, _, waves = problem(rng, n, R, d, noise)
    lags = X[:, np.newaxis] - X
    K = np.cos(lags @ waves.frequencies.T) @ waves.amplitudes**2
    K += noise * np.eye(n)
    expected = multivariate_normal(np.zeros(n), K).logpdf(y)
    found = wave_gradient(X, y, np.ones(n), waves)
    assert_allclose(found.value, expected, rtol=1e-10)


@pytest.mark.parametrize("n", [30, 41])
def test_finite_differences(rng, n, monkeypatch):
    monkeypatch.setattr(module, "_BLOCK", 40)
    X, y, weights, waves = problem(rng, n)
    found = wave_gradient(X, y, weights, waves, inputs=True)

    def by_wave(W):
        return wave_gradient(X, y, weights, waves._replace(frequencies=W)).value

    def by_input(X):
        return wave_gradient(X, y, weights, waves).value

    for got, function, at in (
        (found.frequencies, by_wave, waves.frequencies),
        (found.inputs, by_input, X),
    ):
        expected = slopes(function, at)
        assert_allclose(got, expected, atol=1e-7 * np.abs(expected).max())


@pytest.mark.parametrize("n", [30, 41])
def test_pairs_by_finite_differences_and_as_single_waves(rng, n, monkeypatch):
    monkeypatch.setattr(module, "_BLOCK", 40)
    X, y, weights, waves = problem(rng, n)
    Y, noises = np.column_stack((y, y**2)), np.array([0.2, 0.5])
    pairs = waves._replace(
        frequencies=rng.normal(size=(6, 2, 3)), noise_variance=noises
    )
    found = wave_gradient(X, Y, weights, pairs, inputs=True)

    def by_wave(W):
        return wave_gradient(X, Y, weights, pairs._replace(frequencies=W)).value

    def by_input(X):
        return wave_gradient(X, Y, weights, pairs).value

    for got, function, at in (
        (found.frequencies, by_wave, pairs.frequencies),
        (found.inputs, by_input, X),
    ):
        expected = slopes(function, at)
        assert_allclose(got, expected, atol=1e-7 * np.abs(expected).max())
    # equal frequencies are a wave, at which the slope of the difference vanishes
    equal = waves._replace(frequencies=waves.frequencies[:, np.newaxis].repeat(2, 1))
    single = wave_gradient(X, y, weights, waves, inputs=True)
    both = wave_gradient(X, y, weights, equal, inputs=True)
    assert_allclose(both.value, single.value, rtol=1e-12)
    assert_allclose(both.frequencies.sum(axis=1), single.frequencies, atol=1e-9)
    assert_allclose(*both.frequencies.swapaxes(0, 1), atol=1e-9)
    assert_allclose(both.inputs, single.inputs, atol=1e-9)


@pytest.mark.parametrize(
    ("n", "R"),
    [(30, 6), (2047, 6), (2048, 6), (2049, 6), (90, 31), (90, 32), (90, 33), (90, 65)],
)
def test_agrees_with_the_gradient_in_any_basis(rng, n, R):
    """Around the sizes of blocks of rows, and of features factored by halves."""
    X, y, weights, waves = problem(rng, n, R)
    features = Fourier(waves.frequencies, waves.amplitudes)(X)
    how = np.zeros(n), waves.noise_variance
    expected = log_evidence_gradient(features, y, weights, *how)
    (cosines, sines), (G, H) = (np.hsplit(a, 2) for a in (features, expected.features))
    pulled = (H * cosines - G * sines).T @ X
    found = wave_gradient(X, y, weights, waves)
    assert_allclose(found.value, expected.value, rtol=1e-10)
    assert_allclose(found.frequencies, pulled, rtol=1e-7, atol=1e-8)


def test_a_workspace_changes_no_bit(rng):
    X, y, weights, waves = problem(rng)
    space = waves.workspace(len(y))
    for memory in space:
        memory[:] = np.nan
    expected = wave_gradient(X, y, weights, waves, inputs=True)
    for _ in range(2):
        found = wave_gradient(X, y, weights, waves, space, inputs=True)
        for one, other in zip(found, expected, strict=True):
            assert_array_equal(one, other)
