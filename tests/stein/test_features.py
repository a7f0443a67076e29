"""SteinFourierFeatures: the Gram matrix is the kernel's, whatever the kernel."""

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
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
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline

from skgpx import SteinFourierFeatures
from skgpx.kernels import GREKernel, latent_kernel, register_kernel

METHODS = ["stein", "halton", "sobol", "orthogonal", "mc"]
methods = pytest.mark.parametrize("method", METHODS)
KERNELS = {
    "scaled": 3.0 * RBF(0.9),
    "ard": RBF([0.9, 1.6, 0.7]),
    "matern-.5": Matern(0.9, nu=0.5),
    "matern-.8": Matern([0.9, 1.6, 0.7], nu=0.8),
    "matern-2.5": 0.5 * Matern(0.9, nu=2.5),
    "matern-inf": Matern(0.9, nu=np.inf),
    "rational-2.7": RationalQuadratic(0.8, 2.7),
    "sum": 2.0 * RBF(0.9) + Matern(0.6, nu=1.5) * 0.5,
    "noise": RBF([0.9, 1.6, 0.7]) + WhiteKernel(0.3),
    "constant": RBF(0.9) + 2.0,
    "rbfs": RBF(0.9) * RBF(1.3) * 2.0,
    "product": RBF([0.9, 1.6, 0.7]) * Matern(1.5, nu=1.5),
    "power": Matern(0.9, nu=2.5) ** 2,
}


def rows(n, d, seed=1):
    return np.random.default_rng(seed).normal(size=(n, d))


def relative_error(kernel, X, **how):
    Z = SteinFourierFeatures(kernel, **how).fit_transform(X)
    K = latent_kernel(kernel)(X)
    return np.linalg.norm(Z @ Z.T - K) / np.linalg.norm(K)


@methods
@pytest.mark.parametrize("name", KERNELS)
def test_the_gram_matrix_is_the_kernel(name, method):
    kernel = KERNELS[name]
    d = max(np.size(v) for k, v in kernel.get_params().items() if "length_scale" in k)
    X, K = rows(40, max(d, 2)), latent_kernel(kernel)(rows(40, max(d, 2)))
    model = SteinFourierFeatures(
        kernel, n_frequencies=300, method=method, n_steps=60, random_state=0
    )
    Z = model.fit_transform(X)
    assert Z.shape == (40, 600)
    # amplitudes are exact, correlations within some standard errors
    np.testing.assert_allclose(np.sum(Z**2, axis=1), np.diagonal(K), rtol=1e-12)
    assert np.max(np.abs(Z @ Z.T - K)) < 5.0 * K[0, 0] / np.sqrt(2.0 * 300)


@pytest.mark.parametrize("kernel", [RBF(0.9), Matern(0.9, nu=1.5)])
def test_independent_frequencies_have_the_stated_error(kernel):
    # an entry is a mean of R cosines, of variance (1 + k(2r)) / 2 - k(r)²
    X, R, runs = rows(12, 2), 50, 200
    K, upper = kernel(X), np.triu_indices(12, 1)
    grams = []
    for seed in range(runs):
        Z = SteinFourierFeatures(
            kernel, n_frequencies=R, method="mc", random_state=seed
        ).fit_transform(X)
        grams.append((Z @ Z.T)[upper])
    variance = ((0.5 * (1.0 + kernel(2.0 * X)) - K**2) / R)[upper]
    errors = np.array(grams) - K[upper]
    z = errors.mean(axis=0) / np.sqrt(variance / runs)
    assert np.max(np.abs(z)) < 4.5
    ratio = errors.var(axis=0) / variance
    assert np.max(np.abs(ratio - 1.0)) < 5.0 * np.sqrt(2.0 / runs)


@pytest.mark.parametrize(
    ("kernel", "d", "bound"),
    [
        (RBF(1.0), 1, 0.5),
        (RBF(np.sqrt(2.0)), 2, 0.4),
        (RBF(2.0), 4, 0.4),
        (RBF(np.sqrt(8.0)), 8, 0.5),
        # heavy tails do not contract
        (Matern(2.0, nu=0.5), 4, 1.0),
        (RationalQuadratic(2.0, 1.0), 4, 1.0),
    ],
)
def test_moved_frequencies_are_better_than_those_they_start_from(kernel, d, bound):
    def error(method):
        how = [(rows(200, d, s), {"method": method, "random_state": s}) for s in (0, 1)]
        return np.mean([relative_error(kernel, X, **given) for X, given in how])

    assert error("stein") < bound * error("halton") < bound * error("mc")


