"""Fixed quadrature rules for standard normal variables."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skgpx._numerics.linalg import cholesky, solve_lower
from skgpx._numerics.mixture import normal_points

Array = NDArray[np.float64]


def expectation_nodes(n_outputs: int, n_nodes: int = 12) -> tuple[Array, Array]:
    """Nodes ξ (q, c) and weights (q,) for ``E[h(ξ)]``, ξ ~ N(0, I).

    Gauss-Hermite with `n_nodes` nodes for one output; for several the spherical rule
    of degree three, ``±√c e_i`` with weights ``1 / (2c)``.
    """
    if n_outputs == 1:
        nodes, weights = np.polynomial.hermite_e.hermegauss(n_nodes)
        return nodes[:, np.newaxis], weights / weights.sum()
    points = np.sqrt(n_outputs) * np.eye(n_outputs)
    return np.concatenate((points, -points)), np.full(2 * n_outputs, 0.5 / n_outputs)


def shifted_nodes() -> tuple[Array, NDArray[np.complex128], float]:
    """Nodes x (q,), complex weights c (q,) and a shift t for functions with poles.

    ``E[h(ξ)] = Re Σ c_q h(x_q + i t)`` for ξ ~ N(0, 1) and a function h of which the
    real part is meant and which is analytic above the real line, however close its
    singularities are below it: the path of integration is moved away from them. The
    trapezoidal rule of step ``2π / W`` on the line ``Im = W / 4`` has the error
    ``exp(-W² / 4)``, 1e-7 here.
    """
    q, width = 18, 8.0
    step, shift = 2.0 * np.pi / width, width / 4.0
    x = np.asarray(step * (np.arange(q) - 0.5 * (q - 1)), dtype=np.float64)
    weights = np.asarray(np.exp(-0.5 * (x + 1j * shift) ** 2), dtype=np.complex128)
    return x, weights / weights.sum(), shift


def trapezoidal_nodes(n_nodes: int) -> tuple[Array, Array]:
    """Nodes (q, 1) and weights (q,) for ``E[h(ξ)]``, evenly spaced over ±6.5."""
    nodes = np.linspace(-6.5, 6.5, n_nodes)
    weights = np.exp(-0.5 * nodes**2)
    return nodes[:, np.newaxis], weights / weights.sum()


def product_nodes(n_outputs: int, rule: tuple[Array, Array]) -> tuple[Array, Array]:
    """Nodes (q, 1) and weights of one output, of every output with every other."""
    x, w = rule[0][:, 0], rule[1]
    nodes = np.stack(np.meshgrid(*[x] * n_outputs, indexing="ij"), axis=-1)
    masses = np.stack(np.meshgrid(*[w] * n_outputs, indexing="ij"), axis=-1)
    return nodes.reshape(-1, n_outputs), np.prod(masses, axis=-1).ravel()


def sequence_nodes(n_outputs: int, n_nodes: int) -> tuple[Array, Array]:
    """Points of a Kronecker sequence and their negatives, (q, c), of equal weights.

    Exact up to degree three, and of an error that falls about as ``1 / q`` for
    functions with kinks, whatever the number of outputs. `n_nodes` is even and at least
    four times the number of outputs.
    """
    points = normal_points(n_outputs, 1, n_nodes)[0][:, 0]
    # second moments of the identity: L⁻¹ P for P Pᵀ / q = L Lᵀ
    L = cholesky(points @ points.T / points.shape[1], jitter=0.0).L
    nodes = np.ascontiguousarray(solve_lower(L, points).T)
    return nodes, np.full(len(nodes), 1.0 / len(nodes))
