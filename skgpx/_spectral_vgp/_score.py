"""Score of a prior on Fourier functions: its evidence from sums, and climbs.

Candidates are compared by the collapsed bound of the evidence and a hyperprior.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
from scipy import optimize

from skgpx._numerics.fourier import Box, FourierIndex, Integers
from skgpx._numerics.fourier_sums import (
    BinMoments,
    SeriesStatistics,
    direct_statistics,
    n_bins,
    sketched_statistics,
)
from skgpx._numerics.regression import (
    Spectrum,
    TargetRegressions,
    WeightStatistics,
    noise_bounds,
    series_evidence,
    whitened,
)
from skgpx._numerics.rows import row_slices
from skgpx._shell.parallel import parallel_stream
from skgpx._shell.validation import Rows
from skgpx._spectral_vgp._candidates import (
    Candidates,
    FourierPrior,
    Parameters,
    candidates_for,
    families,
    innermost_kernel,
    shrink,
)
from skgpx._spectral_vgp._domain import Region, domain_box, input_range, widths
from skgpx._spectral_vgp._functional_sums import FunctionalSums
from skgpx._types import Array
from skgpx.bases import BoostedEigenvalues
from skgpx.bases._eigenvalues import EigenvalueRule

# Rows and bins of a section of a long series, and number of sections: bins for the
# functions of a search, rows for hyperparameters to some per cent in all of them.
_SECTION_ROWS = 1000
_SECTION_BINS = 1024
_MAX_SECTIONS = 8


@dataclass(frozen=True)
class Objective:
    """What a search maximises: the bound of the evidence plus the log hyperprior.

    Attributes
    ----------
    candidates : Candidates
    statistics : SeriesStatistics or FunctionalSums
        Sums over rows of the centred y.
    scale : float or ndarray of shape (t,)
        Unit of y.
    rows : Rows or None
        With several inputs, the rows of the sums, from which sums for another box are
        taken. Without them the box is fixed.
    sections : tuple of SeriesStatistics
        Equally wide sections of a long series, `statistics` being the first, whose
        evidence is that of independent functions; empty for one function of all rows.
    """

    candidates: Candidates
    statistics: Any
    scale: float | Array
    rows: Rows | None = None
    sections: tuple[SeriesStatistics, ...] = ()

    @property
    def weight(self) -> float:
        """Number of observations n."""
        return sum(part.weight for part in self.sections or (self.statistics,))

    # ---- Functions and their sums ----------------------------------------------------

    def build_prior(
        self,
        rule: BoostedEigenvalues,
        noise_variance: float | Array,
        n_functions: int,
        box: Box | None = None,
    ) -> FourierPrior:
        """Functions and sums of a rule, in whole pairs, on its own box by default."""
        if box is None:
            box = self.candidates.box(rule)
        statistics = self.statistics.on(box)
        if self.rows is None:
            # rounded up to bins
            box = statistics.box
        # a constant and whole pairs
        n_functions = n_functions + 1 - n_functions % 2
        functions = rule.index(box, n_functions)
        reach = functions.reach()
        is_same_box = np.array_equal(box.period, statistics.box.period)
        has_sums = is_same_box and np.all(reach <= statistics.reach())
        if self.rows is not None and not has_sums:
            statistics = self.sums_for(box, reach)
        is_within = np.abs(functions.waves) <= statistics.reach()
        with_sums = np.flatnonzero(np.all(is_within, axis=1))
        functions = functions.part(with_sums)
        sums = self.normal_equations(statistics, functions)
        return FourierPrior(rule, noise_variance, box, functions, sums)

    def powers(self, prior: FourierPrior) -> Array:
        """Mean squares (m,) of what rows see of each function; one of values."""
        if not self.candidates.sees_functionals:
            return np.ones(len(prior.functions))
        return self.statistics.powers(prior.functions, prior.box)

    def spectrum(
        self,
        prior: FourierPrior,
        rule: EigenvalueRule | None = None,
    ) -> Spectrum:
        """Spectrum of a rule on the functions of a prior, by default of its own.

        Of the functions beyond, rows see as much as of the last quarter of the list.
        """
        spectrum = (rule or prior.rule).spectrum(prior.functions, prior.box)
        powers = self.powers(prior)
        power = float(np.mean(powers[3 * len(powers) // 4 :]))
        return spectrum._replace(
            tail=spectrum.tail * power,
            tail_slopes=spectrum.tail_slopes * power,
        )

    def normal_equations(
        self,
        statistics: SeriesStatistics,
        functions: FourierIndex,
    ) -> tuple[WeightStatistics, ...]:
        """Sums over the rows for functions, of each section, in the unit of y."""
        parts = [section.on(statistics.box) for section in self.sections]
        return tuple(
            part.normal_equations(functions, self.scale)
            for part in parts or (statistics,)
        )

    def sums_for(self, box: Box, reach: Integers) -> SeriesStatistics:
        """Sums over the rows, which must be at hand, for another box."""
        assert self.rows is not None
        return row_sums(
            self.rows,
            self.candidates.region.domain,
            box,
            reach,
            n_jobs=None,
            shift=self.statistics.shift,
        )

    # ---- Evidence --------------------------------------------------------------------

    def evidence(
        self,
        prior: FourierPrior,
        rule: EigenvalueRule,
        noise_variance: float,
    ) -> tuple[float, Array]:
        """Log evidence of a rule with the functions of a prior.

        For the default kernels, and a kernel of several inputs, the functions outside
        of the basis are white noise in it, as they are at rows farther apart than their
        waves. Otherwise it is the collapsed bound.

        Returns
        -------
        value : float
            In nats.
        gradient : ndarray of shape (1 + p,)
            In ``log σ²`` and theta.
        """
        spectrum = self.spectrum(prior, rule)
        if not self.candidates.tail_is_noise:
            return self.regression_evidence(prior, spectrum, noise_variance)
        # total noise variance σ² + tail
        tail = spectrum.tail
        tail_slopes = spectrum.tail_slopes
        spectrum = spectrum._replace(tail=0.0, tail_slopes=0.0 * tail_slopes)
        total = noise_variance + tail
        value, gradient = self.regression_evidence(prior, spectrum, total)
        # σ² is the total less a tail that moves with theta
        slope = gradient[0] / total
        moves = np.append(-tail, tail_slopes)
        return value, gradient + slope * moves

    def regression_evidence(
        self,
        prior: FourierPrior,
        spectrum: Spectrum,
        noise_variance: float,
    ) -> tuple[float, Array]:
        """Collapsed bound of a spectrum on the functions of a prior, and gradient.

        Those of independent sections add up.
        """
        value = 0.0
        gradient = np.zeros(1 + len(spectrum.tail_slopes))
        for sums in prior.sums:
            section_value, slopes = series_evidence(sums, spectrum, noise_variance)
            value += section_value
            gradient += slopes
        return value, gradient

    def score(self, prior: FourierPrior) -> FourierPrior:
        """The prior with its bound and its score."""
        bound, _ = self.evidence(prior, prior.rule, prior.noise_variance)
        log_noise = np.log(prior.noise_variance)
        point = np.append(log_noise, prior.rule.theta)
        log_hyperprior, _ = self.candidates.log_hyperprior(point)
        return prior._replace(bound=bound, score=bound + log_hyperprior)

    def noise_only_prior(self, rule: BoostedEigenvalues) -> FourierPrior:
        """Noise around a function that is zero, except for its level."""
        candidates = self.candidates
        zero = rule.around(shrink(rule.rule, 1e-8 * candidates.variance))
        noise_variance = candidates.noise_variance or candidates.variance
        prior = self.build_prior(zero, noise_variance, 1)
        bound, _ = self.evidence(prior, prior.rule, noise_variance)
        return prior._replace(bound=bound, only_noise=True)

    # ---- Noise -----------------------------------------------------------------------

    def log_noise_bounds(self) -> Array:
        """Interval of ``log σ²`` in a search."""
        bounds = noise_bounds(self.candidates.variance, 1.0)
        return np.log(np.clip(bounds, *self.candidates.noise_range))

    def noise_of_targets(
        self,
        prior: FourierPrior,
        has_grown: bool = False,
    ) -> float | Array:
        """Noise variance of each target given the prior.

        A free noise has its own evidence and the hyperprior of the search; that of one
        target is the noise of the search, unless the prior has more functions.
        """
        moments = prior.sums[0].moment
        is_that_of_search = moments.ndim == 1 and not has_grown
        if is_that_of_search or not self.candidates.noise_is_free:
            return prior.noise_variance + np.zeros(moments.shape[1:])
        spectrum = self.spectrum(prior)
        residual = self.weight * spectrum.tail
        statistics = whitened(prior.sums[0], spectrum.eigenvalues, residual)
        low, high = self.log_noise_bounds()
        hyperprior = self.candidates.noise_hyperprior()
        noises = TargetRegressions(statistics).best_noise(
            low,
            high,
            hyperprior.log_density,
            white=spectrum.tail if self.candidates.tail_is_noise else 0.0,
        )
        return noises.reshape(moments.shape[1:])[()]

    def data_precision(
        self,
        prior: FourierPrior,
        eigenvalues: Array,
        noise_variance: float,
    ) -> Array:
        """Precision ``s = n λ V / (U σ²)`` that the rows add to a function.

        Data of density n / U on a part U of a box of volume V determine a function with
        the eigenvalue λ as well as nV/U rows all over the box would: its variance
        becomes ``λ / (1 + s)`` instead of λ.
        """
        region = self.candidates.region
        filled = np.maximum(widths(region.seen), 0.1 * widths(region.domain))
        volume_ratio = float(np.prod(prior.box.period / filled))
        density = self.weight * volume_ratio
        return density / noise_variance * eigenvalues

    # ---- Climbs ----------------------------------------------------------------------

    def maximise(
        self,
        start: FourierPrior,
        n_functions: int,
        least_score: float = -np.inf,
    ) -> FourierPrior:
        """Largest score from a start, on a box that suits it, unless waves are boosted.

        A climb that ends below `least_score` is not repeated on another box, which is
        worth less than a nat.
        """
        candidates = self.candidates
        can_move = candidates.learned
        can_move = can_move and (candidates.n_inputs == 1 or self.rows is not None)
        prior = start
        has_sums = bool(start.sums) and len(start.functions) == n_functions
        for _ in range(3):
            if not has_sums:
                prior = self.build_prior(
                    prior.rule,
                    prior.noise_variance,
                    n_functions,
                    prior.box,
                )
            prior = self.climb(prior)._replace(family=start.family)
            box = candidates.box(prior.rule)
            ratio = box.period / prior.box.period
            fits = np.all((ratio > 0.5) & (ratio < 1.5))
            if fits or prior.score < least_score or len(prior.waves) or not can_move:
                break
            prior = prior._replace(box=box)
            has_sums = False
        return prior

    def climb(self, start: FourierPrior) -> FourierPrior:
        """Largest score from a start, with its functions."""
        candidates = self.candidates
        noise_variance = candidates.noise_variance or start.noise_variance
        initial = np.append(np.log(noise_variance), start.rule.theta)
        free = np.full(len(initial), candidates.learned)
        free[0] = candidates.noise_variance is None
        if not free.any():
            noise_variance = float(np.exp(initial[0]))
            return self.score(start._replace(noise_variance=noise_variance))

        # the rows know the noise better than all else: a step in it is worth more
        unit = np.ones(len(initial))
        unit[0] += np.sqrt(self.weight / len(start.functions))
        kernel = innermost_kernel(start.rule)
        if kernel is None:
            # of the scale of a series prior
            theta_bounds = np.log([(1e-8, 1e8)])
        else:
            theta_bounds = kernel.bounds.reshape(-1, 2)
        bounds = np.vstack((self.log_noise_bounds(), theta_bounds))
        bounds = bounds * unit[:, np.newaxis]
        low, high = bounds[free].T

        def point_at(values: Array) -> Array:
            point = initial.copy()
            point[free] = values / unit[free]
            return point

        def rule_at(point: Array) -> BoostedEigenvalues:
            if not candidates.learned:
                return start.rule
            return start.rule.with_theta(point[1:])

        def loss(values: Array) -> tuple[float, Array]:
            point = point_at(values)
            noise_variance = float(np.exp(point[0]))
            value, gradient = self.evidence(start, rule_at(point), noise_variance)
            log_hyperprior, slopes = candidates.log_hyperprior(point)
            score_slopes = (gradient + slopes) / unit
            return -(value + log_hyperprior), -score_slopes[free]

        scaled = initial * unit
        result = optimize.minimize(
            loss,
            np.clip(scaled[free], low, high),
            jac=True,
            method="L-BFGS-B",
            bounds=bounds[free],
            # a thousandth of a nat
            options={"maxiter": 100, "ftol": 1e-3 / max(1.0, self.weight)},
        )
        point = point_at(result.x)
        score = -float(result.fun)
        log_hyperprior, _ = candidates.log_hyperprior(point)
        return start._replace(
            rule=rule_at(point),
            noise_variance=float(np.exp(point[0])),
            bound=score - log_hyperprior,
            score=score,
        )


def in_sections(objective: Objective) -> Objective | None:
    """The objective on sections of one input, None where it has too few rows for two.

    They are as short as rows and bins allow, such that the functions of a search
    resolve in them whatever the rows do, and lie all over the series.
    """
    candidates = objective.candidates
    statistics = objective.statistics
    moments = statistics.sums
    assert isinstance(moments, BinMoments)
    n_rows = moments.values[:, 0, 0]
    first_bin, last_bin = np.flatnonzero(n_rows)[[0, -1]]
    rows_per_bin = statistics.weight / (1 + last_bin - first_bin)
    n_bins = len(n_rows)
    while n_bins >= 2 * _SECTION_BINS and n_bins * rows_per_bin >= 2 * _SECTION_ROWS:
        n_bins //= 2
    section_rows = n_rows.reshape(-1, n_bins).sum(axis=1)
    full = np.flatnonzero(section_rows >= 0.5 * section_rows.max())
    if len(full) < 2:
        return None
    places = np.linspace(0, len(full) - 1, min(len(full), _MAX_SECTIONS))
    sections = tuple(
        statistics.section(int(k) * n_bins, n_bins)
        for k in full[np.round(places).astype(int)]
    )
    box = sections[0].box
    interval = np.stack((box.origin, box.origin + box.period), axis=1)
    rules = candidates.rules
    if candidates.is_default:
        rules = families(None, interval, sections[0].weight)
    region = Region(domain=interval, core=interval, seen=interval)
    return Objective(
        replace(candidates, region=region, rules=rules),
        sections[0],
        objective.scale,
        sections=sections,
    )


def standardise(
    statistics: Any,
    parameters: Parameters,
) -> tuple[Any, float | Array]:
    """Centre y, and scale it unless it is constant; functionals are in these units.

    Returns
    -------
    statistics : SeriesStatistics
        Sums of the centred y.
    scale : float or ndarray of shape (t,)
        Unit of y; one for all targets if their noise variance is fixed.
    """
    if isinstance(statistics, FunctionalSums):
        return statistics, statistics.scale
    scale = np.ones_like(statistics.square)
    if not parameters["normalize_y"]:
        return statistics.moved(0.0), scale[()]
    weight = statistics.weight
    rounding = 1e-24 * statistics.square * weight
    if np.any(statistics.total**2 > rounding):
        mean = statistics.shift + statistics.total / weight
        statistics = statistics.moved(mean)
    square = np.maximum(statistics.square, 0.0)
    std = np.sqrt(square / weight)
    varies = std > 1e-14 * np.abs(statistics.shift)
    scale = np.where(varies, std, 1.0)
    if parameters["noise_variance"] is not None:
        common_scale = np.sqrt(np.mean(scale**2))
        scale = np.full_like(scale, common_scale)
    return statistics, scale[()]


def objective_for(
    statistics: SeriesStatistics | FunctionalSums,
    parameters: Parameters,
    region: Region,
    rows: Rows | None = None,
) -> Objective:
    """Objective of a search, for the parameters of an estimator.

    Parameters
    ----------
    statistics : SeriesStatistics or FunctionalSums
        Sums over rows, read by every candidate and every start.
    parameters : Parameters
    region : Region
    rows : Rows, optional
        With several inputs, the rows of the sums.
    """
    statistics, scale = standardise(statistics, parameters)
    candidates = candidates_for(parameters, region, statistics, scale)
    return Objective(candidates, statistics, scale, rows)


# ---- Sums over rows, from which a fit on Fourier functions follows -------------------


# Rows in one sum: fixed, so that sums do not depend on the number of workers.
_CHUNK = 1 << 18


def row_sums(
    rows: Rows,
    domain: Array,
    box: Box,
    reach: Integers,
    n_jobs: int | None,
    shift: float | Array | None = None,
) -> SeriesStatistics:
    """Sums over rows, in chunks that do not depend on the number of workers.

    Parameters
    ----------
    rows : Rows
    domain : ndarray of shape (d, 2)
    box : Box
        With one input, sums for boxes of any other period follow from these.
    reach : ndarray of shape (d,)
        Largest wave numbers; with one input, of waves with the domain as their period.
    n_jobs : int or None
    shift : float or ndarray of shape (t,), optional
        Subtracted from y; None is the mean, so that an offset costs no digits.

    Raises
    ------
    ValueError
        If a row is outside the domain.
    """
    if shift is None:
        shift = rows.weights @ rows.y / rows.weights.sum()
    n_rows = len(rows.y)
    if n_rows <= _CHUNK:
        return _chunk_sums(domain, box, reach, shift, rows)
    sums = parallel_stream(
        _chunk_sums,
        ((rows.take(chunk),) for chunk in row_slices(n_rows, _CHUNK)),
        n_jobs,
        domain,
        box,
        reach,
        shift,
    )
    return reduce(operator.add, sums)


def check_within(X: Array, domain: Array) -> None:
    """Refuse inputs (n, d) outside of a domain (d, 2)."""
    low, high = input_range(X).T
    outside = (low < domain[:, 0]) | (high > domain[:, 1])
    if np.any(outside):
        j = int(np.argmax(outside))
        raise ValueError(
            f"Inputs, and boxes around them, must lie within the domain "
            f"{domain.tolist()}; got column {j} between {low[j]:g} and {high[j]:g}. "
            "Give a `domain` that covers all rows to come before the first ones are "
            "added."
        )


def _chunk_sums(
    domain: Array,
    box: Box,
    reach: Integers,
    shift: float | Array,
    rows: Rows,
) -> SeriesStatistics:
    X = rows.X
    check_within(X, domain)
    if len(reach) > 1:
        return direct_statistics(X, rows.y, rows.precisions, box, shift, reach)
    # products of two functions reach twice as far
    bins = n_bins(2 * int(reach[0]))
    sums = sketched_statistics(
        X,
        rows.y,
        rows.precisions,
        domain_box(domain),
        shift,
        bins,
    )
    return sums.on(box)
