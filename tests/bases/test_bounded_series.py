"""Fourier functions within a domain: the same inside, an error outside."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from skgpx.bases import BoundedSeries, Box, FourierSeries, PolynomialEigenvalues

BOX = Box(np.array([-1.0]), np.array([3.0]))
DOMAIN = np.array([[-1.0, 1.0]])
INSIDE = np.linspace(-1.0, 1.0, 7)[:, np.newaxis]
OUTSIDE = np.array([[0.0], [1.5]])


def residual_draws(basis, n_outputs, size, rng):
    """Functions whose weights in the basis are zero."""
    return basis.draw(np.zeros((basis.n_basis, n_outputs, size)), rng)


def bases():
    rule = PolynomialEigenvalues()
    free = FourierSeries.from_rule(rule, BOX, 9)
    bounded = BoundedSeries(
        free.box, free.functions, free.spectrum, 9, free.remainder, DOMAIN
    )
    return free, bounded


def test_features_and_draws_inside():
    free, bounded = bases()
    assert_array_equal(bounded(INSIDE), free(INSIDE))
    one, two = (
        residual_draws(basis, 1, 3, np.random.default_rng(0))
        for basis in (free, bounded)
    )
    assert_array_equal(one(INSIDE), two(INSIDE))
    for a, b in zip(
        one.value_and_grad(INSIDE), two.value_and_grad(INSIDE), strict=True
    ):
        assert_array_equal(a, b)


def test_error_outside():
    _, bounded = bases()
    draws = residual_draws(bounded, 1, 2, np.random.default_rng(0))
    for function in (bounded, draws, draws.value_and_grad):
        with pytest.raises(ValueError, match=r"Column 0 .*\[-1, 1\].*1\.5.*domain"):
            function(OUTSIDE)
