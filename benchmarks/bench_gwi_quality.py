"""Held-out quality of Gaussian Wasserstein inference beside its peers.

    python -m benchmarks.bench_gwi_quality --data FOLDER [--sets boston ...]
        [--splits 10] [--models default ...] [--jobs 16]
    python -m benchmarks.bench_gwi_quality --gap

Random splits, 90 % of the rows for training, the same for every model; one
configuration for all sets. The negative log density has the convention of the paper
(targets in their own units: that of the standardised y plus the logarithm of the
standard deviation of the training targets), RMSE is in units of y, and coverage that of
central 95 % intervals. Differences are means over splits of a model's figure less that
of the default, and less that of the library's with one network (`n_estimators=1`, as
the peer in PyTorch has), with standard errors.

The peer is the objective of the paper in plain PyTorch: kernel (RBF, one lengthscale a
column) and noise by the evidence of at most 500 rows, root-n random inducing points,
batches of at most 1000 rows, and a factor of the variance from a ninth of the training
rows that are held out for it. The exact process of scikit-learn has the kernel and
noise of such a search, given at most 1500 rows.

`--gap`: functions of one input, drawn from a process, seen but for a gap of three
lengthscales; how often central 95 % intervals hold the function, without noise.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import norm
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from benchmarks.bench_learning import parts
from benchmarks.data import add_data_argument, load
from benchmarks.jobs import add_jobs_arguments, each
from benchmarks.peers.gwi_torch import TorchGWI
from benchmarks.report import progress, report
from skgpx import GWIRegressor

# The longest first: see `each`.
SETS = ("power", "kin8nm", "energy_heating", "concrete", "boston", "wine")
TEST_SHARE, VALIDATION_SHARE = 0.1, 1.0 / 9.0
# Rows of searches for hyperparameters, of the exact process, of a batch of the peer.
SEARCH_ROWS, EXACT_ROWS, BATCH = 500, 1500, 1000
# Passes of the peer over up to a thousand rows, and over more.
FEW_ROWS, EPOCHS_FEW, EPOCHS_MANY = 1000, 1000, 300
LEAST_NOISE = 1e-3
FIGURES = ("NLL", "RMSE", "coverage")
# Models from which others are told to differ.
BASES = ("default", "n_estimators 1")

Parts = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
Scores = dict[str, float]


class Hyperparameters(NamedTuple):
    """Of an RBF kernel with one lengthscale a column."""

    amplitude: float
    length_scale: np.ndarray
    noise_variance: float


def scores(y: np.ndarray, mean: np.ndarray, variance: np.ndarray | float) -> Scores:
    """Figures of normal distributions of a standardised y, in its units."""
    std = np.sqrt(variance)
    z = (y - mean) / std
    return {
        "NLL": -float(np.mean(norm.logpdf(z) - np.log(std))),
        "RMSE": float(np.sqrt(np.mean((y - mean) ** 2))),
        "coverage": float(np.mean(np.abs(z) <= norm.ppf(0.975))),
    }


def default(data: Parts, seed: int) -> dict[str, Scores]:
    """The library's regressor."""
    X, y, X_test, y_test = data
    model = GWIRegressor(random_state=seed).fit(X, y)
    mean, std = model.predict(X_test, return_std=True)
    return {"default": scores(y_test, mean, std**2)}


def other(data: Parts, seed: int, **settings: Any) -> dict[str, Scores]:
    """The library's regressor with one setting that is not the default."""
    model = GWIRegressor(random_state=seed, **settings).fit(*data[:2])
    mean, std = model.predict(data[2], return_std=True)
    name = " ".join(f"{key} {value}" for key, value in settings.items())
    return {name: scores(data[3], mean, std**2)}


