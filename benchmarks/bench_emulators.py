"""Emulators of computer experiments, beside scikit-learn's Gaussian processes.

    python -m benchmarks.bench_emulators [--seeds 2] [--only Branin ...]
                                         [--methods PLSRegressor ...]

Twelve test functions without noise (see benchmarks.emulators) at Latin hypercubes of 5,
10 and 20 runs a column: 36 problems. Errors at 1000 uniform points are in units of the
standard deviation of the function there; the columns are their root mean square, the
mean negative log density in nats, the coverage of 95 % intervals, the share of y that
is learned as noise, and CPU seconds. ``--set NAME=VALUE`` adds PLSRegressor with
another value of a parameter.

The processes of scikit-learn know that there is no noise: alpha is 1e-10, y is
normalised, X standardised, there is one lengthscale a column, and the search restarts
three times. The last rows give, for each method and over all problems, the geometric
mean and the largest of the ratios of its error to that of the better of these two.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy import stats
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Kernel, Matern
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.emulators import EMULATORS, Emulator
from benchmarks.report import progress, report
from skgpx import DecoupledSampler, GWIRegressor, PLSRegressor, SpectralVGPRegressor

RUNS_A_COLUMN = (5, 10, 20)
N_NEW = 1000
PEERS = ("scikit-learn, RBF", "scikit-learn, Matern 5/2")
COLUMNS = ("rmse", "nlpd", "inside 95 %", "noise", "CPU s")


def exact_process(shape: Kernel) -> Any:
    """scikit-learn's process with one lengthscale a column."""
    process = GaussianProcessRegressor(
        ConstantKernel(1.0, (1e-3, 1e6)) * shape,
        normalize_y=True,
        n_restarts_optimizer=3,
        random_state=0,
    )
    return make_pipeline(StandardScaler(), process)


def pls_with(name: str, value: str, _: int) -> PLSRegressor:
    """PLSRegressor with another value of one parameter, which takes strings."""
    return PLSRegressor(random_state=0).set_params(**{name: value})


METHODS: dict[str, Callable[[int], Any]] = {
    "PLSRegressor": lambda _: PLSRegressor(random_state=0),
    "DecoupledSampler": lambda _: DecoupledSampler(random_state=0),
    "GWIRegressor": lambda _: GWIRegressor(random_state=0),
    "SpectralVGPRegressor": lambda _: SpectralVGPRegressor(random_state=0),
    PEERS[0]: lambda d: exact_process(RBF(np.ones(d), (1e-2, 1e3))),
    PEERS[1]: lambda d: exact_process(Matern(np.ones(d), (1e-2, 1e3), nu=2.5)),
}


def measure(
    emulator: Emulator,
    n: int,
    seed: int,
    method: Callable[[int], Any],
) -> dict[str, float]:
    """Errors of one fit to n runs."""
    X, y = emulator.design(n, seed)
    new = np.random.default_rng(10_000 + seed).random((N_NEW, emulator.d))
    truth = emulator.function(new)
    unit = truth.std()
    model = method(emulator.d)
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mean, std = model.fit(X, y).predict(new, return_std=True)
    seconds = time.process_time() - start
    std = np.maximum(std, 1e-12 * unit)
    error = (truth - mean) / unit
    density = stats.norm.logpdf(error, scale=std / unit)
    noise = np.mean(getattr(model, "noise_variance_", 0.0))
    cells = (
        np.sqrt(np.mean(error**2)),
        -np.mean(density),
        np.mean(np.abs(truth - mean) <= 1.96 * std),
        noise / y.var(),
        seconds,
    )
    return dict(zip(COLUMNS, map(float, cells), strict=True))


def summary(rows: list[dict[str, Any]], method: str) -> dict[str, Any]:
    """Ratios of errors to those of the better peer, and means of the other columns."""
    errors = {
        (row["function"], row["runs"], row["seed"], row["method"]): row["rmse"]
        for row in rows
    }
    ratios = []
    chosen = [row for row in rows if row["method"] == method]
    for row in chosen:
        problem = (row["function"], row["runs"], row["seed"])
        peers = [errors[*problem, peer] for peer in PEERS if (*problem, peer) in errors]
        if peers:
            ratios.append(row["rmse"] / min(peers))
    line: dict[str, Any] = {"function": "all", "method": method}
    for column in COLUMNS[1:]:
        line[column] = float(np.mean([row[column] for row in chosen]))
    if ratios:
        line["ratio"] = float(stats.gmean(ratios))
        line["largest ratio"] = float(np.max(ratios))
    return line


def main() -> None:
    """Print one line for each problem and method, and the ratios to the peers."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--only", nargs="+", default=list(EMULATORS))
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    parser.add_argument("--set", nargs="+", default=[])
    options = parser.parse_args()
    methods = {name: METHODS[name] for name in options.methods}
    for setting in options.set:
        name, value = setting.split("=")
        methods[f"PLSRegressor, {setting}"] = partial(pls_with, name, value)
    table: list[dict[str, Any]] = []
    for name in options.only:
        emulator = EMULATORS[name]
        for runs_a_column in RUNS_A_COLUMN:
            n = runs_a_column * emulator.d
            for seed in range(options.seeds):
                for method, build in methods.items():
                    row: dict[str, Any] = {"function": name, "runs": n, "seed": seed}
                    row["method"] = method
                    row |= measure(emulator, n, seed, build)
                    table.append(row)
                    progress(row)
    table += [summary(table, method) for method in methods]
    shown = ("function", "runs", "seed", "method", *COLUMNS, "ratio", "largest ratio")
    report("emulators", table, {"seeds": options.seeds, "new": N_NEW}, shown)


if __name__ == "__main__":
    main()
