"""Products with a kernel matrix that is never stored."""

import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    ExpSineSquared,
    Matern,
    RationalQuadratic,
)

from skgpx._iterative._product import KernelProduct
from skgpx._numerics.kernel_products import TILE, exp_minus, log1p_single
from skgpx.kernels import CategoricalKernel, Columns, GREKernel, Linear

SUPPORT = np.random.default_rng(9).normal(size=(7, 3))
CATEGORIES = Columns(CategoricalKernel(0.5, n_categories=3), [2])
FAST = {
    "rbf": RBF([1.0, 2.0, 3.0]),
    "matern 1/2": 2.0 * Matern(1.0, nu=0.5),
    "matern 3/2": ConstantKernel(0.3) * Matern([2.0, 1.0, 0.5], nu=1.5),
    "matern 5/2": Matern(1.5, nu=2.5),
    "rational quadratic": RationalQuadratic(0.7, alpha=1.5),
    "large alpha": RationalQuadratic(0.7, alpha=300.0),
    "product": Matern(1.0, nu=1.5) * RBF(2.0) * 0.5,
    "sum": 0.5 * Matern([1.0, 2.0, 0.5], nu=2.5) + 3.0 * RBF(0.2) + Matern(2.0),
    "product in a sum": RBF(1.0) + RBF(0.5) * Matern(1.0, nu=0.5),
    "trend": RBF(1.0) + Linear([0.7, 0.1, 0.2], centre=1.0) + ConstantKernel(2.0),
    "columns": Columns(RBF(1.0), [0, 1]) * Columns(Matern(1.0, nu=1.5), [2]) + RBF(2.0),
    "categories alone": RBF(1.0) + CATEGORIES,
    "only linear": 2.0 * DotProduct(1.0),
}
OTHERS = {
    "periodic": ExpSineSquared(1.0, 2.0) + RBF(1.0),
    "linear times rbf": RBF(1.0) * DotProduct(1.0) + 2.0 * RBF(0.5),
    "categories": Columns(RBF(1.0), [0, 1]) * CATEGORIES,
    "matern 2": Matern(1.0, nu=2.0),
    "gre": GREKernel(RBF(1.0), SUPPORT, background=0.1),
    "many terms": (RBF(1.0) + RBF(2.0)) ** 7,
}
KERNELS = FAST | OTHERS


def rows(n, d=3):
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n, d))
    X[:, -1] = rng.integers(0, 3, n)
    return X, rng.normal(size=(n, 4))


def assert_is_product(kernel, X, V):
    K, product = kernel(X), KernelProduct(kernel, X)
    size = (np.abs(K) @ np.abs(V)).max()
    assert np.abs(product(V) - K @ V).max() <= 2e-6 * size
    assert np.abs(product(V, exact=True) - K @ V).max() <= 1e-13 * size


@pytest.mark.parametrize("name", KERNELS)
def test_the_product_is_the_dense_one(name):
    assert_is_product(KERNELS[name], *rows(700))


@pytest.mark.parametrize("name", KERNELS)
def test_which_kernels_are_compiled(name):
    assert KernelProduct(KERNELS[name], rows(5)[0]).compiled == (name in FAST)


@pytest.mark.parametrize("n", [1, 2, TILE - 1, TILE, TILE + 1, 2 * TILE, 2 * TILE + 1])
def test_sizes_around_the_tile(n):
    for name in ("rbf", "sum", "periodic"):
        assert_is_product(KERNELS[name], *rows(n))


@pytest.mark.parametrize("d", [1, 2, 3, 4, 5, 60])
def test_numbers_of_columns(d):
    X, V = rows(300, d)
    assert_is_product(Matern(np.sqrt(d), nu=1.5), X, V)


@pytest.mark.parametrize("name", ["rbf", "sum", "trend", "periodic"])
def test_same_bits_for_every_number_of_jobs(name):
    X, V = rows(4 * TILE)
    one, two, three = (KernelProduct(KERNELS[name], X, jobs) for jobs in (1, 2, 3))
    for exact in (False, True):
        assert_array_equal(one(V, exact), two(V, exact))
        assert_array_equal(one(V, exact), three(V, exact))


def test_a_row_far_away_and_rows_far_from_zero():
    X, V = rows(600)
    for moved in (X + 1e6, np.vstack((X[:-1], np.full((1, 3), 1e6)))):
        assert_is_product(RBF(1.0), moved, V)
    X[-1] = 1e100
    values = KernelProduct(2.0 * RBF(1.0), X)(V)
    np.testing.assert_allclose(values[-1], 2.0 * V[-1], rtol=1e-6)


def test_no_matrix_is_stored():
    X, V = rows(6000)
    for kernel in (RBF(1.0), OTHERS["linear times rbf"]):
        product = KernelProduct(kernel, X, 1)
        for exact in (False, True):
            product(V[:, :2], exact)
            tracemalloc.start()
            product(V, exact)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            # a tile, and a few arrays of the size of V
            assert peak < 16 * 8 * TILE**2 + 40 * V.nbytes < 8 * len(X) ** 2 / 4


def test_elementary_functions_in_single_precision():
    x = np.linspace(0.0, 86.9, 3001).astype(np.float32)
    exact = np.exp(-x.astype(np.float64))
    values = np.array([exp_minus(one) for one in x])
    assert np.max(np.abs(values / exact - 1.0)) < 5e-7
    assert exp_minus(np.float32(1e30)) == 0.0 == exp_minus(np.float32(np.inf))
    x = np.exp(np.linspace(-30.0, 80.0, 3001)).astype(np.float32)
    values = np.array([log1p_single(one) for one in x])
    assert np.max(np.abs(values / np.log1p(x.astype(np.float64)) - 1.0)) < 5e-7
