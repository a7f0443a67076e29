"""Averaged hyperparameters of few rows under other likelihoods than Gaussian noise.

    python -m benchmarks.bench_averaging_likelihoods [--rows 40 100] [--seeds 2]
                                                     [--only boston ...]
                                                     [--cases classes student ...]
                                                     [--classifier GWIClassifier]

Means at up to 1000 held-out rows: log loss and area under the ROC curve of two classes
(targets above their median, or tables of two classes), log loss and accuracy of several
(targets in three classes of equal size, of concrete in five, grades of wine, tables of
classes, and made-up ones); negative log density and coverage of 90 % intervals of
numbers. "counts" are Poisson numbers with
rates ``exp(1 + z)``, z the standardised target within four standard deviations. CPU
seconds are those of a fit. "60 columns" is made up: two of its columns matter.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np
from sklearn.metrics import log_loss, roc_auc_score

from benchmarks.data import add_data_argument, load
from benchmarks.report import progress, report
from skgpx import GWIClassifier, PLSClassifier, PLSRegressor
from skgpx.likelihoods import Poisson, StudentT

Array = Any
WIDE = "60 columns"
NUMBERS = (
    "boston",
    "concrete",
    "airfoil",
    "power",
    "wine",
    "energy_heating",
    "kin8nm",
    "protein",
)
TWO_CLASSES = (
    "sklearn_breast_cancer",
    "heart",
    "ionosphere",
    "diabetes",
    "rice",
    "wine_colour",
)
MADE_UP = ("noisy columns", "centres", "rings")
TABLES = {
    "classes": (*NUMBERS, *TWO_CLASSES, WIDE),
    "several": (
        "sklearn_iris",
        "sklearn_wine",
        "wine",
        "boston",
        "concrete",
        "airfoil",
        "energy_heating",
        "kin8nm",
        *MADE_UP,
    ),
    "student": (*NUMBERS[:-1], "sklearn_diabetes"),
    "counts": (*NUMBERS[:-1], "sklearn_diabetes"),
}


CLASSIFIERS = {"PLSClassifier": PLSClassifier, "GWIClassifier": GWIClassifier}


def rows_of(case: str, name: str, folder: Any, seed: int) -> tuple[Array, Array]:
    """Rows of a table in a random order, with the target of the case."""
    rng = np.random.default_rng(seed)
    if name == WIDE:
        X = rng.standard_normal((1000, 60))
        f = 2.0 * X[:, 0] + 2.0 * np.sin(2.0 * X[:, 1])
        return X, (f + rng.logistic(size=1000) > 0.0).astype(np.float64)
    if name in MADE_UP:
        return made_up_classes(name, np.random.default_rng(100 + seed))
    X, y = load(name, folder)
    if case == "classes" and name in NUMBERS:
        y = (y > np.median(y)).astype(np.float64)
    elif case == "several" and name == "wine":
        y = np.clip(y, 5.0, 7.0)
    elif case == "several" and name in NUMBERS:
        levels = [0.2, 0.4, 0.6, 0.8] if name == "concrete" else [0.33, 0.67]
        y = np.digitize(y, np.quantile(y, levels)).astype(np.float64)
    order = rng.permutation(len(y))
    return X[order], y[order]


def made_up_classes(name: str, rng: np.random.Generator) -> tuple[Array, Array]:
    """Four classes of three of eight columns, five normal ones, or four rings."""
    n = 1200
    if name == "centres":
        y = np.arange(n) % 5
        centres = 1.5 * rng.standard_normal((5, 4))
        return centres[y] + rng.standard_normal((n, 4)), y.astype(np.float64)
    if name == "rings":
        X = rng.uniform(-2.0, 2.0, (n, 2))
        radius = np.hypot(X[:, 0], X[:, 1]) + 0.15 * rng.standard_normal(n)
        return X, np.digitize(radius, [0.8, 1.4, 2.0]).astype(np.float64)
    X = rng.standard_normal((n, 8))
    functions = (
        2.0 * np.sin(2.0 * X[:, 0]),
        2.0 * X[:, 1],
        X[:, 0] * X[:, 1],
        1.5 * np.cos(2.0 * X[:, 2]),
    )
    f = np.stack(functions, axis=1)
    return X, np.argmax(f + rng.gumbel(size=f.shape), axis=1).astype(np.float64)


def score_classes(model: Any, X: Array, y: Array) -> dict[str, float]:
    """Log loss, accuracy, and area under the ROC curve of two classes."""
    known = np.isin(y, model.classes_)
    probabilities = model.predict_proba(X[known])
    scores = {
        "loss": float(log_loss(y[known], probabilities, labels=model.classes_)),
        "accuracy": float(model.score(X[known], y[known])),
    }
    if len(model.classes_) == 2:
        scores["auc"] = float(roc_auc_score(y[known], probabilities[:, 1]))
    return scores


def score_numbers(model: Any, X: Array, y: Array) -> dict[str, float]:
    """Negative log density, and coverage of 90 % intervals."""
    low, high = model.predict_interval(X, 0.9).T
    return {
        "loss": -float(np.mean(model.log_predictive_density(X, y))),
        "coverage": float(np.mean((low <= y) & (y <= high))),
    }


def measure(
    case: str,
    X: Array,
    y: Array,
    n: int,
    hyperparameters: str,
    classifier: str = "PLSClassifier",
) -> dict[str, float]:
    """Scores and CPU seconds of a fit of the first n rows."""
    settings = {"hyperparameters": hyperparameters, "random_state": 0}
    test = slice(n, n + 1000)
    score = score_numbers
    if case in ("classes", "several"):
        model = CLASSIFIERS[classifier](**settings)
        score = score_classes
    elif case == "student":
        model = PLSRegressor(likelihood=StudentT(), **settings)
        y = (y - y[:n].mean()) / y[:n].std()
    else:
        model = PLSRegressor(likelihood=Poisson(), **settings)
        z = np.clip((y - y[:n].mean()) / y[:n].std(), -4.0, 4.0)
        y = np.random.default_rng(1).poisson(np.exp(1.0 + z)).astype(np.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.process_time()
        model.fit(X[:n], y[:n])
        seconds = time.process_time() - start
        return {**score(model, X[test], y[test]), "CPU s": seconds}


def main() -> None:
    """Print a line for each case, table, number of rows and way."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[40, 100])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--only", nargs="+", default=None)
    parser.add_argument("--cases", nargs="+", default=list(TABLES))
    parser.add_argument("--ways", nargs="+", default=["maximise", "average"])
    parser.add_argument("--classifier", choices=CLASSIFIERS, default="PLSClassifier")
    add_data_argument(parser)
    options = parser.parse_args()
    table = []
    for case in options.cases:
        for n in options.rows:
            names = [
                name
                for name in TABLES[case]
                if options.only is None or name in options.only
            ]
            for way in options.ways:
                results = []
                for name in names:
                    for seed in range(options.seeds):
                        X, y = rows_of(case, name, options.data, seed)
                        n_contrasts = max(len(np.unique(y)) - 1, 1)
                        is_averaged = case != "several" or n <= 300 // n_contrasts
                        if len(y) < n + 50 or not is_averaged:
                            continue
                        result = measure(case, X, y, n, way, options.classifier)
                        row = {"case": case, "rows": n, "data": name, "way": way}
                        row |= {"seed": seed, **result}
                        table.append(row)
                        progress(row)
                        results.append(result)
                means = {
                    key: float(np.mean([result[key] for result in results]))
                    for key in results[0]
                }
                row = {"case": case, "rows": n, "data": "mean", "way": way}
                table.append(row | means)
                progress(table[-1])
    shown = (
        "case",
        "rows",
        "data",
        "way",
        "loss",
        "auc",
        "accuracy",
        "coverage",
        "CPU s",
    )
    report("averaging_likelihoods", table, {"seeds": options.seeds}, shown)


if __name__ == "__main__":
    main()
