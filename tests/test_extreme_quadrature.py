"""Predictions of distributions that are wide, narrow or far from the data."""

import warnings

import numpy as np
import pytest
from scipy import optimize, special, stats
from sklearn.gaussian_process.kernels import RBF

from skgpx import PLSClassifier, PLSRegressor
from skgpx.likelihoods import (
    Bernoulli,
    Gaussian,
    Likelihood,
    Poisson,
    ShiftedMixture,
    StudentT,
)

BRIEF = {
    "kernel": RBF(0.05),
    "optimizer": None,
    "n_inducing": 4,
    "n_particles": 10,
    "random_state": 0,
}
LEVELS = (0.05, 0.5, 0.95)


def rows(rng, n=40):
    """A few rows around 0.5, and the whole interval to predict at."""
    X = 0.4 + 0.2 * rng.random((n, 1))
    return X, np.linspace(0.0, 1.0, 9)[:, np.newaxis]


def fitted(likelihood, y, X):
    with warnings.catch_warnings():
        # four inducing points and few steps: how well it fits is not the question
        warnings.simplefilter("ignore")
        model = PLSRegressor(likelihood=likelihood, normalize_y=False, **BRIEF)
        return model.fit(X, y)


def classifier(likelihood, std, X, labels):
    model = PLSClassifier(
        likelihood=likelihood, **BRIEF | {"kernel": std**2 * RBF(0.05)}
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X, labels)


def latent(model, x):
    """Means, standard deviation and weights of the latent distribution of one row."""
    distribution = model.posterior_.marginals(x)
    std = np.sqrt(np.broadcast_to(distribution.variance, distribution.mean.shape))[0, 0]
    return distribution.mean[0, 0], std, distribution.weights


def average(function, mean, std, narrow, centre):
    """``E function(f)`` over normal components, by panels around a centre."""
    reach = narrow * 2.0 ** np.arange(-8.0, 26.0)
    around = np.concatenate([-reach, [0.0], reach])
    x, w = np.polynomial.legendre.leggauss(20)
    total = []
    for m, s in zip(mean, std, strict=True):
        edges = np.concatenate([centre + around, m + s * np.linspace(-9.0, 9.0, 40)])
        edges = np.unique(np.clip(edges, m - 9.0 * s, m + 9.0 * s))
        half = 0.5 * np.diff(edges)[:, np.newaxis]
        f = 0.5 * (edges[1:] + edges[:-1])[:, np.newaxis] + half * x
        total.append(np.sum(half * w * function(f) * stats.norm.pdf(f, m, s)))
    return np.array(total)


@pytest.mark.parametrize("scale", [1e-4, 0.01, 1.0])
def test_student_densities_far_from_the_data(rng, scale):
    X, T = rows(rng)
    model = fitted(StudentT(4.0, scale), np.sin(9.0 * X[:, 0]), X)
    y = np.linspace(-1.0, 3.0, len(T))
    found = model.log_predictive_density(T, y)
    for i in range(len(T)):
        mean, std, weights = latent(model, T[i : i + 1])
        distribution = stats.t(4.0, y[i], scale)
        parts = average(distribution.pdf, mean, std, scale, y[i])
        assert found[i] == pytest.approx(np.log(weights @ parts), abs=1e-6)


def test_densities_of_a_users_likelihood_far_from_the_data(rng):
    top = stats.t(4.0, scale=1e-3).logpdf(0.0)

    class Narrow(Likelihood):
        location_scale = True

        def nll(self, y, f):
            return 2.5 * np.log1p(np.subtract(y, f) ** 2 / 4e-6) - top

        def gradient(self, y, f):
            r = np.subtract(f, y)
            return 5.0 * r / (4e-6 + r**2)

        def mean(self, f):
            return np.asarray(f, dtype=float)

        def variance(self, f):
            return np.full(np.shape(f), 2e-6)

        def sample(self, f, rng):
            return f + 1e-3 * rng.standard_t(4.0, np.shape(f))

        def initial_latent(self, y):
            return np.array(y, dtype=float)

    X, T = rows(rng)
    y = np.sin(9.0 * X[:, 0])
    own = fitted(Narrow(), y, X)
    library = fitted(StudentT(4.0, 1e-3), y, X)
    library.posterior_ = own.posterior_
    targets = np.linspace(-1.0, 2.0, len(T))
    np.testing.assert_allclose(
        own.log_predictive_density(T, targets),
        library.log_predictive_density(T, targets),
        atol=2e-3,
    )


@pytest.mark.parametrize("std", [1.0, 6.0, 40.0])
@pytest.mark.parametrize("link", ["logit", "probit"])
def test_probabilities_of_two_classes_far_from_the_data(rng, std, link):
    X, T = rows(rng)
    model = classifier(Bernoulli(link), std, X, X[:, 0] > 0.5)
    probability = {"logit": special.expit, "probit": special.ndtr}[link]
    found = model.predict_proba(T)[:, 1]
    for i in range(len(T)):
        mean, deviations, weights = latent(model, T[i : i + 1])
        parts = average(probability, mean, deviations, 1.0, 0.0)
        assert found[i] == pytest.approx(weights @ parts, abs=5e-5)


