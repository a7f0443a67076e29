"""The parts of one step of Langevin dynamics: proposals, trajectories, the test."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics._jit import inlined, kernel
from skgpx._numerics.elementwise import copy

Array = NDArray[np.float64]


@kernel
def propose(
    z: Array,
    gradient: Array,
    drift: float,
    diffusion: float,
    n_leaps: int,
    rng: np.random.Generator,
    noise: Array,
    momentum: Array,
    proposal: Array,
    new_gradient: Array,
) -> float:
    """z' = z - drift ∇U + diffusion ξ; ξ is kept for the Metropolis test.

    Or, with leaps, the first half kick and rotation of a trajectory with the momentum
    ξ. Returns its angle, random so that no direction comes back to where it was.
    """
    x, g = z.reshape(-1), gradient.reshape(-1)
    xi, out = noise.reshape(-1), proposal.reshape(-1)
    for i in range(x.size):
        xi[i] = rng.standard_normal()
    if n_leaps == 0:
        for i in range(x.size):
            out[i] = x[i] - drift * g[i] + diffusion * xi[i]
        return 0.0
    angle = drift * (0.6 + 0.6 * rng.random())
    copy(noise, momentum)
    copy(z, proposal)
    copy(gradient, new_gradient)
    kick(0.5 * angle, proposal, new_gradient, momentum)
    turn(angle, proposal, momentum)
    return angle


@kernel
def kick(angle: float, z: Array, gradient: Array, momentum: Array) -> None:
    """p - angle (∇U - z): the part of U that is not ½|z|²."""
    x, g, p = z.reshape(-1), gradient.reshape(-1), momentum.reshape(-1)
    for i in range(x.size):
        p[i] -= angle * (g[i] - x[i])


@kernel
def turn(angle: float, z: Array, momentum: Array) -> None:
    """Rotate (z, p), the exact flow of ``½|z|² + ½|p|²``."""
    x, p = z.reshape(-1), momentum.reshape(-1)
    cosine, sine = np.cos(angle), np.sin(angle)
    for i in range(x.size):
        before = x[i]
        x[i] = cosine * before + sine * p[i]
        p[i] = cosine * p[i] - sine * before


@kernel
def shorten(metropolis: bool, centred: bool, z: Array, gradient: Array) -> None:
    """Shorten ``∇U - z`` of each chain to at most twice the root of its dimension.

    Or ∇U itself, where the coordinates have no centre that suits all chains.
    """
    if not metropolis:
        return
    n_chains = z.shape[2]
    x, g = z.reshape(-1), gradient.reshape(-1)
    square, kept = np.empty(n_chains), 1.0 if centred else 0.0
    square[:] = 0.0
    for i in range(0, x.size, n_chains):
        for j in range(n_chains):
            square[j] += (g[i + j] - kept * x[i + j]) ** 2
    longest = 4.0 * (x.size // n_chains)
    for j in range(n_chains):
        if square[j] > longest:
            factor = np.sqrt(longest / square[j])
            for i in range(j, x.size, n_chains):
                g[i] = kept * x[i] + factor * (g[i] - kept * x[i])


@kernel
def decide(
    z: Array,
    energy: Array,
    gradient: Array,
    new_z: Array,
    new_energy: Array,
    new_gradient: Array,
    noise: Array,
    momentum: Array,
    drift: float,
    diffusion: float,
    metropolis: bool,
    n_leaps: int,
    rng: np.random.Generator,
    accepted: Array,
) -> None:
    """Move each chain to its proposal, with the Metropolis probability if asked."""
    n_chains = len(energy)
    x, new_x = z.reshape(-1), new_z.reshape(-1)
    g, new_g = gradient.reshape(-1), new_gradient.reshape(-1)
    log_ratio, moves = np.empty(n_chains), np.empty(n_chains)
    log_ratio[:], moves[:] = 0.0, 1.0
    if metropolis:
        xi = noise.reshape(-1)
        if n_leaps > 0:
            _kinetic(xi, momentum.reshape(-1), log_ratio)
        else:
            _proposals(x, new_x, new_g, xi, drift, diffusion, log_ratio)
        for j in range(n_chains):
            # comparisons with NaN are false: a proposal of energy NaN is rejected
            accept = np.log(rng.random()) <= energy[j] - new_energy[j] + log_ratio[j]
            moves[j] = 1.0 if accept else 0.0
    for j in range(n_chains):
        if moves[j] > 0.0:
            accepted[j] += 1.0
            energy[j] = new_energy[j]
    for i in range(0, x.size, n_chains):
        for j in range(n_chains):
            x[i + j] = new_x[i + j] if moves[j] > 0.0 else x[i + j]
            g[i + j] = new_g[i + j] if moves[j] > 0.0 else g[i + j]


@inlined
def _kinetic(start: Array, end: Array, log_ratio: Array) -> None:
    """The loss of kinetic energy along a trajectory, ``½‖ξ‖² - ½‖p‖²``."""
    n_chains = len(log_ratio)
    for i in range(0, start.size, n_chains):
        for j in range(n_chains):
            before, after = start[i + j], end[i + j]
            log_ratio[j] += 0.5 * (before * before - after * after)


@inlined
def _proposals(
    x: Array,
    new_x: Array,
    new_g: Array,
    xi: Array,
    drift: float,
    diffusion: float,
    log_ratio: Array,
) -> None:
    """``log q(z | z') - log q(z' | z)`` of a single step.

    ``½‖ξ‖² - ‖z - z' + drift ∇U(z')‖² / (2 diffusion²)``
    """
    n_chains = len(log_ratio)
    half_precision = 0.5 / (diffusion * diffusion)
    for i in range(0, x.size, n_chains):
        for j in range(n_chains):
            back = x[i + j] - new_x[i + j] + drift * new_g[i + j]
            forth = xi[i + j]
            log_ratio[j] += 0.5 * forth * forth - half_precision * back * back
