import numpy as np
import pytest

from skgpx._numerics.spread import mean_and_spread


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
