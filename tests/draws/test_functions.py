"""Function draws: consistent, addable, and distributed as their process."""

import pickle

import numpy as np
import pytest
from scipy.linalg import block_diag
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    Matern,
    RationalQuadratic,
)

from skgpx._draws import KernelProcess
from skgpx._draws._processes import observe, times_root
from skgpx.bases import draw_prior
from skgpx.kernels import GREKernel

SUPPORT = np.random.default_rng(7).normal(size=(10, 2))
# a power that is not an integer has no spectral sampler
POWER = RBF(0.9) ** 1.5
KERNELS = {
    "rbf": RBF([0.7, 1.6]),
    "rational": RationalQuadratic(0.8, 1.3),
    "product": RBF(1.1) * Matern(1.5, nu=2.5),
    "constant": ConstantKernel(2.0),
    "gre": GREKernel(2.0 * RBF(0.9), SUPPORT, np.arange(10.0), background=0.5),
    "power": POWER,
    "sum": ConstantKernel(2.0) * Matern(0.8, nu=0.5) + DotProduct(0.3),
    "sum-exact": POWER + RBF(0.7),
}


def each(kernels):
    return pytest.mark.parametrize("kernel", kernels.values(), ids=kernels.keys())


@pytest.fixture
def X():
    return np.random.default_rng(1).normal(size=(20, 2))


def draw(kernel, size=4, n_outputs=1, seed=0, **options):
    rng = np.random.default_rng(seed)
    return draw_prior(kernel, 2, n_outputs, size, rng, **options)


@each(KERNELS)
def test_a_draw_is_a_function(kernel, X):
    draws = draw(kernel)
    values = draws(X)
    assert values.shape == (20, 4)
    np.testing.assert_array_equal(draws(X), values)
    np.testing.assert_allclose(draws(X[3:5]), values[3:5], rtol=1e-11, atol=1e-12)
    order = np.random.default_rng(0).permutation(20)
    np.testing.assert_allclose(draws(X[order]), values[order], rtol=1e-11, atol=1e-12)
    np.testing.assert_array_equal(draw(kernel)(X), values)
    assert not np.allclose(draw(kernel, seed=1)(X), values)
    again = pickle.loads(pickle.dumps(draws))
    np.testing.assert_array_equal(again(X), values)
    np.testing.assert_allclose(again(X + 0.1), draws(X + 0.1), rtol=1e-12)


def test_values_are_remembered(X):
    """Bit by bit, and with the joint distribution over several calls."""
    draws, size = draw(POWER, 4000), 4000
    first = draws(X[:2])
    values = np.vstack([first, draws(X[2:3]), draws(X[3:6])])
    np.testing.assert_array_equal(draws(X[:6])[:2], first)
    np.testing.assert_array_equal(draws(X[:6][::-1])[::-1], values)
    K, estimate = POWER(X[:6]), values @ values.T / size
    scale = np.sqrt((np.outer(np.diag(K), np.diag(K)) + K**2) / size)
    assert np.all(np.abs(estimate - K) < 4.5 * scale)


class TestAlgebra:
    @each({"fourier": RBF(0.8), "remembered": POWER})
    def test_selection(self, kernel, X):
        draws = draw(kernel)
        values = draws(X)
        np.testing.assert_allclose(draws[1](X), values[:, [1]])
        np.testing.assert_allclose(draws[-1](X), values[:, [3]])
        np.testing.assert_allclose(draws[::2](X), values[:, ::2])
        np.testing.assert_allclose(draws[[3, 0]](X), values[:, [3, 0]])
        np.testing.assert_allclose(draws[values[0] > 0](X), values[:, values[0] > 0])
        assert len(list(draws)) == 4
        with pytest.raises(IndexError):
            draws[4]

    @each({"fourier": RBF(0.8), "remembered": POWER})
    def test_sums_and_affine_maps(self, kernel, X):
        f, g = draw(kernel), draw(RBF(2.0), seed=1)
        np.testing.assert_allclose((f + g)(X), f(X) + g(X), rtol=1e-12)
        np.testing.assert_allclose(f.affine(-3.0, 0.5)(X), 0.5 * f(X) - 3.0, rtol=1e-12)

    def test_sums_of_different_sizes_are_refused(self):
        with pytest.raises(ValueError, match=r"\(1, 4\) and \(1, 3\)"):
            draw(RBF()) + draw(RBF(), size=3)
        with pytest.raises(TypeError):
            draw(RBF()) + 1.0
        for wrong in ([1.0, 2.0], 3.0, np.zeros((2, 2, 2))):
            with pytest.raises(ValueError, match="shape"):
                draw(RBF())(wrong)


