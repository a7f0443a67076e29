"""Hyperparameters of few rows: averaged over their posterior, not chosen.

Few rows cannot tell one lengthscale, one noise or one family of kernels from another.
Draws from the prior of all candidates become states of the posterior.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process.kernels import Kernel

from skgpx._row_budgets import AVERAGED_ROWS
from skgpx._selection._annealing import (
    FEWEST_PARALLEL,
    Form,
    LogPosterior,
    Population,
    anneal,
    draws_from_priors,
    effective_size,
    forms_of,
    move,
    weighted_draws,
)
from skgpx._selection._candidates import Candidate, with_trend
from skgpx._selection._evidence import ExactEvidence
from skgpx._selection._maximise import SearchResult, best_of, maximise
from skgpx._selection._modes import (
    Mode,
    draws_near,
    in_order,
    modes_of,
    result_at,
    search_modes,
)
from skgpx._selection._process_evidence import suits_a_normal
from skgpx._selection._select import (
    Split,
    best_first,
    search_seasons,
    search_trend,
)
from skgpx.kernels import length_scale_entries
from skgpx.likelihoods import Likelihood

Array = NDArray[np.float64]

# Coordinates up to which a population of some hundreds knows their variances.
MOST_COORDINATES = 100
# Smallest noise of few rows, in the smallest one of many: on smooth functions without
# noise 1e-8 of the variance of y limits the accuracy.
_LEAST_NOISE = 1e-2

# Lags of a population, in standard deviations: rounds of steps follow while it is not
# small, and draws near the modes where it remains large. Two rounds in any case: of a
# function without noise the last power leaves the largest part of the way.
_SMALL_LAG = 0.5
_LARGE_LAG = 4.0
_FEWEST_ROUNDS = 2
_MOST_ROUNDS = 6
# Most draws near the modes, and the least effective size of them.
_MOST_DRAWS = 2000
_LEAST_SIZE = 4.0


class Effort(NamedTuple):
    """What is done for so many rows under a likelihood.

    Attributes
    ----------
    most_rows : int
        Rows up to which a population goes from the prior to the posterior.
    first_rows : int
        Rows of that population where there are more.
    n_chains, n_steps : int
        Chains, and Langevin steps of each at every power of the evidence.
    n_draws : int
        Draws near the modes of more rows.
    anneals_all : bool
        Whether a population of all rows is affordable where these draws fail.
    n_states : int
        States of the result, which keep matrices of the rows.
    """

    most_rows: int
    first_rows: int
    n_chains: int
    n_steps: int
    n_draws: int
    anneals_all: bool
    n_states: int

    @classmethod
    def of(
        cls,
        n_rows: int,
        candidates: Sequence[Candidate],
        likelihood: Likelihood,
    ) -> Effort:
        """What so many rows afford, and the candidates ask for.

        A step for each coordinate of the kernels, within limits.
        """
        n_coordinates = max(candidate.n_free for candidate in candidates)
        if not (likelihood.has_closed_form or suits_a_normal(likelihood)):
            # an evaluation takes ten times as long, and a state has chains of its own
            return cls(
                most_rows=75,
                first_rows=50,
                n_chains=16 if n_rows <= 75 else 8,
                n_steps=8,
                n_draws=min(max(30_000 // n_rows, 100), _MOST_DRAWS),
                anneals_all=True,
                n_states=12,
            )
        if not likelihood.has_closed_form:
            return cls(
                most_rows=75,
                first_rows=50,
                n_chains=32,
                n_steps=5,
                n_draws=min(max(45_000 // n_rows, 200), _MOST_DRAWS),
                anneals_all=True,
                n_states=max(min(64, 10_000 // n_rows), 24),
            )
        n_chains = min(max(150_000 // n_rows**2, 32), 128)
        n_steps = min(max(n_coordinates, 8), 16)
        if n_rows > 150:
            # draws near the modes need few steps, but many of them have a weight
            n_chains = 64
            n_steps = 4
        return cls(
            most_rows=150,
            first_rows=100,
            n_chains=n_chains,
            n_steps=n_steps,
            n_draws=min(max(60_000 // n_rows, 200), _MOST_DRAWS),
            anneals_all=n_rows <= AVERAGED_ROWS,
            n_states=max(min(96, 10_000 // n_rows), 24),
        )


class HyperparameterState(NamedTuple):
    """A state of kernel and likelihood, and its posterior probability.

    Attributes
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
    likelihood : Likelihood
    weight : float
        The weights of all states sum to one.
    name : str
        Of its candidate.
    """

    kernel: Kernel
    likelihood: Likelihood
    weight: float
    name: str = ""


def average(
    families: Sequence[Sequence[Candidate]],
    split: Split,
    likelihood: Likelihood,
    rng: np.random.Generator,
    *,
    trend: bool,
    n_jobs: int | None = None,
) -> tuple[SearchResult, list[HyperparameterState]]:
    """Draw states from the posterior of the hyperparameters of all candidates.

    Candidates have equal prior odds; their hyperpriors are normalised, so that a
    candidate of more parameters pays for them.

    Parameters
    ----------
    families : sequence of sequences of Candidate
    split : Split
        All rows are read, for O(n³) an evaluation.
    likelihood : Likelihood
        Prepared.
    rng : numpy.random.Generator
    trend : bool
        Whether trends and seasons compete, under Gaussian noise.
    n_jobs : int or None
        Searches and chains side by side, see :func:`skgpx._parallel.side_by_side`,
        unless rows are so few that threads would wait for each other.

    Returns
    -------
    result : SearchResult
        The largest mode.
    states : list of HyperparameterState
        Of the most probable candidate first, from the largest weight; equal ones are
        merged.
    """
    # 1 candidates, and draws from the prior of each
    rows = split.rows
    if len(rows.y) < FEWEST_PARALLEL:
        n_jobs = 1
    if likelihood.has_closed_form:
        likelihood = _with_least_noise(likelihood, families[0][0])
    candidates, trends = _competing(families, split, likelihood, trend)
    effort = Effort.of(len(rows.y), candidates, likelihood)
    has_all = len(rows.y) <= effort.most_rows
    first = rows.thinned(effort.first_rows)
    if has_all:
        first = rows
        candidates += trends
    forms = forms_of(candidates, first, likelihood)
    population = draws_from_priors(forms, effort.n_chains * effort.n_steps, rng)
    # 2 from there to the posterior
    population = anneal(population, effort.n_chains, effort.n_steps, rng, n_jobs)
    # 3 its modes, of all rows, that searches from there find
    searches = search_modes(population, candidates, rows, likelihood, n_jobs)
    result = best_of([result for searched in searches for result in searched])
    if trends and not has_all:
        linear = search_trend(result, rows)
        if linear.posterior > result.posterior:
            candidates.append(linear.candidate)
            searches.append([linear])
            result = linear
    forms = forms_of(candidates, rows, likelihood)
    modes = modes_of(searches, forms, n_jobs)
    # 4 draws near them, or more steps where particles are below them
    population = _settled(
        population if has_all else [],
        modes,
        forms,
        effort,
        rng,
        n_jobs,
        weighs=not likelihood.has_closed_form and suits_a_normal(likelihood),
    )
    if not population:
        # no draw has a density
        return result, [_state(result, weight=1.0)]
    # 5 some of the particles; equal ones count once, with their number as weight
    chosen = weighted_draws(population, effort.n_states, rng)
    return result, _merge(chosen)


def _settled(
    population: Population,
    modes: Sequence[Mode],
    forms: Sequence[Form],
    effort: Effort,
    rng: np.random.Generator,
    n_jobs: int | None,
    *,
    weighs: bool,
) -> Population:
    """The posterior, from a population of all rows, if there is one, and its modes.

    Draws near the modes that weigh enough need no steps, which is tried where
    evaluations are many times as expensive as under Gaussian noise.
    """
    if weighs:
        draws = draws_near(modes, forms, effort.n_draws, rng, n_jobs)
        if effective_size(draws) >= effort.n_states:
            return in_order(draws)
    if population:
        population = _caught_up(population, modes, effort, rng, n_jobs)
        if _lag(population, modes) <= _LARGE_LAG:
            return population
    return _near(modes, forms, effort, rng, n_jobs)


def _caught_up(
    population: Population,
    modes: Sequence[Mode],
    effort: Effort,
    rng: np.random.Generator,
    n_jobs: int | None,
) -> Population:
    """The population after more rounds of steps, while its lag asks for them."""
    for n_rounds in range(_MOST_ROUNDS):
        if n_rounds >= _FEWEST_ROUNDS and _lag(population, modes) <= _SMALL_LAG:
            break
        population = move(
            population,
            1.0,
            effort.n_chains,
            effort.n_steps,
            rng,
            n_jobs,
        )
    return population


def _near(
    modes: Sequence[Mode],
    forms: Sequence[Form],
    effort: Effort,
    rng: np.random.Generator,
    n_jobs: int | None,
) -> Population:
    """Draws near the modes after some steps.

    From the priors, if that is affordable, where hardly any of these has a weight:
    posteriors that end at bounds are not normal.
    """
    population = draws_near(modes, forms, effort.n_draws, rng, n_jobs)
    size = effective_size(population)
    if size < _LEAST_SIZE and effort.anneals_all:
        population = draws_from_priors(forms, effort.n_chains * effort.n_steps, rng)
        return anneal(population, effort.n_chains, effort.n_steps, rng, n_jobs)
    if size == 0.0:
        return []
    return move(population, 1.0, effort.n_chains, effort.n_steps, rng, n_jobs)


def _lag(population: Population, modes: Sequence[Mode]) -> float:
    """How far particles of the most probable candidate are below its mode.

    Draws from a normal distribution of q coordinates are q/2 ± √(q/2) nats below it;
    the lag is in units of that standard deviation, and infinite without particles.
    """
    largest = max(modes, key=lambda mode: mode.log_mass)
    deficits: list[float] = []
    for _, particles in population:
        log_posteriors = particles.log_densities(1.0)
        own_deficits = largest.log_posterior - log_posteriors
        deficits += own_deficits[particles.owner == largest.owner].tolist()
    if not deficits:
        return np.inf
    expected = 0.5 * len(largest.point)
    return float((np.mean(deficits) - expected) / np.sqrt(expected))


def _competing(
    families: Sequence[Sequence[Candidate]],
    split: Split,
    likelihood: Likelihood,
    trend: bool,
) -> tuple[list[Candidate], list[Candidate]]:
    """Candidates without a trend, and with one.

    Under Gaussian noise and default kernels noise alone competes, which the evidence
    cannot tell from short lengthscales, and, if the largest modes need them, the most
    general candidate of each family with a trend and, of rows of one column, seasons.
    Of more rows than a population goes to, only the largest mode may have a trend.
    """
    candidates = [candidate for family in families for candidate in family]
    trends: list[Candidate] = []
    if candidates[0].is_given or not likelihood.has_closed_form:
        return candidates, trends
    if trend and length_scale_entries(candidates[-1].kernel):
        trends, seasons = _trends_and_seasons(families, split, likelihood)
        candidates += seasons
    if len(likelihood.theta):
        candidates.append(families[0][0].without_function())
    return candidates, trends


def _trends_and_seasons(
    families: Sequence[Sequence[Candidate]],
    split: Split,
    likelihood: Likelihood,
) -> tuple[list[Candidate], list[Candidate]]:
    """Candidates with a trend and with seasons, if the largest modes need them."""
    searches = []
    for family in families:
        general = family[-1]
        evidence = ExactEvidence(split.rows, general.kernel, likelihood)
        start = best_first(general, general.starts(), evidence)[0]
        searches.append(maximise(general, [evidence], start, 100, tolerance=1e-4))
    best = best_of(searches)
    linear = search_trend(best, split.rows)
    trends = []
    if linear.posterior > best.posterior:
        trends = [with_trend(family[-1], split.rows) for family in families]
    seasons = []
    if split.rows.X.shape[1] == 1:
        seasons = search_seasons(best_of([best, linear]), linear, split)
    return trends, [season.candidate for season in seasons]


def _with_least_noise(likelihood: Likelihood, candidate: Candidate) -> Likelihood:
    """Let a noise that is free become smaller than many rows afford."""
    if candidate.is_given or not len(likelihood.theta):
        return likelihood
    low, high = np.exp(likelihood.theta_bounds[0]).tolist()
    noise = float(likelihood.variance(0.0))
    return likelihood.with_start(noise_variance=(noise, _LEAST_NOISE * low, high))


def _merge(population: Population) -> list[HyperparameterState]:
    """States of the particles; equal ones are merged.

    Those of the most probable candidate come first, in the order of their weights and,
    among equal ones, of their log posterior.
    """
    counts: Counter[tuple[int, bytes]] = Counter()
    owner_counts: Counter[int] = Counter()
    log_posteriors = {}
    posteriors: dict[int, LogPosterior] = {}
    for form, particles in population:
        posteriors |= form.posteriors
        owner_counts.update(particles.owner.tolist())
        values = particles.log_densities(1.0).tolist()
        for owner, point, value in zip(
            particles.owner.tolist(), particles.points, values, strict=True
        ):
            key = (owner, point.tobytes())
            counts[key] += 1
            log_posteriors[key] = value

    def rank(key: tuple[int, bytes]) -> tuple[int, int, float]:
        owner, _ = key
        return owner_counts[owner], counts[key], log_posteriors[key]

    states = []
    for key in sorted(counts, key=rank, reverse=True):
        owner, buffer = key
        posterior = posteriors[owner]
        result = result_at(np.frombuffer(buffer), posterior)
        states.append(_state(result, weight=counts[key] / counts.total()))
    return states


def _state(result: SearchResult, weight: float) -> HyperparameterState:
    """Kernel and likelihood of a result."""
    return HyperparameterState(
        kernel=result.kernel,
        likelihood=result.likelihood,
        weight=weight,
        name=result.candidate.name,
    )
