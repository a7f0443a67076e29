"""Evidence of waves: the dense process, finite differences, blocks and weights."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal

from skgpx._numerics import wave_evidence as module
from skgpx._numerics.regression import log_evidence_gradient
from skgpx._numerics.wave_evidence import (
    WaveRows,
    Waves,
    wave_evidence,
    wave_gradient,
)
from skgpx.bases import Fourier

STEP = 1e-5


def problem(rng, n=30, R=6, d=3, noise=0.2):
    X, y = rng.normal(size=(n, d)), rng.normal(size=n)
    waves = Waves(rng.normal(size=(R, d)), rng.uniform(0.2, 0.6, R), noise)
    return X, y, waves


def dense(X, y, waves):
    """Log density under the covariance ``Σ a² cos(ω(x - x')) + σ²``."""
    lags = X[:, np.newaxis] - X
    K = np.cos(lags @ waves.frequencies.T) @ waves.amplitudes**2
    K += waves.noise_variance * np.eye(len(y))
    return multivariate_normal(np.zeros(len(y)), K).logpdf(y)


def slope(function, values):
    """Central differences in every entry of an array."""
    out = np.empty_like(values)
    for index in np.ndindex(values.shape):
        step = np.zeros_like(values)
        step[index] = STEP
        out[index] = (function(values + step) - function(values - step)) / (2.0 * STEP)
    return out


def ones(X, y):
    return WaveRows.of(X, y, np.ones(len(y)))


@pytest.mark.parametrize("noise", [1e-3, 0.2, 5.0])
@pytest.mark.parametrize(("n", "R", "d"), [(30, 6, 3), (5, 8, 1), (1, 1, 2)])
def test_is_that_of_the_dense_process(rng, n, R, d, noise):
    X, y, waves = problem(rng, n, R, d, noise)
    expected = dense(X, y, waves)
    assert_allclose(wave_evidence(ones(X, y), waves), expected, rtol=1e-10)
    assert_allclose(wave_gradient(ones(X, y), waves).value, expected, rtol=1e-10)


def test_frequencies(rng):
    X, y, waves = problem(rng)
    gradient = wave_gradient(ones(X, y), waves).frequencies

    def value(W):
        return wave_evidence(ones(X, y), waves._replace(frequencies=W))

    expected = slope(value, waves.frequencies)
    assert_allclose(gradient, expected, atol=1e-7 * np.abs(expected).max())


def test_lengthscales_variance_and_noise(rng):
    X, y, waves = problem(rng)
    gradient = wave_gradient(ones(X, y), waves)

    def value(theta):
        return wave_evidence(
            ones(X, y),
            Waves(
                waves.frequencies / np.exp(theta[:3]),
                waves.amplitudes * np.exp(0.5 * theta[3]),
                waves.noise_variance * np.exp(theta[4]),
            ),
        )

    expected = slope(value, np.zeros(5))
    lengths = gradient.log_length_scales(waves.frequencies)
    got = [*lengths, gradient.log_variance, gradient.log_noise]
    assert_allclose(got, expected, atol=1e-7 * np.abs(expected).max())


@pytest.mark.parametrize("n", [30, 41])
def test_inputs(rng, n, monkeypatch):
    monkeypatch.setattr(module, "_BLOCK", 40)
    X, y, waves = problem(rng, n)
    weights = rng.integers(1, 4, n).astype(float)

    def value(X):
        return wave_evidence(WaveRows.of(X, y, weights), waves)

    rows = WaveRows.of(X, y, weights)
    got = wave_gradient(rows, waves, inputs=True).inputs
    expected = slope(value, X)
    assert_allclose(got, expected, atol=1e-7 * np.abs(expected).max())


def test_agrees_with_the_gradient_in_any_basis(rng):
    X, y, waves = problem(rng)
    weights = rng.uniform(0.5, 2.0, len(y))
    basis = Fourier(waves.frequencies, waves.amplitudes)
    features = basis(X)
    nothing = np.zeros(len(y))
    found = log_evidence_gradient(features, y, weights, nothing, waves.noise_variance)
    pulled = basis.pullback(X, found.features, features)
    gradient = wave_gradient(WaveRows.of(X, y, weights), waves)
    assert_allclose(gradient.value, found.value, rtol=1e-12)
    assert_allclose(gradient.frequencies, pulled.frequencies, rtol=1e-9, atol=1e-11)
    by_size = np.sum(pulled.log_amplitudes) / 2.0
    assert_allclose(gradient.log_variance, by_size, rtol=1e-9)
    assert_allclose(gradient.log_noise, found.parameters[0], rtol=1e-9)


@pytest.mark.parametrize("n", [39, 40, 41, 80, 85])
def test_blocks_of_rows_change_nothing(rng, n, monkeypatch):
    X, y, waves = problem(rng, n)
    rows = WaveRows.of(X, y, rng.uniform(0.5, 2.0, n))
    whole = wave_gradient(rows, waves, inputs=True)
    monkeypatch.setattr(module, "_BLOCK", 40)
    assert len(list(rows.blocks())) == -(-n // 40)
    parts = wave_gradient(rows, waves, inputs=True)
    for one, other in zip(whole, parts, strict=True):
        assert_allclose(one, other, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize(
    ("n", "R"),
    [(2047, 6), (2048, 6), (2049, 6), (90, 31), (90, 32), (90, 33), (90, 65)],
)
def test_sizes_around_those_of_blocks(rng, n, R):
    """Of rows, and of features whose factor is taken by halves."""
    X, y, waves = problem(rng, n, R)
    gradient = wave_gradient(ones(X, y), waves)
    features = Fourier(waves.frequencies, waves.amplitudes)
    nothing = np.zeros(n)
    Phi = features(X)
    found = log_evidence_gradient(Phi, y, nothing + 1.0, nothing, waves.noise_variance)
    pulled = features.pullback(X, found.features, Phi).frequencies
    assert_allclose(gradient.frequencies, pulled, rtol=1e-7, atol=1e-8)
    assert_allclose(gradient.log_noise, found.parameters[0], rtol=1e-8)


def test_a_workspace_changes_no_bit(rng):
    X, y, waves = problem(rng)
    rows = ones(X, y)
    space = waves.workspace(len(y))
    for memory in space:
        memory[:] = np.nan
    for _ in range(2):
        one = wave_gradient(rows, waves, space, inputs=True)
        other = wave_gradient(rows, waves, inputs=True)
        for a, b in zip(one, other, strict=True):
            np.testing.assert_array_equal(a, b)


def test_a_weight_is_as_many_rows(rng):
    X, y, waves = problem(rng, 10)
    times = rng.integers(1, 4, 10)
    repeated = ones(np.repeat(X, times, axis=0), np.repeat(y, times))
    weighted = WaveRows.of(X, y, times.astype(float))
    found = wave_gradient(repeated, waves, inputs=True)
    expected = wave_gradient(weighted, waves, inputs=True)
    for one, other in zip(found[:-1], expected[:-1], strict=True):
        assert_allclose(one, other, rtol=1e-9, atol=1e-10)
    # a row of weight k moves k repetitions
    each = times[:, np.newaxis] * found.inputs[np.cumsum(times) - 1]
    assert_allclose(each, expected.inputs, rtol=1e-9, atol=1e-10)


def test_the_origin_does_not_matter(rng):
    X, y, waves = problem(rng)
    here, there = wave_gradient(ones(X, y), waves), wave_gradient(ones(X + 7, y), waves)
    assert_allclose(here.value, there.value, rtol=1e-12)
    assert_allclose(here.frequencies, there.frequencies, rtol=1e-8, atol=1e-9)
