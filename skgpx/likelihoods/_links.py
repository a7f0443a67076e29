"""Links: maps from latent values to rates and probabilities."""

from __future__ import annotations

from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfcx, expit, log_ndtr, logit, ndtr, ndtri

from skgpx._numerics import pointwise

Array = NDArray[np.float64]


class RateLink(Protocol):
    """Map from a latent value to the rate of a count."""

    code: ClassVar[int]
    symmetric: ClassVar[bool]
    log_scale: ClassVar[bool]

    def rate(self, f: Array) -> Array:
        """Rate, positive."""

    def log_rate(self, f: Array) -> Array:
        """Logarithm of the rate."""

    def slopes(self, f: Array) -> tuple[Array, Array]:
        """Differentiate the rate and its logarithm in f."""

    def curvature(self, y: Array, f: Array) -> Array:
        """Second derivative of ``rate - y log rate``, or a majorant."""

    def latent(self, rate: Array) -> Array:
        """Latent value with this rate, which is positive."""


class SoftplusRate:
    """``rate = log(1 + exp(f))``."""

    code: ClassVar[int] = pointwise.POISSON_SOFTPLUS
    symmetric: ClassVar[bool] = False
    log_scale: ClassVar[bool] = False

    # Below this f, log(1 + exp(f)) equals exp(f) in double precision.
    _LEFT: ClassVar[float] = -37.0

    def rate(self, f: Array) -> Array:
        """``log(1 + exp(f))``."""
        return np.logaddexp(0.0, f)

    def log_rate(self, f: Array) -> Array:
        """``log log(1 + exp(f))``, which tends to f for f → -∞."""
        return np.where(f < self._LEFT, f, np.log(self.rate(np.maximum(f, self._LEFT))))

    def slopes(self, f: Array) -> tuple[Array, Array]:
        """``s = expit(f)`` and ``s / rate``, which tends to 1 for f → -∞."""
        slope = expit(f)
        rate = self.rate(np.maximum(f, self._LEFT))
        return slope, np.where(f < self._LEFT, 1.0, slope / rate)

    def curvature(self, y: Array, f: Array) -> Array:
        """``s (1 - s) + y q (q - (1 - s))`` with ``q = s / rate``; never negative."""
        slope, ratio = self.slopes(f)
        rest = expit(-f)
        return slope * rest + y * ratio * np.maximum(ratio - rest, 0.0)

    def latent(self, rate: Array) -> Array:
        """``log(exp(rate) - 1)``."""
        return rate + np.log(-np.expm1(-rate))


class ExpRate:
    """``rate = exp(f)``, continued by its tangent where ``f > 300``.

    The tangent keeps rates, gradients and their squares finite.
    """

    code: ClassVar[int] = pointwise.POISSON_EXP
    symmetric: ClassVar[bool] = False
    log_scale: ClassVar[bool] = True

    def rate(self, f: Array) -> Array:
        """``exp(f)``."""
        cap = pointwise.EXPONENT_CAP
        return np.exp(np.minimum(f, cap)) * (1.0 + np.maximum(f - cap, 0.0))

    def log_rate(self, f: Array) -> Array:
        """Return the latent value itself."""
        return f

    def slopes(self, f: Array) -> tuple[Array, Array]:
        """``exp(f)`` and 1."""
        return np.exp(np.minimum(f, pointwise.EXPONENT_CAP)), np.ones_like(f)

    def curvature(self, y: Array, f: Array) -> Array:
        """``exp(f)``."""
        slope, _ = self.slopes(f)
        return slope + np.zeros(np.shape(y))

    def latent(self, rate: Array) -> Array:
        """``log(rate)``."""
        return np.log(rate)


