"""Projected Langevin sampling: chains of particles, from start to convergence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from skgpx._numerics import langevin, laplace
from skgpx._numerics.langevin import (
    Chains,
    Scheme,
    Target,
    Trace,
    effective_sample_size,
    split_r_hat,
)
from skgpx._numerics.linalg import solve_lower
from skgpx._numerics.rows import row_slices
from skgpx._numerics.smoothing import smoothed
from skgpx._pls._particles import Landscape, particle_posterior, round_reporter
from skgpx._posterior._sampler import Inference, Sample, Sampler, resolved_method
from skgpx._shell.parallel import parallel_map, workers
from skgpx._shell.validation import Rows
from skgpx._types import Array, Generator, Index
from skgpx.bases import Nystroem
from skgpx.diagnostics import (
    Finding,
    chains_not_converged,
    several_modes,
    unadjusted_steps,
)
from skgpx.kernels import GREKernel
from skgpx.likelihoods import Likelihood

# Steps by default, of adjusted and of unadjusted schemes.
_MAX_ITER = 1000
_MAX_ITER_UNADJUSTED = 20_000
# Acceptance times mobility below which the Laplace approximation is poor.
_POOR_SCORE = 0.35


def projected_langevin(
    basis: Nystroem,
    rows: Rows,
    likelihood: Likelihood,
    sampler: Sampler,
    rng: Generator,
    landscape: Landscape,
) -> Inference:
    """Posterior of the weights by Langevin chains, from the initial law to convergence.

    Parameters as in :func:`~skgpx._pls._inference.infer`.
    """
    method = resolved_method(sampler.method, likelihood)
    # 1 particles of the initial law Q_0, in coordinates in which the chains move
    origin = np.zeros(sampler.n_particles, np.intp)
    if likelihood.symmetric and _starts_at_modes(sampler):
        origin = landscape.allot(sampler.n_particles, rng)
    start = partial(
        _start, landscape.target, origin=origin, basis=basis, sampler=sampler, rng=rng
    )
    target, z = start(landscape.modes, method=method)
    # 2 the chains
    too_long: Finding | None = None
    if method == "ula":
        report = round_reporter(basis, likelihood, sampler, target)
        sample, step_size = _run_schedule(
            target, z, landscape.mode, origin, sampler, rng, report
        )
        too_long = _check_steps(target, sample.z, landscape.mode, step_size, rng)
    else:
        if sampler.step_size is None:
            target, z, scheme = _tune(target, z, landscape, start, method, sampler, rng)
        else:
            scheme = _scheme(method, float(sampler.step_size))
        sample = run_chains(
            target,
            z,
            scheme,
            rng,
            max_iter=sampler.max_iter or _MAX_ITER,
            tol=sampler.tol,
            n_jobs=sampler.n_jobs,
            adaptive=sampler.step_size is None,
            origin=origin,
            report=round_reporter(basis, likelihood, sampler, target),
        )
    if not np.all(np.isfinite(sample.z)):
        raise ValueError(
            f'method="{method}" diverged with step_size={sampler.step_size!r}. Use a '
            "smaller one, or None to take it from the largest eigenvalue of the "
            "Hessian."
        )
    # 3 the posterior of the weights
    r_hat = 1.0 if sample.stopped else float(np.max(sample.r_hat))
    not_converged = chains_not_converged(
        r_hat,
        sampler.tol,
        sample.n_iter,
        sample.acceptance,
        landscape.log_concave,
    )
    gap = np.inf if np.any(origin) else landscape.smallest_gap
    return particle_posterior(
        basis,
        rows,
        likelihood,
        sampler,
        rng,
        landscape,
        particles=np.ascontiguousarray(langevin.weights_of(target, sample.z)),
        modes=origin,
        sample=sample,
        findings=(not_converged, too_long, several_modes(gap)),
    )


# ---- Where the chains start ----------------------------------------------------------


def _starts_at_modes(sampler: Sampler) -> bool:
    """Whether the initial law is Laplace's approximation."""
    return isinstance(sampler.init, str) and sampler.init == "laplace"


