"""Likelihoods on another scale of y: a monotone function of it is f plus noise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import stdtrit

from skgpx._numerics.expectations import product_nodes
from skgpx._numerics.mixture import LatentMixture
from skgpx._numerics.rows import row_slices
from skgpx._numerics.warping import POWER_BOUNDS, TRANSFORMS, Warp
from skgpx._types import Array, ArrayLike, Generator, Selection
from skgpx.likelihoods import _predictive
from skgpx.likelihoods._base import Likelihood, Scales, doubles, is_number
from skgpx.likelihoods._censored import Tobit
from skgpx.likelihoods._gaussian import Gaussian
from skgpx.likelihoods._links import ExpRate
from skgpx.likelihoods._log_rates import check_positive
from skgpx.likelihoods._student_t import StudentT

_LOG = ExpRate()
# Attributes of a scale of which several targets have one each.
_OF_TARGETS = ("transform", "power", "power_std_", "probability_")
# Units below the middle of y, and nats of its density, where no probability is.
_IMPOSSIBLE = 1e8
# Nodes of an average over normal noise, and levels of one over other noise, which leave
# out half a percent of each tail.
_N_NODES = 16
_LEVELS = (np.arange(100) + 0.5) / 100


class OnScale(Likelihood):
    """Another likelihood, of ``g(y)`` with a monotone function g.

    ``p(y | f) = p(g(y) | f; base) g'(y)``: the posterior of f is that of the base for
    targets ``g(y)``. Quantiles of y are ``g⁻¹`` of those of ``g(y)``.
    """

    has_scale_of_y = True
    known_: Array | float = 0.0

    @property
    def base(self) -> Likelihood:
        """Likelihood of ``g(y)``."""
        raise NotImplementedError

    def forward(self, y: ArrayLike) -> Array:
        """``g(y)``; the smallest values where y is below the support."""
        raise NotImplementedError

    def inverse(self, z: ArrayLike) -> Array:
        """``y`` with ``g(y) = z``."""
        raise NotImplementedError

    def log_slope(self, y: ArrayLike) -> Array:
        """``log g'(y)``, of rows that are observed; zero of bounds."""
        raise NotImplementedError

    def nll(self, y: ArrayLike, f: ArrayLike) -> Array:
        """`nll` of g(y), less ``log g'(y)``, the Jacobian."""
        return self.base.nll(self.forward(y), f) - self.log_slope(y)

    def gradient(self, y: ArrayLike, f: ArrayLike) -> Array:
        """Gradient of the `nll` of g(y)."""
        return self.base.gradient(self.forward(y), f)

    def curvature(self, y: ArrayLike, f: ArrayLike) -> Array:
        """Curvature of the `nll` of g(y)."""
        return self.base.curvature(self.forward(y), f)

    def cdf(self, y: ArrayLike, f: ArrayLike) -> Array:
        """``P(g(Y) <= g(y))``, of the true value."""
        return self.base.cdf(self.forward(y), f)

    def sample(self, f: ArrayLike, rng: Generator) -> Array:
        """Draw true values."""
        return self.inverse(self.base.sample(f, rng))

    def base_latent(self, y: Array, weights: Array) -> float | Array:
        """That of g(y)."""
        return self.base.base_latent(self.forward(y), weights)

    def initial_latent(self, y: ArrayLike) -> Array:
        """That of g(y)."""
        return self.base.initial_latent(self.forward(y))

    def centred(self, variance: float) -> Self:  # noqa: ARG002
        """Return the copy itself: the base is a mean of g(y)."""
        return self

    def starting_scales(self, y: Array, weights: Array) -> Scales:
        """Starts and bounds for g(y)."""
        return self.base.starting_scales(self.forward(y), weights)

    def predictive_log_density(self, y: Array, mixture: LatentMixture) -> Array:
        """``log p(y)`` of each row, of bounds the log probability beyond them, (n,)."""
        log_slope = self.log_slope(np.asarray(y)[:, np.newaxis])[:, 0]
        return self.base.predictive_log_density(self.forward(y), mixture) + log_slope

    def predictive_cdf(self, y: Array, mixture: LatentMixture) -> Array:
        """``P(Y <= y)`` of each row at its own y (n,), shape (n,)."""
        return self.base.predictive_cdf(self.forward(y), mixture)

    def predictive_quantile(self, p: ArrayLike, mixture: LatentMixture) -> Array:
        """``y`` with ``P(Y <= y) = p`` for each p (q,), shape (n, q)."""
        return self.inverse(self.base.predictive_quantile(p, mixture))


