"""Which functions, how many, and the prior they have: from the sums alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._hyperparameters import FEWEST_ROWS, UNLEARNED_NOISE, stretched
from skgpx._numerics.fourier_index import Integers
from skgpx._numerics.series_statistics import SeriesStatistics
from skgpx._spectral_vgp._domain import kernel_of
from skgpx._spectral_vgp._series_bound import SeriesBound, SeriesChoice, SeriesPrior
from skgpx._spectral_vgp._series_power import price, standing_out
from skgpx._spectral_vgp._series_search import (
    Search,
    SeriesSettings,
    maximise_bound,
)
from skgpx._spectral_vgp._series_size import (
    FIRST_FUNCTIONS,
    FunctionOrder,
    considered,
    elbow,
    enough,
    filled_part,
    order_changed,
    rate,
    summable,
)
from skgpx._spectral_vgp._series_sums import StandardSums
from skgpx.bases import ExponentialEigenvalues, KernelEigenvalues
from skgpx.kernels import longest_length_scales

Array = NDArray[np.float64]

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
