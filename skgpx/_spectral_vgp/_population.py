"""Population features: a fit on Fourier functions, top to bottom."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process.kernels import Kernel

from skgpx._latent import LatentModel
from skgpx._numerics.fourier import Integers
from skgpx._numerics.fourier_sums import SeriesStatistics
from skgpx._numerics.regression import (
    TargetRegressions,
    log_evidence,
    posterior,
    whitened,
)
from skgpx._numerics.rows import sample_distinct_rows
from skgpx._selection import SearchRecord, counted_once
from skgpx._spectral_vgp._credible import effective_dimension
from skgpx._spectral_vgp._domain import (
    continued,
    data_domain,
    input_range,
    kernel_of,
)
from skgpx._spectral_vgp._search import (
    MOST_FUNCTIONS,
    MOST_ORDERED,
    Parameters,
    Prior,
    Search,
    known_noise,
)
from skgpx._spectral_vgp._sums import row_sums
from skgpx._validation import Rows, canonical_rows
from skgpx.bases import (
    BoostedEigenvalues,
    Box,
    FourierSeries,
    OrderedEigenvalues,
)
from skgpx.diagnostics import Finding, only_noise, too_few_basis_functions

Array = NDArray[np.float64]
Fit = tuple[dict[str, Any], tuple[Finding | None, ...]]

# Waves of one input that sums over its domain can hold, at most.
_MOST_WAVES = 1638


@dataclass(frozen=True)
class FourierState:
    """Sums over all rows seen, to which more can be added.

    Attributes
    ----------
    domain, seen : ndarray of shape (d, 2)
        Where the inputs may lie, and the range of the inputs so far.
    is_given : bool
        Whether the domain is the user's, all of which the functions must hold.
    parameters : dict
        Which models must share to be merged.
    statistics : SeriesStatistics
    searched : SeriesStatistics
        Without copies of rows: what the search reads.
    start : Prior or None
        With several inputs, what the first rows chose: the box is theirs.
    """

    domain: Array
    seen: Array
    is_given: bool
    parameters: Parameters
    statistics: SeriesStatistics
    searched: SeriesStatistics
    start: Prior | None = None

    def with_rows(self, rows: Rows, n_jobs: int | None) -> FourierState:
        """State after more rows."""
        like: Any = self.statistics
        # waves of one input to sum so that sums can be added to these
        one = len(self.domain) == 1
        reach = np.array([len(like.sums.values) // 10]) if one else like.reach()
        more = row_sums(rows, self.domain, like.box, reach, n_jobs, like.shift)
        return self._plus(more, more, input_range(rows.X))

    def merged(self, other: Any) -> FourierState:
        """State of the rows of both.

        Raises
        ------
        ValueError
            If the sums are not about the same functions.
        """
        one, two = self.statistics, getattr(other, "statistics", None)
        same = (
            isinstance(other, FourierState)
            and self.parameters == other.parameters
            and np.array_equal(self.domain, other.domain)
            # with one input sums serve any box
            and (len(self.domain) == 1 or np.array_equal(one.box, two.box))
            and (len(self.domain) == 1 or np.array_equal(one.reach(), two.reach()))
        )
        if not same:
            raise ValueError(
                "Only models on one domain, with the same parameters, can be merged: "
                "give all of them a `domain`. With several inputs the box must be the "
                'same, too: use kernel="series", or a kernel with optimizer=None.'
            )
        return self._plus(other.statistics, other.searched, other.seen)

    def _plus(
        self,
        more: SeriesStatistics,
        searched: SeriesStatistics,
        seen: Array,
    ) -> FourierState:
        return replace(
            self,
            statistics=self.statistics + more,
            searched=self.searched + searched,
            seen=input_range(np.hstack((self.seen, seen)).T),
        )

    def solve(self, report: Callable[..., bool] = lambda *_: False) -> Fit:
        """Number of functions, hyperparameters, posterior and bound; free of n.

        `report` is called after each round with a prior, its log evidence in the units
        of y, and a function that returns its attributes; True stops the search.
        """
        # the functions of data without a domain need not hold its margin
        one = len(self.domain) == 1 and not self.is_given
        inside = self.seen if one else self.domain
        search = Search(self.searched, self.parameters, self.domain, inside, self.seen)

        def reported(prior: Prior) -> bool:
            evidence = prior.bound - search.weight * float(np.log(search.scale).sum())
            return report(prior, evidence, lambda: self._solution(search, prior)[0])

        return self._solution(search, search.run(self.start, reported))

    def _solution(self, search: Search, prior: Prior) -> Fit:
        """Posterior and bound of a prior, for all rows."""
        noise, box, scale = prior.noise_variance, prior.box, search.scale
        all_rows = self.statistics.moved(search.statistics.shift).on(box)
        # functions that were summed come first
        m = len(prior.functions)
        index = prior.rule.index(box, m + 4096)
        held = np.all(np.abs(index.waves) <= all_rows.reach(), axis=1)
        index = index.part(np.argsort(~held, kind="stable"))
        series = FourierSeries.from_rule(prior.rule, box, m, index)
        spectrum = prior.rule.spectrum(series.index, box)
        sums = all_rows.normal_equations(series.index, scale)
        residual = all_rows.weight * spectrum.tail
        statistics = whitened(sums, spectrum.eigenvalues, residual)
        # as the search took the functions left out
        white = spectrum.tail if search.tail_is_noise else 0.0
        where = search.domain, search.inside, search.seen
        basis = continued(series, kernel_of(prior.rule), *where)
        if np.ndim(scale):
            each, noise = TargetRegressions(statistics), noise + np.zeros_like(scale)
            model = LatentModel(basis, each.posterior(noise + white))
            evidence = float(each.log_evidence(noise).sum())
        else:
            model = LatentModel(basis, posterior(statistics, noise + white))
            evidence = log_evidence(statistics, noise)
        evidence -= all_rows.weight * float(np.log(scale).sum())
        learned = search.learns or search.noise is None
        record = (f"bound of {m} Fourier functions", 0, "all") if learned else ()
        attributes = {
            "posterior_": model.affine(search.statistics.shift, scale),
            "noise_variance_": noise * scale**2,
            "log_evidence_": evidence,
            "prior_": prior.rule.rule,
            "kernel_": kernel_of(prior.rule),
            "spectrum_": np.multiply.outer(series.spectrum, scale**2),
            "cycles_": prior.cycles,
            "n_basis_": m,
            "effective_dimension_": effective_dimension(model),
            "_record": SearchRecord(*record),
        }
        return attributes, _findings(search, prior, spectrum.eigenvalues, spectrum.tail)


class FirstRows(NamedTuple):
    """Rows of several inputs that chose a prior of Fourier functions.

    Attributes
    ----------
    rows : Rows
        At most 3000 of two inputs, 2000 of three.
    bound : float
        Of their log evidence, in the units of y.
    n_functions : int
        Of the basis that has this bound.
    """

    rows: Rows
    bound: float
    n_functions: int


def fit_population(
    rows: Rows,
    domain: Array | None,
    parameters: Parameters,
    rng: np.random.Generator,
    n_jobs: int | None,
    adds: bool,
) -> tuple[FourierState, FirstRows | None]:
    """Sums over rows on the box that their prior wants.

    With one input the sums serve any box. With several, some of the rows choose the
    prior, and with it the box: these are returned too. `adds` says that more rows may
    come.
    """
    is_given, d = domain is not None, rows.X.shape[1]
    domain = data_domain(rows.X) if domain is None else domain
    box = Box(domain[:, 0].copy(), domain[:, 1] - domain[:, 0])
    once = rows
    start = None
    size = parameters["n_basis"]
    first: FirstRows | None = None
    of_rule = _reach_of_rule(parameters, box)
    if not adds and known_noise(parameters, 1.0) is None and len(rows.y) <= 20_000:
        # duplicate rows make the likelihood of the noise variance unbounded; functions
        # cannot follow single rows of more
        once = counted_once(canonical_rows(*rows))
    if d == 1:
        most = (
            _MOST_WAVES if adds else min(max(int(once.weights.sum()), 64), _MOST_WAVES)
        )
        reach = np.array([most if isinstance(size, str) else max(size // 2 + 1, 64)])
        reach = np.maximum(reach, of_rule)
        if parameters["order"] == "data":
            # those of the first n functions
            n_waves = MOST_ORDERED if adds else int(once.weights.sum()) // 2
            reach = np.maximum(reach, min(n_waves, MOST_ORDERED))
    else:
        # rows that choose the prior where there are more
        few, salt = {2: 3000, 3: 2000}[d], int(rng.integers(2**63))
        chosen = sample_distinct_rows(once.X, once.y, few, salt)
        some = once if chosen is None else once.take(chosen)
        sums = row_sums(some, domain, box, np.ones(d, np.int64), n_jobs)
        search = Search(sums, parameters, domain, domain, input_range(some.X), some)
        start = search.run()
        first = FirstRows(some, _bound(search, start), len(start.functions))
        box, size = start.box, MOST_FUNCTIONS if search.grows else search.size
        reach = start.rule.index(box, size).reach()
        if search.learns:
            # with some room for other parameters
            room = np.minimum(reach + reach // 4 + 1, size)
            reach = np.maximum(room, of_rule)
        # what is noise to few rows may be more to many
        shared = float(np.mean(start.noise_variance))
        kept = start._replace(sums=None, noise_variance=shared)
        start = None if start.only_noise else kept
    how = domain, box, reach, n_jobs
    statistics = row_sums(rows, *how)
    searched = statistics if once is rows else row_sums(once, *how)
    state = FourierState(
        domain,
        input_range(rows.X),
        is_given,
        parameters,
        statistics,
        searched,
        start,
    )
    return state, first


def _bound(search: Search, prior: Prior) -> float:
    """Collapsed bound of the log evidence of the rows of a search, in units of y."""
    spectrum = prior.rule.spectrum(prior.functions, prior.box)
    residual = search.weight * spectrum.tail
    statistics = whitened(prior.sums, spectrum.eigenvalues, residual)
    units = search.weight * float(np.log(search.scale).sum())
    return log_evidence(statistics, prior.noise_variance) - units


def _reach_of_rule(parameters: Parameters, box: Box) -> Integers:
    """Largest wave numbers, (d,), that the sums for a given rule must have.

    Those of the functions of its basis; where their number is open, of raised waves and
    of all functions of an order.
    Functions of the order of their length are shorter than the sums anyway.

    Raises
    ------
    ValueError
        If `n_basis` functions cannot hold the raised waves.
    """
    rule, size = parameters["kernel"], parameters["n_basis"]
    if rule is None or isinstance(rule, Kernel | str):
        return np.zeros(len(box.period), np.int64)
    is_raised = isinstance(rule, BoostedEigenvalues)
    least = rule.n_boosted if is_raised else 1
    inner = rule.rule if is_raised else rule
    if isinstance(size, str):
        n_ordered = len(inner.order) if isinstance(inner, OrderedEigenvalues) else 0
        size = least + n_ordered
    if size < least:
        raise ValueError(
            f"The constant and the waves of {rule!r} are {least} functions; got "
            f"n_basis={size}. Give n_basis={least} or more, or fewer waves."
        )
    return rule.index(box, size).reach()


def _findings(
    search: Search,
    prior: Prior,
    eigenvalues: Array,
    tail: float,
) -> tuple[Finding | None, ...]:
    size = len(prior.functions)
    supported = search.weight * eigenvalues[-1] >= np.min(prior.noise_variance)
    capped = search.grows and size >= MOST_FUNCTIONS and bool(supported)
    return (
        only_noise(prior.only_noise and not search.is_default),
        too_few_basis_functions(size, capped, np.max(search.scale) * np.sqrt(tail)),
    )