def searched(X: np.ndarray, y: np.ndarray, seed: int) -> Hyperparameters:
    """The most probable hyperparameters, given at most 500 rows."""
    chosen = np.random.default_rng(seed).permutation(len(y))[:SEARCH_ROWS]
    start = np.full(X.shape[1], 2.0 * np.sqrt(X.shape[1]))
    kernel = ConstantKernel(1.0, (1e-3, 1e3)) * RBF(start, (1e-2, 1e3))
    model = GaussianProcessRegressor(kernel + WhiteKernel(0.1, (1e-6, 1e1)))
    found = model.fit(X[chosen], y[chosen]).kernel_
    prior, noise = found.k1, max(found.k2.noise_level, LEAST_NOISE)
    return Hyperparameters(prior.k1.constant_value, prior.k2.length_scale, noise)


def exact(data: Parts, seed: int) -> dict[str, Scores]:
    """scikit-learn's process, given at most 1500 rows."""
    X, y, X_test, y_test = data
    found = searched(X, y, seed)
    kernel = ConstantKernel(found.amplitude) * RBF(found.length_scale)
    rows = np.random.default_rng(seed).permutation(len(y))[:EXACT_ROWS]
    noise = found.noise_variance
    model = GaussianProcessRegressor(kernel, alpha=noise, optimizer=None)
    mean, std = model.fit(X[rows], y[rows]).predict(X_test, return_std=True)
    return {"exact process": scores(y_test, mean, std**2 + noise)}


def peer(data: Parts, seed: int) -> dict[str, Scores]:
    """The objective of the paper in PyTorch, tempered as the paper does."""
    X, y, X_test, y_test = data
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(y))
    held_out, rows = np.split(order, [round(VALIDATION_SHARE * len(y))])
    found = searched(X[rows], y[rows], seed)
    Z = X[rng.choice(rows, round(np.sqrt(len(rows))), replace=False)]
    n_epochs = EPOCHS_FEW if len(rows) <= FEW_ROWS else EPOCHS_MANY
    model = TorchGWI(
        X[rows],
        y[rows],
        Z,
        found.length_scale,
        found.noise_variance,
        amplitude=found.amplitude,
        batch_size=min(BATCH, len(rows)),
        n_epochs=n_epochs,
        seed=seed,
    )
    for _ in range(n_epochs):
        model.epoch()
    mean, r = model.predict(X[held_out])
    noise = found.noise_variance
    factor = np.mean((y[held_out] - mean) ** 2 / (r + noise))
    mean, r = model.predict(X_test)
    return {"PyTorch": scores(y_test, mean, factor * (r + noise))}


MODELS: dict[str, Callable[[Parts, int], dict[str, Scores]]] = {
    "default": default,
    "one network": partial(other, n_estimators=1),
    "mean svgp": partial(other, mean="svgp"),
    "networks": partial(other, mean="net"),
    "exact process": exact,
    "PyTorch": peer,
}


def measure(
    name: str, seed: int, folder: str | None, models: Iterable[str]
) -> list[dict[str, Any]]:
    """Figures of each model on one split, in units of y."""
    data, rows = parts(name, folder, seed, TEST_SHARE), []
    scale = train_scale(name, seed, folder)
    for model in models:
        start = time.process_time()
        found = MODELS[model](data, seed)
        seconds = time.process_time() - start
        for contender, figures in found.items():
            figures["NLL"] += np.log(scale)
            figures["RMSE"] *= scale
            row = {"set": name, "seed": seed, "model": contender} | figures
            rows.append(row | {"CPU seconds": seconds})
            progress(rows[-1])
    return rows


def train_scale(name: str, seed: int, folder: str | None) -> float:
    """Standard deviation of the training targets, by which `parts` divides."""
    y = load(name, folder)[1]
    n_test = int(len(y) * TEST_SHARE)
    return float(y[np.random.default_rng(seed).permutation(len(y))[n_test:]].std())


