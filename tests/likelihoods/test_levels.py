"""The level of a latent function that its targets suggest."""

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import softmax

from skgpx import PLSRegressor
from skgpx.likelihoods import (
    Bernoulli,
    Categorical,
    Gaussian,
    Likelihood,
    Poisson,
    ShiftedMixture,
    StudentT,
)

COUNTS = np.array([3.0, 0.0, 5.0, 12.0, 7.0, 1.0])
BINARY = np.array([0.0, 0.0, 1.0, 0.0, 0.0])
ONE_OUTPUT = [
    (Poisson("softplus"), COUNTS),
    (Poisson("exp"), COUNTS),
    (Poisson("square"), COUNTS),
    (Bernoulli("logit"), BINARY),
    (Bernoulli("probit"), BINARY),
]
one_output = pytest.mark.parametrize(("likelihood", "y"), ONE_OUTPUT, ids=repr)


def rate_of(y):
    """Mean with half a count, or half a row of each class, added."""
    if set(y) <= {0.0, 1.0}:
        return (y.sum() + 0.5) / (len(y) + 1.0)
    return (y.sum() + 0.5) / len(y)


@one_output
def test_base_is_the_link_of_the_mean(likelihood, y):
    prepared = likelihood.prepare(y)
    assert prepared.base_latent_.shape == (1,)
    np.testing.assert_allclose(prepared.mean(prepared.base_latent_), rate_of(y))


def test_base_of_classes_is_their_frequency():
    y = np.array([0.0, 1.0, 1.0, 1.0, 2.0, 2.0])
    base = Categorical().prepare(y).base_latent_
    np.testing.assert_allclose(softmax(base), np.array([1.5, 3.5, 2.5]) / 7.5)
    assert abs(base.sum()) < 1e-12
    two = Categorical().prepare(BINARY).base_latent_
    assert two[1] - two[0] == pytest.approx(Bernoulli().prepare(BINARY).base_latent_[0])


@pytest.mark.parametrize("link", ["softplus", "exp", "square"])
def test_rough_latent_values_stay_when_the_base_moves(link):
    # a search that starts where the square link has its saddle would not leave it
    prepared = Poisson(link).prepare(COUNTS)
    rough = prepared.initial_latent(COUNTS)
    np.testing.assert_array_equal(prepared.with_base(0.0).initial_latent(COUNTS), rough)
    np.testing.assert_array_equal(prepared.centred(9.0).initial_latent(COUNTS), rough)
    assert np.all(prepared.mean(rough) > 0.4)


# ---- The mean that a prior expects ---------------------------------------------------


@one_output
@pytest.mark.parametrize("variance", [1e-4, 0.3, 4.0])
def test_the_prior_expects_the_mean_of_the_targets(likelihood, y, variance):
    prepared = likelihood.prepare(y)
    base = float(prepared.centred(variance).base_latent_[0])
    distribution = stats.norm(base, np.sqrt(variance))
    ends = base - 12.0 * distribution.std(), base + 12.0 * distribution.std()
    expected, _ = integrate.quad(
        lambda f: float(likelihood.mean(f)) * distribution.pdf(f), *ends, limit=200
    )
    assert expected == pytest.approx(rate_of(y), rel=1e-4)


def test_squares_larger_than_the_rate_have_base_zero():
    prepared = Poisson("square").prepare(COUNTS)
    assert prepared.centred(4.0).base_latent_[0] > 0.0
    np.testing.assert_array_equal(prepared.centred(6.0).base_latent_, [0.0])


