"""A fit on Fourier functions, top to bottom.

A series of regularity 1/2 is as rough as Brownian motion. Around a smooth function its
scale has to be small, and between rows that are far apart it then says that little can
happen, and that what does goes along a straight line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

from skgpx._latent import LatentModel
from skgpx._numerics.fourier_index import Box
from skgpx._numerics.regression import log_evidence_from, posterior_from, precision_root
from skgpx._numerics.rows import sample_distinct_rows
from skgpx._numerics.series_statistics import SeriesStatistics
from skgpx._numerics.weights import GaussianWeights
from skgpx._selection import SearchRecord, stretched
from skgpx._spectral_vgp._domain import (
    box_of,
    data_domain,
    input_range,
    joint_range,
    kernel_of,
)
from skgpx._spectral_vgp._series_choice import (
    FIRST_FUNCTIONS,
    MOST_SEARCHED,
    SeriesData,
    of_all_rows,
    order_of,
    search_series,
    started,
)
from skgpx._spectral_vgp._series_search import SeriesChoice, SeriesSettings, row_sums
from skgpx._spectral_vgp._solution import SpectralFit
from skgpx._validation import Rows, warn
from skgpx.bases import BoundedSeries, FourierSeries, KernelEigenvalues
from skgpx.exceptions import ConvergenceWarning, FitWarning
from skgpx.kernels import default_kernel

# ---- Kernels that compete with a series prior, whose rate of decay is fixed ----------


State = TypeVar("State")
Search = Callable[[SeriesSettings], tuple[State, SeriesChoice, bool]]

# The families from smooth to rough, and the lengthscale of each that resembles an RBF
# of lengthscale one.
_FAMILIES = {np.inf: 1.0, 2.5: 1.5, 1.5: 2.0}
# Nats by which a kernel must be better than the series: it has one parameter more, and
# there are several.
_PRICE = 1.0


def rival_kernels(rows: Rows) -> list[Any]:
    """RBF, Matern 5/2 and 3/2."""
    plain = default_kernel(rows.X, rows.weights)
    return [_of_family(plain, nu) for nu in _FAMILIES]


def best_prior(
    search_with: Search[State],
    rows: Rows,
    settings: SeriesSettings,
    rivals: Sequence[Any],
) -> tuple[State, SeriesChoice]:
    """Search under the prior of the settings and under its rivals: the largest bound.

    Rivals go from smooth to rough, each from where the one before it ended, until one
    is worse than that. They compete with few functions; one that wins with as many as
    it may have is searched for again with all that are allowed.

    Parameters
    ----------
    search_with : callable
        Search on the rows with some settings; the third value is whether to stop.
    rows : Rows
    settings : SeriesSettings
    rivals : sequence of sklearn.gaussian_process.kernels.Kernel
    """
    *series, stopped = search_with(settings)
    best, most, reached = series, series[1].prior.log_evidence + _PRICE, -np.inf
    largest = min(settings.largest, FIRST_FUNCTIONS[rows.X.shape[1]])
    few = settings._replace(largest=largest, start_noise_variance=None)
    for rival in rivals:
        if stopped:
            break
        *found, stopped = search_with(few._replace(rule=_after(few.rule, rival)))
        prior = found[1].prior
        if found[1].only_noise or prior.log_evidence <= reached:
            break
        few, reached = started(few, found[1]), prior.log_evidence
        if reached > most:
            best, most = found, reached
    if best is not series and best[1].bound.size >= largest and not stopped:
        best = list(search_with(started(settings, best[1]))[:2])
    elif best is not series:
        kept = best[0].settings._replace(largest=settings.largest)
        best = [best[0]._replace(settings=kept), best[1]]
    return best[0], best[1]


def _after(earlier: Any, rival: Any) -> KernelEigenvalues:
    """The rival from where a search under the one before it ended."""
    if not isinstance(earlier, KernelEigenvalues):
        return KernelEigenvalues(rival)
    found = rival.clone_with_theta(earlier.theta)
    factor = _FAMILIES[_order(rival)] / _FAMILIES[_order(earlier.kernel)]
    return KernelEigenvalues(stretched(found, np.log(factor)))


def _of_family(plain: Any, nu: float) -> Any:
    """A constant times the shape of this order."""
    constant, rbf = plain.k1, plain.k2
    scale, bounds = rbf.length_scale, rbf.length_scale_bounds
    shape = RBF(scale, bounds) if nu == np.inf else Matern(scale, bounds, nu=nu)
    return ConstantKernel(1.0, constant.constant_value_bounds) * shape


def _order(kernel: Any) -> float:
    return float(getattr(kernel.k2, "nu", np.inf))


# ---- Posterior of regression on Fourier functions, and what is to be said about it ---


Array = NDArray[np.float64]


def solve_series(
    settings: SeriesSettings, domain: Array, choice: SeriesChoice
) -> SpectralFit:
    """Posterior and bound of the prior and the functions that were found."""
    bound, (rule, noise, _) = choice.bound, choice.prior
    sums, box = bound.sums, bound.sums.statistics.box
    series = FourierSeries.from_rule(rule, box, bound.size, bound.functions)
    level = choice.only_noise or _scale_is_learned(settings)
    basis = BoundedSeries(
        box=box,
        functions=series.functions,
        spectrum=_with_free_level(series) if level else series.spectrum,
        n_basis=series.n_basis,
        remainder=series.remainder,
        domain=domain,
    )
    residual = bound.weight * bound.spectrum(rule).tail
    statistics = bound.equations.whitened(basis.eigenvalues, residual)
    root = precision_root(statistics.gram, noise)
    law = posterior_from(statistics, noise, root)
    evidence = log_evidence_from(statistics, noise, root)
    evidence -= _level_evidence(law, series.eigenvalues, basis.eigenvalues)
    return SpectralFit(
        posterior=LatentModel(basis, law),
        noise_variance=noise * sums.scale**2,
        log_evidence=float(evidence - bound.weight * np.log(sums.scale)),
        shift=sums.shift if settings.normalize_y else 0.0,
        scale=sums.scale,
        prior=rule,
        spectrum=_prior_variances(rule, basis) * sums.scale**2,
        cycles=choice.raised / box.period,
        record=_record(settings, bound.size),
    )


def _record(settings: SeriesSettings, size: int) -> SearchRecord:
    """Sums over all rows decide, from where the search on some of them ended."""
    noise = settings.given_noise_variance(1.0) is None
    if not (noise or settings.free().any()):
        return SearchRecord()
    criterion = f"bound of {size} Fourier functions"
    if size > MOST_SEARCHED and kernel_of(settings.rule) is not None:
        criterion += f", lengthscales by at most {MOST_SEARCHED}"
    return SearchRecord(criterion, 0, "all", settings.pilot_rows)


def log_evidence_of(choice: SeriesChoice) -> float:
    """Bound of the prior that was found, in the units of y."""
    bound = choice.bound
    return choice.prior.log_evidence - bound.weight * float(np.log(bound.sums.scale))


def _prior_variances(rule: Any, basis: BoundedSeries) -> Array:
    """Eigenvalues of all functions; those of the residual do not carry later ones."""
    variances = rule.spectrum(basis.functions, basis.box).eigenvalues.copy()
    variances[: basis.n_basis] = basis.eigenvalues
    return variances


def _scale_is_learned(settings: SeriesSettings) -> bool:
    """Whether a prior might know the level that was taken away with the mean of y."""
    series = kernel_of(settings.rule) is None
    return settings.normalize_y and series and bool(settings.free()[:1].any())


def _with_free_level(series: FourierSeries) -> Array:
    """Spectrum in which the level of the (standardised) function is free to vary.

    The mean of y was taken away as if it were known. With a scale that is learned, a
    function that is nearly constant would be known exactly; a prior variance of at
    least one for the constant function gives the level its ``σ² / n``.
    """
    spectrum = series.spectrum.copy()
    constant = ~np.any(series.index.waves, axis=1)
    leading = spectrum[: series.n_basis]
    leading[constant] = np.maximum(leading[constant], 1.0)
    return spectrum


def _level_evidence(law: GaussianWeights, given: Array, raised: Array) -> float:
    """What the free level adds to the bound, which is that of the prior searched for.

    With ρ = 1 - λ / λ' of the one eigenvalue that was raised to λ', and its weight's
    posterior N(μ, s): ``½ log(1 - ρ (1 - s)) + ½ ρ μ² / (1 - ρ (1 - s))``, the change
    of the log density of y when ``(λ' - λ) φφᵀ`` is added to its covariance.
    """
    changed = np.flatnonzero(given < raised)
    if not len(changed):
        return 0.0
    i = changed[0]
    rho, mean = 1.0 - given[i] / raised[i], law.mean[i, 0]
    kept = 1.0 - rho * (1.0 - np.sum(law.root[0, i] ** 2))
    return 0.5 * float(np.log(kept) + rho * mean**2 / kept)


def warn_if_only_noise(choice: SeriesChoice) -> None:
    """Say that no hyperparameters are better than noise."""
    if not choice.only_noise:
        return
    warn(
        "Nothing but noise was found: no hyperparameters have a larger bound than "
        "noise around a constant. If there is more in the data, give more rows, a "
        'smoother kernel, a larger n_basis, ordering="power" for cycles, or '
        'basis="inducing".',
        FitWarning,
    )


def warn_if_capped(settings: SeriesSettings, choice: SeriesChoice) -> None:
    """Say what is left to the tail where the elbow is beyond what is allowed."""
    bound, rule = choice.bound, choice.prior.rule
    if settings.n_basis != "auto" or choice.elbow <= settings.largest:
        return
    tail = bound.sums.scale * np.sqrt(bound.spectrum(rule).tail)
    warn(
        f"The data would support more than the {bound.size} basis functions that "
        "are allowed; the others add a prior standard deviation of "
        f"{tail:.3g} to every prediction. Raise `max_basis`, or choose a smoother "
        "prior.",
        ConvergenceWarning,
    )


# ---- Regression on Fourier functions: sums, pilot, search, solution ------------------


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
