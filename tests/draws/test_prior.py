"""Prior draws of composite kernels: their weights, their groups, their errors."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.gaussian_process.kernels import (
    RBF,
    CompoundKernel,
    ConstantKernel,
    DotProduct,
    ExpSineSquared,
    Matern,
    PairwiseKernel,
    RationalQuadratic,
    WhiteKernel,
)

from skgpx import GWIRegressor
from skgpx._draws._frequencies import HeldOutErrors
from skgpx._draws._prior import decompose
from skgpx.bases import Conditioning, draw_prior, side_by_side
from skgpx.kernels import GREKernel

SUPPORT = np.random.default_rng(7).normal(size=(6, 1))
SPECTRAL = {
    "matern-.5": Matern(0.9, nu=0.5),
    "matern-inf": Matern(0.8, nu=np.inf),
    "sum": 2.0 * RBF(0.7) + 0.5 * Matern(0.4, nu=1.5),
    "power-of-sum": (RBF(0.7) + ConstantKernel(0.3)) ** 2,
    "product-of-sums": (RBF(0.7) + DotProduct(0.5)) * (Matern(1.2) + 0.4 * RBF(0.5)),
    "linear-stationary": DotProduct(0.6) * RBF(0.8),
    "quadratic-stationary": DotProduct(0.6) ** 2 * RBF(0.8),
    "rational": RationalQuadratic(0.7, 0.6) + ConstantKernel(0.2),
    "gre-scaled": 2.0 * GREKernel(RBF(0.9), SUPPORT, background=0.5),
    "periodic-rbf": ExpSineSquared(0.8, 1.3) * RBF(2.0),
}
EXACT = {
    "quadratic": DotProduct(0.6) ** 2,
    "two-linear": 0.5 * DotProduct(0.6) * DotProduct(1.2),
    "polynomial": (DotProduct(0.5) + ConstantKernel(0.3)) ** 2 + ConstantKernel(0.1),
    "periodic": 2.0 * ExpSineSquared(0.8, 1.3) + DotProduct(0.0),
    "periodic-trend": DotProduct(0.3) * ExpSineSquared(0.8, 1.3),
}


def each(kernels):
    return pytest.mark.parametrize("kernel", kernels.values(), ids=kernels.keys())


@pytest.fixture
def X():
    return np.random.default_rng(1).normal(size=(6, 1))


def draw(kernel, size=4, d=1, seed=0, **options):
    options = {"prior": "spectral", "n_basis": 64} | options
    return draw_prior(kernel, d, 1, size, np.random.default_rng(seed), **options)


@each(SPECTRAL)
def test_covariance_is_the_kernel(kernel, X):
    rng, n_calls = np.random.default_rng(2), 250
    calls = []
    for _ in range(n_calls):
        values = draw_prior(kernel, 1, 1, 8, rng, prior="spectral", n_basis=32)(X)
        calls.append(values @ values.T / 8)
    error = np.std(calls, axis=0, ddof=1) / np.sqrt(n_calls)
    assert np.all(np.abs(np.mean(calls, axis=0) - kernel(X)) < 4.5 * error)


@each(EXACT)
def test_exact_features(kernel, X):
    total = np.zeros((len(X), len(X)))
    for variance, _, features in decompose(kernel, 1):
        F = features(4, 1.0, np.random.default_rng(0))(X)
        total += variance * F @ F.T
    np.testing.assert_allclose(total, kernel(X), rtol=1e-11, atol=1e-11)


def test_tensor_features_of_several_columns():
    X = np.random.default_rng(1).normal(size=(7, 3))
    kernel = DotProduct(0.6) ** 2 * ConstantKernel(1.5)
    ((variance, _, features),) = decompose(kernel, 3)
    F = features(4, 1.0, np.random.default_rng(0))(X)
    assert F.shape == (7, 16)
    np.testing.assert_allclose(variance * F @ F.T, kernel(X), rtol=1e-11)
    # u(x)ᵀu(y) k(x, y), with the features of k as sampled
    ((_, _, features),) = decompose(DotProduct(0.6) * RBF(0.8), 3)
    F = features(4096, 1.0, np.random.default_rng(0))(X)
    exact = (DotProduct(0.6) * RBF(0.8))(X)
    scale = np.sqrt(np.outer(np.diag(exact), np.diag(exact)))
    assert np.max(np.abs(F @ F.T - exact) / scale) < 0.02


def test_observation_noise_is_left_out(X):
    kernel = 2.0 * (RBF(0.8) + WhiteKernel(0.3)) + WhiteKernel(5.0)
    draws, clean = draw(kernel), draw(ConstantKernel(2.0) * RBF(0.8))
    np.testing.assert_allclose(draws(X), clean(X), rtol=1e-12)
    exact = draw(kernel, 3, prior="exact")
    twice = exact(np.vstack((X, X + 1e-9)))
    np.testing.assert_allclose(twice[:6], twice[6:], atol=1e-3)
    with pytest.raises(ValueError, match="observation noise only"):
        draw(WhiteKernel())


class Odd(Matern):
    """A subclass without a sampler."""


@pytest.mark.parametrize(
    ("kernel", "named"),
    [
        (RBF() + 2.0 * Odd(length_scale=0.3), r"Odd\(length_scale=0.3"),
        (RBF() * WhiteKernel(0.2), "WhiteKernel.* inside a product"),
        (RBF() + RBF() ** 0.5, r"\*\* 0.5"),
        (PairwiseKernel(metric="laplacian"), "PairwiseKernel"),
        (CompoundKernel([RBF(), Matern()]), "CompoundKernel"),
        (RBF() * GREKernel(RBF(), SUPPORT), "GREKernel.* inside a product"),
        (DotProduct() ** 13, "DotProduct.* in a product of 13"),
        ((RBF() + Matern() + DotProduct()) ** 11, "expands into"),
    ],
    ids=range(8),
)
def test_what_has_no_features_is_named(kernel, named):
    with pytest.raises(ValueError, match=named) as caught:
        draw(kernel)
    assert 'prior="exact"' in str(caught.value)


@pytest.mark.parametrize(
    "kernel", [Odd(0.5), RBF() + Odd(0.5), RBF() ** 1.5 + RBF(2.0)]
)
def test_automatic_draws_fall_back_to_exact_ones(kernel, X):
    draws = draw(kernel, prior="auto")
    np.testing.assert_array_equal(draws(X), draws(X))
    size = 4000
    values = draw(kernel, size, prior="exact")(X)
    K = kernel(X)
    scale = np.sqrt((np.outer(np.diag(K), np.diag(K)) + K**2) / size)
    assert np.all(np.abs(values @ values.T / size - K) < 4.5 * scale)


def test_options_are_checked():
    for name, value in (
        ("prior", "fourier"),
        ("n_basis", "many"),
        ("n_basis", 1),
        ("n_groups", 0),
    ):
        with pytest.raises(ValueError, match=f"{name} must be"):
            draw(RBF(), **{name: value})


class TestGroups:
    def test_errors_average_out(self):
        # at distance 6 the exact covariance is zero: what is left is feature error
        X = np.array([[0.0], [6.0]])

        def square(n_groups):
            how = {"n_groups": n_groups, "n_basis": 8}
            pairs = [np.prod(draw(RBF(), 800, seed=s, **how)(X), 0) for s in range(60)]
            return np.mean(np.mean(pairs, axis=1) ** 2)

        assert square(8) < 0.4 * square(1)

    def test_algebra(self, X):
        a, b = draw(RBF(), 3), draw(Matern(), 2, seed=1)
        both = side_by_side([a, b])
        values = np.hstack((a(X), b(X)))
        assert len(both) == 5
        np.testing.assert_array_equal(both(X), values)
        for index in (slice(1, 4), [4, 0, 3, 1, 1], 2, -1, [], values[0] > 0):
            chosen = np.atleast_1d(np.arange(5)[index])
            np.testing.assert_allclose(both[index](X), values[:, chosen], rtol=1e-12)
        np.testing.assert_allclose(both.affine(1.0, 2.0)(X), 1.0 + 2.0 * values)
        np.testing.assert_allclose((both + both)(X), 2.0 * values)
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(both))(X), values)
        assert side_by_side([a]) is a
        reordered = side_by_side([a], np.array([2, 0, 1]))
        np.testing.assert_array_equal(reordered(X), a(X)[:, [2, 0, 1]])

    def test_few_draws_of_many_groups(self, X):
        """Draws of one group are differentiated, and minimised, without the others."""
        draws = draw(RBF(), 6, n_groups=3)
        gradients = draws.value_and_grad(X)[1]
        np.testing.assert_allclose(draws[4].value_and_grad(X)[1], gradients[:, [4]])
        found = draws.minimize([(-2.0, 2.0)], n_starts=2, n_mesh=64, random_state=0)
        assert np.all(found.fun <= draws(X).min(axis=0) + 0.1)
        assert np.all(np.abs(draws.at(found.x) - found.fun) < 1e-9)

    def test_different_outputs_are_refused(self):
        two = draw_prior(RBF(), 1, 2, 3, np.random.default_rng(0))
        with pytest.raises(ValueError, match=r"\[1, 2\] outputs"):
            side_by_side([draw(RBF()), two])
        with pytest.raises(ValueError, match="0 sets"):
            side_by_side([])


# ---- Errors by which frequencies are chosen ------------------------------------------

PLANE = np.random.default_rng(0).random((40, 2))
KERNEL = Matern(0.4, nu=1.5) + DotProduct(0.3)
NOISE = np.linspace(1e-3, 0.1, 40)


def known(n=40):
    root = np.linalg.cholesky(KERNEL(PLANE[:n]) + np.diag(NOISE[:n]))
    return Conditioning(PLANE[:n], NOISE[:n], root)


def test_variances_are_those_of_leaving_one_out():
    errors = HeldOutErrors(KERNEL, known(), np.random.default_rng(1))
    held_out = np.random.default_rng(1).permutation(40)[:32]
    for i, variance in zip(held_out, np.diagonal(errors.exact), strict=False):
        others = np.delete(np.arange(40), i)
        k = KERNEL(PLANE[[i]], PLANE[others])
        C = KERNEL(PLANE[others]) + np.diag(NOISE[others])
        left = KERNEL.diag(PLANE[[i]])[0] - k @ np.linalg.solve(C, k.T)
        assert variance == pytest.approx(left.item(), rel=1e-6)


@pytest.mark.filterwarnings("ignore::skgpx.exceptions.FitWarning")
@pytest.mark.parametrize("kernel", [PairwiseKernel(metric="linear"), DotProduct(1e-9)])
def test_linear_functions_are_zero_at_the_origin(kernel):
    """Where the prior has no variance there is nothing to factorise."""
    rng, zero = np.random.default_rng(0), np.zeros((1, 2))
    x = rng.normal(size=(30, 2))
    model = GWIRegressor("svgp", kernel, optimizer=None, noise_variance=0.1)
    model.fit(x, x[:, 0] - x[:, 0].mean())
    for rows in (zero, np.concatenate((x[:3], zero, zero))):
        draws = model.sample_functions(3, random_state=0)(rows)
        assert_allclose(draws[-1], 0.0, atol=1e-4)
