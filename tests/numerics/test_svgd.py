"""Stein variational gradient descent: forces against sums, and where points end."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.gaussian_process.kernels import RBF, Matern, RationalQuadratic

from skgpx._numerics import svgd
from skgpx._numerics.svgd import (
    bandwidths,
    median_squares,
    see_others,
    stein_force,
    transport,
)
from skgpx.kernels import spectral_score
from skgpx.kernels._spectrum import radial_density


def brute_median(points):
    return np.median((points[:, np.newaxis] - points) ** 2, axis=(0, 1))


def brute_force(points, pool, slopes, squares, repulsion):
    """Eq. (8) of Liu and Wang, pair by pair; the repulsion is ``α ∇_z k``."""
    force = np.zeros_like(points)
    for i, x in enumerate(points):
        for z, g in zip(pool, slopes, strict=True):
            k = np.exp(-0.5 * np.sum((x - z) ** 2 / squares))
            force[i] += k * (g + repulsion * (x - z) / squares)
    return force


# ---- Medians over all pairs ----------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6, 7, 30, 31, 200, 201])
@pytest.mark.parametrize(
    "distribution", ["normal", "cauchy", "ties", "constant", "spread out", "mirrored"]
)
def test_equals_the_median_of_all_pairs(n, distribution, rng):
    points = {
        "normal": lambda: rng.normal(size=(n, 3)),
        "cauchy": lambda: rng.standard_cauchy(size=(n, 3)),
        "ties": lambda: rng.integers(0, 3, size=(n, 3)).astype(float),
        "constant": lambda: np.full((n, 3), 0.1),
        "spread out": lambda: np.exp(rng.normal(scale=30.0, size=(n, 3))),
        "mirrored": lambda: np.outer([1.0, -1.0], rng.normal(size=n)).reshape(-1, 1),
    }[distribution]()
    np.testing.assert_allclose(median_squares(points), brute_median(points), rtol=1e-14)


def test_bandwidths_are_medians_times_factors(rng):
    pool, factors = rng.normal(size=(20, 3)) * [1.0, 5.0, 0.0], np.array([1.0, 2.0, 3])
    expected = factors * brute_median(pool)
    expected[2] = 3.0
    np.testing.assert_allclose(bandwidths(pool, factors), expected, rtol=1e-14)


# ---- The force -----------------------------------------------------------------------


# more points than a block of rows of the kernel matrix has
MANY = svgd._BLOCK + 3


@pytest.mark.parametrize(
    ("R", "d"), [(1, 1), (2, 3), (13, 1), (30, 4), (9, 50), (MANY, 2)]
)
@pytest.mark.parametrize("repulsion", [0.0, 0.7])
def test_the_force_is_the_sum_over_pairs(R, d, repulsion, rng):
    points, pool, slopes = rng.normal(size=(3, R, d))
    squares = rng.uniform(0.5, 2.0, size=d) * d
    expected = brute_force(points[:40], pool, slopes, squares, repulsion)
    found = stein_force(points, pool, slopes, squares, repulsion)
    np.testing.assert_allclose(found[:40], expected, rtol=1e-11, atol=1e-13)
    last = brute_force(points[-2:], pool, slopes, squares, repulsion)
    np.testing.assert_allclose(found[-2:], last, rtol=1e-11, atol=1e-13)


def test_far_points_neither_overflow_nor_interact():
    points = np.array([[0.0], [1e3], [-2e3]])
    slopes = np.array([[1.0], [2.0], [3.0]])
    found = stein_force(points, points, slopes, np.ones(1), 1.0)
    np.testing.assert_allclose(found, slopes)


# ---- Where points end ----------------------------------------------------------------


def test_a_single_point_and_equal_points_stay_finite():
    for points in (np.zeros((1, 2)), np.ones((5, 2))):
        moved = transport(points, lambda x: -x, 20, 0.1, np.full(2, 2.0))
        assert np.all(np.isfinite(moved))


def test_points_end_with_the_moments_of_the_density(rng):
    L = np.array([[1.0, 0.0], [0.8, 0.5]])
    precision = np.linalg.inv(L @ L.T)
    start = rng.normal(size=(25, 2))
    moved = transport(start, lambda x: -x @ precision, 150, 0.1, np.full(2, 2.0))
    np.testing.assert_allclose(moved.T @ moved / 25, L @ L.T, atol=0.08)


def test_the_start_and_the_order_of_points(rng):
    start, order = rng.normal(size=(15, 3)), rng.permutation(15)
    kept, how = start.copy(), (lambda x: -x, 50, 0.1, np.full(3, 3.0))
    moved = transport(start, *how)
    np.testing.assert_array_equal(start, kept)
    np.testing.assert_array_equal(moved, transport(start, *how))
    other = transport(start[order], *how)
    np.testing.assert_allclose(other, moved[order], rtol=1e-6, atol=1e-8)
    still = transport(start, how[0], 0, *how[2:])
    np.testing.assert_array_equal(still, start)


def test_points_that_see_no_other_feel_their_own_slopes():
    rng = np.random.default_rng(0)
    points, slopes = rng.normal(size=(2, 60, 400))
    points[7] = points[3] + 0.01
    points[20] = points[3]
    squares = bandwidths(points, np.ones(400))
    force = stein_force(points, points, slopes, squares, 1.0)
    seen = see_others(points, np.ones(400))
    assert_array_equal(np.flatnonzero(seen), [3, 7, 20])
    assert_array_equal(force[~seen], slopes[~seen])
    few = stein_force(points[seen], points[seen], slopes[seen], squares, 1.0)
    assert_allclose(few, force[seen], rtol=1e-10, atol=1e-12)


# ---- Compiled steps ------------------------------------------------------------------


def plain_transport(points, score, n_steps, rate, factors):
    """SVGD on the points and their mirror images, line by line in NumPy."""
    x = points.copy()
    first, second = np.zeros((2, *x.shape))
    for step in range(n_steps):
        pool = np.concatenate((x, -x))
        slopes = np.concatenate((score(x), -score(x)))
        if step % 5 == 0:
            squares = factors * brute_median(pool)
        force = brute_force(x, pool, slopes, squares, 1.0) / len(pool)
        first = 0.9 * first + 0.1 * force
        second = 0.999 * second + 0.001 * force**2
        size = 0.5 * rate * (1.0 + np.cos(np.pi * step / n_steps))
        mean = first / (1.0 - 0.9 ** (step + 1))
        root = np.sqrt(second / (1.0 - 0.999 ** (step + 1)))
        x = x + size * mean / (root + 1e-8)
    return x


@pytest.mark.parametrize(
    "kernel", [RBF(1.3), Matern([1.3, 0.8], nu=0.9), RationalQuadratic(0.7, 1.5)]
)
def test_compiled_loops_are_the_loop_in_numpy(kernel, rng):
    start, factors = rng.normal(size=(7, 2)), np.array([2.0, 3.0])
    scales = np.broadcast_to(kernel.length_scale, 2)

    def score(x):
        return spectral_score(kernel, x)

    expected = plain_transport(start, score, 12, 0.1, factors)
    by_formula = transport(start, radial_density(kernel, 2), 12, 0.1, factors, scales)
    by_call = transport(start, score, 12, 0.1, factors)
    assert_allclose(by_formula, expected, rtol=1e-10)
    assert_allclose(by_call, expected, rtol=1e-10)
