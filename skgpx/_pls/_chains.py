"""From a target to particles: starts, rounds of steps, convergence."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics import langevin, laplace
from skgpx._numerics.diagnostics import effective_sample_size, split_r_hat
from skgpx._numerics.langevin import Chains, Scheme, Target, Trace
from skgpx._numerics.smoothing import smoothed
from skgpx._parallel import Workers, workers

Array = NDArray[np.float64]
Report = Callable[["Sample"], bool]

# Largest number of operations of a step of all chains, and fewest inducing points.
_STEP, _LEAST = 8e9, 100
# Steps between two checks of convergence.
ROUND = 10
# Chains per block: narrower matrix products are slower by a third.
_BLOCK = 100
_STRETCHES = 32
# Acceptance below which a chain counts as slow.
_SLOW = 0.03
_PILOT_STEPS = 3
# One step in so many is a short one where some chains would be stuck.
_SHORT_EVERY = 5
CORRELATED = (
    (
        *(langevin.ornstein_uhlenbeck(rho) for rho in (0.3, 0.6, 0.8, 0.9)),
        *(langevin.trajectory(*one) for one in ((0.9, 2), (0.6, 3), (0.4, 4))),
    ),
    tuple(langevin.ornstein_uhlenbeck(rho) for rho in (0.97, 0.99, 0.997, 0.999)),
)
ADJUSTED = (
    tuple(langevin.euler_maruyama(h, metropolis=True) for h in (0.8, 0.4, 0.2, 0.1)),
    tuple(langevin.euler_maruyama(h, metropolis=True) for h in (0.03, 0.01, 0.003)),
)
LOCAL = (
    tuple(langevin.without_centre(h) for h in (0.8, 0.4, 0.2, 0.1)),
    tuple(langevin.without_centre(h) for h in (0.03, 0.01, 0.003)),
)
# Largest number of preliminary runs, and the acceptance times mobility that ends them.
_SETTLING, LIVELY = 5, 0.1


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


def affordable_inducing(
    n: int, n_outputs: int, n_particles: int, needed: int = 0
) -> int:
    """Number of inducing points for n rows: ``3 √n`` within a budget, at least 100.

    More where so many are needed. A step of all chains takes ``4 n m n_particles
    n_outputs`` operations, at most 8e9: a third of a second of one core. Classes are
    coupled up to a limit.
    """
    step = int(_STEP / (4.0 * n * n_particles * n_outputs))
    most = [step] if n_outputs == 1 else [step, laplace.LARGEST_COUPLED // n_outputs]
    wanted = max(int(3.0 * np.sqrt(n)), needed)
    return min(n, max(min(wanted, *most), _LEAST))


def chain_blocks(n_particles: int) -> list[slice]:
    """Chains that share matrix products; the same whatever the number of workers."""
    starts = range(0, n_particles, _BLOCK)
    return [slice(i, min(i + _BLOCK, n_particles)) for i in starts]


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

    Parameters
    ----------
    target : Target
    z : ndarray of shape (g, p, s)
        Where the chains start.
    scheme : Scheme
    rng : numpy.random.Generator
        Each block of chains gets a stream of its own for each round.
    max_iter : int
        Largest number of steps, rounded up to at least two rounds.
    tol : float
    n_jobs : int or None
    adaptive : bool, default=False
        After round 1, 2, 4, 8, ... halve the step if most chains hardly moved, and add
        short steps if some did not move: adaptation becomes ever rarer, so the chains
        converge to the target.
    report : callable, optional
        Called with the sample after each round; True stops the chains.
    """
    with workers(n_jobs, target) as run:
        starts = [z[:, :, b] for b in chain_blocks(z.shape[2])]
        states = run(langevin.start, [(start,) for start in starts])
        how = max_iter, tol, adaptive, report
        return _rounds(run, states, z, scheme, rng, *how)


def _rounds(
    run: Workers,
    states: list[Chains],
    z: Array,
    scheme: Scheme,
    rng: np.random.Generator,
    max_iter: int,
    tol: float,
    adaptive: bool,
    report: Report | None,
) -> Sample:
    """Rounds of steps of blocks of chains, see :func:`run_chains`."""
    history, n_rounds, schedule = _History(), 0, _Schedule(scheme)
    sample = Sample(z, 0.0, np.full(1, np.inf), np.full(1, np.nan), np.empty(0), 0)
    while sample.n_iter < max(max_iter, 2 * ROUND):
        streams = rng.spawn(len(states))
        parts = schedule.parts(history.length)
        items = [
            (state, parts, stream)
            for state, stream in zip(states, streams, strict=True)
        ]
        moved = run(_advance, items)
        states = [chains for chains, _ in moved]
        history.append([trace for _, trace in moved], states, schedule.cost(parts))
        n_rounds += 1
        if adaptive and n_rounds & (n_rounds - 1) == 0:
            schedule = schedule.adapted(history)
        sample = history.summary(states)
        if report is not None and report(sample):
            return sample._replace(stopped=True)
        if np.max(sample.r_hat) <= tol or not np.all(np.isfinite(sample.z)):
            break
    return sample


