"""Functions of many columns beside the medians that a paper publishes for two peers.

    python -m benchmarks.bench_published_functions [--seeds 1] [--only Ackley ...]
                                                   [--columns 10 20 40]

The problems of Johnson et al., "On the uncertainty quantification ability of tabular
foundation models" (2026): Ackley's, Dixon and Price's, Griewank's and Rosenbrock's
functions in 10, 20 and 40 columns, and the weight of a wing, with 10 and 40 rows a
column and normal noise of 0.005 and 0.05 standard deviations. Rows are scrambled Sobol
points of the box, 5000 of them for the test, which have noise, too. The buckling load
is left out: its box is not stated. ``johnson2026.csv`` holds the medians of 20 runs
that the paper has for GP+ (a normal process, a lengthscale a column, 16 starts) and
TabPFN v2.5; figures of this library are medians over the seeds.

RRMSE is the root mean square error, NIS the mean interval score of 95 % intervals (the
width, plus 40 times the distance outside), both over the standard deviation of y.
"""

from __future__ import annotations

import argparse
import csv
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import qmc

from benchmarks.emulators import wing_weight
from benchmarks.report import progress, report
from skgpx import PLSRegressor

Array = NDArray[np.float64]
PUBLISHED = Path(__file__).parent / "johnson2026.csv"
N_TEST = 5000
LEVEL = 0.95


class Problem(NamedTuple):
    """A function on a cube."""

    function: Callable[[Array], Array]
    low: float
    high: float


def ackley(X: Array) -> Array:
    """One well in a nearly flat, wavy plain."""
    radius = np.sqrt(np.mean(X**2, axis=1))
    waves = np.mean(np.cos(2.0 * np.pi * X), axis=1)
    values: Array = -20.0 * np.exp(-0.2 * radius) - np.exp(waves) + 20.0 + np.e
    return values


def dixon_price(X: Array) -> Array:
    """A sum of squares of two columns each, the later ones larger."""
    i = np.arange(2, X.shape[1] + 1)
    squares = (2.0 * X[:, 1:] ** 2 - X[:, :-1]) ** 2
    values: Array = (X[:, 0] - 1.0) ** 2 + squares @ i
    return values


def griewank(X: Array) -> Array:
    """A bowl with a product of waves, which are small beside it."""
    i = np.arange(1, X.shape[1] + 1)
    waves = np.prod(np.cos(X / np.sqrt(i)), axis=1)
    values: Array = np.sum(X**2, axis=1) / 4000.0 - waves + 1.0
    return values


def rosenbrock(X: Array) -> Array:
    """A bent valley, a sum of functions of two columns each."""
    bends = 100.0 * (X[:, 1:] - X[:, :-1] ** 2) ** 2
    values: Array = np.sum(bends + (1.0 - X[:, :-1]) ** 2, axis=1)
    return values


PROBLEMS = {
    "Ackley": Problem(ackley, -5.0, 10.0),
    "Dixon Price": Problem(dixon_price, -10.0, 10.0),
    "Griewank": Problem(griewank, -600.0, 600.0),
    "Rosenbrock": Problem(rosenbrock, -5.0, 10.0),
    "Wing Weight": Problem(wing_weight, 0.0, 1.0),
}


def measure(problem: Problem, n: int, d: int, noise: float, seed: int) -> Array:
    """RRMSE, NIS, coverage of 95 % and CPU seconds of one fit."""
    rng = np.random.default_rng(seed)
    width = problem.high - problem.low
    X = problem.low + width * sobol(n, d, seed)
    X_test = problem.low + width * sobol(N_TEST, d, 10_000 + seed)
    truth = problem.function(X_test)
    unit = float(truth.std())
    y = problem.function(X) + noise * unit * rng.standard_normal(n)
    y_test = truth + noise * unit * rng.standard_normal(N_TEST)
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = PLSRegressor(random_state=0).fit(X, y)
    seconds = time.process_time() - start
    distribution = model.predict_dist(X_test)
    low, high = distribution.interval(LEVEL).T
    outside = np.maximum(low - y_test, 0.0) + np.maximum(y_test - high, 0.0)
    score = np.mean(high - low + 2.0 / (1.0 - LEVEL) * outside)
    error = np.sqrt(np.mean((distribution.mean() - y_test) ** 2))
    coverage = np.mean(outside == 0.0)
    return np.array([error / unit, score / unit, coverage, seconds])


def sobol(n: int, d: int, seed: int) -> Array:
    """Scrambled points of the unit cube, (n, d)."""
    with warnings.catch_warnings():
        # their number need not be a power of two
        warnings.simplefilter("ignore")
        points: Array = qmc.Sobol(d, seed=seed).random(n)
    return points


def published() -> list[dict[str, str]]:
    """Rows of the paper's tables whose function is known."""
    with PUBLISHED.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["problem"] in PROBLEMS]
    return sorted(rows, key=lambda row: int(row["columns"]))


def main() -> None:
    """Measure the problems, and print them beside the published medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--only", nargs="+", default=list(PROBLEMS))
    parser.add_argument("--columns", nargs="+", type=int, default=[10, 20, 40])
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    ratios = []
    for peers in published():
        d = int(peers["columns"])
        if peers["problem"] not in options.only or d not in options.columns:
            continue
        n = d * int(peers["rows_per_column"])
        noise = float(peers["noise"])
        runs = [
            measure(PROBLEMS[peers["problem"]], n, d, noise, seed)
            for seed in range(options.seeds)
        ]
        rrmse, nis, coverage, seconds = np.median(runs, axis=0)
        best_peer = min(float(peers["gp_nis"]), float(peers["tabpfn_nis"]))
        ratios.append(nis / best_peer)
        row = {
            "function": peers["problem"],
            "columns": d,
            "rows": n,
            "noise": noise,
            "RRMSE": rrmse,
            "NIS": nis,
            "inside 95 %": coverage,
            "CPU s": seconds,
            "RRMSE GP+": float(peers["gp_rrmse"]),
            "NIS GP+": float(peers["gp_nis"]),
            "RRMSE TabPFN": float(peers["tabpfn_rrmse"]),
            "NIS TabPFN": float(peers["tabpfn_nis"]),
            "NIS / best": ratios[-1],
        }
        progress(row)
        rows.append(row)
    mean = float(np.exp(np.mean(np.log(ratios))))
    rows.append({"function": "geometric mean", "NIS / best": mean})
    rows.append({"function": "worst", "NIS / best": float(np.max(ratios))})
    report("published_functions", rows, settings={"seeds": options.seeds})


if __name__ == "__main__":
    main()
