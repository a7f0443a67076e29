"""The prior of a fit on Fourier functions, from sums over rows.

Every stationary kernel, and the series prior, is a diagonal prior over the same Fourier
functions: candidates are compared by the collapsed bound of the evidence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import optimize
from sklearn.gaussian_process.kernels import ConstantKernel

from skgpx._numerics.fourier_gram import combination, convolved
from skgpx._numerics.fourier_index import (
    Box,
    FourierIndex,
    Integers,
    function_list,
    half_space,
)
from skgpx._numerics.regression import (
    WeightStatistics,
    posterior_mean_from,
    precision_root,
)
from skgpx._numerics.series_evidence import (
    Spectrum,
    best_noise_variance,
    noise_bounds,
    series_evidence,
    whitened,
)
from skgpx._selection import stretched
from skgpx._spectral_vgp._domain import kernel_of
from skgpx._spectral_vgp._sums import StandardSums
from skgpx.bases import KernelEigenvalues, RaisedEigenvalues

Array = NDArray[np.float64]
Report = Callable[["Prior"], bool]

# Functions with which a search begins by the number of inputs, at most at its end, and
# at most in a basis.
FIRST_FUNCTIONS = {1: 101, 2: 201, 3: 301}
MOST_SEARCHED, MOST_FUNCTIONS = 501, 1501
# Nats an observation that twice as many functions must gain.
_GAIN = 0.01
# Nats by which a rougher kernel must be better than a smoother one.
_MARGIN = 1.0
# Factors of the lengthscales, and share of the variance that is noise, in first
# guesses; the others are tried where nothing is better than noise alone.
_STARTS = ((1.0, 0.1), (0.2, 0.1), (0.04, 0.1), (4.0, 0.1))
_OTHER_STARTS = ((4.0, 0.3), (16.0, 0.3), (1.0, 0.7), (0.5, 0.3))
_SHARES = (0.01, 0.1, 0.5, 0.9)
# Standard deviations of the logarithms of amplitude, lengthscales and noise variance
# under the hyperprior of the default kernel, and the median of the last.
_SPREADS, _NOISE = (2.0, 1.5, 3.0), 0.1
# Search interval of the scale of a series prior, and the scale of one that is nothing.
_SCALE_BOUNDS, _SILENCE = (1e-8, 1e8), 1e-8
# Nats that a step of a search gains at least.
_TOLERANCE = 1e-6
# Ratios of a new side of the box to the old at which sums are taken again.
_LESS_ROOM, _MORE_ROOM = 0.75, 1.1


class SeriesSettings(NamedTuple):
    """Parameters that decide about the prior; see `SpectralVGPRegressor`.

    Attributes
    ----------
    rules : tuple of EigenvalueRule
        Candidates from smooth to rough, as their search starts.
    factors : tuple of float
        Of the lengthscales of each, for functions that look alike.
    learns : bool
        Whether their parameters are searched for.
    is_default : bool
        Whether parameters have a hyperprior.
    n_basis : int or "auto"
    noise_variance : float or None
        In squared units of y; None searches for it.
    white : float or None
        Fixed variance of the WhiteKernel, for the standardised y.
    raises : bool
        Whether the level and waves that stand out have a variance of their own.
    """

    rules: tuple[Any, ...]
    factors: tuple[float, ...]
    learns: bool
    is_default: bool
    n_basis: int | str
    noise_variance: float | None
    white: float | None
    raises: bool

    def given_noise(self, scale: float) -> float | None:
        """Noise variance that is not searched for, for ``y / scale``."""
        if self.noise_variance is None:
            return self.white
        return self.noise_variance / scale**2


class Prior(NamedTuple):
    """Point of a search: hyperparameters, the functions of the basis and the bound.

    Attributes
    ----------
    sums : StandardSums
        On the box of the functions.
    functions : FourierIndex
    rule : EigenvalueRule
    noise_variance : float
        For the standardised y.
    bound : float
        Of the log evidence, in nats, of the standardised y.
    score : float
        With the log density of the hyperprior.
    candidate : int
        Number of the rule.
    only_noise : bool
        Whether noise alone has at least this bound.
    """

    sums: StandardSums
    functions: FourierIndex
    rule: Any
    noise_variance: float
    bound: float
    score: float
    candidate: int = 0
    only_noise: bool = False

    @property
    def log_evidence(self) -> float:
        """The bound in the units of y."""
        return self.bound - self.sums.weight * float(np.log(self.sums.scale))

    @property
    def waves(self) -> Integers:
        """Waves that stand out, (r, d)."""
        waves = [w for w in getattr(self.rule, "waves", ()) if any(w)]
        return np.array(waves, np.int64).reshape(-1, len(self.sums.domain))


def search_prior(
    sums: StandardSums,
    settings: SeriesSettings,
    start: Prior | None = None,
    report: Report = lambda _: False,
) -> Prior:
    """Choose the rule, its parameters, the noise and the functions.

    Parameters
    ----------
    sums : StandardSums
    settings : SeriesSettings
    start : Prior, optional
        Found on some of the rows: its box, waves and family are kept.
    report : callable
        Called after each round; True stops the search.
    """
    find = _Search(sums, settings)
    if start is not None:
        found = find.maximised(start._replace(sums=sums), find.size)
    else:
        found = find.begun()
        if settings.raises and settings.n_basis == "auto":
            found = find.with_waves(found)
    stop = report(found)
    while not stop and not found.only_noise:
        rougher = find.rougher(found) if start is None else None
        if rougher is None:
            larger = find.larger(found)
            if larger is None:
                break
            found, stop = larger, report(larger)
        else:
            found, stop = rougher, report(rougher)
    return find.finished(found)


class _Search:
    """What the steps of a search have in common."""

    def __init__(self, sums: StandardSums, settings: SeriesSettings):
        self.sums, self.settings = sums, settings
        self.given_noise = settings.given_noise(sums.scale)
        self.variance = sums.variance or 1.0
        self.d = len(sums.domain)
        start = settings.rules[0].theta
        self.centre = np.r_[np.log(_NOISE * self.variance), start]
        spread = np.r_[_SPREADS[0], np.full(len(start), _SPREADS[1])]
        self.spread = np.r_[_SPREADS[2], spread[: len(start)]]
        fixed = settings.n_basis
        self.size = FIRST_FUNCTIONS[self.d] if isinstance(fixed, str) else int(fixed)

    # ---- Steps -----------------------------------------------------------------------

    def begun(self) -> Prior:
        """The smoothest candidate, from several starts, the most promising first."""
        rule = self._levelled(self.settings.rules[0])
        silent = self._silent(rule)
        points = self._points(rule, _STARTS)
        found = self._best(points, silent)
        if (
            found.bound <= silent.bound
            and self._learns
            and not self.settings.is_default
        ):
            more = self._best(self._points(rule, _OTHER_STARTS), silent)
            found = max(found, more, key=lambda one: one.score)
        if found.bound > silent.bound:
            return found
        if self.settings.learns:
            return silent._replace(only_noise=True)
        return found._replace(only_noise=self.given_noise is None)

    def with_waves(self, plain: Prior) -> Prior:
        """The prior with waves raised that stand out of it, where that pays."""
        find = _Search(self._to_look_at(plain.rule), self.settings)
        found = find.fixed(plain.rule, plain.noise_variance, self.size)
        begin = self.settings.rules[0], _NOISE * self.variance
        starts = (
            [begin]
            if plain.only_noise
            else [begin, (plain.rule.rule, plain.noise_variance)]
        )
        for _ in range(_LOOKS):
            more = standing_out(found)
            if not len(more):
                break
            raised = self._levelled(begin[0], np.concatenate((found.waves, more)))
            size = self.size + 2 * len(raised.waves)
            others = [find.fixed(raised.around(r), noise, size) for r, noise in starts]
            other = max(others, key=lambda one: one.score)
            if other.bound <= found.bound + price(found, more):
                break
            found, starts = other, [(other.rule.rule, other.noise_variance)]
        pays = found.score > plain.score + price(found, found.waves)
        return found if len(found.waves) and pays else plain

    def _to_look_at(self, rule: Any) -> StandardSums:
        """Sums on a box that tells waves apart, to the shortest that rows can show."""
        box, sums = self.sums.box_for(kernel_of(rule), True), self.sums
        if kernel_of(rule) is not None:
            widths = sums.seen[:, 1] - sums.seen[:, 0]
            # a constant column keeps the box of the kernel
            period = np.where(widths > 0.0, _LOOK * widths, box.period)
            box = box._replace(period=period)
        if self.d == 1:
            return sums.on(box, self._reach(rule, box, 0))
        return sums.on(
            box, np.maximum(self._reach(rule, box, 0), _LONGEST_LISTS[self.d])
        )

    def rougher(self, prior: Prior) -> Prior | None:
        """The next candidate from where this one ended, if it is better."""
        i = prior.candidate + 1
        if i >= len(self.settings.rules):
            return None
        inner = getattr(prior.rule, "rule", prior.rule)
        shape = self.settings.rules[i].kernel
        kernel = shape.clone_with_theta(inner.kernel.theta)
        ratio = self.settings.factors[i] / self.settings.factors[i - 1]
        rule = KernelEigenvalues(stretched(kernel, np.log(ratio)))
        size = len(prior.functions)
        if prior.candidate and self.settings.n_basis == "auto":
            # roughness shows in short waves
            size = max(size, min(i * (self.size - 1) + 1, MOST_SEARCHED))
        found = self.maximised(prior._replace(rule=_within(prior.rule, rule)), size)
        better = found.score > prior.score + _MARGIN
        return found._replace(candidate=i) if better else None

    def larger(self, prior: Prior) -> Prior | None:
        """Twice as many functions, if they gain enough."""
        size, weight = len(prior.functions), prior.sums.weight
        tail = prior.rule.spectrum(prior.functions, prior.sums.box).tail
        left_out = 0.5 * weight * tail / prior.noise_variance
        if self.settings.n_basis != "auto" or left_out < _GAIN or size >= MOST_SEARCHED:
            return None
        found = self.maximised(prior, min(2 * size - 1, MOST_SEARCHED))
        grown = len(found.functions) > size
        return found if grown and found.score > prior.score + _GAIN * weight else None

    def finished(self, prior: Prior) -> Prior:
        """The prior with as many functions as the posterior needs."""
        if self.settings.n_basis != "auto":
            return prior
        sums, rule, noise = prior.sums, prior.rule, prior.noise_variance
        size = enough(rule, sums, noise)
        sums = sums.on(sums.box, self._reach(rule, sums.box, size))
        functions = sums.first(rule, size)
        is_free = self.given_noise is None and not self.settings.is_default
        if is_free and len(functions) > len(prior.functions):
            spectrum = rule.spectrum(functions, sums.box)
            equations = sums.equations(functions)
            statistics = whitened(
                equations, spectrum.eigenvalues, spectrum.tail * sums.weight
            )
            noise = best_noise_variance(statistics, noise)
        return prior._replace(sums=sums, functions=functions, noise_variance=noise)

    # ---- Maxima ----------------------------------------------------------------------

    def maximised(self, prior: Prior, size: int) -> Prior:
        """Largest score from a start, on a box that fits, unless waves are raised."""
        sums, rule, noise = prior.sums, prior.rule, prior.noise_variance
        for _ in range(3):
            sums = sums.on(sums.box, self._reach(rule, sums.box, size))
            find = _Search(sums, self.settings)
            found = find.fixed(rule, noise, size)._replace(candidate=prior.candidate)
            box = sums.box_for(kernel_of(found.rule), self._learns)
            ratio = box.period / sums.box.period
            fits = np.all((ratio > _LESS_ROOM) & (ratio < _MORE_ROOM))
            if fits or len(found.waves) or not self._learns:
                break
            rule, noise = found.rule, found.noise_variance
            sums = sums.on(box, self._reach(rule, box, size))
        return found

    def fixed(self, rule: Any, noise: float, size: int) -> Prior:
        """Largest score from a start, on the box of the sums."""
        sums, settings = self.sums, self.settings
        functions = sums.first(rule, size)
        equations = sums.equations(functions)
        whole = np.r_[np.log(self.given_noise or noise), rule.theta]
        free = np.full(len(whole), settings.learns)
        free[0] = self.given_noise is None
        if not free.any():
            return self._point(sums, functions, rule, float(np.exp(whole[0])))
        noises = np.log(noise_bounds(equations.square, equations.weight))
        bounds = np.vstack((noises, _theta_bounds(rule)))
        at = np.clip(whole, *bounds.T)
        at[~free] = whole[~free]

        def negative(values: Array) -> tuple[float, Array]:
            at[free] = values
            own = rule.with_theta(at[1:]) if settings.learns else rule
            spectrum = own.spectrum(functions, sums.box)
            value, gradient = self._value(equations, spectrum, float(np.exp(at[0])))
            more, slope = self._hyperprior(at)
            return -(value + more), -(gradient + slope)[free]

        before = negative(at[free])[0]
        found = optimize.minimize(
            negative, at[free], jac=True, method="L-BFGS-B", bounds=bounds[free],
            options={"maxiter": 100, "ftol": _TOLERANCE / max(1.0, abs(before))},
        )  # fmt: skip
        at[free] = found.x
        rule = rule.with_theta(at[1:]) if settings.learns else rule
        return self._point(sums, functions, rule, float(np.exp(at[0])))

    def _point(
        self, sums: StandardSums, functions: FourierIndex, rule: Any, noise: float
    ) -> Prior:
        spectrum, equations = (
            rule.spectrum(functions, sums.box),
            sums.equations(functions),
        )
        value = self._value(equations, spectrum, noise)[0]
        more = self._hyperprior(np.r_[np.log(noise), rule.theta])[0]
        return Prior(sums, functions, rule, noise, value, value + more)

    def _value(
        self, equations: WeightStatistics, spectrum: Spectrum, noise: float
    ) -> tuple[float, Array]:
        """Evidence and its gradient in ``log σ²`` and theta.

        The bound; of the default kernels the evidence in which the functions that are
        left out are white noise, as they are at rows farther apart than their waves: a
        bound with few functions would prefer kernels that are too smooth.
        """
        if not self.settings.is_default:
            return series_evidence(equations, spectrum, noise)
        tail, slopes = spectrum.tail, spectrum.tail_slopes
        spectrum = spectrum._replace(tail=0.0, tail_slopes=0.0 * slopes)
        value, gradient = series_evidence(equations, spectrum, noise + tail)
        in_noise = gradient[0] / (noise + tail)
        return value, gradient + in_noise * np.r_[-tail, slopes]

    def _hyperprior(self, point: Array) -> tuple[float, Array]:
        """Log density of ``log σ²`` and theta up to a constant, and its gradient."""
        if not self.settings.is_default:
            return 0.0, np.zeros(len(point))
        z = (point - self.centre) / self.spread
        return -0.5 * float(z @ z), -z / self.spread

    # ---- Starts ----------------------------------------------------------------------

    @property
    def _learns(self) -> bool:
        return self.settings.learns

    def _levelled(self, rule: Any, waves: Integers | None = None) -> Any:
        """The rule with the level, and waves, of the variance of y."""
        if not self.settings.raises:
            return rule
        chosen = [] if waves is None else [tuple(w) for w in waves.tolist()]
        return RaisedEigenvalues(rule, ((0,) * self.d, *chosen), self.variance)

    def _points(
        self, rule: Any, starts: Sequence[tuple[float, float]]
    ) -> list[tuple[Any, float]]:
        """Rules and noise variances to start from."""
        kernel = kernel_of(rule)
        if not self.settings.learns:
            return [(rule, self.given_noise or _NOISE * self.variance)]
        if kernel is None:
            spectrum = rule.spectrum(
                rule.index(self.sums.box, self.size), self.sums.box
            )
            inner = getattr(rule, "rule", rule)
            plain = inner.spectrum(rule.index(self.sums.box, self.size), self.sums.box)
            total = float(plain.eigenvalues.sum()) + spectrum.tail
            return [
                (_within(rule, inner.with_theta(inner.theta + np.log(
                    max(1.0 - share, 0.1) * self.variance / total))),
                 share * self.variance)
                for share in _SHARES
            ]  # fmt: skip
        return [
            (
                _within(rule, KernelEigenvalues(stretched(kernel, np.log(factor)))),
                self.given_noise or share * self.variance,
            )
            for factor, share in starts
        ]

    def _best(self, points: list[tuple[Any, float]], silent: Prior) -> Prior:
        """Climb from the best start, and the others while there is only noise."""
        placed = []
        for rule, noise in points:
            kernel = kernel_of(rule)
            box = self.sums.box_for(kernel, self._learns)
            sums = self.sums.on(box, self._reach(rule, box, self.size))
            placed.append(self._point(sums, sums.first(rule, self.size), rule, noise))
        placed.sort(key=lambda one: -one.score)
        tried: list[Prior] = []
        for point in placed[: 2 if self.settings.is_default else len(placed)]:
            tried.append(self.maximised(point, self.size))
            share = tried[-1].noise_variance / self.variance
            if share < 0.9 and tried[-1].bound > silent.bound:
                break
        return max(tried, key=lambda one: one.score)

    def _silent(self, rule: Any) -> Prior:
        """Noise around a function that is nothing, but for its level."""
        inner = getattr(rule, "rule", rule)
        if kernel_of(rule) is not None:
            factor = ConstantKernel(_SILENCE * self.variance, "fixed")
            inner = KernelEigenvalues(factor * inner.kernel)
        else:
            inner = inner.with_theta(np.log([_SILENCE * self.variance]))
        rule = _within(rule, inner)
        box = self.sums.box_for(kernel_of(rule), self._learns)
        sums = self.sums.on(box, self._reach(rule, box, 1))
        functions = sums.first(rule, 1)
        noise = self.given_noise or self.variance
        spectrum = rule.spectrum(functions, box)
        value = series_evidence(sums.equations(functions), spectrum, noise)[0]
        return Prior(sums, functions, rule, noise, value, -np.inf)

    def _reach(self, rule: Any, box: Box, size: int) -> Integers:
        """Wave numbers to sum, with room for those of other parameters."""
        if self.d == 1:
            return np.zeros(1, np.int64)
        size = max(size, FIRST_FUNCTIONS[self.d])
        reach = rule.index(box, size).reach()
        return np.minimum(reach + reach // 4 + 1, size)


def _within(rule: Any, inner: Any) -> Any:
    """The same raised functions around another rule."""
    return rule.around(inner) if isinstance(rule, RaisedEigenvalues) else inner


def _theta_bounds(rule: Any) -> Array:
    kernel = kernel_of(rule)
    if kernel is not None:
        bounds: Array = kernel.bounds.reshape(-1, 2)
        return bounds
    return np.log([_SCALE_BOUNDS])


# ---- How many functions --------------------------------------------------------------

# Part of the posterior variance that functions left out may add to it, for the sake of
# which there are at most so many functions; nats they may cost.
_INFLATION, _MOST_REFINED, _COST = 0.02, 1001, 0.01


def enough(rule: Any, sums: StandardSums, noise_variance: float) -> int:
    """Functions without which the posterior is that of all, but for a per cent.

    Notes
    -----
    Data of density n / U on a part U of a box of volume V know a function with the
    eigenvalue λ as well as nV/U rows all over the box would: its variance becomes ``λ /
    (1 + s)``, ``s = n λ V / (U σ²)``, instead of λ. The first m functions are enough
    where ``Σ_{j>m} λ_j s_j / (1 + s_j)`` is at most 2 % of ``Σ λ_j / (1 + s_j)``, or a
    thousand if they go beyond the elbow ``n λ_j >= σ²``, which is always in, or where
    the tail costs the bound at most .01 nats an observation.
    """
    box, weight = sums.box, sums.weight
    spectrum = rule.spectrum(rule.index(box, MOST_FUNCTIONS), box)
    values, tail = spectrum.eigenvalues, spectrum.tail
    known = values / (1.0 + weight * sums.density / noise_variance * values)
    inflation = values - known
    # the functions beyond the list are known no better than its last
    last = inflation[-1] / max(values[-1], np.finfo(float).tiny)
    beyond = _later(inflation, tail * last)
    fine = _first(beyond <= _INFLATION * (known.sum() + tail))
    cost = 0.5 * weight / noise_variance * _later(values, tail)
    needed = max(
        min(fine, _MOST_REFINED, _first(cost <= _COST)),
        _first(cost <= _GAIN * weight) if len(box.period) == 1 else 0,
        int(np.sum(weight * values >= noise_variance)),
        2 * len(getattr(rule, "waves", ())) + 1,
    )
    return min(needed + 1 - needed % 2, MOST_FUNCTIONS)


def _later(values: Array, beyond: float) -> Array:
    """``Σ_{j>m}`` for m = 0..J, with what is beyond the list."""
    sums = np.cumsum(np.append(beyond, values[::-1]))
    return sums[::-1]


def _first(holds: NDArray[np.bool_]) -> int:
    """Least m for which something holds, or the last."""
    return int(np.argmax(holds)) if holds.any() else len(holds) - 1


# ---- Waves whose power stands out of what prior and noise explain --------------------

# Probability that noise alone has a wave that stands out; the price in nats of a choice
# among so many is its logarithm. Share of the largest power below which waves wait for
# the next look, most waves of a look, and looks.
_FALSE_ALARMS, _SHARE, _MOST_AT_ONCE, _LOOKS = 0.01, 0.1, 64, 8
# Period of the waves in units of the range of the data, and wave numbers of several
# inputs.
_LOOK, _LONGEST_LISTS = 3.0, {2: 110, 3: 24}
# Longer waves that a wave known from the data must have, and the power of most of them.
_FEWEST_LONGER, _QUIET = 8, 0.1
# Two waves are one on the rows if their functions correlate by more; equally good ones
# are aliases if they do by more.
_SAME, _ALIAS = 0.7, 0.97


def standing_out(prior: Prior) -> Integers:
    """Waves (r, d) with more power than the fit expects, the strongest first.

    Notes
    -----
    With ``R_k = Σ w (y - f(x)) exp(2πi k·t)`` of the residuals and ``s_k = n λ_k V /
    (U σ²)`` what the rows say of the wave, ``P_k = |R_k|² / (n σ² (1 + s_k))`` is
    nearly a standard exponential variable for a wave outside of the basis, and ``|R_k|²
    (1 + s_k) / (n σ²)`` for one inside. Waves with ``s_k >= 1`` are known from the data
    anyway, and stay where they are unless nearly all longer waves have far less power
    than the prior gave them for the sake of this one. Of K waves the largest stands out
    above ``log(K / 0.01)``: noise has one in a hundred data sets, or fewer.

    Where the rows cannot tell two waves apart, as on a grid, the longer is taken.
    """
    sums, rule, noise = prior.sums, prior.rule, prior.noise_variance
    tables = sums.statistics.tables(sums.statistics.reach())
    waves = half_space(tables[1].reach)
    length = np.sum(waves**2, axis=1)
    order = np.argsort(length, kind="stable")
    waves, length = waves[order], length[order]
    functions, box = prior.functions, sums.box
    values = rule.spectrum(functions, box).eigenvalues
    statistics = whitened(sums.equations(functions), values, 0.0)
    root = precision_root(statistics.gram, noise)
    mean = posterior_mean_from(statistics, noise, root)
    fitted = convolved(
        tables[0], combination(functions, np.sqrt(values) * mean), tables[1].reach
    )
    residual = tables[1].at(waves) / sums.scale - fitted.at(waves)
    listed = function_list(waves)
    eigenvalues = rule.spectrum(listed, box).eigenvalues[2::2]
    known = sums.weight * sums.density / noise * eigenvalues
    steps = tables[1].strides()
    inside = np.isin(waves @ steps, functions.waves @ steps)
    factor = np.where(inside, 1.0 + known, 1.0 / (1.0 + known))
    power = np.abs(residual) ** 2 * factor / (sums.weight * noise)
    found = np.flatnonzero(power > np.log(len(waves) / _FALSE_ALARMS))
    raised = {tuple(wave) for wave in getattr(rule, "waves", ())}
    found = np.array(
        [
            i
            for i in found
            if tuple(waves[i].tolist()) not in raised
            and (known[i] < 1.0 or _is_alone(power[length < length[i]]))
        ],
        np.intp,
    )
    found = found[power[found] > _SHARE * float(power[found].max(initial=0.0))]
    found = found[np.argsort(-power[found], kind="stable")]
    total = float(np.abs(tables[0].values).max())
    kept: list[int] = []
    for i in found:
        apart = tables[0].at(waves[found] - waves[i])
        summed = tables[0].at(waves[found] + waves[i])
        same = np.maximum(np.abs(apart), np.abs(summed)) / total
        longer = (length[found] < length[i]) & (power[found] >= 0.5 * power[i])
        stronger = np.isin(found, kept)
        if not np.any((same > _ALIAS) & longer) and not np.any(same[stronger] > _SAME):
            kept.append(int(i))
    return waves[kept[:_MOST_AT_ONCE]]


def price(prior: Prior, waves: Integers) -> float:
    """Nats that a choice of waves among all must be worth."""
    others = np.prod(2.0 * prior.sums.statistics.reach() + 1.0) / 2.0
    return len(waves) * float(np.log(others / _FALSE_ALARMS))


def _is_alone(longer: Array) -> bool:
    """Whether there are longer waves and most have nearly no power (in `P_k`)."""
    return len(longer) >= _FEWEST_LONGER and float(np.median(longer)) < _QUIET