class _Schedule(NamedTuple):
    """Steps of a round: those of one scheme, and some short ones if chains are stuck.

    Attributes
    ----------
    main : Scheme
    short : Scheme or None
        Every fifth step, if one chain in a hundred would not move otherwise: a chain is
        where the curvature is large, for instance where a class begins.
    """

    main: Scheme
    short: Scheme | None = None

    def parts(self, length: int) -> list[tuple[Scheme, int]]:
        """Schemes and their numbers of steps in a round."""
        if self.short is None:
            return [(self.main, length)]
        few = length // _SHORT_EVERY
        return [(self.main, length - few), (self.short, few)]

    @staticmethod
    def cost(parts: list[tuple[Scheme, int]]) -> int:
        """Evaluations of the gradient by each chain."""
        return sum(scheme.cost * n for scheme, n in parts)

    def adapted(self, history: _History) -> _Schedule:
        """Half the step if most chains hardly move; short ones besides if a few do."""
        if history.slow_chains(0.5):
            return _Schedule(langevin.halved(self.main), self.short)
        if not history.slow_chains(0.01):
            return self
        short = self.short or langevin.halved(langevin.halved(self.main))
        return self._replace(short=langevin.halved(langevin.single(short)))


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
    return chains, Trace(*(np.sum(one, axis=0) for one in zip(*traces, strict=True)))


class _History:
    """Running sums of the rounds so far, in at most 32 stretches of equal length.

    When there are 32, neighbours are added and rounds become twice as long: memory is
    bounded, and the number of diagnoses grows with the logarithm of the run's length.
    """

    def __init__(self) -> None:
        self.length = ROUND
        self._stretches: list[Trace] = []
        self._curve: list[float] = []
        self._accepted = np.zeros(1)
        self._n_iter = self._evaluations = 0
        self._last_accepted, self._last_length = np.zeros(1), 1

    def append(self, traces: list[Trace], states: list[Chains], cost: int) -> None:
        """Add a round of all blocks of chains, with `cost` evaluations a chain."""
        joined = Trace(
            *(np.concatenate(parts, axis=-1) for parts in zip(*traces, strict=True))
        )
        self._stretches.append(joined)
        self._accepted = self._accepted + joined.accepted
        self._last_accepted, self._last_length = joined.accepted, self.length
        self._n_iter += self.length
        self._evaluations += cost
        energies = np.concatenate([state.energy for state in states])
        self._curve.append(float(energies.mean()))
        if len(self._stretches) == _STRETCHES:
            pairs = zip(self._stretches[::2], self._stretches[1::2], strict=True)
            self._stretches = [
                Trace(*(a + b for a, b in zip(*pair, strict=True))) for pair in pairs
            ]
            self.length *= 2

    def slow_chains(self, fraction: float) -> bool:
        """Whether this fraction of the chains hardly moved in the last round."""
        accepted = np.sort(self._last_accepted) / self._last_length
        return bool(accepted[int(fraction * len(accepted))] < _SLOW)

    def summary(self, states: list[Chains]) -> Sample:
        """Diagnostics over the last three quarters, an even number of stretches."""
        z = np.concatenate([state.z for state in states], axis=2)
        acceptance = float(self._accepted.mean() / self._n_iter)
        curve, n = np.array(self._curve), len(self._stretches)
        if n < 2:
            unknown = np.full(z[:, :, 0].size, np.nan)
            return Sample(
                z,
                acceptance,
                np.full_like(unknown, np.inf),
                unknown,
                curve,
                self._evaluations,
            )
        half = max(1, (3 * n // 4) // 2)
        parts = self._stretches[n - 2 * half : n - half], self._stretches[n - half :]
        totals, squares = (
            np.stack([np.sum([t[i] for t in part], axis=0) for part in parts])
            for i in (1, 2)
        )
        shape = (2, -1, z.shape[2])
        sums = totals.reshape(shape), squares.reshape(shape), half * self.length
        r_hat, ess = split_r_hat(*sums), effective_sample_size(*sums)
        return Sample(z, acceptance, r_hat, ess, curve, self._evaluations)


def adapt(
    target: Target,
    z: Array,
    schemes: tuple[tuple[Scheme, ...], ...],
    rng: np.random.Generator,
    temperature: float = 1.0,
) -> tuple[Scheme, float]:
    """The scheme that moves farthest in a short trial of one block of chains.

    Maximises acceptance times mobility over the schemes of a tier, and tries the next
    tier, of smaller steps, if hardly any proposal is accepted. Returns the scheme and
    its acceptance times mobility.
    """
    chains = langevin.start(target, z[:, :, chain_blocks(z.shape[2])[0]], temperature)
    best, best_score = schemes[-1][-1], 0.0
    for tier in schemes:
        for scheme in tier:
            stream = rng.spawn(1)[0]
            _, trace = langevin.advance(
                target, chains, scheme, _PILOT_STEPS, stream, temperature
            )
            score = trace.accepted.mean() / _PILOT_STEPS * scheme.mobility
            if score > best_score:
                best, best_score = scheme, score
        if best_score > 0.01:
            break
    return best, float(best_score)


def settle(
    target: Target,
    local: Target,
    z: Array,
    schemes: tuple[tuple[Scheme, ...], ...],
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
    scheme, _ = adapt(local, z, schemes, rng)
    for _ in range(_SETTLING):
        sample = run_chains(
            local, z, scheme, rng, max_iter=2 * ROUND, tol=0.0, n_jobs=n_jobs
        )
        if sample.acceptance * scheme.mobility > LIVELY:
            return local, sample.z, scheme
        weights = langevin.weights_of(local, sample.z)
        root = laplace.tempered_root(smoothed(target), weights, 1.0)
        w = local.centre[:, :, np.newaxis] + local.root @ sample.z
        centre = w.mean(axis=2)
        local = langevin.in_coordinates(target, centre, root)
        z = np.linalg.solve(root, w - centre[:, :, np.newaxis])
        scheme, _ = adapt(local, z, schemes, rng)
    return local, z, scheme
