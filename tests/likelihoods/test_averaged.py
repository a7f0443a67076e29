"""Mixtures of models whose likelihoods have scales of their own."""

import copy
import pickle

import numpy as np
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.gaussian_process.kernels import RBF

from skgpx import PLSRegressor, PredictiveDistribution
from skgpx._latent import MixtureModel
from skgpx.likelihoods import (
    Bernoulli,
    Gamma,
    Gaussian,
    LogNormal,
    NegativeBinomial,
    Ordinal,
    Poisson,
    ShiftedMixture,
    StudentT,
    Tobit,
)
from skgpx.likelihoods._averaged import AveragedScales, averaged

RNG = np.random.default_rng(0)
X = RNG.uniform(-2.0, 2.0, size=(25, 1))
LATENT = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=25)
GRID = np.linspace(-3.0, 3.0, 5)[:, np.newaxis]
WEIGHTS = np.array([0.5, 0.2, 0.3])
EXPOSURE = np.array([1.0, 4.0, 0.5, 2.0, 1.0])
CENSORING = np.array([0.0, 1.0, -1.0, 0.0, 1.0])
KERNELS = (RBF(0.6), RBF(1.0), 2.0 * RBF(1.5))

# the likelihoods of three models, and observations at the grid
CASES = {
    "gaussian": ([Gaussian(v) for v in (0.02, 0.3, 1e-6)], LATENT[:5]),
    "student": ([StudentT(4.0, s) for s in (0.1, 0.5, 0.02)], LATENT[:5]),
    "cauchy": ([StudentT(1.0, s) for s in (0.1, 0.5, 0.02)], LATENT[:5]),
    "shifted": ([ShiftedMixture(1.0, 0.3, v) for v in (0.02, 0.3, 0.1)], LATENT[:5]),
    "tobit": ([Tobit(s) for s in (0.1, 0.5, 0.3)], LATENT[:5]),
    "lognormal": ([LogNormal(s) for s in (0.1, 0.5, 0.3)], np.exp(LATENT[:5])),
    "counts": ([NegativeBinomial(a) for a in (1.0, 20.0, 5.0)], np.arange(5.0)),
    "gamma": ([Gamma(a) for a in (1.0, 20.0, 5.0)], np.exp(LATENT[:5])),
    "poisson": ([Poisson("exp")] * 3, np.arange(5.0)),
    "bernoulli": ([Bernoulli()] * 3, np.arange(5.0) % 2.0),
    "grades": ([Ordinal(3, (-b, b)) for b in (0.2, 1.0, 0.5)], np.arange(5.0) % 3.0),
}
DISCRETE = {"counts", "poisson", "bernoulli", "grades"}
KNOWN = {"tobit": CENSORING, "counts": EXPOSURE, "poisson": EXPOSURE}


def models():
    """Gaussian processes given the same data, with different kernels and noises."""
    fits = [
        PLSRegressor(kernel, likelihood=Gaussian(0.05 * (k + 1)), optimizer=None)
        for k, kernel in enumerate(KERNELS)
    ]
    return tuple(fit.fit(X, LATENT).posterior_ for fit in fits)


MODELS = models()
MIXTURE = MixtureModel(MODELS, np.log(WEIGHTS) + 3.0)


def prepared(name):
    likelihoods, y = CASES[name]
    return [likelihood.prepare(y) for likelihood in likelihoods]


def distributions(name, rows=GRID, known="of the case"):
    """The averaged distribution, and the distribution of each model."""
    if isinstance(known, str):
        known = KNOWN.get(name)
    members = prepared(name)
    mixed = PredictiveDistribution(MIXTURE, averaged(members), rows, known)
    pairs = zip(MODELS, members, strict=True)
    return mixed, [PredictiveDistribution(m, one, rows, known) for m, one in pairs]


def total(values):
    return np.tensordot(WEIGHTS, np.array(values), axes=1)


