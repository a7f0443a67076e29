"""Standard deviations of conditioned draws with little noise, and of sums of kernels.

    python -m benchmarks.bench_draws_noise [--trials 3]

As `bench_draws_accuracy`, given the features and exact, but with the number of features
that is chosen (``n_basis="auto"``), for inputs on the unit cube and at fresh ones both
inside and up to a tenth outside.

noise
    Six kernels, 30, 150 and 600 points, one to three inputs; by noise variance.
sums
    Kernels whose small part carries the posterior.

A cell is the 10 % and 90 % quantile of std / exact std; the rows give the worst cells.
"""

from __future__ import annotations

import argparse
import itertools
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process.kernels import RBF, Matern, RationalQuadratic
from threadpoolctl import threadpool_limits

from benchmarks.report import progress, report
from skgpx._draws._prior import decompose
from skgpx._numerics.linalg import solve_lower, solve_lower_transpose
from skgpx.bases import Conditioning, draw_prior

Array = NDArray[np.float64]

KERNELS = (
    RBF(0.3),
    RBF(1.0),
    Matern(0.5, nu=1.5),
    Matern(0.5, nu=2.5),
    Matern(1.0, nu=3.5),
    RationalQuadratic(0.5, 1.0),
)
# kernel, number of points, inputs, noise variance
SUMS = (
    (RBF(0.5) + 0.01 * Matern(0.02, nu=0.5), 800, 1, 1e-3),
    (RBF(1.0) + 1e-6 * Matern(0.1, nu=0.5), 300, 1, 1e-10),
    (RBF(1.0) + 1e-4 * Matern(0.2, nu=1.5), 300, 2, 1e-8),
    (
        RBF(2.0) + RBF(1.0) + RBF(0.5) + 0.1 * RBF(0.2) + 0.01 * Matern(0.1, nu=1.5),
        300,
        2,
        1e-3,
    ),
)


def fresh_inputs(d: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """100 inputs inside the unit cube, and 100 beyond one of its faces."""
    inside, outside = rng.random((2, 100, d))
    column, beyond = rng.integers(d, size=100), 0.1 * rng.random(100)
    outside[np.arange(100), column] = np.where(
        rng.random(100) < 0.5, 1.0 + beyond, -beyond
    )
    return inside, outside


def cell(kernel: Any, n: int, d: int, noise: float, trial: int) -> dict[str, Any]:
    """Quantiles of std / exact std, the number of features, and warnings."""
    rng = np.random.default_rng(trial)
    X, T = rng.random((n, d)), np.concatenate(fresh_inputs(d, rng))
    root = np.linalg.cholesky(kernel(X) + noise * np.eye(n))
    given = Conditioning(X, noise, root)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        draws = draw_prior(kernel, d, 1, 1, rng, n_basis="auto", given=given)
    h = solve_lower(root, kernel(X, T))
    V = solve_lower_transpose(root, h)
    exact = kernel.diag(T) - np.sum(h**2, axis=0)
    drawn = noise * np.sum(V**2, axis=0)
    size = 0
    for part, term in zip(decompose(kernel, d), draws.terms, strict=True):
        F = term.features(T) - V.T @ term.features(X)
        drawn += part.variance * np.sum(F**2, axis=1)
        size += F.shape[1]
    ratio = np.sqrt(drawn / exact)
    low, high = np.quantile(ratio.reshape(2, 100), [0.1, 0.9], axis=1)
    return {"low": low, "high": high, "l": size, "warned": len(caught)}


def summary(cells: list[dict[str, Any]]) -> dict[str, float]:
    """Worst cells inside and outside, mean number of features, number of warnings."""
    low = np.min([one["low"] for one in cells], axis=0)
    high = np.max([one["high"] for one in cells], axis=0)
    return {
        "inside 10 %": low[0],
        "inside 90 %": high[0],
        "outside 10 %": low[1],
        "outside 90 %": high[1],
        "mean l": float(np.mean([one["l"] for one in cells])),
        "warned": float(np.sum([one["warned"] for one in cells])),
    }


def measure_noise(n_trials: int) -> list[dict[str, Any]]:
    """One row for each noise variance."""
    rows = []
    for noise in (1e-10, 1e-9, 1e-6, 1e-3):
        cells = [
            cell(kernel, n, d, noise, trial)
            for kernel, n, d, trial in itertools.product(
                KERNELS, (30, 150, 600), (1, 2, 3), range(n_trials)
            )
        ]
        rows.append({"noise": noise, "cells": len(cells)} | summary(cells))
        progress(rows[-1])
    return rows


def measure_sums(n_trials: int) -> list[dict[str, Any]]:
    """One row for each kernel."""
    rows = []
    for kernel, n, d, noise in SUMS:
        cells = [cell(kernel, n, d, noise, trial) for trial in range(n_trials)]
        row = {"kernel": str(kernel), "n": n, "d": d, "noise": noise}
        rows.append(row | summary(cells))
        progress(rows[-1])
    return rows


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=3)
    trials = parser.parse_args().trials
    settings = {"trials": trials, "threads": 1}
    with threadpool_limits(1):
        report("draws_noise", measure_noise(trials), settings)
        report("draws_sums", measure_sums(trials), settings)


if __name__ == "__main__":
    main()
