"""Kernel matrices and their derivatives against differences and scikit-learn."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
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

from skgpx.kernels import (
    Additive,
    Columns,
    GREKernel,
    diagonal_and_pullback,
    kernel_matrix,
    matrix_and_input_pullback,
    matrix_and_pullback,
    register_kernel,
    triangle_and_pullback,
)
from tests.numerics.conftest import slopes

ARD = [0.6, 1.3, 2.0]
SUPPORT = np.random.default_rng(5).normal(size=(7, 3))


class Unknown(ExpSineSquared):
    """A type without rules of its own."""


KERNELS = {
    "rbf": RBF(0.8),
    "rbf-ard": RBF(ARD),
    "rbf-fixed": RBF(ARD, "fixed"),
    "matern-.5": Matern(ARD, nu=0.5),
    "matern-1.5": Matern(ARD, nu=1.5),
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
    "amplitude": ConstantKernel(1.7) * Matern(0.9, "fixed", nu=2.5),
    "amplitude-rbf": ConstantKernel(1.7) * RBF(ARD),
    "amplitude-.5": ConstantKernel(1.7) * Matern(ARD, nu=0.5),
    "amplitude-1.5": ConstantKernel(1.7) * Matern(0.9, nu=1.5),
    "amplitude-2.5": ConstantKernel(1.7) * Matern(ARD, nu=2.5),
    "all fixed": ConstantKernel(1.7, "fixed") * RBF(0.9, "fixed"),
    "composite-fixed": ConstantKernel(2.0, "fixed") * RBF(ARD) + RBF(0.4, "fixed"),
    "power": (RBF(0.7) + ConstantKernel(0.5)) ** 2.5,
    "power of dot": DotProduct(0.4) ** 3,
    "periodic": ExpSineSquared(1.2, 2.3),
    "periodic-fixed": RBF(3.0) * ExpSineSquared(1.2, 2.3, "fixed"),
    "periodic-known": ExpSineSquared(1.2, 2.3, periodicity_bounds="fixed"),
    "fallback": Unknown(1.2, 2.3),
    "fallback-inside": ConstantKernel(1.5) * Unknown(1.2, 2.3) + RBF(ARD),
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
    "gre-product": GREKernel(RBF(ARD), SUPPORT) * RBF(3.0),
    "additive": Additive(RBF(ARD)),
    "additive-1": Additive(Matern(0.9, nu=2.5), order=1, variances=2.0),
    "additive-3": Additive(Matern(ARD, "fixed", nu=1.5), 3, [0.4, 1.5, 0.7]),
    "additive-fixed": Additive(RBF(ARD), 2, 0.7, variances_bounds="fixed"),
    "additive-sum": Additive(Columns(RBF(0.6), [2]) * Columns(RBF(ARD[:2]), [0, 1]), 3)
    + 0.5 * RBF(ARD),
}
ALL = pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS.keys())


@pytest.fixture
def points():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(9, 3)), rng.normal(size=(6, 3))
    Y[0] = X[3]  # a coincident pair
    return X, Y, rng.normal(size=(9, 6))


def differences(function, kernel):
    """Central differences of a scalar function of the kernel in theta."""
    return slopes(lambda theta: function(kernel.clone_with_theta(theta)), kernel.theta)


@ALL
def test_matrix_and_pullback_between_two_sets(kernel, points):
    X, Y, G = points
    K, pullback = matrix_and_pullback(kernel, X, Y)
    np.testing.assert_allclose(K, kernel(X, Y), rtol=1e-10, atol=1e-15)
    expected = differences(lambda k: np.sum(G * k(X, Y)), kernel)
    assert pullback(G).shape == kernel.theta.shape
    np.testing.assert_allclose(pullback(G), expected, rtol=1e-6, atol=1e-8)


@ALL
def test_pullback_on_one_set_equals_scikit_learn(kernel, points):
    X = points[0]
    G = np.random.default_rng(1).normal(size=(9, 9))
    K, gradient = kernel(X, eval_gradient=True)
    mine, pullback = matrix_and_pullback(kernel, X)
    np.testing.assert_allclose(mine, K, rtol=1e-10, atol=1e-15)
    numeric = differences(lambda k: np.sum(G * k(X)), kernel)
    np.testing.assert_allclose(pullback(G), numeric, rtol=1e-6, atol=1e-8)
    # there scikit-learn takes forward differences
    if kernel is not KERNELS["matern-general"]:
        expected = np.einsum("ij,ijp->p", G, gradient)
        np.testing.assert_allclose(pullback(G), expected, rtol=1e-10, atol=1e-11)


@ALL
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


@ALL
def test_diagonal(kernel, points):
    X = points[0]
    g = np.random.default_rng(2).normal(size=9)
    diagonal, pullback = diagonal_and_pullback(kernel, X)
    np.testing.assert_allclose(diagonal, kernel.diag(X), rtol=1e-13)
    expected = differences(lambda k: g @ k.diag(X), kernel)
    np.testing.assert_allclose(pullback(g), expected, rtol=1e-6, atol=1e-9)


@ALL
def test_matrix_is_the_kernel_and_rows_do_not_see_one_another(rng, kernel):
    X, Z = rng.standard_normal((23, 3)) + 100.0, rng.standard_normal((37, 3)) + 100.0
    X[3] = Z[5]
    K = kernel_matrix(kernel, X, Z)
    assert K.flags.c_contiguous
    np.testing.assert_allclose(K, kernel(X, Z), rtol=1e-10, atol=1e-14)
    if "Dot" not in repr(kernel) and "GRE" not in repr(kernel):
        # products with BLAS may round otherwise
        np.testing.assert_array_equal(kernel_matrix(kernel, X[4:9], Z), K[4:9])


@pytest.mark.parametrize(
    "name", sorted({k for k in KERNELS if "fallback" not in k} - {"rbf-fixed"})
)
def test_input_gradients(name, points):
    kernel, (X, Z, G) = KERNELS[name], points
    K, pullback = matrix_and_input_pullback(kernel, X, Z)
    np.testing.assert_allclose(K, kernel(X, Z), rtol=1e-10, atol=1e-14)
    slopes = pullback(G)
    assert np.isfinite(slopes).all()
    for k, step in enumerate(1e-5 * np.eye(3)):
        slope = (kernel(X + step, Z) - kernel(X - step, Z)) / 2e-5
        expected = np.sum(G * slope, axis=1)
        # a row that coincides with a point may be at a kink
        smooth = np.arange(9) != 3
        np.testing.assert_allclose(
            slopes[smooth, k], expected[smooth], rtol=1e-6, atol=1e-7
        )


def test_fallback_crosses_block_borders():
    rng = np.random.default_rng(3)
    X, Y = rng.normal(size=(300, 2)), rng.normal(size=(270, 2))
    kernel, G = ExpSineSquared(1.2, 2.3), rng.normal(size=(300, 270))
    expected = differences(lambda k: np.sum(G * k(X, Y)), kernel)
    found = matrix_and_pullback(kernel, X, Y)[1](G)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    H = rng.normal(size=(300, 300))
    expected = differences(lambda k: np.sum(H * k(X)), kernel)
    found = matrix_and_pullback(kernel, X)[1](H)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("d", [1, 6, 30])
@pytest.mark.parametrize("offset", [0.0, 1e5])
def test_distances_far_from_zero_keep_their_digits(d, offset):
    rng = np.random.default_rng(4)
    X, Y = rng.normal(size=(50, d)) + offset, rng.normal(size=(40, d)) + offset
    Y[:5] = X[:5] + 1e-6
    kernel = RBF(np.linspace(1.0, 2.0, d))
    expected = kernel(X - offset, Y - offset)  # the subtraction is exact
    K, _ = matrix_and_pullback(kernel, X, Y)
    np.testing.assert_allclose(K, expected, rtol=2e-10)


def test_rules_for_a_users_kernel(points):
    class Twice(RBF):
        def __call__(self, X, Y=None, eval_gradient=False):
            return 2.0 * super().__call__(X, Y)

    X, Z, G = points
    for kernel in (Twice(), RBF() + PairwiseKernel()):
        with pytest.raises(ValueError, match=r"(Twice|Pairwise).*input_gradient"):
            matrix_and_input_pullback(kernel, X, Z)

    def rule(of_plain):
        def doubled(kernel, X, Z):
            K, pullback = of_plain(RBF(kernel.length_scale), X, Z)
            return 2.0 * K, lambda G: 2.0 * pullback(G)

        return doubled

    register_kernel(
        Twice,
        input_gradient=rule(matrix_and_input_pullback),
        pullback=rule(matrix_and_pullback),
    )
    for of_any in (matrix_and_input_pullback, matrix_and_pullback):
        K, pullback = of_any(Twice(), X, Z)
        np.testing.assert_allclose(K, 2.0 * RBF()(X, Z))
        np.testing.assert_array_equal(pullback(G), 2.0 * of_any(RBF(), X, Z)[1](G))


# ---- The GRE kernel as a scikit-learn kernel -----------------------------------------


def test_a_gre_kernel_matches_its_definition(points):
    X, Y, S = *points[:2], SUPPORT
    masses = np.arange(7.0)
    base = ConstantKernel(2.0) * RBF(ARD)
    kernel = GREKernel(base, S, masses, background=0.3)
    wide = ConstantKernel(2.0) * RBF(np.sqrt(2) * np.array(ARD))
    expected = base(X, S) @ np.diag(masses / masses.sum()) @ base(S, Y)
    expected += 0.3 * wide(X, Y)
    np.testing.assert_allclose(kernel(X, Y), expected, rtol=1e-13)
    np.testing.assert_allclose(kernel.diag(X), np.diag(kernel(X)), rtol=1e-13)


def test_background_is_the_lebesgue_integral_of_an_rbf():
    s = np.linspace(-30.0, 30.0, 6001)[:, None]
    x = np.linspace(-1.0, 1.0, 7)[:, None]
    k = RBF(0.7)
    integral = k(x, s) @ k(s, x) * (s[1] - s[0])
    kbar = GREKernel(k, s).background_kernel()(x)
    np.testing.assert_allclose(integral / integral[0, 0], kbar, rtol=1e-10)


def test_scikit_learn_protocol(points):
    X, S = points[0], SUPPORT
    kernel = GREKernel(ConstantKernel(1.4) * RBF(ARD), S, background=0.6)
    names = [h.name for h in kernel.hyperparameters]
    assert names == [
        "kernel__k1__constant_value",
        "kernel__k2__length_scale",
        "background",
    ]
    np.testing.assert_allclose(kernel.theta, np.log([1.4, *ARD, 0.6]))
    assert kernel.bounds.shape == (5, 2)
    assert kernel.get_params()["kernel__k2__length_scale"] == ARD
    copy = clone(kernel)
    assert copy == kernel
    assert copy is not kernel
    assert copy != GREKernel(kernel.kernel, S[:3], background=0.6)
    assert copy != kernel.kernel
    theta = kernel.theta + 0.1
    moved = kernel.clone_with_theta(theta)
    np.testing.assert_allclose(moved.theta, theta)
    np.testing.assert_allclose(kernel.theta, theta - 0.1)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(moved))(X), moved(X))
    kernel.set_params(kernel__k1__constant_value=3.0, background=0.2)
    np.testing.assert_allclose(kernel.theta[[0, -1]], np.log([3.0, 0.2]))
    assert repr(kernel) == (
        "GREKernel(1.73**2 * RBF(length_scale=[0.6, 1.3, 2]), 7 support points, "
        "background=0.2)"
    )
    assert not kernel.is_stationary()
    with pytest.raises(ValueError, match="length 5; got 2"):
        kernel.theta = np.zeros(2)


@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5, np.inf])
def test_correlations_below_rounding_are_zero(nu):
    """Products of such numbers are denormal, which take a hundred times as long."""
    x = np.linspace(0.0, 1.0, 300)[:, np.newaxis]
    kernel = RBF(0.003) if nu == np.inf else Matern(0.003, nu=nu)
    K = kernel_matrix(kernel, x, x)
    np.testing.assert_allclose(K, kernel(x), rtol=1e-12, atol=1e-16)
    assert np.count_nonzero(K == 0.0) > 1000
    assert np.min(K[K > 0.0]) > 1e-20
