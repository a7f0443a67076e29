"""Several modes: tempered sequential Monte Carlo, from the prior to the posterior."""

from __future__ import annotations

import numpy as np

from skgpx._numerics import langevin, laplace
from skgpx._numerics.langevin import Chains, Target, between_runs
from skgpx._numerics.smoothing import smoothed
from skgpx._pls._langevin import LOCAL, ROUND, Report, adapt, run_chains
from skgpx._pls._particles import Landscape, particle_posterior, round_reporter
from skgpx._pls._resampling import (
    effective_size,
    next_temperature,
    resample,
    reweight,
)
from skgpx._pls._signs import upright
from skgpx._posterior._sampler import Inference, Sample, Sampler
from skgpx._shell.parallel import parallel_map
from skgpx._shell.validation import Rows
from skgpx._types import Array, Generator, Index
from skgpx.bases import Nystroem
from skgpx.diagnostics import largest_excess, runs_disagree
from skgpx.likelihoods import Likelihood

# Independent runs, and particles of each at least: a hundred, or as many up to 400 as
# a step takes in 1e5 operations.
_RUNS = 4
_MIN_PARTICLES = 100
_MAX_CHEAP_PARTICLES = 400
_CHEAP_STEP = 1e5
# Shares of the particles: the conditional effective size of a rise of temperature, and
# the effective size below which particles are resampled.
_CONDITIONAL_SIZE = 0.8
_MIN_EFFECTIVE_SIZE = 0.5
_MAX_TEMPERATURES = 2000
# Rounds of five steps at a temperature, and the correlation with the start at which
# particles count as having forgotten it.
_MAX_ROUNDS = 20
_FORGOTTEN = 0.3


def tempering(
    basis: Nystroem,
    rows: Rows,
    likelihood: Likelihood,
    sampler: Sampler,
    rng: Generator,
    landscape: Landscape,
) -> Inference | None:
    """Posterior of the weights by sequential Monte Carlo, in their own coordinates.

    Parameters as in :func:`~skgpx._pls._inference.infer`. Unless it is asked for, None
    where it failed: particles are far above the best mode, as of functions with hardly
    any noise, or runs disagree on modes that are signs of f.
    """
    target = landscape.target
    n_weights = target.root.shape[1]
    if n_weights > laplace.LARGEST_COUPLED:
        raise ValueError(
            f'method="smc" moves at most {laplace.LARGEST_COUPLED} weights, inducing '
            f"inputs times outputs; got {n_weights}. Use fewer inducing inputs, or "
            'method="auto".'
        )
    sample, evidences = run_smc(
        target,
        sampler.n_particles,
        rng,
        n_jobs=sampler.n_jobs,
        symmetric=likelihood.symmetric,
        report=round_reporter(basis, likelihood, sampler, target),
    )
    excess = _excess_energy(target, sample.z, landscape.mode)
    disagreement = runs_disagree(
        float(np.max(sample.r_hat)),
        evidences,
        excess,
        n_weights,
        sampler.n_particles,
    )
    has_failed = excess > largest_excess(n_weights)
    if likelihood.symmetric:
        has_failed = disagreement is not None
    if has_failed and sampler.method == "auto":
        return None
    modes = np.zeros(sampler.n_particles, np.intp)
    if landscape.has_rivals or likelihood.symmetric:
        # which particles share a mode is not known
        modes = np.arange(sampler.n_particles)
    return particle_posterior(
        basis,
        rows,
        likelihood,
        sampler,
        rng,
        landscape,
        particles=np.ascontiguousarray(langevin.weights_of(target, sample.z)),
        modes=modes,
        sample=sample,
        findings=(disagreement,),
    )


def _excess_energy(target: Target, w: Array, mode: laplace.Mode) -> float:
    """Mean potential of particles (1, p, s) above the lowest mode.

    The best mode found before, or a better one near the lowest particle.
    """
    energy = langevin.start(target, w).energy
    lowest = w[0, :, int(np.argmin(energy))]
    start = lowest.reshape(target.n_outputs, -1).T
    found_mode = laplace.find_mode(smoothed(target), start)
    modes = [mode.weights.T.ravel(), found_mode.weights.T.ravel()]
    at_modes = np.stack(modes, axis=1)[np.newaxis]
    return float(energy.mean() - langevin.start(target, at_modes).energy.min())


# ---- Particles carried from the prior ------------------------------------------------


