"""The compiled time loop of Langevin dynamics, for a block of chains.

Proposals or leaps, the rows in blocks with the formula of the likelihood called by its
address, matrix products by BLAS, and the Metropolis test are one function; random
numbers are arguments. The chains come last, so that every inner loop runs over chains
that lie side by side.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics import pointwise
from skgpx._numerics._jit import kernel
from skgpx._numerics.elementary import add

Array = NDArray[np.float64]

# Rows of a block are at most so many, and so are their latent values: these, their
# gradients and energies stay in the cache.
ROWS, _LATENT_VALUES = 256, 2**14

_value_and_gradient = pointwise.value_and_gradient


class Scheme(NamedTuple):
    """Numbers of one step, ``z' = z - drift ∇U(z) + diffusion ξ``, or of a trajectory.

    Attributes
    ----------
    drift, diffusion : float
        With leaps, the drift is the angle of one, and the diffusion is not used.
    metropolis : bool
        Whether to accept or reject.
    n_leaps : int
        Leaps of a trajectory; 0 for a single step.
    centred : bool
        Whether ``∇U - z`` is truncated, or ∇U itself: the choice where there are
        several modes, of which the origin of the coordinates can suit but one.
    """

    drift: float
    diffusion: float
    metropolis: bool
    n_leaps: int = 0
    centred: bool = True

    @property
    def cost(self) -> int:
        """Evaluations of the gradient."""
        return max(self.n_leaps, 1)

    @property
    def mobility(self) -> float:
        """How far an accepted step forgets its start, an evaluation: 1 is all of it.

        For U = ½‖z‖², ``1 - ρ`` with ρ the correlation of the two states.
        """
        if self.n_leaps == 0:
            return self.drift
        return float(1.0 - np.cos(self.n_leaps * self.drift)) / self.n_leaps


class Density(NamedTuple):
    """A target as the compiled loop takes it: numbers, arrays that are only read.

    The attributes are those of :class:`~skgpx._numerics.langevin.Target`; the formula
    is an address, and the offset has a row for each row and a column for each output.
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
    """What some steps take from the generator.

    Attributes
    ----------
    noise : ndarray of shape (n_steps, g, p, s)
        Standard normal: the noise of a step, or the momentum of a trajectory.
    angles : ndarray of shape (n_steps,)
        Uniform on [0, 1); read where there are leaps.
    log_uniforms : ndarray of shape (n_steps, s)
        Logarithms of uniform numbers; read where there is a Metropolis test.
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
    """Move chains (g p, s), their energies (s,) and gradients by some steps, in place.

    Where a run `starts`, energy and gradient at z are computed first, as those of a
    proposal that stays at z and is accepted. This is one function on purpose: a part
    that is compiled on its own is optimised again inside each caller, which doubles the
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
    largest = min(ROWS, max(_LATENT_VALUES // (c * s), 1))
    n_blocks = (n + largest - 1) // largest
    size = (n + n_blocks - 1) // n_blocks
    origin = 1.0 if scheme.centred else 0.0
    longest = 4.0 * g * p
    new_z = np.empty((g * p, s))
    new_energy = np.empty(s)
    new_gradient = np.empty((g * p, s))
    momentum = np.empty((g * p, s))
    w = np.empty((g * p, s))
    # outputs side by side, the chains last: of a single output the same matrix
    side_by_side = w if c == 1 else np.empty((m, c * s))
    pull = np.empty((m, c * s))
    part = np.empty((m, c * s))
    f = np.empty((size, c * s))
    at_node = f if len(nodes) == 1 else np.empty((size, c * s))
    slope = np.empty((size, c * s))
    value = np.empty((size, s))
    # of each chain: a squared length, then the logarithm of the Metropolis ratio
    sums = np.empty(s)
    moves = np.empty(s, np.bool_)
    for step in range(-1 if starts else 0, n_steps):
        is_start = step < 0
        leaps = scheme.n_leaps > 0 and not is_start
        drift = 0.0 if is_start or leaps else scheme.drift
        diffusion = 0.0 if is_start or leaps else scheme.diffusion
        noise = noises[max(step, 0)]
        # random so that no direction comes back to where it was
        angle = scheme.drift * (0.6 + 0.6 * random.angles[max(step, 0)])

        # 1 z' = z - drift ∇U + diffusion ξ; or p = ξ, and half a kick by ∇U - z
        for i in range(g * p):
            for j in range(s):
                moved = z[i, j] - drift * gradient[i, j]
                new_z[i, j] = moved + diffusion * noise[i, j]
                pull_z = gradient[i, j] - z[i, j]
                momentum[i, j] = noise[i, j] - 0.5 * angle * pull_z

        n_evaluations = scheme.n_leaps if leaps else 1
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
                # U = ½zᵀAz - bᵀz and Az - b
                np.dot(features, new_z, new_gradient)
                for i in range(m):
                    for j in range(s):
                        half = 0.5 * new_gradient[i, j] - targets[i]
                        new_energy[j] += half * new_z[i, j]
                        new_gradient[i, j] -= targets[i]
            else:
                # without a Metropolis test, the energy is needed at the end only
                with_value = scheme.metropolis or is_start or step == n_steps - 1
                # w = centre + root z and ½‖w‖²
                for k in range(g):
                    np.dot(root[k], new_z[k * p : (k + 1) * p], w[k * p : (k + 1) * p])
                for k in range(c):
                    for i in range(m):
                        for j in range(s):
                            weight = w[k * m + i, j] + centre[k * m + i]
                            w[k * m + i, j] = weight
                            new_energy[j] += 0.5 * weight * weight
                            side_by_side[i, k * s + j] = weight
                            pull[i, k * s + j] = weight
                # β Σ_i ω_i E nll(y_i, offset_i + φ_iᵀw + std_i ξ) and its gradient in
                # w; the expectation is a sum over nodes, a single one of which is zero
                for first in range(0, n, size):
                    last = min(first + size, n)
                    rows = last - first
                    np.dot(features[first:last], side_by_side, f[:rows])
                    for q in range(len(nodes)):
                        for i in range(rows):
                            for k in range(c):
                                shift = std[first + i, k] * nodes[q, k]
                                shift += offset[first + i, k]
                                for j in range(k * s, (k + 1) * s):
                                    at_node[i, j] = f[i, j] + shift
                        _value_and_gradient(
                            formula,
                            parameters,
                            targets[columns * first : columns * last],
                            at_node[:rows],
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
                        np.dot(features[first:last].T, slope[:rows], part)
                        add(part, pull)
                # ∇U = rootᵀ (w + the gradient of the data term)
                for k in range(c if c > 1 else 0):
                    for i in range(m):
                        for j in range(s):
                            w[k * m + i, j] = pull[i, k * s + j]
                total_pull = pull if c == 1 else w
                for k in range(g):
                    np.dot(
                        root[k].T,
                        total_pull[k * p : (k + 1) * p],
                        new_gradient[k * p : (k + 1) * p],
                    )

            # 4 shorten ∇U - z, or ∇U, to at most twice the root of its dimension
            if scheme.metropolis and not is_start:
                for j in range(s):
                    sums[j] = 0.0
                for i in range(g * p):
                    for j in range(s):
                        away = new_gradient[i, j] - origin * new_z[i, j]
                        sums[j] += away * away
                shortens = False
                for j in range(s):
                    shortens |= sums[j] > longest
                    sums[j] = min(1.0, np.sqrt(longest / sums[j]))
                if shortens:
                    for i in range(g * p):
                        for j in range(s):
                            middle = origin * new_z[i, j]
                            away = new_gradient[i, j] - middle
                            new_gradient[i, j] = middle + sums[j] * away

            # 5 a kick of the momentum by ∇U - z, half of one at the end
            if leaps:
                kick = 0.5 * angle if leap == n_evaluations else angle
                for i in range(g * p):
                    for j in range(s):
                        momentum[i, j] -= kick * (new_gradient[i, j] - new_z[i, j])

        # 6 the test: log q(z | z') - log q(z' | z), or the loss of kinetic energy
        for j in range(s):
            sums[j] = energy[j] - new_energy[j]
        if scheme.metropolis and not is_start:
            leap_share = 1.0 if leaps else 0.0
            per_diffusion = 0.0 if leaps else 1.0 / diffusion
            for i in range(g * p):
                for j in range(s):
                    back = z[i, j] - new_z[i, j] + drift * new_gradient[i, j]
                    end = leap_share * momentum[i, j] + per_diffusion * back
                    sums[j] += 0.5 * (noise[i, j] * noise[i, j] - end * end)

        # 7 move the chains that pass, and add the states to the sums; comparisons with
        # NaN are false, so that a proposal of energy NaN is rejected
        for j in range(s):
            passes = random.log_uniforms[max(step, 0), j] <= sums[j]
            moves[j] = passes or is_start or not scheme.metropolis
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
