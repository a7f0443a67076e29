"""Terms of draws: kernel sections and waves, compiled or not, and their products."""

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

from skgpx._draws import (
    FourierFeatures,
    linear_draws,
    section_terms,
)
from skgpx.kernels import GREKernel

SUPPORT = np.random.default_rng(7).normal(size=(10, 2))
X = np.random.default_rng(1).normal(size=(15, 2))
KERNELS = [
    RBF([0.7, 1.6]),
    Matern([0.7, 1.6], nu=1.5),
    Matern(0.9, nu=2.5),
    RationalQuadratic(0.8, 1.3),
    ConstantKernel(2.0) * RBF(0.8) + DotProduct(0.3) + ConstantKernel(0.5),
    GREKernel(2.0 * RBF(0.9), SUPPORT, background=0.5),
    DotProduct(0.5) ** 2,
    RBF() * DotProduct(),
    ExpSineSquared(),
]


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_sections_are_the_kernel(kernel):
    rng = np.random.default_rng(0)
    Z, v = rng.normal(size=(6, 2)), rng.normal(size=(6, 2, 5))
    terms = section_terms(kernel + WhiteKernel(0.3), Z, v)
    total = np.zeros((len(X), 2, 5))
    for term in terms:
        term.add_to(total, X)
    np.testing.assert_allclose(total, np.tensordot(kernel(X, Z), v, 1), atol=1e-11)


@pytest.mark.parametrize("size", [2, 31, 64, 257])
@pytest.mark.parametrize("n", [63, 128, 129, 513])
def test_any_number_of_draws_and_rows_is_the_whole_product(size, n):
    rng = np.random.default_rng(size)
    X, W, a = rng.normal(size=(n, 2)), rng.normal(size=(140, 2)), rng.random(140)
    waves = FourierFeatures(W, a)
    weights, points = rng.normal(size=(280, 1, size)), rng.normal(size=(270, 2))
    (sections,) = section_terms(Matern(0.7, nu=2.5), points, weights[:270])
    for features, v in ((waves, weights), (sections.features, sections.weights)):
        found = linear_draws(features, v)(X)
        np.testing.assert_allclose(found, features(X) @ v[:, 0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("n", [127, 129, 4095, 4097, 32769])
def test_a_row_of_one_draw_does_not_depend_on_the_others(n):
    rng = np.random.default_rng(0)
    W, a = rng.normal(size=(6, 2)), np.ones(6)
    draw = linear_draws(FourierFeatures(W, a), rng.normal(size=(12, 1, 1)))
    X = rng.normal(size=(n, 2))
    np.testing.assert_array_equal(draw(X)[-5:], draw(X[-5:]))
