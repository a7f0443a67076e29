"""Shares between 0 and 1."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from scipy.special import betainc, betaln, digamma, expit, logit, zeta

from skgpx._types import Array, ArrayLike, Generator
from skgpx.likelihoods._base import Likelihood, Scales, doubles


class Beta(Likelihood):
    """Shares strictly between 0 and 1, of mean ``p = 1 / (1 + exp(-f))``.

    ``Var[y | f] = p (1 - p) / (1 + precision)``.

    Parameters
    ----------
    precision : float, default=None
        Sum of the two parameters of the beta distribution, ``precision * p`` and
        ``precision * (1 - p)``. None estimates it.

    Notes
    -----
    `curvature` is the Fisher information, since the density is not log-concave in f.
    Shares that are counts of successes among trials have a `Binomial` distribution.

    Examples
    --------
    >>> from skgpx.likelihoods import Beta
    >>> Beta(precision=3.0).variance([0.0, 2.0]).round(4)
    array([0.0625, 0.0262])
    """

    log_scale = True
    support: ClassVar[tuple[float, float]] = (0.0, 1.0)
    scale_names: ClassVar[tuple[str, ...]] = ("precision",)

    def __init__(self, precision: float | None = None) -> None:
        self.precision = precision

    def nll(self, y: ArrayLike, f: ArrayLike) -> Array:
        """``log B(a, b) - (a - 1) log y - (b - 1) log(1 - y)``."""
        a, b = self._parameters(f)
        y = doubles(y)
        log_y = np.log(y)
        log_complement = np.log1p(-y)
        log_kernel = (a - 1.0) * log_y + (b - 1.0) * log_complement
        return betaln(a, b) - log_kernel

    def gradient(self, y: ArrayLike, f: ArrayLike) -> Array:
        """``φ p (1 - p) (ψ(a) - ψ(b) - log(y / (1 - y)))``, φ the precision."""
        a, b = self._parameters(f)
        slope = a * b / self._scale("precision")
        log_odds = logit(doubles(y))
        expected_log_odds = digamma(a) - digamma(b)
        return slope * (expected_log_odds - log_odds)

    def curvature(self, y: ArrayLike, f: ArrayLike) -> Array:
        """Fisher information ``φ² p² (1 - p)² (ψ'(a) + ψ'(b))``."""
        a, b = self._parameters(f)
        slope = a * b / self._scale("precision")
        shape = np.broadcast(y, f).shape
        # the trigamma function is a zeta function
        trigammas = zeta(2.0, a) + zeta(2.0, b)
        return np.ones(shape) * slope**2 * trigammas

    def mean(self, f: ArrayLike) -> Array:
        """``p``."""
        return expit(doubles(f))

    def variance(self, f: ArrayLike) -> Array:
        """``p (1 - p) / (1 + φ)``."""
        p = self.mean(f)
        q = expit(-doubles(f))
        return p * q / (1.0 + self._scale("precision"))

    def cdf(self, y: ArrayLike, f: ArrayLike) -> Array:
        """Regularised incomplete beta function."""
        y = np.clip(doubles(y), 0.0, 1.0)
        a, b = self._parameters(f)
        return betainc(a, b, y)

    def sample(self, f: ArrayLike, rng: Generator) -> Array:
        """Draw shares."""
        a, b = self._parameters(f)
        return rng.beta(a, b)

    def base_latent(self, y: Array, weights: Array) -> float:
        """Log odds of the mean share."""
        return float(logit(np.average(y, weights=weights)))

    def initial_latent(self, y: ArrayLike) -> Array:
        """Log odds of y."""
        return logit(doubles(y))

    def starting_scales(self, y: Array, weights: Array) -> Scales:
        """Precision that explains the variance of y around one mean."""
        mean = float(np.average(y, weights=weights))
        squares = (y - mean) ** 2
        variance = float(np.average(squares, weights=weights))
        # the variance is p (1 - p) / (1 + φ)
        variance = max(variance, 1e-300)
        precision = mean * (1.0 - mean) / variance - 1.0
        start = float(np.clip(precision, 0.1, 100.0))
        return {"precision": (start, 1e-2, 1e6)}

    def check_support(self, y: Array) -> None:
        """Raise a ValueError unless every y is strictly between 0 and 1."""
        super().check_support(y)
        invalid = y[(y <= 0.0) | (y >= 1.0)]
        if not invalid.size:
            return
        advice = ""
        if np.min(y) >= 0.0 and 1.0 < np.max(y) <= 100.0:
            advice = " Divide percentages by 100."
        raise ValueError(
            f"Beta expects y strictly between 0 and 1; got {invalid.size} other values,"
            f" for example {invalid[0]:g}.{advice} Use Binomial for counts of"
            " successes among trials; move zeros and ones inwards by"
            " (y (n - 1) + 1/2) / n for n rows."
        )

    def _parameters(self, f: ArrayLike) -> tuple[Array, Array]:
        """``φ p`` and ``φ (1 - p)``, neither of them zero."""
        # further away trigamma functions overflow
        f = np.clip(doubles(f), -300.0, 300.0)
        precision = self._scale("precision")
        return precision * expit(f), precision * expit(-f)
