"""Projected Langevin sampling: chains of particles, from start to convergence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from skgpx._numerics import langevin, laplace
from skgpx._numerics.langevin import Scheme, Target
from skgpx._numerics.linalg import solve_lower
from skgpx._numerics.smoothing import smoothed
from skgpx._pls._chains import (
    ADJUSTED,
    CORRELATED,
    adapt,
    change_coordinates,
    run_chains,
    settle,
    share_accepted,
)
from skgpx._pls._particles import Landscape, particle_posterior, round_reporter
from skgpx._posterior._sampler import Inference, Sample, Sampler, resolved_method
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
    return settle(plain, target, z, tiers, rng, n_jobs)


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
