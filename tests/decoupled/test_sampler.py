"""DecoupledSampler against GaussianProcessRegressor and against its own formula."""

import tracemalloc
import warnings

import joblib
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal, assert_array_less
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import (
    GaussianProcessClassifier,
    GaussianProcessRegressor,
)
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    Matern,
    WhiteKernel,
)
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skgpx import (
    DecoupledSampler,
    ExactGPRegressor,
    PLSClassifier,
    PLSRegressor,
    _decoupled,
)
from skgpx.bases import Conditioning, draw_prior
from skgpx.kernels import latent_kernel, noise_variance
from tests.latent.conftest import assert_moments

SEED = np.random.default_rng(0)
X = SEED.uniform(-2.0, 2.0, size=(25, 2))
Y = 3.0 + 2.0 * np.sin(2.0 * X[:, 0]) + X[:, 1] + 0.3 * SEED.normal(size=25)
TWO = np.column_stack((Y, 10.0 * np.cos(X[:, 1])))
T = SEED.uniform(-3.0, 3.0, size=(7, 2))
ALPHA = SEED.uniform(0.01, 0.3, size=25)
FEW = {"n_basis": 64}


def gp(kernel, **options):
    return GaussianProcessRegressor(kernel, optimizer=None, **options)


# name -> (regressor, y): every way to noise, scale and outputs
CASES = {
    "alpha": (gp(2.0 * RBF([0.9, 1.4]), alpha=0.05), Y),
    "alphas": (gp(Matern(1.1, nu=2.5), alpha=ALPHA), Y),
    "white": (gp(RBF(1.0) + WhiteKernel(0.2)), Y),
    "white-inside": (gp(2.0 * (RBF(1.0) + WhiteKernel(0.1)) + DotProduct()), Y),
    "both": (gp(WhiteKernel(0.1) + RBF(1.0), alpha=ALPHA, normalize_y=True), Y),
    "outputs": (gp(RBF(1.0) + WhiteKernel(0.1), normalize_y=True), TWO),
    "column": (gp(RBF(1.0) + WhiteKernel(0.1)), Y[:, np.newaxis]),
    "default": (gp(None, alpha=0.1), Y),
}
# exact features: moments of the draws are those of the regressor, without a bias
LINEAR = DotProduct(0.8) + ConstantKernel(0.5)
cases = pytest.mark.parametrize("case", CASES)


def fitted(case, **options):
    options.setdefault("random_state", 0)
    regressor, y = CASES[case]
    return DecoupledSampler(regressor, **FEW, **options).fit(X, y)


def outputs(y):
    return y.reshape(len(y), -1).shape[1]


