"""Stein variational gradient descent: forces against sums, and where points end."""

import numpy as np
import pytest

from skgpx._numerics import svgd
from skgpx._numerics.svgd import (
    bandwidths,
    median_bandwidths,
    pooled_force,
    svgd_force,
    transported,
)


def brute_force(points, scores, bandwidths):
    """Eq. (8) of Liu and Wang, pair by pair, for points ±x."""
    others, pulls = np.vstack((points, -points)), np.vstack((scores, -scores))
    force = np.zeros_like(points)
    for i, x in enumerate(points):
        for y, s in zip(others, pulls, strict=True):
            k = np.exp(-0.5 * np.sum((x - y) ** 2 / bandwidths))
            force[i] += k * (s + (x - y) / bandwidths)
    return force / len(others)


@pytest.mark.parametrize(("R", "d"), [(1, 1), (2, 3), (13, 1), (30, 4), (9, 50)])
def test_the_force_is_the_sum_over_pairs(R, d, rng):
    points, scores = rng.normal(size=(2, R, d))
    bandwidths = rng.uniform(0.5, 2.0, size=d) * d
    expected = brute_force(points, scores, bandwidths)
    found = svgd_force(points, scores, bandwidths)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)


def test_far_points_neither_overflow_nor_interact():
    points = np.array([[0.0], [1e3], [-2e3]])
    scores = np.array([[1.0], [2.0], [3.0]])
    found = svgd_force(points, scores, np.ones(1))
    np.testing.assert_allclose(found[1:], [[2.0 / 6.0], [3.0 / 6.0]])
    assert found[0] == 0.0


def test_bandwidths_are_medians_of_each_column(rng):
    points = rng.normal(size=(20, 3)) * [1.0, 5.0, 0.0]
    factors = np.array([1.0, 2.0, 3.0])
    pool = np.vstack((points, -points))
    expected = factors * np.median((pool[:, np.newaxis] - pool) ** 2, axis=(0, 1))
    expected[2] = 3.0
    found = median_bandwidths(points, factors)
    np.testing.assert_allclose(found, expected, rtol=1e-14)


def test_a_single_point_and_equal_points_stay_finite():
    for points in (np.zeros((1, 2)), np.ones((5, 2))):
        moved = transported(points, lambda x: -x, 20, 0.1, np.full(2, 2.0))
        assert np.all(np.isfinite(moved))


def test_points_end_with_the_moments_of_the_density(rng):
    L = np.array([[1.0, 0.0], [0.8, 0.5]])
    precision = np.linalg.inv(L @ L.T)
    start = rng.normal(size=(25, 2))
    moved = transported(start, lambda x: -x @ precision, 150, 0.1, np.full(2, 2.0))
    np.testing.assert_allclose(moved.T @ moved / 25, L @ L.T, atol=0.08)


def test_the_start_and_the_order_of_points(rng):
    start, order = rng.normal(size=(15, 3)), rng.permutation(15)
    kept = start.copy()
    moved = transported(start, lambda x: -x, 50, 0.1, np.full(3, 3.0))
    np.testing.assert_array_equal(start, kept)
    again = transported(start, lambda x: -x, 50, 0.1, np.full(3, 3.0))
    np.testing.assert_array_equal(moved, again)
    other = transported(start[order], lambda x: -x, 50, 0.1, np.full(3, 3.0))
    np.testing.assert_allclose(other, moved[order], rtol=1e-6, atol=1e-8)


def test_no_step_moves_nothing(rng):
    start = rng.normal(size=(5, 2))
    moved = transported(start, lambda x: -x, 0, 0.1, np.ones(2))
    np.testing.assert_array_equal(moved, start)


# ---- The force on a mixture ----------------------------------------------------------


def mixture(rng, M=3, R=5, d=2):
    omega, slopes = rng.normal(size=(2, M, R, d))
    return omega, slopes, bandwidths(omega)


@pytest.mark.parametrize("repulsion", [0.0, 0.7])
def test_pooled_form_is_the_published_one(rng, repulsion):
    """Equations (26), (66) and (67) with their arrays of five axes."""
    omega, slopes, squares = mixture(rng)
    # of frequency r of component m and frequency l of component j, at [m, j, r, l]
    difference = omega[:, np.newaxis, :, np.newaxis] - omega[:, np.newaxis]
    K = np.exp(-0.5 * np.sum(difference**2 / squares, axis=-1))
    push = K[..., np.newaxis] * difference / squares
    pull = K[..., np.newaxis] * slopes[np.newaxis, :, np.newaxis]
    expected = np.sum(pull + repulsion * push, axis=(1, 3)) / len(omega)
    force = pooled_force(omega, slopes, squares, repulsion)
    np.testing.assert_allclose(force, expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("R", [21, 43])
def test_blocks_of_the_pool_change_nothing(rng, R, monkeypatch):
    omega, slopes, squares = mixture(rng, R=R)
    whole = pooled_force(omega, slopes, squares, 1.0)
    monkeypatch.setattr(svgd, "_BLOCK", 64)
    parts = pooled_force(omega, slopes, squares, 1.0)
    np.testing.assert_allclose(whole, parts, rtol=1e-12, atol=1e-14)


def test_repulsion_has_no_total_and_spares_equal_frequencies(rng):
    omega, slopes, squares = mixture(rng, M=4)
    force = pooled_force(omega, 0.0 * slopes, squares, 1.0)
    np.testing.assert_allclose(force.sum(axis=(0, 1)), 0.0, atol=1e-13)
    omega[:] = 1.0
    np.testing.assert_allclose(bandwidths(omega), 1.0)
    force = pooled_force(omega, 0.0 * slopes, bandwidths(omega), 1.0)
    np.testing.assert_allclose(force, 0.0, atol=1e-15)
