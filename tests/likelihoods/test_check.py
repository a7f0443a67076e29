import math

import numpy as np
import pytest
from scipy.special import gammaln

from skgpx._numerics import pointwise
from skgpx.likelihoods import (
    Gamma,
    Gaussian,
    Likelihood,
    NegativeBinomial,
    Poisson,
    StudentT,
    check_likelihood,
)


class Unit(Gaussian):
    """A correct likelihood; each test breaks one thing."""

    def __init__(self, noise_variance=1.0):
        super().__init__(noise_variance)


def broken(name, **changed):
    """A subclass of Unit with these methods or attributes."""
    return type(name, (Unit,), changed)


def mutates(self, y, sample_weight=None):
    self.noise_variance = 2.0
    return Unit.prepare(self, y, sample_weight)


def scaled_without_its_constant(self, factor):
    other = Unit.scaled(self, factor)
    nll, constant = type(self).nll, np.log(factor)
    other.nll = lambda y, f: nll(other, y, f) + constant
    return other


def refuses(self, f, rng):
    raise NotImplementedError("no sampling here")


def derives(self, noise_variance=1.0):
    self.noise_variance, self.precision = noise_variance, 1.0 / noise_variance


def converts(self, noise_variance=1):
    self.noise_variance = np.sqrt(noise_variance)


def forgets(self, noise_variance=1.0, unused=3):
    self.noise_variance = noise_variance


def learns(self, noise_variance=None):
    self.noise_variance = noise_variance


FOREIGN = np.random.default_rng(5)
BROKEN = {
    "gradient is not the derivative of nll: at y = ": {
        "gradient": lambda self, y, f: 2.0 * Unit.gradient(self, y, f)
    },
    "gradient has the wrong sign": {
        "gradient": lambda self, y, f: -Unit.gradient(self, y, f)
    },
    "kernel_code names a compiled formula": {
        "kernel_code": pointwise.STUDENT_T,
        "kernel_parameters": lambda _: StudentT(4.0, 1.0).kernel_parameters(),
    },
    r"curvature is negative \(-1\)": {
        "curvature": lambda self, y, f: -Unit.curvature(self, y, f)
    },
    "curvature is NaN or infinite": {
        "curvature": lambda self, y, f: np.nan * Unit.curvature(self, y, f)
    },
    "shapes: raised TypeError": {"nll": lambda self, y, f: math.exp(y - f)},
    r"nll is not vectorised: expected shape \(60, 3\)": {
        "nll": lambda self, y, f: np.sum(Unit.nll(self, y, f))
    },
    "curvature is not vectorised": {
        "curvature": lambda self, y, f: np.ones(np.shape(y))
    },
    "nll overflows or is NaN at f = 1000": {
        "nll": lambda self, y, f: (
            Unit.nll(self, y, f) + np.log(1.0 + np.exp(f)) - np.logaddexp(0.0, f)
        )
    },
    "prepare accepts NaN in y": {"check_support": lambda self, y: None},
    "prepare changed the parameters of its object": {"prepare": mutates},
    "mean contradicts sample": {"mean": lambda self, f: np.asarray(f) + 0.5},
    "variance contradicts sample": {
        "variance": lambda self, f: 2.0 * Unit.variance(self, f)
    },
    "sample returns shape": {
        "sample": lambda self, f, rng: Unit.sample(self, f, rng)[0]
    },
    "cdf decreases in y": {"cdf": lambda self, y, f: 1.0 - Unit.cdf(self, y, f)},
    r"cdf leaves \[0, 1\]": {"cdf": lambda self, y, f: 1.5 * Unit.cdf(self, y, f)},
    "nll lacks its normalising constant": {
        "nll": lambda self, y, f: 0.5 * np.subtract(y, f) ** 2
    },
    "samples: raised NotImplementedError: no sampling here": {"sample": refuses},
    # right at the variance that is checked first
    "with noise_variance = 2: nll lacks its normalising": {
        "nll": lambda self, y, f: (
            0.5 * np.subtract(y, f) ** 2 / self.noise_variance
            + 0.5 * np.log(2.0 * np.pi)
        ),
        "scaled": scaled_without_its_constant,
    },
    "sample gives different draws for equal states of rng": {
        "sample": lambda self, f, rng: np.add(f, FOREIGN.standard_normal(np.shape(f)))
    },
    "sample ignores rng": {
        "sample": lambda self, f, rng: Unit.sample(self, f, np.random.default_rng(0))
    },
    "symmetric is declared, but at y = ": {"symmetric": True},
    "location_scale is declared, but adding a number": {
        "nll": lambda self, y, f: Unit.nll(self, y, f) + 1e-3 * np.asarray(f) ** 2,
        "gradient": lambda self, y, f: Unit.gradient(self, y, f) + 2e-3 * np.asarray(f),
    },
    "location_scale is declared, but nll": {"scaled": lambda self, c: self._replace()},
    "the constructor sets precision beside its parameters": {"__init__": derives},
    "the constructor must store each parameter under": {"__init__": converts},
    "the constructor must store each parameter": {"__init__": forgets},
    "base_latent gives .* use the weights": {
        "base_latent": lambda self, y, weights: np.mean(y)
    },
    "starting_scales gives .* use the weights": {
        "__init__": learns,
        "starting_scales": lambda self, y, weights: {
            "noise_variance": (np.var(y), 1e-3, 1e3)
        },
    },
    "discrete is declared, but sample draws fractions": {
        "discrete": True,
        "check_support": lambda self, y: None,
        "cdf": Likelihood.cdf,
    },
    "initial_latent must return 60 finite values": {
        "initial_latent": lambda self, y: np.log(np.zeros(np.shape(y)))
    },
}


