"""Population features: a fit on Fourier functions, top to bottom."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from skgpx._hyperparameters import kinds_of_rows, learn_noise_of_slopes
from skgpx._latent import LatentModel
from skgpx._numerics.fourier import Box, Integers
from skgpx._numerics.fourier_sums import BinMoments, SeriesStatistics
from skgpx._numerics.regression import (
    TargetRegressions,
    log_evidence,
    posterior,
    whitened,
)
from skgpx._numerics.rows import sample_distinct_rows
from skgpx._shell.functionals import units_of_functionals
from skgpx._shell.row_statistics import counted_once
from skgpx._shell.validation import Rows, canonical_rows
from skgpx._spectral_vgp._candidates import (
    MAX_ORDERED_WAVES,
    FourierPrior,
    Parameters,
    fixed_noise_variance,
    kernel_of,
)
from skgpx._spectral_vgp._credible import effective_dimension
from skgpx._spectral_vgp._domain import (
    Region,
    continue_series,
    data_domain,
    domain_box,
    input_range,
    joint_range,
)
from skgpx._spectral_vgp._functional_sums import FunctionalSums
from skgpx._spectral_vgp._score import (
    Objective,
    check_within,
    objective_for,
    row_sums,
)
from skgpx._spectral_vgp._search import MAX_FUNCTIONS, search
from skgpx._types import Array, Generator, Kernel
from skgpx.bases import BoostedEigenvalues, FourierSeries, OrderedEigenvalues
from skgpx.diagnostics import Finding, no_signal, too_few_basis_functions
from skgpx.kernels import Functionals
from skgpx.likelihoods import Gaussian
from skgpx.likelihoods._noise import KnownNoise

Fit = tuple[dict[str, Any], tuple[Finding | None, ...]]

# Largest number of waves that sums of fewer rows of one input over its domain hold.
_MAX_WAVES = 1638
# Rows of two and of three inputs that choose a prior; with one input, of functionals.
_FIRST_ROWS = {1: 5000, 2: 3000, 3: 2000}
# Rows up to which copies count once in a search: duplicate rows make the likelihood of
# the noise variance unbounded; functions cannot follow single rows of more.
_MAX_COUNTED_ONCE = 20_000


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
    statistics : SeriesStatistics or FunctionalSums
    searched : SeriesStatistics or FunctionalSums
        Without copies of rows: what the search reads.
    start : FourierPrior or None
        With several inputs, what the first rows chose: the box is theirs.
    """

    domain: Array
    seen: Array
    is_given: bool
    parameters: Parameters
    statistics: Any
    searched: Any
    start: FourierPrior | None = None

    def with_rows(self, rows: Rows, n_jobs: int | None) -> FourierState:
        """State after more rows."""
        present = self.statistics
        if isinstance(present.sums, BinMoments):
            # one input: so many waves that sums can be added to these
            n_waves = len(present.sums.values) // 10
            reach = np.array([n_waves])
        else:
            reach = present.reach()
        sums = row_sums(rows, self.domain, present.box, reach, n_jobs, present.shift)
        return self._plus(sums, sums, input_range(rows.X))

    def merged(self, other: FourierState) -> FourierState:
        """State of the rows of both.

        Raises
        ------
        ValueError
            If the sums are not about the same functions.
        """
        if not (isinstance(other, FourierState) and self._sums_like(other)):
            raise ValueError(
                "Only models on one domain, with the same parameters, can be merged: "
                "give all of them a `domain`. With several inputs the box must be the "
                'same, too: use kernel="series", or a kernel with optimizer=None.'
            )
        return self._plus(other.statistics, other.searched, other.seen)

    def _sums_like(self, other: FourierState) -> bool:
        """Whether the sums of both are about the same functions."""
        if self.parameters != other.parameters:
            return False
        if not np.array_equal(self.domain, other.domain):
            return False
        # with one input sums serve any box
        if len(self.domain) == 1:
            return True
        first = self.statistics
        second = other.statistics
        if not np.array_equal(first.box, second.box):
            return False
        return np.array_equal(first.reach(), second.reach())

    def _plus(
        self,
        statistics: SeriesStatistics,
        searched: SeriesStatistics,
        seen: Array,
    ) -> FourierState:
        return replace(
            self,
            statistics=self.statistics + statistics,
            searched=self.searched + searched,
            seen=joint_range(self.seen, seen),
        )

    def solve(self, report: Callable[..., bool] = lambda *_: False) -> Fit:
        """Search the prior and solve the regression; free of n.

        Parameters
        ----------
        report : callable
            Called after each round with a prior, its log evidence in the units of y,
            and a function that returns its attributes; True stops the search.

        Returns
        -------
        attributes : dict
            Fitted attributes: hyperparameters, posterior and bound.
        findings : tuple of Finding or None
        """
        # the functions of data without a domain need not hold its margin
        core = self.domain
        any_box = len(self.domain) == 1 or isinstance(self.statistics, FunctionalSums)
        if any_box and not self.is_given:
            core = self.seen
        region = Region(self.domain, core, self.seen)
        objective = objective_for(self.searched, self.parameters, region)

        def report_prior(prior: FourierPrior) -> bool:
            log_units = float(np.log(objective.scale).sum())
            evidence = prior.bound - objective.weight * log_units
            return report(prior, evidence, lambda: self._solution(objective, prior)[0])

        prior = search(objective, self.start, report_prior)
        return self._solution(objective, prior)

    def _solution(self, objective: Objective, prior: FourierPrior) -> Fit:
        """Posterior and bound of a prior, for all rows."""
        candidates = objective.candidates
        scale = objective.scale
        rule = prior.rule
        box = prior.box
        m = len(prior.functions)

        # sums of all rows for the functions of the basis, and the prior beyond
        statistics = self.statistics.moved(objective.statistics.shift).on(box)
        # functions beyond the basis with eigenvalues that predictions know
        # functions in their order, but with those first for which there are sums
        index = rule.index(box, m + 4096)
        has_sums = np.all(np.abs(index.waves) <= statistics.reach(), axis=1)
        index = index.part(np.argsort(~has_sums, kind="stable"))
        series = FourierSeries.from_rule(rule, box, m, index)
        spectrum = objective.spectrum(prior._replace(functions=series.index))
        sums = statistics.normal_equations(series.index, scale)
        weight = statistics.weight
        regression = whitened(sums, spectrum.eigenvalues, weight * spectrum.tail)

        # V = (I + Φᵀ Φ / σ²)⁻¹, with the tail as the search took it
        noise_variance = prior.noise_variance
        white = spectrum.tail if candidates.tail_is_noise else 0.0
        if np.ndim(scale):
            targets = TargetRegressions(regression)
            noise_variance = noise_variance + np.zeros_like(scale)
            weights = targets.posterior(noise_variance + white)
            evidence = float(targets.log_evidence(noise_variance).sum())
        else:
            weights = posterior(regression, noise_variance + white)
            evidence = log_evidence(regression, noise_variance)
        evidence -= weight * float(np.log(scale).sum())

        kernel = kernel_of(rule)
        basis = continue_series(series, kernel, candidates.region)
        model = LatentModel(basis, weights)
        record: dict[str, Any] = {"criterion": "nothing was free"}
        if candidates.learned or candidates.noise_variance is None:
            record = {
                "criterion": f"bound of {m} Fourier functions",
                "rows_searched": self.parameters.get("rows_searched", "all"),
            }
        attributes = {
            "posterior_": model.affine(objective.statistics.shift, scale),
            "noise_variance_": noise_variance * scale**2,
            "log_evidence_": evidence,
            "prior_": rule.rule,
            "kernel_": kernel,
            "spectrum_": np.multiply.outer(series.spectrum, scale**2),
            "cycles_": prior.cycles,
            "n_basis_": m,
            "effective_dimension_": effective_dimension(model),
            "_record": record,
        }
        signal = None
        if prior.only_noise and not candidates.is_default:
            signal = no_signal(gain=0.0)
        # n λ_m / σ² of the last function, for the target of the least noise
        last_variance = objective.weight * spectrum.eigenvalues[-1]
        findings = (
            signal,
            too_few_basis_functions(
                m,
                largest=MAX_FUNCTIONS if candidates.grows else None,
                signal=float(last_variance),
                noise=float(np.min(prior.noise_variance)),
                left_out=float(np.max(scale) * np.sqrt(spectrum.tail)),
            ),
        )
        return attributes, findings


