"""SteinFourierFeatures: the Gram matrix is the kernel's, whatever the kernel."""

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
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
    "rbf": lambda ls: RBF(ls),
    "scaled": lambda ls: 3.0 * RBF(ls),
    "matern-.5": lambda ls: Matern(ls, nu=0.5),
    "matern-.8": lambda ls: Matern(ls, nu=0.8),
    "matern-2.5": lambda ls: 0.5 * Matern(ls, nu=2.5),
    "matern-inf": lambda ls: Matern(ls, nu=np.inf),
    "sum": lambda ls: 2.0 * RBF(ls) + Matern(0.6, nu=1.5) * 0.5,
    "noise": lambda ls: RBF(ls) + WhiteKernel(0.3),
    "constant": lambda ls: RBF(ls) + 2.0,
    "rbfs": lambda ls: RBF(ls) * RBF(1.3) * 2.0,
    "product": lambda ls: RBF(ls) * Matern(1.5, nu=1.5),
    "power": lambda ls: Matern(ls, nu=2.5) ** 2,
}
CASES = [pytest.param(make(0.9), 2, id=name) for name, make in KERNELS.items()]
CASES += [
    pytest.param(KERNELS[name]([0.9, 1.6, 0.7]), 3, id=f"{name}-ard")
    for name in ("rbf", "matern-.8", "noise", "product")
]
CASES += [
    pytest.param(RationalQuadratic(0.8, 2.7), 2, id="rational-2.7"),
    pytest.param(2.0 * RationalQuadratic(0.8, 0.3), 1, id="rational-.3"),
]


def rows(n, d, seed=1):
    return np.random.default_rng(seed).normal(size=(n, d))


def relative_error(kernel, X, **how):
    Z = SteinFourierFeatures(kernel, **how).fit_transform(X)
    K = latent_kernel(kernel)(X)
    return np.linalg.norm(Z @ Z.T - K) / np.linalg.norm(K)


@methods
@pytest.mark.parametrize(("kernel", "d"), CASES)
def test_the_gram_matrix_is_the_kernel(kernel, d, method):
    X = rows(40, d)
    model = SteinFourierFeatures(
        kernel, n_frequencies=300, method=method, n_steps=60, random_state=0
    )
    Z = model.fit_transform(X)
    K = latent_kernel(kernel)(X)
    assert Z.shape == (40, 600)
    assert model.frequencies_.shape == (300, d)
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


@pytest.mark.parametrize(("d", "bound"), [(1, 0.5), (2, 0.4), (4, 0.4), (8, 0.5)])
def test_moved_frequencies_are_better_than_those_that_they_start_from(d, bound):
    kernel = RBF(np.sqrt(d))
    errors = {
        method: np.mean(
            [
                relative_error(
                    kernel, rows(200, d, seed), method=method, random_state=seed
                )
                for seed in range(3)
            ]
        )
        for method in ("stein", "halton", "mc")
    }
    assert errors["stein"] < bound * errors["halton"] < bound * errors["mc"]


@pytest.mark.parametrize("kernel", [Matern(2.0, nu=0.5), RationalQuadratic(2.0, 1.0)])
def test_heavy_tails_do_not_contract(kernel):
    X = rows(200, 4)
    found = relative_error(kernel, X, random_state=0)
    assert found < relative_error(kernel, X, method="halton", random_state=0)


@methods
def test_the_error_falls_with_the_number_of_frequencies(method):
    X, kernel = rows(100, 3), RBF(1.5)
    few, many = (
        np.mean(
            [
                relative_error(
                    kernel, X, n_frequencies=R, method=method, random_state=s
                )
                for s in range(3)
            ]
        )
        for R in (16, 256)
    )
    assert many < 0.5 * few


@methods
def test_the_units_of_the_inputs_do_not_matter(method):
    X, scales = rows(30, 2), np.array([1e-7, 1e7])
    plain = SteinFourierFeatures(RBF(1.2), method=method, random_state=0)
    scaled = clone(plain).set_params(kernel=RBF(1.2 * scales))
    expected = plain.fit_transform(X)
    found = scaled.fit_transform(X * scales)
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_a_periodic_kernel_has_its_series():
    x, kernel = rows(50, 1), 2.0 * ExpSineSquared(0.8, 1.3)
    Z = SteinFourierFeatures(kernel).fit_transform(x)
    np.testing.assert_allclose(Z @ Z.T, kernel(x), atol=1e-12)
    few = SteinFourierFeatures(kernel, n_frequencies=4).fit(x)
    assert few.frequencies_.shape == (4, 1)
    np.testing.assert_allclose(np.sum(few.amplitudes_**2), 2.0)
    for method in ("halton", "sobol", "orthogonal", "mc"):
        kernel = ExpSineSquared(0.8, 1.3) * RBF(2.0)
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