def _start(
    target: Target,
    modes: Sequence[laplace.Mode],
    *,
    origin: Index,
    basis: Nystroem,
    method: str,
    sampler: Sampler,
    rng: Generator,
) -> tuple[Target, Array]:
    """Target in the coordinates of the method, and particles of the initial law Q_0.

    The coordinates are the whitened ones of the Hessian at the best mode, or the
    paper's for its unadjusted scheme. `origin` (s,) is the mode that a particle is near
    at the start.
    """
    mode = modes[0]
    groups, width = mode.root.shape[:2]
    centre = mode.weights.T.reshape(groups, width)
    noise = rng.standard_normal((groups, width, sampler.n_particles))
    init = sampler.init
    from_mode = _starts_at_modes(sampler)
    if from_mode and method != "ula" and not np.any(origin):
        return langevin.in_coordinates(target, centre, mode.root), noise
    if from_mode:
        w = np.empty_like(noise)
        for k in np.unique(origin):
            members = origin == k
            place = modes[k].weights.T.reshape(groups, width, 1)
            w[:, :, members] = place + modes[k].root @ noise[:, :, members]
    elif isinstance(init, str):
        # the prior, N(0, I)
        w = noise
    else:
        w = init.transpose(1, 0, 2).reshape(groups, width, -1)
    root = mode.root
    if method == "ula":
        root = _paper_root(basis, target.n_outputs, groups)
        centre = np.zeros_like(centre)
    return change_coordinates(target, w, centre, root)


def _paper_root(basis: Nystroem, n_outputs: int, n_groups: int) -> Array:
    """Root of the paper's coordinates for all outputs: of one group, or of each."""
    root = nystroem_root(basis)
    if n_groups == 1:
        return np.array(np.kron(np.eye(n_outputs), root)[np.newaxis])
    return np.array([root] * n_outputs)


def nystroem_root(basis: Nystroem) -> Array:
    """Root of the paper's coordinates u, in which its scheme (236) is Euler-Maruyama.

    With ``k(Z, Z) / M = V Λ Vᵀ`` for the kernel k inside the GRE kernel,
    ``u_m = <f, e_m> = (M λ_m)^(-1/2) v_mᵀ f(Z)``, and ``f(Z) = L w``: hence
    ``w = L⁻¹ V (M Λ)^(1/2) u``. Shape (m, m).
    """
    kernel = basis.kernel
    if isinstance(kernel, GREKernel):
        kernel = kernel.kernel
    eigenvalues, V = np.linalg.eigh(kernel(basis.inducing_points))
    # smaller ones are rounding errors
    eigenvalues = np.maximum(eigenvalues, 1e-10 * eigenvalues[-1])
    return solve_lower(np.asarray(basis.root), V * np.sqrt(eigenvalues))


# ---- Steps ---------------------------------------------------------------------------


def _scheme(method: str, step_size: float) -> Scheme:
    """Adjusted scheme with the step size of the user."""
    if method == "ou_mala":
        return langevin.ornstein_uhlenbeck(1.0 - min(step_size, 1.0))
    return langevin.euler_maruyama(step_size, metropolis=True)


def _tune(
    target: Target,
    z: Array,
    landscape: Landscape,
    start: Callable[..., tuple[Target, Array]],
    method: str,
    sampler: Sampler,
    rng: Generator,
) -> tuple[Target, Array, Scheme]:
    """Coordinates, particles and steps in which the chains move far."""
    n_jobs = sampler.n_jobs
    tiers = CORRELATED if method == "ou_mala" else ADJUSTED
    scheme, score = adapt(target, z, tiers, rng, n_jobs=n_jobs)
    plain = landscape.target
    if plain.code == langevin.QUADRATIC or score >= _POOR_SCORE:
        return target, z, scheme
    # the Laplace approximation is poor: move to the bulk of the posterior
    modes = [laplace.refine(smoothed(plain), mode) for mode in landscape.modes]
    target, z = start(modes, method=method)
    scheme, _ = adapt(target, z, tiers, rng, n_jobs=n_jobs)
    return target, z, scheme


