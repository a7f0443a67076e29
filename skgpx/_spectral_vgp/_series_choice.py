"""Which functions a series has, and which waves stand out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics.fourier_gram import WaveTable, combination, convolved
from skgpx._numerics.fourier_index import (
    Box,
    FourierIndex,
    Integers,
    by_power,
    half_space,
    raised,
)
from skgpx._numerics.regression import posterior_mean_from, precision_root
from skgpx._numerics.series_statistics import SeriesStatistics
from skgpx._selection import FEWEST_ROWS, UNLEARNED_NOISE, stretched
from skgpx._spectral_vgp._domain import kernel_of
from skgpx._spectral_vgp._series_search import (
    Search,
    SeriesBound,
    SeriesChoice,
    SeriesPrior,
    SeriesSettings,
    StandardSums,
    maximise_bound,
)
from skgpx.bases import ExponentialEigenvalues, KernelEigenvalues
from skgpx.kernels import longest_length_scales

# ---- Which Fourier functions a basis consists of, and how many -----------------------


Array = NDArray[np.float64]

# Functions considered after those of the basis.
_RESIDUAL = 4096
# Part of the posterior variance that functions left to the residual may add to it: one
# per cent of the standard deviation. Beyond so many functions the elbow is enough.
_INFLATION = 0.02
MOST_REFINED = 1001
# What the tail may cost the bound, in nats, up to so many functions for the number of
# inputs: hyperparameters found with few functions would be those of a smoother process.
_COST = 0.01
FIRST_FUNCTIONS = {1: 201, 2: 301, 3: 501}
# The same in nats a row, with one input, for as many functions as are allowed and no
# more than one for so many rows: few rows cannot tell a rough function from noise.
_COST_A_ROW, _ROWS_A_FUNCTION = 0.01, 4
# Nats a row from which functions fall short. Smooth functions stop close to what they
# may cost, as the hourly series do whose cycles were found.
_SHORT_COST = 0.02
# Least part of its domain that the data are taken to fill, for each input.
_LEAST_FILLED = 0.1


class FunctionOrder(NamedTuple):
    """Which functions come first.

    Attributes
    ----------
    kind : {"auto", "prior", "power", "coefficients"}
        "auto" is the order of the prior behind the waves that are raised.
    largest : int
        First functions of the prior among which an order by the data chooses.
    raised : ndarray of shape (r, d) or None
        Waves that follow the constant.
    """

    kind: str
    largest: int
    raised: Integers | None = None

    @property
    def by_data(self) -> bool:
        """Whether the data order all functions."""
        return self.kind in ("power", "coefficients")


def considered(
    statistics: SeriesStatistics, rule: Any, order: FunctionOrder, size: int
) -> tuple[FourierIndex, int]:
    """All functions in order, those that can be summed first, and how many can be.

    Parameters
    ----------
    statistics : SeriesStatistics
        Of the centred y.
    rule : EigenvalueRule
    order : FunctionOrder
    size : int
        Functions wanted in the basis.
    """
    functions, inside = _listed(statistics, rule, order, size)
    size = min(size, int(np.count_nonzero(inside)))
    if order.by_data:
        functions = functions.part(np.flatnonzero(inside))
        correlation = statistics.moments(functions)
        return by_power(functions, correlation, order.kind == "power"), size
    if not np.all(inside[:size]):
        # the last rule may put other functions first than those that were summed: these
        # are left to the residual
        places = np.concatenate((np.flatnonzero(inside), np.flatnonzero(~inside)))
        functions = functions.part(places)
    return functions, size


def summable(
    statistics: SeriesStatistics, rule: Any, order: FunctionOrder, size: int
) -> int:
    """How many of the functions wanted can be summed; arguments of `considered`."""
    inside = _listed(statistics, rule, order, size)[1]
    return min(size, int(np.count_nonzero(inside)))


def _listed(
    statistics: SeriesStatistics, rule: Any, order: FunctionOrder, size: int
) -> tuple[FourierIndex, NDArray[np.bool_]]:
    """Functions in the order of the prior, and which of them can be summed."""
    most = max(size, order.largest) if order.by_data else size + _RESIDUAL
    # sine and cosine of the last wave
    functions = rule.index(statistics.box, most + 1 - most % 2)
    if order.raised is not None:
        functions = raised(functions, order.raised)
    return functions, np.all(np.abs(functions.waves) <= statistics.reach(), axis=1)


def rate(n: float, d: int, regularity: float) -> int:
    """``n^(d / (d + 2α))``: enough functions for the rate of contraction."""
    return max(1, int(np.ceil(n ** (d / (d + 2.0 * regularity)) - 1e-9)))


def elbow(eigenvalues: Array, weight: float, noise_variance: float) -> int:
    """``#{j : n λ_j >= σ²}``, in whole pairs of sine and cosine."""
    return _whole_pairs(int(np.sum(weight * eigenvalues >= noise_variance)))


