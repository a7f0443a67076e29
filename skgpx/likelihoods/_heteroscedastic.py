"""Noise with a scale that is a second latent function."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import logsumexp

from skgpx._numerics import expectations
from skgpx._numerics.mixture import LatentMixture
from skgpx._numerics.quantiles import Cdf, UseOfCdf
from skgpx._numerics.rows import mean_and_spread, row_slices
from skgpx._types import Array, ArrayLike, Generator, Index, Selection
from skgpx.likelihoods._base import Likelihood, Scales, doubles, several_outputs
from skgpx.likelihoods._gaussian import Gaussian
from skgpx.likelihoods._links import ExpRate
from skgpx.likelihoods._noise import NormalNoise, robust_location_and_spread
from skgpx.likelihoods._scale_of_errors import BLOCK, ScaleOfErrors
from skgpx.likelihoods._student_t import StudentT

_LOG = ExpRate()

# Nodes for the log scale under one distribution.
_MOST_NODES = 32


class _Heteroscedastic(Likelihood):
    """``y = c + u f₁ + scale exp(variation f₂) ε``, with ε from a unit distribution.

    c and u are the location and spread of y, so that both latent functions have no
    unit; scale and variation are learned. A variation of zero is constant noise.
    """

    n_outputs = 2
    log_scale = True
    has_varying_scale = True
    scale_names: ClassVar[tuple[str, ...]] = ("scale", "variation")

    scale: float | None
    variation: float | None
    centre_: float
    unit_: float
    scale_kernel_: Any = None

    def _unit(self) -> NormalNoise:
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
        f = several_outputs(f)
        residual = y[:, np.newaxis] - self.mean(f)
        log_scale = self._log_scale(f[:, 1])
        return residual * np.exp(-log_scale), log_scale

    def _log_scale(self, f: Array) -> Array:
        """``log scale + variation f₂`` at values f of the second function, (n, s)."""
        bounded: Array = np.clip(f, -100.0, 100.0)
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
        location: Array = several_outputs(f)[:, 0]
        return self.centre_ + self.unit_ * location

    def variance(self, f: ArrayLike) -> Array:
        """Squared scale times the variance of ε."""
        log_scale = self._log_scale(several_outputs(f)[:, 1])
        return np.exp(2.0 * log_scale) * self._unit().variance(np.zeros(1))

    def cdf(self, y: ArrayLike, f: ArrayLike) -> Array:
        """Distribution function of ε at the standardised residual."""
        z, _ = self._standardised(y, f)
        return self._unit().cdf(z, 0.0)

    def sample(self, f: ArrayLike, rng: Generator) -> Array:
        """Draw one observation per row and draw."""
        f = several_outputs(f)
        location = self.mean(f)
        scale = np.exp(self._log_scale(f[:, 1]))
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

    def predictive_log_density(self, y: Array, mixture: LatentMixture) -> Array:
        """``log p(y)`` of each row at its own y (n,), in nats, shape (n,).

        Given the log scale y is normal, or a mixture of normal distributions, whatever
        the ratio of the scale to the standard deviation of the location.
        """
        y = doubles(y)
        result = np.empty(len(mixture.mean))
        for rows in self._blocks(mixture):
            of_rows = mixture.rows(rows)
            location, noise, log_shares = self._location_and_noise(of_rows)
            n, _, s = of_rows.mean.shape
            shift = np.zeros(len(log_shares))
            y_of_components = np.repeat(y[rows], s)
            log_density = expectations.log_density(
                y_of_components,
                location,
                shift,
                noise,
                log_shares,
            )
            log_density = log_density.reshape(n, s)
            result[rows] = logsumexp(log_density, axis=1, b=mixture.weights)
        return result

    def _by_cdf(
        self,
        evaluate: UseOfCdf,
        mixture: LatentMixture,
    ) -> None:
        """Call ``evaluate(cdf, rows)``; see :meth:`Likelihood._by_cdf`."""
        for rows in self._blocks(mixture):
            of_rows = mixture.rows(rows)
            components = self._location_and_noise(of_rows)
            evaluate(_cdf_of(mixture.weights, *components), rows)

    def _blocks(self, mixture: LatentMixture) -> list[Index]:
        """Positions of the rows, in blocks that bound the memory."""
        n, _, s = mixture.mean.shape
        n_noises = _MOST_NODES * len(self._unit_noise()[1])
        size = max(1, BLOCK // (s * n_noises))
        return [np.arange(n)[rows] for rows in row_slices(n, size)]

    def _location_and_noise(
        self,
        mixture: LatentMixture,
    ) -> tuple[LatentMixture, Array, Array]:
        """Every component of a mixture as a location and noise around it.

        Gauss-Hermite nodes ξ for the log scale, and the components of the unit noise::

            y = c + u f₁ + ε,    var ε = t scale² exp(2 variation (m₂ + √v₂ ξ))

        Returns
        -------
        location : LatentMixture
            One component for each of the n s rows and components, in the units of y.
        noise : ndarray of shape (n s, k)
            Variances of ε.
        log_shares : ndarray of shape (k,)
            Logarithms of their weights.
        """
        # moments of both functions, a line for each row and component
        s = mixture.mean.shape[2]
        mean = np.swapaxes(mixture.mean, 1, 2)
        mean = mean.reshape(-1, 2)
        variance = np.broadcast_to(mixture.variance, mixture.mean.shape)
        variance = np.swapaxes(variance, 1, 2)
        variance = variance.reshape(-1, 2)
        # f₂ = m₂ + √v₂ ξ; many components share the work of the nodes
        n_nodes = max(6, int(_MOST_NODES / np.sqrt(s)))
        nodes, masses = expectations.expectation_nodes(1, n_nodes)
        spread = np.sqrt(variance[:, [1]])
        second_function = mean[:, [1]] + spread * nodes[:, 0]
        log_scale = self._log_scale(second_function)
        squared_scale = np.exp(2.0 * log_scale)
        # every node with every component of the unit noise
        unit_variance, log_weights = self._unit_noise()
        noise = squared_scale[:, :, np.newaxis] * unit_variance
        noise = noise.reshape(len(mean), -1)
        log_masses = np.log(masses)
        log_shares = log_masses[:, np.newaxis] + log_weights
        # c + u f₁
        location_mean = mean[:, [0], np.newaxis]
        location_variance = variance[:, [0], np.newaxis]
        location = LatentMixture(
            mean=self.centre_ + self.unit_ * location_mean,
            variance=self.unit_**2 * location_variance,
            weights=np.ones(1),
        )
        return location, noise, log_shares.ravel()

    def _unit_noise(self) -> tuple[Array, Array]:
        """Variances and log weights of the normal components of ε."""
        # smaller weights change no digit of a probability
        _, variances, log_weights = self._unit()._row_noise(-32.0)
        return variances[0], log_weights

    # ---- One function at a time ----------------------------------------------------

    def of_scale(self, amplitude_is_free: bool = False) -> ScaleOfErrors:
        """Of errors of ``(y - c) / u`` given f₂, and the variance of f₁ for each row.

        Its typical scale is free if it is here; a free variation is one where the
        kernel of f₂ has a free amplitude.
        """
        # every second component of a fine rule: errors of 1e-3 of the density
        variance, log_weights = (part[::2] for part in self._unit_noise())
        log_weights = log_weights - logsumexp(log_weights)
        variation = self._scale("variation")
        if amplitude_is_free and "variation" in self.free_:
            # the amplitude of a kernel is learned instead
            variation = 1.0
        likelihood = ScaleOfErrors(
            variation=variation,
            noise=variance,
            log_weights=log_weights,
        )
        scale = self._scale("scale") / self.unit_
        low = scale
        high = scale
        if "scale" in self.free_:
            log_bounds = self.theta_bounds[self.free_.index("scale")]
            low, high = np.exp(log_bounds) / self.unit_
        return likelihood.prepare(np.zeros(1)).with_start(scale=(scale, low, high))

    def with_scale_of(
        self, errors: ScaleOfErrors, kernel: Any, amplitude: float
    ) -> Self:
        """Copy with the scale of these errors, and a kernel of f₂ alone.

        Parameters
        ----------
        errors : ScaleOfErrors
        kernel : sklearn.gaussian_process.kernels.Kernel
            With a prior standard deviation of about one.
        amplitude : float
            Standard deviation by which it has been divided, a factor of `variation`.
        """
        variation = errors.variation * amplitude
        scale = errors._scale("scale") * self.unit_
        return self._replace(scale=scale, variation=variation, scale_kernel_=kernel)

    def example_targets(self, rng: Generator, n: int) -> Array:
        """Draws of ε: any location and scale of y will do."""
        return self._unit().sample(np.zeros(n), rng)

    def initial_latent(self, y: ArrayLike) -> Array:
        """Standardised y, and the typical scale, (n, 2)."""
        location = (doubles(y) - self.centre_) / self.unit_
        log_scale = np.zeros_like(location)
        return np.stack((location, log_scale), axis=-1)


def _cdf_of(
    weights: Array,
    location: LatentMixture,
    noise: Array,
    log_shares: Array,
) -> Cdf:
    """Distribution function of rows, given each component of a mixture (s,) of them.

    Parameters are those that ``_location_and_noise`` returns.
    """
    # the sum of each component of the location and each of the noise, (n, 1, s k)
    n_components = len(weights) * len(log_shares)
    variance = location.variance[:, 0] + noise
    mean = np.broadcast_to(location.mean[:, 0], variance.shape)
    sums = LatentMixture(
        mean=mean.reshape(-1, 1, n_components),
        variance=variance.reshape(-1, 1, n_components),
        weights=np.outer(weights, np.exp(log_shares)).ravel(),
    )
    no_noise = np.zeros(1)

    def cdf(y: Array, rows: Selection) -> Array:
        return expectations.cdf(
            y,
            sums.rows(rows),
            shift=no_noise,
            variance=no_noise[np.newaxis],
            log_shares=no_noise,
        )

    return cdf


class HeteroscedasticGaussian(_Heteroscedastic):
    """Normal noise with a standard deviation that varies with X.

    ``y = f₁ + scale exp(variation f₂) ε``, up to the location and spread of y, with two
    latent functions: of a prior each given nearest rows, and of one prior for chains.
    How much the noise varies is learned; where it does not vary, a fit of a few rows
    sees some variation by chance.

    Parameters
    ----------
    scale : float, default=None
        Typical standard deviation of the noise, in units of y; None estimates it.
    variation : float, default=None
        Standard deviation of its logarithm in units of the latent function; None
        estimates it.

    Attributes
    ----------
    scale_kernel_ : sklearn.gaussian_process.kernels.Kernel or None
        Set by a fit: kernel of f₂; None if it is that of f₁.

    Notes
    -----
    Fits are those of expectation propagation, or chains, see
    :class:`~skgpx.PLSRegressor`.

    Predictive densities and probabilities are averages of those of normal noise over 32
    nodes for the log scale, or fewer for each of many particles.

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

    def _unit(self) -> NormalNoise:
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

    def _unit(self) -> NormalNoise:
        return StudentT(float(self.df), scale=1.0)

    def _fisher_information(self) -> tuple[float, float]:
        df = float(self.df)
        of_location = (df + 1.0) / (df + 3.0)
        of_log_scale = 2.0 * df / (df + 3.0)
        return of_location, of_log_scale

    def _location_and_unit(self, y: Array, weights: Array) -> tuple[float, float]:
        return robust_location_and_spread(y, weights)
