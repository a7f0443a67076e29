"""The compiled time loop of Langevin dynamics, for a block of chains.

One function holds the proposals or leaps, the blocks of rows with the likelihood's
formula called by its address, the matrix products by BLAS, and the Metropolis test.
Random numbers are arguments. The chains are the last axis, so that every inner loop
runs over contiguous memory.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from skgpx._numerics._jit import kernel
from skgpx._numerics.elementary import add
from skgpx._numerics.pointwise import value_and_gradient
from skgpx._types import Array

# Largest number of rows in a block, which has at most 2**14 latent values: these, their
# gradients and their energies then stay in the cache.
ROWS = 256


class Scheme(NamedTuple):
    """Numbers of one step, ``z' = z - drift ∇U(z) + diffusion ξ``, or of a trajectory.

    Attributes
    ----------
    drift : float
        Step size; with leaps, the angle of one leap.
    diffusion : float
        Scale of the noise; not used with leaps.
    metropolis : bool
        Whether proposals are accepted or rejected by a Metropolis test.
    n_leaps : int
        Leaps of a trajectory; 0 for a single step.
    centred : bool
        True truncates ``∇U - z``, False truncates ∇U itself. False suits targets with
        several modes, since the origin of the coordinates fits only one of them.
    """

    drift: float
    diffusion: float
    metropolis: bool
    n_leaps: int = 0
    centred: bool = True

    @property
    def cost(self) -> int:
        """Number of gradient evaluations."""
        return max(self.n_leaps, 1)

    @property
    def mobility(self) -> float:
        """Decorrelation by an accepted step, per gradient evaluation.

        For U = ½‖z‖² it is ``1 - ρ``, where ρ is the correlation of the states before
        and after the step, divided by the number of evaluations. An independent state
        has mobility 1.
        """
        if self.n_leaps == 0:
            return self.drift
        angle = self.n_leaps * self.drift
        return float(1.0 - np.cos(angle)) / self.n_leaps


class Density(NamedTuple):
    """A target in the form of the compiled loop: numbers and read-only arrays.

    Attributes have the meaning that they have in
    :class:`~skgpx._numerics.langevin.Target`, except that `formula` is an address and
    `offset` has the full shape (n, c).
    """

    is_quadratic: bool
    formula: Any
    parameters: Array
    features: Array
    y: Array
    weights: Array
    offset: Array
    std: Array
    nodes: Array
    node_weights: Array
    centre: Array
    root: Array
    n_outputs: int
    temperature: float


class RandomNumbers(NamedTuple):
    """Random numbers of a stretch of steps.

    Attributes
    ----------
    noise : ndarray of shape (n_steps, g, p, s)
        Standard normal: the noise of a step, or the momentum of a trajectory.
    angles : ndarray of shape (n_steps,)
        Uniform on [0, 1); used by trajectories.
    log_uniforms : ndarray of shape (n_steps, s)
        Logarithms of uniform numbers; used by Metropolis tests.
    """

    noise: Array
    angles: Array
    log_uniforms: Array


# ---- The loop ------------------------------------------------------------------------


@kernel
def run_steps(  # noqa: C901, PLR0912, PLR0915
    density: Density,
    scheme: Scheme,
    random: RandomNumbers,
    n_steps: int,
    starts: bool,
    z: Array,
    energy: Array,
    gradient: Array,
    accepted: Array,
    total: Array,
    square: Array,
) -> None:
    """Move chains (g p, s), their energies (s,) and gradients in place.

    If `starts` is true, the energy and gradient at z are computed first, by a proposal
    that stays at z and is accepted. This is one function on purpose: numba optimises a
    separately compiled part again inside each caller, which doubles the time of the
    first fit.
    """
    g, p, s = random.noise.shape[1:]
    noises = random.noise.reshape(-1, g * p, s)
    formula = density.formula
    parameters = density.parameters
    features = density.features
    targets = density.y
    weights = density.weights
    offset = density.offset
    std = density.std
    nodes = density.nodes
    node_weights = density.node_weights
    centre = density.centre.reshape(-1)
    root = density.root
    c = density.n_outputs
    n, m = features.shape
    columns = len(targets) // n
    # blocks of rows of nearly equal size
    largest_block = min(ROWS, max(2**14 // (c * s), 1))
    n_blocks = (n + largest_block - 1) // largest_block
    block_size = (n + n_blocks - 1) // n_blocks
    origin = 0.0
    if scheme.centred:
        origin = 1.0
    # the square of 2 √dim
    longest = 4.0 * g * p
    new_z = np.empty((g * p, s))
    new_energy = np.empty(s)
    new_gradient = np.empty((g * p, s))
    momentum = np.empty((g * p, s))
    w = np.empty((g * p, s))
    # the weights of all outputs in one row (m, c s); of a single output w itself
    w_by_row = w
    if c > 1:
        w_by_row = np.empty((m, c * s))
    pull = np.empty((m, c * s))
    block_pull = np.empty((m, c * s))
    f = np.empty((block_size, c * s))
    f_at_node = f
    if len(nodes) > 1:
        f_at_node = np.empty((block_size, c * s))
    slope = np.empty((block_size, c * s))
    value = np.empty((block_size, s))
    # of each chain: a squared length, then the logarithm of the Metropolis ratio
    sums = np.empty(s)
    moves = np.empty(s, np.bool_)
    first_step = 0
    if starts:
        first_step = -1
    for step in range(first_step, n_steps):
        is_start = step < 0
        leaps = scheme.n_leaps > 0 and not is_start
        drift = 0.0
        diffusion = 0.0
        if not is_start and not leaps:
            drift = scheme.drift
            diffusion = scheme.diffusion
        noise = noises[max(step, 0)]
        log_uniform = random.log_uniforms[max(step, 0)]
        # a random angle, so that no direction returns to its start
        fraction = 0.6 + 0.6 * random.angles[max(step, 0)]
        angle = scheme.drift * fraction

        # 1 the proposal z' = z - drift ∇U + diffusion ξ;
        #   or the momentum p = ξ with half a kick, p' = p - ½ angle (∇U - z)
        for i in range(g * p):
            for j in range(s):
                drifted = z[i, j] - drift * gradient[i, j]
                new_z[i, j] = drifted + diffusion * noise[i, j]
                remainder = gradient[i, j] - z[i, j]
                momentum[i, j] = noise[i, j] - 0.5 * angle * remainder

        n_evaluations = 1
        if leaps:
            n_evaluations = scheme.n_leaps
        for leap in range(1, n_evaluations + 1):
            # 2 rotate (z', p): the exact flow of ½‖z‖² + ½‖p‖²
            if leaps:
                cosine = np.cos(angle)
                sine = np.sin(angle)
                for i in range(g * p):
                    for j in range(s):
                        before = new_z[i, j]
                        new_z[i, j] = cosine * before + sine * momentum[i, j]
                        momentum[i, j] = cosine * momentum[i, j] - sine * before

            # 3 U and ∇U at z'
            for j in range(s):
                new_energy[j] = 0.0
            if density.is_quadratic:
                # U = ½zᵀAz - bᵀz,  ∇U = Az - b
                np.dot(features, new_z, new_gradient)
                for i in range(m):
                    for j in range(s):
                        half = 0.5 * new_gradient[i, j] - targets[i]
                        new_energy[j] += half * new_z[i, j]
                        new_gradient[i, j] -= targets[i]
            else:
                # without a Metropolis test, only the last step needs the energy
                with_value = scheme.metropolis or is_start or step == n_steps - 1
                # w = centre + root z, and ½‖w‖²
                for k in range(g):
                    group_z = new_z[k * p : (k + 1) * p]
                    group_w = w[k * p : (k + 1) * p]
                    np.dot(root[k], group_z, group_w)
                for k in range(c):
                    for i in range(m):
                        row = k * m + i
                        for j in range(s):
                            weight = w[row, j] + centre[row]
                            w[row, j] = weight
                            new_energy[j] += 0.5 * weight * weight
                            w_by_row[i, k * s + j] = weight
                            pull[i, k * s + j] = weight
                # β Σ_i ω_i E_ξ nll(y_i, offset_i + φ_iᵀw + std_i ξ), and its gradient
                # in w; the expectation is a sum over nodes (a single node is zero)
                for first in range(0, n, block_size):
                    last = min(first + block_size, n)
                    rows = last - first
                    phi = features[first:last]
                    np.dot(phi, w_by_row, f[:rows])
                    for q in range(len(nodes)):
                        for i in range(rows):
                            for k in range(c):
                                shift = std[first + i, k] * nodes[q, k]
                                shift += offset[first + i, k]
                                for j in range(k * s, (k + 1) * s):
                                    f_at_node[i, j] = f[i, j] + shift
                        value_and_gradient(
                            formula,
                            parameters,
                            targets[columns * first : columns * last],
                            f_at_node[:rows],
                            with_value,
                            value[:rows],
                            slope[:rows],
                        )
                        mass = density.temperature * node_weights[q]
                        for i in range(rows):
                            omega = mass * weights[first + i]
                            for j in range(c * s):
                                slope[i, j] *= omega
                            if with_value:
                                for j in range(s):
                                    new_energy[j] += omega * value[i, j]
                        np.dot(phi.T, slope[:rows], block_pull)
                        add(block_pull, pull)
                # ∇U = rootᵀ (w + the gradient of the data term)
                total_pull = pull
                if c > 1:
                    total_pull = w
                    for k in range(c):
                        for i in range(m):
                            row = k * m + i
                            for j in range(s):
                                w[row, j] = pull[i, k * s + j]
                for k in range(g):
                    group_pull = total_pull[k * p : (k + 1) * p]
                    group_gradient = new_gradient[k * p : (k + 1) * p]
                    np.dot(root[k].T, group_pull, group_gradient)

            # 4 truncate ∇U - z, or ∇U, to the length 2 √dim
            if scheme.metropolis and not is_start:
                for j in range(s):
                    sums[j] = 0.0
                for i in range(g * p):
                    for j in range(s):
                        remainder = new_gradient[i, j] - origin * new_z[i, j]
                        sums[j] += remainder * remainder
                truncates = False
                for j in range(s):
                    truncates |= sums[j] > longest
                    sums[j] = min(1.0, np.sqrt(longest / sums[j]))
                if truncates:
                    for i in range(g * p):
                        for j in range(s):
                            middle = origin * new_z[i, j]
                            remainder = new_gradient[i, j] - middle
                            new_gradient[i, j] = middle + sums[j] * remainder

            # 5 a kick p' = p - angle (∇U - z), half of it after the last leap
            if leaps:
                kick = angle
                if leap == n_evaluations:
                    kick = 0.5 * angle
                for i in range(g * p):
                    for j in range(s):
                        remainder = new_gradient[i, j] - new_z[i, j]
                        momentum[i, j] -= kick * remainder

        # 6 the logarithm of the Metropolis ratio,
        #   U(z) - U(z') + log q(z | z') - log q(z' | z);
        #   for a trajectory the last terms are the loss of kinetic energy
        for j in range(s):
            sums[j] = energy[j] - new_energy[j]
        if scheme.metropolis and not is_start:
            momentum_share = 1.0
            per_diffusion = 0.0
            if not leaps:
                momentum_share = 0.0
                per_diffusion = 1.0 / diffusion
            for i in range(g * p):
                for j in range(s):
                    # ξ of the step from z' back to z, or the last momentum
                    back = z[i, j] - new_z[i, j] + drift * new_gradient[i, j]
                    reverse = momentum_share * momentum[i, j] + per_diffusion * back
                    forward = noise[i, j]
                    sums[j] += 0.5 * (forward * forward - reverse * reverse)

        # 7 move the accepted chains, and add the states to the sums; comparisons with
        #   NaN are false, so that a proposal of energy NaN is rejected
        for j in range(s):
            accepts = log_uniform[j] <= sums[j]
            moves[j] = accepts or is_start or not scheme.metropolis
            if moves[j]:
                energy[j] = new_energy[j]
                accepted[j] += 1.0
        for i in range(g * p):
            for j in range(s):
                if moves[j]:
                    z[i, j] = new_z[i, j]
                    gradient[i, j] = new_gradient[i, j]
                total[i, j] += z[i, j]
                square[i, j] += z[i, j] * z[i, j]
