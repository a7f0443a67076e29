"""Observations of which some, unknown ones, are shifted."""

from __future__ import annotations

from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, logit, ndtr

from skgpx._numerics import pointwise
from skgpx._numerics.normal_sums import Noise
from skgpx.likelihoods._normal_noise import NormalNoise
from skgpx.likelihoods._scales import is_number, weighted_spread

Array = NDArray[np.float64]


class ShiftedMixture(NormalNoise):
    """Normal noise around f or, unknown which, around f + shift.

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
        residual = np.subtract(y, f)
        stay = np.log1p(-self.probability) - 0.5 * residual**2 / v
        move = np.log(self.probability) - 0.5 * (residual - self.shift) ** 2 / v
        return -np.logaddexp(stay, move) + 0.5 * np.log(2.0 * np.pi * v)

    def gradient(self, y: ArrayLike, f: ArrayLike) -> Array:
        """``-(r - shift P(b = 1 | r)) / v``."""
        v = self._scale("noise_variance")
        residual = np.subtract(y, f)
        log_odds = logit(self.probability)
        log_odds = log_odds + self.shift * (residual - 0.5 * self.shift) / v
        return -(residual - self.shift * expit(log_odds)) / v

    def curvature(self, y: ArrayLike, f: ArrayLike) -> Array:
        """``1 / v``, an upper bound of the second derivative."""
        shape = np.broadcast_shapes(np.shape(y), np.shape(f))
        return np.full(shape, 1.0 / self._scale("noise_variance"))

    def mean(self, f: ArrayLike) -> Array:
        """``f + probability * shift``."""
        return np.add(f, self.probability * self.shift)

    def variance(self, f: ArrayLike) -> Array:
        """``noise_variance + probability (1 - probability) shift^2``."""
        return np.full(np.shape(f), self._total_variance())

    def cdf(self, y: ArrayLike, f: ArrayLike) -> Array:
        """Mix the two normal distribution functions."""
        std = np.sqrt(self._scale("noise_variance"))
        residual = np.subtract(y, f)
        stay, move = ndtr(residual / std), ndtr((residual - self.shift) / std)
        return np.asarray((1.0 - self.probability) * stay + self.probability * move)

    def sample(self, f: ArrayLike, rng: np.random.Generator) -> Array:
        """Draw ``f + shift * b + e``."""
        std = np.sqrt(self._scale("noise_variance"))
        moved = rng.random(np.shape(f)) < self.probability
        noise = std * rng.standard_normal(np.shape(f))
        return np.add(f, self.shift * moved + noise)

    def initial_latent(self, y: ArrayLike) -> Array:
        """Return the observation less the mean shift."""
        return np.subtract(y, self.probability * self.shift, dtype=np.float64)

    def scaled(self, factor: float) -> Self:
        """Copy with the shift times ``factor``, the variance times its square."""
        return self.rescaled(shift=factor, noise_variance=factor**2)

    def kernel_parameters(self) -> Array:
        """``[shift, logit(probability), noise_variance]``."""
        log_odds = float(logit(self.probability))
        return np.array([self.shift, log_odds, self._scale("noise_variance")])

    def _noise(self, p: float) -> Noise:  # noqa: ARG002
        variance = np.full(2, self._scale("noise_variance"))
        shares = np.array([1.0 - self.probability, self.probability])
        return Noise(np.array([0.0, float(self.shift)]), variance, shares)

    def _total_variance(self) -> float:
        spread = self.probability * (1.0 - self.probability) * float(self.shift) ** 2
        return self._scale("noise_variance") + spread

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

    def starting_scales(
        self, y: Array, weights: Array
    ) -> dict[str, tuple[float, float, float]]:
        """A tenth of the variance of y, from 1e-8 to ten times that variance."""
        total = weighted_spread(y, weights) ** 2
        return {"noise_variance": (0.1 * total, 1e-8 * total, 1e1 * total)}