def _run_schedule(
    target: Target,
    z: Array,
    mode: laplace.Mode,
    origin: Index,
    sampler: Sampler,
    rng: Generator,
    report: Callable[[Sample], bool],
) -> tuple[Sample, float]:
    """Algorithm 1: Euler-Maruyama steps (236) with one step size after the other.

    Each is used for an equal share of the steps; the statistics of the sample are those
    of the last stretch, whose step size is returned too.
    """
    step_size = sampler.step_size
    if step_size is None:
        step_size = _stable_step(mode, target)
    step_sizes = np.atleast_1d(np.asarray(step_size, dtype=np.float64))
    max_iter = sampler.max_iter or _MAX_ITER_UNADJUSTED
    energy_curve = np.empty(0)
    n_iter = 0
    for stretch, step_size in enumerate(step_sizes):
        is_last = stretch == len(step_sizes) - 1
        sample = run_chains(
            target,
            z,
            langevin.euler_maruyama(float(step_size), metropolis=False),
            rng,
            max_iter=max_iter // len(step_sizes),
            tol=sampler.tol if is_last else 0.0,
            n_jobs=sampler.n_jobs,
            origin=origin,
            report=report,
        )
        z = sample.z
        energy_curve = np.append(energy_curve, sample.energy_curve)
        n_iter += sample.n_iter
        if sample.stopped or not np.all(np.isfinite(z)):
            break
    sample = sample._replace(energy_curve=energy_curve, n_iter=n_iter)
    return sample, float(step_size)


def _check_steps(
    target: Target,
    z: Array,
    mode: laplace.Mode,
    step_size: float,
    rng: Generator,
) -> Finding | None:
    """Whether unadjusted steps from z are so short that they follow the posterior.

    A Metropolis test would accept most of them.
    """
    if not np.all(np.isfinite(z)):
        return None
    stream = rng.spawn(1)[0]
    scheme = langevin.euler_maruyama(step_size, metropolis=True)
    acceptance = share_accepted(target, langevin.start(target, z), 1.0, scheme, stream)
    return unadjusted_steps(step_size, 10.0 * _stable_step(mode, target), acceptance)


def _stable_step(mode: laplace.Mode, target: Target) -> float:
    """A tenth of the largest stable step of the Euler scheme, ``2 / λ_max``.

    With the largest eigenvalue of the Hessian at the mode, ``H = (root rootᵀ)⁻¹``, in
    the coordinates T of the target: ``λ_max(TᵀHT) = σ_max(root⁻¹ T)²``.
    """
    inner = np.linalg.solve(mode.root, target.root)
    return 0.2 / float(np.linalg.norm(inner, 2, axis=(1, 2)).max()) ** 2


# ---- From a start to particles: rounds of Langevin steps until split R-hat is small --


Report = Callable[[Sample], bool]
Tiers = tuple[tuple[Scheme, ...], ...]

# Steps between the first two checks of convergence.
ROUND = 10
# Stretches of the run of which statistics are in memory.
_MAX_STRETCHES = 32
# Chains that try steps: with fewer it is not clear which scheme goes farther.
_TRIAL_CHAINS = 100
# Acceptance times mobility below which a tier of steps is followed by a trial of the
# next.
_MIN_SCORE = 0.01
# Share of the proposals that an average chain, or the slowest hundredth, must accept.
_MIN_ACCEPTANCE = 0.03

_LARGE_STEPS = (0.8, 0.4, 0.2, 0.1)
_SMALL_STEPS = (0.03, 0.01, 0.003)
# Steps that are tried, those of the next tier only if hardly any proposal is accepted.
CORRELATED: Tiers = (
    (
        *(langevin.ornstein_uhlenbeck(rho) for rho in (0.3, 0.6, 0.8, 0.9)),
        langevin.trajectory(0.9, 2),
        langevin.trajectory(0.6, 3),
        langevin.trajectory(0.4, 4),
    ),
    tuple(langevin.ornstein_uhlenbeck(rho) for rho in (0.97, 0.99, 0.997, 0.999)),
)
ADJUSTED: Tiers = tuple(
    tuple(langevin.euler_maruyama(h, metropolis=True) for h in tier)
    for tier in (_LARGE_STEPS, _SMALL_STEPS)
)
LOCAL: Tiers = tuple(
    tuple(langevin.without_centre(h) for h in tier)
    for tier in (_LARGE_STEPS, _SMALL_STEPS)
)


