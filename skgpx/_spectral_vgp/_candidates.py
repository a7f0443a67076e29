"""Candidates of a search on Fourier functions: families of priors, and a hyperprior.

Every stationary kernel, and every series prior, is a diagonal prior over the same
Fourier functions: an eigenvalue rule.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

from skgpx._hyperparameters import ALL_ORDERS, StudentPrior, stretched
from skgpx._numerics.fourier import Box, FourierIndex, Integers, by_length, moment
from skgpx._numerics.fourier_sums import SeriesStatistics
from skgpx._numerics.regression import WeightStatistics
from skgpx._spectral_vgp._domain import Region, domain_box, kernel_box, widths
from skgpx._spectral_vgp._functional_sums import FunctionalSums
from skgpx._types import Array, Kernel
from skgpx.bases import (
    BoostedEigenvalues,
    KernelEigenvalues,
    OrderedEigenvalues,
    PolynomialEigenvalues,
    RankedEigenvalues,
)
from skgpx.bases._eigenvalues import EigenvalueRule
from skgpx.kernels import VALUE, split_noise, stated_log_density, stated_priors

# Parameters of an estimator by name, from "kernel" to "normalize_y".
Parameters = dict[str, Any]

# Functions with which a search begins, by the number of inputs.
FIRST_FUNCTIONS = {1: 101, 2: 201, 3: 301}
# Largest number of waves of one input that are sorted by their power: sums for them
# take 13 MB.
MAX_ORDERED_WAVES = 6553
# Share of the variance of y that is noise, where searches start and the hyperprior of
# the default kernels has its centre.
NOISE_SHARE = 0.1
# Factors of the lengthscales to start from.
_STARTS = (1.0, 0.2, 0.04)
# Standard deviations of the hyperprior, of the logarithms.
_NOISE_STD = 3.0
_AMPLITUDE_STD = 2.0
_LENGTHSCALE_STD = 1.5


class FourierPrior(NamedTuple):
    """Point of a search: hyperparameters, the functions of the basis and the bound.

    Attributes
    ----------
    rule : BoostedEigenvalues
    noise_variance : float or ndarray of shape (t,)
        Noise of the standardised y; at the end of a search, of each target.
    box : Box
    functions : FourierIndex
    sums : tuple of WeightStatistics
        Sums of functions and standardised y, not whitened; one for each section, none
        before they are taken.
    bound : float
        Lower bound of the log evidence of the standardised y, in nats.
    score : float
        The bound plus the log density of the hyperprior.
    family : int
        Number of the candidate.
    only_noise : bool
        Whether noise alone has at least this bound.
    """

    rule: BoostedEigenvalues
    noise_variance: Any
    box: Box
    functions: FourierIndex
    sums: tuple[WeightStatistics, ...]
    bound: float = np.nan
    score: float = -np.inf
    family: int = 0
    only_noise: bool = False

    @property
    def waves(self) -> Integers:
        """Boosted waves, (r, d)."""
        waves = [wave for wave in self.rule.waves if any(wave)]
        return np.array(waves, np.int64).reshape(-1, len(self.box.period))

    @property
    def cycles(self) -> Array:
        """Frequencies of these waves, without the longest of one input: a trend."""
        waves = self.waves
        has_one_input = waves.shape[1] == 1
        if has_one_input and np.array_equal(waves[:1], [[1]]):
            waves = waves[1:]
        return waves / self.box.period


@dataclass(frozen=True)
class Candidates:
    """Families of priors and what a search is free to choose in them.

    Attributes
    ----------
    rules : tuple of EigenvalueRule
        From smooth to rough, with the parameters at which their search starts.
    region : Region
    variance : float
        Mean square of the standardised y: prior variance of boosted waves.
    is_default : bool
        Whether the families are those of ``kernel=None``, with a hyperprior.
    learned : bool
        Whether parameters of the rules are searched for.
    boosts_level : bool
        Whether the level of y has a variance of its own.
    boosts_waves : bool
        Whether significant waves of the spectrum have one, too.
    tail_is_noise : bool
        Whether functions outside of the basis count as noise in a search.
    noise_variance : float or None
        Noise of the standardised y; None if it is searched for.
    noise_range : ndarray of shape (2,)
        Bounds of the noise variance.
    stated : sequence of distributions or None
        Priors that a kernel states, of theta and last of the noise.
    n_functions : int
        Size of the basis; where it is open, at the start of a search.
    grows : bool
        Whether the number of functions is open.
    sees_functionals : bool
        Whether rows see functionals of f, such as slopes.
    """

    rules: tuple[EigenvalueRule, ...]
    region: Region
    variance: float
    is_default: bool
    learned: bool
    boosts_level: bool
    boosts_waves: bool
    tail_is_noise: bool
    noise_variance: float | None
    noise_range: Array
    stated: Sequence[Any]
    n_functions: int
    grows: bool
    sees_functionals: bool

    @property
    def n_inputs(self) -> int:
        """Number d of inputs."""
        return len(self.region.domain)

    @property
    def noise_is_free(self) -> bool:
        """Whether the noise is neither fixed nor has a prior that a kernel states."""
        return self.noise_variance is None and self.stated[-1] is None

    def box(self, rule: EigenvalueRule) -> Box:
        """Box that suits a rule."""
        # sums of functionals cost no more on a wide box
        learned = self.learned and not self.sees_functionals
        return kernel_box(self.region, kernel_of(rule), learned)

    def boost(
        self,
        rule: EigenvalueRule,
        waves: Sequence[Sequence[int]] | Integers = (),
    ) -> BoostedEigenvalues:
        """The rule in which the level of y, and waves, have the variance of y."""
        boosted = []
        if self.boosts_level:
            boosted.append((0,) * self.n_inputs)
        for wave in waves:
            boosted.append(tuple(int(k) for k in wave))
        return BoostedEigenvalues(rule, tuple(boosted), self.variance)

    def starts(
        self,
        rule: BoostedEigenvalues,
    ) -> Iterator[tuple[BoostedEigenvalues, float]]:
        """Rules and noise variances to start from."""
        if not self.learned:
            yield rule, self.noise_variance or NOISE_SHARE * self.variance
            return
        kernel = innermost_kernel(rule)
        inner = rule.rule
        for factor in _STARTS:
            if kernel is not None:
                stretched_kernel = stretched(kernel, np.log(factor))
                inner = inner.with_theta(stretched_kernel.theta)
            else:
                # a scale under which Σ λ_j is the variance of the signal
                box = self.box(rule)
                functions = rule.index(box, self.n_functions)
                spectrum = inner.spectrum(functions, box)
                total = float(spectrum.eigenvalues.sum()) + spectrum.tail
                signal_variance = (1.0 - NOISE_SHARE) * self.variance
                ratio = signal_variance / total
                inner = inner.with_theta(inner.theta + np.log(ratio))
            noise_variance = self.noise_variance or NOISE_SHARE * self.variance
            yield rule.around(inner), noise_variance

    def log_hyperprior(self, point: Array) -> tuple[float, Array]:
        """Log density of ``log σ²`` and theta up to a constant, and its gradient.

        A user's kernel may state priors. The hyperprior of the default kernels is
        normal: noise variances around a tenth of the variance of y, amplitudes around
        it and lengthscales around the spread of the rows.
        """
        if not self.is_default:
            # the noise is last among stated priors, and first in the search
            noise_last = np.roll(point, -1)
            value, slopes = stated_log_density(self.stated, noise_last)
            return value, np.roll(slopes, 1)
        mean, std = self._normal_hyperprior
        z = (point - mean) / std
        value = -0.5 * float(z @ z)
        return value, -z / std

    @cached_property
    def _normal_hyperprior(self) -> tuple[Array, Array]:
        """Mean and standard deviation of the hyperprior of the default kernels."""
        noise = self.noise_hyperprior()
        mean = np.append(noise.mean, self.rules[0].theta)
        std = np.full(len(mean), _LENGTHSCALE_STD)
        std[0] = noise.std
        std[1] = _AMPLITUDE_STD
        return mean, std

    def noise_hyperprior(self) -> StudentPrior:
        """Hyperprior of ``log σ²`` of one target; flat under a user's kernel."""
        mean = np.log(NOISE_SHARE * self.variance)
        if self.is_default:
            return StudentPrior(mean, _NOISE_STD)
        return StudentPrior(mean, np.inf)

    def next_family(self, prior: FourierPrior) -> FourierPrior | None:
        """A prior of the next, rougher family with these parameters, if any."""
        family = prior.family + 1
        if not self.is_default or family >= len(self.rules):
            return None
        rougher = self.rules[family].with_theta(prior.rule.theta)
        rule = prior.rule.around(rougher)
        return prior._replace(rule=rule, sums=(), family=family)


