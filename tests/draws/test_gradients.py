"""Gradients, single evaluations and errors of drawn functions."""

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    Matern,
    RationalQuadratic,
)

from skgpx._draws import KernelProcess
from skgpx.bases import draw_prior
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
kernels = pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS.keys())


@pytest.fixture
def X():
    return np.random.default_rng(1).normal(size=(15, 2))


@kernels
class TestGradients:
    @pytest.mark.parametrize("n_outputs", [1, 2])
    def test_match_finite_differences(self, kernel, n_outputs, X, posterior):
        draws = posterior(kernel, n_outputs=n_outputs)
        values, gradients = draws.value_and_grad(X)
        np.testing.assert_allclose(values, draws(X), rtol=1e-9, atol=1e-9)
        for k in range(2):
            step = 1e-5 * np.eye(2)[k]
            slope = (draws(X + step) - draws(X - step)) / 2e-5
            scale = np.abs(slope).max()
            error = np.abs(gradients[..., k] - slope).max()
            assert error < 1e-6 * scale

    @pytest.mark.parametrize("n_outputs", [1, 2])
    def test_each_draw_at_its_own_input(self, kernel, n_outputs, X, posterior):
        draws = posterior(kernel, n_outputs=n_outputs)
        values = np.moveaxis(draws(X[:3]), -1, 0)  # draws first
        expected = values[np.arange(3), np.arange(3)]
        np.testing.assert_allclose(draws.at(X[:3]), expected, rtol=1e-9, atol=1e-9)


def test_values_do_not_depend_on_the_other_rows(posterior):
    draws = posterior(Matern(0.9, nu=2.5), n_draws=1)
    X = np.random.default_rng(0).normal(size=(301, 2))
    np.testing.assert_array_equal(draws(X)[250:260], draws(X[250:260]))


@pytest.mark.parametrize("X", [np.array([[np.nan, 0.0]]), np.array([[np.inf, 0.0]])])
def test_hostile_inputs(X, posterior):
    draws = posterior(RBF())
    for call in (draws, draws.value_and_grad):
        with pytest.raises(ValueError, match="finite"):
            call(X)


class TestInputColumns:
    """Another number of columns is refused: compiled loops would not notice."""

    @pytest.mark.parametrize("d", [1, 3])
    def test_everywhere(self, d, posterior):
        draws = posterior(Matern(0.9, nu=2.5)).with_process(
            KernelProcess.prior(RBF(), 2, 1)
        )
        X = np.zeros((3, d))
        for call in (draws, draws.at, draws.value_and_grad):
            with pytest.raises(ValueError, match=f"take 2 input columns; got {d}"):
                call(X)
        with pytest.raises(ValueError, match="take 2 input columns"):
            draws.condition(X, np.zeros(3))
        with pytest.raises(ValueError, match="take 2 input columns"):
            draws.minimize([(0.0, 1.0)] * d)

    def test_sums(self):
        rng = np.random.default_rng(0)
        with pytest.raises(ValueError, match="input columns"):
            draw_prior(RBF(), 1, 1, 3, rng) + draw_prior(RBF(), 2, 1, 3, rng)
