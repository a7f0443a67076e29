"""Distances between Gaussians against the dense formula and finite differences."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import sqrtm

from skgpx._numerics.gaussian_wasserstein import (
    projected_bures,
    wasserstein,
)

EPSILON = 1e-5


def covariance(rng, n, rank=None):
    half = rng.normal(size=(n, n + 3 if rank is None else rank))
    return half @ half.T


def dense(m, A, n, B):
    half = np.real(sqrtm(A))
    traces = np.trace(A) + np.trace(B)
    return (
        np.sum((m - n) ** 2) + traces - 2.0 * np.trace(np.real(sqrtm(half @ B @ half)))
    )


@pytest.fixture
def distributions():
    rng = np.random.default_rng(0)
    m, n = rng.normal(size=(2, 6))
    return m, covariance(rng, 6), n, covariance(rng, 6)


def difference(function, change):
    return (function(EPSILON * change) - function(-EPSILON * change)) / (2.0 * EPSILON)


def symmetric(rng, n):
    half = rng.normal(size=(n, n))
    return half + half.T


def test_the_dense_formula(distributions):
    assert_allclose(
        wasserstein(*distributions).squared, dense(*distributions), rtol=1e-8
    )


def test_equal_distributions_have_no_distance(distributions):
    m, A, _, _ = distributions
    found = wasserstein(m, A, m, A)
    assert found.squared <= 1e-12 * np.trace(A)
    assert_allclose(found.covariances[0], 0.0, atol=1e-9)


def test_one_dimension_is_known():
    found = wasserstein(np.zeros(1), np.eye(1), np.full(1, 3.0), 25.0 * np.eye(1))
    assert_allclose(found.squared, 9.0 + 16.0, rtol=1e-9)


def test_singular_covariances():
    rng = np.random.default_rng(1)
    A, B = covariance(rng, 5, 2), covariance(rng, 5, 3)
    zero = np.zeros(5)
    assert_allclose(
        wasserstein(zero, A, zero, B).squared, dense(zero, A, zero, B), rtol=1e-3
    )


@pytest.mark.parametrize("place", range(4))
def test_gradients(distributions, place):
    rng = np.random.default_rng(2)
    found = wasserstein(*distributions)
    slopes = [
        found.means[0],
        found.covariances[0],
        found.means[1],
        found.covariances[1],
    ]
    change = rng.normal(size=6) if place % 2 == 0 else symmetric(rng, 6)

    def value(step):
        moved = list(distributions)
        moved[place] = moved[place] + step
        return wasserstein(*moved).squared

    slope = np.sum(slopes[place] * change)
    assert_allclose(slope, difference(value, change), rtol=1e-6)


def test_projected_distance_is_that_of_the_projections():
    rng = np.random.default_rng(3)
    features, root = rng.normal(size=(30, 4)), rng.normal(size=(4, 4))
    gram, zero = features.T @ features / 30, np.zeros(30)
    half = features @ root
    exact = dense(zero, features @ features.T, zero, half @ half.T) / 30
    assert_allclose(projected_bures(gram, root).squared, exact, rtol=1e-6)
    assert projected_bures(gram, np.eye(4)).squared <= 1e-12


@pytest.mark.parametrize("shape", [(4, 4), (4, 2)])
def test_gradient_of_the_projected_distance(shape):
    rng = np.random.default_rng(4)
    gram, root, change = (
        covariance(rng, 4),
        rng.normal(size=shape),
        rng.normal(size=shape),
    )

    def value(step):
        return projected_bures(gram, root + step).squared

    slope = np.sum(projected_bures(gram, root).root * change)
    assert_allclose(slope, difference(value, change), rtol=1e-6)


def process(rng):
    """Features, residual and whole covariance of a process at some rows."""
    points = rng.normal(size=(9, 2))
    gaps = np.sum((points[:, np.newaxis] - points) ** 2, axis=2)
    whole = np.exp(-0.5 * gaps)
    L = np.linalg.cholesky(whole[:3, :3])
    features = np.linalg.solve(L, whole[:3]).T
    return features, whole - features @ features.T, whole


def test_the_projected_distance_is_an_upper_bound():
    rng = np.random.default_rng(6)
    features, residual, whole = process(rng)
    gram = features.T @ features / len(features)
    for size in (0.0, 0.01, 0.5, 2.0):
        root = size * rng.normal(size=(3, 3))
        half, zero = features @ root, np.zeros(len(whole))
        found = wasserstein(zero, residual + half @ half.T, zero, whole)
        exact = found.squared / len(whole)
        assert projected_bures(gram, root).squared >= exact - 1e-9
