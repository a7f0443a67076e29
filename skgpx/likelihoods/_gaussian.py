"""Normal noise, of one variance, and mixtures of shifted normals."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import expit, logit, ndtr

from skgpx._numerics import pointwise
from skgpx._types import Array, ArrayLike, Generator
from skgpx.likelihoods._base import is_number, residuals
from skgpx.likelihoods._noise import NoiseOfRows, NormalNoise


class Gaussian(NoiseOfRows):
    """Normal observation noise, ``y = f + e`` with ``e ~ N(0, noise_variance)``.

    Parameters
    ----------
    noise_variance : float, default=None
        Variance of the noise in squared units of y; None estimates it.

    Examples
    --------
    >>> from skgpx.likelihoods import Gaussian
    >>> likelihood = Gaussian(noise_variance=4.0)
    >>> float(likelihood.gradient(3.0, 1.0))
    -0.5
    >>> likelihood.scaled(0.5)
    Gaussian(noise_variance=1.0)
    """

    has_closed_form = True
    close_to_gaussian = True
    heteroscedastic_version = "HeteroscedasticGaussian"
    kernel_code = pointwise.GAUSSIAN
    scale_names: ClassVar[tuple[str, ...]] = ("noise_variance",)

    def __init__(self, noise_variance: float | None = None) -> None:
        self.noise_variance: Any = noise_variance

    def nll(self, y: ArrayLike, f: ArrayLike) -> Array:
        """``(y - f)^2 / (2 v) + log(2 pi v) / 2``."""
        v = self._variance()
        residual = residuals(y, f)
        constant = 0.5 * np.log(2.0 * np.pi * v)
        return 0.5 * residual**2 / v + constant

    def gradient(self, y: ArrayLike, f: ArrayLike) -> Array:
        """``(f - y) / v``."""
        return residuals(f, y) / self._variance()

    def curvature(self, y: ArrayLike, f: ArrayLike) -> Array:
        """``1 / v``, the second derivative."""
        shape = np.broadcast(y, f).shape
        return np.ones(shape) / self._variance()

    def variance(self, f: ArrayLike) -> Array:
        """Return the noise variance."""
        return np.ones(np.shape(f)) * self._variance()

    def cdf(self, y: ArrayLike, f: ArrayLike) -> Array:
        """``Phi((y - f) / sqrt(v))``."""
        std = np.sqrt(self._variance())
        z = residuals(y, f) / std
        return ndtr(z)

    def sample(self, f: ArrayLike, rng: Generator) -> Array:
        """Draw from ``N(f, v)``."""
        std = np.sqrt(self._variance())
        noise = std * rng.standard_normal(np.shape(f))
        return np.add(f, noise)

    def scaled(self, factor: float) -> Self:
        """Copy with the noise variance times ``factor**2``."""
        return self.rescaled(noise_variance=factor**2)

    @property
    def noise_parameter(self) -> float | None:
        """The noise variance, None while it is free."""
        return self.noise_variance

    def with_noise(self, noise_variance: float | Array) -> Self:
        """Copy with this noise variance, or with one for each target."""
        if np.ndim(noise_variance) == 0:
            noise_variance = float(noise_variance)
        return self._replace(noise_variance=noise_variance)

    def kernel_parameters(self) -> Array:
        """``[noise_variance]``."""
        return np.array([self._scale("noise_variance")])

    def _variance(self) -> Array | float:
        # after a fit of several targets: one for each
        if isinstance(self.noise_variance, np.ndarray):
            return self.noise_variance
        return self._scale("noise_variance") * self.known_

    def _normal_variance(self) -> Array | float:
        """Return the noise variance, of each row where it is known."""
        return self._variance()

    def _noise(self) -> tuple[Array, Array, Array]:
        variance = np.array([self._scale("noise_variance")])
        return np.zeros(1), variance, np.zeros(1)


# ---- Observations with shifts in unknown rows ----------------------------------------


class ShiftedMixture(NormalNoise):
    """Normal noise around f, or around f + shift in unknown rows.

    ``y = f + shift * b + e`` with ``b ~ Bernoulli(probability)`` independent for each
    row and ``e ~ N(0, noise_variance)``. The posterior may have several modes.

    Parameters
    ----------
    shift : float
        Size of the shift in units of y.
    probability : float, default=0.5
        Probability that an observation is shifted, strictly between 0 and 1.
    noise_variance : float, default=None
        Variance of e in squared units of y; None estimates it.

    Notes
    -----
    `curvature` is ``1 / noise_variance``, the largest value that the second
    derivative can take.

    Examples
    --------
    >>> from skgpx.likelihoods import ShiftedMixture
    >>> likelihood = ShiftedMixture(shift=4.0, noise_variance=1.0)
    >>> float(likelihood.mean(0.0))
    2.0
    >>> likelihood.gradient(4.0, [0.0, 4.0]).round(2)
    array([0., 0.])
    """

    kernel_code = pointwise.SHIFTED_MIXTURE
    scale_names: ClassVar[tuple[str, ...]] = ("noise_variance",)

    def __init__(
        self,
        shift: float,
        probability: float = 0.5,
        noise_variance: float | None = None,
    ) -> None:
        self.shift = shift
        self.probability = probability
        self.noise_variance = noise_variance

    def nll(self, y: ArrayLike, f: ArrayLike) -> Array:
        """``-log((1 - p) N(r | 0, v) + p N(r | shift, v))`` with ``r = y - f``."""
        v = self._scale("noise_variance")
        residual = residuals(y, f)
        shifted_residual = residual - self.shift
        log_plain = np.log1p(-self.probability) - 0.5 * residual**2 / v
        log_shifted = np.log(self.probability) - 0.5 * shifted_residual**2 / v
        log_kernel = np.logaddexp(log_plain, log_shifted)
        constant = 0.5 * np.log(2.0 * np.pi * v)
        return -log_kernel + constant

    def gradient(self, y: ArrayLike, f: ArrayLike) -> Array:
        """``-(r - shift P(b = 1 | r)) / v``."""
        v = self._scale("noise_variance")
        residual = residuals(y, f)
        prior_log_odds = logit(self.probability)
        # log P(b = 1 | r) / P(b = 0 | r)
        excess = residual - 0.5 * self.shift
        log_odds = prior_log_odds + self.shift * excess / v
        expected_shift = self.shift * expit(log_odds)
        return -(residual - expected_shift) / v

    def curvature(self, y: ArrayLike, f: ArrayLike) -> Array:
        """``1 / v``, an upper bound of the second derivative."""
        shape = np.broadcast(y, f).shape
        return np.full(shape, 1.0 / self._scale("noise_variance"))

    def mean(self, f: ArrayLike) -> Array:
        """``f + probability * shift``."""
        return np.add(f, self.probability * self.shift)

    def variance(self, f: ArrayLike) -> Array:
        """``noise_variance + probability (1 - probability) shift^2``."""
        bernoulli_variance = self.probability * (1.0 - self.probability)
        shift_variance = bernoulli_variance * float(self.shift) ** 2
        variance = self._scale("noise_variance") + shift_variance
        return np.full(np.shape(f), variance)

    def cdf(self, y: ArrayLike, f: ArrayLike) -> Array:
        """Mix the two normal distribution functions."""
        std = np.sqrt(self._scale("noise_variance"))
        residual = residuals(y, f)
        plain = ndtr(residual / std)
        shifted = ndtr((residual - self.shift) / std)
        p = self.probability
        return (1.0 - p) * plain + p * shifted

    def sample(self, f: ArrayLike, rng: Generator) -> Array:
        """Draw ``f + shift * b + e``."""
        std = np.sqrt(self._scale("noise_variance"))
        shape = np.shape(f)
        is_shifted = rng.random(shape) < self.probability
        noise = std * rng.standard_normal(shape)
        return np.add(f, self.shift * is_shifted + noise)

    def scaled(self, factor: float) -> Self:
        """Copy with the shift times ``factor``, the variance times its square."""
        return self.rescaled(shift=factor, noise_variance=factor**2)

    def kernel_parameters(self) -> Array:
        """``[shift, logit(probability), noise_variance]``."""
        log_odds = float(logit(self.probability))
        return np.array([self.shift, log_odds, self._scale("noise_variance")])

    def _normal_variance(self) -> float:
        """Return the noise variance: the shifts do not depend on it."""
        return self._scale("noise_variance")

    def _noise(self) -> tuple[Array, Array, Array]:
        shift = np.array([0.0, float(self.shift)])
        variance = np.full(2, self._scale("noise_variance"))
        log_weights = np.log([1.0 - self.probability, self.probability])
        return shift, variance, log_weights

    def check_parameters(self) -> None:
        """Raise a ValueError unless shift, probability and variance are in range."""
        super().check_parameters()
        if not is_number(self.shift):
            raise ValueError(
                "ShiftedMixture expects finite shift, a number in units of y; got"
                f" {self.shift!r}."
            )
        if not (is_number(self.probability) and 0.0 < self.probability < 1.0):
            raise ValueError(
                "ShiftedMixture expects a probability strictly between 0 and 1; got"
                f" {self.probability!r}. Use Gaussian if no observation is shifted."
            )
