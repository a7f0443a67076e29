"""Which of independent normal variables is the largest."""

import numpy as np
import pytest
from scipy import special

from skgpx._numerics.mixture import LatentMixture
from skgpx._numerics.robust_max import largest_probabilities, probability_and_slopes

# Variance of one output over that of the other.
RATIOS = 10.0 ** np.arange(-20.0, 21.0, 2.0)


def probabilities(mean, variance):
    """(n, c) of one component."""
    shape = (*np.shape(mean), 1)
    distribution = LatentMixture(
        np.reshape(mean, shape), np.reshape(variance, (len(mean), -1, 1)), np.ones(1)
    )
    return largest_probabilities(distribution)


@pytest.mark.parametrize("ratio", RATIOS)
def test_two_outputs_have_a_closed_form(rng, ratio):
    spread = np.sqrt(1.0 + ratio)
    gap = 3.0 * spread * rng.standard_normal(15)
    mean = np.stack([gap, np.zeros(15)], axis=1)
    found = probabilities(mean, np.tile([1.0, ratio], (15, 1)))
    # standard deviations are at least a hundredth of the largest
    error = 2e-11 if 1e-4 <= ratio <= 1e4 else 2e-5
    np.testing.assert_allclose(found[:, 0], special.ndtr(gap / spread), atol=error)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-14)


@pytest.mark.parametrize("lowest", [1e-4, 1e-2, 1.0])
def test_five_outputs_against_draws(rng, lowest):
    n, size = 8, 200_000
    mean = rng.standard_normal((n, 5))
    variance = np.exp(rng.uniform(np.log(lowest), 0.0, (n, 5)))
    variance[:, 0], variance[:, 1] = lowest, 1.0
    found = probabilities(mean, variance)
    for i in range(n):
        f = mean[i] + np.sqrt(variance[i]) * rng.standard_normal((size, 5))
        share = np.bincount(np.argmax(f, axis=1), minlength=5) / size
        error = np.sqrt(np.maximum(found[i] * (1.0 - found[i]), 1.0 / size) / size)
        assert np.max(np.abs(share - found[i]) / error) < 4.5


@pytest.mark.parametrize("c", [2, 3, 10, 40])
def test_equal_variances_against_gauss_hermite(rng, c):
    """The paper's rule, which is exact there."""
    mean, n = rng.standard_normal((6, c)), 6
    nodes, weights = np.polynomial.hermite_e.hermegauss(150)
    expected = np.empty((n, c))
    for j in range(c):
        z = mean[:, j, None, None] + nodes[:, np.newaxis] - mean[:, np.newaxis]
        logs = special.log_ndtr(z)
        logs[:, :, j] = 0.0
        expected[:, j] = np.exp(logs.sum(axis=2)) @ (weights / weights.sum())
    found = probabilities(mean, np.ones((n, 1)))
    np.testing.assert_allclose(found, expected, atol=1e-10)


@pytest.mark.parametrize("shared", [True, False])
def test_derivatives_are_those_of_differences(rng, shared):
    n, c, h = 6, 4, 1e-5
    mean, y = rng.standard_normal((n, c)), np.arange(n) % c
    variance = np.exp(rng.uniform(-3.0, 1.0, (n, 1 if shared else c)))
    value, in_mean, in_variance = probability_and_slopes(y, mean, variance)
    whole = np.broadcast_to(variance, mean.shape)
    expected = probabilities(mean, whole)[np.arange(n), y]
    np.testing.assert_allclose(value, expected, atol=1e-12)
    for k in range(c):
        step = h * (np.arange(c) == k)
        rise = [probability_and_slopes(y, mean + s * step, whole)[0] for s in (1, -1)]
        numeric = (rise[0] - rise[1]) / (2 * h)
        np.testing.assert_allclose(in_mean[:, k], numeric, atol=1e-8)
        rise = [probability_and_slopes(y, mean, whole + s * step)[0] for s in (1, -1)]
        numeric = (rise[0] - rise[1]) / (2 * h)
        np.testing.assert_allclose(in_variance[:, k], numeric, atol=1e-6)
    np.testing.assert_allclose(in_mean.sum(axis=1), 0.0, atol=1e-12)


def test_constants_are_compared():
    mean = np.array([[1.0, 0.0, -1.0], [2.0, 2.0, 0.0], [0.0, 0.0, 0.0]])
    expected = [[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [1 / 3, 1 / 3, 1 / 3]]
    found = probabilities(mean, np.zeros((3, 1)))
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_extreme_sizes():
    mean = np.array([[1e120, -1e120, 0.0], [900.0, -900.0, 899.0], [1e-120, 0.0, 0.0]])
    variance = np.array([[1.0], [1.0], [1e-240]])
    found = probabilities(mean, variance)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(found[0], [1.0, 0.0, 0.0], atol=1e-12)
    assert found[1, 2] == pytest.approx(special.ndtr(-np.sqrt(0.5)), abs=1e-10)
    assert found[2, 0] > found[2, 1]


def test_an_impossible_output_has_no_slope():
    value, *slopes = probability_and_slopes(
        [1], np.array([[90.0, 0.0]]), np.ones((1, 1))
    )
    assert value[0] == 0.0
    assert not np.any(slopes)
