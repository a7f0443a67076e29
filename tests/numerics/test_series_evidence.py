import numpy as np
import pytest
from scipy.stats import multivariate_normal

from skgpx._numerics.fourier_index import Box, by_length
from skgpx._numerics.fourier_sketch import n_bins
from skgpx._numerics.fourier_sums import sketched_statistics
from skgpx._numerics.series_evidence import (
    Spectrum,
    best_noise_variance,
    noise_bounds,
    series_evidence,
    whitened,
)
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
    assert series_evidence(equations, s, NOISE)[0] == pytest.approx(bound, rel=1e-10)


def test_gradient_by_differences(case):
    equations = case[0]

    def value(point):
        return series_evidence(equations, spectrum(point[1:]), np.exp(point[0]))[0]

    point = np.array([np.log(NOISE), 0.3, 0.5])
    _, gradient = series_evidence(equations, spectrum(point[1:]), NOISE)
    steps = 1e-5 * np.eye(3)
    slopes = [(value(point + h) - value(point - h)) / 2e-5 for h in steps]
    assert np.allclose(gradient, slopes, rtol=1e-6, atol=1e-6)


def test_underflowing_eigenvalues_do_no_harm(case):
    equations = case[0]
    s = spectrum([0.3, 0.5])
    tiny = np.where(np.arange(11) > 5, 0.0, s.eigenvalues)
    value, gradient = series_evidence(equations, s._replace(eigenvalues=tiny), NOISE)
    assert np.isfinite([value, *gradient]).all()


@pytest.mark.parametrize("start", [1e-3, 0.1, 1.0])
def test_best_noise_variance(case, start):
    s = spectrum([0.3, 0.5])
    statistics = whitened(case[0], s.eigenvalues, case[0].weight * s.tail)
    best = best_noise_variance(statistics, start)
    value, gradient = series_evidence(case[0], s, best)
    assert abs(gradient[0]) < 1e-2
    for factor in (0.5, 0.9, 1.1, 2.0):
        assert series_evidence(case[0], s, best * factor)[0] < value


def test_noise_of_a_constant_y():
    assert np.allclose(noise_bounds(0.0, 3.0), [1e-8, 10.0])
    assert np.allclose(noise_bounds(6.0, 3.0), [2e-8, 20.0])
