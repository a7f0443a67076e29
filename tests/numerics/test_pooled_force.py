"""Forces: brute-force sums, the paper's equations, and derivatives of kernels."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skgpx._numerics import radial
from skgpx._numerics import svgd as module
from skgpx._numerics.svgd import bandwidths, component_force, pooled_force

ROOT = np.sqrt([3.0, 5.0])
PROFILES = {
    radial.RBF: lambda r: np.exp(-0.5 * r**2),
    radial.MATERN_12: lambda r: np.exp(-r),
    radial.MATERN_32: lambda r: (1.0 + ROOT[0] * r) * np.exp(-ROOT[0] * r),
    radial.MATERN_52: lambda r: (
        (1.0 + ROOT[1] * r + 5.0 / 3.0 * r**2) * np.exp(-ROOT[1] * r)
    ),
}
codes = pytest.mark.parametrize("code", PROFILES)


def problem(rng, M=3, R=5, d=2):
    omega, slopes = rng.normal(size=(2, M, R, d))
    return omega, slopes, bandwidths(omega)


def gradient(function, x, step=1e-6):
    """Central differences."""
    units = step * np.eye(len(x))
    return np.array([function(x + u) - function(x - u) for u in units]) / (2.0 * step)


@codes
@pytest.mark.parametrize("repulsion", [0.0, 0.4, 1.0])
def test_pooled_force_is_the_sum_over_all_pairs(rng, code, repulsion):
    omega, slopes, squares = problem(rng)
    pool, pull = omega.reshape(-1, 2), slopes.reshape(-1, 2)

    def k(a, b):
        return PROFILES[code](np.sqrt(np.sum((a - b) ** 2 / squares)))

    expected = np.zeros_like(pool)
    for i, here in enumerate(pool):
        for j, there in enumerate(pool):
            push = np.zeros(2) if i == j else gradient(lambda z: k(here, z), there)  # noqa: B023
            expected[i] += (k(here, there) * pull[j] + repulsion * push) / 3.0
    force = pooled_force(omega, slopes, squares, repulsion, code)
    assert_allclose(force.reshape(-1, 2), expected, rtol=1e-6, atol=1e-8)


def test_pooled_form_is_the_published_one(rng):
    """Equations (26), (66) and (67) with their arrays of five axes."""
    omega, slopes, squares = problem(rng)
    alpha, M = 0.7, len(omega)
    # of frequency r of component m and frequency l of component j, at [m, j, r, l]
    difference = omega[:, np.newaxis, :, np.newaxis] - omega[:, np.newaxis]
    K = np.exp(-0.5 * np.sum(difference**2 / squares, axis=-1))
    push = K[..., np.newaxis] * difference / squares
    pull = K[..., np.newaxis] * slopes[np.newaxis, :, np.newaxis]
    expected = np.sum(pull + alpha * push, axis=(1, 3)) / M
    force = pooled_force(omega, slopes, squares, alpha, radial.RBF)
    assert_allclose(force, expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("R", [5, 21, 22, 43])
def test_blocks_of_the_pool_change_nothing(rng, R, monkeypatch):
    omega, slopes, squares = problem(rng, M=3, R=R)
    whole = pooled_force(omega, slopes, squares, 1.0, radial.MATERN_32)
    monkeypatch.setattr(module, "_BLOCK", 64)
    parts = pooled_force(omega, slopes, squares, 1.0, radial.MATERN_32)
    assert_allclose(whole, parts, rtol=1e-12, atol=1e-14)


@codes
def test_coinciding_frequencies_do_not_repel(code):
    omega, slopes = np.ones((2, 3, 2)), np.zeros((2, 3, 2))
    squares = bandwidths(omega)
    assert_allclose(squares, 1.0)
    force = pooled_force(omega, slopes, squares, 1.0, code)
    assert_allclose(force, 0.0, atol=1e-15)


@codes
def test_repulsion_has_no_total(rng, code):
    omega, slopes, squares = problem(rng, M=4)
    force = pooled_force(omega, 0.0 * slopes, squares, 1.0, code)
    assert_allclose(force.sum(axis=(0, 1)), 0.0, atol=1e-13)


def mmd_kernel(omega, squares, scale=None):
    """Matrix of ``exp(-MMD² / 2l)`` between sets, by loops, and l."""

    def mean(a, b):
        square = np.sum((a[:, np.newaxis] - b) ** 2 / squares, axis=-1)
        return np.mean(np.exp(-0.5 * square))

    M = len(omega)
    D = np.array(
        [[mean(a, a) + mean(b, b) - 2.0 * mean(a, b) for b in omega] for a in omega]
    )
    scale = np.median(D[np.triu_indices(M, 1)]) if scale is None else scale
    return np.exp(-0.5 * D / scale), scale


@pytest.mark.parametrize("repulsion", [0.0, 1.3])
def test_component_force_is_the_slope_of_the_kernels(rng, repulsion):
    omega, slopes, squares = problem(rng, M=4, R=3)
    K, scale = mmd_kernel(omega, squares)
    # each pair stands twice in the sum of the matrix
    push = gradient(
        lambda z: -0.5 * mmd_kernel(z.reshape(omega.shape), squares, scale)[0].sum(),
        omega.ravel(),
    ).reshape(omega.shape)
    expected = (np.einsum("ij,jrd->ird", K, slopes) + repulsion * push) / 4.0
    force = component_force(omega, slopes, squares, repulsion)
    assert_allclose(force, expected, rtol=1e-6, atol=1e-9)


def test_one_component_follows_its_slopes(rng):
    omega, slopes, squares = problem(rng, M=1)
    assert_allclose(component_force(omega, slopes, squares, 1.0), slopes, atol=1e-15)
