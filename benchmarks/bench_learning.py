"""What defaults learn: held-out quality of regression beside simple peers.

    python -m benchmarks.bench_learning --data FOLDER [--sets kin40k ...] [--threads 2]
                                        [--seeds 1] [--jobs 1]

The first tenth of a random order is the test part, for each of `--seeds` orders; inputs
and targets are standardised. The Nystroem features of the peer have the width that does
best on a tenth of the training rows; GPyTorch's SVGP, if it is installed, has 1000
points; the exact process has 2000 rows. Small sets are split 80/20 `--splits` times,
with scikit-learn's exact process with one lengthscale a column and a restart as the
peer. With several `--jobs` fits share the processor, which seconds feel.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import time
import warnings
from collections.abc import Callable

import numpy as np
from joblib import Parallel, delayed
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import BayesianRidge
from sklearn.pipeline import make_pipeline
from threadpoolctl import threadpool_limits

from benchmarks.data import add_data_argument, load
from benchmarks.peers import exact_gp
from benchmarks.report import progress, report
from skgpx import (
    GWIRegressor,
    PLSRegressor,
    SpectralVGPRegressor,
    SteinRFFRegressor,
)

LARGE = ("kin40k", "protein", "kin8nm", "power")
SMALL = ("airfoil", "boston", "concrete", "energy_heating", "wine")
_WIDTHS = (0.03, 0.1, 0.3)
Parts = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
Contender = Callable[[Parts, int], dict]


def parts(name: str, folder: str | None, seed: int, share: float) -> Parts:
    """Training rows and targets, test rows and targets, standardised."""
    X, y = load(name, folder)
    order = np.random.default_rng(seed).permutation(len(y))
    n_test = int(len(y) * share)
    test, train = order[:n_test], order[n_test:]
    scale = X[train].std(0)
    X = (X - X[train].mean(0)) / np.where(scale > 0.0, scale, 1.0)
    y = (y - y[train].mean()) / y[train].std()
    return X[train], y[train], X[test], y[test]


def scores(y: np.ndarray, mean: np.ndarray, std: np.ndarray) -> dict[str, float]:
    """RMSE, NLPD of a normal distribution and coverage of its 95 % interval."""
    z = (y - mean) / std
    return {
        "RMSE": float(np.sqrt(np.mean((y - mean) ** 2))),
        "NLPD": float(np.mean(0.5 * z**2 + np.log(std) + 0.5 * np.log(2.0 * np.pi))),
        "coverage": float(np.mean(np.abs(z) <= 1.96)),
    }


def ours(model: object, data: Parts) -> dict[str, object]:
    """Scores and seconds of one of our estimators."""
    X, y, X_test, y_test = data
    start, cpu = time.perf_counter(), time.process_time()
    model.fit(X, y)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    mean, std = model.predict(X_test, return_std=True)
    return scores(y_test, mean, std) | {"seconds": seconds, "CPU seconds": cpu}


def ridge(data: Parts, seed: int) -> dict[str, float]:
    """Nystroem(1000) and BayesianRidge, the width chosen by validation."""
    X, y, X_test, y_test = data
    start, n = time.perf_counter(), len(y) // 10

    def model(gamma: float) -> object:
        size = min(1000, len(y) - n)
        features = Nystroem(gamma=gamma, n_components=size, random_state=seed)
        return make_pipeline(features, BayesianRidge())

    errors = [
        np.mean((model(g).fit(X[n:], y[n:]).predict(X[:n]) - y[:n]) ** 2)
        for g in _WIDTHS
    ]
    fitted = model(_WIDTHS[int(np.argmin(errors))]).fit(X, y)
    seconds = time.perf_counter() - start
    return scores(y_test, *fitted.predict(X_test, return_std=True)) | {
        "seconds": seconds
    }


def boosting(data: Parts, seed: int) -> dict[str, float]:
    """HistGradientBoosting with normal errors of the variance of its residuals."""
    X, y, X_test, y_test = data
    start, n = time.perf_counter(), len(y) // 10
    model = HistGradientBoostingRegressor(random_state=seed).fit(X[n:], y[n:])
    std = np.full(len(y_test), np.std(y[:n] - model.predict(X[:n])))
    seconds = time.perf_counter() - start
    return scores(y_test, model.predict(X_test), std) | {"seconds": seconds}


def exact(data: Parts, max_rows: int, seed: int) -> dict[str, float]:
    """scikit-learn's exact process on some rows."""
    X, y, X_test, y_test = data
    fitted = exact_gp.regressor(X, y, X_test, max_rows, seed)
    row = scores(y_test, fitted.mean, fitted.std)
    return row | {"seconds": fitted.fit_seconds}


