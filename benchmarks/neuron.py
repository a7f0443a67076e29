"""The FitzHugh-Nagumo neuron, and a sparse process that has learnt its drift."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.optimize import minimize
from scipy.stats import qmc
from sklearn.gaussian_process.kernels import ConstantKernel, Matern

Array = NDArray[np.float64]
STEP = 0.25
N_INDUCING, N_TRAIN = 32, 10_000
# voltage and recovery are divided by the width of their range
LOW, WIDTH = np.array([-2.5, -1.5]), np.array([5.0, 4.0])
# process noise of variance 0.01 per unit of time, in scaled states
DIFFUSION = 0.1 / WIDTH
START = (np.array([-1.0, -0.5]) - LOW) / WIDTH
JITTER = 1e-6


def drift(state: Array, current: Array) -> Array:
    """Return the true drift of scaled states (n, 2) for a current of shape (n,)."""
    v, w = (LOW + WIDTH * state).T
    slope = np.column_stack((v - v**3 / 3.0 - w + current, 0.08 * (v + 0.7 - 0.8 * w)))
    return slope / WIDTH


def current(t: float) -> float:
    """Sinusoidal current injection."""
    return float(0.5 + 0.5 * np.sin(0.05 * t))


def simulate_truth(n_steps: int, n_paths: int, rng: np.random.Generator) -> Array:
    """Euler-Maruyama paths of the true system, (n_steps + 1, n_paths, 2)."""
    paths = np.empty((n_steps + 1, n_paths, 2))
    x = paths[0] = np.broadcast_to(START, (n_paths, 2))
    for i in range(n_steps):
        now = np.full(n_paths, current(STEP * i))
        kick = np.sqrt(STEP) * DIFFUSION * rng.standard_normal(x.shape)
        x = paths[i + 1] = x + STEP * drift(x, now) + kick
    return paths


class SparseDrift(NamedTuple):
    """One output of the drift: a sparse process with its optimal distribution of u."""

    variance: float
    length_scale: Array  # (3,)
    noise_variance: float
    points: Array  # (m, 3)
    q_mean: Array  # (m,)
    q_cov: Array  # (m, m)

    @property
    def kernel(self) -> ConstantKernel:
        """Covariance function."""
        return _kernel(self.variance, self.length_scale)


def learn(seed: int = 0, noise_share: float = 1.0) -> list[SparseDrift]:
    """Two independent sparse processes with shared points, from 10 000 transitions.

    The hyperparameters maximise the collapsed bound. Targets are increments over the
    step, which are as noisy as the process; ``noise_share`` of their noise is kept.
    """
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(N_TRAIN, 3))
    spread = noise_share * DIFFUSION / np.sqrt(STEP)
    noise = spread * rng.standard_normal((N_TRAIN, 2))
    Y = drift(X[:, :2], X[:, 2]) + noise
    Z = qmc.Sobol(3, rng=rng).random(N_INDUCING)
    return [_learn_output(X, y, Z) for y in Y.T]


def _learn_output(X: Array, y: Array, Z: Array) -> SparseDrift:
    mean_square = float(np.mean(y**2))
    start = np.log([mean_square, 1.0, 1.0, 1.0, 0.5 * mean_square])
    found = minimize(
        lambda log: -_bound(X, y, Z, *_natural(log)),
        start,
        method="L-BFGS-B",
        bounds=[(s - 6.0, s + 6.0) for s in start],
    )
    variance, scale, noise = _natural(found.x)
    Kmm, A, _ = _projected(X, Z, variance, scale, noise)
    root = np.linalg.cholesky(Kmm)
    inner = np.linalg.cholesky(np.eye(len(Z)) + A @ A.T)
    # S = L B⁻¹ Lᵀ,  m = L B⁻¹ A y / σ  with  B = I + A Aᵀ
    half = solve_triangular(inner, root.T, lower=True)
    mean = half.T @ solve_triangular(inner, A @ y, lower=True) / np.sqrt(noise)
    return SparseDrift(variance, scale, noise, Z, mean, half.T @ half)


def _natural(log: Array) -> tuple[float, Array, float]:
    values = np.exp(log)
    return float(values[0]), values[1:4], float(values[4])


def _kernel(variance: float, scale: Array) -> ConstantKernel:
    return ConstantKernel(variance) * Matern(scale, nu=2.5)


def _projected(
    X: Array, Z: Array, variance: float, scale: Array, noise: float
) -> tuple[Array, Array, float]:
    """k(Z, Z) with jitter, ``A = L⁻¹ k(Z, X) / σ``, and the variance left out."""
    kernel = _kernel(variance, scale)
    Kmm = kernel(Z) + JITTER * variance * np.eye(len(Z))
    A = solve_triangular(np.linalg.cholesky(Kmm), kernel(Z, X), lower=True)
    A /= np.sqrt(noise)
    return Kmm, A, variance * len(X) - noise * float(np.sum(A**2))


def _bound(
    X: Array, y: Array, Z: Array, variance: float, scale: Array, noise: float
) -> float:
    """Titsias' collapsed bound, in nats."""
    _, A, left = _projected(X, Z, variance, scale, noise)
    inner = np.linalg.cholesky(np.eye(len(Z)) + A @ A.T)
    c = solve_triangular(inner, A @ y, lower=True) / np.sqrt(noise)
    log_det = 2.0 * np.sum(np.log(np.diag(inner))) + len(y) * np.log(noise)
    misfit = float(y @ y) / noise - float(c @ c)
    return -0.5 * float(log_det + misfit + len(y) * np.log(2 * np.pi) + left / noise)
