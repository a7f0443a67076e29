"""Normal noise: one variance, one a row, and mixtures of shifted normals."""

from __future__ import annotations

from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, logit, ndtr, ndtri

from skgpx._numerics import expectations, pointwise
from skgpx._numerics.crps import mixture_crps
from skgpx._numerics.expectations import Noise
from skgpx._numerics.mixture import LatentMixture
from skgpx.likelihoods._base import Likelihood
from skgpx.likelihoods._rows import NoiseOfRows
from skgpx.likelihoods._scales import is_number, rounding_variance, weighted_spread

# ---- Likelihoods ``y = f + noise`` whose noise is a mixture of normals ---------------


Array = NDArray[np.float64]

# Probabilities of which a distribution function has all digits.
_SMALL = 1e-10
# Components of a mixture whose pairs cost less than a quadrature.
_FEW_COMPONENTS = 32


class NormalNoise(Likelihood):
    """Predictive functionals of normal mixtures, the same at every ratio of spreads.

    A normal mixture plus noise that is a normal mixture is a normal mixture: densities
    and probabilities are sums over its components, quantiles are searched in all digits
    of that sum. Where a single normal is left, they have a closed form.
    """

    location_scale = True

    def _noise(self) -> Noise:
        """Components of the noise."""
        raise NotImplementedError(self._missing("_noise()"))

    def predictive_mean(self, mixture: LatentMixture) -> Array:
        """Mean of the latent mixture plus that of the noise."""
        return self.predictive_moments(mixture)[0]

    def predictive_moments(self, mixture: LatentMixture) -> tuple[Array, Array]:
        """`predictive_mean` and `predictive_variance` in one pass."""
        mean, variance = mixture.moments()
        middle = mean[:, 0]
        return self.mean(middle), variance[:, 0] + self.variance(middle)

    def predictive_log_density(self, y: Array, mixture: LatentMixture) -> Array:
        """``log p(y)`` of each row at its own y (n,), in nats, shape (n,)."""
        return expectations.log_density(*_arrays(y, mixture), self._noise())

    def predictive_cdf(self, y: Array, mixture: LatentMixture) -> Array:
        """``P(Y <= y)`` of each row at its own y (n,), shape (n,)."""
        noise = self._noise().heaviest(_SMALL)
        return expectations.cdf(*_arrays(y, mixture), noise)

    def predictive_quantile(self, p: ArrayLike, mixture: LatentMixture) -> Array:
        """``y`` with ``P(Y <= y) = p`` for each p (q,), shape (n, q).

        Every p lies strictly between 0 and 1. ``mean + std Φ⁻¹(p)`` where the
        distribution is normal; otherwise Newton's method, to 1e-9 of the spread.
        """
        _, mean, variance, weights = _arrays(np.empty(0), mixture)
        noise, columns = self._noise(), []
        for level in np.atleast_1d(np.asarray(p, dtype=np.float64)).tolist():
            if len(weights) == 1 and len(noise.shift) == 1:
                std = np.sqrt(variance[:, 0] + noise.variance)
                columns.append(mean[:, 0] + noise.shift + std * ndtri(level))
            else:
                columns.append(
                    expectations.quantile(level, mean, variance, weights, noise)
                )
        return np.stack(columns, axis=1)

    def predictive_crps(self, y: Array, mixture: LatentMixture) -> Array:
        """Continuous ranked probability score at y (n,), in the units of y, (n,).

        In closed form for a few components, by quadrature for many.
        """
        noise = self._noise().heaviest(_SMALL)
        if len(mixture.weights) * len(noise.shift) > _FEW_COMPONENTS:
            return super().predictive_crps(y, mixture)
        y, mean, variance, weights = _arrays(y, mixture)
        mean = mean[:, :, np.newaxis] + noise.shift
        variance = variance[:, :, np.newaxis] + noise.variance
        std = np.sqrt(np.broadcast_to(variance, mean.shape)).reshape(len(y), -1)
        share = np.outer(weights, np.exp(noise.log_weights)).ravel()
        return mixture_crps(y, mean.reshape(len(y), -1), std, share)


