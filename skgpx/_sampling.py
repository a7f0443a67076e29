"""From a target to particles: starts, rounds of steps, convergence."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics import langevin, laplace, smc
from skgpx._numerics.diagnostics import effective_sample_size, split_r_hat
from skgpx._numerics.langevin import Chains, Scheme, Target, Trace
from skgpx._parallel import parallel_map

Array = NDArray[np.float64]
Report = Callable[["Sample"], bool]

# Steps between two looks at the convergence.
ROUND = 10
_PILOT_STEPS = 3
CORRELATED = (
    tuple(langevin.ornstein_uhlenbeck(rho) for rho in (0.3, 0.6, 0.8, 0.9)),
    tuple(langevin.ornstein_uhlenbeck(rho) for rho in (0.97, 0.99, 0.997, 0.999)),
)
ADJUSTED = (
    tuple(langevin.euler_maruyama(h, metropolis=True) for h in (0.8, 0.4, 0.2, 0.1)),
    tuple(langevin.euler_maruyama(h, metropolis=True) for h in (0.03, 0.01, 0.003)),
)
# Sequential Monte Carlo: effective fraction kept by each temperature; moves after it.
_KEPT = 0.8
_MOVES = 6
_MAX_TEMPERATURES = 500
_FINAL_MOVES = 4 * ROUND


class Sample(NamedTuple):
    """Particles and what is known of how they were made.

    Attributes
    ----------
    z : ndarray of shape (g, p, s)
        Particles in the coordinates of the target.
    acceptance : float
        Accepted fraction of the proposals; 1 without a Metropolis test.
    r_hat, ess : ndarray of shape (g * p,)
        Split R-hat of each coordinate, and the effective number of states among all.
    energy_curve : ndarray of shape (n_rounds,)
        Mean potential of the particles after each round, up to a constant.
    n_iter : int
        Steps of each chain.
    stopped : bool
        Whether somebody who was told of the rounds ended them.
    """

    z: Array
    acceptance: float
    r_hat: Array
    ess: Array
    energy_curve: Array
    n_iter: int
    stopped: bool = False


def _blocks(n_particles: int) -> list[slice]:
    """Chains that share matrix products; the same whatever the number of workers."""
    size = 50 if n_particles <= 200 else 100
    return [slice(i, min(i + size, n_particles)) for i in range(0, n_particles, size)]


def run_chains(
    target: Target,
    z: Array,
    scheme: Scheme,
    rng: np.random.Generator,
    *,
    max_iter: int,
    tol: float,
    n_jobs: int | None,
    report: Report | None = None,
) -> Sample:
    """Move chains in rounds until split R-hat is at most `tol`.

    Parameters
    ----------
    target : Target
    z : ndarray of shape (g, p, s)
        Where the chains start.
    scheme : Scheme
    rng : numpy.random.Generator
        Each block of chains gets a stream of its own for each round.
    max_iter : int
        Largest number of steps, rounded up to two rounds at least.
    tol : float
    n_jobs : int or None
    report : callable, optional
        Told of each round; True stops the chains.
    """
    blocks = _blocks(z.shape[2])
    states = parallel_map(
        langevin.start, [(target, z[:, :, b]) for b in blocks], n_jobs
    )
    n_rounds = max(2, -(-max_iter // ROUND))
    traces: list[Trace] = []
    curve: list[float] = []
    sample = Sample(z, 0.0, np.full(1, np.inf), np.full(1, np.nan), np.empty(0), 0)
    for _ in range(n_rounds):
        streams = rng.spawn(len(blocks))
        items = [
            (target, state, scheme, ROUND, stream)
            for state, stream in zip(states, streams, strict=True)
        ]
        moved = parallel_map(langevin.advance, items, n_jobs)
        states = [chains for chains, _ in moved]
        traces.append(_join([trace for _, trace in moved]))
        curve.append(float(np.concatenate([state.energy for state in states]).mean()))
        sample = _summary(states, traces, np.array(curve))
        stopped = report is not None and report(sample)
        if stopped:
            return sample._replace(stopped=True)
        if np.max(sample.r_hat) <= tol or not np.isfinite(curve[-1]):
            break
    return sample


def _join(traces: list[Trace]) -> Trace:
    return Trace(*(np.concatenate(parts, axis=-1) for parts in zip(*traces)))  # noqa: B905


def _summary(states: list[Chains], traces: list[Trace], curve: Array) -> Sample:
    """Diagnose the rounds after the first quarter, an even number of them."""
    z = np.concatenate([state.z for state in states], axis=2)
    n = len(traces)
    accepted = np.sum([trace.accepted for trace in traces], axis=0)
    acceptance = float(accepted.mean() / (n * ROUND))
    if n < 2:
        unknown = np.full(z[:, :, 0].size, np.nan)
        return Sample(z, acceptance, unknown + np.inf, unknown, curve, n * ROUND)
    half = max(1, (3 * n // 4) // 2)
    halves = [traces[n - 2 * half : n - half], traces[n - half :]]
    totals = np.stack([np.sum([t.total for t in part], axis=0) for part in halves])
    squares = np.stack([np.sum([t.square for t in part], axis=0) for part in halves])
    shape = (2, -1, z.shape[2])
    sums = totals.reshape(shape), squares.reshape(shape), half * ROUND
    r_hat, ess = split_r_hat(*sums), effective_sample_size(*sums)
    return Sample(z, acceptance, r_hat, ess, curve, n * ROUND)


def adapt(
    target: Target,
    z: Array,
    schemes: tuple[tuple[Scheme, ...], ...],
    rng: np.random.Generator,
    temperature: float = 1.0,
) -> Scheme:
    """The scheme that moves farthest in a short trial of one block of chains.

    Maximises acceptance times drift over the schemes of a tier, and goes on to the
    next tier, of smaller steps, where nearly nothing is accepted.
    """
    chains = langevin.start(target, z[:, :, _blocks(z.shape[2])[0]], temperature)
    best, best_score = schemes[-1][-1], 0.0
    for tier in schemes:
        for scheme in tier:
            stream = rng.spawn(1)[0]
            _, trace = langevin.advance(
                target, chains, scheme, _PILOT_STEPS, stream, temperature
            )
            score = trace.accepted.mean() / _PILOT_STEPS * scheme.drift
            if score > best_score:
                best, best_score = scheme, score
        if best_score > 0.01:
            break
    return best


class Tempered(NamedTuple):
    """Result of tempered sequential Monte Carlo.

    Attributes
    ----------
    sample : Sample
        Diagnostics are those of the moves at the end.
    log_evidence : float
        Estimate of the log normalising constant over the prior, up to the terms of
        the likelihood that are constant in f.
    temperatures : ndarray of shape (t,)
        From above 0 to 1.
    """

    sample: Sample
    log_evidence: float
    temperatures: Array


def run_smc(
    target: Target,
    n_particles: int,
    rng: np.random.Generator,
    *,
    n_jobs: int | None,
    report: Report | None = None,
) -> Tempered:
    """Carry particles from the prior to the posterior, mode weights included.

    The likelihood is raised to powers β that rise from 0 to 1 as fast as an effective
    sample size of 80 % allows. After each rise the particles are resampled and moved
    by Ornstein-Uhlenbeck Metropolis steps preconditioned with the Hessian at β, whose
    curvatures are averaged over the particles.
    """
    m, c = target.features.shape[1], target.n_outputs
    p = m * c
    w = rng.standard_normal((1, p, n_particles))
    beta, log_evidence, temperatures = 0.0, 0.0, []
    local = target._replace(centre=np.zeros((1, p)), root=np.eye(p)[np.newaxis])
    for _ in range(_MAX_TEMPERATURES):
        nll = _data_energy(local, w, n_jobs)
        new = smc.next_temperature(nll, beta, _KEPT)
        chosen, log_ratio = smc.resample(nll, new - beta, rng)
        w, beta, log_evidence = w[:, :, chosen], new, log_evidence + log_ratio
        temperatures.append(beta)
        weights = w.reshape(c, m, -1).transpose(1, 0, 2)
        root = laplace.tempered_root(local, weights, beta).reshape(1, p, p)
        w = root[0] @ _move(local, root, w, beta, rng, n_jobs)
        if beta >= 1.0:
            break
    final = local._replace(root=root)
    z = np.linalg.solve(root[0], w[0])[np.newaxis]
    scheme = adapt(final, z, CORRELATED, rng)
    sample = run_chains(
        final, z, scheme, rng,
        max_iter=_FINAL_MOVES, tol=0.0, n_jobs=n_jobs, report=report,
    )  # fmt: skip
    weights = langevin.weights_of(final, sample.z)
    sample = sample._replace(z=weights.transpose(1, 0, 2).reshape(1, p, -1))
    return Tempered(sample, log_evidence, np.array(temperatures))


def _data_energy(target: Target, w: Array, n_jobs: int | None) -> Array:
    """Negative log-likelihood of particles w (1, p, s), up to a constant, (s,)."""
    items = [(target, w[:, :, block]) for block in _blocks(w.shape[2])]
    states = parallel_map(langevin.start, items, n_jobs)
    energy = np.concatenate([state.energy for state in states])
    nll: Array = energy - 0.5 * np.sum(w**2, axis=(0, 1))
    return nll


def _move(
    target: Target,
    root: Array,
    w: Array,
    beta: float,
    rng: np.random.Generator,
    n_jobs: int | None,
) -> Array:
    """A few steps at temperature β; particles in the coordinates of the root."""
    local = target._replace(root=root)
    z = np.linalg.solve(root[0], w[0])[np.newaxis]
    scheme = adapt(local, z, CORRELATED, rng, beta)
    blocks = _blocks(z.shape[2])
    items = [
        (local, z[:, :, block], scheme, stream, beta)
        for block, stream in zip(blocks, rng.spawn(len(blocks)), strict=True)
    ]
    return np.concatenate(parallel_map(_move_block, items, n_jobs), axis=2)


def _move_block(
    target: Target, z: Array, scheme: Scheme, rng: np.random.Generator, beta: float
) -> Array:
    chains = langevin.start(target, z, beta)
    return langevin.advance(target, chains, scheme, _MOVES, rng, beta)[0].z