class TestMatheron:
    @cases
    def test_draws_are_the_formula(self, case):
        """Mean of the regressor + (f - k (K + Σ)⁻¹ (f(X) + ε)), draw by draw."""
        sampler, size = fitted(case), 70
        model = sampler.estimator_
        kernel, c = latent_kernel(model.kernel_), outputs(CASES[case][1])
        prior_rng, noise_rng = np.random.default_rng(3).spawn(2)
        noise = noise_variance(model.kernel_, X) + model.alpha
        given = Conditioning(X, np.broadcast_to(noise, 25), model.L_)
        f = draw_prior(
            kernel, X.shape[1], c, size, prior_rng, given=given, prior="auto",
            n_basis=64,
        )  # fmt: skip
        error = noise_rng.standard_normal((25, c, size))
        error *= np.sqrt(noise)[:, np.newaxis, np.newaxis]
        K = model.kernel_(X) + np.diag(np.broadcast_to(model.alpha, 25))
        gain = np.linalg.solve(K, kernel(X, T)).T
        deviation = f.values(T) - np.tensordot(gain, f.values(X) + error, axes=1)
        scale = np.reshape(model._y_train_std, (-1, 1))
        mean = model.predict(T).reshape(7, c, 1)
        expected = (mean + scale * deviation).reshape(7, c, size)
        draws = sampler.sample_functions(size, np.random.default_rng(3))
        assert_allclose(draws(T).reshape(7, c, size), expected, rtol=1e-8, atol=1e-8)
        for rows in (T, T[:1]):
            assert sampler.sample_y(rows, 3).shape == model.sample_y(rows, 3).shape

    def test_prior_of_an_unfitted_regressor(self):
        size, regressor = 4000, gp(LINEAR + WhiteKernel(0.5), n_targets=2)
        sampler = DecoupledSampler(FrozenEstimator(regressor)).fit(T)
        draws = sampler.sample_functions(size, random_state=0)(T)
        for j in range(2):
            assert_moments(draws[:, j], np.zeros(7), LINEAR(T))
        observed = sampler.sample_y(T, size)
        assert_moments(observed[:, 1], np.zeros(7), LINEAR(T) + 0.5 * np.eye(7))
        assert sampler.predict(T, return_std=True)[1].shape == (7, 2)

    @pytest.mark.parametrize("normalize_y", [False, True])
    def test_draws_can_be_conditioned_further(self, normalize_y):
        """On half of the rows, then on the rest: the distribution given all of them."""
        size, first, rest = 4000, slice(0, 12), slice(12, 25)
        regressor = gp(LINEAR, alpha=0.3, normalize_y=normalize_y)
        sampler = DecoupledSampler(regressor).fit(X[first], TWO[first])
        scale = sampler.posterior_.scale
        draws = sampler.sample_functions(size, random_state=0)
        moved = draws.condition(X[rest], TWO[rest], 0.3, random_state=1)(T)
        for j in range(2):
            shift = sampler.posterior_.shift[j]
            alpha = np.r_[np.full(12, 0.3), np.full(13, 0.3 / scale[j] ** 2)]
            everything = gp(LINEAR, alpha=alpha)
            everything.fit(X, (TWO[:, j] - shift) / scale[j])
            mean, cov = everything.predict(T, return_cov=True)
            assert_moments(moved[:, j], shift + scale[j] * mean, scale[j] ** 2 * cov)


class TestSampleY:
    @pytest.mark.parametrize(
        "regressor",
        [
            gp(LINEAR, alpha=0.4, normalize_y=True),
            gp(LINEAR + WhiteKernel(0.4), normalize_y=True),
            gp(0.5 * (LINEAR + WhiteKernel(0.8))),
        ],
        ids=["alpha", "white", "white-inside"],
    )
    def test_distribution_is_that_of_scikit_learn_also_at_duplicates(self, regressor):
        size, rows = 4000, np.vstack([T[:3], T[:2]])
        sampler = DecoupledSampler(regressor, random_state=0).fit(X, Y)
        mean, cov = regressor.fit(X, Y).predict(rows, return_cov=True)
        sample = sampler.sample_y(rows, size)
        assert_moments(sample, mean, cov)
        theirs = regressor.sample_y(rows, size)
        for i in range(2):  # correlation 1 with alpha, less with white noise
            ours, reference = (
                np.corrcoef(s[[i, i + 3]])[0, 1] for s in (sample, theirs)
            )
            fisher = np.arctanh(np.clip([ours, reference], -1 + 1e-9, 1 - 1e-9))
            assert abs(fisher[0] - fisher[1]) < 4.5 * np.sqrt(2.0 / size)
        if "White" not in repr(regressor):
            assert_allclose(sample[:2], sample[3:])

    def test_many_rows_in_bounded_memory(self):
        sampler = DecoupledSampler(gp(RBF(1.0) + WhiteKernel(0.1))).fit(X, Y)
        many = np.random.default_rng(0).normal(size=(100_000, 2))
        tracemalloc.start()
        sample = sampler.sample_y(many, 4)
        mean = sampler.predict(many)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert sample.shape == (100_000, 4)
        assert mean.shape == (100_000,)
        # one block of 2 048 features, and copies of what comes in and goes out
        assert peak < 100e6 + 4 * (sample.nbytes + many.nbytes)