@pytest.mark.parametrize("spread", ["cube", "normal"])
@pytest.mark.parametrize(("d", "R"), [(2, 20), (8, 50), (24, 20), (32, 50), (64, 20)])
def test_moved_frequencies_are_never_worse(spread, d, R):
    errors = {"stein": 0.0, "halton": 0.0, "orthogonal": 0.0, "mc": 0.0}
    for seed in (0, 1):
        X = rows(200, d, seed)
        kernel = RBF(np.sqrt(d))
        if spread == "cube":
            X = np.random.default_rng(seed).random((200, d))
            kernel = RBF(1.0)
        for method in errors:
            given = {"n_frequencies": R, "method": method, "random_state": seed}
            errors[method] += relative_error(kernel, X, **given)
    # two seeds of frequencies that are chosen by other rows
    others = min(errors["halton"], errors["orthogonal"], errors["mc"])
    assert errors["stein"] < 1.05 * others


@methods
def test_more_frequencies_and_other_units(method):
    X, kernel = rows(100, 3), RBF(1.5)
    few, many = (
        relative_error(kernel, X, n_frequencies=R, method=method, random_state=0)
        for R in (16, 256)
    )
    assert many < 0.5 * few
    scales = np.array([1e-7, 1e7, 1.0])
    plain = SteinFourierFeatures(RBF(1.2), method=method, random_state=0)
    scaled = clone(plain).set_params(kernel=RBF(1.2 * scales))
    found = scaled.fit_transform(X * scales)
    np.testing.assert_allclose(found, plain.fit_transform(X), atol=1e-6)


def test_a_periodic_kernel_has_its_series():
    x, kernel = rows(50, 1), 2.0 * ExpSineSquared(0.8, 1.3)
    Z = SteinFourierFeatures(kernel).fit_transform(x)
    np.testing.assert_allclose(Z @ Z.T, kernel(x), atol=1e-12)
    few = SteinFourierFeatures(kernel, n_frequencies=4).fit(x)
    assert few.frequencies_.shape == (4, 1)
    np.testing.assert_allclose(np.sum(few.amplitudes_**2), 2.0)
    kernel = ExpSineSquared(0.8, 1.3) * RBF(2.0)
    for method in METHODS:
        how = {"method": method, "n_frequencies": 400, "random_state": 0}
        assert relative_error(kernel, x, **how) < 0.2


def test_ridge_on_the_features_is_the_mean_of_the_process():
    X = rows(150, 2)
    y = np.sin(2.0 * X[:, 0]) + X[:, 1]
    kernel = 2.0 * RBF(1.0) + WhiteKernel(0.05)
    features = SteinFourierFeatures(kernel, n_frequencies=400, random_state=0).fit(X)
    assert features.noise_variance_ == pytest.approx(0.05)
    ridge = Ridge(alpha=features.noise_variance_, fit_intercept=False)
    model = make_pipeline(features, ridge).fit(X, y)
    exact = GaussianProcessRegressor(kernel, optimizer=None).fit(X, y)
    new = 0.7 * rows(50, 2, seed=2)
    np.testing.assert_allclose(model.predict(new), exact.predict(new), atol=0.02)


def test_precision_and_rows():
    X = rows(37, 3)
    model = SteinFourierFeatures(n_steps=20, random_state=0).fit(X.astype(np.float32))
    assert model.frequencies_.dtype == np.float64
    single = model.transform(X.astype(np.float32))
    assert single.dtype == np.float32
    Z = model.transform(X)
    np.testing.assert_allclose(single, Z, atol=1e-5)
    for i in (0, 17, 36):
        np.testing.assert_array_equal(model.transform(X[i : i + 1])[0], Z[i])
    with config_context(working_memory=1e-4):
        np.testing.assert_array_equal(model.transform(X), Z)


@methods
def test_bits_depend_on_the_seed_alone(method):
    X, order = rows(37, 3), np.random.default_rng(3).permutation(37)
    model = SteinFourierFeatures(method=method, n_steps=20, random_state=7)
    first = model.fit(X).frequencies_
    np.testing.assert_array_equal(clone(model).fit(X[order]).frequencies_, first)
    other = clone(model).set_params(random_state=8).fit(X).frequencies_
    assert not np.array_equal(other, first)


@methods
@pytest.mark.parametrize(("n", "d", "R"), [(1, 1, 1), (1, 3, 5), (5, 50, 7)])
@pytest.mark.parametrize("kernel", [None, RBF() * Matern()])
def test_small_sizes(n, d, R, kernel, method):
    how = {"n_frequencies": R, "method": method, "n_steps": 30, "random_state": 0}
    Z = SteinFourierFeatures(kernel, **how).fit_transform(rows(n, d))
    assert Z.shape == (n, 2 * R)
    np.testing.assert_allclose(np.sum(Z**2, axis=1), 1.0)