def gap_coverage(seed: int, **settings: str) -> Scores:
    """Coverage of a drawn function, and median std, in a gap and where there are rows.

    Lengthscale 1, noise of standard deviation .1, 25 rows a lengthscale.
    """
    x, rng = np.linspace(-8.0, 8.0, 400), np.random.default_rng(seed)
    X, gap = x[:, np.newaxis], (x > 1.0) & (x < 4.0)
    f = np.linalg.cholesky(RBF(1.0)(X) + 1e-8 * np.eye(400)) @ rng.normal(size=400)
    y = f + 0.1 * rng.normal(size=400)
    model = GWIRegressor(random_state=0, **settings).fit(X[~gap], y[~gap])
    mean, std = model.predict(X, return_std=True, include_noise=False)
    held = np.abs(f - mean) <= norm.ppf(0.975) * std
    return {
        "coverage, gap": float(held[gap].mean()),
        "coverage, rows": float(held[~gap].mean()),
        "std, gap": float(np.median(std[gap])),
        "std, rows": float(np.median(std[~gap])),
    }


def gaps(n_functions: int) -> list[dict[str, Any]]:
    """Means over drawn functions, for two means."""
    rows = []
    for mean in ("svgp", "net"):
        found = [gap_coverage(seed, mean=mean) for seed in range(n_functions)]
        row: dict[str, Any] = {"mean": mean}
        for key in found[0]:
            values = np.array([one[key] for one in found])
            row[key], row[f"{key} s.e."] = mean_and_error(values)
        rows.append(row)
        progress(row)
    return rows


def mean_and_error(values: np.ndarray) -> tuple[float, float]:
    """Mean over splits, and its standard error (0 of one split)."""
    n = len(values)
    error = values.std(ddof=1) / np.sqrt(n) if n > 1 else 0.0
    return float(values.mean()), float(error)


def summary(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Means over the splits, and paired differences."""
    table = []
    for name, model in dict.fromkeys((row["set"], row["model"]) for row in rows):
        mine = by_seed(rows, name, model)
        figures: dict[str, Any] = {"set": name, "model": model, "splits": len(mine)}
        for figure in FIGURES:
            values = np.array([row[figure] for row in mine.values()])
            figures[figure], figures[f"{figure} s.e."] = mean_and_error(values)
        for base in BASES:
            if base != model:
                figures |= differences(mine, by_seed(rows, name, base), base)
        seconds = [row["CPU seconds"] for row in mine.values()]
        table.append(figures | {"CPU seconds": float(np.mean(seconds))})
    return table


def differences(
    mine: Mapping[int, dict[str, Any]], base: Mapping[int, dict[str, Any]], name: str
) -> dict[str, float]:
    """Means over common splits of what one model's figures exceed another's by."""
    both, found = sorted(mine.keys() & base.keys()), {}
    for figure in FIGURES[:2] if both else ():
        gap = np.array([mine[s][figure] - base[s][figure] for s in both])
        key = f"{figure} less {name}"
        found[key], found[f"{key} s.e."] = mean_and_error(gap)
    return found


def by_seed(
    rows: list[dict[str, Any]], name: str, model: str
) -> Mapping[int, dict[str, Any]]:
    """Figures of one model on one set, by split."""
    chosen = (row for row in rows if (row["set"], row["model"]) == (name, model))
    return {row["seed"]: row for row in chosen}


def main() -> None:
    """Measure each set and split."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_data_argument(parser)
    add_jobs_arguments(parser, "gwi_quality")
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS))
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument(
        "--models", nargs="+", default=list(MODELS), choices=list(MODELS)
    )
    parser.add_argument("--gap", action="store_true")
    options = parser.parse_args()
    if options.gap:
        found = each(gaps, [(2 * options.splits,)], 1)
        report("gwi_gap", found[0])
        return
    tasks = [
        (name, seed, options.data, options.models)
        for name in options.sets
        for seed in range(options.splits)
    ]
    rows = [row for split in each(measure, tasks, options.jobs) for row in split]
    report(options.output, summary(rows), {"each": rows, "processes": options.jobs})


if __name__ == "__main__":
    main()