@pytest.mark.parametrize("variance", [0.2, 36.0, 999.0, 1e3, 1001.0, 1e6])
def test_the_prior_expects_the_frequencies(variance):
    rng = np.random.default_rng(0)
    y = rng.choice(10, 300, p=np.arange(1.0, 11.0) / 55.0).astype(float)
    prepared = Categorical().prepare(y)
    base = prepared.centred(variance).base_latent_
    f = base[:, np.newaxis] + np.sqrt(variance) * rng.standard_normal((10, 100_000))
    p = softmax(f, axis=0)
    error = p.std(axis=1) / np.sqrt(p.shape[1])
    gap = np.abs(p.mean(axis=1) - softmax(prepared.base_latent_))
    # and the error of the rule of points
    assert np.all(gap < 4.5 * error + 0.005)


def test_location_and_scale_need_no_correction():
    for likelihood in (Gaussian(), StudentT(), ShiftedMixture(2.0)):
        prepared = likelihood.prepare(COUNTS)
        assert prepared.centred(3.0) is prepared
        np.testing.assert_array_equal(prepared.base_latent_, [0.0])


def test_a_users_link_is_corrected_if_it_has_a_level():
    # rates that overflow within a few standard deviations
    rates = {"mean": lambda self, f: np.exp(f), "variance": lambda self, f: np.exp(f)}
    level = {"base_latent": lambda self, y, weights: np.log(np.mean(y))}
    silent = type("Silent", (Likelihood,), rates)().prepare(COUNTS)
    said = type("Said", (Likelihood,), rates | level)().prepare(COUNTS)
    assert silent.centred(4.0) is silent
    shift = said.centred(4.0).base_latent_ - said.base_latent_
    np.testing.assert_allclose(shift, -2.0, atol=1e-4)


# ---- What a likelihood of the user's declares ----------------------------------------


class Noise(Likelihood):
    """Normal noise whose standard deviation is learned."""

    location_scale = True
    scale_names = ("sd",)

    def __init__(self, sd=None):
        self.sd = sd

    def nll(self, y, f):
        z = np.subtract(y, f) / self.sd
        return 0.5 * z**2 + np.log(self.sd) + 0.5 * np.log(2.0 * np.pi)

    def gradient(self, y, f):
        return np.subtract(f, y) / self.sd**2

    def mean(self, f):
        return np.asarray(f, dtype=np.float64)

    def variance(self, f):
        return np.full(np.shape(f), self.sd**2)

    def sample(self, f, rng):
        return rng.normal(f, self.sd)

    def scaled(self, factor):
        return self.rescaled(sd=factor)


def test_a_scale_that_is_none_is_learned():
    prepared = Noise().prepare([0.0, 1.0])
    assert prepared.free_ == ("sd",)
    assert prepared.sd == 1.0
    np.testing.assert_allclose(prepared.theta_bounds, np.log([[1e-4, 1e4]]))
    assert Noise(0.3).prepare([0.0, 1.0]).free_ == ()
    np.testing.assert_allclose(prepared.scaled(3.0).theta, np.log(3.0))
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (120, 1))
    y = 50.0 * (np.sin(2.0 * X[:, 0]) + 0.1 * rng.standard_normal(120))
    how = {"n_inducing": 12, "hyperparameters": "maximise", "random_state": 0}
    ours = PLSRegressor(likelihood=Noise(), **how).fit(X, y).likelihood_.sd
    theirs = PLSRegressor(likelihood=Gaussian(), **how).fit(X, y).noise_variance_
    assert ours == pytest.approx(5.0, rel=0.3)
    assert ours == pytest.approx(np.sqrt(theirs), rel=0.05)


def test_wrong_starts_and_bases_are_explained():
    two = (1.0, 2.0, 3.0), (1.0, 0.0, 3.0)
    starts = [{}, {"sd": 1.0}, {"sd": two[0]}, {"sd": two[1]}, {"other": 1}]
    bases = [np.nan, [0.0, 1.0], np.zeros((1, 1))]
    for method, values in (("starting_scales", starts), ("base_latent", bases)):
        for value in values:
            wrong = type("Wrong", (Noise,), {method: lambda self, *_, v=value: v})
            with pytest.raises(ValueError, match=f"{method} of Wrong must"):
                wrong().prepare([0.0, 1.0])
