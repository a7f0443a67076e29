"""Stein variational gradient descent: forces against sums, and where points end."""

import numpy as np
import pytest

from skgpx._numerics.svgd import (
    matrix_svgd_force,
    median_bandwidths,
    svgd_force,
    transported,
)


def brute_force(points, scores, bandwidths, mirrored):
    """Eq. (8) of Liu and Wang, pair by pair."""
    if mirrored:
        others, pulls = np.vstack((points, -points)), np.vstack((scores, -scores))
    else:
        others, pulls = points, scores
    force = np.zeros_like(points)
    for i, x in enumerate(points):
        for y, s in zip(others, pulls, strict=True):
            k = np.exp(-0.5 * np.sum((x - y) ** 2 / bandwidths))
            force[i] += k * (s + (x - y) / bandwidths)
    return force / len(others)


@pytest.mark.parametrize("mirrored", [False, True])
@pytest.mark.parametrize(("R", "d"), [(1, 1), (2, 3), (13, 1), (30, 4), (9, 50)])
def test_the_force_is_the_sum_over_pairs(R, d, mirrored, rng):
    points, scores = rng.normal(size=(2, R, d))
    bandwidths = rng.uniform(0.5, 2.0, size=d) * d
    expected = brute_force(points, scores, bandwidths, mirrored)
    found = svgd_force(points, scores, bandwidths, mirrored)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)


def test_far_points_neither_overflow_nor_interact():
    points = np.array([[0.0], [1e3], [-2e3]])
    scores = np.array([[1.0], [2.0], [3.0]])
    found = svgd_force(points, scores, np.ones(1), True)
    np.testing.assert_allclose(found[1:], [[2.0 / 6.0], [3.0 / 6.0]])
    assert found[0] == 0.0


def test_the_repulsion_is_the_gradient_of_the_kernel_sum(rng):
    points, h, step = rng.normal(size=(7, 3)), np.array([0.7, 1.0, 2.0]), 1e-6
    force = svgd_force(points, np.zeros((7, 3)), h, False)

    def total(x):
        return -np.mean(np.exp(-0.5 * np.sum((x - points) ** 2 / h, axis=1)))

    for k, e in enumerate(np.eye(3)):
        slope = (total(points[2] + step * e) - total(points[2] - step * e)) / (2 * step)
        assert force[2, k] == pytest.approx(slope, rel=1e-8)


@pytest.mark.parametrize("mirrored", [False, True])
def test_the_matrix_force_is_written_out(mirrored, rng):
    points, scores = rng.normal(size=(2, 12, 3))
    factors = np.array([3.0, 3.0, 3.0])
    H = scores.T @ scores / 12
    H += 1e-3 * np.trace(H) / 3 * np.eye(3)
    L = np.linalg.cholesky(H)
    bandwidths = median_bandwidths(points @ L, factors, mirrored)
    B = L @ np.diag(1.0 / bandwidths) @ L.T
    others = np.vstack((points, -points)) if mirrored else points
    pulls = np.vstack((scores, -scores)) if mirrored else scores
    expected = np.zeros((12, 3))
    for i, x in enumerate(points):
        for y, s in zip(others, pulls, strict=True):
            k = np.exp(-0.5 * (x - y) @ B @ (x - y))
            expected[i] += np.linalg.solve(H, k * (s + B @ (x - y)))
    found = matrix_svgd_force(points, scores, factors, mirrored)
    np.testing.assert_allclose(found, expected / len(others), rtol=1e-7, atol=1e-12)


def test_bandwidths_are_medians_of_each_column(rng):
    points = rng.normal(size=(20, 3)) * [1.0, 5.0, 0.0]
    factors = np.array([1.0, 2.0, 3.0])
    for mirrored in (False, True):
        pool = np.vstack((points, -points)) if mirrored else points
        medians = np.median((pool[:, np.newaxis] - pool) ** 2, axis=(0, 1))
        expected = factors * medians
        expected[2] = 3.0
        found = median_bandwidths(points, factors, mirrored)
        np.testing.assert_allclose(found, expected, rtol=1e-14)


def test_a_single_point_and_equal_points_stay_finite():
    for points in (np.zeros((1, 2)), np.ones((5, 2))):
        moved = transported(points, lambda x: -x, 20, 0.1, np.full(2, 2.0))
        assert np.all(np.isfinite(moved))


@pytest.mark.parametrize("matrix", [False, True])
def test_points_end_with_the_moments_of_the_density(matrix, rng):
    L = np.array([[1.0, 0.0], [0.8, 0.5]])
    precision = np.linalg.inv(L @ L.T)
    start = rng.normal(size=(25, 2))
    moved = transported(
        start, lambda x: -x @ precision, 150, 0.1, np.full(2, 2.0), matrix=matrix
    )
    np.testing.assert_allclose(moved.T @ moved / 25, L @ L.T, atol=0.08)


def test_points_follow_a_density_with_two_modes(rng):
    # ½ N(-2, ½²) + ½ N(2, ½²), from one side
    def score(x):
        share = 1.0 / (1.0 + np.exp(-16.0 * x))
        return -(x + 2.0) / 0.25 * (1.0 - share) - (x - 2.0) / 0.25 * share

    start = rng.normal(1.0, 1.0, size=(20, 1))
    moved = transported(start, score, 150, 0.1, np.ones(1), mirrored=False)[:, 0]
    near = np.minimum(np.abs(moved - 2.0), np.abs(moved + 2.0))
    assert np.all(near < 1.6)
    assert np.mean(moved[moved > 0.0]) == pytest.approx(2.0, abs=0.1)


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
