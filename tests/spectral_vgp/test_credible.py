"""Balls and bands of a latent function, from its model alone."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import chi2, norm

from skgpx._latent import LatentModel
from skgpx._numerics.weights import GaussianWeights
from skgpx._spectral_vgp._credible import (
    ball_radius,
    chi_square_sum_quantile,
    domain_grid,
    simultaneous_factor,
)
from skgpx.bases import Box, FourierSeries, GivenEigenvalues, PolynomialEigenvalues

BOX = Box(np.array([-1.0]), np.array([2.0]))
DOMAIN = np.array([[-1.0, 1.0]])


def prior(rule, m, box=BOX):
    basis = FourierSeries.from_rule(rule, box, m)
    m = basis.n_basis
    return LatentModel(basis, GaussianWeights(np.zeros((m, 1)), np.eye(m)[np.newaxis]))


@pytest.mark.parametrize("m", [1, 9, 40])
def test_both_radii_agree_on_the_box(m):
    model = prior(PolynomialEigenvalues(1.0, 1.0), m)
    grid = domain_grid(DOMAIN)
    one, two = (ball_radius(model, 0.9, DOMAIN, points) for points in (None, grid))
    assert_allclose(one, two, rtol=1e-3)
    squares = np.mean(model.draw(1000, np.random.default_rng(0))(grid) ** 2, axis=0)
    inside = np.mean(np.sqrt(squares) <= one)
    assert abs(inside - 0.9) < 4.5 * np.sqrt(0.09 / 1000)


@pytest.mark.parametrize("coverage", [0.5, 0.8, 0.95])
def test_factors(coverage):
    # of one value the simultaneous factor is the same, of many values larger
    model, rng = prior(GivenEigenvalues((1.0,)), 1), np.random.default_rng(0)
    grid = domain_grid(DOMAIN, 32)
    one = simultaneous_factor(model, coverage, grid, rng)
    z = norm.ppf(0.5 + 0.5 * coverage)
    error = np.sqrt(coverage * (1.0 - coverage) / 20_000) / (2.0 * norm.pdf(z))
    assert abs(one - z) < 4.5 * error
    rough = prior(PolynomialEigenvalues(), 40)
    factor = simultaneous_factor(rough, coverage, grid, rng)
    assert factor > z
    values = rough.draw(4000, rng)(grid)
    std = np.sqrt(rough.basis.variance)
    inside = np.mean(np.abs(values).max(axis=0) <= factor * std)
    # the factor has the error of 20 000 draws of its own
    error = np.sqrt(1.2 * coverage * (1.0 - coverage) / 4000)
    assert abs(inside - coverage) < 4.5 * error


def test_places_without_variance_do_not_matter():
    # λ of the sine alone: nothing at the ends and the middle of the box
    model = prior(GivenEigenvalues((0.0, 1.0)), 2)
    grid = np.array([[-1.0], [0.0], [0.5], [1.0]])
    factor = simultaneous_factor(model, 0.9, grid, np.random.default_rng(0))
    assert_allclose(factor, norm.ppf(0.95), rtol=0.03)


# ---- Quantiles of weighted sums of chi-squares --------------------------------------

LEVELS = [1e-3, 0.05, 0.5, 0.6, 0.9, 0.95, 0.999, 1.0 - 1e-6]


@pytest.mark.parametrize("df", [1, 2, 3, 10, 1000])
@pytest.mark.parametrize("level", LEVELS)
def test_equal_weights_are_a_chi_square(df, level):
    quantile = chi_square_sum_quantile(np.full(df, 1.7), level)
    assert_allclose(quantile, 1.7 * chi2.ppf(level, df), rtol=1e-8)


@pytest.mark.parametrize("level", LEVELS)
def test_pairs_of_equal_weights_are_exponentials(level):
    # P(Q > x) = Σ c_j exp(-x / 2w_j), c_j = Π w_j / (w_j - w_i), for weights in pairs
    w = np.array([1.0, 0.5, 0.2])
    c = [np.prod([a / (a - b) for b in w if b != a]) for a in w]
    x = chi_square_sum_quantile(np.repeat(w, 2), level)
    survival = sum(cj * np.exp(-x / (2.0 * a)) for cj, a in zip(c, w, strict=True))
    assert_allclose(survival, 1.0 - level, rtol=1e-6)


@pytest.mark.parametrize("decay", [2.0, 4.0])
@pytest.mark.parametrize("level", [0.05, 0.5, 0.95])
def test_simulated_frequency(decay, level, rng):
    w = np.arange(1.0, 201.0) ** -decay
    x = chi_square_sum_quantile(w, level, constant=0.3)
    n = 40_000
    sums = 0.3 + rng.standard_normal((n, len(w))) ** 2 @ w
    z = (np.mean(sums <= x) - level) / np.sqrt(level * (1.0 - level) / n)
    assert abs(z) < 4.5


def test_many_small_weights_beside_a_large_one():
    # the small ones are nearly the constant that is their sum
    w = np.r_[1.0, np.full(5000, 1e-10)]
    assert_allclose(
        chi_square_sum_quantile(w, 0.95), chi2.ppf(0.95, 1) + 5e-7, rtol=1e-8
    )
    assert chi_square_sum_quantile(np.zeros(3), 0.9, constant=2.0) == 2.0
    assert chi_square_sum_quantile(np.empty(0), 0.9) == 0.0
    w = np.array([3.0, 1.0, 0.1])
    for scale in (1e-200, 1e200):
        quantile = chi_square_sum_quantile(scale * w, 0.9)
        assert_allclose(quantile / scale, chi_square_sum_quantile(w, 0.9), rtol=1e-12)
