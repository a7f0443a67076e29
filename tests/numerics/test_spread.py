import numpy as np
import pytest

from skgpx._numerics.rows import (
    InputFrame,
    mean_and_spread,
    weighted_quantiles,
)


@pytest.mark.parametrize("scale", [1e-300, 1.0, 1e300])
def test_moments_of_columns_of_any_magnitude(rng, scale):
    values = rng.normal(2.0, 3.0, size=(50, 4))
    weights = rng.integers(0, 4, 50).astype(float)
    repeated = np.repeat(values, weights.astype(int), axis=0)
    mean, std = mean_and_spread(values * scale, weights, 1e-14)
    np.testing.assert_allclose(mean / scale, repeated.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(std / scale, repeated.std(axis=0), rtol=1e-12)
    one, other = mean_and_spread(values[:, 0] * scale, weights, 1e-14)
    np.testing.assert_allclose([one, other], [mean[0], std[0]], rtol=1e-12)


@pytest.mark.parametrize("value", [0.0, 0.1, 1e8, -1e-200])
def test_a_constant_has_a_spread_of_one(value):
    mean, std = mean_and_spread(np.full(7, value), None, 1e-14)
    np.testing.assert_allclose(mean, value, rtol=1e-15)
    assert std == 1.0


def test_quantiles_of_weights_are_those_of_repetitions(rng):
    values, weights = rng.normal(size=30), rng.integers(0, 4, 30).astype(float)
    repeated = np.repeat(values, weights.astype(int))
    levels = [0.05, 0.5, 0.95]
    found = weighted_quantiles(values, weights, levels)
    expected = weighted_quantiles(repeated, np.ones(len(repeated)), levels)
    np.testing.assert_array_equal(found, expected)


def test_a_squash_changes_what_is_far_outside_only(rng):
    values = rng.normal(size=(400, 3))
    values[:, 2] = 7.0
    frame = InputFrame.of(values, np.ones(400))
    squash = frame._replace(centre=np.zeros(3), scale=np.ones(3))
    np.testing.assert_array_equal(squash(values), values)
    mean, std = mean_and_spread(values, None, 1e-14)
    np.testing.assert_allclose(frame(values), (values - mean) / std, rtol=1e-12)
    # one to one, with a slope that is one at the fence and falls
    x = np.linspace(-100.0, 100.0, 20_001)[:, np.newaxis] * np.ones(3)
    slopes = np.diff(squash(x)[:, 0]) / np.diff(x[:, 0])
    assert np.all((slopes > 0.0) & (slopes < 1.0 + 1e-9))
    assert np.max(np.abs(np.diff(slopes))) < 0.011
    assert abs(squash(x)[-1, 0]) < 20.0


@pytest.mark.parametrize("share", [0.001, 0.01, 0.024])
def test_outliers_leave_the_scale_of_the_others(rng, share):
    values, n = rng.normal(size=(2000, 1)), int(share * 2000)
    values[:n] *= 1e6
    spread = InputFrame.of(values, np.ones(2000))(values)[n:].std()
    assert 0.15 < spread <= 1.0


def test_rounding_is_no_spread(rng):
    # a constant up to rounding, and a group elsewhere that says much
    values = np.where(rng.random(800) < 0.5, 0.3, 0.1 * 3.0)
    values[:32] = rng.uniform(5.0, 6.0, 32)
    frame = InputFrame.of(values[:, np.newaxis], np.ones(800))
    frame = frame._replace(centre=np.zeros(1), scale=np.ones(1))
    np.testing.assert_array_equal(frame(values[:, np.newaxis])[:, 0], values)