class Warped(OnScale):
    """Noise on another scale of y, which is learned: a warped Gaussian process [1]_.

    ``g(y) = f + e`` with Yeo and Johnson's or Box and Cox's function g. Its power is 1
    for y itself and 0 for a logarithm. `PLSRegressor` learns it with the kernel, by the
    evidence of y, so that skewed noise, and noise that grows with the mean, are normal.

    Parameters
    ----------
    likelihood : Likelihood, default=None
        Of g(y), one that is `location_scale`, such as `Gaussian`, `StudentT` or
        `Tobit`; scales are in the units of y in the middle of the data, where the slope
        of g is one. None is ``Gaussian()``.
    transform : {"yeo-johnson", "box-cox"} or tuple of these, default=None
        "box-cox" is for positive y. None learns which one it is, with the power, and is
        "yeo-johnson" where the power is stated. A tuple has one for each of several
        targets.
    power : float or tuple of float, default=None
        From 0 to 2: no other powers leave the whole real line to g(y). None learns it,
        of each target by itself, under normal noise of all rows, censored ones with
        their bounds as values. A tuple has one for each of several targets.

    Attributes
    ----------
    warp_ : Warp
        The function g, set by `prepare`; of several targets, which `forward` and
        `inverse` then expect on the last axis.
    power_std_ : float or tuple of float
        Standard deviation of the posterior of the power; zero of one that is stated,
        and of a logarithm.
    probability_ : float or tuple of float
        Of a function that was learned, beside y itself, by the evidence of a sample.

    Notes
    -----
    Quantiles, intervals, densities and the continuous ranked probability score follow
    from those of g(y), exactly. Means and variances of y are averages over its
    distribution, by quadrature (of noise that is not normal, between its half percents:
    powers of a variable with heavy tails may have no mean). ``g⁻¹`` of the mean of g(y)
    is the median of y. Where a normal g(y) is below the range of Box and Cox's
    function, y is zero. One range of the rows beyond them g becomes a straight line:
    the mean of an exponential would be that of values that no row has come near.

    References
    ----------
    .. [1] Snelson, Rasmussen and Ghahramani, "Warped Gaussian processes", NeurIPS 2003.

    Examples
    --------
    >>> import numpy as np
    >>> from skgpx.likelihoods import Gaussian, Warped
    >>> y = np.array([0.5, 1.0, 2.0])
    >>> likelihood = Warped(Gaussian(0.25), transform="box-cox", power=0.0).prepare(y)
    >>> likelihood.forward([1.0, np.e]).round(3), likelihood.inverse([2.0]).round(3)
    (array([1., 2.]), array([2.718]))
    >>> likelihood.mean([1.0]).round(3)
    array([1.133])
    """

    warp_: Warp
    power_std_: Any = 0.0
    probability_: Any = 1.0

    def __init__(
        self,
        likelihood: Likelihood | None = None,
        transform: str | tuple[str, ...] | None = None,
        power: float | tuple[float, ...] | None = None,
    ) -> None:
        self.likelihood = likelihood
        self.transform: Any = transform
        self.power: Any = power

    @property
    def base(self) -> Likelihood:
        """Likelihood of ``g(y)``."""
        if self.likelihood is None:
            return Gaussian()
        return self.likelihood

    @property
    def description(self) -> str:
        """Which function g is, in words, with the posterior of its power."""
        if isinstance(self.power, tuple):
            return "; ".join(
                getattr(of_target(self, j), "description", "y")
                for j in range(len(self.power))
            )
        power = f"{self.power:.3g}"
        if self.power_std_:
            power += f" ± {self.power_std_:.2g}"
        if self.probability_ < 1.0:
            power += f", probability {self.probability_:.2g}"
        return f"{self.transform.title()}, power {power} (0 is a logarithm, 1 is y)"

    @property
    def support(self) -> tuple[Any, float]:  # type: ignore[override]
        """The interval of y; of several targets, the lower ends (t,) and the upper."""
        return Warp(self.transform, 0.0, 1.0).lowest, np.inf

    @property
    def row_quantity(self) -> str | None:  # type: ignore[override]
        """Censoring, where the base has it; the noise of a row is not one of g(y)."""
        quantity = self.base.row_quantity
        return quantity if quantity == "censoring" else None

    def forward(self, y: ArrayLike) -> Array:
        """``g(y)``, 1e8 units below the middle for y below the support."""
        y = doubles(y)
        # where no probability is left
        lowest = self.warp_.location - _IMPOSSIBLE * self.warp_.unit
        return np.where(y < self.support[0], lowest, self.warp_.forward(y))

    def inverse(self, z: ArrayLike) -> Array:
        """``y`` with ``g(y) = z``; zero where no positive y has this value."""
        return self.warp_.inverse(z)

    def log_slope(self, y: ArrayLike) -> Array:
        """``log g'(y)``, of rows that are observed; zero of bounds."""
        # powers have a pole at zero, which positive rows have never been
        is_inside = doubles(y) > self.support[0]
        log_slope = np.where(is_inside, self.warp_.log_slope(y), -_IMPOSSIBLE)
        if self.row_quantity is None:
            return log_slope
        return np.where(self.known_ == 0.0, log_slope, 0.0)

    def mean(self, f: ArrayLike) -> Array:
        """``E g⁻¹(f + e)``, by quadrature."""
        return self._moments_given(f)[0]

    def variance(self, f: ArrayLike) -> Array:
        """``Var g⁻¹(f + e)``, by quadrature."""
        return self._moments_given(f)[1]

    def check_parameters(self) -> None:
        """Raise a ValueError unless all parameters are possible."""
        base = self.base
        if not (isinstance(base, Likelihood) and base.location_scale):
            raise ValueError(
                "Warped expects a likelihood with f as location, such as Gaussian(), "
                f"StudentT() or Tobit(); got {base!r}."
            )
        if not set(np.ravel(self.transform)) <= {None, *TRANSFORMS}:
            raise ValueError(
                f"Warped expects transform to be one of {TRANSFORMS}; got "
                f"{self.transform!r}."
            )
        low, high = POWER_BOUNDS
        powers = self.power if isinstance(self.power, tuple) else (self.power,)
        if self.power is not None and not all(
            is_number(power) and low <= power <= high for power in powers
        ):
            raise ValueError(
                f"Warped expects power to be a number from {low:g} to {high:g}, one "
                f"for each of several targets, or None to learn it; got {self.power!r}."
            )
        base.check_parameters()

    def check_support(self, y: Array) -> None:
        """Raise a ValueError unless y is finite.

        New rows may have targets of zero or less, which a scale of positive ones that
        was learned takes to be next to impossible.
        """
        Likelihood.check_support(self, y)
        if not hasattr(self, "free_") and self.transform == "box-cox":
            check_positive(self, y)

    def _check_targets(self, y: Array) -> None:
        """Raise a ValueError unless y has as many targets as are stated, or one is."""
        if not {np.shape(self.transform), np.shape(self.power)} <= {(), y.shape[1:]}:
            raise ValueError(
                "Warped expects one transform and one power, or one for each of "
                f"several targets; got {self.transform!r} and {self.power!r} for y of "
                f"shape {y.shape}."
            )

    def _of_column(self, target: int) -> Self:
        """Copy with what is stated for one of several targets."""
        stated = {name: getattr(self, name) for name in _OF_TARGETS}
        attributes = {
            name: value[target] if isinstance(value, tuple) else value
            for name, value in stated.items()
        }
        return self._replace(**attributes)

    def prepare(
        self,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        known: Array | None = None,
    ) -> Self:
        """Copy with the function g, and the base prepared for g(y)."""
        y = doubles(y)
        weights = np.ones(len(y)) if sample_weight is None else doubles(sample_weight)
        self.check_parameters()
        self._check_targets(y)
        if y.ndim > 1:
            return self._prepared_for_targets(y, weights)
        self.check_support(y)
        power = 1.0 if self.power is None else float(self.power)
        transform = self.transform or TRANSFORMS[0]
        warp = Warp.of(transform, y, weights).at(power)
        base = self.base.prepare(warp.forward(y), weights, known)
        return self._replace(
            likelihood=base,
            transform=transform,
            power=power,
            warp_=warp,
            free_=tuple(f"likelihood__{name}" for name in base.free_),
            n_outputs_=base.n_outputs_,
            base_latent_=base.base_latent_,
            _log_bounds=base.theta_bounds,
        )

    def _prepared_for_targets(self, y: Array, weights: Array) -> Self:
        """Copy with the functions of several targets, on the rows that have them."""
        targets = []
        for j, column in enumerate(y.T):
            is_known = ~np.isnan(column)
            target = self._of_column(j)
            targets.append(target.prepare(column[is_known], weights[is_known]))
        warps = [target.warp_ for target in targets]
        joined = Warp(*map(np.array, zip(*warps, strict=True)))
        return of_targets(targets)._replace(warp_=joined)

    @property
    def theta(self) -> Array:
        """Logarithms of the free scales of the base."""
        return self.base.theta

    def with_theta(self, theta: ArrayLike) -> Self:
        """Copy with other scales of the base."""
        return self._replace(likelihood=self.base.with_theta(theta))

    def at_rows(self, known: Array) -> Self:
        """Distribution of rows with this censoring (n,)."""
        rows = super().at_rows(known)
        return rows._replace(likelihood=self.base.at_rows(known))

    def at_some(self, rows: Selection) -> Self:
        """Distribution of a selection of the rows (k,), with their censoring."""
        selected = super().at_some(rows)
        return selected._replace(likelihood=self.base.at_some(rows))

    def example_targets(self, rng: Generator, n: int) -> Array:
        """Targets that the transform accepts."""
        targets = self.base.example_targets(rng, n)
        if self.transform == "box-cox":
            return np.exp(0.3 * targets / np.std(targets))
        return targets

    def predictive_moments(self, mixture: LatentMixture) -> tuple[Array, Array]:
        """Mean and variance of y."""
        if not isinstance(self.base, Gaussian | Tobit):
            return self._moments_of_nodes(mixture)
        noise = self.base._normal_variance()

        def inverse(rows: Selection, z: Array) -> tuple[Array, float]:  # noqa: ARG001
            return self.inverse(z[:, 0]), 0.0

        # y is a function of z = f + e, which is a mixture of normals, too
        noise = np.reshape(noise, (-1, 1, 1))
        widened = mixture._replace(variance=mixture.variance + noise)
        mean, variance, _ = _predictive.moments(inverse, widened)
        return mean, variance

    def _moments_of_nodes(self, mixture: LatentMixture) -> tuple[Array, Array]:
        """Mean and variance of y, from nodes of f and of the noise around it."""
        nodes, node_shares = product_nodes(1, _N_NODES)
        std = np.sqrt(mixture.variance[:, 0])[..., np.newaxis]
        f = mixture.mean[:, 0, :, np.newaxis] + std * nodes[:, 0]
        f = f.reshape(len(f), -1)
        n_rows = max(1, _predictive.BLOCK // (f.shape[1] * len(_LEVELS)))
        means = np.empty_like(f)
        variances = np.empty_like(f)
        for rows in row_slices(len(f), n_rows):
            means[rows], variances[rows] = self.at_some(rows)._moments_given(f[rows])
        shares = np.outer(mixture.weights, node_shares).ravel()
        mean = means @ shares
        squares = (means - mean[:, np.newaxis]) ** 2
        return mean, (variances + squares) @ shares

    def _moments_given(self, f: ArrayLike) -> tuple[Array, Array]:
        """Mean and variance of y given f, of the shape of f."""
        errors, shares = self._noise_nodes()
        y = self.inverse(doubles(f)[..., np.newaxis] + errors)
        mean = y @ shares
        variance = (y - mean[..., np.newaxis]) ** 2 @ shares
        return mean, variance

    def _noise_nodes(self) -> tuple[Array, Array]:
        """Nodes, of each row where it has a noise of its own, and weights of the noise.

        Of normal noise those of Gauss and Hermite, of other noise its quantiles.
        """
        base = self.base
        if isinstance(base, Gaussian | Tobit):
            nodes, shares = product_nodes(1, _N_NODES)
            std = np.sqrt(base._normal_variance())
            return np.multiply.outer(std, nodes[:, 0]), shares
        if isinstance(base, StudentT):
            errors = np.multiply.outer(base._width(), stdtrit(base.df, _LEVELS))
        else:
            zero = LatentMixture(np.zeros((1, 1, 1)), np.zeros((1, 1, 1)), np.ones(1))
            errors = base.predictive_quantile(_LEVELS, zero)[0]
        return errors, np.full(len(_LEVELS), 1.0 / len(_LEVELS))


class LogNormal(OnScale):
    """Positive targets with a normal logarithm, ``log y = f + scale * e``.

    Parameters
    ----------
    scale : float, default=None
        Standard deviation of the logarithm of y; None estimates it.

    Notes
    -----
    Rows may be censored, as under `Tobit`: survival times that are only known to exceed
    y have ``censoring=1``. This is the log-normal model of accelerated failure times.
    The median of y is ``exp(f)``, and f has the same posterior as under `Tobit` for the
    logarithm of y, or under `Gaussian` if no row is censored: `PLSRegressor` fits
    these, so that kernels refer to the standardised logarithm of y.

    Examples
    --------
    >>> from skgpx.likelihoods import LogNormal
    >>> LogNormal(scale=0.5).mean([0.0, 1.0]).round(3)
    array([1.133, 3.08 ])
    """

    log_scale = True
    support: ClassVar[tuple[float, float]] = (0.0, np.inf)
    row_quantity: ClassVar[str | None] = "censoring"
    scale_names: ClassVar[tuple[str, ...]] = ("scale",)

    def __init__(self, scale: float | None = None) -> None:
        self.scale = scale

    @property
    def base(self) -> Tobit:
        """Likelihood of the logarithm."""
        return Tobit(self.scale)._replace(known_=self.known_, n_outputs_=1)

    def forward(self, y: ArrayLike) -> Array:
        """``log y``, very negative where y is not positive."""
        return np.log(np.maximum(doubles(y), 1e-300))

    def inverse(self, z: ArrayLike) -> Array:
        """``exp(z)``."""
        return np.exp(doubles(z))

    def log_slope(self, y: ArrayLike) -> Array:
        """``-log y`` of rows that are observed; zero of bounds."""
        return np.where(self.known_ == 0.0, -np.log(doubles(y)), 0.0)

    def mean(self, f: ArrayLike) -> Array:
        """``exp(f + scale² / 2)``."""
        exponent = np.add(f, 0.5 * self._scale("scale") ** 2)
        return np.exp(exponent)

    def variance(self, f: ArrayLike) -> Array:
        """``(exp(scale²) - 1) mean²``."""
        ratio = np.expm1(self._scale("scale") ** 2)
        return ratio * self.mean(f) ** 2

    def check_support(self, y: Array) -> None:
        """Raise a ValueError unless every y is positive."""
        super().check_support(y)
        check_positive(self, y)

    def predictive_moments(self, mixture: LatentMixture) -> tuple[Array, Array]:
        """Mean and variance of y, of mixtures of log-normal variables: closed form."""
        noise = self._scale("scale") ** 2
        return _LOG.moments(mixture._replace(variance=mixture.variance + noise))

    def _moments_of_mean(self, mixture: LatentMixture) -> tuple[Array, Array]:
        """Mean and variance of ``exp(f + scale² / 2)``, (n,), in closed form."""
        shifted = mixture.mean + 0.5 * self._scale("scale") ** 2
        return _LOG.moments(mixture._replace(mean=shifted))


def warp_of(likelihood: Likelihood | None) -> Warp | None:
    """The function of y that has normal noise, if it is another one than y itself."""
    return likelihood.warp_ if isinstance(likelihood, Warped) else None


def of_targets(likelihoods: Sequence[Any]) -> Any:
    """One likelihood of several targets, on a scale each."""
    if not any(isinstance(likelihood, Warped) for likelihood in likelihoods):
        return likelihoods[0]
    targets = [
        likelihood if isinstance(likelihood, Warped) else Warped(power=1.0)
        for likelihood in likelihoods
    ]
    joined = {
        name: tuple(getattr(target, name) for target in targets) for name in _OF_TARGETS
    }
    return targets[0]._replace(**joined)


def of_target(likelihood: Any, target: int) -> Any:
    """The fitted likelihood of one of several targets, where each has a scale."""
    if not (isinstance(likelihood, Warped) and isinstance(likelihood.power, tuple)):
        return likelihood
    base: Any = likelihood.base
    if np.ndim(base.noise_parameter):
        base = base.with_noise(base.noise_parameter[target])
    if likelihood.power[target] == 1.0:
        return base
    attributes = {name: getattr(likelihood, name)[target] for name in _OF_TARGETS}
    warp = Warp(*[values[target] for values in likelihood.warp_])
    return likelihood._replace(**attributes, likelihood=base, warp_=warp)


def normal_noise(likelihood: Likelihood) -> Likelihood:
    """The likelihood itself, or that of a function of y."""
    return likelihood.base if isinstance(likelihood, Warped) else likelihood
