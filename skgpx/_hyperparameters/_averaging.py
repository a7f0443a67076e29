"""Hyperparameters averaged over their posterior, not chosen.

Few rows cannot tell one lengthscale, one noise or one family of kernels from another.
The finalists of the search are the modes of the posterior: draws near them, of few rows
with noise draws from the priors that have moved there, or the modes themselves are its
states.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from skgpx._hyperparameters._annealing import (
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
from skgpx._hyperparameters._candidates import Candidate, products_of
from skgpx._hyperparameters._evidence import with_noise
from skgpx._hyperparameters._maximise import State
from skgpx._hyperparameters._modes import (
    NO_NOISE,
    Mode,
    draws_near,
    in_order,
    modes_of,
)
from skgpx._hyperparameters._process_evidence import suits_a_normal
from skgpx._hyperparameters._select import (
    NEGLIGIBLE_NATS,
    SOME_NOISE,
    Split,
    finalists,
    has_little_noise,
    is_series,
    search,
    search_on_more_rows,
    subset,
    with_periods,
)
from skgpx._row_budgets import (
    ANNEALED_BOUND_ROWS,
    ANNEALED_ROWS,
    AVERAGING_SECONDS,
    SCREENING_BOUND_ROWS,
    evaluation_seconds,
)
from skgpx._shell.validation import Rows
from skgpx._types import Generator
from skgpx.likelihoods import Likelihood

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
# Most draws near the modes, and fewest states that are draws: fewer are modes.
# Predictions cost as much as one state has rows, times their number.
_MOST_DRAWS = 2000
_FEWEST_DRAWN = 4
# Evaluations that draws take: fewer are affordable from 630 rows on.
_FEWEST_EVALUATIONS = 16
# Their probability, in that of the largest one, below which one is left out.
_LEAST_SHARE = 0.05
# Rows α of a posterior that allows for errors, and odds that do not count: where each
# row gains more than log(1e100) / α = 4.6 nats by having next to no noise.
_ROWS_THAT_COUNT = 50.0
_LEAST_ODDS = 1e-100


class Effort(NamedTuple):
    """What is done for so many rows under a likelihood.

    Attributes
    ----------
    most_rows : int
        Rows up to which a population goes from the prior to the posterior.
    n_chains, n_steps : int
        Chains, and Langevin steps of each at every power of the evidence.
    n_draws : int
        Draws near the modes of more rows.
    n_states : int
        States of the result, which keep matrices of the rows.
    """

    most_rows: int
    n_chains: int
    n_steps: int
    n_draws: int
    n_states: int

    @classmethod
    def of(
        cls,
        n_rows: int,
        n_coordinates: int,
        likelihood: Likelihood,
    ) -> Effort:
        """What so many rows afford, and kernels of so many coordinates ask for.

        A step for each of them, within limits.
        """
        evaluations = AVERAGING_SECONDS / evaluation_seconds(n_rows)
        if likelihood.has_closed_form and n_rows <= ANNEALED_ROWS:
            return cls(
                most_rows=ANNEALED_ROWS,
                n_chains=min(max(150_000 // n_rows**2, 32), 128),
                n_steps=min(max(n_coordinates, 8), 16),
                n_draws=min(max(60_000 // n_rows, 200), _MOST_DRAWS),
                n_states=min(96, 10_000 // n_rows),
            )
        if likelihood.has_closed_form:
            n_states = 1
            if evaluations >= _FEWEST_EVALUATIONS:
                n_states = max(1_200_000 // n_rows**2, _FEWEST_DRAWN)
            # draws near the modes need few steps, but many of them have a weight; a
            # density without its gradient takes less than half as long, a model longer
            return cls(
                most_rows=ANNEALED_ROWS,
                n_chains=min(max(int(evaluations / 4), 1), 64),
                n_steps=4,
                n_draws=min(int(evaluations / 0.4), _MOST_DRAWS),
                n_states=n_states,
            )
        # a bound takes eight evaluations, a softmax more, and a state has its chains
        if not suits_a_normal(likelihood):
            return cls(
                most_rows=ANNEALED_BOUND_ROWS,
                n_chains=12,
                n_steps=8,
                n_draws=min(max(45_000 // n_rows, 200), _MOST_DRAWS),
                n_states=12,
            )
        return cls(
            most_rows=ANNEALED_BOUND_ROWS,
            n_chains=min(max(1_000_000 // n_rows**2, 16), 32),
            n_steps=5,
            n_draws=min(max(6_000_000 // n_rows**2, 100), _MOST_DRAWS),
            n_states=min(max(1_000_000 // n_rows**2, 16), 64),
        )


def average(
    families: Sequence[Sequence[Candidate]],
    split: Split,
    likelihood: Likelihood,
    rng: Generator,
    *,
    trend: bool,
    requested: bool,
    n_jobs: int | None = None,
) -> list[State]:
    """Draw states from the posterior of the hyperparameters of all candidates.

    Candidates have equal prior odds; their hyperpriors are normalised, so that a
    candidate of more parameters pays for them.

    Parameters
    ----------
    families : sequence of sequences of Candidate
    split : Split
        The rows of the search are read, for O(n³) an evaluation.
    likelihood : Likelihood
        Prepared.
    rng : numpy.random.Generator
    trend : bool
        Whether trends compete and, in one column, seasons.
    requested : bool
        Whether draws are asked for, whatever they cost.
    n_jobs : int or None
        Searches and chains side by side, unless rows are so few that threads would wait
        for each other.

    Returns
    -------
    states : list of State
        Those of the most probable candidate first, from the largest weight; equal ones
        are merged. A single one is the largest mode.
    """
    rows = split.training
    if len(rows.y) < FEWEST_PARALLEL:
        n_jobs = 1
    if likelihood.has_closed_form:
        likelihood = with_least_noise(likelihood, families[0][0])
    else:
        screening = subset(rows, split.order[:SCREENING_BOUND_ROWS])
        split = split._replace(screening=screening)
    effort = Effort.of(len(rows.y), families[0][-1].n_free, likelihood)
    if families[0][0].sees_functionals:
        # an evaluation takes as long as that of many times as many rows
        effort = effort._replace(most_rows=0, n_states=1)
    if requested:
        effort = effort._replace(
            n_chains=max(effort.n_chains, 16),
            n_draws=max(effort.n_draws, 200),
            n_states=max(effort.n_states, 12),
        )
    draws_states = effort.n_states >= _FEWEST_DRAWN
    is_few = len(rows.y) <= effort.most_rows
    # 1 the modes of all candidates; of more rows, of those that have a part
    results = finalists(families, split, likelihood, n_jobs, trend)
    if is_few or (draws_states and results[0].gain < NEGLIGIBLE_NATS):
        results += _noise_alone(families[0][0], rows, likelihood)
    results.sort(key=lambda result: result.posterior, reverse=True)
    largest = results[0].with_exact_noise()
    smallest = largest.posterior - NEGLIGIBLE_NATS
    results = [rival for rival in results if rival.largest_mass >= smallest]
    # 2 draws from the posterior
    population: Population = []
    if draws_states:
        population = _draws(results, rows, likelihood, effort, rng, n_jobs)
    if not population:
        # too many rows, or draws stay below the modes: these are the states
        log_posteriors = np.array([result.posterior for result in results])
        shares = np.exp(log_posteriors - log_posteriors.max())
        shares[shares < _LEAST_SHARE] = 0.0
        weights = shares / shares.sum()
        states = [
            with_periods(result, split)._replace(weight=weight)
            for result, weight in zip(results, weights.tolist(), strict=True)
            if weight > 0.0
        ]
    else:
        # 3 some of the particles; equal ones count once, with their number as weight
        states = _merge(weighted_draws(population, effort.n_states, rng), largest)
    if len(states) == 1:
        states = [largest._replace(period_stds=states[0].period_stds)]
    # 4 a state of more noise, where all have next to none
    return _with_rival(states, _noisier(largest, families, split, likelihood))


def _draws(
    results: Sequence[State],
    rows: Rows,
    likelihood: Likelihood,
    effort: Effort,
    rng: Generator,
    n_jobs: int | None,
) -> Population:
    """Draws near the modes of the results, or from the priors, moved to the posterior.

    Few rows begin with the latter, whose posterior is not normal around modes, unless a
    function goes through all of them: its posterior is so narrow that draws from the
    priors arrive late. None are returned where draws near the modes fail.
    """
    candidates = [result.candidate for result in results]
    forms = forms_of(candidates, rows, likelihood)
    modes = modes_of(results, forms, n_jobs)
    is_noisy = not has_little_noise(results[0], NO_NOISE)
    if len(rows.y) <= effort.most_rows and is_noisy:
        population, lag = _from_priors(modes, forms, effort, rng, n_jobs, likelihood)
        if lag <= _LARGE_LAG:
            return population
    return _near(modes, forms, effort, rng, n_jobs)


def _noise_alone(
    candidate: Candidate,
    rows: Rows,
    likelihood: Likelihood,
) -> list[State]:
    """Noise around a constant, which the evidence cannot tell from short lengthscales.

    It competes with default kernels under Gaussian noise that is free.
    """
    is_free = likelihood.has_closed_form and len(likelihood.theta) > 0
    if candidate.is_given or not is_free:
        return []
    noise = candidate.without_function()
    return [search(noise, np.empty(0), rows, likelihood)]


def _from_priors(
    modes: Sequence[Mode],
    forms: Sequence[Form],
    effort: Effort,
    rng: Generator,
    n_jobs: int | None,
    likelihood: Likelihood,
) -> tuple[Population, float]:
    """Draws from the priors of all candidates, moved to the posterior, and their lag.

    Draws near the modes that weigh enough need no steps, which is tried where
    evaluations are many times as expensive as under Gaussian noise.
    """
    if not likelihood.has_closed_form and suits_a_normal(likelihood):
        draws = draws_near(modes, forms, effort.n_draws, rng, n_jobs)
        if effective_size(draws) >= effort.n_states:
            return in_order(draws), 0.0
    population = draws_from_priors(forms, effort.n_chains * effort.n_steps, rng)
    population = anneal(population, effort.n_chains, effort.n_steps, rng, n_jobs)
    # more rounds of steps, while the lag asks for them
    lag = np.inf
    for n_rounds in range(_MOST_ROUNDS if population else 0):
        lag = _lag(population, modes)
        if n_rounds >= _FEWEST_ROUNDS and lag <= _SMALL_LAG:
            break
        population = move(population, 1.0, effort.n_chains, effort.n_steps, rng, n_jobs)
    return population, lag


def _noisier(
    mode: State,
    families: Sequence[Sequence[Candidate]],
    split: Split,
    likelihood: Likelihood,
) -> list[State]:
    """The mode that has some noise, where the largest one has next to none."""
    products = products_of(families)
    candidate = products[len(products) // 2][-1]
    low = SOME_NOISE * candidate.unit
    # none if the noise is stated
    largest = np.exp(likelihood.theta_bounds).max(initial=0.0)
    if mode.candidate.is_given or not has_little_noise(mode) or largest <= low:
        return []
    noise = float(np.clip(likelihood.variance(0.0), low, largest))
    likelihood = likelihood.with_start(noise_variance=(noise, low, largest))
    u = candidate.starts()[0]
    return [search_on_more_rows(candidate, u, split, likelihood)]


def with_mean_noise(
    mode: State,
    families: Sequence[Sequence[Candidate]],
    split: Split,
    likelihood: Likelihood,
) -> State:
    """The mode with the mean noise of the coarsened posterior, for models of one state.

    Where there are more rows than the search reads: they, or new ones, contradict each
    other as rarely as few of them show.
    """
    if split.abundant or len(split.rows.y) == len(split.training.y):
        return mode
    if is_series(mode.kernel, split.rows):
        return mode
    states = _with_rival([mode], _noisier(mode, families, split, likelihood))
    if len(states) == 1:
        return mode
    noise_variance = sum(state.weight * state.noise_variance for state in states)
    noise_variance = min(noise_variance, SOME_NOISE * mode.candidate.unit)
    return mode._replace(likelihood=with_noise(mode.likelihood, noise_variance))


def _with_rival(states: list[State], rivals: Sequence[State]) -> list[State]:
    """Add a rival of the largest mode with its weight in a coarsened posterior.

    Rows in error are too rare to be among few, and far from what functions without
    noise predict. If the rows follow the model up to such errors only, n of them tell
    as much as ``α n / (α + n)``: their log densities have the power ``α / (α + n)``
    [1]_.

    References
    ----------
    .. [1] Miller and Dunson, "Robust Bayesian inference via coarsening", Journal of the
       American Statistical Association 2019.
    """
    mode = states[0]
    for rival in rivals:
        power = _ROWS_THAT_COUNT / (_ROWS_THAT_COUNT + rival.n_rows)
        odds = float(np.exp(power * (rival.posterior - mode.posterior)))
        if odds >= _LEAST_ODDS:
            states = [
                state._replace(weight=state.weight / (1.0 + odds)) for state in states
            ]
            states.append(rival._replace(weight=odds / (1.0 + odds)))
    return states


def _near(
    modes: Sequence[Mode],
    forms: Sequence[Form],
    effort: Effort,
    rng: Generator,
    n_jobs: int | None,
) -> Population:
    """Draws near the modes; where not so many of them have a weight, after some steps.

    None where none has any, or where they stay far below the modes.
    """
    population = draws_near(modes, forms, effort.n_draws, rng, n_jobs)
    size = effective_size(population)
    if size >= effort.n_states:
        return in_order(population)
    if size == 0.0:
        return []
    starts = [
        (form, form.evaluate(particles.owner, particles.points))
        for form, particles in weighted_draws(population, effort.n_chains, rng)
    ]
    population = move(starts, 1.0, effort.n_chains, effort.n_steps, rng, n_jobs)
    return population if _lag(population, modes) <= _LARGE_LAG else []


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


def with_least_noise(likelihood: Likelihood, candidate: Candidate) -> Likelihood:
    """Let a noise that is free become smaller than many rows afford."""
    if candidate.is_given or not len(likelihood.theta):
        return likelihood
    low, high = np.exp(likelihood.theta_bounds[0]).tolist()
    noise = float(likelihood.variance(0.0))
    return likelihood.with_start(noise_variance=(noise, _LEAST_NOISE * low, high))


def _merge(population: Population, mode: State) -> list[State]:
    """States of the particles, with the figures of a mode; equal ones are merged.

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
        candidate = posterior.candidate
        u, scales = np.split(np.frombuffer(buffer), [candidate.n_free])
        likelihood = posterior.likelihood.with_theta(scales)
        state = State(
            candidate=candidate,
            u=u,
            likelihood=likelihood,
            weight=counts[key] / counts.total(),
            posterior=mode.posterior,
            gain=mode.gain,
            n_rows=mode.n_rows,
            total_weight=mode.total_weight,
        )
        states.append(state._replace(period_stds=(0.0,) * len(state.periods)))
    return states
