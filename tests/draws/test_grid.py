"""Draws on a grid: exact at its nodes, whatever the kernel, and splines between."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    ExpSineSquared,
    Matern,
    RationalQuadratic,
    WhiteKernel,
)

from skgpx import DecoupledSampler
from skgpx._numerics import lattice
from skgpx.bases import draw_prior
from skgpx.exceptions import PredictionWarning
from skgpx.kernels import Columns, GREKernel
from skgpx.thompson import ThompsonSampler
from tests.draws.test_gradients import assert_slopes
from tests.latent.conftest import assert_moments

# kernel, domain, nodes along each axis
GRIDS = {
    "rough": (Matern(0.3, nu=0.5), [(-1.0, 1.0)], (9,)),
    "long": (2.0 * RBF(3.0), [(0.0, 1.0)], (7,)),
    "sum": (
        RBF(0.5) + 0.1 * Matern(0.1) + DotProduct(0.5) + ExpSineSquared(1.0, 0.7),
        [(0.0, 1.0)],
        (9,),
    ),
    "power": ((RBF(0.5) + ConstantKernel(0.5)) ** 2, [(0.0, 1.0)], (7,)),
    "plane": (Matern([0.3, 0.7], nu=2.5), [(0.0, 1.0), (5.0, 7.0)], (4, 5)),
    "column": (RationalQuadratic() + Columns(RBF(), [1]), [(0.0, 1.0)] * 2, (3, 4)),
    "space": (RBF(0.4) * Matern(0.9), [(0.0, 1.0)] * 3, (3, 2, 3)),
}
each = pytest.mark.parametrize("case", GRIDS)
SQUARE = [(0.0, 1.0)] * 2


def nodes_of(domain, shape):
    axes = [np.linspace(*ends, n) for ends, n in zip(domain, shape, strict=True)]
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(shape))


def draw(kernel, domain, size=3, seed=0, **options):
    options = {"n_basis": "auto", "domain": domain} | options
    rng = np.random.default_rng(seed)
    return draw_prior(kernel, len(domain), 1, size, rng, prior="grid", **options)


@each
def test_covariance_at_the_nodes_is_the_kernel(case):
    kernel, domain, shape = GRIDS[case]
    nodes = nodes_of(domain, shape)
    draws = draw(kernel, domain, 4000, n_basis=shape)
    assert_moments(draws(nodes), np.zeros(len(nodes)), kernel(nodes))


@pytest.mark.parametrize("case", ["rough", "sum", "plane", "column"])
def test_covariance_between_the_nodes_is_nearly_the_kernel(case):
    kernel, domain, _ = GRIDS[case]
    low, high = np.transpose(domain)
    X = low + np.random.default_rng(1).random((8, len(low))) * (high - low)
    draws = draw(kernel, domain, 1000)
    assert_moments(draws(X), np.zeros(len(X)), kernel(X), slack=0.06)


def posterior(X, **options):
    """Draws of two outputs with data at some nodes, and the regressor."""
    kernel = 2.0 * Matern([0.2, 0.5], nu=1.5) + WhiteKernel(0.01)
    rng = np.random.default_rng(0)
    y = 5.0 + rng.standard_normal((len(X), 2))
    model = GaussianProcessRegressor(kernel, optimizer=None, normalize_y=True)
    return model.fit(X, y), DecoupledSampler(model, **options).fit(X, y)


@pytest.mark.parametrize("prior", ["grid", "exact"])
def test_posterior_at_the_nodes_is_exact(prior):
    options = {"n_basis": (6, 4), "domain": SQUARE} if prior == "grid" else {}
    nodes = nodes_of(SQUARE, (6, 4))
    model, sampler = posterior(nodes[::3], prior=prior, **options)
    draws = sampler.sample_functions(4000, random_state=1)
    mean, covariance = model.predict(nodes, return_cov=True)
    for output in range(2):
        variance = model._y_train_std[output] ** 2
        noiseless = covariance[:, :, output] - 0.01 * variance * np.eye(len(nodes))
        values = draws(nodes)[:, output]
        assert_moments(values, mean[:, output], noiseless)


def test_posterior_between_the_nodes():
    X = np.random.default_rng(2).random((40, 2))
    model, sampler = posterior(X, prior="grid")
    assert_allclose(sampler.domain_[:, 1] - X.max(axis=0), 0.2 * np.ptp(X, axis=0))
    T = np.random.default_rng(3).random((10, 2))
    mean, std = model.predict(T, return_std=True)
    values = sampler.sample_functions(500, random_state=0)(T)
    latent = std**2 - 0.01 * model._y_train_std**2
    z = (values.mean(axis=2) - mean) / np.sqrt(latent / 500)
    assert np.max(np.abs(z)) < 4.5
    assert np.max(np.abs(np.log(values.std(axis=2) ** 2 / latent))) < 0.35


class TestFunctions:
    def test_gradients_are_slopes(self):
        draws = draw(GRIDS["plane"][0] + DotProduct(0.3), SQUARE, 4).affine(1.0, 2.0)
        X = 0.01 + 0.98 * np.random.default_rng(1).random((5, 2))
        assert_slopes(draws, X)
        assert_allclose(draws.at(X[:4]), np.diagonal(draws(X[:4])), rtol=1e-12)
        assert_allclose(draws[[3, 1]](X), draws(X)[:, [3, 1]], rtol=1e-12)
        found = draws.minimize(SQUARE, n_starts=4, n_mesh=64, random_state=0)
        assert np.all(found.fun <= draws(X).min(axis=0) + 1e-6)

    def test_values_do_not_depend_on_other_rows_or_threads(self):
        X = np.random.default_rng(0).random((2500, 2))
        _, sampler = posterior(X[:20], prior="grid", domain=SQUARE, n_basis=400)
        draws = sampler.sample_functions(3, random_state=0)
        assert_array_equal(draws(X)[7:9], draws(X[7:9]))
        assert_array_equal(pickle.loads(pickle.dumps(draws))(X), draws(X))
        first = sampler.sample_y(X, 2, random_state=0)
        sampler.set_params(n_jobs=2)
        assert_array_equal(sampler.sample_y(X, 2, random_state=0), first)

    def test_further_conditioning(self):
        _, sampler = posterior(nodes_of(SQUARE, (3, 3)), prior="grid")
        draws = sampler.sample_functions(5, random_state=0)
        updated = draws.condition([[0.3, 0.4]], [[1.0, 2.0]])
        expected = np.repeat([[[1.0], [2.0]]], 5, axis=2)
        assert_allclose(updated([[0.3, 0.4]]), expected, atol=1e-4)

    def test_thompson_sampling_takes_the_unit_box(self):
        model = GaussianProcessRegressor(RBF(0.3) + WhiteKernel(1e-4), optimizer=None)
        optimizer = ThompsonSampler(
            [(-3.0, 3.0)], DecoupledSampler(model, prior="grid"), n_mesh=64,
            n_initial=3, random_state=0,
        )  # fmt: skip
        for _ in range(5):
            X = optimizer.ask(2)
            optimizer.tell(X, (X[:, 0] - 1.0) ** 2)
        assert optimizer.best_y_ < 0.05


def test_what_is_refused():
    inside = draw(RBF(), [(0.0, 1.0)])
    with pytest.raises(ValueError, match=r"defined on \[\[0.0, 1.0\]\].* got \[1.1\]"):
        inside([[0.5], [1.1]])
    with pytest.raises(ValueError, match="got 4 inputs"):
        draw(RBF(), [(0.0, 1.0)] * 4)
    with pytest.raises(ValueError, match="needs stationary kernels"):
        draw(DotProduct() * RBF(), SQUARE)
    with pytest.raises(ValueError, match=r"WhiteKernel.* inside a product"):
        draw(RBF() * WhiteKernel(), SQUARE)
    with pytest.raises(ValueError, match="observation noise only"):
        draw(WhiteKernel(), SQUARE)
    with pytest.raises(ValueError, match="GREKernel"):
        draw(RBF() + GREKernel(RBF(), np.ones((1, 2)), background=0.5), SQUARE)
    with pytest.raises(ValueError, match="domain must hold"):
        draw(RBF(), [(0.0, 1.0), (2.0, 2.0)])
    with pytest.raises(ValueError, match="needs a domain"):
        draw_prior(RBF(), 1, 1, 2, np.random.default_rng(0), prior="grid")
    with pytest.raises(ValueError, match="method must be"):
        draw(RBF(), SQUARE, method="qmc")
    with pytest.raises(ValueError, match="domain must hold"):
        DecoupledSampler(prior="grid", domain=[(0, 1)]).fit(np.eye(3), np.arange(3.0))


@pytest.mark.parametrize("n_basis", [("a", "b"), (50.5, 50), (3, 3, 3), [4, 1], (4,)])
def test_nodes_along_axes_are_checked(n_basis):
    with pytest.raises(ValueError, match="along each of 2 inputs; got"):
        draw(RBF(), SQUARE, n_basis=n_basis)
    frozen = DecoupledSampler(FrozenEstimator(GaussianProcessRegressor()))
    for sampler in (DecoupledSampler(), frozen):
        sampler.set_params(prior="grid", n_basis=n_basis)
        with pytest.raises(ValueError, match="along each of 2 inputs; got"):
            sampler.fit(np.eye(2), [0.0, 1.0])


def test_other_numbers_of_functions_are_checked():
    for n_basis in (50.5, "many", None, np.array([4, 4])):
        with pytest.raises(ValueError, match="n_basis must be"):
            draw(RBF(), SQUARE, n_basis=n_basis)
    with pytest.raises(ValueError, match="got \\(4, 4\\) with prior='auto'"):
        DecoupledSampler(n_basis=(4, 4)).fit(np.eye(2), [0.0, 1.0])


def test_a_list_of_nodes_is_a_tuple():
    X = np.random.default_rng(0).random((5, 2))
    expected = draw(Matern(), SQUARE, n_basis=(3, 4))(X)
    assert_array_equal(draw(Matern(), SQUARE, n_basis=[3, np.int64(4)])(X), expected)
    _, pair = posterior(X, prior="grid", n_basis=(3, 4), domain=SQUARE)
    _, numbers = posterior(X, prior="grid", n_basis=[3, 4], domain=SQUARE)
    drawn = [one.sample_functions(2, random_state=0)(X) for one in (pair, numbers)]
    assert_array_equal(*drawn)


def test_a_coarse_grid_is_noticed():
    with pytest.warns(PredictionWarning, match="a grid of 16 nodes"):
        draw(Matern(0.05), SQUARE, n_basis=16)
    unfitted = FrozenEstimator(GaussianProcessRegressor(Matern(0.05)))
    sampler = DecoupledSampler(unfitted, prior="grid", n_basis=16, domain=SQUARE)
    with pytest.warns(PredictionWarning, match="a grid of 16 nodes"):
        sampler.fit(np.zeros((1, 2))).sample_functions(2)


@pytest.mark.parametrize(("length", "n_basis"), [(0.05, "auto"), (1e-7, 100)])
def test_a_process_of_too_many_lengths_has_a_grid_of_bounded_size(length, n_basis):
    cube, most = [(-2.0, 2.0)] * 3, 2**16 if n_basis == "auto" else n_basis
    with pytest.warns(PredictionWarning, match="a grid of") as caught:
        draws = draw(RBF(length), cube, 1, n_basis=n_basis)
    n_nodes = int(str(caught[0].message).split()[4])
    assert most / 2 < n_nodes <= most
    assert np.isfinite(draws(np.zeros((1, 3)))).all()


def test_the_torus_grows_until_the_covariance_is_embedded():
    smooth = lattice.embed(lambda lags: np.exp(-0.5 * lags[:, 0] ** 2), (9,), [0.1])
    assert smooth[1] < 1e-6
    assert len(smooth[0]) > 36
    assert np.mean(smooth[0]) == pytest.approx(1.0)
    # not a covariance: nothing can embed it
    hat = lattice.embed(lambda lags: (np.abs(lags[:, 0]) < 0.2) * 1.0, (9,), [0.1])
    assert hat[1] > 0.1
    assert np.mean(hat[0]) == pytest.approx(1.0)


@pytest.mark.parametrize("method", ["mc", "halton", "orthogonal"])
def test_published_frequencies_have_the_kernel_on_average(method):
    X = np.random.default_rng(1).random((5, 2))
    kernel, rng = Matern(0.5), np.random.default_rng(2)
    products = []
    for _ in range(200):
        draws = draw_prior(kernel, 2, 1, 8, rng, n_basis=32, method=method)
        products.append(draws(X) @ draws(X).T / 8)
    error = np.std(products, axis=0, ddof=1) / np.sqrt(200)
    assert np.all(np.abs(np.mean(products, axis=0) - kernel(X)) < 4.5 * error)
