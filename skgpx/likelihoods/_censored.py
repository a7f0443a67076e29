"""Normal and log-normal targets, of which y may be a lower or an upper bound."""

from __future__ import annotations

from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from skgpx._numerics.mixture import LatentMixture
from skgpx._types import Array
from skgpx.likelihoods._base import Likelihood, Scales, doubles, residuals
from skgpx.likelihoods._gaussian import Gaussian
from skgpx.likelihoods._links import (
    ExpRate,
    ProbitProbability,
    log_probability_above_zero,
)
from skgpx.likelihoods._log_rates import check_positive
from skgpx.likelihoods._noise import NormalNoise, variance_start

_PROBIT = ProbitProbability()
_LOG = ExpRate()


class Tobit(NormalNoise):
    """Normal noise; in censored rows y is a bound of the true value.

    The true value is ``f + scale * e`` with ``e ~ N(0, 1)``; in a censored row y is a
    lower or an upper bound of it.

    Parameters
    ----------
    scale : float, default=None
        Standard deviation of the noise in units of y; None estimates it.

    Notes
    -----
    The `censoring` of a row is 1 where y is a lower bound (right-censored), -1 where it
    is an upper bound (left-censored), 0 where it is the value: ``fit(X, y,
    censoring=flags)``. Without it all rows are observed, as under `Gaussian`. For an
    instrument that reads between two limits they are ``(y >= high) * 1 - (y <= low)``.
    Predictions are of the true value. The density is log-concave in f. Without censored
    rows `PLSRegressor` fits them as `Gaussian` ones, in closed form.

    Examples
    --------
    >>> import numpy as np
    >>> from skgpx.likelihoods import Tobit
    >>> Tobit(scale=1.0).at_rows(np.array([0.0, 1.0])).nll(0.0, [[0.0], [0.0]]).ravel()
    array([0.91893853, 0.69314718])
    """

    has_residuals = False
    close_to_gaussian = True
    row_quantity: ClassVar[str | None] = "censoring"
    scale_names: ClassVar[tuple[str, ...]] = ("scale",)
    known_: Array | float = 0.0

    def __init__(self, scale: float | None = None) -> None:
        self.scale = scale

    def nll(self, y: ArrayLike, f: ArrayLike) -> Array:
        """``-log N(y | f, scale²)``; ``-log Φ(±(f - y) / scale)`` of bounds."""
        exact = self._normal().nll(y, f)
        bound = -_PROBIT.log_probability(self._distance(y, f))
        return np.where(self.known_ == 0.0, exact, bound)

    def gradient(self, y: ArrayLike, f: ArrayLike) -> Array:
        """``(f - y) / scale²``; ``∓(log Φ)' / scale`` of bounds."""
        exact = self._normal().gradient(y, f)
        slope = _PROBIT.log_slope(self._distance(y, f)) / self._scale("scale")
        bound = -self.known_ * slope
        return np.where(self.known_ == 0.0, exact, bound)

    def curvature(self, y: ArrayLike, f: ArrayLike) -> Array:
        """Return the second derivative, at most ``1 / scale²``."""
        exact = self._normal().curvature(y, f)
        variance = self._scale("scale") ** 2
        bound = _PROBIT.log_curvature(self._distance(y, f)) / variance
        return np.where(self.known_ == 0.0, exact, bound)

    def mean(self, f: ArrayLike) -> Array:
        """Return the latent value itself."""
        return doubles(f)

    def variance(self, f: ArrayLike) -> Array:
        """``scale²``."""
        return self._normal().variance(f)

    def cdf(self, y: ArrayLike, f: ArrayLike) -> Array:
        """``Φ((y - f) / scale)``, of the true value."""
        return self._normal().cdf(y, f)

    def sample(self, f: ArrayLike, rng: np.random.Generator) -> Array:
        """Draw true values from ``N(f, scale²)``."""
        return self._normal().sample(f, rng)

    def scaled(self, factor: float) -> Self:
        """Copy with the scale times ``factor``."""
        return self.rescaled(scale=factor)

    def base_latent(self, y: Array, weights: Array) -> float:
        """Mean of the true values, with the expected value beyond each bound."""
        start, _, _ = self.starting_scales(y, weights)["scale"]
        # the start is a tenth of the variance of y
        std = 10.0**0.5 * start
        flag = np.ravel(self.known_)
        mean = np.average(y, weights=weights)
        # the EM algorithm for the mean: E[true value | beyond y] = m ± s φ(z) / Φ(z)
        for _ in range(50):
            z = flag * (mean - y) / std
            expected = mean + flag * std * _PROBIT.log_slope(z)
            values = np.where(flag == 0.0, y, expected)
            mean = np.average(values, weights=weights)
        return float(mean)

    def initial_latent(self, y: ArrayLike) -> Array:
        """Return y, half a standard deviation of the noise beyond a bound."""
        beyond = 0.5 * self._scale("scale") * np.ravel(self.known_)
        return doubles(np.add(y, beyond))

    def starting_scales(self, y: Array, weights: Array) -> Scales:
        """Roots of the start and the bounds of the variance under `Gaussian`."""
        start, low, high = np.sqrt(variance_start(y, weights)).tolist()
        return {"scale": (start, low, high)}

    def predictive_log_density(self, y: Array, mixture: LatentMixture) -> Array:
        """``log p(y)`` of each row, of bounds the log probability beyond them, (n,)."""
        exact = super().predictive_log_density(y, mixture)
        bounds = np.asarray(y)[:, np.newaxis]
        log_beyond = log_probability_above_zero(
            mean=self.known_ * (mixture.mean[:, 0] - bounds),
            variance=mixture.variance[:, 0] + self._scale("scale") ** 2,
            weights=mixture.weights,
        )
        return np.where(np.ravel(self.known_) == 0.0, exact, log_beyond)

    def _normal_variance(self) -> float:
        """``scale²``."""
        return self._scale("scale") ** 2

    def _distance(self, y: ArrayLike, f: ArrayLike) -> Array:
        """Distance of f from a bound, in standard deviations; positive beyond it."""
        distance = self.known_ * residuals(f, y)
        return np.asarray(distance / self._scale("scale"))

    def _normal(self) -> Gaussian:
        return Gaussian(self._scale("scale") ** 2)

    def _noise(self) -> tuple[Array, Array, Array]:
        return self._normal()._noise()

    def _row_noise(self, negligible: float) -> tuple[Array, Array, Array]:
        return self._normal()._row_noise(negligible)


