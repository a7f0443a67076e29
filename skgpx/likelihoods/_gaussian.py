"""Normal noise: every predictive functional has a closed form."""

from __future__ import annotations

from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr

from skgpx._numerics import pointwise
from skgpx._numerics.normal_sums import Noise
from skgpx.likelihoods._normal_noise import NormalNoise
from skgpx.likelihoods._rows import NoiseOfRows
from skgpx.likelihoods._scales import rounding_variance, weighted_spread

Array = NDArray[np.float64]


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

    def _noise(self, p: float) -> Noise:  # noqa: ARG002
        return Noise(np.zeros(1), np.array([self._scale("noise_variance")]), np.ones(1))

    def starting_scales(
        self, y: Array, weights: Array
    ) -> dict[str, tuple[float, float, float]]:
        """A tenth of the variance of y, from 1e-8 to ten times that variance.

        From the variance of rounding, at most a tenth, where y has few values.
        """
        total = weighted_spread(y, weights) ** 2
        low = max(1e-8 * total, min(rounding_variance(y, weights), 0.1 * total))
        return {"noise_variance": (0.1 * total, low, 1e1 * total)}
