import math

import numpy as np
import pytest

from skgpx.likelihoods import Gaussian, Likelihood, check_likelihood


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
