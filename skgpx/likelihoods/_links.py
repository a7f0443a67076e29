"""Links: maps from a latent value to a positive rate or to a probability."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy.special import erfcx, expit, log_ndtr, logit, logsumexp, ndtr, ndtri

from skgpx._numerics import pointwise
from skgpx._numerics.mixture import LatentMixture
from skgpx._types import Array, ArrayLike, Generator
from skgpx.likelihoods._base import Likelihood, doubles

# ---- Rates ---------------------------------------------------------------------------


class SoftplusRate:
    """``rate = log(1 + exp(f))``."""

    code = pointwise.POISSON_SOFTPLUS
    symmetric = False
    log_scale = False

    def rate(self, f: Array) -> Array:
        """``log(1 + exp(f))``."""
        return np.maximum(f, 0.0) + np.log1p(np.exp(-np.abs(f)))

    def log_rate(self, f: Array) -> Array:
        """``log log(1 + exp(f))``, which tends to f for f → -∞."""
        log_rate = np.log(self.rate(np.maximum(f, -37.0)))
        # below, log(1 + exp(f)) equals exp(f) in double precision
        return np.where(f < -37.0, f, log_rate)

    def slopes(self, f: Array) -> tuple[Array, Array]:
        """``s = expit(f)`` and ``s / rate``, which tends to 1 for f → -∞."""
        slope = expit(f)
        rate = self.rate(np.maximum(f, -37.0))
        return slope, np.where(f < -37.0, 1.0, slope / rate)

    def curvature(self, y: Array, f: Array) -> Array:
        """``s (1 - s) + y q (q - (1 - s))`` with ``q = s / rate``; never negative."""
        slope, ratio = self.slopes(f)
        complement = expit(-f)
        excess = np.maximum(ratio - complement, 0.0)
        return slope * complement + y * ratio * excess

    def latent(self, rate: Array) -> Array:
        """``log(exp(rate) - 1)``."""
        return rate + np.log(-np.expm1(-rate))


class ExpRate:
    """``rate = exp(f)``, continued by its tangent where ``f > 300``.

    The tangent keeps rates, gradients and their squares finite.
    """

    code = pointwise.POISSON_EXP
    symmetric = False
    log_scale = True

    def rate(self, f: Array) -> Array:
        """``exp(f)``."""
        cap = pointwise.EXPONENT_CAP
        beyond = np.maximum(f - cap, 0.0)
        return np.exp(np.minimum(f, cap)) * (1.0 + beyond)

    def log_rate(self, f: Array) -> Array:
        """Return the latent value itself."""
        return f

    def slopes(self, f: Array) -> tuple[Array, Array]:
        """``exp(f)`` and 1."""
        slope = np.exp(np.minimum(f, pointwise.EXPONENT_CAP))
        return slope, np.ones_like(f)

    def curvature(self, y: Array, f: Array) -> Array:
        """``exp(f)``."""
        slope, _ = self.slopes(f)
        return slope + np.zeros(np.shape(y))

    def latent(self, rate: Array) -> Array:
        """``log(rate)``."""
        return np.log(rate)

    def centred(self, base: Array, variance: float) -> Array:
        """Mean of f under which the rate is ``exp(base)``, as far as it may move.

        Exponentials expect ``exp(mean + variance / 2)``. The mean moves by at most one
        standard deviation s, which suffices up to s = 2. Beyond, the expectation is in
        the far tail of the log-normal distribution, and a mean that corrects it is too
        low for nearly every function that the prior draws, between the rows too.
        """
        std = float(np.sqrt(variance))
        return base - min(0.5 * variance, std)

    def moments(
        self,
        mixture: LatentMixture,
        exposure: ArrayLike = 1.0,
    ) -> tuple[Array, Array]:
        """Mean and variance of ``exposure rate`` (n,), a mixture of log-normals.

        In closed form: where f is wide, the variance lies beyond the range of any rule
        for its distribution, ``2 std²`` above the mean. At most 1e290 for the rate.
        """
        m = mixture.mean[:, 0]
        v = mixture.variance[:, 0]
        # E exp(f) = exp(m + v / 2), Var exp(f) = (E exp(f))² (exp(v) - 1)
        means = self.rate(m + 0.5 * v)
        with np.errstate(over="ignore"):
            within = means**2 * np.expm1(np.minimum(v, 700.0))
        within = np.minimum(within, 1e290)
        # the law of total variance over the components
        mean = means @ mixture.weights
        between = (means - mean[:, np.newaxis]) ** 2
        variance = (within + between) @ mixture.weights
        variance = np.minimum(variance, 1e290)
        exposures = np.ravel(exposure)
        return exposures * mean, exposures**2 * variance


class SquareRate:
    """``rate = f^2 + 1e-8``: f and -f are equally likely; finite gradients at 0."""

    code = pointwise.POISSON_SQUARE
    symmetric = True
    log_scale = False

    def rate(self, f: Array) -> Array:
        """``f^2 + 1e-8``."""
        return f**2 + pointwise.SQUARE_FLOOR

    def log_rate(self, f: Array) -> Array:
        """``log(f^2 + 1e-8)``."""
        return np.log(self.rate(f))

    def slopes(self, f: Array) -> tuple[Array, Array]:
        """``2 f`` and ``2 f / (f^2 + 1e-8)``."""
        slope = 2.0 * f
        return slope, slope / self.rate(f)

    def curvature(self, y: Array, f: Array) -> Array:
        """``2 + 2 y (f^2 - 1e-8) / rate^2`` where that is positive, else 2."""
        excess = f**2 - pointwise.SQUARE_FLOOR
        squared_rate = self.rate(f) ** 2
        second = 2.0 + 2.0 * y * excess / squared_rate
        return np.where(second > 0.0, second, 2.0)

    def latent(self, rate: Array) -> Array:
        """``sqrt(rate)``, the positive of two solutions."""
        return np.sqrt(rate)


RATE_LINKS: dict[str, Any] = {
    "softplus": SoftplusRate(),
    "exp": ExpRate(),
    "square": SquareRate(),
}


def draw_counts(rate: Array, rng: Generator) -> Array:
    """Poisson counts, as floats."""
    # NumPy draws counts as 64-bit integers
    rate = np.minimum(rate, 9e18)
    return doubles(rng.poisson(rate))


# ---- Probabilities -------------------------------------------------------------------


class LogitProbability:
    """``P(y = 1) = 1 / (1 + exp(-f))``."""

    code = pointwise.BERNOULLI_LOGIT

    def probability(self, f: Array) -> Array:
        """``expit(f)``."""
        return expit(f)

    def latent(self, probability: Array) -> Array:
        """``log(p / (1 - p))``."""
        return logit(probability)

    def log_probability(self, f: Array) -> Array:
        """``-log(1 + exp(-f))``."""
        return -np.logaddexp(0.0, -f)

    def log_slope(self, f: Array) -> Array:
        """``expit(-f)``."""
        return expit(-f)

    def log_curvature(self, f: Array) -> Array:
        """``expit(f) expit(-f)``."""
        return expit(f) * expit(-f)


class ProbitProbability:
    """``P(y = 1) = Phi(f)``, the normal distribution function."""

    code = pointwise.BERNOULLI_PROBIT

    def probability(self, f: Array) -> Array:
        """``Phi(f)``."""
        return ndtr(f)

    def latent(self, probability: Array) -> Array:
        """Return the normal quantile."""
        return ndtri(probability)

    def log_probability(self, f: Array) -> Array:
        """``log Phi(f)``."""
        return log_ndtr(f)

    def log_slope(self, f: Array) -> Array:
        """``phi(f) / Phi(f)``, by the scaled complementary error function."""
        scaled_tail = erfcx(-f / np.sqrt(2.0))
        return np.sqrt(2.0 / np.pi) / scaled_tail

    def log_curvature(self, f: Array) -> Array:
        """``h (h + f)`` with h the slope; ``1 - 1 / f^2`` for very negative f."""
        slope = self.log_slope(f)
        curvature = slope * (slope + f)
        asymptote = 1.0 - 1.0 / np.maximum(f**2, 1.0)
        curvature = np.where(f < -1e4, asymptote, curvature)
        return np.clip(curvature, 0.0, 1.0)


def log_probability_above_zero(mean: Array, variance: Array, weights: Array) -> Array:
    """``log Σⱼ wⱼ Φ(mⱼ / √vⱼ)`` of normal mixtures with means m (n, j), shape (n,)."""
    z = mean / np.sqrt(variance)
    return logsumexp(log_ndtr(z), axis=1, b=weights)


PROBABILITY_LINKS: dict[str, Any] = {
    "logit": LogitProbability(),
    "probit": ProbitProbability(),
}


class Linked(Likelihood):
    """A likelihood with a parameter `link`, the name of one of the class's links."""

    _links: ClassVar[dict[str, Any]]
    link: str

    def check_parameters(self) -> None:
        """Raise a ValueError unless the link is known."""
        self._link()

    def _link(self) -> Any:
        if not (isinstance(self.link, str) and self.link in self._links):
            name = type(self).__name__
            names = sorted(self._links)
            raise ValueError(f"{name} expects link in {names}; got {self.link!r}.")
        return self._links[self.link]
