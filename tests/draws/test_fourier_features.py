"""Fourier features of draws."""

import numpy as np

from skgpx._draws import FourierFeatures, linear_draws


def test_single_precision_is_close():
    rng = np.random.default_rng(0)
    W, a = rng.normal(size=(256, 3)), np.full(256, 1.0 / 16.0)
    weights, X = rng.normal(size=(512, 1, 20)), rng.normal(size=(500, 3))
    double = linear_draws(FourierFeatures(W, a), weights)(X)
    single = linear_draws(FourierFeatures(W, a, single_precision=True), weights)(X)
    assert single.dtype == np.float64
    assert 0.0 < np.abs(single - double).max() < 1e-5
