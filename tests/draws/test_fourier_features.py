"""Fourier features of draws."""

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import Matern

from skgpx._draws import FourierFeatures, linear_draws, section_terms


@pytest.mark.parametrize("size", [2, 30, 31, 64, 243, 244, 245, 255, 256, 257])
@pytest.mark.parametrize("n", [127, 128, 129, 513])
def test_any_number_of_draws_and_rows_is_the_whole_product(size, n):
    rng = np.random.default_rng(size)
    X, W, a = rng.normal(size=(n, 2)), rng.normal(size=(140, 2)), rng.random(140)
    waves = FourierFeatures(W, a)
    weights, points = rng.normal(size=(280, 1, size)), rng.normal(size=(270, 2))
    (sections,) = section_terms(Matern(0.7, nu=2.5), points, weights[:270])
    for features, v in ((waves, weights), (sections.features, sections.weights)):
        found = linear_draws(features, v)(X)
        np.testing.assert_allclose(found, features(X) @ v[:, 0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("n", [2047, 2048, 2049, 32767, 32768, 32769])
def test_a_row_of_one_draw_does_not_depend_on_the_others(n):
    rng = np.random.default_rng(0)
    W, a = rng.normal(size=(6, 2)), np.ones(6)
    draw = linear_draws(FourierFeatures(W, a), rng.normal(size=(12, 1, 1)))
    X = rng.normal(size=(n, 2))
    np.testing.assert_array_equal(draw(X)[-5:], draw(X[-5:]))