def run_smc(
    target: Target,
    n_particles: int,
    rng: Generator,
    *,
    n_jobs: int | None,
    symmetric: bool = False,
    report: Report | None = None,
) -> tuple[Sample, Array]:
    """Move particles from the prior to the posterior, with the right weights of modes.

    The likelihood is raised to powers β that rise from 0 to 1 as fast as a conditional
    effective sample size of 80 % allows. After each rise the particles are moved by
    Metropolis-adjusted Langevin steps, preconditioned with the Hessian at β whose
    curvatures are averaged over the particles, until they have forgotten where they
    were; they are resampled where their weights have become uneven. Four runs of at
    least 100 particles each (400 on few rows) know nothing of one another, so that they
    can be compared, up to the sign of f where the likelihood does not know it
    (`symmetric`). Their particles are mixed with weights proportional to their
    evidences, which leaves no bias of a run's own.

    Returns
    -------
    sample : Sample
        R-hat and effective sizes compare the independent runs.
    evidences : ndarray of shape (4,)
        Estimates of the log normalising constant over the prior, up to the terms of the
        likelihood that are constant in f.

    Notes
    -----
    Some 20 to 100 temperatures of 5 to 200 steps each, for 400 particles or more.
    """
    # 1 independent runs
    cheap = min(_MAX_CHEAP_PARTICLES, int(_CHEAP_STEP / target.features.size))
    size = max(_MIN_PARTICLES, cheap, -(-n_particles // _RUNS))
    runs = parallel_map(
        _temper,
        [(size, stream) for stream in rng.spawn(_RUNS)],
        n_jobs,
        target,
    )
    w = np.concatenate([particles for particles, _ in runs], axis=2)
    evidences = np.array([evidence for _, evidence in runs])
    # 2 a mixture of them, moved on
    chosen = resample(np.repeat(evidences, size), n_particles, rng)
    local = _averaged_coordinates(target, w, 1.0)
    z = np.asarray(np.linalg.solve(local.root, w[:, :, chosen]), dtype=np.float64)
    scheme, _ = adapt(local, z, LOCAL, rng, n_jobs=n_jobs)

    def report_weights(sample: Sample) -> bool:
        return report is not None and report(sample._replace(z=local.root @ sample.z))

    sample = run_chains(
        local,
        z,
        scheme,
        rng,
        max_iter=4 * ROUND,
        tol=0.0,
        n_jobs=n_jobs,
        report=report_weights,
    )
    # 3 do the runs agree?
    compared = upright(target, w) if symmetric else w
    values = np.linalg.solve(local.root, compared)[0].reshape(-1, _RUNS, size)
    r_hat, ess = between_runs(values)
    return sample._replace(z=local.root @ sample.z, r_hat=r_hat, ess=ess), evidences


def _temper(target: Target, size: int, rng: Generator) -> tuple[Array, float]:
    """Equally likely particles (1, p, s) of one run, and its log evidence."""
    # β = 0: the prior, N(0, I)
    w = rng.standard_normal((1, target.root.shape[1], size))
    equal = np.full(size, -np.log(size))
    log_weights = equal
    log_evidence = 0.0
    beta = 0.0
    for _ in range(_MAX_TEMPERATURES):
        potential = langevin.start(target, w).energy
        nll = potential - 0.5 * np.sum(w**2, axis=(0, 1))
        new_beta = next_temperature(nll, beta, _CONDITIONAL_SIZE, log_weights)
        log_weights, log_ratio = reweight(log_weights, nll, new_beta - beta)
        log_evidence += log_ratio
        beta = new_beta
        if beta == 1.0 or effective_size(log_weights) < _MIN_EFFECTIVE_SIZE * size:
            w = w[:, :, _resample_sorted(w[0], log_weights, rng)]
            log_weights = equal
        # particles (1, p, s) after steps at temperature β that forget their start
        typical = resample(log_weights, w.shape[2], rng)
        local = _averaged_coordinates(target, w[:, :, typical], beta)
        z = np.asarray(np.linalg.solve(local.root, w), dtype=np.float64)
        scheme, _ = adapt(local, z, LOCAL, rng, beta)
        start = langevin.start(local, z, beta)
        state = start
        for _ in range(_MAX_ROUNDS):
            state, _ = langevin.advance(local, state, scheme, 5, rng, beta)
            # until states hardly correlate any more with those where the chains began
            a = _centred_values(start)
            b = _centred_values(state)
            scale = np.sqrt(np.sum(a**2, axis=1) * np.sum(b**2, axis=1))
            correlation = np.sum(a * b, axis=1) / np.maximum(scale, 1e-300)
            if max(correlation[-1], correlation[:-1].mean()) <= _FORGOTTEN:
                break
        w = local.root @ state.z
        if beta == 1.0:
            return w, log_evidence
    raise ValueError(
        f"Tempering reached only the power {beta:.3g} of the likelihood in "
        f"{_MAX_TEMPERATURES} temperatures. Increase n_particles, or the noise of the "
        "likelihood."
    )


def _resample_sorted(
    w: Array,
    log_weights: Array,
    rng: Generator,
) -> Index:
    """Resample particles (p, s) in the order along the direction of largest spread."""
    centred = w - w.mean(axis=1, keepdims=True)
    projection = np.linalg.svd(centred, full_matrices=False)[2][0]
    order = np.argsort(projection, kind="stable")
    return order[resample(log_weights[order], w.shape[1], rng)]


def _averaged_coordinates(target: Target, w: Array, beta: float) -> Target:
    """Coordinates without a centre, by the Hessian at β averaged over w (1, p, s)."""
    c = target.n_outputs
    p = w.shape[1]
    weights = w.reshape(c, p // c, -1).transpose(1, 0, 2)
    root = laplace.tempered_root(smoothed(target), weights, beta)
    return target._replace(centre=np.zeros((1, p)), root=root.reshape(1, p, p))


def _centred_values(state: Chains) -> Array:
    """Coordinates and potential less their means over the chains, (p + 1, s)."""
    values = np.vstack((state.z[0], state.energy[np.newaxis]))
    return values - values.mean(axis=1, keepdims=True)
