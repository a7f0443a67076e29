"""Laplace's approximations at the modes of the posterior of the hyperparameters.

The posterior of some hundred rows is nearly normal around the mode of each candidate.
Importance weights correct the approximations.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import gammaincinv, gammaln, logsumexp, ndtri
from scipy.stats import qmc

from skgpx._hyperparameters._annealing import (
    Form,
    LogPosterior,
    Particles,
    Population,
)
from skgpx._hyperparameters._maximise import State
from skgpx._numerics.linalg import cholesky, log_determinant, solve_lower
from skgpx._shell.parallel import side_by_side
from skgpx._types import Array, Generator, Index

# Noise of functions without noise, where searches start, in variances of y.
NO_NOISE = 1e-6
# The proposal: degrees of freedom, factor of the covariances, and the share of the
# draws that is spread evenly over the modes.
_DEGREES = 5.0
_INFLATION = 1.2
_EVEN_SHARE = 0.2
# Differences of gradients for the Hessian, in logarithms.
_DIFFERENCE = 1e-3
# Standard deviation of a logarithm that has no normal prior.
_WIDEST_STD = 2.0
# Of one whose bounds are equal.
_LEAST_STD = 1e-8


# ---- The approximations --------------------------------------------------------------


class Mode(NamedTuple):
    """Laplace's approximation at a mode of a candidate's log posterior.

    Coordinates at a bound are independent of the others, on one side of it.

    Attributes
    ----------
    owner : int
        Position of the candidate.
    point : ndarray of shape (q,)
    root : ndarray of shape (q, q)
        Lower triangular R with ``R Rᵀ = H⁻¹``, H the Hessian of the negative log
        posterior.
    log_posterior : float
        At the mode, in nats.
    inward : ndarray of shape (q,)
        1 at a lower bound, -1 at an upper one, 0 between them.
    """

    owner: int
    point: Array
    root: Array
    log_posterior: float
    inward: Array

    @classmethod
    def at(cls, result: State, posterior: LogPosterior, owner: int) -> Mode:
        """Laplace's approximation where a search arrived; q + 1 gradients.

        No direction has less than half the precision of the priors and bounds. At a
        bound the density decays by its slope g: ``h + g²`` stands for its curvature h.
        """
        point = result.point
        low, high = posterior.bounds.T
        steps = np.where(point + _DIFFERENCE <= high, _DIFFERENCE, -_DIFFERENCE)
        points = np.concatenate((point[np.newaxis], point + np.diag(steps)))
        particles = posterior.evaluate(owner, points)
        slopes = particles.slopes(1.0)
        H = (slopes[0] - slopes[1:]) / steps[:, np.newaxis]
        is_lowest = (point - low < _DIFFERENCE) & (slopes[0] < 0.0)
        is_highest = (high - point < _DIFFERENCE) & (slopes[0] > 0.0)
        inward = is_lowest.astype(np.float64) - is_highest
        is_at_bound = inward != 0.0
        is_alone = is_at_bound | is_at_bound[:, np.newaxis]
        H = np.where(is_alone, np.diag(np.diag(H) + slopes[0] ** 2), H)
        # in units of the widest normal distribution of each coordinate
        std = np.full(len(point), _WIDEST_STD)
        is_normal = np.isfinite(result.candidate.std)
        std[: len(is_normal)][is_normal] = result.candidate.std[is_normal]
        width = high - low
        std = np.clip(std, _LEAST_STD, np.maximum(width / np.sqrt(12.0), _LEAST_STD))
        H = 0.5 * (H + H.T) * np.outer(std, std)
        eigenvalues, vectors = np.linalg.eigh(H)
        eigenvalues = np.maximum(eigenvalues, 0.5)
        covariance = (vectors / eigenvalues) @ vectors.T * np.outer(std, std)
        return cls(
            owner=owner,
            point=point,
            root=cholesky(0.5 * (covariance + covariance.T), jitter=0.0).L,
            log_posterior=float(particles.log_densities(1.0)[0]),
            inward=inward,
        )

    @property
    def units(self) -> Array:
        """``H_ii^(-1/2)``: widths of each coordinate with the others fixed, (q,)."""
        inverse_root = solve_lower(self.root, np.eye(len(self.point)))
        return 1.0 / np.linalg.norm(inverse_root, axis=0)

    @property
    def log_mass(self) -> float:
        """Laplace's evidence, ``log π(θ*) + ½ q log 2π - ½ log det H``.

        Half of it for each coordinate at a bound.
        """
        log_volume = 0.5 * len(self.point) * np.log(2.0 * np.pi)
        log_volume -= self._n_at_bounds * np.log(2.0)
        return float(self.log_posterior + log_volume + 0.5 * log_determinant(self.root))

    @property
    def _n_at_bounds(self) -> int:
        return int(np.count_nonzero(self.inward))

    def draws(self, number: int, rng: Generator) -> Array:
        """Draws (s, q) from the t-distribution of scale ``√1.2 R``, evenly spread [1]_.

        References
        ----------
        .. [1] Owen, "Scrambled net variance for integrals of smooth functions", Annals
           of Statistics 1997.
        """
        q = len(self.point)
        net = qmc.Sobol(q + 1, seed=rng).random_base2(int(number - 1).bit_length())
        uniform = np.clip(net[:number], 1e-12, 1.0 - 1e-12)
        z = ndtri(uniform[:, :q])
        chi_square = 2.0 * gammaincinv(0.5 * _DEGREES, uniform[:, q])
        spread = np.sqrt(_INFLATION * _DEGREES / chi_square)
        steps = spread[:, np.newaxis] * (z @ self.root.T)
        # folded at bounds
        steps = np.where(self.inward == 0.0, steps, self.inward * np.abs(steps))
        return self.point + steps

    def log_densities(self, points: Array) -> Array:
        """Log densities (s,) of its draws."""
        q = len(self.point)
        white = solve_lower(self.root, (points - self.point).T)
        squares = np.sum(white**2, axis=0) / (_INFLATION * _DEGREES)
        constant = gammaln(0.5 * (_DEGREES + q)) - gammaln(0.5 * _DEGREES)
        constant -= 0.5 * q * np.log(np.pi * _INFLATION * _DEGREES)
        constant -= 0.5 * log_determinant(self.root)
        constant += self._n_at_bounds * np.log(2.0)
        return constant - 0.5 * (_DEGREES + q) * np.log1p(squares)


def modes_of(
    results: Sequence[State],
    forms: Sequence[Form],
    n_jobs: int | None,
) -> list[Mode]:
    """Laplace's approximations at the results of searches.

    Candidates of the forms are at the positions of their results.
    """
    posteriors: dict[int, LogPosterior] = {}
    for form in forms:
        posteriors |= form.posteriors
    tasks = [(result, posteriors[owner], owner) for owner, result in enumerate(results)]
    return side_by_side(Mode.at, tasks, n_jobs)


def draws_near(
    modes: Sequence[Mode],
    forms: Sequence[Form],
    number: int,
    rng: Generator,
    n_jobs: int | None,
) -> Population:
    """Draws from the mixture of all modes, with their importance weights, no slopes.

    Modes are drawn by Laplace's evidence, and a part evenly. No weight counts more than
    √number times the mean: a single draw must not decide [1]_.

    Parameters
    ----------
    modes : sequence of Mode
    forms : sequence of Form
        Of all rows. Their steps go as far as their most probable mode is wide.
    number : int
    rng : numpy.random.Generator
    n_jobs : int or None

    References
    ----------
    .. [1] Ionides, "Truncated importance sampling", JCGS 2008.
    """
    # 1 shares of the modes
    log_masses = np.array([mode.log_mass for mode in modes])
    masses = np.exp(log_masses - logsumexp(log_masses))
    shares = (1.0 - _EVEN_SHARE) * masses + _EVEN_SHARE / len(modes)
    # 2 draws of each candidate, and their log posterior
    drawn: dict[int, list[Array]] = {}
    counts = np.maximum(np.rint(shares * number), 1.0)
    shares = counts / counts.sum()
    for mode, count in zip(modes, counts.astype(int).tolist(), strict=True):
        drawn.setdefault(mode.owner, []).append(mode.draws(count, rng))
    owners = sorted(drawn)
    posteriors: dict[int, LogPosterior] = {}
    for form in forms:
        posteriors |= form.posteriors
    draws = [
        (posteriors[owner], owner, np.concatenate(drawn[owner]), False)
        for owner in owners
    ]
    evaluated = side_by_side(LogPosterior.evaluate, draws, n_jobs)
    # 3 weights: the posterior in terms of the density of the mixture
    log_weights = []
    for owner, particles in zip(owners, evaluated, strict=True):
        log_densities = [
            np.log(share) + mode.log_densities(particles.points)
            for mode, share in zip(modes, shares, strict=True)
            if mode.owner == owner
        ]
        log_density = logsumexp(log_densities, axis=0)
        log_weights.append(particles.log_densities(1.0) - log_density)
    total = logsumexp(np.concatenate(log_weights))
    largest = total - 0.5 * np.log(number)
    weighted = {
        owner: particles._replace(log_weight=np.minimum(log_weight, largest))
        for owner, particles, log_weight in zip(
            owners, evaluated, log_weights, strict=True
        )
    }
    population = []
    for form in forms:
        own_modes = [mode for mode in modes if mode.owner in form.posteriors]
        groups = [weighted[owner] for owner in form.posteriors if owner in weighted]
        if groups:
            form.root = max(own_modes, key=lambda mode: mode.log_mass).root
            population.append((form, Particles.joined(groups)))
    return population


def in_order(population: Population) -> Population:
    """Draws of each candidate such that neighbours in the order are close together.

    Halves along the widest direction, and so on. Systematic resampling then takes
    draws evenly from everywhere.
    """
    ordered = []
    for form, particles in population:
        owners = np.unique(particles.owner)
        orders = [
            _bisected(particles.points, np.flatnonzero(particles.owner == owner))
            for owner in owners
        ]
        ordered.append((form, particles.take(np.concatenate(orders))))
    return ordered


def _bisected(points: Array, chosen: Index) -> Index:
    """Positions of the chosen points in the order of a tree of halves."""
    if len(chosen) < 3:
        return chosen
    members = points[chosen]
    widest = np.argmax(np.var(members, axis=0))
    order = chosen[np.argsort(members[:, widest])]
    middle = len(order) // 2
    halves = (_bisected(points, order[:middle]), _bisected(points, order[middle:]))
    return np.concatenate(halves)
