"""Heavy-tailed noise."""

from __future__ import annotations

from typing import ClassVar, Self

import numpy as np
from scipy.special import gammaln, stdtr

from skgpx._numerics import pointwise
from skgpx._numerics.expectations import student_noise
from skgpx._types import Array, ArrayLike, Generator
from skgpx.likelihoods._base import Scales, is_number, residuals
from skgpx.likelihoods._noise import NoiseOfRows, robust_location_and_spread


class StudentT(NoiseOfRows):
    """Student-t observation noise: regression that is robust to outliers.

    ``y = f + scale * t`` with t from Student's distribution with ``df`` degrees of
    freedom.

    Parameters
    ----------
    df : float, default=4.0
        Degrees of freedom. The variance of y is infinite when ``df <= 2``.
    scale : float, default=None
        Scale of the noise in units of y (not its standard deviation); None
        estimates it.

    Notes
    -----
    `curvature` is the Fisher information ``(df + 1) / ((df + 3) scale^2)``, since the
    second derivative is negative in the tails. For ``df <= 1`` no mean exists and
    `mean` is the location f.

    Predictions write Student's distribution as a mixture of normals over the logarithm
    of its precision [1]_: densities and probabilities have a relative error of 1e-7
    whatever the ratio of `scale` to the standard deviation of f.

    References
    ----------
    .. [1] Andrews and Mallows, "Scale mixtures of normal distributions", Journal of the
       Royal Statistical Society B 36, 1974.

    Examples
    --------
    >>> from skgpx.likelihoods import StudentT
    >>> likelihood = StudentT(df=4.0, scale=0.5)
    >>> likelihood.gradient([1.0, 100.0], 0.0).round(3)
    array([-2.5 , -0.05])
    """

    heavy_tailed = True
    kernel_code = pointwise.STUDENT_T
    heteroscedastic_version = "HeteroscedasticStudentT"
    scale_names: ClassVar[tuple[str, ...]] = ("scale",)

    def __init__(self, df: float = 4.0, scale: float | None = None) -> None:
        self.df = df
        self.scale = scale

    def nll(self, y: ArrayLike, f: ArrayLike) -> Array:
        """``(df + 1) / 2 log(1 + z^2 / df) + const`` with ``z = (y - f) / scale``."""
        df = float(self.df)
        scale = self._width()
        z = residuals(y, f) / scale
        half = 0.5 * (df + 1.0)
        # log of B(df/2, 1/2) √df scale
        constant = gammaln(0.5 * df) - gammaln(half)
        constant += 0.5 * np.log(df * np.pi) + np.log(scale)
        log_kernel = half * np.log1p(z**2 / df)
        return log_kernel + constant

    def gradient(self, y: ArrayLike, f: ArrayLike) -> Array:
        """``-(df + 1) r / (df scale^2 + r^2)`` with ``r = y - f``."""
        df = float(self.df)
        scale = self._width()
        residual = residuals(y, f)
        denominator = df * scale**2 + residual**2
        return -(df + 1.0) * residual / denominator

    def curvature(self, y: ArrayLike, f: ArrayLike) -> Array:
        """Fisher information ``(df + 1) / ((df + 3) scale^2)``, for steps of chains.

        Fits discount an outlier by averages of the gradient, see
        :func:`skgpx._numerics.laplace.row_averages`.
        """
        shape = np.broadcast(y, f).shape
        squared_scale = self._width() ** 2
        fisher = (self.df + 1.0) / ((self.df + 3.0) * squared_scale)
        return np.ones(shape) * fisher

    def variance(self, f: ArrayLike) -> Array:
        """``scale^2 df / (df - 2)``, infinite for ``df <= 2``."""
        variance_of_t = np.inf
        if self.df > 2.0:
            variance_of_t = self.df / (self.df - 2.0)
        return np.ones(np.shape(f)) * self._width() ** 2 * variance_of_t

    def cdf(self, y: ArrayLike, f: ArrayLike) -> Array:
        """Student's distribution function at ``(y - f) / scale``."""
        z = residuals(y, f) / self._width()
        return stdtr(self.df, z)

    def sample(self, f: ArrayLike, rng: Generator) -> Array:
        """Draw ``f + scale * t``."""
        noise = rng.standard_t(self.df, size=np.shape(f))
        return np.add(f, self._width() * noise)

    def scaled(self, factor: float) -> Self:
        """Copy with the scale times ``factor``."""
        return self.rescaled(scale=factor)

    @property
    def noise_parameter(self) -> float | None:
        """The squared scale, None while it is free."""
        if self.scale is None:
            return None
        return self.scale**2

    def with_noise(self, noise_variance: float) -> Self:
        """Copy with the square root as its scale."""
        return self._replace(scale=float(np.sqrt(noise_variance)))

    def kernel_parameters(self) -> Array:
        """``[df, scale]``."""
        return np.array([self.df, self._scale("scale")])

    def _width(self) -> Array | float:
        """Scale of the noise of the rows."""
        return self._scale("scale") * np.sqrt(self.known_)

    def _noise(self) -> tuple[Array, Array, Array]:
        unit_variance, log_weights = student_noise(float(self.df))
        variance = self._scale("scale") ** 2 * unit_variance
        return np.zeros(len(log_weights)), variance, log_weights

    def check_parameters(self) -> None:
        """Raise a ValueError unless df is positive, and scale positive or None."""
        super().check_parameters()
        if not (is_number(self.df) and self.df > 0.0):
            raise ValueError(
                "StudentT expects a positive df, the degrees of freedom, which are not"
                f" estimated; got {self.df!r}. Pass a finite number such as 4, or use"
                " Gaussian for noise without outliers."
            )

    def starting_scales(self, y: Array, weights: Array) -> Scales:
        """A third of the robust spread of y, from 1e-5 to five times that spread."""
        _, spread = robust_location_and_spread(y, weights)
        start = np.sqrt(0.1) * spread
        return {"scale": (start, 1e-5 * spread, 5.0 * spread)}