def enough(
    rule: Any, box: Box, filled: Array, weight: float, noise: float, most: int
) -> int:
    """Functions without which the posterior is that of all, but for a per cent.

    Parameters
    ----------
    rule : EigenvalueRule
    box : Box
    filled : ndarray of shape (d,)
        Sides of the part of the box in which there are data.
    weight : float
        Number of rows n.
    noise : float
        ``σ²``.
    most : int

    Notes
    -----
    Data of density n / U on a part U of a box of volume V know a function with the
    eigenvalue λ as well as nV/U rows all over the box would: its variance becomes ``λ /
    (1 + s)``, ``s = n λ V / (U σ²)``, instead of λ. The first m functions are enough
    where ``Σ_{j>m} λ_j s_j / (1 + s_j)`` is at most 2 % of ``Σ λ_j / (1 + s_j)``, or a
    thousand if they go beyond the elbow ``n λ_j >= σ²``, which is always in. With one
    input they go on until the tail costs the bound no more than .01 nats a row,
    ``Σ_{j>m} λ_j / (2 σ²)``, up to a quarter of the number of rows.
    """
    spectrum = rule.spectrum(rule.index(box, most), box)
    values, tail = spectrum.eigenvalues, spectrum.tail
    gain = weight * float(np.prod(box.period / filled)) / noise
    known = values / (1.0 + gain * values)
    inflation = values - known
    # the functions beyond the list are known no better than its last
    last = inflation[-1] / max(values[-1], np.finfo(float).tiny)
    beyond = _later(inflation, tail * last)
    fine = _first(beyond <= _INFLATION * (known.sum() + tail))
    cost = 0.5 * weight / noise * _later(values, tail)
    tight = _first(cost <= _COST)
    refined = max(min(fine, MOST_REFINED), min(tight, FIRST_FUNCTIONS[len(filled)]))
    if len(filled) == 1:
        needed = _first(cost <= _COST_A_ROW * weight)
        refined = max(refined, min(needed, int(weight / _ROWS_A_FUNCTION)))
    return min(max(_whole_pairs(refined), elbow(values, weight, noise)), most)


def falls_short(size: int, tail: float, noise: float, weight: float, most: int) -> bool:
    """Whether one input has as many functions as allowed, and far from `enough`.

    Parameters
    ----------
    size : int
        Functions of the basis.
    tail : float
        Mean prior variance of all others.
    noise : float
        ``σ²``.
    weight : float
        Number of rows.
    most : int

    Notes
    -----
    Where a quarter of the rows are fewer than the functions that rows need not pay for,
    the rows are too few to say.
    """
    allowed = int(weight / _ROWS_A_FUNCTION)
    if allowed < FIRST_FUNCTIONS[1] or size < min(allowed, most):
        return False
    return 0.5 * tail / noise > _SHORT_COST


def filled_part(seen: Array, domain: Array) -> Array:
    """Sides of the data's range (d, 2), at least a tenth of the domain's."""
    least = _LEAST_FILLED * (domain[:, 1] - domain[:, 0])
    return np.maximum(seen[:, 1] - seen[:, 0], least)


def order_changed(rule: Any, earlier: Any, box: Box, size: int) -> bool:
    """Whether a kernel now puts other functions first."""
    if kernel_of(rule) is None or rule is earlier:
        return False
    one, two = (r.index(box, size).waves for r in (rule, earlier))
    return not np.array_equal(np.unique(one, axis=0), np.unique(two, axis=0))


