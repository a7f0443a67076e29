"""Predictions where that of f is far wider, or narrower, than the likelihood."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import softmax

from skgpx._numerics.mixture import LatentMixture
from skgpx.likelihoods import (
    Bernoulli,
    Categorical,
    Gaussian,
    Likelihood,
    Poisson,
    ShiftedMixture,
    StudentT,
)

RATIOS = 10.0 ** np.arange(-4.0, 5.0, 2.0)


class UserStudent(Likelihood):
    """Student's t through the base class, whose quadrature does not know it."""

    def __init__(self, df=4.0, scale=1.0):
        self.df, self.scale = df, scale

    def nll(self, y, f):
        return -stats.t(self.df, scale=self.scale).logpdf(np.subtract(y, f))

    def gradient(self, y, f):
        r = np.subtract(f, y)
        return (self.df + 1.0) * r / (self.df * self.scale**2 + r**2)

    def mean(self, f):
        return np.asarray(f, dtype=float)

    def variance(self, f):
        return np.full(np.shape(f), 2.0 * self.scale**2)

    def cdf(self, y, f):
        return stats.t(self.df, scale=self.scale).cdf(np.subtract(y, f))

    def initial_latent(self, y):
        return np.array(y, dtype=float)


class Unhelpful(UserStudent):
    """Does not say where its peak is."""

    def initial_latent(self, y):
        return np.zeros(np.shape(y))


def one_row(mean, std):
    """Mixture of one row; means (s,), one standard deviation."""
    mean = np.atleast_1d(np.asarray(mean, dtype=float))
    weights = np.full(mean.size, 1.0 / mean.size)
    return LatentMixture(mean.reshape(1, 1, -1), np.full((1, 1, 1), std**2), weights)


def exact_log_density(likelihood, y, distribution, peak):
    """By adaptive integration along the latent line, around the peak."""
    std = float(np.sqrt(distribution.variance[0, 0, 0]))
    means = distribution.mean[0, 0]
    low, high = means.min() - 12.0 * std, means.max() + 12.0 * std
    scales = 10.0 ** np.arange(-6.0, 6.0, 0.5)
    around = np.concatenate([-scales, [0.0], scales])
    edges = np.concatenate([peak + around, around - peak])
    grid = np.linspace(low, high, 200)
    edges = np.unique(np.clip(np.concatenate([edges, grid]), low, high))

    def log_integrand(f):
        z = (np.asarray(f)[..., np.newaxis] - means) / std
        prior = stats.norm.logpdf(z) - np.log(std)
        top = prior.max(axis=-1)
        mass = np.exp(prior - top[..., np.newaxis]) @ distribution.weights
        return -likelihood.nll(y, f) + top + np.log(mass)

    nodes, weights = np.polynomial.legendre.leggauss(30)
    half = 0.5 * np.diff(edges)[:, np.newaxis]
    f = 0.5 * (edges[1:] + edges[:-1])[:, np.newaxis] + half * nodes
    terms = log_integrand(f.ravel())
    top = terms.max()
    return top + np.log(np.sum((half * weights).ravel() * np.exp(terms - top)))


CASES = [
    (Gaussian(1.0), 1.0, None),
    (StudentT(4.0, 1.0), 1.0, None),
    (StudentT(1.0, 1.0), 1.0, None),
    (UserStudent(4.0, 1.0), 1.0, None),
    (Unhelpful(4.0, 1.0), 1.0, None),
    (Bernoulli(), 2.0, 0.0),
    (Poisson("softplus"), 1.0, None),
    (Poisson("exp"), 0.1, None),
    (Poisson("square"), 0.2, None),
]


@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize("s", [1, 100])
@pytest.mark.parametrize(("likelihood", "width", "peak"), CASES, ids=repr)
def test_log_density_at_every_ratio(likelihood, width, peak, ratio, s, rng):
    if isinstance(likelihood, Poisson) and likelihood.link == "exp":
        ratio = min(ratio, 1e2)  # log rates of larger sizes overflow
    std = width * ratio
    mean = 1.0 + 0.7 * std * rng.standard_normal(s)
    distribution = one_row(mean, std)
    # near the mean, and three standard deviations off
    for y in (1.0, float(np.round(1.0 + 3.0 * np.hypot(std, width)))):
        if likelihood.discrete:
            y = min(y, 1.0 if isinstance(likelihood, Bernoulli) else 1e6)
        found = likelihood.predictive_log_density(np.array([y]), distribution)[0]
        at = peak
        if at is None:
            at = float(likelihood.initial_latent(np.array([y]))[0])
            at = y if isinstance(likelihood, UserStudent) else at
        exact = exact_log_density(likelihood, y, distribution, at)
        assert found == pytest.approx(exact, abs=2e-3)


def test_the_common_case_is_far_more_accurate(rng):
    distribution = one_row(rng.standard_normal(10), 0.5)
    for likelihood in (Poisson("softplus"), Poisson(), UserStudent()):
        found = likelihood.predictive_log_density(np.array([1.0]), distribution)[0]
        exact = exact_log_density(likelihood, 1.0, distribution, 1.0)
        assert found == pytest.approx(exact, abs=1e-5)


@pytest.mark.parametrize("ratio", RATIOS)
def test_rows_that_are_refined_do_not_change_the_others(ratio, rng):
    likelihood = UserStudent(4.0, 1.0)
    mean = rng.standard_normal((3, 1, 4))
    variance = np.array([0.5, ratio**2, 0.01]).reshape(3, 1, 1)
    distribution = LatentMixture(mean, variance, np.full(4, 0.25))
    y = np.array([0.3, 0.4, 0.1])
    together = likelihood.predictive_log_density(y, distribution)
    for i in range(3):
        row = distribution.rows(slice(i, i + 1))
        alone = likelihood.predictive_log_density(y[i : i + 1], row)
        assert alone[0] == pytest.approx(together[i], rel=1e-12)