def fit_population(
    rows: Rows,
    domain: Array | None,
    parameters: Parameters,
    rng: Generator,
    n_jobs: int | None,
    adds: bool,
) -> FourierState:
    """Sums over rows on the box that their prior wants.

    Parameters
    ----------
    rows : Rows
    domain : ndarray of shape (d, 2) or None
    parameters : Parameters
    rng : numpy.random.Generator
    n_jobs : int or None
    adds : bool
        Whether more rows may come.

    Returns
    -------
    state : FourierState
        With several inputs some of the rows choose the box. With one input the sums
        serve any box.
    """
    is_given = domain is not None
    if domain is None:
        domain = data_domain(rows.X)
    box = domain_box(domain)
    rule_reach = reach_of_rule(parameters, box)
    distinct = rows
    learns_noise = fixed_noise_variance(parameters, 1.0) is None
    if not adds and learns_noise and len(rows.y) <= _MAX_COUNTED_ONCE:
        distinct = counted_once(canonical_rows(*rows))

    start = None
    if rows.X.shape[1] == 1:
        n_rows = None if adds else int(distinct.weights.sum())
        reach = np.maximum(reach_of_line(parameters, n_rows), rule_reach)
    else:
        # some of the rows choose the prior where there are many
        size = _FIRST_ROWS[rows.X.shape[1]]
        salt = int(rng.integers(2**63))
        chosen = sample_distinct_rows(distinct.X, distinct.y, size, salt)
        sample = distinct
        if chosen is not None:
            sample = distinct.take(chosen)
        # prior of rows of several inputs, on boxes of its own choice
        smallest_reach = np.ones(len(domain), np.int64)
        sums = row_sums(sample, domain, domain_box(domain), smallest_reach, n_jobs)
        region = Region(domain, core=domain, seen=input_range(sample.X))
        objective = objective_for(sums, parameters, region, sample)
        prior = search(objective)
        box = prior.box
        reach = reach_with_room(objective, prior, rule_reach)
        # what is noise to few rows may be more to many
        if not prior.only_noise:
            shared = float(np.mean(prior.noise_variance))
            start = prior._replace(sums=(), noise_variance=shared)

    statistics = row_sums(rows, domain, box, reach, n_jobs)
    searched = statistics
    if distinct is not rows:
        searched = row_sums(distinct, domain, box, reach, n_jobs)
    return FourierState(
        domain=domain,
        seen=input_range(rows.X),
        is_given=is_given,
        parameters=parameters,
        statistics=statistics,
        searched=searched,
        start=start,
    )


