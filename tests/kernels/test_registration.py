"""One record a type of kernel: exact types, checked, and changed field by field."""

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    Exponentiation,
    ExpSineSquared,
    Matern,
    Product,
    RationalQuadratic,
    Sum,
    WhiteKernel,
)

from skgpx import kernels
from skgpx.kernels import record_of, register_kernel

SUPPORT = np.zeros((2, 1))
BUILT_IN = {
    "pullback": [
        RBF(), Matern(), RationalQuadratic(), ConstantKernel(), WhiteKernel(),
        DotProduct(), RBF() + RBF(), RBF() * RBF(), RBF() ** 2,
    ],
    "spectral_distribution": [RBF(), Matern(), RationalQuadratic(), ExpSineSquared()],
    "log_spectral_density": [RBF(), Matern(), RationalQuadratic()],
    "spectral_score": [RBF(), Matern(), RationalQuadratic()],
    "radial_code": [RBF(), Matern()],
}  # fmt: skip


@pytest.mark.parametrize("field", BUILT_IN)
def test_built_in_kernels_have_records_and_subclasses_none(field):
    for kernel in BUILT_IN[field]:
        assert getattr(record_of(kernel), field) is not None
        parent = type(kernel)
        child = type("Child", (parent,), {})
        if parent in (Sum, Product):
            orphan = child(RBF(), RBF())
        else:
            orphan = child(RBF(), 2) if parent is Exponentiation else child()
        assert getattr(record_of(orphan), field) is None


def test_fields_are_filled_one_by_one():
    class Mine(RBF):
        pass

    rule, density = (lambda k, X: None), (lambda k, omega: None)
    register_kernel(Mine, diagonal_pullback=rule)
    register_kernel(Mine, spectral_density=density, spectral_score=density)
    record = record_of(Mine())
    assert record.diagonal_pullback is rule
    assert record.spectral_density is record.spectral_score is density
    assert record.pullback is None
    other = lambda k, X, Y: None  # noqa: E731
    register_kernel(Mine, pullback=other)
    assert record_of(Mine()).pullback is other
    assert record_of(Mine()).diagonal_pullback is rule


class TestHostileRegistrations:
    @pytest.mark.parametrize("what", [RBF(), "RBF", int, None], ids=str)
    def test_something_else_than_a_class_of_kernels(self, what):
        with pytest.raises(ValueError, match=r"a subclass of .*Kernel; got"):
            register_kernel(what)

    def test_something_else_than_a_function(self):
        class Mine(RBF):
            pass

        for call in (
            lambda: register_kernel(Mine, pullback=3.0),
            lambda: register_kernel(Mine, spectral_sampler=3.0),
        ):
            with pytest.raises(ValueError, match=r"must be a function; got 3\.0"):
                call()
        assert record_of(Mine()) == kernels.KernelRecord()


def test_another_density_forgets_the_score_of_the_earlier_one():
    class Other(RBF):
        """A kernel whose density changes."""

    def density(kernel, omega):
        return np.exp(-0.5 * omega[:, 0] ** 2), np.empty((len(omega), 0))

    def score(kernel, omega):
        return -omega

    register_kernel(Other, spectral_density=density, spectral_score=score)
    assert record_of(Other()).spectral_score is score
    register_kernel(
        Other, spectral_density=lambda kernel, omega: density(kernel, omega)
    )
    assert record_of(Other()).spectral_score is None
