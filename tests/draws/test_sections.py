"""Kernel sections in terms, compiled or not."""

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

from skgpx._draws import section_terms
from skgpx._draws._features import RadialSections
from skgpx.kernels import GREKernel

SUPPORT = np.random.default_rng(7).normal(size=(10, 2))
KERNELS = {
    "rbf": RBF([0.7, 1.6]),
    "matern-1.5": Matern([0.7, 1.6], nu=1.5),
    "matern-2.5": Matern(0.9, nu=2.5),
    "rational": RationalQuadratic(0.8, 1.3),
    "sum": ConstantKernel(2.0) * RBF(0.8) + DotProduct(0.3) + ConstantKernel(0.5),
    "product": RBF(1.1) * Matern(1.5, nu=2.5),
    "gre": GREKernel(2.0 * RBF(0.9), SUPPORT, background=0.5),
}


@pytest.fixture
def X():
    return np.random.default_rng(1).normal(size=(15, 2))


@pytest.mark.parametrize(
    "kernel",
    [*KERNELS.values(), DotProduct(0.5) ** 2, RBF() * DotProduct(), ExpSineSquared()],
    ids=str,
)
def test_sections_are_the_kernel(kernel, X):
    rng = np.random.default_rng(0)
    Z, v = rng.normal(size=(6, 2)), rng.normal(size=(6, 2, 5))
    terms = section_terms(kernel + WhiteKernel(0.3), Z, v)
    total = np.zeros((len(X), 2, 5))
    for term in terms:
        term.add_to(total, X)
    np.testing.assert_allclose(total, np.tensordot(kernel(X, Z), v, 1), atol=1e-11)


@pytest.mark.parametrize(
    ("kernel", "compiled"),
    [
        (RBF(0.7), True),
        (Matern(nu=0.5), True),
        (Matern(nu=np.inf), True),
        (2.0 * RationalQuadratic(), False),
        (Matern(nu=0.8), False),
        (type("Child", (RBF,), {})(), False),
    ],
)
def test_compiled_loops_are_used_for_exact_types(kernel, compiled, X):
    (term,) = section_terms(kernel, X, np.ones((len(X), 1, 1)))
    assert isinstance(term.features, RadialSections) == compiled