class SquareRate:
    """``rate = f^2 + 1e-8``: f and -f give the same law; finite gradients at 0."""

    code: ClassVar[int] = pointwise.POISSON_SQUARE
    symmetric: ClassVar[bool] = True
    log_scale: ClassVar[bool] = False

    def rate(self, f: Array) -> Array:
        """``f^2 + 1e-8``."""
        return f**2 + pointwise.SQUARE_FLOOR

    def log_rate(self, f: Array) -> Array:
        """``log(f^2 + 1e-8)``."""
        return np.log(self.rate(f))

    def slopes(self, f: Array) -> tuple[Array, Array]:
        """``2 f`` and ``2 f / (f^2 + 1e-8)``."""
        return 2.0 * f, 2.0 * f / self.rate(f)

    def curvature(self, y: Array, f: Array) -> Array:
        """``2 + 2 y (f^2 - 1e-8) / rate^2`` where that is positive, else 2."""
        exact = 2.0 + 2.0 * y * (f**2 - pointwise.SQUARE_FLOOR) / self.rate(f) ** 2
        return np.where(exact > 0.0, exact, 2.0)

    def latent(self, rate: Array) -> Array:
        """``sqrt(rate)``, the positive of two solutions."""
        return np.sqrt(rate)


class ProbabilityLink(Protocol):
    """Map from a latent value to the probability of success."""

    code: ClassVar[int]

    def probability(self, f: Array) -> Array:
        """``P(y = 1 | f)``; at -f it is ``P(y = 0 | f)``."""

    def latent(self, probability: Array) -> Array:
        """Latent value with this probability, strictly between 0 and 1."""

    def log_probability(self, f: Array) -> Array:
        """Logarithm of the probability, finite even where that underflows."""

    def log_slope(self, f: Array) -> Array:
        """Differentiate the logarithm; positive."""

    def log_curvature(self, f: Array) -> Array:
        """Minus the second derivative of the logarithm, between 0 and 1."""


class LogitProbability:
    """``P(y = 1) = 1 / (1 + exp(-f))``."""

    code: ClassVar[int] = pointwise.BERNOULLI_LOGIT

    def probability(self, f: Array) -> Array:
        """``expit(f)``."""
        return np.asarray(expit(f))

    def latent(self, probability: Array) -> Array:
        """``log(p / (1 - p))``."""
        return np.asarray(logit(probability))

    def log_probability(self, f: Array) -> Array:
        """``-log(1 + exp(-f))``."""
        return -np.logaddexp(0.0, -f)

    def log_slope(self, f: Array) -> Array:
        """``expit(-f)``."""
        return np.asarray(expit(-f))

    def log_curvature(self, f: Array) -> Array:
        """``expit(f) expit(-f)``."""
        return np.asarray(expit(f) * expit(-f))


class ProbitProbability:
    """``P(y = 1) = Phi(f)``, the normal distribution function."""

    code: ClassVar[int] = pointwise.BERNOULLI_PROBIT

    def probability(self, f: Array) -> Array:
        """``Phi(f)``."""
        return np.asarray(ndtr(f))

    def latent(self, probability: Array) -> Array:
        """Return the normal quantile."""
        return np.asarray(ndtri(probability))

    def log_probability(self, f: Array) -> Array:
        """``log Phi(f)``."""
        return np.asarray(log_ndtr(f))

    def log_slope(self, f: Array) -> Array:
        """``phi(f) / Phi(f)``, by the scaled complementary error function."""
        return np.sqrt(2.0 / np.pi) / erfcx(-f / np.sqrt(2.0))

    def log_curvature(self, f: Array) -> Array:
        """``h (h + f)`` with h the slope; ``1 - 1 / f^2`` for very negative f."""
        slope = self.log_slope(f)
        far = 1.0 - 1.0 / np.maximum(f**2, 1.0)
        return np.clip(np.where(f < -1e4, far, slope * (slope + f)), 0.0, 1.0)


RATE_LINKS: dict[str, RateLink] = {
    "softplus": SoftplusRate(),
    "exp": ExpRate(),
    "square": SquareRate(),
}

PROBABILITY_LINKS: dict[str, ProbabilityLink] = {
    "logit": LogitProbability(),
    "probit": ProbitProbability(),
}