@pytest.mark.parametrize("std", [1e-4, 0.5, 1.4, 1.6, 4.1, 30.0, 300.0])
@pytest.mark.parametrize("s", [1, 7])
def test_logit_probabilities(std, s, rng):
    mean = 0.4 + std * rng.standard_normal(s)
    distribution = one_row(mean, std)
    found = Bernoulli().predict_proba(distribution)[0]
    for k in (0.0, 1.0):
        exact = np.exp(exact_log_density(Bernoulli(), k, distribution, 0.0))
        assert found[int(k)] == pytest.approx(exact, abs=3e-5 if std < 100.0 else 1e-3)


def test_probabilities_that_underflow_have_logarithms():
    distribution = one_row(-2000.0, 0.1)
    found = Bernoulli().predictive_log_density(np.array([1.0]), distribution)
    assert found[0] == pytest.approx(-2000.0 + 0.005, rel=1e-6)
    mean = np.array([-2000.0, 0.0, 1.0]).reshape(1, 3, 1)
    distribution = LatentMixture(mean, np.full((1, 1, 1), 1e-4), np.ones(1))
    found = Categorical().predictive_log_density(np.array([0.0]), distribution)
    assert found[0] == pytest.approx(-2000.0 - np.log(1.0 + np.e), rel=1e-4)


@pytest.mark.parametrize("link", ["softplus", "exp", "square"])
@pytest.mark.parametrize("std", [0.0, 0.3, 1.5, 4.0])
def test_moments_of_counts(link, std, rng):
    likelihood, mean = Poisson(link), 1.0 + rng.standard_normal(3)
    distribution = one_row(mean, std)
    grid = np.linspace(-12.0, 12.0, 200_001)
    weights = np.exp(-0.5 * grid**2)
    weights /= weights.sum()
    rate = np.concatenate([likelihood.mean(m + std * grid) for m in mean])
    weights = np.concatenate([weights] * 3) / 3.0
    first = rate @ weights
    spread = (rate - first) ** 2 @ weights
    # the exponential link grows by exp(8 std) over the grid
    assert likelihood.predictive_mean(distribution)[0] == pytest.approx(first, rel=1e-5)
    found = likelihood.predictive_mean_variance(distribution)[0]
    assert found == pytest.approx(spread, rel=1e-4, abs=1e-12)
    noisy = likelihood.predictive_moments(distribution)[1][0]
    assert noisy == pytest.approx(first + spread, rel=1e-4)
    both = likelihood.predictive_moments(distribution)
    np.testing.assert_array_equal(both, [[both[0][0]], [noisy]])


@pytest.mark.parametrize("link", ["softplus", "exp", "square"])
@pytest.mark.parametrize(("mean", "std"), [(0.0, 30.0), (0.5, 1.0), (6.0, 0.1)])
def test_distribution_function_of_counts(link, mean, std):
    # f² < 2 or so lies in the middle of a wide distribution of f
    counts, grid = Poisson(link), mean + std * np.linspace(-9.0, 9.0, 200_001)
    prior = stats.norm.pdf(grid, mean, std) * (grid[1] - grid[0])
    for y in (0.0, 1.0, 7.0, 40.0):
        found = counts.predictive_cdf(np.array([y]), one_row(mean, std))[0]
        assert found == pytest.approx(counts.cdf(y, grid) @ prior, abs=1e-4)


@pytest.mark.parametrize("std", [0.5, 2.0, 6.0])
def test_probabilities_of_three_classes(std, rng):
    mean = std * rng.standard_normal((6, 3, 5))
    mixture = LatentMixture(mean, np.full((6, 3, 5), std**2), np.full(5, 0.2))
    noise = rng.standard_normal((*mean.shape, 4000))
    p = softmax(mean[..., np.newaxis] + std * noise, axis=1).mean(axis=2)
    error = p.std(axis=2) / np.sqrt(4000)
    gap = np.abs(Categorical().predict_proba(mixture) - p.mean(axis=2))
    # the nodes of narrow distributions are right to 0.001
    assert np.all(gap < 4.5 * error + (1.5e-3 if std < 1.0 else 1e-4))


def test_users_moments_are_refined_until_halves_agree():
    class Step(UserStudent):
        def mean(self, f):
            return 1.0 * (np.asarray(f) > 0.3)

    distribution = one_row(np.zeros(12), 5.0)
    exact = stats.norm.sf(0.3, scale=5.0)
    assert Step().predictive_mean(distribution)[0] == pytest.approx(exact, abs=5e-3)


@pytest.mark.parametrize(
    "likelihood",
    [
        Gaussian(1.0),
        StudentT(4.0, 1.0),
        StudentT(1.0, 1.0),
        ShiftedMixture(4.0, 0.3, 0.1),
    ],
    ids=repr,
)
@pytest.mark.parametrize("ratio", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("s", [1, 6])
def test_quantiles_invert_an_exact_distribution_function(likelihood, ratio, s, rng):
    distribution = one_row(ratio * rng.standard_normal(s), ratio)
    levels = [0.01, 0.3, 0.5, 0.95]
    for p, y in zip(
        levels, likelihood.predictive_quantile(levels, distribution)[0], strict=True
    ):
        assert likelihood.predictive_cdf(np.array([y]), distribution)[
            0
        ] == pytest.approx(p, rel=1e-8)