def candidates_for(
    parameters: Parameters,
    region: Region,
    statistics: SeriesStatistics | FunctionalSums,
    scale: float | Array,
) -> Candidates:
    """Candidates for the parameters of an estimator.

    Parameters
    ----------
    parameters : Parameters
    region : Region
    statistics : SeriesStatistics or FunctionalSums
        Sums of the centred y.
    scale : float or ndarray of shape (t,)
        Unit of y.
    """
    kernel = parameters["kernel"]
    n_basis = parameters["n_basis"]
    d = len(region.domain)
    mean_squares = statistics.square / statistics.weight / scale**2

    rules = families(kernel, region.seen, statistics.weight)
    sees_functionals = isinstance(statistics, FunctionalSums)
    sees_level = True
    if isinstance(statistics, FunctionalSums):
        seen = statistics.seen.rows(statistics.rows.X)
        sees_level = bool(np.any(seen.level))
        if kernel is None and np.any(seen.derivative != VALUE):
            # without the order 1/2, which has no slopes
            rules = rules[:-1]
    is_ordered = parameters["order"] == "data"
    if is_ordered:
        # the rows of a series prior see values
        assert isinstance(statistics, SeriesStatistics)
        rules = (order_by_data(rules[0], region.domain, statistics, scale),)

    grows = isinstance(n_basis, str)
    if grows:
        n_functions = FIRST_FUNCTIONS[d]
    else:
        n_functions = int(n_basis)
    if isinstance(rules[0], BoostedEigenvalues):
        n_functions = max(n_functions, rules[0].n_boosted)

    optimizes = parameters["optimizer"] is not None
    learned = optimizes and len(rules[0].theta) > 0
    is_default = kernel is None and optimizes
    # a bound with few functions would prefer kernels that are too smooth: where their
    # number is open, and of several inputs too small, the tail counts as noise
    is_kernel = isinstance(kernel, Kernel)
    tail_is_noise = is_default or (is_kernel and learned and grows and d > 1)
    # the level of y, and significant waves, have a variance of their own
    is_series = kernel is None or isinstance(kernel, str)
    boosts_level = learned and parameters["normalize_y"] and is_series and sees_level

    stating = kernel if is_kernel else ConstantKernel()
    noise_range = split_noise(stating)[2]
    if noise_range is None or isinstance(noise_range, str):
        noise_range = (0.0, np.inf)
    return Candidates(
        rules=rules,
        region=region,
        variance=float(np.mean(mean_squares)) or 1.0,
        is_default=is_default,
        learned=learned,
        boosts_level=boosts_level,
        boosts_waves=boosts_level and grows and not (is_ordered or sees_functionals),
        tail_is_noise=tail_is_noise,
        noise_variance=fixed_noise_variance(parameters, scale),
        noise_range=np.ravel(np.asarray(noise_range)),
        stated=stated_priors(stating),
        n_functions=n_functions,
        grows=grows,
        sees_functionals=sees_functionals,
    )


