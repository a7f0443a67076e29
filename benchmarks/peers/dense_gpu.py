"""The exact Gaussian process of all rows, by dense factorisations on one GPU.

    python -m benchmarks.peers.dense_gpu --data FOLDER [--cases protein/matern12 ...]

What nearest rows and inducing points approximate: no row is left out, neither of the
evidence that is maximised nor of the predictions. PyTorch, double precision; a matrix
of 41 000 rows takes 14 GB, of which three are in memory. Rows, split, units and scores
are those of ``benchmarks.bench_many_rows``. The search starts at the optimum of 10 000
random rows.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize

from benchmarks.data import add_data_argument
from benchmarks.forecasts import of_normal
from benchmarks.large_tables import read
from benchmarks.report import progress

Array = NDArray[np.float64]

CASES = ("protein/matern12", "kin40k/matern52", "diamonds/matern12")
# Rows of a block of the kernel matrix, and rows at whose optimum the search starts.
_BLOCK = 1024
_FIRST_ROWS = 10_000


class _OutOfTime(Exception):
    """The search has used its seconds."""


def kernel(
    name: str, theta: torch.Tensor, A: torch.Tensor, B: torch.Tensor
) -> torch.Tensor:
    """Covariance of a process with one lengthscale a column.

    ``theta`` holds the logarithms of lengthscales, of the amplitude's variance and of
    the noise variance.
    """
    scales = torch.exp(theta[:-2])
    left = A / scales
    right = B / scales
    square = (left**2).sum(1)[:, None] + (right**2).sum(1) - 2.0 * left @ right.T
    amplitude = torch.exp(theta[-2])
    if name == "rbf":
        return amplitude * torch.exp(-0.5 * square)
    distance = torch.sqrt(square.clamp_min(1e-12))
    if name == "matern12":
        return amplitude * torch.exp(-distance)
    if name == "matern32":
        r = math.sqrt(3.0) * distance
        return amplitude * (1.0 + r) * torch.exp(-r)
    r = math.sqrt(5.0) * distance
    return amplitude * (1.0 + r + r**2 / 3.0) * torch.exp(-r)


class Evidence:
    """Log evidence of all rows, and its gradient block by block."""

    def __init__(self, name: str, X: torch.Tensor, y: torch.Tensor):
        self.name = name
        self.X = X
        self.y = y
        self.evaluations = 0

    def root(self, theta: torch.Tensor) -> torch.Tensor:
        """Lower root of ``K + σ²I``."""
        n = len(self.y)
        K = torch.empty((n, n), dtype=self.X.dtype, device=self.X.device)
        for first in range(0, n, _BLOCK):
            block = slice(first, first + _BLOCK)
            K[block] = kernel(self.name, theta, self.X[block], self.X)
        K.diagonal().add_(torch.exp(theta[-1]))
        return torch.linalg.cholesky(K)

    def value_and_gradient(self, theta: torch.Tensor) -> tuple[float, torch.Tensor]:
        """``-½ (yᵀα + log det C + n log 2π)`` with ``C α = y``."""
        n = len(self.y)
        self.evaluations += 1
        with torch.no_grad():
            L = self.root(theta)
            alpha = torch.cholesky_solve(self.y[:, None], L)[:, 0]
            log_determinant = 2.0 * torch.log(L.diagonal()).sum()
            value = -0.5 * (self.y @ alpha + log_determinant + n * math.log(2 * np.pi))
            inverse = torch.cholesky_inverse(L)
            del L
        # ½ (α αᵀ - C⁻¹), pulled back through the kernel
        theta = theta.clone().requires_grad_(True)
        for first in range(0, n, _BLOCK):
            block = slice(first, first + _BLOCK)
            slope = 0.5 * (alpha[block, None] * alpha - inverse[block])
            K = kernel(self.name, theta, self.X[block], self.X)
            K.backward(slope)
        assert theta.grad is not None
        gradient = theta.grad.detach().clone()
        noise = torch.exp(theta.detach()[-1])
        gradient[-1] += 0.5 * noise * (alpha @ alpha - inverse.diagonal().sum())
        return float(value), gradient


def maximise(evidence: Evidence, start: Array, seconds: float) -> Array:
    """Theta of the largest evidence seen within some seconds."""
    X = evidence.X
    deadline = time.perf_counter() + seconds
    best = {"value": -np.inf, "theta": start}

    def negative(theta: Array) -> tuple[float, Array]:
        if time.perf_counter() > deadline:
            raise _OutOfTime
        point = torch.as_tensor(theta, dtype=X.dtype, device=X.device)
        value, gradient = evidence.value_and_gradient(point)
        if value > best["value"]:
            best.update(value=value, theta=theta.copy())
        return -value, -gradient.cpu().numpy()

    bounds = [(-4.0, 5.0)] * (len(start) - 2) + [(-6.0, 6.0), (-12.0, 1.0)]
    with contextlib.suppress(_OutOfTime):
        minimize(negative, start, jac=True, method="L-BFGS-B", bounds=bounds)
    return best["theta"]


def measure(case: str, seconds: float, rows: int | None) -> dict[str, Any]:
    """Fit one kernel to one table, and predict the tenth that is held out."""
    data, name = case.split("/")
    table = read(data)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    X = torch.as_tensor(table.X[:rows], device=device)
    y = torch.as_tensor(table.y[:rows], device=device)
    X_test = torch.as_tensor(table.X_test, device=device)
    start = time.perf_counter()
    d = X.shape[1]
    theta = np.concatenate((np.full(d, 0.5 * np.log(d)), [0.0, np.log(0.1)]))
    first = Evidence(name, X[:_FIRST_ROWS], y[:_FIRST_ROWS])
    theta = maximise(first, theta, 0.25 * seconds)
    evidence = Evidence(name, X, y)
    theta = maximise(evidence, theta, seconds)
    point = torch.as_tensor(theta, dtype=torch.float64, device=device)
    with torch.no_grad():
        L = evidence.root(point)
        fit_seconds = time.perf_counter() - start
        white = torch.linalg.solve_triangular(L, y[:, None], upper=False)
        cross = kernel(name, point, X, X_test)
        features = torch.linalg.solve_triangular(L, cross, upper=False)
        mean = (features.T @ white)[:, 0]
        variance = point[-2].exp() + point[-1].exp() - (features**2).sum(0)
    forecast = of_normal(
        mean=mean.cpu().numpy(),
        std=variance.sqrt().cpu().numpy(),
        y=table.y_test,
    )
    row: dict[str, Any] = {"data": data, "rows": len(y)}
    row["model"] = f"exact, dense, {name}"
    row["rmse"] = float(np.sqrt(np.mean((table.y_test - forecast.mean) ** 2)))
    row["nlpd"] = -float(np.mean(forecast.log_density))
    row["crps"] = float(np.mean(forecast.crps))
    row["coverage"] = float(np.mean(forecast.inside))
    row["s"] = fit_seconds
    row["evaluations"] = evidence.evaluations
    row["noise_variance"] = float(np.exp(theta[-1]))
    row["device"] = torch.cuda.get_device_name() if device == "cuda" else "CPU"
    return row


def main() -> None:
    """Measure each case, and write the rows as they come."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_data_argument(parser)
    parser.add_argument("--cases", nargs="+", default=CASES)
    parser.add_argument("--seconds", type=float, default=100.0, help="of a search")
    parser.add_argument("--rows", type=int, help="fewer training rows, for a trial")
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    if arguments.data is not None:
        os.environ["SKGPX_BENCH_DATA"] = str(arguments.data)
    rows = []
    for case in arguments.cases:
        row = measure(case, arguments.seconds, arguments.rows)
        rows.append(row)
        progress(row)
        if arguments.output is not None:
            arguments.output.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
