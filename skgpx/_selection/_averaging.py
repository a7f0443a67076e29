"""Hyperparameters of few rows: averaged over their posterior, not chosen.

Few rows cannot tell one lengthscale, one noise or one family of kernels from another.
Laplace's approximations at all modes of the posterior propose states, importance
weights correct them, and Langevin steps move the states where the weights are uneven.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp
from sklearn.gaussian_process.kernels import Kernel

from skgpx._numerics.linalg import cholesky, log_determinant, solve_lower
from skgpx._parallel import side_by_side
from skgpx._selection._candidates import Candidate
from skgpx._selection._evidence import ExactEvidence, with_noise
from skgpx._selection._laplace import search_rough_values
from skgpx._selection._maximise import SearchResult, best_of, maximise
from skgpx._selection._process_evidence import process_evidence
from skgpx._selection._select import (
    Split,
    best_first,
    best_long_start,
    search_seasons,
    search_trend,
)
from skgpx._validation import Rows
from skgpx.likelihoods import Likelihood

Array = NDArray[np.float64]

# Langevin steps of each state where the weights are even, of 40 rows, and fewer of more
# rows as the square of their number.
_FEWEST_STEPS = 30
# Their size in whitened coordinates, times the 1/6-th root of the dimension.
_STEP_SIZE = 1.2
# Chains that step side by side in one call, and rows from which blocks of them, and
# searches, run in parallel: an evaluation then takes a quarter of a millisecond.
_CHAINS = 6
_FEWEST_PARALLEL = 120
# Modes are results of searches that differ by so much in a logarithm, and that are at
# most so many nats below the best one of their candidate.
_MODE_DISTANCE = 0.5
_MODE_NATS = 6.0
# Short searches from draws of the prior, their rows and iterations, and how many of
# them go on. Of a hard table one draw in five leads to the largest mode, and ten
# iterations tell.
_SHORT_SEARCHES = 12
_SHORT_ROWS = 100
_SHORT_ITERATIONS = 10
_LONG_SEARCHES = 2
# Coordinates up to which a Hessian, by differences, takes as long as the searches.
MOST_COORDINATES = 100
# Noise of functions without noise, where searches start, in variances of y.
NO_NOISE = 1e-6
# Smallest noise of few rows, in the smallest one of many: on smooth functions without
# noise 1e-8 of the variance of y limits the accuracy.
_LEAST_NOISE = 1e-2
# The proposal: degrees of freedom, factor of the covariances, and the share of the
# draws that is spread evenly over the modes.
_DEGREES = 5.0
_INFLATION = 1.2
_EVEN_SHARE = 0.2
# Differences of gradients for the Hessian, in logarithms.
_DIFFERENCE = 1e-3
# Standard deviation of a logarithm that has no normal prior.
_WIDEST_STD = 2.0


# Draws from the proposal times rows: of 60 rows a thousand draws, of 300 rows 200.
_DRAWS_TIMES_ROWS = 60_000


class _Effort(NamedTuple):
    """Draws from the proposal, states, and the most Langevin steps of each."""

    fewest_draws: int
    most_draws: int
    n_states: int
    most_steps: int

    def n_draws(self, n_rows: int) -> int:
        """Draws from the proposal: fewer of more rows, which take longer."""
        affordable = _DRAWS_TIMES_ROWS // n_rows
        return min(max(affordable, self.fewest_draws), self.most_draws)


# An evaluation of Laplace's evidence takes ten times as long as an exact one, and every
# state has chains of its own.
_EXACT = _Effort(fewest_draws=200, most_draws=1000, n_states=24, most_steps=30)
_LAPLACE = _Effort(fewest_draws=100, most_draws=100, n_states=12, most_steps=8)
# Steps where weights are uneven, under the exact evidence.
_MOST_STEPS = 20


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
    # 1 modes of the log posterior, and Laplace's approximation at each
    if len(split.rows.y) < _FEWEST_PARALLEL:
        n_jobs = 1
    effort = _LAPLACE
    if likelihood.has_closed_form:
        effort = _EXACT
        likelihood = _with_least_noise(likelihood, families[0][0])
        searches = _search_modes(families, split, likelihood, rng, trend, n_jobs)
    else:
        searches = _search_laplace_modes(families, split, likelihood, n_jobs)
    best = best_of([mode for searched in searches for mode in searched])
    posteriors = []
    modes = []
    for position, searched in enumerate(searches):
        posterior = LogPosterior(searched[0].candidate, split.rows, likelihood)
        posteriors.append(posterior)
        for result in _distinct(searched):
            modes.append(Mode.at(result, posterior, position))
    # 2 draws from the approximations, and their importance weights
    proposal = Proposal.of(modes)
    n_draws = effort.n_draws(len(split.rows.y))
    draws = [proposal.draw(rng) for _ in range(n_draws)]
    log_weights = _log_weights(draws, proposal, posteriors)
    if not np.any(np.isfinite(log_weights)):
        # the modes are spikes, as of one or two rows
        mode = proposal.modes[int(np.argmax(proposal.shares))]
        return best, [posteriors[mode.candidate].state(mode.point)]
    weights = np.exp(log_weights - logsumexp(log_weights))
    # 3 as many states, resampled, and Langevin steps: as many as the relative variance
    # of the weights, n Σ w² - 1, or as cost little
    relative_variance = n_draws * float(np.sum(weights**2)) - 1.0
    n_rows = max(len(split.rows.y), 40)
    n_steps = max(
        min(round(relative_variance), _MOST_STEPS),
        round(_FEWEST_STEPS * (40 / n_rows) ** 2),
    )
    n_steps = min(n_steps, effort.most_steps)
    resampled = _resample(draws, weights, effort.n_states, rng)
    moved = _move(resampled, proposal, posteriors, n_steps, rng, n_jobs)
    # 4 equal states count once, with their number as weight
    return best, _merge(moved, posteriors)


def _with_least_noise(likelihood: Likelihood, candidate: Candidate) -> Likelihood:
    """Let a noise that is free become smaller than many rows afford."""
    if candidate.is_given or not len(likelihood.theta):
        return likelihood
    low, high = np.exp(likelihood.theta_bounds[0]).tolist()
    noise = float(likelihood.variance(0.0))
    return likelihood.with_start(noise_variance=(noise, _LEAST_NOISE * low, high))


def _log_weights(
    draws: Sequence[Draw],
    proposal: Proposal,
    posteriors: Sequence[LogPosterior],
) -> Array:
    """Log posterior less log density of the proposal, up to a constant, (n,)."""
    log_weights = np.empty(len(draws))
    for position, posterior in enumerate(posteriors):
        indices = [i for i, draw in enumerate(draws) if draw.candidate == position]
        if indices:
            points = np.stack([draws[i].point for i in indices])
            log_densities = proposal.log_densities(position, points)
            log_weights[indices] = posterior.values(points) - log_densities
    return log_weights


def _resample(
    draws: Sequence[Draw],
    weights: Array,
    n_states: int,
    rng: np.random.Generator,
) -> list[Draw]:
    """Systematic resampling of draws in the order of their candidates.

    No weight counts more than √n times the mean: a single draw must not decide [1]_.

    References
    ----------
    .. [1] Ionides, "Truncated importance sampling", JCGS 2008.
    """
    weights = np.minimum(weights, 1.0 / np.sqrt(len(draws)))
    order = sorted(range(len(draws)), key=lambda i: draws[i].candidate)
    cumulative = np.cumsum(weights[order]) / weights.sum()
    places = (np.arange(n_states) + rng.random()) / n_states
    ranks = np.minimum(np.searchsorted(cumulative, places), len(draws) - 1)
    return [draws[order[rank]] for rank in ranks]


def _move(
    draws: Sequence[Draw],
    proposal: Proposal,
    posteriors: Sequence[LogPosterior],
    n_steps: int,
    rng: np.random.Generator,
    n_jobs: int | None,
) -> list[Draw]:
    """Langevin steps of every draw, in blocks of chains of the same candidate."""
    rngs = rng.spawn(len(draws))
    tasks = []
    positions: list[int] = []
    for position, posterior in enumerate(posteriors):
        indices = [i for i, draw in enumerate(draws) if draw.candidate == position]
        # a block of chains is the same whatever the number of jobs
        for first in range(0, len(indices), _CHAINS):
            block = indices[first : first + _CHAINS]
            points = np.stack([draws[i].point for i in block])
            root = proposal.largest_mode(position).root
            block_rngs = [rngs[i] for i in block]
            tasks.append((posterior, points, root, n_steps, block_rngs))
            positions += [position] * len(block)
    blocks = side_by_side(langevin, tasks, n_jobs)
    points_of_draws = chain.from_iterable(blocks)
    return [
        Draw(position, point)
        for position, point in zip(positions, points_of_draws, strict=True)
    ]


def _merge(
    draws: Sequence[Draw],
    posteriors: Sequence[LogPosterior],
) -> list[HyperparameterState]:
    """States of the draws; equal ones are merged.

    Those of the most probable candidate come first, in the order of their weights and,
    among equal ones, of their log posterior.
    """
    counts = Counter((draw.candidate, draw.point.tobytes()) for draw in draws)
    candidate_counts = Counter(draw.candidate for draw in draws)

    def rank(entry: tuple[tuple[int, bytes], int]) -> tuple[int, int, float]:
        (position, buffer), count = entry
        point = np.frombuffer(buffer)
        log_posterior = float(posteriors[position].values(point[np.newaxis])[0])
        return candidate_counts[position], count, log_posterior

    states = []
    for (position, buffer), count in sorted(counts.items(), key=rank, reverse=True):
        weight = count / len(draws)
        state = posteriors[position].state(np.frombuffer(buffer), weight)
        states.append(state)
    return states


# ---- The log posterior of one candidate ----------------------------------------------


class LogPosterior:
    """Log posterior of coordinates and scales, by the evidence of all rows.

    The evidence is exact for Gaussian noise, and Laplace's approximation otherwise.

    Parameters
    ----------
    candidate : Candidate
    rows : Rows
    likelihood : Likelihood
        Prepared.
    """

    def __init__(self, candidate: Candidate, rows: Rows, likelihood: Likelihood):
        self.candidate = candidate
        self.likelihood = likelihood
        self._evidence = process_evidence(rows, candidate.kernel, likelihood)
        # of the points, (q, 2)
        self.bounds = np.concatenate((candidate.bounds, likelihood.theta_bounds))

    @property
    def prior_std(self) -> Array:
        """Standard deviations of the normal priors, (q,), wide ones without a prior."""
        std = np.full(len(self.bounds), _WIDEST_STD)
        coordinate_std = self.candidate.std
        is_normal = np.isfinite(coordinate_std)
        std[: len(is_normal)][is_normal] = coordinate_std[is_normal]
        return std

    def contains(self, points: Array) -> NDArray[np.bool_]:
        """Which points (s, q) are within the bounds, shape (s,)."""
        low, high = self.bounds.T
        is_inside: NDArray[np.bool_] = np.all(
            (low <= points) & (points <= high), axis=1
        )
        return is_inside

    def values(self, points: Array) -> Array:
        """Log posterior at points (s, q) up to a constant, shape (s,).

        Minus infinity beyond the bounds.
        """
        values = np.full(len(points), -np.inf)
        is_inside = self.contains(points)
        inner = points[is_inside]
        log_prior, _ = self.candidate.log_prior(inner, self.likelihood)
        values[is_inside] = log_prior + self._evidence.values(self._theta(inner))
        return values

    def values_and_gradients(self, points: Array) -> tuple[Array, Array]:
        """As `values`, and the gradients (s, q), zero where the value is infinite."""
        values = np.full(len(points), -np.inf)
        gradients = np.zeros(points.shape)
        is_inside = self.contains(points)
        inner = points[is_inside]
        log_prior, inner_gradients = self.candidate.log_prior(inner, self.likelihood)
        evidence, slopes = self._evidence.values_and_gradients(self._theta(inner))
        # θ = offset + ties u
        p = len(self.candidate.offset)
        q = self.candidate.n_free
        inner_gradients[:, :q] += slopes[:, :p] @ self.candidate.ties
        inner_gradients[:, q:] += slopes[:, p:]
        inner_values = log_prior + evidence
        is_finite = np.all(np.isfinite(inner_gradients), axis=1)
        is_finite &= np.isfinite(inner_values)
        values[is_inside] = np.where(is_finite, inner_values, -np.inf)
        gradients[is_inside] = np.where(is_finite[:, np.newaxis], inner_gradients, 0.0)
        return values, gradients

    def _theta(self, points: Array) -> Array:
        """Log-parameters of kernel and likelihood, (s, p)."""
        q = self.candidate.n_free
        kernel_theta = self.candidate.log_parameters(points[:, :q])
        return np.concatenate((kernel_theta, points[:, q:]), axis=1)

    def state(self, point: Array, weight: float = 1.0) -> HyperparameterState:
        """Kernel and likelihood at a point."""
        u, scales = np.split(point, [self.candidate.n_free])
        return HyperparameterState(
            kernel=self.candidate.kernel_at(u),
            likelihood=self.likelihood.with_theta(scales),
            weight=weight,
            name=self.candidate.name,
        )


# ---- Modes ---------------------------------------------------------------------------


def _search_modes(
    families: Sequence[Sequence[Candidate]],
    split: Split,
    likelihood: Likelihood,
    rng: np.random.Generator,
    trend: bool,
    n_jobs: int | None,
) -> list[list[SearchResult]]:
    """Results of searches of every candidate, from several starts.

    Candidates of the first family start at long and at short lengthscales; one
    lengthscale a column also where one for all columns arrived. That one, and a kernel
    of the user's that states all priors, also start at draws from the prior: which
    columns matter often has several answers. The other families start where their
    counterparts of the first one arrived, and all where the best one arrived. Each
    candidate also starts at its best result with hardly any noise. A trend competes
    where it is more probable, and noise without a function, which the evidence cannot
    tell from short lengthscales.
    """
    rows = split.rows
    first: list[list[SearchResult]] = []
    for candidate in families[0]:
        if first and candidate.n_free > families[0][0].n_free:
            simple = best_of(first[0])
            u = candidate.coordinates_of(simple.kernel)
            long = best_long_start(candidate, rows, likelihood)
            starts = [
                simple._replace(u=u),
                SearchResult(candidate, long, likelihood),
                *_prior_starts(candidate, rows, simple.likelihood, rng),
            ]
        else:
            evidence = ExactEvidence(rows, candidate.kernel, likelihood)
            sorted_starts = best_first(candidate, candidate.starts(), evidence)
            coordinates = [sorted_starts[0], sorted_starts[-1]]
            starts = [SearchResult(candidate, u, likelihood) for u in coordinates]
            if candidate.is_given and None not in candidate.stated[: candidate.n_free]:
                starts += _prior_starts(candidate, rows, likelihood, rng)
        first.append(_search(candidate, starts, rows))
    searches = list(first)
    tasks = [
        (candidate, _distinct(counterpart), rows)
        for family in families[1:]
        for candidate, counterpart in zip(family, first, strict=True)
    ]
    searches += side_by_side(_search, tasks, n_jobs)
    # what a family has missed
    best = best_of([result for searched in searches for result in searched])
    tasks = [
        (searched[0].candidate, [best], rows)
        for searched in searches
        if searched[0].candidate.n_free == best.candidate.n_free
    ]
    searches += side_by_side(_search, tasks, n_jobs)
    searches = _by_candidate(searches)
    best = best_of([result for searched in searches for result in searched])
    is_stationary = bool(np.any(best.candidate.is_length_scale))
    if trend and is_stationary and not best.candidate.is_given:
        linear = search_trend(best, rows)
        if linear.posterior > best.posterior:
            searches.append([linear])
        if rows.X.shape[1] == 1:
            seasons = search_seasons(best_of([best, linear]), linear, split)
            searches += [[season] for season in seasons]
    if len(likelihood.theta) and not best.candidate.is_given:
        noise = families[0][0].without_function()
        starts = [SearchResult(noise, noise.mean, likelihood)]
        searches.append(_search(noise, starts, rows))
    return searches


def _prior_starts(
    candidate: Candidate,
    rows: Rows,
    likelihood: Likelihood,
    rng: np.random.Generator,
) -> list[SearchResult]:
    """Where short searches from draws around the prior arrive, the largest of them.

    Coordinates without a normal prior are drawn around the last start, which has the
    medians that the user states.
    """
    is_normal = np.isfinite(candidate.std)
    centre = np.where(is_normal, candidate.mean, candidate.starts()[-1])
    std = np.where(is_normal, candidate.std, _WIDEST_STD)
    thinned = rows.thinned(_SHORT_ROWS)
    evidence = ExactEvidence(thinned, candidate.kernel, likelihood)
    results = []
    for z in rng.standard_normal((_SHORT_SEARCHES, len(centre))):
        result = maximise(
            candidate,
            [evidence],
            candidate.clip(centre + std * z),
            max_iter=_SHORT_ITERATIONS,
            tolerance=1e-4,
        )
        results.append(result)
    distinct = _distinct(results)
    return distinct[:_LONG_SEARCHES]


def _search_laplace_modes(
    families: Sequence[Sequence[Candidate]],
    split: Split,
    likelihood: Likelihood,
    n_jobs: int | None,
) -> list[list[SearchResult]]:
    """The same by Laplace's evidence, from regressions on rough latent values.

    Each candidate also starts at long lengthscales, and those of the form of the best
    one where that arrived.
    """
    rows = split.rows
    regressions, _ = search_rough_values(families, rows, likelihood, n_jobs)
    tasks = []
    for result in chain.from_iterable(regressions):
        candidate = result.candidate
        long = candidate.starts()[0]
        starts = [SearchResult(candidate, u, likelihood) for u in (result.u, long)]
        tasks.append((candidate, starts, rows))
    searches = side_by_side(_search, tasks, n_jobs)
    best = best_of([result for searched in searches for result in searched])
    tasks = [
        (searched[0].candidate, [best], rows)
        for searched in searches
        if searched[0].candidate is not best.candidate
        and searched[0].candidate.n_free == best.candidate.n_free
    ]
    searches += side_by_side(_search, tasks, n_jobs)
    return _by_candidate(searches)


def _by_candidate(searches: Sequence[list[SearchResult]]) -> list[list[SearchResult]]:
    """Results of each candidate, of all its searches."""
    results: dict[int, list[SearchResult]] = {}
    for searched in searches:
        results.setdefault(id(searched[0].candidate), []).extend(searched)
    return list(results.values())


def _search(
    candidate: Candidate,
    starts: Sequence[SearchResult],
    rows: Rows,
) -> list[SearchResult]:
    """Maximise the log posterior of a candidate from each start.

    Gaussian noise also starts at nothing.
    """

    def search(u: Array, likelihood: Likelihood) -> SearchResult:
        evidence = process_evidence(rows, candidate.kernel, likelihood)
        return maximise(candidate, [evidence], u, max_iter=100, tolerance=1e-4)

    results = [search(start.u, start.likelihood) for start in starts]
    best = best_of(results)
    noise_variance = NO_NOISE * candidate.unit
    if best.likelihood.has_closed_form and len(best.likelihood.theta):
        results.append(search(best.u, with_noise(best.likelihood, noise_variance)))
    return results


def _distinct(results: Sequence[SearchResult]) -> list[SearchResult]:
    """Results that are modes of their own, from the largest; far lower ones are out."""
    by_posterior = sorted(results, key=lambda result: result.posterior, reverse=True)
    modes: list[SearchResult] = []
    for result in by_posterior:
        distances = [np.max(np.abs(result.point - mode.point)) for mode in modes]
        is_distinct = all(distance > _MODE_DISTANCE for distance in distances)
        deficit = by_posterior[0].posterior - result.posterior
        if is_distinct and deficit <= _MODE_NATS:
            modes.append(result)
    return modes


class Mode(NamedTuple):
    """Laplace's approximation at a mode of a candidate's log posterior.

    Attributes
    ----------
    candidate : int
        Position of the candidate.
    point : ndarray of shape (q,)
    root : ndarray of shape (q, q)
        Lower triangular R with ``R Rᵀ = H⁻¹``, H the Hessian of the negative log
        posterior.
    log_posterior : float
        At the mode, in nats.
    """

    candidate: int
    point: Array
    root: Array
    log_posterior: float

    @classmethod
    def at(cls, result: SearchResult, posterior: LogPosterior, candidate: int) -> Mode:
        """Laplace's approximation where a search arrived; q + 1 gradients.

        No direction has less than half the precision of the widest prior.
        """
        point = result.point
        q = len(point)
        steps = np.full(q, _DIFFERENCE)
        steps[~posterior.contains(point + _DIFFERENCE * np.eye(q))] = -_DIFFERENCE
        points = np.concatenate((point[np.newaxis], point + np.diag(steps)))
        _, slopes = posterior.values_and_gradients(points)
        H = (slopes[0] - slopes[1:]) / steps[:, np.newaxis]
        eigenvalues, vectors = np.linalg.eigh(0.5 * (H + H.T))
        lowest_precision = 0.5 / np.max(posterior.prior_std, initial=1.0) ** 2
        eigenvalues = np.maximum(eigenvalues, lowest_precision)
        covariance = (vectors / eigenvalues) @ vectors.T
        return cls(
            candidate=candidate,
            point=point,
            root=cholesky(0.5 * (covariance + covariance.T), jitter=0.0).L,
            log_posterior=result.posterior,
        )

    @property
    def log_mass(self) -> float:
        """Laplace's evidence, ``log π(θ*) + ½ q log 2π - ½ log det H``."""
        log_volume = 0.5 * len(self.point) * np.log(2.0 * np.pi)
        return float(self.log_posterior + log_volume + 0.5 * log_determinant(self.root))

    def log_densities(self, points: Array) -> Array:
        """Log densities (s,) of the t-distribution of scale ``√1.2 R``."""
        q = len(self.point)
        white = solve_lower(self.root, (points - self.point).T)
        squares = np.sum(white**2, axis=0) / (_INFLATION * _DEGREES)
        constant = gammaln(0.5 * (_DEGREES + q)) - gammaln(0.5 * _DEGREES)
        constant -= 0.5 * q * np.log(np.pi * _INFLATION * _DEGREES)
        constant -= 0.5 * log_determinant(self.root)
        log_densities: Array = constant - 0.5 * (_DEGREES + q) * np.log1p(squares)
        return log_densities