def fixed_noise_variance(parameters: Parameters, scale: float | Array) -> float | None:
    """Noise variance of ``y / scale`` that is not searched for, if it is fixed."""
    if parameters["noise_variance"] is not None:
        # targets of one noise have one scale
        unit = np.ravel(scale)[0]
        return float(parameters["noise_variance"] / unit**2)
    kernel = parameters["kernel"]
    if not isinstance(kernel, Kernel):
        return None
    _, level, bounds = split_noise(kernel)
    if parameters["optimizer"] is None or isinstance(bounds, str):
        return level
    return None


# ---- Families ------------------------------------------------------------------------


def families(
    kernel: Kernel | EigenvalueRule | str | None,
    seen: Array,
    weight: float,
) -> tuple[EigenvalueRule, ...]:
    """Candidate rules from smooth to rough, as their search starts.

    The default families are a constant times the RBF and Matern kernels, with the
    lengthscales and bounds of the default kernel of uniform rows in a range (d, 2).
    """
    if isinstance(kernel, Kernel):
        return (KernelEigenvalues(split_noise(kernel)[0]),)
    if isinstance(kernel, str):
        return (PolynomialEigenvalues(),)
    if kernel is not None:
        return (kernel,)
    d = len(seen)
    # standard deviation of a uniform distribution
    std = widths(seen) / np.sqrt(12.0)
    std = np.where(std > 0.0, std, 1.0)
    # the spacing of the rows
    spacing = np.sqrt(12.0) * max(weight, 1.0) ** (-1.0 / d)
    shortest = min(1e-2, spacing)
    lengthscale: Any = 2.0 * np.sqrt(d) * std
    bounds = np.column_stack((shortest * std, 1e3 * std))
    if d == 1:
        lengthscale = float(lengthscale[0])
        bounds = bounds[0]
    rules = []
    for nu in ALL_ORDERS:
        shape = Matern(lengthscale, bounds, nu=nu)
        if nu == np.inf:
            shape = RBF(lengthscale, bounds)
        amplitude = ConstantKernel(1.0, (1e-3, 1e3))
        rules.append(KernelEigenvalues(amplitude * shape))
    return tuple(rules)


