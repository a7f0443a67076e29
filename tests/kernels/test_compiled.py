import numpy as np
import pytest
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    Matern,
    RationalQuadratic,
    WhiteKernel,
)

from skgpx.kernels import (
    GREKernel,
    kernel_matrix,
    matrix_and_pullback,
    triangle_and_pullback,
)

KERNELS = {
    "rbf": RBF(0.8),
    "amplitude": ConstantKernel(1.7) * RBF([0.8, 1.4, 3.0]),
    "fixed amplitude": ConstantKernel(1.7, "fixed") * Matern([0.8, 1.4, 3.0], nu=1.5),
    "fixed lengthscale": ConstantKernel(1.7) * Matern(0.9, "fixed", nu=2.5),
    "all fixed": ConstantKernel(1.7, "fixed") * RBF(0.9, "fixed"),
    "any order": Matern(1.1, nu=0.8),
    "rational quadratic": ConstantKernel(0.4) * RationalQuadratic(0.8, 1.3),
    "sum": ConstantKernel(0.5) * RBF(0.7) + Matern(1.2, nu=0.5),
    "noise": RBF(0.8) + WhiteKernel(0.1),
    "gre": GREKernel(RBF([0.8, 1.4, 3.0]), np.eye(3), background=0.6),
}
kernels = pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)


@kernels
def test_matrix_is_the_kernel_and_rows_do_not_see_one_another(rng, kernel):
    X, Z = rng.standard_normal((23, 3)) + 100.0, rng.standard_normal((37, 3)) + 100.0
    X[3] = Z[5]
    K = kernel_matrix(kernel, X, Z)
    assert K.flags.c_contiguous
    np.testing.assert_allclose(K, kernel(X, Z), rtol=1e-10, atol=1e-14)
    if kernel is not KERNELS["gre"]:
        # products with BLAS may round otherwise
        np.testing.assert_array_equal(kernel_matrix(kernel, X[4:9], Z), K[4:9])


@kernels
def test_triangle_and_its_pullback_are_those_of_the_whole(rng, kernel):
    X = rng.standard_normal((23, 3)) + 100.0
    G = rng.standard_normal((23, 23))
    G += G.T
    K, pullback = triangle_and_pullback(kernel, X)
    whole, expected = matrix_and_pullback(kernel, X)
    np.testing.assert_allclose(np.tril(K), np.tril(whole), rtol=1e-10, atol=1e-14)
    below = np.tril(G) + np.triu(np.full_like(G, np.nan), 1)
    slopes = pullback(below)
    assert slopes.shape == kernel.theta.shape
    np.testing.assert_allclose(slopes, expected(G), rtol=1e-8, atol=1e-8)
