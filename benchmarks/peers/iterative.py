"""Simulation that draws each drift given the path so far: no functions, no features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from benchmarks.neuron import JITTER, SparseDrift

Array = NDArray[np.float64]
_ROOT_5 = np.sqrt(5.0)
# Added to a conditional variance, relative to that of the prior: visited states are
# close to one another.
_JITTER = 1e-8


class SparseProcess(NamedTuple):
    """Matern-5/2 processes, one for each output, given ``q(u) = N(m, S)`` of each.

    With ``α = K⁻¹m`` and ``RᵀR = K⁻¹ - K⁻¹SK⁻¹``, the mean is ``k(x, Z) α`` and the
    covariance ``k(x, x') - k(x, Z) RᵀR k(Z, x')``.
    """

    points: Array  # (m, d), shared
    length_scales: Array  # (c, d)
    variances: Array  # (c,)
    alpha: Array  # (c, m)
    R: Array  # (c, m, m)


def sparse_process(models: Sequence[SparseDrift]) -> SparseProcess:
    """Arrays of processes that share their points, in the form used here."""
    alpha, R = [], []
    for model in models:
        m = len(model.points)
        K = model.kernel(model.points) + JITTER * model.variance * np.eye(m)
        L = np.linalg.cholesky(K)
        inverse = solve_triangular(L, np.eye(m), lower=True)
        # K⁻¹ - K⁻¹SK⁻¹ = L⁻ᵀ (I - L⁻¹SL⁻ᵀ) L⁻¹
        values, V = np.linalg.eigh(np.eye(m) - inverse @ model.q_cov @ inverse.T)
        R.append((V * np.sqrt(np.maximum(values, 0.0))).T @ inverse)
        alpha.append(inverse.T @ (inverse @ model.q_mean))
    scales = np.array([model.length_scale for model in models])
    variances = np.array([model.variance for model in models])
    return SparseProcess(
        models[0].points, scales, variances, np.array(alpha), np.array(R)
    )


@numba.njit(fastmath=True)
def _sections(x: Array, points: Array, scale: Array, variance: float, out: Array):
    """Write k(x, points) to the start of out."""
    for j in range(len(points)):
        square = 0.0
        for q in range(len(x)):
            square += ((x[q] - points[j, q]) / scale[q]) ** 2
        out[j] = square
    for j in range(len(points)):
        t = _ROOT_5 * np.sqrt(out[j])
        out[j] = variance * (1.0 + t + t * t / 3.0) * np.exp(-t)


@numba.njit(fastmath=True)
def _dot(a: Array, b: Array) -> float:
    total = 0.0
    for i in range(a.size):
        total += a[i] * b[i]
    return total


@numba.njit(fastmath=True)
def _drift_along(points, scale, variance, alpha, R, visited, projected, L, z, t, new):
    """Draw the drift at visited[t] given those before; extends L, z and projected.

    L (packed rows) is the Cholesky factor of the covariance of the process at the
    visited inputs, ``projected`` holds ``R k(Z, x)``: O(m² + m t + t²).
    """
    x, m, first = visited[t], len(points), t * (t + 1) // 2
    k, row = np.empty(m), L[first : first + t + 1]
    _sections(x, points, scale, variance, k)
    for i in range(m):
        projected[t, i] = _dot(R[i], k)
    _sections(x, visited[:t], scale, variance, row[:t])
    # solve L l = cov(visited, x)
    start = 0
    for i in range(t):
        covariance = row[i] - _dot(projected[i], projected[t])
        above = _dot(L[start : start + i], row[:i])
        row[i] = (covariance - above) / L[start + i]
        start += i + 1
    left = variance - _dot(projected[t], projected[t]) - _dot(row[:t], row[:t])
    row[t] = np.sqrt(max(left, 0.0) + _JITTER * variance)
    z[t] = new
    return _dot(alpha, k) + _dot(row, z[: t + 1])


@numba.njit
def _one_path(points, scales, variances, alpha, R, x0, controls, dt, kicks, noise):
    n_steps, c = noise.shape
    d, m = points.shape[1], len(points)
    path, visited = np.empty((n_steps + 1, c)), np.empty((n_steps, d))
    path[0] = x0
    L = np.empty((c, n_steps * (n_steps + 1) // 2))
    z, projected = np.empty((c, n_steps)), np.empty((c, n_steps, m))
    for t in range(n_steps):
        visited[t, :c] = path[t]
        visited[t, c:] = controls[t]
        for i in range(c):
            drift = _drift_along(
                points, scales[i], variances[i], alpha[i], R[i], visited,
                projected[i], L[i], z[i], t, noise[t, i],
            )  # fmt: skip
            path[t + 1, i] = path[t, i] + dt * drift + kicks[t, i]
    return path


def simulate_iteratively(
    process: SparseProcess,
    x0: Array,
    controls: Array,
    dt: float,
    diffusion: Array,
    n_paths: int,
    rng: np.random.Generator,
) -> Array:
    """Euler-Maruyama paths, (n_steps + 1, n_paths, c), one after the other.

    Parameters
    ----------
    x0 : ndarray of shape (c,)
    controls : ndarray of shape (n_steps, d - c)
        Inputs of the drift behind the states.
    dt : float
    diffusion : ndarray of shape (c,)
    """
    shape = (len(controls), len(x0))
    paths = np.empty((len(controls) + 1, n_paths, len(x0)))
    for j in range(n_paths):
        kicks = np.sqrt(dt) * diffusion * rng.standard_normal(shape)
        noise = rng.standard_normal(shape)
        paths[:, j] = _one_path(*process, x0, controls, dt, kicks, noise)
    return paths
