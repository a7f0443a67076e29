"""Predictive distributions agree with the estimators' methods and with each other."""

import pickle

import joblib
import numpy as np
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

import skgpx
from skgpx import DecoupledSampler, PLSRegressor, SpectralVGPRegressor
from skgpx._prediction.distribution import NormalDistribution, TransformedDistribution
from skgpx.likelihoods import Poisson, StudentT

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

rng = np.random.default_rng(0)
X = rng.uniform(-3.0, 3.0, size=(40, 1))
Y = np.sin(X[:, 0]) + 0.2 * rng.normal(size=40)
GRID = np.linspace(-4.0, 4.0, 7)[:, np.newaxis]
BRIEF = {"kernel": RBF(1.0), "optimizer": None, "random_state": 0}
FEW = {**BRIEF, "n_inducing": 12, "n_particles": 20}
EXACT = GaussianProcessRegressor(RBF(1.0) + WhiteKernel(0.04), optimizer=None)

CASES = {
    "gaussian": (PLSRegressor(**FEW), Y),
    "student": (PLSRegressor(likelihood=StudentT(), **FEW), Y),
    "poisson": (PLSRegressor(likelihood=Poisson(), **FEW), np.round(np.exp(1.0 + Y))),
    "spectral": (SpectralVGPRegressor(noise_variance=0.04, **BRIEF), Y),
    "exact": (DecoupledSampler(EXACT, random_state=0), Y),
    "wrapped": (DecoupledSampler(PLSRegressor(**FEW), random_state=0), Y),
}


@pytest.fixture(scope="module")
def fitted():
    return {name: model.fit(X, y) for name, (model, y) in CASES.items()}


@pytest.mark.parametrize("name", CASES)
def test_the_distribution_agrees_with_predict(name, fitted):
    model, distribution = fitted[name], fitted[name].predict_dist(GRID)
    mean, std = model.predict(GRID, return_std=True)
    assert_array_equal(distribution.mean(), mean)
    assert_allclose(distribution.std(), std, rtol=1e-12)
    assert_allclose(distribution.variance(), std**2, rtol=1e-12)
    assert len(distribution) == len(GRID)
    assert "n_rows=7" in repr(distribution)
    if name not in ("exact", "wrapped"):
        quantiles = model.predict_quantiles(GRID, (0.1, 0.6))
        assert_array_equal(distribution.quantile((0.1, 0.6)), quantiles)
        assert_array_equal(
            distribution.interval(0.8), model.predict_interval(GRID, 0.8)
        )
        y = np.round(np.abs(mean))
        density = model.log_predictive_density(GRID, y)
        assert_array_equal(distribution.log_density(y), density)
        latent = model.predict(GRID, return_std=True, include_noise=False)[1]
        assert_allclose(distribution.std(include_noise=False), latent, rtol=1e-12)
    found = distribution.sample(3, random_state=1)
    assert_array_equal(found, model.sample_y(GRID, 3, random_state=1))
    assert_array_equal(distribution.sample(2), model.sample_y(GRID, 2))


@pytest.mark.parametrize("name", CASES)
def test_its_parts_are_one_distribution(name, fitted):
    distribution = fitted[name].predict_dist(GRID)
    median, lower = distribution.quantile(0.5), distribution.quantile(0.05)
    assert median.shape == (7,)
    if name == "poisson":
        assert np.all(distribution.cdf(median) >= 0.5)
        assert np.all(distribution.cdf(median - 1.0) < 0.5)
    else:
        assert_allclose(distribution.cdf(median), 0.5, atol=1e-6)
        assert_allclose(distribution.cdf(lower), 0.05, atol=1e-6)
        step = 1e-4 * distribution.std()
        slope = (distribution.cdf(median + step) - distribution.cdf(median - step)) / (
            2.0 * step
        )
        assert_allclose(np.exp(distribution.log_density(median)), slope, rtol=1e-3)
    assert_array_equal(distribution.cdf(0.3), distribution.cdf(np.full(7, 0.3)))
    y = distribution.sample(4000, random_state=0)
    share = np.mean(y <= lower[:, np.newaxis], axis=1)
    expected = distribution.cdf(lower)
    error = 4.5 * np.sqrt(expected * (1.0 - expected) / 4000.0)
    assert np.all(np.abs(share - expected) < error)


def test_a_distribution_is_lazy_small_and_does_not_change(fitted):
    model = PLSRegressor(**FEW).fit(X, Y)
    distribution = model.predict_dist(GRID)
    expected = distribution.mean()
    model.fit(X, -Y)
    assert_array_equal(distribution.mean(), expected)
    assert_array_equal(
        pickle.loads(pickle.dumps(distribution)).quantile(0.3),
        distribution.quantile(0.3),
    )
    many = np.linspace(-3.0, 3.0, 100_000)[:, np.newaxis]
    assert len(model.predict_dist(many).blocks()) > 1


