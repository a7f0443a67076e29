"""Noise with a scale that is a second latent function."""

from __future__ import annotations

from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skgpx._numerics.mixture import LatentMixture
from skgpx._numerics.rows import mean_and_spread
from skgpx.likelihoods._base import Likelihood, Scales, doubles
from skgpx.likelihoods._gaussian import Gaussian
from skgpx.likelihoods._links import ExpRate
from skgpx.likelihoods._noise import robust_location_and_spread
from skgpx.likelihoods._student_t import StudentT

Array = NDArray[np.float64]
_LOG = ExpRate()


class _Heteroscedastic(Likelihood):
    """``y = c + u f₁ + scale exp(variation f₂) ε``, with ε from a unit distribution.

    c and u are the location and spread of y, so that both latent functions have no
    unit; scale and variation are learned. A variation of zero is constant noise.
    """

    n_outputs = 2
    log_scale = True
    scale_names: ClassVar[tuple[str, ...]] = ("scale", "variation")

    scale: float | None
    variation: float | None
    centre_: float
    unit_: float

    def _unit(self) -> Likelihood:
        """Distribution of ε, as a likelihood of scale one."""
        raise NotImplementedError(self._missing("_unit()"))

    def _fisher_information(self) -> tuple[float, float]:
        """Of the location and of the log scale of ε."""
        raise NotImplementedError(self._missing("_fisher_information()"))

    def _location_and_unit(self, y: Array, weights: Array) -> tuple[float, float]:
        centre, spread = mean_and_spread(y, weights, 1e-12)
        return float(centre), float(spread)

    def _completed(self, y: Array, weights: Array) -> Self:
        centre, unit = self._location_and_unit(y, weights)
        return self._replace(centre_=centre, unit_=unit)

    def starting_scales(self, y: Array, weights: Array) -> Scales:
        """A third of the spread of y, and a scale that varies by a third."""
        _, unit = self._location_and_unit(y, weights)
        return {
            "scale": (0.3 * unit, 1e-3 * unit, 3.0 * unit),
            "variation": (0.3, 1e-2, 3.0),
        }

    def _standardised(self, y: ArrayLike, f: ArrayLike) -> tuple[Array, Array]:
        """Residuals in units of the scale, and the log scale, (n, s)."""
        y = doubles(y)
        f = doubles(f)
        residual = y[:, np.newaxis] - self.mean(f)
        log_scale = self._log_scale(f)
        return residual * np.exp(-log_scale), log_scale

    def _log_scale(self, f: Array) -> Array:
        """``log scale + variation f₂``, (n, s)."""
        bounded: Array = np.clip(f[:, 1], -100.0, 100.0)
        return np.log(self._scale("scale")) + self._scale("variation") * bounded

    def nll(self, y: ArrayLike, f: ArrayLike) -> Array:
        """Negative log density of ε at the residual, plus the log scale."""
        z, log_scale = self._standardised(y, f)
        return self._unit().nll(z, 0.0) + log_scale

    def gradient(self, y: ArrayLike, f: ArrayLike) -> Array:
        """In both latent functions, (n, 2, s)."""
        z, log_scale = self._standardised(y, f)
        slope = self._unit().gradient(z, 0.0)
        location_slope = self.unit_ * np.exp(-log_scale) * slope
        log_scale_slope = self._scale("variation") * (1.0 + z * slope)
        return np.stack((location_slope, log_scale_slope), axis=1)

    def curvature(self, y: ArrayLike, f: ArrayLike) -> Array:
        """Fisher information, (n, 2, 2, s), which is diagonal."""
        _, log_scale = self._standardised(y, f)
        n_rows, n_draws = log_scale.shape
        fisher = np.zeros((n_rows, 2, 2, n_draws))
        of_location, of_log_scale = self._fisher_information()
        # in units of the latent functions: u / scale, and the variation
        location_slope = self.unit_ * np.exp(-log_scale)
        log_scale_slope = self._scale("variation")
        fisher[:, 0, 0] = of_location * location_slope**2
        fisher[:, 1, 1] = of_log_scale * log_scale_slope**2
        return fisher

    def mean(self, f: ArrayLike) -> Array:
        """``c + u f₁``, in units of y."""
        location: Array = doubles(f)[:, 0]
        return self.centre_ + self.unit_ * location

    def variance(self, f: ArrayLike) -> Array:
        """Squared scale times the variance of ε."""
        log_scale = self._log_scale(doubles(f))
        return np.exp(2.0 * log_scale) * self._unit().variance(np.zeros(1))

    def cdf(self, y: ArrayLike, f: ArrayLike) -> Array:
        """Distribution function of ε at the standardised residual."""
        z, _ = self._standardised(y, f)
        return self._unit().cdf(z, 0.0)

    def sample(self, f: ArrayLike, rng: np.random.Generator) -> Array:
        """Draw one observation per row and draw."""
        f = doubles(f)
        location = self.mean(f)
        scale = np.exp(self._log_scale(f))
        noise = self._unit().sample(np.zeros(location.shape), rng)
        return location + scale * noise

    def predictive_moments(self, mixture: LatentMixture) -> tuple[Array, Array]:
        """Moments of y, in closed form: the variance of the noise is log-normal."""
        latent_mean, _ = mixture.moments()
        mean = self.centre_ + self.unit_ * latent_mean[:, 0]
        # E scale² exp(2 variation f₂), the exponential of another normal variable
        factor = 2.0 * self._scale("variation")
        shift = 2.0 * np.log(self._scale("scale"))
        variance = np.broadcast_to(mixture.variance, mixture.mean.shape)
        log_squared_scale = mixture._replace(
            mean=factor * mixture.mean[:, 1:] + shift,
            variance=factor**2 * variance[:, 1:],
        )
        squared_scale, _ = _LOG.moments(log_squared_scale)
        noise = squared_scale * self._unit().variance(np.zeros(1))
        return mean, self.predictive_mean_variance(mixture) + noise

    def predictive_mean_variance(self, mixture: LatentMixture) -> Array:
        """``u² Var f₁``, shape (n,)."""
        _, variance = mixture.moments()
        return self.unit_**2 * variance[:, 0]

    def example_targets(self, rng: np.random.Generator, n: int) -> Array:
        """Draws of ε: any location and scale of y will do."""
        return self._unit().sample(np.zeros(n), rng)

    def initial_latent(self, y: ArrayLike) -> Array:
        """Standardised y, and the typical scale, (n, 2)."""
        location = (doubles(y) - self.centre_) / self.unit_
        log_scale = np.zeros_like(location)
        return np.stack((location, log_scale), axis=-1)


