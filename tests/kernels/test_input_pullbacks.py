"""Derivatives of kernels in their inputs against finite differences."""

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    ExpSineSquared,
    Matern,
    PairwiseKernel,
    RationalQuadratic,
    WhiteKernel,
)

from skgpx.kernels import GREKernel, matrix_and_input_pullback, register_kernel

SUPPORT = np.random.default_rng(7).normal(size=(6, 2))
KERNELS = {
    "rbf": RBF([0.7, 2.0]),
    "matern-1/2": Matern(0.8, nu=0.5),
    "matern-3/2": Matern([0.8, 1.5], nu=1.5),
    "matern-5/2": Matern(0.8, nu=2.5),
    "matern-inf": Matern(0.8, nu=np.inf),
    "matern-0.8": Matern(0.8, nu=0.8),
    "matern-3.5": Matern(0.8, nu=3.5),
    "rational-quadratic": RationalQuadratic(0.9, 0.6),
    "periodic": ExpSineSquared(1.3, 2.1),
    "linear": DotProduct(0.4),
    "constant": ConstantKernel(2.0),
    "white": WhiteKernel(2.0),
    "sum-of-products": ConstantKernel(3.0) * RBF(0.5) * DotProduct(1.0)
    + Matern(nu=2.5),
    "power": DotProduct(0.4) ** 3,
    "gre": GREKernel(ConstantKernel(2.0) * RBF(0.7), SUPPORT, background=0.3),
    "gre-no-background": GREKernel(RBF(0.7), SUPPORT, background=0.0),
}


@pytest.mark.parametrize("name", KERNELS)
def test_pull_matches_finite_differences(name):
    kernel, rng = KERNELS[name], np.random.default_rng(3)
    X, Z, G = rng.normal(size=(9, 2)), rng.normal(size=(5, 2)), rng.normal(size=(9, 5))
    K, pullback = matrix_and_input_pullback(kernel, X, Z)
    np.testing.assert_allclose(K, kernel(X, Z), rtol=1e-10, atol=1e-14)
    for k in range(2):
        step = 1e-5 * np.eye(2)[k]
        slope = (kernel(X + step, Z) - kernel(X - step, Z)) / 2e-5
        expected = np.sum(G * slope, axis=1)
        np.testing.assert_allclose(pullback(G)[:, k], expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", KERNELS)
def test_finite_where_points_coincide(name):
    K, pullback = matrix_and_input_pullback(KERNELS[name], SUPPORT, SUPPORT)
    assert np.isfinite(pullback(np.ones_like(K))).all()


def test_unknown_kernels_are_named():
    with pytest.raises(ValueError, match=r"PairwiseKernel.*input_gradient"):
        matrix_and_input_pullback(RBF() + PairwiseKernel(), SUPPORT, SUPPORT)


def test_a_rule_for_a_users_kernel():
    class Twice(RBF):
        def __call__(self, X, Y=None, eval_gradient=False):
            return 2.0 * super().__call__(X, Y)

    with pytest.raises(ValueError, match="Twice"):
        matrix_and_input_pullback(Twice(), SUPPORT, SUPPORT)

    def rule(kernel, X, Z):
        K, pullback = matrix_and_input_pullback(RBF(kernel.length_scale), X, Z)
        return 2.0 * K, lambda G: 2.0 * pullback(G)

    register_kernel(Twice, input_gradient=rule)
    K, _ = matrix_and_input_pullback(Twice(), SUPPORT, SUPPORT)
    np.testing.assert_allclose(K, 2.0 * RBF()(SUPPORT))
