"""BoTorch's pathwise draws of the same posterior."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from botorch.models import SingleTaskGP
from botorch.sampling.pathwise import draw_kernel_feature_paths, draw_matheron_paths
from botorch.sampling.pathwise.posterior_samplers import MatheronPath
from botorch.utils.sampling import optimize_posterior_samples
from gpytorch.kernels import MaternKernel
from gpytorch.likelihoods import GaussianLikelihood
from gpytorch.means import ZeroMean
from numpy.typing import NDArray

from benchmarks.timing import alternate
from skgpx import FunctionDraws

Array = NDArray[np.float64]
# Rows of one call, to choose from: the temporaries of few rows are small, those of many
# are slower to get than to fill, and which size is best depends on the allocator.
CHUNKS = (128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 4096)


def model(X: Array, y: Array, length_scale: float, noise_variance: float) -> Any:
    """Matern-5/2 process of unit variance with these hyperparameters."""
    kernel = MaternKernel(nu=2.5)
    kernel.lengthscale = length_scale
    gp = SingleTaskGP(
        torch.tensor(X),
        torch.tensor(y)[:, None],
        likelihood=GaussianLikelihood(),
        covar_module=kernel,
        mean_module=ZeroMean(),
        outcome_transform=None,
    ).double()
    gp.likelihood.noise = noise_variance
    return gp.eval()


def draw(gp: Any, n_basis: int, n_draws: int, seed: int) -> MatheronPath:
    """Paths with this many Fourier features each."""
    torch.manual_seed(seed)
    sampler = partial(draw_kernel_feature_paths, num_features=n_basis)
    with torch.no_grad():
        return draw_matheron_paths(
            gp, sample_shape=torch.Size([n_draws]), prior_sampler=sampler
        )


def fastest_chunk(paths: MatheronPath, X: Array, n_rounds: int) -> int:
    """Rows of one call with which evaluation at X takes the least time a row."""
    sizes = [size for size in CHUNKS if size <= len(X)]
    contenders = {str(c): evaluation(paths, X[: len(X) // c * c], c) for c in sizes}
    timing = alternate(contenders, n_rounds, 0.0, time.process_time)
    cost = {c: timing.median(str(c)) / (len(X) // c * c) for c in sizes}
    return min(sizes, key=cost.__getitem__)


def evaluation(paths: MatheronPath, X: Array, chunk: int) -> Callable[[], object]:
    """Return a function that evaluates all paths at all rows, in chunks."""
    chunks = torch.tensor(X).split(chunk)

    def evaluate() -> torch.Tensor:
        with torch.no_grad():
            return torch.cat([paths(chunk) for chunk in chunks], dim=-1)

    return evaluate


def differentiation(paths: MatheronPath, X: Array) -> Callable[[], object]:
    """Return a function that gives values and gradients of one path, by autograd."""
    rows = torch.tensor(X)

    def evaluate() -> tuple[torch.Tensor, torch.Tensor]:
        at = rows.clone().requires_grad_(True)
        values = paths(at)
        return values.detach(), torch.autograd.grad(values.sum(), at)[0]

    return evaluate


def minimisation(
    paths: MatheronPath, d: int, n_mesh: int, n_starts: int
) -> Callable[[], float]:
    """Return a function that finds the minimum of one path in the unit cube."""
    bounds = torch.stack((torch.zeros(d), torch.ones(d))).double()

    def minimise() -> float:
        _, value = optimize_posterior_samples(
            paths=paths, bounds=bounds, raw_samples=n_mesh, num_restarts=n_starts,
            sample_transform=torch.neg,
        )  # fmt: skip
        return float(value.squeeze())

    return minimise


class Mirror(torch.nn.Module):
    """One of our draws, as a PyTorch module: the same function for both searches."""

    def __init__(self, draw: FunctionDraws, length_scale: float):
        super().__init__()
        waves, sections = draw.terms[0], draw.terms[1]
        self.frequencies = torch.tensor(waves.features.frequencies)
        amplitudes = np.tile(waves.features.amplitudes, 2)
        self.weights = torch.tensor(amplitudes * waves.weights[:, 0, 0])
        self.points = torch.tensor(sections.features.points)
        self.update = torch.tensor(sections.weights[:, 0, 0])
        self.length_scale = length_scale

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """Values at X (..., d), shape (1, ...), as of one path."""
        phase = X @ self.frequencies.T
        prior = torch.cat((phase.cos(), phase.sin()), dim=-1) @ self.weights
        r = torch.cdist(X, self.points) * (5.0**0.5 / self.length_scale)
        matern = (1.0 + r + r.square() / 3.0) * torch.exp(-r)
        value = prior + matern @ self.update
        return value if X.ndim > 2 else value[None]
