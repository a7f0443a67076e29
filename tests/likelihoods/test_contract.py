import pickle
import re
from pathlib import Path

import numpy as np
import pytest
from scipy import integrate, stats
from sklearn.base import clone

from skgpx import PLSRegressor, likelihoods
from skgpx._numerics.mixture import LatentMixture
from skgpx.likelihoods import (
    Bernoulli,
    Beta,
    Binomial,
    Categorical,
    Gamma,
    Gaussian,
    Likelihood,
    LogNormal,
    NegativeBinomial,
    Ordinal,
    Poisson,
    RobustMax,
    ShiftedMixture,
    StudentT,
    Tobit,
    Warped,
    check_likelihood,
)

ROOT = Path(__file__).parents[2]


def on_the_page(section):
    """Names of the first Python block of a section of docs/extending.md, executed."""
    page = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    text = page.partition(f"\n## {section}\n")[2]
    block = re.search(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    # their module is this one, where pickles look for them
    names = {"__name__": __name__}
    exec(compile(block[1], "extending.md", "exec"), names)
    return names


Geometric = on_the_page("A likelihood")["Geometric"]

# Every public class is tested with default parameters, or else with these; and with
# scales that are learned.
VARIANTS = {
    Gaussian: [Gaussian(noise_variance=0.5)],
    StudentT: [StudentT(df=5.0, scale=0.7)],
    ShiftedMixture: [ShiftedMixture(2.0, 0.3, noise_variance=0.4)],
    Tobit: [Tobit(scale=0.7)],
    Gamma: [Gamma(shape=3.0)],
    LogNormal: [LogNormal(scale=0.4)],
    Beta: [Beta(precision=8.0)],
    Poisson: [Poisson(link) for link in ("softplus", "exp", "square")],
    NegativeBinomial: [NegativeBinomial(shape=2.5)],
    Bernoulli: [Bernoulli("logit"), Bernoulli("probit")],
    Binomial: [Binomial("logit"), Binomial("probit")],
    Ordinal: [Ordinal(thresholds=(-1.0, 0.2, 1.5))],
    RobustMax: [RobustMax(epsilon=0.05)],
}
EXPORTED = [getattr(likelihoods, name) for name in likelihoods.__all__]
PUBLIC = [one for one in EXPORTED if isinstance(one, type)]
CONSTRUCTED = [
    likelihood
    for cls in [*PUBLIC, Geometric]
    if cls is not Likelihood
    for likelihood in VARIANTS.get(cls) or [cls()]
]


def targets(likelihood, n=12):
    """Targets of a likelihood that may be prepared for some already."""
    return likelihood.example_targets(np.random.default_rng(0), n)


FREE = [
    clone(likelihood).set_params(**dict.fromkeys(likelihood.scale_names))
    for likelihood in CONSTRUCTED
    if likelihood.scale_names
]
LOCATION_SCALE = [likelihood for likelihood in FREE if likelihood.location_scale]
ALL = [likelihood.prepare(targets(likelihood)) for likelihood in CONSTRUCTED]
SCALAR = [likelihood for likelihood in ALL if likelihood.n_outputs_ == 1]
CATEGORICAL = Categorical().prepare([0.0, 1.0, 2.0])
# with a gradient; the curvature is the second derivative in these only
SMOOTH = [likelihood for likelihood in ALL if likelihood.smooth]
LOG_CONCAVE = (Gaussian, Tobit, Gamma, LogNormal, NegativeBinomial, Bernoulli, Binomial)
LOG_CONCAVE += (Poisson, Ordinal, Categorical)
# a distribution function is optional
WITH_CDF = [one for one in ALL if type(one).cdf is not Likelihood.cdf]
SCALAR_WITH_CDF = [likelihood for likelihood in WITH_CDF if likelihood.n_outputs_ == 1]
DISCRETE = [likelihood for likelihood in WITH_CDF if likelihood.discrete]


def latent_mixture(likelihood, rng, n=4, s=6):
    c = likelihood.n_outputs_
    weights = rng.random(s) + 0.1
    mean = rng.standard_normal((n, c, s))
    variance = 0.1 + 0.3 * rng.random((n, c, s))
    return LatentMixture(mean, variance, weights / weights.sum())


def draws_of_y(likelihood, mixture, n_draws, rng):
    """(n, n_draws) observations from the latent mixture."""
    component = rng.choice(mixture.weights.size, n_draws, p=mixture.weights)
    mean, variance = mixture.mean[..., component], mixture.variance[..., component]
    f = mean + np.sqrt(variance) * rng.standard_normal(mean.shape)
    return likelihood.sample(f if f.shape[1] > 1 else f[:, 0], rng)


def assert_z(estimates, expected, limit=4.5):
    """Mean over the last axis against its expectation, in standard errors.

    An event that never happened has no standard error of its own: 1 / n is the floor.
    """
    n = estimates.shape[-1]
    error = np.maximum(estimates.std(axis=-1) / np.sqrt(n), 1.0 / n)
    z = (estimates.mean(axis=-1) - expected) / error
    assert np.max(np.abs(z)) < limit


@pytest.mark.parametrize(
    "likelihood", [*CONSTRUCTED, *FREE, Ordinal(), RobustMax()], ids=repr
)
def test_public_check_passes(likelihood):
    check_likelihood(likelihood)


@pytest.mark.parametrize("likelihood", SMOOTH, ids=repr)
def test_derivatives(likelihood):
    """Of rows; a curvature may be a majorant, or the Fisher information."""
    y, h = targets(likelihood), 1e-6
    c = likelihood.n_outputs_
    f = np.linspace(-3.0, 3.0, 7) + 0.2 * np.arange(1, c + 1)[:, np.newaxis]
    f = np.broadcast_to(f, (12, c, 7))
    gradient, curvature = likelihood.row_gradient(y, f), likelihood.row_curvature(y, f)
    exact = type(likelihood).gradient is not Likelihood.gradient
    rtol = 2e-8 if exact else 1e-6
    for k in range(c):
        step = np.eye(c)[k][:, np.newaxis]
        up, down = f + h * step, f - h * step
        numeric = (likelihood.row_nll(y, up) - likelihood.row_nll(y, down)) / (2.0 * h)
        atol = rtol * np.abs(numeric).max()
        np.testing.assert_allclose(gradient[:, k], numeric, rtol=rtol, atol=atol)
        up, down = f + 10.0 * h * step, f - 10.0 * h * step
        second = likelihood.row_gradient(y, up) - likelihood.row_gradient(y, down)
        second /= 20.0 * h
        if isinstance(likelihood, ShiftedMixture):
            assert np.all(curvature[:, k] >= second - 1e-8)
        elif isinstance(likelihood, LOG_CONCAVE):
            np.testing.assert_allclose(curvature[:, k], second, rtol=1e-6, atol=1e-7)


def test_student_t_against_scipy():
    distribution = stats.t(df=5.0, loc=1.5, scale=0.7)
    likelihood = StudentT(df=5.0, scale=0.7)
    assert likelihood.variance(1.5) == pytest.approx(distribution.var())
    assert likelihood.nll(-4.0, 1.5) == pytest.approx(-distribution.logpdf(-4.0))
    assert np.isinf(StudentT(df=2.0, scale=1.0).variance(0.0))
    fisher, _ = integrate.quad(
        lambda y: likelihood.gradient(y, 0.0) ** 2 * np.exp(-likelihood.nll(y, 0.0)),
        -np.inf,
        np.inf,
    )
    assert likelihood.curvature(0.0, 0.0) == pytest.approx(fisher, rel=1e-7)


def test_probit_in_the_tails():
    assert Bernoulli("probit").nll(1.0, -40.0) == pytest.approx(804.6084420137538)
    assert Bernoulli("probit").gradient(1.0, -40.0) == pytest.approx(-40.02496886)


@pytest.mark.parametrize("likelihood", ALL, ids=repr)
def test_targets_that_are_refused(likelihood):
    refused = dict.fromkeys([np.nan, np.inf, -np.inf], "expects finite y; got 1 values")
    if likelihood.discrete:
        refused |= dict.fromkeys([-1.0, 0.5], "expects y ")
    for bad, message in refused.items():
        y = targets(likelihood)
        y[3] = bad
        with pytest.raises(ValueError, match=message):
            likelihood.prepare(y)
    if likelihood.n_outputs_ == 3:
        with pytest.raises(ValueError, match="at least two classes; got one class"):
            likelihood.prepare(np.zeros(3))


@pytest.mark.parametrize(
    ("likelihood", "message"),
    [
        (Gaussian(noise_variance=np.nan), "noise_variance to be positive"),
        (Gaussian("auto"), "noise_variance to be positive.*None to estimate.*'auto'"),
        (Gaussian(-1), "noise_variance to be positive.*got -1"),
        (Gaussian([1.0]), r"noise_variance to be positive.*got \[1.0\]"),
        (StudentT(df=0.0), "positive df"),
        (StudentT(df=None), "positive df.*not estimated; got None. Pass a finite"),
        (StudentT(df=np.inf), "positive df.*use Gaussian"),
        (StudentT(df="4"), "positive df.*got '4'"),
        (StudentT(scale=0.0), "scale to be positive"),
        (StudentT(scale=True), "scale to be positive.*got True"),
        (Poisson(link="identity"), "expects link in"),
        (Poisson(None), r"Poisson expects link in .*; got None"),
        (Bernoulli(["logit"]), r"Bernoulli expects link in .*; got \['logit'\]"),
        (ShiftedMixture(shift=1.0, probability=1.0), "strictly between 0 and 1"),
        (ShiftedMixture(1.0, None), "strictly between 0 and 1; got None"),
        (ShiftedMixture(shift=np.inf), "finite shift"),
        (ShiftedMixture(None), "finite shift, a number in units of y; got None"),
        (RobustMax(epsilon=0.0), "strictly between 0 and 0.5"),
        (RobustMax(epsilon=0.5), "strictly between 0 and 0.5"),
        (RobustMax(epsilon=True), "strictly between 0 and 0.5"),
    ],
    ids=repr,
)
def test_parameters_are_named(likelihood, message):
    with pytest.raises(ValueError, match=message):
        likelihood.check_parameters()
    with pytest.raises(ValueError, match=message):
        likelihood.prepare(np.array([0.0, 1.0]))


@pytest.mark.parametrize("likelihood", [*CONSTRUCTED, *FREE], ids=repr)
def test_prepared_copies(likelihood):
    before = likelihood.get_params()
    y = targets(likelihood)
    y.setflags(write=False)
    prepared = likelihood.prepare(y)
    assert likelihood.get_params() == clone(likelihood).get_params() == before
    scales = likelihood.scale_names
    unset = tuple(name for name in scales if getattr(likelihood, name) is None)
    if isinstance(likelihood, Warped):
        # a parameter of the likelihood inside
        unset = ("likelihood__noise_variance",)
    assert prepared.free_ == unset
    copied = pickle.loads(pickle.dumps(prepared))
    parameters = repr(prepared.get_params())
    assert repr(clone(prepared).get_params()) == parameters
    assert repr(copied.get_params()) == parameters
    np.testing.assert_array_equal(copied.theta, prepared.theta)
    assert prepared.theta_bounds.shape == (len(prepared.free_), 2)
    assert np.all(prepared.theta_bounds[:, 0] < prepared.theta)
    assert np.all(prepared.theta < prepared.theta_bounds[:, 1])
    moved = prepared.with_theta(prepared.theta + 0.5)
    np.testing.assert_allclose(moved.theta, prepared.theta + 0.5)
    assert moved.free_ == prepared.free_
    if unset and likelihood.n_outputs == 1:
        with pytest.raises(ValueError, match=r"is not set yet: call prepare\(y\)"):
            likelihood.nll(0.5, 0.0)
    if unset and likelihood.location_scale:
        power = 1.0 if isinstance(likelihood, StudentT | Tobit) else 2.0
        shift = power * np.log(10.0)
        scaled = prepared.scaled(10.0)
        np.testing.assert_allclose(scaled.theta, prepared.theta + shift)
        np.testing.assert_allclose(scaled.theta_bounds, prepared.theta_bounds + shift)


@pytest.mark.parametrize("likelihood", LOCATION_SCALE, ids=repr)
def test_starting_scales(likelihood):
    y = np.array([0.0, 1.0, 5.0, 2.0])
    repeated = likelihood.prepare(np.repeat(y, [1, 3, 2, 1]))
    weighted = likelihood.prepare(y, sample_weight=[1, 3, 2, 1])
    np.testing.assert_allclose(repeated.theta, weighted.theta)
    scaled = likelihood.prepare(1e-9 * y)
    power = 1.0 if isinstance(likelihood, StudentT | Tobit) else 2.0
    expected = likelihood.prepare(y).theta + power * np.log(1e-9)
    np.testing.assert_allclose(scaled.theta, expected, rtol=1e-9)
    assert np.isfinite(likelihood.prepare(np.full(3, 4.0)).theta).all()


@pytest.mark.parametrize("likelihood", WITH_CDF, ids=repr)
def test_predictive_moments_and_cdf_against_samples(likelihood, rng):
    mixture = latent_mixture(likelihood, rng)
    draws = draws_of_y(likelihood, mixture, 40_000, rng)
    mean = likelihood.predictive_mean(mixture)
    assert_z(draws, mean)
    if not likelihood.heavy_tailed:
        variance = likelihood.predictive_moments(mixture)[1]
        assert_z((draws - mean[:, np.newaxis]) ** 2, variance)
    for level in (0.0, 1.0, 2.5):
        expected = likelihood.predictive_cdf(np.full(4, level), mixture)
        assert_z((draws <= level) * 1.0, expected)


@pytest.mark.parametrize("likelihood", SCALAR_WITH_CDF, ids=repr)
def test_closed_forms_equal_the_atoms(likelihood, rng):
    mixture = latent_mixture(likelihood, rng)
    y = targets(likelihood, 4)
    for name in ("predictive_moments", "predictive_mean_variance"):
        np.testing.assert_allclose(
            getattr(likelihood, name)(mixture),
            getattr(Likelihood, name)(likelihood, mixture),
            rtol=1e-5,
        )
    np.testing.assert_allclose(
        likelihood.predictive_cdf(y, mixture),
        Likelihood.predictive_cdf(likelihood, y, mixture),
        atol=1e-6,
    )
    np.testing.assert_allclose(
        likelihood.predictive_log_density(y, mixture),
        Likelihood.predictive_log_density(likelihood, y, mixture),
        atol=1e-5,
    )


def expectation(function, mean, std):
    """``E h(f)`` of ``f ~ N(mean, std²)``, where h grows like ``exp(2 f)`` at most."""
    edges = np.linspace(mean - 12.0 * std, mean + 2.0 * std**2 + 12.0 * std, 1001)
    nodes, weights = np.polynomial.legendre.leggauss(12)
    half = 0.5 * np.diff(edges)[:, np.newaxis]
    f = (edges[:-1, np.newaxis] + half * (nodes + 1.0)).ravel()
    mass = (half * weights).ravel() * stats.norm.pdf(f, mean, std)
    return float(function(f) @ mass)


def has_closed_moments(likelihood):
    """In a closed form, or of means that are bounded."""
    closed = type(likelihood).predictive_moments is not Likelihood.predictive_moments
    return closed or float(likelihood.mean(50.0)) < 1e3


@pytest.mark.parametrize(
    "likelihood", [one for one in SCALAR if has_closed_moments(one)], ids=repr
)
@pytest.mark.parametrize("std", [0.5, 2.0, 4.0, 6.0])
def test_moments_of_wide_distributions_of_f(likelihood, std):
    """Those of exp(f) used to be cut off at eight standard deviations."""
    for mean in (-3.0, 1.0):
        mixture = LatentMixture(
            np.full((1, 1, 1), mean), np.full((1, 1, 1), std**2), np.ones(1)
        )
        found = likelihood.predictive_moments(mixture)
        spread = likelihood.predictive_mean_variance(mixture)
        first = expectation(likelihood.mean, mean, std)
        square = expectation(
            lambda f, c=first: (likelihood.mean(f) - c) ** 2, mean, std
        )
        noise = expectation(likelihood.variance, mean, std)
        np.testing.assert_allclose(found[0], first, rtol=1e-6)
        np.testing.assert_allclose(spread, square, rtol=1e-6)
        np.testing.assert_allclose(found[1], square + noise, rtol=1e-6)


LEVELS = [1e-4, 0.025, 0.5, 0.9, 0.9999]


@pytest.mark.parametrize("likelihood", DISCRETE, ids=repr)
def test_discrete_quantile_is_the_smallest_integer(likelihood, rng):
    mixture = latent_mixture(likelihood, rng)
    for level, y in zip(
        LEVELS, likelihood.predictive_quantile(LEVELS, mixture).T, strict=True
    ):
        np.testing.assert_array_equal(y, np.floor(y))
        assert np.all(likelihood.predictive_cdf(y, mixture) >= level)
        assert np.all(likelihood.predictive_cdf(y - 1.0, mixture) < level)


WIDE = [(0.0, 0.3), (-3.0, 3.0), (2.0, 5.0)]
SINGULAR = [Gamma(shape=0.37), Gamma(shape=1.0), Beta(precision=0.9)]


def mixture_of_two(mean, std):
    """Four rows of two modes, five standard deviations apart in the first."""
    gap = np.array([5.0, 2.0, 0.5, 0.0])
    means = mean + np.stack((-gap, gap), axis=1) * std / 2.0
    variance = std**2 * np.array([1.0, 0.3])
    weights = np.array([0.3, 0.7])
    return LatentMixture(
        means[:, np.newaxis], variance[None, None] + 0 * gap[:, None, None], weights
    )


@pytest.mark.parametrize("likelihood", [*SCALAR_WITH_CDF, *SINGULAR], ids=repr)
def test_quantiles_have_their_level(likelihood):
    """In order, inside the support, next to the double that reaches the level."""
    levels = np.array([1e-6, 1e-3, 0.01, 0.1, 0.5, 0.9, 0.99, 1.0 - 1e-6])
    low, high = likelihood.support
    for mean, std in WIDE:
        mixture = mixture_of_two(mean, std)
        found = likelihood.predictive_quantile(levels, mixture)
        assert np.all(np.diff(found, axis=1) >= 0.0)
        # zero is a count, but no positive number
        assert np.all((low < found) | (likelihood.discrete & (found == low)))
        assert np.all(found < high)
        for level, y in zip(levels, found.T, strict=True):
            cdf = likelihood.predictive_cdf(y, mixture)
            if likelihood.discrete:
                assert np.all(cdf > level - 1e-6)
                assert np.all(
                    likelihood.predictive_cdf(y - 1.0, mixture) < level + 1e-6
                )
                continue
            below, above = (
                likelihood.predictive_cdf(np.nextafter(y, end), mixture)
                for end in (-np.inf, np.inf)
            )
            reached = (below <= level) & (level <= above)
            # where the largest or smallest numbers have more than the level
            at_end = (y <= 1e-300) | (y >= 1.0 - 1e-15)
            at_end &= likelihood.support != (-np.inf, np.inf)
            assert np.all((np.abs(cdf - level) < 1e-6) | reached | at_end)


def test_quantiles_of_large_numbers_that_differ_little():
    for likelihood in (StudentT(scale=1.0), ShiftedMixture(2.0, 0.5, 0.04)):
        mixture = LatentMixture(
            np.full((1, 1, 2), 1e9), np.full((1, 1, 1), 0.1), np.full(2, 0.5)
        )
        for level in (0.01, 0.3, 0.9):
            y = likelihood.predictive_quantile(level, mixture)[:, 0]
            assert likelihood.predictive_cdf(y, mixture) == pytest.approx(
                level, abs=1e-6
            )


@pytest.mark.parametrize(
    "likelihood",
    [Gamma(shape=3.0), LogNormal(scale=0.4), Beta(precision=8.0)],
    ids=repr,
)
@pytest.mark.parametrize("mean", [-700.0, 300.0])
def test_quantiles_are_finite_at_the_ends_of_the_support(likelihood, mean):
    mixture = LatentMixture(np.full((1, 1, 1), mean), np.ones((1, 1, 1)), np.ones(1))
    found = likelihood.predictive_quantile([0.1, 0.5, 0.9], mixture)
    assert np.all(np.isfinite(found))
    assert np.all(np.diff(found) >= 0.0)


def test_heavy_tails_whose_scale_varies_have_quantiles():
    likelihood = likelihoods.HeteroscedasticStudentT(1.5, 1.0, 0.3).prepare([0.0, 9.0])
    mixture = LatentMixture(np.zeros((1, 2, 1)), np.full((1, 2, 1), 0.1), np.ones(1))
    y = likelihood.predictive_quantile(0.9, mixture)[:, 0]
    assert likelihood.predictive_cdf(y, mixture) == pytest.approx(0.9, abs=1e-6)


@pytest.mark.parametrize("rate", [1e15, 1e16, 1e20])
def test_quantiles_of_counts_that_doubles_cannot_tell_apart(rate):
    """The search used to wait for a bracket of length one."""
    f = np.full((1, 1, 1), np.log(rate))
    mixture = LatentMixture(f, np.full((1, 1, 1), 1e-4), np.ones(1))
    levels = [0.05, 0.95]
    y = Poisson("exp").predictive_quantile(levels, mixture)[0]
    # the noise of the counts is small beside the spread of their rate
    expected = 0.01 * stats.norm.ppf(levels)
    np.testing.assert_allclose(np.log(y / rate), expected, atol=1e-4)
    score = Poisson("exp").predictive_crps(np.array([rate]), mixture)
    np.testing.assert_allclose(
        score, 0.01 * rate * (2**0.5 - 1) / np.pi**0.5, rtol=1e-3
    )


@pytest.mark.parametrize("likelihood", WITH_CDF, ids=repr)
def test_predictions_do_not_depend_on_the_other_rows(likelihood, rng):
    mixture = latent_mixture(likelihood, rng)
    alone = LatentMixture(mixture.mean[2:3], mixture.variance[2:3], mixture.weights)
    y = targets(likelihood, 4)
    together = [moment[2:3] for moment in likelihood.predictive_moments(mixture)]
    np.testing.assert_allclose(
        likelihood.predictive_moments(alone), together, rtol=1e-13
    )
    for method, argument, part in (
        ("predictive_log_density", y, y[2:3]),
        ("predictive_quantile", LEVELS, LEVELS),
    ):
        together = getattr(likelihood, method)(argument, mixture)[2:3]
        single = getattr(likelihood, method)(part, alone)
        np.testing.assert_allclose(single, together, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "likelihood", [one for one in ALL if hasattr(one, "predict_proba")], ids=repr
)
def test_probabilities(likelihood, rng):
    mixture = latent_mixture(likelihood, rng)
    proba = likelihood.predict_proba(mixture)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    for k in range(proba.shape[1]):
        log_density = likelihood.predictive_log_density(np.full(4, float(k)), mixture)
        np.testing.assert_allclose(np.exp(log_density), proba[:, k], rtol=1e-10)


def test_a_likelihood_of_the_page_works_from_fit_to_draws():
    """In `PLSRegressor`, with nothing but what the page tells an author to write."""
    rng = np.random.default_rng(1)
    X = rng.uniform(0.0, 4.0, (300, 1))
    f = 1.0 + np.sin(2.0 * X)
    y = Geometric().sample(f, rng)[:, 0]
    model = PLSRegressor(likelihood=Geometric(), n_particles=50, random_state=0)
    model.fit(X, y)
    assert model.findings_ == ()
    grid = np.linspace(0.2, 3.8, 50)[:, np.newaxis]
    mean, std = model.predict(grid, return_std=True, include_noise=False)
    z = (mean - np.exp(1.0 + np.sin(2.0 * grid[:, 0]))) / std
    assert np.sqrt(np.mean(z**2)) < 2.0
    # far from the data predictions return to the mean of the counts
    error = np.std(y) / np.sqrt(len(y))
    assert abs(model.predict([[1e4]])[0] - np.mean(y)) < 4.5 * error
    # quantiles are counts, with their coverage; draws have the predictive mean
    low, high = model.predict_interval(X, 0.9).T
    np.testing.assert_array_equal(low, np.floor(low))
    distribution = model.predict_dist(X)
    expected = distribution.cdf(high) - distribution.cdf(low - 1.0)
    inside = (low <= y) & (y <= high)
    spread = np.sqrt(np.sum(expected * (1.0 - expected)))
    assert abs(np.sum(inside - expected)) < 4.5 * spread
    draws = model.sample_y(grid, 2000, random_state=0)
    np.testing.assert_array_equal(draws, np.floor(draws))
    assert_z(draws, model.predict(grid))
    with pytest.raises(ValueError, match=r"Geometric expects y = 0, 1, 2"):
        model.fit(X, y - 0.5)


def test_a_missing_method_is_named():
    class Silent(Likelihood):
        pass

    with pytest.raises(NotImplementedError, match=r"Silent does not implement cdf"):
        Silent().cdf(0.0, 0.0)


class Heteroscedastic(Likelihood):
    """Normal noise whose log standard deviation is a second latent function."""

    n_outputs = 2

    def nll(self, y, f):
        z = (y[:, np.newaxis] - f[:, 0]) * np.exp(-f[:, 1])
        return 0.5 * z**2 + f[:, 1] + 0.5 * np.log(2.0 * np.pi)

    def mean(self, f):
        return f[:, 0]

    def variance(self, f):
        return np.exp(2.0 * f[:, 1])

    def cdf(self, y, f):
        return stats.norm.cdf((y[:, np.newaxis] - f[:, 0]) * np.exp(-f[:, 1]))

    def sample(self, f, rng):
        return f[:, 0] + np.exp(f[:, 1]) * rng.standard_normal(f[:, 0].shape)

    def base_latent(self, y, weights):
        return np.zeros(2)


def test_two_latent_functions_need_no_more_than_one(rng):
    likelihood = Heteroscedastic().prepare(targets(Gaussian()))
    check_likelihood(likelihood)
    y, f = targets(likelihood, 5), rng.standard_normal((5, 2, 3))
    z, sd = y[:, np.newaxis] - f[:, 0], np.exp(f[:, 1])
    exact = np.stack((-z / sd**2, 1.0 - z**2 / sd**2), axis=1)
    np.testing.assert_allclose(likelihood.row_gradient(y, f), exact, atol=1e-6)
    hessian = np.array([[1.0 / sd**2, 2.0 * z / sd**2]] * 2)
    hessian[1] = 2.0 * z / sd**2, 2.0 * z**2 / sd**2
    hessian = hessian.transpose(2, 3, 0, 1)
    values, vectors = np.linalg.eigh(hessian)
    part = np.einsum("nsab,nsb,nscb->nacs", vectors, np.maximum(values, 0.0), vectors)
    np.testing.assert_allclose(likelihood.row_curvature(y, f), part, atol=1e-3)
    mean = rng.standard_normal((4, 2, 1))
    mixture = LatentMixture(mean, np.full((1, 1, 1), 0.2), np.ones(1))
    draws = draws_of_y(likelihood, mixture, 20_000, rng)
    expected, variance = likelihood.predictive_moments(mixture)
    np.testing.assert_allclose(draws.mean(axis=1), expected, atol=0.2)
    np.testing.assert_allclose(draws.var(axis=1), variance, rtol=0.2)
    for level, q in zip(
        LEVELS, likelihood.predictive_quantile(LEVELS, mixture).T, strict=True
    ):
        np.testing.assert_allclose(
            likelihood.predictive_cdf(q, mixture), level, rtol=1e-6
        )


@pytest.mark.parametrize("likelihood", CONSTRUCTED, ids=repr)
def test_parameters_and_arguments_that_are_refused(likelihood):
    possible = targets(likelihood)
    for name in likelihood.scale_names:
        for value in (np.nan, np.inf, 0.0, -1.0, 1e-300, 1e300, "auto", 1.0j):
            bad = clone(likelihood).set_params(**{name: value})
            with pytest.raises(ValueError, match=f"{name} to be positive and fin"):
                bad.check_parameters()
            with pytest.raises(ValueError, match=f"{name} to be positive and fin"):
                bad.prepare(possible)
    prepared = likelihood.prepare(possible)
    y, c = targets(prepared), prepared.n_outputs_
    f = np.zeros((len(y), c, 1)) if c > 1 else np.zeros(len(y))
    for function in (prepared.nll, prepared.gradient):
        if function.__name__ == "gradient" and not prepared.smooth:
            continue
        assert np.all(np.isfinite(function(y, f)))
        if likelihood.__module__.startswith("skgpx"):
            with pytest.raises(TypeError, match="complex"):
                function(y + 1.0j, f)
        if c > 1:
            with pytest.raises(ValueError, match="several latent outputs"):
                function(y, f[:, 0, 0])
    if c > 1:
        for function in (prepared.mean, prepared.variance):
            with pytest.raises(ValueError, match="several latent outputs"):
                function(f[:, 0, 0])


@pytest.mark.parametrize("likelihood", FREE, ids=repr)
def test_what_prepare_sets_is_asked_for(likelihood):
    y, c = targets(likelihood), likelihood.n_outputs
    f = np.zeros((len(y), c, 1)) if c > 1 else np.zeros(len(y))
    with pytest.raises(ValueError, match="is not set yet: call prepare"):
        likelihood.nll(y, f)
    assert not hasattr(likelihood, "base_latent_")