def _later(values: Array, beyond: float) -> Array:
    """``Σ_{j>m}`` for m = 0..J, with what is beyond the list."""
    sums = np.cumsum(np.append(beyond, values[::-1]))
    return sums[::-1]


def _first(holds: NDArray[np.bool_]) -> int:
    """Least m for which something holds, or the last."""
    return int(np.argmax(holds)) if holds.any() else len(holds) - 1


def _whole_pairs(count: int) -> int:
    return max(1, count + 1 - count % 2)


# ---- Waves whose power stands out of what a series prior and its noise explain -------


Index = NDArray[np.intp]

# Probability that noise alone has a wave that stands out, and the price in nats of a
# choice among so many is its logarithm.
_FALSE_ALARMS = 0.01
# Share of the largest power below which waves wait for the next look: side lobes of
# others go with these. Most waves of one look.
_SHARE, _MOST_AT_ONCE = 0.1, 64
# Longer waves that a wave known from the data must have, and the power of most of them.
_FEWEST_LONGER, _QUIET = 8, 0.1
# Two waves are one on the rows (an alias) if their functions correlate by more.
_SAME = 0.7


def standing_out(choice: SeriesChoice, filled: Array) -> Integers:
    """Waves (r, d) with more power than the fit expects, the strongest first.

    Parameters
    ----------
    choice : SeriesChoice
    filled : ndarray of shape (d,)
        Sides of the part of the box in which there are data.

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
    statistics = choice.bound.sums.statistics
    sums, moments = statistics.wave_tables()
    reach = moments.reach
    waves = half_space(reach)
    power, known = _power(choice, filled, waves, (sums, moments))
    length = np.sum(waves**2, axis=1)
    found = np.flatnonzero(power > np.log(len(waves) / _FALSE_ALARMS))
    may = [known[i] < 1.0 or _is_alone(power[length < length[i]]) for i in found]
    found = found[np.array(may, bool)]
    found = found[power[found] > _SHARE * float(power[found].max(initial=0.0))]
    found = found[np.argsort(-power[found], kind="stable")][:_MOST_AT_ONCE]
    return waves[_without_aliases(found, waves, power, sums)]


def price(choice: SeriesChoice, waves: Integers) -> float:
    """Nats that a choice of waves among all must be worth."""
    reach = choice.bound.sums.statistics.reach()
    others = np.prod(2.0 * reach + 1.0) / 2.0
    return len(waves) * float(np.log(others / _FALSE_ALARMS))


def _power(
    choice: SeriesChoice,
    filled: Array,
    waves: Integers,
    tables: tuple[WaveTable, WaveTable],
) -> tuple[Array, Array]:
    """``P_k`` and ``s_k`` of waves (K, d)."""
    bound, (rule, noise, _) = choice.bound, choice.prior
    statistics, scale = bound.sums.statistics, bound.sums.scale
    box, sums, moments = statistics.box, *tables
    whitened = bound.statistics(rule)
    root = precision_root(whitened.gram, noise)
    mean = posterior_mean_from(whitened, noise, root)
    coefficients = np.sqrt(bound.spectrum(rule).eigenvalues) * mean
    index = bound.functions.part(slice(bound.size))
    fitted = convolved(sums, combination(index, coefficients), moments.reach)
    residual = moments.at(waves) / scale - fitted.at(waves)
    eigenvalues, inside = _eigenvalues(choice, waves, moments)
    gain = bound.weight * float(np.prod(box.period / filled)) / noise
    known = gain * eigenvalues
    factor = np.where(inside, 1.0 + known, 1.0 / (1.0 + known))
    power = np.abs(residual) ** 2 * factor / (bound.weight * noise)
    return power, known


def _eigenvalues(
    choice: SeriesChoice, waves: Integers, table: WaveTable
) -> tuple[Array, NDArray[np.bool_]]:
    """Prior variance of each wave's functions, and if the basis has both."""
    bound = choice.bound
    spectrum = choice.prior.rule.spectrum(bound.functions, bound.sums.statistics.box)
    listed = bound.functions.waves
    held = np.all(np.abs(listed) <= table.reach, axis=1)
    held &= ~bound.functions.sine
    place = table.reach @ table.strides()
    values, inside = (np.zeros(table.values.size) for _ in range(2))
    at = place + listed[held] @ table.strides()
    values[at] = spectrum.eigenvalues[: len(listed)][held]
    # the cosine comes after its sine
    inside[at] = np.flatnonzero(held) < bound.size
    wanted = place + waves @ table.strides()
    return values[wanted], inside[wanted] > 0.0