def _arrays(y: Array, mixture: LatentMixture) -> tuple[Array, Array, Array, Array]:
    """Targets as floats, and the mixture of a single output without its axis."""
    mean, variance, weights = mixture
    return np.asarray(y, dtype=np.float64), mean[:, 0], variance[:, 0], weights


# ---- Normal noise: every predictive functional has a closed form ---------------------


class Gaussian(NormalNoise, NoiseOfRows):
    """Normal observation noise, ``y = f + e`` with ``e ~ N(0, noise_variance)``.

    Parameters
    ----------
    noise_variance : float, default=None
        Variance of the noise in squared units of y; None estimates it.

    Examples
    --------
    >>> from skgpx.likelihoods import Gaussian
    >>> likelihood = Gaussian(noise_variance=4.0)
    >>> likelihood.gradient(3.0, 1.0)
    array(-0.5)
    >>> likelihood.scaled(0.5)
    Gaussian(noise_variance=1.0)
    """

    kernel_code = pointwise.GAUSSIAN
    scale_names: ClassVar[tuple[str, ...]] = ("noise_variance",)

    def __init__(self, noise_variance: float | None = None) -> None:
        self.noise_variance = noise_variance

    def nll(self, y: ArrayLike, f: ArrayLike) -> Array:
        """``(y - f)^2 / (2 v) + log(2 pi v) / 2``."""
        v = self._scale("noise_variance")
        residual = np.subtract(y, f)
        return np.asarray(0.5 * residual**2 / v + 0.5 * np.log(2.0 * np.pi * v))

    def gradient(self, y: ArrayLike, f: ArrayLike) -> Array:
        """``(f - y) / v``."""
        return np.asarray(np.subtract(f, y) / self._scale("noise_variance"))

    def curvature(self, y: ArrayLike, f: ArrayLike) -> Array:
        """``1 / v``, the second derivative."""
        shape = np.broadcast_shapes(np.shape(y), np.shape(f))
        return np.full(shape, 1.0 / self._scale("noise_variance"))

    def mean(self, f: ArrayLike) -> Array:
        """Return the latent value itself."""
        return np.asarray(f, dtype=np.float64)

    def variance(self, f: ArrayLike) -> Array:
        """Return the noise variance."""
        return np.full(np.shape(f), self._scale("noise_variance"))

    def cdf(self, y: ArrayLike, f: ArrayLike) -> Array:
        """``Phi((y - f) / sqrt(v))``."""
        std = np.sqrt(self._scale("noise_variance"))
        return np.asarray(ndtr(np.subtract(y, f) / std))

    def sample(self, f: ArrayLike, rng: np.random.Generator) -> Array:
        """Draw from ``N(f, v)``."""
        std = np.sqrt(self._scale("noise_variance"))
        return np.add(f, std * rng.standard_normal(np.shape(f)))

    def initial_latent(self, y: ArrayLike) -> Array:
        """Return the observation itself."""
        return np.array(y, dtype=np.float64)

    def scaled(self, factor: float) -> Self:
        """Copy with the noise variance times ``factor**2``."""
        return self.rescaled(noise_variance=factor**2)

    @property
    def noise_parameter(self) -> float | None:
        """The noise variance, None while it is free."""
        return self.noise_variance

    def with_noise(self, noise_variance: float) -> Self:
        """Copy with this noise variance."""
        return self._replace(noise_variance=noise_variance)

    def kernel_parameters(self) -> Array:
        """``[noise_variance]``."""
        return np.array([self._scale("noise_variance")])

    def _noise(self) -> Noise:
        variance = np.array([self._scale("noise_variance")])
        return Noise(np.zeros(1), variance, np.zeros(1))

    def starting_scales(
        self, y: Array, weights: Array
    ) -> dict[str, tuple[float, float, float]]:
        """A tenth of the variance of y, from 1e-8 to ten times that variance.

        From the variance of rounding, at most a tenth, where y has few values.
        """
        total = weighted_spread(y, weights) ** 2
        low = max(1e-8 * total, min(rounding_variance(y, weights), 0.1 * total))
        return {"noise_variance": (0.1 * total, low, 1e1 * total)}


# ---- Observations of which some, unknown ones, are shifted ---------------------------


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

    def _noise(self) -> Noise:
        variance = np.full(2, self._scale("noise_variance"))
        shares = np.log([1.0 - self.probability, self.probability])
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
