"""The prior of a fit on Fourier functions, from sums over rows.

Every stationary kernel, and the series prior, is a diagonal prior over the same Fourier
functions: candidates are compared by the collapsed bound of the evidence.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import optimize
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Kernel, Matern

from skgpx._numerics.fourier import (
    Box,
    FourierIndex,
    Integers,
    by_length,
    combination,
    convolve,
    function_list,
    half_space,
    moment,
    reach_of,
    strides_of,
    waves_of,
)
from skgpx._numerics.fourier_sums import SeriesStatistics
from skgpx._numerics.regression import (
    TargetRegressions,
    best_noise_variance,
    noise_bounds,
    posterior_mean_from,
    precision_root,
    series_evidence,
    whitened,
)
from skgpx._selection import stretched
from skgpx._spectral_vgp._domain import box_of, innermost_kernel, kernel_of
from skgpx._spectral_vgp._sums import row_sums
from skgpx._validation import Rows
from skgpx.bases import (
    KernelEigenvalues,
    OrderedEigenvalues,
    PolynomialEigenvalues,
    RaisedEigenvalues,
)
from skgpx.kernels import split_noise, stated_log_density, stated_priors

Array = NDArray[np.float64]
# What an estimator has of these names, from "kernel" to "normalize_y".
Parameters = dict[str, Any]

# Functions with which a search begins by the number of inputs, at most at its end, and
# at most in a basis.
FIRST_FUNCTIONS = {1: 101, 2: 201, 3: 301}
MOST_SEARCHED, MOST_FUNCTIONS = 501, 1501
# Waves of one input that are sorted by their power, at most: sums for them take 13 MB.
MOST_ORDERED = 6553
# Nats an observation that twice as many functions, or inducing points, must gain.
GAIN = 0.01
# Factors of the lengthscales, and share of the variance that is noise, to start from.
_STARTS = ((1.0, 0.1), (0.2, 0.1), (0.04, 0.1), (4.0, 0.1))
# Orders of the default kernels from smooth to rough, and the lengthscale of each that
# resembles an RBF of lengthscale one.
_FAMILIES = {np.inf: 1.0, 2.5: 1.5, 1.5: 2.0, 0.5: 4.0}
# Probability that noise alone has a wave that stands out; the price in nats of a choice
# among so many is its logarithm.
_FALSE_ALARMS = 0.01


def known_noise(parameters: Parameters, scale: Any) -> float | None:
    """Noise variance that is not searched for, for ``y / scale``."""
    if parameters["noise_variance"] is not None:
        # targets of one noise have one scale
        return float(parameters["noise_variance"] / np.ravel(scale)[0] ** 2)
    if not isinstance(parameters["kernel"], Kernel):
        return None
    _, level, bounds = split_noise(parameters["kernel"])
    fixed = parameters["optimizer"] is None or isinstance(bounds, str)
    return level if fixed else None


class Prior(NamedTuple):
    """Point of a search: hyperparameters, the functions of the basis and the bound.

    Attributes
    ----------
    rule : RaisedEigenvalues
    noise_variance : float or ndarray of shape (t,)
        For the standardised y; that of each target at the end of a search.
    box : Box
    functions : FourierIndex
    sums : WeightStatistics or None
        Of the functions and the standardised y, not whitened.
    bound, score : float
        Of the log evidence of the standardised y in nats, and with the log density of
        the hyperprior.
    family : int
        Number of the candidate.
    only_noise : bool
        Whether noise alone has at least this bound.
    """

    rule: Any
    noise_variance: Any
    box: Box
    functions: FourierIndex
    sums: Any
    bound: float = np.nan
    score: float = -np.inf
    family: int = 0
    only_noise: bool = False

    @property
    def waves(self) -> Integers:
        """Waves that stand out, (r, d)."""
        waves = [wave for wave in self.rule.waves if any(wave)]
        return np.array(waves, np.int64).reshape(-1, len(self.box.period))

    @property
    def cycles(self) -> Array:
        """Frequencies of these waves, without the longest of one input: a trend."""
        waves = self.waves
        trend = waves.shape[1] == 1 and np.array_equal(waves[:1], [[1]])
        frequencies: Array = waves[int(trend) :] / self.box.period
        return frequencies


class Search:
    """Select the rule, climb in its parameters, grow the number of functions.

    Parameters
    ----------
    statistics : SeriesStatistics
        Sums over rows, read by every candidate and every start.
    parameters : Parameters
    domain, inside, seen : ndarray of shape (d, 2)
        Where rows may lie, where functions must stand for the process, and the range
        of the rows.
    rows : Rows, optional
        With several inputs, the rows of the sums, from which those of another box are
        taken.
    """

    def __init__(
        self,
        statistics: SeriesStatistics,
        parameters: Parameters,
        domain: Array,
        inside: Array,
        seen: Array,
        rows: Rows | None = None,
    ):
        self.domain, self.inside, self.seen = domain, inside, seen
        self.d, self.rows = len(domain), rows
        kernel, size = parameters["kernel"], parameters["n_basis"]
        self.grows = isinstance(size, str)
        self.size = FIRST_FUNCTIONS[self.d] if isinstance(size, str) else int(size)
        # centre y, and scale it unless it is constant
        s, self.scale = statistics, np.ones_like(statistics.square)
        if not parameters["normalize_y"]:
            s = s.moved(0.0)
        else:
            if np.any(s.total**2 > 1e-24 * s.square * s.weight):
                s = s.moved(s.shift + s.total / s.weight)
            std = np.sqrt(np.maximum(s.square, 0.0) / s.weight)
            self.scale = np.where(std > 1e-14 * np.abs(s.shift), std, 1.0)
            if parameters["noise_variance"] is not None:
                # one unit for all targets
                self.scale[...] = np.sqrt(np.mean(self.scale**2))
        self.scale = self.scale[()]
        self.statistics, self.weight = s, s.weight
        squares = s.square / s.weight / self.scale**2
        self.variance = float(np.mean(squares)) or 1.0
        optimizes = parameters["optimizer"] is not None
        self.rules = candidates(kernel, seen, self.weight)
        is_ordered = parameters["order"] == "data"
        if is_ordered:
            self.rules = (self._ordered_by_data(self.rules[0]),)
        if isinstance(self.rules[0], RaisedEigenvalues):
            self.size = max(self.size, self.rules[0].n_raised)
        self.learns = optimizes and len(self.rules[0].theta) > 0
        self.is_default = kernel is None and optimizes
        # a bound with few functions would prefer kernels that are too smooth: where
        # their number is open, and of several inputs too small, what they leave out
        # counts as noise
        given = isinstance(kernel, Kernel) and self.learns and self.grows
        self.tail_is_noise = self.is_default or (given and self.d > 1)
        # the level of y, and waves that stand out, have a variance of their own
        series = kernel is None or isinstance(kernel, str)
        self.raises = self.learns and parameters["normalize_y"] and series
        self.boosts = self.raises and self.grows and not is_ordered
        self.noise = known_noise(parameters, self.scale)
        given = kernel if isinstance(kernel, Kernel) else ConstantKernel()
        self.stated, white = stated_priors(given), split_noise(given)[2]
        bounds = (0.0, np.inf) if isinstance(white, str | None) else white
        self.noise_range = np.ravel(np.asarray(bounds))

    def run(
        self,
        start: Prior | None = None,
        report: Callable[[Prior], bool] = lambda _: False,
    ) -> Prior:
        """Choose the rule, its parameters, the noise and the functions.

        Parameters
        ----------
        start : Prior, optional
            Found on some of the rows: its box, waves and family are kept.
        report : callable
            Called after each round; True stops the search.
        """
        if start is not None:
            found = self.maximised(start, self.size)
        else:
            found = self.begun()
            if self.boosts:
                found = self.with_trend(found, self.with_waves(found))
        stop = report(found)
        while not stop and not found.only_noise:
            rougher = self.rougher(found) if start is None else None
            better = self.larger(found) if rougher is None else rougher
            if better is None:
                break
            found, stop = better, report(better)
        return self.finished(found)

    # ---- Steps -----------------------------------------------------------------------

    def begun(self) -> Prior:
        """The smoothest candidate, from several starts, the most promising first."""
        rule = self.raised(self.rules[0])
        silent = self._silent(rule)
        starts = [self.scored(self.at(*one, self.size)) for one in self._starts(rule)]
        starts.sort(key=lambda one: -one.score)
        tried: list[Prior] = []
        for start in starts:
            tried.append(self.maximised(start, self.size))
            share = tried[-1].noise_variance / self.variance
            if share < 0.9 and tried[-1].bound > silent.bound:
                break
        found = max(tried, key=lambda one: one.score)
        if found.bound > silent.bound:
            return found
        if self.learns and not any(self.stated):
            return silent
        return found._replace(only_noise=self.noise is None)

    def rougher(self, prior: Prior) -> Prior | None:
        """The next candidate from where this one ended, if it is better by a nat."""
        family = prior.family + 1
        if not self.is_default or family >= len(self.rules):
            return None
        lengths = list(_FAMILIES.values())
        shape = self.rules[family].kernel
        kernel = shape.clone_with_theta(prior.rule.theta)
        kernel = stretched(kernel, np.log(lengths[family] / lengths[family - 1]))
        rule = prior.rule.around(KernelEigenvalues(kernel))
        start = prior._replace(rule=rule, family=family)
        size = len(prior.functions)
        if family > 1 and self.grows:
            # roughness shows in short waves
            size = max(size, min(family * (self.size - 1) + 1, MOST_SEARCHED))
        found = self.maximised(start, size, prior.score)
        return found if found.score > prior.score + 1.0 else None

    def larger(self, prior: Prior) -> Prior | None:
        """Twice as many functions, if they gain enough."""
        size = len(prior.functions)
        tail = prior.rule.spectrum(prior.functions, prior.box).tail
        left_out = 0.5 * self.weight * tail / prior.noise_variance
        if not self.grows or left_out < GAIN or size >= MOST_SEARCHED:
            return None
        found = self.maximised(prior, min(2 * size - 1, MOST_SEARCHED))
        grown = len(found.functions) > size
        better = found.score > prior.score + GAIN * self.weight
        return found if grown and better else None

    def finished(self, prior: Prior) -> Prior:
        """The prior with as many functions as the posterior needs, on its own box."""
        box = prior.box if len(prior.waves) else self.box_for(prior.rule)
        # as many functions as the target of the least noise needs
        least = float(np.min(self.noises(prior)))
        enough = prior._replace(box=box, noise_variance=least)
        size = self.enough(enough) if self.grows else self.size
        found = self.at(prior.rule, prior.noise_variance, size, box)
        free = self.noise is None and not self.stated[-1]
        # sums of one input are resolved as finely as the search of the default kernels
        free = free and not (self.is_default and self.d == 1)
        if free and len(found.functions) > len(prior.functions):
            spectrum = found.rule.spectrum(found.functions, found.box)
            white = spectrum.tail if self.tail_is_noise else 0.0
            residual = (spectrum.tail - white) * self.weight
            statistics = whitened(found.sums, spectrum.eigenvalues, residual)
            total = best_noise_variance(statistics, found.noise_variance + white)
            least, most = np.exp(self._noise_bounds(found))
            if not self.tail_is_noise:
                least, most = self.noise_range
            noise = float(np.clip(total - white, least, most))
            found = found._replace(noise_variance=noise)
        found = found._replace(noise_variance=self.noises(found))
        return found._replace(family=prior.family, only_noise=prior.only_noise)

    def noises(self, prior: Prior) -> Any:
        """Noise variance of each target given the prior; for one, that of the search.

        A free noise has its own evidence and the hyperprior of the search.
        """
        several = prior.sums.moment.ndim > 1
        if not several or self.noise is not None or self.stated[-1]:
            return prior.noise_variance + np.zeros(prior.sums.moment.shape[1:])
        spectrum = prior.rule.spectrum(prior.functions, prior.box)
        residual = self.weight * spectrum.tail
        each = TargetRegressions(whitened(prior.sums, spectrum.eigenvalues, residual))
        white = spectrum.tail if self.tail_is_noise else 0.0
        mean, std = np.log(0.1 * self.variance), 3.0 if self.is_default else np.inf
        return each.best_noise(*self._noise_bounds(prior), mean, std, white)

    def _noise_bounds(self, prior: Prior) -> Array:
        """Interval of ``log σ²`` in a search."""
        noises = noise_bounds(prior.sums.square, prior.sums.weight)
        return np.log(np.clip(noises, *self.noise_range))

    def enough(self, prior: Prior) -> int:
        """Functions without which the posterior is that of all, but for a per cent.

        Notes
        -----
        Data of density n / U on a part U of a box of volume V know a function with the
        eigenvalue λ as well as nV/U rows all over the box would: its variance becomes
        ``λ / (1 + s)``, ``s = n λ V / (U σ²)``, instead of λ. The first m functions are
        enough where ``Σ_{j>m} λ_j s_j / (1 + s_j)`` is at most 2 % of ``Σ λ_j / (1 +
        s_j)`` and the tail costs the bound at most 0.01 nats an observation. Those up
        to the elbow ``n λ_j >= σ²`` are always in.
        """
        index = prior.rule.index(prior.box, MOST_FUNCTIONS)
        values, _, tail, _ = prior.rule.spectrum(index, prior.box)
        known = values / (1.0 + self.known(prior, values))
        inflation = values - known
        # the functions beyond the list are known no better than its last
        beyond = tail * inflation[-1] / max(values[-1], np.finfo(float).tiny)
        left_out = np.cumsum(np.append(beyond, inflation[::-1]))[::-1]
        fine = int(np.sum(left_out > 0.02 * (known.sum() + tail)))
        left_out = np.cumsum(np.append(tail, values[::-1]))[::-1]
        costly = int(np.sum(0.5 * left_out > GAIN * prior.noise_variance))
        elbow = int(np.sum(self.weight * values >= prior.noise_variance))
        needed = max(fine, costly, elbow, prior.rule.n_raised)
        return min(needed + 1 - needed % 2, MOST_FUNCTIONS)

    def known(self, prior: Prior, eigenvalues: Array) -> Array:
        """``s = n λ V / (U σ²)``: precision of functions by the rows, see `enough`."""
        width = self.domain[:, 1] - self.domain[:, 0]
        filled = np.maximum(self.seen[:, 1] - self.seen[:, 0], 0.1 * width)
        density = self.weight * float(np.prod(prior.box.period / filled))
        found: Array = density / prior.noise_variance * eigenvalues
        return found

    # ---- Evidence --------------------------------------------------------------------

    def at(self, rule: Any, noise: float, size: int, box: Box | None = None) -> Prior:
        """Functions and sums of a rule, in whole pairs, on its own box by default."""
        box = self.box_for(rule) if box is None else box
        s = self.statistics.on(box)
        box = s.box if self.rows is None else box
        functions = rule.index(box, size + 1 - size % 2)
        reach = functions.reach()
        held = np.array_equal(box.period, s.box.period) and np.all(reach <= s.reach())
        if self.rows is not None and not held:
            s = row_sums(self.rows, self.domain, box, reach, None, s.shift)
        known = np.all(np.abs(functions.waves) <= s.reach(), axis=1)
        functions = functions.part(np.flatnonzero(known))
        sums = s.normal_equations(functions, self.scale)
        return Prior(rule, noise, box, functions, sums)

    def box_for(self, rule: Any) -> Box:
        """Box that a rule wants."""
        where = self.domain, self.inside, self.seen
        return box_of(*where, kernel_of(rule), self.learns)

    def scored(self, prior: Prior) -> Prior:
        """The prior with its bound and its score."""
        value, _ = self._value(prior, prior.rule, prior.noise_variance)
        point = np.r_[np.log(prior.noise_variance), prior.rule.theta]
        return prior._replace(bound=value, score=value + self._hyperprior(point)[0])

    def maximised(self, start: Prior, size: int, least: float = -np.inf) -> Prior:
        """Largest score from a start, on a box that fits, unless waves are raised.

        A climb that ends below the score `least` is not repeated on another box, which
        is worth less than a nat.
        """
        found, moves = start, self.learns and (self.d == 1 or self.rows is not None)
        for _ in range(3):
            found = self.at(found.rule, found.noise_variance, size, found.box)
            found = self.climbed(found)._replace(family=start.family)
            box = self.box_for(found.rule)
            ratio = box.period / found.box.period
            fits = np.all((ratio > 0.5) & (ratio < 1.5)) or found.score < least
            if fits or len(found.waves) or not moves:
                break
            found = found._replace(box=box)
        return found

    def climbed(self, start: Prior) -> Prior:
        """Largest score from a start, with its functions."""
        at = np.r_[np.log(self.noise or start.noise_variance), start.rule.theta]
        free = np.r_[self.noise is None, np.full(len(at) - 1, self.learns)]
        if not free.any():
            return self.scored(start._replace(noise_variance=float(np.exp(at[0]))))
        noises, kernel = self._noise_bounds(start), innermost_kernel(start.rule)
        # of the scale of a series prior
        others = np.log([(1e-8, 1e8)]) if kernel is None else kernel.bounds
        # the rows know the noise better than all else: a step in it is worth more
        unit = np.ones(len(at))
        unit[0] += np.sqrt(self.weight / len(start.functions))
        bounds = np.vstack((noises, others.reshape(-1, 2))) * unit[:, np.newaxis]

        def placed(values: Array) -> tuple[Any, float]:
            at[free] = values / unit[free]
            rule = start.rule.with_theta(at[1:]) if self.learns else start.rule
            return rule, float(np.exp(at[0]))

        def negative(values: Array) -> tuple[float, Array]:
            value, gradient = self._value(start, *placed(values))
            more, slope = self._hyperprior(at)
            return -(value + more), -((gradient + slope) / unit)[free]

        found = optimize.minimize(
            negative,
            np.clip((at * unit)[free], *bounds[free].T),
            jac=True,
            method="L-BFGS-B",
            bounds=bounds[free],
            # a thousandth of a nat
            options={"maxiter": 100, "ftol": 1e-3 / max(1.0, self.weight)},
        )
        rule, noise = placed(found.x)
        score = -float(found.fun)
        bound = score - self._hyperprior(at)[0]
        return start._replace(rule=rule, noise_variance=noise, bound=bound, score=score)

    def _value(self, prior: Prior, rule: Any, noise: float) -> tuple[float, Array]:
        """Evidence and its gradient in ``log σ²`` and theta.

        The bound; of the default kernels, and of a kernel of several inputs, the
        evidence in which the functions that are left out are white noise, as they are
        at rows farther apart than their waves.
        """
        spectrum = rule.spectrum(prior.functions, prior.box)
        if not self.tail_is_noise:
            return series_evidence(prior.sums, spectrum, noise)
        tail, slopes = spectrum.tail, spectrum.tail_slopes
        spectrum = spectrum._replace(tail=0.0, tail_slopes=0.0 * slopes)
        value, gradient = series_evidence(prior.sums, spectrum, noise + tail)
        in_noise = gradient[0] / (noise + tail)
        return value, gradient + in_noise * np.r_[-tail, slopes]

    def _hyperprior(self, point: Array) -> tuple[float, Array]:
        """Log density of ``log σ²`` and theta up to a constant, and its gradient.

        A user's kernel may state priors. Otherwise normal: noise variances around a
        tenth of that of y, amplitudes around it and lengthscales around the spread of
        the rows.
        """
        if not self.is_default:
            value, slope = stated_log_density(self.stated, np.roll(point, -1))
            return value, np.roll(slope, 1)
        spread = np.full(len(point), 1.5)
        spread[:2] = 3.0, 2.0
        centre = np.r_[np.log(0.1 * self.variance), self.rules[0].theta]
        z = (point - centre) / spread
        return -0.5 * float(z @ z), -z / spread

    # ---- Starts ----------------------------------------------------------------------

    def raised(self, rule: Any, waves: Any = ()) -> RaisedEigenvalues:
        """The rule with the level of y, and waves, of the variance of y."""
        level = ((0,) * self.d,) if self.raises else ()
        chosen = (tuple(int(k) for k in wave) for wave in waves)
        return RaisedEigenvalues(rule, (*level, *chosen), self.variance)

    def _ordered_by_data(self, rule: Any) -> OrderedEigenvalues:
        """The rule with the first n functions sorted by their size in the data.

        ``φ_jᵀy / n`` estimates the coefficient of φ_j (section 6.2): its square is
        summed over targets in units of each, and over the sine and the cosine where
        these have one eigenvalue, so that the order does not depend on the origin.
        """
        period = self.domain[:, 1] - self.domain[:, 0]
        statistics = self.statistics.on(Box(self.domain[:, 0], period))
        n_waves = min(
            (int(self.weight) - 1) // 2,
            MOST_ORDERED,
            int(statistics.reach()[0]),
        )
        n_waves = max(n_waves, 1)
        functions = by_length(1, 2 * n_waves + 1)
        _, tables = statistics.tables(np.array([n_waves]))
        moments = np.stack([moment(functions, table) for table in tables], axis=1)
        power = np.sum((moments / np.ravel(self.scale)) ** 2, axis=1)
        if not rule.paired:
            order = np.argsort(-power, kind="stable")
        else:
            by_wave = power[1:].reshape(-1, 2).sum(axis=1)
            waves = np.argsort(-by_wave, kind="stable")
            pairs = 2 * waves[:, np.newaxis] + np.array([1, 2])
            order = np.append(0, pairs)
        return OrderedEigenvalues(rule, tuple(order.tolist()))

    def _starts(self, rule: Any) -> Iterator[tuple[Any, float]]:
        """Rules and noise variances to start from."""
        kernel, inner = innermost_kernel(rule), rule.rule
        if not self.learns:
            yield rule, self.noise or 0.1 * self.variance
            return
        for factor, share in _STARTS:
            if kernel is not None:
                inner = inner.with_theta(stretched(kernel, np.log(factor)).theta)
            else:
                box = self.box_for(rule)
                spectrum = inner.spectrum(rule.index(box, self.size), box)
                total = float(spectrum.eigenvalues.sum()) + spectrum.tail
                ratio = (1.0 - share) * self.variance / total
                inner = inner.with_theta(inner.theta + np.log(ratio))
            yield rule.around(inner), self.noise or share * self.variance

    def _silent(self, rule: Any) -> Prior:
        """Noise around a function that is nothing, but for its level."""
        nothing = _vanishing(rule, 1e-8 * self.variance)
        found = self.at(nothing, self.noise or self.variance, 1)
        spectrum = found.rule.spectrum(found.functions, found.box)
        value, _ = series_evidence(found.sums, spectrum, found.noise_variance)
        return found._replace(bound=value, only_noise=True)

    # ---- Waves whose power stands out of what prior and noise explain ----------------

    def with_trend(self, plain: Prior, waves: Prior) -> Prior:
        """Beside waves of one input also a trend, if it gains more than its price.

        It is the longest wave of a box on which that is nearly a parabola.
        """
        if self.d > 1 or not len(waves.waves) or kernel_of(plain.rule) is None:
            return waves
        trend = self.with_waves(plain, 5.0, 1)
        price = (len(trend.waves) - len(waves.waves)) * _price(self.statistics)
        return trend if trend.score > waves.score + price else waves

    def with_waves(self, plain: Prior, wide: float = 3.0, trends: int = 0) -> Prior:
        """The prior with waves raised that stand out of it, where that pays.

        On a box that tells waves apart, several times as wide as the rows, to the
        shortest that they can show.
        """
        look, box = copy.copy(self), plain.box
        if kernel_of(plain.rule) is not None:
            widths = self.seen[:, 1] - self.seen[:, 0]
            # a constant column keeps the box of the kernel
            period = np.where(widths > 0.0, wide * widths, box.period)
            box = box._replace(period=period)
        look.statistics = self.statistics.on(box)
        if self.rows is not None:
            reach = np.full(self.d, {2: 110, 3: 24}[self.d])
            how = self.rows, self.domain, box, reach, None, self.statistics.shift
            look.statistics, look.rows = row_sums(*how), None
        box = look.statistics.box
        starts = [(self.rules[0], 0.1 * self.variance)]
        if not plain.only_noise:
            starts.append((plain.rule.rule, plain.noise_variance))
        price = _price(look.statistics)
        found: Any = None
        waves, more = plain.waves, np.ones((trends, self.d), np.int64)
        for _ in range(9):
            waves = np.concatenate((waves, more))
            size = int(wide / 3.0 * self.size) + 2 * len(waves)
            others = [
                look.climbed(look.at(self.raised(inner, waves), noise, size, box))
                for inner, noise in starts
            ]
            other = max(others, key=lambda one: one.score)
            if found is not None:
                if other.bound <= found.bound + len(more) * price:
                    break
                starts = [(other.rule.rule, other.noise_variance)]
            found, more = other, look.standing_out(other)
            if not len(more):
                break
        n_cycles = len(found.waves) - trends
        pays = found.score > plain.score + n_cycles * price
        return found if n_cycles and pays else plain

    def standing_out(self, prior: Prior) -> Integers:
        """Waves (r, d) with more power than the fit expects, the strongest first.

        Notes
        -----
        With ``R_k = Σ w (y - f(x)) exp(2πi k·t)`` of the residuals and ``s_k = n λ_k V
        / (U σ²)`` the precision of the wave by the rows, ``P_k = |R_k|² / (n σ² (1 +
        s_k))`` is nearly a standard exponential variable for a wave outside of the
        basis, and ``|R_k|² (1 + s_k) / (n σ²)`` for one inside. Waves with ``s_k >= 1``
        are known from the data anyway, and stay where they are unless nearly all longer
        waves have far less power than the prior gave them for the sake of this one. Of
        K waves of t targets the largest stands out above ``log(t K / 0.01)``: noise has
        one in a hundred data sets, or fewer.

        Where the rows cannot tell two waves apart, as on a grid, the longer is taken.
        """
        statistics, functions = self.statistics, prior.functions
        sums, moments = statistics.tables(statistics.reach())
        reach, steps = reach_of(moments[0]), strides_of(moments[0])
        waves = half_space(reach)
        length = np.sum(waves**2, axis=1)
        order = np.argsort(length, kind="stable")
        waves, length = waves[order], length[order]
        values = prior.rule.spectrum(functions, prior.box).eigenvalues
        listed = prior.rule.spectrum(function_list(waves), prior.box)
        inside = np.isin(waves @ steps, functions.waves @ steps)
        raised = np.isin(waves @ steps, prior.waves @ steps)
        level = np.log(len(moments) * len(waves) / _FALSE_ALARMS)
        own = whitened(prior.sums, values, 0.0)
        power, high = np.zeros(len(waves)), np.zeros(len(waves), bool)
        units = np.ravel(self.scale), np.ravel(self.noises(prior))
        for one, table, scale, noise in zip(
            own.targets(),
            moments,
            *units,
            strict=True,
        ):
            mean = posterior_mean_from(one, noise, precision_root(own.gram, noise))
            fit = combination(functions, np.sqrt(values) * mean)
            fitted = waves_of(convolve(sums, fit, reach), waves)
            residual = waves_of(table, waves) / scale - fitted
            at_noise = prior._replace(noise_variance=noise)
            known = self.known(at_noise, listed.eigenvalues[2::2])
            factor = np.where(inside, 1.0 + known, 1.0 / (1.0 + known))
            of_one = np.abs(residual) ** 2 * factor / (self.weight * noise)
            stands = (of_one > level) & ~raised
            for i in np.flatnonzero(stands & (known >= 1.0)):
                longer = of_one[length < length[i]]
                stands[i] = len(longer) >= 8 and float(np.median(longer)) < 0.1
            power, high = np.maximum(power, of_one), high | stands
        found = np.flatnonzero(high & (power > 0.1 * power[high].max(initial=0.0)))
        found = found[np.argsort(-power[found], kind="stable")]
        kept: list[int] = []
        for i in found:
            # how alike two waves are on the rows
            apart, summed = (
                np.abs(waves_of(sums, waves[found] + sign * waves[i]))
                for sign in (-1, 1)
            )
            same = np.maximum(apart, summed) / float(np.abs(sums).max())
            longer = (length[found] < length[i]) & (power[found] >= 0.5 * power[i])
            stronger = np.isin(found, kept)
            if not np.any((same > 0.97) & longer) and not np.any(same[stronger] > 0.7):
                kept.append(int(i))
        return waves[kept[:64]]


def _price(statistics: SeriesStatistics) -> float:
    """Nats for a wave: one in so many sets of noise has one."""
    count = float(np.prod(2.0 * statistics.reach() + 1.0)) / 2.0
    return float(np.log(count / _FALSE_ALARMS))


def _vanishing(rule: Any, variance: float) -> Any:
    """The rule with next to no variance, but that of raised waves."""
    if isinstance(rule, RaisedEigenvalues):
        return rule.around(_vanishing(rule.rule, variance))
    if isinstance(rule, KernelEigenvalues):
        return KernelEigenvalues(ConstantKernel(variance, "fixed") * rule.kernel)
    return rule.with_theta(np.log([variance]))


def candidates(kernel: Any, seen: Array, weight: float) -> tuple[Any, ...]:
    """Candidate rules from smooth to rough, as their search starts.

    Of the default kernel a constant times the RBF and Matern kernels, with the
    lengthscales and bounds of the default kernel of uniform rows in a range (d, 2).
    """
    d = len(seen)
    if isinstance(kernel, Kernel):
        return (KernelEigenvalues(split_noise(kernel)[0]),)
    if kernel is not None:
        return (PolynomialEigenvalues() if isinstance(kernel, str) else kernel,)
    std = (seen[:, 1] - seen[:, 0]) / np.sqrt(12.0)
    std = np.where(std > 0.0, std, 1.0)
    least = min(1e-2, np.sqrt(12.0) * max(weight, 1.0) ** (-1.0 / d))
    scale: Any = 2.0 * np.sqrt(d) * std
    bounds = np.column_stack((least * std, 1e3 * std))
    if d == 1:
        scale, bounds = float(scale[0]), bounds[0]
    shapes = (
        RBF(scale, bounds) if nu == np.inf else Matern(scale, bounds, nu=nu)
        for nu in _FAMILIES
    )
    one = ConstantKernel(1.0, (1e-3, 1e3))
    return tuple(KernelEigenvalues(one * shape) for shape in shapes)