def order_by_data(
    rule: EigenvalueRule,
    domain: Array,
    statistics: SeriesStatistics,
    scale: float | Array,
) -> OrderedEigenvalues:
    """The rule with the first n functions sorted by their size in the data.

    ``φ_jᵀy / n`` estimates the coefficient of φ_j (section 6.2): its square is summed
    over targets in units of each, and over the sine and the cosine where these have one
    eigenvalue, so that the order does not depend on the origin.
    """
    box = domain_box(domain)
    statistics = statistics.on(box)
    n_waves = min(
        (int(statistics.weight) - 1) // 2,
        MAX_ORDERED_WAVES,
        int(statistics.reach()[0]),
    )
    n_waves = max(n_waves, 1)
    functions = by_length(1, 2 * n_waves + 1)
    _, tables = statistics.tables(np.array([n_waves]))
    # φ_jᵀy of each target, in columns
    moments = np.stack([moment(functions, table) for table in tables], axis=1)
    coefficients = moments / np.ravel(scale)
    power = np.sum(coefficients**2, axis=1)
    # other rules are refused with order="data"
    assert isinstance(rule, RankedEigenvalues)
    if rule.paired:
        pair_powers = power[1:].reshape(-1, 2)
        wave_power = pair_powers.sum(axis=1)
        waves = np.argsort(-wave_power, kind="stable")
        pairs = 2 * waves[:, np.newaxis] + np.array([1, 2])
        order = np.append(0, pairs)
    else:
        order = np.argsort(-power, kind="stable")
    return OrderedEigenvalues(rule, tuple(order.tolist()))


# ---- Kernels of rules ----------------------------------------------------------------


def kernel_of(rule: EigenvalueRule) -> Kernel | None:
    """Kernel that an eigenvalue rule stands for; None for a series prior.

    A kernel in which a user has boosted waves is a series: its box is the domain.
    """
    inner = getattr(rule, "rule", rule)
    if isinstance(inner, KernelEigenvalues):
        return inner.kernel
    return None


def innermost_kernel(rule: EigenvalueRule) -> Kernel | None:
    """Kernel that has the hyperparameters of a rule; None for other rules."""
    if isinstance(rule, BoostedEigenvalues):
        return innermost_kernel(rule.rule)
    if isinstance(rule, KernelEigenvalues):
        return rule.kernel
    return None


def shrink(rule: EigenvalueRule, variance: float) -> EigenvalueRule:
    """The rule scaled down to next to no variance, except in boosted waves."""
    if isinstance(rule, BoostedEigenvalues):
        inner = shrink(rule.rule, variance)
        return rule.around(inner)
    if isinstance(rule, KernelEigenvalues):
        amplitude = ConstantKernel(variance, "fixed")
        return KernelEigenvalues(amplitude * rule.kernel)
    return rule.with_theta(np.log([variance]))
