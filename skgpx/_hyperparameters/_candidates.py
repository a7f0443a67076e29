"""Candidate kernels: their coordinates, their hyperpriors and where searches start."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from scipy import sparse
from scipy.linalg import block_diag
from scipy.special import gammaln, ndtr, ndtri
from sklearn.base import clone
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    ExpSineSquared,
    Matern,
    Product,
    Sum,
)

from skgpx._shell.kernel_requests import EVERYTHING, DefaultKernel
from skgpx._shell.validation import Rows, standardisation
from skgpx._types import Array, Generator, Index, Kernel, Mask
from skgpx.kernels import (
    Additive,
    CategoricalKernel,
    Columns,
    Functionals,
    Linear,
    category_columns,
    default_kernel,
    kernel_of_values,
    length_scale_entries,
    stated_log_density,
    stds_of_entry,
    summands,
    theta_entries,
    with_theta,
)
from skgpx.likelihoods import Likelihood

Ties: TypeAlias = Array | sparse.csr_array


@dataclass(frozen=True)
class StudentPrior:
    """Student's t-distribution of the logarithm of a hyperparameter.

    It is a normal distribution where the degrees of freedom are infinite, otherwise the
    std is its scale. An infinite std is a flat prior, of density one.
    """

    mean: float | Array
    std: float | Array
    degrees: float | Array = np.inf

    @cached_property
    def _has_tails(self) -> Mask:
        return np.isfinite(self.degrees)

    @cached_property
    def _nu(self) -> Array:
        """Degrees of freedom, one where they are infinite."""
        return np.where(self._has_tails, self.degrees, 1.0)

    @cached_property
    def _log_constant(self) -> Array:
        """Log density at the mean."""
        # Γ((ν + 1)/2) / Γ(ν/2) / √(ν/2), one in the limit
        nu = self._nu
        log_ratio = gammaln(0.5 * (nu + 1.0)) - gammaln(0.5 * nu) - 0.5 * np.log(nu / 2)
        scale = np.where(np.isfinite(self.std), self.std * np.sqrt(2.0 * np.pi), 1.0)
        return np.where(self._has_tails, log_ratio, 0.0) - np.log(scale)

    @cached_property
    def _is_normal(self) -> bool:
        return not np.any(self._has_tails)

    def log_density(self, value: Array) -> Array:
        """Log density of each logarithm, in nats."""
        exponent: Array = ((value - self.mean) / self.std) ** 2
        if not self._is_normal:
            # (ν + 1) log(1 + z²/ν)
            of_tails = (self._nu + 1.0) * np.log1p(exponent / self._nu)
            exponent = np.where(self._has_tails, of_tails, exponent)
        return self._log_constant - 0.5 * exponent

    def slope(self, value: Array) -> Array:
        """Derivative of the log density."""
        z: Array = (value - self.mean) / self.std
        if self._is_normal:
            return -z / self.std
        of_tails = (self._nu + 1.0) / (self._nu + z**2)
        return -np.where(self._has_tails, of_tails, 1.0) * z / self.std

    def draw(self, size: tuple[int, ...], rng: Generator) -> Array:
        """Draws of this shape, the last axis of which is that of the parameters."""
        z = rng.standard_normal(size)
        if not self._is_normal:
            # t = z / √(χ²_ν / ν)
            chi_squares = rng.chisquare(np.broadcast_to(self._nu, size))
            tails = np.sqrt(chi_squares / self._nu)
            z = np.where(self._has_tails, z / tails, z)
        return self.mean + self.std * z


class NoisePrior(NamedTuple):
    """Distribution of the logarithm of a noise variance that may be nothing.

    Computer experiments have no noise. A single normal distribution of the logarithm
    that suits measurements would charge tens of nats for that; a mixture charges the
    odds.

    Attributes
    ----------
    noise : StudentPrior
        Of the noise of measurements.
    nothing : StudentPrior
        Of a noise too small to be seen, of which the evidence says the order of
        magnitude at most.
    odds : float
        Probability of the latter.
    """

    noise: StudentPrior
    nothing: StudentPrior
    odds: float

    def log_density(self, log_noise: Array) -> Array:
        """Log density of logarithms of noise variances, in nats."""
        return self.log_density_and_slope(log_noise)[0]

    def slope(self, log_noise: Array) -> Array:
        """Derivative of the log density."""
        return self.log_density_and_slope(log_noise)[1]

    def log_density_and_slope(self, log_noise: Array) -> tuple[Array, Array]:
        """Log density of logarithms of noise variances, and its derivative."""
        # log [(1 - π) p(s | noise) + π p(s | nothing)]
        log_noise_joint = np.log1p(-self.odds) + self.noise.log_density(log_noise)
        log_nothing_joint = np.log(self.odds) + self.nothing.log_density(log_noise)
        log_density: Array = np.logaddexp(log_noise_joint, log_nothing_joint)
        share = np.exp(log_nothing_joint - log_density)
        noise_slope = (1.0 - share) * self.noise.slope(log_noise)
        slope: Array = noise_slope + share * self.nothing.slope(log_noise)
        return log_density, slope

    def draw(self, number: int, rng: Generator) -> Array:
        """Logarithms of noise variances, (number,)."""
        is_nothing = rng.random(number) < self.odds
        of_noise = self.noise.draw((number,), rng)
        of_nothing = self.nothing.draw((number,), rng)
        return np.where(is_nothing, of_nothing, of_noise)


class Reference(NamedTuple):
    """Truncated normal distribution of logarithms whose prior has density one.

    Attributes
    ----------
    positions : ndarray of int of shape (r,)
        Coordinates without a prior.
    centre : ndarray of shape (r,)
        Within the bounds, where searches start.
    bounds : ndarray of shape (r, 2)
    """

    positions: Index
    centre: Array
    bounds: Array

    @property
    def _levels(self) -> tuple[Array, Array]:
        """Normal distribution function at the lower and at the upper bounds."""
        z = (self.bounds - self.centre[:, np.newaxis]) / _REFERENCE_STD
        low, high = ndtr(z).T
        return low, high

    def draw(self, number: int, rng: Generator) -> Array:
        """Draws of the coordinates, (number, r)."""
        low, high = self._levels
        levels = rng.uniform(low, high, size=(number, len(low)))
        draws: Array = self.centre + _REFERENCE_STD * ndtri(levels)
        return np.clip(draws, *self.bounds.T)

    def log_density(self, points: Array) -> tuple[Array, Array]:
        """Log density and its gradient, (s,) and (s, q), at points of all coordinates.

        Bounds that are equal have none.
        """
        low, high = self._levels
        z = (points[:, self.positions] - self.centre) / _REFERENCE_STD
        width = self.bounds[:, 1] - self.bounds[:, 0]
        # the density φ(z) / σ over the mass between the bounds
        mass = np.where(width > 0.0, high - low, 1.0)
        log_constant = -np.log(mass * _REFERENCE_STD * np.sqrt(2.0 * np.pi))
        log_density: Array = np.sum(log_constant - 0.5 * z**2, axis=1)
        slopes = np.zeros(points.shape)
        slopes[:, self.positions] = -z / _REFERENCE_STD
        return log_density, slopes


# Orders of the families that compete, from smooth to rough; infinity is the RBF. The
# evidence of few rows prefers the roughest one too often.
SMOOTH_ORDERS = (np.inf, 2.5, 1.5)
ALL_ORDERS = (*SMOOTH_ORDERS, 0.5)
# Of processes that are filtered: an RBF is none of them.
MARKOV_ORDERS = (3.5, *ALL_ORDERS[1:])
# Orders of the additive families, and the most columns: with 50, whose kernels are one
# matrix each, 250 rows take as long as 500 under a product.
ADDITIVE_ORDERS = SMOOTH_ORDERS[:2]
MOST_ADDITIVE_COLUMNS = 50

# A lengthscale is in standard deviations of its column, and its mean grows by
# log(d) / 2 with the number d of columns. An amplitude is in variances of the latent
# function: of smooth functions without noise, as of polynomials, in thousands of them.
# A noise and a part of y are in variances of y. The slopes of a trend share a standard
# deviation.
_LENGTHSCALE = StudentPrior(np.sqrt(2.0), np.sqrt(3.0))
_AMPLITUDE = StudentPrior(1.0, 1.5, degrees=4.0)
# Of the log odds of classes. With a standard deviation of exp(2.5 / 2) = 3.5 the more
# probable class is right in 86 % of the rows, with the largest one, 6, in 91 %.
_CLASS_AMPLITUDE = StudentPrior(2.5, 1.0)
_PART_OF_Y = StudentPrior(-2.0, 2.0)
NOISE_PRIOR = NoisePrior(
    noise=_PART_OF_Y,
    nothing=StudentPrior(-10.0, 4.0),
    odds=0.1,
)
_SLOPE = StudentPrior(-1.0, 1.5)
# Largest standard deviation of the trend of each of several classes: chains of the
# weights of steeper ones do not converge.
_LARGEST_SLOPE = 20.0
_STANDARD = StudentPrior(0.0, 1.0)
# -log ρ of the longest lengthscale of a column of categories, 1000.
_LEAST_DECAY = 1e-6
# Standard deviation, around a start, of a logarithm without a prior.
_REFERENCE_STD = 2.0
# Lengthscales where searches start, and short ones of single columns, as shares of
# long ones.
_START_FACTORS = (1.0, 1.0 / 4.0, 1.0 / 16.0, 1.0 / 64.0)
_SHORT_FACTORS = (1.0 / 8.0, 1.0 / 32.0)
# Up to so many parameters the ties are a dense matrix; of more, a sparse one, which is
# nearly an identity.
_MOST_DENSE = 256


@dataclass(frozen=True)
class Candidate:
    """A kernel with log-parameters ``θ = offset + ties @ u`` and a prior of u.

    A correlation ρ of categories has a lengthscale ℓ as coordinate, ``ρ = exp(-1/ℓ²)``:
    two random rows of a column are √2 standard deviations apart, where an RBF of this
    lengthscale has that correlation. Its parameter is ``-exp(-2 (offset + ties @ u))``.

    Parameters
    ----------
    name : str
    kernel : sklearn.gaussian_process.kernels.Kernel
        With p free parameters.
    offset : ndarray of shape (p,)
        Logarithms of the units in which the parameters are measured.
    ties : ndarray or sparse array of shape (p, q)
        Not negative. Tied parameters share a coordinate.
    mean, std, degrees : ndarray of shape (q,)
        Of the `StudentPrior` of u; the std is infinite without a prior.
    is_length_scale : ndarray of bool of shape (q,)
        Coordinates that are lengthscales in standard deviations of their columns.
    is_correlation : ndarray of bool of shape (p,)
        Parameters that are logarithms of correlations with such a coordinate.
    log_long : float
        Logarithm of 2√d standard deviations, where lengthscales start.
    unit : float
        Variance of y.
    is_given : bool
        Whether the kernel is the user's: its values are then a start as well.
    stated : sequence of distributions or None
        Priors that the user's kernel states, of each parameter and of the noise after
        them, see `stated_priors`.
    """

    name: str
    kernel: Kernel
    offset: Array
    ties: Ties
    mean: Array
    std: Array
    degrees: Array
    is_length_scale: Mask
    is_correlation: Mask
    log_long: float
    unit: float
    is_given: bool = False
    stated: Sequence[Any] = ()

    @property
    def n_free(self) -> int:
        """Number of coordinates q."""
        return int(self.ties.shape[1])

    @cached_property
    def bounds(self) -> Array:
        """Bounds of u, (q, 2), within which no tied parameter leaves its own bounds."""
        # low ≤ offset + ties u ≤ high, one coordinate at a time
        low_and_high = self._log_scales_of(self._kernel_bounds.reshape(-1, 2).T)
        centred = (low_and_high - self.offset).T
        ties = sparse.coo_array(self.ties)
        parameters, coordinates = ties.nonzero()
        low, high = centred[parameters].T / ties.data
        lower = np.full(self.n_free, -np.inf)
        upper = np.full(self.n_free, np.inf)
        np.maximum.at(lower, coordinates, low)
        np.minimum.at(upper, coordinates, high)
        return np.column_stack((lower, np.maximum(lower, upper)))

    @property
    def is_additive(self) -> bool:
        """Whether it is a default candidate of sums of functions of few columns."""
        kernel = kernel_of_values(self.kernel)
        is_sum = any(type(part) is Additive for part in summands(kernel))
        return is_sum and not self.is_given

    @property
    def sees_functionals(self) -> bool:
        """Whether rows see slopes of f, means over boxes, or differences."""
        return type(self.kernel) is Functionals

    def of_functionals(self, functionals: Functionals) -> Candidate:
        """The same prior of f, of rows that see functionals of it."""
        kernel = Functionals(self.kernel, functionals.resolution)
        return replace(self, kernel=kernel)

    @cached_property
    def _kernel_bounds(self) -> Array:
        """Bounds of log-parameters, which a kernel of several terms looks up slowly."""
        return self.kernel.bounds

    @cached_property
    def _prior(self) -> StudentPrior:
        return StudentPrior(self.mean, self.std, self.degrees)

    def log_parameters(self, u: Array) -> Array:
        """``θ = offset + ties @ u``, (p,), or (s, p) for u of shape (s, q).

        ``log ρ = -1 / ℓ²`` where that is a logarithm of ℓ.
        """
        log_scales = self._log_scales(u)
        theta: Array = log_scales.copy()
        theta[..., self.is_correlation] = -np.exp(
            -2.0 * log_scales[..., self.is_correlation]
        )
        return theta

    def coordinate_slopes(self, theta: Array, slopes: Array) -> Array:
        """Slopes in u, (q,) or (s, q), from slopes in θ of the shape of θ."""
        # ∂ log ρ / ∂ log ℓ = 2 / ℓ² = -2 log ρ
        rates = np.where(self.is_correlation, -2.0 * theta, 1.0)
        return (rates * slopes) @ self.ties

    def _log_scales(self, u: Array) -> Array:
        """``offset + ties @ u``, logarithms of parameters and of lengthscales."""
        return self.offset + u @ self.ties.T

    def _log_scales_of(self, theta: Array) -> Array:
        """``offset + ties @ u`` of log-parameters (..., p)."""
        log_scales: Array = theta.copy()
        decays = np.maximum(-theta[..., self.is_correlation], _LEAST_DECAY)
        log_scales[..., self.is_correlation] = -0.5 * np.log(decays)
        return log_scales

    def clip(self, u: Array) -> Array:
        """The nearest coordinates within the bounds."""
        return np.clip(u, *self.bounds.T)

    def kernel_at(self, u: Array) -> Kernel:
        """Kernel at the coordinates u, within its bounds."""
        if not len(self.offset):
            return self.kernel
        theta = np.clip(self.log_parameters(u), *self._kernel_bounds.T)
        return with_theta(self.kernel, theta)

    def coordinates_of(self, kernel: Kernel) -> Array:
        """Coordinates of a kernel of this form; tied parameters are averaged."""
        squares = np.sum(self.ties**2, axis=0)
        shares = self.ties / squares
        return shares.T @ (self._log_scales_of(kernel.theta) - self.offset)

    def log_prior(
        self,
        point: Array,
        likelihood: Likelihood | None = None,
    ) -> tuple[Any, Array]:
        """Log density of the hyperprior at a point, and its gradient.

        Parameters
        ----------
        point : ndarray of shape (q + r,) or (s, q + r)
            Coordinates u, and the log-parameters of the likelihood, if it is given.
        likelihood : Likelihood, optional
            Noise of y has a default prior; other scales have none.

        Returns
        -------
        log_density : float or ndarray of shape (s,)
        gradient : ndarray of the shape of `point`
        """
        q = self.n_free
        u = point[..., :q]
        scales = point[..., q:]
        log_density = np.sum(self._prior.log_density(u), axis=-1)
        slope = self._prior.slope(u)
        scales_slope = np.zeros_like(scales)
        power = _power_of_noise(likelihood)
        if power and scales.shape[-1] and not any(self.stated[-1:]):
            # log σ² is the logarithm of the first scale, or twice that
            log_noise = power * scales[..., 0] - np.log(self.unit)
            of_noise, noise_slope = NOISE_PRIOR.log_density_and_slope(log_noise)
            log_density = log_density + of_noise
            scales_slope[..., 0] = power * noise_slope
        gradient = np.concatenate((slope, scales_slope), axis=-1)
        if not any(self.stated):
            return log_density, gradient
        # priors of parameters that the user states, at the parameters themselves
        p = len(self.offset)
        theta = np.concatenate((self.log_parameters(u), scales), axis=-1)
        theta_log_density, theta_slope = stated_log_density(self.stated, theta)
        gradient[..., :q] += theta_slope[..., :p] @ self.ties
        gradient[..., q:] += theta_slope[..., p:]
        return log_density + theta_log_density, gradient

    def reference(self, likelihood: Likelihood) -> Reference:
        """Distribution, for points of `log_prior`, of what has no prior."""
        u = self.clip(self.starts()[-1])
        has_prior = np.zeros(len(u) + len(likelihood.theta), dtype=bool)
        has_prior[: len(u)] = np.isfinite(self.std)
        if _power_of_noise(likelihood) and len(likelihood.theta):
            has_prior[len(u)] = True
        for i, distribution in enumerate(self.stated[: len(has_prior)]):
            if distribution is not None:
                has_prior[i] = True
        bounds = np.concatenate((self.bounds, likelihood.theta_bounds))
        positions = np.flatnonzero(~has_prior)
        centre = np.append(u, likelihood.theta)[positions]
        return Reference(positions, centre, bounds[positions])

    def draw_prior(
        self,
        number: int,
        likelihood: Likelihood,
        rng: Generator,
    ) -> Array:
        """Points that are drawn from the prior of `log_prior`, (number, q + r).

        What has no prior is drawn from the `reference`. Other draws are not limited to
        the bounds.
        """
        q = self.n_free
        points = np.empty((number, q + len(likelihood.theta)))
        reference = self.reference(likelihood)
        points[:, reference.positions] = reference.draw(number, rng)
        proper = np.flatnonzero(np.isfinite(self.std))
        prior = StudentPrior(self.mean[proper], self.std[proper], self.degrees[proper])
        points[:, proper] = prior.draw((number, len(proper)), rng)
        power = _power_of_noise(likelihood)
        if power and len(likelihood.theta):
            log_noise = NOISE_PRIOR.draw(number, rng) + np.log(self.unit)
            points[:, q] = log_noise / power
        # a kernel that states priors has its parameters for coordinates
        offset = np.append(self.offset, np.zeros(len(likelihood.theta)))
        for i, distribution in enumerate(self.stated[: points.shape[1]]):
            if distribution is not None:
                values = distribution.rvs(size=number, random_state=rng)
                positive = np.where(values > 0.0, values, np.nan)
                # a logarithm that does not exist is beyond the bounds
                log_values = np.nan_to_num(np.log(positive), nan=-np.inf)
                points[:, i] = log_values - offset[i]
        return points

    def starts(self) -> list[Array]:
        """Coordinates with lengthscales of 2√d standard deviations, and shorter ones.

        A user's kernel has two starts: its values, and long lengthscales with the
        medians of the priors that it states.
        """
        u = self.coordinates_of(self.kernel)
        if not np.any(self.is_length_scale) and not any(self.stated):
            return [u]
        starts = []
        for factor in _START_FACTORS:
            log_length_scale = self.log_long + np.log(factor)
            start = np.where(self.is_length_scale, log_length_scale, u)
            starts.append(start)
        long = starts[0]
        for i, distribution in enumerate(self.stated[: len(u)]):
            if distribution is not None:
                log_median = np.log(distribution.median())
                long[i] = log_median - self.offset[i]
        if self.is_given:
            return [u, long]
        return starts

    def shortened(self, u: Array) -> Array:
        """Coordinates with lengthscales of at most √d / 2 standard deviations."""
        longest = self.log_long + np.log(_START_FACTORS[1])
        return np.where(self.is_length_scale, np.minimum(u, longest), u)

    def short_starts(self, columns: Index) -> list[Array]:
        """Long lengthscales but in one column at a time, where it is short.

        `columns` are the coordinates of these lengthscales.
        """
        if np.sum(self.is_length_scale) < 2:
            return []
        long = self.starts()[0]
        starts = []
        for factor in _SHORT_FACTORS:
            for column in columns:
                is_short = np.arange(len(long)) == column
                starts.append(long + np.log(factor) * is_short)
        return starts

    def with_one_length_scale(self, name: str) -> Candidate:
        """Tie the lengthscales of all numeric columns, in the units of the offset.

        Of a candidate without ties.
        """
        is_tied = self.is_length_scale & ~self.is_correlation
        # the first lengthscale stands for all
        first = int(np.argmax(is_tied))
        is_free = ~is_tied
        is_free[first] = True
        free = np.flatnonzero(is_free)
        ties = np.zeros((self.n_free, len(free)))
        ties[free, np.arange(len(free))] = 1.0
        shared = int(np.searchsorted(free, first))
        ties[is_tied, shared] = 1.0
        return replace(
            self,
            name=name,
            ties=ties,
            mean=self.mean[free],
            std=self.std[free],
            degrees=self.degrees[free],
            is_length_scale=self.is_length_scale[free],
        )

    def without_function(self) -> Candidate:
        """Fix long lengthscales and the smallest amplitude: y is noise."""
        long = self.starts()[0]
        u = np.where(self.is_length_scale, long, self.bounds[:, 0])
        fixed = self.without_coordinates(self._log_scales(u))
        return replace(fixed, name="noise around a constant")

    def as_given(self) -> Candidate:
        """Fix all parameters where they are, as the user may."""
        offset = self._log_scales_of(self.kernel.theta)
        return replace(self.without_coordinates(offset), is_given=True)

    def without_coordinates(self, offset: Array) -> Candidate:
        """The kernel at these log-parameters; as it is if there are none."""
        return replace(
            self,
            offset=offset,
            ties=np.zeros((len(offset), 0)),
            mean=np.empty(0),
            std=np.empty(0),
            degrees=np.empty(0),
            is_length_scale=np.zeros(0, dtype=bool),
        )

    def _plus(self, part: Kernel) -> Kernel:
        if not self.sees_functionals:
            return self.kernel + part
        return Functionals(self.kernel.kernel + part, self.kernel.resolution)

    def plus(
        self,
        part: Kernel,
        name: str,
        offset: Array,
        ties: Array,
        priors: Sequence[StudentPrior],
        n_correlations: int = 0,
    ) -> Candidate:
        """Add a kernel with log-parameters ``offset + ties @ u``.

        `priors` has one entry for each new coordinate. The last ones are those of
        correlations of categories.
        """
        mean = np.array([prior.mean for prior in priors])
        std = np.array([prior.std for prior in priors])
        degrees = np.array([prior.degrees for prior in priors])
        return replace(
            self,
            name=f"{self.name}, and {name}",
            kernel=self._plus(part),
            offset=np.append(self.offset, offset),
            ties=_block_diagonal(self.ties, ties),
            mean=np.append(self.mean, mean),
            std=np.append(self.std, std),
            degrees=np.append(self.degrees, degrees),
            is_length_scale=np.append(
                self.is_length_scale,
                np.zeros(len(mean), dtype=bool),
            ),
            is_correlation=np.append(
                self.is_correlation,
                np.arange(len(offset)) >= len(offset) - n_correlations,
            ),
        )


def points_of(rows: Rows, kernel: Kernel) -> Rows:
    """Rows as points of f, whatever they see of it there."""
    if type(kernel) is not Functionals:
        return rows
    return rows._replace(X=rows.X[:, : kernel.n_features])


def _block_diagonal(first: Ties, second: Array) -> Ties:
    if sparse.issparse(first):
        return sparse.block_diag((first, second), format="csr")
    return block_diag(first, second)


def _power_of_noise(likelihood: Likelihood | None) -> float:
    """Power of the first scale that is a variance of y; zero if none is.

    The noise of a Student's t-distribution is in squares of its scale.
    """
    if likelihood is None:
        return 0.0
    if likelihood.has_closed_form:
        return 1.0
    if likelihood.location_scale and likelihood.free_[:1] == ("scale",):
        return 2.0
    return 0.0


# ---- Parts that are added to a candidate ---------------------------------------------


def with_trend(
    candidate: Candidate,
    rows: Rows,
    likelihood: Likelihood,
    of_groups: bool = False,
) -> Candidate:
    """Add a linear function to a default kernel, with one std for all slopes.

    It is in standard deviations of the latent function for one of each column. That of
    groups, of equal categories, has correlations between the slopes of two groups.
    """
    rows = points_of(rows, candidate.kernel)
    n_columns = rows.X.shape[1]
    categories = category_columns(candidate.kernel, n_columns)
    numeric = np.setdiff1d(np.arange(n_columns), categories)
    X = np.ascontiguousarray(rows.X[:, numeric])
    d = len(numeric)
    # of distant entries as well, which a line follows
    centre, column_std = standardisation(X, rows.weights)
    latent_std = np.sqrt(candidate.unit)
    unit = np.full(d, latent_std) / column_std
    # in the unit of the amplitude
    amplitude = _amplitude_prior(likelihood)
    mean = _SLOPE.mean + 0.5 * (amplitude.mean - _AMPLITUDE.mean) - 0.5 * np.log(d)
    prior = StudentPrior(mean, _SLOPE.std)
    largest = 1e2
    if likelihood.n_outputs_ > 1:
        largest = _LARGEST_SLOPE / np.sqrt(d)
    trend = Linear(
        slope=np.exp(mean) * unit,
        slope_bounds=np.outer(unit, (1e-3, largest)),
        centre=centre,
    )
    kernel = _of_columns(trend, numeric, n_columns)
    n_correlations = 0
    if of_groups:
        n_correlations = len(categories)
        correlations = CategoricalKernel(np.full(n_correlations, 0.5))
        kernel = kernel * Columns(correlations, categories)
    return candidate.plus(
        kernel,
        "a linear trend" + of_groups * " of groups",
        offset=np.append(np.log(unit), np.zeros(n_correlations)),
        ties=block_diag(np.ones((d, 1)), np.eye(n_correlations)),
        priors=[prior] + [_LENGTHSCALE] * n_correlations,
        n_correlations=n_correlations,
    )


def with_autoregression(candidate: Candidate, rows: Rows, step: float) -> Candidate:
    """Add an autoregression of the first order with a memory of about one step.

    Its amplitude has the prior of a noise: it is a part of y.
    """
    scale = _column_std(rows)
    span = float(np.ptp(rows.X))
    bounds = (1e-2 * step, 1e2 * span)
    memory = Matern(step, bounds, nu=0.5)
    return candidate.plus(
        _share_of_y(-4.0, candidate.unit) * memory,
        "an autoregression",
        offset=np.log((candidate.unit, scale)),
        ties=np.eye(2),
        priors=[_PART_OF_Y, _LENGTHSCALE],
    )


def with_season(
    candidate: Candidate,
    rows: Rows,
    period: float,
    is_markov: bool = False,
) -> Candidate:
    """Add a function of about this period, which changes slowly.

    Its amplitude has the prior of a noise: it is a part of y. Abundant rows of a series
    have one that is Markov.
    """
    scale = _column_std(rows)
    span = float(np.ptp(rows.X))
    memory = max(0.1 * span, period)
    bounds = (period, 1e2 * span)
    change: Kernel = RBF(memory, bounds)
    shortest = 0.1
    if is_markov:
        # of some ten harmonics
        change = Matern(memory, bounds, nu=1.5)
        shortest = 0.4
    cycle = ExpSineSquared(
        length_scale=1.0,
        periodicity=period,
        length_scale_bounds=(shortest, 10.0),
        periodicity_bounds=(0.8 * period, 1.25 * period),
    )
    # a period in cycles over the rows: the evidence has a peak of that width
    ties = np.diag((1.0, 1.0, 1.0, period / span))
    return candidate.plus(
        _share_of_y(-2.0, candidate.unit) * change * cycle,
        "a season",
        offset=np.log((candidate.unit, scale, 1.0, period)),
        ties=ties,
        priors=[_PART_OF_Y, _LENGTHSCALE, _STANDARD, _STANDARD],
    )


def _column_std(rows: Rows) -> float:
    """Standard deviation of the single column, half its default lengthscale."""
    default = default_kernel(rows.X, rows.weights)
    return 0.5 * float(default.k2.length_scale)


def _share_of_y(log_share: float, unit: float) -> ConstantKernel:
    """Amplitude of a part of y."""
    bounds = (1e-5 * unit, 1e3 * unit)
    return ConstantKernel(np.exp(log_share) * unit, bounds)


# ---- Candidates of a user's kernel, and of None --------------------------------------


def of_kernel(
    kernel: Kernel,
    rows: Rows,
    unit: float,
    name: str = "as given",
    is_given: bool = True,
    amplitude: StudentPrior = _AMPLITUDE,
    n_together: int | None = None,
    default: Kernel | None = None,
) -> Candidate:
    """A kernel with all its parameters free, under the hyperprior.

    Lengthscales have a log-normal prior of location ``√2 + ½ log d`` and scale √3 in
    standard deviations of the columns, which lets them grow with the dimension [1]_, or
    with the most columns that interact, `n_together`, by default those of the kernel;
    amplitudes have one around the variance `unit` of the latent function. Correlations
    of categories have the prior of the lengthscales that they stand for. Other
    parameters have none. A kernel that is given by the user has its bounds and its
    stated priors only.

    References
    ----------
    .. [1] Hvarfner, Hellsten and Nardi, "Vanilla Bayesian optimization performs great
       in high dimensions", ICML 2024.
    """
    p = len(kernel.theta)
    d = rows.X.shape[1]
    offset = np.zeros(p)
    mean = np.zeros(p)
    std = np.full(p, np.inf)
    degrees = np.full(p, np.inf)
    is_length_scale = np.zeros(p, dtype=bool)
    is_correlation = np.zeros(p, dtype=bool)
    default = default or default_kernel(rows.X, rows.weights)
    column_std = np.broadcast_to(default.k2.length_scale, (d,)) / (2.0 * np.sqrt(d))
    if n_together is None:
        n_together = kernel.order if type(kernel) is Additive else d
    length_scale_mean = _LENGTHSCALE.mean + 0.5 * np.log(n_together)
    ties: Ties = np.eye(p)
    if p > _MOST_DENSE:
        ties = sparse.eye_array(p, format="csr")
    for entry, part in theta_entries(kernel):
        if entry.endswith(("constant_value", "variances")):
            offset[part] = np.log(unit)
            mean[part] = _AMPLITUDE.mean
            if not is_given:
                mean[part] = amplitude.mean
                std[part] = amplitude.std
                degrees[part] = amplitude.degrees
        elif entry.endswith("length_scale"):
            entry_std = stds_of_entry(kernel, entry, column_std)
            n_scales = part.stop - part.start
            if n_scales <= 1:
                entry_std = entry_std.mean(keepdims=True)
            offset[part] = np.log(entry_std)
            mean[part] = length_scale_mean
            if not is_given:
                std[part] = _LENGTHSCALE.std
            is_length_scale[part] = True
        elif entry.endswith("correlation") and not is_given:
            mean[part] = length_scale_mean
            std[part] = _LENGTHSCALE.std
            is_length_scale[part] = True
            is_correlation[part] = True
    return Candidate(
        name=name,
        kernel=kernel,
        offset=offset,
        ties=ties,
        mean=mean,
        std=std,
        degrees=degrees,
        is_length_scale=is_length_scale,
        is_correlation=is_correlation,
        log_long=float(np.log(2.0 * np.sqrt(n_together))),
        unit=unit,
        is_given=is_given,
    )


def _of_columns(kernel: Kernel, columns: Index, d: int) -> Kernel:
    """The kernel as one of these columns of d."""
    if len(columns) == d:
        return kernel
    return Columns(kernel, columns.tolist())


def default_candidates(
    rows: Rows,
    likelihood: Likelihood,
    unit: float,
    request: DefaultKernel = EVERYTHING,
    orders: Sequence[float] | None = None,
) -> list[list[Candidate]]:
    """Kernels that stand for None: families, with one lengthscale or one a column.

    "One" is in standard deviations of the columns; for several classes also in the unit
    of the columns, such as pixels. With columns of categories they are kernels of the
    other columns, times a kernel of categories. Where not all columns interact, they
    are sums of such kernels of groups of columns, or additive kernels.

    Parameters
    ----------
    rows : Rows
    likelihood : Likelihood
        Prepared.
    unit : float
        Variance of the latent function.
    request : DefaultKernel
        Columns of categories, and which columns interact.
    orders : sequence of float, optional
        Of the Matern kernels that compete, from smooth to rough; infinity is the RBF.
        None is `SMOOTH_ORDERS` for one latent function, and the RBF alone for several,
        which have few inducing points.

    Returns
    -------
    families : list of lists of Candidate
        A family for each order, from simple to complex.
    """
    if orders is None:
        orders = SMOOTH_ORDERS if likelihood.n_outputs_ == 1 else SMOOTH_ORDERS[:1]
    n_columns = rows.X.shape[1]
    default = default_kernel(rows.X, rows.weights)
    groups, most_together = request.interacting(n_columns)
    n_numeric = n_columns - len(request.columns)
    amplitude = ConstantKernel(
        unit, (1e-3 * unit, _largest_amplitude(likelihood, unit))
    )
    families = []
    for order in orders:
        name = "RBF" if np.isinf(order) else f"Matern {order}"
        factors = [
            _factors_of(group, order, rows, request, default) for group in groups
        ]
        kernel = reduce(Sum, [reduce(Product, part, amplitude) for part in factors])
        if most_together < n_columns:
            name = f"sum of {name}s of at most {most_together} columns"
        if most_together < len(groups[0]):
            kernel = Additive(
                reduce(Product, factors[0]),
                order=most_together,
                variances=np.full(most_together, unit),
                variances_bounds=amplitude.constant_value_bounds,
            )
        anisotropic = of_kernel(
            kernel,
            rows,
            unit,
            name=f"{name}, one lengthscale per column",
            is_given=False,
            amplitude=_amplitude_prior(likelihood),
            n_together=most_together,
            default=default,
        )
        family = [anisotropic]
        if n_numeric >= 2:
            isotropic = anisotropic.with_one_length_scale(f"{name}, one lengthscale")
            family = [isotropic, anisotropic]
        is_product = type(kernel) is Product and 2 <= n_numeric == n_columns
        if likelihood.n_outputs_ > 1 and is_product:
            in_unit = _in_one_unit(anisotropic)
            in_unit = in_unit.with_one_length_scale(f"{name}, one in the unit of X")
            family.insert(1, in_unit)
        families.append(family)
    return families


def _factors_of(
    group: Sequence[int],
    order: float,
    rows: Rows,
    request: DefaultKernel,
    default: Kernel,
) -> list[Kernel]:
    """A kernel of those columns of a group that are numbers, and one of categories."""
    d = rows.X.shape[1]
    factors: list[Kernel] = []
    numeric = np.setdiff1d(group, request.columns)
    if len(numeric):
        if len(numeric) < d:
            X = np.ascontiguousarray(rows.X[:, numeric])
            default = default_kernel(X, rows.weights)
        shape = default.k2
        if np.isfinite(order):
            shape = Matern(shape.length_scale, shape.length_scale_bounds, nu=order)
        factors.append(_of_columns(shape, numeric, d))
    codes = np.intersect1d(group, request.columns)
    if len(codes):
        correlations = clone(request.kernel)
        correlations.correlation = correlations.correlation[: len(codes)]
        factors.append(Columns(correlations, codes.tolist()))
    return factors


def _largest_amplitude(likelihood: Likelihood, unit: float) -> float:
    """Largest variance of the latent function."""
    if likelihood.has_closed_form:
        # of a function without noise
        return 1e5 * unit
    if likelihood.log_scale and not likelihood.location_scale:
        # a standard deviation of 6: on separable classes evidence grows without end
        return 36.0
    return 1e3 * unit


def products_of(
    families: Sequence[Sequence[Candidate]],
) -> list[Sequence[Candidate]]:
    """Families beside which sums of functions of few columns compete.

    All of them where no others are allowed.
    """
    products = [family for family in families if not family[-1].is_additive]
    return products or list(families)


def _amplitude_prior(likelihood: Likelihood) -> StudentPrior:
    """Prior of the amplitude, in variances of the latent function."""
    if likelihood.has_closed_form:
        return _AMPLITUDE
    if has_log_odds(likelihood):
        return _CLASS_AMPLITUDE
    # only functions without noise have the large amplitudes
    return StudentPrior(_AMPLITUDE.mean, _AMPLITUDE.std)


def has_log_odds(likelihood: Likelihood) -> bool:
    """Whether the latent functions are the log odds of classes."""
    n_classes = max(likelihood.n_outputs_, 2)
    return likelihood.log_scale and likelihood.takes_classes(n_classes)


def _in_one_unit(candidate: Candidate) -> Candidate:
    """The candidate with its lengthscales in one unit for all columns."""
    rbf: RBF = candidate.kernel.k2
    scales = np.asarray(rbf.length_scale)
    bounds = np.asarray(rbf.length_scale_bounds)
    unit = float(np.sqrt(np.mean(scales**2)))
    unit_bounds = unit * bounds / scales[:, np.newaxis]
    unit_rbf = RBF(np.full_like(scales, unit), unit_bounds)
    offset = candidate.offset.copy()
    offset[candidate.is_length_scale] += np.log(unit / scales)
    kernel = candidate.kernel.k1 * unit_rbf
    return replace(candidate, kernel=kernel, offset=offset)


def stretched(kernel: Kernel, log_factor: float) -> Kernel:
    """Multiply the free lengthscales of a kernel by a factor, within their bounds."""
    theta = kernel.theta.copy()
    if not len(theta):
        return kernel
    for entries in length_scale_entries(kernel):
        theta[entries] += log_factor
    low, high = kernel.bounds.T
    return kernel.clone_with_theta(np.clip(theta, low, high))
