"""Search for the prior of a series: sums, bound, hyperparameters."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import optimize
from sklearn.gaussian_process.kernels import ConstantKernel

from skgpx._numerics.fourier_index import FourierIndex, Integers
from skgpx._numerics.fourier_sketch import n_bins
from skgpx._numerics.regression import WeightStatistics
from skgpx._numerics.series_evidence import (
    ScaleProfile,
    SeriesEvidence,
    Spectrum,
    noise_bounds,
    series_evidence,
)
from skgpx._numerics.series_statistics import (
    NormalEquations,
    SeriesStatistics,
    direct_statistics,
    sketched_statistics,
)
from skgpx._parallel import parallel_sum
from skgpx._selection import stretched
from skgpx._validation import Rows
from skgpx.bases import (
    Box,
    ExponentialEigenvalues,
    KernelEigenvalues,
    PolynomialEigenvalues,
)

# ---- Sums over rows of regression on Fourier functions -------------------------------


Array = NDArray[np.float64]

# Rows in one sum: fixed, so that sums do not depend on the number of workers.
_CHUNK = 1 << 18


def row_sums(
    rows: Rows,
    domain: Array,
    box: Box,
    shift: float,
    reach: NDArray[np.int64],
    n_jobs: int | None,
) -> SeriesStatistics:
    """Sums over rows, in chunks that do not depend on the number of workers.

    Raises
    ------
    ValueError
        If a row is outside the domain.
    """
    chunks = [slice(i, i + _CHUNK) for i in range(0, len(rows.y), _CHUNK)]
    how = domain, box, shift, reach
    if len(chunks) == 1:
        return _chunk_sums(*how, rows)
    items = ((rows.take(c),) for c in chunks)
    return parallel_sum(_chunk_sums, items, operator.add, n_jobs, *how)


def _chunk_sums(
    domain: Array, box: Box, shift: float, reach: NDArray[np.int64], rows: Rows
) -> SeriesStatistics:
    X, y, weights = rows.X, rows.y, rows.precisions
    low, high = X.min(axis=0), X.max(axis=0)
    if np.any(low < domain[:, 0]) or np.any(high > domain[:, 1]):
        j = int(np.argmax((low < domain[:, 0]) | (high > domain[:, 1])))
        raise ValueError(
            f"Inputs must lie within the domain {domain.tolist()}; got column {j} "
            f"between {low[j]:g} and {high[j]:g}. Give a `domain` that covers all "
            "rows before the first ones are seen."
        )
    if len(reach) == 1:
        return sketched_statistics(X, y, weights, box, shift, n_bins(int(reach[0])))
    return direct_statistics(X, y, weights, box, shift, reach)


@dataclass(frozen=True)
class StandardSums:
    """Sums over rows of the standardised y.

    Attributes
    ----------
    statistics : SeriesStatistics
        Of ``y - shift``.
    scale : float
        Standard deviation of y, or 1.
    """

    statistics: SeriesStatistics
    scale: float

    @classmethod
    def of(cls, statistics: SeriesStatistics, normalize_y: bool) -> StandardSums:
        """Centre y, and scale it unless it is constant."""
        s = statistics
        if not normalize_y:
            return cls(s.moved(0.0), 1.0)
        is_centred = s.total**2 <= 1e-24 * s.square * s.weight
        centred = s if is_centred else s.moved(s.shift + s.total / s.weight)
        std = float(np.sqrt(max(centred.square, 0.0) / centred.weight))
        varies = std > 1e-14 * abs(centred.shift) and std > 0.0
        return cls(centred, std if varies else 1.0)

    @property
    def shift(self) -> float:
        """Subtracted from y."""
        return self.statistics.shift

    @property
    def varies(self) -> bool:
        """Whether y is not one number, to rounding."""
        s = self.statistics
        rest = s.square - s.total**2 / s.weight
        return bool(rest > 1e-14 * s.square + 1e-24 * s.shift**2 * s.weight)

    @property
    def variance(self) -> float:
        """Variance of the standardised y: 1, unless y is constant or not scaled."""
        return self.statistics.square / self.statistics.weight / self.scale**2 or 1.0

    def equations(self, functions: FourierIndex) -> NormalEquations:
        """Sums for these functions, of ``(y - shift) / scale``."""
        raw = self.statistics.normal_equations(functions)
        return raw._replace(
            moment=raw.moment / self.scale, square=raw.square / self.scale**2
        )


# ---- The bound of a series prior: one object that is searched and reported -----------


@dataclass(frozen=True)
class SeriesBound:
    """Bound as a function of the rule and the noise variance, all else chosen.

    Attributes
    ----------
    sums : StandardSums
        Of the rows.
    functions : FourierIndex
        All functions considered, those of the basis first.
    size : int
        Number of functions of the basis.
    """

    sums: StandardSums
    functions: FourierIndex
    size: int

    @property
    def weight(self) -> float:
        """``Σ w``."""
        return self.sums.statistics.weight

    @cached_property
    def equations(self) -> NormalEquations:
        """Sums for the functions of the basis; O(m^2)."""
        return self.sums.equations(self.functions.part(slice(self.size)))

    @cached_property
    def _excess(self) -> Array:
        """``Σ w φ_j² / Σ w - 1`` of functions after the basis, up to the last uneven.

        A sine and a cosine of one eigenvalue have squares whose sum is constant.
        """
        rest = self.functions.part(slice(self.size, None))
        waves, place = rest.distinct()
        sign = np.where(rest.sine, -1.0, 1.0)
        uneven = np.bincount(place, rest.ranks * sign, len(waves)) != 0.0
        uneven &= waves.any(axis=1)
        chosen = np.flatnonzero(uneven[place])
        rest = rest.part(slice(chosen[-1] + 1 if len(chosen) else 0))
        # 2 cos² = 1 + cos 2, 2 sin² = 1 - cos 2
        excess = self.sums.statistics.cosines(2 * rest.waves) / self.weight
        return np.where(rest.waves.any(axis=1), sign[: len(rest)] * excess, 0.0)

    def spectrum(self, rule: Any) -> Spectrum:
        """Eigenvalues of the basis; the tail is averaged over the rows."""
        m, excess = self.size, self._excess
        box = self.sums.statistics.box
        s = rule.spectrum(self.functions.part(slice(m + len(excess))), box)
        later = s.eigenvalues[m:] * (1.0 + excess)
        return Spectrum(
            s.eigenvalues[:m],
            s.slopes[:m],
            max(s.tail + float(later.sum()), 0.0),
            s.tail_slopes + later @ s.slopes[m:],
        )

    def at(self, rule: Any, noise_variance: float) -> SeriesEvidence:
        """Value and gradient, in nats and for the standardised y; O(m^3)."""
        return series_evidence(self.equations, self.spectrum(rule), noise_variance)

    def statistics(self, rule: Any) -> WeightStatistics:
        """Sums for the whitened functions of the basis."""
        spectrum = self.spectrum(rule)
        residual = self.weight * spectrum.tail
        return self.equations.whitened(spectrum.eigenvalues, residual)

    def profile(self, rule: Any) -> ScaleProfile:
        """The bound for every noise variance and scale; O(m^3) once."""
        return ScaleProfile.of(self.statistics(rule))

    def of_noise(self, noise_variance: float | None) -> float:
        """Bound of a function that is zero, with the best or a given noise variance."""
        square, weight = self.equations.square, self.weight
        variance = square / weight if noise_variance is None else noise_variance
        if variance <= 0.0:
            # y is constant: there is no best noise
            return -np.inf
        return -0.5 * float(weight * np.log(2.0 * np.pi * variance) + square / variance)


class SeriesPrior(NamedTuple):
    """Point of a search and the bound there.

    Attributes
    ----------
    rule : EigenvalueRule
    noise_variance : float
        For the standardised y.
    log_evidence : float
        In nats, of the standardised y.
    """

    rule: Any
    noise_variance: float
    log_evidence: float


@dataclass(frozen=True)
class SeriesChoice:
    """What a search ends with: the bound it maximised, and where.

    Attributes
    ----------
    bound : SeriesBound
        Of the functions chosen.
    prior : SeriesPrior
    elbow : int
        ``#{j : n λ_j >= σ²}``, no more than one beyond the most that are allowed.
    only_noise : bool
        Whether noise alone has at least this bound.
    raised : ndarray of shape (r, d)
        Waves that stand out of the prior, and come first.
    """

    bound: SeriesBound
    prior: SeriesPrior
    elbow: int
    only_noise: bool
    raised: Integers


# ---- Hyperparameters of a series prior, by maximising the bound of its evidence ------


# Search interval of the scale of a series prior, and of the logarithm of its shape.
_SCALE_BOUNDS = (1e-8, 1e8)
_SHAPE_BOUNDS = (-3.0, 3.0)
# Shares of the variance of y that are noise, in the first guesses for a series.
_SHARES = (0.01, 0.1, 0.5, 0.9)
# Factors of the lengthscales, and noise per variance of y, in those for a kernel; and
# in those that are tried if none of the first is better than noise alone.
_FIRST_STARTS = ((1.0, 0.1), (0.2, 0.1), (0.04, 0.1), (4.0, 0.1))
_OTHER_STARTS = ((4.0, 0.3), (16.0, 0.3), (1.0, 0.7), (0.5, 0.3))
_MAX_ITER = 100
# Share of the variance that is noise at which another start is tried.
_ALL_NOISE = 0.9
# Variance of a function that is nothing, for the standardised y.
_SILENCE = 1e-8


class SeriesSettings(NamedTuple):
    """Parameters that decide about the prior; see `SpectralVGPRegressor`.

    Attributes
    ----------
    rule : EigenvalueRule
        Start of the search, for the standardised y.
    scale_is_free : bool
        Whether the scale of a series prior is searched for.
    n_basis : int, "auto" or "rate"
    regularity : float
        ``α`` of the rate.
    noise_variance : float or None
        In squared units of y; None searches for it.
    optimizer : "evidence" or None
    ordering : {"auto", "prior", "power", "coefficients"}
    largest : int
        Most functions.
    normalize_y : bool
        Whether y is standardised.
    white_noise_variance : float or None
        Fixed variance of the WhiteKernel, for the standardised y.
    given : object
        Parameters that models must share to be merged, comparable by value.
    domain_is_given : bool
        Whether the domain is the user's, without a margin around the data.
    start_noise_variance : float or None
        Found on fewer rows, for the standardised y; None tries several starts.
    raised : ndarray of shape (r, d) or None
        Waves found on fewer rows to stand out.
    pilot_rows : int
        How many these rows were.
    """

    rule: Any
    scale_is_free: bool
    n_basis: int | str
    regularity: float
    noise_variance: float | None
    optimizer: str | None
    ordering: str
    largest: int
    normalize_y: bool
    white_noise_variance: float | None = None
    given: Any = None
    domain_is_given: bool = False
    start_noise_variance: float | None = None
    raised: Any = None
    pilot_rows: int = 0

    def free(self) -> NDArray[np.bool_]:
        """Which parameters of the rule are searched for."""
        free = np.full(len(self.rule.theta), self.optimizer == "evidence")
        if not isinstance(self.rule, KernelEigenvalues):
            free[:1] &= self.scale_is_free
        return free

    def learns(self) -> bool:
        """Whether any parameter of the rule is searched for."""
        return bool(np.any(self.free()))

    def looks_for_waves(self) -> bool:
        """Whether waves that stand out of a series prior are raised to its front."""
        by_rank = isinstance(self.rule, PolynomialEigenvalues | ExponentialEigenvalues)
        auto = self.ordering == "auto" and self.n_basis != "rate"
        return auto and by_rank and bool(self.free()[0])

    def looks_for_kernels(self) -> bool:
        """Whether lengthscales are searched for again where a wave stands out."""
        auto = self.ordering == "auto" and self.n_basis == "auto"
        return auto and isinstance(self.rule, KernelEigenvalues) and self.learns()

    def given_noise_variance(self, scale: float) -> float | None:
        """Noise variance that is not searched for, for ``y / scale``."""
        if self.noise_variance is None:
            return self.white_noise_variance
        return self.noise_variance / scale**2


class Search(NamedTuple):
    """What is searched for, on which bound.

    Attributes
    ----------
    bound : SeriesBound
    free : ndarray of shape (p,)
        Which parameters of the rule.
    given_noise : float or None
        Noise variance if that is not searched for.
    """

    bound: SeriesBound
    free: NDArray[np.bool_]
    given_noise: float | None

    def at(self, rule: Any, noise_variance: float) -> SeriesPrior:
        """The point with its bound."""
        value = self.bound.at(rule, noise_variance).value
        return SeriesPrior(rule, noise_variance, value)

    def noise_bounds(self) -> Array:
        """Interval of the noise variance."""
        equations = self.bound.equations
        return noise_bounds(equations.square, equations.weight)

    def variance(self) -> float:
        """Variance of y; 1 where there is none, so that logarithms exist."""
        equations = self.bound.equations
        return equations.square / equations.weight or 1.0

    def noise_at(self, share: float) -> float:
        """Noise variance to start from."""
        return self.given_noise or share * self.variance()


def maximise_bound(
    search: Search, rule: Any, start_noise: float | None
) -> tuple[SeriesPrior, bool]:
    """Rule and noise variance with the largest bound, and if they are only noise.

    Parameters
    ----------
    search : Search
    rule : EigenvalueRule
        Start.
    start_noise : float or None
        Noise variance of a search before this one, to start from; None tries several.

    Returns
    -------
    best : SeriesPrior
    only_noise : bool
        Whether every start ended below the bound of noise alone; a kernel is then one
        of a function that is nothing, unless it is given. False for a series prior
        whose scale is searched for: it may become nothing by itself.
    """
    only_noise = search.bound.of_noise(search.given_noise)
    if not np.any(search.free):
        best = _best_noise(search, rule)
        # all given: nothing is said about it
        return best, search.given_noise is None and best.log_evidence < only_noise
    if start_noise is not None:
        best = _climb(search, rule, search.given_noise or start_noise)
        if best.log_evidence > only_noise:
            return best, False
    best = _from_several_starts(search, rule, only_noise)
    if best.log_evidence > only_noise:
        return best, False
    silent = _silent(search, rule)
    if silent is not None and silent.log_evidence > best.log_evidence:
        best = silent
    # a series whose scale is learned has noise alone among its priors
    return best, silent is None or isinstance(rule, KernelEigenvalues)


def _best_noise(search: Search, rule: Any) -> SeriesPrior:
    noise = search.given_noise
    if noise is None:
        noise = search.bound.profile(rule).best_noise_variance()
    return search.at(rule, noise)


def _from_several_starts(search: Search, rule: Any, only_noise: float) -> SeriesPrior:
    """Best of the searches from several starts, the most promising first."""
    if not isinstance(rule, KernelEigenvalues):
        if not np.any(search.free[1:]):
            return _scale_search(search, rule, [search.noise_at(s) for s in _SHARES])
        return _best_climb(search, [(rule, s) for s in _SHARES], only_noise)
    best = _best_climb(search, _kernels(rule, _FIRST_STARTS), only_noise)
    if best.log_evidence > only_noise:
        return best
    others = _kernels(rule, _OTHER_STARTS)
    round_one = _isotropic(rule)
    if np.any(round_one.theta != rule.theta):
        others.append((round_one, 0.3))
    again = _best_climb(search, others, only_noise)
    return max(best, again, key=lambda one: one.log_evidence)


def _kernels(
    rule: KernelEigenvalues, starts: tuple[tuple[float, float], ...]
) -> list[tuple[Any, float]]:
    return [
        (KernelEigenvalues(stretched(rule.kernel, np.log(factor))), share)
        for factor, share in starts
    ]


def _isotropic(rule: KernelEigenvalues) -> KernelEigenvalues:
    """The rule with all free parameters of a name at their geometric mean."""
    kernel, theta, first = rule.kernel, rule.theta, 0
    for h in kernel.hyperparameters:
        last = first + (0 if h.fixed else h.n_elements)
        theta[first:last] = np.mean(theta[first:last]) if last > first else 0.0
        first = last
    return rule.with_theta(np.clip(theta, *_theta_bounds(rule).T))


def _best_climb(
    search: Search, starts: list[tuple[Any, float]], only_noise: float
) -> SeriesPrior:
    """Climb from the best start, and the others while nothing but noise is found."""
    points = [search.at(rule, search.noise_at(share)) for rule, share in starts]
    points.sort(key=lambda one: -one.log_evidence)
    tried: list[SeriesPrior] = []
    for point in points:
        tried.append(_climb(search, point.rule, point.noise_variance))
        share = tried[-1].noise_variance / search.variance()
        if share < _ALL_NOISE and tried[-1].log_evidence > only_noise:
            break
    return max(tried, key=lambda one: one.log_evidence)


def _climb(search: Search, rule: Any, noise_variance: float) -> SeriesPrior:
    """Local search over noise and all free parameters; O(m^3) for each point."""
    if not isinstance(rule, KernelEigenvalues) and not np.any(search.free[1:]):
        return _scale_search(search, rule, [noise_variance], warm=True)
    whole = np.r_[np.log(noise_variance), rule.theta]
    bounds = np.vstack((np.log(search.noise_bounds()), _theta_bounds(rule)))
    mask = np.r_[search.given_noise is None, search.free]

    def at(values: Array) -> Array:
        point = whole.copy()
        point[mask] = values
        return point

    def negative(values: Array) -> tuple[float, Array]:
        point = at(values)
        e = search.bound.at(rule.with_theta(point[1:]), float(np.exp(point[0])))
        return -e.value, -np.r_[e.noise, e.parameters][mask]

    found = optimize.minimize(
        negative, np.clip(whole, *bounds.T)[mask], jac=True,
        method="L-BFGS-B", bounds=bounds[mask], options={"maxiter": _MAX_ITER},
    )  # fmt: skip
    point = at(found.x)
    noise = search.given_noise or float(np.exp(point[0]))
    return SeriesPrior(rule.with_theta(point[1:]), noise, -float(found.fun))


def _scale_search(
    search: Search, rule: Any, noises: list[float], warm: bool = False
) -> SeriesPrior:
    """Search over noise and scale: O(m) for each value after one decomposition."""
    spectrum = search.bound.spectrum(rule)
    profile = search.bound.profile(rule)
    variance = search.variance()
    total = float(np.sum(spectrum.eigenvalues)) + spectrum.tail
    mask = np.array([search.given_noise is None, True])

    def negative(values: Array, whole: Array) -> tuple[float, Array]:
        point = whole.copy()
        point[mask] = values
        value, gradient = profile.value_and_gradient(*np.exp(point))
        return -value, -gradient[mask]

    signal = [max(variance - noise, 0.1 * variance) / total for noise in noises]
    guesses = [
        np.log([noise, 1.0 if warm else scale])
        for noise, scale in zip(noises, signal, strict=True)
    ]
    whole = min(guesses, key=lambda g: negative(g[mask], g)[0])
    bounds = np.log([search.noise_bounds(), np.array(_SCALE_BOUNDS) / total])
    found = optimize.minimize(
        negative, np.clip(whole, *bounds.T)[mask], args=(whole,), jac=True,
        method="L-BFGS-B", bounds=bounds[mask], options={"maxiter": _MAX_ITER},
    )  # fmt: skip
    whole[mask] = found.x
    theta = rule.theta.copy()
    theta[0] += whole[1]
    noise = search.given_noise or float(np.exp(whole[0]))
    return SeriesPrior(rule.with_theta(theta), noise, -float(found.fun))


def _silent(search: Search, rule: Any) -> SeriesPrior | None:
    """Best noise around a function that is nothing; None where its scale is given."""
    spectrum = search.bound.spectrum(rule)
    total = float(np.sum(spectrum.eigenvalues)) + spectrum.tail
    factor = _SILENCE * search.variance() / total
    if isinstance(rule, KernelEigenvalues):
        rule = KernelEigenvalues(ConstantKernel(factor, "fixed") * rule.kernel)
    elif search.free[0]:
        theta = rule.theta.copy()
        theta[0] += np.log(factor)
        rule = rule.with_theta(theta)
    else:
        return None
    return _best_noise(search, rule)


def _theta_bounds(rule: Any) -> Array:
    if isinstance(rule, KernelEigenvalues):
        bounds: Array = rule.kernel.bounds.reshape(-1, 2)
        return bounds
    shape = np.tile(_SHAPE_BOUNDS, (len(rule.theta) - 1, 1))
    return np.vstack((np.log(_SCALE_BOUNDS), shape))