# ---- The proposal, and Langevin steps ------------------------------------------------


class Draw(NamedTuple):
    """A point, in the coordinates of the candidate of this position."""

    candidate: int
    point: Array


class Proposal(NamedTuple):
    """Mixture of t-distributions around the modes of all candidates.

    Attributes
    ----------
    modes : list of Mode
    shares : ndarray of shape (n_modes,)
        Probabilities: by Laplace's evidence, and a part that is spread evenly.
    """

    modes: list[Mode]
    shares: Array

    @classmethod
    def of(cls, modes: list[Mode]) -> Proposal:
        """The proposal of these modes."""
        log_masses = np.array([mode.log_mass for mode in modes])
        masses = np.exp(log_masses - logsumexp(log_masses))
        shares = (1.0 - _EVEN_SHARE) * masses + _EVEN_SHARE / len(modes)
        return cls(modes, shares / shares.sum())

    def draw(self, rng: np.random.Generator) -> Draw:
        """Draw a mode and a point around it."""
        mode = self.modes[rng.choice(len(self.modes), p=self.shares)]
        z = rng.standard_normal(len(mode.point))
        spread = np.sqrt(_INFLATION * _DEGREES / rng.chisquare(_DEGREES))
        return Draw(mode.candidate, mode.point + spread * (mode.root @ z))

    def log_densities(self, candidate: int, points: Array) -> Array:
        """Log densities (s,) of draws from a candidate, over all of its modes."""
        terms = [
            np.log(share) + mode.log_densities(points)
            for mode, share in zip(self.modes, self.shares, strict=True)
            if mode.candidate == candidate
        ]
        log_densities: Array = logsumexp(terms, axis=0)
        return log_densities

    def largest_mode(self, candidate: int) -> Mode:
        """The mode of a candidate that has the largest Laplace's evidence."""
        modes = [mode for mode in self.modes if mode.candidate == candidate]
        return max(modes, key=lambda mode: mode.log_mass)


