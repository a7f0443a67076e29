"""Normal targets, of which y may be a lower or an upper bound."""

from __future__ import annotations

from typing import ClassVar, Self

import numpy as np

from skgpx._numerics.mixture import LatentMixture
from skgpx._types import Array, ArrayLike, Generator
from skgpx.likelihoods._base import Scales, doubles, residuals
from skgpx.likelihoods._gaussian import Gaussian
from skgpx.likelihoods._links import (
    ProbitProbability,
    log_probability_above_zero,
)
from skgpx.likelihoods._noise import NormalNoise, variance_start

_PROBIT = ProbitProbability()


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

    def variance(self, f: ArrayLike) -> Array:
        """``scale²``."""
        return self._normal().variance(f)

    def cdf(self, y: ArrayLike, f: ArrayLike) -> Array:
        """``Φ((y - f) / scale)``, of the true value."""
        return self._normal().cdf(y, f)

    def sample(self, f: ArrayLike, rng: Generator) -> Array:
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
        return distance / self._scale("scale")

    def _normal(self) -> Gaussian:
        return Gaussian(self._scale("scale") ** 2)

    def _row_noise(self, negligible: float) -> tuple[Array, Array, Array]:
        return self._normal()._row_noise(negligible)
