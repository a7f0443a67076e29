import numpy as np
import pytest
from scipy.stats import multivariate_normal

from skgpx._numerics.fourier_index import Box, by_length
from skgpx._numerics.fourier_sketch import n_bins
from skgpx._numerics.series_evidence import (
    ScaleProfile,
    Spectrum,
    noise_bounds,
    series_evidence,
)
from skgpx._numerics.series_statistics import sketched_statistics
from tests.numerics.test_fourier_gram import functions

NOISE = 0.07


@pytest.fixture
def case():
    rng = np.random.default_rng(0)
    X, w = rng.random((40, 1)), np.ones(40)
    y = np.sin(7 * X[:, 0]) + 0.2 * rng.standard_normal(40)
    box, index = Box(np.zeros(1), np.ones(1)), by_length(1, 11)
    s = sketched_statistics(X, y, w, box, 0.0, n_bins(10))
    return s.normal_equations(index), functions(index, X), y


def whitened(equations, s):
    return equations.whitened(s.eigenvalues, equations.weight * s.tail)


def spectrum(theta):
    """Any smooth eigenvalues of two parameters, with a tail."""
    j = np.arange(1.0, 12.0)
    s = np.exp(theta[1])
    return Spectrum(
        np.exp(theta[0]) * j**-s,
        np.stack([np.ones(11), -s * np.log(j)], axis=1),
        np.exp(theta[0] - 2 * theta[1]),
        np.exp(theta[0] - 2 * theta[1]) * np.array([1.0, -2.0]),
    )


def test_value_is_the_dense_bound(case):
    equations, phi, y = case
    s = spectrum([0.3, 0.5])
    K = phi @ (s.eigenvalues[:, np.newaxis] * phi.T) + NOISE * np.eye(40)
    bound = multivariate_normal(cov=K).logpdf(y) - 40 * s.tail / (2 * NOISE)
    assert series_evidence(equations, s, NOISE).value == pytest.approx(bound, rel=1e-10)


def test_gradient_by_differences(case):
    equations = case[0]

    def value(point):
        e = series_evidence(equations, spectrum(point[1:]), np.exp(point[0]))
        return e.value

    point = np.array([np.log(NOISE), 0.3, 0.5])
    e = series_evidence(equations, spectrum(point[1:]), NOISE)
    steps = 1e-5 * np.eye(3)
    slopes = [(value(point + h) - value(point - h)) / 2e-5 for h in steps]
    assert np.allclose([e.noise, *e.parameters], slopes, rtol=1e-6, atol=1e-6)


def test_underflowing_eigenvalues_do_no_harm(case):
    equations = case[0]
    s = spectrum([0.3, 0.5])
    tiny = np.where(np.arange(11) > 5, 0.0, s.eigenvalues)
    e = series_evidence(equations, s._replace(eigenvalues=tiny), NOISE)
    assert np.isfinite([e.value, e.noise, *e.parameters]).all()


def test_profile_is_the_same_bound_for_every_scale(case):
    equations = case[0]
    profile = ScaleProfile.of(whitened(equations, spectrum([0.0, 0.5])))
    for noise, scale in ((NOISE, 1.0), (0.5, 3.0), (1e-3, 0.1)):
        e = series_evidence(equations, spectrum([np.log(scale), 0.5]), noise)
        value, gradient = profile.value_and_gradient(noise, scale)
        assert value == pytest.approx(e.value, rel=1e-10)
        assert np.allclose(gradient, [e.noise, e.parameters[0]], rtol=1e-8)


def test_best_noise_variance(case):
    s = spectrum([0.3, 0.5])
    best = ScaleProfile.of(whitened(case[0], s)).best_noise_variance()
    e = series_evidence(case[0], s, best)
    assert abs(e.noise) < 1e-5
    for factor in (0.5, 0.99, 1.01, 2.0):
        assert series_evidence(case[0], s, best * factor).value < e.value


def test_noise_of_a_constant_y():
    assert np.allclose(noise_bounds(0.0, 3.0), [1e-8, 10.0])
    assert np.allclose(noise_bounds(6.0, 3.0), [2e-8, 20.0])


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8, 1e16])
@pytest.mark.parametrize("noise", [1e-10, 1e-3, 10.0])
def test_profile_is_sound_far_from_any_data(scale, noise):
    # more functions than distinct rows, eigenvalues over many orders of magnitude
    rng = np.random.default_rng(1)
    X = rng.random((30, 1))
    y = np.sin(7 * X[:, 0]) + 0.2 * rng.standard_normal(30)
    box, index = Box(np.zeros(1), np.ones(1)), by_length(1, 101)
    s = sketched_statistics(X, y, None, box, 0.0, n_bins(100))
    j = np.arange(1.0, 102.0)
    lam = j**-4.0
    prior = Spectrum(lam, np.ones((101, 1)), 1e-6, np.array([1e-6]))
    profile = ScaleProfile.of(whitened(s.normal_equations(index), prior))
    value, gradient = profile.value_and_gradient(noise, scale)
    F = functions(index, X) * np.sqrt(lam)
    # (σ² + scale F Fᵀ) through its eigenvalues: no digits are lost for few rows
    left, singular, _ = np.linalg.svd(F)
    variances = noise + scale * singular**2
    misfit = np.sum((left.T @ y) ** 2 / variances)
    volume = np.sum(np.log(2 * np.pi * variances))
    bound = -0.5 * (volume + misfit + 30 * scale * 1e-6 / noise)
    slack = 1e-8 + 1e-13 * scale / noise * 101
    assert np.isfinite(gradient).all()
    if scale / noise < 1e12:
        assert abs(value - bound) < slack * abs(bound)
    # never better than the truth by more than rounding
    assert value < bound + slack * abs(bound)
