"""The parts of one step of Langevin dynamics: proposals, trajectories, the test.

Chains, momenta and gradients have shape (g, p, s), the chains last; results are written
into the arguments. Numbers may overflow: such proposals are rejected.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


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
    rng.standard_normal(out=noise)
    if n_leaps == 0:
        np.multiply(noise, diffusion, out=proposal)
        proposal += z
        proposal -= drift * gradient
        return 0.0
    angle = drift * (0.6 + 0.6 * rng.random())
    momentum[:], proposal[:], new_gradient[:] = noise, z, gradient
    kick(0.5 * angle, proposal, new_gradient, momentum)
    turn(angle, proposal, momentum)
    return angle


def kick(angle: float, z: Array, gradient: Array, momentum: Array) -> None:
    """p - angle (∇U - z): the part of U that is not ½|z|²."""
    force = gradient - z
    force *= angle
    momentum -= force


def turn(angle: float, z: Array, momentum: Array) -> None:
    """Rotate (z, p), the exact flow of ``½|z|² + ½|p|²``."""
    cosine, sine = np.cos(angle), np.sin(angle)
    before = sine * z
    z *= cosine
    z += sine * momentum
    momentum *= cosine
    momentum -= before


def shorten(metropolis: bool, centred: bool, z: Array, gradient: Array) -> None:
    """Shorten ``∇U - z`` of each chain to at most twice the root of its dimension.

    Or ∇U itself, where the coordinates have no centre that suits all chains.
    """
    if not metropolis:
        return
    pull = gradient - z if centred else gradient
    square, longest = _squares(pull), 4.0 * (z.size // z.shape[2])
    far = square > longest
    if far.any():
        kept = z[:, :, far] if centred else 0.0
        factor = np.sqrt(longest / square[far])
        gradient[:, :, far] = kept + factor * pull[:, :, far]


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
    moves = np.ones(len(energy), dtype=bool)
    if metropolis:
        if n_leaps > 0:
            # the loss of kinetic energy along a trajectory
            log_ratio = 0.5 * (_squares(noise) - _squares(momentum))
        else:
            # log q(z | z') - log q(z' | z)
            back = z - new_z + drift * new_gradient
            log_ratio = 0.5 * (_squares(noise) - _squares(back) / diffusion**2)
        # comparisons with NaN are false: a proposal of energy NaN is rejected
        moves = np.log(rng.random(len(energy))) <= energy - new_energy + log_ratio
    accepted += moves
    np.copyto(energy, new_energy, where=moves)
    np.copyto(z, new_z, where=moves)
    np.copyto(gradient, new_gradient, where=moves)


def _squares(values: Array) -> Array:
    """Sum of squares of each chain, (s,)."""
    flat = values.reshape(-1, values.shape[2])
    squares: Array = np.einsum("is,is->s", flat, flat)
    return squares
