"""Counts and amounts with a mean that is the exponential of the latent value."""

from __future__ import annotations

from typing import ClassVar, Self

import numpy as np
from scipy.special import betainc, betaln, expit, gammainc, gammaln

from skgpx._numerics.mixture import LatentMixture
from skgpx._types import Array, ArrayLike, Generator
from skgpx.likelihoods._base import Likelihood, Scales, check_integers, doubles
from skgpx.likelihoods._links import ExpRate, draw_counts

_LINK = ExpRate()


class LogRate(Likelihood):
    """Counts or amounts with mean ``e exp(f)`` and a shape, e the exposure of the row.

    A subclass writes `nll`, `gradient`, `curvature`, `cdf` and `sample`.
    """

    log_scale = True
    support: ClassVar[tuple[float, float]] = (0.0, np.inf)
    row_quantity: ClassVar[str | None] = "exposure"
    scale_names: ClassVar[tuple[str, ...]] = ("shape",)

    def __init__(self, shape: float | None = None) -> None:
        self.shape = shape

    def mean(self, f: ArrayLike) -> Array:
        """``μ = e exp(f)``."""
        rate = _LINK.rate(doubles(f))
        return self.known_ * rate

    def variance(self, f: ArrayLike) -> Array:
        """``μ²/shape``; for counts ``μ + μ²/shape``."""
        mean = self.mean(f)
        excess = mean**2 / self._scale("shape")
        return self.discrete * mean + excess

    def base_latent(self, y: Array, weights: Array) -> float:
        """Logarithm of ``Σ y / Σ e``, with half a count added to a sum of counts."""
        exposures = np.ravel(self.known_)
        total = weights @ y + 0.5 * self.discrete
        rate = total / np.sum(weights * exposures)
        return float(np.log(rate))

    def initial_latent(self, y: ArrayLike) -> Array:
        """``log(y / e)``; for counts as for `Poisson`, with half a count added."""
        added_count = 0.5 * self.discrete
        added_exposure = added_count * np.exp(-self._base(1))
        exposure = np.ravel(self.known_) + added_exposure
        rate = (doubles(y) + added_count) / exposure
        return np.log(rate.reshape(np.shape(y)))

    def centred(self, variance: float) -> Self:
        """Copy with a prior that expects the base rate, as far as its base may move."""
        return self.with_base(_LINK.centred(self.base_latent_, variance))

    def starting_scales(self, y: Array, weights: Array) -> Scales:
        """Shape that explains the variance of y around one rate."""
        rate = np.exp(self.base_latent(y, weights))
        mean = np.ravel(self.known_) * rate
        # Σ (y - μ)² = Σ μ²/shape, for counts plus Σ μ
        squared_means = np.ones(len(y)) * mean**2
        excesses = (y - mean) ** 2 - self.discrete * mean
        total_excess = max(float(weights @ excesses), 1e-300)
        shape = weights @ squared_means / total_excess
        start = float(np.clip(shape, 0.1, 100.0))
        return {"shape": (start, 1e-2, 1e6)}

    def predictive_moments(self, mixture: LatentMixture) -> tuple[Array, Array]:
        """``E μ``, and ``Var μ + E μ²/shape``, for counts plus ``E μ``; closed form."""
        mean, variance = self._moments_of_mean(mixture)
        mean_square = variance + mean**2
        noise = self.discrete * mean + mean_square / self._scale("shape")
        return mean, variance + noise

    def _moments_of_mean(self, mixture: LatentMixture) -> tuple[Array, Array]:
        """Mean and variance of μ, (n,), in closed form."""
        return _LINK.moments(mixture, self.known_)

    def _log_ratio(self, scale: ArrayLike, f: ArrayLike) -> Array:
        """``log(μ / scale)``."""
        log_mean = np.add(f, np.log(self.known_))
        return log_mean - np.log(doubles(scale))


