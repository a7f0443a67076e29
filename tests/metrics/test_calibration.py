"""PIT values, coverage, and calibration errors."""

from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import integrate, stats
from sklearn.gaussian_process.kernels import RBF

from skgpx import PLSRegressor, SpectralVGPRegressor, metrics
from skgpx.likelihoods import Poisson

rng = np.random.default_rng(0)
X = rng.uniform(-3.0, 3.0, size=(300, 1))
F = np.sin(X[:, 0])
FEW = {"kernel": RBF(1.0), "optimizer": None, "n_inducing": 12, "random_state": 0}


def test_pit_values_of_a_model_that_is_right_are_uniform():
    y = F + 0.3 * rng.normal(size=300)
    distribution = SpectralVGPRegressor(noise_variance=0.09).fit(X, y).predict_dist(X)
    again = F + 0.3 * rng.normal(size=300)
    pit = metrics.pit_values(again, distribution)
    assert_array_equal(pit, distribution.cdf(again))
    assert stats.kstest(pit, "uniform").pvalue > 0.01
    assert metrics.calibration_error(pit) < 0.05
    assert metrics.coverage_error(again, distribution, coverage=0.8) < 0.1
    wide = metrics.pit_values(F + 0.1 * rng.normal(size=300), distribution)
    assert metrics.calibration_error(wide) > 0.1


def test_pit_values_of_counts_are_uniform_too():
    counts = rng.poisson(np.exp(0.3 * F))
    model = PLSRegressor(likelihood=Poisson("exp"), n_particles=10, **FEW)
    distribution = model.fit(X, counts).predict_dist(X)
    again = rng.poisson(np.exp(0.3 * F))
    pit = metrics.pit_values(again, distribution, random_state=1)
    assert_array_equal(pit, metrics.pit_values(again, distribution, random_state=1))
    assert np.all(
        (pit >= distribution.cdf(again - 1.0)) & (pit <= distribution.cdf(again))
    )
    assert stats.kstest(pit, "uniform").pvalue > 0.01
    for wrong in (0.5, -100.0):
        for score in (metrics.pit_values, metrics.coverage_error):
            with pytest.raises(ValueError, match=r"0, 1, 2, \.\.\..*300 other values"):
                score(again + wrong, distribution)


def test_the_error_is_the_area_between_curve_and_diagonal():
    pit, weights = rng.random(9), rng.integers(1, 4, size=9)

    def gap(u):
        return abs(np.average(pit <= u, weights=weights) - u)

    edges = np.concatenate(([0.0], np.sort(pit), [1.0]))
    parts = pairwise(edges)
    expected = sum(integrate.quad(gap, a, b, limit=200)[0] for a, b in parts)
    found = metrics.calibration_error(pit, sample_weight=weights)
    assert_allclose(found, expected, atol=1e-8)
    repeated = metrics.calibration_error(np.repeat(pit, weights))
    assert_allclose(repeated, found, rtol=1e-12)
    assert metrics.calibration_error([1.0]) == 0.5


def test_the_error_of_uniform_values_is_as_documented():
    errors = [metrics.calibration_error(rng.random(400)) for _ in range(400)]
    mean, spread = np.mean(errors), np.std(errors) / 20.0
    assert abs(mean - np.sqrt(2.0 * np.pi) / 8.0 / 20.0) < 4.5 * spread


def test_what_is_refused():
    for wrong in ([-0.1], [1.1], [[0.5]]):
        with pytest.raises(ValueError, match="lie between 0 and 1"):
            metrics.calibration_error(wrong)
