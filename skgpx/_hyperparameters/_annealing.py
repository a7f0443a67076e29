"""Annealed Langevin sampling of hyperparameters: from their prior to their posterior.

A population of particles goes from a distribution that is easy to draw from to the
posterior through powers of the evidence. Where a power grows, particles are weighted
and resampled [1]_; each of the resampled ones then takes Langevin steps, and all states
on their way are the next population [2]_. Modes that are apart have their share of it,
which chains that start in one of them would not find.

References
----------
.. [1] Del Moral, Doucet and Jasra, "Sequential Monte Carlo samplers", JRSS B 2006.
.. [2] Dau and Chopin, "Waste-free sequential Monte Carlo", JRSS B 2022.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from skgpx._hyperparameters._candidates import Candidate
from skgpx._hyperparameters._evidence import ExactEvidence
from skgpx._hyperparameters._process_evidence import process_evidence
from skgpx._numerics.linalg import cholesky
from skgpx._shell.parallel import side_by_side
from skgpx._shell.validation import Rows
from skgpx._types import Array, Generator, Index, Mask
from skgpx.likelihoods import Likelihood

# Effective size, as a share of the population, to which a higher power may reduce it.
_EFFECTIVE_SHARE = 0.75
# Size of the first steps in whitened coordinates, times the 1/6-th root of the
# dimension, and the share of proposals that should be accepted.
_FIRST_STEP = 1.0
_ACCEPTED = 0.574
_ADAPTATION = 0.3
# Variance of a coordinate whose bounds are equal.
_LEAST_VARIANCE = 1e-20
# Particles whose variance the last covariance counts for.
_COVARIANCE_WEIGHT = 2.0
# Chains of one task, and rows from which tasks run in parallel: an evaluation then
# takes a tenth of a millisecond. Of fewer rows threads would wait for each other.
_BLOCK = 8
FEWEST_PARALLEL = 120
_MOST_BISECTIONS = 60
# Chains that are divided evenly among the candidates, and the least probability of one
# that has any.
_EVEN_SHARE = 0.5
_LEAST_PROBABILITY = 1e-6


# ---- Log densities of one candidate --------------------------------------------------


class Particles(NamedTuple):
    """Points and their log densities, ``log π_β = log prior + β log evidence``.

    Coordinates without a prior have a reference instead, at β = 0, by which the
    evidence is divided.

    Attributes
    ----------
    owner : ndarray of int of shape (s,)
        Position of the candidate of each point.
    points, prior_slopes, evidence_slopes : ndarray of shape (s, q)
    log_prior, log_evidence : ndarray of shape (s,)
        In nats; minus infinity where the density is zero.
    log_weight : ndarray of shape (s,)
        Logarithms of weights, up to a constant of all particles: their sum over those
        of a candidate is proportional to its probability.
    """

    owner: Index
    log_weight: Array
    points: Array
    log_prior: Array
    log_evidence: Array
    prior_slopes: Array
    evidence_slopes: Array

    @classmethod
    def joined(cls, blocks: Sequence[Particles]) -> Particles:
        """Particles of several blocks, in their order."""
        fields: list[Any] = [
            np.concatenate(field) for field in zip(*blocks, strict=True)
        ]
        return cls(*fields)

    def take(self, indices: Index) -> Particles:
        """These particles."""
        fields: list[Any] = [field[indices] for field in self]
        return Particles(*fields)

    def moved(self, proposed: Particles, accepts: Mask) -> Particles:
        """The proposals where they are accepted."""
        fields: list[Any] = []
        for field, other in zip(self, proposed, strict=True):
            is_new = accepts.reshape(-1, *(1,) * (field.ndim - 1))
            fields.append(np.where(is_new, other, field))
        return Particles(*fields)

    def reweighted(self, log_factor: Array) -> Particles:
        """With weights times these factors, zero where the density is zero."""
        log_weight = self.log_weight + log_factor
        return self._replace(log_weight=log_weight)

    def log_densities(self, beta: float) -> Array:
        """``log π_β``, (s,)."""
        return self.log_prior + beta * self.log_evidence

    def slopes(self, beta: float) -> Array:
        """Gradients of ``log π_β``, (s, q)."""
        return self.prior_slopes + beta * self.evidence_slopes


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
        self.evidence = process_evidence(rows, candidate.kernel, likelihood)
        self._reference = candidate.reference(likelihood)
        # of the points, (q, 2)
        self.bounds = np.concatenate((candidate.bounds, likelihood.theta_bounds))

    def evaluate(
        self,
        owner: int,
        points: Array,
        with_slopes: bool = True,
    ) -> Particles:
        """Log densities and slopes at points (s, q).

        Minus infinity, with slopes of zero, beyond the bounds and where a covariance is
        not positive definite. Under Gaussian noise slopes that are not asked for are
        zero, and save more than half of the time.
        """
        low, high = self.bounds.T
        is_inside = np.all((low <= points) & (points <= high), axis=1)
        inner = points[is_inside]
        log_prior, prior_slopes = self.candidate.log_prior(inner, self.likelihood)
        log_evidence, evidence_slopes = self._log_evidence(inner, with_slopes)
        log_reference, reference_slopes = self._reference.log_density(inner)
        log_prior = log_prior + log_reference
        prior_slopes = prior_slopes + reference_slopes
        log_evidence = log_evidence - log_reference
        evidence_slopes = evidence_slopes - reference_slopes
        is_finite = np.isfinite(log_prior + log_evidence)
        is_finite &= np.all(np.isfinite(prior_slopes + evidence_slopes), axis=1)
        chosen = np.flatnonzero(is_inside)[is_finite]
        particles = Particles(
            owner=np.full(len(points), owner),
            log_weight=np.zeros(len(points)),
            points=points,
            log_prior=np.full(len(points), -np.inf),
            log_evidence=np.full(len(points), -np.inf),
            prior_slopes=np.zeros(points.shape),
            evidence_slopes=np.zeros(points.shape),
        )
        particles.log_prior[chosen] = log_prior[is_finite]
        particles.log_evidence[chosen] = log_evidence[is_finite]
        particles.prior_slopes[chosen] = prior_slopes[is_finite]
        particles.evidence_slopes[chosen] = evidence_slopes[is_finite]
        return particles

    def _log_evidence(
        self,
        points: Array,
        with_slopes: bool,
    ) -> tuple[Array, Array]:
        """Log evidence (s,) and its gradients (s, q) in the coordinates."""
        q = self.candidate.n_free
        p = len(self.candidate.offset)
        kernel_theta = self.candidate.log_parameters(points[:, :q])
        theta = np.concatenate((kernel_theta, points[:, q:]), axis=1)
        # draws from a prior may be where likelihoods overflow
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            if not with_slopes and isinstance(self.evidence, ExactEvidence):
                return self.evidence.values(theta), np.zeros(points.shape)
            values, slopes = self.evidence.values_and_gradients(theta)
        of_coordinates = self.candidate.coordinate_slopes(kernel_theta, slopes[:, :p])
        return values, np.concatenate((of_coordinates, slopes[:, p:]), axis=1)


# ---- Candidates of the same coordinates ----------------------------------------------


class Form:
    """Candidates that have the same coordinates, such as families of a kernel.

    They share the covariance and the size of Langevin steps.

    Parameters
    ----------
    posteriors : dict of int to LogPosterior
        By the position of the candidate.
    n_coordinates : int
        q, of kernel and likelihood.

    Attributes
    ----------
    root : ndarray of shape (q, q)
        Lower triangular R; ``R Rᵀ`` is the covariance of the population.
    step_size : float
        ε, in the coordinates whitened by R.
    """

    def __init__(self, posteriors: dict[int, LogPosterior], n_coordinates: int):
        self.posteriors = posteriors
        self.root = np.zeros((n_coordinates, n_coordinates))
        self.step_size = _FIRST_STEP * max(n_coordinates, 1) ** (-1.0 / 6.0)

    def evaluate(self, owner: Index, points: Array) -> Particles:
        """Log densities of points (s, q) of these candidates, sorted by their owner."""
        blocks = [
            self.posteriors[position].evaluate(position, points[owner == position])
            for position in np.unique(owner).tolist()
        ]
        return Particles.joined(blocks)

    def learn_covariance(self, points: Array, weights: Array) -> None:
        """Covariance of weighted points, between which the next steps go.

        The fewer points have weight, the more of the last covariance remains, and the
        smaller are the correlations.
        """
        has_weight = weights > 0.0
        points = points[has_weight]
        shares = weights[has_weight] / weights.sum()
        n_effective = 1.0 / float(np.sum(shares**2))
        residuals = points - shares @ points
        covariance = (residuals.T * shares) @ residuals
        share = n_effective / (n_effective + _COVARIANCE_WEIGHT)
        covariance = share * covariance + (1.0 - share) * (self.root @ self.root.T)
        q = len(covariance)
        correlation_share = n_effective / (n_effective + q)
        is_diagonal = np.eye(q, dtype=bool)
        covariance = np.where(is_diagonal, covariance, correlation_share * covariance)
        is_fixed = is_diagonal & (covariance <= 0.0)
        self.root = cholesky(np.where(is_fixed, _LEAST_VARIANCE, covariance)).L

    def walk(
        self,
        particles: Particles,
        beta: float,
        n_steps: int,
        rng: Generator,
    ) -> tuple[Particles, float]:
        """Metropolis-adjusted Langevin steps of chains that start at particles.

        ``θ' = θ + R (½ ε² Rᵀ ∇ log π_β(θ) + ε z)``, z standard normal. Steps become
        longer where more proposals are accepted than should be.

        Returns
        -------
        states : Particles
            All states of all chains after their start.
        step_size : float
            The last ε.
        """
        root = self.root
        epsilon = self.step_size
        states = []
        for _ in range(n_steps):
            z = rng.standard_normal(particles.points.shape)
            drift = 0.5 * epsilon**2 * (particles.slopes(beta) @ root)
            moves = drift + epsilon * z
            points = particles.points + moves @ root.T
            proposed = self.evaluate(particles.owner, points)
            proposed = proposed._replace(log_weight=particles.log_weight)
            # log q(θ | θ') - log q(θ' | θ) = ½ (|z|² - |z'|²)
            back_drift = 0.5 * epsilon**2 * (proposed.slopes(beta) @ root)
            back = -(moves + back_drift) / epsilon
            log_ratio = proposed.log_densities(beta) - particles.log_densities(beta)
            log_ratio += 0.5 * np.sum(z**2 - back**2, axis=1)
            accepts = -rng.standard_exponential(len(z)) < log_ratio
            particles = particles.moved(proposed, accepts)
            states.append(particles)
            epsilon *= float(np.exp(_ADAPTATION * (np.mean(accepts) - _ACCEPTED)))
        return Particles.joined(states), epsilon


def forms_of(
    candidates: Sequence[Candidate],
    rows: Rows,
    likelihood: Likelihood,
) -> list[Form]:
    """Forms of the candidates, in the order of the first candidate of each."""
    positions: dict[tuple[bool, ...], list[int]] = {}
    for position, candidate in enumerate(candidates):
        coordinates = tuple(candidate.is_length_scale.tolist())
        positions.setdefault(coordinates, []).append(position)
    forms = []
    for coordinates, members in positions.items():
        posteriors = {
            position: LogPosterior(candidates[position], rows, likelihood)
            for position in members
        }
        forms.append(Form(posteriors, len(coordinates) + len(likelihood.theta)))
    return forms


# ---- The population ------------------------------------------------------------------

Population: TypeAlias = list[tuple[Form, Particles]]


def draws_from_priors(
    forms: Sequence[Form],
    number: int,
    rng: Generator,
) -> Population:
    """About so many draws, as many from the prior of each candidate.

    Forms of which no draw has a density are left out. Roots are those of the draws.
    """
    n_candidates = sum(len(form.posteriors) for form in forms)
    share = -(-number // n_candidates)
    population = []
    for form in forms:
        draws = []
        for position, posterior in sorted(form.posteriors.items()):
            points = posterior.candidate.draw_prior(share, posterior.likelihood, rng)
            draws.append(posterior.evaluate(position, points))
        particles = Particles.joined(draws)
        has_density = np.isfinite(particles.log_evidence)
        if np.any(has_density):
            form.root = np.diag(np.std(particles.points[has_density], axis=0))
            population.append((form, particles))
    return population


def weighted_draws(
    population: Population,
    number: int,
    rng: Generator,
) -> Population:
    """Evenly weighted particles, at equal distances in the order of their owners."""
    everything = [particles for _, particles in population]
    log_weight = np.concatenate([group.log_weight for group in everything])
    weights = np.exp(log_weight - log_weight.max())
    owner = np.concatenate([group.owner for group in everything])
    order = np.argsort(owner, kind="stable")
    chosen = order[_systematic(weights[order], number, rng)]
    draws = []
    first = 0
    for form, particles in population:
        last = first + len(particles.owner)
        positions = chosen[(first <= chosen) & (chosen < last)] - first
        if len(positions):
            draws.append((form, particles.take(positions)))
        first = last
    return draws


def effective_size(population: Population) -> float:
    """Effective size of the weights, zero if no particle has any."""
    if not population:
        return 0.0
    log_weight = np.concatenate([particles.log_weight for _, particles in population])
    if not np.any(np.isfinite(log_weight)):
        return 0.0
    weights = np.exp(log_weight - log_weight.max())
    return float(weights.sum() ** 2 / np.sum(weights**2))


def anneal(
    population: Population,
    n_chains: int,
    n_steps: int,
    rng: Generator,
    n_jobs: int | None = None,
) -> Population:
    """Move draws from the priors to the posterior.

    Parameters
    ----------
    population : list of (Form, Particles)
    n_chains, n_steps, rng, n_jobs
        Of `move`, at every power of the evidence.

    Returns
    -------
    population : list of (Form, Particles)
        Weighted draws from the posterior, `n_chains * n_steps` in total.
    """
    beta = 0.0
    while population and beta < 1.0:
        # weights π_β' / π_β
        next_beta = _next_power(population, beta)
        population = [
            (form, particles.reweighted((next_beta - beta) * particles.log_evidence))
            for form, particles in population
        ]
        beta = next_beta
        population = move(population, beta, n_chains, n_steps, rng, n_jobs)
    return population


def move(
    population: Population,
    beta: float,
    n_chains: int,
    n_steps: int,
    rng: Generator,
    n_jobs: int | None = None,
) -> Population:
    """Resample weighted particles; all states of Langevin steps are the next ones.

    Half of the chains go to candidates by their probabilities, and half evenly: a
    candidate that is improbable on the way may be probable in the end.

    Parameters
    ----------
    population : list of (Form, Particles)
        Draws of `beta`. Roots and step sizes of the forms are changed.
    beta : float
        Power of the evidence.
    n_chains : int
        Particles that are resampled, of all candidates together.
    n_steps : int
        Langevin steps of each.
    rng : numpy.random.Generator
    n_jobs : int or None
        Blocks of chains side by side, see :func:`skgpx._shell.parallel.side_by_side`.

    Returns
    -------
    population : list of (Form, Particles)
        Without forms that have no particle left.
    """
    # 1 probabilities of the candidates, and resampled particles
    owner = np.concatenate([particles.owner for _, particles in population])
    log_weight = np.concatenate([particles.log_weight for _, particles in population])
    weights = np.exp(log_weight - log_weight.max())
    weights /= weights.sum()
    probabilities = np.bincount(owner, weights).astype(np.float64)
    chances = weights * _allocation(probabilities)[owner]
    ancestors = _systematic(chances, n_chains, rng)
    n_ancestors = np.bincount(owner[ancestors], minlength=len(probabilities))
    shares = probabilities / np.maximum(n_ancestors, 1) / n_steps
    # 2 the covariance of each form, and blocks of its chains
    tasks = []
    survivors = []
    first = 0
    for form, particles in population:
        last = first + len(particles.owner)
        chosen = ancestors[(first <= ancestors) & (ancestors < last)] - first
        own_chances = chances[first:last]
        first = last
        if not len(chosen):
            continue
        form.learn_covariance(particles.points, own_chances)
        chains = particles.take(chosen)
        chains = chains._replace(log_weight=np.log(shares[chains.owner]))
        # chains of one task each, sorted by their owner: the same for any `n_jobs`
        order = np.argsort(chains.owner, kind="stable")
        posterior = next(iter(form.posteriors.values()))
        size = len(order)
        if len(posterior.evidence.rows.y) >= FEWEST_PARALLEL:
            size = _BLOCK
        blocks = [chains.take(order[i : i + size]) for i in range(0, len(order), size)]
        rngs = rng.spawn(len(blocks))
        for block, block_rng in zip(blocks, rngs, strict=True):
            tasks.append((form, block, beta, n_steps, block_rng))
        survivors.append((form, len(blocks)))
    # 3 Langevin steps
    walks = iter(side_by_side(Form.walk, tasks, n_jobs))
    moved = []
    for form, n_blocks in survivors:
        states, step_sizes = zip(*islice(walks, n_blocks), strict=True)
        form.step_size = float(np.exp(np.mean(np.log(step_sizes))))
        moved.append((form, Particles.joined(states)))
    return moved


def _next_power(population: Population, beta: float) -> float:
    """The power at which three quarters of the effective size are left, one at most.

    That of all candidates together, as if they were as probable as each other.
    """
    owner = np.concatenate([particles.owner for _, particles in population])
    gain = np.concatenate([particles.log_evidence for _, particles in population])
    is_finite = np.isfinite(gain)
    gain = gain[is_finite]
    owner = owner[is_finite]
    largest = np.full(owner.max() + 1, -np.inf)
    np.maximum.at(largest, owner, gain)
    deficit = gain - largest[owner]
    numbers = np.bincount(owner)

    def is_near_enough(power: float) -> bool:
        terms = np.exp((power - beta) * deficit)
        means = np.bincount(owner, terms) / np.maximum(numbers, 1)
        weights = terms / means[owner]
        share = np.mean(weights) ** 2 / np.mean(weights**2)
        return bool(share >= _EFFECTIVE_SHARE)

    if is_near_enough(1.0):
        return 1.0
    low = beta
    high = 1.0
    for _ in range(_MOST_BISECTIONS):
        middle = 0.5 * (low + high)
        if is_near_enough(middle):
            low = middle
        else:
            high = middle
    return high


def _allocation(probabilities: Array) -> Array:
    """Chains of each candidate, divided by its probability; hopeless ones have none."""
    is_possible = probabilities > _LEAST_PROBABILITY
    shares = is_possible / np.sum(is_possible)
    allotted = (1.0 - _EVEN_SHARE) * probabilities + _EVEN_SHARE * shares
    factors = np.zeros(len(probabilities))
    factors[is_possible] = allotted[is_possible] / probabilities[is_possible]
    return factors


def _systematic(
    weights: Array,
    number: int,
    rng: Generator,
) -> Index:
    """Systematic resampling: positions of `number` draws, in increasing order."""
    places = (np.arange(number) + rng.random()) / number
    cumulative = np.cumsum(weights)
    positions = np.searchsorted(cumulative / cumulative[-1], places)
    return np.minimum(positions, len(weights) - 1)
