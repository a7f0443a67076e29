"""Derivatives of kernel matrices against differences and against scikit-learn."""

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    ExpSineSquared,
    Matern,
    RationalQuadratic,
    WhiteKernel,
)

from skgpx.kernels import (
    GREKernel,
    diagonal_and_pullback,
    inducing_and_pullback,
    matrix_and_pullback,
)

ARD = [0.6, 1.3, 2.0]
SUPPORT = np.random.default_rng(5).normal(size=(7, 3))
KERNELS = {
    "rbf": RBF(0.8),
    "rbf-ard": RBF(ARD),
    "rbf-fixed": RBF(ARD, "fixed"),
    "matern-.5": Matern(ARD, nu=0.5),
    "matern-1.5": Matern(ARD, nu=1.5),
    "matern-1.5-iso": Matern(0.7, nu=1.5),
    "matern-2.5": Matern(ARD, nu=2.5),
    "matern-inf": Matern(ARD, nu=np.inf),
    "matern-general": Matern(ARD, nu=0.8),
    "rational": RationalQuadratic(0.9, 1.4),
    "rational-fixed-alpha": RationalQuadratic(0.9, 1.4, alpha_bounds="fixed"),
    "rational-fixed-scale": RationalQuadratic(0.9, 1.4, "fixed"),
    "constant": ConstantKernel(1.7),
    "dot": DotProduct(0.7),
    "white": WhiteKernel(0.3),
    "composite": ConstantKernel(2.0) * RBF(ARD)
    + Matern(0.9) * DotProduct(0.4)
    + WhiteKernel(0.2),
    "composite-fixed": ConstantKernel(2.0, "fixed") * RBF(ARD) + RBF(0.4, "fixed"),
    "power": (RBF(0.7) + ConstantKernel(0.5)) ** 2.5,
    "fallback": ExpSineSquared(1.2, 2.3),
    "fallback-inside": ConstantKernel(1.5) * ExpSineSquared(1.2, 2.3) + RBF(ARD),
    "gre": GREKernel(ConstantKernel(1.4) * RBF(ARD), SUPPORT, background=0.6),
    "gre-weights": GREKernel(Matern(ARD), SUPPORT, np.arange(1.0, 8.0)),
    "gre-fixed": GREKernel(
        ConstantKernel(1.4, "fixed") * RBF(ARD) + RBF(0.3, "fixed"),
        SUPPORT,
        background=0.6,
        background_bounds="fixed",
    ),
    "gre-zero": GREKernel(RBF(ARD), SUPPORT, background=0.0, background_bounds="fixed"),
    "gre-sum": 0.5 * GREKernel(RBF(ARD), SUPPORT) + WhiteKernel(0.1),
}
ALL = pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS.keys())


def vjp(kernel, X, Y, G):
    return matrix_and_pullback(kernel, X, Y)[1](G)


def vjp_diag(kernel, X, g):
    return diagonal_and_pullback(kernel, X)[1](g)


@pytest.fixture
def points():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(9, 3)), rng.normal(size=(6, 3))
    Y[0] = X[3]  # a coincident pair
    return X, Y, rng.normal(size=(9, 6))


def differences(function, kernel, step=1e-5):
    """Central differences of a scalar function of the kernel in theta."""
    theta, slopes = kernel.theta, []
    for direction in np.eye(theta.size):
        up = function(kernel.clone_with_theta(theta + step * direction))
        down = function(kernel.clone_with_theta(theta - step * direction))
        slopes.append((up - down) / (2 * step))
    return np.array(slopes)


@ALL
def test_matrix_and_vjp_between_two_sets(kernel, points):
    X, Y, G = points
    K, pullback = matrix_and_pullback(kernel, X, Y)
    np.testing.assert_allclose(K, kernel(X, Y), rtol=1e-12, atol=1e-15)
    expected = differences(lambda k: np.sum(G * k(X, Y)), kernel)
    assert pullback(G).shape == kernel.theta.shape
    np.testing.assert_allclose(pullback(G), expected, rtol=1e-6, atol=1e-8)
    np.testing.assert_array_equal(vjp(kernel, X, Y, G), pullback(G))


