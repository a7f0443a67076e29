"""Regression on 10⁴ to 10⁶ rows: errors, densities, seconds and memory beside peers.

    python -m benchmarks.bench_many_rows --data FOLDER [--sets kin40k protein classes]
                                         [--models NAME ...] [--growth N ...]

Rows are in the order of ``default_rng(0).permutation``, the first tenth held out, X and
y standardised by the training rows. Each fit runs in a process of its own, kernels
compiled before, and BLAS as the environment has it. "nlpd" is the negative log
predictive density of held-out rows in nats, "coverage" that of 95 % intervals, "GiB"
the largest resident memory less that of imports and data. GPBoost has a Matern 3/2
kernel, one lengthscale a column, and Vecchia's approximation with 20 or 40 neighbours,
"full scale" with 500 inducing points besides; GPyTorch's SVGP has 1000 points and 20
epochs; "nystroem" is Nystroem of scikit-learn, 1000 components, and BayesianRidge.

The sets "classes" and "counts" are labels and counts drawn from kin40k, with log odds
``3 y`` and rates ``exp(1 + 0.7 y)``: there "rmse" is that of probabilities or rates,
and GPBoost has Laplace's approximation. "truth" is the density under which they were
drawn. ``--growth`` fits made-up tables of eight columns and N rows instead, from
bench_scale.
"""

from __future__ import annotations

import argparse
import importlib
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
from scipy.special import expit
from scipy.stats import norm, poisson
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import BayesianRidge, LogisticRegressionCV
from sklearn.pipeline import make_pipeline

import skgpx
from benchmarks.bench_scale import make_data, peak_memory
from benchmarks.data import add_data_argument, load
from benchmarks.report import progress, report
from skgpx.likelihoods import Poisson

Array = NDArray[np.float64]
Moments = tuple[Array, Array]


def ours(model: Any, X: Array, y: Array, X_test: Array) -> Moments:
    """Moments of y under an estimator of the library."""
    distribution = model.fit(X, y).predict_dist(X_test)
    return distribution.mean(), distribution.std()


def gpboost(name: str, X: Array, y: Array, X_test: Array, likelihood: str) -> Moments:
    """Moments under GPBoost: of y for normal noise, otherwise of the latent values."""
    import gpboost as gpb

    how = {"gp_approx": "vecchia", "num_neighbors": 40 if "40" in name else 20}
    if "full scale" in name:
        how |= {"gp_approx": "full_scale_vecchia", "num_ind_points": 500}
    model = gpb.GPModel(
        gp_coords=X, cov_function="matern_ard", cov_fct_shape=1.5,
        likelihood=likelihood, **how,
    )  # fmt: skip
    normal = likelihood == "gaussian"
    one = {} if normal else {"X": np.ones((len(y), 1))}
    model.fit(y=y, **one)
    one = {} if normal else {"X_pred": np.ones((len(X_test), 1))}
    response = {"predict_var": True, "predict_response": normal}
    found = model.predict(gp_coords_pred=X_test, **one, **response)
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
        case "SVGP of GPyTorch":
            peer = importlib.import_module("benchmarks.peers.minibatch_svgp")
            return peer.fit_and_predict(X, y, X_test)[:2]
        case _ if name.startswith("GPBoost"):
            return gpboost(name, X, y, X_test, "gaussian")
        case "nystroem":
            return linear(X, y, X_test)
    return boosting(X, y, X_test)


MODELS = ("PLSRegressor", "PLSRegressor, no neighbours", "ExactGPRegressor")
MODELS += ("SteinRFFRegressor", "GPBoost, 20 neighbours", "GPBoost, 40 neighbours")
MODELS += ("GPBoost, full scale", "SVGP of GPyTorch", "nystroem", "boosting")
SETS = ("kin40k", "protein", "classes", "counts")