def fit_functionals(
    rows: Rows,
    domain: Array | None,
    parameters: Parameters,
    rng: Generator,
    n_jobs: int | None,
) -> FourierState:
    """Sums over rows of functionals for the prior that some of them choose.

    Parameters as of :func:`fit_population`.

    Raises
    ------
    ValueError
        If a row, or a part of its box, is outside the domain.
    """
    seen = parameters["seen"]
    normalize = parameters["normalize_y"]
    units = units_of_functionals(rows, seen, normalize=normalize, robust=False)
    rows = rows._replace(y=units.standardised(rows.y, rows.X))
    corners = seen.rows(rows.X).corners()
    is_given = domain is not None
    if domain is None:
        domain = data_domain(corners)
    check_within(corners, domain)
    range_of_rows = input_range(corners)
    core = domain if is_given else range_of_rows
    region = Region(domain, core, seen=range_of_rows)

    def sums(rows: Rows) -> FunctionalSums:
        return FunctionalSums(
            rows=rows,
            seen=seen,
            box=domain_box(domain),
            shift=float(units.shift),
            scale=float(units.scale),
            n_jobs=n_jobs,
        )

    def states_of(rows: Rows, **likelihood: Any) -> list[Any]:
        del likelihood
        prior = search(objective_for(sums(rows), parameters, region, rows))
        state = SimpleNamespace(
            prior=prior,
            kernel=Functionals(kernel_of(prior.rule), seen.resolution),
            noise_variance=float(prior.noise_variance),
            noise_is_free=True,
        )
        return [state]

    # some rows of each kind choose the prior, and the noise of each
    learns = fixed_noise_variance(parameters, 1.0) is None
    kinds = kinds_of_rows(rows, seen) * learns
    n_kinds = kinds.max() + 1
    salt = int(rng.integers(2**63))
    places = []
    for kind in range(n_kinds):
        of_kind = np.flatnonzero(kinds == kind)
        size = _FIRST_ROWS[len(domain)] // n_kinds
        chosen = sample_distinct_rows(rows.X[of_kind], rows.y[of_kind], size, salt)
        places.append(of_kind if chosen is None else of_kind[chosen])
    sample = np.sort(np.concatenate(places))
    searched = rows.take(sample)
    relative, (state,) = learn_noise_of_slopes(
        searched,
        kinds[sample],
        Gaussian().prepare(searched.y, searched.weights),
        states_of,
    )
    if len(sample) < len(rows.y):
        parameters = {**parameters, "rows_searched": len(sample)}
    start = state.prior
    if n_kinds > 1:
        assert relative.known is not None
        _, first = np.unique(kinds[sample], return_index=True)
        variances = start.noise_variance * relative.known[first]
        noise = KnownNoise.of(variances[kinds], rows.weights)
        rows = rows._replace(known=noise.relative)
        start = start._replace(noise_variance=noise.reference)
    statistics = sums(rows)
    return FourierState(
        domain=domain,
        seen=region.seen,
        is_given=is_given,
        parameters=parameters,
        statistics=statistics,
        searched=statistics,
        start=start,
    )


