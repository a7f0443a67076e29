"""Held-out quality of learned frequencies on the data sets of their paper.

    python -m benchmarks.bench_stein_quality --data FOLDER [--sets airfoil ...]
        [--seeds 1 2 3] [--large] [--jobs 16]

Splits have the fractions of the paper, numbers of frequencies and components are its
own, nothing is tuned. RMSE in the units of y, NLPD of the mixture in nats a row of the
standardised y, coverage of the central 95 % interval. The exact process is that of the
learner (best of RBF, Matern 5/2 and 3/2) on all training rows. With `--large`: kin40k,
protein and a synthetic set of a million rows, beside inducing points, Nystroem features
and GPyTorch's SVGP, if that is installed. `--jobs` runs so many models at a time, each
in a process and one thread of its own.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import BayesianRidge
from sklearn.pipeline import make_pipeline

from benchmarks.bench_learning import parts, ridge
from benchmarks.bench_learning import scores as normal_scores
from benchmarks.bench_scale import make_data
from benchmarks.data import add_data_argument, load
from benchmarks.jobs import each
from benchmarks.report import peak_gib, progress, report
from skgpx import PLSRegressor, SteinRFFRegressor
from skgpx._selection import held_out, learn_prior
from skgpx._validation import canonical_rows
from skgpx.likelihoods import Gaussian

# Share of the test rows, frequencies, components: Table 1 of the paper.
SETS = {
    "airfoil": (0.1, 100, 6),
    "concrete": (0.1, 100, 6),
    "energy_heating": (0.2, 50, 10),
    "wine": (0.1, 100, 10),
}
Split = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def split(name: str, folder: str | None, seed: int) -> Split:
    """Training rows and targets, test rows and targets; X scaled by the former."""
    X, y = load(name, folder)
    order = np.random.default_rng(seed).permutation(len(y))
    test, train = np.split(order, [int(len(y) * SETS[name][0])])
    scale = X[train].std(0)
    X = (X - X[train].mean(0)) / np.where(scale > 0.0, scale, 1.0)
    return X[train], y[train], X[test], y[test]


def scores(model: SteinRFFRegressor, data: Split) -> dict[str, float]:
    """RMSE, NLPD and coverage of a mixture."""
    _, y, X_test, y_test = data
    low, high = model.predict_interval(X_test, 0.95).T
    density = model.log_predictive_density(X_test, y_test)
    return {
        "RMSE": float(np.sqrt(np.mean((model.predict(X_test) - y_test) ** 2))),
        "NLPD": -float(density.mean() + np.log(y.std())),
        "coverage": float(np.mean((y_test >= low) & (y_test <= high))),
        "variance_scale": model.variance_scale_,
    }


def exact(data: Split) -> dict[str, float]:
    """The exact process with the hyperparameters of the learner."""
    X, y, X_test, y_test = data
    shift, scale = y.mean(), y.std()
    rows = canonical_rows(X, (y - shift) / scale, np.ones(len(y)))
    likelihood = Gaussian().prepare(rows.y, rows.weights)
    prior = learn_prior(rows, likelihood, np.random.default_rng(0))
    noise = float(prior.likelihood.variance(0.0))
    mean, variance = held_out(prior.kernel, noise, rows, X_test)
    z = (y_test - shift) / scale - mean
    nlpd = 0.5 * z**2 / variance + 0.5 * np.log(2.0 * np.pi * variance)
    return {
        "RMSE": float(np.sqrt(np.mean(z**2)) * scale),
        "NLPD": float(np.mean(nlpd)),
        "coverage": float(np.mean(np.abs(z) <= 1.96 * np.sqrt(variance))),
    }


def boosting(data: Split) -> dict[str, float]:
    """Gradient boosting as it comes."""
    X, y, X_test, y_test = data
    model = HistGradientBoostingRegressor(random_state=0).fit(X, y)
    error = model.predict(X_test) - y_test
    return {"RMSE": float(np.sqrt(np.mean(error**2)))}


def contenders(name: str, seed: int) -> dict[str, Callable[[Split], dict[str, float]]]:
    """Models of the paper and their peers, by name."""
    _, R, M = SETS[name]

    def ours(**settings: object) -> Callable[[Split], dict[str, float]]:
        settings = {"n_components": M, "n_frequencies": R} | settings
        model = SteinRFFRegressor(random_state=seed, **settings)
        return lambda data: scores(model.fit(*data[:2]), data)

    return {
        "default": ours(),
        "SSGP learned": ours(n_components=1, repulsion=None),
        "SSGP fixed": ours(n_components=1, max_iter=0),
        "independent": ours(repulsion=None),
        "exact process": exact,
        "boosting": boosting,
    }


CONTENDERS = tuple(contenders("airfoil", 0))


def measure(name: str, seed: int, contender: str, folder: str | None) -> dict[str, Any]:
    """Scores of one contender by default, on one split."""
    data = split(name, folder, seed)
    start = time.process_time()
    found = contenders(name, seed)[contender](data)
    row = {"set": name, "seed": seed, "model": contender} | found
    row["CPU seconds"] = time.process_time() - start
    progress(row)
    return row


def many_rows(name: str, folder: str | None) -> Split:
    """Rows that an exact process cannot take; X and y standardised."""
    if name != "synthetic":
        return parts(name, folder, 0, 0.1)
    X, y = make_data("gaussian", 1_010_000)
    y = (y - y.mean()) / y.std()
    return X[10_000:], y[10_000:], X[:10_000], y[:10_000]


def by_estimator(model: Any, data: Split) -> dict[str, float]:
    """RMSE, NLPD and coverage of one of our regressors."""
    low, high = model.fit(*data[:2]).predict_interval(data[2], 0.95).T
    error = model.predict(data[2]) - data[3]
    return {
        "RMSE": float(np.sqrt(np.mean(error**2))),
        "NLPD": -float(model.log_predictive_density(*data[2:]).mean()),
        "coverage": float(np.mean((data[3] >= low) & (data[3] <= high))),
    }


def by_nystroem(data: Split) -> dict[str, float]:
    """Nystroem(1000) and BayesianRidge; 100 features for more than 10⁵ rows."""
    if len(data[1]) <= 100_000:
        return ridge(data, 0)
    width = 0.5 / data[0].shape[1]
    features = Nystroem(gamma=width, n_components=100, random_state=0)
    fitted = make_pipeline(features, BayesianRidge()).fit(*data[:2])
    return normal_scores(data[3], *fitted.predict(data[2], return_std=True))


def by_svgp(data: Split) -> dict[str, float]:
    """GPyTorch's SVGP with 500 points; ten passes, one over more than 10⁵ rows."""
    peer = importlib.import_module("benchmarks.peers.minibatch_svgp")
    passes = 10 if len(data[1]) <= 100_000 else 1
    found = peer.fit_and_predict(*data[:3], n_inducing=500, n_epochs=passes)
    return normal_scores(data[3], *found[:2])