@pytest.mark.parametrize("n_steps", [4, 5, 6])
@pytest.mark.parametrize("R", [15, 16, 17])
def test_sizes_around_those_at_which_something_is_left_out(n_steps, R):
    model = SteinFourierFeatures(
        Matern(2.0), n_frequencies=R, n_steps=n_steps, random_state=0
    )
    Z = model.fit_transform(rows(10, 3))
    np.testing.assert_allclose(np.sum(Z**2, axis=1), 1.0)
    assert model.frequencies_.shape == (R, 3)


class TestDoors:
    def test_names_and_pandas(self):
        X = pd.DataFrame(rows(10, 2), columns=["a", "b"])
        model = SteinFourierFeatures(n_frequencies=3, n_steps=5).set_output(
            transform="pandas"
        )
        Z = model.fit_transform(X)
        names = [f"steinfourierfeatures{i}" for i in range(6)]
        assert list(Z.columns) == names == list(model.get_feature_names_out())
        assert list(model.feature_names_in_) == ["a", "b"]

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_precision_is_that_of_the_rows(self, dtype):
        X = rows(20, 2).astype(dtype)
        model = SteinFourierFeatures(n_steps=20, random_state=0).fit(X)
        assert model.frequencies_.dtype == np.float64
        Z = model.transform(X)
        assert Z.dtype == dtype
        double = model.transform(X.astype(np.float64))
        np.testing.assert_allclose(Z, double, atol=1e-7)

    def test_a_row_does_not_depend_on_others(self):
        X = rows(37, 3)
        model = SteinFourierFeatures(n_steps=20, random_state=0).fit(X)
        Z = model.transform(X)
        for i in (0, 17, 36):
            np.testing.assert_array_equal(model.transform(X[i : i + 1])[0], Z[i])
        np.testing.assert_array_equal(model.transform(X[::-1]), Z[::-1])
        with config_context(working_memory=1e-4):
            np.testing.assert_array_equal(model.transform(X), Z)

    @methods
    def test_bits_depend_on_the_seed_alone(self, method):
        X = rows(37, 3)
        order = np.random.default_rng(3).permutation(37)
        model = SteinFourierFeatures(method=method, n_steps=20, random_state=7)
        first = model.fit(X).frequencies_
        np.testing.assert_array_equal(clone(model).fit(X[order]).frequencies_, first)
        other = clone(model).set_params(random_state=8).fit(X).frequencies_
        assert not np.array_equal(other, first)

    @methods
    @pytest.mark.parametrize(("n", "d", "R"), [(1, 1, 1), (1, 3, 5), (5, 50, 7)])
    @pytest.mark.parametrize("kernel", [None, Matern(2.0), RBF() * Matern()])
    def test_small_sizes(self, n, d, R, kernel, method):
        X = rows(n, d)
        model = SteinFourierFeatures(
            kernel, n_frequencies=R, method=method, n_steps=30, random_state=0
        )
        Z = model.fit_transform(X)
        assert Z.shape == (n, 2 * R)
        np.testing.assert_allclose(np.sum(Z**2, axis=1), 1.0)

    def test_constant_columns_and_duplicates(self):
        X = rows(30, 3)
        X[:, 1] = 5.0
        X[15:] = X[:15]
        assert relative_error(RBF(1.5), X, random_state=0) < 0.05
        X[:] = 1.0
        assert relative_error(RBF(1.5), X, random_state=0) < 1e-12

    def test_without_steps_the_frequencies_are_those_of_the_sequence(self):
        X = rows(10, 2)
        still = SteinFourierFeatures(n_steps=0, random_state=0).fit(X)
        start = SteinFourierFeatures(method="halton", random_state=0).fit(X)
        np.testing.assert_allclose(still.frequencies_, start.frequencies_, rtol=1e-14)

    @pytest.mark.parametrize(
        ("kernel", "named"),
        [
            (DotProduct(), r"DotProduct.*register_kernel\(DotProduct, spectral_score"),
            (RBF() + PairwiseKernel(), "PairwiseKernel.*not known"),
            (GREKernel(RBF(), np.zeros((2, 2))), "GREKernel"),
            (WhiteKernel(), "nothing but white noise"),
            (ConstantKernel(-1.0) * RBF(), "negative variance"),
            (RBF([1.0, 2.0, 3.0]), "does not fit X"),
            (CompoundKernel([RBF(), RBF()]), "CompoundKernel"),
            (ExpSineSquared(), "only in one"),
        ],
    )
    @pytest.mark.parametrize("method", ["stein", "mc"])
    def test_kernels_that_cannot_be(self, kernel, named, method):
        with pytest.raises(ValueError, match=named):
            SteinFourierFeatures(kernel, method=method).fit(rows(10, 2))

    def test_products_without_a_score(self):
        kernel = ExpSineSquared() * RBF()
        with pytest.raises(ValueError, match='another method, for example "sobol"'):
            SteinFourierFeatures(kernel).fit(rows(10, 1))

    def test_fewer_frequencies_than_terms(self):
        kernel = RBF() + Matern() + 1.0
        with pytest.raises(ValueError, match="n_frequencies must be at least 3"):
            SteinFourierFeatures(kernel, n_frequencies=2).fit(rows(10, 2))
        model = SteinFourierFeatures(kernel, n_frequencies=3).fit(rows(10, 2))
        assert model.frequencies_.shape == (3, 2)

    @pytest.mark.parametrize(
        "bad",
        [
            {"n_frequencies": 0},
            {"method": "qmc"},
            {"n_steps": -1},
            {"kernel": "rbf"},
        ],
    )
    def test_bad_parameters(self, bad):
        with pytest.raises(ValueError, match="parameter of SteinFourierFeatures"):
            SteinFourierFeatures(**bad).fit(rows(5, 2))

    def test_bad_input(self):
        model = SteinFourierFeatures(n_steps=2)
        with pytest.raises(NotFittedError):
            model.transform(rows(3, 2))
        with pytest.raises(ValueError, match="NaN"):
            model.fit([[np.nan, 1.0]])
        with pytest.raises(ValueError, match="Change its units"):
            model.fit(rows(5, 2) * 1e130)
        with pytest.raises(ValueError, match="dates"):
            model.fit(np.array([["2020-01-01"]], dtype="datetime64[D]"))
        with pytest.raises(ValueError, match="features"):
            model.fit(rows(5, 2)).transform(rows(5, 3))