class TestShell:
    @cases
    def test_predict_is_the_regressor(self, case):
        sampler = fitted(case)
        reference = clone(CASES[case][0]).fit(X, CASES[case][1])
        for options in ({"return_std": True}, {"return_cov": True}):
            ours = sampler.predict(T, **options)
            for a, b in zip(ours, reference.predict(T, **options), strict=True):
                assert_allclose(a, b, rtol=1e-12)
        assert_allclose(
            sampler.score(X, CASES[case][1]), reference.score(X, CASES[case][1])
        )

    def test_frozen_is_not_fitted_again(self):
        regressor = GaussianProcessRegressor(RBF(1.0), alpha=0.1).fit(X, Y)
        theta, factor = regressor.kernel_.theta.copy(), regressor.L_
        sampler = DecoupledSampler(FrozenEstimator(regressor)).fit(X[:4], Y[:4])
        assert sampler.estimator_ is regressor
        assert regressor.L_ is factor
        assert_array_equal(regressor.kernel_.theta, theta)
        assert_allclose(sampler.predict(T), regressor.predict(T))
        assert_allclose(clone(sampler).fit(X).predict(T), regressor.predict(T))
        with pytest.raises(ValueError, match=r"3 features.*fitted with 2"):
            DecoupledSampler(FrozenEstimator(regressor)).fit(np.ones((2, 3)))

    def test_pls_draws_by_itself(self):
        model = PLSRegressor(RBF(1.0), optimizer=None, n_inducing=8, random_state=0)
        sampler = DecoupledSampler(model).fit(X, Y)
        model.fit(X, Y)
        draws = sampler.sample_functions(3, random_state=0)
        assert_array_equal(draws(T), model.sample_functions(3, random_state=0)(T))
        assert_array_equal(sampler.sample_y(T, 2), model.sample_y(T, 2))
        assert_array_equal(sampler.predict(T), model.predict(T))
        assert sampler.posterior_ is None

    def test_a_regressor_without_a_seed_takes_the_samplers(self):
        def values(**seed):
            model = PLSRegressor(n_inducing=8, **seed)
            sampler = DecoupledSampler(model, random_state=3).fit(X, Y)
            return sampler.sample_functions(2)(T)

        assert_array_equal(values(), values())
        # a seed that is given stays
        assert np.any(values(random_state=5) != values())
        assert_array_equal(values(random_state=5), values(random_state=5))

    def test_other_estimators_are_refused(self):
        for estimator, advice in (
            (Ridge(), "from_inducing"),
            (GaussianProcessClassifier(), "sample_functions"),
            (PLSClassifier(), "sample_functions"),
            (make_pipeline(StandardScaler(), gp(RBF())), "last step"),
            ("gpr", "expects a GaussianProcessRegressor"),
            (FrozenEstimator(Ridge().fit(X, Y)), "from_inducing"),
        ):
            with pytest.raises(ValueError, match=advice):
                DecoupledSampler(estimator).fit(X, Y > 0)

    @pytest.mark.parametrize("prior", ["spectral", "exact"])
    def test_same_bits_for_every_number_of_workers(self, prior):
        rows = np.random.default_rng(1).normal(
            size=(2100 if prior == "spectral" else 60, 2)
        )
        one = fitted("outputs", prior=prior, n_jobs=1)
        two = fitted("outputs", prior=prior, n_jobs=2)
        reference = one.sample_y(rows, 130)
        assert_array_equal(two.sample_y(rows, 130), reference)
        with joblib.parallel_config(backend="loky", n_jobs=2):
            free = clone(one).set_params(n_jobs=None).fit(X, TWO)
            assert_array_equal(free.sample_y(rows, 130), reference)


class TestHostile:
    def test_duplicates_with_tiny_noise(self):
        rows, y = np.vstack([X, X]), np.concatenate([Y, Y])
        sampler = DecoupledSampler(gp(Matern(0.7, nu=1.5), alpha=1e-10)).fit(rows, y)
        draws = sampler.sample_functions(5, random_state=0)
        assert_allclose(draws(X), np.repeat(Y[:, np.newaxis], 5, axis=1), atol=1e-3)

    def test_nothing_but_noise(self):
        sampler = DecoupledSampler(gp(WhiteKernel(1.0))).fit(X, Y)
        assert_array_equal(sampler.sample_functions(2, random_state=0)(T), 0.0)
        assert np.std(sampler.sample_y(T, 50)) > 0.5