class HeteroscedasticGaussian(_Heteroscedastic):
    """Normal noise with a standard deviation that varies with X.

    ``y = f₁ + scale exp(variation f₂) ε``, up to the location and spread of y, with two
    latent functions of one prior. How much the noise varies is learned; where it does
    not vary, predictions are the same as under constant noise.

    Parameters
    ----------
    scale : float, default=None
        Typical standard deviation of the noise, in units of y; None estimates it.
    variation : float, default=None
        Standard deviation of its logarithm in units of the latent function; None
        estimates it.

    Notes
    -----
    The second derivative of the negative log likelihood is not positive
    semi-definite; `curvature` is the Fisher information.

    References
    ----------
    .. [1] Goldberg, Williams and Bishop, "Regression with input-dependent noise: a
       Gaussian process treatment", NeurIPS 1997.

    Examples
    --------
    >>> import numpy as np
    >>> from skgpx import PLSRegressor
    >>> from skgpx.likelihoods import HeteroscedasticGaussian
    >>> rng = np.random.default_rng(0)
    >>> X = np.linspace(0.0, 1.0, 200)[:, np.newaxis]
    >>> y = np.sin(6.0 * X[:, 0]) + (0.05 + 0.5 * X[:, 0]) * rng.standard_normal(200)
    >>> model = PLSRegressor(likelihood=HeteroscedasticGaussian(), random_state=0)
    >>> low, high = model.fit(X, y).predict_interval(X[[0, -1]]).T
    >>> bool(np.diff(high - low)[0] > 0.5)
    True
    """

    def __init__(
        self,
        scale: float | None = None,
        variation: float | None = None,
    ) -> None:
        self.scale = scale
        self.variation = variation

    def _unit(self) -> Likelihood:
        return Gaussian(1.0)

    def _fisher_information(self) -> tuple[float, float]:
        return 1.0, 2.0


class HeteroscedasticStudentT(_Heteroscedastic):
    """Student-t noise with a scale that varies with X: outliers, and varying noise.

    As :class:`HeteroscedasticGaussian`, with ε from Student's distribution.

    Parameters
    ----------
    df : float, default=4.0
        Degrees of freedom. The variance of y is infinite when ``df <= 2``.
    scale : float, default=None
        Typical scale of the noise (not its standard deviation), in units of y; None
        estimates it.
    variation : float, default=None
        Standard deviation of its logarithm in units of the latent function; None
        estimates it.

    Examples
    --------
    >>> from skgpx.likelihoods import HeteroscedasticStudentT, check_likelihood
    >>> check_likelihood(HeteroscedasticStudentT(df=5.0))
    """

    heavy_tailed = True

    def __init__(
        self,
        df: float = 4.0,
        scale: float | None = None,
        variation: float | None = None,
    ) -> None:
        self.df = df
        self.scale = scale
        self.variation = variation

    def check_parameters(self) -> None:
        """Raise a ValueError unless df is positive, and the others positive or None."""
        super().check_parameters()
        StudentT(self.df).check_parameters()

    def _unit(self) -> Likelihood:
        return StudentT(float(self.df), scale=1.0)

    def _fisher_information(self) -> tuple[float, float]:
        df = float(self.df)
        of_location = (df + 1.0) / (df + 3.0)
        of_log_scale = 2.0 * df / (df + 3.0)
        return of_location, of_log_scale

    def _location_and_unit(self, y: Array, weights: Array) -> tuple[float, float]:
        return robust_location_and_spread(y, weights)