def _is_alone(longer: Array) -> bool:
    """Whether there are longer waves and most have nearly no power (in `P_k`)."""
    return len(longer) >= _FEWEST_LONGER and float(np.median(longer)) < _QUIET


def _without_aliases(
    found: Index, waves: Integers, power: Array, sums: WaveTable
) -> Index:
    """Those that are not one with a longer wave of no less than half their power."""
    kept = []
    total = float(np.abs(sums.values).max())
    length = np.sum(waves[found] ** 2, axis=1)
    for i, this in enumerate(found):
        longer = found[(length < length[i]) & (power[found] >= 0.5 * power[this])]
        apart = np.abs(sums.at(waves[longer] - waves[this]))
        total_wave = np.abs(sums.at(waves[longer] + waves[this]))
        if np.all(np.maximum(apart, total_wave) <= _SAME * total):
            kept.append(this)
    return np.array(kept, np.intp)


# ---- Which functions, how many, and the prior they have: from the sums alone ---------


# Functions up to which lengthscales are searched for again on all rows, and whose
# number is searched for exactly; more may be so much more than are needed.
MOST_SEARCHED = 501
_SLACK = 1.1
# Share of the variance of y that is noise, where nothing is known of it yet.
_FIRST_NOISE = 0.1
# Searches with another number or order of functions, and looks for waves, at most.
_ROUNDS, _LOOKS = 6, 8


class SeriesData(NamedTuple):
    """Box, rule and the sums over all rows seen.

    Attributes
    ----------
    domain : ndarray of shape (d, 2)
        Where the inputs may lie.
    seen : ndarray of shape (d, 2)
        Range of the inputs so far.
    settings : SeriesSettings
    statistics : SeriesStatistics
    searched : SeriesStatistics or None
        Without copies of rows: what a search reads, if it is not all.
    """

    domain: Array
    seen: Array
    settings: SeriesSettings
    statistics: SeriesStatistics
    searched: SeriesStatistics | None = None


def started(settings: SeriesSettings, choice: SeriesChoice) -> SeriesSettings:
    """Settings whose search starts where another ended."""
    return settings._replace(
        rule=choice.prior.rule,
        start_noise_variance=choice.prior.noise_variance,
        raised=choice.raised,
    )


def of_all_rows(choice: SeriesChoice, statistics: SeriesStatistics) -> SeriesChoice:
    """The choice with sums over other rows, in the units of those searched."""
    bound, (rule, noise, _) = choice.bound, choice.prior
    sums = StandardSums(statistics.moved(bound.sums.shift), bound.sums.scale)
    bound = replace(bound, sums=sums)
    prior = SeriesPrior(rule, noise, bound.at(rule, noise).value)
    return replace(choice, bound=bound, prior=prior)


def search_series(state: SeriesData) -> SeriesChoice:
    """Rule, noise variance, number and order of functions.

    Where waves stand out of what was found, they are raised to the front of the prior
    if the bound says that this is worth more than the choice among so many.
    """
    settings = state.settings
    sums = StandardSums.of(state.statistics, settings.normalize_y)
    none = np.empty((0, len(state.domain)), np.int64)
    plain = _search_sizes(state, sums, none)
    if settings.looks_for_kernels():
        return _with_shorter_waves(state, sums, plain)
    if not settings.looks_for_waves():
        return plain
    raised = _raised(state, sums, plain)
    if not len(raised):
        return plain
    choice = _search_sizes(state, sums, raised)
    gain = choice.prior.log_evidence - plain.prior.log_evidence
    return choice if gain > price(choice, raised) else plain