def test_constant_columns_duplicates_and_no_steps():
    X = rows(30, 3)
    still = SteinFourierFeatures(n_steps=0, random_state=0).fit(X)
    start = SteinFourierFeatures(method="halton", random_state=0).fit(X)
    np.testing.assert_allclose(still.frequencies_, start.frequencies_, rtol=1e-14)
    X[:, 1] = 5.0
    X[15:] = X[:15]
    assert relative_error(RBF(1.5), X, random_state=0) < 0.05
    X[:] = 1.0
    assert relative_error(RBF(1.5), X, random_state=0) < 1e-12


@pytest.mark.parametrize(
    ("kernel", "named"),
    [
        (DotProduct(), r"DotProduct.*register_kernel\(DotProduct, spectral_score"),
        (RBF() + PairwiseKernel(), "PairwiseKernel.*not known"),
        (GREKernel(RBF(), np.zeros((2, 2))), "GREKernel"),
        (WhiteKernel(), "nothing but white noise"),
        (ConstantKernel(-1.0) * RBF(), "must be positive and finite; got k1"),
        (RBF([1.0, 2.0, 3.0]), "does not fit X"),
        (CompoundKernel([RBF(), RBF()]), "CompoundKernel"),
        (ExpSineSquared(), "a cycle of its own"),
    ],
)
@pytest.mark.parametrize("method", ["stein", "mc"])
def test_kernels_that_cannot_be(kernel, named, method):
    with pytest.raises(ValueError, match=named):
        SteinFourierFeatures(kernel, method=method).fit(rows(10, 2))


def test_bad_input():
    kernel = RBF() + Matern() + 1.0
    with pytest.raises(ValueError, match="n_frequencies must be at least 3"):
        SteinFourierFeatures(kernel, n_frequencies=2).fit(rows(10, 2))
    model = SteinFourierFeatures(kernel, n_frequencies=3).fit(rows(10, 2))
    assert model.frequencies_.shape == (3, 2)
    model = SteinFourierFeatures(n_steps=2)
    with pytest.raises(ValueError, match="Change its units"):
        model.fit(rows(5, 2) * 1e130)
    with pytest.raises(ValueError, match="dates"):
        model.fit(np.array([["2020-01-01"]], dtype="datetime64[D]"))


def of_bell(kernel, omega):
    """Score of the spectral density of Bell."""
    return -np.array([0.25, 16.0]) * omega


def density_of_bell(kernel, omega):
    S = 2.0 * np.exp(-0.5 * np.sum((omega * [0.5, 4.0]) ** 2, axis=1))
    return 2.0 * np.pi * S, np.empty((len(omega), 0))


def sample_of_bell(kernel, n, d, rng):
    return rng.standard_normal((n, d)) / [0.5, 4.0]


@pytest.mark.parametrize(
    ("rule", "method", "bound", "other", "lacks"),
    [
        ({"spectral_score": of_bell}, "stein", 0.03, "mc", "sampler"),
        ({"spectral_sampler": sample_of_bell}, "mc", 0.2, "stein", "score"),
    ],
    ids=["score", "sampler"],
)
def test_what_is_registered_of_a_users_kernel_is_used(
    rule, method, bound, other, lacks
):
    class Bell(RBF):
        """A new type: an RBF whose lengthscale nobody can read."""

        def __call__(self, X, Y=None, eval_gradient=False):
            return RBF([0.5, 4.0])(X, Y)

    register_kernel(Bell, **rule)
    how = {"method": method, "n_frequencies": 200, "random_state": 0}
    assert relative_error(Bell(), rows(50, 2), **how) < bound
    with pytest.raises(ValueError, match=rf"kernel\(Bell, spectral_{lacks}"):
        SteinFourierFeatures(Bell(), method=other).fit(rows(5, 2))
    # a score must be the slope of the density, and a sum needs both
    register_kernel(Bell, spectral_score=of_bell, spectral_density=density_of_bell)
    register_kernel(Bell, spectral_sampler=sample_of_bell)
    assert relative_error(2.0 * Bell() + Matern(2.0), rows(50, 2), **how) < 0.2
    register_kernel(Bell, spectral_score=lambda k, omega: 2.0 * of_bell(k, omega))
    with pytest.raises(ValueError, match="not the slope of its log spectral"):
        SteinFourierFeatures(Bell()).fit(rows(5, 2))
