"""Synthetic problems on which one Langevin step is timed and checked."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

LIKELIHOODS = ("gaussian", "bernoulli", "student_t", "poisson", "shifted_mixture")
NOISE_VARIANCE = 0.04
STUDENT_T = {"df": 4.0, "scale": 0.2}
SHIFT = {"shift": 2.0, "probability": 0.5}
# Eigenvalues of k(Z, Z) / M below this share of the largest are rounding errors.
EIGENVALUE_FLOOR = 1e-10


class Problem(NamedTuple):
    """One posterior to sample from, with everything but the sampler fixed.

    ``kernel`` is ``amplitude exp(-|x - x'|^2 / (2 lengthscale^2))``.
    """

    likelihood: str
    X: NDArray[np.float64]  # (n, d)
    y: NDArray[np.float64]  # (n,)
    Z: NDArray[np.float64]  # (m, d)
    amplitude: float
    lengthscale: float
    start: NDArray[np.float64]  # (m_kept, s)
    step_size: float

    def kernel(
        self, A: NDArray[np.float64], B: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Gram matrix k(A, B), shape (len(A), len(B))."""
        A, B = A / self.lengthscale, B / self.lengthscale
        squared = (A**2).sum(1)[:, None] + (B**2).sum(1) - 2.0 * A @ B.T
        return self.amplitude * np.exp(-0.5 * np.maximum(squared, 0.0))

    def nystroem(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Eigenpairs of k(Z, Z) / M: scaled vectors (m, m_kept), values (m_kept,).

        The features of the paper are ``e(x) = vectors.T @ k(Z, x)`` with vectors
        divided by ``sqrt(M lambda)``.
        """
        values, vectors = np.linalg.eigh(self.kernel(self.Z, self.Z) / len(self.Z))
        kept = values > EIGENVALUE_FLOOR * values[-1]
        values, vectors = values[kept], vectors[:, kept]
        return vectors / np.sqrt(len(self.Z) * values), values


def make_problem(
    likelihood: str, n: int, m: int, n_particles: int, seed: int = 0
) -> Problem:
    """Draw data of the given likelihood around a smooth function of 8 inputs.

    The step size is a tenth of the stability bound of the prior part, so that
    thousands of steps stay finite for every likelihood.
    """
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 8))
    Z = X[rng.choice(n, m, replace=False)]
    f = 1.5 + np.sin(X[:, 0]) + 0.5 * np.cos(2.0 * X[:, 1]) * X[:, 2]
    y = _observe(likelihood, f, rng)
    empty = np.empty((0, n_particles))
    problem = Problem(likelihood, X, y, Z, 1.0, 2.0, empty, 0.0)
    vectors, values = problem.nystroem()
    start = np.sqrt(values)[:, None] * rng.standard_normal((len(values), n_particles))
    # The data's part of the stiffness is at most |E|^2 times the largest curvature.
    stiffest = np.linalg.norm(vectors.T @ problem.kernel(Z, X), 2) ** 2
    bound = 1.0 / (stiffest / NOISE_VARIANCE + 1.0 / values.min())
    return problem._replace(start=start, step_size=0.1 * bound)


def _observe(
    likelihood: str, f: NDArray[np.float64], rng: np.random.Generator
) -> NDArray[np.float64]:
    noise = np.sqrt(NOISE_VARIANCE) * rng.standard_normal(len(f))
    match likelihood:
        case "gaussian":
            return f + noise
        case "bernoulli":
            return rng.binomial(1, 1.0 / (1.0 + np.exp(-f))).astype(float)
        case "student_t":
            scale, df = STUDENT_T["scale"], STUDENT_T["df"]
            return f + scale * rng.standard_t(df, len(f))
        case "poisson":
            return rng.poisson(f**2).astype(float)
        case "shifted_mixture":
            shifted = rng.binomial(1, SHIFT["probability"], len(f))
            return f + SHIFT["shift"] * shifted + noise
    raise ValueError(f"likelihood must be one of {LIKELIHOODS}; got {likelihood!r}.")