def _with_shorter_waves(
    state: SeriesData, sums: StandardSums, choice: SeriesChoice
) -> SeriesChoice:
    """What was found, or a kernel of short lengthscales if a short wave stands out."""
    settings, box = state.settings, state.statistics.box
    found = standing_out(choice, filled_part(state.seen, state.domain))
    most = np.abs(choice.bound.functions.part(slice(choice.bound.size)).waves).max()
    if not len(found) or np.all(np.abs(found[0]) <= most):
        return choice
    frequency = float(np.linalg.norm(box.frequencies(found[:1])))
    kernel = (settings if choice.only_noise else choice.prior).rule.kernel
    scales = longest_length_scales(kernel, len(box.period))
    shortest = float(np.min(scales, where=scales > 0.0, initial=np.inf))
    rule = KernelEigenvalues(stretched(kernel, -np.log(frequency * shortest)))
    # the noise that was found holds the power of the wave
    start = _FIRST_NOISE * sums.variance
    settings = settings._replace(rule=rule, start_noise_variance=start)
    other = _search_sizes(state._replace(settings=settings), sums, choice.raised)
    better = other.prior.log_evidence > choice.prior.log_evidence
    return other if better and not other.only_noise else choice


def _raised(state: SeriesData, sums: StandardSums, plain: SeriesChoice) -> Integers:
    """Waves to be raised, found with few functions: with many, a prior hides them."""
    settings, raised = state.settings, plain.raised
    largest = settings.largest if settings.n_basis == "auto" else int(settings.n_basis)
    if state.settings.raised is not None:
        raised = state.settings.raised
    few = settings._replace(n_basis="auto", largest=min(largest, MOST_SEARCHED))
    state = state._replace(settings=few)
    filled = filled_part(state.seen, state.domain)
    choice = plain
    if len(raised) or plain.bound.size > MOST_SEARCHED:
        choice = _search_sizes(state, sums, raised)
    for _ in range(_LOOKS):
        more = standing_out(choice, filled)
        both = _joined(raised, more)
        if len(both) == len(raised) or 2 * len(both) >= largest:
            break
        other = _search_sizes(state, sums, both)
        gain = other.prior.log_evidence - choice.prior.log_evidence
        if gain <= price(choice, both[len(raised) :]):
            break
        choice, raised = other, both
    return raised


def _joined(waves: Integers, more: Integers) -> Integers:
    """Waves and those that are not among them yet."""
    known = {tuple(wave) for wave in waves.tolist()}
    new = [tuple(wave) not in known for wave in more.tolist()]
    return np.concatenate((waves, more[new]))


def _search_sizes(
    state: SeriesData, sums: StandardSums, raised: Integers
) -> SeriesChoice:
    """Rule, noise variance and number of functions, in turns until they agree."""
    settings, box = state.settings, state.statistics.box
    order, more = order_of(settings, raised), 2 * len(raised)
    rule = start = _at_sample_size(settings, state.statistics.weight, len(box.period))
    noise = settings.start_noise_variance
    size = _first_size(state, sums, rule)
    if settings.n_basis == "auto":
        size = max(min(size + more, settings.largest), more + 1)
    settings = settings._replace(largest=max(settings.largest, size))
    state = state._replace(settings=settings)
    for _ in range(_ROUNDS):
        choice = _search_once(state, sums, (rule, noise), order, size)
        found, size = choice.prior, choice.bound.size
        if choice.only_noise:
            # few functions may see nothing where those of the given prior see much
            rule, noise = start, _FIRST_NOISE * sums.variance
            wanted = _wanted(state, rule, noise)
            if settings.n_basis != "auto" or wanted <= size:
                break
            size = wanted
            continue
        wanted = _next_size(state, found, size, more)
        moved = order_changed(found.rule, rule, box, size)
        if wanted == size and not moved:
            break
        # other functions may say more: their number is not lowered before they do
        size = max(wanted, size) if moved else wanted
        rule, noise = found.rule, found.noise_variance
    return choice