@pytest.mark.parametrize("alpha", [1e-10, 1e-4])
def test_conditioning_with_little_noise(alpha):
    """More data reduce the spread of draws, to that of one fit to all data."""
    X = np.linspace(-2.0, 2.0, 20)[:, np.newaxis]
    Z = np.array([[0.31], [1.07]])
    model = GaussianProcessRegressor(RBF(1.0), alpha=alpha, optimizer=None)
    sampler = DecoupledSampler(model, n_basis=512).fit(X, np.sin(2.0 * X[:, 0]))
    draws = sampler.sample_functions(2000, 0)
    y = np.sin(2.0 * Z[:, 0])
    moved = draws.condition(Z, y, 1e-4, random_state=1)
    T = np.linspace(-2.5, 2.5, 21)[:, np.newaxis]
    together = GaussianProcessRegressor(
        RBF(1.0), alpha=np.append(np.full(20, alpha), [1e-4] * 2), optimizer=None
    ).fit(np.vstack((X, Z)), np.sin(2.0 * np.vstack((X, Z))[:, 0]))
    mean, std = together.predict(T, return_std=True)
    # rounding errors of the exact formula are of this size
    std = np.maximum(std, 2e-5)
    error = np.abs(moved(T).mean(axis=1) - mean)
    assert np.all(error < 4.5 * std / np.sqrt(2000) + 1e-5)
    assert np.all(moved(T).std(axis=1) < 1.15 * std)
    exact = draws.condition(Z, y)
    assert_allclose(exact(Z), np.repeat(y[:, np.newaxis], 2000, 1), atol=1e-3)


# ---- A known kernel and many rows ----------------------------------------------------

MANY = SEED.uniform(-2.0, 2.0, size=(400, 2))
LEVEL = 3.0 + 2.0 * np.sin(2.0 * MANY[:, 0]) + 0.3 * SEED.normal(size=400)
FIXED = ConstantKernel(1.0, "fixed") * Matern(0.7, "fixed", nu=1.5)
KNOWN = {
    "white": (gp(RBF(0.8) + WhiteKernel(0.1), normalize_y=True), LEVEL),
    "fixed": (GaussianProcessRegressor(FIXED, alpha=0.05), LEVEL - 3.0),
    "both": (
        gp(
            2.0 * (Matern(0.6, nu=2.5) + WhiteKernel(0.05)),
            alpha=SEED.uniform(0.01, 0.2, 400),
            normalize_y=True,
        ),
        np.column_stack((LEVEL, 10.0 * np.cos(MANY[:, 1]))),
    ),
}


@pytest.mark.parametrize("case", KNOWN)
def test_many_rows_of_a_known_kernel_are_not_factored(case, monkeypatch):
    regressor, y = KNOWN[case]
    dense = DecoupledSampler(regressor, random_state=0).fit(MANY, y)
    assert hasattr(dense.estimator_, "L_")
    monkeypatch.setattr(_decoupled._exact, "_MAX_FACTORED_ROWS", 300)
    sampler = DecoupledSampler(regressor, random_state=0).fit(MANY, y)
    assert not hasattr(sampler.estimator_, "L_")
    assert repr(sampler.kernel_) == repr(dense.kernel_)
    rows = np.vstack((T, MANY[:200]))
    mean, std = dense.predict(rows, return_std=True)
    ours = sampler.predict(rows, return_std=True)
    white = dense.posterior_.noise_variance_at(rows).reshape(std.shape)
    latent = np.sqrt(std**2 - white)
    assert np.all(np.abs(ours[0] - mean) < 0.01 * std)
    assert_allclose(np.sqrt(ours[1] ** 2 - white), latent, rtol=0.25)
    assert np.sqrt(np.mean((ours[1] / std - 1.0) ** 2)) < 0.05
    # more draws than were solved for
    for size in (60, 300):
        draws = sampler.sample_functions(size, random_state=1)
        z = (draws(rows) - mean[..., np.newaxis]) / latent[..., np.newaxis]
        assert z.shape == (*mean.shape, size)
        assert np.all(np.abs(z.mean(axis=-1)) < 5.0 / np.sqrt(size))
        assert np.mean(z**2) == pytest.approx(1.0, abs=0.1)
    observed = sampler.sample_y(rows, 300, random_state=1)
    square = np.mean((observed - mean[..., np.newaxis]) ** 2, axis=-1) / std**2
    assert np.mean(square) == pytest.approx(1.0, abs=0.1)
    # bits do not depend on the workers
    two = clone(sampler).set_params(n_jobs=2).fit(MANY, y)
    assert_array_equal(two.predict(rows), ours[0])