def test_what_is_asked_wrongly(fitted):
    distribution = fitted["gaussian"].predict_dist(GRID)
    for level in (0.0, 1.0, [0.5, 2.0], [[0.5]]):
        with pytest.raises(ValueError, match="strictly between 0 and 1"):
            distribution.quantile(level)
    with pytest.raises(ValueError, match=r"coverage == 1\.0"):
        distribution.interval(1.0)
    for method in (distribution.cdf, distribution.log_density):
        with pytest.raises(ValueError, match=r"y must have shape \(7,\)"):
            method(np.zeros(3))
    with pytest.raises(ValueError, match="Only the distribution of observations"):
        fitted["exact"].predict_dist(GRID).std(include_noise=False)
    with pytest.raises(ValueError, match="Poisson expects y"):
        fitted["poisson"].predict_dist(GRID).log_density(0.5)


def test_normal_distributions_of_an_exact_process():
    model = GaussianProcessRegressor(RBF(1.0) + WhiteKernel(0.04)).fit(X, Y)
    distribution = skgpx.predict_dist(model, GRID)
    assert isinstance(distribution, NormalDistribution)
    expected = stats.norm(*model.predict(GRID, return_std=True))
    assert_allclose(distribution.quantile(0.2), expected.ppf(0.2))
    assert_allclose(distribution.cdf(0.1), expected.cdf(0.1))
    assert_allclose(distribution.log_density(0.1), expected.logpdf(0.1))
    assert distribution.sample(2).shape == (7, 2)
    both = GaussianProcessRegressor(RBF(1.0)).fit(X, np.column_stack((Y, Y)))
    each = skgpx.predict_dist(both, GRID)
    means = np.column_stack([one.mean() for one in each])
    assert_array_equal(means, both.predict(GRID))
    drawn = both.sample_y(GRID, 2, random_state=1)
    assert_array_equal(each[1].sample(2, 1), drawn[:, 1])


def test_samplers_from_samples_have_no_normal_distribution():
    Z = np.linspace(0.0, 1.0, 5)[:, np.newaxis]
    samples = np.random.default_rng(0).normal(size=(5, 20))
    sampler = DecoupledSampler.from_inducing(RBF(0.3), Z, u_samples=samples)
    with pytest.raises(ValueError, match="Use sample_y"):
        sampler.predict_dist(Z)
    normal = DecoupledSampler.from_inducing(
        RBF(0.3), Z, q_mean=np.ones(5), q_root=0.1 * np.eye(5), noise_variance=0.1
    )
    assert_allclose(normal.predict_dist(Z).mean(), 1.0, rtol=1e-6)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_transformed_distributions(sign, fitted):
    """exp of a normal distribution is log-normal; of its negative, the reciprocal."""
    normal = fitted["gaussian"].predict_dist(GRID)
    distribution = TransformedDistribution(
        normal, lambda y: sign * np.log(y), lambda z: np.exp(sign * z)
    )
    expected = stats.lognorm(normal.std(), scale=np.exp(sign * normal.mean()))
    assert_allclose(distribution.mean(), expected.mean(), rtol=1e-8)
    assert_allclose(distribution.std(), expected.std(), rtol=1e-6)
    assert_allclose(distribution.quantile((0.1, 0.9)), np.stack(
        [expected.ppf(0.1), expected.ppf(0.9)], axis=1
    ), rtol=1e-6)  # fmt: skip
    assert_allclose(distribution.cdf(1.3), expected.cdf(1.3), rtol=1e-6)
    assert_allclose(distribution.log_density(1.3), expected.logpdf(1.3), rtol=1e-6)
    assert np.all(distribution.sample(3, random_state=0) > 0.0)
    with pytest.raises(ValueError, match="Only the distribution of observations"):
        distribution.variance(include_noise=False)


@pytest.mark.parametrize("backend", ["threading", "multiprocessing", "loky"])
def test_blocks_of_rows_under_any_backend(backend):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(60, 1))
    model = SpectralVGPRegressor().fit(X, np.sin(6.0 * X[:, 0]))
    many = np.tile(X, (300, 1))
    with sklearn.config_context(working_memory=1):
        alone = model.predict(many, return_std=True)
        with joblib.parallel_config(backend=backend, n_jobs=2):
            shared = model.predict(many, return_std=True)
    assert_array_equal(shared, alone)
