"""The prior of a fit on Fourier functions, from sums over rows: the whole search."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from skgpx._hyperparameters import MIN_GAIN
from skgpx._spectral_vgp._boosting import boost_waves
from skgpx._spectral_vgp._candidates import FourierPrior, kernel_of
from skgpx._spectral_vgp._score import Objective, in_sections
from skgpx._types import Array

# Largest number of functions in a search, and in a basis.
MAX_SEARCHED_FUNCTIONS = 501
MAX_FUNCTIONS = 1501
# Nats that a rougher family must gain.
_MIN_FAMILY_GAIN = 1.0
# Share of the posterior variance that functions outside of the basis may add.
_MAX_INFLATION = 0.02


def search(
    objective: Objective,
    start: FourierPrior | None = None,
    report: Callable[[FourierPrior], bool] = lambda _: False,
) -> FourierPrior:
    """Choose the rule, its parameters, the noise and the functions.

    Parameters
    ----------
    objective : Objective
    start : FourierPrior, optional
        Chosen by some of the rows: its box, waves and family are kept.
    report : callable
        Called with the prior of each round; True stops the search.
    """
    candidates = objective.candidates
    if start is not None and candidates.sees_functionals:
        return finalize(objective, start)
    if start is not None:
        prior = objective.maximise(start, candidates.n_functions)
    else:
        prior = initial_prior(objective)
        if candidates.boosts_waves:
            prior = boost_waves(objective, prior)
    prior, stop = refine(objective, prior, report, tries_families=start is None)
    if not stop and start is None and is_cut_short(objective, prior):
        prior = search_in_sections(objective, prior)
    return finalize(objective, prior)


def refine(
    objective: Objective,
    prior: FourierPrior,
    report: Callable[[FourierPrior], bool],
    tries_families: bool,
) -> tuple[FourierPrior, bool]:
    """Rougher families and more functions while they gain; whether to stop there."""
    stop = report(prior)
    while not stop and not prior.only_noise:
        better = None
        if tries_families:
            better = try_rougher_family(objective, prior)
        if better is None:
            better = try_more_functions(objective, prior)
        if better is None:
            break
        prior = better
        stop = report(prior)
    return prior, stop


def is_cut_short(objective: Objective, prior: FourierPrior) -> bool:
    """Whether rows of one input may know more functions than a search can have."""
    candidates = objective.candidates
    is_free = candidates.grows and candidates.learned
    is_free = is_free and not candidates.sees_functionals
    is_stationary = kernel_of(prior.rule) is not None and not len(prior.waves)
    if not (candidates.n_inputs == 1 and is_free and is_stationary):
        return False
    # the long waves of a long rough series look like noise
    if prior.only_noise:
        return True
    functions = prior.rule.index(prior.box, MAX_SEARCHED_FUNCTIONS)
    last = prior.rule.spectrum(functions, prior.box).eigenvalues[-1]
    return bool(objective.weight * last >= prior.noise_variance)


def search_in_sections(objective: Objective, prior: FourierPrior) -> FourierPrior:
    """The prior with the kernel and the noise that sections of the series choose."""
    sections = in_sections(objective)
    if sections is None:
        return prior
    prior_of_sections, _ = refine(
        sections,
        initial_prior(sections),
        lambda _: False,
        tries_families=True,
    )
    if prior_of_sections.only_noise:
        return prior
    prior_of_series = objective.build_prior(
        prior_of_sections.rule,
        prior_of_sections.noise_variance,
        MAX_SEARCHED_FUNCTIONS,
    )
    return objective.score(prior_of_series._replace(family=prior_of_sections.family))


def initial_prior(objective: Objective) -> FourierPrior:
    """The smoothest candidate, from several starts, the most promising first."""
    candidates = objective.candidates
    rule = candidates.boost(candidates.rules[0])
    noise_only = objective.noise_only_prior(rule)
    starts = []
    for start_rule, noise_variance in candidates.starts(rule):
        start = objective.build_prior(
            start_rule,
            noise_variance,
            candidates.n_functions,
        )
        starts.append(objective.score(start))
    starts.sort(key=lambda start: -start.score)

    maxima: list[FourierPrior] = []
    for start in starts:
        maximum = objective.maximise(start, candidates.n_functions)
        maxima.append(maximum)
        noise_share = maximum.noise_variance / candidates.variance
        if noise_share < 0.9 and maximum.bound > noise_only.bound:
            break
    best = max(maxima, key=lambda prior: prior.score)
    if best.bound > noise_only.bound:
        return best
    states_priors = any(prior is not None for prior in candidates.stated)
    if candidates.learned and not states_priors:
        return noise_only
    return best._replace(only_noise=candidates.noise_variance is None)


def try_rougher_family(
    objective: Objective, prior: FourierPrior
) -> FourierPrior | None:
    """The next family from where this one ended, if it is better by a nat."""
    candidates = objective.candidates
    start = candidates.next_family(prior)
    if start is None:
        return None
    n_functions = len(prior.functions)
    if start.family > 1 and candidates.grows:
        # roughness shows in short waves
        wider = start.family * (candidates.n_functions - 1) + 1
        n_functions = max(n_functions, min(wider, MAX_SEARCHED_FUNCTIONS))
    rougher = objective.maximise(start, n_functions, least_score=prior.score)
    if rougher.score > prior.score + _MIN_FAMILY_GAIN:
        return rougher
    return None


def try_more_functions(
    objective: Objective, prior: FourierPrior
) -> FourierPrior | None:
    """Twice as many functions, if they gain enough."""
    n_functions = len(prior.functions)
    if not objective.candidates.grows or n_functions >= MAX_SEARCHED_FUNCTIONS:
        return None
    # what the tail costs the bound, n tail / (2 σ²)
    spectrum = objective.spectrum(prior)
    cost = 0.5 * objective.weight * spectrum.tail / prior.noise_variance
    if cost < MIN_GAIN:
        return None
    doubled = min(2 * n_functions - 1, MAX_SEARCHED_FUNCTIONS)
    larger = objective.maximise(prior, doubled)
    has_grown = len(larger.functions) > n_functions
    least_gain = MIN_GAIN * objective.weight
    if has_grown and larger.score > prior.score + least_gain:
        return larger
    return None


def finalize(objective: Objective, prior: FourierPrior) -> FourierPrior:
    """The prior with as many functions as the posterior needs, on its own box."""
    candidates = objective.candidates
    box = prior.box
    if not len(prior.waves):
        box = candidates.box(prior.rule)
    n_functions = candidates.n_functions
    if candidates.grows:
        # as many functions as the target of the least noise needs
        least_noise = float(np.min(objective.noise_of_targets(prior)))
        n_functions = n_functions_needed(
            objective,
            prior._replace(box=box, noise_variance=least_noise),
        )
    final = objective.build_prior(
        prior.rule,
        prior.noise_variance,
        n_functions,
        box,
    )
    # sums of one input are resolved as finely as the search of the default kernels,
    # but for what the largest basis cannot follow, which is noise to it
    is_resolved = candidates.is_default and candidates.n_inputs == 1
    is_resolved = is_resolved and len(final.functions) < MAX_FUNCTIONS
    has_grown = len(final.functions) > len(prior.functions)
    return final._replace(
        noise_variance=objective.noise_of_targets(final, has_grown and not is_resolved),
        family=prior.family,
        only_noise=prior.only_noise,
    )


def n_functions_needed(objective: Objective, prior: FourierPrior) -> int:
    """Number of functions beyond which the posterior changes by a few per cent.

    Notes
    -----
    With the precision s_j of :meth:`Objective.data_precision` the first m functions
    suffice where ``Σ_{j>m} λ_j s_j / (1 + s_j)`` is at most 2 % of ``Σ λ_j / (1 +
    s_j)`` and the tail costs the bound at most 0.01 nats an observation. Those up to
    the elbow ``n λ_j >= σ²`` are always in.
    """
    noise_variance = prior.noise_variance
    functions = prior.rule.index(prior.box, MAX_FUNCTIONS)
    prior = prior._replace(functions=functions)
    eigenvalues, _, tail, _ = objective.spectrum(prior)
    # what the rows see of each function
    seen = eigenvalues * objective.powers(prior)
    # λ_j / (1 + s_j), and λ_j s_j / (1 + s_j)
    precision = objective.data_precision(prior, seen, noise_variance)
    posterior_variance = eigenvalues / (1.0 + precision)
    inflation = eigenvalues - posterior_variance
    # the data reduce the variance beyond the list by no larger factor than its last
    smallest = max(eigenvalues[-1], np.finfo(float).tiny)
    tail_inflation = tail * inflation[-1] / smallest
    inflation_beyond = _sums_beyond(inflation, tail_inflation)
    total_variance = posterior_variance.sum() + tail
    is_large = inflation_beyond > _MAX_INFLATION * total_variance
    for_variance = int(np.sum(is_large))
    # the cost of the tail for the bound, Σ_{j>m} λ_j / (2 σ²) an observation
    variance_beyond = _sums_beyond(seen, tail)
    is_costly = 0.5 * variance_beyond > MIN_GAIN * noise_variance
    for_bound = int(np.sum(is_costly))
    is_below_elbow = objective.weight * seen >= noise_variance
    elbow = int(np.sum(is_below_elbow))
    needed = max(for_variance, for_bound, elbow, prior.rule.n_boosted)
    odd = needed + 1 - needed % 2
    return min(odd, MAX_FUNCTIONS)


def _sums_beyond(values: Array, tail: float) -> Array:
    """``Σ_{j>m} values_j + tail`` for m = 0, 1, ..., shape (len(values) + 1,)."""
    from_last = np.append(tail, values[::-1])
    return np.cumsum(from_last)[::-1]