@pytest.mark.parametrize("message", BROKEN)
def test_each_mistake_is_reported(message):
    with pytest.raises(ValueError, match=message) as caught:
        check_likelihood(broken("Mistaken", **BROKEN[message])())
    assert str(caught.value).startswith("Mistaken breaks the contract")


def test_all_mistakes_are_in_one_message():
    names = ("gradient has the wrong sign", r"curvature is negative \(-1\)")
    several = {k: v for name in names for k, v in BROKEN[name].items()}
    with pytest.raises(ValueError, match="wrong sign") as caught:
        check_likelihood(broken("Several", **several, check_support=lambda *_: None)())
    assert "curvature is negative" in str(caught.value)
    assert "accepts infinity" in str(caught.value)


def test_a_correct_one_passes():
    check_likelihood(Unit())
    check_likelihood(Unit(), y=[0.0, 1.0, 3.0], random_state=3)
    check_likelihood(Exponential())  # without a distribution function
    with pytest.raises(ValueError, match=r"accepts no targets: .*finite y"):
        check_likelihood(Unit(), y=[np.nan])
    for wrong in (Gaussian, "poisson"):
        with pytest.raises(ValueError, match=r"instance of a subclass.* not a class"):
            check_likelihood(wrong)


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


def test_a_missing_constant_is_found_without_a_cdf():
    """Densities that integrate to something else, and no function to ask."""

    def refuses(self, y, f):
        raise NotImplementedError

    def times_two(self, y, f):
        return Exponential.nll(self, y, f) - np.log(2.0)

    def without_factorial(self, y, f):
        return Poisson.nll(self, y, f) - gammaln(np.asarray(y) + 1.0)

    for base, nll in ((Exponential, times_two), (Poisson, without_factorial)):
        wrong = type("Wrong", (base,), {"nll": nll, "cdf": refuses})
        with pytest.raises(ValueError, match="nll lacks its normalising constant"):
            check_likelihood(wrong())


def test_counts_that_are_not_declared_are_recognised():
    """By their draws, and not as a density without its constant."""
    undeclared = type("Undeclared", (NegativeBinomial,), {"discrete": False})
    with pytest.raises(ValueError, match="set discrete = True in the class") as caught:
        check_likelihood(undeclared(shape=2.0))
    assert "normalising" not in str(caught.value)


class Weibull(Likelihood):
    """Waiting times of scale ``exp(f)``; `cap` bounds the exponent, if anything does.

    With a shape of one it does not overflow at f = -1000, with a shape of two it does.
    """

    scale_names = ("shape",)
    log_scale = True
    support = (0.0, np.inf)
    cap = 700.0

    def __init__(self, shape=None):
        self.shape = shape

    def starting_scales(self, y, weights):
        return {"shape": (1.0, 0.1, 10.0)}

    def _ratio(self, y, f):
        """``k log(y / exp(f))``, bounded."""
        limit = min(self.cap, 700.0 / self.shape)
        return self.shape * (np.log(y) - np.clip(f, -limit, limit))

    def nll(self, y, f):
        exponent = self._ratio(y, f)
        return np.exp(exponent) - np.log(self.shape) - exponent + np.log(y)

    def gradient(self, y, f):
        return self.shape * (1.0 - np.exp(self._ratio(y, f)))

    def curvature(self, y, f):
        return self.shape**2 * np.exp(self._ratio(y, f))

    def cdf(self, y, f):
        return -np.expm1(-np.exp(self._ratio(np.maximum(y, 1e-300), f)))

    def mean(self, f):
        return np.exp(f + gammaln(1.0 + 1.0 / self.shape))

    def variance(self, f):
        second = np.exp(2.0 * np.asarray(f) + gammaln(1.0 + 2.0 / self.shape))
        return second - self.mean(f) ** 2

    def sample(self, f, rng):
        return np.exp(f) * rng.weibull(self.shape, np.shape(f))

    def base_latent(self, y, weights):
        return np.log(np.average(y, weights=weights))

    def initial_latent(self, y):
        return np.log(y)

    def check_support(self, y):
        super().check_support(y)
        if np.any(y <= 0.0):
            raise ValueError("Weibull expects positive y.")


def test_overflow_at_another_value_of_a_free_scale():
    check_likelihood(Weibull())

    class Capped(Weibull):
        """Right at a shape of one, where the rows start."""

        def _ratio(self, y, f):
            return self.shape * (np.log(y) - np.clip(f, -600.0, 600.0))

    with pytest.raises(ValueError, match="with shape = 2: nll overflows") as info:
        check_likelihood(Capped())
    assert "\n- nll" not in str(info.value)


def test_closed_forms_of_another_likelihood():
    names = ("_ratio", "nll", "gradient", "curvature", "cdf", "mean", "variance")
    copied = {name: vars(Weibull)[name] for name in (*names, "sample", "cap")}
    derived = type("Copied", (Gamma,), copied)
    with pytest.raises(ValueError, match="predictive_moments contradicts nll"):
        check_likelihood(derived(2.0))
