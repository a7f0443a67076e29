"""A location and a scale that varies around it: two searches that alternate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process.kernels import Kernel

from skgpx._row_budgets import RESPONSE_ROWS, SCALE_ROWS, SCORED_ROWS
from skgpx._selection._candidates import Candidate
from skgpx._selection._maximise import SearchResult
from skgpx._selection._select import (
    SearchBudget,
    Split,
    search_on,
    select,
    subset,
)
from skgpx._selection._sparse import MIN_GAIN
from skgpx._selection._working_responses import (
    LatentMoments,
    bounded_responses,
    latent_moments,
    normal_regression,
    scales_given_others,
    working_responses,
)
from skgpx._validation import Rows
from skgpx.kernels import rescaled
from skgpx.likelihoods import Likelihood

Array = NDArray[np.float64]
Families = Sequence[Sequence[Candidate]]

# Searches for both functions after the first one, and those for the scale in each.
_MAX_ROUNDS = 4
_SCALE_ROUNDS = 2
# Least squared scale of a row: rows that agree exactly have no noise that can be seen.
_LEAST_SQUARED_SCALE = 1e-6


class ScaleSearch(NamedTuple):
    """Where the search for the kernel of the log scale ended.

    Attributes
    ----------
    result : SearchResult
    likelihood : ScaleOfErrors
        With its typical scale.
    log_density : float
        Of rows given their nearest others, in nats an observation.
    """

    result: SearchResult
    likelihood: Any
    log_density: float

    def moments_at(self, errors: Rows) -> LatentMoments:
        """Moments of the log scale at rows, in units of the variation."""
        moments, _ = latent_moments(errors, self.result.kernel, self.likelihood)
        return moments


def location_and_scale(
    location_families: Families,
    scale_families: Families,
    split: Split,
    likelihood: Likelihood,
    rng: np.random.Generator,
    *,
    trend: bool,
    n_jobs: int | None,
    report: Callable[..., bool] | None = None,
) -> tuple[SearchResult, float]:
    """Kernels of a location and of the logarithm of its scale, of many rows.

    Two regressions alternate [1]_. Given the scale of every row, the location has known
    relative noise. Given the location at the nearest *other* rows, of mean m and
    variance v, the error ``e = y - m`` of a row says what its scale is::

        p(e | s) = ∫ p(e - δ | s) N(δ | 0, v) dδ

    Errors of the location at the row itself would be too small: a location that passes
    through y leaves no noise. At most 40 000 rows are read, and of their errors 10 000.

    Parameters
    ----------
    location_families, scale_families : sequence of sequences of Candidate
    split : Split
    likelihood : Likelihood
        Prepared, with a scale that varies.
    rng : numpy.random.Generator
    trend : bool
        Whether the location may have a linear trend.
    n_jobs : int or None
    report : callable, optional
        Called with the density after each round; True ends them.

    Returns
    -------
    result : SearchResult
        Of the location; its likelihood has the scales, and the kernel of the log scale.
    noise_variance : float
        Harmonic mean of the squared scales, in units of the location.

    References
    ----------
    .. [1] Kersting, Plagemann, Pfaff and Burgard, "Most likely heteroscedastic Gaussian
       process regression", ICML 2007.
    """
    rows = subset(split.rows, split.order[:RESPONSE_ROWS])
    chosen = np.sort(rng.permutation(len(rows.y))[:SCALE_ROWS])
    scored = np.sort(rng.permutation(len(chosen))[:SCORED_ROWS])
    budget = SearchBudget(nearby=split.nearby)
    y = likelihood.initial_latent(rows.y)[:, 0]
    location_rows = rows._replace(y=y, known=None)
    # 1 the location, under noise of one scale
    location = likelihood.of_location(y, rows.weights)
    location_result = _search_location(
        location_families,
        Split.of(location_rows, budget, rng),
        location,
        rng,
        trend=trend,
        n_jobs=n_jobs,
    )
    location = location_result.likelihood
    scale = likelihood.of_scale(location, amplitude_is_free=True)
    # 2 the scale, and both of them in turn while that gains
    errors, location_moments = _errors(location_rows, location_result.kernel, location)
    part = errors.take(chosen)
    search = _best_scale(scale_families, part, scale, scored, split, rng)
    for _ in range(_MAX_ROUNDS):
        # the location, with the noise that follows
        scale = search.likelihood
        location = location.with_noise(scale.scale**2)
        squared_scale = squared_scales(search.moments_at(errors), scale)
        location_rows = location_rows._replace(known=squared_scale)
        responses = bounded_responses(location_rows, location, location_moments)
        round_split, normal = normal_regression(location_rows, responses, split, rng)
        next_result = search_on(location_result, round_split, normal)
        errors, location_moments = _errors(
            location_rows,
            next_result.kernel,
            location,
            location_moments,
        )
        # the scale
        part = errors.take(chosen)
        next_search = _search_scale(search.result, part, scale, scored, split, rng)
        if next_search.log_density - search.log_density < MIN_GAIN:
            break
        location_result = next_result
        search = next_search
        if report is not None and report(density=search.log_density):
            break
    # 3 the kernel of the log scale, in units of the variation
    kernel = search.result.kernel
    amplitude = 1.0
    if "variation" in likelihood.free_:
        variance = float(np.mean(kernel.diag(rows.X)))
        unit_kernel = rescaled(kernel, 1.0 / variance)
        if unit_kernel is not None:
            kernel = unit_kernel
            amplitude = float(np.sqrt(variance))
    likelihood = likelihood.with_scale_of(search.likelihood, kernel, amplitude)
    squared_scale = squared_scales(search.moments_at(errors), search.likelihood)
    noise = search.likelihood.scale**2 / float(np.mean(1.0 / squared_scale))
    return location_result._replace(likelihood=likelihood), noise


def _errors(
    rows: Rows,
    kernel: Kernel,
    location: Likelihood,
    start: LatentMoments | None = None,
) -> tuple[Rows, LatentMoments]:
    """Errors of the location at each row given the others, and its moments."""
    moments, given_others = latent_moments(rows, kernel, location, start)
    return errors_given_others(rows, given_others), moments


def errors_given_others(rows: Rows, given_others: LatentMoments) -> Rows:
    """Errors of the location of each row given others, and its variances."""
    return rows._replace(
        y=rows.y - given_others.mean[:, 0],
        known=given_others.variance[:, 0],
    )


def squared_scales(moments: LatentMoments, scale: Any) -> Array:
    """``1 / E exp(-2 variation s)`` of each row, (n,): the precision is averaged."""
    shift = 2.0 * scale.variation * moments.mean[:, 0]
    shift -= 2.0 * scale.variation**2 * moments.variance[:, 0]
    smallest = _LEAST_SQUARED_SCALE / scale.scale**2
    return np.maximum(np.exp(np.clip(shift, -50.0, 50.0)), smallest)


def _search_location(
    families: Families,
    split: Split,
    location: Likelihood,
    rng: np.random.Generator,
    *,
    trend: bool,
    n_jobs: int | None,
) -> SearchResult:
    """The location under noise of one scale."""
    if location.has_closed_form:
        return select(families, split, location, n_jobs, trend, trained=False)
    result, _ = working_responses(
        families,
        split,
        location,
        rng,
        start=None,
        trend=trend,
        n_jobs=n_jobs,
        report=None,
    )
    return result


def _best_scale(
    families: Families,
    errors: Rows,
    likelihood: Any,
    scored: NDArray[np.intp],
    split: Split,
    rng: np.random.Generator,
) -> ScaleSearch:
    """The family under which rows are most probable given their nearest others.

    Of one lengthscale a column. Errors say little of each scale: a smooth log scale
    that is taken for a rough one, or the other way round, is seen in this density.
    """
    searches = []
    for family in families:
        candidate = family[-1]
        kernel = candidate.kernel_at(candidate.starts()[0])
        # the typical scale, and responses, under the prior
        of_family = likelihood
        moments = LatentMoments.of_prior(kernel, errors, 1)
        given_others = moments
        for _ in range(_SCALE_ROUNDS):
            of_family, _ = scales_given_others(errors, of_family, given_others, scored)
            moments, given_others = latent_moments(errors, kernel, of_family, moments)
        responses = bounded_responses(errors, of_family, moments)
        first_split, normal = normal_regression(errors, responses, split, rng)
        result = select([[candidate]], first_split, normal, trend=False, trained=False)
        searches.append(_search_scale(result, errors, of_family, scored, split, rng))
    return max(searches, key=lambda search: search.log_density)


def _search_scale(
    start: SearchResult,
    errors: Rows,
    likelihood: Any,
    scored: NDArray[np.intp],
    split: Split,
    rng: np.random.Generator,
) -> ScaleSearch:
    """Kernel of the log scale and the typical scale, given errors."""
    result = start
    moments: LatentMoments | None = None
    for _ in range(_SCALE_ROUNDS):
        moments, given_others = latent_moments(
            errors,
            result.kernel,
            likelihood,
            moments,
        )
        likelihood, _ = scales_given_others(errors, likelihood, given_others, scored)
        responses = bounded_responses(errors, likelihood, moments)
        round_split, normal = normal_regression(errors, responses, split, rng)
        result = search_on(result, round_split, normal)
    _, given_others = latent_moments(errors, result.kernel, likelihood, moments)
    likelihood, density = scales_given_others(errors, likelihood, given_others, scored)
    return ScaleSearch(result, likelihood, density)
