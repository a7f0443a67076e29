"""Regression on 10⁴ to 10⁶ rows: errors, densities, seconds and memory beside peers.

    python -m benchmarks.bench_many_rows --data FOLDER [--sets kin40k protein]
                                         [--models NAME ...] [--growth N ...]

Rows are in the order of ``default_rng(0).permutation``, the first tenth held out, X and
y standardised by the training rows. Each fit runs in a process of its own, kernels
compiled before, and BLAS as the environment has it. "nlpd" is the negative log
predictive density of held-out rows in nats, "coverage" that of 95 % intervals, "GiB"
the largest resident memory less that of imports and data. GPBoost has a Matern 3/2
kernel, one lengthscale a column, and Vecchia's approximation with 20 or 40 neighbours;
"nystroem" is Nystroem of scikit-learn, 1000 components, and BayesianRidge. ``--growth``
fits made-up tables of eight columns and N rows instead, from bench_scale.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import BayesianRidge
from sklearn.pipeline import make_pipeline

import skgpx
from benchmarks.bench_scale import make_data, peak_memory
from benchmarks.data import add_data_argument, load
from benchmarks.report import progress, report

Array = NDArray[np.float64]
Moments = tuple[Array, Array]


def ours(model: Any, X: Array, y: Array, X_test: Array) -> Moments:
    """Moments of y under an estimator of the library."""
    distribution = model.fit(X, y).predict_dist(X_test)
    return distribution.mean(), distribution.std()


def gpboost(n_neighbors: int, X: Array, y: Array, X_test: Array) -> Moments:
    """Moments of y under GPBoost's Vecchia approximation."""
    import gpboost as gpb

    model = gpb.GPModel(
        gp_coords=X, cov_function="matern_ard", cov_fct_shape=1.5,
        gp_approx="vecchia", num_neighbors=n_neighbors, likelihood="gaussian",
    )  # fmt: skip
    model.fit(y=y)
    found = model.predict(gp_coords_pred=X_test, predict_var=True)
    return found["mu"], np.sqrt(found["var"])


def linear(X: Array, y: Array, X_test: Array) -> Moments:
    """Bayesian linear regression on 1000 features of a kernel of unit lengthscale."""
    features = Nystroem(gamma=0.5 / X.shape[1], n_components=1000, random_state=0)
    model = make_pipeline(features, BayesianRidge()).fit(X, y)
    return model.predict(X_test, return_std=True)


def boosting(X: Array, y: Array, X_test: Array) -> Moments:
    """Boosted trees, whose standard deviation is that of a fifth held out."""
    n = len(y) // 5
    model = HistGradientBoostingRegressor(max_iter=1000, early_stopping=True)
    error = y[:n] - model.fit(X[n:], y[n:]).predict(X[:n])
    return model.predict(X_test), np.full(len(X_test), error.std())


def fitted(name: str, X: Array, y: Array, X_test: Array) -> Moments:
    """Fit a model by its name, and predict."""
    match name:
        case "PLSRegressor":
            return ours(skgpx.PLSRegressor(random_state=0), X, y, X_test)
        case "PLSRegressor, no neighbours":
            plain = skgpx.PLSRegressor(n_neighbors=0, random_state=0)
            return ours(plain, X, y, X_test)
        case "ExactGPRegressor":
            return ours(skgpx.ExactGPRegressor(random_state=0), X, y, X_test)
        case "SteinRFFRegressor":
            return ours(skgpx.SteinRFFRegressor(random_state=0), X, y, X_test)
        case "GPBoost, 20 neighbours":
            return gpboost(20, X, y, X_test)
        case "GPBoost, 40 neighbours":
            return gpboost(40, X, y, X_test)
        case "nystroem":
            return linear(X, y, X_test)
    return boosting(X, y, X_test)


MODELS = ("PLSRegressor", "PLSRegressor, no neighbours", "ExactGPRegressor")
MODELS += ("SteinRFFRegressor", "GPBoost, 20 neighbours", "GPBoost, 40 neighbours")
MODELS += ("nystroem", "boosting")


def measure(data: str, name: str) -> dict[str, Any]:
    """Fit once in this process."""
    if data.isdigit():
        X, y = make_data("gaussian", int(data) + 2000)
        order = np.arange(len(y))
        held = 2000
    else:
        X, y = load(data)
        order, held = np.random.default_rng(0).permutation(len(y)), len(y) // 10
    table = np.column_stack((X, y))[order]
    table = (table - table[held:].mean(axis=0)) / table[held:].std(axis=0)
    (X_test, y_test), (X, y) = (
        (part[:, :-1], part[:, -1]) for part in (table[:held], table[held:])
    )
    skgpx.compile_kernels()
    before, start, cpu = peak_memory(), time.perf_counter(), time.process_time()
    mean, std = fitted(name, np.ascontiguousarray(X), y.copy(), X_test)
    row = {"data": data, "rows": len(y), "model": name}
    z = (y_test - mean) / std
    row |= {"rmse": float(np.sqrt(np.mean((y_test - mean) ** 2)))}
    row |= {"nlpd": float(np.mean(np.log(std) - norm.logpdf(z)))}
    row |= {"coverage": float(np.mean(np.abs(z) < 1.96))}
    row |= {"s": time.perf_counter() - start, "CPU s": time.process_time() - cpu}
    return row | {"GiB": peak_memory() - before}


def in_child(data: str, name: str) -> dict[str, Any]:
    """Measure in a process of its own."""
    program = (
        "import json, warnings; warnings.simplefilter('ignore');"
        "from benchmarks.bench_many_rows import measure;"
        f"print(json.dumps(measure({data!r}, {name!r})))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["killed"])[-1]
        return {"data": data, "model": name, "error": last}
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Measure every model on every set and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_data_argument(parser)
    parser.add_argument("--sets", nargs="+", default=("kin40k", "protein"))
    parser.add_argument("--models", nargs="+", default=MODELS)
    parser.add_argument("--growth", type=int, nargs="+", default=())
    arguments = parser.parse_args()
    if arguments.data is not None:
        os.environ["SKGPX_BENCH_DATA"] = str(Path(arguments.data).resolve())
    warnings.simplefilter("ignore")
    rows = []
    for data in map(str, arguments.growth or arguments.sets):
        for name in arguments.models:
            if name.startswith("GPBoost") and not importlib.util.find_spec("gpboost"):
                continue
            rows.append(in_child(data, name))
            progress(rows[-1])
    report("many_rows", rows, {"held out": "a tenth", "BLAS": "default"})


if __name__ == "__main__":
    main()
