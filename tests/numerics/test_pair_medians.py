import numpy as np
import pytest
from numpy.testing import assert_allclose

from skgpx._numerics.pair_medians import median_squares


def reference(points):
    squares = (points[:, np.newaxis] - points) ** 2
    return np.median(squares.reshape(-1, points.shape[1]), axis=0)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 50, 51])
def test_is_that_of_all_pairs(rng, n):
    points = rng.normal(size=(n, 3))
    assert_allclose(median_squares(points), reference(points), rtol=1e-15)


@pytest.mark.parametrize("n", [2, 3, 4, 7, 30, 31])
def test_ties(rng, n):
    points = rng.integers(0, 3, (n, 5)).astype(float)
    points[:, 0] = 1.0
    assert_allclose(median_squares(points), reference(points), rtol=0.0)


@pytest.mark.parametrize("size", [1e-200, 1e-8, 1e8, 1e150])
def test_any_units(rng, size):
    points = rng.standard_cauchy((40, 2))
    expected = reference(points) * size**2 if size > 1e-100 else 0.0
    assert_allclose(median_squares(points * size), expected, rtol=1e-14)