class LogNormal(Likelihood):
    """Positive targets with a normal logarithm, ``log y = f + scale * e``.

    Parameters
    ----------
    scale : float, default=None
        Standard deviation of the logarithm of y; None estimates it.

    Notes
    -----
    Rows may be censored, as under `Tobit`: survival times that are only known to exceed
    y have ``censoring=1``. This is the log-normal model of accelerated failure times.
    The median of y is ``exp(f)``, and f has the same posterior as under `Tobit` for the
    logarithm of y, or under `Gaussian` if no row is censored: `PLSRegressor` fits
    these, so that kernels refer to the standardised logarithm of y.

    Examples
    --------
    >>> from skgpx.likelihoods import LogNormal
    >>> LogNormal(scale=0.5).mean([0.0, 1.0]).round(3)
    array([1.133, 3.08 ])
    """

    log_scale = True
    support: ClassVar[tuple[float, float]] = (0.0, np.inf)
    row_quantity: ClassVar[str | None] = "censoring"
    scale_names: ClassVar[tuple[str, ...]] = ("scale",)
    known_: Array | float = 0.0

    def __init__(self, scale: float | None = None) -> None:
        self.scale = scale

    def nll(self, y: ArrayLike, f: ArrayLike) -> Array:
        """`nll` of log y; plus log y where y is observed, the Jacobian."""
        log_y = np.log(y)
        jacobian = np.where(self.known_ == 0.0, log_y, 0.0)
        return self._of_log().nll(log_y, f) + jacobian

    def gradient(self, y: ArrayLike, f: ArrayLike) -> Array:
        """Gradient of the `nll` of log y."""
        return self._of_log().gradient(np.log(y), f)

    def curvature(self, y: ArrayLike, f: ArrayLike) -> Array:
        """Curvature of the `nll` of log y."""
        return self._of_log().curvature(np.log(y), f)

    def mean(self, f: ArrayLike) -> Array:
        """``exp(f + scale² / 2)``."""
        exponent = np.add(f, 0.5 * self._scale("scale") ** 2)
        return np.asarray(np.exp(exponent))

    def variance(self, f: ArrayLike) -> Array:
        """``(exp(scale²) - 1) mean²``."""
        ratio = np.expm1(self._scale("scale") ** 2)
        return np.asarray(ratio * self.mean(f) ** 2)

    def cdf(self, y: ArrayLike, f: ArrayLike) -> Array:
        """``Φ((log y - f) / scale)``, of the true value."""
        return self._of_log().cdf(_log(y), f)

    def sample(self, f: ArrayLike, rng: np.random.Generator) -> Array:
        """Draw true values."""
        return np.exp(self._of_log().sample(f, rng))

    def base_latent(self, y: Array, weights: Array) -> float:
        """Mean of the logarithms of the true values."""
        return self._of_log().base_latent(np.log(y), weights)

    def initial_latent(self, y: ArrayLike) -> Array:
        """``log y``, half a standard deviation of the noise beyond a bound."""
        return self._of_log().initial_latent(np.log(y))

    def centred(self, variance: float) -> Self:  # noqa: ARG002
        """Return the copy itself: the base is a mean of logarithms."""
        return self

    def starting_scales(self, y: Array, weights: Array) -> Scales:
        """Starts and bounds for log y under `Tobit`."""
        return self._of_log().starting_scales(np.log(y), weights)

    def check_support(self, y: Array) -> None:
        """Raise a ValueError unless every y is positive."""
        super().check_support(y)
        check_positive(self, y)

    def predictive_moments(self, mixture: LatentMixture) -> tuple[Array, Array]:
        """Mean and variance of y, of mixtures of log-normal variables: closed form."""
        mean, spread = self._moments_of_mean(mixture)
        # E Var[y | f] = (exp(scale²) - 1) E (E[y | f])²
        mean_square = spread + mean**2
        noise = np.expm1(self._scale("scale") ** 2) * mean_square
        return mean, spread + noise

    def _moments_of_mean(self, mixture: LatentMixture) -> tuple[Array, Array]:
        """Mean and variance of ``exp(f + scale² / 2)``, (n,), in closed form."""
        shifted = mixture.mean + 0.5 * self._scale("scale") ** 2
        return _LOG.moments(mixture._replace(mean=shifted))

    def predictive_log_density(self, y: Array, mixture: LatentMixture) -> Array:
        """``log p(y)`` of each row, of bounds the log probability beyond them, (n,)."""
        log_y = np.log(doubles(y))
        jacobian = np.where(np.ravel(self.known_) == 0.0, log_y, 0.0)
        return self._of_log().predictive_log_density(log_y, mixture) - jacobian

    def predictive_cdf(self, y: Array, mixture: LatentMixture) -> Array:
        """``P(Y <= y)`` of each row at its own y (n,), shape (n,)."""
        return self._of_log().predictive_cdf(_log(y), mixture)

    def predictive_quantile(self, p: ArrayLike, mixture: LatentMixture) -> Array:
        """``y`` with ``P(Y <= y) = p`` for each p (q,), shape (n, q)."""
        log_quantiles = self._of_log().predictive_quantile(p, mixture)
        return np.exp(log_quantiles)

    def _normal_variance(self) -> float:
        """``scale²``, of the noise of the logarithm."""
        return self._scale("scale") ** 2

    def _of_log(self) -> Tobit:
        return Tobit(self.scale)._replace(known_=self.known_)


def _log(y: ArrayLike) -> Array:
    """Logarithm, very negative where y is not positive."""
    positive = np.maximum(doubles(y), 1e-300)
    return np.log(positive)
