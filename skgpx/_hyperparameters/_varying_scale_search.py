"""A location and a scale that varies around it: two searches that alternate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from skgpx._hyperparameters._candidates import Candidate
from skgpx._hyperparameters._fixed_point import (
    SETTLED_IN_SEARCH,
    LatentMoments,
    NoisyValues,
    Sites,
    fixed_point,
)
from skgpx._hyperparameters._maximise import State
from skgpx._hyperparameters._neighborhoods import NearestOthers
from skgpx._hyperparameters._select import (
    Split,
    search_on,
    select,
    subset,
)
from skgpx._hyperparameters._sparse import MIN_GAIN
from skgpx._hyperparameters._working_responses import (
    normal_regression,
    scales_given_others,
)
from skgpx._row_budgets import (
    PREDECESSOR_ROWS,
    RESPONSE_ROWS,
    SCALE_ROWS,
    SCORED_ROWS,
)
from skgpx._shell.validation import Rows
from skgpx._types import Array, Generator, Index, Kernel
from skgpx.kernels import rescaled
from skgpx.likelihoods import Likelihood

Families = Sequence[Sequence[Candidate]]

# Searches for both functions after the first one, and those for the scale in each.
_MAX_ROUNDS = 4
_SCALE_ROUNDS = 2
# Equal errors that count for the scale, at most.
_MOST_EQUAL_ERRORS = 1000.0
# Least squared scale of a row: rows that agree exactly have no noise that can be seen.
_LEAST_SQUARED_SCALE = 1e-6


class ScaleSearch(NamedTuple):
    """Where the search for the kernel of the log scale ended.

    Attributes
    ----------
    result : State
    likelihood : ScaleOfErrors
        With its typical scale.
    log_density : float
        Of rows given their nearest others, in nats an observation.
    """

    result: State
    likelihood: Any
    log_density: float


def varying_scale_search(
    location_families: Families,
    scale_families: Families,
    split: Split,
    likelihood: Likelihood,
    rng: Generator,
    *,
    trend: bool,
    n_jobs: int | None,
    report: Callable[..., bool] | None = None,
) -> State:
    """Kernels of a location and of the logarithm of its scale.

    Two regressions alternate [1]_. Given what is known of the scale of every row, the
    location has normal noise, and given its value and variance v at the nearest *other*
    rows the error e of a row says what its scale is::

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
        Whether the location of several columns may have a linear trend. In one column
        seasons would compete as well, whose nearest rows are not near.
    n_jobs : int or None
    report : callable, optional
        Called with the density after each round; True ends them.

    Returns
    -------
    state : State
        Kernel of the location; its likelihood has the scales, and the kernel of the log
        scale. The exact noise is the harmonic mean of the variances of the noise, in
        units of the location.

    References
    ----------
    .. [1] Kersting, Plagemann, Pfaff and Burgard, "Most likely heteroscedastic Gaussian
       process regression", ICML 2007.
    """
    rows = subset(split.rows, split.order[:RESPONSE_ROWS])
    n = len(rows.y)
    chosen = np.sort(rng.permutation(n)[:SCALE_ROWS])
    scored = np.sort(rng.permutation(len(chosen))[:SCORED_ROWS])
    y = likelihood.initial_latent(rows.y)[:, 0]
    location_rows = rows._replace(y=y, known=None)
    # 1 the location, under noise of one scale, in which outliers have more
    scale: Any = likelihood.of_scale(amplitude_is_free=True)
    noise = noise_of_one_scale(location_rows, scale)
    values = NoisyValues(y[:, np.newaxis], noise[:, np.newaxis])
    scale_is_free = "scale" in likelihood.free_
    first_split, normal = normal_regression(
        location_rows,
        values,
        split,
        rng,
        scale_is_free,
        rows.weights,
    )
    location_result = select(
        location_families,
        first_split,
        normal,
        n_jobs,
        trend and rows.X.shape[1] > 1,
        trained=False,
    )
    ratio = float(location_result.likelihood.variance(0.0) / normal.variance(0.0))
    theta = scale.theta + 0.5 * np.log(ratio)
    scale = scale.with_theta(np.clip(theta, *scale.theta_bounds.T))
    errors = _errors(location_rows, location_result.kernel, ratio * noise)
    # 2 the scale, and both of them in turn while that gains
    part = errors.take(chosen)
    search = _best_scale(scale_families, part, scale, scored, split, rng)
    for _ in range(_MAX_ROUNDS):
        # the location, with the noise that follows
        given_others, _ = scale_given_others(
            errors,
            search.result.kernel,
            search.likelihood,
        )
        noise = location_noise(errors, search.likelihood, given_others)
        values = NoisyValues(y[:, np.newaxis], noise[:, np.newaxis])
        round_split, normal = normal_regression(
            location_rows,
            values,
            split,
            rng,
            weights=rows.weights,
        )
        next_result = search_on(location_result, round_split, normal)
        errors = _errors(location_rows, next_result.kernel, noise)
        # the scale
        next_search = _search_scale(
            search.result,
            errors.take(chosen),
            search.likelihood,
            scored,
            split,
            rng,
        )
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
    typical_noise = 1.0 / float(np.mean(1.0 / noise))
    return location_result._replace(likelihood=likelihood, exact_noise=typical_noise)


def _errors(rows: Rows, kernel: Kernel, noise: Array) -> Rows:
    """Errors of the location of each row given the nearest others, and its variance."""
    nearest = NearestOthers.of(rows.X, kernel, PREDECESSOR_ROWS)
    values = NoisyValues(rows.y[:, np.newaxis], noise[:, np.newaxis])
    mean, variance = _given_others(rows, nearest, kernel, values)
    return rows._replace(
        y=rows.y - mean[:, 0],
        weights=counted_errors(rows.weights),
        known=variance[:, 0],
    )


def counted_errors(weights: Array) -> Array:
    """Errors that a row stands for, for the scale, (n,): repetitions, but not all.

    Thousands of equal errors would make the log scale of the row certain, and with it,
    under a smooth kernel, that of rows nearby, whatever their errors are.
    """
    return np.minimum(weights, _MOST_EQUAL_ERRORS)


def _given_others(
    rows: Rows,
    nearest: NearestOthers,
    kernel: Kernel,
    values: NoisyValues,
) -> LatentMoments:
    """A function at each row given all observations but one of the row itself."""
    weights = rows.weights[:, np.newaxis]
    without_row = LatentMoments(
        *nearest.predict(kernel, values.y, values.noise / weights)
    )
    return without_row.given(values, np.maximum(weights - 1.0, 0.0))


def noise_of_one_scale(rows: Rows, scale: Any) -> Array:
    """Variance of the noise of each row, for the location, of one scale, (n,).

    That of the scale; larger for outliers beyond a location of variance one.
    """
    n = len(rows.y)
    at_base = LatentMoments(np.zeros((n, 1)), np.zeros((n, 1)))
    return location_noise(rows._replace(known=np.ones(n)), scale, at_base)


def location_noise(errors: Rows, scale: Any, given_others: LatentMoments) -> Array:
    """Variance of the noise of each row, for the location, (n,)."""
    return evidence_of(errors, scale, given_others).location_noise


def evidence_of(errors: Rows, scale: Any, given_others: LatentMoments) -> Any:
    """What each error says of the location and of the log scale."""
    evidence = scale.evidence_of(
        errors.y,
        errors.known,
        given_others.mean[:, 0],
        given_others.variance[:, 0],
        errors.weights,
    )
    least_noise = np.maximum(evidence.location_noise, _LEAST_SQUARED_SCALE)
    return evidence._replace(location_noise=least_noise)


def scale_given_others(
    errors: Rows,
    kernel: Kernel,
    scale: Any,
) -> tuple[LatentMoments, NoisyValues]:
    """Log scale of each row given the errors of the nearest others.

    Parallel expectation propagation, with every row predicted from its nearest others.

    Returns
    -------
    given_others : LatentMoments
    observations : NoisyValues
        Normal observations that stand for the errors.
    """
    nearest = NearestOthers.of(errors.X, kernel, PREDECESSOR_ROWS)

    def regress(sites: Sites) -> LatentMoments:
        return _given_others(errors, nearest, kernel, sites.values)

    def respond(given_others: LatentMoments, sites: Sites) -> Sites:
        evidence = evidence_of(errors, scale, given_others)
        values = NoisyValues(
            evidence.value[:, np.newaxis],
            evidence.value_noise[:, np.newaxis],
        )
        return sites.moved(given_others, values)

    prior = LatentMoments.of_prior(kernel, errors, 1)
    first = respond(prior, Sites.nothing(prior))
    result = fixed_point(first, regress, respond, settled=SETTLED_IN_SEARCH)
    return result.regression, result.sites.values


def _best_scale(
    families: Families,
    errors: Rows,
    likelihood: Any,
    scored: Index,
    split: Split,
    rng: Generator,
) -> ScaleSearch:
    """The family under which rows are most probable given their nearest others.

    Of one lengthscale a column. Errors say little of each scale: a smooth log scale
    that is taken for a rough one, or the other way round, is seen in this density.
    """
    searches = []
    for family in families:
        candidate = family[-1]
        kernel = candidate.kernel_at(candidate.starts()[0])
        # the typical scale, and observations, under the prior
        of_family = likelihood
        given_others = LatentMoments.of_prior(kernel, errors, 1)
        for _ in range(_SCALE_ROUNDS):
            of_family, _ = scales_given_others(errors, of_family, given_others, scored)
            given_others, observations = scale_given_others(errors, kernel, of_family)
        first_split, normal = normal_regression(
            errors,
            observations,
            split,
            rng,
            weights=errors.weights,
        )
        result = select([[candidate]], first_split, normal, trend=False, trained=False)
        searches.append(_search_scale(result, errors, of_family, scored, split, rng))
    return max(searches, key=lambda search: search.log_density)


def _search_scale(
    start: State,
    errors: Rows,
    likelihood: Any,
    scored: Index,
    split: Split,
    rng: Generator,
) -> ScaleSearch:
    """Kernel of the log scale and the typical scale, given errors."""
    result = start
    for _ in range(_SCALE_ROUNDS):
        given_others, observations = scale_given_others(
            errors,
            result.kernel,
            likelihood,
        )
        likelihood, _ = scales_given_others(errors, likelihood, given_others, scored)
        round_split, normal = normal_regression(
            errors,
            observations,
            split,
            rng,
            weights=errors.weights,
        )
        result = search_on(result, round_split, normal)
    given_others, _ = scale_given_others(errors, result.kernel, likelihood)
    likelihood, density = scales_given_others(errors, likelihood, given_others, scored)
    return ScaleSearch(result, likelihood, density)