def svgp(data: Parts, seed: int) -> dict[str, float]:
    """GPyTorch's SVGP with 1000 points, 20 epochs of Adam."""
    peer = importlib.import_module("benchmarks.peers.minibatch_svgp")
    X, y, X_test, y_test = data
    mean, std, seconds = peer.fit_and_predict(X, y, X_test, seed=seed)
    return scores(y_test, mean, std) | {"seconds": seconds}


def contenders(name: str, peers: bool) -> dict[str, Contender]:
    """What is fitted to one set; the slowest first, which fills several jobs best."""
    found: dict[str, Contender] = {}
    if peers:
        found["exact GP"] = lambda data, seed: exact(data, 2000, seed)
    if peers and name in LARGE:
        if importlib.util.find_spec("gpytorch"):
            found["GPyTorch SVGP"] = svgp
        found |= {"Nystroem ridge": ridge, "boosting": boosting}
    for kind in (GWIRegressor, SteinRFFRegressor, SpectralVGPRegressor, PLSRegressor):
        found[kind.__name__] = lambda data, seed, kind=kind: ours(
            kind(random_state=seed), data
        )
    return found


def run(name: str, model: str, seed: int, options: argparse.Namespace) -> dict:
    """Scores of one model on one split."""
    warnings.simplefilter("ignore")
    data = parts(name, options.data, seed, 0.1 if name in LARGE else 0.2)
    with threadpool_limits(options.threads):
        row = contenders(name, not options.no_peers)[model](data, seed)
    row = {"data": name, "model": model, "seed": seed} | row
    progress(row)
    return row


def average(runs: list[dict]) -> list[dict[str, object]]:
    """One row a set and model, with the range over its splits."""
    groups: dict[tuple[str, str], list[dict]] = {}
    for one in runs:
        groups.setdefault((one["data"], one["model"]), []).append(one)
    table = []
    for found in groups.values():
        numbers = [k for k, v in found[0].items() if not isinstance(v, str)]
        row = found[-1] | {
            k: float(np.mean([one[k] for one in found])) for k in numbers
        }
        for key in ("RMSE", "NLPD", "coverage"):
            values = [one[key] for one in found]
            row[f"{key} range"] = (min(values), max(values))
        table.append(row | {"seed": "all", "splits": len(found)})
    return table


def main() -> None:
    """Measure the sets asked for and report the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_data_argument(parser)
    parser.add_argument("--sets", nargs="+", default=(*LARGE, *SMALL))
    parser.add_argument("--splits", type=int, default=4, help="of a small set")
    parser.add_argument("--seeds", type=int, default=1, help="splits of a large set")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--models", nargs="+", help="default: all")
    options = parser.parse_args()
    tasks = [
        (name, model, seed)
        for name in options.sets
        for seed in range(options.seeds if name in LARGE else options.splits)
        for model in contenders(name, not options.no_peers)
        if options.models is None or model in options.models
    ]
    tasks.sort(key=lambda task: list(contenders(LARGE[0], True)).index(task[1]))
    runs = Parallel(options.jobs)(delayed(run)(*task, options) for task in tasks)
    settings = {key: value for key, value in vars(options).items() if key != "data"}
    columns = ("data", "model", "RMSE", "NLPD", "coverage", "CPU seconds", "splits")
    table = sorted(average(runs), key=lambda row: options.sets.index(row["data"]))
    report("learning", table, settings | {"runs": runs}, columns)


if __name__ == "__main__":
    main()
