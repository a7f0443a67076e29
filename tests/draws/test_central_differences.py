"""Slopes of functions of which only values are known."""

import numpy as np
from numpy.testing import assert_allclose

from skgpx._draws import central_differences


def test_slopes_of_each_output_in_each_input():
    X = np.array([[0.3, -2.0], [40.0, 1e-3]])

    def function(X):
        return np.column_stack((np.sin(X[:, 0]), X[:, 0] * X[:, 1], X[:, 1] ** 2))

    slopes = central_differences(function, X)
    x, z, nothing = X[:, 0], X[:, 1], np.zeros(2)
    expected = [[np.cos(x), nothing], [z, x], [nothing, 2.0 * z]]
    assert slopes.shape == (2, 3, 2)
    assert_allclose(slopes, np.moveaxis(expected, -1, 0), rtol=1e-8, atol=1e-9)
