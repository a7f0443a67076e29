"""Population features: a fit on Fourier functions, top to bottom."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Kernel, Matern

from skgpx._latent import LatentModel
from skgpx._numerics.fourier_sums import SeriesStatistics
from skgpx._numerics.regression import log_evidence, posterior
from skgpx._numerics.rows import sample_distinct_rows
from skgpx._numerics.series_evidence import whitened
from skgpx._selection import SearchRecord, counted_once
from skgpx._spectral_vgp._domain import (
    box_of,
    continued,
    data_domain,
    input_range,
    joint_range,
    kernel_of,
)
from skgpx._spectral_vgp._search import (
    MOST_FUNCTIONS,
    Prior,
    SeriesSettings,
    search_prior,
)
from skgpx._spectral_vgp._solution import SpectralFit
from skgpx._spectral_vgp._sums import MOST_WAVES, StandardSums, row_sums
from skgpx._validation import Rows, canonical_rows
from skgpx.bases import (
    FourierSeries,
    KernelEigenvalues,
    PolynomialEigenvalues,
)
from skgpx.diagnostics import Finding
from skgpx.exceptions import ConvergenceWarning
from skgpx.kernels import split_noise

Array = NDArray[np.float64]
Report = Callable[["FourierState", Prior], bool]

# Orders of the default kernels from smooth to rough, and the lengthscale of each that
# resembles an RBF of lengthscale one.
_FAMILIES = {np.inf: 1.0, 2.5: 1.5, 1.5: 2.0, 0.5: 4.0}
# Rows that choose the prior where there are more, with two and three inputs.
_PILOT_ROWS = {2: 3000, 3: 2000}
# Rows up to which copies are looked for: functions cannot follow single ones of more.
_MOST_COPIES = 20_000


class Parameters(NamedTuple):
    """Parameters of `SpectralVGPRegressor` that decide about the prior."""

    kernel: Any
    n_basis: int | str
    noise_variance: float | None
    optimizer: str | None
    normalize_y: bool

    def settings(self, seen: Array, weight: float) -> SeriesSettings:
        """Candidate priors and what is searched for, by range and number of rows."""
        learns, white, factors = self.optimizer is not None, None, (1.0,)
        if self.kernel is None:
            rules = tuple(_of_order(nu, seen, weight) for nu in _FAMILIES)
            factors = tuple(_FAMILIES.values())
        elif isinstance(self.kernel, Kernel):
            latent, level, bounds = split_noise(self.kernel)
            fixed = level is not None and (not learns or isinstance(bounds, str))
            rules, white = (KernelEigenvalues(latent),), level if fixed else None
        else:
            named = isinstance(self.kernel, str)
            rules = (PolynomialEigenvalues() if named else self.kernel,)
        default = self.kernel is None or isinstance(self.kernel, str)
        return SeriesSettings(
            rules=rules if learns else rules[:1],
            factors=factors,
            learns=learns and len(rules[0].theta) > 0,
            is_default=self.kernel is None and learns,
            n_basis=self.n_basis,
            noise_variance=self.noise_variance,
            white=white,
            raises=learns and self.normalize_y and default,
        )


def _of_order(nu: float, seen: Array, weight: float) -> KernelEigenvalues:
    """A constant times the RBF, or the Matern shape of this order, for rows in a range.

    The same lengthscales and bounds as of the default kernel of uniform rows.
    """
    d = len(seen)
    std = (seen[:, 1] - seen[:, 0]) / np.sqrt(12.0)
    std = np.where(std > 0.0, std, 1.0)
    least = min(1e-2, np.sqrt(12.0) * max(weight, 1.0) ** (-1.0 / d))
    bounds = np.column_stack((least * std, 1e3 * std))
    scale: Any = 2.0 * np.sqrt(d) * std
    if d == 1:
        scale, bounds = float(scale[0]), bounds[0]
    shape = RBF(scale, bounds) if nu == np.inf else Matern(scale, bounds, nu=nu)
    return KernelEigenvalues(ConstantKernel(1.0, (1e-3, 1e3)) * shape)


@dataclass(frozen=True)
class FourierState:
    """Sums over all rows seen, to which more can be added.

    Attributes
    ----------
    domain, seen : ndarray of shape (d, 2)
        Where the inputs may lie, and the range of the inputs so far.
    is_given : bool
        Whether the domain is the user's, all of which the functions must hold.
    parameters : Parameters
    given : str
        Of the parameters that models must share to be merged.
    statistics : SeriesStatistics
    searched : SeriesStatistics or None
        Without copies of rows: what the search reads, if it is not all.
    start : Prior or None
        With several inputs, what the first rows chose: the box is theirs.
    """

    domain: Array
    seen: Array
    is_given: bool
    parameters: Parameters
    given: str
    statistics: SeriesStatistics
    searched: SeriesStatistics | None = None
    start: Prior | None = None

    @property
    def settings(self) -> SeriesSettings:
        """Candidate priors for the rows seen."""
        return self.parameters.settings(self.seen, self.statistics.weight)

    @property
    def inside(self) -> Array:
        """Where the functions must stand for the process."""
        one = len(self.domain) == 1 and not self.is_given
        return self.seen if one else self.domain

    def with_rows(self, rows: Rows, n_jobs: int | None) -> FourierState:
        """State after more rows."""
        like = self.statistics
        how = self.domain, like.box, self._reach(), n_jobs, like.shift
        more = row_sums(rows, *how)
        return replace(
            self,
            statistics=like + more,
            seen=joint_range(self.seen, input_range(rows.X)),
            searched=None if self.searched is None else self.searched + more,
        )

    def merged(self, other: Any) -> FourierState:
        """State of the rows of both.

        Raises
        ------
        ValueError
            If the sums are not about the same functions.
        """
        several = len(self.domain) > 1
        same = (
            isinstance(other, FourierState)
            and self.given == other.given
            and np.array_equal(self.domain, other.domain)
        )
        if same and several:
            one, two = self.statistics, other.statistics
            same = np.array_equal(one.box, two.box)
            same = same and np.array_equal(one.reach(), two.reach())
        if not same:
            raise ValueError(
                "Only models on one domain, with the same parameters, can be merged: "
                "give all of them a `domain`. With several inputs the box must be the "
                'same, too: use kernel="series", or a kernel with optimizer=None.'
            )
        searched = None
        if self.searched is not None or other.searched is not None:
            searched = (self.searched or self.statistics) + (
                other.searched or other.statistics
            )
        return replace(
            self,
            statistics=self.statistics + other.statistics,
            seen=joint_range(self.seen, other.seen),
            searched=searched,
        )

    def solve(self, report: Report | None = None) -> SpectralFit:
        """Number of functions, hyperparameters, posterior and bound; free of n."""
        statistics = self.searched or self.statistics
        where = self.domain, self.inside, self.seen
        sums = StandardSums.of(statistics, self.parameters.normalize_y, *where)
        stop = (lambda _: False) if report is None else lambda p: report(self, p)
        return self.solution(search_prior(sums, self.settings, self.start, stop))

    def solution(self, prior: Prior) -> SpectralFit:
        """Posterior and bound of a prior, for all rows."""
        if self.searched is not None:
            moved = self.statistics.moved(prior.sums.statistics.shift)
            own = replace(prior.sums, statistics=moved, seen=self.seen)
            own = own.on(prior.sums.box, self._reach())
            prior = prior._replace(sums=own)
        where = self.domain, self.inside, self.seen
        return solved(prior, *where, self.settings)

    def _reach(self) -> Any:
        """Waves to sum so that sums can be added to these."""
        if len(self.domain) > 1:
            return self.statistics.reach()
        return np.array([len(self.statistics.sums.values) // 10])


def fit_population(
    rows: Rows,
    domain: Array | None,
    parameters: Parameters,
    given: str,
    rng: np.random.Generator,
    n_jobs: int | None,
    adds: bool,
) -> FourierState:
    """Sums over rows on the box that their prior wants.

    With one input the sums serve any box. With several, some of the rows choose the
    prior, and with it the box. `adds` says that more rows may come.
    """
    is_given = domain is not None
    domain = data_domain(rows.X) if domain is None else domain
    seen, weight = input_range(rows.X), float(rows.weights.sum())
    settings, normalize_y = parameters.settings(seen, weight), parameters.normalize_y
    once = rows if adds else without_copies(rows, settings)
    n = int(once.weights.sum())
    start, box, reach = None, *_first_box(domain, seen, settings, n, adds)
    if len(domain) > 1:
        few, salt = _PILOT_ROWS[len(domain)], int(rng.integers(2**63))
        chosen = sample_distinct_rows(once.X, once.y, few, salt)
        some = once if chosen is None else once.take(chosen)
        sums = row_sums(some, domain, box, reach, n_jobs)
        sums = StandardSums.of(
            sums, normalize_y, domain, domain, input_range(some.X), some
        )
        start = search_prior(sums, settings)
        box = start.sums.box
        reach = np.maximum(start.functions.reach(), _room(start.rule, box, settings))
        start = start._replace(sums=replace(start.sums, rows=None))
    how = domain, box, reach, n_jobs
    searched = None if once is rows else row_sums(once, *how)
    sums = row_sums(rows, *how), searched
    where = domain, seen, is_given
    state = FourierState(*where, parameters, given, *sums, start)
    if start is not None and start.only_noise:
        # what is noise to few rows may be more to many
        state = replace(state, start=None)
    return state


def _first_box(
    domain: Array, seen: Array, settings: SeriesSettings, n: int, adds: bool
) -> Any:
    """Box of the first candidate, and wave numbers to sum."""
    rule = settings.rules[0]
    box = box_of(domain, domain, seen, kernel_of(rule), settings.learns)
    if len(domain) > 1:
        return box, _room(rule, box, settings)
    if not isinstance(settings.n_basis, str):
        return box, np.array([max(settings.n_basis // 2 + 1, 64)])
    return box, np.array([MOST_WAVES if adds else min(max(n, 64), MOST_WAVES)])


def _room(rule: Any, box: Any, settings: SeriesSettings) -> Any:
    """Wave numbers of several inputs, with some for other parameters."""
    fixed = settings.n_basis
    size = MOST_FUNCTIONS if isinstance(fixed, str) else int(fixed)
    reach = rule.index(box, size).reach()
    return np.minimum(reach + reach // 4 + 1, size) if settings.learns else reach


def without_copies(rows: Rows, settings: SeriesSettings) -> Rows:
    """Rows that a search for the noise reads: repetitions count once.

    Duplicate rows make the likelihood of the noise variance unbounded. The rows
    themselves if there are none.
    """
    known = settings.noise_variance is not None or settings.white is not None
    if known or len(rows.y) > _MOST_COPIES:
        return rows
    distinct = canonical_rows(*rows)
    return counted_once(distinct)


def solved(
    prior: Prior, domain: Array, inside: Array, seen: Array, settings: SeriesSettings
) -> SpectralFit:
    """Posterior of the prior and the functions that were found."""
    sums, rule, noise = prior.sums, prior.rule, prior.noise_variance
    index = rule.index(sums.box, len(prior.functions) + 4096)
    held = {tuple(w) for w in prior.functions.waves.tolist()}
    later = np.array([tuple(w) not in held for w in index.waves.tolist()], bool)
    both = replace(
        index,
        waves=np.concatenate((prior.functions.waves, index.waves[later])),
        sine=np.concatenate((prior.functions.sine, index.sine[later])),
        ranks=np.concatenate((prior.functions.ranks, index.ranks[later])),
    )
    series = FourierSeries.from_rule(rule, sums.box, len(prior.functions), both)
    spectrum = rule.spectrum(prior.functions, sums.box)
    statistics = whitened(
        sums.equations(prior.functions),
        spectrum.eigenvalues,
        sums.weight * spectrum.tail,
    )
    # as the search of the default kernels took the functions left out
    white = spectrum.tail if settings.is_default else 0.0
    weights = posterior(statistics, noise + white)
    inner = getattr(rule, "rule", rule)
    criterion = f"bound of {len(prior.functions)} Fourier functions"
    searches = settings.learns or settings.given_noise(1.0) is None
    record = SearchRecord(criterion, 0, "all") if searches else SearchRecord()
    return SpectralFit(
        posterior=LatentModel(continued(series, rule, domain, inside, seen), weights),
        noise_variance=noise * sums.scale**2,
        log_evidence=log_evidence(statistics, noise)
        - sums.weight * float(np.log(sums.scale)),
        shift=sums.statistics.shift,
        scale=sums.scale,
        prior=inner,
        kernel=kernel_of(rule),
        spectrum=series.spectrum * sums.scale**2,
        cycles=prior.waves / sums.box.period,
        record=record,
        findings=(_no_signal(prior, settings), _too_few_functions(prior, settings)),
    )


def _no_signal(prior: Prior, settings: SeriesSettings) -> Finding | None:
    if not prior.only_noise or settings.is_default:
        return None
    return Finding(
        "no signal",
        "No signal was found: no hyperparameters have a larger bound than noise around "
        "a constant, which is what predictions are. If there is more in the data, give "
        "more rows, a smoother kernel, or kernel=None.",
    )


def _too_few_functions(prior: Prior, settings: SeriesSettings) -> Finding | None:
    size, sums = len(prior.functions), prior.sums
    if settings.n_basis != "auto" or size < MOST_FUNCTIONS:
        return None
    spectrum = prior.rule.spectrum(prior.functions, sums.box)
    if sums.weight * spectrum.eigenvalues[-1] < prior.noise_variance:
        return None
    return Finding(
        "too few basis functions",
        f"The data support more than {size} basis functions; the others add a prior "
        f"standard deviation of {sums.scale * np.sqrt(spectrum.tail):.3g} to every "
        "prediction. Give a larger n_basis, or a smoother kernel.",
        ConvergenceWarning,
    )