def run_chains(
    target: Target,
    z: Array,
    scheme: Scheme,
    rng: Generator,
    *,
    max_iter: int,
    tol: float,
    n_jobs: int | None,
    adaptive: bool = False,
    origin: Index | None = None,
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
    origin : ndarray of shape (s,), optional
        Number of the mode that each chain is in, if there are several: R-hat compares
        chains of one mode.
    report : callable, optional
        Called with the sample after each round; True stops the chains.
    """
    short_scheme: Scheme | None = None
    length = ROUND
    n_rounds = 0
    n_steps = 0
    n_iter = 0
    n_accepted = 0.0
    energy_curve = np.empty(0)
    stretches: list[Trace] = []
    with workers(n_jobs, target) as run_each:
        # the same blocks whatever the number of workers; narrower products are slower
        # by a third
        starts = [(z[:, :, block],) for block in row_slices(z.shape[2], 50)]
        blocks: list[Chains] = run_each(langevin.start, starts)
        while True:
            # 1 a round of steps, one in five of them short
            n_short = 0 if short_scheme is None else length // 5
            moves = [(scheme, length - n_short)]
            if short_scheme is not None:
                moves.append((short_scheme, n_short))
            # move all blocks of chains, each with a stream of its own
            streams = rng.spawn(len(blocks))
            items = [
                (block, moves, rng) for block, rng in zip(blocks, streams, strict=True)
            ]
            moved, traces = zip(*run_each(_advance, items), strict=True)
            parts = (
                np.concatenate(part, axis=-1) for part in zip(*traces, strict=True)
            )
            blocks, trace = list(moved), Trace(*parts)
            n_rounds += 1
            n_steps += length
            n_iter += sum(move.cost * n for move, n in moves)
            n_accepted += trace.accepted.mean()
            # 2 smaller steps, ever more rarely
            if adaptive and n_rounds & (n_rounds - 1) == 0:
                acceptance = np.sort(trace.accepted / length)
                scheme, short_scheme = _shorten(scheme, short_scheme, acceptance)
            stretches.append(trace)
            if len(stretches) == _MAX_STRETCHES:
                pairs = zip(stretches[::2], stretches[1::2], strict=True)
                stretches = [_sum(pair) for pair in pairs]
                length = 2 * length
            # 3 convergence
            energies = np.concatenate([chains.energy for chains in blocks])
            energy_curve = np.append(energy_curve, energies.mean())
            z = np.concatenate([chains.z for chains in blocks], axis=2)
            r_hat, ess = _convergence(stretches, length, z.shape, origin)
            sample = Sample(
                z=z,
                acceptance=n_accepted / n_steps,
                r_hat=r_hat,
                ess=ess,
                energy_curve=energy_curve,
                n_iter=n_iter,
            )
            if report is not None and report(sample):
                return sample._replace(stopped=True)
            if n_iter >= max(max_iter, 2 * ROUND) or np.max(r_hat) <= tol:
                return sample
            if not np.all(np.isfinite(z)):
                return sample


def _convergence(
    stretches: Sequence[Trace],
    length: int,
    shape: tuple[int, ...],
    origin: Index | None,
) -> tuple[Array, Array]:
    """Split R-hat and effective sizes of the last three quarters of the stretches.

    Infinite and NaN while there is no second stretch. `shape` is (g, p, s); values are
    those around the mean of the chains of one mode.
    """
    groups, width, n_chains = shape
    if len(stretches) < 2:
        unknown = np.full(groups * width, np.nan)
        return np.full(groups * width, np.inf), unknown
    # two halves of k stretches each
    k = max(1, 3 * len(stretches) // 8)
    first = _sum(stretches[-2 * k : -k])
    second = _sum(stretches[-k:])
    totals = np.stack((first.total, second.total))
    totals = totals.reshape(2, -1, n_chains)
    squares = np.stack((first.square, second.square))
    squares = squares.reshape(2, -1, n_chains)
    n_steps = k * length
    if origin is not None and np.any(origin):
        centre = np.empty_like(totals[0])
        for mode in np.unique(origin):
            chains = totals[:, :, origin == mode]
            centre[:, origin == mode] = chains.mean(axis=(0, 2))[:, np.newaxis]
        centre /= n_steps
        # Σ (z - c)² = Σ z² - 2 c Σ z + n c²
        squares = squares - 2.0 * centre * totals + n_steps * centre**2
        totals = totals - n_steps * centre
    r_hat = split_r_hat(totals, squares, n_steps)
    effective_size = effective_sample_size(totals, squares, n_steps)
    return r_hat, effective_size


def _shorten(
    scheme: Scheme,
    short_scheme: Scheme | None,
    acceptance: Array,
) -> tuple[Scheme, Scheme | None]:
    """Smaller steps, or additional short ones, if chains (s,) accept few proposals.

    Half the step if most chains hardly moved, and a short one if a hundredth did not.
    `acceptance` is sorted.
    """
    n_chains = len(acceptance)
    if acceptance[n_chains // 2] < _MIN_ACCEPTANCE:
        return langevin.halve_step(scheme), short_scheme
    if acceptance[n_chains // 100] < _MIN_ACCEPTANCE:
        if short_scheme is None:
            short_scheme = langevin.halve_step(langevin.halve_step(scheme))
        one_leap = short_scheme._replace(n_leaps=min(short_scheme.n_leaps, 1))
        return scheme, langevin.halve_step(one_leap)
    return scheme, short_scheme


def _sum(traces: Sequence[Trace]) -> Trace:
    """Statistics of several stretches together."""
    return Trace(*(np.sum(part, axis=0) for part in zip(*traces, strict=True)))


def _advance(
    target: Target,
    chains: Chains,
    moves: list[tuple[Scheme, int]],
    rng: Generator,
) -> tuple[Chains, Trace]:
    """Move a block of chains by each of the schemes in turn."""
    traces = []
    for scheme, n_steps in moves:
        chains, trace = langevin.advance(target, chains, scheme, n_steps, rng)
        traces.append(trace)
    return chains, _sum(traces)


def adapt(
    target: Target,
    z: Array,
    schemes: Tiers,
    rng: Generator,
    temperature: float = 1.0,
    n_jobs: int | None = 1,
) -> tuple[Scheme, float]:
    """The scheme that moves farthest in three steps of at most a hundred chains.

    Maximises acceptance times mobility over the schemes of a tier, which are tried side
    by side, and tries the next tier, of smaller steps, if hardly any proposal is
    accepted. Returns the scheme and its acceptance times mobility.
    """
    chains = langevin.start(target, z[:, :, :_TRIAL_CHAINS], temperature)
    best = schemes[-1][-1]
    best_score = 0.0
    for tier in schemes:
        trials = list(zip(tier, rng.spawn(len(tier)), strict=True))
        # threads: to send the features takes longer than three steps
        acceptances = parallel_map(
            share_accepted,
            trials,
            n_jobs,
            target,
            chains,
            temperature,
            in_threads=True,
        )
        for scheme, acceptance in zip(tier, acceptances, strict=True):
            score = acceptance * scheme.mobility
            if score > best_score:
                best = scheme
                best_score = score
        if best_score > _MIN_SCORE:
            break
    return best, float(best_score)


def share_accepted(
    target: Target,
    chains: Chains,
    temperature: float,
    scheme: Scheme,
    rng: Generator,
) -> float:
    """Share of the proposals that are accepted in three steps."""
    _, trace = langevin.advance(target, chains, scheme, 3, rng, temperature)
    return float(trace.accepted.mean()) / 3.0


def change_coordinates(
    target: Target,
    w: Array,
    centre: Array,
    root: Array,
) -> tuple[Target, Array]:
    """Target and particles in the coordinates z of ``w = centre + root z``.

    Parameters
    ----------
    target : Target
        In the coordinates of the weights.
    w : ndarray of shape (g, p, s)
    centre : ndarray of shape (g, p)
    root : ndarray of shape (g, p, p)
    """
    deviation = w - centre[:, :, np.newaxis]
    z = np.asarray(np.linalg.solve(root, deviation), dtype=np.float64)
    return langevin.in_coordinates(target, centre, root), z