LARGE: dict[str, Callable[[Split], dict[str, float]]] = {
    "default": lambda data: by_estimator(SteinRFFRegressor(random_state=0), data),
    "waves as they start": lambda data: by_estimator(
        SteinRFFRegressor(max_iter=0, random_state=0), data
    ),
    "PLSRegressor": lambda data: by_estimator(PLSRegressor(random_state=0), data),
    "Nystroem, BayesianRidge": by_nystroem,
    "SVGP": by_svgp,
}


def measure_large(name: str, model: str, folder: str | None) -> dict[str, Any]:
    """Scores and CPU time, fit and predictions; the peak is that of the process."""
    data = many_rows(name, folder)
    start = time.process_time()
    row = {"set": name, "n": len(data[1]), "model": model} | LARGE[model](data)
    row["CPU seconds"] = time.process_time() - start
    row["peak GiB"] = peak_gib()
    progress(row)
    return row


def averages(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    """Means over the seeds."""
    keys = dict.fromkeys((row["set"], row["model"]) for row in rows)
    table = []
    for key in keys:
        same = [row for row in rows if (row["set"], row["model"]) == key]
        figures = [name for name in same[0] if name not in ("set", "seed", "model")]
        means = {f: float(np.mean([row[f] for row in same])) for f in figures}
        table.append({"set": key[0], "model": key[1]} | means)
    return table


def available(model: str) -> bool:
    """Whether what a model needs is installed."""
    return model != "SVGP" or importlib.util.find_spec("gpytorch") is not None


def compile_all() -> None:
    """Compile what fits need before many processes do it at once."""
    X = np.linspace(0.0, 1.0, 60)[:, np.newaxis]
    model = SteinRFFRegressor(n_components=2, n_frequencies=3, max_iter=2)
    model.fit(X, np.sin(9.0 * X[:, 0])).predict_interval(X)


def main() -> None:
    """Measure each set and seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_data_argument(parser)
    parser.add_argument("--sets", nargs="+", help="default: all")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3, 4, 5])
    parser.add_argument("--models", nargs="+", help="contenders; default: all")
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    options = parser.parse_args()
    compile_all()
    if options.large:
        models = [m for m in options.models or LARGE if available(m)]
        sets = options.sets or ["synthetic", "protein", "kin40k"]
        tasks = [(name, model, options.data) for name in sets for model in models]
        report("stein_large", list(each(measure_large, tasks, options.jobs)))
        return
    tasks = [
        (name, seed, model, options.data)
        for name in options.sets or reversed(SETS)
        for model in options.models or CONTENDERS
        for seed in options.seeds
    ]
    rows = list(each(measure, tasks, options.jobs))
    report("stein_quality", averages(rows), {"seeds": options.seeds, "each": rows})


if __name__ == "__main__":
    main()
