import math

import numpy as np
import pytest
from scipy.special import gammaln

from skgpx.likelihoods import Gaussian, Likelihood, Poisson, check_likelihood


class Unit(Gaussian):
    """A correct likelihood; each test breaks one thing."""

    def __init__(self, noise_variance=1.0):
        super().__init__(noise_variance)


class WrongGradient(Unit):
    def gradient(self, y, f):
        return 2.0 * super().gradient(y, f)


class WrongSign(Unit):
    def gradient(self, y, f):
        return -super().gradient(y, f)


class NegativeCurvature(Unit):
    def curvature(self, y, f):
        return -super().curvature(y, f)


class UndefinedCurvature(Unit):
    def curvature(self, y, f):
        return np.nan * super().curvature(y, f)


class NotVectorised(Unit):
    def nll(self, y, f):
        return math.exp(y - f)


class ReturnsASum(Unit):
    def nll(self, y, f):
        return np.sum(super().nll(y, f))


class DoesNotBroadcast(Unit):
    def curvature(self, y, f):
        return np.ones(np.shape(y))


class Overflows(Unit):
    def nll(self, y, f):
        return super().nll(y, f) + np.log(1.0 + np.exp(f)) - np.logaddexp(0.0, f)


class AcceptsEverything(Unit):
    def check_support(self, y):
        pass


class Mutates(Unit):
    def prepare(self, y, sample_weight=None):
        self.noise_variance = 2.0
        return super().prepare(y, sample_weight)


class WrongMean(Unit):
    def mean(self, f):
        return np.asarray(f) + 0.5


class WrongVariance(Unit):
    def variance(self, f):
        return 2.0 * super().variance(f)


class WrongSampleShape(Unit):
    def sample(self, f, rng):
        return super().sample(f, rng)[0]


class DecreasingCdf(Unit):
    def cdf(self, y, f):
        return 1.0 - super().cdf(y, f)


class CdfAboveOne(Unit):
    def cdf(self, y, f):
        return 1.5 * super().cdf(y, f)


class NoConstant(Unit):
    def nll(self, y, f):
        return 0.5 * np.subtract(y, f) ** 2


class NoConstantOfScale(Unit):
    """Right at the variance that is checked first, wrong at others."""

    def nll(self, y, f):
        residual = np.subtract(y, f)
        return 0.5 * residual**2 / self.noise_variance + 0.5 * np.log(2.0 * np.pi)

    def scaled(self, factor):
        other = super().scaled(factor)
        constant = np.log(factor)
        other.nll = lambda y, f: type(self).nll(other, y, f) + constant
        return other


class GlobalSample(Unit):
    def sample(self, f, rng):
        return np.add(f, FOREIGN.standard_normal(np.shape(f)))


class FrozenSample(Unit):
    def sample(self, f, rng):
        return super().sample(f, np.random.default_rng(0))


class NotSymmetric(Unit):
    symmetric = True


class NotShiftable(Unit):
    def nll(self, y, f):
        return super().nll(y, f) + 1e-3 * np.asarray(f) ** 2

    def gradient(self, y, f):
        return super().gradient(y, f) + 2e-3 * np.asarray(f)


class NotScalable(Unit):
    def scaled(self, factor):
        return self._replace()


class Derives(Unit):
    def __init__(self, noise_variance=1.0):
        super().__init__(noise_variance)
        self.precision = 1.0 / noise_variance


class Converts(Unit):
    def __init__(self, noise_variance=1):
        super().__init__(np.sqrt(noise_variance))


class Forgets(Unit):
    def __init__(self, noise_variance=1.0, unused=3):
        super().__init__(noise_variance)


class UnweightedBase(Unit):
    def base_latent(self, y, weights):
        return np.mean(y)


class UnweightedStart(Unit):
    def __init__(self, noise_variance=None):
        super().__init__(noise_variance)

    def starting_scales(self, y, weights):
        return {"noise_variance": (np.var(y), 1e-3, 1e3)}


class BadStart(Unit):
    def initial_latent(self, y):
        return np.log(np.zeros(np.shape(y)))


FOREIGN = np.random.default_rng(5)


