"""Balls and bands of a latent function, from its model alone."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import chi2, norm

from skgpx._latent import LatentModel
from skgpx._numerics.weights import GaussianWeights
from skgpx._spectral_vgp._credible import (
    ball_radius,
    covers_its_box,
    domain_grid,
    periodic_ball_radius,
    simultaneous_factor,
)
from skgpx.bases import Box, FourierSeries, GivenEigenvalues, PolynomialEigenvalues

BOX = Box(np.array([-1.0]), np.array([2.0]))
DOMAIN = np.array([[-1.0, 1.0]])


def prior(rule, m, box=BOX):
    basis = FourierSeries.from_rule(rule, box, m)
    m = basis.n_basis
    return LatentModel(basis, GaussianWeights(np.zeros((m, 1)), np.eye(m)[np.newaxis]))


@pytest.mark.parametrize("d", [1, 2, 3])
def test_the_grid_fills_the_domain_evenly(d):
    domain = np.array([[-1.0, 1.0], [0.0, 5.0], [1e9, 1e9 + 1.0]])[:d]
    grid = domain_grid(domain)
    assert grid.shape == (1024, d)
    assert np.all((grid >= domain[:, 0]) & (grid <= domain[:, 1]))
    middle, width = domain.mean(axis=1), domain[:, 1] - domain[:, 0]
    assert_allclose((grid.mean(axis=0) - middle) / width, 0.0, atol=1e-3)
    assert_allclose(grid.std(axis=0) / width, np.sqrt(1.0 / 12.0), rtol=1e-2)


@pytest.mark.parametrize("coverage", [0.5, 0.95])
def test_the_radius_of_a_constant_is_its_quantile(coverage):
    # f = √2 w: the mean square of f is 2 χ²₁
    model = prior(GivenEigenvalues((2.0,)), 1)
    expected = np.sqrt(2.0 * chi2.ppf(coverage, 1))
    assert_allclose(periodic_ball_radius(model, coverage), expected, rtol=1e-7)
    grid = domain_grid(DOMAIN)
    assert_allclose(ball_radius(model, coverage, grid), expected, rtol=1e-7)


@pytest.mark.parametrize("m", [1, 9, 40])
def test_both_radii_agree_on_the_box(m):
    model = prior(PolynomialEigenvalues(1.0, 1.0), m)
    grid = domain_grid(DOMAIN)
    one, two = periodic_ball_radius(model, 0.9), ball_radius(model, 0.9, grid)
    assert_allclose(one, two, rtol=1e-3)
    squares = np.mean(model.draw(1000, np.random.default_rng(0))(grid) ** 2, axis=0)
    inside = np.mean(np.sqrt(squares) <= one)
    assert abs(inside - 0.9) < 4.5 * np.sqrt(0.09 / 1000)


@pytest.mark.parametrize("shift", [0.0, 1.7e9])
def test_whether_the_domain_is_the_box(shift):
    box = Box(BOX.origin + shift, BOX.period)
    model = prior(PolynomialEigenvalues(), 5, box)
    assert covers_its_box(model, DOMAIN + shift)
    assert not covers_its_box(model, np.array([[-1.0, 0.9]]) + shift)
    assert not covers_its_box(LatentModel(object(), model.weights), DOMAIN)


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