@pytest.mark.parametrize("name", CASES)
def test_predictions_are_sums_over_the_models(name):
    mixed, parts = distributions(name)
    y = CASES[name][1]
    mean = total([part.mean() for part in parts])
    assert_allclose(mixed.mean(), mean, rtol=1e-6)
    for noise in (True, False):
        moments = [(part.mean(), part.variance(noise)) for part in parts]
        expected = total([v + (m - mean) ** 2 for m, v in moments])
        assert_allclose(mixed.variance(noise), expected, rtol=1e-5)
    cdf = total([part.cdf(y) for part in parts])
    assert_allclose(mixed.cdf(y), cdf, rtol=1e-7, atol=1e-9)
    density = total([np.exp(part.log_density(y)) for part in parts])
    assert_allclose(mixed.log_density(y), np.log(density), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", CASES)
def test_quantiles_invert_the_distribution_function(name):
    mixed, _ = distributions(name)
    levels = np.array([0.01, 0.5, 0.9])
    for level, values in zip(levels, mixed.quantile(levels).T, strict=True):
        if name in DISCRETE:
            assert np.all(mixed.cdf(values) >= level - 1e-9)
            assert np.all(mixed.cdf(values - 1.0) < level + 1e-9)
        else:
            assert_allclose(mixed.cdf(values), level, atol=1e-9)


@pytest.mark.parametrize("name", ["gaussian", "student", "tobit", "gamma"])
def test_scores_are_integrals_of_the_distribution_function(name):
    mixed, _ = distributions(name, GRID[:1], known=None)
    y = CASES[name][1][:1]
    # ∫ (F(z) - 1{y <= z})² dz on both sides of y
    low, high = mixed.quantile((1e-6, 1.0 - 1e-6))[0]
    nodes, weights = np.polynomial.legendre.leggauss(10)
    expected = 0.0
    for first, last, is_above in ((low, y[0], 0.0), (y[0], high, 1.0)):
        edges = first + (last - first) * np.linspace(0.0, 1.0, 13) ** 3
        if not is_above:
            edges = last - (last - first) * np.linspace(1.0, 0.0, 13) ** 3
        half = 0.5 * np.diff(edges)
        z = 0.5 * (edges[1:] + edges[:-1]) + half * nodes[:, np.newaxis]
        F = mixed._cdf(z.reshape(1, -1)).reshape(z.shape)
        expected += weights @ (F - is_above) ** 2 @ half
    assert_allclose(mixed.crps(y), expected, rtol=1e-4)


def test_a_score_of_counts_is_a_sum():
    mixed, _ = distributions("counts", GRID[:2], known=None)
    y = np.array([2.0, 0.0])
    F = np.stack([mixed.cdf(float(k)) for k in range(120)])
    above = np.arange(120.0)[:, np.newaxis] >= y
    assert_allclose(mixed.crps(y), np.sum((F - above) ** 2, axis=0), atol=1e-4)


@pytest.mark.parametrize("name", ["gaussian", "tobit", "lognormal", "student", "gamma"])
def test_one_model_many_times_is_the_model(name):
    member = prepared(name)[1]
    same = [member] * 8
    assert averaged(same) is member
    many = MixtureModel(MODELS[:1] * 8, np.zeros(8))
    plain = PredictiveDistribution(MODELS[0], member, GRID)
    # every model has scales of its own, which are equal
    split = PredictiveDistribution(many, AveragedScales(tuple(same)), GRID)
    y = CASES[name][1]
    for a, b in (
        (split.mean(), plain.mean()),
        (split.variance(), plain.variance()),
        (split.variance(include_noise=False), plain.variance(include_noise=False)),
        (split.cdf(y), plain.cdf(y)),
        (split.log_density(y), plain.log_density(y)),
    ):
        assert_allclose(a, b, rtol=1e-12, atol=1e-12)
    assert_allclose(split.quantile((0.05, 0.7)), plain.quantile((0.05, 0.7)), rtol=1e-9)


@pytest.mark.parametrize("name", CASES)
def test_a_row_does_not_depend_on_other_rows(name):
    latent = MIXTURE.marginals(GRID)
    likelihood = averaged(prepared(name))
    y = CASES[name][1]
    # sums over nodes of one row, or of several, are other sums of BLAS
    tolerance = 0.0 if likelihood.location_scale else 1e-12
    for i in (0, 3):
        row = slice(i, i + 1)
        alone = latent.rows(row)
        for method in ("predictive_mean", "predictive_mean_variance"):
            function = getattr(likelihood, method)
            assert_allclose(function(alone), function(latent)[row], rtol=tolerance)
        for method in ("predictive_cdf", "predictive_log_density"):
            function = getattr(likelihood, method)
            expected = function(y, latent)[row]
            assert_allclose(function(y[row], alone), expected, rtol=tolerance)
        quantiles = likelihood.predictive_quantile(0.3, latent)[row]
        assert_allclose(
            likelihood.predictive_quantile(0.3, alone), quantiles, rtol=tolerance * 1e3
        )


@pytest.mark.parametrize("name", ["gaussian", "counts", "lognormal"])
def test_samples_have_the_noise_of_their_model(name):
    mixed, _ = distributions(name, GRID[:3], known=None)
    size = 1500
    y = mixed.sample(size, random_state=0)
    for level in (0.1, 0.5, 0.9):
        value = mixed.quantile(level)
        expected = mixed.cdf(value)
        share = np.mean(y <= value[:, np.newaxis], axis=1)
        error = np.sqrt(expected * (1.0 - expected) / size)
        assert np.all(np.abs(share - expected) < 4.5 * error + 5e-3)
    assert_array_equal(y, mixed.sample(size, random_state=0))


def test_samples_do_not_depend_on_the_blocks():
    rows = np.linspace(-2.0, 2.0, 4000)[:, np.newaxis]
    mixed, _ = distributions("gaussian", rows)
    y = mixed.sample(3, random_state=0)
    with sklearn.config_context(working_memory=8):
        assert len(mixed.blocks()) > 1
        assert_allclose(mixed.sample(3, random_state=0), y, rtol=1e-12)
    # the noise of one draw, by its model
    draws = MIXTURE.draw(3, np.random.default_rng(0))
    noise = y - draws(rows)
    for k, column in zip(draws.owner, noise.T, strict=True):
        variance = CASES["gaussian"][0][k].noise_variance
        z = (np.mean(column**2) / variance - 1.0) / np.sqrt(2.0 / len(column))
        assert abs(z) < 4.5


def test_the_covariance_has_the_mean_noise_on_its_diagonal():
    mixed, parts = distributions("gaussian")
    noise = total([likelihood.noise_variance for likelihood in CASES["gaussian"][0]])
    difference = mixed.covariance() - mixed.covariance(include_noise=False)
    assert_allclose(difference, noise * np.eye(5), atol=1e-12)
    assert_allclose(np.diagonal(mixed.covariance()), mixed.variance(), rtol=1e-9)
    assert_array_equal(
        np.diagonal(parts[0].covariance() - parts[0].covariance(False)) > 0.0, True
    )


def test_through_an_estimator():
    model = PLSRegressor(RBF(1.0), likelihood=Gaussian(0.1), optimizer=None)
    model.fit(X, LATENT)
    mixed = copy.copy(model)
    mixed.posterior_ = MIXTURE
    mixed._likelihoods = tuple(prepared("gaussian"))
    expected, _ = distributions("gaussian")
    mean, std = mixed.predict(GRID, return_std=True)
    assert_array_equal(mean, expected.mean())
    assert_array_equal(std, expected.std())
    density = mixed.log_predictive_density(GRID, LATENT[:5])
    assert_array_equal(density, expected.log_density(LATENT[:5]))
    assert_array_equal(mixed.predict_interval(GRID), expected.interval())
    copied = pickle.loads(pickle.dumps(mixed))
    assert_array_equal(copied.predict(GRID, return_std=True)[1], std)
    # the noise of the observations to predict, whatever the model
    given = mixed.predict(GRID, return_std=True, noise_variance=0.7)[1]
    latent = expected.variance(include_noise=False)
    assert_allclose(given**2, latent + 0.7, rtol=1e-12)
    assert "Gaussian of 3 models" in repr(mixed.predict_dist(GRID).likelihood)
    # draws of the functions
    draws = mixed.sample_functions(4, random_state=0)
    optima = draws.minimize([(-2.0, 2.0)], n_starts=4, n_mesh=64, random_state=0)
    assert_allclose(np.diagonal(draws(optima.x)), optima.fun, rtol=1e-9)
    mesh = np.linspace(-2.0, 2.0, 200)[:, np.newaxis]
    assert np.all(optima.fun <= draws(mesh).min(axis=0) + 1e-6)
