"""Continuous ranked probability scores against their definition."""

from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import integrate, stats
from scipy.special import ndtr

from skgpx._numerics import crps

YS = np.array([-2.0, 0.3, 0.31, 4.0])


def by_definition(ys, cdf, places=(0.0,)):
    """``∫ (F(z) - 1{y <= z})² dz`` of one distribution, between places."""
    scores = []
    for y in ys:
        edges = np.unique(np.concatenate(([-60.0, y, 60.0], places)))
        parts = [
            integrate.quad(
                lambda z, y=y: (cdf(z) - (z >= y)) ** 2, a, b, limit=400, epsabs=1e-13
            )[0]
            for a, b in pairwise(edges)
        ]
        scores.append(sum(parts))
    return scores


@pytest.mark.filterwarnings("ignore::scipy.integrate.IntegrationWarning")
@pytest.mark.parametrize("std", [0.5, 3.0])
def test_normal_distributions(std):
    expected = by_definition(YS, stats.norm(0.3, std).cdf)
    assert_allclose(crps.normal_crps(YS, np.float64(0.3), std), expected, rtol=1e-7)


def test_points_score_the_absolute_error():
    assert_allclose(crps.normal_crps(YS, np.zeros(4), np.zeros(4)), np.abs(YS))
    three = np.broadcast_to([0.0, 0.3, 1.0], (4, 3))
    mixture = crps.mixture_crps(YS, three, np.zeros(3), np.full(3, 1.0 / 3.0))
    assert_allclose(mixture, crps.ensemble_crps(YS, three, False), atol=1e-14)


@pytest.mark.filterwarnings("ignore::scipy.integrate.IntegrationWarning")
def test_mixtures():
    mean, std = np.array([-1.0, 0.2, 2.0]), np.array([0.3, 1.0, 0.1])
    share = np.array([0.2, 0.5, 0.3])

    def cdf(z):
        return ndtr((z - mean) / std) @ share

    expected = by_definition(YS, cdf)
    means = np.broadcast_to(mean, (4, 3))
    found = crps.mixture_crps(YS, means, std, share)
    assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("fair", [False, True])
def test_ensembles_against_all_pairs(fair):
    draws = np.random.default_rng(0).normal(size=(4, 7))
    pairs = np.abs(draws[:, :, np.newaxis] - draws[:, np.newaxis])
    apart = pairs.sum(axis=(1, 2)) / (42.0 if fair else 49.0)
    near = np.abs(draws - YS[:, np.newaxis]).mean(axis=1)
    assert_allclose(crps.ensemble_crps(YS, draws, fair), near - 0.5 * apart)


LAWS = {
    "normal": (stats.norm(0.3, 0.7), 1e-8),
    "logistic": (stats.logistic(0.3, 0.7), 1e-8),
    "student": (stats.t(2.0), 1e-6),
    "gamma": (stats.gamma(2.0), 1e-7),
}


@pytest.mark.parametrize("name", LAWS)
def test_quadrature_of_continuous_distributions(name):
    distribution, error = LAWS[name]
    ys = np.array([-8.0, -0.5, 0.3, 1.7, 40.0])
    quantiles = np.broadcast_to(distribution.ppf(crps.LEVELS), (5, len(crps.LEVELS)))
    tails = distribution.ppf((1e-12, 1.0 - 1e-12))
    places = np.append(distribution.ppf(np.linspace(0.001, 0.999, 60)), tails)
    expected = by_definition(ys, distribution.cdf, places)
    found = crps.continuous_crps(ys, distribution.cdf, quantiles)
    assert_allclose(found, expected, atol=error, rtol=error)


def test_quadrature_of_narrow_modes_far_apart():
    mean, std, share = np.array([-5.0, 5.0]), np.array([0.01, 0.01]), np.full(2, 0.5)
    ys = np.array([-5.0, 0.0, 5.01])

    def cdf(z):
        return stats.norm.cdf((z[..., np.newaxis] - mean) / std) @ share

    # quantiles of the half that a level falls in
    q = np.array(crps.LEVELS)
    inner = stats.norm.ppf(np.clip(np.where(q < 0.5, 2 * q, 2 * q - 1), 1e-6, 0.999999))
    quantiles = np.where(q < 0.5, -5.0, 5.0) + 0.01 * inner
    found = crps.continuous_crps(ys, cdf, np.broadcast_to(quantiles, (3, len(q))))
    exact = crps.mixture_crps(ys, np.broadcast_to(mean, (3, 2)), std, share)
    assert_allclose(found, exact, rtol=2e-3)


COUNTS = [
    (stats.poisson(rate), [0.0, 1.0, 4.0, 100.0, 200.0], 2e-6, 0.0)
    for rate in (0.01, 3.0, 90.0)
]
# the largest number of integers that is summed is 256
COUNTS += [
    (stats.norm(0.5 * n, n / 12.0), np.round(n * np.array([0.3, 0.9, 5.0])), 0.0, 4e-3)
    for n in (250, 300, 1000)
]


@pytest.mark.parametrize(("distribution", "ys", "atol", "rtol"), COUNTS)
def test_counts_against_the_sum(distribution, ys, atol, rtol):
    quantiles = np.tile(np.round(distribution.ppf(crps.LEVELS)), (len(ys), 1))

    def cdf(z):
        return distribution.cdf(np.floor(z))

    found = crps.discrete_crps(np.array(ys), cdf, quantiles)
    k = np.arange(0.0, 6000.0)
    expected = [np.sum((distribution.cdf(k) - (k >= y)) ** 2) for y in ys]
    assert_allclose(found, expected, atol=atol, rtol=rtol)