# ---- Waves for which there are sums --------------------------------------------------


def reach_of_line(parameters: Parameters, n_rows: int | None) -> Integers:
    """Largest wave number, (1,), of sums of one input.

    Parameters
    ----------
    parameters : Parameters
    n_rows : int or None
        None if more rows may come.
    """
    n_basis = parameters["n_basis"]
    if not isinstance(n_basis, str):
        reach = max(n_basis // 2 + 1, 64)
    elif n_rows is None:
        reach = _MAX_WAVES
    else:
        # more waves where each has fifteen rows
        largest = max(_MAX_WAVES, min(n_rows // 15, MAX_ORDERED_WAVES))
        reach = min(max(n_rows, 64), largest)
    if parameters["order"] == "data":
        # the waves of the first n functions
        n_waves = MAX_ORDERED_WAVES
        if n_rows is not None:
            n_waves = min(n_rows // 2, MAX_ORDERED_WAVES)
        reach = max(reach, n_waves)
    return np.array([reach])


def reach_with_room(
    objective: Objective,
    prior: FourierPrior,
    rule_reach: Integers,
) -> Integers:
    """Largest wave numbers, (d,), of a prior, with room for others if it is learned."""
    candidates = objective.candidates
    size = MAX_FUNCTIONS if candidates.grows else candidates.n_functions
    reach = prior.rule.index(prior.box, size).reach()
    if not candidates.learned:
        return reach
    room = np.minimum(reach + reach // 4 + 1, size)
    return np.maximum(room, rule_reach)


def reach_of_rule(parameters: Parameters, box: Box) -> Integers:
    """Largest wave numbers, (d,), that the sums for a given rule must have.

    They hold the functions of its basis; where their number is open, boosted waves and
    all functions of an order. Functions in the order of their length are shorter than
    the sums anyway.

    Raises
    ------
    ValueError
        If `n_basis` functions cannot hold the boosted waves.
    """
    rule = parameters["kernel"]
    if rule is None or isinstance(rule, Kernel | str):
        return np.zeros(len(box.period), np.int64)
    needed = 1
    inner = rule
    if isinstance(rule, BoostedEigenvalues):
        needed = rule.n_boosted
        inner = rule.rule
    n_basis = parameters["n_basis"]
    if isinstance(n_basis, str):
        n_basis = needed
        if isinstance(inner, OrderedEigenvalues):
            n_basis += len(inner.order)
    if n_basis < needed:
        raise ValueError(
            f"The constant and the waves of {rule!r} are {needed} functions; got "
            f"n_basis={n_basis}. Give n_basis={needed} or more, or fewer waves."
        )
    return rule.index(box, n_basis).reach()
