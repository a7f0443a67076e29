"""Gradients, values at a row each, optima and errors of drawn functions."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    ExpSineSquared,
    Matern,
    RationalQuadratic,
)

from skgpx._draws import KernelProcess, central_differences
from skgpx.bases import draw_prior
from skgpx.kernels import GREKernel

X = np.random.default_rng(0).normal(size=(5, 2))
KERNELS = {
    "rational": RationalQuadratic(0.8, 1.3),
    "matern": Matern([0.7, 1.6], nu=1.5),
    "linear": DotProduct(0.7),
    "tensor": DotProduct(0.7) * RBF(0.8),
    "cubic tensor": DotProduct(0.7) * DotProduct(0.2) * Matern(0.8, nu=2.5),
    "sum": ConstantKernel(2.0) * RBF(0.8) + DotProduct(0.3) + ConstantKernel(0.5),
    "gre": GREKernel(2.0 * RBF(0.9), X[:4], background=0.5),
}
kernels = pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS.keys())


@pytest.fixture
def posterior():
    """Maker of draws given data: waves, sections and everything else in one sum."""
    return draw_posterior


def draw_posterior(kernel, n_draws=3, n_outputs=1, seed=0, n=12, noise=1e-3):
    """Draws given data: waves, sections and everything else in one sum."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, 2))
    values = rng.normal(size=(n, n_outputs, n_draws))
    root = np.linalg.cholesky(kernel(Z) + noise * np.eye(n))
    prior = draw_prior(kernel, 2, n_outputs, n_draws, rng)
    known = np.empty((1, n, 0)), np.ones(n_outputs)
    return KernelProcess(kernel, Z, root, *known).condition(prior, values)


def assert_slopes(draws, X, h=1e-5):
    values, gradients = draws.value_and_grad(X)
    assert_allclose(values, draws(X), rtol=1e-9, atol=1e-9)
    for j, step in enumerate(h * np.eye(X.shape[1])):
        slope = (draws(X + step) - draws(X - step)) / (2.0 * h)
        scale = np.abs(slope).max()
        assert_allclose(gradients[..., j], slope, rtol=1e-6, atol=1e-6 * scale)


def assert_own_values(draws):
    X = np.random.default_rng(3).normal(size=(len(draws), 2))
    each, rows = np.moveaxis(draws(X), -1, 0), np.arange(len(draws))
    assert_allclose(draws.at(X), each[rows, rows], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("n_outputs", [1, 2])
@kernels
def test_gradients_of_draws_given_data_are_slopes(kernel, n_outputs, posterior):
    draws = posterior(kernel, n_outputs=n_outputs)
    assert_slopes(draws, X)
    assert_own_values(draws)


@pytest.mark.parametrize("n_outputs", [1, 2])
@pytest.mark.parametrize("n_groups", [1, 3])
@kernels
def test_gradients_of_prior_draws_are_slopes(kernel, n_groups, n_outputs):
    rng = np.random.default_rng(1)
    draws = draw_prior(kernel, 2, n_outputs, 5, rng, n_basis=32, n_groups=n_groups)
    assert_slopes(draws, X)
    chosen = draws[[4, 0, 2]].affine(1.0, np.arange(1.0, n_outputs + 1.0))
    assert_slopes(chosen, X)
    assert_own_values(chosen)


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


class TestOptima:
    def test_is_below_a_fine_mesh(self, posterior):
        draws = posterior(Matern(0.5, nu=2.5), n_draws=4)
        axis = np.linspace(-1.0, 1.0, 201)
        mesh = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
        values = draws(mesh)
        box = [(-1.0, 1.0), (-1.0, 1.0)]
        low = draws.minimize(box, n_mesh=2000, random_state=0)
        high = draws.maximize(box, n_mesh=2000, random_state=0)
        assert np.all(low.fun <= values.min(axis=0) + 1e-12)
        assert np.all(high.fun >= values.max(axis=0) - 1e-12)
        assert np.all(np.abs(low.x) <= 1.0)
        assert_allclose(draws.at(low.x), low.fun, rtol=1e-9, atol=1e-9)

    def test_starts_from_candidates(self, posterior):
        draws = posterior(Matern(0.2, nu=2.5), n_draws=2)
        box = [(-1.0, 1.0), (-2.0, 2.0)]
        low = draws.minimize(box, n_mesh=4000, random_state=0)
        sparse = {"n_starts": 1, "n_mesh": 1, "random_state": 0}
        near = draws.minimize(box, candidates=low.x, **sparse)
        assert_allclose(near.fun, low.fun, rtol=1e-9)
        assert np.any(draws.minimize(box, **sparse).fun > low.fun + 0.01)


def test_what_is_refused(posterior):
    draws = posterior(Matern(0.9, nu=2.5))
    draws = draws.with_process(KernelProcess.prior(RBF(), 2, 1))
    for bad in (np.nan, np.inf):
        for call in (draws, draws.value_and_grad):
            with pytest.raises(ValueError, match="finite"):
                call(np.array([[bad, 0.0]]))
    # compiled loops would not notice another number of columns
    for d in (1, 3):
        X = np.zeros((3, d))
        for call in (draws, draws.at, draws.value_and_grad):
            with pytest.raises(ValueError, match=f"take 2 input columns; got {d}"):
                call(X)
        with pytest.raises(ValueError, match="take 2 input columns"):
            draws.condition(X, np.zeros(3))
        with pytest.raises(ValueError, match="take 2 input columns"):
            draws.minimize([(0.0, 1.0)] * d)
    one, two = (draw_prior(RBF(), d, 1, 3, np.random.default_rng(0)) for d in (1, 2))
    with pytest.raises(ValueError, match="input columns"):
        one + two
    box = [(0.0, 1.0)] * 2
    for bounds in ([0.0, 1.0], [(1.0, 0.0), (0.0, 1.0)], [(0.0, np.inf)] * 2):
        with pytest.raises(ValueError, match=r"bound"):
            draws.minimize(bounds)
    with pytest.raises(ValueError, match="n_starts"):
        draws.minimize(box, n_starts=8, n_mesh=4)
    with pytest.raises(ValueError, match="candidates"):
        draws.minimize(box, candidates=[[0.5]])
    with pytest.raises(ValueError, match="one output"):
        posterior(RBF(), n_outputs=2).minimize(box)


def test_central_differences_leave_codes_alone():
    def rises(rows):
        # codes of categories take no other values
        assert np.all(np.isin(rows[:, 1], [0.0, 1.0]))
        return np.column_stack((rows[:, 0] ** 2, rows[:, 1]))

    rows = np.column_stack((X[:, 0], [0.0, 1.0, 1.0, 0.0, 1.0]))
    slopes = central_differences(rises, rows, codes=[1])
    assert_allclose(slopes[:, 0, 0], 2.0 * rows[:, 0], rtol=1e-7)
    assert not np.any(slopes[:, :, 1])