def _next_size(state: SeriesData, found: SeriesPrior, size: int, more: int) -> int:
    """Functions for the next search; `more` beside those that are enough."""
    settings = state.settings
    if settings.n_basis != "auto":
        return size
    wanted = _wanted(state, found.rule, found.noise_variance) + more
    if size > MOST_SEARCHED and size / _SLACK <= wanted <= size:
        return size
    if wanted > size and size <= MOST_SEARCHED:
        # room for more before it is known how many
        wanted = 2 * wanted
    return min(wanted, settings.largest)


def _search_once(
    state: SeriesData,
    sums: StandardSums,
    start: tuple[Any, float | None],
    order: FunctionOrder,
    size: int,
) -> SeriesChoice:
    """Maximise the bound of a number of functions, in the order of a rule."""
    settings, statistics = state.settings, state.statistics
    rule, noise = start
    functions, size = considered(sums.statistics, rule, order, size)
    free = settings.free()
    if noise is not None and size > MOST_SEARCHED and kernel_of(rule) is not None:
        # the lengthscales found so far stay; only the noise is searched for
        free = np.zeros_like(free)
    bound = SeriesBound(sums, functions, size)
    given = settings.given_noise_variance(sums.scale)
    few = settings.normalize_y and statistics.weight < FEWEST_ROWS
    if few and not sums.varies:
        # the most probable function of one row is a constant without noise
        free, given = np.zeros_like(free), given or UNLEARNED_NOISE
    prior, only_noise = maximise_bound(Search(bound, free, given), rule, noise)
    supported = size
    if settings.n_basis == "auto":
        listed = prior.rule.index(statistics.box, settings.largest + 1)
        eigenvalues = prior.rule.spectrum(listed, statistics.box).eigenvalues
        supported = elbow(eigenvalues, statistics.weight, prior.noise_variance)
    none = np.empty((0, len(statistics.box.period)), np.int64)
    raised = none if order.raised is None else order.raised
    return SeriesChoice(bound, prior, supported, only_noise, raised)


def _first_size(state: SeriesData, sums: StandardSums, rule: Any) -> int:
    """Functions with which the search begins."""
    settings, d = state.settings, len(state.domain)
    if settings.n_basis == "rate":
        wanted = rate(state.statistics.weight, d, settings.regularity)
    elif settings.n_basis != "auto":
        return int(settings.n_basis)
    elif settings.start_noise_variance is not None:
        wanted = _wanted(state, rule, settings.start_noise_variance)
    elif settings.learns():
        wanted = max(FIRST_FUNCTIONS[d], _elbow_of_given(state, sums, rule))
    else:
        noise = settings.given_noise_variance(sums.scale)
        wanted = _wanted(state, rule, noise or _FIRST_NOISE * sums.variance)
    return min(settings.largest, wanted)


def _elbow_of_given(state: SeriesData, sums: StandardSums, rule: Any) -> int:
    """Functions that the rows know under the kernel as it is given, if it is learned.

    No more than those whose lengthscales are searched for.
    """
    if kernel_of(rule) is None:
        return 1
    box, noise = state.statistics.box, _FIRST_NOISE * sums.variance
    listed = rule.index(box, min(MOST_SEARCHED, state.settings.largest))
    eigenvalues = rule.spectrum(listed, box).eigenvalues
    return min(elbow(eigenvalues, state.statistics.weight, noise), len(listed))


def _wanted(state: SeriesData, rule: Any, noise: float) -> int:
    """Functions that are enough, of those that were summed."""
    statistics, settings = state.statistics, state.settings
    filled = filled_part(state.seen, state.domain)
    wanted = enough(
        rule, statistics.box, filled, statistics.weight, noise, settings.largest
    )
    return summable(statistics, rule, order_of(settings), wanted)


def order_of(settings: SeriesSettings, raised: Integers | None = None) -> FunctionOrder:
    return FunctionOrder(settings.ordering, settings.largest, raised)


def _at_sample_size(settings: SeriesSettings, weight: float, d: int) -> Any:
    """Rule with the decay that depends on n: ``c = n^(-1 / (d + 2α)) log n``, (5.2)."""
    rule = settings.rule
    if not isinstance(rule, ExponentialEigenvalues):
        return rule
    n = max(weight, 2.0)
    decay = n ** (-1.0 / (d + 2.0 * settings.regularity)) * np.log(n)
    return replace(rule, decay=float(decay))