@ALL
def test_vjp_on_one_set_equals_scikit_learn(kernel, points):
    X = points[0]
    G = np.random.default_rng(1).normal(size=(9, 9))
    K, gradient = kernel(X, eval_gradient=True)
    mine, pullback = matrix_and_pullback(kernel, X)
    np.testing.assert_allclose(mine, K, rtol=1e-12, atol=1e-15)
    expected, tolerance = np.einsum("ij,ijp->p", G, gradient), 1e-10
    if kernel is KERNELS["matern-general"]:
        # scikit-learn takes forward differences, which are worse than central ones
        expected = differences(lambda k: np.sum(G * k(X)), kernel)
        tolerance = 1e-6
    np.testing.assert_allclose(pullback(G), expected, rtol=tolerance, atol=1e-11)


@ALL
def test_diagonal(kernel, points):
    X = points[0]
    g = np.random.default_rng(2).normal(size=9)
    diagonal, _ = diagonal_and_pullback(kernel, X)
    np.testing.assert_allclose(diagonal, kernel.diag(X), rtol=1e-13)
    expected = differences(lambda k: g @ k.diag(X), kernel)
    np.testing.assert_allclose(vjp_diag(kernel, X, g), expected, rtol=1e-6, atol=1e-9)


@ALL
def test_inducing_parts_share_one_pullback(kernel, points):
    X, Z, G = points
    rng = np.random.default_rng(3)
    H, g = rng.normal(size=(6, 6)), rng.normal(size=9)
    kernels, pullback = inducing_and_pullback(kernel, X, Z)
    np.testing.assert_allclose(kernels.cross, kernel(X, Z), rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(kernels.inducing, kernel(Z), rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(kernels.diagonal, kernel.diag(X), rtol=1e-12)
    expected = vjp(kernel, X, Z, G) + vjp(kernel, Z, None, H) + vjp_diag(kernel, X, g)
    np.testing.assert_allclose(pullback(G, H, g), expected, rtol=1e-9, atol=1e-12)


def test_fallback_crosses_block_borders():
    rng = np.random.default_rng(3)
    X, Y = rng.normal(size=(300, 2)), rng.normal(size=(270, 2))
    kernel, G = ExpSineSquared(1.2, 2.3), rng.normal(size=(300, 270))
    expected = differences(lambda k: np.sum(G * k(X, Y)), kernel)
    np.testing.assert_allclose(vjp(kernel, X, Y, G), expected, rtol=1e-6)
    H = rng.normal(size=(300, 300))
    expected = differences(lambda k: np.sum(H * k(X)), kernel)
    np.testing.assert_allclose(vjp(kernel, X, None, H), expected, rtol=1e-6)
    expected = np.einsum("i,iip->p", G[:, 0], kernel(X, eval_gradient=True)[1])
    assert vjp_diag(kernel, X, G[:, 0]) == pytest.approx(expected)


@pytest.mark.parametrize("d", [6, 30])
@pytest.mark.parametrize("scale", [0.05, 1.0, 10.0])
@pytest.mark.parametrize("offset", [0.0, 1e5])
def test_matrix_product_distances_keep_ten_digits(d, scale, offset):
    rng = np.random.default_rng(4)
    X, Y = rng.normal(size=(50, d)) + offset, rng.normal(size=(40, d)) + offset
    Y[:5] = X[:5] + 1e-6
    kernel = RBF(scale * np.linspace(1.0, 2.0, d))
    expected = kernel(X - offset, Y - offset)  # the subtraction is exact
    K, pullback = matrix_and_pullback(kernel, X, Y)
    visible = expected > 1e-200
    np.testing.assert_allclose(K[visible], expected[visible], rtol=2e-10)
    G = rng.normal(size=K.shape)
    terms = G * expected
    exact = [
        np.sum(
            terms * (X[:, None, j] - Y[None, :, j]) ** 2 / kernel.length_scale[j] ** 2
        )
        for j in range(d)
    ]
    size = np.abs(terms).sum()
    np.testing.assert_allclose(pullback(G), exact, rtol=1e-8, atol=1e-9 * size)
