"""The compiled time loop of Langevin dynamics, which ``langevin`` calls.

Loops are written out, and arrays are made by `np.empty` only: array expressions and
other functions take numba much longer to compile.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics import pointwise
from skgpx._numerics._jit import inlined, kernel
from skgpx._numerics.chain_moves import decide, kick, propose, shorten, turn
from skgpx._numerics.elementwise import add

Array = NDArray[np.float64]

# Rows processed at a time: their latent values and gradients stay in the cache, and
# products of 96 x 100 x 100 take OpenBLAS's path for small matrices, which does not
# pack its arguments.
ROWS = 96

_value_and_gradient = pointwise.value_and_gradient


@kernel
def run_chains(
    quadratic: bool,
    formula: Any,
    parameters: Array,
    features: Array,
    y: Array,
    weights: Array,
    std: Array,
    nodes: Array,
    node_weights: Array,
    centre: Array,
    root: Array,
    n_outputs: int,
    offset: Array,
    z: Array,
    energy: Array,
    gradient: Array,
    drift: float,
    diffusion: float,
    metropolis: bool,
    n_leaps: int,
    centred: bool,
    n_steps: int,
    rng: np.random.Generator,
    temperature: float,
    accepted: Array,
    total: Array,
    square: Array,
) -> None:
    noise, momentum = np.empty(z.shape), np.empty(z.shape)
    new_z, new_energy = np.empty(z.shape), np.empty(energy.size)
    new_gradient = np.empty(z.shape)
    shorten(metropolis, centred, z, gradient)
    for step in range(n_steps):
        angle = propose(
            z, gradient, drift, diffusion, n_leaps, rng, noise, momentum,
            new_z, new_gradient,
        )  # fmt: skip
        for leap in range(max(n_leaps, 1)):
            if leap > 0:
                turn(angle, new_z, momentum)
            # without a Metropolis test, the energy is needed at the end only
            last = leap == max(n_leaps, 1) - 1
            with_value = last and (metropolis or step == n_steps - 1)
            _potential(
                quadratic, formula, parameters, features, y, weights, std, nodes,
                node_weights, centre, root, n_outputs, offset, new_z, temperature,
                with_value, new_energy, new_gradient,
            )  # fmt: skip
            shorten(metropolis, centred, new_z, new_gradient)
            if n_leaps > 0:
                kick(angle if not last else 0.5 * angle, new_z, new_gradient, momentum)
        decide(
            z, energy, gradient, new_z, new_energy, new_gradient, noise, momentum,
            drift, diffusion, metropolis, n_leaps, rng, accepted,
        )  # fmt: skip
        _accumulate(z.reshape(-1), total.reshape(-1), square.reshape(-1))


@inlined
def _accumulate(z: Array, total: Array, square: Array) -> None:
    for i in range(z.size):
        total[i] += z[i]
        square[i] += z[i] * z[i]


@inlined
def _potential(
    quadratic: bool,
    formula: Any,
    parameters: Array,
    features: Array,
    y: Array,
    weights: Array,
    std: Array,
    nodes: Array,
    node_weights: Array,
    centre: Array,
    root: Array,
    n_outputs: int,
    offset: Array,
    z: Array,
    temperature: float,
    with_value: bool,
    energy: Array,
    gradient: Array,
) -> None:
    """U(z) and ∇U(z) of a block of chains, written into the last two arguments.

    For a quadratic target the features hold its matrix and y its linear term.
    """
    if quadratic:
        _quadratic(features, y, z[0], energy, gradient[0])
        return
    groups, width, s = z.shape
    m = features.shape[1]
    w = np.empty((groups * width, s))
    for k in range(groups):
        np.dot(root[k], z[k], w[k * width : (k + 1) * width])
    # groups of outputs -> (m, c s): outputs side by side, chains last
    flat, pull = np.empty((m, n_outputs * s)), np.empty((m, n_outputs * s))
    energy[:], pull[:] = 0.0, 0.0
    shift = centre.reshape(-1)
    for i in range(len(w)):
        c, row = i // m, i % m
        for j in range(s):
            w[i, j] += shift[i]
            flat[row, c * s + j] = w[i, j]
            energy[j] += 0.5 * w[i, j] * w[i, j]
    _rows(
        formula, parameters, features, y, weights, std, nodes, node_weights,
        n_outputs, offset, flat, temperature, with_value, energy, pull,
    )  # fmt: skip
    for i in range(len(w)):
        c, row = i // m, i % m
        for j in range(s):
            w[i, j] += pull[row, c * s + j]
    for k in range(groups):
        np.dot(root[k].T, w[k * width : (k + 1) * width], gradient[k])


@inlined
def _quadratic(A: Array, b: Array, z: Array, energy: Array, gradient: Array) -> None:
    """U = ½zᵀAz - bᵀz and its gradient Az - b."""
    np.dot(A, z, gradient)
    energy[:] = 0.0
    for i in range(len(b)):
        for j in range(len(energy)):
            energy[j] += (0.5 * gradient[i, j] - b[i]) * z[i, j]
            gradient[i, j] -= b[i]


@kernel
def _rows(
    formula: Any,
    parameters: Array,
    features: Array,
    y: Array,
    weights: Array,
    std: Array,
    nodes: Array,
    node_weights: Array,
    n_outputs: int,
    offset: Array,
    w: Array,
    temperature: float,
    with_value: bool,
    energy: Array,
    pull: Array,
) -> None:
    """Add the data term and its gradient in w, block of rows by block of rows."""
    n, s = len(features), w.shape[1] // n_outputs
    each = len(y) // n
    size = min(n, ROWS)
    f, slope = np.empty((size, w.shape[1])), np.empty((size, w.shape[1]))
    shifted, total = np.empty(f.shape), np.empty(f.shape)
    value, part, ones = np.empty((size, s)), np.empty(pull.shape), np.empty(n_outputs)
    ones[:] = 1.0
    for first in range(0, n, ROWS):
        b = min(ROWS, n - first)
        last = first + b
        phi = features[first:last]
        np.dot(phi, w, f[:b])
        _shift(f[:b], offset, first, ones, f[:b])
        for q in range(len(nodes)):
            at, out = f[:b], total[:b] if q == 0 else slope[:b]
            if len(nodes) > 1:
                _shift(f[:b], std, first, nodes[q], shifted[:b])
                at = shifted[:b]
            _value_and_gradient(
                formula, parameters, y[each * first : each * last], at, with_value,
                value[:b], out,
            )  # fmt: skip
            mass = temperature * node_weights[q]
            _weigh(weights[first:last], mass, with_value, value, out, energy)
            if q > 0:
                add(out, total[:b])
        np.dot(phi.T, total[:b], part)
        add(part, pull)


@inlined
def _shift(f: Array, table: Array, first: int, factor: Array, out: Array) -> None:
    """f plus a table (n, c) times a factor (c,); one row or column may serve all."""
    s = f.shape[1] // len(factor)
    for i in range(len(f)):
        row = table[min(first + i, len(table) - 1)]
        for c in range(len(factor)):
            step = row[min(c, len(row) - 1)] * factor[c]
            for j in range(c * s, (c + 1) * s):
                out[i, j] = f[i, j] + step


@inlined
def _weigh(
    weights: Array,
    factor: float,
    with_value: bool,
    value: Array,
    slope: Array,
    energy: Array,
) -> None:
    """Multiply the gradients by the weights; add the weighted values to the energy."""
    for i in range(len(weights)):
        omega = factor * weights[i]
        if omega != 1.0:
            for j in range(slope.shape[1]):
                slope[i, j] *= omega
        if with_value:
            for j in range(value.shape[1]):
                energy[j] += omega * value[i, j]