# ---- Conditioned on observations -----------------------------------------------------


class TestConditioning:
    kernel = ConstantKernel(1.5) * DotProduct(0.6) + ConstantKernel(0.5)

    def prior(self, n_draws=4, n_outputs=1, seed=0):
        rng = np.random.default_rng(seed)
        draws = draw_prior(self.kernel, 2, n_outputs, n_draws, rng)
        return draws.with_process(KernelProcess.prior(self.kernel, 2, n_outputs))

    def test_in_two_parts_as_in_one(self, X):
        y, noise = np.array([1.0, -2.0, 0.5, 3.0]), np.array([0.1, 0.2, 0.3, 0.4])
        once = self.prior().process.update(X[:4], np.zeros((4, 1, 1)), noise)[1]
        part = self.prior().condition(X[:2], y[:2], noise[:2])
        twice = part.condition(X[2:4], y[2:], noise[2:]).process
        for at in (X[:4], X[4:]):
            expected = once.covariance(at)
            np.testing.assert_allclose(twice.covariance(at), expected, atol=1e-7)

    def test_outputs_with_their_own_units(self, X):
        scale, y = np.array([2.0, 0.5]), np.array([[1.0, -2.0], [0.3, 0.7]])
        draws = self.prior(n_outputs=2).affine([1.0, -1.0], scale)
        moved = draws.condition(X[:2], y, 1e-8, random_state=0)
        np.testing.assert_allclose(moved(X[:2]).mean(axis=2), y, atol=1e-3)
        for o in range(2):
            K = self.kernel(X[:2]) + 1e-3 / scale[o] ** 2 * np.eye(2)
            gain = np.linalg.solve(K, self.kernel(X[:2], X)).T
            expected = scale[o] ** 2 * (self.kernel(X) - gain @ self.kernel(X[:2], X))
            weights = draws.condition(X[:2], y, 1e-3, random_state=0).process
            np.testing.assert_allclose(weights.covariance(X, o), expected, atol=1e-6)

    def test_unknown_distributions_are_refused(self, X):
        with pytest.raises(ValueError, match="from Gaussian processes"):
            (self.prior() + self.prior(seed=1)).condition(X[:1], [0.0])
        with pytest.raises(ValueError, match="shape"):
            self.prior().condition(X[:2], [1.0, 2.0, 3.0])
        with pytest.raises(ValueError, match="negative"):
            self.prior().condition(X[:2], [1.0, 2.0], -1.0)
        with pytest.raises(ValueError, match="finite"):
            self.prior().condition(X[:2], [1.0, np.nan])


@pytest.mark.parametrize("noise", [1e-10, 1e-4, 1.0])
@pytest.mark.parametrize("p", [1, 5, 9])
def test_roots_of_what_observations_leave(p, noise):
    """Against the information form, fewer, as many and more rows than variables."""
    rng = np.random.default_rng(0)
    S, seen = rng.normal(size=(6, 5)), rng.normal(size=(p, 8))
    discrepancy = rng.normal(size=(p, 2, 3))
    scale, variances = np.array([1.0, 2.0]), noise * np.linspace(1.0, 2.0, p)
    noises = variances / scale[:, np.newaxis] ** 2 + 1e-12
    moved, left = observe(S[np.newaxis], (), seen, scale, discrepancy, noises)
    assert len(left) == 2
    prior = block_diag(S @ S.T, np.eye(2))
    for o, factors in enumerate(left):
        N = np.diag(noises[o])
        gain = np.linalg.solve(seen @ prior @ seen.T + N, seen @ prior).T
        # digits are lost to the ratio of variances, here and there
        half = times_root(S, factors, np.eye(8))
        assert half.shape == (8, 7)
        np.testing.assert_allclose(
            half @ half.T, prior - gain @ seen @ prior, atol=1e-6
        )
        if noise > 1e-6 or p <= 5:
            expected = gain @ discrepancy[:, o]
            np.testing.assert_allclose(moved[:, o], expected, rtol=1e-4, atol=1e-4)
