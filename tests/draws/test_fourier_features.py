"""Fourier features of draws."""

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import Matern

from skgpx._draws import FourierFeatures, linear_draws, section_terms
from skgpx._draws._features import panel_size


def test_single_precision_is_close():
    rng = np.random.default_rng(0)
    W, a = rng.normal(size=(256, 3)), np.full(256, 1.0 / 16.0)
    weights, X = rng.normal(size=(512, 1, 20)), rng.normal(size=(500, 3))
    double = linear_draws(FourierFeatures(W, a), weights)(X)
    single = linear_draws(FourierFeatures(W, a, single_precision=True), weights)(X)
    assert single.dtype == np.float64
    assert 0.0 < np.abs(single - double).max() < 1e-5


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


def test_panels_are_even_and_neither_small_nor_large():
    sizes = [panel_size(k) for k in (0, 1, 30, 31, 64, 243, 244, 245, 255, 256, 10**6)]
    assert sizes == [256, 256, 256, 248, 120, 32, 32, 32, 32, 256, 256]


@pytest.mark.parametrize("n", [2047, 2048, 2049, 32767, 32768, 32769])
def test_a_row_of_one_draw_does_not_depend_on_the_others(n):
    rng = np.random.default_rng(0)
    W, a = rng.normal(size=(6, 2)), np.ones(6)
    draw = linear_draws(FourierFeatures(W, a), rng.normal(size=(12, 1, 1)))
    X = rng.normal(size=(n, 2))
    np.testing.assert_array_equal(draw(X)[-5:], draw(X[-5:]))
