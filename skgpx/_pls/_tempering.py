"""Tempered sequential Monte Carlo: particles carried from the prior."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics import langevin, laplace, smc
from skgpx._numerics.langevin import Target
from skgpx._numerics.smoothing import smoothed
from skgpx._parallel import parallel_map
from skgpx._pls._chains import (
    CORRELATED,
    ROUND,
    Report,
    Sample,
    adapt,
    chain_blocks,
    run_chains,
)

Array = NDArray[np.float64]

# Effective sample size that each rise of the temperature keeps, as a fraction; moves
# after it, in stretches until acceptance times drift adds up to _ENOUGH.
_KEPT = 0.8
_MOVES, _MAX_STRETCHES, _ENOUGH = 6, 10, 2.0
_MAX_TEMPERATURES = 2000
_FINAL_MOVES = 4 * ROUND


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
    """Move particles from the prior to the posterior, with the right weights of modes.

    The likelihood is raised to powers β that rise from 0 to 1 as fast as an effective
    sample size of 80 % allows. After each rise the particles are resampled and moved
    by Ornstein-Uhlenbeck Metropolis steps preconditioned with the Hessian at β, whose
    curvatures are averaged over the particles.
    """
    p = target.features.shape[1] * target.n_outputs
    w = rng.standard_normal((1, p, n_particles))
    local = target._replace(centre=np.zeros((1, p)), root=np.eye(p)[np.newaxis])
    beta, log_evidence, temperatures = 0.0, 0.0, []
    while beta < 1.0:
        if len(temperatures) == _MAX_TEMPERATURES:
            raise ValueError(
                f"Tempering reached only the power {beta:.3g} of the likelihood in "
                f"{_MAX_TEMPERATURES} temperatures. Increase n_particles, or the noise "
                "of the likelihood."
            )
        nll = _data_energy(local, w, n_jobs)
        earlier, beta = beta, smc.next_temperature(nll, beta, _KEPT)
        chosen, log_ratio = smc.resample(nll, beta - earlier, rng)
        w, log_evidence = w[:, :, chosen], log_evidence + log_ratio
        temperatures.append(beta)
        root = _tempered_root(local, w, beta)
        w = root[0] @ _move(local, root, w, beta, rng, n_jobs)
    sample = _last_moves(local._replace(root=root), w, rng, n_jobs, report)
    return Tempered(sample, log_evidence, np.array(temperatures))


def _tempered_root(target: Target, w: Array, beta: float) -> Array:
    """Root (1, p, p) of the inverse Hessian at β, averaged over particles (1, p, s)."""
    c, p = target.n_outputs, w.shape[1]
    weights = w.reshape(c, p // c, -1).transpose(1, 0, 2)
    root: Array = laplace.tempered_root(smoothed(target), weights, beta).reshape(
        1, p, p
    )
    return root


def _last_moves(
    target: Target,
    w: Array,
    rng: np.random.Generator,
    n_jobs: int | None,
    report: Report | None,
) -> Sample:
    """Moves at the full likelihood, with diagnostics; particles (1, p, s) back."""
    z = np.linalg.solve(target.root[0], w[0])[np.newaxis]
    scheme, _ = adapt(target, z, CORRELATED, rng)
    sample = run_chains(
        target, z, scheme, rng,
        max_iter=_FINAL_MOVES, tol=0.0, n_jobs=n_jobs, report=report,
    )  # fmt: skip
    weights = langevin.weights_of(target, sample.z)
    return sample._replace(z=weights.transpose(1, 0, 2).reshape(w.shape))


def _data_energy(target: Target, w: Array, n_jobs: int | None) -> Array:
    """Negative log-likelihood of particles w (1, p, s), up to a constant, (s,)."""
    items = [(target, w[:, :, block]) for block in chain_blocks(w.shape[2])]
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
    scheme, _ = adapt(local, z, CORRELATED, rng, beta)
    blocks = chain_blocks(z.shape[2])
    states = [langevin.start(local, z[:, :, block], beta) for block in blocks]
    moved = 0.0
    for _ in range(_MAX_STRETCHES):
        items = [
            (local, state, scheme, _MOVES, stream, beta)
            for state, stream in zip(states, rng.spawn(len(blocks)), strict=True)
        ]
        results = parallel_map(langevin.advance, items, n_jobs)
        states = [state for state, _ in results]
        accepted = np.concatenate([trace.accepted for _, trace in results])
        moved += float(accepted.mean()) * scheme.mobility * scheme.cost
        if moved >= _ENOUGH:
            break
    return np.concatenate([state.z for state in states], axis=2)
