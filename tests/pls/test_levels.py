"""Latent functions with a mean: where predictions go far from the data, and scale."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import optimize, stats
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from skgpx import PLSClassifier, PLSRegressor
from skgpx.likelihoods import Bernoulli, Likelihood, Poisson

LINKS = ["softplus", "exp", "square"]
FAST = {"n_inducing": 12, "n_particles": 40, "random_state": 0}
FAR = [[1e3]]


def counts(mean, n=150, seed=0):
    """Counts whose rate varies smoothly by a factor of three, and the rate."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, (n, 1))
    rate = mean * np.exp(0.55 * np.sin(2.0 * X[:, 0]))
    return X, rng.poisson(rate).astype(float), rate


def classes(n_classes, n=200, seed=0):
    """Labels with a share of 2 / (K (K + 1)), 4 / (K (K + 1)), ... that vary with x."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, (n, 1))
    phases = X + np.arange(n_classes)
    f = np.log(np.arange(1.0, n_classes + 1.0)) + 0.8 * np.sin(2.0 * phases)
    return X, np.argmax(f + rng.gumbel(size=f.shape), axis=1)


# ---- Far from the data ---------------------------------------------------------------


@pytest.mark.parametrize("mean", [0.4, 200.0])
@pytest.mark.parametrize("link", LINKS)
def test_counts_return_to_their_mean(link, mean):
    X, y, _ = counts(mean)
    model = PLSRegressor(likelihood=Poisson(link), **FAST).fit(X, y)
    assert model.predict(FAR)[0] == pytest.approx(y.mean(), rel=0.02)
    # the median of a log-normal rate is below its mean
    median = model.predict_quantiles(FAR, 0.5)[0, 0]
    assert 0.6 * y.mean() - 1.0 < median < 1.1 * y.mean()
    # the functions themselves too
    f = model.sample_functions(2000, random_state=0)(np.array(FAR))
    draws = model.likelihood_.mean(f)
    error = draws.std() / np.sqrt(draws.size)
    assert abs(draws.mean() - y.mean()) < 4.5 * error + 0.02 * y.mean()


@pytest.mark.parametrize("std", [1.9, 2.0, 2.1, 6.0])
def test_log_rates_return_to_their_mean_up_to_a_prior_deviation_of_two(std):
    X, y, _ = counts(20.0, n=60)
    kernel = ConstantKernel(std**2) * RBF(1.0)
    model = PLSRegressor(kernel, likelihood=Poisson("exp"), optimizer=None)
    model.set_params(**FAST).fit(X, y)
    # m is the log of the mean less half the variance, at most one deviation
    rate = (y.sum() + 0.5) / len(y)
    expected = rate * np.exp(max(0.0, 0.5 * std**2 - std))
    assert_allclose(model.predict(FAR)[0], expected, rtol=1e-9)
    median = np.exp(model.likelihood_.base_latent_)
    assert_allclose(median, rate * np.exp(-min(0.5 * std**2, std)), rtol=1e-9)


# far from the rows it does not matter that six points are few, and that the most
# probable of the averaged states is at a bound
@pytest.mark.filterwarnings("ignore:6 inducing points are too few")
@pytest.mark.filterwarnings("ignore:The diagnostics of this fit found")
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_classes", [2, 10])
def test_classes_return_to_their_frequencies(n_classes, weighted):
    X, y = classes(n_classes)
    w = 1.0 + 2.0 * (y == 0) if weighted else np.ones(len(y))
    model = PLSClassifier(**{**FAST, "n_inducing": 6}).fit(X, y, w)
    shares = np.bincount(y, w) / w.sum()
    assert_allclose(model.predict_proba(FAR)[0], shares, atol=0.015)
    # rows so far from each other that their labels are independent
    labels = model.sample_y(1e3 * np.arange(1.0, 21.0)[:, np.newaxis], 200)
    drawn = np.bincount(labels.ravel(), minlength=n_classes) / 4000
    assert np.all(np.abs(drawn - shares) < 4.5 * np.sqrt(shares / 4000) + 0.015)


def test_rare_classes_that_can_be_separated_stay_rare():
    # the prior of the latent function is as wide as it may be
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (300, 1))
    y = X[:, 0] > 1.5
    model = PLSClassifier(**FAST).fit(X, y)
    assert model.predict_proba(FAR)[0, 1] == pytest.approx(y.mean(), abs=0.01)
    assert np.mean(model.predict(X) == y) > 0.99


# ---- Against quadrature --------------------------------------------------------------

RATES = {
    "softplus": lambda f: np.logaddexp(0.0, f),
    "exp": np.exp,
    "square": lambda f: f**2,
}


def reference_mean(rate, mean):
    """Latent mean at which a unit-variance prior expects the mean of y, by a grid."""
    z = np.linspace(-9.0, 9.0, 4001)
    mass = stats.norm.pdf(z) / stats.norm.pdf(z).sum()
    return optimize.brentq(lambda m: mass @ rate(m + z) - mean, -12.0, 12.0)


def moments_by_quadrature(log_density, m, features, X_features):
    """Mean and variance of ``m + φᵀw`` under two weights, on a grid."""
    axis = np.linspace(-7.0, 7.0, 401)
    w = np.stack(np.meshgrid(axis, axis, indexing="ij")).reshape(2, -1)
    log_mass = log_density(m + features @ w).sum(axis=0) - 0.5 * np.sum(w**2, axis=0)
    mass = np.exp(log_mass - log_mass.max())
    mass /= mass.sum()
    f = m + X_features @ w
    mean = f @ mass
    return mean, (f - mean[:, np.newaxis]) ** 2 @ mass


def assert_moments(model, X, log_density, m, limit=4.5):
    """Particles against the quadrature, in standard errors of independent draws."""
    assert_allclose(model.likelihood_.base_latent_, m, rtol=1e-3)
    m = float(model.likelihood_.base_latent_[0])
    basis, w = model.posterior_.basis, model.particles_[:, 0]
    features = basis(X)
    mean, variance = moments_by_quadrature(log_density, m, features, features)
    f = m + features @ w
    s = f.shape[1]
    assert np.max(np.abs(f.mean(axis=1) - mean) / np.sqrt(variance / s)) < limit
    ratio = f.var(axis=1) / variance
    assert np.max(np.abs(ratio - 1.0)) < limit * np.sqrt(2.0 / s)
    latent = model.posterior_.marginals(X).mean.mean(axis=2)[:, 0]
    assert_allclose(latent, f.mean(axis=1), rtol=1e-9)


SMALL = {
    "kernel": RBF(1.0),
    "optimizer": None,
    "inducing": np.array([[-1.0], [1.0]]),
    "n_particles": 3000,
    "tol": 1.0,
    "max_iter": 60,
    "random_state": 0,
}


@pytest.mark.parametrize("method", ["auto", "smc"])
@pytest.mark.parametrize("link", LINKS)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_counts_against_quadrature(link, method):
    X, y, _ = counts(6.0, n=12)
    model = PLSRegressor(likelihood=Poisson(link), method=method, **SMALL).fit(X, y)
    mean, rate = (y.sum() + 0.5) / len(y), RATES[link]
    m = np.sqrt(mean - 1.0) if link == "square" else reference_mean(rate, mean)

    def log_density(f):
        return stats.poisson.logpmf(y[:, np.newaxis], rate(f) + 1e-8)

    assert_moments(model, X, log_density, m, 4.5 if method == "auto" else 6.0)


@pytest.mark.parametrize("link", ["logit", "probit"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_two_classes_against_quadrature(link):
    rng = np.random.default_rng(1)
    X = rng.uniform(-2.0, 2.0, (30, 1))
    y = rng.random(30) < 0.15
    model = PLSClassifier(likelihood=Bernoulli(link), **SMALL).fit(X, y)
    law = stats.logistic if link == "logit" else stats.norm
    sign = np.where(y, 1.0, -1.0)[:, np.newaxis]
    m = reference_mean(law.cdf, (y.sum() + 0.5) / 31.0)
    assert_moments(model, X, lambda f: law.logcdf(sign * f), m)


# ---- The scale of the latent function ------------------------------------------------


@pytest.mark.parametrize(
    ("link", "mean"),
    [
        ("softplus", 2.0),
        ("softplus", 200.0),
        ("softplus", 2000.0),
        ("softplus", 20_000.0),
        ("exp", 10_000.0),
        ("square", 20_000.0),
    ],
)
def test_counts_of_any_size_are_as_well_predicted_as_by_the_truth(link, mean):
    X, y, _ = counts(mean, n=300)
    Xt, yt, rate = counts(mean, n=400, seed=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = PLSRegressor(likelihood=Poisson(link), n_inducing=25, random_state=0)
        model.fit(X, y)
    truth = stats.poisson.logpmf(yt, rate).mean()
    assert model.log_predictive_density(Xt, yt).mean() > truth - 0.05


@pytest.mark.parametrize("link", LINKS)
def test_hardly_any_counts(link):
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-2.0, 2.0, (120, 1)), np.zeros(120)
    y[[3, 50]] = 1.0
    for targets in (y, np.zeros(120)):
        with warnings.catch_warnings():
            # nothing can be learned from zeros but that they are zeros
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = PLSRegressor(likelihood=Poisson(link), **FAST).fit(X, targets)
        rate = model.predict([[0.0], [1e3]])
        assert np.all(rate > 0.0)
        assert np.all(rate < 0.1)


class Counts(Likelihood):
    """A user's counts, with rates ``log(1 + exp(f))`` and nothing said about them."""

    discrete = True

    def nll(self, y, f):
        return -stats.poisson.logpmf(y, self.mean(f))

    def gradient(self, y, f):
        return (1.0 - y / self.mean(f)) * expit(f)

    def mean(self, f):
        return np.logaddexp(0.0, np.maximum(f, -30.0))

    def variance(self, f):
        return self.mean(f)

    def sample(self, f, rng):
        return rng.poisson(self.mean(f)).astype(float)


class LevelCounts(Counts):
    """The same, with its level."""

    def base_latent(self, y, weights):
        return np.average(y, weights=weights)


def test_a_users_likelihood_is_not_capped():
    X, y, rate = counts(200.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = PLSRegressor(likelihood=LevelCounts(), n_inducing=20, random_state=0)
        model.fit(X, y)
    assert np.sqrt(model.kernel_.diag(X).max()) > 20.0
    truth = stats.poisson.logpmf(y, rate).mean()
    assert model.log_predictive_density(X, y).mean() > truth - 0.1


def test_a_users_likelihood_is_refused_where_it_is_bounded():
    X, y, _ = counts(1e7, n=60)
    with warnings.catch_warnings(record=True) as record:
        warnings.simplefilter("always")
        model = PLSRegressor(likelihood=Counts(), max_iter=20, **FAST)
        model.fit(X, y)
    about = [one for one in record if "ended at their bounds" in str(one.message)]
    assert [one.filename for one in about] == [__file__]
    assert "log_scale = True" in str(about[0].message)
