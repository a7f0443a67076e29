"""Gradients, single evaluations, optima and conditioning of drawn functions."""

import pickle
import tracemalloc

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
    KernelProcess,
    condition,
    linear_draws,
    section_terms,
)
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


def posterior(kernel, n_draws=3, n_outputs=1, seed=0, n=12, noise=1e-3):
    """Draws given data: waves, sections and everything else in one sum."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, 2))
    values = rng.normal(size=(n, n_outputs, n_draws))
    K = kernel(Z) + noise * np.eye(n)
    prior = draw_prior(kernel, 2, n_outputs, n_draws, rng)
    return condition(prior, kernel, Z, values, lambda B: np.linalg.solve(K, B))


@pytest.fixture
def X():
    return np.random.default_rng(1).normal(size=(15, 2))


@kernels
class TestGradients:
    @pytest.mark.parametrize("n_outputs", [1, 2])
    def test_match_finite_differences(self, kernel, n_outputs, X):
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
    def test_each_draw_at_its_own_input(self, kernel, n_outputs, X):
        draws = posterior(kernel, n_outputs=n_outputs)
        values = np.moveaxis(draws(X[:3]), -1, 0)  # draws first
        expected = values[np.arange(3), np.arange(3)]
        np.testing.assert_allclose(draws.at(X[:3]), expected, rtol=1e-9, atol=1e-9)


def test_one_draw_and_many_agree(X):
    draws = posterior(Matern(0.9, nu=2.5), n_draws=300)
    values = draws(X)
    np.testing.assert_allclose(draws[7](X)[:, 0], values[:, 7], rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(draws[:5](X), values[:, :5], rtol=1e-10, atol=1e-10)


def test_values_do_not_depend_on_the_other_rows():
    draws = posterior(Matern(0.9, nu=2.5), n_draws=1)
    X = np.random.default_rng(0).normal(size=(301, 2))
    np.testing.assert_array_equal(draws(X)[250:260], draws(X[250:260]))


def test_single_precision_is_close():
    rng = np.random.default_rng(0)
    W, a = rng.normal(size=(256, 3)), np.full(256, 1.0 / 16.0)
    weights, X = rng.normal(size=(512, 1, 20)), rng.normal(size=(500, 3))
    double = linear_draws(FourierFeatures(W, a), weights)(X)
    single = linear_draws(FourierFeatures(W, a, single_precision=True), weights)(X)
    assert single.dtype == np.float64
    assert 0.0 < np.abs(single - double).max() < 1e-5


def test_memory_is_bounded():
    draws = posterior(Matern(0.9, nu=2.5), n_draws=2)
    X = np.random.default_rng(0).normal(size=(200_000, 2))
    draws(X[:10])
    tracemalloc.start()
    draws(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 * X.nbytes + 30e6


@pytest.mark.parametrize("X", [np.array([[np.nan, 0.0]]), np.array([[np.inf, 0.0]])])
def test_hostile_inputs(X):
    draws = posterior(RBF())
    for call in (draws, draws.value_and_grad):
        with pytest.raises(ValueError, match="finite"):
            call(X)


class TestOptima:
    def test_is_below_a_fine_mesh(self):
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
        np.testing.assert_allclose(draws.at(low.x), low.fun, rtol=1e-9, atol=1e-9)

    def test_inner_minima_are_stationary(self):
        draws = posterior(RBF(0.4), n_draws=4)
        found = draws.minimize([(-2.0, 2.0)] * 2, n_mesh=2000, random_state=1)
        inner = np.all(np.abs(found.x) < 1.999, axis=1)
        gradients = draws.value_and_grad(found.x)[1][np.arange(4), np.arange(4)]
        assert inner.any()
        assert np.abs(gradients[inner]).max() < 1e-4

    def test_reproducible(self):
        draws = posterior(RBF(0.4))
        box = [(-2.0, 2.0)] * 2
        one, two = (draws.minimize(box, random_state=3, n_mesh=100) for _ in "ab")
        np.testing.assert_array_equal(one.x, two.x)

    @pytest.mark.parametrize(
        "bounds", [[0.0, 1.0], [(1.0, 0.0), (0.0, 1.0)], [(0.0, np.inf)] * 2]
    )
    def test_bad_bounds(self, bounds):
        with pytest.raises(ValueError, match=r"bound"):
            posterior(RBF()).minimize(bounds)

    def test_bad_sizes_and_several_outputs(self):
        with pytest.raises(ValueError, match="n_starts"):
            posterior(RBF()).minimize([(0.0, 1.0)] * 2, n_starts=8, n_mesh=4)
        with pytest.raises(ValueError, match="one output"):
            posterior(RBF(), n_outputs=2).minimize([(0.0, 1.0)] * 2)


class TestConditioning:
    kernel = ConstantKernel(1.5) * DotProduct(0.6) + ConstantKernel(0.5)

    def prior(self, n_draws=4, n_outputs=1, seed=0):
        rng = np.random.default_rng(seed)
        draws = draw_prior(self.kernel, 2, n_outputs, n_draws, rng)
        return draws.with_process(KernelProcess.prior(self.kernel, 2, n_outputs))

    def test_on_its_own_values_changes_nothing(self, X):
        draws = self.prior()
        same = draws.condition(X[:4], draws(X[:4]))
        np.testing.assert_allclose(same(X), draws(X), atol=1e-12)

    def test_interpolates(self, X):
        draws = self.prior().condition(X[:2], [1.0, -2.0])
        np.testing.assert_allclose(draws(X[:2]), [[1.0] * 4, [-2.0] * 4], atol=1e-7)

    def test_in_two_parts_as_in_one(self, X):
        y, noise = np.array([1.0, -2.0, 0.5, 3.0]), np.array([0.1, 0.2, 0.3, 0.4])
        once = self.prior().process.update(X[:4], np.zeros((4, 1, 1)), noise)[1]
        part = self.prior().condition(X[:2], y[:2], noise[:2])
        twice = part.condition(X[2:4], y[2:], noise[2:]).process
        for at in (X[:4], X[4:]):
            expected = once.covariance(at)
            np.testing.assert_allclose(twice.covariance(at), expected, atol=1e-7)

    def test_law(self, X):
        size, noise = 6000, 0.3
        y, T = np.array([1.0, -2.0, 0.5]), X[3:8]
        first = self.prior(size).condition(X[:1], y[:1], noise, random_state=1)
        sample = first.condition(X[1:3], y[1:], noise, random_state=2)(T)
        K = self.kernel(X[:3]) + noise * np.eye(3)
        gain = np.linalg.solve(K, self.kernel(X[:3], T)).T
        mean, covariance = gain @ y, self.kernel(T) - gain @ self.kernel(X[:3], T)
        error = np.sqrt(np.diag(covariance) / size)
        assert np.all(np.abs(sample.mean(axis=1) - mean) < 4.5 * error)
        centred, variances = sample - mean[:, None], np.diag(covariance)
        scale = np.sqrt((np.outer(variances, variances) + covariance**2) / size)
        assert np.all(np.abs(centred @ centred.T / size - covariance) < 4.5 * scale)

    def test_outputs_with_their_own_units(self, X):
        scale, y = np.array([2.0, 0.5]), np.array([[1.0, -2.0], [0.3, 0.7]])
        draws = self.prior(n_outputs=2).affine([1.0, -1.0], scale)
        moved = draws.condition(X[:2], y, 1e-8, random_state=0)
        np.testing.assert_allclose(moved(X[:2]).mean(axis=2), y, atol=1e-3)
        for o in range(2):
            K = self.kernel(X[:2]) + 1e-3 / scale[o] ** 2 * np.eye(2)
            gain = np.linalg.solve(K, self.kernel(X[:2], X)).T
            expected = scale[o] ** 2 * (self.kernel(X) - gain @ self.kernel(X[:2], X))
            law = draws.condition(X[:2], y, 1e-3, random_state=0).process
            np.testing.assert_allclose(law.covariance(X, o), expected, atol=1e-6)

    def test_prior_draws_know_their_law(self, X):
        draws = draw_prior(RBF(0.7), 2, 1, 3, np.random.default_rng(0))
        values = draws.condition(X[:1], [2.0])(X[:1])
        np.testing.assert_allclose(values, 2.0, atol=1e-6)

    def test_a_known_point_is_harmless(self, X):
        twice = np.vstack((X[:2], X[:2]))
        draws = self.prior().condition(twice, [1.0, 2.0, 1.0, 2.0])
        again = draws.condition(X[:2], [1.0, 2.0])
        assert np.isfinite(again(X)).all()
        np.testing.assert_allclose(again(X[:2])[:, 0], [1.0, 2.0], atol=1e-4)

    def test_unknown_laws_are_refused(self, X):
        with pytest.raises(ValueError, match="not one Gaussian process"):
            (self.prior() + self.prior(seed=1)).condition(X[:1], [0.0])
        with pytest.raises(ValueError, match="shape"):
            self.prior().condition(X[:2], [1.0, 2.0, 3.0])
        with pytest.raises(ValueError, match="negative"):
            self.prior().condition(X[:2], [1.0, 2.0], -1.0)
        with pytest.raises(ValueError, match="finite"):
            self.prior().condition(X[:2], [1.0, np.nan])

    def test_pickles(self, X):
        draws = self.prior().condition(X[:2], [1.0, 2.0])
        again = pickle.loads(pickle.dumps(draws))
        one, two = (d.condition(X[2:3], [0.0])(X) for d in (draws, again))
        np.testing.assert_allclose(one, two, atol=1e-10)


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


class TestInputColumns:
    """Another number of columns is refused: compiled loops would not notice."""

    @pytest.mark.parametrize("d", [1, 3])
    def test_everywhere(self, d):
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