def test_what_needs_a_factor_is_factored(monkeypatch):
    monkeypatch.setattr(_decoupled._exact, "_MAX_FACTORED_ROWS", 20)
    free = GaussianProcessRegressor(RBF(1.0), alpha=0.1)
    uneven = gp(RBF(1.0) + WhiteKernel(0.1) * DotProduct())
    for sampler in (
        DecoupledSampler(free),
        DecoupledSampler(uneven),
        DecoupledSampler(gp(RBF(1.0), alpha=0.1), n_basis=64),
        DecoupledSampler(gp(RBF(1.0), alpha=0.1), prior="exact"),
    ):
        assert hasattr(sampler.fit(X, Y).estimator_, "L_")
    with pytest.raises(ValueError, match="alpha must be a scalar"):
        DecoupledSampler(gp(RBF(1.0), alpha=np.ones(7))).fit(X, Y)


# ---- The default regressor -----------------------------------------------------------


def some_rows(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, (n, 2))
    return X, 5.0 + 3.0 * np.sin(2.0 * X[:, 0]) + 0.3 * rng.standard_normal(n)


def test_few_rows_have_the_kernel_of_the_common_search():
    X, y = some_rows(80)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        chosen = {"hyperparameters": "maximise", "random_state": 0}
        sampler = DecoupledSampler(**chosen).fit(X, y)
    assert isinstance(sampler.estimator_, GaussianProcessRegressor)
    other = PLSRegressor(**chosen).fit(X, y)
    mean, std = sampler.predict(X, return_std=True)
    one, two = other.predict(X, return_std=True)
    assert_allclose(mean, one, atol=0.02)
    assert_allclose(std, two, rtol=0.02)
    # a column that says nothing raises no warning about the bounds of its lengthscale
    draws = sampler.sample_functions(200, random_state=0)(X)
    spread = draws.std(axis=1) / np.sqrt(std**2 - other.noise_variance_)
    assert np.median(spread) == pytest.approx(1.0, abs=0.1)


def test_many_rows_have_a_sparse_process():
    X, y = some_rows(1501)
    sampler = DecoupledSampler(random_state=0).fit(X, y)
    assert not isinstance(sampler.estimator_, GaussianProcessRegressor)
    other = PLSRegressor(random_state=0).fit(X, y)
    ours, theirs = (
        model.predict(X[:200], return_std=True) for model in (sampler, other)
    )
    assert_allclose(ours[0], theirs[0], atol=0.03)
    assert_allclose(ours[1], theirs[1], rtol=0.03)
    draws = sampler.sample_functions(4, random_state=0)
    moved = draws.condition([[0.0, 0.0]], [7.0], 1e-6)
    assert_allclose(moved([[0.0, 0.0]]), 7.0, atol=0.01)
    draws = draws(X[:200])
    truth = 5.0 + 3.0 * np.sin(2.0 * X[:200, 0])
    assert np.sqrt(np.mean((draws - truth[:, np.newaxis]) ** 2)) < 0.15


def test_several_targets_share_a_kernel():
    X, y = some_rows(40)
    sampler = DecoupledSampler(random_state=0).fit(X, np.column_stack((y, -y)))
    assert_allclose(*(sampler.predict(X) * [1.0, -1.0]).T, atol=1e-6)


