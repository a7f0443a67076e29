import numpy as np
import pytest

from skgpx._numerics.svgd import median_squares


def brute_force(points):
    return np.median((points[:, np.newaxis] - points) ** 2, axis=(0, 1))


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6, 7, 30, 31, 200, 201])
@pytest.mark.parametrize(
    "distribution", ["normal", "cauchy", "ties", "constant", "spread out"]
)
def test_equals_the_median_of_all_pairs(n, distribution, rng):
    points = {
        "normal": lambda: rng.normal(size=(n, 3)),
        "cauchy": lambda: rng.standard_cauchy(size=(n, 3)),
        "ties": lambda: rng.integers(0, 3, size=(n, 3)).astype(float),
        "constant": lambda: np.full((n, 3), 0.1),
        "spread out": lambda: np.exp(rng.normal(scale=30.0, size=(n, 3))),
    }[distribution]()
    np.testing.assert_allclose(median_squares(points), brute_force(points), rtol=1e-14)


def test_mirror_images(rng):
    half = rng.normal(size=(40, 2))
    points = np.concatenate((half, -half))
    np.testing.assert_allclose(median_squares(points), brute_force(points), rtol=1e-14)


def test_neighbouring_doubles():
    x = np.array([1.0, np.nextafter(1.0, 2.0), 1.0, np.nextafter(1.0, 0.0)])
    points = x[:, np.newaxis]
    np.testing.assert_allclose(median_squares(points), brute_force(points), rtol=1e-14)