def langevin(
    posterior: LogPosterior,
    points: Array,
    root: Array,
    n_steps: int,
    rngs: Sequence[np.random.Generator],
) -> Array:
    """Metropolis-adjusted Langevin steps in coordinates whitened by the Hessian.

    ``θ' = θ + R (½ ε² Rᵀ ∇ log π(θ) + ε z)``, z standard normal and ``R Rᵀ = H⁻¹``.

    Parameters
    ----------
    posterior : LogPosterior
    points : ndarray of shape (s, q)
        Where chains start; they move side by side.
    root : ndarray of shape (q, q)
        R.
    n_steps : int
    rngs : sequence of numpy.random.Generator
        One for each chain.

    Returns
    -------
    points : ndarray of shape (s, q)
        Where the chains end.
    """
    if n_steps == 0:
        return points
    q = points.shape[1]
    noise = np.stack([rng.standard_normal((n_steps, q)) for rng in rngs], axis=1)
    log_uniforms = -np.stack(
        [rng.standard_exponential(n_steps) for rng in rngs], axis=1
    )
    epsilon = _STEP_SIZE * q ** (-1.0 / 6.0)
    values, slopes = posterior.values_and_gradients(points)
    for z, log_uniform in zip(noise, log_uniforms, strict=True):
        moves = 0.5 * epsilon**2 * (slopes @ root) + epsilon * z
        proposed = points + moves @ root.T
        proposed_values, proposed_slopes = posterior.values_and_gradients(proposed)
        # log q(θ | θ') - log q(θ' | θ) = ½ (|z|² - |z'|²)
        back = -(moves + 0.5 * epsilon**2 * (proposed_slopes @ root)) / epsilon
        log_ratio = proposed_values - values
        log_ratio += 0.5 * np.sum(z**2 - back**2, axis=1)
        accepts = log_uniform < log_ratio
        points = np.where(accepts[:, np.newaxis], proposed, points)
        values = np.where(accepts, proposed_values, values)
        slopes = np.where(accepts[:, np.newaxis], proposed_slopes, slopes)
    return points
