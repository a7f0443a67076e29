import numpy as np
import pytest
from scipy import special, stats

from skgpx._numerics.poisson_law import LARGEST_SUM, cdf, quantile

AROUND = [LARGEST_SUM - 1.0, LARGEST_SUM, LARGEST_SUM + 1.0]


@pytest.mark.parametrize("count", [0.0, 1.0, 5.0, *AROUND, 100.0, 1e3, 1e5])
def test_distribution_function(count):
    deviations = np.linspace(-8.0, 8.0, 81) / np.sqrt(count + 1.0)
    rates = (count + 1.0) * np.maximum(1.0 + deviations, 0.0)
    rates = np.concatenate([rates, [0.0, 1e-8, 1e3, 1e9]])
    found = cdf(np.full(len(rates), count), rates[:, np.newaxis], np.ones(1))
    exact = special.gammaincc(count + 1.0, rates)
    np.testing.assert_allclose(found, exact, rtol=0.0, atol=2e-13)


def test_negative_counts_have_no_probability():
    assert cdf(np.array([-1.0]), np.ones((1, 1)), np.ones(1))[0] == 0.0


@pytest.mark.parametrize("rate", [0.0, 0.01, 3.5, 63.0, 65.0, 500.0, 1e6])
@pytest.mark.parametrize("p", [1e-6, 0.05, 0.5, 0.95, 1.0 - 1e-6])
@pytest.mark.parametrize("off", [0.0, 30.0])
def test_quantiles_of_one_law(rate, p, off):
    start = np.array([rate + off])
    found = quantile(p, np.full((1, 1), rate), np.ones(1), start, np.ones(1))
    assert found[0] == stats.poisson(rate).ppf(p)


@pytest.mark.parametrize("p", [0.01, 0.4, 0.9])
def test_quantiles_of_mixtures_are_the_smallest_counts(rng, p):
    rates = np.exp(2.0 * rng.standard_normal((50, 30)) + 2.0)
    weights = rng.random(30)
    weights /= weights.sum()
    found = quantile(p, rates, weights, rates @ weights, np.ones(50))
    enough = special.gammaincc(found[:, np.newaxis] + 1.0, rates) @ weights
    less = special.gammaincc(np.maximum(found, 0.5)[:, np.newaxis], rates) @ weights
    assert np.all(enough >= p - 1e-12)
    assert np.all((less < p) | (found == 0.0))