@pytest.mark.parametrize("std", [0.5, 2.0, 6.0])
def test_probabilities_of_three_classes_far_from_the_data(rng, std):
    X, T = rows(rng)
    model = classifier(None, std, X, np.digitize(X[:, 0], [0.45, 0.55]))
    distribution = model.posterior_.marginals(T)
    n_draws = 4000
    noise = rng.standard_normal((*distribution.mean.shape, n_draws))
    f = (
        distribution.mean[..., np.newaxis]
        + np.sqrt(distribution.variance)[..., np.newaxis] * noise
    )
    p = special.softmax(f, axis=1)
    draws = p.transpose(0, 1, 3, 2) @ distribution.weights
    error = draws.std(axis=2) / np.sqrt(n_draws)
    gap = np.abs(model.predict_proba(T) - draws.mean(axis=2))
    # points of narrow distributions are right to .001
    assert np.all(gap < 4.5 * error + (1.5e-3 if std < 1.0 else 1e-4))


@pytest.mark.parametrize(
    "likelihood",
    [
        Gaussian(0.04),
        StudentT(4.0, 0.1),
        StudentT(1.0, 1e-4),
        ShiftedMixture(2.0, 0.3, 0.01),
    ],
    ids=repr,
)
def test_intervals_of_continuous_distributions(rng, likelihood):
    X, T = rows(rng)
    model = fitted(likelihood, np.sin(9.0 * X[:, 0]), X)
    found = model.predict_quantiles(T, LEVELS)
    for i in range(0, len(T), 2):
        mean, std, weights = latent(model, T[i : i + 1])
        total = np.sqrt((mean - weights @ mean) ** 2 @ weights + weights @ std**2 + 1.0)
        for p, y in zip(LEVELS, found[i], strict=True):

            def gap(t, p=p, distribution=(mean, std, weights)):
                m, s, w = distribution
                return w @ distribution_function(likelihood, t, m, s) - p

            exact = optimize.brentq(gap, y - 2e-3, y + 2e-3, xtol=1e-13)
            assert abs(y - exact) < 1e-8 * total
    interval = model.predict_interval(T, 0.9)
    np.testing.assert_allclose(interval, found[:, [0, 2]], rtol=1e-9, atol=1e-12)
    if isinstance(likelihood, Gaussian):
        mean, std = model.predict(T, return_std=True)
        closed = mean + np.multiply.outer(stats.norm.ppf([0.05, 0.95]), std)
        np.testing.assert_allclose(interval.T, closed, rtol=1e-13)


def distribution_function(likelihood, y, mean, std):
    """``P(Y <= y)`` under each component, in closed form or over the precision."""
    if isinstance(likelihood, Gaussian):
        return stats.norm.cdf(y, mean, np.sqrt(std**2 + likelihood.noise_variance))
    if isinstance(likelihood, ShiftedMixture):
        spread, p = np.sqrt(std**2 + likelihood.noise_variance), likelihood.probability
        moved = stats.norm.cdf(y, mean + likelihood.shift, spread)
        return (1.0 - p) * stats.norm.cdf(y, mean, spread) + p * moved
    # E Φ((y - m) / √(s² + scale² / g)) over log g, on a grid of its own
    half = 0.5 * likelihood.df
    x = np.arange(-90.0, 5.0, 0.11)
    masses = np.exp(half * x - half * np.exp(x))
    widths = np.sqrt(std[:, np.newaxis] ** 2 + likelihood.scale**2 * np.exp(-x))
    z = (y - mean)[:, np.newaxis] / widths
    return stats.norm.cdf(z) @ (masses / masses.sum())


@pytest.mark.parametrize("link", ["softplus", "exp", "square"])
@pytest.mark.parametrize("level", [1.0, 40.0])
def test_intervals_of_counts_are_exact_integers(rng, link, level):
    X, T = rows(rng)
    y = rng.poisson(level * (1.0 + X[:, 0])).astype(float)
    model = fitted(Poisson(link), y, X)
    found = model.predict_quantiles(T, LEVELS)
    np.testing.assert_array_equal(found, np.round(found))
    likelihood = model.likelihood_
    for i in range(0, len(T), 4):
        mean, std, weights = latent(model, T[i : i + 1])
        for p, count in zip(LEVELS, found[i], strict=True):
            probabilities = [
                weights
                @ average(lambda f, k=k: likelihood.cdf(k, f), mean, std, 0.3, 0.0)
                for k in (count - 1.0, count)
            ]
            assert probabilities[0] < p + 1e-4
            assert probabilities[1] > p - 1e-4


@pytest.mark.parametrize("link", ["softplus", "exp", "square"])
def test_moments_of_counts_under_wide_distributions(rng, link):
    X, T = rows(rng)
    model = fitted(Poisson(link), rng.poisson(2.0, len(X)).astype(float), X)
    mean, std = model.predict(T, return_std=True)
    _, inner = model.predict(T, return_std=True, include_noise=False)
    rate = model.likelihood_.mean
    for i in range(0, len(T), 4):
        components = latent(model, T[i : i + 1])
        first = components[2] @ average(rate, *components[:2], 0.3, 0.0)
        second = components[2] @ average(
            lambda f, first=first: (rate(f) - first) ** 2, *components[:2], 0.3, 0.0
        )
        assert mean[i] == pytest.approx(first, rel=2e-5)
        assert inner[i] == pytest.approx(np.sqrt(second), rel=2e-4)
        assert std[i] == pytest.approx(np.sqrt(first + second), rel=2e-4)
