"""Regression on Fourier functions: sums, pilot, search, solution."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics.row_sample import sample_distinct_rows
from skgpx._numerics.series_statistics import SeriesStatistics
from skgpx._spectral_vgp._domain import (
    box_of,
    data_domain,
    input_range,
    joint_range,
    kernel_of,
)
from skgpx._spectral_vgp._series_bound import SeriesBound, SeriesChoice, SeriesPrior
from skgpx._spectral_vgp._series_search import (
    Search,
    SeriesSettings,
    maximise_bound,
)
from skgpx._spectral_vgp._series_size import (
    FIRST_FUNCTIONS,
    considered,
    elbow,
    enough,
    filled_part,
    order_changed,
    rate,
    summable,
)
from skgpx._spectral_vgp._series_solution import (
    solve_series,
    warn_if_capped,
    warn_if_only_noise,
)
from skgpx._spectral_vgp._series_sums import StandardSums, row_sums
from skgpx._spectral_vgp._solution import SpectralFit
from skgpx._validation import Rows
from skgpx.bases import ExponentialEigenvalues

Array = NDArray[np.float64]

# Rows that decide about box, reach and lengthscales when there are more, by the number
# of inputs. With many rows and few functions the bound would rather explain nothing
# than leave a tail.
_PILOT_ROWS = {1: 20_000, 2: 3000, 3: 2000}
# Functions up to which lengthscales are searched for again on all rows, and whose
# number is searched for exactly; more may be so much more than are needed.
_MOST_SEARCHED = 501
_SLACK = 1.1
# Share of the variance of y that is noise, where nothing is known of it yet.
_FIRST_NOISE = 0.1
# Searches with another number or order of functions, and boxes, at most.
_ROUNDS, _BOXES = 6, 4
# Ratios of a new side of the box to the old at which sums are taken again: too little
# room spoils what the kernel says beyond the data.
_MORE_ROOM, _LESS_ROOM = 1.1, 0.75


class SeriesState(NamedTuple):
    """Box, rule and the sums over all rows seen.

    Attributes
    ----------
    domain : ndarray of shape (d, 2)
        Where the inputs may lie.
    seen : ndarray of shape (d, 2)
        Range of the inputs so far.
    settings : SeriesSettings
    statistics : SeriesStatistics
    """

    domain: Array
    seen: Array
    settings: SeriesSettings
    statistics: SeriesStatistics

    def with_rows(self, rows: Rows, n_jobs: int | None) -> SeriesState:
        """State after more rows."""
        like = self.statistics
        reach = 2 * like.reach() if len(like.box.period) == 1 else like.reach()
        more = row_sums(rows, self.domain, like.box, like.shift, reach, n_jobs)
        return self._replace(
            statistics=like + more, seen=joint_range(self.seen, input_range(rows.X))
        )

    def merged(self, other: Any) -> SeriesState:
        """State of the rows of both.

        Raises
        ------
        ValueError
            If their boxes or the waves they hold differ.
        """
        same = (
            isinstance(other, SeriesState)
            and np.array_equal(self.domain, other.domain)
            and np.array_equal(self.statistics.box, other.statistics.box)
            and np.array_equal(self.statistics.reach(), other.statistics.reach())
            and self.settings.given == other.settings.given
        )
        if not same:
            raise ValueError(
                "Only models on one box, with one number of waves, can be merged. Give "
                "all of them the same parameters and a `domain`, and with a "
                "kernel call partial_fit instead of fit."
            )
        return self._replace(
            statistics=self.statistics + other.statistics,
            seen=joint_range(self.seen, other.seen),
        )

    def solve(self) -> SpectralFit:
        """Number of functions, hyperparameters, posterior and bound; free of n.

        Nothing is said where only noise is found: more rows may come.
        """
        choice = search_series(self)
        warn_if_capped(self.settings, choice)
        return solve_series(self.settings, self.domain, choice)


# ---- Sums, pilot, search, solution ---------------------------------------------------


def fit_series(
    rows: Rows,
    domain: Array | None,
    settings: SeriesSettings,
    rng: np.random.Generator,
    n_jobs: int | None,
) -> tuple[SeriesState, SpectralFit]:
    """Choose the box for the kernel that the data want, and solve on it.

    A pass over at most 20 000 rows decides about the box; then one over all.
    """
    if domain is None:
        domain = data_domain(rows.X)
    settings = _after_pilot(rows, domain, settings, rng, n_jobs)
    state, choice = _search_boxes(rows, domain, settings, n_jobs)
    warn_if_only_noise(choice)
    warn_if_capped(settings, choice)
    return state, solve_series(settings, domain, choice)


def start_series(
    rows: Rows, domain: Array | None, settings: SeriesSettings, n_jobs: int | None
) -> SeriesState:
    """Box for the rule as it is, and the sums over some rows."""
    if domain is None:
        domain = data_domain(rows.X)
    box = box_of(domain, settings.rule, settings.learns(), not settings.domain_is_given)
    by_rows = isinstance(settings.n_basis, str)
    size = settings.largest if by_rows else int(settings.n_basis)
    if settings.ordering != "prior":
        size = max(size, settings.largest)
    reach = settings.rule.index(box, size).reach()
    if len(reach) > 1:
        # another kernel may want other waves
        reach = np.minimum(reach + reach // 4 + 1, size)
    else:
        reach = 2 * (reach + 1)
    # an offset of y costs no digits if it is taken away before squaring
    shift = float(rows.weights @ rows.y / rows.weights.sum())
    statistics = row_sums(rows, domain, box, shift, reach, n_jobs)
    return SeriesState(domain, input_range(rows.X), settings, statistics)


def _after_pilot(
    rows: Rows,
    domain: Array,
    settings: SeriesSettings,
    rng: np.random.Generator,
    n_jobs: int | None,
) -> SeriesSettings:
    """Settings that start from a search on some of the rows, where there are many."""
    learns = kernel_of(settings.rule) is not None and settings.learns()
    if settings.n_basis != "auto" and not learns:
        return settings
    few, salt = _PILOT_ROWS[len(domain)], int(rng.integers(2**63))
    chosen = sample_distinct_rows(rows.X, rows.y, few, salt)
    if chosen is None:
        return settings
    some = Rows(*(values[chosen] for values in rows))
    few_functions = settings._replace(largest=min(settings.largest, _MOST_SEARCHED))
    _, choice = _search_boxes(some, domain, few_functions, n_jobs)
    # what is noise to few rows may be more to many
    return settings if choice.only_noise else _started(settings, choice)


def _started(settings: SeriesSettings, choice: SeriesChoice) -> SeriesSettings:
    """Settings whose search starts where another ended."""
    return settings._replace(
        rule=choice.prior.rule, start_noise_variance=choice.prior.noise_variance
    )


def _search_boxes(
    rows: Rows, domain: Array, settings: SeriesSettings, n_jobs: int | None
) -> tuple[SeriesState, SeriesChoice]:
    """Sums and search, again where the lengthscales found need another box."""
    learns = kernel_of(settings.rule) is not None and settings.learns()
    for left in reversed(range(_BOXES)):
        state = start_series(rows, domain, settings, n_jobs)
        choice = search_series(state)
        box = box_of(domain, choice.prior.rule, learns, not settings.domain_is_given)
        ratio = box.period / state.statistics.box.period
        fits = np.all((ratio < _MORE_ROOM) & (ratio > _LESS_ROOM))
        settled = fits and not _is_clipped(state, choice)
        if not left or not learns or choice.only_noise or settled:
            break
        settings = _started(settings, choice)
    return state, choice


def _is_clipped(state: SeriesState, choice: SeriesChoice) -> bool:
    """Whether the function after the last of the basis was not summed."""
    if state.settings.ordering != "prior":
        return False
    index = choice.prior.rule.index(state.statistics.box, choice.bound.size + 1)
    return bool(np.any(index.reach() > state.statistics.reach()))


# ---- Search --------------------------------------------------------------------------


def search_series(state: SeriesState) -> SeriesChoice:
    """Rule, noise variance and number of functions, in turns until they agree."""
    settings, box = state.settings, state.statistics.box
    sums = StandardSums.of(state.statistics, settings.normalize_y)
    rule = start = _at_sample_size(settings, state.statistics.weight, len(box.period))
    noise = settings.start_noise_variance
    size = _first_size(state, sums, rule)
    for _ in range(_ROUNDS):
        choice = _search_once(state, sums, rule, noise, size)
        found, size = choice.prior, choice.bound.size
        if choice.only_noise:
            # few functions may see nothing where those of the given prior see much
            rule, noise = start, _FIRST_NOISE * sums.variance
            wanted = _wanted(state, rule, noise)
            if settings.n_basis != "auto" or wanted <= size:
                break
            size = wanted
            continue
        wanted = _next_size(state, found, size)
        moved = order_changed(found.rule, rule, box, size)
        if wanted == size and not moved:
            break
        # other functions may say more: their number is not lowered before they do
        size = max(wanted, size) if moved else wanted
        rule, noise = found.rule, found.noise_variance
    return choice


def _next_size(state: SeriesState, found: SeriesPrior, size: int) -> int:
    """Functions for the next search; as many again if there are enough."""
    settings = state.settings
    if settings.n_basis != "auto":
        return size
    wanted = _wanted(state, found.rule, found.noise_variance)
    if size > _MOST_SEARCHED and size / _SLACK <= wanted <= size:
        return size
    if wanted > size and size <= _MOST_SEARCHED:
        # room for more before it is known how many
        wanted = 2 * wanted
    return min(wanted, settings.largest)


def _search_once(
    state: SeriesState, sums: StandardSums, rule: Any, noise: float | None, size: int
) -> SeriesChoice:
    """Maximise the bound of a number of functions, in the order of a rule."""
    settings, statistics = state.settings, state.statistics
    functions, size = considered(
        sums.statistics, rule, settings.ordering, size, settings.largest
    )
    free = settings.free()
    if noise is not None and size > _MOST_SEARCHED and kernel_of(rule) is not None:
        # the lengthscales found so far stay; only the noise is searched for
        free = np.zeros_like(free)
    bound = SeriesBound(sums, functions, size)
    given = settings.given_noise_variance(sums.scale)
    prior, only_noise = maximise_bound(Search(bound, free, given), rule, noise)
    values = prior.rule.index(statistics.box, settings.largest + 1)
    eigenvalues = prior.rule.spectrum(values, statistics.box).eigenvalues
    supported = elbow(eigenvalues, statistics.weight, prior.noise_variance)
    return SeriesChoice(bound, prior, supported, only_noise)


def _first_size(state: SeriesState, sums: StandardSums, rule: Any) -> int:
    """Functions with which the search begins."""
    settings, d = state.settings, len(state.domain)
    if settings.n_basis == "rate":
        wanted = rate(state.statistics.weight, d, settings.regularity)
    elif settings.n_basis != "auto":
        return int(settings.n_basis)
    elif settings.start_noise_variance is not None:
        wanted = _wanted(state, rule, settings.start_noise_variance)
    elif settings.learns():
        wanted = FIRST_FUNCTIONS[d]
    else:
        noise = settings.given_noise_variance(sums.scale)
        wanted = _wanted(state, rule, noise or _FIRST_NOISE * sums.variance)
    return min(settings.largest, wanted)


def _wanted(state: SeriesState, rule: Any, noise: float) -> int:
    """Functions that are enough, of those that were summed."""
    statistics, settings = state.statistics, state.settings
    filled = filled_part(state.seen, state.domain)
    wanted = enough(
        rule, statistics.box, filled, statistics.weight, noise, settings.largest
    )
    return summable(statistics, rule, settings.ordering, wanted, settings.largest)


def _at_sample_size(settings: SeriesSettings, weight: float, d: int) -> Any:
    """Rule with the decay that depends on n: ``c = n^(-1 / (d + 2α)) log n``, (5.2)."""
    rule = settings.rule
    if not isinstance(rule, ExponentialEigenvalues):
        return rule
    n = max(weight, 2.0)
    decay = n ** (-1.0 / (d + 2.0 * settings.regularity)) * np.log(n)
    return replace(rule, decay=float(decay))