class NoSample(Unit):
    def sample(self, f, rng):
        raise NotImplementedError("no sampling here")


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (WrongGradient, "gradient is not the derivative of nll: at y = "),
        (WrongSign, "gradient has the wrong sign"),
        (NegativeCurvature, r"curvature is negative \(-1\)"),
        (UndefinedCurvature, "curvature is NaN or infinite"),
        (NotVectorised, "shapes: raised TypeError"),
        (ReturnsASum, r"nll is not vectorised: expected shape \(60, 3\)"),
        (DoesNotBroadcast, "curvature is not vectorised"),
        (Overflows, "nll overflows or is NaN at f = 1000"),
        (AcceptsEverything, "prepare accepts NaN in y"),
        (Mutates, "prepare changed the parameters of its object"),
        (WrongMean, "mean contradicts sample"),
        (WrongVariance, "variance contradicts sample"),
        (WrongSampleShape, "sample returns shape"),
        (DecreasingCdf, "cdf decreases in y"),
        (CdfAboveOne, r"cdf leaves \[0, 1\]"),
        (NoConstant, "nll lacks its normalising constant"),
        (NoSample, "samples: raised NotImplementedError: no sampling here"),
        (NoConstantOfScale, "with noise_variance = 2: nll lacks its normalising"),
        (GlobalSample, "sample gives different draws for equal states of rng"),
        (FrozenSample, "sample ignores rng"),
        (NotSymmetric, "symmetric is declared, but at y = "),
        (NotShiftable, "location_scale is declared, but adding a number"),
        (NotScalable, "location_scale is declared, but nll"),
        (Derives, "the constructor sets precision beside its parameters"),
        (Converts, "the constructor must store each parameter"),
        (Forgets, "the constructor must store each parameter"),
        (UnweightedBase, "base_latent gives .* use the weights"),
        (UnweightedStart, "starting_scales gives .* use the weights"),
        (BadStart, "initial_latent must return 60 finite values"),
    ],
)
def test_each_mistake_is_reported(broken, message):
    with pytest.raises(ValueError, match=message) as caught:
        check_likelihood(broken())
    assert str(caught.value).startswith(f"{broken.__name__} breaks the contract")


def test_all_mistakes_are_in_one_message():
    class Several(WrongSign, NegativeCurvature, AcceptsEverything):
        pass

    with pytest.raises(ValueError, match="wrong sign") as caught:
        check_likelihood(Several())
    assert "curvature is negative" in str(caught.value)
    assert "accepts infinity" in str(caught.value)


def test_a_correct_one_passes():
    check_likelihood(Unit())
    check_likelihood(Unit(), y=[0.0, 1.0, 3.0], random_state=3)


def test_rejected_targets_are_explained():
    with pytest.raises(ValueError, match=r"accepts no targets: .*finite y"):
        check_likelihood(Unit(), y=[np.nan])


class Exponential(Likelihood):
    """The example of the documentation: positive targets with mean exp(f)."""

    def nll(self, y, f):
        return f + y * np.exp(np.clip(-np.asarray(f), -300.0, 300.0))

    def gradient(self, y, f):
        return 1.0 - y * np.exp(np.clip(-np.asarray(f), -300.0, 300.0))

    def mean(self, f):
        return np.exp(f)

    def variance(self, f):
        return np.exp(2.0 * np.asarray(f))

    def sample(self, f, rng):
        return rng.exponential(np.exp(f))

    def check_support(self, y):
        super().check_support(y)
        if np.any(y <= 0.0):
            raise ValueError("Exponential expects positive y.")


def test_a_small_likelihood_without_cdf_passes():
    check_likelihood(Exponential())


class ExponentialWithoutConstant(Exponential):
    """Its density integrates to two; there is no distribution function to ask."""

    def nll(self, y, f):
        return super().nll(y, f) - np.log(2.0)


def test_a_missing_constant_is_found_without_a_cdf():
    with pytest.raises(ValueError, match="nll lacks its normalising constant"):
        check_likelihood(ExponentialWithoutConstant())


class CountsWithoutConstant(Poisson):
    def nll(self, y, f):
        return super().nll(y, f) - gammaln(np.asarray(y) + 1.0)

    def cdf(self, y, f):
        raise NotImplementedError


def test_a_missing_constant_of_counts_is_found_without_a_cdf():
    with pytest.raises(ValueError, match="nll lacks its normalising constant"):
        check_likelihood(CountsWithoutConstant())


def test_what_is_not_an_instance_is_explained():
    for wrong in (Gaussian, "poisson"):
        with pytest.raises(ValueError, match=r"instance of a subclass.* not a class"):
            check_likelihood(wrong)
