import numpy as np

from skgpx._numerics.special_functions import theta_sum


def test_both_sums_are_those_of_the_definition():
    x = np.array([0.05, 0.3, 0.999999, 1.0, 1.000001, 3.0, 20.0])
    n = np.arange(1, 400)[:, np.newaxis]
    images = 2.0 * np.exp(-np.pi * (n / x) ** 2).sum(axis=0)
    waves = 2.0 * np.exp(-np.pi * (n * x) ** 2).sum(axis=0)
    found = theta_sum(x)
    assert np.allclose(found.log_images, np.log1p(images), rtol=1e-13, atol=0)
    assert np.allclose(found.log_waves, np.log1p(waves), rtol=1e-13, atol=0)


def test_slope_by_differences():
    x, h = np.array([[0.2, 0.9], [1.1, 4.0]]), 1e-5
    up, down = (theta_sum(x * np.exp(s)).log_images for s in (h, -h))
    assert np.allclose(theta_sum(x).slope, (up - down) / (2 * h), rtol=1e-8, atol=1e-9)
