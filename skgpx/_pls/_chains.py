"""From a start to particles: rounds of Langevin steps until split R-hat is small."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics import langevin, laplace
from skgpx._numerics.langevin import (
    Chains,
    Scheme,
    Target,
    Trace,
    effective_sample_size,
    split_r_hat,
)
from skgpx._numerics.smoothing import smoothed
from skgpx._parallel import parallel_map, workers

Array = NDArray[np.float64]
Report = Callable[["Sample"], bool]
Tiers = tuple[tuple[Scheme, ...], ...]

# Steps between the first two checks of convergence.
ROUND = 10
# Chains that try steps: fewer do not tell which goes farther.
_TRIAL_CHAINS = 100
# Acceptance times mobility of chains that need no other coordinates.
LIVELY = 0.1

_MALA = (0.8, 0.4, 0.2, 0.1), (0.03, 0.01, 0.003)
# Steps that are tried, those of the next tier only if hardly any proposal is accepted.
CORRELATED: Tiers = (
    (
        *(langevin.ornstein_uhlenbeck(rho) for rho in (0.3, 0.6, 0.8, 0.9)),
        *(langevin.trajectory(*one) for one in ((0.9, 2), (0.6, 3), (0.4, 4))),
    ),
    tuple(langevin.ornstein_uhlenbeck(rho) for rho in (0.97, 0.99, 0.997, 0.999)),
)
ADJUSTED: Tiers = tuple(
    tuple(langevin.euler_maruyama(h, metropolis=True) for h in tier) for tier in _MALA
)
LOCAL: Tiers = tuple(tuple(langevin.without_centre(h) for h in tier) for tier in _MALA)


class Sample(NamedTuple):
    """Particles and the diagnostics of the chains that produced them.

    Attributes
    ----------
    z : ndarray of shape (g, p, s)
        Particles in the coordinates of the target.
    acceptance : float
        Accepted fraction of the proposals; 1 without a Metropolis test.
    r_hat, ess : ndarray of shape (g * p,)
        Split R-hat of each coordinate, and the effective number of independent states.
    energy_curve : ndarray of shape (n_rounds,)
        Mean potential of the particles after each round, up to a constant.
    n_iter : int
        Evaluations of the gradient by each chain; one for a single step.
    stopped : bool
        Whether a callback ended the chains.
    """

    z: Array
    acceptance: float
    r_hat: Array
    ess: Array
    energy_curve: Array
    n_iter: int
    stopped: bool = False


def chain_blocks(n_particles: int, size: int = 50) -> list[slice]:
    """Chains that share matrix products; the same whatever the number of workers.

    Narrower products are slower by a third.
    """
    starts = range(0, n_particles, size)
    return [slice(i, min(i + size, n_particles)) for i in starts]


def run_chains(
    target: Target,
    z: Array,
    scheme: Scheme,
    rng: np.random.Generator,
    *,
    max_iter: int,
    tol: float,
    n_jobs: int | None,
    adaptive: bool = False,
    report: Report | None = None,
) -> Sample:
    """Move chains in rounds until split R-hat is at most `tol`.

    R-hat is that of the last three quarters of the run. Only the sums of at most 32
    stretches of equal length are kept: then neighbours are added, and rounds become
    twice as long.

    Parameters
    ----------
    target : Target
    z : ndarray of shape (g, p, s)
        Where the chains start.
    scheme : Scheme
    rng : numpy.random.Generator
        Each block of chains gets a stream of its own for each round.
    max_iter : int
        Largest number of evaluations of the gradient by each chain, at least two
        rounds being made.
    tol : float
    n_jobs : int or None
    adaptive : bool, default=False
        After round 1, 2, 4, 8, ... halve the step if most chains hardly moved, and make
        one step in five a short one if some did not move, where the curvature is large:
        adaptation becomes ever rarer, so the chains converge to the target.
    report : callable, optional
        Called with the sample after each round; True stops the chains.
    """
    short: Scheme | None = None
    n_steps = n_iter = n_rounds = 0
    accepted, length, curve = 0.0, ROUND, np.empty(0)
    stretches: list[Trace] = []
    with workers(n_jobs, target) as each:
        starts = [(z[:, :, block],) for block in chain_blocks(z.shape[2])]
        states: list[Chains] = each(langevin.start, starts)
        while True:
            few = length // 5 if short else 0
            parts = [(scheme, length - few), *([(short, few)] if short else [])]
            states, trace = _round(each, states, parts, rng)
            stretches.append(trace)
            n_rounds, n_steps = n_rounds + 1, n_steps + length
            n_iter += sum(one.cost * n for one, n in parts)
            share, accepted = trace.accepted / length, accepted + trace.accepted.mean()
            if adaptive and n_rounds & (n_rounds - 1) == 0:
                scheme, short = _adapted(scheme, short, np.sort(share))
            if len(stretches) == 32:
                pairs = zip(stretches[::2], stretches[1::2], strict=True)
                stretches, length = [_sum(pair) for pair in pairs], 2 * length
            energy = np.concatenate([state.energy for state in states])
            curve = np.append(curve, energy.mean())
            z = np.concatenate([state.z for state in states], axis=2)
            r_hat, ess = (
                np.full(z[:, :, 0].size, np.inf),
                np.full(z[:, :, 0].size, np.nan),
            )
            if n_rounds > 1:
                k = max(1, 3 * len(stretches) // 8)
                halves = _sum(stretches[-2 * k : -k]), _sum(stretches[-k:])
                shape = (2, -1, z.shape[2])
                totals = np.stack([one.total for one in halves]).reshape(shape)
                squares = np.stack([one.square for one in halves]).reshape(shape)
                sums = totals, squares, k * length
                r_hat, ess = split_r_hat(*sums), effective_sample_size(*sums)
            sample = Sample(z, accepted / n_steps, r_hat, ess, curve, n_iter)
            if report is not None and report(sample):
                return sample._replace(stopped=True)
            enough = n_iter >= max(max_iter, 2 * ROUND) or np.max(r_hat) <= tol
            if enough or not np.all(np.isfinite(z)):
                return sample


def _adapted(
    scheme: Scheme,
    short: Scheme | None,
    share: Array,
) -> tuple[Scheme, Scheme | None]:
    """Smaller steps, and short ones besides, for sorted shares of accepted proposals.

    Half the step if most chains hardly moved, and a short one if a hundredth did not.
    """
    if share[len(share) // 2] < 0.03:
        return langevin.halve_step(scheme), short
    if share[len(share) // 100] < 0.03:
        less = short or langevin.halve_step(langevin.halve_step(scheme))
        return scheme, langevin.halve_step(langevin.one_leap(less))
    return scheme, short


def _sum(traces: Sequence[Trace]) -> Trace:
    """Statistics of several stretches together."""
    return Trace(*(np.sum(one, axis=0) for one in zip(*traces, strict=True)))


def _round(
    each: Callable[..., Any],
    states: list[Chains],
    parts: list[tuple[Scheme, int]],
    rng: np.random.Generator,
) -> tuple[list[Chains], Trace]:
    """Move all blocks of chains, each with a stream of its own."""
    streams = rng.spawn(len(states))
    items = [(one, parts, s) for one, s in zip(states, streams, strict=True)]
    moved, traces = zip(*each(_advance, items), strict=True)
    joined = (np.concatenate(t, axis=-1) for t in zip(*traces, strict=True))
    return list(moved), Trace(*joined)


def _advance(
    target: Target,
    chains: Chains,
    parts: list[tuple[Scheme, int]],
    rng: np.random.Generator,
) -> tuple[Chains, Trace]:
    """Move a block of chains by each of the schemes in turn."""
    traces = []
    for scheme, n_steps in parts:
        chains, trace = langevin.advance(target, chains, scheme, n_steps, rng)
        traces.append(trace)
    return chains, _sum(traces)


def adapt(
    target: Target,
    z: Array,
    schemes: Tiers,
    rng: np.random.Generator,
    temperature: float = 1.0,
    n_jobs: int | None = 1,
) -> tuple[Scheme, float]:
    """The scheme that moves farthest in three steps of at most a hundred chains.

    Maximises acceptance times mobility over the schemes of a tier, which are tried side
    by side, and tries the next tier, of smaller steps, if hardly any proposal is
    accepted. Returns the scheme and its acceptance times mobility.
    """
    chains = langevin.start(target, z[:, :, :_TRIAL_CHAINS], temperature)
    best, best_score = schemes[-1][-1], 0.0
    for tier in schemes:
        items = list(zip(tier, rng.spawn(len(tier)), strict=True))
        trial = target, chains, temperature
        # threads: to send the features takes longer than three steps
        acceptances = parallel_map(_acceptance, items, n_jobs, *trial, in_threads=True)
        for scheme, acceptance in zip(tier, acceptances, strict=True):
            score = acceptance * scheme.mobility
            if score > best_score:
                best, best_score = scheme, score
        if best_score > 0.01:
            break
    return best, float(best_score)


def _acceptance(
    target: Target,
    chains: Chains,
    temperature: float,
    scheme: Scheme,
    rng: np.random.Generator,
) -> float:
    """Share of the proposals that are accepted in three steps."""
    _, trace = langevin.advance(target, chains, scheme, 3, rng, temperature)
    return float(trace.accepted.mean()) / 3.0


def settle(
    target: Target,
    local: Target,
    z: Array,
    schemes: Tiers,
    rng: np.random.Generator,
    n_jobs: int | None,
) -> tuple[Target, Array, Scheme]:
    """Coordinates, chains and step adapted to the bulk of the posterior, not its mode.

    As long as the chains are slow, a short run is made, and the coordinates are rebuilt
    from the mean of the particles and the curvatures averaged over them. This handles
    posteriors that are much wider than the curvature at the mode suggests.

    Parameters
    ----------
    target, local : Target
        In the coordinates of the weights, and in those where the chains start.
    z : ndarray of shape (g, p, s)
    schemes
        See :func:`adapt`.
    rng : numpy.random.Generator
    n_jobs : int or None
    """
    how: dict[str, Any] = {"max_iter": 2 * ROUND, "tol": 0.0, "n_jobs": n_jobs}
    scheme, _ = adapt(local, z, schemes, rng, n_jobs=n_jobs)
    for _ in range(5):
        sample = run_chains(local, z, scheme, rng, **how)
        if sample.acceptance * scheme.mobility > LIVELY:
            return local, sample.z, scheme
        weights = langevin.weights_of(local, sample.z)
        root = laplace.tempered_root(smoothed(target), weights, 1.0)
        w = local.centre[:, :, np.newaxis] + local.root @ sample.z
        centre = w.mean(axis=2)
        local = langevin.in_coordinates(target, centre, root)
        away = w - centre[:, :, np.newaxis]
        z = np.asarray(np.linalg.solve(root, away), dtype=np.float64)
        scheme, _ = adapt(local, z, schemes, rng, n_jobs=n_jobs)
    return local, z, scheme
