"""Regression on Fourier functions: sums, pilot, search, solution."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics.fourier_index import Box
from skgpx._numerics.rows import sample_distinct_rows
from skgpx._numerics.series_statistics import SeriesStatistics
from skgpx._spectral_vgp._domain import (
    box_of,
    data_domain,
    input_range,
    joint_range,
    kernel_of,
)
from skgpx._spectral_vgp._series_bound import SeriesChoice
from skgpx._spectral_vgp._series_choice import (
    MOST_SEARCHED,
    SeriesData,
    of_all_rows,
    order_of,
    search_series,
    started,
)
from skgpx._spectral_vgp._series_rivals import best_prior
from skgpx._spectral_vgp._series_search import (
    SeriesSettings,
)
from skgpx._spectral_vgp._series_solution import (
    solve_series,
    warn_if_capped,
    warn_if_only_noise,
)
from skgpx._spectral_vgp._series_sums import row_sums
from skgpx._spectral_vgp._solution import SpectralFit
from skgpx._validation import Rows

Array = NDArray[np.float64]
Report = Callable[["SeriesState", SeriesChoice], bool]

# Rows that decide about box, reach and lengthscales when there are more, by the number
# of inputs. With many rows and few functions the bound would rather explain nothing
# than leave a tail.
_PILOT_ROWS = {1: 20_000, 2: 3000, 3: 2000}
# Waves of one input among which some may stand out, at most: 2^16 bins.
_MOST_WAVES = 6552
# Boxes that are tried, at most.
_BOXES = 4
# Ratios of a new side of the box to the old at which sums are taken again: too little
# room spoils what the kernel says beyond the data.
_MORE_ROOM, _LESS_ROOM = 1.1, 0.75


class SeriesState(SeriesData):
    """Box, rule and the sums over all rows seen, to which more can be added."""

    __slots__ = ()

    def with_rows(self, rows: Rows, n_jobs: int | None) -> SeriesState:
        """State after more rows."""
        like = self.statistics
        more = row_sums(rows, self.domain, like.box, like.shift, _reach(like), n_jobs)
        return self._replace(
            statistics=like + more,
            seen=joint_range(self.seen, input_range(rows.X)),
            searched=None if self.searched is None else self.searched + more,
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
        searched = None
        if self.searched is not None or other.searched is not None:
            searched = (self.searched or self.statistics) + (
                other.searched or other.statistics
            )
        return self._replace(
            statistics=self.statistics + other.statistics,
            seen=joint_range(self.seen, other.seen),
            searched=searched,
        )

    def solve(self) -> SpectralFit:
        """Number of functions, hyperparameters, posterior and bound; free of n.

        Nothing is said where only noise is found: more rows may come.
        """
        if self.searched is None:
            choice = search_series(self)
        else:
            choice = search_series(self._replace(statistics=self.searched))
            choice = of_all_rows(choice, self.statistics)
        warn_if_capped(self.settings, choice)
        return solve_series(self.settings, self.domain, choice)


# ---- Sums, pilot, search, solution ---------------------------------------------------


def fit_series(
    rows: Rows,
    once: Rows,
    domain: Array | None,
    settings: SeriesSettings,
    rng: np.random.Generator,
    n_jobs: int | None,
    report: Report,
    rivals: Callable[[Rows], Sequence[Any]],
) -> tuple[SeriesState, SeriesChoice]:
    """Choose the prior and the box that the data want, and search on it.

    A pass over at most 20 000 rows decides about both; then one over all. `report`
    is asked after the search on each box whether to stop: of the pilot, the last box
    is taken; there is always one search on all rows. Searches read `once`, the rows
    themselves or these without copies. `rivals` gives, from the rows of a search,
    kernels that compete with the prior of the settings.
    """
    if domain is None:
        domain = data_domain(rows.X)
    how = domain, n_jobs, report
    chosen = _pilot(once, settings, rng)
    if chosen is None:
        search = partial(_search_boxes, once, *how)
        state, choice = best_prior(search, once, settings, rivals(once))
    else:
        some = once.take(chosen)
        few = settings._replace(largest=min(settings.largest, MOST_SEARCHED))
        search = partial(_search_boxes, some, *how)
        _, choice = best_prior(search, some, few, rivals(some))
        # what is noise to few rows may be more to many
        if not choice.only_noise:
            settings = started(settings, choice)._replace(pilot_rows=len(chosen))
        state, choice, _ = _search_boxes(once, *how, settings)
    if once is rows:
        return state, choice
    return _with_copies(state, choice, rows, n_jobs)


def _with_copies(
    state: SeriesState, choice: SeriesChoice, rows: Rows, n_jobs: int | None
) -> tuple[SeriesState, SeriesChoice]:
    """What was found on rows whose copies were left out, for the rows with copies."""
    like = state.statistics
    sums = row_sums(rows, state.domain, like.box, like.shift, _reach(like), n_jobs)
    return state._replace(statistics=sums, searched=like), of_all_rows(choice, sums)


def solve_and_tell(state: SeriesState, choice: SeriesChoice) -> SpectralFit:
    """Posterior of what `fit_series` chose, with what is to be said about it."""
    warn_if_only_noise(choice)
    warn_if_capped(state.settings, choice)
    return solution_of(state, choice)


def solution_of(state: SeriesState, choice: SeriesChoice) -> SpectralFit:
    """Posterior of a choice."""
    return solve_series(state.settings, state.domain, choice)


def start_series(
    rows: Rows, domain: Array | None, settings: SeriesSettings, n_jobs: int | None
) -> SeriesState:
    """Box for the rule as it is, and the sums over some rows."""
    if domain is None:
        domain = data_domain(rows.X)
    box = box_of(domain, settings.rule, settings.learns(), not settings.domain_is_given)
    by_rows = isinstance(settings.n_basis, str)
    size = settings.largest if by_rows else int(settings.n_basis)
    if order_of(settings).by_data:
        size = max(size, settings.largest)
    reach = settings.rule.index(box, size).reach()
    if len(reach) > 1:
        # another kernel may want other waves
        reach = np.minimum(reach + reach // 4 + 1, size)
    else:
        reach = 2 * (np.maximum(reach, _looked_at(rows, box, settings)) + 1)
    # an offset of y costs no digits if it is taken away before squaring
    shift = float(rows.weights @ rows.y / rows.weights.sum())
    statistics = row_sums(rows, domain, box, shift, reach, n_jobs)
    return SeriesState(domain, input_range(rows.X), settings, statistics)


def _reach(statistics: SeriesStatistics) -> NDArray[np.int64]:
    """Waves to sum so that sums can be added to these."""
    reach = statistics.reach()
    return 2 * reach if len(statistics.box.period) == 1 else reach


def _looked_at(rows: Rows, box: Box, settings: SeriesSettings) -> int:
    """Longest list of waves, of one input, among which some may stand out.

    Half as many as rows would be if they filled the box, the last that a grid can tell
    apart; with many rows, those of the pilot.
    """
    if settings.raised is not None:
        return int(np.abs(settings.raised).max(initial=0))
    if not settings.looks_for_waves():
        return 0
    low, high = input_range(rows.X)[0]
    spread = max(high - low, box.period[0] / len(rows.y))
    return min(_MOST_WAVES, int(0.5 * len(rows.y) * box.period[0] / spread))


def _pilot(
    rows: Rows, settings: SeriesSettings, rng: np.random.Generator
) -> NDArray[np.intp] | None:
    """Rows on which the search begins where there are many; None for all of them."""
    learns = kernel_of(settings.rule) is not None and settings.learns()
    if settings.n_basis != "auto" and not (learns or settings.looks_for_waves()):
        return None
    few, salt = _PILOT_ROWS[rows.X.shape[1]], int(rng.integers(2**63))
    return sample_distinct_rows(rows.X, rows.y, few, salt)


def _search_boxes(
    rows: Rows,
    domain: Array,
    n_jobs: int | None,
    report: Report,
    settings: SeriesSettings,
) -> tuple[SeriesState, SeriesChoice, bool]:
    """Sums and search, again where the lengthscales found need another box.

    Third, whether `report` wants the fit to stop.
    """
    learns = kernel_of(settings.rule) is not None and settings.learns()
    for left in reversed(range(_BOXES)):
        state = start_series(rows, domain, settings, n_jobs)
        choice = search_series(state)
        stopped = report(state, choice)
        if stopped or not left or not learns or choice.only_noise:
            break
        box = box_of(domain, choice.prior.rule, learns, not settings.domain_is_given)
        ratio = box.period / state.statistics.box.period
        fits = np.all((ratio < _MORE_ROOM) & (ratio > _LESS_ROOM))
        if fits and not _is_clipped(state, choice):
            break
        settings = started(settings, choice)
    return state, choice, stopped


def _is_clipped(state: SeriesState, choice: SeriesChoice) -> bool:
    """Whether the function after the last of the basis was not summed."""
    if order_of(state.settings).by_data:
        return False
    index = choice.prior.rule.index(state.statistics.box, choice.bound.size + 1)
    return bool(np.any(index.reach() > state.statistics.reach()))