def drawn(data: str, f: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Labels or counts, and their probabilities or rates."""
    if data == "classes":
        mean = expit(3.0 * f)
        return (rng.random(len(f)) < mean).astype(float), mean
    mean = np.exp(1.0 + 0.7 * f)
    return rng.poisson(mean).astype(float), mean


def density(data: str, y: Array, mean: Array) -> Array:
    """Density of labels or counts."""
    return (
        np.where(y > 0, mean, 1.0 - mean) if data == "classes" else poisson(mean).pmf(y)
    )


def discrete(
    data: str, name: str, X: Array, y: Array, X_test: Array, y_test: Array
) -> tuple[Array, Array]:
    """Means at test rows, and log densities."""
    classes = data == "classes"
    if name.startswith("GPBoost"):
        likelihood = "bernoulli_logit" if classes else "poisson"
        latent, std = gpboost(name, X, y, X_test, likelihood)
        nodes, weights = np.polynomial.hermite_e.hermegauss(31)
        link = expit if classes else np.exp
        values, weights = link(latent[:, None] + std[:, None] * nodes), weights.copy()
        weights /= weights.sum()
        each = density(data, y_test[:, None], values) @ weights
        return values @ weights, np.log(each)
    if name.startswith("PLSRegressor"):
        none = {"n_neighbors": 0} if "no neighbours" in name else {}
        if not classes:
            model = skgpx.PLSRegressor(
                likelihood=Poisson(), random_state=0, **none
            ).fit(X, y)
            found = model.predict_dist(X_test)
            return found.mean(), found.log_density(y_test)
        model = skgpx.PLSClassifier(random_state=0, **none).fit(X, y)
        mean = model.predict_proba(X_test)[:, 1]
    elif name == "nystroem" and classes:
        features = Nystroem(gamma=0.5 / X.shape[1], n_components=1000, random_state=0)
        model = make_pipeline(features, LogisticRegressionCV(max_iter=1000))
        mean = model.fit(X, y).predict_proba(X_test)[:, 1]
    elif name == "boosting":
        how = {"max_iter": 1000, "early_stopping": True, "random_state": 0}
        if classes:
            model = HistGradientBoostingClassifier(**how).fit(X, y)
            mean = model.predict_proba(X_test)[:, 1]
        else:
            model = HistGradientBoostingRegressor(loss="poisson", **how).fit(X, y)
            mean = model.predict(X_test)
    else:
        raise NotImplementedError
    return mean, np.log(density(data, y_test, mean))


def measure(data: str, name: str) -> dict[str, Any]:
    """Fit once in this process."""
    if data.isdigit():
        X, y = make_data("gaussian", int(data) + 2000)
        order = np.arange(len(y))
        held = 2000
    else:
        X, y = load(data if data in ("kin40k", "protein") else "kin40k")
        order, held = np.random.default_rng(0).permutation(len(y)), len(y) // 10
    table = np.column_stack((X, y))[order]
    table = (table - table[held:].mean(axis=0)) / table[held:].std(axis=0)
    (X_test, y_test), (X, y) = (
        (part[:, :-1], part[:, -1]) for part in (table[:held], table[held:])
    )
    skgpx.compile_kernels()
    before, start, cpu = peak_memory(), time.perf_counter(), time.process_time()
    row: dict[str, Any] = {"data": data, "rows": len(y), "model": name}
    X = np.ascontiguousarray(X)
    if data in ("classes", "counts"):
        truth = np.concatenate((y_test, y))
        values, means = drawn(data, truth, np.random.default_rng(1))
        y_test, y = values[:held], values[held:]
        mean, logs = discrete(data, name, X, y, X_test, y_test)
        row |= {"rmse": float(np.sqrt(np.mean((means[:held] - mean) ** 2)))}
        row |= {"nlpd": float(-np.mean(logs)), "coverage": None}
        truth = -np.mean(np.log(density(data, y_test, means[:held])))
        row |= {"truth": float(truth)}
    else:
        mean, std = fitted(name, X, y.copy(), X_test)
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
    parser.add_argument("--sets", nargs="+", default=SETS)
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
            row = in_child(data, name)
            if row.get("error") != "NotImplementedError":
                rows.append(row)
                progress(row)
    report("many_rows", rows, {"held out": "a tenth", "BLAS": "default"})


if __name__ == "__main__":
    main()
