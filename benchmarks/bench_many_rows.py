"""Tables of 10⁴ to 10⁶ rows: errors, densities, seconds and memory beside peers.

    python -m benchmarks.bench_many_rows --data FOLDER [--sets kin40k protein labels]
                                         [--models NAME ...] [--growth N ...]
                                         [--first N ...] [--splits SEED ...]

Rows are in the order of ``default_rng(0).permutation``, the first tenth held out, X
standardised by the training rows, and y too where it is continuous. Each fit runs in a
process of its own, kernels compiled before, and BLAS as the environment has it. "nlpd"
is the negative log predictive density of held-out rows in nats, "crps" the continuous
ranked probability score (Brier's score for labels), "coverage" that of 90 % intervals,
"GiB" the largest resident memory less that of imports and data. The peers are in
``benchmarks/peers/large_tables.py``.

Of the sets "labels" and "counts" the "rmse" is that of probabilities or rates, and
"truth" the density under which they were drawn; see ``benchmarks/large_tables.py``.
``--growth`` fits made-up tables of eight columns and N rows instead. ``--first`` fits
the first N training rows only, 0 for all of them, of tables in the order of each of the
``--splits``: the section "more_rows" of ``benchmarks/many_rows.json`` comes from

    python -m benchmarks.bench_many_rows --sets protein labels counts
        --models PLSClassifier "PLSRegressor, StudentT" "PLSRegressor, NegativeBinomial"
        --first 1000 8000 0 --splits 0 1 2
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import poisson

import skgpx
from benchmarks.bench_scale import peak_memory
from benchmarks.data import add_data_argument
from benchmarks.forecasts import Forecast, of_distribution, of_labels
from benchmarks.large_tables import KINDS, SETS, Table, read
from benchmarks.peers import large_tables as peers
from benchmarks.report import progress, report
from skgpx import likelihoods

Array = NDArray[np.float64]

# ---- Models --------------------------------------------------------------------------


def regressor(likelihood: str | None = None, **parameters: Any) -> Callable:
    """Scores under a PLSRegressor."""

    def fit(X: Array, y: Array, X_test: Array, y_test: Array) -> Forecast:
        chosen = None if likelihood is None else getattr(likelihoods, likelihood)()
        model = skgpx.PLSRegressor(likelihood=chosen, random_state=0, **parameters)
        return of_distribution(model.fit(X, y).predict_dist(X_test), y_test)

    return fit


def estimator(name: str) -> Callable:
    """Scores under another regressor of the library."""

    def fit(X: Array, y: Array, X_test: Array, y_test: Array) -> Forecast:
        model = getattr(skgpx, name)(random_state=0)
        return of_distribution(model.fit(X, y).predict_dist(X_test), y_test)

    return fit


def classifier(**parameters: Any) -> Callable:
    """Scores under a PLSClassifier."""

    def fit(X: Array, y: Array, X_test: Array, y_test: Array) -> Forecast:
        model = skgpx.PLSClassifier(random_state=0, **parameters).fit(X, y)
        return of_labels(model.predict_proba(X_test)[:, 1], y_test)

    return fit


def peer(function: Callable, *arguments: Any, **parameters: Any) -> Callable:
    """Scores under a peer."""

    def fit(X: Array, y: Array, X_test: Array, y_test: Array) -> Forecast:
        return function(*arguments, X, y, X_test, y_test, **parameters)

    return fit


MODELS: dict[str, dict[str, Callable]] = {
    "continuous": {
        "PLSRegressor": regressor(),
        "PLSRegressor, no neighbours": regressor(n_neighbors=0),
        "PLSRegressor, StudentT": regressor("StudentT"),
        "PLSRegressor, HeteroscedasticGaussian": regressor("HeteroscedasticGaussian"),
        "PLSRegressor, HeteroscedasticStudentT": regressor("HeteroscedasticStudentT"),
        "ExactGPRegressor": estimator("ExactGPRegressor"),
        "GWIRegressor": estimator("GWIRegressor"),
        "SpectralVGPRegressor": estimator("SpectralVGPRegressor"),
        "SteinRFFRegressor": estimator("SteinRFFRegressor"),
        "GPBoost, 20 neighbours": peer(peers.gpboost, "gaussian"),
        "GPBoost, 40 neighbours": peer(peers.gpboost, "gaussian", n_neighbors=40),
        "GPBoost, full scale": peer(peers.gpboost, "gaussian", n_inducing=500),
        "GPBoost, Student t": peer(peers.gpboost, "student t"),
        "GPBoost, heteroscedastic": peer(peers.gpboost, "heteroscedastic"),
        "SVGP of GPyTorch": peer(peers.svgp),
        "Nystroem and BayesianRidge": peer(peers.ridge),
        "boosted trees": peer(peers.boosting, "continuous"),
        "boosted quantiles": peer(peers.boosted_quantiles),
        "NGBoost": peer(peers.ngboost, "continuous"),
        "CatBoost, uncertainty": peer(peers.catboost, "continuous"),
    },
    "labels": {
        "PLSClassifier": classifier(),
        "PLSClassifier, no neighbours": classifier(n_neighbors=0),
        "GPBoost, 20 neighbours": peer(peers.gpboost, "labels"),
        "Nystroem and LogisticRegressionCV": peer(peers.logistic),
        "boosted trees": peer(peers.boosting, "labels"),
        "NGBoost": peer(peers.ngboost, "labels"),
        "CatBoost": peer(peers.catboost, "labels"),
    },
    "counts": {
        "PLSRegressor, Poisson": regressor("Poisson"),
        "PLSRegressor, Poisson, no neighbours": regressor("Poisson", n_neighbors=0),
        "PLSRegressor, NegativeBinomial": regressor("NegativeBinomial"),
        "GPBoost, 20 neighbours": peer(peers.gpboost, "counts"),
        "boosted trees": peer(peers.boosting, "counts"),
        "NGBoost": peer(peers.ngboost, "counts"),
        "CatBoost": peer(peers.catboost, "counts"),
    },
}


# ---- Measurements --------------------------------------------------------------------


def measure(data: str, name: str, split: int, first: int) -> dict[str, Any]:
    """Fit once in this process: the first rows, or all of them for 0."""
    table = read(data, split, first or None)
    fit = MODELS[table.kind][name]
    skgpx.compile_kernels()
    memory = peak_memory()
    start = time.perf_counter()
    cpu = time.process_time()
    forecast = fit(table.X, table.y, table.X_test, table.y_test)
    seconds = time.perf_counter() - start
    cpu_seconds = time.process_time() - cpu
    target = table.y_test if table.means is None else table.means
    row: dict[str, Any] = {"data": data, "rows": len(table.y), "model": name}
    row["split"] = split
    row["rmse"] = float(np.sqrt(np.mean((target - forecast.mean) ** 2)))
    row["nlpd"] = _mean(-forecast.log_density)
    row["crps"] = _mean(forecast.crps)
    row["coverage"] = _mean(forecast.inside)
    if table.means is not None:
        row["truth"] = _entropy(table)
    row["s"] = seconds
    row["CPU s"] = cpu_seconds
    row["GiB"] = peak_memory() - memory
    return row


def _mean(scores: Array) -> float | None:
    """Mean of scores that a model has."""
    return None if np.isnan(scores).any() else float(np.mean(scores))


def _entropy(table: Table) -> float:
    """Negative log density of labels or counts under which they were drawn."""
    means = table.means
    assert means is not None
    if table.kind == "labels":
        return float(-np.mean(of_labels(means, table.y_test).log_density))
    return float(-np.mean(poisson(means).logpmf(table.y_test)))


def in_child(
    data: str,
    name: str,
    split: int,
    first: int,
    seconds: float,
) -> dict[str, Any]:
    """Measure in a process of its own, which is stopped after some seconds."""
    program = (
        "import json, warnings; warnings.simplefilter('ignore');"
        "from benchmarks.bench_many_rows import measure;"
        f"print(json.dumps(measure({data!r}, {name!r}, {split}, {first})))"
    )
    row: dict[str, Any] = {"data": data, "model": name, "split": split}
    if first:
        row["rows"] = first
    try:
        done = subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds,
        )
    except subprocess.TimeoutExpired:
        return row | {"error": f"did not end within {seconds:.0f} s"}
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["killed"])[-1]
        return row | {"error": last}
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Measure every model on every set and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_data_argument(parser)
    parser.add_argument("--sets", nargs="+", default=SETS)
    parser.add_argument("--models", nargs="+", help="default: all that suit the set")
    parser.add_argument("--growth", type=int, nargs="+", default=())
    parser.add_argument("--first", type=int, nargs="+", default=[0])
    parser.add_argument("--splits", type=int, nargs="+", default=[0])
    parser.add_argument("--seconds", type=float, default=3600.0, help="of one fit")
    arguments = parser.parse_args()
    if arguments.data is not None:
        os.environ["SKGPX_BENCH_DATA"] = str(Path(arguments.data).resolve())
    warnings.simplefilter("ignore")
    rows = []
    for data in map(str, arguments.growth or arguments.sets):
        suitable = MODELS[KINDS.get(data, "continuous")]
        for name in arguments.models or suitable:
            if name not in suitable:
                continue
            for split, first in product(arguments.splits, arguments.first):
                row = in_child(data, name, split, first, arguments.seconds)
                rows.append(row)
                progress(row)
    report("many_rows", rows, {"held out": "a tenth", "BLAS": "default"})


if __name__ == "__main__":
    main()