class NegativeBinomial(LogRate):
    """Counts that vary more than Poisson ones, of mean ``exp(f)``.

    ``Var[y | f] = μ + μ² / shape`` with ``μ = exp(f)``: Poisson counts of a rate with a
    gamma distribution.

    Parameters
    ----------
    shape : float, default=None
        Shape of that gamma distribution; large shapes approach Poisson counts. None
        estimates it.

    Notes
    -----
    Rows may have an *exposure* e, the time or the area over which they were counted;
    then ``μ = e exp(f)``. The density is log-concave in f.

    Examples
    --------
    >>> from skgpx.likelihoods import NegativeBinomial
    >>> NegativeBinomial(shape=2.0).variance([0.0, 1.0]).round(3)
    array([1.5  , 6.413])
    """

    discrete = True

    def nll(self, y: ArrayLike, f: ArrayLike) -> Array:
        """``a log(1 + μ/a) + y log(1 + a/μ) + log B(a, y + 1) + log(a + y)``."""
        y = doubles(y)
        a = self._scale("shape")
        t = self._log_ratio(a, f)
        # -log of the probabilities a / (a + μ) and μ / (a + μ)
        failure_nll = np.logaddexp(0.0, t)
        success_nll = np.logaddexp(0.0, -t)
        terms = a * failure_nll + y * success_nll
        return terms + betaln(a, y + 1.0) + np.log(a + y)

    def gradient(self, y: ArrayLike, f: ArrayLike) -> Array:
        """``a (μ - y) / (a + μ)``."""
        y = doubles(y)
        a = self._scale("shape")
        t = self._log_ratio(a, f)
        return a * expit(t) - y * expit(-t)

    def curvature(self, y: ArrayLike, f: ArrayLike) -> Array:
        """``(a + y) a μ / (a + μ)²``, the second derivative."""
        y = doubles(y)
        a = self._scale("shape")
        t = self._log_ratio(a, f)
        return (a + y) * expit(t) * expit(-t)

    def cdf(self, y: ArrayLike, f: ArrayLike) -> Array:
        """``I(a, floor(y) + 1)`` at ``a / (a + μ)``, the incomplete beta function."""
        count = np.floor(doubles(y))
        a = self._scale("shape")
        ratio = expit(-self._log_ratio(a, f))
        safe_count = np.maximum(count, 0.0)
        probability = betainc(a, safe_count + 1.0, ratio)
        return np.where(count < 0.0, 0.0, probability)

    def sample(self, f: ArrayLike, rng: Generator) -> Array:
        """Draw Poisson counts of gamma rates, as floats."""
        a = self._scale("shape")
        rate = rng.gamma(a, self.mean(f) / a)
        return draw_counts(rate, rng)

    def check_support(self, y: Array) -> None:
        """Raise a ValueError unless every y is a count."""
        super().check_support(y)
        remedy = "Use Gamma or LogNormal for positive real targets."
        check_integers(self, y, "0, 1, 2, ...", remedy)


class Gamma(LogRate):
    """Positive amounts, of mean ``exp(f)`` and a constant coefficient of variation.

    ``Var[y | f] = μ² / shape`` with ``μ = exp(f)``.

    Parameters
    ----------
    shape : float, default=None
        Shape of the gamma distribution; 1 is the exponential distribution. None
        estimates it.

    Notes
    -----
    Rows may have an *exposure* e; then ``μ = e exp(f)``. The density is log-concave in
    f.

    Examples
    --------
    >>> from skgpx.likelihoods import Gamma
    >>> Gamma(shape=4.0).cdf(1.0, [0.0, 1.0]).round(3)
    array([0.567, 0.062])
    """

    def nll(self, y: ArrayLike, f: ArrayLike) -> Array:
        """``a (y/μ - log(y/μ)) + log y + log Γ(a) - a log a``."""
        y = doubles(y)
        a = self._scale("shape")
        # the log ratio of y and μ
        t = -self._log_ratio(y, f)
        deviance = a * (_LINK.rate(t) - t)
        return deviance + np.log(y) + gammaln(a) - a * np.log(a)

    def gradient(self, y: ArrayLike, f: ArrayLike) -> Array:
        """``a (1 - y/μ)``."""
        return self._scale("shape") - self.curvature(y, f)

    def curvature(self, y: ArrayLike, f: ArrayLike) -> Array:
        """``a y/μ``, the second derivative."""
        ratio, _ = _LINK.slopes(-self._log_ratio(y, f))
        return self._scale("shape") * ratio

    def cdf(self, y: ArrayLike, f: ArrayLike) -> Array:
        """``P(a, a y/μ)``, the regularised lower incomplete gamma function."""
        y = doubles(y)
        a = self._scale("shape")
        positive = np.maximum(y, np.finfo(np.float64).tiny)
        ratio = _LINK.rate(-self._log_ratio(positive, f))
        return np.where(y <= 0.0, 0.0, gammainc(a, a * ratio))

    def sample(self, f: ArrayLike, rng: Generator) -> Array:
        """Draw amounts."""
        a = self._scale("shape")
        return rng.gamma(a, self.mean(f) / a)

    def check_support(self, y: Array) -> None:
        """Raise a ValueError unless every y is positive."""
        super().check_support(y)
        check_positive(self, y)


def check_positive(likelihood: Likelihood, y: Array) -> None:
    """Raise a ValueError unless every y is positive."""
    invalid = y[y <= 0.0]
    if not invalid.size:
        return
    remedy = "use Gaussian or StudentT for targets of both signs."
    if np.all(invalid == 0.0):
        remedy = (
            "take zeros for values at or below a limit: Tobit() with"
            " fit(X, y, censoring=-(y == 0).astype(float))."
        )
    name = type(likelihood).__name__
    raise ValueError(
        f"{name} expects positive y; got {invalid.size} values of zero or less, for "
        f"example {invalid[0]:g}. Remove these rows, or {remedy}"
    )
