"""Gradients of prior draws against finite differences, for every kind of features."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    ExpSineSquared,
    Matern,
)

from skgpx.bases import draw_prior
from skgpx.kernels import GREKernel

X = np.random.default_rng(0).normal(size=(5, 2))
KERNELS = {
    "linear": DotProduct(0.7),
    "quadratic": DotProduct(0.7) ** 2,
    "tensor": DotProduct(0.7) * RBF(0.8),
    "cubic tensor": DotProduct(0.7) * DotProduct(0.2) * Matern(0.8, nu=2.5),
    "sum": RBF(0.8) + ConstantKernel(0.5) * DotProduct(0.3),
    "gre": GREKernel(2.0 * RBF(0.9), X[:4], background=0.5),
}


def assert_slopes(draws, X, h=1e-5):
    _, gradients = draws.value_and_grad(X)
    for j, step in enumerate(h * np.eye(X.shape[1])):
        slope = (draws(X + step) - draws(X - step)) / (2.0 * h)
        assert_allclose(gradients[..., j], slope, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("n_outputs", [1, 2])
@pytest.mark.parametrize("n_groups", [1, 3])
@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS.keys())
def test_gradients_are_slopes(kernel, n_groups, n_outputs):
    rng = np.random.default_rng(1)
    draws = draw_prior(kernel, 2, n_outputs, 5, rng, n_basis=32, n_groups=n_groups)
    assert_slopes(draws, X)
    chosen = draws[[4, 0, 2]].affine(1.0, np.arange(1.0, n_outputs + 1.0))
    assert_slopes(chosen, X)
    each = chosen(X[:3])
    at = chosen.at(X[:3])
    for i in range(3):
        assert_allclose(at[i], each[i, ..., i], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("order", [[0, 0, 2, 3, 4, 4], [4, 1, 0, 3, 4, 2]])
def test_any_draw_at_any_row(order):
    rng = np.random.default_rng(2)
    draws = draw_prior(Matern(0.7, nu=1.5), 2, 2, 5, rng, n_basis=32, n_groups=3)
    rows = np.resize(X, (6, 2))
    values, gradients = draws._pairs(rows, np.array(order))
    everything, slopes = draws.value_and_grad(rows)
    for i, j in enumerate(order):
        assert_allclose(values[i], everything[i, :, j], rtol=1e-12)
        assert_allclose(gradients[i], slopes[i, :, j], rtol=1e-12)


def test_periodic_gradients_are_slopes():
    draws = draw_prior(ExpSineSquared(0.8, 1.5), 1, 1, 3, np.random.default_rng(1))
    assert_slopes(draws, X[:, :1])
