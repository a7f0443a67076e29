"""The paper's projected Langevin step, equation (236), in plain PyTorch.

    U <- U - eta E dc(Y, E^T U) - eta U / lambda + sqrt(2 eta) xi,

with ``E = V~^T k(Z, X)`` the Nystroem features, ``V~ = V / sqrt(M lambda)`` the scaled
eigenvectors of ``k(Z, Z) / M``. One training step is this update followed by the mean
energy ``c(Y, E^T U) + U^T U / (2 lambda)`` of the particles, which is what the
published training loop does to watch convergence.

Three arrangements of the same arithmetic, so that a ratio can be read honestly:

``"gpytorch"``
    as published: k(Z, X) is GPyTorch's lazy kernel matrix, evaluated again wherever
    it is used (twice in the update, once in the energy); products from left to
    right; the noise drawn through the eigendecomposition of the identity; the shift
    mixture differentiated particle by particle with ``jacfwd``.
``"lazy"``
    the same, with the kernel written in plain PyTorch.
``"precomputed"``
    what a careful author would write: E once, the latent values of the energy kept
    for the next update, noise straight from ``randn``, the mixture by formula.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.problems import NOISE_VARIANCE, SHIFT, STUDENT_T, Problem

ARRANGEMENTS = ("gpytorch", "lazy", "precomputed")


class TorchLangevin:
    """Particles of one problem, moved by the paper's scheme in float64.

    Parameters
    ----------
    problem : Problem
        Data, kernel, inducing points, start and step size.
    arrangement : {"gpytorch", "lazy", "precomputed"}
        See the module's docstring.
    """

    def __init__(self, problem: Problem, arrangement: str = "lazy"):
        if arrangement not in ARRANGEMENTS:
            raise ValueError(
                f"arrangement must be in {ARRANGEMENTS}; got {arrangement}."
            )
        vectors, values = problem.nystroem()
        self.precomputed = arrangement == "precomputed"
        self.vectors, self.values = torch.tensor(vectors), torch.tensor(values)
        self.y = torch.tensor(problem.y)
        self.step_size = problem.step_size
        self.particles = torch.tensor(problem.start)
        self.cost = COSTS[problem.likelihood]
        self.derivative = self._choose_derivative(problem.likelihood)
        self.gram = _gram(problem, arrangement)
        if self.precomputed:
            self.features = self.vectors.T @ self.gram()  # E, (m, n)
            self._latent = self.latent()

    def _choose_derivative(self, likelihood: str) -> Callable[..., torch.Tensor]:
        if likelihood == "shifted_mixture" and not self.precomputed:
            return self._derivative_by_jacfwd
        return DERIVATIVES[likelihood]

    def _derivative_by_jacfwd(self, y: torch.Tensor, f: torch.Tensor) -> torch.Tensor:
        """Forward-mode Jacobian of the summed cost, mapped over the particles."""

        def cost(column: torch.Tensor) -> torch.Tensor:
            return self.cost(y, column).sum(0)

        jacobian = torch.vmap(torch.func.jacfwd(cost), in_dims=2)
        return jacobian(f[:, None, :]).reshape(f.shape[::-1]).T

    def latent(self) -> torch.Tensor:
        """Values of every particle at the training inputs, (n, s)."""
        if self.precomputed:
            return self.features.T @ self.particles
        return self.gram().T @ self.vectors @ self.particles

    def energy(self) -> float:
        """Mean over the particles of c(Y, E^T U) + U^T U / (2 lambda)."""
        f = self.latent()
        if self.precomputed:
            self._latent = f
            prior = (self.particles**2 / self.values[:, None]).sum(0)
        else:
            precision = torch.diag(torch.reciprocal(self.values))
            prior = torch.multiply(self.particles, precision @ self.particles).sum(0)
        return (self.cost(self.y, f).sum(0) + 0.5 * prior).mean().item()

    def update(self, noise: NDArray[np.float64] | None = None) -> None:
        """Move every particle once; ``noise`` (m, s) replaces the drawn xi."""
        xi = self._draw_noise() if noise is None else torch.tensor(noise)
        eta = self.step_size
        if self.precomputed:
            pull = self.features @ self.derivative(self.y, self._latent)
            drift = pull.add_(self.particles / self.values[:, None])
            self.particles.add_(drift, alpha=-eta).add_(xi, alpha=math.sqrt(2 * eta))
            return
        slope = self.derivative(self.y, self.latent())
        precision = torch.diag(torch.reciprocal(self.values))
        self.particles += (
            -eta * self.vectors.T @ self.gram() @ slope
            - eta * precision @ self.particles
            + math.sqrt(2.0 * eta) * xi
        ).detach()

    def _draw_noise(self) -> torch.Tensor:
        shape = self.particles.shape
        if self.precomputed:
            return torch.randn(shape, dtype=torch.float64)
        values, vectors = torch.linalg.eigh(torch.eye(shape[0], dtype=torch.float64))
        root = vectors @ torch.diag(torch.sqrt(torch.clip(values, 0, None)))
        return root @ torch.randn(shape, dtype=torch.float64)

    def step(self) -> float:
        """One training step: the update, then the energy, in nats."""
        self.update()
        return self.energy()


def _gram(problem: Problem, arrangement: str) -> Callable[[], torch.Tensor]:
    """Return the function that gives k(Z, X), (m, n), each time it is needed."""
    Z, X = torch.tensor(problem.Z), torch.tensor(problem.X)
    if arrangement == "gpytorch":
        # the other arrangements need PyTorch only
        import gpytorch

        kernel = gpytorch.kernels.ScaleKernel(
            gpytorch.kernels.RBFKernel(ard_num_dims=X.shape[1])
        ).double()
        kernel.outputscale = problem.amplitude
        kernel.base_kernel.lengthscale = problem.lengthscale
        kernel.requires_grad_(False)
        lazy = kernel(Z, X)
        return lambda: lazy
    lengthscale = torch.full((X.shape[1],), problem.lengthscale, dtype=torch.float64)

    def evaluate() -> torch.Tensor:
        A, B = Z / lengthscale, X / lengthscale
        squared = torch.cdist(A, B, compute_mode="use_mm_for_euclid_dist").square_()
        return squared.mul_(-0.5).exp_().mul_(problem.amplitude)

    return evaluate


# Costs c(y, f) = -log p(y | f) without constants, and their derivatives in f;
# y (n,), f (n, s), both results (n, s).


def _gaussian_cost(y: torch.Tensor, f: torch.Tensor) -> torch.Tensor:
    return torch.square(f - y[:, None]) / (2.0 * NOISE_VARIANCE)


def _gaussian_derivative(y: torch.Tensor, f: torch.Tensor) -> torch.Tensor:
    return (f - y[:, None]) / NOISE_VARIANCE


def _bernoulli_cost(y: torch.Tensor, f: torch.Tensor) -> torch.Tensor:
    p = torch.sigmoid(f)
    return -y[:, None] * torch.log(p) - (1 - y[:, None]) * torch.log(1 - p)


def _bernoulli_derivative(y: torch.Tensor, f: torch.Tensor) -> torch.Tensor:
    p = torch.sigmoid(f)
    return -torch.mul(y[:, None], 1 - p) + torch.mul(1 - y[:, None], p)


def _student_t_cost(y: torch.Tensor, f: torch.Tensor) -> torch.Tensor:
    df, scale = STUDENT_T["df"], STUDENT_T["scale"]
    squared = torch.square(f - y[:, None])
    return 0.5 * (df + 1) * torch.log(1 + squared / (df * scale**2))


def _student_t_derivative(y: torch.Tensor, f: torch.Tensor) -> torch.Tensor:
    df, scale = STUDENT_T["df"], STUDENT_T["scale"]
    error = f - y[:, None]
    return (df + 1) * torch.divide(error, df * scale**2 + torch.square(error))


def _poisson_cost(y: torch.Tensor, f: torch.Tensor) -> torch.Tensor:
    return torch.square(f) - 2 * y[:, None] * torch.log(torch.abs(f))


def _poisson_derivative(y: torch.Tensor, f: torch.Tensor) -> torch.Tensor:
    return -2 * torch.divide(y[:, None], f) + 2 * f


def _mixture_logits(y: torch.Tensor, f: torch.Tensor) -> torch.Tensor:
    """Log of the two weighted components, shifted first, (2, n, s)."""
    error = y[:, None] - f
    errors = torch.stack([error - SHIFT["shift"], error])
    p = SHIFT["probability"]
    weights = torch.tensor([p, 1 - p], dtype=torch.float64).log()[:, None, None]
    return weights - torch.square(errors) / (2.0 * NOISE_VARIANCE)


def _mixture_cost(y: torch.Tensor, f: torch.Tensor) -> torch.Tensor:
    return -torch.logsumexp(_mixture_logits(y, f), dim=0)


def _mixture_derivative(y: torch.Tensor, f: torch.Tensor) -> torch.Tensor:
    shifted = torch.softmax(_mixture_logits(y, f), dim=0)[0]
    return (f - y[:, None] + SHIFT["shift"] * shifted) / NOISE_VARIANCE


COSTS = {
    "gaussian": _gaussian_cost,
    "bernoulli": _bernoulli_cost,
    "student_t": _student_t_cost,
    "poisson": _poisson_cost,
    "shifted_mixture": _mixture_cost,
}
DERIVATIVES = {
    "gaussian": _gaussian_derivative,
    "bernoulli": _bernoulli_derivative,
    "student_t": _student_t_derivative,
    "poisson": _poisson_derivative,
    "shifted_mixture": _mixture_derivative,
}
