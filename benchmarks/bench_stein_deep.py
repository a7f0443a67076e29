"""Waves behind a learned network, on fields that are not stationary.

    python -m benchmarks.bench_stein_deep [--seeds 1 2] [--fields front] [--models deep]

Fields of two inputs on the square [-1, 1]², drawn anew for each seed (turned, shifted,
other wave lengths), with noise of standard deviation 0.1:

* front: smooth on both sides of a curve, along which it jumps within a hundredth
* side: waves six times shorter on one side of a curve than on the other
* stationary: nothing for a network to find

NLPD of noisy rows in nats of the standardised y; the smallest possible one is that of
the noise.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.bench_stein_quality import averages, exact, scores
from benchmarks.report import progress, report
from skgpx import SteinRFFRegressor

ROWS, TEST, NOISE = 500, 1000, 0.1
FIELDS = ("front", "side", "stationary")
COMPONENTS, FREQUENCIES = 4, 50
MODELS = {
    "deep": {"hidden_layer_sizes": (32, 32, 32)},
    "deep, all steps": {"hidden_layer_sizes": (32, 32, 32), "early_stopping": False},
    "deep, one component": {"hidden_layer_sizes": (32, 32, 32), "n_components": 1},
    "default": {},
    "one component": {"n_components": 1},
}


def field(name: str, X: np.ndarray, seed: int) -> np.ndarray:
    """Values without noise at the rows of X (n, 2)."""
    rng = np.random.default_rng(seed)
    turn, shift = rng.uniform(0.0, 2.0 * np.pi), rng.uniform(0.0, 2.0 * np.pi, 4)
    k = rng.uniform(0.8, 1.2, 4)
    c, s = np.cos(turn), np.sin(turn)
    u, v = (X @ np.array([[c, -s], [s, c]])).T
    if name == "stationary":
        waves = np.sin(4.0 * k[2] * v + shift[2]) * np.cos(5.0 * u + shift[3])
        return np.sin(3.0 * k[1] * u + shift[1]) + waves
    curve = v - 0.35 * np.sin(2.5 * k[0] * u + shift[0])
    if name == "front":
        beyond = 1.0 / (1.0 + np.exp(-60.0 * curve))
        step = beyond * (1.5 + np.sin(3.0 * k[2] * v + shift[2]))
        return np.sin(2.0 * k[1] * u + shift[1]) + step
    beyond = 1.0 / (1.0 + np.exp(-20.0 * curve))
    waves = np.sin(11.0 * k[2] * u + shift[2]) * np.cos(7.0 * k[3] * v + shift[3])
    return np.sin(1.5 * k[1] * u + shift[1]) + beyond * (1.5 + 0.7 * waves)


def rows(name: str, seed: int, n: int = ROWS) -> tuple[np.ndarray, ...]:
    """Training rows and noisy targets, test rows and noisy targets."""
    rng = np.random.default_rng(1000 + seed)
    X = rng.uniform(-1.0, 1.0, (n + TEST, 2))
    y = field(name, X, seed) + NOISE * rng.standard_normal(len(X))
    return X[:n], y[:n], X[n:], y[n:]


def measure(name: str, seed: int, models: list[str]) -> list[dict[str, object]]:
    """Scores of the models on one field."""
    data, table = rows(name, seed), []
    for model in models:
        start = time.process_time()
        if model == "exact process":
            found = exact(data)
        else:
            settings = {"n_components": COMPONENTS, "n_frequencies": FREQUENCIES}
            fit = SteinRFFRegressor(random_state=seed, **settings | MODELS[model])
            found = scores(fit.fit(*data[:2]), data)
        row = {"set": name, "seed": seed, "model": model} | found
        table.append(row | {"CPU seconds": time.process_time() - start})
        progress(table[-1])
    noise = NOISE / data[1].std()
    floor = 0.5 * np.log(2.0 * np.pi * np.e * noise**2)
    best = {"RMSE": NOISE, "NLPD": floor, "coverage": 0.95, "CPU seconds": 0.0}
    return [*table, {"set": name, "seed": seed, "model": "the noise"} | best]


def main() -> None:
    """Measure each field and seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    every = [*MODELS, "exact process"]
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3, 4, 5])
    parser.add_argument("--fields", nargs="+", default=list(FIELDS), choices=FIELDS)
    parser.add_argument("--models", nargs="+", default=every, choices=every)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    with threadpool_limits(1):
        each = [
            row
            for name in options.fields
            for seed in options.seeds
            for row in measure(name, seed, options.models)
        ]
    shown = ["set", "model", "RMSE", "NLPD", "coverage", "CPU seconds"]
    report("stein_deep", averages(each), {"each": each}, shown)


if __name__ == "__main__":
    main()