def test_several_targets_have_a_noise_each():
    rng = np.random.default_rng(0)
    X, std = np.linspace(0.0, 6.0, 300)[:, np.newaxis], np.array([0.05, 3.0])
    f = np.sin(X) * [1.0, 10.0] + [0.0, 50.0]
    y = f + std * rng.standard_normal(f.shape)
    sampler = DecoupledSampler(n_basis=256, random_state=0).fit(X, y)
    other = PLSRegressor(random_state=0).fit(X, y)
    for a, b in zip(
        sampler.predict(X, return_std=True),
        other.predict(X, return_std=True),
        strict=True,
    ):
        assert_allclose(a, b, rtol=0.01, atol=0.02)
    draws = sampler.sample_functions(50, random_state=0)(X[::10])
    assert draws.shape == (30, 2, 50)
    error = draws.std(axis=2) / np.sqrt(50)
    assert_array_less(np.abs(draws.mean(axis=2) - sampler.predict(X[::10])), 5 * error)
    noise = (
        sampler.sample_y(X, 20, random_state=0) - sampler.predict(X)[..., np.newaxis]
    )
    assert_allclose(noise.std(axis=(0, 2)), std, rtol=0.1)


INDUCING = {"n_inducing": 12, "n_neighbors": 0, "optimizer": None, "random_state": 0}


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("prior", ["grid", "exact"])
def test_the_prior_of_inducing_points_is_drawn_as_told(prior, frozen):
    inner = PLSRegressor(RBF(1.0), **INDUCING).fit(X, Y)
    estimator = FrozenEstimator(inner) if frozen else inner
    sampler = DecoupledSampler(estimator, prior=prior).fit(X, Y)
    draws = sampler.sample_functions(1000, random_state=0)
    rows = X[:7] + 0.05
    mean, covariance = inner.predict(rows, return_cov=True, include_noise=False)
    assert_moments(draws(rows), mean, covariance, slack=0.06)
    outside = np.full((1, 2), 9.0)
    if prior == "grid":
        with pytest.raises(ValueError, match="functions are defined on"):
            draws(outside)
    else:
        assert draws.is_stateful
    # observations are those of the regressor
    expected = inner.sample_y(outside, 3, random_state=0)
    assert_array_equal(sampler.sample_y(outside, 3, random_state=0), expected)


@pytest.fixture(scope="module")
def averaged():
    return PLSRegressor(n_neighbors=0, random_state=0).fit(X, Y)


@pytest.mark.parametrize("option", [{"prior": "exact"}, {"n_basis": 2048}], ids=str)
def test_averaged_processes_are_drawn_as_told(averaged, option):
    assert len(averaged.posterior_.models) > 1
    sampler = DecoupledSampler(FrozenEstimator(averaged), **option).fit(X)
    draws = sampler.sample_functions(1000, random_state=0)
    rows = X[:7] + 0.05
    mean, covariance = averaged.predict(rows, return_cov=True, include_noise=False)
    assert_moments(draws(rows), mean, covariance, slack=0.06)
    expected = averaged.sample_y(rows, 3, random_state=0)
    assert_array_equal(sampler.sample_y(rows, 3, random_state=0), expected)
    after = draws[:20].condition(rows[:1], [2.0])
    assert_allclose(after(rows[:1]), 2.0, atol=1e-4)


@pytest.mark.parametrize("option", [{"prior": "grid"}, {"n_basis": 64}], ids=str)
def test_options_without_a_process_are_refused(option):
    nearest = PLSRegressor(RBF(1.0), **INDUCING | {"n_neighbors": 4})
    solved = ExactGPRegressor(RBF(1.0) + WhiteKernel(0.1), optimizer=None)
    for estimator in (nearest, solved):
        with pytest.raises(ValueError, match=r"PLSRegressor\(n_neighbors=0\)"):
            DecoupledSampler(estimator, **option).fit(X, Y)
        DecoupledSampler(estimator).fit(X, Y)