class TestUsersKernels:
    """What is registered is used, and checked."""

    def bell(self):
        """A new type: an RBF whose lengthscale nobody can read."""

        class Bell(RBF):
            def __call__(self, X, Y=None, eval_gradient=False):
                return RBF([0.5, 4.0])(X, Y)

        return Bell

    def score(self, kernel, omega):
        return -np.array([0.25, 16.0]) * omega

    def density(self, kernel, omega):
        S = 2.0 * np.exp(-0.5 * np.sum((omega * [0.5, 4.0]) ** 2, axis=1))
        return 2.0 * np.pi * S, np.empty((len(omega), 0))

    def sampler(self, kernel, n, d, rng):
        return rng.standard_normal((n, d)) / [0.5, 4.0]

    def test_the_score_alone_suffices(self):
        Bell = self.bell()
        register_kernel(Bell, spectral_score=self.score)
        how = {"n_frequencies": 200, "random_state": 0}
        assert relative_error(Bell(), rows(50, 2), **how) < 0.03
        with pytest.raises(ValueError, match=r"kernel\(Bell, spectral_sampler"):
            SteinFourierFeatures(Bell(), method="halton").fit(rows(5, 2))

    def test_everything_that_is_known(self):
        Bell = self.bell()
        register_kernel(
            Bell,
            spectral_score=self.score,
            spectral_density=self.density,
            spectral_sampler=self.sampler,
        )
        # in a sum with another kernel, too
        for kernel in (Bell(), 2.0 * Bell() + Matern(2.0)):
            assert relative_error(kernel, rows(50, 2), random_state=0) < 0.1

    def test_a_sampler_alone(self):
        Bell = self.bell()
        register_kernel(Bell, spectral_sampler=self.sampler)
        how = {"method": "mc", "n_frequencies": 500, "random_state": 0}
        assert relative_error(Bell(), rows(50, 2), **how) < 0.2
        with pytest.raises(ValueError, match=r"register_kernel\(Bell, spectral_score"):
            SteinFourierFeatures(Bell()).fit(rows(5, 2))

    def test_a_spectrum_across_the_axes(self):
        A = np.array([[1.0, 0.9], [0.9, 1.0]])

        class Oblique(RBF):
            def __call__(self, X, Y=None, eval_gradient=False):
                differences = X[:, np.newaxis] - (X if Y is None else Y)
                return np.exp(
                    -0.5 * np.einsum("ijk,kl,ijl->ij", differences, A, differences)
                )

        precision = np.linalg.inv(A)
        register_kernel(Oblique, spectral_score=lambda k, omega: -omega @ precision)
        X = rows(60, 2)
        assert relative_error(Oblique(), X, random_state=0, n_steps=600) < 0.03

    def test_contradictions_are_refused(self):
        Bell = self.bell()
        register_kernel(
            Bell,
            spectral_score=lambda k, omega: 2.0 * self.score(k, omega),
            spectral_density=self.density,
        )
        with pytest.raises(ValueError, match="not the slope of its log spectral"):
            SteinFourierFeatures(Bell()).fit(rows(5, 2))
